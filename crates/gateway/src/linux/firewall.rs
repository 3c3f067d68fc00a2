//! Intercepts frames for neighbours that speak HBH, with the nftables table `trackway`.
//!
//! ```text
//!   egress of a MANET interface        to a neighbour in the set, and not excluded ─▶ our device
//!   ingress of a MANET interface       HBH itself ─▶ dropped: the packet socket has seen it
//! ```
//! The table belongs to its `nft` process, which runs as long as we do. The process ends when the pipe to it
//! closes, however we end, and the kernel then removes the table: traffic is plain again, and nothing stays
//! behind. Nobody else may change the table; if somebody ends the process, another makes the table again as it
//! was.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

use base::ethernet::Mac;
use base::time::Time;
use host::nft::{Owned, TABLE, Told, listed};
use host::numbers::Mark;

/// Mark of the packets that come from us: never intercepted.
pub const MARK: Mark = Mark(0x776b);
/// Mark of packets to targets that the far ends of HF-PEP ask for.
pub const TARGET: Mark = Mark(0x7074);

/// What the kernel must have for the table.
const NEEDS: &str = "Linux 5.16 or newer with NFT_FWD_NETDEV and NETFILTER_EGRESS, and nftables 1.0.1 \
                     or newer built with its command line, are needed";

/// What to intercept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// The IP protocol of HBH.
    pub protocol: u8,
    /// IP protocols that stay plain.
    pub plain_protocols: Vec<u8>,
    /// UDP ports, source or destination, that stay plain.
    pub plain_udp: Vec<u16>,
    /// Neighbours at most on each interface.
    pub limit: usize,
}

/// The table at work.
#[derive(Debug)]
pub struct Firewall {
    plan: Plan,
    table: Owned,
    attached: BTreeMap<usize, Attached>,
}

/// An interface, and the neighbours it intercepts for.
#[derive(Debug)]
struct Attached {
    name: String,
    /// The device for intercepted frames.
    device: String,
    neighbours: BTreeSet<Mac>,
}

impl Firewall {
    /// Makes the table, for interfaces each with its position, its name and the name of the device for
    /// intercepted frames.
    ///
    /// # Errors
    /// When `nft` is missing or refuses.
    pub fn set_up(plan: Plan, interfaces: &[(usize, &str, String)]) -> anyhow::Result<Self> {
        let attached: BTreeMap<_, _> = interfaces
            .iter()
            .map(|(position, name, device)| (*position, Attached::new(name, device)))
            .collect();
        let table = Owned::start("netdev", &plan.script(&attached), NEEDS)?;
        Ok(Self { plan, table, attached })
    }

    /// Adds an interface.
    pub fn attach(&mut self, position: usize, name: &str, device: &str) {
        self.attached.insert(position, Attached::new(name, device));
        self.table.order(&self.plan.attach(position, name, device));
    }

    /// Removes an interface, even if the interface is gone and the kernel has removed part of its chains.
    pub fn detach(&mut self, position: usize) {
        self.attached.remove(&position);
        let mut orders = Vec::new();
        // What is added surely exists, and can be deleted.
        for chain in [format!("egress{position}"), format!("ingress{position}")] {
            orders.push(format!("add chain netdev {TABLE} {chain}"));
            orders.push(format!("delete chain netdev {TABLE} {chain}"));
        }
        orders.push(format!("delete set netdev {TABLE} neighbours{position}"));
        self.table.order(&orders);
    }

    /// Intercepts what leaves for a neighbour on the interface at `position`.
    pub fn add_neighbour(&mut self, position: usize, mac: Mac) {
        if let Some(attached) = self.attached.get_mut(&position) {
            attached.neighbours.insert(mac);
        }
        self.table.order(&[element("add", position, mac)]);
    }

    /// Lets what leaves for a neighbour go plain again.
    pub fn remove_neighbour(&mut self, position: usize, mac: Mac) {
        if let Some(attached) = self.attached.get_mut(&position) {
            attached.neighbours.remove(&mac);
        }
        self.table.order(&[element("delete", position, mac)]);
    }

    /// Takes complaints of `nft`. If somebody has ended it, makes the table again, with the neighbours of now.
    ///
    /// # Errors
    /// When the table cannot be made again, or `nft` ends again and again.
    pub fn handle_ready(&mut self, now: Time) -> anyhow::Result<Told> {
        let Self { plan, table, attached } = self;
        table.handle_ready(now, || plan.script(attached))
    }
}

impl Attached {
    fn new(name: &str, device: &str) -> Self {
        let [name, device] = [name, device].map(str::to_owned);
        Self { name, device, neighbours: BTreeSet::new() }
    }
}

/// The order that adds or deletes a neighbour.
fn element(verb: &str, position: usize, mac: Mac) -> String {
    format!("{verb} element netdev {TABLE} neighbours{position} {{ {mac} }}")
}

impl AsFd for Firewall {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }
}

impl Plan {
    /// The orders that make the table.
    fn script(&self, attached: &BTreeMap<usize, Attached>) -> Vec<String> {
        let mut orders = vec![format!("add table netdev {TABLE} {{ flags owner; }}")];
        for (&position, Attached { name, device, neighbours }) in attached {
            orders.extend(self.attach(position, name, device));
            orders.extend(neighbours.iter().map(|mac| element("add", position, *mac)));
        }
        orders
    }

    /// The orders that add an interface.
    fn attach(&self, position: usize, interface: &str, device: &str) -> Vec<String> {
        let Self { protocol, limit, .. } = self;
        let (set, chain) = (format!("neighbours{position}"), format!("egress{position}"));
        let mut rules = vec![
            format!("ether daddr != @{set} accept"),
            "meta protocol != { ip, ip6 } accept".to_owned(),
            format!("meta l4proto {protocol} accept"),
            // What we send plain ourselves.
            format!("meta mark {MARK:#x} accept"),
            // Neighbour discovery and whatever else stays on the link.
            "icmpv6 type 133-137 accept".to_owned(),
            "ip6 daddr fe80::/10 accept".to_owned(),
        ];
        if !self.plain_protocols.is_empty() {
            let protocols = listed(&self.plain_protocols);
            rules.push(format!("meta l4proto {{ {protocols} }} accept"));
        }
        if !self.plain_udp.is_empty() {
            let ports = listed(&self.plain_udp);
            rules.push(format!("udp sport {{ {ports} }} accept"));
            rules.push(format!("udp dport {{ {ports} }} accept"));
        }
        rules.push(format!("counter fwd to \"{device}\""));

        let mut orders = vec![
            format!("add set netdev {TABLE} {set} {{ type ether_addr; size {limit}; }}"),
            format!(
                "add chain netdev {TABLE} {chain} {{ type filter hook egress device \
                 \"{interface}\" priority 300; policy accept; }}"
            ),
        ];
        orders.extend(rules.iter().map(|rule| format!("add rule netdev {TABLE} {chain} {rule}")));
        let chain = format!("ingress{position}");
        orders.push(format!(
            "add chain netdev {TABLE} {chain} {{ type filter hook ingress device \
             \"{interface}\" priority -450; policy accept; }}"
        ));
        orders
            .push(format!("add rule netdev {TABLE} {chain} meta l4proto {protocol} counter drop"));
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        let plan = Plan {
            protocol: 253,
            plain_protocols: vec![88, 89],
            plain_udp: vec![698, 654],
            limit: 256,
        };

        let expected = [
            r"add table netdev trackway { flags owner; }",
            r"add set netdev trackway neighbours0 { type ether_addr; size 256; }",
            concat!(
                r#"add chain netdev trackway egress0 { type filter hook egress device "wlan0" "#,
                r"priority 300; policy accept; }"
            ),
            r"add rule netdev trackway egress0 ether daddr != @neighbours0 accept",
            r"add rule netdev trackway egress0 meta protocol != { ip, ip6 } accept",
            r"add rule netdev trackway egress0 meta l4proto 253 accept",
            r"add rule netdev trackway egress0 meta mark 0x7472776b accept",
            r"add rule netdev trackway egress0 icmpv6 type 133-137 accept",
            r"add rule netdev trackway egress0 ip6 daddr fe80::/10 accept",
            r"add rule netdev trackway egress0 meta l4proto { 88, 89 } accept",
            r"add rule netdev trackway egress0 udp sport { 698, 654 } accept",
            r"add rule netdev trackway egress0 udp dport { 698, 654 } accept",
            r#"add rule netdev trackway egress0 counter fwd to "trackway0""#,
            concat!(
                r#"add chain netdev trackway ingress0 { type filter hook ingress device "wlan0" "#,
                r"priority -450; policy accept; }"
            ),
            r"add rule netdev trackway ingress0 meta l4proto 253 counter drop",
            r"add element netdev trackway neighbours0 { 02:00:00:00:00:07 }",
        ];
        let mut attached = Attached::new("wlan0", "trackway0");
        attached.neighbours.insert(Mac([2, 0, 0, 0, 0, 7]));
        assert_eq!(plan.script(&[(0, attached)].into()), expected);
    }
}
