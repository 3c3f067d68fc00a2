//! Tests the claims about HF radio with few runs: statements that must hold even if its parameters change.

use lab::campaign::{self, Plan, Tested};
use lab::progress::Progress;
use lab::{claims, runner};

#[test]
fn stanag_5066_uses_most_of_what_the_limit_allows_and_never_more() {
    let Tested { finding, .. } = test("hf-s5066");

    for point in finding.points.iter().filter(|point| point.line.series.starts_with("s5066")) {
        let limit = point.limit.expect("a link has one");
        assert!(point.y.mean <= limit * 1.01, "more than the limit: {point:?}");
        assert!(point.y.mean >= 0.7, "{point:?}");
    }
    let clear: Vec<f64> = finding
        .points
        .iter()
        .filter(|point| point.line.series == "s5066, key-up, 0")
        .map(|point| point.y.mean)
        .collect();
    assert!(clear.is_sorted_by(|fast, slow| fast > slow), "{clear:?}");
    assert_eq!(clear.len(), 5);
    for table in &finding.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{table:?}");
    }
    for exchange in &finding.exchanges {
        let timeline = exchange.timeline();
        assert!(timeline.stations.iter().all(|station| !station.spans.is_empty()), "{timeline:?}");
    }
}

#[test]
fn no_transfer_gets_more_than_its_limit_and_all_but_the_unviable_end() {
    for id in ["hf-nonarq", "hf-ipclient-ber"] {
        let Tested { finding, .. } = test(id);

        let ours =
            finding.points.iter().filter(|point| !point.line.series.starts_with("published"));
        for point in ours.filter(|point| point.y_unit == "utilisation") {
            let limit = point.limit.expect("a transfer has one");
            assert!(point.y.mean < limit, "{id}: {point:?}");
            let is_viable = point.line.series != "non-arq" || point.x < 1e-4 || point.x >= 1.0;
            assert!(!is_viable || point.y.mean > 0.01, "{id}: {point:?}");
        }
        assert!(!finding.measured.contains("NaN") && !finding.reason.is_empty(), "{id}");
        for table in &finding.tables {
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{id}");
        }
        assert!(finding.exchanges.iter().all(|it| it.timeline().stations.len() == 2), "{id}");
    }
}

fn test(id: &str) -> Tested {
    let chosen = campaign::select(&claims(), id).expect("a claim");
    let plan = Plan { runs: 1, family: 0, jobs: runner::cores(), only: &[] };
    campaign::run(&chosen, plan, |_| Progress::silent()).remove(0)
}
