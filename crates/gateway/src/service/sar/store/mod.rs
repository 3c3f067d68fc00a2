//! What has to survive: messages that were accepted, and messages that have arrived and were not taken.
//!
//! ```text
//!  service ─ push, flush ─▶ queue ─▶ thread: one frame, one fdatasync for all that waits ─▶ segments
//!          ◀── committed, room ─────┘    then: spare segments made, the oldest segment emptied
//! ```
//! A log of records in files of one size that are allocated before they are written: what is in the way
//! of a record is known before it is accepted, and the end of a message can be noted on a full disk. All that is
//! needed while the service runs is in memory anyway; the log is read at the start alone.

mod log;
mod reader;
mod record;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use log::Options;
pub(super) use reader::{NotOpened, Open, Recovered, read_segments};
pub(super) use record::{Accepted, Arrived, Ended, Key, Known, Record};
pub(super) use writer::{Store, Ticket};
