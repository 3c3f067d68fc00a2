//! What the kernel does with a flow besides routing: the reverse path filter, and the host's firewalls.

use std::net::IpAddr;

use base::ip::FlowKey;
use host::Kernel;
use host::links;
use host::others::{Chosen, others_rules};
use host::run::is_running;
use host::settings::Settings;
use nix::net::if_::if_nametoindex;

use super::{Explanation, Outcome, Question};
use crate::doctor;
use crate::firewalls::{Connection, Fate, Firewalls, Hook, LOOPBACK, Packet, Seen, Way};
use crate::linux::led;
use crate::linux::routes::{NextHop, Packets, Routes};

/// The firewall mark by which a service without a device leads packets of others to this host.
fn taking_mark(service: &str) -> Option<u32> {
    match service {
        "hfpep" => Some(led::DIVERTED.mark.value()),
        "sar" => Some(led::CAPTURED.mark.value()),
        _ => None,
    }
}

/// Where the kernel's routes lead a flow.
pub(super) struct Passage {
    /// The interface by which packets of another host come: the one asked about, or the one towards the source.
    came_by: Option<u32>,
    /// The next hop of answers.
    way_back: NextHop,
    /// The next hop, found without the incoming interface if the kernel refuses packets from there.
    pub(super) hop: NextHop,
    /// Whether the kernel refuses packets from that interface.
    is_refused: bool,
}

impl Question {
    /// Adds what the reverse path filter and the firewalls of this host do with the first packet of the flow: an
    /// obstacle where it is dropped for certain, a doubt where a rule is not understood.
    ///
    /// The rules of others are read as root alone may.
    #[must_use]
    pub fn judge(&self, mut explanation: Explanation) -> Explanation {
        let Outcome::Pass { service, via, .. } = &explanation.outcome else { return explanation };
        // A gateway elsewhere, by its control socket, has another part of the kernel.
        if !is_running() {
            return explanation;
        }
        let (Ok(mut kernel), Ok(mut routes)) = (Kernel::open(), Routes::open()) else {
            return explanation;
        };
        let own = links::own_addresses(&mut kernel).unwrap_or_default();
        let is_own = own.contains(&self.source);
        let Passage { came_by, way_back, hop, .. } = self.passage(&mut routes, is_own);
        // The firewall mark by which a service leads the flow to this host.
        let led = taking_mark(service).filter(|_| via.is_some() && hop != NextHop::Here);
        let way = match (is_own, hop == NextHop::Here || led.is_some()) {
            (true, true) => Way::Within,
            (true, false) => Way::Out,
            (false, true) => Way::In,
            (false, false) => Way::Through,
        };
        let leaves_by = match hop {
            NextHop::Neighbour { interface, .. } => Some(links::name(interface)),
            NextHop::Here => Some(LOOPBACK.to_owned()),
            NextHop::Nowhere => None,
        };
        let returns = came_by.map(|came_by| way_back.interface() == Some(came_by));
        let drops = |came_by| self.reverse_path(&links::name(came_by), way_back, came_by);
        let mut obstacle = came_by.and_then(drops);
        // What takes packets on their way sees those of this host's programs only if the kernel would send them.
        if is_own && hop == NextHop::Nowhere && led.is_some() {
            let to = self.destination;
            obstacle = Some(format!(
                "the kernel has no route to {to}, so it refuses this host's programs before {service} sees anything: any \
                 route will do, such as `ip route add {to} dev lo`"
            ));
        }
        if let Some(mark) = led {
            let asked = Packets { mark, ..Packets::of(&self.key(), came_by) };
            if routes.next_hop(self.destination, &asked) != NextHop::Here {
                let ip = if self.source.is_ipv4() { "ip" } else { "ip -6" };
                let to = self.destination;
                obstacle = obstacle.or_else(|| Some(format!(
                    "another program's rule decides before the rule by which {service} leads packets to itself: `{ip} rule` \
                     shows it, `{ip} route get {to}{asked}` where it leads"
                )));
            }
        }
        let others = others_rules(&mut kernel, !self.source.is_ipv4()).unwrap_or_default();
        explanation.doubts.extend(self.by_service_type(&mut routes, &others, came_by, hop));
        let firewalls = Firewalls::read();
        let walls = if way == Way::Through { Firewalls::walls() } else { Firewalls::default() };
        let mut connection = Connection::New;
        for (hook, has_come, leaves) in way.hooks() {
            let mark = match (led, hook, has_come) {
                (None, ..) => Some(0),
                // The mark is set in the middle of these hooks.
                (Some(_), Hook::Output, _) | (Some(_), Hook::Prerouting, Seen::Own) => None,
                (Some(mark), ..) => Some(mark),
            };
            let packet = Packet {
                protocol: Some(self.protocol),
                source: Some(self.source),
                destination: Some(self.destination),
                source_port: self.ports.map(|(source, _)| source),
                destination_port: self.ports.map(|(_, destination)| destination),
                came_by: has_come.seen(came_by.map(links::name)),
                leaves_by: leaves.seen(leaves_by.clone()),
                mark,
                returns: returns.filter(|_| !is_own),
                connection,
                ..Packet::unknown(self.source.is_ipv4())
            };
            if let Some(culprit) = firewalls.untracks(&packet, *hook) {
                connection = Connection::Unknown;
                explanation.doubts.push(format!(
                    "is kept from connection tracking by {culprit}: rules by the state of connections decide otherwise then"
                ));
            }
            let from = if led.is_some() { doctor::MANGLE } else { i64::MIN };
            if matches!(hook, Hook::Prerouting | Hook::Output)
                && let Some((culprit, marking)) = firewalls.marks(&packet, *hook, from)
            {
                let by_mark = others.iter().find(|it| it.packets.mark != 0);
                explanation.doubts.extend(match (led, marking.ours(), by_mark) {
                    (Some(_), ..) => Some(format!(
                        "may lose the mark by which {service} leads it to itself, by {culprit}"
                    )),
                    (None, Some(mark), _) => Some(format!(
                        "may be given the mark {mark:#x}, which is ours, by {culprit}, and go past the tunnel in clear"
                    )),
                    (None, None, Some(Chosen { priority, .. })) => Some(format!(
                        "may be marked by {culprit}, and routed by its mark: `ip rule show pref {priority}`"
                    )),
                    (None, None, None) => None,
                });
            }
            if let Some(culprit) = firewalls.redirects(&packet, *hook) {
                explanation.doubts.push(format!("may be given another destination by {culprit}"));
            }
            if let Fate::Dropped(culprit) = walls.judge(&packet, *hook) {
                let by = leaves_by.as_deref().unwrap_or_default();
                obstacle = obstacle.or_else(|| Some(format!(
                    "would leave by {by} in clear, and is dropped by our {culprit}: bring up the interface of its network; if \
                     it shall leave by {by}, `ip route add NETWORK via ROUTER` lets it"
                )));
                break;
            }
            match firewalls.judge(&packet, *hook) {
                Fate::Passes => {}
                Fate::MayBeDropped(culprit) => {
                    explanation.doubts.push(format!("may be dropped by {culprit}"));
                }
                Fate::Dropped(culprit) => {
                    let (from, to) = (self.source, self.destination);
                    let ip = if from.is_ipv4() { "ip" } else { "ip6" };
                    let remedy = culprit.remedy(
                        &format!("{ip} saddr {from} {ip} daddr {to}"),
                        &format!("-s {from} -d {to}"),
                    );
                    obstacle = obstacle.or_else(|| Some(format!("dropped by {culprit}: {remedy}")));
                    break;
                }
            }
        }
        let unknown = firewalls.unread().iter().cloned().chain(doctor::unjudged(&firewalls));
        explanation.doubts.extend(unknown.map(|(what, remedy)| format!("{what}: {remedy}")));
        explanation.obstacle = explanation.obstacle.take().or(obstacle);
        explanation
    }

    /// Asks the kernel where it leads the flow, and its answers.
    pub(super) fn passage(&self, routes: &mut Routes, is_own: bool) -> Passage {
        let flow = self.key();
        let back = FlowKey {
            source: flow.destination,
            destination: flow.source,
            source_port: flow.destination_port,
            destination_port: flow.source_port,
            ..flow
        };
        let mut towards =
            |flow: &FlowKey, by| routes.next_hop(flow.destination, &Packets::of(flow, by));
        let way_back = towards(&back, None);
        let given = self.interface.as_deref().and_then(|name| if_nametoindex(name).ok());
        let came_by = if is_own { None } else { given.or(way_back.interface()) };
        let strictly = towards(&flow, came_by);
        let is_refused = came_by.is_some() && strictly == NextHop::Nowhere;
        let hop = if is_refused { towards(&flow, None) } else { strictly };
        Passage { came_by, way_back, hop, is_refused }
    }

    /// Names the rules of others by which packets of another type of service have another next hop than `hop`, the one of
    /// packets of type 0.
    fn by_service_type(
        &self,
        routes: &mut Routes,
        others: &[Chosen],
        came_by: Option<u32>,
        hop: NextHop,
    ) -> Vec<String> {
        let flow = self.key();
        let leads_elsewhere = |Chosen { priority, packets, .. }: &Chosen| {
            let tos = packets.tos;
            let asked = Packets { tos, ..Packets::of(&flow, came_by) };
            (tos != 0 && routes.next_hop(flow.destination, &asked) != hop).then(|| {
                format!("goes elsewhere if its type of service is {tos:#x}: `ip rule show pref {priority}`")
            })
        };
        others.iter().filter_map(leads_elsewhere).collect()
    }

    /// Why the kernel does not forward what comes by the flow's interface, if it does not.
    pub(super) fn refusal(&self, passage: &Passage) -> Option<String> {
        let came_by = passage.came_by?;
        let name = links::name(came_by);
        // In IPv4 the setting of the interface decides, and a service may have switched it on.
        let is_on = self.source.is_ipv4()
            && Settings::read(&name, "forwarding").is_some_and(|it| it == "1");
        if let Some(key) = doctor::forwarding_off(self.source.is_ipv4()).filter(|_| !is_on) {
            return Some(format!(
                "{key} is 0, and packets of other hosts are not forwarded: sysctl -w {key}=1"
            ));
        }
        if let Some(obstacle) = self.reverse_path(&name, passage.way_back, came_by) {
            return Some(obstacle);
        }
        if !passage.is_refused {
            return None;
        }
        if self.source.is_ipv4() && Settings::read(&name, "forwarding").is_some_and(|it| it == "0")
        {
            let key = format!("net.ipv4.conf.{name}.forwarding");
            return Some(format!(
                "{key} is 0, and packets that come by {name} are not forwarded: sysctl -w {key}=1"
            ));
        }
        let (from, to) = (self.source, self.destination);
        let ip = if from.is_ipv4() { "ip" } else { "ip -6" };
        Some(format!(
            "the kernel refuses what comes by {name}: `{ip} route get {to} from {from} iif {name}` says how, `{ip} rule` \
             shows rules that may be the reason"
        ))
    }

    /// Why the kernel's reverse path filter drops the flow, if it does (`rp_filter` in ip-sysctl of the kernel).
    fn reverse_path(&self, interface: &str, way_back: NextHop, number: u32) -> Option<String> {
        if !self.source.is_ipv4() {
            return None;
        }
        let set = |name: &str| Settings::read(name, "rp_filter").unwrap_or_default();
        let key = format!("net.ipv4.conf.{interface}.rp_filter");
        let source = self.source;
        match (set("all").max(set(interface)).as_str(), way_back) {
            ("1", NextHop::Neighbour { interface: back, .. }) if back != number => {
                let back = links::name(back);
                Some(format!(
                    "the strict reverse path filter of {interface} drops it, because the route back to {source} leads to \
                     {back}: sysctl -w {key}=2 net.ipv4.conf.all.rp_filter=2"
                ))
            }
            ("1" | "2", NextHop::Nowhere) => Some(format!(
                "the reverse path filter of {interface} drops it, because no route leads back to {source}: \
                 ip route add {source} dev {interface}"
            )),
            _ => None,
        }
    }

    pub(crate) fn key(&self) -> FlowKey {
        let (source_port, destination_port) = self.ports.unwrap_or_default();
        let Self { source, destination, protocol, .. } = *self;
        FlowKey { source, destination, protocol, source_port, destination_port }
    }

    /// Whether an address is this host's.
    pub(crate) fn is_own(address: IpAddr) -> bool {
        let own = Kernel::open().and_then(|mut it| links::own_addresses(&mut it));
        own.is_ok_and(|own| own.contains(&address))
    }
}
