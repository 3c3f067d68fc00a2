//! From octets to frames.

use base::crc;

use super::{
    Ack, Body, CRC16, CRC32, Coding, CpduSegment, Data, Datagram, Eow, Expedited, FIXED, Frame,
    Fsn, Header, LongAck, MAX_BITMAP, MAX_MESSAGE, MAX_PADDING, Management, Numbers, Reason, Reset,
    SYNC,
};
use crate::s5066::Address;

/// Why octets are no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The header arrived as it was sent, and makes no sense.
    #[error("a frame of type {kind} with {len} octets of its own in the header")]
    Body {
        /// What every frame says.
        header: Header,
        /// The type, 0 to 15.
        kind: u8,
        /// Octets of the type-specific part.
        len: usize,
    },
    /// The check sum of the header is wrong.
    #[error("the header's check sum is wrong")]
    HeaderSum,
    /// The sizes in the header are impossible.
    #[error("{addresses} octets of addresses (1 to 7), {header} of header (at least {FIXED})")]
    Sizes {
        /// Octets of the addresses.
        addresses: usize,
        /// Octets of the header.
        header: usize,
    },
    /// The sync octets are missing.
    #[error("no frame begins here")]
    Sync,
    /// It goes on.
    #[error("{need} octets are needed, there are fewer")]
    Truncated {
        /// The least number of octets needed.
        need: usize,
    },
}

impl<'a> Frame<'a> {
    /// Reads the frame that `octets` begin with, and how many they are.
    ///
    /// A bad CRC-32 is no error: it marks the segment.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] tells how many octets are needed at least; all others, that no
    /// frame begins here.
    pub fn read(octets: &'a [u8]) -> Result<(Self, usize), Malformed> {
        frame(octets, Reading::Checked)
    }

    /// Like [`Frame::read`] for the last octets of a stream: an incomplete segment counts as a bad one.
    ///
    /// # Errors
    /// The errors of [`Frame::read`]; truncated if a part of the header is missing.
    pub fn read_end(octets: &'a [u8]) -> Result<(Self, usize), Malformed> {
        frame(octets, Reading::AtEnd)
    }

    /// How many octets the frame takes that `octets` begin with.
    ///
    /// # Errors
    /// Those of [`Frame::read`].
    pub fn measure(octets: &[u8]) -> Result<usize, Malformed> {
        frame(octets, Reading::Measured).map(|(_, len)| len)
    }
}

/// How a frame is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reading {
    /// An incomplete segment counts as a bad one.
    AtEnd,
    /// More may come.
    Checked,
    /// Only its length matters: every segment counts as good.
    Measured,
}

fn frame(octets: &[u8], reading: Reading) -> Result<(Frame<'_>, usize), Malformed> {
    if !SYNC.starts_with(&octets[..octets.len().min(SYNC.len())]) {
        return Err(Malformed::Sync);
    }
    let Some(&[_, _, first, content, eot, sizes]) = octets.first_chunk() else {
        return Err(Malformed::Truncated { need: SYNC.len() + 4 });
    };
    let (addresses, size) = (usize::from(sizes >> 5), usize::from(sizes & 0x1f));
    if addresses == 0 || size < FIXED {
        return Err(Malformed::Sizes { addresses, header: size });
    }
    let end = SYNC.len() + addresses + size;
    let Some(covered) = octets.get(SYNC.len()..end - CRC16) else {
        return Err(Malformed::Truncated { need: end });
    };
    let Some(sum) = octets.get(end - CRC16..end) else {
        return Err(Malformed::Truncated { need: end });
    };
    if crc::header(covered).to_le_bytes() != sum {
        return Err(Malformed::HeaderSum);
    }

    let (to, from) = both_addresses(&covered[4..4 + addresses]);
    let specific = &covered[4 + addresses..];
    let kind = first >> 4;
    let is_group = matches!(kind, 7 | 8) && specific.first().is_some_and(|flags| flags & 4 != 0);
    let header = Header {
        eow: Eow::from_bits(first & 0x0f, content),
        eot,
        to: if is_group { Address::group(to) } else { Address::node(to) },
        from: Address::node(from),
        address_size: sizes >> 5,
    };
    let mut after = After { octets: &octets[end..], reading, taken: 0 };
    let wrong = Malformed::Body { header, kind, len: specific.len() };
    let body = body(kind, specific, &mut after).ok_or(wrong)?;
    let body = body.map_err(|need| Malformed::Truncated { need: end + need })?;
    Ok((Frame { header, body }, end + after.taken))
}

/// What follows the header.
struct After<'a> {
    octets: &'a [u8],
    reading: Reading,
    taken: usize,
}

impl<'a> After<'a> {
    /// Takes a segment, or tells how many octets it needs.
    fn segment(&mut self, flags: u8, low: u8) -> Result<CpduSegment<'a>, usize> {
        let size = usize::from(u16::from_be_bytes([flags & 3, low]));
        let need = size + CRC32;
        match self.octets.get(..need) {
            Some(all) => {
                let (octets, sum) = all.split_at(size);
                self.taken = need;
                let is_good = match self.reading {
                    Reading::AtEnd | Reading::Checked => crc::segment(octets).to_le_bytes() == sum,
                    Reading::Measured => true,
                };
                Ok(CpduSegment { octets, is_good })
            }
            None if self.reading == Reading::AtEnd => {
                self.taken = self.octets.len();
                Ok(CpduSegment { octets: &self.octets[..size.min(self.taken)], is_good: false })
            }
            None => Err(need),
        }
    }

    fn padding(&mut self, count: u16) -> Result<(), usize> {
        let need = usize::from(count);
        if self.octets.len() < need && self.reading != Reading::AtEnd {
            return Err(need);
        }
        self.taken = need.min(self.octets.len());
        Ok(())
    }
}

/// `None` when it makes no sense; an error tells how many octets must follow the header.
fn body<'a>(
    kind: u8,
    specific: &'a [u8],
    after: &mut After<'a>,
) -> Option<Result<Body<'a>, usize>> {
    let numbers = if kind >= 9 { Numbers::Long } else { Numbers::Short };
    let mut fields = Fields(specific);
    let body = match kind {
        0 | 2 | 9 | 11 => {
            let [flags, low] = fields.take()?;
            let fsn = fields.fsn(numbers)?;
            let ack = if matches!(kind, 2 | 11) { Some(fields.ack(numbers)?) } else { None };
            fields.end()?;
            after.segment(flags, low).map(|segment| Body::Data {
                numbers,
                data: Data {
                    fsn,
                    is_start: flags & 0x80 != 0,
                    is_end: flags & 0x40 != 0,
                    in_order: flags & 0x20 != 0,
                    is_drop: flags & 0x10 != 0,
                    at_upper_edge: flags & 0x08 != 0,
                    at_lower_edge: flags & 0x04 != 0,
                    segment,
                },
                ack,
            })
        }
        1 | 5 => Ok(Body::Ack { is_expedited: kind == 5, ack: fields.ack(numbers)? }),
        3 | 12 => {
            let [flags] = fields.take()?;
            let lwe = fields.fsn(numbers)?;
            let [id] = fields.take()?;
            let reset = Reset {
                is_full: flags & 8 != 0,
                is_tx_request: flags & 4 != 0,
                is_rx_command: flags & 2 != 0,
                is_ack: flags & 1 != 0,
                lwe,
                id,
            };
            fields.end()?;
            Ok(Body::Reset { numbers, reset })
        }
        4 => {
            let [flags, low, fsn] = fields.take()?;
            fields.end()?;
            after.segment(flags, low).map(|segment| {
                Body::Expedited(Expedited {
                    is_start: flags & 0x80 != 0,
                    is_end: flags & 0x40 != 0,
                    id: flags >> 2 & 0x0f,
                    fsn,
                    segment,
                })
            })
        }
        6 => {
            let [flags, id] = fields.take()?;
            let message = fields.0;
            let has_message = flags & 4 != 0;
            if message.len() > MAX_MESSAGE || !has_message && !message.is_empty() {
                return None;
            }
            Ok(Body::Management(Management {
                is_valid: flags & 2 != 0,
                is_ack: flags & 1 != 0,
                id,
                extended: has_message.then_some(message),
            }))
        }
        7 | 8 => {
            let [flags, low, id] = fields.take()?;
            let [size, offset, window] =
                [fields.take()?, fields.take()?, fields.take()?].map(u16::from_be_bytes);
            fields.end()?;
            after.segment(flags, low).map(|segment| {
                Body::Datagram(Datagram {
                    is_expedited: kind == 8,
                    id: u16::from_be_bytes([flags >> 4, id]),
                    in_order: flags & 8 != 0,
                    size,
                    offset,
                    window,
                    segment,
                })
            })
        }
        10 => {
            let lwe = fields.fsn(numbers)?;
            let [flags, low] = fields.take()?;
            let base = fields.fsn(numbers)?;
            fields.end()?;
            let list = match (flags & 3, low) {
                (0, 0) => Ok(CpduSegment::new(&[])),
                _ => after.segment(flags, low),
            };
            let coding = if flags & 0x40 != 0 { Coding::Runs } else { Coding::Bitmap };
            let is_last = flags & 0x80 != 0;
            list.map(|list| Body::LongAck(LongAck { lwe, base, is_last, coding, list }))
        }
        13 => {
            let [kind] = fields.take()?;
            Ok(Body::Extension { kind, octets: fields.0 })
        }
        14 => {
            let count = u16::from_be_bytes(fields.take()?);
            fields.end()?;
            if usize::from(count) > MAX_PADDING {
                return None;
            }
            after.padding(count).map(|()| Body::Padding { count })
        }
        _ => {
            let [about] = fields.take()?;
            fields.end()?;
            let reason = match about & 0x0f {
                0 => Reason::UnknownKind,
                1 => Reason::NotConnected,
                2 => Reason::Invalid,
                3 => Reason::InvalidNow,
                other => Reason::Other(other),
            };
            Ok(Body::Warning { received: about >> 4, reason })
        }
    };
    Some(body)
}

/// What is left of the type-specific part.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn fsn(&mut self, numbers: Numbers) -> Option<Fsn> {
        match numbers {
            Numbers::Long => self.take().map(|octets| Fsn(u16::from_be_bytes(octets))),
            Numbers::Short => self.take().map(|[octet]| Fsn(u16::from(octet))),
        }
    }

    /// All that is left.
    fn ack(&mut self, numbers: Numbers) -> Option<Ack<'a>> {
        let lwe = self.fsn(numbers)?;
        let bitmap = std::mem::take(&mut self.0);
        (bitmap.len() <= MAX_BITMAP).then_some(Ack { lwe, bitmap })
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The two halves of the address field.
fn both_addresses(octets: &[u8]) -> (u32, u32) {
    let both = octets.iter().fold(0_u64, |both, &octet| both << 8 | u64::from(octet));
    let bits = 4 * octets.len();
    let half = |bits: u64| u32::try_from(bits & ((1 << 28) - 1)).unwrap_or_default();
    (half(both >> bits), half(both & ((1 << bits) - 1)))
}
