//! A key of a scenario file, and how a value gets there.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use settings::join;
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use super::range::split_outside;

/// The position of a value: the tables on the way to it, and its name. Written `link[0].there.rate`; a list without a
/// place means all of its tables. A name with a dot stands in quotes: `node."radio.1".hbh.window`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key(Vec<Step>);

/// A part of it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Step {
    name: String,
    which: Which,
}

/// Which tables of a list.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Which {
    All,
    /// The one with this `name`.
    Named(String),
    /// Counted from 0.
    Number(usize),
}

/// Why a text is no key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is not a key such as rto.initial, defaults.tcp.rto.initial or tcp[0].options.rto.initial"
)]
pub struct BadKey(String);

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let bad = || BadKey(text.to_owned());
        let is_plain = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
        let quoted = |part: &str| part.strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
        let step = |part: &str| {
            if let Some(name) = quoted(part).filter(|name| !name.is_empty()) {
                return Ok(Step { name, which: Which::All });
            }
            let (name, which) = match part.strip_suffix(']').map(|it| it.split_once('[')) {
                Some(Some((name, place))) => match place.parse() {
                    Ok(number) => (name, Which::Number(number)),
                    Err(_) => (name, Which::Named(place.to_owned())),
                },
                Some(None) => return Err(bad()),
                None => (part, Which::All),
            };
            let is_named = !name.is_empty() && name.chars().all(is_plain);
            is_named.then(|| Step { name: name.to_owned(), which }).ok_or_else(bad)
        };
        let parts = split_outside(text.trim(), '.').into_iter();
        let steps: Vec<Step> = parts.map(step).collect::<Result<_, _>>()?;
        let ends_plain = steps.last().is_some_and(|step| step.which == Which::All);
        if ends_plain { Ok(Self(steps)) } else { Err(bad()) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for Step { name, which } in &self.0 {
            text = join(&text, name);
            match which {
                Which::All => {}
                Which::Named(of) => write!(text, "[{of}]")?,
                Which::Number(number) => write!(text, "[{number}]")?,
            }
        }
        f.write_str(&text)
    }
}

impl Key {
    /// The key without places in lists: `link.there.rate`.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.iter().fold(String::new(), |text, step| join(&text, &step.name))
    }

    /// Writes a value there, in as many tables as the key means. Tables that are missing are made, and `hbh = true`
    /// becomes one; what else the file says stays as it is, comments too.
    ///
    /// # Errors
    /// When the file has something else on the way.
    pub fn set(&self, document: &mut DocumentMut, value: &Value) -> Result<(), String> {
        set(document.as_table_mut(), &self.0, value)
    }
}

fn set(table: &mut dyn TableLike, steps: &[Step], value: &Value) -> Result<(), String> {
    let Some((Step { name, which }, rest)) = steps.split_first() else { return Ok(()) };
    let item = table.get_mut(name).filter(|item| !item.is_none());
    if rest.is_empty() {
        match item {
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                *old = value.clone();
                *old.decor_mut() = decor;
            }
            Some(_) => return Err(format!("{name} is a table: write a key of it behind a dot")),
            None => {
                table.insert(name, Item::Value(value.clone()));
            }
        }
        return Ok(());
    }
    match item {
        None if *which == Which::All => {
            let mut made = InlineTable::new();
            set(&mut made, rest, value)?;
            table.insert(name, Item::Value(Value::InlineTable(made)));
            Ok(())
        }
        None => Err(format!("there is no [[{name}]]")),
        Some(Item::ArrayOfTables(list)) => {
            let tables: Vec<&mut dyn TableLike> =
                list.iter_mut().map(|table| table as &mut dyn TableLike).collect();
            set_some(tables, name, which, rest, value)
        }
        Some(Item::Value(Value::Array(list))) => {
            let tables = list.iter_mut().filter_map(Value::as_inline_table_mut);
            let tables = tables.map(|table| table as &mut dyn TableLike).collect();
            set_some(tables, name, which, rest, value)
        }
        Some(_) if *which != Which::All => Err(format!("{name} is no list")),
        Some(Item::Value(flag @ Value::Boolean(_))) => {
            if flag.as_bool() == Some(false) {
                return Err(format!("{name} is switched off: write {name} = true first"));
            }
            let mut made = InlineTable::new();
            set(&mut made, rest, value)?;
            let decor = flag.decor().clone();
            *flag = Value::InlineTable(made);
            *flag.decor_mut() = decor;
            Ok(())
        }
        Some(item) => match item.as_table_like_mut() {
            Some(inner) => set(inner, rest, value),
            None => Err(format!("{name} is no table")),
        },
    }
}

/// Sets the value in the chosen tables of the list.
fn set_some(
    tables: Vec<&mut dyn TableLike>,
    name: &str,
    which: &Which,
    rest: &[Step],
    value: &Value,
) -> Result<(), String> {
    let count = tables.len();
    let mut is_found = false;
    for (place, table) in tables.into_iter().enumerate() {
        let is_meant = match which {
            Which::All => true,
            Which::Number(number) => *number == place,
            Which::Named(of) => table.get("name").and_then(Item::as_str) == Some(of),
        };
        if is_meant {
            is_found = true;
            set(table, rest, value)?;
        }
    }
    match which {
        _ if is_found => Ok(()),
        Which::All => Err(format!("{name} is an empty list")),
        Which::Number(number) => {
            Err(format!("there is no {name}[{number}]: the file has {count}, counted from 0"))
        }
        Which::Named(of) => Err(format!("no [[{name}]] has name = {of:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# Two links.
hbh = true          # on

[defaults.link]
rate = "1mbit"      # all

[[link]]
between = ["a", "b"]
there = { delay = "1s" }

[[link]]
between = ["b", "c"]

[[tcp]]
name = "big file"
from = "a"

[[tcp]]
from = "b"
"#;

    fn changed(key: &str, value: &str) -> Result<String, String> {
        let mut document: DocumentMut = TEXT.parse().expect("TOML");
        let key: Key = key.parse().map_err(|why: BadKey| why.to_string())?;
        key.set(&mut document, &value.parse().expect("a value"))?;
        Ok(document.to_string())
    }

    #[test]
    fn a_value_is_written_where_the_key_says_and_all_else_stays() {
        for (key, value, old, new) in [
            ("defaults.link.rate", "\"9kbit\"", "\"1mbit\"      # all", "\"9kbit\"      # all"),
            ("hbh.window", "7", "true          # on", "{ window = 7 }          # on"),
            ("link[0].there.delay", "\"2s\"", "{ delay = \"1s\" }", "{ delay = \"2s\" }"),
            ("link[0].there.rate", "\"9bit\"", "\"1s\" }", "\"1s\" , rate = \"9bit\" }"),
            ("tcp[big file].octets", "3", "from = \"a\"\n", "from = \"a\"\noctets = 3\n"),
            ("tcp[1].octets", "3", "from = \"b\"\n", "from = \"b\"\noctets = 3\n"),
        ] {
            let expected = TEXT.replacen(old, new, 1);
            let spaced = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(spaced(&changed(key, value).unwrap()), spaced(&expected), "{key}");
        }
    }

    #[test]
    fn a_list_without_a_place_means_all_and_tables_are_made() {
        let text = changed("tcp.options.rto.initial", "\"3s\"").unwrap();
        assert_eq!(text.matches("options = { rto = { initial = \"3s\" } }").count(), 2, "{text}");

        let text = changed("defaults.tcp.rto.initial", "\"3s\"").unwrap();
        let document: DocumentMut = text.parse().expect("TOML");
        let tcp = &document["defaults"]["tcp"]["rto"]["initial"];
        assert_eq!(tcp.as_str(), Some("3s"), "{text}");
        assert_eq!(document["defaults"]["link"]["rate"].as_str(), Some("1mbit"));
    }

    #[test]
    fn what_is_not_there_is_said() {
        for (key, expected) in [
            ("tcp[2].octets", "there is no tcp[2]: the file has 2, counted from 0"),
            ("tcp[small].octets", "no [[tcp]] has name = \"small\""),
            ("udp[0].payload", "there is no [[udp]]"),
            ("defaults[0].link", "defaults is no list"),
            ("defaults.link", "link is a table: write a key of it behind a dot"),
            ("defaults.link.rate.x", "rate is no table"),
        ] {
            assert_eq!(changed(key, "1"), Err(expected.to_owned()), "{key}");
        }
        for bad in ["", ".", "a..b", "tcp[0]", "a[0", "a]", "a=b"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
        assert_eq!("link[0].there.rate".parse::<Key>().unwrap().name(), "link.there.rate");
        for (text, name) in [
            ("node.\"a.1\".hbh.window", "node.\"a.1\".hbh.window"),
            ("node.\"a\".hbh", "node.a.hbh"),
            ("tcp[a.1].octets", "tcp.octets"),
        ] {
            assert_eq!(text.parse::<Key>().unwrap().name(), name);
        }
    }
}
