//! The settings of a connection, with their defaults.

use std::time::Duration;

use base::parameter::{Kind, Rule, Value, names};

use super::adaptive_pacing;
use super::algorithm::Algorithm;
use super::congestion::Growth;
use super::spelling::{GROWTH, INITIAL_WINDOW, LIMIT, LIMIT_AFTER_R1, growth};
pub use super::spelling::{InitialWindow, Limit};
use super::vegas;

/// Makes rows of the connection's table from the table of a congestion control, in the order of that table. They are
/// of use with this congestion control alone.
macro_rules! rows {
    ($algorithm:ident, $text:literal, $table:ident: $($row:ident = $at:literal),+ $(,)?) => {$(
        pub const $row: base::parameter::Parameter<crate::Config> =
            base::parameter::Parameter::<crate::Config>::new(
                $table.parameters[$at].name,
                $table.parameters[$at].kind,
                $table.parameters[$at].meaning,
                |it| match &it.congestion.algorithm {
                    crate::Algorithm::$algorithm(config) => ($table.parameters[$at].get)(config),
                    _ => base::parameter::Value::Absent,
                },
                |it, to| {
                    if let crate::Algorithm::$algorithm(config) = &mut it.congestion.algorithm {
                        ($table.parameters[$at].set)(config, to);
                    }
                },
            )
            .only_with($text, |it| {
                matches!(it.congestion.algorithm, crate::Algorithm::$algorithm(_))
            });
    )+};
}

/// The rows of Vegas.
mod of_vegas {
    use crate::vegas::config::TABLE;

    rows!(Vegas, "algorithm = \"vegas\"", TABLE: VARIANT = 0, ALPHA = 1, BETA = 2, GAMMA = 3, REBASE = 4);
}

/// The rows of TCP-AP.
mod tcp_ap {
    use crate::adaptive_pacing::config::TABLE;

    rows! {
        TcpAp, "algorithm = \"tcp-ap\"", TABLE:
        VARIANT = 0, HOPS = 1, HOP_COUNT_MODE = 2, WIRED_HOPS = 3, REACH = 4, SHORT_PATH = 5,
        INITIAL_INTERVAL = 6, ALPHA = 7, HISTORY = 8, VARIATION = 9, DELAY_BOUND = 10,
        LINK_RATE = 11, OVERHEAD = 12,
    }
}

base::parameters! {
    /// The settings of TCP.
    pub static PARAMETERS = "tcp";

    /// The parameters of a connection; the default is what current RFCs ask for.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from default() {
        /// The MSS to announce and never exceed, TCP options included, so with timestamps a segment carries 12 fewer;
        /// without, what the MTU of the local link leaves (RFC 9293, 3.7.1).
        #[allowed(Kind::count(32..=65_535).of("octets"))]
        pub mss: Option<u16> = None;

        /// What the application may write ahead of the acknowledgements of the peer.
        #[allowed(Kind::count(1..=1 << 30).of("octets"))]
        pub send_buffer: usize = 131_072;

        /// What may wait for the application, out-of-order data included.
        #[allowed(Kind::count(1..=1 << 30).of("octets"))]
        pub receive_buffer: usize = 131_072;

        /// Holes kept among out-of-order data; a segment that would make one more is dropped.
        // Counted, to be sent again.
        #[allowed(Kind::count(1..=1_000_000))]
        pub max_holes: usize = 256;

        /// Extensions of TCP offered to the peer; an extension is used if both ends offer it.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub offer: flat struct Offer {
            /// Window scaling (RFC 7323, 2).
            #[allowed(Kind::Flag)]
            pub window_scaling: bool = true;

            /// Timestamps, for round-trip times and against wrapped sequence numbers (RFC 7323, 3 to 5).
            #[allowed(Kind::Flag)]
            pub timestamps: bool = true;

            /// The tick of the timestamps clock (RFC 7323, 5.4).
            #[allowed(Kind::period(Duration::from_micros(1)..=SECOND))]
            pub timestamp_tick: Duration = Duration::from_millis(1);

            /// Selective acknowledgements (RFC 2018) and recovery by them (RFC 6675); without, NewReno (RFC 6582).
            #[allowed(Kind::Flag)]
            pub sack: bool = true;

            /// Telling the sender what came twice (RFC 2883).
            #[allowed(Kind::Flag)]
            pub duplicate_sack: bool = true;

            /// Explicit congestion notification (RFC 3168).
            #[allowed(Kind::Flag)]
            pub ecn: bool = false;
        }

        /// No small segment while any data is unacknowledged (RFC 9293, 3.7.4).
        #[allowed(Kind::Flag)]
        pub nagle: bool = true;

        /// When data that came in order is acknowledged; everything else is at once (RFC 5681, 4.2).
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub delayed_ack: struct DelayedAck {
            /// At every how many segments an acknowledgement goes out, at the latest (RFC 5681, 4.2: 2).
            #[allowed(Kind::count(1..=1_000))]
            pub segments: u32 = 2;

            /// How long an acknowledgement may wait (RFC 5681, 4.2: below 500 ms); 0 acknowledges at once.
            #[allowed(Kind::period(Duration::ZERO..=MINUTE))]
            pub delay: Duration = Duration::from_millis(200);
        }

        /// The retransmission timer: RTO = SRTT + max(G, K * RTTVAR) (RFC 6298, 2).
        pub rto: struct Rto {
            /// The retransmission timeout for data before the first round-trip time is known (RFC 6298, 2.1).
            #[allowed(Kind::period(SHORTEST..=DAY))]
            pub initial: Duration = Duration::from_secs(1);

            /// The same for the first SYN or SYN-ACK (RFC 6298, 2.1).
            #[allowed(Kind::period(SHORTEST..=DAY))]
            pub syn: Duration = Duration::from_secs(1);

            /// The least for the first data when the handshake timed out (RFC 6298, 5.7).
            #[allowed(Kind::period(SHORTEST..=DAY))]
            pub after_syn_timeout: Duration = Duration::from_secs(3);

            /// The shortest timeout (RFC 6298, 2.4).
            #[allowed(Kind::period(Duration::ZERO..=DAY))]
            pub min: Duration = Duration::from_secs(1);

            /// The longest timeout, also when backed off (RFC 6298, 2.5).
            #[allowed(Kind::period(SHORTEST..=DAY))]
            pub max: Duration = Duration::from_secs(60);

            /// The gain of the mean round-trip time (RFC 6298, 2.3).
            #[allowed(Kind::share(0.0..=1.0))]
            pub alpha: f64 = 0.125;

            /// The gain of its deviation (RFC 6298, 2.3).
            #[allowed(Kind::share(0.0..=1.0))]
            pub beta: f64 = 0.25;

            /// The coefficient of the deviation (RFC 6298, 2.2).
            #[allowed(Kind::number(0.0..=1_000.0))]
            pub k: f64 = 4.0;

            /// The granularity of the clock, G (RFC 6298, 2).
            #[allowed(Kind::period(Duration::ZERO..=MINUTE))]
            pub granularity: Duration = Duration::from_millis(1);

            /// What the timeout is multiplied by each time it expires (RFC 6298, 5.5).
            #[allowed(Kind::number(1.0..=100.0))]
            pub backoff: f64 = 2.0;

            /// Whether timestamps time segments that were sent again too (RFC 7323, 4.1).
            // Only if the echo belongs to the last copy, because another may be as old as the segment.
            #[allowed(Kind::Flag)]
            pub time_repeats: bool = true;

            /// Whether any acknowledgement of new data ends backing off, not only one that gives a round-trip time (RFC
            /// 6298, 5.7).
            #[allowed(Kind::Flag)]
            pub forgive: bool = false;
        }

        /// How large the congestion window is, and how it changes.
        pub congestion: flat struct Congestion {
            /// Which congestion control: RFC 5681, RFC 9438 with all that its RFCs recommend, BBR version 1, TCP with
            /// adaptive pacing, or TCP Vegas.
            #[allowed(Kind::Word(&["new-reno", "cubic", "bbr", "tcp-ap", "vegas"]))]
            #[get(|it| algorithm(it.congestion.algorithm))]
            #[set(|it, to| {
                it.congestion.algorithm = match to.text() {
                    "bbr" => Algorithm::Bbr,
                    "cubic" => Algorithm::CUBIC,
                    "tcp-ap" => Algorithm::TcpAp(adaptive_pacing::Config::default()),
                    "vegas" => Algorithm::Vegas(vegas::Config::default()),
                    _ => Algorithm::default(),
                }
            })]
            pub algorithm: Algorithm = Algorithm::default();

            /// How the window grows: by one segment an acknowledgement, or by what is acknowledged, at most so many
            /// segments each time (RFC 3465).
            #[allowed(GROWTH)]
            #[only("algorithm = \"new-reno\" or \"tcp-ap\"", |it| {
                matches!(it.congestion.algorithm, Algorithm::NewReno { .. } | Algorithm::TcpAp(_))
            })]
            #[get(|it| shown_growth(it.congestion.algorithm))]
            #[set(|it, to| set_growth(it, &to))]
            "growth";

            /// Whether a flow that lost ground gives way to newer ones (RFC 9438, 4.7).
            #[allowed(Kind::Flag)]
            #[only(CUBIC, is_cubic)]
            #[get(|it| match it.congestion.algorithm {
                Algorithm::Cubic { fast_convergence, .. } => fast_convergence.into(),
                _ => Value::Absent,
            })]
            #[set(|it, to| {
                if let Algorithm::Cubic { fast_convergence, .. } = &mut it.congestion.algorithm {
                    *fast_convergence = to.flag();
                }
            })]
            "fast-convergence";

            /// Whether the first slow start ends when the round-trip time grows (RFC 9406).
            #[allowed(Kind::Flag)]
            #[only(CUBIC, is_cubic)]
            #[get(|it| match it.congestion.algorithm {
                Algorithm::Cubic { hystart, .. } => hystart.into(),
                _ => Value::Absent,
            })]
            #[set(|it, to| {
                if let Algorithm::Cubic { hystart, .. } = &mut it.congestion.algorithm {
                    *hystart = to.flag();
                }
            })]
            "hystart";

            use of_vegas::VARIANT;
            use of_vegas::ALPHA;
            use of_vegas::BETA;
            use of_vegas::GAMMA;
            use of_vegas::REBASE;
            use tcp_ap::VARIANT;
            use tcp_ap::HOPS;
            use tcp_ap::HOP_COUNT_MODE;
            use tcp_ap::WIRED_HOPS;
            use tcp_ap::REACH;
            use tcp_ap::SHORT_PATH;
            use tcp_ap::INITIAL_INTERVAL;
            use tcp_ap::ALPHA;
            use tcp_ap::HISTORY;
            use tcp_ap::VARIATION;
            use tcp_ap::DELAY_BOUND;
            use tcp_ap::LINK_RATE;
            use tcp_ap::OVERHEAD;
            /// The window to start with (RFC 6928, 2; RFC 5681, 3.1).
            #[allowed(INITIAL_WINDOW)]
            pub initial_window: InitialWindow = InitialWindow::Rfc6928;

            /// The window to start with when the handshake lost a segment (RFC 5681, 3.1).
            #[allowed(INITIAL_WINDOW)]
            pub window_after_syn_loss as "initial-window-after-syn-loss": InitialWindow = InitialWindow::Segments(1);

            /// The slow-start threshold to start with; without, there is no limit (RFC 5681, 3.1).
            #[allowed(Kind::count(0..=1 << 40).of("octets"))]
            pub initial_ssthresh: Option<u64> = None;

            /// Whether an idle time of one timeout sets the window back (RFC 5681, 4.1).
            #[allowed(Kind::Flag)]
            pub restart_after_idle: bool = true;

            /// Whether the window stops growing while something else holds the sender (RFC 7661).
            #[allowed(Kind::Flag)]
            pub validate_window: bool = true;

        }

        /// How losses are found and repaired.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub recovery: flat struct LossRecovery {
            /// Whether a timeout is undone when timestamps show that nothing was lost (RFC 3522, RFC 4015).
            // The first acknowledgement after the timeout echoes a timestamp from before it. With timestamps only.
            #[allowed(Kind::Flag)]
            pub undo_timeouts: bool = false;

            /// Duplicate acknowledgements that mean a loss (RFC 5681, 3.2).
            #[allowed(Kind::count(1..=1_000))]
            pub duplicate_threshold: u32 = 3;

            /// New data on the first duplicate acknowledgements (RFC 3042).
            #[allowed(Kind::Flag)]
            pub limited_transmit: bool = true;

            /// Whether only the first partial acknowledgement restarts the timer (RFC 6582, 4); without SACK.
            #[allowed(Kind::Flag)]
            pub impatient: bool = true;

            /// How the window leaves fast recovery without SACK: without a burst, or at the slow-start threshold (RFC
            /// 6582, 3.2).
            #[allowed(Kind::Word(&names(&FULL_ACK)))]
            pub full_ack: FullAck = FullAck::Flight;

            /// Whether what was sent after a repair tells that it was lost (as RFC 8985); with SACK.
            // In RFC 6675 only a timeout detects the loss of a repair.
            #[allowed(Kind::Flag)]
            pub lost_repairs: bool = false;
        }

        /// When to warn the application that the peer does not answer (RFC 1122, 4.2.3.5).
        #[allowed(LIMIT)]
        pub r1: Limit = Limit::Retransmissions(3);

        /// When to give up (RFC 1122, 4.2.3.5).
        #[allowed(LIMIT_AFTER_R1)]
        pub r2: Limit = Limit::Retransmissions(15);

        /// When to give up opening a connection (RFC 1122, 4.2.3.5).
        #[allowed(LIMIT_AFTER_R1)]
        pub r2_syn: Limit = Limit::Elapsed(Duration::from_secs(180));

        /// How long a closed connection keeps its ports (RFC 9293, 3.4.2).
        // Twice the maximum segment lifetime.
        #[allowed(Kind::period(Duration::ZERO..=DAY))]
        pub time_wait: Duration = Duration::from_secs(60);

        /// Silence before the first probe; any of the three asks for probes, with 2 hours, 75 s and 9 unless given (RFC
        /// 1122, 4.2.3.6).
        #[allowed(Kind::period(SHORTEST..=DAY))]
        #[get(|it| it.keep_alive.map(|it| it.idle).into())]
        #[set(|it, to| it.keep_alive.get_or_insert(KEEP_ALIVE).idle = to.period())]
        "keep-alive.idle";

        /// The time between probes.
        #[allowed(Kind::period(SHORTEST..=DAY))]
        #[get(|it| it.keep_alive.map(|it| it.interval).into())]
        #[set(|it, to| it.keep_alive.get_or_insert(KEEP_ALIVE).interval = to.period())]
        "keep-alive.interval";

        /// Probes that go unanswered before the connection is given up.
        #[allowed(Kind::count(1..=1_000))]
        #[get(|it| it.keep_alive.map(|it| it.probes).into())]
        #[set(|it, to| it.keep_alive.get_or_insert(KEEP_ALIVE).probes = to.count())]
        "keep-alive.probes";

        /// Answers a second to segments that may be forged (RFC 5961, 7).
        #[allowed(Kind::count(1..=1_000_000))]
        pub challenge_acks_per_s: u32 = 10;

        /// IP header fields of our packets.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub ip: flat struct IpFields {
            /// The TTL or hop limit of packets.
            #[allowed(Kind::count(1..=255))]
            pub ttl: u8 = 64;

            /// The code point of packets (RFC 2474).
            #[allowed(Kind::count(0..=63))]
            pub dscp: u8 = 0;

            /// Whether IPv4 routers may not fragment packets (RFC 1191).
            #[allowed(Kind::Flag)]
            pub dont_fragment: bool = true;
        }

        /// Octets of the longest IP packet that the local link carries, headers included; 68 to 65,535 (RFC 9293,
        /// 3.7.1).
        pub mtu: usize = 1_500;

        /// Probes of an idle peer (RFC 9293, 3.8.4); off unless asked for.
        pub keep_alive: Option<KeepAlive> = None;
    }

    rules [
        Rule {
            names: &["rto.min", "rto.max"],
            allowed: "rto.min is at most rto.max",
            holds: |it| it.rto.min <= it.rto.max,
        },
        VEGAS_BOUNDS,
    ]
}

/// Probes of an idle peer (RFC 1122, 4.2.3.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// Silence before the first probe; 2 hours by RFC 1122.
    pub idle: Duration,
    /// Between probes.
    pub interval: Duration,
    /// Probes that go unanswered before the connection is given up; at least 1.
    pub probes: u32,
}

/// The window after NewReno's recovery (RFC 6582, 3.2, step 3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FullAck {
    /// min(ssthresh, max(flight, S) + S): no burst.
    Flight,
    /// ssthresh.
    Ssthresh,
}

base::words!(FullAck: FULL_ACK);

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

const VEGAS_BOUNDS: Rule<Config> = Rule {
    names: &["vegas.alpha", "vegas.beta"],
    allowed: "vegas.alpha is at most vegas.beta",
    holds: |it| match it.congestion.algorithm {
        Algorithm::Vegas(vegas) => vegas.alpha <= vegas.beta,
        _ => true,
    },
};

fn algorithm(algorithm: Algorithm) -> Value {
    let name = match algorithm {
        Algorithm::Bbr => "bbr",
        Algorithm::Cubic { .. } => "cubic",
        Algorithm::NewReno { .. } => "new-reno",
        Algorithm::TcpAp(_) => "tcp-ap",
        Algorithm::Vegas(_) => "vegas",
    };
    Value::Text(name.to_owned())
}

fn set_growth(config: &mut Config, to: &Value) {
    let Some(read) = growth(to.text()) else { return };
    match &mut config.congestion.algorithm {
        Algorithm::NewReno { growth } => *growth = read,
        Algorithm::TcpAp(pacing) => pacing.growth = read,
        Algorithm::Bbr | Algorithm::Cubic { .. } | Algorithm::Vegas(_) => {}
    }
}

fn shown_growth(algorithm: Algorithm) -> Value {
    let growth = match algorithm {
        Algorithm::Bbr | Algorithm::Cubic { .. } | Algorithm::Vegas(_) => return Value::Absent,
        Algorithm::NewReno { growth } => growth,
        Algorithm::TcpAp(pacing) => pacing.growth,
    };
    Value::Text(match growth {
        Growth::Octets { limit } => limit.to_string(),
        Growth::PerAck => "per-ack".to_owned(),
    })
}

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
