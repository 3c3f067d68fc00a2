//! Reads the section `hbh`: interfaces, neighbours and parameters.

use std::path::Path;
use std::time::Duration;

use base::parameter::{Kind, Rule};
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

base::parameters! {
    /// What a gateway's HBH has besides the parameters of the protocol.
    pub static PARAMETERS: Config = "hbh-gateway" {
        /// Between two hellos.
        #[allowed(Kind::period(SHORTEST..=LONGEST))]
        #[get(|it| it.hello.interval.into())]
        #[set(|it, to| {
            it.hello.interval = to.period();
            it.hello.hold = it.hello.interval * HOLD_INTERVALS;
        })]
        "hello.interval";

        /// Silence after which a neighbour is forgotten, ten intervals unless given.
        #[allowed(Kind::period(SHORTEST..=Duration::from_secs(12_000)))]
        "hello.hold" at hello.hold;

        /// IP protocols that stay plain: what neighbours say to each other.
        #[allowed(Kind::counts(0..=255))]
        "intercept.plain-protocols" at plain.protocols;

        /// UDP ports that stay plain, as source or destination.
        #[allowed(Kind::counts(1..=65_535))]
        "intercept.plain-udp" at plain.udp;

        /// Whether the segment size that TCP asks for is lowered to what fits, see MTU.
        #[allowed(Kind::Flag)]
        "intercept.clamp-mss" at clamp_mss;

        /// Neighbours at most; further ones stay plain, see Neighbours.
        #[allowed(Kind::count(1..=4_096))]
        "limits.neighbours" at neighbour_limit;

        /// What waits in a device before it counts as busy.
        #[allowed(Kind::count(4_096..=4_194_304).of("octets"))]
        "limits.send-buffer" at send_buffer;
    }

    rules [Rule {
        names: &["hello.hold", "hello.interval"],
        allowed: "hello.hold is at least twice hello.interval",
        holds: |it| it.hello.hold >= it.hello.interval * 2,
    }]
}

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
