use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Parser;
use gateway::Config;

use super::tunnel::Line;
use crate::failure::Misuse;

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Command {
    #[command(flatten)]
    args: super::Args,
}

/// A folder for a test, which is removed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        // Not below /tmp alone: the readers of configurations trust no folder that others may change.
        let at = std::env::temp_dir().join(format!("trackway-init-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&at);
        fs::create_dir(&at).unwrap();
        Self(at)
    }

    /// Runs `trackway init` with the files in a folder within.
    fn init(&self, folder: &str, line: &[&str]) -> Result<PathBuf, String> {
        let out = self.0.join(folder);
        let line = line.iter().copied().chain(["--out", out.to_str().unwrap()]);
        let command = Command::try_parse_from(line).map_err(|why| why.to_string())?;
        super::run(command.args).map(|_| out).map_err(|why| format!("{why:#}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Each kind with flags only: nobody is asked.
const KINDS: &[(&str, &[&str], &[&str])] = &[
    ("hbh", &["hbh", "--interface", "wlan0"], &["gateway.toml", "group.key"]),
    ("manet", &["manet", "--interface", "wlan0"], &["gateway.toml", "group.key"]),
    (
        "messages",
        &["messages", "--here", "10.9.0.1", "--there", "10.9.0.2"],
        &["a/gateway.toml", "b/gateway.toml"],
    ),
    (
        "hf",
        &[
            "hf",
            "--modem-here",
            "192.0.2.7:3000",
            "--modem-there",
            "192.0.2.8:3000",
            "--networks-here",
            "10.1.0.0/16",
            "--networks-there",
            "10.2.0.0/16",
        ],
        &["a/gateway.toml", "a/group.key", "b/gateway.toml", "b/group.key"],
    ),
    (
        "tunnel",
        &[
            "tunnel",
            "--here",
            "192.0.2.1",
            "--there",
            "192.0.2.2:7",
            "--networks-there",
            "10.2.0.0/16,fd00:2::/64",
        ],
        &["a/gateway.toml", "a/private.key", "b/gateway.toml", "b/private.key"],
    ),
];

#[test]
fn each_kind_writes_files_that_are_right_and_keys_for_their_owner_alone() {
    let scratch = Scratch::new("kinds");
    for (name, line, files) in KINDS {
        let out = scratch.init(name, line).unwrap();

        for file in *files {
            let path = out.join(file);
            let is_secret = file.ends_with(".key");
            assert_eq!(mode(&path), if is_secret { 0o600 } else { 0o644 }, "{file}");
            if !is_secret {
                Config::read(&path).unwrap();
                let text = fs::read_to_string(&path).unwrap();
                let named = text.lines().next().unwrap().strip_prefix("#:schema ").unwrap();
                assert!(!named.contains('/'), "it is copied with the file: {named}");
                assert!(path.parent().unwrap().join(named).exists(), "{named}");
                assert!(text.lines().filter(|line| line.contains('#')).count() > 3, "{text}");
            }
        }
        assert_eq!(mode(&out), 0o700);
    }
}

#[test]
fn nothing_is_overwritten() {
    let scratch = Scratch::new("twice");
    let (_, line, _) = KINDS[0];
    let out = scratch.init("once", line).unwrap();
    let key = fs::read(out.join("group.key")).unwrap();

    let said = scratch.init("once", line).unwrap_err();

    assert!(said.contains("nothing is overwritten"), "{said}");
    assert_eq!(fs::read(out.join("group.key")).unwrap(), key);
}

#[test]
fn both_ends_of_a_tunnel_know_each_other() {
    let scratch = Scratch::new("pair");
    let (_, line, _) = KINDS[4];
    let out = scratch.init("pair", line).unwrap();

    let [a, b] = ["a", "b"]
        .map(|end| Config::read(&out.join(end).join("gateway.toml")).unwrap().tunnel.unwrap());

    let own = |it: &gateway::config::Tunnel| it.keys().unwrap().private_key.public_key();
    assert_eq!((own(&a), own(&b)), (b.peers[0].public_key, a.peers[0].public_key));
    assert_eq!(a.peers[0].endpoint.as_ref().unwrap().to_string(), "192.0.2.2:7");
    assert_eq!(b.listen[0].port(), 7);
    let routes: Vec<String> = a.peers[0].routes.iter().map(ToString::to_string).collect();
    assert_eq!(routes, ["10.99.0.2/32", "10.2.0.0/16", "fd00:2::/64"]);
}

#[test]
fn an_end_is_made_from_the_line_of_the_other_and_no_private_key_travels() {
    let scratch = Scratch::new("line");
    let key = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";
    let text = format!(
        "trackway-peer name=far key={key} inner=10.99.0.1/24 endpoint=192.0.2.2:51900 network=10.2.0.0/16"
    );
    let line: Line = text.parse().unwrap();

    let out = scratch.init("end", &["tunnel", "--here", "none", "--peer", &text]).unwrap();

    assert_eq!(line.to_string(), text);
    let tunnel = Config::read(&out.join("gateway.toml")).unwrap().tunnel.unwrap();
    assert_eq!(
        (tunnel.peers[0].name.as_str(), tunnel.peers[0].public_key.to_string().as_str()),
        ("far", key)
    );
    assert_eq!(
        tunnel.addresses[0].to_string(),
        "10.99.0.2/24",
        "another one than the other end has"
    );
    for wrong in
        ["", "trackway-peer", "peer name=a", &text.replace("far", "f\"a"), &text.replace(key, "x")]
    {
        assert!(wrong.parse::<Line>().is_err(), "{wrong}");
    }
}

#[test]
fn two_ends_that_only_exchange_lines_fit_together() {
    let scratch = Scratch::new("lines");
    let a = scratch.init("a", &["tunnel", "--here", "192.0.2.1", "--alone"]).unwrap();
    let key: tunnel::secure::PrivateKey =
        fs::read_to_string(a.join("private.key")).unwrap().parse().unwrap();
    let line = format!(
        "trackway-peer name=a key={} inner=10.99.0.1/24 endpoint=192.0.2.1:51900",
        key.public_key()
    );

    let b =
        scratch.init("b", &["tunnel", "--here", "none", "--name", "b", "--peer", &line]).unwrap();

    let b = Config::read(&b.join("gateway.toml")).unwrap().tunnel.unwrap();
    let own = b.keys().unwrap().private_key.public_key();
    let line = format!("trackway-peer name=b key={own} inner=10.99.0.2/24");
    let file = a.join("private.key");
    let whole = ["tunnel", "--here", "192.0.2.1", "--key", file.to_str().unwrap(), "--peer", &line];
    let whole = scratch.init("whole", &whole).unwrap();
    let whole = Config::read(&whole.join("gateway.toml")).unwrap().tunnel.unwrap();
    assert_eq!(whole.keys().unwrap().private_key.public_key(), b.peers[0].public_key);
    assert_eq!(whole.peers[0].public_key, own);
    assert!(whole.peers[0].endpoint.is_none() && b.peers[0].endpoint.is_some());
}

#[test]
fn an_end_that_has_given_its_line_away_keeps_the_address_in_it() {
    let scratch = Scratch::new("kept");
    let a = scratch.init("a", &["tunnel", "--here", "192.0.2.1", "--alone"]).unwrap();
    let key = a.join("private.key");
    let other = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";
    let complete = |folder: &str, inner: &str| {
        let line =
            format!("trackway-peer name=b key={other} inner={inner} endpoint=192.0.2.2:51900");
        let key = key.to_str().unwrap();
        scratch.init(folder, &["tunnel", "--here", "192.0.2.1", "--key", key, "--peer", &line])
    };

    let twice = complete("twice", "10.99.0.1/24").unwrap_err();
    let apart = complete("apart", "10.99.0.7/24").unwrap();

    assert!(twice.contains("10.99.0.1 is the address of both ends"), "{twice}");
    let text = fs::read_to_string(apart.join("gateway.toml")).unwrap();
    assert!(text.contains("addresses = [\"10.99.0.1/24\"]"), "{text}");
}

#[test]
fn the_command_that_completes_an_end_repeats_what_its_line_says() {
    let line = "trackway-peer name=b key=3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08= inner=10.7.0.2/24 \
                endpoint=192.0.2.2:5000 network=10.2.0.0/16 network=10.3.0.0/16";

    assert_eq!(
        line.parse::<Line>().unwrap().completed("keys"),
        "trackway init tunnel --key keys/private.key --name b --inner 10.7.0.2/24 --here 192.0.2.2:5000 \
         --networks-here '10.2.0.0/16,10.3.0.0/16' --peer 'LINE' --out etc"
    );
}

#[test]
fn who_says_too_little_is_told_what_is_missing_where_nobody_can_be_asked() {
    let scratch = Scratch::new("missing");

    let said = scratch.init("x", &["messages", "--here", "10.9.0.1"]);

    // On a terminal it would ask.
    if !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        assert!(said.unwrap_err().starts_with("--there is needed"));
        assert!(!scratch.0.join("x").exists());
    }
}

#[test]
fn ends_that_cannot_meet_are_a_mistake_of_the_user() {
    let scratch = Scratch::new("misuse");
    for (here, inner, networks) in [
        ("none", "10.99.0.1/24", ""),
        ("192.0.2.1", "10.99.0.1/32", ""),
        ("192.0.2.1", "10.99.0.1/24", "10.1.0.0/16"),
    ] {
        let ends = ["tunnel", "--here", here, "--there", "none", "--inner", inner];
        let networks = ["--networks-here", networks, "--networks-there", networks];
        let out = ["--out", scratch.0.to_str().unwrap()];
        let command = Command::try_parse_from(ends.into_iter().chain(networks).chain(out));

        let why = super::run(command.unwrap().args).unwrap_err();

        assert!(why.is::<Misuse>(), "{why:#}");
    }
}

#[test]
fn ends_of_two_versions_of_ip_are_refused() {
    let scratch = Scratch::new("versions");
    for kind in ["tunnel", "messages"] {
        let said = scratch.init(kind, &[kind, "--here", "192.0.2.1", "--there", "2001:db8::1"]);

        assert!(said.unwrap_err().contains("need addresses of one version of IP"));
    }
}
