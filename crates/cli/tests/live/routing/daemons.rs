//! Routing daemons on the nodes of a network: Debian's packages `babeld` and `frr`.

use std::fs;
use std::path::PathBuf;

use super::network::{Network, SOON, address};
use crate::namespaces::{is_installed, wait_until};

const BABELD: &str = "/usr/sbin/babeld";
/// Where Debian keeps the daemons of FRR; no path leads there.
const FRR: &str = "/usr/lib/frr";

/// Whether babeld is installed; says that the test is skipped if not.
pub fn has_babel() -> bool {
    is_installed(BABELD, "babeld")
}

/// Whether FRR is installed; says that the test is skipped if not.
pub fn has_frr() -> bool {
    is_installed(format!("{FRR}/ospfd"), "frr")
}

/// Starts babeld on a node; its cost is said for each interface.
///
/// It announces all addresses of the node, and takes a wire for dead after two lost hellos.
pub fn start_babel(network: &mut Network, node: usize, costs: &[u32]) -> usize {
    let folder = folder(network, node, "babel");
    let mut config = String::new();
    for (interface, cost) in network.nodes[node].interfaces.iter().zip(costs) {
        config += &format!("interface {interface} type wired hello-interval 1 rxcost {cost}\n");
    }
    let file = folder.join("babeld.conf");
    fs::write(&file, config).unwrap();
    let interfaces = network.nodes[node].interfaces.join(" ");
    let command = format!(
        "{BABELD} -I {0}/pid -S {0}/state -c {1} {interfaces}",
        folder.display(),
        file.display()
    );
    let name = network.nodes[node].name.clone();
    network.nets.start(&name, &command, "")
}

/// The FRR daemons on a node.
pub struct Frr {
    folder: PathBuf,
    programs: Vec<usize>,
}

impl Frr {
    /// Starts OSPF on all interfaces, each a broadcast network of this cost, and single-hop BFD with `peers`: address
    /// and outgoing interface of each peer.
    pub fn start(
        network: &mut Network,
        node: usize,
        costs: &[u32],
        peers: &[(&str, &str)],
    ) -> Self {
        let folder = folder(network, node, "frr");
        let mut config = String::new();
        for (interface, cost) in network.nodes[node].interfaces.iter().zip(costs) {
            config += &format!(
                "interface {interface}\n ip ospf area 0\n ip ospf network broadcast\n \
                 ip ospf hello-interval 1\n ip ospf dead-interval 4\n ip ospf cost {cost}\n"
            );
        }
        config += &format!(
            "interface lo\n ip ospf area 0\nrouter ospf\n ospf router-id {}\n \
             timers throttle spf 50 100 500\nbfd\n",
            address(node)
        );
        for (address, interface) in peers {
            config += &format!(" peer {address} interface {interface}\n");
        }
        let file = folder.join("frr.conf");
        fs::write(&file, config).unwrap();
        // The daemons take a user of their own.
        network.run(node, &format!("chown -R frr:frr {}", folder.display()));
        let name = network.nodes[node].name.clone();
        let mut programs = Vec::new();
        for daemon in ["zebra", "ospfd", "bfdd"] {
            let control = match daemon {
                "bfdd" => format!("--bfdctl {}/bfdd.sock", folder.display()),
                _ => String::new(),
            };
            let command = format!(
                "{FRR}/{daemon} -f {1} -i {0}/{daemon}.pid -z {0}/zserv --vty_socket {0} -P 0 {control}",
                folder.display(),
                file.display()
            );
            programs.push(network.nets.start(&name, &command, ""));
            let socket = folder.join(format!("{daemon}.vty"));
            assert!(wait_until(SOON, || socket.exists()), "{daemon} does not start");
        }
        Self { folder, programs }
    }

    /// What `vtysh` says to a command.
    pub fn ask(&self, network: &Network, node: usize, command: &str) -> String {
        let folder = self.folder.to_string_lossy();
        let words = ["vtysh", "--vty_socket", &folder, "-c", command];
        let output = network.nets.try_words(&network.nodes[node].name, &words);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends its daemons.
    pub fn stop(self, network: &mut Network) {
        for program in self.programs.into_iter().rev() {
            network.nets.program(program).stop();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn folder(network: &Network, node: usize, of: &str) -> PathBuf {
    let folder = network.nets.folder().join(format!("{of}{node}"));
    fs::create_dir(&folder).unwrap();
    folder
}
