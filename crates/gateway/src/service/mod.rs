//! What a gateway carries besides HBH, each service on threads of its own.

pub(crate) mod complaints;
pub(crate) mod hbh;
mod ipclient;
mod s5066;
mod tunnel;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::config::Config;
use crate::supervisor::counters::Entry;

/// The services that the configuration names; they end when they are dropped.
pub(crate) struct Services {
    tunnel: Option<tunnel::Service>,
    threads: Vec<Thread>,
}

/// A service on one thread, which tells now and then how it is.
pub(crate) struct Thread {
    name: &'static str,
    shared: Arc<Shared>,
    run: Option<Run>,
    handle: Option<JoinHandle<anyhow::Result<()>>>,
}

/// What the thread does until it is told to end.
pub(crate) type Run = Box<dyn FnOnce(&Shared) -> anyhow::Result<()> + Send>;

/// What a service and its gateway share.
pub(crate) struct Shared {
    end: EventFd,
    report: Mutex<Report>,
}

/// How a service is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Its counters; their names begin with the service's.
    pub(crate) entries: Vec<Entry>,
    /// More than numbers, as a JSON object.
    pub(crate) status: String,
}

impl Services {
    /// Opens all that the services need; nothing is carried yet.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    pub(crate) fn set_up(config: &Config, seed: u64) -> anyhow::Result<Self> {
        let tunnel = config.tunnel.as_ref();
        let tunnel = tunnel.map(|tunnel| tunnel::Service::set_up(tunnel, seed)).transpose()?;
        let station = config.s5066.as_ref();
        let station = station.map(|station| s5066::set_up(station, seed)).transpose()?;
        let ip_client = config.ip_client.as_ref().map(ipclient::set_up).transpose()?;
        Ok(Self { tunnel, threads: station.into_iter().chain(ip_client).collect() })
    }

    /// Starts to carry traffic.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.start()?;
        }
        self.threads.iter_mut().try_for_each(Thread::start)
    }

    /// Readable when a service has ended because it cannot go on.
    pub(crate) fn ended(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let tunnel = self.tunnel.as_ref().map(tunnel::Service::ended);
        tunnel.into_iter().chain(self.threads.iter().map(|thread| thread.shared.end.as_fd()))
    }

    /// Ends them.
    ///
    /// # Errors
    /// What ended one of them before.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        let mut outcome = self.tunnel.as_mut().map_or(Ok(()), tunnel::Service::stop);
        for thread in &mut self.threads {
            outcome = outcome.and(thread.stop());
        }
        outcome
    }

    /// All counters by name.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = self.tunnel.as_ref().map(tunnel::Service::entries).unwrap_or_default();
        for thread in &self.threads {
            entries.extend(thread.shared.report().entries.iter());
        }
        entries
    }

    /// More than numbers: names and JSON values.
    pub(crate) fn status(&self) -> Vec<(&'static str, String)> {
        let tunnel = self.tunnel.as_ref().map(|tunnel| ("tunnels", tunnel.status()));
        let threads = self.threads.iter().map(|thread| {
            let status = thread.shared.report().status.clone();
            (thread.name, if status.is_empty() { "null".to_owned() } else { status })
        });
        tunnel.into_iter().chain(threads).collect()
    }

    /// The counters that stand for one of several, in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        self.tunnel.as_ref().map(tunnel::Service::metrics).unwrap_or_default()
    }
}

impl Thread {
    /// A service that begins when it is started.
    pub(crate) fn new(name: &'static str, run: Run) -> anyhow::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let end = EventFd::from_value_and_flags(0, flags).context("cannot make an event")?;
        let shared = Arc::new(Shared { end, report: Mutex::default() });
        Ok(Self { name, shared, run: Some(run), handle: None })
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            let outcome = run(&shared);
            let _ = shared.end.write(1);
            outcome
        });
        self.handle = Some(thread.context("cannot start a thread")?);
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        let _ = self.shared.end.write(1);
        let Some(handle) = self.handle.take() else { return Ok(()) };
        handle.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Shared {
    /// Readable when all is to end, and for good.
    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Tells how it is.
    pub(crate) fn tell(&self, report: Report) {
        *self.report() = report;
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
