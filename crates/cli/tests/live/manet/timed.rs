//! Measures how soon packets find a route during floods from stations in radio range.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::rng::Rng;
use manet::aodv::wire::{Errors, Message, Reply, Request};

use crate::manet::bed::{AODV, Manet};

/// Messages of a flood in a second, ...
const RATE: u32 = 10_000;
/// ... for how long they come, and for how long packets are watched afterwards.
const FLOOD: Duration = Duration::from_secs(4);
const AFTER: Duration = Duration::from_secs(3);
/// The longest time without a packet that arrives, during the flood and afterwards.
const MOST: Duration = Duration::from_secs(2);
const NUMBERS: [u32; 7] = [0, 1, 0x3fff_ffff, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff];

/// What a flood consists of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Requests and replies about honest nodes, with numbers from anywhere on the circle.
    Numbers,
    /// The same with changed octets.
    Mutations,
    /// Errors about all nodes with such numbers.
    Errors,
    /// Requests from nodes that do not exist.
    Strangers,
}

const KINDS: [Kind; 4] = [Kind::Numbers, Kind::Mutations, Kind::Errors, Kind::Strangers];

fn node(index: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 66, 0, u8::try_from(index + 1).unwrap())
}

/// One message, the `count`-th.
fn message(kind: Kind, rng: &mut Rng, count: u32) -> Vec<u8> {
    let number = |rng: &mut Rng| NUMBERS[usize::try_from(rng.below(7)).unwrap()];
    let (one, other) = (node(rng.below(3)), node(rng.below(3)));
    let stranger = Ipv4Addr::new(10, 66, 0, u8::try_from(100 + rng.below(150)).unwrap());
    let hops = u8::try_from(1 + rng.below(30)).unwrap();
    let request = Request {
        join: false,
        repair: false,
        gratuitous: false,
        destination_only: false,
        hops,
        id: count,
        destination: other,
        destination_sequence: Some(number(rng)),
        originator: one,
        originator_sequence: number(rng),
    };
    let reply = Reply {
        repair: false,
        acknowledge: false,
        prefix: 0,
        hops,
        destination: one,
        sequence: number(rng),
        originator: other,
        lifetime: Duration::from_secs(1_000),
        hello_interval: None,
        internet: None,
    };
    let message = match kind {
        Kind::Numbers | Kind::Mutations if rng.below(2) == 0 => Message::Reply(reply),
        Kind::Numbers | Kind::Mutations => Message::Request(request),
        Kind::Errors => {
            let unreachable = (0..3).map(|index| (node(index), number(rng))).collect();
            Message::Error(Errors { no_delete: rng.below(4) == 0, unreachable })
        }
        Kind::Strangers => Message::Request(Request { originator: stranger, ..request }),
    };
    let mut octets = Vec::new();
    message.emit(&mut octets);
    if matches!(kind, Kind::Mutations) {
        let at = usize::try_from(rng.below(octets.len() as u64)).unwrap();
        octets[at] = rng.bits().to_le_bytes()[0];
    }
    octets
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_is_found_within_two_seconds_beside_ten_thousand_messages_a_second() {
    for kind in KINDS {
        let manet = Manet::running(AODV, 3);
        manet.expect_reachable(0, "10.66.0.3");
        // Beside the cable of nodes 0 and 1, in the name of a third host.
        manet.run(0, "ip address add 10.66.0.66/32 dev radio0");
        manet.run(0, "ip route add 10.66.0.2/32 dev radio0 metric 1");
        let within = |node: usize, at: (Ipv4Addr, u16)| {
            manet.nets.within(&manet.nodes[node].name, || UdpSocket::bind(at).unwrap())
        };
        let forger = within(0, (Ipv4Addr::new(10, 66, 0, 66), 0));
        let from = within(0, (node(0), 0));
        let to = within(2, (node(2), 7_000));
        to.set_read_timeout(Some(Duration::from_millis(10))).unwrap();

        let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let longest = thread::scope(|scope| {
            scope.spawn(|| {
                let (began, mut rng) = (Instant::now(), Rng::stream(1, "flood"));
                for count in 0..RATE * u32::try_from(FLOOD.as_secs()).unwrap() {
                    let due = began + Duration::from_secs(1) / RATE * count;
                    // In small heaps: a socket holds some hundred.
                    if count.is_multiple_of(20) {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                    }
                    let octets = message(kind, &mut rng, count);
                    let is_sent = forger.send_to(&octets, (node(1), 654)).is_ok();
                    sent.fetch_add(u64::from(is_sent), Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // What finds no way is lost.
                    let _ = from.send_to(b"packet", (node(2), 7_000));
                    thread::sleep(Duration::from_millis(50));
                }
            });
            let began = Instant::now();
            let (mut last, mut longest) = (began, Duration::ZERO);
            while began.elapsed() < FLOOD + AFTER {
                if to.recv(&mut [0; 100]).is_ok() {
                    last = Instant::now();
                }
                longest = longest.max(last.elapsed());
            }
            is_over.store(true, Ordering::Relaxed);
            longest
        });

        let sent = sent.into_inner();
        println!("{kind:?}: {sent} messages, no packet for {longest:?} at most");
        assert!(sent > 30_000, "{sent} sent");
        assert!(longest < MOST, "{kind:?}: {longest:?}: {}", manet.told(1));
    }
}
