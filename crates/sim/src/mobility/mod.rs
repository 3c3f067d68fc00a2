//! Mobility of nodes: models and imported traces make a [`Motion`] for each node.
//!
//! ```text
//!  waypoint, paper      ─┐                 ┌─▶ a medium, which asks where nodes are
//!  setdest, bonnmotion  ─┴──▶ Motion ──────┼─▶ statistics: what changes between nodes in range
//!  (read by trace's rules, and tcl's)      └─▶ setdest, bonnmotion: files for other simulators
//! ```

pub mod bonnmotion;
mod motion;
pub mod paper;
pub mod setdest;
pub mod statistics;
mod tcl;
pub mod trace;
pub mod waypoint;

pub use motion::{Leg, Motion, Position, TooFast};
pub use trace::{Import, Trace};

/// Reads a file, which may be compressed: a movement file of ns-2 if a line of it begins with a dollar
/// sign, a trace of BonnMotion otherwise.
///
/// # Errors
/// When a line is wrong, or the file is too long.
pub fn read(file: &[u8]) -> Result<Import, trace::Invalid> {
    let octets = trace::plain(file)?;
    let mut lines = octets.split(|it| matches!(it, b'\n' | b'\r' | b';'));
    let is_script = lines.any(|it| it.trim_ascii_start().starts_with(b"$"));
    if is_script { setdest::read(&octets) } else { bonnmotion::read(&octets) }
}
