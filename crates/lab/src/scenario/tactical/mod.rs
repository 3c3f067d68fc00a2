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

use base::parameter::{Kind, names};
use base::time::Time;
use sim::AppId;
use sim::app::bgp::wire::Sizes;

pub(crate) use file::{passive_opens, write, write_passive_opens};
pub use messages::{MESSAGES, Messages, Over};
pub use report::{BgpReport, MessagesReport};

base::parameters! {
    /// Parameters of BGP sessions.
    pub static BGP = "bgp";

    /// BGP sessions between nodes, which last for the whole run.
    ///
    /// By default the sessions of an area of a brigade, with Liu's measurements.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Bgp from default() {
        /// Who has a session with whom: each node with the one before and after it in the list, with all, or with the
        /// last one.
        #[allowed(Kind::Word(&names(&PEERS)))]
        pub peers: Peers = Peers::default();

        /// From one KEEPALIVE of a session to the next.
        #[allowed(INTERVAL)]
        pub keepalive_interval: Duration = Duration::from_secs(8 * 60);

        /// From one UPDATE of a speaker, which goes to all its peers, to the next.
        #[allowed(INTERVAL)]
        pub update_interval: Duration = Duration::from_secs(20 * 60);

        /// After how long a session that ended is opened again.
        #[allowed(INTERVAL)]
        pub retry: Duration = Duration::from_secs(120);

        /// How long an OPEN is.
        #[allowed(Kind::count(47..=284).of("octets"))]
        "open" at sizes.open;

        /// How long an UPDATE is.
        #[allowed(Kind::count(43..=4_096).of("octets"))]
        "update" at sizes.update;

        /// How long a KEEPALIVE is, of which the RFC's has 19.
        #[allowed(Kind::count(19..=64).of("octets"))]
        "keepalive" at sizes.keepalive;

        /// The speakers, in the order of the ring.
        pub nodes: Vec<usize> = Vec::new();

        /// When they begin.
        pub start: Time = Time::ZERO;

        /// When they say something new for the last time.
        pub stop: Option<Time> = None;

        /// How long the messages are.
        pub sizes: Sizes = Sizes::default();

        /// The TCP of all speakers.
        pub tcp: tcp::Config = tcp::Config::default();
    }
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

base::words!(Peers: PEERS);

const PEERS: [(&str, Peers); 3] =
    [("ring", Peers::Ring), ("mesh", Peers::Mesh), ("star", Peers::Star)];
const DAY: Duration = Duration::from_secs(86_400);
const INTERVAL: Kind = Kind::Period { least: Duration::from_millis(1), most: DAY };

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
    pub(crate) speakers: Vec<AppId>,
    pub(crate) messengers: Vec<AppId>,
}
