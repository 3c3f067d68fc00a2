//! Ethernet interfaces on a simulated radio channel, in real time: any program, routing daemon and kernel
//! can be tried on a MANET that moves.
//!
//! ```text
//!   port ──▶ queue ──▶ ┌──────────────────────┐ ──▶ ports of those that heard it
//!   port ──▶ queue ──▶ │ sim::radio::Medium   │ ──▶
//!   ...                └──────────────────────┘
//! ```

mod hub;

use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::ensure;
use gateway::sys::port::Port;
use nix::poll::{PollFd, PollFlags};
use proto::time::{Time, earliest};

pub use hub::{Hub, Lateness, Seen, Stats};

use crate::device::{Buffers, Device, Taken};
use crate::{End, NoEnd, Stop};

/// How often to look whether the interfaces still exist; nothing tells us.
const MOMENT: Duration = Duration::from_millis(500);
/// Frames read from one port before the next has its turn.
const BATCH: usize = 32;

/// Interfaces that are about to have radios.
#[derive(Debug)]
pub struct Antennas {
    ends: Vec<(End, Port)>,
}

/// What never came to the air, or could not leave it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Frames that the kernel dropped because we were too slow.
    pub missed: u64,
    /// Frames that made no sense.
    pub malformed: u64,
    /// Frames that an interface did not take: longer than its MTU, or it is down or busy.
    pub refused: u64,
}

impl Antennas {
    /// Opens all interfaces: the first is that of the hub's first station, and so on.
    ///
    /// # Errors
    /// When one cannot be opened, with what to do.
    pub fn open(ends: &[End]) -> Result<Self, NoEnd> {
        let open = |end: &End| end.open().map(|port| (end.clone(), port));
        Ok(Self { ends: ends.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Carries frames until the run ends; `report` is called about `every` so long.
    ///
    /// # Errors
    /// When an interface is gone or the kernel does not play along.
    pub fn carry(
        &self,
        hub: &mut Hub,
        stop: &Stop,
        every: Duration,
        mut report: impl FnMut(Time, &mut Hub),
    ) -> anyhow::Result<Outcome> {
        let devices: Vec<Device<'_>> =
            self.ends.iter().map(|(_, port)| Device::new(port)).collect();
        let (mut buffers, mut outcome) = (Buffers::default(), Outcome::default());
        let (mut look, mut told) = (stop.now() + MOMENT, stop.now() + every);
        loop {
            let due = earliest(hub.next_timeout(), Some(look.min(told)));
            let watched = |fds: &mut Vec<_>| {
                fds.extend(devices.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
            };
            let Some(ready) = stop.wait(due, watched)? else { break };
            // First what should have happened by now, so that frames that come now find it done.
            hub.handle_timeout(stop.now());
            for (index, device) in devices.iter().enumerate() {
                if ready[index].is_empty() {
                    continue;
                }
                for _ in 0..BATCH {
                    let take = |parts: &[&[u8]]| hub.handle_frame(stop.now(), index, parts);
                    match device.take(&mut buffers, take)? {
                        Taken::Nothing => break,
                        Taken::Malformed => outcome.malformed += 1,
                        Taken::Frames => {}
                    }
                }
            }
            while let Some((to, frame)) = hub.poll_transmit() {
                outcome.refused += u64::from(!devices[to].send(&mut buffers, &frame));
                hub.recycle(frame);
            }
            let now = stop.now();
            if now >= look {
                look = now + MOMENT;
                for (end, port) in &self.ends {
                    ensure!(!port.is_gone(), "{end} is gone");
                }
            }
            if now >= told {
                told = now + every;
                report(now, hub);
            }
        }
        outcome.missed = self.ends.iter().map(|(_, port)| port.missed()).sum();
        Ok(outcome)
    }
}
