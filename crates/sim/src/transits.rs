//! Optional recording of the time that packets spend inside a tunnel.

use std::collections::BTreeMap;
use std::time::Duration;

use base::ip::Header;
use base::time::Time;

use crate::ids::{NodeId, TunnelId};

/// A packet that went through a tunnel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transit {
    /// When it came out.
    pub left: Time,
    /// How long it was inside.
    pub took: Duration,
    /// Its octets.
    pub octets: usize,
    /// Where it went in.
    pub from: NodeId,
}

/// Transits of packets through one tunnel, up to a limit.
#[derive(Debug)]
pub struct Transits {
    tunnel: TunnelId,
    limit: usize,
    /// Entry times of packets still in the tunnel, by fingerprint of the payload. Among equal packets
    /// the latest counts: the earlier ones were lost.
    inside: BTreeMap<u64, (Time, NodeId)>,
    done: Vec<Transit>,
}

impl Transits {
    pub fn new(tunnel: TunnelId, limit: usize) -> Self {
        Self { tunnel, limit, inside: BTreeMap::new(), done: Vec::new() }
    }

    pub fn enter(&mut self, now: Time, tunnel: TunnelId, node: NodeId, packet: &[u8]) {
        if tunnel == self.tunnel && self.inside.len() < self.limit {
            self.inside.insert(print(packet), (now, node));
        }
    }

    pub fn leave(&mut self, now: Time, tunnel: TunnelId, node: NodeId, packet: &[u8]) {
        if tunnel != self.tunnel || self.done.len() >= self.limit {
            return;
        }
        let print = print(packet);
        if let Some((entered, from)) = self.inside.get(&print).copied()
            && from != node
        {
            self.inside.remove(&print);
            let took = now.since(entered);
            self.done.push(Transit { left: now, took, octets: packet.len(), from });
        }
    }

    pub fn done(&self) -> &[Transit] {
        &self.done
    }
}

/// A fingerprint of a packet's payload; the IP header may change on the way.
fn print(packet: &[u8]) -> u64 {
    let start = Header::parse(packet).map_or(0, |header| header.len);
    let mut print = packet.len() as u64;
    for word in packet[start..].chunks(8) {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        let mixed = (print ^ u64::from_le_bytes(padded)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        print = mixed ^ mixed >> 29;
    }
    print
}
