//! How gateways find each other: the hello, an HBH message that HBH itself ignores.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +---------------+---------------+-------------------------------+
//!  |     0x80      |  version = 1  |          FlowID = 0           |  the HBH header of a HAM
//!  +---------------+---------------+---------------+---------------+
//!  |            checksum           |     0xff      |    profile    |  0 default, 1 seed
//!  +-------------------------------+---------------+---------------+
//!  |                             boot                              |  drawn at each start
//!  +---------------+---------------+---------------+---------------+
//!  |     flags     |   addresses   |  neighbours   |       0       |  flag 1 answer me, 2 goodbye
//!  +---------------+---------------+---------------+---------------+
//!  addresses times:   family (1: 4 or 6), address (4 or 16)
//!  neighbours times:  boot (4), session (2), echo (2)
//! ```
//! It is the payload of an IP packet of HBH's protocol. The checksum is the Internet's, over all
//! of it. A neighbour's entry says: I hear the gateway that started as `boot`; `session` is the
//! number of my conversation with it, `echo` the number that it gave to its one with me, 0 when I
//! do not know it.

use std::net::IpAddr;

use proto::hbh::Profile;
use proto::ip::Checksum;

/// Addresses in a hello at most.
pub const MAX_ADDRESSES: usize = 16;
/// Neighbours in a hello at most.
pub const MAX_NEIGHBOURS: usize = 64;

const HEADER: usize = 16;
const KIND: u8 = 0x80;
const VERSION: u8 = 1;
const MARK: u8 = 0xff;
const WANTS_ANSWER: u8 = 1;
const GOODBYE: u8 = 2;
const NEIGHBOUR: usize = 8;

/// What a gateway says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The HBH that it runs.
    pub profile: Profile,
    /// Drawn when it started.
    pub boot: u32,
    /// Whether a hello is asked for in return.
    pub wants_answer: bool,
    /// Whether it is about to end.
    pub is_goodbye: bool,
    /// Its addresses on this link.
    pub addresses: Vec<IpAddr>,
    /// Whom it hears.
    pub neighbours: Vec<Heard>,
}

/// A gateway that another one hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Heard {
    /// Who is heard.
    pub boot: u32,
    /// The hearer's number of the conversation.
    pub session: u16,
    /// The other's number of it, 0 if unknown.
    pub echo: u16,
}

/// Why octets are not a hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// An address of neither family.
    #[error("address family {0}")]
    Family(u8),
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// Some other HBH message.
    #[error("not a hello")]
    Kind,
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

    /// Reads the hello that fills `payload`.
    ///
    /// # Errors
    /// When it is none, or one of another version.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let Some((&header, mut rest)) = payload.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: payload.len() });
        };
        if !Self::is_one(payload) {
            return Err(Malformed::Kind);
        }
        if Checksum::default().with(payload).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        let [_, version, _, _, _, _, _, profile, b0, b1, b2, b3, flags, addresses, neighbours, _] =
            header;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let profile = match profile {
            0 => Profile::Default,
            1 => Profile::Seed,
            _ => return Err(Malformed::Profile(profile)),
        };
        let (addresses, neighbours) = (usize::from(addresses), usize::from(neighbours));
        if addresses > MAX_ADDRESSES || neighbours > MAX_NEIGHBOURS {
            return Err(Malformed::TooMany);
        }

        let cut = Malformed::Truncated { have: payload.len() };
        let mut hello = Self {
            profile,
            boot: u32::from_be_bytes([b0, b1, b2, b3]),
            wants_answer: flags & WANTS_ANSWER != 0,
            is_goodbye: flags & GOODBYE != 0,
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
            let (&[b0, b1, b2, b3, s0, s1, e0, e1], after) =
                rest.split_first_chunk::<NEIGHBOUR>().ok_or(cut)?;
            hello.neighbours.push(Heard {
                boot: u32::from_be_bytes([b0, b1, b2, b3]),
                session: u16::from_be_bytes([s0, s1]),
                echo: u16::from_be_bytes([e0, e1]),
            });
            rest = after;
        }
        if rest.is_empty() { Ok(hello) } else { Err(Malformed::Trailing { extra: rest.len() }) }
    }

    /// Appends the hello; what is too much for one is left out.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let addresses = &self.addresses[..self.addresses.len().min(MAX_ADDRESSES)];
        let neighbours = &self.neighbours[..self.neighbours.len().min(MAX_NEIGHBOURS)];
        let profile = match self.profile {
            Profile::Default => 0,
            Profile::Seed => 1,
        };
        let wants_answer = if self.wants_answer { WANTS_ANSWER } else { 0 };
        let goodbye = if self.is_goodbye { GOODBYE } else { 0 };
        let count = |len: usize| u8::try_from(len).expect("at most 64");

        out.extend_from_slice(&[KIND, VERSION, 0, 0, 0, 0, MARK, profile]);
        out.extend_from_slice(&self.boot.to_be_bytes());
        let counts = [count(addresses.len()), count(neighbours.len())];
        out.extend_from_slice(&[wants_answer | goodbye, counts[0], counts[1], 0]);
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
        }
        let sum = Checksum::default().with(&out[start..]).finish();
        out[start + 4..start + 6].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hello_is_these_octets() {
        let hello = Hello {
            profile: Profile::Seed,
            boot: 0x0102_0304,
            wants_answer: true,
            is_goodbye: false,
            addresses: vec![IpAddr::from([192, 0, 2, 1])],
            neighbours: vec![Heard { boot: 0x0506_0708, session: 9, echo: 10 }],
        };

        let mut octets = Vec::new();
        hello.emit(&mut octets);

        let expected = [
            0x80, 1, 0, 0, 0x54, 0x27, 0xff, 1, 1, 2, 3, 4, 1, 1, 1, 0, 4, 192, 0, 2, 1, 5, 6, 7,
            8, 0, 9, 0, 10,
        ];
        assert_eq!(octets, expected, "{octets:02x?}");
        assert_eq!(Hello::parse(&octets), Ok(hello));
    }

    #[test]
    fn what_is_not_a_hello_says_why() {
        let mut octets = Vec::new();
        example().emit(&mut octets);

        let changed = |at: usize, to: u8| {
            let mut octets = octets.clone();
            octets[at] = to;
            octets[4..6].fill(0);
            let sum = Checksum::default().with(&octets).finish();
            octets[4..6].copy_from_slice(&sum.to_be_bytes());
            Hello::parse(&octets).unwrap_err()
        };
        assert_eq!(changed(0, 0), Malformed::Kind);
        assert_eq!(changed(1, 2), Malformed::Version(2));
        assert_eq!(changed(7, 7), Malformed::Profile(7));
        assert_eq!(changed(13, 17), Malformed::TooMany);
        assert_eq!(changed(13, 16), Malformed::Family(0));
        assert_eq!(changed(14, 0), Malformed::Trailing { extra: 8 });
        assert_eq!(Hello::parse(&octets[..9]), Err(Malformed::Truncated { have: 9 }));
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(hello in any_hello()) {
            let mut octets = Vec::new();
            hello.emit(&mut octets);

            prop_assert!(Hello::is_one(&octets));
            prop_assert_eq!(Hello::parse(&octets), Ok(hello));
        }

        #[test]
        fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Hello::parse(&octets);
        }

        #[test]
        fn a_flipped_bit_is_noticed(hello in any_hello(), at in any::<prop::sample::Index>()) {
            let mut octets = Vec::new();
            hello.emit(&mut octets);
            let at = at.index(octets.len() * 8);
            octets[at / 8] ^= 1 << (at % 8);

            prop_assert!(Hello::parse(&octets).is_err());
        }
    }

    fn example() -> Hello {
        Hello {
            profile: Profile::Default,
            boot: 7,
            wants_answer: false,
            is_goodbye: true,
            addresses: vec![IpAddr::from([0; 16])],
            neighbours: vec![Heard { boot: 0, session: 0, echo: 0 }],
        }
    }

    fn any_hello() -> impl Strategy<Value = Hello> {
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from),
        ];
        let heard = any::<(u32, u16, u16)>().prop_map(|(boot, session, echo)| Heard {
            boot,
            session,
            echo,
        });
        let addresses = prop::collection::vec(address, 0..=MAX_ADDRESSES);
        let neighbours = prop::collection::vec(heard, 0..=MAX_NEIGHBOURS);
        (any::<(bool, bool, bool, u32)>(), addresses, neighbours).prop_map(
            |((is_seed, wants_answer, is_goodbye, boot), addresses, neighbours)| Hello {
                profile: if is_seed { Profile::Seed } else { Profile::Default },
                boot,
                wants_answer,
                is_goodbye,
                addresses,
                neighbours,
            },
        )
    }
}
