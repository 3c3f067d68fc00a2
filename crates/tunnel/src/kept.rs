//! Keeps the newest TCP segment of each flow over a silence of the peer.
//!
//! TCP repeats a segment ever more seldom, so that a connection stands still for half as long again after a long outage.
//! What it repeated during the outage has expired by then, or was refused. With its copy, TCP goes on within a round trip.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;

/// Flows of which a segment is kept, at most; the one with the oldest segment gives way.
const FLOWS: usize = 64;
/// Longer segments are not kept, in octets.
const LONGEST: usize = 2_048;

/// The segments by the bucket of their flow, each with the time from which on the tunnel has no other copy.
#[derive(Debug, Default)]
pub struct Kept {
    segments: BTreeMap<usize, (Time, Vec<u8>)>,
    /// Since when nothing that was sent is known to have arrived.
    unanswered: Option<Time>,
}

impl Kept {
    /// A source or an equation was sent.
    pub fn handle_sent(&mut self, now: Time) {
        self.unanswered.get_or_insert(now);
    }

    /// The peer reports that something new has arrived.
    pub fn handle_arrival(&mut self) {
        self.unanswered = None;
    }

    /// Whether the peer has reported nothing new for `wait`, though something was sent.
    pub fn is_silent(&self, now: Time, wait: Duration) -> bool {
        self.unanswered.is_some_and(|since| now.since(since) >= wait)
    }

    /// Keeps a segment, of which the tunnel has another copy until `expires`, in place of an earlier one of the flow.
    pub fn keep(&mut self, expires: Time, flow: usize, segment: &[u8]) {
        if segment.len() > LONGEST {
            return;
        }
        if self.segments.len() == FLOWS && !self.segments.contains_key(&flow) {
            let oldest = self.segments.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(flow, _)| *flow) {
                self.segments.remove(&oldest);
            }
        }
        self.segments.insert(flow, (expires, segment.to_vec()));
    }

    /// Forgets all segments, and returns those of which the tunnel has no other copy.
    pub fn take(&mut self, now: Time) -> impl Iterator<Item = Vec<u8>> + use<> {
        let all = std::mem::take(&mut self.segments).into_values();
        all.filter(move |(expires, _)| *expires <= now).map(|(_, segment)| segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_begins_with_what_was_sent_after_the_last_arrival() {
        let mut kept = Kept::default();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let wait = Duration::from_millis(100);

        kept.handle_sent(at(0));
        kept.handle_arrival();
        assert!(!kept.is_silent(at(500), wait), "nothing was sent since");
        kept.handle_sent(at(500));

        assert_eq!([599, 600].map(|millis| kept.is_silent(at(millis), wait)), [false, true]);
    }

    #[test]
    fn the_newest_segment_of_each_flow_is_kept_within_bounds() {
        let mut kept = Kept::default();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);

        kept.keep(at(1), 7, &[1; 100]);
        kept.keep(at(2), 7, &[2; 100]);
        kept.keep(at(3), 8, &[3; LONGEST + 1]);
        kept.keep(at(9), 9, &[4; LONGEST]);
        assert_eq!(kept.take(at(5)).collect::<Vec<_>>(), [vec![2; 100]]);
        assert!(kept.segments.is_empty(), "what is on its way is forgotten");

        for flow in 0..=FLOWS {
            kept.keep(at(flow as u64), flow, &[0; 40]);
        }
        assert_eq!(kept.segments.len(), FLOWS);
        assert!(!kept.segments.contains_key(&0), "the oldest gave way");
    }
}
