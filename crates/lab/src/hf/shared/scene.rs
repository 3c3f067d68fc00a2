//! Several stations on one frequency with clients, and the service that each client gets.

use std::collections::BTreeMap;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use hf::modem::Waveform;
use hf::s5066::node::Config;
use hf::s5066::sis::{Client, ClientId, Mode, Sap, Service, client};
use hf::s5066::{Address, Node};
use sim::hf::{Channel, Medium, Net, StationId};

use super::super::{air, bulk, station};

/// Stations on a frequency, and the loads between them.
#[derive(Clone, Debug)]
pub struct Scene {
    pub waveform: Waveform,
    pub channel: Channel,
    pub stations: usize,
    pub loads: Vec<Load>,
}

/// A sending and a receiving client.
#[derive(Clone, Debug)]
pub struct Load {
    pub from: usize,
    /// A station that does not exist is dead.
    pub to: usize,
    pub priority: u8,
    pub is_expedited: bool,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// As much as the node takes, in U_PDUs of the greatest size.
    Bulk,
    /// Messages at random times after `begin`, with this mean interval.
    Messages { octets: usize, every: Duration, begin: Duration },
}

/// The outcome of a load.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The times of arrivals, and their octets.
    pub arrivals: Vec<(Time, usize)>,
    /// The time that each message took; `None` if it did not arrive in time.
    pub waits: Vec<Option<Duration>>,
    /// When each was sent.
    pub sent: Vec<Time>,
}

/// The time that a run continues for the last messages.
const DRAIN_TIME: Duration = Duration::from_secs(300);
/// Messages begin with their number.
const NUMBER: usize = 4;

impl Load {
    pub fn bulk(from: usize, to: usize) -> Self {
        Self { from, to, priority: 0, is_expedited: false, kind: Kind::Bulk }
    }

    pub fn urgent(from: usize, to: usize, every: Duration) -> Self {
        let kind = Kind::Messages { octets: 100, every, begin: Duration::from_secs(300) };
        Self { from, to, priority: 15, is_expedited: false, kind }
    }
}

impl Served {
    /// The number of messages sent before the first had arrived, of which the receiver did not know.
    pub fn unannounced(&self) -> usize {
        let known = self.sent.first().zip(self.waits.first().copied().flatten());
        let known = known.map_or(Time::MAX, |(&sent, wait)| sent + wait);
        self.sent.iter().filter(|sent| **sent < known).count()
    }

    /// Octets that arrived in a span.
    pub fn octets(&self, from: Duration, until: Duration) -> usize {
        let span = Time::ZERO + from..Time::ZERO + until;
        let inside = self.arrivals.iter().filter(|(at, _)| span.contains(at));
        inside.map(|(_, octets)| octets).sum()
    }
}

impl Scene {
    /// Runs the loads for `time`, and then waits a while for messages that have not arrived.
    pub fn run(&self, time: Duration, seed: u64) -> Vec<Served> {
        let mut run = Run::new(self, seed);
        run.until = Time::ZERO + time;
        run.run(Time::ZERO + time + DRAIN_TIME);
        run.loads.into_iter().map(|load| load.served).collect()
    }
}

struct Run {
    net: Net,
    now: Time,
    loads: Vec<Driven>,
    /// The time after which no more messages are sent.
    until: Time,
}

/// A load and its state.
struct Driven {
    load: Load,
    sap: Sap,
    sender: (ClientId, Client),
    receiver: Option<(ClientId, Client)>,
    rng: Rng,
    next_at: Time,
    number: u32,
    under_way: BTreeMap<u32, (usize, Time)>,
    served: Served,
}

impl Run {
    fn new(scene: &Scene, seed: u64) -> Self {
        let medium = Medium::new(air(scene.channel), scene.stations, seed);
        let count = u8::try_from(scene.stations).expect("few stations");
        let nodes = (0..count).map(|position| {
            let config = station(address(position.into()), scene.waveform);
            let access = super::access(position, count);
            let name = format!("node {position}");
            Node::new(Time::ZERO, Config { access, ..config }, Rng::stream(seed, &name))
        });
        let mut net = Net::new(medium, nodes.collect());
        let mut connect = |station: usize, sap: Sap| {
            let id = net.at(Time::ZERO, StationId(station), |node| {
                node.handle_connected(Time::ZERO).expect("a node takes few clients")
            });
            let mut client = Client::new(client::Config::new(sap));
            client.handle_connected(Time::ZERO);
            (id, client)
        };
        let loads = scene.loads.iter().enumerate().map(|(place, load)| {
            let sap = Sap::new(u8::try_from(place).expect("few loads"));
            let begin = match load.kind {
                Kind::Bulk => Duration::ZERO,
                Kind::Messages { begin, .. } => begin,
            };
            Driven {
                sap,
                sender: connect(load.from, sap),
                receiver: (load.to < scene.stations).then(|| connect(load.to, sap)),
                rng: Rng::stream(seed, &format!("load {place}")),
                next_at: Time::ZERO + begin,
                number: 0,
                under_way: BTreeMap::new(),
                served: Served::default(),
                load: load.clone(),
            }
        });
        let loads = loads.collect();
        Self { net, now: Time::ZERO, loads, until: Time::MAX }
    }

    fn run(&mut self, end: Time) {
        loop {
            self.settle();
            let due = self.loads.iter().map(Driven::next_timeout).fold(None, earliest);
            let due = due.filter(|at| *at < self.until);
            let next = earliest(self.net.next_timeout(), due).filter(|next| *next <= end);
            let Some(next) = next else { return };
            self.now = self.now.max(next);
            self.net.handle_timeout(self.now);
        }
    }

    /// Carries octets between clients and nodes until nothing is left.
    fn settle(&mut self) {
        let (now, net) = (self.now, &mut self.net);
        let mut octets = Vec::new();
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for driven in &mut self.loads {
                is_busy |= now < self.until && driven.send(now);
                let from = driven.load.from;
                is_busy |= exchange(net, now, from, &mut driven.sender, &mut octets);
                while driven.sender.1.poll_event().is_some() {}
                let Some(receiver) = &mut driven.receiver else { continue };
                is_busy |= exchange(net, now, driven.load.to, receiver, &mut octets);
                while let Some(event) = receiver.1.poll_event() {
                    if let client::Event::Received(received) = event {
                        let (number, _) = received.u_pdu.split_first_chunk().expect("a number");
                        let number = u32::from_be_bytes(*number);
                        driven.served.arrivals.push((now, received.u_pdu.len()));
                        if let Some((place, sent)) = driven.under_way.remove(&number) {
                            driven.served.waits[place] = Some(now.since(sent));
                        }
                    }
                }
            }
        }
    }
}

impl Driven {
    fn next_timeout(&self) -> Option<Time> {
        matches!(self.load.kind, Kind::Messages { .. }).then_some(self.next_at)
    }

    /// Hands the sender a U_PDU if one is due and it takes one.
    fn send(&mut self, now: Time) -> bool {
        let octets = match self.load.kind {
            Kind::Bulk => bulk::U_PDU,
            Kind::Messages { .. } if self.next_at > now => return false,
            Kind::Messages { octets, .. } => octets,
        };
        let mut u_pdu = vec![0x5a; octets.max(NUMBER)];
        u_pdu[..NUMBER].copy_from_slice(&self.number.to_be_bytes());
        let send = client::Send {
            to: Address::node(address(self.load.to)),
            to_sap: self.sap,
            priority: self.load.priority,
            is_expedited: self.load.is_expedited,
            service: Some(Service::of(Mode::Arq { in_order: false })),
            ttl: Duration::ZERO,
            u_pdu: &u_pdu,
        };
        let is_taken = self.sender.1.send(now, send).is_ok();
        if let Kind::Messages { every, .. } = self.load.kind {
            self.next_at = now + self.rng.exponential(every);
            if is_taken {
                self.under_way.insert(self.number, (self.served.waits.len(), now));
            }
            self.served.waits.push(None);
            self.served.sent.push(now);
        }
        self.number += u32::from(is_taken);
        is_taken
    }
}

fn exchange(
    net: &mut Net,
    now: Time,
    station: usize,
    (id, client): &mut (ClientId, Client),
    octets: &mut Vec<u8>,
) -> bool {
    let (id, station) = (*id, StationId(station));
    octets.clear();
    let has_sent = client.poll_octets(now, octets);
    if has_sent {
        net.at(now, station, |node| node.handle_octets(now, id, octets));
    }
    octets.clear();
    let has_received = net.at(now, station, |node| {
        while node.poll_event().is_some() {}
        node.poll_octets(now, id, octets)
    });
    if has_received {
        client.handle_octets(now, octets);
    }
    has_sent || has_received
}

fn address(station: usize) -> u32 {
    u32::try_from(station).expect("few stations") + 1
}
