//! Measures delay and rate of frames over the link emulator. `./test` runs each of these tests alone.

use std::time::{Duration, Instant};

use testbed::probe::Iperf;

use super::{Cable, Probe, count};

#[test]
#[ignore = "needs root: run by ./test"]
fn frames_arrive_after_the_delay() {
    let mut cable = Cable::new("--delay 20ms");

    // A busy machine makes frames late, never early, and not most of them every time: should it be
    // half of the tries, 30 of them fail once in 1e9 runs.
    let mut medians = Vec::new();
    while medians.len() < 30 && !medians.iter().any(|median| *median < 0.0205) {
        let delays = cable.probe(400, 100, Duration::from_millis(1)).delays();
        assert_eq!(delays.len(), 400);
        assert!(delays[0] >= 0.020, "shortest {} s", delays[0]);
        medians.push(delays[200]);
    }

    assert!(medians.iter().any(|median| *median < 0.0205), "medians {medians:?} s");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn frames_leave_at_the_rate() {
    let mut cable = Cable::new("--rate 10mbit --queue 5000");

    // 1000 octets, 28 of UDP and IP, 14 of Ethernet.
    let expected = 1_000.0 * 1_042.0 * 8.0 / 10e6;
    let is_near = |took: &f64| (took / expected - 1.0).abs() < 0.01;
    // What a thousand frames take, as most say: those that a busy machine makes late have no vote
    // as long as they are few. Should they be many in a tenth of the tries, 10 of them fail once in
    // 1e10 runs.
    let mut medians = Vec::new();
    while medians.len() < 10 && !medians.iter().any(is_near) {
        let arrivals = cable.probe(2_000, 1_000, Duration::ZERO).arrivals;
        assert_eq!(arrivals.len(), 2_000);
        let took = |window: &[(u32, Instant)]| (window[1_000].1 - window[0].1).as_secs_f64();
        let mut took: Vec<f64> = arrivals.windows(1_001).map(took).collect();
        took.sort_by(f64::total_cmp);
        medians.push(took[500]);
    }

    assert!(medians.iter().any(is_near), "{medians:?}, not {expected} s");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_unlimited_link_carries_200_mbit_per_s_of_segmented_tcp() {
    let mut cable = Cable::new("");
    let between = (&cable.left[..], &cable.right[..]);
    let iperf = Iperf { between, address: "10.9.0.2", seconds: 3, left_out: 0, args: &[] };

    let rate = iperf.goodput(&mut cable.nets).unwrap();

    assert!(rate > 200e6, "{rate} bit/s");
    let report = cable.end();
    for (direction, what) in
        [("ab", "malformed"), ("ab", "refused"), ("ba", "malformed"), ("ba", "refused")]
    {
        assert_eq!(count(&report, direction, what), 0, "{direction} {what}: {report}");
    }
}

impl Probe {
    /// How long each datagram that came was on its way, the shortest first.
    fn delays(&self) -> Vec<f64> {
        let delay = |(number, at): &(u32, Instant)| {
            (*at - self.sent[usize::try_from(*number).unwrap()]).as_secs_f64()
        };
        let mut delays: Vec<f64> = self.arrivals.iter().map(delay).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }
}
