//! The simulator: events, packets on links, CPU time for simulated time.

use std::io;
use std::time::Duration;

use ::sim::bench::{Scenario, Work};
use anyhow::Context as _;
use nix::time::{ClockId, clock_gettime};

use super::Case;
use super::ns3::Speed;
use super::unit::Unit;

/// The least CPU time for each scenario.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// Events for each CPU second that the simulator is to reach.
const EVENTS: f64 = 2e6;

/// The work of a scenario, and its CPU time.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    work: Work,
    cpu: Duration,
}

/// Times every scenario, and a program for ns-3 in the same run.
pub fn run(ns3: Option<&str>, mut print: impl FnMut(Case) -> io::Result<()>) -> anyhow::Result<()> {
    let ns3 = ns3.map(Speed::of).transpose()?;
    for scenario in Scenario::ALL {
        let Timed { work, cpu } = time(scenario)?;
        let seconds = cpu.as_secs_f64();
        let mut case = |what: &str, value, unit, limit| {
            let case = format!("{} {what}", scenario.name());
            print(Case { bench: "sim", case, value, unit, limit })
        };
        case("events", work.events as f64 / seconds, Unit::PerCpuSecond, Some(EVENTS))?;
        let packets = work.packets as f64 / seconds;
        case("link packets", packets, Unit::PerCpuSecond, ten_times_ns3(scenario))?;
        if let Some(ns3) = ns3.filter(|_| scenario == Scenario::Chain) {
            case("events of ns-3", ns3.events, Unit::PerCpuSecond, None)?;
            case("link packets of ns-3", ns3.packets, Unit::PerCpuSecond, None)?;
            case("link packets by ns-3's", packets / ns3.packets, Unit::Times, Some(10.0))?;
        }
        case("CPU time", seconds / work.simulated_s, Unit::CpuPerSimulated, None)?;
    }
    for (name, waveform, channel) in HF {
        let case = format!("hf {name} simulated hours");
        let value = hours_of_hf(waveform, channel)?;
        print(Case { bench: "sim", case, value, unit: Unit::PerCpuSecond, limit: Some(1.0) })?;
    }
    let (case, value) = ("brigade simulated hours".to_owned(), hours_of_brigade()?);
    print(Case { bench: "sim", case, value, unit: Unit::PerCpuSecond, limit: Some(BRIGADE) })?;
    Ok(())
}

/// Hours of the brigade's needlines for each CPU second: one is to take 2 s.
const BRIGADE: f64 = 0.5;

/// Simulated hours for each CPU second of 20 routers with OSPF, BGP and messages.
fn hours_of_brigade() -> anyhow::Result<f64> {
    let plan = lab::tactical::brigade();
    let (start, mut simulated_s) = (cpu_time()?, 0.0);
    for seed in 1.. {
        simulated_s += plan.run(Some(seed), None)?.ended_s;
        if cpu_time()? - start >= LONG_ENOUGH {
            break;
        }
    }
    Ok(simulated_s / 3_600.0 / (cpu_time()? - start).as_secs_f64())
}

/// Busy links of STANAG 5066: name, waveform and channel.
const HF: [(&str, &str, &str); 3] = [
    ("9600", "9600", "clear"),
    ("9600, BER 1e-4", "9600", "ber:1e-4"),
    ("240000", "240000", "clear"),
];
/// Transmissions of some two minutes each: an hour.
const TRANSMISSIONS: u64 = 28;

/// Simulated hours for each CPU second.
fn hours_of_hf(waveform: &str, channel: &str) -> anyhow::Result<f64> {
    let (waveform, channel) = (waveform.parse()?, channel.parse()?);
    let (start, mut simulated_s) = (cpu_time()?, 0.0);
    while cpu_time()? - start < LONG_ENOUGH {
        let seconds = lab::hf::simulate_bulk(waveform, channel, TRANSMISSIONS, 1);
        simulated_s += seconds.context("the link broke")?;
    }
    Ok(simulated_s / 3_600.0 / (cpu_time()? - start).as_secs_f64())
}

/// Ten times the link packets that ns-3 3.37 handles in a CPU second.
fn ten_times_ns3(scenario: Scenario) -> Option<f64> {
    match scenario {
        Scenario::Chain => Some(1.95e6),
        Scenario::Fast => Some(1.03e6),
        Scenario::ChainHbh | Scenario::Datagrams => None,
    }
}

/// Runs a scenario for long enough, once its buffers have grown.
fn time(scenario: Scenario) -> anyhow::Result<Timed> {
    let mut world = scenario.build(1);
    let _ = scenario.run(&mut world, scenario.span());
    let start = cpu_time()?;
    let mut done = Timed::default();
    while done.cpu < LONG_ENOUGH {
        let work = scenario.run(&mut world, scenario.span());
        done.work.events += work.events;
        done.work.packets += work.packets;
        done.work.simulated_s += work.simulated_s;
        done.cpu = cpu_time()? - start;
    }
    Ok(done)
}

/// The CPU time used so far by this thread.
pub fn cpu_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}
