//! Fuzzes TCP/NC: messages survive a round trip, and a layer survives any peer below and any TCP above.

use std::net::SocketAddr;
use std::time::Duration;

use base::ip::{Header, Spec, pseudo_header};
use base::rng::Rng;
use base::tcp::{Flags, Options, Segment};
use base::time::Time;
use tcp::tcpnc::wire::Message;
use tcp::tcpnc::{Config, Layer, PROTOCOL};

/// Offset of the checksum in a message.
const SUM: usize = 18;
/// Most packets in the layer.
const PACKETS: usize = 64;

/// Reads the input as a message, writes it again and compares.
pub(crate) fn message(input: &[u8]) {
    let packet = packet(input);
    let Some(read) = parse(&packet) else { return };
    let mut written = Vec::new();
    read.emit(&mut written);

    assert_eq!(parse(&written), Some(read));
}

/// The input chooses the segments of TCP, the messages of a peer, and the passing of time.
pub(crate) fn layer(mut input: &[u8]) {
    let config = Config { max_packets: PACKETS, max_window: 20, ..Config::default() };
    let (local, remote) = ends();
    let mut layer = Layer::new(config, local, remote, Rng::stream(1, "fuzz"));
    let mut now = Time::ZERO;
    while let Some((&[action, len], rest)) = input.split_first_chunk::<2>() {
        let (octets, rest) = rest.split_at(rest.len().min(usize::from(len)));
        input = rest;
        match action % 4 {
            0 => {
                if let Some(message) = parse(&packet(octets)) {
                    layer.handle_message(now, &message);
                }
            }
            1 | 2 => layer.handle_outgoing(now, &segment(octets)),
            _ => {
                now += Duration::from_millis(u64::from(len));
                layer.handle_timeout(now);
                assert!(layer.next_timeout().is_none_or(|at| at > now));
            }
        }
        let mut out = Vec::new();
        while layer.poll_transmit(now, &mut out) {
            Header::parse(&out).expect("a whole packet");
        }
        let mut segments = 0;
        while layer.poll_segment(now).is_some() {
            segments += 1;
        }
        assert!(segments <= 2 * PACKETS);
        assert!(layer.held() <= PACKETS);
        assert!((0.0..=1.0).contains(&layer.loss()));
    }
}

fn ends() -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 2)))
}

/// A packet with these octets and a correct checksum.
fn packet(octets: &[u8]) -> Vec<u8> {
    let mut octets = octets[..octets.len().min(60_000)].to_vec();
    let (local, remote) = ends();
    let (from, to) = (remote.ip(), local.ip());
    if octets.len() >= SUM + 2 {
        octets[SUM..SUM + 2].fill(0);
        let sum = pseudo_header(from, to, PROTOCOL, octets.len()).with(&octets).finish();
        octets[SUM..SUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let mut packet = Vec::new();
    Spec::new(from, to, PROTOCOL).emit(octets.len(), &mut packet);
    packet.extend_from_slice(&octets);
    packet
}

fn parse(packet: &[u8]) -> Option<Message<'_>> {
    let header = Header::parse(packet).expect("an IP packet");
    Message::parse(&header, packet, header.len).ok()
}

/// A TCP segment from flags, an offset of the sequence number, the acknowledgement and the payload.
fn segment(octets: &[u8]) -> Vec<u8> {
    let (&[flags, seq, ack], payload) = octets.split_first_chunk().unwrap_or((&[0x10, 0, 0], &[]));
    let (source, destination) = ends();
    let mut out = Vec::new();
    let segment = Segment {
        source,
        destination,
        seq: u32::from(seq) * 8,
        ack: u32::from(ack),
        flags: Flags(flags),
        window: u16::from(ack) * 256,
        urgent: 0,
        options: Options::default(),
        payload,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    };
    segment.emit(&mut out);
    out
}
