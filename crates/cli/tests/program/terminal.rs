//! Tests the output of every command: no misplaced secret, no control character of others.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// An example, and nobody's: a private key in base64 and in base 16.
const SECRETS: [&str; 2] = [
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
];

/// A configuration without rules.
const HBH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hbh/hbh.toml");

#[test]
fn a_refused_command_line_says_what_is_allowed() {
    let folder = std::env::temp_dir();
    for (words, told) in [
        (&["init", "foo"][..], "'foo'; there are hbh, hf, manet, messages, tunnel\n"),
        (&["bench", "--json", "foo"], "'foo'; there are codec, hbh, "),
        (&["statos"], "'status'"),
        (
            &["explain", "icmp", "10.0.0.1", "10.0.0.2", "--config", HBH],
            "hbh.toml: rules are for [hfpep] and [ipclient], and it has neither, so the kernel's routes decide",
        ),
        (&["sim", "run", "x.toml", "--seed", "x"], "'--seed <N>': a whole number is expected\n"),
        (
            &["sim", "run", "x", "--seed", "99999999999999999999"],
            "'--seed <N>': the number is too large\n",
        ),
        (&["receive", "99999"], "99999 is not allowed, only 0 to 65535\n"),
        (
            &["send", "x", "10.9.0.300"],
            "an address is expected, such as 192.0.2.1 or 2001:db8::1\n",
        ),
        (
            &["init", "hf", "--modem-here", "192.0.2.7"],
            "an address and a port are expected, such as 192.0.2.7:3000\n",
        ),
        (
            &["init", "tunnel", "--networks-here", "10.2.3.4/16"],
            "10.2.3.4/16 has host bits: 10.2.0.0/16 is meant\n",
        ),
    ] {
        let refused = trackway(&folder, words);

        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn a_very_long_value_is_not_repeated() {
    let (folder, long) = (std::env::temp_dir(), "x".repeat(20_000));
    for words in [
        &["status", &long][..],
        &["lab", "run", &long],
        &["explain", "udp", &long, "10.0.0.1:7"],
        &["init", "tunnel", "--here", &long],
        &["import", &long],
        &[&long],
    ] {
        let refused = trackway(&folder, words);

        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.len() < 5_000 && error.contains(" octets are left out] "), "{error}");
    }
}

#[test]
fn a_command_that_finds_no_gateway_ends_with_4() {
    for words in [
        &["status"][..],
        &["reload"],
        &["hand-over"],
        &["peer", "list"],
        &["peer", "remove", "van"],
        &["hf", "disable"],
        &["explain", "icmp", "10.0.0.1", "10.0.0.2"],
    ] {
        let words = [words, &["--control", "/nowhere/control.sock"]].concat();

        let ended = trackway(&std::env::temp_dir(), &words);

        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(4), "{words:?}: {error}");
        assert_eq!(error, "trackway: no gateway has its control socket at /nowhere/control.sock\n");
    }
}

#[test]
fn files_stay_when_nobody_reads_what_is_said_about_them() {
    let folder = std::env::temp_dir().join(format!("trackway-unread-{}", std::process::id()));
    let (unread, output) = std::io::pipe().unwrap();
    drop(unread);

    let ended = Command::new(env!("CARGO_BIN_EXE_trackway"))
        .args(["init", "hbh", "--interface", "wlan0", "--out"])
        .arg(&folder)
        .stdout(output)
        .status()
        .unwrap();

    assert!(ended.success() && folder.join("gateway.toml").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn who_cannot_write_to_standard_output_says_so() {
    for words in [
        &["--help"][..],
        &["--version"],
        &["check", "examples/manet/manet-olsr.toml"],
        &["completions", "fish"],
        &["doctor", "examples/manet/manet-olsr.toml"],
        &["explain", "icmp", "10.1.2.3", "10.2.0.1", "--config", "examples/hf/rules.toml"],
        &["keygen"],
        &["lab", "list", "--json"],
        &["man", "run"],
        &["parameters", "hbh"],
        &["schema", "hf"],
        &["sim", "run", "examples/scenarios/chain.toml"],
    ] {
        let ended = Command::new(env!("CARGO_BIN_EXE_trackway"))
            .args(words)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();

        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{words:?} {said}");
        let told = "trackway: cannot write to standard output: No space left on device\n";
        assert!(said.ends_with(told), "{words:?} {said}");
    }
}

#[test]
fn a_secret_in_place_of_a_word_of_any_command_is_not_repeated() {
    let folder = std::env::temp_dir().join(format!("trackway-words-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let help = trackway(&folder, &["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.split_once("Commands:\n").unwrap().1;
    let commands: Vec<_> = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        // It makes a key, or a file that is called so.
        .filter(|command| !["help", "keygen"].contains(command))
        .collect();

    for command in &commands {
        for secret in SECRETS {
            let words = [
                vec![secret.to_owned()],
                vec![format!("--{secret}")],
                vec![format!("--control={secret}")],
                vec![format!("--config={secret}"), "x".to_owned()],
                vec!["run".to_owned(), secret.to_owned()],
                vec!["1".to_owned(), secret.to_owned()],
            ];
            for words in words {
                let words: Vec<_> =
                    [*command].into_iter().chain(words.iter().map(String::as_str)).collect();
                let Output { stdout, stderr, status } = trackway(&folder, &words);
                let said = [stdout, stderr].map(|it| String::from_utf8(it).unwrap()).join("\n");
                assert!(!status.success(), "{words:?} {said}");
                assert!(said.len() > 10 && !said.contains(&secret[..12]), "{words:?} {said}");
            }
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(commands.len() > 12, "{commands:?}");
    let wrong = trackway(Path::new("/"), &["status", "--colour"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("unexpected argument '--colour'"), "{said}");
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_file_with_control_characters_in_its_name_moves_no_cursor() {
    let folder = std::env::temp_dir().join(format!("trackway-names-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let name = "a\u{1b}[2J\u{9b}H\nall right.toml";
    fs::write(folder.join(name), "[hbh]\n").unwrap();

    let outputs = [
        trackway(&folder, &["check", name]),
        trackway(&folder, &["sim", "run", name]),
        trackway(&folder, &["send", "missing\u{1b}[2J", "10.0.0.1"]),
    ];
    fs::remove_dir_all(&folder).unwrap();

    for Output { stdout, stderr, .. } in outputs {
        let said = [stdout, stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        assert!(said.contains("\\u001b[2J"), "{said:?}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    }
}

#[test]
fn nothing_is_printed_past_the_writer_without_control_characters() {
    let src = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut past = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() && path != src.join("terminal.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for way in ["println!", "print!(", "io::stdout()", "io::stderr()"] {
                    if code.contains(way) {
                        past.push(format!("{}: {way}", path.display()));
                    }
                }
            }
        }
    }

    assert!(past.is_empty(), "{past:#?}");
}

fn trackway(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trackway"))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("trackway runs")
}

#[test]
fn an_empty_timeline_says_why_it_is_empty() {
    let folder = std::env::temp_dir().join(format!("trackway-timeline-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let args = "hf --duration 100ms --timeline a.svg --sis-a 127.0.0.1:0 --sis-b 127.0.0.1:0";
    let args: Vec<_> = args.split(' ').collect();
    let Output { stderr, status, .. } = trackway(&folder, &args);
    let drawn = folder.join("a.svg").exists();
    fs::remove_dir_all(&folder).unwrap();

    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success() && drawn, "{said}");
    assert!(said.contains("a.svg: nobody transmitted"), "{said}");
}

#[test]
fn two_nodes_show_traffic_without_other_clients() {
    let mut nodes = Command::new(env!("CARGO_BIN_EXE_trackway"))
        .args("hf --talk --duration 120s --sis-a 127.0.0.1:0 --sis-b 127.0.0.1:0".split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("trackway runs");
    let said = BufReader::new(nodes.stderr.take().unwrap());

    let mut trips =
        said.lines().map_while(Result::ok).filter(|line| line.contains(" to B and back in "));
    let two = [trips.next(), trips.next()];

    nodes.kill().unwrap();
    nodes.wait().unwrap();
    assert!(
        two.iter().flatten().all(|line| line.starts_with("client A: 200 octets to B")),
        "{two:?}"
    );
    assert!(two[1].is_some(), "{two:?}");
}
