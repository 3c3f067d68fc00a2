//! Holds packets while a protocol searches for a route to their destination.
//!
//! ```text
//!  no route:  push ──▶ ┌─────────┐ ──▶ take      a route was found
//!                      │ Waiting │ ──▶ take      none was found: drop them, tell their senders
//!        next_timeout  └─────────┘ ──▶ expire    they waited too long
//! ```
//!
//! When there is no room, a new packet replaces the oldest: a transport repeats old data anyway, and wants the new.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

/// How much may wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Packets in all; AODV-UU in ns-2 has 512.
    pub packets: usize,
    /// Most packets for one destination: an unreachable destination must leave room for others.
    pub packets_per_destination: usize,
    /// Octets in all.
    pub octets: usize,
    /// How long a packet waits at most; AODV-UU in ns-2 has 10 s.
    pub age: Duration,
}

/// Packets that wait, by their destinations.
#[derive(Debug)]
pub struct Waiting<P> {
    config: Config,
    /// Waiting packets by number, in order of arrival.
    packets: BTreeMap<u64, Held<P>>,
    /// The numbers of the packets for a destination, oldest first; never empty.
    queues: BTreeMap<Ipv4Addr, VecDeque<u64>>,
    octets: usize,
    next: u64,
    stats: Stats,
}

base::counters! {
    /// What became of the packets.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Packets that came to wait.
        pub pushed: counter(packets);
        /// Packets that were taken.
        pub taken: counter(packets);
        /// Packets dropped for lack of room.
        pub evicted: counter(packets);
        /// Packets that waited too long.
        pub expired: counter(packets);
    }
}

#[derive(Debug)]
struct Held<P> {
    destination: Ipv4Addr,
    octets: usize,
    since: Time,
    packet: P,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: 512,
            packets_per_destination: 256,
            octets: 1_000_000,
            age: Duration::from_secs(10),
        }
    }
}

impl<P> Waiting<P> {
    /// Nothing waits yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            packets: BTreeMap::new(),
            queues: BTreeMap::new(),
            octets: 0,
            next: 0,
            stats: Stats::default(),
        }
    }

    /// Enqueues a packet of `octets` octets; returns the packets evicted for it, oldest first; a packet too large for
    /// the whole queue is itself evicted.
    #[must_use = "what was evicted is to be counted as lost"]
    pub fn push(
        &mut self,
        now: Time,
        destination: Ipv4Addr,
        octets: usize,
        packet: P,
    ) -> Vec<(Ipv4Addr, P)> {
        let Config { packets, packets_per_destination, octets: most, .. } = self.config;
        if packets == 0 || packets_per_destination == 0 || octets > most {
            self.stats.evicted += 1;
            return vec![(destination, packet)];
        }

        let mut evicted = Vec::new();
        if let Some(queue) = self.queues.get(&destination)
            && queue.len() >= packets_per_destination
        {
            let oldest = queue[0];
            evicted.extend(self.remove(oldest));
        }
        while self.packets.len() >= packets || self.octets > most - octets {
            let Some((&oldest, _)) = self.packets.first_key_value() else { break };
            evicted.extend(self.remove(oldest));
        }
        self.stats.evicted += evicted.len() as u64;

        let number = self.next;
        self.next += 1;
        self.octets += octets;
        self.packets.insert(number, Held { destination, octets, since: now, packet });
        self.queues.entry(destination).or_default().push_back(number);
        self.stats.pushed += 1;
        evicted
    }

    /// Takes the packets for a destination, oldest first.
    #[must_use]
    pub fn take(&mut self, destination: Ipv4Addr) -> Vec<P> {
        let numbers = self.queues.get(&destination).cloned().unwrap_or_default();
        let taken: Vec<P> =
            numbers.into_iter().filter_map(|number| Some(self.remove(number)?.1)).collect();
        self.stats.taken += taken.len() as u64;
        taken
    }

    /// Takes the packets that have waited too long, oldest first.
    #[must_use = "what has expired is to be counted as lost"]
    pub fn expire(&mut self, now: Time) -> Vec<(Ipv4Addr, P)> {
        let mut expired = Vec::new();
        while let Some((&oldest, held)) = self.packets.first_key_value()
            && held.since + self.config.age <= now
        {
            expired.extend(self.remove(oldest));
        }
        self.stats.expired += expired.len() as u64;
        expired
    }

    /// When to call `expire` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let (_, oldest) = self.packets.first_key_value()?;
        Some(oldest.since + self.config.age)
    }

    /// The destinations that packets wait for.
    pub fn destinations(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.queues.keys().copied()
    }

    /// How many packets wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Octets of all waiting packets.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Counts how waiting packets have ended so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn remove(&mut self, number: u64) -> Option<(Ipv4Addr, P)> {
        let held = self.packets.remove(&number)?;
        self.octets -= held.octets;
        if let Some(queue) = self.queues.get_mut(&held.destination) {
            queue.retain(|&other| other != number);
            if queue.is_empty() {
                self.queues.remove(&held.destination);
            }
        }
        Some((held.destination, held.packet))
    }
}
