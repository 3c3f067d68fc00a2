//! Tests `trackway keygen` as a user runs it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

#[test]
fn a_key_is_written_once_and_its_public_key_is_told() {
    let folder = std::env::temp_dir().join(format!("trackway-keygen-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.key");
    let path = file.to_str().unwrap();

    let made = keygen(&["--out", path], "");
    let text = fs::read_to_string(&file).unwrap();
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    let told = keygen(&["--public"], &text);
    let again = keygen(&["--out", path], "");
    fs::remove_dir_all(&folder).unwrap();

    assert_eq!((made.stdout.len(), mode), (45, 0o600));
    assert_eq!(made.stdout, told.stdout);
    assert_ne!(made.stdout, text.as_bytes());
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("never overwritten"));
}

#[test]
fn keys_of_wireguard_go_into_a_new_folder() {
    let folder = std::env::temp_dir().join(format!("trackway-import-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (wireguard, keys) = (folder.join("wg0.conf"), folder.join("new/keys"));
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let text = format!(
        "[Interface]\nPrivateKey = {key}\nAddress = 10.0.0.1/24\n\
        [Peer]\nPublicKey = 3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\nAllowedIPs = 10.0.0.2/32\n"
    );
    fs::write(&wireguard, text).unwrap();

    let mut program = Command::new(env!("CARGO_BIN_EXE_trackway"));
    program.arg("import").arg(&wireguard).arg("--keys").arg(&keys);
    let made = program.output().unwrap();
    let mode = fs::metadata(&keys).map(|it| it.permissions().mode() & 0o777);
    let written = fs::read_to_string(keys.join("wg0.key"));
    fs::remove_dir_all(&folder).unwrap();

    assert!(made.status.success(), "{made:?}");
    assert_eq!((mode.unwrap(), written.unwrap()), (0o700, format!("{key}\n")));
}

#[test]
fn keys_are_told_as_json() {
    let made = keygen(&["--json"], "");

    let object: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let told = keygen(&["--public", "--json"], object["private_key"].as_str().unwrap());
    let public: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(public["public_key"], object["public_key"]);
    assert!(public.get("private_key").is_none());
}

#[test]
fn a_group_key_is_one_secret() {
    let folder = std::env::temp_dir().join(format!("trackway-group-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("group.key");
    let path = file.to_str().unwrap();

    let made = keygen(&["--group", "--out", path], "");
    let text = fs::read_to_string(&file).unwrap();
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    let again = keygen(&["--group", "--out", path], "");
    let shown = keygen(&["--group"], "");
    fs::remove_dir_all(&folder).unwrap();

    assert_eq!((made.status.code(), made.stdout.len(), mode), (Some(0), 0, 0o600));
    assert_eq!((text.len(), shown.stdout.len()), (45, 45));
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn what_is_no_key_is_refused() {
    let told = keygen(&["--public"], "not a key");

    assert_eq!(told.status.code(), Some(2));
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(said.starts_with("trackway: standard input: not a key"), "{said}");
}

fn keygen(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trackway"))
        .arg("keygen")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It may have ended without reading.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}
