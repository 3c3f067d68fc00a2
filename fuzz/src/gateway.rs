//! Fuzzes the gateway with what the kernel hands to it.

use ::gateway::linux::offload::{HEADER, Joiner, Offload};
use base::ip::Header;

/// Octets of the Ethernet header; offsets count from its end.
const LINK: usize = 14;

/// Kinds of trains, `VIRTIO_NET_HDR_GSO_*`.
const NONE: u8 = 0;
const UDP: u8 = 5;

/// A train of segments as an independent reader sees it: offsets of its parts, and the size of a segment.
struct Train<'a> {
    packet: &'a [u8],
    is_v4: bool,
    is_tcp: bool,
    transport: usize,
    payload: usize,
    segment: usize,
}

/// Reads the input as a train of segments from the kernel, cuts it, and joins the pieces again.
pub(crate) fn offload(input: &[u8]) {
    let Ok(offload) = Offload::parse(input, LINK) else { return };
    let mut packet = input[HEADER..].to_vec();
    let original = packet.clone();

    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let cut = offload.segment(&mut packet, &mut Vec::new(), |piece| pieces.push(piece.to_vec()));

    if input[1] & 0x7f == NONE {
        assert_eq!(pieces.len(), usize::from(cut.is_ok()));
        assert!(pieces.iter().all(|piece| piece.len() == original.len()));
        return;
    }
    assert_eq!(packet, original, "cutting takes nothing from the train");
    let Some(train) = Train::read(input, &original) else {
        assert!(pieces.is_empty());
        return;
    };
    if cut.is_ok() {
        let count = train.packet[train.payload..].len().div_ceil(train.segment);
        assert_eq!(pieces.len(), count);
    }
    for (index, piece) in pieces.iter().enumerate() {
        train.check(index, piece);
    }
    if cut.is_ok() {
        let payload: Vec<u8> =
            pieces.iter().flat_map(|piece| &piece[train.payload..]).copied().collect();
        assert_eq!(payload, &original[train.payload..], "each octet once, in order");
        train.check_joined(&pieces);
        train.check_gaps(&pieces);
    }
}

impl<'a> Train<'a> {
    /// Finds the parts of a train that can be cut.
    fn read(input: &[u8], packet: &'a [u8]) -> Option<Self> {
        let number = |at: usize| usize::from(u16::from_ne_bytes([input[at], input[at + 1]]));
        let is_tcp = input[1] & 0x7f != UDP;
        let transport = number(6).saturating_sub(LINK);
        let payload = if is_tcp {
            transport + usize::from(packet.get(transport + 12)? >> 4) * 4
        } else {
            transport + 8
        };
        let is_v4 = packet.first()? >> 4 == 4;
        let segment = number(4);
        (segment > 0 && payload <= packet.len()).then_some(Self {
            packet,
            is_v4,
            is_tcp,
            transport,
            payload,
            segment,
        })
    }

    /// Checks that a piece is a valid packet for the network.
    fn check(&self, index: usize, piece: &[u8]) {
        let Self { packet, is_v4, transport, payload, segment, .. } = *self;
        let (first, last) = (index * segment, packet.len() - payload);
        let end = last.min(first + segment);
        assert_eq!(piece[payload..], packet[payload..][first..end], "what segment {index} carries");

        let header = Header::parse(piece).expect("a piece is a packet");
        assert_eq!(header.total_len, piece.len());
        let mut expected = packet[..transport].to_vec();
        let put = |into: &mut [u8], at: usize, number: usize| {
            into[at..at + 2].copy_from_slice(&(number as u64).to_be_bytes()[6..]);
        };
        if is_v4 {
            put(&mut expected, 2, piece.len());
            let ident = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            put(&mut expected, 4, ident + index);
            expected[10..12].copy_from_slice(&piece[10..12]);
            assert_eq!(sum(&[&piece[..header.len]]), 0xffff, "the sum of the header");
        } else {
            put(&mut expected, 4, piece.len() - 40);
        }
        assert_eq!(piece[..transport], expected, "the IP header of segment {index}");

        self.check_transport(index, end == last, piece);
        let sent = &piece[transport..];
        let ends = if is_v4 { &piece[12..20] } else { &piece[8..40] };
        let protocol = if self.is_tcp { 6 } else { 17 };
        let len = (sent.len() as u64).to_be_bytes();
        assert_eq!(sum(&[ends, &len, &[0, protocol], sent]), 0xffff, "the sum of the segment");
    }

    fn check_transport(&self, index: usize, is_last: bool, piece: &[u8]) {
        let Self { packet, transport, payload, segment, .. } = *self;
        let mut expected = packet[transport..payload].to_vec();
        let found = &piece[transport..payload];
        let sum_at = if self.is_tcp {
            let seq = u32::from_be_bytes([expected[4], expected[5], expected[6], expected[7]]);
            let offset = (index * segment) as u64;
            let seq = (u64::from(seq) + offset).to_be_bytes();
            expected[4..8].copy_from_slice(&seq[4..]);
            // FIN and PSH are the last segment's, CWR is the first one's.
            let kept = match (index == 0, is_last) {
                (true, true) => 0xff,
                (true, false) => !0x09,
                (false, true) => !0x80,
                (false, false) => !0x89,
            };
            expected[13] &= kept;
            16
        } else {
            let len = (piece.len() - transport) as u64;
            expected[4..6].copy_from_slice(&len.to_be_bytes()[6..]);
            assert_ne!(found[6..8], [0, 0], "a sum of zero means that there is none");
            6
        };
        expected[sum_at..sum_at + 2].copy_from_slice(&found[sum_at..sum_at + 2]);
        assert_eq!(found, expected, "the transport header of segment {index}");
    }

    /// Joining the pieces and cutting the result gives the same packets.
    fn check_joined(&self, pieces: &[Vec<u8>]) {
        let again = Self::joined_and_cut(pieces);
        assert!(again == pieces, "joined and cut again: {again:x?}, not {pieces:x?}");
    }

    /// With pieces missing, repeated or late, joining and cutting still keeps the packets and their order. Only the
    /// identification may differ, because a train counts it up.
    fn check_gaps(&self, pieces: &[Vec<u8>]) {
        let with_gaps = pieces.iter().enumerate().filter(|(at, _)| at % 3 != 1);
        let twice = pieces.iter().flat_map(|piece| [piece, piece]);
        let late = pieces.chunks(2).flat_map(|two| two.iter().rev());
        let others: [Vec<Vec<u8>>; 3] = [
            with_gaps.map(|(_, piece)| piece.clone()).collect(),
            twice.cloned().collect(),
            late.cloned().collect(),
        ];
        for mut pieces in others {
            let mut again = Self::joined_and_cut(&pieces);
            for piece in again.iter_mut().chain(&mut pieces).filter(|_| self.is_v4) {
                piece[4..6].fill(0);
                piece[10..12].fill(0);
            }
            assert!(again == pieces, "joined and cut: {again:x?}, not {pieces:x?}");
        }
    }

    fn joined_and_cut(pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut joiner = Joiner::new(true);
        let mut trains = Vec::new();
        for piece in pieces {
            joiner.push(piece, |train| trains.push(train.to_vec()));
        }
        joiner.flush(|train| trains.push(train.to_vec()));
        assert!(trains.len() <= pieces.len());
        let mut again = Vec::new();
        for mut train in trains {
            let offload = Offload::parse(&train, 0).expect("a header");
            let cut = offload.segment(&mut train[HEADER..], &mut Vec::new(), |piece| {
                again.push(piece.to_vec());
            });
            cut.expect("what was joined can be cut");
        }
        again
    }
}

/// The ones' complement sum (RFC 1071) over several parts; all parts but the last have an even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("it was folded")
}
