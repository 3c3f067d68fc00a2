//! What users may set of how a rule's flows are carried.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value, named, names, word};
use hf::s5066::service::MAX_PRIORITY;

use super::rule::{Handshake, NAME, Options, Service, is_name};

/// What users may set of how a rule's flows are carried.
pub static PARAMETERS: Table<Options> = Table {
    name: "rule",
    parameters: &[
        Parameter::new(
            "service",
            Kind::Word(&names(&SERVICES)),
            "Which service carries it; `auto` is the choice for what no rule matches.",
            |it| word(&SERVICES, &it.service),
            |it, to| it.service = named(&SERVICES, to.text()).flatten(),
        ),
        Parameter::new(
            "compression",
            Kind::Flag,
            "Whether streams and datagrams are compressed, where that makes them shorter; without, as the \
             service has it.",
            |it| it.compression.map_or(Value::Absent, Value::from),
            |it, to| it.compression = Some(to.flag()),
        ),
        Parameter::new(
            "priority",
            Kind::Count { least: 0, most: MAX_PRIORITY as u64, unit: "" },
            "Against other traffic, 15 is the highest; without, as the service has it.",
            |it| it.priority.map_or(Value::Absent, Value::from),
            |it, to| it.priority = Some(to.count()),
        ),
        Parameter::new(
            "ttl",
            Kind::Period { least: Duration::ZERO, most: LONGEST },
            "How long a packet or U_PDU is worth sending, waiting included; 0 is for ever, without, \
             as the service has it.",
            |it| it.ttl.map_or(Value::Absent, Value::from),
            |it, to| it.ttl = Some(to.period()),
        ),
        Parameter::new(
            "tls",
            Kind::Text { allowed: NAME, check, examples: &["office"] },
            "The TLS profile by which TLS is ended here; without, TLS passes as it is.",
            |it| it.tls.clone().map_or(Value::Absent, Value::Text),
            |it, to| it.tls = Some(to.text().to_owned()),
        ),
        Parameter::new(
            "handshake",
            Kind::Word(&names(&HANDSHAKES)),
            "When HF-PEP answers a client's SYN: `local`, at once; `end-to-end`, when the far end says \
             that the target accepts; without, as the service has it.",
            |it| word(&HANDSHAKES, &it.handshake),
            |it, to| it.handshake = named(&HANDSHAKES, to.text()).flatten(),
        ),
        Parameter::new(
            "confirm-close",
            Kind::Flag,
            "Whether HF-PEP tells a client that has ended the end of the answer only when the target has all \
             that the client said; without, as the service has it, and always with `end-to-end`.",
            |it| it.confirm_close.map_or(Value::Absent, Value::from),
            |it, to| it.confirm_close = Some(to.flag()),
        ),
    ],
    rules: &[
        Rule {
            names: &["tls", "service"],
            allowed: "tls is not for service = \"ipclient\", which carries packets as they are",
            holds: |it| it.tls.is_none() || it.service != Some(Service::IpClient),
        },
        Rule {
            names: &["handshake", "tls"],
            allowed: "end-to-end is not where TLS ends here: whom a client wants is known only behind \
                      its TCP handshake",
            holds: |it| it.tls.is_none() || it.handshake != Some(Handshake::EndToEnd),
        },
    ],
};

const HANDSHAKES: [(&str, Option<Handshake>); 2] = [
    (Handshake::Local.name(), Some(Handshake::Local)),
    (Handshake::EndToEnd.name(), Some(Handshake::EndToEnd)),
];

const SERVICES: [(&str, Option<Service>); 3] = [
    ("auto", None),
    (Service::HfPep.name(), Some(Service::HfPep)),
    (Service::IpClient.name(), Some(Service::IpClient)),
];
/// As long as a U_PDU can live: the field has 20 bits of 2 s.
const LONGEST: Duration = Duration::from_secs(1_296_000);

fn check(name: &str) -> Result<(), String> {
    if is_name(name) { Ok(()) } else { Err(format!("{name:?} is not allowed: {NAME}")) }
}

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Options::default()]);
    }
}
