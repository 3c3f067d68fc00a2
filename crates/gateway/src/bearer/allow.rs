//! Decides which clients may connect to a port without passwords.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use base::ip::Prefix;

/// Connections of one other host at most, twice the number of access points: one host cannot keep others out.
const PER_HOST: usize = 32;
/// Refused hosts that are named in the log; further ones are only counted.
const TOLD: usize = 1_024;

/// The networks that clients may come from; this host's own programs always may.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allow(Vec<Prefix>);

/// A client that was turned away before anything of it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TurnedAway {
    /// The host already has the maximum number of connections.
    #[error("{0} has {PER_HOST} connections already")]
    Crowd(IpAddr),
    /// The host's address lies in none of the allowed networks.
    #[error("{0} is not among those who are allowed: {remedy}", remedy = remedy(*.0))]
    Stranger(IpAddr),
}

/// Admits clients, and records the clients turned away.
#[derive(Debug, Default)]
pub struct Door {
    allow: Allow,
    /// Of whom it was told.
    told: BTreeSet<(IpAddr, bool)>,
    untold: Vec<TurnedAway>,
}

impl Allow {
    /// This host and these networks.
    #[must_use]
    pub fn networks(networks: Vec<Prefix>) -> Self {
        Self(networks)
    }

    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

impl Door {
    pub fn set(&mut self, allow: Allow) {
        self.allow = allow;
        // Whoever is turned away from now on is so for another reason.
        self.told.clear();
    }

    /// Why a client is refused, if it is refused: judged by its own address, the address called, and the number
    /// of connections of its host.
    pub fn check(&mut self, [from, to]: [IpAddr; 2], connections: usize) -> Result<(), TurnedAway> {
        let [from, to] = [from, to].map(|address| address.to_canonical());
        if from.is_loopback() || from == to || is_ours(from) {
            return Ok(());
        }
        let turned_away = if !self.allow.has(from) {
            TurnedAway::Stranger(from)
        } else if connections >= PER_HOST {
            TurnedAway::Crowd(from)
        } else {
            return Ok(());
        };
        let is_stranger = matches!(turned_away, TurnedAway::Stranger(_));
        if self.told.len() < TOLD && self.told.insert((from, is_stranger)) {
            self.untold.push(turned_away);
        }
        Err(turned_away)
    }

    /// The next refused host to be logged.
    pub fn poll(&mut self) -> Option<TurnedAway> {
        (!self.untold.is_empty()).then(|| self.untold.remove(0))
    }
}

fn remedy(address: IpAddr) -> String {
    format!("allow = \"{}\" lets it in", Prefix::host(address))
}

/// Whether an address belongs to this host: only then does the kernel use the address itself as the source
/// towards it. Nothing is sent.
fn is_ours(address: IpAddr) -> bool {
    let anywhere = match address {
        IpAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        IpAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    // Any port does, the discard service's among them.
    let reached = UdpSocket::bind(anywhere).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    reached.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn this_host_always_comes_in_and_others_from_the_networks_told() {
        let mut door = Door::default();
        let here = address("198.51.100.1");
        let mut check = |from: &str, connections| door.check([address(from), here], connections);

        for ours in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "198.51.100.1"] {
            assert_eq!(check(ours, 10_000), Ok(()), "{ours}");
        }
        for other in ["198.51.100.2", "::ffff:198.51.100.2", "2001:db8::2"] {
            let other_address = address(other).to_canonical();
            assert_eq!(check(other, 0), Err(TurnedAway::Stranger(other_address)), "{other}");
        }

        let networks = ["198.51.100.0/24", "2001:db8::/32"].map(|it| it.parse().unwrap());
        door.set(Allow::networks(networks.into()));
        let mut check = |from: &str, connections| door.check([address(from), here], connections);
        for let_in in ["198.51.100.2", "::ffff:198.51.100.2", "2001:db8::2", "127.0.0.1"] {
            assert_eq!(check(let_in, PER_HOST - 1), Ok(()), "{let_in}");
        }
        let crowd = TurnedAway::Crowd(address("198.51.100.2"));
        assert_eq!(check("198.51.100.2", PER_HOST), Err(crowd));
        let stranger = TurnedAway::Stranger(address("203.0.113.1"));
        assert_eq!(check("203.0.113.1", 0), Err(stranger));
        assert_eq!(
            stranger.to_string(),
            "203.0.113.1 is not among those who are allowed: allow = \"203.0.113.1/32\" lets it in"
        );
    }

    #[test]
    fn it_is_told_once_of_each_host_and_of_no_more_than_are_remembered() {
        let mut door = Door::default();
        for host in 0..TOLD + 10 {
            let [high, low] = u16::try_from(host).unwrap().to_be_bytes();
            for _ in 0..3 {
                let from = IpAddr::from([198, 18, high, low]);
                assert!(door.check([from, address("198.51.100.1")], 0).is_err());
            }
        }

        assert_eq!(std::iter::from_fn(|| door.poll()).count(), TOLD);
    }
}
