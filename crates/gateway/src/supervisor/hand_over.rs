//! Leaves the devices of services to the next process of this gateway, with addresses and routes.
//!
//! ```text
//!   hand over ──▶ descriptors to the service manager ──▶ SIGTERM in time: routes and rules stay for the successor
//!                                  │ no SIGTERM
//!                                  ▼
//!                          the service manager forgets them, and a later end cleans up as ever
//! ```

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base::time::Time;
use host::run::FolderWatch;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::Supervisor;

/// How long a gateway waits for its end after it has handed over.
const PATIENCE: Duration = Duration::from_secs(30);

/// The outcome of handing over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HandedOver {
    /// The devices of these services wait for the next process.
    Left(Vec<String>),
    /// Nothing is handed over; a restart begins all anew.
    Refused(String),
}

/// What is left to a successor, should this process be ended in time.
#[derive(Debug)]
pub struct Pledge {
    services: Vec<&'static str>,
    /// The names of the descriptors that the service manager has.
    names: Vec<&'static str>,
    until: Time,
}

impl Pledge {
    /// When it ends.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Whether what this service has in the kernel is left to the successor.
    pub fn has(&self, service: &str) -> bool {
        self.services.contains(&service)
    }
}

impl Supervisor {
    /// Gives the devices of all services to the service manager.
    pub fn hand_over(&mut self, now: Time) -> HandedOver {
        let mut pledge = Pledge { services: Vec::new(), names: Vec::new(), until: now + PATIENCE };
        match self.leave(&mut pledge) {
            Ok(()) => {
                let services = pledge.services.join(", ");
                info!(services, "devices handed over: a gateway that starts now goes on with them");
                let left = pledge.services.iter().map(|&it| it.to_owned()).collect();
                self.pledge = Some(pledge);
                // The kernel takes up to 0.4 s to close it, while services carry on: at the end of the process, the
                // successor would wait as long.
                self.folders = None;
                HandedOver::Left(left)
            }
            Err(why) => {
                let why = format!("{why:#}");
                warn!(why, "nothing is handed over");
                pledge.names.iter().for_each(|name| self.notify.release(name));
                HandedOver::Refused(why)
            }
        }
    }

    fn leave(&self, pledge: &mut Pledge) -> anyhow::Result<()> {
        let asked = Instant::now();
        let running =
            self.slots.iter().filter_map(|slot| Some((slot.kind().name, slot.running()?)));
        let pending: Vec<_> =
            running.map(|(name, worker)| (name, worker.ask_hand_over())).collect();
        for (service, pending) in pending {
            let left = pending.wait(asked).context(service)?.context(service)?;
            for it in &left {
                let kept = self.notify.keep(it.name, it.descriptor.as_fd());
                kept.context("no service manager keeps descriptors: NOTIFY_SOCKET")?;
                pledge.names.push(it.name);
            }
            if !left.is_empty() {
                pledge.services.push(service);
            }
        }
        Ok(())
    }

    /// Nobody has ended this process in time: it goes on, and has nothing to leave.
    pub fn withdraw(&mut self, now: Time) {
        if let Some(pledge) = self.pledge.take_if(|pledge| pledge.until <= now) {
            pledge.names.iter().for_each(|name| self.notify.release(name));
            self.folders = FolderWatch::open().ok();
            self.keep_place(now);
            info!("nobody has ended this gateway: what was handed over is its own again");
        }
    }

    /// All wanted services have started: the predecessor's descriptors are in use, or are given up. `left` has the
    /// names of the descriptors.
    pub fn settle_legacy(&mut self, left: &[String]) {
        if left.is_empty() {
            return;
        }
        self.legacy.close();
        left.iter().for_each(|name| self.notify.release(name));
    }
}
