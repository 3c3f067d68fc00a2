//! A STANAG 5066 node of ours on a modem behind TCP: clients on one side, the modem on the other.
//!
//! ```text
//!  clients ⇄ Server ⇄ Node ⇄ Dte ⇄ Dial ─TCP─ modem
//! ```

mod air;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use air::Air;
use anyhow::Context as _;
use base::counter::Counter;
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use hf::modem::lan::Dte;
use hf::modem::{Event, Keying};
use hf::s5066::{Node, node};
use host::fault::{self, Fault};
use nix::poll::{PollFd, PollFlags};
use serde::Serialize;
use tracing::{info, warn};

use super::complaints::{Complaints, Subject};
use super::{Entry, Kind, Reload, Report, Service, Setup, entries, of_counters};
use crate::bearer::dial::{Change, Dial};
use crate::bearer::server::{Client, Server};
use crate::config::{self, Config};
use crate::reactor::Driver;

pub const KIND: Kind = Kind {
    name: "s5066",
    is_wanted: |config| config.s5066.is_some(),
    // Should its port be below 1024.
    rights: &[Capability::CAP_NET_BIND_SERVICE],
    set_up: |setup| Ok(Box::new(set_up(setup)?)),
    clean_up: || {},
};

/// The service: the station, and its configuration.
struct S5066 {
    config: config::S5066,
    station: Station,
}

/// The node at work.
struct Station {
    node: Node,
    server: Server,
    dial: Dial,
    modem: Option<Dte>,
    /// Whether clients were told that a modem is available.
    is_available: bool,
    /// The bit/s and the bits in a block that a modem told last.
    setup: Option<(u32, u32)>,
    /// What the node has to be told if the modem goes.
    is_transmitting: bool,
    has_carrier: bool,
    air: Air,
    complaints: Complaints,
    buffer: Vec<u8>,
    received: Box<[u8]>,
}

/// Octets taken from the modem in a turn.
const READ: usize = 64 << 10;
/// Octets that a turn may take from the modem before others have theirs.
const READS: usize = 8;

/// What an operator is told.
#[derive(Serialize)]
struct Status {
    state: &'static str,
    address: String,
    waveform: String,
    clients: usize,
    /// What the air was used for lately.
    air: Vec<air::Span>,
    stations: Vec<air::Station>,
    /// Octets that wait, by priority.
    queues: BTreeMap<usize, usize>,
}

/// Listens for clients; the modem is looked for afterwards.
///
/// # Errors
/// When the address is taken.
fn set_up(setup: &Setup<'_>) -> anyhow::Result<S5066> {
    let config = setup.config.s5066.clone().context("no section [s5066]")?;
    let server = Server::bind(config.listen)
        .with_context(|| format!("cannot listen for clients of the node on {}", config.listen))?
        .allowing(config.allow.clone());
    let mut of_node = config.node.clone();
    of_node.sis.epoch = super::wall_clock();
    let within = format!("{:.1} s", of_node.turn_bound().as_secs_f64());
    info!(%within, "every station of the frequency has its turn");
    let station = Station::new(setup.clock.now(), of_node, server, config.modem, setup.seed);
    Ok(S5066 { config, station })
}

impl Driver for S5066 {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        self.station.act(now);
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        self.station.next_timeout()
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.station.watch(fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        self.station.handle_ready(now, ready);
        Ok(())
    }
}

impl Service for S5066 {
    fn report(&self, now: Time) -> Report {
        let deaf = self.station.server.is_deaf().then(|| {
            let said = "s5066: clients are not accepted: raise LimitNOFILE, or `ulimit -n`";
            Fault::new(&fault::DEAF, said)
        });
        let station = &self.station;
        let whom = ("s5066: the modem", "s5066.modem");
        let modem = station.dial.fault(whom, station.has_modem(), None);
        let report = Report::new(station.counters(), "s5066", &station.status(now));
        Report { faults: deaf.into_iter().chain(modem).collect(), ..report }
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        let Some(wanted) = &config.s5066 else { return Ok(Reload::Restart) };
        // Who may come is changed in place: clients, links and what waits for the air stay.
        let known = config::S5066 { allow: wanted.allow.clone(), ..self.config.clone() };
        if known != *wanted {
            return Ok(Reload::Restart);
        }
        if self.config.allow != wanted.allow {
            self.station.server.set_allowed(wanted.allow.clone());
            self.config = known;
        }
        Ok(Reload::Taken(Vec::new()))
    }
}

impl Station {
    /// Makes a node that looks for its modem.
    fn new(now: Time, config: node::Config, server: Server, modem: SocketAddr, seed: u64) -> Self {
        let mut node = Node::new(now, config, Rng::stream(seed, "s5066"));
        node.handle_modem_available(now, false);
        Self {
            node,
            server,
            dial: Dial::new(now, modem),
            modem: None,
            is_available: false,
            setup: None,
            is_transmitting: false,
            has_carrier: false,
            air: Air::new(),
            complaints: Complaints::default(),
            buffer: Vec::new(),
            received: vec![0; READ].into_boxed_slice(),
        }
    }

    /// The modem first, then clients.
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.dial.watch(fds);
        self.server.watch(&self.node, fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) {
        let mut fds = Vec::new();
        self.dial.watch(&mut fds);
        let (dialled, clients) = ready.split_at(fds.len());
        self.dial.handle_ready(now, dialled);
        // Before anything is read: a modem may have spoken already, and is heard from the beginning.
        self.follow_dial(now);
        if dialled.iter().any(|ready| !ready.is_empty()) {
            self.take_octets(now);
        }
        self.server.handle_ready(now, clients, &mut self.node);
    }

    /// Begins a session on a new connection, and forgets the session of a lost connection.
    fn follow_dial(&mut self, now: Time) {
        match self.dial.poll_change() {
            Some(Change::Up) => self.modem = Some(Dte::new(now)),
            Some(Change::Down) => self.lose_modem(now),
            None => {}
        }
    }

    fn take_octets(&mut self, now: Time) {
        for _ in 0..READS {
            let len = self.dial.receive(now, &mut self.received);
            let Some(modem) = self.modem.as_mut().filter(|_| len > 0) else { return };
            modem.handle_octets(now, &self.received[..len]);
        }
    }

    /// Handles due timers and moves waiting data between the layers.
    fn act(&mut self, now: Time) {
        self.air.handle_timeout(now, &self.node);
        self.dial.handle_timeout(now);
        self.follow_dial(now);
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
        if let Some((_, what)) = self.node.poll_unreadable()
            && let Some(left_out) = self.complaints.admit(now, Subject::Unreadable)
        {
            warn!(%what, left_out, "what a client of the node says cannot be read");
        }
        while let Some(turned_away) = self.server.poll_turned_away() {
            if let Some(left_out) = self.complaints.admit(now, Subject::ClientTurnedAway) {
                warn!(left_out, "a client of the node is turned away: {turned_away}");
            }
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

    /// Tells the node that there is a modem, and the modem's waveform: the modem's operator sets the waveform, and the
    /// modem's protocol does not let us.
    fn follow_modem(&mut self, now: Time) {
        let Some(modem) = self.modem.as_ref().filter(|modem| modem.is_ready()) else { return };
        if !std::mem::replace(&mut self.is_available, true) {
            if let Some(left_out) = self.complaints.admit(now, Subject::Modem) {
                info!(left_out, "there is a modem");
            }
            self.node.handle_modem_available(now, true);
        }
        let told = modem.setup();
        let Some((bits_per_s, block_bits)) = told.filter(|_| self.setup != told) else { return };
        self.setup = told;
        let before = self.node.waveform();
        let Some(waveform) = modem.waveform().or_else(|| before.at_rate(bits_per_s)) else {
            if let Some(left_out) = self.complaints.admit(now, Subject::Modem) {
                warn!(
                    bits_per_s, block_bits, assumed = %before, left_out,
                    "what the modem transmits with is unknown"
                );
            }
            return;
        };
        if waveform == before {
            return;
        }
        self.node.handle_waveform(now, waveform, waveform.block_time());
        if let Some(left_out) = self.complaints.admit(now, Subject::Modem) {
            let within = self.node.turn_bound();
            warn!(
                %before, %waveform, ?within, left_out,
                "the modem transmits with another waveform: times follow"
            );
        }
    }

    /// Comes last: whatever was done before may have given the node something to transmit.
    fn feed_modem(&mut self, now: Time) {
        let Some(modem) = &mut self.modem else { return };
        while modem.is_ready() {
            self.buffer.clear();
            match self.node.poll_transmit(now, modem.room(), &mut self.buffer) {
                Some(Keying::Start(waveform)) => {
                    self.is_transmitting = true;
                    modem.start(now, waveform);
                }
                Some(Keying::Octets) => modem.supply(now, &self.buffer),
                Some(Keying::End) => modem.end(now),
                None => break,
            }
        }
        self.buffer.clear();
        while self.dial.has_room() && modem.poll_octets(&mut self.buffer) {
            self.dial.send(now, &self.buffer);
            self.buffer.clear();
        }
        if let Some(why) = modem.closed() {
            if let Some(left_out) = self.complaints.admit(now, Subject::Modem) {
                warn!(%why, left_out, "the modem's session is over");
            }
            self.dial.hang_up(now);
        }
    }

    fn lose_modem(&mut self, now: Time) {
        self.modem = None;
        if std::mem::take(&mut self.is_available) {
            if let Some(left_out) = self.complaints.admit(now, Subject::Modem) {
                info!(left_out, "the modem is gone");
            }
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
        [modem, self.dial.next_timeout(), self.server.next_timeout(), Some(self.air.due())]
            .into_iter()
            .fold(self.node.next_timeout(), earliest)
    }

    /// Whether the modem works.
    fn has_modem(&self) -> bool {
        self.modem.as_ref().is_some_and(Dte::is_ready)
    }

    fn status(&self, now: Time) -> Status {
        Status {
            state: if self.has_modem() { "ready" } else { "no modem" },
            address: self.node.address().to_string(),
            waveform: self.node.waveform().to_string(),
            clients: self.server.connections(),
            air: self.air.spans(now, &self.node),
            stations: air::stations(now, &self.node),
            queues: air::queues(&self.node),
        }
    }

    /// The counters by name.
    fn counters(&self) -> Vec<Entry> {
        let connections = self.server.stats();
        let mut counters = entries("s5066_", &self.node.stats());
        counters.extend(entries("s5066_", self.node.sis().stats()));
        counters.extend(entries("s5066_connections_", connections));
        let connects = const {
            &Counter::counter("modem_connects", "connections", "Connections made to the modem.")
        };
        let lost = const {
            &Counter::counter("modem_lost", "connections", "Connections to the modem lost.")
        };
        let dialled = self.dial.stats();
        let of_modem = [(connects, dialled.connected), (lost, dialled.lost)];
        counters.extend(of_counters("s5066_", of_modem));
        counters
    }
}
