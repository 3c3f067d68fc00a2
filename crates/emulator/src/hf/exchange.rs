//! Two nodes, their clients and the medium between them, in real time.
//!
//! ```text
//!  clients of A ⇄ Server ⇄ ┌───────────────┐ ⇄ Server ⇄ clients of B
//!                          │ Net: node A ⇄ │
//!              clock ────▶ │ medium ⇄ B    │ ────▶ Observer: captures, counts
//!                          └───────────────┘
//! ```

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use base::rng::Rng;
use base::time::{Time, earliest};
use gateway::bearer::server::{Client, Core};
use gateway::bearer::{Server, TurnedAway};
use hf::modem;
use hf::s5066::node::Record;
use hf::s5066::sis::stream::Unreadable;
use hf::s5066::{Node, node};
use sim::hf::{Channel, Medium, Net, StationId};

use super::observer::Observer;
use super::outcome::Outcome;
use crate::Stop;

/// Two nodes at work.
pub struct Exchange {
    net: Net,
    servers: [Server; 2],
    observer: Observer,
    /// How often unreadable primitives were reported.
    said: u32,
}

/// The most reports of unreadable primitives: clients can provoke them.
const SAID: u32 = 100;

/// Trouble with a client, for whoever runs the nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// The client was not let in.
    #[error("a client is turned away: {0}")]
    TurnedAway(#[from] TurnedAway),
    /// The client sends unreadable primitives.
    #[error("what a client says cannot be read: {0}")]
    Unreadable(Unreadable),
}

impl Exchange {
    /// Two nodes that begin now; clients find them where the servers listen.
    #[must_use]
    pub fn new(
        channel: Channel,
        nodes: [node::Config; 2],
        servers: [Server; 2],
        seed: u64,
        observer: Observer,
    ) -> Self {
        let config = sim::hf::Config { channel, ..sim::hf::Config::default() };
        let medium = Medium::new(config, 2, seed);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nodes = ["a", "b"].iter().zip(nodes).map(|(name, mut config)| {
            config.sis.epoch = since_1970;
            let rng = Rng::stream(seed, &format!("node {name}"));
            let mut node = Node::new(Time::ZERO, config, rng);
            node.record(true);
            node
        });
        Self { net: Net::new(medium, nodes.collect()), servers, observer, said: 0 }
    }

    /// Handles due events, waits until `due` or the next event, and handles the events then due. False at the end of
    /// the run. `note` receives the nodes' records of sending and hearing: 0 is node A, 1 is B.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub fn turn(
        &mut self,
        stop: &Stop,
        due: Option<Time>,
        note: impl FnMut(usize, &Record),
    ) -> anyhow::Result<bool> {
        self.act(stop.now(), note);
        let due = [self.servers[0].next_timeout(), self.servers[1].next_timeout(), due]
            .into_iter()
            .fold(self.net.next_timeout(), earliest);
        let mut first = 0;
        let ready = stop.wait(due, |fds| {
            let before = fds.len();
            self.servers[0].watch(self.net.node(StationId(0)), fds);
            first = fds.len() - before;
            self.servers[1].watch(self.net.node(StationId(1)), fds);
        })?;
        let Some(ready) = ready else { return Ok(false) };
        let now = stop.now();
        let (a, b) = ready.split_at(first);
        for (end, ready) in [a, b].into_iter().enumerate() {
            let mut core = At { net: &mut self.net, station: StationId(end) };
            self.servers[end].handle_ready(now, ready, &mut core);
        }
        Ok(true)
    }

    /// Ends the run: a transmission on the air counts up to its present point.
    ///
    /// # Errors
    /// When a capture could not be written.
    pub fn stop(&mut self, now: Time, note: impl FnMut(usize, &Record)) -> io::Result<()> {
        for end in 0..2 {
            self.net.at(now, StationId(end), |node| node.handle_modem(now, modem::Event::Sent));
        }
        self.note(now, note);
        self.observer.finish()
    }

    /// The next trouble with a client, by node: each client turned away once, and some unreadable primitives.
    pub fn poll_trouble(&mut self, now: Time) -> Option<(usize, Trouble)> {
        for end in 0..2 {
            if let Some(turned_away) = self.servers[end].poll_turned_away() {
                return Some((end, turned_away.into()));
            }
            let unreadable = self.net.at(now, StationId(end), Node::poll_unreadable);
            if let Some((_, what)) = unreadable
                && self.said < SAID
            {
                self.said += 1;
                return Some((end, Trouble::Unreadable(what)));
            }
        }
        None
    }

    /// Both nodes' outcomes so far.
    #[must_use]
    pub fn outcomes(&self) -> [Outcome; 2] {
        [0, 1].map(|end| {
            let station = StationId(end);
            let sis = self.net.node(station).sis().stats();
            Outcome {
                tally: self.observer.tallies()[end],
                octets_taken: sis.submitted.octets_taken,
                octets_delivered: sis.delivered.octets_delivered,
                u_pdus_delivered: sis.delivered.u_pdus_delivered,
                u_pdus_failed: sis.submitted.failed + sis.submitted.expired,
                primitives_invalid: sis.clients.invalid,
                underruns: self.net.medium().stats(station).underrun_octets,
                connections: *self.servers[end].stats(),
            }
        })
    }

    /// Handles due events, and gives clients their data.
    fn act(&mut self, now: Time, note: impl FnMut(usize, &Record)) {
        self.net.handle_timeout(now);
        for (end, server) in self.servers.iter_mut().enumerate() {
            let station = StationId(end);
            let mut core = At { net: &mut self.net, station };
            server.handle_timeout(now, &mut core);
            while let Some(event) = core.net.at(now, station, Node::poll_event) {
                match event {
                    node::Event::Readable(client) => server.push(now, Client(client.0), &mut core),
                    node::Event::Close(client) => server.close(now, Client(client.0), &mut core),
                    // Nothing of ours is managed.
                    node::Event::Management { .. } => {}
                }
            }
        }
        self.note(now, note);
    }

    /// Takes the nodes' new records.
    fn note(&mut self, now: Time, mut note: impl FnMut(usize, &Record)) {
        for end in 0..2 {
            while let Some(record) = self.net.at(now, StationId(end), Node::poll_record) {
                self.observer.note(end, &record);
                note(end, &record);
            }
        }
    }
}

/// A node on its medium: actions of clients may start the transmitter.
struct At<'a> {
    net: &'a mut Net,
    station: StationId,
}

impl Core for At<'_> {
    fn handle_connected(&mut self, now: Time) -> Option<Client> {
        self.net.at(now, self.station, |node| Core::handle_connected(node, now))
    }

    fn handle_octets(&mut self, now: Time, client: Client, octets: &[u8]) {
        self.net.at(now, self.station, |node| Core::handle_octets(node, now, client, octets));
    }

    fn handle_disconnected(&mut self, now: Time, client: Client) {
        self.net.at(now, self.station, |node| Core::handle_disconnected(node, now, client));
    }

    fn poll_octets(&mut self, now: Time, client: Client, out: &mut Vec<u8>) -> bool {
        self.net.at(now, self.station, |node| Core::poll_octets(node, now, client, out))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use hf::s5066::Address;
    use hf::s5066::sis::client::{self, Send};
    use hf::s5066::sis::{self, Sap, Service};
    use sim::hf::Timing;

    use super::super::utilisation;
    use super::*;

    #[test]
    fn what_is_on_the_air_at_the_end_counts_as_far_as_it_came() {
        let waveform = "9600/short".parse().unwrap();
        let nodes = [1, 2].map(|number| Timing::default().station(Address::node(number), waveform));
        let servers = [0, 1].map(|_| Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        let observer = Observer::new(None).unwrap();
        let servers = servers.map(Result::unwrap);
        let mut exchange = Exchange::new(Channel::Clear, nodes, servers, 1, observer);
        let mut clients = [0, 1].map(|end| {
            let core = At { net: &mut exchange.net, station: StationId(end) };
            let id = core
                .net
                .at(Time::ZERO, core.station, |node| node.handle_connected(Time::ZERO).unwrap());
            let mut client = sis::Client::new(client::Config::new(Sap::new(9)));
            client.handle_connected(Time::ZERO);
            (id, client)
        });
        carry(&mut exchange, Time::ZERO, &mut clients);
        for _ in 0..150 {
            let send = Send {
                to: Address::node(2),
                to_sap: Sap::new(9),
                priority: 0,
                is_expedited: false,
                service: Some(Service::ARQ),
                ttl: Duration::ZERO,
                u_pdu: &[7; 2_000],
            };
            clients[0].1.send(Time::ZERO, send).unwrap();
        }
        // In the middle of the second transmission, the first long one.
        let end = Time::ZERO + Duration::from_secs(100);

        let mut now = Time::ZERO;
        loop {
            carry(&mut exchange, now, &mut clients);
            exchange.act(now, |_, _| {});
            match exchange.net.next_timeout() {
                Some(next) if next <= end => now = now.max(next),
                _ => break,
            }
        }
        exchange.stop(end, |_, _| {}).unwrap();

        let ends = exchange.outcomes();
        assert_eq!(ends.each_ref().map(|node| node.tally.transmissions), [2, 1]);
        let on_air: Duration = ends.iter().map(|node| node.tally.on_air).sum();
        assert!(
            on_air > Duration::from_secs(95) && on_air < Duration::from_secs(100),
            "{on_air:?}"
        );
        let utilisation = utilisation(&ends, waveform);
        assert!((0.8..1.0).contains(&utilisation), "{utilisation}");
    }

    /// Carries octets between clients and nodes until none are left.
    fn carry(exchange: &mut Exchange, now: Time, clients: &mut [(sis::ClientId, sis::Client); 2]) {
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for (end, (id, client)) in clients.iter_mut().enumerate() {
                let mut octets = Vec::new();
                is_busy |= client.poll_octets(now, &mut octets);
                exchange.net.at(now, StationId(end), |node| {
                    node.handle_octets(now, *id, &octets);
                    octets.clear();
                    is_busy |= node.poll_octets(now, *id, &mut octets);
                });
                client.handle_octets(now, &octets);
                while client.poll_event().is_some() {}
            }
        }
    }
}
