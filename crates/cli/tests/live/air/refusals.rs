//! Tests the requests that `trackway air` refuses, and its messages.

use std::fs;
use std::process::Command;

use super::bed::{Air, row};
use crate::namespaces::PREFIX;
use crate::namespaces::TRACKWAY;

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_opened() {
    let folder = std::env::temp_dir().join(format!("{PREFIX}{}-air", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let places = "[node.a]\nposition = [0, 0]\n[node.b]\nposition = [0, 0]\n";
    let nodes = "nodes = [\"a\", \"b\"]\n";
    let one = format!("{nodes}[[radio]]\nstations = [\"a\", \"b\"]\n{places}");
    let two = format!(
        "{nodes}[[radio]]\nname = \"low\"\n[[radio]]\nname = \"high\"\nstations = [\"a\"]\n{places}"
    );
    let none = format!("{nodes}[[link]]\nbetween = [\"a\", \"b\"]\n");
    let file = folder.join("air.toml");
    for (scenario, options, expected) in [
        (&none, "--join *=*", "air.toml has no radio: a table [[radio]]"),
        (&two, "--join *=*", "several radios, low, high: --radio NAME"),
        (&two, "--join *=* --radio mid", "has no radio \"mid\", but low, high"),
        (&two, "--join b=b --radio high", "--join b=b: no station is called so; there are a"),
        (&one, "--join c=eth0", "no station is called so; there are a, b"),
        (&one, "--join a=x --join b=x", "a and b cannot both have x"),
        (&one, "--join a=x --join a=y", "a has one interface, not several"),
        (&one, "--join *=eth0", "one interface cannot be that of all nodes"),
        (&one, "--join a", "NODE=INTERFACE or NODE=NETNS:INTERFACE"),
        (&one, "--join a=x:y:z", "--join a=x:y:z: an end is INTERFACE or NETNS:INTERFACE"),
        (&one, "", "--join"),
        (&format!("{one}motoin = 1"), "--join *=*", "motoin"),
    ] {
        fs::write(&file, scenario).unwrap();
        let mut command = Command::new(TRACKWAY);
        let output =
            command.arg("air").arg(&file).args(options.split_whitespace()).output().unwrap();

        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains(expected), "{options}: {complaint}");
        assert_eq!(output.status.code(), Some(2), "{options}: {complaint}");
        assert!(output.stdout.is_empty());
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_cannot_be_opened_is_said_with_the_remedy() {
    let mut air = Air::row(&[0.0, 200.0], "");
    air.end();
    air.nets.run(&air.middle, "ip link set dev n1 down");
    let file = air.file("one.toml");
    fs::write(&file, row(&[0.0], "")).unwrap();

    for (join, code, expected) in [
        ("n0=none0", 2, "there is no interface none0"),
        ("n0=nowhere:n0", 2, "there is no network namespace nowhere"),
        ("n0=lo", 2, "lo is not an Ethernet interface"),
        ("n0=n1", 1, "`ip link set dev n1 up`"),
    ] {
        let command = format!("{TRACKWAY} air {} --join {join}", file.display());
        let output = air.nets.try_run(&air.middle, &command);

        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains(expected), "{complaint}");
        assert_eq!(output.status.code(), Some(code), "{complaint}");
    }
    let powerless =
        format!("setpriv --bounding-set=-all {TRACKWAY} air {} --join n0=n0", file.display());
    let output = air.nets.try_run(&air.middle, &powerless);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("needs root"), "{complaint}");
}
