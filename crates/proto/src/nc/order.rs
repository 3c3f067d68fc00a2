//! In-order delivery within a flow: which source each packet has to wait for at the other end.

/// Flows by bucket of the queue.
const BUCKETS: usize = 1_024;

/// For each flow the source with its last packet, plus one.
#[derive(Debug)]
pub(super) struct FlowOrder(Vec<u64>);

impl Default for FlowOrder {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

impl FlowOrder {
    /// Puts a packet of `flow` into source `number`. Returns how many sources back the packet before
    /// it is; 0 when there is none, or it is in a source before `floor`, which nobody waits for.
    pub(super) fn push(&mut self, flow: u32, number: u64, floor: u64) -> u16 {
        let bucket = usize::try_from(flow).unwrap_or(0) % BUCKETS;
        let last = std::mem::replace(&mut self.0[bucket], number + 1);
        if last == 0 || last > number || last - 1 < floor {
            return 0;
        }
        u16::try_from(number - (last - 1)).unwrap_or(0)
    }
}
