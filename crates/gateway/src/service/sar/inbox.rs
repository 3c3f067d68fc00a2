//! Holds arrived messages until a program takes them, and knows the programs that want messages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sar::Source;

use super::clients::ClientId;
use super::store::Arrived;
use crate::config::sar::Service;

/// All that have arrived.
#[derive(Debug, Default)]
pub struct Inbox {
    all: BTreeMap<u64, Item>,
    octets: usize,
    /// Those that no program has, for each port, the most urgent first.
    ready: BTreeMap<u16, BTreeSet<(Reverse<u8>, u64)>>,
    /// Programs that want messages for a port, in turn; `None` is for all other ports.
    wanted: BTreeMap<Option<u16>, VecDeque<ClientId>>,
    /// What each program has and has not taken.
    held: BTreeMap<ClientId, BTreeSet<u64>>,
    /// Held messages by source: all messages, messages of strangers, and messages of strangers for ports that nobody
    /// receives.
    by_source: Holdings,
    of_strangers: Holdings,
    unwanted: Holdings,
    /// Sources with a message that a program has taken.
    familiar: BTreeSet<Source>,
}

/// Most sources remembered as familiar; the first ones stay.
const FAMILIAR: usize = 4_096;
/// One part in so many of the inbox is for all strangers together, and for their messages to ports that no program
/// receives.
const STRANGERS: usize = 2;
const UNWANTED: usize = 4;

/// What has arrived and is not inserted yet.
#[derive(Debug, Default)]
pub struct Batch {
    by_source: Holdings,
    of_strangers: Holdings,
    unwanted: Holdings,
}

impl Batch {
    pub fn add(&mut self, source: Source, standing: Standing, octets: usize) {
        self.by_source.add(source, octets);
        if standing >= Standing::Strange {
            self.of_strangers.add(source, octets);
        }
        if standing == Standing::Unwanted {
            self.unwanted.add(source, octets);
        }
    }
}

#[derive(Debug)]
struct Item {
    arrived: Arrived,
    holder: Option<ClientId>,
    /// Whether it is on the disk.
    is_stored: bool,
    standing: Standing,
}

/// How a message stands that arrives.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Standing {
    /// Its source is known.
    Familiar,
    /// Its source is a stranger.
    Strange,
    /// The same, and no program receives its port.
    Unwanted,
}

impl Inbox {
    /// Takes a message; no program gets the message before it is stored.
    pub fn insert(&mut self, arrived: Arrived, standing: Standing) {
        let (number, source) = (arrived.number, Source::of(arrived.source));
        let octets = arrived.data.len();
        self.octets += octets;
        self.by_source.add(source, octets);
        if standing >= Standing::Strange {
            self.of_strangers.add(source, octets);
        }
        if standing == Standing::Unwanted {
            self.unwanted.add(source, octets);
        }
        self.all.insert(number, Item { arrived, holder: None, is_stored: false, standing });
    }

    /// How a message for a port stands, whose source `is_known` in another way or is not.
    pub fn standing(&self, source: Source, port: u16, is_known: bool) -> Standing {
        if is_known || self.familiar.contains(&source) {
            return Standing::Familiar;
        }
        match self.wanted.contains_key(&Some(port)) || self.wanted.contains_key(&None) {
            true => Standing::Strange,
            false => Standing::Unwanted,
        }
    }

    /// Whether a source may have more here beside a batch. Each source leaves others at least as much room as it
    /// takes; all strangers together leave half to familiar sources; and messages without a receiver leave half of
    /// the strangers' room to messages with a receiver.
    pub fn admits(
        &self,
        batch: &Batch,
        source: Source,
        standing: Standing,
        service: &Service,
    ) -> bool {
        let most = Amount { messages: service.inbox, octets: service.inbox_octets };
        let is_below = |all: &Holdings, batch: &Holdings, divisor| {
            all.admits(source, most.part(divisor), batch)
        };
        is_below(&self.by_source, &batch.by_source, 1)
            && (standing < Standing::Strange
                || is_below(&self.of_strangers, &batch.of_strangers, STRANGERS))
            && (standing < Standing::Unwanted
                || is_below(&self.unwanted, &batch.unwanted, UNWANTED))
    }

    /// A source is no stranger.
    pub fn meet(&mut self, source: Source) {
        if self.familiar.len() < FAMILIAR {
            self.familiar.insert(source);
        }
    }

    /// A message is on the disk.
    pub fn handle_stored(&mut self, number: u64) {
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
    pub fn want(&mut self, client: ClientId, port: Option<u16>) {
        let wanting = self.wanted.entry(port).or_default();
        if !wanting.contains(&client) {
            wanting.push_back(client);
        }
    }

    /// The next message that a program gets; `has_room` says whether one can have so many octets more.
    pub fn next(
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
    pub fn take_if(
        &mut self,
        number: u64,
        is_ours: impl FnOnce(&Arrived) -> bool,
    ) -> Option<Arrived> {
        self.all.get(&number).filter(|item| is_ours(&item.arrived))?;
        self.remove(number)
    }

    /// A program has taken a message; false if the program does not hold this message.
    pub fn take(&mut self, client: ClientId, number: u64) -> bool {
        if self.all.get(&number).is_none_or(|item| item.holder != Some(client)) {
            return false;
        }
        if let Some(held) = self.held.get_mut(&client) {
            held.remove(&number);
        }
        if let Some(arrived) = self.remove(number) {
            self.meet(Source::of(arrived.source));
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<Arrived> {
        let Item { arrived, standing, .. } = self.all.remove(&number)?;
        let (source, octets) = (Source::of(arrived.source), arrived.data.len());
        self.octets -= octets;
        self.by_source.remove(source, octets);
        if standing >= Standing::Strange {
            self.of_strangers.remove(source, octets);
        }
        if standing == Standing::Unwanted {
            self.unwanted.remove(source, octets);
        }
        Some(arrived)
    }

    /// A program is gone: messages that it has not taken are for other programs, or for itself when it comes back.
    pub fn forget_client(&mut self, client: ClientId) {
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

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn octets(&self) -> usize {
        self.octets
    }
}

// Counts each source's share of a bounded place, so that no source takes everything.

/// Messages and octets by source.
#[derive(Debug, Default)]
pub struct Holdings {
    by: BTreeMap<Source, Amount>,
    total: Amount,
}

/// A number of messages and of their octets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amount {
    pub messages: usize,
    pub octets: usize,
}

impl Amount {
    /// A part of it.
    pub fn part(self, divisor: usize) -> Self {
        Self { messages: self.messages.div_ceil(divisor), octets: self.octets.div_ceil(divisor) }
    }

    /// Both together.
    fn with(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, octets: self.octets + other.octets }
    }

    /// This amount less another one, but not below zero.
    fn without(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            octets: self.octets.saturating_sub(other.octets),
        }
    }

    /// Whether this amount is less than another one, in messages and in octets.
    fn is_below(self, other: Self) -> bool {
        self.messages < other.messages && self.octets < other.octets
    }
}

impl Holdings {
    pub fn add(&mut self, source: Source, octets: usize) {
        for amount in [self.by.entry(source).or_default(), &mut self.total] {
            amount.messages += 1;
            amount.octets += octets;
        }
    }

    pub fn remove(&mut self, source: Source, octets: usize) {
        let Some(own) = self.by.get_mut(&source) else { return };
        let one = Amount { messages: 1, octets };
        *own = own.without(one);
        if own.messages == 0 {
            self.by.remove(&source);
        }
        self.total = self.total.without(one);
    }

    /// Whether a source may hold more, of `most` in all: no more than the source leaves to others. The holdings in
    /// `more` count as well.
    pub fn admits(&self, source: Source, most: Amount, more: &Self) -> bool {
        let own = self.of(source).with(more.of(source));
        own.is_below(most.without(self.total).without(more.total))
    }

    fn of(&self, source: Source) -> Amount {
        self.by.get(&source).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use sar::{Ending, Ports, Remembered};

    use super::*;

    fn arrived(number: u64, source: IpAddr) -> Arrived {
        let ports = Ports::default();
        let (serial, last, fingerprint, ending) = (0, 1, 0, Ending::Delivered);
        let identity = Remembered { source, serial, ports, last, fingerprint, ending };
        let data = [0; 10].into();
        Arrived { number, source, ports, precedence: 0, at: 0, identity, data }
    }

    #[test]
    fn strangers_leave_room_to_each_other_and_half_to_those_that_are_familiar() {
        let service = Service { inbox: 100, ..Service::default() };
        let mut inbox = Inbox::default();
        let mut number = 0;
        let mut fill = |inbox: &mut Inbox, node: u8, port: u16| {
            let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, node));
            let (source, before) = (Source::of(address), inbox.len());
            loop {
                let standing = inbox.standing(source, port, false);
                if !inbox.admits(&Batch::default(), source, standing, &service) {
                    return inbox.len() - before;
                }
                number += 1;
                inbox.insert(arrived(number, address), standing);
            }
        };
        inbox.meet(Source::V4(u32::from_be_bytes([10, 0, 0, 9])));
        let client = ClientId::default();
        inbox.want(client, Some(7));

        assert_eq!([1, 2, 3].map(|node| fill(&mut inbox, node, 5)), [13, 6, 3]);
        let rest: usize = (10..200).map(|node| fill(&mut inbox, node, 5)).sum();
        assert_eq!(rest, 3, "a quarter for what nobody receives, wherever it comes from");
        let rest: usize = (10..200).map(|node| fill(&mut inbox, node, 7)).sum();
        assert_eq!(rest, 25, "strangers have fifty");
        assert_eq!(fill(&mut inbox, 9, 5), 25);

        // A program takes a message of one stranger: this source is familiar from now on.
        inbox.want(client, None);
        inbox.handle_stored(1);
        assert!(inbox.next(&service, |_, _| true).is_some_and(|(_, it)| it.number == 1));
        assert!(inbox.take(client, 1));
        let source = Source::V4(u32::from_be_bytes([10, 0, 0, 1]));
        assert_eq!(inbox.standing(source, 5, false), Standing::Familiar);
        assert_eq!((inbox.len(), inbox.octets()), (74, 740));
    }
}

#[cfg(test)]
mod holdings_tests {
    use super::*;

    #[test]
    fn a_source_leaves_as_much_to_others_as_it_takes() {
        let most = Amount { messages: 100, octets: 1_000_000 };
        let (mut holdings, none) = (Holdings::default(), Holdings::default());
        let mut fill = |source, octets| {
            let source = Source::V4(source);
            let mut count = 0;
            while holdings.admits(source, most, &none) {
                holdings.add(source, octets);
                count += 1;
            }
            count
        };

        assert_eq!([fill(1, 1), fill(1, 1), fill(2, 1), fill(3, 1)], [50, 0, 25, 13]);
        assert_eq!(fill(4, 500_000), 1, "octets count as well");
        (0..50).for_each(|_| holdings.remove(Source::V4(1), 1));
        assert!(holdings.admits(Source::V4(2), most, &none));
        assert!(!holdings.by.contains_key(&Source::V4(1)));
    }
}
