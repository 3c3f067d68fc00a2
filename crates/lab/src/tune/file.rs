//! The scenario file under tuning: finds its keys and reads the file again with changed values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use settings::{Complaint, Source, nearest};
use toml_edit::{DocumentMut, Value};

use super::key::Key;
use crate::scenario::{MAX_OCTETS, Plan};

/// A scenario file.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    document: DocumentMut,
    /// The plan of the unchanged file.
    pub plan: Plan,
    /// The whole names of its keys, once somebody asked for them.
    leaves: OnceLock<BTreeSet<String>>,
}

/// Values for keys.
type Changes = [(Key, Value)];

impl File {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// With the first thing that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Complaint> {
        Self::parse(path, Source::read(path, MAX_OCTETS)?.text())
    }

    /// Reads a scenario from `text`, which stands in the file at `path`.
    ///
    /// # Errors
    /// With the first thing that is wrong with it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Complaint> {
        let plan = Plan::parse(path, text.to_owned())?;
        let about = |why: toml_edit::TomlError| {
            Source::new(&path.display().to_string(), String::new()).about(why.message())
        };
        let (path, document) = (path.to_owned(), text.parse().map_err(about)?);
        Ok(Self { path, document, plan, leaves: OnceLock::new() })
    }

    /// Where it stands.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file with these values.
    ///
    /// # Errors
    /// When it has no place for one.
    pub fn text_with(&self, changes: &Changes) -> Result<String, String> {
        let mut document = self.document.clone();
        for (key, value) in changes {
            let wrong = |why| format!("{key}: {}: {why}", self.path.display());
            key.set(&mut document, value).map_err(wrong)?;
        }
        Ok(document.to_string())
    }

    /// The plan of the file with these values.
    ///
    /// # Errors
    /// When the reader refuses these values.
    pub fn with(&self, changes: &Changes) -> Result<Plan, String> {
        let text = self.text_with(changes)?;
        Plan::parse(&self.path, text).map_err(|why| why.to_string())
    }

    /// Finds a key by its whole name, or by the end of its name if only one key with an effect ends like this.
    /// Between a default and a key that takes this default, the default is chosen. `values` are the first and the
    /// last to be tried.
    ///
    /// # Errors
    /// When no key or several keys match, or the key makes no difference.
    pub fn find(&self, name: &str, values: [&Value; 2]) -> Result<Key, String> {
        let given: Key = name.parse().map_err(|why: super::key::BadKey| why.to_string())?;
        if ["seed", "duration"].contains(&&*given.name()) {
            return Err(format!(
                "{name} cannot be tuned: all settings are compared over the same seeds and time"
            ));
        }
        let leaves = self.leaves.get_or_init(|| self.find_leaves());
        let whole = given.name();
        if leaves.contains(&whole) || whole != name.trim() {
            return self.expect_effect(given, values);
        }
        let tail = format!(".{whole}");
        let ends = leaves.iter().filter(|leaf| leaf.ends_with(&tail));
        let found: Vec<Key> = ends.filter_map(|leaf| leaf.parse().ok()).collect();
        match &found[..] {
            [] if self.is_new(&whole) => self.expect_effect(given, values),
            [] => Err(self.unknown(&whole, leaves)),
            [only] => self.expect_effect(only.clone(), values),
            _ => self.choose(name, &found, values),
        }
    }

    /// Chooses between several matching keys.
    fn choose(&self, name: &str, found: &[Key], values: [&Value; 2]) -> Result<Key, String> {
        let matters = |key: &&Key| self.has_effect(key, values) == Ok(true);
        let mut useful: Vec<&Key> = found.iter().filter(matters).collect();
        useful.sort_by_key(|key| !key.name().starts_with("defaults."));
        let covers_all = |key: &&&Key| useful.iter().all(|other| self.covers(key, other, values));
        match &useful[..] {
            [] => self.expect_effect(found[0].clone(), values),
            [only] => Ok((*only).clone()),
            several => match several.iter().find(covers_all) {
                Some(key) => Ok((**key).clone()),
                None => {
                    let all: Vec<String> = several.iter().map(ToString::to_string).collect();
                    Err(format!(
                        "{name} may be {}: write which; a number in brackets behind a list means one of it, such as \
                         tcp[0].octets",
                        all.join(" or ")
                    ))
                }
            },
        }
    }

    /// Whether the values make different scenarios.
    fn has_effect(&self, key: &Key, [first, last]: [&Value; 2]) -> Result<bool, String> {
        let plan = |value: &Value| self.with(&[(key.clone(), value.clone())]);
        let (first, last) = (plan(first)?, plan(last)?);
        Ok(first != last || first != self.plan)
    }

    fn expect_effect(&self, key: Key, values: [&Value; 2]) -> Result<Key, String> {
        if self.has_effect(&key, values)? {
            return Ok(key);
        }
        let path = self.path.display();
        Err(format!("{key} makes no difference in {path}: something else there overrides it"))
    }

    /// Whether setting `key` sets all that `other` does.
    fn covers(&self, key: &Key, other: &Key, values: [&Value; 2]) -> bool {
        values.into_iter().all(|value| {
            let one = (key.clone(), value.clone());
            let both = [one.clone(), (other.clone(), value.clone())];
            let (one, both) = (self.with(&[one]), self.with(&both));
            one.is_ok() && one == both
        })
    }

    fn unknown(&self, name: &str, leaves: &BTreeSet<String>) -> String {
        let path = self.path.display();
        let depth = name.matches('.').count() + 1;
        let end = |leaf: &String| -> String {
            let parts: Vec<&str> = leaf.split('.').collect();
            parts[parts.len().saturating_sub(depth)..].join(".")
        };
        let ends: BTreeSet<String> = leaves.iter().map(end).collect();
        let names = ends.iter().map(String::as_str).chain(leaves.iter().map(String::as_str));
        if let Some(meant) = nearest(name, names) {
            return format!(
                "{name}: {path} has no place for such a key; {meant} is probably meant"
            );
        }
        let table = name.split('.').next().unwrap_or_default();
        let inside: Vec<&str> = leaves
            .iter()
            .map(String::as_str)
            .filter(|leaf| {
                let mut parts = leaf.split('.');
                parts.any(|part| part == table) && parts.next().is_some()
            })
            .collect();
        if !inside.is_empty() && table != name {
            return format!(
                "{name}: {path} has no place for such a key; there are {}",
                inside.join(", ")
            );
        }
        let tables: BTreeSet<&str> =
            leaves.iter().filter_map(|leaf| Some(leaf.rsplit_once('.')?.0)).collect();
        let tables: Vec<&str> = tables.into_iter().collect();
        format!(
            "{name}: {path} has no place for such a key; it has places for keys of {}. What a scenario does not have, \
             such as hbh, is to be written there first",
            tables.join(", ")
        )
    }

    /// The whole names of all keys that can be set without adding anything else to the scenario. Keys of single
    /// nodes, possibly many, are left out if the file has no tables for them.
    fn find_leaves(&self) -> BTreeSet<String> {
        let (_, mut known) = Plan::parse_keys(&self.path, self.document.to_string());
        let mut tried = BTreeSet::new();
        loop {
            let is_new = |name: &&String| !tried.contains(*name) && !name.starts_with("node");
            let next: Vec<String> = known.iter().filter(is_new).cloned().collect();
            if next.is_empty() {
                break;
            }
            for name in next {
                if is_leaf(&known, &name)
                    && let Some(inside) = self.inside(&name)
                {
                    known.extend(inside);
                }
                tried.insert(name);
            }
        }
        known.iter().filter(|name| is_leaf(&known, name)).cloned().collect()
    }

    /// Whether the tables before this key, such as the table of one node, would change nothing by themselves.
    fn is_new(&self, name: &str) -> bool {
        name.rsplit_once('.').is_some_and(|(table, _)| self.inside(table).is_some())
    }

    /// The keys known to the reader after adding an empty table of this name, unless the table changes the plan.
    fn inside(&self, name: &str) -> Option<BTreeSet<String>> {
        let key: Key = name.parse().ok()?;
        let empty = Value::InlineTable(toml_edit::InlineTable::new());
        let text = self.text_with(&[(key, empty)]).ok()?;
        let (plan, keys) = Plan::parse_keys(&self.path, text);
        (plan.as_ref() == Some(&self.plan)).then_some(keys)
    }
}

/// Whether no known name lies within a table of this name.
fn is_leaf(known: &BTreeSet<String>, name: &str) -> bool {
    let start = format!("{name}.");
    !known.range(start.clone()..).next().is_some_and(|next| next.starts_with(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
nodes = ["a", "b", "c"]
hbh = true
[[link]]
between = ["a", "b"]
[[link]]
between = ["b", "c"]
[[tcp]]
from = "a"
to = "c"
octets = 5000
[[udp]]
from = "a"
to = "c"
payload = 72
rate = "1kbit"
"#;

    fn find(text: &str, name: &str, values: [&str; 2]) -> Result<String, String> {
        let file = File::parse(Path::new("x.toml"), text).expect("a scenario");
        let [first, last] = values.map(|it| it.parse::<Value>().expect("a value"));
        file.find(name, [&first, &last]).map(|key| key.to_string())
    }

    const SECONDS: [&str; 2] = ["\"2s\"", "\"9s\""];
    const RATES: [&str; 2] = ["\"2kbit\"", "\"9kbit\""];

    #[test]
    fn a_short_name_means_the_default_of_all_and_else_the_only_key_that_matters() {
        let one = "[[tcp]]\noptions = { rto.initial = \"5s\" }";
        let plain = TEXT.replace("hbh = true", "");
        let own = plain.replace("[[tcp]]", one);
        let begin = plain.find("[[tcp]]").expect("a transfer");
        let bgp = format!("{}[bgp]\n", &plain[..begin]);
        let dotted = TEXT.replace("\"a\"", "\"a.1\"");
        let told = format!("{dotted}[node.\"a.1\"]\nhbh.ack-delay = \"5ms\"\n");

        for (text, name, values, expected) in [
            (&plain[..], "rto.initial", SECONDS, "defaults.tcp.rto.initial"),
            (&bgp, "rto.initial", SECONDS, "defaults.tcp.rto.initial"),
            (&own, "rto.initial", SECONDS, "tcp.options.rto.initial"),
            (TEXT, "reorder", ["true", "false"], "defaults.link.reorder"),
            (TEXT, "payload", ["20", "30"], "udp.payload"),
            (TEXT, "octets", ["20", "30"], "tcp.octets"),
            (TEXT, "tcp[0].octets", ["20", "30"], "tcp[0].octets"),
            (TEXT, "hbh.ack-delay", ["\"2ms\"", "\"9ms\""], "hbh.ack-delay"),
            (TEXT, "node.a.hbh.ack-delay", ["\"2ms\"", "\"9ms\""], "node.a.hbh.ack-delay"),
            (
                &dotted,
                "node.\"a.1\".hbh.ack-delay",
                ["\"2ms\"", "\"9ms\""],
                "node.\"a.1\".hbh.ack-delay",
            ),
            (
                &told,
                "node.\"a.1\".hbh.ack-delay",
                ["\"2ms\"", "\"9ms\""],
                "node.\"a.1\".hbh.ack-delay",
            ),
            (TEXT, "link[1].there.loss", ["\"1%\"", "\"9%\""], "link[1].there.loss"),
            (TEXT, "defaults.tcp.sack", ["true", "false"], "defaults.tcp.sack"),
        ] {
            assert_eq!(find(text, name, values).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn a_name_that_may_mean_several_things_is_refused_with_all_of_them() {
        let said = find(TEXT, "rate", RATES).unwrap_err();

        assert!(said.starts_with("rate may be defaults.link.rate or link."), "{said}");
        assert!(said.contains(" or udp.rate: write which;"), "{said}");
        let said = find(TEXT, "rto.initial", SECONDS).unwrap_err();
        assert!(
            said.starts_with("rto.initial may be defaults.tcp.rto.initial or hbh.rto.initial"),
            "{said}"
        );
    }

    #[test]
    fn names_that_mean_nothing_are_refused_with_what_is_near() {
        let off = TEXT.replace("hbh = true", "");
        let own = TEXT.replace("[[tcp]]", "[[tcp]]\noptions = { rto.initial = \"5s\" }");
        for (text, name, values, expected) in [
            (
                TEXT,
                "rto.inital",
                SECONDS,
                "x.toml has no place for such a key; rto.initial is probably",
            ),
            (
                TEXT,
                "hbh.zzzzzzz",
                SECONDS,
                "x.toml:3: hbh.zzzzzzz: there is no such key; allowed are",
            ),
            (&off[..], "hbh.ack-delay", SECONDS, "is to be written there first"),
            (TEXT, "octets", ["\"a\"", "\"b\""], "x.toml:11: tcp.octets: \"a\" is not allowed"),
            (&own, "defaults.tcp.rto.initial", SECONDS, "makes no difference in x.toml"),
            (TEXT, "seed", ["1", "2"], "seed cannot be tuned"),
            (TEXT, "tcp[3].octets", ["1", "2"], "there is no tcp[3]"),
            (TEXT, "a=b", ["1", "2"], "is not a key such as"),
        ] {
            let said = find(text, name, values).unwrap_err();
            assert!(said.contains(expected), "{name}: {said}");
        }
    }
}
