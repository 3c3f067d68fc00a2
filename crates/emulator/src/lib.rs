//! The simulator's media in real time, between programs and interfaces of this machine.
//!
//! ```text
//!   air    Ethernet interfaces with simulated radios, whose stations move
//!   link   two Ethernet interfaces joined by a simulated link
//!   hf     two STANAG 5066 nodes, or two modems, joined by a simulated HF channel
//!   stop   the clock of a run, and its end        namespace   threads in network namespaces
//!   end    an interface, found                    device      an interface, in use
//! ```

pub mod air;
mod device;
mod end;
pub mod hf;
pub mod link;
pub mod namespace;
mod stop;

use std::time::{SystemTime, UNIX_EPOCH};

pub use end::{End, NoEnd};
pub use stop::Stop;

/// A seed from the time, for runs that nobody wants to repeat.
#[must_use]
pub fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}
