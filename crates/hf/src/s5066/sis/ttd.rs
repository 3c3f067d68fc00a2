//! The time to die of an S_PDU: a day and a time of day in GMT, in 20 bits (A.3.1.1).

use std::time::Duration;

const DAY: u64 = 86_400;
/// Days ahead that four bits of a day's number can tell from yesterday.
const DAYS_AHEAD: u64 = 14;

/// When an S_PDU is to be discarded.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ttd {
    /// The day of the year, from 1, modulo 16.
    pub day: u8,
    /// Seconds of that day, halved.
    pub half_seconds: u16,
}

impl Ttd {
    /// The first point not before `expires` that it can tell; both are since 1970 in GMT.
    ///
    /// `None` when that is too far away from `now` to be told.
    #[must_use]
    pub fn new(now: Duration, expires: Duration) -> Option<Self> {
        let odd = expires.as_secs() % 2 == 1 || expires.subsec_nanos() > 0;
        let seconds = (expires.as_secs() / 2 + u64::from(odd)) * 2;
        let ttd = Self {
            day: u8::try_from(day_of_year(seconds / DAY) % 16).unwrap_or_default(),
            half_seconds: u16::try_from(seconds % DAY / 2).unwrap_or_default(),
        };
        (ttd.time(now) == Duration::from_secs(seconds)).then_some(ttd)
    }

    /// The point that it tells, since 1970 in GMT: the one closest to today.
    #[must_use]
    pub fn time(self, now: Duration) -> Duration {
        let today = now.as_secs() / DAY;
        let days =
            [today, today.saturating_sub(1)].into_iter().chain(today + 1..=today + DAYS_AHEAD);
        let day = days.into_iter().find(|day| day_of_year(*day) % 16 == u64::from(self.day));
        // Every remainder is among 16 days in a row, but for the turn of a year. What is not there
        // then no node sends: it counts as past.
        let seconds = day.map_or(0, |day| day * DAY + u64::from(self.half_seconds) * 2);
        Duration::from_secs(seconds)
    }
}

/// The number of a day in its year, from 1; `day` counts from 1 January 1970.
fn day_of_year(mut day: u64) -> u64 {
    // 400 years repeat.
    day %= 146_097;
    let mut year = 1970;
    loop {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = if is_leap { 366 } else { 365 };
        if day < days {
            return day + 1;
        }
        day -= days;
        year += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1;

    #[test]
    fn days_are_numbered_within_their_year() {
        // 1970-01-01, 1970-12-31, 1971-01-01, 1972-12-31, 2026-11-21, 2000-02-29.
        let days = [0, 364, 365, 1_095, 20_778, 11_016].map(day_of_year);

        assert_eq!(days, [1, 365, 1, 366, 325, 60]);
    }

    #[test]
    fn a_point_is_read_back_across_the_turn_of_a_year() {
        for today in [0, 1, 364, 365, 1_094, 1_095, 20_778] {
            for ahead in [0, SECOND, DAY - 1, DAY, 5 * DAY, 11 * DAY] {
                let now = Duration::from_secs(today * DAY + 43_200);
                let expires = now + Duration::from_secs(ahead);

                let read = Ttd::new(now, expires).unwrap().time(now);

                assert!(read >= expires, "{today} {ahead}");
                assert!(read <= expires + Duration::from_secs(2), "{today} {ahead}");
            }
        }
    }

    #[test]
    fn what_is_too_far_away_is_not_told() {
        let now = Duration::from_secs(20_778 * DAY);

        assert_eq!(Ttd::new(now, now + Duration::from_secs(15 * DAY)), None);
    }

    #[test]
    fn yesterday_is_past() {
        let now = Duration::from_secs(20_778 * DAY + 5);
        let ttd = Ttd::new(now, Duration::from_secs(20_777 * DAY + 80_000)).unwrap();

        assert!(ttd.time(now) < now);
    }
}
