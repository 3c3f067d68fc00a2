//! Positions of stations, and lists of their possible neighbours.
//!
//! Each station has a list of stations at most `reach` plus a slack away when the list was made (a Verlet
//! list), and looks for listeners there. The list stays valid until two stations can have come nearer by the
//! slack, so the cost of a transmission grows with its neighbourhood, not with the world.

use base::time::Time;

use crate::mobility::{Motion, Position};

/// The places of all stations.
#[derive(Debug)]
pub struct Field {
    motions: Vec<Motion>,
    tracks: Vec<Track>,
    reach: f64,
    slack: f64,
    /// Metres a second of the fastest.
    top_speed: f64,
    /// When stations are somewhere else at once, in order.
    jumps: Vec<u64>,
    /// Until when the lists are good, exclusively.
    good_until: u64,
    /// Where the list of each station begins in `near`; one more at the end.
    starts: Vec<u32>,
    near: Vec<u32>,
    /// The cell of each station, in the order of cells.
    cells: Vec<(Cell, u32)>,
}

type Cell = (i32, i32);

/// The part of a motion that a station is on.
#[derive(Clone, Copy, Debug)]
struct Track {
    from: Position,
    /// Metres a nanosecond.
    velocity: Position,
    since: u64,
    /// Until when this holds, exclusively.
    until: u64,
}

impl Field {
    /// An empty field where stations up to `reach` metres away matter.
    pub fn new(reach: f64) -> Self {
        Self {
            motions: Vec::new(),
            tracks: Vec::new(),
            reach,
            slack: reach / 10.0,
            top_speed: 0.0,
            jumps: Vec::new(),
            good_until: 0,
            starts: Vec::new(),
            near: Vec::new(),
            cells: Vec::new(),
        }
    }

    pub fn add(&mut self, motion: Motion) {
        self.tracks.push(Track::UNKNOWN);
        self.motions.push(motion);
        self.learn(self.motions.len() - 1);
    }

    /// Gives a station another motion.
    pub fn replace(&mut self, station: usize, motion: Motion) {
        self.motions[station] = motion;
        self.tracks[station] = Track::UNKNOWN;
        self.learn(station);
    }

    pub fn position(&self, station: usize, now: Time) -> Position {
        self.motions[station].position(now)
    }

    pub fn motion(&self, station: usize) -> &Motion {
        &self.motions[station]
    }

    /// Makes the lists anew if they are no longer good; before [`Field::around`].
    pub fn refresh(&mut self, now: u64) {
        if now >= self.good_until {
            self.rebuild(now);
        }
    }

    /// All that may be within reach of a station, and the square of the distance to each.
    pub fn around(&mut self, station: usize, now: u64, mut visit: impl FnMut(usize, f64)) {
        let Self { motions, tracks, starts, near, .. } = self;
        let here = place(motions, tracks, station, now);
        let list = starts[station] as usize..starts[station + 1] as usize;
        for &other in &near[list] {
            let other = other as usize;
            visit(other, here.distance_squared(place(motions, tracks, other, now)));
        }
    }

    /// The square of the distance between two stations.
    pub fn distance_squared(&self, a: usize, b: usize, now: Time) -> f64 {
        self.position(a, now).distance_squared(self.position(b, now))
    }

    fn learn(&mut self, station: usize) {
        let motion = &self.motions[station];
        self.top_speed = self.top_speed.max(motion.top_speed());
        let jumps = motion.legs().iter().filter(|leg| leg.start == leg.end && leg.from != leg.to);
        self.jumps.extend(jumps.map(|leg| leg.start.as_nanos()));
        self.jumps.sort_unstable();
        self.good_until = 0;
    }

    fn rebuild(&mut self, now: u64) {
        let size = self.reach + self.slack;
        self.cells.clear();
        for station in 0..self.motions.len() {
            let at = place(&self.motions, &mut self.tracks, station, now);
            let index = u32::try_from(station).expect("there are fewer stations");
            self.cells.push((cell(at, size), index));
        }
        self.cells.sort_unstable();
        self.starts.clear();
        self.near.clear();
        for station in 0..self.motions.len() {
            self.starts.push(list_end(&self.near));
            self.list(station, now, size);
        }
        self.starts.push(list_end(&self.near));
        self.good_until = self.next_rebuild(now);
    }

    /// Lists the stations in the cells around one.
    fn list(&mut self, station: usize, now: u64, size: f64) {
        let Self { motions, tracks, near, cells, .. } = self;
        let here = place(motions, tracks, station, now);
        let (row, column) = cell(here, size);
        let begin = near.len();
        for row in [row.saturating_sub(1), row, row.saturating_add(1)] {
            let (west, east) = (column.saturating_sub(1), column.saturating_add(1));
            let first = cells.partition_point(|(cell, _)| *cell < (row, west));
            let around = cells[first..].iter().take_while(|(cell, _)| *cell <= (row, east));
            for &(_, other) in around {
                let there = place(motions, tracks, other as usize, now);
                let is_near = here.distance_squared(there) <= size * size;
                if is_near && other as usize != station {
                    near.push(other);
                }
            }
        }
        near[begin..].sort_unstable();
        // At the edge of the numbers a row would be visited twice.
        debug_assert!(near[begin..].is_sorted());
    }

    fn next_rebuild(&self, now: u64) -> u64 {
        let jump = self.jumps.partition_point(|jump| *jump <= now);
        let jump = self.jumps.get(jump).copied().unwrap_or(u64::MAX);
        if self.top_speed == 0.0 {
            return jump;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive, and too much becomes the end of time"
        )]
        let lasts = (self.slack / (2.0 * self.top_speed) * 1e9) as u64;
        now.saturating_add(lasts).min(jump).max(now + 1)
    }
}

impl Track {
    /// Found out when it is asked for.
    const UNKNOWN: Self = Self {
        from: Position::new(0.0, 0.0),
        velocity: Position::new(0.0, 0.0),
        since: 0,
        until: 0,
    };

    fn of(motion: &Motion, now: u64) -> Self {
        let time = Time::from_nanos(now);
        let legs = motion.legs();
        let after = legs.partition_point(|leg| leg.start <= time);
        let next = legs.get(after).map_or(u64::MAX, |leg| leg.start.as_nanos());
        let leg = after.checked_sub(1).map(|index| legs[index]);
        match leg.filter(|leg| time < leg.end) {
            Some(leg) => {
                let (since, end) = (leg.start.as_nanos(), leg.end.as_nanos());
                let span = (end - since) as f64;
                let (x, y) = ((leg.to.x - leg.from.x) / span, (leg.to.y - leg.from.y) / span);
                let velocity = Position::new(x, y);
                Self { from: leg.from, velocity, since, until: end.min(next) }
            }
            None => {
                let from = motion.position(time);
                Self { from, velocity: Position::default(), since: now, until: next }
            }
        }
    }

    fn at(&self, now: u64) -> Position {
        let passed = (now - self.since) as f64;
        let (x, y) = (self.velocity.x * passed, self.velocity.y * passed);
        Position::new(self.from.x + x, self.from.y + y)
    }
}

fn place(motions: &[Motion], tracks: &mut [Track], station: usize, now: u64) -> Position {
    let track = &mut tracks[station];
    if now >= track.until {
        *track = Track::of(&motions[station], now);
    }
    track.at(now)
}

fn cell(at: Position, size: f64) -> Cell {
    #[expect(clippy::cast_possible_truncation, reason = "what is too far away shares a cell")]
    let index = |coordinate: f64| libm::floor(coordinate / size) as i32;
    (index(at.y), index(at.x))
}

fn list_end(near: &[u32]) -> u32 {
    u32::try_from(near.len()).expect("there are fewer neighbours than 2^32")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::rng::Rng;

    use super::*;

    #[test]
    fn lists_leave_out_nobody_within_reach_while_stations_move_and_jump() {
        for seed in 0..20 {
            let mut rng = Rng::stream(seed, "places");
            let place = |rng: &mut Rng| {
                Position::new(3_000.0 * rng.uniform() - 1_500.0, 3_000.0 * rng.uniform() - 1_500.0)
            };
            let mut field = Field::new(550.0);
            for station in 0..60 {
                let mut here = place(&mut rng);
                let mut motion = Motion::at_rest(here);
                let mut now = Time::ZERO;
                for _ in 0..40 {
                    // One in four is somewhere else at once, the others move at 30 m/s.
                    let to = place(&mut rng);
                    let way = here.distance_squared(to).sqrt();
                    let moves = station % 4 > 0;
                    let span = if moves { way / 30.0 } else { 0.0 };
                    let end = now + Duration::from_secs_f64(span);
                    motion.go(now, end, to).unwrap();
                    (here, now) = (to, end + Duration::from_secs(3));
                }
                field.add(motion);
            }

            let mut now = 0;
            for _ in 0..300 {
                now += rng.below(800_000_000);
                let time = Time::from_nanos(now);
                let station = usize::try_from(rng.below(60)).unwrap();
                let is_within = |squared: f64| squared <= 550.0 * 550.0;
                let mut near = Vec::new();
                field.refresh(now);
                field.around(station, now, |other, squared| {
                    near.extend(is_within(squared).then_some(other));
                });
                let all = (0..60).filter(|other| *other != station);
                let expected: Vec<_> = all
                    .filter(|other| is_within(field.distance_squared(station, *other, time)))
                    .collect();
                assert_eq!(near, expected);
            }
        }
    }
}
