//! Datagrams that wait for the node: by priority, then by age.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::ip::FlowKey;
use base::time::{Time, earliest};

use super::tcp::{Identity, Tcp};
use crate::s5066::Address;
use crate::s5066::sis::Mode;

const PRIORITIES: usize = 16;

#[derive(Debug)]
pub struct Queue {
    /// Octets at most.
    limit: usize,
    octets: usize,
    next: u64,
    classes: [VecDeque<Item>; PRIORITIES],
    /// No waiting datagram expires before this time; `None` while none can expire.
    expires: Option<Time>,
    /// Segments waiting here, or unconfirmed at the node.
    segments: BTreeSet<Identity>,
    /// Where a flow's last acknowledgement waits.
    acks: BTreeMap<FlowKey, (usize, u64)>,
}

/// A datagram that waits.
#[derive(Debug)]
pub struct Item {
    /// Grows along its class.
    number: u64,
    pub packet: Vec<u8>,
    pub to: Address,
    pub mode: Mode,
    pub priority: u8,
    pub expires: Option<Time>,
    pub tcp: Option<Tcp>,
}

/// The outcome of queueing a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pushed {
    /// The same segment is on its way.
    Absorbed,
    /// The datagram, or this many others of lower priority, found no room.
    Full(u64),
    /// It waits.
    Queued,
    /// The datagram took the place of an acknowledgement.
    Superseded,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            octets: 0,
            next: 0,
            classes: std::array::from_fn(|_| VecDeque::new()),
            expires: None,
            segments: BTreeSet::new(),
            acks: BTreeMap::new(),
        }
    }

    /// Takes a datagram. When there is no room, the youngest of the lowest priority has to go.
    pub fn push(&mut self, mut item: Item) -> Pushed {
        self.expires = earliest(self.expires, item.expires);
        let class = usize::from(item.priority) % PRIORITIES;
        match item.tcp {
            Some(Tcp::Data(identity)) if self.segments.contains(&identity) => {
                return Pushed::Absorbed;
            }
            Some(tcp @ Tcp::Ack { flow, .. }) => {
                if let Some(waiting) = self.waiting_ack(flow, class)
                    && tcp.replaces(waiting.tcp)
                {
                    item.number = waiting.number;
                    let before = std::mem::replace(waiting, item);
                    let now = waiting.packet.len();
                    self.octets = self.octets - before.packet.len() + now;
                    return Pushed::Superseded;
                }
            }
            Some(Tcp::Data(_)) | None => {}
        }

        let mut dropped = 0;
        while self.octets + item.packet.len() > self.limit {
            let lower = self.classes[..class].iter_mut().find(|class| !class.is_empty());
            let Some(youngest) = lower.and_then(VecDeque::pop_back) else {
                return Pushed::Full(dropped + 1);
            };
            self.octets -= youngest.packet.len();
            self.forget(&youngest);
            dropped += 1;
        }
        self.next += 1;
        item.number = self.next;
        match item.tcp {
            Some(Tcp::Data(identity)) => {
                self.segments.insert(identity);
            }
            Some(Tcp::Ack { flow, .. }) => {
                self.acks.insert(flow, (class, item.number));
            }
            None => {}
        }
        self.octets += item.packet.len();
        self.classes[class].push_back(item);
        if dropped > 0 { Pushed::Full(dropped) } else { Pushed::Queued }
    }

    fn waiting_ack(&mut self, flow: FlowKey, class: usize) -> Option<&mut Item> {
        let (its_class, number) = *self.acks.get(&flow)?;
        if its_class != class {
            return None;
        }
        let at = self.classes[class].binary_search_by_key(&number, |item| item.number).ok()?;
        self.classes[class].get_mut(at)
    }

    /// The highest priority among waiting datagrams.
    pub fn highest(&self) -> Option<u8> {
        self.classes.iter().rev().find_map(|class| Some(class.front()?.priority))
    }

    /// Takes the oldest datagram of the highest priority. The segment counts as on its way until [`Self::release`].
    pub fn pop(&mut self) -> Option<Item> {
        let item = self.classes.iter_mut().rev().find_map(VecDeque::pop_front)?;
        self.octets -= item.packet.len();
        self.forget_ack(&item);
        Some(item)
    }

    /// Puts back what was taken last.
    pub fn put_back(&mut self, item: Item) {
        self.expires = earliest(self.expires, item.expires);
        self.octets += item.packet.len();
        if let Some(Tcp::Ack { flow, .. }) = item.tcp {
            let class = usize::from(item.priority) % PRIORITIES;
            self.acks.entry(flow).or_insert((class, item.number));
        }
        self.classes[usize::from(item.priority) % PRIORITIES].push_front(item);
    }

    /// A segment is on its way no more.
    pub fn release(&mut self, tcp: Option<Tcp>) {
        if let Some(Tcp::Data(identity)) = tcp {
            self.segments.remove(&identity);
        }
    }

    /// Drops expired datagrams, and returns their number.
    pub fn expire(&mut self, now: Time) -> u64 {
        if self.expires.is_none_or(|at| at > now) {
            return 0;
        }
        self.expires = None;
        let mut expired = Vec::new();
        for class in &mut self.classes {
            let is_expired = |item: &Item| item.expires.is_some_and(|at| at <= now);
            for item in std::mem::take(class) {
                if is_expired(&item) {
                    expired.push(item);
                } else {
                    self.expires = earliest(self.expires, item.expires);
                    class.push_back(item);
                }
            }
        }
        for item in &expired {
            self.octets -= item.packet.len();
            self.forget(item);
        }
        expired.len() as u64
    }

    pub fn octets(&self) -> usize {
        self.octets
    }

    fn forget(&mut self, item: &Item) {
        self.release(item.tcp);
        self.forget_ack(item);
    }

    fn forget_ack(&mut self, item: &Item) {
        if let Some(Tcp::Ack { flow, .. }) = item.tcp
            && self.acks.get(&flow).is_some_and(|(_, number)| *number == item.number)
        {
            self.acks.remove(&flow);
        }
    }
}

impl Item {
    pub fn new(packet: &[u8], to: Address, mode: Mode, priority: u8) -> Self {
        let packet = packet.to_vec();
        Self { number: 0, packet, to, mode, priority, expires: None, tcp: None }
    }
}
