//! Does a network card's work for the kernel: completes checksums, and cuts trains of segments (TSO, USO)
//! into separate packets.
//!
//! ```text
//!  0       1      2   3    4   5      6   7        8   9         10
//!  +-------+------+--------+----------+------------+-------------+--------- - -
//!  | flags | kind | header | segment  | where the  | where the   | Ethernet frame
//!  |       |      | length | payload  | sum starts | sum goes    |
//!  +-------+------+--------+----------+------------+-------------+--------- - -
//! ```
//! The header is `struct virtio_net_hdr` in the machine's order of octets.
//!
//! Ours and not tun-rs: cutting a TCP flow and joining it again costs 0.64 ns of CPU an octet, with tun-rs 3.8
//! (`cargo bench -p trackway-gateway --bench libraries`).

mod join;

pub use join::Joiner;

use base::ip::{self, Checksum, Header, protocol, pseudo_header};

/// Octets of the header.
pub const HEADER: usize = 10;

const NEEDS_SUM: u8 = 0x01;
const KIND_NONE: u8 = 0;
const KIND_TCP4: u8 = 1;
const KIND_TCP6: u8 = 4;
const KIND_UDP: u8 = 5;
const KIND_ECN: u8 = 0x80;

const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// The header of a packet, as it is with `link` octets before the packet.
///
/// `train` is such a header and the packet.
#[must_use]
pub fn behind(train: &[u8], link: usize) -> Option<([u8; HEADER], &[u8])> {
    let (&(mut header), packet) = train.split_first_chunk::<HEADER>()?;
    if header[0] & NEEDS_SUM != 0 {
        for at in [2, 6] {
            let offset = u16::from_ne_bytes([header[at], header[at + 1]]);
            let moved = u16::try_from(usize::from(offset) + link).ok()?;
            header[at..at + 2].copy_from_slice(&moved.to_ne_bytes());
        }
    }
    Some((header, packet))
}

/// Why a frame from the kernel could not be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum lies outside of the packet.
    #[error("checksum outside of the packet")]
    Checksum,
    /// The packet in it is none.
    #[error("not an IP packet: {0}")]
    Ip(#[from] ip::Malformed),
    /// Another kind of segmentation than was asked for.
    #[error("segmentation of kind {0}")]
    Kind(u8),
    /// Segments of length zero or without a transport header.
    #[error("segments that cannot be cut")]
    Segments,
    /// There are too few octets for the headers.
    #[error("{have} octets are too few")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

/// The kernel's offload header of a frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Offload {
    needs_sum: bool,
    kind: u8,
    segment: usize,
    sum_start: usize,
    sum_offset: usize,
}

impl Offload {
    /// Reads the header at the start of `octets`, with offsets that count from the end of an
    /// Ethernet header of `link` octets behind it.
    ///
    /// # Errors
    /// When it is cut.
    pub fn parse(octets: &[u8], link: usize) -> Result<Self, Malformed> {
        let Some(&[flags, kind, _, _, s0, s1, a0, a1, o0, o1]) = octets.first_chunk::<HEADER>()
        else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let number = |octets| usize::from(u16::from_ne_bytes(octets));
        let needs_sum = flags & NEEDS_SUM != 0;
        let sum_start = number([a0, a1]);
        if needs_sum && sum_start < link {
            return Err(Malformed::Checksum);
        }
        Ok(Self {
            needs_sum,
            kind: kind & !KIND_ECN,
            segment: number([s0, s1]),
            sum_start: sum_start.saturating_sub(link),
            sum_offset: number([o0, o1]),
        })
    }

    /// Calls `each` with every packet that `packet` stands for, complete with checksums.
    ///
    /// # Errors
    /// When the packet and its offload header contradict each other.
    pub fn segment(
        self,
        packet: &mut [u8],
        scratch: &mut Vec<u8>,
        mut each: impl FnMut(&mut [u8]),
    ) -> Result<(), Malformed> {
        match self.kind {
            KIND_NONE => {
                if self.needs_sum {
                    self.complete_sum(packet)?;
                }
                each(packet);
                Ok(())
            }
            KIND_TCP4 | KIND_TCP6 => self.cut(packet, scratch, protocol::TCP, &mut each),
            KIND_UDP => self.cut(packet, scratch, protocol::UDP, &mut each),
            kind => Err(Malformed::Kind(kind)),
        }
    }

    /// Replaces the sum over the pseudo header, which the kernel left, by the whole one.
    fn complete_sum(self, packet: &mut [u8]) -> Result<(), Malformed> {
        let at = self.sum_start + self.sum_offset;
        if at + 2 > packet.len() {
            return Err(Malformed::Checksum);
        }
        let sum = match Checksum::default().with(&packet[self.sum_start..]).finish() {
            // A UDP checksum of zero would mean none (RFC 768).
            0 => 0xffff,
            sum => sum,
        };
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }

    fn cut(
        self,
        packet: &[u8],
        scratch: &mut Vec<u8>,
        protocol: u8,
        each: &mut impl FnMut(&mut [u8]),
    ) -> Result<(), Malformed> {
        let header = parse_train(packet)?;
        let transport = self.sum_start;
        let transport_len = match protocol {
            protocol::TCP => {
                packet.get(transport..).and_then(<[u8]>::first_chunk).map(base::tcp::header_len)
            }
            _ => Some(8),
        };
        let payload_at = transport + transport_len.ok_or(Malformed::Segments)?;
        let minimum = if protocol == protocol::TCP { 20 } else { 8 };
        if self.segment == 0
            || transport < header.len
            || payload_at < transport + minimum
            || payload_at > packet.len()
        {
            return Err(Malformed::Segments);
        }

        let (headers, payload) = packet.split_at(payload_at);
        let count = payload.len().div_ceil(self.segment);
        for (index, chunk) in payload.chunks(self.segment).enumerate() {
            scratch.clear();
            scratch.extend_from_slice(headers);
            scratch.extend_from_slice(chunk);
            let place = Place { index, is_last: index + 1 == count, offset: index * self.segment };
            finish_segment(scratch, &header, transport, protocol, place)?;
            each(scratch);
        }
        Ok(())
    }
}

/// Where a segment lies in its train.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    is_last: bool,
    offset: usize,
}

/// Parses the header of a segment train; the length field may be zero or cut, the checksum unset.
fn parse_train(packet: &[u8]) -> Result<Header, Malformed> {
    let have = packet.len();
    let mut start = [0; 60];
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let len = if is_v4 { usize::from(packet[0] & 0x0f) * 4 } else { ip::V6_HEADER };
    let header = start.get_mut(..len).zip(packet.get(..len));
    let Some((header, octets)) = header else { return Err(Malformed::Truncated { have }) };
    header.copy_from_slice(octets);
    if is_v4 && len >= ip::V4_HEADER {
        header[2..4].copy_from_slice(&u16::try_from(len).unwrap_or(60).to_be_bytes());
        ip::rewrite_v4_checksum(header);
    } else if !is_v4 {
        header[4..6].fill(0);
    }
    Ok(Header::parse(header)?)
}

fn finish_segment(
    packet: &mut [u8],
    header: &Header,
    transport: usize,
    protocol: u8,
    place: Place,
) -> Result<(), Malformed> {
    let total = u16::try_from(packet.len()).map_err(|_| Malformed::Segments)?;
    let index = u16::try_from(place.index).map_err(|_| Malformed::Segments)?;
    if header.is_v4() {
        let ident = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(index);
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[4..6].copy_from_slice(&ident.to_be_bytes());
        ip::rewrite_v4_checksum(&mut packet[..header.len]);
    } else {
        let len = u16::try_from(packet.len() - ip::V6_HEADER).map_err(|_| Malformed::Segments)?;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
    }

    let segment = &mut packet[transport..];
    let len = segment.len();
    let sum_at = if protocol == protocol::TCP {
        let octets = [segment[4], segment[5], segment[6], segment[7]];
        let offset = u32::try_from(place.offset).map_err(|_| Malformed::Segments)?;
        let seq = u32::from_be_bytes(octets).wrapping_add(offset);
        segment[4..8].copy_from_slice(&seq.to_be_bytes());
        if !place.is_last {
            segment[13] &= !TCP_FIN_PSH;
        }
        if place.index > 0 {
            segment[13] &= !TCP_CWR;
        }
        16
    } else {
        let len = u16::try_from(len).map_err(|_| Malformed::Segments)?;
        segment[4..6].copy_from_slice(&len.to_be_bytes());
        6
    };
    segment[sum_at..sum_at + 2].fill(0);
    let sum = pseudo_header(header.source, header.destination, protocol, len);
    let sum = match sum.with(segment).finish() {
        0 if protocol == protocol::UDP => 0xffff,
        sum => sum,
    };
    segment[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
