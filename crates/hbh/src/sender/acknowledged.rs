//! Evaluates an acknowledgement for its flow.

use std::time::Duration;

use base::time::Time;

use super::super::config::{Config, Profile};
use super::super::peer::Learned;
use super::super::pool::Pool;
use super::super::rtt::Estimator;
use super::super::wire::{Ack, RECOVERED, Transmission};
use super::Sender;
use super::flight::State;

impl Sender {
    /// Takes an acknowledgement.
    pub(crate) fn handle_ack(
        &mut self,
        now: Time,
        ack: &Ack<'_>,
        rtt: &mut Estimator,
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        self.used_at = now;
        let mut learned = Learned::default();
        let arrived = match config.profile {
            Profile::Default => self.read_echo(now, ack, rtt),
            Profile::Paper => {
                self.sample_newest(now, ack, rtt);
                None
            }
        };

        let base = self.flight.base();
        let to_next = usize::try_from(ack.next.since(base)).unwrap_or(0);
        self.finish(now, 0, to_next, pool, &mut learned);
        for (first, last) in ack.intervals.iter() {
            let from = usize::try_from(first.since(base)).unwrap_or(0);
            let to = usize::try_from(last.plus(1).since(base)).unwrap_or(0);
            self.finish(now, from, to, pool, &mut learned);
        }
        if config.profile == Profile::Default {
            // What the peer recovered was lost, though it needs no repeat.
            let recovered = ack.recovered.wrapping_sub(self.recovered) % RECOVERED;
            if recovered < RECOVERED / 2 {
                self.recovered = ack.recovered;
                learned.recovered = u32::from(recovered);
            }
        }
        if learned.delivered > 0 || arrived.is_some() {
            self.expiries = 0;
        }
        if let Some(arrived) = arrived {
            let round_trip = rtt.mean().unwrap_or_default();
            self.find_overtaken(now, arrived, round_trip, config, pool, &mut learned);
        }

        let round_trip = rtt.mean().unwrap_or(config.rto.initial);
        if ack.is_congested {
            self.pacer.handle_congestion(now, round_trip);
        } else if config.profile == Profile::Default {
            self.pacer.handle_clear();
        }
        self.flight.slide();
        learned
    }

    /// Takes the round trip from the echo, and returns the number and time of the transmission
    /// that arrived last.
    fn read_echo(&mut self, now: Time, ack: &Ack<'_>, rtt: &mut Estimator) -> Option<(u64, Time)> {
        let echo = ack.echo?;
        let arrived = match echo.of {
            Transmission::Packet { seq, copy } => {
                let index = usize::try_from(seq.since(self.flight.base())).ok()?;
                let slot = self.flight.slots.get_mut(index)?;
                if slot.copy() != copy && slot.was_overtaken {
                    // It was not lost but late: this link does not keep order.
                    slot.was_overtaken = false;
                    let step = rtt.mean().unwrap_or_default();
                    self.reordering = (self.reordering * 2).max(step / 8).min(step);
                }
                // Older copies count, too: a sender that goes by the newest alone never learns that it
                // repeats too soon.
                slot.transmission(copy)?
            }
            Transmission::Repair { id } => {
                let repair = self.repairs.iter().rev().find(|repair| repair.id == id)?;
                (repair.order, repair.at)
            }
        };
        if let Some(delay) = echo.delay {
            let sample = now.since(arrived.1).saturating_sub(delay);
            rtt.handle_sample(sample);
            let shortest = rtt.shortest().unwrap_or(sample);
            self.window.handle_echo(arrived.0, self.flight.order + 1, sample, shortest);
        }
        Some(arrived)
    }

    /// The seed's sample: the newest packet that this acknowledges for the first time.
    fn sample_newest(&self, now: Time, ack: &Ack<'_>, rtt: &mut Estimator) {
        let base = self.flight.base();
        let is_named = |index: usize| {
            let at = i8::try_from(index).unwrap_or(i8::MAX);
            at < ack.next.since(base)
                || ack
                    .intervals
                    .iter()
                    .any(|(first, last)| first.since(base) <= at && at <= last.since(base))
        };
        let newest = self
            .flight
            .slots
            .iter()
            .enumerate()
            .filter(|(index, slot)| !matches!(slot.state, State::Done) && is_named(*index))
            .max_by_key(|(_, slot)| slot.order());
        if let Some((_, slot)) = newest {
            rtt.handle_sample(now.since(slot.sent_at()));
        }
    }

    /// Marks the flight's places `from..to` as arrived.
    fn finish(
        &mut self,
        now: Time,
        from: usize,
        to: usize,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        let to = to.min(self.flight.slots.len());
        for slot in self.flight.slots.range_mut(from.min(to)..to) {
            let packet = match std::mem::replace(&mut slot.state, State::Done) {
                State::Done => continue,
                State::Flying(packet) => {
                    self.flight.flying -= 1;
                    packet
                }
                State::Lost(packet) => {
                    self.flight.lost -= 1;
                    packet
                }
            };
            learned.delivered += 1;
            self.pacer.handle_acked(now, packet.octets.len());
            pool.give(packet.octets);
        }
    }

    /// A transmission arrived: what was sent before it and has not is lost.
    fn find_overtaken(
        &mut self,
        now: Time,
        (order, sent_at): (u64, Time),
        round_trip: Duration,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        // A repair that is still in flight may make one of these losses good.
        self.repairs.retain(|repair| repair.order >= order && repair.at + round_trip * 2 > now);
        let mut under_way = self.repairs.iter().filter(|repair| repair.order > order).count();
        let mut previous = None;
        let may_be_left = self.may_be_left(config);
        for index in 0..self.flight.slots.len() {
            let slot = &mut self.flight.slots[index];
            if matches!(slot.state, State::Flying(_))
                && slot.order() < order
                && sent_at.since(slot.sent_at()) >= self.reordering
            {
                if slot.doubted != slot.order() && !may_be_left {
                    slot.doubted = slot.order();
                    learned.lost += 1;
                    learned.runs += u32::from(previous != Some(slot.order().wrapping_sub(1)));
                    previous = Some(slot.order());
                }
                if under_way > 0 {
                    under_way -= 1;
                } else {
                    slot.was_overtaken = true;
                    self.lose(now, index, config, pool, learned);
                }
            }
        }
    }
}
