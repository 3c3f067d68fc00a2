//! The means of experiments for programs: one JSON object a line.

use serde::Serialize;

use crate::campaign::Tested;

/// A point with its experiment, claim and series.
#[derive(Serialize)]
struct Line<'a> {
    experiment: &'a str,
    claim: &'a str,
    series: &'a str,
    x: f64,
    x_unit: &'a str,
    y: f64,
    y_unit: &'a str,
    /// Null where there is none: a single run, or a mean that is only a lower bound.
    ci95: Option<f64>,
    runs: u32,
    /// Runs that did not end.
    censored: u32,
    limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit2: Option<f64>,
    /// As `ci95`, of `limit2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit2_ci95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cell: Option<&'a str>,
}

/// One line a point.
///
/// # Errors
/// Never with numbers that JSON knows.
pub fn to_json_lines(tested: &[Tested]) -> serde_json::Result<String> {
    let mut text = String::new();
    for Tested { claim, finding } in tested {
        for point in &finding.points {
            let line = Line {
                experiment: claim.id,
                claim: claim.id,
                series: &point.line.series,
                x: point.x,
                x_unit: point.x_unit,
                y: point.y.mean,
                y_unit: point.y_unit,
                ci95: point.y.ci95,
                runs: point.y.runs,
                censored: point.y.censored,
                limit: point.limit,
                limit2: point.limit2.map(|limit| limit.mean),
                limit2_ci95: point.limit2.and_then(|limit| limit.ci95),
                sessions: point.sessions,
                cell: point.cell.as_deref(),
            };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::campaign::{Plan, run, tests::example};
    use crate::progress::Progress;

    #[test]
    fn each_line_is_a_point_with_all_its_keys() {
        let plan = Plan { runs: 3, family: 0, jobs: NonZeroUsize::MIN, only: &[] };
        let tested = run(&[example("a"), example("b")], plan, |_| Progress::silent());

        let text = to_json_lines(&tested).expect("plain numbers");

        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(lines.len(), 2);
        let object = lines[0].as_object().expect("an object");
        let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "censored",
                "ci95",
                "claim",
                "experiment",
                "limit",
                "runs",
                "series",
                "x",
                "x_unit",
                "y",
                "y_unit"
            ]
        );
        assert_eq!(object["runs"], 3);
        assert!(object["limit"].is_null());
    }

    #[test]
    fn a_measured_bound_and_the_name_of_a_place_are_told_where_they_are() {
        let plan = Plan { runs: 3, family: 0, jobs: NonZeroUsize::MIN, only: &[] };
        let mut tested = run(&[example("a")], plan, |_| Progress::silent());
        let point = &mut tested[0].finding.points[0];
        point.limit2 = Some(point.y.times(2.0));
        point.cell = Some("4 hops".to_owned());

        let text = to_json_lines(&tested).expect("plain numbers");

        let object: serde_json::Value = serde_json::from_str(&text).expect("an object");
        let number = |key: &str| object[key].as_f64().expect("a number");
        assert!((number("limit2") - 2.0 * number("y")).abs() < 1e-12);
        assert!((number("limit2_ci95") - 2.0 * number("ci95")).abs() < 1e-12);
        assert_eq!(object["cell"], "4 hops");
    }
}
