//! Repair: a sum of packets.

use super::{EXTRA, FLAG_REPAIR, FlowId, HEADER, Malformed, Seq, write_checksum};

/// The most octets of a mask.
pub const MAX_MASK: usize = 16;
/// The bits that hold the length of the mask in octets, less one.
const MASK: u8 = 0x0f;

/// A sum of a flow's packets, from which the receiver recovers a missing one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Repair<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The first packet that may be covered.
    pub first: Seq,
    /// The number of this transmission; its coefficients follow from it.
    pub repeat: Seq,
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
    pub(crate) fn parse(
        [flags, protocol, f0, f1, _, _, n0, n1]: [u8; HEADER],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let len = usize::from(flags & MASK) + 1;
        let cut = Malformed::Truncated { have: rest.len() + HEADER, want: HEADER + EXTRA + len };
        let (&[r0, r1], rest) = rest.split_first_chunk::<EXTRA>().ok_or(cut)?;
        let (mask, sum) = rest.split_at_checked(len).ok_or(cut)?;
        Ok(Self {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            first: Seq(u16::from_be_bytes([n0, n1])),
            repeat: Seq(u16::from_be_bytes([r0, r1])),
            protocol,
            mask: Mask(mask),
            sum,
        })
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let [f0, f1] = self.flow.0.to_be_bytes();
        let [n0, n1] = self.first.0.to_be_bytes();
        let len = u8::try_from(self.mask.0.len() - 1).expect("1 to 16 octets");
        let start = out.len();
        out.extend_from_slice(&[FLAG_REPAIR | len, self.protocol, f0, f1, 0, 0, n0, n1]);
        out.extend_from_slice(&self.repeat.0.to_be_bytes());
        out.extend_from_slice(self.mask.0);
        out.extend_from_slice(self.sum);
        write_checksum(&mut out[start..]);
    }

    /// Octets of a repair with a mask for `span` packets, without its sum.
    #[must_use]
    pub const fn overhead(span: usize) -> usize {
        HEADER + EXTRA + span.div_ceil(8)
    }
}

impl<'a> Mask<'a> {
    /// A mask made of `octets`, 1 to 16 in number.
    #[must_use]
    pub fn new(octets: &'a [u8]) -> Option<Self> {
        (1..=MAX_MASK).contains(&octets.len()).then_some(Self(octets))
    }

    /// How far after the first number the covered ones lie.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<'a> {
        let octets = self.0;
        (0..128_u8).filter(move |&offset| {
            octets.get(usize::from(offset / 8)).is_some_and(|octet| octet >> (offset % 8) & 1 == 1)
        })
    }
}
