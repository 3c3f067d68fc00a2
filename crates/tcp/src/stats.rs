//! Counters of a connection.

use super::algorithm::Finding;

base::counters! {
    /// Counters of a connection.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Segments sent.
        pub sent: struct Sent {
            /// Segments sent, all kinds.
            pub segments: counter(segments);
            /// Segments sent that carried payload, SYN or FIN, repeats included.
            pub data_segments: counter(segments);
            /// Segments sent that carried nothing but an acknowledgement.
            pub acks: counter(segments);
            /// Octets of payload sent, repeats included.
            pub octets: counter(octets);
            /// Segments sent again, for whatever reason.
            pub retransmissions: counter(segments);
            /// Octets of payload sent again.
            pub octets_retransmitted: counter(octets);
            /// New data sent on early duplicate acknowledgements (RFC 3042).
            pub limited_transmits: counter(messages);
            /// Last resorts of a recovery by SACK (RFC 6675, NextSeg rule 4).
            pub rescue_retransmissions: counter(times);
            /// Probes of a closed window.
            pub window_probes: counter(probes);
            /// Probes of an idle peer.
            pub keep_alive_probes: counter(probes);
            /// Answers to segments that may be forged (RFC 5961).
            pub challenge_acks: counter(answers);
            /// Challenge acknowledgements withheld by the rate limit.
            pub challenge_acks_held: counter(messages);
            /// Resets sent.
            pub resets: counter(resets);
        }
        /// Acknowledgements, losses and round trips.
        pub feedback: struct Feedback {
            /// Octets of payload acknowledged by the peer.
            pub octets_acked: counter(octets);
            /// Expiries of the retransmission timer.
            pub timeouts: counter(times);
            /// Timeouts that were undone: nothing was lost (RFC 4015).
            pub timeouts_undone: counter(times);
            /// Recoveries that duplicate acknowledgements or SACK started.
            pub fast_retransmits: counter(messages);
            /// Duplicate acknowledgements taken in.
            pub duplicate_acks: counter(messages);
            /// Segments reported by the peer as received twice (RFC 2883).
            pub spurious_retransmissions: counter(segments);
            /// SACK blocks that make no sense.
            pub bad_sack_blocks: counter(times);
            /// Reductions of the window caused by ECN.
            pub ecn_reductions: counter(times);
            /// Round-trip times taken.
            pub rtt_samples: counter(times);
        }
        /// Segments taken in.
        pub received: struct Received {
            /// Segments taken in, all kinds.
            pub segments: counter(segments);
            /// Octets of payload taken in, in order, once each.
            pub octets: counter(octets);
            /// Segments received out of order and kept.
            pub out_of_order: counter(segments);
            /// Segments with payload already received.
            pub duplicates: counter(segments);
            /// Segments outside the window.
            pub out_of_window: counter(segments);
            /// Segments dropped because they would have made too many holes.
            pub too_many_holes: counter(segments);
            /// Segments dropped because their timestamp is old (RFC 7323, 5).
            pub paws_drops: counter(segments);
            /// Segments dropped because they lack the timestamp agreed on (RFC 7323, 3.2).
            pub missing_timestamps: counter(segments);
            /// Acknowledgements of data never sent, or of the far past (RFC 5961, 5).
            pub bad_acks: counter(messages);
            /// Resets taken in that were not believed.
            pub ignored_resets: counter(resets);
            /// Segments taken in with congestion experienced.
            pub ecn_marks: counter(segments);
            /// ICMP errors taken in.
            pub icmp_errors: counter(messages);
        }
        /// Changes of the path MTU.
        pub mtu_changes: counter(times);
        /// What the congestion control has found out.
        pub finding: Finding;
    }
}
