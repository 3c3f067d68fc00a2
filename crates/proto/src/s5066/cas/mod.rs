//! The channel access sublayer, Annex B: links between stations, and who may transmit when.
//!
//! ```text
//!   link     one end of a link with one other station: call, accept, break
//!   floor    when this station may transmit: after others' ends of transmission, by turn, slot
//!            or chance (Annex K)
//!   cpdu     the octets of it
//! ```

pub mod cpdu;
mod floor;
pub mod link;

pub use floor::{Access, Floor, Times};
pub use link::Link;
