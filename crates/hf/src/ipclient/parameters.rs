//! Parameters that users may set for IP over STANAG 5066.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Table, Value};

use super::config::{Class, Config};
use crate::s5066::service::MAX_PRIORITY;
use crate::s5066::sis::{Mode, Sap};

/// What users may set of IP over STANAG 5066.
pub static PARAMETERS: Table<Config> = Table {
    name: "ipclient",
    parameters: &[
        Parameter::new(
            "sap",
            Kind::Count { least: 0, most: 15, unit: "" },
            "The access point of both ends (Annex F, table F-1).",
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
            Kind::Count { least: 576, most: 2_048, unit: "octets" },
            "The longest datagram; the node may say less.",
            |it| it.mtu.into(),
            |it, to| it.mtu = to.count(),
        ),
        Parameter::new(
            "repeats",
            Kind::Count { least: 0, most: 15, unit: "" },
            "How often a datagram without acknowledgement is sent again.",
            |it| it.classes[0].group_repeats.into(),
            |it, to| it.set_repeats(to.count()),
        ),
        Parameter::new(
            "unicast",
            Kind::Word(&MODES),
            "How datagrams to one node travel: acknowledged and in order, acknowledged and as they \
             arrive, or not acknowledged.",
            |it| name(it.classes[0].unicast),
            |it, to| it.set_unicast(mode(to.text(), it.classes[0].group_repeats)),
        ),
        Parameter::new(
            "ttl",
            Kind::Period { least: Duration::ZERO, most: LONGEST },
            "How long a datagram is worth sending, waiting included; 0 is for ever.",
            |it| it.classes[0].ttl.unwrap_or_default().into(),
            |it, to| it.set_ttl(Some(to.period()).filter(|ttl| !ttl.is_zero())),
        ),
        Parameter::new(
            "queue",
            Kind::Count { least: 4_096, most: 16_777_216, unit: "octets" },
            "What waits here before the node takes it.",
            |it| it.queue.into(),
            |it, to| it.queue = to.count(),
        ),
        Parameter::new(
            "compress-headers",
            Kind::Flag,
            "Whether headers are compressed towards IP clients of ours, which are found by an announcement \
             beside the first datagram to each node; others drop it.",
            |it| it.compress_headers.into(),
            |it, to| it.compress_headers = to.flag(),
        ),
    ],
    rules: &[],
};

/// Parameters that users may set for datagrams with one code point.
pub static CLASS: Table<Class> = Table {
    name: "ipclient-class",
    parameters: &[
        Parameter::new(
            "priority",
            Kind::Count { least: 0, most: MAX_PRIORITY as u64, unit: "" },
            "Against other datagrams, 15 is the highest; without, twice the class selector \
             (Annex F, table 9).",
            |it| it.priority.into(),
            |it, to| it.priority = to.count(),
        ),
        Parameter::new(
            "unicast",
            Kind::Word(&MODES),
            "How datagrams to one node travel.",
            |it| name(it.unicast),
            |it, to| it.unicast = mode(to.text(), it.group_repeats),
        ),
    ],
    rules: &[],
};

/// How a datagram travels to one node.
const MODES: [&str; 3] = ["arq", "arq-any-order", "non-arq"];

fn name(mode: Mode) -> Value {
    let [in_order, any_order, non_arq] = MODES;
    let name = match mode {
        Mode::Arq { in_order: true } => in_order,
        Mode::Arq { in_order: false } => any_order,
        Mode::NonArq { .. } => non_arq,
    };
    Value::Text(name.to_owned())
}

/// The mode with this name; without ARQ, datagrams are repeated `repeats` times.
fn mode(name: &str, repeats: u8) -> Mode {
    let [_, any_order, non_arq] = MODES;
    if name == non_arq {
        Mode::NonArq { in_order: false, repeats }
    } else {
        Mode::Arq { in_order: name != any_order }
    }
}

/// The field has 20 bits of 2 s.
const LONGEST: Duration = Duration::from_secs(1_296_000);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        let config = Config::new(Vec::new());

        prove(&CLASS, &config.classes);
        prove(&PARAMETERS, &[config]);
    }
}
