//! `trackway hand-over`: the gateway that runs here leaves its devices to the next process.

use std::io::Write as _;
use std::process::ExitCode;

use gateway::HandedOver;

use crate::control::Control;
use crate::terminal;

/// Let the gateway that runs in this network namespace leave its tunnel's device to the process that replaces it.
///
/// The service manager keeps the device, with its addresses and routes, until the next gateway has started. The unit of the package does this before each restart; it has to be followed by one within 30 s.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway hand-over && systemctl kill trackway")]
pub struct Args {
    #[command(flatten)]
    control: Control,
}

/// Asks the gateway, and prints whose devices are left.
pub fn run(Args { control }: Args) -> anyhow::Result<ExitCode> {
    match gateway::ask_hand_over(control.path())? {
        HandedOver::Left(services) => {
            let mut out = terminal::out();
            if services.is_empty() {
                writeln!(out, "no service has a device that can be handed over")?;
            }
            for service in services {
                writeln!(out, "handed over: {service}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        HandedOver::Refused(why) => anyhow::bail!("nothing is handed over: {why}"),
    }
}
