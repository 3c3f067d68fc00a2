//! Intercepts frames for neighbours that speak HBH, with the nftables table `trackway`.
//!
//! ```text
//!   egress of a MANET interface        to a neighbour in the set, and not excluded ─▶ our device
//!   ingress of a MANET interface       HBH itself ─▶ dropped: the packet socket has seen it
//! ```
//! The table belongs to the `nft` process that made it and that runs as long as we do. It ends when
//! the pipe to it closes, however we end, and the kernel removes the table of an owner that is
//! gone: traffic is plain again, and nothing stays behind.

use std::os::fd::{AsFd, BorrowedFd};

use base::ethernet::Mac;

use host::nft::{Nft, TABLE};

/// Mark of the packets that come from us: never intercepted.
pub const MARK: u32 = 0x7472_776b;

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
    nft: Nft,
}

impl Firewall {
    /// Makes the table, for interfaces each with its position, its name and the name of the device for
    /// intercepted frames.
    ///
    /// # Errors
    /// When `nft` is missing or refuses.
    pub fn set_up(plan: Plan, interfaces: &[(usize, &str, String)]) -> anyhow::Result<Self> {
        let nft = Nft::start("netdev", &plan.script(interfaces), NEEDS)?;
        Ok(Self { plan, nft })
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn attach(&mut self, position: usize, name: &str, device: &str) -> anyhow::Result<()> {
        self.nft.order(&self.plan.attach(position, name, device))
    }

    /// Removes an interface, also one that is gone, and the kernel has removed half of it.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn detach(&mut self, position: usize) -> anyhow::Result<()> {
        let mut orders = Vec::new();
        // What is added surely exists, and can be deleted.
        for chain in [format!("egress{position}"), format!("ingress{position}")] {
            orders.push(format!("add chain netdev {TABLE} {chain}"));
            orders.push(format!("delete chain netdev {TABLE} {chain}"));
        }
        orders.push(format!("delete set netdev {TABLE} neighbours{position}"));
        self.nft.order(&orders)
    }

    /// Intercepts what leaves for a neighbour on the interface at `position`.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn add_neighbour(&mut self, position: usize, mac: Mac) -> anyhow::Result<()> {
        self.change_neighbours("add", position, mac)
    }

    /// Lets what leaves for a neighbour go plain again.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn remove_neighbour(&mut self, position: usize, mac: Mac) -> anyhow::Result<()> {
        self.change_neighbours("delete", position, mac)
    }

    fn change_neighbours(&mut self, verb: &str, position: usize, mac: Mac) -> anyhow::Result<()> {
        self.nft.order(&[format!("{verb} element netdev {TABLE} neighbours{position} {{ {mac} }}")])
    }

    /// The output of `nft` since the last call: only complaints.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn complaints(&mut self) -> anyhow::Result<String> {
        self.nft.complaints()
    }
}

impl AsFd for Firewall {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.nft.as_fd()
    }
}

impl Plan {
    /// The orders that make the table.
    fn script(&self, interfaces: &[(usize, &str, String)]) -> Vec<String> {
        let mut orders = vec![format!("add table netdev {TABLE} {{ flags owner; }}")];
        for (position, interface, device) in interfaces {
            orders.extend(self.attach(*position, interface, device));
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

/// Formats numbers as the elements of a set.
fn listed(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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
        ];
        let interfaces = [(0, "wlan0", "trackway0".to_owned())];
        assert_eq!(plan.script(&interfaces), expected);
    }
}
