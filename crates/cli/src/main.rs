//! The `trackway` command: one file per subcommand.

mod bench;
mod failure;
mod lab;
mod link;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// IP over networks that lose, delay and starve it.
#[derive(Debug, Parser)]
#[command(name = "trackway", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Args),
    Lab(lab::Args),
    Link(Box<link::Args>),
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(args) => bench::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Link(args) => link::run(*args),
        Command::Sim(args) => sim::run(args),
    };
    outcome.unwrap_or_else(|error| failure::report(&error))
}
