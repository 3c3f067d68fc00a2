//! Recording of transmissions: sender, receiver, time and content, for display.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::ip::{Header, minimal, protocol};
use base::time::Time;

use crate::counters::Class;
use crate::engine::packets::PacketId;
use crate::ids::NodeId;

/// A packet on its way over a medium.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmission {
    /// When its first bit left.
    pub start: Time,
    /// When the last bit arrived; for a lost transmission, when the sender finished.
    pub end: Time,
    /// Who sent it.
    pub from: NodeId,
    /// The destination; `None` for all nodes in range.
    pub to: Option<NodeId>,
    /// The class of traffic.
    pub class: Class,
    /// Source and destination in the IP header; in a half tunnel, the destination behind the tunnel.
    pub ends: Option<[IpAddr; 2]>,
    /// Whether it reached nobody.
    pub is_lost: bool,
}

/// The transmissions since they were last taken, up to so many.
#[derive(Debug)]
pub struct Transmissions {
    limit: usize,
    /// The packet just handed to a medium, with its fate still unknown.
    open: Option<Open>,
    /// Class and addresses of packets held by media until a later report, by token; a packet replacing
    /// another inherits the token.
    handed: BTreeMap<u32, (Class, Option<[IpAddr; 2]>)>,
    done: Vec<Transmission>,
    missed: u64,
}

#[derive(Debug)]
struct Open {
    transmission: Transmission,
    is_decided: bool,
}

impl Transmissions {
    pub fn new(limit: usize) -> Self {
        Self { limit, open: None, handed: BTreeMap::new(), done: Vec::new(), missed: 0 }
    }

    /// A medium is about to be handed a packet.
    pub fn begin(
        &mut self,
        now: Time,
        from: NodeId,
        to: Option<NodeId>,
        class: Class,
        packet: &[u8],
    ) {
        let ends = ends(packet);
        let (start, end) = (now, now);
        let transmission = Transmission { start, end, from, to, class, ends, is_lost: false };
        self.open = Some(Open { transmission, is_decided: false });
    }

    /// The packet arrives at somebody.
    pub fn arrive(&mut self, at: Time) {
        if let Some(open) = &mut self.open {
            open.is_decided = true;
            open.transmission.end = open.transmission.end.max(at);
        }
    }

    /// The packet arrives at nobody.
    pub fn lose(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_decided = true;
            open.transmission.is_lost = true;
        }
    }

    /// The medium has taken the packet, and its sender is idle again at `idle_at`. Where the fate of
    /// the packet is not known by now, the medium will [tell](Self::tell) of it.
    pub fn finish(&mut self, packet: PacketId, idle_at: Time) {
        let Some(Open { mut transmission, is_decided }) = self.open.take() else { return };
        if !is_decided {
            self.handed.insert(packet.token(), (transmission.class, transmission.ends));
            return;
        }
        if transmission.is_lost && idle_at != Time::MAX {
            transmission.end = idle_at;
        }
        self.add(transmission);
    }

    /// A medium tells of a frame: it carries a packet, or controls the medium.
    pub fn tell(
        &mut self,
        [start, end]: [Time; 2],
        from: NodeId,
        to: Option<NodeId>,
        packet: Option<PacketId>,
        is_lost: bool,
    ) {
        let carries = packet.and_then(|packet| self.handed.get(&packet.token()).copied());
        let otherwise = if packet.is_some() { Class::Other } else { Class::HopAck };
        let (class, ends) = carries.unwrap_or((otherwise, None));
        self.add(Transmission { start, end, from, to, class, ends, is_lost });
    }

    fn add(&mut self, transmission: Transmission) {
        if self.done.len() < self.limit {
            self.done.push(transmission);
        } else {
            self.missed += 1;
        }
    }

    /// Takes the recorded transmissions, and the number not recorded for lack of room.
    pub fn take(&mut self) -> (Vec<Transmission>, u64) {
        (std::mem::take(&mut self.done), std::mem::take(&mut self.missed))
    }
}

fn ends(packet: &[u8]) -> Option<[IpAddr; 2]> {
    let header = Header::parse(packet).ok()?;
    let tunnelled = packet.get(header.len..).filter(|_| header.protocol == protocol::MINIMAL);
    let behind = tunnelled.and_then(minimal::carried).map(|(_, behind, _)| behind.into());
    Some([header.source, behind.unwrap_or(header.destination)])
}
