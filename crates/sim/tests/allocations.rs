//! Once buffers have grown to what a scenario needs, only hellos allocate, of which there are few.

use std::alloc::System;

use sim::bench::Scenario;
use sim::{Class, World};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A hello is a value with lists, read and written once in two seconds.
const PER_HELLO: u64 = 8;

#[test]
fn events_allocate_nothing_in_steady_state() {
    let hellos = |world: &World| world.total().sent[Class::Hello].packets;
    for scenario in Scenario::ALL {
        let mut world = scenario.build(1);
        let _ = scenario.run(&mut world, 30 * scenario.span());
        let name = scenario.name();

        // The thread that waits for the test may allocate beside one of them, but not beside each.
        let changes = [(); 3].map(|()| {
            let before = hellos(&world);
            let region = Region::new(ALLOCATOR);
            let work = scenario.run(&mut world, scenario.span());
            let change = region.change();
            assert!(work.events > 5_000, "{name}: {work:?}");
            let allocations = (change.allocations + change.reallocations) as u64;
            (allocations, PER_HELLO * (hellos(&world) - before))
        });

        let is_within = changes.iter().any(|(allocations, allowed)| allocations <= allowed);
        assert!(is_within, "{name}: allocations and what hellos may need {changes:?}");
    }
}
