//! A STANAG 5066 node of ours on a modem behind TCP: clients on one side, the modem on the other.
//!
//! ```text
//!  clients ⇄ Server ⇄ Node ⇄ Dte ⇄ Dial ─TCP─ modem
//! ```

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use proto::modem::lan::Dte;
use proto::modem::{Event, Transmit};
use proto::rng::Rng;
use proto::s5066::{Node, node};
use proto::time::{Time, earliest};
use tracing::{info, warn};

use crate::bearer::Server;
use crate::bearer::dial::{Change, Dial};
use crate::bearer::server::Client;
use crate::config;
use crate::service::complaints::{Complaints, Subject};
use crate::service::{Report, Shared, Thread};
use crate::supervisor::counters::Entry;

#[cfg(test)]
mod tests;

/// The node at work.
struct Station {
    node: Node,
    server: Server,
    dial: Dial,
    modem: Option<Dte>,
    /// Whether clients were told that there is one.
    is_available: bool,
    /// The bit/s and the bits in a block that a modem told last.
    setup: Option<(u32, u32)>,
    /// What the node has to be told if the modem goes.
    is_transmitting: bool,
    has_carrier: bool,
    complaints: Complaints,
    buffer: Vec<u8>,
    received: Box<[u8]>,
}

/// Octets taken from the modem in a turn.
const READ: usize = 64 << 10;
/// Octets that a turn may take from the modem before others have theirs.
const READS: usize = 8;

/// Listens for clients; the modem is looked for when the service starts.
///
/// # Errors
/// When the address is taken.
pub(crate) fn set_up(config: &config::S5066, seed: u64) -> anyhow::Result<Thread> {
    let server = Server::bind(config.listen)
        .with_context(|| format!("cannot listen for clients of the node on {}", config.listen))?;
    let mut of_node = config.node.clone();
    of_node.sis.epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    info!(within = ?of_node.turn_bound(), "every station of the frequency has its turn");
    let mut station = Station::new(of_node, server, config.modem, seed);
    Thread::new("s5066", Box::new(move |shared| station.run(shared)))
}

impl Station {
    /// A node that looks for its modem.
    fn new(config: node::Config, server: Server, modem: SocketAddr, seed: u64) -> Self {
        let mut node = Node::new(Time::ZERO, config, Rng::stream(seed, "s5066"));
        node.handle_modem_available(Time::ZERO, false);
        Self {
            node,
            server,
            dial: Dial::new(Time::ZERO, modem),
            modem: None,
            is_available: false,
            setup: None,
            is_transmitting: false,
            has_carrier: false,
            complaints: Complaints::default(),
            buffer: Vec::new(),
            received: vec![0; READ].into_boxed_slice(),
        }
    }

    fn run(&mut self, shared: &Shared) -> anyhow::Result<()> {
        // Blocks are due to the millisecond.
        let _ = prctl::set_timerslack(1_000);
        let started = Instant::now();
        let now = || Time::ZERO + started.elapsed();
        loop {
            self.act(now());
            shared.tell(self.report());
            let due = self.next_timeout().map(|at| at.since(now()));
            let ready = self.wait(shared.end(), due)?;
            if !ready[0].is_empty() {
                return Ok(());
            }
            self.handle_ready(now(), &ready[1..]);
        }
    }

    /// Waits at most this long; what is ready: `end` first, then the modem, then clients.
    fn wait(&self, end: BorrowedFd<'_>, due: Option<Duration>) -> anyhow::Result<Vec<PollFlags>> {
        let mut fds = vec![PollFd::new(end, PollFlags::POLLIN)];
        self.dial.watch(&mut fds);
        self.server.watch(&self.node, &mut fds);
        match ppoll(&mut fds, due.map(TimeSpec::from), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for clients and the modem"),
        }
        Ok(fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect())
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) {
        let mut fds = Vec::new();
        self.dial.watch(&mut fds);
        let (dialled, clients) = ready.split_at(fds.len());
        self.dial.handle_ready(now, dialled);
        if dialled.iter().any(|ready| !ready.is_empty()) {
            self.take_octets(now);
        }
        self.server.handle_ready(now, clients, &mut self.node);
    }

    fn take_octets(&mut self, now: Time) {
        for _ in 0..READS {
            let len = self.dial.receive(now, &mut self.received);
            let Some(modem) = self.modem.as_mut().filter(|_| len > 0) else { return };
            modem.handle_octets(now, &self.received[..len]);
        }
    }

    /// Does what is due, and carries what there is from one layer to the next.
    fn act(&mut self, now: Time) {
        self.dial.handle_timeout(now);
        match self.dial.poll_change() {
            Some(Change::Up) => self.modem = Some(Dte::new(now)),
            Some(Change::Down) => self.lose_modem(now),
            None => {}
        }
        self.server.handle_timeout(now, &mut self.node);
        if self.node.next_timeout().is_some_and(|at| at <= now) {
            self.node.handle_timeout(now);
        }
        self.hear_modem(now);
        self.follow_modem(now);
        if let Some((from, sap)) = self.node.poll_unclaimed()
            && let Some(left_out) = self.complaints.admit(now, Subject::Unclaimed)
        {
            let sap = sap.number();
            warn!(%from, sap, left_out, "data came for an access point that no client is bound to");
        }
        while let Some(event) = self.node.poll_event() {
            match event {
                node::Event::Readable(client) => {
                    self.server.push(now, Client(client.0), &mut self.node);
                }
                node::Event::Close(client) => {
                    self.server.close(now, Client(client.0), &mut self.node);
                }
                // Nothing of ours is managed.
                node::Event::Management { .. } => {}
            }
        }
        self.feed_modem(now);
    }

    fn hear_modem(&mut self, now: Time) {
        let Some(modem) = &mut self.modem else { return };
        modem.handle_timeout(now);
        while let Some(event) = modem.poll_event() {
            match event {
                Event::CarrierDetected { .. } => self.has_carrier = true,
                Event::CarrierLost => self.has_carrier = false,
                Event::Sent => self.is_transmitting = false,
                Event::Received(_) => {}
            }
            self.node.handle_modem(now, event);
        }
    }

    /// Tells the node that there is a modem, and what it transmits with: a modem's operator sets
    /// that, and its protocol does not let us.
    fn follow_modem(&mut self, now: Time) {
        let Some(modem) = self.modem.as_ref().filter(|modem| modem.is_ready()) else { return };
        if !std::mem::replace(&mut self.is_available, true) {
            info!("there is a modem");
            self.node.handle_modem_available(now, true);
        }
        let told = modem.setup();
        let Some((bits_per_s, block_bits)) = told.filter(|_| self.setup != told) else { return };
        self.setup = told;
        let before = self.node.waveform();
        let Some(waveform) = modem.waveform().or_else(|| before.at_rate(bits_per_s)) else {
            warn!(bits_per_s, block_bits, assumed = %before, "what the modem transmits with is unknown");
            return;
        };
        if waveform == before {
            return;
        }
        self.node.handle_waveform(now, waveform, waveform.block_time());
        let within = self.node.turn_bound();
        warn!(%before, %waveform, ?within, "the modem transmits with another waveform: times follow");
    }

    /// Comes last: whatever was done before may have given the node something to transmit.
    fn feed_modem(&mut self, now: Time) {
        let Some(modem) = &mut self.modem else { return };
        while modem.is_ready() {
            self.buffer.clear();
            match self.node.poll_transmit(now, modem.room(), &mut self.buffer) {
                Some(Transmit::Start(waveform)) => {
                    self.is_transmitting = true;
                    modem.start(now, waveform);
                }
                Some(Transmit::Octets) => modem.supply(now, &self.buffer),
                Some(Transmit::End) => modem.end(now),
                None => break,
            }
        }
        self.buffer.clear();
        while self.dial.has_room() && modem.poll_octets(&mut self.buffer) {
            self.dial.send(now, &self.buffer);
            self.buffer.clear();
        }
        if let Some(why) = modem.closed() {
            warn!(%why, "the modem's session is over");
            self.dial.hang_up(now);
        }
    }

    fn lose_modem(&mut self, now: Time) {
        self.modem = None;
        if std::mem::take(&mut self.is_available) {
            info!("the modem is gone");
            self.node.handle_modem_available(now, false);
        }
        if std::mem::take(&mut self.has_carrier) {
            self.node.handle_modem(now, Event::CarrierLost);
        }
        if std::mem::take(&mut self.is_transmitting) {
            self.node.handle_modem(now, Event::Sent);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let modem = self.modem.as_ref().and_then(Dte::next_timeout);
        [modem, self.dial.next_timeout(), self.server.next_timeout()]
            .into_iter()
            .fold(self.node.next_timeout(), earliest)
    }

    fn report(&self) -> Report {
        let is_ready = self.modem.as_ref().is_some_and(Dte::is_ready);
        let mut status = String::new();
        let _ = write!(
            status,
            "{{\"state\":\"{}\",\"address\":\"{}\",\"waveform\":\"{}\",\"clients\":{}}}",
            if is_ready { "ready" } else { "no modem" },
            self.node.address(),
            self.node.waveform(),
            self.server.connections(),
        );
        Report { entries: self.entries(), status }
    }

    /// The counters by name.
    fn entries(&self) -> Vec<Entry> {
        let connections = self.server.stats();
        let (node, sis) = (self.node.stats(), self.node.sis().stats());
        let mut entries = vec![
            ("s5066_connections_accepted", connections.accepted),
            ("s5066_connections_refused", connections.refused),
            ("s5066_connections_closed", connections.closed),
            ("s5066_connections_lost", connections.lost),
            ("s5066_connections_stalled", connections.stalled),
            ("s5066_modem_connects", self.dial.stats().connected),
            ("s5066_modem_lost", self.dial.stats().lost),
            ("s5066_binds", sis.binds),
            ("s5066_binds_refused", sis.binds_refused),
            ("s5066_primitives_invalid", sis.invalid),
            ("s5066_u_pdus_taken", sis.u_pdus_taken),
            ("s5066_octets_taken", sis.octets_taken),
            ("s5066_u_pdus_confirmed", sis.confirmed),
            ("s5066_u_pdus_failed", sis.failed),
            ("s5066_u_pdus_expired", sis.expired),
            ("s5066_u_pdus_delivered", sis.u_pdus_delivered),
            ("s5066_octets_delivered", sis.octets_delivered),
            ("s5066_not_bound", sis.not_bound),
            ("s5066_received_late", sis.received_late),
            ("s5066_received_damaged", sis.received_damaged),
            ("s5066_malformed", sis.malformed),
            ("s5066_unconfirmed", sis.unconfirmed),
            ("s5066_dropped_unbound", sis.dropped_unbound),
            ("s5066_too_large", sis.too_large),
            ("s5066_no_mode", sis.no_mode),
            ("s5066_unbound_requests", sis.unbound_requests),
            ("s5066_preempted", sis.preempted),
            ("s5066_inactive", sis.inactive),
            ("s5066_expedited_floods", sis.expedited_floods),
            ("s5066_closed_unbound", sis.closed_unbound),
            ("s5066_closed_invalid", sis.closed_invalid),
            ("s5066_closed_flood", sis.closed_flood),
            ("s5066_closed_unread", sis.closed_unread),
            ("s5066_transmissions", node.transmissions),
            ("s5066_keyed_ms", node.keyed_nanos / 1_000_000),
            ("s5066_frames_heard", node.heard),
            ("s5066_frames_damaged", node.damaged),
            ("s5066_silences", node.silences),
            ("s5066_links_made", node.links_made),
            ("s5066_links_broken", node.links_broken),
            ("s5066_resets", node.resets),
        ];
        entries.extend([
            ("s5066_frames_data", node.sent.data.count),
            ("s5066_frames_repeated", node.sent.repeat.count),
            ("s5066_frames_acks", node.sent.ack.count),
            ("s5066_frames_control", node.sent.control.count),
        ]);
        entries
    }
}
