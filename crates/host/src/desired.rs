//! Turns the wishes of services into kernel entries: networks behind their devices, and marked packets led to this
//! host.
//!
//! Most are routes of the main table, where everybody looks for them. In the main table a default route, or a
//! route to a peer's own endpoint, would lead a service into itself; and a route to a network with another
//! program's route would fight with that route. These stand aside, in a table for each service and prefix
//! length:
//!
//! ```text
//!   rule 30672  main table, routes longer than 16 bits
//!   rule 30673  what is not marked: table 51916, the tunnel's routes of 16 bits
//!   rule 30768  main table, routes longer than 0 bits
//!   rule 30769  what is not marked: table 51900, the tunnel's default route
//!   rule 32766  main table
//! ```
//! So the longest of all routes decides as if all stood in one table. Between two routes of the same length
//! ours decides, except for marked packets: packets that the service itself sends outside.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base::ip::Prefix;

use crate::entry::{Entry, Owner, Rule, Table};
use crate::links::DeviceState;
use crate::numbers::{Mark, Numbers};

/// Tables of each service.
const TABLES_EACH: u32 = 200;
/// Rules of each prefix length: two for each service.
const RULES_EACH: u32 = 6;
const LONGEST: u8 = 128;

/// A device of a service, and the networks behind it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DeviceRoutes {
    /// The service that owns the device.
    pub owner: Owner,
    /// The number of the device in front of the networks.
    pub device: u32,
    /// Its name.
    pub name: String,
    /// The device's MTU in octets.
    pub mtu: Option<u32>,
    /// The networks, each with the name of its owner.
    pub routes: Vec<(String, Prefix)>,
    /// Networks that are refused while the service runs: neither the device nor anything else leads there.
    pub blocked: Vec<Prefix>,
    /// The device's own addresses: the kernel makes the routes to their networks.
    pub addresses: Vec<Prefix>,
    /// Where the service itself sends to.
    pub endpoints: BTreeSet<IpAddr>,
    /// Networks with routes of other programs: our routes stand aside, in tables that come first. Empty at first: the
    /// [`crate::Reconciler`] finds these networks.
    pub displaced: BTreeSet<Prefix>,
    /// Whether packets may leave otherwise while the service is gone.
    pub is_open: bool,
    /// Whether errors that the service sends to programs of this host come from this host's own address.
    pub speaks: bool,
}

/// Delivers marked packets to this host, whatever their address, by a rule and a table of routes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lead {
    /// The mark of the packets.
    pub mark: Mark,
    /// The relevant bits of the mark.
    pub mask: u32,
    /// The number of the protocol of the packets.
    pub protocol: u8,
    /// The lead's place among all leads, from which its table and its rule's priority follow.
    pub position: u8,
}

impl Lead {
    /// The kernel entries for one version of IP.
    #[must_use]
    pub fn entries(&self, is_v6: bool) -> [Entry; 2] {
        let table = Table::Own(Numbers::chosen().local_tables + u32::from(self.position));
        let priority = self.priority();
        let rule = Rule::Marked { mark: self.mark.value(), mask: self.mask, table };
        [Entry::Here { is_v6, table }, Entry::Rule { is_v6, priority, rule }]
    }

    /// The priority of the rule.
    #[must_use]
    pub fn priority(&self) -> u32 {
        Numbers::chosen().local_priorities + u32::from(self.position)
    }
}

impl DeviceRoutes {
    /// The kernel entries for the device.
    pub(crate) fn entries(&self) -> BTreeSet<Entry> {
        let device = self.device;
        let states = self.addresses.iter().copied().map(DeviceState::Address);
        let states = states.chain([DeviceState::Up, DeviceState::Group, DeviceState::Queue]);
        let states = states.chain(self.mtu.map(DeviceState::Mtu));
        let mut plan: BTreeSet<_> = states.map(|is| Entry::Device { device, is }).collect();
        // The tunnel's table of default routes is the first; routes of `n` bits stand `n` tables further.
        let Numbers { tables, priorities, .. } = Numbers::chosen();
        let service = u32::from(self.owner.position());
        for to in self.networks() {
            let table = if self.is_aside(&to) {
                let (is_v6, bits) = (to.address().is_ipv6(), to.bits());
                let table = Table::Own(tables + TABLES_EACH * service + u32::from(bits));
                let priority = priorities + RULES_EACH * u32::from(LONGEST - bits) + 2 * service;
                let rule = |more, rule| Entry::Rule { is_v6, priority: priority + more, rule };
                plan.extend([rule(0, Rule::Longer(bits)), rule(1, Rule::Unmarked(table))]);
                table
            } else {
                Table::Main
            };
            let is_blocked = self.blocked.contains(&to);
            if is_blocked || !self.is_open {
                plan.insert(Entry::Unreachable { to, table });
            }
            let is_made =
                table == Table::Main && self.addresses.iter().any(|own| own.network() == to);
            if !is_made && !is_blocked {
                // Otherwise the kernel may choose another address of the device as the source.
                let is_of = |own: &IpAddr| own.is_ipv4() == to.address().is_ipv4();
                let source = self.addresses.iter().map(Prefix::address).find(is_of);
                plan.insert(Entry::Route { to, table, device: self.device, source });
            }
        }
        plan
    }

    /// Whether any route stands aside.
    pub(crate) fn has_rules(&self) -> bool {
        self.networks().any(|network| self.is_aside(&network))
    }

    /// All networks behind the device, and blocked ones.
    pub(crate) fn networks(&self) -> impl Iterator<Item = Prefix> {
        self.routes.iter().map(|(_, route)| route.network()).chain(self.blocked.iter().copied())
    }

    /// Whether a network contains an endpoint: the first endpoint from the network's address on is in the network, or
    /// none is.
    fn has_endpoint_in(&self, to: &Prefix) -> bool {
        let next = self.endpoints.range(to.network().address()..).next();
        next.is_some_and(|endpoint| to.contains(*endpoint))
    }

    /// Whether the route to a network stands in a table of its own.
    pub(crate) fn is_aside(&self, to: &Prefix) -> bool {
        to.bits() == 0 || self.displaced.contains(to) || self.has_endpoint_in(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(routes: &[&str]) -> DeviceRoutes {
        let of_peer = |route: &&str| ("peer".to_owned(), route.parse().unwrap());
        let routes = routes.iter().map(of_peer).collect();
        DeviceRoutes { device: 7, routes, ..DeviceRoutes::default() }
    }

    fn said(wanted: &DeviceRoutes) -> Vec<String> {
        let is_of_device = |entry: &&Entry| matches!(entry, Entry::Device { .. });
        wanted.entries().iter().filter(|it| !is_of_device(it)).map(ToString::to_string).collect()
    }

    #[test]
    fn each_network_has_a_route_and_what_refuses_its_packets_otherwise() {
        let wanted = of(&["10.2.0.0/16", "fd02::/64"]);

        assert_eq!(
            said(&wanted),
            [
                "unreachable 10.2.0.0/16 in table main",
                "unreachable fd02::/64 in table main",
                "route to 10.2.0.0/16 in table main",
                "route to fd02::/64 in table main",
            ]
        );
        assert!(!wanted.has_rules());
    }

    #[test]
    fn nothing_refuses_where_packets_may_leave_otherwise() {
        let wanted = DeviceRoutes { is_open: true, ..of(&["10.2.0.0/16", "0.0.0.0/0"]) };

        assert!(
            said(&wanted).iter().all(|said| !said.contains("unreachable")),
            "{:?}",
            said(&wanted)
        );
    }

    #[test]
    fn a_version_of_ip_that_is_blocked_leads_nowhere_whatever_else_may_leave() {
        for is_open in [false, true] {
            let blocked = vec!["::/0".parse().unwrap()];
            let wanted = DeviceRoutes { blocked, is_open, ..of(&["10.2.0.0/16"]) };

            let said = said(&wanted);
            assert!(said.contains(&"unreachable ::/0 in table 51900".to_owned()), "{said:?}");
            assert!(
                said.contains(&"IPv6 rule 30769: unmarked to table 51900".to_owned()),
                "{said:?}"
            );
            assert!(!said.contains(&"route to ::/0 in table 51900".to_owned()), "{said:?}");
        }
    }

    #[test]
    fn a_network_with_an_endpoint_and_a_default_route_stand_aside() {
        let endpoints = ["192.0.2.2".parse().unwrap()].into();
        let wanted = DeviceRoutes { endpoints, ..of(&["192.0.0.0/16", "10.2.0.0/16", "::/0"]) };

        assert_eq!(
            said(&wanted),
            [
                "unreachable 10.2.0.0/16 in table main",
                "unreachable 192.0.0.0/16 in table 51916",
                "unreachable ::/0 in table 51900",
                "route to 10.2.0.0/16 in table main",
                "route to 192.0.0.0/16 in table 51916",
                "route to ::/0 in table 51900",
                "IPv4 rule 30672: main, longer than 16 bits",
                "IPv4 rule 30673: unmarked to table 51916",
                "IPv6 rule 30768: main, longer than 0 bits",
                "IPv6 rule 30769: unmarked to table 51900",
            ]
        );
        assert!(wanted.has_rules());
    }

    #[test]
    fn a_displaced_network_stands_aside_and_one_of_the_devices_own_is_there() {
        let addresses = vec!["10.9.0.1/24".parse().unwrap()];
        let displaced = ["10.2.0.0/16".parse().unwrap()].into();
        let networks = ["10.2.0.0/16", "10.9.0.0/24"];
        let wanted = DeviceRoutes { addresses, displaced, ..of(&networks) };

        let said = said(&wanted);
        assert!(said.contains(&"route to 10.2.0.0/16 in table 51916".to_owned()), "{said:?}");
        assert!(said.contains(&"unreachable 10.9.0.0/24 in table main".to_owned()), "{said:?}");
        assert!(said.iter().all(|said| !said.contains("route to 10.9")), "{said:?}");
    }

    #[test]
    fn packets_of_this_host_come_from_the_devices_first_address_of_their_version() {
        let addresses = ["10.9.0.1/24", "fd09::1/64", "10.9.0.2/24", "fd09::2/64"];
        let addresses = addresses.map(|it| it.parse().unwrap()).to_vec();
        let wanted = DeviceRoutes { addresses, ..of(&["10.2.0.0/16", "fd02::/64"]) };

        let sources: Vec<_> = wanted
            .entries()
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Route { source, .. } => source,
                _ => None,
            })
            .collect();

        assert_eq!(sources, [IpAddr::from([10, 9, 0, 1]), "fd09::1".parse().unwrap()]);
    }

    #[test]
    fn each_service_has_tables_and_rules_of_its_own_and_the_longest_network_comes_first() {
        let said = |owner, routes: &[&str]| said(&DeviceRoutes { owner, ..of(routes) });
        let rules = |owner| -> Vec<_> {
            let said = said(owner, &["0.0.0.0/0", "::/0"]);
            said.into_iter().filter(|said| said.contains("rule")).collect()
        };

        let [tunnel, client, gre] = [Owner::Tunnel, Owner::IpClient, Owner::Gre].map(rules);
        assert!(tunnel.iter().all(|rule| !client.contains(rule) && !gre.contains(rule)));
        assert!(client.iter().all(|rule| !gre.contains(rule)));
        assert!(
            client.contains(&"IPv4 rule 30771: unmarked to table 52100".to_owned()),
            "{client:?}"
        );
        let plan = |owner, bits| {
            let displaced = [format!("10.0.0.0/{bits}").parse().unwrap()].into();
            DeviceRoutes { owner, displaced, ..of(&[&format!("10.0.0.0/{bits}")]) }.entries()
        };
        let priorities = |owner, bits| -> Vec<u32> {
            let priority = |entry: &Entry| match entry {
                Entry::Rule { priority, .. } => Some(*priority),
                _ => None,
            };
            plan(owner, bits).iter().filter_map(priority).collect()
        };
        assert!(priorities(Owner::Gre, 9).iter().max() < priorities(Owner::Tunnel, 8).iter().min());
    }
}
