//! STANAG 5066: packets between stations on HF radio, reliably or not.
//!
//! ```text
//!  client ─S_primitives─▶ sis::Server ─S_PDU─▶ cas ─C_PDU─▶ dts ─D_PDU─▶ modem
//!         ◀──────────────             ◀───────     ◀───────     ◀───────
//!  Annex A: clients, priorities   Annex B: links   Annex C: ARQ    waveform, channel
//! ```
//!
//! [`sis::Client`] is the other side of the socket. Everything follows Edition 3; extensions beyond Edition 3 are
//! marked.

mod address;
pub mod cas;
pub mod dts;
pub mod node;
pub mod seal;
pub mod service;
pub mod sis;

pub use address::{Address, NotAnAddress};
pub use node::Node;
