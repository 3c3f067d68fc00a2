//! Packets that the tests send.

use base::ip::{Spec, protocol, udp};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// A datagram of 100 octets that carries a number.
pub fn datagram(source: &str, destination: &str, number: u32) -> Vec<u8> {
    long_datagram(source, destination, number, 72)
}

/// A datagram that carries a number in `len` octets.
pub fn long_datagram(source: &str, destination: &str, number: u32, len: usize) -> Vec<u8> {
    let mut payload = vec![0; len];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut packet = Vec::new();
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    udp::Datagram { source, destination, payload: &payload }.emit(&mut packet);
    packet
}

/// The number that a datagram carries.
pub fn number_of(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[28..32].try_into().unwrap())
}

/// A segment of TCP with `len` octets of data.
pub fn segment(seq: u32, len: usize, flags: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    let spec = Spec::new("10.0.0.1".parse().unwrap(), "10.9.0.2".parse().unwrap(), protocol::TCP);
    spec.emit(20 + len, &mut packet);
    packet.extend([0, 1, 0, 2]);
    packet.extend(seq.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet.resize(packet.len() + len, 0);
    packet
}

/// The sequence number of a segment.
pub fn seq_of(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[24..28].try_into().unwrap())
}

/// A pure acknowledgement of TCP.
pub fn acknowledgement(number: u32) -> Vec<u8> {
    let mut packet = segment(1, 0, ACK);
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    packet
}

/// The acknowledgement number of a TCP acknowledgement.
pub fn number_acknowledged(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[28..32].try_into().unwrap())
}

/// The same segment in the other direction.
pub fn reversed(segment: &[u8]) -> Vec<u8> {
    let mut packet = segment.to_vec();
    packet[12..20].rotate_left(4);
    packet[20..24].rotate_left(2);
    packet
}
