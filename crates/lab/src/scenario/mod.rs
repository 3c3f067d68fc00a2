//! Scenario files: a network and its traffic, described in TOML. `docs/guide/scenario.md` explains them.
//!
//! ```text
//!  text ──▶ Reader ──▶ Plan ──▶ Built ──▶ Report
//!    ▲     names,       │ ▲     a World,
//!    └──── ranges ──────┘ │     run, then read out
//!          to_toml       code
//! ```

mod hf;
mod link;
mod motion;
mod names;
mod net;
mod network;
mod plan;
mod radio;
mod reader;
mod report;
mod routing;
mod schema;
mod table;
pub mod tactical;
#[cfg(test)]
mod tests;
mod timeless;
mod traffic;
mod watched;
mod writer;

use std::collections::BTreeSet;
use std::path::Path;

pub use hf::{FrequencyReport, HfReport};
pub use motion::Movement;
pub use net::{NetReport, NetStationReport};
pub use network::{Built, Watched};
pub use plan::{
    Flow, Link, Net, Node, Plan, Radio, Route, Routing, Station, Stream, Target, TcpncTunnel,
    Transfer, Tunnel,
};
pub use radio::{RadioReport, StationReport};
pub use report::{
    FlowReport, HopReport, LinkReport, NodeReport, Report, StreamReport, TransferReport,
};
pub use routing::RoutingReport;
pub use schema::schema;
pub use settings::Complaint;
use settings::Source;
use settings::kind::Kind;
pub use tactical::{Bgp, BgpReport, Messages, MessagesReport, Over, Peers};

/// A scenario file may have this many octets.
pub(crate) const MAX_OCTETS: u64 = 4 << 20;

impl Plan {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// With the first thing that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Complaint> {
        Self::of(&Source::read(path, MAX_OCTETS)?, path)
    }

    /// Reads a scenario from `text`, which stands in the file at `path`.
    ///
    /// # Errors
    /// With the first thing that is wrong with it.
    pub fn parse(path: &Path, text: String) -> Result<Self, Complaint> {
        Self::of(&Source::new(&path.display().to_string(), text), path)
    }

    fn of(source: &Source, path: &Path) -> Result<Self, Complaint> {
        if source.text().trim().is_empty() {
            let what =
                "it is empty: a scenario has nodes and what joins them, see docs/guide/scenario.md";
            return Err(source.about(what));
        }
        reader::read(source, folder(path))
            .map_err(|complaint| Kind::Scenario.instead(source).unwrap_or(complaint))
    }

    /// Parses a file as [`Plan::parse`] does and returns the plan, if there is one, with the whole names of the keys
    /// that the reader looked for: the keys allowed in this file, as far as the file has their tables.
    pub(crate) fn parse_keys(path: &Path, text: String) -> (Option<Self>, BTreeSet<String>) {
        let source = Source::new(&path.display().to_string(), text);
        let Ok(document) = source.parse() else { return (None, BTreeSet::new()) };
        let plan = reader::read_document(&document, &source, folder(path)).ok();
        (plan, document.asked())
    }
}

/// Where the files are that a file names.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
