//! Parameters that users may set for a STANAG 5066 node.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value};

use super::cas::Access;
use super::dts::policy::MAX_TRANSMISSION;
use super::node::{Config, Extensions};
use crate::modem::Waveform;

/// The longest random wait for the frequency unless told otherwise: some slots of the slowest
/// waveforms.
pub const JITTER: Duration = Duration::from_secs(5);

/// Parameters of a node that users may set.
pub static PARAMETERS: Table<Config> = Table {
    name: "s5066",
    parameters: &[
        Parameter::new(
            "waveform",
            Kind::Text {
                allowed: "rate and interleaver, such as \"9600/short\"",
                check: |text| match text.parse::<Waveform>() {
                    Ok(_) => Ok(()),
                    Err(why) => Err(format!("{text:?} is not allowed: {why}")),
                },
                examples: &["75/long", "9600/short"],
            },
            "Rate and interleaver that the node transmits with, or begins with.",
            |it| Value::Text(it.waveform.to_string()),
            |it, to| it.waveform = to.text().parse().unwrap_or(it.waveform),
        ),
        Parameter::new(
            "access",
            Kind::Word(&["point-to-point", "jitter", "slotted"]),
            "How stations share the frequency: two that alternate, a random wait, or slots.",
            |it| access(it.access),
            |it, to| {
                it.access = match to.text() {
                    "jitter" => Access::Jitter { limit: JITTER },
                    "slotted" => Access::Slotted { position: 0, stations: 2 },
                    _ => Access::PointToPoint,
                }
            },
        ),
        Parameter::<Config>::new(
            "jitter",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(600) },
            "The longest random wait, 5 s unless given.",
            |it| match it.access {
                Access::Jitter { limit } => limit.into(),
                Access::PointToPoint | Access::Slotted { .. } => Value::Absent,
            },
            |it, to| it.access = Access::Jitter { limit: to.period() },
        )
        .only_with("access = \"jitter\"", |it| matches!(it.access, Access::Jitter { .. })),
        Parameter::new(
            "longest",
            Kind::Period { least: Duration::from_secs(1), most: MAX_TRANSMISSION },
            "The longest transmission.",
            |it| it.longest.into(),
            |it, to| {
                it.longest = to.period();
                // The default must fit.
                it.longest_beside_urgent = it.longest_beside_urgent.min(it.longest);
            },
        ),
        Parameter::new(
            "exchange",
            Kind::Period { least: Duration::from_secs(5), most: Duration::from_secs(600) },
            "How long stations may answer each other with data while others wait, and their longest \
             transmission then.",
            |it| it.exchange.into(),
            |it, to| it.exchange = to.period(),
        ),
        Parameter::new(
            "longest-beside-urgent",
            Kind::Period { least: Duration::from_secs(1), most: MAX_TRANSMISSION },
            "The longest transmission while something more urgent goes to or comes from the station.",
            |it| it.longest_beside_urgent.into(),
            |it, to| it.longest_beside_urgent = to.period(),
        ),
        Parameter::new(
            "switching",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(10) },
            "How long the modem takes from the command to transmit to its preamble.",
            |it| it.switching.into(),
            |it, to| it.switching = to.period(),
        ),
        Parameter::new(
            "calls",
            Kind::Count { least: 1, most: 20, unit: "" },
            "Requests for a link before a call fails.",
            |it| it.link.calls.into(),
            |it, to| it.link.calls = to.count(),
        ),
        Parameter::new(
            "idle",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(3_600) },
            "How long a soft link stays up without data.",
            |it| it.link.idle.into(),
            |it, to| it.link.idle = to.period(),
        ),
        Parameter::new(
            "ack-copies",
            Kind::Count { least: 1, most: 5, unit: "" },
            "How often an acknowledgement is sent in one transmission.",
            |it| it.ack_copies.into(),
            |it, to| it.ack_copies = to.count(),
        ),
        Parameter::new(
            "clients",
            Kind::Count { least: 1, most: 256, unit: "" },
            "Clients that may be connected at a time.",
            |it| it.sis.limits.max_clients.into(),
            |it, to| it.sis.limits.max_clients = to.count(),
        ),
        Parameter::new(
            "broadcast-only",
            Kind::Flag,
            "Whether the node sends without acknowledgement only, and makes no links.",
            |it| it.sis.is_broadcast_only.into(),
            |it, to| it.sis.is_broadcast_only = to.flag(),
        ),
        Parameter::new(
            "edition-3",
            Kind::Flag,
            "Whether the node does nothing beyond Edition 3 of the standard.",
            |it| (it.extensions == Extensions::NONE && !it.sis.has_messages).into(),
            |it, to| {
                if to.flag() {
                    it.extensions = Extensions::NONE;
                    it.sis.has_messages = false;
                }
            },
        ),
    ],
    rules: &[Rule {
        names: &["longest-beside-urgent", "longest"],
        allowed: "longest-beside-urgent is at most longest",
        holds: |it| it.longest_beside_urgent <= it.longest,
    }],
};

/// The slot of a station among the stations with slots; a simulated station has the place given in its file.
pub static SLOT: Table<Config> = Table {
    name: "s5066-slot",
    parameters: &[
        Parameter::<Config>::new(
            "stations",
            Kind::Count { least: 2, most: 64, unit: "" },
            "How many stations have slots, 2 unless given.",
            |it| slot(it.access).map(|(_, stations)| stations).into(),
            |it, to| {
                if let Access::Slotted { stations, .. } = &mut it.access {
                    *stations = to.count();
                }
            },
        )
        .only_with(SLOTTED, is_slotted),
        Parameter::<Config>::new(
            "slot",
            Kind::Count { least: 1, most: 64, unit: "" },
            "The slot of this station, from 1; it has to be given.",
            |it| slot(it.access).map(|(slot, _)| slot).into(),
            |it, to| {
                if let Access::Slotted { position, .. } = &mut it.access {
                    *position = to.count::<u8>().saturating_sub(1);
                }
            },
        )
        .only_with(SLOTTED, is_slotted),
    ],
    rules: &[Rule {
        names: &["slot", "stations"],
        allowed: "slot is at most stations",
        holds: |it| slot(it.access).is_none_or(|(slot, stations)| slot <= stations),
    }],
};

const SLOTTED: &str = "access = \"slotted\"";

fn is_slotted(config: &Config) -> bool {
    slot(config.access).is_some()
}

/// The slot, from 1, and how many there are.
fn slot(access: Access) -> Option<(u8, u8)> {
    match access {
        Access::Slotted { position, stations } => Some((position + 1, stations)),
        Access::Jitter { .. } | Access::PointToPoint => None,
    }
}

fn access(access: Access) -> Value {
    let name = match access {
        Access::Jitter { .. } => "jitter",
        Access::PointToPoint => "point-to-point",
        Access::Slotted { .. } => "slotted",
    };
    Value::Text(name.to_owned())
}

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::super::Address;
    use super::*;

    fn node(access: Access) -> Config {
        Config { access, ..Config::new(Address::node(1), "9600/short".parse().unwrap()) }
    }

    #[test]
    fn each_row_sets_what_it_says() {
        let jitter = node(Access::Jitter { limit: JITTER });
        let slotted = node(Access::Slotted { position: 0, stations: 2 });

        prove(&PARAMETERS, &[node(Access::PointToPoint), jitter]);
        prove(&SLOT, &[slotted]);
    }

    #[test]
    fn a_short_longest_transmission_is_so_beside_urgent_traffic_too() {
        let mut config = node(Access::PointToPoint);

        let given = |name| (name == "longest").then_some(Written::Text("3s"));
        PARAMETERS.apply(&mut config, given).unwrap();

        assert_eq!(config.longest_beside_urgent, Duration::from_secs(3));
    }

    #[test]
    fn what_is_not_allowed_is_said_with_what_is() {
        let refused = |given: &[(&str, Written<'static>)]| {
            let given = |name| given.iter().find(|it| it.0 == name).map(|it| it.1.clone());
            PARAMETERS.apply(&mut node(Access::PointToPoint), given).unwrap_err().what
        };

        for (name, written, expected) in [
            ("ack-copies", Written::Integer(257), "257 is not allowed: 1 to 5"),
            ("calls", Written::Integer(-1), "-1 is not allowed: 1 to 20"),
            ("exchange", Written::Text("4.9s"), "\"4.9s\" is not allowed: 5s to 10min"),
            ("longest", Written::Text("127501ms"), "\"127501ms\" is not allowed: 1s to 127.5s"),
            ("jitter", Written::Text("1s"), "it is for access = \"jitter\""),
        ] {
            assert_eq!(refused(&[(name, written)]), expected);
        }
        let both =
            [("longest", Written::Text("9s")), ("longest-beside-urgent", Written::Text("9.001s"))];
        assert_eq!(
            refused(&both),
            "longest-beside-urgent = \"9.001s\", longest = \"9s\" are not allowed together: \
             longest-beside-urgent is at most longest"
        );
    }
}
