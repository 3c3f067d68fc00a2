//! Once buffers have grown to what a radio network needs, frames allocate nothing.

use std::alloc::System;
use std::time::Duration;

use sim::bench::manet::{Routes, Scenario};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn frames_allocate_nothing_in_steady_state() {
    // Routes are not made anew, which allocates.
    let scenario = Scenario {
        nodes: 20,
        side: 500.0,
        routes: Routes::Shortest(Duration::from_secs(10_000)),
        ..Scenario::default()
    };
    let mut bench = scenario.build(1);
    let _ = bench.run(Duration::from_secs(60));

    // The thread that waits for the test may allocate beside one of them, but not beside each.
    let changes = [(); 3].map(|()| {
        let region = Region::new(ALLOCATOR);
        let done = bench.run(Duration::from_secs(10));
        let change = region.change();
        assert!(done.frames > 3_000 && done.listeners > 20_000, "{done:?}");
        change.allocations + change.reallocations
    });

    assert!(changes.contains(&0), "{changes:?}");
}
