//! Headers are compressed between two ends that both do it, and come out as they went in.

use std::collections::BTreeSet;

use super::*;

/// Octets of a full segment's payload, with timestamps, in outer packets of 1,500.
const FULL: usize = 1_386;

#[test]
fn a_full_segment_is_some_forty_octets_shorter() {
    let mut path = Path::new(1, Config::default());

    path.feed(0, 1, 10, MILLISECOND);
    path.run(secs(1));
    path.feed_segments(0, 2_000, FULL, 2 * MILLISECOND);
    path.run(secs(6));

    assert!(path.taken_out(1) == path.put_in);
    let sent = path.stats(0).sent;
    assert!(sent.headers_compressed > 1_900, "{sent:?}");
    assert!(sent.header_octets_saved >= sent.headers_compressed * 39, "{sent:?}");
    assert_eq!(path.stats(1).received.headers_restored, sent.headers_compressed);
    path.feed_segments(0, 200, FULL, 2 * MILLISECOND);
    path.run(secs(8));
    let octets = path.stats(0).sent.octets_sent - sent.octets_sent;
    // Reports that went alone meanwhile, and the last packets under way, make less than an octet each.
    let outside = octets as f64 / 200.0;
    assert!((1_458.0..1_460.0).contains(&outside), "{outside} outside, for 1,438 inside");
}

#[test]
fn losses_take_no_further_packets_with_them() {
    for loss in [0.01, 0.1, 0.3] {
        let config = Config { deadline: Some(Duration::from_secs(30)), ..Config::default() };
        let mut path = Path::new(2, config);
        path.loss = loss;

        path.feed_segments(0, 3_000, 1_000, 10 * MILLISECOND);
        path.feed_segments(1, 3_000, 0, 10 * MILLISECOND);
        path.run(secs(90));

        for end in [0, 1] {
            let (sent, received) = (path.stats(1 - end).sent, path.stats(end).received);
            assert_eq!(path.out[end].len(), 3_000, "loss {loss}: {received:?}");
            assert!(path.is_true(end), "loss {loss}");
            assert_eq!(received.headers_unknown, 0, "loss {loss}");
            assert!(sent.headers_compressed > 2_800, "loss {loss}: {sent:?}");
        }
    }
}

#[test]
fn what_is_given_up_harms_only_itself() {
    let config = Config { deadline: Some(60 * MILLISECOND), ..Config::default() };
    let mut path = Path::new(3, config);
    path.loss = 0.4;

    for port in 0..20 {
        path.feed_flow(0, (200, 300, 50 * MILLISECOND), port);
    }
    path.run(secs(15));

    let (sent, received) = (path.stats(0).sent, path.stats(1).received);
    assert!(sent.sources_expired > 50, "{sent:?}");
    assert!(path.is_true(1));
    assert_eq!(received.headers_unknown, 0, "{received:?}");
    assert!(sent.headers_compressed > 2_000, "{sent:?}");
}

#[test]
fn nothing_is_compressed_unless_both_ends_do_it() {
    let silent = Config { compress_headers: false, ..Config::default() };
    for configs in [[silent, Config::default()], [Config::default(), silent]] {
        let mut path = Path::new(4, Config::default());
        path.ends = configs.map(|config| Tunnel::new(Time::ZERO, config, Rng::stream(4, "end")));

        path.feed_segments(0, 500, 1_000, 5 * MILLISECOND);
        path.feed_segments(1, 500, 1_000, 5 * MILLISECOND);
        path.run(secs(5));

        for end in [0, 1] {
            assert_eq!(path.out[end].len(), 500);
            assert_eq!(path.stats(end).sent.contexts_announced, 0);
            assert_eq!(path.stats(end).sent.headers_compressed, 0);
        }
    }
}

#[test]
fn both_ends_learn_of_each_other_however_busy_they_are() {
    // Reports would go with these packets, and no message without another body would be sent.
    let mut path = Path::new(5, Config::default());
    path.loss = 0.2;

    path.feed_segments(0, 1_000, 100, 2 * MILLISECOND);
    path.feed_segments(1, 1_000, 100, 2 * MILLISECOND);
    path.run(secs(1));

    for end in [0, 1] {
        assert!(path.stats(end).sent.headers_compressed > 300, "{:?}", path.stats(end).sent);
    }
}

#[test]
fn the_longest_packets_announce_contexts_too() {
    let mut path = Path::new(6, Config::default());
    path.feed(0, 1, 10, MILLISECOND);
    path.run(secs(1));
    let longest = path.ends[0].mtu();

    path.feed_segments(0, 100, longest - 52, 10 * MILLISECOND);
    path.run(secs(5));

    assert!(path.taken_out(1) == path.put_in);
    assert!(path.stats(0).sent.headers_compressed > 80, "{:?}", path.stats(0).sent);
}

impl Path {
    /// Whether all that came out at an end once went in.
    fn is_true(&self, end: usize) -> bool {
        let put_in: BTreeSet<_> = self.put_in.iter().collect();
        self.out[end].iter().all(|(_, packet)| put_in.contains(packet))
    }

    /// Plans that `count` segments of a connection go in at an end.
    pub(super) fn feed_segments(
        &mut self,
        end: usize,
        count: u32,
        payload: usize,
        interval: Duration,
    ) {
        for index in 0..count {
            let packet = segment(end, index, payload);
            self.put_in.push(packet.clone());
            let at = self.now + interval * index;
            self.sequence += 1;
            self.planned.insert((at, self.sequence), (end, packet));
        }
    }
}

/// A segment of one connection, the numbers of which go on as in a transfer.
fn segment(end: usize, index: u32, payload: usize) -> Vec<u8> {
    let len = u32::try_from(payload.max(1)).unwrap();
    let [source, destination] = if end == 0 { [1, 2] } else { [2, 1] };
    let [source, destination] =
        [source, destination].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
    let ident = u16::try_from(index % 60_000).unwrap();
    let mut packet = Vec::new();
    let spec = Spec { ident, ..Spec::new(source, destination, protocol::TCP) };
    spec.emit(32 + payload, &mut packet);
    packet.extend_from_slice(&[1, 187, 200, 0]);
    packet.extend_from_slice(&(index * len).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 9, 0x80, 0x10, 2, 0]);
    packet.extend_from_slice(&[index.to_be_bytes()[3] | 1, 2, 0, 0, 1, 1, 8, 10]);
    packet.extend_from_slice(&(5_000 + index).to_be_bytes());
    packet.extend_from_slice(&(4_000 + index).to_be_bytes());
    packet.resize(packet.len() + payload, 0xa5);
    packet
}
