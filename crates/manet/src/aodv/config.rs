//! The settings of AODV, and the values of the two profiles.

use std::net::IpAddr;
use std::time::Duration;

use base::ip::Prefix;

/// How a node learns that a neighbour is gone.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Hellos {
    /// Hellos are sent by nodes that are part of an active route (RFC 3561, 6.9).
    #[default]
    Active,
    /// All nodes send hellos, as AODV-UU does unless told otherwise.
    Always,
    /// None are sent or waited for: the link layer tells.
    Off,
}

impl Hellos {
    /// What users call them.
    pub const NAMES: [(&str, Self); 3] =
        [("active", Self::Active), ("always", Self::Always), ("off", Self::Off)];
}

/// Which set of values.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Profile {
    /// Hellos show which neighbours are present: for link layers that do not report lost packets.
    #[default]
    Hello,
    /// The link layer tells of packets that it could not bring to a neighbour (802.11 in ns-2).
    LinkLayerFeedback,
}

impl Profile {
    /// What users call them.
    pub const NAMES: [(&str, Self); 2] =
        [("hello", Self::Hello), ("feedback", Self::LinkLayerFeedback)];
}

/// The settings of AODV (RFC 3561, 10).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The profile: a set of values for the other parameters.
    pub profile: Profile,
    /// How long a route stays without being used.
    pub active_route_timeout: Duration,
    /// How long a route is good that the destination itself answers with.
    pub my_route_timeout: Duration,
    /// How long a route that ended is remembered with its sequence number. Loops are excluded only if
    /// it is longer than the lifetime of any neighbour's route.
    pub delete_period: Duration,
    /// How long a message takes for one hop, queueing and processing included, as is assumed.
    pub node_traversal_time: Duration,
    /// Hops between any two nodes at most.
    pub net_diameter: u8,
    /// How often the whole network is asked again.
    pub rreq_retries: u8,
    /// Most requests begun by this node per second.
    pub rreq_rate: u32,
    /// Most errors sent by this node per second.
    pub rerr_rate: u32,
    /// The expanding ring in which a destination is looked for.
    pub ring: Ring,
    /// Hellos.
    pub hello: Hello,
    /// How to secure replies on links that may work in one direction only.
    pub unidirectional: Unidirectional,
    /// Messages to all wait for a random time below this, so that neighbours do not send at once.
    pub jitter: Duration,
    /// Whether requests are such that the destination learns the way back from whoever answers (G).
    pub gratuitous: bool,
    /// Whether only the destination may answer requests (D).
    pub destination_only: bool,
    /// Whether the node starts by waiting for `delete_period` in which it passes nothing on, since it
    /// has forgotten its sequence numbers (RFC 3561, 6.13). Without, loops are possible.
    pub wait_after_reboot: bool,
    /// The Internet behind the network.
    pub internet: Internet,
    /// How much is remembered.
    pub bounds: Bounds,
}

/// The expanding ring (RFC 3561, 6.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ring {
    /// TTL of the first request.
    pub start: u8,
    /// TTL added for each following ring.
    pub increment: u8,
    /// Beyond this the whole network is asked.
    pub threshold: u8,
    /// Hops more than the TTL for which an answer is waited.
    pub timeout_buffer: u8,
}

/// Hellos (RFC 3561, 6.9).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Who sends them.
    pub mode: Hellos,
    /// How often.
    pub interval: Duration,
    /// How many may be lost before the neighbour counts as gone.
    pub allowed_loss: u8,
}

/// Acknowledged replies (RFC 3561, 6.8).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unidirectional {
    /// Whether replies ask for an acknowledgement (A).
    pub acknowledge: bool,
    /// How long it is waited for.
    pub next_hop_wait: Duration,
    /// How long requests of a neighbour that sent none are ignored.
    pub blacklist_timeout: Duration,
}

/// The Internet behind the network, as AODV-UU reaches it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Internet {
    /// The addresses of the network: all others are in the Internet.
    pub manet: Prefix,
    /// Whether this node answers for the Internet.
    pub gateway: bool,
    /// Whether a gateway that is known serves another Internet host without being asked again.
    pub reuse_gateway: bool,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Routes, those that ended included.
    pub routes: usize,
    /// Neighbours to inform of the end of a route, for each route.
    pub precursors: usize,
    /// Requests that were seen.
    pub requests: usize,
    /// Destinations that are looked for at a time.
    pub discoveries: usize,
    /// Neighbours.
    pub neighbours: usize,
    /// Internet hosts.
    pub internet: usize,
    /// Messages that wait to be sent on an interface.
    pub messages: usize,
    /// Requests from one neighbour in a second, as many replies, and as many errors at most.
    pub neighbour_rate: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self::hello()
    }
}

impl Config {
    /// The values of a profile.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        match profile {
            Profile::Hello => Self::hello(),
            Profile::LinkLayerFeedback => Self::link_layer_feedback(),
        }
    }

    /// Hellos tell who is there: the values of AODV-UU without link-layer feedback, which are the
    /// RFC's but for a first TTL of 2, since neighbours are known.
    #[must_use]
    pub fn hello() -> Self {
        Self {
            profile: Profile::Hello,
            active_route_timeout: Duration::from_secs(3),
            my_route_timeout: Duration::from_secs(6),
            delete_period: Duration::from_secs(15),
            node_traversal_time: Duration::from_millis(40),
            net_diameter: 35,
            rreq_retries: 2,
            rreq_rate: 10,
            rerr_rate: 10,
            ring: Ring { start: 2, increment: 2, threshold: 7, timeout_buffer: 2 },
            hello: Hello {
                mode: Hellos::Active,
                interval: Duration::from_secs(1),
                allowed_loss: 2,
            },
            unidirectional: Unidirectional {
                acknowledge: false,
                next_hop_wait: Duration::from_millis(50),
                blacklist_timeout: Duration::from_millis(5_600),
            },
            jitter: Duration::from_millis(20),
            gratuitous: false,
            destination_only: false,
            wait_after_reboot: true,
            internet: Internet {
                manet: Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("8 of 32 bits"),
                gateway: false,
                reuse_gateway: true,
            },
            bounds: Bounds {
                routes: 4_096,
                precursors: 64,
                requests: 4_096,
                discoveries: 64,
                neighbours: 256,
                internet: 1_024,
                messages: 256,
                neighbour_rate: 100,
            },
        }
    }

    /// The link layer reports packets that it could not deliver to a neighbour: the values of AODV-UU in ns-2, except
    /// for the delete period, here five times the route timeout as in the RFC. AODV-UU has 10 s, less than the lifetime
    /// of a reply: a neighbour could use a route already forgotten.
    #[must_use]
    pub fn link_layer_feedback() -> Self {
        let hello = Self::hello();
        Self {
            profile: Profile::LinkLayerFeedback,
            active_route_timeout: Duration::from_secs(10),
            my_route_timeout: Duration::from_secs(20),
            delete_period: Duration::from_secs(50),
            ring: Ring { start: 1, ..hello.ring },
            hello: Hello { mode: Hellos::Off, ..hello.hello },
            wait_after_reboot: false,
            ..hello
        }
    }

    /// Requests relayed per second, of strangers and of neighbours that send hellos: few enough, together with our own,
    /// for the next node to accept all from us. Without hellos all neighbours count as the latter.
    #[must_use]
    pub(super) fn forward_rates(&self) -> [u32; 2] {
        let all = self.bounds.neighbour_rate.saturating_sub(self.rreq_rate);
        let known = if self.hello.mode == Hellos::Off { all } else { all / 2 };
        [all - known, known].map(|rate| rate.max(1))
    }

    /// Errors accepted from a neighbour per second: twice the most that a node sends of all three kinds.
    #[must_use]
    pub(super) fn errors_taken(&self) -> u32 {
        self.rerr_rate.saturating_mul(6).min(self.bounds.neighbour_rate).max(1)
    }

    /// How long a request and its answer take through the whole network (`NET_TRAVERSAL_TIME`).
    #[must_use]
    pub fn net_traversal_time(&self) -> Duration {
        2 * self.node_traversal_time * u32::from(self.net_diameter)
    }

    /// How long a request is remembered (`PATH_DISCOVERY_TIME`).
    #[must_use]
    pub fn path_discovery_time(&self) -> Duration {
        2 * self.net_traversal_time()
    }

    /// How long an answer to a request of this TTL takes (`RING_TRAVERSAL_TIME`).
    #[must_use]
    pub fn ring_traversal_time(&self, ttl: u8) -> Duration {
        2 * self.node_traversal_time * (u32::from(ttl) + u32::from(self.ring.timeout_buffer))
    }

    /// The longest lifetime accepted from a reply. A node that forgets a route sooner than its neighbours causes loops,
    /// so a reply must not prolong a route beyond our own memory.
    #[must_use]
    pub(super) fn longest_lifetime(&self) -> Duration {
        self.delete_period.saturating_sub(self.path_discovery_time()).max(self.active_route_timeout)
    }
}
