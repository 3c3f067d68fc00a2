//! TCP ended at the stations by HF-PEP, on clear links.

mod errors;
mod first_data;

use std::time::Duration;

use hf::s5066::sis::Mode;

use super::bulk::Bulk;
use super::compare::{self, Compared, Standing};
use super::link::Link;
use super::transfer::{
    BUFFER, CLOSE, CONFIRMED, CONNECT, Row, TOTAL, UTILISATION, limit, over_pep, seconds, share,
};
use super::{GROUP, key_ups, published, radio};
use crate::prelude::*;

const KILOBYTES: &str = "kB";
/// The judged metrics of a transfer: a share, and times.
const METRICS: [Metric; 4] = [UTILISATION, CONNECT, TOTAL, CLOSE];
/// The sizes whose time is set beside the least possible one.
const SHORT: [u32; 2] = [1, 10];
/// The row that is shown as a timeline.
const SHOWN: usize = 7;

/// A row of the published table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    speed: u32,
    kilobytes: u32,
    utilisation: f64,
    connect: f64,
    total: f64,
    close: f64,
}

const fn cell(
    speed: u32,
    kilobytes: u32,
    utilisation: f64,
    connect: f64,
    total: f64,
    close: f64,
) -> Cell {
    Cell { speed, kilobytes, utilisation, connect, total, close }
}

/// The white paper's table for HF-PEP on a clear link.
const CELLS: [Cell; 15] = [
    cell(240_000, 1, 0.018, 1.9, 1.9, 4.0),
    cell(240_000, 10, 0.014, 2.7, 11.6, 4.0),
    cell(240_000, 100, 0.257, 1.9, 12.9, 4.0),
    cell(240_000, 1_000, 0.738, 3.4, 45.0, 8.0),
    cell(240_000, 10_000, 0.907, 5.4, 367.0, 3.0),
    cell(9_600, 1, 0.106, 7.9, 7.9, 7.0),
    cell(9_600, 10, 0.293, 8.2, 28.4, 7.0),
    cell(9_600, 100, 0.772, 11.1, 108.0, 8.0),
    cell(9_600, 1_000, 0.906, 12.9, 919.0, 7.0),
    cell(9_600, 10_000, 0.922, 10.3, 9037.0, 7.0),
    cell(1_200, 1, 0.678, 9.8, 9.8, 4.0),
    cell(1_200, 10, 0.809, 21.2, 82.4, 3.0),
    cell(1_200, 100, 0.891, 17.4, 748.0, 4.0),
    cell(300, 1, 0.667, 40.0, 40.0, 9.0),
    cell(300, 10, 0.791, 71.2, 367.0, 8.0),
];

pub const CLAIMS: [Claim; 3] = [CLEAR, errors::CLAIM, first_data::CLAIM];

const CLEAR: Claim = Claim {
    id: "hf-clear",
    group: GROUP,
    text: "TCP over HF-PEP uses up to 92.2 % of a clear link, as much as STANAG 5066 alone when \
           transfers are long",
    source: "TCP over HF radio, clear link tests",
    experiment: || Experiment::new(links(), judge),
};

/// How IP clients send, which carry no TCP here.
const MODE: Mode = Mode::Arq { in_order: true };

impl Cell {
    fn link(self, key_up: Duration) -> Link {
        let Self { speed, kilobytes, .. } = self;
        over_pep(Row { speed, kilobytes, published: None }.link(MODE, key_up, BUFFER), false)
    }

    fn of(self, metric: Metric) -> f64 {
        match metric {
            CONNECT => self.connect,
            TOTAL => self.total,
            CLOSE => self.close,
            _ => self.utilisation,
        }
    }

    fn place(self) -> String {
        format!("{} kB at {} bit/s", self.kilobytes, self.speed)
    }

    fn compared(self, runs: &Runs<Link>, key_up: Duration) -> [Compared; METRICS.len()] {
        let place = format!("for {}", self.place());
        METRICS.map(|metric| {
            let (ours, theirs) = (runs.at(&self.link(key_up), metric), self.of(metric));
            if metric == UTILISATION {
                return Compared::share(&place, &ours, theirs);
            }
            // All close times are whole seconds.
            let step = if metric == CLOSE { 1.0 } else { 0.0 };
            let measured = format!("{metric} {}", seconds(&ours));
            Compared::rounded_time(&place, &measured, &ours, theirs, step)
        })
    }

    /// What physics allows: a share of the link for a transfer without end, or the least seconds in
    /// which the opening arrives, all data does, both ends do, one after the other.
    fn limit(self, metric: Metric, key_up: Duration) -> f64 {
        let link = self.link(key_up);
        let least = |octets| Bulk { key_up, ..Bulk::clear(self.speed) }.least(octets);
        match metric {
            CONNECT => least(0),
            TOTAL => least(link.octets),
            CLOSE => 2.0 * least(0),
            _ => limit(&link),
        }
    }

    fn points(self, runs: &Runs<Link>) -> Vec<Point> {
        let point = |series: String, title: &str, ink, y: Estimate, y_unit| {
            let line = Line::new(series, title, ink);
            let cell = Some(self.place());
            let x = (f64::from(self.kilobytes), KILOBYTES);
            Point { cell, ..Point::new(line, x, (y, y_unit)) }
        };
        let mut points = Vec::new();
        for metric in METRICS {
            for key_up in key_ups::key_ups() {
                let link = self.link(key_up);
                let y = runs.at(&link, metric);
                let is_first = key_up == radio::FASTEST;
                let series = match is_first {
                    true => "ours".to_owned(),
                    false => format!("ours, key-up {}", compare::seconds(key_up)),
                };
                let limit = Some(self.limit(metric, key_up));
                points.push(Point { limit, ..point(series, "ours", Ink::Default, y, metric) });
            }
            let theirs = published(self.of(metric));
            points.push(point("published".into(), "published", Ink::Paper, theirs, metric));
        }
        points
    }
}

fn links() -> Vec<Link> {
    let of = |cell: Cell| key_ups::key_ups().map(|key_up| cell.link(key_up));
    CELLS.into_iter().flat_map(of).collect()
}

fn judge(runs: &Runs<Link>) -> Finding {
    let radios = compare::radios(|key_up| CELLS.map(|cell| cell.compared(runs, key_up)).concat());
    let used = |cell: Cell| runs.at(&cell.link(radio::FASTEST), UTILISATION).mean;
    let [least, most] = extremes(CELLS.map(used).into_iter());
    let counts = [Standing::Beaten, Standing::Tied, Standing::Missed]
        .map(|standing| format!("{} {standing}", radios[0].count(standing)));
    let measured = format!(
        "{} to {} of the link with a key-up of {}; of {} figures {}.",
        percent(least),
        percent(most),
        compare::seconds(radio::FASTEST),
        radios[0].figures.len(),
        counts.join(", ")
    );
    let points: Vec<Point> = CELLS.into_iter().flat_map(|cell| cell.points(runs)).collect();
    let mut tables = vec![table(runs), short(runs)];
    tables.extend(METRICS.map(|metric| by_key_up(runs, metric)));
    Finding {
        verdict: compare::verdict(&radios),
        reason: format!("{}; {}", compare::reason(&radios), key_ups::implied()),
        figures: vec![figure(&points)],
        tables,
        exchanges: vec![exchange(runs)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&[], measured)
    }
}

/// The assumptions about transfers over HF-PEP where the paper does not say how it measured.
fn assumptions() -> Vec<String> {
    let mut all = super::transfer_assumptions();
    all.push(
        "With HF-PEP the connect time ends when the target is connected: the host that connects is \
         told so at once. The close time begins when that host has its confirmation and closes, and \
         ends when it has the end from the target, which closes in answer. Nothing is compressed."
            .to_owned(),
    );
    all
}

fn text(metric: Metric, estimate: &Estimate) -> String {
    if metric == UTILISATION { share(estimate) } else { seconds(estimate) }
}

fn table(runs: &Runs<Link>) -> Table {
    let mut head = vec!["bit/s".to_owned(), KILOBYTES.to_owned()];
    for metric in METRICS {
        let unit = if metric == UTILISATION { "" } else { ", s" };
        head.extend([format!("{metric}{unit}"), "published".to_owned()]);
    }
    head.push("confirmed, s".to_owned());
    let rows = CELLS.map(|cell| {
        let link = cell.link(radio::FASTEST);
        let mut row = vec![cell.speed.to_string(), cell.kilobytes.to_string()];
        for metric in METRICS {
            row.extend([text(metric, &runs.at(&link, metric)), cell.of(metric).to_string()]);
        }
        row.push(seconds(&runs.at(&link, CONFIRMED)));
        row
    });
    let title = format!("TCP over HF-PEP, key-up {}", compare::seconds(radio::FASTEST));
    Table::list(title, head, rows)
}

/// Short transfers beside the least time that they can take.
fn short(runs: &Runs<Link>) -> Table {
    let cells = CELLS.into_iter().filter(|cell| SHORT.contains(&cell.kilobytes));
    let rows = cells.map(|cell| {
        let total = runs.at(&cell.link(radio::FASTEST), TOTAL);
        let least = cell.limit(TOTAL, radio::FASTEST);
        vec![
            cell.speed.to_string(),
            cell.kilobytes.to_string(),
            seconds(&total),
            format!("{least:.2}"),
            format!("{:.2}", total.mean / least),
        ]
    });
    let head = ["bit/s", KILOBYTES, "total, s", "limit, s", "total / limit"];
    Table::list("Short transfers beside the least time they can take", head, rows)
}

fn by_key_up(runs: &Runs<Link>, metric: Metric) -> Table {
    let rows = CELLS.into_iter().map(|cell| {
        let measured = move |key_up| text(metric, &runs.at(&cell.link(key_up), metric));
        let place = vec![cell.speed.to_string(), cell.kilobytes.to_string()];
        (place, cell.of(metric).to_string(), measured)
    });
    compare::table(&format!("HF-PEP: {metric}"), &["bit/s", KILOBYTES], rows)
}

fn figure(points: &[Point]) -> Figure {
    let place = |speed: u32| format!("at {speed} bit/s");
    let drawn: Vec<Point> = points
        .iter()
        .filter(|it| it.y_unit == UTILISATION && ["ours", "published"].contains(&&*it.line.series))
        .filter(|it| it.cell.as_ref().is_some_and(|cell| cell.ends_with(&place(9_600))))
        .cloned()
        .collect();
    let mut series =
        vec![Series::limit(&drawn, "limit of a transfer without end", Ink::Limit, 1.0)];
    series.extend(Series::of(&drawn));
    Figure::new("hf-clear-9600", "TCP over HF-PEP at 9600 bit/s")
        .under(format!("A clear link, key-up {}", compare::seconds(radio::FASTEST)))
        .over(
            Axis::log("Size of the transfer", KILOBYTES)
                .with_ticks([1.0, 10.0, 100.0, 1_000.0, 10_000.0]),
        )
        .up(Axis::linear("Utilisation", ""))
        .with(series)
}

/// The records of both stations in the run with the first seed.
fn exchange(runs: &Runs<Link>) -> Exchange {
    let cell = CELLS[SHOWN];
    let link = cell.link(radio::FASTEST);
    Exchange {
        name: "hf-clear-timeline".to_owned(),
        title: format!("{} by TCP over HF-PEP", cell.place()),
        subtitle: "A call with data in it, the data, confirmation, both ends".to_owned(),
        stations: link.exchange(runs.first_seed(&link)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Beaten, Differs, Reproduced, Undecided};

    /// The verdict if our utilisation is the published one times `better`, and our times are the
    /// published ones divided by it; the close time is also multiplied by `late`.
    fn verdict(runs: u32, better: f64, late: f64) -> Verdict {
        judge(&Runs::made_up(links(), runs, |link| {
            let is_of = |cell: &Cell| cell.link(link.key_up) == *link;
            let Some(cell) = CELLS.into_iter().find(is_of) else { return Vec::new() };
            let figure = |metric| match metric {
                UTILISATION => (metric, cell.utilisation * better),
                CLOSE => (metric, cell.close / better * late),
                _ => (metric, cell.of(metric) / better),
            };
            let confirmed = (CONFIRMED, cell.total);
            METRICS.map(figure).into_iter().chain([confirmed]).collect()
        }))
        .verdict
    }

    #[test]
    fn every_figure_of_the_table_has_to_be_reached() {
        // Close times are published in whole seconds, 3 of them at least.
        assert_eq!([verdict(3, 1.02, 0.8), verdict(3, 1.02, 1.0)], [Beaten, Reproduced]);
        assert_eq!([verdict(3, 0.98, 1.0), verdict(3, 1.02, 1.3)], [Differs, Differs]);
        assert_eq!(verdict(1, 1.02, 0.8), Undecided);
    }

    #[test]
    fn no_short_transfer_is_faster_than_its_limits() {
        for cell in CELLS.into_iter().filter(|cell| SHORT.contains(&cell.kilobytes)) {
            let run = cell.link(radio::FASTEST).run(1);

            let close = run.closed_s.zip(run.total_s).map(|(end, from)| end - from);
            for (metric, ours) in
                [(CONNECT, run.connect_s), (TOTAL, run.delivered_s), (CLOSE, close)]
            {
                let ours = ours.expect("a clear link carries it");
                let least = cell.limit(metric, radio::FASTEST);
                assert!(ours > least, "{metric} {ours} s of {least} s for {}", cell.place());
            }
        }
    }
}
