//! S/R under storm: each message delivered at most once across restarts, one outcome told, nobody locked out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use sar::{
    Arrival, Config, Event, Message, MessageId, NotTaken, Options, Outcome, Ports, Precedence,
    Profile, Remembered, Resume, Sar,
};

use crate::course::{Course, choice, log_count};
use crate::drive::{Cores, Kept, Sent, To, start};

/// Octets of a message.
const SIZES: std::ops::Range<usize> = 8..40_000;
const PORTS: Ports = Ports { source: 5_000, destination: 1_581 };

/// A message, and the users' knowledge about the message.
#[derive(Debug)]
struct Known {
    from: usize,
    to: usize,
    octets: usize,
    is_acknowledged: bool,
    has_lifetime: bool,
    outcome: Option<Outcome>,
    delivered: bool,
    /// Whether the message was sent after the faults had ended.
    is_of_calm: bool,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, octets, .. } = self;
        write!(f, "{octets} octets from node {from} to node {to}")?;
        for (is_so, what) in [
            (self.is_acknowledged, "with acknowledgement"),
            (self.has_lifetime, "with a lifetime"),
            (self.delivered, "has arrived"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

/// What became of a message.
fn ended(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Cancelled => "was cancelled",
        Outcome::Delivered => "was delivered",
        Outcome::Expired => "was too old",
        Outcome::Failed(_) => "was given up",
        Outcome::Sent => "was sent",
    }
}

/// A node, and the state stored by its driver across restarts.
#[derive(Debug)]
struct Node {
    sar: Sar,
    /// Messages without an outcome, with the state needed to resume their transfers.
    stored: BTreeMap<usize, Option<Resume>>,
    ids: BTreeMap<MessageId, usize>,
    received: Vec<Remembered>,
    /// The number of the transfer that began last.
    serial: Option<u16>,
}

/// The nodes and their messages.
#[derive(Debug)]
pub struct Messages {
    config: Config,
    nodes: Vec<Node>,
    messages: Vec<Known>,
}

impl Messages {
    pub fn new(course: &Course) -> Self {
        let mut rng = Rng::stream(course.seed, "storm sar");
        let rng = &mut rng;
        let profile = Profile::NAMES[choice(rng, Profile::NAMES.len())].1;
        let mut config = Config::of(profile);
        config.limits.waiting = course.limit(rng, 2, 1_000);
        config.flow.transfers = small(course.limit(rng, 2, config.flow.transfers.into()));
        let of_peer = small(course.limit(rng, 2, config.flow.transfers_of_peer.into()));
        config.flow.transfers_of_peer = of_peer.min(config.flow.transfers);
        config.limits.message = 1 << 20;
        let nodes = (0..course.nodes).map(|node| Node {
            sar: Sar::new(start(), config, None, Rng::stream(course.seed, &format!("sar {node}"))),
            stored: BTreeMap::new(),
            ids: BTreeMap::new(),
            received: Vec::new(),
            serial: None,
        });
        Self { config, nodes: nodes.collect(), messages: Vec::new() }
    }

    fn submit(&mut self, now: Time, number: usize, options: Options) -> bool {
        let Known { from, to, octets, .. } = self.messages[number];
        let node = &mut self.nodes[from];
        let message = Message { ports: PORTS, data: data(number, octets) };
        match node.sar.submit(now, &message, &[address(to)], options) {
            Ok(id) => {
                node.ids.insert(id, number);
                node.stored.insert(number, options.resume);
                true
            }
            Err(
                NotTaken::Empty
                | NotTaken::Full { .. }
                | NotTaken::NoDestination
                | NotTaken::SerialInUse { .. }
                | NotTaken::TooLarge { .. }
                | NotTaken::TooManyDestinations { .. },
            ) => false,
        }
    }

    fn send(
        &mut self,
        now: Time,
        from: usize,
        to: usize,
        octets: usize,
        options: Options,
        is_of_calm: bool,
    ) -> bool {
        self.messages.push(Known {
            from,
            to,
            octets,
            is_acknowledged: options.is_acknowledged,
            has_lifetime: options.lifetime.is_some(),
            outcome: None,
            delivered: false,
            is_of_calm,
        });
        let is_taken = self.submit(now, self.messages.len() - 1, options);
        if !is_taken {
            self.messages.pop();
        }
        is_taken
    }
}

impl Cores for Messages {
    const CALM: Duration = Duration::from_secs(4 * 3_600);
    const IS_OPEN: bool = true;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        if rng.chance(0.1)
            && let Some(id) = self.nodes[node].ids.keys().nth(choice(rng, 8)).copied()
        {
            self.nodes[node].sar.cancel(now, id);
            return Ok(());
        }
        let to = (node + 1 + choice(rng, self.nodes.len() - 1)) % self.nodes.len();
        let octets = log_count(rng, SIZES);
        let lifetime =
            rng.chance(0.3).then(|| Duration::from_secs_f64(1.0 + rng.uniform() * 900.0));
        let precedence = Precedence::new(rng.below(6).to_le_bytes()[0]);
        let is_acknowledged = rng.chance(0.9);
        let options = Options { precedence, lifetime, is_acknowledged, ..Options::default() };
        self.send(now, node, to, octets, options, false);
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept {
        let arrival =
            Arrival { from: address(from), is_group: false, precedence: Precedence::ROUTINE };
        let read = self.nodes[node].sar.handle_datagram(now, arrival, octets);
        read.map_err(|why| format!("unreadable: node {node} cannot read what {from} sent: {why}"))
    }

    fn forge(&mut self, now: Time, node: usize, octets: &[u8]) {
        let arrival =
            Arrival { from: stranger(), is_group: false, precedence: Precedence::ROUTINE };
        // The core counts unreadable datagrams.
        let _ = self.nodes[node].sar.handle_datagram(now, arrival, octets);
    }

    fn restart(&mut self, now: Time, node: usize, rng: Rng) -> Kept {
        let its = &mut self.nodes[node];
        let serial = its.serial.map(|last| last.wrapping_add(1));
        let mut config = self.config;
        // As the gateway does: every message of the earlier process finds room, also if all wait at first.
        config.limits.waiting = config.limits.waiting.max(its.stored.len());
        its.sar = Sar::new(now, config, serial, rng);
        its.ids.clear();
        for known in &its.received {
            its.sar.remember(now, *known);
        }
        let peers: BTreeSet<IpAddr> = its.received.iter().map(|known| known.source).collect();
        its.sar.announce(now, peers);
        for (number, resume) in self.nodes[node].stored.clone() {
            let Known { is_acknowledged, .. } = self.messages[number];
            let options = Options { resume, is_acknowledged, ..Options::default() };
            let is_taken = self.submit(now, number, options)
                || self.submit(now, number, Options { resume: None, ..options });
            if !is_taken {
                return Err(format!(
                    "lost: node {node} takes message {number} no more after a restart"
                ));
            }
            self.messages[number].has_lifetime = false;
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        self.nodes[node].sar.handle_timeout(now);
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        self.nodes[node].sar.next_timeout()
    }

    fn poll(&mut self, _now: Time, node: usize) -> Result<bool, String> {
        let its = &mut self.nodes[node];
        let Some(event) = its.sar.poll_event() else { return Ok(false) };
        match event {
            Event::Forgotten { source, serial } => {
                its.received.retain(|known| (known.source, known.serial) != (source, serial));
            }
            Event::Outcome { id, destination, outcome } => {
                let number = its.ids.remove(&id);
                let Some(number) = number else {
                    return Err(format!(
                        "outcome: node {node} tells that message {} {}, and has told its outcome",
                        id.0,
                        ended(outcome)
                    ));
                };
                its.stored.remove(&number);
                let known = &mut self.messages[number];
                if destination != address(known.to) {
                    return Err(format!("outcome: message {number} went to {destination}"));
                }
                if outcome == Outcome::Delivered && !known.delivered {
                    return Err(format!(
                        "untrue: message {number} is said to be delivered and is not"
                    ));
                }
                known.outcome = Some(outcome);
            }
            Event::Received(delivered) => {
                its.received.push(delivered.identity);
                if delivered.source == stranger() {
                    return Ok(true);
                }
                let number = delivered.data.first_chunk().map(|octets| u64::from_be_bytes(*octets));
                let number = number.and_then(|number| usize::try_from(number).ok());
                let known = number.and_then(|number| self.messages.get_mut(number));
                let Some((known, number)) = known.zip(number) else {
                    return Err(format!("corrupt: node {node} received what nobody sent"));
                };
                if (known.to, address(known.from)) != (node, delivered.source)
                    || delivered.data[..] != data(number, known.octets)[..]
                {
                    return Err(format!(
                        "corrupt: message {number} arrived changed at node {node}"
                    ));
                }
                if std::mem::replace(&mut known.delivered, true) {
                    return Err(format!("twice: message {number} was delivered twice"));
                }
            }
            Event::Started { id, resume, .. } => {
                its.serial = Some(resume.serial);
                if let Some(number) = its.ids.get(&id) {
                    its.stored.insert(*number, Some(resume));
                }
            }
        }
        Ok(true)
    }

    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        loop {
            let transmit = self.nodes[node].sar.poll_transmit(now, out)?;
            // Answers to strangers leave the net.
            let to = (0..self.nodes.len()).find(|to| address(*to) == transmit.to);
            if let Some(to) = to.filter(|to| *to != node) {
                return Some(Sent { to: To::One(to), tag: 0 });
            }
        }
    }

    fn check(&self, node: usize) -> Kept {
        let its = &self.nodes[node];
        let bound = self.config.limits.waiting;
        // Messages taken over from an earlier process are above any limit.
        if its.ids.len() > bound.max(its.stored.len()) {
            return Err(format!(
                "bound: node {node} holds {} messages, {bound} may wait",
                its.ids.len()
            ));
        }
        Ok(())
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        for to in (0..self.nodes.len()).filter(|to| *to != node) {
            self.nodes[node].sar.handle_way(now, address(to));
            self.send(now, node, to, 1_000, Options::default(), true);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.messages.iter().all(|known| known.outcome.is_some())
    }

    fn conclude(&self) -> Kept {
        let is_adaptive = self.config.profile == Profile::Default;
        for (number, known) in self.messages.iter().enumerate() {
            match known.outcome {
                None => return Err(format!("stuck: message {number} has no outcome: {known}")),
                // Other profiles have fixed timers, too short for a slow medium.
                Some(Outcome::Failed(_)) if known.is_of_calm && is_adaptive => {
                    return Err(format!("locked out: a message without faults failed: {known}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn small(count: usize) -> u16 {
    u16::try_from(count).expect("limits of S/R have 16 bits")
}

fn address(node: usize) -> IpAddr {
    let last = u8::try_from(node + 1).expect("a few nodes");
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn stranger() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 9, 9))
}

/// The octets of a message: its number, then a pattern derived from number and length.
fn data(number: usize, octets: usize) -> Arc<[u8]> {
    let head = (number as u64).to_be_bytes();
    let rest = (8..octets).map(|at| (at * 7 + at / 251 + number * 31 + octets).to_le_bytes()[0]);
    head.into_iter().chain(rest).collect()
}
