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
        let _ = scenario.run(&mut world, 5 * scenario.span());
        let region = Region::new(ALLOCATOR);

        let work = scenario.run(&mut world, scenario.span());

        let change = region.change();
        let name = scenario.name();
        assert!(work.events > 5_000, "{name}: {work:?}");
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{name}: {work:?}");
    }
}
