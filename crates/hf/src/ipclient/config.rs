//! Configuration of the IP client: access point, routes, queue, and window.

use std::net::IpAddr;
use std::time::Duration;

use super::route::Route;
use crate::s5066::Address;
use crate::s5066::seal;
use crate::s5066::sis::{Mode, Sap};

/// The parameters of an IP client.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The access point at this end and at the others.
    pub sap: Sap,
    /// How important it is to its node, 0 to 15.
    pub rank: u8,
    /// Where ICMP errors come from: an address of each version.
    pub addresses: Vec<IpAddr>,
    /// Routes from addresses to nodes and groups; the longest prefix counts.
    pub routes: Vec<Route>,
    /// Where multicast and broadcast go that no route is for; `None` drops them.
    pub other_multicast: Option<Address>,
    /// How datagrams are carried, by their DSCP.
    pub classes: [Class; 64],
    /// Octets of a datagram at most; less if the node says so.
    pub mtu: u16,
    /// Most octets of waiting datagrams.
    pub queue: usize,
    /// Least and most octets of a priority that the node has unconfirmed; for all priorities together, twice as many
    /// at most.
    pub window: (usize, usize),
    /// How long the node's backlog may last: the window is the number of octets confirmed in this time.
    pub horizon: Duration,
    /// Whether what a TCP sends again is dropped while the first is on its way, and a waiting
    /// acknowledgement gives way to a later one.
    pub supersede: bool,
    /// Whether headers are compressed towards IP clients of ours.
    pub compress_headers: bool,
    /// Octets of received datagrams that wait for the stack at most.
    pub received: usize,
    /// How long until a client that was refused or unbound tries again: at first and at most.
    pub rebind: (Duration, Duration),
    /// The group that other clients are to be members of; `None` for everybody.
    pub group: Option<seal::Config>,
}

/// How a datagram is carried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Class {
    /// 0 to 15, the highest.
    pub priority: u8,
    /// To a node.
    pub unicast: Mode,
    /// To a group: times it is sent again, 0 to 15.
    pub group_repeats: u8,
    /// How long it is of use, waiting included; `None` for ever.
    pub ttl: Option<Duration>,
}

/// What a rule says of a single datagram, whatever the class of its DSCP says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Override {
    /// Replaces the priority of the class.
    pub priority: Option<u8>,
    /// Replaces the time to live of the class; zero is for ever.
    pub ttl: Option<Duration>,
}

impl Class {
    /// The class with what a rule says of a datagram.
    #[must_use]
    pub fn with(self, said: Override) -> Self {
        Self {
            priority: said.priority.unwrap_or(self.priority),
            ttl: said.ttl.map_or(self.ttl, |ttl| Some(ttl).filter(|ttl| !ttl.is_zero())),
            ..self
        }
    }
}

impl Config {
    /// A client with these routes, the standard's priorities and ARQ in order to nodes.
    #[must_use]
    pub fn new(routes: Vec<Route>) -> Self {
        Self {
            sap: Sap::IP_CLIENT,
            rank: 0,
            addresses: Vec::new(),
            routes,
            other_multicast: None,
            classes: std::array::from_fn(|dscp| Class {
                // Annex F, table 9: twice the class selector.
                priority: u8::try_from(dscp >> 3).unwrap_or_default() * 2,
                // TCP takes datagrams that overtake a retransmitted one for a sign of loss.
                unicast: Mode::Arq { in_order: true },
                group_repeats: 0,
                ttl: None,
            }),
            mtu: 2_048,
            queue: 256 << 10,
            window: (4 << 10, 4 << 20),
            horizon: Duration::from_secs(150),
            supersede: true,
            compress_headers: false,
            received: 1 << 20,
            rebind: (Duration::from_secs(1), Duration::from_secs(60)),
            group: None,
        }
    }

    /// Carries all to nodes like this.
    pub fn set_unicast(&mut self, unicast: Mode) {
        for class in &mut self.classes {
            class.unicast = unicast;
        }
    }

    /// Sends all datagrams without ARQ so often again.
    pub fn set_repeats(&mut self, times: u8) {
        for class in &mut self.classes {
            class.group_repeats = times;
            if let Mode::NonArq { repeats, .. } = &mut class.unicast {
                *repeats = times;
            }
        }
    }

    /// Lets all datagrams live so long.
    pub fn set_ttl(&mut self, ttl: Option<Duration>) {
        for class in &mut self.classes {
            class.ttl = ttl;
        }
    }
}
