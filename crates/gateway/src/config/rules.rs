//! Reads the rules, `[[rule]]`: the service and the options for each flow. The first matching rule decides.

use ::rules::{
    Action, Options, PARAMETERS, PortRange, Ports, Protocol, Refusal, Rule, Selector, Service,
};
use base::name;
use base::parameter::Written;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::{HfPep, MAX_VALUES, device, device_schema, either, ipclient, tls, values};
use crate::tls::Profile;

/// The rules of a gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// As their core takes them.
    pub table: ::rules::Config,
}

const MAX_RULES: usize = 256;
/// The name shown for flows without a matching rule.
pub(crate) const NO_RULE: &str = "default";

/// Reads all rules, with warnings about allowed rules that are probably a mistake. Rules may refer to `profiles` and
/// `hf_pep`, as far as these could be read.
pub fn read(
    root: &Section<'_>,
    profiles: Option<&[Profile]>,
    hf_pep: Option<&HfPep>,
) -> Result<(Rules, Vec<Complaint>), Complaint> {
    let mut warnings = Vec::new();
    let sections = root.sections("rule")?;
    let services = [root.get("hfpep")?.is_some(), root.get("ipclient")?.is_some()];
    let mut rules = Rules::default();
    rules.table.split = hf_pep.iter().flat_map(|it| &it.peers).map(|peer| peer.to).collect();
    rules.table.split_from = hf_pep.iter().flat_map(|it| it.interfaces.clone()).collect();
    if let Some(first) = sections.get(MAX_RULES) {
        return Err(first.complain(format!("more than {MAX_RULES} rules")));
    }
    each(&sections, |section| {
        let rule = rule(section, services, profiles)?;
        if rules.table.find_mut(&rule.name).is_some() {
            return Err(section.needed("name")?.complain(format!("{} is there twice", rule.name)));
        }
        rules.table.rules.push(rule);
        Ok(())
    })?;
    for (at, before) in rules.table.shadowed() {
        let [own, before] = [at, before].map(|at| &rules.table.rules[at].name);
        let what = format!("{own} never decides: {before} before it has all its traffic");
        warnings.push(sections[at].needed("name")?.remark(what));
    }
    if let Some(first) = sections.first()
        && services == [false; 2]
    {
        let what = "nothing follows the rules: they are for traffic of [ipclient] and [hfpep]";
        warnings.push(first.needed("name")?.remark(what));
    }
    Ok((rules, warnings))
}

/// Reads a rule; `services` says whether there are sections of HF-PEP and of the IP client.
fn rule(
    section: &Section<'_>,
    services: [bool; 2],
    profiles: Option<&[Profile]>,
) -> Result<Rule, Complaint> {
    let name = section.needed("name").and_then(|entry| {
        let name = entry.text()?.to_owned();
        name::check(&name).map_err(|what| entry.complain(what))?;
        if name == NO_RULE {
            let what = format!("{name:?} is not allowed: it stands for what no rule matches");
            return Err(entry.complain(what));
        }
        Ok(name)
    });
    let selector = selector(section);
    let action = section.get("block").and_then(|refusal| match refusal {
        Some(refusal) => block(section, &refusal),
        None => pass(section, services, profiles).map(Action::Pass),
    });
    let is_enabled = either(section, "enabled", true, |entry| entry.flag());
    Ok(Rule { name: name?, selector: selector?, action: action?, is_enabled: is_enabled? })
}

fn selector(section: &Section<'_>) -> Result<Selector, Complaint> {
    let protocol = either(section, "protocol", None, |it| protocol(it).map(Some));
    let interfaces = values(section, "interface", device);
    let [sources, destinations] = ["from", "to"].map(|key| values(section, key, ipclient::network));
    let [source_ports, destination_ports] = ["from-port", "to-port"].map(|key| ports(section, key));
    let dscps = values(section, "dscp", |entry| entry.count(0..=63));
    let selector = Selector {
        protocol: protocol?,
        interfaces: interfaces?,
        sources: sources?,
        destinations: destinations?,
        source_ports: source_ports?,
        destination_ports: destination_ports?,
        dscps: dscps?,
    };
    match selector.check() {
        Ok(()) => Ok(selector),
        Err(why) => Err(section.needed("name")?.complain(format!("it matches nothing: {why}"))),
    }
}

fn protocol(entry: &Entry<'_>) -> Result<Protocol, Complaint> {
    match entry.written() {
        Written::Integer(_) => Ok(Protocol::Number(entry.count(0..=255)?)),
        _ => entry.parsed(),
    }
}

pub fn ports(section: &Section<'_>, key: &str) -> Result<Ports, Complaint> {
    let range = |entry: &Entry<'_>| match entry.written() {
        Written::Integer(_) => Ok(PortRange::one(entry.count(0..=65_535)?)),
        _ => entry.parsed(),
    };
    Ok(Ports::new(values(section, key, range)?))
}

fn block(section: &Section<'_>, refusal: &Entry<'_>) -> Result<Action, Complaint> {
    let others = each(PARAMETERS.parameters, |parameter| match section.get(parameter.name)? {
        Some(entry) => Err(entry.complain_of_key("it is for rules without block")),
        None => Ok(()),
    });
    let refusal = refusal.word(&Refusal::NAMES)?;
    others.map(|_| Action::Block(refusal))
}

fn pass(
    section: &Section<'_>,
    [has_pep, has_client]: [bool; 2],
    profiles: Option<&[Profile]>,
) -> Result<Options, Complaint> {
    let mut options = Options::default();
    let applied = section.apply(&PARAMETERS, &mut options);
    let is_there = match options.service {
        None => true,
        Some(Service::HfPep) => has_pep,
        Some(Service::IpClient) => has_client,
    };
    let service = match (options.service, section.get("service")?) {
        (Some(service), Some(entry)) if !is_there => {
            let what = format!("there is no section [{}] for this rule", service.name());
            Err(entry.complain(what))
        }
        _ => Ok(()),
    };
    if let (Some(entry), Some(profiles)) = (section.get("tls")?, profiles) {
        tls::name(&entry, profiles, "server")?;
    }
    applied.and(service)?;
    Ok(options)
}

/// Describes the ports of a rule for editors.
pub fn ports_schema() -> serde_json::Value {
    let one = schema::any([schema::count(0, 65_535), schema::like("^[0-9]+(-[0-9]+)?$")]);
    schema::one_or_more(one, MAX_VALUES)
}

/// Describes the sections for editors: a rule blocks or passes.
pub fn schema() -> serde_json::Value {
    let networks = || schema::one_or_more(schema::prefix(), MAX_VALUES);
    let selector = || {
        Shape::new()
            .needed("name", "What the rule is called.", schema::like(name::PATTERN))
            .key(
                "protocol",
                "tcp, udp, icmp or a number.",
                schema::any([schema::count(0, 255), schema::like("^(tcp|udp|icmp|[+]?[0-9]+)$")]),
            )
            .key(
                "interface",
                "Where flows come in.",
                schema::one_or_more(device_schema(), MAX_VALUES),
            )
            .key("from", "Networks of sources.", networks())
            .key("to", "Networks of destinations.", networks())
            .key("from-port", "Ports of sources.", ports_schema())
            .key("to-port", "Ports of destinations.", ports_schema())
            .key("dscp", "Code points.", schema::one_or_more(schema::count(0, 63), MAX_VALUES))
            .key("enabled", "Whether it decides anything.", schema::flag())
    };
    let block =
        selector().needed("block", "How flows are refused.", schema::words(&Refusal::NAMES));
    let pass = selector().parameters(&PARAMETERS.describe(&[("rule", Options::default())]));
    schema::list(schema::any([pass.table(), block.table()]), 0, MAX_RULES)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::rules::Handshake;
    use base::ip::Prefix;

    use super::super::Config;
    use super::*;

    const CLIENT: &str = "[ipclient]\naddresses = [\"10.66.0.1/24\"]\n\
                          route = [{ node = \"0.0.0.2\", to = [\"10.2.0.0/16\"] }]\n";

    #[test]
    fn everything_can_be_set() {
        let rules = read(
            r#"
            [[rule]]
            name = "voice"
            protocol = "udp"
            interface = "eth0"
            from = ["10.1.0.0/16", "fd00::/16"]
            to = "10.2.0.0/16"
            from-port = 5004
            to-port = ["5000-5099", 6000]
            dscp = [46]
            service = "ipclient"
            compression = false
            priority = 13
            ttl = "10s"
            handshake = "local"
            confirm-close = true
            enabled = false
            [[rule]]
            name = "rest"
            protocol = 47
            block = "icmp"
            "#,
        );

        let [voice, rest] = &rules.table.rules[..] else { panic!("{rules:?}") };
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        assert_eq!(
            voice.selector,
            Selector {
                protocol: Some(Protocol::UDP),
                interfaces: vec!["eth0".to_owned()],
                sources: vec![prefix("10.1.0.0/16"), prefix("fd00::/16")],
                destinations: vec![prefix("10.2.0.0/16")],
                source_ports: Ports::new(vec![PortRange::one(5004)]),
                destination_ports: Ports::new(vec![
                    "5000-5099".parse().unwrap(),
                    PortRange::one(6000)
                ]),
                dscps: vec![46],
            }
        );
        let options = Options {
            service: Some(Service::IpClient),
            compression: Some(false),
            priority: Some(13),
            ttl: Some(Duration::from_secs(10)),
            tls: None,
            handshake: Some(Handshake::Local),
            confirm_close: Some(true),
        };
        assert_eq!((&voice.action, voice.is_enabled), (&Action::Pass(options), false));
        assert_eq!(rest.selector.protocol, Some(Protocol::Number(47)));
        assert_eq!((&rest.action, rest.is_enabled), (&Action::Block(Refusal::Prohibited), true));
    }

    #[test]
    fn the_example_is_valid_and_every_rule_decides_on_something() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hf/rules.toml");

        let config = Config::read(path.as_ref()).unwrap();

        assert_eq!((config.rules.table.rules.len(), config.warnings()), (5, &[][..]));
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (lines, expected) in [
            ("", "4: rule: name is missing"),
            ("name = \"a b\"", "5: rule.name: \"a b\" is not allowed: 1 to 32 letters"),
            ("name = \"default\"", "5: rule.name: \"default\" is not allowed: it stands for"),
            ("name = \"a\"\n[[rule]]\nname = \"a\"", "7: rule.name: a is there twice"),
            (
                "name = \"a\"\nprotocol = \"tpc\"",
                "6: rule.protocol: \"tpc\" is not allowed: \"tcp\", \"udp\", \"icmp\", or",
            ),
            ("name = \"a\"\nprotocol = 256", "6: rule.protocol: 256 is not allowed: 0 to 255"),
            (
                "name = \"a\"\nto-port = \"9-1\"",
                "6: rule.to-port: \"9-1\" is not allowed: a port, 0 to 65535, or a range",
            ),
            ("name = \"a\"\nto-port = []", "6: rule.to-port: 0 of them: 1 to 64 are allowed"),
            ("name = \"a\"\ndscp = 64", "6: rule.dscp: 64 is not allowed: 0 to 63"),
            (
                "name = \"a\"\nfrom = \"10.1.2.3/16\"",
                "6: rule.from: 10.1.2.3/16 has host bits: 10.1.0.0/16 is meant",
            ),
            (
                "name = \"a\"\nfrom = \"10.0.0.0/8\"\nto = \"fd00::/8\"",
                "5: rule.name: it matches nothing: no packet has IPv4 on one side",
            ),
            (
                "name = \"a\"\nprotocol = \"icmp\"\nto-port = 1",
                "5: rule.name: it matches nothing: only tcp and udp have ports",
            ),
            (
                "name = \"a\"\nblock = \"drop\"",
                "6: rule.block: \"drop\" is not allowed: \"silent\"",
            ),
            (
                "name = \"a\"\nblock = \"silent\"\npriority = 3",
                "7: rule.priority: it is for rules without block",
            ),
            ("name = \"a\"\npriority = 16", "6: rule.priority: 16 is not allowed: 0 to 15"),
            ("name = \"a\"\nservice = \"hfpep\"", "6: rule.service: there is no section [hfpep]"),
            (
                "name = \"a\"\nservice = \"web\"",
                "6: rule.service: \"web\" is not allowed: \"auto\"",
            ),
            (
                "name = \"a\"\nservice = \"ipclient\"\ntls = \"office\"",
                "7: rule.tls: tls = \"office\", service = \"ipclient\" are not allowed together",
            ),
            (
                "name = \"a\"\ntls = \"office\"",
                "6: rule.tls: there is no [[tls]] with the name \"office\"",
            ),
            (
                "name = \"a_1.b\"\ntls = \"x_1.b\"\n[[tls]]\nname = \"x_1.b\"\nrole = \"client\"\n\
                 trust-anchors = \"ca.crt\"",
                "6: rule.tls: the role of \"x_1.b\" is \"client\": one with \"server\" is needed",
            ),
            (
                "name = \"a\"\nhandshake = \"late\"",
                "6: rule.handshake: \"late\" is not allowed: \"local\" or \"end-to-end\"",
            ),
            (
                "name = \"a\"\ntls = \"x\"\nhandshake = \"end-to-end\"",
                "7: rule.handshake: handshake = \"end-to-end\", tls = \"x\" are not allowed together",
            ),
            ("name = \"a\"\nenabled = 1", "6: rule.enabled: 1 is not allowed: true or false"),
            ("name = \"a\"\nto_port = 1", "6: rule.to_port: is called to-port"),
        ] {
            let text = format!("{CLIENT}[[rule]]\n{lines}\n");
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }

    #[test]
    fn rules_without_effect_are_warned_of() {
        let text = "[[rule]]\nname = \"all\"\n[[rule]]\nname = \"web\"\nto-port = 80\n";

        let shadowed = Config::parse("a.toml", &format!("{CLIENT}{text}")).unwrap();
        let shadowed = shadowed.warnings();
        let unused = Config::parse("a.toml", &format!("hbh.interfaces = [\"a\"]\n{text}")).unwrap();

        let expected = "a.toml:7: rule.name: web never decides: all before it has all its traffic";
        assert_eq!(shadowed[0].to_string(), expected);
        assert_eq!(shadowed.len(), 1);
        assert!(
            unused.warnings()[1].to_string().starts_with("a.toml:3: rule.name: nothing follows")
        );
    }

    fn read(text: &str) -> Rules {
        Config::parse("a.toml", &format!("{CLIENT}{text}")).unwrap().rules
    }
}
