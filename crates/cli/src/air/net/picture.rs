//! Records a net for an animated picture.

use ::lab::animation::{
    Frame, Frames, Kind, Limits, Node, NodeSample, Radio, Recording, Sampler, layout,
};
use base::time::Time;
use emulator::air::{NetHub, NetSeen};
use sim::Class;
use sim::cnr::{StationId, TransmissionKind};
use sim::mobility::Motion;

use crate::air::session::LOOK;

/// How many intervals queues and counters are kept for.
const INTERVALS: usize = 2_048;

/// Looks at the net while it runs.
#[derive(Debug)]
pub struct Picture {
    names: Vec<String>,
    frames: Frames,
    most_frames: usize,
    sampler: Sampler,
    /// What the stations had counted at the last look.
    counted: Vec<NodeSample>,
}

impl Picture {
    /// A picture of stations, by name.
    pub fn new(names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            frames: Frames::default(),
            most_frames: Limits::default().frames,
            sampler: Sampler::new(Time::ZERO, LOOK, INTERVALS, 0, names.len()),
            counted: vec![NodeSample::default(); names.len()],
        }
    }

    /// Takes what has happened since the last look.
    pub fn look(&mut self, now: Time, hub: &NetHub, seen: &[NetSeen], missed: u64) {
        for seen in seen {
            self.frames.add(frame(seen), self.most_frames);
        }
        self.frames.miss(missed);
        let counts = (0..self.names.len()).map(|station| counted(now, hub, StationId(station)));
        let counts: Vec<NodeSample> = counts.collect();
        let fresh = counts.iter().zip(&self.counted).map(|(now, before)| now.since(before));
        let fresh: Vec<NodeSample> = fresh.collect();
        self.counted = counts;
        self.sampler.add(now, &[], &fresh);
    }

    /// Returns the recording until `end`.
    pub fn finish(mut self, end: Time, hub: &NetHub, title: String) -> Recording {
        // A net reports a frame when the frame ends.
        self.frames.shown.sort_by_key(|frame| frame.start);
        let (net, count) = (hub.medium(), self.names.len());
        let motion = |station| net.motion(StationId(station)).clone();
        let motions: Vec<Motion> = if net.has_places() {
            (0..count).map(motion).collect()
        } else {
            layout(&vec![None; count], &[], &[]).into_iter().map(Motion::at_rest).collect()
        };
        let range = net.config().range;
        let node = |(name, motion)| Node {
            name,
            motion,
            is_placed: net.has_places(),
            radio: net.has_places().then(|| Radio { range, ..Radio::default() }),
        };
        Recording {
            title,
            duration: end.since(Time::ZERO),
            nodes: self.names.into_iter().zip(motions).map(node).collect(),
            samples: self.sampler.finish(),
            frames: self.frames,
            ..Recording::default()
        }
    }
}

fn frame(seen: &NetSeen) -> Frame {
    let NetSeen { transmission: it, class, .. } = seen;
    let kind = match (it.kind, class) {
        (TransmissionKind::Ack, _) => Kind::Hop,
        (TransmissionKind::Update, _) => Kind::Routing,
        (TransmissionKind::Data, Class::Ack) => Kind::Ack,
        (TransmissionKind::Data, Class::Data) => Kind::Data,
        (TransmissionKind::Data, Class::Hello | Class::Routing) => Kind::Routing,
        (TransmissionKind::Data, Class::HopAck) => Kind::Hop,
        (TransmissionKind::Data, Class::Other) => Kind::Other,
    };
    Frame {
        start: it.start,
        end: it.end,
        from: it.from.0,
        to: it.to.map(|StationId(to)| to),
        kind,
        flow: None,
        is_lost: !it.is_received,
    }
}

fn counted(now: Time, hub: &NetHub, station: StationId) -> NodeSample {
    let stats = hub.medium().stats(now, station);
    NodeSample {
        waiting: hub.medium().waiting(station) as u64,
        sent: stats.frames,
        lost: stats.repeats,
        dropped: stats.dropped.iter().sum::<u64>() + stats.no_way + stats.given_up,
    }
}
