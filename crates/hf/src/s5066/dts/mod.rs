//! The data transfer sublayer, Annex C: C_PDUs in frames over a bad channel.
//!
//! ```text
//!          C_PDU                                                  octets
//!  cas ───────────▶ arq::Sender, expedited, datagram ─▶ wire ───────────────▶ modem
//!      ◀─────────── arq::Receiver, …                 ◀─ scan ◀───────────────
//!                   management, reset
//! ```
//!
//! The machines are for one peer each, hold no clock, and know nothing of air time: who owns them
//! decides when this station transmits, and tells them which of its transmissions it is.

pub mod arq;
pub mod datagram;
pub mod expedited;
pub mod management;
pub mod policy;
pub mod reset;
pub mod scan;
#[cfg(test)]
mod tests;
pub mod warning;
pub mod wire;
