//! The table of the layer's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value};

use super::config::Config;

/// The settings of the layer below one TCP.
pub static PARAMETERS: Table<Config> = Table {
    name: "tcpnc",
    parameters: &[
        Parameter::new(
            "protocol",
            Kind::Count { least: 1, most: 255, unit: "" },
            "The IP protocol number of its packets, the same at both ends.",
            |it| it.protocol.into(),
            |it, to| it.protocol = to.count(),
        ),
        Parameter::new(
            "extra",
            Kind::Count { least: 0, most: 255, unit: "" },
            "Combinations sent after those of a coding window (k).",
            |it| it.extra.into(),
            |it, to| it.extra = to.count(),
        ),
        Parameter::new(
            "window",
            Kind::Count { least: 1, most: 255, unit: "packets" },
            "Packets of a coding window (n); without, it follows the loss rate.",
            |it| it.window.into(),
            |it, to| it.window = Some(to.count()),
        ),
        Parameter::new(
            "target",
            SHARE,
            "The probability that a coding window is to survive with.",
            |it| Value::Share(it.target),
            |it, to| it.target = to.number(),
        ),
        Parameter::new(
            "max-window",
            Kind::Count { least: 1, most: 255, unit: "packets" },
            "Packets of a coding window that follows the loss rate, at most.",
            |it| it.max_window.into(),
            |it, to| it.max_window = to.count(),
        ),
        Parameter::new(
            "initial-loss",
            SHARE,
            "The loss rate to expect before there is an estimate.",
            |it| Value::Share(it.initial_loss),
            |it, to| it.initial_loss = to.number(),
        ),
        Parameter::new(
            "period",
            Kind::Count { least: 1, most: 1_000_000, unit: "packets" },
            "Transmissions over which the loss rate is taken.",
            |it| it.period.into(),
            |it, to| it.period = to.count(),
        ),
        Parameter::new(
            "gain",
            SHARE,
            "The weight of a new sample in the mean loss rate.",
            |it| Value::Share(it.gain),
            |it, to| it.gain = to.number(),
        ),
        Parameter::new(
            "enhanced-retransmission",
            Kind::Flag,
            "Whether one retransmission of TCP's repairs all packets known to be missing.",
            |it| it.enhanced_retransmission.into(),
            |it, to| it.enhanced_retransmission = to.flag(),
        ),
        Parameter::new(
            "repair-target",
            SHARE,
            "The probability that a repair is to bring all that is missing; 0 sends as many \
             combinations as packets are missing.",
            |it| Value::Share(it.repair_target),
            |it, to| it.repair_target = to.number(),
        ),
        Parameter::new(
            "max-burst",
            Kind::Count { least: 1, most: 1_000, unit: "packets" },
            "Combinations sent at once for what is missing from one coding window, at most.",
            |it| it.max_burst.into(),
            |it, to| it.max_burst = to.count(),
        ),
        Parameter::new(
            "flush-after",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(60) },
            "A coding window is closed early when TCP sends nothing new for so long.",
            |it| it.flush_after.into(),
            |it, to| it.flush_after = to.period(),
        ),
        Parameter::new(
            "acknowledges-redundancy",
            Kind::Flag,
            "Whether TCP is told of every arrival, so that redundancy looks like duplicates, or only \
             of those that leave a packet unseen.",
            |it| it.acknowledges_redundancy.into(),
            |it, to| it.acknowledges_redundancy = to.flag(),
        ),
        Parameter::new(
            "max-packets",
            Kind::Count { least: 3, most: 32_768, unit: "packets" },
            "Packets held for coding and for decoding, at most, each.",
            |it| it.max_packets.into(),
            |it, to| it.max_packets = to.count(),
        ),
        Parameter::new(
            "receive-buffer",
            Kind::Count { least: 65_536, most: 1 << 30, unit: "octets" },
            "Octets held for decoding, at most.",
            |it| it.receive_buffer.into(),
            |it, to| it.receive_buffer = to.count(),
        ),
    ],
    rules: &[Rule {
        names: &["max-packets", "max-window"],
        allowed: "max-packets is more than twice max-window",
        holds: |it| it.max_packets > 2 * it.max_window,
    }],
};

const SHARE: Kind = Kind::Share { least: 0.0, most: 1.0 };

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}
