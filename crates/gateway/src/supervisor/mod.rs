//! Starts the services, watches them, and speaks with the operator.
//!
//! ```text
//!   SIGTERM, SIGHUP ─▶ ┌────────────┐ ─ start, reload, end ─▶ ┌─────────┐
//!   control socket ──▶ │ supervisor │                         │ service │ one thread each,
//!   metrics file ◀──── └────────────┘ ◀─ ended, how it is ─── └─────────┘ or more
//! ```
//! A service that fails is started again by itself, while the others go on.

mod awaited;
mod control;
mod hand_over;
mod keeper;
mod listening;
mod metrics;
mod notify;
mod reload;
mod slot;
mod status;
#[cfg(test)]
mod tests;
mod traffic;
mod worker;

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base::readable;
use base::time::{Time, earliest};
use caps::{CapSet, Capability};
use host::Observer;
use host::fault::{Fault, Faults, News, Severity};
use host::numbers::Numbers;
use host::run::FolderWatch;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Gid, Uid};
use tracing::{info, warn};

use crate::config::{Config, Level};
use crate::doctor::{self, Finding, Rounds};
use crate::events::Recent;
use crate::explain::{Explanation, Question};
use crate::files;
use crate::legacy::Legacy;
use crate::linux::account::{self, Account};
use crate::linux::{belongings, rights, seccomp};
use crate::reactor::{Clock, Driver, Reactor, Waker, has_input};
use crate::service::{Kind, SERVICES, is_awaited};

pub use control::{
    NoGateway, ask_explanation, ask_hand_over, ask_peer, ask_reload, ask_status, ask_switch,
    keep_folder, remove_left,
};
pub use hand_over::HandedOver;
pub use keeper::keep_files;
pub use reload::Reloaded;
pub use traffic::Switched;

use awaited::Awaited;
use control::{Control, Request};
use hand_over::Pledge;
use keeper::Keeper;
use listening::Places;
use metrics::Metrics;
use notify::Notify;
use reload::Edited;
use slot::Slot;
use status::Status;
use traffic::Traffic;
use worker::{Notice, Notices};

/// Between two looks at all services: for the metrics, and for faults to be logged.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);
/// Until a removed control socket is tried to be opened again, if nothing is heard before.
const RESTORE_INTERVAL: Duration = Duration::from_millis(500);

/// A running gateway.
struct Supervisor {
    file: PathBuf,
    /// What is in force: the file's, and what was switched since.
    config: Arc<Config>,
    /// The text of the configuration, if peers were added or removed since the file was read.
    edited: Option<Edited>,
    traffic: Traffic,
    set_level: Box<dyn FnMut(Level)>,
    /// The last lines of the log.
    recent: Recent,
    slots: Vec<Slot>,
    notices: Notices,
    noticed: Receiver<Notice>,
    /// Hears what changes on the host, for all services.
    observer: Arc<Observer>,
    workers: u64,
    control: Control,
    /// Helper processes with rights that the gateway has given up.
    keepers: Vec<Keeper>,
    signals: SignalFd,
    metrics: Option<Metrics>,
    metrics_at: Option<Time>,
    faults: Faults,
    places: Places,
    /// Examines the host again when it changes; absent if there is no thread for it.
    rounds: Option<Rounds>,
    /// Absent if the kernel gives this user no more watches.
    folders: Option<FolderWatch>,
    /// Present while a service waits for an address of this host.
    awaited: Option<Awaited>,
    /// When to open the control socket again, whose name others have removed.
    restore_at: Option<Time>,
    notify: Notify,
    /// Devices of the previous gateway.
    legacy: Legacy,
    /// Devices handed over to the next gateway, which starts soon.
    pledge: Option<Pledge>,
    clock: Clock,
    is_over: bool,
}

/// Carries traffic as `file` says, which holds `config`, until told to end; its control socket is where it
/// usually is, or `at` this path.
///
/// When another configuration is read from the file while it runs, `set_level` is told what is to
/// be logged; `recent` has the last lines that were. Root becomes another user: docs/guide/gateway.md says which.
///
/// # Errors
/// When something is missing at the start, with the remedy.
pub fn run(
    file: &Path,
    config: Config,
    at: Option<&Path>,
    set_level: impl FnMut(Level) + 'static,
    recent: Recent,
) -> anyhow::Result<()> {
    // Before anything is opened.
    let legacy = Legacy::find().context("what the service manager has kept")?;
    rights::take_descriptors()?;
    ensure!(config.numbers.choose(), "[host]: other numbers are in use already");
    let account = Account::choose(config.process.user.as_deref(), host::run::namespace())?;
    let group = config.process.status_group.as_deref().map(account::group).transpose()?;
    let control = Control::open(at, account.as_ref(), group)?;
    let metrics = config.process.metrics.as_deref().map(Metrics::new);
    give_back(&config);
    if !config.numbers.note() {
        warn!("numbers of [host] not noted: `trackway down` would not know them after a crash");
    }
    let keepers = settle(file, &config, at, account.as_ref(), group)?;
    let confined = seccomp::confine();
    let mut supervisor = Supervisor::new(file, config, control, &SERVICES)?;
    (supervisor.metrics, supervisor.set_level) = (metrics, Box::new(set_level));
    (supervisor.recent, supervisor.legacy) = (recent, legacy);
    supervisor.keepers = keepers;
    warn_of(&supervisor.config);
    let left = supervisor.legacy.names();
    supervisor.start_all()?;
    files::let_go();
    supervisor.settle_legacy(&left);
    supervisor.rounds = examine(&supervisor.config, &supervisor.observer);
    tell_rights(account.as_ref(), confined);
    supervisor.notify.ready();
    let mut reactor = Reactor::new(supervisor.clock, Arc::clone(supervisor.notices.waker()));
    while !supervisor.is_over {
        if reactor.turn(&mut supervisor)? {
            supervisor.take_notices();
        }
    }
    supervisor.end();
    Ok(())
}

/// Restores settings that an earlier run left changed: the current run then saves and restores the original values. The
/// kernel forgets connections of an earlier run, which the current run may not lead here any more. What refuses packets
/// for services that the configuration does not have is removed; the other services take over what is theirs.
fn give_back(config: &Config) {
    host::timewait::forget();
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false) {
        let unwanted = SERVICES.iter().filter(|kind| !(kind.is_wanted)(config));
        unwanted.for_each(|kind| (kind.clean_up)());
    }
    let lost = host::lost_settings().unwrap_or_default();
    lost.iter().for_each(|said| warn!("{said}"));
    match host::settings::give_back() {
        Ok(given) => given.iter().for_each(|setting| {
            info!(%setting, "given back: an earlier run has left it changed");
        }),
        Err(why) => warn!(why = %format!("{why:#}"), "settings of an earlier run"),
    }
}

/// Makes what needs root, and is root no more: services start with the rights with which they are started again. Returns
/// the processes that stay root, or may read its files.
fn settle(
    file: &Path,
    config: &Config,
    control: Option<&Path>,
    account: Option<&Account>,
    group: Option<Gid>,
) -> anyhow::Result<Vec<Keeper>> {
    let mut keepers = Vec::new();
    if let Some(account) = account {
        belongings::prepare(config, account)?;
        if files::is_lasting(file) {
            files::hold(files::opened_by(|| Config::read(file)));
        }
        keepers.push(keeper::start(file, account)?);
        let link = belongings::linked(config);
        keepers.push(keeper::start_for_folder(account, group, control, link)?);
    }
    rights::settle(account, &rights::needed(config))?;
    Ok(keepers)
}

/// Says what could not be given up, and who we are now.
fn tell_rights(account: Option<&Account>, confined: io::Result<()>) {
    match account {
        Some(account) => info!(%account, "root no more"),
        None if Uid::effective().is_root() => {
            warn!("runs as root, as `user` says: root's files are within reach");
        }
        None => {}
    }
    if let Err(error) = confined {
        warn!(%error, "system calls are not filtered");
    }
}

impl Driver for Supervisor {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        for position in 0..self.slots.len() {
            if self.slots[position].retry_at().is_some_and(|at| at <= now) {
                let config = Arc::clone(&self.config);
                // If this fails, the start is tried again later.
                drop(self.start(now, position, &config, true));
            }
        }
        if self.metrics_at.is_some_and(|at| at <= now) {
            self.metrics_at = Some(now + METRICS_INTERVAL);
            let status = self.status();
            self.write_metrics(&status);
        }
        if self.restore_at.is_some_and(|at| at <= now) {
            self.keep_place(now);
        }
        self.withdraw(now);
        self.await_addresses();
        self.tell_manager(now);
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let due = earliest(self.metrics_at, self.control.next_timeout());
        let due = earliest(due, self.restore_at);
        let due = earliest(due, self.notify.next_timeout());
        let due = earliest(due, self.pledge.as_ref().map(Pledge::until));
        self.slots.iter().map(Slot::retry_at).fold(due, earliest)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        fds.extend(self.folders.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.awaited.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        self.control.watch(fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let (own, ready) = ready.split_at(1 + usize::from(self.folders.is_some()));
        let (of_host, of_control) = ready.split_at(usize::from(self.awaited.is_some()));
        if of_host.first().copied().is_some_and(has_input) {
            self.retry_with_addresses(now);
        }
        if has_input(own[0]) {
            self.take_signals(now)?;
        }
        let requests = self.control.handle_ready(now, of_control);
        if own.get(1).copied().is_some_and(has_input) {
            self.folders.iter().for_each(FolderWatch::read);
            self.keep_place(now);
        }
        for (client, request) in requests {
            match request {
                Request::Explain(question) => {
                    let mut explanation = self.explain(&question);
                    if let Some(peer) = explanation.peer() {
                        explanation.obstacle =
                            self.status().fault_of_peer(peer).or(explanation.obstacle);
                    }
                    self.control.answer(now, client, &explanation);
                }
                Request::HandOver => {
                    let outcome = self.hand_over(now);
                    self.control.answer(now, client, &outcome);
                }
                #[cfg(debug_assertions)]
                Request::Panic(service) => {
                    let slots = self.slots.iter().filter(|slot| slot.kind().name == service);
                    let workers: Vec<_> = slots.filter_map(Slot::running).collect();
                    workers.iter().for_each(|worker| worker.panic());
                    let count = workers.len();
                    self.control.answer(now, client, &count);
                }
                Request::Peer(change) => {
                    let outcome = self.change_peers(now, &change);
                    let file = std::path::absolute(&self.file).unwrap_or(self.file.clone());
                    self.control.answer(now, client, &(outcome, file));
                }
                Request::Reload => {
                    let outcome = self.reload(now);
                    self.control.answer(now, client, &outcome);
                }
                Request::Status => {
                    let status = self.status();
                    self.control.answer(now, client, &status);
                }
                Request::Switch(switch) => {
                    let outcome = self.switch(now, switch);
                    self.control.answer(now, client, &outcome);
                }
            }
        }
        Ok(())
    }
}

impl Supervisor {
    /// A supervisor whose services have not started yet.
    ///
    /// # Errors
    /// When there are no descriptors left.
    fn new(
        file: &Path,
        config: Config,
        control: Control,
        services: &'static [Kind],
    ) -> anyhow::Result<Self> {
        let waker = Waker::new()?;
        let (notices, noticed) = Notices::new(waker);
        // Before any thread starts: a signal would end a thread that does not block signals, and the process with it.
        let signals = signals()?;
        Ok(Self {
            file: file.to_owned(),
            observer: Observer::start(&config.networks)?,
            config: Arc::new(config),
            edited: None,
            traffic: Traffic::default(),
            set_level: Box::new(|_| {}),
            recent: Recent::default(),
            slots: services.iter().map(Slot::new).collect(),
            notices,
            noticed,
            workers: 0,
            control,
            keepers: Vec::new(),
            signals,
            metrics: None,
            metrics_at: Some(Time::ZERO),
            faults: Faults::default(),
            places: Places::default(),
            rounds: None,
            folders: FolderWatch::open().ok(),
            awaited: None,
            restore_at: None,
            notify: Notify::find(),
            legacy: Legacy::default(),
            pledge: None,
            clock: Clock::start(),
            is_over: false,
        })
    }

    /// Starts all services that are asked for, or none.
    fn start_all(&mut self) -> anyhow::Result<()> {
        let config = Arc::clone(&self.config);
        let mut names = Vec::new();
        for position in 0..self.slots.len() {
            let kind = self.slots[position].kind();
            if (kind.is_wanted)(&config) {
                match self.start_and_wait(position, &config, false) {
                    Err(why) if is_awaited(&why) => {
                        Failure { service: kind.name, why, is_news: true }.complain();
                        // As after a restart: the service carries traffic where possible, and waits for the rest.
                        self.slots[position].stop();
                        match self.start_and_wait(position, &config, true) {
                            Err(why) if is_awaited(&why) => {}
                            outcome => outcome?,
                        }
                    }
                    outcome => outcome?,
                }
                names.push(kind.name);
            }
        }
        info!(services = %names.join(", "), "gateway ready");
        Ok(())
    }

    /// Begins to start a service; a notice of the thread with this number reports the outcome.
    ///
    /// # Errors
    /// When no thread can be started.
    fn start(
        &mut self,
        now: Time,
        position: usize,
        config: &Arc<Config>,
        is_restart: bool,
    ) -> anyhow::Result<u64> {
        self.workers += 1;
        let slot = &mut self.slots[position];
        let started = slot.start(
            self.workers,
            config,
            &self.observer,
            is_restart,
            &self.legacy,
            &self.notices,
        );
        if let Err(why) = &started {
            slot.handle_failure(now, why);
        }
        started.map(|()| self.workers)
    }

    /// Starts a service and waits until it runs.
    ///
    /// # Errors
    /// What it is missing.
    fn start_and_wait(
        &mut self,
        position: usize,
        config: &Arc<Config>,
        is_restart: bool,
    ) -> anyhow::Result<()> {
        let worker = self.start(self.clock.now(), position, config, is_restart)?;
        loop {
            let notice = self.noticed.recv().context("nobody tells what became of it")?;
            let is_about_it = notice.worker == worker;
            match self.handle_notice(notice) {
                Some(Failure { why, .. }) if is_about_it => return Err(why),
                Some(failure) => failure.complain(),
                None if is_about_it => return Ok(()),
                None => {}
            }
        }
    }

    fn take_notices(&mut self) {
        while let Ok(notice) = self.noticed.try_recv() {
            if let Some(failure) = self.handle_notice(notice) {
                failure.complain();
            }
        }
    }

    /// Takes what a thread has to say; returns the failure of a service, if any.
    fn handle_notice(&mut self, Notice { worker, news }: Notice) -> Option<Failure> {
        let now = self.clock.now();
        let is_its = |slot: &&mut Slot| slot.worker().is_some_and(|its| its.is(worker));
        // A worker stopped in the meantime has no slot.
        let slot = self.slots.iter_mut().find(is_its)?;
        match news {
            worker::News::Started => {
                slot.handle_started(now);
                None
            }
            worker::News::Ended(outcome) => {
                let why = outcome.err().unwrap_or_else(|| anyhow::anyhow!("it ended by itself"));
                let is_news = slot.handle_failure(now, &why);
                Some(Failure { service: slot.kind().name, why, is_news })
            }
        }
    }

    fn take_signals(&mut self, now: Time) -> anyhow::Result<()> {
        while let Some(signal) = self.signals.read_signal().context("cannot read signals")? {
            let signal =
                i32::try_from(signal.ssi_signo).ok().and_then(|it| Signal::try_from(it).ok());
            match signal {
                Some(Signal::SIGHUP) => drop(self.reload(now)),
                // Programs that rotate logs send these signals to every program with a log.
                Some(signal @ (Signal::SIGUSR1 | Signal::SIGUSR2)) => {
                    info!(%signal, "signal passed over: logs go to the standard error output");
                }
                _ => self.is_over = true,
            }
        }
        Ok(())
    }

    /// Explains what becomes of a flow now.
    fn explain(&self, question: &Question) -> Explanation {
        question.explain_here(&self.config, |service| {
            self.slots.iter().any(|slot| slot.kind().name == service && slot.running().is_some())
        })
    }

    /// How all is.
    fn status(&mut self) -> Status {
        keeper::let_children_go_on();
        let asked = Instant::now();
        let workers = self.slots.iter().filter_map(Slot::running);
        let pending: Vec<_> = workers.map(worker::Worker::ask_report).collect();
        let mut reports: Vec<_> =
            pending.into_iter().filter_map(|report| report.wait(asked).ok()).collect();
        reports.extend(self.traffic.reports(&self.config, &reports));
        let slots = || self.slots.iter().filter(|slot| !slot.is_off());
        let mut present: Vec<_> = slots().filter_map(Slot::fault).collect();
        present.extend(reports.iter_mut().flat_map(|report| std::mem::take(&mut report.faults)));
        present.extend(self.places.faults(&self.config, &self.observer.places()));
        present.extend(self.rounds.iter().flat_map(|rounds| rounds.faults(&self.config)));
        present.extend(host::settings::keep_file());
        present.extend(self.keepers.iter_mut().filter_map(Keeper::fault));
        let services = slots().map(Slot::status).collect();
        let News { shown, begun, ended } = self.faults.follow(self.clock.now(), present);
        for Fault { kind, said, .. } in begun {
            warn!(code = kind.code, severity = %kind.severity, %said, "fault");
        }
        for Fault { kind, said, .. } in ended {
            info!(code = kind.code, %said, "fault has ended");
        }
        Status::new(services, reports, shown, self.recent.all())
    }

    /// Makes the control socket and the file of settings again if others have removed them.
    fn keep_place(&mut self, now: Time) {
        let was_lost = self.restore_at.take().is_some();
        if !self.control.is_there() {
            match self.control.restore() {
                Ok(()) => warn!("the control socket was removed, and is there again"),
                Err(why) => {
                    if !was_lost {
                        let why = format!("{why:#}");
                        warn!(
                            why,
                            "the control socket was removed: until it is back nobody can ask or order"
                        );
                    }
                    self.restore_at = Some(now + RESTORE_INTERVAL);
                }
            }
        }
        // The status tells the fault.
        let _ = host::settings::keep_file();
    }

    /// Tells the service manager how the services are, and that their threads work.
    fn tell_manager(&mut self, now: Time) {
        let Self { notify, slots, .. } = self;
        notify.say(|| {
            let slots = slots.iter().filter(|slot| !slot.is_off());
            slots.map(|slot| slot.status().in_words()).collect::<Vec<_>>().join("; ")
        });
        let running =
            slots.iter().filter_map(|slot| slot.running().map(|worker| (slot.kind().name, worker)));
        notify.prove(now, running);
    }

    fn write_metrics(&self, status: &Status) {
        let Some(metrics) = &self.metrics else { return };
        if let Err(error) = metrics.write(&status.to_metrics()) {
            warn!(file = %metrics.path().display(), %error, "counters not written");
        }
    }

    /// Ends all services: for good, but for those whose devices a successor takes over. A supervisor dropped without
    /// this call has failed: the routes and rules that keep packets from leaving in clear then stay.
    fn end(mut self) {
        self.notify.stopping();
        let status = self.status();
        // Clients end first, while a server of this gateway still runs: they say goodbye to the server.
        for slot in self.slots.iter_mut().rev().filter(|slot| !slot.is_off()) {
            slot.stop();
            let is_left = self.pledge.as_ref().is_some_and(|it| it.has(slot.kind().name));
            if !is_left {
                slot.clean_up();
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.end();
        }
        Numbers::forget();
        let ran = readable::span(self.clock.now().since(Time::ZERO).as_secs_f64());
        info!("gateway ends after {ran}{}", status.summary());
    }
}

/// Says what of a configuration is allowed and probably not meant.
fn warn_of(config: &Config) {
    for warning in config.warnings() {
        warn!(%warning, "probably not as it was meant");
    }
}

/// Logs obstacles on this host to the services' traffic; later obstacles are faults. A separate thread does both, so
/// nothing waits.
fn examine(config: &Arc<Config>, observer: &Observer) -> Option<Rounds> {
    let first = Arc::clone(config);
    let warn = move || {
        for Finding { kind, what, remedy, .. } in doctor::examine_beside(&first, true) {
            match kind.severity {
                Severity::Low => {}
                Severity::Medium | Severity::High => {
                    warn!(code = kind.code, %what, %remedy, "this host");
                }
            }
        }
    };
    Rounds::start(observer, config, warn)
        .inspect_err(|why| warn!(why = %format!("{why:#}"), "the host is not examined"))
        .ok()
}

/// A service that failed.
struct Failure {
    service: &'static str,
    why: anyhow::Error,
    /// Whether it failed for another reason than the last time.
    is_news: bool,
}

impl Failure {
    fn complain(&self) {
        let Self { service, why, is_news } = self;
        let said = format!("{why:#}");
        match is_awaited(why) {
            // It is tried every second, and said once.
            true if !is_news => {}
            true => warn!(service, why = said, "service waits for something of this host"),
            false => warn!(service, why = said, "service failed: it is started again"),
        }
    }
}

/// What tells the gateway to end or to read its configuration again, and all other signals that would end a process
/// without cleaning up; threads started later are not interrupted by them either.
fn signals() -> anyhow::Result<SignalFd> {
    let mask = SigSet::from_iter([
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
        Signal::SIGVTALRM,
        Signal::SIGPROF,
        Signal::SIGIO,
        Signal::SIGPWR,
    ]);
    mask.thread_block().context("cannot block signals")?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .context("cannot wait for signals")
}
