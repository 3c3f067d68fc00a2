//! Finds rules of other firewalls that drop the services' traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use base::ip::protocol;
use host::fault::{CLASH, FIREWALL, REVERSE_PATH, SETTING};
use host::numbers::Mark;
use host::settings::Settings;

use super::kinds::{PERHAPS, UNREAD};
use super::{Findings, Needs, is_strict, unjudged};
use crate::config::traffic::{Call, Listening, Neighbourly, Taking};
use crate::firewalls::{ChainName, Connection, Culprit, Fate, Firewalls, Hook, Packet};
use crate::linux::routes::probes;

/// Foreign interfaces examined at most.
const MOST: usize = 32;
/// Networks and ports of a service that takes packets examined at most.
const TRIED: usize = 8;
/// Ports to try where all are taken: many firewalls let in some.
const SAMPLES: [u16; 2] = [443, 29_810];
/// The priority of our chains that mark packets.
pub(crate) const MANGLE: i64 = -150;
/// What a firewall's order is followed by.
const KEEP: &str = "(and in the file that makes the chain)";

/// Examines all rules in nftables, including the rules of `iptables-nft`, and in legacy iptables.
pub fn examine(findings: &mut Findings, needs: &Needs) {
    let firewalls = Firewalls::read();
    for (what, remedy) in firewalls.unread() {
        findings.add(&UNREAD, what.clone(), remedy.clone());
    }
    examine_traffic(findings, needs, &firewalls);
    for (what, remedy) in unjudged(&firewalls) {
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
            "strict reverse path filters drop what comes from a peer for everything, and cannot be changed from here"
                .to_owned(),
            "sysctl -w net.ipv4.conf.all.rp_filter=2 on the host".to_owned(),
        );
    }
}

/// Examines what rules of others do to the services' traffic.
pub fn examine_traffic(findings: &mut Findings, needs: &Needs, firewalls: &Firewalls) {
    let is_other = |name: &String| !needs.devices.contains(name) && !name.starts_with("trackway");
    let others: Vec<_> = Settings::interfaces().into_iter().filter(is_other).take(MOST).collect();
    judge(findings, needs, firewalls, &others);
    if let Some((culprit, mark)) = firewalls.takes_for_ours() {
        findings.add(
            &CLASH,
            format!(
                "{culprit} gives packets the mark {mark:#x}, which is ours: they may go past the tunnel in clear, or into \
                 other services"
            ),
            "delete the rule, or let `marks` in [host] choose other numbers".to_owned(),
        );
    }
}

/// Forwarded packets of a device that a chain drops.
#[derive(Default)]
struct Dropped<'i> {
    /// Whether packets from the device are dropped, and packets to the device.
    ways: [bool; 2],
    /// The other interfaces.
    others: BTreeSet<&'i String>,
    culprit: Option<String>,
}

/// Judges packets known only by their interfaces or ports: a rule that drops such a packet for certain drops every
/// packet of the kind.
fn judge(findings: &mut Findings, needs: &Needs, firewalls: &Firewalls, interfaces: &[String]) {
    judge_forwarded(findings, needs, firewalls, interfaces);
    for listening in &needs.listening {
        judge_listening(findings, listening, firewalls, interfaces);
    }
    for neighbourly in &needs.neighbourly {
        judge_neighbourly(findings, neighbourly, firewalls);
    }
    for taking in &needs.takings {
        judge_taking(findings, taking, firewalls, interfaces);
    }
    let mut answers = BTreeSet::new();
    for call in &needs.calls {
        judge_call(findings, needs, call, firewalls, &mut answers);
    }
    if needs.has_default(true) || needs.has_default(false) {
        for chain in firewalls.by_reverse_path() {
            findings.add(
                &REVERSE_PATH,
                format!("chain {chain} drops packets whose answers would leave by another interface: with a peer for \
                         everything these are all that peers send"),
                "let it pass marked 0x7472776c, or switch it off: firewalld IPv6_rpfilter=no or loose, NixOS \
                 networking.firewall.checkReversePath = \"loose\""
                    .to_owned(),
            );
        }
    }
}

/// Packets that this host forwards: by devices of ours, and between neighbours in a MANET.
fn judge_forwarded(
    findings: &mut Findings,
    needs: &Needs,
    firewalls: &Firewalls,
    interfaces: &[String],
) {
    let networks = needs.networks.iter();
    let of_devices: BTreeSet<bool> = networks.map(|it| it.address().is_ipv4()).collect();
    let devices = needs.devices.iter().flat_map(|name| of_devices.iter().map(move |v| (*v, name)));
    let radios = needs.radios.iter().map(|name| (true, name));
    let mut found = BTreeSet::new();
    for (is_v4, device) in devices.chain(radios) {
        let mut by_chain: BTreeMap<ChainName, Dropped> = BTreeMap::new();
        for other in interfaces {
            for (way, came_by, leaves_by) in [(0, device, other), (1, other, device)] {
                let packet = Packet {
                    came_by: Some(came_by.clone()),
                    leaves_by: Some(leaves_by.clone()),
                    ..Packet::unknown(is_v4)
                };
                if let Fate::Dropped(culprit) = firewalls.judge(&packet, Hook::Forward) {
                    let dropped = by_chain.entry(culprit.chain.clone()).or_default();
                    dropped.ways[way] = true;
                    dropped.others.insert(other);
                    dropped.culprit = Some(culprit.to_string());
                }
            }
        }
        for (chain, Dropped { ways, others, culprit }) in by_chain {
            let order = |is_in: bool| {
                let (in_nft, in_iptables) =
                    if is_in { ("iifname", "-i") } else { ("oifname", "-o") };
                chain.remedy(&format!("{in_nft} {device}"), &format!("{in_iptables} {device}"))
            };
            let orders: Vec<_> = [true, false]
                .into_iter()
                .zip(ways)
                .filter(|it| it.1)
                .map(|it| order(it.0))
                .collect();
            let way = match ways {
                [true, true] => "from and to",
                [true, false] => "from",
                [false, _] => "to",
            };
            let others = others.into_iter().cloned().collect::<Vec<_>>().join(", ");
            let (culprit, orders) = (culprit.unwrap_or_default(), orders.join("; "));
            if found.insert(orders.clone()) {
                findings.add_of_others(
                    &FIREWALL,
                    format!("{culprit} drops what is forwarded {way} {device}, beside {others}: packets of hosts \
                             behind it vanish"),
                    format!("{orders} {KEEP}"),
                );
            }
        }
    }
}

/// What comes to a socket, by whichever interface.
fn judge_listening(
    findings: &mut Findings,
    listening: &Listening,
    firewalls: &Firewalls,
    interfaces: &[String],
) {
    let Listening { service, protocol, at, .. } = *listening;
    let ip = at.ip().to_canonical();
    let all = if ip.is_loopback() { &["lo".to_owned()][..] } else { interfaces };
    let packet = |came_by: &String| Packet {
        protocol: Some(protocol),
        destination: Some(ip).filter(|ip| !ip.is_unspecified()),
        destination_port: Some(at.port()),
        came_by: Some(came_by.clone()),
        ..Packet::unknown(ip.is_ipv4())
    };
    let Some(culprit) = all_dropped(firewalls, all.iter().map(packet), Hook::Input) else { return };
    let (port, name) = (at.port(), transport(protocol));
    let order =
        culprit.chain.remedy(&format!("{name} dport {port}"), &format!("-p {name} --dport {port}"));
    let what = format!(
        "{culprit} drops what comes to {} port {port}: peers cannot call {service} there",
        name.to_uppercase()
    );
    let remedy = format!("{order} {KEEP}");
    // These listen unless they are told not to; answers to their own calls pass a firewall that knows connections.
    if matches!(service, "tunnel" | "sar") {
        findings.add_of_others(&FIREWALL, what, remedy);
    } else {
        findings.add(&FIREWALL, what, remedy);
    }
}

/// Datagrams from and to neighbours on a link.
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
    for (hook, packet, way, in_nft, in_iptables) in [
        (Hook::Prerouting, &from, "from", "iifname", "-i"),
        (Hook::Input, &from, "from", "iifname", "-i"),
        (Hook::Output, &to, "to", "oifname", "-o"),
        (Hook::Postrouting, &to, "to", "oifname", "-o"),
    ] {
        if let Fate::Dropped(culprit) = firewalls.judge(packet, hook) {
            let order = culprit.chain.remedy(
                &format!("{in_nft} {interface} udp dport {port}"),
                &format!("{in_iptables} {interface} -p udp --dport {port}"),
            );
            findings.add(
                &FIREWALL,
                format!("{culprit} drops UDP port {port} {way} neighbours on {interface}: {service} finds no routes"),
                format!("{order} {KEEP}"),
            );
        }
    }
}

/// Packets between others that are led to this host, and so pass the firewall's input.
fn judge_taking(
    findings: &mut Findings,
    taking: &Taking,
    firewalls: &Firewalls,
    interfaces: &[String],
) {
    let Taking { service, protocol, networks, ports, interfaces: named, mark } = taking;
    let name = transport(*protocol);
    let ports = if ports.is_empty() { &SAMPLES[..] } else { &ports[..ports.len().min(TRIED)] };
    // Packets must pass by each named interface; without names, by any interface.
    let named: Vec<_> = named.iter().filter(|name| *name != "lo").cloned().collect();
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
            for (hook, its_mark, order) in
                [(Hook::Prerouting, None, &first), (Hook::Input, Some(*mark), &led)]
            {
                let packets =
                    group.iter().map(|name| Packet { mark: its_mark, ..packet(name, port) });
                if let Some(culprit) = all_dropped(firewalls, packets, hook)
                    && found.insert(culprit.to_string())
                {
                    let order = culprit.chain.remedy(&order.0, &order.1);
                    findings.add(
                        &FIREWALL,
                        format!("{culprit} drops what {service} takes on its way to {network}: it comes to this host itself"),
                        format!("{order} {KEEP}"),
                    );
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

/// Judges packets of this host itself, and their answers; `told` has the chains of answers already reported.
fn judge_call(
    findings: &mut Findings,
    needs: &Needs,
    call: &Call,
    firewalls: &Firewalls,
    told: &mut BTreeSet<ChainName>,
) {
    let Call { whom, peer, protocol, to, port, mark } = call;
    let is_v4 = to.is_none_or(|to| to.is_ipv4());
    let interface = to.and_then(|to| needs.ways.get(&(to, *mark))).cloned();
    let place = match (to, port) {
        (Some(to), Some(port)) => format!(" at {}", SocketAddr::new(*to, *port)),
        (Some(to), None) => format!(" at {to}"),
        (None, _) => String::new(),
    };
    let name = transport(*protocol);
    let family = if is_v4 { "ip" } else { "ip6" };
    // Words of an order: whom the packets are for, or come from.
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
        let remedy = format!("{} {KEEP}", culprit.chain.remedy(&in_nft, &in_iptables));
        match peer {
            Some(peer) => findings.add_of_peer(&FIREWALL, peer, what, remedy),
            None => findings.add(&FIREWALL, what, remedy),
        }
    };
    let sent = Packet {
        protocol: Some(*protocol),
        destination: *to,
        destination_port: *port,
        came_by: Some(String::new()),
        leaves_by: interface.clone(),
        mark: Some(*mark),
        ..Packet::unknown(is_v4)
    };
    for hook in [Hook::Output, Hook::Postrouting] {
        if let Fate::Dropped(culprit) = firewalls.judge(&sent, hook) {
            let what = format!("{culprit} drops what this host sends to {whom}{place}");
            tell(what, &culprit, words("daddr", 'd'));
        }
    }
    let is_tcp = *protocol == protocol::TCP;
    let answer = Packet {
        protocol: Some(*protocol),
        source: *to,
        source_port: *port,
        came_by: interface,
        // Without ports, either end may begin.
        connection: if is_tcp { Connection::Answer } else { Connection::New },
        ..Packet::unknown(is_v4)
    };
    // By UDP, answers come to a socket that listens.
    if *protocol != protocol::UDP
        && let Fate::Dropped(culprit) = firewalls.judge(&answer, Hook::Input)
        && told.insert(culprit.chain.clone())
    {
        let order = match is_tcp {
            true => {
                let state = "established,related";
                (
                    format!("ct state {state}"),
                    format!("-m conntrack --ctstate {}", state.to_uppercase()),
                )
            }
            false => words("saddr", 's'),
        };
        tell(format!("{culprit} drops what {whom}{place} sends to this host"), &culprit, order);
    }
    if *mark != 0
        && let Some((culprit, _)) = firewalls.marks(&sent, Hook::Output, i64::MIN)
        && told.insert(culprit.chain.clone())
    {
        tell_marking(findings, &culprit, "of packets that this host sends by itself");
    }
}

fn tell_marking(findings: &mut Findings, culprit: &Culprit, which: &str) {
    let ours = Mark(0).value();
    findings.add(
        &PERHAPS,
        format!("{culprit} may change the mark {which}: they go elsewhere then"),
        format!("begin the rule with `meta mark & 0xffff0000 != {ours:#x}`"),
    );
}

/// Who drops all of some packets for certain: whoever drops the first.
fn all_dropped(
    firewalls: &Firewalls,
    packets: impl Iterator<Item = Packet>,
    hook: Hook,
) -> Option<Culprit> {
    let mut first = None;
    for packet in packets {
        let Fate::Dropped(culprit) = firewalls.judge(&packet, hook) else { return None };
        first.get_or_insert(culprit);
    }
    first
}

/// What firewalls call a protocol.
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
        let mut findings = Findings::default();
        let firewalls = Firewalls::of_nft(&serde_json::from_str(ruleset).unwrap());
        judge(&mut findings, &needs, &firewalls, &["lan0".to_owned(), "docker0".to_owned()]);
        findings.0.into_iter().map(|it| (it.kind.code, it.what, it.remedy)).collect()
    }

    fn found(ruleset: &str) -> Vec<(&'static str, String)> {
        found_for(TUNNEL, ruleset).into_iter().map(|(code, what, _)| (code, what)).collect()
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
        assert_eq!(all.len(), 2, "{all:?}");
        let forwarded = "the policy of chain inet filter forward drops what is forwarded from and to trackway-nc0, beside \
                         docker0, lan0: ";
        assert!(all[0].1.starts_with(forwarded), "{all:?}");
        assert!(all[1].1.contains("UDP port 51900"), "{all:?}");
        assert_eq!(found(&ruleset(port)).len(), 1);
        let in_forward = |rule: &str| {
            found(&ruleset(rule).replace(r#""chain": "more""#, r#""chain": "forward""#))[0]
                .1
                .clone()
        };
        // A rule for another state of connections lets nothing new pass, one for other hosts perhaps.
        let state = r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}"#;
        assert!(in_forward(state).starts_with(forwarded));
        let source = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.1.0.1"}}"#;
        assert!(in_forward(source).contains("UDP port"), "{}", in_forward(source));
        let device = r#"{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "trackway*"}}"#;
        assert!(in_forward(device).contains("is forwarded to trackway-nc0, beside"));
        // A rule of Docker's, for packets to Docker's own bridge only.
        let docker = r#"{"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "docker0"}},
                        {"xt": {"type": "match", "name": "conntrack"}}"#;
        assert!(
            in_forward(docker).contains("from and to trackway-nc0, beside docker0, lan0"),
            "{}",
            in_forward(docker)
        );
        assert_eq!(found(&ruleset(port).replace(r#""filter""#, r#""trackway""#)), []);
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
