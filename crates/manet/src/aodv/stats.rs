//! Counters of AODV.

base::counters! {
    /// Counters of a node's AODV since it started.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Messages that were written.
        pub sent: struct Sent("", "_sent") {
            /// Requests of this node.
            pub requests: counter(requests);
            /// Requests of others, passed on.
            pub requests_forwarded as "requests_forwarded": counter(requests);
            /// Replies of this node.
            pub replies: counter(replies);
            /// Replies of others, passed on.
            pub replies_forwarded as "replies_forwarded": counter(replies);
            /// Errors.
            pub errors: counter(messages);
            /// Hellos.
            pub hellos: counter(messages);
            /// Acknowledgements of replies.
            pub acknowledgements: counter(messages);
        }
        /// Messages that came and could be read.
        pub received: struct Received("", "_received") {
            /// Requests.
            pub requests: counter(requests);
            /// Replies.
            pub replies: counter(replies);
            /// Errors.
            pub errors: counter(messages);
            /// Hellos.
            pub hellos: counter(messages);
            /// Acknowledgements of replies.
            pub acknowledgements: counter(messages);
        }
        /// What was not acted on.
        pub dropped: struct Dropped("dropped_", "") {
            /// Messages that could not be read.
            pub malformed: counter(messages);
            /// Messages that contradict themselves, or contain addresses impossible for nodes.
            pub forged: counter(messages);
            /// Messages of this node that came back.
            pub own: counter(messages);
            /// ... of those, requests and replies never written by this node: another node has the address, or somebody
            /// forges it.
            pub disputed: counter(messages);
            /// Unreadable parts of messages otherwise accepted: ends of lists, extensions.
            pub parts: counter(parts);
            /// Requests that were seen before.
            pub repeated: counter(requests);
            /// Requests of neighbours that do not acknowledge replies.
            pub blacklisted: counter(requests);
            /// Messages of a neighbour that sent too many, and requests beyond the relaying budget.
            pub flooded: counter(messages);
            /// Requests and replies that tell nothing new.
            pub stale: counter(requests);
            /// Requests and replies at the end of their permitted hops.
            pub expired: counter(requests);
            /// Replies and requests without a way back to the originator.
            pub no_reverse_route: counter(messages);
            /// Requests and replies that were not passed on because this node has just started.
            pub waiting: counter(requests);
            /// Errors that were not sent because there had been too many.
            pub errors_limited: counter(messages);
            /// Acknowledgements that nothing waited for.
            pub unexpected: counter(messages);
            /// Routes, precursors, requests, searches, neighbours or hosts for which there was no room.
            pub full: counter(routes);
            /// Messages that did not fit the queue or the packets of an interface.
            pub unsent: counter(messages);
        }
        /// Destinations that were looked for.
        pub discoveries: counter(destinations);
        /// ... of those, not found.
        pub discoveries_failed: counter(destinations);
        /// Unused routes that ended.
        pub routes_expired: counter(routes);
        /// Neighbours that were lost, by the link layer's word or by silence.
        pub breaks: counter(neighbours);
        /// Neighbours that were ignored for a while because they did not acknowledge a reply.
        pub blacklisted: counter(neighbours);
        /// Times that our sequence number was raised to a number that others knew, but we never issued.
        pub raised: counter(times);
    }
}
