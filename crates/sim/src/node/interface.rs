//! An interface: addresses, an MTU, and the queue before a medium.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::engine::{Engine, PacketId};
use crate::ids::PortId;
use crate::medium::LinkAddress;

/// What can be set on an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InterfaceConfig {
    /// Octets of the longest IP packet.
    pub mtu: usize,
    /// Packets that may wait while one is sent.
    pub queue_packets: usize,
    /// Octets that may wait, where that is limited too.
    pub queue_octets: Option<usize>,
    /// HBH packets that are moved to the queue ahead of time.
    ///
    /// With 0 HBH decides what to send when the interface can send it. More gives what a queue
    /// between HBH and the network card does: acknowledgements and repeats wait behind packets.
    pub hop_backlog: usize,
}

impl Default for InterfaceConfig {
    fn default() -> Self {
        Self { mtu: 1500, queue_packets: 50, queue_octets: None, hop_backlog: 0 }
    }
}

/// An interface at work.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) config: InterfaceConfig,
    pub(crate) port: PortId,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) is_up: bool,
    queue: VecDeque<Waiting>,
    queued_octets: usize,
}

/// A packet in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: PacketId,
    pub(crate) to: LinkAddress,
    octets: usize,
}

impl Interface {
    pub(crate) fn new(name: String, config: InterfaceConfig, port: PortId) -> Self {
        Self {
            name,
            config,
            port,
            addresses: Vec::new(),
            is_up: true,
            queue: VecDeque::new(),
            queued_octets: 0,
        }
    }

    /// Takes a packet of this length, unless the queue is full.
    #[must_use]
    pub(crate) fn enqueue(&mut self, packet: PacketId, to: LinkAddress, octets: usize) -> bool {
        let limit = self.config.queue_octets.unwrap_or(usize::MAX);
        if self.queue.len() >= self.config.queue_packets || self.queued_octets + octets > limit {
            return false;
        }
        self.queue.push_back(Waiting { packet, to, octets });
        self.queued_octets += octets;
        true
    }

    pub(crate) fn dequeue(&mut self) -> Option<Waiting> {
        let waiting = self.queue.pop_front()?;
        self.queued_octets -= waiting.octets;
        Some(waiting)
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Whom a packet reaches by this interface that goes to the neighbour with this address.
    pub(crate) fn resolve(&self, engine: &Engine, address: IpAddr) -> Option<LinkAddress> {
        if self.is_up { engine.resolve(self.port, address) } else { None }
    }

    /// This interface's address of the same version as `like`.
    pub(crate) fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == like.is_ipv4())
    }
}
