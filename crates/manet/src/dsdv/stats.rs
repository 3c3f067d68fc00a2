//! Counters of DSDV.

/// What DSDV has counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Full updates that became due.
    pub full_updates: u64,
    /// Triggered updates that became due.
    pub triggered_updates: u64,
    /// Messages sent; one update may need several.
    pub sent: u64,
    /// Messages understood.
    pub received: u64,
    /// Neighbours given up because they were silent.
    pub silent: u64,
    /// Neighbours given up because the link layer could not reach them.
    pub unreachable: u64,
    /// Routes that broke.
    pub broken: u64,
    /// Routes given up because the next hop lost its route.
    pub undercut: u64,
    /// Times that we raised our number because others knew a higher one.
    pub raised: u64,
    /// ... of those, claims that cannot stem from before our start: another node has the address, or somebody forges
    /// it.
    pub disputed: u64,
    /// Neighbours told that their entry for a destination is out of date.
    pub stale: u64,
    /// Broken routes forgotten because there was no room.
    pub forgotten: u64,
    /// Ignored: messages from ourselves, or from no host's address.
    pub foreign: u64,
    /// Ignored: messages that cannot be read.
    pub malformed: u64,
    /// Ignored: entries for no host's address, or an even number and no route, or cut.
    pub bad_entries: u64,
    /// Ignored: entries with too many hops.
    pub too_far: u64,
    /// Ignored: messages of more neighbours than are remembered.
    pub neighbours_full: u64,
    /// Ignored: entries for more destinations than are remembered.
    pub destinations_full: u64,
}

impl Stats {
    /// All of them by name.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("full_updates", self.full_updates),
            ("triggered_updates", self.triggered_updates),
            ("sent", self.sent),
            ("received", self.received),
            ("silent", self.silent),
            ("unreachable", self.unreachable),
            ("broken", self.broken),
            ("undercut", self.undercut),
            ("raised", self.raised),
            ("disputed", self.disputed),
            ("stale", self.stale),
            ("forgotten", self.forgotten),
            ("foreign", self.foreign),
            ("malformed", self.malformed),
            ("bad_entries", self.bad_entries),
            ("too_far", self.too_far),
            ("neighbours_full", self.neighbours_full),
            ("destinations_full", self.destinations_full),
        ]
    }
}
