//! HDM: a packet, and short packets that ride on it.

use std::fmt;

use super::{EXTRA, FLAG_REQUEST, FlowId, HEADER, Layout, Malformed, Seq, write_checksum};

/// The most older packets that one HDM carries along.
pub const MAX_OLDER: usize = 3;
/// How many numbers before its carrier an older packet may lie.
pub const MAX_BACK: u8 = 127;

const FLAG_BUNDLE: u8 = 0x10;
const FLAG_HOLE: u8 = 0x08;
const FLAG_PATIENT: u8 = 0x04;
const FLAG_REPEAT: u8 = 0x02;
const FLAG_OUTSTANDING: u8 = 0x01;

/// An HDM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data<'a> {
    /// The flow.
    pub flow: FlowId,
    /// This packet's number.
    pub seq: Seq,
    /// The number of this transmission, unless the packet's first.
    pub repeat: Option<Seq>,
    /// How many numbers back the sender's lowest outstanding packet is, where the receiver may not know.
    pub outstanding: Option<u16>,
    /// RACK: an acknowledgement is asked for at once.
    pub wants_ack: bool,
    /// Something before this packet will not come: it was refused, expired or given up.
    pub has_hole: bool,
    /// Its acknowledgement may wait for several round trips, as long as nothing is missing.
    pub is_patient: bool,
    /// The protocol of the data.
    pub protocol: u8,
    /// Packets before this one that have not been acknowledged, oldest first.
    pub older: Older<'a>,
    /// What the IP packet carried.
    pub payload: &'a [u8],
}

/// Short packets that ride on a later packet of their flow. The receiver sees each short packet with the later packet's
/// IP header and its own content.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Older<'a>(&'a [u8]);

impl<'a> Data<'a> {
    /// The packet `seq` of a flow, and nothing else to be said about it.
    #[must_use]
    pub fn new(flow: FlowId, seq: Seq, protocol: u8, payload: &'a [u8]) -> Self {
        Self {
            flow,
            seq,
            repeat: None,
            outstanding: None,
            wants_ack: false,
            has_hole: false,
            is_patient: false,
            protocol,
            older: Older::default(),
            payload,
        }
    }

    pub(crate) fn parse(
        [flags, protocol, f0, f1, _, _, n0, n1]: [u8; HEADER],
        mut rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let mut extra = |flag: u8| -> Result<Option<u16>, Malformed> {
            if flags & flag == 0 {
                return Ok(None);
            }
            let cut = Malformed::Truncated { have: rest.len(), want: EXTRA };
            let (number, after) = rest.split_first_chunk::<EXTRA>().ok_or(cut)?;
            rest = after;
            Ok(Some(u16::from_be_bytes(*number)))
        };
        let repeat = extra(FLAG_REPEAT)?.map(Seq);
        let outstanding = extra(FLAG_OUTSTANDING)?;
        let (older, payload) =
            if flags & FLAG_BUNDLE == 0 { (Older::default(), rest) } else { Older::split(rest)? };
        Ok(Self {
            repeat,
            outstanding,
            wants_ack: flags & FLAG_REQUEST != 0,
            has_hole: flags & FLAG_HOLE != 0,
            is_patient: flags & FLAG_PATIENT != 0,
            older,
            ..Self::new(flow(f0, f1), Seq(u16::from_be_bytes([n0, n1])), protocol, payload)
        })
    }

    pub(crate) fn parse_paper(
        [flags, seq, f0, f1, _, _, protocol, _]: [u8; HEADER],
        payload: &'a [u8],
    ) -> Self {
        let wants_ack = flags & FLAG_REQUEST != 0;
        Self { wants_ack, ..Self::new(flow(f0, f1), Seq(seq.into()), protocol, payload) }
    }

    /// Appends the message; the paper's has neither repeat, outstanding, flags nor older packets.
    pub fn emit(&self, layout: Layout, out: &mut Vec<u8>) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let request = flag(self.wants_ack, FLAG_REQUEST);
        let [f0, f1] = self.flow.0.to_be_bytes();
        let [n0, n1] = self.seq.0.to_be_bytes();
        let start = out.len();
        match layout {
            Layout::Paper => {
                out.extend_from_slice(&[request, n1, f0, f1, 0, 0, self.protocol, 0]);
            }
            Layout::Wide => {
                let flags = request
                    | flag(!self.older.is_empty(), FLAG_BUNDLE)
                    | flag(self.has_hole, FLAG_HOLE)
                    | flag(self.is_patient, FLAG_PATIENT)
                    | flag(self.repeat.is_some(), FLAG_REPEAT)
                    | flag(self.outstanding.is_some(), FLAG_OUTSTANDING);
                out.extend_from_slice(&[flags, self.protocol, f0, f1, 0, 0, n0, n1]);
                for extra in [self.repeat.map(|Seq(low)| low), self.outstanding] {
                    out.extend(extra.into_iter().flat_map(u16::to_be_bytes));
                }
                out.extend_from_slice(self.older.0);
            }
        }
        out.extend_from_slice(self.payload);
        write_checksum(&mut out[start..]);
    }
}

fn flow(high: u8, low: u8) -> FlowId {
    FlowId(u16::from_be_bytes([high, low]))
}

impl<'a> Older<'a> {
    /// Splits the older packets from the octets behind.
    fn split(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let cut = |want| Malformed::Truncated { have: octets.len(), want };
        let (&count, mut rest) = octets.split_first().ok_or(cut(1))?;
        if usize::from(count) > MAX_OLDER {
            return Err(Malformed::TooMany(count));
        }
        for _ in 0..count {
            let (&[back, len], after) = rest.split_first_chunk::<2>().ok_or(cut(3))?;
            if back == 0 || back > MAX_BACK {
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
    if usize::from(count) >= MAX_OLDER || back == 0 || back > MAX_BACK {
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
