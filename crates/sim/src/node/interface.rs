//! An interface: addresses, an MTU, and the [queue](super::queue) before a medium.

use std::net::IpAddr;

use base::parameter::{Kind, MOST_MEMORY, names};

use super::queue::{Limits, Queue, QueueDiscipline, Queued, Waiting};
use crate::engine::Engine;
use crate::ids::PortId;
use crate::medium::{LinkAddress, Room};

base::parameters! {
    /// Parameters of the interfaces of a link or of a radio.
    pub static INTERFACE = "interface";

    /// What can be set on an interface.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct InterfaceConfig from default() {
        /// Packets that may wait before the link or radio.
        #[allowed(Kind::count(0..=1_000_000).of("packets"))]
        pub queue_packets as "queue": usize = 50;

        /// Octets that may wait before the link or radio, where that is limited too.
        #[allowed(Kind::count(0..=MOST_MEMORY).of("octets"))]
        pub queue_octets: Option<usize> = None;

        /// The longest IP packet.
        #[allowed(Kind::count(576..=65_535).of("octets"))]
        pub mtu: usize = 1500;

        /// HBH packets that are handed to the queue ahead of time; if more than `queue`, it is unseen.
        // With 0 HBH decides what to send when the interface can send it. More gives what a queue between HBH and the network
        // card does: acknowledgements and repeats wait behind packets. Where a radio or modem stands behind a cable, HBH sees
        // no queue, and what finds no room is lost.
        #[allowed(Kind::count(0..=1_000_000).of("packets"))]
        pub hop_backlog: usize = 0;

        /// Which packet leaves first: the one that came first, messages of routing protocols, or behind these one flow
        /// after the other. Radios below a routing protocol have `routing-first` unless they say otherwise.
        #[allowed(Kind::Word(&names(&DISCIPLINES)))]
        pub queue_discipline: QueueDiscipline = QueueDiscipline::DropTail;

        /// How many waiting packets have one that comes and speaks ECN marked, as RFC 3168 lets routers; none is marked
        /// unless given.
        #[allowed(Kind::count(1..=1_000_000).of("packets"))]
        pub mark_at: Option<usize> = None;

        /// Whether a TCP acknowledgement takes the place of an older one of its connection that waits.
        #[allowed(Kind::Flag)]
        pub thins_acks as "thin-acks": bool = false;
    }
}

base::words!(QueueDiscipline: DISCIPLINES);

/// What files call the disciplines. Of flows in turns, each sends a packet of Ethernet's length or more
/// short ones.
const DISCIPLINES: [(&str, QueueDiscipline); 3] = [
    ("drop-tail", QueueDiscipline::DropTail),
    ("routing-first", QueueDiscipline::RoutingFirst),
    ("fair", QueueDiscipline::Fair { quantum: 1_500 }),
];

/// An interface at work.
#[derive(Debug)]
pub struct Interface {
    pub(crate) name: String,
    pub(crate) config: InterfaceConfig,
    pub(crate) port: PortId,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) is_up: bool,
    queue: Queue,
}

impl Interface {
    pub fn new(name: String, config: InterfaceConfig, port: PortId) -> Self {
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
    pub fn enqueue(&mut self, waiting: Waiting, octets: &[u8], is_idle: bool) -> Queued {
        self.queue.enqueue(waiting, octets, is_idle)
    }

    /// Whether the longest packet could wait.
    pub fn has_room(&self) -> bool {
        self.queue.has_room(self.config.mtu)
    }

    /// Whether a packet that comes now, and speaks ECN, is marked.
    pub fn is_marking(&self) -> bool {
        self.config.mark_at.is_some_and(|packets| self.queue.len() >= packets)
    }

    pub fn dequeue(&mut self) -> Option<Waiting> {
        self.queue.dequeue()
    }

    /// Takes what waits for a neighbour out of the queue.
    pub fn recall(&mut self, to: LinkAddress) -> Vec<Waiting> {
        self.queue.recall(to)
    }

    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// The link address of the neighbour with this IP address; `None` while the interface is down.
    pub fn resolve(&self, engine: &Engine, address: IpAddr) -> Option<LinkAddress> {
        if self.is_up { engine.resolve(self.port, address) } else { None }
    }

    /// The interface's address of the same IP version as `like`.
    pub fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == like.is_ipv4())
    }
}
