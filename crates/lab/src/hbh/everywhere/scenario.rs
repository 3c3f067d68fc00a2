//! A place of the matrix: a chain of links, their effects on packets, and the senders over them.

use std::fmt;
use std::time::Duration;

use base::quantity::Probability;
use sim::channel::{BadLoss, GilbertElliott, Loss};

use super::super::limits;
use crate::prelude::*;

/// A scenario, which every carrier is tried in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Links in the chain.
    pub hops: usize,
    /// The properties shared by all links.
    pub link: Link,
    /// Transfers at once, all from one end of the chain to the other.
    pub flows: u16,
    /// Octets of each.
    pub octets: u32,
    /// The TCP of both ends.
    pub host: Host,
    /// Which packets are lost; `None` is a clean network.
    pub losses: Option<Losses>,
    /// Packets that wait before a link at most.
    pub queue: usize,
    /// Whether a stream of datagrams shares the chain.
    pub has_stream: bool,
    /// How the delay of a link varies.
    pub jitter: Jitter,
    /// When the link in the middle loses everything.
    pub outage: Option<Outage>,
}

/// What a link is like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    pub kbit_per_s: u32,
    pub millis: u32,
}

pub const LINKS: [Link; 5] = [
    Link { kbit_per_s: 300, millis: 50 },
    Link { kbit_per_s: 1_000, millis: 10 },
    Link { kbit_per_s: 2_000, millis: 20 },
    Link { kbit_per_s: 20_000, millis: 2 },
    Link { kbit_per_s: 5_000, millis: 50 },
];

/// From here on links carry full segments, below segments of 536 octets.
const FAST: u32 = 2_000;

/// Which TCP hosts have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Host {
    /// As current RFCs ask for, with selective acknowledgements.
    Current,
    /// As Linux has it.
    Linux,
    /// As ns-3 has it.
    Ns3,
}

impl Host {
    pub const ALL: [Self; 3] = [Self::Ns3, Self::Current, Self::Linux];
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// The share of lost packets, on each lossy link.
    pub mean: f64,
    pub place: Place,
    /// Whether they are lost in bursts of [`BURST`] in the mean, instead of each on its own.
    pub in_bursts: bool,
}

/// Packets of a mean burst.
pub const BURST: f64 = 5.0;

/// Where packets are lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// On every link, against the data only.
    Backward,
    /// On every link, both ways.
    Everywhere,
    /// On every link, with the data only.
    Forward,
    /// On the link in the middle, both ways.
    Middle,
}

/// How the delay of every link varies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Jitter {
    /// By half of it either way, in order.
    InOrder,
    None,
    /// By a tenth of it either way, and packets may overtake.
    Reordering,
}

/// A span of time in which the link in the middle loses everything, and nobody is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outage {
    pub seconds: u32,
    /// Whether only packets with the data are lost.
    pub is_one_way: bool,
}

impl Scenario {
    /// One flow of 100 kB over clean links with queues of 50 packets.
    pub fn new(hops: usize, link: Link, host: Host) -> Self {
        Self {
            hops,
            link,
            flows: 1,
            octets: 100_000,
            host,
            losses: None,
            queue: 50,
            has_stream: false,
            jitter: Jitter::None,
            outage: None,
        }
    }

    /// The same with losses on all links both ways; 0 is none.
    pub fn losing(self, mean: f64) -> Self {
        self.losing_at(mean, Place::Everywhere, false)
    }

    pub fn losing_at(self, mean: f64, place: Place, in_bursts: bool) -> Self {
        let losses = (mean > 0.0).then_some(Losses { mean, place, in_bursts });
        Self { losses, ..self }
    }

    /// The scenario's name, unique in the matrix.
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// How often to run it at most: once and again where chance decides next to nothing, seldom
    /// where a run is long.
    pub fn most_runs(&self) -> u32 {
        let is_long = self.octets * u32::from(self.flows) > 500_000;
        match (self.is_steady(), is_long) {
            (true, _) => 2,
            (false, true) => 15,
            (false, false) => 30,
        }
    }

    /// Whether nothing but the protocols themselves draws random numbers.
    fn is_steady(&self) -> bool {
        self.losses.is_none()
            && self.flows == 1
            && !self.has_stream
            && self.jitter == Jitter::None
            && self.outage.is_none()
    }

    /// Octets of data in a full segment; `None` is what the MTU allows.
    pub fn segment(&self) -> Option<u16> {
        (self.link.kbit_per_s < FAST).then_some(536)
    }

    /// The link in the middle.
    pub fn middle(&self) -> usize {
        self.hops / 2
    }

    /// What link number `link` loses, with the data and against it.
    pub fn losses_of(&self, link: usize) -> Result<[Loss; 2], BadLoss> {
        let Some(Losses { mean, place, in_bursts }) = self.losses else {
            return Ok([Loss::None, Loss::None]);
        };
        let [forward, backward] = match place {
            Place::Backward => [false, true],
            Place::Everywhere => [true, true],
            Place::Forward => [true, false],
            Place::Middle => [link == self.middle(); 2],
        };
        let mean = Probability::new(mean).unwrap_or_default();
        let model = if in_bursts {
            Loss::GilbertElliott(GilbertElliott::from_bursts(mean, BURST)?)
        } else {
            Loss::random(mean)
        };
        Ok([forward, backward].map(|loses| if loses { model.clone() } else { Loss::None }))
    }

    /// How long all transfers take at least without loss: a scale for what happens meanwhile.
    pub fn least_delay(&self) -> Duration {
        let segment = u32::from(self.segment().unwrap_or(1_448));
        let path = limits::Path {
            rates: vec![f64::from(self.link.kbit_per_s) * 1e3; self.hops],
            delay: f64::from(self.link.millis) / 1e3,
            framing: 0.0,
            loss_forward: 0.0,
            loss_backward: 0.0,
        };
        let transfer = limits::Transfer {
            octets: self.octets * u32::from(self.flows),
            segment,
            headers: 52,
            syn: 60,
            segments_per_ack: 2,
        };
        Duration::from_secs_f64(limits::delay(&path, &transfer))
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hops, link, flows, octets, host, queue, .. } = self;
        let kilo = octets / 1_000;
        write!(f, "{hops} x {link}, {flows} x {kilo} kB, {host}")?;
        match self.losses {
            Some(losses) => write!(f, ", {losses}")?,
            None => f.write_str(", clean")?,
        }
        if *queue != 50 {
            write!(f, ", queue {queue}")?;
        }
        if self.has_stream {
            f.write_str(", beside UDP")?;
        }
        f.write_str(match self.jitter {
            Jitter::InOrder => ", jitter",
            Jitter::None => "",
            Jitter::Reordering => ", reordering",
        })?;
        match self.outage {
            Some(Outage { seconds, is_one_way }) => {
                write!(f, ", out {seconds} s{}", if is_one_way { " one way" } else { "" })
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kbit_per_s, millis } = self;
        if *kbit_per_s < 1_000 {
            write!(f, "{kbit_per_s} kbit/s {millis} ms")
        } else {
            write!(f, "{} Mbit/s {millis} ms", kbit_per_s / 1_000)
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "SACK",
            Self::Linux => "Linux",
            Self::Ns3 => "ns-3",
        })
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", percent(self.mean))?;
        f.write_str(match self.place {
            Place::Backward => " against the data",
            Place::Everywhere => "",
            Place::Forward => " with the data",
            Place::Middle => " in the middle",
        })?;
        f.write_str(if self.in_bursts { " in bursts" } else { "" })
    }
}
