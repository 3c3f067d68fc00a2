//! Prints each measurement beside its goal and its physical limit.

use std::io::{self, Write as _};

use lab::stats::Estimate;
use serde_json::json;

use super::Measured;
use super::lone::share_within;
use super::network::Carrier;
use super::plan::{Cell, Load, Pattern};
use super::talk::percentile;
use crate::terminal;

/// The goal for a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub heading: &'static str,
    pub case: String,
    /// The mean over all runs; unknown if it could not be measured.
    pub value: Estimate,
    pub unit: &'static str,
    pub asked: Option<Asked>,
    /// The best possible value.
    pub limit: Option<f64>,
}

const DOWNLOADS: &str = "One TCP download";
const BURSTS: &str = "One TCP download, losses in bursts of 5 frames and in fades of 20 ms";
const OFFERED: &str = "Octets on the link for each octet delivered, in the download's direction";
const SHARES: &str = "One TCP download, as a part of the goodput of plain bbr at the same loss";
const PINGS: &str = "Pings beside the tunnel, 8 Mbit/s and 20 ms, with a TCP connection each way";
const PLAIN: &str = "For orientation: the same without the tunnel";
const REQUESTS: &str = "64-octet requests and responses, ten a second";
const LONE: &str = "Packets of 64 octets that nothing follows, one way: requests and their answers";
const HEADINGS: [&str; 8] = [DOWNLOADS, SHARES, BURSTS, OFFERED, REQUESTS, LONE, PINGS, PLAIN];

/// The most added delay of a request, in milliseconds.
const ADDED: f64 = 2.0;
/// The greatest delay of 99 % of the requests, in milliseconds.
const P99_LOSSY: f64 = 250.0;
const P99_BESIDE: f64 = 200.0;
/// The greatest median beside a download, in round trips.
const MEDIAN_BESIDE: f64 = 1.1;
/// The least share of lone packets in time, and the time limit in round trips.
const LONE_IN_TIME: f64 = 0.999;
const LONE_WITHIN: f64 = 1.5;
/// The greatest median of a ping while the tunnel is full each way, in round trips: each of both
/// queues has a target of four datagrams, 0.15 round trips.
const PING_BESIDE: f64 = 1.4;

/// All figures, in the order in which they are shown.
pub fn findings(measured: &[Measured]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = measured.iter().flat_map(of_turn).collect();
    findings.extend(added_delay(measured));
    findings.extend(measured.iter().filter_map(|one| share(measured, one)));
    let place = |finding: &Finding| HEADINGS.iter().position(|one| *one == finding.heading);
    findings.sort_by_key(place);
    findings
}

fn of_turn(one: &Measured) -> Vec<Finding> {
    let cell = &one.cell;
    let Cell { carrier, pattern, loss, load, .. } = *cell;
    let times = &one.times();
    let at = |heading, percent: usize, asked: Option<f64>| Finding {
        heading,
        case: format!("{}, p{percent}", cell.name()),
        value: pooled(percentile(times, percent)),
        unit: "ms",
        asked: asked.map(Asked::AtMost),
        limit: Some(cell.wire().round_trip()),
    };
    match load {
        Load::Talk if carrier == Carrier::Tunnel && loss > 0.0 => {
            vec![at(REQUESTS, 99, Some(P99_LOSSY))]
        }
        Load::Talk => vec![at(REQUESTS, 99, None)],
        Load::Both => {
            let median = MEDIAN_BESIDE * cell.wire().round_trip();
            vec![at(REQUESTS, 50, Some(median)), at(REQUESTS, 99, Some(P99_BESIDE))]
        }
        Load::Lone => {
            let finding = |what, value, unit, asked| Finding {
                heading: LONE,
                case: format!("{}, {what}", cell.name()),
                value,
                unit,
                asked,
                limit: None,
            };
            let within = share_within(times, LONE_WITHIN * cell.wire().round_trip());
            let in_time = Some(Asked::AtLeast(LONE_IN_TIME));
            let cost = one.mean(|outcome| outcome.offered);
            vec![
                finding("in 1.5 round trips", pooled(within), "of them", in_time),
                finding("datagrams for each", cost, "times", None),
            ]
        }
        Load::BothWays => {
            let median = PING_BESIDE * cell.wire().round_trip();
            let is_asked = carrier == Carrier::Tunnel;
            vec![at(PINGS, 50, is_asked.then_some(median)), at(PINGS, 99, None)]
        }
        Load::Download(_) => {
            let goodput = Finding {
                heading: match (carrier, pattern) {
                    (Carrier::Plain, _) => PLAIN,
                    (Carrier::Tunnel, Pattern::Single) => DOWNLOADS,
                    (Carrier::Tunnel, Pattern::Bursts | Pattern::Fades) => BURSTS,
                },
                case: cell.name(),
                value: one.mean(|outcome| outcome.goodput),
                unit: "bit/s",
                asked: None,
                limit: Some(cell.goodput_limit()),
            };
            let offered = Finding {
                heading: OFFERED,
                case: format!("{}, octets", cell.name()),
                value: one.mean(|outcome| outcome.offered),
                unit: "times",
                asked: cell.asked_offered().map(Asked::AtMost),
                limit: Some(cell.offered_limit()),
            };
            vec![goodput, offered]
        }
    }
}

/// The goodput of a download in the tunnel beside that of plain bbr.
fn share(measured: &[Measured], ours: &Measured) -> Option<Finding> {
    let cell = &ours.cell;
    let asked = cell.asked_share()?;
    let plain = Cell { carrier: Carrier::Plain, load: Load::Download("bbr"), ..*cell };
    let plain = measured.iter().find(|one| one.cell.name() == plain.name())?;
    let goodput = |one: &Measured| one.mean(|outcome| outcome.goodput);
    Some(Finding {
        heading: SHARES,
        case: format!("{}, of plain bbr", cell.name()),
        value: goodput(ours).over(&goodput(plain)),
        unit: "times",
        asked: Some(Asked::AtLeast(asked)),
        limit: Some(cell.goodput_limit() / plain.cell.goodput_limit()),
    })
}

/// How much longer requests take in the tunnel, when nothing is lost.
fn added_delay(measured: &[Measured]) -> Option<Finding> {
    let median = |carrier| {
        let of = |one: &&Measured| {
            one.cell.carrier == carrier && one.cell.load == Load::Talk && one.cell.loss == 0.0
        };
        Some(percentile(&measured.iter().find(of)?.times(), 50))
    };
    let value = median(Carrier::Tunnel)? - median(Carrier::Plain)?;
    Some(Finding {
        heading: REQUESTS,
        case: "ours requests 0 %, p50 above plain".to_owned(),
        value: pooled(value),
        unit: "ms",
        asked: Some(Asked::AtMost(ADDED)),
        limit: None,
    })
}

/// An estimate from the times of all runs together.
fn pooled(value: f64) -> Estimate {
    Estimate { ci95: None, ..Estimate::exact(value) }
}

impl Finding {
    /// Whether the goal is met; a missing measurement meets no goal.
    pub fn is_met(&self) -> Option<bool> {
        match self.asked? {
            Asked::AtLeast(least) => Some(self.value.mean >= least),
            Asked::AtMost(most) => Some(self.value.mean <= most),
        }
    }

    fn json(&self) -> serde_json::Value {
        let Self { heading: _, case, value, unit, asked, limit } = self;
        let asked = asked.map(|asked| match asked {
            Asked::AtLeast(least) => json!({"at_least": least}),
            Asked::AtMost(most) => json!({"at_most": most}),
        });
        json!({
            "bench": "path", "case": case, "value": value.mean, "ci95": value.ci95, "unit": unit,
            "asked": asked, "met": self.is_met(), "limit": limit,
            "ratio": limit.map(|limit| value.mean / limit),
        })
    }

    fn line(&self) -> String {
        let Self { case, value, unit, asked, limit, .. } = self;
        let mut line = format!("  {case:<40}{:>13}", shown(value.mean, unit));
        let half = value.ci95.map(|half| format!("±{}", bare(half, unit))).unwrap_or_default();
        line += &format!(" {half:<7}");
        line += &match asked {
            Some(Asked::AtLeast(asked)) => format!("  asked >={:>12}", shown(*asked, unit)),
            Some(Asked::AtMost(asked)) => format!("  asked <={:>12}", shown(*asked, unit)),
            None => " ".repeat(22),
        };
        line += match self.is_met() {
            Some(true) => "  met     ",
            Some(false) => "  MISSED  ",
            None => "          ",
        };
        if let Some(limit) = limit.filter(|_| value.mean.is_finite()) {
            line += &format!("{:>5.3} of {}", value.mean / limit, shown(limit, unit));
        }
        line.trim_end().to_owned()
    }
}

/// Prints the findings as JSON, one object a line.
pub fn print_json(findings: &[Finding]) -> io::Result<()> {
    let mut out = terminal::out();
    findings.iter().try_for_each(|finding| writeln!(out, "{}", finding.json()))
}

/// Prints the findings as a table.
pub fn print_table(findings: &[Finding]) -> io::Result<()> {
    let mut out = terminal::out();
    let mut heading = "";
    for finding in findings {
        if finding.heading != heading {
            heading = finding.heading;
            writeln!(out, "\n{heading}")?;
        }
        writeln!(out, "{}", finding.line())?;
    }
    let verdicts = || findings.iter().filter_map(Finding::is_met);
    let met = verdicts().filter(|met| *met).count();
    writeln!(out, "\n{met} of {} figures are as asked", verdicts().count())
}

fn shown(value: f64, unit: &str) -> String {
    let bare = bare(value, unit);
    match unit {
        _ if value.is_nan() => "-".to_owned(),
        "bit/s" => format!("{bare} Mbit/s"),
        "of them" | "times" => bare,
        _ => format!("{bare} {unit}"),
    }
}

/// Formats a value without the unit.
fn bare(value: f64, unit: &str) -> String {
    match unit {
        "bit/s" => format!("{:.2}", value / 1e6),
        "of them" => format!("{value:.4}"),
        "times" => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn figures_stand_beside_what_was_asked() {
        let turns = [
            turn(Carrier::Tunnel, 10.0, Load::Download("bbr"), Some((8.1e6, 1.3))),
            turn(Carrier::Tunnel, 20.0, Load::Download("bbr"), None),
            turn(Carrier::Plain, 20.0, Load::Download("bbr"), Some((3.2e6, 1.4))),
            turn(Carrier::Tunnel, 0.0, Load::Talk, Some((0.0, 0.0))),
            turn(Carrier::Plain, 0.0, Load::Talk, Some((0.0, 0.0))),
        ];

        let lines: Vec<String> = findings(&turns).iter().map(Finding::line).collect();

        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            lines.iter().map(words).collect::<Vec<_>>(),
            [
                "ours bbr 10 % 8.10 Mbit/s 0.956 of 8.47 Mbit/s",
                "ours bbr 20 % -",
                "ours bbr 20 %, of plain bbr - asked >= 0.980 MISSED",
                "ours bbr 10 %, octets 1.300 asked <= 1.250 MISSED 1.111 of 1.170",
                "ours bbr 20 %, octets - asked <= 1.400 MISSED",
                "plain bbr 20 %, octets 1.400 1.081 of 1.295",
                "ours requests 0 %, p99 101.0 ms 1.010 of 100.0 ms",
                "plain requests 0 %, p99 101.0 ms 1.010 of 100.0 ms",
                "ours requests 0 %, p50 above plain 0.0 ms asked <= 2.0 ms met",
                "plain bbr 20 % 3.20 Mbit/s 0.418 of 7.65 Mbit/s",
            ]
        );
    }

    #[test]
    fn runs_are_averaged_and_their_times_pooled() {
        let run = |goodput, time| Outcome { goodput, offered: 3.9, times: vec![time, 150.0] };
        let cell = |load| Cell { load, ..turn(Carrier::Tunnel, 10.0, load, None).cell };
        let outcomes = || Some(vec![run(8.0e6, 60.0), run(8.2e6, 151.0)]);
        let turns = [Load::Download("cubic"), Load::Lone]
            .map(|load| Measured { cell: cell(load), outcomes: outcomes() });

        let lines: Vec<String> = findings(&turns).iter().map(Finding::line).collect();

        let has = |what: &str| lines.iter().any(|line| line.contains(what));
        // Student's t with one degree of freedom, 12.71 times 0.1.
        assert!(has("8.10 Mbit/s ±1.27"), "{lines:?}");
        assert!(has("in 1.5 round trips       0.7500"), "{lines:?}");
    }

    fn turn(carrier: Carrier, loss: f64, load: Load, figures: Option<(f64, f64)>) -> Measured {
        let cell = Cell { carrier, pattern: Pattern::Single, loss, load, seconds: 1 };
        let outcome = figures.map(|(goodput, offered)| Outcome {
            goodput,
            offered,
            times: vec![100.0, 101.0],
        });
        Measured { cell, outcomes: outcome.map(|outcome| vec![outcome]) }
    }
}
