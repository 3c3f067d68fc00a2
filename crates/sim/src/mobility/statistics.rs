//! Statistics of mobility: counts link and route changes like the `setdest` of ns-2.
//!
//! ns-2's `setdest` writes the counts at the end of its files. Two nodes have a link while they are nearer
//! to each other than a range, and a route while links lead from one to the other. The times of link changes
//! are computed, not sampled.

use std::collections::VecDeque;

use base::time::Time;

use super::motion::Motion;

/// No path has as many hops: there are fewer nodes.
const UNREACHABLE: u16 = u16::MAX;

/// Counts of changes between nodes, and means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// How often a link came or went.
    pub link_changes: u64,
    /// How often the number of hops of a shortest path between two nodes changed; also from and to no
    /// path.
    pub route_changes: u64,
    /// How often there was no path any more between two nodes, pairs without one at the beginning
    /// included.
    pub unreachable: u64,
    /// Changes of routes from and to each node.
    pub of_node: Vec<u64>,
    /// Metres a second, in the mean over nodes and time.
    pub mean_speed: f64,
    /// Neighbours of a node, in the mean over nodes and time.
    pub mean_degree: f64,
}

/// A link comes or goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// When.
    pub at: Time,
    /// Between which nodes, the one with the lower number first.
    pub ends: [usize; 2],
    /// Whether it comes.
    pub is_up: bool,
}

/// Counts link and route changes until `end` between nodes with a range in metres.
///
/// The computing time grows with the number of link changes and the square of the number of nodes. There must
/// be fewer than 65,535 nodes.
#[must_use]
pub fn statistics(motions: &[Motion], range: f64, end: Time) -> Statistics {
    let mut links = Links::new(motions, range);
    let mut hops = links.hops();
    let mut counted = Statistics { of_node: vec![0; motions.len()], ..Statistics::default() };
    for [a, b] in pairs(motions.len()) {
        counted.unreachable += u64::from(hops[a * motions.len() + b] == UNREACHABLE);
    }
    let mut linked_seconds = 0.0;
    let mut last = Time::ZERO;

    let changes = crossings(motions, range, end);
    for together in changes.chunk_by(|a, b| a.at == b.at) {
        let now = together[0].at;
        linked_seconds += links.count() as f64 * now.since(last).as_secs_f64();
        last = now;
        for Crossing { ends, is_up, .. } in together {
            counted.link_changes += 1;
            links.set(*ends, *is_up);
        }
        let later = links.hops();
        for [a, b] in pairs(motions.len()) {
            let pair = a * motions.len() + b;
            if hops[pair] != later[pair] {
                counted.route_changes += 1;
                counted.of_node[a] += 1;
                counted.of_node[b] += 1;
                counted.unreachable += u64::from(later[pair] == UNREACHABLE);
            }
        }
        hops = later;
    }
    linked_seconds += links.count() as f64 * end.since(last).as_secs_f64();

    let node_seconds = motions.len() as f64 * end.as_secs_f64();
    if node_seconds > 0.0 {
        let ways: f64 = motions.iter().map(|motion| way(motion, Time::ZERO, end)).sum();
        counted.mean_speed = ways / node_seconds;
        counted.mean_degree = 2.0 * linked_seconds / node_seconds;
    }
    counted
}

/// When links come and go after the beginning and until `end`, in order of time.
#[must_use]
pub fn crossings(motions: &[Motion], range: f64, end: Time) -> Vec<Crossing> {
    let mut changes = Vec::new();
    for ends in pairs(motions.len()) {
        let mut is_up = is_near(motions, ends, Time::ZERO, range);
        for at in sides(ends.map(|node| &motions[node]), range, end) {
            is_up = !is_up;
            changes.push(Crossing { at, ends, is_up });
        }
    }
    changes.sort_by_key(|change| (change.at, change.ends));
    changes
}

/// Metres that a node goes from `begin` to `end`.
#[must_use]
pub fn way(motion: &Motion, begin: Time, end: Time) -> f64 {
    let legs = motion.legs().iter().map(|leg| {
        let span = leg.end.min(end).since(leg.start.max(begin));
        leg.speed() * span.as_secs_f64()
    });
    legs.sum()
}

/// When two nodes cross the border of each other's range: every time that they are within it before
/// and not after, or the other way round.
fn sides(motions: [&Motion; 2], range: f64, end: Time) -> Vec<Time> {
    let starts = motions.into_iter().flat_map(|motion| motion.legs().iter());
    let mut bends: Vec<Time> =
        starts.flat_map(|leg| [leg.start, leg.end]).filter(|bend| *bend < end).collect();
    bends.extend([Time::ZERO, end]);
    bends.sort_unstable();
    bends.dedup();

    let within = |[x, y]: [f64; 2]| x * x + y * y < range * range;
    let mut was_within = within(apart(motions, Time::ZERO, Time::ZERO));
    let mut found = Vec::new();
    for pair in bends.windows(2) {
        let (begin, until) = (pair[0], pair[1]);
        let (from, to) = (apart(motions, begin, begin), apart(motions, begin, until));
        // A jump crosses borders without being on a way. Nor must roundings turn near and far round for
        // the rest of the run.
        if within(from) != was_within {
            found.push(begin);
            was_within = !was_within;
        }
        let borders = [true, false].into_iter().zip(roots(from, to, range));
        for (is_entry, part) in borders.filter(|(_, part)| (0.0..1.0).contains(part)) {
            if is_entry != was_within {
                found.push(begin + until.since(begin).mul_f64(part));
                was_within = is_entry;
            }
        }
    }
    found
}

/// From the second to the first at a time, on the legs that they are on `since` then.
fn apart(motions: [&Motion; 2], since: Time, now: Time) -> [f64; 2] {
    let place = |motion: &Motion| match motion.leg(since) {
        Some(leg) => leg.position(now),
        None => motion.position(since),
    };
    let [a, b] = motions.map(place);
    [a.x - b.x, a.y - b.y]
}

/// At which parts of a straight way it enters a circle around the origin, and leaves it again; no numbers
/// where it does not.
fn roots(from: [f64; 2], to: [f64; 2], range: f64) -> [f64; 2] {
    let way = [to[0] - from[0], to[1] - from[1]];
    let dot = |a: [f64; 2], b: [f64; 2]| a[0] * b[0] + a[1] * b[1];
    let (a, b, c) = (dot(way, way), dot(from, way), dot(from, from) - range * range);
    let root = (b * b - a * c).sqrt();
    [(-b - root) / a, (-b + root) / a]
}

fn is_near(motions: &[Motion], [a, b]: [usize; 2], now: Time, range: f64) -> bool {
    let place = |node: usize| motions[node].position(now);
    place(a).distance_squared(place(b)) < range * range
}

/// All pairs of `nodes` nodes.
fn pairs(nodes: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..nodes).flat_map(move |a| (a + 1..nodes).map(move |b| [a, b]))
}

/// The neighbours of each node.
struct Links(Vec<Vec<usize>>);

impl Links {
    fn new(motions: &[Motion], range: f64) -> Self {
        let mut links = Self(vec![Vec::new(); motions.len()]);
        for ends in pairs(motions.len()) {
            if is_near(motions, ends, Time::ZERO, range) {
                links.set(ends, true);
            }
        }
        links
    }

    fn set(&mut self, [a, b]: [usize; 2], is_up: bool) {
        for (near, far) in [(a, b), (b, a)] {
            let links = &mut self.0[near];
            links.retain(|node| *node != far);
            if is_up {
                links.push(far);
            }
        }
    }

    fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum::<usize>() / 2
    }

    /// The hops of shortest paths from each node to each, a row for each.
    fn hops(&self) -> Vec<u16> {
        let nodes = self.0.len();
        let mut hops = vec![UNREACHABLE; nodes * nodes];
        let mut open = VecDeque::with_capacity(nodes);
        for (origin, row) in hops.chunks_mut(nodes.max(1)).enumerate() {
            row[origin] = 0;
            open.push_back(origin);
            while let Some(node) = open.pop_front() {
                for next in &self.0[node] {
                    if row[*next] == UNREACHABLE {
                        row[*next] = row[node] + 1;
                        open.push_back(*next);
                    }
                }
            }
        }
        hops
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::motion::Position;
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn rest(x: f64) -> Motion {
        Motion::at_rest(Position::new(x, 0.0))
    }

    /// Two nodes 400 m apart, and one that comes from far away between them and goes on.
    fn passing() -> Vec<Motion> {
        let mut passer = Motion::at_rest(Position::new(200.0, -1_000.0));
        passer.go(at(10.0), at(110.0), Position::new(200.0, 1_000.0)).expect("a leg");
        vec![rest(0.0), rest(400.0), passer]
    }

    #[test]
    fn links_come_and_go_where_geometry_says_so() {
        let found = crossings(&passing(), 250.0, at(200.0));

        // 150 m before and after the line between the others, at 20 m/s.
        let found: Vec<_> =
            found.iter().map(|it| (it.at.as_secs_f64(), it.ends, it.is_up)).collect();
        assert_eq!(
            found,
            [
                (52.5, [0, 2], true),
                (52.5, [1, 2], true),
                (67.5, [0, 2], false),
                (67.5, [1, 2], false)
            ]
        );
    }

    #[test]
    fn changes_are_counted_as_setdest_does() {
        let counted = statistics(&passing(), 250.0, at(200.0));

        assert_eq!(counted.link_changes, 4);
        // All three pairs get a path, and lose it.
        assert_eq!(counted.route_changes, 6);
        assert_eq!(counted.of_node, [4, 4, 4]);
        // At the beginning, and in the end.
        assert_eq!(counted.unreachable, 6);
        assert!((counted.mean_speed - 2_000.0 / 200.0 / 3.0).abs() < 1e-6);
        // Two links, each with two ends, for 15 s of 200 s and three nodes.
        assert!((counted.mean_degree - 4.0 * 15.0 / 600.0).abs() < 1e-6);
    }

    #[test]
    fn a_change_of_hops_is_a_change_of_routes() {
        let mut closer = rest(400.0);
        closer.go(at(1.0), at(2.0), Position::new(100.0, 0.0)).expect("a leg");

        let counted = statistics(&[rest(0.0), rest(200.0), closer], 250.0, at(9.0));

        assert_eq!((counted.link_changes, counted.route_changes, counted.unreachable), (1, 1, 0));
        assert_eq!(counted.of_node, [1, 0, 1]);
    }

    #[test]
    fn nodes_that_touch_the_border_or_jump_across_it_are_not_lost() {
        let mut toucher = rest(300.0);
        for (start, end, x) in [(1.0, 2.0, 250.0), (3.0, 4.0, 100.0), (5.0, 5.0, 900.0)] {
            toucher.go(at(start), at(end), Position::new(x, 0.0)).expect("a leg");
        }

        let found = crossings(&[rest(0.0), toucher], 250.0, at(9.0));

        let found: Vec<_> = found.iter().map(|it| (it.at.as_secs_f64(), it.is_up)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((3.0..3.001).contains(&found[0].0) && found[0].1, "{found:?}");
        assert_eq!(found[1], (5.0, false));
    }
}
