//! Makes a verdict, tables and pictures from all rows.

use super::super::{Carrier, SECONDS};
use super::Try;
use super::matrix;
use super::row::{CLEAN_DELAY, CLEAN_PACKETS, Goal, LOSSY_DELAY, RESUME_GOAL, Ratio, Row};
use super::scenario::Scenario;
use crate::everywhere::{self, Ranking};
use crate::prelude::*;

/// Faster results are drawn at this value: the question is about slower results.
const LEAST_DRAWN: f64 = 0.1;
const TIMES: &str = "times plain TCP";

/// HBH between all neighbours, beside plain TCP.
pub struct Hbh;

impl everywhere::Service for Hbh {
    type Scenario = Scenario;
    type Compared = Row;

    const ID: &'static str = "hbh-everywhere";
    const TEXT: &'static str = "whoever switches HBH on never regrets it: our profile is nowhere slower than plain \
                                TCP, costs few packets where nothing is lost, and goes on within a second of an \
                                outage's end";
    const TITLES: [&'static str; 3] = [
        "Places that fall short, the slowest first",
        "Places where these runs cannot tell, the slowest first",
        "All places, the slowest first",
    ];

    fn scenarios() -> Vec<Scenario> {
        matrix::scenarios()
    }

    fn compared(runs: &Runs<Try>, number: usize, scenario: Scenario) -> Vec<Row> {
        vec![Row::new(runs, number, scenario)]
    }

    fn measured(rows: &[&Row]) -> String {
        let worst = |kind: fn(&Row) -> bool, ratio: fn(&Row) -> Ratio| {
            let values = rows.iter().copied().filter(|row| kind(row));
            let worst = values.max_by(|a, b| ratio(a).value.mean.total_cmp(&ratio(b).value.mean));
            worst.map_or("nothing".to_owned(), |row| {
                format!("{} ({})", ratio(row).text(), row.scenario)
            })
        };
        let resume = |row: &&Row| row.resume(Carrier::Default).map(|resume| resume.mean);
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

    fn reason(ranking: &Ranking<Row>) -> String {
        let (short, open, places) = (ranking.short(), ranking.open().len(), ranking.all().len());
        let goals = format!(
            "the goals are a delay of at most {CLEAN_DELAY} of plain TCP's without loss and \
             {LOSSY_DELAY} at 1 % loss and more, {CLEAN_PACKETS} times the packets \
             without loss, and {RESUME_GOAL} s after an outage"
        );
        if short.is_empty() {
            return format!(
                "{goals}; none is missed in {places} places, {open} of which cannot tell"
            );
        }
        let count = |miss: Goal| short.iter().filter(|row| row.misses().contains(&miss)).count();
        format!(
            "{goals}; {open} of {places} places cannot tell, {} fall short: {} in delay, {} in packets, {} after an \
             outage. The slowest: {}",
            short.len(),
            count(Goal::Delay),
            count(Goal::Packets),
            count(Goal::Resume),
            ranking.named(),
        )
    }

    fn points(rows: &[Row]) -> Vec<Point> {
        let mut points = Vec::new();
        for carrier in [Carrier::Default, Carrier::Paper] {
            let named = |what: &str| format!("{}-{what}", carrier.series());
            let ratio = |row: &Row, what, ratio: Ratio| {
                point(row, named(what), carrier, (ratio.value, TIMES))
            };
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

    fn figures(rows: &[Row]) -> Vec<Figure> {
        let delay = [
            "HBH where there is nothing to gain, and elsewhere",
            "Delay over that of plain TCP",
            "Times the delay of plain TCP",
        ];
        let packets = [
            "What HBH costs where there is nothing to gain, and elsewhere",
            "Packets on all links over those of plain TCP",
            "Times the packets of plain TCP",
        ];
        let mut delay = figure(rows, "", delay, CLEAN_DELAY, Row::delay);
        delay.subtitle.push_str(", sorted");
        vec![delay, figure(rows, "-packets", packets, CLEAN_PACKETS, Row::packets)]
    }

    fn head() -> Vec<&'static str> {
        vec![
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
        ]
    }

    /// How long flows stand still after an outage, the longest first.
    fn aside(rows: &[&Row]) -> Option<Table> {
        let after = |row: &Row, carrier| row.resume(carrier).map_or(0.0, |resume| resume.mean);
        let mut out: Vec<&Row> = rows.iter().copied().filter(|row| row.resumes.is_some()).collect();
        out.sort_by(|a, b| after(b, Carrier::Default).total_cmp(&after(a, Carrier::Default)));
        let line = |row: &&Row| {
            let mut line = vec![row.number.to_string(), row.scenario.name()];
            let text = |carrier| row.resume(carrier).map_or(String::new(), |resume| mean(&resume));
            line.extend(Carrier::ALL.map(text));
            line
        };
        Some(Table::list(
            "Seconds from the link's return until the slowest flow goes on",
            ["No.", "Place", "plain TCP", "paper profile", "default profile"],
            out.iter().map(line),
        ))
    }
}

fn point(row: &Row, series: String, carrier: Carrier, y: (Estimate, &'static str)) -> Point {
    let line = Line { series, ..carrier.line() };
    everywhere::point(&row.scenario, row.number, line, y)
}

/// A ratio of each carrier over the share of places that do better, without loss and with.
fn figure(
    rows: &[Row],
    suffix: &str,
    [title, subtitle, y]: [&str; 3],
    goal: f64,
    ratio: fn(&Row, Carrier) -> Ratio,
) -> Figure {
    let series = |name, ink, is_clean, carrier| {
        let of = rows.iter().filter(|row| row.is_clean() == is_clean);
        let ratios = of.map(|row| ratio(row, carrier).value.mean);
        everywhere::curve(name, ink, ratios, [LEAST_DRAWN, f64::INFINITY])
    };
    let subtitle = format!("{subtitle} in {} places", rows.len());
    Figure::new(format!("hbh-everywhere{suffix}"), title)
        .under(subtitle)
        .over(everywhere::places())
        .up(Axis::log(y, ""))
        .with(vec![
            everywhere::level("as plain TCP", Ink::Limit, 1.0),
            everywhere::level(format!("goal without loss: {goal}"), Ink::Goal, goal),
            series("paper, no loss", Ink::Trace(1), true, Carrier::Paper),
            series("paper, loss", Ink::Trace(2), false, Carrier::Paper),
            series("default, no loss", Ink::Trace(0), true, Carrier::Default),
            series("default, loss", Ink::Trace(4), false, Carrier::Default),
        ])
        .noting(
            "Loss includes outages. Each curve has its own places; below 0.1 all is drawn at 0.1.",
        )
}
