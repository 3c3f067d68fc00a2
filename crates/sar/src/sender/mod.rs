//! The sending half: queues messages, runs transfers, and reports outcomes.

mod admission;
mod answered;
mod room;
mod transmit;

pub(super) use answered::Answered;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use base::time::{Time, earliest};
use room::Room;

use super::answers::{About, Answer, Answers, Say};
use super::config::{Config, Profile};
use super::deadlines::Deadlines;
use super::message::{Event, Failure, MessageId, Outcome, Precedence};
use super::outgoing::{Next, Outgoing, Ready};
use super::peers::Peers;
use super::serials::Serials;
use super::stats::{self, Messages, Sent};
use super::waiting::{Queue, Turn, Waiting};

/// All messages to others.
#[derive(Debug)]
pub(super) struct Sender {
    queue: Queue,
    peers: Peers,
    serials: Serials,
    transfers: BTreeMap<u16, Outgoing>,
    /// Number of transfers of each precedence, without the quiet ones.
    counts: [u32; Precedence::COUNT],
    deadlines: Deadlines<u16>,
    /// Transfers that have something to send again; it is under way already.
    again: BTreeSet<(Turn, u16)>,
    /// Transfers that have something to send for the first time.
    new: BTreeSet<(Turn, u16)>,
    /// Silent destinations, each with the transfers that try them until an answer comes.
    quiet: BTreeSet<(IpAddr, u16)>,
    /// Destinations from which nothing came while they were asked.
    missing: BTreeSet<IpAddr>,
    /// When a sign of a silent destination counts that came too early.
    signs: BTreeSet<(Time, IpAddr)>,
    in_flight: u64,
    /// What may be.
    room: Room,
    /// Nothing is sent before.
    paced_until: Option<Time>,
    /// When to start messages that found no room before.
    start_at: Option<Time>,
    next_id: u64,
    pub(super) events: VecDeque<Event>,
    pub(super) messages: Messages,
    pub(super) sent: Sent,
    pub(super) answered: stats::Answered,
}

/// The shortest time that a serial number rests.
const LEAST_REST: Duration = Duration::from_secs(1);
/// Timeouts that a serial number rests.
const REST: u32 = 10;
/// Messages that were sent in part and wait for silent destinations at most: half of all numbers.
const MOST_QUIET: usize = 1 << 15;

impl Sender {
    pub(super) fn new(config: &Config, serial: u16) -> Self {
        Self {
            queue: Queue::default(),
            peers: Peers::new(config),
            serials: Serials::new(serial),
            transfers: BTreeMap::new(),
            counts: [0; Precedence::COUNT],
            deadlines: Deadlines::default(),
            again: BTreeSet::new(),
            new: BTreeSet::new(),
            quiet: BTreeSet::new(),
            missing: BTreeSet::new(),
            signs: BTreeSet::new(),
            in_flight: 0,
            room: Room::new(config),
            paced_until: None,
            start_at: None,
            next_id: 0,
            events: VecDeque::new(),
            messages: Messages::default(),
            sent: Sent::default(),
            answered: stats::Answered::default(),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time, config: &Config, answers: &mut Answers) {
        self.paced_until = self.paced_until.filter(|until| *until > now);
        while let Some((turn, waiting)) = self.queue.take_expired(now) {
            self.drop_waiting(now, config, turn, &waiting, Outcome::Expired);
        }
        while let Some((at, address)) = self.signs.first().copied()
            && at <= now
        {
            self.signs.pop_first();
            self.handle_sign(now, config, address);
        }
        while let Some(serial) = self.deadlines.take(now) {
            let Some(transfer) = self.transfers.get_mut(&serial) else { continue };
            transfer.timing.due = None;
            if transfer.timing.resume_at.is_some_and(|at| at <= now) {
                transfer.timing.resume_at = None;
                self.set_quiet(serial, false);
            }
            let Some(transfer) = self.transfers.get(&serial) else { continue };
            if transfer.timing.expires.is_some_and(|at| at <= now) {
                self.abandon_all(now, config, answers, serial, Outcome::Expired);
            } else if transfer.timing.answer_by.is_some_and(|at| at <= now) {
                self.handle_silence(now, config, answers, serial);
            } else {
                self.refresh(config, serial);
            }
        }
        self.start(now, config);
    }

    /// Gives up a message; returns for how many destinations.
    pub(super) fn cancel(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        id: MessageId,
    ) -> usize {
        let before = self.messages.cancelled;
        for turn in self.queue.of(id) {
            if let Some(waiting) = self.queue.remove(turn) {
                self.drop_waiting(now, config, turn, &waiting, Outcome::Cancelled);
            }
        }
        let under_way = self.transfers.iter().filter(|(_, transfer)| transfer.id == id);
        for serial in under_way.map(|(serial, _)| *serial).collect::<Vec<_>>() {
            self.abandon_all(now, config, answers, serial, Outcome::Cancelled);
        }
        self.start(now, config);
        usize::try_from(self.messages.cancelled - before).unwrap_or(usize::MAX)
    }

    /// Reports the outcome of a message that had not started.
    fn drop_waiting(
        &mut self,
        now: Time,
        config: &Config,
        turn: Turn,
        waiting: &Waiting,
        outcome: Outcome,
    ) {
        if let Some(address) = waiting.parked {
            self.peers.unpark(now, address, turn);
        }
        if let Some(resume) = waiting.options.resume {
            self.serials.release(now, resume.serial, config.times.serial_rest);
        }
        for destination in waiting.to.addresses() {
            self.tell(waiting.id, *destination, outcome);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let is_ready = !self.again.is_empty() || !self.new.is_empty();
        let paced = self.paced_until.filter(|_| is_ready);
        let serial = self.serials.next_timeout().filter(|_| self.queue.first().is_some());
        let queue = earliest(self.queue.next_timeout(), earliest(self.start_at, serial));
        let signs = self.signs.first().map(|(at, _)| *at);
        earliest(earliest(self.deadlines.next(), queue), earliest(paced, signs))
    }

    /// Whether a destination has answered.
    pub(super) fn has_answered(&self, address: IpAddr) -> bool {
        self.peers.get(address).is_some_and(super::peers::Peer::is_measured)
    }

    /// Handles a sign of life of a destination: a silent one may answer now.
    pub(super) fn handle_heard(&mut self, now: Time, config: &Config, address: IpAddr) {
        if self.peers.is_silent(address) || self.missing.contains(&address) {
            self.handle_sign(now, config, address);
        }
        self.peers.hear(now, address);
    }

    /// Destinations that are tried and do not answer.
    pub(super) fn silent(&self) -> impl Iterator<Item = IpAddr> {
        let mut last = None;
        let quiet = self.quiet.iter().map(|(address, _)| *address);
        let quiet = quiet.filter(move |address| last.replace(*address) != Some(*address));
        let others = self.missing.iter().filter(|it| !self.peers.is_silent(**it));
        quiet.chain(others.copied())
    }

    /// A silent destination is tried now, unless that was tried just before.
    fn handle_sign(&mut self, now: Time, config: &Config, address: IpAddr) {
        match self.peers.wake(now, address) {
            // Signs of more peers than may be known are passed over: their time comes without.
            Some(at) if at > now && self.signs.len() >= config.limits.peers => {}
            Some(at) if at > now => {
                self.signs.insert((at, address));
            }
            Some(_) => {
                self.sent.tried += 1;
                self.rouse(now, config, address);
            }
            None => {}
        }
    }

    /// Resumes questions of the quiet transfers to a destination.
    fn rouse(&mut self, now: Time, config: &Config, address: IpAddr) {
        let of_it = self.quiet.range((address, 0)..=(address, u16::MAX));
        let mut of_it: Vec<u16> = of_it.map(|(_, serial)| *serial).collect();
        if self.missing.remove(&address) {
            let late = self.transfers.iter().filter(|(_, transfer)| {
                !transfer.is_quiet && transfer.persists(config) && transfer.is_late_at(address)
            });
            of_it.extend(late.map(|(serial, _)| *serial));
        }
        for serial in of_it {
            self.set_quiet(serial, false);
            let Some(transfer) = self.transfers.get_mut(&serial) else { continue };
            transfer.rouse(address);
            self.refresh(config, serial);
        }
        self.start(now, config);
    }

    /// A destination has answered: whatever waited for that goes on.
    fn revive(&mut self, now: Time, config: &Config, address: IpAddr) {
        let was_silent = self.peers.revive(address);
        self.missing.remove(&address);
        if !was_silent {
            return;
        }
        for turn in self.peers.take_parked(now, config, address) {
            self.queue.unpark(turn);
        }
        self.rouse(now, config, address);
    }

    /// A transfer has nothing under way while its destinations do not answer.
    fn set_quiet(&mut self, serial: u16, is_quiet: bool) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        if transfer.is_quiet == is_quiet {
            return;
        }
        transfer.is_quiet = is_quiet;
        let count = &mut self.counts[usize::from(transfer.precedence.level())];
        *count = if is_quiet { *count - 1 } else { *count + 1 };
        for destination in &transfer.destinations {
            let key = (destination.address, serial);
            match is_quiet && destination.is_open() {
                true => self.quiet.insert(key),
                false => self.quiet.remove(&key),
            };
        }
    }

    /// All remaining destinations of a transfer are silent. One transfer to each asks now and then; the others wait in
    /// the queue, with their numbers, and cost no air time.
    fn wait_for(&mut self, now: Time, config: &Config, answers: &mut Answers, serial: u16) {
        if self.quiet.len() + self.queue.begun() > MOST_QUIET {
            self.abandon_all(now, config, answers, serial, Outcome::Failed(Failure::Silent));
            return;
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let mut left = transfer.destinations.iter().filter(|it| it.is_open());
        let crowded = left.find(|it| self.peers.transfers(it.address) > 1).map(|it| it.address);
        if let Some(address) = crowded {
            self.suspend(now, config, serial, address);
            return;
        }
        transfer.ask_quietly(config);
        self.set_quiet(serial, true);
        self.refresh(config, serial);
    }

    /// A destination has fallen silent: only this transfer goes on, and other transfers to the same destination wait.
    fn leave_to(&mut self, now: Time, config: &Config, serial: u16, address: IpAddr) {
        let others = self.transfers.iter().filter(|(other, transfer)| {
            **other != serial && transfer.persists(config) && transfer.is_for(address)
        });
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.suspend(now, config, other, address);
        }
    }

    /// A transfer waits in the queue until there are fewer to a destination.
    fn suspend(&mut self, now: Time, config: &Config, serial: u16, address: IpAddr) {
        let Some(transfer) = self.take_out(serial) else { return };
        let turn = transfer.turn;
        for destination in transfer.destinations.iter().filter(|it| it.is_open()) {
            self.peers.end(now, destination.address);
            if destination.address != address {
                for turn in self.peers.take_parked(now, config, destination.address) {
                    self.queue.unpark(turn);
                }
            }
        }
        self.queue.push(turn, transfer.into_waiting(serial));
        self.queue.park(turn, address);
        self.peers.park(address, turn);
        self.start(now, config);
    }

    /// Removes a transfer and all notes about it.
    fn take_out(&mut self, serial: u16) -> Option<Outgoing> {
        self.set_quiet(serial, false);
        let mut transfer = self.transfers.remove(&serial)?;
        self.deadlines.set(&mut transfer.timing.due, None, serial);
        self.note_ready(&mut transfer, None, serial);
        self.in_flight -= u64::from(transfer.timing.octets);
        self.counts[usize::from(transfer.precedence.level())] -= 1;
        Some(transfer)
    }

    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.octets())
    }

    pub(super) fn transfers(&self) -> usize {
        self.transfers.len()
    }

    /// Octets under way, and how many may be.
    pub(super) fn in_flight(&self) -> (u64, u32) {
        (self.in_flight, self.room.octets())
    }

    pub(super) fn peers(&self) -> usize {
        self.peers.len()
    }

    fn tell(&mut self, id: MessageId, destination: IpAddr, outcome: Outcome) {
        let messages = &mut self.messages;
        let counter = match outcome {
            Outcome::Cancelled => &mut messages.cancelled,
            Outcome::Delivered => &mut messages.delivered,
            Outcome::Expired => &mut messages.expired,
            Outcome::Failed(Failure::Aborted) => &mut messages.aborted,
            Outcome::Failed(Failure::Lost) => &mut messages.lost,
            Outcome::Failed(Failure::Silent) => &mut messages.silent,
            Outcome::Sent => &mut messages.unacknowledged,
        };
        *counter += 1;
        self.events.push_back(Event::Outcome { id, destination, outcome });
    }

    /// A destination of a transfer is done with.
    fn conclude(
        &mut self,
        now: Time,
        config: &Config,
        serial: u16,
        index: usize,
        outcome: Outcome,
    ) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let destination = &mut transfer.destinations[index];
        destination.close();
        self.missing.remove(&destination.address);
        self.quiet.remove(&(destination.address, serial));
        let (id, address) = (transfer.id, destination.address);
        transfer.list();
        self.tell(id, address, outcome);
        self.peers.end(now, address);
        for turn in self.peers.take_parked(now, config, address) {
            self.queue.unpark(turn);
        }
    }

    /// The same, and the destination is told to forget it.
    fn abandon(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        (serial, index): (u16, usize),
        outcome: Outcome,
    ) {
        let Some(transfer) = self.transfers.get(&serial) else { return };
        let peer = transfer.destinations[index].address;
        if transfer.last_sent() > 0 {
            let about = About { peer, serial, is_ours: true };
            let (ports, precedence) = (transfer.ports, transfer.precedence);
            let answer = Answer { say: Say::AbortRequest, ports, is_final: false, precedence };
            answers.owe(now, config, about, answer, false);
        }
        self.conclude(now, config, serial, index, outcome);
    }

    /// Ends a transfer whose destinations are all done with; false if there are others.
    fn finish(&mut self, now: Time, config: &Config, serial: u16) -> bool {
        let is_over = self.transfers.get(&serial).is_some_and(Outgoing::is_over);
        if !is_over {
            return false;
        }
        let Some(transfer) = self.take_out(serial) else { return false };
        let timeouts = transfer
            .destinations
            .iter()
            .map(|destination| self.peers.timeout(config, destination.address, 0, false));
        let longest = timeouts.max().unwrap_or_default();
        let most = config.times.serial_rest;
        let rest = (longest * REST).max(LEAST_REST).min(most);
        // A message that was not acknowledged tells nothing of how long its segments are under way.
        let rest = if transfer.is_acknowledged { rest } else { rest.max(LEAST_REST) };
        self.serials.release(now, serial, rest);
        true
    }

    /// Most segments of a transfer outstanding.
    fn window(&self, config: &Config, transfer: &Outgoing) -> u16 {
        if config.profile != Profile::Default {
            return config.flow.credit;
        }
        let credits = transfer.active().filter_map(|it| self.peers.get(it.address));
        if transfer.active().any(|it| self.peers.is_silent(it.address)) {
            // One segment suffices to test whether the destination is back.
            return 1;
        }
        let least = credits.map(|peer| peer.credit()).min().unwrap_or(config.flow.credit);
        // A question to several has as many answers.
        let count = u16::try_from(transfer.active().count().max(1)).unwrap_or(u16::MAX);
        least.saturating_mul(count).min(config.flow.most_credit.max(least))
    }

    /// Updates the notes about a transfer: its next transmission, octets in flight and deadline.
    fn refresh(&mut self, config: &Config, serial: u16) {
        let Some(mut transfer) = self.transfers.remove(&serial) else { return };
        let window = self.window(config, &transfer);
        let mut next = transfer.next(config, window);
        if next.is_none() && transfer.is_stuck() {
            transfer.asks = true;
            next = Some(Next::Ask);
        }
        let ready = next.map(|next| match next {
            Next::Segment { is_again: false, .. } => Ready::New,
            Next::Ask | Next::AskOne(_) | Next::Repair(_) | Next::Segment { .. } => Ready::Again,
        });
        self.note_ready(&mut transfer, ready, serial);
        let octets = transfer.octets();
        self.in_flight = self.in_flight + u64::from(octets) - u64::from(transfer.timing.octets);
        transfer.timing.octets = octets;
        let answer_by = transfer.timing.answer_by.filter(|_| !transfer.polls.is_empty());
        let due = earliest(answer_by, transfer.timing.expires);
        let due = earliest(due, transfer.timing.resume_at);
        self.deadlines.set(&mut transfer.timing.due, due, serial);
        self.transfers.insert(serial, transfer);
    }

    fn note_ready(&mut self, transfer: &mut Outgoing, ready: Option<Ready>, serial: u16) {
        if transfer.timing.ready == ready {
            return;
        }
        let key = (transfer.turn, serial);
        match transfer.timing.ready {
            Some(Ready::Again) => _ = self.again.remove(&key),
            Some(Ready::New) => _ = self.new.remove(&key),
            None => {}
        }
        match ready {
            Some(Ready::Again) => _ = self.again.insert(key),
            Some(Ready::New) => _ = self.new.insert(key),
            None => {}
        }
        transfer.timing.ready = ready;
    }
}
