//! The verdict on made-up results, both ways, and runs that must be what their names say.

use super::matrix::scenarios;
use super::row::{Goal, Row};
use super::run::{DELAY, PACKETS, RESUME};
use super::scenario::{Host, LINKS, Outage, Place, Scenario};
use super::*;
use crate::answer::Answer;
use crate::claim::{Outcome, Verdict};
use crate::everywhere::{Judged as _, Ranking};
use crate::grid::{Place as _, Runs};
use crate::stats::Observation::{self, AtLeast, Exact};

/// What our profile does where plain TCP takes 10 s, 100 packets, and 2 s to go on.
#[derive(Clone, Copy)]
struct Ours {
    /// Run by run.
    delays: [f64; 3],
    packets: f64,
    resume: f64,
}

const FINE: Ours = Ours { delays: [9.0, 9.0, 9.0], packets: 110.0, resume: 0.5 };

/// Three runs of each scenario, in which plain TCP takes `plain`, and our profile what is said.
fn made_up(
    scenarios: &[Scenario],
    plain: Observation,
    ours: impl Fn(&Scenario) -> Ours,
) -> Runs<Try> {
    Runs::observed(everywhere::tries(scenarios), 3, |it, run| {
        let ours = ours(&it.scenario);
        let (delay, packets, resume) = match it.way {
            Carrier::Default => (Exact(ours.delays[run as usize]), ours.packets, ours.resume),
            Carrier::Paper | Carrier::Tcp => (plain, 100.0, 2.0),
        };
        vec![(DELAY, delay), (PACKETS, Exact(packets)), (RESUME, Exact(resume))]
    })
}

fn row_beside(scenario: Scenario, plain: Observation, ours: Ours) -> Row {
    Row::new(&made_up(&[scenario], plain, |_| ours), 0, scenario)
}

fn misses_beside(scenario: Scenario, plain: Observation, ours: Ours) -> Vec<Goal> {
    let row = row_beside(scenario, plain, ours);
    let misses = row.misses();
    let expected = if misses.is_empty() { Verdict::Reproduced } else { Verdict::Differs };
    assert_eq!(Ranking::new(vec![row]).verdict(), expected);
    misses
}

fn misses(scenario: Scenario, ours: Ours) -> Vec<Goal> {
    misses_beside(scenario, Exact(10.0), ours)
}

fn clean() -> Scenario {
    Scenario::new(4, LINKS[0], Host::Linux)
}

fn after_outage() -> Scenario {
    Scenario { outage: Some(Outage { seconds: 60, is_one_way: false }), ..clean() }
}

#[test]
fn without_loss_three_percent_more_delay_are_allowed() {
    let delay = |delay| Ours { delays: [delay; 3], ..FINE };

    assert_eq!(misses(clean(), delay(10.29)), []);
    assert_eq!(misses(clean(), delay(10.31)), [Goal::Delay]);
}

#[test]
fn a_wide_interval_decides_nothing() {
    // Mean 10.5, and an interval far wider than that.
    let unsure = Ours { delays: [6.5, 10.5, 14.5], ..FINE };
    let surely_slow = Ours { delays: [10.9, 11.0, 11.1], ..FINE };

    for scenario in [clean(), clean().losing(0.01)] {
        assert_eq!(row_beside(scenario, Exact(10.0), unsure).holds(), Answer::Undecided);
        assert_eq!(misses(scenario, surely_slow), [Goal::Delay]);
    }
}

#[test]
fn from_one_percent_loss_no_more_delay_is_allowed() {
    let slower = Ours { delays: [10.2; 3], ..FINE };

    assert_eq!(misses(clean().losing(0.001), slower), []);
    assert_eq!(misses(clean().losing(0.01), slower), [Goal::Delay]);
    assert_eq!(misses(clean().losing_at(0.2, Place::Backward, true), slower), [Goal::Delay]);
}

#[test]
fn packets_count_only_without_loss() {
    let packets = |packets| Ours { packets, ..FINE };

    assert_eq!(misses(clean(), packets(114.0)), []);
    assert_eq!(misses(clean(), packets(116.0)), [Goal::Packets]);
    assert_eq!(misses(clean().losing(0.001), packets(300.0)), []);
    assert_eq!(misses(after_outage(), packets(300.0)), []);
}

#[test]
fn an_outage_may_be_felt_for_a_second() {
    let resume = |resume| Ours { resume, ..FINE };

    assert_eq!(misses(after_outage(), resume(0.99)), []);
    assert_eq!(misses(after_outage(), resume(1.01)), [Goal::Resume]);
    assert_eq!(misses(clean(), resume(1.01)), [], "there was no outage");
}

#[test]
fn plain_tcp_that_does_not_end_is_slower_than_what_ends_before() {
    let ours = |delay| Ours { delays: [delay; 3], ..FINE };

    assert_eq!(misses_beside(clean().losing(0.2), AtLeast(10.0), ours(9.9)), []);
    let slower = row_beside(clean().losing(0.2), AtLeast(10.0), ours(10.1));
    assert_eq!(slower.holds(), Answer::Undecided, "plain TCP may be slower still");
}

#[test]
fn what_does_not_end_is_a_miss_whatever_plain_tcp_does() {
    let scenario = clean().losing(0.2);
    let unended = |_: &Try, _| vec![(DELAY, AtLeast(10.0)), (PACKETS, AtLeast(100.0))];
    let runs = Runs::observed(everywhere::tries(&[scenario]), 3, unended);

    assert_eq!(Row::new(&runs, 0, scenario).misses(), [Goal::Delay]);
}

#[test]
fn one_place_that_falls_short_changes_the_verdict_and_is_named() {
    let finding = |slow: Option<usize>| {
        let slow = slow.map(|number| scenarios()[number]);
        let slower = Ours { delays: [20.0; 3], ..FINE };
        let ours = |it: &Scenario| if slow.as_ref() == Some(it) { slower } else { FINE };
        everywhere::judge::<Hbh>(&made_up(&scenarios(), Exact(10.0), ours))
    };

    let (all_fine, one_slow) = (finding(None), finding(Some(7)));

    assert_eq!(all_fine.verdict, Verdict::Reproduced);
    assert!(all_fine.tables[0].rows.is_empty());
    assert_eq!(one_slow.verdict, Verdict::Differs);
    let name = scenarios()[7].name();
    assert!(one_slow.reason.contains(&name), "{}", one_slow.reason);
    assert_eq!(one_slow.tables[0].rows.len(), 1);
    assert_eq!(one_slow.tables[3].rows[0][1], name, "the slowest is not the first");
    let point = one_slow
        .points
        .iter()
        .find(|point| point.line.series == "default-delay" && point.cell.as_ref() == Some(&name));
    let point = point.expect("every place has a point");
    assert!((point.y.mean - 2.0).abs() < 1e-9 && (point.x - 7.0).abs() < 1e-9, "{point:?}");
}

fn value(outcome: &Outcome, metric: crate::claim::Metric) -> Option<f64> {
    let found = outcome.iter().find(|(name, _)| *name == metric)?;
    Some(found.1.value())
}

fn run(scenario: Scenario, carrier: Carrier, seed: u64) -> Outcome {
    Try { scenario, way: carrier }.cell().with_seed(seed)
}

#[test]
fn carriers_of_a_place_meet_the_same_chance() {
    let lossy = clean().losing(0.1);
    let numbered = |carrier| Try { scenario: lossy, way: carrier }.cell().run(0, 3);

    assert_eq!(numbered(Carrier::Tcp), numbered(Carrier::Tcp));
    assert_eq!(
        numbered(Carrier::Tcp),
        run(lossy, Carrier::Tcp, crate::runner::seed(&lossy.name(), 0, 3))
    );
    assert_eq!(
        numbered(Carrier::Default),
        run(lossy, Carrier::Default, crate::runner::seed(&lossy.name(), 0, 3))
    );
}

#[test]
fn an_outage_delays_by_at_least_its_length_and_is_felt_after_it() {
    let before = value(&run(clean(), Carrier::Tcp, 1), DELAY).expect("a delay");

    let outcome = run(after_outage(), Carrier::Tcp, 1);

    assert!(value(&outcome, DELAY).expect("a delay") > before + 50.0, "{outcome:?}");
    assert!(value(&outcome, RESUME).expect("an outage") > 0.05, "{outcome:?}");
    assert_eq!(value(&run(clean(), Carrier::Tcp, 1), RESUME), None);
}

#[test]
fn three_flows_take_longer_and_a_stream_adds_its_packets() {
    let run = |scenario| run(scenario, Carrier::Tcp, 1);
    let one = run(clean());

    let three = run(Scenario { flows: 3, ..clean() });
    let beside = run(Scenario { has_stream: true, ..clean() });

    let (delay, packets) = (value(&one, DELAY).unwrap(), value(&one, PACKETS).unwrap());
    assert!(value(&three, DELAY).unwrap() > 2.0 * delay, "{three:?}");
    // 100 kbit/s for three times some three seconds over four links: some 900.
    assert!(value(&beside, PACKETS).unwrap() > packets + 500.0, "{beside:?}");
    assert!(value(&beside, DELAY).unwrap() > delay + 0.2, "{beside:?}");
}

#[test]
fn every_host_gets_its_octets_over_every_link_under_every_carrier() {
    for link in LINKS {
        for host in Host::ALL {
            for carrier in Carrier::ALL {
                let scenario = Scenario { octets: 10_000, ..Scenario::new(2, link, host) };
                let least = scenario.least_delay().as_secs_f64();

                let outcome = run(scenario, carrier, 1);

                let is_over = outcome.iter().all(|(_, seen)| matches!(seen, Exact(_)));
                assert!(is_over, "{scenario} {carrier:?}: {outcome:?}");
                assert!(value(&outcome, DELAY) >= Some(least), "{scenario}: {outcome:?}");
            }
        }
    }
}

#[test]
fn a_flow_that_had_ended_before_an_outage_is_not_waited_for() {
    let outage = Some(Outage { seconds: 1, is_one_way: false });
    let scenario = Scenario { flows: 3, outage, ..Scenario::new(2, LINKS[2], Host::Current) };

    for run in 0..20 {
        let outcome = Try { scenario, way: Carrier::Tcp }.cell().run(0, run);

        // A connection that is over is forgotten a minute later: its next octet never comes.
        assert!(value(&outcome, RESUME).unwrap() < 30.0, "{run}: {outcome:?}");
    }
}
