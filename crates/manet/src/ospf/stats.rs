//! Counters of OSPF.

base::counters! {
    /// What is counted since the core started.
    pub enum Counter in Stats {
        /// Hellos sent.
        HellosSent: counter(messages);
        /// Database descriptions sent.
        DescriptionsSent: counter(messages);
        /// Requests sent.
        RequestsSent: counter(messages);
        /// Updates sent.
        UpdatesSent: counter(messages);
        /// Acknowledgements sent.
        AcknowledgementsSent: counter(messages);
        /// Packets taken.
        PacketsReceived: counter(packets);
        /// Packets ignored that cannot be read.
        PacketsMalformed: counter(packets);
        /// Packets ignored: the checksum was wrong.
        PacketsDamaged: counter(packets);
        /// Packets ignored: they have an authentication, and none is spoken here.
        PacketsAuthenticated: counter(packets);
        /// Packets ignored: the link is down, or the source is our own address or router ID.
        PacketsStray: counter(packets);
        /// Packets ignored: of another area.
        AreaMismatches: counter(packets);
        /// Hellos ignored: other intervals.
        IntervalMismatches: counter(messages);
        /// Hellos ignored: another kind of area.
        OptionMismatches: counter(messages);
        /// Descriptions ignored: the neighbour sends longer packets than the link takes here.
        MtuMismatches: counter(messages);
        /// Packets ignored: their sender is no neighbour, or not yet that far.
        PacketsEarly: counter(packets);
        /// Neighbours given up: silent, unreachable, replaced, or their link went down.
        NeighboursLost: counter(neighbours);
        /// Exchanges begun anew: a neighbour said what does not follow.
        ExchangesRestarted: counter(exchanges);
        /// Adjacencies that became Full.
        Adjacencies: counter(adjacencies);
        /// LSAs installed in the database, own ones included.
        LsasInstalled: counter(lsas);
        /// Unreadable parts of packets otherwise taken: LSAs of an impossible length, and whatever stands behind them;
        /// cut ends of lists.
        PartsUnreadable: counter(parts);
        /// LSAs ignored: damaged or of no known kind.
        LsasDamaged: counter(lsas);
        /// Router LSAs kept and flooded although nobody can read their links: no route leads over their routers.
        LsasUnreadable: counter(lsas);
        /// LSAs ignored: too soon after the one before.
        LsasEarly: counter(lsas);
        /// LSAs that came again.
        LsasDuplicate: counter(lsas);
        /// LSAs received that were older than the known instance.
        LsasOld: counter(lsas);
        /// LSAs sent again because nobody acknowledged them.
        LsasRetransmitted: counter(lsas);
        /// LSAs acknowledged and dropped: the database was full.
        LsasFull: counter(lsas);
        /// LSAs not sent: longer than a packet of the link.
        LsasTooBig: counter(lsas);
        /// LSAs that reached their greatest age, and were taken out of the database everywhere.
        LsasFlushed: counter(lsas);
        /// Instances of the router's own LSA.
        Originations: counter(lsas);
        /// Times that our LSA continued from an instance held by another router.
        OriginationsRaised: counter(lsas);
        /// Acknowledgements of LSAs that we never sent.
        AcknowledgementsStray: counter(messages);
        /// Calculations of the routes.
        Calculations: counter(times);
    }
}
