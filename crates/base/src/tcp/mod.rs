//! TCP headers (RFC 9293): what everything that looks into segments shares.

mod peek;
mod wire;

pub use peek::Peek;
pub use wire::{
    Flags, HEADER, MAX_OPTIONS, MAX_SACK_BLOCKS, Malformed, Options, SackBlocks, Segment,
    Timestamps, header_len,
};
