//! Tests the link emulator between two namespaces against theory and, in [`timed`], against the clock.

mod timed;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gateway::sys::port::{OFFLOAD, Port};
use nix::sys::signal::Signal;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use serde_json::Value;

use crate::namespaces::{Emulated, Namespaces, SOON, TRACKWAY, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn frames_are_lost_as_often_as_asked_in_each_direction() {
    let mut cable = Cable::new("--loss 10% --ba-loss none --seed 3");
    let sent = 20_000;

    let arrived = cable.probe(sent, 100, Duration::from_micros(50)).arrivals.len();

    // Five standard errors of a binomial, which one of 1.7 million seeds exceeds; this one does not.
    let bound = 5.0 * (0.1 * 0.9 / 20_000.0_f64).sqrt();
    let lost = 1.0 - arrived as f64 / 20_000.0;
    assert!((lost - 0.1).abs() < bound, "{lost}");
    let report = cable.end();
    assert_eq!(count(&report, "ab", "delivered"), u64::try_from(arrived).unwrap());
    assert_eq!(count(&report, "ba", "lost"), 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_same_seed_loses_the_same_frames() {
    let arrived = |seed: u64| -> Vec<u32> {
        let mut cable = Cable::new(&format!("--loss 30% --seed {seed}"));
        let arrivals = cable.probe(300, 100, Duration::from_millis(1)).arrivals;
        arrivals.into_iter().map(|(number, _)| number).collect()
    };

    let (once, again, other) = (arrived(5), arrived(5), arrived(6));

    assert_eq!(once, again);
    assert_ne!(once, other);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_vlan_tag_goes_across() {
    let mut cable = Cable::new("");
    let [left, right] = [&cable.left, &cable.right]
        .map(|end| cable.nets.within(end, || Port::open("eth0").unwrap()));
    let mut frame = [0; 100];
    let (offload, tagged) = frame.split_at_mut(OFFLOAD);
    // To everyone, from a made-up station, VLAN 5, an experimental type.
    tagged[..6].fill(0xff);
    tagged[6..18].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x81, 0x00, 0x00, 0x05, 0x88, 0xb5]);

    left.send(&[offload, tagged].concat()).unwrap();

    let mut read = [0; 200];
    let mut received = None;
    wait_until(SOON, || {
        received = right.receive(&mut read).unwrap();
        received.is_some()
    });
    // The kernel takes the tag out and says so.
    let received = received.unwrap();
    assert_eq!(received.tag, Some([0x81, 0x00, 0x00, 0x05]));
    assert_eq!(read[OFFLOAD..received.len], [&tagged[..12], &tagged[16..]].concat());
    assert_eq!(count(&cable.end(), "ab", "sent_octets"), 100 - 10 - 14);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn every_frame_is_accounted_for() {
    let mut cable = Cable::new("--rate 1mbit --queue 20 --loss 20% --delay 5ms");
    cable.probe(500, 300, Duration::from_micros(500));

    let report = cable.end();

    for direction in ["ab", "ba"] {
        let of = |what| count(&report, direction, what);
        assert_eq!(of("received"), of("sent") + of("queue_full"), "{report}");
        assert_eq!(of("sent"), of("delivered") + of("lost"), "{report}");
    }
    assert!(count(&report, "ab", "queue_full") > 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn it_ends_by_itself_or_when_told_to() {
    for signal in [None, Some(Signal::SIGINT), Some(Signal::SIGTERM)] {
        let mut cable = Cable::new(if signal.is_none() { "--duration 300ms" } else { "" });
        let program = cable.nets.program(cable.link.program);

        if let Some(signal) = signal {
            program.signal(signal);
        }
        let (code, printed) = program.finish(SOON);

        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("\"delivered\""), "{printed}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_interfaces_are_left_as_they_were() {
    let mut cable = Cable::new("");
    let middle = cable.link.air.clone();
    let state = |nets: &Namespaces| nets.run(&middle, "ip -details link show dev a");
    let during = state(&cable.nets);

    cable.end();

    assert!(during.contains("promiscuity 1"), "{during}");
    assert_eq!(state(&cable.nets), during.replace("promiscuity 1", "promiscuity 0"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_that_goes_away_ends_it() {
    let mut cable = Cable::new("");
    cable.nets.run(&cable.link.air, "ip link delete dev b");

    let (code, printed) = cable.nets.program(cable.link.program).finish(SOON);

    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("trackway: b is gone"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_cannot_be_joined_is_said_with_the_remedy() {
    let mut nets = Namespaces::new();
    let here = nets.add("here");
    nets.cable((&here, "up0"), (&here, "up1"));
    nets.cable((&here, "down0"), (&here, "down1"));
    nets.run(&here, "ip link set dev down0 down");

    let refusal = |ends: &str| {
        let output = nets.try_run(&here, &format!("{TRACKWAY} link {ends}"));
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(complaint.trim_end().lines().count(), 1, "{complaint}");
        (output.status.code(), complaint)
    };
    for (ends, code, expected) in [
        ("up0 none0", 2, "there is no interface none0"),
        ("up0 nowhere:up1", 2, "there is no network namespace nowhere"),
        ("up0 lo", 2, "lo is not an Ethernet interface"),
        ("up0 up0", 2, "a link has two ends"),
        ("up0 down0", 1, "`ip link set dev down0 up`"),
        ("up0 up1 --jitter 5ms", 2, "jitter 5ms is more than delay 0ns"),
    ] {
        let (status, complaint) = refusal(ends);
        assert!(complaint.contains(expected), "{complaint}");
        assert_eq!(status, Some(code), "{complaint}");
    }

    let powerless = format!("setpriv --bounding-set=-all {TRACKWAY} link up0 up1");
    let output = nets.try_run(&here, &powerless);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("needs root"), "{complaint}");
}

/// Two namespaces with a link between them.
struct Cable {
    nets: Namespaces,
    left: String,
    right: String,
    link: Emulated,
}

/// What came of numbered datagrams from left to right.
struct Probe {
    sent: Vec<Instant>,
    arrivals: Vec<(u32, Instant)>,
}

impl Cable {
    fn new(options: &str) -> Self {
        let mut nets = Namespaces::new();
        let [left, right] = ["left", "right"].map(|name| nets.add(name));
        let ends = [(&left[..], "eth0", "10.9.0.1"), (&right[..], "eth0", "10.9.0.2")];
        let link = nets.emulate(ends, &format!("--json {options}"));
        Self { nets, left, right, link }
    }

    /// Sends datagrams of `octets`, `gap` apart, and waits for those that come.
    fn probe(&mut self, datagrams: u32, octets: usize, gap: Duration) -> Probe {
        let sender = self.nets.within(&self.left, || UdpSocket::bind("10.9.0.1:4000").unwrap());
        let receiver = self.nets.within(&self.right, || UdpSocket::bind("10.9.0.2:4000").unwrap());
        sender.connect("10.9.0.2:4000").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        // Whatever comes while the machine is busy with something else.
        setsockopt(&receiver, RcvBufForce, &(64 << 20)).unwrap();

        let is_sent = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&receiver, datagrams, &is_sent));
            let start = Instant::now();
            let mut datagram = vec![0; octets];
            let mut sent = Vec::new();
            for number in 0..datagrams {
                let due = start + gap * number;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                sent.push(Instant::now());
                sender.send(&datagram).unwrap();
            }
            is_sent.store(true, Ordering::Relaxed);
            Probe { sent, arrivals: receiving.join().unwrap() }
        })
    }

    /// Ends the link and returns its report.
    fn end(&mut self) -> Value {
        let (code, printed) = self.nets.program(self.link.program).stop();
        assert_eq!(code, Some(0), "{printed}");
        serde_json::from_str(printed.lines().last().unwrap()).unwrap()
    }
}

/// What arrives until all is there, or nothing comes any more after the last was sent.
fn receive(socket: &UdpSocket, at_most: u32, is_sent: &AtomicBool) -> Vec<(u32, Instant)> {
    let mut arrivals = Vec::new();
    let mut datagram = [0; 2_000];
    while arrivals.len() < usize::try_from(at_most).unwrap() {
        let was_sent = is_sent.load(Ordering::Relaxed);
        if socket.recv(&mut datagram).is_ok() {
            let at = Instant::now();
            arrivals.push((u32::from_be_bytes(*datagram.first_chunk().unwrap()), at));
        } else if was_sent {
            break;
        }
    }
    arrivals
}

fn count(report: &Value, direction: &str, what: &str) -> u64 {
    report[direction][what].as_u64().unwrap()
}
