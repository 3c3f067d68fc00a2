//! An interface: addresses, an MTU, and the [queue](super::queue) before a medium.

use std::net::IpAddr;

use super::queue::{Limits, Queue, QueueDiscipline, Queued, Waiting};
use crate::engine::Engine;
use crate::ids::PortId;
use crate::medium::{LinkAddress, Room};

/// What can be set on an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InterfaceConfig {
    /// Octets of the longest IP packet.
    pub mtu: usize,
    /// Packets that may wait while one is sent.
    pub queue_packets: usize,
    /// Most octets in the queue, if octets are limited too.
    pub queue_octets: Option<usize>,
    /// HBH packets that are moved to the queue ahead of time.
    ///
    /// With 0 HBH decides what to send when the interface can send it. More gives what a queue
    /// between HBH and the network card does: acknowledgements and repeats wait behind packets.
    pub hop_backlog: usize,
    /// The discipline of the queue: the packet to send first, and the packet to drop if full.
    pub queue_discipline: QueueDiscipline,
    /// How many waiting packets have one that comes marked, if it speaks ECN (RFC 3168, 5).
    pub mark_at: Option<usize>,
    /// Whether a TCP acknowledgement replaces an older queued acknowledgement of the same flow.
    pub thins_acks: bool,
}

impl Default for InterfaceConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            queue_packets: 50,
            queue_octets: None,
            hop_backlog: 0,
            queue_discipline: QueueDiscipline::DropTail,
            mark_at: None,
            thins_acks: false,
        }
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
    queue: Queue,
}

impl Interface {
    pub(crate) fn new(name: String, config: InterfaceConfig, port: PortId) -> Self {
        let limits = Limits {
            discipline: config.queue_discipline,
            room: Room {
                packets: config.queue_packets,
                octets: config.queue_octets.unwrap_or(usize::MAX),
            },
            thins_acks: config.thins_acks,
        };
        let queue = Queue::new(limits);
        Self { name, config, port, addresses: Vec::new(), is_up: true, queue }
    }

    /// Takes a packet of these octets, if the medium is idle or the queue has room.
    pub(crate) fn enqueue(&mut self, waiting: Waiting, octets: &[u8], is_idle: bool) -> Queued {
        self.queue.enqueue(waiting, octets, is_idle)
    }

    /// Whether the longest packet could wait.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.has_room(self.config.mtu)
    }

    /// Whether a packet that comes now, and speaks ECN, is marked.
    pub(crate) fn is_marking(&self) -> bool {
        self.config.mark_at.is_some_and(|packets| self.queue.len() >= packets)
    }

    pub(crate) fn dequeue(&mut self) -> Option<Waiting> {
        self.queue.dequeue()
    }

    /// Takes what waits for a neighbour out of the queue.
    pub(crate) fn recall(&mut self, to: LinkAddress) -> Vec<Waiting> {
        self.queue.recall(to)
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// The link address of the neighbour with this IP address; `None` while the interface is down.
    pub(crate) fn resolve(&self, engine: &Engine, address: IpAddr) -> Option<LinkAddress> {
        if self.is_up { engine.resolve(self.port, address) } else { None }
    }

    /// The interface's address of the same IP version as `like`.
    pub(crate) fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == like.is_ipv4())
    }
}
