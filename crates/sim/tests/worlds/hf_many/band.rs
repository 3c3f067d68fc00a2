//! A band of stations, each with a client, that send to each other and record every outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use ::hf::modem::Waveform;
use ::hf::s5066::sis::client::SendId;
use ::hf::s5066::sis::{Client, ClientId, Mode, Sap, Service, client};
use ::hf::s5066::{Address, Node, node};
use base::rng::Rng;
use base::time::Time;
use sim::hf::{self, StationId};

use super::air::{Air, Station};
use super::books::{Books, Fate, Key};

pub const SAP: Sap = Sap::new(13);

/// Stations on one frequency and their clients.
pub struct Band {
    pub(crate) air: Air,
    pub(crate) now: Time,
    pub(crate) books: Books,
    pub(crate) seed: u64,
    ends: Vec<End>,
    /// The most U_PDUs waiting in a node and its client.
    pub(crate) most_waiting: usize,
}

struct End {
    config: node::Config,
    client: Option<(ClientId, Client)>,
    next: u32,
    under_way: BTreeMap<SendId, Key>,
    lives: u32,
}

/// A U_PDU to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) len: usize,
    pub(crate) priority: u8,
    pub(crate) is_expedited: bool,
    pub(crate) in_order: bool,
}

impl Message {
    pub fn new(from: u8, to: u8, len: usize) -> Self {
        Self { from, to, len, priority: 0, is_expedited: false, in_order: true }
    }
}

impl Band {
    /// Makes this many stations; `config` gives the configuration for each place.
    pub fn new(
        air: hf::Config,
        waveform: &str,
        stations: u8,
        seed: u64,
        config: impl Fn(u8, &mut node::Config),
    ) -> Self {
        let waveform: Waveform = waveform.parse().expect("a waveform");
        let ends: Vec<End> = (0..stations)
            .map(|place| {
                let mut own = node::Config::new(address(place), waveform);
                config(place, &mut own);
                let under_way = BTreeMap::new();
                End { config: own, client: None, next: 0, under_way, lives: 0 }
            })
            .collect();
        let dead = (0..stations).map(|_| Station::Dead).collect();
        let mut band = Self {
            air: Air::new(air, dead, seed),
            now: Time::ZERO,
            books: Books::default(),
            seed,
            ends,
            most_waiting: 0,
        };
        for place in 0..stations {
            band.revive(place);
        }
        band
    }

    /// A station begins without a memory.
    pub fn revive(&mut self, place: u8) {
        let (now, at) = (self.now, usize::from(place));
        let end = &mut self.ends[at];
        end.lives += 1;
        let name = format!("node {place}, life {}", end.lives);
        let mut node = Node::new(now, end.config.clone(), Rng::stream(self.seed, &name));
        let id = node.handle_connected(now).expect("room for a client");
        let mut client = Client::new(client::Config::new(SAP));
        client.handle_connected(now);
        end.client = Some((id, client));
        self.air.stations[at] = Station::Node(Box::new(node));
        self.settle();
    }

    /// Removes a station with all its state.
    pub fn kill(&mut self, place: u8) {
        let end = &mut self.ends[usize::from(place)];
        end.client = None;
        for (_, key) in std::mem::take(&mut end.under_way) {
            self.books.end(key, self.now, Fate::Forsaken);
        }
        self.air.stations[usize::from(place)] = Station::Dead;
        self.settle();
    }

    /// Sends a U_PDU if the client takes it.
    pub fn send(&mut self, message: Message) -> bool {
        let Message { from, to, len, priority, is_expedited, in_order } = message;
        let end = &mut self.ends[usize::from(from)];
        let key = Key { from, number: end.next };
        let Some((_, client)) = &mut end.client else { return false };
        let send = client::Send {
            to: address(to),
            to_sap: SAP,
            priority,
            is_expedited,
            service: Some(Service::of(Mode::Arq { in_order })),
            ttl: Duration::ZERO,
            u_pdu: &key.u_pdu(len),
        };
        let Ok(id) = client.send(self.now, send) else { return false };
        end.next += 1;
        end.under_way.insert(id, key);
        self.books.send(key, to, self.now);
        self.settle();
        true
    }

    pub fn node(&mut self, place: u8) -> &mut Node {
        self.air.node(usize::from(place)).expect("it lives")
    }

    /// When a station has its turn at the latest.
    pub fn bound(&self) -> Duration {
        self.ends.iter().map(|end| end.config.turn_bound()).max().expect("there are stations")
    }

    /// Changes the channel between all stations.
    pub fn set_channel(&mut self, channel: hf::Channel) {
        for from in 0..self.ends.len() {
            for to in (0..self.ends.len()).filter(|to| *to != from) {
                self.air.medium.set_channel(StationId(from), StationId(to), channel);
            }
        }
    }

    pub fn run_until(&mut self, end: Time) {
        while let Some(next) = self.air.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.air.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// Runs until nothing sent waits for an outcome, at most for this time.
    pub fn run_out(&mut self, time: Duration) {
        let end = self.now + time;
        while self.books.undecided() > 0 && self.now < end {
            let next = self.air.next_timeout().unwrap_or(end).min(end).max(self.now);
            self.run_until(next);
        }
    }

    /// Carries octets between clients and nodes until nothing is left.
    pub fn settle(&mut self) {
        let now = self.now;
        let mut octets = Vec::new();
        let mut is_busy = true;
        while std::mem::take(&mut is_busy) {
            self.air.settle(now);
            for (at, end) in self.ends.iter_mut().enumerate() {
                let Some(node) = self.air.node(at) else { continue };
                let Some((id, client)) = &mut end.client else { continue };
                octets.clear();
                if client.poll_octets(now, &mut octets) {
                    is_busy = true;
                    node.handle_octets(now, *id, &octets);
                }
                octets.clear();
                if node.poll_octets(now, *id, &mut octets) {
                    is_busy = true;
                    client.handle_octets(now, &octets);
                }
                while node.poll_event().is_some() {}
                self.most_waiting = self.most_waiting.max(node.sis().backlog().u_pdus);
                let place = u8::try_from(at).expect("few stations");
                while let Some(event) = client.poll_event() {
                    match event {
                        client::Event::Received(received) => {
                            let key = Key::read(&received.u_pdu);
                            self.books.deliver(key, place, now);
                        }
                        client::Event::Confirmed(send) => {
                            let key = end.under_way.remove(&send).expect("one outcome each");
                            self.books.end(key, now, Fate::Confirmed);
                        }
                        client::Event::Rejected { id: Some(send), .. } => {
                            let key = end.under_way.remove(&send).expect("one outcome each");
                            self.books.end(key, now, Fate::Rejected);
                        }
                        client::Event::Rejected { id: None, reason, .. } => {
                            panic!("a rejection of nothing that was sent: {reason:?}")
                        }
                        client::Event::Unbound(reason) => panic!("unbound: {reason:?}"),
                        client::Event::Availability { .. }
                        | client::Event::Bound { .. }
                        | client::Event::Close(_)
                        | client::Event::FlowOff
                        | client::Event::FlowOn
                        | client::Event::HardLink(_)
                        | client::Event::Management { .. }
                        | client::Event::Peer(_)
                        | client::Event::Sealing { .. }
                        | client::Event::Refused(_) => {}
                    }
                }
            }
        }
    }
}

pub fn address(place: u8) -> Address {
    Address::node(0x0a_1400 + u32::from(place))
}
