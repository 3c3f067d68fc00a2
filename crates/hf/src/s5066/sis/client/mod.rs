//! The client's side of the socket: binds, sends, and keeps the books of what is not confirmed yet.

mod event;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::time::{Time, earliest};

use super::super::Address;
use super::super::seal::{self, Envelope, Member, Notice, OVERHEAD, Refusal, Sealing, Trouble};
use super::keep_alive::{Due, KeepAlive};
use super::messages::{self, PeerStatus, Question};
use super::output::OutputBuffer;
use super::primitive::{
    Arrival, HardLink, MAX_TTL, Management, Primitive, UnidataConfirm, UnidataIndication,
    UnidataRequest,
};
use super::stream::{Stream, Unreadable};
use super::{Confirmation, Delivery, LinkReason, NodeStatus, Sap, Service, UnidataReason};
use crate::modem::Waveform;

pub use event::{Event, Fault, HardLinkEvent, Received};
pub use window::{Share, Window};

/// How long a node may take to answer a bind, which nothing on the air has to be waited for. The standard
/// has no such time.
const BIND_WAIT: Duration = Duration::from_secs(20);
/// How long a notice is of use.
const NOTICE_TTL: Duration = Duration::from_secs(120);

/// The parameters of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The access point it is bound to.
    pub sap: Sap,
    /// How important it is, 0 to 15; with 15 it may manage the node.
    pub rank: u8,
    /// How its U_PDUs are carried unless it says otherwise.
    pub service: Service,
    /// Nothing heard for this long, the node is asked whether it is there; at least 120 s. `None`
    /// leaves that to TCP.
    pub keep_alive: Option<Duration>,
    /// How long the node may take to answer a bind, after which it is left.
    pub bind_wait: Duration,
    /// Octets that U_PDUs of the user may need at the least: a node that takes less is left.
    pub least_mtu: u16,
    /// U_PDUs without a confirmation at most.
    pub max_pending: usize,
    /// Octets that wait for the socket at most.
    pub max_unsent: usize,
    /// Whether U_PDUs are sealed.
    pub sealing: Sealing,
    /// Whether a node of ours drops U_PDUs of which nothing was sent when this client is lost: nobody would hear of
    /// their outcome, and they would only occupy the air. After [`Client::unbind`] the node sends them.
    pub drops_if_lost: bool,
}

impl Config {
    /// A client of rank 0 at this access point, which sends with ARQ.
    #[must_use]
    pub fn new(sap: Sap) -> Self {
        Self {
            sap,
            rank: 0,
            service: Service::ARQ,
            keep_alive: None,
            bind_wait: BIND_WAIT,
            least_mtu: 1,
            max_pending: 16_384,
            max_unsent: 1 << 20,
            sealing: Sealing::Ignored,
            drops_if_lost: false,
        }
    }
}

/// A client of a node (Annex A, section 2.2): binds an access point over a TCP connection made by the driver, sends
/// U_PDUs, and reports the outcome of each.
///
/// Call it in this order: one `handle_*` or command; [`Client::poll_event`] until `None`;
/// [`Client::poll_octets`] while the socket takes octets; then wait, at most until
/// [`Client::next_timeout`].
///
/// - facts: [`Client::handle_connected`] first of all, `handle_octets`, `handle_disconnected`,
///   `handle_timeout`, and `handle_clock` where U_PDUs are sealed;
/// - commands, once [`Event::Bound`] was told: `send`, `take_back`, `establish`, `terminate`,
///   `answer`, `ask_about`, `ask_for_rate`, `manage`, `unbind`, and `rebind` after that;
/// - decisions: `poll_event`, `poll_octets`, `poll_unreadable`, `next_timeout`;
/// - getters: `mtu`, `is_ready`, `fault`, `pending`, `stats`.
#[derive(Debug)]
pub struct Client {
    config: Config,
    guard: Guard,
    state: State,
    /// Whether the node may not have read yet that the access point was given up. It delivers meanwhile, and confirms
    /// that to senders.
    is_leaving: bool,
    stream: Stream,
    outgoing: OutputBuffer,
    keep_alive: KeepAlive,
    is_flow_on: bool,
    /// Whether the node knows management messages of ours.
    knows_ours: bool,
    status: NodeStatus,
    next: u64,
    pending: Unconfirmed,
    /// The last unreadable octets from the node.
    unreadable: Option<Unreadable>,
    fault: Option<Fault>,
    events: VecDeque<Event>,
    stats: Stats,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Binding { until: Time },
    Bound { mtu: u16 },
    Disconnected,
    Unbound,
}

/// A U_PDU to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Send<'a> {
    /// The node or group.
    pub to: Address,
    /// The client there.
    pub to_sap: Sap,
    /// 0 to 15, the highest.
    pub priority: u8,
    /// Whether it goes before all others.
    pub is_expedited: bool,
    /// How; `None` for the service that the client is bound with.
    pub service: Option<Service>,
    /// How long it is of use, in units of 2 s, rounded up; zero is no limit.
    pub ttl: Duration,
    /// The octets.
    pub u_pdu: &'a [u8],
}

/// Why a U_PDU was not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotSent {
    /// The node has turned flow off.
    #[error("the flow is off")]
    FlowOff,
    /// Too much waits for the socket, or for confirmation.
    #[error("too much is waiting")]
    Full,
    /// There is no binding.
    #[error("not bound")]
    NotBound,
    /// The U_PDU is longer than the MTU.
    #[error("{len} octets, the MTU is {mtu}")]
    TooLarge {
        /// The length of the U_PDU.
        len: usize,
        /// The length the node takes.
        mtu: u16,
    },
}

base::counters! {
    /// Counters of a client since its start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// U_PDUs sent.
        pub sent: counter(u_pdus);
        /// U_PDUs confirmed.
        pub confirmed: counter(u_pdus);
        /// U_PDUs that the node gave back.
        pub rejected: counter(u_pdus);
        /// U_PDUs whose fate is not known: the binding ended first.
        pub forsaken: counter(u_pdus);
        /// U_PDUs received.
        pub received: counter(u_pdus);
        /// Confirmations for no waiting U_PDU.
        pub stray: counter(u_pdus);
        /// Primitives that could not be read or are not for a node to send, or not then.
        pub invalid: counter(primitives);
        /// U_PDUs received and dropped: they are for another access point, or came while there was no binding.
        pub misplaced: counter(u_pdus);
        /// Times that the node did not answer a bind.
        pub unanswered: counter(times);
        /// Times that the node took U_PDUs of too few octets only.
        pub mtu_refused: counter(times);
        /// Seals of U_PDUs.
        pub seals: struct Seals {
            /// U_PDUs sealed.
            pub sealed: counter(u_pdus);
            /// Sealed U_PDUs received and believed.
            pub opened: counter(u_pdus);
            /// Received and dropped: without a seal, from a node that has to seal.
            pub unauthenticated: counter(u_pdus);
            /// Received and dropped: sealed with another key, or for another node, or changed.
            pub forged: counter(u_pdus);
            /// Received and dropped: taken before, or overtaken by too many.
            pub replayed: counter(u_pdus);
            /// Received and dropped: sealed by a clock that is wrong, or before this client started.
            pub untimely: counter(u_pdus);
            /// Received and dropped: there are too many members.
            pub crowded: counter(u_pdus);
            /// Received and dropped: our node has another address than was configured.
            pub misnamed: counter(u_pdus);
            /// Received and dropped: sealed, and there is no key here.
            pub keyless: counter(u_pdus);
            /// Notices sent to nodes of which something was dropped.
            pub notices_sent: counter(notices);
            /// Notices received: the nodes drop our U_PDUs.
            pub notices_received: counter(notices);
        }
    }
}

impl Client {
    /// A client that is not connected yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            guard: Guard::new(config.sealing.clone()),
            config,
            state: State::Disconnected,
            is_leaving: false,
            stream: Stream::default(),
            outgoing: OutputBuffer::default(),
            keep_alive: KeepAlive::new(Time::ZERO, None),
            is_flow_on: true,
            knows_ours: false,
            status: NodeStatus::ON,
            next: 0,
            pending: Unconfirmed::default(),
            unreadable: None,
            fault: None,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Continues as another client of the node, while there is no connection. The state of seals stays: a client must
    /// not forget the seals already taken.
    pub fn set_config(&mut self, config: Config) {
        self.handle_disconnected();
        self.config = config;
    }

    /// Takes the wall clock's time since 1970. Seals carry the time, so a driver passes it with each call.
    pub fn handle_clock(&mut self, now: Time, clock: Duration) {
        self.guard.handle_clock(now, clock);
    }

    /// The connection to the node is there: asks to be bound.
    pub fn handle_connected(&mut self, now: Time) {
        self.guard.start(now);
        self.is_leaving = false;
        self.stream = Stream::default();
        self.outgoing = OutputBuffer::default();
        self.keep_alive = KeepAlive::new(now, self.config.keep_alive);
        self.bind(now);
    }

    /// Asks to be bound again on the same connection, after the node refused or unbound the client.
    pub fn rebind(&mut self, now: Time) {
        if self.state == State::Unbound {
            self.bind(now);
        }
    }

    fn bind(&mut self, now: Time) {
        let Config { sap, rank, service, bind_wait, .. } = self.config;
        self.state = State::Binding { until: now + bind_wait };
        self.is_flow_on = true;
        self.knows_ours = false;
        self.status = NodeStatus::ON;
        self.outgoing.push(&Primitive::BindRequest { sap, rank, service: service.into() });
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self) {
        self.forsake();
        self.state = State::Disconnected;
        self.outgoing = OutputBuffer::default();
    }

    /// Takes octets from the node, in any pieces.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        for piece in octets.chunks(Stream::PIECE) {
            if self.state == State::Disconnected {
                return;
            }
            self.keep_alive.handle_heard(now);
            // Taken out, so that the primitives read can borrow from the stream meanwhile.
            let mut stream = std::mem::take(&mut self.stream);
            stream.push(piece);
            while self.state != State::Disconnected {
                match stream.take() {
                    Ok(None) => break,
                    Ok(Some(fields)) => match Primitive::parse(fields) {
                        Ok(primitive) => self.handle_primitive(now, primitive),
                        Err(why) => {
                            self.stats.invalid += 1;
                            self.unreadable = Some(Unreadable::primitive(fields, why));
                        }
                    },
                    Err(broken) => {
                        self.stats.invalid += 1;
                        self.close(Fault::Unreadable(broken));
                        return;
                    }
                }
            }
            self.stream = stream;
        }
    }

    /// Sends a U_PDU; its confirmation or rejection will carry the returned number.
    ///
    /// # Errors
    /// When it cannot be sent, or not now.
    pub fn send(&mut self, now: Time, send: Send<'_>) -> Result<SendId, NotSent> {
        let Some(mtu) = self.mtu() else { return Err(NotSent::NotBound) };
        let len = send.u_pdu.len();
        if len > usize::from(mtu) {
            return Err(NotSent::TooLarge { len, mtu });
        }
        if !self.is_flow_on {
            return Err(NotSent::FlowOff);
        }
        if self.outgoing.len() > self.config.max_unsent
            || self.pending.len() >= self.config.max_pending
        {
            return Err(NotSent::Full);
        }

        self.next += 1;
        let id = SendId(self.next);
        let Send { to, to_sap, priority, is_expedited, service, ttl, u_pdu } = send;
        let sealed = self.guard.seal(now, self.config.sap, to, to_sap, u_pdu);
        self.stats.seals.sealed += u64::from(sealed.is_some());
        let u_pdu = sealed.as_deref().unwrap_or(u_pdu);
        let confirmation = service.unwrap_or(self.config.service).confirmation;
        if confirmation != Confirmation::None {
            self.pending.push(id, to, to_sap, is_expedited, u_pdu);
        }
        let request = UnidataRequest {
            priority,
            to_sap,
            to,
            delivery: service.map_or(Delivery::DEFAULT, Delivery::from),
            ttl: units(ttl),
            u_pdu,
        };
        self.outgoing.push(&if is_expedited {
            Primitive::ExpeditedUnidataRequest(request)
        } else {
            Primitive::UnidataRequest(request)
        });
        self.stats.sent += 1;
        Ok(id)
    }

    /// Asks for a hard link; an event reports the outcome.
    pub fn establish(&mut self, link: HardLink) {
        self.ask(&Primitive::HardLinkEstablish(link));
    }

    /// Ends the hard link with this node.
    pub fn terminate(&mut self, remote: Address) {
        self.ask(&Primitive::HardLinkTerminate { remote });
    }

    /// Takes a hard link that was indicated, or refuses it with a reason.
    pub fn answer(&mut self, link: HardLink, refusal: Option<LinkReason>) {
        self.ask(&match refusal {
            None => Primitive::HardLinkAccept(link),
            Some(reason) => Primitive::HardLinkReject { reason, link },
        });
    }

    /// Takes a U_PDU back if nothing of it was sent: then it is rejected as taken back, otherwise all
    /// goes on. False if the node cannot do that, or the U_PDU is not known any more.
    pub fn take_back(&mut self, id: SendId) -> bool {
        let sent = self.pending.find(id).filter(|_| self.knows_ours);
        let Some(Sent { to, to_sap, start, .. }) = sent else { return false };
        let mut body = Vec::new();
        Question::TakeBack { to: *to, to_sap: *to_sap, start }.emit(&mut body);
        self.manage(messages::KIND, &body);
        true
    }

    /// Asks how it is with another node, for an [`Event::Peer`]; false if this node does not tell.
    pub fn ask_about(&mut self, node: Address) -> bool {
        if self.knows_ours {
            self.ask_ours(Question::Peer(node));
        }
        self.knows_ours
    }

    /// Lets the node ask another one to transmit to it with a waveform; false if this node does not
    /// take that, or the order wire has no name for the waveform. It is refused to all but rank 15.
    pub fn ask_for_rate(&mut self, node: Address, waveform: Waveform) -> bool {
        let codes = waveform.rate_code().zip(waveform.interleaver_code());
        let Some((rate, interleaver)) = codes.filter(|_| self.knows_ours) else { return false };
        self.ask_ours(Question::Rate { node, rate, interleaver });
        true
    }

    fn ask_ours(&mut self, question: Question<'_>) {
        let mut body = Vec::new();
        question.emit(&mut body);
        self.manage(messages::KIND, &body);
    }

    /// Tells or asks the node something, which it takes from rank 15 only.
    pub fn manage(&mut self, kind: u8, body: &[u8]) {
        self.ask(&Primitive::ManagementRequest(Management { kind, body }));
    }

    /// Gives the access point up; what waits for confirmation will get none. The node sends all
    /// U_PDUs that it has. Until it reads the request it may deliver some, and the client still receives them.
    pub fn unbind(&mut self) {
        self.ask(&Primitive::UnbindRequest);
        if matches!(self.state, State::Bound { .. }) {
            self.forsake();
            self.state = State::Unbound;
            self.is_leaving = true;
        }
    }

    /// Notifies a node that its U_PDUs are dropped.
    fn notify(&mut self, to: Address, notice: seal::Notice) {
        let service = Service { confirmation: Confirmation::None, ..Service::ARQ };
        self.outgoing.push(&Primitive::UnidataRequest(UnidataRequest {
            priority: 0,
            to_sap: self.config.sap,
            to,
            delivery: Delivery::from(service),
            ttl: units(NOTICE_TTL),
            u_pdu: &notice.octets(),
        }));
        self.stats.seals.notices_sent += 1;
    }

    fn ask(&mut self, primitive: &Primitive<'_>) {
        if matches!(self.state, State::Bound { .. }) {
            self.outgoing.push(primitive);
        }
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.state == State::Disconnected {
            return;
        }
        match self.keep_alive.handle_timeout(now) {
            Some(Due::Send) => self.outgoing.push(&Primitive::KeepAlive),
            Some(Due::GiveUp) => self.close(Fault::Silent),
            None => {}
        }
        if self.bind_until().is_some_and(|until| until <= now) {
            self.stats.unanswered += 1;
            self.close(Fault::BindUnanswered { within: self.config.bind_wait });
        }
    }

    /// When a bind that was asked for counts as unanswered.
    fn bind_until(&self) -> Option<Time> {
        match self.state {
            State::Binding { until } => Some(until),
            State::Bound { .. } | State::Disconnected | State::Unbound => None,
        }
    }

    fn close(&mut self, fault: Fault) {
        self.forsake();
        self.state = State::Disconnected;
        self.fault = Some(fault);
        self.events.push_back(Event::Close(fault));
    }

    fn forsake(&mut self) {
        self.stats.forsaken += self.pending.len() as u64;
        self.pending.clear();
    }

    /// Appends a piece of what the node is to read; whether there was any.
    pub fn poll_octets(&mut self, _now: Time, out: &mut Vec<u8>) -> bool {
        self.outgoing.poll(out)
    }

    /// The next event for the user.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Why the node was left, until it has bound the client again.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Unreadable octets from the node, which were passed over; the last since the previous call.
    pub fn poll_unreadable(&mut self) -> Option<Unreadable> {
        self.unreadable.take()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let keep_alive =
            self.keep_alive.next_timeout().filter(|_| self.state != State::Disconnected);
        earliest(keep_alive, self.bind_until())
    }

    /// Octets by which seals make U_PDUs longer.
    #[must_use]
    pub fn overhead(&self) -> u16 {
        self.guard.overhead()
    }

    /// The longest U_PDU, when bound.
    #[must_use]
    pub fn mtu(&self) -> Option<u16> {
        match self.state {
            State::Bound { mtu } => Some(mtu.saturating_sub(self.overhead())),
            State::Binding { .. } | State::Disconnected | State::Unbound => None,
        }
    }

    /// Whether [`Self::send`] takes a U_PDU that is not too long.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Bound { .. })
            && self.is_flow_on
            && self.outgoing.len() <= self.config.max_unsent
            && self.pending.len() < self.config.max_pending
    }

    /// Whether the node is one of ours, and reports for a failed U_PDU whether the U_PDU may have arrived.
    #[must_use]
    pub fn is_node_ours(&self) -> bool {
        self.knows_ours
    }

    /// U_PDUs without a confirmation yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// A time to live in units of 2 s, rounded up.
fn units(ttl: Duration) -> u32 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let units = u32::try_from(seconds.div_ceil(2)).unwrap_or(u32::MAX);
    units.min(MAX_TTL)
}

// Seals the U_PDUs of a client, and drops received ones without the seal of its group.

/// The shortest time between two notices to one node.
const SILENCE: Duration = Duration::from_secs(600);
/// Most nodes that get a notice within this time.
const MOST_TOLD: usize = 16;

/// Seals and opens for one client, and limits its notices.
#[derive(Debug)]
struct Guard {
    kind: Kind,
    /// When each node got its last notice.
    told: BTreeMap<Address, Time>,
}

#[derive(Debug)]
enum Kind {
    Ignored,
    Keyless,
    Member(Box<Member>),
}

impl Guard {
    fn new(sealing: Sealing) -> Self {
        let kind = match sealing {
            Sealing::Ignored => Kind::Ignored,
            Sealing::Keyless => Kind::Keyless,
            Sealing::Member(config) => Kind::Member(Box::new(Member::new(config))),
        };
        Self { kind, told: BTreeMap::new() }
    }

    fn start(&mut self, now: Time) {
        if let Some(member) = self.member() {
            member.start(now);
        }
    }

    fn handle_clock(&mut self, now: Time, clock: Duration) {
        if let Some(member) = self.member() {
            member.handle_clock(now, clock);
        }
    }

    fn overhead(&self) -> u16 {
        match self.kind {
            Kind::Ignored | Kind::Keyless => 0,
            Kind::Member(_) => OVERHEAD,
        }
    }

    /// The sealed U_PDU; `None` if it goes to the node without a seal.
    fn seal(
        &mut self,
        now: Time,
        from_sap: Sap,
        to: Address,
        to_sap: Sap,
        u_pdu: &[u8],
    ) -> Option<Vec<u8>> {
        let member = self.member().filter(|member| !member.is_unauthenticated(to))?;
        Some(member.seal(now, from_sap, to, to_sap, u_pdu))
    }

    /// Reads a U_PDU as a notice, unless this client knows nothing of seals.
    fn notice(&self, u_pdu: &[u8]) -> Option<Notice> {
        match self.kind {
            Kind::Ignored => None,
            Kind::Keyless | Kind::Member(_) => Notice::parse(u_pdu),
        }
    }

    /// The octets for the user.
    ///
    /// # Errors
    /// When it is not to be believed.
    fn open<'a>(
        &mut self,
        now: Time,
        envelope: Envelope,
        u_pdu: &'a [u8],
        seals: &mut Seals,
    ) -> Result<&'a [u8], Refusal> {
        let opened = match &mut self.kind {
            Kind::Keyless if seal::is_sealed(u_pdu) => Err(Refusal::Keyless),
            Kind::Ignored | Kind::Keyless => return Ok(u_pdu),
            Kind::Member(member) => member.open(now, envelope, u_pdu),
        };
        match opened {
            Ok(inner) => {
                seals.opened += u64::from(inner.len() < u_pdu.len());
                return Ok(inner);
            }
            Err(Refusal::Ahead { .. } | Refusal::Behind { .. }) => seals.untimely += 1,
            Err(Refusal::Crowded) => seals.crowded += 1,
            Err(Refusal::Forged) => seals.forged += 1,
            Err(Refusal::Keyless) => seals.keyless += 1,
            Err(Refusal::Misnamed { .. }) => seals.misnamed += 1,
            Err(Refusal::Replayed) => seals.replayed += 1,
            Err(Refusal::Unsealed) => seals.unauthenticated += 1,
        }
        opened
    }

    /// The user's octets in the start of a U_PDU, as the node tells it.
    fn start_of<'a>(&self, to: Address, start: &'a [u8]) -> &'a [u8] {
        match &self.kind {
            Kind::Member(member) if !member.is_unauthenticated(to) => seal::behind(start),
            Kind::Ignored | Kind::Keyless | Kind::Member(_) => start,
        }
    }

    /// Whether to send a node a notice now; a positive answer counts as a sent notice.
    fn may_notify(&mut self, now: Time, node: Address) -> bool {
        self.told.retain(|_, told| now.since(*told) < SILENCE);
        let may = !node.is_group() && !self.told.contains_key(&node) && self.told.len() < MOST_TOLD;
        if may {
            self.told.insert(node, now);
        }
        may
    }

    fn member(&mut self) -> Option<&mut Member> {
        match &mut self.kind {
            Kind::Ignored | Kind::Keyless => None,
            Kind::Member(member) => Some(member),
        }
    }
}

// Handles primitives from the node to its client.

impl Client {
    /// Takes a primitive of the node.
    fn handle_primitive(&mut self, now: Time, primitive: Primitive<'_>) {
        let link_event = match primitive {
            Primitive::BindAccepted { sap, mtu } if self.is_binding() && sap == self.config.sap => {
                let least = self.config.least_mtu.saturating_add(self.overhead());
                if mtu < least {
                    self.stats.mtu_refused += 1;
                    self.close(Fault::Mtu { mtu, least });
                    return;
                }
                self.state = State::Bound { mtu };
                self.is_leaving = false;
                self.fault = None;
                let mtu = mtu.saturating_sub(self.overhead());
                self.events.push_back(Event::Bound { mtu });
                return;
            }
            Primitive::BindRejected(reason) if self.is_binding() => {
                self.state = State::Unbound;
                self.is_leaving = false;
                self.events.push_back(Event::Refused(reason));
                return;
            }
            Primitive::UnbindIndication(reason) => {
                // Requests in flight when the binding ended earn further indications.
                if matches!(self.state, State::Bound { .. }) {
                    self.forsake();
                    self.state = State::Unbound;
                    self.events.push_back(Event::Unbound(reason));
                }
                return;
            }
            Primitive::SubnetAvailability { status, reason } => {
                let is_ours = reason == messages::OURS;
                if is_ours
                    && !std::mem::replace(&mut self.knows_ours, true)
                    && self.config.drops_if_lost
                {
                    self.ask_ours(Question::DropIfLost);
                }
                if std::mem::replace(&mut self.status, status) != status {
                    self.events.push_back(Event::Availability { status, reason });
                }
                return;
            }
            Primitive::DataFlowOn => {
                if !std::mem::replace(&mut self.is_flow_on, true) {
                    self.events.push_back(Event::FlowOn);
                }
                return;
            }
            Primitive::DataFlowOff => {
                if std::mem::replace(&mut self.is_flow_on, false) {
                    self.events.push_back(Event::FlowOff);
                }
                return;
            }
            Primitive::KeepAlive => {
                self.keep_alive.handle_keep_alive(now);
                self.handle_timeout(now);
                return;
            }
            Primitive::ManagementIndication(Management { kind: messages::KIND, body })
                if let Ok(status) = PeerStatus::parse(body) =>
            {
                self.events.push_back(Event::Peer(status));
                return;
            }
            Primitive::ManagementIndication(Management { kind, body }) => {
                self.events.push_back(Event::Management { kind, body: body.to_vec() });
                return;
            }
            Primitive::UnidataIndication(indication) => {
                return self.receive(now, indication, false);
            }
            Primitive::ExpeditedUnidataIndication(indication) => {
                return self.receive(now, indication, true);
            }
            Primitive::UnidataConfirm(confirm) => return self.confirm(confirm, false),
            Primitive::ExpeditedUnidataConfirm(confirm) => return self.confirm(confirm, true),
            Primitive::UnidataRejected(rejected) => {
                return self.reject(rejected.reason, rejected.into(), false);
            }
            Primitive::ExpeditedUnidataRejected(rejected) => {
                return self.reject(rejected.reason, rejected.into(), true);
            }
            Primitive::HardLinkEstablished { link, .. } => HardLinkEvent::Established(link),
            Primitive::HardLinkIndication { link, .. } => HardLinkEvent::Indicated(link),
            Primitive::HardLinkRejected { reason, link } => HardLinkEvent::Rejected(reason, link),
            Primitive::HardLinkTerminated { reason, link } => {
                HardLinkEvent::Terminated(reason, link)
            }
            Primitive::BindRequest { .. }
            | Primitive::UnbindRequest
            | Primitive::BindAccepted { .. }
            | Primitive::BindRejected(_)
            | Primitive::HardLinkEstablish(_)
            | Primitive::HardLinkTerminate { .. }
            | Primitive::HardLinkAccept(_)
            | Primitive::HardLinkReject { .. }
            | Primitive::ManagementRequest(_)
            | Primitive::UnidataRequest(_)
            | Primitive::ExpeditedUnidataRequest(_) => {
                self.stats.invalid += 1;
                return;
            }
        };
        self.events.push_back(Event::HardLink(link_event));
    }

    fn is_binding(&self) -> bool {
        matches!(self.state, State::Binding { .. })
    }

    fn receive(&mut self, now: Time, indication: UnidataIndication<'_>, is_expedited: bool) {
        let UnidataIndication { priority, to_sap, to, arrival, from_sap, from, u_pdu } = indication;
        let is_bound = matches!(self.state, State::Bound { .. }) || self.is_leaving;
        if !is_bound || to_sap != self.config.sap {
            self.stats.misplaced += 1;
            return;
        }
        self.stats.received += 1;
        if let Some(notice) = self.guard.notice(u_pdu) {
            self.stats.seals.notices_received += 1;
            let trouble = Trouble::Told(notice);
            self.events.push_back(Event::Sealing { node: from, trouble });
            return;
        }
        let envelope = Envelope { from, from_sap, to, to_sap };
        let u_pdu = match self.guard.open(now, envelope, u_pdu, &mut self.stats.seals) {
            Ok(u_pdu) => u_pdu.to_vec(),
            Err(refusal) => {
                let trouble = Trouble::Refused(refusal);
                self.events.push_back(Event::Sealing { node: from, trouble });
                // A link with the node exists, so an answer does not call anybody.
                let may_answer = arrival == Arrival::Arq && self.is_ready();
                if let Some(notice) = Notice::of(refusal).filter(|_| may_answer)
                    && self.guard.may_notify(now, from)
                {
                    self.notify(from, notice);
                }
                return;
            }
        };
        let received = Received { from, from_sap, to, priority, is_expedited, arrival, u_pdu };
        self.events.push_back(Event::Received(received));
    }

    fn confirm(&mut self, confirm: UnidataConfirm<'_>, is_expedited: bool) {
        match self.pending.take(confirm, is_expedited) {
            Some(id) => {
                self.stats.confirmed += 1;
                self.events.push_back(Event::Confirmed(id));
            }
            None => self.stats.stray += 1,
        }
    }

    fn reject(&mut self, reason: UnidataReason, which: UnidataConfirm<'_>, is_expedited: bool) {
        let to = which.to;
        if self.guard.notice(which.u_pdu).is_some() {
            return;
        }
        let start = self.guard.start_of(to, which.u_pdu).to_vec();
        let id = self.pending.take(which, is_expedited);
        self.stats.rejected += 1;
        self.events.push_back(Event::Rejected { id, to, start, reason });
    }
}

// U_PDUs sent and not confirmed yet. A confirmation names no U_PDU: it copies the U_PDU's start.

/// Octets by which a confirmation is told from others.
const KEPT: usize = 64;

/// Names a U_PDU until its confirmation; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SendId(pub u64);

/// The U_PDUs of a client that wait for their confirmation, the oldest first.
#[derive(Debug, Default)]
struct Unconfirmed {
    u_pdus: VecDeque<Sent>,
}

/// A U_PDU that was sent.
#[derive(Debug)]
struct Sent {
    id: SendId,
    to: Address,
    to_sap: Sap,
    is_expedited: bool,
    /// Its first octets.
    start: Vec<u8>,
}

impl Unconfirmed {
    fn push(&mut self, id: SendId, to: Address, to_sap: Sap, is_expedited: bool, u_pdu: &[u8]) {
        let start = u_pdu[..u_pdu.len().min(KEPT)].to_vec();
        self.u_pdus.push_back(Sent { id, to, to_sap, is_expedited, start });
    }

    /// Takes the oldest that a confirmation or rejection can mean.
    fn take(&mut self, which: UnidataConfirm<'_>, is_expedited: bool) -> Option<SendId> {
        let is_it = |sent: &Sent| {
            let len = which.u_pdu.len().min(sent.start.len());
            sent.to == which.to
                && sent.to_sap == which.to_sap
                && sent.is_expedited == is_expedited
                && sent.start[..len] == which.u_pdu[..len]
        };
        let at = self.u_pdus.iter().position(is_it)?;
        self.u_pdus.remove(at).map(|sent| sent.id)
    }

    fn find(&self, id: SendId) -> Option<&Sent> {
        self.u_pdus.iter().find(|sent| sent.id == id)
    }

    fn clear(&mut self) {
        self.u_pdus.clear();
    }

    fn len(&self) -> usize {
        self.u_pdus.len()
    }
}
