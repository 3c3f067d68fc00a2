//! `trackway man`: the manual pages of all commands.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;

use crate::failure;

/// Print the manual page of the program or of one command, or write all pages into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway man run | man -l -         # the page of `trackway run`
  trackway man --out /usr/local/share/man/man1")]
pub struct Args {
    /// The command, with the names of its own commands behind it; without, the whole program.
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder, and make the folder if it is missing.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints or writes manual pages of the `whole` program.
pub fn run(args: &Args, mut whole: Command) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.out {
        let said = || format!("cannot write manual pages to {}", folder.display());
        fs::create_dir_all(folder).with_context(said)?;
        clap_mangen::generate_to(whole, folder).with_context(said)?;
        return Ok(ExitCode::SUCCESS);
    }
    whole.build();
    let mut command = &whole;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            failure::misuse(format!("`{}` has no command {name:?}", command.get_name()))
        })?;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).context("cannot write a manual page")?;
    failure::print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}
