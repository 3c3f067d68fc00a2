//! Holds the schema of scenario files against the keys that their reader asks for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::scenario::{Plan, schema};

/// Tables that no example has.
const MORE: &[&str] = &[
    "nodes = [\"a\", \"b\", \"c\", \"d\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nthere = {}\nback = {}\n\
     [[link]]\nbetween = [\"b\", \"c\"]\n[[link]]\nbetween = [\"c\", \"d\"]\n\
     [[tunnel]]\nbetween = [\"b\", \"c\"]\nbehind = [[\"a\"], [\"d\"]]\n\
     [[tcpnc-tunnel]]\nbetween = [\"b\", \"c\"]\noptions = {}\ntcpnc = {}\n[[route]]\nnode = \"a\"\nto = \"d\"\nvia = \"b\"\n\
     [defaults]\ntcp = {}\nlink = {}\n[[tcp]]\nfrom = \"a\"\nto = \"b\"\noctets = 1\noptions = {}\n\
     [[udp]]\nfrom = \"a\"\nto = \"b\"\npayload = 99\nrate = \"1kbit\"\n[bgp]\noptions = {}\n",
    "nodes = [\"a\", \"b\"]\nhbh = {}\ntcpnc = {}\n[[net]]\n[messages]\nover = \"sar\"\nsar = {}\n[node.a]\nhbh = {}\ntcpnc = {}\n",
    "nodes = [\"a\", \"b\"]\n[[net]]\n[messages]\nover = \"tcp\"\noptions = {}\n",
    "nodes = [\"a\", \"b\"]\n[[hf]]\nstations = [\"a\", \"b\"]\nipclient = {}\nbehind.a = []\n",
    "nodes = [\"a\", \"b\"]\n[[radio]]\nmotion = { model = \"random-waypoint\" }\noff.a = []\n\
     [node.b]\nposition = [1, 1]\nmotion = [{ at = \"1s\", to = [2, 2], speed = 1 }]\n",
    "nodes = [\"a\"]\n[[radio]]\n[node.a]\nmotion = { model = \"random-waypoint\" }\n",
    "nodes = [\"a\"]\nrouting = \"aodv\"\naodv = {}\n[[radio]]\n[node.a]\nposition = [1, 1]\n",
    "nodes = [\"a\"]\nrouting = \"dsdv\"\ndsdv = {}\n[[radio]]\n[node.a]\nposition = [1, 1]\n",
    "nodes = [\"a\"]\nrouting = \"olsr\"\nolsr = {}\n[[radio]]\n[node.a]\nposition = [1, 1]\n",
    "nodes = [\"a\", \"b\"]\nrouting = \"ospf\"\nospf = {}\n[[link]]\nbetween = [\"a\", \"b\"]\n",
];

/// The whole name of a key, with `*` for the name of a node.
fn general(name: &str) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    let at = match parts[..] {
        ["node", _, ..] => Some(1),
        ["hf", "behind", _] | ["radio", "off", _] => Some(2),
        _ => None,
    };
    if let Some(at) = at {
        parts[at] = "*";
    }
    parts.join(".")
}

#[test]
fn the_schema_has_the_keys_that_the_reader_asks_for_and_no_others() {
    let mut texts: Vec<(PathBuf, String)> =
        MORE.iter().map(|&text| ("a.toml".into(), text.to_owned())).collect();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the examples") {
            let path = entry.expect("an example").path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                texts.push((path, text));
            }
        }
    }
    let mut asked = BTreeSet::new();
    for (path, text) in texts {
        let (plan, keys) = Plan::parse_keys(&path, text.clone());
        let is_made_up = path == Path::new("a.toml");
        assert!(plan.is_some() || !is_made_up, "{:?}\n{text}", Plan::parse(&path, text.clone()));
        if plan.is_some() {
            asked.extend(keys.iter().map(|key| general(key)));
        }
    }

    let described = settings::schema::names(&schema());

    // A file of movements is asked for its node only where it is one.
    let of_traces = |key: &str| key.ends_with("motion.node");
    let unknown: Vec<_> = described.difference(&asked).filter(|key| !of_traces(key)).collect();
    let missing: Vec<_> = asked.difference(&described).collect();
    assert!(unknown.is_empty(), "nobody asks for {unknown:?}");
    assert!(missing.is_empty(), "the schema has not {missing:?}");
}
