//! Tests what a restart of a gateway leaves to the next process, and what that does with it.
//!
//! The tests do what systemd does: keep the descriptors that the gateway hands over, and give them to its successor.

mod timed;

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use ::gateway::sys::passing;

use super::{Net, Program, SOON, TRACKWAY};
use crate::namespaces::wait_until;

/// As much of a service manager as a restart needs.
struct Manager {
    socket: UnixDatagram,
    path: String,
    kept: Vec<(String, OwnedFd)>,
}

impl Manager {
    fn new(net: &Net) -> Self {
        let path = net.nets.folder().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        // Whoever the gateway has become may write to it.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        Self { socket, path: path.to_str().unwrap().to_owned(), kept: Vec::new() }
    }

    /// Takes what the gateway says until a descriptor count is reached.
    fn wait_for(&mut self, descriptors: usize) {
        let comes = wait_until(SOON, || {
            self.listen();
            self.kept.len() == descriptors
        });
        assert!(comes, "{:?}", self.kept);
    }

    fn listen(&mut self) {
        let mut said = [0; 4_096];
        while let Ok((len, descriptor)) = passing::receive(&self.socket, &mut said) {
            let text = String::from_utf8_lossy(&said[..len]).into_owned();
            let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
            let name = name.unwrap_or_default().to_owned();
            if text.contains("FDSTORE=1") {
                assert!(text.contains("FDPOLL=0"), "{text}");
                self.kept.push((name, descriptor.unwrap()));
            } else if text.contains("FDSTOREREMOVE=1") {
                self.kept.retain(|(its, _)| *its != name);
            }
        }
    }

    /// Starts the gateway of a node, with copies of what was kept.
    fn start(&self, net: &Net, node: usize) -> Program {
        let file = net.nets.folder().join(format!("{node}.toml"));
        let file = file.to_str().unwrap();
        let run = format!("export NOTIFY_SOCKET={}; exec {TRACKWAY} run {file}", self.path);
        let copies = self.kept.iter().map(|(_, it)| it.try_clone().unwrap()).collect::<Vec<_>>();
        let names: Vec<_> = self.kept.iter().map(|(name, _)| &name[..]).collect();
        let inherit = format!(
            "exec 3<&0 4<&2 0</dev/null 2>&1; export LISTEN_FDS=2 LISTEN_FDNAMES={} LISTEN_PID=$$; {run}",
            names.join(":")
        );
        let script = if copies.is_empty() { &run } else { &inherit };
        let mut command = net.nets.words(&net.nodes[node], &["bash", "-c", script]);
        let [device, heard] = match <[OwnedFd; 2]>::try_from(copies) {
            Ok(both) => both.map(Some),
            Err(_) => [None, None],
        };
        Program::start_with(&mut command, "gateway", device, heard).unwrap()
    }
}

/// Two gateways, of which a manager has started the first.
fn managed(net: &mut Net) -> (Manager, Program) {
    net.start(1);
    let mut manager = Manager::new(net);
    let mut gateway = manager.start(net, 0);
    gateway.wait_for("gateway ready", SOON);
    let is_up = |node: usize| net.status(node)["tunnels"][0]["state"] == "up";
    assert!(wait_until(SOON, || is_up(0) && is_up(1)), "{} {}", net.status(0), net.status(1));
    manager.listen();
    (manager, gateway)
}

/// What `ip` shows of the device, its addresses and the routes and rules to it, and what `nft` shows of the table: a
/// table made anew would have other handles.
fn shown(net: &Net) -> String {
    let link = net.run(0, "ip -o link show dev trackway-nc0");
    let index = link.split(':').next().unwrap().to_owned();
    let table = net.run(0, "nft --handle --stateless list table inet trackway_tunnel");
    index + &net.claimed(0) + &net.run(0, "ip -o address show dev trackway-nc0") + &table
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_restart_keeps_the_device_with_its_addresses_and_routes() {
    let mut net = Net::pair("--delay 5ms");
    let (mut manager, mut gateway) = managed(&mut net);
    net.expect_ping(0, "10.77.0.2");
    let before = shown(&net);

    let said = net.run(0, &format!("{TRACKWAY} hand-over"));
    manager.wait_for(2);
    let (code, printed) = gateway.stop();

    assert_eq!((code, &said[..]), (Some(0), "handed over: tunnel\n"), "{printed}");
    assert_eq!(shown(&net), before, "while nobody runs");
    gateway = manager.start(&net, 0);
    gateway.wait_for("goes on with the device of the gateway before this one", SOON);
    gateway.wait_for("gateway ready", SOON);
    manager.wait_for(0);
    assert_eq!(shown(&net), before);
    net.expect_ping(0, "10.77.0.2");

    // A stop without a successor leaves nothing.
    let (code, printed) = gateway.stop();
    assert_eq!(code, Some(0), "{printed}");
    assert!(!net.has_device(0));
    assert_eq!(net.claimed(0), "");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_whose_address_no_file_names_is_called_at_once_after_a_restart() {
    let mut net = Net::pair("--delay 5ms");
    net.edit(0, "endpoint = \"10.9.1.2:51900\"\n", "");
    let (mut manager, mut gateway) = managed(&mut net);
    net.run(0, &format!("{TRACKWAY} hand-over"));
    manager.wait_for(2);
    gateway.stop();
    // The peer is not to be the one that calls.
    net.run(1, "nft add table inet mute");
    net.run(1, "nft add chain inet mute out { type filter hook output priority 0 ; }");
    net.run(1, "nft add rule inet mute out udp dport 51900 @th,64,8 1 drop");

    let gateway = &mut manager.start(&net, 0);

    gateway.wait_for("peer is up", SOON);
    let status = net.status(0);
    assert_eq!(status["tunnels"][0]["handshakes"]["calls_sent"], 1, "{status}");
    net.expect_ping(0, "10.77.0.2");
}
