//! Parameters as a page of the documentation shows them.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proto::parameter::{Description, Kind, Row, Value};

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

/// Compares a page with the tables that stand in it, between `<!-- parameters NAME -->` and
/// `<!-- end -->`. With `TRACKWAY_RENEW` in the environment the page is written instead.
///
/// # Panics
/// When the page says something else, or has no place for a table.
pub fn check(page: &Path, described: &[Description]) {
    let text = fs::read_to_string(page).unwrap_or_else(|why| panic!("{}: {why}", page.display()));
    let mut renewed = text.clone();
    for described in described {
        let start = format!("<!-- parameters {} -->\n", described.name);
        let Some((before, rest)) = renewed.split_once(&start) else {
            panic!("{} has no {start}", page.display());
        };
        let Some((_, after)) = rest.split_once("<!-- end -->") else {
            panic!("{} has no end of {start}", page.display());
        };
        renewed = format!("{before}{start}{}<!-- end -->{after}", table(described));
    }
    if renewed == text {
        return;
    }
    assert!(
        env::var_os("TRACKWAY_RENEW").is_some(),
        "{} is not what the parameters are: renew it with TRACKWAY_RENEW=1 before this test",
        page.display()
    );
    fs::write(page, renewed).unwrap_or_else(|why| panic!("{}: {why}", page.display()));
}

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
