//! Tests tunnels against datagrams of strangers, and against recorded and changed datagrams.

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use ::gateway::keys::System;
use ::gateway::sys::port::{OFFLOAD, Port};
use base::rng::Rng;
use base::time::Time;
use tunnel::secure::PrivateKey;

use super::{Net, SOON, TRACKWAY, caller};
use crate::clock::Clock;
use crate::namespaces::wait_until;

/// Octets of the Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// Frames that are caught on the cable.
const CAUGHT: usize = 500;
/// How often each is sent again.
const ROUNDS: usize = 20;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_stranger_gets_no_answer_at_all() {
    let mut net = Net::pair("");
    let other = PrivateKey::generate(&mut System).unwrap().public_key().to_string();
    net.write_config(1, &[other, String::new()], "");
    net.start(1);
    // The other end calls with a key that is not in the configuration, and so does who knows the gateway's own key.
    let stranger = PrivateKey::generate(&mut System).unwrap();
    let of = net.keys[1].parse().unwrap();
    let calls: Vec<_> = (0..8)
        .map(|seed| {
            caller(&stranger, of, "10.9.1.2:51900", seed).poll_transmit(Time::ZERO).unwrap()
        })
        .collect();
    let heard = net.nets.within(&net.nodes[0].clone(), || {
        let socket = UdpSocket::bind("10.9.1.1:51900").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
        for len in [1_usize, 32, 156, 1_200] {
            for first in 0..8 {
                let mut datagram = vec![0x5a; len];
                datagram[0] = first;
                socket.send_to(&datagram, "10.9.1.2:51900").unwrap();
            }
        }
        for call in &calls {
            socket.send_to(&call.datagram, call.to).unwrap();
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
    let is_counted = wait_until(SOON, || net.count(1, "secure_unknown_key") > 0);
    assert!(is_counted, "{}", net.status(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn replayed_forged_and_random_datagrams_are_counted_and_disturb_nothing() {
    let mut net = Net::pair("--rate 20mbit --delay 2ms");
    net.start_all();
    let transfer = net.transfer(0, 1, 8_000_000);
    transfer.wait_for(500_000, SOON);
    let caught = catch(&net);
    let injector = net.nets.within(&net.cables[0].air, || Port::open("b").unwrap());
    let memory = memory(&mut net, 1);
    let mut rng = Rng::stream(1, "hostile");

    let mut sent = [0; 3];
    for round in 0..ROUNDS {
        for frame in &caught {
            let mut frame = frame.clone();
            let kind = round % 3;
            match kind {
                0 => {}
                1 => {
                    // A number that is yet to come, lest it is taken for a replay.
                    frame[OFFLOAD + HEADERS + 5] ^= 0x40;
                }
                _ => {
                    for octet in &mut frame[OFFLOAD + HEADERS..] {
                        *octet = rng.bits().to_le_bytes()[0];
                    }
                    // Some are of a kind that exists.
                    frame[OFFLOAD + HEADERS] &= 7;
                }
            }
            sent[kind] += u64::from(injector.send(&frame).is_ok());
        }
        // The kernel drops what the gateway's socket has no room for: one round always fits.
        let has_read = wait_until(SOON, || is_all_read(&net.run(1, "cat /proc/net/udp")));
        assert!(has_read, "{}", net.status(1));
    }

    transfer.finish(SOON);
    let status = net.status(1);
    let count = |name: &str| status[format!("secure_{name}")].as_u64().unwrap();
    let [replayed, forged, random] = sent;
    assert!(sent.iter().all(|sent| *sent > 1_000), "{sent:?}");
    // Late ones are outside of the window by which replays are known. The kernel may drop some.
    assert!(count("replayed") + count("too_old") > replayed / 2, "{sent:?} {status}");
    assert!(count("forged") > forged / 2, "{sent:?} {status}");
    assert!(count("malformed") + count("unknown") > random / 2, "{sent:?} {status}");
    let grown = self::memory(&mut net, 1).saturating_sub(memory);
    assert!(grown < 16_000, "{grown} KB more");
    net.expect_ping(0, "10.77.0.2");
    assert_eq!(net.status(1)["tunnels"][0]["endpoint"], "10.9.1.1:51900");
}

/// Frames of the tunnel on their way to gateway 1.
fn catch(net: &Net) -> Vec<Vec<u8>> {
    let port = net.nets.within(&net.nodes[1], || Port::open("eth0").unwrap());
    let mut frames = Vec::new();
    let mut frame = vec![0; 1 << 16];
    wait_until(SOON, || {
        while let Ok(Some(received)) = port.receive(&mut frame) {
            // UDP over IPv4, without a checksum, and with nothing left to do.
            if received.len > OFFLOAD + HEADERS && frame[OFFLOAD + 14 + 9] == 17 {
                let mut caught = frame[..received.len].to_vec();
                caught[..OFFLOAD].fill(0);
                caught[OFFLOAD + HEADERS - 2..OFFLOAD + HEADERS].fill(0);
                frames.push(caught);
            }
        }
        frames.len() >= CAUGHT
    });
    assert!(frames.len() >= CAUGHT, "{} frames caught", frames.len());
    frames.truncate(CAUGHT);
    frames
}

/// Whether nothing waits in any socket: the kernel's table has the octets of transmit and receive
/// queue in its fifth column.
fn is_all_read(table: &str) -> bool {
    let mut queues = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4));
    queues.all(|queues| queues.ends_with(":00000000"))
}

/// What a gateway has in memory now, in KB.
fn memory(net: &mut Net, node: usize) -> u64 {
    let path = format!("/proc/{}/status", net.gateway(node).pid());
    let status = fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_tunnel_goes_on_when_the_wall_clock_is_set_back_or_forward() {
    let mut net = Net::pair("");
    let Some(clock) = Clock::new(&net.nets) else { return };
    net.start_all();
    let command = format!(
        "env {} {TRACKWAY} run {}",
        clock.variables,
        net.nets.folder().join("0.toml").display()
    );
    let start = |net: &mut Net| {
        let (code, said) = net.gateway(0).stop();
        assert_eq!(code, Some(0), "{said}");
        let node = net.nodes[0].clone();
        net.programs[0] = Some(net.nets.start(&node, &command, "gateway ready"));
        net.expect_ping(0, "10.77.0.2");
    };
    start(&mut net);

    for (changes, moved) in [(1, -3_600), (2, 3_600), (3, 0)] {
        clock.set(moved);
        net.expect_ping(0, "10.77.0.2");
        net.expect_pings(0, "10.77.0.2", 3);
        // Perhaps a copy of this machine goes on: the keys are new.
        assert_eq!(net.count(0, "secure_copies"), changes, "{moved}");
    }
    // Its calls are an hour older than those that the peer has heard.
    clock.set(-3_600);
    start(&mut net);
    clock.set(0);
    net.expect_ping(0, "10.77.0.2");
}
