//! STANAG 5066 under storm: one outcome for each U_PDU, the true one; each delivered whole, once, in order, to its client.
//!
//! ```text
//!  Client ─┐ octets            signals
//!  Client ─┼─────── Node ─ Radio ~~~~~ all other radios
//!  rogue ──┘                 ~~~~~ stranger: old or changed transmissions, U_PDUs in the name of nodes
//! ```
//!
//! A stranger may confirm what has not arrived, because the air has no seals. Then only seals of clients count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use hf::modem::{Family, Keying, Waveform};
use hf::s5066::cas::Access;
use hf::s5066::node::{self, Config, Event as NodeEvent, Extensions, JITTER, Link, Rate};
use hf::s5066::seal::{self, Key, Sealing};
use hf::s5066::service::Mode;
use hf::s5066::sis::client::{self, Event, Received, Send, SendId};
use hf::s5066::sis::primitive::{Arrival, Block, HardLink, LinkKind, Primitive, UnidataRequest};
use hf::s5066::sis::server::Backlog;
use hf::s5066::sis::stream::Stream;
use hf::s5066::sis::{Client, ClientId, Confirmation, Sap, Service, UnidataReason};
use hf::s5066::{Address, Node};

use crate::course::{Course, choice, log, log_count};
use crate::drive::{Cores, Kept, Sent, To, start};
use crate::radio::{self, Radio};
use crate::words;

/// Honest clients of a node; each has the access point after its place.
const CLIENTS: usize = 2;
/// The access point of a client that breaks rules.
const ROGUE: Sap = Sap::new(9);
const GROUP: u32 = 77;
const SIZES: std::ops::Range<usize> = 8..1_800;
/// Octets of a U_PDU that is sent in the calm, and how often until one arrives.
const PROBE: usize = 100;
const PROBE_EVERY: Duration = Duration::from_secs(600);
/// Transmissions that a stranger remembers, and U_PDUs.
const OVERHEARD: usize = 50;
/// Calls until the node of a stranger has sent a U_PDU, and octets of each.
const CALLS: usize = 100;
const ROOM: usize = 4_096;
/// Octets of the last requests of honest clients, which a rogue repeats.
const REQUESTS: usize = 8_192;
/// Time on the air of a node's queue at which its users wait, so that seeds take seconds.
const BACKLOG: Duration = Duration::from_secs(600);
/// Bits a second of the slowest waveform.
const SLOWEST: u32 = 75;
/// The wall clock at the start of all clocks, since 1970.
const CLOCK: Duration = Duration::from_secs(1_700_000_000);

/// Who attacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Attacker {
    Nobody,
    /// A client of each node.
    Rogue,
    /// A station on the air.
    Stranger,
}

/// A node and a client.
type Place = (usize, usize);

/// A U_PDU that an honest client gave its node.
#[derive(Clone, Debug)]
struct Letter {
    from: Place,
    to: Address,
    to_sap: Sap,
    u_pdu: Vec<u8>,
}

/// A U_PDU, and the clients' knowledge about it.
#[derive(Debug)]
struct Known {
    from: Place,
    /// The receiving client; each node's client at this place, where it goes to a group.
    to: Place,
    is_to_group: bool,
    octets: usize,
    service: Service,
    priority: u8,
    is_expedited: bool,
    has_ttl: bool,
    /// How often the receiving client was bound until the U_PDU was sent; `None` while it is not bound.
    bound: Option<u64>,
    /// Whether the sender was told that it certainly has not arrived.
    is_refused: bool,
    delivered: BTreeSet<usize>,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, octets, priority, service, .. } = self;
        let (kind, in_order) = match service.mode {
            Mode::Arq { in_order } => ("ARQ", in_order),
            Mode::NonArq { in_order, .. } => ("no ARQ", in_order),
        };
        write!(f, "{octets} octets from {} of node {} to {}", from.1, from.0, to.1)?;
        match self.is_to_group {
            true => write!(f, " of all nodes")?,
            false => write!(f, " of node {}", to.0)?,
        }
        write!(f, ", {kind}, priority {priority}")?;
        for (is_so, what) in [
            (in_order, "in order"),
            (self.is_expedited, "expedited"),
            (self.has_ttl, "with a time to live"),
            (service.is_retried, "tried again"),
            (service.confirmation == Confirmation::Node, "confirmed by the node"),
            (service.confirmation == Confirmation::Client, "confirmed by the client"),
            (!self.delivered.is_empty(), "has arrived"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

/// A client of a node, and its connection.
#[derive(Debug)]
struct Seat {
    client: Client,
    id: Option<ClientId>,
    pending: BTreeMap<SendId, usize>,
    /// How often it was bound.
    bound: u64,
}

/// A node with its radio and its clients.
struct Station {
    node: Node,
    config: Config,
    radio: Radio,
    seats: Vec<Seat>,
    rogue: Option<ClientId>,
    /// Until when the modem is off.
    on_at: Option<Time>,
    /// When the next probes are sent.
    probe_at: Option<Time>,
    rng: Rng,
}

/// All stations and U_PDUs.
pub struct Stations {
    stations: Vec<Station>,
    known: Vec<Known>,
    waveform: Waveform,
    attacker: Attacker,
    sealing: Option<Key>,
    errors: f64,
    has_limits: bool,
    /// Octets that wait at a node while its users go on.
    backlog: usize,
    /// Whether a stranger has transmitted.
    is_attacked: bool,
    is_calm: bool,
    /// The last U_PDU between two clients of those in order, by priority.
    last: BTreeMap<(Place, Place, u8), usize>,
    /// U_PDUs confirmed by nodes but not delivered yet.
    owed: BTreeSet<usize>,
    /// Pairs of clients without a probe that has arrived.
    unproven: BTreeSet<(Place, Place)>,
    probes: BTreeMap<usize, (Place, Place)>,
    overheard: VecDeque<Vec<u8>>,
    /// The U_PDUs that a stranger knows.
    letters: VecDeque<Letter>,
    /// Octets of the transmission under way, of each station.
    on_air: BTreeMap<usize, Vec<u8>>,
    requests: VecDeque<u8>,
}

impl Stations {
    pub fn new(course: &Course) -> Self {
        let mut rng = Rng::stream(course.seed, "storm s5066");
        let rng = &mut rng;
        let usual = |waveform: &Waveform| {
            let block = Duration::from_millis(100)..Duration::from_secs(3);
            waveform.bits_per_s() >= 600 && block.contains(&waveform.block_time())
        };
        let waveforms: Vec<_> = Waveform::all(Family::Stanag4539).filter(usual).collect();
        let waveform = waveforms[choice(rng, waveforms.len())];
        let attacker = [Attacker::Nobody, Attacker::Nobody, Attacker::Rogue, Attacker::Stranger];
        let attacker = attacker[choice(rng, attacker.len())];
        let is_sealed = rng.chance(if attacker == Attacker::Stranger { 0.7 } else { 0.1 });
        let mut config = Config::new(address(0), waveform);
        draw(&mut config, course, rng);
        // A rogue takes no access point from others.
        config.sis.preempts = attacker != Attacker::Rogue;
        config.sis.epoch = CLOCK;
        let is_slotted = rng.chance(0.3);
        let is_pair = course.nodes == 2 && rng.chance(0.5);
        let slowest = if config.rate == Rate::Adaptive { SLOWEST } else { waveform.bits_per_s() };
        let backlog = u64::from(slowest) / 8 * BACKLOG.as_secs();
        let errors = if rng.chance(0.5) { log(rng, 0.001..0.5) } else { 0.0 };
        let key = Key::new(&[7; 32]);
        let mut these = Self {
            stations: Vec::new(),
            known: Vec::new(),
            waveform,
            attacker,
            sealing: is_sealed.then_some(key),
            errors,
            has_limits: course.has_limits,
            backlog: usize::try_from(backlog).expect("some megabytes"),
            is_attacked: false,
            is_calm: false,
            last: BTreeMap::new(),
            owed: BTreeSet::new(),
            unproven: BTreeSet::new(),
            probes: BTreeMap::new(),
            overheard: VecDeque::new(),
            letters: VecDeque::new(),
            on_air: BTreeMap::new(),
            requests: VecDeque::new(),
        };
        for at in 0..course.nodes {
            let [position, stations] =
                [at, course.nodes].map(|count| u8::try_from(count).expect("a few nodes"));
            let access = match (is_pair, is_slotted) {
                (true, _) => Access::PointToPoint,
                (false, true) => Access::Slotted { position, stations },
                (false, false) => Access::Jitter { limit: JITTER },
            };
            let config = Config { address: address(at), access, ..config.clone() };
            let node = Node::new(
                start(),
                config.clone(),
                Rng::stream(course.seed, &format!("s5066 {at}")),
            );
            let seats = (0..CLIENTS).map(|seat| these.seat((at, seat))).collect();
            these.stations.push(Station {
                node,
                config,
                radio: Radio::new(),
                seats,
                rogue: None,
                on_at: None,
                probe_at: None,
                rng: Rng::stream(course.seed, &format!("s5066 faults {at}")),
            });
            for seat in 0..CLIENTS {
                these.connect(start(), (at, seat));
            }
        }
        these
    }

    fn seat(&self, (node, seat): Place) -> Seat {
        let mut config = client::Config::new(sap(seat));
        config.drops_if_lost = seat == 0;
        if let Some(key) = &self.sealing {
            config.sealing = Sealing::Member(seal::Config {
                key: key.clone(),
                own: address(node),
                unauthenticated: BTreeSet::new(),
                clock: CLOCK,
            });
        }
        Seat { client: Client::new(config), id: None, pending: BTreeMap::new(), bound: 0 }
    }

    fn connect(&mut self, now: Time, (node, seat): Place) {
        let Station { node, seats, .. } = &mut self.stations[node];
        let seat = &mut seats[seat];
        if seat.id.is_none() {
            seat.id = node.handle_connected(now);
            if seat.id.is_some() {
                seat.client.handle_connected(now);
            }
        }
    }

    fn disconnect(&mut self, now: Time, place: Place) {
        let Station { node, seats, .. } = &mut self.stations[place.0];
        let seat = &mut seats[place.1];
        if let Some(id) = seat.id.take() {
            node.handle_disconnected(now, id);
            seat.client.handle_disconnected();
        }
        self.leave(place);
    }

    /// A client is no longer bound: nobody tells it outcomes, and U_PDUs that its node confirmed may be lost.
    fn leave(&mut self, place: Place) {
        let seat = &mut self.stations[place.0].seats[place.1];
        seat.pending.clear();
        seat.bound += 1;
        let known = &self.known;
        self.owed.retain(|number| known[*number].to != place);
    }

    fn submit(&mut self, now: Time, known: Known) -> Option<usize> {
        let number = self.known.len();
        let Known { from, to, is_to_group, octets, .. } = known;
        let bound = self.bound(to);
        let seat = &mut self.stations[from.0].seats[from.1];
        let send = Send {
            to: if is_to_group { Address::group(GROUP) } else { address(to.0) },
            to_sap: sap(to.1),
            priority: known.priority,
            is_expedited: known.is_expedited,
            service: Some(known.service),
            ttl: if known.has_ttl {
                Duration::from_secs(10 + u64::from(known.priority) * 30)
            } else {
                Duration::ZERO
            },
            u_pdu: &data(number, octets),
        };
        let id = seat.client.send(now, send).ok()?;
        if known.service.confirmation != Confirmation::None {
            seat.pending.insert(id, number);
        }
        self.known.push(Known { bound, ..known });
        Some(number)
    }

    /// How often a client was bound, if its node knows it now.
    fn bound(&self, (node, seat): Place) -> Option<u64> {
        let station = &self.stations[node];
        let its = &station.seats[seat];
        let mut bound = station.node.sis().bound();
        let is_bound = bound.any(|(at, id)| at == sap(seat) && Some(id) == its.id);
        is_bound.then_some(its.bound)
    }

    /// Whether what nodes say of a U_PDU is true: neither a stranger nor a seal stands between node and client.
    fn is_trusted(&self) -> bool {
        !self.is_attacked && self.sealing.is_none()
    }

    /// Moves octets between a node and its clients; whether there was anything.
    fn exchange(&mut self, now: Time, at: usize) -> Result<bool, String> {
        let mut is_any = false;
        let Self { stations, requests, letters, attacker, .. } = self;
        let Station { node, seats, .. } = &mut stations[at];
        let mut octets = Vec::new();
        for (of, seat) in seats.iter_mut().enumerate() {
            seat.client.handle_clock(now, clock(now));
            let Some(id) = seat.id else { continue };
            octets.clear();
            while node.wants_octets(id) && seat.client.poll_octets(now, &mut octets) {}
            if !octets.is_empty() {
                is_any = true;
                node.handle_octets(now, id, &octets);
                requests.extend(&octets);
                requests.drain(..requests.len().saturating_sub(REQUESTS));
                if *attacker == Attacker::Stranger {
                    overhear(letters, (at, of), &octets);
                }
            }
        }
        while let Some(event) = self.stations[at].node.poll_event() {
            is_any = true;
            let Station { node, seats, rogue, .. } = &mut self.stations[at];
            match event {
                NodeEvent::Readable(id) => {
                    octets.clear();
                    while node.poll_octets(now, id, &mut octets) {}
                    if let Some(seat) = seats.iter_mut().find(|seat| seat.id == Some(id)) {
                        seat.client.handle_octets(now, &octets);
                    }
                }
                NodeEvent::Close(id) => {
                    if let Some(seat) = seats.iter().position(|seat| seat.id == Some(id)) {
                        self.disconnect(now, (at, seat));
                        self.connect(now, (at, seat));
                    } else if rogue.take_if(|rogue| *rogue == id).is_some() {
                        node.handle_disconnected(now, id);
                    }
                }
                NodeEvent::Management { .. } => {}
            }
        }
        for seat in 0..CLIENTS {
            while let Some(event) = self.stations[at].seats[seat].client.poll_event() {
                is_any = true;
                self.judge(now, (at, seat), event)?;
            }
        }
        Ok(is_any)
    }

    /// Judges what a client is told.
    fn judge(&mut self, now: Time, place: Place, event: Event) -> Kept {
        let (node, seat) = place;
        let is_trusted = self.is_trusted();
        let its = &mut self.stations[node].seats[seat];
        match event {
            Event::Close(_) => {
                self.disconnect(now, place);
                self.connect(now, place);
            }
            Event::Confirmed(id) => {
                let Some(number) = its.pending.remove(&id) else {
                    return Err(format!("outcome: client {seat} of node {node} is told one twice"));
                };
                let known = &self.known[number];
                if !known.delivered.is_empty() || !is_trusted {
                    return Ok(());
                }
                if known.service.confirmation == Confirmation::Client {
                    return Err(format!(
                        "untrue: U_PDU {number} is confirmed and has not arrived: {known}"
                    ));
                }
                let is_bound = known.bound.is_some() && self.bound(known.to) == known.bound;
                if is_bound && !known.has_ttl {
                    self.owed.insert(number);
                }
            }
            Event::Received(received) => return self.judge_received(place, &received),
            Event::Rejected { id: Some(id), reason, .. } => {
                let Some(number) = its.pending.remove(&id) else {
                    return Err(format!("outcome: client {seat} of node {node} is told one twice"));
                };
                let known = &mut self.known[number];
                known.is_refused = reason != UnidataReason::MAY_HAVE_ARRIVED;
                if known.is_refused && !known.delivered.is_empty() && !self.is_attacked {
                    return Err(format!(
                        "untrue: U_PDU {number} is rejected ({reason}) and has arrived: {known}"
                    ));
                }
            }
            Event::Unbound(_) => {
                self.leave(place);
                self.stations[node].seats[seat].client.rebind(now);
            }
            Event::Availability { .. }
            | Event::Bound { .. }
            | Event::FlowOff
            | Event::FlowOn
            | Event::Management { .. }
            | Event::Peer(_)
            | Event::Refused(_)
            | Event::Rejected { id: None, .. }
            | Event::Sealing { .. } => {}
            Event::HardLink(event) => {
                if let client::HardLinkEvent::Indicated(link) = event {
                    its.client.answer(link, None);
                }
            }
        }
        Ok(())
    }

    fn judge_received(&mut self, place: Place, received: &Received) -> Kept {
        let (node, seat) = place;
        let Received { u_pdu, arrival, .. } = received;
        let damaged: &[Block] = match arrival {
            Arrival::NonArqWithErrors { errored, missing } => {
                &[&errored[..], &missing[..]].concat()
            }
            Arrival::Arq | Arrival::NonArq | Arrival::Unspecified => &[],
        };
        if damaged.iter().any(|block| block.offset < 8) {
            return Ok(());
        }
        let number = u_pdu.first_chunk().map(|octets| u64::from_be_bytes(*octets));
        let number = number.and_then(|number| usize::try_from(number).ok());
        if let Some(pair) = number.and_then(|number| self.probes.get(&number)) {
            self.unproven.remove(pair);
        }
        let is_genuine = !self.is_attacked || self.sealing.is_some();
        if received.from_sap == ROGUE || !is_genuine {
            return Ok(());
        }
        let known = number.and_then(|number| self.known.get_mut(number));
        let Some((known, number)) = known.zip(number) else {
            return Err(format!("corrupt: client {seat} of node {node} gets what nobody sent"));
        };
        let is_its = known.to.1 == seat && (known.is_to_group || known.to.0 == node);
        let is_from =
            (received.from, received.from_sap) == (address(known.from.0), sap(known.from.1));
        if !is_its || !is_from {
            return Err(format!(
                "astray: client {seat} of node {node} gets U_PDU {number} from {} of {}: {known}",
                received.from_sap, received.from
            ));
        }
        let is_good = |at: usize| {
            !damaged.iter().any(|block| {
                (usize::from(block.offset)..usize::from(block.offset + block.len)).contains(&at)
            })
        };
        let sent = data(number, known.octets);
        let mut pairs = sent.iter().zip(u_pdu).enumerate();
        if sent.len() != u_pdu.len() || pairs.any(|(at, (sent, got))| sent != got && is_good(at)) {
            return Err(format!("corrupt: U_PDU {number} arrives changed: {known}"));
        }
        if !known.delivered.insert(node) {
            return Err(format!("twice: U_PDU {number} is delivered twice: {known}"));
        }
        if known.is_refused && !self.is_attacked {
            return Err(format!("untrue: U_PDU {number} is rejected and then arrives: {known}"));
        }
        // Seals keep no order: a stranger may bring late what others have not heard.
        if !self.is_attacked
            && !known.is_expedited
            && known.service.mode == (Mode::Arq { in_order: true })
        {
            let key = (known.from, place, known.priority);
            let last = self.last.insert(key, number);
            if let Some(last) = last.filter(|last| *last > number) {
                return Err(format!(
                    "order: U_PDU {number} arrives after {last}: {}",
                    self.known[number]
                ));
            }
        }
        self.owed.remove(&number);
        Ok(())
    }

    /// The rogue client of a node says something.
    fn misbehave(&mut self, now: Time, at: usize) {
        let Self { stations, requests, .. } = self;
        let Station { node, rogue, rng, .. } = &mut stations[at];
        let Some(id) = rogue.or_else(|| node.handle_connected(now)) else { return };
        *rogue = Some(id);
        let mut octets = Vec::new();
        if rng.chance(0.5) {
            let service = Service::ARQ.into();
            Primitive::BindRequest { sap: ROGUE, rank: 0, service }.emit(&mut octets);
        }
        // In the absence of an honest client the rogue could take its access point, and would then be that client.
        let is_bound = |sap_of: Sap| node.sis().bound().any(|(sap, _)| sap == sap_of);
        let said: Vec<u8> = match (0..CLIENTS).all(|seat| is_bound(sap(seat))) {
            true => requests.iter().copied().collect(),
            false => Vec::new(),
        };
        match choice(rng, 4) {
            0 => octets.extend((0..choice(rng, 200)).map(|_| rng.bits().to_le_bytes()[0])),
            1 => octets.extend(&said),
            2 => {
                let from = choice(rng, said.len());
                octets.extend(&said[from..]);
            }
            _ => {
                octets.extend(&said);
                for _ in 0..choice(rng, 8) {
                    let which = choice(rng, octets.len());
                    if let Some(octet) = octets.get_mut(which) {
                        *octet = rng.bits().to_le_bytes()[0];
                    }
                }
            }
        }
        node.handle_octets(now, id, &octets);
        if rng.chance(0.3) {
            node.handle_disconnected(now, id);
            *rogue = None;
        }
    }

    /// In some cases, a transmission of a stranger's node in the name of another node: a U_PDU sent before, to its
    /// receiver or to others, or a changed one.
    fn counterfeit(&mut self, now: Time, to: usize) -> Option<Vec<u8>> {
        let rng = &mut self.stations[to].rng;
        let about: Vec<_> = self.letters.iter().filter(|letter| letter.from.0 != to).collect();
        let mut letter = (*about.get(choice(rng, about.len()))?).clone();
        match choice(rng, 4) {
            0 => return None,
            1 => {}
            2 => {
                letter.to = address(to);
                letter.to_sap = sap(choice(rng, CLIENTS));
            }
            _ => {
                let which = choice(rng, letter.u_pdu.len());
                *letter.u_pdu.get_mut(which)? ^= 1 << choice(rng, 8);
            }
        }
        let rng = rng.clone();
        let Letter { from, to, to_sap, u_pdu } = &letter;
        let config = Config {
            address: address(from.0),
            access: Access::PointToPoint,
            ..self.stations[from.0].config.clone()
        };
        let mut node = Node::new(now, config, rng);
        let id = node.handle_connected(now)?;
        let delivery = Service::NON_ARQ.into();
        let mut octets = Vec::new();
        Primitive::BindRequest { sap: sap(from.1), rank: 0, service: delivery }.emit(&mut octets);
        let request = UnidataRequest {
            priority: 0,
            to_sap: *to_sap,
            to: *to,
            delivery,
            ttl: 0,
            u_pdu: &u_pdu[..],
        };
        Primitive::UnidataRequest(request).emit(&mut octets);
        node.handle_octets(now, id, &octets);
        let (mut now, mut said) = (now, Vec::new());
        for _ in 0..CALLS {
            match node.poll_transmit(now, ROOM, &mut said) {
                Some(Keying::End) => return Some(said),
                Some(Keying::Octets | Keying::Start(_)) => {}
                None => {
                    now = node.next_timeout()?;
                    node.handle_timeout(now);
                }
            }
        }
        None
    }

    fn probe(&mut self, now: Time, at: usize) {
        for seat in 0..CLIENTS {
            self.connect(now, (at, seat));
            self.stations[at].seats[seat].client.rebind(now);
        }
        let due: Vec<_> = self.unproven.iter().filter(|(from, _)| from.0 == at).copied().collect();
        if due.is_empty() {
            self.stations[at].probe_at = None;
            return;
        }
        for (from, to) in due {
            let service = Service { confirmation: Confirmation::Client, ..Service::ARQ };
            let known = Known { octets: PROBE, service, ..plain(from, to) };
            if let Some(number) = self.submit(now, known) {
                self.probes.insert(number, (from, to));
            }
        }
        self.stations[at].probe_at = Some(now + PROBE_EVERY);
    }

    fn send(&mut self, now: Time, place: Place, rng: &mut Rng) {
        let (node, seat) = place;
        let to = (node + 1 + choice(rng, self.stations.len() - 1)) % self.stations.len();
        let to_seat = if rng.chance(0.8) { seat } else { choice(rng, CLIENTS) };
        let in_order = rng.chance(0.7);
        let confirmation = [Confirmation::None, Confirmation::Node, Confirmation::Client];
        let is_arq = rng.chance(0.8);
        let has_ttl = rng.chance(0.2);
        let service = if is_arq {
            let confirmation = confirmation[choice(rng, confirmation.len())];
            let is_retried = rng.chance(0.3);
            Service { mode: Mode::Arq { in_order }, confirmation, is_retried, takes_errors: false }
        } else {
            let repeats = choice(rng, 4).to_le_bytes()[0];
            let takes_errors = rng.chance(0.5);
            Service { takes_errors, ..Service::of(Mode::NonArq { in_order, repeats }) }
        };
        let priority = if rng.chance(0.5) { 0 } else { choice(rng, 16).to_le_bytes()[0] };
        let is_to_group = !is_arq && rng.chance(0.5);
        let is_expedited = rng.chance(0.1);
        for _ in 0..log_count(rng, 1..8) {
            if self.stations[node].node.queues().iter().sum::<usize>() >= self.backlog {
                return;
            }
            let octets = log_count(rng, SIZES);
            let known = Known {
                is_to_group,
                octets,
                service,
                priority,
                is_expedited,
                has_ttl,
                ..plain(place, (to, to_seat))
            };
            self.submit(now, known);
        }
    }
}

impl Cores for Stations {
    const CALM: Duration = Duration::from_secs(24 * 3_600);
    const IS_OPEN: bool = true;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        let place = (node, choice(rng, CLIENTS));
        let other = (node + 1 + choice(rng, self.stations.len() - 1)) % self.stations.len();
        let kind = [LinkKind::Shared, LinkKind::Reserved, LinkKind::Exclusive][choice(rng, 3)];
        let action = choice(rng, 40);
        self.connect(now, place);
        let Station { node: core, radio, seats, on_at, .. } = &mut self.stations[node];
        let seat = &mut seats[place.1];
        match action {
            0..29 => self.send(now, place, rng),
            29..31 => {
                let which = choice(rng, seat.pending.len());
                if let Some((&id, _)) = seat.pending.iter().nth(which) {
                    seat.client.take_back(id);
                }
            }
            31 => {
                seat.client.unbind();
                self.leave(place);
            }
            32 => seat.client.rebind(now),
            33 => self.disconnect(now, place),
            34 => {
                seat.client.ask_about(address(other));
            }
            35..37 => seat.client.establish(HardLink {
                kind,
                priority: choice(rng, 4).to_le_bytes()[0],
                remote_sap: sap(place.1),
                remote: address(other),
            }),
            37..39 => seat.client.terminate(address(other)),
            _ => {
                radio.switch(now, false, core);
                *on_at = Some(now + Duration::from_secs_f64(log(rng, 1.0..600.0)));
            }
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept {
        let errors = if self.is_calm { 0.0 } else { self.errors };
        let Station { node, radio, rng, .. } = &mut self.stations[node];
        radio.arrive(now, from, octets, (rng, errors), node);
        Ok(())
    }

    /// A stranger transmits old or changed octets, or a rogue client says something to its node.
    fn forge(&mut self, now: Time, node: usize, octets: &[u8]) {
        match self.attacker {
            Attacker::Nobody => {}
            Attacker::Rogue => self.misbehave(now, node),
            Attacker::Stranger => {
                self.is_attacked = true;
                let counterfeit = self.counterfeit(now, node);
                let Station { node, radio, rng, .. } = &mut self.stations[node];
                let which = choice(rng, self.overheard.len());
                let old = self.overheard.get(which).filter(|_| rng.chance(0.7));
                let heard = counterfeit.as_deref().or(old.map(|old| &old[..]));
                radio.hear(now, self.waveform, heard.unwrap_or(octets), node);
            }
        }
    }

    fn replay(&mut self, now: Time, node: usize, _from: usize, octets: &[u8]) -> Kept {
        self.forge(now, node, octets);
        Ok(())
    }

    fn restart(&mut self, now: Time, node: usize, mut rng: Rng) -> Kept {
        let is_node = rng.chance(0.6);
        for seat in 0..CLIENTS {
            if is_node || rng.chance(0.5) {
                self.disconnect(now, (node, seat));
            }
            if !is_node || rng.chance(0.2) {
                let client = self.seat((node, seat)).client;
                if self.stations[node].seats[seat].id.is_none() {
                    self.stations[node].seats[seat].client = client;
                    // Seals of the last minutes before its start count as new.
                    if self.sealing.is_some() && self.attacker == Attacker::Stranger {
                        for known in self.known.iter_mut().filter(|known| known.to.1 == seat) {
                            known.delivered.remove(&node);
                        }
                    }
                }
            }
        }
        let has_limits = self.has_limits;
        let is_call = |it: node::Station| it.address == address(node) && it.link == Link::Calling;
        let calls = |from: &usize| self.stations[*from].node.stations().any(is_call);
        let calling: Vec<usize> = (0..self.stations.len()).filter(calls).collect();
        let station = &mut self.stations[node];
        if is_node {
            if has_limits && rng.chance(0.3) {
                station.config.sis.mtu = mtu(&mut rng);
            }
            station.radio.break_off();
            station.node = Node::new(now, station.config.clone(), rng.clone());
            station.rogue = None;
            // A node that has forgotten everything takes the next copy for a new one: always without ARQ, and with ARQ
            // where the call was not answered with which the U_PDU went along.
            for known in self.known.iter_mut() {
                if !known.service.mode.is_arq() || calling.contains(&known.from.0) {
                    known.delivered.remove(&node);
                }
            }
            self.last.retain(|(from, to, _), _| to.0 != node || !calling.contains(&from.0));
            if !station.radio.is_on() {
                station.node.handle_modem_available(now, false);
            }
        }
        for seat in 0..CLIENTS {
            if rng.chance(0.8) {
                self.connect(now, (node, seat));
            }
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        let at = node;
        let Station { node, radio, on_at, probe_at, .. } = &mut self.stations[at];
        if on_at.take_if(|at| *at <= now).is_some() {
            radio.switch(now, true, node);
        }
        if probe_at.is_some_and(|at| at <= now) {
            self.probe(now, at);
        }
        let Station { node, radio, seats, .. } = &mut self.stations[at];
        radio.handle_timeout(now, node);
        node.handle_timeout(now);
        for seat in seats {
            seat.client.handle_timeout(now);
        }
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        let Station { node, radio, seats, on_at, probe_at, .. } = &self.stations[node];
        let clients = seats.iter().filter_map(|seat| seat.client.next_timeout()).min();
        let own = earliest(*on_at, *probe_at);
        earliest(earliest(own, clients), earliest(node.next_timeout(), radio.next_timeout()))
    }

    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String> {
        self.exchange(now, node)
    }

    fn poll_transmit(&mut self, now: Time, at: usize, out: &mut Vec<u8>) -> Option<Sent> {
        let Station { node, radio, .. } = &mut self.stations[at];
        let signal = radio.poll_transmit(now, node)?;
        if radio::is_start(&signal) {
            let said = self.on_air.insert(at, Vec::new());
            self.overheard.extend(said.filter(|said| !said.is_empty()));
            self.overheard.drain(..self.overheard.len().saturating_sub(OVERHEARD));
        }
        if let Some(said) = self.on_air.get_mut(&at) {
            said.extend(radio::block(&signal).into_iter().flatten());
        }
        out.extend(signal);
        Some(Sent { to: To::Everyone, tag: 0 })
    }

    fn check(&self, node: usize) -> Kept {
        let Station { node: core, config, .. } = &self.stations[node];
        let (sis, limits) = (core.sis(), &config.sis.limits);
        let clients = CLIENTS + 1;
        let most = Backlog {
            octets: (config.sis.flow.flood.octets + 4_096) * clients,
            u_pdus: (config.sis.flow.flood.u_pdus + 1) * clients,
        };
        let unread = (limits.max_unread + 8_192) * clients;
        for (is_kept, what) in [
            (!sis.backlog().exceeds(most), "U_PDUs of its clients"),
            (sis.buffered() <= unread, "octets for its clients"),
            (sis.undecided() <= limits.max_undecided * clients, "undecided U_PDUs"),
            (core.stations().count() <= config.peers, "stations"),
            (core.links().count() <= config.links, "links"),
        ] {
            if !is_kept {
                return Err(format!(
                    "bound: node {node} has too many {what}: {}",
                    words::counted(core.stats())
                ));
            }
        }
        Ok(())
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        self.is_calm = true;
        let all = 0..self.stations.len();
        for to in all.filter(|to| *to != node) {
            self.unproven.extend((0..CLIENTS).map(|seat| ((node, seat), (to, seat))));
        }
        let station = &mut self.stations[node];
        if let Some(rogue) = station.rogue.take() {
            station.node.handle_disconnected(now, rogue);
        }
        if station.on_at.take().is_some() {
            station.radio.switch(now, true, &mut station.node);
        }
        for to in 0..self.stations.len() {
            for seat in 0..CLIENTS {
                self.stations[node].seats[seat].client.terminate(address(to));
            }
        }
        self.probe(now, node);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.unproven.is_empty() && self.stuck().is_none()
    }

    fn conclude(&self) -> Kept {
        if let Some((from, to)) = self.unproven.first() {
            return Err(format!(
                "mute: nothing gets from client {} of node {} to that of node {} in the calm",
                from.1, from.0, to.0
            ));
        }
        if let Some(number) = self.owed.first() {
            return Err(format!(
                "untrue: U_PDU {number} was confirmed and has not arrived: {}",
                self.known[*number]
            ));
        }
        self.stuck().map_or(Ok(()), Err)
    }
}

impl Stations {
    /// What has no outcome yet.
    fn stuck(&self) -> Option<String> {
        self.stations.iter().enumerate().find_map(|(at, station)| {
            let pending = station.seats.iter().find_map(|seat| seat.pending.first_key_value());
            if let Some((_, number)) = pending {
                let known = &self.known[*number];
                return Some(format!("stuck: U_PDU {number} has no outcome: {known}"));
            }
            let s_pdus = &station.node.stats().s_pdus;
            let open = s_pdus.accepted.count - s_pdus.done - s_pdus.failed;
            let waiting = station.node.queues().iter().sum::<usize>();
            (open > 0 || waiting > 0).then(|| {
                format!(
                    "stuck: node {at} has {open} S_PDUs without an outcome, and {waiting} octets wait"
                )
            })
        })
    }
}

/// Draws the limits and choices of all nodes.
fn draw(config: &mut Config, course: &Course, rng: &mut Rng) {
    if rng.chance(0.3) {
        config.rate = Rate::Adaptive;
    }
    if rng.chance(0.3) {
        config.extensions = Extensions::NONE;
    }
    config.sis.confirm.compact = rng.chance(0.2);
    if rng.chance(0.4) {
        config.longest = Duration::from_secs_f64(log(rng, 3.0..127.0));
        config.longest_beside_urgent = config.longest_beside_urgent.min(config.longest);
    }
    let sis = &mut config.sis;
    let u_pdus = course.limit(rng, 12, sis.flow.flood.u_pdus);
    if u_pdus < sis.flow.flood.u_pdus {
        sis.flow.flood.u_pdus = u_pdus;
        sis.flow.off.u_pdus = u_pdus / 2;
        sis.flow.on.u_pdus = u_pdus / 4;
    }
    sis.limits.max_undecided = course.limit(rng, 2, sis.limits.max_undecided);
    sis.limits.max_expedited = course.limit(rng, 2, sis.limits.max_expedited);
    let window = course.limit(rng, 2, 128);
    config.short_window = u32::try_from(window).expect("small");
    let long = course.limit(rng, 4, 32_768);
    config.long_window = u32::try_from(long).expect("small");
    // Fewer stations than there are could never all be reached at once.
    config.peers = course.limit(rng, 3, config.peers);
    config.links = course.limit(rng, 3, config.links);
    let silences = course.limit(rng, 2, 8);
    config.silences = u32::try_from(silences).expect("small");
    if course.has_limits && rng.chance(0.3) {
        config.sis.mtu = mtu(rng);
    }
    if course.has_limits && rng.chance(0.2) {
        config.sis.max_ttl = Some(Duration::from_secs_f64(log(rng, 600.0..7_200.0)));
    }
}

fn mtu(rng: &mut Rng) -> u16 {
    u16::try_from(log_count(rng, 200..4_097)).expect("at most 4,096")
}

/// A U_PDU with ARQ, in order, without anything special.
fn plain(from: Place, to: Place) -> Known {
    Known {
        from,
        to,
        is_to_group: false,
        octets: 0,
        service: Service::ARQ,
        priority: 0,
        is_expedited: false,
        has_ttl: false,
        bound: None,
        is_refused: false,
        delivered: BTreeSet::new(),
    }
}

/// A stranger remembers the U_PDUs in octets of a client for its node.
fn overhear(letters: &mut VecDeque<Letter>, from: Place, octets: &[u8]) {
    let mut stream = Stream::default();
    stream.push(octets);
    while let Ok(Some(fields)) = stream.take() {
        let Ok(Primitive::UnidataRequest(request) | Primitive::ExpeditedUnidataRequest(request)) =
            Primitive::parse(fields)
        else {
            continue;
        };
        let UnidataRequest { to, to_sap, u_pdu, .. } = request;
        letters.push_back(Letter { from, to, to_sap, u_pdu: u_pdu.to_vec() });
    }
    letters.drain(..letters.len().saturating_sub(OVERHEARD));
}

fn address(node: usize) -> Address {
    Address::node(0x0a_1401 + u32::try_from(node).expect("a few nodes"))
}

fn sap(seat: usize) -> Sap {
    Sap::new(u8::try_from(seat + 1).expect("a few clients"))
}

fn clock(now: Time) -> Duration {
    CLOCK + now.since(Time::ZERO)
}

/// The octets of a U_PDU: its number, then a pattern derived from number and length.
fn data(number: usize, octets: usize) -> Vec<u8> {
    let head = (number as u64).to_be_bytes();
    let rest = (8..octets).map(|at| (at * 7 + at / 251 + number * 31 + octets).to_le_bytes()[0]);
    head.into_iter().chain(rest).collect()
}
