//! Runs a service on a thread, and passes messages to the thread.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base::entropy::Entropy as _;
use host::Observer;

use crate::config::Config;
use crate::keys;
use crate::legacy::{Left, Legacy};
use crate::linux::rights;
use crate::reactor::{Clock, Reactor, Waker};
use crate::service::{Kind, Reload, Report, Service, Setup};

/// How long a service may take to answer; a test waits for it.
const ANSWER: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 5 });

/// What a service is told.
enum Order {
    Alive(Sender<()>),
    End,
    HandOver(Sender<anyhow::Result<Vec<Left>>>),
    /// Panics, for tests of a panic.
    #[cfg(debug_assertions)]
    Panic,
    Reload(Arc<Config>, Sender<anyhow::Result<Reload>>),
    Report(Sender<Report>),
}

/// What a thread has to say.
#[derive(Debug)]
pub struct Notice {
    /// Which thread.
    pub worker: u64,
    pub news: News,
}

#[derive(Debug)]
pub enum News {
    /// Its service is set up and carries traffic.
    Started,
    /// Its service is no more; or never was, if it did not start.
    Ended(anyhow::Result<()>),
}

/// Where threads tell it.
#[derive(Clone, Debug)]
pub struct Notices {
    sender: Sender<Notice>,
    waker: Arc<Waker>,
}

impl Notices {
    /// Notices that wake `waker`, and where they arrive.
    pub fn new(waker: Arc<Waker>) -> (Self, Receiver<Notice>) {
        let (sender, noticed) = mpsc::channel();
        (Self { sender, waker }, noticed)
    }

    /// Who is woken.
    pub fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    fn tell(&self, notice: Notice) {
        // Without a supervisor nobody wants to know.
        let _ = self.sender.send(notice);
        self.waker.wake();
    }
}

/// A thread of a service. The thread ends when its `Worker` is dropped.
#[derive(Debug)]
pub struct Worker {
    /// Its number; no other thread ever has it.
    id: u64,
    orders: Sender<Order>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// What a thread is made from.
pub struct Job {
    pub kind: &'static Kind,
    pub config: Arc<Config>,
    pub observer: Arc<Observer>,
    pub is_restart: bool,
    pub legacy: Legacy,
}

/// A pending answer of a thread.
pub struct Pending<T>(Receiver<T>);

impl Worker {
    /// Starts a thread that sets up a service and runs it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(id: u64, job: Job, notices: Notices) -> anyhow::Result<Self> {
        let (orders, taken) = mpsc::channel();
        let waker = Waker::new()?;
        let reactor_waker = Arc::clone(&waker);
        let thread = std::thread::Builder::new().name(job.kind.name.to_owned());
        let thread = thread.spawn(move || {
            let mut teller = Teller { id, notices, outcome: None };
            // Whatever the service had is dropped on the way, and its sockets reset what they carried.
            let run = || run(&job, &taken, &reactor_waker, &teller);
            let outcome = panic::catch_unwind(AssertUnwindSafe(run));
            teller.outcome = Some(outcome.unwrap_or_else(|what| Err(panicked(&*what))));
        });
        let thread = Some(thread.context("cannot start a thread")?);
        Ok(Self { id, orders, waker, thread })
    }

    /// Whether the thread has the number `id`.
    pub fn is(&self, id: u64) -> bool {
        self.id == id
    }

    /// Asks whether the thread still takes orders between its turns.
    pub fn ask_alive(&self) -> Pending<()> {
        self.ask(Order::Alive)
    }

    /// Asks how the service is.
    pub fn ask_report(&self) -> Pending<Report> {
        self.ask(Order::Report)
    }

    /// Asks for what the service leaves to the next process.
    pub fn ask_hand_over(&self) -> Pending<anyhow::Result<Vec<Left>>> {
        self.ask(Order::HandOver)
    }

    /// Gives the service another configuration.
    pub fn ask_reload(&self, config: Arc<Config>) -> Pending<anyhow::Result<Reload>> {
        self.ask(|answer| Order::Reload(config, answer))
    }

    /// Lets the service's thread panic, for tests.
    #[cfg(debug_assertions)]
    pub fn panic(&self) {
        self.tell(Order::Panic);
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Pending<T> {
        let (answer, answered) = mpsc::channel();
        self.tell(order(answer));
        Pending(answered)
    }

    fn tell(&self, order: Order) {
        // A thread that has ended takes no orders; its notice says so.
        let _ = self.orders.send(order);
        self.waker.wake();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tell(Order::End);
        if let Some(thread) = self.thread.take() {
            // It does not panic: a panic of its service was caught and told.
            let _ = thread.join();
        }
    }
}

impl Pending<()> {
    /// Whether the answer has come, or the thread has ended and there never will be one.
    pub fn is_over(&self) -> bool {
        self.0.try_recv() != Err(TryRecvError::Empty)
    }
}

impl<T> Pending<T> {
    /// The answer.
    ///
    /// # Errors
    /// When there is none in time, or the thread has ended and there never will be.
    pub fn wait(self, since: Instant) -> Result<T, RecvTimeoutError> {
        self.0.recv_timeout(ANSWER.saturating_sub(since.elapsed()))
    }
}

/// Turns a panic into the error of the service.
fn panicked(what: &(dyn Any + Send)) -> anyhow::Error {
    let said = what.downcast_ref::<&str>().copied();
    let said = said.or_else(|| what.downcast_ref::<String>().map(String::as_str));
    anyhow::anyhow!("it panicked: {}", said.unwrap_or("without a word"))
}

/// Reports the end of a thread.
struct Teller {
    id: u64,
    notices: Notices,
    outcome: Option<anyhow::Result<()>>,
}

impl Teller {
    fn tell(&self, news: News) {
        self.notices.tell(Notice { worker: self.id, news });
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        self.tell(News::Ended(outcome.unwrap_or_else(|| Err(anyhow::anyhow!("its thread ended")))));
    }
}

fn run(
    job: &Job,
    orders: &Receiver<Order>,
    waker: &Arc<Waker>,
    teller: &Teller,
) -> anyhow::Result<()> {
    let Job { kind, config, observer, is_restart, legacy } = job;
    rights::give_up(kind.rights)?;
    let clock = Clock::start();
    let mut reactor = Reactor::new(clock, Arc::clone(waker));
    let mut seed = [0; 8];
    keys::System.fill(&mut seed)?;
    let seed = u64::from_ne_bytes(seed);
    let is_restart = *is_restart;
    let setup = Setup { config, seed, clock, waker, observer, is_restart, legacy };
    let mut service = (kind.set_up)(&setup)?;
    teller.tell(News::Started);
    loop {
        if reactor.turn(&mut *service)? {
            while let Ok(order) = orders.try_recv() {
                if !obey(&mut *service, clock, order) {
                    return Ok(());
                }
            }
        }
    }
}

/// Whether the service goes on.
fn obey(service: &mut dyn Service, clock: Clock, order: Order) -> bool {
    let now = clock.now();
    // Who has asked may have stopped waiting.
    match order {
        Order::Alive(answer) => drop(answer.send(())),
        Order::End => {
            service.end(now);
            return false;
        }
        Order::HandOver(answer) => drop(answer.send(service.hand_over())),
        #[cfg(debug_assertions)]
        Order::Panic => panic!("a test asked for it"),
        Order::Reload(config, answer) => drop(answer.send(service.reload(now, &config))),
        Order::Report(answer) => drop(answer.send(service.report(now))),
    }
    true
}
