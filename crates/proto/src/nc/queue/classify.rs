//! Which flow a packet belongs to, and what of it matters to a queue.

use std::net::IpAddr;

use super::FLOWS;
use crate::ip::{FlowKey, Header, protocol};
use crate::rng::Rng;
use crate::tcp::Flags;

/// What a packet is to a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Kind {
    /// A TCP segment without payload, SYN, FIN and RST.
    pub(super) is_pure_ack: bool,
    /// A TCP segment with SYN.
    pub(super) is_opening: bool,
}

/// Maps flows to buckets in a way that nobody outside can foresee.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash([u64; 4]);

impl Kind {
    /// `offset` is where the transport header starts.
    pub(super) fn of(key: &FlowKey, header: &Header, packet: &[u8], offset: usize) -> Self {
        const FLAGS: usize = 13;
        const ENDS: u8 = Flags::FIN.0 | Flags::RST.0;

        // Ports are missing where the transport header may be.
        let is_tcp =
            key.protocol == protocol::TCP && (key.source_port, key.destination_port) != (0, 0);
        let segment = packet.get(offset..header.total_len).filter(|_| is_tcp);
        let Some((segment, &words, &flags)) = segment
            .and_then(|segment| Some((segment, segment.get(FLAGS - 1)?, segment.get(FLAGS)?)))
        else {
            return Self::default();
        };
        let is_opening = flags & Flags::SYN.0 != 0;
        let is_empty = segment.len() <= usize::from(words >> 4) * 4;
        Self { is_pure_ack: is_empty && !is_opening && flags & ENDS == 0, is_opening }
    }
}

impl Hash {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self([rng.bits(), rng.bits(), rng.bits(), rng.bits()])
    }

    /// The bucket of a flow.
    pub(super) fn bucket(&self, key: &FlowKey) -> usize {
        let Self([a, b, c, d]) = *self;
        let ports = u64::from(key.source_port) << 16 | u64::from(key.destination_port);
        let rest = ports << 8 | u64::from(key.protocol);
        let (source, destination) = (halves(key.source), halves(key.destination));
        let ends = fold(source.0 ^ a, source.1 ^ b) ^ fold(destination.0 ^ c, destination.1 ^ d);
        let sum = fold(ends ^ rest ^ b, c ^ rest.rotate_left(32)) ^ ends;
        let mixed = fold(sum ^ a, d | 1);
        usize::try_from(mixed >> 32).map_or(0, |high| high % FLOWS)
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
