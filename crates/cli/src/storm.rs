//! `trackway storm`: protocol cores under faults drawn from seeds.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::lab::progress::Progress;
use ::lab::runner;
use base::time::Time;
use storm::{Course, Ran, Service};

use crate::failure::{misuse, print};
use crate::interrupt::Interrupt;

/// Run protocol cores under faults drawn from seeds, and hold them to the rules that users rely on.
///
/// A run is a function of its service and its seed. What breaks a rule is printed with the command that replays it, and
/// with a short course that breaks the same rule.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway storm --minutes 5
  trackway storm slep --runs 1000 --jobs 2
  trackway storm slep --seed 0x2a --until 812.4 --trace")]
pub struct Args {
    /// Only this service: hbh, routing, rules, s5066, sar, slep, tcp or tunnel [default: all].
    service: Option<Service>,

    /// Run this seed, or begin with this seed where there are more runs; hexadecimal with 0x.
    #[arg(long, value_name = "S", value_parser = number)]
    seed: Option<u64>,

    /// How many seeds to run of each service.
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    runs: Option<u32>,

    /// How long to run new seeds.
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,

    /// How many runs to do at once [default: one for each core].
    #[arg(long, value_name = "J")]
    jobs: Option<NonZeroUsize>,

    /// End a single run at this time, in seconds.
    #[arg(long, value_name = "SECONDS")]
    until: Option<f64>,

    /// Of a single run, keep only these events, by their numbers.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    events: Option<Vec<usize>>,

    /// Print what happens in a single run.
    #[arg(long)]
    trace: bool,
}

/// The default number of runs of each service.
const RUNS: u32 = 100;
/// Seeds of each service between two looks at the clock.
const BATCH: u32 = 32;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let services = args.service.map_or_else(|| Service::ALL.to_vec(), |service| vec![service]);
    let is_single = args.runs.is_none() && args.minutes.is_none();
    if let (Some(seed), true, [service]) = (args.seed, is_single, &services[..]) {
        return one(args, *service, seed);
    }
    if args.runs == Some(0) || args.minutes.is_some_and(|minutes| minutes <= 0.0) {
        return Err(misuse("--runs and --minutes are greater than 0"));
    }
    if args.trace || args.until.is_some() || args.events.is_some() {
        return Err(misuse(
            "--trace, --until and --events belong to one run: give a service and --seed",
        ));
    }
    let jobs = args.jobs.unwrap_or_else(runner::cores);
    let first = args.seed.unwrap_or(0);
    let limit = match args.minutes.map(|minutes| Duration::try_from_secs_f64(minutes * 60.0)) {
        Some(Err(_)) => return Err(misuse("--minutes is a positive number")),
        Some(Ok(limit)) => Some(limit),
        None => None,
    };
    let begun = Instant::now();
    let mut next = first;
    let mut left = args.runs.unwrap_or(if limit.is_some() { u32::MAX } else { RUNS });
    let mut totals = vec![Total::default(); services.len()];
    let mut failures = Vec::new();
    let interrupt = Interrupt::new()?;
    let is_stopped = || interrupt.flag().load(Ordering::Relaxed);
    let is_over = || is_stopped() || limit.is_some_and(|limit| begun.elapsed() >= limit);
    while left > 0 && !is_over() && failures.is_empty() {
        let batch = left.min(BATCH);
        for (service, total) in services.iter().zip(&mut totals) {
            let seeds: Vec<u64> = (0..u64::from(batch)).map(|at| next.wrapping_add(at)).collect();
            let work = |at: usize| Course::draw(*service, seeds[at]).run(None, None);
            let progress = Progress::silent();
            let done = runner::run_until(seeds.len(), jobs, &progress, interrupt.flag(), work);
            for (seed, ran) in seeds.iter().zip(done) {
                let Some(ran) = ran else { continue };
                total.add(&ran);
                if let Some((at, why)) = ran.broken {
                    failures.push((*service, *seed, at, why));
                }
            }
        }
        next = next.wrapping_add(u64::from(batch));
        left -= batch;
    }

    let mut text = format!(
        "{:8} {:>8} {:>14} {:>12} {:>9}\n",
        "service", "seeds", "station hours", "datagrams", "failures"
    );
    for (service, total) in services.iter().zip(&totals) {
        let count = failures.iter().filter(|(of, ..)| of == service).count();
        let Total { seeds, hours, datagrams } = total;
        writeln!(text, "{service:8} {seeds:>8} {hours:>14.1} {datagrams:>12} {count:>9}")?;
    }
    writeln!(text, "seeds {first:#x} and on")?;
    print(&text)?;
    for (service, seed, at, why) in &failures {
        print(&story(&Course::draw(*service, *seed), *at, why))?;
    }
    Ok(match () {
        () if !failures.is_empty() => ExitCode::FAILURE,
        () if is_stopped() => ExitCode::from(interrupt.code()),
        () => ExitCode::SUCCESS,
    })
}

/// Sums over the runs of a service.
#[derive(Clone, Debug, Default)]
struct Total {
    seeds: u64,
    hours: f64,
    datagrams: u64,
}

impl Total {
    fn add(&mut self, ran: &Ran) {
        self.seeds += 1;
        self.hours += ran.span.as_secs_f64() / 3_600.0 * f64::from(ran.stations);
        self.datagrams += ran.datagrams;
    }
}

/// Runs one course and prints the result, with the story of a broken rule last.
fn one(args: &Args, service: Service, seed: u64) -> anyhow::Result<ExitCode> {
    let mut course = Course::draw(service, seed);
    if let Some(events) = &args.events {
        course = course.only(&events.iter().copied().collect::<BTreeSet<usize>>());
    }
    let until = args.until.map(Duration::try_from_secs_f64).transpose();
    let until = until.map_err(|_| misuse("--until is a time in seconds"))?;
    let until = until.map(|until| Time::ZERO + until);
    let mut lines = String::new();
    let mut tell = |line: &str| {
        lines.push_str(line);
        lines.push('\n');
    };
    let ran = course.run(until, args.trace.then_some(&mut tell as &mut dyn FnMut(&str)));
    print(&lines)?;
    let Ran { hash, instants, datagrams, span, broken, .. } = ran;
    print(&format!(
        "{service} {seed:#x}: {} events, {instants} instants, {datagrams} datagrams, {:.1} s, hash {hash:016x}\n",
        course.events.len(),
        span.as_secs_f64()
    ))?;
    let Some((at, why)) = broken else { return Ok(ExitCode::SUCCESS) };
    print(&story(&course, at, &why))?;
    Ok(ExitCode::FAILURE)
}

/// Describes a broken rule: with the command to replay the run, and the shortest course found with the same break.
fn story(course: &Course, at: Time, why: &str) -> String {
    let Course { service, seed, .. } = course;
    let until = at.as_secs_f64() + 0.1;
    let mut text = format!(
        "\n{why}\n  trackway storm {service} --seed {seed:#x} --until {until:.1} --trace\n"
    );
    let shrunk = course.shrink(why);
    let places: Vec<String> = shrunk.events.iter().map(|(place, ..)| place.to_string()).collect();
    text.push_str(&format!("  {} of {} events are enough", places.len(), course.events.len()));
    if shrunk.is_part_of(course) && !places.is_empty() {
        text.push_str(&format!(": --events {}", places.join(",")));
    }
    text.push('\n');
    for (place, at, event) in &shrunk.events {
        text.push_str(&format!("    {place:>4} {:>10.3} s  {event}\n", at.as_secs_f64()));
    }
    let limits = if shrunk.has_limits { "limits of the seed" } else { "usual limits" };
    let (nodes, span) = (shrunk.nodes, shrunk.span.as_secs_f64());
    text.push_str(&format!("    {nodes} nodes, {limits}, calm from {span:.1} s\n"));
    text.push_str(&format!("    {}\n", shrunk.medium));
    text
}

/// A seed, decimal or hexadecimal.
fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_rule_is_told_in_words() {
        let course = Course::draw(Service::Slep, 1);

        let told = story(&course, Time::ZERO + Duration::from_secs(2), "none: such");

        let medium = told.lines().last().unwrap();
        assert!(medium.contains(" bit/s, ") && medium.ends_with(" ppm"), "{medium}");
        assert!(!told.contains(['{', '}']), "{told}");
    }
}
