//! Runs a MANET routing protocol, so that this host becomes a node of the mobile ad hoc network.
//!
//! ```text
//!   neighbours ⇄ UDP on each MANET interface ⇄ ┌────────┐ ─▶ routes in the kernel
//!   packets without a route ─▶ TUN device ───▶ │ Router │ ─▶ released, or refused by ICMP
//!   packets that left, silent neighbours ────▶ └────────┘
//! ```
//! The kernel forwards: no packet that has a route comes here.

mod demand;
mod inlet;
mod interfaces;
mod notices;
mod outlet;
mod passages;
mod ports;

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use base::budget::Budget;
use base::ip::{Prefix, icmp};
use base::time::{Time, earliest};
use caps::Capability;
use demand::Demand;
use host::Kernel;
use host::fib::{Fib, Hop, Outcome, Target};
use host::pace::{Pace, Trials};
use host::settings::Settings;
use host::{Fault, Interest, Subscription, fault};
use manet::host::{Event, Host};
use manet::{Arrival, Neighbour, Notice, Route};
use nix::poll::{PollFd, PollFlags};
use notices::Notices;
use ports::Ports;
use serde::Serialize;
use tracing::{info, trace, warn};

use super::complaints::{Complaints, Subject};
use super::{Kind, Reload, Report, Service, Setup, entries, of_counters};
use crate::config::{self, Config};
use crate::reactor::{Driver, has_input};

pub const KIND: Kind = Kind {
    name: "routing",
    is_wanted: |config| config.routing.is_some(),
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(Routing::set_up(setup)?)),
    clean_up: || {},
};

/// The error for a protocol without a UDP port; no configuration names such a protocol.
const UDP_ONLY: &str =
    "this routing protocol is not carried by UDP, and trackway run speaks no other";
/// Messages taken from an interface before others have their turn.
const READS: usize = 64;
/// The longest message.
const LONGEST: usize = 64 << 10;
/// Routes that an operator is shown.
const SHOWN: usize = 1_000;
/// The most faults about missing routes.
const FAULTS: usize = 8;

/// A running routing protocol. Dropping it undoes its changes to the kernel.
struct Routing {
    config: config::Routing,
    host: Host<Vec<u8>>,
    ports: Ports,
    /// Absent for protocols that know all routes beforehand. Dropped before the settings.
    demand: Option<Demand>,
    fib: Fib,
    settings: Settings,
    kernel: Kernel,
    changes: Subscription,
    look_at: Option<Time>,
    /// When to compare our routes with the kernel's.
    pace: Pace,
    /// The attached networks that this host reaches, and when to look at them again.
    reached: Vec<Prefix>,
    reach_at: Option<Time>,
    /// When to look at the settings of the interfaces again, and how often somebody may change them and find them
    /// changed back at once.
    prepare_at: Option<Time>,
    preparations: Budget,
    /// The fault of a rule that decides before our routes, at the last trial.
    overruled: RefCell<(Trials, Option<Fault>)>,
    counters: Counters,
    complaints: Complaints,
    notices: Notices,
    received: Box<[u8]>,
    message: Vec<u8>,
}

base::counters! {
    /// Counters of the protocol's messages, and of neighbours.
    #[derive(Default)]
    struct Counters {
        /// Messages of the routing protocol sent.
        messages_sent: counter(messages);
        /// Messages that an interface did not take.
        messages_refused: counter(messages);
        /// Neighbours that the kernel asked for in vain.
        neighbours_silent: counter(neighbours);
    }
}

base::counters! {
    /// The routes.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    struct Levels {
        /// Routes of the protocol.
        routes: gauge(routes) in usize;
        /// Routes of the protocol that the kernel has.
        routes_installed: gauge(routes) in usize;
    }
}

/// What an operator is told.
#[derive(Serialize)]
struct Status {
    protocol: &'static str,
    state: String,
    interfaces: Vec<ports::Status>,
    routes: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    to: String,
    via: Ipv4Addr,
    interface: String,
    hops: u8,
    gateway: Option<Ipv4Addr>,
}

impl Routing {
    /// Opens the interfaces and removes what an earlier run has left.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let config = setup.config.routing.clone().context("no section [routing]")?;
        let on_demand = config.protocol.on_demand();
        let of_host = manet::host::Config {
            manet: config.manet,
            is_gateway: on_demand.is_some_and(|it| it.is_gateway),
            may_be_late: true,
            ..manet::host::Config::default()
        };
        let host = Host::new(config.protocol.router(setup.seed), of_host);
        let mut kernel = Kernel::open().context("cannot ask the kernel")?;
        let mut ports = Ports::default();
        for name in &config.interfaces {
            if !setup.is_restart {
                interfaces::expect(&mut kernel, name)?;
            }
            ports.add(name);
        }
        let fib = Fib::open().context("cannot ask for the kernel's routes")?;
        if fib.stats.routes_left_over > 0 {
            info!(routes = fib.stats.routes_left_over, "routes of an earlier run removed");
        }
        let mut settings = Settings::default();
        let port = host.carrier().port().context(UDP_ONLY)?;
        let demand = Demand::set_up(&config, port, &mut settings)?;
        let mut routing = Self {
            host,
            ports,
            demand,
            fib,
            settings,
            kernel,
            changes: setup.observer.subscribe(Interest::Neighbourhood)?,
            look_at: None,
            pace: Pace::default(),
            reached: config.protocol.attached(),
            reach_at: None,
            prepare_at: Some(Time::ZERO),
            preparations: Budget::new(Time::ZERO, 10, interfaces::PREPARE),
            overruled: RefCell::default(),
            counters: Counters::default(),
            complaints: Complaints::default(),
            notices: Notices::default(),
            received: vec![0; LONGEST].into_boxed_slice(),
            message: Vec::new(),
            config,
        };
        routing.look(setup.clock.now())?;
        routing.look_behind(setup.clock.now())?;
        if !setup.is_restart
            && let Some(why) = routing.ports.refusal()
        {
            anyhow::bail!("{why}");
        }
        info!(
            protocol = routing.config.protocol.name(),
            interfaces = %routing.config.interfaces.join(", "), "routing ready"
        );
        warn!(
            "routing protocols of MANETs have no authentication: whoever is in radio range can take \
             this network's traffic, or stop it"
        );
        Ok(routing)
    }

    /// Gives the protocol what neighbours have sent on an interface.
    fn receive(&mut self, now: Time, position: usize) -> anyhow::Result<()> {
        for _ in 0..READS {
            let Some(port) = self.ports.get(position) else { return Ok(()) };
            let came = match port.socket().receive(&mut self.received) {
                Ok(Some(came)) => came,
                Ok(None) => return Ok(()),
                Err(error) => {
                    trace!(%error, "an interface gives nothing");
                    self.look_at = earliest(self.look_at, Some(now + interfaces::SETTLE));
                    return Ok(());
                }
            };
            let from = Neighbour { interface: position, address: came.from };
            let arrival = Arrival { from, is_unicast: came.is_unicast, ttl: came.ttl };
            self.host.handle_message(now, &arrival, &self.received[..came.len]);
            self.take_events(now);
        }
        Ok(())
    }

    /// Sends the protocol's messages on each interface with room.
    fn transmit(&mut self, now: Time) {
        for (position, _) in self.ports.named() {
            while let Some(port) = self.ports.get_mut(position) {
                let sending = match port.take_unsent() {
                    Some((sending, message)) => {
                        self.message = message;
                        Some(sending)
                    }
                    None => self.host.poll_transmit(now, position, &mut self.message),
                };
                let Some(sending) = sending else { break };
                match port.send(sending, &self.message) {
                    Ok(true) => self.counters.messages_sent += 1,
                    Ok(false) => break,
                    Err(error) => {
                        trace!(%error, to = %sending.to, "message not taken by the interface");
                        self.counters.messages_refused += 1;
                    }
                }
            }
        }
    }

    /// Does what the protocol says.
    fn take_events(&mut self, now: Time) {
        while let Some(event) = self.host.poll_event() {
            match event {
                Event::Route(prefix, route) => self.take_route(now, prefix, route),
                Event::Evicted(_) => {}
                Event::Found(packet, route) => {
                    if let Some(demand) = &mut self.demand {
                        demand.send(now, &mut self.host, packet, route);
                    }
                }
                Event::Notice(notice) => {
                    let (Notice::AddressDisputed { from, .. } | Notice::Unreadable { from, .. }) =
                        notice;
                    self.notices.take(now, notice, self.ports.name(from.interface));
                }
                Event::Unreachable(packet) => {
                    if let Some(demand) = &mut self.demand {
                        demand.tell(now, &self.host, &packet, icmp::Error::HostUnreachable);
                    }
                }
            }
        }
    }

    /// A route is another now.
    fn take_route(&mut self, now: Time, prefix: Prefix, route: Option<Route>) {
        if let Some(left_out) = self.complaints.admit(now, Subject::RouteChanged) {
            match route {
                Some(Route { next, hops, gateway }) => info!(
                    to = %prefix, via = %next.address, hops,
                    gateway = gateway.map(tracing::field::display), left_out, "route"
                ),
                None => info!(to = %prefix, left_out, "route ends"),
            }
        }
        let Some(target) = Target::new(prefix, self.config.metric) else { return };
        match route.and_then(|route| self.hop(&route)) {
            Some(hop) => self.put(now, prefix, target, hop),
            None => self.fib.remove(target),
        }
    }

    /// Sets a route in the kernel.
    fn put(&mut self, now: Time, prefix: Prefix, target: Target, hop: Hop) {
        match self.fib.set(target, hop) {
            Outcome::Set => {}
            Outcome::Conflicting => {
                if let Some(left_out) = self.complaints.admit(now, Subject::RouteConflicting) {
                    warn!(
                        route = %prefix, metric = target.metric, left_out,
                        "another's route has this prefix and metric: it stays, and ours is not set; \
                         `ip route` shows it, and `routing.metric` sets another"
                    );
                }
            }
            // An interface that goes, or comes, says so a moment later.
            Outcome::Refused(_) => self.pace.ask(now + interfaces::RETRY),
        }
    }

    /// Where the kernel is to send what goes by a route; `None` for a half tunnel, whose packets come
    /// to us.
    fn hop(&self, route: &Route) -> Option<Hop> {
        if route.gateway.is_some() && self.demand.is_some() {
            return None;
        }
        let interface = self.ports.index_towards(route.next)?;
        Some(Hop { interface, via: Some(route.next.address), mtu: None })
    }
}

impl Driver for Routing {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(now)?;
        }
        let fib = &mut self.fib;
        let looked = self.pace.look(now, || {
            let compared = fib.reconcile();
            let has_repaired = compared.as_ref().is_ok_and(|it| it.has_repaired);
            (compared, has_repaired)
        });
        if let Some(compared) = looked.transpose().context("cannot ask for the kernel's routes")?
            && compared.is_refused
        {
            self.pace.ask(now + interfaces::RETRY);
        }
        if self.reach_at.is_some_and(|at| at <= now) {
            self.look_behind(now)?;
        }
        if self.prepare_at.is_some_and(|at| at <= now) {
            self.prepare(now);
        }
        if self.host.next_timeout().is_some_and(|at| at <= now) {
            self.host.handle_timeout(now);
        }
        self.take_passages(now)?;
        self.take_events(now);
        self.transmit(now);
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let demand = self.demand.as_ref().and_then(Demand::next_timeout);
        [self.look_at, self.pace.due_at(), self.reach_at, self.prepare_at, demand]
            .into_iter()
            .fold(self.host.next_timeout(), earliest)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.changes.as_fd(), PollFlags::POLLIN));
        for (_, port) in self.ports.iter() {
            let output = if port.is_full() { PollFlags::POLLOUT } else { PollFlags::empty() };
            fds.push(PollFd::new(port.socket().as_fd(), PollFlags::POLLIN | output));
        }
        if let Some(demand) = &self.demand {
            demand.watch(fds);
        }
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        // Before anything changes which interface is where.
        let positions: Vec<_> = self.ports.iter().map(|(position, _)| position).collect();
        let (own, others) = ready.split_at(1);
        let (of_ports, of_demand) = others.split_at(positions.len());
        for (position, ready) in positions.into_iter().zip(of_ports) {
            if has_input(*ready) {
                self.receive(now, position)?;
            }
        }
        self.take_demands(now, of_demand)?;
        if has_input(own[0]) {
            self.take_changes(now);
        }
        Ok(())
    }
}

impl Service for Routing {
    fn report(&self, now: Time) -> Report {
        let mut counters = entries("routing_", &self.counters);
        counters.extend(entries("routing_", &self.host.stats().messages));
        counters.extend(entries("routing_", &self.fib.stats));
        let routes = self.host.routes();
        let levels = Levels { routes: routes.len(), routes_installed: self.fib.installed() };
        counters.extend(entries("routing_", &levels));
        if let Some(demand) = &self.demand {
            counters.extend(demand.counters(&self.host));
        }
        let name = self.config.protocol.name();
        counters.extend(of_counters(&format!("{name}_"), self.host.counters()));
        let shown = routes.into_iter().take(SHOWN).map(|(to, route)| Shown {
            to: to.to_string(),
            via: route.next.address,
            interface: self.ports.name(route.next.interface).to_owned(),
            hops: route.hops,
            gateway: route.gateway,
        });
        let status = Status {
            protocol: name,
            state: self.ports.fault().unwrap_or_else(|| "ready".to_owned()),
            interfaces: self.ports.status(),
            routes: shown.collect(),
        };
        let mut faults = self.notices.faults(now);
        faults.extend(self.settings.faults());
        faults.extend(self.ports.faults());
        faults.extend(self.faults_behind());
        faults.extend(self.faults_of_filters());
        let (trials, overruled) = &mut *self.overruled.borrow_mut();
        if trials.due_at() <= now {
            *overruled = trials.run(now, || self.overruled());
        }
        faults.extend(overruled.clone());
        faults.extend(self.demand.iter().flat_map(Demand::faults));
        faults.extend(self.fib.missing().take(FAULTS).map(
            |(Target { address, bits, .. }, why)| {
                let said = format!("our route to {address}/{bits} is not there: {why}");
                Fault::new(&fault::MISSING, said)
            },
        ));
        if self.pace.is_contested() {
            let said = "others change our routes all the time: they are put back every second; `ip -ts monitor` shows \
                        the changes";
            faults.push(Fault::new(&fault::CONTESTED, said));
        }
        Report { faults, ..Report::new(counters, "routing", &status) }
    }

    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        self.follow(now, config)
    }

    fn end(&mut self, _now: Time) {
        info!(left_out = self.complaints.untold(), "routing ends");
    }
}
