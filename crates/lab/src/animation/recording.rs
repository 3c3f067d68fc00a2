//! The recording of a run, with the data that its picture needs.

use std::ops::Range;
use std::time::Duration;

use base::time::Time;
use sim::mobility::Motion;

use super::frames::Frames;
use super::samples::Samples;

/// The recording of a run for its picture. Times count from the beginning of the run, nodes and flows by their place
/// in the lists.
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
    /// The destinations of traffic, and the ends of half tunnels; `routes` gives the ways to these nodes.
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
    /// The node's place and motion.
    pub motion: Motion,
    /// Whether `motion` is a place on the ground, and not only one in the picture.
    pub is_placed: bool,
    /// Its radio.
    pub radio: Option<Radio>,
}

/// A radio, with its visible properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Radio {
    /// The range of the radio in metres.
    pub range: f64,
    /// When it is off: in order and apart.
    pub off: Vec<Range<Time>>,
}

/// A point-to-point link.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// The nodes.
    pub ends: [usize; 2],
    /// A description of the link: `300 kbit/s, 50 ms`.
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
