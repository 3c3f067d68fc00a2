//! A sweep: a curve for each thing that is compared, a point on it for each value of an axis.
//!
//! ```text
//!   series ─┐                              ┌─▶ points ─▶ figure
//!           ├─▶ place ─▶ runs ─▶ estimate ─┼─▶ table
//!   values ─┘                              └─▶ bounds: best, least and most
//! ```
//!
//! A claim says once what it compares over what, and takes points, tables and bounds from there:
//!
//! ```ignore
//! let guesses = (GUESSES, |guess| f64::from(guess) / 10.0, "s");
//! let sweep = Sweep::new(runs, (CARRIERS, Carrier::line), guesses, |carrier, guess| Trial { guess, ..of(carrier) });
//! let points = sweep.points(MERIT, "");
//! let checks = [Check::new("the guess hardly matters", sweep.spread(Carrier::Ours, MERIT).at_most(FLAT))];
//! Finding {
//!     figures: vec![Figure::of(&points, "merit", "What a guess is worth").under("16 stations").over(x).up(y)],
//!     tables: vec![sweep.table("Delay in seconds", "guess", |guess| format!("{guess} s"), DELAY)],
//!     points,
//!     ..runs.finding(&checks, "The measure hardly differs.")
//! }
//! ```

use crate::claim::{Line, Metric, Point, Table};
use crate::finding::named;
use crate::grid::{Place, Runs};
use crate::stats::Estimate;

/// What is compared, over which values, and where in the grid each pair was run.
pub struct Sweep<'a, P, S, X> {
    runs: &'a Runs<P>,
    series: Vec<S>,
    values: Vec<X>,
    place: Box<dyn Fn(S, X) -> P + 'a>,
    line: Box<dyn Fn(S) -> Line + 'a>,
    x: Box<dyn Fn(X) -> f64 + 'a>,
    unit: &'static str,
    /// The name of a value, where the axis only numbers it.
    cell: Option<Box<dyn Fn(X) -> String + 'a>>,
}

impl<'a, P: Place, S: Copy, X: Copy> Sweep<'a, P, S, X> {
    /// The runs at `place` of every series and value; a curve's line, the position of a value on the axis and the
    /// axis' unit draw them.
    pub fn new(
        runs: &'a Runs<P>,
        (series, line): (impl IntoIterator<Item = S>, impl Fn(S) -> Line + 'a),
        (values, x, unit): (impl IntoIterator<Item = X>, impl Fn(X) -> f64 + 'a, &'static str),
        place: impl Fn(S, X) -> P + 'a,
    ) -> Self {
        Self {
            runs,
            series: series.into_iter().collect(),
            values: values.into_iter().collect(),
            place: Box::new(place),
            line: Box::new(line),
            x: Box::new(x),
            unit,
            cell: None,
        }
    }

    /// The same with a name for each value, where the axis only numbers them.
    pub fn naming(self, name: impl Fn(X) -> String + 'a) -> Self {
        Self { cell: Some(Box::new(name)), ..self }
    }

    /// The mean of a metric.
    pub fn at(&self, series: S, value: X, metric: Metric) -> Estimate {
        self.runs.at(&(self.place)(series, value), metric)
    }

    /// A curve of points for each series.
    pub fn points(&self, metric: Metric, unit: &'static str) -> Vec<Point> {
        self.of(unit, |series, value| self.at(series, value, metric))
    }

    /// The same of something that is computed from the runs.
    pub fn of(&self, unit: &'static str, y: impl Fn(S, X) -> Estimate) -> Vec<Point> {
        let point = |series, value| Point {
            cell: self.cell.as_ref().map(|name| name(value)),
            ..Point::new(
                (self.line)(series),
                ((self.x)(value), self.unit),
                (y(series, value), unit),
            )
        };
        let curve = |series: &S| self.values.iter().map(|value| point(*series, *value)).collect();
        self.series.iter().flat_map(|series| -> Vec<Point> { curve(series) }).collect()
    }

    /// A column for each series, a row for each value, which `name` gives a name.
    pub fn table(
        &self,
        title: impl Into<String>,
        corner: &str,
        name: impl Fn(X) -> String,
        metric: Metric,
    ) -> Table {
        let columns = named(self.series.iter().copied(), |series| (self.line)(series).title);
        let rows = named(self.values.iter().copied(), name);
        Table::new(title, (corner, columns), rows, |series, value| self.at(series, value, metric))
    }

    /// The best mean of a series over its worst.
    pub fn spread(&self, series: S, metric: Metric) -> Estimate {
        spread(&self.values.iter().map(|value| self.at(series, *value, metric)).collect::<Vec<_>>())
    }
}

/// The largest mean over the smallest.
pub fn spread(all: &[Estimate]) -> Estimate {
    let by = |a: &&Estimate, b: &&Estimate| a.mean.total_cmp(&b.mean);
    let pair = all.iter().max_by(by).zip(all.iter().min_by(by));
    pair.map_or(Estimate::UNKNOWN, |(most, least)| most.over(least))
}

/// The pair with the greatest second number, the first of equals.
pub fn best(pairs: impl IntoIterator<Item = (f64, f64)>) -> (f64, f64) {
    let none = (f64::NAN, f64::NEG_INFINITY);
    pairs.into_iter().fold(none, |best, it| if it.1 > best.1 { it } else { best })
}

/// The least and the greatest of some numbers; zero of none.
pub fn extremes(all: impl Iterator<Item = f64>) -> [f64; 2] {
    let wider = |[least, most]: [f64; 2], it: f64| [least.min(it), most.max(it)];
    let both = all.map(|it| [it, it]);
    both.reduce(|known, [it, _]| wider(known, it)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Ink;
    use crate::grid::Cell;
    use crate::name::Name;

    #[derive(Clone, Debug, PartialEq)]
    struct At(char, u8);

    impl Place for At {
        fn cell(&self) -> Cell {
            let Self(series, value) = self;
            Cell::new(Name::of("at").word(series).word(value), format!("{series} {value}"), |_| {
                Vec::new()
            })
        }
    }

    /// The grid of the picture: two series over two values.
    #[test]
    fn points_tables_and_bounds_come_from_one_declaration() {
        let places = ['a', 'b'].map(|series| [1, 2].map(|value| At(series, value)));
        let runs = Runs::made_up(places.as_flattened().to_vec(), 2, |At(series, value)| {
            vec![("delay", f64::from(*value) * if *series == 'a' { 1.0 } else { 10.0 })]
        });
        let line = |series: char| Line::new(series, series.to_uppercase().to_string(), Ink::Paper);
        let sweep = Sweep::new(&runs, (['a', 'b'], line), ([1, 2], f64::from, "s"), At);

        let points = sweep.points("delay", "ms");
        let told: Vec<(&str, f64, f64)> =
            points.iter().map(|it| (it.line.series.as_str(), it.x, it.y.mean)).collect();
        assert_eq!(told, [("a", 1.0, 1.0), ("a", 2.0, 2.0), ("b", 1.0, 10.0), ("b", 2.0, 20.0)]);
        assert_eq!((points[0].x_unit, points[0].y_unit), ("s", "ms"));
        let table = sweep.table("Delay", "value", |value| value.to_string(), "delay");
        assert_eq!(table.head, ["value", "A", "B"]);
        assert_eq!(table.rows[1], ["2", "2.00 ± 0", "20.0 ± 0"]);
        assert_eq!(sweep.spread('b', "delay").mean, 2.0);
        assert_eq!(best([(1.0, 3.0), (2.0, 5.0), (3.0, 5.0)]), (2.0, 5.0));
        assert_eq!(extremes([3.0, 1.0, 2.0].into_iter()), [1.0, 3.0]);
    }
}
