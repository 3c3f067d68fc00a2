//! C_PDUs that are not finished, and how they are cut into segments (Annex C, section 3.3).

use std::collections::VecDeque;

use base::time::{Time, earliest};

use super::outgoing::{ArqPdu, SenderStats};
use crate::s5066::service::{Failure, Outcome, RequestId};

/// The shortest piece that is cut only because a transmission ends.
const MIN_PIECE: usize = 32;

/// The C_PDUs of a sender, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
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
pub(super) struct Pending {
    pub(super) c_pdu: ArqPdu,
    /// Octets of each piece but the last; 0 before the first is cut.
    pub(super) piece: usize,
    /// Octets that are cut.
    pub(super) cut: usize,
    /// The frame with its first piece, and the transmission that first had it, if one had.
    first_frame: u64,
    pub(super) first_turn: u64,
    /// Frames without acknowledgement, and frames never sent.
    outstanding: u32,
    fresh: u32,
    pub(super) progress: Progress,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
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
pub(super) struct Piece {
    /// The serial number of the C_PDU.
    pub(super) c_pdu: u64,
    pub(super) priority: u8,
    pub(super) offset: u32,
    pub(super) len: u16,
    pub(super) is_end: bool,
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
    pub(super) fn is_sent_whole(&self) -> bool {
        matches!(self.progress, Progress::Arrived | Progress::Cut) && self.fresh == 0
    }

    /// Whether the receiver is to forget it.
    pub(super) fn is_dropped(&self) -> bool {
        matches!(self.progress, Progress::Dropped | Progress::Dropping)
    }
}

impl Queue {
    /// Takes a C_PDU to be cut from its beginning.
    pub(super) fn push(&mut self, c_pdu: ArqPdu) {
        self.held += c_pdu.octets.len();
        self.unsent += c_pdu.octets.len();
        self.uncut += 1;
        self.expires = earliest(self.expires, c_pdu.expires);
        self.c_pdus.push_back(Pending::new(c_pdu));
    }

    /// Takes everything out but the outcomes.
    pub(super) fn clear(&mut self) -> VecDeque<Pending> {
        let outcomes = std::mem::take(&mut self.outcomes);
        std::mem::replace(self, Self { outcomes, ..Self::default() }).c_pdus
    }

    /// Records the outcome of a C_PDU.
    pub(super) fn conclude(&mut self, id: RequestId, outcome: Outcome) {
        self.outcomes.push_back((id, outcome));
    }

    /// Cuts the next piece, which gets the number `frame`, if one fits in `room`.
    ///
    /// Pieces have at most `segment` octets and are of one length, but the last of a C_PDU; if
    /// `cuts_to_fit`, shorter ones fill the end of a transmission (EP11).
    pub(super) fn cut(
        &mut self,
        segment: usize,
        room: usize,
        cuts_to_fit: bool,
        frame: u64,
    ) -> Option<Piece> {
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
    pub(super) fn handle_sent(&mut self, piece: Piece, turn: u64) {
        let place = self.place(piece.c_pdu);
        let pending = &mut self.c_pdus[place];
        pending.fresh -= 1;
        if piece.offset == 0 {
            pending.first_turn = turn;
        }
    }

    /// Another piece of the C_PDU has arrived.
    pub(super) fn handle_arrived(&mut self, serial: u64, stats: &mut SenderStats) {
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
    pub(super) fn give_up(
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
    pub(super) fn forget(&mut self, stats: &mut SenderStats) {
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
    pub(super) fn take_expired(&mut self, now: Time) -> Vec<usize> {
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
    pub(super) fn find_untouched(&self, id: RequestId) -> Option<usize> {
        self.c_pdus.iter().position(|pending| {
            pending.progress == Progress::Cutting && pending.c_pdu.id == id && pending.piece == 0
        })
    }

    pub(super) fn poll_outcome(&mut self) -> Option<(RequestId, Outcome)> {
        self.outcomes.pop_front()
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.expires
    }

    /// The C_PDU with this serial number.
    pub(super) fn get(&self, serial: u64) -> &Pending {
        &self.c_pdus[self.place(serial)]
    }

    /// C_PDUs that are not wholly cut, the oldest first.
    pub(super) fn uncut(&self) -> impl Iterator<Item = &Pending> {
        let from = self.place(self.cutting).min(self.c_pdus.len());
        let rest = self.c_pdus.range(from..);
        rest.filter(|pending| matches!(pending.progress, Progress::Cutting | Progress::Dropping))
    }

    pub(super) fn first_uncut(&self) -> Option<&Pending> {
        self.uncut().next()
    }

    /// The serial number of the C_PDU that is really cut next: one given up before it was cut is not.
    pub(super) fn cutting_now(&self) -> u64 {
        let is_over = |serial: &u64| {
            let pending = self.c_pdus.get(self.place(*serial));
            pending.is_some_and(|pending| pending.progress == Progress::Over)
        };
        (self.cutting..).find(|serial| !is_over(serial)).unwrap_or(self.cutting)
    }

    /// Whether a C_PDU of this priority that is pushed now need not wait for any before it.
    pub(super) fn is_overtaken_by(&self, priority: u8) -> bool {
        let open = self.c_pdus.iter().filter(|pending| pending.progress != Progress::Over);
        let highest = open.map(|pending| pending.c_pdu.priority).max();
        highest.is_some_and(|highest| highest < priority)
    }

    /// Whether a C_PDU was sent whole, and may have arrived.
    pub(super) fn has_sent_whole(&self) -> bool {
        self.c_pdus.iter().any(Pending::is_sent_whole)
    }

    /// Octets of all C_PDUs.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// C_PDUs not wholly cut into pieces, and their remaining octets.
    pub(super) fn unsent(&self) -> (usize, usize) {
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
