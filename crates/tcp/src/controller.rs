//! The congestion controller of a connection, whichever its algorithm.

use super::adaptive_pacing::AdaptivePacing;
use super::algorithm::{Algorithm, Finding};
use super::bbr::Bbr;
use super::congestion::CongestionControl;
use super::cubic::Cubic;
use super::newreno::NewReno;
use super::vegas::Vegas;

/// The congestion control of a connection.
#[derive(Clone, Debug)]
pub enum Controller {
    Bbr(Bbr),
    Cubic(Cubic),
    NewReno(NewReno),
    TcpAp(AdaptivePacing),
    Vegas(Vegas),
}

impl Controller {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Bbr => Self::Bbr(Bbr::default()),
            Algorithm::Cubic { fast_convergence, hystart } => {
                Self::Cubic(Cubic::new(fast_convergence, hystart))
            }
            Algorithm::NewReno { growth } => Self::NewReno(NewReno::new(growth)),
            Algorithm::TcpAp(config) => Self::TcpAp(AdaptivePacing::new(config)),
            Algorithm::Vegas(config) => Self::Vegas(Vegas::new(config)),
        }
    }

    /// The algorithm behind its trait.
    pub fn get(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Bbr(bbr) => bbr,
            Self::Cubic(cubic) => cubic,
            Self::NewReno(newreno) => newreno,
            Self::TcpAp(pacing) => pacing,
            Self::Vegas(vegas) => vegas,
        }
    }

    /// What the algorithm has found out.
    pub fn finding(&self) -> Finding {
        match self {
            Self::Bbr(bbr) => Finding::Bbr(bbr.finding()),
            Self::Cubic(_) | Self::NewReno(_) => Finding::Nothing,
            Self::TcpAp(pacing) => Finding::TcpAp(pacing.finding()),
            Self::Vegas(vegas) => Finding::Vegas(vegas.finding()),
        }
    }
}
