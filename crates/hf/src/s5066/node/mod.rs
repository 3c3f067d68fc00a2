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
mod contact;
mod introduction;
mod links;
mod peer;
mod produce;
mod rate;
mod receive;
mod record;
pub mod stats;
mod status;
#[cfg(test)]
mod tests;
mod transmit;
mod urgent;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use super::cas::Floor;
use super::dts::datagram;
use super::dts::scan::Scanner;
use super::dts::wire::{DATAGRAM_IDS, Numbers, Reason};
use super::service::{Failure, MAX_PRIORITY, Mode, Outcome, Request, RequestId};
use super::sis::stream::Unreadable;
use super::sis::{self, ClientId, NodeStatus, Sap, UnavailableReason};
use super::{Address, dts::policy};
use crate::modem::{self, Waveform};

pub use config::{Config, Extensions, JITTER, PARAMETERS, Rate, SLOT};
pub use record::{FrameKind, Record};
pub use sis::server::Event;
pub use stats::{ByKind, Stats, Tally};
pub use status::{Airtime, Link, Station};

use peer::Peer;
use receive::Reception;
use record::Records;
use transmit::Turn;
use waiting::Waiting;

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
    trial: rate::Trial,
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
    pub fn new(_now: Time, config: Config, mut rng: Rng) -> Self {
        let times = config.times(config.waveform);
        let floor =
            Floor::new(config.access, times, config.exchange, Rng::stream(rng.bits(), "floor"));
        let next_id = below(&mut rng, DATAGRAM_IDS);
        Self {
            waveform: config.waveform,
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
            trial: rate::Trial::default(),
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
            let is_quiet = now.since(peer.contact.heard_at) >= self.config.link.idle;
            if is_hard && is_quiet && peer.link.is_up() && !peer.has_data() {
                self.sis.probe_hard_link();
            }
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
        if self.floor.poll_silence(now) {
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
        [
            self.start_at,
            links,
            peers,
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
        self.pull(now);
        self.start_at = self.next_start(now).filter(|&at| at > now);
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
                    peer.lately.sent.note(now, request.priority);
                    if request.is_expedited {
                        peer.lately.expedited.note(now, request.priority);
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
