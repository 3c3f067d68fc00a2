//! Tests of rules for single datagrams.

use std::net::SocketAddr;
use std::time::Duration;

use base::ip::{Header, protocol};
use base::tcp::{Flags, Options, Segment};
use base::time::Time;

use super::{Bench, config, icmp, tell, udp};
use crate::ipclient::{Config, IpClient, Override};

const TO: [u8; 4] = [10, 0, 2, 9];

#[test]
fn a_rule_counts_more_than_the_class() {
    let mut config = config();
    config.classes[0].ttl = Some(Duration::from_secs(10));
    let mut bench = Bench::new(config);
    for (priority, ttl) in [
        (Some(9), None),
        (None, Some(Duration::from_secs(30))),
        (None, Some(Duration::ZERO)),
        (None, None),
    ] {
        let said = Override { priority, ttl };
        bench.client.handle_packet_with(bench.now, &udp(TO, 0, 100), said);
    }
    bench.run();

    let requests = bench.requests();

    let told: Vec<_> = requests.iter().map(tell).collect();
    let usual = "0.0.0.2 Arq { in_order: true } 0: 100";
    assert_eq!(told, ["0.0.0.2 Arq { in_order: true } 9: 100", usual, usual, usual]);
    let expires: Vec<_> = requests.iter().map(|request| request.expires).collect();
    let after = |seconds| Some(bench.now + Duration::from_secs(seconds));
    assert_eq!(expires, [after(10), after(30), None, after(10)]);
}

#[test]
fn what_lives_shortly_does_not_fill_the_queue_behind_what_lives_long() {
    let config = Config { queue: 1_000, ..config() };
    let mut client = IpClient::new(Time::ZERO, config);
    let short = Override { ttl: Some(Duration::from_secs(2)), ..Override::default() };
    client.handle_packet(Time::ZERO, &udp(TO, 0, 500));
    client.handle_packet_with(Time::ZERO, &udp(TO, 0, 400), short);

    client.handle_packet(Time::ZERO + Duration::from_secs(2), &udp(TO, 0, 450));

    let stats = client.stats();
    assert_eq!((stats.taken.expired, stats.taken.queue_full, stats.queued), (1, 0, 950));
}

#[test]
fn who_is_refused_is_told_by_icmp_or_a_reset() {
    let mut bench = Bench::new(config());
    let segment = segment(Flags::SYN);
    bench.client.refuse(bench.now, &segment, true);
    bench.client.refuse(bench.now, &segment, false);
    bench.client.refuse(bench.now, &udp(TO, 0, 100), true);

    let packets = bench.packets();

    let header = Header::parse(&packets[0]).unwrap();
    let reset = Segment::parse(&header, &packets[0], header.len).unwrap();
    assert_eq!((reset.flags, reset.ack), (Flags::RST | Flags::ACK, 8));
    assert_eq!((reset.source, reset.destination), (to(), from()));
    assert_eq!([1, 2].map(|at| icmp(&packets[at])), [(protocol::ICMP, 3, 13); 2]);
    let stats = bench.client.stats();
    assert_eq!((stats.received.resets_sent, stats.received.icmp_sent), (1, 2));
    assert_eq!(stats.taken.packets_in, 0);
}

#[test]
fn a_reset_and_multicast_are_not_answered_and_nobody_is_told_too_often() {
    let mut bench = Bench::new(config());
    bench.client.refuse(bench.now, &segment(Flags::RST), true);
    bench.client.refuse(bench.now, &segment_to("239.1.0.1:443", Flags::SYN), true);
    assert!(bench.packets().is_empty());

    for _ in 0..30 {
        bench.client.refuse(bench.now, &segment(Flags::SYN), true);
    }

    assert_eq!(bench.packets().len(), 20);
    assert_eq!(bench.client.stats().received.icmp_limited, 10);
}

fn from() -> SocketAddr {
    "10.0.1.9:5000".parse().unwrap()
}

fn to() -> SocketAddr {
    "10.0.2.9:443".parse().unwrap()
}

fn segment(flags: Flags) -> Vec<u8> {
    segment_to("10.0.2.9:443", flags)
}

fn segment_to(to: &str, flags: Flags) -> Vec<u8> {
    let mut packet = Vec::new();
    Segment {
        source: from(),
        destination: to.parse().unwrap(),
        seq: 7,
        ack: 0,
        flags,
        window: 100,
        urgent: 0,
        options: Options::default(),
        payload: &[],
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    }
    .emit(&mut packet);
    packet
}
