//! The same run gives the same, and does not grow.

use super::*;

#[test]
fn a_run_is_a_function_of_its_seed() {
    assert_eq!(busy(1).report(), busy(1).report());
    assert_ne!(busy(1).report().hash, busy(2).report().hash);
}

#[test]
fn steps_and_runs_are_the_same() {
    let whole = busy(5).report();
    let mut world = plan(5);

    for second in 0..=60 {
        world.run_until(secs(second));
    }

    assert_eq!(world.report(), whole);
}

#[test]
fn another_node_does_not_change_what_is_lost_elsewhere() {
    let lost = |with_stranger| {
        let mut world = plan(9);
        if with_stranger {
            let strangers = ["x", "y"].map(|name| world.add_node(name));
            world.connect(strangers[0], strangers[1], &link(lossy(0.5)));
            let to_stranger = stream_to(&world, strangers[1], 100, 100);
            world.add_app(strangers[0], stream::Sender::new(to_stranger));
        }
        world.run_until(secs(60));
        world.report().links[0].counters
    };

    assert_eq!(lost(true), lost(false));
}

pub(super) fn busy(seed: u64) -> World {
    let mut world = plan(seed);
    world.run_until(secs(60));
    world
}

fn plan(seed: u64) -> World {
    let (mut world, nodes) = chain(seed, 3, &link(lossy(0.2)));
    let there = stream_to(&world, nodes[3], 500, 400);
    world.add_app(nodes[0], stream::Sender::new(there));
    world.add_app(nodes[3], stream::Sink::new(9));
    let back = stream_to(&world, nodes[0], 200, 400);
    world.add_app(nodes[3], ping::Ping::new(stream::SenderConfig { port: 6_000, ..back }));
    world.add_app(nodes[0], echo::Echo::new(9));
    world
}
