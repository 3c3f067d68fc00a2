//! Adds a peer of the tunnel to a configuration's text, or removes one, and leaves the rest of the text as it is.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Config;

/// The header of a peer.
const HEADER: &str = "[[tunnel.peer]]";

/// A change of the tunnel's peers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerChange {
    /// Another peer.
    Add(NewPeer),
    /// Remove the peer with this name.
    Remove(String),
}

/// A peer as an operator describes it; the values are those of a `[[tunnel.peer]]`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NewPeer {
    /// What it is called.
    pub name: String,
    /// What it is known by.
    pub public_key: String,
    /// Networks behind it.
    pub routes: Vec<String>,
    /// Where it is called.
    pub endpoint: Option<String>,
    /// The silence after which a keepalive is sent.
    pub keepalive: Option<String>,
    /// The file with a secret of both.
    pub preshared_key: Option<String>,
}

/// Why the peers of a text are not changed.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unchanged {
    /// No other peer would be left.
    #[error(
        "{name:?} is the last peer, and [tunnel] needs one: add another first, or remove the section [tunnel] from the \
         file, then `trackway reload`"
    )]
    Last {
        /// The name.
        name: String,
    },
    /// There is no such peer.
    #[error("there is no peer {name:?}; there {}", are(.there))]
    Unknown {
        /// The wanted name.
        name: String,
        /// The names of the peers.
        there: Vec<String>,
    },
    /// The text is written in another way.
    #[error(
        "the peers are not written as {HEADER}, each below the other: change the file by hand, then `trackway reload`"
    )]
    Otherwise,
}

/// The names of all peers, for an error.
fn are(there: &[String]) -> String {
    if there.is_empty() { "is none".to_owned() } else { format!("are: {}", there.join(", ")) }
}

impl PeerChange {
    /// The text with this change; `config` is what the text says.
    ///
    /// # Errors
    /// When the file cannot be changed so. What a new peer says is not checked.
    pub fn apply(&self, text: &str, config: &Config) -> Result<String, Unchanged> {
        match self {
            Self::Add(peer) => Ok(peer.append_to(text)),
            Self::Remove(name) => remove(text, config, name),
        }
    }

    /// Whether `after` is `before` with this change and no other.
    #[must_use]
    pub fn leads(&self, before: &Config, after: &Config) -> bool {
        let (Some(had), Some(has)) = (&before.tunnel, &after.tunnel) else { return false };
        let mut expected = had.peers.clone();
        match self {
            Self::Add(peer) => {
                let Some(last) = has.peers.last().filter(|last| last.name == peer.name) else {
                    return false;
                };
                expected.push(last.clone());
            }
            Self::Remove(name) => expected.retain(|peer| peer.name != *name),
        }
        let mut wanted = before.clone();
        wanted.tunnel = Some(super::Tunnel { peers: expected, ..had.clone() });
        // Warnings name lines.
        wanted.warnings.clone_from(&after.warnings);
        wanted == *after
    }
}

impl NewPeer {
    fn append_to(&self, text: &str) -> String {
        let mut text = text.trim_end().to_owned();
        let mut put = |key: &str, value: &str| {
            let _ = writeln!(text, "{key} = {value}");
        };
        put("\n\n[[tunnel.peer]]\nname", &quoted(&self.name));
        put("public-key", &quoted(&self.public_key));
        let routes: Vec<_> = self.routes.iter().map(|route| quoted(route)).collect();
        put("routes", &format!("[{}]", routes.join(", ")));
        let others = [
            ("endpoint", &self.endpoint),
            ("keepalive", &self.keepalive),
            ("preshared-key", &self.preshared_key),
        ];
        for (key, value) in others {
            if let Some(value) = value {
                put(key, &quoted(value));
            }
        }
        text
    }
}

/// Removes the lines of a peer, with the comments that stand directly above them.
fn remove(text: &str, config: &Config, name: &str) -> Result<String, Unchanged> {
    let peers = config.tunnel.as_ref().map_or(&[][..], |tunnel| &tunnel.peers);
    let Some(position) = peers.iter().position(|peer| peer.name == name) else {
        let there = peers.iter().map(|peer| peer.name.clone()).collect();
        return Err(Unchanged::Unknown { name: name.to_owned(), there });
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let headers: Vec<_> = (0..lines.len()).filter(|&at| is_peer(lines[at])).collect();
    if headers.len() != peers.len() {
        return Err(Unchanged::Otherwise);
    }
    if peers.len() == 1 {
        return Err(Unchanged::Last { name: name.to_owned() });
    }
    let header = headers[position];
    let is_blank = |line: &&str| line.trim().is_empty();
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    let body = lines[header + 1..].iter().take_while(|line| !is_header(line));
    let body: Vec<_> = body.collect();
    let last = body.iter().rposition(|line| !is_blank(line) && !is_comment(line));
    let mut end = header + 1 + last.map_or(0, |last| last + 1);
    let above = lines[..header].iter().rev().take_while(|line| is_comment(line)).count();
    let begin = header - above;
    // Blank lines above the entry stay.
    end += lines[end..].iter().take_while(|line| is_blank(line)).count();
    Ok([&lines[..begin], &lines[end..]].concat().concat())
}

/// Whether a line is the header of a peer, whatever blanks and comment it has.
fn is_peer(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default();
    line.split_whitespace().flat_map(str::chars).eq(HEADER.chars())
}

/// A text as a string of TOML: with the escapes of JSON, which TOML has too.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# A gateway.
[tunnel]
private-key = "a.key"           # secret
addresses = ["10.99.0.1/24"]

# The office.
[[tunnel.peer]]
name = "office"
public-key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
routes = [
    "10.2.0.0/16",              # all of it
]

# Vans.

# The first van.
[[ tunnel.peer ]] # moves
name = "van"
public-key = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
routes = ["10.3.0.0/16"]
"#;

    fn read(text: &str) -> Config {
        Config::parse("test", text).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    fn newcomer() -> NewPeer {
        NewPeer {
            name: "new".to_owned(),
            public_key: "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=".to_owned(),
            routes: ["10.4.0.0/16", "fd04::/16"].map(str::to_owned).to_vec(),
            endpoint: Some("192.0.2.4:51900".to_owned()),
            keepalive: Some("15s".to_owned()),
            preshared_key: None,
        }
    }

    #[test]
    fn a_peer_is_added_and_removed_and_the_rest_of_the_text_stays() {
        let before = read(TEXT);
        let add = PeerChange::Add(newcomer());

        let with = add.apply(TEXT, &before).unwrap();
        let after = read(&with);
        let remove = PeerChange::Remove("new".to_owned());
        let without = remove.apply(&with, &after).unwrap();

        assert!(with.starts_with(TEXT.trim_end()), "{with}");
        assert!(add.leads(&before, &after));
        assert_eq!(without.trim_end(), TEXT.trim_end());
        assert!(remove.leads(&after, &before));
        assert!(!remove.leads(&after, &after) && !add.leads(&before, &before));
    }

    #[test]
    fn a_peer_goes_with_the_comment_above_it_alone() {
        let before = read(TEXT);

        let without_office = PeerChange::Remove("office".to_owned()).apply(TEXT, &before);
        let van = PeerChange::Remove("van".to_owned());
        let without_van = van.apply(TEXT, &before).unwrap();

        let without_office = without_office.unwrap();
        assert!(!without_office.contains("office") && !without_office.contains("10.2.0.0"));
        assert!(without_office.contains("# Vans.\n\n# The first van."), "{without_office}");
        assert!(van.leads(&before, &read(&without_van)));
        assert!(without_van.ends_with("]\n\n# Vans.\n\n"), "{without_van}");
    }

    #[test]
    fn what_is_not_there_or_written_otherwise_is_told() {
        let before = read(TEXT);
        let nobody = PeerChange::Remove("nobody".to_owned()).apply(TEXT, &before);
        let there = vec!["office".to_owned(), "van".to_owned()];
        assert_eq!(nobody, Err(Unchanged::Unknown { name: "nobody".to_owned(), there }));
        let alone = PeerChange::Remove("van".to_owned()).apply(TEXT, &before).unwrap();
        let last = PeerChange::Remove("office".to_owned()).apply(&alone, &read(&alone));
        assert_eq!(last, Err(Unchanged::Last { name: "office".to_owned() }));

        let inline = "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.99.0.1/24\"]\npeer = [{ name = \"a\", \
                      public-key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\", routes = [\"10.2.0.0/16\"] }]\n";
        let config = read(inline);
        let removed = PeerChange::Remove("a".to_owned()).apply(inline, &config);
        let added = PeerChange::Add(newcomer()).apply(inline, &config).unwrap();

        assert_eq!(removed, Err(Unchanged::Otherwise));
        assert!(Config::parse("test", &added).is_err(), "it is refused where it is read");
    }

    #[test]
    fn a_name_cannot_smuggle_in_other_keys() {
        let before = read(TEXT);
        let name = "a\"\nroutes = [\"0.0.0.0/0\"]\n#".to_owned();
        let added = PeerChange::Add(NewPeer { name, ..newcomer() }).apply(TEXT, &before);

        assert!(Config::parse("test", &added.unwrap()).is_err());
    }
}
