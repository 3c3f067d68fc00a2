//! Counters of DSDV.

base::counters! {
    /// What DSDV has counted.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Full updates that became due.
        pub full_updates: counter(updates);
        /// Triggered updates that became due.
        pub triggered_updates: counter(updates);
        /// Messages sent; one update may need several.
        pub sent: counter(messages);
        /// Messages understood.
        pub received: counter(messages);
        /// Neighbours given up because they were silent.
        pub silent: counter(neighbours);
        /// Neighbours given up because the link layer could not reach them.
        pub unreachable: counter(neighbours);
        /// Routes that broke.
        pub broken: counter(routes);
        /// Routes given up because the next hop lost its route.
        pub undercut: counter(routes);
        /// Times that we raised our number because others knew a higher one.
        pub raised: counter(times);
        /// ... of those, claims that cannot stem from before our start: another node has the address, or somebody
        /// forges it.
        pub disputed: counter(times);
        /// Neighbours told that their entry for a destination is out of date.
        pub stale: counter(neighbours);
        /// Broken routes forgotten because there was no room.
        pub forgotten: counter(routes);
        /// Ignored: messages from ourselves, or from no host's address.
        pub foreign: counter(messages);
        /// Ignored: messages that cannot be read.
        pub malformed: counter(messages);
        /// Ignored: entries for no host's address, or an even number and no route, or cut.
        pub bad_entries: counter(entries);
        /// Ignored: entries with too many hops.
        pub too_far: counter(entries);
        /// Ignored: messages of more neighbours than are remembered.
        pub neighbours_full: counter(messages);
        /// Ignored: entries for more destinations than are remembered.
        pub destinations_full: counter(entries);
    }
}
