//! The driver's description of links and their peers.

use std::net::IpAddr;
use std::time::Duration;

/// A neighbour that speaks HBH, numbered by the driver.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Peer(pub u32);

/// A link that leads to one or more peers, numbered by the driver.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Link(pub u32);

/// The driver's description of a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerConfig {
    /// The link that leads there.
    pub link: Link,
    /// Our address on that link, the source of acknowledgements.
    pub local: IpAddr,
    /// The peer's address, their destination; of the same version.
    pub remote: IpAddr,
    /// Octets of the longest IP packet that the link carries.
    pub mtu: usize,
}

/// What HBH knows of the path to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimates {
    /// The share of packets lost on the way to the peer, in 0 to 1; `None` before anything is
    /// known.
    pub loss: Option<f64>,
    /// The time to the peer and back.
    pub round_trip: Option<Duration>,
    /// Packets waiting to be sent to the peer or acknowledged by the peer.
    pub waiting: usize,
    /// Whether the peer has acknowledged nothing for long, although packets were sent.
    pub is_silent: bool,
}

/// The driver's measurement of the link to a peer by its own messages, such as hellos.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkReport {
    /// How many of the latest messages to the peer arrived.
    pub arrived: u32,
    /// How many did not.
    pub lost: u32,
    /// How long one takes to the peer and back, if that is known.
    pub round_trip: Option<Duration>,
}
