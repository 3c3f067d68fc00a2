//! A modem behind TCP: MIL-STD-188-110D, appendix A.5.1, both ends.
//!
//! ```text
//!            start, room, supply, end    ┌─────┐   TCP    ┌─────┐   poll_transmit
//!  station ────────────────────────────▶ │ Dte │ ◀──────▶ │ Dce │ ────────────────▶ transmitter
//!          ◀──────────────────────────── └─────┘  octets  └─────┘ ◀──────────────── receiver
//!            poll_event                                             handle_modem
//! ```
//!
//! The modem tells the rate and the block of its transmissions, at the beginning and whenever
//! somebody has changed them, and those of each reception. A station can set neither: nothing of
//! the protocol says what to transmit with (A.5.1.1.9; the modem's remote control is not part of it).
//!
//! [`Dte`] is a station that uses somebody's modem; [`Dce`] lets a modem of ours be used by others.
//! A session is one TCP connection: when it is over, make a new one. Only synchronous operation is
//! spoken, and octets are taken as aligned, which a modem need not grant after a missed preamble.

mod dce;
mod dte;
pub mod scan;
mod session;
#[cfg(test)]
mod tests;
pub mod wire;

pub use dce::{Config, Dce};
pub use dte::Dte;
pub use session::{Closed, Stats};

use std::time::Duration;

/// The suggested TCP port.
pub const PORT: u16 = 3000;
/// Blocks that a station gives before the transmission starts (A.5.1.2.5, step 4).
const PREFILL: usize = 3;
/// Both ends wait this long for CONNECT, and for its acknowledgement (A.5.1.2.1).
const HANDSHAKE: Duration = Duration::from_secs(3);
/// The modem waits this long for the answer to its probe (A.5.1.2.1).
const PROBE: Duration = Duration::from_secs(6);
/// After this long without a packet, an empty one is sent (A.5.1.2.2).
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// After this long without a packet from the other end, the session is over (A.5.1.2.2).
const SILENCE: Duration = Duration::from_secs(30);
/// Interval between status reports of a transmitting modem (A.5.1.2.5, step 8).
const STATUS: Duration = Duration::from_secs(2);
