//! Carries packets of routers in GRE: each router's tunnel is a TUN device here, so that the kernel routes
//! packets between routers and the other services.
//!
//! ```text
//!   router ⇄ IP, protocol 47 ⇄ raw socket ⇄ Tunnel ⇄ TUN device ⇄ routing ⇄ IP client, HF-PEP
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use base::gre::wire::{IPV4, IPV6};
use base::gre::{Packet, Refused, carried};
use base::ip::{BadSources, Header, Prefix, check_source, mss};
use base::time::Time;
use caps::Capability;
use host::Kernel;
use host::{DeviceRoutes, IN_CLEAR, Kept, Owner};
use nix::poll::{PollFd, PollFlags};
use serde::Serialize;
use tracing::{debug, trace};

use super::{Kind, Reload, Report, Service, Setup, entries, of_counters};
use crate::config::{self, Config};
use crate::linux::device::{Device, Wanted};
use crate::reactor::{Driver, has_input};
use crate::sys;
use crate::sys::Tap;

pub const KIND: Kind = Kind {
    name: "gre",
    is_wanted: |config| !config.gre.is_empty(),
    rights: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW],
    set_up: |setup| Ok(Box::new(Tunnels::set_up(setup)?)),
    clean_up: || host::give_up(Owner::Gre),
};

/// The longest packet of IP.
const LONGEST: usize = 64 << 10;
/// Packets taken from one side before others have their turn.
const READS: usize = 64;

/// All tunnels.
struct Tunnels {
    tunnels: Vec<Tunnel>,
    kept: Kept,
    /// All addresses of this host: no packet of a router comes from one.
    own: BTreeSet<IpAddr>,
    buffer: Box<[u8]>,
    /// The next packet to send, with its GRE header.
    packet: Vec<u8>,
    counters: Counters,
}

struct Tunnel {
    config: config::Gre,
    tun: Tap,
    socket: sys::Gre,
}

base::counters! {
    /// Counters of all tunnels.
    #[derive(Default)]
    struct Counters {
        /// Packets taken out of GRE.
        received: counter(packets);
        /// Octets of these packets.
        received_octets: counter(octets);
        /// Packets sent in GRE.
        sent: counter(packets);
        /// Octets of these packets.
        sent_octets: counter(octets);
        /// Packets of other tunnels between the two hosts, or of none.
        dropped_key: counter(packets);
        /// Dropped: a wrong checksum.
        dropped_checksum: counter(packets);
        /// Dropped: not a GRE packet, or no whole IP packet inside.
        dropped_malformed: counter(packets);
        /// Dropped: neither IPv4 nor IPv6.
        dropped_protocol: counter(packets);
        /// Dropped: an impossible source address.
        bad_sources: all BadSources;
        /// Dropped: the device did not take the packet.
        dropped_device: counter(packets);
        /// Dropped: the network did not take the packet, as there was no way or no room.
        dropped_unsent: counter(packets);
        /// SYNs whose segment size was lowered to the MTU of the tunnel, both ways.
        syns_clamped: counter(packets);
        /// ICMP errors received about packets that we sent.
        errors_received: counter(messages);
        /// Routes that were put back.
        routes_restored: counter(routes);
        /// Routes that stand aside because others' came.
        routes_displaced: counter(routes);
    }
}

/// What an operator is told.
#[derive(Serialize)]
struct Status<'a> {
    device: &'a str,
    remote: IpAddr,
    mtu: usize,
}

impl Tunnels {
    /// Makes all devices.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let (mut tunnels, mut devices) = (Vec::new(), Vec::new());
        for config in &setup.config.gre {
            let config::Gre { local, remote, ttl, .. } = *config;
            let socket = sys::Gre::open(local, remote, ttl).with_context(|| {
                format!(
                    "no GRE between {local} and {remote}: {local} must be this host's, and root or \
                         CAP_NET_RAW is needed"
                )
            })?;
            let kernel = Kernel::open().context("cannot ask the kernel")?;
            let wanted = Wanted { name: &config.device, mtu: config.mtu, has_trains: false };
            let (tun, device) = Device::open(kernel, &wanted)?;
            devices.push(DeviceRoutes {
                owner: Owner::Gre,
                device: device.index(),
                name: config.device.clone(),
                mtu: u32::try_from(config.mtu).ok(),
                routes: config.networks.iter().map(|to| (remote.to_string(), *to)).collect(),
                addresses: config.addresses.clone(),
                // No network has the router in it.
                endpoints: BTreeSet::new(),
                is_open: config.fail_open,
                ..DeviceRoutes::default()
            });
            tunnels.push(Tunnel { config: config.clone(), tun, socket });
        }
        let kept = Kept::open(setup.observer, devices, setup.config.radios(), setup.is_restart)?;
        Ok(Self {
            tunnels,
            own: kept.own_addresses(),
            kept,
            buffer: vec![0; LONGEST].into_boxed_slice(),
            packet: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Gives the kernel what the router of a tunnel has sent.
    fn receive(&mut self, at: usize) {
        let Self { tunnels, own, buffer, counters, .. } = self;
        let Tunnel { config, tun, socket } = &tunnels[at];
        for _ in 0..READS {
            match socket.receive(buffer) {
                Ok(None) => return,
                Ok(Some(octets)) => match carried(octets, config.key) {
                    Ok(packet) => {
                        // Without a network the sender may be the router itself, or one on the way.
                        let may_send = |source| whose(tunnels, source).is_none_or(|its| its == at);
                        if let Err(why) = check_source(packet, own, may_send) {
                            counters.bad_sources.count(why);
                            continue;
                        }
                        counters.syns_clamped += u64::from(mss::clamp(packet, config.mtu));
                        match tun.write(packet) {
                            Ok(()) => {
                                counters.received += 1;
                                counters.received_octets += packet.len() as u64;
                            }
                            Err(error) => {
                                trace!(%error, "packet not taken by the device");
                                counters.dropped_device += 1;
                            }
                        }
                    }
                    Err(Refused::Checksum) => counters.dropped_checksum += 1,
                    Err(Refused::Key) => counters.dropped_key += 1,
                    Err(Refused::Malformed) => counters.dropped_malformed += 1,
                    Err(Refused::Protocol) => counters.dropped_protocol += 1,
                },
                Err(error) => {
                    debug!(%error, "the network tells of a packet in GRE");
                    counters.errors_received += 1;
                }
            }
        }
    }

    /// Sends the packets routed into a tunnel to its router.
    fn send(&mut self, at: usize) -> anyhow::Result<()> {
        let Self { tunnels, buffer, packet, counters, .. } = self;
        let Tunnel { config, tun, socket } = &tunnels[at];
        for _ in 0..READS {
            let len = tun.read(buffer).with_context(|| format!("reading {}", config.device))?;
            let Some(len) = len else { break };
            let Ok(header) = Header::parse(&buffer[..len]) else {
                counters.dropped_malformed += 1;
                continue;
            };
            counters.syns_clamped += u64::from(mss::clamp(&mut buffer[..len], config.mtu));
            packet.clear();
            let protocol = if header.source.is_ipv4() { IPV4 } else { IPV6 };
            let carried = Packet { key: config.key, protocol, payload: &buffer[..len] };
            carried.emit(config.has_checksum, packet);
            match socket.send(packet) {
                Ok(()) => {
                    counters.sent += 1;
                    counters.sent_octets += len as u64;
                }
                Err(error) => {
                    trace!(%error, "packet not taken by the network");
                    counters.dropped_unsent += 1;
                }
            }
        }
        Ok(())
    }
}

/// Finds the tunnel whose router an address is behind, by the longest matching network.
fn whose(tunnels: &[Tunnel], address: IpAddr) -> Option<usize> {
    let longest = |tunnel: &Tunnel| {
        let holding = tunnel.config.networks.iter().filter(|network| network.contains(address));
        holding.map(Prefix::bits).max()
    };
    let all = tunnels.iter().enumerate();
    let holding = all.filter_map(|(at, tunnel)| Some((longest(tunnel)?, at)));
    holding.max().map(|(_, at)| at)
}

impl Driver for Tunnels {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.kept.next_timeout()
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.kept.as_fd(), PollFlags::POLLIN));
        for Tunnel { tun, socket, .. } in &self.tunnels {
            fds.push(PollFd::new(tun.as_fd(), PollFlags::POLLIN));
            fds.push(PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        }
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let Some((changes, tunnels)) = ready.split_first() else { return Ok(()) };
        let outcome = self.kept.handle_ready(now, *changes)?;
        self.counters.routes_restored += outcome.restored;
        self.counters.routes_displaced += outcome.displaced;
        if outcome.has_addresses {
            self.own = self.kept.own_addresses();
        }
        for (at, ready) in tunnels.chunks_exact(2).enumerate() {
            if has_input(ready[0]) {
                self.send(at)?;
            }
            if has_input(ready[1]) {
                self.receive(at);
            }
        }
        Ok(())
    }
}

impl Service for Tunnels {
    fn report(&self, _now: Time) -> Report {
        let tunnels = self.tunnels.iter().map(|Tunnel { config, .. }| Status {
            device: &config.device,
            remote: config.remote,
            mtu: config.mtu,
        });
        let tunnels: Vec<_> = tunnels.collect();
        let faults = self.kept.faults();
        let mut counters = entries("gre_", &self.counters);
        counters.extend(of_counters("gre_", [(&IN_CLEAR, self.kept.kept_out())]));
        Report { faults, ..Report::new(counters, "gre", &tunnels) }
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        self.kept.reconciler().set_radios(config.radios());
        let is_same = self.tunnels.iter().map(|tunnel| &tunnel.config).eq(&config.gre);
        Ok(Reload::unless_same(is_same))
    }
}
