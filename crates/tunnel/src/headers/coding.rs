//! Recognizes the headers of a packet, and codes how they differ from the headers of a context.

use base::ip::{Checksum, V4_HEADER, V6_HEADER, ecn, protocol};
use base::tcp::{self, HEADER as TCP_HEADER, MAX_OPTIONS};

use super::LONGEST;
use crate::wire::{Malformed, Reader};

/// Octets of headers at most: IPv6, and TCP with all options.
const MAX_HEADERS: usize = V6_HEADER + TCP_HEADER + MAX_OPTIONS;

const UDP_HEADER: usize = 8;
const V4_WITHOUT_OPTIONS: u8 = 0x45;
/// All but the bit that forbids fragments, and the reserved one.
const V4_FRAGMENT: u16 = 0x3fff;

const HAS_IDENT: u8 = 0b0000_0100;
const HAS_CHECKSUM: u8 = 0b0000_1000;
const SEQUENCE: u32 = 4;
const ACKNOWLEDGEMENT: u32 = 6;

const TIME_STAMP: u32 = 0;
const ECHOED: u32 = 2;
const HAS_WINDOW: u8 = 0b0001_0000;
const HAS_FLAGS: u8 = 0b0010_0000;
const PUSH: u8 = 0b0100_0000;
const HAS_OPTIONS: u8 = 0b1000_0000;

/// The bit of PSH among TCP's flags (RFC 9293, 3.1).
const TCP_PUSH: u8 = 0x08;
/// The kinds of TCP options that are looked at (RFC 9293, 3.2; RFC 7323, 3.2).
const OPTION_END: u8 = 0;
const OPTION_NOTHING: u8 = 1;
const OPTION_TIME_STAMPS: u8 = 8;

/// SYN, RST and FIN among TCP's flags: such segments do not look like the segments that follow.
const UNLIKE_OTHERS: u8 = 0b0000_0111;

/// A quarter of the distances that fit three octets for sequence numbers, and two for time stamps: from
/// there on a new context is announced, so that the peer has it before distances no longer fit.
const FAR_SEQUENCE: u32 = 1 << 22;
const FAR_TIME_STAMP: u32 = 1 << 14;

/// The headers of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    is_v4: bool,
    transport: Transport,
    /// Octets of all headers.
    len: usize,
}

/// What follows the IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Transport {
    /// A protocol that is not understood: payload.
    Other,
    Tcp,
    Udp,
}

impl Shape {
    /// Reads the headers of a packet; `None` unless its lengths and the checksum of an IPv4 header follow
    /// from the rest.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let is_v4 = packet.first()? >> 4 == 4;
        let (protocol, start) = if is_v4 {
            (v4_protocol(packet)?, V4_HEADER)
        } else {
            (v6_protocol(packet)?, V6_HEADER)
        };
        let rest = &packet[start..];
        let (transport, len) = match protocol {
            protocol::TCP => (Transport::Tcp, tcp_header(rest)?),
            protocol::UDP if is_whole_datagram(rest) => (Transport::Udp, UDP_HEADER),
            _ => (Transport::Other, 0),
        };
        Some(Self { is_v4, transport, len: start + len })
    }

    /// Whether later packets of the flow probably resemble this packet.
    pub fn is_like_others(self, packet: &[u8]) -> bool {
        match self.transport {
            Transport::Other | Transport::Udp => true,
            Transport::Tcp => packet[self.ip_len() + 13] & UNLIKE_OTHERS == 0,
        }
    }

    /// The position of the transport's checksum, if any.
    fn checksum_at(self) -> Option<usize> {
        match self.transport {
            Transport::Other => None,
            Transport::Tcp => Some(self.ip_len() + 16),
            Transport::Udp => Some(self.ip_len() + 6),
        }
    }

    /// Octets of the IP header.
    fn ip_len(self) -> usize {
        if self.is_v4 { V4_HEADER } else { V6_HEADER }
    }
}

/// The headers that a context keeps.
#[derive(Clone, Debug)]
pub struct Base {
    octets: [u8; MAX_HEADERS],
    shape: Shape,
    /// Where the time stamps are, if there are any.
    time_stamps: Option<usize>,
}

/// A packet was compressed beside a context that is not here, or not as it should be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no such context, or headers that are not of it")]
pub struct NoContext;

/// Compressed headers, sent in place of a packet's own headers.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    octets: [u8; LONGEST],
    len: usize,
    replaces: usize,
    is_far: bool,
}

impl Base {
    /// Keeps the headers of `packet`, whose shape is `shape`.
    pub fn of(packet: &[u8], shape: Shape) -> Self {
        let mut octets = [0; MAX_HEADERS];
        octets[..shape.len].copy_from_slice(&packet[..shape.len]);
        let time_stamps = match shape.transport {
            Transport::Tcp => {
                let start = shape.ip_len() + TCP_HEADER;
                time_stamps(&packet[start..shape.len]).map(|at| start + at)
            }
            Transport::Other | Transport::Udp => None,
        };
        Self { octets, shape, time_stamps }
    }

    /// Whether a packet with this shape belongs to the same flow.
    pub fn is_of_flow(&self, packet: &[u8], shape: Shape) -> bool {
        let addresses = if shape.is_v4 { 12..V4_HEADER } else { 8..shape.ip_len() };
        let protocol = if shape.is_v4 { 9 } else { 6 };
        let start = shape.ip_len();
        let ports = match shape.transport {
            Transport::Other => start..start,
            Transport::Tcp | Transport::Udp => start..start + 4,
        };
        self.shape.is_v4 == shape.is_v4
            && self.shape.transport == shape.transport
            && self.octets[addresses.clone()] == packet[addresses]
            && self.octets[protocol] == packet[protocol]
            && self.octets[ports.clone()] == packet[ports]
    }

    /// Writes how the headers of `packet`, of the same flow, differ; `None` when they do in something
    /// that never does.
    pub fn code(&self, packet: &[u8], shape: Shape) -> Option<Headers> {
        if !self.has_ip_header(packet) {
            return None;
        }
        let mut coded =
            Headers { octets: [0; LONGEST], len: 0, replaces: shape.len, is_far: false };
        coded.len = if shape.transport == Transport::Tcp { 2 } else { 1 };
        let mut first = ecn_of(packet);
        if self.shape.is_v4 && coded.push_changed(&self.octets, packet, 4) {
            first |= HAS_IDENT;
        }
        if let Some(at) = shape.checksum_at()
            && coded.push_changed(&self.octets, packet, at)
        {
            first |= HAS_CHECKSUM;
        }
        if shape.transport == Transport::Tcp {
            let (more, second) = self.code_segment(packet, shape, &mut coded)?;
            first |= more;
            coded.octets[1] = second;
        }
        coded.octets[0] = first;
        Some(coded)
    }

    /// Appends the packet to `out` that these octets, compressed headers and payload, stand for.
    pub fn restore(&self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), NoContext> {
        let mut reader = Reader::of(octets);
        let mut headers = self.octets;
        let ip_len = self.shape.ip_len();
        let mut len = self.shape.len;
        let first = reader.u8()?;
        let is_tcp = self.shape.transport == Transport::Tcp;
        let second = if is_tcp { reader.u8()? } else { 0 };
        if !is_tcp && first >> SEQUENCE != 0 {
            return Err(NoContext);
        }
        set_ecn(&mut headers, first);
        if first & HAS_IDENT != 0 {
            if !self.shape.is_v4 {
                return Err(NoContext);
            }
            headers[4..6].copy_from_slice(&reader.take::<2>()?);
        }
        if first & HAS_CHECKSUM != 0 {
            let at = self.shape.checksum_at().ok_or(NoContext)?;
            headers[at..at + 2].copy_from_slice(&reader.take::<2>()?);
        }
        if is_tcp {
            self.restore_segment((first, second), &mut reader, &mut headers, &mut len)?;
        }
        let payload = reader.rest();
        let total = u16::try_from(len + payload.len()).map_err(|_| NoContext)?;
        if self.shape.is_v4 {
            headers[2..4].copy_from_slice(&total.to_be_bytes());
            let fixed = headers.first_chunk::<V4_HEADER>().ok_or(NoContext)?;
            let checksum = v4_checksum(fixed);
            headers[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            headers[4..6].copy_from_slice(&(total - 40).to_be_bytes());
        }
        if self.shape.transport == Transport::Udp {
            let datagram = u16::try_from(8 + payload.len()).map_err(|_| NoContext)?;
            headers[ip_len + 4..ip_len + 6].copy_from_slice(&datagram.to_be_bytes());
        }
        out.extend_from_slice(&headers[..len]);
        out.extend_from_slice(payload);
        Ok(())
    }

    /// Whether the IP header of `packet` says the same but for ECN, lengths, identification and checksum.
    fn has_ip_header(&self, packet: &[u8]) -> bool {
        let own = &self.octets;
        if self.shape.is_v4 {
            own[1] & !ecn::CE == packet[1] & !ecn::CE && own[6..10] == packet[6..10]
        } else {
            let mask = !(ecn::CE << 4);
            own[0] == packet[0]
                && own[1] & mask == packet[1] & mask
                && own[2..4] == packet[2..4]
                && own[7] == packet[7]
        }
    }

    /// Writes a segment's numbers, window, flags and options; returns bits for the first octet, and the
    /// second one.
    fn code_segment(&self, packet: &[u8], shape: Shape, coded: &mut Headers) -> Option<(u8, u8)> {
        let tcp = shape.ip_len();
        let own = &self.octets;
        let is_alike = own[tcp + 12] & 0x0f == packet[tcp + 12] & 0x0f
            && own[tcp + 18..tcp + 20] == packet[tcp + 18..tcp + 20];
        if !is_alike {
            return None;
        }
        let mut first = self.code_number::<3>(packet, tcp + 4, FAR_SEQUENCE, coded) << SEQUENCE;
        first |= self.code_number::<3>(packet, tcp + 8, FAR_SEQUENCE, coded) << ACKNOWLEDGEMENT;

        let options = tcp + TCP_HEADER;
        let mut second = 0;
        let has_options = !self.has_options(&packet[options..shape.len]);
        if let Some(at) = self.time_stamps.filter(|_| !has_options) {
            second |= self.code_number::<2>(packet, at, FAR_TIME_STAMP, coded) << TIME_STAMP;
            second |= self.code_number::<2>(packet, at + 4, FAR_TIME_STAMP, coded) << ECHOED;
        }
        if coded.push_changed(own, packet, tcp + 14) {
            second |= HAS_WINDOW;
        }
        let flags = packet[tcp + 13];
        if (own[tcp + 13] ^ flags) & !TCP_PUSH != 0 {
            coded.push(&[flags]);
            second |= HAS_FLAGS;
        } else if flags & TCP_PUSH != 0 {
            second |= PUSH;
        }
        if has_options {
            let octets = &packet[options..shape.len];
            coded.push(&[u8::try_from(octets.len() / 4).expect("at most ten words")]);
            coded.push(octets);
            second |= HAS_OPTIONS;
        }
        Some((first, second))
    }

    /// Writes the number at `at` as a distance of `SHORT` octets if it fits, else in full, and returns how.
    fn code_number<const SHORT: usize>(
        &self,
        packet: &[u8],
        at: usize,
        far: u32,
        coded: &mut Headers,
    ) -> u8 {
        let (own, octets) = (number(&self.octets, at), number(packet, at));
        let distance = octets.wrapping_sub(own);
        // What lies behind is a repetition, and will soon be past.
        coded.is_far |= distance >= far && distance.cast_signed() > 0;
        if distance == 0 {
            return 0;
        }
        if distance >> (8 * SHORT) == 0 {
            coded.push(&distance.to_be_bytes()[4 - SHORT..]);
            return 1;
        }
        coded.push(&octets.to_be_bytes());
        2
    }

    /// Whether options differ in nothing but the time stamps.
    fn has_options(&self, options: &[u8]) -> bool {
        let start = self.shape.ip_len() + TCP_HEADER;
        let own = &self.octets[start..self.shape.len];
        if own.len() != options.len() {
            return false;
        }
        let Some(at) = self.time_stamps.map(|at| at - start) else { return own == options };
        own[..at] == options[..at] && own[at + 8..] == options[at + 8..]
    }

    fn restore_segment(
        &self,
        (first, second): (u8, u8),
        reader: &mut Reader<'_>,
        headers: &mut [u8; MAX_HEADERS],
        len: &mut usize,
    ) -> Result<(), NoContext> {
        let tcp = self.shape.ip_len();
        restore_number::<3>(first >> SEQUENCE, reader, headers, tcp + 4)?;
        restore_number::<3>(first >> ACKNOWLEDGEMENT, reader, headers, tcp + 8)?;
        match self.time_stamps {
            Some(at) if second & HAS_OPTIONS == 0 => {
                restore_number::<2>(second >> TIME_STAMP, reader, headers, at)?;
                restore_number::<2>(second >> ECHOED, reader, headers, at + 4)?;
            }
            _ if second & 0x0f != 0 => return Err(NoContext),
            _ => {}
        }
        if second & HAS_WINDOW != 0 {
            headers[tcp + 14..tcp + 16].copy_from_slice(&reader.take::<2>()?);
        }
        if second & HAS_FLAGS != 0 {
            if second & PUSH != 0 {
                return Err(NoContext);
            }
            headers[tcp + 13] = reader.u8()?;
        } else {
            let push = if second & PUSH != 0 { TCP_PUSH } else { 0 };
            headers[tcp + 13] = headers[tcp + 13] & !TCP_PUSH | push;
        }
        if second & HAS_OPTIONS != 0 {
            let words = reader.u8()?;
            if usize::from(words) > MAX_OPTIONS / 4 {
                return Err(NoContext);
            }
            let (start, octets) = (tcp + TCP_HEADER, 4 * usize::from(words));
            headers[start..start + octets].copy_from_slice(reader.many(octets)?);
            // Twenty octets come before the options.
            headers[tcp + 12] = (5 + words) << 4 | headers[tcp + 12] & 0x0f;
            *len = start + octets;
        }
        Ok(())
    }
}

impl From<Malformed> for NoContext {
    fn from(_: Malformed) -> Self {
        Self
    }
}

impl Headers {
    /// They, before the payload.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    /// Number of octets replaced at the start of the packet.
    #[must_use]
    pub fn replaces(&self) -> usize {
        self.replaces
    }

    /// Whether a number is so far from the context's number that another context is wanted.
    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    fn push(&mut self, octets: &[u8]) {
        self.octets[self.len..self.len + octets.len()].copy_from_slice(octets);
        self.len += octets.len();
    }

    /// Writes the two octets at `at` if they differ from the context's `own`, and says whether they do.
    fn push_changed(&mut self, own: &[u8], packet: &[u8], at: usize) -> bool {
        let is_changed = own[at..at + 2] != packet[at..at + 2];
        if is_changed {
            self.push(&packet[at..at + 2]);
        }
        is_changed
    }
}

fn restore_number<const SHORT: usize>(
    how: u8,
    reader: &mut Reader<'_>,
    headers: &mut [u8; MAX_HEADERS],
    at: usize,
) -> Result<(), NoContext> {
    let octets = match how & 0b11 {
        0 => return Ok(()),
        1 => {
            let mut distance = [0; 4];
            distance[4 - SHORT..].copy_from_slice(&reader.take::<SHORT>()?);
            number(headers, at).wrapping_add(u32::from_be_bytes(distance)).to_be_bytes()
        }
        2 => reader.take::<4>()?,
        _ => return Err(NoContext),
    };
    headers[at..at + 4].copy_from_slice(&octets);
    Ok(())
}

fn number(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

fn ecn_of(packet: &[u8]) -> u8 {
    let is_v4 = packet[0] >> 4 == 4;
    (if is_v4 { packet[1] } else { packet[1] >> 4 }) & ecn::CE
}

fn set_ecn(headers: &mut [u8; MAX_HEADERS], bits: u8) {
    let shift = if headers[0] >> 4 == 4 { 0 } else { 4 };
    headers[1] = headers[1] & !(ecn::CE << shift) | (bits & ecn::CE) << shift;
}

/// Where the first time stamp is in these options.
fn time_stamps(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at)? {
            OPTION_END => return None,
            OPTION_NOTHING => at += 1,
            OPTION_TIME_STAMPS => {
                let is_whole = options[at + 1..].first() == Some(&10) && at + 10 <= options.len();
                return is_whole.then_some(at + 2);
            }
            _ => at += usize::from(*options.get(at + 1)?).max(2),
        }
    }
}

fn v4_protocol(packet: &[u8]) -> Option<u8> {
    let fixed = packet.first_chunk::<V4_HEADER>()?;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & V4_FRAGMENT;
    let checksum = u16::from_be_bytes([fixed[10], fixed[11]]);
    let is_plain = fixed[0] == V4_WITHOUT_OPTIONS
        && total == packet.len()
        && fragment == 0
        && checksum == v4_checksum(fixed);
    is_plain.then_some(fixed[9])
}

fn v6_protocol(packet: &[u8]) -> Option<u8> {
    let fixed = packet.first_chunk::<V6_HEADER>()?;
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    (fixed[0] >> 4 == 6 && V6_HEADER + payload == packet.len()).then_some(fixed[6])
}

/// The checksum that an IPv4 header should have, whatever it has.
fn v4_checksum(fixed: &[u8; V4_HEADER]) -> u16 {
    let mut header = *fixed;
    header[10..12].fill(0);
    Checksum::default().with(&header).finish()
}

fn tcp_header(segment: &[u8]) -> Option<usize> {
    let len = tcp::header_len(segment.first_chunk()?);
    (len >= TCP_HEADER && len <= segment.len()).then_some(len)
}

fn is_whole_datagram(rest: &[u8]) -> bool {
    rest.first_chunk::<UDP_HEADER>().is_some_and(|&[_, _, _, _, high, low, ..]| {
        usize::from(u16::from_be_bytes([high, low])) == rest.len()
    })
}
