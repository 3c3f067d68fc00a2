//! Messages that programs hand in, and events reported back to programs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::finished::Remembered;
use super::wire::Ports;

/// How urgent a message is: 0 routine, 1 priority, 2 immediate, 3 flash, 4 flash override, 5 critical.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Precedence(u8);

impl Precedence {
    /// How many there are.
    pub const COUNT: usize = 6;
    /// The lowest.
    pub const ROUTINE: Self = Self(0);
    /// The lowest precedence allowed to use the upper quarter of the queue.
    pub const IMMEDIATE: Self = Self(2);

    /// A precedence from 0 to 5; greater values count as 5.
    #[must_use]
    pub const fn new(level: u8) -> Self {
        Self(if level > 5 { 5 } else { level })
    }

    /// From 0 to 5.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }
}

/// A message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// Of the programs.
    pub ports: Ports,
    /// At least one octet. It is shared, never copied.
    pub data: Arc<[u8]>,
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Higher ones go first.
    pub precedence: Precedence,
    /// Time after which the message is worthless; `None` means never.
    pub lifetime: Option<Duration>,
    /// Whether each destination confirms the message. In the standard routine messages go without.
    pub is_acknowledged: bool,
    /// An address that reaches all destinations at once: a directed broadcast or a multicast group.
    pub via: Option<IpAddr>,
    /// The transfer of an earlier process goes on: what [`Event::Started`] said then.
    pub resume: Option<Resume>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            precedence: Precedence::ROUTINE,
            lifetime: None,
            is_acknowledged: true,
            via: None,
            resume: None,
        }
    }
}

/// What makes a transfer the same after its sender was restarted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resume {
    /// Its serial number.
    pub serial: u16,
    /// Octets of its segments.
    pub segment: u16,
}

/// The identity of a message at its sender, for the life of the process.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MessageId(pub u64);

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotTaken {
    /// There is nothing in it.
    #[error("the message is empty: it needs an octet at least")]
    Empty,
    /// No room for another message now.
    #[error("{waiting} messages wait already: try again when some have an outcome")]
    Full {
        /// How many wait.
        waiting: usize,
    },
    /// It has no destination.
    #[error("the message has no destination")]
    NoDestination,
    /// The transfer that is to go on cannot: its number is in use.
    #[error("the transfer {serial} cannot be resumed: its serial number is in use")]
    SerialInUse {
        /// The number.
        serial: u16,
    },
    /// It has too many destinations.
    #[error("{have} destinations are too many: {most} are allowed")]
    TooManyDestinations {
        /// How many it has.
        have: usize,
        /// How many it may have.
        most: usize,
    },
    /// It is too long.
    #[error("{have} octets are too many: {most} fit")]
    TooLarge {
        /// How long it is.
        have: usize,
        /// How long it may be.
        most: usize,
    },
}

/// The outcome of a message for one destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The program cancelled the message.
    Cancelled,
    /// The destination confirmed the whole message.
    Delivered,
    /// The lifetime ended before a confirmation.
    Expired,
    /// It was given up.
    Failed(Failure),
    /// It was sent without asking for an acknowledgement.
    Sent,
}

/// Why a message was given up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The destination refused it.
    Aborted,
    /// A segment was sent as often as allowed, and the destination still does not have it.
    Lost,
    /// The destination did not answer.
    Silent,
}

/// What the driver should know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The outcome of a message for a destination: exactly one for each.
    Outcome {
        /// Which message.
        id: MessageId,
        /// Which destination.
        destination: IpAddr,
        /// What became of it.
        outcome: Outcome,
    },
    /// A finished transfer was forgotten for lack of room: a driver with a store of transfers may delete this
    /// transfer's identity.
    Forgotten {
        /// Its originator.
        source: IpAddr,
        /// Its number there.
        serial: u16,
    },
    /// A message arrived.
    Received(Delivered),
    /// A message is about to be sent for the first time. A driver that keeps messages over a restart stores `resume` with
    /// it before it asks for something to transmit.
    Started {
        /// Which message.
        id: MessageId,
        /// The destination concerned; `None` means all destinations, by `via`.
        destination: Option<IpAddr>,
        /// The data that continues the same transfer after a restart.
        resume: Resume,
    },
}

/// A message that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivered {
    /// Of its originator.
    pub source: IpAddr,
    /// Of the programs.
    pub ports: Ports,
    /// With which it came.
    pub precedence: Precedence,
    /// All of it.
    pub data: Vec<u8>,
    /// The transfer's identity: a driver stores it with the message and hands it to [`super::Sar::remember`] after a
    /// restart, so that no message is delivered twice.
    pub identity: Remembered,
}

/// How a datagram arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// From which address.
    pub from: IpAddr,
    /// Whether it was sent to a group.
    pub is_group: bool,
    /// What its IP header says.
    pub precedence: Precedence,
}

/// Where a datagram goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// To port 1624 of this address.
    pub to: IpAddr,
    /// For its IP header.
    pub precedence: Precedence,
    /// If `to` is a group: the members addressed (the option of RFC 1770, where a driver can).
    pub listed: Option<Arc<[IpAddr]>>,
}
