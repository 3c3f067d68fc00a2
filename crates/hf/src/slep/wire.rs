//! The PDUs that two SLEPs exchange, version 0. A U_PDU is one PDU.
//!
//! ```text
//!  octet 0     1 ...
//!      +-------+---------------- - -
//!      | v k f | fields, then data         v: version, 2 bits; k: kind, 3 bits; f: flags, 3 bits
//!      +-------+---------------- - -
//!
//!  kind             flags 4 2 1   fields, the most significant octet first
//!  0 datagram             X Z -   [addresses] data
//!  1 reliable datagram    X Z -   epoch 2, id 2, [addresses] data
//!  2 receipt              - - -   epoch 2, id 2 each
//!  3 open                 X Z F   epoch 2, stream 2, number 2, if that is 0: accepts 1 [guard 2];
//!                                 [initiator: addresses; responder: credit] data
//!  4 data                 A Z F   stream 2, number 2, [credit] data
//!  5 state                Q R H   epoch 2, stream 2, credit, (first 2, count 2) each
//!  6 reset                - - -   stream 2, reason 1
//!  7 hello                Q - -   epoch 2, uptime 4 in seconds, accepts 1
//!
//!  stream:     bit 15 is set by the responder of the stream, the others are its number
//!  accepts:    bit 7: a guard follows, an epoch; bits 6 to 0: what the sender can decode, bit 0 DEFLATE,
//!              bit 1 DEFLATE with the dictionary
//!  addresses:  destination 1, source 1; without X both are 0
//!  credit:     next 2 (all below it arrived), limit 2 (all below it may be sent)
//! ```
//!
//! What each means is in `docs/protocols/slep.md`.

mod emit;

use super::reason::Reason;

/// Octets before the data of a DATA without credit.
pub const DATA: usize = 5;
/// Octets of a credit.
pub const CREDIT: usize = 4;
/// Octets before the data of an OPEN that has all its fields, and so before any data.
pub const MOST: usize = 14;
/// Octets before the data of a reliable datagram with addresses.
pub const DATAGRAM: usize = 7;
/// Ranges that a STATE tells at most.
pub const MOST_RANGES: usize = 64;
/// The first number that may not be sent before the receiver has said more.
pub const FIRST_LIMIT: u16 = 512;
/// The bit of `accepts` for DEFLATE, which every SLEP decodes.
pub const DEFLATE: u8 = 1;
/// The bit of `accepts` for DEFLATE with the dictionary.
pub const DICTIONARY: u8 = 2;
/// What we decode.
pub const ACCEPTED: u8 = DEFLATE | DICTIONARY;

const KIND_DATAGRAM: u8 = 0;
const KIND_RELIABLE: u8 = 1;
const KIND_RECEIPT: u8 = 2;
const KIND_OPEN: u8 = 3;
const KIND_DATA: u8 = 4;
const KIND_STATE: u8 = 5;
const KIND_RESET: u8 = 6;
const KIND_HELLO: u8 = 7;

const RESPONDER: u16 = 0x8000;
const GUARDED: u8 = 0x80;

/// The flags of octet 0; their meaning depends on the kind.
const HIGH: u8 = 4;
const MIDDLE: u8 = 2;
const LOW: u8 = 1;

/// One message from a SLEP to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pdu<'a> {
    /// A datagram: sent once without acknowledgement, or repeated until acknowledged.
    Datagram {
        /// Its name, for a reliable datagram.
        name: Option<DatagramName>,
        /// Between which users.
        addresses: Addresses,
        /// Whether the data is one DEFLATE block.
        is_coded: bool,
        /// What the user said.
        data: &'a [u8],
    },
    /// Reliable datagrams arrived.
    Receipt {
        /// The process that sent them.
        epoch: u16,
        /// Which, two octets each.
        ids: Ids<'a>,
    },
    /// A part of a stream whose sender does not know yet that the other end has the stream.
    Open(Open<'a>),
    /// A part of a stream.
    Data(Data<'a>),
    /// How far a stream has come.
    State(State<'a>),
    /// A stream is no more, or is none.
    Reset {
        /// Which.
        stream: Name,
        /// Why.
        reason: Reason,
    },
    /// Which process this is.
    Hello(Hello),
}

/// Names a reliable datagram.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DatagramName {
    /// The process that sends it.
    pub epoch: u16,
    /// Its number.
    pub id: u16,
}

/// A part of a stream with the full identity of the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Open<'a> {
    /// The process that initiated the stream, whoever sends this.
    pub epoch: u16,
    /// Which stream.
    pub stream: Name,
    /// What the part is.
    pub part: Part<'a>,
    /// What only number 0 says.
    pub first: Option<First>,
    /// Which user it is for; of the initiator's number 0.
    pub addresses: Addresses,
    /// The credit for the other direction, from the responder.
    pub credit: Option<Credit>,
}

/// What only the first part of a direction says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct First {
    /// The codings that its sender can decode, seven bits.
    pub accepts: u8,
    /// Of the initiator: the only process that may take this as a new stream. Of the responder: which
    /// process it is.
    pub guard: Option<u16>,
}

/// A part of a stream that both ends know to have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data<'a> {
    /// Which stream.
    pub stream: Name,
    /// What the part is.
    pub part: Part<'a>,
    /// The credit for the other direction.
    pub credit: Option<Credit>,
}

/// Some octets of a direction of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part<'a> {
    /// Number of the part in one direction.
    pub number: u16,
    /// Whether the data is coded.
    pub is_coded: bool,
    /// Whether no part comes after it.
    pub is_last: bool,
    /// The octets.
    pub data: &'a [u8],
}

/// Acknowledges received parts and grants further ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credit {
    /// All parts below it arrived.
    pub next: u16,
    /// All parts below it may be sent.
    pub limit: u16,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State<'a> {
    /// Whether the other end is to answer with its own.
    pub is_question: bool,
    /// Whether the other end has asked for this.
    pub is_answer: bool,
    /// Whether its sender has heard of the other end in this stream.
    pub has_heard: bool,
    /// The process that initiated the stream.
    pub epoch: u16,
    /// Which stream.
    pub stream: Name,
    /// How far.
    pub credit: Credit,
    /// What arrived above `next`.
    pub ranges: Ranges<'a>,
}

/// Which process this is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Whether the other end is to say the same.
    pub is_question: bool,
    /// Drawn when the process started.
    pub epoch: u16,
    /// Seconds since it started, rounded down.
    pub uptime: u32,
    /// The codings that it can decode, seven bits.
    pub accepts: u8,
}

/// Identifies a stream between two nodes from the view of one end.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name {
    /// Whether the end that says it is the responder.
    pub is_responder: bool,
    /// 15 bits, counted by the initiator.
    pub number: u16,
}

impl Name {
    /// The same name from the view of the other end.
    #[must_use]
    pub const fn turned(self) -> Self {
        Self { is_responder: !self.is_responder, number: self.number }
    }
}

/// Extended addresses: the users at two access points; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Addresses {
    /// Of the destination.
    pub to: u8,
    /// Of the source.
    pub from: u8,
}

/// The numbers of datagrams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ids<'a>(&'a [[u8; 2]]);

impl<'a> Ids<'a> {
    /// These numbers, the most significant octet first.
    #[must_use]
    pub const fn new(octets: &'a [[u8; 2]]) -> Self {
        Self(octets)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = u16> + 'a {
        self.0.iter().map(|octets| u16::from_be_bytes(*octets))
    }
}

/// Numbers of parts that arrived: the first and how many, each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ranges<'a>(&'a [[u8; 4]]);

impl<'a> Ranges<'a> {
    /// These ranges, the most significant octet first.
    #[must_use]
    pub const fn new(octets: &'a [[u8; 4]]) -> Self {
        Self(octets)
    }

    /// One of them as octets.
    #[must_use]
    pub const fn octets(first: u16, count: u16) -> [u8; 4] {
        let ([a, b], [c, d]) = (first.to_be_bytes(), count.to_be_bytes());
        [a, b, c, d]
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = (u16, u16)> + 'a {
        self.0
            .iter()
            .map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// Why octets are no PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A flag is set that its kind does not have, or not in this place.
    #[error("flags {0:#03b} are not allowed here")]
    Flags(u8),
    /// There are octets behind the last field.
    #[error("octets behind the last field")]
    Trailing,
    /// A field is missing.
    #[error("too short")]
    Truncated,
    /// Another version.
    #[error("version {0} is unknown")]
    Version(u8),
}

impl<'a> Pdu<'a> {
    /// Reads the PDU that fills `octets`.
    ///
    /// # Errors
    /// When the octets are no PDU of version 0.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let (&head, rest) = octets.split_first().ok_or(Malformed::Truncated)?;
        let (version, kind, flags) = (head >> 6, head >> 3 & 7, head & 7);
        if version != 0 {
            return Err(Malformed::Version(version));
        }
        let allowed = match kind {
            KIND_OPEN | KIND_DATA | KIND_STATE => HIGH | MIDDLE | LOW,
            KIND_DATAGRAM | KIND_RELIABLE => HIGH | MIDDLE,
            KIND_HELLO => HIGH,
            _ => 0,
        };
        if flags & !allowed != 0 {
            return Err(Malformed::Flags(flags));
        }
        let [high, middle, low] = [HIGH, MIDDLE, LOW].map(|flag| flags & flag != 0);
        let mut fields = Fields(rest);
        match kind {
            KIND_DATAGRAM | KIND_RELIABLE => {
                let name = if kind == KIND_RELIABLE {
                    Some(DatagramName { epoch: fields.number()?, id: fields.number()? })
                } else {
                    None
                };
                let addresses = fields.addresses(high)?;
                Ok(Self::Datagram { name, addresses, is_coded: middle, data: fields.0 })
            }
            KIND_RECEIPT => {
                let epoch = fields.number()?;
                let (ids, []) = fields.0.as_chunks() else { return Err(Malformed::Trailing) };
                Ok(Self::Receipt { epoch, ids: Ids(ids) })
            }
            KIND_OPEN => fields.open(high, flags).map(Self::Open),
            KIND_DATA => {
                let (stream, number) = (fields.name()?, fields.number()?);
                let credit = if high { Some(fields.credit()?) } else { None };
                let part = Part { number, is_coded: middle, is_last: low, data: fields.0 };
                Ok(Self::Data(Data { stream, part, credit }))
            }
            KIND_STATE => {
                let (epoch, stream) = (fields.number()?, fields.name()?);
                let credit = fields.credit()?;
                let (ranges, []) = fields.0.as_chunks() else { return Err(Malformed::Trailing) };
                if ranges.len() > MOST_RANGES {
                    return Err(Malformed::Trailing);
                }
                let (is_question, is_answer, has_heard) = (high, middle, low);
                let ranges = Ranges(ranges);
                let state =
                    State { is_question, is_answer, has_heard, epoch, stream, credit, ranges };
                Ok(Self::State(state))
            }
            KIND_RESET => {
                let (stream, [reason]) = (fields.name()?, fields.take()?);
                fields.end(Self::Reset { stream, reason: Reason(reason) })
            }
            _ => {
                let (epoch, uptime) = (fields.number()?, u32::from_be_bytes(fields.take()?));
                let [accepts] = fields.take()?;
                if accepts & GUARDED != 0 {
                    return Err(Malformed::Trailing);
                }
                fields.end(Self::Hello(Hello { is_question: high, epoch, uptime, accepts }))
            }
        }
    }
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn name(&mut self) -> Result<Name, Malformed> {
        let number = self.number()?;
        Ok(Name { is_responder: number & RESPONDER != 0, number: number & !RESPONDER })
    }

    fn credit(&mut self) -> Result<Credit, Malformed> {
        Ok(Credit { next: self.number()?, limit: self.number()? })
    }

    fn addresses(&mut self, are_there: bool) -> Result<Addresses, Malformed> {
        if !are_there {
            return Ok(Addresses::default());
        }
        let [to, from] = self.take()?;
        Ok(Addresses { to, from })
    }

    fn open(mut self, has_more: bool, flags: u8) -> Result<Open<'a>, Malformed> {
        let (epoch, stream, number) = (self.number()?, self.name()?, self.number()?);
        let is_first = number == 0;
        let first = if is_first {
            let [accepts] = self.take()?;
            let guard = if accepts & GUARDED != 0 { Some(self.number()?) } else { None };
            Some(First { accepts: accepts & !GUARDED, guard })
        } else {
            None
        };
        let (mut addresses, mut credit) = (Addresses::default(), None);
        if stream.is_responder && has_more {
            credit = Some(self.credit()?);
        } else if has_more && !is_first {
            return Err(Malformed::Flags(flags));
        } else {
            addresses = self.addresses(has_more)?;
        }
        let (is_coded, is_last) = (flags & MIDDLE != 0, flags & LOW != 0);
        let part = Part { number, is_coded, is_last, data: self.0 };
        Ok(Open { epoch, stream, part, first, addresses, credit })
    }

    fn end<T>(self, value: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed::Trailing) }
    }
}
