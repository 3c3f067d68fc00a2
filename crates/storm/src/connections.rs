//! TCP under storm: equal streams, one end, the right end; a window edge that never moves back, nothing sent beyond it.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::ip::Header;
use base::rng::Rng;
use base::tcp::{Flags, Segment};
use base::time::{Time, earliest};
use tcp::{Algorithm, Config, Connection, Event, KeepAlive, State};

use crate::course::{Course, choice, log_count};
use crate::drive::{Cores, Kept, Sent, To};
use crate::streams::octet;
use crate::words;

/// Octets of a write.
const WRITES: std::ops::Range<usize> = 1..20_000;
/// Octets of the longest packet on the paths.
const MTUS: std::ops::Range<usize> = 296..1_501;
/// Bounds: connections of a user at a time, and of a node.
const OWN: usize = 4;
const TAKEN: usize = 64;
/// The listening port, and the first local port of a client.
const PORT: u16 = 7;
const FIRST_PORT: u16 = 10_000;
/// From this rate on, in bit/s, a connection that begins in the calm has no reason to fail.
const AMPLE: f64 = 100_000.0;

/// Octets that a connection has under way at most.
const MOST_UNDER_WAY: i32 = 1 << 20;

/// Our and the peer's address.
type Key = (SocketAddr, SocketAddr);

/// Names a connection by its ends.
fn between((local, peer): Key) -> String {
    format!("the connection of {local} with {peer}")
}

/// The end of a connection in an event.
fn ended(event: Event) -> &'static str {
    match event {
        Event::Closed => "was closed",
        Event::Reset => "was reset",
        Event::TimedOut(_) => "was given up",
        _ => "goes on",
    }
}

/// A connection with the knowledge of its user and of the wire.
#[derive(Debug)]
struct Known {
    tcp: Connection,
    is_initiator: bool,
    is_of_calm: bool,
    /// The first four octets from the initiator, which identify the connection.
    tag: Option<u32>,
    written: usize,
    /// Octets that wait for room in the send buffer.
    pending: usize,
    read: usize,
    has_closed: bool,
    has_peer_closed: bool,
    /// The event that ended the connection.
    end: Option<Event>,
    mtu: usize,
    /// How far our SYN and the peer's SYN shift window fields; `None` before the SYN and without the option.
    shifts: [Option<u8>; 2],
    /// The greatest right edges of the sent and of the received window.
    edges: [Option<u32>; 2],
    /// Beyond our last place in the sequence space.
    sent: Option<u32>,
}

/// The writer's progress in one direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    written: usize,
    is_finished: bool,
}

#[derive(Debug)]
struct Node {
    known: BTreeMap<Key, Known>,
    /// The connection that sent last.
    last: Option<Key>,
    /// Resets for segments of no connection.
    answers: VecDeque<Vec<u8>>,
    next_port: u16,
    is_lazy: bool,
    rng: Rng,
}

/// The nodes and their connections.
#[derive(Debug)]
pub struct Connections {
    config: Config,
    nodes: Vec<Node>,
    tags: u32,
    directions: BTreeMap<(u32, bool), Direction>,
    is_ample: bool,
    is_calm: bool,
    /// A rule that was broken while a segment was sent.
    fault: Option<String>,
}

impl Connections {
    pub fn new(course: &Course) -> Self {
        let mut rng = Rng::stream(course.seed, "storm tcp");
        let rng = &mut rng;
        let mut config = Config::default();
        config.send_buffer = course.limit(rng, 1_000, config.send_buffer);
        config.receive_buffer = course.limit(rng, 1_000, config.receive_buffer);
        config.max_holes = course.limit(rng, 1, config.max_holes);
        config.congestion.algorithm = match choice(rng, 5) {
            0 => Algorithm::Bbr,
            1 => Algorithm::TcpAp(tcp::adaptive_pacing::Config::default()),
            2 => Algorithm::Vegas(tcp::vegas::Config::default()),
            3 => Algorithm::CUBIC,
            _ => Algorithm::default(),
        };
        for flag in [
            &mut config.offer.window_scaling,
            &mut config.offer.timestamps,
            &mut config.offer.sack,
            &mut config.nagle,
        ] {
            *flag = rng.chance(0.7);
        }
        config.offer.ecn = rng.chance(0.2);
        config.recovery.lost_repairs = rng.chance(0.3);
        config.recovery.undo_timeouts = rng.chance(0.3);
        config.mtu = log_count(rng, MTUS);
        // A half-open connection comes to an end although nobody writes.
        let [idle, interval] = [60, 20].map(Duration::from_secs);
        config.keep_alive = Some(KeepAlive { idle, interval, probes: 9 });
        let nodes = (0..course.nodes).map(|node| Node {
            known: BTreeMap::new(),
            last: None,
            answers: VecDeque::new(),
            next_port: FIRST_PORT,
            is_lazy: false,
            rng: Rng::stream(course.seed, &format!("tcp {node}")),
        });
        Self {
            config,
            nodes: nodes.collect(),
            tags: 0,
            directions: BTreeMap::new(),
            is_ample: course.medium.rate >= AMPLE,
            is_calm: false,
            fault: None,
        }
    }

    fn open(&mut self, now: Time, node: usize, to: usize) -> Key {
        let its = &mut self.nodes[node];
        let key =
            (SocketAddr::new(address(node), its.next_port), SocketAddr::new(address(to), PORT));
        its.next_port = its.next_port.wrapping_add(1).max(FIRST_PORT);
        self.tags += 1;
        let tcp = Connection::connect(now, self.config, key.0, key.1, &mut its.rng);
        let mut known = Known::new(tcp, true, self.config.mtu);
        (known.tag, known.is_of_calm) = (Some(self.tags), self.is_calm);
        its.known.insert(key, known);
        key
    }

    /// Writes octets, and keeps for later what finds no room.
    fn write(&mut self, node: usize, key: Key, len: usize) {
        let Some(known) = self.nodes[node].known.get_mut(&key) else { return };
        let Some(tag) = known.tag.filter(|_| !known.has_closed) else { return };
        let from = known.written;
        let len = known.pending + len;
        let octets: Vec<u8> =
            (from..from + len).map(|at| octet(tag, known.is_initiator, at)).collect();
        let taken = known.tcp.write(&octets);
        known.written += taken;
        known.pending = len - taken;
        self.directions.entry((tag, known.is_initiator)).or_default().written = known.written;
    }

    fn close(&mut self, node: usize, key: Key) {
        let Some(known) = self.nodes[node].known.get_mut(&key) else { return };
        // The answering end knows the tag only after the first octets.
        let Some(tag) = known.tag.filter(|_| known.pending == 0) else { return };
        known.has_closed = true;
        known.tcp.close();
        self.directions.entry((tag, known.is_initiator)).or_default().is_finished = true;
    }

    fn abort(&mut self, node: usize, key: Key) {
        let Some(known) = self.nodes[node].known.get_mut(&key) else { return };
        known.has_closed = true;
        known.tcp.abort();
    }

    fn read(&mut self, node: usize, key: Key, most: usize) -> Result<bool, String> {
        let Some(known) = self.nodes[node].known.get_mut(&key) else { return Ok(false) };
        if known.tag.is_none() && known.tcp.readable() < 4 && !known.has_peer_closed {
            return Ok(false);
        }
        let mut out = vec![0; most.max(4).min(known.tcp.readable())];
        let len = known.tcp.read(&mut out);
        out.truncate(len);
        if known.tag.is_none()
            && let Some(tag) = out.first_chunk()
        {
            known.tag = Some(u32::from_be_bytes(*tag));
        }
        let is_drained = known.has_peer_closed && known.tcp.readable() == 0;
        let Some(tag) = known.tag else {
            return match is_drained {
                true => Err(format!("end: a stream of less than four octets ends at node {node}")),
                false => Ok(false),
            };
        };
        for (at, found) in (known.read..).zip(&out) {
            if *found != octet(tag, !known.is_initiator, at) {
                return Err(format!("corrupt: octet {at} of stream {tag} is wrong at node {node}"));
            }
        }
        known.read += len;
        let none = Direction::default();
        let direction = self.directions.get(&(tag, !known.is_initiator)).unwrap_or(&none);
        if known.read > direction.written {
            return Err(format!("corrupt: stream {tag} has more octets than were written"));
        }
        if is_drained && (!direction.is_finished || known.read != direction.written) {
            let Direction { written, is_finished } = direction;
            return Err(format!(
                "end: stream {tag} ends at octet {} of {written}, finished: {is_finished}",
                known.read
            ));
        }
        Ok(len > 0)
    }

    /// Holds a segment sent by a connection to the rules of windows and lengths.
    fn judge(&mut self, node: usize, key: Key, octets: &[u8]) -> Kept {
        let Some(known) = self.nodes[node].known.get_mut(&key) else { return Ok(()) };
        if octets.len() > known.mtu {
            return Err(format!(
                "mtu: node {node} sends {} octets, {} pass",
                octets.len(),
                known.mtu
            ));
        }
        let segment = parse(octets).ok_or("unreadable: a segment of ours is no segment")?;
        let end = segment.seq.wrapping_add(segment.len());
        if known.sent.is_none_or(|sent| distance(end, sent) > 0) {
            known.sent = Some(end);
        }
        let Some(edge) = known.note(0, &segment) else { return Ok(()) };
        // A repeated SYN may say less than a segment since, because its window is never scaled (RFC 7323, 2.2).
        if let Some(before) = known.edges[0].filter(|_| !segment.flags.has(Flags::SYN)) {
            // Rounding takes less than one unit of the field.
            let unit = 1 << known.shifts[0].unwrap_or(0);
            if distance(edge.wrapping_add(unit), before) <= 0 {
                return Err(format!(
                    "edge: the window of node {node} ends before {before}: {edge}"
                ));
            }
        }
        if let Some(peers) = known.edges[1] {
            // A probe of a closed window goes beyond by one octet.
            if distance(end, peers) > 1 {
                return Err(format!("beyond: node {node} sends up to {end}, {peers} is allowed"));
            }
        }
        known.raise(0, edge);
        Ok(())
    }
}

impl Known {
    fn new(tcp: Connection, is_initiator: bool, mtu: usize) -> Self {
        Self {
            tcp,
            is_initiator,
            is_of_calm: false,
            tag: None,
            written: 0,
            pending: 0,
            read: 0,
            has_closed: false,
            has_peer_closed: false,
            end: None,
            mtu,
            shifts: [None; 2],
            edges: [None; 2],
            sent: None,
        }
    }

    /// The right edge of the window in a segment of one end, if the segment acknowledges. A SYN brings the end's shift.
    fn note(&mut self, end: usize, segment: &Segment<'_>) -> Option<u32> {
        if segment.flags.has(Flags::RST) {
            return None;
        }
        let is_syn = segment.flags.has(Flags::SYN);
        if is_syn {
            self.shifts[end] = segment.options.window_scale;
        }
        let is_scaled = !is_syn && self.shifts.iter().all(Option::is_some);
        let shift = self.shifts[end].filter(|_| is_scaled).unwrap_or(0);
        let is_acknowledging = segment.flags.has(Flags::ACK);
        is_acknowledging.then(|| segment.ack.wrapping_add(u32::from(segment.window) << shift))
    }

    fn raise(&mut self, end: usize, edge: u32) {
        let known = self.edges[end].get_or_insert(edge);
        if distance(edge, *known) > 0 {
            *known = edge;
        }
    }
}

impl Cores for Connections {
    const CALM: Duration = Duration::from_secs(12 * 3_600);
    const IS_OPEN: bool = true;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        let others = self.nodes.len() - 1;
        let to = (node + 1 + choice(rng, others)) % self.nodes.len();
        let its = &mut self.nodes[node];
        let own = its.known.values().filter(|known| known.is_initiator).count();
        let which = its.known.keys().nth(choice(rng, its.known.len())).copied();
        match (choice(rng, 20), which) {
            (0..6, _) | (_, None) => {
                if own < OWN {
                    let key = self.open(now, node, to);
                    self.write(node, key, 4 + log_count(rng, WRITES));
                }
            }
            (6..12, Some(key)) => self.write(node, key, log_count(rng, WRITES)),
            (12..15, Some(key)) => self.close(node, key),
            (15, Some(key)) => self.abort(node, key),
            (16, _) => its.is_lazy = true,
            (17, _) => its.is_lazy = false,
            (18, Some(key)) => {
                let mtu = log_count(rng, MTUS).min(self.config.mtu);
                if let Some(known) = its.known.get_mut(&key) {
                    known.mtu = mtu;
                    known.tcp.handle_path_mtu(now, mtu);
                }
            }
            (_, Some(key)) => {
                self.read(node, key, log_count(rng, WRITES))?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, _from: usize, octets: &[u8]) -> Kept {
        let segment = parse(octets)
            .ok_or_else(|| format!("unreadable: node {node} cannot read what a node sent"))?;
        let its = &mut self.nodes[node];
        let key = (segment.destination, segment.source);
        if let Some(known) = its.known.get_mut(&key) {
            // The peer may answer an earlier connection by the same ports, whose numbers are others.
            let is_ours = known
                .sent
                .is_some_and(|sent| (-MOST_UNDER_WAY..=0).contains(&distance(segment.ack, sent)));
            if let Some(edge) = known.note(1, &segment).filter(|_| is_ours) {
                known.raise(1, edge);
            }
            known.tcp.handle_segment(now, &segment);
            return Ok(());
        }
        let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if is_syn
            && !segment.flags.has(Flags::RST)
            && segment.destination.port() == PORT
            && its.known.len() < TAKEN
        {
            let config = self.config;
            let tcp = Connection::accept(now, config, key.0, key.1, &segment, &mut its.rng);
            let mut known = Known::new(tcp, false, config.mtu);
            known.note(1, &segment);
            its.known.insert(key, known);
        } else if let Some(reset) = segment.reset_for() {
            let mut out = Vec::new();
            reset.emit(&mut out);
            its.answers.push_back(out);
        }
        Ok(())
    }

    /// Somebody off the path guesses: addresses and ports of a connection, and other numbers than its own.
    fn forge(&mut self, now: Time, node: usize, octets: &[u8]) {
        // Unreadable octets reach no connection.
        let _ = parse(octets);
        let seed = octets.iter().fold(1, |sum: u64, octet| sum.rotate_left(9) ^ u64::from(*octet));
        let mut rng = Rng::stream(seed, "guess");
        let its = &mut self.nodes[node];
        let place = choice(&mut rng, its.known.len());
        let Some((key, known)) = its.known.iter_mut().nth(place) else { return };
        // A guesser meets half of the numbers of an opening connection.
        if matches!(known.tcp.state(), State::SynSent | State::SynReceived) {
            return;
        }
        let [flags, seq, ack] = [(); 3].map(|()| u32::try_from(rng.bits() >> 32).unwrap_or(0));
        let flags = Flags(flags.to_le_bytes()[0]);
        let segment = Segment { flags, seq, ack, payload: octets, ..Segment::bare(key.1, key.0) };
        known.tcp.handle_segment(now, &segment);
    }

    fn restart(&mut self, _now: Time, node: usize, rng: Rng) -> Kept {
        let its = &mut self.nodes[node];
        its.known.clear();
        its.answers.clear();
        (its.is_lazy, its.rng) = (false, rng);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        for known in self.nodes[node].known.values_mut() {
            known.tcp.handle_timeout(now);
        }
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        let known = self.nodes[node].known.values();
        known.fold(None, |next, known| earliest(next, known.tcp.next_timeout()))
    }

    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String> {
        let mut is_any = false;
        for key in self.nodes[node].known.keys().copied().collect::<Vec<_>>() {
            let its = &mut self.nodes[node];
            let is_read = !its.is_lazy || self.is_calm;
            let Some(known) = its.known.get_mut(&key) else { continue };
            if let Some(event) = known.tcp.poll_event() {
                is_any = true;
                match event {
                    Event::PeerClosed => known.has_peer_closed = true,
                    Event::Closed | Event::Reset | Event::TimedOut(_) => {
                        if let Some(before) = known.end.replace(event) {
                            return Err(format!(
                                "end: node {node} is told that a connection {}, then that it {}",
                                ended(before),
                                ended(event)
                            ));
                        }
                        if known.is_of_calm && self.is_ample && event != Event::Closed {
                            return Err(format!("locked out: {} {}", between(key), ended(event)));
                        }
                    }
                    Event::Connected
                    | Event::Readable
                    | Event::SoftError(_)
                    | Event::Unresponsive
                    | Event::Writable => {}
                }
                continue;
            }
            if known.tcp.state() == State::Closed && known.end.is_none() {
                return Err(format!("end: node {node} is not told that {} is over", between(key)));
            }
            let (is_over, before) = (known.end.is_some(), known.written);
            if known.pending > 0 && known.tcp.writable() > 0 && !is_over {
                self.write(node, key, 0);
                is_any |= self.nodes[node].known.get(&key).is_some_and(|it| it.written > before);
            }
            // What came before the end of a connection can be read after it.
            if is_read || is_over {
                is_any |= self.read(node, key, usize::MAX)?;
            }
            let its = &mut self.nodes[node];
            let Some(known) = its.known.get_mut(&key).filter(|_| !is_any) else { continue };
            if is_over {
                let mut reset = Vec::new();
                while known.tcp.poll_transmit(now, &mut reset) {
                    its.answers.push_back(reset.clone());
                }
                its.known.remove(&key);
            } else if self.is_calm && !known.has_closed && known.pending == 0 {
                let is_answered = known.is_initiator || known.read > 0;
                if is_answered && known.tcp.state() != State::SynSent {
                    self.close(node, key);
                    is_any = true;
                }
            }
        }
        Ok(is_any)
    }

    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        let its = &mut self.nodes[node];
        if let Some(answer) = its.answers.pop_front() {
            *out = answer;
        } else {
            // In turn, beginning behind the connection that sent last.
            let keys: Vec<Key> = its.known.keys().copied().collect();
            let begin = keys.partition_point(|key| Some(*key) <= its.last);
            let turn = keys[begin..].iter().chain(&keys[..begin]);
            let mut sends = |key: &&Key| {
                its.known.get_mut(*key).is_some_and(|known| known.tcp.poll_transmit(now, out))
            };
            let key = turn.into_iter().find(|key| sends(key)).copied()?;
            its.last = Some(key);
            if let Err(why) = self.judge(node, key, out) {
                self.fault.get_or_insert(why);
            }
        }
        let destination = parse(out)?.destination.ip();
        let to = (0..self.nodes.len()).find(|to| address(*to) == destination).unwrap_or(node);
        Some(Sent { to: To::One(to), tag: 0 })
    }

    fn check(&self, node: usize) -> Kept {
        if let Some(why) = &self.fault {
            return Err(why.clone());
        }
        for (key, known) in &self.nodes[node].known {
            let readable = known.tcp.readable();
            if readable > self.config.receive_buffer.max(usize::from(u16::MAX)) {
                return Err(format!(
                    "bound: {} of node {node} keeps {readable} octets",
                    between(*key)
                ));
            }
        }
        Ok(())
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        self.is_calm = true;
        for to in (0..self.nodes.len()).filter(|to| *to != node) {
            let key = self.open(now, node, to);
            self.write(node, key, 1_000);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| node.known.is_empty())
    }

    fn conclude(&self) -> Kept {
        for (node, its) in self.nodes.iter().enumerate() {
            if let Some((key, known)) = its.known.first_key_value() {
                let (what, state) = (between(*key), words::state(known.tcp.state()));
                return Err(format!("stuck: node {node} still has {what} in {state}"));
            }
        }
        Ok(())
    }
}

/// Reads a packet with a segment.
fn parse(octets: &[u8]) -> Option<Segment<'_>> {
    let header = Header::parse(octets).ok()?;
    Segment::parse(&header, octets, header.len).ok()
}

/// How far `one` is behind `other` in the circle of sequence numbers.
fn distance(one: u32, other: u32) -> i32 {
    one.wrapping_sub(other).cast_signed()
}

fn address(node: usize) -> IpAddr {
    let last = u8::try_from(node + 1).expect("a few nodes");
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}
