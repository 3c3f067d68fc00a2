//! Fuzzes IP packets: each packet with a valid header can be inspected, cut and answered.

use base::ip::{self, FlowKey, Header, icmp, udp};
use rules::{Config, Table};

/// Reads the input as a packet and applies each operation of a router.
pub fn packet(input: &[u8]) {
    let Ok(header) = Header::parse(input) else { return };
    assert!(header.len <= header.total_len && header.total_len <= input.len());

    let (key, offset) = FlowKey::of(&header, input);
    assert_eq!(key.reversed().reversed(), key);
    if let Ok(datagram) = udp::Datagram::parse(&header, input, offset) {
        assert!(datagram.payload.len() + udp::HEADER <= header.total_len);
    }

    let mut rules = Table::new(Config::default());
    rules.handle_packet(&header, input, None);
    let hits = rules.counters().map(|(_, counted)| counted.hits).sum::<u64>();
    assert_eq!(hits + rules.stats().packets_headless + rules.stats().fragments_overlapping, 1);

    let mut forwarded = input.to_vec();
    if ip::decrement_ttl(&mut forwarded) {
        let after = Header::parse(&forwarded).expect("still a packet");
        assert_eq!(after.ttl + 1, header.ttl);
    }
    if ip::mark_congestion(&mut forwarded) {
        let after = Header::parse(&forwarded).expect("still a packet");
        assert_eq!(after.traffic_class & ip::ecn::CE, ip::ecn::CE);
    }

    let mut error = Vec::new();
    if icmp::Error::TtlExceeded.emit(header.destination, input, &mut error) {
        let answer = Header::parse(&error).expect("an error is a packet");
        assert_eq!((answer.source, answer.destination), (header.destination, header.source));
    }

    let mut carried = 0;
    let mtu = 576;
    if ip::fragment(&header, input, mtu, |piece| {
        let header = Header::parse(piece).expect("a fragment is a packet");
        assert!(piece.len() <= mtu);
        carried += header.total_len - header.len;
    }) {
        assert_eq!(carried, header.total_len - header.len);
    }
}
