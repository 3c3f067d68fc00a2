//! Two interfaces joined by one of the simulator's links, in real time.
//!
//! ```text
//!            ┌──────────────── worker ────────────────┐
//!   port A ──│─▶ segment, checksum ─▶ direction A to B │──▶ port B
//!          ◀─│── direction B to A ◀─ segment, checksum │◀──
//!            └──────────────── worker ────────────────┘
//! ```

mod direction;
mod worker;

use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use gateway::sys::port::Port;
use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

pub use direction::{Direction, Stats};
pub use worker::Outcome;

use crate::{End, NoEnd, Stop};
use worker::Worker;

/// How often to look whether the interfaces still exist; nothing tells us.
const MOMENT: Duration = Duration::from_millis(500);

/// Two interfaces that are about to be joined.
#[derive(Debug)]
pub struct Cable {
    ends: [(End, Port); 2],
}

impl Cable {
    /// Opens both ends.
    ///
    /// # Errors
    /// When one cannot be opened, with what to do.
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
                    // However one direction ends, it ends the other.
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
