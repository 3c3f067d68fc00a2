//! The body of a HELLO (RFC 3626, 6.1).
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-------------------------------+---------------+---------------+
//!  |               0               |     Htime     |  willingness  |
//!  +---------------+---------------+---------------+---------------+  once for each kind of link:
//!  |0 0 0 0|nb |lnk|       0       |             size              |  of all of the block
//!  +---------------+---------------+-------------------------------+
//!  |                addresses of neighbours' interfaces            |
//! ```
//! `lnk` is the link type, `nb` the neighbour type.

use std::net::Ipv4Addr;

use super::{Addresses, Interval, Malformed};

/// Octets of the body before the first block.
pub const HELLO_HEADER: usize = 4;
/// Octets of a block before the addresses.
pub const BLOCK_HEADER: usize = 4;

/// The body of a HELLO: the links of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello<'a> {
    /// After what time it sends the next HELLO on the interface.
    pub interval: Interval,
    /// How willing it is to carry for others, 0 to 7.
    pub willingness: u8,
    blocks: &'a [u8],
}

/// Neighbours of one kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block<'a> {
    /// Of which kind.
    pub code: LinkCode,
    /// Their addresses.
    pub addresses: Addresses<'a>,
}

/// The link and neighbour type of a neighbour in a HELLO.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LinkCode {
    /// Type of the link to the neighbour on the interface.
    pub link: LinkType,
    /// Of the neighbour, whatever the interface.
    pub neighbour: NeighbourType,
}

/// What a link is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LinkType {
    /// Nothing is said of it.
    Unspecified,
    /// The neighbour is heard.
    Asymmetric,
    /// Both hear each other.
    Symmetric,
    /// The neighbour is not heard any more.
    Lost,
}

/// What a neighbour is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NeighbourType {
    /// The neighbour has no symmetric link.
    Not,
    /// The neighbour has a symmetric link.
    Symmetric,
    /// The same, and it was chosen as a multipoint relay.
    Mpr,
}

impl LinkCode {
    /// What the octet says; `None` when that has no meaning.
    #[must_use]
    pub fn parse(octet: u8) -> Option<Self> {
        let link = match octet & 3 {
            0 => LinkType::Unspecified,
            1 => LinkType::Asymmetric,
            2 => LinkType::Symmetric,
            _ => LinkType::Lost,
        };
        let neighbour = match octet >> 2 {
            0 => NeighbourType::Not,
            1 => NeighbourType::Symmetric,
            2 => NeighbourType::Mpr,
            _ => return None,
        };
        // A symmetric link is to a symmetric neighbour.
        let contradicts = (link, neighbour) == (LinkType::Symmetric, NeighbourType::Not);
        (!contradicts).then_some(Self { link, neighbour })
    }

    /// The octet.
    #[must_use]
    pub fn octet(self) -> u8 {
        let link = match self.link {
            LinkType::Unspecified => 0,
            LinkType::Asymmetric => 1,
            LinkType::Symmetric => 2,
            LinkType::Lost => 3,
        };
        let neighbour = match self.neighbour {
            NeighbourType::Not => 0,
            NeighbourType::Symmetric => 1,
            NeighbourType::Mpr => 2,
        };
        neighbour << 2 | link
    }
}

impl<'a> Hello<'a> {
    /// Reads the body of a message.
    ///
    /// # Errors
    /// When it is cut before its first block.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let Some((&[_, _, interval, willingness], blocks)) =
            octets.split_first_chunk::<HELLO_HEADER>()
        else {
            return Err(Malformed::Truncated { have: octets.len(), need: HELLO_HEADER });
        };
        Ok(Self { interval: Interval(interval), willingness, blocks })
    }

    /// The blocks, without unreadable ones: see [`strange`](Self::strange).
    pub fn blocks(&self) -> impl Iterator<Item = Block<'a>> + use<'a> {
        self.split().filter_map(|block| {
            let (code, addresses) = block.ok()?;
            Some(Block { code: LinkCode::parse(code)?, addresses })
        })
    }

    /// Counts blocks of a meaningless kind, blocks with a cut last address, and anything behind a block of an
    /// impossible size, because the next block could begin anywhere.
    #[must_use]
    pub fn strange(&self) -> usize {
        let is_strange = |block: &Result<(u8, Addresses<'_>), Malformed>| {
            block
                .as_ref()
                .map_or(true, |(code, them)| LinkCode::parse(*code).is_none() || them.is_cut())
        };
        self.split().filter(is_strange).count()
    }

    /// The kinds of the blocks and their addresses; the first block that cannot be read is the last.
    fn split(&self) -> impl Iterator<Item = Result<(u8, Addresses<'a>), Malformed>> + use<'a> {
        let mut rest = self.blocks;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let block = split_block(rest);
            rest = block.as_ref().map_or(&[], |(_, _, others)| others);
            Some(block.map(|(code, addresses, _)| (code, addresses)))
        })
    }

    /// Appends the body of a message; consecutive neighbours with the same code share a block.
    ///
    /// # Panics
    /// When a block is longer than 65,535 octets.
    pub fn emit(
        interval: Interval,
        willingness: u8,
        neighbours: &[(LinkCode, Ipv4Addr)],
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&[0, 0, interval.0, willingness]);
        for block in neighbours.chunk_by(|a, b| a.0 == b.0) {
            let size = BLOCK_HEADER + super::ADDRESS * block.len();
            let size = u16::try_from(size).expect("a block fits a packet");
            out.extend_from_slice(&[block[0].0.octet(), 0]);
            out.extend_from_slice(&size.to_be_bytes());
            block.iter().for_each(|(_, address)| out.extend_from_slice(&address.octets()));
        }
    }
}

/// Splits off the first block: returns its code and addresses, and the other blocks.
fn split_block(octets: &[u8]) -> Result<(u8, Addresses<'_>, &[u8]), Malformed> {
    let have = octets.len();
    let Some(&[code, _, s0, s1]) = octets.first_chunk::<BLOCK_HEADER>() else {
        return Err(Malformed::Truncated { have, need: BLOCK_HEADER });
    };
    let claimed = usize::from(u16::from_be_bytes([s0, s1]));
    let (Some((block, rest)), true) = (octets.split_at_checked(claimed), claimed >= BLOCK_HEADER)
    else {
        return Err(Malformed::Length { claimed, have });
    };
    Ok((code, Addresses::parse(&block[BLOCK_HEADER..]), rest))
}
