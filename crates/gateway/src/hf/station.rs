//! A STANAG 5066 node of ours on a modem behind TCP: clients on one side, the modem on the other.
//!
//! ```text
//!  clients ⇄ Server ⇄ Node ⇄ Dte ⇄ Dial ─TCP─ modem
//! ```

use std::fmt::Write as _;
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

use super::Server;
use super::dial::{Change, Dial};
use super::server::Client;
use crate::config;
use crate::counters::Entry;
use crate::services::{Report, Shared, Thread};

/// The node at work.
struct Station {
    node: Node,
    server: Server,
    dial: Dial,
    modem: Option<Dte>,
    /// What the node has to be told if the modem goes.
    is_transmitting: bool,
    has_carrier: bool,
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
    let mut of_node = config.node.clone();
    let server = Server::bind(config.listen)
        .with_context(|| format!("cannot listen for clients of the node on {}", config.listen))?;
    of_node.sis.epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    info!(within = ?of_node.turn_bound(), "every station of the frequency has its turn");
    let node = Node::new(Time::ZERO, of_node, Rng::stream(seed, "s5066"));
    let mut station = Station {
        node,
        server,
        dial: Dial::new(Time::ZERO, config.modem),
        modem: None,
        is_transmitting: false,
        has_carrier: false,
        buffer: Vec::new(),
        received: vec![0; READ].into_boxed_slice(),
    };
    Thread::new("s5066", Box::new(move |shared| station.run(shared)))
}

impl Station {
    fn run(&mut self, shared: &Shared) -> anyhow::Result<()> {
        // Blocks are due to the millisecond.
        let _ = prctl::set_timerslack(1_000);
        let started = Instant::now();
        let now = || Time::ZERO + started.elapsed();
        loop {
            self.act(now());
            shared.tell(self.report());
            let due = self.next_timeout().map(|at| TimeSpec::from(at.since(now())));
            let mut fds = vec![PollFd::new(shared.end(), PollFlags::POLLIN)];
            self.dial.watch(&mut fds);
            let dialled = fds.len();
            self.server.watch(&self.node, &mut fds);
            match ppoll(&mut fds, due, None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("waiting for clients and the modem"),
            }
            let ready: Vec<_> =
                fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            if !ready[0].is_empty() {
                return Ok(());
            }
            let now = now();
            self.dial.handle_ready(now, &ready[1..dialled]);
            if ready[1..dialled].iter().any(|ready| !ready.is_empty()) {
                self.take_octets(now);
            }
            self.server.handle_ready(now, &ready[dialled..], &mut self.node);
        }
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
        if self.modem.take().is_some_and(|modem| modem.is_ready()) {
            info!("the modem is gone");
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
            "{{\"state\":\"{}\",\"address\":\"{}\",\"clients\":{}}}",
            if is_ready { "ready" } else { "no modem" },
            self.node.address(),
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
