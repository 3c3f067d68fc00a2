//! Moves frames in one direction, from one port to the other, on a thread of its own.

use std::os::fd::AsFd as _;
use std::time::Instant;

use base::time::Time;
use gateway::sys::port::Port;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;

use super::direction::{Direction, Stats};
use crate::device::{Buffers, Device, Taken};

/// Frames read before those due are sent.
const BATCH: usize = 32;

/// One direction at work.
pub struct Worker<'a> {
    pub(super) from: &'a Port,
    pub(super) to: &'a Port,
    pub(super) direction: Direction,
    /// What the directions count time from.
    pub(super) epoch: Instant,
    /// Readable once it is time to end.
    pub(super) stop: &'a EventFd,
}

/// Counters of one direction, including frames that never came to the emulated link.
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
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        // The kernel otherwise lets timers of ours be 50 us late; not having it is no harm.
        let _ = prctl::set_timerslack(1);
        let mut outcome = Outcome::default();
        let [from, to] = [self.from, self.to].map(Device::new);
        let (mut buffers, mut frame) = (Buffers::default(), Vec::new());
        while !self.is_told_to_stop(self.direction.next_timeout())? {
            for _ in 0..BATCH {
                let now = self.now();
                let taken =
                    from.take(&mut buffers, |parts| self.direction.handle_frame(now, parts))?;
                if taken == Taken::Nothing {
                    break;
                }
                outcome.malformed += u64::from(taken == Taken::Malformed);
            }
            while self.direction.poll_transmit(self.now(), &mut frame) {
                outcome.refused += u64::from(!to.send(&mut buffers, &frame));
            }
        }
        outcome.missed = self.from.missed();
        outcome.stats = self.direction.stats();
        Ok(outcome)
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
