//! The tunnel beside no tunnel on paths of all kinds: is it ever worse?
//!
//! ```text
//!   matrix ── scenario ──▶ run each way ──▶ items: a quantity, ours and plain ──▶ finding
//! ```

mod finding;
mod item;
mod matrix;
mod run;
mod scenario;
#[cfg(test)]
mod tests;

use crate::everywhere;
use crate::prelude::*;
use scenario::Scenario;

pub use finding::Tunnel;

/// How traffic crosses the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// Through our tunnel, from hosts with CUBIC.
    Ours,
    /// As plain IP, from hosts with CUBIC.
    Cubic,
    /// As plain IP, from hosts with BBR.
    Bbr,
}

impl Way {
    const ALL: [Self; 3] = [Self::Ours, Self::Cubic, Self::Bbr];
    /// The ways without a tunnel.
    const PLAIN: [Self; 2] = [Self::Cubic, Self::Bbr];

    /// The name in results and of cells.
    fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
            Self::Ours => "ours",
        }
    }

    /// The name in tables and figures.
    fn title(self) -> &'static str {
        match self {
            Self::Bbr => "plain BBR",
            Self::Cubic => "plain CUBIC",
            Self::Ours => "our tunnel",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::Bbr => Ink::Other(0),
            Self::Cubic => Ink::Tcp,
            Self::Ours => Ink::Default,
        }
    }

    fn line(self, of: &str) -> Line {
        Line::new(format!("{}-{of}", self.name()), self.title(), self.ink())
    }
}

/// A scenario, crossed in one way.
type Try = everywhere::Try<Scenario, Way>;
