//! The command `trackway reload`: gives the running gateway another configuration.

use std::io::Write as _;
use std::process::ExitCode;

use gateway::Reloaded;

use crate::control::Control;
use crate::failure;
use crate::terminal;

/// Let the gateway that runs in this network namespace read its configuration again.
///
/// It is checked as a whole first; if anything is wrong nothing changes. What did not change is not disturbed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 the configuration is in force, 1 the gateway took it back or does not answer, 2 the file is wrong,
  4 no gateway runs here

Example:
  trackway reload")]
pub struct Args {
    #[command(flatten)]
    control: Control,
}

/// Asks the gateway, and prints what has changed.
pub fn run(Args { control }: Args) -> anyhow::Result<ExitCode> {
    match gateway::ask_reload(control.path())? {
        Reloaded::Changed(changes) => {
            let mut out = terminal::out();
            if changes.is_empty() {
                writeln!(out, "nothing has changed")?;
            }
            for change in changes {
                writeln!(out, "{change}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Reloaded::Invalid(why) => Err(failure::misuse(why)),
        Reloaded::Refused(why) => anyhow::bail!("nothing has changed: {why}"),
    }
}
