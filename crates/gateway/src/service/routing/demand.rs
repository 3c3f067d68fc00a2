//! Holds packets without a route: they arrive by a TUN device and wait until the protocol has found a route.
//!
//! ```text
//!   kernel ─ no better route ─▶ TUN device ─▶ Host ─ route ─▶ raw socket ─▶ kernel ─▶ neighbour
//!                                   ▲          └─ none found ─▶ ICMP to the sender
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use base::budget::Budget;
use base::counter::Counter;
use base::ip::{Header, Prefix, icmp, minimal};
use base::time::Time;
use host::Kernel;
use host::fault::{Fault, SETTING};
use host::fib::{Fib, Hop, Target};
use host::links::{self, LinkState};
use host::nft::Told;
use host::numbers::Mark;
use host::settings::Settings;
use manet::Route;
use manet::host::{Host, NotEncapsulated, Origin, Outcome};
use nix::poll::{PollFd, PollFlags};
use tracing::{debug, trace, warn};

use super::inlet::Inlet;
use super::outlet::Outlet;
use super::passages::{self, Passages};
use super::{Routing, interfaces};
use crate::config;
use crate::linux::device::{Device, Wanted};
use crate::linux::firewall::MARK;
use crate::reactor::has_input;
use crate::service::complaints::Subject;
use crate::service::{entries, of_counters};
use crate::sys::{Raw, Tap};

/// The mark of packets released after waiting: they do not wait again. It differs from the mark of HBH's own packets,
/// as packets with that mark go plain.
const RELEASED: Mark = Mark(MARK.0 + 1);
/// Packets taken from the device before others have their turn.
const READS: usize = 64;
const LONGEST: usize = 64 << 10;
/// What an Ethernet carries, until an interface says otherwise.
const ETHERNET: usize = 1_500;

/// The device, and how packets go on that have waited.
pub struct Demand {
    /// First field, so dropped first: passages must go before the device that they name.
    passages: Passages,
    has_internet: bool,
    tun: Tap,
    /// At a gateway: the exit of half tunnels.
    outlet: Option<Outlet>,
    /// At other nodes: errors about packets in half tunnels.
    inlet: Option<Inlet>,
    device: Device,
    name: String,
    /// Why the device cannot have its name again, if somebody has changed it.
    renamed: Option<String>,
    index: u32,
    mtu: usize,
    raw: Raw,
    poll_at: Option<Time>,
    errors: Budget,
    /// Packets other than IP, in addition to the packets counted by the host.
    malformed: u64,
    counters: Counters,
    buffer: Box<[u8]>,
    packet: Vec<u8>,
}

base::counters! {
    /// Counters of packets that have waited.
    #[derive(Default)]
    struct Counters {
        /// Packets that had waited, and were sent.
        packets_released: counter(packets);
        /// Packets refused by the kernel after waiting.
        packets_unreleased: counter(packets);
        /// ICMP errors sent.
        icmp_sent: counter(messages);
        /// ICMP errors not sent because there were too many.
        icmp_suppressed: counter(messages);
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
        let mut kernel = Kernel::open().context("cannot ask the kernel")?;
        let wanted = Wanted { name, mtu: ETHERNET, has_trains: false };
        let (tun, device) = Device::open(Kernel::open()?, &wanted)?;
        let state = LinkState::read(&mut kernel, name)?;
        let index = state.with_context(|| format!("{name} is gone"))?.index;
        interfaces::prepare(settings, name);
        let passages = Passages::set_up(&config.interfaces, port, name, RELEASED)?;
        let raw = Raw::open_marked(RELEASED.value()).context("cannot open a raw socket")?;
        let demand = Self {
            passages,
            has_internet: on_demand.has_internet,
            tun,
            outlet: Outlet::set_up(on_demand)?,
            inlet: Inlet::set_up(on_demand)?,
            device,
            name: name.to_owned(),
            renamed: None,
            index,
            mtu: ETHERNET,
            raw,
            poll_at: Some(Time::ZERO),
            errors: Budget::per_second(Time::ZERO, icmp::ERRORS_PER_SECOND),
            malformed: 0,
            counters: Counters::default(),
            buffer: vec![0; LONGEST].into_boxed_slice(),
            packet: Vec::new(),
        };
        demand.accept_own_sources();
        Ok(Some(demand))
    }

    /// The number of the device.
    pub fn device(&self) -> u32 {
        self.index
    }

    /// What of the device is not as it has to be.
    pub fn faults(&self) -> Vec<Fault> {
        let all = self.renamed.iter().cloned().chain(self.accept_own_sources());
        all.map(|why| Fault::new(&SETTING, why)).collect()
    }

    /// Lets the device take errors that we send to programs of this node, which come from the node's own address;
    /// returns why the kernel does not let us.
    fn accept_own_sources(&self) -> Option<String> {
        let name = links::existing_name(self.index)?;
        links::accept_own_sources(&name).err()
    }

    /// Gives the device its routes, and tells which addresses are this host's.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn refresh(
        &mut self,
        kernel: &mut Kernel,
        config: &config::Routing,
        host: &mut Host<Vec<u8>>,
        fib: &mut Fib,
    ) -> anyhow::Result<()> {
        self.keep_name(kernel)?;
        // Somebody may have switched the device off.
        if links::keep(kernel, self.index, None).is_ok_and(|is_changed| is_changed) {
            warn!(
                "somebody has switched our device off, or put it into another group: it is as before"
            );
        }
        let own = links::own_addresses(kernel).context("cannot ask for addresses")?;
        host.handle_addresses(own.into_iter().filter(IpAddr::is_ipv4).collect());
        let mtu = host.interfaces().map(|(.., mtu)| mtu).min().unwrap_or(ETHERNET);
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
        if self.has_internet {
            let target = Target { address: Ipv4Addr::UNSPECIFIED, bits: 0, metric };
            let mtu = u32::try_from(mtu.saturating_sub(minimal::OVERHEAD)).ok();
            fib.set(target, Hop { mtu, ..hop });
        }
        Ok(())
    }

    /// Gives the device its name again if somebody has changed it: the table of passages knows it by its name.
    ///
    /// # Errors
    /// When the device is gone, or was moved to another network namespace: then nobody else says so.
    fn keep_name(&mut self, kernel: &mut Kernel) -> anyhow::Result<()> {
        let name = &self.name;
        let other = links::existing_name(self.index).with_context(|| {
            format!("the device {name} is not in this network namespace any more")
        })?;
        if other == *name {
            self.renamed = None;
            return Ok(());
        }
        match links::rename(kernel, self.index, name) {
            Ok(()) => {
                warn!(%other, %name, "a device of ours was renamed, and has its name again");
                self.renamed = None;
            }
            Err(error) => {
                self.renamed = Some(format!(
                    "the device {name} is called {other} now, and cannot have its name again: {error}; `ip link set {name} \
                     name OTHER` frees the name"
                ));
            }
        }
        Ok(())
    }

    /// Gives a packet that has a route now to the kernel, in a half tunnel if it goes to a gateway.
    pub fn send(&mut self, now: Time, host: &mut Host<Vec<u8>>, mut packet: Vec<u8>, route: Route) {
        if let Some(gateway) = route.gateway {
            match host.encapsulate(now, &mut packet, gateway, self.mtu) {
                Ok(()) => {}
                Err(NotEncapsulated::TooBig { mtu }) => {
                    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
                    return self.tell(now, host, &packet, icmp::Error::TooBig { mtu });
                }
                Err(why @ NotEncapsulated::Impossible) => {
                    return trace!(%why, "packet not sent to the gateway");
                }
            }
        }
        let Ok(header) = Header::parse(&packet) else { return };
        match self.raw.send(&header, &packet) {
            Ok(()) => self.counters.packets_released += 1,
            Err(error) => {
                trace!(%error, destination = %header.destination, "packet not released");
                self.counters.packets_unreleased += 1;
                self.tell(now, host, &packet, icmp::Error::HostUnreachable);
            }
        }
    }

    /// Tells the sender of a packet why it was dropped.
    pub fn tell(&mut self, now: Time, host: &Host<Vec<u8>>, packet: &[u8], error: icmp::Error) {
        let Some((_, source, _)) = host.interfaces().next() else { return };
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
        let sent = if host.is_local(header.destination) {
            self.tun.write(&self.packet)
        } else {
            self.raw.send(&header, &self.packet)
        };
        match sent {
            Ok(()) => self.counters.icmp_sent += 1,
            Err(error) => trace!(%error, "ICMP not sent"),
        }
    }

    /// Lets a packet of the kernel wait for a route. A route that the kernel refused does not lead a packet here again:
    /// what is released is not let in.
    fn take_packet(&mut self, now: Time, host: &mut Host<Vec<u8>>, packet: Vec<u8>) {
        let Ok(header) = Header::parse(&packet) else { return self.malformed += 1 };
        // A TUN device does not say who has sent a packet.
        match host.handle_unrouted(now, &header, Origin::Unknown, packet.len(), packet) {
            Outcome::Held | Outcome::Malformed(_) => {}
            Outcome::Found(packet, route) => self.send(now, host, packet, route),
            Outcome::Unreachable(packet) => {
                self.tell(now, host, &packet, icmp::Error::HostUnreachable);
            }
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.poll_at
    }

    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.passages.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.tun.as_fd(), PollFlags::POLLIN));
        fds.extend(self.outlet.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.inlet.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
    }

    pub fn counters(&self, host: &Host<Vec<u8>>) -> Vec<crate::service::Entry> {
        let mut stats = host.stats();
        stats.demands.demands_malformed += self.malformed;
        let mut counters = entries("routing_", &self.counters);
        counters.extend(entries("routing_", &stats.demands));
        if self.outlet.is_some() {
            counters.extend(entries("routing_", &stats.outlet));
        }
        if self.inlet.is_some() {
            counters.extend(entries("routing_", &stats.inlet));
        }
        let waiting = const {
            &Counter::gauge("packets_waiting", "packets", "Packets that wait for a route.")
        };
        counters.extend(of_counters("routing_", [(waiting, host.waiting() as u64)]));
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
                outlet.take(&demand.tun, &mut self.host);
            }
            if let Some(inlet) = &mut demand.inlet {
                inlet.take(now, &mut self.host);
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
            demand.take_packet(now, &mut self.host, packet);
            self.take_events(now);
        }
        Ok(())
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
        if self.host.routes().is_empty() {
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
            self.host.handle_passage(now, (source, destination), Origin::Unknown, None);
        }
        Ok(())
    }
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
