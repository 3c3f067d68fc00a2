//! The command `trackway keep-folder`: the gateway starts it to keep its folder after giving up root.

use std::path::PathBuf;
use std::process::ExitCode;

/// Keep the folder below /run of the gateway that started this.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The user of the gateway.
    user: u32,
    /// Its group.
    group: u32,
    /// The group whose members may ask at the control socket.
    status_group: Option<u32>,
    /// The name of its control socket in the current folder, if it is elsewhere than usual.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The name in the folder of all gateways that leads to a socket in its own.
    #[arg(long)]
    link: Option<PathBuf>,
}

/// Keeps the folder until the gateway ends.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (socket, link) = (args.socket.as_deref(), args.link.as_deref());
    gateway::keep_folder(args.user, args.group, args.status_group, socket, link)?;
    Ok(ExitCode::SUCCESS)
}
