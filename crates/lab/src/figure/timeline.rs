//! Draws a timeline of transmissions: a strip for each station, line after line like music.
//!
//! ```text
//!  Title
//!  subtitle
//!  ■ data  ■ again  ■ acknowledgement  ■ links  ■ fill        nobody: turnaround
//!        0 s        10         20         30
//!   A    ▐██████████████▌            ▐█▌
//!   B                      ▐█▌
//!        40 s ...
//! ```

use std::fmt::Write as _;

use super::text::{escape, tick, width, wrap};
use super::theme;

/// Who transmitted when.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The name of its file.
    pub name: String,
    /// The subject of the timeline, in a few words.
    pub title: String,
    /// More, in one line.
    pub subtitle: String,
    /// The kinds of spans, and their names.
    pub legend: &'static [(Kind, &'static str)],
    /// The stations, from top to bottom.
    pub stations: Vec<Station>,
    /// What else a reader must know, below.
    pub note: String,
}

/// What one station transmitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Station {
    /// Its name, short.
    pub name: String,
    /// In order of their starts; what comes later lies on top.
    pub spans: Vec<Span>,
}

/// A time during which a station transmitted something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// When, in seconds.
    pub start: f64,
    /// Until when, in seconds.
    pub end: f64,
    /// What.
    pub kind: Kind,
}

/// What a station transmits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Data for the first time.
    Data,
    /// Data again.
    Repeat,
    /// Acknowledgements.
    Ack,
    /// Links, management, resets, topology.
    Control,
    /// Preamble, end of message, and what fills blocks.
    Carrier,
    /// What another transmission destroyed.
    Collision,
    /// A transmission that reached none of its receivers, without another transmission to blame.
    Lost,
}

/// What stations of STANAG 5066 transmit.
pub const HF: [(Kind, &str); 5] = [
    (Kind::Data, "data"),
    (Kind::Repeat, "data again"),
    (Kind::Ack, "acknowledgement"),
    (Kind::Control, "link control"),
    (Kind::Carrier, "preamble, filling"),
];

impl Kind {
    fn colour(self) -> &'static str {
        match self {
            Self::Data => "#0072b2",
            Self::Repeat => "#d55e00",
            Self::Ack => "#009e73",
            Self::Control => "#cc79a7",
            Self::Carrier => "#b4bcc6",
            Self::Collision => "#1c2430",
            Self::Lost => "#e69f00",
        }
    }

    /// Tells kinds apart without colour: the share of the strip to fill from the bottom.
    fn height(self) -> f64 {
        match self {
            Self::Collision | Self::Data => 1.0,
            Self::Repeat => 0.8,
            Self::Lost => 0.7,
            Self::Ack => 0.55,
            Self::Control => 0.4,
            Self::Carrier => 0.22,
        }
    }
}

const WIDTH: f64 = 1000.0;
/// The height of a station's strip, and between strips.
const STRIP: f64 = 24.0;
const GAP: f64 = 6.0;
/// Below the strips of a line: its ticks, and air.
const FOOT: f64 = 34.0;
/// Lines at most; the times of a line grow until they suffice.
const MAX_LINES: f64 = 10.0;
/// Seconds that a line may show.
const STEPS: [f64; 14] = [
    10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0,
    36_000.0, 86_400.0,
];
/// Nothing is drawn narrower, or it could not be seen.
const THIN: f64 = 0.8;

/// The timeline as an SVG document. The same timeline always gives the same text.
#[must_use]
pub fn timeline_to_svg(timeline: &Timeline) -> String {
    let end = timeline
        .stations
        .iter()
        .flat_map(|it| &it.spans)
        .fold(1.0, |end: f64, span| end.max(span.end));
    let step = STEPS.into_iter().find(|step| end / step <= MAX_LINES).unwrap_or(end / MAX_LINES);
    let lines = (end / step).ceil().max(1.0);
    let names = timeline.stations.iter().map(|it| width(&it.name, theme::TEXT_SIZE));
    let left = theme::MARGIN + names.fold(0.0, f64::max) + 12.0;
    let scale = (WIDTH - theme::MARGIN - left) / step;

    let mut svg = String::new();
    let mut baseline = heading(&mut svg, timeline);
    baseline += 18.0;
    let strips = timeline.stations.len() as f64;
    let mut start = 0.0;
    while start < lines * step - step / 2.0 {
        let window = Window { left, top: baseline, start, step, scale };
        for (index, station) in timeline.stations.iter().enumerate() {
            window.strip(&mut svg, index, station);
        }
        window.ticks(&mut svg, strips * (STRIP + GAP) - GAP);
        baseline += strips * (STRIP + GAP) - GAP + FOOT;
        start += step;
    }
    for line in wrap(&timeline.note, theme::NOTE_SIZE, WIDTH - 2.0 * theme::MARGIN) {
        baseline += theme::NOTE_SIZE * theme::LEADING;
        let _ = writeln!(
            svg,
            r#"<text x="{}" y="{baseline:.1}" font-size="{}" fill="{}">{}</text>"#,
            theme::MARGIN,
            theme::NOTE_SIZE,
            theme::FAINT_TEXT,
            escape(&line),
        );
    }
    let height = baseline + theme::MARGIN;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" role="img" font-family="{}" font-size="{}" fill="{}">
<title>{}</title>
<rect width="100%" height="100%" fill="{}"/>
{svg}</svg>
"#,
        theme::FONT,
        theme::TEXT_SIZE,
        theme::TEXT,
        escape(&timeline.title),
        theme::BACKGROUND,
    )
}

/// Title, subtitle, legend; returns the last baseline.
fn heading(svg: &mut String, timeline: &Timeline) -> f64 {
    let mut baseline = theme::MARGIN + theme::TITLE_SIZE;
    let _ = writeln!(
        svg,
        r#"<text x="{}" y="{baseline:.1}" font-size="{}" font-weight="bold">{}</text>"#,
        theme::MARGIN,
        theme::TITLE_SIZE,
        escape(&timeline.title),
    );
    for line in wrap(&timeline.subtitle, theme::TEXT_SIZE, WIDTH - 2.0 * theme::MARGIN) {
        baseline += theme::TEXT_SIZE * theme::LEADING;
        let _ = writeln!(
            svg,
            r#"<text x="{}" y="{baseline:.1}" fill="{}">{}</text>"#,
            theme::MARGIN,
            theme::FAINT_TEXT,
            escape(&line),
        );
    }
    baseline += 26.0;
    let mut left = theme::MARGIN;
    for (kind, title) in timeline.legend {
        let height = 14.0 * kind.height();
        let _ = writeln!(
            svg,
            r#"<rect x="{left:.1}" y="{:.1}" width="16" height="{height:.1}" fill="{}"/><text x="{:.1}" y="{baseline:.1}">{}</text>"#,
            baseline + 2.0 - height,
            kind.colour(),
            left + 22.0,
            escape(title),
        );
        left += 22.0 + width(title, theme::TEXT_SIZE) + 22.0;
    }
    baseline
}

/// One line of the picture.
#[derive(Clone, Copy)]
struct Window {
    left: f64,
    top: f64,
    start: f64,
    /// Seconds that it shows.
    step: f64,
    /// Units for each second.
    scale: f64,
}

impl Window {
    fn strip(&self, svg: &mut String, index: usize, station: &Station) {
        let bottom = self.top + index as f64 * (STRIP + GAP) + STRIP;
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="{}">{}</text><path d="M{:.1} {bottom:.1}h{:.1}" stroke="{}"/>"#,
            self.left - 8.0,
            bottom - 7.0,
            theme::FAINT_TEXT,
            escape(&station.name),
            self.left,
            self.step * self.scale,
            theme::GRID,
        );
        for span in joined(&station.spans) {
            let from = span.start.max(self.start);
            let until = span.end.min(self.start + self.step);
            if until <= from {
                continue;
            }
            let height = STRIP * span.kind.height();
            let _ = writeln!(
                svg,
                r#"<rect x="{:.2}" y="{:.2}" width="{:.2}" height="{height:.2}" fill="{}"/>"#,
                self.left + (from - self.start) * self.scale,
                bottom - height,
                ((until - from) * self.scale).max(THIN),
                span.kind.colour(),
            );
        }
    }

    fn ticks(&self, svg: &mut String, height: f64) {
        const TICKS: u8 = 10;

        let bottom = self.top + height;
        for index in 0..=TICKS {
            let share = f64::from(index) / f64::from(TICKS);
            let across = self.left + share * self.step * self.scale;
            let unit = if index == 0 { " s" } else { "" };
            let _ = writeln!(
                svg,
                r#"<path d="M{across:.1} {bottom:.1}v4" stroke="{}"/><text x="{across:.1}" y="{:.1}" font-size="{}" text-anchor="middle" fill="{}">{}{unit}</text>"#,
                theme::FRAME,
                bottom + 16.0,
                theme::NOTE_SIZE,
                theme::FAINT_TEXT,
                tick(self.start + share * self.step),
            );
        }
    }
}

/// Joins touching spans of one kind: thousands of frames would be thousands of shapes.
fn joined(spans: &[Span]) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if last.kind == span.kind && span.start <= last.end + 1e-3 => {
                last.end = last.end.max(span.end);
            }
            _ => all.push(*span),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::to_png;
    use super::*;

    fn timeline(seconds: u32) -> Timeline {
        let turn = |at: u32, kind| {
            let at = f64::from(at);
            [
                Span { start: at, end: at + 8.0, kind: Kind::Carrier },
                Span { start: at + 0.5, end: at + 4.0, kind },
                Span { start: at + 4.0, end: at + 7.5, kind },
            ]
        };
        let station = |name: &str, offset: usize, kind| Station {
            name: name.to_owned(),
            spans: (0..seconds).step_by(20).skip(offset).flat_map(|at| turn(at, kind)).collect(),
        };
        Timeline {
            name: "timeline".into(),
            title: "An exchange".into(),
            subtitle: "9600 bit/s & more".into(),
            legend: &HF,
            stations: vec![station("A", 0, Kind::Data), station("B", 1, Kind::Ack)],
            note: "Between transmissions nobody sends: turnaround.".into(),
        }
    }

    #[test]
    fn frames_that_touch_are_one_shape() {
        let svg = timeline_to_svg(&timeline(20));

        assert_eq!(svg.matches("#0072b2").count(), 2, "the legend and one shape: {svg}");
    }

    #[test]
    fn a_long_exchange_still_fits_on_a_page() {
        for seconds in [5, 60, 700, 7_000, 400_000] {
            let svg = timeline_to_svg(&timeline(seconds));

            let height: f64 = svg
                .split_once("height=\"")
                .and_then(|(_, rest)| rest.split('"').next()?.parse().ok())
                .expect("the picture has a height");
            assert!(height < 1200.0, "{height} for {seconds} s");
        }
        assert!(to_png(&timeline_to_svg(&timeline(300))).is_ok());
    }
}
