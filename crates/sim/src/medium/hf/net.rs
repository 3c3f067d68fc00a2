//! An HF medium together with its STANAG 5066 nodes.
//!
//! ```text
//!  clients ⇄ Node 0 ⇄ ┌────────┐ ⇄ Node 1 ⇄ clients
//!                     │ Medium │
//!            clock ─▶ └────────┘ ⇄ Node 2 ⇄ …
//! ```

use base::time::{Time, earliest};
use hf::modem::Keying;
use hf::s5066::Node;

use super::{Medium, StationId};

/// STANAG 5066 nodes on one frequency.
#[derive(Debug)]
pub struct Net {
    medium: Medium,
    nodes: Vec<Station>,
    buffer: Vec<u8>,
}

struct Station {
    node: Node,
    /// Whether the node has got input since it was last polled for data to transmit.
    is_touched: bool,
}

impl Net {
    /// Puts each node on the station with the same index.
    ///
    /// # Panics
    /// If the medium has a different number of stations.
    #[must_use]
    pub fn new(medium: Medium, nodes: Vec<Node>) -> Self {
        assert_eq!(medium.stations(), nodes.len(), "a station for each node");
        let nodes = nodes.into_iter().map(|node| Station { node, is_touched: true });
        Self { medium, nodes: nodes.collect(), buffer: Vec::new() }
    }

    /// Calls `act` with a node, and then carries what results from it to the medium.
    pub fn at<T>(&mut self, now: Time, station: StationId, act: impl FnOnce(&mut Node) -> T) -> T {
        let Station { node, is_touched } = &mut self.nodes[station.0];
        *is_touched = true;
        let done = act(node);
        self.settle(now);
        done
    }

    /// Acts on all deadlines up to `now`; afterwards nodes may have output for their clients.
    pub fn handle_timeout(&mut self, now: Time) {
        self.medium.handle_timeout(now);
        for (index, Station { node, is_touched }) in self.nodes.iter_mut().enumerate() {
            if node.next_timeout().is_some_and(|at| at <= now) {
                node.handle_timeout(now);
                *is_touched = true;
            }
            *is_touched |= self.medium.room(StationId(index)) > 0;
        }
        self.settle(now);
    }

    /// The next deadline of the medium and the nodes.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let nodes = self.nodes.iter().filter_map(|station| station.node.next_timeout());
        earliest(self.medium.next_timeout(), nodes.min())
    }

    /// A node.
    #[must_use]
    pub fn node(&self, station: StationId) -> &Node {
        &self.nodes[station.0].node
    }

    /// All stations.
    pub fn stations(&self) -> impl Iterator<Item = StationId> + use<> {
        (0..self.nodes.len()).map(StationId)
    }

    /// The medium.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Gives access to the medium for changing channels.
    pub fn medium_mut(&mut self) -> &mut Medium {
        &mut self.medium
    }

    /// Carries events and octets between the medium and the nodes until none are left.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some((station, event)) = self.medium.poll_event() {
                let Station { node, is_touched } = &mut self.nodes[station.0];
                node.handle_modem(now, event);
                *is_touched = true;
            }
            let Some(index) = self.nodes.iter().position(|station| station.is_touched) else {
                return;
            };
            let Station { node, is_touched } = &mut self.nodes[index];
            *is_touched = false;
            let station = StationId(index);
            self.medium.serve(now, station, &mut self.buffer, |room, out| {
                node.poll_transmit(now, room, out)
            });
        }
    }
}

impl Medium {
    /// Calls `poll`, which is like [`Node::poll_transmit`], while the station is idle or requests
    /// octets, and passes its decisions to the medium.
    pub fn serve(
        &mut self,
        now: Time,
        station: StationId,
        buffer: &mut Vec<u8>,
        mut poll: impl FnMut(usize, &mut Vec<u8>) -> Option<Keying>,
    ) {
        loop {
            let room = self.room(station);
            if self.is_transmitting(station) && room == 0 {
                return;
            }
            buffer.clear();
            match poll(room, buffer) {
                Some(Keying::Start(waveform)) => self.start(now, station, waveform),
                Some(Keying::Octets) if !buffer.is_empty() => self.supply(station, buffer),
                Some(Keying::End) if self.is_transmitting(station) => self.end(station),
                Some(Keying::Octets | Keying::End) | None => return,
            }
        }
    }
}

impl std::fmt::Debug for Station {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.node.address())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::rng::Rng;
    use hf::modem::Waveform;
    use hf::s5066::Address;
    use hf::s5066::sis::{Client, ClientId, Sap, Service, client};

    use super::super::{Channel, Config, Timing};
    use super::*;

    #[test]
    fn a_message_crosses_and_is_confirmed() {
        let mut pair = Pair::new("9600", Channel::Clear, 1);
        pair.send(&[7; 1_500]);

        pair.run(Duration::from_secs(30));

        assert_eq!(pair.received, [vec![7; 1_500]]);
        assert_eq!(pair.confirmed, 1);
        assert_eq!(pair.net.medium().stats(StationId(0)).underrun_octets, 0);
    }

    #[test]
    fn bulk_crosses_every_channel() {
        for channel in ["clear", "ber:1e-5", "ber:1e-4", "poor:30"] {
            let mut pair = Pair::new("9600", channel.parse().unwrap(), 2);
            for number in 0..50 {
                pair.send(&vec![number; 2_000]);
            }

            pair.run(Duration::from_secs(600));

            assert_eq!((pair.received.len(), pair.confirmed), (50, 50), "{channel}");
        }
    }

    #[test]
    fn a_run_is_a_function_of_its_seed() {
        let run = |seed| {
            let mut pair = Pair::new("9600", Channel::poor(28.0), seed);
            for number in 0..20 {
                pair.send(&vec![number; 2_000]);
            }
            pair.run(Duration::from_secs(120));
            assert!(pair.steps < 2_000, "{}", pair.steps);
            pair.records
        };

        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    const SAP: Sap = Sap::new(13);

    /// Two nodes with a client each; the first sends.
    struct Pair {
        net: Net,
        now: Time,
        clients: [(ClientId, Client); 2],
        received: Vec<Vec<u8>>,
        confirmed: usize,
        rejected: usize,
        records: Vec<hf::s5066::node::Record>,
        steps: u32,
    }

    impl Pair {
        fn new(waveform: &str, channel: Channel, seed: u64) -> Self {
            let waveform: Waveform = waveform.parse().unwrap();
            let medium = Medium::new(Config { channel, ..Config::default() }, 2, seed);
            let nodes = [1, 2].map(|address| {
                let config = Timing::default().station(Address::node(address), waveform);
                let rng = Rng::stream(seed, &format!("node {address}"));
                let mut node = Node::new(Time::ZERO, config, rng);
                node.record(true);
                node
            });
            let mut net = Net::new(medium, nodes.into());
            let clients = [0, 1].map(|index| {
                let id = net.at(Time::ZERO, StationId(index), |node| {
                    node.handle_connected(Time::ZERO).expect("room for a client")
                });
                let mut client = Client::new(client::Config::new(SAP));
                client.handle_connected(Time::ZERO);
                (id, client)
            });
            let mut pair = Self {
                net,
                now: Time::ZERO,
                clients,
                received: Vec::new(),
                confirmed: 0,
                rejected: 0,
                records: Vec::new(),
                steps: 0,
            };
            pair.settle();
            pair
        }

        fn send(&mut self, octets: &[u8]) {
            let send = client::Send {
                to: Address::node(2),
                to_sap: SAP,
                priority: 0,
                is_expedited: false,
                service: Some(Service::ARQ),
                ttl: Duration::ZERO,
                u_pdu: octets,
            };
            // A client with a full queue drops the message, which only matters to bulk measurements.
            let _ = self.clients[0].1.send(self.now, send);
            self.settle();
        }

        fn run(&mut self, time: Duration) {
            let end = self.now + time;
            while let Some(next) = self.net.next_timeout().filter(|&next| next <= end) {
                self.now = self.now.max(next);
                self.steps += 1;
                self.net.handle_timeout(self.now);
                self.settle();
            }
            self.now = end;
        }

        fn settle(&mut self) {
            let now = self.now;
            let mut octets = Vec::new();
            let mut is_busy = true;
            while is_busy {
                is_busy = false;
                for (index, (id, client)) in self.clients.iter_mut().enumerate() {
                    let station = StationId(index);
                    octets.clear();
                    if client.poll_octets(now, &mut octets) {
                        is_busy = true;
                        self.net.at(now, station, |node| node.handle_octets(now, *id, &octets));
                    }
                    octets.clear();
                    if self.net.at(now, station, |node| node.poll_octets(now, *id, &mut octets)) {
                        is_busy = true;
                        client.handle_octets(now, &octets);
                    }
                    while let Some(event) = client.poll_event() {
                        match event {
                            client::Event::Received(received) => self.received.push(received.u_pdu),
                            client::Event::Confirmed(_) => self.confirmed += 1,
                            client::Event::Rejected { .. } => self.rejected += 1,
                            _ => {}
                        }
                    }
                    self.net.at(now, station, |node| {
                        while node.poll_event().is_some() {}
                        self.records.extend(std::iter::from_fn(|| node.poll_record()));
                    });
                }
            }
        }
    }
}
