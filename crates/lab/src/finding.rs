//! Findings: measurements of runs, and their verdict on a claim.

use std::fmt;

use hf::s5066::node::Record;

use crate::answer::{self, Check, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::stats::{Estimate, Observation};
use crate::words::mean;

/// What a run measures: a name, the same wherever it is used.
pub type Metric = &'static str;

/// What one run measured.
pub type Outcome = Vec<(Metric, Observation)>;

/// What the runs say about a claim. Everything here is computed from them.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Whether it holds.
    pub verdict: Verdict,
    /// What we measured, with intervals.
    pub measured: String,
    /// The reason for the verdict.
    pub reason: String,
    /// Every mean.
    pub points: Vec<Point>,
    /// Pictures of them.
    pub figures: Vec<Figure>,
    /// Results under other readings of the paper, and other numbers.
    pub tables: Vec<Table>,
    /// Transmissions of stations, for each run shown.
    pub exchanges: Vec<Exchange>,
    /// What was taken where the paper says nothing.
    pub assumptions: Vec<String>,
}

impl Finding {
    /// The finding on a claim that holds where all these checks do; `measured` describes the observations.
    #[must_use]
    pub fn of(checks: &[Check], measured: String) -> Self {
        Self {
            verdict: Verdict::of(answer::holds(checks)),
            measured,
            reason: answer::reason(checks),
            points: Vec::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            exchanges: Vec::new(),
            assumptions: Vec::new(),
        }
    }

    /// The same where something better than what is claimed may hold, if all of `better` does. The
    /// reason follows from what is claimed.
    #[must_use]
    pub fn or_beaten(claimed: &[Check], better: &[Check], measured: String) -> Self {
        let verdict = Verdict::or_beaten(answer::holds(claimed), answer::holds(better));
        let reason = match verdict {
            Verdict::Beaten => {
                format!("{}; but: {}", answer::reason(claimed), answer::reason(better))
            }
            Verdict::Differs | Verdict::Reproduced | Verdict::Undecided => answer::reason(claimed),
        };
        Self { verdict, reason, ..Self::of(&[], measured) }
    }
}

/// What stations did on the air in one run: it becomes a picture, and a capture of all frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The name of its files.
    pub name: String,
    /// The subject of the figure, in a few words.
    pub title: String,
    /// More, in one line.
    pub subtitle: String,
    /// The stations and what each recorded.
    pub stations: Vec<(String, Vec<Record>)>,
}

/// A curve with its name and style.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name of the series, for programs.
    pub series: String,
    /// What a figure calls it.
    pub title: String,
    /// How it is drawn.
    pub ink: Ink,
}

impl Line {
    /// A curve of this name.
    pub fn new(series: impl Into<String>, title: impl Into<String>, ink: Ink) -> Self {
        Self { series: series.into(), title: title.into(), ink }
    }
}

/// A mean at one place of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which series.
    pub line: Line,
    /// Where.
    pub x: f64,
    /// The unit of `x`.
    pub x_unit: &'static str,
    /// The mean.
    pub y: Estimate,
    /// The unit of `y`.
    pub y_unit: &'static str,
    /// What physics allows here.
    pub limit: Option<f64>,
    /// A measured bound, tighter than `limit`.
    pub limit2: Option<Estimate>,
    /// How many sessions there are at once, where that is varied.
    pub sessions: Option<u32>,
    /// The name of the place, where `x` only numbers it.
    pub cell: Option<String>,
}

impl Point {
    /// A mean with its unit, somewhere.
    #[must_use]
    pub fn new(line: Line, x: (f64, &'static str), y: (Estimate, &'static str)) -> Self {
        Self {
            line,
            x: x.0,
            x_unit: x.1,
            y: y.0,
            y_unit: y.1,
            limit: None,
            limit2: None,
            sessions: None,
            cell: None,
        }
    }
}

/// A table of the report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The heads of its columns.
    pub head: Vec<String>,
    /// The rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// These rows below these heads.
    #[must_use]
    pub fn list(
        title: impl Into<String>,
        head: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        Self { title: title.into(), head, rows: rows.into_iter().collect() }
    }

    /// A column for each value of the first axis, a row for each of the second; `cell` says what stands where both
    /// meet, a mean or a text.
    #[must_use]
    pub fn new<C: Copy, R: Copy, T: fmt::Display>(
        title: impl Into<String>,
        (corner, columns): (&str, impl IntoIterator<Item = (impl ToString, C)>),
        rows: impl IntoIterator<Item = (impl ToString, R)>,
        cell: impl Fn(C, R) -> T,
    ) -> Self {
        let (mut head, mut values) = (vec![corner.to_owned()], Vec::new());
        for (name, value) in columns {
            head.push(name.to_string());
            values.push(value);
        }
        let rows = rows.into_iter().map(|(name, row)| {
            let cells = values.iter().map(|column| cell(*column, row).to_string());
            std::iter::once(name.to_string()).chain(cells).collect()
        });
        Self { title: title.into(), head, rows: rows.collect() }
    }

    /// The means of points: a row for each series, a column for each place.
    #[must_use]
    pub fn of(title: impl Into<String>, points: &[Point]) -> Self {
        let mut places: Vec<f64> = Vec::new();
        let mut rows: Vec<(String, &Line)> = Vec::new();
        for point in points {
            if !places.contains(&point.x) {
                places.push(point.x);
            }
            if rows.iter().all(|(_, line)| line.series != point.line.series) {
                rows.push((point.line.title.clone(), &point.line));
            }
        }
        let unit = points.first().map_or("", |point| point.x_unit);
        let columns: Vec<(String, f64)> = places
            .into_iter()
            .map(|x| (format!("{x:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(), x))
            .collect();
        Self::new(title, (unit, columns), rows, |x, line| {
            let found = points.iter().find(|it| it.x == x && it.line.series == line.series);
            found.map_or(String::new(), |point| mean(&point.y))
        })
    }
}

/// The values of an axis with their names, as a table has them.
pub(crate) fn named<V: Copy, N>(
    values: impl IntoIterator<Item = V>,
    name: impl Fn(V) -> N,
) -> Vec<(N, V)> {
    values.into_iter().map(|value| (name(value), value)).collect()
}

impl Figure {
    /// A picture without anything in it: [`Figure::under`] gives it a subtitle, [`Figure::over`] and [`Figure::up`]
    /// axes, [`Figure::with`] curves.
    #[must_use]
    pub fn new(name: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            subtitle: String::new(),
            x: Axis::linear("", ""),
            y: Axis::linear("", ""),
            series: Vec::new(),
            note: String::new(),
        }
    }

    /// The curves of points; the subtitle is the number of runs.
    #[must_use]
    pub fn of(points: &[Point], name: &str, title: &str) -> Self {
        let runs = points.iter().map(|point| point.y.runs).max().unwrap_or_default();
        let figure = Self::new(name, title).under(format!("mean of {runs} runs"));
        figure.with(Series::of(points))
    }

    /// The same with this subtitle, before the one that it has.
    #[must_use]
    pub fn under(self, subtitle: impl Into<String>) -> Self {
        let mut subtitle = subtitle.into();
        if !self.subtitle.is_empty() {
            subtitle += ", ";
            subtitle += &self.subtitle;
        }
        Self { subtitle, ..self }
    }

    /// The same over this axis.
    #[must_use]
    pub fn over(self, x: Axis) -> Self {
        Self { x, ..self }
    }

    /// The same with this axis upwards.
    #[must_use]
    pub fn up(self, y: Axis) -> Self {
        Self { y, ..self }
    }

    /// The same with more curves, on top.
    #[must_use]
    pub fn with(mut self, series: Vec<Series>) -> Self {
        self.series.extend(series);
        self
    }

    /// The same, drawn above more curves.
    #[must_use]
    pub fn above(self, below: Vec<Series>) -> Self {
        Self { series: below.into_iter().chain(self.series).collect(), ..self }
    }

    /// The same with a note.
    #[must_use]
    pub fn noting(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

impl Series {
    /// The curves of points, in the order in which they begin.
    #[must_use]
    pub fn of(points: &[Point]) -> Vec<Self> {
        let mut names: Vec<&str> = Vec::new();
        let mut all: Vec<Self> = Vec::new();
        for Point { line, x, y, .. } in points {
            let place = names.iter().position(|name| *name == line.series).unwrap_or_else(|| {
                names.push(&line.series);
                all.push(Self::new(&line.title, line.ink, []));
                all.len() - 1
            });
            all[place].marks.push(Mark::measured(*x, y));
        }
        all
    }

    /// What physics allows, times a factor, where points of the first series have it.
    #[must_use]
    pub fn limit(points: &[Point], name: &str, ink: Ink, factor: f64) -> Self {
        let first = points.first().map(|point| point.line.series.as_str());
        let of_first = points.iter().filter(|point| Some(point.line.series.as_str()) == first);
        Self::new(name, ink, of_first.filter_map(|it| Some(Mark::exact(it.x, it.limit? * factor))))
    }
}
