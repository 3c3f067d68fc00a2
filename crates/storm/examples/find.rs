//! Runs new seeds of a service until a rule is broken, and shrinks the course: `find SERVICE SEED SECONDS`.
//!
//! Prints seed, seconds until the rule was broken, events of the course, events after shrinking, and the rule. Much
//! sooner built than `trackway storm`, so `scripts/faults` runs it over cores with a fault.

use std::time::{Duration, Instant};

use storm::{Course, Service};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("find SERVICE SEED SECONDS");
    let service: Service = next().parse().expect("a service");
    let first: u64 = next().parse().expect("a seed");
    let limit = Duration::from_secs(next().parse().expect("seconds"));
    let begun = Instant::now();
    for count in 0.. {
        if begun.elapsed() >= limit {
            println!("nothing in {count} seeds");
            return;
        }
        let course = Course::draw(service, first + count);
        let Some((_, why)) = course.run(None, None).broken else { continue };
        let seconds = begun.elapsed().as_secs_f64();
        let shrunk = course.shrink(&why);
        let [before, after] = [&course, &shrunk].map(|course| course.events.len());
        println!(
            "seed {:#x}, {seconds:.2} s, {before} events, {after} are enough: {why}",
            course.seed
        );
        std::process::exit(1);
    }
}
