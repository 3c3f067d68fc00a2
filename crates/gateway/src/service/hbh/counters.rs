//! Counters of HBH's interfaces: packets seen, and packets dropped by reason.

base::counters! {
    /// Counters of the data path; HBH and the neighbours have their own counters.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub(crate) struct Counters {
        /// What the kernel handed over.
        pub(super) intercepted: struct Intercepted {
            /// Frames taken from the kernel; one may be a train of many segments.
            pub(super) frames_intercepted: counter(frames);
            /// Packets in them.
            pub(super) packets_intercepted: counter(packets);
            /// Frames that the kernel sent into our device of its own accord; dropped.
            pub(super) frames_stray: counter(frames);
            /// Frames that the kernel describes wrongly; dropped.
            pub(super) frames_malformed: counter(frames);
            /// Packets sent plain: what neighbours say to each other, or the next hop had just stopped speaking HBH.
            pub(super) packets_plain: counter(packets);
            /// Packets past HBH dropped because too many waited for the interface.
            pub(super) packets_plain_full: counter(packets);
            /// Packets too long for the next hop, cut into fragments.
            pub(super) packets_fragmented: counter(packets);
            /// Packets too long for the next hop that may not be cut; dropped, the sender is told.
            pub(super) packets_too_big: counter(packets);
            /// Packets refused because a queue was full; dropped.
            pub(super) packets_full: counter(packets);
            /// Packets that turned out to be no IP; dropped.
            pub(super) packets_malformed: counter(packets);
            /// ICMP errors sent.
            pub(super) icmp_sent: counter(messages);
            /// ICMP errors that could not be sent.
            pub(super) icmp_failed: counter(messages);
            /// ICMP errors not sent because there were too many.
            pub(super) icmp_suppressed: counter(messages);
            /// SYNs whose segment size was lowered.
            pub(super) syns_clamped: counter(packets);
        }
        /// What the kernel was handed.
        pub(super) released: struct Released {
            /// Packets handed to the kernel, which delivers, forwards, drops, or answers with an error.
            pub(super) packets_released: counter(packets);
            /// Packets that the kernel did not take.
            pub(super) packets_release_failed: counter(packets);
            /// Packets of neighbours dropped: their source is an address of this host.
            pub(super) packets_from_self: counter(packets);
            /// Packets of neighbours dropped: their source is not the address of one host.
            pub(super) packets_not_unicast: counter(packets);
            /// Packets taken back from a neighbour because their route changed or it went down.
            pub(super) packets_rerouted: counter(packets);
            /// ... of the rerouted packets, this node's own, sent again.
            pub(super) packets_returned: counter(packets);
            /// ... of the rerouted packets, given to the kernel after some seconds although there was no route.
            pub(super) packets_unrouted: counter(packets);
        }
        /// Frames on the interfaces.
        pub(super) received: struct Received {
            /// Frames received from neighbours.
            pub(super) frames_received: counter(frames);
            /// Frames for other stations; dropped.
            pub(super) frames_foreign: counter(frames);
            /// Frames that carry no IP packet of our protocol; dropped.
            pub(super) frames_not_hbh: counter(frames);
            /// HBH packets from stations that are no neighbours; dropped.
            pub(super) frames_unknown_peer: counter(packets);
            /// HBH packets forged in the name of a neighbour; dropped.
            pub(super) frames_forged: counter(packets);
            /// HBH packets of a neighbour that came before, or far too late; dropped.
            pub(super) frames_replayed: counter(packets);
        }
        /// Hellos that were dropped.
        pub(super) hellos: struct Hellos {
            /// Hellos that cannot be read; dropped.
            pub(super) hellos_malformed: counter(messages);
            /// Hellos of another version; dropped.
            pub(super) hellos_other_version: counter(messages);
            /// Hellos with another group key or none, or with one when we have none; dropped.
            pub(super) hellos_unauthenticated: counter(messages);
            /// Hellos that claim our group key without having it; dropped.
            pub(super) hellos_forged: counter(messages);
        }
        /// Frames to neighbours.
        pub(super) sent: struct Sent {
            /// Frames sent to neighbours.
            pub(super) frames_sent: counter(frames);
            /// Frames that the interface refused; dropped.
            pub(super) frames_send_failed: counter(frames);
            /// Times the interface had no more room.
            pub(super) links_busy: counter(times);
            /// HBH packets for a neighbour that has just gone, or with an exhausted conversation; dropped.
            pub(super) packets_unsealed: counter(packets);
        }
        /// Changes of routes, links or addresses.
        pub(super) route_changes: counter(routes);
    }
}

base::counters! {
    /// What HBH's service has besides.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub(crate) struct Levels {
        /// Neighbours that are up.
        pub(super) neighbours: gauge(neighbours) in usize;
        /// Routes that the kernel was asked for.
        pub(super) routes_asked: counter(routes);
        /// Packets that wait for a route.
        pub(super) packets_waiting: gauge(packets) in usize;
        /// Segments kept for others that come before them.
        pub(super) segments_kept: gauge(segments) in usize;
    }
}

#[cfg(test)]
mod tests {
    use hbh::neighbours;

    use super::*;
    use crate::service::{Entry, entries};

    #[test]
    fn every_counter_is_documented() {
        let docs = include_str!("../../../../../docs/guide/gateway.md");
        let neighbours = entries("", &neighbours::Stats::default());

        for Entry { name, .. } in entries("", &Counters::default()).into_iter().chain(neighbours) {
            assert!(docs.contains(&format!("`{name}`")), "{name} is not in docs/guide/gateway.md");
        }
    }
}
