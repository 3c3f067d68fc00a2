//! The counters of HBH.

base::counters! {
    /// Counters of a node's HBH since it started; the last two are levels.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// IP packets offered by the IP stack or brought by a peer.
        pub intake: struct Intake {
            /// IP packets taken to be sent to a peer.
            pub packets_taken: counter(packets);
            /// ... of those, repeats of a TCP segment still in flight or queued, and acknowledgements sent in the place of an
            /// older one: nothing more is sent.
            pub packets_absorbed: counter(packets);
            /// ... of those, marked with congestion experienced because they entered a long queue.
            pub packets_marked: counter(packets);
            /// IP packets refused: the queue, or the node's memory for packets or flows, was full.
            pub packets_full: counter(packets);
            /// ... of those, packets brought by a peer, and so lost here.
            pub packets_full_inside: counter(packets);
            /// IP packets refused: not IP.
            pub packets_malformed: counter(packets);
            /// IP packets refused: longer than the link carries.
            pub packets_too_big: counter(packets);
            /// IP packets refused: no such peer.
            pub packets_unknown_peer: counter(packets);
        }
        /// What was sent to peers, and their acknowledgements.
        pub sent: struct Sent {
            /// HDMs transmitted, repeats included.
            pub data_sent: counter(messages);
            /// ... of those, sent again because they were lost, or taken to be.
            pub data_repeated: counter(messages);
            /// ... of those, sent a second time over an idle link without being asked.
            pub data_spare: counter(messages);
            /// Acknowledgements of TCP carried a second time, on a later one.
            pub data_older: counter(messages);
            /// Acknowledgements of TCP not sent again because a later one says more.
            pub data_superseded: counter(messages);
            /// Repairs transmitted: sums of packets, over an idle link.
            pub repairs_sent: counter(repairs);
            /// Packets discarded: they waited for longer than a packet may.
            pub packets_expired: counter(packets);
            /// Packets dropped at the entrance, the first of their queue: it stayed long, or was full when another came.
            pub packets_thinned: counter(packets);
            /// Packets discarded: their connection was reset.
            pub packets_reset: counter(packets);
            /// Packets discarded when their route changed: segments acknowledged by TCP, and outdated acknowledgements
            /// of TCP.
            pub packets_useless: counter(packets);
            /// Packets given up on after R retries.
            pub packets_abandoned: counter(packets);
            /// HAMs received.
            pub acks_received: counter(messages);
            /// HAMs for a flow that is not known.
            pub acks_stray: counter(messages);
            /// HAMs ignored: they acknowledge a packet that was not sent.
            pub acks_absurd: counter(messages);
            /// HAMs received with a report of congestion.
            pub congestion_received: counter(messages);
        }
        /// Counters of messages from peers, and of our acknowledgements.
        pub received: struct Received {
            /// HDMs that brought a new packet.
            pub data_received: counter(messages);
            /// HDMs that brought a packet again.
            pub data_duplicate: counter(messages);
            /// HDMs not accepted: their flow is unknown and they do not say where it begins, or they are too far ahead.
            pub data_stray: counter(messages);
            /// HDMs not accepted because the packet could not be queued for its next hop; the peer keeps it.
            pub data_deferred: counter(messages);
            /// Packets that repairs gave, or that came on later ones, and had not arrived.
            pub packets_recovered: counter(packets);
            /// Repairs received.
            pub repairs_received: counter(repairs);
            /// Repairs dropped: their flow is unknown.
            pub repairs_stray: counter(repairs);
            /// Packets that carried nothing but acknowledgements.
            pub acks_sent: counter(packets);
            /// Acknowledgements that rode on a packet.
            pub acks_ridden: counter(messages);
            /// Messages dropped: wrong checksum.
            pub messages_damaged: counter(messages);
            /// Messages dropped: not HBH.
            pub messages_malformed: counter(messages);
            /// Messages dropped: from no known peer.
            pub messages_unknown_peer: counter(messages);
            /// Gaps in a TCP connection that the last hop waited for in vain.
            pub gaps_given_up: counter(connections);
            /// TCP segments dropped: the last hop kept back another one from the same place, with at least their octets.
            pub segments_contained: counter(packets);
        }
        /// Flows remembered now.
        pub flows: gauge(flows);
        /// Packets waiting or unacknowledged now.
        pub packets_held: gauge(packets);
    }
}
