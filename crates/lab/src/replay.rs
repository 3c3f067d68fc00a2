//! Writes the runs of an experiment as scenario files, which `trackway sim run` can repeat.

use anyhow::Context as _;

use crate::claim::Claim;
use crate::grid::Cell;

/// A run as a scenario file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replay {
    /// What to call the file.
    pub file: String,
    /// The name of the cell.
    pub cell: String,
    /// What stands in the file.
    pub text: String,
}

/// Run number `run`, with the seeds of a family, of each cell of a claim that is a scenario and has
/// all words of this text in its name.
///
/// # Errors
/// When a scenario cannot be written.
pub fn scenarios(claim: &Claim, text: &str, family: u32, run: u32) -> anyhow::Result<Vec<Replay>> {
    let experiment = (claim.experiment)();
    let cells = experiment.cells.iter().enumerate();
    let chosen = cells.filter(|(_, cell)| cell.name().has(text));
    chosen.filter_map(|(number, cell)| replay(claim, number, cell, family, run)).collect()
}

fn replay(
    claim: &Claim,
    number: usize,
    cell: &Cell,
    family: u32,
    run: u32,
) -> Option<anyhow::Result<Replay>> {
    let plan = cell.plan(cell.seed(family, run))?;
    let (id, name) = (claim.id, cell.name().as_str());
    let text = plan.to_toml().with_context(|| format!("{id}, {name}"));
    Some(text.map(|text| Replay {
        file: format!("{id}-{number}.toml"),
        cell: name.to_owned(),
        text: format!("# {id}, seeds {family}, run {run} of: {name}\n{text}"),
    }))
}
