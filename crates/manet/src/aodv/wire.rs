//! The messages of AODV (RFC 3561, 5), and the extensions of AODV-UU.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +---------------+-+-+-+-+-+---------------------+---------------+
//!  |   type = 1    |J|R|G|D|U|          0          |   hop count   |  request (RREQ)
//!  +---------------+-+-+-+-+-+---------------------+---------------+
//!  |        request id | destination | its sequence number |       |
//!  |                      originator | its sequence number         |  4 octets each
//!  +---------------+-+-+-----------------+---------+---------------+
//!  |   type = 2    |R|A|        0        | prefix  |   hop count   |  reply (RREP), hello
//!  +---------------+-+-+-----------------+---------+---------------+
//!  |  destination | its sequence number | originator | lifetime ms |  4 octets each
//!  +---------------+-+-----------------------------+---------------+
//!  |   type = 3    |N|              0              |     count     |  error (RERR)
//!  +---------------+-+-----------------------------+---------------+
//!  |          count times: destination | its sequence number       |  4 octets each
//!  +---------------+---------------+-------------------------------+
//!  |   type = 4    |       0       |  whatever follows counts nothing acknowledgement (RREP-ACK)
//!  +---------------+---------------+
//!  extensions of a request or reply: type (1), length (1), value
//!      1, 2 hello interval in ms (4)      4 Internet destination (4)
//! ```
//!
//! The RFC gives the hello interval type 1, which is sent; AODV-UU reads type 2. Extensions that are not
//! known are skipped up to type 127; those above may not be (RFC 3561, 9). What is cut or has a wrong length
//! is skipped too, and the rest counts: an extension, the end of an error's list. AODV-UU sends 48 octets
//! behind an acknowledgement.

#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::time::Duration;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ERROR: u8 = 3;
const ACKNOWLEDGEMENT: u8 = 4;

const REQUEST_LEN: usize = 24;
const REPLY_LEN: usize = 20;
const ACKNOWLEDGEMENT_LEN: usize = 2;
/// Octets of an error message before the list of destinations.
pub const ERROR_HEADER: usize = 4;
/// Octets of a destination in an error.
pub const UNREACHABLE_LEN: usize = 8;

const HELLO_INTERVAL: u8 = 1;
/// The type under which AODV-UU reads the same.
const HELLO_INTERVAL_UU: u8 = 2;
const INTERNET: u8 = 4;
/// Extensions from here on may not be skipped.
const UNSKIPPABLE: u8 = 128;

/// A message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Message {
    /// Asks for a route.
    Request(Request),
    /// Tells of one; with no hops and to all, a hello.
    Reply(Reply),
    /// Reports routes that have ended.
    Error(Errors),
    /// A reply arrived.
    Acknowledgement,
}

/// Asks for a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// J: it is for a multicast group to be joined. Nothing here sets it.
    pub join: bool,
    /// R: it is for a multicast group to be mended. Nothing here sets it.
    pub repair: bool,
    /// G: who answers for the destination tells the destination too.
    pub gratuitous: bool,
    /// D: only the destination may answer.
    pub destination_only: bool,
    /// Hops from the originator to the sender of this copy.
    pub hops: u8,
    /// The number of the request; unique together with the originator.
    pub id: u32,
    /// Whom a route is wanted to.
    pub destination: Ipv4Addr,
    /// The last known sequence number of the destination; `None` is U.
    pub destination_sequence: Option<u32>,
    /// Who wants the route.
    pub originator: Ipv4Addr,
    /// The originator's own sequence number.
    pub originator_sequence: u32,
}

/// Tells of a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reply {
    /// R: the request is for a repaired multicast group. Nothing here sets this flag.
    pub repair: bool,
    /// A: who receives it says so.
    pub acknowledge: bool,
    /// If not 0, how long the prefix is that the route is for, up to 31. Nothing here sets it.
    pub prefix: u8,
    /// Hops from the destination to the sender of this copy.
    pub hops: u8,
    /// Where the route leads.
    pub destination: Ipv4Addr,
    /// The destination's sequence number.
    pub sequence: u32,
    /// Who asked.
    pub originator: Ipv4Addr,
    /// For how long the route is good; in milliseconds, which is 49 days at most.
    pub lifetime: Duration,
    /// How often the sender says hello.
    pub hello_interval: Option<Duration>,
    /// The requested Internet host: the destination is a gateway that answers for the host.
    pub internet: Option<Ipv4Addr>,
}

/// Announces destinations no longer reachable.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Errors {
    /// N: the route was mended, and is not to be deleted.
    pub no_delete: bool,
    /// Destinations that cannot be reached, with their sequence numbers; 255 at most.
    pub unreachable: Vec<(Ipv4Addr, u32)>,
}

impl Reply {
    /// A reply of the destination itself, without flags and extensions.
    #[must_use]
    pub fn new(
        destination: Ipv4Addr,
        sequence: u32,
        originator: Ipv4Addr,
        lifetime: Duration,
    ) -> Self {
        Self {
            repair: false,
            acknowledge: false,
            prefix: 0,
            hops: 0,
            destination,
            sequence,
            originator,
            lifetime,
            hello_interval: None,
            internet: None,
        }
    }
}

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// An error without destinations.
    #[error("an error without destinations")]
    Empty,
    /// An unknown extension of this type that must not be skipped.
    #[error("extension {0}")]
    Extension(u8),
    /// No message has this type.
    #[error("type {0}")]
    Kind(u8),
    /// There are too few octets.
    #[error("cut after {have} octets")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

impl Message {
    /// Reads the message in `octets`, and counts its unreadable, skipped parts.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &[u8]) -> Result<(Self, u64), Malformed> {
        let cut = Malformed::Truncated { have: octets.len() };
        match *octets.first().ok_or(cut)? {
            REQUEST => Request::parse(octets).map(|(it, skipped)| (Self::Request(it), skipped)),
            REPLY => Reply::parse(octets).map(|(it, skipped)| (Self::Reply(it), skipped)),
            ERROR => Errors::parse(octets).map(|(it, skipped)| (Self::Error(it), skipped)),
            ACKNOWLEDGEMENT if octets.len() < ACKNOWLEDGEMENT_LEN => Err(cut),
            ACKNOWLEDGEMENT => Ok((Self::Acknowledgement, 0)),
            kind => Err(Malformed::Kind(kind)),
        }
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(request) => request.emit(out),
            Self::Reply(reply) => reply.emit(out),
            Self::Error(errors) => errors.emit(out),
            Self::Acknowledgement => out.extend_from_slice(&[ACKNOWLEDGEMENT, 0]),
        }
    }
}

impl Request {
    fn parse(octets: &[u8]) -> Result<(Self, u64), Malformed> {
        let Some((fixed, rest)) = octets.split_first_chunk::<REQUEST_LEN>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let skipped = extensions(rest, |_, _| true)?;
        let flag = |bit: u8| fixed[1] & (0x80 >> bit) != 0;
        let request = Self {
            join: flag(0),
            repair: flag(1),
            gratuitous: flag(2),
            destination_only: flag(3),
            hops: fixed[3],
            id: word(fixed, 1),
            destination: word(fixed, 2).into(),
            destination_sequence: (!flag(4)).then(|| word(fixed, 3)),
            originator: word(fixed, 4).into(),
            originator_sequence: word(fixed, 5),
        };
        Ok((request, skipped))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = [
            self.join,
            self.repair,
            self.gratuitous,
            self.destination_only,
            self.destination_sequence.is_none(),
        ];
        out.extend_from_slice(&[REQUEST, first_bits(&flags), 0, self.hops]);
        for number in [
            self.id,
            self.destination.to_bits(),
            self.destination_sequence.unwrap_or(0),
            self.originator.to_bits(),
            self.originator_sequence,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

impl Reply {
    fn parse(octets: &[u8]) -> Result<(Self, u64), Malformed> {
        let Some((fixed, rest)) = octets.split_first_chunk::<REPLY_LEN>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let lifetime = Duration::from_millis(word(fixed, 4).into());
        let (destination, originator) = (word(fixed, 1).into(), word(fixed, 3).into());
        let mut reply = Self {
            repair: fixed[1] & 0x80 != 0,
            acknowledge: fixed[1] & 0x40 != 0,
            prefix: fixed[2] & 0x1f,
            hops: fixed[3],
            ..Self::new(destination, word(fixed, 2), originator, lifetime)
        };
        let skipped = extensions(rest, |kind, value| {
            let number = value.try_into().map(u32::from_be_bytes);
            match (kind, number) {
                (HELLO_INTERVAL | HELLO_INTERVAL_UU, Ok(number)) => {
                    reply.hello_interval = Some(Duration::from_millis(number.into()));
                }
                (INTERNET, Ok(number)) => reply.internet = Some(number.into()),
                // AODV-UU has another meaning for type 1, with a length of its own.
                (HELLO_INTERVAL_UU | INTERNET, Err(_)) => return false,
                _ => {}
            }
            true
        })?;
        Ok((reply, skipped))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = first_bits(&[self.repair, self.acknowledge]);
        out.extend_from_slice(&[REPLY, flags, self.prefix & 0x1f, self.hops]);
        for number in [
            self.destination.to_bits(),
            self.sequence,
            self.originator.to_bits(),
            millis(self.lifetime),
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        let extensions = [
            (HELLO_INTERVAL, self.hello_interval.map(millis)),
            (INTERNET, self.internet.map(Ipv4Addr::to_bits)),
        ];
        for (kind, value) in extensions {
            let Some(value) = value else { continue };
            out.extend_from_slice(&[kind, 4]);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

impl Errors {
    fn parse(octets: &[u8]) -> Result<(Self, u64), Malformed> {
        let cut = Malformed::Truncated { have: octets.len() };
        let Some((fixed, rest)) = octets.split_first_chunk::<ERROR_HEADER>() else {
            return Err(cut);
        };
        let wanted = usize::from(fixed[3]);
        if wanted == 0 {
            return Err(Malformed::Empty);
        }
        let (entries, _) = rest.as_chunks::<UNREACHABLE_LEN>();
        let entries = &entries[..entries.len().min(wanted)];
        if entries.is_empty() {
            return Err(cut);
        }
        let errors = Self {
            no_delete: fixed[1] & 0x80 != 0,
            unreachable: entries
                .iter()
                .map(|entry| (word(entry, 0).into(), word(entry, 1)))
                .collect(),
        };
        Ok((errors, (wanted - entries.len()) as u64))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let unreachable = &self.unreachable[..self.unreachable.len().min(255)];
        let count = u8::try_from(unreachable.len()).expect("at most 255");
        out.extend_from_slice(&[ERROR, first_bits(&[self.no_delete]), 0, count]);
        for (destination, sequence) in unreachable {
            out.extend_from_slice(&destination.octets());
            out.extend_from_slice(&sequence.to_be_bytes());
        }
    }
}

/// Passes each extension that may be skipped to `read`, a function that returns whether the extension was readable;
/// returns how many were unreadable or cut.
fn extensions(
    mut octets: &[u8],
    mut read: impl FnMut(u8, &[u8]) -> bool,
) -> Result<u64, Malformed> {
    let mut skipped = 0;
    while let Some((&kind, rest)) = octets.split_first() {
        if kind >= UNSKIPPABLE {
            return Err(Malformed::Extension(kind));
        }
        let value = rest.split_first().and_then(|(&len, rest)| rest.split_at_checked(len.into()));
        let Some((value, rest)) = value else { return Ok(skipped + 1) };
        skipped += u64::from(!read(kind, value));
        octets = rest;
    }
    Ok(skipped)
}

/// The number in the word of this index.
fn word(octets: &[u8], index: usize) -> u32 {
    let (words, _) = octets.as_chunks::<4>();
    u32::from_be_bytes(words[index])
}

/// An octet that begins with `flags`, then zeros.
fn first_bits(flags: &[bool]) -> u8 {
    flags.iter().rev().fold(0, |bits, &flag| bits >> 1 | if flag { 0x80 } else { 0 })
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
