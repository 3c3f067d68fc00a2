//! Listens to the kernel's notices of changes on the host: one subscription for all services of a process.
//!
//! ```text
//!   kernel ── links, addresses, routes, rules, neighbours, settings, traffic control, nftables, policies of IPsec
//!      │
//!      ▼            ┌▶ addresses and reverse path filters as they are now, for everybody
//!   Observer, a thread
//!                   └▶ a Subscription of each service: notices that wait, and a descriptor to poll
//! ```
//! Routes are not remembered: Linux removes IPv4 routes without a notice when a device or an address goes. A service
//! asks for its own routes, and the kernel filters them by protocol number or table. Whether any route leads to an
//! address is remembered until the next notice.
//!
//! Notices that the kernel or a slow service could not store are replaced by one fact: something was lost. The observer
//! then reads addresses and settings anew, and each service compares all its wanted entries with the kernel's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use base::ip::Prefix;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::SockProtocol;
use tracing::{debug, warn};

use crate::beside::{Beside, Wall};
use crate::entry::Owner;
use crate::links;
use crate::netlink::{self, Kernel, Message, Monitor, Request};
use crate::nft;
use crate::routes::{NextHop, Routes};

/// The most notices that wait for one service, and the most octets of waiting notices.
const WAITING: usize = 4_096;
const OCTETS: usize = 4 << 20;
/// Datagrams read from one socket before the other has its turn.
const READS: usize = 256;
/// Until broken sockets are opened again.
const RETRY: Duration = Duration::from_secs(1);
/// Octets of notices that the kernel stores for us, if it lets us choose.
const STORED: usize = 2 << 20;

/// `struct netconfmsg`, padded, and its attributes (`linux/netconf.h`).
const NETCONF_FIXED: usize = 4;
// Of linux/rtnetlink.h; libc has it for glibc alone.
const RTM_DELNETCONF: u16 = 81;
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_IFINDEX_ALL: i32 = -1;

/// `NETLINK_XFRM`, which nix does not name, has the number of TCP.
const IPSEC: SockProtocol = SockProtocol::Tcp;
/// `XFRMNLGRP_POLICY` (`linux/xfrm.h`).
const POLICIES: u32 = 4;
/// All kinds of notices about traffic control.
const TRAFFIC_CONTROL: RangeInclusive<u16> = libc::RTM_NEWQDISC..=libc::RTM_GETACTION;

/// Which notices a subscription is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Links, addresses, routes, rules, settings and next hops; removals from the traffic control of devices.
    Host,
    /// The same without traffic control; removals of nftables, and additions to tables of ours.
    HostAndTables,
    /// Links and neighbours; IPv4's addresses, routes and settings.
    Neighbourhood,
    /// Whatever may be in the way of packets: links, addresses, routes, rules and settings, and all of nftables, of traffic
    /// control and of IPsec's policies.
    Obstacles,
}

/// Listens for changes of the host until dropped.
#[derive(Debug)]
pub struct Observer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The notices for one service. Its descriptor is readable while some wait.
#[derive(Debug)]
pub struct Subscription(Arc<Queue>);

#[derive(Debug)]
struct Shared {
    queues: Mutex<Vec<Weak<Queue>>>,
    facts: Mutex<Facts>,
    beside: Mutex<Beside>,
    ways: Mutex<Ways>,
    /// The networks behind each service's devices in its last run: a restarting service still owns these networks.
    networks: Mutex<BTreeMap<u8, BTreeSet<Prefix>>>,
    end: EventFd,
}

/// Answers of [`Observer::has_way`] since the last notice.
#[derive(Debug)]
struct Ways {
    routes: Routes,
    known: BTreeMap<IpAddr, bool>,
}

/// The known state of the host.
#[derive(Debug, Default)]
struct Facts {
    /// Interface, address and prefix length.
    addresses: BTreeSet<(u32, IpAddr, u8)>,
    /// The reverse path filters of IPv4, by interface; -1 is `all`.
    reverse_path_filters: BTreeMap<i32, u32>,
}

#[derive(Debug)]
struct Queue {
    interest: Interest,
    waiting: Mutex<Waiting>,
    event: EventFd,
}

#[derive(Debug, Default)]
struct Waiting {
    notices: VecDeque<Arc<Notice>>,
    octets: usize,
    is_lossy: bool,
}

#[derive(Debug)]
struct Notice {
    kind: u16,
    body: Box<[u8]>,
}

/// The sockets of the thread.
struct Sockets {
    routes: Monitor,
    /// Absent without nftables in the kernel, or without the right to hear of it.
    tables: Option<Monitor>,
    /// Of IPsec: absent likewise.
    policies: Option<Monitor>,
}

impl Observer {
    /// Starts listening for changes. The configuration has `named` networks next to this host.
    ///
    /// # Errors
    /// When there are no descriptors left, the kernel cannot be asked, or no thread can be started.
    pub fn start(named: &BTreeSet<Prefix>) -> anyhow::Result<Arc<Self>> {
        let sockets = Sockets::open().context("cannot hear of changes")?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let end = EventFd::from_value_and_flags(0, flags).context("cannot make an event")?;
        let facts = Facts::read().context("cannot ask the kernel")?;
        let routes = Routes::open().context("cannot ask for routes")?;
        let beside = Beside::new(named).context("cannot ask for addresses")?;
        let beside = Mutex::new(beside);
        let facts = Mutex::new(facts);
        let ways = Mutex::new(Ways { routes, known: BTreeMap::new() });
        let (queues, networks) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { queues, facts, beside, ways, networks, end });
        let its = Arc::clone(&shared);
        let thread = thread::Builder::new().name("observer".to_owned());
        let thread = thread.spawn(move || its.hear(sockets)).context("cannot start a thread")?;
        Ok(Arc::new(Self { shared, thread: Some(thread) }))
    }

    /// Subscribes to notices from now on.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn subscribe(&self, interest: Interest) -> anyhow::Result<Subscription> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags).context("cannot hear of changes")?;
        let queue = Arc::new(Queue { interest, waiting: Mutex::default(), event });
        lock(&self.shared.queues).push(Arc::downgrade(&queue));
        Ok(Subscription(queue))
    }

    /// All addresses of this host, whatever the interface.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        lock(&self.shared.facts).addresses.iter().map(|&(_, address, _)| address).collect()
    }

    /// All addresses of this host: interface number, address, prefix length.
    #[must_use]
    pub fn places(&self) -> Vec<(u32, IpAddr, u8)> {
        lock(&self.shared.facts).addresses.iter().copied().collect()
    }

    /// The numbers of interfaces with a strict reverse path filter: an IPv4 packet is dropped if its answer would leave
    /// by another interface.
    #[must_use]
    pub fn strict_interfaces(&self) -> Vec<u32> {
        let facts = lock(&self.shared.facts);
        let filters = &facts.reverse_path_filters;
        let of_all = filters.get(&NETCONFA_IFINDEX_ALL).copied().unwrap_or(0);
        // The greater of both counts.
        let strict = filters.iter().filter(|&(_, its)| of_all.max(*its) == 1);
        strict.filter_map(|(index, _)| u32::try_from(*index).ok()).collect()
    }

    /// Whether a route leads this host's own packets to an address.
    #[must_use]
    pub fn has_way(&self, to: IpAddr) -> bool {
        let Ways { routes, known } = &mut *lock(&self.shared.ways);
        *known.entry(to).or_insert_with(|| routes.towards(to) != NextHop::Nowhere)
    }

    /// Which packets may leave by no uplink, because networks next to this host are theirs; and how often that has
    /// changed.
    pub(crate) fn wall(&self) -> (Arc<Wall>, u64) {
        let mut beside = lock(&self.shared.beside);
        // If the kernel does not answer, another change follows, so that the wall is asked for again.
        let changes = beside.changes();
        (beside.wall(), changes)
    }

    /// How often the wall may have changed.
    pub(crate) fn wall_changes(&self) -> u64 {
        lock(&self.shared.beside).changes()
    }

    /// Walls networks that a configuration names, before services follow it.
    pub fn name_networks(&self, named: &BTreeSet<Prefix>) {
        lock(&self.shared.beside).name(named);
    }

    /// Forgets networks in which this host has no address any more. Networks that the configuration has `named` stay.
    pub fn forget_networks(&self, named: &BTreeSet<Prefix>) {
        if let Err(error) = lock(&self.shared.beside).forget(named) {
            warn!(%error, "addresses of this host are not read");
        }
        // All compare their wishes with the host again.
        self.shared.each_queue(Queue::lose);
    }

    /// The networks behind a service's devices in its last run.
    pub(crate) fn networks(&self, owner: Owner) -> BTreeSet<Prefix> {
        lock(&self.shared.networks).get(&owner.position()).cloned().unwrap_or_default()
    }

    /// Notes the networks behind a service's devices.
    pub(crate) fn note_networks(&self, owner: Owner, networks: BTreeSet<Prefix>) {
        lock(&self.shared.networks).insert(owner.position(), networks);
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.shared.end.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Subscription {
    /// Takes all waiting notices; returns whether firewalls may have changed: nftables, traffic control or IPsec.
    pub fn skip(&mut self) -> bool {
        let mut has_walls = false;
        let is_lossy = self.read(usize::MAX, |message| {
            let is_control = TRAFFIC_CONTROL.contains(&message.kind);
            has_walls |= is_control || nft::table_of(message).is_some();
        });
        has_walls || is_lossy
    }

    /// Calls `each` with up to `most` waiting notices; returns whether any was lost.
    pub fn read(&mut self, most: usize, mut each: impl FnMut(Message<'_>)) -> bool {
        let (notices, is_lossy) = self.0.take(most);
        notices.iter().for_each(|it| each(Message::new(it.kind, &it.body)));
        is_lossy
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl Shared {
    /// Hears of changes until told to end.
    fn hear(&self, sockets: Sockets) {
        let mut sockets = Some(sockets);
        loop {
            let is_over = match &mut sockets {
                Some(open) => match self.hear_some(open) {
                    Ok(is_over) => is_over,
                    Err(error) => {
                        warn!(%error, "changes on this host are not heard: tried again");
                        sockets = None;
                        false
                    }
                },
                None => {
                    let is_over = is_ready(&self.end, RETRY);
                    sockets = Sockets::open().ok();
                    if sockets.is_some() {
                        debug!("changes are heard again");
                        self.recover();
                    }
                    is_over
                }
            };
            if is_over {
                return;
            }
        }
    }

    /// Waits for changes and passes them on; returns whether this was told to end.
    fn hear_some(&self, sockets: &mut Sockets) -> io::Result<bool> {
        let mut fds = vec![
            PollFd::new(self.end.as_fd(), PollFlags::POLLIN),
            PollFd::new(sockets.routes.as_fd(), PollFlags::POLLIN),
        ];
        // A socket that is absent is never ready.
        let others = [&sockets.tables, &sockets.policies];
        let others = others.map(|it| it.as_ref().map_or(self.end.as_fd(), AsFd::as_fd));
        fds.extend(others.map(|it| PollFd::new(it, PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => return Ok(false),
            polled => polled?,
        };
        let is_ready =
            |at: usize, fds: &[PollFd<'_>]| fds.get(at).and_then(PollFd::any).unwrap_or(false);
        let [is_over, routes, tables, policies] = [0, 1, 2, 3].map(|at| is_ready(at, &fds));
        drop(fds);
        let mut notices = Vec::new();
        let mut is_lossy = false;
        let mut take = |message: Message<'_>| notices.push(Arc::new(Notice::of(message)));
        if routes {
            is_lossy |= sockets.routes.read_some(READS, &mut take)?;
        }
        if let Some(changes) = sockets.tables.as_mut().filter(|_| tables) {
            is_lossy |= changes.read_some(READS, |message| {
                if nft::table_of(message).is_some() {
                    take(message);
                }
            })?;
        }
        let mut have_policies = false;
        if let Some(changes) = sockets.policies.as_mut().filter(|_| policies) {
            have_policies = changes.read_some(READS, |_| have_policies = true)? || have_policies;
        }
        // The facts come first: a service that reads a notice must find them up to date.
        let mut facts = lock(&self.facts);
        notices.iter().for_each(|it| facts.take(Message::new(it.kind, &it.body)));
        drop(facts);
        let mut beside = lock(&self.beside);
        notices.iter().for_each(|it| beside.take(Message::new(it.kind, &it.body)));
        drop(beside);
        lock(&self.ways).known.clear();
        self.pass_on(&notices);
        if have_policies {
            // IPsec's kinds of messages have the same numbers as routing's, so none is passed on.
            self.each_queue(|queue| {
                if queue.interest == Interest::Obstacles {
                    queue.lose();
                }
            });
        }
        if is_lossy {
            self.recover();
        }
        Ok(is_over)
    }

    /// Reads all facts anew, and tells everybody that notices were lost.
    fn recover(&self) {
        let read = Facts::read().and_then(|facts| {
            *lock(&self.facts) = facts;
            lock(&self.beside).note()
        });
        if let Err(error) = read {
            warn!(%error, "addresses of this host are not read");
        }
        lock(&self.ways).known.clear();
        self.each_queue(Queue::lose);
    }

    fn pass_on(&self, notices: &[Arc<Notice>]) {
        self.each_queue(|queue| queue.push(notices));
    }

    fn each_queue(&self, tell: impl Fn(&Queue)) {
        lock(&self.queues).retain(|queue| {
            queue.upgrade().is_some_and(|queue| {
                tell(&queue);
                true
            })
        });
    }
}

impl Sockets {
    fn open() -> io::Result<Self> {
        let routes = Monitor::open()?;
        routes.store(STORED);
        let policies = Monitor::open_for(IPSEC, 1 << (POLICIES - 1)).ok();
        Ok(Self { routes, tables: nft::monitor().ok(), policies })
    }
}

impl Facts {
    /// Asks the kernel for all.
    fn read() -> io::Result<Self> {
        let mut netlink = Kernel::open()?;
        let addresses = links::addresses_of(&mut netlink, None)?.into_iter().collect();
        let mut fixed = [0; NETCONF_FIXED];
        fixed[0] = u8::try_from(libc::AF_INET).unwrap_or_default();
        let request = Request::dump(libc::RTM_GETNETCONF, &fixed);
        let all =
            netlink.dump(&request, |message, all| all.extend(reverse_path_filter(message)))?;
        Ok(Self { addresses, reverse_path_filters: all.into_iter().collect() })
    }

    /// Takes what a notice says.
    fn take(&mut self, message: Message<'_>) {
        match message.kind {
            libc::RTM_NEWADDR => self.addresses.extend(links::address_of(message)),
            libc::RTM_DELADDR => {
                if let Some(gone) = links::address_of(message) {
                    self.addresses.remove(&gone);
                }
            }
            libc::RTM_DELLINK => {
                if let Some(gone) = links::subject(message) {
                    self.addresses.retain(|(index, ..)| *index != gone);
                }
            }
            libc::RTM_NEWNETCONF => self.reverse_path_filters.extend(reverse_path_filter(message)),
            RTM_DELNETCONF => {
                let index = message.attribute(NETCONF_FIXED, NETCONFA_IFINDEX);
                if let Some(gone) = index.and_then(netlink::number) {
                    self.reverse_path_filters.remove(&gone.cast_signed());
                }
            }
            _ => {}
        }
    }
}

impl Queue {
    fn push(&self, notices: &[Arc<Notice>]) {
        let mut waiting = lock(&self.waiting);
        for notice in notices.iter().filter(|it| self.interest.has(Message::new(it.kind, &it.body)))
        {
            if waiting.notices.len() == WAITING || waiting.octets + notice.body.len() > OCTETS {
                *waiting = Waiting { is_lossy: true, ..Waiting::default() };
            }
            waiting.octets += notice.body.len();
            waiting.notices.push_back(Arc::clone(notice));
        }
        if !waiting.is_empty() {
            self.wake();
        }
    }

    /// Drops all waiting notices: they are worth nothing once others are missing.
    fn lose(&self) {
        *lock(&self.waiting) = Waiting { is_lossy: true, ..Waiting::default() };
        self.wake();
    }

    fn take(&self, most: usize) -> (Vec<Arc<Notice>>, bool) {
        let mut waiting = lock(&self.waiting);
        let most = most.min(waiting.notices.len());
        let notices: Vec<_> = waiting.notices.drain(..most).collect();
        waiting.octets -= notices.iter().map(|it| it.body.len()).sum::<usize>();
        let is_lossy = std::mem::take(&mut waiting.is_lossy);
        if waiting.is_empty() {
            // An error only means that the event was not set.
            let _ = self.event.read();
        }
        (notices, is_lossy)
    }

    fn wake(&self) {
        // Writing fails only when the descriptor is readable anyway.
        let _ = self.event.write(1);
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.notices.is_empty() && !self.is_lossy
    }
}

impl Notice {
    fn of(message: Message<'_>) -> Self {
        Self { kind: message.kind, body: message.body().into() }
    }
}

impl Interest {
    fn has(self, message: Message<'_>) -> bool {
        let is_neighbour = matches!(message.kind, libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH);
        let is_removal = nft::REMOVALS.contains(&message.kind);
        let is_control = TRAFFIC_CONTROL.contains(&message.kind);
        if nft::ADDITIONS.contains(&message.kind) {
            let is_ours =
                || nft::table_of(message).is_some_and(|it| it.starts_with(nft::TABLE.as_bytes()));
            return self == Self::Obstacles || self == Self::HostAndTables && is_ours();
        }
        match self {
            Self::Host => {
                let is_control_gone = links::CONTROL_REMOVALS.contains(&message.kind);
                !is_neighbour && !is_removal && (!is_control || is_control_gone)
            }
            Self::HostAndTables => !is_neighbour && !is_control,
            Self::Obstacles => !is_neighbour,
            Self::Neighbourhood => match message.kind {
                libc::RTM_NEWLINK | libc::RTM_DELLINK => true,
                libc::RTM_NEWRULE | libc::RTM_DELRULE => false,
                _ => !is_removal && !is_control && (is_neighbour || is_v4(message)),
            },
        }
    }
}

/// Whether a notice begins with the family of IPv4; notices of addresses, routes and settings begin with a family.
fn is_v4(message: Message<'_>) -> bool {
    message.fixed::<1>().is_some_and(|[family]| i32::from(*family) == libc::AF_INET)
}

/// The interface, and the value of its reverse path filter.
fn reverse_path_filter(message: Message<'_>) -> Option<(i32, u32)> {
    if message.kind != libc::RTM_NEWNETCONF || !is_v4(message) {
        return None;
    }
    let number = |kind| message.attribute(NETCONF_FIXED, kind).and_then(netlink::number);
    Some((number(NETCONFA_IFINDEX)?.cast_signed(), number(NETCONFA_RP_FILTER)?))
}

fn is_ready(fd: &EventFd, within: Duration) -> bool {
    let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
    poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|count| count > 0)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(interest: Interest) -> (Arc<Queue>, Subscription) {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
        let queue = Arc::new(Queue { interest, waiting: Mutex::default(), event });
        (Arc::clone(&queue), Subscription(queue))
    }

    fn notices(kinds: &[u16]) -> Vec<Arc<Notice>> {
        let v4 = u8::try_from(libc::AF_INET).unwrap();
        kinds.iter().map(|&kind| Arc::new(Notice { kind, body: [v4; 12].into() })).collect()
    }

    fn is_readable(subscription: &Subscription) -> bool {
        is_ready(&subscription.0.event, Duration::ZERO)
    }

    #[test]
    fn notices_come_in_their_order_and_the_descriptor_says_whether_some_wait() {
        let (queue, mut its) = queue(Interest::Host);
        let kinds = [libc::RTM_NEWROUTE, libc::RTM_DELADDR, libc::RTM_NEWLINK];
        queue.push(&notices(&kinds));
        queue.push(&notices(&[libc::RTM_NEWNEIGH]));

        let mut heard = Vec::new();
        let losses = [2, 2].map(|most| {
            let is_lossy = its.read(most, |message| heard.push(message.kind));
            (is_lossy, is_readable(&its))
        });

        assert_eq!((losses, &heard[..]), ([(false, true), (false, false)], &kinds[..]));
    }

    #[test]
    fn a_service_that_does_not_read_loses_notices_and_is_told_so() {
        let (queue, mut its) = queue(Interest::Host);
        for _ in 0..=WAITING {
            queue.push(&notices(&[libc::RTM_NEWROUTE]));
        }

        let mut count = 0;
        let is_lossy = its.read(usize::MAX, |_| count += 1);

        assert_eq!((is_lossy, count, is_readable(&its)), (true, 1, false));
        assert!(!its.read(usize::MAX, |_| {}));
        queue.lose();
        assert!(is_readable(&its) && its.read(usize::MAX, |_| {}));
    }

    #[test]
    fn each_hears_what_it_asked_for() {
        let removal = nft::REMOVALS[0];
        let addition = 0x0a06;
        let all = [libc::RTM_NEWRULE, libc::RTM_NEWNEIGH, libc::RTM_NEWADDR, removal, addition];
        let control = [libc::RTM_NEWQDISC, libc::RTM_DELQDISC, libc::RTM_DELTFILTER];
        let all = [&all[..], &control].concat();
        for (interest, expected) in [
            (Interest::Host, vec![all[0], all[2], control[1], control[2]]),
            (Interest::HostAndTables, vec![all[0], all[2], removal]),
            (Interest::Obstacles, [&[all[0], all[2], removal, addition][..], &control].concat()),
            (Interest::Neighbourhood, vec![all[1], all[2]]),
        ] {
            let (queue, mut its) = queue(interest);
            queue.push(&notices(&all));
            let mut heard = Vec::new();
            let _ = its.read(usize::MAX, |message| heard.push(message.kind));
            assert_eq!(heard, expected, "{interest:?}");
        }
    }

    #[test]
    fn the_part_of_the_kernel_for_ipsec_has_the_number_of_tcp() {
        assert_eq!(IPSEC as i32, libc::NETLINK_XFRM);
    }

    #[test]
    fn the_facts_are_those_of_this_host() {
        let observer = Observer::start(&BTreeSet::new()).unwrap();
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let strict = observer.strict_interfaces();
        let read = |name: &str| crate::settings::Settings::read(name, "rp_filter");

        let of_all = read("all").unwrap_or_default();
        for name in crate::settings::Settings::interfaces() {
            let Ok(index) = nix::net::if_::if_nametoindex(&name[..]) else { continue };
            let is_strict = read(&name).is_some_and(|its| its.max(of_all.clone()) == "1");
            assert_eq!(strict.contains(&index), is_strict, "{name}");
        }
        assert!(observer.addresses().contains(&loopback), "{:?}", observer.addresses());
    }
}
