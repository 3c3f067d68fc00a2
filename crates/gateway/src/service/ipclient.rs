//! IP over a STANAG 5066 server: the TUN device on one side, the server's socket on the other.
//!
//! ```text
//!   TUN device ⇄ IpClient ⇄ Dial ─TCP 5066─ server
//! ```
//!
//! One thread: the radio is slower than any thread. While there is no server, datagrams wait as
//! long as they live.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Instant;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use proto::ipclient::{self, Event, IpClient, Transport};
use proto::s5066::sis::Sap;
use proto::time::{Time, earliest};
use tracing::{debug, info, warn};

use crate::bearer::Dial;
use crate::bearer::dial::Change;
use crate::config;
use crate::config::ipclient::{Class, Travel};
use crate::linux::device::{Device, Wanted};
use crate::linux::netlink::Netlink;
use crate::service::complaints::{Complaints, Subject};
use crate::service::{Report, Shared, Thread};
use crate::supervisor::counters::Entry;
use crate::sys::Tap;

/// The client at work.
struct Driver {
    server: SocketAddr,
    tun: Tap,
    dial: Dial,
    client: IpClient,
    buffer: Vec<u8>,
    received: Box<[u8]>,
    counters: Counters,
    complaints: Complaints,
}

#[derive(Default)]
struct Counters {
    device_reads: u64,
    device_writes: u64,
    device_refused: u64,
}

/// Octets taken from the server, or a packet from the device, in one go.
const READ: usize = 64 << 10;
/// Packets taken from the device, and pieces from the server, before the other has its turn.
const READS: usize = 32;

/// Makes the device; the server is looked for when the service starts.
///
/// # Errors
/// When something is missing, with the remedy.
pub(crate) fn set_up(config: &config::IpClient) -> anyhow::Result<Thread> {
    let netlink = Netlink::open().context("cannot ask the kernel")?;
    let routes = config.routes.iter().map(|route| (route.node.to_string(), route.to));
    let wanted = Wanted {
        name: &config.device,
        addresses: &config.addresses,
        routes: routes.collect(),
        mtu: usize::from(config.mtu),
        has_trains: false,
    };
    let (tun, _) = Device::open(netlink, &wanted)?;
    let mut driver = Driver {
        server: config.server,
        tun,
        dial: Dial::new(Time::ZERO, config.server),
        client: IpClient::new(Time::ZERO, core_config(config)),
        buffer: Vec::new(),
        received: vec![0; READ].into_boxed_slice(),
        counters: Counters::default(),
        complaints: Complaints::default(),
    };
    Thread::new("ipclient", Box::new(move |shared| driver.run(shared)))
}

fn core_config(config: &config::IpClient) -> ipclient::Config {
    let routes = config.routes.iter().map(|route| {
        let prefix = ipclient::Prefix::new(route.to.address(), route.to.bits());
        ipclient::Route { prefix: prefix.expect("a checked prefix fits"), to: route.node }
    });
    let mut core = ipclient::Config::new(routes.collect());
    core.sap = Sap::new(config.sap);
    core.rank = config.rank;
    core.addresses = config.addresses.iter().map(|prefix| prefix.address()).collect();
    core.mtu = config.mtu;
    core.queue = config.queue;
    let transport = |travel| match travel {
        Travel::Arq => Transport::Arq { in_order: true },
        Travel::ArqAnyOrder => Transport::Arq { in_order: false },
        Travel::NonArq => Transport::NonArq { repeats: config.repeats },
    };
    core.set_unicast(transport(config.unicast));
    core.set_ttl(config.time_to_live);
    for class in &mut core.classes {
        class.group_repeats = config.repeats;
    }
    for &Class { dscp, priority, travel } in &config.classes {
        let class = &mut core.classes[usize::from(dscp)];
        class.priority = priority.unwrap_or(class.priority);
        class.unicast = travel.map_or(class.unicast, transport);
    }
    core
}

impl Driver {
    fn run(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let started = Instant::now();
        let now = || Time::ZERO + started.elapsed();
        loop {
            self.act(now());
            shared.tell(self.report());
            let due = earliest(self.dial.next_timeout(), self.client.next_timeout());
            let due = due.map(|at| TimeSpec::from(at.since(now())));
            let mut fds = vec![
                PollFd::new(shared.end(), PollFlags::POLLIN),
                PollFd::new(self.tun.as_fd(), PollFlags::POLLIN),
            ];
            self.dial.watch(&mut fds);
            match ppoll(&mut fds, due, None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("waiting for packets"),
            }
            let ready: Vec<_> =
                fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            if !ready[0].is_empty() {
                return Ok(());
            }
            let now = now();
            if !ready[1].is_empty() {
                self.take_packets(now)?;
            }
            self.dial.handle_ready(now, &ready[2..]);
            if ready[2..].iter().any(|ready| !ready.is_empty()) {
                self.take_octets(now);
            }
        }
    }

    fn take_packets(&mut self, now: Time) -> anyhow::Result<()> {
        for _ in 0..READS {
            let len = self.tun.read(&mut self.received).context("reading the device")?;
            let Some(len) = len else { break };
            self.counters.device_reads += 1;
            self.client.handle_packet(now, &self.received[..len]);
        }
        Ok(())
    }

    fn take_octets(&mut self, now: Time) {
        for _ in 0..READS {
            let len = self.dial.receive(now, &mut self.received);
            if len == 0 {
                return;
            }
            self.client.handle_octets(now, &self.received[..len]);
            self.release();
        }
    }

    /// Does what is due, and carries what there is from one side to the other.
    fn act(&mut self, now: Time) {
        self.dial.handle_timeout(now);
        match self.dial.poll_change() {
            Some(Change::Up) => {
                info!(server = %self.server, "connected");
                self.client.handle_connected(now);
            }
            Some(Change::Down) => {
                warn!(server = %self.server, "connection lost");
                self.client.handle_disconnected(now);
            }
            None => {}
        }
        self.client.handle_timeout(now);
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Bound { mtu } => info!(mtu, "bound"),
                Event::Close => self.dial.hang_up(now),
                Event::Refused(reason) => warn!(?reason, "the server refuses the access point"),
                Event::Unbound(reason) => warn!(?reason, "the server has unbound us"),
                Event::Unreceived { node } => {
                    if let Some(suppressed) = self.complaints.admit(now, Subject::NoFarClient) {
                        warn!(%node, suppressed, "no IP client there takes our datagrams");
                    }
                }
            }
        }
        self.release();
        self.buffer.clear();
        while self.dial.has_room() && self.client.poll_octets(now, &mut self.buffer) {
            self.dial.send(now, &self.buffer);
            self.buffer.clear();
        }
    }

    /// Gives the device what arrived.
    fn release(&mut self) {
        while self.client.poll_packet(Time::ZERO, &mut self.buffer) {
            match self.tun.write(&self.buffer) {
                Ok(()) => self.counters.device_writes += 1,
                Err(error) => {
                    debug!(%error, "packet not taken by the device");
                    self.counters.device_refused += 1;
                }
            }
        }
    }

    fn report(&self) -> Report {
        let state = match (self.dial.is_up(), self.client.is_bound()) {
            (false, _) => "no connection",
            (true, false) => "not bound",
            (true, true) if self.client.is_radio_off() => "bound, radio off",
            (true, true) => "bound",
        };
        let stats = self.client.stats();
        let mut status = String::new();
        let _ = write!(
            status,
            "{{\"state\":\"{state}\",\"server\":\"{}\",\"mtu\":{},\"octets_waiting\":{},\
             \"octets_unconfirmed\":{}}}",
            self.server,
            self.client.mtu(),
            stats.queued,
            stats.unconfirmed,
        );
        let Counters { device_reads, device_writes, device_refused } = self.counters;
        let dialled = self.dial.stats();
        let mut entries = vec![
            ("ipclient_device_reads", device_reads),
            ("ipclient_device_writes", device_writes),
            ("ipclient_device_refused", device_refused),
            ("ipclient_connects_tried", dialled.tried),
            ("ipclient_connects", dialled.connected),
            ("ipclient_connections_lost", dialled.lost),
        ];
        entries.extend(entries_of(&stats));
        Report { entries, status }
    }
}

/// The counters of a core by name.
fn entries_of(stats: &ipclient::Stats) -> Vec<Entry> {
    vec![
        ("ipclient_packets_in", stats.packets_in),
        ("ipclient_octets_in", stats.octets_in),
        ("ipclient_malformed", stats.malformed),
        ("ipclient_no_route", stats.no_route),
        ("ipclient_too_big", stats.too_big),
        ("ipclient_fragmented", stats.fragmented),
        ("ipclient_queue_full", stats.queue_full),
        ("ipclient_expired", stats.expired),
        ("ipclient_absorbed", stats.absorbed),
        ("ipclient_superseded", stats.superseded),
        ("ipclient_handed", stats.handed),
        ("ipclient_octets_handed", stats.octets_handed),
        ("ipclient_confirmed", stats.confirmed),
        ("ipclient_unreceived", stats.unreceived),
        ("ipclient_unreachable", stats.unreachable),
        ("ipclient_refused", stats.refused),
        ("ipclient_forsaken", stats.forsaken),
        ("ipclient_packets_out", stats.packets_out),
        ("ipclient_octets_out", stats.octets_out),
        ("ipclient_received_malformed", stats.received_malformed),
        ("ipclient_received_full", stats.received_full),
        ("ipclient_icmp_sent", stats.icmp_sent),
        ("ipclient_icmp_limited", stats.icmp_limited),
        ("ipclient_binds", stats.binds),
    ]
}
