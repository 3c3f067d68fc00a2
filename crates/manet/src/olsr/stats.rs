//! Counters of OLSR.

base::counters! {
    /// What is counted since the core started.
    pub enum Counter in Stats {
        /// Links refused: the table was full.
        LinksFull: counter(links);
        /// Links that the link layer reported as broken.
        LinksBroken: counter(links);
        /// Packets taken.
        PacketsReceived: counter(packets);
        /// Packets sent.
        PacketsSent: counter(packets);
        /// Packets ignored, cut short, or not understood whole, because they or a message in them could not
        /// be read.
        PacketsMalformed: counter(packets);
        /// Packets ignored: the source cannot be a neighbour (one of our own addresses, for example), or the interface is
        /// down.
        PacketsStray: counter(packets);
        /// Messages ignored: their originator is this node, or has no address that a node can have.
        MessagesOwn: counter(messages);
        /// ... of those, messages with our address as originator that we never made: another node has the address, or
        /// somebody forges it.
        MessagesDisputed: counter(messages);
        /// Messages ignored: no hop was left on arrival.
        MessagesExpired: counter(messages);
        /// Messages ignored: the link to their sender is not symmetric.
        MessagesStrange: counter(messages);
        /// Messages ignored: copies of others.
        MessagesDuplicate: counter(messages);
        /// Messages forwarded.
        MessagesForwarded: counter(messages);
        /// Messages not forwarded: too many wait.
        MessagesFull: counter(messages);
        /// Messages not sent on an interface: too long for a packet.
        MessagesTooBig: counter(messages);
        /// Unreadable parts of messages otherwise accepted: addresses that no node has, networks without a mask, unknown
        /// kinds of blocks, and cut entries.
        EntriesStrange: counter(entries);
        /// HELLOs sent.
        HellosSent: counter(messages);
        /// HELLOs ignored: they came over more than a hop.
        HellosForwarded: counter(messages);
        /// TC messages originated.
        TcSent: counter(messages);
        /// TC messages ignored: older than what is known.
        TcOld: counter(messages);
        /// MID messages originated.
        MidSent: counter(messages);
        /// HNA messages originated.
        HnaSent: counter(messages);
        /// Links of neighbours refused: the table, or the neighbour's share of it, was full.
        TwoHopFull: counter(links);
        /// Links between others refused: the table, or the originator's share of it, was full.
        TopologyFull: counter(links);
        /// Further addresses refused: the table, or the originator's share of it, was full.
        AliasesFull: counter(addresses);
        /// Further addresses refused: they are another node's.
        AliasesTaken: counter(addresses);
        /// Networks refused: the table, or the originator's share of it, was full.
        NetworksFull: counter(networks);
        /// Remembered messages forgotten early, for others.
        DuplicatesForgotten: counter(messages);
        /// Calculations of the routes.
        Calculations: counter(times);
    }
}

impl Stats {
    /// Counts skipped entries of a list, and its end if cut.
    pub(crate) fn add_strange(&mut self, entries: usize, is_cut: bool) {
        self.add(Counter::EntriesStrange, entries as u64 + u64::from(is_cut));
    }
}
