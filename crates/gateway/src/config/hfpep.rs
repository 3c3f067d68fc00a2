//! Reads the section `hfpep`: the TCP connections carried over HF radio or to another gateway, the UDP
//! datagrams carried over HF radio, and their destinations.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ::rules::{Handshake, Ports};
use base::ip::Prefix;
use hf::hfpep;
use hf::s5066::Address;
use hf::slep;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::bearer::{self, Bearer};
use super::group::Group;
use super::ipclient::{PORT, network, routes, server};
use super::{MAX_VALUES, device, device_schema, either, ends, node_schema, rules, tls, values};
use crate::ends::{End, Ends};
use crate::keys::BadKeyFile;
use crate::tls::{Destination, Profile, Role, TargetProfile};

/// TCP connections over a STANAG 5066 server, or straight to other gateways.
#[derive(Clone, Debug, PartialEq)]
pub struct HfPep {
    /// The server's socket for clients; `None` where nothing goes over HF.
    pub server: Option<SocketAddr>,
    /// How connections go to other gateways, and come from them.
    pub bearer: Bearer,
    /// How the gateway treats connections requested by other ends.
    pub mode: Mode,
    /// The interfaces from which connections are taken; none for all interfaces and this host's own connections.
    pub interfaces: Vec<String>,
    /// When to answer clients of diverted connections, unless their rule says otherwise.
    pub handshake: Handshake,
    /// Whether clients are told an end that follows their own only when the target has all that they said,
    /// unless their rule says.
    pub confirm_close: bool,
    /// The networks to which connections are taken, each with its gateway or node: the longest prefix decides.
    pub peers: Vec<Peer>,
    /// Ports where connections or datagrams to one target are taken.
    pub listeners: Vec<Listener>,
    /// Where connections that other ends ask for may lead; `None` for wherever a router would
    /// forward them to.
    pub allowed: Option<Vec<Allowed>>,
    /// The TLS profile by which targets are met, where another end asks for TLS.
    pub tls: Option<String>,
    /// The group that stations on HF are to be members of.
    pub group: Option<Group>,
    /// The parameters of its core, without the group.
    pub parameters: hfpep::Config,
}

/// Whose addresses connections have at the far end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Those of the client: targets see who it is.
    Transparent,
    /// This gateway's: nothing has to be routed back to it, and nobody can connect the other way.
    Shore,
}

/// Who has a network or a target.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Far {
    /// Another gateway, at its bearer's socket.
    Gateway(SocketAddr),
    /// A node of the HF network.
    Node(Address),
}

/// A network, and the gateway or node in front of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// The destinations.
    pub to: Prefix,
    /// Who has them.
    pub far: Far,
}

/// A port where connections or datagrams to one target are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Listener {
    /// Where clients connect to.
    pub at: SocketAddr,
    /// Who has the target.
    pub far: Far,
    /// Whom the far end connects to, or sends datagrams to.
    pub target: SocketAddr,
    /// What comes in there.
    pub transport: Transport,
}

/// What comes in at a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// TCP connections.
    Tcp,
    /// Datagrams of UDP.
    Udp {
        /// Whether each is repeated until the other node has acknowledged it.
        is_reliable: bool,
    },
}

impl Far {
    /// Whether this is who asks. A gateway counts by its address, for it connects from any port.
    #[must_use]
    pub fn is(self, end: End) -> bool {
        match self {
            Self::Gateway(gateway) => End::gateway(gateway.ip()) == end,
            Self::Node(node) => End::Node(node) == end,
        }
    }

    /// Where the gateway is, if it is one.
    #[must_use]
    pub fn gateway(self) -> Option<SocketAddr> {
        match self {
            Self::Gateway(gateway) => Some(gateway),
            Self::Node(_) => None,
        }
    }
}

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(gateway) => gateway.fmt(f),
            Self::Node(node) => node.fmt(f),
        }
    }
}

/// Targets that other ends may be connected to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Allowed {
    /// Nodes and gateways that may ask; empty for all.
    pub ends: Ends,
    /// Networks of the clients; empty for all clients. Without `ends`, a client counts only if its network is known to
    /// be behind the end that asks.
    pub from: Vec<Prefix>,
    /// Networks of the targets.
    pub to: Vec<Prefix>,
    /// Ports of the targets.
    pub ports: Ports,
}

const MODES: [(&str, Mode); 2] = [("transparent", Mode::Transparent), ("shore", Mode::Shore)];
const TRANSPORTS: [(&str, bool); 2] = [("tcp", false), ("udp", true)];
const MAX_LISTENERS: usize = 256;
const MAX_ALLOWED: usize = 256;
const MAX_INTERFACES: usize = 64;

impl HfPep {
    /// The other gateways to which connections go.
    pub(crate) fn gateways(&self) -> BTreeSet<SocketAddr> {
        let peers = self.peers.iter().map(|it| it.far);
        peers.chain(self.listeners.iter().map(|it| it.far)).filter_map(Far::gateway).collect()
    }

    /// Whether other ends can ask for connections to targets.
    pub(crate) fn has_targets(&self) -> bool {
        let is_reached = self.bearer.listen.is_some() || self.server.is_some();
        is_reached && self.allowed.as_ref().is_none_or(|allowed| !allowed.is_empty())
    }

    /// The parameters of its core; the clock says this much at its time zero, since 1970.
    ///
    /// # Errors
    /// When the file of the group's key cannot be used.
    pub(crate) fn core(&self, clock: Duration) -> Result<hfpep::Config, BadKeyFile> {
        let mut parameters = self.parameters.clone();
        parameters.slep.group = self.group.as_ref().map(|group| group.core(clock)).transpose()?;
        Ok(parameters)
    }
}

/// Reads the section. It may name one of the `profiles` unless reading them failed; the group was read before.
pub(crate) fn read(
    section: &Section<'_>,
    profiles: Option<&[Profile]>,
    group: Result<Option<Group>, Complaint>,
) -> Result<HfPep, Complaint> {
    let mut parameters = hfpep::Config::default();
    // As for connections that are opened here, unless a rule says otherwise.
    parameters.answers.is_compressed = true;
    parameters.flows.compresses_answers = true;
    parameters.confirms_ends = true;
    let applied = section.apply(&hfpep::PARAMETERS, &mut parameters);
    let applied = applied.and(section.apply(&slep::PARAMETERS, &mut parameters.slep));
    let mode = either(section, "mode", Mode::Transparent, |entry| entry.word(&MODES));
    let interfaces = either(section, "interfaces", Vec::new(), |entry| {
        each(&super::some(entry, MAX_INTERFACES)?, device)
    });
    let handshake =
        either(section, "handshake", Handshake::Local, |entry| entry.word(&Handshake::NAMES));
    let confirm_close = either(section, "confirm-close", false, |entry| entry.flag());
    let peers = routes(section, "peer", |peer, _| far(peer));
    let peers =
        peers.map(|all| all.into_iter().map(|(to, far)| Peer { to, far }).collect::<Vec<_>>());
    let listeners = listeners(section);
    let gateways = peers.as_ref().ok().zip(listeners.as_ref().ok()).map(|(peers, listeners)| {
        let fars = peers.iter().map(|it| it.far).chain(listeners.iter().map(|it| it.far));
        fars.filter_map(Far::gateway).collect::<BTreeSet<SocketAddr>>()
    });
    let bearer = bearer::read(section, gateways.as_ref());
    let named_server = either(section, "server", None, |entry| server(entry).map(Some));
    let allow_entry = section.get("allow");
    let tls_entry = section.get("tls");
    let known = match (&mode, &peers, &bearer) {
        (Ok(mode), Ok(peers), Ok(bearer)) => Some((*mode, &peers[..], bearer)),
        _ => None,
    };
    let allowed =
        allow_entry.and_then(|entry| entry.map(|entry| allowed_to(&entry, known)).transpose());
    let tls = tls_entry.and_then(|entry| match (entry, profiles) {
        (Some(entry), Some(profiles)) => client(&entry, profiles, known).map(Some),
        (Some(entry), None) => entry.text().map(|_| None),
        (None, _) => Ok(None),
    });
    let (mode, interfaces, handshake) = (mode?, interfaces?, handshake?);
    let (peers, listeners, bearer, allowed, tls) = (peers?, listeners?, bearer?, allowed?, tls?);
    let (group, confirm_close, named_server) = (group?, confirm_close?, named_server?);
    applied?;
    let fars = || peers.iter().map(|it| it.far).chain(listeners.iter().map(|it| it.far));
    // Whoever has another bearer and no node has nothing to do with HF.
    let is_named = allowed.iter().flatten().any(|it| it.ends.has_nodes())
        || targets(tls.as_deref(), profiles.unwrap_or_default())
            .iter()
            .any(|target| target.users.has_nodes());
    let has_node = is_named || fars().any(|far| far.gateway().is_none());
    let is_elsewhere = gateways.is_some_and(|it| !it.is_empty()) || bearer.listen.is_some();
    let server = match named_server {
        Some(server) => Some(server),
        None if is_elsewhere && !has_node => None,
        None => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
    };
    if server.is_none()
        && let Some(entry) = section.get("group-key")?
    {
        return Err(entry.complain("nothing goes over HF: remove it, or set server"));
    }
    if let Some(mode) = section.get("mode")?.filter(|_| mode == Mode::Shore)
        && !(peers.is_empty() && listeners.is_empty())
    {
        return Err(mode.complain(
            "shore takes connections from others only: remove [[hfpep.peer]] and [[hfpep.listen]], or \
             set transparent",
        ));
    }
    Ok(HfPep {
        server,
        bearer,
        mode,
        interfaces,
        handshake,
        confirm_close,
        peers,
        listeners,
        allowed,
        tls,
        group,
        parameters,
    })
}

/// Warns of settings that rely on node addresses: without a group, node addresses are not proven.
pub(crate) fn warnings(
    section: &Section<'_>,
    config: &HfPep,
    profiles: &[Profile],
) -> Result<Vec<Complaint>, Complaint> {
    let unproved = match &config.group {
        _ if config.server.is_none() => return Ok(Vec::new()),
        None => "without a group-key any station may use any node address".to_owned(),
        Some(group) if group.unauthenticated.is_empty() => return Ok(Vec::new()),
        Some(group) => {
            let nodes: Vec<_> = group.unauthenticated.iter().map(ToString::to_string).collect();
            format!(
                "{} are not authenticated: any station may use these addresses",
                nodes.join(", ")
            )
        }
    };
    let mut warnings = Vec::new();
    if config.mode == Mode::Transparent {
        let what = format!("targets see the client addresses that far nodes tell, and {unproved}");
        warnings.push(match section.get("mode")? {
            Some(mode) => mode.remark(what),
            None => section.remark(what),
        });
    }
    let names_nodes = config.allowed.iter().flatten().any(|it| it.ends.has_nodes());
    if let Some(allow) = section.get("allow")?.filter(|_| names_nodes) {
        warnings.push(allow.remark(format!("nodes are let in by their addresses, and {unproved}")));
    }
    let has_targets = !targets(config.tls.as_deref(), profiles).is_empty();
    if let Some(tls) = section.get("tls")?.filter(|_| has_targets) {
        let what = "whoever names an Auth ID is logged in with its certificate";
        warnings.push(tls.remark(format!("{what}, and {unproved}")));
    }
    Ok(warnings)
}

/// What other keys are checked against: the mode, the peers and the bearer.
type Known<'c> = (Mode, &'c [Peer], &'c Bearer);

/// Where connections of others may lead: nowhere if the list is empty. What is not `known` is not compared with.
fn allowed_to(entry: &Entry<'_>, known: Option<Known<'_>>) -> Result<Vec<Allowed>, Complaint> {
    let all = entry.list()?;
    if all.len() > MAX_ALLOWED {
        return Err(
            entry.complain(format!("{} of them: at most {MAX_ALLOWED} are allowed", all.len()))
        );
    }
    each(&all, |entry| {
        let section = entry.section()?;
        let needed = section.needed("to");
        let to = values(&section, "to", network);
        let (ends, from) = (ends::read(&section), values(&section, "from", network));
        let ports = rules::ports(&section, "to-port");
        needed?;
        let (ends, from, to, ports) = (ends?, from?, to?, ports?);
        let Some((mode, peers, bearer)) = known else {
            return Ok(Allowed { ends, from, to, ports });
        };
        if let Some(gateway) = ends.gateways().iter().find(|it| !bearer.admits(it)) {
            let what = format!("{gateway} may not connect: see listen and from of [hfpep.bearer]");
            return Err(section.needed("gateway")?.complain(what));
        }
        let is_known = |it: &Prefix| peers.iter().any(|peer| peer.to.overlaps(it));
        let unknown = from.iter().find(|it| mode == Mode::Shore || !is_known(it));
        if let Some(unknown) = unknown.filter(|_| ends.is_empty()) {
            let why = match mode {
                Mode::Shore => "in shore mode",
                Mode::Transparent => "behind no [[hfpep.peer]]",
            };
            return Err(section.needed("from")?.complain(format!(
                "{unknown} is what another end says of its client, and {why} nobody can check it: say as well who \
                 is believed, with node = \"0.10.20.30\" or gateway = \"192.0.2.1\", or remove from"
            )));
        }
        Ok(Allowed { ends, from, to, ports })
    })
}

/// The targets that Auth IDs lead to by the profile of this name.
pub(crate) fn targets<'p>(name: Option<&str>, profiles: &'p [Profile]) -> &'p [TargetProfile] {
    let profile = profiles.iter().find(|profile| Some(profile.name.as_str()) == name);
    match profile.map(|profile| &profile.role) {
        Some(Role::Client(client)) => &client.targets,
        Some(Role::Server(_)) | None => &[],
    }
}

/// The profile by which targets are met.
fn client(
    entry: &Entry<'_>,
    profiles: &[Profile],
    known: Option<Known<'_>>,
) -> Result<String, Complaint> {
    let name = tls::name(entry, profiles, "client")?;
    let Some((_, peers, bearer)) = known else { return Ok(name) };
    for TargetProfile { id, to, users, .. } in targets(Some(&name), profiles) {
        if matches!(to, Destination::Host(..)) {
            return Err(entry.complain(format!(
                "target {id} is at {to}: names are not looked up here, an address is needed (and \
                 server-name for the certificate)"
            )));
        }
        if let Some(gateway) = users.gateways().iter().find(|it| !bearer.admits(it)) {
            return Err(entry.complain(format!(
                "target {id} is for {gateway}, which may not connect: see listen and from of [hfpep.bearer]"
            )));
        }
        if users.is_empty() && peers.is_empty() {
            return Err(entry.complain(format!(
                "nobody may use target {id}, for there is no [[hfpep.peer]]: name who may in the target, with \
                 node = \"0.10.20.30\" or gateway = \"192.0.2.1\""
            )));
        }
    }
    Ok(name)
}

fn listeners(section: &Section<'_>) -> Result<Vec<Listener>, Complaint> {
    let mut listeners: Vec<Listener> = Vec::new();
    let sections = section.sections("listen")?;
    if let Some(first) = sections.get(MAX_LISTENERS) {
        return Err(first.complain(format!("at most {MAX_LISTENERS} are allowed")));
    }
    each(&sections, |listener| {
        let entry = listener.needed("at");
        let at = entry.clone().and_then(|entry| entry.socket());
        let transport = transport(listener, at.as_ref().ok());
        let far = far(listener);
        let target = listener.needed("target").and_then(|entry| server(&entry));
        let (entry, at, transport, far, target) = (entry?, at?, transport?, far?, target?);
        let is_udp = |transport| matches!(transport, Transport::Udp { .. });
        let is_same = |it: &Listener| it.at == at && is_udp(it.transport) == is_udp(transport);
        if listeners.iter().any(is_same) {
            return Err(entry.complain(format!("{at} leads elsewhere already")));
        }
        if let (Transport::Udp { .. }, Far::Gateway(_)) = (transport, far) {
            return Err(listener.needed("gateway")?.complain(
                "datagrams need nobody to split them where there is IP: let clients send to the target \
                 itself, through a [tunnel] if losses are to be repaired, or name a node",
            ));
        }
        listeners.push(Listener { at, far, target, transport });
        Ok(())
    })?;
    Ok(listeners)
}

/// The transport of a listener; `at` is absent if the address could not be read.
fn transport(listener: &Section<'_>, at: Option<&SocketAddr>) -> Result<Transport, Complaint> {
    let is_udp = either(listener, "protocol", false, |entry| entry.word(&TRANSPORTS));
    let reliable = listener.get("reliable");
    let (is_udp, reliable) = (is_udp?, reliable?);
    match reliable {
        Some(entry) if !is_udp => {
            Err(entry.complain("TCP is always reliable: set protocol = \"udp\", or remove this"))
        }
        _ if !is_udp => Ok(Transport::Tcp),
        reliable => {
            let is_reliable = reliable.map_or(Ok(false), |entry| entry.flag());
            if let Some(at) = at.filter(|at| at.ip().is_unspecified()) {
                return Err(listener.needed("at")?.complain(format!(
                    "answers from {at} could come from another address than the client sent to: name one of this \
                     gateway's, in a [[hfpep.listen]] for each"
                )));
            }
            Ok(Transport::Udp { is_reliable: is_reliable? })
        }
    }
}

/// A node or a gateway, whichever the section names.
fn far(section: &Section<'_>) -> Result<Far, Complaint> {
    let (node, gateway) = (section.get("node"), section.get("gateway"));
    match (node?, gateway?) {
        (Some(entry), None) => ends::node(&entry).map(Far::Node),
        (None, Some(gateway)) => server(&gateway).map(Far::Gateway),
        (Some(_), Some(gateway)) => Err(gateway.complain(
            "a peer has either a node, over HF, or a gateway, over IP: remove one of both keys",
        )),
        (None, None) => Err(section.complain("node, over HF, or gateway, over IP, is missing")),
    }
}

/// Describes the section for editors.
pub(crate) fn schema() -> Shape {
    let far = |keys: Shape| {
        keys.key("node", "The node, over HF.", node_schema())
            .key("gateway", "The gateway, over IP.", schema::socket())
            .one_of(&["node", "gateway"])
    };
    let peer = Shape::new().needed(
        "to",
        "The networks behind it.",
        schema::list(schema::prefix(), 1, usize::MAX),
    );
    let listen = Shape::new()
        .needed("at", "Where clients connect to.", schema::socket())
        .needed("target", "Where the far end connects to.", schema::socket())
        .key("protocol", "What comes in there.", schema::words(&TRANSPORTS))
        .key("reliable", "Whether datagrams are repeated until they have arrived.", schema::flag());
    let allow = Shape::new()
        .needed("to", "Networks of targets.", schema::one_or_more(schema::prefix(), MAX_VALUES))
        .key("from", "Networks of clients.", schema::one_or_more(schema::prefix(), MAX_VALUES))
        .key("to-port", "Ports of targets.", rules::ports_schema());
    let parameters = hfpep::PARAMETERS.describe(&[("[hfpep]", hfpep::Config::default())]);
    let keys = Shape::new()
        .parameters(&parameters)
        .parameters(&slep::PARAMETERS.describe(&[("[hfpep]", slep::Config::default())]))
        .key("mode", "Whose addresses connections have at the far end.", schema::words(&MODES))
        .key(
            "interfaces",
            "Those from which connections are taken; without, all.",
            schema::list(device_schema(), 1, MAX_INTERFACES),
        )
        .key("handshake", "When clients are answered.", schema::words(&Handshake::NAMES))
        .key("confirm-close", "Whether ends are told when the target has all.", schema::flag())
        .key(
            "peer",
            "Networks to which connections are taken.",
            schema::list(far(peer).table(), 0, usize::MAX),
        )
        .key(
            "listen",
            "Ports that lead to one target.",
            schema::list(far(listen).table(), 0, MAX_LISTENERS),
        )
        .key(
            "allow",
            "Where connections of others may lead.",
            schema::list(ends::schema(allow).table(), 0, MAX_ALLOWED),
        )
        .key("tls", "The TLS profile by which targets are met.", schema::text())
        .key("server", "The STANAG 5066 server's socket for clients.", schema::socket())
        .key("bearer", "Connections between gateways over IP.", bearer::schema().table());
    super::group::schema(keys)
}

#[cfg(test)]
mod tests {
    use ::rules::Action;

    use super::Transport;
    use crate::config::Config;

    #[test]
    fn the_examples_with_tls_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hf");
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            Config::parse(name, &text).unwrap()
        };

        let (near, far) = (read("hfpep-tls-near.toml"), read("hfpep-tls-far.toml"));

        let ended = near.rules.table.rules.iter().map(|rule| rule.name.as_str());
        assert_eq!(ended.collect::<Vec<_>>(), ["tak", "web"]);
        assert_eq!(far.hf_pep.unwrap().tls.as_deref(), Some("shore"));
    }

    #[test]
    fn clients_are_answered_as_their_rule_says_and_else_as_the_service_does() {
        let read = |own: &str| {
            let text = format!(
                "[hfpep]\n{own}\n[[rule]]\nname = \"plain\"\n[[rule]]\nname = \"said\"\n\
                 handshake = \"end-to-end\"\n[[rule]]\nname = \"tls\"\ntls = \"web\"\n\
                 [[tls]]\nname = \"web\"\nrole = \"server\"\ncertificate = \"a\"\nkey = \"b\"\n"
            );
            let config = Config::parse("a.toml", &text).unwrap();
            let otherwise = config.hf_pep.unwrap().handshake;
            let rules = config.rules.table.rules;
            let said = rules.iter().map(|rule| match &rule.action {
                Action::Pass(options) => options.handshake(otherwise).name(),
                Action::Block(_) => "blocked",
            });
            said.collect::<Vec<_>>()
        };

        assert_eq!(read(""), ["local", "end-to-end", "local"]);
        assert_eq!(read("handshake = \"end-to-end\""), ["end-to-end", "end-to-end", "local"]);
        let said = Config::parse("a.toml", "[hfpep]\nhandshake = \"late\"").unwrap_err();
        let expected =
            "a.toml:2: hfpep.handshake: \"late\" is not allowed: \"local\", \"end-to-end\"";
        assert!(said.to_string().starts_with(expected), "{said}");
    }

    #[test]
    fn a_port_takes_tcp_or_udp_and_udp_goes_over_hf_alone() {
        let read = |more: &str| {
            let text = format!("[[hfpep.listen]]\ntarget = \"10.2.0.1:53\"\n{more}");
            let config = Config::parse("a.toml", &text).map_err(|why| why.to_string())?;
            let listeners = config.hf_pep.map(|it| it.listeners).unwrap_or_default();
            Ok(listeners.iter().map(|it| it.transport).collect::<Vec<_>>())
        };
        let over_hf = "at = \"10.1.0.1:53\"\nnode = \"0.0.0.2\"\n";
        let udp = "protocol = \"udp\"\n";
        let again = format!("[[hfpep.listen]]\ntarget = \"10.2.0.1:53\"\n{over_hf}");

        let unreliable = Transport::Udp { is_reliable: false };
        for (more, expected) in [
            (format!("{over_hf}{udp}"), vec![unreliable]),
            (
                format!("{over_hf}{udp}reliable = true\n"),
                vec![Transport::Udp { is_reliable: true }],
            ),
            (format!("{over_hf}{udp}{again}"), vec![unreliable, Transport::Tcp]),
        ] {
            assert_eq!(read(&more), Ok(expected), "{more}");
        }
        for (more, expected) in [
            (format!("{over_hf}{udp}{again}{udp}"), "10.1.0.1:53 leads elsewhere already"),
            (format!("{over_hf}reliable = true\n"), "TCP is always reliable"),
            (format!("{over_hf}protocol = \"sctp\"\n"), "\"tcp\", \"udp\""),
            (
                format!("at = \"10.1.0.1:53\"\ngateway = \"192.0.2.2:5099\"\n{udp}"),
                "let clients send to the target itself",
            ),
            (
                format!("at = \"0.0.0.0:53\"\nnode = \"0.0.0.2\"\n{udp}"),
                "name one of this gateway's",
            ),
        ] {
            let said: String = read(&more).unwrap_err();
            assert!(said.starts_with("a.toml:") && said.contains(expected), "{said}");
        }
    }

    #[test]
    fn where_connections_of_others_may_lead_is_all_nothing_or_a_list() {
        let read = |text: &str| {
            let config = Config::parse("a.toml", &format!("[hfpep]\n{text}"));
            config.map(|it| it.hf_pep.unwrap().allowed).map_err(|why| why.to_string())
        };
        let listed =
            read("allow = [{ to = \"10.1.0.0/16\", to-port = [22, \"80-89\"] }]").unwrap().unwrap();

        assert_eq!(read(""), Ok(None));
        assert_eq!(read("allow = []"), Ok(Some(Vec::new())));
        assert_eq!(listed[0].to, ["10.1.0.0/16".parse().unwrap()]);
        assert!(listed[0].ports.fit(Some(85)) && !listed[0].ports.fit(Some(90)));
        let said = read("allow = [{ to-port = 22 }]").unwrap_err();
        assert!(said.starts_with("a.toml:2: hfpep.allow"), "{said}");
    }

    #[test]
    fn a_client_s_network_is_no_condition_where_nobody_can_check_it() {
        let read = |text: &str, allow: &str| {
            let text = format!("[hfpep]\nallow = [{{ to = \"10.2.0.0/16\", {allow} }}]\n{text}");
            Config::parse("a.toml", &text).map(|_| ()).map_err(|why| why.to_string())
        };
        let peer = "[[hfpep.peer]]\nnode = \"0.0.0.2\"\nto = [\"10.1.0.0/16\"]\n";
        let shore = "mode = \"shore\"\n";
        let bearer = "[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\nfrom = [\"192.0.2.0/28\"]\n";

        for (text, allow) in [
            (peer, "from = \"10.1.7.0/24\""),
            (peer, "from = \"0.0.0.0/0\""),
            (peer, "from = \"10.77.0.0/16\", node = \"0.0.0.9\""),
            (shore, "from = \"10.77.0.0/16\", node = [\"0.0.0.9\", \"0.0.0.8\"]"),
            (shore, "node = \"0.0.0.9\""),
            (&format!("{shore}{bearer}"), "from = \"10.77.0.0/16\", gateway = \"192.0.2.9\""),
        ] {
            assert_eq!(read(text, allow), Ok(()), "{text}{allow}");
        }
        for (text, allow, expected) in [
            (
                shore,
                "from = \"10.1.0.9/32\"",
                "from: 10.1.0.9/32 is what another end says of its client",
            ),
            (
                shore,
                "from = \"10.1.0.9/32\"",
                "say as well who is believed, with node = \"0.10.20.30\"",
            ),
            (
                peer,
                "from = [\"10.1.0.9/32\", \"10.77.0.9/32\"]",
                "and behind no [[hfpep.peer]] nobody can check",
            ),
            ("", "from = \"10.1.0.9/32\"", "behind no [[hfpep.peer]]"),
            (shore, "node = \"31.255.255.255\"", "node: 31.255.255.255 is a group"),
            (
                bearer,
                "gateway = \"192.0.2.99\"",
                "gateway: 192.0.2.99/32 may not connect: see listen and from",
            ),
            (
                peer,
                "gateway = \"192.0.2.9\"",
                "may not connect: see listen and from of [hfpep.bearer]",
            ),
            (
                bearer,
                "gateway = \"192.0.2.9:5099\"",
                "gateway: a gateway connects from any port: 192.0.2.9 is meant",
            ),
            (bearer, "gateway = \"here\"", "gateway: \"here\" is not allowed"),
        ] {
            let said = read(text, allow).unwrap_err();
            assert!(
                said.starts_with("a.toml:2: hfpep.allow.") && said.contains(expected),
                "{said}"
            );
        }
    }

    #[test]
    fn who_names_a_node_has_to_do_with_hf() {
        let read = |text: &str| {
            let bearer = "[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\nfrom = [\"192.0.2.0/28\"]\n";
            let target = "[[tls]]\nname = \"t\"\nrole = \"client\"\ntrust-anchors = \"ca\"\n\
                          target = [{ id = \"bob\", to = \"10.9.0.1:1\", node = \"0.0.0.9\" }]\n";
            let config = Config::parse("a.toml", &format!("[hfpep]\n{text}{bearer}{target}"));
            config.unwrap().hf_pep.unwrap().server.is_some()
        };

        assert!(!read(""));
        assert!(read("allow = [{ to = \"10.2.0.0/16\", node = \"0.0.0.9\" }]\n"));
        assert!(!read("allow = [{ to = \"10.2.0.0/16\", gateway = \"192.0.2.9\" }]\n"));
        assert!(read("tls = \"t\"\n"));
    }

    #[test]
    fn the_profile_for_targets_is_a_client_that_knows_their_addresses() {
        let read = |name: &str, to: &str| {
            let text = format!(
                "[hfpep]\ntls = \"{name}\"\n[[tls]]\nname = \"shore\"\nrole = \"client\"\n\
                 trust-anchors = \"ca.crt\"\ntarget = [{{ id = \"bob\", {to} }}]\n\
                 [[tls]]\nname = \"web\"\nrole = \"server\"\ncertificate = \"a\"\nkey = \"b\"\n"
            );
            Config::parse("a.toml", &text).map(|_| ()).map_err(|why| why.to_string())
        };

        let at = "to = \"10.9.0.1:8089\", node = \"0.0.0.9\"";
        assert_eq!(read("shore", at), Ok(()));
        for (name, to, expected) in [
            ("nobody", at, "there is no [[tls]] with the name \"nobody\""),
            ("web", at, "the role of \"web\" is \"server\": one with \"client\" is"),
            (
                "shore",
                "to = \"tak.example:8089\", node = \"0.0.0.9\"",
                "target bob is at tak.example:8089: names are not looked up",
            ),
            (
                "shore",
                "to = \"10.9.0.1:8089\", gateway = \"192.0.2.1\"",
                "target bob is for 192.0.2.1/32, which may not connect: see listen and from of [hfpep.bearer]",
            ),
            (
                "shore",
                "to = \"10.9.0.1:8089\"",
                "nobody may use target bob, for there is no [[hfpep.peer]]: name who may in the target, \
                 with node = ",
            ),
        ] {
            let said = read(name, to).unwrap_err();
            assert!(said.starts_with(&format!("a.toml:2: hfpep.tls: {expected}")), "{said}");
        }
    }
}
