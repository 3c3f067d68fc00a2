//! The congestion control of a connection, and the estimates that it reports.

use super::congestion::Growth;
use super::{adaptive_pacing, bbr, vegas};

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
