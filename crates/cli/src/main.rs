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
#[cfg(feature = "laboratory")]
mod interrupt;
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

use std::ffi::OsStr;
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

/// The commands that stay in memory: parsed by themselves, because the descriptions of all other commands would take
/// more memory than a helper needs.
#[derive(Debug, Parser)]
#[command(name = "trackway", version, propagate_version = true)]
enum Resident {
    KeepFiles(keep_files::Args),
    KeepFolder(keep_folder::Args),
    Run(run::Args),
}

/// Parses the command line.
fn parse() -> Result<Command, clap::Error> {
    let name = std::env::args_os().nth(1);
    let is_resident = ["keep-files", "keep-folder", "run"]
        .map(Some)
        .contains(&name.as_deref().and_then(OsStr::to_str));
    if !is_resident {
        return Cli::try_parse().map(|cli| cli.command);
    }
    Ok(match Resident::try_parse()? {
        Resident::KeepFiles(args) => Command::KeepFiles(args),
        Resident::KeepFolder(args) => Command::KeepFolder(args),
        Resident::Run(args) => Command::Run(args),
    })
}

fn main() -> ExitCode {
    let command = match parse() {
        Ok(command) => command,
        Err(said) => return failure::refuse(&said, &Cli::command()),
    };
    let outcome = match command {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_stay_in_memory_are_parsed_as_all_others() {
        let whole = Cli::command();
        for alone in Resident::command().get_subcommands() {
            let name = alone.get_name();
            let among = whole.find_subcommand(name).expect("a command");

            let [alone, among] = [alone, among].map(|it| it.clone().render_long_help().to_string());
            assert_eq!(alone, among, "{name}");
        }
    }

    #[test]
    fn every_command_shows_examples_that_it_takes() {
        let mut wrong = Vec::new();

        judge(&Cli::command(), &mut wrong);

        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Adds the commands below `command` without an example, and the examples that no command takes.
    fn judge(command: &clap::Command, wrong: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
            // A command may go on in the next line.
            let help = help.replace("\\\n", " ");
            let examples: Vec<&str> = help
                .lines()
                .filter(|line| line.starts_with("  ") && line.contains("trackway "))
                .collect();
            if examples.is_empty() {
                wrong.push(format!(
                    "{} of {} has no example",
                    inner.get_name(),
                    command.get_name()
                ));
            }
            // An ellipsis stands for a word that another command prints.
            for example in examples.into_iter().filter(|it| !it.contains("...")) {
                if let Err(said) = Cli::try_parse_from(words(example)) {
                    wrong.push(format!("{example}: {said}"));
                }
            }
            judge(inner, wrong);
        }
    }

    /// The words of the program's own command in a line of shell.
    fn words(line: &str) -> Vec<String> {
        let (_, from) = line.split_once("trackway ").expect("the program's name");
        let mut words = vec!["trackway".to_owned(), String::new()];
        let mut quote = None;
        for letter in from.chars() {
            let word = words.last_mut().expect("never empty");
            match letter {
                _ if quote == Some(letter) => quote = None,
                '\'' | '"' if quote.is_none() => quote = Some(letter),
                '|' | '<' | '>' | '&' | '#' | ';' if quote.is_none() => break,
                ' ' if quote.is_none() => words.push(String::new()),
                _ => word.push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }
}
