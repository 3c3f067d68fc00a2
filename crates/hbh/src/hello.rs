//! Lets gateways find each other by the hello, an HBH message that HBH itself ignores.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +---------------+---------------+-------------------------------+
//!  |     0x80      |  version = 3  |               0               |  no data, no acknowledgement
//!  +---------------+---------------+---------------+---------------+
//!  |            checksum           |     0xff      |    profile    |  0 default, 1 seed
//!  +-------------------------------+---------------+---------------+
//!  |                                                               |
//!  +                             boot                              +  drawn at each start
//!  |                                                               |
//!  +---------------------------------------------------------------+
//!  |                                                               |
//!  +                            counter                            +  greater in each hello of a boot
//!  |                                                               |
//!  +---------------+---------------+---------------+---------------+
//!  |     flags     |   addresses   |  neighbours   |    number     |  flag 1 answer me, 2 goodbye,
//!  +---------------+---------------+---------------+---------------+       4 not all neighbours
//!  |                            station                            |  the sender's hardware address
//!  +                               +-------------------------------+
//!  |                               |            key id             |  0: there is no tag
//!  +-------------------------------+-------------------------------+
//!  addresses times:   family (1: 4 or 6), address (4 or 16)
//!  neighbours times:  boot (8), session (4), echo (4),
//!                     heard (1), lost (1), last (1), 0 (1), age (4)
//!  with a key:        tag (16)
//! ```
//! A hello is the payload of an IP packet of HBH's protocol. The Internet checksum covers the whole
//! hello; [`GroupKey::tag`] makes the tag over everything before it, with a checksum of 0. A
//! neighbour's entry says: I hear the gateway that started as `boot`; `session` is the number of my
//! conversation with it, `echo` the number that the gateway gave to its conversation with me, 0 if
//! unknown.
//!
//! Hellos to everyone on a link are numbered, 1 to 255 and again from 1; hellos to one station have
//! number 0. `heard` and `lost` count the latest numbered hellos of a neighbour, and `last` is the
//! number of the hello that I heard `age` microseconds ago: so the neighbour learns the loss of the
//! link to me, and the round trip.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ethernet::Mac;
use base::ip::{Checksum, Spec};

use super::Profile;
use super::auth::{GroupKey, HELLO_TAG};

/// Addresses in a hello at most.
pub const MAX_ADDRESSES: usize = 16;
/// Neighbours in a hello at most.
pub const MAX_NEIGHBOURS: usize = 32;

/// All hosts on a link, for IPv4 and IPv6.
const EVERYONE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)),
];
const HEADER: usize = 36;
const KIND: u8 = 0x80;
/// The wire version of our profile; the paper's layout keeps its older version.
const VERSION: u8 = 3;
const VERSION_OF_PAPER: u8 = 2;
const MARK: u8 = 0xff;
const WANTS_ANSWER: u8 = 1;
const GOODBYE: u8 = 2;
const PARTIAL: u8 = 4;
const NEIGHBOUR: usize = 24;
const CHECKSUM: std::ops::Range<usize> = 4..6;

/// A hello: a gateway's description of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The HBH that it runs.
    pub profile: Profile,
    /// Drawn when it started.
    pub boot: u64,
    /// Greater than in all earlier hellos of the sender.
    pub counter: u64,
    /// Whether a hello is asked for in return.
    pub wants_answer: bool,
    /// Whether the sender is about to end.
    pub is_goodbye: bool,
    /// Whether the gateway hears others than these neighbours.
    pub is_partial: bool,
    /// The number of a hello to everyone on a link, 1 to 255 and again from 1; 0 in a hello to a
    /// single station.
    pub number: u8,
    /// The gateway's hardware address on this link.
    pub station: Mac,
    /// The gateway's addresses on this link.
    pub addresses: Vec<IpAddr>,
    /// Whom it hears.
    pub neighbours: Vec<Heard>,
}

/// A hello's entry for a gateway that its sender hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Heard {
    /// Who is heard.
    pub boot: u64,
    /// The hearer's number of the conversation.
    pub session: u32,
    /// The other gateway's number of the conversation, 0 if unknown.
    pub echo: u32,
    /// Reception of the other gateway's hellos.
    pub reception: Reception,
}

/// Reception of a gateway's numbered hellos.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reception {
    /// How many of the latest.
    pub heard: u8,
    /// How many of the latest did not.
    pub lost: u8,
    /// The number of the last, 0 if there was none.
    pub last: u8,
    /// How long ago that was, in microseconds.
    pub age: u32,
}

/// Why octets are not a hello that counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// An address of neither family.
    #[error("address family {0}")]
    Family(u8),
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// The hello has the id of our group key, but no valid tag.
    #[error("forged")]
    Forged,
    /// It has a group key, and we have none.
    #[error("it has a group key, and we have none")]
    Keyed,
    /// It has no group key, and we have one.
    #[error("it has no group key")]
    Keyless,
    /// Some other HBH message.
    #[error("not a hello")]
    Kind,
    /// Its group key is not ours.
    #[error("it has another group key")]
    OtherKey,
    /// A profile that this version does not know.
    #[error("profile {0}")]
    Profile(u8),
    /// More entries than a hello may have.
    #[error("too many entries")]
    TooMany,
    /// There is something behind it.
    #[error("{extra} octets after the hello")]
    Trailing {
        /// How many octets.
        extra: usize,
    },
    /// There are too few octets.
    #[error("cut after {have} octets")]
    Truncated {
        /// What is there.
        have: usize,
    },
    /// Another version of the hello.
    #[error("version {0}")]
    Version(u8),
}

impl Hello {
    /// Whether the payload of an HBH packet is a hello, good or bad.
    #[must_use]
    pub fn is_one(payload: &[u8]) -> bool {
        matches!(payload.first_chunk(), Some(&[KIND, _, 0, 0, _, _, MARK]))
    }

    /// Reads the hello that fills `payload`; given a group key, accepts only a hello with its tag.
    ///
    /// # Errors
    /// When `payload` is no hello, has another version, or is not from our group.
    pub fn parse(payload: &[u8], key: Option<&GroupKey>) -> Result<Self, Malformed> {
        let cut = Malformed::Truncated { have: payload.len() };
        let version = *payload.get(1).ok_or(cut)?;
        if !Self::is_one(payload) {
            return Err(if payload.len() < 7 { cut } else { Malformed::Kind });
        }
        if Checksum::default().with(payload).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        if version != VERSION && version != VERSION_OF_PAPER {
            return Err(Malformed::Version(version));
        }
        let Some((&header, mut rest)) = payload.split_first_chunk::<HEADER>() else {
            return Err(cut);
        };
        let [_, _, _, _, _, _, _, profile, fixed @ ..] = header;
        let [b0, b1, b2, b3, b4, b5, b6, b7, fixed @ ..] = fixed;
        let [c0, c1, c2, c3, c4, c5, c6, c7, fixed @ ..] = fixed;
        let [flags, addresses, neighbours, number, m0, m1, m2, m3, m4, m5, k0, k1] = fixed;
        match (key, u16::from_be_bytes([k0, k1])) {
            (None, 0) => {}
            (None, _) => return Err(Malformed::Keyed),
            (Some(_), 0) => return Err(Malformed::Keyless),
            (Some(key), id) if id != key.id() => return Err(Malformed::OtherKey),
            (Some(key), _) => {
                let (content, tag) = rest.split_last_chunk::<HELLO_TAG>().ok_or(cut)?;
                let mut tagged = payload[..HEADER + content.len()].to_vec();
                tagged[CHECKSUM].fill(0);
                if !key.is_tag(&tagged, tag) {
                    return Err(Malformed::Forged);
                }
                rest = content;
            }
        }
        let profile = match (profile, version) {
            (0, VERSION) => Profile::Default,
            (1, VERSION_OF_PAPER) => Profile::Paper,
            (0 | 1, _) => return Err(Malformed::Version(version)),
            _ => return Err(Malformed::Profile(profile)),
        };
        let (addresses, neighbours) = (usize::from(addresses), usize::from(neighbours));
        if addresses > MAX_ADDRESSES || neighbours > MAX_NEIGHBOURS {
            return Err(Malformed::TooMany);
        }

        let mut hello = Self {
            profile,
            boot: u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            counter: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
            wants_answer: flags & WANTS_ANSWER != 0,
            is_goodbye: flags & GOODBYE != 0,
            is_partial: flags & PARTIAL != 0,
            number,
            station: Mac([m0, m1, m2, m3, m4, m5]),
            addresses: Vec::with_capacity(addresses),
            neighbours: Vec::with_capacity(neighbours),
        };
        for _ in 0..addresses {
            let (&family, after) = rest.split_first().ok_or(cut)?;
            let (address, after) = match family {
                4 => after.split_first_chunk::<4>().map(|(&octets, rest)| (octets.into(), rest)),
                6 => after.split_first_chunk::<16>().map(|(&octets, rest)| (octets.into(), rest)),
                _ => return Err(Malformed::Family(family)),
            }
            .ok_or(cut)?;
            hello.addresses.push(address);
            rest = after;
        }
        for _ in 0..neighbours {
            let (entry, after) = rest.split_first_chunk::<NEIGHBOUR>().ok_or(cut)?;
            hello.neighbours.push(Heard::parse(*entry));
            rest = after;
        }
        if rest.is_empty() { Ok(hello) } else { Err(Malformed::Trailing { extra: rest.len() }) }
    }

    /// Appends the hello as an IP packet of this protocol number, from our first address to the
    /// address of the same version among `theirs`, or else to all hosts on the link; false if we
    /// have no address.
    pub fn emit_packet(
        &self,
        protocol: u8,
        theirs: &[IpAddr],
        key: Option<&GroupKey>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(&own) = self.addresses.first() else { return false };
        let like_ours = |address: &&IpAddr| address.is_ipv4() == own.is_ipv4();
        let everyone = EVERYONE[usize::from(own.is_ipv6())];
        let destination = theirs.iter().find(like_ours).copied().unwrap_or(everyone);
        let mut payload = Vec::with_capacity(256);
        self.emit(key, &mut payload);
        Spec { ttl: 1, ..Spec::new(own, destination, protocol) }.emit(payload.len(), out);
        out.extend_from_slice(&payload);
        true
    }

    /// Appends the hello, with the tag of the group key if there is one; what is too much for one
    /// hello is left out.
    pub fn emit(&self, key: Option<&GroupKey>, out: &mut Vec<u8>) {
        let start = out.len();
        let addresses = &self.addresses[..self.addresses.len().min(MAX_ADDRESSES)];
        let neighbours = &self.neighbours[..self.neighbours.len().min(MAX_NEIGHBOURS)];
        let (profile, version) = match self.profile {
            Profile::Default => (0, VERSION),
            Profile::Paper => (1, VERSION_OF_PAPER),
        };
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.wants_answer, WANTS_ANSWER)
            | flag(self.is_goodbye, GOODBYE)
            | flag(self.is_partial, PARTIAL);
        let count = |len: usize| u8::try_from(len).expect("at most 32");

        out.extend_from_slice(&[KIND, version, 0, 0, 0, 0, MARK, profile]);
        out.extend_from_slice(&self.boot.to_be_bytes());
        out.extend_from_slice(&self.counter.to_be_bytes());
        out.extend_from_slice(&[
            flags,
            count(addresses.len()),
            count(neighbours.len()),
            self.number,
        ]);
        out.extend_from_slice(&self.station.0);
        out.extend_from_slice(&key.map_or(0, GroupKey::id).to_be_bytes());
        for address in addresses {
            match address {
                IpAddr::V4(address) => {
                    out.push(4);
                    out.extend_from_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    out.push(6);
                    out.extend_from_slice(&address.octets());
                }
            }
        }
        for heard in neighbours {
            out.extend_from_slice(&heard.boot.to_be_bytes());
            out.extend_from_slice(&heard.session.to_be_bytes());
            out.extend_from_slice(&heard.echo.to_be_bytes());
            let Reception { heard, lost, last, age } = heard.reception;
            out.extend_from_slice(&[heard, lost, last, 0]);
            out.extend_from_slice(&age.to_be_bytes());
        }
        if let Some(key) = key {
            let tag = key.tag(&out[start..]);
            out.extend_from_slice(&tag);
        }
        let sum = Checksum::default().with(&out[start..]).finish();
        out[start..][CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Heard {
    fn parse(octets: [u8; NEIGHBOUR]) -> Self {
        let [b0, b1, b2, b3, b4, b5, b6, b7, s0, s1, s2, s3, octets @ ..] = octets;
        let [e0, e1, e2, e3, heard, lost, last, _, a0, a1, a2, a3] = octets;
        Self {
            boot: u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            session: u32::from_be_bytes([s0, s1, s2, s3]),
            echo: u32::from_be_bytes([e0, e1, e2, e3]),
            reception: Reception { heard, lost, last, age: u32::from_be_bytes([a0, a1, a2, a3]) },
        }
    }
}
