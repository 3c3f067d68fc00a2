//! Counters of OSPF.

/// What is counted since the core started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counter {
    /// Hellos sent.
    HellosSent,
    /// Database descriptions sent.
    DescriptionsSent,
    /// Requests sent.
    RequestsSent,
    /// Updates sent.
    UpdatesSent,
    /// Acknowledgements sent.
    AcknowledgementsSent,
    /// Packets taken.
    PacketsReceived,
    /// Packets ignored that cannot be read.
    PacketsMalformed,
    /// Packets ignored: the checksum was wrong.
    PacketsDamaged,
    /// Packets ignored: they have an authentication, and none is spoken here.
    PacketsAuthenticated,
    /// Packets ignored: the link is down, or the source is our own address or router ID.
    PacketsStray,
    /// Packets ignored: of another area.
    AreaMismatches,
    /// Hellos ignored: other intervals.
    IntervalMismatches,
    /// Hellos ignored: another kind of area.
    OptionMismatches,
    /// Descriptions ignored: the neighbour sends longer packets than the link takes here.
    MtuMismatches,
    /// Packets ignored: their sender is no neighbour, or not yet that far.
    PacketsEarly,
    /// Neighbours given up: silent, unreachable, replaced, or their link went down.
    NeighboursLost,
    /// Exchanges begun anew: a neighbour said what does not follow.
    ExchangesRestarted,
    /// Adjacencies that became Full.
    Adjacencies,
    /// LSAs installed in the database, own ones included.
    LsasInstalled,
    /// LSAs ignored: damaged or of no known kind.
    LsasDamaged,
    /// LSAs ignored: too soon after the one before.
    LsasEarly,
    /// LSAs that came again.
    LsasDuplicate,
    /// LSAs received that were older than the known instance.
    LsasOld,
    /// LSAs sent again because nobody acknowledged them.
    LsasRetransmitted,
    /// LSAs acknowledged and dropped: the database was full.
    LsasFull,
    /// LSAs not sent: longer than a packet of the link.
    LsasTooBig,
    /// LSAs that reached their greatest age, and were taken out of the database everywhere.
    LsasFlushed,
    /// Instances of the router's own LSA.
    Originations,
    /// Times that our LSA continued from an instance held by another router.
    OriginationsRaised,
    /// Acknowledgements of LSAs that we never sent.
    AcknowledgementsStray,
    /// Calculations of the routes.
    Calculations,
}

/// The counters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stats([u64; NAMES.len()]);

/// Names shown by drivers, in the order of the variants.
const NAMES: [(Counter, &str); 31] = [
    (Counter::HellosSent, "hellos_sent"),
    (Counter::DescriptionsSent, "descriptions_sent"),
    (Counter::RequestsSent, "requests_sent"),
    (Counter::UpdatesSent, "updates_sent"),
    (Counter::AcknowledgementsSent, "acknowledgements_sent"),
    (Counter::PacketsReceived, "packets_received"),
    (Counter::PacketsMalformed, "packets_malformed"),
    (Counter::PacketsDamaged, "packets_damaged"),
    (Counter::PacketsAuthenticated, "packets_authenticated"),
    (Counter::PacketsStray, "packets_stray"),
    (Counter::AreaMismatches, "area_mismatches"),
    (Counter::IntervalMismatches, "interval_mismatches"),
    (Counter::OptionMismatches, "option_mismatches"),
    (Counter::MtuMismatches, "mtu_mismatches"),
    (Counter::PacketsEarly, "packets_early"),
    (Counter::NeighboursLost, "neighbours_lost"),
    (Counter::ExchangesRestarted, "exchanges_restarted"),
    (Counter::Adjacencies, "adjacencies"),
    (Counter::LsasInstalled, "lsas_installed"),
    (Counter::LsasDamaged, "lsas_damaged"),
    (Counter::LsasEarly, "lsas_early"),
    (Counter::LsasDuplicate, "lsas_duplicate"),
    (Counter::LsasOld, "lsas_old"),
    (Counter::LsasRetransmitted, "lsas_retransmitted"),
    (Counter::LsasFull, "lsas_full"),
    (Counter::LsasTooBig, "lsas_too_big"),
    (Counter::LsasFlushed, "lsas_flushed"),
    (Counter::Originations, "originations"),
    (Counter::OriginationsRaised, "originations_raised"),
    (Counter::AcknowledgementsStray, "acknowledgements_stray"),
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
