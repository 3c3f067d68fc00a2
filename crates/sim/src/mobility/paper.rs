//! The networks of a paper on TCP in MANETs: a chain of five nodes, a passing node, and wandering
//! nodes.
//!
//! From "TCP Performance in Mobile Ad Hoc Networks Connected to the Internet" by Karlsson and Kassler. Nodes reach
//! 250 m; the middle of the chain is the gateway.

use std::time::Duration;

use base::time::Time;

use super::motion::{Motion, Position};
use super::waypoint::{Speeds, Waypoint};

/// Metres from one node of the chain to the next.
pub const SPACING: f64 = 200.0;
/// The nodes of the chain.
pub const CHAIN: usize = 5;
/// The node of the chain that has the gateway: the middle one. The paper counts from one and calls it
/// number 3.
pub const GATEWAY: usize = 2;
/// How long all runs take.
pub const DURATION: Duration = Duration::from_secs(900);
/// Metres from the chain to the way of the node that passes by.
pub const ASIDE: f64 = 200.0;

/// The legs of the node that passes by (table 1): when it sets out, in seconds, and metres a second. It
/// goes the length of the chain each time, to and fro, from the end where the chain begins.
pub const LEGS: [(u64, f64); 8] = [
    (10, 20.0),
    (55, 30.0),
    (90, 10.0),
    (170, 20.0),
    (220, 5.0),
    (400, 40.0),
    (430, 60.0),
    (450, 1.5),
];

/// The places of the chain's nodes, "Chain5".
#[must_use]
pub fn chain() -> [Position; CHAIN] {
    [0.0, 1.0, 2.0, 3.0, 4.0].map(|index| Position::new(index * SPACING, 0.0))
}

/// How the node moves that passes by the chain, "Chain5+1".
#[must_use]
pub fn passer() -> Motion {
    let [west, east] = [0, CHAIN - 1].map(|end| Position::new(chain()[end].x, ASIDE));
    let mut motion = Motion::at_rest(west);
    for ((start, speed), to) in LEGS.into_iter().zip([east, west].into_iter().cycle()) {
        let start = Time::ZERO + Duration::from_secs(start);
        let end = start + Duration::from_secs_f64((east.x - west.x) / speed);
        motion.go(start, end, to).expect("it arrives after it sets out");
    }
    motion
}

/// How 47 nodes move around a gateway at 400 m, 400 m, "random".
///
/// The paper says 1200 m × 1200 m. Its mean speed, 7.36 m/s, and its numbers of route and link changes
/// instead match 800 m × 800 m with clipped normal speeds and the gateway in the middle: see
/// `docs/guide/scenario.md`.
#[must_use]
pub fn random(side: f64) -> Waypoint {
    Waypoint { area: [side, side], speeds: Speeds::ClippedNormal, ..Waypoint::default() }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::super::statistics::{crossings, statistics};
    use super::*;

    #[test]
    fn the_node_arrives_when_the_table_says_so() {
        let motion = passer();

        let arrivals: Vec<f64> = motion.legs().iter().map(|leg| leg.end.as_secs_f64()).collect();

        let table = [50.0, 81.67, 170.0, 210.0, 380.0, 420.0, 443.33, 983.33];
        assert!(arrivals.iter().zip(table).all(|(own, its)| (own - its).abs() < 0.005));
        let end = motion.position(Time::ZERO + DURATION);
        assert!((end.x - 125.0).abs() < 1e-6 && (end.y - ASIDE).abs() < 1e-9, "{end:?}");
    }

    /// The paper's table of route changes is explained by links of 150 m along the chain: a node keeps
    /// its next hop until that is out of reach.
    #[test]
    fn links_to_the_chain_break_where_the_paper_sees_other_hop_counts() {
        let motions: Vec<Motion> =
            chain().into_iter().map(Motion::at_rest).chain([passer()]).collect();

        let breaks = crossings(&motions, 250.0, Time::ZERO + DURATION);

        let breaks: Vec<f64> = breaks
            .iter()
            .filter(|change| !change.is_up)
            .map(|change| change.at.as_secs_f64())
            .collect();
        let expected = [
            17.5, 27.5, 37.5, 47.5, 60.0, 66.667, 73.333, 80.0, 105.0, 125.0, 145.0, 165.0, 177.5,
            187.5, 197.5, 207.5, 250.0, 290.0, 330.0, 370.0, 403.75, 408.75, 413.75, 418.75, 432.5,
            435.833, 439.167, 442.5, 550.0, 683.333, 816.667,
        ];
        assert_eq!(breaks.len(), expected.len(), "{breaks:?}");
        for (own, its) in breaks.iter().zip(expected) {
            assert!((own - its).abs() < 1e-3, "{own} {its}");
        }
    }

    /// The paper counts in its trace: 15,860 link changes, 54,650 route changes, 372 times an
    /// unreachable destination, and 2,194 and 2,027 route changes of two nodes.
    #[test]
    fn the_changes_that_the_paper_counts_are_those_of_the_small_area() {
        let counted = |side| {
            let motion = |node| {
                let mut rng = Rng::stream(1, &format!("motion {node}"));
                random(side).motion(&mut rng, DURATION).expect("it is possible")
            };
            let nodes: Vec<Motion> = (0..48).map(motion).collect();
            statistics(&nodes, 250.0, Time::ZERO + DURATION)
        };

        let (small, large) = (counted(800.0), counted(1200.0));

        assert!((14_000..17_500).contains(&small.link_changes), "{small:?}");
        assert!((48_000..60_000).contains(&small.route_changes), "{small:?}");
        assert!(small.unreachable < 1_000, "{small:?}");
        assert!(large.link_changes < 10_500, "{large:?}");
        assert!(large.route_changes > 100_000 && large.unreachable > 2_000, "{large:?}");
    }
}
