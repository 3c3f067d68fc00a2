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
mod inward;
mod last_heard;
mod paths;
mod sockets;
mod state;
mod status;
mod transmit;
mod waiting;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use base::dns::{Failure, Lookup, Name, files};
use base::ip::{Header, Prefix, icmp, mss, protocol};
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use counters::Counters;
use errors::{Answer, Errors};
use fresh::From;
use host::Kernel;
use host::fence::Growth;
use host::{DeviceRoutes, MARK, Observer, Owner, Precedence, Reconciler, Watch};
use inward::Inward;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use paths::Finder;
use sockets::Sockets;
use state::{Questions, Rejected, State};
use tracing::{debug, info, warn};
use transmit::Transmitter;
use tunnel as nc;
use tunnel::secure::{self, OUTER_V4, OUTER_V6, PeerId, PrivateKey, PublicKey, Routes, Trouble};

use super::{Kind, Reload, Report, Service, Setup, wall_clock};
use crate::config::{self, Config};
use crate::keys;
use crate::legacy::Left;
use crate::linux;
use crate::linux::device::{Device, Wanted};
use crate::linux::offload::{self, Offload};
use crate::linux::udp;
use crate::reactor::{Clock, Driver, Reactor, Waker};
use crate::sys::{Tap, Udp};

pub const KIND: Kind = Kind {
    name: "tunnel",
    is_wanted: |config| config.tunnel.is_some(),
    // For the device's MTU; and should its port be below 1024.
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Tunnel::set_up(setup)?)),
    // Only who ends for good lets packets go in clear.
    clean_up: || host::give_up(Owner::Tunnel),
};

/// Octets of the longest packet that the device takes at first: the search for the path's begins there.
const MTU: u32 = 1_280;
/// The name by which a successor finds the device.
const DEVICE: &str = "tunnel-device";
/// Clocks that are read within this time are read at once.
const CLOSE: Duration = Duration::from_millis(100);

/// The tunnels of this gateway; the service's own thread is the inward one.
struct Tunnel {
    config: config::Tunnel,
    private_key: PrivateKey,
    shared: Arc<Shared>,
    inward: Inward,
    watch: Watch,
    finder: Finder,
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
    observer: Arc<Observer>,
    state: Mutex<State>,
    transmitter: Mutex<Transmitter>,
    /// Somebody wants the transmitter to look again.
    transmit_again: AtomicBool,
    device: Device,
    /// Octets of the longest packet that the device takes.
    mtu: AtomicU32,
    reconciler: Mutex<Reconciler>,
    errors: Mutex<Errors>,
    /// Which version of IP may leave in clear beside the peers.
    beside: Mutex<Option<config::InClear>>,
    /// Whether datagrams of ours have come back into the tunnel lately.
    looped: Mutex<Growth>,
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
        let config::Keys { private_key, previous_private_key, peers } = config.keys()?;
        let kernel = Kernel::open().context("cannot ask the kernel")?;
        let (tun, device) =
            Device::adopt_or_open(kernel, &wanted(&config), setup.legacy.take(DEVICE))?;
        let sockets = Sockets::open(&config)?;
        let rng = Rng::stream(setup.seed, "secure");
        let system = Box::new(keys::System);
        // Not the start of the clock: a service may be set up anew long after, and calls tell the wall clock's time.
        let began = setup.clock.now();
        let nobody = secure::Peers::new(began, wall_clock(), &private_key, &[], rng, system)?;
        let mut state = State::new(config.mtu, sockets.listening(), nobody, setup.seed);
        state.set_own_keys(began, &private_key, previous_private_key.as_ref())?;
        for (peer, keys) in config.peers.iter().zip(&peers) {
            state.add_peer(began, peer, keys)?;
        }
        if let Some(left) = setup.legacy.take(last_heard::NAME) {
            let now = setup.clock.now();
            let heard = last_heard::read(left);
            heard.iter().for_each(|(key, endpoint)| state.handle_last_heard(now, key, *endpoint));
        }
        state.ask_names(setup.clock.now());
        let questions = state.take_questions();
        for (peer, name, outcome) in
            ask_first(setup.clock, setup.seed, sockets.versions(), questions)?
        {
            state.handle_resolved(setup.clock.now(), (peer, &name), outcome);
        }
        // The answers may be on their way while the rest is made: a peer that we had a session with waits for it.
        let now = setup.clock.now();
        while let Some((_, to, datagram)) = state.poll_control(now) {
            let _ = sockets.send_alone(to, None, &datagram);
        }
        let errors = Errors::new(&config);
        // Nothing is missed between both.
        let watch = Watch::open(setup.observer)?;
        let precedence = match config.replace_routes {
            true => Precedence::Ours,
            false => Precedence::OursWith("tunnel.replace-routes"),
        };
        let radios = setup.config.radios();
        let mut reconciler = Reconciler::new(
            Owner::Tunnel,
            Some(setup.observer),
            radios,
            precedence,
            setup.is_restart,
        )?;
        reconciler.follow(vec![behind(&config, &device, MTU, state.endpoints())])?;
        let shared = Arc::new(Shared {
            clock: setup.clock,
            asker: Waker::new()?,
            tun,
            sockets,
            routes: RwLock::new(Arc::new(state.routes())),
            own: RwLock::new(Arc::new(setup.observer.addresses())),
            observer: Arc::clone(setup.observer),
            state: Mutex::new(state),
            transmitter: Mutex::new(Transmitter::default()),
            transmit_again: AtomicBool::new(false),
            device,
            mtu: AtomicU32::new(MTU),
            reconciler: Mutex::new(reconciler),
            errors: Mutex::new(errors),
            beside: Mutex::default(),
            looped: Mutex::default(),
            armed: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            counters: Counters::default(),
        });
        shared.look_beside(&config);
        let mut finder = Finder::open().context("cannot ask the kernel")?;
        finder.follow(&shared);
        let inward = Inward::new(&shared);
        let outward = Outward::new(Arc::clone(&shared));
        let outward = Second::start("outward", setup, Waker::new()?, outward)?;
        let names = Names::new(Arc::clone(&shared), setup.seed);
        let names = Second::start("names", setup, Arc::clone(&shared.asker), names)?;
        let others = [outward, names];
        Ok(Self { config, private_key, shared, inward, watch, finder, others })
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
        if outcome.has_addresses {
            self.shared.learn_own();
        }
        self.finder.follow(&self.shared);
        Ok(())
    }
}

impl Driver for Tunnel {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        self.others.iter_mut().try_for_each(Second::check)?;
        self.shared.act();
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let others = earliest(self.watch.next_timeout(), self.inward.next_turn());
        earliest(self.shared.sleep(INWARD), others)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.watch.as_fd(), PollFlags::POLLIN));
        self.inward.watch(&self.shared, fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.shared.wake_up(INWARD);
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

    fn hand_over(&mut self) -> anyhow::Result<Vec<Left>> {
        let device = self.shared.tun.share().context("the device")?;
        let heard: Vec<_> = self.shared.state().heard().collect();
        let heard = last_heard::written(&heard).context("where peers are heard")?;
        let device = Left { name: DEVICE, descriptor: device };
        Ok(vec![device, Left { name: last_heard::NAME, descriptor: heard }])
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
        let left_out = if self.sockets.take_forbidden() { state.note_forbidden(now) } else { None };
        self.settle(state, now);
        if let Some(left_out) = left_out {
            forbidden(left_out);
        }
    }

    /// Learns this host's addresses.
    fn learn_own(&self) {
        let own = Arc::new(self.observer.addresses());
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = own;
    }

    /// Learns from the configuration whether a version of IP may leave in clear beside the peers, and warns if it does.
    fn look_beside(&self, config: &config::Tunnel) {
        *lock(&self.beside) = config.in_clear();
        if let Some(said) = self.in_clear() {
            warn!("{said}");
        }
    }

    /// What to say if a version of IP leaves in clear beside the peers: a route for it leads somewhere.
    fn in_clear(&self) -> Option<String> {
        let beside = (*lock(&self.beside))?;
        self.observer.has_way(beside.towards()).then(|| beside.to_string())
    }

    /// Carries out what the state has decided; to be called after each change.
    fn settle(&self, mut state: MutexGuard<'_, State>, now: Time) {
        state.take_events(now);
        let endpoints = state.take_endpoints();
        let control: Vec<_> = std::iter::from_fn(|| state.poll_control(now)).collect();
        let mtu = state.take_device_mtu();
        let is_fresh_over = state.take_fresh_over();
        let unready = state.take_unready();
        if state.has_questions() {
            self.asker.wake();
        }
        drop(state);
        self.counters.packets_unready.add(unready);
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
        if let Some(mtu) = mtu.and_then(|mtu| u32::try_from(mtu).ok()) {
            let device = self.device.index();
            self.mtu.store(mtu, Ordering::Relaxed);
            lock(&self.reconciler).set_mtu(device, mtu);
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
    Wanted { name: &config.device, mtu: MTU as usize, has_trains: true }
}

/// What is behind the device: the networks of the peers, which are called at `endpoints`.
fn behind(
    config: &config::Tunnel,
    device: &Device,
    mtu: u32,
    mut endpoints: BTreeSet<IpAddr>,
) -> DeviceRoutes {
    let of_peer = |peer: &config::Peer| {
        let further = peer.paths.iter().filter_map(|path| path.endpoint.as_ref()?.address());
        further
            .chain(peer.endpoint.as_ref().and_then(config::Endpoint::address))
            .collect::<Vec<_>>()
    };
    let called = config.peers.iter().flat_map(of_peer);
    endpoints.extend(called.map(|endpoint| endpoint.ip().to_canonical()));
    DeviceRoutes {
        owner: Owner::Tunnel,
        device: device.index(),
        name: config.device.clone(),
        mtu: Some(mtu),
        routes: routes(config),
        blocked: config.blocked(),
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

// Puts the two threads to sleep, and ends one thread with the other.

/// The thread that reads the device.
const OUTWARD: usize = 0;
/// The thread that reads the socket.
const INWARD: usize = 1;

impl Shared {
    /// Until when a thread may sleep.
    ///
    /// Only one of the threads waits for a deadline. The other thread may sleep past the deadline: an awake thread
    /// looks at all deadlines before sleeping.
    fn sleep(&self, who: usize) -> Option<Time> {
        let state = self.state();
        let due = state.next_timeout();
        let others = self.armed[1 - who].load(Ordering::SeqCst);
        let due = due.filter(|due| due.as_nanos() < others);
        self.armed[who].store(due.map_or(u64::MAX, Time::as_nanos), Ordering::SeqCst);
        due
    }

    /// A thread is awake.
    fn wake_up(&self, who: usize) {
        self.armed[who].store(u64::MAX, Ordering::SeqCst);
    }
}

/// Another thread of a service. Dropping this ends the thread, and the thread's end wakes the first thread.
struct Second {
    name: &'static str,
    is_over: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Second {
    /// Starts it; `waker` ends its waits.
    ///
    /// # Errors
    /// When no thread can be started.
    fn start(
        name: &'static str,
        setup: &Setup<'_>,
        waker: Arc<Waker>,
        mut driver: impl Driver + Send + 'static,
    ) -> anyhow::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::new(AtomicBool::new(false));
        let wake = WakeAtEnd { has_ended: Arc::clone(&has_ended), first: Arc::clone(setup.waker) };
        let ends = Arc::clone(&is_over);
        let (clock, woken) = (setup.clock, Arc::clone(&waker));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Also when it panics.
            let _wake = wake;
            let mut reactor = Reactor::new(clock, woken);
            while !ends.load(Ordering::SeqCst) {
                reactor.turn(&mut driver)?;
            }
            Ok(())
        });
        let thread = Some(thread.context("cannot start a thread")?);
        Ok(Self { name, is_over, has_ended, waker, thread })
    }

    /// Whether it goes on.
    ///
    /// # Errors
    /// Why it does not.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.thread.take_if(|_| self.has_ended.load(Ordering::SeqCst)) {
            None => Ok(()),
            Some(thread) => {
                let outcome = thread.join().unwrap_or_else(|_| anyhow::bail!("it panicked"));
                outcome.and_then(|()| anyhow::bail!("it ended")).context(self.name)
            }
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The reason for its end was reported, or nobody asks any more.
            let _ = thread.join();
        }
    }
}

/// Wakes the first thread when the current thread ends. The first thread may run before the current thread is quite
/// gone; a flag tells the first thread that the end is worth waiting for.
struct WakeAtEnd {
    has_ended: Arc<AtomicBool>,
    first: Arc<Waker>,
}

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.first.wake();
    }
}

// From the device to the cores.

/// Trains taken from the device before the peers are looked after.
const TRAINS: usize = 4;
/// Octets of the longest train, with the header of the offload.
const TRAIN: usize = offload::HEADER + (1 << 16);

/// Packets that wait for the lock.
#[derive(Default)]
struct Staged {
    octets: Vec<u8>,
    packets: Vec<(PeerId, usize)>,
}

/// What the senders are told afterwards.
struct Complaint {
    error: icmp::Error,
    offender: Vec<u8>,
}

/// The thread's own part.
struct Outward {
    shared: Arc<Shared>,
    train: Vec<u8>,
    segment: Vec<u8>,
    staged: Staged,
    complaints: Vec<Complaint>,
}

impl Outward {
    fn new(shared: Arc<Shared>) -> Self {
        let (segment, complaints) = (Vec::new(), Vec::new());
        Self { shared, train: vec![0; TRAIN], segment, staged: Staged::default(), complaints }
    }
}

impl Driver for Outward {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        self.shared.act();
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.shared.sleep(OUTWARD)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.shared.tun.as_fd(), PollFlags::POLLIN));
        let blocked = self.shared.sockets.blocked_fd();
        fds.extend(blocked.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
    }

    fn handle_ready(&mut self, _now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let Self { shared, train, segment, staged, complaints } = self;
        shared.wake_up(OUTWARD);
        if ready[0].is_empty() {
            return Ok(());
        }
        let routes = shared.routes();
        for _ in 0..TRAINS {
            let Some(len) = shared.tun.read(train).context("reading the device")? else { break };
            shared.counters.device_reads.add(1);
            stage(shared, &routes, &mut train[..len], segment, staged);
            submit(shared, staged, complaints);
            for complaint in complaints.drain(..) {
                complain(shared, complaint.error, &complaint.offender);
            }
            shared.transmit();
        }
        Ok(())
    }
}

/// Cuts a train into packets for a peer.
fn stage(
    shared: &Shared,
    routes: &Routes,
    train: &mut [u8],
    segment: &mut Vec<u8>,
    staged: &mut Staged,
) {
    let counters = &shared.counters;
    let (offload, destination) = match (Offload::parse(train, 0), train.get(offload::HEADER..)) {
        (Ok(offload), Some(packet)) => (offload, destination(packet)),
        _ => {
            counters.device_malformed.add(1);
            return;
        }
    };
    let Some(destination) = destination else {
        counters.device_malformed.add(1);
        return;
    };
    let packet = &mut train[offload::HEADER..];
    if shared.has_sent(packet, destination) {
        counters.datagrams_looped.add(1);
        return;
    }
    let Some(peer) = routes.peer_for(destination) else {
        counters.packets_unrouted.add(1);
        // The kernel's own multicast is nobody's mistake; ICMP is not owed then, and not sent.
        complain(shared, icmp::Error::HostUnreachable, packet);
        return;
    };
    let outcome = offload.segment(packet, segment, |packet| {
        staged.octets.extend_from_slice(packet);
        staged.packets.push((peer, packet.len()));
    });
    if outcome.is_err() {
        counters.device_malformed.add(1);
    }
    if let [(peer, len)] = staged.packets[..] {
        clamp(shared, peer, &mut staged.octets[..len]);
    }
}

/// Lowers the segment size that a SYN to a peer asks for. A SYN is never in a train.
fn clamp(shared: &Shared, peer: PeerId, packet: &mut [u8]) {
    let is_syn = Header::parse(packet).is_ok_and(|header| mss::is_syn(&header, packet));
    if is_syn && let Some(whole) = shared.state().whole(peer) {
        shared.clamp(packet, whole);
    }
}

impl Shared {
    /// Whether a packet from the device is a datagram of ours to a peer: somebody has changed its mark.
    fn has_sent(&self, packet: &[u8], to: IpAddr) -> bool {
        source(packet).is_some_and(|from| {
            self.sockets.has_port(from.port())
                && self.own().contains(&from.ip())
                && self.state().has_endpoint(to)
        })
    }

    /// Lowers the segment size that a SYN asks for to what `whole` octets carry.
    fn clamp(&self, packet: &mut [u8], whole: usize) {
        self.counters.syns_clamped.add(u64::from(mss::clamp(packet, whole)));
    }
}

/// Gives the cores what is staged.
fn submit(shared: &Shared, staged: &mut Staged, complaints: &mut Vec<Complaint>) {
    if staged.packets.is_empty() {
        return;
    }
    let mut state = shared.state();
    let now = shared.now();
    let mut start = 0;
    for &(peer, len) in &staged.packets {
        let packet = &staged.octets[start..start + len];
        start += len;
        let error = match state.handle_packet(now, peer, packet) {
            Ok(()) => continue,
            // The peer's own counters have it.
            Err(Rejected::Quietly) => continue,
            Err(Rejected::Unready) => {
                shared.counters.packets_unready.add(1);
                continue;
            }
            Err(Rejected::Alone) => {
                shared.counters.packets_unready.add(1);
                icmp::Error::HostUnreachable
            }
            Err(Rejected::TooBig(mtu)) => {
                icmp::Error::TooBig { mtu: u16::try_from(mtu).unwrap_or(u16::MAX) }
            }
            Err(Rejected::Down) => icmp::Error::HostUnreachable,
        };
        // One complaint for a train is enough.
        if complaints.is_empty() {
            complaints.push(Complaint { error, offender: packet.to_vec() });
        }
    }
    drop(state);
    staged.octets.clear();
    staged.packets.clear();
}

/// Tells the sender of a packet why it was dropped.
fn complain(shared: &Shared, error: icmp::Error, offender: &[u8]) {
    let now = shared.now();
    let mut errors = lock(&shared.errors);
    match errors.answer(now, error, offender) {
        Answer::Message(message) => {
            shared.counters.icmp_sent.add(1);
            if let Err(error) = shared.tun.write(message) {
                debug!(%error, "ICMP not written");
                shared.counters.device_refused.add(1);
            }
        }
        Answer::None => {}
        Answer::TooMany => shared.counters.icmp_suppressed.add(1),
    }
}

/// Where a UDP datagram comes from, though its length fields and checksums may not be set yet. Later fragments do not
/// have the ports.
fn source(packet: &[u8]) -> Option<SocketAddr> {
    const UDP: u8 = protocol::UDP;
    let (address, ports): (IpAddr, usize) = match *packet {
        [first, _, _, _, _, _, high, low, _, UDP, _, _, a, b, c, d, ..]
            if first >> 4 == 4 && (high & 0x1f, low) == (0, 0) =>
        {
            ([a, b, c, d].into(), usize::from(first & 0xf) * 4)
        }
        [first, _, _, _, _, _, UDP, ..] if first >> 4 == 6 => {
            (packet.get(8..24)?.first_chunk::<16>().map(|&octets| octets.into())?, 40)
        }
        _ => return None,
    };
    let port = packet.get(ports..)?.first_chunk().copied()?;
    Some(SocketAddr::new(address, u16::from_be_bytes(port)))
}

/// Where a packet goes, though its length field and checksum may not be set yet.
fn destination(packet: &[u8]) -> Option<std::net::IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(16..20)?.first_chunk::<4>().map(|&octets| octets.into()),
        6 => packet.get(24..40)?.first_chunk::<16>().map(|&octets| octets.into()),
        _ => None,
    }
}

// Asks name servers for the addresses of peers, on its own thread: files may be slow, and servers are.
//
// Questions carry the tunnel's mark, so that no question for a far end enters the tunnel to this far end. The second
// round is not marked, and reaches servers behind another tunnel.

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The file in which systemd-resolved lists its servers.
const BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";
/// How long the start waits for names.
const AT_START: Duration = Duration::from_secs(3);
/// Added to a wait in whole milliseconds, so that the wait does not end too early.
const ROUNDED_UP: Duration = Duration::from_millis(1);
/// Most octets read from either file.
const MAX_OCTETS: u64 = 4 << 20;
/// Octets of the longest answer.
const ANSWER: usize = 4_096;
/// Datagrams of a server that are read before others have their turn.
const READS: usize = 8;

/// The thread's own part.
struct Names {
    shared: Arc<Shared>,
    asker: Asker,
}

/// The names that are asked for.
struct Asker {
    rng: Rng,
    /// Which versions of IP the peers may have.
    wanted: [bool; 2],
    pending: Vec<Pending>,
}

/// What a question has brought.
type Found = (PeerId, Name, Result<Vec<IpAddr>, Failure>);

/// A name that is asked for.
struct Pending {
    peer: PeerId,
    name: Name,
    lookup: Lookup,
    /// The socket to the server being asked, and the number of the attempt.
    socket: Option<(usize, UdpSocket)>,
}

impl Names {
    fn new(shared: Arc<Shared>, seed: u64) -> Self {
        let wanted = shared.sockets.versions();
        let rng = Rng::stream(seed, "names");
        Self { shared, asker: Asker { rng, wanted, pending: Vec::new() } }
    }
}

/// Asks for names before there are routes, while a server that asks other servers can still answer: once all traffic
/// leads into the tunnel, the server's own questions do, too. Takes [`AT_START`] at most.
///
/// # Errors
/// When the kernel cannot be waited for.
fn ask_first(
    clock: Clock,
    seed: u64,
    wanted: [bool; 2],
    questions: Questions,
) -> anyhow::Result<Vec<Found>> {
    let rng = Rng::stream(seed, "first names");
    let mut asker = Asker { rng, wanted, pending: Vec::new() };
    let mut now = clock.now();
    let end = now + AT_START;
    let mut found = asker.ask(now, questions);
    loop {
        found.extend(asker.act(now));
        if asker.pending.is_empty() || now >= end {
            break;
        }
        let next = asker.next_timeout().map_or(end, |at| at.min(end));
        let mut fds = Vec::new();
        asker.watch(&mut fds);
        let wait = PollTimeout::try_from(next.since(now) + ROUNDED_UP).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, wait) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(why) => return Err(why).context("waiting for name servers"),
        }
        let ready: Vec<_> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        drop(fds);
        now = clock.now();
        asker.handle_ready(now, &ready);
    }
    let unanswered = asker.pending.into_iter();
    found.extend(unanswered.map(|it| (it.peer, it.name, Err(Failure::NoAnswer))));
    Ok(found)
}

impl Asker {
    /// Asks for names; returns what needs no server.
    fn ask(&mut self, now: Time, questions: Questions) -> Vec<Found> {
        let mut found = Vec::new();
        for (peer, name) in questions {
            // A reload may ask for a peer again, by another name.
            self.pending.retain(|pending| pending.peer != peer);
            let mut known = files::addresses(&read(HOSTS), &name);
            known.retain(|address| self.wanted[usize::from(address.is_ipv6())]);
            if !known.is_empty() {
                found.push((peer, name, Ok(known)));
                continue;
            }
            let bits = self.rng.bits().to_be_bytes();
            let ids = [[bits[0], bits[1]], [bits[2], bits[3]]].map(u16::from_be_bytes);
            let lookup = Lookup::new(now, name.clone(), self.wanted, ids, servers());
            self.pending.push(Pending { peer, name, lookup, socket: None });
        }
        found
    }

    /// Sends due questions, and returns the outcomes of questions.
    fn act(&mut self, now: Time) -> Vec<Found> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(pending) = self.pending.get_mut(at) {
            pending.lookup.handle_timeout(now);
            pending.send(now);
            match pending.lookup.outcome() {
                Some(outcome) => {
                    let outcome = outcome.clone().map(reachable);
                    let Pending { peer, name, .. } = self.pending.swap_remove(at);
                    found.push((peer, name, outcome));
                }
                None => at += 1,
            }
        }
        found
    }

    fn next_timeout(&self) -> Option<Time> {
        self.pending.iter().map(|pending| pending.lookup.next_timeout()).fold(None, earliest)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let sockets = self.pending.iter().filter_map(|pending| pending.socket.as_ref());
        fds.extend(sockets.map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) {
        let watched = self.pending.iter_mut().filter(|pending| pending.socket.is_some());
        for (pending, ready) in watched.zip(ready) {
            if !ready.is_empty() {
                pending.receive(now);
            }
        }
    }
}

impl Driver for Names {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        let questions = self.shared.state().take_questions();
        let mut found = self.asker.ask(now, questions);
        found.extend(self.asker.act(now));
        for (peer, name, outcome) in found {
            self.shared.resolve(peer, &name, outcome);
        }
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.asker.next_timeout()
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.asker.watch(fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.asker.handle_ready(now, ready);
        Ok(())
    }
}

impl Pending {
    /// Sends what is to be asked.
    fn send(&mut self, now: Time) {
        let mut octets = Vec::new();
        while let Some(question) = self.lookup.poll_transmit(&mut octets) {
            let socket = match self.socket.take().filter(|(at, _)| *at == question.attempt) {
                Some((_, socket)) => Ok(socket),
                None => {
                    let mark = (!question.is_second_round).then_some(MARK.value());
                    udp::open_towards_with(question.server, mark)
                }
            };
            let sent = socket.and_then(|socket| socket.send(&octets).map(|_| socket));
            octets.clear();
            match sent {
                Ok(socket) => self.socket = Some((question.attempt, socket)),
                Err(error) => {
                    debug!(server = %question.server, %error, "name server not asked");
                    self.lookup.handle_refusal(now);
                }
            }
        }
    }

    fn receive(&mut self, now: Time) {
        let mut buffer = [0; ANSWER];
        for _ in 0..READS {
            let Some((_, socket)) = &self.socket else { return };
            match socket.recv(&mut buffer) {
                Ok(len) => self.lookup.handle_datagram(now, &buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.socket = None;
                    self.lookup.handle_refusal(now);
                }
            }
        }
    }
}

impl Shared {
    /// Takes what a name has brought.
    fn resolve(&self, peer: PeerId, name: &Name, outcome: Result<Vec<IpAddr>, Failure>) {
        let mut state = self.state();
        let now = self.now();
        state.handle_resolved(now, (peer, name), outcome);
        self.settle(state, now);
    }
}

/// The addresses with a route; all addresses if none has a route.
fn reachable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let has_route =
        |ip: &&IpAddr| Udp::route_source(SocketAddr::new(**ip, 9), MARK.value()).is_ok();
    let reached: Vec<_> = addresses.iter().filter(has_route).copied().collect();
    if reached.is_empty() { addresses } else { reached }
}

/// The servers to ask. With a stub on this host, the stub's servers come first, because the stub's own questions lack
/// the tunnel's mark.
fn servers() -> Vec<SocketAddr> {
    let scope = |interface: &str| if_nametoindex(interface).ok();
    let servers = files::servers(&read(RESOLV_CONF), scope);
    if !files::has_stub(&servers) {
        return servers;
    }
    files::behind_stub(&servers, &read(BEHIND_STUB), scope)
}

/// A file's text, or none: it need not be there.
fn read(path: &str) -> String {
    let mut octets = Vec::new();
    let outcome = File::open(path).and_then(|file| file.take(MAX_OCTETS).read_to_end(&mut octets));
    if let Err(error) = outcome {
        debug!(path, %error, "not read");
    }
    String::from_utf8_lossy(&octets).into_owned()
}

// Logs calls that come to nothing, with the likely reasons and the remedy.

/// A peer has not answered for a while. From here it cannot be told why.
fn no_answer(peer: &str, endpoint: SocketAddr, left_out: u64) {
    warn!(
        peer,
        %endpoint,
        left_out,
        "peer does not answer; trying on. Possible reasons: it does not run, or is not there; UDP is \
         blocked on the way; it speaks another version of the tunnel; its public-key is not what our file says, or ours is not what its file \
         says: the log over there says which"
    );
}

/// The kernel refuses what is sent (EPERM).
fn forbidden(left_out: u64) {
    warn!(
        left_out,
        "this host refuses to send datagrams of the tunnel: a rule of a firewall here, in the chain output, drops them; \
         `trackway doctor` names it where it can"
    );
}

/// Somebody calls whom no peer's key belongs to.
fn stranger(from: SocketAddr, key: Option<PublicKey>) {
    match key {
        Some(key) => warn!(
            %from,
            %key,
            "call by an unknown key, not answered: if this is a peer, its public-key in our file is wrong"
        ),
        None => info!(
            %from,
            "call for another key than ours, not answered: if this is a peer, the public-key that its \
             file has for us is wrong"
        ),
    }
}

/// Somebody calls by our key, in words that cannot be read.
fn unreadable(from: SocketAddr) {
    warn!(
        %from,
        "call that cannot be read, not answered: if this is a peer, its trackway speaks another version of the tunnel \
         than this one; docs/guide/upgrade.md says which go together"
    );
}

/// A peer is there, and calls come to nothing all the same.
fn trouble(peer: &str, from: SocketAddr, what: Trouble, left_out: u64) {
    match what {
        Trouble::Clock => info!(
            peer,
            %from,
            left_out,
            "peer has heard a later time of us before: the clock here went back; calling it with a later one"
        ),
        Trouble::Unconfirmed => warn!(
            peer,
            %from,
            left_out,
            "peer calls again and again, and takes no answer: its preshared-key is not ours, or what we \
             send does not arrive there"
        ),
        Trouble::Unreadable => warn!(
            peer,
            %from,
            left_out,
            "peer answers what cannot be read: is preshared-key the same on both sides?"
        ),
    }
}

// Another configuration: peers come and go, the sessions of the others go on.

impl Tunnel {
    /// # Errors
    /// When a key file cannot be used, or the kernel refuses a route. Nothing has changed then.
    fn follow(&mut self, config: &config::Tunnel) -> anyhow::Result<Reload> {
        let config::Keys { private_key, previous_private_key, peers: keys } = config.keys()?;
        // Sessions with a key that is ours no more cannot go on.
        let is_known = private_key == self.private_key
            || previous_private_key.as_ref() == Some(&self.private_key);
        if !is_known || !is_same_but_keys_and_peers(&self.config, config) {
            return Ok(Reload::Restart);
        }
        {
            let Shared { device, mtu, reconciler, .. } = &*self.shared;
            let mut reconciler = lock(reconciler);
            let endpoints = reconciler.endpoints();
            let mtu = mtu.load(Ordering::Relaxed);
            reconciler.follow(vec![behind(config, device, mtu, endpoints)])?;
        }
        let wanted: Vec<_> = config.peers.iter().zip(&keys).collect();
        let has_other_keys = private_key != self.private_key
            || config.previous_private_key != self.config.previous_private_key;
        let mut changes = self.follow_peers(&wanted);
        if has_other_keys {
            let mut state = self.shared.state();
            let now = self.shared.now();
            // No peer has them: the configuration was checked.
            let _ = state.set_own_keys(now, &private_key, previous_private_key.as_ref());
            self.shared.settle(state, now);
            self.private_key = private_key;
            changes.insert(0, "own keys have changed".to_owned());
        }
        self.config = config.clone();
        self.shared.look_beside(config);
        self.finder.follow(&self.shared);
        Ok(Reload::Taken(changes))
    }

    fn follow_peers(&self, wanted: &[(&config::Peer, &secure::Peer)]) -> Vec<String> {
        let (mut changes, mut kept) = (Vec::new(), Vec::new());
        let mut state = self.shared.state();
        let now = self.shared.now();
        let here: Vec<_> = state
            .links()
            .map(|link| (link.peer(), link.config().clone(), link.keys().clone()))
            .collect();
        for (peer, config, keys) in &here {
            let same =
                wanted.iter().find(|it| is_same_peer(config, it.0) && is_same_but_keys(keys, it.1));
            match same {
                None => {
                    state.remove_peer(*peer);
                    changes.push(format!("peer {} left", config.name));
                }
                Some(same) => kept.push((*peer, config, keys, same)),
            }
        }
        let mut names = BTreeSet::new();
        for (peer, config, keys, (wanted, its)) in kept {
            if *keys != **its {
                if !state.set_peer_keys(now, peer, wanted, its) {
                    state.remove_peer(peer);
                    changes.push(format!("peer {} left", config.name));
                    continue;
                }
                changes.push(format!("peer {} has other keys", config.name));
            }
            if wanted.routes != config.routes {
                state.set_routes(peer, &wanted.routes);
                changes.push(format!("peer {} has other routes", config.name));
            }
            names.insert(&config.name);
        }
        for (config, keys) in wanted {
            if names.contains(&config.name) {
                continue;
            }
            state.add_peer(now, config, keys).expect("a checked configuration has fit peers");
            changes.push(format!("peer {} added", config.name));
        }
        let routes = Arc::new(state.routes());
        *self.shared.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
        self.shared.settle(state, now);
        changes
    }
}

/// Whether all but our keys and the peers is the same.
fn is_same_but_keys_and_peers(one: &config::Tunnel, other: &config::Tunnel) -> bool {
    let bare = |tunnel: &config::Tunnel| config::Tunnel {
        private_key: PathBuf::new(),
        previous_private_key: None,
        peers: Vec::new(),
        ..tunnel.clone()
    };
    bare(one) == bare(other)
}

/// Whether a peer is the same, wherever its networks are and whatever its keys.
fn is_same_peer(one: &config::Peer, other: &config::Peer) -> bool {
    let other = config::Peer {
        routes: one.routes.clone(),
        public_key: one.public_key,
        previous_public_key: one.previous_public_key,
        ..other.clone()
    };
    *one == other
}

/// Whether two peers differ in nothing but what they are known by.
fn is_same_but_keys(one: &secure::Peer, other: &secure::Peer) -> bool {
    let (public_key, previous_key) = (one.public_key, one.previous_key);
    *one == secure::Peer { public_key, previous_key, ..other.clone() }
}

/// The networks behind all peers, each with the name of its peer.
fn routes(config: &config::Tunnel) -> Vec<(String, Prefix)> {
    let of_peer = |peer: &config::Peer| {
        let (name, routes) = (peer.name.clone(), peer.routes.clone());
        routes.into_iter().map(move |route| (name.clone(), route))
    };
    config.peers.iter().flat_map(of_peer).collect()
}

// How long outer packets may be.

/// The parameters of a core for a peer at `endpoint`.
fn core_config(
    endpoint: Option<SocketAddr>,
    limit: Option<usize>,
    parameters: nc::Config,
) -> nc::Config {
    let first_link =
        |endpoint| linux::routes::Routes::open()?.first_link_mtu(endpoint, None, MARK.value());
    let max_mtu = endpoint
        .and_then(|endpoint| first_link(endpoint).ok())
        .map_or(parameters.max_mtu, |mtu| mtu.min(limit.unwrap_or(JUMBO)))
        .min(JUMBO);
    let overhead = endpoint.map_or(OUTER_V4, overhead);
    nc::Config { max_mtu, overhead, ..parameters }
}

/// Octets that a datagram to an address has around its payload.
fn overhead(to: SocketAddr) -> usize {
    if to.is_ipv6() { OUTER_V6 } else { OUTER_V4 }
}

/// Octets of the longest outer packet that is tried.
const JUMBO: usize = 9_216;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut packet = [0; 28];
        packet[..2].copy_from_slice(&[0x45, 0]);
        packet[9] = protocol::UDP;
        packet[12..16].copy_from_slice(&[10, 9, 0, 1]);
        packet[20..22].copy_from_slice(&51_900_u16.to_be_bytes());
        let from = |packet: &[u8]| source(packet).map(|it| it.to_string());

        let whole = from(&packet);
        let [first, later] = [[0x20, 0], [0x00, 1]].map(|field| {
            packet[6..8].copy_from_slice(&field);
            from(&packet)
        });

        let it = Some("10.9.0.1:51900".to_owned());
        assert_eq!([whole, first, later], [it.clone(), it, None]);
    }
}
