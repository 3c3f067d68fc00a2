//! The table of TCP's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value, named, names, word};

use super::adaptive_pacing::{self, parameters as tcp_ap};
use super::algorithm::Algorithm;
use super::config::{Config, FullAck, KeepAlive};
use super::spelling::{
    GROWTH, INITIAL_WINDOW, LIMIT, LIMIT_AFTER_R1, algorithm, limit, limit_after_r1, set_growth,
    set_parsed, shown_growth, shown_limit, shown_limit_after_r1, shown_window, window,
};
use super::vegas::{self, parameters as of_vegas};

/// The settings of TCP.
pub static PARAMETERS: Table<Config> = Table {
    name: "tcp",
    parameters: &[
        Parameter::new(
            "mss",
            Kind::Count { least: 32, most: 65_535, unit: "octets" },
            "The MSS to announce and never exceed, TCP options included, so with timestamps a \
             segment carries 12 fewer; without, what the MTU of the local link leaves (RFC 9293, \
             3.7.1).",
            |it| it.mss.into(),
            |it, to| it.mss = Some(to.count()),
        ),
        Parameter::new(
            "send-buffer",
            Kind::Count { least: 1, most: 1 << 30, unit: "octets" },
            "What the application may write ahead of the acknowledgements of the peer.",
            |it| it.send_buffer.into(),
            |it, to| it.send_buffer = to.count(),
        ),
        Parameter::new(
            "receive-buffer",
            Kind::Count { least: 1, most: 1 << 30, unit: "octets" },
            "What may wait for the application, out-of-order data included.",
            |it| it.receive_buffer.into(),
            |it, to| it.receive_buffer = to.count(),
        ),
        Parameter::new(
            "max-holes",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "Holes kept among out-of-order data; a segment that would make one more is dropped.",
            |it| it.max_holes.into(),
            |it, to| it.max_holes = to.count(),
        ),
        Parameter::new(
            "window-scaling",
            Kind::Flag,
            "Window scaling (RFC 7323, 2).",
            |it| it.offer.window_scaling.into(),
            |it, to| it.offer.window_scaling = to.flag(),
        ),
        Parameter::new(
            "timestamps",
            Kind::Flag,
            "Timestamps, for round-trip times and against wrapped sequence numbers (RFC 7323, 3 \
             to 5).",
            |it| it.offer.timestamps.into(),
            |it, to| it.offer.timestamps = to.flag(),
        ),
        Parameter::new(
            "timestamp-tick",
            Kind::Period { least: Duration::from_micros(1), most: SECOND },
            "The tick of the timestamps clock (RFC 7323, 5.4).",
            |it| it.offer.timestamp_tick.into(),
            |it, to| it.offer.timestamp_tick = to.period(),
        ),
        Parameter::new(
            "sack",
            Kind::Flag,
            "Selective acknowledgements (RFC 2018) and recovery by them (RFC 6675); without, \
             NewReno (RFC 6582).",
            |it| it.offer.sack.into(),
            |it, to| it.offer.sack = to.flag(),
        ),
        Parameter::new(
            "duplicate-sack",
            Kind::Flag,
            "Telling the sender what came twice (RFC 2883).",
            |it| it.offer.duplicate_sack.into(),
            |it, to| it.offer.duplicate_sack = to.flag(),
        ),
        Parameter::new(
            "ecn",
            Kind::Flag,
            "Explicit congestion notification (RFC 3168).",
            |it| it.offer.ecn.into(),
            |it, to| it.offer.ecn = to.flag(),
        ),
        Parameter::new(
            "nagle",
            Kind::Flag,
            "No small segment while any data is unacknowledged (RFC 9293, 3.7.4).",
            |it| it.nagle.into(),
            |it, to| it.nagle = to.flag(),
        ),
        Parameter::new(
            "delayed-ack.segments",
            Kind::Count { least: 1, most: 1_000, unit: "" },
            "At every how many segments an acknowledgement goes out, at the latest (RFC 5681, \
             4.2: 2).",
            |it| it.delayed_ack.segments.into(),
            |it, to| it.delayed_ack.segments = to.count(),
        ),
        Parameter::new(
            "delayed-ack.delay",
            Kind::Period { least: Duration::ZERO, most: MINUTE },
            "How long an acknowledgement may wait (RFC 5681, 4.2: below 500 ms); 0 acknowledges \
             at once.",
            |it| it.delayed_ack.delay.into(),
            |it, to| it.delayed_ack.delay = to.period(),
        ),
        Parameter::new(
            "rto.initial",
            Kind::Period { least: SHORTEST, most: DAY },
            "The retransmission timeout for data before the first round-trip time is known (RFC \
             6298, 2.1).",
            |it| it.rto.initial.into(),
            |it, to| it.rto.initial = to.period(),
        ),
        Parameter::new(
            "rto.syn",
            Kind::Period { least: SHORTEST, most: DAY },
            "The same for the first SYN or SYN-ACK (RFC 6298, 2.1).",
            |it| it.rto.syn.into(),
            |it, to| it.rto.syn = to.period(),
        ),
        Parameter::new(
            "rto.after-syn-timeout",
            Kind::Period { least: SHORTEST, most: DAY },
            "The least for the first data when the handshake timed out (RFC 6298, 5.7).",
            |it| it.rto.after_syn_timeout.into(),
            |it, to| it.rto.after_syn_timeout = to.period(),
        ),
        Parameter::new(
            "rto.min",
            Kind::Period { least: Duration::ZERO, most: DAY },
            "The shortest timeout (RFC 6298, 2.4).",
            |it| it.rto.min.into(),
            |it, to| it.rto.min = to.period(),
        ),
        Parameter::new(
            "rto.max",
            Kind::Period { least: SHORTEST, most: DAY },
            "The longest timeout, also when backed off (RFC 6298, 2.5).",
            |it| it.rto.max.into(),
            |it, to| it.rto.max = to.period(),
        ),
        Parameter::new(
            "rto.alpha",
            Kind::Share { least: 0.0, most: 1.0 },
            "The gain of the mean round-trip time (RFC 6298, 2.3).",
            |it| Value::Share(it.rto.alpha),
            |it, to| it.rto.alpha = to.number(),
        ),
        Parameter::new(
            "rto.beta",
            Kind::Share { least: 0.0, most: 1.0 },
            "The gain of its deviation (RFC 6298, 2.3).",
            |it| Value::Share(it.rto.beta),
            |it, to| it.rto.beta = to.number(),
        ),
        Parameter::new(
            "rto.k",
            Kind::Number { least: 0.0, most: 1_000.0 },
            "The coefficient of the deviation (RFC 6298, 2.2).",
            |it| it.rto.k.into(),
            |it, to| it.rto.k = to.number(),
        ),
        Parameter::new(
            "rto.granularity",
            Kind::Period { least: Duration::ZERO, most: MINUTE },
            "The granularity of the clock, G (RFC 6298, 2).",
            |it| it.rto.granularity.into(),
            |it, to| it.rto.granularity = to.period(),
        ),
        Parameter::new(
            "rto.backoff",
            Kind::Number { least: 1.0, most: 100.0 },
            "What the timeout is multiplied by each time it expires (RFC 6298, 5.5).",
            |it| it.rto.backoff.into(),
            |it, to| it.rto.backoff = to.number(),
        ),
        Parameter::new(
            "rto.time-repeats",
            Kind::Flag,
            "Whether timestamps time segments that were sent again too (RFC 7323, 4.1).",
            |it| it.rto.time_repeats.into(),
            |it, to| it.rto.time_repeats = to.flag(),
        ),
        Parameter::new(
            "rto.forgive",
            Kind::Flag,
            "Whether any acknowledgement of new data ends backing off, not only one that gives a \
             round-trip time (RFC 6298, 5.7).",
            |it| it.rto.forgive.into(),
            |it, to| it.rto.forgive = to.flag(),
        ),
        Parameter::new(
            "algorithm",
            Kind::Word(&["new-reno", "cubic", "bbr", "tcp-ap", "vegas"]),
            "Which congestion control: RFC 5681, RFC 9438 with all that its RFCs recommend, BBR \
             version 1, TCP with adaptive pacing, or TCP Vegas.",
            |it| algorithm(it.congestion.algorithm),
            |it, to| {
                it.congestion.algorithm = match to.text() {
                    "bbr" => Algorithm::Bbr,
                    "cubic" => Algorithm::CUBIC,
                    "tcp-ap" => Algorithm::TcpAp(adaptive_pacing::Config::default()),
                    "vegas" => Algorithm::Vegas(vegas::Config::default()),
                    _ => Algorithm::default(),
                }
            },
        ),
        Parameter::<Config>::new(
            "growth",
            GROWTH,
            "How the window grows: by one segment an acknowledgement, or by what is \
             acknowledged, at most so many segments each time (RFC 3465).",
            |it| shown_growth(it.congestion.algorithm),
            |it, to| set_growth(it, &to),
        )
        .only_with("algorithm = \"new-reno\" or \"tcp-ap\"", |it| {
            matches!(it.congestion.algorithm, Algorithm::NewReno { .. } | Algorithm::TcpAp(_))
        }),
        Parameter::<Config>::new(
            "fast-convergence",
            Kind::Flag,
            "Whether a flow that lost ground gives way to newer ones (RFC 9438, 4.7).",
            |it| match it.congestion.algorithm {
                Algorithm::Cubic { fast_convergence, .. } => fast_convergence.into(),
                _ => Value::Absent,
            },
            |it, to| {
                if let Algorithm::Cubic { fast_convergence, .. } = &mut it.congestion.algorithm {
                    *fast_convergence = to.flag();
                }
            },
        )
        .only_with(CUBIC, is_cubic),
        Parameter::<Config>::new(
            "hystart",
            Kind::Flag,
            "Whether the first slow start ends when the round-trip time grows (RFC 9406).",
            |it| match it.congestion.algorithm {
                Algorithm::Cubic { hystart, .. } => hystart.into(),
                _ => Value::Absent,
            },
            |it, to| {
                if let Algorithm::Cubic { hystart, .. } = &mut it.congestion.algorithm {
                    *hystart = to.flag();
                }
            },
        )
        .only_with(CUBIC, is_cubic),
        of_vegas::VARIANT,
        of_vegas::ALPHA,
        of_vegas::BETA,
        of_vegas::GAMMA,
        of_vegas::REBASE,
        tcp_ap::VARIANT,
        tcp_ap::HOPS,
        tcp_ap::HOP_COUNT_MODE,
        tcp_ap::WIRED_HOPS,
        tcp_ap::REACH,
        tcp_ap::SHORT_PATH,
        tcp_ap::INITIAL_INTERVAL,
        tcp_ap::ALPHA,
        tcp_ap::HISTORY,
        tcp_ap::VARIATION,
        tcp_ap::DELAY_BOUND,
        tcp_ap::LINK_RATE,
        tcp_ap::OVERHEAD,
        Parameter::new(
            "initial-window",
            INITIAL_WINDOW,
            "The window to start with (RFC 6928, 2; RFC 5681, 3.1).",
            |it| shown_window(it.congestion.initial_window),
            |it, to| set_parsed(&mut it.congestion.initial_window, window(to.text())),
        ),
        Parameter::new(
            "initial-window-after-syn-loss",
            INITIAL_WINDOW,
            "The window to start with when the handshake lost a segment (RFC 5681, 3.1).",
            |it| shown_window(it.congestion.window_after_syn_loss),
            |it, to| set_parsed(&mut it.congestion.window_after_syn_loss, window(to.text())),
        ),
        Parameter::new(
            "initial-ssthresh",
            Kind::Count { least: 0, most: 1 << 40, unit: "octets" },
            "The slow-start threshold to start with; without, there is no limit (RFC 5681, 3.1).",
            |it| it.congestion.initial_ssthresh.into(),
            |it, to| it.congestion.initial_ssthresh = Some(to.count()),
        ),
        Parameter::new(
            "restart-after-idle",
            Kind::Flag,
            "Whether an idle time of one timeout sets the window back (RFC 5681, 4.1).",
            |it| it.congestion.restart_after_idle.into(),
            |it, to| it.congestion.restart_after_idle = to.flag(),
        ),
        Parameter::new(
            "validate-window",
            Kind::Flag,
            "Whether the window stops growing while something else holds the sender (RFC 7661).",
            |it| it.congestion.validate_window.into(),
            |it, to| it.congestion.validate_window = to.flag(),
        ),
        Parameter::new(
            "undo-timeouts",
            Kind::Flag,
            "Whether a timeout is undone when timestamps show that nothing was lost (RFC 3522, \
             RFC 4015).",
            |it| it.recovery.undo_timeouts.into(),
            |it, to| it.recovery.undo_timeouts = to.flag(),
        ),
        Parameter::new(
            "duplicate-threshold",
            Kind::Count { least: 1, most: 1_000, unit: "" },
            "Duplicate acknowledgements that mean a loss (RFC 5681, 3.2).",
            |it| it.recovery.duplicate_threshold.into(),
            |it, to| it.recovery.duplicate_threshold = to.count(),
        ),
        Parameter::new(
            "limited-transmit",
            Kind::Flag,
            "New data on the first duplicate acknowledgements (RFC 3042).",
            |it| it.recovery.limited_transmit.into(),
            |it, to| it.recovery.limited_transmit = to.flag(),
        ),
        Parameter::new(
            "impatient",
            Kind::Flag,
            "Whether only the first partial acknowledgement restarts the timer (RFC 6582, 4); \
             without SACK.",
            |it| it.recovery.impatient.into(),
            |it, to| it.recovery.impatient = to.flag(),
        ),
        Parameter::new(
            "full-ack",
            Kind::Word(&names(&FULL_ACK)),
            "How the window leaves fast recovery without SACK: without a burst, or at the \
             slow-start threshold (RFC 6582, 3.2).",
            |it| word(&FULL_ACK, &it.recovery.full_ack),
            |it, to| set_parsed(&mut it.recovery.full_ack, named(&FULL_ACK, to.text())),
        ),
        Parameter::new(
            "lost-repairs",
            Kind::Flag,
            "Whether what was sent after a repair tells that it was lost (as RFC 8985); with SACK.",
            |it| it.recovery.lost_repairs.into(),
            |it, to| it.recovery.lost_repairs = to.flag(),
        ),
        Parameter::new(
            "r1",
            LIMIT,
            "When to warn the application that the peer does not answer (RFC 1122, 4.2.3.5).",
            |it| shown_limit(it.r1),
            |it, to| set_parsed(&mut it.r1, limit(to.text())),
        ),
        Parameter::new(
            "r2",
            LIMIT_AFTER_R1,
            "When to give up (RFC 1122, 4.2.3.5).",
            |it| shown_limit_after_r1(it.r2),
            |it, to| set_parsed(&mut it.r2, limit_after_r1(to.text())),
        ),
        Parameter::new(
            "r2-syn",
            LIMIT_AFTER_R1,
            "When to give up opening a connection (RFC 1122, 4.2.3.5).",
            |it| shown_limit_after_r1(it.r2_syn),
            |it, to| set_parsed(&mut it.r2_syn, limit_after_r1(to.text())),
        ),
        Parameter::new(
            "time-wait",
            Kind::Period { least: Duration::ZERO, most: DAY },
            "How long a closed connection keeps its ports (RFC 9293, 3.4.2).",
            |it| it.time_wait.into(),
            |it, to| it.time_wait = to.period(),
        ),
        Parameter::new(
            "keep-alive.idle",
            Kind::Period { least: SHORTEST, most: DAY },
            "Silence before the first probe; any of the three asks for probes, with 2 hours, 75 \
             s and 9 unless given (RFC 1122, 4.2.3.6).",
            |it| it.keep_alive.map(|it| it.idle).into(),
            |it, to| it.keep_alive.get_or_insert(KEEP_ALIVE).idle = to.period(),
        ),
        Parameter::new(
            "keep-alive.interval",
            Kind::Period { least: SHORTEST, most: DAY },
            "The time between probes.",
            |it| it.keep_alive.map(|it| it.interval).into(),
            |it, to| it.keep_alive.get_or_insert(KEEP_ALIVE).interval = to.period(),
        ),
        Parameter::new(
            "keep-alive.probes",
            Kind::Count { least: 1, most: 1_000, unit: "" },
            "Probes that go unanswered before the connection is given up.",
            |it| it.keep_alive.map(|it| it.probes).into(),
            |it, to| it.keep_alive.get_or_insert(KEEP_ALIVE).probes = to.count(),
        ),
        Parameter::new(
            "challenge-acks-per-s",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "Answers a second to segments that may be forged (RFC 5961, 7).",
            |it| it.challenge_acks_per_s.into(),
            |it, to| it.challenge_acks_per_s = to.count(),
        ),
        Parameter::new(
            "ttl",
            Kind::Count { least: 1, most: 255, unit: "" },
            "The TTL or hop limit of packets.",
            |it| it.ip.ttl.into(),
            |it, to| it.ip.ttl = to.count(),
        ),
        Parameter::new(
            "dscp",
            Kind::Count { least: 0, most: 63, unit: "" },
            "The code point of packets (RFC 2474).",
            |it| it.ip.dscp.into(),
            |it, to| it.ip.dscp = to.count(),
        ),
        Parameter::new(
            "dont-fragment",
            Kind::Flag,
            "Whether IPv4 routers may not fragment packets (RFC 1191).",
            |it| it.ip.dont_fragment.into(),
            |it, to| it.ip.dont_fragment = to.flag(),
        ),
    ],
    rules: &[
        Rule {
            names: &["rto.min", "rto.max"],
            allowed: "rto.min is at most rto.max",
            holds: |it| it.rto.min <= it.rto.max,
        },
        of_vegas::BOUNDS,
    ],
};

const CUBIC: &str = "algorithm = \"cubic\"";
const FULL_ACK: [(&str, FullAck); 2] =
    [("flight", FullAck::Flight), ("ssthresh", FullAck::Ssthresh)];
/// RFC 1122, 4.2.3.6, and what is usual.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes: 9 };
const SHORTEST: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

fn is_cubic(config: &Config) -> bool {
    matches!(config.congestion.algorithm, Algorithm::Cubic { .. })
}

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        let mut cubic = Config::default();
        cubic.congestion.algorithm = Algorithm::CUBIC;
        let mut vegas = Config::default();
        vegas.congestion.algorithm = Algorithm::Vegas(vegas::Config::default());
        let mut pacing = Config::default();
        pacing.congestion.algorithm = Algorithm::TcpAp(adaptive_pacing::Config::default());

        prove(&PARAMETERS, &[Config::default(), cubic, vegas, pacing]);
    }

    #[test]
    fn an_algorithm_has_parameters_of_its_own() {
        let mut config = Config::default();

        let given = |name| match name {
            "algorithm" => Some(Written::Text("cubic")),
            "growth" => Some(Written::Text("per-ack")),
            _ => None,
        };
        let refused = PARAMETERS.apply(&mut config, given).unwrap_err();

        assert_eq!(refused.what, "it is for algorithm = \"new-reno\" or \"tcp-ap\"");
        assert_eq!(refused.names, ["growth"]);
    }
}
