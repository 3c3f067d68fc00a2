//! Counters of HBH's interfaces: packets seen, and packets dropped by reason.

base::counters! {
    /// Counters of the way between kernel, HBH and links; HBH has its own counters.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Counters {
        /// What the kernel handed over.
        pub intercepted: struct Intercepted {
            /// Frames taken from the kernel; one may be a train of many segments.
            pub frames_intercepted: counter(frames);
            /// Packets in them.
            pub packets_intercepted: counter(packets);
            /// Frames that the kernel sent into our device of its own accord; dropped.
            pub frames_stray: counter(frames);
            /// Frames that the kernel describes wrongly; dropped.
            pub frames_malformed: counter(frames);
            /// Packets sent plain: what neighbours say to each other, or the next hop had just stopped speaking HBH.
            pub packets_plain: counter(packets);
            /// Packets past HBH dropped because too many waited for the interface.
            pub packets_plain_full: counter(packets);
            /// ICMP errors sent.
            pub icmp_sent: counter(messages);
            /// ICMP errors that could not be sent.
            pub icmp_failed: counter(messages);
            /// ICMP errors not sent because there were too many.
            pub icmp_suppressed: counter(messages);
        }
        /// What the kernel was handed.
        pub released: struct Released {
            /// Packets handed to the kernel, which delivers, forwards, drops, or answers with an error.
            pub packets_released: counter(packets);
            /// Packets that the kernel did not take.
            pub packets_release_failed: counter(packets);
            /// ... of the rerouted packets, this node's own, sent again.
            pub packets_returned: counter(packets);
        }
        /// Frames on the interfaces.
        pub received: struct Received {
            /// Frames received from neighbours.
            pub frames_received: counter(frames);
            /// Frames for other stations; dropped.
            pub frames_foreign: counter(frames);
        }
        /// Frames to neighbours.
        pub sent: struct Sent {
            /// Frames sent to neighbours.
            pub frames_sent: counter(frames);
            /// Frames that the interface refused; dropped.
            pub frames_send_failed: counter(frames);
            /// Times the interface had no more room.
            pub links_busy: counter(times);
        }
        /// Changes of routes, links or addresses.
        pub route_changes: counter(routes);
    }
}

base::counters! {
    /// What HBH's service has besides.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Levels {
        /// Neighbours that are up.
        pub neighbours: gauge(neighbours) in usize;
        /// Routes that the kernel was asked for.
        pub routes_asked: counter(routes);
        /// Packets that wait for a route.
        pub packets_waiting: gauge(packets) in usize;
        /// Segments kept for others that come before them.
        pub segments_kept: gauge(segments) in usize;
    }
}

#[cfg(test)]
mod tests {
    use hbh::{host, neighbours};

    use super::*;
    use crate::service::{Entry, entries};

    #[test]
    fn every_counter_is_documented() {
        let docs = include_str!("../../../../../docs/guide/gateway.md");
        let all = [
            entries("", &Counters::default()),
            entries("", &host::Stats::default()),
            entries("", &neighbours::Stats::default()),
        ];

        for Entry { name, .. } in all.into_iter().flatten() {
            assert!(docs.contains(&format!("`{name}`")), "{name} is not in docs/guide/gateway.md");
        }
    }
}
