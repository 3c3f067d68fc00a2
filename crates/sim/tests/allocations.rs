//! Once buffers have grown to what a scenario needs, running it allocates nothing.

use std::alloc::System;
use std::time::Duration;

use sim::bench::Scenario;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn events_allocate_nothing_in_steady_state() {
    for scenario in Scenario::ALL {
        let mut world = scenario.build(1);
        let _ = scenario.run(&mut world, 5 * span(scenario));
        let region = Region::new(ALLOCATOR);

        let work = scenario.run(&mut world, span(scenario));

        let change = region.change();
        let name = scenario.name();
        assert!(work.events > 5_000, "{name}: {work:?}");
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{name}: {work:?}");
    }
}

fn span(scenario: Scenario) -> Duration {
    Duration::from_secs(match scenario {
        Scenario::Chain => 20_000,
        Scenario::ChainHbh | Scenario::Datagrams => 200,
        Scenario::Fast => 5,
    })
}
