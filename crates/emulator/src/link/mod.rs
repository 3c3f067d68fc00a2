//! Joins two interfaces by a link of the simulator, in real time.
//!
//! ```text
//!            ┌──────────────── worker ────────────────┐
//!   port A ──│─▶ segment, checksum ─▶ direction A to B │──▶ port B
//!          ◀─│── direction B to A ◀─ segment, checksum │◀──
//!            └──────────────── worker ────────────────┘
//! ```

mod direction;

use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base::time::Time;
use gateway::sys::port::Port;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;

pub use direction::{Direction, Stats};

use crate::device::{Buffers, Device, Taken};
use crate::{End, NoEnd, Stop};

/// How often to look whether the interfaces still exist; nothing tells us.
const MOMENT: Duration = Duration::from_millis(500);
/// Frames read before those due are sent.
const BATCH: usize = 32;

/// Two interfaces that are about to be joined.
#[derive(Debug)]
pub struct Cable {
    ends: [(End, Port); 2],
}

/// Counters of one direction, also of frames that never came to the emulated link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Counters of frames that came to the link.
    pub stats: Stats,
    /// Frames that the kernel dropped because we were too slow.
    pub missed: u64,
    /// Frames that made no sense.
    pub malformed: u64,
    /// Frames that the other interface did not take: longer than its MTU, or it is down or busy.
    pub refused: u64,
}

impl Cable {
    /// Opens both ends.
    ///
    /// # Errors
    /// When an interface cannot be opened, with the remedy.
    pub fn open(a: End, b: End) -> Result<Self, NoEnd> {
        let (port_a, port_b) = (a.open()?, b.open()?);
        Ok(Self { ends: [(a, port_a), (b, port_b)] })
    }

    /// Carries frames from A to B and from B to A until the run ends.
    ///
    /// # Errors
    /// When an interface is gone or the kernel does not play along.
    ///
    /// # Panics
    /// When a direction does.
    pub fn join(&self, directions: [Direction; 2], stop: &Stop) -> anyhow::Result<[Outcome; 2]> {
        let ([(_, a), (_, b)], [ab, ba]) = (&self.ends, directions);
        let over = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).context("eventfd")?;
        let epoch = Instant::now();
        thread::scope(|scope| {
            let over = &over;
            let start = |from, to, direction| {
                scope.spawn(move || {
                    let outcome = Worker { from, to, direction, epoch, stop: over }.run();
                    // The end of one direction ends the other, whatever the reason.
                    over.write(1).context("ending both directions")?;
                    outcome
                })
            };
            let workers = [start(a, b, ab), start(b, a, ba)];
            let waited = self.wait(stop, over);
            over.write(1).context("ending both directions")?;
            let [ab, ba] = workers.map(|worker| worker.join().expect("workers do not panic"));
            waited?;
            Ok([ab?, ba?])
        })
    }

    /// Waits until the run or a worker ends.
    fn wait(&self, stop: &Stop, over: &EventFd) -> anyhow::Result<()> {
        let watched = |fds: &mut Vec<_>| fds.push(PollFd::new(over.as_fd(), PollFlags::POLLIN));
        while let Some(ready) = stop.wait(Some(stop.now() + MOMENT), watched)? {
            if ready.iter().any(|ready| !ready.is_empty()) {
                break;
            }
            for (end, port) in &self.ends {
                ensure!(!port.is_gone(), "{end} is gone");
            }
        }
        Ok(())
    }
}

/// The thread that carries one direction's frames.
struct Worker<'a> {
    from: &'a Port,
    to: &'a Port,
    direction: Direction,
    /// The start of the directions' time.
    epoch: Instant,
    /// Readable once it is time to end.
    stop: &'a EventFd,
}

impl Worker<'_> {
    /// Runs until told to stop.
    fn run(mut self) -> anyhow::Result<Outcome> {
        // The kernel otherwise lets our timers be 50 us late; a failure does no harm.
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
