//! Runs whose every event is known: a change in behaviour shows, wanted or not.
//!
//! When behaviour is meant to change, `cargo test -p trackway-sim golden` fails and prints the new
//! table: put it in the place of the old one. The numbers are the same in debug and release builds.

use proto::hbh::Profile;

use super::*;

/// Name, hash over all events, number of events.
type Golden = (&'static str, u64, u64);

#[rustfmt::skip]
const GOLDEN: [Golden; 6] = [
    ("datagrams", 0x578a192996efc5b1, 2775),
    ("tcp", 0x68630914c34de262, 255),
    ("tcp, lossy", 0xde8d2a78f32fd303, 294),
    ("tcp over hbh, lossy", 0xde49285c3721d80a, 3139),
    ("tcp over hbh of the paper, lossy", 0xdc09d3ddcae9e671, 3526),
    ("tcp in a coded tunnel, lossy", 0xc9cb5308b87fcd9a, 915),
];

#[test]
fn the_golden_runs_have_not_changed() {
    let plain = |loss| move || transfer(chain(42, 3, &link(lossy(loss))));
    let under_hbh = |profile| {
        move || {
            let (mut world, nodes) = chain(42, 4, &link(lossy(0.1)));
            hops::enable(&mut world, &nodes, profile);
            transfer((world, nodes))
        }
    };
    let tunnelled = || {
        let (world, nodes) = tunnels::tunnelled(42, &link(lossy(0.1)));
        transfer((world, nodes.to_vec()))
    };
    let runs: [(&str, &dyn Fn() -> World); 6] = [
        ("datagrams", &|| runs::busy(42)),
        ("tcp", &plain(0.0)),
        ("tcp, lossy", &plain(0.03)),
        ("tcp over hbh, lossy", &under_hbh(Profile::Default)),
        ("tcp over hbh of the paper, lossy", &under_hbh(Profile::Paper)),
        ("tcp in a coded tunnel, lossy", &tunnelled),
    ];

    let now: Vec<Golden> = runs
        .iter()
        .map(|(name, run)| {
            let report = run().report();
            (*name, report.hash, report.events)
        })
        .collect();

    assert!(now == GOLDEN, "the table is now\n{}", table(&now));
}

/// The table as it stands above.
fn table(runs: &[Golden]) -> String {
    let line =
        |&(name, hash, events): &Golden| format!("    ({name:?}, {hash:#018x}, {events}),\n");
    runs.iter().map(line).collect()
}

/// A transfer from the first node to the last, run to its end.
fn transfer((mut world, nodes): (World, Vec<NodeId>)) -> World {
    let (first, last) = (nodes[0], *nodes.last().unwrap());
    let to = SocketAddr::new(world.address(last).unwrap(), 9);
    let config = transfer::SenderConfig::new(to, 60_000);
    world.add_app(first, transfer::Sender::new(config));
    let sink = world.add_app(last, transfer::Sink::new(transfer::SinkConfig::new(9)));

    run_for(&mut world, 60);

    assert_eq!(world.transfer_sink(sink).unwrap().octets, 60_000);
    world
}
