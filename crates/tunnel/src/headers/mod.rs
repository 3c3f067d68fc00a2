//! Compresses the headers of inner packets to their differences from headers that the peer knows.
//!
//! ```text
//!   first packet of a flow ──▶ whole, announces context 7 ──▶ peer keeps its headers
//!                                                      ◀───── report: 7 is here
//!   later packets          ──▶ 7, and what is not as it was in those headers
//! ```
//!
//! No packet refers to the packet before: every header is coded against the same *context*, which
//! never changes once announced, and is used only after the peer has confirmed it. So a packet that is
//! lost, late or given up takes no other packet with it.
//!
//! ```text
//!  octet 0     bits 0 and 1 ECN of the IP header, bit 2 an identification follows, bit 3 a checksum
//!              follows; TCP: bits 4 and 5 how the sequence number is written, bits 6 and 7 how the
//!              acknowledgement is; other protocols: zero
//!  octet 1     TCP alone: bits 0 and 1 how the time stamp is written, bits 2 and 3 how the one that is
//!              echoed is, bit 4 a window follows, bit 5 flags follow, bit 6 PSH, bit 7 options follow
//!  then        identification 2, checksum 2, sequence number, acknowledgement, time stamp, echoed time
//!              stamp, window 2, flags 1, options (count of 32-bit words 1, and they themselves)
//!  payload     to the end
//!
//!  numbers are written  0  not at all: as in the context
//!                       1  as a distance from the context's: 3 octets, of time stamps 2
//!                       2  in full: 4 octets
//! ```
//!
//! Lengths follow from the record's length, the checksum of an IPv4 header from the header. The checksums
//! of TCP and UDP are carried unchanged: a packet that was wrong before the tunnel is as wrong after it.
//!
//! ```text
//!   Compressor ──▶ coding ◀── Decompressor      coding recognizes headers, and codes and restores them
//! ```
//!
//! The names come from RFC 5795. `docs/protocols/nc.md` has the reasons and an example.

mod coding;
mod compressor;
mod decompressor;
#[cfg(test)]
mod tests;

pub use coding::{Headers, NoContext};
pub use compressor::{Compressor, Packing, Place};
pub use decompressor::Decompressor;

/// Contexts in each direction.
pub const CONTEXTS: usize = 256;
/// Octets of compressed headers at most: all numbers in full, and all options that TCP can have.
pub const LONGEST: usize = 2 + 2 + 2 + 16 + 2 + 1 + 1 + 40;
