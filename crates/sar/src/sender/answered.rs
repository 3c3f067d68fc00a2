//! Handles answers of destinations, and missing answers.

use base::time::Time;

use super::Sender;
use crate::answers::{About, Answer, Answers, Say};
use crate::config::{Config, Profile};
use crate::message::{Arrival, Failure, Outcome};
use crate::outgoing::{Outgoing, Worth};
use crate::polls::Poll;
use crate::wire::{Mask, Ports};

/// Doublings of the pause before what is not taken is tried again, at most.
const MOST_PAUSE: u8 = 16;

/// An answer as it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) arrival: Arrival,
    pub(crate) ports: Ports,
    pub(crate) serial: u16,
}

impl Sender {
    /// A partial acknowledgement arrived.
    pub(crate) fn handle_partial(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        from: Answered,
        (mask, is_final): (&Mask<'_>, bool),
    ) {
        self.answered.partial += 1;
        let serial = from.serial;
        let Some(index) = self.destination(&from) else {
            if self.transfers.contains_key(&serial) {
                self.answered.forged += 1;
                return;
            }
            self.answered.unknown += 1;
            // Whoever still waits for more of a transfer that is over should not.
            let Arrival { from: peer, precedence, .. } = from.arrival;
            let about = About { peer, serial, is_ours: true };
            let ports = from.ports.swapped();
            let answer = Answer { say: Say::AbortRequest, ports, is_final: false, precedence };
            let is_known = self.has_answered(peer);
            answers.owe_stranger(now, config, about, answer, (is_known, false));
            return;
        };
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let had_answered = transfer.destinations[index].has_answered;
        // A receiver's unsolicited report may be older than the question.
        let is_answer = !config.profile.polls() || is_final && transfer.polls.settle(mask);
        match transfer.handle_mask(index, mask, is_answer) {
            Worth::Forged => {
                self.answered.forged += 1;
                return;
            }
            Worth::Forgotten => self.answered.forgotten += 1,
            Worth::Nothing => return,
            Worth::Taken => {}
        }
        transfer.list();
        let poll = transfer.polls.first().copied();
        self.set_quiet(serial, false);
        self.revive(now, config, from.arrival.from);
        if let Some(transfer) = self.transfers.get_mut(&serial).filter(|it| it.persists(config)) {
            // Those that are known not to answer are not waited for.
            transfer.set_apart(|address| self.peers.is_silent(address));
        }
        if is_answer && !had_answered {
            self.measure(now, config, from, poll);
        }
        self.advance(now, config, answers, serial);
    }

    /// A complete acknowledgement arrived.
    pub(crate) fn handle_complete(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        from: Answered,
    ) {
        self.answered.complete += 1;
        let serial = from.serial;
        let Some(index) = self.destination(&from) else {
            match self.transfers.contains_key(&serial) {
                true => self.answered.forged += 1,
                false => self.answered.unknown += 1,
            }
            return;
        };
        let transfer = self.transfers.get(&serial).filter(|transfer| transfer.may_be_complete());
        let Some(transfer) = transfer else {
            self.answered.forged += 1;
            return;
        };
        let poll = transfer.polls.last().copied();
        self.measure(now, config, from, poll);
        self.set_quiet(serial, false);
        self.revive(now, config, from.arrival.from);
        if let Some(peer) = self.peers.get_mut(from.arrival.from) {
            peer.reward(1, (1, config.flow.most_credit), false);
        }
        self.conclude(now, config, serial, index, Outcome::Delivered);
        self.advance(now, config, answers, serial);
    }

    /// Handles a destination that gives up; false if the transfer is unknown.
    pub(crate) fn handle_abort(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        from: Answered,
    ) -> bool {
        let Some(index) = self.destination(&from) else { return false };
        self.answered.aborts += 1;
        self.set_quiet(from.serial, false);
        self.revive(now, config, from.arrival.from);
        let outcome = Outcome::Failed(Failure::Aborted);
        self.conclude(now, config, from.serial, index, outcome);
        self.advance(now, config, answers, from.serial);
        true
    }

    /// Whether ports have changed places, as in an answer of ours.
    pub(crate) fn is_answer(&self, from: &Answered) -> bool {
        self.transfers.get(&from.serial).is_some_and(|it| it.ports == from.ports.swapped())
    }

    /// Finds the transfer and destination of an answer, if any matches. The standard does not say whether ports change
    /// places in an answer; both orders are accepted.
    fn destination(&self, from: &Answered) -> Option<usize> {
        let transfer = self.transfers.get(&from.serial)?;
        let has_ports = [from.ports, from.ports.swapped()].contains(&transfer.ports);
        let is_known = has_ports && transfer.is_acknowledged && transfer.last_sent() > 0;
        transfer.find(from.arrival.from).filter(|_| is_known)
    }

    /// The answer to a question that was asked once tells the round trip.
    fn measure(&mut self, now: Time, config: &Config, from: Answered, poll: Option<Poll>) {
        let Answered { arrival: Arrival { from: address, .. }, serial, .. } = from;
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.timing.timeouts = 0;
        let place = transfer.find(address);
        let alone = place.and_then(|index| transfer.destinations[index].asked_alone.take());
        if let (Some(at), Some(Poll { load, .. })) = (alone, poll) {
            _ = self.peers.measure(now, config, address, (now.since(at), load));
            return;
        }
        let Some(Poll { at, load, is_clean, .. }) = poll else { return };
        let trip = now.since(at);
        if !is_clean {
            if let Some(first) = transfer.timing.asked_at {
                self.peers.measure_repeated(now, config, address, (now.since(first), load));
            }
            return;
        }
        if transfer.timing.rounds > 0 {
            let largest = transfer.timing.largest.unwrap_or_default();
            transfer.timing.largest = Some(largest.max(trip));
        }
        let arrived = transfer.timing.octets;
        if let Some(trip) = self.peers.measure(now, config, address, (trip, load)) {
            self.room.handle_trip(now, config, trip, (load, arrived));
        }
        for turn in self.peers.take_parked(now, config, address) {
            self.queue.unpark(turn);
        }
    }

    /// Goes on after an answer.
    fn advance(&mut self, now: Time, config: &Config, answers: &mut Answers, serial: u16) {
        if let Some(transfer) = self.transfers.get_mut(&serial) {
            let before = transfer.outstanding;
            transfer.count_outstanding();
            transfer.prune();
            let arrived = before.saturating_sub(transfer.outstanding);
            if !transfer.polls.is_empty() && !transfer.is_over() && transfer.is_answered() {
                self.complete_round(now, config, answers, (serial, arrived));
            } else if transfer.alone.is_done(&transfer.destinations) {
                transfer.alone.plan(&transfer.destinations);
            }
        }
        if self.transfers.get(&serial).is_some_and(Outgoing::has_only_parked) {
            self.wait_for(now, config, answers, serial);
        } else if !self.finish(now, config, serial) {
            self.refresh(config, serial);
        }
        self.start(now, config);
    }

    /// Ends a round: all destinations have answered, the last with so many segments arrived, and missing segments are
    /// sent again.
    fn complete_round(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        (serial, arrived): (u16, u16),
    ) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.timing.rounds += 1;
        for destination in transfer.active() {
            let Some(peer) = self.peers.get_mut(destination.address) else { continue };
            let flow = &config.flow;
            let lacked = transfer.lacked(destination);
            match u32::from(lacked) * 3 > u32::from(peer.credit()) {
                true => peer.punish(flow.credit),
                false => peer.reward(arrived, (flow.ask_at, flow.most_credit), lacked > 0),
            }
        }
        self.repeat(now, config, answers, serial);
    }

    /// Schedules retransmissions of missing segments, and gives up on destinations that lack one too often.
    fn repeat(&mut self, now: Time, config: &Config, answers: &mut Answers, serial: u16) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let hopeless = transfer.plan(config);
        if !hopeless.is_empty() && transfer.persists(config) {
            let times = transfer.stall();
            let waits = transfer.active().map(|it| {
                let timeout = self.peers.timeout(config, it.address, 0, false);
                timeout.saturating_mul(1 << times.min(MOST_PAUSE))
            });
            let pause = waits.max().unwrap_or_default().min(config.times.most_timeout);
            transfer.timing.resume_at = Some(now + pause);
            transfer.count_outstanding();
            self.set_quiet(serial, true);
            return;
        }
        for index in hopeless {
            let outcome = Outcome::Failed(Failure::Lost);
            self.abandon(now, config, answers, (serial, index), outcome);
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.count_outstanding();
        transfer.prune();
        transfer.plan_repairs(config);
    }

    /// Not all destinations have answered in time.
    pub(super) fn handle_silence(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        serial: u16,
    ) {
        self.sent.timeouts += 1;
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        if !transfer.is_quiet {
            // Whoever has been dead for long tells nothing of the way to others.
            self.room.handle_silence(config);
        }
        transfer.timing.timeouts += 1;
        transfer.timing.answer_by = None;
        // Group members that have the whole message have answered too.
        let is_any_done = config.profile == Profile::Default
            && transfer.is_shared()
            && transfer.destinations.iter().any(|destination| !destination.is_open());
        let is_any_answered =
            is_any_done || transfer.active().any(|destination| destination.has_answered);
        let most = config.retries.requests;
        // Answers of many destinations collide, so silence of one destination proves nothing.
        let is_telling = !transfer.is_shared() || !transfer.alone.is_empty() || transfer.is_quiet;
        let mut silent = Vec::new();
        for (index, destination) in transfer.destinations.iter().enumerate() {
            if !destination.is_silent() || !transfer.alone.concerns(index) {
                continue;
            }
            if let Some(peer) = self.peers.get_mut(destination.address)
                && (is_telling || config.profile != Profile::Default)
            {
                peer.back_off(now, config.flow.credit);
            }
            if destination.requests >= most {
                silent.push(index);
            }
            let asked_at = transfer.polls.first().map(|poll| poll.at);
            if transfer.persists(config)
                && asked_at.is_some_and(|at| self.peers.is_unheard(destination.address, at))
            {
                self.missing.insert(destination.address);
            }
        }
        if !silent.is_empty() && transfer.persists(config) {
            let mut fallen = Vec::new();
            for index in silent {
                let address = transfer.destinations[index].address;
                if self.peers.silence(address) {
                    fallen.push(address);
                }
                transfer.destinations[index].park();
            }
            transfer.list();
            let is_waiting = transfer.has_only_parked();
            for address in fallen {
                self.leave_to(now, config, serial, address);
            }
            if is_waiting {
                self.wait_for(now, config, answers, serial);
                return;
            }
        } else {
            for index in silent {
                let outcome = Outcome::Failed(Failure::Silent);
                self.abandon(now, config, answers, (serial, index), outcome);
            }
        }
        if self.finish(now, config, serial) {
            return;
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.count_outstanding();
        if transfer.is_answered() {
            self.complete_round(now, config, answers, (serial, 0));
        } else if is_any_answered && config.profile == Profile::Default {
            // A short question finds the missing segments, instead of sending everything again.
            transfer.alone.plan(&transfer.destinations);
        } else if is_any_answered {
            self.repeat(now, config, answers, serial);
        } else {
            // Resending a message of one segment is as quick as asking for an answer.
            let is_quick = config.profile == Profile::Default && transfer.is_single();
            transfer.polls.clear();
            match config.profile == Profile::Seed || is_quick {
                true => transfer.plan_all(),
                false => transfer.asks = true,
            }
        }
        // Those that were left may have been given up just now.
        if !self.finish(now, config, serial) {
            self.refresh(config, serial);
        }
    }

    /// Gives up on all destinations that are left.
    pub(super) fn abandon_all(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        serial: u16,
        outcome: Outcome,
    ) {
        let count = self.transfers.get(&serial).map_or(0, |it| it.destinations.len());
        for index in 0..count {
            let is_open =
                self.transfers.get(&serial).is_some_and(|it| it.destinations[index].is_open());
            if is_open {
                self.abandon(now, config, answers, (serial, index), outcome);
            }
        }
        self.finish(now, config, serial);
    }
}
