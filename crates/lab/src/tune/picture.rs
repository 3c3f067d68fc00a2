//! The metric over the range of each parameter, one panel each.

use super::outcome::{AS_WRITTEN, Outcome};
use super::space::{Axis, Space};
use super::sweep::Sweep;
use super::trials::Goal;
use crate::figure::{self, Figure, Ink, Mark, Series};

/// The panels as an SVG document. The same outcome always gives the same text.
#[must_use]
pub fn picture(outcome: &Outcome, space: &Space, goal: &Goal) -> String {
    let whole = outcome.swept.sweeps.iter().flat_map(|sweep| &sweep.points);
    let whole = whole.filter(|point| point.score.missing() == 0);
    // All panels share one factor, so that they can be compared.
    let by = factor(whole.map(|point| point.score.mean.mean));
    let panels = outcome.swept.sweeps.iter();
    let panels: Vec<Figure> =
        panels.map(|sweep| panel(sweep, (outcome, space), goal, &by)).collect();
    figure::panels_to_svg(&panels)
}

fn panel(
    sweep: &Sweep,
    (outcome, space): (&Outcome, &Space),
    goal: &Goal,
    (factor, power): &(f64, String),
) -> Figure {
    let axis = &space.axes[sweep.axis];
    let whole = sweep.points.iter().filter(|point| point.score.missing() == 0);
    let mark = |x, estimate: &crate::stats::Estimate| Mark::measured(x, &estimate.times(*factor));
    let swept = whole.map(|point| mark(point.choice.x, &point.score.mean));
    let as_written = &outcome.found[AS_WRITTEN].tuned;
    let ends = [&sweep.points[0], &sweep.points[sweep.points.len() - 1]].map(|it| it.choice.x);
    let mut series = vec![Series::new("over its range", Ink::Default, swept)];
    if as_written.missing() == 0 {
        let level = as_written.mean.mean * factor;
        let marks = ends.map(|x| Mark::exact(x, level));
        series.push(Series::new("the file as it is", Ink::Limit, marks));
    }
    let best = outcome.best().filter(|best| best.tuned.missing() == 0);
    if let Some(best) = best
        && let Some(choice) = &best.setting.0[sweep.axis]
    {
        let recommended = [mark(choice.x, &best.tuned.mean)];
        series.push(Series::new("recommended, with all others", Ink::Other(0), recommended));
    }
    let beside: Vec<String> = outcome.swept.sweeps[..sweep.axis]
        .iter()
        .map(|it| format!("{} = {}", space.axes[it.axis].name, it.points[it.best].choice.label))
        .collect();
    let beside = if beside.is_empty() {
        "all other parameters as in the file".to_owned()
    } else {
        format!("beside {}", beside.join(", "))
    };
    let label = if power.is_empty() {
        format!("{}", goal.metric)
    } else {
        format!("{}, in {power}", goal.metric)
    };
    Figure {
        name: axis.name.clone(),
        title: format!("{} over {}", goal.metric, axis.name),
        subtitle: format!(
            "Mean of {} runs with the same seeds for all values; {beside}",
            as_written.values.len()
        ),
        x: x_axis(axis),
        y: figure::Axis::linear(&label, ""),
        series,
        note: note(axis),
    }
}

fn x_axis(axis: &Axis) -> figure::Axis {
    use super::range::Values;
    match &axis.values {
        Values::Range(range) if range.is_log => figure::Axis::log(&axis.name, axis.values.unit()),
        Values::List(_) => {
            let ticks = axis.values.grid().into_iter().map(|choice| choice.x);
            let plain = figure::Axis::linear(&axis.name, axis.values.unit());
            figure::Axis { from_zero: false, ..plain }.with_ticks(ticks)
        }
        Values::Range(_) => figure::Axis::linear(&axis.name, axis.values.unit()),
    }
}

/// What numbers on the axis stand for.
fn note(axis: &Axis) -> String {
    if !axis.values.is_words() {
        return String::new();
    }
    let named = axis.values.grid().into_iter();
    let named: Vec<String> =
        named.map(|choice| format!("{}: {}", choice.x, choice.label)).collect();
    format!("{}.", named.join(", "))
}

/// A factor that scales the largest value to between 1 and 1,000, and the text for it.
fn factor(values: impl Iterator<Item = f64>) -> (f64, String) {
    let most = values.map(f64::abs).fold(0.0, f64::max);
    if most == 0.0 || (1e-2..1e6).contains(&most) {
        return (1.0, String::new());
    }
    let power = (most.log10() / 3.0).floor() * 3.0;
    (10_f64.powf(-power), format!("10^{power}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_shown_as_numbers_of_few_digits() {
        let (by, said) = factor([3.2e-5, 1e-7].into_iter());
        assert!((3.2e-5 * by - 32.0).abs() < 1e-9, "{by}");
        assert_eq!(said, "10^-6");
        assert_eq!(factor([0.0].into_iter()), (1.0, String::new()));
        assert_eq!(factor([12.0].into_iter()), (1.0, String::new()));
    }
}
