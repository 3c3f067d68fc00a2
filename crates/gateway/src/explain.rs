//! Explains the outcome for a flow: rules passed over, the deciding rule, the service, and where the service sends
//! the flow. Where no service with rules is in the way, the kernel's routes decide.

mod kernel;

use std::net::{IpAddr, SocketAddr};

use base::ip::{Prefix, protocol};
use hf::ipclient::{Override, Route};
use host::Kernel;
use host::links;
use rules::{
    Cause, Decision, Field, Flow, NoProtocol, Options, Protocol, Refusal, Rule, Service, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config::hfpep::{Far, Listener};
use crate::linux::routes::{NextHop, Routes};

/// A flow that somebody asks about.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Question {
    /// The transport protocol.
    pub protocol: u8,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// The source and the destination port, if it has ports.
    pub ports: Option<(u16, u16)>,
    /// The code point, 0 to 63.
    pub dscp: u8,
    /// The interface by which the flow enters, if the interface matters.
    pub interface: Option<String>,
}

/// Why texts are no flow.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadQuestion {
    /// Neither an address nor one with a port.
    #[error("{0:?} is no address such as 10.1.2.3, 10.1.2.3:5000 or [fd00::1]:443")]
    Address(String),
    /// A port where the protocol has none.
    #[error("{0} has no ports: 10.1.2.3, not 10.1.2.3:5000")]
    Port(Protocol),
    /// A port is missing where the protocol has ports.
    #[error("{0} has ports: 10.1.2.3:5000 or [fd00::1]:443, from and to")]
    PortMissing(Protocol),
    /// No protocol.
    #[error("{0:?} is no protocol: {1}")]
    Protocol(String, NoProtocol),
    /// IPv4 and IPv6.
    #[error("no packet has IPv4 on one side and IPv6 on the other")]
    Versions,
}

/// The outcome for a flow, and its reasons.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Explanation {
    /// The rules before the deciding rule.
    pub passed_over: Vec<PassedOver>,
    /// The deciding rule; none if no rule matches.
    pub rule: Option<String>,
    /// What becomes of the flow.
    pub outcome: Outcome,
    /// Octets of the longest packet that the interface towards the destination takes.
    #[serde(default)]
    pub mtu: Option<usize>,
    /// Why the flow would not arrive at present, if an obstacle is known.
    #[serde(default)]
    pub obstacle: Option<String>,
    /// Possible obstacles for the flow: firewall rules that are not understood.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// The outcome if the carrying service were down.
    #[serde(default)]
    pub otherwise: Option<String>,
}

/// A rule that does not match.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PassedOver {
    /// Its name.
    pub rule: String,
    /// The rule's first key that the flow does not match.
    pub key: String,
    /// The flow's value for the key.
    pub has: String,
    /// What the rule asks for.
    pub wanted: String,
}

/// What becomes of a flow.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is blocked.
    Block {
        /// The reply to the sender.
        told: String,
        /// Why.
        why: String,
    },
    /// A service carries it.
    Pass {
        /// Which.
        service: String,
        /// Why that one.
        why: String,
        /// How.
        treatment: Treatment,
        /// Next gateway or node; none if the service knows nobody for the destination.
        via: Option<Via>,
    },
}

/// How a service carries a flow; an empty field means no such treatment, or the service's own choice.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Treatment {
    /// Whether it is compressed.
    pub compression: Option<bool>,
    /// 0 to 15, the highest.
    pub priority: Option<u8>,
    /// Seconds for which a packet is useful; none means for ever.
    pub ttl_s: Option<u64>,
    /// The TLS profile.
    pub tls: Option<String>,
    /// When HF-PEP answers its SYN: `local`, at once, or `end-to-end`.
    #[serde(default)]
    pub handshake: Option<String>,
}

/// Whom a flow is sent to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Via {
    /// Another gateway, over IP.
    Gateway {
        /// The configured network of the destination, or the target of direct mode.
        network: String,
        /// The gateway's socket.
        gateway: String,
    },
    /// A peer of the tunnel.
    Peer {
        /// The peer's network with the destination.
        network: String,
        /// The name of the peer.
        peer: String,
    },
    /// A router behind GRE.
    Router {
        /// The configured network of the destination.
        network: String,
        /// The router's address.
        router: String,
    },
    /// A neighbour on an interface.
    Neighbour {
        /// The interface.
        interface: String,
        /// The neighbour, or the destination itself on a shared network.
        neighbour: String,
    },
    /// A node of the HF network.
    Node {
        /// The configured network of the destination, or the target of direct mode.
        network: String,
        /// The node, or the group of nodes.
        node: String,
    },
}

impl Question {
    /// Reads a flow: `tcp`, `10.1.2.3:5000`, `10.9.0.1:443`.
    ///
    /// # Errors
    /// When the words describe no possible flow.
    pub fn parse(protocol: &str, from: &str, to: &str) -> Result<Self, BadQuestion> {
        let named: Protocol =
            protocol.parse().map_err(|why| BadQuestion::Protocol(protocol.to_owned(), why))?;
        let ((source, source_port), (destination, port)) = (end(from)?, end(to)?);
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(BadQuestion::Versions);
        }
        let number = named.number(source.is_ipv4());
        let has_ports = matches!(number, protocol::TCP | protocol::UDP);
        let ports = match (source_port, port) {
            (Some(source), Some(destination)) if has_ports => Some((source, destination)),
            (None, None) if !has_ports => None,
            _ if has_ports => return Err(BadQuestion::PortMissing(named)),
            _ => return Err(BadQuestion::Port(named)),
        };
        Ok(Self { protocol: number, source, destination, ports, dscp: 0, interface: None })
    }

    /// Explains what the gateway does with the flow under this configuration.
    #[must_use]
    pub fn explain(&self, config: &Config) -> Explanation {
        let listener = self.listener(config);
        let table = &config.rules.table;
        let (flow, rules::Explanation { passed_over, decision }) = match listener {
            Some(listener) => {
                let flow = self.flow_to(listener);
                let explained = table.explain_split(&flow);
                (flow, explained)
            }
            None => {
                let flow = self.flow();
                let explained = table.explain(&flow);
                (flow, explained)
            }
        };
        let passed_over = passed_over.into_iter().map(|(rule, field)| PassedOver {
            rule: rule.name.clone(),
            key: field.name().to_owned(),
            has: has(&flow, field),
            wanted: wanted(rule, field),
        });
        Explanation {
            passed_over: passed_over.collect(),
            rule: decision.rule.map(|rule| rule.name.clone()),
            outcome: match listener {
                Some(listener) => self.direct(&decision, listener),
                None => self.outcome(&decision, config),
            },
            mtu: None,
            obstacle: None,
            doubts: Vec::new(),
            otherwise: None,
        }
    }

    /// Explains the outcome for the flow on this host: rules decide where a service with rules is in the way, and the
    /// kernel's routes everywhere else. A service that does not run, as `runs` says of each name, takes nothing.
    pub(crate) fn explain_here(&self, config: &Config, runs: impl Fn(&str) -> bool) -> Explanation {
        let mut config = config.clone();
        let mut missed = Vec::new();
        loop {
            let mut explanation = self.find_here(&config);
            let Outcome::Pass { service, why, .. } = &mut explanation.outcome else {
                return explanation;
            };
            // The devices of other services stay while they are down, and keep their packets.
            match &service[..] {
                name if runs(name) => {}
                "hbh" => config.hbh = None,
                "hfpep" => config.hf_pep = None,
                "routing" => config.routing = None,
                "sar" => config.sar = None,
                _ => {}
            }
            let is_missed = !runs(service) && !missed.contains(service);
            if is_missed && matches!(&service[..], "hbh" | "hfpep" | "routing" | "sar") {
                missed.push(service.clone());
                continue;
            }
            for service in &missed {
                why.push_str(&format!("; {service} would take it, and does not run"));
            }
            explanation.otherwise = self.otherwise(&explanation.outcome, &config);
            return explanation;
        }
    }

    fn find_here(&self, config: &Config) -> Explanation {
        let by_rules = self.explain(config);
        let is_split = matches!(
            &by_rules.outcome,
            Outcome::Pass { service, via: Some(_), .. } if service == Service::HfPep.name()
        );
        // Before the kernel looks for a route.
        if is_split || self.listener(config).is_some() {
            return by_rules;
        }
        let Ok(mut routes) = Routes::open() else { return by_rules };
        let destination = self.destination;
        let passage = self.passage(&mut routes, Self::is_own(self.source));
        let outcome = |service: &str, why: String, via| Outcome::Pass {
            service: service.to_owned(),
            why,
            treatment: Treatment::default(),
            via,
        };
        let none = Explanation { passed_over: Vec::new(), rule: None, ..by_rules.clone() };
        if let Some(via) = self.by_messages(config) {
            let why = "[sar.carry] takes datagrams to this port before they are routed".to_owned();
            return Explanation { outcome: outcome("sar", why, Some(via)), ..none };
        }
        match passage.hop {
            NextHop::Here => Explanation {
                outcome: outcome("none", "it is for this host itself".to_owned(), None),
                ..none
            },
            NextHop::Nowhere => {
                let why = format!(
                    "the kernel has no route to {destination}, or one that refuses packets"
                );
                let obstacle = Some(why.clone());
                Explanation { outcome: outcome("none", why, None), obstacle, ..none }
            }
            NextHop::Neighbour { interface, address } => {
                let mtu = Kernel::open().and_then(|mut it| links::mtu(&mut it, interface)).ok();
                let name = links::name(interface);
                let of_hbh = config.hbh.as_ref().filter(|hbh| hbh.interfaces.contains(&name));
                let header = of_hbh.map_or(0, |hbh| hbh.core.profile.layout().overhead());
                let mtu = mtu.map(|mtu| mtu.saturating_sub(header));
                let mut why = format!("the kernel's route leads to {name}");
                if config.ip_client.as_ref().is_some_and(|client| client.device == name) {
                    return Explanation { mtu, obstacle: self.refusal(&passage), ..by_rules };
                }
                let (service, via) = self.by_device(config, &name, address);
                let obstacle = match via {
                    Some(_) => self.refusal(&passage),
                    None => Some(format!(
                        "no network of the configuration behind {name} has {destination}"
                    )),
                };
                if !matches!(service, "tunnel" | "gre")
                    && let Some(network) = self.behind_device(config)
                    // Neighbours are meant to be reached beside a peer for everything.
                    && (network.bits() > 0 || address != destination)
                {
                    let ip = if destination.is_ipv4() { "ip" } else { "ip -6" };
                    why.push_str(&format!(
                        ", in clear, past our device for {network}: a longer route or a rule of another program decides \
                         before, which `{ip} rule` and `{ip} route get {destination}` show"
                    ));
                }
                Explanation { outcome: outcome(service, why, via), mtu, obstacle, ..none }
            }
        }
    }

    /// The service that uses a device or an interface, and its next receiver towards the destination.
    fn by_device(&self, config: &Config, name: &str, next: IpAddr) -> (&'static str, Option<Via>) {
        let contains = |network: &&Prefix| network.contains(self.destination);
        if let Some(tunnel) = config.tunnel.as_ref().filter(|tunnel| tunnel.device == name) {
            let all =
                tunnel.peers.iter().flat_map(|peer| peer.routes.iter().map(move |it| (it, peer)));
            let best = all.filter(|(it, _)| contains(it)).max_by_key(|(it, _)| it.bits());
            let via = best.map(|(network, peer)| Via::Peer {
                network: network.to_string(),
                peer: peer.name.clone(),
            });
            return ("tunnel", via);
        }
        if let Some(gre) = config.gre.iter().find(|gre| gre.device == name) {
            let network = gre.networks.iter().filter(contains).max_by_key(|it| it.bits());
            let via = network.map(|network| Via::Router {
                network: network.to_string(),
                router: gre.remote.to_string(),
            });
            return ("gre", via);
        }
        let is_routed = config.routing.as_ref().is_some_and(|routing| {
            routing.interfaces.iter().any(|it| it == name) && next != self.destination
        });
        let service = match config.of_hbh().iter().any(|it| it == name) {
            true => "hbh",
            false if is_routed => "routing",
            false => "ip",
        };
        (service, Some(Via::Neighbour { interface: name.to_owned(), neighbour: next.to_string() }))
    }

    /// The longest network with the destination among those behind devices of ours.
    fn behind_device(&self, config: &Config) -> Option<Prefix> {
        let peers = config.tunnel.iter().flat_map(|it| &it.peers).flat_map(|peer| &peer.routes);
        let routers = config.gre.iter().flat_map(|it| &it.networks);
        let nodes = config.ip_client.iter().flat_map(|it| &it.routes).map(|route| &route.to);
        let all = peers.chain(routers).chain(nodes).filter(|it| it.contains(self.destination));
        all.max_by_key(|it| it.bits()).copied()
    }

    /// The gateway to which the message service carries the flow's datagrams, if the service takes them.
    fn by_messages(&self, config: &Config) -> Option<Via> {
        let carry = config.sar.as_ref()?.carry.as_ref()?;
        let (_, port) = self.ports.filter(|_| self.protocol == protocol::UDP)?;
        let came_by = match &self.interface {
            Some(name) => Some(name.as_str()),
            None => Self::is_own(self.source).then_some("lo"),
        };
        let is_asked = carry.interfaces.is_empty()
            || came_by.is_none_or(|name| carry.interfaces.iter().any(|it| it == name));
        let networks = carry.peers.iter().filter(|(network, _)| network.contains(self.destination));
        let (network, gateway) = networks.max_by_key(|(network, _)| network.bits())?;
        (carry.ports.contains(&port) && is_asked)
            .then(|| Via::Gateway { network: network.to_string(), gateway: gateway.to_string() })
    }

    /// The outcome for the flow while the carrying service is down.
    fn otherwise(&self, outcome: &Outcome, config: &Config) -> Option<String> {
        let Outcome::Pass { service, via, .. } = outcome else { return None };
        via.as_ref()?;
        let fails_open = match service.as_str() {
            "tunnel" => config.tunnel.as_ref()?.fail_open,
            "ipclient" => config.ip_client.as_ref()?.fail_open,
            "gre" => {
                let mut of = config.gre.iter().filter(|gre| {
                    gre.networks.iter().any(|network| network.contains(self.destination))
                });
                of.any(|gre| gre.fail_open)
            }
            "hbh" => return Some("it would go to the same neighbour by plain IP".to_owned()),
            "routing" => {
                return Some(
                    "its route would go, and another of the host's would decide".to_owned(),
                );
            }
            "sar" => {
                return Some(
                    "it would be routed as it is, and lost where the network loses it".to_owned(),
                );
            }
            "hfpep" => {
                return Some(
                    "new connections would go to their targets in clear, past the PEP, if there is a route".to_owned(),
                );
            }
            _ => return None,
        };
        Some(match fails_open {
            true => "it would leave by another route of the host's, if there is one, in clear: fail-open = true".to_owned(),
            false => "it would be refused as unreachable, and not leave in clear: fail-open = false".to_owned(),
        })
    }

    fn flow(&self) -> Flow<'_> {
        Flow {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            ports: self.ports,
            dscp: self.dscp,
            interface: self.interface.as_deref(),
        }
    }

    /// The port of direct mode that the flow goes to, if any.
    fn listener<'a>(&self, config: &'a Config) -> Option<&'a Listener> {
        let to = SocketAddr::new(self.destination, self.ports?.1);
        let carries = |listener: &&Listener| {
            listener.transport.protocol() == self.protocol && listener.at == to
        };
        config.hf_pep.iter().flat_map(|it| &it.listeners).find(carries)
    }

    /// The flow to a port of direct mode, as the rules see it.
    fn flow_to(&self, listener: &Listener) -> Flow<'_> {
        let Listener { target, .. } = listener;
        let ports = self.ports.map(|(source, _)| (source, target.port()));
        Flow { destination: target.ip(), ports, ..self.flow() }
    }

    /// The outcome for a flow to a port of direct mode, which answers the client before the rules decide.
    fn direct(&self, decision: &Decision<'_>, listener: &Listener) -> Outcome {
        let why = match decision.verdict {
            Verdict::Pass { service: Service::HfPep, options } => {
                let network = listener.target.to_string();
                return Outcome::Pass {
                    service: Service::HfPep.name().to_owned(),
                    why: "a port of this gateway stands for its target".to_owned(),
                    treatment: Treatment::of(options),
                    via: Some(Via::of_far(listener.far, network)),
                };
            }
            Verdict::Pass { service: Service::IpClient, .. } => {
                "the port is HF-PEP's, and the rule names another"
            }
            Verdict::Block { cause, .. } => because(cause),
        };
        let told = if self.protocol == protocol::TCP { "a TCP reset" } else { "nothing" };
        Outcome::Block { told: told.to_owned(), why: why.to_owned() }
    }

    fn outcome(&self, decision: &Decision<'_>, config: &Config) -> Outcome {
        let (service, options) = match decision.verdict {
            Verdict::Block { refusal, cause } => {
                let told = match refusal {
                    Refusal::Silent => "nothing",
                    Refusal::Reset if self.protocol == protocol::TCP => "a TCP reset",
                    Refusal::Prohibited | Refusal::Reset => "ICMP administratively prohibited",
                };
                return Outcome::Block { told: told.to_owned(), why: because(cause).to_owned() };
            }
            Verdict::Pass { service, options } => (service, options),
        };
        let why = match (options.service, service) {
            (Some(_), _) => "the rule names it",
            (None, Service::HfPep) => "a peer of its destination splits TCP",
            (None, Service::IpClient) if self.protocol == protocol::TCP => {
                "no peer of its destination splits TCP"
            }
            (None, Service::IpClient) => "only TCP is split",
        };
        let (treatment, via) = match service {
            Service::HfPep => {
                let otherwise = config.hf_pep.as_ref().map(|it| options.handshake(it.handshake));
                let handshake = otherwise.map(|it| it.name().to_owned());
                (Treatment { handshake, ..Treatment::of(options) }, self.by_pep(config))
            }
            Service::IpClient => self.by_ip_client(options, config),
        };
        let (service, why) = (service.name().to_owned(), why.to_owned());
        Outcome::Pass { service, why, treatment, via }
    }

    /// The peer that a connection goes to.
    fn by_pep(&self, config: &Config) -> Option<Via> {
        let peers = config.hf_pep.iter().flat_map(|it| &it.peers);
        let peers = peers.filter(|peer| peer.to.contains(self.destination));
        let peer = peers.max_by_key(|peer| peer.to.bits())?;
        Some(Via::of_far(peer.far, peer.to.to_string()))
    }

    fn by_ip_client(&self, options: &Options, config: &Config) -> (Treatment, Option<Via>) {
        let treatment = Treatment { compression: None, ..Treatment::of(options) };
        let Some(client) = &config.ip_client else { return (treatment, None) };
        let classes = &client.parameters.classes;
        let said = Override { priority: options.priority, ttl: options.ttl };
        let class = classes[usize::from(self.dscp) % classes.len()].with(said);
        let via = Via::of(&client.core_routes(), self.destination);
        let ttl_s = class.ttl.map(|ttl| ttl.as_secs());
        (Treatment { priority: Some(class.priority), ttl_s, ..treatment }, via)
    }
}

impl Explanation {
    /// The peer of the tunnel that the flow goes to.
    pub(crate) fn peer(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Pass { via: Some(Via::Peer { peer, .. }), .. } => Some(peer),
            _ => None,
        }
    }

    /// Whether packets of the flow arrive at the next gateway, node or neighbour, as far as this host knows.
    #[must_use]
    pub fn arrives(&self) -> bool {
        let has_way = match &self.outcome {
            Outcome::Pass { service, via, .. } => via.is_some() || service == "none",
            Outcome::Block { .. } => false,
        };
        has_way && self.obstacle.is_none()
    }
}

/// Why something is blocked.
fn because(cause: Cause) -> &'static str {
    match cause {
        Cause::Blocked => "the rule blocks it",
        Cause::RuleDisabled => "the rule is disabled",
        Cause::TrafficDisabled => "all traffic is disabled",
        Cause::Unreadable => "its ports cannot be seen",
    }
}

impl Via {
    fn of_far(far: Far, network: String) -> Self {
        match far {
            Far::Gateway(gateway) => Self::Gateway { network, gateway: gateway.to_string() },
            Far::Node(node) => Self::Node { network, node: node.to_string() },
        }
    }

    fn of(routes: &[Route], destination: IpAddr) -> Option<Self> {
        let route = Route::find(routes, destination)?;
        Some(Self::Node { network: route.prefix.to_string(), node: route.to.to_string() })
    }
}

impl Treatment {
    /// What a rule says.
    fn of(options: &Options) -> Self {
        let Options { compression, priority, ttl, ref tls, .. } = *options;
        let ttl_s = ttl.map(|ttl| ttl.as_secs()).filter(|seconds| *seconds > 0);
        Self { compression, priority, ttl_s, tls: tls.clone(), handshake: None }
    }
}

/// Reads an address with an optional port.
fn end(text: &str) -> Result<(IpAddr, Option<u16>), BadQuestion> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Ok((socket.ip(), Some(socket.port())));
    }
    let address = text.parse().map_err(|_| BadQuestion::Address(text.to_owned()))?;
    Ok((address, None))
}

/// Formats the value of a flow's field.
fn has(flow: &Flow<'_>, field: Field) -> String {
    let port = |port: Option<u16>| port.map_or("no port".to_owned(), |port| port.to_string());
    match field {
        Field::Protocol => Protocol::Number(flow.protocol).to_string(),
        Field::Interface => flow.interface.unwrap_or("not known").to_owned(),
        Field::From => flow.source.to_string(),
        Field::To => flow.destination.to_string(),
        Field::FromPort => port(flow.ports.map(|(source, _)| source)),
        Field::ToPort => port(flow.ports.map(|(_, destination)| destination)),
        Field::Dscp => flow.dscp.to_string(),
    }
}

/// What a rule asks for in a field.
fn wanted(rule: &Rule, field: Field) -> String {
    fn list<T: ToString>(values: &[T]) -> String {
        values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
    }
    let selector = &rule.selector;
    match field {
        Field::Protocol => selector.protocol.as_ref().map_or(String::new(), Protocol::to_string),
        Field::Interface => selector.interfaces.join(", "),
        Field::From => list(&selector.sources),
        Field::To => list(&selector.destinations),
        Field::FromPort => selector.source_ports.to_string(),
        Field::ToPort => selector.destination_ports.to_string(),
        Field::Dscp => list(&selector.dscps),
    }
}

#[cfg(test)]
mod tests;
