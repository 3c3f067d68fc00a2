//! The coded tunnel: an end survives any datagram, in any order and at any time, and its memory
//! stays bounded.

use std::collections::VecDeque;
use std::time::Duration;

use proto::ip::{Spec, protocol};
use proto::nc::{Config, Tunnel};
use proto::rng::Rng;
use proto::time::Time;

const WINDOW: usize = 64;
const QUEUE: usize = 40_000;

/// Lets the input say what two ends are given, and what becomes of the datagrams between them.
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
                ends[end].handle_datagram(now, number, value & 1 == 1, octets);
            }
            // An inner packet.
            2..=4 => {
                let mut packet = Vec::new();
                let [from, to] =
                    [1, 2].map(|host| std::net::Ipv4Addr::new(10, action >> 5, 0, host).into());
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
            // What is under way arrives, gets lost, arrives twice or late, or is changed.
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
            _ if value & 1 == 0 => ends[end].handle_path_changed(now),
            _ => ends[end].handle_too_big(now, usize::from(value) * 8),
        }
        for (to, end) in ends.iter_mut().enumerate() {
            // A driver comes back as long as something is due.
            for turn in 0.. {
                assert!(turn < 1_000, "it spins");
                end.handle_timeout(now);
                while end.poll_packet(now, &mut out) {
                    assert!(!out.is_empty());
                }
                while end.poll_event().is_some() {}
                while let Some(transmit) = end.poll_transmit(now, &mut out) {
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
