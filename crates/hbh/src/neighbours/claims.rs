//! Decides which station may have which address.

use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;

use base::ethernet::{Mac, NoMac};

use super::{Neighbours, Place};

/// A neighbour that HBH may be spoken with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Listed {
    /// An address that it has.
    pub address: IpAddr,
    /// The only station that may have the address; if absent, the first station to claim the
    /// address, while up.
    pub station: Option<Mac>,
}

/// Why a text names no neighbour.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotListed {
    /// What should be an IP address is none.
    #[error("{0}")]
    Address(#[from] AddrParseError),
    /// What should be a hardware address is none.
    #[error("{0}")]
    Station(#[from] NoMac),
}

impl FromStr for Listed {
    type Err = NotListed;

    /// Reads `10.0.0.2` or `10.0.0.2 at 02:11:22:33:44:55`.
    fn from_str(text: &str) -> Result<Self, NotListed> {
        Ok(match text.split_once(" at ") {
            None => Self { address: text.trim().parse()?, station: None },
            Some((address, station)) => {
                let station = Some(station.trim().parse()?);
                Self { address: address.trim().parse()?, station }
            }
        })
    }
}

/// Why a station may not have the addresses that it claims.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Unfounded {
    /// A neighbour that is up has one of the addresses.
    Disputed,
    /// The configuration gives one of the addresses to another station.
    Misplaced,
    /// None of the addresses is on the list.
    Unlisted,
}

impl Neighbours {
    pub(super) fn judge(&self, place: Place, addresses: &[IpAddr]) -> Result<(), Unfounded> {
        if let Some(only) = &self.config.only {
            let of = |address: IpAddr| only.iter().filter(move |listed| listed.address == address);
            if !addresses.iter().any(|address| of(*address).next().is_some()) {
                return Err(Unfounded::Unlisted);
            }
            let is_misplaced = |address: &IpAddr| {
                let mut stations = of(*address).filter_map(|listed| listed.station).peekable();
                stations.peek().is_some() && stations.all(|station| station != place.1)
            };
            if addresses.iter().any(is_misplaced) {
                return Err(Unfounded::Misplaced);
            }
        }
        let is_held = |address: &IpAddr| {
            let holder = self.by_address.get(&(place.0, *address));
            holder.and_then(|peer| self.places.get(peer)).is_some_and(|holder| *holder != place)
        };
        if addresses.iter().any(is_held) { Err(Unfounded::Disputed) } else { Ok(()) }
    }
}
