//! The gateway: one thread that moves packets between the kernel, HBH and the neighbours.
//!
//! ```text
//!   applications, other interfaces                                      neighbours
//!          │ routing, firewall                                              ▲ │
//!          ▼                                                                │ ▼
//!   MANET interface's egress  ─▶ trackway0 ─▶ intercept ─▶ ┌─────┐ ─▶ packet socket
//!                                                          │ HBH │
//!   MANET interface's ingress ◀─ trackway0 ◀─  release  ◀─ └─────┘ ◀─ packet socket
//!          │ routing, firewall
//!          ▼
//!   applications, other interfaces, and by the egress again the next neighbour
//! ```

mod guard;
mod hellos;
mod intercept;
mod known;
mod orphans;
pub(crate) mod port;
mod receive;
mod release;
mod transmit;

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use proto::ethernet::Mac;
use proto::hbh::neighbours::{self, Neighbours, Place};
use proto::hbh::{self, Hop, PeerConfig};
use proto::rng::Rng;
use proto::time::{Time, earliest};
use tracing::{debug, info, warn};

use crate::config::Config;
use crate::linux::firewall::{Firewall, Plan};
use crate::linux::links::{self, LinkState};
use crate::linux::netlink::{Monitor, Netlink};
use crate::linux::rights::{self, ADMIN_AND_PACKETS};
use crate::linux::routes::Routes;
use crate::service::Services;
use crate::service::complaints::{Complaints, Subject};
use crate::service::hbh::port::Port;
use crate::setup;
use crate::supervisor::control::Control;
use crate::supervisor::counters::{self, Counters, Entry};
use crate::sys::{Raw, Received};

use guard::Guard;
use known::{Known, KnownPeers};
use orphans::{Missed, Orphans, Reason};
use release::Release;

/// Changes that come together are acted on together.
const SETTLE: Duration = Duration::from_millis(20);
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// A running gateway.
pub struct Gateway {
    /// Dropped first: traffic is plain before the devices go that it was sent to.
    firewall: Firewall,
    config: Config,
    started: Instant,
    hop: Hop,
    neighbours: Neighbours,
    guard: Guard,
    complaints: Complaints,
    routes: Routes,
    netlink: Netlink,
    monitor: Monitor,
    ports: Vec<Port>,
    release: Release,
    raw: Raw,
    known: KnownPeers,
    orphans: Orphans,
    missed: Missed,
    control: Control,
    signals: SignalFd,
    services: Services,
    counters: Counters,
    reroute_at: Option<Time>,
    metrics_at: Option<Time>,
    errors: intercept::ErrorBudget,
    buffers: Buffers,
}

/// Memory that is used again for each packet.
struct Buffers {
    train: Vec<u8>,
    segment: Vec<u8>,
    packet: Vec<u8>,
    /// Absent while it is in use.
    received: Option<Received>,
}

impl Gateway {
    /// Sets up all that the gateway needs; what was made is removed when it is dropped.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    pub fn set_up(config: Config) -> anyhow::Result<Self> {
        let control = Control::open()?;
        let group_key = config.read_group_key().context("group_key")?;
        let mut netlink = Netlink::open().context("cannot ask the kernel")?;
        let monitor = Monitor::open().context("cannot watch the kernel's routes")?;
        let ports = setup::open_ports(&mut netlink, &config)?;
        let raw = Raw::open().context("cannot open a raw socket")?;
        let devices = (0..).map(setup::device);
        let plan = Plan {
            interfaces: config.interfaces.iter().map(String::as_str).zip(devices).collect(),
            protocol: config.hbh.protocol,
            plain_protocols: &config.plain_protocols,
            plain_udp: &config.plain_udp,
            limit: config.neighbour_limit,
        };
        let seed = setup::draw_seed().context("cannot read /dev/urandom")?;
        let services = Services::set_up(&config, seed)?;
        rights::give_up(&ADMIN_AND_PACKETS)?;
        let firewall = Firewall::set_up(&plan)?;
        let signals = setup::signals()?;

        let neighbours = Neighbours::new(
            neighbours::Config {
                profile: config.hbh.profile,
                interval: config.hello_interval,
                hold: config.hello_hold,
                limit: config.neighbour_limit,
                only: config.neighbours.clone(),
            },
            &ports.iter().map(|port| port.mac).collect::<Vec<_>>(),
            Rng::stream(seed, "neighbours"),
        );
        let mut gateway = Self {
            started: Instant::now(),
            hop: Hop::new(config.hbh, Rng::stream(seed, "hbh")),
            neighbours,
            guard: Guard::new(group_key),
            complaints: Complaints::default(),
            routes: Routes::open().context("cannot ask for routes")?,
            netlink,
            monitor,
            release: Release::new(&ports),
            ports,
            raw,
            known: KnownPeers::default(),
            orphans: Orphans::default(),
            missed: Missed::default(),
            firewall,
            control,
            signals,
            services,
            counters: Counters::default(),
            reroute_at: None,
            metrics_at: config.metrics.is_some().then_some(Time::ZERO),
            errors: intercept::ErrorBudget::default(),
            buffers: Buffers {
                train: vec![0; 1 << 17],
                segment: Vec::new(),
                packet: Vec::new(),
                received: Some(Received::default()),
            },
            config,
        };
        let now = gateway.now();
        for position in 0..gateway.ports.len() {
            let state = gateway.ports[position].state.clone();
            gateway.neighbours.handle_interface(now, position, &state.addresses, state.is_running);
        }
        Ok(gateway)
    }

    /// Runs until told to end.
    ///
    /// # Errors
    /// When the gateway cannot go on.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let interfaces = self.config.interfaces.join(", ");
        self.services.start()?;
        if self.guard.key().is_none() {
            warn!(
                "no group_key: anybody in radio range can pass for a neighbour, take its traffic and \
                 end its conversations; `trackway keygen --group --out group.key` makes one"
            );
        }
        info!(%interfaces, profile = ?self.config.hbh.profile, "gateway ready");
        loop {
            let now = self.now();
            self.act(now)?;
            let ready = self.wait(now)?;
            if ready.signal {
                break;
            }
            if ready.services {
                self.services.stop()?;
                break;
            }
            let now = self.now();
            if ready.nft {
                let complaints = self.firewall.complaints()?;
                warn!(%complaints, "nft");
            }
            if ready.monitor {
                self.take_changes(now)?;
            }
            if ready.control {
                self.control
                    .answer(|| counters::status_json(&self.entries(), &self.services.status()));
            }
            for position in 0..self.ports.len() {
                if ready.ports & (1 << position) != 0 {
                    self.take_received(now, position)?;
                }
                if ready.devices & (1 << position) != 0 {
                    self.take_intercepted(now, position)?;
                }
            }
        }
        self.leave();
        Ok(())
    }

    /// All counters by name.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.counters.entries();
        let neighbours = self.neighbours.stats();
        entries.extend([
            ("hellos_sent", neighbours.hellos_sent),
            ("hellos_received", neighbours.hellos_received),
            ("hellos_incompatible", neighbours.hellos_incompatible),
            ("hellos_unlisted", neighbours.hellos_unlisted),
            ("hellos_misplaced", neighbours.hellos_misplaced),
            ("hellos_disputed", neighbours.hellos_disputed),
            ("hellos_relayed", neighbours.hellos_relayed),
            ("hellos_stale", neighbours.hellos_stale),
            ("hellos_full", neighbours.hellos_full),
            ("neighbours_evicted", neighbours.neighbours_evicted),
            ("neighbours_up", neighbours.neighbours_up),
            ("neighbours_down", neighbours.neighbours_down),
            ("neighbours", self.neighbours.peers().count() as u64),
            ("routes_asked", self.routes.asked),
            ("packets_waiting", self.orphans.len() as u64),
            ("segments_kept", self.missed.len() as u64),
        ]);
        entries.extend(counters::hbh_entries(&self.hop.stats()));
        entries.extend(self.services.entries());
        entries
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// Does what is due, and gives the kernel and the links what there is for them.
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        if self.hop.next_timeout().is_some_and(|at| at <= now) {
            self.hop.handle_timeout(now);
        }
        while let Some(event) = self.hop.poll_event() {
            let hbh::Event::GaveUp { peer, packets } = event;
            debug!(?peer, packets, "gave up");
        }
        self.neighbours.handle_timeout(now);
        self.take_neighbours(now, None)?;
        if self.reroute_at.is_some_and(|at| at <= now) {
            self.reroute_at = None;
            self.reroute(now);
            self.settle_orphans(now);
        }
        if self.orphans.front().is_some_and(|orphan| orphan.until <= now) {
            self.settle_orphans(now);
        }
        if self.metrics_at.is_some_and(|at| at <= now) {
            self.metrics_at = Some(now + METRICS_INTERVAL);
            self.write_metrics();
        }
        self.release_restored(now)?;
        self.transmit(now);
        Ok(())
    }

    fn wait(&mut self, now: Time) -> anyhow::Result<Ready> {
        let orphans = self.orphans.front().map(|orphan| orphan.until);
        let due = [self.neighbours.next_timeout(), self.reroute_at, self.metrics_at, orphans]
            .into_iter()
            .fold(self.hop.next_timeout(), earliest);
        let timeout = due.map(|at| TimeSpec::from(at.since(now)));
        let input = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![
            input(self.signals.as_fd()),
            input(self.firewall.as_fd()),
            input(self.monitor.as_fd()),
            input(self.control.as_fd()),
        ];
        fds.extend(self.ports.iter().map(|port| {
            let output = if port.is_busy() { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(port.as_fd(), PollFlags::POLLIN | output)
        }));
        fds.extend(self.ports.iter().map(|port| input(port.tap.as_fd())));
        fds.extend(self.services.ended().map(input));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for packets"),
        }
        let is_ready = |fd: &PollFd<'_>| {
            let input = PollFlags::POLLIN | PollFlags::POLLERR | PollFlags::POLLHUP;
            fd.revents().is_some_and(|events| events.intersects(input))
        };
        let (ports, rest) = fds[4..].split_at(self.ports.len());
        let (devices, services) = rest.split_at(self.ports.len());
        let bits = |fds: &[PollFd<'_>]| {
            let fds = fds.iter().enumerate();
            fds.filter(|(_, fd)| is_ready(fd)).fold(0, |bits, (at, _)| bits | 1 << at)
        };
        Ok(Ready {
            signal: is_ready(&fds[0]),
            services: services.iter().any(is_ready),
            nft: is_ready(&fds[1]),
            monitor: is_ready(&fds[2]),
            control: is_ready(&fds[3]),
            devices: bits(devices),
            ports: bits(ports),
        })
    }

    /// Acts on who came and went; `reason` is why those went that did.
    fn take_neighbours(&mut self, now: Time, reason: Option<Reason>) -> anyhow::Result<()> {
        while let Some(event) = self.neighbours.poll_event() {
            self.take_neighbour(now, event, reason)?;
        }
        Ok(())
    }

    fn take_neighbour(
        &mut self,
        now: Time,
        event: neighbours::Event,
        reason: Option<Reason>,
    ) -> anyhow::Result<()> {
        match event {
            neighbours::Event::Up(place @ (position, mac), peer) => {
                let (Some(config), Some((ours, theirs))) =
                    (self.peer_config(place), self.neighbours.ends(place))
                else {
                    let what = "neighbour without an address of a version that we have";
                    self.complain_of(now, Subject::NoAddress, place, what);
                    return Ok(());
                };
                self.hop.add_peer(peer, config);
                let addresses = self.neighbours.addresses(place).to_vec();
                self.known.add(peer, Known { place, addresses });
                self.guard.add_peer(peer, ours, theirs);
                self.firewall.add_neighbour(position, mac)?;
                if let Some(left_out) = self.complaints.admit(now, Subject::NeighbourUp) {
                    let interface = &self.ports[position].name;
                    info!(%interface, ?peer, left_out, "neighbour speaks HBH");
                }
                debug!(%mac, address = %config.remote, ?peer, "neighbour");
                self.reroute_at = earliest(self.reroute_at, Some(now + SETTLE));
                self.give_back_missed(now, place);
            }
            neighbours::Event::Down((position, mac), peer) => {
                if self.known.up(peer).is_some() {
                    self.firewall.remove_neighbour(position, mac)?;
                }
                if let Some(left_out) = self.complaints.admit(now, Subject::NeighbourDown) {
                    let interface = &self.ports[position].name;
                    info!(%interface, ?peer, left_out, "neighbour gone");
                }
                let mut orphans = Vec::new();
                self.hop.remove_peer(peer, |packet, from| orphans.push((packet.to_vec(), from)));
                self.known.remove(peer);
                self.guard.remove_peer(peer);
                self.adopt(now, orphans, reason.unwrap_or(Reason::Silence(peer)));
            }
            neighbours::Event::Disputed(place) => {
                let what = "a station claims an address of a neighbour and is reached by plain IP";
                self.complain_of(now, Subject::AddressDisputed, place, what);
            }
            neighbours::Event::Incompatible(place) => {
                let what = "a neighbour runs another profile of HBH and is reached by plain IP";
                self.complain_of(now, Subject::ProfileDiffers, place, what);
            }
            neighbours::Event::Measured(peer, report) => self.hop.handle_link_report(peer, report),
            neighbours::Event::Misplaced(place) => {
                let what = "a station claims an address that `neighbours` gives to another";
                self.complain_of(now, Subject::AddressMisplaced, place, what);
            }
        }
        Ok(())
    }

    fn peer_config(&self, place @ (position, _): Place) -> Option<PeerConfig> {
        let port = &self.ports[position];
        let theirs = self.neighbours.addresses(place);
        let (local, remote) = port.state.addresses.iter().find_map(|&local| {
            let remote = theirs.iter().find(|remote| remote.is_ipv4() == local.is_ipv4());
            remote.map(|&remote| (local, remote))
        })?;
        let link = hbh::Link(u32::try_from(position).ok()?);
        let mtu = port.state.mtu.saturating_sub(self.guard.overhead());
        Some(PeerConfig { link, local, remote, mtu })
    }

    fn take_changes(&mut self, now: Time) -> anyhow::Result<()> {
        let mut concerned = 0_u32;
        let ports = &self.ports;
        let mut changes = 0;
        let is_lossy = self.monitor.read(|message| {
            changes += 1;
            let subject = links::subject(message);
            if let Some(at) = ports.iter().position(|port| Some(port.index) == subject) {
                concerned |= 1 << at;
            }
        });
        if is_lossy.context("cannot watch the kernel's routes")? {
            concerned = u32::MAX;
        }
        self.counters.route_changes += changes;
        self.reroute_at = earliest(self.reroute_at, Some(now + SETTLE));

        for position in 0..self.ports.len() {
            if concerned & (1 << position) == 0 {
                continue;
            }
            let name = self.ports[position].name.clone();
            let state = LinkState::read(&mut self.netlink, &name)?;
            let Some(state) = state.filter(|state| state.index == self.ports[position].index)
            else {
                bail!("the interface {name} is gone");
            };
            let port = &mut self.ports[position];
            if state.mac != Some(port.mac) {
                bail!("the hardware address of {name} has changed: start the gateway again");
            }
            self.neighbours.handle_interface(now, position, &state.addresses, state.is_running);
            port.state = state;
            let peers: Vec<_> = self.neighbours.peers().collect();
            for (peer, place) in peers {
                if place.0 == position
                    && let Some(config) = self.peer_config(place)
                {
                    self.hop.add_peer(peer, config);
                }
            }
        }
        Ok(())
    }

    fn write_metrics(&self) {
        if let Some(path) = &self.config.metrics
            && let Err(error) = counters::replace(path, &self.metrics())
        {
            warn!(path = %path.display(), %error, "counters not written");
        }
    }

    fn metrics(&self) -> String {
        counters::as_metrics(&self.entries()) + &self.services.metrics()
    }

    /// Tells the neighbours, and says what was.
    fn leave(&mut self) {
        let now = self.now();
        for position in 0..self.ports.len() {
            for hello in self.neighbours.goodbyes(now, position) {
                self.push_hello(position, Mac::EVERYONE, &hello);
            }
            self.ports[position].flush(&mut self.counters);
        }
        self.write_metrics();
        let counters = counters::as_json(&self.entries());
        info!(counters = %counters.trim(), left_out = self.complaints.untold(), "gateway ends");
    }
}

struct Ready {
    signal: bool,
    services: bool,
    nft: bool,
    monitor: bool,
    control: bool,
    /// A bit for each port's device.
    devices: u32,
    /// A bit for each port.
    ports: u32,
}
