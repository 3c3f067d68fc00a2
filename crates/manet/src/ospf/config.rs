//! Configuration of OSPF, with defaults.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;

/// The parameters of a router. The default is what RFC 2328, appendices B and C, says or proposes.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The router ID; by default, the address of the first interface.
    pub router_id: Option<Ipv4Addr>,
    /// The area of all links.
    pub area: u32,
    /// Between two hellos on a link, in whole seconds.
    pub hello_interval: Duration,
    /// How long a neighbour may be silent, in whole seconds.
    pub dead_interval: Duration,
    /// After how long what was not answered is sent again.
    pub retransmit_interval: Duration,
    /// By how much LSAs age on a link, in whole seconds.
    pub transmit_delay: Duration,
    /// How long an acknowledgement may wait for others.
    pub ack_delay: Duration,
    /// The least time between two instances of the router's own LSA.
    pub min_ls_interval: Duration,
    /// The least time between two instances of another router's LSA.
    pub min_ls_arrival: Duration,
    /// After how long the router's own LSA is sent anew though nothing changed.
    pub refresh_interval: Duration,
    /// The first hello on a link is sent within this time.
    pub start_jitter: Duration,
    /// What each link costs.
    pub cost: u16,
    /// How many leading bits the addresses at both ends of a link have in common: its network, which is
    /// announced.
    pub link_bits: u8,
    /// Networks and hosts behind this router, announced to the others. IPv6 prefixes are left out.
    pub attached: Vec<Prefix>,
    /// Bounds of its memory.
    pub bounds: Bounds,
}

/// How much a router remembers. What does not fit is left out and counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// LSAs of others.
    pub lsas: usize,
    /// Their octets.
    pub octets: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            router_id: None,
            area: 0,
            hello_interval: Duration::from_secs(10),
            dead_interval: Duration::from_secs(40),
            retransmit_interval: Duration::from_secs(5),
            transmit_delay: Duration::from_secs(1),
            ack_delay: Duration::from_secs(1),
            min_ls_interval: Duration::from_secs(5),
            min_ls_arrival: Duration::from_secs(1),
            refresh_interval: Duration::from_secs(1_800),
            start_jitter: Duration::from_secs(1),
            cost: 1,
            link_bits: 24,
            attached: Vec::new(),
            bounds: Bounds::default(),
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { lsas: 4_096, octets: 1 << 20 }
    }
}
