//! Tests several stations on one frequency with the access methods of Annex K.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::Waveform;
use hf::s5066::cas::Access;
use hf::s5066::sis::{Client, ClientId, Sap, Service, client};
use hf::s5066::{Address, Node, node};
use sim::hf::{Config, Medium, Net, StationId};

const SAP: Sap = Sap::new(13);
const STATIONS: u8 = 4;
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn stations_share_a_frequency_by_chance_or_by_slots_and_lose_nothing() {
    let jitter = |_| Access::Jitter { limit: Duration::from_secs(8) };
    let slotted = |position| Access::Slotted { position, stations: STATIONS };
    for (name, access) in [("jitter", &jitter as &dyn Fn(u8) -> Access), ("slotted", &slotted)] {
        for seed in 1..=12 {
            let mut band = Band::new("2400", access, seed);
            for round in 0..5 {
                for from in 0..STATIONS {
                    band.send(from, (from + 1 + round % 3) % STATIONS, Service::ARQ);
                }
            }

            band.run(MINUTE * 60);

            assert_eq!(band.received, [5; STATIONS as usize], "{name}, {seed}");
            assert_eq!(band.confirmed, [5; STATIONS as usize], "{name}, {seed}");
        }
    }
}

#[test]
fn slots_keep_stations_from_starting_at_once() {
    let jitter = |_| Access::Jitter { limit: Duration::ZERO };
    let slotted = |position| Access::Slotted { position, stations: STATIONS };
    let received = |access: &dyn Fn(u8) -> Access| {
        let mut band = Band::new("1200", access, 1);
        for _ in 0..10 {
            for from in 0..STATIONS {
                band.send(from, (from + 1) % STATIONS, Service::NON_ARQ);
            }
            band.run(MINUTE);
        }
        band.run(MINUTE * 30);
        band.received.iter().sum::<usize>()
    };

    let sent = 10 * usize::from(STATIONS);
    assert!(received(&jitter) < sent, "without a wait they spoil each other's");
    assert_eq!(received(&slotted), sent);
}

#[test]
fn slots_are_kept_after_transmissions_that_end_before_they_said() {
    // Nobody reads padding of ours, and what many datagrams take is hard to tell.
    let mut band =
        Band::new("1200", &|position| Access::Slotted { position, stations: STATIONS }, 1);
    for _ in 0..10 {
        for from in 0..STATIONS {
            for _ in 0..40 {
                band.send(from, (from + 1) % STATIONS, Service::NON_ARQ);
            }
        }
        band.run(MINUTE * 12);
    }
    band.run(MINUTE * 30);

    assert_eq!(band.received, [400; STATIONS as usize]);
}

/// Stations with a client each.
struct Band {
    net: Net,
    now: Time,
    clients: Vec<(ClientId, Client)>,
    received: [usize; STATIONS as usize],
    confirmed: [usize; STATIONS as usize],
}

impl Band {
    fn new(waveform: &str, access: &dyn Fn(u8) -> Access, seed: u64) -> Self {
        let waveform: Waveform = waveform.parse().expect("a waveform");
        let medium = Medium::new(Config::default(), usize::from(STATIONS), seed);
        let nodes = (0..STATIONS).map(|position| {
            let mut config = node::Config::new(address(position), waveform);
            config.access = access(position);
            Node::new(Time::ZERO, config, Rng::stream(u64::from(position), "node"))
        });
        let mut net = Net::new(medium, nodes.collect());
        let clients = (0..usize::from(STATIONS)).map(|at| {
            let id = net.at(Time::ZERO, StationId(at), |node| {
                node.handle_connected(Time::ZERO).expect("room for a client")
            });
            let mut client = Client::new(client::Config::new(SAP));
            client.handle_connected(Time::ZERO);
            (id, client)
        });
        let clients = clients.collect();
        let mut band = Self {
            net,
            now: Time::ZERO,
            clients,
            received: Default::default(),
            confirmed: Default::default(),
        };
        band.settle();
        band
    }

    fn send(&mut self, from: u8, to: u8, service: Service) {
        let send = client::Send {
            to: address(to),
            to_sap: SAP,
            priority: 0,
            is_expedited: false,
            service: Some(service),
            ttl: Duration::ZERO,
            u_pdu: &[from; 300],
        };
        self.clients[usize::from(from)].1.send(self.now, send).expect("the client takes it");
        self.settle();
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.net.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.net.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// Carries octets between clients and nodes until nothing is left.
    fn settle(&mut self) {
        let now = self.now;
        let mut is_busy = true;
        while std::mem::take(&mut is_busy) {
            for (at, (id, client)) in self.clients.iter_mut().enumerate() {
                let station = StationId(at);
                let mut octets = Vec::new();
                if client.poll_octets(now, &mut octets) {
                    is_busy = true;
                    self.net.at(now, station, |node| node.handle_octets(now, *id, &octets));
                }
                octets.clear();
                if self.net.at(now, station, |node| node.poll_octets(now, *id, &mut octets)) {
                    is_busy = true;
                    client.handle_octets(now, &octets);
                }
                self.net.at(now, station, |node| while node.poll_event().is_some() {});
                while let Some(event) = client.poll_event() {
                    match event {
                        client::Event::Received(_) => self.received[at] += 1,
                        client::Event::Confirmed(_) => self.confirmed[at] += 1,
                        _ => {}
                    }
                }
            }
        }
    }
}

fn address(position: u8) -> Address {
    Address::node(0x0a_1400 + u32::from(position))
}
