//! The claims about HF radio, with few runs: what must hold whatever its parameters become.

use lab::campaign::{self, Plan, Tested};
use lab::progress::Progress;
use lab::{claims, runner};

#[test]
fn stanag_5066_uses_most_of_what_the_limit_allows_and_never_more() {
    let Tested { finding, .. } = test("hf-s5066");

    for point in finding.points.iter().filter(|point| point.series == "s5066") {
        let limit = point.limit.expect("a link has one");
        assert!(point.y.mean <= limit * 1.01, "more than the limit: {point:?}");
        assert!(point.y.mean >= 0.75, "{point:?}");
    }
    for table in &finding.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{table:?}");
    }
    for exchange in &finding.exchanges {
        let timeline = exchange.timeline();
        assert!(timeline.stations.iter().all(|station| !station.spans.is_empty()), "{timeline:?}");
    }
}

fn test(id: &str) -> Tested {
    let chosen = campaign::select(&claims(), id).expect("a claim");
    let plan = Plan { runs: 1, jobs: runner::cores() };
    campaign::run(&chosen, plan, |_| Progress::silent()).remove(0)
}
