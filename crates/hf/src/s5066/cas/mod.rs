//! The channel access sublayer, Annex B: links between stations, and who may transmit when.
//!
//! ```text
//!   link     one end of a link with one other station: call, accept, break
//!   access   how those are kept apart who want to transmit at once (Annex K)
//!   floor    when this station may transmit: after others' ends of transmission, by turn, slot
//!            or chance
//!   cpdu     the octets of it
//! ```

mod access;
pub mod cpdu;
mod floor;
pub mod link;

pub use access::{Access, Times};
pub use floor::Floor;
pub use link::PhysicalLink;
