//! The means of an experiment as comma-separated values.

use std::fmt::Write as _;

use crate::claim::{Claim, Finding};

/// One line a point, the names of the columns first. An empty field is a value that does not exist.
#[must_use]
pub fn to_csv(claim: &Claim, finding: &Finding) -> String {
    let mut text = String::from(
        "experiment,claim,series,x,x_unit,y,y_unit,ci95,runs,censored,limit,sessions,limit2,limit2_ci95,cell\n",
    );
    for point in &finding.points {
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let _ = writeln!(
            text,
            "{id},{id},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(&point.line.series),
            point.x,
            quoted(point.x_unit),
            point.y.mean,
            quoted(point.y_unit),
            optional(point.y.ci95),
            point.y.runs,
            point.y.censored,
            optional(point.limit),
            point.sessions.map_or(String::new(), |sessions| sessions.to_string()),
            optional(point.limit2.map(|limit| limit.mean)),
            optional(point.limit2.and_then(|limit| limit.ci95)),
            quoted(point.cell.as_deref().unwrap_or_default()),
            id = claim.id,
        );
    }
    text
}

/// A field, in quotes where it needs them (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::campaign::{Plan, run, tests::example};
    use crate::progress::Progress;

    #[test]
    fn a_field_with_a_comma_stays_one_field() {
        assert_eq!(quoted("paper, 3 hops"), "\"paper, 3 hops\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("tcp"), "tcp");
    }

    #[test]
    fn every_line_has_the_columns_of_the_head() {
        let plan = Plan { runs: 3, family: 0, jobs: NonZeroUsize::MIN, only: &[] };
        let tested = run(&[example("a")], plan, |_| Progress::silent());

        let text = to_csv(&tested[0].claim, &tested[0].finding);

        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [15, 15]);
    }
}
