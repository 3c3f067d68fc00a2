//! Tests decisions, partly against a model too simple to be wrong.

use std::net::IpAddr;

use base::ip::{Header, Prefix, Spec, fragment, protocol, rewrite_v4_checksum};
use proptest::prelude::*;

use super::*;

#[test]
fn the_first_rule_that_matches_decides() {
    let web = rule("web", |it| it.destination_ports = ports(&["80", "443"]));
    let block = Action::Block(Refusal::Prohibited);
    let lan = Rule { action: block, ..rule("lan", |it| it.sources = networks(&["10.1.0.0/16"])) };
    let mut table = table(vec![web, lan]);

    let said: Vec<_> = ["10.1.2.3 443", "10.1.2.3 22", "10.2.0.1 22"]
        .map(|text| {
            let (source, port) = text.split_once(' ').unwrap();
            tell(&table.decide(&tcp(source, port.parse().unwrap()), 100))
        })
        .into();

    assert_eq!(said, ["web: ipclient", "lan: Prohibited Blocked", "-: ipclient"]);
    let counted: Vec<_> =
        table.counters().map(|(_, it)| (it.hits, it.octets, it.blocked)).collect();
    assert_eq!(counted, [(1, 100, 0), (1, 100, 1), (1, 100, 0)]);
}

#[test]
fn tcp_goes_where_a_peer_splits_it_unless_a_rule_says_otherwise() {
    let plain = Options { service: Some(Service::IpClient), ..Options::default() };
    let ssh = rule("ssh", |it| it.destination_ports = ports(&["22"]));
    let mut table = Table::new(Config {
        rules: vec![Rule { action: Action::Pass(plain), ..ssh }],
        split: networks(&["10.9.0.0/16"]),
        split_from: vec!["eth0".to_owned()],
        is_enabled: true,
    });
    let udp = Flow { protocol: protocol::UDP, ..tcp("10.1.2.3", 80) };
    let elsewhere = Flow { destination: ip("10.8.0.1"), ..tcp("10.1.2.3", 80) };
    let [here, there] =
        ["eth0", "eth1"].map(|name| Flow { interface: Some(name), ..tcp("10.1.2.3", 80) });

    let said = [tcp("10.1.2.3", 80), here, there, tcp("10.1.2.3", 22), udp, elsewhere]
        .map(|flow| tell(&table.decide(&flow, 0)));

    let expected = ["hfpep", "hfpep", "ipclient"].map(|service| format!("-: {service}"));
    assert_eq!(said[..3], expected);
    assert_eq!(said[3..], ["ssh: ipclient", "-: ipclient", "-: ipclient"]);
}

#[test]
fn a_rule_that_decided_elsewhere_is_counted_and_one_that_has_gone_is_asked_for_anew() {
    let mut table = table(vec![rule("a", |_| ()), rule("b", |_| ())]);
    let flow = tcp("10.1.2.3", 80);

    let said = [Some("b"), None, Some("gone")].map(|name| tell(&table.decide_by(name, &flow)));

    assert_eq!(said, ["b: hfpep", "-: hfpep", "a: hfpep"]);
    let hits: Vec<_> = table.counters().map(|(_, it)| it.hits).collect();
    assert_eq!(hits, [1, 1, 1]);
}

#[test]
fn what_is_disabled_is_refused_and_what_is_blocked_stays_so() {
    let mut config = Config {
        rules: vec![
            Rule {
                action: Action::Block(Refusal::Silent),
                ..rule("dns", |it| it.destination_ports = ports(&["53"]))
            },
            Rule { is_enabled: false, ..rule("web", |it| it.destination_ports = ports(&["80"])) },
        ],
        ..Config::default()
    };
    let said = |config: &Config| {
        let mut table = Table::new(config.clone());
        [53, 80, 22].map(|port| tell(&table.decide(&tcp("10.1.2.3", port), 0)))
    };

    assert_eq!(said(&config), ["dns: Silent Blocked", "web: Reset RuleDisabled", "-: ipclient"]);
    config.is_enabled = false;
    assert_eq!(
        said(&config),
        ["dns: Silent Blocked", "web: Reset TrafficDisabled", "-: Reset TrafficDisabled"]
    );
}

#[test]
fn a_rule_may_select_a_class_of_traffic() {
    let mut table = table(vec![rule("voice", |it| it.dscps = vec![46])]);
    let mut packet = Vec::new();
    Spec::new(ip("10.1.2.3"), ip("10.9.0.1"), protocol::ICMP).emit(8, &mut packet);
    packet.extend([0; 8]);
    packet[1] = 46 << 2;
    rewrite_v4_checksum(&mut packet[..20]);

    let decision = table.handle_packet(&Header::parse(&packet).unwrap(), &packet, None);

    assert_eq!(tell(&decision), "voice: ipclient");
}

#[test]
fn protocols_have_names_and_numbers() {
    for (protocol, name, numbers) in [
        (Protocol::TCP, "tcp", [6, 6]),
        (Protocol::UDP, "udp", [17, 17]),
        (Protocol::Icmp, "icmp", [1, 58]),
        (Protocol::Number(47), "protocol 47", [47, 47]),
    ] {
        assert_eq!(protocol.to_string(), name);
        assert_eq!([true, false].map(|is_v4| protocol.number(is_v4)), numbers);
    }
}

#[test]
fn icmp_is_of_both_versions_and_has_no_ports() {
    let mut table = table(vec![
        rule("ports", |it| it.destination_ports = ports(&["0-65535"])),
        rule("ping", |it| it.protocol = Some("icmp".parse().unwrap())),
    ]);
    let v4 = Flow { protocol: protocol::ICMP, ports: None, ..tcp("10.1.2.3", 0) };
    let (source, destination) = (ip("fd00::1"), ip("fd00::2"));
    let v6 = Flow { protocol: protocol::ICMPV6, source, destination, ..v4 };

    assert_eq!([v4, v6].map(|flow| tell(&table.decide(&flow, 0))), ["ping: ipclient"; 2]);
}

#[test]
fn fragments_share_the_decision_on_the_first() {
    for is_v4 in [true, false] {
        let mut table = table(vec![rule("dns", |it| it.destination_ports = ports(&["53"]))]);
        let pieces = fragments(is_v4, 53);
        let mut decide = |piece: &[u8]| {
            let header = Header::parse(piece).unwrap();
            tell(&table.handle_packet(&header, piece, None))
        };

        let orphan = decide(&pieces[1]);
        let said: Vec<_> = pieces.iter().map(|piece| decide(piece)).collect();

        assert_eq!(orphan, "-: ipclient");
        assert_eq!(said, ["dns: ipclient"; 3]);
        assert_eq!(table.stats().fragments_orphaned, 1);
        assert_eq!(table.counters().next().unwrap().1.hits, 3);
    }
}

#[test]
fn as_many_first_fragments_are_remembered_as_may_be_and_no_more() {
    let pieces = fragments(true, 53);
    let orphans_after = |others: u16| {
        let mut table = table(Vec::new());
        let mut take = |piece: &[u8], ident: u16| {
            let mut piece = piece.to_vec();
            piece[4..6].copy_from_slice(&ident.to_be_bytes());
            rewrite_v4_checksum(&mut piece[..20]);
            table.handle_packet(&Header::parse(&piece).unwrap(), &piece, None);
        };
        for ident in 0..=others {
            take(&pieces[0], ident);
        }
        take(&pieces[1], 0);
        table.stats().fragments_orphaned
    };

    assert_eq!([1, 1_023, 1_024].map(orphans_after), [0, 0, 1]);
}

#[test]
fn a_source_with_many_first_fragments_makes_nobody_elses_forgotten() {
    let pieces = fragments(true, 53);
    let mut table = table(Vec::new());
    let mut take = |piece: &[u8], source: u8, ident: u16| {
        let mut piece = piece.to_vec();
        piece[4..6].copy_from_slice(&ident.to_be_bytes());
        piece[15] = source;
        rewrite_v4_checksum(&mut piece[..20]);
        table.handle_packet(&Header::parse(&piece).unwrap(), &piece, None);
        table.stats().fragments_orphaned
    };

    take(&pieces[0], 1, 7);
    (0..10_000).for_each(|ident| {
        take(&pieces[0], 2, ident);
    });

    assert_eq!([take(&pieces[1], 1, 7), take(&pieces[1], 2, 0)], [0, 1]);
}

#[test]
fn a_fragment_whose_first_was_not_seen_is_blocked_where_a_rule_may_block_its_packet() {
    let dns = |block: bool| {
        let rule = rule("dns", |it| {
            it.protocol = Some(Protocol::UDP);
            it.destination_ports = ports(&["53"]);
        });
        let action = if block { Action::Block(Refusal::Silent) } else { rule.action.clone() };
        Rule { action, ..rule }
    };
    let elsewhere = |rule: Rule| {
        let destinations = networks(&["10.8.0.0/16", "fd08::/16"]);
        Rule { selector: Selector { destinations, ..rule.selector }, ..rule }
    };
    let all = || Rule { action: Action::Block(Refusal::Silent), ..rule("all", |_| ()) };
    let answers = || Rule {
        action: Action::Block(Refusal::Silent),
        ..rule("dns", |it| it.source_ports = ports(&["53"]))
    };
    let (blocked, passed) = ("dns: Silent Blocked", "-: ipclient");
    for (rules, expected) in [
        (vec![dns(true)], [blocked, blocked]),
        (vec![answers()], [blocked, blocked]),
        (vec![Rule { is_enabled: false, ..dns(false) }], ["dns: Reset RuleDisabled"; 2]),
        (vec![elsewhere(dns(true))], [passed, passed]),
        // A rule that would let the packet pass does not match.
        (vec![dns(false), all()], ["all: Silent Blocked"; 2]),
        (vec![dns(false)], [passed, passed]),
        // In IPv6 the protocol is unknown.
        (
            vec![Rule {
                action: Action::Block(Refusal::Silent),
                ..rule("dns", |it| it.protocol = Some(Protocol::Number(47)))
            }],
            [passed, blocked],
        ),
    ] {
        let said = [true, false].map(|is_v4| {
            let piece = &fragments(is_v4, 53)[1];
            let mut table = table(rules.clone());
            tell(&table.handle_packet(&Header::parse(piece).unwrap(), piece, None))
        });
        assert_eq!(said, expected, "{rules:?}");
    }
}

#[test]
fn no_fragment_writes_into_the_headers_that_were_judged() {
    let unreadable = "-: Silent Unreadable";
    let (options, passed) = ([protocol::TCP, 0, 1, 4, 0, 0, 0, 0], "-: ipclient");
    let web = [&[0x13, 0x88, 0, 80][..], &[0; 16]].concat();
    let both = [&options[..], &web, &[0; 12]].concat();
    let udp = [0x13, 0x88, 0, 53, 0, 16, 0, 0];
    for (is_v4, pieces) in [
        // RFC 1858, 3: the rest of TCP's header is in the second fragment.
        (true, vec![(0, 6, &web[..8], unreadable), (1, 6, &web[8..16], unreadable)]),
        // The second has the header's flags once more.
        (
            true,
            vec![(0, 6, &web[..], passed), (1, 6, &web[..8], unreadable), (3, 6, &[0; 8], passed)],
        ),
        // A fragment may begin where the header ends.
        (true, vec![(0, 17, &udp[..], passed), (1, 17, &[0; 8], passed)]),
        // The headers of two packets with one identification.
        (
            false,
            vec![
                (0, 60, &both[..], passed),
                (0, 17, &udp[..], passed),
                (2, 60, &[0; 8], unreadable),
            ],
        ),
        // RFC 7112: the first fragment has extension headers alone, the second the ports that are blocked.
        (
            false,
            vec![(0, 60, &options[..], unreadable), (1, 60, &web[..], "block: Silent Blocked")],
        ),
        (false, vec![(0, 6, &web[..8], unreadable)]),
        // Another octet than 60 in a later fragment does not count; the ports are not changed behind our back.
        (
            false,
            vec![
                (0, 60, &both[..], passed),
                (1, 6, &web[..8], unreadable),
                (5, 59, &[0; 8], passed),
            ],
        ),
    ] {
        let block = Action::Block(Refusal::Silent);
        let mut table = table(vec![Rule {
            action: block,
            ..rule("block", |it| it.destination_ports = ports(&["443"]))
        }]);
        let count = pieces.len() as u64;
        for (place, kind, octets, expected) in pieces {
            let piece = piece(is_v4, place, kind, octets);
            let header = Header::parse(&piece).unwrap();
            let said = tell(&table.handle_packet(&header, &piece, None));
            assert_eq!(said, expected, "IPv4: {is_v4}, place {place}");
        }
        let hits: u64 = table.counters().map(|(_, it)| it.hits).sum();
        let Stats { fragments_overlapping, packets_headless, .. } = table.stats();
        assert_eq!(hits + fragments_overlapping + packets_headless, count);
    }
}

#[test]
fn what_hides_behind_too_many_extension_headers_is_dropped() {
    let behind = |count: usize| {
        let chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count);
        let mut payload = [&chain[..], &[0x13, 0x88, 0, 53, 0, 8, 0, 0]].concat();
        let last = payload.len() - 16;
        payload[last] = protocol::UDP;
        let mut packet = Vec::new();
        Spec::new(ip("fd00::1"), ip("fd00::2"), 60).emit(payload.len(), &mut packet);
        packet.extend(payload);
        let rules = vec![rule("dns", |it| it.destination_ports = ports(&["53"]))];
        let mut table = table(rules);
        tell(&table.handle_packet(&Header::parse(&packet).unwrap(), &packet, None))
    };

    assert_eq!([1, 8, 9, 100].map(behind)[..2], ["dns: ipclient"; 2]);
    assert_eq!([9, 100].map(behind), ["-: Silent Unreadable"; 2]);
}

#[test]
fn rules_that_stay_go_on_counting() {
    let (a, b, c) = (rule("a", |_| ()), rule("b", |_| ()), rule("c", |_| ()));
    let mut table = table(vec![a.clone(), b]);
    table.decide(&tcp("10.1.2.3", 80), 10);

    table.replace(Config { rules: vec![c, a], ..Config::default() });

    let hits: Vec<_> = table.counters().map(|(name, it)| (name, it.hits)).collect();
    assert_eq!(hits, [(Some("c"), 0), (Some("a"), 1), (None, 0)]);
}

#[test]
fn counters_add_up() {
    let mut sum = Counters { hits: 1, octets: 100, blocked: 1 };

    sum += Counters { hits: 2, octets: 30, blocked: 1 };

    assert_eq!(sum, Counters { hits: 3, octets: 130, blocked: 2 });
}

#[test]
fn a_rule_is_found_by_its_name() {
    let rules = vec![rule("a", |_| ()), rule("b", |_| ())];
    let mut config = Config { rules, ..Config::default() };

    config.find_mut("b").expect("it is there").is_enabled = false;

    assert_eq!(config.rules.iter().map(|it| it.is_enabled).collect::<Vec<_>>(), [true, false]);
    assert_eq!(config.find_mut("c"), None);
}

#[test]
fn an_explanation_names_the_first_field_that_does_not_fit() {
    let config = Config {
        rules: vec![
            rule("udp", |it| it.protocol = Some(Protocol::UDP)),
            rule("eth1", |it| it.interfaces = vec!["eth1".to_owned()]),
            rule("voice", |it| it.dscps = vec![46]),
            rule("all", |_| ()),
        ],
        ..Config::default()
    };

    let explanation = config.explain(&Flow { interface: Some("eth0"), ..tcp("10.1.2.3", 80) });

    let over: Vec<_> =
        explanation.passed_over.iter().map(|(rule, field)| (&*rule.name, field.name())).collect();
    assert_eq!(over, [("udp", "protocol"), ("eth1", "interface"), ("voice", "dscp")]);
    assert_eq!(tell(&explanation.decision), "all: ipclient");
}

#[test]
fn a_rule_that_another_covers_is_found() {
    let lan = |name| rule(name, |it| it.sources = networks(&["10.0.0.0/8"]));
    let web = rule("web", |it| {
        it.sources = networks(&["10.1.0.0/16", "10.2.0.0/16"]);
        it.protocol = Some(Protocol::TCP);
        it.destination_ports = ports(&["80"]);
    });
    let config = Config { rules: vec![web.clone(), lan("lan"), web], ..Config::default() };

    assert_eq!(config.shadowed().collect::<Vec<_>>(), [(2, 0)]);
    let part = rule("part", |it| it.sources = networks(&["10.0.0.0/16"]));
    let config = Config { rules: vec![part, lan("lan"), lan("more")], ..Config::default() };
    assert_eq!(config.shadowed().collect::<Vec<_>>(), [(2, 1)]);
}

#[test]
fn what_no_flow_can_fit_is_found() {
    let check = |change: fn(&mut Selector)| rule("x", change).selector.check();

    assert_eq!(check(|_| ()), Ok(()));
    assert_eq!(check(|it| it.sources = networks(&["10.0.0.0/8"])), Ok(()));
    assert_eq!(
        check(|it| {
            it.protocol = Some(Protocol::TCP);
            it.source_ports = ports(&["1"]);
        }),
        Ok(())
    );
    for set in [
        |it: &mut Selector| it.source_ports = ports(&["1"]),
        |it: &mut Selector| it.destination_ports = ports(&["1"]),
    ] {
        let mut selector = Selector { protocol: Some(Protocol::Icmp), ..Selector::default() };
        set(&mut selector);
        assert_eq!(selector.check(), Err(Impossible::NoPorts));
    }
    assert_eq!(
        check(|it| {
            it.sources = networks(&["10.0.0.0/8"]);
            it.destinations = networks(&["::/0"]);
        }),
        Err(Impossible::Versions)
    );
}

/// A selector as written by a user, evaluated in the most obvious way.
#[derive(Clone, Debug)]
struct Model {
    protocol: Option<Protocol>,
    interface: Option<bool>,
    from: Vec<(bool, u8)>,
    to: Vec<(bool, u8)>,
    to_ports: Vec<(u16, u16)>,
    dscps: Vec<u8>,
}

impl Model {
    fn selector(&self) -> Selector {
        let network = |&(is_v4, host): &(bool, u8)| Prefix::new(host_of(is_v4, host), bits(is_v4));
        let networks = |list: &[_]| list.iter().map(|it| network(it).unwrap().network()).collect();
        let range = |&(a, b): &(u16, u16)| format!("{a}-{b}").parse().unwrap();
        Selector {
            protocol: self.protocol,
            interfaces: self.interface.map(name).map(str::to_owned).into_iter().collect(),
            sources: networks(&self.from),
            destinations: networks(&self.to),
            source_ports: Ports::default(),
            destination_ports: Ports::new(self.to_ports.iter().map(range).collect()),
            dscps: self.dscps.clone(),
        }
    }

    fn matches(&self, it: &Flow<'_>) -> bool {
        // Networks of four hosts.
        let is_in = |list: &[(bool, u8)], address: IpAddr| {
            (0..8).any(|host| {
                let own = |&(is_v4, of): &(bool, u8)| {
                    of / 4 == host / 4 && host_of(is_v4, host) == address
                };
                list.iter().any(own)
            })
        };
        let has_protocol = match self.protocol {
            None => true,
            Some(Protocol::Icmp) => it.protocol == 1 || it.protocol == 58,
            Some(Protocol::Number(number)) => it.protocol == number,
        };
        let port = it.ports.map(|(_, port)| port);
        let has_port = port.is_some_and(|port| {
            self.to_ports.iter().any(|(first, last)| (*first..=*last).contains(&port))
        });
        has_protocol
            && self.interface.is_none_or(|own| it.interface == Some(name(own)))
            && (self.from.is_empty() || is_in(&self.from, it.source))
            && (self.to.is_empty() || is_in(&self.to, it.destination))
            && (self.to_ports.is_empty() || has_port)
            && (self.dscps.is_empty() || self.dscps.contains(&it.dscp))
    }
}

fn models() -> impl Strategy<Value = Model> {
    let protocol = prop::sample::select(vec![1, 6, 17, 58]).prop_map(Protocol::Number);
    let protocol = prop_oneof![protocol, Just(Protocol::Icmp)];
    let networks = || prop::collection::vec((any::<bool>(), 0..8_u8), 0..3);
    let range = (0..6_u16, 0..4_u16).prop_map(|(first, more)| (first, first + more));
    (
        prop::option::of(protocol),
        prop::option::of(any::<bool>()),
        networks(),
        networks(),
        prop::collection::vec(range, 0..3),
        prop::collection::vec(0..3_u8, 0..2),
    )
        .prop_map(|(protocol, interface, from, to, to_ports, dscps)| Model {
            protocol,
            interface,
            from,
            to,
            to_ports,
            dscps,
        })
}

fn flows() -> impl Strategy<Value = Flow<'static>> {
    let protocol = prop::sample::select(vec![1, 6, 17, 58]);
    let interface = prop::option::of(any::<bool>().prop_map(name));
    (any::<bool>(), 0..8_u8, 0..8_u8, protocol, any::<bool>(), 0..10_u16, 0..3_u8, interface)
        .prop_map(|(is_v4, from, to, protocol, has_ports, port, dscp, interface)| Flow {
            source: host_of(is_v4, from),
            destination: host_of(is_v4, to),
            protocol,
            ports: (has_ports && matches!(protocol, 6 | 17)).then_some((1_000, port)),
            dscp,
            interface,
        })
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn decisions_are_those_of_the_model(
        models in prop::collection::vec(models(), 0..6),
        flows in prop::collection::vec(flows(), 1..20),
    ) {
        let rules = models.iter().enumerate();
        let rules = rules.map(|(at, it)| rule(&at.to_string(), |own| *own = it.selector()));
        let mut table = table(rules.collect());

        for flow in &flows {
            let expected = models.iter().position(|model| model.matches(flow));
            let expected = expected.map(|at| at.to_string());
            prop_assert_eq!(table.decide(flow, 1).rule.map(|rule| rule.name.clone()), expected);
        }
        let hits: u64 = table.counters().map(|(_, counters)| counters.hits).sum();
        prop_assert_eq!(hits, flows.len() as u64);
    }

    #[test]
    fn what_is_covered_never_decides(a in models(), b in models(), flows in prop::collection::vec(flows(), 50)) {
        if a.selector().covers(&b.selector()) {
            for flow in flows.iter().filter(|flow| b.matches(flow)) {
                prop_assert!(a.matches(flow));
            }
        }
    }

    #[test]
    fn no_octets_make_a_decision_panic(octets in prop::collection::vec(any::<u8>(), 0..120)) {
        if let Ok(header) = Header::parse(&octets) {
            let _ = table(Vec::new()).handle_packet(&header, &octets, None);
        }
    }
}

/// Three fragments of a UDP datagram to `port`.
fn fragments(is_v4: bool, port: u16) -> Vec<Vec<u8>> {
    let payload: Vec<u8> = [1_000, port, 3_000, 0]
        .iter()
        .flat_map(|word: &u16| word.to_be_bytes())
        .chain(std::iter::repeat_n(0, 2_992))
        .collect();
    let mut packet = Vec::new();
    if is_v4 {
        let spec = Spec::new(ip("10.1.2.3"), ip("10.9.0.1"), protocol::UDP);
        Spec { dont_fragment: false, ..spec }.emit(payload.len(), &mut packet);
        packet.extend(payload);
        let mut pieces = Vec::new();
        let header = Header::parse(&packet).unwrap();
        assert!(fragment(&header, &packet, 1_220, |piece| pieces.push(piece.to_vec())));
        return pieces;
    }
    let spec = Spec::new(ip("fd00::1"), ip("fd00::2"), protocol::V6_FRAGMENT);
    let piece = |(at, part): (usize, &[u8])| {
        let mut packet = Vec::new();
        spec.emit(8 + part.len(), &mut packet);
        let place = u16::try_from(at * 1_000).unwrap() | u16::from(at < 2);
        packet.extend([protocol::UDP, 0]);
        packet.extend(place.to_be_bytes());
        packet.extend([0, 0, 0, 7]);
        packet.extend(part);
        packet
    };
    payload.chunks(1_000).enumerate().map(piece).collect()
}

/// A fragment before the last, at an offset in units of 8 octets, with the protocol `kind`.
fn piece(is_v4: bool, place: u16, kind: u8, octets: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    if is_v4 {
        let spec = Spec::new(ip("10.1.2.3"), ip("10.9.0.1"), kind);
        Spec { dont_fragment: false, ident: 7, ..spec }.emit(octets.len(), &mut packet);
        packet[6..8].copy_from_slice(&(place | 0x2000).to_be_bytes());
        rewrite_v4_checksum(&mut packet);
    } else {
        Spec::new(ip("fd00::1"), ip("fd00::2"), protocol::V6_FRAGMENT)
            .emit(8 + octets.len(), &mut packet);
        packet.extend([kind, 0]);
        packet.extend(((place * 8) | 1).to_be_bytes());
        packet.extend([0, 0, 0, 7]);
    }
    packet.extend(octets);
    packet
}

fn table(rules: Vec<Rule>) -> Table {
    Table::new(Config { rules, ..Config::default() })
}

fn rule(name: &str, change: impl FnOnce(&mut Selector)) -> Rule {
    let mut selector = Selector::default();
    change(&mut selector);
    let action = Action::Pass(Options::default());
    Rule { name: name.to_owned(), selector, action, is_enabled: true }
}

fn tcp(source: &str, port: u16) -> Flow<'static> {
    Flow {
        source: ip(source),
        destination: ip("10.9.0.1"),
        protocol: protocol::TCP,
        ports: Some((5_000, port)),
        dscp: 0,
        interface: None,
    }
}

fn tell(decision: &Decision<'_>) -> String {
    let rule = decision.rule.map_or("-", |rule| &rule.name);
    match decision.verdict {
        Verdict::Block { refusal, cause } => format!("{rule}: {refusal:?} {cause:?}"),
        Verdict::Pass { service, .. } => format!("{rule}: {}", service.name()),
    }
}

fn ports(ranges: &[&str]) -> Ports {
    Ports::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

fn networks(list: &[&str]) -> Vec<Prefix> {
    list.iter().map(|network| network.parse().unwrap()).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn host_of(is_v4: bool, host: u8) -> IpAddr {
    if is_v4 {
        IpAddr::from([10, 0, 0, host])
    } else {
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)])
    }
}

fn bits(is_v4: bool) -> u8 {
    if is_v4 { 30 } else { 126 }
}

fn name(is_first: bool) -> &'static str {
    if is_first { "eth0" } else { "eth1" }
}
