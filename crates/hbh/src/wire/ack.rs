//! HAM: an acknowledgement.

use std::time::Duration;

use base::ip::protocol::{EXPERIMENT, NONE};

use super::{
    FLAG_ACK, FLAG_REQUEST, FlowId, HEADER, Layout, Malformed, RECOVERED, Seq, Transmission,
    write_checksum,
};

/// The most intervals in an acknowledgement.
pub const MAX_INTERVALS: usize = 63;
/// Octets of a HAM with an echo, before its intervals.
pub const ACK: usize = HEADER + COUNT + ECHO;
/// Octets of an interval.
pub const INTERVAL: usize = 2;

const INTERVALS: u8 = 0x3f;
/// The octet with the count of recovered packets.
const COUNT: usize = 1;
const ECHO: usize = 4;
const FLAG_ECHO: u8 = 0x80;
/// The echo names a repeat; without an echo: the flow is not known.
const FLAG_REPEAT: u8 = 0x40;
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
    /// The receiver does not know the flow, and has taken nothing of it; all else says nothing.
    pub is_unknown: bool,
    /// Packets that did not come by themselves, but by repairs or on later ones, modulo 64.
    pub recovered: u8,
    /// The transmission that arrived last; not where the flow is unknown.
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

/// Runs of packets that have arrived beyond the next expected one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Intervals<'a>(&'a [[u8; INTERVAL]]);

/// Octets that the acknowledgement at the beginning of `octets` announces.
pub fn len_of(layout: Layout, octets: &[u8]) -> Result<usize, Malformed> {
    let cut = |want| Malformed::Truncated { have: octets.len(), want };
    let &flags = octets.first().ok_or(cut(HEADER))?;
    let intervals = usize::from(flags & INTERVALS) * INTERVAL;
    match layout {
        Layout::Paper => Ok(HEADER + intervals),
        Layout::Wide => {
            let &count = octets.get(HEADER).ok_or(cut(HEADER + COUNT))?;
            let echo = if count & FLAG_ECHO == 0 { 0 } else { ECHO };
            Ok(HEADER + COUNT + echo + intervals)
        }
    }
}

impl<'a> Ack<'a> {
    /// Without any intervals yet.
    #[must_use]
    pub fn new(flow: FlowId, next: Seq) -> Self {
        Self {
            flow,
            next,
            is_congested: false,
            is_unknown: false,
            recovered: 0,
            echo: None,
            intervals: Intervals(&[]),
            is_followed: false,
        }
    }

    /// Reads the acknowledgement that fills `own`; `rest` follows it.
    pub(crate) fn parse(layout: Layout, own: &'a [u8], rest: &[u8]) -> Result<Self, Malformed> {
        let cut = Malformed::Truncated { have: own.len(), want: HEADER };
        let (&header, after) = own.split_first_chunk::<HEADER>().ok_or(cut)?;
        let [flags, a, f0, f1, _, _, b, c] = header;
        let (protocol, next, count, after) = match layout {
            Layout::Paper => (b, Seq(a.into()), 0, after),
            Layout::Wide => {
                let (&count, after) = after.split_first().ok_or(cut)?;
                (a, Seq(u16::from_be_bytes([b, c])), count, after)
            }
        };
        match protocol {
            EXPERIMENT if rest.is_empty() => {
                return Err(Malformed::Truncated { have: 0, want: HEADER });
            }
            EXPERIMENT => {}
            NONE if rest.is_empty() => {}
            NONE => return Err(Malformed::Trailing(rest.len())),
            _ => return Err(Malformed::Follower(protocol)),
        }
        let (echo, intervals) = match after.split_first_chunk::<ECHO>() {
            Some((echo, intervals)) if count & FLAG_ECHO != 0 => {
                (Some(Echo::parse(*echo, count & FLAG_REPEAT != 0)), intervals)
            }
            _ => (None, after),
        };

        Ok(Ack {
            flow: FlowId(u16::from_be_bytes([f0, f1])),
            next,
            is_congested: flags & FLAG_REQUEST != 0,
            is_unknown: count & (FLAG_ECHO | FLAG_REPEAT) == FLAG_REPEAT,
            recovered: count & (RECOVERED - 1),
            echo,
            intervals: Intervals(intervals.as_chunks::<INTERVAL>().0),
            is_followed: protocol == EXPERIMENT,
        })
    }

    /// Appends the message; at most [`MAX_INTERVALS`] of its intervals are written.
    pub fn emit(&self, layout: Layout, out: &mut Vec<u8>) {
        let start = out.len();
        let [f0, f1] = self.flow.0.to_be_bytes();
        let [n0, n1] = self.next.0.to_be_bytes();
        let follower = if self.is_followed { EXPERIMENT } else { NONE };
        let intervals = &self.intervals.0[..self.intervals.0.len().min(MAX_INTERVALS)];
        let count = u8::try_from(intervals.len()).expect("at most 63");
        let congested = if self.is_congested { FLAG_REQUEST } else { 0 };
        let flags = FLAG_ACK | congested | count;
        match layout {
            Layout::Paper => out.extend_from_slice(&[flags, n1, f0, f1, 0, 0, follower, 0]),
            Layout::Wide => {
                let kind = match self.echo {
                    Some(Echo { of: Transmission::First(_), .. }) => FLAG_ECHO,
                    Some(Echo { of: Transmission::Repeat(_), .. }) => FLAG_ECHO | FLAG_REPEAT,
                    None if self.is_unknown => FLAG_REPEAT,
                    None => 0,
                };
                let count = kind | self.recovered & (RECOVERED - 1);
                out.extend_from_slice(&[flags, follower, f0, f1, 0, 0, n0, n1, count]);
                if let Some(echo) = self.echo {
                    out.extend_from_slice(&echo.emit());
                }
            }
        }
        out.extend_from_slice(intervals.as_flattened());
        write_checksum(&mut out[start..]);
    }

    /// The runs that have arrived beyond the number `next`: from the first up to, and without, the second.
    pub fn arrived(&self, layout: Layout, next: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut end = next;
        self.intervals.0.iter().filter_map(move |&[a, b]| match layout {
            Layout::Paper => {
                let [first, last] = [a, b].map(|low| layout.complete(Seq(low.into()), next));
                Some((first, last + 1))
            }
            Layout::Wide => {
                let first = end + u64::from(a);
                end = first + u64::from(b);
                (b > 0).then_some((first, end))
            }
        })
    }
}

impl Echo {
    fn parse([n0, n1, d0, d1]: [u8; ECHO], is_repeat: bool) -> Self {
        let units = u16::from_be_bytes([d0, d1]);
        let delay = (units < u16::MAX).then(|| DELAY_UNIT * u32::from(units));
        let name = Seq(u16::from_be_bytes([n0, n1]));
        let of = if is_repeat { Transmission::Repeat(name) } else { Transmission::First(name) };
        Self { of, delay }
    }

    fn emit(self) -> [u8; ECHO] {
        let units = self.delay.map_or(u128::MAX, |delay| delay.as_nanos() / DELAY_UNIT.as_nanos());
        let [d0, d1] = u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes();
        let (Transmission::First(name) | Transmission::Repeat(name)) = self.of;
        let [n0, n1] = name.0.to_be_bytes();
        [n0, n1, d0, d1]
    }
}

impl<'a> Intervals<'a> {
    /// The intervals that [`write`](Self::write) made.
    #[must_use]
    pub fn new(intervals: &'a [[u8; INTERVAL]]) -> Self {
        Self(intervals)
    }

    /// Writes runs as intervals behind `next`, until the acknowledgement is full. A run goes from its first number up
    /// to, and without, the second.
    ///
    /// In the wide layout an interval is the numbers that are missing, then the numbers that have
    /// arrived, 255 of each at most.
    pub fn write(
        layout: Layout,
        next: u64,
        runs: impl IntoIterator<Item = (u64, u64)>,
        out: &mut Vec<[u8; INTERVAL]>,
    ) {
        out.clear();
        let mut end = next;
        for (first, past) in runs {
            if layout == Layout::Paper {
                let low = |number| layout.low(number).0.to_le_bytes()[0];
                out.push([low(first), low(past - 1)]);
                continue;
            }
            let (mut missing, mut arrived) = (first - end, past - first);
            while arrived > 0 && out.len() < MAX_INTERVALS {
                let gap = u8::try_from(missing).unwrap_or(u8::MAX);
                missing -= u64::from(gap);
                let run = if missing > 0 { 0 } else { u8::try_from(arrived).unwrap_or(u8::MAX) };
                arrived -= u64::from(run);
                out.push([gap, run]);
            }
            end = past;
        }
        out.truncate(MAX_INTERVALS);
    }

    /// How many intervals there are.
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
