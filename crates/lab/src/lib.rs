//! The laboratory: scenarios, experiments, statistics, figures and reports.

pub mod animation;
pub mod answer;
pub mod campaign;
pub mod claim;
pub mod figure;
pub mod finding;
pub mod grid;
pub mod hbh;
pub mod hf;
pub mod journal;
pub mod manet;
pub mod name;
pub mod nc;
pub mod net;
pub mod output;
mod prelude;
pub mod progress;
pub mod replay;
pub mod runner;
pub mod scenario;
pub mod stats;
mod sweep;
pub mod tactical;
pub mod tcp;
pub mod tune;
mod words;
pub mod worlds;

/// All claims that can be tested, group by group.
#[must_use]
pub fn claims() -> Vec<claim::Claim> {
    let mut claims = hbh::claims();
    claims.extend(nc::claims());
    claims.extend(hf::claims());
    claims.extend(manet::claims());
    claims.extend(tactical::claims());
    claims
}
