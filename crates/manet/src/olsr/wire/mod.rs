//! Packets and messages of OLSR (RFC 3626, 3.3).
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-------------------------------+-------------------------------+
//!  |         packet length         |    packet sequence number     |
//!  +---------------+---------------+-------------------------------+  once for each message:
//!  |     type      |     Vtime     |         message size          |  with these 12 octets
//!  +---------------+---------------+-------------------------------+
//!  |                           originator                          |  its main address
//!  +---------------+---------------+-------------------------------+
//!  |      TTL      |   hop count   |    message sequence number    |
//!  +---------------+---------------+-------------------------------+
//!  |                              body                             |
//!  +---------------------------------------------------------------+
//! ```

mod body;
mod hello;
mod interval;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::time::Duration;

pub use body::{Addresses, Hna, TC_HEADER, Tc};
pub use hello::{BLOCK_HEADER, Block, HELLO_HEADER, Hello, LinkCode, LinkType, NeighbourType};
pub use interval::Interval;

/// Octets of a packet's header.
pub const PACKET_HEADER: usize = 4;
/// Octets of a message's header.
pub const MESSAGE_HEADER: usize = 12;
/// Octets of an address.
pub const ADDRESS: usize = 4;

/// Where the size stands in a message, and where TTL and hop count do.
const SIZE: std::ops::Range<usize> = 2..4;
const TTL: usize = 8;
const HOPS: usize = 9;

/// A sequence number that wraps. Circular order is not total, hence no `Ord`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seq(pub u16);

impl Seq {
    /// Whether it lies in the half circle after `other` (RFC 3626, 19).
    #[must_use]
    pub fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }

    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What a message is. Those without a name are forwarded by the rules for all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kind(pub u8);

impl Kind {
    /// Who is heard, and how: to neighbours only.
    pub const HELLO: Self = Self(1);
    /// To whom there are links: to all nodes.
    pub const TC: Self = Self(2);
    /// Other addresses of a node.
    pub const MID: Self = Self(3);
    /// Networks behind a node.
    pub const HNA: Self = Self(4);
}

/// The header of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// How long the content is valid.
    pub validity: Interval,
    /// The main address of the originator.
    pub originator: Ipv4Addr,
    /// Over how many hops it may still go.
    pub ttl: u8,
    /// Over how many hops it came.
    pub hops: u8,
    /// The message's sequence number, counted by the originator.
    pub seq: Seq,
}

/// A message in a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header,
    /// What follows the header.
    pub body: &'a [u8],
    /// The whole message, unchanged.
    octets: &'a [u8],
}

/// A packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// The packet's sequence number, counted by the sender for each interface.
    pub seq: Seq,
    messages: &'a [u8],
}

/// Why octets are no packet, message or body.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A length field does not fit the octets present.
    #[error("a length of {claimed} octets is claimed where {have} are at hand")]
    Length {
        /// What the field says.
        claimed: usize,
        /// What is there.
        have: usize,
    },
    /// There are too few octets.
    #[error("{have} octets are too few for a header of {need}")]
    Truncated {
        /// What is there.
        have: usize,
        /// What a header takes.
        need: usize,
    },
}

impl<'a> Packet<'a> {
    /// Reads the packet that fills `octets`.
    ///
    /// # Errors
    /// If the packet is cut, or the length field is wrong.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let have = octets.len();
        let Some((&[l0, l1, s0, s1], messages)) = octets.split_first_chunk::<PACKET_HEADER>()
        else {
            return Err(Malformed::Truncated { have, need: PACKET_HEADER });
        };
        let claimed = usize::from(u16::from_be_bytes([l0, l1]));
        if claimed != have {
            return Err(Malformed::Length { claimed, have });
        }
        Ok(Self { seq: Seq(u16::from_be_bytes([s0, s1])), messages })
    }

    /// Its messages; the first that cannot be read is the last, for nothing tells where it ends.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message<'a>, Malformed>> + use<'a> {
        let mut rest = self.messages;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            match Message::split_first(rest) {
                Ok((message, others)) => {
                    rest = others;
                    Some(Ok(message))
                }
                Err(malformed) => {
                    rest = &[];
                    Some(Err(malformed))
                }
            }
        })
    }

    /// Writes the packet header with this number at the start of `out`, into [`PACKET_HEADER`] octets reserved before
    /// the messages.
    ///
    /// # Panics
    /// When `out` is longer than a packet can be.
    pub fn finish(seq: Seq, out: &mut [u8]) {
        let len = u16::try_from(out.len()).expect("a packet fits UDP");
        out[..2].copy_from_slice(&len.to_be_bytes());
        out[2..PACKET_HEADER].copy_from_slice(&seq.0.to_be_bytes());
    }
}

impl<'a> Message<'a> {
    /// Reads the first message, and returns the octets of the others as well.
    ///
    /// # Errors
    /// When it is cut, or its size is not possible.
    pub fn split_first(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let have = octets.len();
        let Some(&[kind, validity, z0, z1, a, b, c, d, ttl, hops, s0, s1]) =
            octets.first_chunk::<MESSAGE_HEADER>()
        else {
            return Err(Malformed::Truncated { have, need: MESSAGE_HEADER });
        };
        let claimed = usize::from(u16::from_be_bytes([z0, z1]));
        let (Some((message, rest)), true) =
            (octets.split_at_checked(claimed), claimed >= MESSAGE_HEADER)
        else {
            return Err(Malformed::Length { claimed, have });
        };
        let header = Header {
            kind: Kind(kind),
            validity: Interval(validity),
            originator: Ipv4Addr::new(a, b, c, d),
            ttl,
            hops,
            seq: Seq(u16::from_be_bytes([s0, s1])),
        };
        Ok((Self { header, body: &message[MESSAGE_HEADER..], octets: message }, rest))
    }

    /// The octets to forward to the next node: with one hop more.
    #[must_use]
    pub fn relayed(&self) -> Vec<u8> {
        let mut octets = self.octets.to_vec();
        octets[TTL] = self.header.ttl.saturating_sub(1);
        octets[HOPS] = self.header.hops.saturating_add(1);
        octets
    }
}

impl Header {
    /// Appends the message with this header, and with the body that `emit` appends.
    ///
    /// # Panics
    /// When the body is longer than 65,523 octets.
    pub fn emit(&self, out: &mut Vec<u8>, emit: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[self.kind.0, self.validity.0, 0, 0]);
        out.extend_from_slice(&self.originator.octets());
        out.extend_from_slice(&[self.ttl, self.hops]);
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        emit(out);
        let size = u16::try_from(out.len() - start).expect("a message fits a packet");
        out[start..][SIZE].copy_from_slice(&size.to_be_bytes());
    }

    /// How long what the message says holds.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.validity.duration()
    }
}
