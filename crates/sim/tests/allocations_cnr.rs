//! Once buffers have grown to what a combat net needs, transmissions allocate nothing.

use std::alloc::System;
use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use sim::World;
use sim::app::stream;
use sim::cnr::{Config, Hearing, LinkType};
use sim::mobility::Motion;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn transmissions_allocate_nothing_in_steady_state() {
    for link_type in [LinkType::Unacknowledged, LinkType::Coupled, LinkType::Decoupled] {
        let mut world = World::new(1);
        let config = Config { link_type, ..Config::default() };
        let net = world.add_cnr(config, Hearing::All);
        let nodes: Vec<_> = (0..16).map(|n| world.add_node(&format!("n{n}"))).collect();
        for node in &nodes {
            world.add_cnr_station(net, *node, Motion::at_rest(Default::default()));
        }
        world.auto_routes();
        for (from, to) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
            let destination = SocketAddr::new(world.address(*to).expect("an address"), 9);
            world.add_app(
                *from,
                stream::Sender::new(stream::SenderConfig {
                    interval: Duration::from_secs(10),
                    ..stream::SenderConfig::new(destination, 100)
                }),
            );
            world.add_app(*to, stream::Sink::new(9));
        }
        // Queues fill, as 1.6 packets a second are too many.
        world.run_until(Time::ZERO + Duration::from_secs(40_000));

        // The thread that waits for the test may allocate beside one of them, but not beside each.
        let changes = [(); 3].map(|()| {
            let before = world.cnr_medium(net).total(world.now()).transmissions;
            let region = Region::new(ALLOCATOR);
            world.run_until(world.now() + Duration::from_secs(1_000));
            let change = region.change();
            let after = world.cnr_medium(net).total(world.now()).transmissions;
            assert!(after - before > 300, "{link_type:?}: {}", after - before);
            change.allocations + change.reallocations
        });

        assert!(changes.contains(&0), "{link_type:?}: {changes:?}");
    }
}
