//! `trackway send`: a message to one or several destinations.

use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base::quantity::Span;
use gateway::config::sar::SOCKET;
use serde_json::{Value, json};

use super::Service;
use crate::failure::misuse;
use crate::terminal;

/// Send a message by the gateway's `[sar]` service, and wait until each destination has it or is given up.
///
/// What the gateway has accepted it sends even if this command, the gateway or the machine is ended meanwhile.
/// The exit code is 0 when all destinations have it, 1 when one does not, 2 when something given is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway send report.txt 10.2.0.1 10.3.0.1 --port 5000 --precedence 2
  trackway send report.txt 10.2.0.1 --lifetime 10s     # a quick answer, if need be a bad one
  echo hello | trackway send - 10.2.0.1 --port 5000
  trackway send report.txt 10.2.0.1 --name report-17   # again by this name, it is the same message")]
pub struct Args {
    /// The file with the message; `-` for standard input.
    file: PathBuf,
    /// Addresses of gateways.
    #[arg(required = true)]
    to: Vec<IpAddr>,

    /// The port that programs receive it by.
    #[arg(long, default_value_t = 1_581)]
    port: u16,
    /// The port that an answer would be sent to.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    from_port: u16,
    /// From 0, routine, to 5, critical.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=5))]
    precedence: u8,
    /// Worth nothing after this long: 10min. It is tried until then, also to a destination that does not answer for
    /// hours. Without it, `lifetime` of `[sar]` counts, which is 24h unless set.
    #[arg(long)]
    lifetime: Option<Span>,
    /// Ask no destination for a confirmation.
    #[arg(long)]
    unacknowledged: bool,
    /// An address that reaches all destinations at once: a multicast group or a directed broadcast.
    #[arg(long, value_name = "ADDRESS")]
    via: Option<IpAddr>,
    /// A name of at most 64 octets. A message with it that was accepted is not sent again.
    #[arg(long, default_value = "")]
    name: String,
    /// End when it is accepted, and do not wait for outcomes.
    #[arg(long)]
    no_wait: bool,
    /// The socket of the service.
    #[arg(long, default_value = SOCKET, value_name = "PATH")]
    socket: PathBuf,
    /// Print what the gateway answers, a JSON object in each line, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Octets of a message at most, whatever the gateway's limit.
const LONGEST: u32 = 33_554_432;

/// Sends the message of `args`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let message = read(&args.file)?;
    let mut service = Service::connect(&args.socket)?;
    let request = json!({
        "do": "send",
        "to": args.to,
        "port": args.port,
        "from-port": args.from_port,
        "precedence": args.precedence,
        "lifetime": args.lifetime.map(|it| it.0.as_secs_f64()),
        "acknowledged": !args.unacknowledged,
        "via": args.via,
        "name": args.name,
        "octets": message.len(),
    });
    service.ask(&request, &message)?;
    let mut is_good = true;
    loop {
        let (answer, _) = service.answer()?;
        if args.json {
            writeln!(terminal::out(), "{answer}")?;
        }
        let left = match answer["is"].as_str() {
            Some("accepted") => {
                let goes_on = if args.no_wait { "" } else { "; the gateway goes on after Ctrl-C" };
                say(args, format_args!("accepted as message {}{goes_on}", answer["id"]))?;
                u64::from(!args.no_wait)
            }
            Some("outcome") => {
                is_good &= matches!(answer["outcome"].as_str(), Some("delivered" | "sent"));
                print(args, &answer)?;
                answer["left"].as_u64().unwrap_or_default()
            }
            Some("refused") => {
                let why = answer["why"].as_str().unwrap_or_default().to_owned();
                return Err(anyhow::anyhow!(why).context("the message is not accepted"));
            }
            _ => 1,
        };
        if left == 0 {
            return Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut message = Vec::new();
    // One more shows that the message is too long.
    let most = u64::from(LONGEST) + 1;
    let read = match file == Path::new("-") {
        true => io::stdin().take(most).read_to_end(&mut message),
        false => settings::file::open(file).and_then(|it| it.take(most).read_to_end(&mut message)),
    };
    read.map_err(|error| misuse(format_args!("cannot read {}: {error}", file.display())))?;
    if message.len() as u64 == most {
        return Err(misuse(format_args!("{} is longer than {LONGEST} octets", file.display())));
    }
    if message.is_empty() {
        return Err(misuse(format_args!(
            "{} is empty: a message has an octet at least",
            file.display()
        )));
    }
    Ok(message)
}

/// Prints progress for a person who waits for the rest.
fn say(args: &Args, what: std::fmt::Arguments<'_>) -> io::Result<()> {
    if args.json || !terminal::is_watched() && !args.no_wait {
        return Ok(());
    }
    writeln!(terminal::err(), "{what}")
}

fn print(args: &Args, answer: &Value) -> io::Result<()> {
    if args.json {
        return Ok(());
    }
    let text = |key: &str| answer[key].as_str().unwrap_or("-");
    let said = match text("outcome") {
        "cancelled" => "cancelled",
        "delivered" => "delivered",
        "expired" => "not delivered: its lifetime is over; it may have arrived nevertheless",
        "lost" => "not delivered: parts of it were lost again and again",
        "refused" => "not delivered: refused there",
        "sent" => "sent; no acknowledgement was asked for",
        "silent" => "not delivered: there is no answer; does a gateway with [sar] run there?",
        other => other,
    };
    writeln!(terminal::out(), "{}: {said}", text("to"))
}
