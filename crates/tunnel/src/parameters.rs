//! Parameters of a tunnel that users may set.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Table, Value};
use base::quantity::BitRate;

use super::config::Config;

/// Parameters of a tunnel to one peer.
pub static PARAMETERS: Table<Config> = Table {
    name: "tunnel",
    parameters: &[
        Parameter::new(
            "max-rate",
            Kind::Rate { may_be_unlimited: false },
            "The outer rate that is never exceeded; without, the tunnel finds out.",
            |it| it.max_rate.map_or(Value::Absent, rate),
            |it, to| it.max_rate = bits_per_s(to.rate()),
        ),
        Parameter::new(
            "base-mtu",
            Kind::Count { least: 576, most: 1_500, unit: "octets" },
            "An outer packet that is believed to pass until the search for the path's MTU knows; \
             it begins there, and goes below where this does not pass either.",
            |it| it.base_mtu.into(),
            |it, to| it.base_mtu = to.count(),
        ),
        Parameter::new(
            "deadline",
            Kind::Period { least: Duration::from_millis(50), most: Duration::from_secs(60) },
            "How long a packet is worth recovering after it was sent first.",
            |it| it.deadline.into(),
            |it, to| it.deadline = to.period(),
        ),
        Parameter::new(
            "patience",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(60) },
            "How much delay a packet bears before the transport inside sends it again; the longer \
             the round trip is beside it, the more is repaired in advance.",
            |it| it.patience.into(),
            |it, to| it.patience = to.period(),
        ),
        Parameter::new(
            "queue",
            Kind::Count { least: 65_536, most: 1 << 30, unit: "octets" },
            "What waits to be sent, over all flows.",
            |it| it.queue.into(),
            |it, to| it.queue = to.count(),
        ),
        Parameter::new(
            "compress-headers",
            Kind::Flag,
            "Whether headers of the packets inside are compressed, both ways, if the peer does it too.",
            |it| it.compress_headers.into(),
            |it, to| it.compress_headers = to.flag(),
        ),
        Parameter::new(
            "copy-dscp",
            Kind::Flag,
            "Whether the outer packets carry the DSCP of those inside, which shows it to everybody on the way.",
            |it| it.copy_dscp.into(),
            |it, to| it.copy_dscp = to.flag(),
        ),
        Parameter::new(
            "dead-after",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(3_600) },
            "How long the peer may be silent, though it was sent something, until the path is down.",
            |it| it.dead_after.into(),
            |it, to| it.dead_after = to.period(),
        ),
    ],
    rules: &[],
};

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and one that is too great counts as the greatest"
)]
fn rate(bits_per_s: f64) -> Value {
    BitRate::from_bits_per_s(bits_per_s as u64).into()
}

fn bits_per_s(rate: BitRate) -> Option<f64> {
    match rate {
        BitRate::PerSecond(bits) => Some(bits.get() as f64),
        BitRate::Unlimited => None,
    }
}

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}
