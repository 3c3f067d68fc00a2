//! Random waypoint: a node picks a place and a speed, goes there, rests, and picks again.
//!
//! Right after a usual start, with all nodes setting out at once, nodes are faster and further from the
//! middle than later: they get stuck on long and slow ways only with time. A steady start draws the state
//! seen by an observer at a random moment, so a run needs no time to settle (Navidi and Camp, IEEE
//! Transactions on Mobile Computing 3(1), 2004).

use std::time::Duration;

use base::parameter::{Kind, Rule, names};
use base::rng::Rng;
use base::time::Time;

use super::motion::{Motion, Position};

/// A motion may have this many legs.
pub const MAX_LEGS: u32 = 1_000_000;

base::parameters! {
    /// Parameters of random waypoint other than its area.
    pub static PARAMETERS = "random-waypoint";

    /// The model and its parameters.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Waypoint from default() {
        /// Metres a second at least.
        // Above 0, as nodes would come to a halt with time.
        #[allowed(Kind::number(1e-3..=1e6))]
        pub slowest: f64 = 1.0;

        /// Metres a second at most.
        #[allowed(Kind::number(1e-3..=1e6))]
        pub fastest: f64 = 20.0;

        /// How speeds between these are drawn; the normal distribution has them two standard deviations from its
        /// middle, as in version 2 of ns-2's `setdest`.
        #[allowed(Kind::Word(&names(&SPEEDS)))]
        pub speeds: Speeds = Speeds::default();

        /// How long a node rests when it arrives.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(86_400)))]
        pub pause: Duration = Duration::from_secs(5);

        /// Whether the motion begins as it goes on; otherwise with a rest at a random place, and faster than later.
        #[allowed(Kind::Flag)]
        pub is_steady as "steady": bool = true;

        /// The corner of the area with the least coordinates.
        pub corner: Position = Position::default();

        /// Metres of the area from west to east, and from south to north.
        pub area: [f64; 2] = [1000.0, 1000.0];
    }

    rules [Rule {
        names: &["slowest", "fastest"],
        allowed: "`slowest` is at most `fastest`",
        holds: |it| it.slowest <= it.fastest,
    }]
}

/// How speeds are drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Speeds {
    /// From a normal distribution around the middle of the range. The range spans four standard deviations;
    /// values outside are drawn again. As `setdest` of ns-2, version 2.
    ClippedNormal,
    /// All speeds of the range are equally likely.
    #[default]
    Uniform,
}

base::words!(Speeds: SPEEDS);

const SPEEDS: [(&str, Speeds); 2] =
    [("uniform", Speeds::Uniform), ("clipped-normal", Speeds::ClippedNormal)];

/// Why parameters of the model make no motion.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Impossible {
    /// A side of the area.
    #[error("the sides of the area are 1 to 10000000 m, and its corners within 10000000 m")]
    Area,
    /// The number of legs.
    #[error(
        "the area is too small and the nodes too fast for a run of this length: they would set \
             out more than {MAX_LEGS} times"
    )]
    Legs,
    /// The range of speeds.
    #[error("speeds are 0.001 to 1000000 m/s, and the slowest is at most the fastest")]
    Speed,
}

impl Waypoint {
    /// Checks whether the model makes motions of this length.
    ///
    /// # Errors
    /// When a parameter is out of range, or nodes would set out all too often.
    pub fn check(&self, duration: Duration) -> Result<(), Impossible> {
        let is_near = |place: f64| (-1e7..=1e7).contains(&place);
        let corners = [self.corner.x, self.corner.y, self.corner.x + self.area[0]];
        let is_placed = corners.into_iter().chain([self.corner.y + self.area[1]]).all(is_near);
        if !is_placed || !self.area.iter().all(|side| (1.0..=1e7).contains(side)) {
            return Err(Impossible::Area);
        }
        if !(self.slowest >= 1e-3 && self.slowest <= self.fastest && self.fastest <= 1e6) {
            return Err(Impossible::Speed);
        }
        let legs = duration.as_secs_f64() / self.cycle();
        // Half of the allowed number, as the number of legs varies.
        if legs > f64::from(MAX_LEGS / 2) { Err(Impossible::Legs) } else { Ok(()) }
    }

    /// How a node moves for this long.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn motion(&self, rng: &mut Rng, duration: Duration) -> Result<Motion, Impossible> {
        self.check(duration)?;
        let (mut motion, mut now) = self.start(rng);
        let end = Time::ZERO + duration;
        for _ in 0..MAX_LEGS {
            if now >= end {
                return Ok(motion);
            }
            let (from, to) = (motion.position(now), self.place(rng));
            now = travel(&mut motion, now, from, to, self.speed(rng)) + self.pause;
        }
        Err(Impossible::Legs)
    }

    /// Metres a second over a long time, rests included.
    #[must_use]
    pub fn mean_speed(&self) -> f64 {
        self.mean_way() / self.cycle()
    }

    /// The mean way of a leg in metres: the mean distance of two points in a rectangle (Ghosh, Bulletin
    /// of the Calcutta Mathematical Society 43, 1951).
    fn mean_way(&self) -> f64 {
        let [a, b] = self.area;
        let d = libm::hypot(a, b);
        let straight = a * a * a / (b * b)
            + b * b * b / (a * a)
            + d * (3.0 - a * a / (b * b) - b * b / (a * a));
        let curved = b * b / a * libm::log((a + d) / b) + a * a / b * libm::log((b + d) / a);
        (straight + 2.5 * curved) / 15.0
    }

    /// The mean of 1 / speed.
    fn mean_slowness(&self) -> f64 {
        let (low, high) = (self.slowest, self.fastest);
        if high - low < 1e-9 * high {
            return 1.0 / low;
        }
        match self.speeds {
            Speeds::ClippedNormal => {
                // The middles of equal steps; the slowest speeds have the most weight.
                const STEPS: u32 = 1_000;
                let step = (high - low) / f64::from(STEPS);
                let (mut weight, mut sum) = (0.0, 0.0);
                for index in 0..STEPS {
                    let speed = low + (f64::from(index) + 0.5) * step;
                    let density = self.bell(speed);
                    weight += density;
                    sum += density / speed;
                }
                sum / weight
            }
            Speeds::Uniform => libm::log(high / low) / (high - low),
        }
    }

    /// Seconds from one departure to the next, in the mean.
    fn cycle(&self) -> f64 {
        self.mean_slowness() * self.mean_way() + self.pause.as_secs_f64()
    }

    /// The first leg or rest, and when it is over.
    fn start(&self, rng: &mut Rng) -> (Motion, Time) {
        if !self.is_steady {
            return (Motion::at_rest(self.place(rng)), Time::ZERO + self.pause);
        }
        if rng.chance(self.pause.as_secs_f64() / self.cycle()) {
            // Part of the rest is over.
            let motion = Motion::at_rest(self.place(rng));
            return (motion, Time::ZERO + rng.within(self.pause));
        }
        // Long ways are on longer, so they are found more often; slow ones too.
        let longest = libm::hypot(self.area[0], self.area[1]);
        let (begin, to) = loop {
            let (begin, to) = (self.place(rng), self.place(rng));
            if rng.chance(begin.distance_squared(to).sqrt() / longest) {
                break (begin, to);
            }
        };
        let speed = loop {
            let speed = self.speed(rng);
            if rng.chance(self.slowest / speed) {
                break speed;
            }
        };
        let part = rng.uniform();
        let from =
            Position::new(begin.x + (to.x - begin.x) * part, begin.y + (to.y - begin.y) * part);
        let mut motion = Motion::at_rest(from);
        let arrival = travel(&mut motion, Time::ZERO, from, to, speed);
        (motion, arrival + self.pause)
    }

    fn place(&self, rng: &mut Rng) -> Position {
        let [width, height] = self.area;
        let x = self.corner.x + width * rng.uniform();
        Position::new(x, self.corner.y + height * rng.uniform())
    }

    fn speed(&self, rng: &mut Rng) -> f64 {
        loop {
            let speed = self.slowest + (self.fastest - self.slowest) * rng.uniform();
            match self.speeds {
                Speeds::ClippedNormal if !rng.chance(self.bell(speed)) => {}
                Speeds::ClippedNormal | Speeds::Uniform => return speed,
            }
        }
    }

    /// The density of the clipped normal distribution, 1 in the middle.
    fn bell(&self, speed: f64) -> f64 {
        let sigma = (self.fastest - self.slowest) / 4.0;
        if sigma == 0.0 {
            return 1.0;
        }
        let z = (speed - f64::midpoint(self.slowest, self.fastest)) / sigma;
        libm::exp(-0.5 * z * z)
    }
}

/// Adds a leg; when it is over.
fn travel(motion: &mut Motion, start: Time, from: Position, to: Position, speed: f64) -> Time {
    let seconds = from.distance_squared(to).sqrt() / speed;
    let end = start + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    motion.go(start, end, to).expect("it arrives after it sets out");
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(side: f64, speeds: Speeds) -> Waypoint {
        Waypoint { area: [side, side], speeds, ..Waypoint::default() }
    }

    #[test]
    fn the_mean_speed_is_what_setdest_computes() {
        for (side, speeds, expected) in [
            (1200.0, Speeds::Uniform, 6.04),
            (1200.0, Speeds::ClippedNormal, 7.59),
            (800.0, Speeds::ClippedNormal, 7.364),
        ] {
            let mean = square(side, speeds).mean_speed();

            assert!((mean - expected).abs() < 0.005, "{side} {speeds:?}: {mean}");
        }
        assert!((square(1.0, Speeds::Uniform).mean_way() - 0.521_405).abs() < 1e-6);
    }

    /// The mean speed of many nodes between `begin` and `end`, in seconds.
    fn seen(model: &Waypoint, [begin, end]: [u64; 2]) -> f64 {
        const NODES: u32 = 4_000;
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut way = 0.0;
        for node in 0..NODES {
            let mut rng = Rng::stream(3, &format!("motion {node}"));
            let motion = model.motion(&mut rng, Duration::from_secs(end)).expect("it is possible");
            way += super::super::statistics::way(&motion, at(begin), at(end));
        }
        way / f64::from(NODES) / (end - begin) as f64
    }

    #[test]
    fn a_steady_start_has_the_mean_speed_at_once_and_for_good() {
        for speeds in [Speeds::Uniform, Speeds::ClippedNormal] {
            let model = square(1200.0, speeds);
            for span in [[0, 10], [100, 110], [800, 900]] {
                let mean = seen(&model, span);

                // The standard deviation of the speed at one moment is below 6 m/s, so five standard
                // errors of 4,000 nodes are below 0.48 m/s.
                assert!((mean - model.mean_speed()).abs() < 0.48, "{speeds:?} {span:?}: {mean}");
            }
        }
    }

    #[test]
    fn a_start_with_a_rest_is_not_steady() {
        let model = Waypoint { is_steady: false, ..square(1200.0, Speeds::Uniform) };

        assert!(seen(&model, [0, 5]) < 1e-9);
        assert!(seen(&model, [5, 15]) > model.mean_speed() + 2.0);
    }

    #[test]
    fn nodes_stay_in_the_area_and_within_the_speeds() {
        let model = Waypoint {
            corner: Position::new(-50.0, 400.0),
            area: [300.0, 20.0],
            slowest: 2.0,
            fastest: 3.0,
            ..Waypoint::default()
        };
        let mut rng = Rng::stream(1, "motion");

        let motion = model.motion(&mut rng, Duration::from_secs(3600)).expect("it is possible");

        assert!(motion.legs().len() > 20, "{}", motion.legs().len());
        for leg in motion.legs() {
            assert!((-50.0..=250.0).contains(&leg.to.x) && (400.0..=420.0).contains(&leg.to.y));
            assert!((2.0 - 1e-6..3.0 + 1e-6).contains(&leg.speed()), "{}", leg.speed());
        }
        let rests = motion.legs().windows(2).map(|pair| pair[1].start.since(pair[0].end));
        assert!(rests.into_iter().all(|rest| rest == model.pause));
    }

    #[test]
    fn what_makes_no_motion_is_refused() {
        let usual = Waypoint::default();
        let refused = |model: Waypoint| model.check(Duration::from_secs(900)).err();

        assert_eq!(refused(usual), None);
        assert_eq!(refused(Waypoint { slowest: 0.0, ..usual }), Some(Impossible::Speed));
        assert_eq!(refused(Waypoint { slowest: 21.0, ..usual }), Some(Impossible::Speed));
        assert_eq!(refused(Waypoint { fastest: f64::NAN, ..usual }), Some(Impossible::Speed));
        assert_eq!(refused(Waypoint { area: [0.0, 9.0], ..usual }), Some(Impossible::Area));
        assert_eq!(refused(Waypoint { area: [f64::NAN, 9.0], ..usual }), Some(Impossible::Area));
        let corner = Position::new(1e7, 0.0);
        assert_eq!(refused(Waypoint { corner, ..usual }), Some(Impossible::Area));
        let frantic = Waypoint {
            area: [1.0, 1.0],
            slowest: 1e5,
            fastest: 1e6,
            pause: Duration::ZERO,
            ..usual
        };
        assert_eq!(refused(frantic), Some(Impossible::Legs));
    }

    #[test]
    fn the_motion_of_a_seed_never_changes() {
        let draw = |name| {
            let mut rng = Rng::stream(42, name);
            let model = square(800.0, Speeds::ClippedNormal);
            let motion = model.motion(&mut rng, Duration::from_secs(900)).expect("it is possible");
            let Position { x, y } = motion.position(Time::ZERO + Duration::from_secs(450));
            (motion.legs().len(), format!("{x:.6} {y:.6}"))
        };

        assert_eq!(draw("motion a"), (15, "407.196661 726.963563".to_owned()));
        assert_ne!(draw("motion a"), draw("motion b"));
    }
}
