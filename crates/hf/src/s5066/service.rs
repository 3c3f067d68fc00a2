//! The messages between the subnetwork interface and the layers below it.
//!
//! ```text
//!           Request ──▶          Outcome ◀── one for each request
//!  sis::Server                                                     cas, dts
//!           Command ──▶      Indication, LinkEvent ◀──
//! ```

use std::ops::Range;

use base::time::Time;

use super::Address;
use crate::modem::Waveform;

/// A connection to a client; the number is never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId(pub u32);

/// The number of a request until its outcome is reported; it is never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub u64);

impl RequestId {
    /// Its low 32 bits, by which a remote node may name it (EP9).
    #[must_use]
    pub const fn low(self) -> u32 {
        let [a, b, c, d, ..] = self.0.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// With or without acknowledgement.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Mode {
    /// Repeated until acknowledged.
    Arq {
        /// Whether the S_PDU waits at the receiver for earlier ones.
        in_order: bool,
    },
    /// Sent a given number of times.
    NonArq {
        /// Whether the S_PDU waits at the receiver for earlier ones.
        in_order: bool,
        /// Repeats after the first transmission, 0 to 15.
        repeats: u8,
    },
}

impl Mode {
    /// Sent once, and delivered on arrival.
    pub const ONCE: Self = Self::NonArq { in_order: false, repeats: 0 };

    /// Whether it is repeated until acknowledged.
    #[must_use]
    pub const fn is_arq(self) -> bool {
        matches!(self, Self::Arq { .. })
    }
}

/// The highest priority (Annex A, section 2.1); the lowest is 0.
pub const MAX_PRIORITY: u8 = 15;
/// How many there are.
pub const PRIORITIES: usize = MAX_PRIORITY as usize + 1;

/// An S_PDU to be carried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The number that the outcome will have.
    pub id: RequestId,
    /// The destination, which is a group only without ARQ.
    pub to: Address,
    /// The mode of delivery, with ARQ or without.
    pub mode: Mode,
    /// Whether it goes before all others; with ARQ one at a time.
    pub is_expedited: bool,
    /// The priority, up to [`MAX_PRIORITY`], which expedited ones have.
    pub priority: u8,
    /// When its time to live ends.
    pub expires: Option<Time>,
    /// Whether it is retried within its time to live, if its peer does not answer or refuses a link, and
    /// it certainly did not arrive.
    pub is_retried: bool,
    /// The S_PDU.
    pub s_pdu: Vec<u8>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The peer has received the whole S_PDU; without ARQ, the S_PDU was sent the requested number of times.
    Done,
    /// It failed.
    Failed {
        /// The reason.
        why: Failure,
        /// Whether the whole S_PDU was sent, so that the peer may have received it nevertheless; otherwise the peer
        /// certainly has not.
        may_have_arrived: bool,
    },
}

impl Outcome {
    /// The failure of a request that certainly did not arrive.
    #[must_use]
    pub const fn not_arrived(why: Failure) -> Self {
        Self::Failed { why, may_have_arrived: false }
    }

    /// The failure of a request that may have arrived.
    #[must_use]
    pub const fn unknown(why: Failure) -> Self {
        Self::Failed { why, may_have_arrived: true }
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// Its time to live ended.
    Expired,
    /// The peer did not answer.
    NoResponse,
    /// The peer refused a link.
    Refused,
    /// The link was lost or reset.
    LinkLost,
    /// The client withdrew it.
    TakenBack,
}

/// An S_PDU that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Indication {
    /// The sender.
    pub from: Address,
    /// The destination: this node or a group.
    pub to: Address,
    /// How it came; the sender's repeats are not known and 0.
    pub mode: Mode,
    /// Whether it went before all others.
    pub is_expedited: bool,
    /// The S_PDU, zeros where octets are missing.
    pub s_pdu: Vec<u8>,
    /// Octets of `s_pdu` that arrived with errors; only without ARQ.
    pub errored: Vec<Range<u16>>,
    /// Octets of `s_pdu` that did not arrive; only without ARQ.
    pub missing: Vec<Range<u16>>,
}

/// A command of the subnetwork interface to the layers below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Command {
    /// Make an exclusive link, which hard links need.
    MakeExclusive {
        /// With whom.
        peer: Address,
    },
    /// Break the exclusive link.
    BreakExclusive {
        /// With whom.
        peer: Address,
    },
    /// Ask a node to transmit to us with a waveform.
    AskRate {
        /// Which.
        node: Address,
        /// With what.
        waveform: Waveform,
    },
    /// Report the state of a node to a client.
    Describe {
        /// Whom.
        client: ClientId,
        /// Which.
        node: Address,
    },
    /// Withdraw a request, if nothing of it was sent.
    TakeBack {
        /// Which.
        id: RequestId,
    },
}

/// A change of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkEvent {
    /// A link was made: a soft one, or an exclusive one requested here or made by the peer.
    Made {
        /// With whom.
        peer: Address,
        /// Whether others are kept out.
        is_exclusive: bool,
        /// Whether this node called.
        is_caller: bool,
    },
    /// The requested exclusive link could not be made.
    NotMade {
        /// With whom.
        peer: Address,
        /// Whether the peer answered.
        has_answered: bool,
    },
    /// A link was ended or lost.
    Broken {
        /// With whom.
        peer: Address,
        /// Whether others were kept out.
        is_exclusive: bool,
    },
}
