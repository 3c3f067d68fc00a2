//! Measures the link to a neighbour by numbered hellos: its loss and its length.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

use crate::LinkReport;
use crate::hello::Reception;

/// Numbered hellos that are counted: the latest.
const COUNTED: u8 = 64;
/// More than this many missed at a stretch are an outage, and no measure of loss.
const MOST_MISSED: u8 = 8;
/// Hellos to everyone are numbered from 1 to this.
const NUMBERS: u8 = 255;
/// Hellos to everyone whose time is remembered.
const REMEMBERED: usize = 8;

/// The hellos to everyone heard from one neighbour.
#[derive(Debug, Default)]
pub struct Arrivals {
    arrived: u8,
    lost: u8,
    last: Option<(u8, Time)>,
}

/// Our last hellos to everyone on a link.
#[derive(Debug, Default)]
pub struct Departures {
    /// The latest last.
    sent: VecDeque<(u8, Time)>,
}

impl Arrivals {
    /// Counts a hello with this number, and the hellos missing before it.
    pub fn count(&mut self, now: Time, number: u8) {
        if number == 0 {
            return;
        }
        // The first hello says nothing about earlier ones.
        if let Some((last, _)) = self.last.replace((number, now)) {
            let missed = between(last, number);
            self.arrived += 1;
            self.lost += if missed > MOST_MISSED { 0 } else { missed };
        }
        if self.arrived + self.lost > COUNTED {
            self.arrived /= 2;
            self.lost /= 2;
        }
    }

    /// The reception that we report to the neighbour.
    pub fn reception(&self, now: Time) -> Reception {
        let (last, at) = self.last.unwrap_or((0, now));
        let age = u32::try_from(now.since(at).as_micros()).unwrap_or(u32::MAX);
        Reception { heard: self.arrived, lost: self.lost, last, age }
    }
}

impl Departures {
    /// Numbers a hello sent now.
    pub fn number(&mut self, now: Time) -> u8 {
        let number = next(self.sent.back().map_or(0, |&(last, _)| last));
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((number, now));
        number
    }

    /// Derives a report on the link to a neighbour from its `reception` of our hellos.
    pub fn report(&self, now: Time, reception: Reception) -> LinkReport {
        let sent = self.sent.iter().find(|(number, _)| *number == reception.last);
        let age = Duration::from_micros(u64::from(reception.age));
        LinkReport {
            arrived: u32::from(reception.heard),
            lost: u32::from(reception.lost),
            round_trip: sent.and_then(|&(_, at)| now.since(at).checked_sub(age)),
        }
    }
}

fn next(number: u8) -> u8 {
    number % NUMBERS + 1
}

/// How many numbers lie between two.
fn between(last: u8, number: u8) -> u8 {
    let next = next(last);
    if number >= next { number - next } else { NUMBERS - next + number }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(2);

    #[test]
    fn what_is_missing_between_two_numbers_was_lost() {
        let mut arrivals = Arrivals::default();
        let mut departures = Departures::default();
        let mut now = Time::ZERO;

        // Over the end of the numbers: of each five the last two are lost.
        for turn in 0..300 {
            now += STEP;
            let number = departures.number(now);
            assert_ne!(number, 0);
            if turn % 5 < 3 {
                arrivals.count(now, number);
            }
        }

        let Reception { heard, lost, .. } = arrivals.reception(now);
        let rate = f64::from(lost) / f64::from(heard + lost);
        assert!((rate - 0.4).abs() < 0.03, "{heard} heard, {lost} lost");
    }

    #[test]
    fn a_long_silence_is_not_taken_for_loss() {
        let mut arrivals = Arrivals::default();
        for number in [250, 251, 7, 8] {
            arrivals.count(Time::ZERO, number);
        }

        assert_eq!((arrivals.arrived, arrivals.lost), (3, 0));
    }

    #[test]
    fn hellos_to_a_single_station_do_not_count() {
        let mut arrivals = Arrivals::default();
        for number in [1, 0, 0, 2] {
            arrivals.count(Time::ZERO, number);
        }

        assert_eq!((arrivals.arrived, arrivals.lost), (1, 0));
    }

    #[test]
    fn the_round_trip_is_what_the_neighbour_did_not_wait() {
        let mut departures = Departures::default();
        let number = departures.number(Time::ZERO);
        departures.number(Time::ZERO + STEP);
        let reception = |last, age| Reception { heard: 9, lost: 1, last, age };

        let now = Time::ZERO + Duration::from_millis(3_030);
        let report = departures.report(now, reception(number, 3_000_000));

        let round_trip = Some(Duration::from_millis(30));
        assert_eq!(report, LinkReport { arrived: 9, lost: 1, round_trip });
        // The neighbour cannot have waited for longer than the time since the hello, nor heard a
        // hello never sent.
        for (last, age) in [(number, 4_000_000), (100, 0), (0, 0)] {
            assert_eq!(departures.report(now, reception(last, age)).round_trip, None);
        }
    }
}
