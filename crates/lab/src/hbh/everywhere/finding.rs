//! Makes a verdict, tables and pictures from all rows.

use super::super::{Carrier, SECONDS};
use super::Try;
use super::matrix;
use super::row::{CLEAN_DELAY, CLEAN_PACKETS, Goal, LOSSY_DELAY, RESUME_GOAL, Ratio, Row};
use crate::prelude::*;

/// Places that the sentences name; the tables have all.
const NAMED: usize = 8;
/// Faster results are drawn at this value: the question is about slower results.
const LEAST_DRAWN: f64 = 0.1;
const TIMES: &str = "times plain TCP";
const NUMBER: &str = "cell";
const HEAD: [&str; 10] = [
    "No.",
    "Place",
    "Runs",
    "Plain TCP [s]",
    "Delay, paper / plain",
    "Delay, default / plain",
    "Packets, plain",
    "Packets, paper / plain",
    "Packets, default / plain",
    "Misses",
];

pub(super) fn judge(runs: &Runs<Try>) -> Finding {
    let places = matrix::scenarios().into_iter().enumerate();
    let mut rows: Vec<Row> =
        places.map(|(number, scenario)| Row::new(runs, number, scenario)).collect();
    let points = points(&rows);
    let figures = vec![delay_figure(&rows), packets_figure(&rows)];
    rows.sort_by(|a, b| ratio_of(b).total_cmp(&ratio_of(a)));
    let short: Vec<&Row> = rows.iter().filter(|row| row.holds() == Answer::No).collect();
    let open: Vec<&Row> = rows.iter().filter(|row| row.holds() == Answer::Undecided).collect();
    Finding {
        verdict: verdict(&rows),
        reason: reason(&short, open.len(), rows.len()),
        points,
        figures,
        tables: vec![
            table("Places that fall short, the slowest first", &short),
            table("Places where these runs cannot tell, the slowest first", &open),
            resumes(&rows),
            table("All places, the slowest first", &rows.iter().collect::<Vec<_>>()),
        ],
        ..Finding::of(&[], measured(&rows))
    }
}

/// The claim holds where every place reaches its goals.
pub(super) fn verdict(rows: &[Row]) -> Verdict {
    Verdict::of(Answer::all(rows.iter().map(Row::holds)))
}

fn ratio_of(row: &Row) -> f64 {
    row.delay(Carrier::Default).value.mean
}

fn measured(rows: &[Row]) -> String {
    let worst = |kind: fn(&Row) -> bool, ratio: fn(&Row) -> Ratio| {
        let values = rows.iter().filter(|row| kind(row));
        let worst = values.max_by(|a, b| ratio(a).value.mean.total_cmp(&ratio(b).value.mean));
        worst
            .map_or("nothing".to_owned(), |row| format!("{} ({})", ratio(row).text(), row.scenario))
    };
    let resume = |row: &Row| row.resume(Carrier::Default).map(|resume| resume.mean);
    let slowest = rows.iter().filter_map(resume).fold(0.0, f64::max);
    format!(
        "in {} places. Delay of the default profile over that of plain TCP is at most {} without \
         loss and {} with loss; packets without loss {}. After an outage the slowest flow goes on \
         within {} s in the mean of the worst place",
        rows.len(),
        worst(Row::is_clean, |row| row.delay(Carrier::Default)),
        worst(|row| !row.is_clean(), |row| row.delay(Carrier::Default)),
        worst(Row::is_clean, |row| row.packets(Carrier::Default)),
        number(slowest),
    )
}

fn reason(short: &[&Row], open: usize, places: usize) -> String {
    let goals = format!(
        "the goals are a delay of at most {CLEAN_DELAY} of plain TCP's without loss and \
         {LOSSY_DELAY} at 1 % loss and more, {CLEAN_PACKETS} times the packets \
         without loss, and {RESUME_GOAL} s after an outage"
    );
    if short.is_empty() {
        return format!("{goals}; none is missed in {places} places, {open} of which cannot tell");
    }
    let count = |miss: Goal| short.iter().filter(|row| row.misses().contains(&miss)).count();
    let named = short.iter().take(NAMED).map(|row| {
        let misses: Vec<&str> = row.misses().into_iter().map(Goal::name).collect();
        let ratio = row.delay(Carrier::Default).text();
        format!("{} (delay {ratio}; misses {})", row.scenario, misses.join(", "))
    });
    format!(
        "{goals}; {open} of {places} places cannot tell, {} fall short: {} in delay, {} in packets, {} after an \
         outage. The slowest: {}",
        short.len(),
        count(Goal::Delay),
        count(Goal::Packets),
        count(Goal::Resume),
        named.collect::<Vec<_>>().join("; "),
    )
}

fn points(rows: &[Row]) -> Vec<Point> {
    let mut points = Vec::new();
    for carrier in [Carrier::Default, Carrier::Paper] {
        let named = |what: &str| format!("{}-{what}", carrier.series());
        let ratio =
            |row: &Row, what, ratio: Ratio| point(row, named(what), carrier, (ratio.value, TIMES));
        points.extend(rows.iter().map(|row| ratio(row, "delay", row.delay(carrier))));
        points.extend(rows.iter().map(|row| ratio(row, "packets", row.packets(carrier))));
    }
    for (carrier, series) in [
        (Carrier::Default, "outage-resume"),
        (Carrier::Paper, "paper-outage-resume"),
        (Carrier::Tcp, "tcp-outage-resume"),
    ] {
        let resume = |row: &Row| {
            Some(point(row, series.to_owned(), carrier, (row.resume(carrier)?, SECONDS)))
        };
        points.extend(rows.iter().filter_map(resume));
    }
    points
}

fn point(row: &Row, series: String, carrier: Carrier, y: (Estimate, &'static str)) -> Point {
    let line = Line { series, ..carrier.line() };
    let cell = Some(row.scenario.name());
    Point { cell, ..Point::new(line, (row.number as f64, NUMBER), y) }
}

fn table(title: &str, rows: &[&Row]) -> Table {
    Table::list(title.to_owned(), HEAD, rows.iter().map(|row| row.cells()))
}

/// How long flows stand still after an outage, the longest first.
fn resumes(rows: &[Row]) -> Table {
    let after = |row: &Row, carrier| row.resume(carrier).map_or(0.0, |resume| resume.mean);
    let mut out: Vec<&Row> = rows.iter().filter(|row| row.resumes.is_some()).collect();
    out.sort_by(|a, b| after(b, Carrier::Default).total_cmp(&after(a, Carrier::Default)));
    let line = |row: &&Row| {
        let mut line = vec![row.number.to_string(), row.scenario.name()];
        let text = |carrier| {
            row.resume(carrier).map_or(String::new(), |resume| crate::words::mean(&resume))
        };
        line.extend(Carrier::ALL.map(text));
        line
    };
    Table::list(
        "Seconds from the link's return until the slowest flow goes on",
        ["No.", "Place", "plain TCP", "paper profile", "default profile"],
        out.iter().map(line),
    )
}

/// The ratios of some places from the least to the greatest, over the share of places below.
fn sorted(
    rows: &[Row],
    name: &str,
    ink: Ink,
    kind: fn(&Row) -> bool,
    ratio: impl Fn(&Row) -> Ratio,
) -> Series {
    let mut ratios: Vec<f64> =
        rows.iter().filter(|row| kind(row)).map(|row| ratio(row).value.mean).collect();
    ratios.sort_by(f64::total_cmp);
    let share = |index: usize| (index as f64 + 0.5) / ratios.len() as f64 * 100.0;
    let drawn = |(index, y): (usize, &f64)| Mark::exact(share(index), y.max(LEAST_DRAWN));
    Series::new(name, ink, ratios.iter().enumerate().map(drawn))
}

fn level(name: String, ink: Ink, y: f64) -> Series {
    Series::new(name, ink, [0.0, 100.0].map(|x| Mark::exact(x, y)))
}

fn delay_figure(rows: &[Row]) -> Figure {
    let series = |name, ink, kind, carrier: Carrier| {
        sorted(rows, name, ink, kind, move |row: &Row| row.delay(carrier))
    };
    let is_lossy = |row: &Row| !row.is_clean();
    Figure::new(
        "hbh-everywhere",
        "HBH where there is nothing to gain, and elsewhere",
        format!("Delay over that of plain TCP in {} places, sorted", rows.len()),
    )
    .over(Axis::linear("Share of places that do better", "%"))
    .up(Axis::log("Times the delay of plain TCP", ""))
    .with(vec![
        level("as plain TCP".to_owned(), Ink::Limit, 1.0),
        level(format!("goal without loss: {CLEAN_DELAY}"), Ink::Goal, CLEAN_DELAY),
        series("paper, no loss", Ink::Trace(1), Row::is_clean, Carrier::Paper),
        series("paper, loss", Ink::Trace(2), is_lossy, Carrier::Paper),
        series("default, no loss", Ink::Trace(0), Row::is_clean, Carrier::Default),
        series("default, loss", Ink::Trace(4), is_lossy, Carrier::Default),
    ])
    .noting("Loss includes outages. Each curve has its own places; below 0.1 all is drawn at 0.1.")
}

fn packets_figure(rows: &[Row]) -> Figure {
    let series = |name, ink, kind, carrier: Carrier| {
        sorted(rows, name, ink, kind, move |row: &Row| row.packets(carrier))
    };
    let is_lossy = |row: &Row| !row.is_clean();
    Figure {
        name: "hbh-everywhere-packets".to_owned(),
        title: "What HBH costs where there is nothing to gain, and elsewhere".to_owned(),
        subtitle: format!("Packets on all links over those of plain TCP in {} places", rows.len()),
        y: Axis::log("Times the packets of plain TCP", ""),
        series: vec![
            level("as plain TCP".to_owned(), Ink::Limit, 1.0),
            level(format!("goal without loss: {CLEAN_PACKETS}"), Ink::Goal, CLEAN_PACKETS),
            series("paper, no loss", Ink::Trace(1), Row::is_clean, Carrier::Paper),
            series("paper, loss", Ink::Trace(2), is_lossy, Carrier::Paper),
            series("default, no loss", Ink::Trace(0), Row::is_clean, Carrier::Default),
            series("default, loss", Ink::Trace(4), is_lossy, Carrier::Default),
        ],
        ..delay_figure(rows)
    }
}
