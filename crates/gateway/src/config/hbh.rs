//! Reads the section `hbh`: interfaces, neighbours and parameters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::hbh::Profile;
use ::hbh::auth::GroupKey;
use ::hbh::neighbours::{HELLO_INTERVAL, HOLD_INTERVALS, LIMIT, Listed};
use base::keys::GroupSecret;
use base::parameter::{Kind, Rule};
use settings::schema::{self, Shape};
use settings::{Complaint, Section};

use super::{device_schema, devices, either, neighbours};
use crate::keys::{self, BadKeyFile};

/// IGMP, EIGRP, OSPF, PIM, VRRP, and the MANET protocols' own (RFC 5498): neighbours to each other.
const PLAIN_PROTOCOLS: [u8; 6] = [2, 88, 89, 103, 112, 138];
/// The same by UDP: the MANET protocols' own, RIP, RIPng, AODV, OLSR, TBRPF, BFD and its echo, Babel.
const PLAIN_UDP: [u16; 9] = [269, 520, 521, 654, 698, 712, 3784, 3785, 6696];
/// Interfaces at most; each costs descriptors and a part of the table.
const MAX_INTERFACES: usize = 16;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(600);

base::parameters! {
    /// What a gateway's HBH has besides the parameters of the protocol.
    pub static PARAMETERS = "hbh-gateway";

    /// HBH with neighbours on some interfaces.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Hbh from new(interfaces: Vec<String>) {
        /// How HBH finds its neighbours.
        pub hello: struct Hello {
            /// Between two hellos.
            #[allowed(Kind::period(SHORTEST..=LONGEST))]
            #[set(|it, to| {
                it.hello.interval = to.period();
                it.hello.hold = it.hello.interval * HOLD_INTERVALS;
            })]
            pub interval: Duration = HELLO_INTERVAL;

            /// Silence after which a neighbour is forgotten, ten intervals unless given.
            #[allowed(Kind::period(SHORTEST..=Duration::from_secs(12_000)))]
            pub hold: Duration = HELLO_INTERVAL * HOLD_INTERVALS;
        }

        /// What HBH carries, and how.
        pub intercept: struct Intercept {
            /// IP protocols that stay plain: what neighbours say to each other.
            #[allowed(Kind::counts(0..=255))]
            pub plain_protocols: Vec<u8> = PLAIN_PROTOCOLS.to_vec();

            /// UDP ports that stay plain, as source or destination.
            #[allowed(Kind::counts(1..=65_535))]
            pub plain_udp: Vec<u16> = PLAIN_UDP.to_vec();

            /// Whether the segment size that TCP asks for is lowered to what fits, see MTU.
            #[allowed(Kind::Flag)]
            pub clamp_mss: bool = true;
        }

        /// Bounds on what HBH holds.
        pub limits: struct Limits {
            /// Neighbours at most; further ones stay plain, see Neighbours.
            #[allowed(Kind::count(1..=4_096))]
            pub neighbours: usize = LIMIT;

            /// What waits in a device before it counts as busy.
            #[allowed(Kind::count(4_096..=4_194_304).of("octets"))]
            pub send_buffer: usize = 32_768;
        }

        /// Names of the MANET interfaces.
        pub interfaces: Vec<String> = interfaces;

        /// The parameters of the protocol.
        pub core: ::hbh::Config = ::hbh::Config::new(Profile::Default);

        /// The only neighbours that HBH is spoken with; `None` for all neighbours that speak HBH.
        pub neighbours: Option<Vec<Listed>> = None;

        /// The file with the key of the group of HBH neighbours; `None` accepts everybody.
        pub group_key: Option<PathBuf> = None;
    }

    rules [Rule {
        names: &["hello.hold", "hello.interval"],
        allowed: "hello.hold is at least twice hello.interval",
        holds: |it| it.hello.hold >= it.hello.interval * 2,
    }]
}

impl Hbh {
    /// Reads the group key from its file, if configured.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn read_group_key(&self) -> Result<Option<GroupKey>, BadKeyFile> {
        let Some(file) = &self.group_key else { return Ok(None) };
        let read = keys::read::<GroupSecret>(file);
        let key = read.map_err(|why| BadKeyFile { file: file.clone(), why })?;
        Ok(Some(GroupKey::new(key.octets())))
    }

    /// Whether another configuration can be taken without a new start of HBH.
    #[must_use]
    pub fn can_become(&self, other: &Self) -> bool {
        let ::hbh::Config { profile, protocol, .. } = self.core;
        let clamp_mss = other.intercept.clamp_mss;
        let followed = Self {
            interfaces: other.interfaces.clone(),
            hello: other.hello.clone(),
            core: ::hbh::Config { profile, protocol, ..other.core },
            intercept: Intercept { clamp_mss, ..self.intercept.clone() },
            ..self.clone()
        };
        followed == *other
    }

    /// The keys with other values in another configuration.
    #[must_use]
    pub fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
        let of_core = ::hbh::PARAMETERS.differences(&self.core, &other.core);
        let own = PARAMETERS.differences(self, other);
        of_core.into_iter().chain(own).map(|(name, _)| name).collect()
    }
}

/// Reads the section.
pub fn read(section: &Section<'_>, folder: Option<&Path>) -> Result<Hbh, Complaint> {
    let interfaces = section.needed("interfaces").and_then(|it| devices(&it, MAX_INTERFACES));
    let mut hbh = Hbh::new(Vec::new());
    let core = section.apply(&::hbh::PARAMETERS, &mut hbh.core);
    let own = section.apply(&PARAMETERS, &mut hbh);
    let neighbours = either(section, "neighbours", None, neighbours::list);
    let group_key =
        either(section, "group-key", None, |it| neighbours::group_key(it, folder).map(Some));
    core.and(own)?;
    Ok(Hbh { interfaces: interfaces?, neighbours: neighbours?, group_key: group_key?, ..hbh })
}

/// Describes the section for editors.
pub fn schema() -> Shape {
    let core = ::hbh::PARAMETERS.describe(&[("default", ::hbh::Config::new(Profile::Default))]);
    Shape::new()
        .needed(
            "interfaces",
            "Names of the MANET interfaces.",
            schema::list(device_schema(), 1, MAX_INTERFACES),
        )
        .parameters(&core)
        .parameters(&PARAMETERS.describe(&[("gateway", Hbh::new(Vec::new()))]))
        .key("neighbours", "\"discover\", or the only neighbours: addresses.", neighbours::schema())
        .key("group-key", "The file with the key of the group.", schema::text())
}
