//! `trackway keygen`: the keys that gateways know each other by.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use gateway::secure::PrivateKey;
use serde_json::json;

use crate::failure;

/// Make a key for a gateway's tunnel, or tell the public key of one.
///
/// A private key stays on its gateway; the public key goes into the configurations of its peers.
/// Both are 32 octets in base64.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway keygen --out a.key        # writes a.key (mode 0600), prints its public key
  trackway keygen --public < a.key   # prints the public key of a.key")]
pub(crate) struct Args {
    /// Write the private key to this new file, which only its owner can read.
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
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { out, public, json } = args;
    let key = if public { read()? } else { PrivateKey::generate().context("cannot make a key")? };
    if let Some(file) = &out {
        key.write_new(file).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => failure::misuse(format!(
                "{}: there is such a file already; keys are never overwritten",
                file.display()
            )),
            _ => anyhow::Error::new(error).context(format!("cannot write {}", file.display())),
        })?;
    }
    let shown = (!public && out.is_none()).then(|| key.to_base64());
    let public_key = key.public_key().to_string();
    let mut stdout = std::io::stdout();
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

fn read() -> anyhow::Result<PrivateKey> {
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_INPUT)
        .read_to_string(&mut text)
        .map_err(|error| failure::misuse(format!("standard input: {error}")))?;
    text.parse().map_err(|why| failure::misuse(format!("standard input: {why}")))
}
