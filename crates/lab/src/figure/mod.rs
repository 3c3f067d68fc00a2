//! The content of figures. `theme` decides their look; `svg` and `png` make pictures of them.
//!
//! ```text
//!  Title
//!  subtitle: what was measured
//!  ─●─ one series  ─■─ another  ┄┄ the physical limit
//!  y label, unit
//!   │
//!   │        data
//!   └──────────────
//!          x label, unit
//!  note
//! ```

mod panels;
mod png;
mod scale;
mod svg;
mod text;
mod theme;
pub mod timeline;

use crate::stats::Estimate;

pub use panels::panels_to_svg;
pub use png::to_png;
pub use scale::Scale;
pub use svg::to_svg;
pub(crate) use text::escape;

/// A picture of some series over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of its file.
    pub name: String,
    /// The subject of the figure, in a few words.
    pub title: String,
    /// The measured quantity, in one line.
    pub subtitle: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, the last on top.
    pub series: Vec<Series>,
    /// What else a reader must know, below.
    pub note: String,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it says.
    pub label: String,
    /// In what unit; empty for a plain number.
    pub unit: String,
    /// How values are placed.
    pub scale: Scale,
    /// Whether an axis with a linear scale begins at zero.
    pub from_zero: bool,
    /// Ticks at just these values, instead of round ones.
    pub ticks: Option<Vec<f64>>,
}

impl Axis {
    /// A linear axis from zero.
    #[must_use]
    pub fn linear(label: &str, unit: &str) -> Self {
        Self {
            label: label.into(),
            unit: unit.into(),
            scale: Scale::Linear,
            from_zero: true,
            ticks: None,
        }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// The same with ticks at `ticks` and nowhere else.
    #[must_use]
    pub fn with_ticks(self, ticks: impl IntoIterator<Item = f64>) -> Self {
        Self { ticks: Some(ticks.into_iter().collect()), ..self }
    }

    fn caption(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }
}

/// How a series looks. Colours and markers go together, so that neither is needed to tell them
/// apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ink {
    /// The protocol's `default` profile: ours.
    Default,
    /// A tighter bound, which is measured: dashes and dots without markers.
    Genie,
    /// What is to be reached: dots without markers.
    Goal,
    /// What physics allows: dashes without markers.
    Limit,
    /// Any other, counted from 0.
    Other(usize),
    /// The paper profile of HBH, or a published figure.
    Paper,
    /// Plain TCP.
    Tcp,
    /// A quantity over time, counted from 0: a line without markers.
    Trace(usize),
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it looks.
    pub ink: Ink,
    /// From left to right.
    pub marks: Vec<Mark>,
}

impl Series {
    /// A curve that was not measured.
    pub fn new(name: impl Into<String>, ink: Ink, marks: impl IntoIterator<Item = Mark>) -> Self {
        Self { name: name.into(), ink, marks: marks.into_iter().collect() }
    }
}

/// One point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// How high.
    pub y: f64,
    /// The ends of its error bar.
    pub interval: Option<[f64; 2]>,
    /// The true value may be higher: drawn hollow, with an arrow.
    pub lower_bound: bool,
}

impl Mark {
    /// A value known exactly.
    #[must_use]
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, interval: None, lower_bound: false }
    }

    /// A measured mean.
    #[must_use]
    pub fn measured(x: f64, y: &Estimate) -> Self {
        let interval = y.ci95.map(|_| [y.low(), y.high()]);
        Self { x, y: y.mean, interval, lower_bound: y.is_lower_bound() }
    }

    fn span(&self) -> [f64; 2] {
        self.interval.unwrap_or([self.y; 2])
    }
}

#[cfg(test)]
mod tests;
