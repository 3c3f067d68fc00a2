//! Reads the section `sar`: reliable messages over UDP for programs of this host, and for datagrams of others.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ::sar::PARAMETERS;
use base::ip::Prefix;
use base::parameter::{Kind, MOST_MEMORY};
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::{either, ipclient, optional, some};

/// Messages over UDP.
#[derive(Clone, Debug, PartialEq)]
pub struct Sar {
    /// Where PDUs come to, at most one of each version of IP; they go to the same port of others.
    pub listen: Vec<SocketAddr>,
    /// The folder of data that survives a restart.
    pub store: PathBuf,
    /// How to start when the store is damaged.
    pub damaged: Damaged,
    /// Where programs connect.
    pub socket: Socket,
    /// Where programs send datagrams that ask for the same; `None` for nowhere.
    pub udp: Option<SocketAddr>,
    /// What is kept for programs at most.
    pub service: Service,
    /// Destinations that one address reaches.
    pub groups: Vec<Group>,
    /// The carrying of datagrams from unaware programs, if any.
    pub carry: Option<Carry>,
    /// The parameters of its core.
    pub parameters: sar::Config,
}

impl Sar {
    /// The UDP port of all nodes.
    pub(crate) fn port(&self) -> u16 {
        self.listen.first().map_or(sar::PORT, SocketAddr::port)
    }
}

/// What happens when the store cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Damaged {
    /// The service does not start.
    Refuse,
    /// What there is is put into a folder beside, and the service begins anew.
    SetAside,
}

/// The Unix socket of programs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Socket {
    /// Its path.
    pub path: PathBuf,
    /// The socket's permissions, as for `chmod`.
    pub mode: u32,
    /// Owner of the socket, if not the gateway's user.
    pub owner: Option<String>,
    /// Group of the socket, if not the gateway's.
    pub group: Option<String>,
}

/// Destinations that one address reaches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    /// A multicast group or a directed broadcast.
    pub via: IpAddr,
    /// Who listens to it.
    pub members: BTreeSet<IpAddr>,
}

/// Carrying of datagrams from programs unaware of the gateway.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Carry {
    /// To these UDP ports.
    pub ports: Vec<u16>,
    /// Networks, each with the gateway in front of it.
    pub peers: Vec<(Prefix, IpAddr)>,
    /// The interfaces by which the datagrams arrive, `lo` for this host's own; none for all.
    pub interfaces: Vec<String>,
    /// The S/R port by which gateways recognise such datagrams.
    pub port: u16,
    /// Time after which a datagram is worthless.
    pub lifetime: Duration,
}

base::parameters! {
    /// The numeric parameters of the service.
    pub static SERVICE = "sar-service";

    /// What is kept for programs at most.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Service from default() {
        /// The store at most; beyond, programs are refused, and what arrives is not taken.
        #[allowed(Kind::count(32 << 20..=1 << 40).of("octets"))]
        pub store_octets: u64 = 1 << 30;

        /// Programs that are connected to the Unix socket at a time, and as many addresses that use the UDP port.
        #[allowed(Kind::count(1..=1_000))]
        pub clients: usize = 64;

        /// What a program may have received without having taken it.
        #[allowed(Kind::count(1..=10_000).of("messages"))]
        pub window: usize = 64;

        /// What has arrived and was not taken; beyond, nothing is received.
        #[allowed(Kind::count(1..=10_000_000).of("messages"))]
        pub inbox: usize = 10_000;

        /// Their octets.
        #[allowed(Kind::count(4_096..=MOST_MEMORY).of("octets"))]
        pub inbox_octets: usize = 64 << 20;

        /// Messages whose outcomes can be asked for after their end; beyond, the oldest are forgotten.
        #[allowed(Kind::count(1..=10_000_000).of("messages"))]
        pub outcomes: usize = 100_000;

        /// How long they can be asked for.
        #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(31 * 86_400)))]
        pub outcomes_kept: Duration = Duration::from_secs(86_400);

        /// How long a message is tried whose program does not say; by profile `default` nothing else ends it while its
        /// destination does not answer.
        #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(31 * 86_400)))]
        pub lifetime: Duration = Duration::from_secs(86_400);
    }
}

/// Where programs connect, unless a configuration says otherwise.
pub const SOCKET: &str = "/run/trackway/sar.sock";
const STORE: &str = "/var/lib/trackway/sar";
const MODE: u32 = 0o600;
const DAMAGED: [(&str, Damaged); 2] =
    [("refuse", Damaged::Refuse), ("set-aside", Damaged::SetAside)];
/// The port by which gateways recognise datagrams carried for other programs; unassigned in the registry of ports.
const CARRY_PORT: u16 = 29_810;
/// Programs repeat important datagrams themselves.
const CARRY_LIFETIME: Duration = Duration::from_secs(60);
const MOST_GROUPS: usize = 64;
const MOST_PORTS: usize = 64;
/// The longest path of a Unix socket.
const LONGEST_PATH: usize = 107;

/// Reads the section.
pub(crate) fn read(section: &Section<'_>) -> Result<Sar, Complaint> {
    let mut parameters = sar::Config::default();
    let applied = section.apply(&PARAMETERS, &mut parameters);
    let mut service = Service::default();
    let applied = applied.and(section.apply(&SERVICE, &mut service));
    let everywhere = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, sar::PORT))];
    let listen = either(section, "listen", everywhere, listen);
    let damaged = either(section, "damaged", Damaged::Refuse, |it| it.word(&DAMAGED));
    let store = either(section, "store", STORE.into(), absolute);
    let udp = either(section, "udp", None, |it| local(it).map(Some));
    let groups = section.sections("group").and_then(|sections| {
        if sections.len() > MOST_GROUPS {
            let what = format!("{} groups: at most {MOST_GROUPS} are allowed", sections.len());
            return Err(section.needed("group")?.complain(what));
        }
        each(&sections, |section| group(section, &parameters))
    });
    let carry = optional(section, "carry", carry);
    let named = |key: &str| either(section, key, None, |it| name(it).map(Some));
    let (path, mode) = (
        either(section, "socket", SOCKET.into(), socket_path),
        either(section, "socket-mode", MODE, mode),
    );
    let (owner, group) = (named("socket-owner"), named("socket-group"));
    applied?;
    Ok(Sar {
        listen: listen?,
        store: store?,
        damaged: damaged?,
        socket: Socket { path: path?, mode: mode?, owner: owner?, group: group? },
        udp: udp?,
        service,
        groups: groups?,
        carry: carry?,
        parameters,
    })
}

fn listen(entry: &Entry<'_>) -> Result<Vec<SocketAddr>, Complaint> {
    let mut all: Vec<SocketAddr> = Vec::new();
    each(&some(entry, 2)?, |entry| {
        let address = entry.socket()?;
        if address.port() == 0 {
            return Err(entry.complain("the port 0 is not allowed"));
        }
        let has_version = |it: &SocketAddr| it.is_ipv4() == address.is_ipv4();
        if all.iter().any(has_version) {
            return Err(entry.complain("one address of each version of IP is allowed"));
        }
        if all.first().is_some_and(|it| it.port() != address.port()) {
            return Err(entry.complain("both addresses need the same port, which others have too"));
        }
        all.push(address);
        Ok(())
    })?;
    Ok(all)
}

fn local(entry: &Entry<'_>) -> Result<SocketAddr, Complaint> {
    let address = entry.socket()?;
    if !address.ip().is_loopback() || address.port() == 0 {
        return Err(entry.complain(format!(
            "{address} is not allowed: a port of this host alone, such as 127.0.0.1:1625"
        )));
    }
    Ok(address)
}

fn absolute(entry: &Entry<'_>) -> Result<PathBuf, Complaint> {
    let path = PathBuf::from(entry.text()?);
    if !path.is_absolute() {
        return Err(entry.complain(format!("{} does not begin with /", path.display())));
    }
    Ok(path)
}

fn socket_path(entry: &Entry<'_>) -> Result<PathBuf, Complaint> {
    let path = absolute(entry)?;
    let have = path.as_os_str().len();
    if have > LONGEST_PATH {
        let what = format!("{have} octets: the path of a socket has {LONGEST_PATH} at most");
        return Err(entry.complain(what));
    }
    Ok(path)
}

fn mode(entry: &Entry<'_>) -> Result<u32, Complaint> {
    let mode = u32::from_str_radix(entry.text()?, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| entry.complain("rights as chmod takes them are needed, such as \"0660\""))
}

/// A user or a group, by name or number.
fn name(entry: &Entry<'_>) -> Result<String, Complaint> {
    let name = entry.text()?;
    if name.is_empty() {
        return Err(entry.complain("a name or a number is needed"));
    }
    Ok(name.to_owned())
}

fn address(entry: &Entry<'_>) -> Result<IpAddr, Complaint> {
    let address: IpAddr = entry.parsed()?;
    Ok(address.to_canonical())
}

fn group(section: &Section<'_>, parameters: &sar::Config) -> Result<Group, Complaint> {
    let via = section.needed("via").and_then(|it| address(&it));
    let members = section.needed("members").and_then(|entry| {
        let members = each(&some(&entry, parameters.limits.destinations)?, address)?;
        let members: BTreeSet<IpAddr> = members.into_iter().collect();
        if members.len() < 2 {
            return Err(entry.complain("a group has two members at least"));
        }
        Ok(members)
    });
    Ok(Group { via: via?, members: members? })
}

fn carry(section: &Section<'_>) -> Result<Carry, Complaint> {
    let port = |entry: &Entry<'_>| entry.count::<u16>(1..=u16::MAX.into());
    let ports = section.needed("ports").and_then(|entry| {
        let ports = each(&some(&entry, MOST_PORTS)?, port)?;
        if ports.contains(&sar::PORT) {
            return Err(entry.complain("messages themselves go to that port"));
        }
        Ok(ports)
    });
    let gateway = |peer: &Section<'_>, _: &Prefix| address(&peer.needed("gateway")?);
    let peers = ipclient::routes(section, "peer", gateway).and_then(|peers| {
        if peers.is_empty() {
            let what = "peer is missing: which networks are behind which gateway";
            return Err(section.complain(what));
        }
        Ok(peers)
    });
    let interfaces =
        either(section, "interfaces", Vec::new(), |it| each(&some(it, 64)?, super::device));
    let lifetime = either(section, "lifetime", CARRY_LIFETIME, |entry| {
        let least = Duration::from_millis(1);
        Ok(entry.read(&Kind::Period { least, most: Duration::from_secs(86_400) })?.period())
    });
    let port = either(section, "port", CARRY_PORT, port);
    let (ports, peers, interfaces) = (ports?, peers?, interfaces?);
    Ok(Carry { ports, peers, interfaces, port: port?, lifetime: lifetime? })
}

/// Describes the section for editors.
pub(crate) fn schema() -> Shape {
    let group = Shape::new()
        .needed("via", "A multicast group or a directed broadcast.", schema::ip())
        .needed("members", "Who listens to it.", schema::list(schema::ip(), 2, usize::MAX));
    let peer = Shape::new()
        .needed("to", "The networks behind it.", schema::list(schema::prefix(), 1, usize::MAX))
        .needed("gateway", "Its address.", schema::ip());
    let carry = Shape::new()
        .needed(
            "ports",
            "UDP ports whose datagrams are carried.",
            schema::list(schema::count(1, 65_535), 1, MOST_PORTS),
        )
        .needed(
            "peer",
            "Which networks are behind which gateway.",
            schema::list(peer.table(), 1, usize::MAX),
        )
        .key(
            "interfaces",
            "Those by which datagrams arrive.",
            schema::list(super::device_schema(), 1, 64),
        )
        .key("lifetime", "When a datagram is worthless.", schema::time())
        .key("port", "The S/R port of such datagrams.", schema::count(1, 65_535));
    let path = || schema::like("^/");
    Shape::new()
        .parameters(&PARAMETERS.describe(&[("[sar]", sar::Config::default())]))
        .parameters(&SERVICE.describe(&[("[sar]", Service::default())]))
        .key("listen", "Where PDUs come to.", schema::list(schema::socket(), 1, 2))
        .key("damaged", "What is done with a damaged store.", schema::words(&DAMAGED))
        .key("store", "The folder of what survives a restart.", path())
        .key("udp", "Where programs send datagrams that ask for messages.", schema::socket())
        .key(
            "group",
            "Destinations that one address reaches.",
            schema::list(group.table(), 0, MOST_GROUPS),
        )
        .key("carry", "Datagrams of programs that know nothing of it.", carry.table())
        .key("socket", "The Unix socket of programs.", path())
        .key("socket-mode", "Its rights, as for chmod.", schema::like("^[+]?[0-7]+$"))
        .key("socket-owner", "Its owner.", schema::text())
        .key("socket-group", "Its group.", schema::text())
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Sar, String> {
        let read = Config::parse("a.toml", text).map_err(|why| why.to_string())?;
        Ok(read.sar.unwrap())
    }

    #[test]
    fn nothing_has_to_be_said() {
        let sar = parse("[sar]\n").unwrap();

        assert_eq!(sar.listen, ["0.0.0.0:1624".parse().unwrap()]);
        assert_eq!((sar.socket.mode, sar.socket.path.to_str()), (0o600, Some(SOCKET)));
        assert_eq!((sar.parameters, sar.service), (sar::Config::default(), Service::default()));
        assert_eq!((sar.udp, sar.carry, sar.damaged), (None, None, Damaged::Refuse));
    }

    #[test]
    fn the_limits_are_as_the_keys_say() {
        let text = "[sar]\nstore-octets = 40000000\nclients = 3\nwindow = 4\ninbox = 5\ninbox-octets = 6000\n\
                    outcomes = 7\noutcomes-kept = \"8s\"\nlifetime = \"9s\"\n";
        let expected = Service {
            store_octets: 40_000_000,
            clients: 3,
            window: 4,
            inbox: 5,
            inbox_octets: 6_000,
            outcomes: 7,
            outcomes_kept: Duration::from_secs(8),
            lifetime: Duration::from_secs(9),
        };
        assert_eq!(parse(text).unwrap().service, expected);
    }

    #[test]
    fn groups_and_what_is_carried_are_read() {
        let text = "[[sar.group]]\nvia = \"10.9.1.255\"\nmembers = [\"10.9.1.2\", \"10.9.1.3\"]\n\
                    [sar.carry]\nports = [514]\ninterfaces = [\"lan0\"]\nlifetime = \"5s\"\n\
                    [[sar.carry.peer]]\ngateway = \"10.9.1.2\"\nto = [\"10.2.0.0/16\"]\n";
        let sar = parse(text).unwrap();

        assert_eq!(
            (sar.groups[0].via.to_string(), sar.groups[0].members.len()),
            ("10.9.1.255".into(), 2)
        );
        let carry = sar.carry.unwrap();
        assert_eq!((carry.ports, carry.port, carry.lifetime.as_secs()), (vec![514], CARRY_PORT, 5));
        assert_eq!(carry.peers, [("10.2.0.0/16".parse().unwrap(), "10.9.1.2".parse().unwrap())]);
        assert_eq!(carry.interfaces, ["lan0"]);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (text, expected) in [
            ("clients = 0", "2: sar.clients: 0 is not allowed: 1 to 1000"),
            ("segment = 3", "2: sar.segment: 3 is not allowed: 16 to 3078 octets"),
            ("listne = []", "2: sar.listne: there is no such key; listen is probably meant"),
            ("listen = []", "2: sar.listen: 0 of them: 1 to 2 are allowed"),
            (
                "listen = [\"10.0.0.1:1624\", \"10.0.0.2:1624\"]",
                "2: sar.listen: one address of each version of IP is allowed",
            ),
            (
                "listen = [\"10.0.0.1:1624\", \"[::1]:1625\"]",
                "2: sar.listen: both addresses need the same port",
            ),
            ("store = \"here\"", "2: sar.store: here does not begin with /"),
            ("socket-mode = \"0999\"", "2: sar.socket-mode: rights as chmod takes them"),
            ("udp = \"10.0.0.1:5\"", "2: sar.udp: 10.0.0.1:5 is not allowed: a port of this host"),
            ("damaged = \"ignore\"", "2: sar.damaged: \"ignore\" is not allowed: \"refuse\", "),
            (
                "[[sar.group]]\nvia = \"10.0.0.255\"\nmembers = [\"10.0.0.1\"]",
                "4: sar.group.members: a group has two members at least",
            ),
            ("[sar.carry]\nports = [53]", "2: sar.carry: peer is missing: which networks"),
        ] {
            let said = parse(&format!("[sar]\n{text}\n")).unwrap_err();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }
}
