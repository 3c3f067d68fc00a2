//! Emulates modems without nodes: each is a TCP port (MIL-STD-188-110D, appendix A). The channel
//! between them is simulated.
//!
//! ```text
//!  station ─TCP─ Server ⇄ Dce ⇄ ┌────────┐ ⇄ Dce ⇄ Server ─TCP─ station
//!                               │ Medium │
//!                               └────────┘
//! ```

use base::time::{Time, earliest};
use gateway::bearer::server::{self, Client, Core};
use gateway::bearer::{Server, TurnedAway};
use hf::modem::lan::{Config, Dce};
use hf::modem::{Keying, Waveform};
use sim::hf::{Channel, Medium, StationId, Stats};

use crate::Stop;

/// Two modems and the channel between them.
pub struct Modems {
    medium: Medium,
    servers: [Server; 2],
    modems: [Modem; 2],
    buffer: Vec<u8>,
}

/// A modem, which one station uses at a time.
struct Modem {
    waveform: Waveform,
    session: Option<(Client, Dce)>,
    is_transmitting: bool,
    sessions: u32,
}

impl Modems {
    /// Creates modems with this waveform; stations connect to the servers' addresses.
    #[must_use]
    pub fn new(waveform: Waveform, channel: Channel, servers: [Server; 2], seed: u64) -> Self {
        let config = sim::hf::Config { channel, ..sim::hf::Config::default() };
        let modem = || Modem { waveform, session: None, is_transmitting: false, sessions: 0 };
        Self {
            medium: Medium::new(config, 2, seed),
            servers,
            modems: [modem(), modem()],
            buffer: Vec::new(),
        }
    }

    /// Runs until the end; `note` is called once for each host turned away, with the modem.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub fn run(
        &mut self,
        stop: &Stop,
        mut note: impl FnMut(usize, TurnedAway),
    ) -> anyhow::Result<()> {
        loop {
            self.act(stop.now());
            for end in 0..2 {
                while let Some(turned_away) = self.servers[end].poll_turned_away() {
                    note(end, turned_away);
                }
            }
            let mut first = 0;
            let ready = stop.wait(self.next_timeout(), |fds| {
                let before = fds.len();
                self.servers[0].watch(&self.modems[0], fds);
                first = fds.len() - before;
                self.servers[1].watch(&self.modems[1], fds);
            })?;
            let Some(ready) = ready else { return Ok(()) };
            let now = stop.now();
            let (a, b) = ready.split_at(first);
            for (end, ready) in [a, b].into_iter().enumerate() {
                self.servers[end].handle_ready(now, ready, &mut self.modems[end]);
            }
        }
    }

    /// The counters of each modem and its connections.
    #[must_use]
    pub fn stats(&self) -> [(Stats, server::Stats); 2] {
        [0, 1].map(|end| (self.medium.stats(StationId(end)), *self.servers[end].stats()))
    }

    /// Handles due events, and carries data from one layer to the next.
    fn act(&mut self, now: Time) {
        self.medium.handle_timeout(now);
        while let Some((StationId(end), event)) = self.medium.poll_event() {
            if let Some((_, session)) = &mut self.modems[end].session {
                session.handle_modem(now, event);
            }
        }
        for end in 0..2 {
            self.servers[end].handle_timeout(now, &mut self.modems[end]);
            self.transmit(now, end);
            let Some((client, session)) = &mut self.modems[end].session else { continue };
            let client = *client;
            session.handle_timeout(now);
            let is_over = session.closed().is_some();
            self.servers[end].push(now, client, &mut self.modems[end]);
            if is_over {
                self.servers[end].close(now, client, &mut self.modems[end]);
            }
        }
    }

    fn transmit(&mut self, now: Time, end: usize) {
        let station = StationId(end);
        let modem = &mut self.modems[end];
        modem.is_transmitting = self.medium.is_transmitting(station);
        let Some((_, session)) = &mut modem.session else {
            // The modem's station is gone.
            if modem.is_transmitting {
                self.medium.end(station);
            }
            return;
        };
        loop {
            self.buffer.clear();
            match session.poll_transmit(now, self.medium.room(station), &mut self.buffer) {
                Some(Keying::Start(waveform)) => self.medium.start(now, station, waveform),
                Some(Keying::Octets) => self.medium.supply(station, &self.buffer),
                Some(Keying::End) => self.medium.end(station),
                None => return,
            }
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let sessions = self.modems.iter().filter_map(|modem| modem.session.as_ref());
        let sessions = sessions.map(|(_, session)| session.next_timeout());
        let servers = self.servers.iter().map(Server::next_timeout);
        sessions.chain(servers).fold(self.medium.next_timeout(), earliest)
    }
}

impl Core for Modem {
    fn handle_connected(&mut self, now: Time) -> Option<Client> {
        // A transmission of the station before has to end first.
        if self.session.is_some() || self.is_transmitting {
            return None;
        }
        self.sessions += 1;
        let client = Client(self.sessions);
        let config = Config { waveform: self.waveform, is_receiver_master: false };
        self.session = Some((client, Dce::new(now, config)));
        Some(client)
    }

    fn handle_octets(&mut self, now: Time, client: Client, octets: &[u8]) {
        if let Some((_, session)) = self.session.as_mut().filter(|(own, _)| *own == client) {
            session.handle_octets(now, octets);
        }
    }

    fn handle_disconnected(&mut self, _now: Time, client: Client) {
        self.session.take_if(|(own, _)| *own == client);
    }

    fn poll_octets(&mut self, _now: Time, client: Client, out: &mut Vec<u8>) -> bool {
        let session = self.session.as_mut().filter(|(own, _)| *own == client);
        session.is_some_and(|(_, session)| session.poll_octets(out))
    }

    fn wants_octets(&self, client: Client) -> bool {
        let session = self.session.as_ref().filter(|(own, _)| *own == client);
        session.is_some_and(|(_, session)| session.wants_octets())
    }
}
