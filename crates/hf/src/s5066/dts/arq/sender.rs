//! The sending end: chooses the frames of a transmission, and reports the outcomes of C_PDUs.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use base::time::{Time, earliest};

use super::super::wire::{CpduSegment, Data, MAX_SEGMENT, Numbers, Report};
use super::{MAX_C_PDU, OutOfSync};
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

    /// Octets of the next segment that cannot be cut shorter, 0 if there is none.
    #[must_use]
    pub fn uncuttable(&self) -> usize {
        let begun = if self.cuts_to_fit { 0 } else { self.queue.begun_piece() };
        self.window.next_due_len().max(begun)
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
    pub(crate) fn is_possible(&self, report: &Report<'_>) -> bool {
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

// Input and output of the ARQ sender: C_PDUs, frames, and backlog.

/// A C_PDU to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ArqPdu {
    /// The number that the outcome will have.
    pub id: RequestId,
    /// The C_PDU.
    pub octets: Vec<u8>,
    /// Whether the C_PDU waits at the receiver for earlier ones.
    pub in_order: bool,
    /// 0 to 15, the highest: the C_PDU overtakes less urgent ones.
    pub priority: u8,
    /// The time after which the C_PDU is useless.
    pub expires: Option<Time>,
    /// Whether it stays when all others fail, unless it may have arrived.
    pub is_retried: bool,
}

/// A frame to be sent now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataFrame<'a> {
    /// The contents of the frame.
    pub data: Data<'a>,
    /// Whether it was sent before.
    pub is_repeat: bool,
}

/// News from an acknowledgement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Acked {
    /// Frames that arrived.
    pub arrived: u32,
    /// Octets of their segments.
    pub arrived_octets: u64,
    /// Frames that were lost.
    pub lost: u32,
    /// Octets of their segments.
    pub lost_octets: u64,
}

/// The amount of data waiting to be sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ArqBacklog {
    /// Octets of C_PDUs that no frame has carried yet.
    pub unsent: usize,
    /// C_PDUs with such octets.
    pub unsent_c_pdus: usize,
    /// Frames that have a number and are due, most of them again.
    pub due: usize,
    /// Octets of their segments.
    pub due_octets: usize,
    /// Frames that were sent and not heard of.
    pub unanswered: usize,
    /// New frames that the window has room for.
    pub window: usize,
}

impl ArqBacklog {
    /// Whether nothing can be sent now.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.due == 0 && (self.unsent_c_pdus == 0 || self.window == 0)
    }
}

/// The frames to send again when no answer came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// All that is unanswered.
    All,
    /// The oldest frame and the newest: enough to be told of all.
    Probe,
}

base::counters! {
    /// Counts since the start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct SenderStats {
        /// Frames sent for the first time.
        pub frames: counter(frames);
        /// Frames sent again.
        pub repeats: counter(frames);
        /// Frames reported lost.
        pub lost: counter(frames);
        /// C_PDUs that the peer has.
        pub done: counter(c_pdus);
        /// C_PDUs given up because their time was over.
        pub expired: counter(c_pdus);
        /// C_PDUs that a reset left unknown.
        pub unknown: counter(c_pdus);
        /// C_PDUs that were begun anew after a reset.
        pub begun_anew: counter(c_pdus);
        /// Resets.
        pub resets: counter(resets);
    }
}

// C_PDUs that are not finished, and how they are cut into segments (Annex C, section 3.3).

/// The shortest piece that is cut only because a transmission ends.
const MIN_PIECE: usize = 32;

/// The C_PDUs of a sender, the oldest first.
#[derive(Clone, Debug, Default)]
struct Queue {
    c_pdus: VecDeque<Pending>,
    /// The serial number of the first of `c_pdus`.
    first: u64,
    /// The serial number of the C_PDU that is cut next.
    cutting: u64,
    /// C_PDUs not wholly cut into pieces, and their remaining octets.
    uncut: usize,
    unsent: usize,
    held: usize,
    /// No C_PDU expires before.
    expires: Option<Time>,
    outcomes: VecDeque<(RequestId, Outcome)>,
}

/// A C_PDU that is not finished.
#[derive(Clone, Debug)]
struct Pending {
    c_pdu: ArqPdu,
    /// Octets of each piece but the last; 0 before the first is cut.
    piece: usize,
    /// Octets that are cut.
    cut: usize,
    /// The frame with its first piece, and the transmission that first had it, if one had.
    first_frame: u64,
    first_turn: u64,
    /// Frames without acknowledgement, and frames never sent.
    outstanding: u32,
    fresh: u32,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Progress {
    /// All pieces are acknowledged, but not those of all C_PDUs before it.
    Arrived,
    /// All pieces are cut.
    Cut,
    /// Pieces are left.
    Cutting,
    /// Given up, and all frames are cut.
    Dropped,
    /// Given up while pieces were left: a frame must still tell its end.
    Dropping,
    /// Its outcome is told, and nothing of it is left to be acknowledged.
    Over,
}

/// A piece of a C_PDU, carried by one frame.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The serial number of the C_PDU.
    c_pdu: u64,
    priority: u8,
    offset: u32,
    len: u16,
    is_end: bool,
}

impl Pending {
    fn new(c_pdu: ArqPdu) -> Self {
        Self {
            c_pdu,
            piece: 0,
            cut: 0,
            first_frame: 0,
            first_turn: 0,
            outstanding: 0,
            fresh: 0,
            progress: Progress::Cutting,
        }
    }

    /// Whether each piece was sent once at least.
    fn is_sent_whole(&self) -> bool {
        matches!(self.progress, Progress::Arrived | Progress::Cut) && self.fresh == 0
    }

    /// Whether the receiver is to forget it.
    fn is_dropped(&self) -> bool {
        matches!(self.progress, Progress::Dropped | Progress::Dropping)
    }
}

impl Queue {
    /// Takes a C_PDU to be cut from its beginning.
    fn push(&mut self, c_pdu: ArqPdu) {
        self.held += c_pdu.octets.len();
        self.unsent += c_pdu.octets.len();
        self.uncut += 1;
        self.expires = earliest(self.expires, c_pdu.expires);
        self.c_pdus.push_back(Pending::new(c_pdu));
    }

    /// Takes everything out but the outcomes.
    fn clear(&mut self) -> VecDeque<Pending> {
        let outcomes = std::mem::take(&mut self.outcomes);
        std::mem::replace(self, Self { outcomes, ..Self::default() }).c_pdus
    }

    /// Records the outcome of a C_PDU.
    fn conclude(&mut self, id: RequestId, outcome: Outcome) {
        self.outcomes.push_back((id, outcome));
    }

    /// Cuts the next piece, which gets the number `frame`, if one fits in `room`.
    ///
    /// Pieces have at most `segment` octets and are of one length, but the last of a C_PDU; if
    /// `cuts_to_fit`, shorter ones fill the end of a transmission (EP11).
    fn cut(&mut self, segment: usize, room: usize, cuts_to_fit: bool, frame: u64) -> Option<Piece> {
        self.cutting = self.cutting_now();
        let place = self.place(self.cutting);
        let pending = self.c_pdus.get_mut(place)?;
        let (offset, len, is_end) = match pending.progress {
            Progress::Dropping => {
                pending.progress = Progress::Dropped;
                (pending.cut, 0, true)
            }
            _ => {
                let all = pending.c_pdu.octets.len();
                let piece = match pending.piece {
                    0 => all.div_ceil(all.div_ceil(segment).max(1)).max(1),
                    piece => piece,
                };
                let mut len = piece.min(all - pending.cut);
                if len > room {
                    if !cuts_to_fit || room < MIN_PIECE {
                        return None;
                    }
                    len = room;
                }
                if pending.piece == 0 {
                    (pending.piece, pending.first_frame) = (piece, frame);
                }
                let offset = pending.cut;
                pending.cut += len;
                self.unsent -= len;
                if pending.cut == all {
                    pending.progress = Progress::Cut;
                }
                (offset, len, pending.cut == all)
            }
        };
        pending.outstanding += 1;
        pending.fresh += 1;
        let piece = Piece {
            c_pdu: self.cutting,
            priority: pending.c_pdu.priority,
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            len: u16::try_from(len).unwrap_or(u16::MAX),
            is_end,
        };
        if is_end {
            self.cutting += 1;
            self.uncut -= 1;
        }
        Some(piece)
    }

    /// A piece is sent for the first time, in our transmission `turn`.
    fn handle_sent(&mut self, piece: Piece, turn: u64) {
        let place = self.place(piece.c_pdu);
        let pending = &mut self.c_pdus[place];
        pending.fresh -= 1;
        if piece.offset == 0 {
            pending.first_turn = turn;
        }
    }

    /// Another piece of the C_PDU has arrived.
    fn handle_arrived(&mut self, serial: u64, stats: &mut SenderStats) {
        let place = self.place(serial);
        let pending = &mut self.c_pdus[place];
        pending.outstanding -= 1;
        if pending.outstanding > 0 {
            return;
        }
        match pending.progress {
            // It waits at the other end for those before it, and would be lost with that.
            Progress::Cut if pending.c_pdu.in_order => pending.progress = Progress::Arrived,
            Progress::Cut => self.succeed(place, stats),
            Progress::Dropped => self.finish(place),
            Progress::Arrived | Progress::Cutting | Progress::Dropping | Progress::Over => {}
        }
    }

    /// Gives up a C_PDU. The peer must forget any pieces received: returns the serial number and the first frame of a
    /// C_PDU that is partly cut.
    fn give_up(
        &mut self,
        index: usize,
        why: Failure,
        stats: &mut SenderStats,
    ) -> Option<(u64, u64)> {
        let pending = &mut self.c_pdus[index];
        let may_have_arrived = pending.is_sent_whole();
        self.outcomes.push_back((pending.c_pdu.id, Outcome::Failed { why, may_have_arrived }));
        stats.expired += u64::from(why == Failure::Expired);
        let is_cut = pending.progress == Progress::Cut;
        if !is_cut {
            self.unsent -= pending.c_pdu.octets.len() - pending.cut;
        }
        if pending.piece == 0 {
            self.uncut -= 1;
            self.finish(index);
            return None;
        }
        pending.progress = if is_cut { Progress::Dropped } else { Progress::Dropping };
        self.held -= std::mem::take(&mut pending.c_pdu.octets).len();
        Some((self.first + index as u64, pending.first_frame))
    }

    /// Removes the finished C_PDUs at the front; the oldest is done when it has arrived.
    fn forget(&mut self, stats: &mut SenderStats) {
        while let Some(oldest) = self.c_pdus.front() {
            match oldest.progress {
                Progress::Arrived => self.succeed(0, stats),
                Progress::Over => {}
                Progress::Cut | Progress::Cutting | Progress::Dropped | Progress::Dropping => break,
            }
            self.c_pdus.pop_front();
            self.first += 1;
        }
        self.cutting = self.cutting.max(self.first);
    }

    /// Where the C_PDUs are whose time is over.
    fn take_expired(&mut self, now: Time) -> Vec<usize> {
        let mut expired = Vec::new();
        if self.expires.is_none_or(|at| at > now) {
            return expired;
        }
        self.expires = None;
        for (index, pending) in self.c_pdus.iter().enumerate() {
            match (pending.progress, pending.c_pdu.expires) {
                (Progress::Cut | Progress::Cutting, Some(at)) if at <= now => expired.push(index),
                (Progress::Cut | Progress::Cutting, at) => {
                    self.expires = earliest(self.expires, at);
                }
                (
                    Progress::Arrived | Progress::Dropped | Progress::Dropping | Progress::Over,
                    _,
                ) => {}
            }
        }
        expired
    }

    /// Where a C_PDU is of which nothing is cut.
    fn find_untouched(&self, id: RequestId) -> Option<usize> {
        self.c_pdus.iter().position(|pending| {
            pending.progress == Progress::Cutting && pending.c_pdu.id == id && pending.piece == 0
        })
    }

    fn poll_outcome(&mut self) -> Option<(RequestId, Outcome)> {
        self.outcomes.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.expires
    }

    /// The C_PDU with this serial number.
    fn get(&self, serial: u64) -> &Pending {
        &self.c_pdus[self.place(serial)]
    }

    /// C_PDUs that are not wholly cut, the oldest first.
    fn uncut(&self) -> impl Iterator<Item = &Pending> {
        let from = self.place(self.cutting).min(self.c_pdus.len());
        let rest = self.c_pdus.range(from..);
        rest.filter(|pending| matches!(pending.progress, Progress::Cutting | Progress::Dropping))
    }

    fn first_uncut(&self) -> Option<&Pending> {
        self.uncut().next()
    }

    /// Octets of the next piece of a C_PDU that is cut in part already: all pieces of a C_PDU have the same length.
    fn begun_piece(&self) -> usize {
        let begun = self.first_uncut().filter(|pending| pending.progress == Progress::Cutting);
        begun.map_or(0, |pending| pending.piece.min(pending.c_pdu.octets.len() - pending.cut))
    }

    /// The serial number of the C_PDU that is really cut next: one given up before it was cut is not.
    fn cutting_now(&self) -> u64 {
        let is_over = |serial: &u64| {
            let pending = self.c_pdus.get(self.place(*serial));
            pending.is_some_and(|pending| pending.progress == Progress::Over)
        };
        (self.cutting..).find(|serial| !is_over(serial)).unwrap_or(self.cutting)
    }

    /// Whether a C_PDU of this priority that is pushed now need not wait for any before it.
    fn is_overtaken_by(&self, priority: u8) -> bool {
        let open = self.c_pdus.iter().filter(|pending| pending.progress != Progress::Over);
        let highest = open.map(|pending| pending.c_pdu.priority).max();
        highest.is_some_and(|highest| highest < priority)
    }

    /// Whether a C_PDU was sent whole, and may have arrived.
    fn has_sent_whole(&self) -> bool {
        self.c_pdus.iter().any(Pending::is_sent_whole)
    }

    /// Octets of all C_PDUs.
    fn held(&self) -> usize {
        self.held
    }

    /// C_PDUs not wholly cut into pieces, and their remaining octets.
    fn unsent(&self) -> (usize, usize) {
        (self.uncut, self.unsent)
    }

    fn succeed(&mut self, index: usize, stats: &mut SenderStats) {
        stats.done += 1;
        self.outcomes.push_back((self.c_pdus[index].c_pdu.id, Outcome::Done));
        self.finish(index);
    }

    fn finish(&mut self, index: usize) {
        let pending = &mut self.c_pdus[index];
        pending.progress = Progress::Over;
        self.held -= std::mem::take(&mut pending.c_pdu.octets).len();
    }

    /// Where a C_PDU lies in `c_pdus`.
    fn place(&self, serial: u64) -> usize {
        usize::try_from(serial - self.first).expect("a place in memory")
    }
}

// The transmit window: frames that have a number, until they are acknowledged (Annex C,
// section 3.3).
//
// ```text
//    lower, TX LWE                      newest, TX UWE        limit
//   ───────┬─────────────────────────────────┬─────────────────┬──────▶ numbers
//          │ acknowledged, sent, due (again) │    may be cut   │
// ```

/// Due frames that are tried when the first of them does not fit.
const MAX_TRIED: usize = 32;

/// The frames of a sender that have a number.
#[derive(Clone, Debug)]
struct Window {
    numbers: Numbers,
    /// Unacknowledged frames at most.
    limit: u32,
    /// The oldest frame that is not acknowledged, TX LWE; `frames` begins with it.
    lower: u64,
    frames: VecDeque<Frame>,
    /// Frames that are to be sent, or sent again: the most urgent first, then the oldest.
    due: BTreeSet<Rank>,
    due_octets: usize,
    /// Frames in `due` that were never sent.
    fresh: BTreeSet<Rank>,
    unanswered: usize,
    /// Where the next spare repeat is looked for, and in which transmission.
    spare: (u64, u64),
}

/// The order in which frames are sent: by priority, then by number.
type Rank = (Reverse<u8>, u64);

/// A frame that has a number.
#[derive(Clone, Copy, Debug)]
struct Frame {
    piece: Piece,
    /// Whether the frame was never sent: its number was assigned so that a more urgent frame could have the next.
    is_fresh: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Acknowledged,
    Due,
    Sent { turn: u64 },
}

/// A frame for transmission now.
#[derive(Clone, Copy, Debug)]
struct Launch {
    piece: Piece,
    is_repeat: bool,
    at_lower_edge: bool,
    at_upper_edge: bool,
}

impl Window {
    /// An empty window for at most `limit` unacknowledged frames.
    fn new(numbers: Numbers, limit: u32) -> Self {
        Self {
            numbers,
            limit: limit.clamp(1, numbers.max_window()),
            lower: 0,
            frames: VecDeque::new(),
            due: BTreeSet::new(),
            due_octets: 0,
            fresh: BTreeSet::new(),
            unanswered: 0,
            spare: (0, 0),
        }
    }

    /// Numbers begin anew.
    fn clear(&mut self) {
        *self = Self::new(self.numbers, self.limit);
    }

    /// Gives a piece the next number, with which it is due.
    fn push(&mut self, piece: Piece) -> u64 {
        let at = self.end();
        self.frames.push_back(Frame { piece, is_fresh: true, state: State::Due });
        self.due.insert((Reverse(piece.priority), at));
        self.fresh.insert((Reverse(piece.priority), at));
        self.due_octets += usize::from(piece.len);
        at
    }

    /// Where the lower edge of a report lies in the window, if the report can be true: it
    /// acknowledges nothing that was not sent (tests 4 and 5 of Annex C, section 6.2).
    fn check(&self, report: &Report<'_>) -> Result<usize, OutOfSync> {
        if report.numbers != self.numbers {
            return Err(OutOfSync::Numbers);
        }
        let len = self.frames.len();
        let edge = self.numbers.distance(self.numbers.fsn(self.lower), report.lwe) as usize;
        if edge > len || self.has(0..edge, |frame| frame.is_fresh) {
            return Err(OutOfSync::AckEdge);
        }
        let mut start = edge + self.numbers.distance(report.lwe, report.base) as usize;
        let is_acknowledged = |frame: &Frame| frame.state == State::Acknowledged;
        let mut forgotten = self.has(edge..edge + 1, is_acknowledged);
        for run in report.runs() {
            let end = start + run.len as usize;
            if !run.has_arrived {
                forgotten |= self.has(start..end, is_acknowledged);
            } else if start == edge || end > len || self.has(start..end, |frame| frame.is_fresh) {
                return Err(OutOfSync::AckNumber);
            }
            start = end;
        }
        forgotten |= report.is_last && self.has(start..len, is_acknowledged);
        if forgotten { Err(OutOfSync::Forgotten) } else { Ok(edge) }
    }

    /// Whether a frame in this range has the property.
    fn has(&self, range: Range<usize>, property: impl Fn(&Frame) -> bool) -> bool {
        let end = range.end.min(self.frames.len());
        let start = range.start.min(end);
        self.frames.range(start..end).any(property)
    }

    /// Marks a frame as acknowledged; returns the C_PDU it belongs to, if it was not marked before.
    fn acknowledge(&mut self, index: usize, acked: &mut Acked) -> Option<u64> {
        let at = self.lower + index as u64;
        let frame = &mut self.frames[index];
        match frame.state {
            State::Acknowledged => return None,
            State::Due => {
                self.due.remove(&(Reverse(frame.piece.priority), at));
                self.due_octets -= usize::from(frame.piece.len);
            }
            State::Sent { .. } => self.unanswered -= 1,
        }
        frame.state = State::Acknowledged;
        acked.arrived += 1;
        acked.arrived_octets += u64::from(frame.piece.len);
        Some(frame.piece.c_pdu)
    }

    /// Takes the frames in this range that were sent in a turn up to `turn` for lost: they are due
    /// again.
    fn miss(&mut self, range: Range<usize>, turn: u64, acked: &mut Acked) {
        for index in range.start..range.end.min(self.frames.len()) {
            let frame = &mut self.frames[index];
            if !matches!(frame.state, State::Sent { turn: sent } if sent <= turn) {
                continue;
            }
            frame.state = State::Due;
            self.due.insert((Reverse(frame.piece.priority), self.lower + index as u64));
            self.due_octets += usize::from(frame.piece.len);
            self.unanswered -= 1;
            acked.lost += 1;
            acked.lost_octets += u64::from(frame.piece.len);
        }
    }

    /// Moves the lower edge to the oldest frame that is not acknowledged.
    fn advance(&mut self) {
        while self.frames.pop_front_if(|frame| frame.state == State::Acknowledged).is_some() {
            self.lower += 1;
        }
    }

    /// Takes the octets out of the frames of an abandoned C_PDU; its first frame is `from`.
    fn empty(&mut self, c_pdu: u64, from: u64) {
        let from = usize::try_from(from.saturating_sub(self.lower)).unwrap_or(usize::MAX);
        for frame in self.frames.iter_mut().skip(from) {
            if frame.piece.c_pdu != c_pdu {
                break;
            }
            if frame.state == State::Due {
                self.due_octets -= usize::from(frame.piece.len);
            }
            frame.piece.len = 0;
        }
    }

    /// The first due frame whose segment fits in `room`, and its priority.
    ///
    /// Frames of one priority that were never sent keep their order, although a later one may fit
    /// where an earlier does not.
    fn next_due(&self, room: usize) -> Option<(u8, u64)> {
        let fits = |(priority, at): &&Rank| {
            let frame = self.frame(*at);
            let is_its_turn = !frame.is_fresh || self.first_fresh(priority.0) == Some(*at);
            is_its_turn && usize::from(frame.piece.len) <= room
        };
        let (Reverse(priority), at) = self.due.iter().take(MAX_TRIED).find(fits)?;
        Some((*priority, *at))
    }

    fn next_due_len(&self) -> usize {
        self.due.first().map_or(0, |(_, at)| usize::from(self.frame(*at).piece.len))
    }

    /// The next sent frame whose segment fits in `room`, for a repeat that only fills the
    /// transmission `turn`: each in its turn, the oldest first.
    fn next_spare(&mut self, turn: u64, room: usize) -> Option<u64> {
        if self.spare.1 != turn {
            self.spare = (self.lower, turn);
        }
        let end = self.end();
        let from = self.spare.0.clamp(self.lower, end);
        let fits = |at: &u64| {
            let frame = self.frame(*at);
            matches!(frame.state, State::Sent { .. }) && usize::from(frame.piece.len) <= room
        };
        let at = (from..end).chain(self.lower..from).find(fits)?;
        self.spare.0 = at + 1;
        Some(at)
    }

    /// Marks the frame as sent in this turn.
    fn launch(&mut self, at: u64, turn: u64) -> Launch {
        let index = self.index(at);
        let frame = &mut self.frames[index];
        let rank = (Reverse(frame.piece.priority), at);
        let is_repeat = !std::mem::take(&mut frame.is_fresh);
        if !is_repeat {
            self.fresh.remove(&rank);
        }
        if frame.state == State::Due {
            self.due.remove(&rank);
            self.due_octets -= usize::from(frame.piece.len);
            self.unanswered += 1;
        }
        frame.state = State::Sent { turn };
        Launch {
            piece: frame.piece,
            is_repeat,
            at_lower_edge: index == 0,
            at_upper_edge: index + 1 == self.frames.len(),
        }
    }

    /// The oldest frame with this priority that was never sent.
    fn first_fresh(&self, priority: u8) -> Option<u64> {
        let priority = Reverse(priority);
        self.fresh.range((priority, 0)..=(priority, u64::MAX)).next().map(|&(_, at)| at)
    }

    /// The highest priority of a due frame, 0 if none is due.
    fn urgency(&self) -> u8 {
        self.due.first().map_or(0, |(Reverse(priority), _)| *priority)
    }

    /// The lowest priority of a due frame, if one is due.
    fn least_urgency(&self) -> Option<u8> {
        self.due.last().map(|(Reverse(priority), _)| *priority)
    }

    /// Frames that may still be numbered.
    fn room(&self) -> usize {
        (self.limit as usize).saturating_sub(self.frames.len())
    }

    /// The number of the next new frame.
    fn end(&self) -> u64 {
        self.lower + self.frames.len() as u64
    }

    /// Frames without acknowledgement, or waiting for an older one without.
    fn len(&self) -> usize {
        self.frames.len()
    }

    /// Due frames, and the octets of their segments.
    fn due(&self) -> (usize, usize) {
        (self.due.len(), self.due_octets)
    }

    /// Frames that were sent and neither acknowledged nor missed.
    fn unanswered(&self) -> usize {
        self.unanswered
    }

    fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Whether a frame was sent since the last reset.
    fn has_sent(&self) -> bool {
        self.lower > 0 || self.frames.iter().any(|frame| !frame.is_fresh)
    }

    fn frame(&self, at: u64) -> &Frame {
        &self.frames[self.index(at)]
    }

    fn index(&self, at: u64) -> usize {
        usize::try_from(at - self.lower).expect("a place in the window")
    }
}
