//! Reads the rules, `[[rule]]`: which service carries which flows, and how. The first matching rule decides.

use ::rules::{
    Action, NAME, Options, PARAMETERS, PortRange, Ports, Protocol, Refusal, Rule, Selector,
    Service, is_name,
};
use base::parameter::Written;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section};

use super::{Config, MAX_VALUES, device, device_schema, ipclient, tls, values};

/// The rules of a gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// As their core takes them.
    pub table: ::rules::Config,
}

const MAX_RULES: usize = 256;
/// The name shown for flows without a matching rule.
pub(crate) const NO_RULE: &str = "default";

/// Reads all rules, and those that are allowed and probably not as they were meant; `config` holds the services that
/// they may name.
pub(super) fn read(
    root: &Section<'_>,
    config: &Config,
) -> Result<(Rules, Vec<Complaint>), Complaint> {
    let mut warnings = Vec::new();
    let sections = root.sections("rule")?;
    let mut rules = Rules::default();
    let peers = config.hf_pep.iter().flat_map(|it| &it.peers);
    rules.table.split = peers.map(|peer| peer.to).collect();
    rules.table.split_from = config.hf_pep.iter().flat_map(|it| it.interfaces.clone()).collect();
    for section in &sections {
        if rules.table.rules.len() == MAX_RULES {
            return Err(section.complain(format!("more than {MAX_RULES} rules")));
        }
        let rule = rule(section, config)?;
        if rules.table.find_mut(&rule.name).is_some() {
            return Err(section.needed("name")?.complain(format!("{} is there twice", rule.name)));
        }
        rules.table.rules.push(rule);
    }
    for (at, before) in rules.table.shadowed() {
        let [own, before] = [at, before].map(|at| &rules.table.rules[at].name);
        let what = format!("{own} never decides: {before} before it has all its traffic");
        warnings.push(sections[at].needed("name")?.complain(what));
    }
    if let Some(first) = sections.first()
        && config.ip_client.is_none()
        && config.hf_pep.is_none()
    {
        let what = "nothing follows the rules: they are for traffic of [ipclient] and [hfpep]";
        warnings.push(first.needed("name")?.complain(what));
    }
    Ok((rules, warnings))
}

fn rule(section: &Section<'_>, config: &Config) -> Result<Rule, Complaint> {
    let entry = section.needed("name")?;
    let name = entry.text()?.to_owned();
    if !is_name(&name) || name == NO_RULE {
        let what = format!("{name:?} is not allowed: {NAME}, and not {NO_RULE:?}");
        return Err(entry.complain(what));
    }
    let selector = selector(section)?;
    let action = match section.get("block")? {
        Some(refusal) => block(section, &refusal)?,
        None => Action::Pass(pass(section, config)?),
    };
    let is_enabled = section.get("enabled")?.map_or(Ok(true), |entry| entry.flag())?;
    Ok(Rule { name, selector, action, is_enabled })
}

fn selector(section: &Section<'_>) -> Result<Selector, Complaint> {
    let selector = Selector {
        protocol: section.get("protocol")?.map(|entry| protocol(&entry)).transpose()?,
        interfaces: values(section, "interface", device)?,
        sources: values(section, "from", ipclient::network)?,
        destinations: values(section, "to", ipclient::network)?,
        source_ports: ports(section, "from-port")?,
        destination_ports: ports(section, "to-port")?,
        dscps: values(section, "dscp", |entry| entry.count(0..=63))?,
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

pub(super) fn ports(section: &Section<'_>, key: &str) -> Result<Ports, Complaint> {
    let range = |entry: &Entry<'_>| match entry.written() {
        Written::Integer(_) => Ok(PortRange::one(entry.count(0..=65_535)?)),
        _ => entry.parsed(),
    };
    Ok(Ports::new(values(section, key, range)?))
}

fn block(section: &Section<'_>, refusal: &Entry<'_>) -> Result<Action, Complaint> {
    for parameter in PARAMETERS.parameters {
        if let Some(entry) = section.get(parameter.name)? {
            return Err(entry.complain_of_key("it is for rules without block"));
        }
    }
    Ok(Action::Block(refusal.word(&Refusal::NAMES)?))
}

fn pass(section: &Section<'_>, config: &Config) -> Result<Options, Complaint> {
    let mut options = Options::default();
    section.apply(&PARAMETERS, &mut options)?;
    let is_there = match options.service {
        None => true,
        Some(Service::HfPep) => config.hf_pep.is_some(),
        Some(Service::IpClient) => config.ip_client.is_some(),
    };
    if !is_there && let (Some(service), Some(entry)) = (options.service, section.get("service")?) {
        let what = format!("there is no section [{}] for this rule", service.name());
        return Err(entry.complain(what));
    }
    if let Some(entry) = section.get("tls")? {
        tls::name(&entry, &config.tls, "server")?;
    }
    Ok(options)
}

/// Describes the ports of a rule for editors.
pub(super) fn ports_schema() -> serde_json::Value {
    let one = schema::any([schema::count(0, 65_535), schema::like("^[0-9]+(-[0-9]+)?$")]);
    schema::one_or_more(one, MAX_VALUES)
}

/// Describes the sections for editors: a rule blocks or passes.
pub(super) fn schema() -> serde_json::Value {
    let networks = || schema::one_or_more(schema::prefix(), MAX_VALUES);
    let selector = || {
        Shape::new()
            .needed("name", "What the rule is called.", schema::text())
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules.toml");

        let config = Config::read(path.as_ref()).unwrap();

        assert_eq!((config.rules.table.rules.len(), config.warnings()), (5, &[][..]));
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (lines, expected) in [
            ("", "4: rule: name is missing"),
            ("name = \"a b\"", "5: rule.name: \"a b\" is not allowed: 1 to 32 letters"),
            ("name = \"default\"", "5: rule.name: \"default\" is not allowed: 1 to 32 letters"),
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
                "name = \"a\"\ntls = \"x\"\n[[tls]]\nname = \"x\"\nrole = \"client\"\n\
                 trust-anchors = \"ca.crt\"",
                "6: rule.tls: the role of \"x\" is \"client\": one with \"server\" is needed",
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
            assert!(said.starts_with(&format!("a.toml:{expected}")), "{said}\nnot\n{expected}");
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
