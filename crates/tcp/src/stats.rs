//! Counters of a connection.

use super::algorithm::Finding;

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Segments sent.
    pub sent: Sent,
    /// Acknowledgements, losses and round trips.
    pub feedback: Feedback,
    /// Segments taken in.
    pub received: Received,
    /// Changes of the path MTU.
    pub mtu_changes: u64,
    /// What the congestion control has found out.
    pub finding: Finding,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// Segments sent, all kinds.
    pub segments: u64,
    /// Segments sent that carried payload, SYN or FIN, repeats included.
    pub data_segments: u64,
    /// Segments sent that carried nothing but an acknowledgement.
    pub acks: u64,
    /// Octets of payload sent, repeats included.
    pub octets: u64,
    /// Segments sent again, for whatever reason.
    pub retransmissions: u64,
    /// Octets of payload sent again.
    pub octets_retransmitted: u64,
    /// New data sent on early duplicate acknowledgements (RFC 3042).
    pub limited_transmits: u64,
    /// Last resorts of a recovery by SACK (RFC 6675, NextSeg rule 4).
    pub rescue_retransmissions: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Probes of an idle peer.
    pub keep_alive_probes: u64,
    /// Answers to segments that may be forged (RFC 5961).
    pub challenge_acks: u64,
    /// Challenge acknowledgements withheld by the rate limit.
    pub challenge_acks_held: u64,
    /// Resets sent.
    pub resets: u64,
}

/// What acknowledgements said, or their absence.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Feedback {
    /// Octets of payload acknowledged by the peer.
    pub octets_acked: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Timeouts that were undone: nothing was lost (RFC 4015).
    pub timeouts_undone: u64,
    /// Recoveries that duplicate acknowledgements or SACK started.
    pub fast_retransmits: u64,
    /// Duplicate acknowledgements taken in.
    pub duplicate_acks: u64,
    /// Segments reported by the peer as received twice (RFC 2883).
    pub spurious_retransmissions: u64,
    /// SACK blocks that make no sense.
    pub bad_sack_blocks: u64,
    /// Reductions of the window caused by ECN.
    pub ecn_reductions: u64,
    /// Round-trip times taken.
    pub rtt_samples: u64,
}

/// What was taken in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Received {
    /// Segments taken in, all kinds.
    pub segments: u64,
    /// Octets of payload taken in, in order, once each.
    pub octets: u64,
    /// Segments received out of order and kept.
    pub out_of_order: u64,
    /// Segments with payload already received.
    pub duplicates: u64,
    /// Segments outside the window.
    pub out_of_window: u64,
    /// Segments dropped because they would have made too many holes.
    pub too_many_holes: u64,
    /// Segments dropped because their timestamp is old (RFC 7323, 5).
    pub paws_drops: u64,
    /// Segments dropped because they lack the timestamp agreed on (RFC 7323, 3.2).
    pub missing_timestamps: u64,
    /// Acknowledgements of data never sent, or of the far past (RFC 5961, 5).
    pub bad_acks: u64,
    /// Resets taken in that were not believed.
    pub ignored_resets: u64,
    /// Segments taken in with congestion experienced.
    pub ecn_marks: u64,
    /// ICMP errors taken in.
    pub icmp_errors: u64,
}
