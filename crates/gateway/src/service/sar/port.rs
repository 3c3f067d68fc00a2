//! The UDP sockets of PDUs: a PDU is sent once the records that it follows from are stored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Context as _;
use base::time::Time;
use host::{Interest, Observer, Subscription, links};
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use sar::{Arrival, Precedence, Transmit};

use super::store::Ticket;
use crate::config::Sar;
use crate::linux::routes::{NextHop, Routes};
use crate::reactor::has_input;
use crate::sys::{Arrivals, Head, Outbox, Udp};

/// The sockets.
#[derive(Debug)]
pub struct Port {
    sockets: Vec<Socket>,
    /// Of all nodes.
    number: u16,
    /// In the order of their tickets.
    held: VecDeque<(Ticket, Datagram)>,
    counters: Counters,
}

struct Socket {
    udp: Udp,
    is_v4: bool,
    outbox: Outbox,
    arrivals: Arrivals,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.udp.fmt(f)
    }
}

#[derive(Debug)]
struct Datagram {
    to: IpAddr,
    class: u8,
    octets: Vec<u8>,
}

base::counters! {
    /// What is counted of datagrams.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Counters {
        /// Datagrams that came.
        datagrams_received: counter(datagrams);
        /// Datagrams with segments dropped: no room for arriving messages, or no room for more of this source.
        datagrams_no_room: counter(datagrams);
        /// Datagrams sent.
        datagrams_sent: counter(datagrams);
        /// Datagrams that the kernel did not take.
        datagrams_refused: counter(datagrams);
        /// Datagrams not sent: no socket has their version of IP.
        datagrams_unroutable: counter(datagrams);
    }
}

/// Datagrams that wait for the store at most.
const HELD: usize = 4_096;
/// Batches taken from a socket before others have their turn.
const BATCHES: usize = 4;
/// The bits of precedence in a TOS or traffic class.
const PRECEDENCE: u32 = 5;

impl Port {
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// # Errors
    /// When an address is taken, or none of this host's.
    pub fn open(config: &Sar) -> anyhow::Result<Self> {
        let mut sockets = Vec::new();
        for at in &config.listen {
            let said = || {
                format!(
                    "cannot take messages at UDP {at}: `ss -ulnp` shows who has it, `listen` in [sar] \
                     names another"
                )
            };
            let udp = Udp::open(*at).with_context(said)?;
            udp.take_groups().with_context(said)?;
            let (outbox, arrivals) = (Outbox::default(), Arrivals::default());
            sockets.push(Socket { udp, is_v4: at.is_ipv4(), outbox, arrivals });
        }
        Ok(Self {
            sockets,
            number: config.port(),
            held: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    pub fn watch<'a>(&'a self, takes: bool, fds: &mut Vec<PollFd<'a>>) {
        fds.extend(self.sockets.iter().map(|socket| {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, takes);
            events.set(PollFlags::POLLOUT, !socket.outbox.is_empty());
            PollFd::new(socket.udp.as_fd(), events)
        }));
    }

    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Gives received PDUs to `take`, each with the port of programs if the PDU brings octets of a message; `take`
    /// returns false if it does not take the PDU.
    ///
    /// # Errors
    /// When a socket is broken.
    pub fn receive(
        &mut self,
        ready: &[PollFlags],
        mut take: impl FnMut(Arrival, &[u8], Option<u16>) -> bool,
    ) -> anyhow::Result<()> {
        let Self { sockets, counters, .. } = self;
        for (socket, ready) in sockets.iter_mut().zip(ready) {
            if !has_input(*ready) {
                continue;
            }
            for _ in 0..BATCHES {
                if socket.udp.receive(&mut socket.arrivals).context("cannot receive")? == 0 {
                    break;
                }
                for arrived in socket.arrivals.datagrams() {
                    counters.datagrams_received += 1;
                    let precedence = Precedence::new(arrived.traffic_class >> PRECEDENCE);
                    let (from, is_group) = (arrived.from.ip().to_canonical(), arrived.is_group);
                    let content = content(arrived.datagram);
                    let arrival = Arrival { from, is_group, precedence };
                    let is_taken = take(arrival, arrived.datagram, content);
                    counters.datagrams_no_room += u64::from(!is_taken);
                }
            }
        }
        Ok(())
    }

    /// Whether another datagram may be asked for.
    pub fn has_room(&self) -> bool {
        self.held.len() < HELD && self.sockets.iter().all(|socket| socket.outbox.is_empty())
    }

    /// Sends a datagram when what was pushed up to `ticket` is stored.
    pub fn hold(&mut self, ticket: Ticket, transmit: &Transmit, octets: &[u8]) {
        let class = transmit.precedence.level() << PRECEDENCE;
        let datagram = Datagram { to: transmit.to, class, octets: octets.to_vec() };
        self.held.push_back((ticket, datagram));
    }

    /// Gives the kernel what may go.
    pub fn send(&mut self, stored: Ticket) {
        let Self { sockets, held, counters, number } = self;
        while held.front().is_some_and(|(ticket, _)| *ticket <= stored)
            && let Some((_, Datagram { to, class, octets })) = held.pop_front()
        {
            let fits = |socket: &&mut Socket| socket.is_v4 == to.is_ipv4();
            let Some(socket) = sockets.iter_mut().find(fits) else {
                counters.datagrams_unroutable += 1;
                continue;
            };
            let memory = socket.outbox.memory();
            let start = memory.len();
            memory.extend_from_slice(&octets);
            let end = memory.len();
            let head = Head { class: Some(class), ..Head::default() };
            socket.outbox.push_with(SocketAddr::new(to, *number), start, end, head);
            counters.datagrams_sent += 1;
        }
        for socket in sockets {
            // What is left goes when the kernel has room.
            let _ = socket.udp.send(&mut socket.outbox);
            counters.datagrams_refused += std::mem::take(&mut socket.outbox.refused);
        }
    }
}

/// The destination port of programs, if a datagram brings octets of a message, as a segment or a repair does.
fn content(datagram: &[u8]) -> Option<u16> {
    let &[_, _, high, low, kind] = datagram.first_chunk()?;
    matches!(kind >> 5, 0 | 2 | 7).then_some(u16::from_be_bytes([high, low]))
}

// Finds silent nodes that may be reachable again, as an interface has come up or a route has changed.
//
// ```text
//   kernel ── links, addresses, routes ──▶ Ways ── gathered ──▶ which of the silent nodes to try
// ```
// Only changes on the way to a node count: in a net whose routes change all the time, other nodes are left alone.

/// The known ways to silent nodes.
#[derive(Debug)]
pub struct Ways {
    changes: Subscription,
    routes: Routes,
    /// The next hops to them when something changed last.
    hops: BTreeMap<IpAddr, NextHop>,
    /// Interfaces known to be down, and interfaces that have come up since.
    down: BTreeSet<u32>,
    risen: BTreeSet<u32>,
    /// When the changes so far are looked at.
    due: Option<Time>,
}

/// Changes are gathered for so long: one seldom comes alone.
const GATHERED: Duration = Duration::from_millis(200);
/// Notices of the kernel's that are read before others have their turn.
const READS: usize = 64;
/// Nodes whose routes are asked for at a time.
const MOST: usize = 1_024;

impl Ways {
    /// # Errors
    /// When the kernel does not tell.
    pub fn open(observer: &Observer) -> anyhow::Result<Self> {
        Ok(Self {
            changes: observer.subscribe(Interest::Host)?,
            routes: Routes::open().context("cannot ask for routes")?,
            hops: BTreeMap::new(),
            down: BTreeSet::new(),
            risen: BTreeSet::new(),
            due: None,
        })
    }

    /// Takes what the kernel tells.
    pub fn handle_ready(&mut self, now: Time) {
        let Self { changes, down, risen, .. } = self;
        let mut has_changed = false;
        let is_lossy = changes.read(READS, |message| {
            has_changed |= message.kind != libc::RTM_NEWLINK;
            let Some((interface, is_running)) = links::running(message) else { return };
            if !is_running {
                down.insert(interface);
            } else if down.remove(&interface) {
                risen.insert(interface);
                has_changed = true;
            }
        });
        if has_changed || is_lossy {
            self.due.get_or_insert(now + GATHERED);
        }
    }

    /// When to ask [`Self::take`].
    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The silent nodes with a changed route, or with an interface that is up again.
    pub fn take(&mut self, now: Time, silent: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.due = None;
        let risen = std::mem::take(&mut self.risen);
        let before = std::mem::take(&mut self.hops);
        let mut found = Vec::new();
        for node in silent.take(MOST) {
            let hop = self.routes.towards(node);
            let has_risen =
                matches!(hop, NextHop::Neighbour { interface, .. } if risen.contains(&interface));
            if hop != NextHop::Nowhere && (has_risen || before.get(&node) != Some(&hop)) {
                found.push(node);
            }
            self.hops.insert(node, hop);
        }
        found
    }
}

impl AsFd for Ways {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}
