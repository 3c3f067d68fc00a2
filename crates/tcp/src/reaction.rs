//! Keeps the send side's state about losses and congestion.

use base::time::Time;

use super::resent::Resent;
use super::seq::Seq;

/// The sender's recovery state, and what it remembers of earlier losses.
#[derive(Clone, Debug)]
pub(super) struct Reaction {
    pub(super) recovery: Option<Recovery>,
    /// What that sent again.
    pub(super) resent: Resent,
    /// The congestion control had the oldest segment sent again, without a recovery.
    pub(super) repairs: bool,
    /// The state before a timeout, for the case that the timeout was needless.
    pub(super) undo: Option<Undo>,
    /// No fast retransmit before the peer has acknowledged up to here.
    pub(super) recover: Seq,
    /// No further reduction by ECN before the peer has acknowledged up to here.
    pub(super) reduced_until: Seq,
    /// Duplicate acknowledgements in a row.
    pub(super) duplicates: u32,
    /// Octets in flight that went by limited transmit.
    pub(super) limited: u64,
}

impl Reaction {
    pub(super) fn new(iss: Seq) -> Self {
        Self {
            recovery: None,
            resent: Resent::default(),
            repairs: false,
            undo: None,
            recover: iss,
            reduced_until: iss,
            duplicates: 0,
            limited: 0,
        }
    }

    /// Whether a loss was found that is not yet repaired.
    pub(super) fn is_repairing(&self) -> bool {
        self.recovery.is_some() || self.repairs
    }
}

/// A fast recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// It ends when everything below is acknowledged (RecoveryPoint).
    pub(super) point: Seq,
    /// Beyond what was sent again (HighRxt).
    pub(super) high_rxt: Seq,
    /// A last resort is allowed once this is passed (RescueRxt).
    pub(super) rescue_rxt: Seq,
    /// Whether a partial acknowledgement came.
    pub(super) is_partial: bool,
}

/// What a needless timeout is undone to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// When the timer first expired.
    pub(super) at: Time,
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
}
