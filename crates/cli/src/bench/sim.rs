//! The simulator: events, packets on links, and CPU time for simulated time.

use std::io;
use std::time::Duration;

use ::sim::bench::{Scenario, Work};
use nix::time::{ClockId, clock_gettime};

use super::Case;

/// CPU time for each scenario, at least.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// Events for each CPU second that the simulator is to reach.
const EVENTS: f64 = 2e6;

/// Times every scenario.
pub(super) fn run(mut print: impl FnMut(Case) -> io::Result<()>) -> anyhow::Result<()> {
    for scenario in Scenario::ALL {
        let (work, cpu) = time(scenario)?;
        let seconds = cpu.as_secs_f64();
        let mut case = |what: &str, value, unit, limit| {
            let case = format!("{} {what}", scenario.name());
            print(Case { bench: "sim", case, value, unit, limit })
        };
        case("events", work.events as f64 / seconds, "/CPU s", Some(EVENTS))?;
        let packets = work.packets as f64 / seconds;
        case("link packets", packets, "/CPU s", ten_times_ns3(scenario))?;
        case("CPU time", seconds / work.simulated_s, "CPU s/simulated s", None)?;
    }
    Ok(())
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
fn time(scenario: Scenario) -> anyhow::Result<(Work, Duration)> {
    let mut world = scenario.build(1);
    let _ = scenario.run(&mut world, scenario.span());
    let start = cpu_time()?;
    let mut done = Work::default();
    loop {
        let work = scenario.run(&mut world, scenario.span());
        done.events += work.events;
        done.packets += work.packets;
        done.simulated_s += work.simulated_s;
        let spent = cpu_time()? - start;
        if spent >= LONG_ENOUGH {
            return Ok((done, spent));
        }
    }
}

fn cpu_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}
