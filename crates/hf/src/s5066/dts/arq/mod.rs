//! Selective-repeat ARQ of one link: C_PDUs that arrive once or are known to have failed (Annex C,
//! sections 3.3, 3.4 and 6.2).
//!
//! ```text
//!         push                 poll(turn)                    handle_data              poll_delivered
//!  cas ──────────▶ ┌────────┐ ────────────▶ turns, noise ───────────────▶ ┌──────────┐ ─────────▶ cas
//!      ◀────────── │ Sender │ ◀─────────────────────────────────────────── │ Receiver │
//!     poll_outcome └────────┘  handle_ack(turn)                      acks  └──────────┘
//! ```
//!
//! Inside, frames are counted from the last reset on without going round, so numbers that could only be from before
//! the reset are recognised.
//!
//! **Half duplex.** An acknowledgement that comes after our transmission `turn` ended covers all of it: frames sent in
//! turns up to `turn` and not acknowledged are due again.
//!
//! **Once.** Within the numbers of one reset a frame is taken once, so a C_PDU is delivered once. [`Sender::reset`]
//! reports the outcomes of C_PDUs across resets: only C_PDUs whose last piece was never sent are sent again, because
//! all others may have been delivered.

mod acknowledgement;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use acknowledgement::Acknowledgement;
pub use receiver::{Delivered, Receiver, ReceiverStats, Verdict};
pub use sender::{Acked, ArqBacklog, ArqPdu, DataFrame, Repeat, Sender, SenderStats};

/// The most octets of a C_PDU: an S_PDU for the largest MTU, and headers.
pub const MAX_C_PDU: usize = 4_096 + 16;

/// Two ends do not speak of the same frames: their windows are to be reset. The tests are those of
/// Annex C, section 6.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OutOfSync {
    /// Test 4: the lower edge of an acknowledgement lies outside what was sent.
    #[error("an acknowledgement's lower edge lies outside what was sent")]
    AckEdge,
    /// Test 5: an acknowledged frame lies outside what was sent.
    #[error("a frame is acknowledged that was not sent")]
    AckNumber,
    /// A frame is missing that was acknowledged before.
    #[error("a frame is missing that was acknowledged before")]
    Forgotten,
    /// Test 2: the sender's lower edge lies outside the window.
    #[error("the sender's lower edge lies outside the window")]
    LowerEdge,
    /// Test 3: a frame lies outside the window.
    #[error("a frame's number lies outside the window")]
    Number,
    /// The other end numbers frames in another way.
    #[error("the other end's numbers are of another length")]
    Numbers,
    /// Test 1: the sender's upper edge lies outside the window.
    #[error("the sender's upper edge lies outside the window")]
    UpperEdge,
}
