//! A figure as an SVG document, complete in itself.

use std::fmt::Write as _;

use super::scale::Ruler;
use super::text::{escape, tick, width, wrap};
use super::theme::{self, Look, Marker};
use super::{Figure, Ink, Mark, Series};

/// The figure as an SVG document. The same figure always gives the same text.
#[must_use]
pub fn to_svg(figure: &Figure) -> String {
    let mut paper = Paper::new(figure);
    paper.heading(figure);
    paper.grid(figure);
    for series in &figure.series {
        paper.series(series);
    }
    paper.notes();
    paper.finish()
}

/// The picture while it is drawn.
struct Paper {
    svg: String,
    plot: Frame,
    x: Ruler,
    y: Ruler,
    /// Lines of the note.
    note: Vec<String>,
}

/// The rectangle that holds the data.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// Adds to the document; a `String` takes everything.
macro_rules! draw {
    ($svg:expr, $($format:tt)*) => {
        let _ = writeln!($svg, $($format)*);
    };
}

impl Paper {
    fn new(figure: &Figure) -> Self {
        let marks = || figure.series.iter().flat_map(|series| &series.marks);
        let x = Ruler::new(&figure.x, marks().map(|mark| mark.x), 8.0).padded(0.025);
        let y = Ruler::new(&figure.y, marks().flat_map(Mark::span), 6.0);

        let room = theme::WIDTH - 2.0 * theme::MARGIN;
        let note = wrap(&footer(figure), theme::NOTE_SIZE, room);
        let note_height = note.len() as f64 * theme::NOTE_SIZE * theme::LEADING;
        let plot = Frame {
            left: theme::MARGIN + theme::LEFT,
            top: 0.0,
            right: theme::WIDTH - theme::RIGHT,
            bottom: theme::HEIGHT - theme::MARGIN - note_height - 50.0,
        };
        let mut svg = String::new();
        draw!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" font-family="{font}" font-size="{size}" fill="{text}">"#,
            w = theme::WIDTH,
            h = theme::HEIGHT,
            font = theme::FONT,
            size = theme::TEXT_SIZE,
            text = theme::TEXT,
        );
        draw!(svg, "<title>{}</title>", escape(&figure.title));
        draw!(svg, "<desc>{}</desc>", escape(&figure.subtitle));
        draw!(svg, r#"<rect width="100%" height="100%" fill="{}"/>"#, theme::BACKGROUND);
        Self { svg, plot, x, y, note }
    }

    /// Draws title, subtitle and legend; the data gets the rest of the space.
    fn heading(&mut self, figure: &Figure) {
        let mut baseline = theme::MARGIN + theme::TITLE_SIZE;
        draw!(
            self.svg,
            r#"<text x="{}" y="{baseline:.1}" font-size="{}" font-weight="bold">{}</text>"#,
            theme::MARGIN,
            theme::TITLE_SIZE,
            escape(&figure.title),
        );
        let room = theme::WIDTH - 2.0 * theme::MARGIN;
        for line in wrap(&figure.subtitle, theme::TEXT_SIZE, room) {
            baseline += theme::TEXT_SIZE * theme::LEADING;
            draw!(
                self.svg,
                r#"<text x="{}" y="{baseline:.1}" fill="{}">{}</text>"#,
                theme::MARGIN,
                theme::FAINT_TEXT,
                escape(&line),
            );
        }
        baseline = self.legend(figure, baseline + 12.0);
        self.plot.top = baseline + 40.0;
        draw!(
            self.svg,
            r#"<text x="{}" y="{:.1}" fill="{}">{}</text>"#,
            theme::MARGIN,
            self.plot.top - 13.0,
            theme::FAINT_TEXT,
            escape(&figure.y.caption()),
        );
    }

    /// One entry after the other, in as many lines as needed; returns the last baseline.
    fn legend(&mut self, figure: &Figure, above: f64) -> f64 {
        const SWATCH: f64 = 34.0;
        const GAP: f64 = 22.0;

        let line_height = theme::TEXT_SIZE * 1.6;
        let (mut left, mut baseline) = (theme::MARGIN, above + theme::TEXT_SIZE);
        // Limits are drawn below the data, and named after it.
        let (limits, data): (Vec<_>, Vec<_>) = figure
            .series
            .iter()
            .partition(|s| matches!(s.ink, Ink::Genie | Ink::Goal | Ink::Limit));
        for series in data.into_iter().chain(limits) {
            let text = width(&series.name, theme::TEXT_SIZE);
            if left + SWATCH + 8.0 + text > theme::WIDTH - theme::MARGIN && left > theme::MARGIN {
                left = theme::MARGIN;
                baseline += line_height;
            }
            let look = theme::look(series.ink);
            let height = baseline - theme::TEXT_SIZE * 0.35;
            self.line(&look, &format!("M{left:.1} {height:.1}h{SWATCH}"));
            self.marker(&look, left + SWATCH / 2.0, height, false);
            left += SWATCH + 8.0;
            draw!(
                self.svg,
                r#"<text x="{left:.1}" y="{baseline:.1}">{}</text>"#,
                escape(&series.name),
            );
            left += text + GAP;
        }
        baseline
    }

    /// Ticks, grid lines, the frame and the label of the x axis.
    fn grid(&mut self, figure: &Figure) {
        let Frame { left, top, right, bottom } = self.plot;
        for value in self.y.ticks().to_vec() {
            let height = self.height(value);
            draw!(
                self.svg,
                r#"<path d="M{left:.1} {height:.1}H{right:.1}" stroke="{}"/>"#,
                theme::GRID,
            );
            draw!(
                self.svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="{}">{}</text>"#,
                left - 9.0,
                height + theme::TEXT_SIZE * 0.35,
                theme::FAINT_TEXT,
                tick(value),
            );
        }
        for value in self.x.ticks().to_vec() {
            let across = self.across(value);
            draw!(self.svg, r#"<path d="M{across:.1} {bottom:.1}v5" stroke="{}"/>"#, theme::FRAME,);
            draw!(
                self.svg,
                r#"<text x="{across:.1}" y="{:.1}" text-anchor="middle" fill="{}">{}</text>"#,
                bottom + 20.0,
                theme::FAINT_TEXT,
                tick(value),
            );
        }
        draw!(
            self.svg,
            r#"<path d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}" fill="none" stroke="{}"/>"#,
            theme::FRAME,
        );
        draw!(
            self.svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="{}">{}</text>"#,
            f64::midpoint(left, right),
            bottom + 42.0,
            theme::FAINT_TEXT,
            escape(&figure.x.caption()),
        );
    }

    fn series(&mut self, series: &Series) {
        let look = theme::look(series.ink);
        let mut path = String::new();
        for (index, mark) in series.marks.iter().enumerate() {
            let pen = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{:.1} {:.1}", self.across(mark.x), self.height(mark.y));
        }
        if series.marks.len() > 1 {
            self.line(&look, &path);
        }
        for mark in &series.marks {
            self.error_bar(&look, mark);
            let (across, height) = (self.across(mark.x), self.height(mark.y));
            self.marker(&look, across, height, mark.lower_bound);
        }
    }

    fn line(&mut self, look: &Look, path: &str) {
        let dashes = look.dashes.map_or(String::new(), |d| format!(r#" stroke-dasharray="{d}""#));
        draw!(
            self.svg,
            r#"<path d="{path}" fill="none" stroke="{}" stroke-width="{}" stroke-linejoin="round"{dashes}/>"#,
            look.colour,
            look.width,
        );
    }

    /// A bar with caps, or an arrow where only the lower end is known.
    fn error_bar(&mut self, look: &Look, mark: &Mark) {
        let across = self.across(mark.x);
        let path = if mark.lower_bound {
            let foot = self.height(mark.y) - 6.0;
            format!("M{across:.1} {foot:.1}v-14m-4 5l4 -5l4 5")
        } else {
            let [low, high] = mark.span().map(|value| self.height(value));
            if low - high < 1.0 {
                return;
            }
            let left = across - 4.0;
            format!("M{across:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h8M{left:.1} {high:.1}h8")
        };
        draw!(
            self.svg,
            r#"<path d="{path}" fill="none" stroke="{}" stroke-width="1.4"/>"#,
            look.colour,
        );
    }

    fn marker(&mut self, look: &Look, x: f64, y: f64, hollow: bool) {
        let (fill, colour) = (if hollow { theme::BACKGROUND } else { look.colour }, look.colour);
        let path = match look.marker {
            Marker::Circle => {
                draw!(
                    self.svg,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.4" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>"#,
                );
                return;
            }
            Marker::Nothing => return,
            Marker::Diamond => format!("M{x:.1} {:.1}l5.4 5.4l-5.4 5.4l-5.4 -5.4z", y - 5.4),
            Marker::Square => format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0),
            Marker::Triangle => format!("M{x:.1} {:.1}l5 9h-10z", y - 5.6),
            Marker::TriangleDown => format!("M{x:.1} {:.1}l5 -9h-10z", y + 5.6),
        };
        draw!(self.svg, r#"<path d="{path}" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>"#,);
    }

    fn notes(&mut self) {
        let step = theme::NOTE_SIZE * theme::LEADING;
        let first = theme::HEIGHT - theme::MARGIN - (self.note.len() as f64 - 1.0) * step;
        for (index, line) in std::mem::take(&mut self.note).iter().enumerate() {
            draw!(
                self.svg,
                r#"<text x="{}" y="{:.1}" font-size="{}" fill="{}">{}</text>"#,
                theme::MARGIN,
                first + index as f64 * step,
                theme::NOTE_SIZE,
                theme::FAINT_TEXT,
                escape(line),
            );
        }
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }

    fn across(&self, x: f64) -> f64 {
        self.plot.left + self.x.place(x) * (self.plot.right - self.plot.left)
    }

    fn height(&self, y: f64) -> f64 {
        self.plot.bottom - self.y.place(y) * (self.plot.bottom - self.plot.top)
    }
}

/// The note, and how to read what is drawn.
fn footer(figure: &Figure) -> String {
    let marks = || figure.series.iter().flat_map(|series| &series.marks);
    let mut text = figure.note.clone();
    if marks().any(|mark| mark.interval.is_some()) {
        text.push_str(" Bars: 95 % confidence intervals.");
    }
    if marks().any(|mark| mark.lower_bound) {
        text.push_str(" Hollow, with an arrow: some runs did not end, the mean is at least this.");
    }
    text
}
