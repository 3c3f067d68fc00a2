//! Generic Routing Encapsulation: packets within IP between two routers (RFC 2784, 2890, 7676).
//!
//! ```text
//!   packet ─▶ Packet::emit ─▶ IP, protocol 47 ─▶ carried ─▶ packet
//! ```

mod tunnel;
pub mod wire;

pub use tunnel::{Refused, carried};
pub use wire::{Malformed, Packet};
