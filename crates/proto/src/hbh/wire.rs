//! The HBH header, version 1.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-+-+-----------+---------------+-------------------------------+
//!  |T|Q|OptionValue|     SeqNb     |            FlowID             |  T  0 HDM (data), 1 HAM (ack)
//!  +-+-+-----------+---------------+---------------+---------------+  Q  RACK in HDM, HCN in HAM
//!  |            checksum           |   OrigProto   |   Reserved    |
//!  +-------------------------------+---------------+---------------+
//!
//!            HDM                                     HAM
//!  Option    lowest outstanding, low 6 bits          number of SACK intervals
//!  SeqNb     this packet                             the next packet expected
//!  OrigProto protocol of the data                    59 nothing follows, 253 another message does
//!  Reserved  budget (4) | outstanding high bit (1)   echo (1) | clear (1) | 0 (6)
//!            | copy (3)
//!  then      data                                    [echo: seq, copy, delay (2)] intervals (2 each)
//! ```
//!
//! The seed's profile leaves its reserved bits, and the option value of an HDM, at zero. Several
//! messages may stand in one packet: acknowledgements first, at most one HDM last.

use std::fmt;
use std::time::Duration;

use crate::ip::Checksum;
use crate::ip::protocol::{EXPERIMENT, NONE};

/// Octets of the header.
pub const HEADER: usize = 8;
/// The most intervals that one acknowledgement holds.
pub const MAX_INTERVALS: usize = 63;
/// The most packets between the lowest outstanding one and any other.
pub const MAX_SPAN: u8 = 127;
/// The most retries that a budget can say.
pub const MAX_BUDGET: u8 = 15;
/// Copies of a packet are told apart modulo this.
pub const COPIES: u8 = 8;

/// OrigProto of an HDM that is a repair: its data is a sum of packets, not one of them.
pub const REPAIR: u8 = 255;

const ECHO: usize = 4;
const INTERVAL: usize = 2;
const FLAG_ACK: u8 = 0x80;
const FLAG_REQUEST: u8 = 0x40;
const OPTION: u8 = 0x3f;
const FLAG_ECHO: u8 = 0x80;
const FLAG_CLEAR: u8 = 0x40;
/// Unit of the delay in an echo.
const DELAY_UNIT: Duration = Duration::from_micros(16);

/// The number of a packet within its flow and hop. Its order is circular, so it has no `Ord`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Seq(pub u8);

impl Seq {
    /// How far `self` lies after `other`; negative when it lies before.
    #[must_use]
    pub fn since(self, other: Self) -> i8 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// The number `n` packets later.
    #[must_use]
    pub fn plus(self, n: u8) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The number `n` packets earlier.
    #[must_use]
    pub fn minus(self, n: u8) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

/// A flow on one hop, numbered by its sender.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowId(pub u16);

/// One HBH message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message<'a> {
    /// HAM, an acknowledgement.
    Ack(Ack<'a>),
    /// HDM, a packet.
    Data(Data<'a>),
}

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
    /// Retries left for the rest of the path, 0 to 15.
    pub budget: u8,
    /// Which transmission of this packet it is, 0 to 7 and round again.
    pub copy: u8,
    /// The protocol of the data.
    pub protocol: u8,
    /// What the IP packet carried.
    pub payload: &'a [u8],
}

/// A HAM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The lowest number that has not arrived and may still come.
    pub next: Seq,
    /// HCN: packets come in faster than they go out.
    pub is_congested: bool,
    /// Congestion is over.
    pub is_clear: bool,
    /// The transmission that arrived last.
    pub echo: Option<Echo>,
    /// What has arrived beyond `next`.
    pub intervals: Intervals<'a>,
}

/// Which transmission reached the receiver last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Echo {
    /// The packet.
    pub seq: Seq,
    /// Which transmission of it.
    pub copy: u8,
    /// How long it lay there before this was written; `None` above a second.
    pub delay: Option<Duration>,
}

/// Runs of packets that have arrived, both ends included.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Intervals<'a>(&'a [[u8; INTERVAL]]);

impl Intervals<'_> {
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

/// Why octets are not HBH.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum does not match.
    #[error("wrong HBH checksum")]
    Checksum,
    /// What follows an acknowledgement is neither nothing nor a message.
    #[error("protocol {0} cannot follow an acknowledgement")]
    Follower(u8),
    /// There are too few octets.
    #[error("{have} octets, {want} needed")]
    Truncated {
        /// What is there.
        have: usize,
        /// What the header, or what it announces, takes.
        want: usize,
    },
    /// There are octets that nothing announced.
    #[error("{0} octets too many")]
    Trailing(usize),
}

impl<'a> Message<'a> {
    /// Reads the first message of `octets`, and returns it with the octets of those after it.
    ///
    /// # Errors
    /// When it is cut, damaged, or followed by what cannot be.
    pub fn parse(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let Some((&[flags, seq, f0, f1, _, _, protocol, reserved], rest)) =
            octets.split_first_chunk::<HEADER>()
        else {
            return Err(Malformed::Truncated { have: octets.len(), want: HEADER });
        };
        let flow = FlowId(u16::from_be_bytes([f0, f1]));
        let seq = Seq(seq);
        let option = flags & OPTION;

        if flags & FLAG_ACK == 0 {
            if Checksum::default().with(octets).finish() != 0 {
                return Err(Malformed::Checksum);
            }
            let data = Data {
                flow,
                seq,
                wants_ack: flags & FLAG_REQUEST != 0,
                outstanding: option | (reserved & 0x08) << 3,
                budget: reserved >> 4,
                copy: reserved & (COPIES - 1),
                protocol,
                payload: rest,
            };
            return Ok((Self::Data(data), &[]));
        }

        let echo = if reserved & FLAG_ECHO == 0 { 0 } else { ECHO };
        let want = HEADER + echo + usize::from(option) * INTERVAL;
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
            flow,
            next: seq,
            is_congested: flags & FLAG_REQUEST != 0,
            is_clear: reserved & FLAG_CLEAR != 0,
            echo: own[HEADER..HEADER + echo].first_chunk::<ECHO>().map(Echo::parse),
            intervals: Intervals(own[HEADER + echo..].as_chunks::<INTERVAL>().0),
        };
        Ok((Self::Ack(ack), rest))
    }
}

impl Echo {
    fn parse(&[seq, copy, d0, d1]: &[u8; ECHO]) -> Self {
        let units = u16::from_be_bytes([d0, d1]);
        let delay = (units < u16::MAX).then(|| DELAY_UNIT * u32::from(units));
        Self { seq: Seq(seq), copy: copy & (COPIES - 1), delay }
    }

    fn emit(self) -> [u8; ECHO] {
        let units = self.delay.map_or(u128::MAX, |delay| delay.as_nanos() / DELAY_UNIT.as_nanos());
        let [d0, d1] = u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes();
        [self.seq.0, self.copy, d0, d1]
    }
}

impl Data<'_> {
    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        debug_assert!(self.outstanding <= MAX_SPAN && self.budget <= MAX_BUDGET, "in range");
        let request = if self.wants_ack { FLAG_REQUEST } else { 0 };
        let [f0, f1] = self.flow.0.to_be_bytes();
        let reserved = self.budget << 4 | (self.outstanding & 0x40) >> 3 | self.copy & (COPIES - 1);
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
        out.extend_from_slice(self.payload);
        write_checksum(&mut out[start..]);
    }
}

/// Appends a HAM; at most [`MAX_INTERVALS`] of the intervals are written.
///
/// `is_followed`: another message comes after it in the same packet.
pub fn emit_ack(
    ack: &Ack<'_>,
    intervals: impl Iterator<Item = (Seq, Seq)>,
    is_followed: bool,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let [f0, f1] = ack.flow.0.to_be_bytes();
    let follower = if is_followed { EXPERIMENT } else { NONE };
    let reserved =
        if ack.echo.is_some() { FLAG_ECHO } else { 0 } | if ack.is_clear { FLAG_CLEAR } else { 0 };
    out.extend_from_slice(&[0, ack.next.0, f0, f1, 0, 0, follower, reserved]);
    if let Some(echo) = ack.echo {
        out.extend_from_slice(&echo.emit());
    }
    let mut count = 0;
    for (first, last) in intervals.take(MAX_INTERVALS) {
        out.extend_from_slice(&[first.0, last.0]);
        count += 1;
    }
    out[start] = FLAG_ACK | if ack.is_congested { FLAG_REQUEST } else { 0 } | count;
    write_checksum(&mut out[start..]);
}

impl<'a> Ack<'a> {
    /// Without any intervals yet.
    #[must_use]
    pub fn new(flow: FlowId, next: Seq) -> Self {
        Self {
            flow,
            next,
            is_congested: false,
            is_clear: false,
            echo: None,
            intervals: Intervals(&[]),
        }
    }
}

fn write_checksum(message: &mut [u8]) {
    message[4..6].fill(0);
    let sum = Checksum::default().with(message).finish();
    message[4..6].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_hdm_is_these_octets() {
        let data = Data {
            flow: FlowId(0x1234),
            seq: Seq(200),
            wants_ack: true,
            outstanding: 70,
            budget: 9,
            copy: 2,
            protocol: 6,
            payload: &[0xaa, 0xbb],
        };
        let mut out = Vec::new();

        data.emit(&mut out);

        // 0x40 RACK | 70 & 0x3f; 9 << 4 | 1 << 3 | 2
        assert_eq!(out, [0x46, 200, 0x12, 0x34, 0xf5, 0xad, 6, 0x9a, 0xaa, 0xbb]);
        assert_eq!(Message::parse(&out), Ok((Message::Data(data), &[][..])));
    }

    #[test]
    fn a_ham_with_an_echo_and_two_intervals_is_these_octets() {
        let echo = Echo { seq: Seq(9), copy: 1, delay: Some(Duration::from_micros(32)) };
        let ack = Ack { is_congested: true, echo: Some(echo), ..Ack::new(FlowId(1), Seq(5)) };
        let runs = [(Seq(7), Seq(7)), (Seq(9), Seq(10))];
        let mut out = Vec::new();

        emit_ack(&ack, runs.into_iter(), false, &mut out);

        assert_eq!(out[..4], [0xc2, 5, 0, 1]);
        assert_eq!(out[6..], [59, 0x80, 9, 1, 0, 2, 7, 7, 9, 10]);
        let Ok((Message::Ack(read), [])) = Message::parse(&out) else { panic!("a HAM alone") };
        assert_eq!(read.echo, Some(echo));
        assert_eq!(read.intervals.iter().collect::<Vec<_>>(), runs);
    }

    #[test]
    fn messages_follow_each_other_in_one_packet() {
        let mut out = Vec::new();
        emit_ack(&Ack::new(FlowId(1), Seq(5)), std::iter::empty(), true, &mut out);
        let data = Data {
            flow: FlowId(2),
            seq: Seq(0),
            wants_ack: false,
            outstanding: 0,
            budget: 0,
            copy: 0,
            protocol: 17,
            payload: &[],
        };
        data.emit(&mut out);

        let (first, rest) = Message::parse(&out).unwrap();
        let (second, rest) = Message::parse(rest).unwrap();

        assert_eq!(first, Message::Ack(Ack::new(FlowId(1), Seq(5))));
        assert_eq!(second, Message::Data(data));
        assert!(rest.is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let mut ham = Vec::new();
        emit_ack(&Ack::new(FlowId(1), Seq(5)), std::iter::empty(), false, &mut ham);
        let followed_by = |protocol: u8| {
            let mut octets = ham.clone();
            octets[6] = protocol;
            write_checksum(&mut octets);
            octets
        };

        let cases = [
            (ham[..7].to_vec(), Malformed::Truncated { have: 7, want: 8 }),
            ([&ham[..], &[0]].concat(), Malformed::Trailing(1)),
            (followed_by(6), Malformed::Follower(6)),
            (followed_by(253), Malformed::Truncated { have: 0, want: 8 }),
            ([&[0x81], &ham[1..]].concat(), Malformed::Truncated { have: 8, want: 10 }),
            ([&[0xc0], &ham[1..]].concat(), Malformed::Checksum),
        ];

        for (octets, reason) in cases {
            assert_eq!(Message::parse(&octets), Err(reason), "{octets:02x?}");
        }
    }

    proptest! {
        #[test]
        fn an_hdm_comes_back_as_it_went(
            (flow, seq, wants_ack) in any::<(u16, u8, bool)>(),
            (outstanding, budget, copy) in (0..=MAX_SPAN, 0..=MAX_BUDGET, 0..COPIES),
            (protocol, payload) in (any::<u8>(), prop::collection::vec(any::<u8>(), 0..99)),
        ) {
            let data = Data {
                flow: FlowId(flow),
                seq: Seq(seq),
                wants_ack,
                outstanding,
                budget,
                copy,
                protocol,
                payload: &payload,
            };
            let mut out = Vec::new();
            data.emit(&mut out);

            prop_assert_eq!(Message::parse(&out), Ok((Message::Data(data), &[][..])));
        }

        #[test]
        fn no_octets_make_the_parser_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &octets[..];
            while let Ok((_, after)) = Message::parse(rest) {
                prop_assert!(after.len() < rest.len());
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0_usize..18 * 8) {
            let data = Data {
                flow: FlowId(7),
                seq: Seq(3),
                wants_ack: false,
                outstanding: 3,
                budget: 4,
                copy: 0,
                protocol: 6,
                payload: &[5; 10],
            };
            let mut out = Vec::new();
            data.emit(&mut out);
            out[bit / 8] ^= 1 << (bit % 8);

            prop_assert!(Message::parse(&out).is_err());
        }
    }
}
