//! From the socket through the cores to the device.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use base::ip::check_source;
use base::time::Time;
use nix::poll::{PollFd, PollFlags};
use tunnel::secure::{Heard, Incarnation, Opened, Opener, PeerId, Routes};

use super::sockets::Way;
use super::{Shared, State};
use crate::linux::offload::Joiner;
use crate::sys::{Arrivals, Arrived};
use host::copies::Copies;

/// Batches taken from the socket before the peers are looked after.
const BATCHES: usize = 4;
/// Datagrams handled during one hold of the lock.
const HELD: usize = 64;
/// Packets of a peer that are written to the device in a turn at most, before others have theirs.
const TURN: usize = 512;
/// So many of them may be short, if several peers share the thread: a short packet takes as long as another, and a
/// datagram has many.
const SHORT_ONES: usize = 64;
/// Octets of a short packet at most.
const SHORT: usize = 512;
/// The pause before the next turn of those with more packets, if several peers share the thread: nobody keeps it busy.
const PAUSE: Duration = Duration::from_millis(1);
/// Who was heard so long ago is not waited for.
const PRESENT: Duration = Duration::from_secs(1);

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
    /// Peers of whom more packets wait than a turn takes, each once. They take turns.
    waiting: VecDeque<PeerId>,
    turns: Turns,
    /// When those have it.
    turn_at: Time,
}

/// Knows whether several peers share the thread: then none may keep it for long.
#[derive(Default)]
struct Turns {
    /// The peer whose datagram came last.
    last: Option<PeerId>,
    /// When a datagram of another than the last peer came last.
    changed: Option<Time>,
}

impl Turns {
    fn handle_heard(&mut self, now: Time, peer: PeerId) {
        if self.last.replace(peer).is_some_and(|last| last != peer) {
            self.changed = Some(now);
        }
    }

    /// How many short packets of a peer may be written in a turn.
    fn short_ones(&self, now: Time) -> usize {
        if self.is_shared(now) { SHORT_ONES } else { TURN }
    }

    /// When those with more packets have the next turn, after one now.
    fn next(&self, now: Time) -> Time {
        if self.is_shared(now) { now + PAUSE } else { now }
    }

    fn is_shared(&self, now: Time) -> bool {
        self.changed.is_some_and(|changed| now.since(changed) < PRESENT)
    }
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
        ready.map(|(socket, _)| socket).try_for_each(|socket| self.receive(shared, socket))?;
        if self.next_turn().is_some_and(|at| at <= shared.now()) {
            self.released.take_turns(shared);
            self.released.write(shared, &shared.routes(), &shared.own());
            self.released.flush(shared);
        }
        Ok(())
    }

    /// When released packets that wait have their turn.
    pub fn next_turn(&self) -> Option<Time> {
        (!self.released.waiting.is_empty()).then_some(self.released.turn_at)
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
                released.turns.handle_heard(now, whose.0);
                state.note_way_of(now, whose.0, number, *from, *way);
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
    /// Takes packets of a peer, a turn's worth; none if it has to wait for its turn.
    fn take(&mut self, state: &mut State, now: Time, peer: Option<PeerId>) {
        let Some(peer) = peer.filter(|peer| !self.waiting.contains(peer)) else { return };
        let (mut left, mut short_left) = (TURN, self.turns.short_ones(now));
        let Self { octets, packets, scratch, .. } = self;
        let whole = state.whole(peer).unwrap_or(usize::MAX);
        let has_more = state.release(now, peer, scratch, |packet| {
            octets.extend_from_slice(packet);
            packets.push(Packet { peer, len: packet.len(), whole });
            left -= 1;
            short_left -= usize::from(packet.len() <= SHORT);
            left > 0 && short_left > 0
        });
        if has_more {
            if self.waiting.is_empty() {
                self.turn_at = self.turns.next(now);
            }
            self.waiting.push_back(peer);
        }
    }

    /// Gives each peer of whom packets wait a turn.
    fn take_turns(&mut self, shared: &Shared) {
        let mut state = shared.state();
        let now = shared.now();
        for _ in 0..self.waiting.len() {
            let peer = self.waiting.pop_front();
            self.take(&mut state, now, peer);
        }
        self.turn_at = self.turns.next(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_alone_has_long_turns_and_one_of_several_short_ones() {
        let [one, other] = [0, 1].map(|at| PeerId::new(at).unwrap());
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut turns = Turns::default();

        turns.handle_heard(at(0), one);
        turns.handle_heard(at(10), one);
        assert_eq!((turns.short_ones(at(10)), turns.next(at(10))), (TURN, at(10)));
        turns.handle_heard(at(20), other);
        assert_eq!((turns.short_ones(at(20)), turns.next(at(20))), (SHORT_ONES, at(20) + PAUSE));
        turns.handle_heard(at(30), one);
        for millis in (40..1_100).step_by(10) {
            turns.handle_heard(at(millis), one);
        }

        assert_eq!(turns.short_ones(at(1_000)), SHORT_ONES);
        assert_eq!(turns.short_ones(at(1_030)), TURN);
    }
}
