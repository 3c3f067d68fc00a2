//! Who may transmit when.

use super::*;

/// Accesses of a net whose stations always have something to send: how many there were, and how many
/// collided. One is all that begins at an instant.
fn accesses(lab: &Lab) -> [u64; 2] {
    let mut counts = [0; 2];
    let mut rest = &lab.air[..];
    while let Some(first) = rest.first() {
        let together = rest.iter().take_while(|it| it.start == first.start).count();
        counts[0] += 1;
        counts[1] += u64::from(together > 1);
        rest = &rest[together..];
    }
    counts
}

fn saturated(config: Config, stations: u32, seconds: u64) -> Lab {
    let mut lab = Lab::new(config, Hearing::All, stations, 0.0);
    for station in 0..stations as usize {
        lab.saturate(station, (station + 1) % stations as usize, 128);
    }
    lab.run(secs(seconds));
    lab
}

/// One frame in each transmission.
fn single(access: AccessMethod) -> Config {
    Config { access, concatenate: 0, ..quiet() }
}

#[test]
fn saturated_stations_at_random_collide_and_carry_as_the_model_says() {
    const SECONDS: u64 = 40_000;
    for stations in [4_u32, 8, 16] {
        let config = single(AccessMethod::Random);
        let lab = saturated(config, stations, SECONDS);

        // Each takes one of m slots. The least is taken by one alone with probability p.
        let m = f64::from(stations * 3 / 4 + 1);
        let n = f64::from(stations);
        let slots = stations * 3 / 4;
        let alone = |f: u32| n / m * ((m - 1.0 - f64::from(f)) / m).powf(n - 1.0);
        let p: f64 = (0..=slots).map(alone).sum();
        let at_least = |f: u32| ((m - f64::from(f)) / m).powf(n);
        let delay = |f: u32| match f {
            0 => 0.0,
            f => f64::from(f) * 0.252 + f64::from(f - 1) * 0.01,
        };
        let mean_delay: f64 = (0..=slots).map(|f| (at_least(f) - at_least(f + 1)) * delay(f)).sum();
        let times = AirTime::new(&config);
        let cycle = times.cycle(LinkType::Unacknowledged, 128).as_secs_f64() + mean_delay;

        let [total, collided] = accesses(&lab);
        let share = 1.0 - collided as f64 / total as f64;
        let error = (p * (1.0 - p) / total as f64).sqrt();
        let text = format!(
            "{stations} stations: {total} accesses, alone {share:.4}, model {p:.4} +- {error:.4}; a cycle of \
             {:.4} s, model {cycle:.4} s",
            SECONDS as f64 / total as f64
        );
        // Four standard errors; the seed is fixed.
        assert!((share - p).abs() < 4.0 * error, "{text}");
        // The delay of an access varies by no more than its mean.
        let spread = 4.0 * mean_delay / (total as f64).sqrt() / cycle;
        assert!((SECONDS as f64 / total as f64 / cycle - 1.0).abs() < spread, "{text}");
        let received: usize = (0..stations as usize).map(|it| lab.received(it)).sum();
        assert!(received as u64 <= total && received as u64 + 1 >= total - collided, "{text}");
    }
}

#[test]
fn stations_in_rotation_take_turns_and_never_collide() {
    let mut lab = saturated(single(AccessMethod::DeterministicAdaptive), 5, 60);

    let order: Vec<usize> = lab.air.iter().map(|it| it.from.0).collect();
    assert!(order.len() > 60, "{}", order.len());
    for (place, from) in order.iter().enumerate() {
        assert_eq!(*from, place % 5, "{order:?}");
    }
    assert_eq!(lab.medium.total(lab.now).collisions, 0);
    // The rotation goes on while nobody sends: who comes later waits for a slot of its own.
    lab.flows.fill(None);
    lab.run(lab.now + Duration::from_secs(60));
    let before = lab.air.len();
    let begin = lab.now;
    // Each a little less than a slot before the one with the slot before its own: slots that began when a
    // frame comes would overlap.
    for (turn, station) in (0..5_u64).zip((0..5).rev()) {
        lab.run(begin + Duration::from_millis(200 * turn));
        assert!(lab.send(station, (station + 1) % 5, 128, Precedence::Routine));
    }
    lab.run(lab.now + Duration::from_secs(60));
    assert_eq!(lab.air.len() - before, 5);
    assert_eq!(lab.medium.total(lab.now).collisions, 0);
}

#[test]
fn higher_precedence_leaves_first_within_a_station() {
    for access in [
        AccessMethod::DeterministicAdaptive,
        AccessMethod::Hybrid,
        AccessMethod::Prioritised,
        AccessMethod::RadioEmbedded,
        AccessMethod::Random,
    ] {
        let mut lab = Lab::new(single(access), Hearing::All, 3, 0.0);
        let precedences = [Precedence::Routine, Precedence::Priority, Precedence::Urgent];
        for (octets, precedence) in [100, 200, 300].into_iter().zip(precedences) {
            assert!(lab.send(0, 1, octets, precedence));
        }

        lab.run(secs(120));

        let order: Vec<u32> = lab.air.iter().map(|it| it.octets).collect();
        assert_eq!(order, [300, 200, 100], "{access:?}");
    }
}

#[test]
fn higher_precedence_of_another_station_goes_before_by_rank_band_and_rotation() {
    for access in
        [AccessMethod::DeterministicAdaptive, AccessMethod::Hybrid, AccessMethod::Prioritised]
    {
        let mut lab = Lab::new(single(access), Hearing::All, 8, 0.0);
        // An urgent transmission, which all have noticed, and behind which they wait.
        assert!(lab.send(0, 1, 576, Precedence::Urgent));
        while lab.stats(0).transmissions == 0 {
            lab.run(lab.medium.next_timeout().unwrap());
        }
        lab.run(lab.now + Duration::from_millis(300));
        for (station, precedence) in
            [(1, Precedence::Routine), (2, Precedence::Priority), (7, Precedence::Urgent)]
        {
            assert!(lab.send(station, 0, 128, precedence));
        }

        lab.run(secs(120));

        let order: Vec<usize> = lab.air.iter().map(|it| it.from.0).collect();
        assert_eq!(order, [0, 7, 2, 1], "{access:?}");
    }
}

#[test]
fn ranks_and_blocks_of_p_nad_overlap_as_its_definition_has_them() {
    // The last to transmit adds the number of stations, so that rank r among routine frames meets rank r - 1
    // of the block behind.
    let config = single(AccessMethod::Prioritised);
    let mut lab = Lab::new(config, Hearing::All, 4, 0.0);
    assert!(lab.send(2, 0, 128, Precedence::Urgent));
    lab.run(Time::from_nanos(900_000_000));
    assert!(lab.send(2, 0, 128, Precedence::Urgent));
    assert!(lab.send(1, 0, 128, Precedence::Priority));

    lab.run(secs(60));

    assert_eq!(lab.stats(0).collisions, 2, "{:?}", lab.story());
}

#[test]
fn sixteen_stations_get_the_same_share() {
    for (access, bound) in [
        (AccessMethod::DeterministicAdaptive, 0.01),
        (AccessMethod::Random, 0.15),
        (AccessMethod::RadioEmbedded, 0.15),
        (AccessMethod::Hybrid, 0.15),
    ] {
        let lab = saturated(single(access), 16, 20_000);

        let shares: Vec<u64> = (0..16).map(|it| lab.stats(it).frames).collect();

        let mean = shares.iter().sum::<u64>() as f64 / 16.0;
        let worst = shares.iter().map(|it| (*it as f64 / mean - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < bound, "{access:?}: {worst:.3} {shares:?}");
    }
}

#[test]
fn an_embedded_radio_with_an_idle_net_sends_at_once_and_waits_longer_under_load() {
    let mut config = single(AccessMethod::RadioEmbedded);
    config.scheduling.persistence = 1.0;
    let mut lab = Lab::new(config, Hearing::All, 16, 0.0);
    assert!(lab.send(0, 1, 128, Precedence::Routine));
    lab.run(secs(10));
    assert_eq!(lab.air[0].start, Time::ZERO);

    // With k = 0 only the slots of the radios count, and all meet in the first one.
    let collided = |factor| {
        let mut config = single(AccessMethod::RadioEmbedded);
        config.scheduling.factor = factor;
        let [total, collided] = accesses(&saturated(config, 16, 4_000));
        collided as f64 / total as f64
    };
    let (none, half, two) = (collided(0.0), collided(0.5), collided(2.0));
    assert!(none > half + 0.1 && half > two + 0.05, "{none:.3} {half:.3} {two:.3}");
}

#[test]
fn the_same_seed_gives_the_same_air() {
    let story = |seed| {
        let mut lab = Lab::seeded(quiet(), Hearing::All, 16, 0.0, seed);
        for station in 0..16 {
            lab.saturate(station, (station + 5) % 16, 200);
        }
        lab.run(secs(300));
        lab.story()
    };

    assert_eq!(story(3), story(3));
    assert_ne!(story(3), story(4));
}
