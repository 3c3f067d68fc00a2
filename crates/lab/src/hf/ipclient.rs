//! End-to-end TCP over IP Client on clear links, with and without ARQ.

mod tables;

use std::time::Duration;

use hf::s5066::sis::Mode;

use super::compare::{self, Compared, Radio, Standing};
use super::link::Link;
use super::transfer::{
    BUFFER, BUFFERS, Published, Row, TIMES, TOTAL, UTILISATION, buffer, limit, seconds,
};
use super::{GROUP, key_ups, radio};
use crate::prelude::*;

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
/// The white paper's table without ARQ.
const NON_ARQ: [Row; 4] = [
    row(9_600, 1, 0.058, 13.4, 14.5, 4.1),
    row(9_600, 10, 0.193, 20.5, 43.1, 26.7),
    row(9_600, 100, 0.563, 20.0, 148.0, 60.9),
    row(9_600, 1_000, 0.793, 16.1, 1051.0, 629.0),
];

const KILOBYTES: &str = "kB";
const SECONDS: &str = "s";

pub const CLAIMS: [Claim; 2] = [
    Claim {
        id: "hf-ipclient",
        group: GROUP,
        text: "end-to-end TCP over IP Client with ARQ uses 0.3 to 80.7 % of a clear link, and \
               fails with 10 MB at 9600 bit/s",
        source: "TCP over HF radio, comparison with TCP over IP Client",
        experiment: || Experiment::new(IP_CLIENT.links(), |runs| IP_CLIENT.judge(runs)),
    },
    Claim {
        id: "hf-nonarq",
        group: GROUP,
        text: "without ARQ it does much the same at 9600 bit/s: 5.8 to 79.3 %",
        source: "TCP over HF radio, non-ARQ measurements",
        experiment: || Experiment::new(WITHOUT_ARQ.links(), |runs| WITHOUT_ARQ.judge(runs)),
    },
];

/// A table of the white paper.
struct Comparison {
    id: &'static str,
    series: &'static str,
    mode: Mode,
    rows: &'static [Row],
    /// The row that is shown as a timeline.
    shown: usize,
}

const IP_CLIENT: Comparison = Comparison {
    id: "hf-ipclient",
    series: "arq",
    mode: Mode::Arq { in_order: true },
    rows: &ARQ,
    shown: 7,
};
const WITHOUT_ARQ: Comparison =
    Comparison { id: "hf-nonarq", series: "non-arq", mode: Mode::ONCE, rows: &NON_ARQ, shown: 2 };

impl Comparison {
    /// The transfer that is judged for radios with this key-up.
    fn link(&self, row: Row, key_up: Duration) -> Link {
        row.link(self.mode, key_up, BUFFER)
    }

    fn links(&self) -> Vec<Link> {
        let of = |row: Row| {
            key_ups::key_ups()
                .into_iter()
                .flat_map(move |key_up| BUFFERS.map(|buffer| row.link(self.mode, key_up, buffer)))
        };
        self.rows.iter().flat_map(|&row| of(row)).collect()
    }

    fn judge(&self, runs: &Runs<Link>) -> Finding {
        let points: Vec<Point> = self.rows.iter().flat_map(|&row| self.points(runs, row)).collect();
        let radios = self.radios(runs, BUFFER);
        let winners: Vec<String> = BUFFERS
            .into_iter()
            .filter(|&octets| self.radios(runs, octets)[0].standing() == Standing::Beaten)
            .map(buffer)
            .collect();
        let fastest = |row: &Row| runs.at(&self.link(*row, radio::FASTEST), UTILISATION).mean;
        let [least, most] = extremes(self.rows.iter().map(fastest));
        let failed = self.rows.iter().filter(|row| row.published.is_none()).map(|&row| {
            let total = runs.at(&self.link(row, radio::FASTEST), TOTAL);
            format!(" {}, which failed there, take {} s.", row.place(), seconds(&total))
        });
        let measured = format!(
            "{} to {} of the link with a key-up of {} and a socket buffer of {}.{}",
            percent(least),
            percent(most),
            compare::seconds(radio::FASTEST),
            buffer(BUFFER),
            failed.collect::<String>()
        );
        Finding {
            verdict: compare::verdict(&radios),
            reason: format!(
                "with a socket buffer of {}: {}; {}; {}",
                buffer(BUFFER),
                compare::reason(&radios),
                match winners.is_empty() {
                    true =>
                        "no buffer that was tried beats every figure, even with the fastest radio"
                            .to_owned(),
                    false => format!(
                        "with the fastest radio every figure is beaten with {} of the buffers that \
                         were tried",
                        winners.join(" and ")
                    ),
                },
                key_ups::implied(),
            ),
            figures: self.figures(&points),
            tables: self.tables(runs),
            exchanges: vec![self.exchange(runs)],
            points,
            assumptions: super::transfer_assumptions(),
            ..runs.finding(&[], measured)
        }
    }

    /// The comparisons of our figures with this buffer with the published ones, for each radio.
    fn radios(&self, runs: &Runs<Link>, buffer: usize) -> [Radio; key_ups::COUNT] {
        let compared = |key_up| {
            self.rows.iter().flat_map(move |row| self.compared(runs, *row, key_up, buffer))
        };
        compare::radios(compared)
    }

    fn compared(
        &self,
        runs: &Runs<Link>,
        row: Row,
        key_up: Duration,
        buffer: usize,
    ) -> Vec<Compared> {
        let Some(published) = row.published else { return Vec::new() };
        let link = row.link(self.mode, key_up, buffer);
        let place = format!("for {}", row.place());
        let used = runs.at(&link, UTILISATION);
        let mut compared = vec![Compared::share(&place, &used, published.utilisation)];
        // A published time of 0 s was only too short for its digits.
        let times = TIMES.into_iter().filter(|&metric| published.of(metric) > 0.0);
        compared.extend(times.map(|metric| {
            let ours = runs.at(&link, metric);
            let measured = format!("{metric} {}", seconds(&ours));
            Compared::time(&place, &measured, &ours, published.of(metric))
        }));
        compared
    }

    fn points(&self, runs: &Runs<Link>, row: Row) -> Vec<Point> {
        let (ours, theirs) =
            (format!("{}-{}", self.series, row.speed), format!("published-{}", row.speed));
        let point = |series: String, y: Estimate, y_unit, limit| {
            let is_ours = series.starts_with(self.series);
            let (title, ink) =
                if is_ours { ("ours", Ink::Default) } else { ("published", Ink::Paper) };
            let line = Line::new(series, title, ink);
            let x = (f64::from(row.kilobytes), KILOBYTES);
            Point { limit, ..Point::new(line, x, (y, y_unit)) }
        };
        let of = |link: Link, suffix: String| {
            let used = runs.at(&link, UTILISATION);
            let used =
                point(format!("{ours}{suffix}"), used, super::UTILISATION, Some(limit(&link)));
            let times = TIMES.map(|metric| {
                let y = runs.at(&link, metric);
                point(format!("{ours}-{metric}{suffix}"), y, SECONDS, None)
            });
            [used].into_iter().chain(times).collect::<Vec<_>>()
        };
        let mut points = of(self.link(row, radio::FASTEST), String::new());
        for key_up in key_ups::key_ups().into_iter().skip(1) {
            let suffix = format!(", key-up {}", compare::seconds(key_up));
            points.extend(of(self.link(row, key_up), suffix));
        }
        for other in BUFFERS.into_iter().filter(|&other| other != BUFFER) {
            let link = row.link(self.mode, radio::FASTEST, other);
            points.extend(of(link, format!(", {}", buffer(other))));
        }
        let of_published = |published: Published| {
            let used = super::published(published.utilisation);
            let used = point(theirs.clone(), used, super::UTILISATION, None);
            let times = TIMES.map(|metric| {
                let y = super::published(published.of(metric));
                point(format!("{theirs}-{metric}"), y, SECONDS, None)
            });
            [used].into_iter().chain(times).collect::<Vec<_>>()
        };
        points.extend(row.published.into_iter().flat_map(of_published));
        points
    }

    /// A figure for each speed that has more than two sizes.
    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let mut speeds: Vec<u32> = self.rows.iter().map(|row| row.speed).collect();
        speeds.dedup();
        let figure = |speed: u32| {
            let names = [format!("{}-{speed}", self.series), format!("published-{speed}")];
            let of = points
                .iter()
                .filter(|it| it.y_unit == super::UTILISATION && names.contains(&it.line.series));
            let drawn: Vec<Point> = of.cloned().collect();
            let name = "limit of a transfer without end";
            let mut series = vec![Series::limit(&drawn, name, Ink::Limit, 1.0)];
            series.extend(Series::of(&drawn));
            Figure::new(
                format!("{}-{speed}", self.id),
                format!("End-to-end TCP over IP Client at {speed} bit/s"),
            )
            .under(format!(
                "{}, a clear link, key-up {}, socket buffer {}",
                match self.mode {
                    Mode::Arq { .. } => "With ARQ",
                    Mode::NonArq { .. } => "Without ARQ, access in slots",
                },
                compare::seconds(radio::FASTEST),
                buffer(BUFFER),
            ))
            .over(
                Axis::log("Size of the transfer", KILOBYTES)
                    .with_ticks([1.0, 10.0, 100.0, 1_000.0, 10_000.0]),
            )
            .up(Axis::linear("Utilisation", ""))
            .with(series)
        };
        speeds.into_iter().map(figure).collect()
    }

    /// The records of both stations in the run with the first seed.
    fn exchange(&self, runs: &Runs<Link>) -> Exchange {
        let row = self.rows[self.shown];
        let link = self.link(row, radio::FASTEST);
        Exchange {
            name: format!("{}-timeline", self.id),
            title: format!("{} by TCP over IP Client", row.place()),
            subtitle: match self.mode {
                Mode::Arq { .. } => "With ARQ: handshake, slow start, confirmation".to_owned(),
                Mode::NonArq { .. } => {
                    "Without ARQ: handshake, slow start, confirmation".to_owned()
                }
            },
            stations: link.exchange(runs.first_seed(&link)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Beaten, Differs, Reproduced, Undecided};

    /// The verdict if our utilisation is the published one times `better`, and our times are the
    /// published ones divided by `better`; the connect time is also multiplied by `late`.
    fn verdict(comparison: &Comparison, runs: u32, better: f64, late: f64) -> Verdict {
        let row_of = |link: &Link| {
            let is_of =
                |row: &&Row| row.link(comparison.mode, link.key_up, link.send_buffer) == *link;
            comparison.rows.iter().find(is_of).and_then(|row| row.published)
        };
        let judged = comparison.judge(&Runs::made_up(comparison.links(), runs, |link| {
            let Some(published) = row_of(link) else { return Vec::new() };
            let time = |metric: Metric| {
                let late = if metric == TIMES[0] { late } else { 1.0 };
                (metric, published.of(metric) / better * late)
            };
            let used = (UTILISATION, published.utilisation * better);
            std::iter::once(used).chain(TIMES.map(time)).collect()
        }));
        judged.verdict
    }

    #[test]
    fn every_figure_of_a_table_has_to_be_reached() {
        for table in [IP_CLIENT, WITHOUT_ARQ] {
            let verdict = |runs, better, late| verdict(&table, runs, better, late);

            assert_eq!([verdict(3, 1.02, 1.0), verdict(3, 1.0, 1.0)], [Beaten, Reproduced]);
            assert_eq!([verdict(3, 0.98, 1.0), verdict(3, 1.02, 1.1)], [Differs, Differs]);
            assert_eq!(verdict(1, 1.02, 1.0), Undecided);
        }
    }
}
