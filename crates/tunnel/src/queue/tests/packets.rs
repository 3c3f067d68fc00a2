//! Packets to push, and a link that takes them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::ip::{self, Header, protocol};
use base::rng::Rng;
use base::tcp::{Flags, Options, Segment};
use base::time::Time;

use crate::queue::{Popped, Queue};

pub const ROUND_TRIP: Duration = Duration::from_millis(100);
pub const NO_LIMIT: usize = usize::MAX / 2;

pub fn queue(limit: usize) -> Queue {
    Queue::new(limit, &mut Rng::stream(1, "queue"))
}

pub fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// A UDP packet of a flow; it says in its payload which one it is.
pub fn udp(flow: u16, number: u32, len: usize, traffic_class: u8) -> Vec<u8> {
    let [source, destination]: [IpAddr; 2] =
        [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()];
    let mut packet = Vec::new();
    let spec = ip::Spec { traffic_class, ..ip::Spec::new(source, destination, protocol::UDP) };
    spec.emit(len - ip::V4_HEADER, &mut packet);
    packet.extend_from_slice(&flow.to_be_bytes());
    packet.extend_from_slice(&[0; 6]);
    packet.extend_from_slice(&number.to_be_bytes());
    packet.resize(len, 0);
    packet
}

pub fn flow_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[20], packet[21]])
}

pub fn number_of(packet: &[u8]) -> u32 {
    u32::from_be_bytes([packet[28], packet[29], packet[30], packet[31]])
}

pub fn tcp(flags: Flags, payload: &[u8]) -> Vec<u8> {
    segment(1, flags, payload)
}

/// A segment with these octets, from this sequence number on.
pub fn tcp_at(seq: u32, payload: &[u8]) -> Vec<u8> {
    segment(seq, Flags::ACK, payload)
}

fn segment(seq: u32, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let end = |host: u8, port| SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), port);
    let mut packet = Vec::new();
    Segment {
        source: end(1, 40_000),
        destination: end(2, 80),
        seq,
        ack: 1,
        flags,
        window: 1_000,
        urgent: 0,
        options: Options::default(),
        payload,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    }
    .emit(&mut packet);
    packet
}

/// Pops whatever its size.
pub fn pop(now: Time, queue: &mut Queue) -> Option<(Popped, Vec<u8>)> {
    let mut out = Vec::new();
    let popped = queue.pop(now, usize::MAX, None, ROUND_TRIP, &mut out)?;
    Some((popped, out))
}

pub fn is_marked(packet: &[u8]) -> bool {
    let header = Header::parse(packet).expect("the header is whole, its checksum right");
    header.traffic_class & ip::ecn::CE == ip::ecn::CE
}
