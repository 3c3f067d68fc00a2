//! Tests `trackway parameters`, and the documentation pages that contain its output.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

fn parameters(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackway"));
    command.arg("parameters").args(args).output().expect("the program starts")
}

fn printed(args: &[&str]) -> String {
    let output = parameters(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The tables that there are, in the order of the alphabet.
fn names() -> Vec<String> {
    printed(&[]).lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect()
}

/// `TRACKWAY_RENEW=1 cargo test -p trackway --test program parameters` writes the pages anew.
#[test]
fn the_documentation_shows_the_parameters_as_they_are() {
    let is_renewed = env::var_os("TRACKWAY_RENEW").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut tables = Vec::new();
    let entries = ["guide", "protocols", "results"]
        .map(|name| fs::read_dir(folder.join(name)).expect("a part of the documentation"));
    for entry in entries.into_iter().flatten() {
        let page = entry.expect("a page").path();
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).expect("text");

        let renewed = settings::page::renewed(&text, |name| printed(&[name])).expect("a page");

        let marks = text.split("<!-- parameters ").skip(1);
        tables.extend(marks.filter_map(|mark| mark.split_whitespace().next()).map(String::from));
        if is_renewed {
            fs::write(&page, renewed).expect("a page");
        } else {
            let remedy =
                "renew it: TRACKWAY_RENEW=1 cargo test -p trackway --test program parameters";
            assert!(renewed == text, "{} is stale; {remedy}", page.display());
        }
    }
    tables.sort_unstable();
    assert_eq!(tables, names(), "each table stands somewhere, once");
}

#[test]
fn a_table_that_does_not_exist_is_answered_with_those_that_do() {
    for (name, remedy) in [("hhb", "hbh is probably meant"), ("entirely", "there are aodv, ")] {
        let output = parameters(&[name]);

        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{name}: there is no such table; {remedy}")), "{said}");
    }
}
