//! Tests attacks of a station in radio range on gateways: a group key leaves it nothing but noise.
//!
//! ```text
//!    a, a gateway      b, a gateway or a plain node      attacker
//!        └───────────────────────┴─────────────────────────┘
//!                 the air: a bridge that never learns
//! ```
//! Everybody hears every frame, as on the radio.

mod air;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use air::{ADDRESSES, Air, Name, PROTOCOL, SOON, hello_in};
use base::ethernet::{self, Mac};
use base::ip::udp::Datagram;
use base::ip::{Spec, rewrite_v4_checksum};
use hbh::Profile;
use hbh::hello::Hello;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket,
};

use crate::logs::{Kind, expect_bounded};
use crate::namespaces::{TRACKWAY, undisturbed, wait_until};
use testbed::traffic::Transfer;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_station_in_the_name_of_a_plain_node_is_a_neighbour_without_a_key_until_that_nodes_kernel_refuses()
 {
    for is_keyed in [false, true] {
        let mut air = Air::new(is_keyed);
        air.start(0, "");
        air.ping(0, 1, 3);

        // With the hardware address of the plain node, and its IP address.
        let mut name = Name::new(air.mac(1), ADDRESSES[1]);
        if is_keyed {
            for _ in 0..20 {
                air.answer_in(&mut name);
            }
        } else {
            let is_up = || air.answer_in(&mut name) && air.count(0, "neighbours") == 1;
            assert!(wait_until(SOON, is_up), "{}", air.status(0));
        }
        let said = air.try_ping(0, 1, "-c 3");

        assert!(said.contains(" 0% packet loss"), "{said}\n{}", air.status(0));
        let refused = air.count(0, "hellos_unauthenticated");
        assert_eq!(refused > 0, is_keyed, "{}", air.status(0));
        // The attack works without a key, which proves the attack real; the plain node's kernel ends it.
        for counter in ["neighbours_up", "refusals_received"] {
            assert_eq!(air.count(0, counter) > 0, !is_keyed, "{}", air.status(0));
        }
        assert_eq!(air.count(0, "neighbours"), 0, "{}", air.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn thousands_of_false_stations_do_not_keep_a_neighbour_out() {
    let mut air = Air::new(false);
    air.start(0, "");

    air.send_hellos((0..2_500).map(|station| Name::stranger(station).hello(1)));
    air.start(1, "");
    air.send_hellos((2_500..5_000).map(|station| Name::stranger(station).hello(1)));
    // In such a crowd HBH begins where packets go.
    let is_up = wait_until(SOON, || {
        air.try_ping(0, 1, "-c 1 -W 1");
        air.count(0, "neighbours") == 1
    });

    assert!(is_up, "{}", air.status(0));
    assert!(air.count(0, "neighbours_evicted") > 4_000, "{}", air.status(0));
    air.ping(0, 1, 3);
    assert!(air.count(0, "packets_intercepted") > 0, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn false_goodbyes_end_nothing() {
    let mut air = Air::new(true);
    air.start_both("");

    let [ours, theirs] = [0, 1].map(|node| air.hello_of(air.mac(node)));
    for counter in 0..200 {
        // A message in the name of b, made from all that is heard of the conversation.
        let us = theirs.neighbours.iter().find(|heard| heard.boot == ours.boot);
        let goodbye = Hello {
            is_goodbye: true,
            counter: theirs.counter + 1_000 + counter,
            neighbours: us.copied().into_iter().collect(),
            ..theirs.clone()
        };
        air.send_hello(&goodbye);
    }
    air.ping(0, 1, 10);

    assert!(air.count(0, "hellos_unauthenticated") >= 200, "{}", air.status(0));
    assert_eq!(air.count(0, "neighbours_down"), 0, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn recorded_hellos_and_packets_count_no_second_time() {
    let mut air = Air::new(true);
    air.start_both("");
    // One start of b, with its goodbye, and another.
    air.ping(0, 1, 5);
    air.stop(1);
    air.start(1, "");
    assert!(wait_until(SOON, || air.count(0, "neighbours") == 1), "{}", air.status(0));
    air.ping(0, 1, 5);

    let frames = air.heard();
    let hellos = frames.iter().filter(|frame| hello_in(frame).is_some()).count();
    assert!(hellos > 4 && frames.len() > hellos + 20, "{hellos} of {}", frames.len());
    let downs = air.count(0, "neighbours_down");
    for frame in frames.iter().chain(frames.iter().rev()) {
        air.send(frame);
    }
    air.ping(0, 1, 10);

    assert_eq!(air.count(0, "neighbours_down"), downs, "{}", air.status(0));
    assert!(air.count(0, "hellos_stale") > 2, "{}", air.status(0));
    assert!(air.count(0, "frames_replayed") > 10, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn forged_packets_of_a_neighbour_are_dropped_and_counted() {
    let mut air = Air::new(true);
    air.start_both("");
    air.ping(0, 1, 5);

    let frames = air.heard();
    let packets: Vec<_> = frames
        .iter()
        .filter(|frame| hello_in(frame).is_none() && frame[6..12] == air.mac(1).0)
        .collect();
    assert!(packets.len() > 4, "{} packets", packets.len());
    for round in 0..200 {
        let mut frame = packets[round % packets.len()].clone();
        // A number that was not used, a word of the content, or the address it claims to come from.
        let len = frame.len();
        let at = [len - 9, len - 14, ethernet::HEADER + 15][round % 3];
        frame[at] ^= 0x40;
        rewrite_v4_checksum(&mut frame[ethernet::HEADER..][..20]);
        air.send(&frame);
    }
    // And a packet without a trailer, as nodes without a key send.
    let mut packet = Vec::new();
    Spec::new(ADDRESSES[1].into(), ADDRESSES[0].into(), PROTOCOL).emit(8, &mut packet);
    packet.extend_from_slice(&[0x80, 1, 0, 1, 0, 0, 59, 0]);
    air.send(&[&ethernet::header(air.mac(0), air.mac(1), &packet)[..], &packet].concat());
    air.ping(0, 1, 10);

    // Those with a number that was taken are not looked at any further.
    let [forged, again] = ["frames_forged", "frames_replayed"].map(|name| air.count(0, name));
    assert_eq!((forged + again, forged >= 67), (201, true), "{}", air.status(0));
    assert_eq!(air.count(0, "neighbours_down"), 0, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_neighbour_sends_from_no_address_of_the_gateway() {
    let mut air = Air::new(true);
    for node in [0, 1] {
        let name = air.nodes[node].clone();
        air.nets.run(&name, "sysctl -qw net.ipv6.conf.m0.disable_ipv6=0");
        air.nets.run(&name, &format!("ip address add fd09::{}/64 dev m0 nodad", node + 1));
    }
    // As a host has it that sends errors about packets of its own: its kernel believes such packets.
    air.nets.run(&air.nodes[0], "sysctl -qw net.ipv4.conf.m0.accept_local=1");
    air.start_both("");
    air.ping(1, 0, 1);
    let heard = ["10.9.0.1:9", "[fd09::1]:9"].map(|at| {
        let socket = air.nets.within(&air.nodes[0], || UdpSocket::bind(at).unwrap());
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket
    });
    let raw = [AddressFamily::Inet, AddressFamily::Inet6].map(|family| {
        air.nets.within(&air.nodes[1], || {
            socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw).unwrap()
        })
    });
    let send = |from: &str, payload: &[u8]| {
        let is_v6 = from.starts_with('[');
        let to = if is_v6 { "[fd09::1]:9" } else { "10.9.0.1:9" };
        let [source, destination]: [SocketAddr; 2] = [from, to].map(|at| at.parse().unwrap());
        let mut packet = Vec::new();
        Datagram { source, destination, payload }.emit(&mut packet);
        let to = SockaddrStorage::from(SocketAddr::new(destination.ip(), 0));
        sendto(raw[usize::from(is_v6)].as_raw_fd(), &packet, &to, MsgFlags::empty()).unwrap();
    };

    // Addresses of the interface; one of another interface, learnt while it runs; nobody's.
    air.nets.run(&air.nodes[0], "ip address add 10.66.0.1/32 dev lo");
    for (from, what, sum) in [
        ("10.9.0.1:9", "packets_from_self", 1),
        ("[fd09::1]:9", "packets_from_self", 2),
        ("10.66.0.1:9", "packets_from_self", 3),
        ("224.0.0.5:9", "packets_not_unicast", 1),
    ] {
        send(from, b"spoofed");
        assert!(wait_until(SOON, || air.count(0, what) == sum), "{from}: {}", air.status(0));
    }

    // Nothing of that was delivered before, and other hosts are forwarded for.
    for (from, socket) in ["10.77.0.9:9", "[fd77::9]:9"].iter().zip(&heard) {
        send(from, b"true");
        let mut data = [0; 20];
        let (len, named) = undisturbed(|| socket.recv_from(&mut data)).unwrap();
        assert_eq!((&data[..len], named), (&b"true"[..], from.parse().unwrap()));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_list_of_neighbours_is_kept_and_binds_addresses() {
    let mut air = Air::new(false);
    let bound = format!("neighbours = [\"10.9.0.2 at {}\"]\n", air.mac(1));
    air.start(0, &bound);

    let mut unlisted = Name::new(Mac([2, 0, 0, 0, 0, 9]), [10, 9, 0, 9]);
    let mut misplaced = Name::new(Mac([2, 0, 0, 0, 0, 8]), ADDRESSES[1]);
    for _ in 0..5 {
        air.answer_in(&mut unlisted);
        air.answer_in(&mut misplaced);
    }
    let is_counted = wait_until(SOON, || {
        air.count(0, "hellos_unlisted") >= 5 && air.count(0, "hellos_misplaced") >= 5
    });
    let is_alone = air.count(0, "neighbours") == 0;
    air.start(1, "");
    let is_up = wait_until(SOON, || air.count(0, "neighbours") == 1);

    assert!(is_counted && is_alone && is_up, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_address_of_a_neighbour_is_not_given_to_a_second_station() {
    let mut air = Air::new(false);
    air.start_both("");

    let mut second = Name::new(Mac([2, 0, 0, 0, 0, 8]), ADDRESSES[1]);
    for _ in 0..5 {
        air.answer_in(&mut second);
    }
    let is_counted = wait_until(SOON, || air.count(0, "hellos_disputed") >= 5);

    assert!(is_counted, "{}", air.status(0));
    assert_eq!(air.count(0, "neighbours"), 1, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nobody_comes_up_who_does_not_repeat_the_session_of_now() {
    let mut air = Air::new(false);
    air.start(0, "");

    // It hears us, and says another session than ours.
    let mut name = Name::new(Mac([2, 0, 0, 0, 0, 9]), [10, 9, 0, 9]);
    name.error = 1;
    let mut told = 0;
    let is_told = wait_until(SOON, || {
        told += u32::from(air.answer_in(&mut name));
        told == 3
    });
    let is_down = air.count(0, "neighbours") == 0;
    name.error = 0;
    let is_up = wait_until(SOON, || air.answer_in(&mut name) && air.count(0, "neighbours") == 1);

    assert!(is_told && is_down && is_up, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_strangers_say_fills_no_log() {
    let mut air = Air::new(false);
    air.start(0, "");

    let seed = |station| Hello { profile: Profile::Paper, ..Name::stranger(station).hello(1) };
    air.send_hellos((0..5_000).map(seed));
    let is_heard = wait_until(SOON, || air.count(0, "hellos_incompatible") > 4_000);
    let printed = air.stop(0);

    assert!(is_heard);
    let lines = printed.lines().filter(|line| line.contains("another profile")).count();
    // A second one if the minute ended meanwhile.
    assert!((1..=2).contains(&lines), "{lines} lines");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_neighbour_with_the_key_that_does_all_it_can_writes_few_lines() {
    const NAMES: u16 = 50;
    const ROUNDS: u64 = 200;
    let mut air = Air::new(true);
    air.betray();
    let mut names: Vec<_> = (0..NAMES).map(Name::stranger).collect();
    let listed: Vec<_> = names.iter().map(|name| name.hello(0).addresses[0].to_string()).collect();
    let bound = format!("10.9.0.2 at {}", air.mac(1));
    let listed = listed.into_iter().chain([bound]).collect::<Vec<_>>();
    air.start(
        0,
        &format!("neighbours = {listed:?}\nhello.interval = \"100ms\"\nhello.hold = \"500ms\"\n"),
    );
    let began = Instant::now();

    // Each comes up and falls silent; others claim its address, that of a listed node, or have another profile,
    // version, key or none.
    for (number, name) in (0..).zip(&mut names) {
        let is_up = || air.answer_in(name) && air.count(0, "neighbours_up") > number;
        assert!(wait_until(SOON, is_up), "{number}: {}", air.status(0));
        let mut second =
            Name::new(Mac([2, 0, 0, 8, 0, 1]), [10, 9, 0x80, u8::try_from(number).unwrap()]);
        air.answer_in(&mut second);
    }
    for counter in 1..=ROUNDS {
        let hello = Name::new(Mac([2, 0, 0, 7, 0, 1]), [10, 9, 0x80, 1]).hello(counter);
        air.send_hello(&Hello { profile: Profile::Paper, ..hello.clone() });
        air.send_unkeyed(&hello);
        air.send_false(&hello, |payload| *payload.last_mut().unwrap() ^= 1);
        air.send_false(&hello, |payload| payload[1] ^= 0x40);
        let misplaced = Name::new(Mac([2, 0, 0, 6, 0, 1]), ADDRESSES[1]);
        air.send_hello(&misplaced.hello(counter));
    }
    for counter in ["incompatible", "unauthenticated", "forged", "other_version"] {
        let counter = format!("hellos_{counter}");
        let comes = wait_until(SOON, || air.count(0, &counter) > ROUNDS / 2);
        assert!(comes, "{counter}: {}", air.status(0));
    }
    // On a busy machine one may be gone before the next comes, and come again.
    let are_gone = || air.count(0, "neighbours_down") == air.count(0, "neighbours_up");
    assert!(wait_until(SOON, are_gone), "{}", air.status(0));

    let noisy = began.elapsed();
    let printed = air.stop(0);
    let once = |lines| Kind { lines, most: 1 };
    expect_bounded(
        &printed,
        noisy,
        &[
            Kind { lines: &["neighbour speaks HBH"], most: 30 },
            Kind { lines: &["neighbour gone"], most: 30 },
            once(&["another profile"]),
            once(&["another group key or none"]),
            once(&["forges hellos"]),
            once(&["another version of HBH"]),
            once(&["claims an address of a neighbour"]),
            once(&["claims an address that `neighbours` gives to another"]),
        ],
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_has_another_key_or_none_is_reached_by_plain_ip_and_the_log_says_so() {
    let mut air = Air::new(true);
    air.start(0, "");
    let other = air.file("other.key");
    air.nets.run(&air.nodes[1], &format!("{TRACKWAY} keygen --group --out {}", other.display()));
    for key in [format!("group-key = {other:?}\n"), String::new()] {
        air.start_with(1, &key);
        let is_refused = wait_until(SOON, || air.count(1, "hellos_unauthenticated") > 0);

        assert!(is_refused, "{}", air.status(1));
        air.ping(0, 1, 3);
        assert_eq!(air.count(0, "neighbours"), 0, "{}", air.status(0));
        let printed = air.stop(1);
        let expected =
            if key.is_empty() { "and we have none" } else { "another group key or none" };
        assert!(printed.contains(expected), "{printed}");
        assert_eq!(printed.contains("no group-key"), key.is_empty(), "{printed}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn with_a_key_packets_leave_room_for_the_trailer() {
    let mut air = Air::new(true);
    air.start_both("");

    let too_long = air.try_ping(0, 1, "-c 1 -M do -s 1472");
    let fits = air.try_ping(0, 1, "-c 1 -M do -s 1449");
    Transfer::start(&air.nodes[0], (&air.nodes[1], "10.9.0.2"), 2_000_000).finish(SOON);

    assert!(too_long.contains("mtu = 1477"), "{too_long}");
    assert!(fits.contains(" 0% packet loss"), "{fits}");
    // One acknowledgement may answer a whole train of segments.
    for (node, least) in [(0, 1_000), (1, 10)] {
        assert!(air.count(node, "packets_intercepted") > least, "{}", air.status(node));
        assert_eq!(air.count(node, "frames_send_failed"), 0, "{}", air.status(node));
        assert_eq!(air.count(node, "frames_forged"), 0, "{}", air.status(node));
    }
}
