//! Joins consecutive segments of one flow into a train for one system call: the opposite of cutting.

#[cfg(test)]
mod tests;

use base::ip::{self, Checksum, Header, protocol, pseudo_header};

use super::{HEADER, KIND_TCP4, KIND_TCP6, KIND_UDP, NEEDS_SUM};

/// Trains under way at a time: flows that take turns.
const TRAINS: usize = 8;
/// Octets of a train: what the length field of IPv4 can say.
const LONGEST: usize = 65_535;
/// Segments in a train, at most; the kernel refuses more of UDP.
const SEGMENTS: usize = 64;

const TCP_FLAGS: usize = 13;
const TCP_ACK: u8 = 0x10;
const TCP_PSH: u8 = 0x08;

/// Joins packets; between two calls of [`Joiner::flush`] packets of the same flow keep their order.
#[derive(Debug, Default)]
pub struct Joiner {
    /// The first `open` are under way.
    trains: Vec<Train>,
    open: usize,
    /// For packets that are not joined.
    alone: Vec<u8>,
    joins_datagrams: bool,
    /// Number of written trains with more than one segment.
    pub joined: u64,
}

/// A packet and the packets joined to it, behind the kernel's offload header.
#[derive(Debug)]
struct Train {
    octets: Vec<u8>,
    shape: Shape,
    count: usize,
    /// The sequence number that follows (TCP).
    next: u32,
    /// A segment was short or pushed: it is the last.
    is_closed: bool,
}

/// Where the parts of a packet lie.
#[derive(Clone, Copy, Debug)]
struct Shape {
    header: Header,
    transport: usize,
    payload: usize,
    /// Octets of payload.
    segment: usize,
    is_tcp: bool,
}

impl Joiner {
    /// A joiner without trains; it joins UDP datagrams only if the kernel takes trains of datagrams.
    #[must_use]
    pub fn new(joins_datagrams: bool) -> Self {
        Self { joins_datagrams, ..Self::default() }
    }

    /// Takes a packet; calls `write` with each train or packet that is now complete.
    pub fn push(&mut self, packet: &[u8], mut write: impl FnMut(&[u8])) {
        let shape = Shape::of(packet).filter(|shape| shape.is_tcp || self.joins_datagrams);
        let Some(shape) = shape else {
            // A packet that cannot be joined must not overtake the train of its flow.
            if let Some(at) = self.train_of(packet) {
                self.settle(at, &mut write);
            }
            self.write_alone(packet, &mut write);
            return;
        };
        if let Some(at) = self.train_of(packet) {
            if self.trains[at].join(packet, &shape) {
                return;
            }
            self.settle(at, &mut write);
        }
        if self.open == TRAINS {
            self.settle(0, &mut write);
        }
        self.begin(packet, shape);
    }

    /// Calls `write` with all that is left.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8])) {
        for train in &mut self.trains[..self.open] {
            self.joined += u64::from(train.count > 1);
            train.finish();
            write(&train.octets);
        }
        self.open = 0;
    }

    fn begin(&mut self, packet: &[u8], shape: Shape) {
        if self.open == self.trains.len() {
            self.trains.push(Train {
                octets: Vec::with_capacity(HEADER + LONGEST),
                shape,
                count: 0,
                next: 0,
                is_closed: false,
            });
        }
        self.trains[self.open].begin(packet, shape);
        self.open += 1;
    }

    /// The train of a packet's flow, if one is under way.
    fn train_of(&self, packet: &[u8]) -> Option<usize> {
        let is_its = |it: &Train| is_same_flow(it.packet(), it.shape.transport, packet);
        self.trains[..self.open].iter().position(is_its)
    }

    fn settle(&mut self, at: usize, write: &mut impl FnMut(&[u8])) {
        let train = &mut self.trains[at];
        self.joined += u64::from(train.count > 1);
        train.finish();
        write(&train.octets);
        // The oldest stays first.
        self.trains[at..self.open].rotate_left(1);
        self.open -= 1;
    }

    /// Writes a packet as it is, through memory that no train uses.
    fn write_alone(&mut self, packet: &[u8], write: &mut impl FnMut(&[u8])) {
        self.alone.clear();
        self.alone.extend_from_slice(&[0; HEADER]);
        self.alone.extend_from_slice(packet);
        write(&self.alone);
    }
}

impl Train {
    fn packet(&self) -> &[u8] {
        &self.octets[HEADER..]
    }

    fn begin(&mut self, packet: &[u8], shape: Shape) {
        self.octets.clear();
        self.octets.extend_from_slice(&[0; HEADER]);
        self.octets.extend_from_slice(packet);
        self.shape = shape;
        self.count = 1;
        self.next = sequence(packet, &shape).wrapping_add(length(shape.segment));
        self.is_closed = shape.is_tcp && packet[shape.transport + TCP_FLAGS] & TCP_PSH != 0;
    }

    /// Adds a packet of the same flow if it follows directly.
    fn join(&mut self, packet: &[u8], shape: &Shape) -> bool {
        let own = self.shape;
        let first = &self.octets[HEADER..];
        if self.is_closed
            || shape.payload != own.payload
            || shape.segment > own.segment
            || self.count == SEGMENTS
            || first.len() + shape.segment > LONGEST
            || (own.is_tcp && sequence(packet, shape) != self.next)
            || !has_same_headers(&first[..own.payload], &packet[..own.payload], &own)
            || !is_intact(packet, shape)
            || (self.count == 1 && !is_intact(first, &own))
        {
            return false;
        }
        let is_pushed = own.is_tcp && packet[own.transport + TCP_FLAGS] & TCP_PSH != 0;
        if is_pushed {
            self.octets[HEADER + own.transport + TCP_FLAGS] |= TCP_PSH;
        }
        self.octets.extend_from_slice(&packet[shape.payload..]);
        self.count += 1;
        self.next = self.next.wrapping_add(length(shape.segment));
        self.is_closed = is_pushed || shape.segment < own.segment;
        true
    }

    /// Writes what the kernel has to know to cut the train again.
    fn finish(&mut self) {
        if self.count == 1 {
            return;
        }
        let Shape { header, transport, payload, segment, is_tcp } = self.shape;
        let (offload, packet) = self.octets.split_at_mut(HEADER);
        let total = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        if header.is_v4() {
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            ip::rewrite_v4_checksum(&mut packet[..header.len]);
        } else {
            let len = u16::try_from(packet.len() - ip::V6_HEADER).unwrap_or(u16::MAX);
            packet[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let len = packet.len() - transport;
        let (protocol, kind, sum_at) = match (is_tcp, header.is_v4()) {
            (true, true) => (protocol::TCP, KIND_TCP4, 16),
            (true, false) => (protocol::TCP, KIND_TCP6, 16),
            (false, _) => (protocol::UDP, KIND_UDP, 6),
        };
        if !is_tcp {
            let len = u16::try_from(len).unwrap_or(u16::MAX);
            packet[transport + 4..transport + 6].copy_from_slice(&len.to_be_bytes());
        }
        // The sum over the pseudo header; the kernel adds the rest.
        let sum = !pseudo_header(header.source, header.destination, protocol, len).finish();
        let at = transport + usize::from(sum_at);
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());

        let number = |value: usize| u16::try_from(value).unwrap_or(u16::MAX).to_ne_bytes();
        offload[0] = NEEDS_SUM;
        offload[1] = kind;
        offload[2..4].copy_from_slice(&number(payload));
        offload[4..6].copy_from_slice(&number(segment));
        offload[6..8].copy_from_slice(&number(transport));
        offload[8..10].copy_from_slice(&u16::to_ne_bytes(sum_at));
    }
}

impl Shape {
    /// The shape of a packet that can be joined with others.
    fn of(packet: &[u8]) -> Option<Self> {
        let header = Header::parse(packet).ok()?;
        let plain_len = if header.is_v4() { ip::V4_HEADER } else { ip::V6_HEADER };
        if header.len != plain_len || header.fragment.is_some() || header.total_len != packet.len()
        {
            return None;
        }
        let transport = header.len;
        let is_tcp = header.protocol == protocol::TCP;
        let payload = match header.protocol {
            protocol::TCP => {
                let len = base::tcp::header_len(packet.get(transport..)?.first_chunk()?);
                let flags = packet.get(transport + TCP_FLAGS)?;
                if flags & !TCP_PSH != TCP_ACK || len < 20 {
                    return None;
                }
                transport + len
            }
            protocol::UDP => {
                let udp = packet.get(transport..)?.first_chunk::<8>()?;
                let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
                // A sum of zero is none: the kernel would fill one in.
                if len != packet.len() - transport || udp[6..8] == [0, 0] {
                    return None;
                }
                transport + 8
            }
            _ => return None,
        };
        let segment = packet.len().checked_sub(payload).filter(|&segment| segment > 0)?;
        Some(Self { header, transport, payload, segment, is_tcp })
    }
}

/// Whether two packets have the same addresses, protocol and ports, whatever else they are.
fn is_same_flow(first: &[u8], transport: usize, other: &[u8]) -> bool {
    let is_v4 = transport == ip::V4_HEADER;
    if other.len() < transport + 4 || first[0] >> 4 != other[0] >> 4 {
        return false;
    }
    let (addresses, protocol_at) = if is_v4 { (12..20, 9) } else { (8..40, 6) };
    first[protocol_at] == other[protocol_at]
        && first[transport..transport + 4] == other[transport..transport + 4]
        && first[addresses.clone()] == other[addresses]
}

/// Whether all is the same that the kernel will copy from the first to each segment.
fn has_same_headers(first: &[u8], other: &[u8], shape: &Shape) -> bool {
    let transport = shape.transport;
    let is_same = |range: std::ops::Range<usize>| first[range.clone()] == other[range];
    let ip = if shape.header.is_v4() {
        // Not the length, the identification and the checksum; the flags and the hops.
        is_same(0..2) && is_same(6..9)
    } else {
        is_same(0..4) && first[7] == other[7]
    };
    let is_end_same = !shape.is_tcp || {
        let flags = transport + TCP_FLAGS;
        (first[flags] ^ other[flags]) & !TCP_PSH == 0
            && is_same(transport + 8..flags)
            && is_same(flags + 1..transport + 16)
            && is_same(transport + 18..shape.payload)
    };
    ip && is_end_same
}

/// Whether the transport's checksum is right; the kernel will not look again.
fn is_intact(packet: &[u8], shape: &Shape) -> bool {
    let Shape { header, transport, is_tcp, .. } = shape;
    let protocol = if *is_tcp { protocol::TCP } else { protocol::UDP };
    let segment = &packet[*transport..];
    let sum: Checksum = pseudo_header(header.source, header.destination, protocol, segment.len());
    sum.with(segment).finish() == 0
}

fn sequence(packet: &[u8], shape: &Shape) -> u32 {
    let at = shape.transport + 4;
    let octets = packet.get(at..).and_then(<[u8]>::first_chunk);
    if shape.is_tcp { octets.map_or(0, |&octets| u32::from_be_bytes(octets)) } else { 0 }
}

fn length(octets: usize) -> u32 {
    u32::try_from(octets).expect("shorter than an IP packet")
}
