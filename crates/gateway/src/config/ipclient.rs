//! The section `ipclient`: which networks are behind which nodes of an HF network, and how their
//! packets travel.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use proto::ip::Prefix;
use proto::s5066::Address;
use serde::Deserialize;
use toml::Spanned;

use super::value::{Between, Parsed, Period, Span};
use super::{bounded, check_device};

/// IP datagrams over a STANAG 5066 server.
#[derive(Clone, Debug, PartialEq)]
pub struct IpClient {
    /// The server's socket for clients.
    pub server: SocketAddr,
    /// The access point that is bound, 0 to 15.
    pub sap: u8,
    /// Against other clients of the server, 0 to 14.
    pub rank: u8,
    /// The TUN device's name.
    pub device: String,
    /// The device's addresses.
    pub addresses: Vec<Prefix>,
    /// Octets of a datagram at most.
    pub mtu: u16,
    /// How datagrams to one node travel.
    pub unicast: Travel,
    /// Times that a datagram without ARQ is sent again.
    pub repeats: u8,
    /// How long a datagram is worth sending; `None` for ever.
    pub time_to_live: Option<Duration>,
    /// Octets of datagrams that may wait.
    pub queue: usize,
    /// Which node is asked for which destinations: the longest prefix decides.
    pub routes: Vec<Route>,
    /// What differs from the default for these code points.
    pub classes: Vec<Class>,
}

/// How datagrams travel.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Travel {
    /// Acknowledged, delivered in the order of their sending.
    #[default]
    Arq,
    /// Acknowledged, delivered as they arrive.
    ArqAnyOrder,
    /// Not acknowledged.
    NonArq,
}

/// A network and the node it is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// The node, or a group of nodes.
    pub node: Address,
}

/// How datagrams with a code point travel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Class {
    /// The differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// 0 to 15, the highest; `None` for the default.
    pub priority: Option<u8>,
    /// `None` for the default.
    pub travel: Option<Travel>,
}

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    #[serde(default)]
    server: Option<Spanned<Parsed<SocketAddr>>>,
    #[serde(default)]
    sap: Option<Between<0, 15>>,
    #[serde(default)]
    rank: Option<Between<0, 14>>,
    #[serde(default)]
    device: Option<Spanned<String>>,
    addresses: Spanned<Vec<Parsed<Prefix>>>,
    #[serde(default)]
    mtu: Option<Spanned<Between<576, 2_048>>>,
    #[serde(default)]
    unicast: Travel,
    #[serde(default)]
    repeats: Option<Between<0, 15>>,
    #[serde(default)]
    ttl: Option<Spanned<Period>>,
    #[serde(default)]
    queue: Option<Between<4_096, 16_777_216>>,
    route: Spanned<Vec<RouteSection>>,
    #[serde(default)]
    class: Vec<ClassSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteSection {
    node: Spanned<Parsed<Address>>,
    to: Spanned<Vec<Spanned<Parsed<Prefix>>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassSection {
    dscp: Spanned<Vec<Spanned<Between<0, 63>>>>,
    #[serde(default)]
    priority: Option<Between<0, 15>>,
    #[serde(default)]
    unicast: Option<Travel>,
}

/// Annex F, table F-1.
const SAP: u8 = 9;
/// The MTU of the subnetwork (Annex A, 2.1.1).
const MTU: u16 = 2_048;
const PORT: u16 = 5_066;
const DEVICE: &str = "trackway-hf0";
const QUEUE: usize = 256 << 10;
const RANK: u8 = 0;
const TIME_TO_LIVE: Duration = Duration::from_secs(600);
/// The field has 20 bits of 2 s; 0 stands for no limit.
const LONGEST: Duration = Duration::from_secs(1_296_000);
const MAX_ADDRESSES: usize = 16;
const MAX_ROUTES: usize = 256;

type Fault = (Span, String);

impl Section {
    pub(super) fn check(self) -> Result<IpClient, Fault> {
        let server = match self.server {
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            Some(given) => {
                let (span, server) = (given.span(), given.into_inner().0);
                if server.port() == 0 || server.ip().is_unspecified() {
                    let what = format!(
                        "server: {server} is nowhere: an address and port, such as \
                         127.0.0.1:{PORT}"
                    );
                    return Err((span, what));
                }
                server
            }
        };
        let device = match self.device {
            None => DEVICE.to_owned(),
            Some(given) => {
                let (span, name) = (given.span(), given.into_inner());
                check_device(&name).map_err(|what| (span, format!("device: {what}")))?;
                name
            }
        };
        let (span, addresses) = (self.addresses.span(), self.addresses.into_inner());
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            let count = addresses.len();
            let what = format!("addresses: {count} of them: 1 to {MAX_ADDRESSES} are allowed");
            return Err((span, what));
        }
        let addresses: Vec<_> = addresses.into_iter().map(|address| address.0).collect();
        let routes = check_routes(self.route)?;
        let mtu = match self.mtu {
            None => MTU,
            Some(given) => {
                let value = given.get_ref().as_u16();
                let has_v6 = addresses.iter().any(|prefix| prefix.address().is_ipv6())
                    || routes.iter().any(|route| route.to.address().is_ipv6());
                if has_v6 && value < 1_280 {
                    let what = format!("mtu = {value} is not allowed: IPv6 needs 1280 at least");
                    return Err((given.span(), what));
                }
                value
            }
        };
        let ttl = bounded(&self.ttl, "ttl", Duration::ZERO, LONGEST)?.unwrap_or(TIME_TO_LIVE);
        Ok(IpClient {
            server,
            sap: self.sap.map_or(SAP, Between::as_u8),
            rank: self.rank.map_or(RANK, Between::as_u8),
            device,
            addresses,
            mtu,
            unicast: self.unicast,
            repeats: self.repeats.map_or(0, Between::as_u8),
            time_to_live: Some(ttl).filter(|ttl| !ttl.is_zero()),
            queue: self.queue.map_or(QUEUE, Between::as_usize),
            routes,
            classes: check_classes(self.class)?,
        })
    }
}

fn check_routes(sections: Spanned<Vec<RouteSection>>) -> Result<Vec<Route>, Fault> {
    let span = sections.span();
    let mut routes: Vec<Route> = Vec::new();
    for section in sections.into_inner() {
        let (node_at, Parsed(node)) = (section.node.span(), section.node.into_inner());
        let (to_at, to) = (section.to.span(), section.to.into_inner());
        if to.is_empty() {
            return Err((to_at, "to: at least one network, such as 10.2.0.0/16".to_owned()));
        }
        for to in to {
            let (span, Parsed(to)) = (to.span(), to.into_inner());
            if to != to.network() {
                let what = format!("to: {to} has host bits: {} is meant", to.network());
                return Err((span, what));
            }
            if let Some(other) = routes.iter().find(|other| other.to == to) {
                return Err((span, format!("to: {to} is behind {} already", other.node)));
            }
            if node.is_group() && !is_multicast(&to) {
                let what = format!(
                    "node: {node} is a group, and {to} is not only multicast (224.0.0.0/4, \
                     ff00::/8): a node is 0.0.0.0 to 15.255.255.255"
                );
                return Err((node_at, what));
            }
            routes.push(Route { to, node });
        }
    }
    if routes.is_empty() || routes.len() > MAX_ROUTES {
        let what = format!("route: {} networks: 1 to {MAX_ROUTES} are allowed", routes.len());
        return Err((span, what));
    }
    Ok(routes)
}

/// Whether all of a network is multicast.
fn is_multicast(to: &Prefix) -> bool {
    let bits = match to.address() {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 8,
    };
    // The address that all nodes of a link have is broadcast.
    let is_broadcast = to.address() == IpAddr::V4(Ipv4Addr::BROADCAST) && to.bits() == 32;
    (to.address().is_multicast() && to.bits() >= bits) || is_broadcast
}

fn check_classes(sections: Vec<ClassSection>) -> Result<Vec<Class>, Fault> {
    let mut classes: Vec<Class> = Vec::new();
    for section in sections {
        let (span, points) = (section.dscp.span(), section.dscp.into_inner());
        if points.is_empty() {
            return Err((span, "dscp: at least one code point, 0 to 63".to_owned()));
        }
        if section.priority.is_none() && section.unicast.is_none() {
            let what = "dscp: nothing is said of it: `priority`, `unicast`, or both".to_owned();
            return Err((span, what));
        }
        for point in points {
            let (span, dscp) = (point.span(), point.into_inner().as_u8());
            if classes.iter().any(|class| class.dscp == dscp) {
                return Err((span, format!("dscp: {dscp} is there twice")));
            }
            let priority = section.priority.map(Between::as_u8);
            classes.push(Class { dscp, priority, travel: section.unicast });
        }
    }
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const TEXT: &str = r#"
        [ipclient]
        addresses = ["10.66.0.1/24"]

        [[ipclient.route]]
        node = "0.10.20.31"
        to = ["10.66.0.2/32", "10.2.0.0/16"]
    "#;

    #[test]
    fn an_address_and_a_route_are_enough() {
        let client = Config::parse("a.toml", TEXT).unwrap().ip_client.unwrap();

        assert_eq!(client.server, "127.0.0.1:5066".parse().unwrap());
        assert_eq!((client.sap, client.mtu, client.unicast), (9, 2_048, Travel::Arq));
        assert_eq!(client.device, "trackway-hf0");
        assert_eq!(client.time_to_live, Some(Duration::from_secs(600)));
        let nodes: Vec<_> = client.routes.iter().map(|route| route.node.to_string()).collect();
        assert_eq!(nodes, ["0.10.20.31", "0.10.20.31"]);
    }

    #[test]
    fn the_examples_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
            Config::read(&folder.join(name)).unwrap().ip_client.unwrap()
        };

        let (a, b) = (read("ipclient-a.toml"), read("ipclient-b.toml"));

        let defaults = Config::parse("a.toml", TEXT).unwrap().ip_client.unwrap();
        let (addresses, routes, classes) =
            (a.addresses.clone(), a.routes.clone(), a.classes.clone());
        assert_eq!(a, IpClient { addresses, routes, classes, ..defaults });
        for (near, far) in [(&a, &b), (&b, &a)] {
            for own in &near.addresses {
                assert!(far.routes.iter().any(|route| route.to.address() == own.address()));
            }
        }
    }

    #[test]
    fn a_group_takes_multicast_and_code_points_have_their_ways() {
        let more = "[[ipclient.route]]\nnode = \"31.255.255.255\"\nto = [\"224.0.0.0/4\"]\n\
                    [[ipclient.class]]\ndscp = [46, 34]\npriority = 13\nunicast = \"non-arq\"\n";

        let client = Config::parse("a.toml", &format!("{TEXT}\n{more}")).unwrap();

        let client = client.ip_client.unwrap();
        assert_eq!(client.routes[2].node, Address::BROADCAST);
        let class = Class { dscp: 46, priority: Some(13), travel: Some(Travel::NonArq) };
        assert_eq!(client.classes, [class, Class { dscp: 34, ..class }]);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("addr", "server = \"0.0.0.0:5066\"\naddr", "line 3: server: 0.0.0.0:5066 is nowhere"),
            ("addr", "server = \"here\"\naddr", "line 3: server: \"here\" is not allowed"),
            ("addr", "mtu = 4096\naddr", "line 3: mtu: 4096 is not allowed: 576 to 2048"),
            (
                "addresses = [",
                "mtu = 576\naddresses = [\"fd66::1/64\", ",
                "line 3: mtu = 576 is not allowed: IPv6 needs 1280 at least",
            ),
            ("addr", "ttl = \"400h\"\naddr", "line 3: ttl = 1440000s is not allowed"),
            ("\"10.66.0.1/24\"", "", "line 3: addresses: 0 of them: 1 to 16 are allowed"),
            ("\"0.10.20.31\"", "\"0.10.20\"", "line 6: node: \"0.10.20\" is not allowed: a node"),
            ("\"0.10.20.31\"", "\"16.0.0.1\"", "line 6: node: 16.0.0.1 is a group, and 10.66"),
            ("10.2.0.0/16", "10.2.3.0/16", "line 7: to: 10.2.3.0/16 has host bits: 10.2.0.0/16"),
            ("10.2.0.0/16", "10.66.0.2/32", "line 7: to: 10.66.0.2/32 is behind 0.10.20.31"),
            ("[\"10.66.0.2/32\", \"10.2.0.0/16\"]", "[]", "line 7: to: at least one network"),
            ("node", "modem", "line 6: unknown field `modem`"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("a.toml, {expected}")), "{said}\nnot\n{expected}");
        }
        for (class, expected) in [
            ("dscp = [46]", "line 11: dscp: nothing is said of it"),
            ("dscp = [64]\npriority = 1", "line 11: dscp: 64 is not allowed: 0 to 63"),
            ("dscp = [1, 1]\npriority = 1", "line 11: dscp: 1 is there twice"),
            ("dscp = [1]\npriority = 16", "line 12: priority: 16 is not allowed: 0 to 15"),
            ("dscp = [1]\nunicast = \"udp\"", "line 12: unicast: unknown variant `udp`"),
        ] {
            let text = format!("{TEXT}\n\n[[ipclient.class]]\n{class}");
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("a.toml, {expected}")), "{said}\nnot\n{expected}");
        }
    }
}
