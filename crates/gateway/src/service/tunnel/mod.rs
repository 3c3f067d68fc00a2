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
mod reload;
mod state;
mod status;
mod transmit;
mod wait;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use caps::Capability;
use nix::poll::{PollFd, PollFlags};
use proto::rng::Rng;
use proto::secure::{self, PrivateKey, Routes};
use proto::time::Time;

use super::{Kind, Reload, Report, Service, Setup};
use crate::config::{self, Config};
use crate::keys;
use crate::linux::device::{Device, Wanted};
use crate::linux::netlink::Netlink;
use crate::reactor::{Clock, Driver};
use crate::sys::{Tap, Udp};

use counters::Counters;
use errors::Errors;
use inward::Inward;
use outward::Outward;
use state::State;
use transmit::Transmitter;
use wait::Second;

pub(super) const KIND: Kind = Kind {
    name: "tunnel",
    is_wanted: |config| config.tunnel.is_some(),
    // For the device's MTU; and should its port be below 1024.
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Tunnel::set_up(setup)?)),
};

/// The tunnels of this gateway. Its thread is the inward one.
struct Tunnel {
    config: config::Tunnel,
    private_key: PrivateKey,
    shared: Arc<Shared>,
    inward: Inward,
    /// The outward thread.
    second: Second,
}

/// What both threads use.
struct Shared {
    clock: Clock,
    tun: Tap,
    udp: Udp,
    routes: RwLock<Arc<Routes>>,
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
}

impl Tunnel {
    /// Makes the device, opens the socket, reads the keys.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let config = setup.config.tunnel.clone().context("no section [tunnel]")?;
        let config::Keys { private_key, peers } = config.keys()?;
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let (tun, device) = Device::open(netlink, &wanted(&config))?;
        let udp = Udp::open(config.listen)
            .with_context(|| format!("cannot open a UDP socket on {}", config.listen))?;
        let rng = Rng::stream(setup.seed, "secure");
        let system = Box::new(keys::System);
        let nobody = secure::Peers::new(Time::ZERO, unix(), &private_key, &[], rng, system)?;
        let mut state = State::new(config.mtu, nobody, setup.seed);
        for (peer, keys) in config.peers.iter().zip(&peers) {
            state.add_peer(Time::ZERO, peer, keys)?;
        }
        let errors = Errors::new(&config);
        let shared = Arc::new(Shared {
            clock: setup.clock,
            tun,
            udp,
            routes: RwLock::new(Arc::new(state.routes())),
            state: Mutex::new(state),
            transmitter: Mutex::new(Transmitter::default()),
            transmit_again: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            device: Mutex::new(device),
            errors: Mutex::new(errors),
            armed: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            counters: Counters::default(),
        });
        let inward = Inward::new(&shared);
        let outward = Outward::new(Arc::clone(&shared));
        let second = Second::start("outward", setup, outward)?;
        Ok(Self { config, private_key, shared, inward, second })
    }
}

impl Driver for Tunnel {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        self.second.check()?;
        self.shared.act();
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.shared.sleep(wait::INWARD)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.inward.watch(&self.shared, fds);
    }

    fn handle_ready(&mut self, _now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.shared.wake_up(wait::INWARD);
        self.inward.handle_ready(&self.shared, ready)
    }
}

impl Service for Tunnel {
    fn report(&self, _now: Time) -> Report {
        self.shared.report()
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        self.follow(config.tunnel.as_ref().context("no section [tunnel]")?)
    }
}

impl Shared {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Acts on what is due, and tells the peers and the device what came of it.
    fn act(&self) {
        let mut state = self.state();
        let now = self.now();
        state.handle_wall_clock(now, unix());
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

/// The time since 1970, as the wall clock has it.
fn unix() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

fn wanted(config: &config::Tunnel) -> Wanted<'_> {
    Wanted {
        name: &config.device,
        addresses: &config.addresses,
        routes: reload::routes(config),
        // The search for the path's begins there.
        mtu: 1_280,
        has_trains: true,
    }
}

/// The guarded value, also after a thread has panicked: it ends then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
