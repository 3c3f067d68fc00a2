//! Bulk between two nodes with a client each: one client sends whatever its node accepts.
//!
//! The use of the frequency is measured from the start of one transmission of the sender to the start of a later
//! transmission, so that every transmission counts with its answer.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::Waveform;
use hf::s5066::node::{Record, Stats};
use hf::s5066::sis::{Client, ClientId, Mode, Sap, Service, client};
use hf::s5066::{Address, Node};
use sim::hf::{Channel, Medium, Net, StationId};

use super::radio;

/// Octets of a U_PDU: the MTU of STANAG 5066.
pub const U_PDU: usize = 2_048;
/// Octets that C_PDU and S_PDU add to a U_PDU (Annexes A and B).
const ENVELOPE: usize = 1 + 3;
/// Octets by which a data frame exceeds its segment, with addresses of one octet (Annex C, 3.2).
const FRAME: usize = 16;
/// Octets of a segment at most (Annex C, 3.2).
const LONGEST_SEGMENT: u64 = 1_023;

const SENDER: StationId = StationId(0);
const RECEIVER: StationId = StationId(1);
const SAP: Sap = Sap::new(12);
/// The time after which a run counts as stuck.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);

/// A run of bulk data over a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bulk {
    pub waveform: Waveform,
    pub channel: Channel,
    /// The time from the command to transmit until the preamble, at both stations.
    pub key_up: Duration,
    /// Transmissions before the measurement: the call, and the transmissions that adapt the length of segments.
    pub skipped: u64,
    /// Transmissions that are measured.
    pub measured: u64,
}

/// The use of the time of the measured transmissions, as shares that add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// U_PDUs that were delivered.
    pub data: f64,
    /// Headers of all layers, and acknowledgements.
    pub protocol: f64,
    /// Time without blocks of the sender: preambles, both turnarounds, the answer.
    pub turnaround: f64,
    /// Octets of blocks without frames, or with padding frames.
    pub padding: f64,
    /// Retransmitted frames.
    pub loss: f64,
    /// The mean time of a transmission with its answer, in seconds.
    pub cycle_s: f64,
}

/// Simulates bulk data over a link until the sender has made this many transmissions, and returns
/// the simulated seconds. It serves to measure the speed of the simulator.
///
/// The result is `None` if the link was lost before.
#[must_use]
pub fn simulate_bulk(
    waveform: Waveform,
    channel: Channel,
    transmissions: u64,
    seed: u64,
) -> Option<f64> {
    let key_up = radio::FASTEST;
    let bulk = Bulk { waveform, channel, key_up, skipped: 0, measured: transmissions };
    let mut pair = Pair::new(&bulk, seed);
    pair.run_until(transmissions)?;
    Some(pair.now.as_secs_f64())
}

impl Bulk {
    /// Over a clear link, with the fastest radios.
    pub fn clear(speed: u32) -> Self {
        let waveform = radio::waveform(speed);
        let channel = Channel::Clear;
        Self { waveform, channel, key_up: radio::FASTEST, skipped: 5, measured: 10 }
    }

    /// Runs it; `None` if not all transmissions were made.
    pub fn run(&self, seed: u64) -> Option<Use> {
        let mut pair = Pair::new(self, seed);
        let from = pair.run_until(self.skipped)?;
        let until = pair.run_until(self.skipped + self.measured)?;
        Some(self.between(&from, &until))
    }

    /// The records of both stations during this many transmissions, including the call.
    pub fn exchange(&self, seed: u64, transmissions: u64) -> Vec<(String, Vec<Record>)> {
        let mut pair = Pair::new(self, seed);
        for station in [SENDER, RECEIVER] {
            pair.net.at(Time::ZERO, station, |node| node.record(true));
        }
        let _ = pair.run_until(transmissions);
        let mut records = |station| {
            let now = pair.now;
            pair.net.at(now, station, |node| std::iter::from_fn(|| node.poll_record()).collect())
        };
        vec![("sender".to_owned(), records(SENDER)), ("receiver".to_owned(), records(RECEIVER))]
    }

    /// The highest possible share of U_PDUs: transmissions of full length, answers of one block, the
    /// medium's delays, the best length of segments, one retransmission of each lost frame.
    pub fn limit(&self) -> f64 {
        let block = self.waveform.block_time();
        let sent = self.sent(self.longest());
        let cycle = sent + (self.turn() * 2 + block).as_secs_f64();
        let ber = if let Channel::Ber(ber) = self.channel { ber } else { 0.0 };
        let per_u_pdu = |frames: usize| {
            let octets = (U_PDU + ENVELOPE) as f64 + (frames * FRAME) as f64;
            let bits = 8.0 * octets / frames as f64;
            U_PDU as f64 / octets * libm::exp(bits * libm::log1p(-ber))
        };
        let best = (3..=32).map(per_u_pdu).fold(0.0, f64::max);
        sent / cycle * best
    }

    /// The least seconds for delivering `octets` over a link that is down: transmissions of whole blocks with the
    /// least headers and nothing sent twice, and an answer of one block between any two transmissions. Setting the
    /// link up counts as free.
    pub fn least(&self, octets: u64) -> f64 {
        let u_pdus = octets.div_ceil(U_PDU as u64).max(1);
        let segments = octets + u_pdus * ENVELOPE as u64;
        let frames = segments.div_ceil(LONGEST_SEGMENT);
        let bits = 8.0 * (segments + frames * FRAME as u64) as f64;
        let block = self.waveform.block_time().as_secs_f64();
        let blocks = (bits / f64::from(self.waveform.bits_per_s()) / block).ceil();
        let sent = blocks * block;
        let further = (sent / self.sent(self.longest())).ceil() - 1.0;
        let turn = self.turn().as_secs_f64();
        sent + turn + further * (2.0 * turn + block)
    }

    /// From the command to transmit until the other station has decoded a block, less the block.
    fn turn(&self) -> Duration {
        let timing = radio::air(self.channel, self.key_up).timing;
        timing.key_up + self.waveform.preamble() + timing.propagation + timing.decoder
    }

    /// The key-up with which `turnaround` of the time has no blocks of the sender, if transmissions last
    /// `longest` and everything else is as in this run. Each cycle has two key-ups, so half of the
    /// additional time is one.
    pub fn key_up_of(&self, turnaround: f64, longest: Duration, seed: u64) -> Duration {
        let used = self.run(seed).expect("a clear link carries bulk");
        let wanted = self.sent(longest) * turnaround / (1.0 - turnaround);
        let more = wanted - used.turnaround * used.cycle_s;
        Duration::from_secs_f64((self.key_up.as_secs_f64() + more / 2.0).max(0.0))
    }

    /// The longest allowed transmission.
    pub fn longest(&self) -> Duration {
        radio::station(1, self.waveform, self.key_up).longest
    }

    /// Seconds of blocks in a transmission that lasts `longest`.
    fn sent(&self, longest: Duration) -> f64 {
        let block = self.waveform.block_time();
        let blocks = (longest - self.waveform.preamble()).as_nanos() / block.as_nanos();
        block.as_secs_f64() * blocks as f64
    }

    fn between(&self, from: &Snapshot, until: &Snapshot) -> Use {
        let rate = f64::from(self.waveform.bits_per_s());
        let time = until.at.since(from.at).as_secs_f64();
        let share = |octets: u64| octets as f64 * 8.0 / rate / time;
        let on = until.stats.keyed - from.stats.keyed;
        let turns = until.stats.transmissions - from.stats.transmissions;
        let blocks = on.as_secs_f64() - self.waveform.preamble().as_secs_f64() * turns as f64;
        let octets = |stats: &Stats| {
            let sent = stats.sent;
            sent.ack.octets + sent.control.octets + sent.data.octets + sent.repeat.octets
        };
        let frames = share(octets(&until.stats) - octets(&from.stats));
        let data = share(until.delivered - from.delivered);
        let loss = share(until.stats.sent.repeat.octets - from.stats.sent.repeat.octets);
        Use {
            data,
            protocol: frames - loss - data,
            turnaround: 1.0 - blocks / time,
            padding: blocks / time - frames,
            loss,
            cycle_s: time / turns as f64,
        }
    }
}

/// The state at the start of a transmission.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    at: Time,
    /// The counters of the sending node.
    stats: Stats,
    /// Octets of U_PDUs that the receiving client has received.
    delivered: u64,
}

/// The nodes with their clients.
struct Pair {
    net: Net,
    now: Time,
    clients: [(ClientId, Client); 2],
    u_pdu: [u8; U_PDU],
    delivered: u64,
}

impl Pair {
    fn new(bulk: &Bulk, seed: u64) -> Self {
        let medium = Medium::new(radio::air(bulk.channel, bulk.key_up), 2, seed);
        let nodes = [1, 2].map(|address| {
            let config = radio::station(address, bulk.waveform, bulk.key_up);
            Node::new(Time::ZERO, config, Rng::stream(seed, &format!("node {address}")))
        });
        let mut net = Net::new(medium, nodes.into());
        let clients = [SENDER, RECEIVER].map(|station| {
            let id = net.at(Time::ZERO, station, |node| {
                node.handle_connected(Time::ZERO).expect("a node takes its first client")
            });
            let mut client = Client::new(client::Config::new(SAP));
            client.handle_connected(Time::ZERO);
            (id, client)
        });
        let mut pair = Self { net, now: Time::ZERO, clients, u_pdu: [0x5a; U_PDU], delivered: 0 };
        pair.settle();
        pair
    }

    /// Runs until the transmission with this number, from 0, starts; `None` if it never does.
    fn run_until(&mut self, transmission: u64) -> Option<Snapshot> {
        while self.net.medium().stats(SENDER).transmissions <= transmission {
            let next = self.net.next_timeout().filter(|next| *next <= Time::ZERO + LONGEST)?;
            self.now = self.now.max(next);
            self.net.handle_timeout(self.now);
            self.settle();
        }
        let stats = *self.net.node(SENDER).stats();
        Some(Snapshot { at: self.now, stats, delivered: self.delivered })
    }

    /// Carries octets between clients and nodes, and sends while the sender's node takes more.
    fn settle(&mut self) {
        let now = self.now;
        let mut octets = Vec::new();
        loop {
            let mut is_busy = self.send();
            for (station, (id, client)) in [SENDER, RECEIVER].into_iter().zip(&mut self.clients) {
                octets.clear();
                if client.poll_octets(now, &mut octets) {
                    is_busy = true;
                    self.net.at(now, station, |node| node.handle_octets(now, *id, &octets));
                }
                octets.clear();
                if self.net.at(now, station, |node| {
                    while node.poll_event().is_some() {}
                    node.poll_octets(now, *id, &mut octets)
                }) {
                    is_busy = true;
                    client.handle_octets(now, &octets);
                }
                while let Some(event) = client.poll_event() {
                    if let client::Event::Received(received) = event {
                        self.delivered += received.u_pdu.len() as u64;
                    }
                }
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Hands one U_PDU to the sender's client if it takes one.
    fn send(&mut self) -> bool {
        let send = client::Send {
            to: Address::node(2),
            to_sap: SAP,
            priority: 0,
            is_expedited: false,
            service: Some(Service::of(Mode::Arq { in_order: false })),
            ttl: Duration::ZERO,
            u_pdu: &self.u_pdu,
        };
        self.clients[0].1.send(self.now, send).is_ok()
    }
}
