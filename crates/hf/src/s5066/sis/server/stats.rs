//! Counters of the SIS server: connections, clients, and U_PDUs.

base::counters! {
    /// Counters of a node's clients since it started.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Connections, bound or not.
        pub connections: struct Connections {
            /// Connections taken.
            pub taken as "connections": counter(connections);
            /// Connections refused: the limit was reached, and all clients were bound.
            pub refused as "connections_refused": counter(connections);
            /// Connections closed: not bound in time, or before another one needed their place.
            pub closed_unbound: counter(connections);
            /// Connections closed: what came could not be read, or too much of it.
            pub closed_invalid: counter(connections);
            /// Connections closed: the client went on sending with its flow off.
            pub closed_flood: counter(connections);
            /// Connections closed: the client does not read.
            pub closed_unread: counter(connections);
        }
        /// Actions of bound clients.
        pub clients: struct Clients {
            /// Clients bound.
            pub binds: counter(binds);
            /// Binds refused.
            pub binds_refused: counter(binds);
            /// Clients unbound for a client of higher rank.
            pub preempted: counter(clients);
            /// Clients unbound: they did not answer.
            pub inactive: counter(clients);
            /// Clients unbound: too many expedited U_PDUs.
            pub expedited_floods: counter(clients);
            /// Primitives that could not be read or were not for a client to send.
            pub invalid as "primitives_invalid": counter(primitives);
            /// Requests refused: their connection was not bound.
            pub unbound_requests: counter(requests);
            /// Times that a client's flow went off.
            pub flow_off: counter(times);
            /// Management messages refused: not from rank 15, or too many waited.
            pub management_refused: counter(messages);
            /// Hard links made, here or there.
            pub hard_links: counter(links);
        }
        /// U_PDUs of clients.
        pub submitted: struct Submitted {
            /// U_PDUs taken from clients.
            pub u_pdus_taken: counter(u_pdus);
            /// Octets of them.
            pub octets_taken: counter(octets);
            /// U_PDUs refused: larger than the MTU.
            pub too_large: counter(u_pdus);
            /// U_PDUs refused: the delivery mode does not exist.
            pub no_mode: counter(u_pdus);
            /// U_PDUs handed to the layers below.
            pub u_pdus_sent: counter(u_pdus);
            /// U_PDUs dropped: their time to live ended before they were handed down.
            pub expired as "u_pdus_expired": counter(u_pdus);
            /// U_PDUs confirmed to clients.
            pub confirmed as "u_pdus_confirmed": counter(u_pdus);
            /// U_PDUs confirmed by another node, which later reported that no client there took the U_PDU.
            pub unreceived: counter(u_pdus);
            /// U_PDUs that clients took back before anything of them was sent.
            pub taken_back: counter(u_pdus);
            /// U_PDUs that failed after they were handed down.
            pub failed as "u_pdus_failed": counter(u_pdus);
            /// U_PDUs that no remote client confirmed in time.
            pub unconfirmed: counter(u_pdus);
            /// U_PDUs dropped: their client was unbound.
            pub dropped_unbound: counter(u_pdus);
            /// Confirmations received for no waiting U_PDU.
            pub stray_confirms: counter(messages);
        }
        /// U_PDUs for clients.
        pub delivered: struct Delivered {
            /// U_PDUs delivered to clients.
            pub u_pdus_delivered: counter(u_pdus);
            /// Octets of them.
            pub octets_delivered: counter(octets);
            /// U_PDUs received for an access point that is not bound.
            pub not_bound: counter(u_pdus);
            /// U_PDUs received after their time to die.
            pub received_late: counter(u_pdus);
            /// U_PDUs received with errors that their client does not take.
            pub received_damaged: counter(u_pdus);
            /// S_PDUs received that could not be read.
            pub malformed: counter(s_pdus);
            /// Answers to remote nodes that were not sent: too many waited.
            pub answers_dropped: counter(answers);
        }
    }
}
