//! The command `trackway tls`: makes certificates for tests and closed networks, and checks certificates.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gateway::keys;
use gateway::tls::authority::{Authority, Issued, NotIssued, Usage, Validity};
use gateway::tls::check;
use serde_json::json;

use crate::failure::misuse;
use crate::terminal;

/// Make certificates for a test, or check those that are there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway tls ca pki                                  # pki/ca.crt and pki/ca.key, a new authority
  trackway tls issue pki --san tak.example             # pki/tak.example.crt and .key, for a server
  trackway tls issue pki --san bob@unit.example --client
  trackway tls check --ca pki/ca.crt pki/tak.example.crt --name tak.example")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Ca(Ca),
    Check(Check),
    Issue(Issue),
}

/// Make a certificate authority in a folder: ca.crt for those who trust it, ca.key (mode 0600).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway tls ca pki --name 'Exercise CA'")]
struct Ca {
    /// The folder, which is made if it is not there.
    folder: PathBuf,
    /// What the authority is called.
    #[arg(long, default_value = "Trackway test CA")]
    name: String,
    /// How long it is valid.
    #[arg(long, default_value_t = 3_650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Issue a certificate by the authority in a folder; files are named by its first name.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway tls issue pki --san tak.example '*.tak.example' 10.9.0.1
  trackway tls issue pki --san bob@unit.example --client")]
struct Issue {
    /// The folder with ca.crt and ca.key.
    folder: PathBuf,
    /// Whom it is for: domains, emails, addresses.
    #[arg(long, value_name = "NAME", required = true, num_args = 1..=64)]
    san: Vec<String>,
    /// For a client; a server's otherwise.
    #[arg(long)]
    client: bool,
    /// How long it is valid.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Tell whether a certificate will be accepted, and what is wrong with it if not; exit code 1 then.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  trackway tls check --ca pki/ca.crt server.crt --name tak.example"
)]
struct Check {
    /// The authorities that the other side trusts.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The certificate, and those between it and an authority.
    chain: PathBuf,
    /// The name to verify.
    #[arg(long)]
    name: Option<String>,
    /// As a client's; a server's otherwise.
    #[arg(long)]
    client: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Makes or checks certificates.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Ca(ca) => make(&ca),
        Command::Check(check) => self::check(&check),
        Command::Issue(issue) => self::issue(&issue),
    }
}

fn make(args: &Ca) -> anyhow::Result<ExitCode> {
    let Ca { folder, name, days, json } = args;
    let issued = Authority::make(name, Validity::of_days(*days)).map_err(of_issue)?;
    let what = || format!("cannot make the folder {}", folder.display());
    fs::create_dir_all(folder).with_context(what)?;
    write(folder, "ca", &issued, *json)
}

fn issue(args: &Issue) -> anyhow::Result<ExitCode> {
    let Issue { folder, san, client, days, json } = args;
    let read = |name: &str| {
        let path = folder.join(name);
        let remedy = format!("`trackway tls ca {}` makes an authority", folder.display());
        fs::read_to_string(&path)
            .map_err(|why| misuse(format!("{}: {why}; {remedy}", path.display())))
    };
    // A key that others could have read or written is worth nothing.
    let path = folder.join("ca.key");
    if let Err(why) = keys::open(&path)
        && !why.is_missing()
    {
        return Err(misuse(format!("{}: {why}", path.display())));
    }
    let authority = Issued { certificate: read("ca.crt")?, key: read("ca.key")? };
    let authority = Authority::open(&authority).map_err(|why| {
        misuse(format!("{}: {why}; `trackway tls ca` makes both", folder.display()))
    })?;
    let issued =
        authority.issue(san, usage(*client), Validity::of_days(*days)).map_err(of_issue)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.@".contains(letter);
    let name = san[0].replace('*', "any").replace(|letter| !is_plain(letter), "-");
    write(folder, &name, &issued, *json)
}

fn check(args: &Check) -> anyhow::Result<ExitCode> {
    let Check { ca, chain, name, client, json } = args;
    let verdict = check::check(ca, chain, name.as_deref(), usage(*client)).map_err(misuse)?;
    let mut stdout = terminal::out();
    if *json {
        let object = json!({
            "ok": verdict.failure.is_none(),
            "names": verdict.names,
            "issuer": verdict.issuer,
            "until": verdict.until,
            "sentence": verdict.sentence,
        });
        writeln!(stdout, "{object:#}")?;
    } else {
        writeln!(stdout, "{}: {}", chain.display(), verdict.sentence)?;
    }
    Ok(if verdict.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn usage(is_client: bool) -> Usage {
    if is_client { Usage::Client } else { Usage::Server }
}

/// Writes a certificate and its key to new files, and prints their names.
fn write(folder: &Path, name: &str, issued: &Issued, json: bool) -> anyhow::Result<ExitCode> {
    let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    keys::write_new(&key, issued.key.trim_end()).map_err(|why| unwritten(&key, why))?;
    let file = OpenOptions::new().write(true).create_new(true).open(&certificate);
    file.and_then(|mut file| file.write_all(issued.certificate.as_bytes()))
        .map_err(|why| unwritten(&certificate, why))?;
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let mut stdout = terminal::out();
    if json {
        writeln!(stdout, "{:#}", json!({ "certificate": certificate, "key": key }))?;
    } else {
        writeln!(stdout, "{certificate}\n{key}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unwritten(file: &Path, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => misuse(format!(
            "{}: there is such a file already; certificates and keys are never overwritten: \
             remove it, or name another folder",
            file.display()
        )),
        _ => anyhow::Error::new(error).context(format!("cannot write {}", file.display())),
    }
}

fn of_issue(why: NotIssued) -> anyhow::Error {
    match why {
        NotIssued::Signature(_) => why.into(),
        _ => misuse(why),
    }
}
