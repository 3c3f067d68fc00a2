//! Fragments an IPv4 packet that is too long for a link (RFC 791, 2.3).

use super::header::{Header, rewrite_v4_checksum};

/// Octets of the longest packet.
const LONGEST: usize = 0xffff;

/// Splits `packet` into fragments that fit `mtu`, and calls `emit` once for each.
///
/// Options are repeated in every fragment. Returns false, and emits nothing, when the packet may not be fragmented
/// (IPv6, don't-fragment), when `mtu` leaves no room for 8 octets, or when `packet` is a fragment that reaches beyond
/// the longest packet: such a place does not fit its field, and would become the place of a first fragment.
#[must_use]
pub fn fragment(header: &Header, packet: &[u8], mtu: usize, mut emit: impl FnMut(&[u8])) -> bool {
    let room = mtu.saturating_sub(header.len) / 8 * 8;
    let base = header.fragment.map_or(0, |fragment| fragment.offset);
    if header.dont_fragment || room == 0 || base + header.total_len > LONGEST {
        return false;
    }

    let payload = &packet[header.len..header.total_len];
    let more_after = header.fragment.is_some_and(|fragment| fragment.more);
    let mut piece = Vec::with_capacity(mtu);
    for (index, chunk) in payload.chunks(room).enumerate() {
        let offset = base + index * room;
        let more = more_after || index * room + chunk.len() < payload.len();
        let total = u16::try_from(header.len + chunk.len()).expect("below the packet's length");
        let flags = u16::try_from(offset / 8).expect("13 bits") | if more { 0x2000 } else { 0 };

        piece.clear();
        piece.extend_from_slice(&packet[..header.len]);
        piece[2..4].copy_from_slice(&total.to_be_bytes());
        piece[6..8].copy_from_slice(&flags.to_be_bytes());
        rewrite_v4_checksum(&mut piece);
        piece.extend_from_slice(chunk);
        emit(&piece);
    }
    true
}
