//! Finds addresses at which services listen and which the host has lost, and remembers where they were.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::ip::Prefix;
use host::fault::{self, Fault};
use host::links;

use crate::config::Config;
use crate::doctor;

/// Where addresses of listening services were last.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The orders that give the addresses back.
    orders: BTreeMap<IpAddr, String>,
}

impl Places {
    /// The faults now; `own` is the host's addresses, each with its interface and prefix length.
    pub(super) fn faults(&mut self, config: &Config, own: &[(u32, IpAddr, u8)]) -> Vec<Fault> {
        let mut before = std::mem::take(&mut self.orders);
        let mut faults = Vec::new();
        for it in config.used_addresses() {
            let ip = it.at.ip().to_canonical();
            if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() {
                continue;
            }
            let place = own.iter().find(|(_, address, _)| *address == ip);
            let order = match place {
                Some(&(interface, _, bits)) => {
                    match (links::existing_name(interface), Prefix::new(ip, bits)) {
                        (Some(name), Ok(address)) => format!("ip address add {address} dev {name}"),
                        _ => continue,
                    }
                }
                // Several may listen there.
                None => (self.orders.remove(&ip).or_else(|| before.remove(&ip)))
                    .unwrap_or_else(|| doctor::address_order(ip)),
            };
            if place.is_none() {
                let said = format!("{}: `{order}` gives it back", doctor::not_reached(&it));
                faults.push(Fault::new(&fault::LISTEN, said));
            }
            self.orders.insert(ip, order);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_address_is_told_with_the_order_that_gives_it_back_as_it_was() {
        let listen = "[hfpep.bearer]\nlisten = \"192.0.2.7:5099\"\nfrom = [\"192.0.2.9/32\"]\n\
                      [sar]\nlisten = [\"192.0.2.7:1624\", \"[::1]:1624\"]\n";
        let config = Config::parse("a.toml", listen).unwrap();
        let own: IpAddr = "192.0.2.7".parse().unwrap();
        // The only interface that every host has.
        let there = [(1, own, 24)];
        let mut places = Places::default();

        assert_eq!(places.faults(&config, &there), []);
        for _ in 0..2 {
            let faults = places.faults(&config, &[]);
            assert_eq!(faults.len(), 2);
            let order = "`ip address add 192.0.2.7/24 dev lo` gives";
            assert!(faults.iter().all(|fault| fault.said.contains(order)), "{faults:?}");
        }
        assert_eq!(places.faults(&config, &there), []);
    }
}
