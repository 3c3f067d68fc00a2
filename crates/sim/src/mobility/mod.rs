//! Where nodes are, and how they move: models and imported traces make a [`Motion`] for each node.

mod motion;

pub use motion::{Leg, Motion, Position, TooFast};
