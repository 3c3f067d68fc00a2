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
fn a_broken_rule_shrinks_to_few_events() {
    // A course without a broken rule stays what it is; a made-up rule is never broken.
    let course = Course::draw(Service::Sar, 1);

    let shrunk = course.shrink("none: such");

    assert_eq!(shrunk, course);
    assert_eq!(course.clone().only(&BTreeSet::new()).events, []);
}
