//! Bounds the equations in advance: those beyond the losses that are expected or known.
//!
//! An equation in advance saves a flow a round trip if more is lost than expected; otherwise it is wasted. A fast path
//! has many sources in flight, and one equation serves all of them. A slow path has few: equations in advance would be
//! nearly as many as sources, and take much of the path.

use std::time::Duration;

use base::time::Time;

/// The octets of equations in advance for each octet of sources, while few sources are in flight, and while many are:
/// then nothing is held back.
const OF_FEW: f64 = 0.05;
const OF_MANY: f64 = 1.0;
/// So many sources in flight are many.
const MANY: u64 = 32;
/// The part of the path's room that equations in advance take besides.
const OF_ROOM: f64 = 0.1;
/// The most octets that are saved up: a long packet with all its repairs. After a pause of a round trip all are there.
const MOST: f64 = 12_000.0;
/// While more is to be sent, so many octets are left for what nothing will follow.
const RESERVE: f64 = 6_000.0;

/// The octets that equations in advance may take.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// What is left; a debt when negative.
    octets: f64,
    /// The time until which the path's room has been counted.
    at: Time,
    /// What the path's room brings in a second, in octets, since the newest source.
    each_second: f64,
    /// When a pause of a round trip since the newest source or equation will be over.
    rested_at: Time,
    rtt: Duration,
}

impl Advance {
    pub fn new(now: Time) -> Self {
        Self { octets: MOST, at: now, each_second: 0.0, rested_at: now, rtt: Duration::ZERO }
    }

    /// A source of so many `octets` was sent beside `others` in flight, on a path with a round trip of `rtt` and with room
    /// for `room` bit/s more.
    pub fn earn(
        &mut self,
        now: Time,
        (octets, others): (usize, u64),
        (room, rtt): (f64, Duration),
    ) {
        let part = if others < MANY { OF_FEW } else { OF_MANY };
        let left = self.left(now) + part * octets as f64;
        let each_second = OF_ROOM * room / 8.0;
        *self = Self { octets: left.min(MOST), at: now, each_second, rested_at: now + rtt, rtt };
    }

    /// An equation in advance was sent, in a datagram of so many octets.
    pub fn spend(&mut self, now: Time, octets: usize) {
        let left = self.left(now) - octets as f64;
        *self = Self { octets: left, at: now, rested_at: now + self.rtt, ..*self };
    }

    /// When an equation in advance may be sent if nothing else happens: `now` if it may already. `has_more`: sources
    /// wait for the path.
    pub fn ready_at(&self, now: Time, has_more: bool) -> Time {
        let lacks = if has_more { RESERVE } else { 0.0 } - self.left(now);
        if lacks < 0.0 {
            return now;
        }
        // One nanosecond more: rounding must not make it too early.
        let wait = Duration::from_secs_f64((lacks / self.each_second).min(1e6));
        self.rested_at.min(now + wait + Duration::from_nanos(1))
    }

    fn left(&self, now: Time) -> f64 {
        if self.rested_at <= now {
            return MOST;
        }
        (self.octets + self.each_second * now.since(self.at).as_secs_f64()).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(500);

    /// How many datagrams of 1,000 octets go in advance in 1,000 s, asked for every 10 ms, when a source goes every so
    /// many milliseconds.
    fn sent(room: f64, (interval, others): (u32, u64), has_more: bool) -> u32 {
        let mut advance = Advance::new(Time::ZERO);
        let mut sent = 0;
        for ms in (0..1_000_000).step_by(10) {
            let now = Time::ZERO + Duration::from_millis(1) * ms;
            if ms % interval == 0 {
                advance.earn(now, (1_000, others), (room, RTT));
            }
            while advance.ready_at(now, has_more) == now {
                advance.spend(now, 1_000);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn a_twentieth_goes_in_advance_and_more_where_there_is_room() {
        let busy = sent(0.0, (10, 5), false);
        assert!((5_000..=5_014).contains(&busy), "{busy}");
        let kept = busy - sent(0.0, (10, 5), true);
        assert!((5..=7).contains(&kept), "for the last ones: {kept}");

        // 5 datagrams a second, and as many by the room.
        let roomy = sent(400e3, (10, 5), false);
        assert!((9_990..=10_014).contains(&roomy), "{roomy}");
        let fast = sent(0.0, (10, 500), false);
        assert!((100_000..=100_014).contains(&fast), "one serves many: {fast}");
    }

    #[test]
    fn after_a_pause_all_may_go() {
        let mut advance = Advance::new(Time::ZERO);
        advance.earn(Time::ZERO, (1_000, 5), (0.0, RTT));
        advance.spend(Time::ZERO, 13_000);
        assert_eq!(advance.ready_at(Time::ZERO, true), Time::ZERO + RTT, "the end of a busy flow");
    }

    #[test]
    fn it_is_ready_when_it_says() {
        let mut advance = Advance::new(Time::ZERO);
        advance.earn(Time::ZERO, (1_000, 5), (1e6, RTT));
        advance.spend(Time::ZERO, 13_000);

        let at = advance.ready_at(Time::ZERO, false);

        assert!(at < Time::ZERO + RTT);
        let before = at - Duration::from_nanos(3);
        assert!(advance.ready_at(before, false) > before);
        assert_eq!(advance.ready_at(at, false), at);
        assert!(advance.ready_at(at, true) > at);
    }
}
