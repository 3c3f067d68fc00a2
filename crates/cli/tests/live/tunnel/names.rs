//! Tests peers configured by name, resolved by the test's name server or from a file.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Net, SOON};
use crate::namespaces::{TRACKWAY, wait_until};

/// What peer 1 is called.
const NAME: &str = "gw.example.org";
/// Where questions are answered.
const SERVER: &str = "198.51.100.53";

#[test]
#[ignore = "needs root: run by ./test"]
fn a_name_is_asked_for_until_it_is_there_and_again_when_its_peer_has_moved() {
    let mut net = Net::pair("");
    let files = Files::new(&net.nodes[0], &[("resolv.conf", &format!("nameserver {SERVER}\n"))]);
    net.run(0, "ip route add default via 10.9.1.2");
    net.run(1, &format!("ip address add {SERVER} dev lo"));
    let names = Names::start(&net, 1);
    net.called_by_name();

    net.start(1);
    net.start(0);
    net.gateway(0).wait_for("there is no such name", SOON);
    let is_said = wait_until(SOON, || {
        let tunnel = &net.status(0)["tunnels"][0];
        tunnel["endpoint_name"] == format!("{NAME}:51900")
            && tunnel["endpoint_failure"] == "there is no such name"
    });
    assert!(is_said, "{}", net.status(0));
    net.expect_asked(
        0,
        (3, "the peer peer1 is not found by its name gw.example.org:51900: there is no such name"),
    );
    net.expect_asked(0, (3, "[name-unknown]"));

    // The first address is nobody's.
    names.set(&["10.9.1.77", "10.9.1.2"]);
    net.expect_ping(0, "10.77.0.2");
    net.expect_asked(0, (0, "tunnel: running"));
    let tunnel = net.status(0)["tunnels"][0].clone();
    assert_eq!(tunnel["endpoint"], "10.9.1.2:51900", "{tunnel}");
    assert!(tunnel["endpoint_failure"].is_null(), "{tunnel}");
    let asked = names.asked();
    net.expect_pings(0, "10.77.0.2", 20);
    assert_eq!(names.asked(), asked, "a peer that is heard is not asked for");

    // Elsewhere, without a word: only its name says where.
    names.set(&["10.9.1.12"]);
    net.crash(1);
    net.run(1, "ip address del 10.9.1.2/24 dev eth0");
    net.run(1, "ip address add 10.9.1.12/24 dev eth0");
    net.run(0, "ip route replace default via 10.9.1.12");
    net.start(1);
    net.expect_ping(0, "10.77.0.2");
    assert_eq!(net.status(0)["tunnels"][0]["endpoint"], "10.9.1.12:51900");

    // It roams, and where it is heard counts for more than its name.
    net.run(1, "ip address del 10.9.1.12/24 dev eth0");
    net.run(1, "ip address add 10.9.1.13/24 dev eth0");
    net.run(0, "ip route replace default via 10.9.1.13");
    net.expect_ping(1, "10.77.0.1");
    let is_heard = || net.status(0)["tunnels"][0]["endpoint"] == "10.9.1.13:51900";
    assert!(wait_until(SOON, is_heard), "{}", net.status(0));
    net.expect_pings(0, "10.77.0.2", 20);
    assert_eq!(net.status(0)["tunnels"][0]["endpoint"], "10.9.1.13:51900");
    let said = net.gateway(0).printed();
    assert_eq!(said.matches("the peer's name has no address").count(), 1, "{said}");
    drop(files);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_exit_peer_is_found_by_its_name_though_everything_leads_to_it() {
    const PLACES: [&str; 2] = ["203.0.113.1", "192.0.2.1"];
    let mut net = Net::pair("");
    let files = Files::new(&net.nodes[0], &[("resolv.conf", &format!("nameserver {SERVER}\n"))]);
    net.run(0, "ip route add default via 10.9.1.2");
    for address in [SERVER, PLACES[0], PLACES[1], "203.0.113.9"] {
        net.run(1, &format!("ip address add {address} dev lo"));
    }
    let names = Names::start(&net, 1);
    names.set(&PLACES[..1]);
    net.called_by_name();
    net.edit(
        0,
        "\"10.77.0.2/32\"",
        "\"0.0.0.0/0\", \"203.0.113.0/24\", \"192.0.2.0/24\", \"10.77.0.2/32\"",
    );

    net.start_all();

    // Whatever holds the address in use stands aside, and only that.
    net.expect_ping(0, "203.0.113.9");
    assert_eq!(net.status(0)["tunnels"][0]["endpoint"], format!("{}:51900", PLACES[0]));
    let claimed = net.claimed(0);
    assert!(claimed.contains("203.0.113.0/24 dev trackway-nc0 table 51924"), "{claimed}");
    assert!(!claimed.contains("192.0.2.0/24 dev trackway-nc0 table"), "{claimed}");

    names.set(&PLACES[1..]);
    net.run(1, &format!("ip address del {} dev lo", PLACES[0]));
    net.crash(1);
    net.start(1);
    net.expect_ping(0, "203.0.113.9");
    assert_eq!(net.status(0)["tunnels"][0]["endpoint"], format!("{}:51900", PLACES[1]));
    let is_moved = || {
        let claimed = net.claimed(0);
        claimed.contains("192.0.2.0/24 dev trackway-nc0 table 51924")
            && !claimed.contains("203.0.113.0/24 dev trackway-nc0 table")
    };
    assert!(wait_until(SOON, is_moved), "{}", net.claimed(0));
    drop(files);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_resolver_on_this_host_finds_a_peer_for_everything() {
    for has_stub in [false, true] {
        let mut net = Net::pair("");
        // A resolver that asks another without the tunnel's mark, as each on a host does.
        let stub = if has_stub { "127.0.0.53" } else { "127.0.0.1" };
        let files = Files::new(&net.nodes[0], &[("resolv.conf", &format!("nameserver {stub}\n"))]);
        net.run(0, "ip route add default via 10.9.1.2");
        for address in [SERVER, "203.0.113.1", "203.0.113.2", "203.0.113.9"] {
            net.run(1, &format!("ip address add {address} dev lo"));
        }
        let names = Names::start(&net, 1);
        let passing = Passing::start(&net, 0, stub);
        names.set(&["203.0.113.1"]);
        net.called_by_name();
        net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\", \"10.77.0.2/32\"");
        net.start(1);
        if has_stub {
            // What systemd-resolved says of itself, for this gateway alone.
            let file = net.nets.folder().join("0.toml");
            let script = net.nets.folder().join("start");
            let text = format!(
                "mkdir -p /run/systemd/resolve\nmount -t tmpfs none /run/systemd/resolve\n\
                 echo nameserver {SERVER} > /run/systemd/resolve/resolv.conf\n\
                 exec {TRACKWAY} run {}\n",
                file.display()
            );
            fs::write(&script, text).unwrap();
            let node = net.nodes[0].clone();
            let command = format!("sh -e {}", script.display());
            net.programs[0] = Some(net.nets.start(&node, &command, "gateway ready"));
        } else {
            net.start(0);
        }
        net.expect_ping(0, "203.0.113.9");
        assert_eq!(net.status(0)["tunnels"][0]["endpoint"], "203.0.113.1:51900");

        // It has another address; only whom the stub asks can say so, past the tunnel.
        if has_stub {
            names.set(&["203.0.113.2"]);
            net.run(1, "ip address del 203.0.113.1 dev lo");
            net.crash(1);
            // The peer is not to be the one that calls, from another address.
            net.run(1, "nft add table inet mute");
            net.run(1, "nft add chain inet mute out { type filter hook output priority 0 ; }");
            net.run(1, "nft add rule inet mute out udp dport 51900 @th,64,8 1 drop");
            net.start(1);
            net.expect_ping(0, "203.0.113.9");
            let is_known = || net.status(0)["tunnels"][0]["endpoint"] == "203.0.113.2:51900";
            assert!(wait_until(SOON, is_known), "{}", net.status(0));
        }
        drop((files, passing));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_is_called_at_a_link_local_address() {
    let mut net = Net::pair("");
    net.enable_v6(0, "eth1", "fe80::1/64");
    net.enable_v6(1, "eth0", "fe80::2/64");
    net.edit(0, "10.9.1.2:51900", "[fe80::2%eth1]:51900");
    net.only_called(1);
    for node in [0, 1] {
        net.edit(node, "[tunnel]", "[tunnel]\nlisten = \"[::]:51900\"");
    }

    net.start_all();

    net.expect_ping(0, "10.77.0.2");
    net.expect_ping(1, "10.77.0.1");
    let endpoint = net.status(0)["tunnels"][0]["endpoint"].as_str().unwrap().to_owned();
    assert!(endpoint.starts_with("[fe80::2%"), "{endpoint}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_name_in_the_file_of_hosts_is_tried_over_ipv6_and_ipv4() {
    let mut net = Net::pair("");
    // There is a way to the first, and nobody there.
    let hosts = format!("fd09::99 {NAME} other\n10.9.1.2\t{NAME}\n");
    let files = Files::new(&net.nodes[0], &[("hosts", &hosts), ("resolv.conf", "")]);
    net.enable_v6(0, "eth1", "fd09::1/64");
    net.enable_v6(1, "eth0", "fd09::2/64");
    net.called_by_name();
    net.edit(0, "[tunnel]", "[tunnel]\nlisten = \"[::]:51900\"");

    net.start_all();

    net.expect_ping(0, "10.77.0.2");
    assert_eq!(net.status(0)["tunnels"][0]["endpoint"], "10.9.1.2:51900");
    drop(files);
}

impl Net {
    /// Gateway 0 calls its peer by its name, and is not called itself.
    fn called_by_name(&self) {
        self.edit(0, "10.9.1.2:51900", &format!("{NAME}:51900"));
        self.only_called(1);
    }
}

/// Files in `/etc` of a namespace.
struct Files(PathBuf);

impl Files {
    fn new(namespace: &str, files: &[(&str, &str)]) -> Self {
        let folder = PathBuf::from("/etc/netns").join(namespace);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        Self(folder)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        // The folder stays while it holds files of others.
        let _ = fs::remove_dir("/etc/netns");
    }
}

/// A resolver on a host that passes questions on to the server, by whatever way the host has.
struct Passing {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Passing {
    fn start(net: &Net, node: usize, at: &str) -> Self {
        let socket = net.nets.within(&net.nodes[node], || UdpSocket::bind((at, 53)).unwrap());
        let onward = net.nets.within(&net.nodes[node], || UdpSocket::bind("0.0.0.0:0").unwrap());
        for socket in [&socket, &onward] {
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        }
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut datagram = [0; 512];
            while !ends.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut datagram) else { continue };
                let is_sent = onward.send_to(&datagram[..len], (SERVER, 53)).is_ok();
                if is_sent && let Ok((len, _)) = onward.recv_from(&mut datagram) {
                    let _ = socket.send_to(&datagram[..len], from);
                }
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A name server that knows one name, or none.
struct Names {
    known: Arc<Mutex<Known>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Known {
    addresses: BTreeMap<u16, Vec<Vec<u8>>>,
    asked: usize,
}

impl Names {
    fn start(net: &Net, node: usize) -> Self {
        let socket = net.nets.within(&net.nodes[node], || UdpSocket::bind((SERVER, 53)).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (known, is_over) = (Arc::<Mutex<Known>>::default(), Arc::<AtomicBool>::default());
        let (its, ends) = (Arc::clone(&known), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let mut question = [0; 512];
            while !ends.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut question) {
                    let answer = its.lock().unwrap().answer(&question[..len]);
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { known, is_over, thread: Some(thread) }
    }

    fn set(&self, addresses: &[&str]) {
        let mut known = self.known.lock().unwrap();
        known.addresses.clear();
        for address in addresses {
            let (kind, octets) = match address.parse().unwrap() {
                IpAddr::V4(v4) => (1, v4.octets().to_vec()),
                IpAddr::V6(v6) => (28, v6.octets().to_vec()),
            };
            known.addresses.entry(kind).or_default().push(octets);
        }
    }

    fn asked(&self) -> usize {
        self.known.lock().unwrap().asked
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Known {
    /// To a question with one name, which is copied.
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        self.asked += 1;
        let end = 12 + question[12..].iter().position(|octet| *octet == 0).unwrap() + 1;
        let kind = u16::from_be_bytes([question[end], question[end + 1]]);
        let none = Vec::new();
        let found = self.addresses.get(&kind).unwrap_or(&none);
        let code = if self.addresses.is_empty() { 3 } else { 0 };
        let mut answer = question[..2].to_vec();
        answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0]);
        answer.extend_from_slice(&question[12..end + 4]);
        for octets in found {
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 60, 0, u8::try_from(octets.len()).unwrap()]);
            answer.extend_from_slice(octets);
        }
        answer
    }
}
