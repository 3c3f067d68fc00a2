//! What the threads count.

use std::sync::atomic::{AtomicU64, Ordering};

use base::counter::Countable;
use base::ip::BadSource;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Countable for Counter {
    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

base::counters! {
    /// Counters of the driver, over all tunnels.
    #[derive(Debug, Default)]
    pub(crate) struct Counters {
        /// Reads from the device; one may be a train of many packets.
        pub device_reads: counter(reads) in Counter;
        /// Reads that cannot be cut or are no IP; dropped.
        pub device_malformed: counter(reads) in Counter;
        /// Our own datagrams to peers, whose mark another program has changed; dropped.
        pub datagrams_looped: counter(datagrams) in Counter;
        /// Packets that belong to no peer; dropped, the sender told.
        pub packets_unrouted: counter(packets) in Counter;
        /// Packets that waited in vain for a session, or had no room to wait; dropped, the sender told after a while.
        pub packets_unready: counter(packets) in Counter;
        /// SYNs whose segment size was lowered.
        pub syns_clamped: counter(packets) in Counter;
        /// ICMP errors written.
        pub icmp_sent: counter(messages) in Counter;
        /// ICMP errors that were owed, and not written because there were too many.
        pub icmp_suppressed: counter(messages) in Counter;
        /// Writes to the device; one may be a train of many packets.
        pub device_writes: counter(writes) in Counter;
        /// Writes that the kernel refused.
        pub device_refused: counter(writes) in Counter;
        /// Released packets from addresses that are not the peer's; dropped.
        pub packets_disallowed: counter(packets) in Counter;
        /// Released packets from an address of this host; dropped.
        pub packets_from_self: counter(packets) in Counter;
        /// Released packets from an address that is not one host's; dropped.
        pub packets_not_unicast: counter(packets) in Counter;
        /// Routes and rules put back after somebody had removed them.
        pub routes_restored: counter(routes) in Counter;
        /// Routes that stand aside because others' came.
        pub routes_displaced: counter(routes) in Counter;
        /// System calls that received datagrams.
        pub receives: counter(calls) in Counter;
        /// Datagrams of an earlier life of the peer; dropped.
        pub datagrams_stale: counter(datagrams) in Counter;
        /// Datagrams that the kernel refused: no route, or too long.
        pub datagrams_refused: counter(datagrams) in Counter;
        /// Handshakes and keepalives that the kernel refused.
        pub control_refused: counter(handshakes) in Counter;
        /// Datagrams that could not be sealed; dropped.
        pub datagrams_unsealed: counter(datagrams) in Counter;
        /// Times the socket was full.
        pub socket_full: counter(times) in Counter;
    }
}

impl Counters {
    /// Counts a released packet whose source cannot be true.
    pub fn count_bad_source(&self, why: BadSource) {
        let counter = match why {
            BadSource::NotUnicast => &self.packets_not_unicast,
            BadSource::Own => &self.packets_from_self,
            BadSource::NotTheirs => &self.packets_disallowed,
        };
        counter.add(1);
    }
}
