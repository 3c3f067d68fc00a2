//! The settings of AODV, and the values of the two profiles.

use std::net::IpAddr;
use std::time::Duration;

use base::ip::Prefix;
use base::parameter::{Kind, Rule, Value, named, names};

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

base::words!(Hellos: Hellos::NAMES, Profile: Profile::NAMES);

base::parameters! {
    /// The settings of AODV. The profile comes first because it sets all others.
    pub static PARAMETERS = "aodv";

    /// The settings of AODV (RFC 3561, 10).
    ///
    /// With hellos: the values of AODV-UU without link-layer feedback, which are the RFC's but for a first TTL of 2,
    /// since neighbours are known.
    ///
    /// With link-layer feedback: the values of AODV-UU in ns-2, except for the delete period, here five times the route
    /// timeout as in the RFC. AODV-UU has 10 s, less than the lifetime of a reply: a neighbour could use a route already
    /// forgotten.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct Config from new(profile: Profile) {
        /// How a node learns that a neighbour is gone: by hellos, or from the link layer.
        #[allowed(Kind::Word(&names(&Profile::NAMES)))]
        #[set(|it, to| *it = Config::new(named(&Profile::NAMES, to.text()).unwrap_or_default()))]
        pub profile: Profile = profile;

        /// How long a route stays without being used (ACTIVE_ROUTE_TIMEOUT).
        #[allowed(TIMEOUT)]
        pub active_route_timeout: Duration = Duration::from_secs(3), LinkLayerFeedback: Duration::from_secs(10);

        /// How long a route is good that the destination answers with (MY_ROUTE_TIMEOUT).
        #[allowed(TIMEOUT)]
        pub my_route_timeout: Duration = Duration::from_secs(6), LinkLayerFeedback: Duration::from_secs(20);

        /// How long a route that ended is remembered, so that no older one is taken (DELETE_PERIOD).
        // Loops are excluded only if it is longer than the lifetime of any neighbour's route.
        #[allowed(TIMEOUT)]
        pub delete_period: Duration = Duration::from_secs(15), LinkLayerFeedback: Duration::from_secs(50);

        /// How long a message takes for a hop, as is assumed (NODE_TRAVERSAL_TIME).
        #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(10)))]
        pub node_traversal_time: Duration = Duration::from_millis(40);

        /// Hops between any two nodes at most (NET_DIAMETER).
        #[allowed(HOPS)]
        pub net_diameter: u8 = 35;

        /// How often the whole network is asked again (RREQ_RETRIES).
        #[allowed(Kind::count(0..=10))]
        pub rreq_retries: u8 = 2;

        /// Requests that a node begins in a second at most (RREQ_RATELIMIT).
        #[allowed(RATE)]
        pub rreq_rate: u32 = 10;

        /// Errors that a node sends in a second at most (RERR_RATELIMIT).
        #[allowed(RATE)]
        pub rerr_rate: u32 = 10;

        /// The expanding ring (RFC 3561, 6.4).
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub ring: struct Ring {
            /// How far the first request for a destination goes (TTL_START).
            #[allowed(HOPS)]
            pub start: u8 = 2, LinkLayerFeedback: 1;

            /// How much farther each following one goes (TTL_INCREMENT).
            #[allowed(HOPS)]
            pub increment: u8 = 2;

            /// Beyond this the whole network is asked (TTL_THRESHOLD).
            #[allowed(HOPS)]
            pub threshold: u8 = 7;

            /// For how many hops more an answer is waited (TIMEOUT_BUFFER).
            #[allowed(Kind::count(0..=100).of("hops"))]
            pub timeout_buffer: u8 = 2;
        }

        /// Hellos (RFC 3561, 6.9).
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub hello: struct Hello {
            /// Who sends hellos: nodes on active routes, all, or none.
            #[allowed(Kind::Word(&names(&Hellos::NAMES)))]
            pub mode: Hellos = Hellos::Active, LinkLayerFeedback: Hellos::Off;

            /// How often (HELLO_INTERVAL).
            #[allowed(Kind::period(Duration::from_millis(10)..=HOUR))]
            pub interval: Duration = Duration::from_secs(1);

            /// How many hellos may be lost before a neighbour counts as gone (ALLOWED_HELLO_LOSS).
            #[allowed(Kind::count(1..=100))]
            pub allowed_loss: u8 = 2;
        }

        /// Acknowledged replies (RFC 3561, 6.8).
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub unidirectional: flat struct Unidirectional {
            /// Whether replies ask for an acknowledgement; without one the neighbour is ignored for a while.
            // The flag A of replies.
            #[allowed(Kind::Flag)]
            pub acknowledge as "acknowledge-replies": bool = false;

            /// How long an acknowledgement of a reply is waited for (NEXT_HOP_WAIT).
            #[allowed(Kind::period(Duration::from_millis(1)..=HOUR))]
            pub next_hop_wait: Duration = Duration::from_millis(50);

            /// How long requests of a neighbour that sent none are ignored (BLACKLIST_TIMEOUT).
            #[allowed(TIMEOUT)]
            pub blacklist_timeout: Duration = Duration::from_millis(5_600);
        }

        /// Messages to all wait for a random time below this.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(10)))]
        pub jitter: Duration = Duration::from_millis(20);

        /// Whether destinations learn the way back also when another node answers for them.
        // The flag G of requests.
        #[allowed(Kind::Flag)]
        pub gratuitous: bool = false;

        /// Whether only destinations may answer.
        // The flag D of requests.
        #[allowed(Kind::Flag)]
        pub destination_only: bool = false;

        /// Whether a node that starts waits for delete-period before it takes part: without, loops are possible.
        // The node has forgotten its sequence numbers (RFC 3561, 6.13).
        #[allowed(Kind::Flag)]
        pub wait_after_reboot: bool = true, LinkLayerFeedback: false;

        /// The Internet behind the network, as AODV-UU reaches it.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub internet: flat struct Internet {
            /// The addresses of the network: all others are in the Internet.
            #[allowed(Kind::Text {
                allowed: "an IPv4 prefix, such as \"10.0.0.0/8\"",
                check: |text| manet(text).map(|_| ()),
                examples: &["10.0.0.0/8"],
            })]
            #[get(|it| Value::Text(it.internet.manet.to_string()))]
            #[set(|it, to| {
                if let Ok(prefix) = manet(to.text()) {
                    it.internet.manet = prefix;
                }
            })]
            pub manet: Prefix = Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("8 of 32 bits");

            /// Whether this node answers for the Internet.
            #[allowed(Kind::Flag)]
            pub gateway: bool = false;

            /// Whether a gateway in use serves further Internet hosts without being asked again.
            #[allowed(Kind::Flag)]
            pub reuse_gateway: bool = true;
        }

        /// How much is remembered.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub bounds: flat struct Bounds {
            /// Routes remembered, those that ended included.
            #[allowed(MANY)]
            pub routes: usize = 4_096;

            /// Neighbours remembered that use a route, for each.
            #[allowed(MANY)]
            pub precursors: usize = 64;

            /// Requests remembered.
            #[allowed(MANY)]
            pub requests: usize = 4_096;

            /// Destinations looked for at a time.
            #[allowed(MANY)]
            pub discoveries: usize = 64;

            /// Neighbours remembered.
            #[allowed(MANY)]
            pub neighbours: usize = 256;

            /// Internet hosts remembered.
            #[allowed(MANY)]
            pub internet as "internet-hosts": usize = 1_024;

            /// Messages that wait to be sent on an interface.
            #[allowed(MANY)]
            pub messages: usize = 256;

            /// Requests in a second that are taken from a neighbour, and as many replies and errors.
            #[allowed(RATE)]
            pub neighbour_rate: u32 = 100;
        }
    }

    rules [
        Rule {
            names: &["delete-period", "active-route-timeout"],
            allowed: "delete-period is at least active-route-timeout",
            holds: |it| it.delete_period >= it.active_route_timeout,
        },
        Rule {
            names: &["ring.start", "ring.threshold", "net-diameter"],
            allowed: "ring.start and ring.threshold are at most net-diameter",
            holds: |it| it.ring.start.max(it.ring.threshold) <= it.net_diameter,
        },
    ]
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Profile::default())
    }
}

impl Config {
    /// The values for nodes that know their neighbours by hellos.
    #[must_use]
    pub fn hello() -> Self {
        Self::new(Profile::Hello)
    }

    /// The values for nodes whose link layer reports undelivered packets.
    #[must_use]
    pub fn link_layer_feedback() -> Self {
        Self::new(Profile::LinkLayerFeedback)
    }

    /// Requests relayed per second, first for strangers, then for neighbours with hellos: few enough, together with our
    /// own, for the next node to accept all from us. Without hellos no neighbour counts as a stranger.
    #[must_use]
    pub(crate) fn forward_rates(&self) -> [u32; 2] {
        let all = self.bounds.neighbour_rate.saturating_sub(self.rreq_rate);
        let known = if self.hello.mode == Hellos::Off { all } else { all / 2 };
        [all - known, known].map(|rate| rate.max(1))
    }

    /// Errors accepted from a neighbour per second: twice the most that a node sends of all three kinds.
    #[must_use]
    pub(crate) fn errors_taken(&self) -> u32 {
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
    pub(crate) fn longest_lifetime(&self) -> Duration {
        self.delete_period.saturating_sub(self.path_discovery_time()).max(self.active_route_timeout)
    }
}

const HOUR: Duration = Duration::from_secs(3_600);
const TIMEOUT: Kind = Kind::Period { least: Duration::from_millis(100), most: HOUR };
const HOPS: Kind = Kind::Count { least: 1, most: 255, unit: "hops" };
const RATE: Kind = Kind::Count { least: 1, most: 10_000, unit: "a second" };
const MANY: Kind = Kind::Count { least: 1, most: 1_000_000, unit: "" };

fn manet(text: &str) -> Result<Prefix, String> {
    match text.parse::<Prefix>() {
        Ok(prefix) if prefix.address().is_ipv4() => Ok(prefix.network()),
        _ => Err(format!("\"{text}\" is not allowed: an IPv4 prefix, such as \"10.0.0.0/8\"")),
    }
}

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &Profile::NAMES.map(|(_, profile)| Config::new(profile)));
    }
}
