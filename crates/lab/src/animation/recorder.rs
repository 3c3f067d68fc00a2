//! Watches a network while it runs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;
use sim::mobility::Motion;
use sim::service::hbh::Hbh;
use sim::{Class, NodeId, Transmission, World};

use super::frames::{Frame, Kind};
use super::layout::layout;
use super::recording::{Flow, Node, Radio, Recording, RouteChange, Wire};
use super::samples::{NodeSample, Sampler};

/// How often we look at first, and at least.
const STRIDE: Duration = Duration::from_millis(20);
const LONGEST_STRIDE: Duration = Duration::from_millis(100);
/// How many intervals goodput, queues and counters are kept for.
const INTERVALS: usize = 2_048;
/// How many transmissions there may be between two looks; of more, the rest is not shown.
const BETWEEN_LOOKS: usize = 65_536;

/// How much of a run is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Frames.
    pub frames: usize,
    /// Changes of routes.
    pub routes: usize,
}

/// A million frames are about 5 MB of a picture.
impl Default for Limits {
    fn default() -> Self {
        Self { frames: 1 << 20, routes: 1 << 18 }
    }
}

/// What is to be watched.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// The nodes and their names.
    pub nodes: Vec<(NodeId, String)>,
    /// The wires between them.
    pub wires: Vec<Wire>,
    /// The traffic.
    pub flows: Vec<Flow>,
}

/// Watches a network while it runs: the driver calls [`Recorder::look`] after every
/// [`Recorder::stride`].
#[derive(Debug)]
pub struct Recorder {
    limits: Limits,
    begin: Time,
    ids: Vec<NodeId>,
    places: BTreeMap<NodeId, usize>,
    /// Whose address is which.
    owners: BTreeMap<IpAddr, usize>,
    /// The flows by the nodes at both ends.
    ends: BTreeMap<[usize; 2], usize>,
    recording: Recording,
    /// The address that each target is reached by.
    addresses: Vec<Option<IpAddr>>,
    /// The next node on the way that every node knows to every target, and the end of its half tunnel.
    ways: Vec<Vec<[Option<usize>; 2]>>,
    sampler: Sampler,
    /// What flows and nodes had counted at the last look.
    received: Vec<u64>,
    counted: Vec<NodeSample>,
}

impl Recorder {
    /// Watches `world` from now on, which is time 0 of the recording; `received` has the octets that the
    /// application of each flow has received before.
    #[must_use]
    pub fn new(world: &mut World, cast: Cast, received: &[u64], limits: Limits) -> Self {
        let Cast { nodes, wires, flows } = cast;
        let begin = world.now();
        let (ids, names): (Vec<NodeId>, Vec<String>) = nodes.into_iter().unzip();
        let nodes = nodes_of(world, &ids, names, &wires);
        let mut targets: Vec<usize> = flows.iter().flat_map(|flow| [flow.to, flow.from]).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut ends = BTreeMap::new();
        for (index, flow) in flows.iter().enumerate() {
            ends.entry([flow.from, flow.to]).or_insert(index);
        }
        world.record_transmissions(BETWEEN_LOOKS);
        let mut recorder = Self {
            limits,
            begin,
            places: ids.iter().copied().zip(0..).collect(),
            owners: BTreeMap::new(),
            ends,
            addresses: targets.iter().map(|it| world.addresses(ids[*it]).next()).collect(),
            ways: vec![vec![[None; 2]; ids.len()]; targets.len()],
            sampler: Sampler::new(begin, STRIDE, INTERVALS, flows.len(), ids.len()),
            received: received.to_vec(),
            counted: vec![NodeSample::default(); ids.len()],
            recording: Recording { nodes, wires, flows, targets, ..Recording::default() },
            ids,
        };
        for (index, id) in recorder.ids.iter().enumerate() {
            recorder.owners.extend(world.addresses(*id).map(|address| (address, index)));
            recorder.counted[index] = counters(world, *id);
        }
        recorder.look_at_routes(world);
        recorder.look_at_radios(world);
        recorder
    }

    /// How long the network may run until the next look.
    #[must_use]
    pub fn stride(&self) -> Duration {
        self.sampler.interval().min(LONGEST_STRIDE)
    }

    /// Takes what has happened since the last look; `received` has the octets that the application of
    /// each flow has received since it began.
    pub fn look(&mut self, world: &mut World, received: &[u64]) {
        self.look_at_frames(world);
        self.look_at_routes(world);
        self.look_at_radios(world);
        let fresh = received.iter().zip(&mut self.received).map(|(now, before)| {
            let fresh = now.saturating_sub(*before);
            *before = *now;
            fresh
        });
        let fresh: Vec<u64> = fresh.collect();
        let nodes = self.ids.iter().zip(&mut self.counted).map(|(id, before)| {
            let now = counters(world, *id);
            now.since(&std::mem::replace(before, now))
        });
        let nodes: Vec<NodeSample> = nodes.collect();
        self.sampler.add(world.now(), &fresh, &nodes);
    }

    /// What was recorded.
    #[must_use]
    pub fn finish(mut self, world: &mut World, received: &[u64]) -> Recording {
        self.look(world, received);
        self.recording.duration = world.now().since(self.begin);
        self.recording.samples = self.sampler.finish();
        // Radios tell of a frame when it ends.
        self.recording.frames.shown.sort_by_key(|frame| frame.start);
        for (node, id) in self.recording.nodes.iter_mut().zip(&self.ids) {
            if let Some(radio) = world.radio_state(*id) {
                node.motion = since(radio.motion, self.begin);
            }
            let off = node.radio.iter_mut().filter_map(|radio| radio.off.last_mut());
            for span in off.filter(|span| span.end == Time::MAX) {
                span.end = Time::ZERO + self.recording.duration;
            }
        }
        self.recording
    }

    fn look_at_frames(&mut self, world: &mut World) {
        let (taken, missed) = world.take_transmissions();
        for transmission in &taken {
            if let Some(frame) = self.frame(transmission) {
                self.recording.frames.add(frame, self.limits.frames);
            }
        }
        self.recording.frames.miss(missed);
    }

    fn frame(&self, transmission: &Transmission) -> Option<Frame> {
        let Transmission { start, end, from, to, class, ends, is_lost } = *transmission;
        let kind = match class {
            Class::Ack => Kind::Ack,
            Class::Data => Kind::Data,
            Class::Hello | Class::Routing => Kind::Routing,
            Class::HopAck => Kind::Hop,
            Class::Other => Kind::Other,
        };
        let flow = ends.and_then(|ends| {
            let [from, to] = ends.map(|end| self.owners.get(&end).copied());
            let (from, to) = (from?, to?);
            let there = self.ends.get(&[from, to]).map(|flow| (*flow, false));
            let back = self.ends.get(&[to, from]).map(|flow| (*flow, true));
            // Where there are flows both ways, acknowledgements belong to the one that they go against.
            if kind == Kind::Ack { back.or(there) } else { there.or(back) }
        });
        let [start, end] = [start, end].map(|time| self.time(time));
        let from = self.place(from)?;
        let to = to.and_then(|to| self.place(to));
        Some(Frame { start, end, from, to, kind, flow, is_lost })
    }

    fn look_at_routes(&mut self, world: &World) {
        let mut place = 0;
        // Of targets there may be more on the way: half tunnels' ends.
        while let Some(target) = self.recording.targets.get(place).copied() {
            if let Some(address) = self.addresses[place] {
                for node in (0..self.ids.len()).filter(|node| *node != target) {
                    self.look_at_route(world, node, place, address);
                }
            }
            place += 1;
        }
    }

    fn look_at_route(&mut self, world: &World, node: usize, place: usize, address: IpAddr) {
        let id = self.ids[node];
        let via = world.next_hop(id, address).and_then(|via| self.place(via));
        let tunnel = world.gateway(id, address).and_then(|end| self.target(end.into()));
        let way = [via, tunnel];
        if std::mem::replace(&mut self.ways[place][node], way) == way {
            return;
        }
        if self.recording.routes.len() < self.limits.routes {
            let at = self.time(world.now());
            self.recording.routes.push(RouteChange { at, node, target: place, via, tunnel });
        } else {
            self.recording.routes_missing += 1;
        }
    }

    /// The place of a half tunnel's end among the targets: a gateway counts by its address in the MANET.
    fn target(&mut self, end: IpAddr) -> Option<usize> {
        let node = *self.owners.get(&end)?;
        let known = self.addresses.iter().position(|address| *address == Some(end));
        Some(known.unwrap_or_else(|| {
            self.recording.targets.push(node);
            self.addresses.push(Some(end));
            self.ways.push(vec![[None; 2]; self.ids.len()]);
            self.addresses.len() - 1
        }))
    }

    fn look_at_radios(&mut self, world: &World) {
        let now = self.time(world.now());
        for (node, id) in self.recording.nodes.iter_mut().zip(&self.ids) {
            let Some((radio, state)) = node.radio.as_mut().zip(world.radio_state(*id)) else {
                continue;
            };
            let was_off = radio.off.last_mut().filter(|span| span.end == Time::MAX);
            match (was_off, state.is_on) {
                (Some(span), true) => span.end = now,
                (None, false) => radio.off.push(now..Time::MAX),
                (Some(_), false) | (None, true) => {}
            }
        }
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.places.get(&node).copied()
    }

    /// A time since the beginning.
    fn time(&self, time: Time) -> Time {
        Time::ZERO + time.since(self.begin)
    }
}

/// The nodes with their radios, and places for those that have none.
fn nodes_of(world: &World, ids: &[NodeId], names: Vec<String>, wires: &[Wire]) -> Vec<Node> {
    let begin = world.now();
    let motions = ids.iter().map(|id| world.radio_state(*id).map(|it| since(it.motion, begin)));
    let motions: Vec<Option<Motion>> = motions.collect();
    let places = motions.iter().map(|motion| Some(motion.as_ref()?.position(Time::ZERO)));
    let turns = motions.iter().flatten().flat_map(|motion| motion.legs().iter().map(|leg| leg.to));
    let ends: Vec<[usize; 2]> = wires.iter().map(|wire| wire.ends).collect();
    let laid_out = layout(&places.collect::<Vec<_>>(), &ends, &turns.collect::<Vec<_>>());
    let nodes = names.into_iter().zip(ids).zip(motions.into_iter().zip(laid_out));
    let node = |((name, id), (motion, place)): ((String, &NodeId), (Option<Motion>, _))| Node {
        name,
        is_placed: motion.is_some(),
        motion: motion.unwrap_or(Motion::at_rest(place)),
        radio: world.radio_state(*id).map(|state| Radio { range: state.range, ..Radio::default() }),
    };
    nodes.map(node).collect()
}

/// A motion whose time 0 is `begin`.
fn since(motion: &Motion, begin: Time) -> Motion {
    let mut since = Motion::at_rest(motion.position(begin));
    for leg in motion.legs().iter().filter(|leg| leg.end > begin) {
        let [start, end] = [leg.start, leg.end].map(|time| Time::ZERO + time.since(begin));
        // The leg still arrives after it sets out, as before.
        let _ = since.go(start, end, leg.to);
    }
    since
}

/// The node's counters so far, and its waiting packets.
fn counters(world: &World, id: NodeId) -> NodeSample {
    let sent = world.sent_by(id);
    let held: u64 = world.services::<Hbh>(id).map(|hbh| hbh.stats().packets_held).sum();
    let dropped = [sent.dropped_at_edge, sent.dropped_inside, sent.dropped_down];
    NodeSample {
        waiting: world.queued(id) as u64 + held,
        sent: sent.sent.total().packets,
        lost: sent.lost.packets,
        dropped: dropped.iter().map(|tally| tally.packets).sum::<u64>()
            + world.node_counters(id).no_route,
    }
}
