//! A direction of the emulated cable: a drop-tail queue before a channel, frames in flight after it.
//!
//! ```text
//!   handle_frame ──▶ queue ──▶ channel ──▶ in flight ──▶ poll_transmit
//!                    full?     lost?
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;

use base::rng::Rng;
use base::time::{Time, earliest};
use sim::channel::{Channel, Config};
use sim::medium::{Admission, Room};

/// Octets of Ethernet's header, replaced by [`Config::framing`] on the emulated link.
const ETHERNET: usize = 14;

/// The most octets of frames queued or in flight, per direction: more than 1 Gbit/s over half a
/// second.
const MEMORY: usize = 64 << 20;

/// Frames of one direction, between their reception and their sending.
#[derive(Debug)]
pub struct Direction {
    channel: Channel,
    queue: VecDeque<Waiting>,
    room: Room,
    flight: BinaryHeap<Reverse<Flying>>,
    launched: u64,
    held: usize,
    spare: Vec<Vec<u8>>,
    stats: Stats,
}

/// Counters of a direction's frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Frames that came in.
    pub received: u64,
    /// Octets of received frames without Ethernet's header.
    pub received_octets: u64,
    /// Frames put on the link, including lost ones.
    pub sent: u64,
    /// Frames with IP put on the link.
    pub sent_ip: u64,
    /// Their octets.
    pub sent_octets: u64,
    /// Frames that the link lost.
    pub lost: u64,
    /// Frames that got through.
    pub delivered: u64,
    /// Their octets.
    pub delivered_octets: u64,
    /// Frames that found the queue full.
    pub queue_full: u64,
    /// Frames that found the memory full.
    pub memory_full: u64,
}

#[derive(Debug)]
struct Waiting {
    arrived: Time,
    frame: Vec<u8>,
}

/// Ordered by arrival, then by departure.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Flying {
    arrives_at: Time,
    number: u64,
    frame: Vec<u8>,
}

impl Direction {
    /// A direction whose queue takes `queue_limit` frames while another is sent.
    #[must_use]
    pub fn new(config: Config, queue_limit: usize, rng: Rng) -> Self {
        Self {
            channel: Channel::new(config, rng),
            queue: VecDeque::new(),
            room: Room { packets: queue_limit, octets: usize::MAX },
            flight: BinaryHeap::new(),
            launched: 0,
            held: 0,
            spare: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Takes a whole frame, in any number of parts.
    pub fn handle_frame(&mut self, now: Time, parts: &[&[u8]]) {
        self.handle_timeout(now);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.stats.received += 1;
        self.stats.received_octets += payload(len);
        let is_idle = self.channel.idle_at() <= now;
        let admission = self.room.admit(is_idle, (self.queue.len(), 0), len);
        if admission == Admission::Refused {
            self.stats.queue_full += 1;
            return;
        }
        if self.held + len > MEMORY {
            self.stats.memory_full += 1;
            return;
        }

        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        for part in parts {
            frame.extend_from_slice(part);
        }
        self.held += len;
        if admission == Admission::Sent {
            self.launch(now, frame);
        } else {
            self.queue.push_back(Waiting { arrived: now, frame });
        }
    }

    /// Puts due frames on the link. A late call does no harm: frames leave at the time when they
    /// were due.
    pub fn handle_timeout(&mut self, now: Time) {
        while self.channel.idle_at() <= now
            && let Some(Waiting { arrived, frame }) = self.queue.pop_front()
        {
            self.launch(arrived.max(self.channel.idle_at()), frame);
        }
    }

    /// Replaces `out` by the next arrived frame, if any; returns whether there was one.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.handle_timeout(now);
        if self.flight.peek().is_none_or(|Reverse(first)| first.arrives_at > now) {
            return false;
        }
        let Some(Reverse(Flying { frame, .. })) = self.flight.pop() else { return false };
        let len = frame.len();
        self.stats.delivered += 1;
        self.stats.delivered_octets += payload(len);
        self.recycle(mem::replace(out, frame), len);
        true
    }

    /// When the next frame leaves the queue or arrives.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let departure = self.queue.front().map(|_| self.channel.idle_at());
        let arrival = self.flight.peek().map(|Reverse(first)| first.arrives_at);
        earliest(departure, arrival)
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn launch(&mut self, start: Time, frame: Vec<u8>) {
        let len = frame.len();
        let sent = self.channel.transmit(start, len.saturating_sub(ETHERNET));
        self.stats.sent += 1;
        self.stats.sent_ip += u64::from(is_ip(&frame));
        self.stats.sent_octets += payload(len);
        let Some(arrives_at) = sent.arrives_at else {
            self.stats.lost += 1;
            self.recycle(frame, len);
            return;
        };
        self.launched += 1;
        self.flight.push(Reverse(Flying { arrives_at, number: self.launched, frame }));
    }

    /// Keeps a buffer for a later frame, now that a frame of `len` octets is gone.
    fn recycle(&mut self, buffer: Vec<u8>, len: usize) {
        self.held -= len;
        if self.spare.len() < 1_024 {
            self.spare.push(buffer);
        }
    }
}

fn payload(frame: usize) -> u64 {
    u64::try_from(frame.saturating_sub(ETHERNET)).unwrap_or(u64::MAX)
}

fn is_ip(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::quantity::BitRate;
    use sim::channel::Loss;

    use super::*;

    #[test]
    fn frames_leave_the_queue_at_the_rate_and_arrive_after_the_delay() {
        let mut direction = direction(config(), 10);
        for number in 0..3 {
            direction.handle_frame(Time::ZERO, &[&frame(number)]);
        }

        assert_eq!(drain(&mut direction), [(60, 0), (70, 1), (80, 2)]);
    }

    #[test]
    fn waking_late_does_not_slow_the_link() {
        let mut direction = direction(config(), 10);
        for number in 0..3 {
            direction.handle_frame(Time::ZERO, &[&frame(number)]);
        }

        // Nobody looks for 25 ms, while the second frame should have left.
        direction.handle_timeout(at_ms(25));

        assert_eq!(drain(&mut direction), [(60, 0), (70, 1), (80, 2)]);
    }

    #[test]
    fn a_full_queue_drops_the_newest() {
        let mut direction = direction(config(), 2);
        for number in 0..5 {
            direction.handle_frame(Time::ZERO, &[&frame(number)]);
        }

        assert_eq!(drain(&mut direction), [(60, 0), (70, 1), (80, 2)]);
        assert_eq!(direction.stats().queue_full, 2);
    }

    #[test]
    fn without_a_queue_an_idle_link_takes_a_frame_and_a_busy_one_none() {
        let mut direction = direction(config(), 0);
        for ms in [0, 5, 10, 20] {
            direction.handle_frame(at_ms(ms), &[&frame(u8::try_from(ms).unwrap())]);
        }

        assert_eq!(drain(&mut direction), [(60, 0), (70, 10), (80, 20)]);
        assert_eq!(direction.stats().queue_full, 1);
    }

    #[test]
    fn every_frame_is_counted_once() {
        let loss = Loss::Trace([false, true].into());
        let mut direction = direction(Config { loss, ..config() }, 3);
        for number in 0..6 {
            direction.handle_frame(Time::ZERO, &[&frame(number)]);
        }

        drain(&mut direction);

        let expected = Stats {
            received: 6,
            received_octets: 600,
            sent: 4,
            sent_ip: 4,
            sent_octets: 400,
            lost: 2,
            delivered: 2,
            delivered_octets: 200,
            queue_full: 2,
            memory_full: 0,
        };
        assert_eq!(direction.stats(), expected);
        assert_eq!(direction.held, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut direction = direction(Config { rate: BitRate::Unlimited, ..config() }, 10);
        let huge = vec![0; 1 << 20];
        for _ in 0..100 {
            direction.handle_frame(Time::ZERO, &[&huge]);
        }

        assert_eq!(direction.stats().memory_full, 36);
        assert_eq!(direction.held, MEMORY);
    }

    /// 100 octets take 10 ms.
    fn config() -> Config {
        Config {
            rate: BitRate::from_bits_per_s(80_000).unwrap(),
            delay: Duration::from_millis(50),
            ..Config::default()
        }
    }

    fn direction(config: Config, queue: usize) -> Direction {
        Direction::new(config, queue, Rng::stream(1, "direction test"))
    }

    fn frame(number: u8) -> Vec<u8> {
        let mut frame = vec![0; 114];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = number;
        frame
    }

    /// When each frame arrives, in ms, and its number.
    fn drain(direction: &mut Direction) -> Vec<(u64, u8)> {
        let (mut arrivals, mut out) = (Vec::new(), Vec::new());
        while let Some(now) = direction.next_timeout() {
            while direction.poll_transmit(now, &mut out) {
                arrivals.push((now.as_nanos() / 1_000_000, out[14]));
            }
        }
        arrivals
    }

    fn at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }
}
