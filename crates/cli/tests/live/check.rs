//! Tests `trackway check`: all that is wrong with a file, what this host lacks for it, and files that are none.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use crate::namespaces::{Namespaces, TRACKWAY};

struct Host {
    nets: Namespaces,
    name: String,
    folder: PathBuf,
}

impl Host {
    fn new() -> Self {
        let mut nets = Namespaces::new();
        let name = nets.add("host");
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir(&folder).unwrap();
        Self { nets, name, folder }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let file = self.folder.join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Exit code, output and complaints of a command.
    fn run(&self, command: &str) -> (Option<i32>, String, String) {
        let said = self.nets.try_run(&self.name, &format!("{TRACKWAY} {command}"));
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (said.status.code(), text(&said.stdout), text(&said.stderr))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn all_that_is_wrong_and_all_that_this_host_lacks_is_told() {
    let host = Host::new();
    let wrong = host.write("wrong.toml", "log = \"inof\"\n[hbh]\ninterfaces = []\nretries = 999\n");
    let right = host.write("right.toml", "[hbh]\ninterfaces = [\"radio7\"]\n");

    for command in ["check", "check --offline", "run", "doctor"] {
        let (code, out, said) = host.run(&format!("{command} {wrong}"));
        let lines: Vec<_> = said.lines().collect();
        assert_eq!((code, &out[..], lines.len()), (Some(2), "", 3), "{command}: {said}");
        for (line, (at, key)) in
            lines.iter().zip([(1, "log"), (3, "hbh.interfaces"), (4, "hbh.retries")])
        {
            assert!(
                line.starts_with(&format!("trackway: {wrong}:{at}: {key}: ")),
                "{command}: {said}"
            );
        }
    }
    let (code, out, said) = host.run(&format!("check {right}"));
    assert_eq!((code, out), (Some(0), format!("{right}: all right\n")));
    assert!(said.contains("warning [interface]: there is no interface radio7"), "{said}");
    let (code, _, said) = host.run(&format!("check --offline {right}"));
    assert_eq!((code, &said[..]), (Some(0), ""));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn other_files_and_pipes_are_read_or_refused_in_words() {
    let host = Host::new();
    let scenario = host.write("s.toml", "[[link]]\nbetween = [\"a\", \"b\"]\n");
    let gateway = host.write("g.toml", "[hbh]\ninterfaces = [\"radio7\"]\n");
    let pipe = host.folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display();

    for (command, expected) in [
        (format!("check {scenario}"), "this is a scenario: `trackway sim run "),
        (format!("sim run {gateway}"), "this is the configuration of a gateway: `trackway check "),
        (format!("check {pipe}"), "is a named pipe, and no file"),
        (format!("run {pipe}"), "is a named pipe, and no file"),
        (format!("check {}", host.folder.display()), "is a folder, and no file"),
        ("check /dev/null".to_owned(), "/dev/null is a device, and no file"),
    ] {
        let (code, _, said) = host.run(&command);
        assert!(code == Some(2) && said.contains(expected), "{command}: {said}");
    }

    // By standard input, and as shells hand over the output of a command.
    for (words, shown) in [
        (&[TRACKWAY, "check", "--offline", "/dev/stdin"][..], "/dev/stdin"),
        (&["bash", "-c", &format!("{TRACKWAY} check --offline <(cat)")][..], "/dev/fd/"),
    ] {
        let mut command = host.nets.words(&host.name, words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"[hbh]\ninterfaces = [\"radio7\"]\n").unwrap();
        let said = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(
            said.status.success() && out.starts_with(shown) && out.contains("all right"),
            "{said:?}"
        );
    }
}
