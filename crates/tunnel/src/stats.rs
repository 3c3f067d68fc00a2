//! The counters of a tunnel.

use std::time::Duration;

use super::number::PathId;

base::counters! {
    /// Counters of one tunnel. They only grow.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Packets of the user.
        pub inner: struct Inner {
            /// Inner packets taken.
            pub packets_in: counter(packets);
            /// Octets of those.
            pub octets_in: counter(octets);
            /// Inner packets taken over from the tunnel to an earlier process of the peer, not acknowledged by it.
            pub packets_taken_over: counter(packets);
            /// Inner packets released.
            pub packets_out: counter(packets);
            /// Octets of those.
            pub octets_out: counter(octets);
            /// Inner packets sent in parts, because they are longer than a datagram.
            pub packets_cut: counter(packets);
            /// Inner packets joined from their parts.
            pub packets_joined: counter(packets);
            /// Inner packets of which a part was given up.
            pub packets_broken: counter(packets);
            /// Inner packets dropped because those released before them still waited to be written.
            pub packets_over_budget: counter(packets);
            /// Inner packets refused: no IP packet.
            pub refused_malformed: counter(packets);
            /// Inner packets refused or discarded: too big.
            pub refused_too_big: counter(packets);
            /// Inner packets refused or discarded: longer than a datagram, and the peer is an older one that joins no
            /// parts.
            pub refused_uncut: counter(packets);
            /// Inner packets refused or discarded because the path is down.
            pub refused_down: counter(packets);
            /// TCP segments sent again after a silence of the peer, so that their connections go on at once.
            pub packets_resumed: counter(packets);
            /// Inner packets marked with congestion experienced.
            pub queue_marked: counter(packets);
            /// Inner packets dropped to slow down a flow without ECN.
            pub queue_dropped: counter(packets);
            /// Inner packets dropped because the queue was full.
            pub queue_overflowed: counter(packets);
            /// Inner TCP segments dropped because an earlier copy still waited.
            pub queue_repeated: counter(packets);
        }
        /// What was sent to the peer.
        pub sent: struct Sent {
            /// Datagrams sent.
            pub datagrams_sent: counter(datagrams);
            /// Octets of the datagrams sent, with all headers.
            pub octets_sent: counter(octets);
            /// Datagrams sent that did not arrive, by what the peer reports; without probes that were too long.
            pub datagrams_lost: counter(datagrams);
            /// Sources sent for the first time.
            pub sources_sent: counter(sources);
            /// Sources sent again.
            pub sources_resent: counter(sources);
            /// Repairs sent.
            pub repairs_sent: counter(repairs);
            /// Sources sent again in place of repairs, because repairs for this peer had made too much work.
            pub repairs_replaced: counter(sources);
            /// Times when repairs, and sources that the peer lacks, waited because too many had been sent.
            pub equations_deferred: counter(times);
            /// Work that repairs sent have made: octets multiplied and added.
            pub repair_work: counter(steps);
            /// Datagrams sent with nothing but a report.
            pub reports_sent: counter(datagrams);
            /// Packets sent with compressed headers.
            pub headers_compressed: counter(packets);
            /// Octets saved in these packets.
            pub header_octets_saved: counter(octets);
            /// Contexts announced for headers to be compressed.
            pub contexts_announced: counter(contexts);
            /// Timeouts: no report came in time.
            pub timeouts: counter(times);
            /// Sources given up by the sender: too old.
            pub sources_expired: counter(sources);
            /// Reports that contradict the datagrams sent.
            pub impossible_reports: counter(reports);
            /// Reports of which only the acknowledgement counted, because the peer's reports had made too much work.
            pub reports_over_budget: counter(reports);
            /// Work that the reports of the peer have made: sources looked at, 64 steps each.
            pub report_work: counter(steps);
        }
        /// What the peer sent.
        pub received: struct Received {
            /// Datagrams received.
            pub datagrams_received: counter(datagrams);
            /// Datagrams of the peer that did not arrive.
            pub datagrams_missed: counter(datagrams);
            /// Datagrams that could not be read.
            pub malformed as "datagrams_malformed": counter(datagrams);
            /// Sources received plain.
            pub sources_received: counter(sources);
            /// Sources received again.
            pub duplicates: counter(sources);
            /// Sources recovered from repairs.
            pub sources_recovered: counter(sources);
            /// Sources given up by the receiver.
            pub sources_given_up: counter(sources);
            /// Compressed headers restored.
            pub headers_restored: counter(packets);
            /// Packets dropped because the context of their compressed headers was not there.
            pub headers_unknown: counter(packets);
            /// Repairs that brought something new.
            pub repairs_useful: counter(repairs);
            /// Repairs that brought nothing new.
            pub repairs_redundant: counter(repairs);
            /// Repairs over sources that are no longer kept.
            pub repairs_stale: counter(repairs);
            /// Repairs for which there was no room.
            pub repairs_full: counter(repairs);
            /// Repairs dropped because the peer's datagrams of that moment had made too much work.
            pub repairs_over_budget: counter(repairs);
            /// Sources and floors far ahead dropped for the same reason.
            pub leaps_refused: counter(datagrams);
            /// Demands for a report that waited because the peer's datagrams had made too much work.
            pub reports_deferred: counter(reports);
            /// Work that the peer's datagrams made: octets multiplied and added, and what takes as long.
            pub work: counter(steps);
            /// Sources and repairs that are longer than any path takes; dropped.
            pub symbols_too_long: counter(sources);
        }
    }
}

/// What is known of a path to the peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfPath {
    /// Which.
    pub path: PathId,
    /// Whether data go there and arrive.
    pub serves: bool,
    /// Whether it serves only while no other path does.
    pub is_backup: bool,
    /// Whether the peer has proved that it receives there.
    pub is_proved: bool,
    /// The smoothed round trip; zero before the first measurement.
    pub rtt: Duration,
    /// The rate that arrives, in bit/s of outer IP packets.
    pub rate: f64,
    /// The probability that a datagram to the peer is lost.
    pub loss: f64,
    /// The probability that a datagram of the peer is lost.
    pub loss_in: f64,
    /// The greatest outer IP packet, in octets.
    pub mtu: usize,
    /// Datagrams sent there.
    pub datagrams_sent: u64,
}

/// Estimates about the path of a tunnel.
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
