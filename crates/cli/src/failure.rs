//! Exit status and message of a failed command.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
#[cfg(feature = "laboratory")]
use emulator::namespace::Unusable;
use gateway::NoGateway;
use settings::plain::{brief, without_numbers};

use crate::terminal;

/// The exit code of a command that asks a gateway where none runs.
const ABSENT: u8 = 4;

/// A mistake of the user's in a configuration, a scenario or an argument. Exit code 2.
#[derive(Debug)]
pub struct Misuse(String);

/// The error that ends a command because of a user's mistake.
pub fn misuse(message: impl fmt::Display) -> anyhow::Error {
    Misuse(message.to_string()).into()
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// The error that ends a command because no `kind` has the name that was written: with the name that is probably meant,
/// else with all.
pub fn no_such(kind: &str, written: &str, names: &[&str]) -> anyhow::Error {
    let remedy = match settings::nearest(written, names.iter().copied()) {
        Some(meant) => format!("{meant} is probably meant"),
        None => format!("there are {}", names.join(", ")),
    };
    misuse(format!("{written}: there is no such {kind}; {remedy}"))
}

/// The error that ends a command because of a network namespace: the user named one that is not there,
/// or something else is amiss.
#[cfg(feature = "laboratory")]
pub fn of_namespace(why: Unusable) -> anyhow::Error {
    match why {
        Unusable::Missing(_) => misuse(why),
        Unusable::NotOne { .. } | Unusable::NotPermitted => why.into(),
    }
}

/// Prints the whole of a result.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = terminal::out();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

/// Tells the user what went wrong, and the code to exit with.
///
/// A reader that closed our output has seen enough: that is no failure, and nothing is said.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_closed_pipe) {
        return ExitCode::SUCCESS;
    }
    // A key written in place of a name must not be shown.
    let said = without_numbers(&format!("{error:#}"));
    let said = settings::secret::redact(&said);
    for line in said.lines() {
        // If this fails as well, nobody is left to tell.
        let _ = writeln!(terminal::err(), "trackway: {}", brief(line));
    }
    if error.is::<Misuse>() {
        ExitCode::from(2)
    } else if error.is::<NoGateway>() {
        ExitCode::from(ABSENT)
    } else {
        ExitCode::FAILURE
    }
}

/// What the standard library and clap say about unreadable values, each with the words for a user.
const VALUES: [(&str, &str); 8] = [
    ("invalid digit found in string", "a whole number is expected"),
    ("cannot parse integer from empty string", "a whole number is expected"),
    ("number too large to fit in target type", "the number is too large"),
    ("invalid float literal", "a number is expected"),
    ("invalid IP address syntax", "an address is expected, such as 192.0.2.1 or 2001:db8::1"),
    ("invalid socket address syntax", "an address and a port are expected, such as 192.0.2.7:3000"),
    // Of `0 is not in 1..=9`.
    (" is not in ", " is not allowed, only "),
    ("..=", " to "),
];

/// Ends like clap for a refused command line of `program`: with help, the version, or the mistake and what is allowed;
/// a key written in the place of an option or a value is not repeated.
pub fn refuse(said: &clap::Error, program: &clap::Command) -> ExitCode {
    if !said.use_stderr() {
        // Help and version text repeat no input.
        return said
            .print()
            .map_or_else(|why| report(&terminal::named(&why).into()), |()| ExitCode::SUCCESS);
    }
    let text = said.render().to_string();
    let mut plain = text.clone();
    for (theirs, ours) in VALUES {
        plain = plain.replace(theirs, ours);
    }
    if said.kind() == ErrorKind::InvalidSubcommand && !plain.contains("tip:") {
        plain = plain.replacen("\n\n", &format!("; there are {}\n\n", commands(program)), 1);
    }
    let redacted = settings::secret::redact(&plain);
    let lines: Vec<_> = redacted.split('\n').map(brief).collect();
    match lines.join("\n") {
        plain if plain == text => said.exit(),
        plain => {
            let _ = write!(terminal::err(), "{plain}");
            ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2))
        }
    }
}

/// The commands of the command that was written last.
fn commands(program: &clap::Command) -> String {
    let written = std::env::args().skip(1);
    let last = written.fold(program, |last, word| last.find_subcommand(word).unwrap_or(last));
    let all = last.get_subcommands().filter(|it| !it.is_hide_set());
    all.map(clap::Command::get_name).collect::<Vec<_>>().join(", ")
}

fn is_closed_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
