//! SLEP under storm: an exact prefix for each stream, one end, the right end; nothing stuck once faults are over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use hf::s5066::Address;
use hf::s5066::service::{Failure, Indication, Mode, Outcome, RequestId};
use hf::s5066::sis::{self, ClientId, Server};
use hf::slep::{Addresses, Config, Event, Options, Reason, Slep, StreamId};

use crate::course::{Course, choice, log_count};
use crate::drive::{Cores, Kept, Sent, To, start};
use crate::words;

/// Octets of a write.
const WRITES: std::ops::Range<usize> = 1..60_000;
/// Octets of a stream that begins in the calm: more than may be sent without credit, even in the shortest parts.
const LONG: usize = 40_000;

/// A stream as the user at one end sees the stream.
#[derive(Debug, Default)]
struct Known {
    is_initiator: bool,
    /// The first four octets from the initiator, which identify the stream.
    tag: Option<u32>,
    /// Octets read before the four octets of the tag are complete.
    begun: Vec<u8>,
    written: usize,
    /// Octets that wait for room in the core.
    pending: usize,
    read: usize,
    has_end: bool,
    is_finishing: bool,
    is_readable: bool,
    is_of_calm: bool,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, pending, read, .. } = self;
        write!(f, "{written} octets written, {pending} wait, {read} read")?;
        let ends = [(self.is_finishing, "finished here"), (self.has_end, "finished there")];
        ends.iter().filter(|(is_so, _)| *is_so).try_for_each(|(_, what)| write!(f, ", {what}"))
    }
}

/// The writer's progress in one direction of a stream.
#[derive(Debug, Default)]
struct Direction {
    written: usize,
    is_finished: bool,
    /// The node, process and stream of the only reader.
    reader: Option<(usize, u64, StreamId)>,
}

/// One process above its node.
struct End {
    core: Slep,
    server: Server,
    id: Option<ClientId>,
    process: u64,
    known: BTreeMap<StreamId, Known>,
    /// Pending requests of the node.
    modes: BTreeMap<u64, (RequestId, Mode)>,
    tags: u64,
    /// Outcomes to be reported to the node later.
    outcomes: BTreeMap<(Time, u64), Outcome>,
    rng: Rng,
    /// Whether the user leaves arriving octets unread for now.
    is_lazy: bool,
}

/// All ends and streams.
pub struct Streams {
    config: Config,
    ends: Vec<End>,
    tags: u32,
    directions: BTreeMap<(u32, bool), Direction>,
    /// Streams that broke, or were reported to a user as broken.
    broken: BTreeSet<u32>,
    is_calm: bool,
}

impl Streams {
    pub fn new(course: &Course) -> Self {
        let mut rng = Rng::stream(course.seed, "storm slep");
        let rng = &mut rng;
        let mut config = Config::default();
        if rng.chance(0.6) {
            config.mtu = u16::try_from(log_count(rng, 64..2_049)).expect("below 2,049");
            config.window = u16::try_from(log_count(rng, 8..4_097)).expect("below 4,097");
        }
        if rng.chance(0.4) {
            config.limits.streams = log_count(rng, 2..200);
            config.limits.streams_of_peer = log_count(rng, 2..200).min(config.limits.streams);
        }
        if rng.chance(0.4) {
            config.limits.unsent = log_count(rng, 200..config.limits.unsent.max(201));
            config.limits.received = log_count(rng, 4_000..config.limits.received.max(4_001));
            config.limits.early = log_count(rng, 2_000..config.limits.early.max(2_001));
        }
        if !course.has_limits {
            config = Config::default();
        }
        let ends = (0..course.nodes).map(|node| {
            let mut end = End {
                core: Slep::new(
                    start(),
                    config.clone(),
                    Rng::stream(course.seed, &format!("slep {node}")),
                ),
                server: Server::new(sis::Config::default(), address(node)),
                id: None,
                process: 0,
                known: BTreeMap::new(),
                modes: BTreeMap::new(),
                tags: 0,
                outcomes: BTreeMap::new(),
                rng: Rng::stream(course.seed, &format!("slep outcomes {node}")),
                is_lazy: false,
            };
            end.connect(start());
            end
        });
        Self {
            config: config.clone(),
            ends: ends.collect(),
            tags: 0,
            directions: BTreeMap::new(),
            broken: BTreeSet::new(),
            is_calm: false,
        }
    }

    fn write(&mut self, node: usize, id: StreamId, len: usize) {
        let end = &mut self.ends[node];
        let Some(known) = end.known.get_mut(&id).filter(|known| !known.is_finishing) else {
            return;
        };
        let Some(tag) = known.tag else { return };
        let (from, len) = (known.written, known.pending + len);
        let octets: Vec<u8> =
            (from..from + len).map(|at| octet(tag, known.is_initiator, at)).collect();
        let taken = end.core.write(id, &octets);
        known.written += taken;
        if known.is_of_calm {
            known.pending = len - taken;
        }
        self.directions.entry((tag, known.is_initiator)).or_default().written = known.written;
    }

    fn finish(&mut self, node: usize, id: StreamId) {
        let end = &mut self.ends[node];
        let Some(known) = end.known.get_mut(&id).filter(|known| known.pending == 0) else { return };
        // The answering end knows the stream's tag only after the first octets.
        let Some(tag) = known.tag else { return };
        known.is_finishing = true;
        end.core.finish(id);
        self.directions.entry((tag, known.is_initiator)).or_default().is_finished = true;
    }

    fn read(&mut self, node: usize, id: StreamId, most: usize) -> Kept {
        let end = &mut self.ends[node];
        let Some(known) = end.known.get_mut(&id) else { return Ok(()) };
        let mut out = Vec::new();
        let most = if known.tag.is_none() { usize::MAX } else { most };
        let read = end.core.read(id, &mut out, most);
        known.is_readable = end.core.is_readable(id);
        out.splice(..0, std::mem::take(&mut known.begun));
        if known.tag.is_none()
            && let Some(tag) = out.first_chunk()
        {
            known.tag = Some(u32::from_be_bytes(*tag));
        }
        let Some(tag) = known.tag else {
            // Its writer may have had room for no more, so it may end here.
            known.begun = out;
            return Ok(());
        };
        for (at, found) in (known.read..).zip(&out) {
            if *found != octet(tag, !known.is_initiator, at) {
                return Err(format!("corrupt: octet {at} of stream {tag} is wrong at node {node}"));
            }
        }
        known.read += out.len();
        known.has_end |= read.is_end;
        let who = (node, end.process, id);
        let direction = self.directions.entry((tag, !known.is_initiator)).or_default();
        if !out.is_empty() && *direction.reader.get_or_insert(who) != who {
            return Err(format!("twice: stream {tag} is read by two, the second at node {node}"));
        }
        if known.read > direction.written {
            return Err(format!("corrupt: stream {tag} has more octets than were written"));
        }
        if read.is_end && !direction.is_finished {
            return Err(format!(
                "end: stream {tag} ends at node {node}, and its writer has not finished"
            ));
        }
        if read.is_end && known.read != direction.written {
            let Direction { written, .. } = direction;
            return Err(format!("end: stream {tag} ends at octet {} of {written}", known.read));
        }
        Ok(())
    }

    /// Opens a stream that nothing may break, unless there is no room for further streams.
    fn open_in_calm(&mut self, now: Time, node: usize, to: usize) {
        let end = &mut self.ends[node];
        let Ok(id) = end.core.open(now, address(to), Addresses::default(), Options::default())
        else {
            return;
        };
        self.tags += 1;
        let (tag, is_of_calm) = (Some(self.tags), true);
        end.known.insert(id, Known { is_initiator: true, tag, is_of_calm, ..Known::default() });
        self.write(node, id, LONG);
        self.finish(node, id);
    }

    /// Exchanges octets between the core and its node until neither has more.
    fn exchange(&mut self, now: Time, node: usize) {
        let end = &mut self.ends[node];
        loop {
            let mut octets = Vec::new();
            while end.core.poll_octets(now, &mut octets) {}
            let mut back = Vec::new();
            if let Some(id) = end.id {
                end.server.handle_octets(now, id, &octets);
                while end.server.poll_octets(now, id, &mut back) {}
            }
            while end.server.poll_event().is_some() {}
            if back.is_empty() {
                return;
            }
            end.core.handle_octets(now, &back);
        }
    }
}

impl End {
    fn connect(&mut self, now: Time) {
        if self.id.is_none() {
            self.id = self.server.handle_connected(now);
            self.core.handle_connected(now);
        }
    }

    fn disconnect(&mut self, now: Time) {
        if let Some(id) = self.id.take() {
            self.server.handle_disconnected(now, id);
            self.core.handle_disconnected(now);
        }
    }
}

impl Cores for Streams {
    const CALM: Duration = Duration::from_secs(6 * 3_600);
    /// A node delivers each S_PDU once and whole, and hears only other nodes.
    const IS_OPEN: bool = false;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        let to = (node + 1 + choice(rng, self.ends.len() - 1)) % self.ends.len();
        let end = &mut self.ends[node];
        let which = choice(rng, end.known.len());
        let stream = end.known.keys().nth(which).copied();
        match (choice(rng, 20), stream) {
            (0..5, _) | (_, None) => {
                let options = Options { is_compressed: rng.chance(0.5), ..Options::default() };
                if let Ok(id) = end.core.open(now, address(to), Addresses::default(), options) {
                    self.tags += 1;
                    let tag = Some(self.tags);
                    end.known.insert(id, Known { is_initiator: true, tag, ..Known::default() });
                    self.write(node, id, 4 + log_count(rng, WRITES));
                }
            }
            (5..11, Some(id)) => self.write(node, id, log_count(rng, WRITES)),
            (11..13, Some(id)) => self.finish(node, id),
            (13, Some(id)) => {
                if let Some(tag) = end.known.remove(&id).and_then(|known| known.tag) {
                    self.broken.insert(tag);
                }
                if rng.chance(0.5) {
                    end.core.reset(id, Reason::CANCELLED);
                } else {
                    end.core.reset_behind(now, id, Reason::CANCELLED);
                }
            }
            (14, _) => end.is_lazy = true,
            (15..17, Some(id)) => self.read(node, id, log_count(rng, WRITES))?,
            (17, _) => end.is_lazy = false,
            (18, _) => end.disconnect(now),
            (_, _) => end.connect(now),
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept {
        let Some((kind, s_pdu)) = octets.split_first() else {
            return Err("unreadable: an empty S_PDU".to_owned());
        };
        let mode =
            if *kind == 0 { Mode::Arq { in_order: false } } else { Mode::Arq { in_order: true } };
        let indication = Indication {
            is_expedited: false,
            from: address(from),
            to: address(node),
            mode,
            s_pdu: s_pdu.to_vec(),
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.ends[node].server.handle_indication(now, &indication);
        Ok(())
    }

    fn forge(&mut self, _now: Time, _node: usize, _octets: &[u8]) {}

    fn told(&mut self, now: Time, node: usize, tag: u64, has_arrived: bool) {
        let end = &mut self.ends[node];
        let is_known = self.is_calm || end.rng.chance(0.8);
        let outcome = match (has_arrived, is_known) {
            (true, true) => Outcome::Done,
            (false, true) => Outcome::not_arrived(Failure::NoResponse),
            (_, false) => Outcome::unknown(Failure::LinkLost),
        };
        let later = Duration::from_secs_f64(0.001 + end.rng.uniform() * 5.0);
        end.outcomes.insert((now + later, tag), outcome);
    }

    /// Replaces the process, and sometimes the node too.
    fn restart(&mut self, now: Time, node: usize, mut rng: Rng) -> Kept {
        let end = &mut self.ends[node];
        end.disconnect(now);
        self.broken
            .extend(std::mem::take(&mut end.known).into_values().filter_map(|known| known.tag));
        if rng.chance(0.3) {
            end.server = Server::new(sis::Config::default(), address(node));
            end.modes.clear();
            end.outcomes.clear();
        }
        end.process += 1;
        end.core = Slep::new(now, self.config.clone(), rng);
        end.is_lazy = false;
        end.connect(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        let end = &mut self.ends[node];
        while let Some(entry) = end.outcomes.first_entry() {
            let (at, tag) = *entry.key();
            if at > now {
                break;
            }
            let outcome = entry.remove();
            if let Some((id, _)) = end.modes.remove(&tag) {
                end.server.handle_outcome(now, id, outcome);
            }
        }
        end.core.handle_timeout(now);
        end.server.handle_timeout(now);
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        let End { core, server, outcomes, .. } = &self.ends[node];
        let outcome = outcomes.first_key_value().map(|((at, _), _)| *at);
        earliest(earliest(core.next_timeout(), server.next_timeout()), outcome)
    }

    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String> {
        self.exchange(now, node);
        let end = &mut self.ends[node];
        let Some(event) = end.core.poll_event() else {
            let is_read = !end.is_lazy || self.is_calm;
            let readable = end.known.iter().find(|(_, known)| known.is_readable && is_read);
            let Some(id) = readable.map(|(id, _)| *id) else { return Ok(false) };
            self.read(node, id, usize::MAX)?;
            // In the calm, a user who has read from a stream finishes the stream.
            if self.is_calm {
                self.finish(node, id);
            }
            return Ok(true);
        };
        match event {
            Event::Close(_) => {
                end.disconnect(now);
                end.connect(now);
            }
            Event::Finished(id) => {
                let Some(known) = end.known.remove(&id) else {
                    return Err(format!(
                        "end: node {node} is told of the end of stream {} twice",
                        id.0
                    ));
                };
                let Some(tag) = known.tag else { return Ok(true) };
                if !known.is_finishing || !known.has_end {
                    return Err(format!(
                        "end: stream {tag} is finished at node {node} before both ends are: {known}"
                    ));
                }
            }
            Event::Opened { stream, .. } => {
                let is_lazy = end.is_lazy;
                end.known.insert(stream, Known::default());
                if end.known.len() > self.config.limits.streams {
                    return Err(format!(
                        "bound: node {node} has {} streams ({is_lazy})",
                        end.known.len()
                    ));
                }
            }
            Event::Readable(id) => {
                if let Some(known) = end.known.get_mut(&id) {
                    known.is_readable = true;
                }
            }
            Event::Reset(id, why) => {
                let Some(known) = end.known.remove(&id) else {
                    return Err(format!(
                        "end: node {node} is told of the break of stream {} twice",
                        id.0
                    ));
                };
                let has_room = self.config.limits.streams == Config::default().limits.streams;
                // Whoever has not heard of a restart yet opens a stream to the process before.
                let was_meant = why.reason != Reason::RESTARTED;
                if known.is_of_calm && has_room && was_meant {
                    return Err(format!(
                        "breaks: a stream of node {node} breaks, {known}: {}",
                        why.reason
                    ));
                }
                self.broken.extend(known.tag);
            }
            Event::Writable(id) => {
                if end.known.get(&id).is_some_and(|known| known.pending > 0) {
                    self.write(node, id, 0);
                    self.finish(node, id);
                }
            }
            Event::Accepted(_)
            | Event::Bound
            | Event::Delivered(_)
            | Event::OtherVersion { .. }
            | Event::Refused(_)
            | Event::Sealing { .. }
            | Event::Unbound(_)
            | Event::Undelivered(_) => {}
        }
        Ok(true)
    }

    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        self.exchange(now, node);
        let end = &mut self.ends[node];
        let request = end.server.poll_request(now, 0)?;
        end.tags += 1;
        end.modes.insert(end.tags, (request.id, request.mode));
        out.push(u8::from(!matches!(request.mode, Mode::Arq { in_order: false })));
        out.extend(&request.s_pdu);
        let to = (0..self.ends.len()).find(|to| address(*to) == request.to).unwrap_or(node);
        let tag = self.ends[node].tags;
        Some(Sent { to: To::One(to), tag })
    }

    fn check(&self, node: usize) -> Kept {
        let stats = self.ends[node].core.stats();
        let limits = &self.config.limits;
        let most = limits.received + limits.streams * usize::from(self.config.mtu).max(2_048);
        if stats.live > limits.streams as u64 || stats.unread > most as u64 {
            return Err(format!("bound: node {node} holds too much: {}", words::counted(&stats)));
        }
        Ok(())
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        self.is_calm = true;
        let end = &mut self.ends[node];
        end.connect(now);
        for id in end.known.keys().copied().collect::<Vec<_>>() {
            self.finish(node, id);
        }
        for to in (0..self.ends.len()).filter(|to| *to != node) {
            self.open_in_calm(now, node, to);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.known.is_empty())
    }

    fn conclude(&self) -> Kept {
        for (node, end) in self.ends.iter().enumerate() {
            if let Some((id, known)) = end.known.first_key_value() {
                return Err(format!("stuck: node {node} still has stream {}: {known}", id.0));
            }
        }
        Ok(())
    }
}

fn address(node: usize) -> Address {
    Address::node(u32::try_from(node + 1).expect("a few nodes"))
}

/// The octets of a stream: the tag from the initiator, otherwise a pattern derived from tag, direction and place.
pub fn octet(tag: u32, by_initiator: bool, at: usize) -> u8 {
    if by_initiator && at < 4 {
        return tag.to_be_bytes()[at];
    }
    (tag as usize * 31 + at * 7 + at / 251 + usize::from(by_initiator)).to_le_bytes()[0]
}
