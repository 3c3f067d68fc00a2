//! Tests the claims about HBH with few runs: statements that must hold even if the protocols' parameters change.

use std::collections::BTreeMap;

use lab::campaign::{self, Plan, Tested};
use lab::claim::Point;
use lab::progress::Progress;
use lab::{claims, output, runner};

#[test]
fn every_claim_gets_a_verdict_from_sensible_numbers() {
    let chosen = campaign::select(&claims(), "hbh").expect("the group");
    let plan = Plan { runs: 3, family: 0, jobs: runner::cores(), only: &[] };

    let tested = campaign::run(&chosen, plan, |_| Progress::silent());

    assert_eq!(tested.len(), 10);
    for Tested { claim, finding } in &tested {
        let name = claim.id;
        assert!(!finding.figures.is_empty() && !finding.points.is_empty(), "{name}");
        assert!(!finding.measured.contains("NaN") && !finding.reason.is_empty(), "{name}");
        for point in &finding.points {
            // Without losses there is little chance, and two runs are enough.
            assert!(point.y.mean.is_finite() && point.y.runs >= 2, "{name}: {point:?}");
        }
    }
    assert_slower_than_physics(&tested);
    assert_ahead_of_paper(&tested);
    let html = output::to_html(&tested, "a test");
    assert!(tested.iter().all(|one| html.contains(&format!("<section id=\"{}\"", one.claim.id))));
}

/// Few runs may be lucky with losses; without any nothing is faster than physics.
fn assert_slower_than_physics(tested: &[Tested]) {
    for point in points(tested, "hbh-delay").filter(|point| point.x < 0.5) {
        let limit = point.limit.expect("a transfer has one");
        assert!(point.y.mean >= limit, "faster than physics: {point:?}");
    }
}

/// Our profile is ahead of the paper's at every loss, in delay and in packets.
fn assert_ahead_of_paper(tested: &[Tested]) {
    for id in ["hbh-delay", "hbh-usage"] {
        let mut by_loss: BTreeMap<String, BTreeMap<&str, f64>> = BTreeMap::new();
        for point in points(tested, id) {
            by_loss
                .entry(point.x.to_string())
                .or_default()
                .insert(&point.line.series, point.y.mean);
        }
        for (loss, means) in by_loss {
            assert!(means["default"] < means["paper"], "{id} at {loss} %: {means:?}");
        }
    }
}

fn points<'a>(tested: &'a [Tested], id: &str) -> impl Iterator<Item = &'a Point> {
    let one = tested.iter().find(|one| one.claim.id == id).expect("a claim");
    one.finding.points.iter()
}
