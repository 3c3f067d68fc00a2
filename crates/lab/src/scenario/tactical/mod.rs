//! Traffic of a tactical internet: BGP sessions over TCP, and messages from anybody to anybody.
//!
//! ```text
//!  [bgp] ─────▶ a Speaker on each node ──┐                     ┌──▶ BgpReport: of each message whether and
//!  [messages] ▶ a Messenger on each ─────┴─▶ the run, read out ┴──▶ MessagesReport  when it came
//! ```

mod file;
mod messages;
mod report;
mod run;

use std::time::Duration;

use base::parameter::{Kind, Parameter, Table, named, names, word};
use base::time::Time;
use sim::AppId;
use sim::app::bgp::wire::Sizes;

pub(super) use file::{passive_opens, write, write_passive_opens};
pub use messages::{MESSAGES, Messages, Over};
pub use report::{BgpReport, MessagesReport};

/// BGP sessions between nodes, which last for the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Bgp {
    /// The speakers, in the order of the ring.
    pub nodes: Vec<usize>,
    /// The pairs of speakers with a session.
    pub peers: Peers,
    /// When they begin.
    pub start: Time,
    /// When they say something new for the last time.
    pub stop: Option<Time>,
    /// From one KEEPALIVE of a session to the next.
    pub keepalive_interval: Duration,
    /// From one UPDATE of a speaker, which goes to all its peers, to the next.
    pub update_interval: Duration,
    /// After how long a session that ended is opened again.
    pub retry: Duration,
    /// How long the messages are.
    pub sizes: Sizes,
    /// The TCP of all speakers.
    pub tcp: tcp::Config,
}

/// Which pairs of speakers have a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Peers {
    /// Each speaker with the one before and the one after it.
    #[default]
    Ring,
    /// Each with all others.
    Mesh,
    /// Each with the last one.
    Star,
}

const PEERS: [(&str, Peers); 3] =
    [("ring", Peers::Ring), ("mesh", Peers::Mesh), ("star", Peers::Star)];
const DAY: Duration = Duration::from_secs(86_400);
const INTERVAL: Kind = Kind::Period { least: Duration::from_millis(1), most: DAY };

/// Parameters of BGP sessions.
pub static BGP: Table<Bgp> = Table {
    name: "bgp",
    parameters: &[
        Parameter::new(
            "peers",
            Kind::Word(&names(&PEERS)),
            "Who has a session with whom: each node with the one before and after it in the list, with \
             all, or with the last one.",
            |it| word(&PEERS, &it.peers),
            |it, to| it.peers = named(&PEERS, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "keepalive-interval",
            INTERVAL,
            "From one KEEPALIVE of a session to the next.",
            |it| it.keepalive_interval.into(),
            |it, to| it.keepalive_interval = to.period(),
        ),
        Parameter::new(
            "update-interval",
            INTERVAL,
            "From one UPDATE of a speaker, which goes to all its peers, to the next.",
            |it| it.update_interval.into(),
            |it, to| it.update_interval = to.period(),
        ),
        Parameter::new(
            "retry",
            INTERVAL,
            "After how long a session that ended is opened again.",
            |it| it.retry.into(),
            |it, to| it.retry = to.period(),
        ),
        Parameter::new(
            "open",
            Kind::Count { least: 47, most: 284, unit: "octets" },
            "How long an OPEN is.",
            |it| it.sizes.open.into(),
            |it, to| it.sizes.open = to.count(),
        ),
        Parameter::new(
            "update",
            Kind::Count { least: 43, most: 4_096, unit: "octets" },
            "How long an UPDATE is.",
            |it| it.sizes.update.into(),
            |it, to| it.sizes.update = to.count(),
        ),
        Parameter::new(
            "keepalive",
            Kind::Count { least: 19, most: 64, unit: "octets" },
            "How long a KEEPALIVE is, of which the RFC's has 19.",
            |it| it.sizes.keepalive.into(),
            |it, to| it.sizes.keepalive = to.count(),
        ),
    ],
    rules: &[],
};

impl Default for Bgp {
    /// The sessions of an area of a brigade, with Liu's measurements.
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            peers: Peers::default(),
            start: Time::ZERO,
            stop: None,
            keepalive_interval: Duration::from_secs(8 * 60),
            update_interval: Duration::from_secs(20 * 60),
            retry: Duration::from_secs(120),
            sizes: Sizes::default(),
            tcp: tcp::Config::default(),
        }
    }
}

impl Bgp {
    /// The peers of a speaker, by its place in the list.
    fn peers_of(&self, place: usize) -> Vec<usize> {
        let count = self.nodes.len();
        let all = (0..count).filter(|other| *other != place);
        let is_peer = |other: &usize| match self.peers {
            Peers::Mesh => true,
            Peers::Ring => (place + 1) % count == *other || (other + 1) % count == place,
            Peers::Star => (place + 1 == count) != (other + 1 == count),
        };
        all.filter(is_peer).map(|other| self.nodes[other]).collect()
    }
}

/// Speakers and messengers of a network, in the order of their nodes in the plan.
#[derive(Debug, Default)]
pub struct Apps {
    pub(super) speakers: Vec<AppId>,
    pub(super) messengers: Vec<AppId>,
}
