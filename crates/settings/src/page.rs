//! Writes the parameter tables of the documentation pages.

use std::fmt::Write as _;

use base::parameter::{Description, Kind, Row, Value};

/// A table of parameters in Markdown.
#[must_use]
pub fn table(described: &Description) -> String {
    let mut text = String::from("| key | what | allowed |");
    match &described.profiles[..] {
        [_] => text.push_str(" unless given |"),
        profiles => {
            for profile in profiles {
                let _ = write!(text, " `{profile}` |");
            }
        }
    }
    let columns = 3 + described.profiles.len();
    let _ = writeln!(text, "\n|{}", "---|".repeat(columns));
    for row in &described.rows {
        let _ = write!(text, "| `{}` | {} | {} |", row.name, meaning(row), allowed(&row.kind));
        for default in &row.defaults {
            let _ = match default {
                Value::Absent => write!(text, " |"),
                default => write!(text, " `{default}` |"),
            };
        }
        text.push('\n');
    }
    for rule in &described.rules {
        let _ = write!(text, "\nTogether: {rule}.");
    }
    if !described.rules.is_empty() {
        text.push('\n');
    }
    text
}

/// The page with fresh tables: each table stands between `<!-- parameters NAME -->` and `<!-- end -->`, and `table`
/// makes the table with this name.
///
/// # Errors
/// When a place for a table has no end.
pub fn renewed(page: &str, table: impl Fn(&str) -> String) -> Result<String, String> {
    let mut pieces = page.split(START);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let parts = piece.split_once(" -->\n").zip(piece.split_once(END));
        let Some(((name, _), (_, after))) = parts else {
            let line = piece.lines().next().unwrap_or_default();
            return Err(format!("no end of {START}{line}"));
        };
        text += &format!("{START}{name} -->\n{}{END}{after}", table(name));
    }
    Ok(text)
}

const START: &str = "<!-- parameters ";
const END: &str = "<!-- end -->";

fn meaning(row: &Row) -> String {
    let meaning = row.meaning.trim_end_matches('.');
    match row.condition {
        Some(condition) => format!("{meaning}; with `{condition}`"),
        None => meaning.to_owned(),
    }
}

fn allowed(kind: &Kind) -> String {
    match kind {
        Kind::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word:?}`")).collect();
            words.join(", ")
        }
        Kind::Flag => "`true`, `false`".to_owned(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_a_page_are_renewed_where_they_stand() {
        let page = "a\n<!-- parameters x -->\nold\n<!-- end -->\nb\n";

        let renewed_page = renewed(page, |name| format!("| {name} |\n"));

        let expected = "a\n<!-- parameters x -->\n| x |\n<!-- end -->\nb\n";
        assert_eq!(renewed_page.as_deref(), Ok(expected));
        assert!(renewed("<!-- parameters x -->\n", |_| String::new()).is_err());
    }

    #[test]
    fn a_table_has_a_column_for_each_profile() {
        use hbh::{Config, PARAMETERS, Profile};

        let profiles = Profile::NAMES.map(|(name, profile)| (name, Config::new(profile)));
        let text = table(&PARAMETERS.describe(&profiles));

        let head = "| key | what | allowed | `default` | `paper` |\n|---|---|---|---|---|\n";
        assert!(text.starts_with(head), "{text}");
        let window = "| 1 to 16384 packets, or [least, most] | `[4, 16384]` | `8` |\n";
        assert!(text.contains(window), "{text}");
    }
}
