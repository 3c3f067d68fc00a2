//! Counters of OLSR.

/// What is counted since the core started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counter {
    /// Links refused: the table was full.
    LinksFull,
    /// Links that the link layer reported as broken.
    LinksBroken,
    /// Packets taken.
    PacketsReceived,
    /// Packets sent.
    PacketsSent,
    /// Packets ignored, cut short, or not understood whole, because they or a message in them could not
    /// be read.
    PacketsMalformed,
    /// Packets ignored: the source cannot be a neighbour (one of our own addresses, for example), or the interface is
    /// down.
    PacketsStray,
    /// Messages ignored: their originator is this node, or has no address that a node can have.
    MessagesOwn,
    /// ... of those, messages with our address as originator that we never made: another node has the address, or
    /// somebody forges it.
    MessagesDisputed,
    /// Messages ignored: no hop was left on arrival.
    MessagesExpired,
    /// Messages ignored: the link to their sender is not symmetric.
    MessagesStrange,
    /// Messages ignored: copies of others.
    MessagesDuplicate,
    /// Messages forwarded.
    MessagesForwarded,
    /// Messages not forwarded: too many wait.
    MessagesFull,
    /// Messages not sent on an interface: too long for a packet.
    MessagesTooBig,
    /// Unreadable parts of messages otherwise accepted: addresses that no node has, networks without a mask, unknown
    /// kinds of blocks, and cut entries.
    EntriesStrange,
    /// HELLOs sent.
    HellosSent,
    /// HELLOs ignored: they came over more than a hop.
    HellosForwarded,
    /// TC messages originated.
    TcSent,
    /// TC messages ignored: older than what is known.
    TcOld,
    /// MID messages originated.
    MidSent,
    /// HNA messages originated.
    HnaSent,
    /// Links of neighbours refused: the table, or the neighbour's share of it, was full.
    TwoHopFull,
    /// Links between others refused: the table, or the originator's share of it, was full.
    TopologyFull,
    /// Further addresses refused: the table, or the originator's share of it, was full.
    AliasesFull,
    /// Further addresses refused: they are another node's.
    AliasesTaken,
    /// Networks refused: the table, or the originator's share of it, was full.
    NetworksFull,
    /// Remembered messages forgotten early, for others.
    DuplicatesForgotten,
    /// Calculations of the routes.
    Calculations,
}

/// The counters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stats([u64; NAMES.len()]);

/// Names shown by drivers, in the order of the variants.
const NAMES: [(Counter, &str); 28] = [
    (Counter::LinksFull, "links_full"),
    (Counter::LinksBroken, "links_broken"),
    (Counter::PacketsReceived, "packets_received"),
    (Counter::PacketsSent, "packets_sent"),
    (Counter::PacketsMalformed, "packets_malformed"),
    (Counter::PacketsStray, "packets_stray"),
    (Counter::MessagesOwn, "messages_own"),
    (Counter::MessagesDisputed, "messages_disputed"),
    (Counter::MessagesExpired, "messages_expired"),
    (Counter::MessagesStrange, "messages_strange"),
    (Counter::MessagesDuplicate, "messages_duplicate"),
    (Counter::MessagesForwarded, "messages_forwarded"),
    (Counter::MessagesFull, "messages_full"),
    (Counter::MessagesTooBig, "messages_too_big"),
    (Counter::EntriesStrange, "entries_strange"),
    (Counter::HellosSent, "hellos_sent"),
    (Counter::HellosForwarded, "hellos_forwarded"),
    (Counter::TcSent, "tc_sent"),
    (Counter::TcOld, "tc_old"),
    (Counter::MidSent, "mid_sent"),
    (Counter::HnaSent, "hna_sent"),
    (Counter::TwoHopFull, "two_hop_full"),
    (Counter::TopologyFull, "topology_full"),
    (Counter::AliasesFull, "aliases_full"),
    (Counter::AliasesTaken, "aliases_taken"),
    (Counter::NetworksFull, "networks_full"),
    (Counter::DuplicatesForgotten, "duplicates_forgotten"),
    (Counter::Calculations, "calculations"),
];

impl Default for Stats {
    fn default() -> Self {
        Self([0; NAMES.len()])
    }
}

impl Stats {
    pub(super) fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    pub(super) fn add(&mut self, counter: Counter, number: u64) {
        self.0[counter as usize] += number;
    }

    /// Counts skipped entries of a list, and its end if cut.
    pub(super) fn add_strange(&mut self, entries: usize, is_cut: bool) {
        self.add(Counter::EntriesStrange, entries as u64 + u64::from(is_cut));
    }

    /// How often something happened.
    #[must_use]
    pub fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// All of them, by name.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        NAMES.iter().map(|(counter, name)| (*name, self.of(*counter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_order_of_the_counters() {
        for (at, (counter, name)) in NAMES.iter().enumerate() {
            assert_eq!(*counter as usize, at, "{name}");
        }
    }
}
