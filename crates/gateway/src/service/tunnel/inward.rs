//! From the socket through the cores to the device.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use base::ip::check_source;
use nix::poll::{PollFd, PollFlags};
use tunnel::secure::{Heard, Incarnation, Opened, Opener, PeerId, Routes};

use super::Shared;
use super::sockets::Way;
use crate::linux::copies::Copies;
use crate::linux::offload::Joiner;
use crate::sys::{Arrivals, Arrived};

/// Batches taken from the socket before the peers are looked after.
const BATCHES: usize = 4;
/// Datagrams handled during one hold of the lock.
const HELD: usize = 64;

/// A datagram that was looked at without the lock.
struct Sorted<'a> {
    from: SocketAddr,
    /// Where it came to.
    way: Way,
    is_marked: bool,
    datagram: &'a mut [u8],
    /// The payload with its peer; `None` for a datagram without data.
    data: Option<((PeerId, Incarnation), u64, Range<usize>)>,
    heard: Option<Heard>,
}

/// Packets on their way to the device.
#[derive(Default)]
struct Released {
    octets: Vec<u8>,
    packets: Vec<Packet>,
    scratch: Vec<u8>,
    joiner: Joiner,
}

/// A packet among others.
#[derive(Clone, Copy)]
struct Packet {
    peer: PeerId,
    len: usize,
    /// The greatest packet to the peer that one datagram carries.
    whole: usize,
}

/// The thread's own part.
pub struct Inward {
    opener: Opener,
    arrivals: Arrivals,
    released: Released,
    copies: Copies,
}

impl Inward {
    pub fn new(shared: &Shared) -> Self {
        let joiner = Joiner::new(shared.tun.takes_datagram_trains());
        Self {
            opener: shared.state().opener(),
            arrivals: Arrivals::default(),
            released: Released { joiner, ..Released::default() },
            copies: Copies::watch(),
        }
    }

    pub fn watch<'a>(&'a self, shared: &'a Shared, fds: &mut Vec<PollFd<'a>>) {
        fds.extend(self.copies.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let blocked = shared.sockets.blocked();
        fds.extend(shared.sockets.fds().enumerate().map(|(place, fd)| {
            let is_full = blocked == Some(place);
            let output = if is_full { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(fd, PollFlags::POLLIN | output)
        }));
    }

    pub fn handle_ready(&mut self, shared: &Shared, ready: &[PollFlags]) -> anyhow::Result<()> {
        let (copied, sockets) = ready.split_at(usize::from(self.copies.fd().is_some()));
        if copied.iter().any(|ready| !ready.is_empty()) && self.copies.has_one() {
            let mut state = shared.state();
            let now = shared.now();
            state.handle_copied(now);
            shared.settle(state, now);
        }
        let ready = sockets.iter().enumerate().filter(|(_, ready)| !ready.is_empty());
        ready.map(|(socket, _)| socket).try_for_each(|socket| self.receive(shared, socket))
    }

    /// Takes what has come to a socket.
    fn receive(&mut self, shared: &Shared, socket: usize) -> anyhow::Result<()> {
        let Self { opener, arrivals, released, .. } = self;
        let (routes, own) = (shared.routes(), shared.own());
        for _ in 0..BATCHES {
            if shared.sockets.receive(socket, arrivals)? == 0 {
                break;
            }
            shared.counters.receives.add(1);
            let mut sorted: Vec<_> = arrivals
                .datagrams()
                .filter_map(|arrived| sort(shared, opener, socket, arrived))
                .collect();
            for part in sorted.chunks_mut(HELD) {
                take(shared, part, released);
                released.write(shared, &routes, &own);
            }
            released.flush(shared);
        }
        Ok(())
    }
}

fn sort<'a>(
    shared: &Shared,
    opener: &mut Opener,
    socket: usize,
    arrived: Arrived<'a>,
) -> Option<Sorted<'a>> {
    let Arrived { from, to, interface, is_marked, datagram, .. } = arrived;
    let (data, heard) = match opener.open(shared.now(), from, datagram) {
        Opened::Payload { peer, incarnation, number, payload, heard } => {
            (Some(((peer, incarnation), number, payload)), heard)
        }
        Opened::Other => (None, None),
        Opened::Dropped(_) => return None,
    };
    let way = Way { socket, source: to, interface };
    Some(Sorted { from, way, is_marked, datagram, data, heard })
}

/// Gives received datagrams to the cores, and takes the packets that the cores release.
fn take(shared: &Shared, sorted: &mut [Sorted<'_>], released: &mut Released) {
    let mut state = shared.state();
    let now = shared.now();
    let mut last = None;
    for sorted in sorted {
        let Sorted { from, way, is_marked, datagram, data, heard } = sorted;
        if let Some(heard) = heard.take() {
            state.handle_heard(now, heard);
            state.take_events(now);
        }
        match data.take() {
            Some((whose, number, payload)) => {
                if last.is_some_and(|last| last != whose.0) {
                    released.take(&mut state, now, last);
                }
                last = Some(whose.0);
                state.note_way(whose.0, *from, *way);
                let payload = &datagram[payload];
                if !state.handle_datagram(now, whose, number, *is_marked, payload) {
                    shared.counters.datagrams_stale.add(1);
                }
            }
            None => {
                state.handle_other(now, *from, *way, datagram);
                state.take_events(now);
            }
        }
    }
    released.take(&mut state, now, last);
    shared.settle(state, now);
}

impl Released {
    fn take(&mut self, state: &mut super::State, now: base::time::Time, peer: Option<PeerId>) {
        let Some(peer) = peer else { return };
        let Self { octets, packets, scratch, .. } = self;
        let whole = state.whole(peer).unwrap_or(usize::MAX);
        state.release(now, peer, scratch, |packet| {
            octets.extend_from_slice(packet);
            packets.push(Packet { peer, len: packet.len(), whole });
        });
    }

    /// Writes released packets to the device, as trains.
    fn write(&mut self, shared: &Shared, routes: &Routes, own: &BTreeSet<IpAddr>) {
        let mut start = 0;
        for &Packet { peer, len, whole } in &self.packets {
            let packet = &mut self.octets[start..start + len];
            start += len;
            shared.clamp(packet, whole);
            // The kernel takes what comes by the device from an address of this host's for ours.
            match check_source(packet, own, |source| routes.peer_for(source) == Some(peer)) {
                Ok(()) => self.joiner.push(packet, |train| write(shared, train)),
                Err(why) => shared.counters.count_bad_source(why),
            }
        }
        self.octets.clear();
        self.packets.clear();
    }

    fn flush(&mut self, shared: &Shared) {
        self.joiner.flush(|train| write(shared, train));
    }
}

fn write(shared: &Shared, train: &[u8]) {
    shared.counters.device_writes.add(1);
    if shared.tun.write(train).is_err() {
        shared.counters.device_refused.add(1);
    }
}
