//! The verdict on made-up results, both ways, and runs that must be what their names say.

use super::item::Item;
use super::item::Quantity::{
    self, Goodput, Octets, Page as PageTime, Share, SlowestPage, VoiceP99,
};
use super::matrix::scenarios;
use super::run::{GOODPUT, OCTETS, PAGE, RIVAL, SLOWEST_PAGE, VOICE_P50, VOICE_P99};
use super::scenario::{Jitter, Load, Losses, Path};
use super::*;
use crate::answer::Answer;
use crate::claim::{Metric, Outcome, Verdict};
use crate::everywhere::Judged as _;
use crate::grid::Runs;
use crate::stats::Observation::{self, AtLeast, Exact};

const METRICS: [Metric; 7] = [GOODPUT, OCTETS, PAGE, RIVAL, SLOWEST_PAGE, VOICE_P50, VOICE_P99];

/// Three runs of each scenario in which every plain way measures 1 of all, and ours what is said.
fn made_up(
    scenarios: &[Scenario],
    plain: impl Fn(Metric) -> Observation,
    ours: impl Fn(&Scenario, Metric, u32) -> Observation,
) -> Runs<Try> {
    Runs::observed(everywhere::tries(scenarios), 3, |it, run| {
        let value = |metric| match it.way {
            Way::Ours => ours(&it.scenario, metric, run),
            _ => plain(metric),
        };
        METRICS.map(|metric| (metric, value(metric))).into()
    })
}

fn base() -> Path {
    Path::new(10_000, 100)
}

/// Whether the goal of a quantity holds where ours is `factor` times what is plain.
fn holds(load: Load, quantity: Quantity, factor: f64) -> Answer {
    let scenario = base().loading(load);
    let runs = made_up(&[scenario], |_| Exact(1.0), |_, _, _| Exact(factor));
    // The rival of a share is one too many: it is 1 whatever ours is.
    let runs = match quantity {
        Share => made_up(
            &[scenario],
            |_| Exact(1.0),
            |_, metric, _| Exact(if metric == RIVAL { 1.0 } else { factor }),
        ),
        _ => runs,
    };
    let items = Item::all(&runs, 0, scenario);
    items.iter().find(|item| item.quantity == quantity).expect("it is measured there").holds()
}

#[test]
fn each_quantity_is_worse_in_its_own_direction() {
    for (load, quantity, fine, worse) in [
        (Load::ONE, Goodput, 0.96, 0.94),
        (Load::ONE, Goodput, 20.0, 0.01),
        (Load::ONE, Octets, 1.09, 1.11),
        (Load::page(10_000), PageTime, 1.04, 1.06),
        (Load::page(10_000), Octets, 1.49, 1.51),
        (Load::VOICE, VoiceP99, 1.04, 1.06),
        // Beside a download 10 ms more, on a way of 50 ms.
        (Load::BESIDE_VOICE, VoiceP99, 1.24, 1.26),
        (Load::BESIDE_CUBIC, Share, 0.81, 0.79),
        (Load::BESIDE_CUBIC, Share, 1.24, 1.26),
    ] {
        assert_eq!(holds(load, quantity, fine), Answer::Yes, "{quantity:?} {fine}");
        assert_eq!(holds(load, quantity, worse), Answer::No, "{quantity:?} {worse}");
    }
    assert_eq!(holds(Load::page(10_000), SlowestPage, 9.0), Answer::Yes, "it is only shown");
    assert_eq!(holds(Load::ONE, Goodput, 0.0), Answer::No, "nothing at all");
}

#[test]
fn what_is_compared_is_what_the_load_has() {
    let of = |load: Load| {
        let scenario = base().loading(load);
        let runs = made_up(&[scenario], |_| Exact(1.0), |_, _, _| Exact(1.0));
        Item::all(&runs, 0, scenario).iter().map(|item| item.quantity).collect::<Vec<_>>()
    };

    assert_eq!(of(Load::TEN), [Goodput, Octets]);
    assert_eq!(of(Load::page(10_000)), [PageTime, SlowestPage, Octets]);
    assert_eq!(of(Load::VOICE), [Quantity::VoiceMedian, VoiceP99, Octets]);
    assert_eq!(of(Load::BESIDE_CUBIC), [Share]);
}

#[test]
fn a_wide_interval_decides_nothing() {
    let scenario = base().loading(Load::ONE);
    let unsure = |_: &Scenario, _, run: u32| Exact([0.5, 0.9, 1.3][run as usize]);
    let runs = made_up(&[scenario], |_| Exact(1.0), unsure);

    assert_eq!(Item::all(&runs, 0, scenario)[0].holds(), Answer::Undecided);
}

/// Runs in which all ways measure what the run has by chance, ours times a factor.
fn by_chance(scenario: Scenario, factor: f64) -> Runs<Try> {
    Runs::observed(everywhere::tries(&[scenario]), 3, |it, run| {
        let value = [1.0, 5.0, 20.0][run as usize];
        let value = if it.way == Way::Ours { value * factor } else { value };
        METRICS.map(|metric| (metric, Exact(value))).into()
    })
}

#[test]
fn what_all_ways_meet_by_chance_does_not_blur_the_answer() {
    let scenario = base().loading(Load::page(10_000));
    let holds = |factor| {
        let items = Item::all(&by_chance(scenario, factor), 0, scenario);
        items.iter().find(|item| item.quantity == PageTime).expect("it is measured").holds()
    };

    assert_eq!([holds(1.02), holds(1.1)], [Answer::Yes, Answer::No]);
}

/// What a flow gets more its rival gets less, so their ratio varies by both.
#[test]
fn a_share_varies_by_what_both_get() {
    let scenario = base().loading(Load::BESIDE_CUBIC);
    let holds = |deviation: f64| {
        let ours = move |_: &Scenario, metric, run: u32| {
            let off = deviation * [-1.0, 0.0, 1.0][run as usize];
            Exact(if metric == RIVAL { 1.0 - off } else { 1.0 + off })
        };
        Item::all(&made_up(&[scenario], |_| Exact(1.0), ours), 0, scenario)[0].holds()
    };

    // With t = 4.303 the interval is five deviations either way, and three and a half if both were independent.
    assert_eq!([holds(0.04), holds(0.06)], [Answer::Yes, Answer::Undecided]);
}

#[test]
fn what_never_comes_is_worse_than_anything_that_does() {
    let scenario = base().loading(Load::VOICE);
    let p99 = |plain, ours| {
        let runs = made_up(&[scenario], move |_| plain, move |_, _, _| ours);
        let items = Item::all(&runs, 0, scenario);
        items.iter().find(|item| item.quantity == VoiceP99).expect("a voice").holds()
    };

    assert_eq!(p99(Exact(1.0), AtLeast(3.0)), Answer::No);
    assert_eq!(p99(AtLeast(3.0), Exact(1.0)), Answer::Yes);
    assert_eq!(p99(AtLeast(3.0), AtLeast(3.0)), Answer::Undecided, "neither comes");
}

#[test]
fn one_place_that_is_worse_changes_the_verdict_and_is_named_first() {
    let all = scenarios();
    let finding = |slow: Option<Scenario>| {
        let ours = move |it: &Scenario, metric, _| {
            Exact(if slow == Some(*it) && metric == GOODPUT { 0.5 } else { 1.0 })
        };
        everywhere::judge::<Tunnel>(&made_up(&scenarios(), |_| Exact(1.0), ours))
    };

    let (fine, slow) = (finding(None), finding(Some(all[3])));

    assert_eq!(fine.verdict, Verdict::Reproduced);
    assert!(fine.tables[0].rows.is_empty());
    assert_eq!(slow.verdict, Verdict::Differs);
    let name = all[3].to_string();
    assert!(slow.reason.contains(&name), "{}", slow.reason);
    assert_eq!(slow.tables[0].rows.len(), 1);
    assert_eq!(slow.tables[2].rows[0][1], name, "the worst is not the first");
    let is_ratio = |point: &&crate::claim::Point| {
        point.line.series == "cubic-goodput-ratio" && point.cell.as_ref() == Some(&name)
    };
    let point = slow.points.iter().find(is_ratio).expect("every comparison has a point");
    assert_eq!((point.y.mean, point.x), (0.5, 3.0));
}

#[test]
fn one_place_that_cannot_tell_leaves_the_verdict_open() {
    let unsure = scenarios()[7];
    let ours = move |it: &Scenario, metric, run: u32| {
        let value = [0.5, 0.9, 1.3][run as usize];
        Exact(if unsure == *it && metric == GOODPUT { value } else { 1.0 })
    };

    let finding = everywhere::judge::<Tunnel>(&made_up(&scenarios(), |_| Exact(1.0), ours));

    assert_eq!(finding.verdict, Verdict::Undecided);
    assert!(finding.tables[0].rows.is_empty());
    assert_eq!(finding.tables[1].rows.len(), 1);
    assert_eq!(finding.tables[1].rows[0][1], unsure.to_string());
}

#[test]
fn ours_has_to_be_as_good_as_the_better_of_the_plain_ways() {
    let scenario = base().loading(Load::ONE);
    for better in Way::PLAIN {
        let runs = Runs::observed(everywhere::tries(&[scenario]), 3, |it, _| {
            let value = if it.way == better { 2.0 } else { 1.0 };
            METRICS.map(|metric| (metric, Exact(value))).into()
        });

        let items = Item::all(&runs, 0, scenario);

        assert_eq!(items[0].holds(), Answer::No, "{better:?}");
        assert_eq!(items[0].worst().map(|(way, _)| way), Some(better));
    }
}

/// Octets may be more by a half where only voice goes, goodput only less by a twentieth.
#[test]
fn what_is_further_from_its_goal_is_worse() {
    let badness = |load, quantity, factor| {
        let scenario = base().loading(load);
        let runs = made_up(&[scenario], |_| Exact(1.0), move |_, _, _| Exact(factor));
        let items = Item::all(&runs, 0, scenario);
        items.iter().find(|item| item.quantity == quantity).expect("it is measured").badness()
    };

    assert!(badness(Load::VOICE, Octets, 1.4) < badness(Load::ONE, Goodput, 1.0 / 1.06));
}

#[test]
fn places_that_did_not_run_say_nothing() {
    let chosen = [scenarios()[5]];
    let runs = made_up(&chosen, |_| Exact(1.0), |_, _, _| Exact(1.0));

    let finding = everywhere::judge::<Tunnel>(&runs);

    assert_eq!(finding.verdict, Verdict::Reproduced);
    assert!(finding.measured.starts_with("in 1 places"), "{}", finding.measured);
    assert!(finding.points.iter().all(|point| !point.y.mean.is_nan()));
}

fn value(outcome: &Outcome, metric: Metric) -> f64 {
    let found = outcome.iter().find(|(name, _)| *name == metric);
    found.unwrap_or_else(|| panic!("no {metric}: {outcome:?}")).1.value()
}

fn run(scenario: Scenario, way: Way) -> Outcome {
    Try { scenario, way }.cell().with_seed(1)
}

/// 1 Mbit/s and 20 ms: so a run is short.
fn slow() -> Path {
    Path::new(1_000, 20)
}

#[test]
fn every_way_of_a_scenario_meets_the_same_chance() {
    let scenario = slow().losing(Losses::Single(0.05)).loading(Load::page(10_000));
    let seeds = Way::ALL.map(|way| Try { scenario, way }.cell().seed(0, 3));

    assert!(seeds.iter().all(|seed| *seed == seeds[0]), "{seeds:?}");
}

#[test]
fn a_download_fills_a_clean_path_each_way() {
    for way in Way::ALL {
        let outcome = run(slow().loading(Load::ONE), way);

        let (goodput, octets) = (value(&outcome, GOODPUT), value(&outcome, OCTETS));
        assert!((0.8..1.0).contains(&goodput), "{way:?}: {goodput} Mbit/s");
        assert!((1.03..1.2).contains(&octets), "{way:?}: {octets} octets for one");
    }
}

#[test]
fn pages_take_round_trips_and_wait_for_nothing_else() {
    for way in Way::ALL {
        let outcome = run(slow().loading(Load::page(10_000)), way);

        // A handshake, a round trip for ten segments, and the time to send them: 0.12 s.
        let page = value(&outcome, PAGE);
        assert!((0.1..0.2).contains(&page), "{way:?}: {page} s");
        assert!(value(&outcome, SLOWEST_PAGE) >= page);
    }
}

#[test]
fn voice_alone_waits_for_nothing_and_beside_a_download_for_the_buffer() {
    let outcome = |load| run(slow().with_buffer(40).loading(load), Way::Cubic);
    let alone = outcome(Load::VOICE);
    let beside = outcome(Load::BESIDE_VOICE);

    assert!((0.010..0.015).contains(&value(&alone, VOICE_P99)), "{alone:?}");
    assert!(value(&beside, VOICE_P50) > 0.1, "40 packets take half a second: {beside:?}");
}

#[test]
fn lost_voice_counts_as_voice_that_comes_late() {
    let lossy = slow().losing(Losses::Single(0.05)).loading(Load::VOICE);

    let outcome = run(lossy, Way::Cubic);

    let of = |metric| outcome.iter().find(|(name, _)| *name == metric).expect("a voice").1;
    assert!(matches!(of(VOICE_P50), Exact(_)), "{outcome:?}");
    assert!(matches!(of(VOICE_P99), AtLeast(_)), "{outcome:?}");
}

#[test]
fn two_plain_flows_share_a_path() {
    let outcome = run(slow().loading(Load::BESIDE_CUBIC), Way::Cubic);

    let sum = value(&outcome, GOODPUT) + value(&outcome, RIVAL);
    assert!((0.85..1.0).contains(&sum), "{outcome:?}");
    assert!(value(&outcome, RIVAL) > 0.2, "{outcome:?}");
}

#[test]
fn only_a_share_is_measured_without_the_start() {
    let rival = base().loading(Load::BESIDE_CUBIC);

    assert_eq!(rival.warm_up(), rival.length() / 3);
    for load in [Load::ONE, Load::TEN, Load::VOICE, Load::page(10_000)] {
        assert!(base().loading(load).warm_up().is_zero(), "{load}");
    }
}

#[test]
fn octets_of_voice_are_what_applications_received_as_well() {
    let outcome = run(slow().loading(Load::VOICE), Way::Cubic);

    // 28 of headers on 160.
    let octets = value(&outcome, OCTETS);
    assert!((1.17..1.19).contains(&octets), "{octets} octets for one");
}

#[test]
fn what_does_not_come_within_its_limit_is_no_measurement() {
    let of = |outcome: &Outcome, metric| {
        outcome.iter().find(|(name, _)| *name == metric).expect("it is measured").1
    };

    let dead = slow().losing(Losses::Single(1.0)).loading(Load::page(10_000));
    let pages = run(dead, Way::Cubic);
    for metric in [PAGE, SLOWEST_PAGE] {
        assert!(matches!(of(&pages, metric), AtLeast(_)), "{pages:?}");
    }

    // A queue of twelve seconds.
    let voice = run(slow().with_buffer(1_000).loading(Load::BESIDE_VOICE), Way::Cubic);
    assert!(matches!(of(&voice, VOICE_P99), AtLeast(_)), "{voice:?}");
}

#[test]
fn the_slowest_page_is_slower_than_the_mean_where_chance_decides() {
    let lossy = slow().losing(Losses::Single(0.1)).loading(Load::page(100_000));

    let outcome = run(lossy, Way::Cubic);

    assert!(value(&outcome, SLOWEST_PAGE) > value(&outcome, PAGE) * 1.05, "{outcome:?}");
}

#[test]
fn traffic_both_ways_counts_together() {
    let outcome = run(slow().loading(Load::BOTH_WAYS), Way::Cubic);

    assert!(value(&outcome, GOODPUT) > 1.2, "{outcome:?}");
}

#[test]
fn jitter_and_fades_are_of_the_path() {
    let late = slow().with_jitter(Jitter::InOrder(10)).loading(Load::VOICE);
    let outcome = run(late, Way::Cubic);
    assert!(value(&outcome, VOICE_P99) > 0.018, "{outcome:?}");

    let fading = slow().losing(Losses::Fades(0.1, 200)).loading(Load::VOICE);
    let outcome = run(fading, Way::Cubic);
    let p99 = outcome.iter().find(|(name, _)| *name == VOICE_P99).expect("a voice").1;
    assert!(matches!(p99, AtLeast(_)), "{outcome:?}");
}
