//! Measures one hop of HBH on real interfaces: two namespaces joined by a cable, plain, by a bare forwarder and by
//! gateways.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::{Context as _, ensure};
use base::keys::GroupSecret;
use gateway::keys::{self, System};
use serde_json::Value;

use super::Case;
use super::bare::{self, Forwarders};
use super::namespaces::{Namespaces, Transfer, check_root, this_program};

const ADDRESSES: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// Turns of each carrier, so that other load on the machine affects all carriers alike.
const ROUNDS: usize = 3;
/// Of each round.
const PINGS: u32 = 100;
/// Of each round.
const SECONDS: u32 = 3;
/// A ping may take this much longer, in microseconds.
const PING_LIMIT: f64 = 150.0;
const READY_WITHIN: Duration = Duration::from_secs(20);
const GROUP_KEY: &str = "group.key";

/// What `trackway bench hbh` measures besides.
#[derive(Debug, clap::Args)]
#[group(id = "hbh")]
pub struct Options {
    /// For `hbh`: measure gateways with a group key as well.
    #[arg(long)]
    key: bool,
}

/// Measures TCP's goodput and a ping's time, plain and by HBH. The ping also runs over a bare forwarder, the
/// practical minimum for a program that sleeps until packets come.
pub fn run(options: &Options, print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    check_root("trackway bench hbh")?;
    let mut pair = Namespaces::pair()?;
    if options.key {
        let key = GroupSecret::generate(&mut System).context("cannot make a key")?;
        keys::write_new(&pair.folder.join(GROUP_KEY), &key.to_base64())
            .context("cannot write a key")?;
    }

    let [mut plain, mut bare, mut hbh, mut keyed] = <[[Measured; 2]; 4]>::default();
    for _ in 0..ROUNDS {
        measure(&mut pair, &mut plain)?;
        let forwarders = Forwarders::start(&pair)?;
        ping(&pair, bare::ADDRESSES, &mut bare)?;
        drop(forwarders);
        measure_gateways(&mut pair, "", &mut hbh)?;
        if options.key {
            let line = format!("group-key = \"{GROUP_KEY}\"\n");
            measure_gateways(&mut pair, &line, &mut keyed)?;
        }
    }

    let bench = "hbh";
    let case = |case: String, value, unit, limit| print(Case { bench, case, value, unit, limit });
    for (version, number) in [(4, 0), (6, 1)] {
        let [plain, bare, hbh, keyed] = [&plain, &bare, &hbh, &keyed].map(|of| &of[number]);
        let (tcp, ping) = (format!("tcp v{version}"), format!("ping v{version}"));
        let goodput = plain.goodput();
        case(format!("{tcp} plain"), goodput, "bit/s", None)?;
        case(format!("{tcp} hbh"), hbh.goodput(), "bit/s", Some(goodput))?;
        if options.key {
            case(format!("{tcp} hbh, key"), keyed.goodput(), "bit/s", Some(goodput))?;
        }

        let added = |way: &Measured| way.ping() - plain.ping();
        case(format!("{ping} plain"), plain.ping(), "us", None)?;
        case(format!("{ping} bare"), bare.ping(), "us", None)?;
        case(format!("{ping} hbh"), hbh.ping(), "us", None)?;
        case(format!("{ping} added"), added(hbh), "us", Some(PING_LIMIT))?;
        case(format!("{ping} added, to bare"), added(hbh), "us", Some(added(bare)))?;
        let added_mean = hbh.mean_ping() - plain.mean_ping();
        case(format!("{ping} added, mean"), added_mean, "us", Some(PING_LIMIT))?;
        if options.key {
            case(format!("{ping} hbh, key"), keyed.ping(), "us", None)?;
            case(format!("{ping} added, key"), added(keyed), "us", Some(PING_LIMIT))?;
        }
    }
    Ok(())
}

/// What one address was reached with, in all rounds.
#[derive(Default)]
struct Measured {
    /// In bit/s.
    goodputs: Vec<f64>,
    /// In microseconds.
    pings: Vec<f64>,
}

impl Measured {
    fn goodput(&self) -> f64 {
        median(&self.goodputs)
    }

    fn ping(&self) -> f64 {
        median(&self.pings)
    }

    fn mean_ping(&self) -> f64 {
        self.pings.iter().sum::<f64>() / self.pings.len() as f64
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn measure(pair: &mut Namespaces, measured: &mut [Measured; 2]) -> anyhow::Result<()> {
    ping(pair, ADDRESSES, measured)?;
    for (address, measured) in ADDRESSES.into_iter().zip(measured) {
        let transfer =
            Transfer { between: (0, 1), address, seconds: SECONDS, left_out: 1, args: &[] };
        measured.goodputs.push(pair.transfer(&transfer)?);
    }
    Ok(())
}

fn ping(
    pair: &Namespaces,
    addresses: [&str; 2],
    measured: &mut [Measured; 2],
) -> anyhow::Result<()> {
    for (address, measured) in addresses.into_iter().zip(measured) {
        // The first ones ask for hardware addresses, among other things.
        pair.ping(address, 10)?;
        measured.pings.extend(pair.ping(address, PINGS)?);
    }
    Ok(())
}

/// Starts gateways with `line` in their configuration, measures, and ends them.
fn measure_gateways(
    pair: &mut Namespaces,
    line: &str,
    measured: &mut [Measured; 2],
) -> anyhow::Result<()> {
    let gateways = start_gateways(pair, line)?;
    measure(pair, measured)?;
    for gateway in gateways {
        pair.end(gateway);
    }
    Ok(())
}

/// The positions of the programs.
fn start_gateways(pair: &mut Namespaces, line: &str) -> anyhow::Result<Vec<usize>> {
    let file = pair.folder.join("node.toml");
    fs::write(&file, format!("log = \"warn\"\n[hbh]\ninterfaces = [\"eth0\"]\n{line}"))?;
    let program = this_program()?;
    let file = file.to_string_lossy().into_owned();
    let mut gateways = Vec::new();
    for namespace in pair.names.clone() {
        let command = ["netns", "exec", &namespace, &program, "run", &file];
        gateways.push(pair.start(&command, Stdio::null())?);
    }
    let deadline = Instant::now() + READY_WITHIN;
    for namespace in &pair.names {
        loop {
            pair.check_interrupted()?;
            let command = ["netns", "exec", namespace, &program, "status", "--json"];
            let output = Command::new("ip").args(command).output()?;
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if status["neighbours"] == 1 {
                break;
            }
            ensure!(Instant::now() < deadline, "the gateways do not find each other");
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(gateways)
}
