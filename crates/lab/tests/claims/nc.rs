//! Tests the claims about the coded tunnel with few runs: statements that must hold even if its parameters change.

use lab::campaign::{self, Plan, Tested};
use lab::progress::Progress;
use lab::{claims, runner};

#[test]
fn quick_claims_get_a_verdict_from_sensible_numbers() {
    for id in ["nc-rto", "nc-lre"] {
        let Tested { finding, .. } = test(id);

        assert_eq!(finding.figures.len(), 1, "{id}");
        assert!(!finding.measured.contains("NaN") && !finding.reason.is_empty(), "{id}");
        assert!(!finding.points.is_empty(), "{id}");
        for point in &finding.points {
            assert!(point.y.mean.is_finite() && point.y.runs == 1, "{id}: {point:?}");
        }
        for table in &finding.tables {
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{id}");
        }
    }
}

#[test]
fn no_session_gets_more_than_its_limit_and_ours_most_of_it() {
    let Tested { finding, .. } = test("nc-goodput");

    for point in &finding.points {
        let limit = point.limit.expect("a session has one");
        assert!(point.y.mean <= limit * 1.005, "more than the links carry: {point:?}");
        assert!(point.line.series != "ours" || point.y.mean >= 0.9 * limit, "{point:?}");
    }
}

fn test(id: &str) -> Tested {
    let chosen = campaign::select(&claims(), id).expect("a claim");
    let plan = Plan { runs: 1, family: 0, jobs: runner::cores(), only: &[] };
    campaign::run(&chosen, plan, |_| Progress::silent()).remove(0)
}
