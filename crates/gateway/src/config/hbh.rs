//! Reads the section `hbh`: interfaces, neighbours and parameters.

use std::path::Path;
use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value};
use hbh::neighbours::HOLD_INTERVALS;
use settings::{Complaint, Section};

use super::{Config, device, neighbours, some};

/// IGMP, EIGRP, OSPF, PIM, VRRP, and the MANET protocols' own (RFC 5498): neighbours to each other.
pub(super) const PLAIN_PROTOCOLS: [u8; 6] = [2, 88, 89, 103, 112, 138];
/// The same by UDP: the MANET protocols' own, RIP, RIPng, AODV, OLSR, TBRPF, BFD and its echo, Babel.
pub(super) const PLAIN_UDP: [u16; 9] = [269, 520, 521, 654, 698, 712, 3784, 3785, 6696];
/// Interfaces at most; each costs descriptors and a part of the table.
const MAX_INTERFACES: usize = 16;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(600);

/// What a gateway's HBH has besides the parameters of the protocol.
pub static PARAMETERS: Table<Config> = Table {
    name: "hbh-gateway",
    parameters: &[
        Parameter::new(
            "hello.interval",
            Kind::Period { least: SHORTEST, most: LONGEST },
            "Between two hellos.",
            |it| it.hello.interval.into(),
            |it, to| {
                it.hello.interval = to.period();
                it.hello.hold = it.hello.interval * HOLD_INTERVALS;
            },
        ),
        Parameter::new(
            "hello.hold",
            Kind::Period { least: SHORTEST, most: Duration::from_secs(12_000) },
            "Silence after which a neighbour is forgotten, ten intervals unless given.",
            |it| it.hello.hold.into(),
            |it, to| it.hello.hold = to.period(),
        ),
        Parameter::new(
            "intercept.plain-protocols",
            Kind::Counts { least: 0, most: 255 },
            "IP protocols that stay plain: what neighbours say to each other.",
            |it| Value::Counts(it.plain.protocols.iter().map(|it| (*it).into()).collect()),
            |it, to| it.plain.protocols = to.counts(),
        ),
        Parameter::new(
            "intercept.plain-udp",
            Kind::Counts { least: 1, most: 65_535 },
            "UDP ports that stay plain, as source or destination.",
            |it| Value::Counts(it.plain.udp.iter().map(|it| (*it).into()).collect()),
            |it, to| it.plain.udp = to.counts(),
        ),
        Parameter::new(
            "intercept.clamp-mss",
            Kind::Flag,
            "Whether the segment size that TCP asks for is lowered to what fits, see MTU.",
            |it| it.clamp_mss.into(),
            |it, to| it.clamp_mss = to.flag(),
        ),
        Parameter::new(
            "limits.neighbours",
            Kind::Count { least: 1, most: 4_096, unit: "" },
            "Neighbours at most; further ones stay plain, see Neighbours.",
            |it| it.neighbour_limit.into(),
            |it, to| it.neighbour_limit = to.count(),
        ),
        Parameter::new(
            "limits.send-buffer",
            Kind::Count { least: 4_096, most: 4_194_304, unit: "octets" },
            "What waits in a device before it counts as busy.",
            |it| it.send_buffer.into(),
            |it, to| it.send_buffer = to.count(),
        ),
    ],
    rules: &[Rule {
        names: &["hello.hold", "hello.interval"],
        allowed: "hello.hold is at least twice hello.interval",
        holds: |it| it.hello.hold >= it.hello.interval * 2,
    }],
};

/// Reads the section.
pub(super) fn read(
    section: &Section<'_>,
    folder: Option<&Path>,
    config: &mut Config,
) -> Result<(), Complaint> {
    for name in some(&section.needed("interfaces")?, MAX_INTERFACES)? {
        let interface = device(&name)?;
        if config.interfaces.contains(&interface) {
            return Err(name.complain(format!("{interface} is there twice")));
        }
        config.interfaces.push(interface);
    }
    section.apply(&hbh::PARAMETERS, &mut config.hbh)?;
    section.apply(&PARAMETERS, config)?;
    if let Some(listed) = section.get("neighbours")? {
        config.neighbours = neighbours::list(&listed)?;
    }
    if let Some(file) = section.get("group-key")? {
        config.group_key = Some(neighbours::group_key(&file, folder)?);
    }
    Ok(())
}
