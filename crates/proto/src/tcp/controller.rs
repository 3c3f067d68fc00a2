//! Which congestion control a connection has.

use super::congestion::{Algorithm, CongestionControl};
use super::cubic::Cubic;
use super::newreno::NewReno;

/// The congestion control of a connection.
#[derive(Clone, Debug)]
pub(super) enum Controller {
    Cubic(Cubic),
    NewReno(NewReno),
}

impl Controller {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Cubic { fast_convergence, hystart } => {
                Self::Cubic(Cubic::new(fast_convergence, hystart))
            }
            Algorithm::NewReno { growth } => Self::NewReno(NewReno::new(growth)),
        }
    }

    /// The algorithm behind its trait.
    pub(super) fn get(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Cubic(cubic) => cubic,
            Self::NewReno(newreno) => newreno,
        }
    }
}
