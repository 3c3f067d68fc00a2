//! Scenario files: a network and its traffic, described in TOML. `docs/scenario.md` explains them.
//!
//! ```text
//!  text ──▶ File ──▶ Plan ──▶ World ──▶ Report
//!     syntax    names,    addresses,  run, then
//!     units     ranges    routes      read out
//! ```

mod file;
mod hf;
mod hop;
mod human;
mod network;
mod plan;
mod report;
mod source;
mod tcp;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

pub use hf::{FrequencyReport, HfReport};
pub use plan::Plan;
pub use report::{
    FlowReport, HopReport, LinkReport, NodeReport, Report, StreamReport, TransferReport,
};
pub use source::Complaint;

use source::Source;

/// A scenario file may have this many octets.
const MAX_OCTETS: u64 = 4 << 20;

impl Plan {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// With the first thing that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Complaint> {
        let about =
            |error: &std::io::Error| Complaint::about(path, format!("cannot be read: {error}"));
        let octets = fs::metadata(path).map_err(|error| about(&error))?.len();
        if octets > MAX_OCTETS {
            return Err(Complaint::about(path, format!("longer than {MAX_OCTETS} octets")));
        }
        let text = fs::read_to_string(path).map_err(|error| about(&error))?;
        Self::parse(path, text)
    }

    /// Reads a scenario from `text`, which stands in the file at `path`.
    ///
    /// # Errors
    /// With the first thing that is wrong with it.
    pub fn parse(path: &Path, text: String) -> Result<Self, Complaint> {
        let source = Source { path: path.to_owned(), text };
        let file = toml::from_str(&source.text).map_err(|error| source.unreadable(&error))?;
        plan::plan(&source, &file)
    }
}
