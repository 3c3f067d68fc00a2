//! Counters of SLEP: streams, datagrams and U_PDUs.

base::counters! {
    /// Counters of a SLEP since it started; the last ones are levels.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Streams.
        pub streams: struct Streams {
            /// Streams opened here.
            pub opened as "streams_opened": counter(streams);
            /// Streams taken from other nodes.
            pub taken as "streams_taken": counter(streams);
            /// Streams that both ends finished.
            pub finished as "streams_finished": counter(streams);
            /// Streams that the user reset.
            pub cancelled as "streams_cancelled": counter(streams);
            /// Streams reset by the user before the node had been given anything: the other end was not told.
            pub cancelled_unsent as "streams_cancelled_unsent": counter(streams);
            /// Streams that the other end reset, or does not know any more.
            pub broken as "streams_broken": counter(streams);
            /// Streams given up because the other end did not answer.
            pub unreachable as "streams_unreachable": counter(streams);
            /// Broken streams whose user did not read all data received before the break.
            pub unread_at_break as "streams_broken_unread": counter(streams);
            /// Streams refused to the user or to another node: too many.
            pub refused as "streams_refused": counter(streams);
            /// Octets taken from users.
            pub octets_in as "stream_octets_in": counter(octets);
            /// Octets given to users.
            pub octets_out as "stream_octets_out": counter(octets);
        }
        /// U_PDUs that the node was given.
        pub handed: struct Handed {
            /// U_PDUs handed to the node.
            pub u_pdus as "handed": counter(u_pdus);
            /// Octets of the U_PDUs handed to the node.
            pub octets as "octets_handed": counter(octets);
            /// Parts of streams among them.
            pub parts as "parts_handed": counter(parts);
            /// Parts sent again although the node had confirmed them.
            pub parts_repaired: counter(parts);
            /// U_PDUs confirmed by the other node.
            pub confirmed: counter(u_pdus);
            /// U_PDUs that the node gave back.
            pub rejected: counter(u_pdus);
            /// U_PDUs whose fate is not known: the client was unbound or the connection lost first.
            pub forsaken: counter(u_pdus);
            /// Questions to other nodes about what they have received.
            pub asked: counter(times);
            /// Times that the client was bound.
            pub binds: counter(times);
            /// Answers to unknown streams that were not given: too many.
            pub unanswered: counter(times);
        }
        /// U_PDUs that the node delivered.
        pub received: struct Received {
            /// U_PDUs received.
            pub u_pdus as "received": counter(u_pdus);
            /// U_PDUs that are no valid PDUs of SLEP.
            pub received_malformed: counter(u_pdus);
            /// U_PDUs dropped: of another version of SLEP.
            pub received_other_version: counter(u_pdus);
            /// U_PDUs dropped: from one node more than can be remembered.
            pub received_stranger: counter(u_pdus);
            /// Parts that had come before.
            pub parts_again: counter(parts);
            /// Parts dropped: there was no room. They will be sent again.
            pub parts_full: counter(parts);
            /// Parts dropped: not allowed, or of a stream of an earlier process that has ended.
            pub parts_stray: counter(parts);
            /// Parts dropped: the first of their stream did not come in time, or too many waited for it.
            pub parts_early: counter(parts);
        }
        /// Datagrams.
        pub datagrams: struct Datagrams {
            /// Datagrams taken from users.
            pub taken as "datagrams_taken": counter(datagrams);
            /// Datagrams refused to users: too long, too many, or reliable and to a group.
            pub refused as "datagrams_refused": counter(datagrams);
            /// Datagrams taken from users and compressed.
            pub coded as "datagrams_coded": counter(datagrams);
            /// Octets saved by compressing datagrams.
            pub saved as "datagram_octets_saved": counter(octets);
            /// Datagrams handed to the node, each time counted.
            pub handed as "datagrams_handed": counter(datagrams);
            /// Reliable datagrams repeated because nothing was heard of them.
            pub repeated as "datagrams_repeated": counter(datagrams);
            /// Reliable datagrams that the other end has acknowledged.
            pub delivered as "datagrams_delivered": counter(datagrams);
            /// Datagrams given up: too old.
            pub expired as "datagrams_expired": counter(datagrams);
            /// Datagrams that arrived.
            pub received as "datagrams_received": counter(datagrams);
            /// Reliable datagrams that had come before.
            pub received_again as "datagrams_again": counter(datagrams);
            /// Datagrams dropped that arrived: the user takes none.
            pub received_full as "datagrams_full": counter(datagrams);
        }
        /// Streams that are there.
        pub live as "streams_live": gauge(streams);
        /// Octets waiting to be sent or to be acknowledged by the other end.
        pub unacknowledged as "octets_unacknowledged": gauge(octets);
        /// Octets that arrived and were not read.
        pub unread as "octets_unread": gauge(octets);
        /// Octets with the node and not yet confirmed.
        pub unconfirmed as "octets_unconfirmed": gauge(octets);
        /// The window: most octets that may be with the node unconfirmed.
        pub window as "octets_window": gauge(octets);
    }
}
