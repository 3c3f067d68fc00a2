//! One stream: its two directions, and the state known of the other end.

use std::time::Duration;

use base::time::Time;

use super::coding::Spares;
use super::config::{Config, Options};
use super::reason::Reason;
use super::receive::Receiving;
use super::send::Sending;
use super::timers::{StreamId, Timer, Timers};
use super::wire::{ACCEPTED, Addresses, CREDIT, Credit, DATA, Data, First, MOST, Name, Open, Pdu};
use crate::s5066::Address;
use crate::s5066::service::MAX_PRIORITY;

/// How many epochs after the epoch of a process count as its successors: so few that an unknown process is hardly
/// mistaken for one.
const SUCCESSORS: u16 = 16;

/// Octets before the data of an OPEN that is not the first part.
const OPEN: usize = 7;

#[derive(Debug)]
pub(crate) struct Stream {
    peer: Address,
    /// As this end says it.
    name: Name,
    /// The process that initiated it.
    epoch: u16,
    /// As the initiator says them.
    addresses: Addresses,
    options: Options,
    /// The process at the other end of a stream that this end initiated, as it has answered or told.
    process: Option<u16>,
    sending: Sending,
    receiving: Receiving,
    /// Whether the other end is known to have it.
    has_heard: bool,
    opening: Opening,
    turn: Turn,
    check: Check,
    /// Set while parts that a lost node had wait for the other end to say which of them it has; they go then, or at
    /// this time.
    repeats_at: Option<Time>,
    notices: Notices,
    /// Once it is given up by one end, and not yet for the other.
    parting: Option<Parting>,
    since: Time,
    traffic: Traffic,
}

/// Work left for a stream that one end has given up.
#[derive(Clone, Copy, Debug)]
pub enum Parting {
    /// The user here has left it: the other end is told when it has all that was written.
    Behind {
        reason: Reason,
        /// Octets that the other end did not have yet, when it last had more of them than before.
        left: usize,
        /// When it is told anyway.
        until: Time,
    },
    /// The stream has ended, and its user has not read all data received before the end.
    Over {
        broken: Break,
        /// Octets that the user had read at the last check.
        read: u64,
        /// When the user is told anyway, unless it has read more.
        until: Time,
    },
}

/// How a stream ended before both of its ends had finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Break {
    /// Why.
    pub reason: Reason,
    /// Octets written that the other end is not known to have, counted as sent: compressed octets stand for more.
    pub in_doubt: usize,
}

/// The fate of the first part of a stream opened by this end.
#[derive(Clone, Copy, Debug, Default)]
struct Opening {
    /// When it was first handed to the node.
    handed: Option<Time>,
    /// How often the node was handed the part, except for copies that surely did not arrive.
    copies: u32,
    /// The only process allowed to take the first part.
    guard: Option<u16>,
    /// Whether any process may have taken it, and may be gone.
    is_doubtful: bool,
    /// Whether any process may still take it: the node with the part was lost.
    may_come: bool,
    /// Whether a process at the other end has said that it does not know the stream.
    is_unknown: bool,
    /// When to ask a process that began after it was first handed over.
    ask_at: Option<Time>,
}

/// A stream's place in the queue of streams with something to send.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    is_listed: bool,
    /// Octets the stream may send before others have their turn.
    deficit: usize,
    /// Octets of head start left over other streams of its priority.
    interactive: usize,
    /// Whether the node has its first part and has not confirmed it.
    is_opening: bool,
}

/// When the other end is asked how it stands.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// The last word, sign or question.
    since: Time,
    /// Questions without an answer, ...
    unanswered: u32,
    /// ... and when the first of them was asked.
    first_asked: Time,
    /// The deadline that is noted.
    timer: Option<Time>,
}

/// What the user was told and waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Notices {
    /// It was told that there is something to read, and has not read since.
    is_readable: bool,
    /// It wants to know when it can write.
    wants_room: bool,
}

/// Why a stream was not opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotOpened {
    /// There are too many.
    #[error("too many streams")]
    Full,
    /// The source has used up its share of streams.
    #[error("too many streams of one source")]
    Share,
    /// A group acknowledges nothing.
    #[error("a stream has one node at its other end, not a group")]
    Group,
}

/// How a stream is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// Which.
    pub stream: StreamId,
    /// The node at its other end.
    pub peer: Address,
    /// The users at both ends, in the initiator's order.
    pub addresses: Addresses,
    /// Whether it was opened here.
    pub is_initiator: bool,
    /// Whether the other end is known to have it.
    pub is_accepted: bool,
    /// How old it is.
    pub age: Duration,
    /// What it waits for.
    pub waits_for: Waiting,
    /// Octets waiting to be sent or to be acknowledged by the other end.
    pub unacknowledged: usize,
    /// Octets that arrived and were not read.
    pub unread: usize,
    /// Octets written and read by the user, and octets sent and received for them.
    pub traffic: Traffic,
}

/// Octets of a stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// That the user wrote.
    pub written: u64,
    /// That the user read.
    pub read: u64,
    /// Data in parts that were sent, each counted once.
    pub sent: u64,
    /// Data in parts that arrived, each counted once.
    pub arrived: u64,
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waiting {
    /// For its user.
    User,
    /// For its turn, or for the node to take more.
    Node,
    /// For the node to confirm.
    Confirmation,
    /// For the other node, which did not answer.
    Peer,
    /// For the other end to say what it has.
    Word,
    /// For the user at the other end to read.
    Credit,
}

impl Stream {
    pub(crate) fn new(
        now: Time,
        config: &Config,
        peer: Address,
        name: Name,
        epoch: u16,
        addresses: Addresses,
        options: Options,
    ) -> Self {
        let mut sending = Sending::new(!name.is_responder);
        sending.set_compressed(options.is_compressed);
        Self {
            peer,
            name,
            epoch,
            addresses,
            options,
            process: None,
            sending,
            receiving: Receiving::new(config.window),
            has_heard: false,
            opening: Opening::default(),
            turn: Turn::default(),
            check: Check { since: now, unanswered: 0, first_asked: now, timer: None },
            repeats_at: None,
            notices: Notices::default(),
            parting: None,
            since: now,
            traffic: Traffic::default(),
        }
    }

    /// The node at its other end.
    pub(crate) fn peer(&self) -> Address {
        self.peer
    }

    /// The stream's name on the wire, with the direction as this end says it.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// The process that initiated it.
    pub(crate) fn epoch(&self) -> u16 {
        self.epoch
    }

    /// How it is carried.
    pub(crate) fn options(&self) -> Options {
        self.options
    }

    /// Carries it like this from now on; returns how it was carried.
    pub(crate) fn set_options(&mut self, options: Options) -> Options {
        self.sending.set_compressed(options.is_compressed);
        std::mem::replace(&mut self.options, options)
    }

    /// The direction from here.
    pub(crate) fn sending(&self) -> &Sending {
        &self.sending
    }

    /// The same, to act on it.
    pub(crate) fn sending_mut(&mut self) -> &mut Sending {
        &mut self.sending
    }

    /// The direction to here.
    pub(crate) fn receiving(&self) -> &Receiving {
        &self.receiving
    }

    /// The same, to act on it.
    pub(crate) fn receiving_mut(&mut self) -> &mut Receiving {
        &mut self.receiving
    }

    /// Its octets so far.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The same, to count more.
    pub(crate) fn count(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    /// The work left for it, if one end has given it up.
    pub(crate) fn parting(&self) -> Option<Parting> {
        self.parting
    }

    /// One end has given it up, or the work left has changed.
    pub(crate) fn set_parting(&mut self, parting: Parting) {
        self.parting = Some(parting);
    }

    /// How it is, where `is_held_up` tells whether there is no way to the other end now.
    pub(crate) fn status(&self, now: Time, id: StreamId, is_held_up: bool) -> Status {
        Status {
            stream: id,
            peer: self.peer,
            addresses: self.addresses,
            is_initiator: self.is_initiator(),
            is_accepted: self.has_heard || !self.is_initiator(),
            age: now.since(self.since),
            waits_for: self.waits_for(is_held_up),
            unacknowledged: self.sending.octets(),
            unread: self.receiving.octets(),
            traffic: self.traffic,
        }
    }

    /// Nothing more is sent, and no doubt about how it was opened matters any more.
    pub(crate) fn retire(&mut self, spares: &mut Spares) {
        self.sending.end(spares);
        self.sending = Sending::over();
        self.has_heard = true;
    }

    /// Whether the other end is known to have it.
    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Whether it was opened here, and the other end is not known to have it.
    pub(crate) fn is_opening(&self) -> bool {
        self.is_initiator() && !self.has_heard
    }

    /// The other end has it, for certain; returns whether that is new.
    pub(crate) fn handle_heard(&mut self, now: Time) -> bool {
        self.handle_word(now);
        let is_new = !std::mem::replace(&mut self.has_heard, true);
        if is_new {
            self.opening.ask_at = None;
        }
        is_new
    }

    /// The other end has said how it stands.
    pub(crate) fn handle_word(&mut self, now: Time) {
        self.check.since = now;
        self.check.unanswered = 0;
    }

    /// Something has happened that makes a question unnecessary for a while.
    pub(crate) fn handle_sign(&mut self, now: Time) {
        self.check.since = now;
    }

    /// When the last word, sign or question was.
    pub(crate) fn last_sign(&self) -> Time {
        self.check.since
    }

    /// Notes in `timers` when to look at it, unless an earlier time is noted.
    pub(crate) fn watch(&mut self, timers: &mut Timers, id: StreamId, config: &Config) {
        let at = self.check_at(config);
        timers.set(&mut self.check.timer, Some(at), Timer::Stream(id));
    }

    /// It is over.
    pub(crate) fn unwatch(&mut self, timers: &mut Timers, id: StreamId) {
        timers.clear(&mut self.check.timer, Timer::Stream(id));
    }

    /// The noted time has come.
    pub(crate) fn handle_timer(&mut self) {
        self.check.timer = None;
    }

    /// The other end is asked once more: how many questions have no answer, and since when.
    pub(crate) fn handle_question(&mut self, now: Time) -> (u32, Time) {
        if self.check.unanswered == 0 {
            self.check.first_asked = now;
        }
        self.check.unanswered += 1;
        (self.check.unanswered, self.check.first_asked)
    }

    /// When the node was first handed the first part of a stream that was opened here.
    pub(crate) fn opened_at(&self) -> Option<Time> {
        self.opening.handed.filter(|_| self.is_initiator())
    }

    /// Whether the node was handed the first part only once, apart from copies that surely did not arrive.
    pub(crate) fn has_one_copy(&self) -> bool {
        self.opening.copies == 1
    }

    /// The node is handed the first part, for `process` at the other end if that is known.
    pub(crate) fn handle_opening(&mut self, now: Time, process: Option<u16>) {
        if self.opening.handed.is_none() {
            self.opening.handed = Some(now);
            self.opening.guard = process;
        }
        self.opening.copies += 1;
    }

    /// A process at the other end does not know the stream.
    pub(crate) fn handle_unknown(&mut self) {
        self.opening.is_unknown = true;
        self.doubt();
    }

    /// Whether the stream can only be opened again if the process at the other end was there before it was opened.
    pub(crate) fn wants_process(&self) -> bool {
        self.is_in_doubt() && self.opening.is_unknown
    }

    /// Any process may still take the first part, since the node that had it was lost.
    pub(crate) fn handle_opening_lost(&mut self) {
        self.doubt();
        self.opening.may_come = true;
    }

    /// Whether any process may still take the first part.
    pub(crate) fn may_come(&self) -> bool {
        self.opening.may_come
    }

    /// Only this process may take the first part.
    pub(crate) fn guard(&mut self, process: u16) {
        self.opening.guard = Some(process);
    }

    /// The other end is asked at this time, unless it is asked before.
    pub(crate) fn ask_at(&mut self, at: Time) {
        self.opening.ask_at.get_or_insert(at);
    }

    /// Whether such a question is due: it overtakes data with the node.
    pub(crate) fn take_question(&mut self) -> bool {
        self.opening.ask_at.take().is_some()
    }

    /// Whether it has to be listed among the streams with something to send; it counts as listed from now on.
    pub(crate) fn list(&mut self) -> bool {
        let is_new = self.is_ready() && !self.turn.is_listed;
        self.turn.is_listed |= is_new;
        is_new
    }

    /// Whether it is in that list.
    pub(crate) fn is_listed(&self) -> bool {
        self.turn.is_listed
    }

    /// It has nothing to send.
    pub(crate) fn unlist(&mut self) {
        self.turn.is_listed = false;
    }

    /// Its turn begins or goes on: it may send `mtu` octets before others have theirs.
    pub(crate) fn begin_turn(&mut self, mtu: usize) {
        if self.turn.deficit == 0 {
            self.turn.deficit = mtu;
        }
    }

    /// So many octets of its turn were sent; returns how many of its head start. It stays listed if it has more.
    pub(crate) fn spend(&mut self, octets: usize) -> usize {
        self.turn.deficit = self.turn.deficit.saturating_sub(octets);
        let leading = self.turn.interactive.min(octets);
        self.turn.interactive -= leading;
        self.turn.is_listed = self.is_ready();
        leading
    }

    /// Whether its turn is not over.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn.deficit > 0
    }

    /// It has a head start of so many octets over other streams of its priority.
    pub(crate) fn lead(&mut self, octets: usize) {
        self.turn.interactive = octets;
    }

    /// The node gets its first part.
    pub(crate) fn begin_opening(&mut self) {
        self.turn.is_opening = true;
    }

    /// Whether the node has its first part, and has not confirmed it.
    pub(crate) fn is_opening_with_node(&self) -> bool {
        self.turn.is_opening
    }

    /// The node is done with its first part; returns whether the node had it.
    pub(crate) fn end_opening(&mut self) -> bool {
        std::mem::take(&mut self.turn.is_opening)
    }

    /// Whether its user has to be told that there is something to read; it counts as told from now on.
    pub(crate) fn tell_readable(&mut self) -> bool {
        self.receiving.is_readable() && !std::mem::replace(&mut self.notices.is_readable, true)
    }

    /// Its user has read.
    pub(crate) fn handle_read(&mut self) {
        self.notices.is_readable = false;
    }

    /// Sets whether its user wants to know when it can write.
    pub(crate) fn set_wants_room(&mut self, wants_room: bool) {
        self.notices.wants_room = wants_room;
    }

    /// Whether its user has to be told that it can write; it counts as told from now on.
    pub(crate) fn tell_room(&mut self) -> bool {
        std::mem::take(&mut self.notices.wants_room)
    }

    pub(crate) fn is_initiator(&self) -> bool {
        !self.name.is_responder
    }

    /// Octets of data that fit into the next new part.
    pub(crate) fn data_room(&self, mtu: usize) -> usize {
        let credit = if self.receiving.has_advanced() { CREDIT } else { 0 };
        let header = match (self.has_heard, self.sending.next()) {
            (true, _) => DATA + credit,
            (false, 0) => MOST,
            (false, _) => OPEN + credit,
        };
        mtu.saturating_sub(header).max(1)
    }

    /// Writes a part that was taken.
    pub(crate) fn write_part(
        &mut self,
        number: u64,
        mtu: usize,
        epoch_here: u16,
        octets: &mut Vec<u8>,
    ) {
        let Some(part) = self.sending.part(number) else { return };
        let header = match (self.has_heard, number) {
            (true, _) => DATA,
            (false, 0) => MOST - CREDIT,
            (false, _) => OPEN,
        };
        let may_tell = self.has_heard || self.name.is_responder;
        let tells =
            may_tell && self.receiving.has_advanced() && header + CREDIT + part.data.len() <= mtu;
        let credit: Option<Credit> = tells.then(|| self.receiving.credit());
        if self.has_heard {
            Pdu::Data(Data { stream: self.name, part, credit }).emit(octets);
            return;
        }
        let is_first = part.number == 0;
        let guard = if self.is_initiator() { self.opening.guard } else { Some(epoch_here) };
        let first = is_first.then_some(First { accepts: ACCEPTED, guard });
        let has_addresses = is_first && self.is_initiator();
        let addresses = if has_addresses { self.addresses } else { Addresses::default() };
        let (epoch, stream) = (self.epoch, self.name);
        Pdu::Open(Open { epoch, stream, part, first, addresses, credit }).emit(octets);
    }

    /// Notes the process that has taken the stream opened by this end.
    pub(crate) fn note_process(&mut self, epoch: u16) {
        self.process = Some(epoch);
    }

    /// Whether the first part has come to the other end: a question does not overtake it any more.
    pub(crate) fn is_there(&self) -> bool {
        self.name.is_responder || self.has_heard || self.sending.is_confirmed(0)
    }

    /// Whether the process of this epoch has replaced the owner of the stream, so that the stream is gone.
    /// Until the node has confirmed the first part, the part may still reach the current process.
    pub(crate) fn is_outlived_by(&self, epoch: u16) -> bool {
        self.is_there() && self.is_of_predecessor_of(epoch)
    }

    /// Whether the node has the first part, and may still give it back: it is for a process that the process of this
    /// epoch has replaced.
    pub(crate) fn is_for_predecessor_of(&self, epoch: u16) -> bool {
        !self.is_there() && self.is_of_predecessor_of(epoch)
    }

    fn is_of_predecessor_of(&self, epoch: u16) -> bool {
        let process = match self.name.is_responder {
            true => Some(self.epoch),
            false => self.process.or(self.opening.guard),
        };
        process.is_some_and(|process| succeeds(epoch, process))
    }

    /// Whether the user has left the stream while written data is still being sent.
    pub(crate) fn has_left(&self) -> bool {
        matches!(self.parting, Some(Parting::Behind { .. }))
    }

    /// Whether the stream has ended, apart from data its user has not read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.parting, Some(Parting::Over { .. }))
    }

    /// Whether its first part must not be sent: it may have been taken by a process that is gone.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_initiator()
            && !self.has_heard
            && self.opening.is_doubtful
            && self.opening.guard.is_none()
    }

    /// Whether the other end cannot know of it: it was opened here, and its first part is not with the
    /// node, or surely did not arrive.
    pub(crate) fn is_unsent(&self) -> bool {
        self.is_initiator() && !self.has_heard && self.opening.handed.is_none()
    }

    /// Whether a part could be sent.
    pub(crate) fn is_ready(&self) -> bool {
        // A repeated opening opens nothing twice, and is answered as a question is.
        let opens = self.is_initiator() && !self.has_heard && self.sending.repeats_first();
        self.sending.is_ready() && !self.is_in_doubt() && (self.repeats_at.is_none() || opens)
    }

    /// The other end is asked what it has, after the loss of a node: parts that the node had are repeated once it has
    /// answered, or at this time.
    pub(crate) fn hold_repeats(&mut self, until: Time) {
        self.repeats_at = Some(until).filter(|_| self.sending.repeats());
    }

    /// The other end has said what it has, or that it does not have the stream.
    pub(crate) fn release_repeats(&mut self) {
        self.repeats_at = None;
    }

    /// Whether parts that were held have waited long enough.
    pub(crate) fn take_late_repeats(&mut self, now: Time) -> bool {
        self.repeats_at.take_if(|at| *at <= now).is_some()
    }

    /// The first part that was handed over may have arrived, and may not have.
    pub(crate) fn doubt(&mut self) {
        self.opening.is_doubtful |= self.is_initiator() && !self.has_heard;
    }

    /// The first part, as handed over once, surely did not arrive.
    pub(crate) fn take_opening_back(&mut self) {
        let opening = &mut self.opening;
        opening.copies = opening.copies.saturating_sub(1);
        if opening.copies == 0 {
            *opening = Opening::default();
        }
    }

    /// When to ask the other end, unless something is heard before.
    pub(crate) fn check_at(&self, config: &Config) -> Time {
        let times = &config.times;
        let wait = if self.wants_word() {
            times.ask_after * 2_u32.saturating_pow(self.check.unanswered)
        } else {
            times.keep_alive
        };
        let at = self.check.since + wait.min(times.keep_alive);
        let at = self.repeats_at.map_or(at, |repeats| at.min(repeats));
        match self.parting {
            None => self.opening.ask_at.map_or(at, |soon| at.min(soon)),
            Some(Parting::Behind { until, .. }) => at.min(until),
            Some(Parting::Over { until, .. }) => until,
        }
    }

    /// Whether it cannot go on without a word of the other end.
    fn wants_word(&self) -> bool {
        let is_unheard = self.is_initiator() && !self.has_heard;
        self.sending.is_held_up()
            || self.receiving.has_gap()
            || (is_unheard || self.has_left()) && self.sending.is_idle()
            || self.is_in_doubt()
    }

    /// When it began here.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    pub(crate) fn priority(&self) -> u8 {
        let raised = u8::from(self.turn.interactive > 0);
        (self.options.priority + raised).min(MAX_PRIORITY)
    }

    /// What the stream waits for, given whether its peer is waiting to be tried again.
    pub(crate) fn waits_for(&self, is_peer_waiting: bool) -> Waiting {
        if is_peer_waiting && !self.sending.is_settled() {
            Waiting::Peer
        } else if self.is_ready() {
            Waiting::Node
        } else if self.sending.lacks_credit() {
            Waiting::Credit
        } else if self.wants_word() {
            Waiting::Word
        } else if !self.sending.is_idle() {
            Waiting::Confirmation
        } else {
            Waiting::User
        }
    }
}

/// Whether a process with this epoch has taken the place of another one.
pub fn succeeds(epoch: u16, process: u16) -> bool {
    (1..=SUCCESSORS).contains(&epoch.wrapping_sub(process))
}
