//! Messages of the layer: combinations one way, acknowledgements the other. Each is the payload of an IP packet with
//! the layer's protocol number.
//!
//! ```text
//!      0      1      2    4    6       10     14     16    18    20
//!      +------+------+----+----+-------+------+------+-----+-----+----------------- - -
//!      | kind | count|src |dst | first |  id  | back | key | sum | coded packet
//!      +------+------+----+----+-------+------+------+-----+-----+----------------- - -
//!        0x11                                                       combination
//!
//!      +------+------+----+----+-------+------+------+-----+-----+--------+-----+-- - -
//!      | kind | runs |src |dst |unseen | echo |window|flags| sum | offset | len | ...
//!      +------+------+----+----+-------+------+------+-----+-----+--------+-----+-- - -
//!        0x12                                  flags: 1 a hole, 2 an echo   acknowledgement
//!
//!      0          4     6                        a packet, before it is coded
//!      +----------+-----+------------- - -
//!      | sequence | len | payload
//!      +----------+-----+------------- - -
//! ```
//!
//! `src` and `dst` are TCP's ports, `sequence` is TCP's number of the first octet of the payload.
//! Packets are numbered by the layer: a combination mixes `count` of them from `first` on, with
//! the coefficients that `key` stands for; all before `first - back` will never be mixed again.
//! `id` counts transmissions and `echo` returns it. The runs of an acknowledgement are packets
//! below the newest seen one that are unseen, each from `unseen + offset` on; in order, not
//! touching. The checksum is that of TCP, over the pseudo header too.

use std::net::SocketAddr;

use base::ip::{self, pseudo_header};

/// Octets of a header, the runs of an acknowledgement not counted.
pub const HEADER: usize = 20;
/// Octets before the payload in a packet that is coded.
pub const PREFIX: usize = 6;
/// Octets by which a combination of segments is longer than the longest of the segments.
pub const OVERHEAD: usize = HEADER + PREFIX - base::tcp::HEADER;
/// Runs that an acknowledgement can carry.
pub const MAX_RUNS: usize = 8;

/// The kind of a combination.
pub const KIND_COMBINATION: u8 = 0x11;
/// The kind of an acknowledgement.
pub const KIND_ACK: u8 = 0x12;
const RUN: usize = 4;
const FLAG_HOLE: u16 = 1;
const FLAG_ECHO: u16 = 2;

/// A message of the layer, with its two addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for; of the same IP version.
    pub destination: SocketAddr,
    /// The protocol number of the IP packet.
    pub protocol: u8,
    /// What it says.
    pub body: Body<'a>,
}

/// What a message says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body<'a> {
    /// What was seen.
    Ack(Ack),
    /// Packets mixed.
    Combination(Combination<'a>),
}

/// A linear combination of consecutive packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Combination<'a> {
    /// The number of the first packet mixed.
    pub first: u32,
    /// How many are mixed, at least 1.
    pub count: u8,
    /// How far before `first` lies the oldest packet that may still be mixed.
    pub back: u16,
    /// Which transmission this is.
    pub id: u32,
    /// What the coefficients are made from.
    pub key: u16,
    /// The sum; shorter packets count as padded with zeros. At least a prefix long.
    pub coded: &'a [u8],
}

/// What the receiver has seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ack {
    /// The number of the oldest unseen packet.
    pub unseen: u32,
    /// The transmission that caused this; `None` if none did.
    pub echo: Option<u32>,
    /// TCP's window field.
    pub window: u16,
    /// Whether the transmission could have made `unseen` seen, but did not: TCP is to count a
    /// duplicate.
    pub is_hole: bool,
    /// What is unseen though something later is seen.
    pub runs: Runs,
}

/// Runs of unseen packets: offset from the oldest unseen one, and length.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Runs {
    runs: [(u16, u16); MAX_RUNS],
    len: usize,
}

impl Runs {
    /// Adds a run after the others; one too many is left out.
    pub fn push(&mut self, offset: u16, len: u16) {
        if let Some(place) = self.runs.get_mut(self.len) {
            *place = (offset, len);
            self.len += 1;
        }
    }

    /// The runs, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[(u16, u16)] {
        &self.runs[..self.len]
    }
}

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// A combination of nothing.
    #[error("a combination of no packets")]
    Empty,
    /// Flags that have no meaning.
    #[error("flags {0:#06x}")]
    Flags(u16),
    /// Neither a combination nor an acknowledgement.
    #[error("unknown kind {0:#04x}")]
    Kind(u8),
    /// Too many runs, or runs that are empty, touch, or are out of order.
    #[error("run {0} is out of place")]
    Run(usize),
    /// Octets after the runs.
    #[error("{extra} octets after the runs")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// There are too few octets.
    #[error("{have} octets are too few")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

impl<'a> Message<'a> {
    /// Reads the message that starts at `offset` of an IP packet and ends with it.
    ///
    /// # Errors
    /// When it is cut, damaged or makes no sense.
    pub fn parse(header: &ip::Header, packet: &'a [u8], offset: usize) -> Result<Self, Malformed> {
        let octets = packet.get(offset..header.total_len).unwrap_or_default();
        let Some((fixed, rest)) = octets.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let (source, destination) = (header.source, header.destination);
        let sum = pseudo_header(source, destination, header.protocol, octets.len());
        if sum.with(octets).finish() != 0 {
            return Err(Malformed::Checksum);
        }

        let body = match fixed[0] {
            KIND_ACK => Body::Ack(Ack::parse(fixed, rest)?),
            KIND_COMBINATION => Body::Combination(Combination::parse(fixed, rest)?),
            kind => return Err(Malformed::Kind(kind)),
        };
        Ok(Self {
            source: SocketAddr::new(source, u16_at(fixed, 2)),
            destination: SocketAddr::new(destination, u16_at(fixed, 4)),
            protocol: header.protocol,
            body,
        })
    }

    /// Appends the message as a whole IP packet.
    ///
    /// # Panics
    /// When the coded packet is longer than an IP packet can carry.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let protocol = self.protocol;
        let (len, count) = match &self.body {
            Body::Ack(ack) => {
                let runs = ack.runs.as_slice().len();
                (HEADER + runs * RUN, u8::try_from(runs).expect("at most 8"))
            }
            Body::Combination(combination) => (HEADER + combination.coded.len(), combination.count),
        };
        let (source, destination) = (self.source.ip(), self.destination.ip());
        ip::Spec::new(source, destination, protocol).emit(len, out);
        let start = out.len();
        let mut header = [0; HEADER];
        header[1] = count;
        header[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        header[4..6].copy_from_slice(&self.destination.port().to_be_bytes());
        match &self.body {
            Body::Ack(ack) => ack.emit(&mut header, out),
            Body::Combination(combination) => combination.emit(&mut header, out),
        }
        let sum = pseudo_header(source, destination, protocol, len).with(&out[start..]).finish();
        out[start + 18..start + HEADER].copy_from_slice(&sum.to_be_bytes());
    }
}

impl<'a> Combination<'a> {
    fn parse(fixed: &[u8; HEADER], coded: &'a [u8]) -> Result<Self, Malformed> {
        let count = fixed[1];
        if count == 0 {
            return Err(Malformed::Empty);
        }
        if coded.len() < PREFIX {
            return Err(Malformed::Truncated { have: HEADER + coded.len() });
        }
        Ok(Self {
            first: u32_at(fixed, 6),
            count,
            back: u16_at(fixed, 14),
            id: u32_at(fixed, 10),
            key: u16_at(fixed, 16),
            coded,
        })
    }

    fn emit(&self, header: &mut [u8; HEADER], out: &mut Vec<u8>) {
        header[0] = KIND_COMBINATION;
        header[6..10].copy_from_slice(&self.first.to_be_bytes());
        header[10..14].copy_from_slice(&self.id.to_be_bytes());
        header[14..16].copy_from_slice(&self.back.to_be_bytes());
        header[16..18].copy_from_slice(&self.key.to_be_bytes());
        out.extend_from_slice(header);
        out.extend_from_slice(self.coded);
    }
}

impl Ack {
    fn parse(fixed: &[u8; HEADER], rest: &[u8]) -> Result<Self, Malformed> {
        let count = usize::from(fixed[1]);
        if count > MAX_RUNS {
            return Err(Malformed::Run(count));
        }
        let Some((runs, extra)) = rest.split_at_checked(count * RUN) else {
            return Err(Malformed::Truncated { have: HEADER + rest.len() });
        };
        if !extra.is_empty() {
            return Err(Malformed::Trailing { extra: extra.len() });
        }
        let flags = u16_at(fixed, 16);
        if flags & !(FLAG_HOLE | FLAG_ECHO) != 0 {
            return Err(Malformed::Flags(flags));
        }

        let mut ack = Self {
            unseen: u32_at(fixed, 6),
            echo: (flags & FLAG_ECHO != 0).then(|| u32_at(fixed, 10)),
            window: u16_at(fixed, 14),
            is_hole: flags & FLAG_HOLE != 0,
            runs: Runs::default(),
        };
        let mut least = 0;
        for (index, run) in runs.as_chunks::<RUN>().0.iter().enumerate() {
            let (offset, len) = (u16_at(run, 0), u16_at(run, 2));
            // A run that ends at the end of the range leaves no room for another.
            let end = u32::from(offset) + u32::from(len);
            if len == 0 || u32::from(offset) < least || end > u32::from(u16::MAX) {
                return Err(Malformed::Run(index));
            }
            least = end + 1;
            ack.runs.push(offset, len);
        }
        Ok(ack)
    }

    fn emit(&self, header: &mut [u8; HEADER], out: &mut Vec<u8>) {
        let hole = if self.is_hole { FLAG_HOLE } else { 0 };
        let echo = if self.echo.is_some() { FLAG_ECHO } else { 0 };
        header[0] = KIND_ACK;
        header[6..10].copy_from_slice(&self.unseen.to_be_bytes());
        header[10..14].copy_from_slice(&self.echo.unwrap_or(0).to_be_bytes());
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        header[16..18].copy_from_slice(&(hole | echo).to_be_bytes());
        out.extend_from_slice(header);
        for (offset, len) in self.runs.as_slice() {
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}
