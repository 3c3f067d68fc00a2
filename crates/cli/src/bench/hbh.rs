//! Measures one hop of HBH on real interfaces: two namespaces joined by a cable, plain, by a bare forwarder and by
//! gateways.

use std::io;
use std::time::Duration;

use anyhow::Context as _;
use base::keys::GroupSecret;
use gateway::keys::{self, System};
use testbed::Pair;
use testbed::probe::forwarder::{self, Forwarders};
use testbed::probe::median;

use super::unit::Unit;
use super::{Case, begin, changes, this_program};

const ADDRESSES: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// Turns of each carrier, so that other load on the machine affects all carriers alike.
const ROUNDS: usize = 3;
/// Of each round.
const PINGS: u32 = 100;
/// Of each round.
const SECONDS: u32 = 3;
/// The goodput asked of HBH, in bit/s. Plain TCP is faster: a virtual cable carries trains of 64 kB uncut.
const RATE: f64 = 2e9;
/// A ping may take this much longer, in microseconds.
const PING_LIMIT: f64 = 150.0;
const READY_WITHIN: Duration = Duration::from_secs(20);
const GROUP_KEY: &str = "group.key";

/// A hop of the gateway on real interfaces, beside plain IP; needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sudo trackway bench hbh --key")]
pub struct Options {
    /// Measure gateways with a group key as well.
    #[arg(long)]
    key: bool,
    /// Measure only the cost of watching routes that other programs change.
    #[arg(long, conflicts_with = "key")]
    changes: bool,
}

/// Measures TCP's goodput and a ping's time, plain and by HBH. The ping also runs over a bare forwarder, the
/// practical minimum for a program that sleeps until packets come.
pub fn run(options: &Options, print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    begin("trackway bench hbh")?;
    let mut pair = Pair::new(this_program()?)?;
    if options.key {
        let key = GroupSecret::generate(&mut System).context("cannot make a key")?;
        keys::write_new(&pair.nets.folder().join(GROUP_KEY), &key.to_base64())
            .context("cannot write a key")?;
    }

    if options.changes {
        let programs = start_gateways(&mut pair, "")?;
        return changes::run("hbh", &mut pair, ADDRESSES[0], &programs, print);
    }

    let [mut plain, mut bare, mut hbh, mut keyed] = <[[Measured; 2]; 4]>::default();
    for _ in 0..ROUNDS {
        measure(&mut pair, &mut plain)?;
        let forwarders = Forwarders::start(&pair.nets, &pair.ends)?;
        pings(&pair, forwarder::ADDRESSES, &mut bare)?;
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
        case(format!("{tcp} plain"), plain.goodput(), Unit::BitsPerSecond, None)?;
        case(format!("{tcp} hbh"), hbh.goodput(), Unit::BitsPerSecond, Some(RATE))?;
        if options.key {
            case(format!("{tcp} hbh, key"), keyed.goodput(), Unit::BitsPerSecond, Some(RATE))?;
        }

        let added = |way: &Measured| way.ping() - plain.ping();
        case(format!("{ping} plain"), plain.ping(), Unit::Microseconds, None)?;
        case(format!("{ping} bare"), bare.ping(), Unit::Microseconds, None)?;
        case(format!("{ping} hbh"), hbh.ping(), Unit::Microseconds, None)?;
        case(format!("{ping} added"), added(hbh), Unit::Microseconds, Some(PING_LIMIT))?;
        let added_mean = hbh.mean_ping() - plain.mean_ping();
        case(format!("{ping} added, mean"), added_mean, Unit::Microseconds, Some(PING_LIMIT))?;
        if options.key {
            case(format!("{ping} hbh, key"), keyed.ping(), Unit::Microseconds, None)?;
            case(format!("{ping} added, key"), added(keyed), Unit::Microseconds, Some(PING_LIMIT))?;
        }
    }
    Ok(())
}

/// The measurements of one address in all rounds.
#[derive(Default)]
struct Measured {
    /// In bit/s.
    goodputs: Vec<f64>,
    /// In microseconds.
    pings: Vec<f64>,
}

impl Measured {
    fn goodput(&self) -> f64 {
        median(self.goodputs.clone())
    }

    fn ping(&self) -> f64 {
        median(self.pings.clone())
    }

    fn mean_ping(&self) -> f64 {
        self.pings.iter().sum::<f64>() / self.pings.len() as f64
    }
}

fn measure(pair: &mut Pair, measured: &mut [Measured; 2]) -> anyhow::Result<()> {
    pings(pair, ADDRESSES, measured)?;
    for (address, measured) in ADDRESSES.into_iter().zip(measured) {
        measured.goodputs.push(pair.goodput(address, SECONDS, &[])?);
    }
    Ok(())
}

fn pings(pair: &Pair, addresses: [&str; 2], measured: &mut [Measured; 2]) -> anyhow::Result<()> {
    for (address, measured) in addresses.into_iter().zip(measured) {
        measured.pings.extend(pair.ping(address, PINGS)?);
    }
    Ok(())
}

/// Starts gateways with `line` in their configuration, measures, and ends them.
fn measure_gateways(
    pair: &mut Pair,
    line: &str,
    measured: &mut [Measured; 2],
) -> anyhow::Result<()> {
    let gateways = start_gateways(pair, line)?;
    measure(pair, measured)?;
    for gateway in gateways {
        pair.nets.program(gateway).end();
    }
    Ok(())
}

/// Starts gateways with `line` in their configuration, which find each other.
fn start_gateways(pair: &mut Pair, line: &str) -> anyhow::Result<[usize; 2]> {
    let config = format!("[hbh]\ninterfaces = [\"eth0\"]\n{line}");
    let [near, far] = [0, 1].map(|end| pair.nets.start_gateway(&pair.ends[end], "node", &config));
    for end in &pair.ends {
        pair.nets.wait(READY_WITHIN, "the gateways do not find each other", || {
            pair.nets.count(end, "neighbours") == 1
        })?;
    }
    Ok([near?, far?])
}
