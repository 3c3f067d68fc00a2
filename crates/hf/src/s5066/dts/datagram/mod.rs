//! C_PDUs without acknowledgement, expedited or not: types 7 and 8 (Annex C, section 3.10).
//!
//! ```text
//!        push                poll                     handle_datagram          poll_arrived
//!  cas ────────▶ ┌────────┐ ──────▶ pieces, repeats ────────────────▶ ┌──────────┐ ───────▶ cas
//!      ◀──────── │ Sender │                                           │ Receiver │
//!   poll_outcome └────────┘                next_timeout: windows close └──────────┘
//! ```
//!
//! A C_PDU has a reception window: until it closes its pieces may be sent, and at its end what has
//! arrived is handed on, with the places of errors and gaps.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{Arrived, Receiver, ReceiverStats};
pub use sender::{DatagramFrame, DatagramPdu, Sender, SenderStats};

/// The unit of reception windows, in milliseconds.
const WINDOW_UNIT_MS: u64 = 500;
