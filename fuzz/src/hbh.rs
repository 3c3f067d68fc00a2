//! Fuzzes HBH: messages survive a round trip, and a node survives any neighbour.

use std::time::Duration;

use base::ip::{Checksum, Header, Spec, protocol, rewrite_v4_checksum};
use base::rng::Rng;
use base::time::Time;
use hbh::auth::{self, End, GroupKey};
use hbh::hello::Hello;
use hbh::wire::{self, Layout, Message};
use hbh::{Config, Link, Peer, PeerConfig, Profile, Relay};

/// Octets of a hello's head.
const HELLO: usize = 36;

/// Reads the input as messages, writes each again and compares.
pub fn message(input: &[u8]) {
    for layout in [Layout::Wide, Layout::Paper] {
        message_of(layout, input);
    }
}

fn message_of(layout: Layout, input: &[u8]) {
    let _ = Message::carried(layout, input);
    let mut rest = input;
    while let Ok((message, after)) = Message::split_first(layout, rest) {
        let own = &rest[..rest.len() - after.len()];
        let mut out = Vec::new();
        message.emit(layout, &mut out);
        // Reserved bits need not come back.
        match (message, Message::split_first(layout, &[&out[..], after].concat())) {
            (Message::Ack(sent), Ok((Message::Ack(read), _))) => assert_eq!(sent, read),
            (Message::Data(sent), Ok((Message::Data(read), _))) => assert_eq!(sent, read),
            (Message::Repair(sent), Ok((Message::Repair(read), _))) => assert_eq!(sent, read),
            (sent, read) => panic!("{sent:?} came back as {read:?}"),
        }
        assert_eq!(own.len(), out.len());
        if after.is_empty() {
            return;
        }
        rest = after;
    }
}

/// Two neighbours share a group key; an attacker between them changes and repeats packets.
pub fn conversation(input: &[u8]) {
    let key = GroupKey::new(&[7; auth::KEY]);
    let ends = [End { boot: 1, session: 2 }, End { boot: 3, session: 4 }];
    let mut sender = key.channel(ends[0], ends[1]);
    let mut receiver = key.channel(ends[1], ends[0]);
    // Packets sent: without the trailer, with the trailer, and whether the receiver accepted the packet.
    let mut sent: Vec<(Vec<u8>, Vec<u8>, bool)> = Vec::new();
    let mut out = Vec::new();
    let mut rest = input;
    while let Some((&[action, pick, len], after)) = rest.split_first_chunk::<3>() {
        let (octets, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        match action % 4 {
            0 => {
                let mut packet = octets.to_vec();
                if pick & 1 == 0 {
                    packet.clear();
                    let (from, to) = ("fd00::1", "fd00::2");
                    let [from, to] = [from, to].map(|text| text.parse().expect("an address"));
                    Spec::new(from, to, protocol::EXPERIMENT).emit(octets.len(), &mut packet);
                    packet.extend_from_slice(octets);
                }
                let mut before = packet.clone();
                // Stay within the window, so no packet is too old.
                if sent.len() < 1_000 && sender.seal(&mut packet).is_ok() {
                    before.truncate(packet.len() - auth::TRAILER);
                    let header = Header::parse(&before).expect("it was sealed");
                    if header.is_v4() {
                        rewrite_v4_checksum(&mut before[..header.len]);
                    }
                    sent.push((before, packet, false));
                }
            }
            1 => assert!(receiver.open(octets, &mut out).is_err(), "nobody sealed this"),
            action => {
                let count = sent.len();
                let Some((plain, sealed, is_taken)) =
                    sent.get_mut(usize::from(pick) % count.max(1))
                else {
                    continue;
                };
                let mut sealed = sealed.clone();
                // Never change octets which queues may change.
                let at = sealed.len() - 1 - usize::from(len) % (sealed.len() - 12).max(1);
                if action == 2 {
                    sealed[at] ^= 1 | pick;
                }
                let is_opened = receiver.open(&sealed, &mut out).is_ok();
                assert_eq!(is_opened, action == 3 && !*is_taken);
                if is_opened {
                    *is_taken = true;
                    assert_eq!(&out, plain);
                }
            }
        }
    }
}

/// The input chooses the messages of a node's neighbour and the packets of the network above.
pub fn node(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let profile = if flags & 1 == 0 { Profile::Default } else { Profile::Paper };
    let config = Config { flows: 8, packets: 32, queue: 8, ..Config::new(profile) };
    let mut relay = Relay::new(config, Rng::stream(1, "fuzz"));
    let local = "10.0.0.1".parse().expect("an address");
    let remote = "10.0.0.2".parse().expect("an address");
    relay.add_peer(Peer(1), PeerConfig { link: Link(0), local, remote, mtu: 576 });

    let mut now = Time::ZERO;
    let mut out = Vec::new();
    while let Some((&[action, len], after)) = rest.split_first_chunk::<2>() {
        let (octets, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        let mut packet = Vec::new();
        match action % 6 {
            0 => {
                Spec::new(remote, local, protocol::EXPERIMENT).emit(octets.len(), &mut packet);
                packet.extend(with_checksum(profile.layout(), octets));
                relay.handle_message(now, Peer(1), &packet);
            }
            1 => {
                Spec::new(local, remote, protocol::TCP).emit(octets.len(), &mut packet);
                packet.extend_from_slice(octets);
                let _ = relay.handle_packet(now, Peer(1), &packet);
            }
            2 => {
                Spec::new(local, remote, protocol::TCP).emit(octets.len(), &mut packet);
                packet.extend_from_slice(octets);
                relay.reroute(Peer(1), |_, _| true, |_, _| {});
            }
            3 => _ = relay.handle_message(now, Peer(1), octets),
            4 => now += Duration::from_millis(u64::from(len)),
            _ => while relay.poll_transmit(now, Link(0), &mut out).is_some() {},
        }
        relay.handle_timeout(now);
        assert!(relay.next_timeout().is_none_or(|at| at > now));
        // Forward every other packet to the same peer.
        let mut goes_on = false;
        while relay.poll_restored(&mut out).is_some() {
            goes_on = !goes_on;
            if goes_on {
                let restored = out.clone();
                let _ = relay.handle_packet(now, Peer(1), &restored);
            }
        }
        while relay.poll_event().is_some() {}
        let stats = relay.stats();
        assert!(stats.packets_held <= 32, "{stats:?}");
    }
}

/// Puts the right checksum into the first message, so the fuzzer gets past the check.
fn with_checksum(layout: Layout, octets: &[u8]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    if octets.len() < wire::HEADER {
        return octets;
    }
    let flags = octets[0];
    let before_intervals = match (layout, octets.get(wire::HEADER)) {
        (Layout::Wide, Some(count)) if count & 0x80 != 0 => wire::ACK,
        (Layout::Wide, _) => wire::HEADER + 1,
        (Layout::Paper, _) => wire::HEADER,
    };
    let own = match flags & 0x80 {
        0 => octets.len(),
        _ => (before_intervals + usize::from(flags & 0x3f) * 2).min(octets.len()),
    };
    octets[4..6].fill(0);
    let sum = Checksum::default().with(&octets[..own]).finish();
    octets[4..6].copy_from_slice(&sum.to_be_bytes());
    octets
}

/// Reads the input as a hello, writes it again and compares.
pub fn hello(input: &[u8]) {
    let key = GroupKey::new(&[7; auth::KEY]);
    for key in [None, Some(&key)] {
        let _ = Hello::parse(input, key);
    }
    let mut octets = input.to_vec();
    // With a valid head and checksum, so the fuzzer gets past both checks.
    if octets.len() >= HELLO {
        octets[..7].copy_from_slice(&[0x80, 3, 0, 0, 0, 0, 0xff]);
        octets[HELLO - 2..HELLO].fill(0);
        let sum = Checksum::default().with(&octets).finish();
        octets[4..6].copy_from_slice(&sum.to_be_bytes());
        assert!(Hello::is_one(&octets));
    }
    let Ok(hello) = Hello::parse(&octets, None) else { return };

    for key in [None, Some(&key)] {
        let mut out = Vec::new();
        hello.emit(key, &mut out);
        assert_eq!(out.len(), octets.len() + key.map_or(0, |_| auth::HELLO_TAG));
        assert_eq!(Hello::parse(&out, key), Ok(hello.clone()));
    }
}
