//! Runs an `nft` process that owns a table: the table ends with the process.
//!
//! ```text
//!   orders, a line each ─▶ nft -i ─▶ table `trackway` of a family
//!                             └─▶ complaints
//! ```
//! The process ends when its pipe closes, however we end. The kernel then removes the table, because its owner is gone:
//! nothing stays behind.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use base::budget::Budget;
use base::ip::Prefix;
use base::time::Time;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::SockProtocol;
use tracing::{debug, warn};

use crate::netlink::{self, Kernel, Message, Monitor, Request};

/// Name of the table.
pub const TABLE: &str = "trackway";

/// A word unknown to `nft`: the complaint about the word shows that `nft` has read all orders before.
const MARKER: &str = "trackway_marker";
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the rest of a complaint may take.
const REST: Duration = Duration::from_millis(100);
/// Most restarts at once after others have ended our program, and the interval of further restarts.
const STARTS: u32 = 10;
const START_INTERVAL: Duration = Duration::from_secs(6);
const NFT_OBJECT_COUNTER: u32 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_DATA_VALUE: u16 = 1;
/// `NLA_F_NESTED`: the value of an attribute consists of attributes.
const NESTED: u16 = 0x8000;
const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
const NFTA_OBJ_DATA: u16 = 4;
const NFTA_COUNTER_BYTES: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;
/// `NFNLGRP_NFTABLES`.
const GROUP_OF_TABLES: u32 = 1 << (7 - 1);
/// The attribute of each message to and from nftables with the name of the table.
pub(crate) const NFTA_TABLE: u16 = 1;
/// What `nft` may say before we stop listening.
const SAID: usize = 64 << 10;

/// Carries out all or none of the orders for tables of a family. The tables outlive the `nft` process.
///
/// # Errors
/// When `nft` is missing or refuses; `needs` says what the kernel must have for this table.
pub fn apply(family: &str, orders: &[String], needs: &str) -> anyhow::Result<()> {
    let mut process = spawn(&["-f", "-"])?;
    let mut input = process.stdin.take().context("no pipe to `nft`")?;
    // `nft` reads all input before it acts, and prints little.
    let written = input.write_all((orders.join("\n") + "\n").as_bytes());
    drop(input);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match process.try_wait().context("waiting for `nft`")? {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            None => {
                let _ = process.kill();
                break process.wait().context("waiting for `nft`")?;
            }
        }
    };
    let mut said = Vec::new();
    if let Some(complaints) = process.stderr.take() {
        complaints.take(SAID as u64).read_to_end(&mut said).context("reading from `nft`")?;
    }
    ensure!(
        status.success() && written.is_ok(),
        "{}",
        explain(&String::from_utf8_lossy(&said), family, needs)
    );
    Ok(())
}

/// Formats values as elements of a set.
#[must_use]
pub fn listed(all: impl IntoIterator<Item = impl ToString>) -> String {
    all.into_iter().map(|it| it.to_string()).collect::<Vec<_>>().join(", ")
}

/// Makes orders about a table of the family `inet`.
#[derive(Clone, Copy, Debug)]
pub struct OrdersFor(pub &'static str);

impl OrdersFor {
    /// The order that adds a chain with a hook of the kernel.
    #[must_use]
    pub fn base_chain(self, name: &str, kind: &str, hook: &str) -> String {
        let chain = self.chain(name);
        format!("{chain} {{ type {kind} hook {hook}; policy accept; }}")
    }

    /// The order that adds a chain without a hook: other chains jump to it.
    #[must_use]
    pub fn chain(self, name: &str) -> String {
        format!("add chain inet {} {name}", self.0)
    }

    /// The order that adds a rule to a chain.
    #[must_use]
    pub fn rule(self, chain: &str, rule: &str) -> String {
        format!("add rule inet {} {chain} {rule}", self.0)
    }
}

/// Names of interfaces as elements of a set; stars in names are escaped, so they match stars alone.
#[must_use]
pub fn interfaces<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    listed(names.into_iter().map(|name| format!("\"{}\"", name.replace('*', "\\*"))))
}

/// The networks of a version of IP that are contained in no other one: `nft` takes no address twice in a set.
#[must_use]
pub fn widest<'n>(networks: impl IntoIterator<Item = &'n Prefix>, is_v4: bool) -> Vec<Prefix> {
    let its = networks.into_iter().filter(|it| it.address().is_ipv4() == is_v4);
    let mut sorted: Vec<Prefix> = its.map(Prefix::network).collect();
    // The order puts each network behind the networks that contain it.
    sorted.sort_unstable_by_key(|it| (it.address(), it.bits()));
    let mut widest: Vec<Prefix> = Vec::new();
    for network in sorted {
        if !widest.last().is_some_and(|it| it.contains(network.address())) {
            widest.push(network);
        }
    }
    widest
}

/// Starts `nft` with pipes for orders and complaints.
fn spawn(arguments: &[&str]) -> anyhow::Result<Child> {
    Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // A home where `nft` cannot leave a history of our orders.
        .env("HOME", "/dev/null")
        // Ctrl-C is for us: neighbours are told before the table goes. For the same reason it keeps the signals blocked
        // that we block: `systemctl stop` sends SIGTERM to all processes of a service.
        .process_group(0)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow::anyhow!(
                "the program `nft` is missing: install nftables (`apt install nftables`)"
            ),
            _ => anyhow::anyhow!("the program `nft` cannot be started: {error}"),
        })
}

/// A table of ours that goes with us, however we end. If others end the `nft` process, a new one makes the table again.
#[derive(Debug)]
pub struct Owned {
    family: &'static str,
    needs: &'static str,
    process: Child,
    orders: ChildStdin,
    complaints: ChildStderr,
    /// Restarts at once after others have ended the program.
    starts: Budget,
}

/// News of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Told {
    /// The program complains.
    Complaints(String),
    /// The program had ended, and the table with it: another program has made it again.
    MadeAgain,
}

impl Owned {
    /// Makes the table of a family by carrying out all orders, or none.
    ///
    /// # Errors
    /// When `nft` is missing or refuses; `needs` says what the kernel must have for this table.
    pub fn start(
        family: &'static str,
        orders: &[String],
        needs: &'static str,
    ) -> anyhow::Result<Self> {
        let mut process = spawn(&["-i"])?;
        let (Some(input), Some(complaints)) = (process.stdin.take(), process.stderr.take()) else {
            bail!("no pipe to `nft`");
        };
        for pipe in [input.as_fd(), complaints.as_fd()] {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context("pipe to `nft`")?;
        }
        let starts = Budget::new(Time::ZERO, STARTS, START_INTERVAL);
        let mut owned = Self { family, needs, process, orders: input, complaints, starts };
        owned.change(orders, None)?;
        Ok(owned)
    }

    /// Changes the table by carrying out all orders or none, and waits for the result. `needs` as for [`Self::start`], if
    /// these orders need something else.
    ///
    /// # Errors
    /// When `nft` has ended or refuses. A program that does not answer is ended: it must not carry out the orders later,
    /// and [`Self::handle_ready`] makes the table again.
    pub fn change(&mut self, orders: &[String], needs: Option<&str>) -> anyhow::Result<()> {
        let given = self.write(&orders.join("; ")).and_then(|()| self.write(MARKER));
        let said = given.and_then(|()| self.listen_for(MARKER)).inspect_err(|_| self.end())?;
        let needs = needs.unwrap_or(self.needs);
        ensure!(!said.contains("rror"), "{}", explain(&said, self.family, needs));
        Ok(())
    }

    /// Gives orders without waiting; errors appear among the complaints of `nft`. A program that takes no orders is ended,
    /// and [`Self::handle_ready`] makes the table again.
    pub fn order(&mut self, orders: &[String]) {
        if let Err(why) = self.write(&orders.join("; ")) {
            debug!(why = %format!("{why:#}"), "`nft` takes no orders, and is ended");
            self.end();
        }
    }

    /// Takes complaints of the program. If it has ended, makes the table by the orders `whole`.
    ///
    /// # Errors
    /// When the table cannot be made again, or its program ends again and again.
    pub fn handle_ready(
        &mut self,
        now: Time,
        whole: impl FnOnce() -> Vec<String>,
    ) -> anyhow::Result<Told> {
        let why = match self.complaints() {
            Ok(complaints) => return Ok(Told::Complaints(complaints)),
            Err(why) => why,
        };
        if !self.starts.spend(now) {
            return Err(why.context("again and again"));
        }
        self.end();
        let mut again = Self::start(self.family, &whole(), self.needs)?;
        again.starts = self.starts;
        *self = again;
        warn!(why = %format!("{why:#}"), family = self.family, "the table is made again");
        Ok(Told::MadeAgain)
    }

    /// The output of `nft` since the last call: only complaints. An error if it has ended.
    fn complaints(&mut self) -> anyhow::Result<String> {
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

    fn write(&mut self, line: &str) -> anyhow::Result<()> {
        let line = format!("{line}\n");
        let mut rest = line.as_bytes();
        let deadline = Instant::now() + PATIENCE;
        while !rest.is_empty() {
            match self.orders.write(rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    ensure!(!left.is_zero(), "`nft -i` takes no orders");
                    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
                    poll(&mut [PollFd::new(self.orders.as_fd(), PollFlags::POLLOUT)], timeout)?;
                }
                Err(error) => return Err(error).context("`nft` takes no orders"),
            }
        }
        Ok(())
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
            said += &self.complaints().with_context(|| said.clone())?;
        }
        // The marker's own complaint comes in several lines; none before it is about the marker.
        let before = said.find(word).unwrap_or(said.len());
        let start = said[..before].rfind("Error: syntax error").unwrap_or(before);
        said.truncate(start);
        Ok(said)
    }

    /// Ends the program at once, and the table with it.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl AsFd for Owned {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.complaints.as_fd()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The table goes when the process ends: after the wait, no table is left behind us.
        let _ = self.orders.write_all(b"quit\n");
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end();
    }
}

/// `NFT_MSG_DELTABLE`, `…DELCHAIN`, `…DELRULE` and `…DELSET` (`linux/netfilter/nf_tables.h`).
pub(crate) const REMOVALS: [u16; 4] = [0x0a02, 0x0a05, 0x0a08, 0x0a0b];
/// `NFT_MSG_NEWTABLE`, `…NEWCHAIN` and `…NEWRULE`.
pub(crate) const ADDITIONS: [u16; 3] = [0x0a00, 0x0a03, 0x0a06];

/// Hears of changes of nftables.
///
/// # Errors
/// When there are no descriptors left, the kernel has no nftables, or the right is missing.
pub(crate) fn monitor() -> io::Result<Monitor> {
    Monitor::open_for(SockProtocol::NetlinkNetFilter, GROUP_OF_TABLES)
}

/// The name of the table in a notice that tables, chains, rules or sets were removed or added.
pub(crate) fn table_of(message: Message<'_>) -> Option<&[u8]> {
    let is_change = REMOVALS.contains(&message.kind) || ADDITIONS.contains(&message.kind);
    message.attribute(FIXED, NFTA_TABLE).filter(|_| is_change)?.strip_suffix(b"\0")
}

/// Octets of `struct nfgenmsg`.
pub(crate) const FIXED: usize = 4;

/// `struct nfgenmsg` of the family `inet`: with a version, and a number that is not used.
pub(crate) const INET: [u8; FIXED] = [1, 0, 0, 0];

/// The same of the family `ip`.
const IP: [u8; FIXED] = [2, 0, 0, 0];

/// Names the table that a request is about.
pub(crate) fn about(table: &str, request: Request) -> Request {
    request.with(NFTA_TABLE, format!("{table}\0").as_bytes())
}

/// The type of a message to nftables, `NFT_MSG_…`.
pub(crate) fn kind(message: i32) -> u16 {
    u16::try_from(libc::NFNL_SUBSYS_NFTABLES << 8 | message).unwrap_or_default()
}

/// The counters of a table of the family `inet`: name, packets and octets of each.
///
/// # Errors
/// When the kernel does not tell.
pub fn counters(table: &str) -> io::Result<Vec<(String, u64, u64)>> {
    let request = about(table, Request::dump(kind(libc::NFT_MSG_GETOBJ), &INET))
        .with(NFTA_OBJ_TYPE, &NFT_OBJECT_COUNTER.to_be_bytes());
    let mut netlink = Kernel::open_to(SockProtocol::NetlinkNetFilter)?;
    netlink.dump(&request, |message, found| {
        let name = message.attribute(FIXED, NFTA_OBJ_NAME);
        let Some((name, data)) = name.zip(message.attribute(FIXED, NFTA_OBJ_DATA)) else { return };
        let number = |wanted| {
            let value = netlink::attributes(data).find(|(kind, _)| *kind == wanted);
            let octets = value.and_then(|(_, value)| value.first_chunk());
            octets.map_or(0, |&octets| u64::from_be_bytes(octets))
        };
        let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name));
        let counted = (name.into_owned(), number(NFTA_COUNTER_PACKETS), number(NFTA_COUNTER_BYTES));
        found.push(counted);
    })
}

/// Adds a counter to a table of the family `inet`.
///
/// # Errors
/// When the kernel does not take it.
pub(crate) fn add_counter(table: &str, name: &str) -> io::Result<()> {
    let flags = u16::try_from(libc::NLM_F_CREATE).unwrap_or_default();
    let request = about(table, Request::set(kind(libc::NFT_MSG_NEWOBJ), flags, &INET))
        .with(NFTA_OBJ_NAME, format!("{name}\0").as_bytes())
        .with(NFTA_OBJ_TYPE, &NFT_OBJECT_COUNTER.to_be_bytes())
        .with(NFTA_OBJ_DATA, &[]);
    let mut netlink = Kernel::open_to(SockProtocol::NetlinkNetFilter)?;
    netlink.ask_in_batch(libc::NFNL_SUBSYS_NFTABLES, &request)
}

/// The values in a set of [`TABLE`] of the family `ip`.
///
/// # Errors
/// When the kernel does not tell.
pub fn values(set: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut found = elements(IP, set, TABLE)?;
    found.iter_mut().for_each(|key| *key = value(key).unwrap_or_default().to_vec());
    Ok(found)
}

/// The value of an element's key.
fn value(key: &[u8]) -> Option<&[u8]> {
    netlink::attributes(key).find_map(|(kind, it)| (kind == NFTA_DATA_VALUE).then_some(it))
}

/// The keys of a set's elements, in the kernel's octets.
fn elements(family: [u8; FIXED], set: &str, table: &str) -> io::Result<Vec<Vec<u8>>> {
    let its = |wanted: u16| move |(kind, _): &(u16, &[u8])| *kind == wanted;
    let all = of_set(set, table, Request::dump(kind(libc::NFT_MSG_GETSETELEM), &family));
    Kernel::open_to(SockProtocol::NetlinkNetFilter)?.dump(&all, |message, found| {
        let lists = message.attributes(FIXED).filter(its(NFTA_SET_ELEM_LIST_ELEMENTS));
        let elements = lists.flat_map(|(_, list)| netlink::attributes(list));
        let keys =
            elements.filter_map(|(_, it)| netlink::attributes(it).find(its(NFTA_SET_ELEM_KEY)));
        found.extend(keys.map(|(_, key)| key.to_vec()));
    })
}

/// Names the set that a request is about.
fn of_set(set: &str, table: &str, request: Request) -> Request {
    about(table, request).with(NFTA_SET_ELEM_LIST_SET, format!("{set}\0").as_bytes())
}

/// Elements given to the kernel in one order.
const ELEMENTS: usize = 500;

/// Gives a set of one table of the family `inet` the elements of the set of the same name in another one, if that is
/// there.
///
/// # Errors
/// When the kernel does not tell or take them.
pub(crate) fn copy_elements(set: &str, from: &str, to: &str) -> io::Result<()> {
    let keys = match elements(INET, set, from) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
        found => found?,
    };
    let mut netlink = Kernel::open_to(SockProtocol::NetlinkNetFilter)?;
    for keys in keys.chunks(ELEMENTS) {
        let element = |key: &Vec<u8>| {
            let key = netlink::attribute(NFTA_SET_ELEM_KEY | NESTED, key);
            netlink::attribute(NFTA_LIST_ELEM | NESTED, &key)
        };
        let list: Vec<u8> = keys.iter().flat_map(element).collect();
        let flags = u16::try_from(libc::NLM_F_CREATE).unwrap_or_default();
        let order = of_set(set, to, Request::set(kind(libc::NFT_MSG_NEWSETELEM), flags, &INET));
        let order = order.with(NFTA_SET_ELEM_LIST_ELEMENTS | NESTED, &list);
        netlink.ask_in_batch(libc::NFNL_SUBSYS_NFTABLES, &order)?;
    }
    Ok(())
}

/// Whether the complaint about `word` has ended, with a line that points at it.
fn is_complete(said: &str, word: &str) -> bool {
    let after = said.split_once(word).map_or("", |(_, after)| after);
    after.split_once('^').is_some_and(|(_, rest)| rest.contains('\n'))
}

/// Turns a complaint of `nft` into advice.
fn explain(said: &str, family: &str, needs: &str) -> String {
    let complaint =
        said.lines().find(|line| line.contains("rror")).unwrap_or("no complaint").trim();
    let remedy = if said.contains("not permitted") {
        "root, or the capability CAP_NET_ADMIN, is needed".to_owned()
    } else if said.contains("exists") || said.contains("busy") {
        format!(
            "a table `{TABLE}` exists already: another gateway runs here, or `nft delete table \
             {family} {TABLE}` removes it"
        )
    } else {
        needs.to_owned()
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
    fn a_key_of_a_set_has_its_value() {
        let key = netlink::attribute(NFTA_DATA_VALUE, &[10, 0, 0, 1]);

        assert_eq!(value(&key), Some(&[10, 0, 0, 1][..]));
        assert!((0..key.len()).all(|cut| value(&key[..cut]).is_none()));
    }
}
