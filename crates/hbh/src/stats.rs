//! The counters of HBH.

use serde::Serialize;

/// Counters of a node's HBH since it started; the last two are levels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// IP packets offered by the IP stack or brought by a peer.
    #[serde(flatten)]
    pub intake: Intake,
    /// What was sent to peers, and their acknowledgements.
    #[serde(flatten)]
    pub sent: Sent,
    /// Counters of messages from peers, and of our acknowledgements.
    #[serde(flatten)]
    pub received: Received,
    /// Flows remembered now.
    pub flows: u64,
    /// Packets waiting or unacknowledged now.
    pub packets_held: u64,
}

/// Counters of IP packets that were to be sent to a peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Intake {
    /// IP packets taken to be sent to a peer.
    pub packets_taken: u64,
    /// ... of those, repeats of a TCP segment still in flight or queued: nothing new is sent.
    pub packets_absorbed: u64,
    /// ... of those, marked with congestion experienced because they entered a long queue.
    pub packets_marked: u64,
    /// IP packets refused: the queue, or the node's memory for packets or flows, was full.
    pub packets_full: u64,
    /// ... of those, packets brought by a peer, and so lost here.
    pub packets_full_inside: u64,
    /// IP packets refused: not IP.
    pub packets_malformed: u64,
    /// IP packets refused: longer than the link carries.
    pub packets_too_big: u64,
    /// IP packets refused: no such peer.
    pub packets_unknown_peer: u64,
}

/// Counters of messages sent to peers, and of their acknowledgements.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Sent {
    /// HDMs transmitted, repeats included.
    pub data_sent: u64,
    /// ... of those, sent again because they were lost, or taken to be.
    pub data_repeated: u64,
    /// ... of those, sent a second time over an idle link without being asked.
    pub data_spare: u64,
    /// Acknowledgements of TCP carried a second time, on a later one.
    pub data_older: u64,
    /// Acknowledgements of TCP not sent again because a later one says more.
    pub data_superseded: u64,
    /// Repairs transmitted: sums of packets, over an idle link.
    pub repairs_sent: u64,
    /// Packets discarded: they waited for longer than a packet may.
    pub packets_expired: u64,
    /// Packets discarded: their connection was reset.
    pub packets_reset: u64,
    /// Packets given up on after R retries.
    pub packets_abandoned: u64,
    /// HAMs received.
    pub acks_received: u64,
    /// HAMs for a flow that is not known.
    pub acks_stray: u64,
    /// HAMs received with a report of congestion.
    pub congestion_received: u64,
}

/// What came from peers, and how it was acknowledged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// HDMs that brought a new packet.
    pub data_received: u64,
    /// HDMs that brought a packet again.
    pub data_duplicate: u64,
    /// HDMs not accepted because the packet could not be queued for its next hop; the peer keeps it.
    pub data_deferred: u64,
    /// Packets that repairs gave, or that came on later ones, and had not arrived.
    pub packets_recovered: u64,
    /// Repairs received.
    pub repairs_received: u64,
    /// Repairs dropped: their flow is unknown.
    pub repairs_stray: u64,
    /// Packets that carried nothing but acknowledgements.
    pub acks_sent: u64,
    /// Acknowledgements that rode on a packet.
    pub acks_ridden: u64,
    /// Messages dropped: wrong checksum.
    pub messages_damaged: u64,
    /// Messages dropped: not HBH.
    pub messages_malformed: u64,
    /// Messages dropped: from no known peer.
    pub messages_unknown_peer: u64,
    /// Gaps in a TCP connection that the last hop waited for in vain.
    pub gaps_given_up: u64,
}
