//! Where nodes are, and how they move: models and imported traces make a [`Motion`] for each node.
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
