//! The command `trackway parameters`: lists the parameters of configurations and scenarios.

use std::io::Write as _;
use std::process::ExitCode;

use base::parameter::Description;
use gateway::config;
use manet::{aodv, dsdv, olsr, ospf};
use settings::page;

use crate::failure::no_such;
use crate::terminal;

/// Show what can be set in configurations and scenarios: names, ranges, defaults.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tables are for people; programs read the same names, ranges and defaults in the JSON schema.

Examples:
  trackway parameters hbh
  trackway schema gateway > gateway.schema.json")]
pub struct Args {
    /// Only these: hbh, tcp, link, ...
    table: Option<String>,
}

/// Shows the parameters.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { table } = args;
    let mut tables = tables();
    if let Some(name) = table {
        let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        if !names.contains(&name.as_str()) {
            return Err(no_such("table", &name, &names));
        }
        tables.retain(|table| table.name == name);
    }
    let mut stdout = terminal::out();
    if let [table] = &tables[..] {
        write!(stdout, "{}", page::table(table))?;
    } else {
        for table in &tables {
            writeln!(stdout, "## {}\n\n{}", table.name, page::table(table))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All tables, by name.
fn tables() -> Vec<Description> {
    let profiles = hbh::Profile::NAMES.map(|(name, profile)| (name, hbh::Config::new(profile)));
    let mut tables = config::parameters();
    tables.push(hbh::PARAMETERS.describe(&profiles));
    let profiles = aodv::Profile::NAMES.map(|(name, profile)| (name, aodv::Config::new(profile)));
    tables.push(aodv::PARAMETERS.describe(&profiles));
    tables.push(dsdv::PARAMETERS.describe(&[("dsdv", dsdv::Config::default())]));
    let olsr = [("olsr", olsr::Config::default()), ("live", olsr::Config::live())];
    tables.push(olsr::PARAMETERS.describe(&olsr));
    tables.push(ospf::PARAMETERS.describe(&[("ospf", ospf::Config::default())]));
    let profiles = sar::Profile::NAMES.map(|(name, profile)| (name, sar::Config::of(profile)));
    tables.push(sar::PARAMETERS.describe(&profiles));
    #[cfg(feature = "laboratory")]
    tables.extend(of_scenarios());
    tables.sort_by_key(|table| table.name);
    tables
}

/// Parameters that only scenarios have.
#[cfg(feature = "laboratory")]
fn of_scenarios() -> Vec<Description> {
    use ::lab::scenario::tactical;
    use ::sim::mobility::waypoint;
    use ::sim::{INTERFACE, InterfaceConfig, channel, cnr, radio};
    use tcp::tcpnc;

    let presets = cnr::Preset::NAMES.map(|(name, preset)| (name, cnr::Config::new(preset)));
    vec![
        channel::PARAMETERS.describe(&[("link", channel::Config::default())]),
        tactical::BGP.describe(&[("bgp", tactical::Bgp::default())]),
        tactical::MESSAGES.describe(&[("messages", tactical::Messages::default())]),
        INTERFACE.describe(&[("interface", InterfaceConfig::default())]),
        waypoint::PARAMETERS.describe(&[("random-waypoint", waypoint::Waypoint::default())]),
        cnr::PARAMETERS.describe(&presets),
        radio::PARAMETERS.describe(&[("radio", radio::Config::default())]),
        tcp::PARAMETERS.describe(&[("tcp", tcp::Config::default())]),
        tcpnc::PARAMETERS.describe(&[("tcpnc", tcpnc::Config::default())]),
    ]
}
