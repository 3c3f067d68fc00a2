//! Paths that swallow what is longer than they take, down to less than an inner packet.

use super::super::understanding::{COMPRESSED_HEADERS, PARTS};
use super::*;

/// Octets of an IPv4 and UDP header.
const HEADERS: usize = 28;

#[test]
fn packets_of_1280_octets_pass_however_short_the_path_is() {
    for (mtu, loss) in
        [(296, 0.0), (296, 0.1), (576, 0.0), (1_000, 0.0), (1_000, 0.1), (1_279, 0.1), (1_280, 0.0)]
    {
        let config = Config { deadline: Some(Duration::from_secs(30)), ..Config::default() };
        let mut path = Path::new(7, config);
        (path.swallowed_beyond, path.loss) = (mtu, loss);

        // What is sent until the size is known is lost.
        path.feed(0, 50, 1_000, 50 * MILLISECOND);
        path.run(secs(9));
        let before = path.out[1].len();
        path.put_in.clear();
        for payload in [1_280 - HEADERS, 100, 1_100, 700] {
            path.feed_flow(
                0,
                (200, payload, 10 * MILLISECOND),
                u8::try_from(payload % 251).unwrap(),
            );
        }
        path.run(secs(30));

        let context =
            || format!("{mtu}, {loss}: {:?} {:?}", path.ends[0].estimates(), path.stats(0));
        let found = path.ends[0].estimates().path_mtu;
        assert!((mtu - 8..=mtu).contains(&found), "{}", context());
        let mut out = path.taken_out(1).split_off(before);
        let mut put_in = path.put_in.clone();
        for port in
            [1_252_usize, 100, 1_100, 700].map(|payload| u8::try_from(payload % 251).unwrap())
        {
            let of_flow = |packet: &&Vec<u8>| packet[23] == port;
            let out: Vec<_> = out.iter().filter(of_flow).collect();
            let put_in: Vec<_> = put_in.iter().filter(of_flow).collect();
            assert_eq!(out, put_in, "each flow as it went in; {}", context());
        }
        out.sort();
        put_in.sort();
        assert_eq!(out, put_in, "{}", context());
        assert_eq!(path.stats(0).inner.packets_cut > 0, mtu < 1_342);
        assert_eq!(path.stats(1).inner.packets_joined, path.stats(0).inner.packets_cut);
    }
}

#[test]
fn a_path_that_becomes_shorter_is_an_outage_of_some_round_trips() {
    let mut path = Path::new(8, Config::default());
    path.delay = 50 * MILLISECOND;
    path.feed(0, 400, 1_300, 10 * MILLISECOND);
    path.run(secs(3));
    assert_eq!(path.ends[0].estimates().path_mtu, 1_500);

    path.swallowed_beyond = 1_000;
    path.feed(0, 300, 1_200, 10 * MILLISECOND);
    path.run(secs(8));

    // In doubt after two timeouts, sure after three rounds of a round trip and a half; what was sent
    // shortly before falls with it.
    let came: Vec<Time> =
        path.out[1].iter().filter(|(_, packet)| packet.len() == 1_228).map(|(at, _)| *at).collect();
    let lost = 300 - came.len();
    assert!(lost < 130, "{lost}: {:?} {:?}", path.ends[0].estimates(), path.stats(0));
    assert!((992..=1_000).contains(&path.ends[0].estimates().path_mtu));
    let said = path.events.iter().filter(|(end, event)| *end == 0 && *event == Event::Mtu(1_280));
    assert!(said.count() >= 1, "{:?}", path.events);
}

#[test]
fn probes_that_are_too_long_are_no_losses_of_the_path() {
    for mtu in [1_280, 1_420] {
        let mut path = Path::new(11, Config::default());
        path.swallowed_beyond = mtu;

        // A quiet tunnel, over which most datagrams are probes and reports.
        path.feed(0, 20, 64, 500 * MILLISECOND);
        path.run(secs(12));

        let (estimates, stats) = (path.ends[0].estimates(), path.stats(0));
        assert_eq!(estimates.path_mtu, mtu);
        assert_eq!((estimates.loss, stats.sent.datagrams_lost), (0.0, 0), "{stats:?}");
    }
}

#[test]
fn the_longest_packet_is_never_below_1280() {
    let mut path = Path::new(9, Config { max_mtu: 600, ..Config::default() });
    path.mtu = 600;

    path.feed(0, 20, 1_280 - HEADERS, 20 * MILLISECOND);
    path.run(secs(5));

    assert_eq!((path.ends[0].mtu(), path.ends[0].whole()), (1_280, 600 - 52 - 10));
    assert_eq!(path.taken_out(1), path.put_in);
}

#[test]
fn an_interface_that_takes_less_than_the_base_is_believed_at_once() {
    let mut path = Path::new(10, Config::default());
    path.mtu = 700;

    path.feed(0, 200, 1_280 - HEADERS, 20 * MILLISECOND);
    path.run(secs(10));

    let out = path.out[1].len();
    assert!(out >= 190, "{out}: {:?} {:?}", path.ends[0].estimates(), path.stats(0));
    assert!((692..=700).contains(&path.ends[0].estimates().path_mtu));
}

#[test]
fn an_older_peer_is_sent_no_parts_once_it_had_the_room_to_show_that_it_joins_none() {
    for own in [0, COMPRESSED_HEADERS] {
        let mut path = Path::new(11, Config { max_mtu: 1_000, ..Config::default() });
        path.mtu = 1_000;
        path.ends[1].forget_understanding(path.now, own);
        // Its first reports may go with probes, which have no room.
        path.feed(0, 100, 100, 20 * MILLISECOND);
        path.run(secs(3));
        let whole = 1_000 - 52 - 10;
        assert_eq!((path.ends[0].mtu(), path.ends[0].whole()), (whole, whole), "{own}");
        let (before, cut) = (path.out[1].len(), path.stats(0).inner.packets_cut);
        let said = path.events.iter().filter(|said| **said == (0, Event::Mtu(whole))).count();
        assert_eq!(said, 1, "{own}: {:?}", path.events);

        let now = path.now;
        let fitting = datagram(whole - HEADERS, 0, 9);
        assert_eq!(path.ends[0].handle_packet(now, &fitting), Ok(()), "{own}");
        let refused = path.ends[0].handle_packet(now, &datagram(whole - HEADERS + 1, 0, 9));
        path.run(secs(4));

        assert_eq!(refused, Err(Refused::TooBig { mtu: whole }), "{own}");
        assert_eq!(path.out[1].len(), before + 1, "{own}");
        let Stats { inner, .. } = path.stats(0);
        assert_eq!((inner.packets_cut, inner.refused_uncut), (cut, 1), "{own}: {inner:?}");
        // What it sends is joined all the same: whoever shows nothing may still know more than it says.
        assert!(!path.ends[1].understanding().is_strange(PARTS), "{own}");
    }
}

#[test]
fn packets_behind_a_short_one_that_was_dropped_and_one_that_is_too_long_go_out() {
    let mut now = secs(1);
    let config = Config { base_mtu: 1_500, ..Config::default() };
    let mut tunnel = Tunnel::new(now, config, Rng::stream(1, "tunnel"));
    for (index, payload) in (0..).zip([1_000, 1_000, 1_380, 1_000, 1_000, 1_000, 1_000, 1_000]) {
        assert_eq!(tunnel.handle_packet(now, &datagram(payload, index, 9)), Ok(()));
    }
    tunnel.handle_path_changed(now, PathId::FIRST, 1_340, config.overhead);
    let mut out = Vec::new();
    now += 50 * MILLISECOND;
    while tunnel.stats().sent.sources_sent == 0 {
        assert!(tunnel.poll_transmit(now, PathId::FIRST, &mut out).is_some());
    }

    // The first packet was late, so that the second one is dropped. The third one fitted when it came.
    now += 200 * MILLISECOND;
    tunnel.handle_timeout(now);
    while tunnel.poll_transmit(now, PathId::FIRST, &mut out).is_some() {}

    let Stats { inner, sent, .. } = tunnel.stats();
    assert_eq!((inner.queue_dropped, inner.refused_too_big), (1, 1));
    assert_eq!(
        (sent.sources_sent, tunnel.estimates().queued),
        (6, 0),
        "{:?}",
        tunnel.next_timeout()
    );
}
