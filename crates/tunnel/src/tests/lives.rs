//! The peer's process starts anew: what its earlier life has not acknowledged reaches the next one.

use super::*;

impl Path {
    /// The process of an end starts anew, and the other end learns of it.
    fn begin_life(&mut self, end: usize, config: Config) {
        self.under_way.clear();
        let rng = |name| Rng::stream(7, name);
        self.ends[end] = Tunnel::new(self.now, config, rng("next"));
        let other = &mut self.ends[1 - end];
        let before = std::mem::replace(other, Tunnel::new(self.now, config, rng("nobody")));
        *other = before.next_life(self.now, config, rng("other"));
        self.announced = [self.ends[0].whole(), self.ends[1].whole()];
    }

    /// Lets time pass also where nothing happens.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.run(until);
        self.now = until;
    }
}

#[test]
fn what_nobody_acknowledged_reaches_the_next_life_at_once_and_in_order() {
    let mut path = Path::new(1, Config::default());
    path.feed(0, 100, 200, MILLISECOND);
    path.pass(1_000 * MILLISECOND);
    path.put_in.clear();
    path.out[1].clear();

    // The peer is dead. Some packets are sent in vain, and others wait after the first timeout.
    path.loss = 1.0;
    path.feed(0, 100, 1_000, MILLISECOND);
    path.pass(150 * MILLISECOND);
    let before = path.ends[0].estimates();
    assert!(before.queued > 10_000 && before.unacknowledged > 10, "{before:?}");
    let shed = path.stats(0).inner.queue_dropped;
    path.loss = 0.0;
    let began = path.now;
    path.begin_life(1, Config::default());
    path.pass(1_000 * MILLISECOND);

    // While the rate is still being found the queue sheds some.
    let shed_anew = path.stats(0).inner.queue_dropped;
    assert_eq!(path.stats(0).inner.packets_taken_over + shed, 100);
    assert_eq!(path.out[1].len() as u64 + shed_anew + shed, 100);
    assert!(shed_anew + shed < 5, "{shed_anew} {shed}");
    let mut put_in = path.put_in.iter();
    assert!(path.out[1].iter().all(|(_, packet)| put_in.any(|other| other == packet)));
    assert_eq!(path.out[1][0].0.since(began), path.delay);
}

#[test]
fn compressed_and_cut_packets_come_out_as_they_went_in() {
    let mut path = Path::new(2, Config::default());
    path.swallowed_beyond = 1_300;
    path.feed_segments(0, 203, 500, 2 * MILLISECOND);
    path.pass(399 * MILLISECOND);
    let before = path.stats(0);
    assert!(before.sent.headers_compressed > 100, "{:?}", before.sent);
    path.put_in.drain(..200);

    path.loss = 1.0;
    path.feed_flow(0, (3, 1_240, MILLISECOND), 8);
    path.pass(20 * MILLISECOND);
    path.out[1].clear();
    let after = path.stats(0);
    assert_eq!(after.sent.headers_compressed - before.sent.headers_compressed, 3);
    assert!(after.inner.packets_cut > before.inner.packets_cut, "{:?}", after.inner);
    path.loss = 0.0;
    path.begin_life(1, Config::default());
    path.pass(1_000 * MILLISECOND);

    let [mut out, mut put_in] = [path.taken_out(1), path.put_in.clone()];
    out.dedup();
    out.sort();
    put_in.sort();
    assert!(
        put_in.iter().all(|packet| out.contains(packet)),
        "{} of 6: {:?}",
        out.len(),
        path.stats(0)
    );
    assert_eq!(path.stats(1).received.headers_unknown, 0);
}

#[test]
fn what_is_too_old_is_not_sent_to_the_next_life() {
    let config = Config { deadline: Some(200 * MILLISECOND), ..Config::default() };
    let mut path = Path::new(3, config);
    path.feed(0, 1, 200, MILLISECOND);
    path.pass(1_000 * MILLISECOND);

    path.loss = 1.0;
    path.feed(0, 2, 200, 150 * MILLISECOND);
    path.pass(160 * MILLISECOND);
    // Nobody has looked at the time meanwhile, as on a machine that was held up.
    path.now += 90 * MILLISECOND;
    path.loss = 0.0;
    path.begin_life(1, config);
    path.pass(1_000 * MILLISECOND);

    let out = path.taken_out(1);
    assert!(out == [path.put_in[0].clone(), path.put_in[2].clone()], "{}", out.len());
    let Stats { inner, sent, .. } = path.stats(0);
    assert_eq!((inner.packets_taken_over, sent.sources_expired), (1, 1));
}

#[test]
fn packets_that_waited_for_a_lost_one_are_released() {
    let mut path = Path::new(4, Config::default());
    path.feed(0, 1, 200, MILLISECOND);
    path.pass(1_000 * MILLISECOND);
    path.out[1].clear();

    // One packet is lost, and its sender with it before a repair arrives.
    path.loss = 1.0;
    path.feed(0, 1, 200, MILLISECOND);
    path.pass(Duration::ZERO);
    path.loss = 0.0;
    path.feed(0, 3, 200, Duration::ZERO);
    path.pass(Duration::ZERO);
    path.loss = 1.0;
    path.pass(path.delay);
    assert_eq!(path.out[1].len(), 0);
    path.loss = 0.0;
    path.begin_life(0, Config::default());
    path.pass(MILLISECOND);

    assert!(path.taken_out(1) == path.put_in[2..], "{}", path.out[1].len());
    assert_eq!(path.stats(1).received.sources_given_up, 1);
}

#[test]
fn no_more_is_taken_over_than_the_queue_holds() {
    let config = Config { queue: 65_536, ..Config::default() };
    let mut path = Path::new(5, config);
    path.loss = 1.0;
    path.feed(0, 2_000, 1_000, Duration::from_micros(100));
    path.run(Time::ZERO + 300 * MILLISECOND);

    for life in 0..20 {
        path.begin_life(1, config);
        assert!(path.ends[0].estimates().queued <= 65_536, "life {life}");
        path.run(path.now + 10 * MILLISECOND);
    }

    assert!(path.ends[0].estimates().unacknowledged < 2_000, "{:?}", path.ends[0].estimates());
}
