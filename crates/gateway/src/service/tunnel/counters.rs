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
        pub(super) device_reads: counter(reads) in Counter;
        /// Reads that cannot be cut or are no IP; dropped.
        pub(super) device_malformed: counter(reads) in Counter;
        /// Packets that belong to no peer; dropped, the sender told.
        pub(super) packets_unrouted: counter(packets) in Counter;
        /// Packets while no session was up; dropped, the sender told after a while.
        pub(super) packets_unready: counter(packets) in Counter;
        /// SYNs whose segment size was lowered.
        pub(super) syns_clamped: counter(packets) in Counter;
        /// ICMP errors written.
        pub(super) icmp_sent: counter(messages) in Counter;
        /// ICMP errors that were owed, and not written because there were too many.
        pub(super) icmp_suppressed: counter(messages) in Counter;
        /// Writes to the device; one may be a train of many packets.
        pub(super) device_writes: counter(writes) in Counter;
        /// Writes that the kernel refused.
        pub(super) device_refused: counter(writes) in Counter;
        /// Released packets from addresses that are not the peer's; dropped.
        pub(super) packets_disallowed: counter(packets) in Counter;
        /// Released packets from an address of this host; dropped.
        pub(super) packets_from_self: counter(packets) in Counter;
        /// Released packets from an address that is not one host's; dropped.
        pub(super) packets_not_unicast: counter(packets) in Counter;
        /// Routes and rules put back after somebody had removed them.
        pub(super) routes_restored: counter(routes) in Counter;
        /// Routes that stand aside because others' came.
        pub(super) routes_displaced: counter(routes) in Counter;
        /// System calls that received datagrams.
        pub(super) receives: counter(calls) in Counter;
        /// Datagrams of an earlier life of the peer; dropped.
        pub(super) datagrams_stale: counter(datagrams) in Counter;
        /// Datagrams that the kernel refused: no route, or too long.
        pub(super) datagrams_refused: counter(datagrams) in Counter;
        /// Handshakes and keepalives that the kernel refused.
        pub(super) control_refused: counter(handshakes) in Counter;
        /// Datagrams that could not be sealed; dropped.
        pub(super) datagrams_unsealed: counter(datagrams) in Counter;
        /// Times the socket was full.
        pub(super) socket_full: counter(times) in Counter;
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
