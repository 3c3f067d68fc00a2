//! One stream: its two directions, and the state known of the other end.

use std::time::Duration;

use base::time::Time;

use super::config::{Config, Options};
use super::peer::succeeds;
use super::reason::Reason;
use super::receive::Receiving;
use super::send::Sending;
use super::wire::{Addresses, Name};
use crate::s5066::Address;
use crate::s5066::service::MAX_PRIORITY;

/// Identifies a stream of this process; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StreamId(pub u64);

#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) peer: Address,
    /// As this end says it.
    pub(super) name: Name,
    /// The process that initiated it.
    pub(super) epoch: u16,
    /// As the initiator says them.
    pub(super) addresses: Addresses,
    pub(super) options: Options,
    /// The process at the other end of a stream that this end initiated, as it has answered or told.
    process: Option<u16>,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    /// Whether the other end is known to have it.
    pub(super) has_heard: bool,
    pub(super) opening: Opening,
    pub(super) turn: Turn,
    pub(super) check: Check,
    /// Set while parts that a lost node had wait for the other end to say which of them it has; they go then, or at
    /// this time.
    repeats_at: Option<Time>,
    pub(super) notices: Notices,
    /// Once it is given up by one end, and not yet for the other.
    pub(super) parting: Option<Parting>,
    pub(super) since: Time,
    pub(super) traffic: Traffic,
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
pub struct Opening {
    /// When it was first handed to the node.
    pub(super) handed: Option<Time>,
    /// How often the node was handed the part, except for copies that surely did not arrive.
    pub(super) copies: u32,
    /// The only process allowed to take the first part.
    pub(super) guard: Option<u16>,
    /// Whether any process may have taken it, and may be gone.
    is_doubtful: bool,
    /// Whether any process may still take it: the node with the part was lost.
    pub(super) may_come: bool,
    /// Whether a process at the other end has said that it does not know the stream.
    pub(super) is_unknown: bool,
    /// When to ask a process that began after it was first handed over.
    pub(super) ask_at: Option<Time>,
}

/// A stream's place in the queue of streams with something to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    pub(super) is_listed: bool,
    /// Octets the stream may send before others have their turn.
    pub(super) deficit: usize,
    /// Octets of head start left over other streams of its priority.
    pub(super) interactive: usize,
    /// Whether the node has its first part and has not confirmed it.
    pub(super) is_opening: bool,
}

/// When the other end is asked how it stands.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The last word, sign or question.
    pub(super) since: Time,
    /// Questions without an answer, ...
    pub(super) unanswered: u32,
    /// ... and when the first of them was asked.
    pub(super) first_asked: Time,
    /// The deadline that is noted.
    pub(super) timer: Option<Time>,
}

/// What the user was told and waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notices {
    /// It was told that there is something to read, and has not read since.
    pub(super) is_readable: bool,
    /// It wants to know when it can write.
    pub(super) wants_room: bool,
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

    pub(crate) fn is_initiator(&self) -> bool {
        !self.name.is_responder
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
