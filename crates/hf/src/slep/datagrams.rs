//! Datagrams: each for itself, repeated until it is acknowledged or not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::replay::Window;
use base::time::Time;

use super::timers::{DatagramId, Timer, Timers};
use super::wire::Addresses;
use crate::s5066::Address;

/// Size, in words, of the window of datagrams seen from one process.
const SEEN_WORDS: usize = 64;
/// Processes at another node whose datagrams are remembered.
const MOST_EPOCHS: usize = 4;
/// A number well above 0, so that any lower one can be rebuilt.
const ORIGIN: u64 = 1 << 32;
/// Reliable datagrams to one node that are not acknowledged, at most: well below what it remembers.
const MOST_OUTSTANDING: usize = 1_024;

/// How a datagram is carried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// 0 to 15, the highest.
    pub priority: u8,
    /// Whether it is repeated until the other end has acknowledged it, and an event tells.
    pub is_reliable: bool,
    /// Whether to compress the datagram, if compression makes it shorter.
    pub is_compressed: bool,
    /// How long the datagram is of use.
    pub lifetime: Duration,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            priority: 4,
            is_reliable: false,
            is_compressed: false,
            lifetime: Duration::from_secs(600),
        }
    }
}

/// A datagram that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// The node that sent it.
    pub from: Address,
    /// Which users it is between.
    pub addresses: Addresses,
    /// What it says.
    pub data: Vec<u8>,
}

/// A datagram that is to be sent, or to be acknowledged.
#[derive(Debug)]
pub struct Outgoing {
    pub to: Address,
    pub addresses: Addresses,
    pub delivery: Delivery,
    pub expires: Time,
    /// Number of a reliable datagram.
    pub number: Option<u16>,
    /// Whether the data is coded.
    pub is_coded: bool,
    pub data: Vec<u8>,
}

/// An outgoing datagram, and what becomes of it.
#[derive(Debug)]
struct Entry {
    outgoing: Outgoing,
    /// Times that it was repeated because nothing was heard.
    repeats: u32,
    /// The deadline that is noted.
    timer: Option<Time>,
}

/// The datagrams of this end.
#[derive(Debug, Default)]
pub struct Datagrams {
    counted: u64,
    outgoing: BTreeMap<DatagramId, Entry>,
    /// Those to be sent, the highest priority first.
    ready: BTreeSet<(Reverse<u8>, DatagramId)>,
    /// Octets of all outgoing datagrams.
    octets: usize,
    arrived: VecDeque<Datagram>,
    arrived_octets: usize,
}

impl Datagrams {
    pub fn push(&mut self, outgoing: Outgoing) -> DatagramId {
        self.counted += 1;
        let id = DatagramId(self.counted);
        self.octets += outgoing.data.len();
        self.outgoing.insert(id, Entry { outgoing, repeats: 0, timer: None });
        self.list(id);
        id
    }

    /// Whether another one of so many octets fits, where `most` octets may wait.
    pub fn has_room(&self, octets: usize, most: usize) -> bool {
        self.octets + octets <= most && self.outgoing.len() < most / 64
    }

    /// One that is to be sent, or to be acknowledged.
    pub fn get(&self, id: DatagramId) -> Option<&Outgoing> {
        self.outgoing.get(&id).map(|entry| &entry.outgoing)
    }

    /// How often one was repeated because nothing was heard.
    pub fn repeats(&self, id: DatagramId) -> Option<u32> {
        self.outgoing.get(&id).map(|entry| entry.repeats)
    }

    /// Notes in `timers` when to look at one, unless an earlier time is noted.
    pub fn watch(&mut self, timers: &mut Timers, id: DatagramId, at: Time) {
        if let Some(entry) = self.outgoing.get_mut(&id) {
            timers.set(&mut entry.timer, Some(at), Timer::Datagram(id));
        }
    }

    /// The noted time has come: the time at which the datagram is of no use any more.
    pub fn handle_timer(&mut self, id: DatagramId) -> Option<Time> {
        let entry = self.outgoing.get_mut(&id)?;
        entry.timer = None;
        Some(entry.outgoing.expires)
    }

    /// Schedules the retransmission of one.
    pub fn repeat(&mut self, id: DatagramId) {
        if let Some(entry) = self.outgoing.get_mut(&id) {
            entry.repeats += 1;
        }
        self.list(id);
    }

    /// A datagram is to be sent, perhaps again.
    pub fn list(&mut self, id: DatagramId) {
        if let Some(entry) = self.outgoing.get(&id) {
            self.ready.insert((Reverse(entry.outgoing.delivery.priority), id));
        }
    }

    /// The next one to send, and its priority.
    pub fn first(&self) -> Option<(DatagramId, u8)> {
        self.ready.first().map(|(Reverse(priority), id)| (*id, *priority))
    }

    pub fn unlist(&mut self, id: DatagramId, priority: u8) {
        self.ready.remove(&(Reverse(priority), id));
    }

    /// Forgets one, and the time noted in `timers`.
    pub fn remove(&mut self, timers: &mut Timers, id: DatagramId) -> Option<Outgoing> {
        let mut entry = self.outgoing.remove(&id)?;
        timers.clear(&mut entry.timer, Timer::Datagram(id));
        self.unlist(id, entry.outgoing.delivery.priority);
        self.octets -= entry.outgoing.data.len();
        Some(entry.outgoing)
    }

    /// Keeps a received datagram; returns whether there was room.
    pub fn arrive(&mut self, datagram: Datagram, most: usize) -> bool {
        let octets = datagram.data.len() + size_of::<Datagram>();
        let has_room = self.arrived_octets + octets <= most;
        if has_room {
            self.arrived_octets += octets;
            self.arrived.push_back(datagram);
        }
        has_room
    }

    pub fn poll(&mut self) -> Option<Datagram> {
        let datagram = self.arrived.pop_front()?;
        self.arrived_octets -= datagram.data.len() + size_of::<Datagram>();
        Some(datagram)
    }
}

/// What is known of the datagrams between here and another node.
#[derive(Debug, Default)]
pub struct Exchange {
    next: u16,
    /// Reliable datagrams the node has not acknowledged.
    outstanding: BTreeMap<u16, DatagramId>,
    /// Datagrams that wait until the node is tried again.
    parked: Vec<DatagramId>,
    seen: VecDeque<(u16, Window<SEEN_WORDS>)>,
    /// Reliable datagrams received and not yet acknowledged, by process.
    receipts: BTreeSet<(u16, u16)>,
}

impl Exchange {
    /// A datagram waits until the node is tried again.
    pub fn park(&mut self, id: DatagramId) {
        self.parked.push(id);
    }

    /// Takes the datagrams that wait until the node is tried again.
    pub fn take_parked(&mut self) -> Vec<DatagramId> {
        std::mem::take(&mut self.parked)
    }

    /// A number for a reliable datagram; `None` if too many are not acknowledged.
    pub fn number(&mut self) -> Option<u16> {
        let oldest = self.outstanding.keys().map(|number| self.next.wrapping_sub(*number)).max();
        if oldest.is_some_and(|age| usize::from(age) >= MOST_OUTSTANDING) {
            return None;
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        Some(number)
    }

    pub fn note(&mut self, number: u16, id: DatagramId) {
        self.outstanding.insert(number, id);
    }

    /// A reliable datagram is not waited for any more.
    pub fn settle(&mut self, number: u16) -> Option<DatagramId> {
        self.outstanding.remove(&number)
    }

    /// Whether a reliable datagram has come before.
    pub fn has_seen(&self, epoch: u16, number: u16) -> bool {
        self.seen.iter().any(|(seen, window)| {
            let number = window.rebuild(ORIGIN, 16, number.into());
            *seen == epoch && window.check(number).is_err()
        })
    }

    /// Notes that a reliable datagram came.
    pub fn see(&mut self, epoch: u16, number: u16) {
        if !self.seen.iter().any(|(seen, _)| *seen == epoch) {
            if self.seen.len() == MOST_EPOCHS {
                self.seen.pop_front();
            }
            self.seen.push_back((epoch, Window::new()));
        }
        if let Some((_, window)) = self.seen.iter_mut().find(|(seen, _)| *seen == epoch) {
            let number = window.rebuild(ORIGIN, 16, number.into());
            // Whether it is new was asked before.
            let _ = window.take(number);
        }
    }

    /// A datagram is to be acknowledged.
    pub fn owe(&mut self, epoch: u16, number: u16) {
        if self.receipts.len() < MOST_OUTSTANDING {
            self.receipts.insert((epoch, number));
        }
    }

    pub fn owes_anything(&self) -> bool {
        !self.receipts.is_empty()
    }

    /// Takes up to `most` pending receipts of one process.
    pub fn take_receipts(&mut self, most: usize) -> Option<(u16, Vec<[u8; 2]>)> {
        let (epoch, _) = *self.receipts.first()?;
        let mut numbers = Vec::new();
        while numbers.len() < most
            && let Some((first, number)) = self.receipts.first().copied()
            && first == epoch
        {
            self.receipts.pop_first();
            numbers.push(number.to_be_bytes());
        }
        Some((epoch, numbers))
    }
}
