//! Reads the section `routing`: a MANET routing protocol, its interfaces and its parameters.

use std::net::Ipv4Addr;

use base::ip::Prefix;
use base::rng::Rng;
use manet::Router;
use manet::aodv::{self, Aodv};
use manet::dsdv::{self, Dsdv};
use manet::olsr::{self, Olsr};
use settings::schema::{self, Shape};
use settings::{Complaint, Section, each};

use super::{device, device_schema, devices, either, ipclient, some};

/// A routing protocol on interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// The protocol, with its parameters.
    pub protocol: Protocol,
    /// Names of the MANET interfaces.
    pub interfaces: Vec<String>,
    /// The addresses of the MANET's nodes, if they are known.
    pub manet: Option<Prefix>,
    /// Of several routes to a network in the kernel that with the lowest metric is taken.
    pub metric: u32,
}

/// A protocol and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// Routes are looked for when packets want them.
    Aodv(Box<aodv::Config>, OnDemand),
    /// Every node knows all links that matter.
    Olsr(Box<olsr::Config>),
    /// Tables that neighbours tell each other.
    Dsdv(dsdv::Config),
}

/// How packets that have no route come to the protocol, and leave the network.
#[derive(Clone, Debug, PartialEq)]
pub struct OnDemand {
    /// The TUN device by which packets without a route arrive.
    pub device: String,
    /// Whether routes to the Internet are looked for.
    pub has_internet: bool,
    /// Whether others reach the Internet by this node.
    pub is_gateway: bool,
}

/// Behind those that people and their tools set.
const METRIC: u32 = 4_096;
const MOST_METRIC: u64 = 1 << 31;
const MAX_INTERFACES: usize = 16;
const MAX_ATTACHED: usize = 256;
const DEVICE: &str = "trackway-aodv0";
/// Bits of the smallest network that a MANET can be.
const MOST_BITS: u8 = 30;

/// What a section may name.
#[derive(Clone, Copy, Debug)]
enum Name {
    Aodv,
    Dsdv,
    Olsr,
}

const NAMES: [(&str, Name); 3] = [("aodv", Name::Aodv), ("dsdv", Name::Dsdv), ("olsr", Name::Olsr)];

impl Protocol {
    /// As the configuration names it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Aodv(..) => "aodv",
            Self::Dsdv(_) => "dsdv",
            Self::Olsr(_) => "olsr",
        }
    }

    /// The UDP port of routing messages; none over another carrier.
    #[must_use]
    pub(crate) fn port(&self) -> Option<u16> {
        self.router(0).carrier().port()
    }

    /// What looks for routes when packets need them, if the protocol does.
    #[must_use]
    pub fn on_demand(&self) -> Option<&OnDemand> {
        match self {
            Self::Aodv(_, on_demand) => Some(on_demand),
            Self::Dsdv(_) | Self::Olsr(_) => None,
        }
    }

    /// The protocol's core.
    #[must_use]
    pub(crate) fn router(&self, seed: u64) -> Box<dyn Router> {
        let rng = Rng::stream(seed, "routing");
        match self {
            Self::Aodv(config, _) => Box::new(Aodv::new((**config).clone(), rng)),
            Self::Dsdv(config) => Box::new(Dsdv::new(*config, rng)),
            Self::Olsr(config) => Box::new(Olsr::new((**config).clone(), rng)),
        }
    }
}

/// Reads the section.
pub(crate) fn read(section: &Section<'_>) -> Result<Routing, Complaint> {
    let name = section.needed("protocol").and_then(|it| it.word(&NAMES));
    let interfaces = section.needed("interfaces").and_then(|it| devices(&it, MAX_INTERFACES));
    let manet = manet(section);
    let metric = either(section, "metric", METRIC, |entry| entry.count(1..=MOST_METRIC));
    if name.is_err() {
        section.pass_over();
    }
    let protocol = name.and_then(|name| match name {
        Name::Aodv => aodv(section),
        Name::Dsdv => {
            let mut config = dsdv::Config::default();
            section.apply(&dsdv::PARAMETERS, &mut config)?;
            Ok(Protocol::Dsdv(config))
        }
        Name::Olsr => {
            let mut config = olsr::Config::live();
            let applied = section.apply(&olsr::PARAMETERS, &mut config);
            config.attached = attached(section)?;
            applied?;
            Ok(Protocol::Olsr(Box::new(config)))
        }
    });
    let (interfaces, manet, metric) = (interfaces?, manet?, metric?);
    Ok(Routing { protocol: protocol?, interfaces, manet, metric })
}

impl Protocol {
    /// The networks behind this node to announce.
    pub(crate) fn attached(&self) -> Vec<Prefix> {
        match self {
            Self::Olsr(config) => config.attached.clone(),
            Self::Aodv(config, _) => internet(config.internet.gateway),
            Self::Dsdv(config) => internet(config.is_gateway),
        }
    }
}

/// The network behind a node: everything for a gateway to the Internet, else none.
fn internet(is_gateway: bool) -> Vec<Prefix> {
    let all = Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0).expect("no bits fit each address");
    if is_gateway { vec![all] } else { Vec::new() }
}

/// AODV: which addresses are the network's has to be said, since packets to them are taken.
fn aodv(section: &Section<'_>) -> Result<Protocol, Complaint> {
    let manet = section.needed("manet");
    let mut config = aodv::Config::default();
    let applied = section.apply(&aodv::PARAMETERS, &mut config);
    let is_gateway = config.internet.gateway;
    let has_internet = either(section, "internet", false, |entry| match entry.flag()? {
        true if is_gateway => {
            Err(entry.complain("a gateway reaches the Internet by its own routes"))
        }
        has_internet => Ok(has_internet),
    });
    let device = either(section, "device", DEVICE.to_owned(), device);
    manet?;
    applied?;
    let (device, has_internet) = (device?, has_internet?);
    Ok(Protocol::Aodv(Box::new(config), OnDemand { device, has_internet, is_gateway }))
}

/// The networks behind this node, as announced by OLSR.
fn attached(section: &Section<'_>) -> Result<Vec<Prefix>, Complaint> {
    let Some(entry) = section.get("attached")? else { return Ok(Vec::new()) };
    each(&some(&entry, MAX_ATTACHED)?, |entry| {
        let network = ipclient::network(entry)?;
        if network.address().is_ipv6() {
            return Err(entry.complain(format!("{network} is not allowed: an IPv4 network")));
        }
        Ok(network)
    })
}

/// The addresses of the nodes.
fn manet(section: &Section<'_>) -> Result<Option<Prefix>, Complaint> {
    let Some(entry) = section.get("manet")? else { return Ok(None) };
    let manet = ipclient::network(&entry)?;
    if manet.address().is_ipv6() || manet.bits() > MOST_BITS {
        let what = format!(
            "{manet} is not allowed: an IPv4 network of at most {MOST_BITS} bits, such as 10.0.0.0/16"
        );
        return Err(entry.complain(what));
    }
    Ok(Some(manet))
}

/// Describes the section for editors: one of three protocols.
pub(crate) fn schema() -> serde_json::Value {
    let keys = |protocol: &str| {
        Shape::new()
            .needed("protocol", "The routing protocol.", schema::like(&format!("^{protocol}$")))
            .needed(
                "interfaces",
                "The MANET interfaces.",
                schema::list(device_schema(), 1, MAX_INTERFACES),
            )
            .key("metric", "Of the routes in the kernel.", schema::count(1, MOST_METRIC))
    };
    let aodv = keys("aodv")
        .parameters(&aodv::PARAMETERS.describe(&[("aodv", aodv::Config::default())]))
        .needed("manet", "The addresses of the nodes.", schema::prefix())
        .key("internet", "Whether routes to the Internet are looked for.", schema::flag())
        .key("device", "The device by which packets without a route come.", device_schema());
    let dsdv = keys("dsdv")
        .key("manet", "The addresses of the nodes.", schema::prefix())
        .parameters(&dsdv::PARAMETERS.describe(&[("dsdv", dsdv::Config::default())]));
    let olsr = keys("olsr")
        .key("manet", "The addresses of the nodes.", schema::prefix())
        .parameters(&olsr::PARAMETERS.describe(&[("olsr", olsr::Config::live())]))
        .key(
            "attached",
            "The networks behind this node.",
            schema::list(schema::prefix(), 1, MAX_ATTACHED),
        );
    schema::any([olsr.table(), dsdv.table(), aodv.table()])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Protocol;
    use crate::config::Config;

    const TEXT: &str = "[routing]\nprotocol = \"dsdv\"\ninterfaces = [\"wlan0\"]\n";

    #[test]
    fn a_protocol_and_an_interface_are_enough() {
        let routing = Config::parse("a.toml", TEXT).unwrap().routing.unwrap();

        assert_eq!(routing.interfaces, ["wlan0"]);
        assert_eq!((routing.metric, routing.manet), (4_096, None));
        assert_eq!(routing.protocol.name(), "dsdv");
    }

    #[test]
    fn each_protocol_has_its_parameters() {
        let read = |text: &str| Config::parse("a.toml", text).unwrap().routing.unwrap();
        let aodv = "manet = \"10.9.0.0/16\"\ninternet = true\nhello.interval = \"500ms\"\n";
        let olsr = "attached = [\"0.0.0.0/0\", \"192.168.7.0/24\"]\nwillingness = 7\n";

        let aodv = read(&format!("{}{aodv}", TEXT.replace("dsdv", "aodv")));
        let olsr = read(&format!("{}{olsr}", TEXT.replace("dsdv", "olsr")));

        let Protocol::Aodv(config, on_demand) = &aodv.protocol else { panic!("{aodv:?}") };
        assert_eq!(Some(config.internet.manet), aodv.manet);
        assert_eq!(config.hello.interval, Duration::from_millis(500));
        assert!(on_demand.has_internet && !on_demand.is_gateway, "{on_demand:?}");
        let Protocol::Olsr(config) = &olsr.protocol else { panic!("{olsr:?}") };
        assert_eq!((config.attached.len(), config.willingness), (2, 7));
        assert!(olsr.protocol.on_demand().is_none());
    }

    #[test]
    fn the_examples_are_valid_and_show_the_defaults() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/manet");
        for name in ["aodv", "dsdv", "olsr"] {
            let file = folder.join(format!("manet-{name}.toml"));
            let routing = Config::read(&file).unwrap().routing.unwrap();
            assert_eq!(routing.protocol.name(), name);

            // What is commented out can be commented in, but for a gateway's own keys.
            let text = std::fs::read_to_string(&file).unwrap();
            let is_default = |line: &&str| line.starts_with("# ") && line.contains(" = ");
            let own = ["gateway", "attached"];
            let is_own = |line: &str| own.iter().any(|own| line.starts_with(&format!("# {own}")));
            let all: Vec<_> = text
                .lines()
                .map(|line| match line {
                    line if is_default(&line) && !is_own(line) => &line[2..],
                    line => line,
                })
                .collect();
            let with_all = Config::parse("a.toml", &all.join("\n")).unwrap().routing.unwrap();
            assert_eq!(with_all, routing, "{name}");
        }
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("\"dsdv\"", "\"rip\"", "2: routing.protocol: \"rip\" is not allowed: "),
            ("protocol", "protokoll", "2: routing.protokoll: there is no such key; protocol"),
            ("\"wlan0\"", "", "3: routing.interfaces: 0 of them: 1 to 16 are allowed"),
            ("\"wlan0\"", "\"a\", \"a\"", "3: routing.interfaces: a is there twice"),
            ("]\n", "]\nmetric = 0\n", "4: routing.metric: 0 is not allowed: 1 to 2147483648"),
            ("]\n", "]\nmanet = \"10.0.0.1/8\"\n", "4: routing.manet: 10.0.0.1/8 has host bits"),
            ("]\n", "]\nmanet = \"fd00::/16\"\n", "4: routing.manet: fd00::/16 is not allowed"),
            ("]\n", "]\nmanet = \"10.0.0.0/31\"\n", "4: routing.manet: 10.0.0.0/31 is not allowed"),
            ("]\n", "]\nupdate-interval = 3\n", "4: routing.update-interval: \"3\" is not a time"),
            ("\"dsdv\"", "\"aodv\"", "1: routing: manet is missing"),
            (
                "dsdv\"",
                "olsr\"\nattached = [\"fd00::/16\"]",
                "3: routing.attached: fd00::/16 is not",
            ),
            (
                "dsdv\"",
                "aodv\"\nmanet = \"10.0.0.0/8\"\ngateway = true\ninternet = true",
                "5: routing.internet: a gateway reaches the Internet by its own routes",
            ),
            ("dsdv\"", "dsdv\"\ninternet = true", "3: routing.internet: there is no such key"),
            ("]\n", "]\nmetrik = 3\n", "4: routing.metrik: there is no such key; metric"),
        ] {
            let at = if from == "]\n" { TEXT.rfind(from) } else { TEXT.find(from) }.unwrap();
            let text = format!("{}{to}{}", &TEXT[..at], &TEXT[at + from.len()..]);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }
}
