//! Repair: a sum of packets.

use super::{FLAG_REPAIR, FlowId, HEADER, MAX_SPAN, Malformed, Seq, write_checksum};

/// Numbers of repairs go round after this many.
pub const REPAIRS: u8 = 128;

/// Octets of a repair before the mask: the repair's number, and the length of the mask.
const REPAIR_FIXED: usize = 2;

/// A sum of a flow's packets, from which the receiver recovers a missing one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Repair<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The first packet that may be covered.
    pub first: Seq,
    /// Which repair it is, 0 to 127 and round again; its coefficients follow from it.
    pub id: u8,
    /// The protocol of the packets.
    pub protocol: u8,
    /// Which packets are covered.
    pub mask: Mask<'a>,
    /// The sum.
    pub sum: &'a [u8],
}

/// Which packets a repair covers: bit `i` of octet `n`, counted from the least significant, stands
/// for `first + 8 n + i`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mask<'a>(&'a [u8]);

impl<'a> Repair<'a> {
    pub(super) fn parse(
        [_, seq, f0, f1, _, _, protocol, _]: [u8; HEADER],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let cut = |want| Malformed::Truncated { have: rest.len() + HEADER, want };
        let (&[id, len], rest) =
            rest.split_first_chunk::<REPAIR_FIXED>().ok_or(cut(HEADER + REPAIR_FIXED))?;
        let want = HEADER + REPAIR_FIXED + usize::from(len);
        let (mask, sum) = rest.split_at_checked(usize::from(len)).ok_or(cut(want))?;
        Ok(Self {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            first: Seq(seq),
            id: id & (REPAIRS - 1),
            protocol,
            mask: Mask::new(mask).ok_or(Malformed::Mask(len))?,
            sum,
        })
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let [f0, f1] = self.flow.0.to_be_bytes();
        let len = u8::try_from(self.mask.0.len()).expect("at most 16");
        let start = out.len();
        out.extend_from_slice(&[0, self.first.0, f0, f1, 0, 0, self.protocol, FLAG_REPAIR]);
        out.extend_from_slice(&[self.id & (REPAIRS - 1), len]);
        out.extend_from_slice(self.mask.0);
        out.extend_from_slice(self.sum);
        write_checksum(&mut out[start..]);
    }

    /// Octets of a repair with a mask for `span` packets, without its sum.
    #[must_use]
    pub const fn overhead(span: usize) -> usize {
        HEADER + REPAIR_FIXED + span.div_ceil(8)
    }
}

impl<'a> Mask<'a> {
    /// A mask made of `octets`, 1 to 16 in number.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Option<Self> {
        (1..=16).contains(&octets.len()).then_some(Self(octets))
    }

    /// How far after the first number the covered ones lie.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<'a> {
        let octets = self.0;
        (0..MAX_SPAN).filter(move |&offset| {
            octets.get(usize::from(offset / 8)).is_some_and(|octet| octet >> (offset % 8) & 1 == 1)
        })
    }
}
