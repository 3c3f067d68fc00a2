//! The tunnel: any IP traffic between gateways through a TUN device and encrypted UDP.
//!
//! ```text
//!                outward thread                        ┌──────┐
//!   TUN device ─▶ cut, clamp, route ─▶ core of a peer ─▶ seal ├─▶ UDP
//!              ◀─ join ◀─ check source ◀─ core ◀─ open ◀─────┴──  UDP
//!                inward thread
//! ```
//!
//! Two threads share the cores behind one short lock; sealing, opening, cutting, joining and all
//! system calls happen outside of it. Either thread sends what the cores have ready, whichever
//! comes first; so nobody waits for the other to wake up.

mod counters;
mod errors;
mod inward;
mod outward;
mod state;
mod status;
mod transmit;
mod wait;

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use nix::sys::eventfd::{EfdFlags, EventFd};
use proto::rng::Rng;
use proto::secure::{self, Routes};
use proto::time::Time;

use crate::config;
use crate::keys;
use crate::linux::device::{Device, Wanted};
use crate::linux::netlink::Netlink;
use crate::supervisor::counters::Entry;
use crate::sys::{Tap, Udp};

use counters::Counters;
use errors::Errors;
use state::State;
use transmit::Transmitter;

/// The tunnels of this gateway; they end when it is dropped.
pub(crate) struct Service {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

/// What a thread does until the end.
type Run = fn(&Shared) -> anyhow::Result<()>;

/// What both threads use.
struct Shared {
    started: Instant,
    tun: Tap,
    udp: Udp,
    routes: Routes,
    state: Mutex<State>,
    transmitter: Mutex<Transmitter>,
    /// Somebody wants the transmitter to look again.
    transmit_again: AtomicBool,
    /// The socket is full: it is waited for.
    is_blocked: AtomicBool,
    device: Mutex<Device>,
    errors: Mutex<Errors>,
    /// Until when each thread sleeps, in nanoseconds; the end of time when it is awake or sleeps
    /// without a deadline.
    armed: [AtomicU64; 2],
    counters: Counters,
    /// Readable when all is to end, and for good.
    end: EventFd,
}

impl Service {
    /// Makes the device, opens the socket, reads the keys.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    pub(crate) fn set_up(config: &config::Tunnel, seed: u64) -> anyhow::Result<Self> {
        let config::Keys { private_key, peers } = config.keys()?;
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let (tun, device) = Device::open(netlink, &wanted(config))?;
        let udp = Udp::open(config.listen)
            .with_context(|| format!("cannot open a UDP socket on {}", config.listen))?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let rng = Rng::stream(seed, "secure");
        let peers = secure::Peers::new(
            Time::ZERO,
            unix,
            &private_key,
            &peers,
            rng,
            Box::new(keys::System),
        )?;
        let errors = Errors::new(config);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            tun,
            udp,
            routes: config.routes(),
            state: Mutex::new(State::new(config, peers, seed)),
            transmitter: Mutex::new(Transmitter::default()),
            transmit_again: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            device: Mutex::new(device),
            errors: Mutex::new(errors),
            armed: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            counters: Counters::default(),
            end: EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
                .context("cannot make an event descriptor")?,
        });
        Ok(Self { shared, threads: Vec::new() })
    }

    /// Starts to carry traffic.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        let threads: [(&str, Run); 2] = [("outward", outward::run), ("inward", inward::run)];
        for (name, run) in threads {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                let outcome = run(&shared);
                shared.end();
                outcome
            });
            self.threads.push(thread.context("cannot start a thread")?);
        }
        Ok(())
    }

    /// Readable when a thread has ended because it cannot go on.
    pub(crate) fn ended(&self) -> std::os::fd::BorrowedFd<'_> {
        self.shared.end.as_fd()
    }

    /// Ends the threads.
    ///
    /// # Errors
    /// What ended one of them before.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.shared.end();
        let mut outcome = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }

    /// The counters of all tunnels together, by name.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.shared.entries()
    }

    /// Each tunnel as a JSON object, in an array.
    pub(crate) fn status(&self) -> String {
        self.shared.status()
    }

    /// Each tunnel's counters in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        self.shared.metrics()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    fn end(&self) {
        let _ = self.end.write(1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Acts on what is due, and tells the peers and the device what came of it.
    fn act(&self) {
        let mut state = self.state();
        let now = self.now();
        state.handle_timeout(now);
        self.settle(state, now);
    }

    /// Carries out what the state has decided; to be called after each change.
    fn settle(&self, mut state: MutexGuard<'_, State>, now: Time) {
        state.take_events(now);
        while let Some((to, datagram)) = state.poll_control(now) {
            if self.udp.send_to(to, &datagram).is_err() {
                self.counters.control_refused.add(1);
            }
        }
        let mtu = state.take_device_mtu();
        drop(state);
        if let Some(mtu) = mtu {
            lock(&self.device).set_mtu(mtu);
        }
        self.transmit();
    }

    /// Sends what the cores have ready, unless the other thread is at it: then that one looks
    /// again.
    fn transmit(&self) {
        self.transmit_again.store(true, Ordering::SeqCst);
        while self.transmit_again.load(Ordering::SeqCst) {
            let Ok(mut transmitter) = self.transmitter.try_lock() else { return };
            self.transmit_again.store(false, Ordering::SeqCst);
            transmitter.pump(self);
        }
    }
}

fn wanted(config: &config::Tunnel) -> Wanted<'_> {
    let routes = config
        .peers
        .iter()
        .flat_map(|peer| peer.routes.iter().map(|route| (peer.name.clone(), *route)));
    Wanted {
        name: &config.device,
        addresses: &config.addresses,
        routes: routes.collect(),
        // The search for the path's begins there.
        mtu: 1_280,
        has_trains: true,
    }
}

/// The guarded value, also after a thread has panicked: it ends then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
