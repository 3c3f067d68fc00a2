//! Recognizes the kind of a file, to explain a mix-up of files.

use toml::de::{DeTable, DeValue};

use crate::{Complaint, Source, secret};

/// The kind of a file for this program or a similar program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The configuration of a gateway.
    Gateway,
    /// The options of `trackway hf`.
    HfOptions,
    /// A JSON object.
    Json,
    /// A key, whose octets are never repeated.
    Key,
    /// Rules of nftables.
    Nftables,
    /// A certificate or a key with its label.
    Pem,
    /// A scenario of the simulator.
    Scenario,
    /// An interface of WireGuard.
    WireGuard,
}

/// Tables that only the configuration of a gateway has.
const OF_GATEWAY: [&str; 6] = ["hbh", "ipclient", "hfpep", "s5066", "sar", "gre"];
/// Lists of tables that only a scenario has.
const OF_SCENARIO: [&str; 8] = ["node", "link", "radio", "net", "tcp", "udp", "hf", "motion"];
/// Options of `trackway hf`, which stand in no table.
const OF_HF: [&str; 7] = ["speed", "snr", "ber", "fading", "interleaver", "address-a", "sis-a"];

impl Kind {
    /// The probable kind of a file.
    #[must_use]
    pub fn of(source: &Source) -> Option<Self> {
        let text = source.text().trim_start_matches('\u{feff}').trim();
        let has_line = |line: &str| text.lines().any(|it| it.trim().eq_ignore_ascii_case(line));
        if text.starts_with("-----BEGIN ") {
            return Some(Self::Pem);
        }
        if secret::is_key(text) {
            return Some(Self::Key);
        }
        if text.starts_with('{') {
            return Some(Self::Json);
        }
        if has_line("[Interface]") && text.contains("PrivateKey") {
            return Some(Self::WireGuard);
        }
        let is_nft = |line: &str| {
            ["table inet ", "table ip ", "table ip6 ", "table netdev "]
                .iter()
                .any(|it| line.starts_with(it))
                && line.ends_with('{')
        };
        if text.lines().any(|line| is_nft(line.trim())) {
            return Some(Self::Nftables);
        }
        let (root, _) = DeTable::parse_recoverable(text);
        let root = root.get_ref();
        let is_table =
            |key: &&str| matches!(root.get(*key).map(|it| it.get_ref()), Some(DeValue::Table(_)));
        let is_list = |key: &&str| {
            matches!(root.get(*key).map(|it| it.get_ref()),
                     Some(DeValue::Array(all)) if all.iter().any(|it| matches!(it.get_ref(), DeValue::Table(_))))
        };
        let is_gateway = OF_GATEWAY.iter().any(|key| is_table(key) || is_list(key))
            || is_table(&"tunnel")
            || is_table(&"routing") && !OF_SCENARIO.iter().any(is_list);
        // A gateway has no `nodes`; `[hbh]` may stand in a scenario, too.
        let has_nodes = root.contains_key("nodes");
        let is_scenario = has_nodes || OF_SCENARIO.iter().any(is_list);
        let has_options = OF_HF.iter().any(|key| root.contains_key(*key));
        match (is_gateway && !has_nodes, is_scenario, has_options) {
            (true, false, _) => Some(Self::Gateway),
            (false, true, _) => Some(Self::Scenario),
            (false, false, true) => Some(Self::HfOptions),
            _ => None,
        }
    }

    /// A complaint about a file of this kind in place of another kind.
    #[must_use]
    pub fn complain(self, source: &Source) -> Complaint {
        let file = source.name();
        source.about(match self {
            Self::Gateway => format!(
                "this is the configuration of a gateway: `trackway check {file}` checks it, `trackway run {file}` \
                 starts it"
            ),
            Self::HfOptions => {
                format!("these are options of `trackway hf`: `trackway hf --config {file}` takes them")
            }
            Self::Json => "this is JSON, and not TOML".to_owned(),
            Self::Key => "this is a key: the configuration names its file".to_owned(),
            Self::Nftables => format!("these are rules of nftables: `nft -f {file}` takes them"),
            Self::Pem => "this is a certificate or a key: the configuration names its file".to_owned(),
            Self::Scenario => {
                format!("this is a scenario: `trackway sim run {file}` runs it")
            }
            Self::WireGuard => {
                "this is a configuration of WireGuard: [tunnel] has peers in a similar way, with keys in files of \
                 their own (docs/guide/tunnel.md)"
                    .to_owned()
            }
        })
    }

    /// A complaint if the file is probably of another kind.
    #[must_use]
    pub fn instead(self, source: &Source) -> Option<Complaint> {
        let other = Self::of(source).filter(|other| *other != self)?;
        Some(other.complain(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_told_from_the_others() {
        for (text, expected) in [
            ("[hbh]\ninterfaces = [\"a\"]", Some(Kind::Gateway)),
            ("[tunnel]\n[[tunnel.peer]]", Some(Kind::Gateway)),
            ("[routing]\nprotocol = \"olsr\"", Some(Kind::Gateway)),
            (
                "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\n[[tunnel]]\nfrom = \"a\"",
                Some(Kind::Scenario),
            ),
            ("routing = \"olsr\"\n[[radio]]\nnodes = 5", Some(Kind::Scenario)),
            ("nodes = 2\n[hbh]\nprofile = \"seed\"", Some(Kind::Scenario)),
            ("speed = 9600\nsnr = 12", Some(Kind::HfOptions)),
            ("{\"hbh\": {}}", Some(Kind::Json)),
            ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", Some(Kind::Key)),
            ("-----BEGIN CERTIFICATE-----\nMIIB", Some(Kind::Pem)),
            ("# mine\n[Interface]\nPrivateKey = x\n[Peer]\n", Some(Kind::WireGuard)),
            ("flush ruleset\ntable inet filter {\n}", Some(Kind::Nftables)),
            ("", None),
            ("log = \"info\"", None),
        ] {
            let source = Source::new("a.toml", text.to_owned());
            assert_eq!(Kind::of(&source), expected, "{text}");
            if let Some(kind) = expected {
                let said = kind.complain(&source).to_string();
                assert!(said.starts_with("a.toml: th") && !said.contains("AAEC"), "{said}");
                assert_eq!(kind.instead(&source), None);
            }
        }
    }
}
