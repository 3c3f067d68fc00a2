//! In-order delivery within a flow: which source each packet has to wait for at the other end.

/// Flows by bucket of the queue.
const BUCKETS: usize = 1_024;

/// For each flow the source with its last packet, plus one, and the wait of the packet.
#[derive(Debug)]
pub struct FlowOrder(Vec<(u64, u16)>);

impl Default for FlowOrder {
    fn default() -> Self {
        Self(vec![(0, 0); BUCKETS])
    }
}

impl FlowOrder {
    /// Puts a packet of `flow` into source `number`. Returns how many sources back the flow's previous
    /// packet is; 0 when there is none, or when its source is before `floor`, for which nobody waits.
    /// Behind a packet in the same source, the new packet has the same wait.
    pub fn push(&mut self, flow: u32, number: u64, floor: u64) -> u16 {
        let bucket = usize::try_from(flow).unwrap_or(0) % BUCKETS;
        let (last, awaited) = self.0[bucket];
        let wait = if last == number + 1 {
            awaited
        } else if last == 0 || last > number || last - 1 < floor {
            0
        } else {
            u16::try_from(number - (last - 1)).unwrap_or(0)
        };
        self.0[bucket] = (number + 1, wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_in_one_source_wait_for_the_same() {
        let mut order = FlowOrder::default();

        let waits = [(7, 10), (7, 12), (8, 12), (7, 12), (7, 13)];
        let waits = waits.map(|(flow, number)| order.push(flow, number, 10));

        assert_eq!(waits, [0, 2, 0, 2, 1]);
        assert_eq!(order.push(7, 20, 14), 0, "nobody waits for what is acknowledged");
    }
}
