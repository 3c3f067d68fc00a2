//! Reads IPsec policies from `ip -s xfrm policy` (ip-xfrm(8)): they may drop packets that all firewalls accept.

use base::ip::Prefix;
use host::settings::Settings;

use super::tool::ask;
use super::{Base, Chain, ChainName, Firewalls, Hook, Match, Rule, Test, Verdict, range};
use super::{LOOPBACK, protocol_named};

/// The program's name in a [`ChainName`].
pub const PROGRAM: &str = "ip xfrm";
/// The directions of policies, each with the hook, and the priority that puts it before or after all chains there.
const DIRECTIONS: [(&str, Hook, i64); 3] = [
    ("in", Hook::Input, i64::MAX),
    ("fwd", Hook::Forward, i64::MIN),
    // Part of routing, so it holds for sent and for forwarded packets.
    ("out", Hook::Postrouting, i64::MAX),
];

/// Adds the policies. A host without `ip` can hardly have any.
pub fn read(to: &mut Firewalls) {
    let said = |words: &[&str]| {
        let answer = ask("ip", words, "").and_then(|answer| answer.success());
        answer.map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
    };
    let policies = said(&["-s", "xfrm", "policy"]);
    let defaults = said(&["xfrm", "policy", "getdefault"]);
    let spared = |key: &str| {
        let of = |name: &String| Settings::read(name, key).is_some_and(|it| it == "1");
        Settings::interfaces().into_iter().filter(of).collect::<Vec<_>>()
    };
    if has_any(&policies, &defaults) {
        let spared = [spared("disable_policy"), spared("disable_xfrm")];
        add(to, &policies, &defaults, &spared);
    }
}

/// Whether there are policies; policies of single sockets do not count.
fn has_any(policies: &str, defaults: &str) -> bool {
    policies.contains("\tdir ") || defaults.contains("block")
}

/// Adds policies. `spared` are the interfaces exempt from inbound policies, then those exempt from outbound ones.
fn add(to: &mut Firewalls, policies: &str, defaults: &str, spared: &[Vec<String>; 2]) {
    let mut all: Vec<(u64, &str, Rule)> = policies.split("\nsrc ").filter_map(policy).collect();
    // Among equal priorities the oldest policy decides.
    all.sort_by_key(|(priority, _, rule)| (*priority, rule.place));
    for (direction, hook, priority) in DIRECTIONS {
        let drops = defaults.lines().any(|line| {
            let (its, action) = line.split_once(':').unwrap_or_default();
            its.trim() == direction && action.trim() == "block"
        });
        let mut passes = match hook {
            Hook::Postrouting => {
                let names = spared[1].iter().cloned().chain([LOOPBACK.to_owned()]);
                vec![Match::LeavesBy(names.collect())]
            }
            _ => vec![Match::CameBy(spared[0].clone())],
        };
        let passing = |of| Rule {
            tests: vec![Test::new(of)],
            verdict: Some(Verdict::Accept),
            ..Rule::default()
        };
        let mut rules: Vec<_> = passes.drain(..).map(passing).collect();
        let its = all.iter().filter(|(_, its, _)| *its == direction);
        rules.extend(its.map(|(_, _, rule)| rule.clone()));
        if rules.len() > 1 || drops {
            let base = Some(Base { hook, priority, drops });
            let chain = Chain { base, versions: [true, true], devices: Vec::new(), rules };
            to.chains.insert(name(direction), chain);
        }
    }
}

fn name(direction: &str) -> ChainName {
    ChainName { program: PROGRAM, table: "policy".to_owned(), chain: direction.to_owned() }
}

/// Parses a policy from its selector on; returns the priority, the direction and the rule.
fn policy(text: &str) -> Option<(u64, &str, Rule)> {
    let (selector, rest) = text.split_once('\n')?;
    let (decides, more) = rest.split_once('\n').unwrap_or((rest, ""));
    let value = |of: &'static str, line: &str| {
        let mut words = line.split_whitespace().skip_while(move |word| *word != of).skip(1);
        words.next().map(str::to_owned)
    };
    let number = |of| value(of, decides).and_then(|it| it.parse().ok());
    let mut words = decides.split_whitespace();
    let direction = words.by_ref().skip_while(|word| *word != "dir").nth(1)?;
    let mut rule = Rule { place: number("index")?, ..Rule::default() };
    rule.tests = tests(selector.trim_start_matches("src "));
    for line in more.lines().filter(|line| line.starts_with('\t')).map(str::trim) {
        if let Some((mark, mask)) = line.strip_prefix("mark ").and_then(|it| it.split_once('/')) {
            let of = |text: &str| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16);
            rule.tests.push(Test::new(match (of(mark), of(mask)) {
                (Ok(mark), Ok(u32::MAX)) => Match::Marks(vec![mark]),
                _ => Match::Unknown,
            }));
        } else if line.starts_with("if_id ") {
            // Such a policy is only for IPsec's own interfaces.
            return None;
        }
    }
    let is_plain = !more.contains("\ttmpl ");
    rule.verdict = Some(match value("action", decides).as_deref() {
        Some("block") => Verdict::Drop,
        _ if is_plain => Verdict::Accept,
        // An outbound packet is encrypted if there is a key; an inbound packet passes only if it was encrypted.
        _ => Verdict::Any,
    });
    Some((number("priority").unwrap_or(0), direction, rule))
}

/// Parses a selector: `SOURCE dst DESTINATION proto udp sport 1 dport 2 dev eth1 uid 0`.
fn tests(selector: &str) -> Vec<Test> {
    let mut words = selector.split_whitespace();
    let mut tests = Vec::new();
    let mut key = "src";
    while let Some(value) = words.next() {
        let network = value.parse::<Prefix>().ok();
        let port = || value.parse::<u16>().ok().map(|port| vec![(port, port)]);
        let asked = match key {
            "src" | "dst" => network.map(|network| {
                let of = vec![range(network)];
                match key {
                    _ if network.bits() == 0 => Match::Version(network.address().is_ipv4()),
                    "src" => Match::From(of),
                    _ => Match::To(of),
                }
            }),
            "proto" => protocol_named(value).map(|of| Match::Protocols(vec![of])),
            "sport" => port().map(Match::FromPort),
            "dport" => port().map(Match::ToPort),
            "uid" => {
                key = words.next().unwrap_or_default();
                continue;
            }
            _ => None,
        };
        tests.push(Test::new(asked.unwrap_or(Match::Unknown)));
        key = words.next().unwrap_or_default();
    }
    tests
}

#[cfg(test)]
mod tests_of_policies {
    use super::super::tests::from_to;
    use super::super::{Fate, Packet};
    use super::*;

    /// Output of iproute2 6.1, without lifetimes.
    const SAID: &str = "src 10.5.0.0/16 dst 10.6.0.0/16 uid 0\n\tdir fwd action allow index 10 priority 0 ptype main\n\
        \ttmpl src 1.1.1.1 dst 2.2.2.2\n\t\tproto esp spi 0x00000000(0) reqid 0(0x00000000) mode tunnel\n\
        src 10.9.0.1/32 dst 10.9.0.2/32 proto tcp dport 443 uid 0\n\tdir out action block index 1 priority 5 ptype main\n\
        src 10.9.0.1/32 dst 10.9.0.3/32 uid 0\n\tdir out action allow index 17 priority 5 ptype main\n\
        src 10.9.0.0/24 dst 10.9.0.0/24 uid 0\n\tdir out action block index 9 priority 7 ptype main\n\
        src 10.9.0.0/24 dst 10.9.0.0/24 uid 0\n\tdir out action block index 25 priority 1 ptype main\n\tmark 0x7/0xff\n\tif_id 0x9\n\
        src ::/0 dst ::/0 uid 0\n\tsocket in action allow index 3 priority 0 ptype main\n";

    fn fate(defaults: &str, packet: &Packet, hook: Hook) -> String {
        let mut all = Firewalls::default();
        add(&mut all, SAID, defaults, &[Vec::new(), vec!["eth7".to_owned()]]);
        match all.judge(packet, hook) {
            Fate::Passes => "passes".to_owned(),
            Fate::Dropped(by) => format!("{by}: {}", by.remedy("", "")),
            Fate::MayBeDropped(by) => format!("perhaps {by}"),
        }
    }

    #[test]
    fn policies_decide_in_the_order_of_their_priorities() {
        let by =
            |name: &str, to| Packet { leaves_by: Some(name.to_owned()), ..from_to("10.9.0.1", to) };
        let leaving = |to| fate("", &by("eth1", to), Hook::Postrouting);

        assert_eq!(leaving("10.9.0.4"), "policy 9 of IPsec: ip xfrm policy delete index 9 dir out");
        assert!(leaving("10.9.0.2").starts_with("policy 1 of IPsec"), "{}", leaving("10.9.0.2"));
        assert_eq!(leaving("10.9.0.3"), "passes");
        assert_eq!(leaving("10.9.1.3"), "passes");
        for spared in ["lo", "eth7"] {
            assert_eq!(fate("", &by(spared, "10.9.0.2"), Hook::Postrouting), "passes");
        }
        let forwarded =
            Packet { came_by: Some("eth1".to_owned()), ..from_to("10.5.0.1", "10.6.0.1") };
        let forwarded = fate("", &forwarded, Hook::Forward);
        assert_eq!(forwarded, "perhaps policy 10 of IPsec");
    }

    #[test]
    fn a_default_policy_decides_where_no_other_does() {
        let defaults = "Default policies:\n in:  accept\n fwd: block\n out: accept\n";
        let packet = Packet {
            came_by: Some("eth1".to_owned()),
            leaves_by: Some("eth2".to_owned()),
            ..from_to("10.8.0.1", "10.8.0.2")
        };

        assert_eq!(
            fate(defaults, &packet, Hook::Forward),
            "the default policy of IPsec: ip xfrm policy setdefault fwd accept"
        );
        assert_eq!(fate(defaults, &packet, Hook::Input), "passes");
        assert_eq!(fate(defaults, &packet, Hook::Postrouting), "passes");
    }

    #[test]
    fn policies_of_sockets_alone_are_none() {
        assert!(has_any(SAID, ""));
        assert!(!has_any(
            "src ::/0 dst ::/0 uid 0\n\tsocket in action allow index 3\n",
            " in: accept"
        ));
        assert!(has_any("", " in: block"));
    }
}
