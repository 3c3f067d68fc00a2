//! Reads the section `ipclient`: the networks behind each node of an HF network, and how their
//! packets travel.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::ip::Prefix;
use hf::ipclient::{self, CLASS, PARAMETERS};
use hf::s5066::{Address, seal};
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::group::Group;
use super::{addresses, device, device_schema, either, node_schema};
use crate::keys::BadKeyFile;

/// IP datagrams over a STANAG 5066 server.
#[derive(Clone, Debug, PartialEq)]
pub struct IpClient {
    /// The server's socket for clients.
    pub server: SocketAddr,
    /// The TUN device's name.
    pub device: String,
    /// The device's addresses.
    pub addresses: Vec<Prefix>,
    /// The node for each network of destinations: the longest prefix decides.
    pub routes: Vec<Route>,
    /// Whether packets for their networks may leave otherwise while the client is gone.
    pub fail_open: bool,
    /// The group that other gateways are to be members of.
    pub group: Option<Group>,
    /// The parameters of the client, without addresses, routes and group.
    pub parameters: ipclient::Config,
}

/// A network and the node it is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// The node, or a group of nodes.
    pub node: Address,
}

impl IpClient {
    /// The routes of its core.
    pub(crate) fn core_routes(&self) -> Vec<ipclient::Route> {
        let routes = self.routes.iter();
        routes.map(|it| ipclient::Route { prefix: it.to, to: it.node }).collect()
    }

    /// The parameters of its core; the clock says this much at its time zero, since 1970.
    ///
    /// # Errors
    /// When the file of the group's key cannot be used.
    pub(crate) fn core(&self, clock: Duration) -> Result<ipclient::Config, BadKeyFile> {
        Ok(ipclient::Config {
            addresses: self.addresses.iter().map(Prefix::address).collect(),
            routes: self.core_routes(),
            group: self.group.as_ref().map(|group| group.core(clock)).transpose()?,
            ..self.parameters.clone()
        })
    }
}

pub(crate) const PORT: u16 = 5_066;
const DEVICE: &str = "trackway-hf0";
const TIME_TO_LIVE: Duration = Duration::from_secs(600);
const MAX_ADDRESSES: usize = 16;
const MAX_ROUTES: usize = 256;

/// The parameters of a gateway's client, unless given.
pub(crate) fn defaults() -> ipclient::Config {
    let mut parameters = ipclient::Config::new(Vec::new());
    parameters.set_ttl(Some(TIME_TO_LIVE));
    parameters.compress_headers = true;
    parameters
}

/// Reads the section, whose group was read before.
pub(crate) fn read(
    section: &Section<'_>,
    group: Result<Option<Group>, Complaint>,
) -> Result<IpClient, Complaint> {
    let mut parameters = defaults();
    let applied = section.apply(&PARAMETERS, &mut parameters);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let server = either(section, "server", local, server);
    let device = either(section, "device", DEVICE.to_owned(), device);
    let addresses = section.needed("addresses").and_then(|entry| addresses(&entry, MAX_ADDRESSES));
    let routes = routes(section, "route", node).and_then(|routes| {
        if routes.is_empty() {
            let entry = section.needed("route")?;
            return Err(entry.complain("at least one network behind a node is needed"));
        }
        Ok(routes.into_iter().map(|(to, node)| Route { to, node }).collect::<Vec<_>>())
    });
    let classes = classes(section, &mut parameters);
    let fail_open = either(section, "fail-open", false, |it| it.flag());
    applied.and(classes)?;
    let (addresses, routes, group) = (addresses?, routes?, group?);
    let is_v6 = |prefix: &Prefix| prefix.address().is_ipv6();
    let has_v6 = addresses.iter().any(is_v6) || routes.iter().any(|route| is_v6(&route.to));
    let least = 1_280 + if group.is_some() { seal::OVERHEAD } else { 0 };
    if has_v6
        && parameters.mtu < least
        && let Some(mtu) = section.get("mtu")?
    {
        let what = format!("{} is not allowed: IPv6 needs {least} at least", parameters.mtu);
        return Err(mtu.complain(what));
    }
    let (server, device, fail_open) = (server?, device?, fail_open?);
    Ok(IpClient { server, device, addresses, routes, fail_open, group, parameters })
}

pub(crate) fn server(entry: &Entry<'_>) -> Result<SocketAddr, Complaint> {
    let server = entry.socket()?;
    if server.port() == 0 || server.ip().is_unspecified() {
        let what = format!("{server} is nowhere: an address and port, such as 127.0.0.1:{PORT}");
        return Err(entry.complain(what));
    }
    Ok(server)
}

/// The networks behind other nodes or gateways, named by the sections under `key`; `whose` reads the owner
/// of the networks from each section.
pub(crate) fn routes<T: Display>(
    section: &Section<'_>,
    key: &str,
    whose: impl Fn(&Section<'_>, &Prefix) -> Result<T, Complaint>,
) -> Result<Vec<(Prefix, T)>, Complaint> {
    let mut routes: Vec<(Prefix, T)> = Vec::new();
    let sections = section.sections(key)?;
    let read = each(&sections, |route| {
        let networks = route.needed("to").and_then(|entry| {
            let list = entry.list()?;
            if list.is_empty() {
                return Err(entry.complain("at least one network, such as 10.2.0.0/16"));
            }
            Ok(list)
        });
        let networks = match networks {
            Ok(networks) => networks,
            Err(complaint) => {
                // Reads the owner's keys even without networks; any network will do here.
                drop(whose(route, &Prefix::host(Ipv4Addr::BROADCAST.into())));
                return Err(complaint);
            }
        };
        each(&networks, |entry| {
            let to = network(entry);
            let whose =
                whose(route, to.as_ref().unwrap_or(&Prefix::host(Ipv4Addr::BROADCAST.into())));
            let (to, whose) = (to?, whose?);
            if let Some((_, other)) = routes.iter().find(|(other, _)| *other == to) {
                return Err(entry.complain(format!("{to} is behind {other} already")));
            }
            routes.push((to, whose));
            Ok(())
        })
    });
    read?;
    if routes.len() > MAX_ROUTES {
        let what = format!("{} networks: at most {MAX_ROUTES} are allowed", routes.len());
        return Err(section.needed(key)?.complain(what));
    }
    Ok(routes)
}

/// The node that a network is behind; a group only has multicast.
fn node(route: &Section<'_>, to: &Prefix) -> Result<Address, Complaint> {
    let entry = route.needed("node")?;
    let node: Address = entry.parsed()?;
    if node.is_group() && !is_multicast(to) {
        return Err(entry.complain(format!(
            "{node} is a group, and {to} is not only multicast (224.0.0.0/4, ff00::/8): a node is \
             0.0.0.0 to 15.255.255.255"
        )));
    }
    Ok(node)
}

/// A prefix without host bits.
pub(crate) fn network(entry: &Entry<'_>) -> Result<Prefix, Complaint> {
    let prefix: Prefix = entry.parsed()?;
    if prefix != prefix.network() {
        let what = format!("{prefix} has host bits: {} is meant", prefix.network());
        return Err(entry.complain(what));
    }
    Ok(prefix)
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

/// What differs for some code points.
fn classes(section: &Section<'_>, parameters: &mut ipclient::Config) -> Result<(), Complaint> {
    let mut seen = Vec::new();
    let sections = section.sections("class")?;
    let read = |class: &Section<'_>| {
        let points = class.needed("dscp");
        let is_said = [class.get("priority")?, class.get("unicast")?].iter().any(Option::is_some);
        // Applied to a copy first: all parameters are read even without valid code points.
        let allowed = class.apply(&CLASS, &mut parameters.classes[0].clone());
        let points = points?;
        if points.list()?.is_empty() {
            return Err(points.complain("at least one code point, 0 to 63"));
        }
        if !is_said {
            return Err(points.complain("nothing is said of it: priority, unicast, or both"));
        }
        each(&points.list()?, |point| {
            let dscp: usize = point.count(0..=63)?;
            if seen.contains(&dscp) {
                return Err(point.complain(format!("{dscp} is there twice")));
            }
            seen.push(dscp);
            class.apply(&CLASS, &mut parameters.classes[dscp])
        })?;
        allowed
    };
    each(&sections, read).map(|_| ())
}

/// Describes the section for editors.
pub(crate) fn schema() -> Shape {
    let route = Shape::new()
        .needed("to", "Networks of destinations.", schema::list(schema::prefix(), 1, MAX_ROUTES))
        .needed("node", "The node that they are behind.", node_schema());
    let class = Shape::new()
        .needed("dscp", "The code points.", schema::list(schema::count(0, 63), 1, usize::MAX))
        .parameters(&CLASS.describe(&[("class", defaults().classes[0])]));
    let keys = Shape::new()
        .key("server", "The STANAG 5066 server's socket for clients.", schema::socket())
        .key("device", "The name of the TUN device.", device_schema())
        .needed(
            "addresses",
            "Those of the device.",
            schema::list(schema::prefix(), 1, MAX_ADDRESSES),
        )
        .needed("route", "The networks behind nodes.", schema::list(route.table(), 1, MAX_ROUTES))
        .key(
            "class",
            "How datagrams of some code points travel.",
            schema::list(class.table(), 0, usize::MAX),
        )
        .key(
            "fail-open",
            "Whether packets leave otherwise while the client is gone.",
            schema::flag(),
        )
        .parameters(&PARAMETERS.describe(&[("[ipclient]", defaults())]));
    super::group::schema(keys)
}

#[cfg(test)]
mod tests {
    use hf::s5066::sis::Mode;

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
        assert_eq!((client.parameters.sap.number(), client.parameters.mtu), (9, 2_048));
        assert_eq!(client.device, "trackway-hf0");
        let class = client.parameters.classes[0];
        assert_eq!(class.unicast, Mode::Arq { in_order: true });
        assert_eq!(class.ttl, Some(Duration::from_secs(600)));
        let nodes: Vec<_> = client.routes.iter().map(|route| route.node.to_string()).collect();
        assert_eq!(nodes, ["0.10.20.31", "0.10.20.31"]);
    }

    #[test]
    fn the_examples_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hf");
            Config::read(&folder.join(name)).unwrap().ip_client.unwrap()
        };

        let (a, b) = (read("ipclient-a.toml"), read("ipclient-b.toml"));

        let defaults = Config::parse("a.toml", TEXT).unwrap().ip_client.unwrap();
        let (addresses, routes) = (a.addresses.clone(), a.routes.clone());
        let parameters =
            ipclient::Config { classes: a.parameters.classes, ..defaults.parameters.clone() };
        assert_eq!(a, IpClient { addresses, routes, parameters, ..defaults });
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
        for dscp in [46, 34] {
            let class = client.parameters.classes[dscp];
            assert_eq!((class.priority, class.unicast), (13, Mode::ONCE));
        }
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            (
                "addr",
                "server = \"0.0.0.0:5066\"\naddr",
                "3: ipclient.server: 0.0.0.0:5066 is nowhere",
            ),
            ("addr", "server = \"here\"\naddr", "3: ipclient.server: \"here\" is not allowed"),
            (
                "addr",
                "mtu = 4096\naddr",
                "3: ipclient.mtu: 4096 is not allowed: 576 to 2048 octets",
            ),
            (
                "addresses = [",
                "mtu = 576\naddresses = [\"fd66::1/64\", ",
                "3: ipclient.mtu: 576 is not allowed: IPv6 needs 1280 at least",
            ),
            (
                "addr",
                "ttl = \"400h\"\naddr",
                "3: ipclient.ttl: \"400h\" is not allowed: 0s to 360h",
            ),
            ("\"10.66.0.1/24\"", "", "3: ipclient.addresses: 0 of them: 1 to 16 are allowed"),
            (
                "\"0.10.20.31\"",
                "\"0.10.20\"",
                "6: ipclient.route.node: \"0.10.20\" is not allowed: a node",
            ),
            (
                "\"0.10.20.31\"",
                "\"16.0.0.1\"",
                "6: ipclient.route.node: 16.0.0.1 is a group, and 10.66",
            ),
            (
                "10.2.0.0/16",
                "10.2.3.0/16",
                "7: ipclient.route.to: 10.2.3.0/16 has host bits: 10.2.0.0/16",
            ),
            (
                "10.2.0.0/16",
                "10.66.0.2/32",
                "7: ipclient.route.to: 10.66.0.2/32 is behind 0.10.20.31",
            ),
            (
                "[\"10.66.0.2/32\", \"10.2.0.0/16\"]",
                "[]",
                "7: ipclient.route.to: at least one network",
            ),
            ("node", "modem", "6: ipclient.route.modem: there is no such key; node is probably"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
        for (class, expected) in [
            ("dscp = [46]", "11: ipclient.class.dscp: nothing is said of it"),
            ("dscp = [64]\npriority = 1", "11: ipclient.class.dscp: 64 is not allowed: 0 to 63"),
            ("dscp = [1, 1]\npriority = 1", "11: ipclient.class.dscp: 1 is there twice"),
            (
                "dscp = [1]\npriority = 16",
                "12: ipclient.class.priority: 16 is not allowed: 0 to 15",
            ),
            (
                "dscp = [1]\nunicast = \"udp\"",
                "12: ipclient.class.unicast: \"udp\" is not allowed: \"arq\", ",
            ),
        ] {
            let text = format!("{TEXT}\n\n[[ipclient.class]]\n{class}");
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }
}
