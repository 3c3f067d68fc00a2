//! What goes between gateways: five kinds of datagrams.
//!
//! ```text
//!        0      1       4       8
//!       +------+-------+-------+---------------+--------+
//!  data |path,3| index | number| sealed payload|  tag   |      high 4 bits the path; index of the receiver's
//!       +------+-------+-------+---------------+--------+      session, low 32 bits of the number
//!  keepalive 5   index   number                   tag          counted on its own
//!
//!       +------+-------+----------------------------------+-------+-------+
//!  call |  1   | sender|  Noise: e 32, s 48, payload 40   | mac1  | mac2  |   156 octets
//!       +------+-------+------+---+-----------------------+-------+-------+
//!  answer  2   | index | sender 3, 0 |  Noise: e 32, payload 40  | mac1  |    96 octets
//!       +------+-------+-------------+-------------------+--------+-------+
//!  cookie  4   | index |   nonce 24  | sealed cookie 16  |  tag   |            60 octets
//!       +------+-------+-------------+-------------------+--------+
//! ```
//! Indexes are 3 octets, macs, tags and cookies 16; all numbers in network order. The payloads:
//!
//! ```text
//!  call    timestamp 8 (ns since 1970) | incarnation 8 | next number 8
//!  answer  verdict 1, 0 × 7            | incarnation 8 | next number 8    verdict 0: taken
//!                                                      | timestamp 8              1: stale
//! ```

use base::ip::{V4_HEADER, V6_HEADER, udp};

use super::Incarnation;
use super::noise::{INITIATION, PAYLOAD, RESPONSE};
use super::secret::TAG;
use crate::PathId;

/// Octets in front of a sealed payload.
pub const HEADER: usize = 8;
/// Octets that sealing adds.
pub const OVERHEAD: usize = HEADER + TAG;
/// Octets around a payload in an outer packet of IPv4: IP, UDP, our header, the tag.
pub const OUTER_V4: usize = V4_HEADER + udp::HEADER + OVERHEAD;
/// Octets around a payload in an outer packet of IPv6.
pub const OUTER_V6: usize = V6_HEADER + udp::HEADER + OVERHEAD;
/// Octets of a call.
pub const CALL: usize = 4 + INITIATION + 2 * MAC;
/// Octets of an answer.
pub const ANSWER: usize = 8 + RESPONSE + MAC;
/// Octets of a cookie.
pub const COOKIE: usize = 4 + NONCE + MAC + TAG;

pub(crate) const MAC: usize = 16;
pub(crate) const NONCE: usize = 24;

const KIND_CALL: u8 = 1;
const KIND_ANSWER: u8 = 2;
const KIND_DATA: u8 = 3;
const KIND_COOKIE: u8 = 4;
const KIND_KEEPALIVE: u8 = 5;

/// Timestamps from here on are refused: a peer that said such a thing could not say more.
const END_OF_TIME: u64 = 1 << 63;

/// A session's or a handshake's number at the side that receives: 24 bits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Index(u32);

/// A datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Datagram<'a> {
    /// The answer to a call.
    Answer(Answer<'a>),
    /// The first message of a handshake.
    Call(Call<'a>),
    /// "We are busy: call again with this."
    Cookie(Cookie<'a>),
    /// A sealed payload.
    Data(Sealed),
    /// A sealed nothing.
    Keepalive(Sealed),
}

/// The header of a sealed datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// The receiver's session.
    pub index: Index,
    /// The low 32 bits of the number.
    pub low: u32,
    /// The path of data; the first one of keepalives.
    pub path: PathId,
}

/// The first message of a handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call<'a> {
    /// Where the answer belongs.
    pub sender: Index,
    /// The message of Noise.
    pub noise: &'a [u8; INITIATION],
    /// Shows that the caller knows our public key.
    pub mac1: &'a [u8; MAC],
    /// Shows that the caller receives at its address.
    pub mac2: &'a [u8; MAC],
    /// What `mac1` covers.
    pub before_mac1: &'a [u8],
    /// What `mac2` covers.
    pub before_mac2: &'a [u8],
}

/// The second message of a handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer<'a> {
    /// The caller's handshake.
    pub index: Index,
    /// The answerer's session.
    pub sender: Index,
    /// The message of Noise.
    pub noise: &'a [u8; RESPONSE],
    /// Shows that the answerer knows our public key.
    pub mac1: &'a [u8; MAC],
    /// What `mac1` covers.
    pub before_mac1: &'a [u8],
}

/// What a busy gateway answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cookie<'a> {
    /// The caller's handshake.
    pub index: Index,
    /// The nonce of the seal.
    pub nonce: &'a [u8; NONCE],
    /// The cookie and its tag.
    pub sealed: &'a [u8; MAC + TAG],
}

/// Why octets are no datagram of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The kind of message is unknown.
    #[error("unknown kind {0:#04x}")]
    Kind(u8),
    /// The length is not the length of the message's kind.
    #[error("{have} octets are not what a datagram of kind {kind} has")]
    Length {
        /// The kind.
        kind: u8,
        /// What there is.
        have: usize,
    },
    /// Nothing at all.
    #[error("an empty datagram")]
    Nothing,
}

impl Index {
    const MASK: u32 = 0xff_ffff;

    /// The index with these low 24 bits.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        Self(bits & Self::MASK)
    }

    /// Its 24 bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    fn octets(self) -> [u8; 3] {
        let [_, octets @ ..] = self.0.to_be_bytes();
        octets
    }
}

impl From<[u8; 3]> for Index {
    fn from([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
    }
}

impl<'a> Datagram<'a> {
    /// Reads the datagram that fills `octets`. What is sealed may still be anyone's.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let &[first, ..] = octets else { return Err(Malformed::Nothing) };
        let (kind, path) = match first & 0x0f {
            KIND_DATA => (KIND_DATA, PathId::new(usize::from(first >> 4))),
            _ => (first, Some(PathId::FIRST)),
        };
        let path = path.ok_or(Malformed::Kind(first))?;
        let read = match kind {
            KIND_CALL => Call::read(octets).map(Self::Call),
            KIND_ANSWER => Answer::read(octets).map(Self::Answer),
            KIND_DATA => Sealed::read(octets).map(|sealed| Self::Data(Sealed { path, ..sealed })),
            KIND_COOKIE => Cookie::read(octets).map(Self::Cookie),
            KIND_KEEPALIVE if octets.len() == HEADER + TAG => {
                Sealed::read(octets).map(Self::Keepalive)
            }
            KIND_KEEPALIVE => None,
            _ => return Err(Malformed::Kind(kind)),
        };
        read.ok_or(Malformed::Length { kind, have: octets.len() })
    }

    /// Whether it belongs to a handshake.
    #[must_use]
    pub fn is_handshake(&self) -> bool {
        matches!(self, Self::Call(_) | Self::Answer(_) | Self::Cookie(_))
    }
}

impl Sealed {
    fn read(octets: &[u8]) -> Option<Self> {
        let (&[_, a, b, c, d, e, f, g], sealed) = octets.split_first_chunk::<HEADER>()?;
        let low = u32::from_be_bytes([d, e, f, g]);
        let (index, path) = ([a, b, c].into(), PathId::FIRST);
        (sealed.len() >= TAG).then_some(Self { index, low, path })
    }

    pub(crate) fn data(self) -> [u8; HEADER] {
        let path = u8::try_from(self.path.index()).unwrap_or(0);
        self.header(path << 4 | KIND_DATA)
    }

    pub(crate) fn keepalive(self) -> [u8; HEADER] {
        self.header(KIND_KEEPALIVE)
    }

    fn header(self, kind: u8) -> [u8; HEADER] {
        let [a, b, c] = self.index.octets();
        let [d, e, f, g] = self.low.to_be_bytes();
        [kind, a, b, c, d, e, f, g]
    }
}

impl<'a> Call<'a> {
    fn read(octets: &'a [u8]) -> Option<Self> {
        let octets: &[u8; CALL] = octets.try_into().ok()?;
        let (&[_, a, b, c], rest) = octets.split_first_chunk()?;
        let (noise, rest) = rest.split_first_chunk()?;
        let (mac1, rest) = rest.split_first_chunk()?;
        Some(Self {
            sender: [a, b, c].into(),
            noise,
            mac1,
            mac2: rest.try_into().ok()?,
            before_mac1: &octets[..CALL - 2 * MAC],
            before_mac2: &octets[..CALL - MAC],
        })
    }

    /// A call without its macs.
    pub(crate) fn begin(sender: Index, noise: &[u8; INITIATION]) -> Vec<u8> {
        let [a, b, c] = sender.octets();
        let mut out = Vec::with_capacity(CALL);
        out.extend_from_slice(&[KIND_CALL, a, b, c]);
        out.extend_from_slice(noise);
        out
    }
}

impl<'a> Answer<'a> {
    fn read(octets: &'a [u8]) -> Option<Self> {
        let octets: &[u8; ANSWER] = octets.try_into().ok()?;
        let (&[_, a, b, c, d, e, f, _], rest) = octets.split_first_chunk()?;
        let (noise, rest) = rest.split_first_chunk()?;
        Some(Self {
            index: [a, b, c].into(),
            sender: [d, e, f].into(),
            noise,
            mac1: rest.try_into().ok()?,
            before_mac1: &octets[..ANSWER - MAC],
        })
    }

    /// An answer without its mac.
    pub(crate) fn begin(index: Index, sender: Index, noise: &[u8; RESPONSE]) -> Vec<u8> {
        let ([a, b, c], [d, e, f]) = (index.octets(), sender.octets());
        let mut out = Vec::with_capacity(ANSWER);
        out.extend_from_slice(&[KIND_ANSWER, a, b, c, d, e, f, 0]);
        out.extend_from_slice(noise);
        out
    }
}

impl<'a> Cookie<'a> {
    fn read(octets: &'a [u8]) -> Option<Self> {
        let (&[_, a, b, c], rest) = octets.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        Some(Self { index: [a, b, c].into(), nonce, sealed: rest.try_into().ok()? })
    }

    pub(crate) fn emit(self) -> Vec<u8> {
        let [a, b, c] = self.index.octets();
        let mut out = Vec::with_capacity(COOKIE);
        out.extend_from_slice(&[KIND_COOKIE, a, b, c]);
        out.extend_from_slice(self.nonce);
        out.extend_from_slice(self.sealed);
        out
    }
}

/// What a caller says under the seal of the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hello {
    /// Greater in each call of this caller, in nanoseconds since 1970 where its clock is right.
    pub timestamp: u64,
    pub incarnation: Incarnation,
    /// The number of the caller's next datagram.
    pub next_number: u64,
}

/// What the called one says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// The call is taken.
    Taken { incarnation: Incarnation, next_number: u64 },
    /// The call's timestamp is not later than this timestamp, which came before.
    Stale { timestamp: u64 },
}

const VERDICT_TAKEN: u64 = 0;
const VERDICT_STALE: u64 = 1 << 56;

impl Hello {
    pub(crate) fn parse(payload: [u8; PAYLOAD]) -> Option<Self> {
        let [timestamp, incarnation, next_number] = words(payload);
        (timestamp < END_OF_TIME && next_number < END_OF_TIME).then_some(Self {
            timestamp,
            incarnation: Incarnation(incarnation),
            next_number,
        })
    }

    pub(crate) fn emit(self) -> [u8; PAYLOAD] {
        octets([self.timestamp, self.incarnation.0, self.next_number])
    }
}

impl Reply {
    pub(crate) fn parse(payload: [u8; PAYLOAD]) -> Option<Self> {
        match words(payload) {
            [_, _, number] if number >= END_OF_TIME => None,
            [VERDICT_TAKEN, incarnation, next_number] => {
                Some(Self::Taken { incarnation: Incarnation(incarnation), next_number })
            }
            [VERDICT_STALE, 0, timestamp] => Some(Self::Stale { timestamp }),
            _ => None,
        }
    }

    pub(crate) fn emit(self) -> [u8; PAYLOAD] {
        octets(match self {
            Self::Taken { incarnation, next_number } => [VERDICT_TAKEN, incarnation.0, next_number],
            Self::Stale { timestamp } => [VERDICT_STALE, 0, timestamp],
        })
    }
}

fn words(payload: [u8; PAYLOAD]) -> [u64; 3] {
    let (words, _) = payload.as_chunks::<8>();
    [0, 1, 2].map(|at| u64::from_be_bytes(words[at]))
}

fn octets(words: [u64; 3]) -> [u8; PAYLOAD] {
    let mut payload = [0; PAYLOAD];
    for (octets, word) in payload.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *octets = word.to_be_bytes();
    }
    payload
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_octets_are_as_drawn() {
        let path = PathId::FIRST;
        let sealed = Sealed { index: Index::new(0x01_0203), low: 0x0405_0607, path };
        let third = Sealed { path: PathId::new(2).unwrap(), ..sealed };
        assert_eq!(sealed.data(), [3, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(third.data(), [0x23, 1, 2, 3, 4, 5, 6, 7]);
        let data = [&third.data()[..], &[9; TAG]].concat();
        assert_eq!(Datagram::parse(&data), Ok(Datagram::Data(third)));
        assert_eq!(Datagram::parse(&[0x43; 40]), Err(Malformed::Kind(0x43)), "no such path");
        assert_eq!(sealed.keepalive(), [5, 1, 2, 3, 4, 5, 6, 7]);
        let data = [&[3, 1, 2, 3, 4, 5, 6, 7], &[9; TAG][..]].concat();
        assert_eq!(Datagram::parse(&data), Ok(Datagram::Data(sealed)));
        assert!(!Datagram::Data(sealed).is_handshake());

        let mut call = Call::begin(Index::new(0x0a_0b0c), &[7; INITIATION]);
        call.extend_from_slice(&[8; MAC]);
        call.extend_from_slice(&[9; MAC]);
        assert_eq!((call.len(), &call[..5]), (156, &[1, 0x0a, 0x0b, 0x0c, 7][..]));
        let Ok(Datagram::Call(read)) = Datagram::parse(&call) else { panic!("{call:?}") };
        assert!(Datagram::Call(read).is_handshake());
        assert_eq!((read.sender.bits(), read.noise), (0x0a_0b0c, &[7; INITIATION]));
        assert_eq!((read.mac1, read.mac2), (&[8; MAC], &[9; MAC]));
        assert_eq!((read.before_mac1.len(), read.before_mac2.len()), (124, 140));

        let mut answer = Answer::begin(Index::new(1), Index::new(2), &[7; RESPONSE]);
        answer.extend_from_slice(&[8; MAC]);
        assert_eq!((answer.len(), &answer[..9]), (96, &[2, 0, 0, 1, 0, 0, 2, 0, 7][..]));
        let Ok(Datagram::Answer(read)) = Datagram::parse(&answer) else { panic!("{answer:?}") };
        assert_eq!((read.index, read.sender, read.mac1), (Index(1), Index(2), &[8; MAC]));

        let cookie = Cookie { index: Index::new(1), nonce: &[2; NONCE], sealed: &[3; 32] };
        let octets = cookie.emit();
        assert_eq!((octets.len(), &octets[..5]), (60, &[4, 0, 0, 1, 2][..]));
        assert_eq!(Datagram::parse(&octets), Ok(Datagram::Cookie(cookie)));
    }

    #[test]
    fn what_is_said_is_read_again() {
        let incarnation = Incarnation(5);
        let hello = Hello { timestamp: 1, incarnation, next_number: 2 };
        assert_eq!(Hello::parse(hello.emit()), Some(hello));
        assert_eq!(Hello::parse([0xff; PAYLOAD]), None);

        for reply in [Reply::Taken { incarnation, next_number: 3 }, Reply::Stale { timestamp: 4 }] {
            assert_eq!(Reply::parse(reply.emit()), Some(reply));
        }
        assert_eq!(Reply::parse([9; PAYLOAD]), None);
    }

    #[test]
    fn what_is_cut_long_or_unknown_is_refused() {
        assert_eq!(Datagram::parse(&[]), Err(Malformed::Nothing));
        assert_eq!(Datagram::parse(&[6; 100]), Err(Malformed::Kind(6)));
        for (kind, len) in [(1, CALL), (2, ANSWER), (4, COOKIE), (5, HEADER + TAG)] {
            for have in [1, len - 1, len + 1] {
                let octets = vec![kind; have];
                assert_eq!(Datagram::parse(&octets), Err(Malformed::Length { kind, have }));
            }
        }
        assert_eq!(Datagram::parse(&[3; 23]), Err(Malformed::Length { kind: 3, have: 23 }));
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Datagram::parse(&octets);
        }
    }
}
