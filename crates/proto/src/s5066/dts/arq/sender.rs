//! The sending end: what to send in a transmission, and what became of it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::outgoing::{Acked, Backlog, Cpdu, Outgoing, Repeat, SenderStats};
use super::{MAX_C_PDU, OutOfSync};
use crate::s5066::dts::wire::{Data, MAX_SEGMENT, Numbers, Report, Segment};
use crate::s5066::service::{Failure, Outcome, RequestId};
use crate::time::{Time, earliest};

/// Octets that may wait or be unacknowledged.
const MAX_HELD: usize = 64 << 20;
/// The shortest piece that is cut only because a transmission ends.
const MIN_PIECE: usize = 32;
/// Frames that are tried when the oldest due one does not fit.
const MAX_TRIED: usize = 32;

/// The sending end of a link.
#[derive(Clone, Debug)]
pub struct Sender {
    numbers: Numbers,
    window: u32,
    /// Whether a piece may be shorter because a transmission ends (EP11).
    cuts_to_fit: bool,
    /// The oldest frame that is not acknowledged, TX LWE; `frames` begins with it.
    lower: u64,
    frames: VecDeque<Frame>,
    /// Frames that are due, or due again: the most urgent first, then the oldest.
    due: BTreeSet<(Reverse<u8>, u64)>,
    due_octets: usize,
    /// Those of `due` that were never sent.
    fresh: BTreeSet<(Reverse<u8>, u64)>,
    unanswered: usize,
    /// Where the next spare repeat is looked for, and in which transmission.
    spare: (u64, u64),
    c_pdus: VecDeque<Pending>,
    /// The serial number of the first of `c_pdus`.
    first: u64,
    /// The serial number of the C_PDU that is cut next.
    cutting: u64,
    /// C_PDUs that are not cut yet, and their octets that are not.
    uncut: usize,
    unsent: usize,
    held: usize,
    /// No C_PDU expires before.
    expires: Option<Time>,
    outcomes: VecDeque<(RequestId, Outcome)>,
    /// Why nothing is sent before the next reset.
    out_of_sync: Option<OutOfSync>,
    stats: SenderStats,
}

/// A frame that has a number.
#[derive(Clone, Copy, Debug)]
struct Frame {
    c_pdu: u64,
    offset: u32,
    len: u16,
    is_end: bool,
    /// Whether it was never sent: it got its number so that something more urgent could have the next.
    is_fresh: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Acknowledged,
    Due,
    Sent { turn: u64 },
}

/// A C_PDU that is not finished.
#[derive(Clone, Debug)]
struct Pending {
    id: RequestId,
    octets: Vec<u8>,
    in_order: bool,
    priority: u8,
    expires: Option<Time>,
    is_retried: bool,
    /// Octets of each piece but the last; 0 before the first is cut.
    piece: usize,
    /// Octets that are cut.
    cut: usize,
    /// The frame with its first piece, and the transmission that first had it, if one had.
    first_frame: u64,
    first_turn: u64,
    /// Frames that are not acknowledged, and those that were never sent.
    outstanding: u32,
    fresh: u32,
    progress: Progress,
}

impl Pending {
    /// Whether each piece was sent once at least.
    fn is_sent_whole(&self) -> bool {
        matches!(self.progress, Progress::Arrived | Progress::Cut) && self.fresh == 0
    }
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

impl Sender {
    /// A sender that has sent nothing, for at most `window` unacknowledged frames.
    #[must_use]
    pub fn new(numbers: Numbers, window: u32) -> Self {
        Self {
            numbers,
            window: window.clamp(1, numbers.max_window()),
            cuts_to_fit: false,
            lower: 0,
            frames: VecDeque::new(),
            due: BTreeSet::new(),
            due_octets: 0,
            fresh: BTreeSet::new(),
            unanswered: 0,
            spare: (0, 0),
            c_pdus: VecDeque::new(),
            first: 0,
            cutting: 0,
            uncut: 0,
            unsent: 0,
            held: 0,
            expires: None,
            outcomes: VecDeque::new(),
            out_of_sync: None,
            stats: SenderStats::default(),
        }
    }

    /// Takes a C_PDU to be sent after those before it that are as urgent.
    ///
    /// Order is kept among C_PDUs of a priority: one that overtakes does not wait at the receiver for
    /// what it has overtaken.
    ///
    /// # Errors
    /// Gives it back when it is longer than the other end takes, or enough is held; ask
    /// [`Sender::backlog`] before.
    pub fn push(&mut self, c_pdu: Cpdu) -> Result<(), Cpdu> {
        if c_pdu.octets.len() > MAX_C_PDU || self.held + c_pdu.octets.len() > MAX_HELD {
            return Err(c_pdu);
        }
        let Cpdu { id, octets, in_order, priority, expires, is_retried } = c_pdu;
        let in_order = in_order && !self.overtakes(priority);
        self.held += octets.len();
        self.unsent += octets.len();
        self.uncut += 1;
        self.expires = earliest(self.expires, expires);
        self.c_pdus.push_back(Pending {
            id,
            octets,
            in_order,
            priority,
            expires,
            is_retried,
            piece: 0,
            cut: 0,
            first_frame: 0,
            first_turn: 0,
            outstanding: 0,
            fresh: 0,
            progress: Progress::Cutting,
        });
        Ok(())
    }

    /// Takes an acknowledgement that was heard after our transmission `turn` had ended.
    ///
    /// # Errors
    /// When it cannot be about what was sent; then it believes and sends nothing before the next
    /// reset.
    pub fn handle_ack(&mut self, report: &Report<'_>, turn: u64) -> Result<Acked, OutOfSync> {
        let edge = match self.out_of_sync.map_or_else(|| self.check(report), Err) {
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
        self.miss(edge..edge + 1, turn, &mut acked);
        let mut start = edge + self.numbers.distance(report.lwe, report.base) as usize;
        for run in report.runs() {
            let end = start + run.len as usize;
            if run.has_arrived {
                for index in start..end {
                    self.acknowledge(index, &mut acked);
                }
            } else {
                self.miss(start..end, turn, &mut acked);
            }
            start = end;
        }
        if report.is_last {
            self.miss(start..self.frames.len(), turn, &mut acked);
        }
        self.advance();
        self.stats.lost += u64::from(acked.lost);
        Ok(acked)
    }

    /// No answer to our transmissions up to `turn` came: something of them is due again.
    pub fn repeat_unanswered(&mut self, turn: u64, repeat: Repeat) {
        let last = self.frames.len().saturating_sub(1);
        match repeat {
            Repeat::All => self.miss(0..self.frames.len(), turn, &mut Acked::default()),
            Repeat::Probe => {
                self.miss(0..1, turn, &mut Acked::default());
                self.miss(last..last + 1, turn, &mut Acked::default());
            }
        }
    }

    /// Gives up the C_PDUs whose time is over.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.expires.is_none_or(|at| at > now) {
            return;
        }
        self.expires = None;
        for index in 0..self.c_pdus.len() {
            let pending = &self.c_pdus[index];
            if !matches!(pending.progress, Progress::Cut | Progress::Cutting) {
                continue;
            }
            match pending.expires {
                Some(at) if at <= now => self.drop_c_pdu(index, Failure::Expired),
                at => self.expires = earliest(self.expires, at),
            }
        }
        self.forget();
    }

    /// Numbers begin anew at both ends.
    ///
    /// A C_PDU whose last piece was never sent cannot have been delivered, so it is sent again
    /// from its beginning. One that was sent whole and not acknowledged whole may have been: it
    /// fails with [`Failure::LinkLost`].
    pub fn reset(&mut self) {
        // What waits at the other end is delivered there now.
        self.begin_anew(u64::MAX, Outcome::Done, |_| None);
    }

    /// Like [`Sender::reset`], but what waited at the other end may be lost; that took nothing of
    /// our transmissions from `turn` on, so what was begun in them is sent again, too.
    pub fn reset_since(&mut self, turn: u64) {
        self.begin_anew(turn, Outcome::unknown(Failure::LinkLost), |_| None);
    }

    /// Numbers begin anew: `arrived` becomes of what waits at the other end, and what cannot have
    /// arrived is sent again, unless `failure` says why not.
    fn begin_anew(
        &mut self,
        turn: u64,
        arrived: Outcome,
        failure: impl Fn(&Pending) -> Option<Failure>,
    ) {
        let keep = |pending: Pending| Pending {
            piece: 0,
            cut: 0,
            first_frame: 0,
            first_turn: 0,
            outstanding: 0,
            fresh: 0,
            ..pending
        };
        for pending in self.clear() {
            match pending.progress {
                Progress::Arrived => self.outcomes.push_back((pending.id, arrived)),
                Progress::Cut if pending.is_sent_whole() && pending.first_turn < turn => {
                    let why = failure(&pending).unwrap_or(Failure::LinkLost);
                    self.stats.unknown += 1;
                    self.outcomes.push_back((pending.id, Outcome::unknown(why)));
                }
                Progress::Cut | Progress::Cutting if let Some(why) = failure(&pending) => {
                    self.outcomes.push_back((pending.id, Outcome::not_arrived(why)));
                }
                Progress::Cut | Progress::Cutting => {
                    self.stats.begun_anew += u64::from(pending.cut > 0);
                    self.uncut += 1;
                    self.unsent += pending.octets.len();
                    self.held += pending.octets.len();
                    self.expires = earliest(self.expires, pending.expires);
                    let progress = Progress::Cutting;
                    self.c_pdus.push_back(Pending { progress, ..keep(pending) });
                }
                Progress::Dropped | Progress::Dropping | Progress::Over => {}
            }
        }
        self.stats.resets += 1;
    }

    /// Like [`Sender::reset_since`] no turn, for a link whose numbers and window are these.
    pub fn restart(&mut self, numbers: Numbers, window: u32) {
        self.reset_since(u64::MAX);
        self.numbers = numbers;
        self.window = window.clamp(1, numbers.max_window());
    }

    /// Gives up all C_PDUs; but if `may_retry`, those stay that are to be tried again and cannot have
    /// arrived. Numbers begin anew.
    pub fn fail(&mut self, why: Failure, may_retry: bool) {
        let stays = |it: &Pending| may_retry && it.is_retried && !it.is_sent_whole();
        let failure = |pending: &Pending| (!stays(pending)).then_some(why);
        self.begin_anew(u64::MAX, Outcome::unknown(why), failure);
    }

    /// Gives up a C_PDU of which nothing was sent; false if there is no such.
    pub fn take_back(&mut self, id: RequestId) -> bool {
        let is_it = |pending: &Pending| pending.id == id && pending.piece == 0;
        let cutting =
            self.c_pdus.iter().position(|it| it.progress == Progress::Cutting && is_it(it));
        let Some(index) = cutting else { return false };
        self.drop_c_pdu(index, Failure::TakenBack);
        self.forget();
        true
    }

    /// The next frame of our transmission `turn` whose segment has at most `room` octets.
    ///
    /// The most urgent first; of those what is due again, the oldest before others; then new C_PDUs,
    /// cut into equal pieces of at most `segment` octets. A C_PDU that was begun keeps the length of
    /// its pieces.
    ///
    /// Those of a priority are sent for the first time in their order, although a later one may fit
    /// where an earlier does not: else a reset, which sends the earlier again, could exchange them.
    pub fn poll(
        &mut self,
        now: Time,
        turn: u64,
        segment: usize,
        room: usize,
    ) -> Option<Outgoing<'_>> {
        self.handle_timeout(now);
        if self.out_of_sync.is_some() {
            return None;
        }
        let segment = segment.clamp(1, MAX_SEGMENT);
        self.let_overtake(segment);
        let fits = |(priority, at): &&(Reverse<u8>, u64)| {
            let frame = self.frame(*at);
            let is_its_turn = !frame.is_fresh || self.first_fresh(priority.0) == Some(*at);
            is_its_turn && usize::from(frame.len) <= room
        };
        let due = self.due.iter().take(MAX_TRIED).find(fits).copied();
        let uncut = self.first_uncut().map(|pending| pending.priority);
        let uncut = uncut.filter(|&priority| self.first_fresh(priority).is_none());
        if let Some((Reverse(priority), at)) = due
            && uncut.is_none_or(|uncut| uncut <= priority)
        {
            return Some(self.send(at, turn));
        }
        let cut = uncut.and_then(|_| self.cut(segment, room));
        let at = cut.or(due.map(|(_, at)| at))?;
        Some(self.send(at, turn))
    }

    /// A frame that may fill what is left of our transmission `turn`: the unacknowledged ones by
    /// turns, the oldest first.
    pub fn poll_spare(&mut self, turn: u64, room: usize) -> Option<Outgoing<'_>> {
        if self.out_of_sync.is_some() {
            return None;
        }
        if self.spare.1 != turn {
            self.spare = (self.lower, turn);
        }
        let end = self.lower + self.frames.len() as u64;
        let from = self.spare.0.clamp(self.lower, end);
        let fits = |at: &u64| {
            let frame = self.frame(*at);
            matches!(frame.state, State::Sent { .. }) && usize::from(frame.len) <= room
        };
        let at = (from..end).chain(self.lower..from).find(fits)?;
        self.spare.0 = at + 1;
        Some(self.send(at, turn))
    }

    /// Whether the peer takes pieces of a C_PDU of several lengths (EP11): the last one of a
    /// transmission is then cut to fit.
    pub fn set_cuts_to_fit(&mut self, cuts_to_fit: bool) {
        self.cuts_to_fit = cuts_to_fit;
    }

    /// What became of a C_PDU.
    pub fn poll_outcome(&mut self) -> Option<(RequestId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// When the next C_PDU expires, at the earliest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.expires
    }

    /// What there is to be sent.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        Backlog {
            unsent: self.unsent,
            unsent_c_pdus: self.uncut,
            due: self.due.len(),
            due_octets: self.due_octets,
            unanswered: self.unanswered,
            window: (self.window as usize).saturating_sub(self.frames.len()),
        }
    }

    /// The highest priority of what there is to be sent.
    #[must_use]
    pub fn urgency(&self) -> u8 {
        let due = self.due.first().map_or(0, |(Reverse(priority), _)| *priority);
        self.uncut().map(|pending| pending.priority).fold(due, u8::max)
    }

    /// How long the numbers of frames are.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Whether a frame was sent since the last reset.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.lower > 0 || self.frames.iter().any(|frame| !frame.is_fresh)
    }

    /// Whether a C_PDU was sent whole, and may have arrived.
    #[must_use]
    pub fn has_sent_whole(&self) -> bool {
        self.c_pdus.iter().any(Pending::is_sent_whole)
    }

    /// The place of the report's lower edge in `frames`, if the report can be true (Annex C, section
    /// 6.2): nothing has arrived that was not sent, or only has its number.
    pub(in crate::s5066::dts) fn check(&self, report: &Report<'_>) -> Result<usize, OutOfSync> {
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

    /// Whether one of these frames is such.
    fn has(&self, range: Range<usize>, is_such: impl Fn(&Frame) -> bool) -> bool {
        let end = range.end.min(self.frames.len());
        let start = range.start.min(end);
        self.frames.range(start..end).any(is_such)
    }

    fn acknowledge(&mut self, index: usize, acked: &mut Acked) {
        let at = self.lower + index as u64;
        let priority = self.priority_of(index);
        let frame = &mut self.frames[index];
        match frame.state {
            State::Acknowledged => return,
            State::Due => {
                self.due.remove(&(Reverse(priority), at));
                self.due_octets -= usize::from(frame.len);
            }
            State::Sent { .. } => self.unanswered -= 1,
        }
        frame.state = State::Acknowledged;
        acked.arrived += 1;
        acked.arrived_octets += u64::from(frame.len);
        let serial = frame.c_pdu;
        let c_pdu = self.place(serial);
        let pending = &mut self.c_pdus[c_pdu];
        pending.outstanding -= 1;
        if pending.outstanding > 0 {
            return;
        }
        match pending.progress {
            // It waits at the other end for those before it, and would be lost with that.
            Progress::Cut if pending.in_order => pending.progress = Progress::Arrived,
            Progress::Cut => self.succeed(c_pdu),
            Progress::Dropped => self.finish(c_pdu),
            Progress::Arrived | Progress::Cutting | Progress::Dropping | Progress::Over => {}
        }
    }

    /// Makes those of these frames due that were sent in a turn up to `turn`.
    fn miss(&mut self, range: Range<usize>, turn: u64, acked: &mut Acked) {
        for index in range.start..range.end.min(self.frames.len()) {
            let priority = self.priority_of(index);
            let frame = &mut self.frames[index];
            if !matches!(frame.state, State::Sent { turn: sent } if sent <= turn) {
                continue;
            }
            frame.state = State::Due;
            self.due.insert((Reverse(priority), self.lower + index as u64));
            self.due_octets += usize::from(frame.len);
            self.unanswered -= 1;
            acked.lost += 1;
            acked.lost_octets += u64::from(frame.len);
        }
    }

    /// Moves the lower edge to the oldest frame that is not acknowledged.
    fn advance(&mut self) {
        while self.frames.pop_front_if(|frame| frame.state == State::Acknowledged).is_some() {
            self.lower += 1;
        }
        self.forget();
    }

    /// Forgets C_PDUs that are over; the oldest is, when it has arrived.
    fn forget(&mut self) {
        while let Some(oldest) = self.c_pdus.front() {
            match oldest.progress {
                Progress::Arrived => self.succeed(0),
                Progress::Over => {}
                Progress::Cut | Progress::Cutting | Progress::Dropped | Progress::Dropping => break,
            }
            self.c_pdus.pop_front();
            self.first += 1;
        }
        self.cutting = self.cutting.max(self.first);
    }

    fn succeed(&mut self, index: usize) {
        self.stats.done += 1;
        self.outcomes.push_back((self.c_pdus[index].id, Outcome::Done));
        self.finish(index);
    }

    fn finish(&mut self, index: usize) {
        let pending = &mut self.c_pdus[index];
        pending.progress = Progress::Over;
        self.held -= std::mem::take(&mut pending.octets).len();
    }

    /// Gives up a C_PDU; what the peer may have of it is to be forgotten there too.
    fn drop_c_pdu(&mut self, index: usize, why: Failure) {
        let pending = &mut self.c_pdus[index];
        let may_have_arrived = pending.is_sent_whole();
        self.outcomes.push_back((pending.id, Outcome::Failed { why, may_have_arrived }));
        self.stats.expired += u64::from(why == Failure::Expired);
        let is_cut = pending.progress == Progress::Cut;
        if !is_cut {
            self.unsent -= pending.octets.len() - pending.cut;
        }
        if pending.piece == 0 {
            self.uncut -= 1;
            self.finish(index);
            return;
        }
        pending.progress = if is_cut { Progress::Dropped } else { Progress::Dropping };
        self.held -= std::mem::take(&mut pending.octets).len();
        let serial = self.first + index as u64;
        let from = usize::try_from(pending.first_frame.saturating_sub(self.lower));
        for frame in self.frames.iter_mut().skip(from.unwrap_or(usize::MAX)) {
            if frame.c_pdu != serial {
                break;
            }
            if frame.state == State::Due {
                self.due_octets -= usize::from(frame.len);
            }
            frame.len = 0;
        }
    }

    /// C_PDUs of which something is not cut yet, the oldest first.
    fn uncut(&self) -> impl Iterator<Item = &Pending> {
        let from = self.place(self.cutting).min(self.c_pdus.len());
        let rest = self.c_pdus.range(from..);
        rest.filter(|pending| matches!(pending.progress, Progress::Cutting | Progress::Dropping))
    }

    fn first_uncut(&self) -> Option<&Pending> {
        self.uncut().next()
    }

    /// The oldest frame of this priority that was never sent.
    fn first_fresh(&self, priority: u8) -> Option<u64> {
        let priority = Reverse(priority);
        self.fresh.range((priority, 0)..=(priority, u64::MAX)).next().map(|&(_, at)| at)
    }

    /// Whether a C_PDU of this priority that is pushed now need not wait for any before it.
    fn overtakes(&self, priority: u8) -> bool {
        let open = self.c_pdus.iter().filter(|pending| pending.progress != Progress::Over);
        let highest = open.map(|pending| pending.priority).max();
        highest.is_some_and(|highest| highest < priority)
    }

    /// Numbers all pieces of the C_PDU that is cut next while a later one is more urgent, which then
    /// gets the next numbers and is sent before them: a receiver takes numbers in any order within
    /// the window (Annex C, section 3.3).
    fn let_overtake(&mut self, segment: usize) {
        while let Some(next) = self.first_uncut() {
            let is_overtaken = self.uncut().any(|other| other.priority > next.priority);
            let left = next.octets.len() - next.cut.min(next.octets.len());
            let piece = if next.piece > 0 { next.piece } else { segment };
            let room = (self.window as usize).saturating_sub(self.frames.len());
            // One number is left for what overtakes.
            if !is_overtaken || left.div_ceil(piece).max(1) >= room {
                return;
            }
            let serial = self.cutting_now();
            while self.cutting_now() == serial {
                if self.cut(segment, usize::MAX).is_none() {
                    return;
                }
            }
        }
    }

    /// The serial number of the C_PDU that is really cut next.
    fn cutting_now(&self) -> u64 {
        let over = |serial: &u64| {
            self.c_pdus
                .get(self.place(*serial))
                .is_some_and(|pending| pending.progress == Progress::Over)
        };
        (self.cutting..).find(|serial| !over(serial)).unwrap_or(self.cutting)
    }

    /// Cuts the next piece that fits, and numbers it, if the window is not full (Annex C, section 6.2).
    fn cut(&mut self, segment: usize, room: usize) -> Option<u64> {
        if self.frames.len() >= self.window as usize {
            return None;
        }
        self.cutting = self.cutting_now();
        self.c_pdus.get(self.place(self.cutting))?;
        let place = self.place(self.cutting);
        let pending = &mut self.c_pdus[place];
        let at = self.lower + self.frames.len() as u64;
        let (offset, len, is_end) = match pending.progress {
            Progress::Dropping => {
                pending.progress = Progress::Dropped;
                (pending.cut, 0, true)
            }
            _ => {
                let all = pending.octets.len();
                let piece = match pending.piece {
                    0 => all.div_ceil(all.div_ceil(segment).max(1)).max(1),
                    piece => piece,
                };
                let mut len = piece.min(all - pending.cut);
                if len > room {
                    if !self.cuts_to_fit || room < MIN_PIECE {
                        return None;
                    }
                    len = room;
                }
                if pending.piece == 0 {
                    (pending.piece, pending.first_frame) = (piece, at);
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
        let priority = pending.priority;
        let c_pdu = self.cutting;
        if is_end {
            self.cutting += 1;
            self.uncut -= 1;
        }
        self.frames.push_back(Frame {
            c_pdu,
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            len: u16::try_from(len).unwrap_or(u16::MAX),
            is_end,
            is_fresh: true,
            state: State::Due,
        });
        self.due.insert((Reverse(priority), at));
        self.fresh.insert((Reverse(priority), at));
        self.due_octets += len;
        Some(at)
    }

    /// Marks the frame as sent in this turn.
    fn send(&mut self, at: u64, turn: u64) -> Outgoing<'_> {
        let index = self.index(at);
        let serial = self.frames[index].c_pdu;
        let place = self.place(serial);
        let frame = &mut self.frames[index];
        let is_repeat = !std::mem::take(&mut frame.is_fresh);
        if is_repeat {
            self.stats.repeats += 1;
        } else {
            self.stats.frames += 1;
            let pending = &mut self.c_pdus[place];
            pending.fresh -= 1;
            if frame.offset == 0 {
                pending.first_turn = turn;
            }
            self.fresh.remove(&(Reverse(pending.priority), at));
        }
        if frame.state == State::Due {
            self.due.remove(&(Reverse(self.c_pdus[place].priority), at));
            self.due_octets -= usize::from(frame.len);
            self.unanswered += 1;
        }
        frame.state = State::Sent { turn };
        let frame = *frame;
        let pending = &self.c_pdus[place];
        let offset = frame.offset as usize;
        let octets = pending.octets.get(offset..offset + usize::from(frame.len));
        let data = Data {
            fsn: self.numbers.fsn(at),
            is_start: frame.offset == 0,
            is_end: frame.is_end,
            in_order: pending.in_order,
            is_drop: matches!(pending.progress, Progress::Dropped | Progress::Dropping),
            at_upper_edge: index + 1 == self.frames.len(),
            at_lower_edge: index == 0,
            segment: Segment::new(octets.unwrap_or_default()),
        };
        Outgoing { data, is_repeat }
    }

    fn frame(&self, at: u64) -> &Frame {
        &self.frames[self.index(at)]
    }

    fn index(&self, at: u64) -> usize {
        usize::try_from(at - self.lower).expect("a place in the window")
    }

    /// The priority of a frame's C_PDU.
    fn priority_of(&self, index: usize) -> u8 {
        self.c_pdus[self.place(self.frames[index].c_pdu)].priority
    }

    /// Where a C_PDU lies in `c_pdus`.
    fn place(&self, serial: u64) -> usize {
        usize::try_from(serial - self.first).expect("a place in memory")
    }

    /// Empties it, and gives back what it held.
    fn clear(&mut self) -> VecDeque<Pending> {
        let mut empty = Self::new(self.numbers, self.window);
        empty.stats = self.stats;
        empty.cuts_to_fit = self.cuts_to_fit;
        std::mem::swap(&mut empty.outcomes, &mut self.outcomes);
        std::mem::replace(self, empty).c_pdus
    }
}
