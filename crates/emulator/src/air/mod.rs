//! Ethernet interfaces on a simulated radio channel, in real time: any program, routing daemon and kernel
//! can be tried on a MANET that moves, or on a combat net.
//!
//! ```text
//!   port ──▶ ┌─────┐    RadioHub: queues before sim::radio::Medium
//!   port ──▶ │ Hub │    NetHub:   sim::cnr::Medium
//!   ...  ◀── └─────┘
//! ```

mod frames;
mod lateness;
mod net;
mod radio;

use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::ensure;
use base::time::{Time, earliest};
use gateway::sys::port::Port;
use nix::poll::{PollFd, PollFlags};

pub use lateness::Lateness;
pub use net::{NetHub, NetSeen, NetStats};
pub use radio::{RadioHub, Seen, Stats};

use crate::device::{Buffers, Device, Taken};
use crate::{End, NoEnd, Stop};

/// How often to look whether the interfaces still exist; nothing tells us.
const MOMENT: Duration = Duration::from_millis(500);
/// Frames read from one port before the next has its turn.
const BATCH: usize = 32;

/// A channel with interfaces as stations, numbered by their places.
///
/// A hub reads no clock: real time and tests are the same to it. Events due before `now` happen at their own time,
/// however late the caller is; only frames from outside are late then.
pub trait Hub {
    /// Takes a whole frame from a station's interface, in any number of parts.
    fn handle_frame(&mut self, now: Time, station: usize, parts: &[&[u8]]);

    /// Handles all due events, each at its own time.
    fn handle_timeout(&mut self, now: Time);

    /// The next arrived frame, and the station of its interface.
    fn poll_transmit(&mut self) -> Option<(usize, Vec<u8>)>;

    /// Takes a buffer back.
    fn recycle(&mut self, frame: Vec<u8>);

    /// When to call [`Hub::handle_timeout`] at the latest.
    fn next_timeout(&self) -> Option<Time>;

    /// How far the channel was behind the clock since the last call.
    fn take_lateness(&mut self) -> Lateness;
}

/// Interfaces that are about to have radios.
#[derive(Debug)]
pub struct Antennas {
    ends: Vec<(End, Port)>,
}

/// Frames that never came to the air, or could not leave it.
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
    /// Opens all interfaces, in the order of the hub's stations.
    ///
    /// # Errors
    /// When an interface cannot be opened, with the remedy.
    pub fn open(ends: &[End]) -> Result<Self, NoEnd> {
        let open = |end: &End| end.open().map(|port| (end.clone(), port));
        Ok(Self { ends: ends.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Carries frames until the run ends; `report` is called about `every` so long.
    ///
    /// # Errors
    /// When an interface is gone or the kernel does not play along.
    pub fn carry<H: Hub>(
        &self,
        hub: &mut H,
        stop: &Stop,
        every: Duration,
        mut report: impl FnMut(Time, &mut H),
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
            // First handle events due by now, before new frames are taken.
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
