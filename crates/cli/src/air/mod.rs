//! `trackway air`: the simulator's radio channels and combat nets in real time, between interfaces.

mod net;
mod options;
mod progress;
mod radio;
mod session;

use std::io::Write as _;
use std::process::ExitCode;

use ::lab::scenario::Plan;

use crate::failure::misuse;
use crate::terminal;
pub use options::Args;
use options::Channel;
use session::Session;

/// Runs the subcommand of `args`.
#[expect(clippy::needless_pass_by_value, reason = "all subcommands alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::read(&args.scenario).map_err(misuse)?;
    for note in &plan.notes {
        writeln!(terminal::err(), "{note}")?;
    }
    let stations = args.stations(&plan)?;
    let channel = stations.channel;
    let session = Session::open(&args, &plan, stations)?;
    match channel {
        Channel::Net(net) => net::run(&session, net)?,
        Channel::Radio(radio) => radio::run(&session, radio)?,
    }
    Ok(ExitCode::SUCCESS)
}
