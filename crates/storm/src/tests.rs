use std::time::Duration;

use super::*;

/// Seeds of a test run; `trackway storm` draws others.
const SEEDS: std::ops::Range<u64> = 0..12;

#[test]
fn no_rule_is_broken_in_some_seeds() {
    for service in Service::ALL {
        for seed in SEEDS {
            let ran = Course::draw(service, seed).run(None, None);

            assert_eq!(ran.broken, None, "trackway storm {service} --seed {seed:#x}");
        }
    }
}

/// Courses that broke a rule before the repair, with the events that were enough.
#[test]
fn courses_that_once_broke_a_rule_keep_it() {
    let found: [(Service, u64, &[usize]); 16] = [
        // A transfer of profile `seed` went on for ever: unsolicited reports counted as answers.
        (Service::Sar, 0x1_01fc, &[80, 82, 85, 86]),
        // A tunnel stopped: its queue had dropped a short packet, and the next one had to be cut.
        (Service::Tunnel, 0x218, &[81, 83, 86, 88, 89, 90, 91, 96]),
        // A transfer waited for ever: the window of its destination had shrunk, and it had asked nothing.
        (Service::Sar, 0x3400_03c9, &[0, 1, 5, 6, 7, 9, 13, 16, 17, 19, 24]),
        // Rounds of probes for the path MTU took all the room of a slow path, and no packet went.
        (Service::Tunnel, 0x3400_03bb, &[41]),
        // The end of a short stall within a longer one put datagrams in another order.
        (Service::Slep, 0x1_0583, &[14, 17, 19, 27]),
        (Service::Tunnel, 0x17, &[57, 58, 73, 81]),
        (Service::Tunnel, 0x21f, &[32, 34, 36, 37, 65]),
        // A tunnel sent nothing for ten minutes: probes during an outage had used up the credit of its pace.
        (Service::Tunnel, 0x7_0000_1c71, &[0, 1, 3, 28, 30, 32, 35, 39, 40, 41, 43, 45, 46]),
        // No fault of the core: its sender had given up a source under way, and the next source overtook it.
        (
            Service::Tunnel,
            0x3400_04ea,
            &[
                22, 23, 24, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 40, 41, 42, 43, 44,
                45, 46, 47, 48,
            ],
        ),
        // No fault of the core: a node with room for two flows refused the probe of a third.
        (Service::Hbh, 0x74ea_119d, &[84]),
        // No fault of the core: DSDV's routes go round in a circle for a moment after a restart.
        (Service::Routing, 0x3, &[24]),
        // OSPF kept a detour: its neighbour was back before the next LSA was due.
        (Service::Routing, 0x10_0000_02d2, &[]),
        // OLSR kept the route to an address that its neighbour seemed to have on a second link.
        (Service::Routing, 0x10_0000_0309, &[2]),
        // A U_PDU came twice: the warning after the end of a link counted for all of the transmission before it.
        (Service::S5066, 79, &[4, 56]),
        // A hard link was not probed in time: the node had not announced when.
        (Service::S5066, 45, &[0, 3]),
        // A node that owed an empty answer had given that up, and did not announce its own turn.
        (
            Service::S5066,
            1033,
            &[
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                23, 26, 27, 32, 33, 39, 40, 41, 42, 43, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59,
                62, 63,
            ],
        ),
    ];
    for (service, seed, events) in found {
        let course = Course::draw(service, seed).only(&events.iter().copied().collect());

        let ran = course.run(None, None);

        assert_eq!(course.events.len(), events.len(), "{service} {seed:#x} is another course now");
        assert_eq!(ran.broken, None, "trackway storm {service} --seed {seed:#x}");
    }
}

/// Seeds that broke a rule before the repair, by most of their events.
#[test]
fn seeds_that_once_broke_a_rule_keep_it() {
    for (service, seed) in [
        // A request for a hard link came over a soft link, and outlived it: everybody else was kept out for ever.
        (Service::S5066, 0x10_0000_0022),
        // A hard link was not probed in time after its last data.
        (Service::S5066, 0x1_8a9d),
        // A slow transmission had no room for a piece cut at a higher rate: the node keyed up for ever.
        (Service::S5066, 0x1_8956),
    ] {
        let ran = Course::draw(service, seed).run(None, None);

        assert_eq!(ran.broken, None, "trackway storm {service} --seed {seed:#x}");
    }
}

#[test]
fn the_same_course_gives_the_same_run() {
    for service in Service::ALL {
        for seed in 20..24 {
            let course = Course::draw(service, seed);

            let ran = course.run(None, None);

            assert!(ran.datagrams > 0 || course.events.is_empty(), "{service} {seed}: {ran:?}");
            assert_eq!(ran, course.run(None, None));
            assert_eq!(course, Course::draw(service, seed));
        }
    }
}

#[test]
fn a_run_ends_where_it_is_told_to() {
    let course = Course::draw(Service::Slep, 3);
    let until = Time::ZERO + course.span / 2;

    let ran = course.run(Some(until), None);

    assert!(ran.span <= course.span / 2, "{ran:?}");
}

#[test]
fn a_course_without_a_broken_rule_stays_what_it_is() {
    // A made-up rule is never broken.
    let course = Course::draw(Service::Sar, 1);

    let shrunk = course.shrink("none: such");

    assert_eq!(shrunk, course);
    assert_eq!(course.clone().only(&BTreeSet::new()).events, []);
}

/// Made-up rules over the list of events stand for rules that are broken by what happens in a run.
#[test]
fn shrinking_takes_away_what_a_broken_rule_does_not_need() {
    let mut seeds = (0..).map(|seed| Course::draw(Service::Slep, seed));
    let is_long = |course: &Course| course.nodes == 3 && course.events.len() > 100;
    let course = seeds.find(is_long).expect("a third node in half of the courses");

    let of_two = |(.., event): &&(usize, Time, Event)| event.greatest_node() < 2;
    let shrunk = course.shrink_while(|course| course.events.iter().filter(of_two).count() >= 2);

    assert_eq!((shrunk.events.len(), shrunk.nodes, shrunk.has_limits), (2, 2, false));
    assert_eq!(shrunk.medium, Medium { skew: 0.0, ..course.medium.calm() });
    let last = shrunk.events.iter().map(|(_, at, _)| *at).max().unwrap();
    assert!(Time::ZERO + shrunk.span < last + Duration::from_secs(2), "{shrunk:?}");
    assert!(!shrunk.is_part_of(&course), "it has another medium");
    assert!(course.clone().only(&BTreeSet::from([3, 5])).is_part_of(&course));
}

#[test]
fn one_action_takes_the_place_of_several() {
    // One action in four counts as much as ten others, and none of those is in the course.
    let weight = |event: Event| match event {
        Event::Act(0, seed) if seed & 3 == 0 => 10,
        Event::Act(0, _) => 1,
        _ => 0,
    };
    let sum = |course: &Course| course.events.iter().map(|(.., event)| weight(*event)).sum::<u32>();
    let mut seeds = (0..).map(|seed| {
        let mut course = Course::draw(Service::Tunnel, seed);
        course.events.retain(|(.., event)| weight(*event) == 1);
        course
    });
    let course = seeds.find(|course| sum(course) > 20).expect("one in a few");

    let shrunk = course.shrink_while(|course| sum(course) >= 10);

    assert_eq!(shrunk.events.len(), 1, "{shrunk:?}");
}
