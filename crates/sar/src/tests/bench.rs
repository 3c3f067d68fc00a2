//! A net of nodes, whose datagrams arrive after a while or get lost.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use harness::keeps_time;

use crate::stats::{Sent, Stats};
use crate::wire::{Body, Pdu};
use crate::{
    Arrival, Config, Delivered, Event, Message, MessageId, Options, Outcome, Ports, Resume, Sar,
    Transmit,
};

/// Reaches all nodes.
pub const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 255));
pub const PORTS: Ports = Ports { source: 5_000, destination: 1_581 };

pub fn address(node: usize) -> IpAddr {
    let last = u8::try_from(node + 1).expect("a small net");
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

pub fn message(octets: usize) -> Message {
    let octet = |at: usize| (at * 7 + at / 251 + octets).to_le_bytes()[0];
    let data: Arc<[u8]> = (0..octets).map(octet).collect();
    Message { ports: PORTS, data }
}

/// What becomes of a datagram on its way to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Arrives,
    /// So much later than others.
    Delayed(Duration),
    Lost,
    Twice,
}

/// Decides the fate of what a node sends to another.
type Air = Box<dyn FnMut(usize, usize, &Pdu<'_>) -> Fate>;

pub struct Net {
    pub now: Time,
    pub nodes: Vec<Sar>,
    air: Air,
    delay: Duration,
    /// What a link that all datagrams of node 0 cross sends in a second, and when it is free.
    rate: Option<(f64, Time)>,
    under_way: BTreeMap<(Time, u64), (usize, Arrival, Vec<u8>)>,
    count: u64,
    /// What was sent, such as `0s 0>1 data 1/9 P`.
    pub story: Vec<String>,
    pub outcomes: Vec<(usize, MessageId, IpAddr, Outcome)>,
    pub started: Vec<(usize, MessageId, Option<IpAddr>, Resume)>,
    pub delivered: Vec<(usize, Delivered)>,
}

impl Net {
    pub fn new(nodes: usize, config: Config) -> Self {
        let now = Time::ZERO;
        let node = |node: usize| Sar::new(now, config, Some(100), rng(node));
        Self {
            now,
            nodes: (0..nodes).map(node).collect(),
            air: Box::new(|_, _, _| Fate::Arrives),
            delay: Duration::from_secs(1),
            rate: None,
            under_way: BTreeMap::new(),
            count: 0,
            story: Vec::new(),
            outcomes: Vec::new(),
            started: Vec::new(),
            delivered: Vec::new(),
        }
    }

    pub fn with_air(mut self, air: impl FnMut(usize, usize, &Pdu<'_>) -> Fate + 'static) -> Self {
        self.air = Box::new(air);
        self
    }

    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// What node 0 sends waits for a link of so many octets a second, headers of IP and UDP included.
    pub fn with_rate(mut self, rate: f64) -> Self {
        self.rate = Some((rate, Time::ZERO));
        self
    }

    /// Node 0 sends to the others, each by itself.
    pub fn send(&mut self, octets: usize, to: &[usize], options: Options) -> MessageId {
        self.send_from(0, octets, to, options)
    }

    pub fn send_from(
        &mut self,
        from: usize,
        octets: usize,
        to: &[usize],
        options: Options,
    ) -> MessageId {
        let to: Vec<IpAddr> = to.iter().map(|node| address(*node)).collect();
        let taken = self.nodes[from].submit(self.now, &message(octets), &to, options);
        taken.expect("the message is taken")
    }

    /// Runs until nothing is due before `until`.
    pub fn run(&mut self, until: Duration) {
        let until = Time::ZERO + until;
        loop {
            self.exchange();
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let due = self.nodes.iter().map(Sar::next_timeout).fold(arrival, earliest);
            match due {
                Some(due) if due <= until => self.step(due),
                _ => break,
            }
        }
        self.now = until;
    }

    /// Lets time pass up to `due` and does what is due then.
    pub fn step(&mut self, due: Time) {
        self.now = self.now.max(due);
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, arrival, octets) = entry.remove();
            let before = self.nodes[to].stats();
            let read = self.nodes[to].handle_datagram(self.now, arrival, &octets);
            read.expect("what a node sends can be read");
            assert_counted(&before, &self.nodes[to].stats(), &octets);
        }
        self.exchange();
    }

    /// When something is due next.
    pub fn next(&mut self) -> Option<Time> {
        self.exchange();
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
        self.nodes.iter().map(Sar::next_timeout).fold(arrival, earliest)
    }

    /// Takes what the nodes have, as their drivers do.
    pub fn exchange(&mut self) {
        let mut out = Vec::new();
        for node in 0..self.nodes.len() {
            keeps_time(&mut self.nodes[node], self.now, Sar::handle_timeout, Sar::next_timeout);
            self.take_events(node);
            loop {
                let before = self.nodes[node].stats().sent;
                let Some(transmit) = self.nodes[node].poll_transmit(self.now, &mut out) else {
                    break;
                };
                let after = self.nodes[node].stats().sent;
                assert_eq!(datagrams(&after), datagrams(&before) + 1, "{after:?}");
                assert_eq!(after.octets, before.octets + out.len() as u64, "{after:?}");
                self.carry(node, &transmit, &out);
                self.take_events(node);
            }
        }
    }

    fn take_events(&mut self, node: usize) {
        while let Some(event) = self.nodes[node].poll_event() {
            match event {
                Event::Outcome { id, destination, outcome } => {
                    self.outcomes.push((node, id, destination, outcome));
                }
                Event::Forgotten { .. } => {}
                Event::Received(delivered) => self.delivered.push((node, delivered)),
                Event::Started { id, destination, resume } => {
                    self.started.push((node, id, destination, resume));
                }
            }
        }
    }

    fn carry(&mut self, from: usize, transmit: &Transmit, octets: &[u8]) {
        let pdu = Pdu::parse(octets).expect("what a node sends can be read");
        let (is_group, precedence) = (transmit.to == GROUP, transmit.precedence);
        let to = if is_group { "*".to_owned() } else { name(transmit.to) };
        let seconds = self.now.since(Time::ZERO).as_secs();
        let mut delay = self.delay;
        if let Some((rate, free)) = self.rate.as_mut().filter(|_| from == 0) {
            let takes = Duration::from_secs_f64((octets.len() + 28) as f64 / *rate);
            *free = (*free).max(self.now) + takes;
            delay += free.since(self.now);
        }
        self.story.push(format!("{seconds}s {from}>{to} {}", said(&pdu)));
        for node in 0..self.nodes.len() {
            let is_listed =
                transmit.listed.as_ref().is_none_or(|listed| listed.contains(&address(node)));
            if node == from || !is_listed || !is_group && transmit.to != address(node) {
                continue;
            }
            let arrival = Arrival { from: address(from), is_group, precedence };
            let fate = (self.air)(from, node, &pdu);
            let copies = match fate {
                Fate::Arrives => vec![delay],
                Fate::Delayed(more) => vec![delay + more],
                Fate::Lost => vec![],
                Fate::Twice => vec![delay, delay * 3],
            };
            for delay in copies {
                self.count += 1;
                let key = (self.now + delay, self.count);
                self.under_way.insert(key, (node, arrival, octets.to_vec()));
            }
        }
    }

    /// What became of a message of node 0 for the others, in the order of nodes.
    pub fn fates(&self, id: MessageId) -> Vec<(usize, Outcome)> {
        let of = |node: usize| {
            let mut all =
                self.outcomes.iter().filter(move |it| (it.0, it.1, it.2) == (0, id, address(node)));
            let first = all.next().map(|it| (node, it.3));
            assert!(all.next().is_none(), "two outcomes for node {node}");
            first
        };
        (0..self.nodes.len()).filter_map(of).collect()
    }

    /// What was sent from one node on the way out, without times.
    pub fn said_by(&self, node: usize) -> Vec<String> {
        let from = format!(" {node}>");
        let mine = self.story.iter().filter(|line| line.contains(&from));
        mine.filter_map(|line| line.split_once(' ').map(|(_, what)| what.to_owned())).collect()
    }
}

/// A datagram that arrived is counted once, as what it is.
fn assert_counted(before: &Stats, after: &Stats, octets: &[u8]) {
    let kinds = |it: &Stats| {
        let (received, answered) = (&it.received, &it.answered);
        let asked = [received.segments, received.repairs, received.requests];
        (asked, [answered.partial, answered.complete])
    };
    let more = |of: fn(&([u64; 3], [u64; 2])) -> u64| of(&kinds(after)) - of(&kinds(before));
    let [segments, repairs, requests] =
        [more(|it| it.0[0]), more(|it| it.0[1]), more(|it| it.0[2])];
    let [partial, complete] = [more(|it| it.1[0]), more(|it| it.1[1])];
    let expected = match Pdu::parse(octets).expect("it was read").body {
        Body::Data { .. } => [1, 0, 0, 0, 0],
        Body::Repair { .. } => [0, 1, 0, 0, 0],
        Body::AckRequest { .. } => [0, 0, 1, 0, 0],
        Body::Partial { .. } => [0, 0, 0, 1, 0],
        Body::Complete { .. } => [0, 0, 0, 0, 1],
        Body::AbortConfirm { .. } | Body::AbortRequest { .. } => [0; 5],
    };
    assert_eq!([segments, repairs, requests, partial, complete], expected, "{after:?}");
}

/// Datagrams of all kinds that were counted.
fn datagrams(sent: &Sent) -> u64 {
    sent.segments + sent.again + sent.repairs + sent.requests + sent.answers
}

pub fn rng(node: usize) -> Rng {
    Rng::stream(node as u64, "sar")
}

fn name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => (v4.octets()[3] - 1).to_string(),
        IpAddr::V6(_) => address.to_string(),
    }
}

fn said(pdu: &Pdu<'_>) -> String {
    let flag = |is_set, name: &str| if is_set { format!(" {name}") } else { String::new() };
    match pdu.body {
        Body::AbortConfirm { is_final } => format!("confirm{}", flag(is_final, "F")),
        Body::AbortRequest { polls } => format!("abort{}", flag(polls, "P")),
        Body::AckRequest { last_sent } => format!("ask {last_sent}"),
        Body::Complete { is_final } => format!("complete{}", flag(is_final, "F")),
        Body::Data { is_acknowledged, polls, place, .. } => {
            let (number, last) = (place.number(), place.last());
            let kind = if is_acknowledged { "data" } else { "plain" };
            format!("{kind} {number}/{last}{}", flag(polls, "P"))
        }
        Body::Partial { is_final, mask } => {
            let above: Vec<u16> = mask.arrived().collect();
            let above = if above.is_empty() { String::new() } else { format!(" {above:?}") };
            format!("partial {}{above}{}", mask.start(), flag(is_final, "F"))
        }
        Body::Repair { polls, cover, .. } => {
            let (first, end) = (cover.first.number(), cover.end());
            format!("repair {first}-{end}{}", flag(polls, "P"))
        }
    }
}
