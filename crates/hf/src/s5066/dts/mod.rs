//! The data transfer sublayer, Annex C: C_PDUs in frames over a bad channel.
//!
//! ```text
//!          C_PDU                                                  octets
//!  cas ───────────▶ arq::Sender, expedited, datagram ─▶ wire ───────────────▶ modem
//!      ◀─────────── arq::Receiver, …                 ◀─ scan ◀───────────────
//!                   management, reset
//! ```
//!
//! Each machine serves one peer, holds no clock, and knows nothing of air time: its owner decides when this station
//! transmits, and passes the number of each transmission.

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
