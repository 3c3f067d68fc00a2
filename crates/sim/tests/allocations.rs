//! Once buffers have grown to what a scenario needs, running it allocates nothing.

use std::alloc::System;

use sim::bench::Scenario;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn events_allocate_nothing_in_steady_state() {
    for scenario in Scenario::ALL {
        let mut world = scenario.build(1);
        let _ = scenario.run(&mut world, 30 * scenario.span());
        let name = scenario.name();

        // The thread that waits for the test may allocate beside one of them, but not beside each.
        let changes = [(); 3].map(|()| {
            let region = Region::new(ALLOCATOR);
            let work = scenario.run(&mut world, scenario.span());
            let change = region.change();
            assert!(work.events > 5_000, "{name}: {work:?}");
            (change.allocations, change.reallocations)
        });

        assert!(changes.contains(&(0, 0)), "{name}: {changes:?}");
    }
}
