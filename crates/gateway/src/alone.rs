//! A gateway with tunnels and no MANET interfaces: all it does itself is to watch.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use tracing::{info, warn};

use crate::config::{self, Config};
use crate::control::Control;
use crate::counters;
use crate::rights::{self, ADMIN};
use crate::setup;
use crate::tunnel::Service;

const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// A running gateway.
pub(crate) struct Alone {
    service: Service,
    config: Config,
    control: Control,
    signals: SignalFd,
}

impl Alone {
    pub(crate) fn set_up(config: Config, tunnel: &config::Tunnel) -> anyhow::Result<Self> {
        let control = Control::open()?;
        let seed = setup::draw_seed().context("cannot read /dev/urandom")?;
        let service = Service::set_up(tunnel, seed)?;
        rights::give_up(&ADMIN)?;
        let signals = setup::signals()?;
        Ok(Self { service, config, control, signals })
    }

    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        self.service.start()?;
        info!("gateway ready");
        let mut written: Option<Instant> = None;
        loop {
            let left = self.config.metrics.as_ref().map(|_| {
                written.map_or(Duration::ZERO, |at| METRICS_INTERVAL.saturating_sub(at.elapsed()))
            });
            let input = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = [
                input(self.signals.as_fd()),
                input(self.control.as_fd()),
                input(self.service.ended()),
            ];
            match ppoll(&mut fds, left.map(TimeSpec::from), None) {
                Ok(0) => {
                    written = Some(Instant::now());
                    self.write_metrics();
                    continue;
                }
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error).context("waiting"),
            }
            let [signal, control, ended] =
                fds.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            if signal || ended {
                break;
            }
            if control {
                self.control.answer(|| {
                    counters::status_json(&self.service.entries(), Some(&self.service.status()))
                });
            }
        }
        let outcome = self.service.stop();
        self.write_metrics();
        let counters = counters::as_json(&self.service.entries());
        info!(counters = %counters.trim(), tunnels = %self.service.status(), "gateway ends");
        outcome
    }

    fn write_metrics(&self) {
        let Some(path) = &self.config.metrics else { return };
        let text = counters::as_metrics(&self.service.entries()) + &self.service.metrics();
        if let Err(error) = counters::replace(path, &text) {
            warn!(path = %path.display(), %error, "counters not written");
        }
    }
}
