//! Measures the cost of watching routes that other programs change.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use testbed::Pair;
use testbed::probe::median;

use super::Case;
use super::unit::Unit;

/// Turns of each load; the medians count.
const ROUNDS: usize = 5;
const SECONDS: u32 = 5;
/// How long routes change without other traffic.
const QUIET: Duration = Duration::from_secs(4);
/// The least share of the undisturbed figure that is allowed, and the greatest share of a processor.
const LEAST: f64 = 0.98;
const MOST: f64 = 0.02;
/// A table that neither the kernel nor a gateway uses.
const TABLE: u32 = 7_000;

/// Routes that are added or removed at once on each host, and the pause until the next ones.
struct Load {
    name: &'static str,
    at_once: u32,
    every: Duration,
}

const LOADS: [Load; 2] = [
    Load { name: "100 changes a second", at_once: 1, every: Duration::from_millis(10) },
    Load { name: "1,000 changes at once", at_once: 1_000, every: Duration::from_secs(1) },
];

/// Reads one figure from a turn.
type Figure = fn(&Turn) -> f64;

/// The outcome of a turn: goodput in bit/s, and bits carried for each second of CPU of both gateways.
struct Turn {
    goodput: f64,
    bits_per_cpu: f64,
}

/// Measures TCP to an address by the running gateways `programs`, without and with changes in turn.
pub fn run(
    bench: &'static str,
    pair: &mut Pair,
    address: &str,
    programs: &[usize],
    print: impl Fn(Case) -> io::Result<()>,
) -> anyhow::Result<()> {
    let (mut quiet, mut loaded) = (Vec::new(), LOADS.map(|_| Vec::new()));
    let mut heard = LOADS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (load, figures) in LOADS.iter().zip(&mut heard) {
            figures.push(load.heard(pair, programs)?);
        }
        quiet.push(turn(pair, address, programs)?);
        for (load, turns) in LOADS.iter().zip(&mut loaded) {
            let ends = pair.ends.clone();
            turns.push(load.beside(&ends, || turn(pair, address, programs))?);
        }
    }

    let figures: [(&str, Unit, Figure); 2] = [
        ("tcp", Unit::BitsPerSecond, |turn| turn.goodput),
        ("tcp per CPU", Unit::BitsPerCpuSecond, |turn| turn.bits_per_cpu),
    ];
    let case = |case, value, unit, limit| print(Case { bench, case, value, unit, limit });
    // Of these, other load on the machine changes little.
    for (load, figures) in LOADS.iter().zip(heard) {
        let least = load.per_s() / MOST;
        let name = format!("heard, {}", load.name);
        case(name, median(figures), Unit::PerCpuSecond, Some(least))?;
    }
    for (what, unit, field) in figures {
        let undisturbed = median(quiet.iter().map(field).collect());
        case(format!("{what}, no changes"), undisturbed, unit, None)?;
        for (load, turns) in LOADS.iter().zip(&loaded) {
            let shares = turns.iter().zip(&quiet).map(|(turn, quiet)| field(turn) / field(quiet));
            let share = median(shares.collect());
            case(format!("{what}, {}", load.name), share, Unit::Times, Some(LEAST))?;
        }
    }
    Ok(())
}

fn cpu(pair: &mut Pair, programs: &[usize]) -> anyhow::Result<f64> {
    programs.iter().map(|&program| pair.nets.program(program).cpu()).sum()
}

fn turn(pair: &mut Pair, address: &str, programs: &[usize]) -> anyhow::Result<Turn> {
    let before = cpu(pair, programs)?;
    let goodput = pair.goodput(address, SECONDS, &[])?;
    // The second that iperf3 leaves out carries as much.
    let bits_per_cpu = goodput * f64::from(SECONDS + 1) / (cpu(pair, programs)? - before);
    Ok(Turn { goodput, bits_per_cpu })
}

impl Load {
    fn per_s(&self) -> f64 {
        f64::from(self.at_once) / self.every.as_secs_f64()
    }

    /// Changes that gateways without traffic hear of in a second of CPU.
    fn heard(&self, pair: &mut Pair, programs: &[usize]) -> anyhow::Result<f64> {
        let before = cpu(pair, programs)?;
        self.beside(&pair.ends.clone(), || {
            thread::sleep(QUIET);
            Ok(())
        })?;
        let changes = self.per_s() * QUIET.as_secs_f64() * programs.len() as f64;
        Ok(changes / (cpu(pair, programs)? - before))
    }

    /// Calls `measure` while routes of both hosts change.
    fn beside<T>(
        &self,
        hosts: &[String; 2],
        measure: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let changing = hosts.each_ref().map(|host| scope.spawn(|| self.change(host, &is_over)));
            let measured = measure();
            is_over.store(true, Ordering::Relaxed);
            for thread in changing {
                thread.join().ok().context("no routes are changed")??;
            }
            measured
        })
    }

    /// Adds and removes routes of a host until `is_over`.
    fn change(&self, host: &str, is_over: &AtomicBool) -> anyhow::Result<()> {
        let mut ip = Command::new("ip")
            .args(["-n", host, "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start `ip`")?;
        let mut orders = ip.stdin.take().context("no pipe to `ip`")?;
        let mut next = Instant::now();
        let mut changes = 0_u32..;
        while !is_over.load(Ordering::Relaxed) {
            let mut lines = String::new();
            for change in changes.by_ref().take(self.at_once as usize) {
                // Each route goes before the next one comes.
                let verb = if change % 2 == 0 { "replace" } else { "delete" };
                let [.., a, b] = (change / 2 % 50_000).to_be_bytes();
                lines += &format!("route {verb} 198.18.{a}.{b}/32 dev eth0 table {TABLE}\n");
            }
            orders.write_all(lines.as_bytes()).context("`ip` takes no orders")?;
            next += self.every;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        drop(orders);
        anyhow::ensure!(ip.wait()?.success(), "`ip` could not change routes");
        Ok(())
    }
}
