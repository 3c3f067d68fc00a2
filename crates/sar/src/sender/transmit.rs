//! Chooses the next segment: highest precedence first, retransmissions before new data.

use std::time::Duration;

use base::time::Time;

use super::Sender;
use super::admission::READY;
use crate::config::{Config, Profile};
use crate::message::{Outcome, Precedence, Transmit};
use crate::outgoing::{Next, Outgoing};
use crate::repair;
use crate::waiting::Turn;
use crate::wire::{Body, Pdu, REPAIR_HEADER};

/// The factor between a round trip and the timeout of S/R Basic.
const BASIC_PATIENCE: f64 = 2.2;
/// When messages may start for which sending another one made room: at once, but not in the same
/// breath, because the driver stores what has started before it is sent.
const SOON: Duration = Duration::from_nanos(1);

impl Sender {
    /// Puts the next PDU into `out`.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        config: &Config,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.paced_until.is_some_and(|until| until > now) {
            return None;
        }
        let (_, serial) = self.choose()?;
        let is_held = !self.has_queue(serial, 2);
        let mut transfer = self.transfers.remove(&serial)?;
        let window = self.window(config, &transfer);
        let Some(next) = transfer.next(config, window) else {
            self.transfers.insert(serial, transfer);
            return None;
        };
        let asks = transfer.handle_sent(config, (window, is_held), next);
        let polls = asks && config.profile.polls();
        out.clear();
        emit(&transfer, serial, next, polls, out);
        match next {
            Next::Ask | Next::AskOne(_) => self.sent.requests += 1,
            Next::Repair(_) => self.sent.repairs += 1,
            Next::Segment { is_again: true, .. } => self.sent.again += 1,
            Next::Segment { is_again: false, .. } => self.sent.segments += 1,
        }
        self.sent.octets += out.len() as u64;
        if asks {
            transfer.handle_asked(now, next, self.in_flight);
            transfer.timing.answer_by = Some(now + self.patience(config, &transfer));
        }
        if let Next::AskOne(index) = next {
            transfer.handle_asked_one(now, index);
            transfer.timing.answer_by = Some(now + self.patience(config, &transfer));
        }
        if config.flow.spacing > Duration::ZERO {
            self.paced_until = Some(now + config.flow.spacing);
        }
        let transmit = addressed(&transfer, next);
        let is_done = !transfer.is_acknowledged && transfer.has_sent_all();
        let count = transfer.destinations.len();
        self.transfers.insert(serial, transfer);
        if is_done {
            for index in 0..count {
                self.conclude(now, config, serial, index, Outcome::Sent);
            }
            self.finish(now, config, serial);
            self.start_at = self.queue.first().map(|_| now + SOON);
        } else {
            self.refresh(config, serial);
            if self.new.len() == READY / 2 {
                self.start_at = self.queue.first().map(|_| now + SOON);
            }
        }
        Some(transmit)
    }

    /// Chooses the transfer whose turn has come.
    fn choose(&self) -> Option<(Turn, u16)> {
        let again = self.again.first().copied();
        let new = self.new.first().copied().filter(|(_, serial)| self.has_queue(*serial, 1));
        again.into_iter().chain(new).min()
    }

    /// Whether so many more segments of a transfer may be under way.
    fn has_queue(&self, serial: u16, segments: u64) -> bool {
        let Some(transfer) = self.transfers.get(&serial) else { return false };
        let queue = u64::from(self.room.octets());
        let most = match transfer.precedence >= Precedence::IMMEDIATE {
            true => queue,
            false => queue - queue / 4,
        };
        let more = segments * u64::from(transfer.segment_octets());
        let is_first = segments == 1 && self.in_flight == 0;
        !transfer.is_acknowledged || is_first || self.in_flight + more <= most
    }

    /// How long answers are waited for.
    fn patience(&self, config: &Config, transfer: &Outgoing) -> Duration {
        let times = &config.times;
        let timing = &transfer.timing;
        if config.profile == Profile::Basic {
            let trip = match (timing.rounds, timing.largest) {
                (0, _) => times.round_trip,
                (_, None) => times.round_trip * u32::from(config.flow.credit),
                (_, Some(largest)) => largest,
            };
            return trip.mul_f64(BASIC_PATIENCE).min(times.most_timeout);
        }
        let is_retry = timing.timeouts > 0;
        let timeouts = transfer.asked().map(|destination| {
            let address = destination.address;
            let timeout = self.peers.timeout(config, address, transfer.outstanding, is_retry);
            let factor = self.peers.get(address).map_or(1.0, |it| it.burden(self.in_flight));
            match config.profile {
                Profile::Default => timeout.mul_f64(factor).min(times.most_timeout),
                _ => timeout,
            }
        });
        let is_spread =
            config.profile.slides() && transfer.is_shared() && transfer.alone.is_empty();
        let spread = if is_spread { times.spread } else { Duration::ZERO };
        timeouts.max().unwrap_or_default() + spread
    }
}

fn emit(transfer: &Outgoing, serial: u16, next: Next, polls: bool, out: &mut Vec<u8>) {
    let symbol;
    let body = match next {
        Next::Ask | Next::AskOne(_) => Body::AckRequest { last_sent: transfer.last_sent() },
        Next::Repair(cover) => {
            let (data, segment) = transfer.content();
            let mut sum = Vec::with_capacity(REPAIR_HEADER + segment);
            repair::encode(serial, &cover, data, segment, &mut sum);
            symbol = sum;
            Body::Repair { polls, cover, symbol: &symbol }
        }
        Next::Segment { place, .. } => {
            let is_acknowledged = transfer.is_acknowledged;
            Body::Data { is_acknowledged, polls, place, data: transfer.segment(place) }
        }
    };
    Pdu { ports: transfer.ports, serial, body }.emit(out);
}

/// To the group while it is for several.
fn addressed(transfer: &Outgoing, next: Next) -> Transmit {
    if let Next::AskOne(index) = next {
        let (to, precedence) = (transfer.destinations[index].address, transfer.precedence);
        return Transmit { to, precedence, listed: None };
    }
    let mut active = transfer.active().map(|destination| destination.address);
    let (first, second) = (active.next(), active.next());
    let precedence = transfer.precedence;
    match (transfer.via, first, second) {
        (Some(to), _, Some(_)) => Transmit { to, precedence, listed: transfer.listed.clone() },
        // An existing transfer always has an active destination.
        (_, first, _) => {
            let to = first.unwrap_or(transfer.destinations[0].address);
            Transmit { to, precedence, listed: None }
        }
    }
}
