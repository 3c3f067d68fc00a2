//! HBH on MANET interfaces: packets between the kernel, the core and the neighbours.
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
//! An interface may go and come: it is waited for, and the others go on.

mod counters;
mod frames;
mod intercept;
mod interfaces;
mod neighbours;
mod port;
mod ports;
mod release;

use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use ::host::Kernel;
use ::host::nft::Told;
use ::host::{Interest, Observer, Subscription};
use anyhow::Context as _;
use base::budget::Budget;
use base::ip::icmp;
use base::parameter::word;
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use counters::{Counters, Levels};
use hbh::host::{self, Host, Known};
use hbh::{Peer, Profile};
use nix::poll::{PollFd, PollFlags};
use ports::Ports;
use release::Release;
use serde::Serialize;
use tracing::{info, warn};

use super::complaints::{Complaints, Subject};
use super::{Kind, Reload, Report, Service, Setup, entries, rounded};
use crate::config::{self, Config};
use crate::linux::firewall::{Firewall, Plan};
use crate::linux::routes::Routes;
use crate::reactor::{Driver, has_input};
use crate::sys::{Raw, Received};

/// Changes that come together are acted on together.
const SETTLE: Duration = Duration::from_millis(20);
/// Neighbours in a status.
const SHOWN: usize = 256;

pub const KIND: Kind = Kind {
    name: "hbh",
    is_wanted: |config| config.hbh.is_some(),
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW],
    set_up: |setup| Ok(Box::new(Hbh::set_up(setup)?)),
    clean_up: || {},
};

/// HBH at work.
struct Hbh {
    /// First field, so dropped first: rules must go before the devices they point at.
    firewall: Firewall,
    config: config::Hbh,
    host: Host,
    complaints: Complaints,
    routes: Routes,
    kernel: Kernel,
    changes: Subscription,
    observer: Arc<Observer>,
    ports: Ports,
    release: Release,
    raw: Raw,
    counters: Counters,
    /// Frames other than IP, in addition to the frames counted by HBH.
    frames_not_ip: u64,
    /// When to look again for absent interfaces.
    retry_at: Option<Time>,
    /// When to look whether our devices are as they were.
    keep_at: Option<Time>,
    /// When to ask the kernel again which stations it sends to.
    next_hops_at: Time,
    errors: Budget,
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

/// What an operator is told.
#[derive(Serialize)]
struct Status {
    state: String,
    interfaces: Vec<ports::Status>,
    /// The neighbours that speak HBH, the first ones.
    peers: Vec<PeerStatus>,
}

/// A neighbour that speaks HBH, for an operator.
#[derive(Serialize)]
struct PeerStatus {
    /// Its first address.
    address: Option<IpAddr>,
    /// Its other addresses.
    others: Vec<IpAddr>,
    /// Its hardware address.
    station: String,
    interface: String,
    state: &'static str,
    state_age_s: f64,
    heard_age_s: Option<f64>,
    /// The share of lost packets to the neighbour; none before anything was sent.
    loss: Option<f64>,
    rtt_ms: Option<f64>,
    packets_waiting: usize,
}

impl Hbh {
    /// Sets up everything for HBH; dropping the service removes everything again.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let &Setup { config, seed, clock, observer, is_restart, .. } = setup;
        let config = config.hbh.as_ref().context("no section [hbh]")?;
        let group_key = config.read_group_key().context("group-key")?;
        let mut kernel = Kernel::open().context("cannot ask the kernel")?;
        let changes = observer.subscribe(Interest::Host)?;
        let mut ports = Ports::default();
        let mut opened = Vec::new();
        for name in &config.interfaces {
            let position = ports.add(name);
            match ports::open(&mut kernel, config, position, name) {
                Ok(port) => opened.push((position, port)),
                Err(why) if is_restart => {
                    warn!(interface = %name, why = %format!("{why:#}"), "interface is waited for");
                    ports.take_away(position, &format!("{why:#}"));
                }
                Err(why) => return Err(why),
            }
        }
        let raw = Raw::open().context("cannot open a raw socket")?;
        let plan = Plan {
            protocol: config.core.protocol,
            plain_protocols: config.intercept.plain_protocols.clone(),
            plain_udp: config.intercept.plain_udp.clone(),
            limit: config.limits.neighbours,
        };
        let devices = opened.iter().map(|(at, port)| (*at, port.name(), ports::device(*at)));
        let firewall = Firewall::set_up(plan, &devices.collect::<Vec<_>>())?;
        if group_key.is_none() {
            warn!(
                "no group-key: anybody in radio range can pass for a neighbour, take its traffic and \
                 end its conversations; `trackway keygen --group --out group.key` makes one"
            );
        }
        let of_host = host::Config {
            core: config.core,
            neighbours: hbh::neighbours::Config {
                profile: config.core.profile,
                interval: config.hello.interval,
                hold: config.hello.hold,
                limit: config.limits.neighbours,
                only: config.neighbours.clone(),
            },
            key: group_key,
            clamps_mss: config.intercept.clamp_mss,
            settle: SETTLE,
        };
        let rngs = ["hbh", "neighbours"].map(|name| Rng::stream(seed, name));
        let [rng, hellos] = rngs;
        let mut hbh = Self {
            host: Host::new(of_host, rng, hellos),
            complaints: Complaints::default(),
            routes: Routes::open().context("cannot ask for routes")?,
            kernel,
            changes,
            observer: Arc::clone(observer),
            release: Release::default(),
            ports,
            raw,
            firewall,
            counters: Counters::default(),
            frames_not_ip: 0,
            retry_at: None,
            keep_at: None,
            next_hops_at: Time::ZERO,
            errors: Budget::per_second(Time::ZERO, icmp::ERRORS_PER_SECOND),
            buffers: Buffers {
                train: vec![0; 1 << 17],
                segment: Vec::new(),
                packet: Vec::new(),
                received: Some(Received::default()),
            },
            config: config.clone(),
        };
        hbh.host.handle_addresses(observer.addresses());
        for (position, port) in opened {
            hbh.put(clock.now(), position, port);
        }
        hbh.expect_absent(clock.now());
        let profile = word(&Profile::NAMES, &config.core.profile);
        info!(interfaces = %config.interfaces.join(", "), profile = profile.text(), "HBH ready");
        Ok(hbh)
    }
}

impl Hbh {
    fn peer_status(&self, now: Time, peer: Peer, known: &Known) -> PeerStatus {
        let (position, mac) = known.place;
        let estimates = self.host.relay().estimates(peer).unwrap_or_default();
        let age = |at: Time| rounded(now.since(at).as_secs_f64(), 1);
        let mut addresses = known.addresses.iter().copied();
        PeerStatus {
            address: addresses.next(),
            others: addresses.collect(),
            station: mac.to_string(),
            interface: self.ports.name(position).to_owned(),
            state: if estimates.is_silent { "silent" } else { "up" },
            state_age_s: age(known.since),
            heard_age_s: self.host.neighbours().last_heard(known.place).map(age),
            loss: estimates.loss.map(|loss| rounded(loss, 4)),
            rtt_ms: estimates.round_trip.map(|it| rounded(it.as_secs_f64() * 1e3, 1)),
            packets_waiting: estimates.waiting,
        }
    }
}

impl Driver for Hbh {
    /// Handles due timers, and hands waiting packets to the kernel and the links.
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        while let Some((position, fault)) = self.ports.take_fault() {
            self.lose(now, position, &fault);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.find_absent(now);
        }
        if self.next_hops_due().is_some_and(|at| at <= now) {
            self.take_next_hops(now);
        }
        self.host.handle_timeout(now);
        self.settle(now);
        if self.keep_at.is_some_and(|at| at <= now) {
            self.keep_devices(now);
        }
        self.release_restored(now);
        self.transmit(now);
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let looks = earliest(self.keep_at, self.retry_at);
        earliest(self.host.next_timeout(), earliest(self.next_hops_due(), looks))
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.firewall.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.changes.as_fd(), PollFlags::POLLIN));
        for (_, port) in self.ports.iter() {
            let output = if port.is_busy() { PollFlags::POLLOUT } else { PollFlags::empty() };
            fds.push(PollFd::new(port.as_fd(), PollFlags::POLLIN | output));
            fds.push(PollFd::new(port.tap().as_fd(), PollFlags::POLLIN));
        }
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let (own, of_ports) = ready.split_at(2);
        // Before anything changes which interface is where.
        let ports: Vec<_> =
            self.ports.iter().map(|(at, _)| at).zip(of_ports.chunks_exact(2)).collect();
        if has_input(own[0])
            && let Told::Complaints(complaints) = self.firewall.handle_ready(now)?
            && let Some(left_out) = self.complaints.admit(now, Subject::Firewall)
        {
            warn!(%complaints, left_out, "nft");
        }
        if has_input(own[1]) {
            self.take_changes(now)?;
        }
        for (position, ready) in ports {
            if has_input(ready[0]) {
                self.take_received(now, position);
            }
            if has_input(ready[1]) {
                self.take_intercepted(now, position);
            }
        }
        Ok(())
    }
}

impl Service for Hbh {
    fn report(&self, now: Time) -> Report {
        let mut counters = entries("", &self.counters);
        let mut of_host = self.host.stats();
        of_host.received.frames_not_hbh += self.frames_not_ip;
        counters.extend(entries("", &of_host));
        counters.extend(entries("", &self.host.neighbours().stats()));
        counters.extend(entries("hbh_", &self.host.relay().stats()));
        let levels = Levels {
            neighbours: self.host.neighbours().peers().count(),
            routes_asked: self.routes.asked,
            packets_waiting: self.host.waiting(),
            segments_kept: self.host.kept(),
        };
        counters.extend(entries("", &levels));
        let absent: Vec<_> = self.ports.absent().into_iter().map(|(_, name)| name).collect();
        let state = match &absent[..] {
            [] => "ready".to_owned(),
            names => format!("waits for {}", names.join(", ")),
        };
        let peers = self.host.peers().take(SHOWN);
        let peers = peers.map(|(peer, known)| self.peer_status(now, peer, known)).collect();
        let status = Status { state, interfaces: self.ports.status(), peers };
        Report { faults: self.ports.faults(), ..Report::new(counters, "hbh", &status) }
    }

    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        self.follow(now, config)
    }

    /// Tells the neighbours.
    fn end(&mut self, now: Time) {
        for position in self.ports.positions() {
            self.say_goodbye(now, position);
        }
        info!(left_out = self.complaints.untold(), "HBH ends");
    }
}
