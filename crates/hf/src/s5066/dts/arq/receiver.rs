//! The receiving end: pieces to C_PDUs, and what has arrived.

use std::collections::{BTreeMap, VecDeque};

use super::acknowledgement::Acknowledgement;
use super::{MAX_C_PDU, OutOfSync};
use crate::s5066::dts::wire::{Data, Fsn, MAX_SEGMENT, Numbers};

/// A C_PDU that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivered {
    /// The C_PDU.
    pub octets: Vec<u8>,
    /// Whether the C_PDU waited for earlier ones.
    pub in_order: bool,
}

/// The verdict on a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Its segment is bad.
    Bad,
    /// The frame has arrived before.
    Duplicate,
    /// The frame is new.
    New,
}

base::counters! {
    /// Counts since the start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct ReceiverStats {
        /// Frames that were new.
        pub frames: counter(frames);
        /// Frames that had arrived before.
        pub duplicates: counter(frames);
        /// Frames with a bad segment.
        pub bad: counter(frames);
        /// C_PDUs delivered.
        pub delivered: counter(c_pdus);
        /// C_PDUs dropped because the sender gave them up.
        pub dropped: counter(c_pdus);
        /// C_PDUs dropped because they were too long.
        pub too_long: counter(c_pdus);
        /// Pieces of C_PDUs without a beginning or an end.
        pub broken: counter(c_pdus);
        /// Frames that showed the ends to be out of step.
        pub out_of_sync: counter(frames);
        /// Resets.
        pub resets: counter(resets);
    }
}

/// The receiving end of a link: takes frames, delivers C_PDUs, and supplies acknowledgements on request.
///
/// Give it each frame of data, then ask [`Receiver::poll_delivered`] until it is `None`. While
/// [`Receiver::is_ack_due`], send the acknowledgements from [`Receiver::acks`] or [`Receiver::ack`] in the next
/// transmission, and report this by [`Receiver::handle_ack_sent`]. The receiver waits for nothing, so it has no
/// deadlines.
///
/// - facts: `handle_data`, `handle_ack_sent`;
/// - commands: `reset`, `restart`, `resync`;
/// - decisions: `poll_delivered`;
/// - getters: `is_ack_due`, `acks`, `ack`, `numbers`, `held`, `stats`.
#[derive(Clone, Debug)]
pub struct Receiver {
    numbers: Numbers,
    /// The oldest frame that has not arrived, RX LWE.
    lower: u64,
    /// From `lower` to the newest frame, RX UWE: which have arrived.
    arrived: VecDeque<bool>,
    /// Stretches of neighbouring received frames of one C_PDU, by their first frame.
    pieces: BTreeMap<u64, Stretch>,
    /// The segments of `pieces`.
    segments: BTreeMap<u64, Vec<u8>>,
    /// Whole C_PDUs that wait for earlier ones, by their last frame.
    waiting: BTreeMap<u64, Vec<u8>>,
    delivered: VecDeque<Delivered>,
    is_ack_due: bool,
    /// Why nothing is taken before the next reset.
    out_of_sync: Option<OutOfSync>,
    stats: ReceiverStats,
}

/// Frames of one C_PDU next to each other.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The last of them.
    last: u64,
    has_start: bool,
    has_end: bool,
    in_order: bool,
    fate: Fate,
    octets: usize,
}

/// The fate of a C_PDU. The greatest fate of its frames holds for the whole C_PDU.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Fate {
    Deliver,
    TooLong,
    Drop,
}

impl Receiver {
    /// A receiver that nothing has reached.
    #[must_use]
    pub fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            lower: 0,
            arrived: VecDeque::new(),
            pieces: BTreeMap::new(),
            segments: BTreeMap::new(),
            waiting: BTreeMap::new(),
            delivered: VecDeque::new(),
            is_ack_due: false,
            out_of_sync: None,
            stats: ReceiverStats::default(),
        }
    }

    /// Takes a frame of the peer; its header is good.
    ///
    /// # Errors
    /// When its number shows that the ends are out of step; then it takes and acknowledges nothing
    /// before the next reset.
    pub fn handle_data(&mut self, numbers: Numbers, data: &Data<'_>) -> Result<Verdict, OutOfSync> {
        let at = match self.out_of_sync.map_or_else(|| self.check(numbers, data), Err) {
            Ok(at) => at,
            Err(error) => {
                self.stats.out_of_sync += 1;
                self.out_of_sync = Some(error);
                return Err(error);
            }
        };
        self.is_ack_due = true;
        let Some(index) = at.checked_sub(self.lower).map(as_index) else {
            self.stats.duplicates += 1;
            return Ok(Verdict::Duplicate);
        };
        if self.arrived.get(index) == Some(&true) {
            self.stats.duplicates += 1;
            return Ok(Verdict::Duplicate);
        }
        if !data.segment.is_good && !data.is_drop {
            self.stats.bad += 1;
            return Ok(Verdict::Bad);
        }

        self.stats.frames += 1;
        if index >= self.arrived.len() {
            self.arrived.resize(index + 1, false);
        }
        self.arrived[index] = true;
        let first = self.add(at, data);
        let lower = self.lower;
        while self.arrived.pop_front_if(|has_arrived| *has_arrived).is_some() {
            self.lower += 1;
        }
        self.assemble(first);
        if self.lower > lower {
            self.clear_below(lower);
        }
        Ok(Verdict::New)
    }

    /// Acknowledgements were sent.
    pub fn handle_ack_sent(&mut self) {
        self.is_ack_due = false;
    }

    /// Numbers begin anew at both ends; pieces of C_PDUs are forgotten.
    ///
    /// C_PDUs that are whole and waited for others are delivered: the sender may have been told
    /// that they arrived, and none before them will come any more.
    pub fn reset(&mut self) {
        while let Some((_, octets)) = self.waiting.pop_first() {
            self.deliver(octets, true);
        }
        self.lower = 0;
        self.arrived.clear();
        self.pieces.clear();
        self.segments.clear();
        self.is_ack_due = false;
        self.out_of_sync = None;
        self.stats.resets += 1;
    }

    /// Like [`Receiver::reset`], for a link with these numbers.
    pub fn restart(&mut self, numbers: Numbers) {
        self.reset();
        self.numbers = numbers;
    }

    /// The peer's oldest unacknowledged frame is this one; pieces of C_PDUs are forgotten.
    pub fn resync(&mut self, lwe: Fsn) {
        let lower = self.lower;
        let distance = self.numbers.distance(self.numbers.fsn(lower), lwe);
        self.reset();
        self.lower = lower + u64::from(distance);
    }

    /// The next C_PDU.
    pub fn poll_delivered(&mut self) -> Option<Delivered> {
        self.delivered.pop_front()
    }

    /// Whether the peer waits for an acknowledgement.
    #[must_use]
    pub fn is_ack_due(&self) -> bool {
        self.is_ack_due && self.out_of_sync.is_none()
    }

    /// All that is to be acknowledged: one frame with short numbers; with long ones as many as are
    /// needed, their lists at most `list` octets long; none when the ends are out of step.
    #[must_use]
    pub fn acks(&self, list: usize) -> Vec<Acknowledgement> {
        match self.numbers {
            _ if self.out_of_sync.is_some() => Vec::new(),
            Numbers::Long => {
                let list = list.clamp(16, MAX_SEGMENT);
                Acknowledgement::lists(self.lower, &self.arrived, list)
            }
            Numbers::Short => self.ack().into_iter().collect(),
        }
    }

    /// The acknowledgement that fits the header of a data frame; with long numbers it may say
    /// nothing of the newest frames. `None` when the ends are out of step.
    #[must_use]
    pub fn ack(&self) -> Option<Acknowledgement> {
        let is_in_sync = self.out_of_sync.is_none();
        is_in_sync.then(|| Acknowledgement::bitmap(self.numbers, self.lower, &self.arrived))
    }

    /// How long the numbers of frames are.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Octets of C_PDUs that are not whole, or wait for others.
    #[must_use]
    pub fn held(&self) -> usize {
        self.segments.values().chain(self.waiting.values()).map(Vec::len).sum()
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Which frame it is, counted from the last reset on, if it lies in the window or was in it when
    /// the newest was sent (Annex C, section 6.2).
    fn check(&self, numbers: Numbers, data: &Data<'_>) -> Result<u64, OutOfSync> {
        if numbers != self.numbers {
            return Err(OutOfSync::Numbers);
        }
        let window = u64::from(numbers.max_window());
        let after = u64::from(numbers.distance(numbers.fsn(self.lower), data.fsn));
        // One after the newest frame.
        let upper = self.lower + self.arrived.len() as u64;
        let at = if after < window {
            self.lower + after
        } else {
            // Before the lower edge, but not before the window and not before the first frame.
            let at = (self.lower + after).checked_sub(2 * window).ok_or(OutOfSync::Number)?;
            if at + window < upper {
                return Err(OutOfSync::Number);
            }
            at
        };
        if data.at_upper_edge && at + 1 < upper {
            return Err(OutOfSync::UpperEdge);
        }
        if data.at_lower_edge && at > self.lower {
            return Err(OutOfSync::LowerEdge);
        }
        Ok(at)
    }

    /// Joins a frame with its neighbours; returns the first frame of the stretch.
    fn add(&mut self, at: u64, data: &Data<'_>) -> u64 {
        let fate = if data.is_drop { Fate::Drop } else { Fate::Deliver };
        let mut piece = Stretch {
            last: at,
            has_start: data.is_start,
            has_end: data.is_end,
            in_order: data.in_order,
            fate,
            octets: data.segment.octets.len(),
        };
        let mut first = at;
        if fate == Fate::Deliver {
            self.segments.insert(at, data.segment.octets.to_vec());
        }
        if !data.is_end
            && let Some(after) = self.pieces.get(&(at + 1)).filter(|after| !after.has_start)
        {
            let after = *after;
            self.pieces.remove(&(at + 1));
            piece = piece.joined(after);
        }
        if !data.is_start
            && let Some((&start, before)) = self.pieces.range(..at).next_back()
            && before.last + 1 == at
            && !before.has_end
        {
            piece = before.joined(piece);
            first = start;
        }
        if piece.octets > MAX_C_PDU {
            piece.fate = piece.fate.max(Fate::TooLong);
        }
        if piece.fate != Fate::Deliver {
            self.forget(first, piece.last);
        }
        self.pieces.insert(first, piece);
        first
    }

    /// Delivers the C_PDU that these frames begin, if it is whole.
    fn assemble(&mut self, first: u64) {
        let Some(piece) = self.pieces.get(&first).filter(|piece| piece.has_start && piece.has_end)
        else {
            return;
        };
        let piece = *piece;
        self.pieces.remove(&first);
        match piece.fate {
            Fate::Deliver => {}
            Fate::Drop => {
                self.stats.dropped += 1;
                return;
            }
            Fate::TooLong => {
                self.stats.too_long += 1;
                return;
            }
        }
        let mut octets = Vec::with_capacity(piece.octets);
        for at in first..=piece.last {
            octets.append(&mut self.segments.remove(&at).unwrap_or_default());
        }
        if piece.in_order {
            self.waiting.insert(piece.last, octets);
            self.release();
        } else {
            self.deliver(octets, false);
        }
    }

    /// The lower edge has moved on from `from`: whole C_PDUs below wait no longer, and C_PDUs that can no longer
    /// become whole are forgotten.
    fn clear_below(&mut self, from: u64) {
        self.release();
        // Pieces before `from` were looked at when the edge moved there, but for the last.
        let before = self.pieces.range(..from).next_back().map(|(&first, _)| first);
        let mut next = before.unwrap_or(from);
        while let Some((&first, piece)) = self.pieces.range(next..self.lower).next() {
            let (last, may_go_on) = (piece.last, piece.has_start && piece.last + 1 == self.lower);
            next = last + 1;
            if !may_go_on {
                self.stats.broken += 1;
                self.pieces.remove(&first);
                self.forget(first, last);
            }
        }
    }

    /// Delivers what waits for nothing below the lower edge.
    fn release(&mut self) {
        while self.waiting.first_key_value().is_some_and(|(&last, _)| last < self.lower)
            && let Some((_, octets)) = self.waiting.pop_first()
        {
            self.deliver(octets, true);
        }
    }

    fn deliver(&mut self, octets: Vec<u8>, in_order: bool) {
        self.stats.delivered += 1;
        self.delivered.push_back(Delivered { octets, in_order });
    }

    /// Frees the segments of frames that are not needed.
    fn forget(&mut self, first: u64, last: u64) {
        while let Some((&at, _)) = self.segments.range(first..=last).next() {
            self.segments.remove(&at);
        }
    }
}

impl Stretch {
    /// Joins this stretch and the next.
    fn joined(self, after: Self) -> Self {
        Self {
            last: after.last,
            has_start: self.has_start,
            has_end: after.has_end,
            in_order: self.in_order,
            fate: self.fate.max(after.fate),
            octets: self.octets + after.octets,
        }
    }
}

fn as_index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
