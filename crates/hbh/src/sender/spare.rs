//! Uses an idle link for a flow's packets in flight, and lets short packets ride on later ones.

use base::time::Time;

use super::super::config::Config;
use super::super::peer::PeerState;
use super::super::repair;
use super::super::wire::{self, Mask, Repair};
use super::flight::State;
use super::{Choice, Packet, Sender, SentRepair};

impl Sender {
    /// What an idle link that loses packets may send without being asked.
    ///
    /// Repairs, until fewer losses than repairs are likely enough; copies where there is but one
    /// packet, or where a repair would be too long.
    pub(crate) fn choose_spare(
        &self,
        now: Time,
        peer: &PeerState,
        config: &Config,
    ) -> Option<Choice> {
        // Cheap, and mostly enough: no packet needs less quiet than data.
        if self.quiet_after(peer, config.redundancy.quiet_data()) > now {
            return None;
        }
        self.spare_at(peer, config).filter(|&at| at <= now)?;
        let (index, longest) = self.covered().fold((0, 0), |(_, longest), (index, packet)| {
            (index, longest.max(packet.octets.len()))
        });
        let span = index + 1 - self.covered().next()?.0;
        let is_one = self.covered().nth(1).is_none();
        let room = Repair::overhead(span) + repair::PREFIX;
        if is_one || longest + room > peer.config.mtu {
            let most = self.copies(peer, config);
            return self
                .covered()
                .find(|&(index, _)| self.flight.slots[index].flying_copies < most)
                .map(|(index, _)| Choice::Spare(index));
        }
        Some(Choice::Repair)
    }

    /// When idle time may begin to be used for what flies, if that is later than `now`.
    pub(crate) fn spare_timeout(
        &self,
        now: Time,
        peer: &PeerState,
        config: &Config,
    ) -> Option<Time> {
        // No packet needs more quiet than an acknowledgement.
        if self.quiet_after(peer, config.redundancy.quiet_ack()) <= now {
            return None;
        }
        self.spare_at(peer, config).filter(|&at| at > now)
    }

    /// This share of the shortest round trip after the last packet.
    fn quiet_after(&self, peer: &PeerState, share: f64) -> Time {
        self.last_packet + peer.rtt.shortest().unwrap_or_default().mul_f64(share)
    }

    /// From when on idle time may be used for what flies; `None` if it needs nothing.
    fn spare_at(&self, peer: &PeerState, config: &Config) -> Option<Time> {
        if self.flight.flying == 0 || peer.is_silent() || !peer.needs_repairs(config) {
            return None;
        }
        let mut covered = self.covered();
        let (first, _) = covered.next()?;
        let rest = covered.count();
        let is_enough = if rest == 0 {
            self.flight.slots[first].flying_copies >= self.copies(peer, config)
        } else {
            let oldest = self.flight.slots[first].order();
            let under_way = self.repairs.iter().filter(|repair| repair.order > oldest).count();
            peer.are_enough(rest + 1, under_way, config)
        };
        let quiet = if rest == 0 && self.is_ack(first) {
            config.redundancy.quiet_ack()
        } else {
            config.redundancy.quiet_data()
        };
        (!is_enough).then(|| self.quiet_after(peer, quiet))
    }

    /// The flying packets that others are held up by, the newest of them, in order: segments, and
    /// of pure acknowledgements the newest.
    fn covered(&self) -> impl Iterator<Item = (usize, &Packet)> {
        let newest = self.flight.slots.iter().rposition(|slot| match &slot.state {
            State::Done | State::Lost(_) => false,
            State::Flying(packet) => packet.is_pure_ack(),
        });
        let from = self.flight.slots.len().saturating_sub(repair::COVERED);
        self.flight.slots.iter().enumerate().skip(from).filter_map(move |(index, slot)| match &slot
            .state
        {
            State::Flying(packet)
                if packet.is_waited_for()
                    && (!packet.is_pure_ack() || newest == Some(index))
                    && repair::is_repairable(&packet.octets, packet.header_len) =>
            {
                Some((index, packet))
            }
            _ => None,
        })
    }

    /// How often a lone packet is sent before it is acknowledged: after a silence at least as often
    /// as several packets would be, because losses come in runs.
    fn copies(&self, peer: &PeerState, config: &Config) -> u8 {
        let probes = if self.expiries == 0 { 1 } else { self.probes() };
        peer.copies(config).max(probes)
    }

    fn is_ack(&self, index: usize) -> bool {
        matches!(&self.flight.slots[index].state, State::Flying(packet) if packet.is_pure_ack())
    }

    /// Sends a sum of the packets in flight, as an IP packet of the flow; returns the length of the
    /// IP header.
    pub(crate) fn emit_repair(&mut self, now: Time, sum: &mut Vec<u8>, out: &mut Vec<u8>) -> usize {
        let order = self.flight.next_order();
        self.last_sent = now;
        let id = self.next_repair;
        self.next_repair = (id + 1) % wire::REPAIRS;
        let base = self.flight.base();
        let number = |index: usize| base.plus(u8::try_from(index).expect("within the span"));
        let Some((first, _)) = self.covered().next() else { return 0 };
        let mut mask = [0; 16];
        let mut span = 1;
        for (index, _) in self.covered() {
            let offset = index - first;
            mask[offset / 8] |= 1 << (offset % 8);
            span = offset + 1;
        }
        let covered = self.covered().map(|(index, packet)| {
            (number(index), &packet.octets[..], packet.header_len, packet.has_hole)
        });
        repair::sum(id, covered, sum);
        let Some((_, packet)) = self.covered().last() else { return 0 };
        let header_len = packet.header_len;
        out.extend_from_slice(&packet.octets[..header_len]);
        let mask = Mask::new(&mask[..span.div_ceil(8)]).expect("1 to 16 octets");
        let protocol = packet.protocol;
        Repair { flow: self.id, first: number(first), id, protocol, mask, sum }.emit(out);
        self.repairs.push_back(SentRepair { id, order, at: now });
        header_len
    }

    /// Collects pure acknowledgements before the one at `index` that are not acknowledged
    /// themselves, the newest as far as `room` octets go; returns how many.
    pub(super) fn gather_older(&self, index: usize, room: usize, older: &mut Vec<u8>) -> u8 {
        if !self.is_ack(index) {
            return 0;
        }
        let mut chosen = [0; wire::MAX_OLDER];
        let (mut count, mut len) = (0, 1);
        for (at, slot) in self.flight.slots.range(..index).enumerate().rev() {
            let (State::Flying(packet) | State::Lost(packet)) = &slot.state else { continue };
            if !packet.is_pure_ack() {
                continue;
            }
            len += 2 + packet.octets.len() - packet.header_len;
            if count == wire::MAX_OLDER || len > room {
                break;
            }
            chosen[count] = at;
            count += 1;
        }
        let mut gathered = 0;
        for &at in chosen[..count].iter().rev() {
            if let State::Flying(packet) | State::Lost(packet) = &self.flight.slots[at].state {
                let back = u8::try_from(index - at).unwrap_or(0);
                let octets = &packet.octets[packet.header_len..];
                gathered += u8::from(wire::push_older(back, octets, older));
            }
        }
        gathered
    }
}
