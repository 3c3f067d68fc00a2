//! The command `trackway peer`: adds, removes and lists the peers of a running gateway's tunnel.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use gateway::config::edit::{NewPeer, PeerChange};
use gateway::{Config, Reloaded};
use serde_json::Value;

use crate::control::Control;
use crate::failure;
use crate::terminal;

/// Add, remove or list the peers of the tunnel of the gateway that runs in this network namespace.
///
/// Sessions with other peers go on undisturbed. A change holds until the configuration is read again; with --save it is
/// written into the gateway's file, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 done, 1 the gateway refuses or does not answer, 2 the peer or an argument is wrong, 4 no gateway runs here

Examples:
  trackway peer add office --public-key xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg= \\
      --routes 10.2.0.0/16 --endpoint 192.0.2.2:51900 --save
  trackway peer remove office
  trackway peer list")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Remove(Remove),
}

/// Add a peer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  trackway peer add van --public-key xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg= --routes 10.3.0.0/16,fd03::/64")]
struct Add {
    /// What the peer is called here.
    name: String,
    /// What `trackway keygen` printed at the peer.
    #[arg(long, value_name = "KEY")]
    public_key: String,
    /// The networks behind the peer, and its own addresses.
    #[arg(long, value_name = "NETWORK", required = true, value_delimiter = ',', num_args = 1..)]
    routes: Vec<String>,
    /// Where the peer is called; without, it calls us.
    #[arg(long, value_name = "ADDRESS:PORT")]
    endpoint: Option<String>,
    /// Silence after which a keepalive is sent, such as 15s.
    #[arg(long, value_name = "TIME")]
    keepalive: Option<String>,
    /// A file with a secret that both have besides.
    #[arg(long, value_name = "FILE")]
    preshared_key: Option<String>,
    /// Write the peer into the gateway's file, too.
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    control: Control,
}

/// Remove a peer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway peer remove office --save")]
struct Remove {
    /// What the peer is called here.
    name: String,
    /// Remove the peer from the gateway's file, too.
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    control: Control,
}

/// List the peers: name, state, where the peer is, public key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway peer list")]
struct List {
    /// Print one JSON list, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: Control,
}

/// Does what is asked.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Add(add) => {
            let Add { name, public_key, routes, endpoint, keepalive, preshared_key, save, control } =
                add;
            let peer = NewPeer { name, public_key, routes, endpoint, keepalive, preshared_key };
            change(&control, &PeerChange::Add(peer), save)
        }
        Command::List(List { json, control }) => list(&control, json),
        Command::Remove(Remove { name, save, control }) => {
            change(&control, &PeerChange::Remove(name), save)
        }
    }
}

fn change(control: &Control, change: &PeerChange, is_saved: bool) -> anyhow::Result<ExitCode> {
    let (outcome, file) = gateway::ask_peer(control.path(), change.clone())?;
    let changes = match outcome {
        Reloaded::Changed(changes) => changes,
        Reloaded::Invalid(why) => return Err(failure::misuse(why)),
        Reloaded::Refused(why) => anyhow::bail!("nothing has changed: {why}"),
    };
    let mut out = terminal::out();
    for change in changes {
        writeln!(out, "{change}")?;
    }
    if is_saved {
        save(&file, change)
            .with_context(|| format!("it is in force, and not saved in {}", file.display()))?;
        writeln!(out, "saved in {}", file.display())?;
    } else {
        writeln!(out, "not saved: --save writes it into {}", file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a change into a file, whose other text stays as it is.
fn save(file: &Path, change: &PeerChange) -> anyhow::Result<()> {
    let text = Config::text(file)?;
    let before = Config::with_text(file, text.clone())?;
    let text = change.apply(&text, &before)?;
    let after = Config::with_text(file, text.clone())?;
    anyhow::ensure!(change.leads(&before, &after), "its peers are written in another way");
    Ok(whole::write_over(file, text)?)
}

fn list(control: &Control, json: bool) -> anyhow::Result<ExitCode> {
    let status: Value = serde_json::from_str(&gateway::ask_status(control.path())?)
        .context("the gateway's answer")?;
    let mut out = terminal::out();
    let Some(peers) = status["tunnels"].as_array() else {
        anyhow::bail!("the gateway has no tunnel now");
    };
    if json {
        writeln!(out, "{}", serde_json::to_string(peers)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for peer in peers {
        let text = |key: &str| peer[key].as_str().map(str::to_owned);
        let [name, state, key] =
            ["peer", "state", "public_key"].map(|key| text(key).unwrap_or_default());
        let place = text("endpoint").or_else(|| text("endpoint_name"));
        let place = place.unwrap_or_else(|| "-".to_owned());
        writeln!(out, "{name:<16} {state:<10} {place:<24} {key}")?;
    }
    Ok(ExitCode::SUCCESS)
}
