//! The congestion controls of a connection, and the estimates that they report.

use super::adaptive_pacing::{self, AdaptivePacing};
use super::bbr::{self, Bbr};
use super::congestion::{CongestionControl, Growth};
use super::cubic::Cubic;
use super::newreno::NewReno;
use super::vegas::{self, Vegas};

/// The congestion control of a connection, with the parameters of each choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    /// A pace that follows the rate of delivery, whatever is lost.
    Bbr,
    /// RFC 9438.
    Cubic {
        /// Whether a flow that lost ground gives way to newer ones (RFC 9438, 4.7).
        fast_convergence: bool,
        /// Whether the first slow start ends when the round-trip time grows (RFC 9406).
        hystart: bool,
    },
    /// RFC 5681 and RFC 6582.
    NewReno {
        /// How acknowledgements open the window.
        growth: Growth,
    },
    /// NewReno, with segments paced to the rate of a chain of radios.
    TcpAp(adaptive_pacing::Config),
    /// A window that follows the round-trip time.
    Vegas(vegas::Config),
}

impl Algorithm {
    /// CUBIC with everything that its RFCs recommend.
    pub const CUBIC: Self = Self::Cubic { fast_convergence: true, hystart: true };
}

impl Default for Algorithm {
    fn default() -> Self {
        Self::NewReno { growth: Growth::Octets { limit: 2 } }
    }
}

/// The estimates of a controller, for figures and for observers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Finding {
    /// Of BBR.
    Bbr(bbr::Finding),
    /// Nothing but the window.
    #[default]
    Nothing,
    /// Of TCP-AP.
    TcpAp(adaptive_pacing::Finding),
    /// Of TCP Vegas.
    Vegas(vegas::Finding),
}

/// The machine of the chosen congestion control.
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
