//! Configuration of OLSR, with defaults.

use std::time::Duration;

use base::ip::Prefix;

/// The parameters of a node's OLSR. The default is what RFC 3626, 18, proposes.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Between two HELLOs on an interface.
    pub hello_interval: Duration,
    /// Between two TC messages.
    pub tc_interval: Duration,
    /// Between two MID messages.
    pub mid_interval: Duration,
    /// Between two HNA messages.
    pub hna_interval: Duration,
    /// How long a link holds after a HELLO.
    pub neighbour_hold: Duration,
    /// How long others keep what a TC message says.
    pub topology_hold: Duration,
    /// How long others keep what a MID message says.
    pub mid_hold: Duration,
    /// How long others keep what an HNA message says.
    pub hna_hold: Duration,
    /// How long a message is remembered, to know its copies.
    pub duplicate_hold: Duration,
    /// By how much at most messages are sent early, and forwarded late.
    pub max_jitter: Duration,
    /// How willing the node is to carry for others: 0 never, 7 always.
    pub willingness: u8,
    /// How many relays are to reach each two-hop neighbour, at least 1.
    pub mpr_coverage: usize,
    /// Neighbours to announce in TC messages.
    pub tc_redundancy: TcRedundancy,
    /// Whether links have to prove themselves.
    pub hysteresis: Hysteresis,
    /// Networks behind this node, announced to others; 0.0.0.0/0 stands for the Internet. IPv6 prefixes are left out.
    pub attached: Vec<Prefix>,
    /// Bounds of its memory.
    pub bounds: Bounds,
}

/// Neighbours that a node announces to all nodes (RFC 3626, 15.1).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum TcRedundancy {
    /// Neighbours that chose this node as a relay.
    #[default]
    Selectors,
    /// Neighbours that chose this node, and neighbours chosen by this node.
    Relays,
    /// All neighbours. Daemons that use a link only if both ends announce it need this.
    All,
}

impl TcRedundancy {
    /// As the RFC numbers them.
    pub const ALL: [Self; 3] = [Self::Selectors, Self::Relays, Self::All];
}

/// When a link is good enough (RFC 3626, 14): the quality is a mean over packets, with 1 for each received and 0 for
/// each lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hysteresis {
    /// Whether it counts at all.
    pub is_on: bool,
    /// Above this a link is used.
    pub high: f64,
    /// Below this quality the link stops being good enough.
    pub low: f64,
    /// The weight of the latest packet.
    pub scaling: f64,
}

/// How much a node remembers of each kind, and keeps waiting. What does not fit is left out and
/// counted; of duplicates the oldest are forgotten.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Links to neighbours.
    pub links: usize,
    /// Links of neighbours to theirs.
    pub two_hop: usize,
    /// Links between nodes farther away.
    pub topology: usize,
    /// Addresses of nodes other than their main addresses.
    pub aliases: usize,
    /// Networks behind nodes.
    pub networks: usize,
    /// Messages of others, to know their copies.
    pub duplicates: usize,
    /// Messages that wait to be sent on an interface.
    pub queue: usize,
}

impl Config {
    /// Settings for a network with other daemons: TC messages announce all neighbours, so that daemons which use a link
    /// only if both ends announce it find all routes. Both ways are accepted.
    #[must_use]
    pub fn live() -> Self {
        Self { tc_redundancy: TcRedundancy::All, ..Self::default() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hello_interval: Duration::from_secs(2),
            tc_interval: Duration::from_secs(5),
            mid_interval: Duration::from_secs(5),
            hna_interval: Duration::from_secs(5),
            neighbour_hold: Duration::from_secs(6),
            topology_hold: Duration::from_secs(15),
            mid_hold: Duration::from_secs(15),
            hna_hold: Duration::from_secs(15),
            duplicate_hold: Duration::from_secs(30),
            max_jitter: Duration::from_millis(500),
            willingness: 3,
            mpr_coverage: 1,
            tc_redundancy: TcRedundancy::Selectors,
            hysteresis: Hysteresis::default(),
            attached: Vec::new(),
            bounds: Bounds::default(),
        }
    }
}

impl Default for Hysteresis {
    fn default() -> Self {
        Self { is_on: false, high: 0.8, low: 0.3, scaling: 0.5 }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            links: 256,
            two_hop: 8_192,
            topology: 16_384,
            aliases: 2_048,
            networks: 2_048,
            duplicates: 8_192,
            queue: 512,
        }
    }
}
