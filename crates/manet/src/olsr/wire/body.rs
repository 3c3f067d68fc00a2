//! The bodies of flooded messages (RFC 3626, 5.1, 9.1 and 12.1).
//!
//! ```text
//!   TC                                MID                 HNA
//!  +---------------+---------------+ +-----------------+ +-----------------+
//!  |     ANSN      |       0       | | other addresses | | network address |
//!  +---------------+---------------+ |  of the node    | +-----------------+
//!  | main addresses of neighbours  | |      ...        | |     netmask     |
//!  |             ...               | |                 | |       ...       |
//! ```

use std::net::Ipv4Addr;

use base::ip::Prefix;

use super::{ADDRESS, Malformed, Seq};

/// Octets of the body of a TC message before the addresses.
pub const TC_HEADER: usize = 4;

/// A list of addresses; all of a MID message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Addresses<'a> {
    whole: &'a [[u8; ADDRESS]],
    rest: &'a [u8],
}

/// The body of a TC: the neighbours that a node announces to all nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tc<'a> {
    /// Grows when the neighbours change.
    pub ansn: Seq,
    /// Their main addresses.
    pub neighbours: Addresses<'a>,
}

/// The networks behind a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hna<'a> {
    whole: &'a [[u8; NETWORK]],
    rest: &'a [u8],
}

/// Octets of a network: its address and its mask.
const NETWORK: usize = 2 * ADDRESS;

impl<'a> Addresses<'a> {
    /// Reads the addresses in `octets`. A cut address at the end does not affect the others.
    #[must_use]
    pub fn parse(octets: &'a [u8]) -> Self {
        let (whole, rest) = octets.as_chunks();
        Self { whole, rest }
    }

    /// The addresses that are whole.
    pub fn iter(&self) -> impl Iterator<Item = Ipv4Addr> + use<'a> {
        self.whole.iter().map(|&octets| octets.into())
    }

    /// Whether a piece of an address follows the last whole one.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Appends addresses.
    pub fn emit(addresses: &[Ipv4Addr], out: &mut Vec<u8>) {
        addresses.iter().for_each(|address| out.extend_from_slice(&address.octets()));
    }
}

impl<'a> Tc<'a> {
    /// Reads the body of a message.
    ///
    /// # Errors
    /// When it is cut before its first address.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let Some((&[a0, a1, _, _], rest)) = octets.split_first_chunk::<TC_HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len(), need: TC_HEADER });
        };
        let ansn = Seq(u16::from_be_bytes([a0, a1]));
        Ok(Self { ansn, neighbours: Addresses::parse(rest) })
    }

    /// Appends the body of a message.
    pub fn emit(ansn: Seq, neighbours: &[Ipv4Addr], out: &mut Vec<u8>) {
        out.extend_from_slice(&ansn.0.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        Addresses::emit(neighbours, out);
    }
}

impl<'a> Hna<'a> {
    /// Reads the networks in the body of a message. An unreadable network does not affect the others: SmartGateways of
    /// olsrd put flags and speeds where the mask of 0.0.0.0 stands.
    #[must_use]
    pub fn parse(octets: &'a [u8]) -> Self {
        let (whole, rest) = octets.as_chunks();
        Self { whole, rest }
    }

    /// The networks, without the bits that do not count; `None` for each whose mask has zeros before
    /// ones.
    pub fn iter(&self) -> impl Iterator<Item = Option<Prefix>> + use<'a> {
        self.whole.iter().map(|octets| {
            let &[a, b, c, d, ..] = octets;
            let mask = mask(octets);
            if mask.leading_ones() + mask.trailing_zeros() < u32::BITS {
                return None;
            }
            let bits = u8::try_from(mask.leading_ones()).ok()?;
            let prefix = Prefix::new(Ipv4Addr::new(a, b, c, d).into(), bits).ok()?;
            Some(prefix.network())
        })
    }

    /// Whether a piece of a network follows the last whole one.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Appends networks of IPv4.
    pub fn emit(networks: &[(Ipv4Addr, u8)], out: &mut Vec<u8>) {
        for (address, bits) in networks {
            let mask = u32::MAX.checked_shl(u32::BITS - u32::from(*bits)).unwrap_or(0);
            out.extend_from_slice(&address.octets());
            out.extend_from_slice(&mask.to_be_bytes());
        }
    }
}

fn mask(network: &[u8; NETWORK]) -> u32 {
    let &[_, _, _, _, a, b, c, d] = network;
    u32::from_be_bytes([a, b, c, d])
}
