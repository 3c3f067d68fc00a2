//! Measures the cost of a simulated second of MANETs, against nodes and flows.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use ::sim::bench::manet::{Done, Load, Routes, Scenario};
use anyhow::Context as _;

use super::Case;
use super::ns3::Manet;
use super::sim::cpu_time;
use super::unit::Unit;

/// Nodes of the networks, which all have the density of 48 nodes on 800 m x 800 m.
const NODES: [usize; 5] = [10, 48, 100, 200, 500];
const DENSITY: f64 = 48.0 / (800.0 * 800.0);
/// Flows of datagrams; a network of ten nodes has nine that can send to the first.
const FLOWS: usize = 10;
/// The interval of datagrams of 1,460 octets at 50 kbit/s.
const INTERVAL: Duration = Duration::from_micros(233_600);
/// Measured simulated seconds, after seconds in which routes are found and buffers grow.
const SECONDS: u64 = 90;
const BEFORE: u64 = 10;

/// The most CPU seconds for each simulated second of 48 nodes with a TCP connection: a run of 900 s in 4 s.
const SMALL: f64 = 0.0044;
/// The required speed of 200 nodes, as a multiple of real time.
const TIMES: f64 = 5.0;
/// How long a run of ns-3 may take: some do not end in minutes.
const PATIENCE: Duration = Duration::from_secs(120);
/// The most octets of memory.
const MEMORY: f64 = 200e6;

/// The work of a network, and its CPU seconds.
#[derive(Clone, Copy, Debug)]
struct Timed {
    done: Done,
    cpu: f64,
}

/// Measures every network, and a program for ns-3 beside it.
pub fn run(ns3: Option<&str>, mut print: impl FnMut(Case) -> io::Result<()>) -> anyhow::Result<()> {
    // If ns-3 takes too long for a network, larger networks are skipped.
    let mut gives_up = BTreeSet::new();
    for nodes in NODES {
        for flows in [1, FLOWS.min(nodes - 1)] {
            let load = Load::Datagrams(INTERVAL);
            let scenario = Scenario { flows, load, ..network(nodes) };
            let name = format!("{nodes} nodes, {flows} UDP");
            let timed = report(&scenario, &name, &mut print)?;
            let is_many = flows > 1;
            if let Some(command) = ns3.filter(|_| !gives_up.contains(&is_many)) {
                let theirs = Manet::of(command, &options(&scenario), PATIENCE)?;
                let mut case = |what: &str, value, unit| {
                    let case = format!("{name} {what}");
                    print(Case { bench: "manet", case, value, unit, limit: None })
                };
                let Some(theirs) = theirs else {
                    gives_up.insert(is_many);
                    case(
                        "ns-3, and with more nodes, given up after",
                        PATIENCE.as_secs_f64(),
                        Unit::Seconds,
                    )?;
                    continue;
                };
                case("CPU time of ns-3", theirs.cpu, Unit::CpuPerSimulated)?;
                case("CPU time of ns-3 by ours", theirs.cpu / timed.cost(), Unit::Times)?;
                case("arrived in ns-3", theirs.goodput * 1e3, Unit::BitsPerSecond)?;
            }
        }
    }
    let tcp = Scenario { flows: 1, ..network(48) };
    report(&tcp, "48 nodes, 1 TCP", &mut print)?;
    far(&mut print)
}

/// A network of `nodes` nodes with AODV, moving like the nodes of ns-3.
fn network(nodes: usize) -> Scenario {
    let side = (nodes as f64 / DENSITY).sqrt();
    let span = Duration::from_secs(BEFORE + SECONDS);
    Scenario { nodes, side, routes: Routes::Aodv, span, ..Scenario::default() }
}

/// The same network for the program.
fn options(scenario: &Scenario) -> Vec<String> {
    let Scenario { nodes, flows, side, span, .. } = scenario;
    let time = span.as_secs();
    [format!("--nodes={nodes}"), format!("--flows={flows}"), format!("--time={time}")]
        .into_iter()
        .chain([format!("--side={side:.0}"), "--rate=50".to_owned()])
        .collect()
}

impl Timed {
    /// CPU seconds for each simulated second.
    fn cost(&self) -> f64 {
        self.cpu / self.done.work.simulated_s
    }
}

/// Runs a network once its routes are found.
fn time(scenario: &Scenario) -> anyhow::Result<Timed> {
    let mut bench = scenario.build(1);
    let _ = bench.run(Duration::from_secs(BEFORE));
    let start = cpu_time()?;
    let done = bench.run(Duration::from_secs(SECONDS));
    Ok(Timed { done, cpu: (cpu_time()? - start).as_secs_f64() })
}

/// Times a network and prints the cost.
fn report(
    scenario: &Scenario,
    name: &str,
    print: &mut impl FnMut(Case) -> io::Result<()>,
) -> anyhow::Result<Timed> {
    let timed = time(scenario)?;
    let Timed { done, cpu } = timed;
    let is_tcp = scenario.load == Load::Tcp;
    let cost_limit = is_tcp.then_some(SMALL);
    let times_limit = (scenario.nodes == 200).then_some(TIMES);
    let goodput = done.octets as f64 * 8.0 / done.work.simulated_s;
    let cases = [
        ("CPU time", timed.cost(), Unit::CpuPerSimulated, cost_limit),
        ("by real time", 1.0 / timed.cost(), Unit::Times, times_limit),
        ("frames", done.frames as f64 / cpu, Unit::PerCpuSecond, None),
        ("events", done.work.events as f64 / cpu, Unit::PerCpuSecond, None),
        ("arrived", goodput, Unit::BitsPerSecond, None),
        ("peak memory", peak_memory()?, Unit::Octets, Some(MEMORY)),
    ];
    for (what, value, unit, limit) in cases {
        let case = format!("{name} {what}");
        print(Case { bench: "manet", case, value, unit, limit })?;
    }
    Ok(timed)
}

/// The cost of a frame with many nodes out of its range, relative to the cost without such nodes.
fn far(print: &mut impl FnMut(Case) -> io::Result<()>) -> anyhow::Result<()> {
    // Nodes at rest, and routes that are made once: nothing but frames.
    let near = Scenario {
        nodes: 48,
        side: 800.0,
        least_speed: 0.0,
        flows: 10,
        routes: Routes::Shortest(Duration::from_secs(1)),
        ..Scenario::default()
    };
    let mut costs = [f64::INFINITY; 2];
    // The quickest of some, in turns: others use the machine as well.
    for _ in 0..3 {
        for (cost, far_nodes) in costs.iter_mut().zip([0, 900]) {
            let Timed { done, cpu } = time(&Scenario { far_nodes, ..near })?;
            *cost = cost.min(cpu / done.frames as f64);
        }
    }
    let [alone, among] = costs;
    let case = "frame, 900 nodes out of range".to_owned();
    print(Case {
        bench: "manet",
        case,
        value: among / alone,
        unit: Unit::TimesAlone,
        limit: Some(1.0),
    })?;
    Ok(())
}

/// The most memory that the process has had, in octets.
fn peak_memory() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    let kibibytes: f64 = kibibytes.context("the kernel does not tell VmHWM")?.parse()?;
    Ok(kibibytes * 1_024.0)
}
