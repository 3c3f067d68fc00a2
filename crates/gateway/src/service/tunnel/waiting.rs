//! Packets for a peer without keys, kept for a moment while keys are agreed on.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

/// Octets of all packets that wait for a peer, with [`BOOKKEEPING`] for each; more are not taken.
const MOST: usize = 256 << 10;
/// Octets of memory beside each packet.
const BOOKKEEPING: usize = 64;

/// The packets that wait for the keys of a peer, oldest first.
#[derive(Debug, Default)]
pub struct Waiting {
    packets: VecDeque<(Time, Vec<u8>)>,
    octets: usize,
}

impl Waiting {
    /// Keeps a packet; false if there is no room.
    pub fn push(&mut self, now: Time, packet: &[u8]) -> bool {
        let octets = self.octets + packet.len() + BOOKKEEPING;
        if octets > MOST {
            return false;
        }
        self.octets = octets;
        self.packets.push_back((now, packet.to_vec()));
        true
    }

    /// When a packet has waited for as long as `patience`.
    pub fn expires_at(&self, patience: Duration) -> Option<Time> {
        self.packets.front().map(|&(since, _)| since + patience)
    }

    /// Drops packets that have waited for as long as `patience`; returns how many.
    pub fn expire(&mut self, now: Time, patience: Duration) -> u64 {
        let mut count = 0;
        while self.expires_at(patience).is_some_and(|at| at <= now) {
            self.pop();
            count += 1;
        }
        count
    }

    /// The packet that has waited for longest.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let (_, packet) = self.packets.pop_front()?;
        self.octets -= packet.len() + BOOKKEEPING;
        if self.packets.is_empty() {
            self.packets = VecDeque::new();
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut waiting = Waiting::default();

        let taken = (0..10_000).filter(|_| waiting.push(Time::ZERO, &[0; 960])).count();

        assert_eq!(taken, 256);
        assert_eq!(waiting.expire(Time::ZERO + PATIENCE, PATIENCE), 256);
        assert_eq!((waiting.octets, waiting.packets.capacity()), (0, 0));
    }

    #[test]
    fn a_packet_waits_for_so_long_and_leaves_in_order() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut waiting = Waiting::default();
        for second in 0..3 {
            assert!(waiting.push(at(second.into()), &[second]));
        }

        assert_eq!(waiting.expires_at(PATIENCE), Some(at(2)));
        assert_eq!(waiting.expire(at(2), PATIENCE), 1);
        let left: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(left, [[1], [2]]);
        assert_eq!(waiting.expires_at(PATIENCE), None);
    }
}
