//! Which routes packets leave by: the kernel notes it in a set, which is read from time to time.
//!
//! ```text
//!   postrouting to a MANET interface ─▶ set of (source, destination), each for a while ─▶ poll
//! ```
//! A packet costs one look-up in the kernel, and no copy of any leaves it. The table belongs to a
//! process that ends with us, and goes with it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base::time::Time;

use host::nft::{self, Owned, TABLE, Told};
use host::numbers::Mark;

/// How often the set is read.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// How long a pair is in the set after its last packet: none is missed between two readings.
const STAYS: Duration = Duration::from_millis(1_500);
/// Most pairs; further pairs are noted when others are gone.
const PAIRS: usize = 4_096;
/// What the kernel must have for the table.
const NEEDS: &str = "nftables 1.0.1 or newer, and a kernel with NF_TABLES_IPV4, are needed";

const SET: &str = "passages";

/// The table that notes them.
#[derive(Debug)]
pub struct Passages {
    table: Owned,
    orders: Vec<String>,
}

impl Passages {
    /// Makes the table. What goes back into `device` with `mark` is dropped: it came from there.
    ///
    /// # Errors
    /// When `nft` is missing or refuses.
    pub fn set_up(
        interfaces: &[String],
        port: u16,
        device: &str,
        mark: Mark,
    ) -> anyhow::Result<Self> {
        let orders = orders(interfaces, port, device, mark);
        Ok(Self { table: Owned::start("ip", &orders, NEEDS)?, orders })
    }

    /// Sources and destinations of the packets that left lately.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn poll() -> io::Result<Vec<(Ipv4Addr, Ipv4Addr)>> {
        Ok(nft::values(SET)?.iter().filter_map(|value| pair(value)).collect())
    }

    /// Takes complaints of `nft`. If somebody has ended it, makes the table again.
    ///
    /// # Errors
    /// When the table cannot be made again, or `nft` ends again and again.
    pub fn handle_ready(&mut self, now: Time) -> anyhow::Result<Told> {
        let Self { table, orders } = self;
        table.handle_ready(now, || orders.clone())
    }
}

impl AsFd for Passages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }
}

/// Reads the pair of addresses from a value of the set.
fn pair(value: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let &[a, b, c, d, e, f, g, h] = value.first_chunk()?;
    Some((Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h)))
}

fn orders(interfaces: &[String], port: u16, device: &str, mark: Mark) -> Vec<String> {
    let rule = |what: &str| format!("add rule ip {TABLE} passing {what}");
    vec![
        format!("add table ip {TABLE} {{ flags owner; }}"),
        format!(
            "add set ip {TABLE} {SET} {{ type ipv4_addr . ipv4_addr; flags dynamic,timeout; \
             timeout {}ms; size {PAIRS}; }}",
            STAYS.as_millis()
        ),
        // After source NAT: the MANET sees the translated addresses.
        format!(
            "add chain ip {TABLE} passing {{ type filter hook postrouting priority 300; policy accept; }}"
        ),
        rule(&format!("oifname \"{device}\" meta mark {mark:#x} counter drop")),
        rule(&format!("oifname != {{ {} }} accept", nft::interfaces(interfaces))),
        rule(&format!("udp dport {port} accept")),
        rule("ip daddr { 224.0.0.0/4, 255.255.255.255 } accept"),
        rule(&format!("update @{SET} {{ ip saddr . ip daddr }}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        // The star is part of the name.
        let interfaces = ["wlan0".to_owned(), "wlan*".to_owned()];

        let orders = orders(&interfaces, 654, "trackway-aodv0", Mark(7));

        let expected = [
            "add table ip trackway { flags owner; }",
            concat!(
                "add set ip trackway passages { type ipv4_addr . ipv4_addr; flags dynamic,timeout; ",
                "timeout 1500ms; size 4096; }"
            ),
            concat!(
                "add chain ip trackway passing { type filter hook postrouting priority 300; ",
                "policy accept; }"
            ),
            "add rule ip trackway passing oifname \"trackway-aodv0\" meta mark 0x74720007 counter drop",
            "add rule ip trackway passing oifname != { \"wlan0\", \"wlan\\*\" } accept",
            "add rule ip trackway passing udp dport 654 accept",
            "add rule ip trackway passing ip daddr { 224.0.0.0/4, 255.255.255.255 } accept",
            "add rule ip trackway passing update @passages { ip saddr . ip daddr }",
        ];
        assert_eq!(orders, expected);
    }

    #[test]
    fn a_value_is_a_pair_of_addresses() {
        let value = [10, 0, 0, 1, 10, 0, 0, 2];

        assert_eq!(pair(&value), Some(([10, 0, 0, 1].into(), [10, 0, 0, 2].into())));
        assert_eq!(pair(&value[..7]), None);
    }
}
