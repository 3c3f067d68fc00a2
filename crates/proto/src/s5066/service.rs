//! What the subnetwork interface asks of the layers below it, and what they answer.
//!
//! ```text
//!           Request ──▶          Outcome ◀── one for each request
//!  sis::Server                                                     cas, dts
//!           Command ──▶      Indication, LinkEvent ◀──
//! ```

use std::ops::Range;

use super::Address;
use crate::modem::Waveform;
use crate::time::Time;

/// A connection to a client; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId(pub u32);

/// Names a request until its outcome is told; never used again.
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

/// How an S_PDU travels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Repeated until acknowledged.
    Arq {
        /// Whether it waits at the receiver for those sent before it.
        in_order: bool,
    },
    /// Repeated until acknowledged, one S_PDU at a time, before all others.
    ExpeditedArq,
    /// Sent without acknowledgement, before all others.
    ExpeditedNonArq,
    /// Sent without acknowledgement.
    NonArq {
        /// Whether it waits at the receiver for those sent before it.
        in_order: bool,
        /// Times that it is sent again, 0 to 15.
        repeats: u8,
    },
}

/// An S_PDU to be carried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// What the outcome will name.
    pub id: RequestId,
    /// To whom; a group only without ARQ.
    pub to: Address,
    /// How.
    pub mode: Mode,
    /// 0 to 15, the highest.
    pub priority: u8,
    /// When it is of no more use.
    pub expires: Option<Time>,
    /// Whether it is tried again, as long as it is of use, when its peer does not answer or refuses a
    /// link, and it surely did not arrive.
    pub is_retried: bool,
    /// The S_PDU.
    pub s_pdu: Vec<u8>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The peer has all of it; without ARQ: it was sent as often as asked.
    Done,
    /// It failed.
    Failed {
        /// Why.
        why: Failure,
        /// Whether all of it was sent, so that the peer may have it nevertheless; otherwise it surely
        /// has not.
        may_have_arrived: bool,
    },
}

impl Outcome {
    /// Of what surely did not arrive.
    #[must_use]
    pub const fn not_arrived(why: Failure) -> Self {
        Self::Failed { why, may_have_arrived: false }
    }

    /// Of what may have arrived.
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
    /// The peer answers nobody.
    NoResponse,
    /// The peer refused a link.
    Refused,
    /// The link was lost or reset.
    LinkLost,
    /// Who asked for it has taken it back.
    TakenBack,
}

/// An S_PDU that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Indication {
    /// Who sent it.
    pub from: Address,
    /// To whom: this node or a group.
    pub to: Address,
    /// How it came; the sender's repeats are not known and 0.
    pub mode: Mode,
    /// The S_PDU, zeros where octets are missing.
    pub s_pdu: Vec<u8>,
    /// Octets of `s_pdu` that arrived with errors; only without ARQ.
    pub errored: Vec<Range<u16>>,
    /// Octets of `s_pdu` that did not arrive; only without ARQ.
    pub missing: Vec<Range<u16>>,
}

/// What the subnetwork interface wants of the layers below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Command {
    /// Make an exclusive link, on which hard links live.
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
    /// Tell a client how it is with a node.
    Describe {
        /// Whom.
        client: ClientId,
        /// Which.
        node: Address,
    },
    /// Give up a request, if nothing of it was sent.
    TakeBack {
        /// Which.
        id: RequestId,
    },
}

/// What happens to links.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkEvent {
    /// A link is up: a soft one, or the exclusive one that was asked for, or that the peer made.
    Made {
        /// With whom.
        peer: Address,
        /// Whether others are kept out.
        is_exclusive: bool,
        /// Whether this node called.
        is_caller: bool,
    },
    /// The exclusive link that was asked for cannot be had.
    NotMade {
        /// With whom.
        peer: Address,
        /// Whether the peer answered.
        has_answered: bool,
    },
    /// A link is down.
    Broken {
        /// With whom.
        peer: Address,
        /// Whether others were kept out.
        is_exclusive: bool,
    },
}
