//! HAM: an acknowledgement.

use std::fmt;
use std::time::Duration;

use base::ip::Checksum;
use base::ip::protocol::{EXPERIMENT, NONE};

use super::{
    COPIES, FLAG_ACK, FLAG_REQUEST, FlowId, HEADER, Malformed, OPTION, RECOVERED, REPAIRS, Seq,
    write_checksum,
};

/// The most intervals in an acknowledgement.
pub const MAX_INTERVALS: usize = 63;
/// Octets of a HAM with an echo, before its intervals.
pub const ACK: usize = HEADER + ECHO;
/// Octets of an interval.
pub const INTERVAL: usize = 2;

const ECHO: usize = 4;
const FLAG_ECHO: u8 = 0x80;
/// In the copy octet of an echo: it names a repair.
const ECHO_OF_REPAIR: u8 = 0x80;
/// Unit of the delay in an echo.
const DELAY_UNIT: Duration = Duration::from_micros(16);

/// A HAM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The lowest number that has not arrived and may still come.
    pub next: Seq,
    /// HCN: packets come in faster than they go out.
    pub is_congested: bool,
    /// Packets that did not come by themselves, but by repairs or on later ones, modulo 64.
    pub recovered: u8,
    /// The transmission that arrived last.
    pub echo: Option<Echo>,
    /// What has arrived beyond `next`.
    pub intervals: Intervals<'a>,
    /// Whether another message comes after it in the same packet.
    pub is_followed: bool,
}

/// Which transmission reached the receiver last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Echo {
    /// The transmission.
    pub of: Transmission,
    /// How long the transmission lay at the receiver before this was written; `None` above a
    /// second.
    pub delay: Option<Duration>,
}

/// Something that was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transmission {
    /// A packet.
    Packet {
        /// Its number.
        seq: Seq,
        /// Which transmission of it.
        copy: u8,
    },
    /// A repair.
    Repair {
        /// Its number.
        id: u8,
    },
}

/// Runs of packets that have arrived, both ends included.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Intervals<'a>(&'a [[u8; INTERVAL]]);

impl<'a> Ack<'a> {
    /// Without any intervals yet.
    #[must_use]
    pub fn new(flow: FlowId, next: Seq) -> Self {
        Self {
            flow,
            next,
            is_congested: false,
            recovered: 0,
            echo: None,
            intervals: Intervals(&[]),
            is_followed: false,
        }
    }

    pub(super) fn split_first(
        [flags, seq, f0, f1, _, _, protocol, reserved]: [u8; HEADER],
        octets: &'a [u8],
    ) -> Result<(Self, &'a [u8]), Malformed> {
        let echo = if reserved & FLAG_ECHO == 0 { 0 } else { ECHO };
        let want = HEADER + echo + usize::from(flags & OPTION) * INTERVAL;
        let Some((own, rest)) = octets.split_at_checked(want) else {
            return Err(Malformed::Truncated { have: octets.len(), want });
        };
        if Checksum::default().with(own).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        match protocol {
            EXPERIMENT if rest.is_empty() => {
                return Err(Malformed::Truncated { have: 0, want: HEADER });
            }
            EXPERIMENT => {}
            NONE if rest.is_empty() => {}
            NONE => return Err(Malformed::Trailing(rest.len())),
            _ => return Err(Malformed::Follower(protocol)),
        }

        let ack = Ack {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            next: Seq(seq),
            is_congested: flags & FLAG_REQUEST != 0,
            recovered: reserved & (RECOVERED - 1),
            echo: own[HEADER..HEADER + echo].first_chunk::<ECHO>().map(Echo::parse),
            intervals: Intervals(own[HEADER + echo..].as_chunks::<INTERVAL>().0),
            is_followed: protocol == EXPERIMENT,
        };
        Ok((ack, rest))
    }

    /// Appends the message; at most [`MAX_INTERVALS`] of its intervals are written.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let [f0, f1] = self.flow.0.to_be_bytes();
        let follower = if self.is_followed { EXPERIMENT } else { NONE };
        let echo = if self.echo.is_some() { FLAG_ECHO } else { 0 };
        let reserved = echo | self.recovered & (RECOVERED - 1);
        let intervals = &self.intervals.0[..self.intervals.0.len().min(MAX_INTERVALS)];
        let count = u8::try_from(intervals.len()).expect("at most 63");
        let congested = if self.is_congested { FLAG_REQUEST } else { 0 };
        let flags = FLAG_ACK | congested | count;
        out.extend_from_slice(&[flags, self.next.0, f0, f1, 0, 0, follower, reserved]);
        if let Some(echo) = self.echo {
            out.extend_from_slice(&echo.emit());
        }
        out.extend_from_slice(intervals.as_flattened());
        write_checksum(&mut out[start..]);
    }
}

impl Echo {
    fn parse(&[number, copy, d0, d1]: &[u8; ECHO]) -> Self {
        let units = u16::from_be_bytes([d0, d1]);
        let delay = (units < u16::MAX).then(|| DELAY_UNIT * u32::from(units));
        let of = if copy & ECHO_OF_REPAIR == 0 {
            Transmission::Packet { seq: Seq(number), copy: copy & (COPIES - 1) }
        } else {
            Transmission::Repair { id: number & (REPAIRS - 1) }
        };
        Self { of, delay }
    }

    fn emit(self) -> [u8; ECHO] {
        let units = self.delay.map_or(u128::MAX, |delay| delay.as_nanos() / DELAY_UNIT.as_nanos());
        let [d0, d1] = u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes();
        match self.of {
            Transmission::Packet { seq, copy } => [seq.0, copy, d0, d1],
            Transmission::Repair { id } => [id, ECHO_OF_REPAIR, d0, d1],
        }
    }
}

impl<'a> Intervals<'a> {
    /// Runs as pairs of their first and last numbers.
    #[must_use]
    pub fn new(runs: &'a [[u8; INTERVAL]]) -> Self {
        Self(runs)
    }

    /// The runs as (first, last).
    pub fn iter(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.0.iter().map(|&[first, last]| (Seq(first), Seq(last)))
    }
}

impl fmt::Debug for Intervals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0).finish()
    }
}
