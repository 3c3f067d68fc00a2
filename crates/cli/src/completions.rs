//! `trackway completions`: lets a shell complete the names of commands and options.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::failure;

/// Print what a shell needs to complete commands and options.
///
/// The Debian package has the files for bash, fish and zsh already.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway completions bash > /etc/bash_completion.d/trackway
  trackway completions fish > ~/.config/fish/completions/trackway.fish
  trackway completions zsh > \"${fpath[1]}/_trackway\"")]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the completions of the `whole` program for one shell.
pub fn run(args: &Args, mut whole: Command) -> anyhow::Result<ExitCode> {
    let name = whole.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole, name, &mut script);
    failure::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
