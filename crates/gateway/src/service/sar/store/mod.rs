//! Stores the messages that must survive: accepted messages, and arrived messages not yet taken.
//!
//! ```text
//!  service ─ push, flush ─▶ queue ─▶ thread: one frame, one fdatasync for all that waits ─▶ segments
//!          ◀── committed, room ─────┘    then: spare segments made, the oldest segment emptied
//! ```
//! The store is a log of records in files of one size, allocated before they are written: so obstacles to a record
//! are known before its message is accepted, and the end of a message can be noted on a full disk. While the service
//! runs, all needed data is in memory anyway; the log is read only at the start.

mod log;
mod reader;
mod record;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use log::Options;
pub use reader::{NotOpened, Open, Recovered, last_written, read_segments};
pub use record::{Accepted, Arrived, Ended, Key, Known, Record};
pub use writer::{Store, Ticket};
