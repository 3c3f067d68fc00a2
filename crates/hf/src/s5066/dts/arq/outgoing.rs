//! Input and output of the ARQ sender: C_PDUs, frames, and backlog.

use base::time::Time;

use crate::s5066::dts::wire::Data;
use crate::s5066::service::RequestId;

/// A C_PDU to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ArqPdu {
    /// The number that the outcome will have.
    pub id: RequestId,
    /// The C_PDU.
    pub octets: Vec<u8>,
    /// Whether the C_PDU waits at the receiver for earlier ones.
    pub in_order: bool,
    /// 0 to 15, the highest: the C_PDU overtakes less urgent ones.
    pub priority: u8,
    /// The time after which the C_PDU is useless.
    pub expires: Option<Time>,
    /// Whether it stays when all others fail, unless it may have arrived.
    pub is_retried: bool,
}

/// A frame to be sent now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataFrame<'a> {
    /// The contents of the frame.
    pub data: Data<'a>,
    /// Whether it was sent before.
    pub is_repeat: bool,
}

/// News from an acknowledgement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Acked {
    /// Frames that arrived.
    pub arrived: u32,
    /// Octets of their segments.
    pub arrived_octets: u64,
    /// Frames that were lost.
    pub lost: u32,
    /// Octets of their segments.
    pub lost_octets: u64,
}

/// The amount of data waiting to be sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ArqBacklog {
    /// Octets of C_PDUs that no frame has carried yet.
    pub unsent: usize,
    /// C_PDUs with such octets.
    pub unsent_c_pdus: usize,
    /// Frames that have a number and are due, most of them again.
    pub due: usize,
    /// Octets of their segments.
    pub due_octets: usize,
    /// Frames that were sent and not heard of.
    pub unanswered: usize,
    /// New frames that the window has room for.
    pub window: usize,
}

impl ArqBacklog {
    /// Whether nothing can be sent now.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.due == 0 && (self.unsent_c_pdus == 0 || self.window == 0)
    }
}

/// The frames to send again when no answer came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// All that is unanswered.
    All,
    /// The oldest frame and the newest: enough to be told of all.
    Probe,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SenderStats {
    /// Frames sent for the first time.
    pub frames: u64,
    /// Frames sent again.
    pub repeats: u64,
    /// Frames reported lost.
    pub lost: u64,
    /// C_PDUs that the peer has.
    pub done: u64,
    /// C_PDUs given up because their time was over.
    pub expired: u64,
    /// C_PDUs that a reset left unknown.
    pub unknown: u64,
    /// C_PDUs that were begun anew after a reset.
    pub begun_anew: u64,
    /// Resets.
    pub resets: u64,
}
