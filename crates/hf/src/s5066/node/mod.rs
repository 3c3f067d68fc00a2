//! A node: clients above, a modem below, and everything of STANAG 5066 between.
//!
//! ```text
//!   handle_octets, poll_octets          clients, by TCP
//!  ─────────────────────────────
//!   sis::Server
//!     │ Request   ▲ Indication, Outcome
//!   waiting, by priority                 one queue for each peer, one for datagrams
//!     │           │
//!   Peer: link, arq, expedited, …        receive: frames in      transmit: frames out
//!  ─────────────────────────────
//!   handle_modem, poll_transmit          one modem
//! ```
//!
//! Frames are built when the modem requests them, so the choice of the next frame is made late. The
//! length of a transmission is chosen when it starts, because every frame announces its end.

mod config;
mod introduction;
mod links;
mod receive;
mod record;
pub mod stats;
#[cfg(test)]
pub(crate) mod tests;
mod transmit;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use receive::Reception;
use record::Records;
use transmit::Turn;
use waiting::Waiting;

use super::Address;
use super::cas::cpdu::Cpdu;
use super::cas::{self, Floor, PhysicalLink};
use super::dts::management::{self, Message, Sent};
use super::dts::policy::{self, Quality};
use super::dts::scan::Scanner;
use super::dts::wire::{Body, DATAGRAM_IDS, Eow, Numbers, RateRequest, Reason, Response};
use super::dts::{arq, datagram, expedited, reset};
use super::service::{Failure, MAX_PRIORITY, Mode, Outcome, PRIORITIES, Request, RequestId};
use super::sis::stream::Unreadable;
use super::sis::{self, ClientId, NodeStatus, Sap, UnavailableReason};
use crate::modem::{self, Waveform};

pub use config::{Config, Extensions, JITTER, PARAMETERS, Rate, SLOT};
pub use record::{FrameKind, Record};
pub use sis::server::Event;
pub use stats::{ByKind, Stats, Tally};

/// A STANAG 5066 node: clients' connections above it, one half-duplex modem below.
///
/// Call it in this order: one `handle_*`; [`Node::poll_event`] until `None`, and [`Node::poll_octets`] of
/// each client that is readable; [`Node::poll_transmit`] while the modem takes something; then wait, at
/// most until [`Node::next_timeout`].
///
/// - facts of clients: `handle_connected`, `handle_octets`, `handle_disconnected`;
/// - facts of the modem: `handle_modem`, `handle_modem_available`;
/// - time: `handle_timeout`, `next_timeout`;
/// - decisions: `poll_transmit`, `poll_octets`, `poll_event`, `poll_unclaimed`, `poll_unreadable`,
///   `poll_record` once `record` was called;
/// - getters: the rest.
pub struct Node {
    config: Config,
    waveform: Waveform,
    started: Time,
    sis: sis::Server,
    floor: Floor,
    peers: BTreeMap<Address, Peer>,
    /// Requests without acknowledgement, to all destinations.
    datagrams: Waiting,
    outgoing: datagram::Sender,
    assembly: datagram::Receiver,
    scanner: Scanner,
    reception: Option<Reception>,
    turn: Option<Turn>,
    /// When the next transmission may start, if something must wait for that.
    start_at: Option<Time>,
    trial: Trial,
    /// The count of transmissions until now.
    turns: u64,
    /// The station that must answer the last transmission.
    asked: Option<Address>,
    /// The peer of the last exclusive link that this node called for.
    exclusive: Option<Address>,
    /// Warnings to be sent: the destination, the frame type that they are about, and the reason.
    warnings: VecDeque<(Address, u8, Reason)>,
    /// The number of the next C_PDU that is sent expedited and without acknowledgement.
    next_id: u16,
    records: Option<Records>,
    stats: Stats,
}

/// A modem that is silent for longer while it receives, or after the expected end of a transmission,
/// is assumed to have ended it. This is several times the longest block.
const LONGEST_MODEM_SILENCE: Duration = Duration::from_secs(60);
/// The most warnings that wait to be sent.
const MAX_WARNINGS: usize = 16;
/// The least capacity for waiting C_PDUs of each priority in octets, even if the radio is slow.
const LEAST_WAITING: usize = 64 << 10;

impl Node {
    /// A node that has heard nothing yet.
    #[must_use]
    pub fn new(now: Time, config: Config, mut rng: Rng) -> Self {
        let times = config.times(config.waveform);
        let floor =
            Floor::new(config.access, times, config.exchange, Rng::stream(rng.bits(), "floor"));
        let next_id = below(&mut rng, DATAGRAM_IDS);
        Self {
            waveform: config.waveform,
            started: now,
            sis: sis::Server::new(config.sis.clone(), config.address),
            floor,
            peers: BTreeMap::new(),
            datagrams: Waiting::default(),
            outgoing: datagram::Sender::new(next_id),
            assembly: datagram::Receiver::new(),
            scanner: Scanner::new(),
            reception: None,
            turn: None,
            start_at: None,
            trial: Trial::default(),
            turns: 0,
            asked: None,
            exclusive: None,
            warnings: VecDeque::new(),
            next_id,
            records: None,
            stats: Stats::default(),
            config,
        }
    }

    /// Takes a client's connection; `None` when there are too many.
    pub fn handle_connected(&mut self, now: Time) -> Option<ClientId> {
        self.sis.handle_connected(now)
    }

    /// Takes octets from a client.
    pub fn handle_octets(&mut self, now: Time, client: ClientId, octets: &[u8]) {
        self.sis.handle_octets(now, client, octets);
        self.settle(now);
    }

    /// Whether to take octets from a client now; otherwise leave the octets in its connection.
    #[must_use]
    pub fn wants_octets(&self, client: ClientId) -> bool {
        self.sis.wants_octets(client)
    }

    /// Takes the end of a client's connection.
    pub fn handle_disconnected(&mut self, now: Time, client: ClientId) {
        self.sis.handle_disconnected(now, client);
        self.settle(now);
    }

    /// Takes an event of the modem.
    pub fn handle_modem(&mut self, now: Time, event: modem::Event) {
        match event {
            modem::Event::CarrierDetected { waveform } => self.begin_reception(now, waveform, true),
            modem::Event::Received(octets) => self.receive(now, &octets),
            modem::Event::CarrierLost => self.end_reception(now),
            modem::Event::Sent => self.end_turn(now),
        }
        self.settle(now);
    }

    /// Takes whether there is a modem; initially there is one. Clients are told, and their data waits
    /// until there is one again.
    pub fn handle_modem_available(&mut self, now: Time, is_available: bool) {
        let status = if is_available { NodeStatus::ON } else { NodeStatus::OFF };
        self.sis.handle_availability(now, status, UnavailableReason::UNSPECIFIED);
        self.settle(now);
    }

    /// Acts on all deadlines up to `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.sis.handle_timeout(now);
        self.assembly.handle_timeout(now);
        for (address, peer) in &mut self.peers {
            if peer.contact.handle_timeout(now) {
                self.sis.handle_pause(*address, false);
            }
            // A hard link stays up while its clients want it.
            let is_hard = peer.link.is_exclusive() && self.sis.is_hard_linked(*address);
            if peer.has_data() || is_hard {
                peer.link.handle_use(now);
            }
            peer.link.handle_timeout(now);
        }
        if self.modem_due().is_some_and(|due| due <= now) {
            self.stats.modem_silences += 1;
            self.end_turn(now);
            self.end_reception(now);
        }
        let goes_first = self.asked.is_none_or(|asked| self.goes_before(asked));
        if self.floor.poll_silence(now, goes_first) {
            self.handle_silence(now);
        }
        self.expire(now);
        self.settle(now);
    }

    /// Appends a bounded number of octets for a client to `out`; false when there are none.
    pub fn poll_octets(&mut self, now: Time, client: ClientId, out: &mut Vec<u8>) -> bool {
        self.sis.poll_octets(now, client, out)
    }

    /// The next instruction for the driver of the clients' connections.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.sis.poll_event()
    }

    /// The sender and the access point of the last U_PDU since the previous call for which no client
    /// was bound.
    pub fn poll_unclaimed(&mut self) -> Option<(Address, Sap)> {
        self.sis.poll_unclaimed()
    }

    /// The client that last sent something unreadable, and the unreadable octets, since the previous call.
    pub fn poll_unreadable(&mut self) -> Option<(ClientId, Unreadable)> {
        self.sis.poll_unreadable()
    }

    /// Starts or stops recording what happens on the air.
    pub fn record(&mut self, is_on: bool) {
        self.records = is_on.then(Records::default);
    }

    /// The next record of what happened on the air.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.records.as_mut()?.pop()
    }

    /// When to call [`Node::handle_timeout`] and then [`Node::poll_transmit`] at the latest.
    ///
    /// After [`Node::handle_timeout`] it is later than that. Data that may already be transmitted has
    /// no deadline, so poll after each call, and when there is a modem again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let links = self.peers.values().filter_map(|peer| peer.link.next_timeout()).min();
        let peers = self.peers.values().filter_map(|peer| peer.next_timeout()).min();
        let hard = self.peers.iter().filter(|(address, _)| self.sis.is_hard_linked(**address));
        let probes = hard.filter_map(|(_, peer)| peer.probe_at(self.config.link.idle)).min();
        [
            self.start_at,
            links,
            peers,
            probes,
            self.datagrams.next_expiry(),
            self.outgoing.next_timeout(),
            self.assembly.next_timeout(),
            self.floor.next_timeout(),
            self.sis.next_timeout(),
            self.modem_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.config.address
    }

    /// The waveform the node transmits with now.
    #[must_use]
    pub fn waveform(&self) -> Waveform {
        self.waveform
    }

    /// The longest time until it has its turn: [`Config::turn_bound`] with its present waveform.
    #[must_use]
    pub fn turn_bound(&self) -> Duration {
        self.config.turn_bound()
    }

    /// The node's counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The clients' side of the node, with its counters.
    #[must_use]
    pub fn sis(&self) -> &sis::Server {
        &self.sis
    }

    /// The stations to which a link is established.
    pub fn links(&self) -> impl Iterator<Item = Address> {
        self.peers.iter().filter(|(_, peer)| peer.link.is_up()).map(|(address, _)| *address)
    }

    /// Carries commands, events and requests between the layers.
    fn settle(&mut self, now: Time) {
        self.settle_links(now);
        self.deliver(now);
        self.report(now);
        self.take_commands(now);
        self.settle_exclusive(now);
        self.probe(now);
        self.pull(now);
        self.start_at = self.next_start(now).filter(|&at| at > now);
    }

    /// Asks the other end of a hard link that has been quiet for long whether it is still there. Data asks as well.
    fn probe(&mut self, now: Time) {
        for (address, peer) in &mut self.peers {
            let is_hard = self.sis.is_hard_linked(*address);
            let is_due =
                is_hard && peer.probe_at(self.config.link.idle).is_some_and(|at| at <= now);
            if is_due {
                self.sis.probe_hard_link();
            }
            if is_due || peer.has_data() {
                peer.contact.asked_at = now;
            }
        }
    }

    /// The deadline for the modem to report the end of what it does.
    fn modem_due(&self) -> Option<Time> {
        let turn = self.turn.as_ref().map(Turn::end);
        let reception = self.reception.as_ref().map(Reception::last);
        turn.into_iter().chain(reception).min().map(|at| at + LONGEST_MODEM_SILENCE)
    }

    /// Fetches requests from the clients' side, the most urgent first: before a transmission a full load, and during
    /// one hardly any, so that later clients get a share of the next transmission. Less urgent requests take no room
    /// from more urgent ones.
    fn pull(&mut self, now: Time) {
        let room = match &self.turn {
            Some(turn) if !turn.may_grow() => LEAST_WAITING,
            Some(_) | None => {
                LEAST_WAITING.max(policy::octets_in(self.waveform, self.config.longest))
            }
        };
        for least in (0..=MAX_PRIORITY).rev() {
            while self.waiting_octets(least) < room
                && let Some(request) = self.sis.poll_request(now, least)
            {
                self.stats.s_pdus.accepted.add(request.s_pdu.len());
                self.take_request(now, request);
            }
        }
    }

    fn take_request(&mut self, now: Time, request: Request) {
        let (id, to) = (request.id, request.to);
        match request.mode {
            Mode::NonArq { .. } => self.datagrams.push(request),
            Mode::Arq { .. } => match self.peer_mut(to) {
                Some(peer) => {
                    peer.recent_urgent.sent.note(now, request.priority);
                    if request.is_expedited {
                        peer.recent_urgent.expedited.note(now, request.priority);
                    }
                    peer.waiting.push(request);
                }
                None => self.tell(now, id, Outcome::not_arrived(Failure::NoResponse)),
            },
        }
    }

    /// Waiting octets of at least this priority, without requests that pause before a retry.
    fn waiting_octets(&self, least: u8) -> usize {
        let peers = self.peers.values().filter(|peer| !peer.contact.is_pausing());
        let peers = peers.map(|peer| peer.waiting.octets(least));
        self.datagrams.octets(least) + peers.sum::<usize>()
    }

    /// Reports the outcome of a request to the clients' side.
    fn tell(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.stats.s_pdus.done += 1,
            Outcome::Failed { .. } => self.stats.s_pdus.failed += 1,
        }
        self.sis.handle_outcome(now, id, outcome);
    }

    /// Fails requests whose time to live has ended.
    fn expire(&mut self, now: Time) {
        let mut expired = self.datagrams.expire(now);
        self.outgoing.handle_timeout(now);
        for peer in self.peers.values_mut() {
            expired.extend(peer.waiting.expire(now));
            peer.sender.handle_timeout(now);
            peer.expedited.handle_timeout(now);
        }
        for request in expired {
            self.tell(now, request.id, Outcome::not_arrived(Failure::Expired));
        }
    }

    /// The station with this address; a new one may replace another.
    fn peer_mut(&mut self, address: Address) -> Option<&mut Peer> {
        if !self.peers.contains_key(&address) {
            if self.peers.len() >= self.config.peers {
                let idle = self.peers.iter().filter(|(_, peer)| peer.is_idle());
                let oldest =
                    idle.min_by_key(|(_, peer)| peer.contact.heard_at).map(|(address, _)| *address);
                let Some(oldest) = oldest else {
                    self.stats.links.too_many_peers += 1;
                    return None;
                };
                self.peers.remove(&oldest);
            }
            let [first_id, ..] = self.next_id.to_le_bytes();
            let peer = Peer::new(&self.config, self.numbers(), first_id);
            self.peers.insert(address, peer);
        }
        self.peers.get_mut(&address)
    }

    /// The length of sequence numbers of new links: short ones cannot fill a fast transmission.
    fn numbers(&self) -> Numbers {
        let frames = policy::octets_in(self.waveform, self.config.longest) / policy::MAX_SEGMENT;
        if self.config.extensions.long_numbers && frames > FEW_FRAMES {
            Numbers::Long
        } else {
            Numbers::Short
        }
    }

    fn take_id(&mut self) -> u16 {
        let id = self.next_id;
        self.next_id = (id + 1) % DATAGRAM_IDS;
        id
    }

    fn note(&mut self, record: impl FnOnce() -> Record) {
        if let Some(records) = &mut self.records {
            records.push(&mut self.stats, record());
        }
    }
}

/// The most frames of full length in a transmission for which a window of 128 is enough, even when
/// errors make frames shorter.
const FEW_FRAMES: usize = 24;

/// A random number below `limit`.
fn below(rng: &mut Rng, limit: u16) -> u16 {
    let [low, high, ..] = rng.bits().to_le_bytes();
    u16::from_le_bytes([low, high]) % limit
}

// The state that a node keeps for another station.

/// Another station.
#[derive(Debug)]
struct Peer {
    link: PhysicalLink,
    /// Requests of which no frame has carried anything yet.
    waiting: Waiting,
    sender: arq::Sender,
    receiver: arq::Receiver,
    expedited: expedited::Sender,
    expedited_in: expedited::Receiver,
    messages: management::Messages,
    resets: reset::Resets,
    quality: Quality,
    /// The extensions that it has announced and we have too.
    extensions: Extensions,
    /// Whether it has sent data that must be acknowledged.
    is_ack_due: bool,
    contact: Contact,
    /// Whether an exclusive link is wanted; the call is made once data under way is finished.
    wants_exclusive: bool,
    /// Whether no new data is begun, because an exclusive link to it or to another is wanted.
    is_finishing: bool,
    /// The waveform the peer requested from us, until the peer knows our acceptance.
    wanted_rate: Option<Waveform>,
    /// The number of our latest transmission with data for it.
    served: u64,
    recent_urgent: RecentUrgent,
    windows: [u32; 2],
    /// The first number of this link's resets, and the number of requests for a reset.
    reset_id: u8,
    tries: u32,
}

impl Peer {
    fn new(config: &Config, numbers: Numbers, first_id: u8) -> Self {
        let windows = [config.short_window, config.long_window];
        let window = window(windows, numbers);
        Self {
            link: PhysicalLink::new(cas::link::Config { idle: config.idle(), ..config.link }),
            waiting: Waiting::default(),
            sender: arq::Sender::new(numbers, window),
            receiver: arq::Receiver::new(numbers),
            expedited: expedited::Sender::new(),
            expedited_in: expedited::Receiver::new(),
            messages: management::Messages::new(config.silences),
            resets: reset::Resets::new(first_id, config.silences),
            quality: Quality::new(),
            extensions: Extensions::NONE,
            is_ack_due: false,
            contact: Contact::new(),
            wants_exclusive: false,
            is_finishing: false,
            wanted_rate: None,
            served: 0,
            recent_urgent: RecentUrgent::default(),
            windows,
            reset_id: first_id,
            tries: config.silences,
        }
    }

    /// Calls it; sequence numbers restart.
    fn call(&mut self, id: u16, is_exclusive: bool, numbers: Numbers) {
        // Long numbers are requested, but not used before the station has announced them.
        let is_readable = self.extensions.long_numbers || !self.extensions.pipelined;
        let numbers = if is_readable { numbers } else { Numbers::Short };
        // A station that was lost is called fewer times, to cost other stations little.
        let calls = self.contact.is_lost.then_some(CALLS_OF_LOST);
        self.link.call(id, is_exclusive, numbers == Numbers::Long, calls);
        self.start_anew(numbers);
        self.contact.silences = 0;
    }

    /// Restarts both windows.
    fn start_anew(&mut self, numbers: Numbers) {
        let window = window(self.windows, numbers);
        self.sender.restart(numbers, window);
        self.receiver.restart(numbers);
        self.expedited.fail(Failure::LinkLost);
        self.expedited_in = expedited::Receiver::new();
        self.reset_id = self.reset_id.wrapping_add(RESET_STEP);
        self.resets = reset::Resets::new(self.reset_id, self.tries);
        self.is_ack_due = false;
    }

    /// Restarts both windows during a link.
    fn reset(&mut self, numbers: Numbers) {
        if numbers == self.sender.numbers() {
            self.sender.reset();
            self.receiver.reset();
        } else {
            let window = window(self.windows, numbers);
            self.sender.restart(numbers, window);
            self.receiver.restart(numbers);
        }
    }

    /// Restarts our window with numbers that the peer can read.
    fn change_numbers(&mut self, numbers: Numbers) {
        if self.sender.numbers() != numbers {
            // It can read nothing that was sent since the call.
            self.sender.reset_since(0);
            self.start_anew(numbers);
        }
    }

    /// Hands the sender a request.
    fn push(&mut self, request: &Request) {
        let pushed = self.sender.push(c_pdu(request));
        // It gets the next one only when it has none, and each comes from a client's U_PDU.
        pushed.expect("a sender without a backlog takes an S_PDU");
    }

    /// Hands the expedited sender as many expedited requests as it takes.
    fn push_expedited(&mut self) {
        while self.begins_new()
            && !self.expedited.is_due()
            && !self.expedited.is_unanswered()
            && let Some(request) = self.waiting.pop_if(true)
        {
            let pushed = self.expedited.push(c_pdu(&request));
            pushed.expect("a sender with nothing to send takes an S_PDU");
        }
    }

    /// Hands the sender the next request if it has none, or if the request is more urgent than all
    /// that it has.
    fn push_waiting(&mut self) {
        while self.begins_new()
            && let Some(priority) = self.waiting.first_if(false).map(|it| it.priority)
            && (self.sender.backlog().unsent_c_pdus == 0 || priority > self.sender.urgency())
            && let Some(request) = self.waiting.pop_if(false)
        {
            self.push(&request);
        }
    }

    /// Fails all requests to it and returns them. With `may_retry`, requests that may be retried stay
    /// and pause for a while; the pause gets longer until the station is heard again.
    fn fail(&mut self, now: Time, failure: Failure, may_retry: bool) -> Vec<Request> {
        self.sender.fail(failure, may_retry);
        self.expedited.fail(failure);
        self.is_ack_due = false;
        let given_up = self.waiting.give_up(may_retry);
        if self.has_data() {
            self.contact.pause(now);
        }
        given_up
    }

    /// Whether data waits for the peer.
    fn has_data(&self) -> bool {
        !self.waiting.is_empty() || self.has_begun()
    }

    /// Whether C_PDUs are on their way.
    fn has_begun(&self) -> bool {
        let backlog = self.sender.backlog();
        backlog.unsent_c_pdus > 0
            || backlog.due > 0
            || backlog.unanswered > 0
            || self.expedited.is_due()
            || self.expedited.is_unanswered()
    }

    /// Whether something that it must answer can be sent now.
    fn wants_answer(&self) -> bool {
        self.is_urgent() || self.can_begin() && self.has_frames()
    }

    /// The highest priority among requests and retransmissions for it.
    fn urgency(&self) -> u8 {
        if self.is_called_exclusively() {
            return MAX_PRIORITY;
        }
        let waiting = self.waiting.first().map_or(0, |request| request.priority);
        waiting.max(self.sender.urgency())
    }

    /// The lowest priority among requests and data for the peer: the priority of data that fills transmissions.
    fn least_urgency(&self) -> u8 {
        let waiting = self.waiting.last_if(false).map(|request| request.priority);
        waiting.into_iter().chain(self.sender.least_urgency()).min().unwrap_or_default()
    }

    /// Whether there is data to be transmitted or retransmitted.
    fn has_frames(&self) -> bool {
        let backlog = self.sender.backlog();
        let has_waiting =
            |expedited| self.begins_new() && self.waiting.first_if(expedited).is_some();
        let is_new = backlog.unsent_c_pdus > 0 && self.takes_new() || has_waiting(false);
        // Only one expedited C_PDU may be unacknowledged (Annex C, section 3.4).
        let is_next = has_waiting(true) && !self.expedited.is_unanswered();
        backlog.due > 0 || is_new && backlog.window > 0 || self.expedited.is_due() || is_next
    }

    /// Whether new data may be sent: before a call is answered, each segment is sent only once.
    fn takes_new(&self) -> bool {
        !self.link.is_calling() || self.contact.silences == 0
    }

    /// Whether waiting requests may be handed to the sender.
    fn begins_new(&self) -> bool {
        self.takes_new() && !self.is_finishing
    }

    /// Whether a call for an exclusive link with it is unanswered.
    fn is_called_exclusively(&self) -> bool {
        self.wants_exclusive || self.link.is_calling() && self.link.is_exclusive()
    }

    /// Whether the call for an exclusive link must be sent, after acknowledgements for the soft one.
    fn is_exclusive_call_due(&self) -> bool {
        self.wants_exclusive && !self.has_begun()
    }

    /// Whether data can be sent to it now, perhaps after a call in the same transmission.
    fn can_begin(&self) -> bool {
        self.link.is_down() && !self.contact.is_pausing() || self.may_send()
    }

    /// Whether a data frame for it can be sent now.
    fn sends_data(&self) -> bool {
        self.may_send() && self.has_frames()
    }

    /// Whether a frame about the link itself is to be sent.
    fn is_urgent(&self) -> bool {
        self.is_request_due()
            || self.is_exclusive_call_due()
            || self.messages.is_due()
            || self.resets.is_due()
    }

    /// Whether there is anything to send to it now.
    fn has_work(&self) -> bool {
        self.is_ack_due || self.link.outgoing().is_some() || self.wants_answer()
    }

    /// Whether the next C_PDU about the link asks for an answer.
    fn is_request_due(&self) -> bool {
        let outgoing = self.link.outgoing();
        outgoing
            .is_some_and(|outgoing| matches!(outgoing.c_pdu, Cpdu::Request { .. } | Cpdu::Break(_)))
    }

    /// Whether data may be sent to it.
    fn may_send(&self) -> bool {
        let may_pipeline = self.link.may_pipeline() && self.extensions.pipelined;
        (self.link.is_up() || may_pipeline) && !self.resets.is_open()
    }

    /// When a pause ends, or when the next request expires.
    fn next_timeout(&self) -> Option<Time> {
        [
            self.contact.next_timeout(),
            self.waiting.next_expiry(),
            self.sender.next_timeout(),
            self.expedited.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When a hard link to it is to be probed, if it stays quiet for `idle`.
    fn probe_at(&self, idle: Duration) -> Option<Time> {
        let Contact { heard_at, asked_at, .. } = self.contact;
        let may = self.link.is_up() && !self.has_data();
        may.then(|| heard_at.max(asked_at) + idle)
    }

    /// Whether it can be forgotten.
    fn is_idle(&self) -> bool {
        self.link.is_down() && !self.has_work() && !self.has_data()
    }

    /// Octets on the air of the link control, messages and resets to be sent now. Frames that ask for
    /// an answer, and those after them, count only if the transmission is for this peer. `header` is
    /// the overhead of a data frame.
    fn control_len(&self, header: usize, introduces: bool, is_for_it: bool) -> usize {
        let c_pdu = header + Node::DATAGRAM_EXTRA;
        let copies = if introduces { introduction::copies(self.link.is_long()) } else { 0 };
        let both = 2 * c_pdu + copies * header;
        let outgoing = self.link.outgoing().filter(|_| is_for_it || !self.is_request_due());
        let link = outgoing.map_or(0, |outgoing| match outgoing.c_pdu {
            Cpdu::Request { .. } | Cpdu::Accepted => both,
            Cpdu::Break(_) => 2 * c_pdu,
            Cpdu::BreakConfirm | Cpdu::Data(_) | Cpdu::Rejected(_) => c_pdu,
        });
        if !is_for_it {
            return link;
        }
        let exclusive = if self.is_exclusive_call_due() { both } else { 0 };
        let others = usize::from(self.messages.is_due()) + usize::from(self.resets.is_due());
        link.max(exclusive) + others * header
    }

    /// Octets on the air for one acknowledgement of all the peer's data, with this many octets of addresses.
    fn ack_len(&self, addresses: usize) -> usize {
        let acks = self.receiver.acks(ACK_LIST);
        let expedited = self.expedited_in.ack();
        let expedited = expedited
            .as_ref()
            .map(|ack| Body::Ack { is_expedited: true, ack: ack.in_header() }.size());
        let all = acks.iter().map(|ack| ack.body().size()).chain(expedited);
        all.map(|len| addresses + len).sum()
    }

    /// Octets on the air of the data to be sent with acknowledgement; `header` is the overhead of a
    /// data frame.
    fn data_len(&self, header: usize, segment: usize) -> usize {
        if !self.may_send() {
            return 0;
        }
        let backlog = self.sender.backlog();
        let pieces = |octets: usize| octets.div_ceil(segment).max(1);
        let (mut frames, mut octets) = (0, 0);
        if self.takes_new() && backlog.unsent_c_pdus > 0 {
            frames += pieces(backlog.unsent) + backlog.unsent_c_pdus - 1;
            octets += backlog.unsent;
        }
        if self.begins_new() {
            for request in self.waiting.iter_if(false) {
                let len = Cpdu::HEADER + request.s_pdu.len();
                frames += pieces(len);
                octets += len;
            }
        }
        let fresh = octets + frames * header;
        let most = backlog.window * (segment + header);
        let expedited = match self.waiting.first_if(true) {
            _ if self.expedited.is_due() => segment + header,
            Some(request) if !self.expedited.is_unanswered() && self.begins_new() => {
                let len = Cpdu::HEADER + request.s_pdu.len();
                len + pieces(len) * header
            }
            Some(_) | None => 0,
        };
        backlog.due_octets + backlog.due * header + fresh.min(most) + expedited
    }
}

/// How often a link to a lost station is requested: noise or a collision may destroy one request.
const CALLS_OF_LOST: u32 = 2;
/// The step of reset numbers between successive links, so that a late reset is recognised as old.
const RESET_STEP: u8 = 37;
/// The longest list of an acknowledgement in octets: in short frames bit errors are rare.
const ACK_LIST: usize = 128;

/// The C_PDU of a request.
fn c_pdu(request: &Request) -> arq::ArqPdu {
    let mut octets = Vec::with_capacity(Cpdu::HEADER + request.s_pdu.len());
    Cpdu::Data(&request.s_pdu).emit(&mut octets);
    let in_order = matches!(request.mode, Mode::Arq { in_order: true });
    let Request { id, priority, expires, is_retried, .. } = *request;
    arq::ArqPdu { id, octets, in_order, priority, expires, is_retried }
}

fn window([short, long]: [u32; 2], numbers: Numbers) -> u32 {
    match numbers {
        Numbers::Long => long,
        Numbers::Short => short,
    }
}

// The presence of another station: when it was heard, what it left unanswered, and how long to
// pause before it is tried again.

/// The pause before retries to a station that failed; a call costs other stations a few seconds.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The presence of another station.
#[derive(Debug)]
struct Contact {
    heard_at: Time,
    /// When there was last data for it, or a probe of a hard link.
    asked_at: Time,
    /// The number of our latest transmission acknowledged by the station.
    acked_turn: u64,
    /// The number of successive answers that did not come.
    silences: u32,
    /// Whether it has not been heard since a call or a link failed.
    is_lost: bool,
    /// When retries may begin, if they pause.
    pauses_until: Option<Time>,
    /// How long retries pause after the next failure.
    pause: Duration,
}

impl Contact {
    /// The presence of a station that was never heard.
    fn new() -> Self {
        Self {
            heard_at: Time::ZERO,
            asked_at: Time::ZERO,
            acked_turn: 0,
            silences: 0,
            is_lost: false,
            pauses_until: None,
            pause: PAUSE,
        }
    }

    /// Notes that it was heard; returns whether that ends a pause.
    fn handle_heard(&mut self, now: Time) -> bool {
        self.heard_at = now;
        self.is_lost = false;
        self.pause = PAUSE;
        self.pauses_until.take().is_some()
    }

    /// Returns whether a pause ends now.
    fn handle_timeout(&mut self, now: Time) -> bool {
        self.pauses_until.take_if(|until| *until <= now).is_some()
    }

    /// Begins a pause. Pauses get longer until the station is heard again.
    fn pause(&mut self, now: Time) {
        self.pauses_until = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Whether retries to it pause.
    fn is_pausing(&self) -> bool {
        self.pauses_until.is_some()
    }

    /// When a pause ends.
    fn next_timeout(&self) -> Option<Time> {
        self.pauses_until
    }
}

// The memory of recent urgent messages.
//
// A station cannot announce an urgent message while another transmits. So after the first urgent
// message, transmissions of less urgent data are short for a while.

/// How long a message is remembered: longer than the pauses in a conversation of operators.
const MEMORY: Duration = Duration::from_secs(600);

/// The recent urgent messages between this node and another station.
#[derive(Clone, Copy, Debug, Default)]
struct RecentUrgent {
    /// Messages received from it.
    received: Urgent,
    /// Messages to be sent to it.
    sent: Urgent,
    /// Expedited requests among these, which are sent one at a time and each need an answer.
    expedited: Urgent,
}

/// The time until which the last message of each priority is remembered.
#[derive(Clone, Copy, Debug, Default)]
struct Urgent {
    until: [Time; PRIORITIES],
}

impl Urgent {
    /// Remembers a message with this priority.
    fn note(&mut self, now: Time, priority: u8) {
        self.until[usize::from(priority.min(MAX_PRIORITY))] = now + MEMORY;
    }

    /// Whether a message above this priority is remembered.
    fn is_above(&self, priority: u8, now: Time) -> bool {
        self.until.iter().skip(usize::from(priority) + 1).any(|until| *until > now)
    }
}

// The data rate of this node: requested by its peers, advised by them, or adapted to the channel
// (Annex C, section 3.11; EP4).
//
// A waveform that is identified by its preamble needs no agreement: the sender just changes. The node slows down when
// a slower rate would carry more, or when nobody answers. The node speeds up after some time without losses, and
// waits longer after each wrong attempt. If the modem does not take the rate from its station, the node follows the
// modem and refuses requests of peers.

/// The state of rate adaptation.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// The number of successive reports with few losses.
    good: u32,
    /// The number of such reports before a faster rate is tried.
    needed: u32,
    /// Whether the rate was raised and no report has come since.
    is_new: bool,
}

/// The number of good reports before a faster rate is tried, at first and at most.
const LEAST_REPORTS: u32 = 2;
const MOST_REPORTS: u32 = 64;
/// The share of lost frames up to which a report is good.
const FEW: f64 = 0.03;
/// The least frames of a report that counts.
const LEAST_FRAMES: u32 = 5;

impl Node {
    /// Asks a peer to transmit to us with another waveform; false if that is impossible.
    pub fn request_rate(&mut self, peer: Address, waveform: Waveform) -> bool {
        let (Some(rate), Some(interleaver)) = (waveform.rate_code(), waveform.interleaver_code())
        else {
            return false;
        };
        let request = RateRequest { rate, interleaver, is_advice: false, is_tied: false };
        let message = Message { eow: Eow::RateRequest(request), extended: Vec::new() };
        self.peer_mut(peer).is_some_and(|peer| peer.messages.push(message).is_ok())
    }

    /// Takes the waveform that somebody has set at the modem, and that counts from the next
    /// transmission on; `decoding` as in [`super::node::Config`].
    pub fn handle_waveform(&mut self, now: Time, waveform: Waveform, decoding: Duration) {
        self.config.waveform = waveform;
        self.config.decoding = decoding;
        self.set_waveform(waveform);
        self.floor.set_times(self.config.times(waveform));
        self.settle(now);
    }

    /// Takes an acknowledgement's report of sent and lost frames.
    fn rate_by_report(&mut self, frames: u32, lost: u32) {
        if self.config.rate != Rate::Adaptive || frames < LEAST_FRAMES {
            return;
        }
        let loss = f64::from(lost) / f64::from(frames);
        let slower = self.waveform.slower();
        let carries_more = |slower: &Waveform| {
            f64::from(slower.bits_per_s()) > f64::from(self.waveform.bits_per_s()) * (1.0 - loss)
        };
        if slower.as_ref().is_some_and(carries_more) {
            self.slow_down();
            return;
        }
        self.trial.is_new = false;
        if loss > FEW {
            self.trial.good = 0;
            return;
        }
        self.trial.good += 1;
        if self.trial.good > self.trial.needed.max(LEAST_REPORTS)
            && let Some(faster) = self.waveform.faster()
        {
            self.trial.good = 0;
            self.trial.is_new = true;
            self.set_waveform(faster);
        }
    }

    /// Transmits more slowly, if the rate may change.
    fn slow_down(&mut self) {
        if self.config.rate != Rate::Adaptive {
            return;
        }
        let Some(slower) = self.waveform.slower() else { return };
        if self.trial.is_new {
            self.trial.needed = (self.trial.needed.max(LEAST_REPORTS) * 2).min(MOST_REPORTS);
        }
        self.trial.good = 0;
        self.trial.is_new = false;
        self.set_waveform(slower);
    }

    /// Takes a message about the rate that needs an acknowledgement.
    fn handle_rate_message(&mut self, from: Address, eow: Eow) {
        let answer = match eow {
            Eow::RateRequest(request) if !request.is_advice => match self.waveform_of(request) {
                Some(_) => Eow::RateResponse { response: Response::Accept, reason: 0 },
                None => Eow::RateResponse { response: Response::Refuse, reason: CANNOT },
            },
            // The peer has changed to the requested rate and must learn that we hear it.
            Eow::RateResponse { response: Response::Accept, .. } => {
                Eow::RateResponse { response: Response::Confirm, reason: 0 }
            }
            Eow::Other { kind, .. } => Eow::Unrecognised { kind },
            Eow::RateRequest(request) => {
                self.take_advice(request);
                return;
            }
            Eow::Capabilities(_)
            | Eow::Extensions(_)
            | Eow::HighRateRequest { .. }
            | Eow::None
            | Eow::RateResponse { .. }
            | Eow::Unrecognised { .. } => return,
        };
        let wanted = match eow {
            Eow::RateRequest(request) if self.config.rate != Rate::Modem => {
                self.waveform_of(request)
            }
            _ => None,
        };
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.wanted_rate = wanted;
        let _ = peer.messages.push(Message { eow: answer, extended: Vec::new() });
    }

    /// Takes the outcome of our messages: once the peer knows that we accept, the rate changes.
    fn settle_messages(&mut self, from: Address) {
        while let Some(sent) = self.peers.get_mut(&from).and_then(|it| it.messages.poll_sent()) {
            let accept = Eow::RateResponse { response: Response::Accept, reason: 0 };
            if matches!(&sent, Sent::Acknowledged(message) if message.eow == accept)
                && let Some(waveform) =
                    self.peers.get_mut(&from).and_then(|peer| peer.wanted_rate.take())
            {
                self.set_waveform(waveform);
            }
        }
    }

    /// Follows a peer's advice, if the rate may change.
    fn take_advice(&mut self, advice: RateRequest) {
        if self.config.rate == Rate::Adaptive
            && advice.is_advice
            && let Some(waveform) = self.waveform_of(advice)
        {
            self.set_waveform(waveform);
        }
    }

    fn waveform_of(&self, request: RateRequest) -> Option<Waveform> {
        let named = Waveform::of_codes(request.rate, request.interleaver);
        named.filter(|waveform| match self.config.rate {
            Rate::Adaptive | Rate::Fixed => waveform.family() == self.waveform.family(),
            Rate::Modem => *waveform == self.waveform,
        })
    }

    fn set_waveform(&mut self, waveform: Waveform) {
        if waveform != self.waveform {
            self.waveform = waveform;
            self.floor.set_times(self.config.times(waveform));
            self.stats.rate_changes += 1;
        }
    }
}

/// The refusal that neither this rate nor this interleaver is possible.
const CANNOT: u8 = 4;

// Status of a node: airtime, other stations, and waiting data.

/// Another station.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Station {
    /// Its address.
    pub address: Address,
    /// How the link to it is.
    pub link: Link,
    /// When it was last heard; `None` if it never was.
    pub heard_at: Option<Time>,
    /// Octets waiting for the station, in PDUs with nothing sent yet, over all priorities.
    pub waiting: usize,
    /// Whether the station has not acknowledged everything sent so far.
    pub is_sending: bool,
}

/// How a physical link is (Annex B).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Link {
    /// There is none.
    Down,
    /// The station is called.
    Calling,
    /// The station did not answer, and is called again later.
    Pausing,
    /// The link is established.
    Up,
}

/// Use of the air since the node began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Airtime {
    /// The time this node spent transmitting.
    pub transmitted: Duration,
    /// The time this node heard others.
    pub heard: Duration,
    /// Octets of data frames sent by this node for the first time.
    pub sent: u64,
    /// Octets of S_PDUs received by this node.
    pub delivered: u64,
}

impl Node {
    /// The stations that it knows.
    pub fn stations(&self) -> impl Iterator<Item = Station> {
        self.peers.iter().map(|(&address, peer)| peer.status(address))
    }

    /// Octets of U_PDUs with nothing sent yet, by priority: at the clients' side and for all stations. Expedited ones
    /// count with the highest priority.
    #[must_use]
    pub fn queues(&self) -> [usize; PRIORITIES] {
        let mut queues = self.sis.queues();
        let peers = self.peers.values().map(|peer| &peer.waiting);
        for waiting in peers.chain([&self.datagrams]) {
            let all = queues.iter_mut().zip(waiting.by_priority());
            all.for_each(|(sum, octets)| *sum += octets);
        }
        queues
    }

    /// How the air was used until now, current transmission and reception included.
    #[must_use]
    pub fn airtime(&self, now: Time) -> Airtime {
        let turn = self.turn.as_ref().map_or(Duration::ZERO, |turn| turn.lasts(now));
        let reception = self.reception.as_ref().map_or(Duration::ZERO, |it| it.lasts(now));
        Airtime {
            transmitted: self.stats.keyed + turn,
            heard: self.stats.received.lasted + reception,
            sent: self.stats.sent.data.octets,
            delivered: self.stats.s_pdus.delivered.octets,
        }
    }
}

impl Peer {
    fn status(&self, address: Address) -> Station {
        let link = match () {
            () if self.link.is_up() => Link::Up,
            () if self.contact.is_pausing() => Link::Pausing,
            () if self.link.is_calling() => Link::Calling,
            () => Link::Down,
        };
        Station {
            address,
            link,
            heard_at: Some(self.contact.heard_at).filter(|&at| at > Time::ZERO),
            waiting: self.waiting.octets(0),
            is_sending: self.has_data(),
        }
    }
}
