//! Messages that have arrived and that no program has taken yet, and which programs want them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::clients::ClientId;
use super::store::Arrived;
use crate::config::sar::Service;

/// All that have arrived.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    all: BTreeMap<u64, Item>,
    octets: usize,
    /// Those that no program has, for each port, the most urgent first.
    ready: BTreeMap<u16, BTreeSet<(Reverse<u8>, u64)>>,
    /// Who wants what comes for a port, in turn; `None` is for all other ports.
    wanted: BTreeMap<Option<u16>, VecDeque<ClientId>>,
    /// What each program has and has not taken.
    held: BTreeMap<ClientId, BTreeSet<u64>>,
}

#[derive(Debug)]
struct Item {
    arrived: Arrived,
    holder: Option<ClientId>,
    /// Whether it is on the disk.
    is_stored: bool,
}

impl Inbox {
    /// Takes a message; nobody gets it before it is stored.
    pub(super) fn insert(&mut self, arrived: Arrived) {
        self.octets += arrived.data.len();
        let number = arrived.number;
        self.all.insert(number, Item { arrived, holder: None, is_stored: false });
    }

    /// A message is on the disk.
    pub(super) fn handle_stored(&mut self, number: u64) {
        if let Some(item) = self.all.get_mut(&number) {
            item.is_stored = true;
        }
        self.make_ready(number);
    }

    fn make_ready(&mut self, number: u64) {
        if let Some(item) = self.all.get(&number).filter(|item| item.is_stored) {
            let port = item.arrived.ports.destination;
            let key = (Reverse(item.arrived.precedence), number);
            self.ready.entry(port).or_default().insert(key);
        }
    }

    /// A program wants what comes for a port.
    pub(super) fn want(&mut self, client: ClientId, port: Option<u16>) {
        let wanting = self.wanted.entry(port).or_default();
        if !wanting.contains(&client) {
            wanting.push_back(client);
        }
    }

    /// The next message that a program gets; `has_room` says whether one can have so many octets more.
    pub(super) fn next(
        &mut self,
        service: &Service,
        mut has_room: impl FnMut(ClientId, usize) -> bool,
    ) -> Option<(ClientId, &Arrived)> {
        let Self { all, ready, wanted, held, .. } = self;
        let mut found = None;
        for (port, numbers) in ready.iter() {
            let key = if wanted.contains_key(&Some(*port)) { Some(*port) } else { None };
            let Some(wanting) = wanted.get_mut(&key) else { continue };
            let Some((_, number)) = numbers.first() else { continue };
            let octets = all.get(number).map_or(0, |item| item.arrived.data.len());
            let is_free =
                |client: &ClientId| held.get(client).is_none_or(|held| held.len() < service.window);
            let turn = wanting.iter().position(|it| is_free(it) && has_room(*it, octets));
            if let Some(client) = turn.and_then(|turn| wanting.remove(turn)) {
                wanting.push_back(client);
                found = Some((client, *port, *number));
                break;
            }
        }
        let (client, port, number) = found?;
        if let Some(numbers) = ready.get_mut(&port) {
            numbers.pop_first();
            if numbers.is_empty() {
                ready.remove(&port);
            }
        }
        held.entry(client).or_default().insert(number);
        let item = all.get_mut(&number)?;
        item.holder = Some(client);
        Some((client, &item.arrived))
    }

    /// Takes a message that no program is to have.
    pub(super) fn take_if(
        &mut self,
        number: u64,
        is_ours: impl FnOnce(&Arrived) -> bool,
    ) -> Option<Arrived> {
        self.all.get(&number).filter(|item| is_ours(&item.arrived))?;
        let arrived = self.all.remove(&number)?.arrived;
        self.octets -= arrived.data.len();
        Some(arrived)
    }

    /// A program has taken a message; false if it does not have it.
    pub(super) fn take(&mut self, client: ClientId, number: u64) -> bool {
        if self.all.get(&number).is_none_or(|item| item.holder != Some(client)) {
            return false;
        }
        if let Some(held) = self.held.get_mut(&client) {
            held.remove(&number);
        }
        self.remove(number);
        true
    }

    fn remove(&mut self, number: u64) {
        if let Some(item) = self.all.remove(&number) {
            self.octets -= item.arrived.data.len();
        }
    }

    /// A program is gone: what it has not taken is for others, or for it when it comes back.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.wanted.retain(|_, wanting| {
            wanting.retain(|it| *it != client);
            !wanting.is_empty()
        });
        for number in self.held.remove(&client).unwrap_or_default() {
            if let Some(item) = self.all.get_mut(&number) {
                item.holder = None;
            }
            self.make_ready(number);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}
