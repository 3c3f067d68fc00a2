//! Holds each schema against the reader of its files: good files, wrong files, and good files with one thing changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value as Json};

use super::Kind;

/// Wrong files whose mistakes a schema sees: an editor marks them before `trackway check` is asked.
const SEEN: &[(Kind, &str)] = &[
    (Kind::Gateway, "metrics = 7"),
    (Kind::Gateway, "log = \"all\"\n[hbh]\ninterfaces = [\"a\"]"),
    (Kind::Gateway, "[hbh]\nretries = 3"),
    (Kind::Gateway, "hbh = true"),
    (Kind::Gateway, "hbh.interfaces = []"),
    (Kind::Gateway, "hbh.interfaces = \"wlan0\""),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a b\"]"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"wlan%d\"]"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nretires = 3"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nretries = 256"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nretries = \"3\""),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nprofile = \"seed\""),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nwindow = [1, 2, 3]"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nneighbours = []"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nneighbours = \"all\""),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nhello.interval = 2"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nhello.interval = \"2 parsecs\""),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nrate-increase = 10000"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nrate-increase = \"unlimited\""),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nrate-decrease = 2"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\ngroup_key = \"a\""),
    (Kind::Gateway, "interfaces = [\"wlan0\"]"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\n[hbh.limts]\nneighbours = 3"),
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\n[limts]"),
    (Kind::Gateway, "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.9.0.1/24\"]"),
    (
        Kind::Gateway,
        "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.9.0.1\"]\n[[tunnel.peer]]\nname = \"b\"\npublic-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nroutes = [\"10.2.0.0/16\"]",
    ),
    (
        Kind::Gateway,
        "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.9.0.1/24\"]\n[[tunnel.peer]]\nname = \"b c\"\npublic-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nroutes = [\"10.2.0.0/16\"]",
    ),
    (
        Kind::Gateway,
        "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.9.0.1/24\"]\n[[tunnel.peer]]\nname = \"b\"\npublic-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nroutes = []",
    ),
    (
        Kind::Gateway,
        "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.9.0.1/24\"]\n[[tunnel.peer]]\nname = \"b\"\npublic-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nroutes = [\"10.2.0.0/16\"]\nendpoint = \"192.0.2.2\"",
    ),
    (Kind::Gateway, "[hfpep]\nhandshake = \"late\""),
    (Kind::Gateway, "[hfpep]\nmode = \"both\""),
    (Kind::Gateway, "[[hfpep.peer]]\nto = [\"10.2.0.0/16\"]"),
    (
        Kind::Gateway,
        "[[hfpep.peer]]\nto = [\"10.2.0.0/16\"]\nnode = \"0.0.0.2\"\ngateway = \"192.0.2.2:5099\"",
    ),
    (Kind::Gateway, "[hfpep.bearer]\nspare = 257"),
    (Kind::Gateway, "[hfpep.bearer]\ncongestion-control = \"\""),
    (Kind::Gateway, "[[hfpep.peer]]\nnode = \"one\"\nto = [\"10.2.0.0/16\"]"),
    (Kind::Gateway, "[ipclient]\naddresses = [\"10.88.0.1/24\"]"),
    (
        Kind::Gateway,
        "[ipclient]\naddresses = [\"10.88.0.1/24\"]\n[[ipclient.route]]\nto = [\"10.2.0.0/16\"]",
    ),
    (
        Kind::Gateway,
        "[s5066]\naddress = \"0.0.0.1\"\nmodem = \"192.0.2.7\"\nwaveform = \"9600/short\"",
    ),
    (
        Kind::Gateway,
        "[s5066]\naddress = \"0.0.0.1\"\nmodem = \"192.0.2.7:3000\"\nwaveform = \"9600/short\"\nrate = \"adaptive\"",
    ),
    (Kind::Gateway, "[sar]\nlisten = [\"10.9.0.1\"]"),
    (Kind::Gateway, "[sar]\nsocket-mode = \"rw\""),
    (Kind::Gateway, "[sar]\nstore = \"here\""),
    (Kind::Gateway, "[sar]\ndamaged = \"ignore\""),
    (Kind::Gateway, "[[sar.group]]\nvia = \"239.0.0.1\"\nmembers = [\"10.0.0.1\"]"),
    (Kind::Gateway, "[routing]\nprotocol = \"ospf\"\ninterfaces = [\"wlan0\"]"),
    (Kind::Gateway, "[routing]\nprotocol = \"aodv\"\ninterfaces = [\"wlan0\"]"),
    (Kind::Gateway, "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"wlan0\"]\ninternet = true"),
    (Kind::Gateway, "[[gre]]\nlocal = \"10.7.0.1\"\nremote = \"10.7.0.2\""),
    (
        Kind::Gateway,
        "[[gre]]\nlocal = \"10.7.0.1\"\nremote = \"10.7.0.2\"\nto = [\"10.1.0.0/16\"]\nttl = 0",
    ),
    (Kind::Gateway, "[hfpep]\n[[rule]]\nname = \"a\"\nblock = \"softly\""),
    (Kind::Gateway, "[hfpep]\n[[rule]]\nname = \"a\"\nblock = \"icmp\"\npriority = 3"),
    (Kind::Gateway, "[hfpep]\n[[rule]]\nname = \"a\"\ndscp = 64"),
    (Kind::Gateway, "[hfpep]\n[[rule]]\nname = \"a\"\nto-port = \"http\""),
    (
        Kind::Gateway,
        "[hfpep]\n[[tls]]\nname = \"a\"\nrole = \"client\"\ntrust-anchors = \"a\"\nalpn = [\"h2\"]",
    ),
    (Kind::Gateway, "[hfpep]\n[[tls]]\nname = \"a\"\nrole = \"server\"\ncertificate = \"a\""),
    (Kind::Scenario, "nodes = []"),
    (Kind::Scenario, "nodes = [\"a/b\"]"),
    (Kind::Scenario, "nodes = [\"a\"]\nhbh = 1"),
    (Kind::Scenario, "nodes = [\"a\"]\nhbh = { retires = 3 }"),
    (Kind::Scenario, "nodes = [\"a\"]\nduration = 60"),
    (Kind::Scenario, "nodes = [\"a\"]\nrouting = \"rip\""),
    (Kind::Scenario, "nodes = [\"a\"]\nseed = -1"),
    (Kind::Scenario, "nodes = [\"a\", \"b\"]\n[[link]]\nbetwen = [\"a\", \"b\"]"),
    (Kind::Scenario, "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\"]"),
    (Kind::Scenario, "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = 300"),
    (
        Kind::Scenario,
        "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nthere = { dealy = \"1s\" }",
    ),
    (
        Kind::Scenario,
        "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[tcp]]\nfrom = \"a\"",
    ),
    (
        Kind::Scenario,
        "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[tcp]]\nfrom = \"a\"\nto = \"b\"\noptions = { algorithm = \"vegass\" }",
    ),
    (
        Kind::Scenario,
        "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[udp]]\nfrom = \"a\"\nto = \"b\"\npayload = 100",
    ),
    (
        Kind::Scenario,
        "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[udp]]\nfrom = \"a\"\nto = \"b\"\npayload = 8\nrate = \"1kbit\"",
    ),
    (Kind::Scenario, "nodes = [\"a\", \"b\"]\n[[net]]\nhears = \"some\""),
    (Kind::Scenario, "nodes = [\"a\", \"b\"]\n[[hf]]\nstations = [\"a\"]"),
    (Kind::Scenario, "nodes = [\"a\"]\n[node.a]\nposition = [1]"),
    (Kind::Hf, "spede = 3"),
    (Kind::Hf, "json = 3"),
    (Kind::Hf, "seed = [1]"),
    (Kind::Hf, "speed = true"),
    (Kind::Hf, "nonsense = false"),
    (Kind::Hf, "calls = 99"),
];

/// Wrong files whose mistakes a schema cannot see, one of each kind: `docs/guide/gateway.md`, "Editors".
const UNSEEN: &[(Kind, &str)] = &[
    // Nothing to do.
    (Kind::Gateway, "log = \"info\""),
    // The size of a quantity that is written as a text.
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nhello.interval = \"1ms\""),
    // Conditions between several values.
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\"]\nhello.hold = \"3s\""),
    // What is there twice.
    (Kind::Gateway, "[hbh]\ninterfaces = [\"a\", \"a\"]"),
    // Texts that their own types parse: keys, host bits, names of hosts, waveforms.
    (Kind::Gateway, "[[gre]]\nlocal = \"10.7.0.1\"\nremote = \"10.7.0.2\"\nto = [\"10.1.0.1/16\"]"),
    // References to other parts of the file.
    (Kind::Gateway, "[hfpep]\n[[rule]]\nname = \"a\"\ntls = \"b\""),
    (Kind::Scenario, "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"c\"]"),
    // Tables that another key asks for.
    (Kind::Scenario, "nodes = [\"a\"]\n[aodv]\nmanet = \"10.0.0.0/8\""),
    // A parameter that another one asks for.
    (
        Kind::Scenario,
        "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n[[tcp]]\nfrom = \"a\"\nto = \"b\"\nstart = \"2h\"",
    ),
    // What the options of a command parse.
    (Kind::Hf, "ber = 0.7"),
    (Kind::Hf, "address-a = \"1.2.3\""),
];

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The examples, with their texts and kinds.
fn examples() -> Vec<(PathBuf, String, Kind)> {
    let all = files(&root().join("examples"));
    let all = all.into_iter().filter(|path| path.extension().is_some_and(|it| it == "toml"));
    all.map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let all = [Kind::Gateway, Kind::Scenario, Kind::Hf];
        let kind = all.into_iter().find(|kind| kind.reads(&path, &text).is_ok());
        let kind = kind.unwrap_or_else(|| panic!("{} is of no kind", path.display()));
        (path, text, kind)
    })
    .collect()
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Scenario => "scenario",
            Self::Hf => "hf",
        }
    }

    /// What the reader of such files says.
    fn reads(self, path: &Path, text: &str) -> Result<(), String> {
        match self {
            Self::Gateway => {
                let read = gateway::Config::parse("a.toml", text);
                read.map(drop).map_err(|why| why.to_string())
            }
            Self::Scenario => {
                let read = ::lab::scenario::Plan::parse(path, text.to_owned());
                read.map(drop).map_err(|why| why.to_string())
            }
            Self::Hf => crate::hf::check_text(text).map_err(|why| why.to_string()),
        }
    }
}

/// A schema that is ready to judge files. It knows the words of JSON Schema that ours use, and no others.
struct Judge {
    schema: Json,
    patterns: BTreeMap<String, Regex>,
}

impl Judge {
    /// The one of a kind of files. Its patterns take long to compile.
    fn of(kind: Kind) -> &'static Self {
        static ALL: [OnceLock<Judge>; 3] = [const { OnceLock::new() }; 3];
        ALL[kind as usize].get_or_init(|| {
            let schema = kind.schema();
            let mut patterns = BTreeMap::new();
            collect(&schema, &mut patterns);
            Self { schema, patterns }
        })
    }

    /// What is wrong with the text of a file; `None` if it is no TOML, of which a schema says nothing.
    fn judge(&self, text: &str) -> Option<Result<(), String>> {
        let file: toml::Table = text.parse().ok()?;
        Some(self.fits(&self.schema, &json(toml::Value::Table(file)), "file"))
    }

    fn fits(&self, schema: &Json, value: &Json, at: &str) -> Result<(), String> {
        let Json::Object(words) = schema else { return Err(format!("{at}: no schema")) };
        for (word, wanted) in words {
            let is_met = match word.as_str() {
                "$ref" => {
                    let name = wanted.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.fits(&self.schema["$defs"][name], value, at)?;
                    true
                }
                "type" => match wanted {
                    Json::Array(any) => any.iter().any(|one| is_of(one, value)),
                    one => is_of(one, value),
                },
                "enum" => wanted.as_array().unwrap().contains(value),
                "const" => match (wanted.as_f64(), value.as_f64()) {
                    (Some(wanted), Some(value)) => (wanted - value).abs() < f64::EPSILON,
                    _ => wanted == value,
                },
                "minimum" => value.as_f64().is_none_or(|it| it >= wanted.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|it| it <= wanted.as_f64().unwrap()),
                "minLength" => value.as_str().is_none_or(|it| it.chars().count() >= number(wanted)),
                "maxLength" => value.as_str().is_none_or(|it| it.chars().count() <= number(wanted)),
                "minItems" => value.as_array().is_none_or(|it| it.len() >= number(wanted)),
                "maxItems" => value.as_array().is_none_or(|it| it.len() <= number(wanted)),
                "pattern" => {
                    let pattern = &self.patterns[wanted.as_str().unwrap()];
                    value.as_str().is_none_or(|it| pattern.is_match(it))
                }
                "required" => {
                    let mut names = wanted.as_array().unwrap().iter();
                    value.is_object() && names.all(|it| !value[it.as_str().unwrap()].is_null())
                }
                "anyOf" => {
                    let mut any = wanted.as_array().unwrap().iter();
                    any.any(|one| self.fits(one, value, at).is_ok())
                }
                "oneOf" => {
                    let any = wanted.as_array().unwrap().iter();
                    any.filter(|one| self.fits(one, value, at).is_ok()).count() == 1
                }
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.fits(wanted, item, at)?;
                    }
                    true
                }
                "properties" => {
                    for (name, one) in wanted.as_object().unwrap() {
                        if let Some(inner) = value.get(name) {
                            self.fits(one, inner, &format!("{at}.{name}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = schema["properties"].as_object();
                    let none = Map::new();
                    for (name, inner) in value.as_object().unwrap_or(&none) {
                        if known.is_some_and(|known| known.contains_key(name)) {
                            continue;
                        }
                        match wanted {
                            Json::Bool(false) => return Err(format!("{at}: {name} is unknown")),
                            one => self.fits(one, inner, &format!("{at}.{name}"))?,
                        }
                    }
                    true
                }
                "$schema" | "$defs" | "title" | "description" | "default" => true,
                other => panic!("{other} is a word that nobody here understands"),
            };
            if !is_met {
                return Err(format!("{at}: {value} is not {word} {wanted}"));
            }
        }
        Ok(())
    }
}

fn number(json: &Json) -> usize {
    json.as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX)
}

fn is_of(kind: &Json, value: &Json) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|it| it.fract() == 0.0),
        other => panic!("{other} is no type of ours"),
    }
}

fn collect(schema: &Json, patterns: &mut BTreeMap<String, Regex>) {
    match schema {
        Json::Object(words) => {
            if let Some(pattern) = words.get("pattern").and_then(Json::as_str) {
                patterns.insert(pattern.to_owned(), Regex::new(pattern).unwrap());
            }
            words.values().for_each(|it| collect(it, patterns));
        }
        Json::Array(all) => all.iter().for_each(|it| collect(it, patterns)),
        _ => {}
    }
}

fn json(value: toml::Value) -> Json {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        // JSON has no infinite numbers; none of ours is allowed to be one.
        toml::Value::Float(number) => {
            serde_json::Number::from_f64(number).map_or("inf".into(), Json::Number)
        }
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(all) => all.into_iter().map(json).collect(),
        toml::Value::Table(table) => {
            Json::Object(table.into_iter().map(|(name, value)| (name, json(value))).collect())
        }
    }
}

#[test]
fn each_example_fits_its_schema_and_names_it_in_its_first_line() {
    for (path, text, kind) in examples() {
        let judged = Judge::of(kind).judge(&text);
        assert_eq!(judged, Some(Ok(())), "{}", path.display());

        let first = text.lines().next().unwrap();
        let named = first.strip_prefix("#:schema ").unwrap_or_else(|| {
            panic!("{}: the first line is {first}, not #:schema FILE", path.display())
        });
        let named = fs::canonicalize(path.parent().unwrap().join(named)).unwrap();
        let expected = root().join(format!("schema/{}.schema.json", kind.name()));
        assert_eq!(named, expected, "{}", path.display());
    }
}

/// `TRACKWAY_RENEW=1 cargo test -p trackway schema::` writes the files anew.
#[test]
fn the_schemas_in_the_tree_are_those_that_the_program_prints() {
    for kind in [Kind::Gateway, Kind::Scenario, Kind::Hf] {
        let path = root().join(format!("schema/{}.schema.json", kind.name()));
        let printed = format!("{:#}\n", kind.schema());
        if std::env::var_os("TRACKWAY_RENEW").is_some() {
            fs::write(&path, &printed).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == printed,
            "{} is stale: TRACKWAY_RENEW=1 cargo test -p trackway schema::",
            path.display()
        );
    }
}

#[test]
fn wrong_files_are_refused_by_their_schema_as_by_their_reader() {
    for (kinds, is_seen) in [(SEEN, true), (UNSEEN, false)] {
        for (kind, text) in kinds {
            let read = kind.reads(Path::new("a.toml"), text);
            assert!(read.is_err(), "its reader takes {}: {text}", kind.name());
            let judged = Judge::of(*kind).judge(text).unwrap();
            assert_eq!(judged.is_err(), is_seen, "{}: {text}\n{judged:?}", kind.name());
        }
    }
}

/// Every key of every table gets other values and another name, in the first example that has it.
#[test]
fn no_schema_refuses_what_its_reader_takes() {
    const VALUES: &[&str] = &[
        "true",
        "0",
        "1",
        "2",
        "7",
        "-1",
        "1000000",
        "0.5",
        "1.0",
        "\"\"",
        "\"x\"",
        "\"1\"",
        "\"5%\"",
        "\"1s\"",
        "\"1.5 MIN\"",
        "\"2kbit\"",
        "\"unlimited\"",
        "\"10.2.0.0/16\"",
        "\"10.2.0.1:5\"",
        "\"[::1]:5\"",
        "\"::1\"",
        "\"0.0.0.1\"",
        "\"/a\"",
        "\"0600\"",
        "[]",
        "[1]",
        "[1, 2]",
        "[\"a\"]",
        "[\"10.2.0.0/16\"]",
        "[\"10.2.0.1\"]",
        "\"tcp\"",
        "{}",
    ];
    let mut counts = [0, 0, 0];
    let mut files: Vec<(PathBuf, String, Kind)> = examples();
    for (kind, folder) in [(Kind::Gateway, "gateway_config"), (Kind::Scenario, "scenario_file")] {
        for path in self::files(&root().join("fuzz/corpus").join(folder)) {
            files.extend(fs::read_to_string(&path).ok().map(|text| (path, text, kind)));
        }
    }
    for kind in [Kind::Gateway, Kind::Scenario, Kind::Hf] {
        let judge = Judge::of(kind);
        let mut tried = BTreeSet::new();
        for (path, text, _) in files.iter().filter(|(_, _, its)| its.name() == kind.name()) {
            let lines: Vec<&str> = text.lines().collect();
            let mut changed = vec![text.clone()];
            let is_example = path.extension().is_some_and(|it| it == "toml");
            let mut table = "";
            for (at, line) in lines.iter().enumerate().filter(|_| is_example) {
                let line = line.strip_prefix("# ").unwrap_or(line);
                if line.starts_with('[') {
                    table = line;
                }
                let Some((key, _)) = line.split_once(" = ") else { continue };
                if !tried.insert((table.to_owned(), key.to_owned())) {
                    continue;
                }
                let put = |line: String| {
                    let mut lines: Vec<&str> = lines.clone();
                    lines[at] = &line;
                    lines.join("\n")
                };
                changed.push(put(format!("{key}x = 1")));
                changed.extend(VALUES.iter().map(|value| put(format!("{key} = {value}"))));
            }
            for text in changed {
                let Some(judged) = judge.judge(&text) else { continue };
                let read = kind.reads(path, &text);
                counts[usize::from(read.is_err()) + usize::from(judged.is_err())] += 1;
                let (judged, read) = (judged.err().unwrap_or_default(), read.err());
                assert!(
                    judged.is_empty() || read.is_some(),
                    "{}: the reader takes it, and the schema says: {judged}\n{text}",
                    path.display()
                );
            }
        }
    }
    let [both_take, reader_refuses, both_refuse] = counts;
    assert!(both_take > 500 && both_refuse > 5 * reader_refuses, "{counts:?}");
}
