//! Expedited ARQ: one C_PDU at a time, each with numbers of its own from 0 on (Annex C, 6.1.3).
//!
//! Acknowledgements do not name their C_PDU. Because the stations take turns, there is no doubt: an acknowledgement
//! heard after our transmission ended belongs to the C_PDU sent last.

use std::collections::VecDeque;

use base::time::Time;

use super::arq::{self, Acked, Acknowledgement, ArqPdu, Repeat, Verdict};
use super::wire::{Data, Expedited, Fsn, Numbers, Report};
use crate::s5066::service::{Failure, Outcome, RequestId};

/// C_PDUs that may wait.
const MAX_WAITING: usize = 64;
/// Values of the four bits that name a C_PDU (Annex C, section 3.7).
const IDS: u8 = 16;
/// The most frames of a C_PDU, so that no number comes twice in one.
const MAX_FRAMES: usize = 128;

/// The sending end: one C_PDU is sent and acknowledged before the next (Annex C, section 6.1.3).
#[derive(Clone, Debug)]
pub struct Sender {
    waiting: VecDeque<ArqPdu>,
    open: Option<ExpeditedPdu>,
    next_id: u8,
    /// C_PDUs given up since an acknowledgement was heard.
    given_up: u8,
    outcomes: VecDeque<(RequestId, Outcome)>,
}

/// The C_PDU that is being sent.
#[derive(Clone, Debug)]
struct ExpeditedPdu {
    request: RequestId,
    expires: Option<Time>,
    id: u8,
    len: usize,
    arq: arq::Sender,
}

impl Default for Sender {
    fn default() -> Self {
        Self::new()
    }
}

impl Sender {
    /// A sender that has sent nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            open: None,
            next_id: 0,
            given_up: 0,
            outcomes: VecDeque::new(),
        }
    }

    /// Takes a C_PDU to be sent after those before it.
    ///
    /// # Errors
    /// Gives it back when too many wait, or it is too long.
    pub fn push(&mut self, c_pdu: ArqPdu) -> Result<(), ArqPdu> {
        if self.waiting.len() >= MAX_WAITING || c_pdu.octets.len() > arq::MAX_C_PDU {
            return Err(c_pdu);
        }
        self.waiting.push_back(c_pdu);
        Ok(())
    }

    /// Takes an acknowledgement that was heard after our transmission `turn` had ended.
    ///
    /// `None` if nothing was sent that it can be about: such a frame is invalid now.
    pub fn handle_ack(&mut self, report: &Report<'_>, turn: u64) -> Option<Acked> {
        let acked = self.open.as_mut().and_then(|open| {
            // An impossible acknowledgement must not stop the sender.
            let is_possible = open.arq.has_sent() && open.arq.is_possible(report);
            if is_possible { open.arq.handle_ack(report, turn).ok() } else { None }
        });
        if acked.is_some() {
            self.given_up = 0;
        }
        self.settle();
        acked
    }

    /// No answer to our transmissions up to `turn` came.
    pub fn repeat_unanswered(&mut self, turn: u64, repeat: Repeat) {
        if let Some(open) = &mut self.open {
            open.arq.repeat_unanswered(turn, repeat);
        }
    }

    /// Gives up C_PDUs whose time is over. There is no way to tell the peer; the next one does.
    pub fn handle_timeout(&mut self, now: Time) {
        let is_over = |expires: Option<Time>| expires.is_some_and(|at| at <= now);
        if let Some(open) = self.open.take_if(|open| is_over(open.expires)) {
            let may_have_arrived = open.arq.has_sent_whole();
            let outcome = Outcome::Failed { why: Failure::Expired, may_have_arrived };
            self.outcomes.push_back((open.request, outcome));
            self.given_up += 1;
        }
        self.waiting.retain(|c_pdu| {
            if is_over(c_pdu.expires) {
                self.outcomes.push_back((c_pdu.id, Outcome::not_arrived(Failure::Expired)));
            }
            !is_over(c_pdu.expires)
        });
    }

    /// Gives up all C_PDUs; names begin anew, as on a new link.
    pub fn fail(&mut self, why: Failure) {
        if let Some(open) = self.open.take() {
            let may_have_arrived = open.arq.has_sent_whole();
            self.outcomes.push_back((open.request, Outcome::Failed { why, may_have_arrived }));
        }
        for c_pdu in self.waiting.drain(..) {
            self.outcomes.push_back((c_pdu.id, Outcome::not_arrived(why)));
        }
        self.next_id = 0;
        self.given_up = 0;
    }

    /// The next frame of our transmission `turn` whose segment has at most `room` octets, and
    /// whether it was sent before.
    pub fn poll(
        &mut self,
        now: Time,
        turn: u64,
        segment: usize,
        room: usize,
    ) -> Option<(Expedited<'_>, bool)> {
        self.handle_timeout(now);
        // A name that wraps around must not be the last one known to the peer.
        if self.open.is_none()
            && self.given_up + 1 < IDS
            && let Some(ArqPdu { id: request, octets, expires, .. }) = self.waiting.pop_front()
        {
            let len = octets.len();
            let mut arq = arq::Sender::new(Numbers::Short, Numbers::Short.max_window());
            let c_pdu = ArqPdu {
                id: request,
                octets,
                in_order: false,
                priority: 0,
                expires: None,
                is_retried: false,
            };
            arq.push(c_pdu).expect("it is not too long");
            self.open = Some(ExpeditedPdu { request, expires, id: self.next_id, len, arq });
            self.next_id = (self.next_id + 1) % IDS;
        }
        let open = self.open.as_mut()?;
        let segment = segment.max(open.len.div_ceil(MAX_FRAMES));
        let id = open.id;
        let outgoing = open.arq.poll(now, turn, segment, room)?;
        Some((expedited(id, outgoing.data), outgoing.is_repeat))
    }

    /// A frame to fill the rest of our transmission `turn`.
    pub fn poll_spare(&mut self, turn: u64, room: usize) -> Option<Expedited<'_>> {
        let open = self.open.as_mut()?;
        let id = open.id;
        open.arq.poll_spare(turn, room).map(|outgoing| expedited(id, outgoing.data))
    }

    /// The outcome of a C_PDU.
    pub fn poll_outcome(&mut self) -> Option<(RequestId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// Whether there is something to be sent now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        match &self.open {
            Some(open) => !open.arq.backlog().is_blocked(),
            None => !self.waiting.is_empty() && !self.is_exhausted(),
        }
    }

    /// Octets of the next segment that cannot be cut shorter, 0 if there is none.
    #[must_use]
    pub fn uncuttable(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.arq.uncuttable())
    }

    /// Whether something was sent and not heard of.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.arq.backlog().unanswered > 0)
    }

    /// Whether so many C_PDUs in turn were given up that the peer could confuse their names: the
    /// link is to be made anew.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.given_up + 1 >= IDS
    }

    /// When the next C_PDU expires.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|open| open.expires);
        open.chain(self.waiting.iter().filter_map(|c_pdu| c_pdu.expires)).min()
    }

    /// Tells what became of the open C_PDU when it is over.
    fn settle(&mut self) {
        if let Some(open) = &mut self.open
            && let Some(outcome) = open.arq.poll_outcome()
        {
            self.outcomes.push_back(outcome);
            self.open = None;
        }
    }
}

fn expedited(id: u8, data: Data<'_>) -> Expedited<'_> {
    let [fsn, _] = data.fsn.0.to_le_bytes();
    let (is_start, is_end, segment) = (data.is_start, data.is_end, data.segment);
    Expedited { is_start, is_end, id, fsn, segment }
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The C_PDU that is being received, or was last.
    id: Option<u8>,
    arq: arq::Receiver,
    given_up: u64,
    delivered: VecDeque<Vec<u8>>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// A receiver that nothing has reached.
    #[must_use]
    pub fn new() -> Self {
        Self {
            id: None,
            arq: arq::Receiver::new(Numbers::Short),
            given_up: 0,
            delivered: VecDeque::new(),
        }
    }

    /// Takes a frame of the peer; its header is good.
    pub fn handle_data(&mut self, expedited: &Expedited<'_>) -> Verdict {
        if self.id != Some(expedited.id) {
            self.given_up += u64::from(self.arq.held() > 0);
            self.arq = arq::Receiver::new(Numbers::Short);
            self.id = Some(expedited.id);
        }
        let data = Data {
            fsn: Fsn(u16::from(expedited.fsn)),
            is_start: expedited.is_start,
            is_end: expedited.is_end,
            in_order: false,
            is_drop: false,
            at_upper_edge: false,
            at_lower_edge: false,
            segment: expedited.segment,
        };
        let arrival = self.arq.handle_data(Numbers::Short, &data).unwrap_or(Verdict::Bad);
        self.delivered.extend(self.arq.poll_delivered().map(|c_pdu| c_pdu.octets));
        arrival
    }

    /// Acknowledgements were sent.
    pub fn handle_ack_sent(&mut self) {
        self.arq.handle_ack_sent();
    }

    /// The acknowledgement to send in a frame of type 5.
    ///
    /// `None` when nothing was heard since the last acknowledgement: a further one would seem to acknowledge a C_PDU
    /// of which nothing has arrived.
    #[must_use]
    pub fn ack(&self) -> Option<Acknowledgement> {
        self.arq.ack().filter(|_| self.is_ack_due())
    }

    /// The next C_PDU.
    pub fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// Whether the peer waits for an acknowledgement.
    #[must_use]
    pub fn is_ack_due(&self) -> bool {
        self.arq.is_ack_due()
    }

    /// C_PDUs of which the peer did not send the rest.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;
    use proptest::prelude::*;

    use super::*;
    use crate::s5066::dts::wire::Ack;

    #[test]
    fn c_pdus_go_one_after_the_other() {
        let (mut sender, mut receiver) = (Sender::new(), Receiver::new());
        for id in 0..20 {
            sender.push(c_pdu(id, 100)).unwrap();
        }

        for turn in 0..20 {
            let mut ids = Vec::new();
            while let Some((frame, is_repeat)) = sender.poll(Time::ZERO, turn, 40, 100) {
                assert!(!is_repeat);
                ids.push((frame.id, frame.fsn));
                receiver.handle_data(&frame);
            }
            let id = u8::try_from(turn % 16).unwrap();
            assert_eq!(ids, [(id, 0), (id, 1), (id, 2)]);
            answer(&mut sender, &receiver, turn);
            receiver.handle_ack_sent();
            assert_eq!(sender.poll_outcome(), Some((RequestId(turn), Outcome::Done)));
        }
        assert_eq!(std::iter::from_fn(|| receiver.poll_delivered()).count(), 20);
    }

    #[test]
    fn an_acknowledgement_of_the_last_c_pdu_is_none_of_the_next() {
        let (mut sender, mut receiver) = (Sender::new(), Receiver::new());
        for id in 0..2 {
            sender.push(c_pdu(id, 10)).unwrap();
        }
        let (frame, _) = sender.poll(Time::ZERO, 1, 20, 20).unwrap();
        receiver.handle_data(&frame);

        // The answer is repeated to fill a block.
        assert!(answer(&mut sender, &receiver, 1));
        assert!(!answer(&mut sender, &receiver, 1));
        receiver.handle_ack_sent();
        assert_eq!(receiver.ack(), None);

        assert_eq!(sender.poll_outcome(), Some((RequestId(0), Outcome::Done)));
        assert_eq!(sender.poll_outcome(), None);
    }

    #[test]
    fn an_impossible_acknowledgement_does_not_stop_the_sender() {
        let (mut sender, mut receiver) = (Sender::new(), Receiver::new());
        sender.push(c_pdu(0, 10)).unwrap();
        let (frame, _) = sender.poll(Time::ZERO, 1, 20, 20).unwrap();
        receiver.handle_data(&frame);

        let beyond = Ack { lwe: Fsn(9), bitmap: &[] };
        assert_eq!(sender.handle_ack(&beyond.report(Numbers::Short), 1), None);
        assert!(answer(&mut sender, &receiver, 1));
        assert_eq!(sender.poll_outcome(), Some((RequestId(0), Outcome::Done)));
    }

    #[test]
    fn what_was_not_sent_whole_in_its_time_has_not_arrived() {
        for frames in [1, 2] {
            let mut sender = Sender::new();
            let over = Time::from_nanos(1);
            sender.push(ArqPdu { expires: Some(over), ..c_pdu(0, 10) }).unwrap();
            for _ in 0..frames {
                assert!(sender.poll(Time::ZERO, 1, 9, 9).is_some());
            }

            sender.handle_timeout(over);

            let outcome = Outcome::Failed { why: Failure::Expired, may_have_arrived: frames == 2 };
            assert_eq!(sender.poll_outcome(), Some((RequestId(0), outcome)));
        }
    }

    #[test]
    fn names_do_not_come_round_unheard() {
        let mut sender = Sender::new();
        for id in 0..20 {
            let expires = Some(Time::from_nanos(id + 1));
            sender.push(ArqPdu { expires, ..c_pdu(id, 10) }).unwrap();
        }

        let sent = (0..20)
            .filter(|&now| sender.poll(Time::from_nanos(now), now, 10, 10).is_some())
            .count();

        assert_eq!(sent, 15);
        assert!(sender.is_exhausted());
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn each_c_pdu_arrives_once_or_is_known_to_have_failed(
            seed in any::<u64>(),
            lengths in prop::collection::vec(0_usize..1000, 1..20),
            loss in 0.0..0.8,
        ) {
            let mut rng = Rng::stream(seed, "channel");
            let (mut sender, mut receiver) = (Sender::new(), Receiver::new());
            for (id, &len) in (0..).zip(&lengths) {
                let expires = rng.chance(0.3).then(|| Time::from_nanos(rng.below(100)));
                sender.push(ArqPdu { expires, ..c_pdu(id, len) }).unwrap();
            }
            let mut outcomes = Vec::new();
            for turn in 0..2000 {
                let loss = if turn < 1000 { loss } else { 0.0 };
                let segment = 1 + usize::try_from(rng.below(300)).unwrap();
                while let Some((frame, _)) = sender.poll(Time::from_nanos(turn), turn, segment, 1023) {
                    if !rng.chance(loss) {
                        receiver.handle_data(&frame);
                    }
                }
                if rng.chance(loss) || !answer(&mut sender, &receiver, turn) {
                    sender.repeat_unanswered(turn, Repeat::All);
                }
                receiver.handle_ack_sent();
                outcomes.extend(std::iter::from_fn(|| sender.poll_outcome()));
                if sender.is_exhausted() {
                    sender.fail(Failure::NoResponse);
                    receiver = Receiver { delivered: receiver.delivered, ..Receiver::new() };
                }
            }
            outcomes.extend(std::iter::from_fn(|| sender.poll_outcome()));
            let delivered: Vec<Vec<u8>> =
                std::iter::from_fn(|| receiver.poll_delivered()).collect();

            prop_assert_eq!(outcomes.len(), lengths.len());
            for (id, outcome) in outcomes {
                let sent = c_pdu(id.0, lengths[usize::try_from(id.0).unwrap()]).octets;
                let times = delivered.iter().filter(|octets| **octets == sent).count();
                prop_assert!(times <= 1);
                prop_assert!(outcome != Outcome::Done || times == 1);
            }
        }
    }

    fn answer(sender: &mut Sender, receiver: &Receiver, turn: u64) -> bool {
        let Some(ack) = receiver.ack() else { return false };
        sender.handle_ack(&ack.in_header().report(Numbers::Short), turn).is_some()
    }

    fn c_pdu(id: u64, len: usize) -> ArqPdu {
        let mut octets = id.to_be_bytes().to_vec();
        octets.resize(8 + len, 7);
        ArqPdu {
            id: RequestId(id),
            octets,
            in_order: false,
            priority: 0,
            expires: None,
            is_retried: false,
        }
    }
}
