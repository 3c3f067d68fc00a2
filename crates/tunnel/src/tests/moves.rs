//! Peers that are heard from another address, on the same path or on another.

use super::*;
use crate::secure;

#[test]
fn the_loss_of_another_path_is_measured_anew() {
    let mut path = Path::new(11, Config::default());
    path.loss = 0.2;
    path.feed(0, 20_000, 1_000, MILLISECOND);
    path.run(secs(22));
    let before = path.ends[0].estimates().loss;
    assert!((0.15..0.25).contains(&before), "{before}");

    path.loss = 0.0;
    path.change(0);
    path.feed(0, 150, 1_000, MILLISECOND);
    path.run(secs(23));

    let after = path.ends[0].estimates().loss;
    assert!(after < 0.01, "{after}");
}

#[test]
fn nothing_is_given_up_for_another_address_alone() {
    let config = Config { deadline: Some(Duration::from_secs(30)), ..Config::default() };
    for loss in [0.0, 0.1] {
        let mut path = Path::new(12, config);
        (path.delay, path.loss) = (50 * MILLISECOND, loss);
        path.feed(0, 10, 100, 20 * MILLISECOND);
        path.run(secs(1));
        path.now = secs(1);
        path.feed(0, 3_000, 1_300, MILLISECOND);

        for moved_at in [1_500, 2_000, 2_500] {
            path.run(Time::ZERO + MILLISECOND * moved_at);
            assert_eq!(path.ends[0].estimates().path_mtu, 1_500);
            assert!(path.ends[0].estimates().unacknowledged > 0);
            path.now = Time::ZERO + MILLISECOND * moved_at;
            path.change(0);
        }
        path.run(secs(40));

        let stats = path.stats(0);
        assert_eq!((stats.sent.sources_expired, stats.inner.refused_too_big), (0, 0), "{stats:?}");
        assert!(loss > 0.0 || stats.sent.timeouts == 0, "its round trip is not known to be short");
        let shed = stats.inner.queue_dropped;
        assert_eq!(path.out[1].len() as u64 + shed, 3_010, "{stats:?}");
        assert_eq!(path.ends[0].estimates().path_mtu, 1_500);
    }
}

#[test]
fn a_shorter_path_that_a_move_leads_to_is_no_long_outage() {
    let mut path = Path::new(13, Config::default());
    path.delay = 50 * MILLISECOND;
    path.feed(0, 4_000, 1_300, MILLISECOND);
    path.run(secs(2));

    path.now = secs(2);
    path.swallowed_beyond = 1_300;
    path.change(0);
    path.run(secs(20));

    // What was long and under way is lost: it fits no datagram any more.
    let inner = path.stats(0).inner;
    let lost = 4_000 - path.out[1].len() as u64 - inner.queue_dropped - inner.refused_too_big;
    assert!(lost < 300, "{lost}: {:?}", path.stats(0));
    assert!((1_280..=1_300).contains(&path.ends[0].estimates().path_mtu));
}

#[test]
fn the_first_link_of_another_path_has_its_own_mtu_and_headers() {
    let mut path = Path::new(14, Config::default());
    path.mtu = 1_000;
    path.feed(0, 200, 900, 10 * MILLISECOND);
    path.run(secs(10));
    assert!((992..=1_000).contains(&path.ends[0].estimates().path_mtu));

    path.mtu = 1_500;
    path.ends[0].handle_path_changed(path.now, PathId::FIRST, 1_500, secure::OUTER_V6);
    path.feed(0, 200, 900, 10 * MILLISECOND);
    path.run(secs(20));

    assert_eq!(path.ends[0].estimates().path_mtu, 1_500);
    let shorter = secure::OUTER_V6 - secure::OUTER_V4;
    assert_eq!(path.ends[0].whole(), 1_500 - secure::OUTER_V4 - 10 - shorter);
}

#[test]
fn an_older_peer_that_moves_is_sent_no_packet_that_would_have_to_be_cut() {
    let mut path = Path::new(15, Config::default());
    path.ends[1].forget_understanding(path.now, 0);
    path.feed(0, 100, 100, 20 * MILLISECOND);
    path.run(secs(3));
    assert_eq!((path.ends[0].mtu(), path.ends[0].whole()), (1_438, 1_438));

    path.change(0);

    let (mtu, whole) = (path.ends[0].mtu(), path.ends[0].whole());
    assert_eq!((mtu, whole), (1_280 - 62, 1_280 - 62));
}
