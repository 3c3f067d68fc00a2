//! IP over a STANAG 5066 server: the TUN device on one side, the server's socket on the other.
//!
//! ```text
//!   TUN device ─▶ rules ─▶ IpClient ⇄ Dial ─TCP 5066─ server
//!              ◀──────────
//! ```
//!
//! One thread: the radio is slower than any thread. Without a server, datagrams wait until their
//! lifetime ends.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use base::ip::{FlowKey, Header, mss};
use base::tcp::{Flags, Peek};
use base::time::{Time, earliest};
use caps::Capability;
use hf::ipclient::{Event, IpClient, Override};
use hf::s5066::seal;
use host::Kernel;
use host::{DeviceRoutes, IN_CLEAR, Kept, MARK, Owner};
use nix::poll::{PollFd, PollFlags};
use rules::{Options, Refusal, Verdict};
use serde::Serialize;
use tracing::{debug, info, warn};

use super::complaints::{Complaints, Subject};
use super::rules::Rules;
use super::{Kind, Reload, Report, Service, Setup, entries, of_counters, seals, wall_clock};
use crate::bearer::Dial;
use crate::bearer::dial::Change;
use crate::config::{self, Config};
use crate::linux::device::{Device, Wanted};
use crate::reactor::{Driver, has_input};
use crate::sys::Tap;

pub const KIND: Kind = Kind {
    name: "ipclient",
    is_wanted: |config| config.ip_client.is_some(),
    rights: &[Capability::CAP_NET_ADMIN],
    set_up: |setup| Ok(Box::new(Client::set_up(setup)?)),
    clean_up: || host::give_up(Owner::IpClient),
};

/// The client at work.
struct Client {
    config: config::IpClient,
    tun: Tap,
    kept: Kept,
    dial: Dial,
    rules: Rules,
    client: IpClient,
    /// The key of its group.
    key: Option<seal::Key>,
    buffer: Vec<u8>,
    received: Box<[u8]>,
    counters: Counters,
    complaints: Complaints,
}

base::counters! {
    /// Counters of the device, its routes and its rules.
    #[derive(Default)]
    struct Counters {
        /// Reads from the device.
        device_reads: counter(reads);
        /// Writes to the device.
        device_writes: counter(writes);
        /// Writes that the kernel refused.
        device_refused: counter(writes);
        /// Packets dropped: another service should have taken them before they got here.
        packets_misplaced: counter(packets);
        /// SYNs whose segment size was lowered to what the nodes carry, both ways.
        syns_clamped: counter(packets);
        /// Routes and rules that were put back.
        routes_restored: counter(routes);
        /// Routes that stand aside because others' came.
        routes_displaced: counter(routes);
    }
}

/// Octets taken from the server, or a packet from the device, in one go.
const READ: usize = 64 << 10;
/// Packets taken from the device, and pieces from the server, before the other has its turn.
const READS: usize = 32;

/// What an operator is told.
#[derive(Serialize)]
struct Status {
    state: &'static str,
    server: SocketAddr,
    mtu: u16,
    octets_waiting: u64,
    octets_unconfirmed: u64,
    /// Messages of the server that were malformed or not allowed at the time.
    invalid: u64,
    /// Why the server was left, until it has bound us again.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

impl Client {
    /// Makes the device; the server is looked for afterwards.
    ///
    /// # Errors
    /// When something is missing, with the remedy.
    fn set_up(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let config = setup.config.ip_client.clone().context("no section [ipclient]")?;
        let core = config.core(wall_clock())?;
        let key = core.group.as_ref().map(|group| group.key.clone());
        let mut client = IpClient::new(Time::ZERO, core);
        let kernel = Kernel::open().context("cannot ask the kernel")?;
        let wanted = Wanted { name: &config.device, mtu: client.mtu().into(), has_trains: false };
        let (tun, device) = Device::open(kernel, &wanted)?;
        let routes = config.routes.iter().map(|route| (route.node.to_string(), route.to));
        let behind = DeviceRoutes {
            owner: Owner::IpClient,
            device: device.index(),
            name: config.device.clone(),
            mtu: Some(client.mtu().into()),
            routes: routes.collect(),
            addresses: config.addresses.clone(),
            endpoints: [config.server.ip().to_canonical()].into(),
            is_open: config.fail_open,
            speaks: true,
            ..DeviceRoutes::default()
        };
        let kept =
            Kept::open(setup.observer, vec![behind], setup.config.radios(), setup.is_restart)?;
        client.handle_addresses(kept.own_addresses());
        Ok(Self {
            tun,
            kept,
            // The connection to the server is routed as if our routes did not exist.
            dial: Dial::new(Time::ZERO, config.server).marked(MARK.value()),
            rules: Rules::new(&setup.config.rules.table)?,
            client,
            key,
            buffer: Vec::new(),
            received: vec![0; READ].into_boxed_slice(),
            counters: Counters::default(),
            complaints: Complaints::default(),
            config,
        })
    }

    fn take_packets(&mut self, now: Time) -> anyhow::Result<()> {
        for _ in 0..READS {
            let len = self.tun.read(&mut self.received).context("reading the device")?;
            let Some(len) = len else { break };
            self.counters.device_reads += 1;
            self.take_packet(now, len);
        }
        Ok(())
    }

    /// Does with a packet what the rules say.
    fn take_packet(&mut self, now: Time, len: usize) {
        let mtu = self.client.mtu().into();
        self.counters.syns_clamped += u64::from(mss::clamp(&mut self.received[..len], mtu));
        let packet = &self.received[..len];
        let Ok(header) = Header::parse(packet) else {
            // It counts them.
            self.client.handle_packet(now, packet);
            return;
        };
        match self.rules.handle_packet(now, &header, packet).verdict {
            Verdict::Block { refusal: Refusal::Silent, .. } => {}
            Verdict::Block { refusal: Refusal::Prohibited, .. } => {
                self.client.refuse(now, packet, false);
            }
            Verdict::Block { refusal: Refusal::Reset, .. } => {
                self.client.refuse(now, packet, true);
            }
            // The kernel leads new connections elsewhere; others began when the rules were different.
            Verdict::Pass { service: rules::Service::HfPep, .. }
                if !is_later_in_connection(&header, packet) =>
            {
                self.counters.packets_misplaced += 1;
            }
            Verdict::Pass { options, .. } => {
                let Options { priority, ttl, .. } = *options;
                self.client.handle_packet_with(now, packet, Override { priority, ttl });
            }
        }
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

    /// Gives the device what arrived.
    fn release(&mut self) {
        while self.client.poll_packet(Time::ZERO, &mut self.buffer) {
            let mtu = self.client.mtu().into();
            self.counters.syns_clamped += u64::from(mss::clamp(&mut self.buffer, mtu));
            match self.tun.write(&self.buffer) {
                Ok(()) => self.counters.device_writes += 1,
                Err(error) => {
                    debug!(%error, "packet not taken by the device");
                    self.counters.device_refused += 1;
                }
            }
        }
    }
}

/// Whether a packet belongs to a TCP connection without beginning it.
fn is_later_in_connection(header: &Header, packet: &[u8]) -> bool {
    let (flow, offset) = FlowKey::of(header, packet);
    let segment = Peek::of(&flow, header, packet, offset);
    segment.is_some_and(|it| !it.flags.has(Flags::SYN) || it.flags.has(Flags::ACK))
}

impl Driver for Client {
    /// Handles due timers and moves waiting data between both sides.
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        self.client.handle_clock(now, wall_clock());
        self.dial.handle_timeout(now);
        match self.dial.poll_change() {
            Some(Change::Up) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    info!(server = %self.config.server, left_out, "connected to the STANAG 5066 node");
                }
                self.client.handle_connected(now);
            }
            Some(Change::Down) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    let server = self.config.server;
                    warn!(
                        %server,
                        left_out,
                        "the connection to the STANAG 5066 node is lost, and is made again: does it run there?"
                    );
                }
                self.client.handle_disconnected(now);
            }
            None => {}
        }
        self.client.handle_timeout(now);
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Bound { mtu } => {
                    if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                        let server = self.config.server;
                        info!(%server, mtu, left_out, "the STANAG 5066 node takes our datagrams");
                    }
                }
                Event::Close(fault) => {
                    if let Some(left_out) = self.complaints.admit(now, Subject::NodeLeft) {
                        let server = self.config.server;
                        warn!(%server, %fault, left_out, "the server is left, and tried again later");
                    }
                    self.dial.hang_up(now);
                }
                Event::Refused(reason) => {
                    if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                        warn!(%reason, left_out, "the server refuses the access point");
                    }
                }
                Event::Sealing { node, trouble } => {
                    seals::tell(&mut self.complaints, now, node, trouble);
                }
                Event::Unbound(reason) => {
                    if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                        warn!(%reason, left_out, "the server has unbound us");
                    }
                }
                Event::Unreceived { node } => {
                    if let Some(suppressed) = self.complaints.admit(now, Subject::NoFarClient) {
                        warn!(%node, suppressed, "no IP client there takes our datagrams");
                    }
                }
            }
        }
        if let Some(what) = self.client.poll_unreadable()
            && let Some(left_out) = self.complaints.admit(now, Subject::NodeUnreadable)
        {
            let server = self.config.server;
            warn!(%server, %what, left_out, "what the server said is passed over: it cannot be read");
        }
        self.release();
        self.buffer.clear();
        while self.dial.has_room() && self.client.poll_octets(now, &mut self.buffer) {
            self.dial.send(now, &self.buffer);
            self.buffer.clear();
        }
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let due = earliest(self.dial.next_timeout(), self.client.next_timeout());
        earliest(due, self.kept.next_timeout())
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.tun.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.kept.as_fd(), PollFlags::POLLIN));
        self.dial.watch(fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.client.handle_clock(now, wall_clock());
        let (own, dialled) = ready.split_at(2);
        if has_input(own[0]) {
            self.take_packets(now)?;
        }
        let outcome = self.kept.handle_ready(now, own[1])?;
        self.counters.routes_restored += outcome.restored;
        self.counters.routes_displaced += outcome.displaced;
        if outcome.has_addresses {
            self.client.handle_addresses(self.kept.own_addresses());
        }
        self.dial.handle_ready(now, dialled);
        if dialled.iter().any(|ready| !ready.is_empty()) {
            self.take_octets(now);
        }
        Ok(())
    }
}

impl Service for Client {
    fn report(&self, _now: Time) -> Report {
        let state = match (self.dial.is_up(), self.client.is_bound()) {
            (false, _) => "no connection",
            (true, false) => "not bound",
            (true, true) if self.client.is_radio_off() => "bound, radio off",
            (true, true) => "bound",
        };
        let (stats, dialled) = (self.client.stats(), self.dial.stats());
        let of_server = self.client.client_stats();
        let status = Status {
            state,
            server: self.config.server,
            mtu: self.client.mtu(),
            octets_waiting: stats.queued,
            octets_unconfirmed: stats.unconfirmed,
            invalid: of_server.invalid + of_server.misplaced,
            trouble: self.client.fault().map(|fault| fault.to_string()),
        };
        let mut counters = entries("ipclient_", &self.counters);
        counters.extend(entries("ipclient_", &stats));
        counters.extend(entries("ipclient_sis_", of_server));
        counters.extend(of_counters("ipclient_", [(&IN_CLEAR, self.kept.kept_out())]));
        counters.extend(entries("ipclient_", &dialled));
        counters.extend(entries("rules_", &self.rules.stats()));
        let report = Report::new(counters, "ipclient", &status);
        let (rules, mut faults) = (self.rules.counters(), self.kept.faults());
        let whom = ("ipclient: the node", "ipclient.server");
        faults.extend(self.dial.fault(whom, self.client.is_bound(), status.trouble));
        Report { rules, faults, ..report }
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        let wanted = config.ip_client.as_ref().filter(|wanted| **wanted == self.config);
        let Some(wanted) = wanted else { return Ok(Reload::Restart) };
        if wanted.core(wall_clock())?.group.map(|group| group.key) != self.key {
            return Ok(Reload::Restart);
        }
        self.kept.reconciler().set_radios(config.radios());
        Ok(Reload::Taken(self.rules.replace(&config.rules.table)?))
    }
}
