//! Tests the status of a gateway's peers: who is present, since when, and why a peer is absent.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use ::gateway::keys::{self, System};
use ::gateway::sys::port::{OFFLOAD, Port};
use nix::sys::signal::Signal;
use serde_json::Value;
use tunnel::secure::PrivateKey;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;

#[test]
#[ignore = "needs root: run by ./test"]
fn one_look_says_who_is_there_since_when_and_how_well() {
    let mut net = Net::star(2, "--rate 20mbit --delay 2ms");
    net.start_all();
    net.transfer(0, 1, 200_000).finish(SOON);

    let said = net.run(0, &format!("{TRACKWAY} status"));
    let (_, first) = said.split_once("\npeer peer1: up for ").unwrap_or_else(|| panic!("{said}"));
    let (first, second) = first.split_once("\npeer peer2: up for ").unwrap();

    // Shares of what was never sent say nothing.
    let losses = ["0 % before repair, 0 % after", "nothing was sent yet"];
    for (peer, block, loss) in [(1, first, losses[0]), (2, second, losses[1])] {
        for line in [
            format!("  public key          {}\n", net.keys[peer]),
            format!("  endpoint            10.9.{peer}.2:51900\n"),
            format!("  loss to it          {loss}\n"),
        ] {
            assert!(block.contains(&line), "{line}{said}");
        }
        assert!(block.contains("  last heard          0"), "{said}");
        assert!(!block.contains("packets_in"), "{said}");
    }
    let tunnel = &net.status(0)["tunnels"][0];
    for age in ["heard_age_s", "handshake_age_s", "state_age_s"] {
        assert!(tunnel[age].as_f64().is_some_and(|age| age < 60.0), "{tunnel}");
    }
    let counters = net.run(0, &format!("{TRACKWAY} status --counters"));
    assert!(counters.contains("packets_in"), "{counters}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn neither_log_nor_status_nor_counters_hold_a_secret() {
    let mut net = Net::pair("");
    let preshared = net.nets.folder().join("preshared.key");
    let secret = PrivateKey::generate(&mut System).unwrap().to_base64();
    keys::write_new(&preshared, &secret).unwrap();
    let metrics = net.nets.folder().join("metrics");
    let before = format!("log = \"trace\"\nmetrics = {metrics:?}\n");
    for node in 0..2 {
        net.write_config(node, &net.keys.clone(), &before);
        net.edit(
            node,
            "[[tunnel.peer]]",
            &format!("[[tunnel.peer]]\npreshared-key = {preshared:?}"),
        );
    }
    net.start_all();
    net.transfer(0, 1, 20_000).finish(SOON);
    // A configuration with secrets where names of files belong, and one that cannot be followed.
    let own = fs::read_to_string(net.nets.folder().join("0.key")).unwrap();
    net.edit(0, &format!("{preshared:?}"), &format!("{secret:?}"));
    let refused = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} reload"));
    let refused = String::from_utf8(refused.stderr).unwrap();
    net.edit(0, &format!("{secret:?}"), &format!("{preshared:?}"));
    net.edit(0, "[[tunnel.peer]]", &format!("[[tunnel.peer]]\n# {}\n", own.trim()));
    let status = net.run(0, &format!("{TRACKWAY} status --json"));
    let shown = net.run(0, &format!("{TRACKWAY} status --counters"));
    assert!(wait_until(SOON, || metrics.exists()));
    let counters = fs::read_to_string(&metrics).unwrap();
    let (code, printed) = net.gateway(0).stop();

    assert_eq!(code, Some(0), "{printed}");
    assert!(refused.contains("looks like a secret key itself"), "{refused}");
    assert!(printed.contains("TRACE") || printed.contains("DEBUG"), "{printed}");
    for text in [&refused, &status, &shown, &counters, &printed] {
        for secret in [secret.trim(), own.trim()] {
            let octets = octets_of(secret);
            assert_eq!(octets.len(), 32);
            let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            let list = format!("{octets:?}");
            for part in [&secret[..16], &hex[..16], &list[1..30]] {
                assert!(!text.contains(part), "{part}: {text}");
            }
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn signals_of_log_rotation_are_passed_over_and_others_end_it_cleanly() {
    let mut net = Net::pair("");
    net.start_all();

    for signal in [Signal::SIGUSR1, Signal::SIGUSR2] {
        net.gateway(0).signal(signal);
        net.expect_ping(0, "10.77.0.2");
    }
    net.gateway(0).signal(Signal::SIGALRM);
    let (code, printed) = net.gateway(0).finish(SOON);

    assert_eq!((code, net.claimed(0)), (Some(0), String::new()), "{printed}");
    assert!(printed.contains("SIGUSR1"), "{printed}");
}

/// What stands in base64 (RFC 4648, 4).
fn octets_of(base64: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = base64.bytes().filter_map(|it| LETTERS.iter().position(|letter| *letter == it));
    let digits: Vec<_> = digits.collect();
    let chunk = |four: &[usize]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        [bits >> 16, bits >> 8, bits]
            .map(|octet| u8::try_from(octet & 0xff).unwrap())
            .into_iter()
            .take(four.len() - 1)
    };
    digits.chunks(4).flat_map(chunk).collect()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_wrong_key_is_told_where_it_can_be_known() {
    let mut net = Net::pair("");
    let other = PrivateKey::generate(&mut System).unwrap().public_key().to_string();
    // Gateway 1 has another key for gateway 0, which calls it.
    net.write_config(1, &[other.clone(), String::new()], "");
    let began = Instant::now();
    net.start_all_without_waiting();

    let (address, key) = ("from=10.9.1.1:51900", format!("key={}", net.keys[0]));
    net.gateway(1).wait_for("call by an unknown key", SOON);
    let said = net.gateway(1).printed();
    assert!(said.contains(address) && said.contains(&key), "{said}");
    // What gateway 1 calls is not made for gateway 0's key.
    net.gateway(0).wait_for("call for another key than ours", SOON);
    net.gateway(0).wait_for("peer does not answer; trying on. Possible reasons", SOON);
    println!("told {:?} after the start", began.elapsed());
    let said = net.gateway(0).printed();
    assert!(said.contains("from=10.9.1.2:51900"), "{said}");
    assert!(said.contains("endpoint=10.9.1.2:51900"), "{said}");
    let handshakes = net.status(0)["tunnels"][0]["handshakes"].clone();
    assert!(handshakes["calls_sent"].as_u64().is_some_and(|sent| sent > 1), "{handshakes}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn another_preshared_key_is_told_at_both_ends() {
    let mut net = Net::pair("");
    for node in [0, 1] {
        let file = net.nets.folder().join(format!("psk{node}.key"));
        let secret = PrivateKey::generate(&mut System).unwrap();
        keys::write_new(&file, &secret.to_base64()).unwrap();
        net.append(node, &format!("preshared-key = {file:?}\n"));
    }
    // Gateway 1 only waits.
    net.only_called(1);
    net.start_all_without_waiting();

    net.gateway(0).wait_for("peer answers what cannot be read", SOON);
    net.gateway(1).wait_for("peer calls again and again, and takes no answer", SOON);

    let handshakes = |net: &Net, node: usize| net.status(node)["tunnels"][0]["handshakes"].clone();
    let (caller, called) = (handshakes(&net, 0), handshakes(&net, 1));
    assert!(caller["bad_answers"].as_u64().is_some_and(|bad| bad > 3), "{caller}");
    assert_eq!(caller["answers_received"], 0, "{caller}");
    assert!(called["calls_answered"].as_u64().is_some_and(|many| many > 3), "{called}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_that_starts_anew_is_found_though_nobody_sends_anything() {
    let mut net = Net::pair("--delay 5ms");
    net.append(0, "keepalive = \"1s\"\n");
    net.only_called(1);
    net.start_all();

    net.crash_and_start(1);

    let sessions = |net: &Net| net.status(0)["tunnels"][0]["sessions"].clone();
    assert!(wait_until(SOON, || sessions(&net) == 2), "{}", net.status(0));
    let is_up = wait_until(SOON, || net.status(1)["tunnels"][0]["state"] == "up");
    assert!(is_up, "{}", net.status(1));
}

mod timed {
    use super::*;

    /// Before a busy machine has printed what it is asked for.
    const SLACK: f64 = 1.5;

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn a_dead_peer_is_silent_within_three_keepalives() {
        const KEEPALIVE: f64 = 2.0;
        let mut net = Net::pair("--delay 5ms");
        net.append(0, &format!("keepalive = \"{KEEPALIVE}s\"\n"));
        net.only_called(1);
        net.start_all();
        let tunnel = |net: &Net| net.status(0)["tunnels"][0].clone();
        let heard = |tunnel: &Value| tunnel["heard_age_s"].as_f64().unwrap();

        // An idle peer that lives is never silent: it is asked.
        let until = Instant::now() + Duration::from_secs_f64(4.0 * KEEPALIVE);
        while Instant::now() < until {
            let tunnel = tunnel(&net);
            assert_eq!(tunnel["state"], "up", "{tunnel}");
            assert!(heard(&tunnel) < KEEPALIVE + SLACK, "{tunnel}");
        }

        net.gateway(1).signal(Signal::SIGSTOP);
        let mut last = Value::Null;
        let is_silent = wait_until(SOON, || {
            last = tunnel(&net);
            last["state"] != "up"
        });
        assert!(is_silent && last["state"] == "silent", "{last}");
        assert!(heard(&last) < 3.0 * KEEPALIVE + SLACK, "{last}");
        let is_down = wait_until(SOON, || tunnel(&net)["state"] == "path down");
        assert!(is_down, "{}", net.status(0));
        net.gateway(1).signal(Signal::SIGCONT);
        assert!(wait_until(SOON, || tunnel(&net)["state"] == "up"), "{}", net.status(0));
        let said = net.gateway(0).printed();
        assert!(said.contains("peer is silent") && said.contains("10.9.1.2:51900"), "{said}");
    }

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn traffic_goes_on_soon_after_the_called_side_has_started_anew() {
        let mut net = Net::pair("--delay 20ms");
        net.only_called(1);
        net.start_all();
        net.expect_ping(0, "10.77.0.2");

        let mut took = Vec::new();
        for _ in 0..3 {
            let mut pings = net.pings(0, "10.77.0.2");
            net.crash_and_start(1);
            let ready = Instant::now();
            let before = pings.printed().matches("bytes from").count();
            let is_back =
                wait_until(SOON, || pings.printed().matches("bytes from").count() > before);
            took.push(ready.elapsed());
            assert!(is_back, "{}", net.status(0));
            pings.signal(Signal::SIGKILL);
            pings.finish(SOON);
        }

        println!("after its start the called side carries traffic within {took:?}");
        assert!(took.iter().all(|took| *took < Duration::from_secs(3)), "{took:?}");
    }
}

impl Net {
    /// Starts all gateways.
    fn start_all_without_waiting(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
    }

    /// Adds to what a gateway knows of its last peer.
    pub fn append(&self, node: usize, line: &str) {
        let file = self.nets.folder().join(format!("{node}.toml"));
        fs::write(&file, fs::read_to_string(&file).unwrap() + line).unwrap();
    }

    /// A gateway does not know where its peer is.
    pub fn only_called(&self, node: usize) {
        let file = self.nets.folder().join(format!("{node}.toml"));
        let config = fs::read_to_string(&file).unwrap();
        let lines = config.lines().filter(|line| !line.starts_with("endpoint"));
        fs::write(&file, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }

    /// Pings an address every 50 ms until it is ended.
    fn pings(&self, node: usize, address: &str) -> crate::namespaces::Program {
        let mut command =
            self.nets.words(&self.nodes[node], &["ping", "-i", "0.05", "-W", "1", address]);
        crate::namespaces::Program::start(&mut command, "ping").unwrap()
    }
}

/// Whether a datagram or a ping to an address comes in clear to the interface of the other node.
fn is_seen(net: &Net, protocol: &str, to: &str, port: u16) -> bool {
    let sniffer = net.nets.within(&net.nodes[1], || Port::open("eth0").unwrap());
    if protocol == "icmp" {
        net.try_run(0, &format!("ping -c 1 -W 1 {to}"));
    } else {
        let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = net.nets.within(&net.nodes[0], || UdpSocket::bind(any).unwrap());
        let _ = socket.send_to(b"explained", (to, port));
    }
    let to: IpAddr = to.parse().unwrap();
    let mut frame = vec![0; 1 << 16];
    let mut is_seen = false;
    wait_until(Duration::from_millis(100), || {
        while let Ok(Some(received)) = sniffer.receive(&mut frame) {
            let packet = &frame[OFFLOAD + 14..received.len];
            is_seen |= match (packet[0] >> 4, to) {
                (4, IpAddr::V4(to)) => packet[16..20] == to.octets(),
                (6, IpAddr::V6(to)) => packet[24..40] == to.octets(),
                _ => false,
            };
        }
        is_seen
    });
    is_seen
}

#[test]
#[ignore = "needs root: run by ./test"]
fn explain_says_what_packets_really_do() {
    let mut net = Net::pair_with_default_routes();
    net.edit(0, "\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.2.0.0/16\"");
    net.start_all();
    net.run(0, "ip route add unreachable 198.51.100.0/24");
    net.run(0, "ip route del default via fd09::2");
    net.run(0, "ip route add 10.2.3.0/24 via 10.9.1.2");
    let mut flows = 0;

    for (to, expected) in [
        ("10.77.0.2", "tunnel"),
        ("10.2.9.9", "tunnel"),
        ("10.2.3.4", "ip"),
        ("fd77::2", "tunnel"),
        ("10.9.1.2", "ip"),
        ("fd09::2", "ip"),
        ("203.0.113.1", "ip"),
        ("198.51.100.1", "none"),
        ("2001:db8::1", "none"),
        ("10.77.0.1", "none"),
    ] {
        for (protocol, port) in
            [("icmp", 0), ("udp", 53), ("udp", 5_000), ("udp", 443), ("udp", 9), ("udp", 40_000)]
        {
            let at = |address: &str| match (protocol, address.contains(':')) {
                ("icmp", _) => address.to_owned(),
                (_, true) => format!("[{address}]:{port}"),
                (_, false) => format!("{address}:{port}"),
            };
            let from = if to.contains(':') { "fd09::1" } else { "10.9.1.1" };
            let asked = format!("{TRACKWAY} explain {protocol} {} {} --json", at(from), at(to));
            let said = net.nets.try_run(&net.nodes[0], &asked);
            let explained: Value = serde_json::from_slice(&said.stdout).unwrap();

            let service = explained["outcome"]["pass"]["service"].as_str().unwrap();
            assert_eq!(service, expected, "{asked}: {explained}");
            let is_clear = is_seen(&net, protocol, to, port);
            assert_eq!(is_clear, expected == "ip", "{asked}: {explained}");
            let arrives = expected != "none" || to == "10.77.0.1";
            assert_eq!(said.status.success(), arrives, "{asked}: {explained}");
            flows += 1;
        }
    }
    assert_eq!(flows, 60);

    // Without its peer, it does not arrive.
    net.crash(1);
    let ask = format!("{TRACKWAY} explain icmp 10.9.1.1 10.77.0.2");
    let is_told = wait_until(SOON, || {
        // Whoever sends nothing misses nobody.
        net.try_run(0, "ping -c 1 -W 0.2 10.77.0.2");
        let said = net.nets.try_run(&net.nodes[0], &ask);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        !said.status.success() && text.contains("to the peer peer1, which has 10.77.0.2/32")
    });
    let said = net.nets.try_run(&net.nodes[0], &ask);
    assert!(is_told, "{said:?}: {}", net.status(0)["tunnels"][0]["state"]);
}
