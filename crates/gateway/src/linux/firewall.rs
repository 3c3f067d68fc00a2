//! The nftables table `trackway`: what leaves for a neighbour that speaks HBH goes to us instead.
//!
//! ```text
//!   egress of a MANET interface        to a neighbour in the set, and not excluded ─▶ our device
//!   ingress of a MANET interface       HBH itself ─▶ dropped: the packet socket has seen it
//! ```
//! The table belongs to the `nft` process that made it and that runs as long as we do. It ends when
//! the pipe to it closes, however we end, and the kernel removes the table of an owner that is
//! gone: traffic is plain again, and nothing stays behind.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use proto::ethernet::Mac;

/// Name of the table.
pub const TABLE: &str = "trackway";

/// Mark of the packets that come from us: never intercepted.
pub const MARK: u32 = 0x7472_776b;

/// A word that `nft` does not know: its complaint about it means that it has read all before.
const MARKER: &str = "trackway_marker";
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the rest of a complaint may take.
const REST: Duration = Duration::from_millis(100);
/// What `nft` may say before we stop listening.
const SAID: usize = 64 << 10;

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

/// The table, and the process that owns it.
#[derive(Debug)]
pub struct Firewall {
    plan: Plan,
    nft: Child,
    orders: ChildStdin,
    complaints: ChildStderr,
}

impl Firewall {
    /// Makes the table, for interfaces each with its position, its name and that of the device that
    /// intercepted frames go to.
    ///
    /// # Errors
    /// When `nft` is missing or refuses.
    pub fn set_up(plan: Plan, interfaces: &[(usize, &str, String)]) -> anyhow::Result<Self> {
        let mut nft = Command::new("nft")
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Where it cannot leave a history of our orders.
            .env("HOME", "/dev/null")
            // Ctrl-C is for us: neighbours are told before the table goes.
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => anyhow::anyhow!(
                    "the program `nft` is missing: install nftables (`apt install nftables`)"
                ),
                _ => anyhow::anyhow!("cannot start `nft`: {error}"),
            })?;
        let (Some(orders), Some(complaints)) = (nft.stdin.take(), nft.stderr.take()) else {
            bail!("no pipe to `nft`");
        };
        for pipe in [orders.as_fd(), complaints.as_fd()] {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context("pipe to `nft`")?;
        }
        let mut firewall = Self { plan, nft, orders, complaints };
        firewall.order(&firewall.plan.script(interfaces))?;
        firewall.order(&format!("{MARKER}\n"))?;
        let said = firewall.listen_for(MARKER)?;
        ensure!(!said.contains("rror"), "{}", explain(&said));
        Ok(firewall)
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn attach(&mut self, position: usize, name: &str, device: &str) -> anyhow::Result<()> {
        let mut orders = self.plan.attach(position, name, device).join("; ");
        orders.push('\n');
        self.order(&orders)
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
        self.order(&(orders.join("; ") + "\n"))
    }

    /// Intercepts what leaves for a neighbour on the interface at `position`.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn add_neighbour(&mut self, position: usize, mac: Mac) -> anyhow::Result<()> {
        self.order(&format!("add element netdev {TABLE} neighbours{position} {{ {mac} }}\n"))
    }

    /// Lets what leaves for a neighbour go plain again.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn remove_neighbour(&mut self, position: usize, mac: Mac) -> anyhow::Result<()> {
        self.order(&format!("delete element netdev {TABLE} neighbours{position} {{ {mac} }}\n"))
    }

    /// What `nft` has said since it was asked last, which is nothing but complaints.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub fn complaints(&mut self) -> anyhow::Result<String> {
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.complaints.read(&mut buffer) {
                Ok(0) => bail!("`nft` has ended, and the table `{TABLE}` with it"),
                Ok(len) if said.len() < SAID => said.extend_from_slice(&buffer[..len]),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("reading from `nft`"),
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn order(&mut self, order: &str) -> anyhow::Result<()> {
        self.orders.write_all(order.as_bytes()).context("`nft` takes no orders")
    }

    fn listen_for(&mut self, word: &str) -> anyhow::Result<String> {
        let mut said = String::new();
        let deadline = Instant::now() + PATIENCE;
        while !is_complete(&said, word) {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "`nft -i` does not answer");
            let is_heard = said.contains(word);
            let wait = if is_heard { REST } else { left };
            let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
            let ready =
                poll(&mut [PollFd::new(self.complaints.as_fd(), PollFlags::POLLIN)], timeout)?;
            if ready == 0 && is_heard {
                break;
            }
            said += &self.complaints().with_context(|| explain(&said))?;
        }
        // The marker's own complaint comes in several lines; none before it is about the marker.
        let before = said.find(word).unwrap_or(said.len());
        let start = said[..before].rfind("Error: syntax error").unwrap_or(before);
        said.truncate(start);
        Ok(said)
    }
}

impl AsFd for Firewall {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.complaints.as_fd()
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        // Its end takes the table along; waiting means that it is gone when we are.
        let _ = self.orders.write_all(b"quit\n");
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline {
            if !matches!(self.nft.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.nft.kill();
        let _ = self.nft.wait();
    }
}

impl Plan {
    /// The table as one line of orders, which `nft` carries out as a whole or not at all.
    fn script(&self, interfaces: &[(usize, &str, String)]) -> String {
        let mut orders = vec![format!("add table netdev {TABLE} {{ flags owner; }}")];
        for (position, interface, device) in interfaces {
            orders.extend(self.attach(*position, interface, device));
        }
        orders.join("; ") + "\n"
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

/// Numbers as the elements of a set.
fn listed(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether the complaint about `word` has ended, with a line that points at it.
fn is_complete(said: &str, word: &str) -> bool {
    let after = said.split_once(word).map_or("", |(_, after)| after);
    after.split_once('^').is_some_and(|(_, rest)| rest.contains('\n'))
}

/// What to do about a complaint of `nft`.
fn explain(said: &str) -> String {
    let complaint =
        said.lines().find(|line| line.contains("rror")).unwrap_or("no complaint").trim();
    let remedy = if said.contains("not permitted") {
        "root, or the capability CAP_NET_ADMIN, is needed"
    } else if said.contains("exists") || said.contains("busy") {
        "a table `trackway` exists already: another gateway runs here, or `nft delete table netdev \
         trackway` removes it"
    } else {
        "Linux 5.16 or newer with NFT_FWD_NETDEV and NETFILTER_EGRESS, and nftables 1.0.1 or newer \
         built with its command line, are needed"
    };
    format!("cannot make the nftables table `{TABLE}`: {remedy} (nft says: {complaint})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_complete_with_the_line_that_points_at_it() {
        let complaint = "Error: syntax error, unexpected newline\nword\n    ^^^^\n";

        for (end, _) in complaint.char_indices() {
            assert!(!is_complete(&complaint[..end], "word"), "after {end} octets");
        }
        assert!(is_complete(complaint, "word"));
    }

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
        assert_eq!(plan.script(&interfaces), expected.join("; ") + "\n");
    }
}
