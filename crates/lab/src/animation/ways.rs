//! Follows the nodes' routes to find the ways that packets of a flow take.

use base::time::Time;

use super::recording::{Flow, Recording};

/// From a time on the packets of a flow take a way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Way {
    /// Since when.
    pub at: Time,
    /// The nodes from the flow's sender to its receiver; none while no way leads there.
    pub nodes: Vec<usize>,
}

/// The next node, and the end of a half tunnel.
type Onward = [Option<usize>; 2];

/// How the way of a flow changed.
pub fn ways(recording: &Recording, flow: &Flow) -> Vec<Way> {
    let mut onward = vec![vec![[None; 2]; recording.nodes.len()]; recording.targets.len()];
    let mut ways: Vec<Way> = Vec::new();
    // Of the changes at one time only all together count.
    for changes in recording.routes.chunk_by(|one, other| one.at == other.at) {
        for change in changes {
            onward[change.target][change.node] = [change.via, change.tunnel];
        }
        let nodes = follow(recording, &onward, flow).unwrap_or_default();
        ways.push(Way { at: changes[0].at, nodes });
    }
    ways.dedup_by(|later, earlier| later.nodes == earlier.nodes);
    ways
}

fn follow(recording: &Recording, onward: &[Vec<Onward>], flow: &Flow) -> Option<Vec<usize>> {
    let target = recording.targets.iter().position(|target| *target == flow.to)?;
    let (mut at, mut towards) = (flow.from, target);
    let mut nodes = vec![at];
    let mut passed = Vec::new();
    while at != flow.to {
        if recording.targets[towards] == at {
            towards = target;
        }
        let [_, tunnel] = onward[towards][at];
        towards = tunnel.unwrap_or(towards);
        // Somebody may be passed twice: in the half tunnel and behind it.
        if passed.contains(&(at, towards)) {
            return None;
        }
        passed.push((at, towards));
        let [via, _] = onward[towards][at];
        at = via?;
        nodes.push(at);
    }
    Some(nodes)
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
        let change =
            |second, node, via| RouteChange { at: at(second), node, target: 0, via, tunnel: None };
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

    #[test]
    fn a_half_tunnel_goes_by_the_way_to_its_end_and_may_pass_somebody_twice() {
        let at = Time::ZERO;
        let [host, gateway, walled] = [0, 1, 2];
        let change = |node, target, via, tunnel| {
            let [via, tunnel] = [via, tunnel].map(|it| Some(it).filter(|it| *it < 9));
            RouteChange { at, node, target, via, tunnel }
        };
        let none = usize::MAX;
        let recording = Recording {
            nodes: vec![
                super::super::Node {
                    name: String::new(),
                    motion: sim::mobility::Motion::at_rest(sim::mobility::Position::default()),
                    is_placed: false,
                    radio: None,
                };
                5
            ],
            // The gateway 2 sends for 3 back by 1; where 4 is only circles lead.
            targets: vec![3, 2, 4],
            routes: vec![
                change(0, host, 1, gateway),
                change(0, gateway, 1, none),
                change(1, gateway, 2, none),
                change(2, host, 1, none),
                change(1, host, 3, none),
                change(0, walled, 1, gateway),
                change(2, walled, 1, none),
                change(1, walled, 2, none),
            ],
            ..Recording::default()
        };

        let way = |to| ways(&recording, &Flow { name: String::new(), from: 0, to });

        assert_eq!(way(3), [Way { at, nodes: vec![0, 1, 2, 1, 3] }]);
        assert_eq!(way(4), [Way { at, nodes: vec![] }]);
    }
}
