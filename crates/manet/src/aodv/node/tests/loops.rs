//! Routes never go round in circles, whatever is lost, late or doubled, and whoever moves or restarts.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Link(usize, usize, bool),
    Send(usize, usize),
    Wait(u64),
    Restart(usize),
}

/// How a run goes.
#[derive(Clone, Debug)]
struct Course {
    nodes: usize,
    has_feedback: bool,
    flags: [bool; 3],
    seed: u64,
    loss: f64,
    delay: u64,
    steps: Vec<Step>,
}

fn step(nodes: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..nodes, 0..nodes, any::<bool>()).prop_map(|(a, b, is_up)| Step::Link(a, b, is_up)),
        6 => (0..nodes, 0..nodes).prop_map(|(from, to)| Step::Send(from, to)),
        4 => prop_oneof![0_u64..50, 0_u64..1_000, 0_u64..8_000, 0_u64..60_000].prop_map(Step::Wait),
        1 => (0..nodes).prop_map(Step::Restart),
    ]
}

fn course() -> impl Strategy<Value = Course> {
    let fixed = (3_usize..7, any::<bool>(), any::<[bool; 3]>(), any::<u64>(), 0.0..0.5, 0_u64..800);
    fixed.prop_flat_map(|(nodes, has_feedback, flags, seed, loss, delay)| {
        prop::collection::vec(step(nodes), 0..60).prop_map(move |steps| Course {
            nodes,
            has_feedback,
            flags,
            seed,
            loss,
            delay,
            steps,
        })
    })
}

fn run(course: &Course, wait_after_reboot: bool) -> Net {
    let [gratuitous, destination_only, acknowledge] = course.flags;
    let profile = match course.has_feedback {
        true => Config::link_layer_feedback(),
        false => Config::hello(),
    };
    let config = Config { gratuitous, destination_only, wait_after_reboot, ..profile };
    let unidirectional = Unidirectional { acknowledge, ..config.unidirectional };
    let config = Config { unidirectional, ..config };
    let mut net = Net::new(course.nodes, course.seed, |_| config.clone());
    // All links first, so that something is found early; then the nodes have been there for long.
    (1..course.nodes).for_each(|index| net.link(index - 1, index, true));
    net.run(Duration::from_secs(60));
    net.has_feedback = course.has_feedback;
    net.loss = course.loss;
    net.double = 0.1;
    net.delay = millis(course.delay);
    for step in &course.steps {
        match *step {
            Step::Link(one, other, _) if one == other => {}
            Step::Link(one, other, is_up) => net.link(one, other, is_up),
            Step::Send(from, to) => net.send(from, node(to)),
            Step::Wait(time) => net.run(millis(time)),
            Step::Restart(index) => net.restart(index),
        }
    }
    net.run(Duration::from_secs(20));
    net
}

proptest! {
    #![proptest_config(harness::cases(3_000))]

    #[test]
    fn routes_never_go_round_in_circles(course in course()) {
        let mut net = run(&course, true);

        let story = net.story().join("\n");
        prop_assert!(net.circles.is_empty(), "{}\n{:?}", story, net.circles.first());
    }
}
