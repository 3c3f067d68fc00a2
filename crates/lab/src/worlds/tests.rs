use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::AtomicBool;

use base::quantity::BitRate;

use super::*;

#[test]
fn worlds_keep_their_ranges_and_each_kind_occurs() {
    let worlds: Vec<World> = (0..600).map(|index| World::draw(1, index)).collect();

    for world in &worlds {
        let count = world.hops.len();
        assert!((1..=8).contains(&count), "{world}");
        assert!((1..=20).contains(&world.long.len()), "{world}");
        assert!(world.plain.iter().all(|node| (1..count).contains(node)), "{world}");
        for hop in &world.hops {
            assert!((4..1_000).contains(&hop.near.queue_packets), "{world}");
            for direction in [&hop.there, &hop.back] {
                let BitRate::PerSecond(rate) = direction.rate else { panic!("{world}: no rate") };
                assert!((19_999..=100_000_000).contains(&rate.get()), "{world}: {rate}");
                assert!(direction.check().is_ok(), "{world}");
            }
        }
        let delay: f64 = world.hops.iter().map(|hop| hop.there.delay.as_secs_f64()).sum();
        assert!((0.000_9..0.401).contains(&delay), "{world}");
    }
    for kind in Kind::ALL {
        let count = worlds.iter().filter(|world| world.kinds().contains(&kind)).count();
        assert!(count >= 6, "{kind}: {count} of {}", worlds.len());
        assert_eq!(kind.name().parse(), Ok(kind));
    }
}

#[test]
fn long_flows_have_ten_bandwidth_delay_products() {
    for index in 0..300 {
        let world = World::draw(2, index);
        let rates = world.hops.iter().map(|hop| match hop.there.rate {
            BitRate::PerSecond(rate) => rate.get() as f64,
            BitRate::Unlimited => f64::INFINITY,
        });
        let rate = rates.fold(f64::INFINITY, f64::min);
        let delay: f64 = world.hops.iter().map(|hop| hop.there.delay.as_secs_f64()).sum();

        let products = world.long[0].octets as f64 / (rate * 2.0 * delay / 8.0);

        assert!(products > 9.9, "{world}: {products}");
    }
}

#[test]
fn a_world_is_the_same_whoever_draws_it_and_however_many_run_at_once() {
    let selection = |jobs| Selection {
        family: 5,
        runs: 2,
        kind: Some(Kind::Jitter),
        index: None,
        repeats: NonZeroU32::MIN,
        services: Service::ALL.to_vec(),
        jobs: NonZeroUsize::new(jobs).unwrap(),
    };
    let run = |jobs| {
        selection(jobs).run(|_| Progress::silent(), &AtomicBool::new(false)).expect("it builds")
    };

    let results = run(1);

    assert_eq!(results, run(3));
    assert_eq!(results.rows.len(), 4);
    for row in &results.rows {
        let alone = Selection { kind: None, index: Some(row.world.index), ..selection(1) };
        assert_eq!(alone.indices(), [row.world.index]);
        assert_eq!(World::draw(5, row.world.index), row.world);
        assert!(row.world.kinds().contains(&Kind::Jitter));
    }
}

#[test]
fn repeats_have_other_chances_in_the_same_world() {
    let lossy = |index: &u32| World::draw(3, *index).kinds().contains(&Kind::LossOnAll);
    let world = World::draw(3, (0..).find(lossy).unwrap());
    let measure = |repeats| world.measure(None, NonZeroU32::new(repeats).unwrap()).unwrap();

    let (once, twice) = (measure(1), measure(2));
    let again = Measured { time: 2.0 * twice.time - once.time, ..once.clone() };

    assert_eq!(twice.is_whole, once.is_whole);
    assert!((again.time / once.time - 1.0).abs() > 1e-6, "the same chance twice: {once:?}");
    assert!((again.time / once.time - 1.0).abs() < 1.0, "another world: {once:?} {again:?}");
    assert!(twice.events > once.events);
}

#[test]
fn a_mean_of_runs_has_what_the_world_has() {
    let run = |time, voice| Measured { time, is_whole: time < 3.0, voice, ..Measured::default() };

    let mean = Measured::mean(&[run(1.0, Some(0.2)), run(4.0, Some(0.6))]);

    assert_eq!((mean.time, mean.voice, mean.udp), (2.5, Some(0.4), None));
    assert!(!mean.is_whole);
    assert_eq!(Measured::mean(&[run(1.0, None)]), run(1.0, None));
}

#[test]
fn a_ratio_above_one_is_always_worse() {
    let plain = Measured {
        time: 2.0,
        voice: Some(0.1),
        neighbour: Some(9e6),
        equal_part: Some(4.5e6),
        ..Measured::default()
    };
    let ours = Measured { time: 4.0, voice: Some(0.3), neighbour: Some(3e6), ..plain.clone() };
    let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 1e-2);

    assert!(near(ours.ratio(&plain, Measure::Time), 2.0));
    assert!(near(ours.ratio(&plain, Measure::Voice), 3.0));
    assert!(near(ours.ratio(&plain, Measure::Neighbour), 3.0));
    assert!(near(ours.ratio(&plain, Measure::Share), 1.5), "more than an equal part is not due");
    assert_eq!(ours.ratio(&plain, Measure::Requests), None);
}

#[test]
fn an_equal_part_is_what_each_flow_in_one_direction_has_of_the_bottleneck() {
    let worlds = (0..300).map(|index| World::draw(5, index));
    let plain = |world: &World| {
        let is_calm = world.shifts.is_empty() && world.voice.is_none() && world.udp.is_none();
        is_calm && world.long.iter().all(|flow| !flow.is_back)
    };
    let mut looked_at = 0;
    for world in worlds.filter(plain) {
        let Some(hop) = world.neighbour else { continue };
        let flows = world.long.len() as f64;
        let all: f64 = world.long.iter().map(|flow| flow.octets as f64).sum();

        let parts = world.equal_part(hop) * (flows + 1.0) / all;

        // The least time has some delays in it as well, and in some worlds the slower way back.
        assert!(parts > 0.99, "{world}: {parts}");
        looked_at += 1;
    }
    assert!(looked_at > 10, "{looked_at}");
}

#[test]
fn tables_list_each_kind_that_ran_and_the_worst_first() {
    let row = |index, time| Row {
        world: World::draw(4, index),
        repeats: NonZeroU32::MIN.saturating_add(7),
        service: Service::Hbh,
        plain: Measured { time: 1.0, is_whole: true, ..Measured::default() },
        ours: Measured { time, is_whole: true, ..Measured::default() },
    };
    let rows = vec![row(0, 0.5), row(1, 7.0), row(2, 1.0)];
    let results = Results { rows, services: vec![Service::Hbh], is_whole: true };

    let [all, kinds, worst] = &results.tables(false)[..] else { panic!("three tables") };

    assert_eq!(all.rows[0], ["time", "3", "0.50", "1.00", "7.00", "7.00", "7.00"]);
    assert!(kinds.rows.len() > 2, "{kinds:?}");
    assert_eq!(worst.rows[0][0], "7.00");
    let command = "trackway lab run worlds --seed 4 --world 1 --service hbh --repeats 8";
    assert_eq!(worst.rows[0][3], command);
}
