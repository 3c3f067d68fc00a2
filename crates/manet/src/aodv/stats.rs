//! Counters of AODV.

/// Counters of a node's AODV since it started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Messages that were written.
    pub sent: Sent,
    /// Messages that came and could be read.
    pub received: Received,
    /// What was not acted on.
    pub dropped: Dropped,
    /// Destinations that were looked for.
    pub discoveries: u64,
    /// ... of those, not found.
    pub discoveries_failed: u64,
    /// Unused routes that ended.
    pub routes_expired: u64,
    /// Neighbours that were lost, by the link layer's word or by silence.
    pub breaks: u64,
    /// Neighbours that were ignored for a while because they did not acknowledge a reply.
    pub blacklisted: u64,
    /// Times that our sequence number was raised to a number that others knew, but we never issued.
    pub raised: u64,
}

/// Messages written, counted once for each interface.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// Requests of this node.
    pub requests: u64,
    /// Requests of others, passed on.
    pub requests_forwarded: u64,
    /// Replies of this node.
    pub replies: u64,
    /// Replies of others, passed on.
    pub replies_forwarded: u64,
    /// Errors.
    pub errors: u64,
    /// Hellos.
    pub hellos: u64,
    /// Acknowledgements of replies.
    pub acknowledgements: u64,
}

/// Messages that came and could be read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Received {
    /// Requests.
    pub requests: u64,
    /// Replies.
    pub replies: u64,
    /// Errors.
    pub errors: u64,
    /// Hellos.
    pub hellos: u64,
    /// Acknowledgements of replies.
    pub acknowledgements: u64,
}

/// What was not acted on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages that contradict themselves, or contain addresses impossible for nodes.
    pub forged: u64,
    /// Messages of this node that came back.
    pub own: u64,
    /// ... of those, requests and replies never written by this node: another node has the address, or somebody forges
    /// it.
    pub disputed: u64,
    /// Unreadable parts of messages otherwise accepted: ends of lists, extensions.
    pub parts: u64,
    /// Requests that were seen before.
    pub repeated: u64,
    /// Requests of neighbours that do not acknowledge replies.
    pub blacklisted: u64,
    /// Messages of a neighbour that sent too many, and requests beyond the relaying budget.
    pub flooded: u64,
    /// Requests and replies that tell nothing new.
    pub stale: u64,
    /// Requests and replies at the end of their permitted hops.
    pub expired: u64,
    /// Replies and requests without a way back to the originator.
    pub no_reverse_route: u64,
    /// Requests and replies that were not passed on because this node has just started.
    pub waiting: u64,
    /// Errors that were not sent because there had been too many.
    pub errors_limited: u64,
    /// Acknowledgements that nothing waited for.
    pub unexpected: u64,
    /// Routes, precursors, requests, searches, neighbours or hosts for which there was no room.
    pub full: u64,
    /// Messages that did not fit the queue or the packets of an interface.
    pub unsent: u64,
}

impl Stats {
    pub(super) fn named(&self) -> Vec<(&'static str, u64)> {
        let Self { sent, received, dropped, .. } = self;
        vec![
            ("requests_sent", sent.requests),
            ("requests_forwarded", sent.requests_forwarded),
            ("replies_sent", sent.replies),
            ("replies_forwarded", sent.replies_forwarded),
            ("errors_sent", sent.errors),
            ("hellos_sent", sent.hellos),
            ("acknowledgements_sent", sent.acknowledgements),
            ("requests_received", received.requests),
            ("replies_received", received.replies),
            ("errors_received", received.errors),
            ("hellos_received", received.hellos),
            ("acknowledgements_received", received.acknowledgements),
            ("dropped_malformed", dropped.malformed),
            ("dropped_forged", dropped.forged),
            ("dropped_own", dropped.own),
            ("dropped_disputed", dropped.disputed),
            ("dropped_parts", dropped.parts),
            ("dropped_repeated", dropped.repeated),
            ("dropped_blacklisted", dropped.blacklisted),
            ("dropped_flooded", dropped.flooded),
            ("dropped_stale", dropped.stale),
            ("dropped_expired", dropped.expired),
            ("dropped_no_reverse_route", dropped.no_reverse_route),
            ("dropped_waiting", dropped.waiting),
            ("dropped_errors_limited", dropped.errors_limited),
            ("dropped_unexpected", dropped.unexpected),
            ("dropped_full", dropped.full),
            ("dropped_unsent", dropped.unsent),
            ("discoveries", self.discoveries),
            ("discoveries_failed", self.discoveries_failed),
            ("routes_expired", self.routes_expired),
            ("breaks", self.breaks),
            ("blacklisted", self.blacklisted),
            ("raised", self.raised),
        ]
    }
}
