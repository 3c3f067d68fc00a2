//! The counters of a tunnel.

use std::time::Duration;

use serde::Serialize;

/// Counters of one tunnel. They only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Packets of the user.
    #[serde(flatten)]
    pub inner: Inner,
    /// What was sent to the peer.
    #[serde(flatten)]
    pub sent: Sent,
    /// What the peer sent.
    #[serde(flatten)]
    pub received: Received,
}

/// Counters of the user's packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Inner {
    /// Inner packets taken.
    pub packets_in: u64,
    /// Octets of those.
    pub octets_in: u64,
    /// Inner packets released.
    pub packets_out: u64,
    /// Octets of those.
    pub octets_out: u64,
    /// Inner packets sent in parts, because they are longer than a datagram.
    pub packets_cut: u64,
    /// Inner packets joined from their parts.
    pub packets_joined: u64,
    /// Inner packets of which a part was given up.
    pub packets_broken: u64,
    /// Inner packets refused: no IP packet.
    pub refused_malformed: u64,
    /// Inner packets refused or discarded: too big.
    pub refused_too_big: u64,
    /// Inner packets refused or discarded: longer than a datagram, and the peer is an older one that joins
    /// no parts.
    pub refused_uncut: u64,
    /// Inner packets refused or discarded because the path is down.
    pub refused_down: u64,
    /// Inner packets marked with congestion experienced.
    pub queue_marked: u64,
    /// Inner packets dropped to slow down a flow without ECN.
    pub queue_dropped: u64,
    /// Inner packets dropped because the queue was full.
    pub queue_overflowed: u64,
}

/// Counters of datagrams, packets and sources sent to the peer, and of their fate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Sent {
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Octets of the datagrams sent, with all headers.
    pub octets_sent: u64,
    /// Datagrams sent that did not arrive, by what the peer reports; without probes that were too long.
    pub datagrams_lost: u64,
    /// Sources sent for the first time.
    pub sources_sent: u64,
    /// Sources sent again.
    pub sources_resent: u64,
    /// Repairs sent.
    pub repairs_sent: u64,
    /// Datagrams sent with nothing but a report.
    pub reports_sent: u64,
    /// Packets sent with compressed headers.
    pub headers_compressed: u64,
    /// Octets saved in these packets.
    pub header_octets_saved: u64,
    /// Contexts announced for headers to be compressed.
    pub contexts_announced: u64,
    /// Timeouts: no report came in time.
    pub timeouts: u64,
    /// Sources given up by the sender: too old.
    pub sources_expired: u64,
    /// Reports that contradict the datagrams sent.
    pub impossible_reports: u64,
}

/// What the peer sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams of the peer that did not arrive.
    pub datagrams_missed: u64,
    /// Datagrams that could not be read.
    #[serde(rename = "datagrams_malformed")]
    pub malformed: u64,
    /// Sources received plain.
    pub sources_received: u64,
    /// Sources received again.
    pub duplicates: u64,
    /// Sources recovered from repairs.
    pub sources_recovered: u64,
    /// Sources given up by the receiver.
    pub sources_given_up: u64,
    /// Compressed headers restored.
    pub headers_restored: u64,
    /// Packets dropped because the context of their compressed headers was not there.
    pub headers_unknown: u64,
    /// Repairs that brought something new.
    pub repairs_useful: u64,
    /// Repairs that brought nothing new.
    pub repairs_redundant: u64,
    /// Repairs over sources that are no longer kept.
    pub repairs_stale: u64,
    /// Repairs for which there was no room.
    pub repairs_full: u64,
    /// Sources and repairs that are longer than any path takes; dropped.
    pub symbols_too_long: u64,
}

/// A tunnel's estimates of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimates {
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The rate at which it may send, in bit/s of outer IP packets.
    pub rate: f64,
    /// The probability that a datagram to the peer is lost.
    pub loss: f64,
    /// The probability that a datagram of the peer is lost.
    pub loss_in: f64,
    /// The mean length of a run of losses on the way to the peer, in datagrams.
    pub burst: f64,
    /// Octets that wait to be sent.
    pub queued: usize,
    /// Sources that are not acknowledged.
    pub unacknowledged: usize,
    /// The greatest outer IP packet, in octets.
    pub path_mtu: usize,
    /// Octets of the longest inner packet that is not cut.
    pub whole: usize,
}
