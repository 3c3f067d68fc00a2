//! Finds places in the picture for nodes without a place on the ground.
//!
//! A network of wires is spread so that the distance of two nodes grows with the number of hops between them (stress
//! majorisation). Nodes attached to a network with places, such as an Internet host behind a gateway, stand above
//! that network.

use std::collections::VecDeque;

use sim::mobility::Position;

/// From one node to its neighbour, in the unit of places.
const HOP: f64 = 200.0;
/// More do not change the picture: it has settled, or never will.
const ROUNDS: usize = 300;

/// Finds a place for every node: its own place, if it has one. Moving nodes stay within `field`, the places where
/// they turn.
#[must_use]
pub fn layout(
    places: &[Option<Position>],
    wires: &[[usize; 2]],
    field: &[Position],
) -> Vec<Position> {
    if places.iter().all(Option::is_none) {
        return spread(places.len(), wires);
    }
    beside(places, wires, field)
}

/// Puts nodes without a place above the placed nodes, each over its neighbour.
fn beside(places: &[Option<Position>], wires: &[[usize; 2]], field: &[Position]) -> Vec<Position> {
    let placed = || places.iter().flatten().chain(field);
    let top = placed().map(|place| place.y).fold(f64::NEG_INFINITY, f64::max);
    let [left, right] = [
        placed().map(|place| place.x).fold(f64::INFINITY, f64::min),
        placed().map(|place| place.x).fold(f64::NEG_INFINITY, f64::max),
    ];
    let step = ((right - left) * 0.2).max(HOP);
    let hops = hops(places.len(), wires);
    let mut taken: Vec<Position> = Vec::new();
    let place_of = |(node, place): (usize, &Option<Position>)| {
        if let Some(place) = place {
            return *place;
        }
        let anchors = places
            .iter()
            .enumerate()
            .filter_map(|(other, place)| Some((hops[node][other]?, place.as_ref()?.x)));
        let (floor, x) =
            anchors.min_by_key(|(hops, _)| *hops).unwrap_or((1, f64::midpoint(left, right)));
        let mut wanted = Position::new(x, top + step * f64::from(floor));
        while taken.iter().any(|other| other.distance_squared(wanted) < step * step / 4.0) {
            wanted.x += step;
        }
        taken.push(wanted);
        wanted
    };
    places.iter().enumerate().map(place_of).collect()
}

/// Spreads nodes so that distances are near the number of hops between the nodes.
fn spread(nodes: usize, wires: &[[usize; 2]]) -> Vec<Position> {
    let hops = hops(nodes, wires);
    // Unreachable nodes stand a little farther than the farthest reachable node.
    let farthest = hops.iter().flatten().flatten().max().copied().unwrap_or(1) + 1;
    let wanted = |a: usize, b: usize| f64::from(hops[a][b].unwrap_or(farthest)) * HOP;
    let mut places = first_places(&hops, farthest);
    for _ in 0..ROUNDS {
        for node in 0..nodes {
            let mut sum = Position::default();
            let mut weights = 0.0;
            for other in (0..nodes).filter(|other| *other != node) {
                let far = wanted(node, other);
                let weight = 1.0 / (far * far);
                let way = places[node].distance_squared(places[other]).sqrt().max(1e-6);
                let part = far / way;
                let (from, to) = (places[other], places[node]);
                sum.x += weight * (from.x + (to.x - from.x) * part);
                sum.y += weight * (from.y + (to.y - from.y) * part);
                weights += weight;
            }
            if weights > 0.0 {
                places[node] = Position::new(sum.x / weights, sum.y / weights);
            }
        }
    }
    places
}

/// Columns by the hops from one end of the network: a chain is a row from the beginning.
fn first_places(hops: &[Vec<Option<u32>>], farthest: u32) -> Vec<Position> {
    let widest = |row: &Vec<Option<u32>>| row.iter().map(|hops| hops.unwrap_or(0)).max();
    let widest_of = |node: &usize| (widest(&hops[*node]), std::cmp::Reverse(*node));
    let Some(end) = (0..hops.len()).max_by_key(widest_of) else { return Vec::new() };
    let mut heights = vec![0_u32; hops.len() + 2];
    let place = |hops: &Option<u32>| {
        let column = hops.unwrap_or(farthest);
        let height = heights.get_mut(column as usize).map(|height| {
            *height += 1;
            *height - 1
        });
        let height = f64::from(height.unwrap_or_default());
        // By turns above and below; a little askew, so that nothing is exactly balanced.
        let side = if height % 2.0 == 0.0 { 0.5 } else { -0.5 };
        Position::new(f64::from(column) * HOP, height * side * HOP + f64::from(column) * 0.01)
    };
    hops[end].iter().map(place).collect()
}

/// How many wires are between any two nodes; `None` where no way leads.
fn hops(nodes: usize, wires: &[[usize; 2]]) -> Vec<Vec<Option<u32>>> {
    let mut near = vec![Vec::new(); nodes];
    for [a, b] in wires {
        near[*a].push(*b);
        near[*b].push(*a);
    }
    let from = |start: usize| {
        let mut row = vec![None; nodes];
        row[start] = Some(0);
        let mut open = VecDeque::from([(start, 0)]);
        while let Some((node, far)) = open.pop_front() {
            for other in &near[node] {
                if row[*other].is_none() {
                    row[*other] = Some(far + 1);
                    open.push_back((*other, far + 1));
                }
            }
        }
        row
    };
    (0..nodes).map(from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_a_row_and_a_host_stands_above_its_gateway() {
        let wires: Vec<_> = (0..4).map(|n| [n, n + 1]).collect();

        let row = layout(&[None; 5], &wires, &[]);
        let field = [Some(Position::new(0.0, 0.0)), Some(Position::new(400.0, 0.0)), None];
        let above = layout(&field, &[[1, 2]], &[Position::new(0.0, 50.0)]);

        for pair in row.windows(2) {
            assert!((pair[1].x - pair[0].x - HOP).abs() < 1.0, "{row:?}");
            assert!((pair[1].y - pair[0].y).abs() < 1.0, "{row:?}");
        }
        assert_eq!(above[..2], [Position::new(0.0, 0.0), Position::new(400.0, 0.0)]);
        assert_eq!(above[2], Position::new(400.0, 250.0), "above where others walk");
    }

    #[test]
    fn no_two_nodes_share_a_place() {
        let star: Vec<_> = (1..9).map(|n| [0, n]).collect();
        for wires in [&star[..], &[]] {
            let places = layout(&[None; 9], wires, &[]);

            for (index, place) in places.iter().enumerate() {
                for other in &places[..index] {
                    assert!(place.distance_squared(*other).sqrt() > HOP / 4.0, "{places:?}");
                }
            }
        }
    }
}
