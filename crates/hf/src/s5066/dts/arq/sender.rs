//! The sending end: chooses the frames of a transmission, and reports the outcomes of C_PDUs.

use base::time::Time;

use super::outgoing::{Acked, ArqBacklog, ArqPdu, DataFrame, Repeat, SenderStats};
use super::queue::{Pending, Progress, Queue};
use super::window::{Launch, Window};
use super::{MAX_C_PDU, OutOfSync};
use crate::s5066::dts::wire::{CpduSegment, Data, MAX_SEGMENT, Numbers, Report};
use crate::s5066::service::{Failure, Outcome, RequestId};

/// Octets that may wait or be unacknowledged.
const MAX_HELD: usize = 64 << 20;

/// The sending end of a link: C_PDUs in, frames out, acknowledgements in, outcomes out.
///
/// The owner counts its transmissions, which are the `turn`s here. In each it asks
/// [`Sender::poll`] for frames until there is no room or no frame, then may fill the rest with
/// [`Sender::poll_spare`]. After it, acknowledgements go to [`Sender::handle_ack`] with the turn that
/// had ended when they were heard, and a lack of them to [`Sender::repeat_unanswered`]. After each
/// call that takes something, ask [`Sender::poll_outcome`] until it is `None`.
///
/// - facts: `push`, `handle_ack`, `handle_timeout`;
/// - commands: `repeat_unanswered`, `reset`, `reset_since`, `restart`, `fail`, `take_back`;
/// - decisions: `poll`, `poll_spare`, `poll_outcome`, `next_timeout`;
/// - getters: the rest.
#[derive(Clone, Debug)]
pub struct Sender {
    window: Window,
    queue: Queue,
    /// Whether a piece may be shorter because a transmission ends (EP11).
    cuts_to_fit: bool,
    /// Why nothing is sent before the next reset.
    out_of_sync: Option<OutOfSync>,
    stats: SenderStats,
}

impl Sender {
    /// A sender that has sent nothing, for at most `window` unacknowledged frames.
    #[must_use]
    pub fn new(numbers: Numbers, window: u32) -> Self {
        Self {
            window: Window::new(numbers, window),
            queue: Queue::default(),
            cuts_to_fit: false,
            out_of_sync: None,
            stats: SenderStats::default(),
        }
    }

    /// Takes a C_PDU to be sent after earlier ones of the same priority.
    ///
    /// Order is kept among C_PDUs of a priority: a C_PDU that overtakes does not wait at the receiver for the
    /// overtaken ones.
    ///
    /// # Errors
    /// Returns the C_PDU when it is too long for the other end, or enough is held; ask [`Sender::backlog`] before.
    pub fn push(&mut self, c_pdu: ArqPdu) -> Result<(), ArqPdu> {
        if c_pdu.octets.len() > MAX_C_PDU || self.queue.held() + c_pdu.octets.len() > MAX_HELD {
            return Err(c_pdu);
        }
        let in_order = c_pdu.in_order && !self.queue.is_overtaken_by(c_pdu.priority);
        self.queue.push(ArqPdu { in_order, ..c_pdu });
        Ok(())
    }

    /// Takes an acknowledgement that was heard after our transmission `turn` had ended.
    ///
    /// # Errors
    /// When it cannot be about what was sent; then it believes and sends nothing before the next
    /// reset.
    pub fn handle_ack(&mut self, report: &Report<'_>, turn: u64) -> Result<Acked, OutOfSync> {
        let edge = match self.out_of_sync.map_or_else(|| self.window.check(report), Err) {
            Ok(edge) => edge,
            Err(error) => {
                self.out_of_sync = Some(error);
                return Err(error);
            }
        };
        let mut acked = Acked::default();
        for index in 0..edge {
            self.acknowledge(index, &mut acked);
        }
        self.window.miss(edge..edge + 1, turn, &mut acked);
        let numbers = self.window.numbers();
        let mut start = edge + numbers.distance(report.lwe, report.base) as usize;
        for run in report.runs() {
            let end = start + run.len as usize;
            if run.has_arrived {
                for index in start..end {
                    self.acknowledge(index, &mut acked);
                }
            } else {
                self.window.miss(start..end, turn, &mut acked);
            }
            start = end;
        }
        if report.is_last {
            self.window.miss(start..self.window.len(), turn, &mut acked);
        }
        self.window.advance();
        self.queue.forget(&mut self.stats);
        self.stats.lost += u64::from(acked.lost);
        Ok(acked)
    }

    /// Our transmissions up to `turn` were not answered: some of their frames are due again.
    pub fn repeat_unanswered(&mut self, turn: u64, repeat: Repeat) {
        let len = self.window.len();
        let last = len.saturating_sub(1);
        match repeat {
            Repeat::All => self.window.miss(0..len, turn, &mut Acked::default()),
            Repeat::Probe => {
                self.window.miss(0..1, turn, &mut Acked::default());
                self.window.miss(last..last + 1, turn, &mut Acked::default());
            }
        }
    }

    /// Gives up the C_PDUs whose time is over.
    pub fn handle_timeout(&mut self, now: Time) {
        let expired = self.queue.take_expired(now);
        for &index in &expired {
            self.give_up(index, Failure::Expired);
        }
        if !expired.is_empty() {
            self.queue.forget(&mut self.stats);
        }
    }

    /// Numbers begin anew at both ends (Annex C, section 6.2).
    ///
    /// A C_PDU whose last piece was never sent cannot have been delivered, so it is sent again
    /// from its beginning. One that was sent whole and not acknowledged whole may have been: it
    /// fails with [`Failure::LinkLost`].
    pub fn reset(&mut self) {
        // What waits at the other end is delivered there now.
        self.begin_anew(u64::MAX, Outcome::Done, |_| None);
    }

    /// Like [`Sender::reset`], but C_PDUs waiting at the other end may be lost; the other end took nothing of our
    /// transmissions from `turn` on, so C_PDUs begun in them are sent again, too.
    pub fn reset_since(&mut self, turn: u64) {
        self.begin_anew(turn, Outcome::unknown(Failure::LinkLost), |_| None);
    }

    /// Like [`Sender::reset_since`] no turn, for a link whose numbers and window are these.
    pub fn restart(&mut self, numbers: Numbers, window: u32) {
        self.reset_since(u64::MAX);
        self.window = Window::new(numbers, window);
    }

    /// Gives up all C_PDUs; but if `may_retry`, those stay that are to be tried again and cannot have
    /// arrived. Numbers begin anew.
    pub fn fail(&mut self, why: Failure, may_retry: bool) {
        let stays = |it: &Pending| may_retry && it.c_pdu.is_retried && !it.is_sent_whole();
        let failure = |pending: &Pending| (!stays(pending)).then_some(why);
        self.begin_anew(u64::MAX, Outcome::unknown(why), failure);
    }

    /// Gives up a C_PDU if no part of it was sent; otherwise returns false.
    pub fn take_back(&mut self, id: RequestId) -> bool {
        let Some(index) = self.queue.find_untouched(id) else { return false };
        self.give_up(index, Failure::TakenBack);
        self.queue.forget(&mut self.stats);
        true
    }

    /// Whether the peer takes pieces of a C_PDU of several lengths (EP11): the last one of a
    /// transmission is then cut to fit.
    pub fn set_cuts_to_fit(&mut self, cuts_to_fit: bool) {
        self.cuts_to_fit = cuts_to_fit;
    }

    /// The next frame of our transmission `turn`, with a segment of at most `room` octets.
    ///
    /// The highest priority goes first; within a priority, frames due again go first, the oldest before others; then
    /// new C_PDUs, cut into equal pieces of at most `segment` octets. A C_PDU in progress keeps the length of its
    /// pieces.
    ///
    /// First transmissions within a priority keep their order, although a later C_PDU may fit where an earlier does
    /// not: otherwise a reset, which sends the earlier again, could exchange them.
    pub fn poll(
        &mut self,
        now: Time,
        turn: u64,
        segment: usize,
        room: usize,
    ) -> Option<DataFrame<'_>> {
        self.handle_timeout(now);
        if self.out_of_sync.is_some() {
            return None;
        }
        let segment = segment.clamp(1, MAX_SEGMENT);
        self.let_overtake(segment);
        let due = self.window.next_due(room);
        let uncut = self.queue.first_uncut().map(|pending| pending.c_pdu.priority);
        let uncut = uncut.filter(|&priority| self.window.first_fresh(priority).is_none());
        if let Some((priority, at)) = due
            && uncut.is_none_or(|uncut| uncut <= priority)
        {
            return Some(self.send(at, turn));
        }
        let cut = uncut.and_then(|_| self.cut(segment, room));
        let at = cut.or(due.map(|(_, at)| at))?;
        Some(self.send(at, turn))
    }

    /// A frame to fill the rest of our transmission `turn`: unacknowledged frames by turns, the oldest first.
    pub fn poll_spare(&mut self, turn: u64, room: usize) -> Option<DataFrame<'_>> {
        if self.out_of_sync.is_some() {
            return None;
        }
        let at = self.window.next_spare(turn, room)?;
        Some(self.send(at, turn))
    }

    /// The outcome of a C_PDU.
    pub fn poll_outcome(&mut self) -> Option<(RequestId, Outcome)> {
        self.queue.poll_outcome()
    }

    /// When the next C_PDU expires, at the earliest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.queue.next_timeout()
    }

    /// The amount of data waiting to be sent.
    #[must_use]
    pub fn backlog(&self) -> ArqBacklog {
        let (unsent_c_pdus, unsent) = self.queue.unsent();
        let (due, due_octets) = self.window.due();
        ArqBacklog {
            unsent,
            unsent_c_pdus,
            due,
            due_octets,
            unanswered: self.window.unanswered(),
            window: self.window.room(),
        }
    }

    /// The highest priority among data waiting to be sent.
    #[must_use]
    pub fn urgency(&self) -> u8 {
        let uncut = self.queue.uncut().map(|pending| pending.c_pdu.priority);
        uncut.fold(self.window.urgency(), u8::max)
    }

    /// The lowest priority among data waiting to be sent; none without data.
    #[must_use]
    pub fn least_urgency(&self) -> Option<u8> {
        let uncut = self.queue.uncut().map(|pending| pending.c_pdu.priority);
        uncut.chain(self.window.least_urgency()).min()
    }

    /// How long the numbers of frames are.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.window.numbers()
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Whether a frame was sent since the last reset.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.window.has_sent()
    }

    /// Whether a C_PDU was sent whole, and may have arrived.
    #[must_use]
    pub fn has_sent_whole(&self) -> bool {
        self.queue.has_sent_whole()
    }

    /// Whether a report can be true of what was sent.
    pub(in crate::s5066::dts) fn is_possible(&self, report: &Report<'_>) -> bool {
        self.window.check(report).is_ok()
    }

    fn acknowledge(&mut self, index: usize, acked: &mut Acked) {
        if let Some(c_pdu) = self.window.acknowledge(index, acked) {
            self.queue.handle_arrived(c_pdu, &mut self.stats);
        }
    }

    /// Gives up a C_PDU, and empties its frames.
    fn give_up(&mut self, index: usize, why: Failure) {
        if let Some((c_pdu, from)) = self.queue.give_up(index, why, &mut self.stats) {
            self.window.empty(c_pdu, from);
        }
    }

    /// Numbers begin anew: `arrived` becomes of what waits at the other end, and what cannot have
    /// arrived is sent again, unless `failure` says why not.
    fn begin_anew(
        &mut self,
        turn: u64,
        arrived: Outcome,
        failure: impl Fn(&Pending) -> Option<Failure>,
    ) {
        self.window.clear();
        self.out_of_sync = None;
        for pending in self.queue.clear() {
            let id = pending.c_pdu.id;
            match pending.progress {
                Progress::Arrived => self.queue.conclude(id, arrived),
                Progress::Cut if pending.is_sent_whole() && pending.first_turn < turn => {
                    let why = failure(&pending).unwrap_or(Failure::LinkLost);
                    self.stats.unknown += 1;
                    self.queue.conclude(id, Outcome::unknown(why));
                }
                Progress::Cut | Progress::Cutting if let Some(why) = failure(&pending) => {
                    self.queue.conclude(id, Outcome::not_arrived(why));
                }
                Progress::Cut | Progress::Cutting => {
                    self.stats.begun_anew += u64::from(pending.cut > 0);
                    self.queue.push(pending.c_pdu);
                }
                Progress::Dropped | Progress::Dropping | Progress::Over => {}
            }
        }
        self.stats.resets += 1;
    }

    /// Numbers all pieces of the C_PDU that is cut next while a later one is more urgent. The later one then gets the
    /// next numbers and is sent first: a receiver takes numbers in any order within the window (Annex C, section 3.3).
    fn let_overtake(&mut self, segment: usize) {
        while let Some(next) = self.queue.first_uncut() {
            let priority = next.c_pdu.priority;
            let is_overtaken = self.queue.uncut().any(|other| other.c_pdu.priority > priority);
            let left = next.c_pdu.octets.len().saturating_sub(next.cut);
            let piece = if next.piece > 0 { next.piece } else { segment };
            // One number is left for overtaking C_PDUs.
            if !is_overtaken || left.div_ceil(piece).max(1) >= self.window.room() {
                return;
            }
            let serial = self.queue.cutting_now();
            while self.queue.cutting_now() == serial {
                if self.cut(segment, usize::MAX).is_none() {
                    return;
                }
            }
        }
    }

    /// Cuts the next piece that fits, and numbers it, if the window is not full (Annex C, section 6.2).
    fn cut(&mut self, segment: usize, room: usize) -> Option<u64> {
        if self.window.room() == 0 {
            return None;
        }
        let piece = self.queue.cut(segment, room, self.cuts_to_fit, self.window.end())?;
        Some(self.window.push(piece))
    }

    /// Sends the frame in this turn.
    fn send(&mut self, at: u64, turn: u64) -> DataFrame<'_> {
        let Launch { piece, is_repeat, at_lower_edge, at_upper_edge } =
            self.window.launch(at, turn);
        if is_repeat {
            self.stats.repeats += 1;
        } else {
            self.stats.frames += 1;
            self.queue.handle_sent(piece, turn);
        }
        let pending = self.queue.get(piece.c_pdu);
        let offset = piece.offset as usize;
        let octets = pending.c_pdu.octets.get(offset..offset + usize::from(piece.len));
        let data = Data {
            fsn: self.window.numbers().fsn(at),
            is_start: piece.offset == 0,
            is_end: piece.is_end,
            in_order: pending.c_pdu.in_order,
            is_drop: pending.is_dropped(),
            at_upper_edge,
            at_lower_edge,
            segment: CpduSegment::new(octets.unwrap_or_default()),
        };
        DataFrame { data, is_repeat }
    }
}
