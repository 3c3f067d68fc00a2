//! Two STANAG 5066 nodes, or two modems, and the HF channel that joins them, in real time.

mod exchange;
mod modems;
mod observer;
mod outcome;

pub use exchange::{Exchange, Trouble};
pub use modems::Modems;
pub use observer::{Observer, Tally};
pub use outcome::{Outcome, utilisation};
