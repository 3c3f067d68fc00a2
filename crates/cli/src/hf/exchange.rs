//! Two nodes, their clients and the medium between them, in real time.
//!
//! ```text
//!  clients of A ⇄ Server ⇄ ┌───────────────┐ ⇄ Server ⇄ clients of B
//!                          │ Net: node A ⇄ │
//!              clock ────▶ │ medium ⇄ B    │ ────▶ Observer: captures, picture, counts
//!                          └───────────────┘
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use gateway::bearer::Server;
use gateway::bearer::server::{Client, Core};
use proto::modem;
use proto::rng::Rng;
use proto::s5066::cas::Access;
use proto::s5066::{Node, node};
use proto::time::{Time, earliest};
use sim::hf::{Medium, Net, StationId};

use super::observer::Observer;
use super::options::Plan;
use super::progress::Progress;
use super::report;
use super::stop::Stop;

/// Two nodes at work.
pub(super) struct Exchange {
    net: Net,
    servers: [Server; 2],
    observer: Observer,
}

impl Exchange {
    pub(super) fn new(plan: &Plan, servers: [Server; 2], seed: u64, observer: Observer) -> Self {
        let config = sim::hf::Config { channel: plan.channel, ..sim::hf::Config::default() };
        let medium = Medium::new(config, 2, seed);
        let nodes = ["a", "b"].iter().zip(&plan.ends).zip(0..).map(|((name, end), own)| {
            let mut config = node::Config::new(end.address, plan.waveform);
            config.sis.max_clients = super::CLIENTS;
            plan.parameters.apply(&mut config).expect("the options were checked");
            if let Access::Slotted { position, .. } = &mut config.access {
                *position = own;
            }
            config.extensions.long_numbers &= !plan.has_short_numbers;
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
            config.sis.epoch = since_1970.unwrap_or_default();
            let rng = Rng::stream(seed, &format!("node {name}"));
            let mut node = Node::new(Time::ZERO, config, rng);
            node.record(true);
            node
        });
        Self { net: Net::new(medium, nodes.collect()), servers, observer }
    }

    /// Runs until the end.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub(super) fn run(&mut self, stop: &Stop, progress: &mut Progress) -> anyhow::Result<()> {
        loop {
            let now = stop.now();
            self.act(now);
            progress.show(now, self.observer.tallies(), &self.delivered());
            let due = [self.servers[0].next_timeout(), self.servers[1].next_timeout()]
                .into_iter()
                .chain([progress.next_timeout()])
                .fold(self.net.next_timeout(), earliest);
            let mut first = 0;
            let ready = stop.wait(due, |fds| {
                let before = fds.len();
                self.servers[0].watch(self.net.node(StationId(0)), fds);
                first = fds.len() - before;
                self.servers[1].watch(self.net.node(StationId(1)), fds);
            })?;
            let Some(ready) = ready else { return Ok(()) };
            let now = stop.now();
            let (a, b) = ready.split_at(first);
            for (end, ready) in [a, b].into_iter().enumerate() {
                let mut core = At { net: &mut self.net, station: StationId(end) };
                self.servers[end].handle_ready(now, ready, &mut core);
            }
        }
    }

    /// Ends the run: what is on the air counts as far as it came.
    pub(super) fn stop(&mut self, now: Time) {
        for end in 0..2 {
            self.net.at(now, StationId(end), |node| node.handle_modem(now, modem::Event::Sent));
        }
        self.note(now);
    }

    /// What came of it.
    pub(super) fn ends(&self) -> [report::Node; 2] {
        [0, 1].map(|end| {
            let station = StationId(end);
            let sis = self.net.node(station).sis().stats();
            report::Node {
                tally: self.observer.tallies()[end],
                octets_taken: sis.octets_taken,
                octets_delivered: sis.octets_delivered,
                u_pdus_delivered: sis.u_pdus_delivered,
                u_pdus_failed: sis.failed + sis.expired,
                underruns: self.net.medium().stats(station).underrun_octets,
                connections: *self.servers[end].stats(),
            }
        })
    }

    pub(super) fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    /// Does what is due, and gives clients what there is for them.
    fn act(&mut self, now: Time) {
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
        self.note(now);
    }

    /// Takes what the nodes have recorded.
    fn note(&mut self, now: Time) {
        for end in 0..2 {
            while let Some(record) = self.net.at(now, StationId(end), Node::poll_record) {
                self.observer.note(end, &record);
            }
        }
    }

    fn delivered(&self) -> [u64; 2] {
        [0, 1].map(|end| self.net.node(StationId(end)).sis().stats().octets_delivered)
    }
}

/// A node on its medium: what its clients do may start the transmitter.
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

    use proto::s5066::sis::client::{self, Send};
    use proto::s5066::sis::{self, Sap, Service};

    use super::super::options::Options;
    use super::super::report::Report;
    use super::*;

    #[test]
    fn what_is_on_the_air_at_the_end_counts_as_far_as_it_came() {
        let plan = Options::default().check().unwrap();
        let servers = [0, 1].map(|_| Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        let observer = Observer::new(None, true).unwrap();
        let mut exchange = Exchange::new(&plan, servers.map(Result::unwrap), 1, observer);
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
                to: plan.ends[1].address,
                to_sap: Sap::new(9),
                priority: 0,
                is_expedited: false,
                service: Some(Service::ARQ),
                ttl: Duration::ZERO,
                u_pdu: &[7; 2_000],
            };
            clients[0].1.send(send).unwrap();
        }
        // In the middle of the second transmission, the first long one.
        let end = Time::ZERO + Duration::from_secs(100);

        let mut now = Time::ZERO;
        loop {
            carry(&mut exchange, now, &mut clients);
            exchange.act(now);
            match exchange.net.next_timeout() {
                Some(next) if next <= end => now = now.max(next),
                _ => break,
            }
        }
        exchange.stop(end);

        let ends = exchange.ends();
        assert_eq!(ends.each_ref().map(|node| node.tally.transmissions), [2, 1]);
        let on_air: Duration = ends.iter().map(|node| node.tally.on_air).sum();
        assert!(
            on_air > Duration::from_secs(95) && on_air < Duration::from_secs(100),
            "{on_air:?}"
        );
        let elapsed = end.since(Time::ZERO);
        let utilisation = Report { plan: &plan, seed: 1, elapsed, ends }.utilisation();
        assert!((0.8..1.0).contains(&utilisation), "{utilisation}");
    }

    /// Carries octets between clients and nodes until there are none.
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
