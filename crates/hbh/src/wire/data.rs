//! HDM: a packet, and short packets that ride on it.

use std::fmt;

use super::{
    COPIES, FLAG_REQUEST, FlowId, HEADER, MAX_SPAN, Malformed, OPTION, Seq, write_checksum,
};

/// The most older packets that one HDM carries along.
pub const MAX_OLDER: usize = 3;

const FLAG_BUNDLE: u8 = 0x40;
const FLAG_HOLE: u8 = 0x20;
const FLAG_PATIENT: u8 = 0x10;
const OUTSTANDING_HIGH: u8 = 0x08;

/// An HDM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data<'a> {
    /// The flow.
    pub flow: FlowId,
    /// This packet's number.
    pub seq: Seq,
    /// RACK: an acknowledgement is asked for at once.
    pub wants_ack: bool,
    /// How many numbers back the sender's lowest outstanding packet is, 0 to 127.
    pub outstanding: u8,
    /// Something before this packet will not come: it was refused, expired or given up.
    pub has_hole: bool,
    /// Its acknowledgement may wait for several round trips, as long as nothing is missing.
    pub is_patient: bool,
    /// The number of this transmission of the packet, 0 to 7 and round again.
    pub copy: u8,
    /// The protocol of the data.
    pub protocol: u8,
    /// Packets before this one that have not been acknowledged, oldest first.
    pub older: Older<'a>,
    /// What the IP packet carried.
    pub payload: &'a [u8],
}

/// Short packets that ride on a later packet of their flow, as its receiver will see them: with the
/// later packet's IP header and their own content.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Older<'a>(&'a [u8]);

impl<'a> Data<'a> {
    pub(super) fn parse(
        [flags, seq, f0, f1, _, _, protocol, reserved]: [u8; HEADER],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let (older, payload) = if reserved & FLAG_BUNDLE == 0 {
            (Older::default(), rest)
        } else {
            Older::split(rest)?
        };
        Ok(Self {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            seq: Seq(seq),
            wants_ack: flags & FLAG_REQUEST != 0,
            outstanding: flags & OPTION | (reserved & OUTSTANDING_HIGH) << 3,
            has_hole: reserved & FLAG_HOLE != 0,
            is_patient: reserved & FLAG_PATIENT != 0,
            copy: reserved & (COPIES - 1),
            protocol,
            older,
            payload,
        })
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        debug_assert!(self.outstanding <= MAX_SPAN, "in range");
        let request = if self.wants_ack { FLAG_REQUEST } else { 0 };
        let [f0, f1] = self.flow.0.to_be_bytes();
        let bundle = if self.older.is_empty() { 0 } else { FLAG_BUNDLE };
        let hole = if self.has_hole { FLAG_HOLE } else { 0 };
        let patient = if self.is_patient { FLAG_PATIENT } else { 0 };
        let high = (self.outstanding >> 3) & OUTSTANDING_HIGH;
        let reserved = bundle | hole | patient | high | self.copy & (COPIES - 1);
        let start = out.len();
        out.extend_from_slice(&[
            request | self.outstanding & OPTION,
            self.seq.0,
            f0,
            f1,
            0,
            0,
            self.protocol,
            reserved,
        ]);
        out.extend_from_slice(self.older.0);
        out.extend_from_slice(self.payload);
        write_checksum(&mut out[start..]);
    }
}

impl<'a> Older<'a> {
    /// Splits the older packets from what follows them.
    fn split(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let cut = |want| Malformed::Truncated { have: octets.len(), want };
        let (&count, mut rest) = octets.split_first().ok_or(cut(1))?;
        if usize::from(count) > MAX_OLDER {
            return Err(Malformed::TooMany(count));
        }
        for _ in 0..count {
            let (&[back, len], after) = rest.split_first_chunk::<2>().ok_or(cut(3))?;
            if back == 0 || back > MAX_SPAN {
                return Err(Malformed::Back(back));
            }
            rest = after.get(usize::from(len)..).ok_or(cut(usize::from(len)))?;
        }
        let (own, payload) = octets.split_at(octets.len() - rest.len());
        Ok((Self(own), payload))
    }

    /// How many numbers before the HDM's each packet has, and what it carried.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut rest = self.0.get(1..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (&[back, len], after) = rest.split_first_chunk::<2>()?;
            let (octets, after) = after.split_at_checked(usize::from(len))?;
            rest = after;
            Some((back, octets))
        })
    }

    /// Octets that the older packets take in an HDM.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Older<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Appends an older packet, `back` numbers before the one that will carry it, to `older`; false
/// when it cannot ride.
pub fn push_older(back: u8, octets: &[u8], older: &mut Vec<u8>) -> bool {
    let count = older.first().copied().unwrap_or(0);
    let Ok(len) = u8::try_from(octets.len()) else { return false };
    if usize::from(count) >= MAX_OLDER || back == 0 || back > MAX_SPAN {
        return false;
    }
    if older.is_empty() {
        older.push(0);
    }
    older[0] += 1;
    older.extend_from_slice(&[back, len]);
    older.extend_from_slice(octets);
    true
}

/// The packets that [`push_older`] put into `octets`.
#[must_use]
pub fn older(octets: &[u8]) -> Older<'_> {
    Older::split(octets).map_or(Older::default(), |(older, _)| older)
}
