//! From the device to the cores.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Context as _;
use base::ip::{Header, icmp, mss};
use base::time::Time;
use nix::poll::{PollFd, PollFlags};
use tracing::debug;
use tunnel::secure::{PeerId, Routes};

use super::errors::Answer;
use super::state::Rejected;
use super::wait::OUTWARD;
use super::{Shared, lock};
use crate::linux::offload::{self, Offload};
use crate::reactor::Driver;

/// Trains taken from the device before the peers are looked after.
const TRAINS: usize = 4;
/// Octets of the longest train, with the header of the offload.
const TRAIN: usize = offload::HEADER + (1 << 16);

/// Packets that wait for the lock.
#[derive(Default)]
struct Staged {
    octets: Vec<u8>,
    packets: Vec<(PeerId, usize)>,
}

/// What the senders are told afterwards.
struct Complaint {
    error: icmp::Error,
    offender: Vec<u8>,
}

/// The thread's own part.
pub(super) struct Outward {
    shared: Arc<Shared>,
    train: Vec<u8>,
    segment: Vec<u8>,
    staged: Staged,
    complaints: Vec<Complaint>,
}

impl Outward {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (segment, complaints) = (Vec::new(), Vec::new());
        Self { shared, train: vec![0; TRAIN], segment, staged: Staged::default(), complaints }
    }
}

impl Driver for Outward {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        self.shared.act();
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.shared.sleep(OUTWARD)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.shared.tun.as_fd(), PollFlags::POLLIN));
        let blocked = self.shared.sockets.blocked_fd();
        fds.extend(blocked.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
    }

    fn handle_ready(&mut self, _now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let Self { shared, train, segment, staged, complaints } = self;
        shared.wake_up(OUTWARD);
        if ready[0].is_empty() {
            return Ok(());
        }
        let routes = shared.routes();
        for _ in 0..TRAINS {
            let Some(len) = shared.tun.read(train).context("reading the device")? else { break };
            shared.counters.device_reads.add(1);
            stage(shared, &routes, &mut train[..len], segment, staged);
            submit(shared, staged, complaints);
            for complaint in complaints.drain(..) {
                complain(shared, complaint.error, &complaint.offender);
            }
            shared.transmit();
        }
        Ok(())
    }
}

/// Cuts a train into packets for a peer.
fn stage(
    shared: &Shared,
    routes: &Routes,
    train: &mut [u8],
    segment: &mut Vec<u8>,
    staged: &mut Staged,
) {
    let counters = &shared.counters;
    let (offload, destination) = match (Offload::parse(train, 0), train.get(offload::HEADER..)) {
        (Ok(offload), Some(packet)) => (offload, destination(packet)),
        _ => {
            counters.device_malformed.add(1);
            return;
        }
    };
    let Some(destination) = destination else {
        counters.device_malformed.add(1);
        return;
    };
    let packet = &mut train[offload::HEADER..];
    let Some(peer) = routes.peer_for(destination) else {
        counters.packets_unrouted.add(1);
        // The kernel's own multicast is nobody's mistake; ICMP is not owed then, and not sent.
        complain(shared, icmp::Error::HostUnreachable, packet);
        return;
    };
    let outcome = offload.segment(packet, segment, |packet| {
        staged.octets.extend_from_slice(packet);
        staged.packets.push((peer, packet.len()));
    });
    if outcome.is_err() {
        counters.device_malformed.add(1);
    }
    if let [(peer, len)] = staged.packets[..] {
        clamp(shared, peer, &mut staged.octets[..len]);
    }
}

/// Lowers the segment size that a SYN to a peer asks for. A SYN is never in a train.
fn clamp(shared: &Shared, peer: PeerId, packet: &mut [u8]) {
    let is_syn = Header::parse(packet).is_ok_and(|header| mss::is_syn(&header, packet));
    if is_syn && let Some(whole) = shared.state().whole(peer) {
        shared.clamp(packet, whole);
    }
}

impl Shared {
    /// Lowers the MSS option of a SYN to what `whole` octets carry. The option limits the segments of the opposite
    /// direction, so each gateway clamps SYNs both when they enter and when they leave the tunnel: an older peer clamps
    /// only on entry.
    pub(super) fn clamp(&self, packet: &mut [u8], whole: usize) {
        if let Ok(header) = Header::parse(packet) {
            self.counters.syns_clamped.add(u64::from(mss::clamp(&header, packet, whole)));
        }
    }
}

/// Gives the cores what is staged.
fn submit(shared: &Shared, staged: &mut Staged, complaints: &mut Vec<Complaint>) {
    if staged.packets.is_empty() {
        return;
    }
    let mut state = shared.state();
    let now = shared.now();
    let mut start = 0;
    for &(peer, len) in &staged.packets {
        let packet = &staged.octets[start..start + len];
        start += len;
        let error = match state.handle_packet(now, peer, packet) {
            Ok(()) => continue,
            // The peer's own counters have it.
            Err(Rejected::Quietly) => continue,
            Err(Rejected::Unready) => {
                shared.counters.packets_unready.add(1);
                continue;
            }
            Err(Rejected::Alone) => {
                shared.counters.packets_unready.add(1);
                icmp::Error::HostUnreachable
            }
            Err(Rejected::TooBig(mtu)) => {
                icmp::Error::TooBig { mtu: u16::try_from(mtu).unwrap_or(u16::MAX) }
            }
            Err(Rejected::Down) => icmp::Error::HostUnreachable,
        };
        // One complaint for a train is enough.
        if complaints.is_empty() {
            complaints.push(Complaint { error, offender: packet.to_vec() });
        }
    }
    drop(state);
    staged.octets.clear();
    staged.packets.clear();
}

/// Tells the sender of a packet why it was dropped.
fn complain(shared: &Shared, error: icmp::Error, offender: &[u8]) {
    let now = shared.now();
    let mut errors = lock(&shared.errors);
    match errors.answer(now, error, offender) {
        Answer::Message(message) => {
            shared.counters.icmp_sent.add(1);
            if let Err(error) = shared.tun.write(message) {
                debug!(%error, "ICMP not written");
                shared.counters.device_refused.add(1);
            }
        }
        Answer::None => {}
        Answer::TooMany => shared.counters.icmp_suppressed.add(1),
    }
}

/// Where a packet goes, though its length field and checksum may not be set yet.
fn destination(packet: &[u8]) -> Option<std::net::IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(16..20)?.first_chunk::<4>().map(|&octets| octets.into()),
        6 => packet.get(24..40)?.first_chunk::<16>().map(|&octets| octets.into()),
        _ => None,
    }
}
