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
mod table;

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use base::budget::Budget;
use base::ip::Prefix;
use base::time::{Time, earliest};
use caps::Capability;
use demand::Demand;
use host::fib::{Fib, Hop, Outcome, Target};
use host::netlink::Netlink;
use host::settings::Settings;
use host::{Interest, Subscription};
use manet::{Arrival, Event, Neighbour, Notice, Route, Router};
use nix::poll::{PollFd, PollFlags};
use notices::Notices;
use ports::Ports;
use serde::Serialize;
use table::Table;
use tracing::{debug, info, trace, warn};

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

/// A running routing protocol. Dropping it undoes its changes to the kernel.
struct Routing {
    config: config::Routing,
    router: Box<dyn Router>,
    ports: Ports,
    table: Table,
    /// Absent for protocols that know all routes beforehand. Dropped before the settings.
    demand: Option<Demand>,
    fib: Fib,
    settings: Settings,
    netlink: Netlink,
    changes: Subscription,
    look_at: Option<Time>,
    reconcile_at: Option<Time>,
    /// The attached networks that this host reaches, and when to look at them again.
    reached: Vec<Prefix>,
    reach_at: Option<Time>,
    /// When to look at the settings of the interfaces again, and how often somebody may change them and find them
    /// changed back at once.
    prepare_at: Option<Time>,
    preparations: Budget,
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
        /// Messages of the routing protocol received.
        messages_received: counter(messages);
        /// Messages of the routing protocol sent.
        messages_sent: counter(messages);
        /// Messages that an interface did not take.
        messages_refused: counter(messages);
        /// Our own messages received back.
        messages_own: counter(messages);
        /// Routes to no hosts: loopback, groups, broadcast.
        routes_forbidden: counter(routes);
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
        let router = config.protocol.router(setup.seed);
        let mut netlink = Netlink::open().context("cannot ask the kernel")?;
        let mut ports = Ports::default();
        for name in &config.interfaces {
            if !setup.is_restart {
                interfaces::expect(&mut netlink, name)?;
            }
            ports.add(name);
        }
        let fib = Fib::open().context("cannot ask for the kernel's routes")?;
        if fib.stats.routes_left_over > 0 {
            info!(routes = fib.stats.routes_left_over, "routes of an earlier run removed");
        }
        let mut settings = Settings::default();
        let port = router.carrier().port().context(UDP_ONLY)?;
        let demand = Demand::set_up(&config, port, &mut settings)?;
        let mut routing = Self {
            router,
            ports,
            table: Table::default(),
            demand,
            fib,
            settings,
            netlink,
            changes: setup.observer.subscribe(Interest::Neighbourhood)?,
            look_at: None,
            reconcile_at: None,
            reached: config.protocol.attached(),
            reach_at: None,
            prepare_at: Some(Time::ZERO),
            preparations: Budget::new(Time::ZERO, 10, interfaces::PREPARE),
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
            let came = match port.socket.receive(&mut self.received) {
                Ok(Some(came)) => came,
                Ok(None) => return Ok(()),
                Err(error) => {
                    trace!(%error, "an interface gives nothing");
                    self.look_at = earliest(self.look_at, Some(now + interfaces::SETTLE));
                    return Ok(());
                }
            };
            if self.ports.has_address(came.from) {
                self.counters.messages_own += 1;
                continue;
            }
            self.counters.messages_received += 1;
            let from = Neighbour { interface: position, address: came.from };
            let arrival = Arrival { from, is_unicast: came.is_unicast, ttl: came.ttl };
            self.router.handle_message(now, &arrival, &self.received[..came.len]);
            self.take_events(now);
        }
        Ok(())
    }

    /// Sends the protocol's messages on each interface with room.
    fn transmit(&mut self, now: Time) {
        for (position, _) in self.ports.named() {
            while let Some(port) = self.ports.get_mut(position) {
                let sending = match port.unsent.take() {
                    Some((sending, message)) => {
                        self.message = message;
                        Some(sending)
                    }
                    None => self.router.poll_transmit(now, position, &mut self.message),
                };
                let Some(sending) = sending else { break };
                let from = port.interface.address;
                match port.socket.send(from, sending.to, sending.ttl, &self.message) {
                    Ok(true) => self.counters.messages_sent += 1,
                    Ok(false) => {
                        port.unsent = Some((sending, std::mem::take(&mut self.message)));
                        break;
                    }
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
        while let Some(event) = self.router.poll_event() {
            match event {
                Event::Route(prefix, route) => self.take_route(now, prefix, route),
                Event::Notice(notice) => {
                    let (Notice::AddressDisputed { from, .. } | Notice::Unreadable { from, .. }) =
                        notice;
                    self.notices.take(now, notice, self.ports.name(from.interface));
                }
                Event::Unreachable(destination) => {
                    debug!(%destination, "no route was found");
                    if let Some(demand) = &mut self.demand {
                        demand.refuse(now, destination, self.ports.main_address());
                    }
                }
            }
        }
    }

    /// A route is another now.
    fn take_route(&mut self, now: Time, prefix: Prefix, route: Option<Route>) {
        if !is_routable(prefix) {
            self.counters.routes_forbidden += 1;
            return;
        }
        let before = self.table.set(prefix, route);
        if before == route {
            return;
        }
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
        if route.is_some()
            && let Some(demand) = &mut self.demand
        {
            demand.release(now, prefix, &self.table, self.ports.main_address());
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
            Outcome::Refused => {
                self.reconcile_at = earliest(self.reconcile_at, Some(now + interfaces::RETRY));
            }
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

/// Whether a network may contain hosts: neighbours' routes must not lead this host's own packets away.
fn is_routable(prefix: Prefix) -> bool {
    let IpAddr::V4(address) = prefix.network().address() else { return false };
    let is_everything = prefix.bits() == 0;
    is_everything || matches!(address.octets()[0], 1..=126 | 128..=223)
}

impl Driver for Routing {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(now)?;
        }
        if self.reconcile_at.is_some_and(|at| at <= now) {
            let has_all = self.fib.reconcile().context("cannot ask for the kernel's routes")?;
            self.reconcile_at = (!has_all).then_some(now + interfaces::RETRY);
        }
        if self.reach_at.is_some_and(|at| at <= now) {
            self.look_behind(now)?;
        }
        if self.prepare_at.is_some_and(|at| at <= now) {
            self.prepare(now);
        }
        if self.router.next_timeout().is_some_and(|at| at <= now) {
            self.router.handle_timeout(now);
        }
        self.take_passages(now)?;
        self.take_events(now);
        if let Some(demand) = &mut self.demand {
            demand.expire(now, self.ports.main_address());
        }
        self.transmit(now);
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let demand = self.demand.as_ref().and_then(Demand::next_timeout);
        [self.look_at, self.reconcile_at, self.reach_at, self.prepare_at, demand]
            .into_iter()
            .fold(self.router.next_timeout(), earliest)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.changes.as_fd(), PollFlags::POLLIN));
        for (_, port) in self.ports.iter() {
            let output =
                if port.unsent.is_some() { PollFlags::POLLOUT } else { PollFlags::empty() };
            fds.push(PollFd::new(port.socket.as_fd(), PollFlags::POLLIN | output));
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
        counters.extend(entries("routing_", &self.fib.stats));
        let levels = Levels { routes: self.table.len(), routes_installed: self.fib.installed() };
        counters.extend(entries("routing_", &levels));
        if let Some(demand) = &self.demand {
            counters.extend(demand.counters());
        }
        let name = self.config.protocol.name();
        counters.extend(of_counters(&format!("{name}_"), self.router.counters()));
        let shown = self.table.routes().into_iter().take(SHOWN).map(|(to, route)| Shown {
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
        Report { faults, ..Report::new(counters, "routing", &status) }
    }

    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        self.follow(now, config)
    }

    fn end(&mut self, _now: Time) {
        info!(left_out = self.complaints.untold(), "routing ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_lead_to_hosts_alone() {
        for (prefix, expected) in [
            ("10.0.0.1/32", true),
            ("0.0.0.0/0", true),
            ("192.168.0.0/16", true),
            ("127.0.0.1/32", false),
            ("0.0.0.0/8", false),
            ("224.0.0.0/4", false),
            ("255.255.255.255/32", false),
            ("fd00::/8", false),
        ] {
            assert_eq!(is_routable(prefix.parse().unwrap()), expected, "{prefix}");
        }
    }
}
