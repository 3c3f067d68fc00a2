//! The transmit window: frames that have a number, until they are acknowledged (Annex C,
//! section 3.3).
//!
//! ```text
//!    lower, TX LWE                      newest, TX UWE        limit
//!   ───────┬─────────────────────────────────┬─────────────────┬──────▶ numbers
//!          │ acknowledged, sent, due (again) │    may be cut   │
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::OutOfSync;
use super::outgoing::Acked;
use super::queue::Piece;
use crate::s5066::dts::wire::{Numbers, Report};

/// Due frames that are tried when the first of them does not fit.
const MAX_TRIED: usize = 32;

/// The frames of a sender that have a number.
#[derive(Clone, Debug)]
pub(super) struct Window {
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
pub(super) struct Launch {
    pub(super) piece: Piece,
    pub(super) is_repeat: bool,
    pub(super) at_lower_edge: bool,
    pub(super) at_upper_edge: bool,
}

impl Window {
    /// An empty window for at most `limit` unacknowledged frames.
    pub(super) fn new(numbers: Numbers, limit: u32) -> Self {
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
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.numbers, self.limit);
    }

    /// Gives a piece the next number, with which it is due.
    pub(super) fn push(&mut self, piece: Piece) -> u64 {
        let at = self.end();
        self.frames.push_back(Frame { piece, is_fresh: true, state: State::Due });
        self.due.insert((Reverse(piece.priority), at));
        self.fresh.insert((Reverse(piece.priority), at));
        self.due_octets += usize::from(piece.len);
        at
    }

    /// Where the lower edge of a report lies in the window, if the report can be true: it
    /// acknowledges nothing that was not sent (tests 4 and 5 of Annex C, section 6.2).
    pub(super) fn check(&self, report: &Report<'_>) -> Result<usize, OutOfSync> {
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
    pub(super) fn acknowledge(&mut self, index: usize, acked: &mut Acked) -> Option<u64> {
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
    pub(super) fn miss(&mut self, range: Range<usize>, turn: u64, acked: &mut Acked) {
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
    pub(super) fn advance(&mut self) {
        while self.frames.pop_front_if(|frame| frame.state == State::Acknowledged).is_some() {
            self.lower += 1;
        }
    }

    /// Takes the octets out of the frames of an abandoned C_PDU; its first frame is `from`.
    pub(super) fn empty(&mut self, c_pdu: u64, from: u64) {
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
    pub(super) fn next_due(&self, room: usize) -> Option<(u8, u64)> {
        let fits = |(priority, at): &&Rank| {
            let frame = self.frame(*at);
            let is_its_turn = !frame.is_fresh || self.first_fresh(priority.0) == Some(*at);
            is_its_turn && usize::from(frame.piece.len) <= room
        };
        let (Reverse(priority), at) = self.due.iter().take(MAX_TRIED).find(fits)?;
        Some((*priority, *at))
    }

    /// The next sent frame whose segment fits in `room`, for a repeat that only fills the
    /// transmission `turn`: each in its turn, the oldest first.
    pub(super) fn next_spare(&mut self, turn: u64, room: usize) -> Option<u64> {
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
    pub(super) fn launch(&mut self, at: u64, turn: u64) -> Launch {
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
    pub(super) fn first_fresh(&self, priority: u8) -> Option<u64> {
        let priority = Reverse(priority);
        self.fresh.range((priority, 0)..=(priority, u64::MAX)).next().map(|&(_, at)| at)
    }

    /// The highest priority of a due frame, 0 if none is due.
    pub(super) fn urgency(&self) -> u8 {
        self.due.first().map_or(0, |(Reverse(priority), _)| *priority)
    }

    /// The lowest priority of a due frame, if one is due.
    pub(super) fn least_urgency(&self) -> Option<u8> {
        self.due.last().map(|(Reverse(priority), _)| *priority)
    }

    /// Frames that may still be numbered.
    pub(super) fn room(&self) -> usize {
        (self.limit as usize).saturating_sub(self.frames.len())
    }

    /// The number of the next new frame.
    pub(super) fn end(&self) -> u64 {
        self.lower + self.frames.len() as u64
    }

    /// Frames without acknowledgement, or waiting for an older one without.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Due frames, and the octets of their segments.
    pub(super) fn due(&self) -> (usize, usize) {
        (self.due.len(), self.due_octets)
    }

    /// Frames that were sent and neither acknowledged nor missed.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    pub(super) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Whether a frame was sent since the last reset.
    pub(super) fn has_sent(&self) -> bool {
        self.lower > 0 || self.frames.iter().any(|frame| !frame.is_fresh)
    }

    fn frame(&self, at: u64) -> &Frame {
        &self.frames[self.index(at)]
    }

    fn index(&self, at: u64) -> usize {
        usize::try_from(at - self.lower).expect("a place in the window")
    }
}
