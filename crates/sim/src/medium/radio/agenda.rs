//! The agenda of future steps on the channel, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// A transmission ends.
    End { slot: u32 },
    /// A station begins the answer or the data that it has announced.
    Answer { station: u32 },
    /// A station's timer, unless it was set anew.
    Timer { station: u32, generation: u32 },
}

/// A heap of steps; nothing is ever removed from its middle.
///
/// At one instant frames end before others begin, and stations act in their order, so nothing depends
/// on the order of insertion.
#[derive(Debug, Default)]
pub struct Agenda(BinaryHeap<Reverse<(u64, u64)>>);

impl Agenda {
    pub fn add(&mut self, at: u64, step: Step) {
        let key = match step {
            Step::End { slot } => u64::from(slot) << 30,
            Step::Answer { station } => ANSWER | u64::from(station) << 30,
            Step::Timer { station, generation } => {
                TIMER | u64::from(station) << 30 | u64::from(generation & GENERATIONS)
            }
        };
        self.0.push(Reverse((at, key)));
    }

    /// The next step that is due at `now` or before.
    pub fn pop(&mut self, now: u64) -> Option<(u64, Step)> {
        let at = self.next()?;
        if at > now {
            return None;
        }
        let Reverse((at, key)) = self.0.pop()?;
        let index = u32::try_from(key >> 30 & INDICES).expect("it is masked");
        let step = match key & KINDS {
            ANSWER => Step::Answer { station: index },
            TIMER => {
                let generation = u32::try_from(key & u64::from(GENERATIONS)).expect("it is masked");
                Step::Timer { station: index, generation }
            }
            _ => Step::End { slot: index },
        };
        Some((at, step))
    }

    pub fn next(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}

const KINDS: u64 = 0b11 << 62;
const ANSWER: u64 = 1 << 62;
const TIMER: u64 = 2 << 62;
const INDICES: u64 = (1 << 32) - 1;
/// A timer's generation wraps around: nothing stays in the heap for so many.
pub const GENERATIONS: u32 = (1 << 30) - 1;
