//! Describes parameters as a JSON schema (draft 2020-12).

use base::parameter::{Description, Kind, Row, Value};
use serde_json::{Map, Value as Json, json};

/// The schema of a table with these parameters.
#[must_use]
pub fn object(described: &Description) -> Json {
    let mut properties = Map::new();
    for row in &described.rows {
        insert(&mut properties, row.name, property(row));
    }
    json!({ "title": described.name, "type": "object", "properties": properties })
}

/// Puts a property under its name; a dot leads into an object within.
fn insert(properties: &mut Map<String, Json>, name: &str, property: Json) {
    let Some((group, rest)) = name.split_once('.') else {
        properties.insert(name.to_owned(), property);
        return;
    };
    let group =
        properties.entry(group).or_insert_with(|| json!({ "type": "object", "properties": {} }));
    if let Some(inner) = group.get_mut("properties").and_then(Json::as_object_mut) {
        insert(inner, rest, property);
    }
}

fn property(row: &Row) -> Json {
    let mut property = of_kind(&row.kind);
    let condition = row.condition.map(|condition| format!(" With {condition}."));
    let description = format!("{}{}", row.meaning, condition.unwrap_or_default());
    property["description"] = description.into();
    if let Some(default) = row.defaults.first().and_then(of_value) {
        property["default"] = default;
    }
    property
}

fn of_kind(kind: &Kind) -> Json {
    let count =
        |least: u64, most: u64| json!({ "type": "integer", "minimum": least, "maximum": most });
    let quantity = || json!({ "type": ["string", "number"], "$comment": kind.to_string() });
    match *kind {
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count { least, most, .. } => count(least, most),
        Kind::Counts { least, most } => json!({ "type": "array", "items": count(least, most) }),
        Kind::Span { least, most, .. } => {
            let one = count(least, most);
            let two = json!({ "type": "array", "items": one, "minItems": 2, "maxItems": 2 });
            json!({ "anyOf": [one, two] })
        }
        Kind::Number { least, most } => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        Kind::Share { .. } | Kind::Period { .. } | Kind::Rate { .. } | Kind::Text { .. } => {
            quantity()
        }
        Kind::Word(words) => json!({ "enum": words }),
    }
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
