//! The sending end: cuts C_PDUs into pieces, and sends each as often as asked.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

use super::WINDOW_UNIT_MS;
use crate::s5066::Address;
use crate::s5066::dts::arq::MAX_C_PDU;
use crate::s5066::dts::wire::{CpduSegment, DATAGRAM_IDS, Datagram, MAX_SEGMENT};
use crate::s5066::service::{Failure, Outcome, RequestId};

/// C_PDUs of a kind that may wait.
const MAX_WAITING: usize = 256;

/// A C_PDU to be sent without acknowledgement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DatagramPdu {
    /// The number that the outcome will have.
    pub id: RequestId,
    /// To whom: a node or a group.
    pub to: Address,
    /// The C_PDU.
    pub octets: Vec<u8>,
    /// Before all others, in frames of type 8.
    pub is_expedited: bool,
    /// Whether the C_PDU waits at the receiver for earlier ones.
    pub in_order: bool,
    /// How often it is sent again.
    pub repeats: u8,
    /// How long from its first frame on all of it may take; at most nine hours.
    pub window: Duration,
    /// The time after which the C_PDU is useless.
    pub expires: Option<Time>,
}

/// A frame to be sent now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DatagramFrame<'a> {
    /// To whom.
    pub to: Address,
    /// The contents of the frame.
    pub datagram: Datagram<'a>,
    /// Whether it was sent before.
    pub is_repeat: bool,
}

base::counters! {
    /// Counts since the start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct SenderStats {
        /// Frames sent for the first time.
        pub frames: counter(frames);
        /// Frames sent again.
        pub repeats: counter(frames);
        /// C_PDUs sent the requested number of times.
        pub done: counter(c_pdus);
        /// C_PDUs whose time or window was over before they were sent once.
        pub expired: counter(c_pdus);
        /// Repeats that were not sent because time or window were over.
        pub cut_short: counter(times);
    }
}

/// The sending end, for all destinations.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Expedited, then others.
    queues: [Queue; 2],
    /// The C_PDU whose last frame was just given.
    last: Option<Waiting>,
    outcomes: VecDeque<(RequestId, Outcome)>,
    stats: SenderStats,
}

#[derive(Clone, Debug)]
struct Queue {
    next_id: u16,
    waiting: VecDeque<Waiting>,
}

#[derive(Clone, Debug)]
struct Waiting {
    c_pdu: DatagramPdu,
    /// Settled by the first frame.
    begun: Option<Begun>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    id: u16,
    piece: usize,
    closes: Time,
    /// Octets sent in this pass.
    offset: usize,
    passes: u8,
}

impl Sender {
    /// A sender that has sent nothing; the C_PDUs of each kind are numbered from `first_id` on.
    ///
    /// It is best random: what a node sends after a restart is then no repeat.
    #[must_use]
    pub fn new(first_id: u16) -> Self {
        let queue = Queue { next_id: first_id % DATAGRAM_IDS, waiting: VecDeque::new() };
        Self {
            queues: [queue.clone(), queue],
            last: None,
            outcomes: VecDeque::new(),
            stats: SenderStats::default(),
        }
    }

    /// Takes a C_PDU to be sent after those of its kind.
    ///
    /// # Errors
    /// Gives it back when too many wait, or it is too long.
    pub fn push(&mut self, c_pdu: DatagramPdu) -> Result<(), DatagramPdu> {
        let queue = &mut self.queues[usize::from(!c_pdu.is_expedited)];
        if queue.waiting.len() >= MAX_WAITING || c_pdu.octets.len() > MAX_C_PDU {
            return Err(c_pdu);
        }
        queue.waiting.push_back(Waiting { c_pdu, begun: None });
        Ok(())
    }

    /// Gives up what is of no more use.
    pub fn handle_timeout(&mut self, now: Time) {
        for index in 0..2 {
            let waiting = std::mem::take(&mut self.queues[index].waiting);
            for waiting in waiting {
                if waiting.ends().is_some_and(|at| at <= now) {
                    self.end(&waiting);
                } else {
                    self.queues[index].waiting.push_back(waiting);
                }
            }
        }
    }

    /// The next frame, with a segment of at most `room` octets; the frame starts on the air at `at`.
    ///
    /// A C_PDU is cut into equal pieces of at most `segment` octets when it is begun, and into shorter ones where
    /// `segment` is less later. Between its repeats, other C_PDUs of the same kind are sent.
    pub fn poll(&mut self, at: Time, segment: usize, room: usize) -> Option<DatagramFrame<'_>> {
        self.handle_timeout(at);
        for index in 0..2 {
            let queue = &mut self.queues[index];
            let Some(Waiting { c_pdu, begun }) = queue.waiting.front_mut() else { continue };
            let all = c_pdu.octets.len();
            let new = Begun {
                id: queue.next_id,
                piece: all.div_ceil(all.div_ceil(segment.clamp(1, MAX_SEGMENT)).max(1)).max(1),
                closes: at + c_pdu.window.max(Duration::from_millis(WINDOW_UNIT_MS)),
                offset: 0,
                passes: 0,
            };
            let state = begun.unwrap_or(new);
            let len = state.piece.min(segment.max(1)).min(all - state.offset);
            if len > room {
                continue;
            }
            if begun.is_none() {
                queue.next_id = (queue.next_id + 1) % DATAGRAM_IDS;
            }
            let is_pass_over = state.offset + len == all;
            *begun = Some(if is_pass_over {
                Begun { offset: 0, passes: state.passes + 1, ..state }
            } else {
                Begun { offset: state.offset + len, ..state }
            });
            let is_repeat = state.passes > 0;
            self.stats.repeats += u64::from(is_repeat);
            self.stats.frames += u64::from(!is_repeat);
            return self.outgoing(index, at, state, len, is_pass_over);
        }
        None
    }

    /// The outcome of a C_PDU.
    pub fn poll_outcome(&mut self) -> Option<(RequestId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// Octets still to be sent, repeats included.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let all = self.queues.iter().flat_map(|queue| &queue.waiting);
        all.map(|Waiting { c_pdu, begun }| {
            let done = begun.map_or((0, 0), |begun| (usize::from(begun.passes), begun.offset));
            let passes = (usize::from(c_pdu.repeats) + 1).saturating_sub(done.0);
            (passes * c_pdu.octets.len()).saturating_sub(done.1)
        })
        .sum()
    }

    /// Whether something expedited waits.
    #[must_use]
    pub fn has_expedited(&self) -> bool {
        !self.queues[0].waiting.is_empty()
    }

    /// Whether anything waits.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.queues.iter().any(|queue| !queue.waiting.is_empty())
    }

    /// When the next C_PDU is of no more use.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.queues.iter().flat_map(|queue| &queue.waiting).filter_map(Waiting::ends).min()
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// The frame at the head of a queue; after it the C_PDU goes to the end of the queue, or out.
    fn outgoing(
        &mut self,
        index: usize,
        at: Time,
        begun: Begun,
        len: usize,
        is_pass_over: bool,
    ) -> Option<DatagramFrame<'_>> {
        let queue = &mut self.queues[index].waiting;
        let waiting = if is_pass_over {
            let waiting = queue.pop_front()?;
            if begun.passes == waiting.c_pdu.repeats {
                self.stats.done += 1;
                self.outcomes.push_back((waiting.c_pdu.id, Outcome::Done));
                self.last.insert(waiting)
            } else {
                queue.push_back(waiting);
                queue.back()?
            }
        } else {
            queue.front()?
        };
        let c_pdu = &waiting.c_pdu;
        let left = begun.closes.since(at).as_millis().div_ceil(u128::from(WINDOW_UNIT_MS));
        let datagram = Datagram {
            is_expedited: c_pdu.is_expedited,
            id: begun.id,
            in_order: c_pdu.in_order,
            size: u16::try_from(c_pdu.octets.len()).unwrap_or(u16::MAX),
            offset: u16::try_from(begun.offset).unwrap_or(u16::MAX),
            window: u16::try_from(left).unwrap_or(u16::MAX),
            segment: CpduSegment::new(&c_pdu.octets[begun.offset..begun.offset + len]),
        };
        Some(DatagramFrame { to: c_pdu.to, datagram, is_repeat: begun.passes > 0 })
    }

    /// Tells the outcome of a C_PDU whose time is over.
    fn end(&mut self, waiting: &Waiting) {
        let was_sent = waiting.begun.is_some_and(|begun| begun.passes > 0);
        let outcome = if was_sent {
            self.stats.cut_short += 1;
            Outcome::Done
        } else {
            self.stats.expired += 1;
            Outcome::not_arrived(Failure::Expired)
        };
        self.outcomes.push_back((waiting.c_pdu.id, outcome));
    }
}

impl Waiting {
    /// After when none of it may be sent.
    fn ends(&self) -> Option<Time> {
        let closes = self.begun.map(|begun| begun.closes);
        self.c_pdu.expires.into_iter().chain(closes).min()
    }
}
