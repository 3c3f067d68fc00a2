//! The tunnel between two gateways over a cable that loses, breaks and swallows.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use ::gateway::secure::PrivateKey;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::namespaces::{Namespaces, TRACKWAY, wait_until};

const SOON: Duration = Duration::from_secs(20);

#[test]
#[ignore = "needs root: run by ./test"]
fn a_tenth_of_the_frames_lost_is_no_loss_inside_in_both_versions() {
    let mut net = Net::new("--rate 10mbit --delay 10ms --loss 10% --seed 1");
    net.start_both();

    for address in ["10.77.0.2", "fd77::2"] {
        let said = net.try_run(0, &format!("ping -c 50 -i 0.05 -W 5 {address}"));
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
    let right = net.nodes[1].clone();
    net.nets.start(&right, "iperf3 -s -1 --forceflush", "listening");
    let report = net.run(0, "iperf3 -c 10.77.0.2 -t 5 -R -J --connect-timeout 9000");

    let report: Value = serde_json::from_str(&report).unwrap();
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    // Plain TCP gets 0.3 Mbit/s there.
    assert!(rate > 2e6, "{rate} bit/s: {}", net.status(0));
    let tunnel = &net.status(0)["tunnels"][0];
    assert_eq!(tunnel["state"], "up");
    assert!(tunnel["loss"].as_f64().unwrap() > 0.02, "{tunnel}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn either_end_may_start_anew() {
    let mut net = Net::new("--delay 5ms");
    net.start_both();
    net.expect_ping(0, "10.77.0.2");

    for end in [0, 1] {
        let program = net.programs[end].take().unwrap();
        let (code, said) = net.nets.program(program).stop();
        assert_eq!(code, Some(0), "{said}");
        assert!(!net.has_device(end), "the device is left");
        net.start(end);
        net.expect_ping(1 - end, &format!("10.77.0.{}", end + 1));
        net.expect_ping(end, &format!("10.77.0.{}", 2 - end));
    }
    net.nets.program(net.programs[0].unwrap()).signal(Signal::SIGKILL);
    net.nets.program(net.programs[0].unwrap()).finish(SOON);

    assert!(wait_until(SOON, || !net.has_device(0)), "the device is left");
    net.start(0);
    net.expect_ping(1, "10.77.0.1");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_stranger_gets_no_answer_at_all() {
    let mut net = Net::new("");
    net.write_config(1, &PrivateKey::generate().unwrap().public_key().to_string());
    net.start(1);
    // The other end calls with a key that is not in the configuration.
    let heard = net.nets.within(&net.nodes[0].clone(), || {
        let socket = UdpSocket::bind("10.9.0.1:51900").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
        for len in [1_usize, 32, 156, 1_200] {
            for first in 0..8 {
                let mut datagram = vec![0x5a; len];
                datagram[0] = first;
                socket.send_to(&datagram, "10.9.0.2:51900").unwrap();
            }
        }
        // Its own calls to us are no answers: it has our address from its configuration.
        let mut octets = [0; 2_048];
        let mut answers = 0;
        while let Ok((len, _)) = socket.recv_from(&mut octets) {
            answers += usize::from(len != 156);
        }
        answers
    });
    assert_eq!(heard, 0);

    net.start(0);
    let said = net.try_run(0, "ping -c 3 -i 0.5 -W 1 10.77.0.2");

    assert!(said.contains(" 100% packet loss"), "{said}");
    assert_eq!(net.status(1)["tunnels"][0]["state"], "no session");
    assert!(net.status(1)["secure_unknown_key"].as_u64().unwrap() > 0, "{}", net.status(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn applications_are_told_when_the_path_is_dead_and_go_on_when_it_is_back() {
    let mut net = Net::new("--delay 5ms");
    net.start_both();
    net.expect_ping(0, "10.77.0.2");

    let link = net.link;
    net.nets.program(link).signal(Signal::SIGSTOP);
    let mut said = String::new();
    let is_told = wait_until(Duration::from_secs(30), || {
        said = net.try_run(0, "ping -c 1 -W 1 10.77.0.2");
        said.contains("Destination Host Unreachable")
    });
    net.nets.program(link).signal(Signal::SIGCONT);

    assert!(is_told, "{said}\n{}", net.status(0));
    net.expect_ping(0, "10.77.0.2");
    net.expect_ping(1, "10.77.0.1");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_path_that_swallows_long_packets_is_measured() {
    let mut net = Net::new("--delay 2ms");
    let middle = net.middle.clone();
    for interface in ["a", "b"] {
        net.nets.run(&middle, &format!("ip link set dev {interface} mtu 1400"));
    }
    net.start_both();
    net.expect_ping(0, "10.77.0.2");
    let right = net.nodes[1].clone();
    net.nets.start(&right, "iperf3 -s -1 --forceflush", "listening");
    net.run(0, "iperf3 -c 10.77.0.2 -t 2 --connect-timeout 9000");

    let mtu = net.status(0)["tunnels"][0]["mtu"].as_u64().unwrap();
    assert!((1_280..=1_400 - 52).contains(&mtu), "{}", net.status(0));
    let too_long = net.try_run(0, &format!("ping -c 2 -W 2 -M do -s {} 10.77.0.2", 1_400));
    assert!(too_long.contains(" 100% packet loss"), "{too_long}");
    let said = net.try_run(0, &format!("ping -c 3 -i 0.2 -W 2 -M do -s {} 10.77.0.2", mtu - 28));
    assert!(said.contains(" 0% packet loss"), "{said}");
}

/// Two gateways at the ends of an emulated cable.
struct Net {
    nets: Namespaces,
    nodes: Vec<String>,
    middle: String,
    link: usize,
    programs: [Option<usize>; 2],
    folder: PathBuf,
}

impl Net {
    fn new(link: &str) -> Self {
        let mut nets = Namespaces::new();
        let [left, middle, right] = ["left", "middle", "right"].map(|name| nets.add(name));
        nets.cable((&left, "eth0"), (&middle, "a"));
        nets.cable((&middle, "b"), (&right, "eth0"));
        nets.address(&left, "eth0", "10.9.0.1/24");
        nets.address(&right, "eth0", "10.9.0.2/24");
        let link = nets.start(&middle, &format!("{TRACKWAY} link a b {link}"), "joined");
        let folder = std::env::temp_dir().join(&left);
        fs::create_dir(&folder).unwrap();
        let net =
            Self { nets, nodes: vec![left, right], middle, link, programs: [None; 2], folder };
        let keys = [PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap()];
        for (end, key) in keys.iter().enumerate() {
            key.write_new(&net.folder.join(format!("{end}.key"))).unwrap();
            net.write_config(end, &keys[1 - end].public_key().to_string());
        }
        net
    }

    fn write_config(&self, end: usize, peers_key: &str) {
        let (own, other) = (end + 1, 2 - end);
        let key = self.folder.join(format!("{end}.key"));
        let config = format!(
            "[tunnel]\nprivate_key = {key:?}\naddresses = [\"10.77.0.{own}/24\", \"fd77::{own}/64\"]\n\
             [[tunnel.peer]]\nname = \"other\"\npublic_key = \"{peers_key}\"\n\
             endpoint = \"10.9.0.{other}:51900\"\n\
             routes = [\"10.77.0.{other}/32\", \"fd77::{other}/128\"]\n"
        );
        fs::write(self.folder.join(format!("{end}.toml")), config).unwrap();
    }

    fn start(&mut self, end: usize) {
        let file = self.folder.join(format!("{end}.toml"));
        let command = format!("{TRACKWAY} run {}", file.display());
        let node = self.nodes[end].clone();
        self.programs[end] = Some(self.nets.start(&node, &command, "gateway ready"));
    }

    fn start_both(&mut self) {
        self.start(0);
        self.start(1);
        let is_up =
            wait_until(SOON, || (0..2).all(|end| self.status(end)["tunnels"][0]["state"] == "up"));
        assert!(is_up, "{}\n{}", self.status(0), self.status(1));
    }

    fn run(&self, end: usize, command: &str) -> String {
        self.nets.run(&self.nodes[end], command)
    }

    fn try_run(&self, end: usize, command: &str) -> String {
        let output = self.nets.try_run(&self.nodes[end], command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn expect_ping(&self, end: usize, address: &str) {
        let command = format!("ping -c 1 -W 1 {address}");
        let comes = wait_until(SOON, || self.try_run(end, &command).contains(" 0% packet loss"));
        assert!(comes, "no ping to {address}: {}", self.status(end));
    }

    fn has_device(&self, end: usize) -> bool {
        self.nets.try_run(&self.nodes[end], "ip link show dev trackway-nc0").status.success()
    }

    fn status(&self, end: usize) -> Value {
        let said = self.try_run(end, &format!("{TRACKWAY} status --json"));
        serde_json::from_str(&said).unwrap_or_default()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
