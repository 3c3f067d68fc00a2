//! A connection that is carried.

use std::time::Duration;

use base::time::Time;

use super::wire::Opening;
use crate::s5066::Address;
use crate::slep::{self, Break, Options, Source, StreamId};

/// Names a connection within this process; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SessionId(pub u64);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: Address,
    /// Whether it was opened here.
    pub(super) is_initiator: bool,
    /// Whether the responder says first that the target is there.
    pub(super) is_confirmed: bool,
    /// Whom the connection is for, once this is known.
    pub(super) opening: Option<Opening>,
    pub(super) stage: Stage,
    /// Whether the user here was told the end of what the other end says.
    pub(super) has_heard_end: bool,
    /// Whether the user here has said anything, be it that it says no more.
    pub(super) has_said: bool,
    /// How its stream broke, if what came behind the opening is still to be read.
    pub(super) broken: Option<Break>,
    pub(super) since: Time,
    /// Whose it is.
    pub(super) source: Source,
}

/// How a connection is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// Which.
    pub session: SessionId,
    /// The node at its other end.
    pub peer: Address,
    /// Whether it was opened here.
    pub is_initiator: bool,
    /// Whom it is for; `None` until the opening has arrived.
    pub opening: Option<Opening>,
    /// How far it is.
    pub phase: Phase,
    /// How old it is.
    pub age: Duration,
    /// Its stream; `None` until there is one.
    pub stream: Option<slep::Status>,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Opened here; its stream waits for the first data.
    Gathering { options: Options, until: Time },
    /// Opened by the other end, whose opening is not whole yet.
    Arriving { stream: StreamId, head: Vec<u8>, until: Time },
    /// Opened here; the other end has not said yet whether the target is there. Its answer is kept as far as received.
    Confirming { stream: StreamId, answer: Vec<u8> },
    /// Opened by the other end; the user is connecting to the target. What came behind the opening
    /// is kept; it may be all, and the stream has said so.
    Connecting { stream: StreamId, data: Vec<u8>, is_all: bool },
    /// It carries octets. What came behind the opening and was not read yet goes first.
    Open { stream: StreamId, data: Vec<u8> },
    /// Its stream is over, and the user has not read to the end.
    Over { data: Vec<u8> },
}

/// How far a connection is, for who looks at it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// It waits for the first data, which goes with the opening.
    Gathering,
    /// The opening has not arrived as a whole.
    Arriving,
    /// The other end makes the connection to the target, and will say so.
    Confirming,
    /// The connection to the target is being made.
    Connecting,
    /// It carries octets.
    Open,
}

impl Session {
    pub(super) fn stream(&self) -> Option<StreamId> {
        match self.stage {
            Stage::Gathering { .. } | Stage::Over { .. } => None,
            Stage::Arriving { stream, .. }
            | Stage::Confirming { stream, .. }
            | Stage::Connecting { stream, .. }
            | Stage::Open { stream, .. } => Some(stream),
        }
    }

    /// The deadline for the first data, or for the rest of the opening.
    pub(super) fn waits_until(&self) -> Option<Time> {
        match self.stage {
            Stage::Gathering { until, .. } | Stage::Arriving { until, .. } => Some(until),
            Stage::Confirming { .. }
            | Stage::Connecting { .. }
            | Stage::Open { .. }
            | Stage::Over { .. } => None,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Gathering { .. } => Phase::Gathering,
            Stage::Arriving { .. } => Phase::Arriving,
            Stage::Confirming { .. } => Phase::Confirming,
            Stage::Connecting { .. } => Phase::Connecting,
            Stage::Open { .. } | Stage::Over { .. } => Phase::Open,
        }
    }
}
