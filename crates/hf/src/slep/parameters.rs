//! Parameters of SLEP for users: names, ranges and defaults.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Table};

use super::config::Config;
use crate::s5066::sis::Sap;

/// What users may set of SLEP.
pub static PARAMETERS: Table<Config> = Table {
    name: "slep",
    parameters: &[
        Parameter::new(
            "sap",
            Kind::Count { least: 0, most: 15, unit: "" },
            "The access point of both ends.",
            |it| it.sap.number().into(),
            |it, to| it.sap = Sap::new(to.count()),
        ),
        Parameter::new(
            "rank",
            Kind::Count { least: 0, most: 14, unit: "" },
            "Against other clients of the same node: a higher rank takes the access point from a \
             lower.",
            |it| it.rank.into(),
            |it, to| it.rank = to.count(),
        ),
        Parameter::new(
            "mtu",
            Kind::Count { least: 128, most: 2_048, unit: "octets" },
            "The longest U_PDU; the node may say less.",
            |it| it.mtu.into(),
            |it, to| it.mtu = to.count(),
        ),
        Parameter::new(
            "window",
            Kind::Count { least: 4, most: 16_384, unit: "U_PDUs" },
            "How many of a stream may come before the user here has read the first.",
            |it| it.window.into(),
            |it, to| it.window = to.count(),
        ),
        Parameter::new(
            "interactive",
            Kind::Count { least: 0, most: 1_048_576, unit: "octets" },
            "The first octets of a stream that was idle, which go before others of its priority.",
            |it| it.interactive.into(),
            |it, to| it.interactive = to.count(),
        ),
        Parameter::new(
            "streams",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "Streams at a time.",
            |it| it.limits.streams.into(),
            |it, to| it.limits.streams = to.count(),
        ),
        Parameter::new(
            "streams-of-peer",
            Kind::Count { least: 1, most: 32_768, unit: "" },
            "Streams at a time with one other node.",
            |it| it.limits.streams_of_peer.into(),
            |it, to| it.limits.streams_of_peer = to.count(),
        ),
        Parameter::new(
            "send-buffer",
            Kind::Count { least: 4_096, most: 67_108_864, unit: "octets" },
            "What a stream takes from its user before it is sent.",
            |it| it.limits.unsent.into(),
            |it, to| it.limits.unsent = to.count(),
        ),
        Parameter::new(
            "sent",
            Kind::Count { least: 65_536, most: 4_294_967_296, unit: "octets" },
            "What waits in all streams to be sent, or for the other end to say that it has it.",
            |it| it.limits.sent.into(),
            |it, to| it.limits.sent = to.count(),
        ),
        Parameter::new(
            "received",
            Kind::Count { least: 65_536, most: 4_294_967_296, unit: "octets" },
            "What arrived in all streams and was not read; more is dropped and sent again.",
            |it| it.limits.received.into(),
            |it, to| it.limits.received = to.count(),
        ),
        Parameter::new(
            "keep-alive",
            Kind::Period { least: Duration::from_secs(10), most: LONGEST },
            "How long a stream may be idle until the other end is asked whether it still has it.",
            |it| it.times.keep_alive.into(),
            |it, to| it.times.keep_alive = to.period(),
        ),
        Parameter::new(
            "ask-after",
            Kind::Period { least: Duration::from_secs(1), most: LONGEST },
            "How long a stream that needs a word of the other end waits until it asks; twice as \
             long each time.",
            |it| it.times.ask_after.into(),
            |it, to| it.times.ask_after = to.period(),
        ),
        Parameter::new(
            "give-up",
            Kind::Period { least: Duration::from_secs(10), most: LONGEST },
            "How long without any sign of another node until what waits for it is given up.",
            |it| it.times.give_up.into(),
            |it, to| it.times.give_up = to.period(),
        ),
        Parameter::new(
            "retry",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(120) },
            "Until another node that did not answer is tried again, at first; it doubles, up to \
             120 s.",
            |it| it.times.retry.0.into(),
            |it, to| it.times.retry.0 = to.period(),
        ),
    ],
    rules: &[],
};

/// A week: longer than any link is away.
const LONGEST: Duration = Duration::from_secs(604_800);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}
