//! The `trackway` command: one file per subcommand. Without the feature `laboratory` only the gateway remains.

#[cfg(feature = "laboratory")]
mod air;
#[cfg(feature = "laboratory")]
mod animation;
#[cfg(feature = "laboratory")]
mod bench;
mod check;
mod completions;
mod control;
mod doctor;
mod down;
mod explain;
mod failure;
mod hand_over;
#[cfg(feature = "laboratory")]
mod hf;
mod import;
mod init;
mod keep_files;
mod keep_folder;
mod keygen;
#[cfg(feature = "laboratory")]
mod lab;
#[cfg(feature = "laboratory")]
mod link;
mod log;
mod man;
mod messages;
mod parameters;
mod peer;
mod reload;
mod run;
mod schema;
#[cfg(feature = "laboratory")]
mod sim;
mod status;
#[cfg(feature = "laboratory")]
mod storm;
mod terminal;
mod tls;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// IP over networks that lose, delay and starve it.
#[derive(Debug, Parser)]
#[command(name = "trackway", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "laboratory")]
    Air(air::Args),
    #[cfg(feature = "laboratory")]
    Bench(bench::Args),
    Check(check::Args),
    Completions(completions::Args),
    Doctor(doctor::Args),
    Down(down::Args),
    Explain(explain::Args),
    HandOver(hand_over::Args),
    #[cfg(feature = "laboratory")]
    Hf(Box<hf::Args>),
    Import(import::Args),
    Init(init::Args),
    KeepFiles(keep_files::Args),
    KeepFolder(keep_folder::Args),
    Keygen(keygen::Args),
    #[cfg(feature = "laboratory")]
    Lab(lab::Args),
    #[cfg(feature = "laboratory")]
    Link(Box<link::Args>),
    Man(man::Args),
    Parameters(parameters::Args),
    Peer(peer::Args),
    Receive(messages::receive::Args),
    Reload(reload::Args),
    Run(run::Args),
    Schema(schema::Args),
    Send(messages::send::Args),
    #[cfg(feature = "laboratory")]
    Sim(sim::Args),
    Status(status::Args),
    #[cfg(feature = "laboratory")]
    Storm(storm::Args),
    Tls(tls::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return failure::refuse(&said, &Cli::command()),
    };
    let outcome = match cli.command {
        #[cfg(feature = "laboratory")]
        Command::Air(args) => air::run(args),
        #[cfg(feature = "laboratory")]
        Command::Bench(args) => bench::run(args),
        Command::Check(args) => check::run(args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Doctor(args) => doctor::run(args),
        Command::Down(args) => down::run(args),
        Command::Explain(args) => explain::run(args),
        Command::HandOver(args) => hand_over::run(args),
        #[cfg(feature = "laboratory")]
        Command::Hf(args) => hf::run(*args),
        Command::Import(args) => import::run(args),
        Command::Init(args) => init::run(args),
        Command::KeepFiles(args) => keep_files::run(&args),
        Command::KeepFolder(args) => keep_folder::run(&args),
        Command::Keygen(args) => keygen::run(args),
        #[cfg(feature = "laboratory")]
        Command::Lab(args) => lab::run(args),
        #[cfg(feature = "laboratory")]
        Command::Link(args) => link::run(*args),
        Command::Man(args) => man::run(&args, Cli::command()),
        Command::Parameters(args) => parameters::run(args),
        Command::Peer(args) => peer::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Receive(args) => messages::receive::run(&args),
        Command::Run(args) => run::run(args),
        Command::Schema(args) => schema::run(&args),
        Command::Send(args) => messages::send::run(&args),
        #[cfg(feature = "laboratory")]
        Command::Sim(args) => sim::run(args),
        Command::Status(args) => status::run(&args),
        #[cfg(feature = "laboratory")]
        Command::Storm(args) => storm::run(&args),
        Command::Tls(args) => tls::run(args),
    };
    outcome.unwrap_or_else(|error| failure::report(&error))
}
