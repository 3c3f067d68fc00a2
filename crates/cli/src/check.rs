//! `trackway check`: whether a configuration can be used.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use gateway::Config;
use gateway::doctor;
use serde_json::json;

use crate::failure;
use crate::terminal;

/// Check a gateway's configuration and start nothing.
///
/// All that is wrong with the file is told, each with its line and what is allowed. What is allowed and probably not
/// meant, such as a rule that never decides, is warned of, and so is what this host lacks for the file or has in the way
/// (`trackway doctor`). The exit code is about the file alone: 0 if it can be used, 2 if not.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  trackway check examples/hbh/hbh.toml\n  trackway check --offline /dev/stdin < node.toml"
)]
pub struct Args {
    /// The configuration, a TOML file.
    file: PathBuf,
    /// Check the file for another host: look neither at this host nor for key files.
    #[arg(long)]
    offline: bool,
    /// Print one JSON object, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Checks the file.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file, offline, json } = args;
    let read = if offline { Config::read_alone(&file) } else { Config::read(&file) };
    let config = match read {
        Ok(config) => config,
        Err(complaints) if json => {
            let said = complaints.to_string();
            let errors: Vec<_> = said.lines().collect();
            let outcome =
                json!({"usable": false, "errors": errors, "warnings": [], "findings": []});
            writeln!(terminal::out(), "{outcome}")?;
            return Ok(ExitCode::from(2));
        }
        Err(complaints) => return Err(failure::misuse(complaints)),
    };
    let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
    let findings = if offline { Vec::new() } else { doctor::examine(&config) };
    if json {
        let outcome =
            json!({"usable": true, "errors": [], "warnings": warnings, "findings": findings});
        writeln!(terminal::out(), "{outcome}")?;
        return Ok(ExitCode::SUCCESS);
    }
    for warning in warnings {
        writeln!(terminal::err(), "warning: {warning}")?;
    }
    for finding in findings {
        super::doctor::print(&mut terminal::err(), &finding)?;
    }
    writeln!(terminal::out(), "{}: all right", file.display())?;
    Ok(ExitCode::SUCCESS)
}
