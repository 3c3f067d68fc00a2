//! The ways that packets of a flow take, as the nodes' routes had it.

use proto::time::Time;

use super::recording::{Flow, Recording};

/// From a time on the packets of a flow take a way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Way {
    /// Since when.
    pub(super) at: Time,
    /// The nodes from the flow's sender to its receiver; none while no way leads there.
    pub(super) nodes: Vec<usize>,
}

/// How the way of a flow changed.
pub(super) fn ways(recording: &Recording, flow: &Flow) -> Vec<Way> {
    let Some(target) = recording.targets.iter().position(|target| *target == flow.to) else {
        return Vec::new();
    };
    let mut next = vec![None; recording.nodes.len()];
    let mut ways: Vec<Way> = Vec::new();
    for change in recording.routes.iter().filter(|change| change.target == target) {
        next[change.node] = change.via;
        let nodes = follow(&next, flow);
        match ways.last_mut() {
            // Of the changes at one time only all together count.
            Some(last) if last.at == change.at => last.nodes = nodes,
            _ => ways.push(Way { at: change.at, nodes }),
        }
    }
    ways.dedup_by(|later, earlier| later.nodes == earlier.nodes);
    ways
}

fn follow(next: &[Option<usize>], flow: &Flow) -> Vec<usize> {
    let mut nodes = vec![flow.from];
    let mut at = flow.from;
    while at != flow.to {
        match next[at] {
            Some(via) if !nodes.contains(&via) => at = via,
            Some(_) | None => return Vec::new(),
        }
        nodes.push(at);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::recording::RouteChange;
    use super::*;

    #[test]
    fn a_way_ends_with_the_route_of_any_node_on_it_and_never_loops() {
        let flow = Flow { name: String::new(), from: 0, to: 2 };
        let at = |second| Time::ZERO + Duration::from_secs(second);
        let change = |second, node, via| RouteChange { at: at(second), node, target: 0, via };
        let node = || super::super::Node {
            name: String::new(),
            motion: sim::mobility::Motion::at_rest(sim::mobility::Position::default()),
            is_placed: false,
            radio: None,
        };
        let routes = vec![
            change(0, 0, Some(1)),
            change(0, 1, Some(2)),
            change(3, 1, None),
            change(4, 1, Some(0)),
            change(5, 0, Some(2)),
        ];
        let recording = Recording {
            nodes: vec![node(), node(), node()],
            targets: vec![2],
            routes,
            ..Recording::default()
        };

        let ways = ways(&recording, &flow);

        let way = |second, nodes: &[usize]| Way { at: at(second), nodes: nodes.to_vec() };
        assert_eq!(ways, [way(0, &[0, 1, 2]), way(3, &[]), way(5, &[0, 2])]);
    }
}
