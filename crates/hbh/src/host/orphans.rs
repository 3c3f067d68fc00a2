//! Keeps packets that cannot reach their neighbour until they find another way.
//!
//! ```text
//!   push ─▶ wait for a way, some seconds ─▶ poll ─▶ routed again
//!               │ in vain, and the neighbour fell silent
//!               ▼
//!           TCP segments are kept as well ─▶ handle_up: the neighbour is back ─▶ poll
//! ```
//! A TCP segment of a neighbour that fell silent goes on in vain if it is the link that is down, and
//! its sender retransmits after ever longer times. So the segment is kept, and goes out when the
//! neighbour is back: the first acknowledgement ends the sender's waiting.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::contract::Refused;
use base::ip::{FlowKey, Header, protocol};
use base::time::Time;

use crate::neighbours::Place;
use crate::{Peer, TCP_LIFETIME};

/// How long a packet waits for a way; routing daemons need a second or a few.
const HELD_FOR: Duration = Duration::from_secs(5);
/// Packets that wait at most; beyond, the oldest goes on as it is.
const MOST_WAITING: usize = 4_096;
/// Segments kept at most, for as long as TCP would send them; beyond, the oldest is forgotten.
const MOST_KEPT: usize = 4_096;

/// A packet that was taken back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Orphan {
    /// Its octets.
    pub packet: Vec<u8>,
    /// Its addresses, ports and protocol.
    pub flow: FlowKey,
    /// The peer that brought the packet, if any.
    pub from: Option<Peer>,
    /// The peer that the packet was for and its place, if the peer fell silent: no way leads
    /// through it.
    pub silent: Option<(Peer, Place)>,
    until: Time,
}

/// All packets that were taken back. The driver knows the routes.
#[derive(Debug, Default)]
pub struct Orphans {
    /// Oldest first.
    waiting: VecDeque<Orphan>,
    /// For whom each is kept; oldest first.
    kept: VecDeque<(Place, Orphan)>,
    ready: VecDeque<Orphan>,
}

impl Orphans {
    /// Keeps a packet that was taken back. `from` brought it; `silent` is the peer the packet was
    /// for, unless the peer is still there and only the route has changed.
    ///
    /// # Errors
    /// When the packet is no IP packet.
    pub fn push(
        &mut self,
        now: Time,
        packet: &[u8],
        from: Option<Peer>,
        silent: Option<(Peer, Place)>,
    ) -> Result<(), Refused> {
        let header = Header::parse(packet).map_err(|_| Refused::Malformed)?;
        let (flow, _) = FlowKey::of(&header, packet);
        let until = now + HELD_FOR;
        self.waiting.push_back(Orphan { packet: packet.to_vec(), flow, from, silent, until });
        Ok(())
    }

    /// Makes packets ready that have a way now or have waited for too long; returns how many of the
    /// latter have no way.
    pub fn settle(&mut self, now: Time, mut has_way: impl FnMut(&Orphan) -> bool) -> u64 {
        let mut answers = BTreeMap::new();
        let mut surplus = self.waiting.len().saturating_sub(MOST_WAITING);
        let mut without = 0;
        for orphan in std::mem::take(&mut self.waiting) {
            let asked = (orphan.flow, orphan.from, orphan.silent);
            let has_way = *answers.entry(asked).or_insert_with(|| has_way(&orphan));
            if !has_way && surplus == 0 && now < orphan.until {
                self.waiting.push_back(orphan);
                continue;
            }
            surplus = surplus.saturating_sub(1);
            if !has_way {
                without += 1;
                self.keep(now, &orphan);
            }
            self.ready.push_back(orphan);
        }
        without
    }

    /// The neighbour at `place` is up: makes the packets ready that were kept for the neighbour.
    pub fn handle_up(&mut self, now: Time, place: Place) {
        for (at, orphan) in std::mem::take(&mut self.kept) {
            if orphan.until <= now {
                continue;
            }
            if at == place {
                self.ready.push_back(orphan);
            } else {
                self.kept.push_back((at, orphan));
            }
        }
    }

    /// The next that is to be routed again.
    pub fn poll(&mut self) -> Option<Orphan> {
        self.ready.pop_front()
    }

    /// When to call [`Self::settle`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.waiting.front().map(|orphan| orphan.until)
    }

    /// How many wait for a way.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many are kept for neighbours that fell silent.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    fn keep(&mut self, now: Time, orphan: &Orphan) {
        let Some((_, place)) = orphan.silent else { return };
        if orphan.flow.protocol != protocol::TCP {
            return;
        }
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((place, Orphan { until: now + TCP_LIFETIME, ..orphan.clone() }));
    }
}

#[cfg(test)]
mod tests {
    use base::ethernet::Mac;
    use base::ip::Spec;

    use super::*;

    const PLACE: Place = (0, Mac([2, 0, 0, 0, 0, 1]));

    #[test]
    fn a_packet_waits_for_a_way_and_then_goes_without() {
        let mut orphans = with(&[packet(protocol::UDP)]);

        assert_eq!(orphans.settle(Time::ZERO, |_| false), 0);
        assert_eq!(orphans.poll(), None);
        assert_eq!(orphans.next_timeout(), Some(Time::ZERO + HELD_FOR));

        assert_eq!(orphans.settle(Time::ZERO + HELD_FOR, |_| false), 1);
        assert_eq!(orphans.poll().map(|orphan| orphan.packet), Some(packet(protocol::UDP)));
        assert_eq!((orphans.waiting(), orphans.kept()), (0, 0));
    }

    #[test]
    fn a_segment_goes_out_once_more_when_its_neighbour_is_back() {
        let mut orphans = with(&[packet(protocol::TCP)]);
        let late = Time::ZERO + HELD_FOR;
        orphans.settle(late, |_| false);
        assert!(orphans.poll().is_some());

        orphans.handle_up(late, (1, PLACE.1));
        assert_eq!((orphans.poll(), orphans.kept()), (None, 1), "of another interface");
        orphans.handle_up(late, PLACE);
        assert_eq!(orphans.poll().map(|orphan| orphan.packet), Some(packet(protocol::TCP)));
        assert_eq!(orphans.kept(), 0);
    }

    #[test]
    fn a_segment_is_not_kept_for_longer_than_tcp_sends_it() {
        let mut orphans = with(&[packet(protocol::TCP)]);
        let late = Time::ZERO + HELD_FOR;
        orphans.settle(late, |_| false);
        orphans.poll();

        orphans.handle_up(late + TCP_LIFETIME, PLACE);

        assert_eq!((orphans.poll(), orphans.kept()), (None, 0));
    }

    #[test]
    fn what_is_too_much_goes_at_once_the_oldest_first() {
        let packets: Vec<_> = (0..MOST_WAITING + 2).map(|_| packet(protocol::TCP)).collect();
        let mut orphans = with(&packets);

        assert_eq!(orphans.settle(Time::ZERO, |_| false), 2);

        assert_eq!((orphans.waiting(), orphans.kept()), (MOST_WAITING, 2));

        orphans.settle(Time::ZERO + HELD_FOR, |_| false);
        assert_eq!((orphans.waiting(), orphans.kept()), (0, MOST_KEPT));
    }

    fn with(packets: &[Vec<u8>]) -> Orphans {
        let mut orphans = Orphans::default();
        for packet in packets {
            orphans.push(Time::ZERO, packet, None, Some((Peer(7), PLACE))).unwrap();
        }
        orphans
    }

    fn packet(protocol: u8) -> Vec<u8> {
        let mut packet = Vec::new();
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        Spec::new(addresses[0], addresses[1], protocol).emit(20, &mut packet);
        packet.extend_from_slice(&[0; 20]);
        packet
    }
}
