//! TCP connections of others that are ended here, though their addresses are not ours.
//!
//! ```text
//!   from a LAN ─▶ prerouting: to a far network ─ tproxy ─▶ our listener, with the mark
//!   of this host ─▶ output:   to a far network ─ mark, so that routing leads it to lo ─▶ prerouting
//!   from a target ─▶ prerouting: to an address that a socket of ours has borrowed ─▶ that socket
//!
//!   ip rule: marked packets ─▶ our table of routes: everything is local
//! ```
//! The nftables table goes with its process, however we end. What a crash leaves of the rest, a rule
//! for a mark that nobody sets, does nothing, and is taken over at the next start.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use nix::libc;
use proto::ip::Prefix;
use tracing::warn;

use super::firewall::MARK as OWN;
use super::netlink::{self, Netlink, Request};
use super::nft::{Nft, TABLE};

/// Mark of the packets that routing is to lead to this host.
const MARK: u32 = 0x7472_7064;
/// Number of our table of routes, and priority of the rule that leads there: before all others.
const ROUTES: u32 = 29_810;
const PRIORITY: u32 = 100;
/// Who made the rule and the routes, as `ip route` shows it.
const PROTOCOL: u8 = 116;
/// Ends of borrowed addresses that are remembered, each for a day after its last packet.
const BORROWED: u32 = 65_536;
const FIXED: usize = 12;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FR_ACT_TO_TBL: u8 = 1;
const NEEDS: &str = "Linux 5.6 or newer with NFT_TPROXY and NFT_SOCKET, or their modules (`modprobe -a \
                     nft_tproxy nft_socket`), and nftables 1.0.1 or newer built with its command \
                     line, are needed";

/// What is diverted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// Connections to these networks.
    pub(crate) networks: Vec<Prefix>,
    /// The interfaces from which connections are taken, `lo` for this host's own; none for all.
    pub(crate) interfaces: Vec<String>,
    /// The ports of our listeners on 127.0.0.1 and `::1`, 0 where there is none.
    pub(crate) ports: [u16; 2],
}

/// The diversion, while it lasts.
#[derive(Debug)]
pub(crate) struct Diversion {
    nft: Nft,
    netlink: Netlink,
    /// An address of each family whose rule and route there are.
    families: Vec<IpAddr>,
}

impl Diversion {
    /// Diverts connections from now on.
    ///
    /// # Errors
    /// When `nft` is missing or refuses, or the kernel takes no rule, with the remedy.
    pub(crate) fn set_up(plan: &Plan) -> anyhow::Result<Self> {
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let nft = Nft::start("inet", &plan.script(), NEEDS)?;
        let mut diversion = Self { nft, netlink, families: Vec::new() };
        for family in plan.families() {
            change(&mut diversion.netlink, family, true)
                .with_context(|| format!("no rule for connections diverted to {family}"))?;
            diversion.families.push(family);
        }
        Ok(diversion)
    }

    /// What `nft` has said since it was asked last, which is nothing but complaints.
    ///
    /// # Errors
    /// When `nft` has ended, and the diversion with it.
    pub(crate) fn complaints(&mut self) -> anyhow::Result<String> {
        self.nft.complaints()
    }
}

impl AsFd for Diversion {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.nft.as_fd()
    }
}

impl Drop for Diversion {
    fn drop(&mut self) {
        for &family in &self.families {
            if let Err(error) = change(&mut self.netlink, family, false) {
                warn!(%error, "the rule for diverted connections is not removed");
            }
        }
    }
}

/// Adds or removes the rule and the route of a family; what is there already may stay.
fn change(netlink: &mut Netlink, family: IpAddr, adds: bool) -> io::Result<()> {
    let flags = if adds { libc::NLM_F_CREATE | libc::NLM_F_EXCL } else { 0 };
    let flags = u16::try_from(flags).unwrap_or_default();
    let pick = |add, remove| if adds { add } else { remove };

    let mut fixed = [0; FIXED];
    fixed[0] = netlink::family(family);
    fixed[7] = FR_ACT_TO_TBL;
    let rule = Request::set(pick(libc::RTM_NEWRULE, libc::RTM_DELRULE), flags, &fixed)
        .with(FRA_PRIORITY, &PRIORITY.to_ne_bytes())
        .with(FRA_FWMARK, &MARK.to_ne_bytes())
        .with(FRA_FWMASK, &u32::MAX.to_ne_bytes())
        .with(FRA_TABLE, &ROUTES.to_ne_bytes());

    let mut fixed = [0; FIXED];
    fixed[0] = netlink::family(family);
    fixed[5] = PROTOCOL;
    fixed[6] = libc::RT_SCOPE_HOST;
    fixed[7] = libc::RTN_LOCAL;
    let loopback = nix::net::if_::if_nametoindex("lo")?;
    let route = Request::set(pick(libc::RTM_NEWROUTE, libc::RTM_DELROUTE), flags, &fixed)
        .with(libc::RTA_TABLE, &ROUTES.to_ne_bytes())
        .with(libc::RTA_OIF, &loopback.to_ne_bytes());

    for request in [rule, route] {
        match netlink.ask(&request, |_| {}) {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EEXIST | libc::ENOENT | libc::ESRCH)
                ) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

impl Plan {
    /// An address of each family that connections are diverted of; a machine may have but one.
    fn families(&self) -> impl Iterator<Item = IpAddr> {
        let families = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        families
            .into_iter()
            .zip(self.ports)
            .filter(|(_, port)| *port != 0)
            .map(|(family, _)| family)
    }

    /// The orders that make the table.
    fn script(&self) -> Vec<String> {
        let rule = |chain: &str, rule: String| format!("add rule inet {TABLE} {chain} {rule}");
        let mut orders = vec![format!("add table inet {TABLE} {{ flags owner; }}")];
        for (set, kind, is_v6) in [("far4", "ipv4_addr", false), ("far6", "ipv6_addr", true)] {
            let networks = self.networks.iter().map(Prefix::network);
            let networks: Vec<_> = networks
                .filter(|network| network.address().is_ipv6() == is_v6)
                .map(|network| network.to_string())
                .collect();
            let elements = match networks.is_empty() {
                true => String::new(),
                false => format!(" elements = {{ {} }};", networks.join(", ")),
            };
            orders.push(format!(
                "add set inet {TABLE} {set} {{ type {kind}; flags interval; auto-merge;{elements} }}"
            ));
            let borrowed = set.replace("far", "borrowed");
            orders.push(format!(
                "add set inet {TABLE} {borrowed} {{ type {kind} . inet_service; size {BORROWED}; flags \
                 dynamic,timeout; timeout 1d; }}"
            ));
        }
        orders.push(format!(
            "add chain inet {TABLE} prerouting {{ type filter hook prerouting priority mangle; \
             policy accept; }}"
        ));
        orders.push(rule("prerouting", "meta l4proto != tcp accept".to_owned()));
        orders.push(rule(
            "prerouting",
            format!("socket transparent 1 socket wildcard 0 meta mark set {MARK:#x} accept"),
        ));
        orders.push(rule(
            "prerouting",
            format!("meta mark != {MARK:#x} fib daddr type local accept"),
        ));
        let from = match &self.interfaces[..] {
            [] => String::new(),
            some => {
                let some: Vec<_> = some.iter().map(|name| format!("\"{name}\"")).collect();
                format!("iifname {{ {} }} ", some.join(", "))
            }
        };
        let [v4, v6] = self.ports;
        let ways = [
            (v4, "ip daddr @far4", format!("ip to 127.0.0.1:{v4}")),
            (v6, "ip6 daddr @far6", format!("ip6 to [::1]:{v6}")),
        ];
        for (_, far, to) in ways.into_iter().filter(|(port, ..)| *port != 0) {
            let what = format!("{from}{far} meta l4proto tcp tproxy {to}");
            orders.push(rule("prerouting", format!("{what} meta mark set {MARK:#x} accept")));
        }
        orders.push(format!(
            "add chain inet {TABLE} output {{ type route hook output priority mangle; policy \
             accept; }}"
        ));
        orders.push(rule("output", "meta l4proto != tcp accept".to_owned()));
        // Answers of this host's own servers to addresses that we have borrowed go out here.
        for (own, set) in [("ip", "borrowed4"), ("ip6", "borrowed6")] {
            orders.push(rule(
                "output",
                format!(
                    "meta mark {OWN:#x} fib saddr type != local update @{set} {{ {own} saddr . tcp \
                     sport }}"
                ),
            ));
        }
        orders.push(rule("output", format!("meta mark {OWN:#x} accept")));
        for (own, set) in [("ip", "borrowed4"), ("ip6", "borrowed6")] {
            let which = format!("{own} daddr . tcp dport @{set}");
            orders.push(rule("output", format!("{which} meta mark set {MARK:#x} accept")));
        }
        for far in ["ip daddr @far4", "ip6 daddr @far6"] {
            orders.push(rule("output", format!("{far} meta mark set {MARK:#x}")));
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        let networks = ["10.9.0.0/16", "fd09::/16"].map(|it| it.parse().expect("a prefix"));
        let plan = Plan {
            networks: networks.to_vec(),
            interfaces: vec!["eth1".to_owned(), "lo".to_owned()],
            ports: [4000, 4001],
        };

        let chain = "policy accept; }";
        let (prerouting, output) =
            ("add rule inet trackway prerouting", "add rule inet trackway output");
        let borrowed = "inet_service; size 65536; flags dynamic,timeout; timeout 1d; }";
        let from = "iifname { \"eth1\", \"lo\" }";
        let expected = [
            "add table inet trackway { flags owner; }".to_owned(),
            "add set inet trackway far4 { type ipv4_addr; flags interval; auto-merge; elements = { \
             10.9.0.0/16 }; }"
                .to_owned(),
            format!("add set inet trackway borrowed4 {{ type ipv4_addr . {borrowed}"),
            "add set inet trackway far6 { type ipv6_addr; flags interval; auto-merge; elements = { \
             fd09::/16 }; }"
                .to_owned(),
            format!("add set inet trackway borrowed6 {{ type ipv6_addr . {borrowed}"),
            format!(
                "add chain inet trackway prerouting {{ type filter hook prerouting priority mangle; \
                 {chain}"
            ),
            format!("{prerouting} meta l4proto != tcp accept"),
            format!(
                "{prerouting} socket transparent 1 socket wildcard 0 meta mark set 0x74727064 accept"
            ),
            format!("{prerouting} meta mark != 0x74727064 fib daddr type local accept"),
            format!(
                "{prerouting} {from} ip daddr @far4 meta l4proto tcp tproxy ip to 127.0.0.1:4000 \
                 meta mark set 0x74727064 accept"
            ),
            format!(
                "{prerouting} {from} ip6 daddr @far6 meta l4proto tcp tproxy ip6 to [::1]:4001 meta \
                 mark set 0x74727064 accept"
            ),
            format!(
                "add chain inet trackway output {{ type route hook output priority mangle; {chain}"
            ),
            format!("{output} meta l4proto != tcp accept"),
            format!(
                "{output} meta mark 0x7472776b fib saddr type != local update @borrowed4 {{ ip saddr \
                 . tcp sport }}"
            ),
            format!(
                "{output} meta mark 0x7472776b fib saddr type != local update @borrowed6 {{ ip6 saddr \
                 . tcp sport }}"
            ),
            format!("{output} meta mark 0x7472776b accept"),
            format!("{output} ip daddr . tcp dport @borrowed4 meta mark set 0x74727064 accept"),
            format!("{output} ip6 daddr . tcp dport @borrowed6 meta mark set 0x74727064 accept"),
            format!("{output} ip daddr @far4 meta mark set 0x74727064"),
            format!("{output} ip6 daddr @far6 meta mark set 0x74727064"),
        ];
        assert_eq!(plan.script(), expected);
    }
}
