//! A band of stations on one frequency, each with clients of several ranks.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::Waveform;
use hf::s5066::cas::Access;
use hf::s5066::sis::client::{self, HardLinkEvent};
use hf::s5066::sis::primitive::{HardLink, LinkKind};
use hf::s5066::sis::{Client, ClientId, Sap, Service};
use hf::s5066::{Address, Node, node};
use sim::hf::{Channel, Config, Medium, Net, StationId};

pub const MINUTE: Duration = Duration::from_secs(60);
pub const SECOND: Duration = Duration::from_secs(1);
pub const KINDS: [LinkKind; 3] = [LinkKind::Shared, LinkKind::Reserved, LinkKind::Exclusive];
/// Stations, by their place.
pub const A: usize = 0;
pub const B: usize = 1;
pub const C: usize = 2;
/// Nobody has this address.
pub const NOBODY: Address = Address::node(99);
/// Clients of each station: the first asks for hard links, the second outranks it, the third does not.
pub const OWNER: usize = 0;
pub const RANKED: usize = 1;
pub const OTHER: usize = 2;
pub const RANKS: [u8; 3] = [0, 9, 0];

/// Stations with clients of several ranks.
pub struct Band {
    pub net: Net,
    pub now: Time,
    pub clients: Vec<Vec<(ClientId, Client)>>,
    /// All reports about hard links: time, station, client and report.
    pub story: Vec<(Time, usize, usize, String)>,
    pub arrivals: Vec<(usize, Time)>,
    pub received: Vec<usize>,
    pub confirmed: Vec<usize>,
    pub rejected: Vec<usize>,
    waveform: Waveform,
}

impl Band {
    pub fn new(waveform: &str, stations: usize) -> Self {
        Self::on(waveform, stations, Channel::Clear, 1)
    }

    pub fn on(waveform: &str, stations: usize, channel: Channel, seed: u64) -> Self {
        let waveform: Waveform = waveform.parse().expect("a waveform");
        let medium = Medium::new(Config { channel, ..Config::default() }, stations, seed);
        let nodes =
            (0..stations).map(|at| new_node(Time::ZERO, waveform, at, address(at), stations));
        let net = Net::new(medium, nodes.collect());
        let mut band = Self {
            net,
            now: Time::ZERO,
            clients: (0..stations).map(|_| Vec::new()).collect(),
            story: Vec::new(),
            arrivals: Vec::new(),
            received: vec![0; stations],
            confirmed: vec![0; stations],
            rejected: vec![0; stations],
            waveform,
        };
        for at in 0..stations {
            band.connect(at);
        }
        band
    }

    fn connect(&mut self, at: usize) {
        let now = self.now;
        let clients = RANKS.iter().enumerate().map(|(number, &rank)| {
            let id = self.net.at(now, StationId(at), |node| node.handle_connected(now));
            let config = client::Config { rank, ..client::Config::new(sap(number)) };
            let mut client = Client::new(config);
            client.handle_connected(now);
            (id.expect("room for a client"), client)
        });
        self.clients[at] = clients.collect();
        self.settle();
    }

    /// The station stops and starts anew, with new clients.
    pub fn restart(&mut self, at: usize) {
        self.replace(at, address(at));
    }

    /// Another station takes its place.
    pub fn replace(&mut self, at: usize, by: Address) {
        let node = new_node(self.now, self.waveform, at, by, self.clients.len());
        if self.net.medium().is_transmitting(StationId(at)) {
            self.net.medium_mut().end(StationId(at));
        }
        self.net.at(self.now, StationId(at), |old| *old = node);
        self.connect(at);
    }

    pub fn establish(&mut self, at: usize, kind: LinkKind, priority: u8, remote: Address) {
        let link = HardLink { kind, priority, remote_sap: sap(OTHER), remote };
        self.clients[at][OWNER].1.establish(link);
        self.settle();
    }

    pub fn terminate(&mut self, at: usize, peer: usize) {
        self.clients[at][OWNER].1.terminate(address(peer));
        self.settle();
    }

    pub fn unbind(&mut self, at: usize, client: usize) {
        self.clients[at][client].1.unbind();
        self.settle();
    }

    pub fn send(&mut self, from: usize, client: usize, to: usize, priority: u8) {
        let send = client::Send {
            to: address(to),
            to_sap: sap(OTHER),
            priority,
            is_expedited: false,
            service: Some(Service::ARQ),
            ttl: Duration::ZERO,
            u_pdu: &[7; 300],
        };
        self.clients[from][client].1.send(self.now, send).expect("the client takes it");
        self.settle();
    }

    pub fn node(&self, at: usize) -> &Node {
        self.net.node(StationId(at))
    }

    /// The reports about hard links to a client.
    pub fn told(&self, at: usize, client: usize) -> Vec<String> {
        let its = self.story.iter().filter(|(_, one, number, _)| (*one, *number) == (at, client));
        its.map(|(.., what)| what.clone()).collect()
    }

    /// Hard links that are up, each known at both of its ends and nowhere else.
    pub fn hard_links(&self) -> usize {
        let stations = 0..self.clients.len();
        let ends: Vec<_> = stations
            .filter_map(|at| Some((address(at), self.node(at).sis().hard_link()?)))
            .collect();
        for (at, link) in &ends {
            let is_other = |(other, same): &&(Address, HardLink)| {
                (*other, same.remote) == (link.remote, *at)
                    && (same.kind, same.priority) == (link.kind, link.priority)
            };
            assert!(ends.iter().any(|end| is_other(&end)), "only {at} knows of {link:?}");
        }
        ends.len() / 2
    }

    /// How long a station waited for each U_PDU since the one before.
    pub fn waits(&self, at: usize, from: Time) -> Vec<Duration> {
        let times = self.arrivals.iter().filter(|(one, _)| *one == at).map(|(_, at)| *at);
        let times: Vec<Time> = std::iter::once(from).chain(times.filter(|at| *at > from)).collect();
        times.windows(2).map(|pair| pair[1].since(pair[0])).collect()
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.net.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.net.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// Carries octets between clients and nodes until nothing is left; a client asked for a hard link accepts.
    fn settle(&mut self) {
        let now = self.now;
        let mut is_busy = true;
        while std::mem::take(&mut is_busy) {
            for (at, clients) in self.clients.iter_mut().enumerate() {
                let station = StationId(at);
                for (number, (id, client)) in clients.iter_mut().enumerate() {
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
                        let what = match event {
                            client::Event::Received(_) => {
                                self.received[at] += 1;
                                self.arrivals.push((at, now));
                                continue;
                            }
                            client::Event::Confirmed(_) => {
                                self.confirmed[at] += 1;
                                continue;
                            }
                            client::Event::Rejected { .. } => {
                                self.rejected[at] += 1;
                                continue;
                            }
                            client::Event::HardLink(HardLinkEvent::Established(_)) => {
                                "established".into()
                            }
                            client::Event::HardLink(HardLinkEvent::Rejected(why, _)) => {
                                format!("rejected: {why}")
                            }
                            client::Event::HardLink(HardLinkEvent::Terminated(why, _)) => {
                                format!("terminated: {why}")
                            }
                            client::Event::HardLink(HardLinkEvent::Indicated(link)) => {
                                is_busy = true;
                                client.answer(link, None);
                                continue;
                            }
                            _ => continue,
                        };
                        self.story.push((now, at, number, what));
                    }
                }
            }
        }
    }
}

fn new_node(now: Time, waveform: Waveform, at: usize, address: Address, stations: usize) -> Node {
    let mut config = node::Config::new(address, waveform);
    if stations > 2 {
        let [position, stations] = [at, stations].map(|it| u8::try_from(it).expect("a few"));
        config.access = Access::Slotted { position, stations };
    }
    Node::new(now, config, Rng::stream(now.as_nanos() + at as u64, "node"))
}

pub fn address(at: usize) -> Address {
    Address::node(u32::try_from(at + 1).expect("a few"))
}

fn sap(client: usize) -> Sap {
    Sap::new(u8::try_from(client + 1).expect("a few"))
}
