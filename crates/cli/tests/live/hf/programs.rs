//! Programs that people use, over the radio by HF-PEP: ssh and git.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::pep::FAST;
use super::{Net, SOON};
use crate::namespaces::is_installed;
use testbed::traffic::{ENDLESS, Transfer};

const SSHD: &str = "/usr/sbin/sshd";

impl Net {
    /// Starts an ssh server on the far host, and lets the near one log in as root.
    fn start_sshd(&mut self) {
        let folder = self.nets.folder().display().to_string();
        for key in ["host", "key"] {
            let file = format!("{folder}/{key}");
            let words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &file];
            let made = self.nets.try_words(&self.hosts[1], &words);
            assert!(made.status.success(), "{made:?}");
        }
        let config = format!(
            "ListenAddress 10.2.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/key.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\n"
        );
        fs::write(self.nets.folder().join("sshd.conf"), config).unwrap();
        // Where it goes to leave its rights behind; its package has it made at boot.
        fs::create_dir_all("/run/sshd").unwrap();
        let far = self.hosts[1].clone();
        let command = format!("{SSHD} -D -e -f {folder}/sshd.conf");
        self.nets.start(&far, &command, "Server listening on 10.2.0.1");
    }

    /// Words of a client that logs in without questions.
    fn ssh(&self) -> String {
        let folder = self.nets.folder().display();
        format!(
            "ssh -F none -i {folder}/key -o BatchMode=yes -o StrictHostKeyChecking=accept-new \
             -o UserKnownHostsFile={folder}/known"
        )
    }

    /// A command that ssh runs on the far host.
    fn remote(&self, command: &str) -> Command {
        let line = format!("{} root@10.2.0.1 {command}", self.ssh());
        self.nets.words(&self.hosts[0], &line.split_whitespace().collect::<Vec<_>>())
    }
}

fn expect_success(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ssh_runs_a_command_and_git_clones_over_it() {
    if !is_installed(SSHD, "openssh-server") {
        return;
    }
    let mut net = Net::with_peps(FAST, "");
    net.start_sshd();
    let folder = net.nets.folder().display().to_string();
    let text: String = (0..9_000).map(|number| format!("line {number}\n")).collect();
    fs::create_dir(net.nets.folder().join("repo")).unwrap();
    fs::write(net.nets.folder().join("repo/text"), &text).unwrap();
    for command in ["init -q", "add text", "-c user.name=a -c user.email=a@b commit -q -m first"] {
        net.nets.run(&net.hosts[1], &format!("git -C {folder}/repo {command}"));
    }

    let listed = net.remote("seq 1 5000").output().unwrap();
    let failed = net.remote("exit 7").output().unwrap();
    let ssh = format!("core.sshCommand={}", net.ssh());
    let (from, to) = (format!("root@10.2.0.1:{folder}/repo"), format!("{folder}/clone"));
    let words = ["git", "-c", &ssh, "clone", "-q", &from, &to];
    let cloned = net.nets.try_words(&net.hosts[0], &words);

    expect_success(&listed);
    let numbers: String = (1..=5_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), numbers);
    assert_eq!(failed.status.code(), Some(7));
    expect_success(&cloned);
    assert_eq!(fs::read_to_string(net.nets.folder().join("clone/text")).unwrap(), text);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interactive_exchange_beside_bulk_waits_for_a_transmission_and_then_for_short_ones() {
    const LONGEST: Duration = Duration::from_secs(16);
    const BESIDE: Duration = Duration::from_secs(2);
    if !is_installed(SSHD, "openssh-server") {
        return;
    }
    let (longest, beside) = (LONGEST.as_secs(), BESIDE.as_secs());
    let options = format!("{FAST} --longest {longest}s --longest-beside-urgent {beside}s");
    // What is compressed takes the air for moments only.
    let plain = "[[rule]]\nname = \"plain\"\ncompression = false\n";
    let mut net = Net::with_peps(&options, plain);
    net.start_sshd();
    let mut cat = net.remote("cat");
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, screen) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
    let mut lines = BufReader::new(screen).lines();
    let mut exchange = |number: usize| {
        let (said, began) = (format!("line {number}"), Instant::now());
        writeln!(keys, "{said}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), said);
        began.elapsed()
    };
    exchange(0);

    let [a, b] = &net.hosts;
    let bulk = Transfer::start(a, (b, "10.2.0.1"), ENDLESS);
    bulk.wait_for(200_000, SOON);
    let waits: Vec<Duration> = (1..=5).map(&mut exchange).collect();
    let meanwhile = bulk.received();
    exchange(6);

    // Each way it waits for what is on the air then, and for the turns of both nodes.
    assert!(waits[0] < 2 * LONGEST, "{waits:?}");
    for wait in &waits[1..] {
        assert!(*wait < 2 * BESIDE + Duration::from_secs(4), "{waits:?}");
    }
    assert!(bulk.received() > meanwhile, "bulk goes on");
    drop(keys);
    assert!(cat.wait().unwrap().success());
}
