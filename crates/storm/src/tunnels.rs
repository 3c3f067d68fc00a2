//! The coded tunnel under storm: packets come out unchanged, once, in the order of their flow, and in the calm all do.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::ip::{Spec, protocol};
use base::rng::Rng;
use base::time::{Time, earliest};
use tunnel::{Config, Estimates, PATHS, PathId, Tunnel};

use crate::course::{Course, choice, log_count};
use crate::drive::{Cores, Kept, Sent, To, start};
use crate::words;

/// Packets in one burst of a user.
const BURST: std::ops::Range<usize> = 1..40;
const PAYLOADS: std::ops::Range<usize> = 8..1_300;
/// Flows of each end.
const FLOWS: usize = 3;
/// In the calm each end sends packets at this interval until a packet has come out at the other end.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// An end of the tunnel, with the packets sent and received.
#[derive(Debug)]
struct End {
    core: Tunnel,
    /// Numbers of datagrams sent.
    numbers: BTreeSet<u64>,
    /// Numbers of datagrams taken: the cipher below refuses a second copy.
    taken: BTreeSet<u64>,
    sent: u32,
    /// Packets from this end that came out at the other end, and the last packet of each flow.
    out: BTreeSet<u32>,
    last: BTreeMap<u8, u32>,
    /// The time of the next probe in the calm, the index of the first probe, and whether a probe came out.
    probe_at: Option<Time>,
    first_of_calm: u32,
    is_revived: bool,
    packets: BTreeMap<u32, Packet>,
}

/// A packet that an end took.
#[derive(Clone, Copy, Debug)]
struct Packet {
    flow: u8,
    payload: usize,
    /// Sources that either end had given up when the packet was sent.
    given_up: u64,
}

/// Both ends.
#[derive(Debug)]
pub struct Tunnels {
    config: Config,
    ends: Vec<End>,
    /// Counts restarts of both ends: the cipher below refuses datagrams of earlier keys.
    key: u8,
    reused: Option<String>,
}

impl Tunnels {
    pub fn new(course: &Course) -> Self {
        let mut rng = Rng::stream(course.seed, "storm tunnel");
        let mut config = Config::default();
        config.queue = course.limit(&mut rng, 3_000, config.queue);
        config.window = course.limit(&mut rng, 16, config.window);
        let now = start();
        let ends = (0..course.nodes).map(|node| End {
            core: Tunnel::new(now, config, Rng::stream(course.seed, &format!("tunnel {node}"))),
            numbers: BTreeSet::new(),
            taken: BTreeSet::new(),
            sent: 0,
            out: BTreeSet::new(),
            last: BTreeMap::new(),
            probe_at: None,
            first_of_calm: u32::MAX,
            is_revived: false,
            packets: BTreeMap::new(),
        });
        Self { config, ends: ends.collect(), key: 0, reused: None }
    }

    fn send(&mut self, now: Time, node: usize, payload: usize, flow: u8) {
        let given_up = self.given_up(node);
        let end = &mut self.ends[node];
        let packet = packet(node, payload, end.sent, flow);
        if end.core.handle_packet(now, &packet).is_ok() {
            end.packets.insert(end.sent, Packet { flow, payload, given_up });
        }
        end.sent += 1;
    }

    /// Sources from this end that either end has given up: packets behind them wait for neither.
    fn given_up(&self, from: usize) -> u64 {
        let [sender, receiver] = [from, 1 - from].map(|end| self.ends[end].core.stats());
        sender.sent.sources_expired + receiver.received.sources_given_up
    }
}

impl Cores for Tunnels {
    const CALM: Duration = Duration::from_secs(600);
    const IS_OPEN: bool = true;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        if rng.chance(0.05) {
            let Config { max_mtu, overhead, .. } = self.config;
            let place = usize::try_from(rng.below(PATHS as u64)).unwrap_or(0);
            let path = PathId::new(place).unwrap_or_default();
            let core = &mut self.ends[node].core;
            if rng.chance(0.5) {
                core.open_path(now, path, [max_mtu, overhead], rng.chance(0.3));
            } else {
                core.handle_path_changed(now, path, max_mtu, overhead);
            }
            return Ok(());
        }
        for _ in 0..log_count(rng, BURST) {
            let flow = rng.below(FLOWS as u64).to_le_bytes()[0];
            self.send(now, node, log_count(rng, PAYLOADS), flow);
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, _from: usize, octets: &[u8]) -> Kept {
        let numbered = octets.split_first().filter(|(key, _)| **key == self.key);
        let Some((number, payload)) = numbered.and_then(|(_, rest)| rest.split_first_chunk())
        else {
            return Ok(());
        };
        let number = u64::from_be_bytes(*number);
        let end = &mut self.ends[node];
        if end.taken.insert(number) {
            end.core.handle_datagram(now, number, false, payload);
        }
        Ok(())
    }

    /// The cipher refuses datagrams from strangers.
    fn forge(&mut self, _now: Time, _node: usize, _octets: &[u8]) {}

    /// Restarts both ends together: a new key does the same.
    fn restart(&mut self, now: Time, _node: usize, mut rng: Rng) -> Kept {
        self.key = self.key.wrapping_add(1);
        for (node, end) in self.ends.iter_mut().enumerate() {
            let rng = Rng::stream(rng.bits(), &format!("tunnel {node}"));
            end.core = Tunnel::new(now, self.config, rng);
            end.numbers.clear();
            end.taken.clear();
            end.last.clear();
            end.packets.clear();
            end.out.clear();
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        if self.ends[node].probe_at.is_some_and(|at| at <= now) {
            self.send(now, node, 200, 0);
            let end = &mut self.ends[node];
            end.probe_at = (!end.is_revived).then_some(now + PROBE_EVERY);
        }
        self.ends[node].core.handle_timeout(now);
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        let End { core, probe_at, .. } = &self.ends[node];
        earliest(core.next_timeout(), *probe_at)
    }

    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String> {
        let mut out = Vec::new();
        if !self.ends[node].core.poll_packet(now, &mut out) {
            return Ok(self.ends[node].core.poll_event().is_some());
        }
        let now_given_up = self.given_up(1 - node);
        let index = out.get(28..32).and_then(<[u8]>::first_chunk).map(|it| u32::from_be_bytes(*it));
        let other = &mut self.ends[1 - node];
        let sent = index.and_then(|index| Some((index, *other.packets.get(&index)?)));
        let Some((index, Packet { flow, payload, given_up })) = sent else {
            return Err(format!("corrupt: end {node} gives out what nobody sent"));
        };
        if out != packet(1 - node, payload, index, flow) {
            return Err(format!("corrupt: packet {index} comes out of end {node} changed"));
        }
        if !other.out.insert(index) {
            return Err(format!("twice: packet {index} comes out of end {node} twice"));
        }
        // A packet that comes after its source was given up is late: the packets behind it did not wait.
        let is_behind = other.last.get(&flow).is_some_and(|last| *last > index);
        if is_behind && given_up == now_given_up {
            return Err(format!("order: packet {index} comes out of end {node} after a later one"));
        }
        let last = other.last.entry(flow).or_insert(index);
        *last = index.max(*last);
        other.is_revived |= index >= other.first_of_calm;
        Ok(true)
    }

    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        let mut payload = Vec::new();
        let end = &mut self.ends[node];
        let mut paths = end.core.in_turn();
        let transmit = paths.find_map(|path| end.core.poll_transmit(now, path, &mut payload))?;
        if !end.numbers.insert(transmit.number) {
            self.reused = Some(format!("number: end {node} uses {} again", transmit.number));
        }
        if payload.len() + self.config.overhead > self.config.max_mtu {
            self.reused = Some(format!("mtu: end {node} sends {} octets", payload.len()));
        }
        out.push(self.key);
        out.extend(transmit.number.to_be_bytes());
        out.extend(payload);
        Some(Sent { to: To::One(1 - node), tag: transmit.number })
    }

    fn check(&self, node: usize) -> Kept {
        if let Some(why) = &self.reused {
            return Err(why.clone());
        }
        let estimates = self.ends[node].core.estimates();
        // A packet that is sent in parts has left the queue, and counts until its last part has gone.
        let most_queued = self.config.queue + self.config.max_mtu;
        if estimates.queued > most_queued || estimates.unacknowledged > self.config.window {
            let Estimates { queued, unacknowledged, .. } = estimates;
            return Err(format!(
                "bound: end {node} holds too much: {queued} octets, and {unacknowledged} sources that are not \
                 acknowledged"
            ));
        }
        Ok(())
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        let end = &mut self.ends[node];
        end.first_of_calm = end.sent;
        end.probe_at = Some(now + PROBE_EVERY);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.is_revived)
    }

    fn conclude(&self) -> Kept {
        match self.ends.iter().position(|end| !end.is_revived) {
            Some(node) => {
                let core = &self.ends[node].core;
                let (Estimates { queued, unacknowledged, .. }, stats) =
                    (core.estimates(), core.stats());
                let counted = words::counted(&stats);
                Err(format!(
                    "stuck: no packet of end {node} comes out without faults: {queued} octets wait, {unacknowledged} \
                     sources are not acknowledged; {counted}"
                ))
            }
            None => Ok(()),
        }
    }
}

/// A UDP packet with content derived from index, sender, length and flow.
fn packet(node: usize, payload: usize, index: u32, flow: u8) -> Vec<u8> {
    let host = |node: usize| IpAddr::V4(Ipv4Addr::new(10, 0, 0, if node == 0 { 1 } else { 2 }));
    let mut packet = Vec::new();
    Spec::new(host(node), host(1 - node), protocol::UDP).emit(8 + payload, &mut packet);
    let length = u16::try_from(8 + payload).expect("payloads are short");
    packet.extend_from_slice(&[0, 7, 0, flow + 9]);
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    let fill = choice(&mut Rng::stream(index.into(), "fill"), 256).to_le_bytes()[0];
    packet.extend(index.to_be_bytes().into_iter().chain(std::iter::repeat(fill)).take(payload));
    packet
}
