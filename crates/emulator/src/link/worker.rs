//! Moves frames in one direction, from one port to the other, on a thread of its own.

use std::os::fd::AsFd as _;
use std::time::Instant;

use anyhow::Context as _;
use gateway::linux::offload::{self, Offload};
use gateway::sys::port::{OFFLOAD, Port, Received};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use proto::time::Time;

use super::direction::{Direction, Stats};

/// Octets of Ethernet's header.
const ETHERNET: usize = 14;
/// Octets of both addresses, behind which a VLAN tag goes.
const ADDRESSES: usize = 12;
/// The longest train of segments: 64 KiB of IP.
const TRAIN: usize = OFFLOAD + ETHERNET + (64 << 10);
/// Frames read before those due are sent.
const BATCH: usize = 32;

/// One direction at work.
pub(super) struct Worker<'a> {
    pub(super) from: &'a Port,
    pub(super) to: &'a Port,
    pub(super) direction: Direction,
    /// What the directions count time from.
    pub(super) epoch: Instant,
    /// Readable once it is time to end.
    pub(super) stop: &'a EventFd,
}

/// What one direction did, with what never came to the emulated link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// What came to it.
    pub stats: Stats,
    /// Frames that the kernel dropped because we were too slow.
    pub missed: u64,
    /// Frames that made no sense.
    pub malformed: u64,
    /// Frames that the other interface did not take: longer than its MTU, or it is down or busy.
    pub refused: u64,
}

impl Worker<'_> {
    /// Runs until told to stop.
    pub(super) fn run(mut self) -> anyhow::Result<Outcome> {
        // The kernel otherwise lets timers of ours be 50 us late; not having it is no harm.
        let _ = prctl::set_timerslack(1);
        let mut outcome = Outcome::default();
        let (mut train, mut scratch) = (vec![0; TRAIN], Vec::new());
        let mut frame = Vec::new();
        let mut packet = vec![0; OFFLOAD];
        while !self.is_told_to_stop(self.direction.next_timeout())? {
            for _ in 0..BATCH {
                let is_good = match self.from.receive(&mut train) {
                    Ok(None) => break,
                    Ok(Some(received)) => self.take(&mut train, received, &mut scratch).is_ok(),
                    Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
                        // Down: frames come again once it is up.
                        Errno::ENETDOWN | Errno::EINTR | Errno::ENOBUFS => break,
                        // A train that is too long, or of a kind that has no description.
                        Errno::EINVAL | Errno::EMSGSIZE => false,
                        _ => return Err(error).context("receiving frames"),
                    },
                };
                outcome.malformed += u64::from(!is_good);
            }
            while self.direction.poll_transmit(self.now(), &mut frame) {
                packet.truncate(OFFLOAD);
                packet.extend_from_slice(&frame);
                outcome.refused += u64::from(self.to.send(&packet).is_err());
            }
        }
        outcome.missed = self.from.missed();
        outcome.stats = self.direction.stats();
        Ok(outcome)
    }

    /// Cuts a train into frames with checksums, as a network card would, and takes each.
    fn take(
        &mut self,
        train: &mut [u8],
        received: Received,
        scratch: &mut Vec<u8>,
    ) -> Result<(), offload::Malformed> {
        let now = self.now();
        let (what, frame) = train[..received.len].split_at_mut(OFFLOAD.min(received.len));
        let offload = Offload::parse(what, ETHERNET)?;
        let have = frame.len();
        let Some((header, packet)) = frame.split_at_mut_checked(ETHERNET) else {
            return Err(offload::Malformed::Truncated { have });
        };
        let (addresses, kind) = header.split_at(ADDRESSES);
        let tag = received.tag.as_ref().map_or(&[][..], |tag| tag);
        offload.segment(packet, scratch, |segment| {
            self.direction.handle_frame(now, &[addresses, tag, kind, segment]);
        })
    }

    /// Waits for a frame, for the deadline or for the end.
    fn is_told_to_stop(&self, deadline: Option<Time>) -> anyhow::Result<bool> {
        let timeout = deadline.map(|deadline| TimeSpec::from(deadline.since(self.now())));
        let mut wanted = [
            PollFd::new(self.from.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.stop.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut wanted, timeout, None::<SigSet>) {
            Ok(_) | Err(Errno::EINTR) => Ok(wanted[1].any().unwrap_or(false)),
            Err(errno) => Err(errno.into()),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }
}
