//! End-to-end TCP over IP Client on clear links, with and without ARQ.

use proto::ipclient::Transport;

use super::GROUP;
use super::link::Link;
use super::transfer::{
    CONFIRMED, CONNECT, LATENCY, Published, Row, SMALL_BUFFER, TIMES, TOTAL, UTILISATION, at, cell,
    limit, name, seconds, share,
};
use crate::claim::{Cell, Claim, Exchange, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::runner;
use crate::stats::Estimate;
use crate::words::percent;

const fn row(
    speed: u32,
    kilobytes: u32,
    utilisation: f64,
    connect: f64,
    total: f64,
    latency: f64,
) -> Row {
    let published = Some(Published { utilisation, connect, total, latency });
    Row { speed, kilobytes, published }
}

/// The white paper's table for ARQ.
const ARQ: [Row; 15] = [
    row(240_000, 1, 0.003, 11.5, 11.5, 0.0),
    row(240_000, 10, 0.022, 6.2, 14.9, 8.3),
    row(240_000, 100, 0.084, 12.6, 39.8, 9.4),
    row(240_000, 1_000, 0.266, 12.7, 125.0, 64.6),
    row(240_000, 10_000, 0.072, 3.8, 4660.0, 1119.0),
    row(9_600, 1, 0.022, 37.6, 38.7, 4.1),
    row(9_600, 10, 0.175, 26.9, 47.6, 24.6),
    row(9_600, 100, 0.562, 22.0, 148.0, 130.0),
    row(9_600, 1_000, 0.807, 27.9, 1033.0, 566.0),
    Row { speed: 9_600, kilobytes: 10_000, published: None },
    row(1_200, 1, 0.172, 30.9, 38.7, 9.5),
    row(1_200, 10, 0.603, 19.2, 111.0, 95.3),
    row(1_200, 100, 0.749, 19.3, 890.0, 548.0),
    row(300, 1, 0.322, 48.7, 82.9, 55.1),
    row(300, 10, 0.394, 110.0, 677.0, 603.0),
];
/// Its table without ARQ.
const NON_ARQ: [Row; 4] = [
    row(9_600, 1, 0.058, 13.4, 14.5, 4.1),
    row(9_600, 10, 0.193, 20.5, 43.1, 26.7),
    row(9_600, 100, 0.563, 20.0, 148.0, 60.9),
    row(9_600, 1_000, 0.793, 16.1, 1051.0, 629.0),
];

const KILOBYTES: &str = "kB";
const SECONDS: &str = "s";

pub(super) fn claims() -> [Claim; 2] {
    [
        Claim {
            id: "hf-ipclient",
            group: GROUP,
            text: "end-to-end TCP over IP Client with ARQ uses 0.3 to 80.7 % of a clear link, and \
                   fails with 10 MB at 9600 bit/s",
            source: "TCP over HF radio, comparison with TCP over IP Client",
            cells: || IP_CLIENT.cells(),
            judge: |results| IP_CLIENT.judge(results),
        },
        Claim {
            id: "hf-nonarq",
            group: GROUP,
            text: "without ARQ it does much the same at 9600 bit/s: 5.8 to 79.3 %",
            source: "TCP over HF radio, non-ARQ measurements",
            cells: || WITHOUT_ARQ.cells(),
            judge: |results| WITHOUT_ARQ.judge(results),
        },
    ]
}

/// A table of the white paper.
struct Comparison {
    id: &'static str,
    series: &'static str,
    transport: Transport,
    rows: &'static [Row],
    /// The row that is shown as a timeline.
    shown: usize,
    /// What makes the difference.
    why: &'static str,
}

const IP_CLIENT: Comparison = Comparison {
    id: "hf-ipclient",
    series: "arq",
    transport: Transport::Arq { in_order: true },
    rows: &ARQ,
    shown: 7,
    why: "data goes along with the call, answers of TCP wait for nothing but the turn, and what the \
          timer needlessly sends again is dropped before the air",
};
const WITHOUT_ARQ: Comparison = Comparison {
    id: "hf-nonarq",
    series: "non-arq",
    transport: Transport::NonArq { repeats: 0 },
    rows: &NON_ARQ,
    shown: 2,
    why: "nobody makes a link, slots are as short as it takes to notice each other, and what TCP \
          sends again while the first still waits is dropped before the air",
};

impl Comparison {
    fn link(&self, row: Row) -> Link {
        row.link(self.transport, None)
    }

    /// The same with a socket buffer that Linux does not enlarge.
    fn small(&self, row: Row) -> Link {
        row.link(self.transport, Some(SMALL_BUFFER))
    }

    fn cells(&self) -> Vec<Cell> {
        self.rows.iter().flat_map(|&row| [cell(self.link(row)), cell(self.small(row))]).collect()
    }

    fn judge(&self, results: &Results) -> Finding {
        let points: Vec<Point> =
            self.rows.iter().flat_map(|&row| self.points(results, row)).collect();
        let worse: Vec<String> =
            self.rows.iter().flat_map(|&row| self.worse(results, row)).collect();
        let shares = self.rows.iter().map(|&row| at(results, &self.link(row), UTILISATION));
        let [least, most] = [f64::min, f64::max]
            .map(|pick| shares.clone().map(|share| share.mean).reduce(pick).unwrap_or_default());
        let failed = self.rows.iter().filter(|row| row.published.is_none()).map(|&row| {
            let total = at(results, &self.link(row), TOTAL);
            format!(" {}, which failed there, take {} s.", row.place(), seconds(&total))
        });
        let runs = points.first().map_or(0, |point| point.y.runs);
        Finding {
            verdict: if worse.is_empty() { Verdict::Beaten } else { Verdict::Differs },
            measured: format!(
                "{} to {} of the link.{} {runs} runs.",
                percent(least),
                percent(most),
                failed.collect::<String>(),
            ),
            reason: if worse.is_empty() {
                format!("no figure is worse: {}", self.why)
            } else {
                format!("worse: {}", worse.join("; "))
            },
            figures: self.figures(&points),
            tables: vec![self.table(results), self.latencies(results)],
            exchanges: vec![self.exchange()],
            points,
            assumptions: super::transfer_assumptions(),
        }
    }

    /// Which of the row's figures are not as good as the published ones. How long the last octet
    /// waits in the sender's socket is up to the size of that.
    fn worse(&self, results: &Results, row: Row) -> Vec<String> {
        let Some(published) = row.published else { return Vec::new() };
        let mut worse = Vec::new();
        let link = self.link(row);
        let share = at(results, &link, UTILISATION).mean;
        if share < published.utilisation {
            worse.push(format!("{share:.3} of {:.3} for {}", published.utilisation, row.place()));
        }
        for (metric, link) in [(CONNECT, &link), (TOTAL, &link), (LATENCY, &self.small(row))] {
            let (ours, theirs) = (at(results, link, metric), published.of(metric));
            // Nothing arrives in no time.
            if ours.mean > theirs && theirs > 0.0 {
                worse.push(format!(
                    "{metric} {} s of {theirs} s for {}",
                    seconds(&ours),
                    row.place()
                ));
            }
        }
        worse
    }

    fn points(&self, results: &Results, row: Row) -> Vec<Point> {
        let link = self.link(row);
        let (ours, seed) =
            (format!("{}-{}", self.series, row.speed), format!("seed-{}", row.speed));
        let x = f64::from(row.kilobytes);
        let point = |series: String, y: Estimate, y_unit, limit| Point {
            series,
            x,
            x_unit: KILOBYTES,
            y,
            y_unit,
            limit,
            sessions: None,
            limit2: None,
            cell: None,
        };
        let most = Some(limit(&link));
        let share = at(results, &link, UTILISATION);
        let mut points = vec![point(ours.clone(), share, super::UTILISATION, most)];
        points.extend(row.published.map(|published| {
            let y = super::published(published.utilisation);
            point(seed.clone(), y, super::UTILISATION, None)
        }));
        for metric in TIMES {
            let y = at(results, &link, metric);
            points.push(point(format!("{ours}-{metric}"), y, SECONDS, None));
            points.extend(row.published.map(|published| {
                let y = super::published(published.of(metric));
                point(format!("{seed}-{metric}"), y, SECONDS, None)
            }));
        }
        points.push(point(
            format!("{ours}-{LATENCY}-32k"),
            at(results, &self.small(row), LATENCY),
            SECONDS,
            None,
        ));
        points
    }

    fn table(&self, results: &Results) -> Table {
        let rows = self.rows.iter().map(|&row| {
            let link = self.link(row);
            let theirs =
                |value: fn(Published) -> String| row.published.map_or("failed".into(), value);
            let time = |metric| seconds(&at(results, &link, metric));
            vec![
                row.speed.to_string(),
                row.kilobytes.to_string(),
                share(&at(results, &link, UTILISATION)),
                theirs(|it| format!("{:.3}", it.utilisation)),
                time(CONNECT),
                theirs(|it| it.connect.to_string()),
                time(TOTAL),
                theirs(|it| it.total.to_string()),
                time(CONFIRMED),
            ]
        });
        Table {
            title: "Utilisation, connect time and total time, ours and published, in seconds"
                .into(),
            head: [
                "bit/s",
                "kB",
                "utilisation",
                "published",
                "connect",
                "published",
                "total",
                "published",
                "confirmed",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: rows.collect(),
        }
    }

    fn latencies(&self, results: &Results) -> Table {
        let rows = self.rows.iter().map(|&row| {
            vec![
                row.speed.to_string(),
                row.kilobytes.to_string(),
                seconds(&at(results, &self.link(row), LATENCY)),
                seconds(&at(results, &self.small(row), LATENCY)),
                share(&at(results, &self.small(row), UTILISATION)),
                row.published.map_or("failed".into(), |it| it.latency.to_string()),
            ]
        });
        Table {
            title: "Final data latency in seconds, by the sender's socket buffer".into(),
            head: [
                "bit/s",
                "kB",
                "as Linux enlarges it",
                "32 KB",
                "utilisation with 32 KB",
                "published",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: rows.collect(),
        }
    }

    /// A figure for each speed that has more than two sizes.
    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let mut speeds: Vec<u32> = self.rows.iter().map(|row| row.speed).collect();
        speeds.dedup();
        let of = |series: String| {
            points.iter().filter(move |it| it.y_unit == super::UTILISATION && it.series == series)
        };
        let figure = |speed: u32| {
            let ours = || of(format!("{}-{speed}", self.series));
            let marks = |it: &Point| Mark::measured(it.x, &it.y);
            Figure {
                name: format!("{}-{speed}", self.id),
                title: format!("End-to-end TCP over IP Client at {speed} bit/s"),
                subtitle: format!(
                    "{}, a clear link, mean of {} runs",
                    match self.transport {
                        Transport::Arq { .. } => "With ARQ",
                        Transport::NonArq { .. } => "Without ARQ, access in slots",
                    },
                    points.first().map_or(0, |point| point.y.runs)
                ),
                x: Axis::log("Size of the transfer", KILOBYTES)
                    .with_ticks([1.0, 10.0, 100.0, 1_000.0, 10_000.0]),
                y: Axis::linear("Utilisation", ""),
                series: vec![
                    Series {
                        name: "limit of a transfer without end".to_owned(),
                        ink: Ink::Limit,
                        marks: ours().filter_map(|it| Some(Mark::exact(it.x, it.limit?))).collect(),
                    },
                    Series {
                        name: "published".to_owned(),
                        ink: Ink::Seed,
                        marks: of(format!("seed-{speed}")).map(marks).collect(),
                    },
                    Series {
                        name: "ours".to_owned(),
                        ink: Ink::Default,
                        marks: ours().map(marks).collect(),
                    },
                ],
                note: String::new(),
            }
        };
        speeds.into_iter().map(figure).collect()
    }

    /// What both stations did in the run with the first seed.
    fn exchange(&self) -> Exchange {
        let row = self.rows[self.shown];
        let link = self.link(row);
        Exchange {
            name: format!("{}-timeline", self.id),
            title: format!("{} by TCP over IP Client", row.place()),
            subtitle: match self.transport {
                Transport::Arq { .. } => "With ARQ: handshake, slow start, confirmation".to_owned(),
                Transport::NonArq { .. } => {
                    "Without ARQ: handshake, slow start, confirmation".to_owned()
                }
            },
            stations: link.exchange(runner::seed(&name(&link), 0)),
        }
    }
}
