//! Which routes and rules the peers' networks need.
//!
//! Most are routes of the main table, where everybody looks for them. One that holds a peer's own
//! endpoint, or a default route, would lead the tunnel into itself there; and one to a network that has
//! another's route would fight with that. These stand aside, in a table for each prefix length:
//!
//! ```text
//!   rule 30224  main table, routes longer than 16 bits
//!   rule 30225  what is not marked: table 51916, our routes of 16 bits
//!   rule 30256  main table, routes longer than 0 bits
//!   rule 30257  what is not marked: table 51900, our default route
//!   rule 32766  main table
//! ```
//! So the longest of all routes decides as if all stood in one table; of two that are as long ours does,
//! but for what is marked: the datagrams of the tunnel itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proto::ip::Prefix;

use super::entry::{Entry, Rule, Table};

/// The table of default routes; one of `n` bits is in the table with `n` added.
const TABLES: u32 = 51_900;
/// The priority of the first rule: before the kernel's for the main table.
const RULES: u32 = 30_000;
const LONGEST: u8 = 128;

/// What the peers' networks are to be.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Wish {
    /// The number of the device that leads to them.
    pub(crate) device: u32,
    /// The networks.
    pub(crate) routes: Vec<Prefix>,
    /// Those that the device has addresses of: the kernel makes the routes.
    pub(crate) own: Vec<Prefix>,
    /// Where the tunnel itself sends to.
    pub(crate) endpoints: BTreeSet<IpAddr>,
    /// Those of the networks that other routes lead to, and that are ours all the same.
    pub(crate) taken: BTreeSet<Prefix>,
    /// Whether packets may leave otherwise while there is no tunnel.
    pub(crate) is_open: bool,
}

impl Wish {
    /// What has to be in the kernel for it.
    pub(crate) fn plan(&self) -> BTreeSet<Entry> {
        let mut plan = BTreeSet::new();
        for route in &self.routes {
            let to = route.network();
            let table = if self.is_aside(&to) {
                let (is_v6, bits) = (to.address().is_ipv6(), to.bits());
                let table = Table::Own(TABLES + u32::from(bits));
                let priority = RULES + 2 * u32::from(LONGEST - bits);
                let rule = |more, rule| Entry::Rule { is_v6, priority: priority + more, rule };
                plan.extend([rule(0, Rule::Longer(bits)), rule(1, Rule::Unmarked(table))]);
                table
            } else {
                Table::Main
            };
            if !self.is_open {
                plan.insert(Entry::Unreachable { to, table });
            }
            let is_made = table == Table::Main && self.own.iter().any(|own| own.network() == to);
            if !is_made {
                plan.insert(Entry::Route { to, table, device: self.device });
            }
        }
        plan
    }

    /// Whether any route stands aside.
    pub(crate) fn has_rules(&self) -> bool {
        self.routes.iter().any(|route| self.is_aside(&route.network()))
    }

    fn is_aside(&self, to: &Prefix) -> bool {
        to.bits() == 0
            || self.taken.contains(to)
            || self.endpoints.iter().any(|endpoint| to.contains(*endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(routes: &[&str]) -> Wish {
        let routes = routes.iter().map(|route| route.parse().unwrap()).collect();
        Wish { device: 7, routes, ..Wish::default() }
    }

    fn said(wish: &Wish) -> Vec<String> {
        wish.plan().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_network_has_a_route_and_what_refuses_its_packets_otherwise() {
        let wish = wish(&["10.2.0.0/16", "fd02::/64"]);

        assert_eq!(
            said(&wish),
            [
                "unreachable 10.2.0.0/16 in table main",
                "unreachable fd02::/64 in table main",
                "route to 10.2.0.0/16 in table main",
                "route to fd02::/64 in table main",
            ]
        );
        assert!(!wish.has_rules());
    }

    #[test]
    fn nothing_refuses_where_packets_may_leave_otherwise() {
        let wish = Wish { is_open: true, ..wish(&["10.2.0.0/16", "0.0.0.0/0"]) };

        assert!(said(&wish).iter().all(|said| !said.contains("unreachable")), "{:?}", said(&wish));
    }

    #[test]
    fn a_network_with_an_endpoint_and_a_default_route_stand_aside() {
        let endpoints = ["192.0.2.2".parse().unwrap()].into();
        let wish = Wish { endpoints, ..wish(&["192.0.0.0/16", "10.2.0.0/16", "::/0"]) };

        assert_eq!(
            said(&wish),
            [
                "unreachable 10.2.0.0/16 in table main",
                "unreachable 192.0.0.0/16 in table 51916",
                "unreachable ::/0 in table 51900",
                "route to 10.2.0.0/16 in table main",
                "route to 192.0.0.0/16 in table 51916",
                "route to ::/0 in table 51900",
                "IPv4 rule 30224: main, longer than 16 bits",
                "IPv4 rule 30225: unmarked to table 51916",
                "IPv6 rule 30256: main, longer than 0 bits",
                "IPv6 rule 30257: unmarked to table 51900",
            ]
        );
        assert!(wish.has_rules());
    }

    #[test]
    fn a_network_that_is_taken_stands_aside_and_one_of_the_devices_own_is_there() {
        let (own, taken) = (vec!["10.9.0.1/24".parse().unwrap()], ["10.2.0.0/16".parse().unwrap()]);
        let wish = Wish { own, taken: taken.into(), ..wish(&["10.2.0.0/16", "10.9.0.0/24"]) };

        let said = said(&wish);
        assert!(said.contains(&"route to 10.2.0.0/16 in table 51916".to_owned()), "{said:?}");
        assert!(said.contains(&"unreachable 10.9.0.0/24 in table main".to_owned()), "{said:?}");
        assert!(said.iter().all(|said| !said.contains("route to 10.9")), "{said:?}");
    }
}
