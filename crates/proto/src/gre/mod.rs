//! Generic Routing Encapsulation: packets within IP between two routers (RFC 2784, 2890, 7676).
//!
//! ```text
//!   packet ─▶ Packet::emit ─▶ IP, protocol 47 ─▶ Packet::parse ─▶ packet
//! ```

pub mod wire;

pub use wire::{Malformed, Packet};
