//! The command `trackway keygen`: makes the keys by which gateways know each other.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use base::keys::GroupSecret;
use gateway::keys::{self, System};
use serde_json::json;
use tunnel::secure::PrivateKey;

use crate::failure;
use crate::terminal;

/// Make a key for a gateway's tunnel, or tell the public key of one; or make a group key for HBH.
///
/// A private key stays on its gateway; the public key goes into the configurations of its peers.
/// A group key is a secret that all HBH nodes of a network share. All are 32 octets in base64.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway keygen --out a.key        # writes a.key (mode 0600), prints its public key
  trackway keygen --public < a.key   # prints the public key of a.key
  trackway keygen --group --out group.key   # a group key, to be copied to all HBH nodes")]
pub struct Args {
    /// Make a group key.
    #[arg(long, conflicts_with = "public")]
    group: bool,
    /// Write the secret key to this new file, which only its owner can read.
    #[arg(long, value_name = "FILE", conflicts_with = "public")]
    out: Option<PathBuf>,
    /// Read a private key from standard input and print its public key.
    #[arg(long)]
    public: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Longer input is no key.
const MAX_INPUT: u64 = 4_096;

/// Makes a key, or reads one.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { group, out, public, json } = args;
    if group {
        return make_group_key(out.as_deref(), json);
    }
    let key = if public {
        read()?
    } else {
        PrivateKey::generate(&mut System).context("cannot make a key")?
    };
    if let Some(file) = &out {
        keys::write_new(file, &key.to_base64()).map_err(|error| unwritten(file, error))?;
    }
    let shown = (!public && out.is_none()).then(|| key.to_base64());
    let public_key = key.public_key().to_string();
    let mut stdout = terminal::out();
    if json {
        let mut object = json!({ "public_key": public_key });
        if let Some(private_key) = shown {
            object["private_key"] = private_key.into();
        }
        if let Some(file) = &out {
            object["file"] = file.display().to_string().into();
        }
        writeln!(stdout, "{object:#}")?;
    } else if let Some(private_key) = shown {
        writeln!(stdout, "private {private_key}\npublic  {public_key}")?;
    } else {
        writeln!(stdout, "{public_key}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn make_group_key(out: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let key = GroupSecret::generate(&mut System).context("cannot make a key")?;
    let (name, value) = match out {
        None => ("group_key", key.to_base64()),
        Some(file) => {
            keys::write_new(file, &key.to_base64()).map_err(|error| unwritten(file, error))?;
            ("file", file.display().to_string())
        }
    };
    let mut stdout = terminal::out();
    if json {
        writeln!(stdout, "{:#}", json!({ name: value }))?;
    } else if out.is_none() {
        writeln!(stdout, "{value}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unwritten(file: &Path, error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => failure::misuse(format!(
            "{}: there is such a file already; keys are never overwritten",
            file.display()
        )),
        _ => anyhow::Error::new(error).context(format!("cannot write {}", file.display())),
    }
}

fn read() -> anyhow::Result<PrivateKey> {
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_INPUT)
        .read_to_string(&mut text)
        .map_err(|error| failure::misuse(format!("standard input: {error}")))?;
    text.parse().map_err(|why| failure::misuse(format!("standard input: {why}")))
}
