//! Finds firewall rules of other programs that drop the traffic of services.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::ip::{Prefix, protocol};
use host::Kernel;
use host::fault::{CLASH, FIREWALL, REVERSE_PATH, SETTING};
use host::links::LinkState;
use host::numbers::Mark;
use host::settings::Settings;
use host::{links, timewait};

use super::kinds::{PERHAPS, UNREAD};
use super::unjudged::doubts;
use super::{Findings, Needs, is_strict, unjudged};
use crate::config::traffic::{Call, Listening, Neighbourly, Taking};
use crate::firewalls::{
    ChainName, Connection, Culprit, Fate, Firewalls, Hook, LOOPBACK, Packet, Way,
};
use crate::linux::routes::{Routes, probes};

/// Limit on the other programs' interfaces to examine.
const MOST: usize = 32;
/// Limit on the networks and ports to try for a service that intercepts packets.
const TRIED: usize = 8;
/// Ports to try for a service that intercepts all ports: many firewalls admit only some.
const SAMPLES: [u16; 2] = [443, 29_810];
/// The priority of our chains that mark packets.
pub(crate) const MANGLE: i64 = -150;
/// A name that no interface and no rule has.
const NOBODY: &str = "?";
/// Follows the command that changes a firewall.
const KEEP: &str = "(and in the file that makes it)";

/// Examines all firewall rules once, for `trackway doctor`.
pub fn examine(findings: &mut Findings, needs: &Needs) {
    let firewalls = Firewalls::read();
    for (what, remedy) in firewalls.unread() {
        findings.add(&UNREAD, what.clone(), remedy.clone());
    }
    examine_traffic(findings, needs, &firewalls);
    for (what, remedy) in unjudged(&firewalls).into_iter().chain(doubts(&firewalls)) {
        findings.add(&PERHAPS, what, remedy);
    }
    let strict = needs.has_default(true) && is_strict();
    let is_fixed = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/sys/net/ipv4/conf/all/rp_filter")
        .is_err();
    if strict && is_fixed {
        findings.add(
            &SETTING,
            "strict reverse path filters drop packets from a peer for everything, and /proc/sys is read-only here"
                .to_owned(),
            "sysctl -w net.ipv4.conf.all.rp_filter=2 on the host".to_owned(),
        );
    }
}

/// Examines how firewall rules treat the traffic of services.
pub fn examine_traffic(findings: &mut Findings, needs: &Needs, firewalls: &Firewalls) {
    judge(findings, needs, firewalls, &Interfaces::read(needs));
    if let Some((culprit, mark)) = firewalls.takes_for_ours() {
        findings.add(
            &CLASH,
            format!(
                "{culprit} gives packets the mark {mark:#x}, which is ours: they may bypass the tunnel in clear, or reach \
                 the wrong service"
            ),
            "delete the rule, or let `marks` in [host] choose other numbers".to_owned(),
        );
    }
}

/// Protocols and chains whose drops are reported already: further findings would only repeat them.
type Told = BTreeSet<(u8, ChainName)>;

/// The interfaces of this host, except ours.
struct Interfaces {
    all: Vec<String>,
    /// Interfaces that may lead to hosts of this site: for IPv4, then for IPv6. Our devices carry these hosts' packets.
    behind: [Vec<String>; 2],
}

impl Interfaces {
    fn read(needs: &Needs) -> Self {
        let all = Settings::interfaces().into_iter().filter(|name| needs.is_foreign(name));
        let behind = [true, false].map(|is_v4| Self::behind(needs, is_v4).unwrap_or_default());
        Self { all: all.take(MOST).collect(), behind }
    }

    fn behind(needs: &Needs, is_v4: bool) -> io::Result<Vec<String>> {
        let mut routes = Routes::open()?;
        let found = links::with_address(&mut Kernel::open()?, is_v4)?;
        let with_address = found.into_iter().filter_map(|interface| {
            let name = links::existing_name(interface)?;
            let is_way = needs.ways.values().any(|way| way.interface == name);
            Some((name, is_way || routes.has_default(interface, is_v4)))
        });
        Ok(to_hosts(needs, with_address))
    }
}

/// The interfaces that may lead to hosts of this site, by all interfaces `with_address`; `true` marks an uplink, by
/// which default routes or calls to peers leave. If there are only uplinks, hosts must be behind these.
fn to_hosts(needs: &Needs, with_address: impl Iterator<Item = (String, bool)>) -> Vec<String> {
    let foreign = with_address.filter(|(name, _)| name != LOOPBACK && needs.is_foreign(name));
    let (uplinks, others): (Vec<_>, Vec<_>) = foreign.partition(|(_, is_uplink)| *is_uplink);
    let chosen = if others.is_empty() { uplinks } else { others };
    chosen.into_iter().map(|(name, _)| name).take(MOST).collect()
}

impl Findings {
    /// Adds a rule or policy that drops packets, with the `order` that lets them pass.
    fn drops(&mut self, what: String, order: &str, is_of_others: bool) {
        let remedy = format!("{order} {KEEP}");
        match is_of_others {
            true => self.add_of_others(&FIREWALL, what, remedy),
            false => self.add(&FIREWALL, what, remedy),
        }
    }
}

/// Evaluates packets of which only the interfaces or ports are known. A rule that certainly drops such a packet drops
/// all similar packets.
fn judge(findings: &mut Findings, needs: &Needs, firewalls: &Firewalls, interfaces: &Interfaces) {
    judge_forwarded(findings, needs, firewalls, &interfaces.behind);
    judge_networks(findings, needs, firewalls, &interfaces.behind);
    judge_neighbours(findings, needs, firewalls, &interfaces.behind);
    let interfaces = &interfaces.all[..];
    let mut told = Told::new();
    for listening in &needs.listening {
        judge_listening(findings, listening, firewalls, interfaces, &mut told);
    }
    for neighbourly in &needs.neighbourly {
        judge_neighbourly(findings, neighbourly, firewalls);
    }
    for taking in &needs.takings {
        judge_taking(findings, taking, firewalls, interfaces);
    }
    for call in &needs.calls {
        judge_call(findings, needs, call, firewalls, interfaces, &mut told);
    }
    judge_answers(findings, needs, firewalls, interfaces);
    if needs.has_default(true) || needs.has_default(false) {
        for chain in firewalls.by_reverse_path() {
            findings.add(
                &REVERSE_PATH,
                format!("chain {chain} drops packets whose answers would leave by another interface: with a peer for \
                         everything, this holds for every packet from peers"),
                "let it pass marked 0x7472776c, or switch it off: firewalld IPv6_rpfilter=no or loose, NixOS \
                 networking.firewall.checkReversePath = \"loose\""
                    .to_owned(),
            );
        }
    }
}

/// Evaluates forwarded packets: by our devices, and between neighbours in a MANET.
fn judge_forwarded(
    findings: &mut Findings,
    needs: &Needs,
    firewalls: &Firewalls,
    behind: &[Vec<String>; 2],
) {
    let networks = needs.networks.iter();
    let of_devices: BTreeSet<bool> = networks.map(|it| it.address().is_ipv4()).collect();
    let sites = |is_v4: bool| behind[usize::from(!is_v4)].iter().collect::<BTreeSet<_>>();
    let devices = needs.devices.keys();
    let devices = devices.flat_map(|name| of_devices.iter().map(move |it| (*it, name, sites(*it))));
    let relayed: BTreeSet<_> = needs.radios.iter().chain(sites(true)).collect();
    let radios = needs.radios.iter().map(|name| (true, name, relayed.clone()));
    let mut found = BTreeSet::new();
    for (is_v4, device, others) in devices.chain(radios) {
        let flow = Forwarded { firewalls, is_v4 };
        // A rule that accepts our device by name shows that the operator decided about all interfaces.
        let is_named = |other: &&String| !flow.is_cut(device, other) && flow.is_cut(NOBODY, other);
        if others.iter().any(is_named) {
            continue;
        }
        for other in others.into_iter().filter(|other| flow.is_cut(device, other)) {
            let mut by_chain: BTreeMap<ChainName, (Culprit, bool, Vec<_>)> = BTreeMap::new();
            for (from, to) in BTreeSet::from([(device, other), (other, device)]) {
                let Some((hook, culprit)) = flow.dropped(from, to) else { continue };
                // Such a rule also drops the replies to this host itself.
                let is_all = matches!(hook, Hook::Ingress | Hook::Prerouting) && from == device
                    || hook == Hook::Egress && to == device;
                let its = by_chain.entry(culprit.chain.clone());
                let (_, any, ways) = its.or_insert_with(|| (culprit, false, Vec::new()));
                *any |= is_all;
                ways.push((hook, from, to));
            }
            for (culprit, is_all, ways) in by_chain.into_values() {
                let orders: BTreeSet<_> = ways
                    .iter()
                    .map(|(hook, from, to)| {
                        let (in_nft, in_iptables) = match hook {
                            Hook::Ingress | Hook::Prerouting => {
                                (format!("iifname {from}"), format!("-i {from}"))
                            }
                            Hook::Egress | Hook::Postrouting => {
                                (format!("oifname {to}"), format!("-o {to}"))
                            }
                            Hook::ArpInput
                            | Hook::ArpOutput
                            | Hook::Forward
                            | Hook::Input
                            | Hook::Output => (
                                format!("iifname {from} oifname {to}"),
                                format!("-i {from} -o {to}"),
                            ),
                        };
                        culprit.remedy(&in_nft, &in_iptables)
                    })
                    .collect();
                let orders = orders.into_iter().collect::<Vec<_>>().join("; ");
                let which = match &ways[..] {
                    [(_, from, to)] => format!("from {from} to {to}"),
                    _ => format!("between {device} and {other}"),
                };
                if !found.insert(orders.clone()) {
                    continue;
                }
                let what = format!(
                    "{culprit} drops what is forwarded {which}: hosts behind this gateway lose their packets"
                );
                findings.drops(what, &orders, !is_all);
            }
        }
    }
}

/// Evaluates packets to and from the networks behind our devices. Only drops outside of the IP hooks count, because a
/// rule at an IP hook may refuse a network on purpose.
fn judge_networks(
    findings: &mut Findings,
    needs: &Needs,
    firewalls: &Firewalls,
    behind: &[Vec<String>; 2],
) {
    let mut told = BTreeSet::new();
    for (device, networks) in &needs.devices {
        for network in networks.iter().take(TRIED) {
            let hosts = ends(*network);
            let of = |host: &IpAddr| Packet::unknown(host.is_ipv4());
            let of_others = &behind[usize::from(network.address().is_ipv6())];
            // The culprit if forwarding is dropped for every other interface.
            let through = |is_to: bool| {
                let packets = of_others.iter().flat_map(|other| {
                    hosts.iter().map(move |host| match is_to {
                        true => Packet {
                            destination: Some(*host),
                            came_by: Some(other.clone()),
                            leaves_by: Some(device.clone()),
                            ..of(host)
                        },
                        false => Packet {
                            source: Some(*host),
                            came_by: Some(device.clone()),
                            leaves_by: Some(other.clone()),
                            ..of(host)
                        },
                    })
                });
                all_dropped(packets, |packet| dropped(firewalls, packet, Way::Through))
            };
            let to = hosts.iter().map(|host| Packet {
                destination: Some(*host),
                leaves_by: Some(device.clone()),
                mark: Some(0),
                ..of(host)
            });
            let from = hosts.iter().map(|host| Packet {
                source: Some(*host),
                came_by: Some(device.clone()),
                ..of(host)
            });
            let out = all_dropped(to, |packet| dropped(firewalls, packet, Way::Out));
            let came = all_dropped(from, |packet| dropped(firewalls, packet, Way::In));
            for (culprit, way, is_of_others) in [
                (out, "goes to", false),
                (came, "comes from", false),
                (through(true), "is forwarded to", true),
                (through(false), "is forwarded from", true),
            ] {
                let Some(culprit) = culprit.filter(|it| it.is_outside_ip_hooks()) else { continue };
                let family = if network.address().is_ipv4() { "ip" } else { "ip6" };
                let end = if way.ends_with("to") { "daddr" } else { "saddr" };
                let order = culprit.remedy(&format!("{family} {end} {network}"), "");
                if told.insert(order.clone()) {
                    let what = format!("{culprit} drops what {way} {network} by {device}");
                    findings.drops(what, &order, is_of_others);
                }
            }
        }
    }
}

/// Samples of a network: its first and last addresses. A rule that drops all samples drops the whole network.
fn ends(network: Prefix) -> Vec<IpAddr> {
    let mut all = probes(network);
    if network.bits() > 0 {
        let last = network.range().1;
        let v6 = std::net::Ipv6Addr::from_bits(last);
        let v4 = v6.to_ipv4_mapped().filter(|_| network.address().is_ipv4());
        all.push(v4.map_or(v6.into(), IpAddr::from));
    }
    all
}

/// Evaluates ARP and neighbour discovery, on the interfaces of calls, of the MANET, and `behind` the gateway (for IPv4,
/// then for IPv6).
fn judge_neighbours(
    findings: &mut Findings,
    needs: &Needs,
    firewalls: &Firewalls,
    behind: &[Vec<String>; 2],
) {
    let Ok(mut kernel) = Kernel::open() else { return };
    let of_calls = needs.ways.values().filter_map(|way| Some((&way.interface, way.next_hop?)));
    let of_calls = of_calls.map(|(name, next_hop)| (name, Some(next_hop), next_hop.is_ipv4()));
    let radios = needs.radios.iter().map(|name| (name, None, true));
    let grave: Vec<_> = of_calls.chain(radios).map(|it| (it, false)).collect();
    // ARP is always needed behind the gateway; neighbour discovery only if a service carries IPv6.
    let carries = |is_v4| needs.networks.iter().any(|it| it.address().is_ipv4() == is_v4);
    let behind = [true, false].into_iter().zip(behind);
    let behind = behind.filter(|(is_v4, _)| *is_v4 || carries(false));
    let behind = behind.flat_map(|(is_v4, all)| all.iter().map(move |name| (name, None, is_v4)));
    let mut told = BTreeSet::new();
    for ((name, next_hop, is_v4), is_of_others) in
        grave.into_iter().chain(behind.map(|it| (it, true)))
    {
        let Ok(Some(state)) = LinkState::read(&mut kernel, name) else { continue };
        let is_known = next_hop.is_some_and(|it| links::is_permanent(&mut kernel, state.index, it));
        // Interfaces without hardware addresses need no resolution.
        if state.mac.is_none() || state.is_mute || is_known || needs.devices.contains_key(name) {
            continue;
        }
        let messages = if is_v4 { arp(name, next_hop).to_vec() } else { discovery(name).to_vec() };
        for (packet, way, word) in messages {
            let Some(culprit) = dropped(firewalls, &packet, way) else { continue };
            let in_nft = match is_v4 {
                true => in_arp(&culprit, word, name),
                false => format!("{word} {name} meta l4proto ipv6-icmp"),
            };
            let option = if word == "iifname" { "-i" } else { "-o" };
            let order = culprit.remedy(&in_nft, &format!("{option} {name} -p ipv6-icmp"));
            if !told.insert(order.clone()) {
                continue;
            }
            let kind = if is_v4 { "ARP" } else { "neighbour discovery" };
            let what = format!(
                "{culprit} drops messages of {kind} at {name}: this host and its neighbours cannot find each other"
            );
            findings.drops(what, &order, is_of_others);
        }
    }
}

/// A message to or from neighbours, its path through this host, and the nftables keyword for its interface.
type Message = (Packet, Way, &'static str);

/// The ARP messages at an interface, with the neighbour's address if it is known.
fn arp(name: &str, neighbour: Option<IpAddr>) -> [Message; 4] {
    let message = |is_request| Packet { arp: Some(is_request), ..Packet::unknown(true) };
    // The neighbour is the target of our request, and the sender of the reply.
    let came = |is_request| {
        let came_by = Some(name.to_owned());
        (Packet { came_by, source: neighbour, ..message(is_request) }, Way::ArpIn, "iifname")
    };
    let leaves = |is_request| {
        let leaves_by = Some(name.to_owned());
        let packet = Packet { leaves_by, destination: neighbour, ..message(is_request) };
        (packet, Way::ArpOut, "oifname")
    };
    [came(true), leaves(true), came(false), leaves(false)]
}

/// The neighbour discovery messages at an interface; solicitations and advertisements look alike to firewalls.
fn discovery(name: &str) -> [Message; 2] {
    let (connection, protocol) = (Connection::Untracked, Some(protocol::ICMPV6));
    let message = Packet { protocol, connection, ..Packet::unknown(false) };
    [
        (Packet { came_by: Some(name.to_owned()), ..message.clone() }, Way::In, "iifname"),
        (Packet { leaves_by: Some(name.to_owned()), ..message }, Way::Out, "oifname"),
    ]
}

/// The nftables match for ARP messages at an interface.
fn in_arp(culprit: &Culprit, word: &str, name: &str) -> String {
    match culprit.is_of_arp() {
        true => format!("{word} {name}"),
        false => "meta protocol arp".to_owned(),
    }
}

/// Forwarded packets of which only the interfaces are known.
#[derive(Clone, Copy)]
struct Forwarded<'f> {
    firewalls: &'f Firewalls,
    is_v4: bool,
}

impl Forwarded<'_> {
    /// The rule that drops packets from one interface to another: the first packet of a connection, or replies.
    fn dropped(self, from: &str, to: &str) -> Option<(Hook, Culprit)> {
        self.dropped_if(from, to, Connection::New)
            .or_else(|| self.dropped_if(from, to, Connection::Established))
    }

    fn dropped_if(self, from: &str, to: &str, connection: Connection) -> Option<(Hook, Culprit)> {
        let packet = Packet {
            came_by: Some(from.to_owned()),
            leaves_by: Some(to.to_owned()),
            connection,
            ..Packet::unknown(self.is_v4)
        };
        self.firewalls.dropped(&packet, Way::Through)
    }

    /// Whether connections between two interfaces fail in both directions.
    fn is_cut(self, one: &str, other: &str) -> bool {
        let works = |from, to| {
            self.dropped_if(from, to, Connection::New).is_none()
                && self.dropped_if(to, from, Connection::Established).is_none()
        };
        !works(one, other) && !works(other, one)
    }
}

/// Evaluates packets to a listening socket, from all interfaces.
fn judge_listening(
    findings: &mut Findings,
    listening: &Listening,
    firewalls: &Firewalls,
    interfaces: &[String],
    told: &mut Told,
) {
    let Listening { service, protocol, at, .. } = *listening;
    let ip = at.ip().to_canonical();
    let all = if ip.is_loopback() { &[LOOPBACK.to_owned()][..] } else { interfaces };
    let packet = |came_by: &String| Packet {
        protocol: Some(protocol),
        destination: Some(ip).filter(|ip| !ip.is_unspecified()),
        destination_port: Some(at.port()),
        came_by: Some(came_by.clone()),
        ..Packet::unknown(ip.is_ipv4())
    };
    let is_dropped = |packet: &Packet| dropped(firewalls, packet, Way::In);
    let Some(culprit) = all_dropped(all.iter().map(packet), is_dropped) else { return };
    // For UDP this finding covers the answers to our own calls, too.
    if protocol == protocol::UDP {
        told.insert((protocol, culprit.chain.clone()));
    }
    let (port, name) = (at.port(), transport(protocol));
    let order =
        culprit.remedy(&format!("{name} dport {port}"), &format!("-p {name} --dport {port}"));
    let what = format!(
        "{culprit} drops what comes to {} port {port}: peers cannot call {service} there",
        name.to_uppercase()
    );
    // These services listen by default, and may need no incoming calls: a stateful firewall admits answers to their own.
    findings.drops(what, &order, matches!(service, "tunnel" | "sar"));
}

/// Evaluates datagrams from and to neighbours on a link.
fn judge_neighbourly(findings: &mut Findings, neighbourly: &Neighbourly, firewalls: &Firewalls) {
    let Neighbourly { service, interface, port } = neighbourly;
    let said = Packet {
        protocol: Some(protocol::UDP),
        destination: Some(Ipv4Addr::BROADCAST.into()),
        source_port: Some(*port),
        destination_port: Some(*port),
        ..Packet::unknown(true)
    };
    let from = Packet { came_by: Some(interface.clone()), ..said.clone() };
    let to = Packet {
        came_by: Some(String::new()),
        leaves_by: Some(interface.clone()),
        mark: Some(0),
        ..said
    };
    for (packet, way, said, in_nft, in_iptables) in
        [(&from, Way::In, "from", "iifname", "-i"), (&to, Way::Out, "to", "oifname", "-o")]
    {
        if let Some(culprit) = dropped(firewalls, packet, way) {
            let order = culprit.remedy(
                &format!("{in_nft} {interface} udp dport {port}"),
                &format!("{in_iptables} {interface} -p udp --dport {port}"),
            );
            findings.drops(format!("{culprit} drops UDP port {port} {said} neighbours on {interface}: {service} finds no routes"), &order, false);
        }
    }
}

/// Evaluates intercepted packets: they have a foreign destination, and yet pass the `input` hook.
fn judge_taking(
    findings: &mut Findings,
    taking: &Taking,
    firewalls: &Firewalls,
    interfaces: &[String],
) {
    let Taking { service, protocol, networks, ports, interfaces: named, mark } = taking;
    let name = transport(*protocol);
    let ports = if ports.is_empty() { &SAMPLES[..] } else { &ports[..ports.len().min(TRIED)] };
    // Each named interface must admit packets; without names, one interface must.
    let named: Vec<_> = named.iter().filter(|name| *name != LOOPBACK).cloned().collect();
    let groups: Vec<&[String]> = match &named[..] {
        [] => vec![interfaces],
        some => some.chunks(1).collect(),
    };
    let mut found = BTreeSet::new();
    for network in networks.iter().take(TRIED) {
        let Some(&probe) = probes(*network).first() else { continue };
        let packet = |came_by: &String, port: u16| Packet {
            protocol: Some(*protocol),
            destination: Some(probe),
            destination_port: Some(port),
            came_by: Some(came_by.clone()),
            ..Packet::unknown(probe.is_ipv4())
        };
        let family = if probe.is_ipv4() { "ip" } else { "ip6" };
        let first = (
            format!("{family} daddr {network} meta l4proto {name}"),
            format!("-d {network} -p {name}"),
        );
        let led = (format!("meta mark {mark:#x}"), format!("-m mark --mark {mark:#x}"));
        for (group, port) in
            groups.iter().flat_map(|group| ports.iter().map(move |it| (group, *it)))
        {
            for (hook, its_mark, order) in [
                (Hook::Ingress, None, &first),
                (Hook::Prerouting, None, &first),
                (Hook::Input, Some(*mark), &led),
            ] {
                let packets =
                    group.iter().map(|name| Packet { mark: its_mark, ..packet(name, port) });
                let is_dropped = |packet: &Packet| match firewalls.judge(packet, hook) {
                    Fate::Dropped(culprit) => Some(culprit),
                    Fate::Passes | Fate::MayBeDropped(_) => None,
                };
                if let Some(culprit) = all_dropped(packets, is_dropped)
                    && found.insert(culprit.to_string())
                {
                    let order = culprit.remedy(&order.0, &order.1);
                    findings.drops(format!("{culprit} drops what {service} takes on its way to {network}: such packets pass `input` here"), &order, false);
                }
            }
            for name in *group {
                let marks = firewalls.marks(&packet(name, port), Hook::Prerouting, MANGLE);
                if let Some((culprit, _)) = marks.filter(|(it, _)| found.insert(it.to_string())) {
                    tell_marking(
                        findings,
                        &culprit,
                        &format!("by which {service} leads packets to itself"),
                    );
                }
            }
        }
    }
}

/// Evaluates the calls of services, and the answers to them.
fn judge_call(
    findings: &mut Findings,
    needs: &Needs,
    call: &Call,
    firewalls: &Firewalls,
    interfaces: &[String],
    told: &mut Told,
) {
    let Call { whom, peer, protocol, to, port, mark } = call;
    let is_v4 = to.is_none_or(|to| to.is_ipv4());
    let way = to.and_then(|to| needs.ways.get(&(to, *mark)));
    let interface = way.map(|way| way.interface.clone());
    let own = way.and_then(|way| way.source);
    let place = match (to, port) {
        (Some(to), Some(port)) => format!(" at {}", SocketAddr::new(*to, *port)),
        (Some(to), None) => format!(" at {to}"),
        (None, _) => String::new(),
    };
    let name = transport(*protocol);
    let family = if is_v4 { "ip" } else { "ip6" };
    // The matches in nftables and iptables syntax, by destination or by source.
    let words = |end: &str, side: char| {
        let nft_port = port.map(|port| format!(" {name} {}port {port}", &end[..1]));
        let nft_port = nft_port.unwrap_or_else(|| format!(" meta l4proto {name}"));
        let port = port.map(|port| format!(" --{}port {port}", &end[..1])).unwrap_or_default();
        match to {
            Some(to) => {
                (format!("{family} {end} {to}{nft_port}"), format!("-{side} {to} -p {name}{port}"))
            }
            None => (format!("meta mark {mark:#x}"), format!("-m mark --mark {mark:#x}")),
        }
    };
    let mut tell = |what: String, culprit: &Culprit, (in_nft, in_iptables): (String, String)| {
        let remedy = format!("{} {KEEP}", culprit.remedy(&in_nft, &in_iptables));
        match peer {
            Some(peer) => findings.add_of_peer(&FIREWALL, peer, what, remedy),
            None => findings.add(&FIREWALL, what, remedy),
        }
    };
    let sent = Packet {
        protocol: Some(*protocol),
        source: own,
        destination: *to,
        destination_port: *port,
        came_by: Some(String::new()),
        leaves_by: interface.clone(),
        mark: Some(*mark),
        ..Packet::unknown(is_v4)
    };
    // A call without a fixed address may leave by any interface.
    let leaving = interface.as_ref().map_or(interfaces, std::slice::from_ref);
    let leaving =
        leaving.iter().map(|name| Packet { leaves_by: Some(name.clone()), ..sent.clone() });
    if let Some(culprit) = all_dropped(leaving, |packet| dropped(firewalls, packet, Way::Out)) {
        let what = format!("{culprit} drops what this host sends to {whom}{place}");
        tell(what, &culprit, words("daddr", 'd'));
    }
    let answer = Packet {
        protocol: Some(*protocol),
        source: *to,
        destination: own,
        source_port: *port,
        came_by: interface,
        // GRE has no ports, so the peer's packet may be the first of the connection.
        connection: if *protocol == protocol::GRE {
            Connection::New
        } else {
            Connection::Established
        },
        ..Packet::unknown(is_v4)
    };
    let is_tcp = *protocol == protocol::TCP;
    if let Some(culprit) = dropped(firewalls, &answer, Way::In)
        && !told.contains(&(*protocol, culprit.chain.clone()))
    {
        // One command admits the TCP answers of all peers.
        let is_of_all = is_tcp && !culprit.is_stateless();
        let order = if is_of_all { of_answers() } else { words("saddr", 's') };
        told.extend(is_of_all.then(|| (*protocol, culprit.chain.clone())));
        tell(format!("{culprit} drops what {whom}{place} sends to this host"), &culprit, order);
    }
    if *mark != 0
        && let Some((culprit, _)) = firewalls.marks(&sent, Hook::Output, i64::MIN)
        && told.insert((0, culprit.chain.clone()))
    {
        tell_marking(findings, &culprit, "of packets that this host sends by itself");
    }
}

/// Evaluates answers of this host: to clients whose connections a service intercepts, and to other gateways.
fn judge_answers(
    findings: &mut Findings,
    needs: &Needs,
    firewalls: &Firewalls,
    interfaces: &[String],
) {
    let answer = |source: Option<IpAddr>, port, is_v4| Packet {
        protocol: Some(protocol::TCP),
        source,
        source_port: port,
        came_by: Some(String::new()),
        connection: Connection::Established,
        ..Packet::unknown(is_v4)
    };
    let takings = needs.takings.iter().filter(|it| it.protocol == protocol::TCP);
    let clients = takings.flat_map(|it| {
        let probed = it.networks.iter().take(TRIED).filter_map(|to| probes(*to).first().copied());
        let answers = probed.map(move |source| Packet {
            mark: Some(timewait::LED.value()),
            ..answer(Some(source), None, source.is_ipv4())
        });
        let named: Vec<_> = it.interfaces.iter().filter(|name| *name != LOOPBACK).collect();
        let named = if named.is_empty() { interfaces.iter().collect() } else { named };
        answers.map(move |packet| (it.service, packet, named.clone()))
    });
    let listening = needs.listening.iter().filter(|it| it.protocol == protocol::TCP);
    let callers = listening.filter_map(|it| {
        let ip = it.at.ip().to_canonical();
        let source = Some(ip).filter(|ip| !ip.is_unspecified());
        let packet = answer(source, Some(it.at.port()), ip.is_ipv4());
        (!ip.is_loopback()).then(|| (it.service, packet, interfaces.iter().collect::<Vec<_>>()))
    });
    let mut told = BTreeSet::new();
    for (service, packet, names) in clients.chain(callers) {
        let leaving =
            names.iter().map(|name| Packet { leaves_by: Some((*name).clone()), ..packet.clone() });
        if let Some(culprit) = all_dropped(leaving, |it| dropped(firewalls, it, Way::Out))
            && told.insert(culprit.chain.clone())
        {
            let (in_nft, in_iptables) = match culprit.is_stateless() {
                true => ("meta l4proto tcp".to_owned(), String::new()),
                false => of_answers(),
            };
            let order = culprit.remedy(&in_nft, &in_iptables);
            findings.drops(
                format!("{culprit} drops what {service} answers to those who call it"),
                &order,
                false,
            );
        }
    }
}

/// The matches for replies in nftables and in iptables syntax.
fn of_answers() -> (String, String) {
    let state = "established,related";
    (format!("ct state {state}"), format!("-m conntrack --ctstate {}", state.to_uppercase()))
}

fn tell_marking(findings: &mut Findings, culprit: &Culprit, which: &str) {
    let ours = Mark(0).value();
    findings.add(
        &PERHAPS,
        format!("{culprit} may change the mark {which}: these packets would then go elsewhere"),
        format!("begin the rule with `meta mark & 0xffff0000 != {ours:#x}`"),
    );
}

/// The rule that certainly drops a packet on a path.
fn dropped(firewalls: &Firewalls, packet: &Packet, way: Way) -> Option<Culprit> {
    firewalls.dropped(packet, way).map(|(_, culprit)| culprit)
}

/// The rule that drops the first of the packets, if rules certainly drop all of them.
fn all_dropped(
    packets: impl Iterator<Item = Packet>,
    dropped: impl Fn(&Packet) -> Option<Culprit>,
) -> Option<Culprit> {
    let mut first = None;
    for packet in packets {
        let culprit = dropped(&packet)?;
        first.get_or_insert(culprit);
    }
    first
}

/// The name of a protocol in firewall rules.
fn transport(number: u8) -> &'static str {
    match number {
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::GRE => "gre",
        _ => "ip",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUNNEL: &str = "[tunnel]\nprivate-key = \"k\"\naddresses = [\"10.77.0.1/24\"]\n[[tunnel.peer]]\nname = \"b\"\n\
        public-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nendpoint = \"192.0.2.2:51900\"\nroutes = [\"0.0.0.0/0\"]\n";

    fn found_for(config: &str, ruleset: &str) -> Vec<(&'static str, String, String)> {
        let config = crate::config::Config::parse("a.toml", config).unwrap();
        // The routes of the testing host do not count.
        let needs = Needs { ways: BTreeMap::new(), ..Needs::of(&config) };
        let all = ["lan0", "docker0"].map(str::to_owned).to_vec();
        let interfaces = Interfaces { behind: [all.clone(), all.clone()], all };
        let mut findings = Findings::default();
        let firewalls = Firewalls::of_nft(&serde_json::from_str(ruleset).unwrap());
        judge(&mut findings, &needs, &firewalls, &interfaces);
        findings.0.into_iter().map(|it| (it.kind.code, it.what, it.remedy)).collect()
    }

    fn found(ruleset: &str) -> Vec<(&'static str, String)> {
        found_for(TUNNEL, ruleset).into_iter().map(|(code, what, _)| (code, what)).collect()
    }

    #[test]
    fn hosts_are_behind_the_uplink_of_a_gateway_with_one_interface() {
        let config = crate::config::Config::parse("a.toml", TUNNEL).unwrap();
        let needs = Needs { ways: BTreeMap::new(), ..Needs::of(&config) };
        let chosen = |more: &[(&str, bool)]| {
            let one_armed = [("lo", false), ("eth0", true), ("trackway-nc0", false)];
            let all = one_armed.iter().chain(more).map(|(name, is)| ((*name).to_owned(), *is));
            to_hosts(&needs, all)
        };

        assert_eq!(chosen(&[]), ["eth0"]);
        assert_eq!(chosen(&[("lan0", false)]), ["lan0"]);
    }

    /// Output of `nft -j list ruleset` (nftables 1.0.6), without handles.
    const DROPPING: &str = r#"{"nftables": [
        {"chain": {"family": "inet", "table": "filter", "name": "forward", "type": "filter", "hook": "forward",
                   "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input",
                   "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "more"}},
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [{"jump": {"target": "more"}}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "more", "expr": [RULE, {"accept": null}]}}]}"#;

    #[test]
    fn a_chain_that_drops_is_found_unless_a_rule_lets_pass_what_is_ours() {
        let ruleset = |rule: &str| DROPPING.replace("RULE", rule);
        let port = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 51900}}"#;

        let all = found(&ruleset(&port.replace("51900", "22")));
        assert_eq!(all.len(), 3, "{all:?}");
        let forwarded = "the policy of chain inet filter forward drops what is forwarded";
        for (told, other) in all.iter().zip(["docker0", "lan0"]) {
            let between = format!("{forwarded} between trackway-nc0 and {other}: ");
            assert!(told.1.starts_with(&between), "{all:?}");
        }
        assert!(all[2].1.contains("UDP port 51900"), "{all:?}");
        assert_eq!(found(&ruleset(port)).len(), 2);
        assert_eq!(found(&ruleset(port).replace(r#""filter""#, r#""trackway""#)), []);
    }

    #[test]
    fn forwarding_is_told_of_where_no_flow_works_and_nobody_decided_so() {
        let interface = |way: &str, name: &str| {
            format!(
                r#"{{"match": {{"op": "==", "left": {{"meta": {{"key": "{way}"}}}}, "right": "{name}"}}}}"#
            )
        };
        let answers = r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}"#;
        let [from_lan, to_lan] = ["iifname", "oifname"].map(|way| interface(way, "lan0"));
        let [from_us, to_us] = ["iifname", "oifname"].map(|way| interface(way, "trackway*"));
        let [from_docker, to_docker] = ["iifname", "oifname"].map(|way| interface(way, "docker0"));
        let source = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.1.0.1"}}"#;
        let told = |rules: &[String]| {
            let rule = |it: &String| {
                format!(
                    r#", {{"rule": {{"family": "inet", "table": "filter", "chain": "forward", "expr": [{it}, {{"accept": null}}]}}}}"#
                )
            };
            let rules = rules.iter().map(rule).collect::<String>();
            let ruleset = DROPPING
                .replace("RULE", r#"{"counter": null}"#)
                .replace("}]}}]}", &format!("}}]}}}}{rules}]}}"));
            let found = found_for(TUNNEL, &ruleset).into_iter();
            let which = |what: &str| {
                what.split("is forwarded ").nth(1)?.split(':').next().map(str::to_owned)
            };
            found.filter_map(|(_, what, remedy)| Some((which(&what)?, remedy))).collect::<Vec<_>>()
        };
        let ways = |rules: &[String]| told(rules).into_iter().map(|it| it.0).collect::<Vec<_>>();
        let both = |one: &str, other: &str| format!("{one}, {other}");
        let all = ["between trackway-nc0 and docker0", "between trackway-nc0 and lan0"];

        assert_eq!(ways(&[]), all);
        assert_eq!(ways(&[answers.to_owned()]), all);
        // Accepting the device by name is a decision for all interfaces, unless the replies stay blocked.
        assert_eq!(ways(&[both(&from_lan, &to_us), both(&from_us, &to_lan)]), [""; 0]);
        assert_eq!(
            ways(std::slice::from_ref(&from_us)),
            ["from docker0 to trackway-nc0", "from lan0 to trackway-nc0"]
        );
        // Connections from one side are enough. Docker writes such rules for its own interface.
        assert_eq!(ways(&[answers.to_owned(), from_lan.clone()]), all[..1]);
        assert_eq!(ways(&[both(&to_docker, answers), from_docker]), all[1..]);
        assert_eq!(ways(&[source.to_owned()]), [""; 0], "for some hosts, perhaps");
        let (_, remedy) = &told(&[])[1];
        let order = "nft insert rule inet filter forward iifname";
        let orders = format!(
            "{order} lan0 oifname trackway-nc0 accept; {order} trackway-nc0 oifname lan0 accept ("
        );
        assert!(remedy.starts_with(&orders), "{remedy}");
    }

    #[test]
    fn what_is_dropped_before_it_is_routed_is_found() {
        let told = |config: &str, test: &str| {
            let accepting = DROPPING.replace(r#""policy": "drop""#, r#""policy": "accept""#);
            let early = accepting.replace(r#""hook": "input""#, r#""hook": "prerouting""#);
            let ruleset =
                early.replace("RULE", test).replace(r#", {"accept": null}"#, r#", {"drop": null}"#);
            found_for(config, &ruleset).into_iter().map(|it| it.1).collect::<Vec<_>>()
        };
        let field = |protocol: &str, field: &str, right: &str| {
            format!(
                r#"{{"match": {{"op": "==", "left": {{"payload": {{"protocol": "{protocol}", "field": "{field}"}}}}, "right": {right}}}}}"#
            )
        };
        let device = r#"{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "trackway-nc0"}}"#;
        let gre =
            "[[gre]]\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.9\"\nto = [\"10.4.0.0/16\"]\n";

        for (config, test, expected) in [
            (TUNNEL, field("udp", "dport", "51900"), "drops what comes to UDP port 51900"),
            (
                TUNNEL,
                field("udp", "sport", "51900"),
                "drops what the peer b at 192.0.2.2:51900 sends",
            ),
            (
                TUNNEL,
                field("ip", "saddr", r#""192.0.2.2""#),
                "drops what the peer b at 192.0.2.2:51900 sends",
            ),
            (
                gre,
                field("ip", "protocol", r#""gre""#),
                "drops what the router of [[gre]] at 192.0.2.9 sends",
            ),
        ] {
            let told = told(config, &test);
            assert_eq!(told.len(), 1, "{test}: {told:?}");
            assert!(told[0].contains(expected), "{test}: {told:?}");
        }
        let forwarded = told(TUNNEL, device);
        assert!(
            forwarded[0].contains("is forwarded from trackway-nc0 to docker0"),
            "{forwarded:?}"
        );
        assert_eq!(told(TUNNEL, &field("udp", "dport", "53")), [""; 0]);
    }

    #[test]
    fn a_chain_that_drops_calls_to_a_peer_is_found() {
        let ruleset = |port: &str, hook: &str| {
            let rule = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": PORT}},
                          {"drop": null}"#;
            let accepting = DROPPING.replace(r#""policy": "drop""#, r#""policy": "accept""#);
            let dropping = accepting.replace(r#", {"accept": null}"#, "");
            dropping.replace("RULE", &rule.replace("PORT", port)).replace(r#""input""#, hook)
        };

        for hook in [r#""output""#, r#""postrouting""#] {
            let dropped = found(&ruleset("51900", hook));
            assert_eq!(dropped.len(), 1, "{dropped:?}");
            assert!(
                dropped[0].1.ends_with("sends to the peer b at 192.0.2.2:51900"),
                "{dropped:?}"
            );
            assert_eq!(found(&ruleset("53", hook)), []);
        }
    }

    #[test]
    fn a_check_of_the_way_back_is_found() {
        let rule = r#"{"match": {"op": "==", "left": {"fib": {"result": "oif", "flags": ["saddr", "mark", "iif"]}},
                       "right": false}}, {"drop": null}"#;
        let ruleset =
            DROPPING.replace("RULE", rule).replace(r#""policy": "drop""#, r#""policy": "accept""#);

        let found = found(&ruleset);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "reverse-path");
    }
}
