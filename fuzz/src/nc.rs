//! Fuzzes the coded tunnel: an end survives any datagram at any time in bounded memory. Compressed headers are restored
//! exactly or not at all.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base::ip::{self, Spec, protocol};
use base::rng::Rng;
use base::serial::low24;
use base::time::Time;
use tunnel::headers::{Compressor, Decompressor, Packing, Place};
use tunnel::{Config, PATHS, PathId, Tunnel};

const WINDOW: usize = 64;
const QUEUE: usize = 40_000;

/// The input chooses the packets for two ends and the fate of each datagram between the ends.
pub fn tunnel(input: &[u8]) {
    let config = Config { window: WINDOW, queue: QUEUE, ..Config::default() };
    let end = |name| Tunnel::new(Time::ZERO, config, Rng::stream(1, name));
    let mut ends = [end("near"), end("far")];
    let mut under_way: VecDeque<(usize, u64, Vec<u8>)> = VecDeque::new();
    let mut now = Time::ZERO;
    let mut rest = input;
    let mut out = Vec::new();

    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        let end = usize::from(action >> 7);
        match action & 0x0f {
            // A datagram from nowhere.
            0 | 1 => {
                let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
                rest = after;
                let number = u64::from(value) << (action >> 4 & 7);
                let path = PathId::new(usize::from(value) % PATHS).unwrap_or_default();
                ends[end].handle_datagram(now, path.number(number), value & 1 == 1, octets);
            }
            // An inner packet.
            2..=4 => {
                let mut packet = Vec::new();
                let [from, to] = [1, 2].map(|host| Ipv4Addr::new(10, action >> 5, 0, host).into());
                Spec::new(from, to, protocol::UDP).emit(usize::from(value) * 5, &mut packet);
                packet.resize(packet.len() + usize::from(value) * 5, value);
                let _ = ends[end].handle_packet(now, &packet);
            }
            5 => {
                let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
                rest = after;
                let _ = ends[end].handle_packet(now, octets);
            }
            6 => now += Duration::from_millis(u64::from(value)),
            7 => now += Duration::from_micros(u64::from(value) * 50),
            // A datagram in flight arrives, gets lost, arrives twice or late, or is changed.
            8..=10 => {
                for _ in 0..value {
                    let Some((to, number, octets)) = under_way.pop_front() else { break };
                    ends[to].handle_datagram(now, number, false, &octets);
                }
            }
            11 => drop(under_way.pop_front()),
            12 => under_way.rotate_left(usize::from(value).min(under_way.len())),
            13 => under_way.extend(under_way.front().cloned()),
            14 => {
                if let Some((_, number, octets)) = under_way.front_mut() {
                    let len = octets.len().max(1);
                    if let Some(octet) = octets.get_mut(usize::from(value) % len.min(48)) {
                        *octet ^= 1 << (action >> 4 & 7);
                    }
                    *number ^= u64::from(value & 1);
                }
            }
            _ => {
                let path = PathId::new(usize::from(value >> 2) % PATHS).unwrap_or_default();
                let Config { max_mtu, overhead, .. } = config;
                match value & 3 {
                    0 => ends[end].handle_path_changed(now, path, max_mtu, overhead),
                    1 => ends[end].open_path(now, path, [max_mtu, overhead], value >= 0x80),
                    _ => ends[end].handle_too_big(now, path, usize::from(value) * 8),
                }
            }
        }
        for (to, end) in ends.iter_mut().enumerate() {
            // A driver repeats its calls while a deadline is due.
            for turn in 0.. {
                assert!(turn < 1_000, "it spins");
                end.handle_timeout(now);
                while end.poll_packet(now, &mut out) {
                    assert!(!out.is_empty());
                }
                while end.poll_event().is_some() {}
                let next = |end: &mut Tunnel, out: &mut Vec<u8>| {
                    end.in_turn().find_map(|path| end.poll_transmit(now, path, out))
                };
                while let Some(transmit) = next(end, &mut out) {
                    assert!(out.len() <= config.max_mtu - config.overhead);
                    under_way.push_back((1 - to, transmit.number, out.clone()));
                    assert!(under_way.len() < 10_000, "it sends without end");
                }
                if end.next_timeout().is_none_or(|at| at > now) {
                    break;
                }
            }
            under_way.truncate(500);
            let estimates = end.estimates();
            assert!(estimates.queued <= QUEUE, "{estimates:?}");
            assert!(estimates.unacknowledged <= WINDOW, "{estimates:?}");
            assert!(estimates.path_mtu <= config.max_mtu, "{estimates:?}");
        }
    }
}

/// The input chooses the packets, and which packets arrive and are confirmed.
pub fn headers(input: &[u8]) {
    let mut near = Compressor::default();
    let mut far = Decompressor::default();
    // Receives arbitrary octets.
    let mut victim = Decompressor::default();
    let mut under_way: VecDeque<(u64, Vec<u8>, Packing)> = VecDeque::new();
    let (mut now, mut source, mut floor) = (Time::ZERO, 0, 0);
    let mut packet = segment(0);
    let mut rest = input;

    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        let at = usize::from(action >> 4) * 6;
        match action & 0x0f {
            0 => packet = segment(value),
            // A field changes, and the checksum with it or not.
            1..=3 => {
                if let Some(octet) = packet.get_mut(at + usize::from(value >> 5)) {
                    *octet = octet.wrapping_add(value & 0x1f);
                }
                if packet.len() >= 20 && packet[0] >> 4 == 4 && action & 0x0f > 1 {
                    ip::rewrite_v4_checksum(&mut packet[..20]);
                }
            }
            // The same flow goes on.
            4..=6 => {
                let tcp = if packet.first().is_some_and(|first| first >> 4 == 4) { 20 } else { 40 };
                if let Some(seq) = packet.get_mut(tcp + 5..tcp + 8) {
                    seq[0] = seq[0].wrapping_add(value);
                    seq[2] = seq[2].wrapping_add(action);
                }
            }
            7 => now += Duration::from_millis(u64::from(value) * 20),
            8 => floor = floor.max(u64::saturating_sub(source, u64::from(value % 8))),
            9 => {
                for (id, source) in far.poll_told(usize::from(value % 8)) {
                    if value < 0x80 {
                        near.handle_told(id, low24(source));
                    }
                }
            }
            10 => drop(under_way.pop_front()),
            11 => under_way.rotate_left(usize::from(value).min(under_way.len())),
            12 => {
                let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
                rest = after;
                victim.handle_announcement(source, action >> 4, octets);
                victim.handle_announcement(source, action >> 4, &packet);
            }
            13 => {
                let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
                rest = after;
                let mut out = Vec::new();
                let is_restored = victim.restore(source + 1, action >> 4, octets, &mut out).is_ok();
                assert!(is_restored || out.is_empty());
                assert!(out.len() <= 100 + octets.len());
            }
            _ => {
                let Some((source, packet, packing)) = under_way.pop_front() else { continue };
                match packing {
                    Packing::Announces(id) => far.handle_announcement(source, id, &packet),
                    Packing::Compressed(id, headers) => {
                        let mut octets = headers.octets().to_vec();
                        octets.extend_from_slice(&packet[headers.replaces()..]);
                        let mut out = Vec::new();
                        let restored = far.restore(source, id, &octets, &mut out);
                        assert!(restored.is_ok() || source < floor, "its context is there");
                        assert!(restored.is_err() || out == packet, "it is another packet");
                    }
                    Packing::Whole => {}
                }
            }
        }
        if action & 0x0f <= 6 {
            source += 1;
            let (flow, rtt) = (u32::from(value & 1), Duration::ZERO);
            let place = Place { flow, source, floor, rtt, has_room: true };
            let packing = near.pack(now, place, &packet);
            under_way.push_back((source, packet.clone(), packing));
            // The sender's window; earlier packets are given up.
            floor = floor.max(source.saturating_sub(500));
            under_way.truncate(500);
        }
    }
}

/// Builds a packet of a flow, of one of several kinds.
fn segment(kind: u8) -> Vec<u8> {
    let address = |host: u8| -> IpAddr {
        if kind & 1 == 0 {
            Ipv4Addr::new(10, kind >> 4, 0, host).into()
        } else {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, u16::from(kind >> 4), u16::from(host)).into()
        }
    };
    let (protocol, octets): (u8, &[u8]) = match kind >> 1 & 3 {
        0 => (protocol::TCP, &[0, 9, 0, 7, 0, 0, 0, 5, 0, 0, 0, 6, 0x50, 0x10, 1, 0, 3, 3, 0, 0]),
        1 => {
            let segment: &[u8] = &[
                0, 9, 0, 7, 0, 0, 0, 5, 0, 0, 0, 6, 0x80, 0x18, 1, 0, 3, 3, 0, 0, 1, 1, 8, 10, 0,
                0, 9, 9, 0, 0, 8, 8, 0x5a,
            ];
            (protocol::TCP, segment)
        }
        2 => (protocol::UDP, &[0, 9, 0, 7, 0, 10, 4, 4, 0x5a, 0xa5]),
        _ => (protocol::ICMP, &[8, 0, 1, 2, 3, 4]),
    };
    let mut packet = Vec::new();
    Spec::new(address(1), address(2), protocol).emit(octets.len(), &mut packet);
    packet.extend_from_slice(octets);
    packet
}
