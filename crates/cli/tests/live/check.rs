//! Tests `trackway check`: all that is wrong with a file, what this host lacks for it, and files that are none.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::namespaces::{Namespaces, Program, SOON, TRACKWAY, wait_until};

struct Host {
    nets: Namespaces,
    name: String,
}

impl Host {
    fn new() -> Self {
        let mut nets = Namespaces::new();
        let name = nets.add("host");
        Self { nets, name }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let file = self.nets.folder().join(name);
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
    assert!(said.contains("high [interface-missing]: there is no interface radio7"), "{said}");
    let (code, _, said) = host.run(&format!("check --offline {right}"));
    assert_eq!((code, &said[..]), (Some(0), ""));

    let json = |command: &str| {
        let (code, out, said) = host.run(command);
        assert_eq!(said, "", "{command}");
        (code, serde_json::from_str::<serde_json::Value>(&out).unwrap())
    };
    let (code, told) = json(&format!("check --json {wrong}"));
    assert_eq!((code, &told["usable"]), (Some(2), &false.into()), "{told}");
    assert_eq!(told["errors"].as_array().unwrap().len(), 3, "{told}");
    let (code, told) = json(&format!("check --json {right}"));
    assert_eq!((code, &told["usable"], &told["errors"]), (Some(0), &true.into(), &[""; 0].into()));
    assert_eq!(told["findings"][0]["code"], "interface-missing", "{told}");
    // The key files of another host are there.
    let tunnel = host
        .write("t.toml", "[tunnel]\nprivate-key = \"there.key\"\naddresses = [\"10.99.0.1/24\"]\n");
    let (code, told) = json(&format!("check --json {tunnel}"));
    assert_eq!(code, Some(2));
    assert!(told["errors"].to_string().contains("private-key"), "{told}");
    let (_, told) = json(&format!("check --json --offline {tunnel}"));
    assert!(!told["errors"].to_string().contains("private-key"), "{told}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_configuration_that_was_handed_over_is_never_reloaded() {
    let host = Host::new();
    for command in [
        "ip link add eth0 type veth peer name eth1",
        "ip link set eth1 up",
        "ip link set eth0 up",
        "ip address add 192.0.2.1/24 dev eth0",
    ] {
        host.nets.run(&host.name, command);
    }
    let file = host.write("a.toml", "");
    let gre = |to: &str| {
        format!("[[gre]]\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\nto = [\"{to}\"]\n")
    };
    // A pipe by its descriptor, standard input from a pipe, and standard input from a file.
    for shell in [
        format!("exec {TRACKWAY} run <(cat {file})"),
        format!("exec {TRACKWAY} run /dev/stdin < <(cat {file})"),
        format!("exec {TRACKWAY} run /dev/stdin < {file}"),
    ] {
        host.write("a.toml", &gre("10.4.0.0/16"));
        let mut command = host.nets.words(&host.name, &["bash", "-c", &shell]);
        let mut gateway = Program::start(&mut command, &shell).unwrap();
        gateway.wait_for("gateway ready", SOON);
        host.write("a.toml", &gre("10.5.0.0/16"));

        let (code, out, said) = host.run("reload");
        let said = out + &said;
        assert_eq!(code, Some(1), "{shell}: {said}");
        assert!(said.contains("is read only once"), "{shell}: {said}");
        gateway.signal(Signal::SIGHUP);
        gateway.wait_for("configuration not read again: nothing has changed", SOON);
        let routes = || host.nets.run(&host.name, "ip route show proto 119");
        assert!(wait_until(SOON, || routes().contains("10.4.0.0/16")), "{}", gateway.printed());
        let routes = routes();
        assert!(!routes.contains("10.5.0.0/16"), "{routes}");
        let (code, printed) = gateway.stop();
        assert_eq!(code, Some(0), "{printed}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routing_starts_where_there_was_never_a_route() {
    let host = Host::new();
    let file = host.write("o.toml", "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"radio7\"]\n");
    // Not even the loopback is up.
    let mut command = host.nets.words(&host.name, &["unshare", "-n", TRACKWAY, "run", &file]);

    let mut gateway = Program::start(&mut command, "gateway").unwrap();
    gateway.wait_for("gateway ready", SOON);
    let (code, printed) = gateway.stop();

    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("radio7"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn other_files_and_pipes_are_read_or_refused_in_words() {
    let host = Host::new();
    let scenario = host.write("s.toml", "[[link]]\nbetween = [\"a\", \"b\"]\n");
    let gateway = host.write("g.toml", "[hbh]\ninterfaces = [\"radio7\"]\n");
    let pipe = host.nets.folder().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display();

    for (command, expected) in [
        (format!("check {scenario}"), "this is a scenario: `trackway sim run "),
        (format!("sim run {gateway}"), "this is the configuration of a gateway: `trackway check "),
        (format!("check {pipe}"), "is a named pipe, and no file"),
        (format!("run {pipe}"), "is a named pipe, and no file"),
        (format!("check {}", host.nets.folder().display()), "is a folder, and no file"),
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
