//! Counters of HBH's interfaces: packets seen, and packets dropped by reason.

use serde::Serialize;

/// Counters of the data path; HBH and the neighbours have their own counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Counters {
    /// What the kernel handed over.
    #[serde(flatten)]
    pub(super) intercepted: Intercepted,
    /// What the kernel was handed.
    #[serde(flatten)]
    pub(super) released: Released,
    /// Frames on the interfaces.
    #[serde(flatten)]
    pub(super) received: Received,
    /// Hellos that were dropped.
    #[serde(flatten)]
    pub(super) hellos: Hellos,
    /// Frames to neighbours.
    #[serde(flatten)]
    pub(super) sent: Sent,
    /// Changes of routes, links or addresses.
    pub(super) route_changes: u64,
}

/// Outcomes of the packets that the kernel handed over.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Intercepted {
    /// Frames taken from the kernel; one may be a train of many segments.
    pub(super) frames_intercepted: u64,
    /// Packets in them.
    pub(super) packets_intercepted: u64,
    /// Frames that the kernel sent into our device of its own accord; dropped.
    pub(super) frames_stray: u64,
    /// Frames that the kernel describes wrongly; dropped.
    pub(super) frames_malformed: u64,
    /// Packets sent plain: what neighbours say to each other, or the next hop had just stopped
    /// speaking HBH.
    pub(super) packets_plain: u64,
    /// Packets past HBH dropped because too many waited for the interface.
    pub(super) packets_plain_full: u64,
    /// Packets too long for the next hop, cut into fragments.
    pub(super) packets_fragmented: u64,
    /// Packets too long for the next hop that may not be cut; dropped, the sender is told.
    pub(super) packets_too_big: u64,
    /// Packets refused because a queue was full; dropped.
    pub(super) packets_full: u64,
    /// Packets that turned out to be no IP; dropped.
    pub(super) packets_malformed: u64,
    /// ICMP errors sent.
    pub(super) icmp_sent: u64,
    /// ICMP errors that could not be sent.
    pub(super) icmp_failed: u64,
    /// ICMP errors not sent because there were too many.
    pub(super) icmp_suppressed: u64,
    /// SYNs whose segment size was lowered.
    pub(super) syns_clamped: u64,
}

/// What the kernel was handed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Released {
    /// Packets handed to the kernel, which delivers, forwards, drops, or answers with an error.
    pub(super) packets_released: u64,
    /// Packets that the kernel did not take.
    pub(super) packets_release_failed: u64,
    /// Packets of neighbours dropped: their source is an address of this host.
    pub(super) packets_from_self: u64,
    /// Packets of neighbours dropped: their source is not the address of one host.
    pub(super) packets_not_unicast: u64,
    /// Packets taken back from a neighbour because their route changed or it went down.
    pub(super) packets_rerouted: u64,
    /// ... of the rerouted packets, this node's own, sent again.
    pub(super) packets_returned: u64,
    /// ... of the rerouted packets, given to the kernel after some seconds although there was no route.
    pub(super) packets_unrouted: u64,
}

/// Frames that came on the interfaces.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Received {
    /// Frames received from neighbours.
    pub(super) frames_received: u64,
    /// Frames for other stations; dropped.
    pub(super) frames_foreign: u64,
    /// Frames that carry no IP packet of our protocol; dropped.
    pub(super) frames_not_hbh: u64,
    /// HBH packets from stations that are no neighbours; dropped.
    pub(super) frames_unknown_peer: u64,
    /// HBH packets forged in the name of a neighbour; dropped.
    pub(super) frames_forged: u64,
    /// HBH packets of a neighbour that came before, or far too late; dropped.
    pub(super) frames_replayed: u64,
}

/// Hellos that were dropped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Hellos {
    /// Hellos that cannot be read; dropped.
    pub(super) hellos_malformed: u64,
    /// Hellos of another version; dropped.
    pub(super) hellos_other_version: u64,
    /// Hellos with another group key or none, or with one when we have none; dropped.
    pub(super) hellos_unauthenticated: u64,
    /// Hellos that claim our group key without having it; dropped.
    pub(super) hellos_forged: u64,
}

/// Frames to neighbours.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Sent {
    /// Frames sent to neighbours.
    pub(super) frames_sent: u64,
    /// Frames that the interface refused; dropped.
    pub(super) frames_send_failed: u64,
    /// Times the interface had no more room.
    pub(super) links_busy: u64,
    /// HBH packets for a neighbour that has just gone, or with an exhausted conversation; dropped.
    pub(super) packets_unsealed: u64,
}

#[cfg(test)]
mod tests {
    use hbh::neighbours;

    use super::*;
    use crate::service::entries;

    #[test]
    fn every_counter_is_documented() {
        let docs = include_str!("../../../../../docs/guide/gateway.md");
        let neighbours = entries("", &neighbours::Stats::default());

        for (name, _) in entries("", &Counters::default()).into_iter().chain(neighbours) {
            assert!(docs.contains(&format!("`{name}`")), "{name} is not in docs/guide/gateway.md");
        }
    }
}
