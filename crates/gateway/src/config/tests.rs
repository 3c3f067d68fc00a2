use std::collections::BTreeSet;
use std::time::Duration;

use ::hbh::Profile;
use ::hbh::neighbours::Listed;
use base::ethernet::Mac;

use super::*;

const HBH: &str = "[hbh]\ninterfaces = [\"wlan0\"]\n";

#[test]
fn interfaces_alone_are_enough() {
    let config = Config::parse("a.toml", HBH).unwrap();

    let hbh = config.hbh.unwrap();
    assert_eq!(hbh.interfaces, ["wlan0"]);
    assert_eq!(hbh.core, ::hbh::Config::new(Profile::Default));
    assert_eq!((hbh.neighbours, config.process), (None, Process::default()));
    assert_eq!(hbh.hello.hold, Duration::from_secs(20));
}

#[test]
fn the_example_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hbh/hbh.toml");

    let config = Config::read(Path::new(path)).unwrap();

    let defaults = Config::parse("a.toml", HBH).unwrap();
    let (hbh, usual) = (config.hbh.clone().unwrap(), defaults.hbh.clone().unwrap());
    assert_eq!(Hbh { interfaces: usual.interfaces.clone(), ..hbh }, usual);
    assert_eq!(config, Config { hbh: config.hbh.clone(), ..defaults });
}

#[test]
fn everything_can_be_set() {
    let text = r#"
        log = "debug"
        metrics = "/tmp/trackway.prom"
        [hbh]
        interfaces = ["wlan0", "wlan1"]
        profile = "paper"
        protocol = 254
        neighbours = ["10.0.0.2", "fe80::1 at 02:11:22:33:44:55"]
        group-key = "group.key"
        retries = 3
        window = [2, 16]
        congestion = 30
        clear = 5
        queue = 60
        flows = 10
        [hbh.rto]
        initial = "2s"
        [hbh.hello]
        interval = "500ms"
        hold = "3s"
        [hbh.intercept]
        plain-udp = []
        clamp-mss = false
        [hbh.limits]
        neighbours = 10
    "#;

    let config = Config::parse("a.toml", text).unwrap();

    let hbh = config.hbh.unwrap();
    assert_eq!(hbh.interfaces, ["wlan0", "wlan1"]);
    assert_eq!(hbh.core.profile, Profile::Paper);
    assert_eq!((hbh.core.protocol, hbh.core.retries, hbh.core.window), (254, 3, (2, 16)));
    assert_eq!((hbh.core.queue, hbh.core.flows, hbh.limits.neighbours), (60, 10, 10));
    assert_eq!(hbh.core.rto.initial, Duration::from_secs(2));
    let station = Some(Mac([2, 0x11, 0x22, 0x33, 0x44, 0x55]));
    assert_eq!(
        hbh.neighbours.unwrap(),
        [
            Listed { address: "10.0.0.2".parse().unwrap(), station: None },
            Listed { address: "fe80::1".parse().unwrap(), station },
        ]
    );
    assert_eq!(hbh.group_key, Some("group.key".into()));
    assert_eq!(hbh.hello.interval, Duration::from_millis(500));
    assert!(hbh.intercept.plain_udp.is_empty() && !hbh.intercept.clamp_mss);
}

#[test]
fn an_error_names_file_line_key_and_what_is_allowed() {
    for (line, expected) in [
        ("protocol = 0", "hbh.protocol: 0 is not allowed: 1 to 255"),
        ("profile = \"seed\"", "hbh.profile: \"seed\" is not allowed: \"default\" or \"paper\""),
        (
            "neighbours = []",
            "hbh.neighbours: the list is empty: \"discover\", or at least one address",
        ),
        (
            "neighbours = [\"10.0.0.2\", \"b\"]",
            "hbh.neighbours: \"b\" is not allowed: invalid IP address syntax; an address",
        ),
        (
            "neighbours = [\"10.0.0.2 at 2\"]",
            "hbh.neighbours: \"10.0.0.2 at 2\" is not allowed: no hardware address: six",
        ),
        ("neighbours = \"all\"", "hbh.neighbours: \"all\" is not allowed: \"discover\", or a list"),
        ("retires = 3", "hbh.retires: there is no such key; retries is probably meant"),
        ("group_key = \"a\"", "hbh.group_key: is called group-key"),
        ("hello.interval = \"1ms\"", "hbh.hello.interval: \"1ms\" is not allowed: 100ms to 10min"),
        (
            "hello.hold = \"3s\"",
            "hbh.hello.hold: hello.hold = \"3s\", hello.interval = \"2s\" are not allowed together: \
             hello.hold is at least twice hello.interval",
        ),
        (
            "[limts]",
            "limts: there is no such key; allowed are gre, hbh, hfpep, host, ipclient, log",
        ),
        ("[hbh.limts]", "hbh.limts: there is no such key; limits is probably meant"),
        ("x", ""),
    ] {
        let said = Config::parse("a.toml", &format!("{HBH}{line}\n")).unwrap_err().to_string();
        let expected = format!("a.toml:3: {expected}");
        assert!(said.starts_with(&expected), "{line}:\n{said}\nnot\n{expected}");
        assert!(!said.contains('\n'), "{said}");
    }
    for (text, expected) in [
        ("", "a.toml: nothing to do: a section [hbh]"),
        ("metrics = 7", "a.toml:1: metrics: 7 is not allowed: a text in quotes"),
        ("log = \"all\"", "a.toml:1: log: \"all\" is not allowed: \"trace\", \"debug\""),
        ("[hbh]\nretries = 3", "a.toml:1: hbh: interfaces is missing"),
        ("hbh.interfaces = []", "a.toml:1: hbh.interfaces: 0 of them: 1 to 16 are allowed"),
        (
            "[hbh]\ninterfaces = [\"a b\"]",
            "a.toml:2: hbh.interfaces: \"a b\" cannot be an interface",
        ),
        ("[hbh]\ninterfaces = [\"a\", \"a\"]", "a.toml:2: hbh.interfaces: a is there twice"),
    ] {
        let said = Config::parse("a.toml", text).unwrap_err().to_string();
        assert!(said.starts_with(expected), "{said}\nnot\n{expected}");
    }
}

#[test]
fn what_once_stood_elsewhere_is_told_where_it_is() {
    for (text, expected) in [
        (
            "interfaces = [\"wlan0\"]",
            "a.toml:1: interfaces: is called hbh.interfaces: write interfaces = [\"wlan0\"] in the \
             section [hbh]",
        ),
        (
            "log = \"info\"\n[hello]\ninterval = \"2s\"",
            "a.toml:2: hello: is called hbh.hello: write [hbh.hello]",
        ),
        (
            "[limits]\nflows = 3",
            "a.toml:2: limits.flows: is called hbh.flows: write flows = 3 in the section [hbh]",
        ),
        (
            "[limits]\nsend_buffer = 8_192 # octets",
            "a.toml:2: limits.send_buffer: is called hbh.limits.send-buffer: write send-buffer = 8_192 \
             in the section [hbh.limits]",
        ),
        ("[limits]\nneighbours = 3", "a.toml:1: limits: is called hbh.limits: write [hbh.limits]"),
    ] {
        assert_eq!(Config::parse("a.toml", text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_rows_of_a_gateway_hold() {
    for parameter in PARAMETERS.parameters {
        let default = (parameter.get)(&Hbh::new(Vec::new()));

        assert!(parameter.kind.allows(&default), "{} = {default}", parameter.name);
    }
    assert_eq!(PARAMETERS.check(&Hbh::new(Vec::new())), Ok(()));
}

#[test]
fn names_that_mean_other_interfaces_are_refused() {
    for name in ["wlan%d", "all", "default", ".", "..", "eth0:1"] {
        let text = format!("[hbh]\ninterfaces = [\"{name}\"]\n");

        let refused = Config::parse("a.toml", &text).unwrap_err().to_string();

        assert!(refused.contains("cannot be an interface"), "{refused}");
    }
    assert!(Config::parse("a.toml", "[hbh]\ninterfaces = [\"br-lan.7\"]\n").is_ok());
}

/// Examples, and nobody's: a private key in base64, as it is and shortened by accident, in base 16, and in PEM.
const SECRETS: [&str; 4] = [
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh",
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    "-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8Q\\n-----END PRIVATE KEY-----",
];

/// Keys with texts that no example has.
const IN_NO_EXAMPLE: &str = "user = \"trackway\"\nlog = \"info\"\n[sar]\nstore = \"/var/lib/it\"\nsocket = \"/run/it\"\n\
    socket-mode = \"0660\"\nsocket-owner = \"root\"\nsocket-group = \"root\"\n";

/// Whether a text has any twelve octets in a row of a secret.
fn has_part_of(text: &str, secret: &str) -> bool {
    let is_label = |part: &[u8]| part.contains(&b'-') || part.contains(&b' ');
    secret
        .as_bytes()
        .windows(12)
        .any(|part| !is_label(part) && text.as_bytes().windows(12).any(|other| other == part))
}

#[test]
fn a_secret_in_place_of_any_value_is_refused_and_not_repeated() {
    let elsewhere = std::env::temp_dir().join(format!("trackway-secret-{}", std::process::id()));
    std::fs::create_dir_all(&elsewhere).unwrap();
    let mut fed = BTreeSet::new();
    let is_key = |key: &str| key.chars().all(|it| it.is_ascii_lowercase() || ".-_".contains(it));
    for text in examples().into_iter().chain([IN_NO_EXAMPLE.to_owned()]) {
        if Config::parse("a.toml", &text).is_err() {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let line = line.strip_prefix("# ").unwrap_or(line);
            let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| is_key(key)) else {
                continue;
            };
            fed.insert(key.to_owned());
            for secret in SECRETS {
                let values =
                    [format!("\"{secret}\""), format!("[\"{secret}\"]"), secret.to_owned()];
                for value in values {
                    let put = |(place, line): (usize, &str)| match place == at {
                        true => format!("{key} = {value}\n"),
                        false => format!("{line}\n"),
                    };
                    let changed: String = text.lines().enumerate().map(put).collect();
                    let path = elsewhere.join("a.toml");
                    std::fs::write(&path, &changed).unwrap();
                    for outcome in [Config::parse("a.toml", &changed), Config::read(&path)] {
                        match outcome {
                            Err(said) => assert!(!has_part_of(&said.to_string(), secret), "{said}"),
                            Ok(_) => assert!(key.ends_with("public-key"), "taken: {key} = {value}"),
                        }
                    }
                }
            }
        }
    }
    std::fs::remove_dir_all(&elsewhere).unwrap();
    assert!(fed.len() > 60 && fed.contains("private-key") && fed.contains("group-key"), "{fed:?}");
    for place in ["private-key", "preshared-key", "key", "certificate", "metrics", "user", "socket"]
    {
        assert!(fed.contains(place), "{place} is in no example");
    }
}

#[test]
fn who_writes_a_key_where_a_file_belongs_is_told_what_to_do() {
    let text = format!(
        "[tunnel]\nprivate-key = \"{}\"\naddresses = [\"10.99.0.1/24\"]\n[[tunnel.peer]]\nname = \"b\"\n\
         public-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nroutes = [\"10.2.0.0/16\"]\n",
        SECRETS[0]
    );

    let said = Config::parse("k.toml", &text).unwrap_err().to_string();

    let expected =
        "k.toml:2: tunnel.private-key: what is written here looks like a secret key itself";
    assert!(said.starts_with(expected) && said.contains("mode 0600"), "{said}");
}

/// A value that no key takes.
const NO_VALUE: &str = "1979-05-27T07:32:00Z";

/// The lines of a text with keys of their own, counted from 1, and their keys with the table.
fn keys_of(text: &str) -> Vec<(usize, String)> {
    let mut table = "";
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            table = line.trim_matches(|it| it == '[' || it == ']');
        } else if let Some((key, value)) = line.split_once(" = ")
            && !key.starts_with('#')
            // The first line of a value of several lines stays.
            && (!value.starts_with('[') || value.contains(']'))
        {
            keys.push((at + 1, format!("{table}.{}", key.trim())));
        }
    }
    keys
}

/// The lines that are complained of when these are broken.
fn told(text: &str, broken: &[usize]) -> BTreeSet<usize> {
    let line =
        |(at, line): (usize, &str)| match (broken.contains(&(at + 1)), line.split_once(" = ")) {
            (true, Some((key, _))) => format!("{key} = {NO_VALUE}\n"),
            _ => format!("{line}\n"),
        };
    let text: String = text.lines().enumerate().map(line).collect();
    let Err(complaints) = Config::parse("a.toml", &text) else { return BTreeSet::new() };
    let line = |complaint: &Complaint| {
        let said = complaint.to_string();
        let line = said.strip_prefix("a.toml:").and_then(|rest| rest.split(':').next());
        line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{said}\n{text}"))
    };
    complaints.all().iter().map(line).collect()
}

#[test]
fn all_that_is_wrong_is_told_and_nothing_else() {
    let mut pairs = 0;
    for text in examples() {
        if Config::parse("a.toml", &text).is_err() {
            continue;
        }
        let keys = keys_of(&text);
        // What they decide on cannot be read without them.
        let decides = |key: &str| ["routing.protocol", "tls.role"].contains(&key);
        for (first, key) in &keys {
            assert_eq!(told(&text, &[*first]), [*first].into(), "{key}:\n{text}");
            for (second, other) in keys.iter().filter(|(second, _)| second > first) {
                if decides(key) || decides(other) {
                    continue;
                }
                let both = [*first, *second];
                assert_eq!(told(&text, &both), both.into(), "{key} and {other}:\n{text}");
                pairs += 1;
            }
        }
        let all: Vec<_> = keys.iter().filter(|(_, key)| !decides(key)).map(|(at, _)| *at).collect();
        assert_eq!(told(&text, &all), all.iter().copied().collect(), "{text}");
    }
    assert!(pairs > 300, "{pairs}");
}

#[test]
fn each_mistake_is_told_with_its_remedy() {
    let text = "log = \"inof\"\n[hbh]\ninterfaces = [\"wlan0\", \"a b\"]\nretires = 3\nwindow = [9, 2]\n\
                [hbh.hello]\ninterval = \"1h\"\n[[tls]]\nname = \"web\"\nrole = \"sevrer\"\n[[gre]]\n\
                local = \"10.0.0.1\"\n[frobnicate]\n";
    let said = Config::parse("a.toml", text).unwrap_err().to_string();
    let expected = [
        "a.toml:1: log: \"inof\" is not allowed: \"trace\", \"debug\", \"info\", \"warn\", \"error\"; \
         \"info\" is probably meant",
        "a.toml:3: hbh.interfaces: \"a b\" cannot be an interface: 1 to 15 letters or digits, such as \"wlan0\"",
        "a.toml:4: hbh.retires: there is no such key; retries is probably meant",
        "a.toml:5: hbh.window: [9, 2] is not allowed: 1 to ",
        "a.toml:7: hbh.hello.interval: \"1h\" is not allowed: 100ms to 10min",
        "a.toml:10: tls.role: \"sevrer\" is not allowed: \"client\", \"server\"; \"server\" is probably meant",
        "a.toml:11: gre: remote is missing",
        "a.toml:11: gre: to is missing",
        "a.toml:13: frobnicate: there is no such key; allowed are ",
    ];
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nnot\n{expected}");
    }
}

#[test]
fn all_that_is_no_toml_is_told() {
    let said =
        Config::parse("a.toml", "x\n[hbh]\ninterfaces = [\"a\"]\ny\n").unwrap_err().to_string();
    let lines: Vec<_> = said.lines().map(|line| line.split(':').nth(1).unwrap()).collect();

    assert_eq!(lines, ["1", "4"], "{said}");
}

#[test]
fn many_mistakes_are_told_up_to_a_bound_and_in_short_time() {
    let mut text = String::from("[hbh]\ninterfaces = [\"wlan0\"]\nneighbours = [");
    for _ in 0..50_000 {
        text += "\"x\",\n";
    }
    text += "]\n";
    let began = std::time::Instant::now();
    let said = Config::parse("a.toml", &text).unwrap_err();

    assert_eq!(said.all().len(), 64);
    assert!(
        said.to_string().ends_with("a.toml: and more: these are the first 64 that were found"),
        "{said}"
    );
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn other_files_are_told_by_what_they_are() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    for (name, expected) in [
        ("scenarios/chain.toml", "this is a scenario: `trackway sim run "),
        ("hf/hf.toml", "these are options of"),
    ] {
        let said = Config::read(&folder.join(name)).unwrap_err().to_string();
        assert!(said.contains(expected) && !said.contains('\n'), "{said}");
    }
}

/// Sections with keys that no example has.
const MORE_SECTIONS: &[&str] = &[
    "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.99.0.1/24\"]\n[[tunnel.peer]]\nname = \"b\"\n\
     public-key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nroutes = [\"10.2.0.0/16\"]\n",
    "[sar]\n[[sar.group]]\nvia = \"239.1.1.1\"\nmembers = [\"10.0.0.1\", \"10.0.0.2\"]\n[sar.carry]\nports = [5000]\n\
     [[sar.carry.peer]]\nto = [\"10.2.0.0/16\"]\ngateway = \"10.9.0.2\"\n",
    "[[gre]]\nlocal = \"10.7.0.1\"\nremote = \"10.7.0.2\"\nto = [\"10.1.0.0/16\"]\n",
    "[hfpep.bearer]\n[[hfpep.listen]]\nat = \"10.1.0.1:53\"\nnode = \"0.0.0.2\"\ntarget = \"10.2.0.1:53\"\n\
     [[hfpep.allow]]\nto = \"10.1.0.0/16\"\nnode = \"0.0.0.2\"\n[[rule]]\nname = \"one\"\n[[rule]]\nname = \"two\"\n\
     block = \"icmp\"\n",
    "[hfpep]\n[[hfpep.peer]]\nto = [\"10.2.0.0/16\"]\nnode = \"0.0.0.2\"\n[[tls]]\nname = \"a\"\nrole = \"server\"\n\
     certificate = \"a\"\nkey = \"b\"\nclient-trust-anchors = \"c\"\n[[tls.auth]]\nsan = \"a.example\"\nid = \"A\"\n\
     [[tls]]\nname = \"b\"\nrole = \"client\"\ntrust-anchors = \"c\"\n[[tls.target]]\nid = \"A\"\nto = \"10.0.0.1:5\"\n",
    "[ipclient]\naddresses = [\"10.88.0.1/24\"]\n[[ipclient.route]]\nto = [\"10.2.0.0/16\"]\nnode = \"0.0.0.2\"\n\
     [[ipclient.class]]\ndscp = [46]\npriority = 3\n[host]\ntables = 7000\nnetworks = [\"198.51.100.0/24\"]\n",
];

/// The texts of all examples, of which some are scenarios.
fn examples() -> Vec<String> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let kinds = std::fs::read_dir(folder).unwrap();
    let files = kinds.flat_map(|kind| std::fs::read_dir(kind.unwrap().path()).unwrap());
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn networks_next_to_this_host_are_networks_of_interfaces() {
    let read = |networks: &str| {
        let text = format!("[hbh]\ninterfaces = [\"wlan0\"]\n[host]\nnetworks = {networks}\n");
        Config::parse("a.toml", &text).map(|it| it.networks).map_err(|it| it.to_string())
    };

    let two = read("[\"198.51.100.0/24\", \"2001:db8::/64\"]").unwrap();
    assert_eq!(two, ["198.51.100.0/24", "2001:db8::/64"].map(|it| it.parse().unwrap()).into());
    for (wrong, why) in [
        ("\"0.0.0.0/0\"", "a.toml:4: host.networks: 0.0.0.0/0 is no network of one interface"),
        ("\"198.51.100.1/24\"", "has host bits: 198.51.100.0/24 is meant"),
    ] {
        let said = read(wrong).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn the_schema_has_the_keys_that_the_reader_asks_for_and_no_others() {
    let mut texts: Vec<String> = MORE_SECTIONS.iter().map(|&text| text.to_owned()).collect();
    texts.extend(examples());
    let mut asked = BTreeSet::new();
    for text in texts {
        let source = Source::new("a.toml", text);
        let document = source.parse().unwrap();
        if Config::from_document(&document, &source, None).is_ok() {
            asked.extend(document.asked());
        }
    }

    let described = settings::schema::names(&schema());

    let unknown: Vec<_> = described.difference(&asked).collect();
    let missing: Vec<_> = asked.difference(&described).collect();
    assert!(unknown.is_empty(), "nobody asks for {unknown:?}");
    assert!(missing.is_empty(), "the schema has not {missing:?}");
}
