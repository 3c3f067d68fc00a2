//! Runs the examples of configurations as they stand, in a namespace with the interface and addresses that examples name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::namespaces::{Namespaces, TRACKWAY};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
/// Folders of the host that examples name, and that are made below the test's folder instead.
const PLACES: [&str; 2] = ["/run/trackway/", "/var/lib/trackway/"];

/// All files for `trackway run`.
fn examples() -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let mut found: Vec<_> = below(Path::new(EXAMPLES)).iter().flat_map(|it| below(it)).collect();
    found.retain(|file| fs::read_to_string(file).unwrap().contains("gateway.schema.json"));
    found.sort();
    found
}

/// The commands that make the keys and certificates of an example, from its comment.
fn commands(text: &str) -> Vec<String> {
    let comment = text.lines().filter_map(|line| line.strip_prefix("#   trackway "));
    let mut commands: Vec<_> = comment.map(str::to_owned).collect();
    let named = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split('"').nth(1).map(str::to_owned)
    };
    if let Some(key) = named("private-key = ") {
        commands.push(format!("keygen --out {key}"));
    }
    if let Some(key) = named("group-key = ") {
        commands.push(format!("keygen --group --out {key}"));
    }
    commands.sort();
    commands.dedup();
    commands
}

#[test]
#[ignore = "needs root: run by ./test"]
fn each_example_of_a_gateway_runs_and_ends() {
    let examples = examples();
    assert!(examples.len() >= 15, "{examples:?}");
    for (at, example) in examples.iter().enumerate() {
        let mut nets = Namespaces::new();
        let host = nets.add(&format!("host{at}"));
        nets.cable((&host, "wlan0"), (&host, "other"));
        for address in ["10.66.0.1/16", "192.0.2.1/24", "192.0.2.2/24"] {
            nets.address(&host, "wlan0", address);
        }
        let folder = nets.folder().to_owned();
        let mut text = fs::read_to_string(example).unwrap();
        for place in PLACES {
            text = text.replace(place, &format!("{}{place}", folder.display()));
        }
        for command in commands(&text) {
            nets.run(&host, &format!("env -C {} {TRACKWAY} {command}", folder.display()));
        }

        let gateway = nets.start_gateway(&host, "example", &text);
        let status = nets.status(&host);
        let (code, printed) = nets.program(gateway).stop();

        assert_eq!(code, Some(0), "{}: {printed}", example.display());
        assert!(status["services"].is_array(), "{}: {status}", example.display());
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_example_of_two_nodes_on_emulated_modems_talks() {
    let mut nets = Namespaces::new();
    let host = nets.add("host");

    let command = format!("{TRACKWAY} hf --config {EXAMPLES}/hf/hf.toml --duration 12s");
    let output = nets.try_run(&host, &command);

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("client A: 200 octets to B and back in "), "{said}");
}
