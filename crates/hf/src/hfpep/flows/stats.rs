//! Counters of UDP flows and their datagrams.

base::counters! {
    /// Counters of UDP flows since creation; the last two are levels.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Flows opened here.
        pub opened as "udp_flows_opened": counter(flows);
        /// Flows that other ends have opened.
        pub received as "udp_flows_received": counter(flows);
        /// Flows forgotten because nothing went either way.
        pub idle as "udp_flows_idle": counter(flows);
        /// Flows refused for want of room, opened here or there.
        pub refused as "udp_flows_refused": counter(flows);
        /// Flows of other ends with another client or target now, or no longer known there.
        pub closed as "udp_flows_closed": counter(flows);
        /// Datagrams accepted from clients.
        pub sent as "udp_sent": counter(datagrams);
        /// Datagrams from clients that named their flow's client and target.
        pub opening as "udp_opening": counter(datagrams);
        /// Datagrams from clients sent again because the other end no longer knew their flow.
        pub again as "udp_again": counter(datagrams);
        /// Answers accepted from targets.
        pub answered as "udp_answered": counter(datagrams);
        /// Messages about flows that are no datagrams.
        pub words as "udp_words": counter(messages);
        /// Datagrams for targets that arrived.
        pub requests as "udp_requests": counter(datagrams);
        /// Answers for clients that arrived.
        pub answers as "udp_answers": counter(answers);
        /// Datagrams dropped: longer than what is carried.
        pub too_long as "udp_too_long": counter(datagrams);
        /// Datagrams dropped: too much waits, in their flow or in all.
        pub full as "udp_full": counter(datagrams);
        /// Datagrams of clients dropped: the other end refuses their flow.
        pub blocked as "udp_blocked": counter(datagrams);
        /// Datagrams that arrived and were dropped: their flow is not known here.
        pub unknown as "udp_unknown": counter(datagrams);
        /// Messages that cannot be read.
        pub malformed as "udp_malformed": counter(messages);
        /// Current flows opened at this end.
        pub opened_here as "udp_flows_here": gauge(flows);
        /// Current flows opened by other ends.
        pub opened_there as "udp_flows_there": gauge(flows);
    }
}
