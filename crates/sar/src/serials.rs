//! Allocates serial numbers of transfers: 16 bits, in order, none used again too early.

use std::collections::BTreeSet;
use std::time::Duration;

use base::time::Time;

/// Which numbers are in use.
#[derive(Debug)]
pub struct Serials {
    next: u16,
    /// A bit for each number: in use, or resting.
    taken: Box<[u64; 1024]>,
    /// How many are taken.
    count: u32,
    /// Until when a number rests.
    resting: BTreeSet<(Time, u16)>,
}

/// How many numbers there are.
const ALL: u32 = 1 << 16;

impl Serials {
    /// `next` is the first number to use.
    pub fn new(next: u16) -> Self {
        Self { next, taken: Box::new([0; 1024]), count: 0, resting: BTreeSet::new() }
    }

    /// The next number that is free.
    pub fn take(&mut self, now: Time) -> Option<u16> {
        self.wake(now);
        if self.count == ALL {
            return None;
        }
        while self.is_taken(self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let serial = self.next;
        self.occupy(serial);
        self.next = serial.wrapping_add(1);
        Some(serial)
    }

    /// Reserves exactly this number for a resumed transfer; false when in use.
    pub fn take_again(&mut self, serial: u16) -> bool {
        if self.is_taken(serial) {
            return false;
        }
        self.occupy(serial);
        true
    }

    /// A transfer is over: its number rests for `rest`.
    pub fn release(&mut self, now: Time, serial: u16, rest: Duration) {
        self.resting.insert((now + rest, serial));
    }

    /// When a number becomes free, if none is.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.count == ALL).then(|| self.resting.first().map(|(at, _)| *at))?
    }

    fn wake(&mut self, now: Time) {
        while self.resting.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, serial)) = self.resting.pop_first()
        {
            self.taken[usize::from(serial / 64)] &= !(1 << (serial % 64));
            self.count -= 1;
        }
    }

    fn is_taken(&self, serial: u16) -> bool {
        self.taken[usize::from(serial / 64)] >> (serial % 64) & 1 == 1
    }

    fn occupy(&mut self, serial: u16) {
        self.taken[usize::from(serial / 64)] |= 1 << (serial % 64);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(10);

    #[test]
    fn a_number_comes_again_after_all_others_and_its_rest() {
        let mut serials = Serials::new(65_534);
        let now = Time::ZERO;
        let first: Vec<_> = (0..4).filter_map(|_| serials.take(now)).collect();
        assert_eq!(first, [65_534, 65_535, 0, 1]);
        serials.release(now, 65_534, REST);

        let others = (4..ALL).filter(|_| serials.take(now).is_some()).count();
        assert_eq!(u32::try_from(others), Ok(ALL - 4));
        assert_eq!(serials.take(now), None, "it rests");
        assert_eq!(serials.next_timeout(), Some(now + REST));
        assert_eq!(serials.take(now + REST), Some(65_534));
    }

    #[test]
    fn a_number_in_use_is_not_resumed_and_not_given() {
        let mut serials = Serials::new(5);

        assert!(serials.take_again(6));
        assert!(!serials.take_again(6));
        assert_eq!([(); 2].map(|()| serials.take(Time::ZERO)), [Some(5), Some(7)]);
    }
}
