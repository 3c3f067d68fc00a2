//! Records a radio channel for an animated picture.

use std::ops::Range;

use ::lab::animation::{Frame, Frames, Kind, Limits, Node, NodeSample, Radio, Recording, Sampler};
use base::time::Time;
use emulator::air::{RadioHub, Seen, Stats};
use sim::Class;
use sim::radio::{self, StationId};

use crate::air::session::LOOK;

/// How many intervals queues and counters are kept for.
const INTERVALS: usize = 2_048;
/// Frames between two looks: more than a channel carries in the time.
const BETWEEN_LOOKS: usize = 65_536;

/// Looks at the channel while it runs.
#[derive(Debug)]
pub struct Picture {
    frames: Frames,
    most_frames: usize,
    sampler: Sampler,
    /// What the stations had counted at the last look.
    counted: Vec<NodeSample>,
}

impl Picture {
    pub fn new(hub: &mut RadioHub) -> Self {
        hub.watch(BETWEEN_LOOKS);
        let stations = hub.stats().count();
        Self {
            frames: Frames::default(),
            most_frames: Limits::default().frames,
            sampler: Sampler::new(Time::ZERO, LOOK, INTERVALS, 0, stations),
            counted: vec![NodeSample::default(); stations],
        }
    }

    /// Takes what has happened since the last look.
    pub fn look(&mut self, now: Time, hub: &mut RadioHub) {
        let (seen, missed) = hub.take_seen();
        for seen in seen {
            self.frames.add(frame(&seen), self.most_frames);
        }
        self.frames.miss(missed);
        let counts = hub.stats().enumerate().map(|(station, own)| {
            let waiting = hub.waiting(station) as u64;
            counted(waiting, own, hub.medium().stats(StationId(station)))
        });
        let counts: Vec<NodeSample> = counts.collect();
        let fresh = counts.iter().zip(&self.counted).map(|(now, before)| now.since(before));
        let fresh: Vec<NodeSample> = fresh.collect();
        self.counted = counts;
        self.sampler.add(now, &[], &fresh);
    }

    /// Returns the recording until `end`; `stations` gives each station's name and the spans in which it was off.
    pub fn finish<'a>(
        mut self,
        end: Time,
        hub: &mut RadioHub,
        stations: impl Iterator<Item = (&'a str, &'a [Range<Time>])>,
    ) -> Recording {
        self.look(end, hub);
        // The channel reports a frame when the frame ends.
        self.frames.shown.sort_by_key(|frame| frame.start);
        let nodes = stations.enumerate().map(|(station, (name, off))| Node {
            name: name.to_owned(),
            motion: hub.medium().motion(StationId(station)).clone(),
            is_placed: true,
            radio: Some(Radio {
                range: hub.medium().config().receive_range,
                off: off
                    .iter()
                    .filter(|span| span.start < end)
                    .map(|span| span.start..span.end.min(end))
                    .collect(),
            }),
        });
        Recording {
            duration: end.since(Time::ZERO),
            nodes: nodes.collect(),
            samples: self.sampler.finish(),
            frames: self.frames,
            ..Recording::default()
        }
    }
}

fn frame(seen: &Seen) -> Frame {
    let Seen { transmission: it, class } = seen;
    let kind = match class {
        Class::Ack => Kind::Ack,
        Class::Data => Kind::Data,
        Class::Hello | Class::Routing => Kind::Routing,
        Class::HopAck => Kind::Hop,
        Class::Other => Kind::Other,
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

fn counted(waiting: u64, own: Stats, radio: radio::Stats) -> NodeSample {
    NodeSample {
        waiting,
        sent: radio.data + radio.broadcasts,
        lost: radio.data_failures,
        dropped: own.queue_full + own.off + own.given_up,
    }
}
