//! The command `trackway init`: writes configurations for both ends of a link, with their keys.
//!
//! ```text
//!  flags, or answers on the terminal ─▶ hbh, hf, manet, messages, tunnel ─▶ Folder ─▶ files, and what to do with them
//! ```

mod folder;
mod hbh;
mod hf;
mod manet;
mod messages;
mod question;
#[cfg(test)]
mod tests;
mod tunnel;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

/// Write commented configurations for a kind of link, with the keys that belong to them.
///
/// What is not given is asked for, on a terminal. Nothing that exists is overwritten, and keys are for their owner alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway init tunnel --here 192.0.2.1 --there 192.0.2.2 --networks-there 10.2.0.0/16
  trackway init hbh --interface wlan0 --out node
  trackway init tunnel --here 192.0.2.1 --peer 'trackway-peer ...'")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    Hbh(hbh::Args),
    Hf(hf::Args),
    Manet(manet::Args),
    Messages(messages::Args),
    Tunnel(tunnel::Args),
}

/// Where files go.
#[derive(Clone, Debug, clap::Args)]
struct Out {
    /// The new folder for the files.
    #[arg(long = "out", value_name = "FOLDER", default_value = "trackway-init")]
    folder: PathBuf,
}

/// The commands that copy files of a folder to this host's configurations, and run a gateway with them.
fn here(from: impl Display) -> String {
    format!(
        "sudo mkdir -p /etc/trackway && sudo cp -i {from}/* /etc/trackway\n  \
         sudo trackway run /etc/trackway/gateway.toml\n  \
         # as the package's service: sudo chmod -f 640 /etc/trackway/*.key; sudo systemctl restart trackway"
    )
}

/// The same for another host, by ssh as root.
fn there(from: impl Display, host: &str) -> String {
    format!(
        "ssh root@{host} mkdir -p /etc/trackway && scp {from}/* root@{host}:/etc/trackway\n  \
         ssh root@{host} trackway run /etc/trackway/gateway.toml"
    )
}

/// Asks, writes, and says what to do next.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.kind {
        Kind::Hbh(args) => args.run()?,
        Kind::Hf(args) => args.run()?,
        Kind::Manet(args) => args.run()?,
        Kind::Messages(args) => args.run()?,
        Kind::Tunnel(args) => args.run()?,
    }
    Ok(ExitCode::SUCCESS)
}
