//! The rate over scripted bottlenecks.

#[expect(dead_code, reason = "competition is yet to be tested")]
mod cubic;
#[expect(dead_code, reason = "not all of it is in use yet")]
mod path;

use std::time::Duration;

use self::path::{Path, Peer, Sender, World};
use crate::nc::Config;

const MS: Duration = Duration::from_millis(1);

fn bulk() -> Sender {
    Sender::Bulk(Box::new(Peer::new(&Config::default())))
}

fn alone(seed: u64, path: Path) -> World {
    World::new(seed, path, vec![(0.0, f64::MAX, bulk())])
}

#[test]
fn a_lone_tunnel_fills_the_path_with_a_short_queue() {
    for (rate, delay, most) in
        [(10e6, 5 * MS, 0.01), (10e6, 50 * MS, 0.03), (10e6, 300 * MS, 0.1), (100e6, 20 * MS, 0.01)]
    {
        let mut world = alone(1, Path::clean(rate, delay, 2.0));
        world.run(40.0);

        assert!(world.utilisation(10.0, 40.0) > 0.995, "{rate} {delay:?}");
        assert!(world.queue(0.5, 10.0, 40.0) < 0.007, "{rate} {delay:?}");
        assert!(world.queue(0.99, 10.0, 40.0) < most, "{rate} {delay:?}");
    }
}

#[test]
fn random_loss_does_not_slow_it_down() {
    for (loss, burst, least) in
        [(0.01, 1.0, 0.99), (0.1, 1.0, 0.99), (0.1, 5.0, 0.99), (0.3, 5.0, 0.95)]
    {
        let path = Path { loss, burst, report_loss: loss, ..Path::clean(10e6, 50 * MS, 2.0) };
        let mut world = alone(1, path);
        world.run(40.0);

        assert!(world.utilisation(10.0, 40.0) > least, "{loss} {burst}");
        assert!(world.queue(0.5, 10.0, 40.0) < 0.01, "{loss} {burst}");
    }
}

#[test]
fn it_follows_a_change_of_capacity_within_ten_round_trips() {
    let path = Path {
        rates: vec![(0.0, 10e6), (20.0, 5e6), (40.0, 10e6)],
        ..Path::clean(10e6, 50 * MS, 2.0)
    };
    let mut world = alone(1, path);
    world.run(60.0);

    assert!(world.queue(0.9, 21.0, 22.0) < 0.06);
    assert!(world.utilisation(21.0, 40.0) > 0.99);
    assert!(world.utilisation(41.0, 60.0) > 0.99);
}

#[test]
fn two_tunnels_share_alike() {
    let flows = vec![(0.0, f64::MAX, bulk()), (5.0, f64::MAX, bulk())];
    let mut world = World::new(1, Path::clean(10e6, 50 * MS, 2.0), flows);
    world.run(65.0);

    let (a, b) = (world.throughput(0, 5.0, 65.0), world.throughput(1, 5.0, 65.0));
    assert!((a + b).powi(2) / (2.0 * (a * a + b * b)) > 0.95, "{a} {b}");
}
