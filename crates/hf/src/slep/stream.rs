//! A stream: its two directions, and what is known of the other end.

use std::time::Duration;

use base::time::Time;

use super::config::{Config, Options};
use super::reason::Reason;
use super::receive::Receiving;
use super::send::Sending;
use super::wire::{Addresses, Name};
use crate::s5066::Address;
use crate::s5066::service::MAX_PRIORITY;

/// How far after the epoch of a process the epochs of those lie that followed it, one after the other: so few that a
/// process of which nothing is known is hardly taken for one of them.
const SUCCESSORS: u16 = 16;

/// Names a stream of this process; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StreamId(pub u64);

#[derive(Debug)]
pub(super) struct Stream {
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
    pub(super) notices: Notices,
    /// Once it is given up by one end, and not yet for the other.
    pub(super) parting: Option<Parting>,
    pub(super) since: Time,
    pub(super) traffic: Traffic,
}

/// What is still to be done for a stream that one end has given up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parting {
    /// The user here has left it: the other end is told when it has all that was written.
    Behind {
        reason: Reason,
        /// Octets that the other end did not have yet, when it last had more of them than before.
        left: usize,
        /// When it is told anyway.
        until: Time,
    },
    /// It is no more, and its user has not read all that came before that.
    Over {
        broken: Break,
        /// Octets that the user had read when that was last looked at.
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
    /// Octets that were written and that the other end is not known to have, as they were to be sent:
    /// compressed, they stand for more.
    pub in_doubt: usize,
}

/// What may have become of the first part of a stream that this end initiated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// When it was first handed to the node.
    pub(super) handed: Option<Time>,
    /// How often the node had it, but for those times when it surely did not arrive.
    pub(super) copies: u32,
    /// The only process that may take it.
    pub(super) guard: Option<u16>,
    /// Whether any process may have taken it, and may be gone.
    pub(super) is_doubtful: bool,
    /// Whether any process may still take it: the node that had it was lost.
    pub(super) may_come: bool,
    /// Whether a process at the other end has said that it does not know the stream.
    pub(super) is_unknown: bool,
    /// When to ask a process that began after it was first handed over.
    pub(super) ask_at: Option<Time>,
}

/// A stream's place among those that have something to send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    pub(super) is_listed: bool,
    /// Octets that it may send before others have theirs.
    pub(super) deficit: usize,
    /// Octets that go before those of others of its priority.
    pub(super) interactive: usize,
    /// Whether the node has its first part and has not confirmed it.
    pub(super) is_opening: bool,
}

/// When the other end is asked how it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
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
pub(super) struct Notices {
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
    /// The source has its share of streams.
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
    /// Which users it is between, as its initiator says them.
    pub addresses: Addresses,
    /// Whether it was opened here.
    pub is_initiator: bool,
    /// Whether the other end is known to have it.
    pub is_accepted: bool,
    /// How old it is.
    pub age: Duration,
    /// What it waits for.
    pub waits_for: Waiting,
    /// Octets that wait to be sent, or for the other end to say that it has them.
    pub unacknowledged: usize,
    /// Octets that arrived and were not read.
    pub unread: usize,
    /// What its user wrote and read, and what that was on the air.
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
    pub(super) fn new(
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
            notices: Notices::default(),
            parting: None,
            since: now,
            traffic: Traffic::default(),
        }
    }

    pub(super) fn is_initiator(&self) -> bool {
        !self.name.is_responder
    }

    /// The process that has the stream which this end initiated has told of itself.
    pub(super) fn note_process(&mut self, epoch: u16) {
        self.process = Some(epoch);
    }

    /// Whether the first part has come to the other end: a question does not overtake it any more.
    pub(super) fn is_there(&self) -> bool {
        self.name.is_responder || self.has_heard || self.sending.is_confirmed(0)
    }

    /// Whether the process of this epoch has followed the one that has the stream, which is gone then. Until the node
    /// has confirmed the first part, that may still come to whoever is there.
    pub(super) fn is_outlived_by(&self, epoch: u16) -> bool {
        let process = match self.name.is_responder {
            true => Some(self.epoch),
            false => self.process.or(self.opening.guard),
        };
        let is_later = |process: u16| (1..=SUCCESSORS).contains(&epoch.wrapping_sub(process));
        self.is_there() && process.is_some_and(is_later)
    }

    /// Whether its user has left it, and it goes on for what was written.
    pub(super) fn has_left(&self) -> bool {
        matches!(self.parting, Some(Parting::Behind { .. }))
    }

    /// Whether it is no more, but for what its user has not read.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.parting, Some(Parting::Over { .. }))
    }

    /// Whether its first part must not be sent: it may have been taken by a process that is gone.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_initiator()
            && !self.has_heard
            && self.opening.is_doubtful
            && self.opening.guard.is_none()
    }

    /// Whether the other end cannot know of it: it was opened here, and its first part is not with the
    /// node, or surely did not arrive.
    pub(super) fn is_unsent(&self) -> bool {
        self.is_initiator() && !self.has_heard && self.opening.handed.is_none()
    }

    /// Whether a part could be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.sending.is_ready() && !self.is_in_doubt()
    }

    /// The first part that was handed over may have arrived, and may not have.
    pub(super) fn doubt(&mut self) {
        self.opening.is_doubtful |= self.is_initiator() && !self.has_heard;
    }

    /// The first part, as handed over once, surely did not arrive.
    pub(super) fn take_opening_back(&mut self) {
        let opening = &mut self.opening;
        opening.copies = opening.copies.saturating_sub(1);
        if opening.copies == 0 {
            *opening = Opening::default();
        }
    }

    /// When to ask the other end, unless something is heard before.
    pub(super) fn check_at(&self, config: &Config) -> Time {
        let times = &config.times;
        let wait = if self.wants_word() {
            times.ask_after * 2_u32.saturating_pow(self.check.unanswered)
        } else {
            times.keep_alive
        };
        let at = self.check.since + wait.min(times.keep_alive);
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

    pub(super) fn priority(&self) -> u8 {
        let raised = u8::from(self.turn.interactive > 0);
        (self.options.priority + raised).min(MAX_PRIORITY)
    }

    /// What it waits for, with a node that does not answer or does.
    pub(super) fn waits_for(&self, is_peer_waiting: bool) -> Waiting {
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
