//! Reads the sources for lines of the log: an operator gets words, and no Rust.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    found
}

/// The arguments of each call of these macros.
fn calls<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut calls = Vec::new();
    for (at, _) in text.match_indices(&format!("{name}!(")) {
        let inside = &text[at + name.len() + 2..];
        let mut depth = 1;
        let end = inside.char_indices().find(|(_, letter)| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        calls.push(&inside[..end.map_or(inside.len(), |(end, _)| end)]);
    }
    calls
}

#[test]
fn a_broken_rule_of_a_storm_is_told_without_debug_output() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for path in sources(&crates.join("storm/src")) {
        let text = fs::read_to_string(&path).expect("a source");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for call in ["format", "write", "writeln"].iter().flat_map(|name| calls(text, name)) {
            seen += 1;
            let is_test = path.ends_with("tests.rs");
            assert!(is_test || !call.contains(":?}"), "{}: {call}", path.display());
        }
    }

    assert!(seen > 50, "{seen} texts were found");
}

#[test]
fn lines_for_an_operator_show_no_debug_output() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    let mut wrong = Vec::new();
    for path in
        ["gateway/src", "host/src", "cli/src"].iter().flat_map(|it| sources(&crates.join(it)))
    {
        let text = fs::read_to_string(&path).expect("a source");
        // Tests come last in a file, and log what they like.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for call in ["info", "warn", "error"].iter().flat_map(|name| calls(text, name)) {
            seen += 1;
            let shows = call.split(',').any(|argument| {
                let argument = argument.trim();
                argument.starts_with('?') || argument.contains("= ?")
            });
            if shows || call.contains(":?}") {
                wrong.push(format!("{}: {call}", path.display()));
            }
        }
    }

    assert!(seen > 80, "{seen} lines of the log were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
