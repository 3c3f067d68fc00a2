//! Measures the delay of messages during floods of strangers, and to nodes that were away.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base::rng::Rng;
use sar::Ports;
use sar::wire::{Body, MaskBuffer, Pdu, Place};
use serde_json::json;

use super::bed::{Client, Net, PORT, address_of};
use crate::namespaces::{SOON, wait_until};

/// How long peers are away.
const AWAY: Duration = Duration::from_secs(30);
/// Messages that wait for each peer.
const MESSAGES: usize = 10;
const PEERS: usize = 5;
/// Two round trips over the cables, and what is asked beside.
const SOON_AFTER: Duration = Duration::from_millis(4 * 5 + 2_000);

/// Datagrams of a flood in a second.
const RATE: u32 = 10_000;
/// Messages that cross beside each flood.
const CROSSING: usize = 5;

/// Peers of gateway 0, each of which has received a message, as working peers have.
fn star() -> Net {
    let mut net = Net::star(PEERS, "--delay 5ms");
    for node in 0..=PEERS {
        net.configure(node, "round-trip = \"1s\"\nmost-timeout = \"60s\"\nrequests = 5\n");
    }
    net.start_all();
    let mut sender = net.program(0);
    let all: Vec<String> = (1..=PEERS).map(address_of).collect();
    sender.send(&all, "", b"before");
    sender.expect("accepted");
    assert!(sender.outcomes(PEERS).iter().all(|it| it.2 == "delivered"));
    net
}

/// Disconnects all peers, sends messages to each, and reconnects one peer after another. Prints and checks the time
/// from a peer's return to the delivery of its last message.
fn recover(name: &str, mut net: Net, mut act: impl FnMut(&mut Net, usize, bool)) {
    for peer in 1..=PEERS {
        act(&mut net, peer, false);
    }
    let mut sender = net.program(0);
    sender.give_up_after(SOON);
    for peer in 1..=PEERS {
        for _ in 0..MESSAGES {
            sender.send(&[address_of(peer)], "", b"a message that waits");
        }
    }
    (0..PEERS * MESSAGES).for_each(|_| _ = sender.expect("accepted"));
    thread::sleep(AWAY);

    let (tell, told) = mpsc::channel();
    let reader = thread::spawn(move || {
        for _ in 0..PEERS * MESSAGES {
            let outcome = sender.outcomes(1).remove(0);
            assert_eq!(outcome.2, "delivered");
            tell.send((outcome.1, Instant::now())).unwrap();
        }
    });
    let mut took = Vec::new();
    for peer in 1..=PEERS {
        act(&mut net, peer, true);
        let back = Instant::now();
        for _ in 0..MESSAGES {
            let (from, at) = told
                .recv_timeout(SOON)
                .unwrap_or_else(|_| panic!("{name}: nothing comes of {peer}: {}", net.status(0)));
            assert_eq!(from, address_of(peer), "the others are away");
            if took.len() < peer {
                took.push(Duration::ZERO);
            }
            took[peer - 1] = at.saturating_duration_since(back);
        }
    }
    reader.join().unwrap();
    took.sort();
    let (half, most) = (took[PEERS / 2], took[PEERS - 1]);
    println!("{name}: p50 {half:?}, max {most:?} of {PEERS} peers that were away for {AWAY:?}");
    assert!(most < SOON_AFTER, "{name}: {took:?}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_wait_for_a_gateway_that_was_dead() {
    let net = star();
    recover("gateway", net, |net, peer, is_back| match is_back {
        false => net.kill(peer),
        true => net.start(peer),
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_wait_for_a_link_that_was_down() {
    let net = star();
    recover("link", net, |net, peer, is_back| {
        let state = if is_back { "up" } else { "down" };
        net.nets.run(&net.nodes[0], &format!("ip link set eth{peer} {state}"));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_wait_for_a_route_that_was_withdrawn() {
    let net = star();
    recover("route", net, |net, peer, is_back| {
        let route =
            format!("10.9.{peer}.0/24 dev eth{peer} proto kernel scope link src 10.9.{peer}.1");
        let word = if is_back { "add" } else { "del" };
        net.nets.run(&net.nodes[0], &format!("ip route {word} {route}"));
    });
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    First,
    Last,
    Again,
    Single,
    Complete,
    Partial,
    Request,
    Noise,
}

fn hostile(kind: Kind, count: u32, rng: &mut Rng) -> Vec<u8> {
    let mask = MaskBuffer::new(2);
    let data = |number, last| {
        let place = Place::new(number, last).unwrap();
        Body::Data { is_acknowledged: true, polls: true, place, data: b"x" }
    };
    let [.., high, low] = count.to_be_bytes();
    let serial = u16::from_be_bytes([high, low]);
    let (serial, body) = match kind {
        Kind::First => (serial, data(1, 3)),
        Kind::Last => (serial, data(3, 3)),
        Kind::Again => (7, data(1, 3)),
        Kind::Single => (serial, data(1, 1)),
        Kind::Complete => (serial, Body::Complete { is_final: true }),
        Kind::Partial => (serial, Body::Partial { is_final: true, mask: mask.mask() }),
        Kind::Request => (serial, Body::AckRequest { last_sent: 2 }),
        Kind::Noise => (serial, data(2, 3)),
    };
    let mut octets = Vec::new();
    Pdu { ports: Ports { source: PORT, destination: 0 }, serial, body }.emit(&mut octets);
    if let Kind::Noise = kind {
        let at = usize::try_from(rng.below(octets.len() as u64)).unwrap();
        octets[at] ^= rng.bits().to_be_bytes()[0];
    }
    octets
}

/// Sends until told to stop.
fn flood(sockets: &[UdpSocket], kind: Kind, is_over: &AtomicBool, sent: &AtomicU64) {
    let mut rng = Rng::stream(3, "flood");
    let (start, mut count) = (Instant::now(), 0_u32);
    while !is_over.load(Ordering::Relaxed) {
        let due = RATE as f64 * start.elapsed().as_secs_f64();
        while f64::from(count) < due {
            let octets = hostile(kind, count, &mut rng);
            let socket = &sockets[count as usize % sockets.len()];
            // A full buffer of the kernel's is no reason to stop.
            sent.fetch_add(
                u64::from(socket.send_to(&octets, "10.8.0.1:1624").is_ok()),
                Ordering::Relaxed,
            );
            count += 1;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// How long messages take until they are delivered, one after the other.
fn cross(sender: &mut Client, name: &str) -> Vec<Duration> {
    let one = |number| {
        let start = Instant::now();
        sender.send(&["10.9.1.1".to_owned()], &format!("{name} {number}"), &[7; 20_000]);
        sender.expect("accepted");
        assert_eq!(sender.outcomes(1)[0].2, "delivered", "{name}");
        start.elapsed()
    };
    (0..CROSSING).map(one).collect()
}

/// Ticks of CPU that a process has had, and its resident KiB.
fn cost(pid: nix::unistd::Pid) -> (u64, u64) {
    let of = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let stat = std::fs::read_to_string(of("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|it| it.parse::<u64>().unwrap()).sum();
    let status = std::fs::read_to_string(of("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (ticks, line.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_cross_beside_ten_thousand_hostile_datagrams_a_second() {
    let mut net = Net::star(1, "--delay 5ms");
    let attacker = net.nets.add("attacker");
    net.nets.cable((&attacker, "evil0"), (&net.nodes[0], "evil1"));
    net.nets.address(&attacker, "evil0", "10.8.0.2/16");
    net.nets.address(&net.nodes[0], "evil1", "10.8.0.1/16");
    // Any of 65,536 addresses is the attacker's.
    net.nets.run(&attacker, "ip route add local 10.66.0.0/16 dev lo");
    net.nets.run(&net.nodes[0], "ip route add 10.66.0.0/16 via 10.8.0.2");
    net.start_all();
    let bind = |at: String| net.nets.within(&attacker, || UdpSocket::bind(&at).unwrap());
    let one = [bind("10.8.0.2:1624".to_owned())];
    let many: Vec<UdpSocket> =
        (0..500).map(|it| bind(format!("10.66.{}.{}:1624", it / 200, it % 200 + 1))).collect();
    let (mut sender, mut receiver) = (net.program(1), net.program(0));
    receiver.want(PORT);
    thread::spawn(move || {
        while let Ok((answer, _)) = receiver.answer() {
            let taken = json!({"do": "taken", "number": answer["number"]});
            if receiver.ask(&taken, &[]).is_err() {
                break;
            }
        }
    });
    let pid = net.gateway(0).pid();
    cross(&mut sender, "first");
    let alone = cross(&mut sender, "alone").into_iter().max().unwrap();
    println!("alone: max {alone:?}; {} KiB", cost(pid).1);

    let kinds = [
        Kind::First,
        Kind::Last,
        Kind::Again,
        Kind::Complete,
        Kind::Partial,
        Kind::Request,
        Kind::Noise,
        // Last: what nobody takes stays.
        Kind::Single,
    ];
    for kind in kinds {
        for sockets in [&one[..], &many] {
            let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
            let before = (net.count(0, "datagrams_received"), net.count(0, "sent_answers"));
            let (ticks, _) = cost(pid);
            let start = Instant::now();
            let took = thread::scope(|scope| {
                scope.spawn(|| flood(sockets, kind, &is_over, &sent));
                thread::sleep(Duration::from_secs(2));
                let took = cross(&mut sender, &format!("{kind:?} {}", sockets.len()));
                is_over.store(true, Ordering::Relaxed);
                took
            });
            let seconds = start.elapsed().as_secs_f64();
            let most = took.into_iter().max().unwrap();
            let sent = sent.into_inner();
            let (after, resident) = cost(pid);
            let received = || net.count(0, "datagrams_received") - before.0;
            wait_until(Duration::from_secs(2), || received() >= sent);
            let answers = net.count(0, "sent_answers") - before.1;
            println!(
                "{kind:?} of {} addresses: max {most:?}; {:.0} datagrams a second, {:.0} % of a CPU, {answers} answers to {}, {resident} KiB",
                sockets.len(),
                sent as f64 / seconds,
                (after - ticks) as f64 / seconds,
                received(),
            );
            assert!(most < alone + Duration::from_secs(1), "{kind:?} {}: {most:?}", sockets.len());
            assert!(answers <= received(), "{kind:?}: {answers} answers");
            assert!(resident < 192 << 10, "{kind:?}: {resident} KiB");
        }
    }
}
