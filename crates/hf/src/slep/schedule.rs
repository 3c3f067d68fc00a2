//! Chooses the next stream to send: by priority, then in rounds of sources, then in rounds of their streams.

use std::collections::{BTreeMap, VecDeque};

use super::config::Source;
use super::timers::StreamId;
use crate::s5066::service::{MAX_PRIORITY, PRIORITIES};

/// Streams that have something to send.
#[derive(Debug, Default)]
pub struct Ready {
    /// By priority.
    waiting: [Rounds; PRIORITIES],
    /// Streams among them, and streams that are over and may be among them still.
    listed: usize,
    over: usize,
}

/// Streams that are over and may be kept here, whatever the number of others.
const FEW: usize = 64;

/// Those of one priority.
#[derive(Debug, Default)]
struct Rounds {
    /// Sources with streams here, the next first.
    turns: VecDeque<Source>,
    streams: BTreeMap<Source, VecDeque<StreamId>>,
    /// Whether the first source has had its turn.
    is_served: bool,
}

impl Ready {
    /// A stream has something to send.
    pub fn push(&mut self, priority: u8, source: Source, stream: StreamId) {
        self.listed += 1;
        let rounds = &mut self.waiting[usize::from(priority.min(MAX_PRIORITY))];
        let streams = rounds.streams.entry(source).or_default();
        if streams.is_empty() {
            rounds.turns.push_back(source);
        }
        streams.push_back(stream);
    }

    /// The stream that was popped last goes on with its turn.
    pub fn push_first(&mut self, priority: u8, source: Source, stream: StreamId) {
        self.listed += 1;
        let rounds = &mut self.waiting[usize::from(priority.min(MAX_PRIORITY))];
        let streams = rounds.streams.entry(source).or_default();
        if streams.is_empty() {
            rounds.turns.push_front(source);
        }
        streams.push_front(stream);
        rounds.is_served &= rounds.turns.front() != Some(&source);
    }

    /// A stream that has something to send is over; whether it is time to [drop](Self::retain) such streams.
    pub fn give_up(&mut self) -> bool {
        self.over += 1;
        self.over > FEW.max(self.listed / 2)
    }

    /// Drops streams that are over.
    pub fn retain(&mut self, is_live: impl Fn(StreamId) -> bool) {
        (self.listed, self.over) = (0, 0);
        for rounds in &mut self.waiting {
            let first = rounds.turns.front().copied();
            rounds.streams.retain(|_, streams| {
                streams.retain(|stream| is_live(*stream));
                self.listed += streams.len();
                !streams.is_empty()
            });
            let Rounds { turns, streams, is_served } = rounds;
            turns.retain(|source| streams.contains_key(source));
            *is_served &= turns.front().copied() == first;
        }
    }

    /// Whether nothing of a higher priority waits.
    pub fn is_next(&self, priority: u8) -> bool {
        self.waiting.iter().skip(usize::from(priority) + 1).all(|rounds| rounds.turns.is_empty())
    }

    /// The highest priority with a waiting stream.
    pub fn highest(&self) -> Option<u8> {
        let has_some = |priority: &u8| !self.waiting[usize::from(*priority)].turns.is_empty();
        (0..=MAX_PRIORITY).rev().find(has_some)
    }

    /// Whose turn it is.
    pub fn pop(&mut self) -> Option<StreamId> {
        let popped = self.waiting.iter_mut().rev().find_map(Rounds::pop);
        self.listed -= usize::from(popped.is_some());
        popped
    }
}

impl Rounds {
    fn pop(&mut self) -> Option<StreamId> {
        if std::mem::take(&mut self.is_served) {
            self.turns.rotate_left(1);
        }
        let source = *self.turns.front()?;
        let streams = self.streams.get_mut(&source)?;
        let stream = streams.pop_front()?;
        self.is_served = !streams.is_empty();
        if streams.is_empty() {
            self.streams.remove(&source);
            self.turns.pop_front();
        }
        Some(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_take_turns_however_many_streams_each_has() {
        let mut ready = Ready::default();
        for stream in 0..4 {
            ready.push(4, Source(1), StreamId(stream));
        }
        ready.push(4, Source(2), StreamId(10));
        ready.push(4, Source(3), StreamId(20));
        ready.push(5, Source(9), StreamId(90));

        let mut order = vec![ready.pop().unwrap().0];
        for _ in 0..9 {
            let stream = ready.pop().unwrap();
            order.push(stream.0);
            // All have more.
            let source = if stream.0 < 10 { 1 } else { u128::from(stream.0 / 10) + 1 };
            ready.push(4, Source(source), stream);
        }

        assert_eq!(order, [90, 0, 10, 20, 1, 10, 20, 2, 10, 20]);
    }

    #[test]
    fn streams_that_are_over_leave_no_trace() {
        let mut ready = Ready::default();
        ready.push(4, Source(1), StreamId(0));
        for stream in 1..10_000 {
            ready.push(4, Source(1 + u128::from(stream % 7)), StreamId(stream));
            if ready.give_up() {
                ready.retain(|stream| stream == StreamId(0));
            }
            assert!(ready.listed < 200);
        }
        ready.retain(|stream| stream == StreamId(0));

        assert_eq!((ready.pop(), ready.pop()), (Some(StreamId(0)), None));
        assert!(ready.waiting.iter().all(|it| it.turns.is_empty() && it.streams.is_empty()));
    }

    #[test]
    fn who_goes_on_with_its_turn_is_not_overtaken() {
        let mut ready = Ready::default();
        for (source, stream) in [(1, 0), (1, 1), (2, 10)] {
            ready.push(4, Source(source), StreamId(stream));
        }

        let first = ready.pop().unwrap();
        ready.push_first(4, Source(1), first);
        assert_eq!(ready.pop(), Some(first));
        let second = ready.pop().unwrap();
        ready.push_first(4, Source(2), second);
        let order: Vec<u64> = std::iter::from_fn(|| ready.pop()).map(|it| it.0).collect();

        assert_eq!((first.0, second.0, &order[..]), (0, 10, &[10, 1][..]));
        assert_eq!((ready.highest(), ready.is_next(0)), (None, true));
    }
}
