//! Classifies packets for the queue: their flow, and the properties that matter to a queue.

use std::net::IpAddr;

use base::ip::FlowKey;
use base::rng::Rng;
use base::serial::is_after;
use base::tcp::Peek;

/// Buckets of flows (RFC 8290, 5.2).
pub const FLOWS: usize = 1_024;

/// What a packet is to a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A TCP segment with SYN.
    Opening,
    Other,
    /// A TCP segment without payload, SYN, FIN and RST.
    PureAck,
    /// A TCP segment that was sent before.
    Repeat,
}

/// A flow, as far as flows can be told apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tag(u64);

/// Maps flows to buckets in a way that nobody outside can foresee.
#[derive(Clone, Copy, Debug)]
pub struct Hash([u64; 4]);

/// What a TCP segment carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Payload {
    tag: Tag,
    seq: u32,
    len: u32,
    is_last: bool,
}

/// How far the TCP segments of a bucket have come: whose, and their greatest sequence number.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpProgress(Option<(Tag, u32)>);

impl Kind {
    /// What the TCP segment in a packet is, if there is one.
    pub fn of(segment: Option<Peek>, tag: Tag, progress: &mut TcpProgress) -> Self {
        let Some(segment) = segment else { return Self::Other };
        let end = segment.seq.wrapping_add(segment.len);
        if segment.is_syn() {
            progress.0 = Some((tag, end));
            Self::Opening
        } else if segment.len > 0 {
            if progress.reach(tag, end) { Self::Other } else { Self::Repeat }
        } else if segment.occupies() == 0 && !segment.is_reset() {
            Self::PureAck
        } else {
            Self::Other
        }
    }
}

impl Payload {
    /// The payload of a segment of the flow `tag`; `None` if it is empty.
    pub fn of(segment: Peek, tag: Tag) -> Option<Self> {
        let Peek { seq, len, .. } = segment;
        let is_last = segment.occupies() > len;
        (len > 0).then_some(Self { tag, seq, len, is_last })
    }
}

impl TcpProgress {
    /// Returns whether `end` is news.
    fn reach(&mut self, tag: Tag, end: u32) -> bool {
        if let Some((known, newest)) = self.0
            && known == tag
            && !is_after(end, newest)
        {
            return false;
        }
        self.0 = Some((tag, end));
        true
    }
}

impl Hash {
    pub fn new(rng: &mut Rng) -> Self {
        Self([rng.bits(), rng.bits(), rng.bits(), rng.bits()])
    }

    pub fn tag(&self, key: &FlowKey) -> Tag {
        let Self([a, b, c, d]) = *self;
        let ports = u64::from(key.source_port) << 16 | u64::from(key.destination_port);
        let rest = ports << 8 | u64::from(key.protocol);
        let (source, destination) = (halves(key.source), halves(key.destination));
        let ends = fold(source.0 ^ a, source.1 ^ b) ^ fold(destination.0 ^ c, destination.1 ^ d);
        let sum = fold(ends ^ rest ^ b, c ^ rest.rotate_left(32)) ^ ends;
        Tag(fold(sum ^ a, d | 1))
    }
}

impl Tag {
    /// The bucket of the flow.
    pub fn bucket(self) -> usize {
        usize::try_from(self.0 >> 32).map_or(0, |high| high % FLOWS)
    }
}

/// The two halves of the 128-bit product, together.
fn fold(a: u64, b: u64) -> u64 {
    let [low, high] = split(u128::from(a) * u128::from(b));
    low ^ high
}

fn halves(address: IpAddr) -> (u64, u64) {
    match address {
        IpAddr::V4(address) => (u64::from(address.to_bits()), 0),
        IpAddr::V6(address) => {
            let [low, high] = split(address.to_bits());
            (high, low)
        }
    }
}

fn split(wide: u128) -> [u64; 2] {
    let octets = wide.to_le_bytes();
    let (halves, _) = octets.as_chunks::<8>();
    [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])]
}
