//! TCP headers (RFC 9293): shared by everything that reads segments.

mod peek;
#[cfg(test)]
mod tests;
mod wire;

pub use peek::Peek;
pub use wire::{
    Flags, HEADER, MAX_OPTIONS, MAX_SACK_BLOCKS, Malformed, Options, SackBlocks, Segment,
    Timestamps, header_len,
};
