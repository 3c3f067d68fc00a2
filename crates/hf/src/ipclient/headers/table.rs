//! The networks behind one node, according to the routes of another.
//!
//! ```text
//!   in an announcement, one after the other:
//!      +-----------+----------------------+   kind 0 to 32: IPv4, so many bits count
//!      | kind      | the bits that count, |   64 to 192: IPv6, 64 less bits count
//!      |           | in whole octets      |
//!      +-----------+----------------------+
//! ```

use std::hash::Hasher as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ip::Prefix;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::coder::{Coder, Cut};
use crate::ipclient::route::Route;
use crate::s5066::Address;

/// Networks of each version at most.
const MOST: usize = 8;
/// What the place after the first has when no network of the table holds an address.
const WHOLE: usize = MOST - 1;
/// Bits of a place after the first.
const PLACE_BITS: u32 = 3;
/// Offset of the kinds for IPv6: a kind is this plus the number of bits.
const V6_KINDS: u8 = 64;

/// Networks behind one node: the code for an address in such a network is its host part.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Table {
    v4: Vec<Prefix>,
    v6: Vec<Prefix>,
}

/// Why octets are no table.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoTable {
    /// An entry ends early.
    #[error("the last network is cut")]
    Cut,
    /// The kind tells neither IPv4 nor IPv6, or bits that do not count are set.
    #[error("no network has kind {0}, or its bits beyond are set")]
    Network(u8),
    /// There are more than each end keeps.
    #[error("more than {MOST} networks of a version")]
    TooMany,
}

impl Table {
    /// The first networks that routes lead to this node, of each version.
    #[must_use]
    pub fn of(routes: &[Route], node: Address) -> Self {
        let networks = routes.iter().filter(|route| route.to == node);
        let mut table = Self::default();
        for network in networks.map(|route| route.prefix.network()) {
            // A network of all addresses says nothing of any.
            if network.bits() > 0 {
                // Those beyond the most are no harm: their addresses are written out.
                let _ = table.push(network);
            }
        }
        table
    }

    fn push(&mut self, network: Prefix) -> Result<(), NoTable> {
        let list = if network.address().is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        if list.len() >= MOST {
            return Err(NoTable::TooMany);
        }
        list.push(network);
        Ok(())
    }

    /// Reads the table that fills `octets`.
    ///
    /// # Errors
    /// When they are none.
    pub fn parse(mut octets: &[u8]) -> Result<Self, NoTable> {
        let mut table = Self::default();
        while let Some((&kind, rest)) = octets.split_first() {
            let (bits, mut address) = match kind {
                0..=32 => (kind, vec![0; 4]),
                64..=192 => (kind - V6_KINDS, vec![0; 16]),
                _ => return Err(NoTable::Network(kind)),
            };
            let len = usize::from(bits).div_ceil(8);
            let (said, after) = rest.split_at_checked(len).ok_or(NoTable::Cut)?;
            address[..len].copy_from_slice(said);
            let address = match <[u8; 4]>::try_from(&address[..]) {
                Ok(v4) => IpAddr::from(v4),
                Err(_) => <[u8; 16]>::try_from(&address[..]).map_or(NOWHERE, IpAddr::from),
            };
            let network = Prefix::new(address, bits).map_err(|_| NoTable::Network(kind))?;
            if network != network.network() {
                return Err(NoTable::Network(kind));
            }
            table.push(network)?;
            octets = after;
        }
        Ok(table)
    }

    /// Appends the octets.
    pub fn emit(&self, out: &mut Vec<u8>) {
        for network in self.v4.iter().chain(&self.v6) {
            let len = usize::from(network.bits()).div_ceil(8);
            match network.address() {
                IpAddr::V4(address) => {
                    out.push(network.bits());
                    out.extend_from_slice(&address.octets()[..len]);
                }
                IpAddr::V6(address) => {
                    out.push(V6_KINDS + network.bits());
                    out.extend_from_slice(&address.octets()[..len]);
                }
            }
        }
    }

    /// The table's name, different from the names of others; never 0.
    #[must_use]
    pub fn name(&self) -> u32 {
        let (name, _) = key(&[self]);
        // The lower half of a hash is one.
        u32::try_from(name & u64::from(u32::MAX)).unwrap_or_default().max(1)
    }

    /// Codes an address: by its network, or whole.
    pub(crate) fn code(
        &self,
        coder: &mut impl Coder,
        is_v4: bool,
        address: IpAddr,
    ) -> Result<IpAddr, Cut> {
        let (networks, width) = if is_v4 { (&self.v4, 32) } else { (&self.v6, 128) };
        let holding = networks.iter().enumerate().filter(|(_, network)| network.contains(address));
        let place = holding.max_by_key(|(_, network)| network.bits()).map(|(place, _)| place);
        let place = if networks.is_empty() || coder.flag(place == Some(0))? {
            0
        } else {
            let after = place.and_then(|place| place.checked_sub(1)).unwrap_or(WHOLE);
            coder.small(after, PLACE_BITS)? + 1
        };
        // An address outside the table counts as in the network of all addresses.
        let network = match networks.get(place) {
            Some(network) => *network,
            None if networks.is_empty() || place == WHOLE + 1 => all(is_v4),
            None => return Err(Cut),
        };
        let host_bits = width - u32::from(network.bits());
        let host = Prefix::number(address) & ones(host_bits);
        let host = if is_v4 || host_bits <= 16 {
            coder.bits(host, host_bits)?
        } else if coder.flag(host <= ones(8))? {
            coder.bits(host, 8)?
        } else if coder.flag(host <= ones(16))? {
            coder.bits(host, 16)?
        } else {
            coder.bits(host, host_bits)?
        };
        Ok(match network.address() {
            IpAddr::V4(network) => {
                let host = u32::try_from(host).map_err(|_| Cut)?;
                Ipv4Addr::from_bits(network.to_bits() | host).into()
            }
            IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits() | host).into(),
        })
    }
}

/// What these tables in this order have in common with no others.
pub fn key(tables: &[&Table]) -> (u64, u64) {
    let mut hasher = SipHasher24::new();
    let mut octets = Vec::new();
    for table in tables {
        octets.clear();
        table.emit(&mut octets);
        hasher.write(&(octets.len() as u64).to_be_bytes());
        hasher.write(&octets);
    }
    hasher.finish128().as_u64()
}

const NOWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// The network that holds all addresses of a version.
fn all(is_v4: bool) -> Prefix {
    let address = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { NOWHERE };
    Prefix::new(address, 0).unwrap_or(Prefix::host(address))
}

/// So many low bits.
fn ones(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}
