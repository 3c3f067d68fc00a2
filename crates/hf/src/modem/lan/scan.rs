//! Where packets begin and end in the stream of a connection, whatever else is in it.

use base::crc;

use super::wire::{CRC, HEADER, MAX_PAYLOAD, PREAMBLE, Packet};

/// The first thing found in a stream of octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found<'a> {
    /// Not a whole packet.
    Nothing,
    /// Octets that belong to no packet.
    Noise(usize),
    /// A packet of this many octets with a damaged payload.
    Damaged(usize),
    /// A packet of this many octets with contents that the protocol does not allow.
    Wrong(usize),
    /// A packet and its octets.
    Packet(usize, Packet<'a>),
}

/// Looks for a packet at the head of `octets`.
#[must_use]
pub fn scan(octets: &[u8]) -> Found<'_> {
    let known = octets.iter().zip(PREAMBLE).take_while(|(octet, known)| *octet == known).count();
    if known < octets.len().min(PREAMBLE.len()) {
        return Found::Noise(noise(octets));
    }
    let Some((header, rest)) = octets.split_first_chunk::<HEADER>() else { return Found::Nothing };
    let [covered @ .., high, low] = header;
    let size = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if u16::from_be_bytes([*high, *low]) != crc::header(covered) || size > MAX_PAYLOAD {
        return Found::Noise(noise(octets));
    }
    if size == 0 {
        return found(HEADER, Packet::of(header[3], &[]));
    }
    let Some((payload, rest)) = rest.split_at_checked(size) else { return Found::Nothing };
    let Some(&[high, low]) = rest.first_chunk() else { return Found::Nothing };
    let len = HEADER + size + CRC;
    if u16::from_be_bytes([high, low]) != crc::header(payload) {
        return Found::Damaged(len);
    }
    found(len, Packet::of(header[3], payload))
}

fn found(len: usize, packet: Option<Packet<'_>>) -> Found<'_> {
    packet.map_or(Found::Wrong(len), |packet| Found::Packet(len, packet))
}

/// Octets before the next one that may begin a packet.
fn noise(octets: &[u8]) -> usize {
    let next = octets.iter().skip(1).position(|octet| *octet == PREAMBLE[0]);
    next.map_or(octets.len(), |next| next + 1)
}
