//! Parameters of HBH that users may set.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value, named, names, word};
use base::quantity::BitRate;

use super::config::{Config, Profile, Redundancy, Rto};
use super::wire::MAX_SPAN;

/// The table of HBH's parameters. A profile sets all the others, so it is first.
pub static PARAMETERS: Table<Config> = Table {
    name: "hbh",
    parameters: &[
        Parameter::new(
            "profile",
            Kind::Word(&names(&Profile::NAMES)),
            "Which of the two protocols runs, the same at all nodes: ours, or what the paper says \
             and no more.",
            |it| word(&Profile::NAMES, &it.profile),
            |it, to| *it = Config::new(named(&Profile::NAMES, to.text()).unwrap_or_default()),
        ),
        Parameter::new(
            "protocol",
            Kind::Count { least: 1, most: 255, unit: "" },
            "The IP protocol number of HBH packets, the same at all nodes.",
            |it| it.protocol.into(),
            |it, to| it.protocol = to.count(),
        ),
        Parameter::new(
            "retries",
            Kind::Count { least: 0, most: 255, unit: "" },
            "How often a hop sends a packet again before it gives up (R).",
            |it| it.retries.into(),
            |it, to| it.retries = to.count(),
        ),
        Parameter::new(
            "window",
            Kind::Span { least: 1, most: MAX_SPAN as u64, unit: "packets" },
            "Bounds on the packets of a flow that are sent and not acknowledged (W); one number \
             fixes it.",
            |it| Value::Span(it.window.0.into(), it.window.1.into()),
            |it, to| it.window = to.span(),
        ),
        Parameter::new(
            "congestion",
            Kind::Count { least: 1, most: MOST_PACKETS, unit: "packets" },
            "Packets waiting in a flow's output queue at which its sender is told of congestion (s).",
            |it| it.congestion.into(),
            |it, to| it.congestion = to.count(),
        ),
        Parameter::new(
            "clear",
            Kind::Count { least: 1, most: MOST_PACKETS, unit: "packets" },
            "Packets waiting at which the sender is told that congestion is over.",
            |it| it.clear.into(),
            |it, to| it.clear = to.count(),
        ),
        Parameter::new(
            "queue",
            Kind::Count { least: 1, most: MOST_PACKETS, unit: "packets" },
            "Packets that a flow's output queue holds (L).",
            |it| it.queue.into(),
            |it, to| it.queue = to.count(),
        ),
        Parameter::new(
            "rate-increase",
            Kind::Rate { may_be_unlimited: false },
            "What the rate of a congested flow gains at each round trip (p).",
            |it| rate(it.rate_increase),
            |it, to| it.rate_increase = bits_per_s(to.rate()),
        ),
        Parameter::new(
            "rate-decrease",
            Kind::Share { least: 0.01, most: 0.99 },
            "What the rate of a flow is multiplied by at each congestion notification (q).",
            |it| Value::Share(it.rate_decrease),
            |it, to| it.rate_decrease = to.number(),
        ),
        Parameter::new(
            "ack-delay",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(10) },
            "How long an acknowledgement waits for a packet to ride on; with the default profile \
             only.",
            |it| it.ack_delay.into(),
            |it, to| it.ack_delay = to.period(),
        ),
        Parameter::new(
            "redundancy",
            Kind::Word(&names(&Redundancy::NAMES)),
            "How much of a link's idle time goes into repairs: as much as keeps delay low, nothing, \
             or less where energy or the air counts more; with the default profile only.",
            |it| word(&Redundancy::NAMES, &it.redundancy),
            |it, to| it.redundancy = named(&Redundancy::NAMES, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "hold",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(60) },
            "How long the last hop keeps a TCP segment back for one before it; with the default \
             profile only.",
            |it| it.hold.into(),
            |it, to| it.hold = to.period(),
        ),
        Parameter::new(
            "absorb",
            Kind::Flag,
            "Whether a TCP segment that is still on its way is not sent again when TCP repeats it.",
            |it| it.absorb.into(),
            |it, to| it.absorb = to.flag(),
        ),
        Parameter::new(
            "lifetime",
            Kind::Period { least: Duration::from_millis(100), most: DAY },
            "How long a packet may wait in one node before it is discarded.",
            |it| it.lifetime.into(),
            |it, to| it.lifetime = to.period(),
        ),
        Parameter::new(
            "idle",
            Kind::Period { least: Duration::from_secs(1), most: DAY },
            "How long a flow without packets is remembered.",
            |it| it.idle.into(),
            |it, to| it.idle = to.period(),
        ),
        Parameter::new(
            "flows",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "Flows in each direction, over all neighbours.",
            |it| it.flows.into(),
            |it, to| it.flows = to.count(),
        ),
        Parameter::new(
            "packets",
            Kind::Count { least: 16, most: 1_000_000, unit: "" },
            "Packets waiting or unacknowledged, over all flows.",
            |it| it.packets.into(),
            |it, to| it.packets = to.count(),
        ),
        Parameter::new(
            "rto.fixed",
            Kind::Period { least: SHORTEST, most: HOUR },
            "The retransmission timer, if it is always the same.",
            |it| fixed(&it.rto).into(),
            |it, to| it.rto = Rto::fixed(to.period()),
        ),
        Parameter::new(
            "rto.gain",
            GAIN,
            "The weight of a new sample in the mean round trip (g).",
            |it| Value::Share(it.rto.gain),
            |it, to| it.rto.gain = to.number(),
        ),
        Parameter::new(
            "rto.deviation-gain",
            GAIN,
            "The weight of a new sample in the deviation of the round trip (h).",
            |it| Value::Share(it.rto.deviation_gain),
            |it, to| it.rto.deviation_gain = to.number(),
        ),
        Parameter::new(
            "rto.deviations",
            Kind::Number { least: 0.0, most: 1_000.0 },
            "How many deviations are added to the mean (n).",
            |it| it.rto.deviations.into(),
            |it, to| it.rto.deviations = to.number(),
        ),
        Parameter::new(
            "rto.factor",
            Kind::Number { least: 0.1, most: 1_000.0 },
            "What the sum of mean and deviations is multiplied by (m).",
            |it| it.rto.factor.into(),
            |it, to| it.rto.factor = to.number(),
        ),
        Parameter::new(
            "rto.backoff",
            Kind::Number { least: 1.0, most: 100.0 },
            "What the timer is multiplied by each time it expires on a packet.",
            |it| it.rto.backoff.into(),
            |it, to| it.rto.backoff = to.number(),
        ),
        Parameter::new(
            "rto.initial",
            Kind::Period { least: SHORTEST, most: HOUR },
            "The timer before the first sample.",
            |it| it.rto.initial.into(),
            |it, to| it.rto.initial = to.period(),
        ),
        Parameter::new(
            "rto.minimum",
            Kind::Period { least: SHORTEST, most: HOUR },
            "The shortest that the timer gets.",
            |it| it.rto.minimum.into(),
            |it, to| it.rto.minimum = to.period(),
        ),
        Parameter::new(
            "rto.maximum",
            Kind::Period { least: SHORTEST, most: HOUR },
            "The longest that the timer gets.",
            |it| it.rto.maximum.into(),
            |it, to| it.rto.maximum = to.period(),
        ),
    ],
    rules: &[
        Rule {
            names: &["clear", "congestion", "queue"],
            allowed: "clear is at most congestion, which is at most queue",
            holds: |it| it.clear <= it.congestion && it.congestion <= it.queue,
        },
        Rule {
            names: &["rto.minimum", "rto.maximum"],
            allowed: "rto.minimum is at most rto.maximum",
            holds: |it| it.rto.minimum <= it.rto.maximum,
        },
    ],
};

const MOST_PACKETS: u64 = 100_000;
const GAIN: Kind = Kind::Share { least: 0.001, most: 1.0 };
const SHORTEST: Duration = Duration::from_micros(100);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The timer, if nothing changes it.
fn fixed(rto: &Rto) -> Option<Duration> {
    (*rto == Rto::fixed(rto.initial)).then_some(rto.initial)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and one that is too great counts as the greatest"
)]
fn rate(bits_per_s: f64) -> Value {
    BitRate::from_bits_per_s(bits_per_s as u64).into()
}

fn bits_per_s(rate: BitRate) -> f64 {
    match rate {
        BitRate::PerSecond(bits) => bits.get() as f64,
        BitRate::Unlimited => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &Profile::NAMES.map(|(_, profile)| Config::new(profile)));
    }

    #[test]
    fn a_profile_comes_first_whatever_else_is_given() {
        let mut config = Config { queue: 77, ..Config::new(Profile::Default) };

        let given = |name| match name {
            "retries" => Some(Written::Integer(9)),
            "profile" => Some(Written::Text("paper")),
            _ => None,
        };
        PARAMETERS.apply(&mut config, given).unwrap();

        assert_eq!(config, Config { retries: 9, ..Config::new(Profile::Paper) });
    }

    #[test]
    fn thresholds_keep_their_order() {
        let mut config = Config::new(Profile::Default);

        let given = |name| match name {
            "clear" => Some(Written::Integer(50)),
            "congestion" => Some(Written::Integer(10)),
            _ => None,
        };
        let refused = PARAMETERS.apply(&mut config, given).unwrap_err();

        assert_eq!(
            refused.what,
            "clear = 50, congestion = 10, queue = 200 are not allowed together: clear is at most \
             congestion, which is at most queue"
        );
    }
}
