//! Storm: runs protocol cores under faults drawn from a seed, and checks the rules that users rely on.
//!
//! ```text
//!  service, seed ─▶ Course: nodes, medium, events ─▶ drive ─▶ Ran: hash, broken rule
//!                      ▲                                         │
//!                      └──────── shrink: fewer events ◀──────────┘
//! ```
//!
//! A run is a function of its service and its seed. A broken rule comes with the command that replays the run, and
//! with the shortest course found that breaks the same rule.

mod connections;
mod course;
mod drive;
mod hops;
mod messages;
mod network;
mod offered;
mod radio;
mod routes;
mod shrink;
mod stations;
mod streams;
#[cfg(test)]
mod tests;
mod tunnels;
mod verdicts;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base::rng::Rng;
use base::time::Time;

pub use course::{Course, Event, Medium};
pub use drive::Ran;

/// The service whose cores a storm runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    /// Hop-by-hop reliability between nodes that find each other.
    Hbh,
    /// Routing in ad hoc networks and between routers.
    Routing,
    /// The table of rules that blocks flows.
    Rules,
    /// Clients of STANAG 5066 nodes that share a frequency.
    S5066,
    /// Messages by segmentation and reassembly.
    Sar,
    /// Streams over STANAG 5066.
    Slep,
    /// TCP connections.
    Tcp,
    /// The coded tunnel, without its cipher.
    Tunnel,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 8] = [
        Self::Hbh,
        Self::Routing,
        Self::Rules,
        Self::S5066,
        Self::Sar,
        Self::Slep,
        Self::Tcp,
        Self::Tunnel,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hbh => "hbh",
            Self::Routing => "routing",
            Self::Rules => "rules",
            Self::S5066 => "s5066",
            Self::Sar => "sar",
            Self::Slep => "slep",
            Self::Tcp => "tcp",
            Self::Tunnel => "tunnel",
        }
    }

    fn nodes(self, rng: &mut Rng) -> usize {
        match self {
            Self::Hbh | Self::Routing | Self::Sar => 2 + course::choice(rng, 4),
            Self::S5066 | Self::Slep | Self::Tcp => 2 + course::choice(rng, 2),
            Self::Rules | Self::Tunnel => 2,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|service| service.name() == text);
        found.ok_or_else(|| format!("the services are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

impl Course {
    /// Runs the course, up to `until` if given, and reports events to `trace`.
    #[must_use]
    pub fn run<'a>(&'a self, until: Option<Time>, trace: Option<&'a mut dyn FnMut(&str)>) -> Ran {
        match self.service {
            Service::Hbh => drive::run(self, hops::Hops::new(self), until, trace),
            Service::Routing => drive::run(self, routes::Routes::new(self), until, trace),
            Service::Rules => drive::run(self, verdicts::Verdicts::new(self), until, trace),
            Service::S5066 => drive::run(self, stations::Stations::new(self), until, trace),
            Service::Sar => drive::run(self, messages::Messages::new(self), until, trace),
            Service::Slep => drive::run(self, streams::Streams::new(self), until, trace),
            Service::Tcp => drive::run(self, connections::Connections::new(self), until, trace),
            Service::Tunnel => drive::run(self, tunnels::Tunnels::new(self), until, trace),
        }
    }

    /// Keeps only the events at the listed places.
    #[must_use]
    pub fn only(mut self, places: &BTreeSet<usize>) -> Self {
        self.events.retain(|(place, ..)| places.contains(place));
        self
    }
}
