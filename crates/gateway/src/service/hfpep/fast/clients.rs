//! Counts the connections carried for each client, so that no client takes all places.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hf::hfpep::has_share;

use super::arrivals::source;

/// The clients that have connections, and how many each has.
#[derive(Debug, Default)]
pub struct Clients(BTreeMap<IpAddr, usize>);

impl Clients {
    /// Whether a client may have another of the `free` places.
    pub fn may_add(&self, client: IpAddr, free: usize) -> bool {
        has_share(self.0.get(&source(client)).copied().unwrap_or_default(), free)
    }

    /// A client has another connection.
    pub fn add(&mut self, client: IpAddr) {
        *self.0.entry(source(client)).or_default() += 1;
    }

    /// A connection of a client is over.
    pub fn remove(&mut self, client: IpAddr) {
        let client = source(client);
        if let Some(its) = self.0.get_mut(&client) {
            *its -= 1;
            if *its == 0 {
                self.0.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_forgotten_with_its_last_connection_and_a_network_of_ipv6_is_one() {
        let mut clients = Clients::default();
        let [one, other, v4] = ["fd01::1", "fd01::2", "10.0.0.1"].map(|it| it.parse().unwrap());

        for client in [one, other, other] {
            clients.add(client);
        }

        assert!(!clients.may_add(one, 1) && clients.may_add(one, 2) && clients.may_add(v4, 1));
        for client in [one, one, other] {
            clients.remove(client);
        }
        assert_eq!(clients.0, BTreeMap::new());
        clients.remove(v4);
    }
}
