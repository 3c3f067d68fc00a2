//! Tests `trackway tls` as a user runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn an_authority_issues_and_a_check_says_what_is_wrong() {
    let folder = Folder::new("issue");
    let made = tls(&folder, &["ca", "pki", "--name", "Exercise CA"]);
    let other = tls(&folder, &["ca", "other", "--json"]);
    let issued = tls(&folder, &["issue", "pki", "--san", "tak.example", "10.9.0.1"]);
    let client = tls(&folder, &["issue", "pki", "--san", "bob@unit.example", "--client"]);
    let mode = |name: &str| fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777;

    assert_eq!(text(&made.stdout), "pki/ca.crt\npki/ca.key\n");
    let other: serde_json::Value = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(other["key"], "other/ca.key");
    assert!(issued.status.success() && client.status.success());
    assert_eq!((mode("pki/ca.key"), mode("pki/tak.example.key")), (0o600, 0o600));
    let check = |args: &str| {
        let args: Vec<&str> = ["check"].into_iter().chain(args.split(' ')).collect();
        let output = tls(&folder, &args);
        (output.status.code(), text(&output.stdout))
    };
    for (args, code, expected) in [
        ("--ca pki/ca.crt pki/tak.example.crt", 0, "for tak.example, 10.9.0.1, by CN=Exercise CA"),
        ("--ca pki/ca.crt pki/tak.example.crt --name 10.9.0.1", 0, "good until 20"),
        ("--ca pki/ca.crt pki/tak.example.crt --name tik.example", 1, "and not for tik.example"),
        ("--ca other/ca.crt pki/tak.example.crt", 1, "issued by CN=Exercise CA, and nothing leads"),
        ("--ca pki/ca.crt pki/ca.crt", 1, "an authority's own certificate"),
        ("--ca pki/ca.crt pki/tak.example.crt --client", 1, "not meant for a client"),
        (
            "--ca pki/ca.crt pki/bob@unit.example.crt --client --name bob@unit.example",
            0,
            "client's",
        ),
        ("--ca pki/ca.crt pki/bob@unit.example.crt --client --name eve@unit.example", 1, "not for"),
    ] {
        let (told, said) = check(args);
        assert_eq!(told, Some(code), "{args}: {said}");
        assert!(said.contains(expected), "{said}\nnot\n{expected}");
    }
    let (_, json) = check("--ca pki/ca.crt pki/tak.example.crt --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["ok"], &json["names"][0]), (&true.into(), &"tak.example".into()));
}

#[test]
fn nothing_is_overwritten_and_nonsense_is_refused() {
    let folder = Folder::new("refuse");
    for made in ["pki", "other", "foreign", "broken"] {
        assert!(tls(&folder, &["ca", made]).status.success());
    }
    fs::copy(folder.0.join("other/ca.key"), folder.0.join("foreign/ca.key")).unwrap();
    fs::write(folder.0.join("broken/ca.key"), "no key").unwrap();
    for (args, expected) in [
        (&["ca", "pki"][..], "never overwritten"),
        (
            &["issue", "nowhere", "--san", "a.example"],
            "`trackway tls ca nowhere` makes an authority",
        ),
        (&["issue", "foreign", "--san", "a.example"], "foreign: ca.key is not the key of ca.crt"),
        (&["issue", "broken", "--san", "a.example"], "broken: ca.key is no key"),
        (&["issue", "pki", "--san", "a b"], "\"a b\" cannot stand in a certificate"),
        (&["issue", "pki", "--san", "../a"], "\"../a\" cannot stand in a certificate"),
        (
            &["check", "--ca", "pki/ca.key", "pki/ca.crt"],
            "pki/ca.key: there is no certificate in it",
        ),
    ] {
        let output = tls(&folder, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}\nnot\n{expected}");
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("trackway-tls-cli-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tls(folder: &Folder, args: &[&str]) -> Output {
    let folder: &Path = &folder.0;
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackway"));
    command.arg("tls").args(args).current_dir(folder).output().expect("it runs")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}
