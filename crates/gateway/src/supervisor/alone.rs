//! A gateway without MANET interfaces: all it does itself is to watch its services.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use tracing::{info, warn};

use crate::config::Config;
use crate::linux::rights::{self, ADMIN};
use crate::service::Services;
use crate::setup;
use crate::supervisor::control::Control;
use crate::supervisor::counters;

const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// A running gateway.
pub(crate) struct Alone {
    services: Services,
    config: Config,
    control: Control,
    signals: SignalFd,
}

impl Alone {
    pub(crate) fn set_up(config: Config) -> anyhow::Result<Self> {
        let control = Control::open()?;
        let seed = setup::draw_seed().context("cannot read /dev/urandom")?;
        let services = Services::set_up(&config, seed)?;
        rights::give_up(&ADMIN)?;
        let signals = setup::signals()?;
        Ok(Self { services, config, control, signals })
    }

    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        self.services.start()?;
        info!("gateway ready");
        let mut written: Option<Instant> = None;
        loop {
            let left = self.config.metrics.as_ref().map(|_| {
                written.map_or(Duration::ZERO, |at| METRICS_INTERVAL.saturating_sub(at.elapsed()))
            });
            let input = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = vec![input(self.signals.as_fd()), input(self.control.as_fd())];
            fds.extend(self.services.ended().map(input));
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
            let is_ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
            if is_ready(&fds[0]) || fds[2..].iter().any(is_ready) {
                break;
            }
            if is_ready(&fds[1]) {
                self.control.answer(|| {
                    counters::status_json(&self.services.entries(), &self.services.status())
                });
            }
        }
        let outcome = self.services.stop();
        self.write_metrics();
        let counters = counters::status_json(&self.services.entries(), &self.services.status());
        info!(counters = %counters.trim(), "gateway ends");
        outcome
    }

    fn write_metrics(&self) {
        let Some(path) = &self.config.metrics else { return };
        let text = counters::as_metrics(&self.services.entries()) + &self.services.metrics();
        if let Err(error) = counters::replace(path, &text) {
            warn!(path = %path.display(), %error, "counters not written");
        }
    }
}
