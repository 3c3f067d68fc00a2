//! The command `trackway receive`: takes received messages.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use gateway::config::sar::SOCKET;
use serde_json::{Value, json};
use whole::write_private;

use super::Service;
use crate::terminal;

/// Receive messages by the gateway's `[sar]` service, one unless told otherwise.
///
/// A message counts as taken when it has been written; before, the gateway keeps it, also over a restart.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway receive 5000 > report.txt
  trackway receive 5000 --follow --into inbox
  trackway receive --json")]
pub struct Args {
    /// The port that messages are sent to; without it, all ports that no other program receives.
    port: Option<u16>,

    /// Messages to receive.
    #[arg(long, default_value_t = 1, value_name = "MESSAGES")]
    count: u64,
    /// Receive until ended.
    #[arg(long, conflicts_with = "count")]
    follow: bool,
    /// Write each message into a file of its own, for this user alone, in this folder, called by its number; without it, they go to
    /// standard output, one after the other.
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// The socket of the service.
    #[arg(long, default_value = SOCKET, value_name = "PATH")]
    socket: PathBuf,
    /// Print a JSON object for each message: where it is from, and its octets as `hex` or its `file`.
    #[arg(long)]
    json: bool,
}

/// Receives messages according to `args`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.into {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("making {}", folder.display()))?;
    }
    let mut service = Service::connect(&args.socket)?;
    service.ask(&json!({"do": "receive", "port": args.port}), &[])?;
    let mut left = if args.follow { u64::MAX } else { args.count };
    while left > 0 {
        let (answer, octets) = service.answer()?;
        if answer["is"] != "received" {
            continue;
        }
        keep(args, answer.clone(), &octets)?;
        service.ask(&json!({"do": "taken", "number": answer["number"]}), &[])?;
        left -= 1;
    }
    settle(&mut service)?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the gateway knows of all taken messages: the gateway answers in order.
fn settle(service: &mut Service) -> anyhow::Result<()> {
    service.ask(&json!({"do": "outcome", "id": 0}), &[])?;
    while service.answer()?.0["is"] != "unknown" {}
    Ok(())
}

fn keep(args: &Args, mut answer: Value, octets: &[u8]) -> anyhow::Result<()> {
    let number = answer["number"].as_u64().unwrap_or_default();
    if let Some(folder) = &args.into {
        let file = folder.join(number.to_string());
        // Messages to this user are readable for this user only.
        write_private(&file, octets).with_context(|| format!("writing {}", file.display()))?;
        answer["file"] = json!(file);
        if !args.json {
            writeln!(terminal::out(), "{}", file.display())?;
        }
    } else if args.json {
        let mut hex = String::with_capacity(2 * octets.len());
        for octet in octets {
            // Writing to a string never fails.
            let _ = write!(hex, "{octet:02x}");
        }
        answer["hex"] = json!(hex);
    } else {
        terminal::pass(octets)?;
    }
    if args.json {
        writeln!(terminal::out(), "{answer}")?;
    }
    Ok(terminal::out().flush()?)
}
