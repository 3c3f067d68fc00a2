//! From the socket through the cores to the device.

use std::net::SocketAddr;
use std::ops::Range;

use proto::secure::{Heard, Incarnation, Opened, Opener, PeerId};

use super::Shared;
use super::wait::{INWARD, Sleeper};
use crate::linux::offload::Joiner;
use crate::sys::{Arrivals, Arrived};

/// Batches taken from the socket before the peers are looked after.
const BATCHES: usize = 4;
/// Datagrams for one hold of the lock.
const HELD: usize = 64;

/// A datagram that was looked at without the lock.
struct Sorted<'a> {
    from: SocketAddr,
    is_marked: bool,
    datagram: &'a mut [u8],
    /// Its payload and whose it is; `None` for what is not data.
    data: Option<((PeerId, Incarnation), u64, Range<usize>)>,
    heard: Option<Heard>,
}

/// Packets on their way to the device.
#[derive(Default)]
struct Released {
    octets: Vec<u8>,
    packets: Vec<(PeerId, usize)>,
    scratch: Vec<u8>,
    joiner: Joiner,
}

/// Runs until the end.
pub(super) fn run(shared: &Shared) -> anyhow::Result<()> {
    let mut sleeper = Sleeper::new(shared, INWARD);
    let mut opener = shared.state().opener();
    let mut arrivals = Arrivals::default();
    let joiner = Joiner::new(shared.tun.takes_datagram_trains());
    let mut released = Released { joiner, ..Released::default() };
    loop {
        shared.act();
        if sleeper.sleep(shared)? {
            return Ok(());
        }
        for _ in 0..BATCHES {
            if shared.udp.receive(&mut arrivals)? == 0 {
                break;
            }
            shared.counters.receives.add(1);
            let mut sorted: Vec<_> = arrivals
                .datagrams()
                .filter_map(|arrived| sort(shared, &mut opener, arrived))
                .collect();
            for part in sorted.chunks_mut(HELD) {
                take(shared, part, &mut released);
                released.write(shared);
            }
            released.flush(shared);
        }
    }
}

fn sort<'a>(shared: &Shared, opener: &mut Opener, arrived: Arrived<'a>) -> Option<Sorted<'a>> {
    let Arrived { from, is_marked, datagram } = arrived;
    let (data, heard) = match opener.open(shared.now(), from, datagram) {
        Opened::Payload { peer, incarnation, number, payload, heard } => {
            (Some(((peer, incarnation), number, payload)), heard)
        }
        Opened::Other => (None, None),
        Opened::Dropped(_) => return None,
    };
    Some(Sorted { from, is_marked, datagram, data, heard })
}

/// Gives the cores what has come, and takes what they release.
fn take(shared: &Shared, sorted: &mut [Sorted<'_>], released: &mut Released) {
    let mut state = shared.state();
    let now = shared.now();
    let mut last = None;
    for sorted in sorted {
        let Sorted { from, is_marked, datagram, data, heard } = sorted;
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
                let payload = &datagram[payload];
                if !state.handle_datagram(now, whose, number, *is_marked, payload) {
                    shared.counters.datagrams_stale.add(1);
                }
            }
            None => {
                state.handle_other(now, *from, datagram);
                state.take_events(now);
            }
        }
    }
    released.take(&mut state, now, last);
    shared.settle(state, now);
}

impl Released {
    fn take(&mut self, state: &mut super::State, now: proto::time::Time, peer: Option<PeerId>) {
        let Some(peer) = peer else { return };
        let Self { octets, packets, scratch, .. } = self;
        state.release(now, peer, scratch, |packet| {
            octets.extend_from_slice(packet);
            packets.push((peer, packet.len()));
        });
    }

    /// Writes what is released, as trains.
    fn write(&mut self, shared: &Shared) {
        let mut start = 0;
        for &(peer, len) in &self.packets {
            let packet = &self.octets[start..start + len];
            start += len;
            if shared.routes.is_allowed(peer, packet) {
                self.joiner.push(packet, |train| write(shared, train));
            } else {
                shared.counters.packets_disallowed.add(1);
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
