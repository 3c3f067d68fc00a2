//! One node: sends and receives messages.

use std::net::IpAddr;
use std::time::Duration;

use base::rng::Rng;
use base::serial::low16;
use base::time::{Time, earliest};

use super::answers::{About, Answer, Answers, Key, Reply, Say};
use super::config::Config;
use super::finished::{Ending, Remembered};
use super::message::{Arrival, Event, Message, MessageId, NotTaken, Options, Precedence, Transmit};
use super::receiver::{Receiver, Segment};
use super::sender::Sender;
use super::stats::{Levels, Stats};
use super::wire::{Body, Malformed, Pdu, Ports};

/// Nodes greeted at once after a start; the others follow one by one, [`GREETING`] apart.
const GREETED: usize = 32;
const GREETING: Duration = Duration::from_millis(50);

/// A node of the segmentation/reassembly protocol. It keeps [`base::contract`].
#[derive(Debug)]
pub struct Sar {
    config: Config,
    sender: Sender,
    receiver: Receiver,
    answers: Answers,
    malformed: u64,
    answers_sent: (u64, u64),
}

impl Sar {
    /// A node. Its first transfer has the number `serial`: one more than the last number stored by an earlier process
    /// (see [`Event::Started`]); a random number without an earlier process.
    #[must_use]
    pub fn new(now: Time, config: Config, serial: Option<u16>, mut rng: Rng) -> Self {
        let serial = serial.unwrap_or_else(|| low16(rng.bits()));
        Self {
            sender: Sender::new(&config, serial),
            receiver: Receiver::new(&config),
            answers: Answers::new(now, &config, rng),
            malformed: 0,
            answers_sent: (0, 0),
            config,
        }
    }

    /// Takes a message for `destinations`. Each of them has an [`Event::Outcome`] later, exactly once.
    ///
    /// # Errors
    /// When it is not taken: why.
    pub fn submit(
        &mut self,
        now: Time,
        message: &Message,
        destinations: &[IpAddr],
        options: Options,
    ) -> Result<MessageId, NotTaken> {
        self.sender.submit(now, message, destinations, options)
    }

    /// Gives up a message for all destinations without an outcome; each gets [`Outcome::Cancelled`]. Destinations that
    /// were sent something may have the message already. Returns the number of cancelled destinations.
    ///
    /// [`Outcome::Cancelled`]: super::Outcome::Cancelled
    pub fn cancel(&mut self, now: Time, id: MessageId) -> usize {
        let cancelled = self.sender.cancel(now, id);
        self.schedule_aborts(now);
        cancelled
    }

    /// Takes over the transfers received by an earlier process, so that none is received again.
    pub fn remember(&mut self, now: Time, known: Remembered) {
        self.receiver.know(now, known);
    }

    /// Announces that this node is back, because peers may have messages waiting for it. Each peer gets the
    /// acknowledgement of its latest transfer once more; a peer without waiting messages ignores the acknowledgement.
    pub fn announce(&mut self, now: Time, peers: impl IntoIterator<Item = IpAddr>) {
        let mut at = now;
        for (count, peer) in peers.into_iter().enumerate() {
            let known = self.receiver.finished().newest_of(peer);
            let known = known.filter(|known| known.ending == Ending::Delivered);
            let (serial, ports) =
                known.map_or((0, Ports::default()), |known| (known.serial, known.ports));
            if count >= GREETED {
                at += GREETING;
            }
            let about = About { peer, serial, is_ours: false };
            let (ports, precedence) = (ports.swapped(), Precedence::ROUTINE);
            let answer = Answer { say: Say::Complete, ports, is_final: false, precedence };
            self.answers.schedule_at(at, about, answer);
        }
    }

    /// Destinations that do not answer, and for which messages still wait.
    pub fn silent(&self) -> impl Iterator<Item = IpAddr> {
        self.sender.silent()
    }

    /// A change below may make a destination reachable again, such as a new interface or route: a silent destination is
    /// tried at once.
    pub fn handle_way(&mut self, now: Time, to: IpAddr) {
        self.sender.handle_heard(now, to);
    }

    /// Whether this address has ever acknowledged anything.
    #[must_use]
    pub fn has_answered(&self, address: IpAddr) -> bool {
        self.sender.has_answered(address)
    }

    /// Finished transfers still remembered, for a later process to take over.
    pub fn remembered(&self) -> impl Iterator<Item = &Remembered> {
        self.receiver.finished().iter()
    }

    /// Takes a datagram that came to port 1624.
    ///
    /// # Errors
    /// When it is no PDU; that is counted.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        arrival: Arrival,
        octets: &[u8],
    ) -> Result<(), Malformed> {
        let pdu = Pdu::parse(octets).inspect_err(|_| self.malformed += 1)?;
        let Pdu { ports, serial, body } = pdu;
        let Self { sender, receiver, answers, .. } = self;
        let Arrival { from: peer, is_group, precedence } = arrival;
        let key = Key { peer, serial, ports };
        let mut reply = Reply { answers, now, key, precedence, is_group };
        match body {
            Body::AbortConfirm { .. } => {}
            Body::AbortRequest { polls } => self.handle_abort(now, key, precedence, polls),
            Body::AckRequest { .. } => receiver.handle_request(&mut reply),
            Body::Complete { .. } => sender.handle_complete(now, key),
            Body::Data { is_acknowledged, polls, place, data } => {
                let segment = Segment { is_acknowledged, polls, place, data };
                receiver.handle_segment(&mut reply, segment);
            }
            Body::Partial { is_final, mask } => {
                if !sender.handle_partial(now, key, &mask, is_final) {
                    // Whoever still waits for more of a transfer that is over should not.
                    let about = About { peer, serial, is_ours: true };
                    let (say, ports) = (Say::AbortRequest, ports.swapped());
                    let answer = Answer { say, ports, is_final: false, precedence };
                    let is_known = sender.has_answered(peer);
                    answers.schedule_stray(now, about, answer, is_known, false);
                }
            }
            Body::Repair { polls, cover, symbol } => {
                receiver.handle_repair(&mut reply, polls, &cover, symbol);
            }
        }
        self.schedule_aborts(now);
        self.sender.handle_heard(now, peer);
        Ok(())
    }

    /// An abort comes from a destination of ours with its ports first, or from an originator with its.
    fn handle_abort(&mut self, now: Time, key: Key, precedence: Precedence, polls: bool) {
        let Self { sender, receiver, answers, .. } = self;
        let is_meant = sender.is_answer(key) && sender.handle_abort(now, key)
            || receiver.handle_abort(now, key)
            || sender.handle_abort(now, key);
        if !polls {
            return;
        }
        let mut reply = Reply { answers, now, key, precedence, is_group: false };
        if is_meant {
            reply.schedule(Say::AbortConfirm, true);
        } else {
            let is_known =
                receiver.finished().has_source(key.peer) || sender.has_answered(key.peer);
            reply.schedule_stray(Say::AbortConfirm, true, is_known);
        }
    }

    /// Tells destinations of ended transfers to forget them.
    fn schedule_aborts(&mut self, now: Time) {
        while let Some((about, answer)) = self.sender.poll_abort() {
            self.answers.schedule(now, about, answer, false);
        }
    }

    /// Acts on deadlines that have passed. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now);
        self.schedule_aborts(now);
        self.receiver.handle_timeout(now, &mut self.answers);
        self.answers.handle_timeout(now);
    }

    /// What the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.sender.poll_event().or_else(|| self.receiver.poll_event())
    }

    /// Writes the next PDU to `out`, replacing its content, and returns its destination. Answers go first.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let Some((about, answer)) = self.answers.pop(now) else {
            return self.sender.poll_transmit(now, out);
        };
        let (About { peer, serial, .. }, Answer { say, ports, is_final, precedence }) =
            (about, answer);
        let buffer;
        let body = match say {
            Say::AbortConfirm => Body::AbortConfirm { is_final },
            Say::AbortRequest => Body::AbortRequest { polls: false },
            Say::Complete => Body::Complete { is_final },
            Say::Partial => {
                // Answers have the ports changed over.
                buffer = self.receiver.mask(Key { peer, serial, ports: ports.swapped() });
                Body::Partial { is_final, mask: buffer.mask() }
            }
        };
        out.clear();
        Pdu { ports, serial, body }.emit(out);
        self.answers_sent.0 += 1;
        self.answers_sent.1 += out.len() as u64;
        Some(Transmit { to: peer, precedence, listed: None })
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let both = earliest(self.sender.next_timeout(), self.receiver.next_timeout());
        earliest(both, self.answers.next_timeout())
    }

    /// What it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters and levels.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Self { sender, receiver, answers, .. } = self;
        let (waiting, waiting_octets) = sender.waiting();
        let (in_flight, room) = sender.in_flight();
        let (messages, sent, answered) = sender.stats();
        let mut stats = Stats {
            messages,
            sent,
            answered,
            received: receiver.stats(),
            levels: Levels {
                waiting: waiting as u64,
                waiting_octets: waiting_octets as u64,
                transfers: sender.transfers() as u64,
                in_flight,
                room: room.into(),
                reassemblies: receiver.len() as u64,
                reassembly_octets: receiver.octets() as u64,
                remembered: receiver.finished().len() as u64,
                peers: sender.peers() as u64,
                answers: answers.len() as u64,
            },
        };
        stats.received.malformed = self.malformed;
        stats.sent.answers = self.answers_sent.0;
        stats.sent.octets += self.answers_sent.1;
        stats.sent.answers_full = answers.full();
        stats.sent.answers_limited = answers.limited();
        stats
    }
}
