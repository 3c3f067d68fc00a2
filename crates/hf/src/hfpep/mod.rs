//! TCP connections over HF radio: HF-PEP (STANAG 5066 Annex X) over streams of [SLEP](crate::slep).
//!
//! ```text
//!  client ══ TCP ══ initiator ~~~~~~~~ HF, a SLEP stream ~~~~~~~~ responder ══ TCP ══ server
//!                     open, write ─▶ opening, octets, end ─▶ Event::Connect, read
//! ```
//!
//! Each end ends TCP by itself; the radio carries only the octets of the connection, behind an [opening](Opening) that
//! names the target. [Flows](flows) of UDP go beside them, in datagrams. Settings and design decisions are in
//! `docs/guide/hfpep.md`.

pub mod answer;
mod config;
pub mod flows;
mod pep;
pub mod pieces;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod wire;

pub use answer::Answer;
pub use config::{Config, PARAMETERS};
pub use pep::{Event, HfPep, MAX_OPENING, Phase, SessionId, Status, has_share};
pub use stats::Stats;
pub use wire::{Opening, Target, Tls};
