//! Frames to octets.

use base::crc;

use super::{
    Body, CRC32, Coding, CpduSegment, FIXED, Frame, Header, MAX_SEGMENT, Numbers, Reason, SYNC,
};

impl Frame<'_> {
    /// Octets on the air.
    #[must_use]
    pub fn size(&self) -> usize {
        self.header.addresses() + self.body.size()
    }

    /// Appends the octets. A segment that is marked bad gets a wrong check sum.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&SYNC);
        let start = out.len();
        let addresses = self.header.addresses();
        let (eow_kind, eow) = self.header.eow.bits();
        let sizes = addresses << 5 | (FIXED + self.body.len()) & 0x1f;
        out.extend_from_slice(&[self.kind() << 4 | eow_kind, eow, self.header.eot, low(sizes)]);
        let to = u64::from(self.header.to.value()) << (4 * addresses);
        let both = to | u64::from(self.header.from.value());
        out.extend_from_slice(&both.to_be_bytes()[8 - addresses..]);
        self.body.emit(self.header.to.is_group(), out);
        let sum = crc::header(&out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        if let Body::Padding { count } = self.body {
            out.resize(out.len() + usize::from(count), 0);
        }
        if let Some(CpduSegment { octets, is_good }) = self.body.segment() {
            let sum = crc::segment(octets);
            out.extend_from_slice(octets);
            out.extend_from_slice(&if is_good { sum } else { !sum }.to_le_bytes());
        }
    }
}

impl Header {
    /// Octets that the addresses take.
    fn addresses(&self) -> usize {
        let needed = self.to.half_octets().max(self.from.half_octets());
        usize::from(self.address_size).clamp(needed, 7)
    }
}

impl Body<'_> {
    /// Octets on the air of a frame of it, without addresses.
    #[must_use]
    pub fn size(&self) -> usize {
        let segment = match (self, self.segment()) {
            (Body::Padding { count }, _) => usize::from(*count),
            (_, Some(segment)) => segment.octets.len() + CRC32,
            (_, None) => 0,
        };
        SYNC.len() + FIXED + self.len() + segment
    }

    /// Octets of the type-specific part.
    fn len(&self) -> usize {
        match self {
            Self::Ack { ack, .. } => 1 + ack.bitmap.len(),
            Self::Data { numbers, ack, .. } => {
                let number = numbers.octets();
                2 + number + ack.map_or(0, |ack| number + ack.bitmap.len())
            }
            Self::Datagram(_) => 9,
            Self::Expedited(_) => 3,
            Self::Extension { octets, .. } => 1 + octets.len(),
            Self::LongAck(_) => 6,
            Self::Management(management) => 2 + management.extended.map_or(0, <[u8]>::len),
            Self::Padding { .. } => 2,
            Self::Reset { numbers, .. } => 2 + numbers.octets(),
            Self::Warning { .. } => 1,
        }
    }

    fn emit(&self, is_group: bool, out: &mut Vec<u8>) {
        match *self {
            Self::Ack { ack, .. } => ack.emit(Numbers::Short, out),
            Self::Data { numbers, data, ack } => {
                let flags = [
                    data.is_start,
                    data.is_end,
                    data.in_order,
                    data.is_drop,
                    data.at_upper_edge,
                    data.at_lower_edge,
                ];
                sized(bits(flags) << 2, data.segment.octets, out);
                numbers.emit(data.fsn, out);
                if let Some(ack) = ack {
                    ack.emit(numbers, out);
                }
            }
            Self::Datagram(datagram) => {
                let [high, id] = datagram.id.to_be_bytes();
                let flags = bits([datagram.in_order, is_group]) << 2;
                sized(high << 4 | flags, datagram.segment.octets, out);
                out.push(id);
                for field in [datagram.size, datagram.offset, datagram.window] {
                    out.extend_from_slice(&field.to_be_bytes());
                }
            }
            Self::Expedited(expedited) => {
                let flags = bits([expedited.is_start, expedited.is_end]) << 6;
                sized(flags | (expedited.id & 0x0f) << 2, expedited.segment.octets, out);
                out.push(expedited.fsn);
            }
            Self::Extension { kind, octets } => {
                out.push(kind);
                out.extend_from_slice(octets);
            }
            Self::LongAck(ack) => {
                Numbers::Long.emit(ack.lwe, out);
                let flags = bits([ack.is_last, ack.coding == Coding::Runs]) << 6;
                sized(flags, ack.list.octets, out);
                Numbers::Long.emit(ack.base, out);
            }
            Self::Management(management) => {
                let flags = [management.extended.is_some(), management.is_valid, management.is_ack];
                out.extend_from_slice(&[bits(flags), management.id]);
                out.extend_from_slice(management.extended.unwrap_or_default());
            }
            Self::Padding { count } => out.extend_from_slice(&count.to_be_bytes()),
            Self::Reset { numbers, reset } => {
                out.push(bits([
                    reset.is_full,
                    reset.is_tx_request,
                    reset.is_rx_command,
                    reset.is_ack,
                ]));
                numbers.emit(reset.lwe, out);
                out.push(reset.id);
            }
            Self::Warning { received, reason } => out.push(received << 4 | reason.code()),
        }
    }
}

impl Reason {
    const fn code(self) -> u8 {
        match self {
            Self::UnknownKind => 0,
            Self::NotConnected => 1,
            Self::Invalid => 2,
            Self::InvalidNow => 3,
            Self::Other(code) => code & 0x0f,
        }
    }
}

/// The flags as one number, the first in the highest bit.
fn bits<const N: usize>(flags: [bool; N]) -> u8 {
    flags.into_iter().fold(0, |all, flag| all << 1 | u8::from(flag))
}

/// Two octets: flags, and ten bits of size.
fn sized(flags: u8, segment: &[u8], out: &mut Vec<u8>) {
    debug_assert!(segment.len() <= MAX_SEGMENT, "it fits ten bits");
    let [high, low] = u16::try_from(segment.len()).unwrap_or(u16::MAX).to_be_bytes();
    out.extend_from_slice(&[flags | high & 3, low]);
}

/// The low octet.
const fn low(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
