//! Describes files as JSON schemas (draft 2020-12), for editors and programs.
//!
//! ```text
//!  Description, of parameters ─┐
//!  key by key ─────────────────┴─▶ Shape ──▶ a table that has no other keys ──▶ document: a schema with a root
//! ```
//!
//! A schema accepts every file that the reader accepts, and some files that the reader refuses: a schema does not
//! relate values to each other, asks no kernel for interfaces, and leaves some texts to the types that parse them.

use std::collections::BTreeSet;

use base::parameter::{Description, Kind, Row, Value};
use base::quantity::{RATE_UNITS, TIME_UNITS};
use serde_json::{Map, Value as Json, json};

/// The keys of a table, added one after the other. A dot in a name leads into a table within.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    properties: Map<String, Json>,
    required: Vec<String>,
    /// A table has exactly one of these keys.
    choice: Vec<String>,
    /// The schema of the values under all other keys.
    others: Option<Json>,
}

impl Shape {
    /// No keys yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the parameters of a protocol.
    #[must_use]
    pub fn parameters(mut self, described: &Description) -> Self {
        for row in &described.rows {
            insert(&mut self.properties, row.name, property(row));
        }
        self
    }

    /// Adds an optional key, and replaces a parameter of the same name.
    #[must_use]
    pub fn key(mut self, name: &str, meaning: &str, mut value: Json) -> Self {
        value["description"] = meaning.into();
        insert(&mut self.properties, name, value);
        self
    }

    /// Adds a mandatory key.
    #[must_use]
    pub fn needed(mut self, name: &str, meaning: &str, value: Json) -> Self {
        self.required.push(name.to_owned());
        self.key(name, meaning, value)
    }

    /// Requires exactly one key out of `names`.
    #[must_use]
    pub fn one_of(mut self, names: &[&str]) -> Self {
        self.choice = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Allows all other keys too, with values like `value`.
    #[must_use]
    pub fn others(mut self, value: Json) -> Self {
        self.others = Some(value);
        self
    }

    /// The table.
    #[must_use]
    pub fn table(self) -> Json {
        let mut table = closed(self.properties);
        if let Some(others) = self.others {
            table["additionalProperties"] = others;
        }
        if !self.required.is_empty() {
            table["required"] = self.required.into();
        }
        if !self.choice.is_empty() {
            let each = self.choice.iter().map(|name| json!({ "required": [name] }));
            table["oneOf"] = each.collect();
        }
        table
    }
}

/// A schema of a whole file; `shared` are tables to which [`shared`] refers.
#[must_use]
pub fn document(title: &str, keys: Shape, shared: Vec<(&str, Json)>) -> Json {
    let mut document = keys.table();
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    document["title"] = title.into();
    if !shared.is_empty() {
        let each = shared.into_iter().map(|(name, table)| (name.to_owned(), table));
        document["$defs"] = Json::Object(each.collect());
    }
    document
}

/// Refers to a table that several keys share, defined once in [`document`].
#[must_use]
pub fn shared(name: &str) -> Json {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// The whole names of all keys that a document describes, without the places in lists: `link.there.rate`. A `*` stands
/// for names chosen by users.
#[must_use]
pub fn names(document: &Json) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    note(document, document, "", &mut names);
    names
}

fn note(document: &Json, schema: &Json, path: &str, names: &mut BTreeSet<String>) {
    if let Some(to) = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
        note(document, &document["$defs"][to], path, names);
    }
    let join = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        names.insert(join(name));
        note(document, inner, &join(name), names);
    }
    if schema["additionalProperties"].is_object() {
        names.insert(join("*"));
        note(document, &schema["additionalProperties"], &join("*"), names);
    }
    if schema["items"].is_object() {
        note(document, &schema["items"], path, names);
    }
    for inner in schema["anyOf"].as_array().into_iter().flatten() {
        note(document, inner, path, names);
    }
}

/// A text.
#[must_use]
pub fn text() -> Json {
    json!({ "type": "string" })
}

/// A text that matches a regular expression.
#[must_use]
pub fn like(pattern: &str) -> Json {
    json!({ "type": "string", "pattern": pattern })
}

/// `true` or `false`.
#[must_use]
pub fn flag() -> Json {
    json!({ "type": "boolean" })
}

/// A whole number.
#[must_use]
pub fn count(least: u64, most: u64) -> Json {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

/// One of these words.
#[must_use]
pub fn words<T, const N: usize>(named: &[(&'static str, T); N]) -> Json {
    json!({ "enum": base::parameter::names(named).to_vec() })
}

/// A list of `least` to `most` values.
#[must_use]
pub fn list(of: Json, least: usize, most: usize) -> Json {
    let mut list = json!({ "type": "array", "minItems": least, "maxItems": most });
    list["items"] = of;
    list
}

/// One value, or a list of one to `most` values.
#[must_use]
pub fn one_or_more(of: Json, most: usize) -> Json {
    let several = list(of.clone(), 1, most);
    any([of, several])
}

/// A value that fits any of several schemas.
#[must_use]
pub fn any<const N: usize>(of: [Json; N]) -> Json {
    json!({ "anyOf": Json::from_iter(of) })
}

/// A time with its unit.
#[must_use]
pub fn time() -> Json {
    any([like(&quantity(TIME_UNITS, "")), json!({ "const": 0 }), json!({ "const": "0" })])
}

/// An IP address.
#[must_use]
pub fn ip() -> Json {
    like("^[0-9A-Fa-f:.]+$")
}

/// An address or a network with the length of its prefix.
#[must_use]
pub fn prefix() -> Json {
    like("^[0-9A-Fa-f:.]+/[+0-9]+$")
}

/// An address and a port.
#[must_use]
pub fn socket() -> Json {
    like(r"^([0-9.]+|\[[0-9A-Fa-f:.]+(%[0-9]+)?\]):[0-9]+$")
}

/// The values of a kind.
#[must_use]
pub fn of_kind(kind: &Kind) -> Json {
    match *kind {
        Kind::Flag => flag(),
        Kind::Count { least, most, .. } => count(least, most),
        Kind::Counts { least, most } => json!({ "type": "array", "items": count(least, most) }),
        Kind::Span { least, most, .. } => {
            let one = count(least, most);
            any([one.clone(), list(one, 2, 2)])
        }
        Kind::Number { least, most } => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        Kind::Share { least, most } => any([
            json!({ "type": "number", "minimum": least, "maximum": most }),
            like(&format!(r"^\s*{NUMBER}\s*%?\s*$")),
        ]),
        Kind::Period { .. } => time(),
        Kind::Rate { may_be_unlimited } => {
            like(&quantity(RATE_UNITS, if may_be_unlimited { "unlimited" } else { "" }))
        }
        Kind::Text { .. } => json!({ "type": ["string", "number"] }),
        Kind::Word(words) => json!({ "enum": words }),
    }
}

/// A decimal number of at least zero.
const NUMBER: &str = r"[0-9.]+([eE][+-]?[0-9]+)?";

/// The pattern of a number with a unit, or of a word.
fn quantity(units: &[(&str, f64)], word: &str) -> String {
    let units: Vec<String> = units.iter().map(|(unit, _)| in_any_case(unit)).collect();
    let word = if word.is_empty() { String::new() } else { format!("|{}", in_any_case(word)) };
    format!(r"^\s*({NUMBER}\s*({}){word})\s*$", units.join("|"))
}

fn in_any_case(word: &str) -> String {
    word.chars().map(|it| format!("[{}{}]", it.to_lowercase(), it.to_uppercase())).collect()
}

/// A table with these keys and no others.
fn closed(properties: Map<String, Json>) -> Json {
    let mut table = json!({ "type": "object", "additionalProperties": false });
    table["properties"] = properties.into();
    table
}

/// Puts a property under its name; a dot leads into an object within.
fn insert(properties: &mut Map<String, Json>, name: &str, property: Json) {
    let Some((group, rest)) = name.split_once('.') else {
        properties.insert(name.to_owned(), property);
        return;
    };
    let group = properties.entry(group).or_insert_with(|| closed(Map::new()));
    if let Some(inner) = group.get_mut("properties").and_then(Json::as_object_mut) {
        insert(inner, rest, property);
    }
}

fn property(row: &Row) -> Json {
    let mut property = of_kind(&row.kind);
    let condition = row.condition.map(|condition| format!(" With {condition}."));
    let (meaning, kind) = (row.meaning, &row.kind);
    property["description"] = format!("{meaning}{} ({kind})", condition.unwrap_or_default()).into();
    if let Some(default) = row.defaults.first().and_then(of_value) {
        property["default"] = default;
    }
    property
}

fn of_value(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Absent => return None,
        Value::Flag(flag) => json!(flag),
        Value::Count(count) => json!(count),
        Value::Counts(counts) => json!(counts),
        Value::Span(least, most) => json!([least, most]),
        Value::Number(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Share(_) | Value::Period(_) | Value::Rate(_) => {
            json!(value.to_string().trim_matches('"'))
        }
    })
}
