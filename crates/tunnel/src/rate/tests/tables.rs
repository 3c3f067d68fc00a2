//! The tables of `docs/protocols/nc.md`: `cargo test -p trackway-tunnel rate::tests::tables -- --ignored --nocapture`.

use super::*;

const SEEDS: u64 = 4;

/// The mean over seeds of what `measure` says of a world.
fn mean<const N: usize>(measure: impl Fn(u64) -> [f64; N]) -> [f64; N] {
    let mut sums = [0.0; N];
    for seed in 0..SEEDS {
        for (sum, value) in sums.iter_mut().zip(measure(seed)) {
            *sum += value / SEEDS as f64;
        }
    }
    sums
}

/// From 10 to 60 s: the bottleneck used, and the queue at 50 and 99 % in ms; what is dropped from the start.
fn lone(path: &Path) -> [f64; 4] {
    mean(|seed| {
        let mut world = alone(seed, path.clone());
        world.run(60.0);
        let queue = |part| 1e3 * world.queue(part, 10.0, 60.0);
        [world.utilisation(10.0, 60.0), queue(0.5), queue(0.99), world.drop_rate()]
    })
}

/// The rate beside CUBIC's as the geometric mean, of all that was used, and what was dropped; from 20 to 90 s.
fn beside(path: &Path, [ours, cubic]: [f64; 2]) -> [f64; 3] {
    let [share, used, dropped] = mean(|seed| {
        let cubic = (cubic + 0.125 * seed as f64, f64::MAX, Sender::Cubic(Box::default()));
        let flows = vec![(ours, f64::MAX, bulk()), cubic];
        let mut world = World::new(seed, path.clone(), flows);
        world.run(90.0);
        let rate = |flow| world.throughput(flow, 20.0, 90.0).max(1e3);
        [(rate(0) / rate(1)).ln(), world.utilisation(20.0, 90.0), world.drop_rate()]
    });
    [share.exp(), used, dropped]
}

#[test]
#[ignore = "prints tables"]
fn a_path_of_its_own() {
    let clean = |rate, delay| Path::clean(rate, delay, 2.0);
    let mut rows: Vec<(String, Path)> = Vec::new();
    for delay in [5 * MS, 50 * MS, 300 * MS] {
        rows.push((format!("10 Mbit/s, round trip {:?}", 2 * delay), clean(10e6, delay)));
    }
    rows.push(("100 Mbit/s, round trip 40 ms".to_owned(), clean(100e6, 20 * MS)));
    for burst in [1.0, 5.0] {
        for loss in [0.01, 0.05, 0.1, 0.2, 0.3] {
            let path = Path { loss, burst, report_loss: loss, ..clean(10e6, 50 * MS) };
            rows.push((format!("loss {loss}, bursts of {burst}"), path));
        }
    }
    for jitter in [5, 20, 50] {
        rows.push((
            format!("jitter {jitter} ms"),
            Path { jitter: jitter * MS, ..clean(10e6, 50 * MS) },
        ));
    }
    rows.push((
        "reports wait up to 40 ms".to_owned(),
        Path { report_queue: 40 * MS, ..clean(10e6, 50 * MS) },
    ));
    for (rate, delay) in [(2e6, 25 * MS), (10e6, 10 * MS), (10e6, 50 * MS)] {
        for datagrams in [2.0, 4.0, 8.0, 20.0] {
            let path = Path { buffer: datagrams * 1_500.0, ..clean(rate, delay) };
            rows.push((format!("{rate:e} bit/s, {:?}, buffer {datagrams}", 2 * delay), path));
        }
    }
    for (name, path) in rows {
        let [used, p50, p99, dropped] = lone(&path);
        eprintln!("{name:40} {used:.3} {p50:6.1} {p99:6.1} {dropped:.3}");
    }
}

/// A tenth of the paths that jitter may have at once, as public benchmarks of tunnels emulate them.
#[test]
#[ignore = "prints tables"]
fn a_path_that_jitters() {
    for overtakes in [false, true] {
        for (rate, delay, jitter, loss) in [
            (50e6, 20, 5, 0.0),
            (50e6, 20, 40, 0.0),
            (10e6, 50, 50, 0.0),
            (100e6, 25, 50, 0.01),
            (930e6, 2, 4, 0.002_5),
            (930e6, 4, 14, 0.01),
            (930e6, 6, 30, 0.025),
            (1e6, 100, 100, 0.0),
            (10e6, 300, 50, 0.0),
            (10e6, 10, 10, 0.0),
        ] {
            let clean = Path::clean(rate, delay * MS, 2.0);
            let path = Path { jitter: jitter * MS, overtakes, loss, ..clean };
            let [used, p50, p99, dropped] = lone(&path);
            let name =
                format!("{:.0} Mbit/s, {delay} ms, jitter to {jitter} ms, loss {loss}", rate / 1e6);
            eprintln!("{name:50} {overtakes:5} {used:.3} {p50:6.1} {p99:6.1} {dropped:.3}");
        }
    }
}

#[test]
#[ignore = "prints tables"]
fn beside_cubic() {
    for (rate, delay) in [(2e6, 25 * MS), (10e6, 10 * MS), (10e6, 50 * MS)] {
        for datagrams in [4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 83.0, 166.0] {
            let path = Path { buffer: datagrams * 1_500.0, ..Path::clean(rate, delay, 2.0) };
            for (name, starts) in [("cubic later", [0.0, 0.5]), ("tunnel later", [10.0, 0.0])] {
                let [share, used, dropped] = beside(&path, starts);
                let name = format!("{rate:e} bit/s, {:?}, buffer {datagrams}, {name}", 2 * delay);
                eprintln!("{name:50} {share:5.2} {used:.3} {dropped:.3}");
            }
        }
    }
}
