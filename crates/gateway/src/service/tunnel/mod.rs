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
//! comes first; so nobody waits for the other to wake up. A third asks name servers where peers are.

mod counters;
mod errors;
mod fresh;
mod inner;
mod inward;
mod named;
mod names;
mod naming;
mod news;
mod outer;
mod outward;
mod reload;
mod sockets;
mod source;
mod state;
mod status;
mod transmit;
mod wait;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use counters::Counters;
use errors::Errors;
use fresh::From;
use host::links;
use host::netlink::Netlink;
use host::{DeviceRoutes, Owner, Precedence, Reconciler, Watch};
use inward::Inward;
use names::Names;
use nix::poll::{PollFd, PollFlags};
use outward::Outward;
use sockets::Sockets;
use state::State;
use transmit::Transmitter;
use tunnel::secure::{self, PrivateKey, Routes};
use wait::Second;

use super::{Kind, Reload, Report, Service, Setup, wall_clock};
use crate::config::{self, Config};
use crate::keys;
use crate::linux::device::{Device, Wanted};
use crate::reactor::{Clock, Driver, Waker};
use crate::sys::Tap;

pub(super) const KIND: Kind = Kind {
    name: "tunnel",
    is_wanted: |config| config.tunnel.is_some(),
    // For the device's MTU; and should its port be below 1024.
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Tunnel::set_up(setup)?)),
    // Only who ends for good lets packets go in clear.
    clean_up: || host::give_up(Owner::Tunnel),
};

/// Clocks that are read within this time are read at once.
const CLOSE: Duration = Duration::from_millis(100);

/// The tunnels of this gateway; the service's own thread is the inward one.
struct Tunnel {
    config: config::Tunnel,
    private_key: PrivateKey,
    shared: Arc<Shared>,
    inward: Inward,
    watch: Watch,
    /// The outward thread, and the thread that asks for names.
    others: [Second; 2],
}

/// What the threads use.
struct Shared {
    clock: Clock,
    /// Wakes the thread that asks for names.
    asker: Arc<Waker>,
    tun: Tap,
    sockets: Sockets,
    routes: RwLock<Arc<Routes>>,
    /// This host's addresses: no peer may send from there.
    own: RwLock<Arc<BTreeSet<IpAddr>>>,
    state: Mutex<State>,
    transmitter: Mutex<Transmitter>,
    /// Somebody wants the transmitter to look again.
    transmit_again: AtomicBool,
    device: Mutex<Device>,
    /// Locked before the device, if both are.
    reconciler: Mutex<Reconciler>,
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
        let sockets = Sockets::open(&config)?;
        let rng = Rng::stream(setup.seed, "secure");
        let system = Box::new(keys::System);
        let nobody = secure::Peers::new(Time::ZERO, wall_clock(), &private_key, &[], rng, system)?;
        let mut state = State::new(config.mtu, sockets.listening(), nobody, setup.seed);
        for (peer, keys) in config.peers.iter().zip(&peers) {
            state.add_peer(Time::ZERO, peer, keys)?;
        }
        state.ask_names(setup.clock.now());
        let questions = std::mem::take(&mut state.questions);
        for (peer, name, outcome) in
            names::ask_first(setup.clock, setup.seed, sockets.versions(), questions)?
        {
            state.handle_resolved(setup.clock.now(), (peer, &name), outcome);
        }
        let errors = Errors::new(&config);
        // Nothing is missed between both.
        let watch = Watch::open()?;
        let precedence = match config.replace_routes {
            true => Precedence::Ours,
            false => Precedence::OursWith("tunnel.replace-routes"),
        };
        let mut reconciler = Reconciler::open(Owner::Tunnel, setup.config.radios(), precedence)?;
        reconciler.follow(vec![behind(&config, &device, state.endpoints())])?;
        let shared = Arc::new(Shared {
            clock: setup.clock,
            asker: Waker::new()?,
            tun,
            sockets,
            routes: RwLock::new(Arc::new(state.routes())),
            own: RwLock::default(),
            state: Mutex::new(state),
            transmitter: Mutex::new(Transmitter::default()),
            transmit_again: AtomicBool::new(false),
            device: Mutex::new(device),
            reconciler: Mutex::new(reconciler),
            errors: Mutex::new(errors),
            armed: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            counters: Counters::default(),
        });
        shared.learn_own()?;
        let inward = Inward::new(&shared);
        let outward = Outward::new(Arc::clone(&shared));
        let outward = Second::start("outward", setup, Waker::new()?, outward)?;
        let names = Names::new(Arc::clone(&shared), setup.seed);
        let names = Second::start("names", setup, Arc::clone(&shared.asker), names)?;
        Ok(Self { config, private_key, shared, inward, watch, others: [outward, names] })
    }

    /// Puts back routes and rules that somebody has removed, and learns this host's addresses when they change.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    fn follow_kernel(&mut self, now: Time) -> anyhow::Result<()> {
        let Shared { reconciler, counters, .. } = &*self.shared;
        let outcome = self.watch.handle(now, &mut lock(reconciler))?;
        counters.routes_restored.add(outcome.restored);
        counters.routes_displaced.add(outcome.displaced);
        if outcome.has_addresses { self.shared.learn_own() } else { Ok(()) }
    }
}

impl Driver for Tunnel {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        self.others.iter_mut().try_for_each(Second::check)?;
        self.shared.act();
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        earliest(self.shared.sleep(wait::INWARD), self.watch.next_timeout())
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.watch.as_fd(), PollFlags::POLLIN));
        self.inward.watch(&self.shared, fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.shared.wake_up(wait::INWARD);
        let [changes, sockets @ ..] = ready else { return Ok(()) };
        if self.watch.is_due(now, *changes) {
            self.follow_kernel(now)?;
        }
        self.inward.handle_ready(&self.shared, sockets)
    }
}

impl Service for Tunnel {
    fn report(&self, _now: Time) -> Report {
        self.shared.report()
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        let outcome = self.follow(config.tunnel.as_ref().context("no section [tunnel]")?)?;
        lock(&self.shared.reconciler).set_radios(config.radios());
        Ok(outcome)
    }
}

impl Shared {
    fn now(&self) -> Time {
        self.clock.now()
    }

    /// The time, and the wall clock's time since 1970. Both are read close together, so that a thread held up in
    /// between sees no jump.
    fn clocks(&self) -> (Time, Duration) {
        loop {
            let (before, unix, now) = (self.now(), wall_clock(), self.now());
            if now.since(before) < CLOSE {
                return (now, unix);
            }
        }
    }

    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn own(&self) -> Arc<BTreeSet<IpAddr>> {
        Arc::clone(&self.own.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Handles due timers, and passes the results to the peers and the device.
    fn act(&self) {
        let mut state = self.state();
        let (now, unix) = self.clocks();
        let _ = state.handle_wall_clock(now, unix);
        state.handle_timeout(now);
        self.settle(state, now);
    }

    /// Learns this host's addresses.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    fn learn_own(&self) -> anyhow::Result<()> {
        let mut netlink = Netlink::open().context("cannot ask the kernel")?;
        let own = links::own_addresses(&mut netlink).context("cannot ask for addresses")?;
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(own);
        Ok(())
    }

    /// Carries out what the state has decided; to be called after each change.
    fn settle(&self, mut state: MutexGuard<'_, State>, now: Time) {
        state.take_events(now);
        let endpoints = state.take_endpoints();
        let control: Vec<_> = std::iter::from_fn(|| state.poll_control(now)).collect();
        let mtu = state.take_device_mtu();
        let is_fresh_over = state.take_fresh_over();
        if !state.questions.is_empty() {
            self.asker.wake();
        }
        drop(state);
        // First, so that no call to a far end is led into the tunnel to this far end.
        if let Some(endpoints) = endpoints {
            lock(&self.reconciler).set_endpoints(&endpoints);
        }
        for (from, to, datagram) in control {
            let way = match from {
                From::Usual(way) => way,
                From::Fresh { is_new } => self.sockets.fresh_way(to, is_new),
            };
            if !self.sockets.send_alone(to, way, &datagram) {
                self.counters.control_refused.add(1);
            }
        }
        if is_fresh_over {
            self.sockets.forget_fresh();
        }
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
    Wanted {
        name: &config.device,
        // The search for the path's begins there.
        mtu: 1_280,
        has_trains: true,
    }
}

/// What is behind the device: the networks of the peers, which are called at `endpoints`.
fn behind(
    config: &config::Tunnel,
    device: &Device,
    mut endpoints: BTreeSet<IpAddr>,
) -> DeviceRoutes {
    let called = config.peers.iter().filter_map(|peer| peer.endpoint.as_ref()?.address());
    endpoints.extend(called.map(|endpoint| endpoint.ip().to_canonical()));
    DeviceRoutes {
        owner: Owner::Tunnel,
        device: device.index(),
        name: config.device.clone(),
        routes: reload::routes(config),
        addresses: config.addresses.clone(),
        endpoints,
        is_open: config.fail_open,
        speaks: true,
        ..DeviceRoutes::default()
    }
}

/// The guarded value, also after a thread has panicked: it ends then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
