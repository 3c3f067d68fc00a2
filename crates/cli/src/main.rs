//! The `trackway` command: one file per subcommand.

mod air;
mod animation;
mod bench;
mod check;
mod control;
mod down;
mod explain;
mod failure;
mod hf;
mod keep_files;
mod keygen;
mod lab;
mod link;
mod log;
mod messages;
mod parameters;
mod reload;
mod run;
mod sim;
mod status;
mod terminal;
mod tls;

use std::alloc::System;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// The system's allocator, which counts: `trackway bench` tells what allocates.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// IP over networks that lose, delay and starve it.
#[derive(Debug, Parser)]
#[command(name = "trackway", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Air(air::Args),
    Bench(bench::Args),
    Check(check::Args),
    Down(down::Args),
    Explain(explain::Args),
    Hf(Box<hf::Args>),
    KeepFiles(keep_files::Args),
    Keygen(keygen::Args),
    Lab(lab::Args),
    Link(Box<link::Args>),
    Parameters(parameters::Args),
    Receive(messages::receive::Args),
    Reload(reload::Args),
    Run(run::Args),
    Send(messages::send::Args),
    Sim(sim::Args),
    Status(status::Args),
    Tls(tls::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return failure::refuse(&said),
    };
    let outcome = match cli.command {
        Command::Air(args) => air::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Check(args) => check::run(args),
        Command::Down(args) => down::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Hf(args) => hf::run(*args),
        Command::KeepFiles(args) => keep_files::run(&args),
        Command::Keygen(args) => keygen::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Link(args) => link::run(*args),
        Command::Parameters(args) => parameters::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Receive(args) => messages::receive::run(&args),
        Command::Run(args) => run::run(args),
        Command::Send(args) => messages::send::run(&args),
        Command::Sim(args) => sim::run(args),
        Command::Status(args) => status::run(args),
        Command::Tls(args) => tls::run(args),
    };
    outcome.unwrap_or_else(|error| failure::report(&error))
}
