//! Counters of the IP client: datagrams, octets, and compressed headers.

use base::ip::BadSources;

base::counters! {
    /// Counters of an IP client since it started; the last three are levels.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Datagrams of the stack, until the node has them.
        pub taken: struct Taken {
            /// Datagrams taken from the stack.
            pub packets_in: counter(datagrams);
            /// Octets of them.
            pub octets_in: counter(octets);
            /// Datagrams dropped: not IP.
            pub malformed: counter(datagrams);
            /// Datagrams dropped: no node has the address.
            pub no_route: counter(datagrams);
            /// Datagrams dropped: too long, and not to be fragmented.
            pub too_big: counter(datagrams);
            /// Datagrams cut into fragments.
            pub fragmented: counter(datagrams);
            /// Datagrams dropped: the queue was full.
            pub queue_full: counter(datagrams);
            /// Datagrams dropped: they waited for too long, here or at the node.
            pub expired: counter(datagrams);
            /// TCP segments dropped: the same is on its way.
            pub absorbed: counter(segments);
            /// TCP acknowledgements dropped: a later one took their place.
            pub superseded: counter(messages);
        }
        /// Datagrams that the node was given.
        pub handed: struct Handed {
            /// Datagrams handed to the node.
            pub packets as "handed": counter(datagrams);
            /// Octets of them.
            pub octets as "octets_handed": counter(octets);
            /// Datagrams confirmed by the other node.
            pub confirmed: counter(datagrams);
            /// Of those that were confirmed: datagrams that no client at the other node took.
            pub unreceived: counter(datagrams);
            /// Datagrams dropped: the other node did not respond.
            pub unreachable: counter(datagrams);
            /// Datagrams that the node refused for another reason.
            pub refused: counter(datagrams);
            /// Datagrams whose fate is not known: the client was unbound or the link lost first.
            pub forsaken: counter(datagrams);
            /// Times that the client was bound.
            pub binds: counter(times);
        }
        /// Datagrams that the node delivered.
        pub received: struct Received {
            /// Datagrams received and given to the stack.
            pub packets_out: counter(datagrams);
            /// Octets of them.
            pub octets_out: counter(octets);
            /// U_PDUs received that are no datagram.
            pub received_malformed: counter(u_pdus);
            /// Datagrams received and dropped: the stack takes none.
            pub received_full: counter(datagrams);
            /// Datagrams received and dropped: their source cannot be true.
            pub bad_sources: all BadSources;
            /// ICMP errors given to the stack.
            pub icmp_sent: counter(messages);
            /// TCP resets given to the stack.
            pub resets_sent: counter(resets);
            /// ICMP errors and resets not given: too many.
            pub icmp_limited: counter(messages);
        }
        /// Compressed headers.
        pub headers: struct Headers {
            /// Datagrams handed to the node with compressed headers.
            pub compressed as "headers_compressed": counter(datagrams);
            /// Octets of them before.
            pub octets_before as "headers_octets_before": counter(octets);
            /// Octets of them after.
            pub octets_after as "headers_octets_after": counter(octets);
            /// Datagrams received with compressed headers and restored.
            pub restored as "headers_restored": counter(datagrams);
            /// Received and dropped: compressed by a node that did not tell by what, in time.
            pub unknown as "headers_unknown": counter(datagrams);
            /// Received and dropped: compressed with other tables, or damaged.
            pub mismatched as "headers_mismatched": counter(datagrams);
            /// Announcements handed to the node.
            pub announcements_sent: counter(announcements);
            /// Announcements received.
            pub announcements_received: counter(announcements);
            /// Received and dropped: announcements that cannot be read, or come from where no route leads.
            pub announcements_refused: counter(announcements);
        }
        /// Octets that wait.
        pub queued as "octets_queued": gauge(octets);
        /// Octets that the node has without having confirmed them.
        pub unconfirmed as "octets_unconfirmed": gauge(octets);
        /// Octets that the node may have unconfirmed.
        pub window as "octets_window": gauge(octets);
    }
}
