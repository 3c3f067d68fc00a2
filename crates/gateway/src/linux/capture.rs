//! Captures datagrams of other programs, although their addresses are not this host's.
//!
//! ```text
//!   from a LAN ─▶ prerouting: to or from a port, to a far network ─ tproxy ─▶ our listener, with the mark
//!   of this host ─▶ output:   the same ─ mark, so that routing leads it to lo ─▶ prerouting
//! ```
//! Answers have the port as their source, and are taken at the other end in the same way. The table goes with its
//! process, however we end. A second table stays behind the first, and drops datagrams without the mark, which would
//! leave in clear.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base::ip::Prefix;
use base::time::Time;
use host::beside::Carried;
use host::fence::{Content, DROP};
use host::nft::{self, OrdersFor, Told};
use host::numbers::Mark;
use host::{Observer, Owner};

use super::firewall::{MARK as OWN, TARGET};
use super::led::{BEHIND, CAPTURED, Led, pass_others};

/// Name of the table that goes with its process; diverted connections have another table.
const TABLE: OrdersFor = OrdersFor("trackway_carry");
/// Mark by which routing leads packets to this host.
const MARK: Mark = CAPTURED.mark;
const LOOPBACK: &str = "lo";
const NEEDS: &str = "Linux 5.9 or newer with NFT_TPROXY, or its module (`modprobe nft_tproxy`), and nftables 1.0.1 or \
                     newer built with its command line, are needed";

/// What is taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// Datagrams to these networks,
    pub(crate) networks: Vec<Prefix>,
    /// to or from these ports,
    pub(crate) ports: Vec<u16>,
    /// arriving by these interfaces, `lo` for this host's own; none for all.
    pub(crate) interfaces: Vec<String>,
    /// The ports on 127.0.0.1 and `::1` of our listeners; 0 where there is none.
    pub(crate) listeners: [u16; 2],
}

/// The capture at work; dropping it ends the capture.
pub(crate) struct Capture {
    plan: Plan,
    pub(crate) led: Led,
}

impl Capture {
    /// Takes datagrams from now on.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule, with the remedy.
    pub(crate) fn set_up(observer: &Arc<Observer>, plan: Plan) -> anyhow::Result<Self> {
        let script = plan.script();
        let networks = &plan.networks;
        let led = Led::start(observer, Owner::Sar, CAPTURED, networks, plan.shut(), &script)?;
        Ok(Self { plan, led })
    }

    /// Puts back what others have removed, and takes complaints of `nft`.
    ///
    /// # Errors
    /// When the table is gone and cannot be made again, or the kernel cannot be asked.
    pub(crate) fn handle_ready(&mut self, now: Time) -> anyhow::Result<Told> {
        self.led.handle_ready(now, || self.plan.script())
    }
}

impl Plan {
    fn families(&self) -> impl Iterator<Item = IpAddr> {
        let all = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let has = |family: &IpAddr| {
            self.networks.iter().any(|it| it.address().is_ipv4() == family.is_ipv4())
        };
        all.into_iter().filter(has).collect::<Vec<_>>().into_iter()
    }

    /// The orders for the capturing table.
    fn script(&self) -> Vec<String> {
        let mut orders = vec![
            format!("add table inet {} {{ flags owner; }}", TABLE.0),
            TABLE.base_chain("prerouting", "filter", "prerouting priority mangle"),
            TABLE.base_chain("output", "route", "output priority mangle"),
        ];
        orders.extend(passes(TABLE));
        orders.extend([
            TABLE.rule("output", &format!("meta mark {{ {OWN:#x}, {TARGET:#x} }} accept")),
            // Routing has lost the rule for marked packets: they would leave past us.
            TABLE.base_chain("guard", "filter", "postrouting priority mangle"),
            TABLE.rule(
                "guard",
                &format!("meta mark {MARK:#x} oifname != \"{LOOPBACK}\" counter drop"),
            ),
        ]);
        let mark = format!("meta mark set {MARK:#x} accept");
        let take = |name: &str, listener: &str| format!("tproxy {name} to {listener} {mark}");
        orders.extend(self.taking(TABLE, take, &mark));
        orders
    }

    /// The content of the table that stays when the gateway is killed.
    fn shut(&self) -> Content {
        let table = OrdersFor(Owner::Sar.table());
        let mut orders = vec![
            table.base_chain("prerouting", "filter", &format!("prerouting priority {BEHIND}")),
            table.base_chain("output", "filter", &format!("output priority {BEHIND}")),
        ];
        orders.extend(passes(table));
        orders.extend([
            table.rule("prerouting", &format!("meta mark {MARK:#x} accept")),
            table.rule(
                "output",
                &format!("meta mark {{ {OWN:#x}, {TARGET:#x}, {MARK:#x} }} accept"),
            ),
            // Because of this rule, which no packet reaches, the kernel puts fragments together: fragments have no ports.
            table.chain("whole"),
            table.rule("whole", "meta l4proto udp tproxy to :9"),
        ]);
        orders.extend(self.taking(table, |_, _| DROP.to_owned(), DROP));
        let undropped = "datagrams for other gateways leave in clear while S/R stands still";
        // What hosts behind other gateways have sent to hosts here, in clear.
        let which = format!("meta mark {OWN:#x} meta l4proto udp fib saddr type != local");
        let carried = Some(Carried { hook: "postrouting", which, ..Carried::default() });
        Content { orders, undropped, needs: NEEDS, carried, ..Content::default() }
    }

    /// The orders by which a table does `take`, a text for a version of IP and its listener, to incoming packets, and
    /// `take_own` to packets of this host.
    fn taking(
        &self,
        table: OrdersFor,
        take: impl Fn(&str, &str) -> String,
        take_own: &str,
    ) -> Vec<String> {
        let mut orders = Vec::new();
        let ports = nft::listed(&self.ports);
        let from = match &self.interfaces[..] {
            [] => String::new(),
            some => format!("iifname {{ {} }} ", nft::interfaces(some)),
        };
        let takes_own =
            self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == LOOPBACK);
        for family in self.families() {
            let (name, digit, listener) = match family {
                IpAddr::V4(host) => ("ip", 4, format!("{host}:{}", self.listeners[0])),
                IpAddr::V6(host) => ("ip6", 6, format!("[{host}]:{}", self.listeners[1])),
            };
            let has = |it: &&Prefix| it.address().is_ipv4() == family.is_ipv4();
            let networks = self.networks.iter().filter(has).map(|it| it.network().to_string());
            let networks = nft::listed(networks);
            orders.push(format!(
                "add set inet {} far{digit} {{ type ipv{digit}_addr; flags interval; auto-merge; elements = \
                 {{ {networks} }}; }}",
                table.0
            ));
            for end in ["dport", "sport"] {
                let which = format!("{name} daddr @far{digit} udp {end} {{ {ports} }}");
                let take = take(name, &listener);
                orders.push(table.rule("prerouting", &format!("{from}{which} {take}")));
                if takes_own {
                    orders.push(table.rule("output", &format!("{which} {take_own}")));
                }
            }
        }
        orders
    }
}

/// The rules of a table for packets of other services.
fn passes(table: OrdersFor) -> impl Iterator<Item = String> {
    let chains = ["prerouting", "output"].into_iter();
    chains.flat_map(move |chain| pass_others(&CAPTURED).map(move |rule| table.rule(chain, &rule)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_these() {
        let plan = Plan {
            networks: vec!["10.2.0.0/16".parse().unwrap()],
            ports: vec![53, 5_000],
            // The star is part of the name.
            interfaces: vec!["eth0*".to_owned()],
            listeners: [4_711, 0],
        };
        let expected = [
            "add table inet trackway_carry { flags owner; }",
            "add chain inet trackway_carry prerouting { type filter hook prerouting priority mangle; policy accept; }",
            "add chain inet trackway_carry output { type route hook output priority mangle; policy accept; }",
            "add rule inet trackway_carry prerouting meta mark & 0xfffffffe == 0x74727064 accept",
            "add rule inet trackway_carry output meta mark & 0xfffffffe == 0x74727064 accept",
            "add rule inet trackway_carry output meta mark { 0x7472776b, 0x74727074 } accept",
            "add chain inet trackway_carry guard { type filter hook postrouting priority mangle; policy accept; }",
            "add rule inet trackway_carry guard meta mark 0x74727361 oifname != \"lo\" counter drop",
            "add set inet trackway_carry far4 { type ipv4_addr; flags interval; auto-merge; elements = { 10.2.0.0/16 }; }",
            "add rule inet trackway_carry prerouting iifname { \"eth0\\*\" } ip daddr @far4 udp dport { 53, 5000 } tproxy ip \
             to 127.0.0.1:4711 meta mark set 0x74727361 accept",
            "add rule inet trackway_carry prerouting iifname { \"eth0\\*\" } ip daddr @far4 udp sport { 53, 5000 } tproxy ip \
             to 127.0.0.1:4711 meta mark set 0x74727361 accept",
        ];
        assert_eq!(plan.script(), expected);
        let expected = [
            "add chain inet trackway_sar prerouting { type filter hook prerouting priority -99; policy accept; }",
            "add chain inet trackway_sar output { type filter hook output priority -99; policy accept; }",
            "add rule inet trackway_sar prerouting meta mark & 0xfffffffe == 0x74727064 accept",
            "add rule inet trackway_sar output meta mark & 0xfffffffe == 0x74727064 accept",
            "add rule inet trackway_sar prerouting meta mark 0x74727361 accept",
            "add rule inet trackway_sar output meta mark { 0x7472776b, 0x74727074, 0x74727361 } accept",
            "add chain inet trackway_sar whole",
            "add rule inet trackway_sar whole meta l4proto udp tproxy to :9",
            "add set inet trackway_sar far4 { type ipv4_addr; flags interval; auto-merge; elements = { 10.2.0.0/16 }; }",
            "add rule inet trackway_sar prerouting iifname { \"eth0\\*\" } ip daddr @far4 udp dport { 53, 5000 } counter \
             name in-clear drop",
            "add rule inet trackway_sar prerouting iifname { \"eth0\\*\" } ip daddr @far4 udp sport { 53, 5000 } counter \
             name in-clear drop",
        ];
        assert_eq!(plan.shut().orders, expected);
    }
}
