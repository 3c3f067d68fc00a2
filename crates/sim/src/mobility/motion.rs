//! The motion of a node in straight legs.

use std::time::Duration;

use base::time::Time;

/// A place on the ground, in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Metres to the east.
    pub x: f64,
    /// Metres to the north.
    pub y: f64,
}

impl Position {
    /// The place with these coordinates, in metres.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    /// The square of the distance to another place, in square metres.
    #[must_use]
    pub fn distance_squared(self, other: Self) -> f64 {
        let (x, y) = (self.x - other.x, self.y - other.y);
        x * x + y * y
    }
}

/// From a time on a node moves to a place at constant speed, and stays there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    /// When it sets out.
    pub start: Time,
    /// Where it is then.
    pub from: Position,
    /// When it arrives; at `start` or after it.
    pub end: Time,
    /// Where it is from then on.
    pub to: Position,
}

/// How a node moves: straight legs, and rests between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Motion {
    start: Position,
    /// Legs in order of time, without overlap.
    legs: Vec<Leg>,
}

/// A node would have to be somewhere else at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a node is told to arrive before it sets out")]
pub struct TooFast;

impl Motion {
    /// The motion of a node at rest.
    #[must_use]
    pub fn at_rest(place: Position) -> Self {
        Self { start: place, legs: Vec::new() }
    }

    /// Adds a leg: the node leaves its current place at `start` and arrives at `to` at `end`. A leg in
    /// progress is cut short.
    ///
    /// # Errors
    /// When `end` is before `start`.
    pub fn go(&mut self, start: Time, end: Time, to: Position) -> Result<(), TooFast> {
        if end < start {
            return Err(TooFast);
        }
        let from = self.position(start);
        self.legs.truncate(self.legs.partition_point(|leg| leg.start < start));
        if let Some(last) = self.legs.last_mut()
            && last.end > start
        {
            (last.end, last.to) = (start, from);
        }
        self.legs.push(Leg { start, from, end, to });
        Ok(())
    }

    /// Where the node is.
    #[must_use]
    pub fn position(&self, now: Time) -> Position {
        let after = self.legs.partition_point(|leg| leg.start <= now);
        let Some(leg) = after.checked_sub(1).map(|index| self.legs[index]) else {
            return self.start;
        };
        leg.position(now)
    }

    /// The leg that the node is on, or was on last; `None` before the first.
    #[must_use]
    pub fn leg(&self, now: Time) -> Option<Leg> {
        let after = self.legs.partition_point(|leg| leg.start <= now);
        after.checked_sub(1).map(|index| self.legs[index])
    }

    /// All legs, in order of time.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// The same motion, begun so much later; until then the node is where it begins.
    #[must_use]
    pub fn later(mut self, by: Duration) -> Self {
        for leg in &mut self.legs {
            (leg.start, leg.end) = (leg.start + by, leg.end + by);
        }
        self
    }

    /// Metres a second at the fastest.
    #[must_use]
    pub fn top_speed(&self) -> f64 {
        self.legs.iter().map(Leg::speed).fold(0.0, f64::max)
    }
}

impl Leg {
    /// Where a node on this leg is.
    #[must_use]
    pub fn position(&self, now: Time) -> Position {
        let Self { start, from, end, to } = *self;
        if now >= end {
            return to;
        }
        let part = now.since(start).as_secs_f64() / end.since(start).as_secs_f64();
        Position::new(from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part)
    }

    /// Metres a second.
    #[must_use]
    pub fn speed(&self) -> f64 {
        let time = self.end.since(self.start);
        let way = self.from.distance_squared(self.to).sqrt();
        if time == Duration::ZERO { 0.0 } else { way / time.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_rests_moves_and_is_told_to_go_elsewhere_on_the_way() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut motion = Motion::at_rest(Position::new(10.0, 0.0));
        motion.go(at(10), at(20), Position::new(110.0, 0.0)).unwrap();
        motion.go(at(15), at(25), Position::new(60.0, 100.0)).unwrap();

        let places = [0, 10, 13, 15, 20, 25, 99].map(|time| motion.position(at(time)));

        let expected = [(10., 0.), (10., 0.), (40., 0.), (60., 0.), (60., 50.), (60., 100.)];
        for (place, (x, y)) in places.iter().zip(expected) {
            assert!(place.distance_squared(Position::new(x, y)) < 1e-9, "{place:?}");
        }
        assert_eq!(places[6], places[5]);
        assert!((motion.top_speed() - 10.0).abs() < 1e-9);
        let later = motion.clone().later(Duration::from_secs(5));
        assert_eq!(later.position(at(20)), motion.position(at(15)));
        assert_eq!(motion.go(at(30), at(29), Position::default()), Err(TooFast));
    }
}
