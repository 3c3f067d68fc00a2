//! Several stations on one frequency, each with an HF-PEP, and transfers between them that never end.

use std::collections::BTreeMap;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use hf::hfpep::{Config, Event, HfPep, Opening, SessionId, Target};
use hf::modem::Waveform;
use hf::s5066::node;
use hf::s5066::sis::ClientId;
use hf::s5066::{Address, Node};
use hf::slep::Options;
use sim::hf::{Channel, Medium, Net, StationId};

use super::super::{air, shared, station};

/// Stations on a shared frequency, and the pairs with transfers.
#[derive(Clone, Debug)]
pub struct Scene {
    pub waveform: Waveform,
    pub channel: Channel,
    pub stations: usize,
    pub transfers: Vec<(usize, usize)>,
}

/// Octets given to a stream in one go.
const PIECE: usize = 16 << 10;

impl Scene {
    /// Octets of each transfer that programs were given from `skipped` to `time`.
    pub fn run(&self, skipped: Duration, time: Duration, seed: u64) -> Vec<u64> {
        let mut run = Run::new(self, seed);
        run.until(Time::ZERO + skipped);
        let before = run.given.clone();
        run.until(Time::ZERO + time);
        run.given.iter().zip(before).map(|(octets, before)| octets - before).collect()
    }
}

struct Run {
    net: Net,
    now: Time,
    ends: Vec<End>,
    /// Octets delivered, for each transfer.
    given: Vec<u64>,
    noise: Vec<u8>,
}

/// The HF-PEP of a station.
struct End {
    id: ClientId,
    pep: HfPep,
    /// Transfers that it sends.
    out: Vec<SessionId>,
    /// Incoming transfers, by their sessions.
    into: BTreeMap<SessionId, usize>,
}

impl Run {
    fn new(scene: &Scene, seed: u64) -> Self {
        let count = u8::try_from(scene.stations).expect("few stations");
        let nodes = (0..count).map(|position| {
            let config = station(number(position.into()), scene.waveform);
            let access = shared::access(position, count);
            let name = format!("node {position}");
            Node::new(Time::ZERO, node::Config { access, ..config }, Rng::stream(seed, &name))
        });
        let medium = Medium::new(air(scene.channel), scene.stations, seed);
        let mut net = Net::new(medium, nodes.collect());
        let ends = (0..scene.stations).map(|at| {
            let id = net.at(Time::ZERO, StationId(at), |node| {
                node.handle_connected(Time::ZERO).expect("a node takes few clients")
            });
            let rng = Rng::stream(seed, &format!("pep {at}"));
            let mut pep = HfPep::new(Time::ZERO, Config::default(), rng);
            pep.handle_connected(Time::ZERO);
            let mut end = End { id, pep, out: Vec::new(), into: BTreeMap::new() };
            end.open(&scene.transfers, at);
            end
        });
        let ends = ends.collect();
        let mut rng = Rng::stream(seed, "noise");
        let noise = (0..PIECE).map(|_| rng.bits().to_le_bytes()[0]).collect();
        Self { net, now: Time::ZERO, ends, given: vec![0; scene.transfers.len()], noise }
    }

    fn until(&mut self, end: Time) {
        loop {
            self.settle();
            let due = self.ends.iter().map(|end| end.pep.next_timeout()).fold(None, earliest);
            let next = earliest(self.net.next_timeout(), due).filter(|next| *next <= end);
            let Some(next) = next else { return };
            self.now = self.now.max(next);
            self.net.handle_timeout(self.now);
            self.ends.iter_mut().for_each(|end| end.pep.handle_timeout(self.now));
        }
    }

    /// Carries octets between programs, HF-PEPs and nodes until nothing is left.
    fn settle(&mut self) {
        let mut octets = Vec::new();
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for at in 0..self.ends.len() {
                self.ends[at].give(self.now, &self.noise);
                self.ends[at].take(self.now, &mut self.given);
                is_busy |= self.exchange(at, &mut octets);
            }
        }
    }

    fn exchange(&mut self, at: usize, octets: &mut Vec<u8>) -> bool {
        let (now, End { id, pep, .. }) = (self.now, &mut self.ends[at]);
        octets.clear();
        let has_sent = pep.poll_octets(now, octets);
        if has_sent {
            self.net.at(now, StationId(at), |node| node.handle_octets(now, *id, octets));
        }
        octets.clear();
        let has_received = self.net.at(now, StationId(at), |node| {
            while node.poll_event().is_some() {}
            node.poll_octets(now, *id, octets)
        });
        if has_received {
            pep.handle_octets(now, octets);
        }
        has_sent || has_received
    }
}

impl End {
    /// Opens the transfers of a station; ports say which each is.
    fn open(&mut self, transfers: &[(usize, usize)], at: usize) {
        for (place, (_, to)) in transfers.iter().enumerate().filter(|(_, (from, _))| *from == at) {
            let port = u16::try_from(place).expect("few transfers");
            let (source, destination) = (([10, 1, 0, 9], port).into(), ([10, 2, 0, 1], 443).into());
            let opening = Opening { target: Target::Address { source, destination }, tls: None };
            let peer = Address::node(number(*to));
            let session = self.pep.open(Time::ZERO, peer, opening, Options::default());
            self.out.push(session.expect("there are few"));
        }
    }

    /// Programs write as much as the node accepts.
    fn give(&mut self, now: Time, noise: &[u8]) {
        for session in &self.out {
            while self.pep.write(now, *session, noise) > 0 {}
        }
    }

    /// Programs read all there is.
    fn take(&mut self, now: Time, given: &mut [u64]) {
        let mut out = Vec::new();
        while let Some(event) = self.pep.poll_event() {
            match event {
                Event::Connect { session, opening, .. } => {
                    if let Target::Address { source, .. } = opening.target {
                        self.into.insert(session, source.port().into());
                    }
                    self.pep.accept(session);
                }
                Event::Readable(session) => {
                    let Some(place) = self.into.get(&session) else { continue };
                    loop {
                        out.clear();
                        let read = self.pep.read(now, session, &mut out, PIECE);
                        given[*place] += read.octets as u64;
                        if read.octets == 0 {
                            break;
                        }
                    }
                }
                Event::Finished(session) | Event::Reset(session, _) => {
                    // The octets of a broken transfer show that it broke.
                    self.out.retain(|it| *it != session);
                }
                Event::Accepted(_)
                | Event::Bound
                | Event::Close(_)
                | Event::FlowEnded(_)
                | Event::OtherVersion { .. }
                | Event::Refused(_)
                | Event::Sealing { .. }
                | Event::Unbound(_)
                | Event::Writable(_) => {}
            }
        }
    }
}

fn number(station: usize) -> u32 {
    u32::try_from(station).expect("few stations") + 1
}
