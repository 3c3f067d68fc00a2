//! Tests the parts of an installation that the program writes itself: manual pages and completions.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = text(&trackway(&["--help"]));
    let listed = help.split_once("Commands:\n").expect("a list of commands").1;
    let names = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = std::env::temp_dir().join(format!("trackway-man-{}", std::process::id()));
    let made = trackway(&["man", "--out", folder.to_str().unwrap()]);
    let pages: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let run = fs::read_to_string(folder.join("trackway-run.1")).unwrap();
    fs::remove_dir_all(&folder).unwrap();

    assert!(made.status.success());
    let missing: Vec<_> = commands()
        .into_iter()
        .filter(|name| !pages.contains(&format!("trackway-{name}.1")))
        .collect();
    assert_eq!((missing, pages.contains("trackway.1")), (Vec::new(), true));
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    // One page alone is the same.
    assert_eq!(text(&trackway(&["man", "run"])), run);
    assert!(run.contains("\\-\\-control"), "{run}");
}

#[test]
fn a_page_of_no_command_is_refused() {
    let refused = trackway(&["man", "tls", "nothing"]);

    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("`tls` has no command \"nothing\""), "{said}");
}

#[test]
fn shells_complete_all_commands() {
    for shell in ["bash", "fish", "zsh"] {
        let script = text(&trackway(&["completions", shell]));
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("trackway"), "{shell}");
    }
}

fn trackway(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trackway")).args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_unit_for_any_name_is_the_unit_of_the_host_with_another_file() {
    let unit = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
        let text = fs::read_to_string(format!("{folder}/{name}.service")).unwrap();
        text.split_once("[Unit]").unwrap().1.to_owned()
    };

    let expected = unit("trackway")
        .replace("gateway.toml", "%i.toml")
        .replace("Description=Trackway gateway", "Description=Trackway gateway %i");
    assert_eq!(unit("trackway@"), expected);
}
