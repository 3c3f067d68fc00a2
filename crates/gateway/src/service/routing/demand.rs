//! Holds packets without a route: they arrive by a TUN device and wait until the protocol has found a route.
//!
//! ```text
//!   kernel ─ no better route ─▶ TUN device ─▶ Waiting ─ route ─▶ raw socket ─▶ kernel ─▶ neighbour
//!                                   ▲            └─ none found ─▶ ICMP to the sender
//! ```

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use base::budget::Budget;
use base::counter::Counter;
use base::ip::{Header, Prefix, icmp, minimal};
use base::time::{Time, earliest};
use host::fib::{Fib, Hop, Target};
use host::links::{self, LinkState};
use host::netlink::Netlink;
use host::nft::Told;
use host::numbers::Mark;
use host::settings::Settings;
use manet::waiting::{self, Waiting};
use manet::{Neighbour, Passage};
use nix::poll::{PollFd, PollFlags};
use tracing::{debug, trace, warn};

use super::inlet::Inlet;
use super::outlet::Outlet;
use super::passages::{self, Passages};
use super::ports::Ports;
use super::table::Table;
use super::{Routing, interfaces};
use crate::config;
use crate::config::routing::OnDemand;
use crate::linux::device::{Device, Wanted};
use crate::linux::firewall::MARK;
use crate::reactor::has_input;
use crate::service::complaints::Subject;
use crate::service::{entries, of_counters};
use crate::sys::{Raw, Tap};

/// The mark of packets released after waiting, so that they do not wait again. It differs from the mark of HBH's
/// own packets, as packets with that mark go plain.
const RELEASED: Mark = Mark(MARK.0 + 1);
/// Packets taken from the device before others have their turn.
const READS: usize = 64;
const LONGEST: usize = 64 << 10;
/// What an Ethernet carries, until an interface says otherwise.
const ETHERNET: usize = 1_500;

/// The device, and the packets waiting for routes.
pub struct Demand {
    /// First field, so dropped first: passages must go before the device that they name.
    passages: Passages,
    config: OnDemand,
    tun: Tap,
    /// At a gateway: the exit of half tunnels.
    outlet: Option<Outlet>,
    /// At other nodes: how long packets in half tunnels may be.
    inlet: Option<Inlet>,
    device: Device,
    index: u32,
    mtu: usize,
    waiting: Waiting<Vec<u8>>,
    raw: Raw,
    local: BTreeSet<Ipv4Addr>,
    poll_at: Option<Time>,
    errors: Budget,
    counters: Counters,
    buffer: Box<[u8]>,
    packet: Vec<u8>,
}

base::counters! {
    /// Counters of packets without a route.
    #[derive(Default)]
    struct Counters {
        /// Packets without a route, from the kernel.
        demands: counter(packets);
        /// Of those, packets of others: their way here is broken.
        demands_in_transit: counter(packets);
        /// Dropped: no IPv4, or to nobody in particular.
        demands_malformed: counter(packets);
        /// Packets that had waited, and were sent.
        packets_released: counter(packets);
        /// Packets refused by the kernel after waiting.
        packets_unreleased: counter(packets);
        /// Packets in vain: no route was found, or too late.
        packets_unreachable: counter(packets);
        /// Dropped: too many waited.
        packets_evicted: counter(packets);
        /// Packets to the Internet, sent to the gateway in a half tunnel.
        packets_encapsulated: counter(packets);
        /// Dropped: fragments, which a half tunnel does not take.
        packets_not_encapsulated: counter(packets);
        /// Dropped: too long for a half tunnel; their senders are told.
        packets_too_big: counter(packets);
        /// ICMP errors sent.
        icmp_sent: counter(messages);
        /// ICMP errors not sent because there were too many.
        icmp_suppressed: counter(messages);
        /// Pairs of addresses whose packets keep routes in use.
        passages: counter(addresses);
    }
}

impl Demand {
    /// Makes the device, if the protocol is one that finds routes on demand.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    pub fn set_up(
        config: &config::Routing,
        port: u16,
        settings: &mut Settings,
    ) -> anyhow::Result<Option<Self>> {
        let Some(on_demand) = config.protocol.on_demand() else { return Ok(None) };
        let name = &on_demand.device[..];
        let mut netlink = Netlink::open().context("cannot ask the kernel")?;
        let wanted = Wanted { name, mtu: ETHERNET, has_trains: false };
        let (tun, device) = Device::open(Netlink::open()?, &wanted)?;
        // Errors that we send to a program of this node come from the node's own address.
        links::set_sysctl(name, "ipv4", "accept_local", "1");
        let state = LinkState::read(&mut netlink, name)?;
        let index = state.with_context(|| format!("{name} is gone"))?.index;
        interfaces::prepare(settings, name);
        let passages = Passages::set_up(&config.interfaces, port, name, RELEASED)?;
        let raw = Raw::open_marked(RELEASED.value()).context("cannot open a raw socket")?;
        Ok(Some(Self {
            passages,
            config: on_demand.clone(),
            tun,
            outlet: Outlet::set_up(config, on_demand)?,
            inlet: Inlet::set_up(on_demand)?,
            device,
            index,
            mtu: ETHERNET,
            waiting: Waiting::new(waiting::Config::default()),
            raw,
            local: BTreeSet::new(),
            poll_at: Some(Time::ZERO),
            errors: Budget::per_second(Time::ZERO, icmp::ERRORS_PER_SECOND),
            counters: Counters::default(),
            buffer: vec![0; LONGEST].into_boxed_slice(),
            packet: Vec::new(),
        }))
    }

    /// The number of the device.
    pub fn device(&self) -> u32 {
        self.index
    }

    /// Gives the device its routes, and learns which addresses are this host's.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn refresh(
        &mut self,
        netlink: &mut Netlink,
        config: &config::Routing,
        ports: &Ports,
        fib: &mut Fib,
    ) -> anyhow::Result<()> {
        // Somebody may have switched the device off, or deleted it, which reading it reports.
        if links::keep(netlink, self.index, None).is_ok_and(|is_changed| is_changed) {
            warn!("somebody has switched our device off: it is on again");
        }
        self.local = links::own_v4_addresses(netlink).context("cannot ask for addresses")?;
        let mtu = ports.least_mtu().unwrap_or(ETHERNET);
        if mtu != self.mtu {
            self.device.set_mtu(mtu);
            self.mtu = mtu;
        }
        let hop = Hop { interface: self.index, via: None, mtu: None };
        // Any route of the protocol's own is better, or more exact.
        let metric = config.metric.saturating_add(1);
        // The network of an interface's address has a route as well, which would lead nowhere: routes to both halves
        // are more specific.
        for half in config.manet.iter().flat_map(halves) {
            if let Some(target) = Target::new(half, metric) {
                fib.set(target, hop);
            }
        }
        if self.config.has_internet {
            let target = Target { address: Ipv4Addr::UNSPECIFIED, bits: 0, metric };
            let mtu = u32::try_from(mtu.saturating_sub(minimal::OVERHEAD)).ok();
            fib.set(target, Hop { mtu, ..hop });
        }
        Ok(())
    }

    /// Sends packets waiting for addresses in this prefix, as there is a route now.
    pub fn release(&mut self, now: Time, prefix: Prefix, table: &Table, source: Option<Ipv4Addr>) {
        let concerned = |address: &Ipv4Addr| prefix.contains(IpAddr::V4(*address));
        let found: Vec<_> = self.waiting.destinations().filter(concerned).collect();
        for destination in found {
            let Some(route) = table.find(destination) else { continue };
            for packet in self.waiting.take(destination) {
                self.send(now, packet, route.gateway, source);
            }
        }
    }

    /// Gives a packet that has a route now to the kernel, in a half tunnel if it goes to a gateway.
    fn send(
        &mut self,
        now: Time,
        mut packet: Vec<u8>,
        gateway: Option<Ipv4Addr>,
        source: Option<Ipv4Addr>,
    ) {
        if let Some(gateway) = gateway {
            let whole = self.mtu.saturating_sub(minimal::OVERHEAD);
            let most = self.inlet.as_ref().map_or(whole, |it| it.room(now, gateway, self.mtu));
            if packet.len() > most {
                self.counters.packets_too_big += 1;
                let mtu = u16::try_from(most).unwrap_or(u16::MAX);
                self.tell(now, &packet, icmp::Error::TooBig { mtu }, source);
                return;
            }
            if let Err(why) = minimal::encapsulate(&mut packet, gateway) {
                trace!(%why, "packet not sent to the gateway");
                self.counters.packets_not_encapsulated += 1;
                return;
            }
            self.counters.packets_encapsulated += 1;
        }
        let packet = &packet[..];
        let Ok(header) = Header::parse(packet) else { return };
        match self.raw.send(&header, packet) {
            Ok(()) => self.counters.packets_released += 1,
            Err(error) => {
                trace!(%error, destination = %header.destination, "packet not released");
                self.counters.packets_unreleased += 1;
                self.tell(now, packet, icmp::Error::HostUnreachable, source);
            }
        }
    }

    /// Drops packets waiting for an address without a route, and tells the senders.
    pub fn refuse(&mut self, now: Time, destination: Ipv4Addr, source: Option<Ipv4Addr>) {
        for packet in self.waiting.take(destination) {
            self.counters.packets_unreachable += 1;
            self.tell(now, &packet, icmp::Error::HostUnreachable, source);
        }
    }

    /// Drops what has waited too long.
    pub fn expire(&mut self, now: Time, source: Option<Ipv4Addr>) {
        if self.waiting.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        for (_, packet) in self.waiting.expire(now) {
            self.counters.packets_unreachable += 1;
            self.tell(now, &packet, icmp::Error::HostUnreachable, source);
        }
    }

    /// Tells the sender of a packet why it was dropped.
    fn tell(&mut self, now: Time, packet: &[u8], error: icmp::Error, source: Option<Ipv4Addr>) {
        let Some(source) = source else { return };
        if !self.errors.spend(now) {
            self.counters.icmp_suppressed += 1;
            return;
        }
        self.packet.clear();
        if !error.emit(source.into(), packet, &mut self.packet) {
            return;
        }
        let Ok(header) = Header::parse(&self.packet) else { return };
        // A program on this host is told as if the device had brought it.
        let is_local = matches!(header.destination, IpAddr::V4(it) if self.local.contains(&it));
        let sent = if is_local {
            self.tun.write(&self.packet)
        } else {
            self.raw.send(&header, &self.packet)
        };
        match sent {
            Ok(()) => self.counters.icmp_sent += 1,
            Err(error) => trace!(%error, "ICMP not sent"),
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.waiting.next_timeout(), self.poll_at)
    }

    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.passages.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.tun.as_fd(), PollFlags::POLLIN));
        fds.extend(self.outlet.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.inlet.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
    }

    pub fn counters(&self) -> Vec<crate::service::Entry> {
        let mut counters = entries("routing_", &self.counters);
        counters.extend(self.outlet.iter().flat_map(Outlet::counters));
        counters.extend(self.inlet.iter().flat_map(Inlet::counters));
        let waiting = const {
            &Counter::gauge("packets_waiting", "packets", "Packets that wait for a route.")
        };
        counters.extend(of_counters("routing_", [(waiting, self.waiting.len() as u64)]));
        counters
    }
}

impl Routing {
    /// Takes what the kernel has no route for.
    ///
    /// # Errors
    /// When the device or `nft` is gone.
    pub fn take_demands(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let Some(demand) = &mut self.demand else { return Ok(()) };
        if has_input(ready[0])
            && let Told::Complaints(complaints) = demand.passages.handle_ready(now)?
            && let Some(left_out) = self.complaints.admit(now, Subject::Firewall)
        {
            warn!(%complaints, left_out, "nft");
        }
        if ready[2..].iter().any(|it| has_input(*it)) {
            if let Some(outlet) = &mut demand.outlet {
                outlet.take(&demand.tun, &demand.local);
            }
            if let Some(inlet) = &mut demand.inlet {
                inlet.take(now, &demand.local);
            }
        }
        if !has_input(ready[1]) {
            return Ok(());
        }
        for _ in 0..READS {
            let Some(demand) = &mut self.demand else { break };
            let len = demand.tun.read(&mut demand.buffer).context("reading the TUN device")?;
            let Some(len) = len else { break };
            let packet = demand.buffer[..len].to_vec();
            self.take_packet(now, packet);
        }
        Ok(())
    }

    /// Has a route looked for, and lets a packet wait for it.
    fn take_packet(&mut self, now: Time, packet: Vec<u8>) {
        let Some(demand) = &mut self.demand else { return };
        let (Ok(header), main) = (Header::parse(&packet), self.ports.main_address()) else {
            demand.counters.demands_malformed += 1;
            return;
        };
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (header.source, header.destination)
        else {
            demand.counters.demands_malformed += 1;
            return;
        };
        if destination.is_multicast() || destination.is_broadcast() {
            demand.counters.demands_malformed += 1;
            return;
        }
        demand.counters.demands += 1;
        let from_outside = demand.config.is_gateway
            && self.config.manet.is_none_or(|manet| !manet.contains(header.source));
        let is_own = demand.local.contains(&source) || from_outside;
        if let Some(route) = self.table.find(destination)
            && (is_own || route.gateway.is_none())
        {
            // It was on its way here when the route was set, or the way is a half tunnel. A route that
            // the kernel refused does not lead it here again: what is released is not let in.
            demand.send(now, packet, route.gateway, main);
            return;
        }
        if is_own {
            let evicted = demand.waiting.push(now, destination, packet.len(), packet);
            demand.counters.packets_evicted += evicted.len() as u64;
            let demanded = manet::Demand { destination, from: None };
            self.router.handle_demand(now, &demanded);
        } else {
            // The way back to the sender begins with who sent it here: a TUN device does not say who.
            demand.counters.demands_in_transit += 1;
            demand.tell(now, &packet, icmp::Error::HostUnreachable, main);
            let senders = match self.table.find(source) {
                Some(back) => vec![back.next],
                None => self.ports.iter().map(|(interface, _)| everybody(interface)).collect(),
            };
            for from in senders {
                let demanded = manet::Demand { destination, from: Some(from) };
                self.router.handle_demand(now, &demanded);
            }
        }
        self.take_events(now);
    }

    /// Tells the protocol which routes packets leave by.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn take_passages(&mut self, now: Time) -> anyhow::Result<()> {
        let Some(demand) = &mut self.demand else { return Ok(()) };
        if demand.poll_at.is_none_or(|at| at > now) {
            return Ok(());
        }
        demand.poll_at = Some(now + passages::INTERVAL);
        if self.table.len() == 0 {
            return Ok(());
        }
        let pairs = match Passages::poll() {
            Ok(pairs) => pairs,
            Err(error) => {
                debug!(%error, "passages not read");
                return Ok(());
            }
        };
        for (source, destination) in pairs {
            let Some(route) = self.table.find(destination) else { continue };
            demand.counters.passages += 1;
            // The way to the sender is the way from it: routes on demand are made both ways at once.
            let from = match self.table.find(source) {
                Some(back) if !demand.local.contains(&source) => Some(back.next),
                _ => None,
            };
            let passage = Passage { source, destination, from, next: route.next };
            self.router.handle_passage(now, &passage);
        }
        Ok(())
    }
}

/// All neighbours on an interface, for a packet from one of them whose sender is unknown.
fn everybody(interface: usize) -> Neighbour {
    Neighbour { interface, address: Ipv4Addr::BROADCAST }
}

/// The halves of a network.
fn halves(network: &Prefix) -> Vec<Prefix> {
    let network = network.network();
    let IpAddr::V4(low) = network.address() else { return Vec::new() };
    let bits = network.bits() + 1;
    let high =
        Ipv4Addr::from_bits(low.to_bits() | 1_u32.checked_shl(u32::from(32 - bits)).unwrap_or(0));
    [low, high].into_iter().filter_map(|address| Prefix::new(address.into(), bits).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_more_exact_than_the_network() {
        for (network, expected) in [
            ("10.0.0.0/24", ["10.0.0.0/25", "10.0.0.128/25"]),
            ("0.0.0.0/0", ["0.0.0.0/1", "128.0.0.0/1"]),
            ("10.1.0.4/31", ["10.1.0.4/32", "10.1.0.5/32"]),
        ] {
            let halves = halves(&network.parse().unwrap());

            assert_eq!(halves.iter().map(Prefix::to_string).collect::<Vec<_>>(), expected);
        }
    }
}
