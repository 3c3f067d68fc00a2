//! The command `trackway schema`: JSON schemas of the files that people write, for editors.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::Value as Json;

use crate::terminal;

/// Print the JSON schema of a kind of file, for editors and programs.
///
/// Editors such as VS Code with Even Better TOML, or any with taplo, find it by the first line of a file:
/// `#:schema gateway.schema.json`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  trackway schema gateway > gateway.schema.json")]
pub struct Args {
    /// Of which files.
    kind: Kind,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// Configurations, for `trackway run`.
    Gateway,
    /// Scenarios, for `trackway sim run`, `lab tune` and `air`.
    #[cfg(feature = "laboratory")]
    Scenario,
    /// Options of two HF stations, for `trackway hf`.
    #[cfg(feature = "laboratory")]
    Hf,
}

/// Prints the schema.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    writeln!(terminal::out(), "{:#}", args.kind.schema())?;
    Ok(ExitCode::SUCCESS)
}

impl Kind {
    fn schema(self) -> Json {
        match self {
            Self::Gateway => gateway::config::schema(),
            #[cfg(feature = "laboratory")]
            Self::Scenario => ::lab::scenario::schema(),
            #[cfg(feature = "laboratory")]
            Self::Hf => crate::hf::schema(),
        }
    }
}

#[cfg(test)]
#[cfg(feature = "laboratory")]
mod tests;
