//! The sending half: queues messages, runs transfers, and reports outcomes.

mod room;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use base::time::{Time, earliest};
use room::Room;

use super::answers::{About, Answer, Key, Say};
use super::config::{Config, Profile};
use super::deadlines::Deadlines;
use super::message::{
    Event, Failure, Message, MessageId, NotTaken, Options, Outcome, Precedence, Resume, Transmit,
};
use super::outgoing::{Destination, Next, Outgoing, Poll, Ready, Timed, Worth};
use super::peers::Peers;
use super::serials::Serials;
use super::stats::{self, Messages, Sent};
use super::waiting::{Queue, To, Turn, Waiting};
use super::wire::Mask;

/// All messages to others.
#[derive(Debug)]
pub struct Sender {
    config: Config,
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
    events: VecDeque<Event>,
    /// Aborts that destinations are still to be told.
    aborts: VecDeque<(About, Answer)>,
    messages: Messages,
    sent: Sent,
    answered: stats::Answered,
}

/// The shortest time that a serial number rests.
const LEAST_REST: Duration = Duration::from_secs(1);
/// Timeouts that a serial number rests.
const REST: u32 = 10;
/// Messages that were sent in part and wait for silent destinations at most: half of all numbers.
const MOST_QUIET: usize = 1 << 15;

impl Sender {
    pub fn new(config: &Config, serial: u16) -> Self {
        Self {
            config: *config,
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
            aborts: VecDeque::new(),
            messages: Messages::default(),
            sent: Sent::default(),
            answered: stats::Answered::default(),
        }
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.paced_until = self.paced_until.filter(|until| *until > now);
        while let Some((turn, waiting)) = self.queue.take_expired(now) {
            self.drop_waiting(now, turn, &waiting, Outcome::Expired);
        }
        while let Some((at, address)) = self.signs.first().copied()
            && at <= now
        {
            self.signs.pop_first();
            self.handle_sign(now, address);
        }
        while let Some(serial) = self.deadlines.take(now) {
            let Some(transfer) = self.transfers.get_mut(&serial) else { continue };
            *transfer.noted_due() = None;
            if transfer.resume(now) {
                self.set_quiet(serial, false);
            }
            let Some(transfer) = self.transfers.get(&serial) else { continue };
            if transfer.has_expired(now) {
                self.abandon_all(now, serial, Outcome::Expired);
            } else if transfer.is_answer_late(now) {
                self.handle_silence(now, serial);
            } else {
                self.refresh(serial);
            }
        }
        self.start(now);
    }

    /// Gives up a message; returns for how many destinations.
    pub fn cancel(&mut self, now: Time, id: MessageId) -> usize {
        let before = self.messages.cancelled;
        for turn in self.queue.of(id) {
            if let Some(waiting) = self.queue.remove(turn) {
                self.drop_waiting(now, turn, &waiting, Outcome::Cancelled);
            }
        }
        let under_way = self.transfers.iter().filter(|(_, transfer)| transfer.id() == id);
        for serial in under_way.map(|(serial, _)| *serial).collect::<Vec<_>>() {
            self.abandon_all(now, serial, Outcome::Cancelled);
        }
        self.start(now);
        usize::try_from(self.messages.cancelled - before).unwrap_or(usize::MAX)
    }

    /// Reports the outcome of a message that had not started.
    fn drop_waiting(&mut self, now: Time, turn: Turn, waiting: &Waiting, outcome: Outcome) {
        if let Some(address) = waiting.parked {
            self.peers.unpark(now, address, turn);
        }
        if let Some(resume) = waiting.options.resume {
            self.serials.release(now, resume.serial, self.config.times.serial_rest);
        }
        for destination in waiting.to.addresses() {
            self.tell(waiting.id, *destination, outcome);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let is_ready = !self.again.is_empty() || !self.new.is_empty();
        let paced = self.paced_until.filter(|_| is_ready);
        let serial = self.serials.next_timeout().filter(|_| self.queue.first().is_some());
        let queue = earliest(self.queue.next_timeout(), earliest(self.start_at, serial));
        let signs = self.signs.first().map(|(at, _)| *at);
        earliest(earliest(self.deadlines.next(), queue), earliest(paced, signs))
    }

    /// Whether a destination has answered.
    pub fn has_answered(&self, address: IpAddr) -> bool {
        self.peers.get(address).is_some_and(super::peers::Peer::is_measured)
    }

    /// Handles a sign of life of a destination: a silent one may answer now.
    pub fn handle_heard(&mut self, now: Time, address: IpAddr) {
        if self.peers.is_silent(address) || self.missing.contains(&address) {
            self.handle_sign(now, address);
        }
        self.peers.hear(now, address);
    }

    /// Destinations that are tried and do not answer.
    pub fn silent(&self) -> impl Iterator<Item = IpAddr> {
        let mut last = None;
        let quiet = self.quiet.iter().map(|(address, _)| *address);
        let quiet = quiet.filter(move |address| last.replace(*address) != Some(*address));
        let others = self.missing.iter().filter(|it| !self.peers.is_silent(**it));
        quiet.chain(others.copied())
    }

    /// A silent destination is tried now, unless that was tried just before.
    fn handle_sign(&mut self, now: Time, address: IpAddr) {
        match self.peers.wake(now, address) {
            // Signs of more peers than may be known are passed over: their time comes without.
            Some(at) if at > now && self.signs.len() >= self.config.limits.peers => {}
            Some(at) if at > now => {
                self.signs.insert((at, address));
            }
            Some(_) => {
                self.sent.tried += 1;
                self.rouse(now, address);
            }
            None => {}
        }
    }

    /// Resumes questions of the quiet transfers to a destination.
    fn rouse(&mut self, now: Time, address: IpAddr) {
        let of_it = self.quiet.range((address, 0)..=(address, u16::MAX));
        let mut of_it: Vec<u16> = of_it.map(|(_, serial)| *serial).collect();
        // A try of a moment ago may have come too early.
        let is_silent = self.peers.is_silent(address);
        if self.missing.remove(&address) || is_silent {
            let late = self.transfers.iter().filter(|(_, transfer)| {
                !transfer.is_quiet()
                    && transfer.persists(&self.config)
                    && (is_silent || transfer.is_retry())
                    && transfer.waits_for(address)
            });
            of_it.extend(late.map(|(serial, _)| *serial));
        }
        for serial in of_it {
            self.set_quiet(serial, false);
            let Some(transfer) = self.transfers.get_mut(&serial) else { continue };
            transfer.rouse(address);
            self.refresh(serial);
        }
        self.start(now);
    }

    /// A destination has answered: whatever waited for that goes on.
    fn revive(&mut self, now: Time, address: IpAddr) {
        let was_silent = self.peers.revive(address);
        self.missing.remove(&address);
        if !was_silent {
            return;
        }
        self.release_parked(now, address);
        self.rouse(now, address);
    }

    /// Messages that wait for transfers to a destination to end may start, as far as there is room.
    fn release_parked(&mut self, now: Time, address: IpAddr) {
        for turn in self.peers.take_parked(now, address) {
            self.queue.unpark(turn);
        }
    }

    /// A transfer has nothing under way while its destinations do not answer.
    fn set_quiet(&mut self, serial: u16, is_quiet: bool) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        if !transfer.set_quiet(is_quiet) {
            return;
        }
        let count = &mut self.counts[usize::from(transfer.precedence().level())];
        *count = if is_quiet { *count - 1 } else { *count + 1 };
        for destination in transfer.destinations() {
            let key = (destination.address(), serial);
            match is_quiet && destination.is_open() {
                true => self.quiet.insert(key),
                false => self.quiet.remove(&key),
            };
        }
    }

    /// All remaining destinations of a transfer are silent. One transfer to each asks now and then; the others wait in
    /// the queue, with their numbers, and cost no air time.
    fn wait_for(&mut self, now: Time, serial: u16) {
        if self.quiet.len() + self.queue.begun() > MOST_QUIET {
            self.abandon_all(now, serial, Outcome::Failed(Failure::Silent));
            return;
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let is_crowded = |address: &IpAddr| self.peers.transfers(*address) > 1;
        let crowded = transfer.open().map(Destination::address).find(is_crowded);
        if let Some(address) = crowded {
            self.suspend(now, serial, address);
            return;
        }
        transfer.ask_quietly(&self.config);
        self.set_quiet(serial, true);
        self.refresh(serial);
    }

    /// A destination has fallen silent: only this transfer goes on, and other transfers to the same destination wait.
    fn leave_to(&mut self, now: Time, serial: u16, address: IpAddr) {
        let others = self.transfers.iter().filter(|(other, transfer)| {
            **other != serial && transfer.persists(&self.config) && transfer.is_for(address)
        });
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.suspend(now, other, address);
        }
    }

    /// A transfer waits in the queue until there are fewer to a destination.
    fn suspend(&mut self, now: Time, serial: u16, address: IpAddr) {
        let Some(transfer) = self.take_out(serial) else { return };
        let turn = transfer.turn();
        for other in transfer.open().map(Destination::address) {
            self.peers.end(now, other);
            if other != address {
                self.release_parked(now, other);
            }
        }
        self.queue.push(turn, transfer.into_waiting(serial));
        self.queue.park(turn, address);
        self.peers.park(address, turn);
        self.start(now);
    }

    /// Removes a transfer and all notes about it.
    fn take_out(&mut self, serial: u16) -> Option<Outgoing> {
        self.set_quiet(serial, false);
        let mut transfer = self.transfers.remove(&serial)?;
        self.deadlines.set(transfer.noted_due(), None, serial);
        self.note_ready(&mut transfer, None, serial);
        self.in_flight -= u64::from(transfer.noted_octets());
        self.counts[usize::from(transfer.precedence().level())] -= 1;
        Some(transfer)
    }

    pub fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.octets())
    }

    pub fn transfers(&self) -> usize {
        self.transfers.len()
    }

    /// Octets under way, and how many may be.
    pub fn in_flight(&self) -> (u64, u32) {
        (self.in_flight, self.room.octets())
    }

    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next abort to schedule; asked for after each `handle_*` and `cancel`.
    pub fn poll_abort(&mut self) -> Option<(About, Answer)> {
        self.aborts.pop_front()
    }

    /// Counters of messages, transmissions and answers.
    pub fn stats(&self) -> (Messages, Sent, stats::Answered) {
        (self.messages, self.sent, self.answered)
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
    fn conclude(&mut self, now: Time, serial: u16, index: usize, outcome: Outcome) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.close(index);
        let (id, address) = (transfer.id(), transfer.address(index));
        self.missing.remove(&address);
        self.quiet.remove(&(address, serial));
        self.tell(id, address, outcome);
        self.peers.end(now, address);
        self.release_parked(now, address);
    }

    /// The same, and the destination is told to forget it.
    fn abandon(&mut self, now: Time, (serial, index): (u16, usize), outcome: Outcome) {
        let Some(transfer) = self.transfers.get(&serial) else { return };
        let peer = transfer.address(index);
        if transfer.last_sent() > 0 {
            let about = About { peer, serial, is_ours: true };
            let (ports, precedence) = (transfer.ports(), transfer.precedence());
            let answer = Answer { say: Say::AbortRequest, ports, is_final: false, precedence };
            self.aborts.push_back((about, answer));
        }
        self.conclude(now, serial, index, outcome);
    }

    /// Ends a transfer whose destinations are all done with; false if there are others.
    fn finish(&mut self, now: Time, serial: u16) -> bool {
        let is_over = self.transfers.get(&serial).is_some_and(Outgoing::is_over);
        if !is_over {
            return false;
        }
        let Some(transfer) = self.take_out(serial) else { return false };
        let timeouts = transfer
            .destinations()
            .iter()
            .map(|destination| self.peers.timeout(destination.address(), 0, false));
        let longest = timeouts.max().unwrap_or_default();
        let most = self.config.times.serial_rest;
        let rest = (longest * REST).max(LEAST_REST).min(most);
        // A message that was not acknowledged tells nothing of how long its segments are under way.
        let rest = if transfer.is_acknowledged() { rest } else { rest.max(LEAST_REST) };
        self.serials.release(now, serial, rest);
        true
    }

    /// Most segments of a transfer outstanding.
    fn window(&self, transfer: &Outgoing) -> u16 {
        if self.config.profile != Profile::Default {
            return self.config.flow.credit;
        }
        let credits = transfer.active().filter_map(|it| self.peers.get(it.address()));
        if transfer.active().any(|it| self.peers.is_silent(it.address())) {
            // One segment suffices to test whether the destination is back.
            return 1;
        }
        let least = credits.map(|peer| peer.credit()).min().unwrap_or(self.config.flow.credit);
        // Each destination asked sends an answer of its own.
        let count = u16::try_from(transfer.active().count().max(1)).unwrap_or(u16::MAX);
        least.saturating_mul(count).min(self.config.flow.most_credit.max(least))
    }

    /// Updates the notes about a transfer: its next transmission, octets in flight and deadline.
    fn refresh(&mut self, serial: u16) {
        let Some(mut transfer) = self.transfers.remove(&serial) else { return };
        let window = self.window(&transfer);
        let mut next = transfer.next(&self.config, window);
        if next.is_none() && transfer.is_stuck() {
            transfer.ask_all();
            next = Some(Next::Ask);
        }
        let ready = next.map(|next| match next {
            Next::Segment { is_again: false, .. } => Ready::New,
            Next::Ask | Next::AskOne(_) | Next::Repair(_) | Next::Segment { .. } => Ready::Again,
        });
        self.note_ready(&mut transfer, ready, serial);
        self.in_flight -= u64::from(transfer.noted_octets());
        self.in_flight += u64::from(transfer.note_octets());
        let due = transfer.deadline();
        self.deadlines.set(transfer.noted_due(), due, serial);
        self.transfers.insert(serial, transfer);
    }

    fn note_ready(&mut self, transfer: &mut Outgoing, ready: Option<Ready>, serial: u16) {
        let before = transfer.note_ready(ready);
        if before == ready {
            return;
        }
        let key = (transfer.turn(), serial);
        match before {
            Some(Ready::Again) => _ = self.again.remove(&key),
            Some(Ready::New) => _ = self.new.remove(&key),
            None => {}
        }
        match ready {
            Some(Ready::Again) => _ = self.again.insert(key),
            Some(Ready::New) => _ = self.new.insert(key),
            None => {}
        }
    }
}

// Accepts messages from programs, and starts each in turn.

/// Most transfers waiting for their first transmission. Other messages wait in the queue, so that a more urgent
/// message, or one to a responsive destination, can overtake.
const READY: usize = 64;

impl Sender {
    /// Takes a message.
    pub fn submit(
        &mut self,
        now: Time,
        message: &Message,
        destinations: &[IpAddr],
        options: Options,
    ) -> Result<MessageId, NotTaken> {
        let admitted = self.admit(message, destinations, options);
        let parts = match admitted {
            Ok(parts) => parts,
            Err(why) => {
                match why {
                    NotTaken::Full { .. } => self.messages.full += 1,
                    _ => self.messages.refused += 1,
                }
                return Err(why);
            }
        };
        self.messages.taken += 1;
        let id = MessageId(self.next_id);
        let expires = options.lifetime.map(|lifetime| now + lifetime);
        for to in parts {
            let turn = Turn::new(options.precedence, self.next_id);
            self.next_id += 1;
            let message = message.clone();
            let waiting = Waiting { id, message, to, options, expires, parked: None };
            self.queue.push(turn, waiting);
        }
        self.start(now);
        Ok(id)
    }

    /// The transfers that a message becomes.
    fn admit(
        &mut self,
        message: &Message,
        destinations: &[IpAddr],
        options: Options,
    ) -> Result<Vec<To>, NotTaken> {
        let limits = &self.config.limits;
        let segment = options.resume.map_or(self.config.segment, |resume| resume.segment).max(1);
        let most = (limits.message as usize).min(usize::from(u16::MAX) * usize::from(segment));
        let have = message.data.len();
        if have == 0 {
            return Err(NotTaken::Empty);
        }
        if have > most {
            return Err(NotTaken::TooLarge { have, most });
        }
        let different: BTreeSet<IpAddr> = destinations.iter().copied().collect();
        let count = different.len();
        if count == 0 {
            return Err(NotTaken::NoDestination);
        }
        if count > limits.destinations {
            return Err(NotTaken::TooManyDestinations { have: count, most: limits.destinations });
        }
        let parts: Vec<To> = match options.via {
            Some(_) if count > 1 => vec![To::Several(different.into_iter().collect())],
            _ => different.into_iter().map(To::Single).collect(),
        };
        let waiting = self.queue.len();
        let octets = self.queue.octets() + have * parts.len();
        if waiting + parts.len() > limits.waiting || octets > limits.waiting_octets {
            return Err(NotTaken::Full { waiting });
        }
        if let Some(Resume { serial, .. }) = options.resume {
            if parts.len() > 1 {
                return Err(NotTaken::TooManyDestinations { have: parts.len(), most: 1 });
            }
            if !self.serials.take_again(serial) {
                return Err(NotTaken::SerialInUse { serial });
            }
        }
        Ok(parts)
    }

    /// Starts messages in turn, as long as room lasts.
    fn start(&mut self, now: Time) {
        self.start_at = None;
        while let Some((turn, waiting)) = self.queue.first() {
            let ready = self.new.range(..(turn, 0)).take(READY).count();
            if ready == READY || !self.has_room(turn.precedence()) {
                return;
            }
            let addresses = waiting.to.addresses();
            let is_full = |it: &&IpAddr| !self.peers.has_room(**it);
            // Responsive members of a group do not wait for the others.
            let busy = addresses.iter().filter(is_full).find(|it| !self.peers.is_silent(**it));
            let silent = addresses.first().filter(|_| addresses.iter().all(|it| is_full(&it)));
            if let Some(address) = busy.or(silent).copied() {
                self.queue.park(turn, address);
                self.peers.park(address, turn);
                continue;
            }
            let resume = match waiting.options.resume {
                Some(resume) => resume,
                None => match self.serials.take(now) {
                    Some(serial) => Resume { serial, segment: self.config.segment },
                    None => return,
                },
            };
            let Some(waiting) = self.queue.remove(turn) else { return };
            self.begin(now, turn, waiting, resume);
        }
    }

    /// Whether one more transfer of a precedence may be under way.
    fn has_room(&self, precedence: Precedence) -> bool {
        let at_least = &self.counts[usize::from(precedence.level())..];
        at_least.iter().sum::<u32>() < u32::from(self.config.flow.transfers)
    }

    fn begin(&mut self, now: Time, turn: Turn, waiting: Waiting, resume: Resume) {
        let destination = match &waiting.to {
            To::Several(_) => None,
            To::Single(address) => Some(*address),
        };
        self.counts[usize::from(turn.precedence().level())] += 1;
        for address in waiting.to.addresses() {
            self.peers.begin(now, *address);
        }
        if waiting.options.resume.is_none() {
            self.events.push_back(Event::Started { id: waiting.id, destination, resume });
        }
        let mut transfer = Outgoing::new(turn, waiting, resume.segment);
        if transfer.persists(&self.config) {
            transfer.set_apart(|address| self.peers.is_silent(address));
        }
        self.transfers.insert(resume.serial, transfer);
        self.refresh(resume.serial);
    }
}

// Chooses the next segment: highest precedence first, retransmissions before new data.

/// The factor between a round trip and the timeout of S/R Basic.
const BASIC_TIMEOUT_FACTOR: f64 = 2.2;
/// When messages may start for which sending another one made room: at once, but not in the same
/// breath, because the driver stores what has started before it is sent.
const SOON: Duration = Duration::from_nanos(1);

impl Sender {
    /// Puts the next PDU into `out`.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.paced_until.is_some_and(|until| until > now) {
            return None;
        }
        let (serial, mut transfer, window, next) = loop {
            let (_, serial) = self.choose()?;
            let transfer = self.transfers.remove(&serial)?;
            let window = self.window(&transfer);
            if let Some(next) = transfer.next(&self.config, window) {
                break (serial, transfer, window, next);
            }
            // The window has shrunk since the transfer was noted. It asks now if nothing else makes anyone answer.
            self.transfers.insert(serial, transfer);
            self.refresh(serial);
        };
        let is_held = !self.has_queue_of(&transfer, 2);
        let asks = transfer.handle_sent(&self.config, (window, is_held), next);
        let polls = asks && self.config.profile.polls();
        out.clear();
        transfer.emit(serial, next, polls, out);
        match next {
            Next::Ask | Next::AskOne(_) => self.sent.requests += 1,
            Next::Repair(_) => self.sent.repairs += 1,
            Next::Segment { is_again: true, .. } => self.sent.again += 1,
            Next::Segment { is_again: false, .. } => self.sent.segments += 1,
        }
        self.sent.octets += out.len() as u64;
        if asks {
            transfer.handle_asked(now, next, self.in_flight);
            transfer.expect_answers_by(now + self.answer_timeout(&transfer));
        }
        if let Next::AskOne(index) = next {
            transfer.handle_asked_one(now, index);
            transfer.expect_answers_by(now + self.answer_timeout(&transfer));
        }
        if self.config.flow.spacing > Duration::ZERO {
            self.paced_until = Some(now + self.config.flow.spacing);
        }
        let transmit = transfer.addressed(next);
        let is_done = !transfer.is_acknowledged() && transfer.has_sent_all();
        let count = transfer.destinations().len();
        self.transfers.insert(serial, transfer);
        if is_done {
            for index in 0..count {
                self.conclude(now, serial, index, Outcome::Sent);
            }
            self.finish(now, serial);
            self.start_at = self.queue.first().map(|_| now + SOON);
        } else {
            self.refresh(serial);
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
        self.transfers.get(&serial).is_some_and(|it| self.has_queue_of(it, segments))
    }

    fn has_queue_of(&self, transfer: &Outgoing, segments: u64) -> bool {
        let queue = u64::from(self.room.octets());
        let most = match transfer.precedence() >= Precedence::IMMEDIATE {
            true => queue,
            false => queue - queue / 4,
        };
        let more = segments * u64::from(transfer.segment_octets());
        let is_first = segments == 1 && self.in_flight == 0;
        !transfer.is_acknowledged() || is_first || self.in_flight + more <= most
    }

    /// The room may have shrunk below what is in flight. Octets in flight are freed by answers alone, so transfers that
    /// have no more room and have asked nothing ask now: otherwise they would wait for ever.
    fn ask_held(&mut self) {
        let all = self.new.iter().map(|(_, serial)| *serial);
        let held: Vec<u16> = all.filter(|serial| !self.has_queue(*serial, 1)).collect();
        for serial in held {
            let Some(transfer) = self.transfers.get_mut(&serial) else { continue };
            if transfer.outstanding() > 0 && transfer.is_stuck() {
                transfer.ask_all();
                self.refresh(serial);
            }
        }
    }

    /// How long to wait for answers to a question that is sent now.
    fn answer_timeout(&self, transfer: &Outgoing) -> Duration {
        let times = &self.config.times;
        if self.config.profile == Profile::Basic {
            let trip = transfer.basic_round_trip(&self.config);
            return trip.mul_f64(BASIC_TIMEOUT_FACTOR).min(times.most_timeout);
        }
        let is_retry = transfer.is_retry();
        let timeouts = transfer.asked().map(|destination| {
            let address = destination.address();
            let timeout = self.peers.timeout(address, transfer.outstanding(), is_retry);
            let factor = self.peers.get(address).map_or(1.0, |it| it.burden(self.in_flight));
            match self.config.profile {
                Profile::Default => timeout.mul_f64(factor).min(times.most_timeout),
                _ => timeout,
            }
        });
        let is_spread =
            self.config.profile.slides() && transfer.is_shared() && transfer.is_asked_together();
        let spread = if is_spread { times.spread } else { Duration::ZERO };
        timeouts.max().unwrap_or_default() + spread
    }
}

// Handles answers of destinations, and missing answers.

/// Doublings of the pause before what is not taken is tried again, at most.
const MOST_PAUSE: u8 = 16;

impl Sender {
    /// A partial acknowledgement arrived; false if the transfer is unknown.
    pub fn handle_partial(&mut self, now: Time, key: Key, mask: &Mask<'_>, is_final: bool) -> bool {
        self.answered.partial += 1;
        let serial = key.serial;
        if self.transfers.contains_key(&serial) {
            self.take_partial(now, key, mask, is_final);
            return true;
        }
        self.answered.unknown += 1;
        false
    }

    fn take_partial(&mut self, now: Time, key: Key, mask: &Mask<'_>, is_final: bool) {
        let serial = key.serial;
        let Some(index) = self.destination(key) else {
            self.answered.forged += 1;
            return;
        };
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let had_answered = transfer.destinations()[index].has_answered();
        // Without P nothing tells an answer from an unsolicited report, and reports come for ever. So an answer needs
        // a question in flight. With P, an unsolicited report may be older than the question.
        let is_answer = match self.config.profile.polls() {
            true => is_final && transfer.settle(mask),
            false => transfer.oldest_poll().is_some(),
        };
        match transfer.handle_mask(index, mask, is_answer) {
            Worth::Forged => {
                self.answered.forged += 1;
                return;
            }
            Worth::Forgotten => self.answered.forgotten += 1,
            Worth::Nothing => return,
            Worth::Taken => {}
        }
        let poll = transfer.oldest_poll();
        self.set_quiet(serial, false);
        self.revive(now, key.peer);
        if let Some(transfer) =
            self.transfers.get_mut(&serial).filter(|it| it.persists(&self.config))
        {
            // Those that are known not to answer are not waited for.
            transfer.set_apart(|address| self.peers.is_silent(address));
        }
        if is_answer && !had_answered {
            self.measure(now, key, poll);
        }
        self.advance(now, serial);
    }

    /// A complete acknowledgement arrived.
    pub fn handle_complete(&mut self, now: Time, key: Key) {
        self.answered.complete += 1;
        let serial = key.serial;
        let Some(index) = self.destination(key) else {
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
        let poll = transfer.latest_poll();
        self.measure(now, key, poll);
        self.set_quiet(serial, false);
        self.revive(now, key.peer);
        if let Some(peer) = self.peers.get_mut(key.peer) {
            peer.reward(1, (1, self.config.flow.most_credit), false);
        }
        self.conclude(now, serial, index, Outcome::Delivered);
        self.advance(now, serial);
    }

    /// Handles a destination that gives up; false if the transfer is unknown.
    pub fn handle_abort(&mut self, now: Time, key: Key) -> bool {
        let Some(index) = self.destination(key) else { return false };
        self.answered.aborts += 1;
        self.set_quiet(key.serial, false);
        self.revive(now, key.peer);
        let outcome = Outcome::Failed(Failure::Aborted);
        self.conclude(now, key.serial, index, outcome);
        self.advance(now, key.serial);
        true
    }

    /// Whether ports have changed places, as in an answer of ours.
    pub fn is_answer(&self, key: Key) -> bool {
        self.transfers.get(&key.serial).is_some_and(|it| it.ports() == key.ports.swapped())
    }

    /// Finds the transfer and destination of an answer, if any matches. The standard does not say whether ports change
    /// places in an answer; both orders are accepted.
    fn destination(&self, key: Key) -> Option<usize> {
        let transfer = self.transfers.get(&key.serial)?;
        let has_ports = [key.ports, key.ports.swapped()].contains(&transfer.ports());
        let is_known = has_ports && transfer.is_acknowledged() && transfer.last_sent() > 0;
        transfer.find(key.peer).filter(|_| is_known)
    }

    /// The answer to a question that was asked once tells the round trip.
    fn measure(&mut self, now: Time, key: Key, poll: Option<Poll>) {
        let address = key.peer;
        let Some(transfer) = self.transfers.get_mut(&key.serial) else { return };
        match transfer.time_answer(now, address, poll) {
            Timed::Alone { trip, load } => {
                _ = self.peers.measure(now, address, (trip, load));
                return;
            }
            Timed::Nothing => return,
            Timed::Repeated { most, load } => {
                self.peers.measure_repeated(now, address, (most, load));
                return;
            }
            Timed::Clean { trip, load, octets } => {
                if let Some(trip) = self.peers.measure(now, address, (trip, load)) {
                    self.room.handle_trip(now, trip, load, octets);
                    self.ask_held();
                }
            }
        }
        self.release_parked(now, address);
    }

    /// Goes on after an answer.
    fn advance(&mut self, now: Time, serial: u16) {
        let arrived = self.transfers.get_mut(&serial).and_then(Outgoing::handle_answered);
        if let Some(arrived) = arrived {
            self.complete_round(now, (serial, arrived));
        }
        if self.transfers.get(&serial).is_some_and(Outgoing::has_only_parked) {
            self.wait_for(now, serial);
        } else if !self.finish(now, serial) {
            self.refresh(serial);
        }
        self.start(now);
    }

    /// Ends a round: all destinations have answered, the last one with `arrived` segments, and missing segments are
    /// sent again.
    fn complete_round(&mut self, now: Time, (serial, arrived): (u16, u16)) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.finish_round();
        for destination in transfer.active() {
            let Some(peer) = self.peers.get_mut(destination.address()) else { continue };
            let flow = &self.config.flow;
            let lacked = transfer.lacked(destination);
            match u32::from(lacked) * 3 > u32::from(peer.credit()) {
                true => peer.punish(flow.credit),
                false => peer.reward(arrived, (flow.ask_at, flow.most_credit), lacked > 0),
            }
        }
        self.repeat(now, serial);
    }

    /// Schedules retransmissions of missing segments, and gives up on destinations that lack one too often.
    fn repeat(&mut self, now: Time, serial: u16) {
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        let hopeless = transfer.plan(&self.config);
        if !hopeless.is_empty() && transfer.persists(&self.config) {
            let times = transfer.stall();
            let waits = transfer.active().map(|it| {
                let timeout = self.peers.timeout(it.address(), 0, false);
                timeout.saturating_mul(1 << times.min(MOST_PAUSE))
            });
            let pause = waits.max().unwrap_or_default().min(self.config.times.most_timeout);
            transfer.pause_until(now + pause);
            transfer.count_outstanding();
            self.set_quiet(serial, true);
            return;
        }
        for index in hopeless {
            let outcome = Outcome::Failed(Failure::Lost);
            self.abandon(now, (serial, index), outcome);
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.count_outstanding();
        transfer.prune();
        transfer.plan_repairs(&self.config);
    }

    /// Not all destinations have answered in time.
    fn handle_silence(&mut self, now: Time, serial: u16) {
        self.sent.timeouts += 1;
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        if !transfer.is_quiet() {
            // Whoever has been dead for long tells nothing of the way to others.
            self.room.handle_silence();
            self.ask_held();
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.handle_silence();
        // Group members that have the whole message have answered too.
        let is_any_done = self.config.profile == Profile::Default
            && transfer.is_shared()
            && transfer.destinations().iter().any(|destination| !destination.is_open());
        let is_any_answered = is_any_done || transfer.active().any(Destination::has_answered);
        let most = self.config.retries.requests;
        // Answers of many destinations collide, so a silent destination may have answered.
        let is_telling =
            !transfer.is_shared() || !transfer.is_asked_together() || transfer.is_quiet();
        let mut silent = Vec::new();
        for (index, destination) in transfer.unanswered() {
            if let Some(peer) = self.peers.get_mut(destination.address())
                && (is_telling || self.config.profile != Profile::Default)
            {
                peer.back_off(now, self.config.flow.credit);
            }
            if destination.requests() >= most {
                silent.push(index);
            }
            let asked_at = transfer.polled_at();
            if transfer.persists(&self.config)
                && asked_at.is_some_and(|at| self.peers.is_unheard(destination.address(), at))
            {
                self.missing.insert(destination.address());
            }
        }
        if !silent.is_empty() && transfer.persists(&self.config) {
            let mut fallen = Vec::new();
            for index in silent {
                let address = transfer.address(index);
                if self.peers.silence(address) {
                    fallen.push(address);
                }
                transfer.park(index);
            }
            let is_waiting = transfer.has_only_parked();
            for address in fallen {
                self.leave_to(now, serial, address);
            }
            if is_waiting {
                self.wait_for(now, serial);
                return;
            }
        } else {
            for index in silent {
                let outcome = Outcome::Failed(Failure::Silent);
                self.abandon(now, (serial, index), outcome);
            }
        }
        if self.finish(now, serial) {
            return;
        }
        let Some(transfer) = self.transfers.get_mut(&serial) else { return };
        transfer.count_outstanding();
        if transfer.is_answered() {
            self.complete_round(now, (serial, 0));
        } else if is_any_answered && self.config.profile == Profile::Default {
            // A short question finds the missing segments, instead of sending everything again.
            transfer.ask_alone();
        } else if is_any_answered {
            self.repeat(now, serial);
        } else {
            // Resending a single-segment message is as quick as asking for an answer.
            let is_quick = self.config.profile == Profile::Default && transfer.is_single();
            match self.config.profile == Profile::Seed || is_quick {
                true => transfer.plan_all(),
                false => transfer.ask_all(),
            }
        }
        // Those that were left may have been given up just now.
        if !self.finish(now, serial) {
            self.refresh(serial);
        }
    }

    /// Gives up on all destinations that are left.
    fn abandon_all(&mut self, now: Time, serial: u16, outcome: Outcome) {
        let count = self.transfers.get(&serial).map_or(0, |it| it.destinations().len());
        for index in 0..count {
            let is_open =
                self.transfers.get(&serial).is_some_and(|it| it.destinations()[index].is_open());
            if is_open {
                self.abandon(now, (serial, index), outcome);
            }
        }
        self.finish(now, serial);
    }
}
