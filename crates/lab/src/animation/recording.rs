//! A run as its picture needs it.

use std::ops::Range;
use std::time::Duration;

use base::time::Time;
use sim::mobility::Motion;

use super::frames::Frames;
use super::samples::Samples;

/// A run as its picture needs it. Times count from the beginning of the run, nodes and flows by
/// their place in the lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// What was run.
    pub title: String,
    /// How long it was watched.
    pub duration: Duration,
    /// Who took part.
    pub nodes: Vec<Node>,
    /// The point-to-point links.
    pub wires: Vec<Wire>,
    /// The traffic.
    pub flows: Vec<Flow>,
    /// The nodes that traffic goes to, and those at the ends of half tunnels, for which `routes` tells the way.
    pub targets: Vec<usize>,
    /// How the ways to the targets changed, in order of time; in the beginning there are none.
    pub routes: Vec<RouteChange>,
    /// Changes of routes beyond the limit, which are missing.
    pub routes_missing: u64,
    /// Levels and rates over time.
    pub samples: Samples,
    /// What was on the media.
    pub frames: Frames,
}

/// Somebody in the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is called.
    pub name: String,
    /// Where it is, and how it moves.
    pub motion: Motion,
    /// Whether `motion` is a place on the ground, and not only one in the picture.
    pub is_placed: bool,
    /// Its radio.
    pub radio: Option<Radio>,
}

/// A radio, as far as it can be seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Radio {
    /// Metres up to which it is understood.
    pub range: f64,
    /// When it is off: in order and apart.
    pub off: Vec<Range<Time>>,
}

/// A point-to-point link.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// The nodes.
    pub ends: [usize; 2],
    /// What it is like, in words: `300 kbit/s, 50 ms`.
    pub label: String,
    /// When it is down: in order and apart.
    pub down: Vec<Range<Time>>,
}

/// Traffic from one node to another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Flow {
    /// What it is called.
    pub name: String,
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
}

/// From now on a node sends packets for a target another way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RouteChange {
    /// When that was seen.
    pub at: Time,
    /// The node.
    pub node: usize,
    /// The target, by its place in [`Recording::targets`].
    pub target: usize,
    /// The next node on the way; `None` where there is no way.
    pub via: Option<usize>,
    /// The target that its own packets go to first, as the end of a half tunnel, if they do.
    pub tunnel: Option<usize>,
}
