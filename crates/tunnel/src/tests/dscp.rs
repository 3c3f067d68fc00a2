//! What the outer headers say of the packets inside.

use std::collections::BTreeSet;

use base::ip::rewrite_v4_checksum;

use super::*;
use crate::wire::{Body, Message};

const EXPEDITED: u8 = 46;

#[test]
fn datagrams_carry_the_dscp_of_all_packets_in_them() {
    let sent = sent(true, 0.1);

    let sources: Vec<_> = sent.iter().filter(|(_, inner)| !inner.is_empty()).collect();
    for (outer, inner) in &sources {
        assert_eq!(*inner, BTreeSet::from([*outer]));
    }
    for dscp in [EXPEDITED, 8, 0] {
        let count = sources.iter().filter(|(outer, _)| *outer == dscp).count();
        assert!(count >= 50, "{count} of {dscp}");
    }
    // Repairs go as what was sent just before them.
    let repairs: BTreeSet<_> =
        sent.iter().filter(|(_, inner)| inner.is_empty()).map(|(outer, _)| *outer).collect();
    assert!(repairs.contains(&EXPEDITED), "{repairs:?}");
}

#[test]
fn nothing_is_shown_and_packets_share_datagrams_unless_asked() {
    let sent = sent(false, 0.1);

    assert!(sent.iter().all(|(outer, _)| *outer == 0));
    assert!(sent.iter().any(|(_, inner)| inner.len() > 1));
}

#[test]
fn a_packet_in_parts_shares_no_datagram_with_another_dscp() {
    let config = Config { base_mtu: 576, max_mtu: 576, ..config(true) };
    let mut path = Path::new(12, config);
    path.mtu = 576;
    path.records = true;
    for round in 0..50 {
        path.put(0, round, &[(EXPEDITED, 1_000), (0, 60), (8, 1_200)]);
    }

    path.run(secs(20));

    assert_eq!(path.out[1].len(), 150, "{:?}", path.stats(0));
    let outer: BTreeSet<_> = path.sent.iter().map(|(outer, _)| *outer).collect();
    assert_eq!(outer, BTreeSet::from([0, 8, EXPEDITED]));
    for (outer, octets) in &path.sent {
        assert!(inner(octets).iter().all(|inner| inner == outer), "{outer}");
    }
}

/// The DSCP of each datagram that was sent, and those of the packets in it that can be seen.
fn sent(copies: bool, loss: f64) -> Vec<(u8, BTreeSet<u8>)> {
    let mut path = Path::new(11, config(copies));
    path.records = true;
    path.loss = loss;
    for round in 0..100 {
        path.put(0, round, &[(EXPEDITED, 60), (0, 100), (0, 100), (8, 80), (EXPEDITED, 60)]);
    }

    path.run(secs(20));

    assert_eq!(path.out[1].len(), 500, "{:?}", path.stats(0));
    path.sent.iter().map(|(outer, octets)| (*outer, inner(octets))).collect()
}

fn config(copies: bool) -> Config {
    let deadline = Some(Duration::from_secs(10));
    Config { copy_dscp: copies, compress_headers: false, deadline, ..Config::default() }
}

/// The DSCPs of the packets in a datagram with a source: between these two hosts.
fn inner(octets: &[u8]) -> BTreeSet<u8> {
    let Ok(Message { body: Body::Source { symbol, .. }, .. }) = Message::parse(octets) else {
        return BTreeSet::new();
    };
    let is_header =
        |header: &&[u8]| header[0] == 0x45 && header[12..] == [10, 0, 0, 1, 10, 0, 0, 2];
    symbol.windows(20).filter(is_header).map(|header| header[1] >> 2).collect()
}

impl Path {
    /// Plans that packets of these DSCPs and lengths go in together, 50 ms after those before.
    fn put(&mut self, end: usize, round: u32, packets: &[(u8, usize)]) {
        for (port, &(dscp, payload)) in (1..).zip(packets) {
            let mut packet = datagram(payload, round, port);
            packet[1] = dscp << 2;
            rewrite_v4_checksum(&mut packet[..20]);
            self.sequence += 1;
            let at = self.now + 50 * MILLISECOND * round;
            self.planned.insert((at, self.sequence), (end, packet));
        }
    }
}
