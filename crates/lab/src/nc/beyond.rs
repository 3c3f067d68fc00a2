//! The paper's future work: both directions at once, and sessions of several kinds.

use super::grid::{self, GOAL, Load, random};
use super::measure::{self, STEADY_SPAN};
use super::network::Network;
use super::{GROUP, MBIT, PERCENT, Scheme, assumptions};
use crate::prelude::*;

const SESSIONS: [u32; 2] = [1, 5];
const LOSSES: [f64; 4] = [0.0, 0.10, 0.20, 0.30];

pub const CLAIM: Claim = Claim {
    id: "nc-beyond",
    group: GROUP,
    text: "the tunnel masks losses of both directions from sessions in both directions at once, \
           and which service suits a session depends on its kind",
    source: "sections III and V, left to future work",
    experiment: || Experiment::new(uses(), judge),
};

/// A use of the tunnel, with losses in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    /// This many sessions, each with data in both directions.
    BothWays(u32, Scheme, f64),
    /// Requests and answers beside transfers that fill the middle link.
    Beside(Scheme, f64),
}

fn uses() -> Vec<Use> {
    let mut uses = Vec::new();
    for sessions in SESSIONS {
        for scheme in Scheme::BEYOND {
            uses.extend(LOSSES.map(|loss| Use::BothWays(sessions, scheme, loss)));
        }
    }
    for scheme in Scheme::BEYOND {
        uses.extend(LOSSES.map(|loss| Use::Beside(scheme, loss)));
    }
    uses
}

impl Use {
    fn network(&self) -> Network {
        match *self {
            Self::BothWays(sessions, scheme, loss) => Network {
                is_both_ways: true,
                loss_back: random(loss),
                ..Load::new(scheme, sessions, loss).network()
            },
            Self::Beside(scheme, loss) => Network {
                has_requests: true,
                loss_back: random(loss),
                ..Load::new(scheme, 5, loss).network()
            },
        }
    }
}

impl Place for Use {
    fn cell(&self) -> Cell {
        self.network().cell(STEADY_SPAN)
    }
}

impl Drawn for Use {
    fn line(&self) -> Line {
        let (Self::BothWays(_, scheme, _) | Self::Beside(scheme, _)) = self;
        scheme.line()
    }

    fn x(&self) -> (f64, &'static str) {
        let (Self::BothWays(_, _, loss) | Self::Beside(_, loss)) = self;
        (loss * 100.0, PERCENT)
    }

    fn limit(&self, _: Metric) -> Option<f64> {
        Some(self.network().limit() / 1e6)
    }

    fn sessions(&self) -> Option<u32> {
        match self {
            Self::Beside(..) => None,
            Self::BothWays(sessions, ..) => Some(*sessions),
        }
    }
}

fn judge(runs: &Runs<Use>) -> Finding {
    let reached = |it: &Use| runs.at(it, measure::GOODPUT).times(1e6 / it.network().limit());
    let ours = SESSIONS.map(|n| LOSSES.map(|loss| (n, loss, Use::BothWays(n, Scheme::Ours, loss))));
    let checks = ours.as_flattened().iter().map(|(n, loss, it)| {
        let reached = reached(it);
        let what =
            format!("{:.3} of the limit with {n} each way at {}", reached.mean, percent(*loss));
        Check::new(what, reached.at_least(GOAL))
    });
    let least = ours.as_flattened().iter().map(|(_, _, it)| reached(it).mean).fold(1.0, f64::min);
    let asked = |scheme| {
        let of = |metric| runs.at(&Use::Beside(scheme, 0.20), metric).mean;
        let (answered, delay) = (of(measure::ANSWERED), of(measure::ANSWER_MEAN));
        format!("{:.1} % after {:.0} ms", answered * 100.0, delay * 1e3)
    };
    let measured = format!(
        "with sessions and losses both ways our tunnel reaches at least {least:.3} of the limit that \
         its headers leave. Of requests beside five transfers, at 20 % loss each way, plain IP \
         answers {} in the mean, our tunnel {}: an application that can do without the lost ones may \
         bypass the tunnel, all others gain by it.",
        asked(Scheme::Tcp),
        asked(Scheme::Ours)
    );
    let rows = SESSIONS.map(|n| Scheme::BEYOND.map(|it| (n, it))).concat();
    let rows = named(rows, |(n, scheme)| format!("{n}, {}", scheme.series()));
    let title = "Both directions at once: goodput as a share of the limit";
    let corner = ("Sessions each way, series", named(LOSSES, percent));
    let shares = Table::new(title, corner, rows, |loss, (n, scheme)| {
        grid::share(&reached(&Use::BothWays(n, scheme, loss)))
    });
    let points = runs.points(measure::GOODPUT, MBIT, |it| matches!(it, Use::BothWays(..)));
    Finding {
        figures: SESSIONS.map(|sessions| figure(&points, sessions)).to_vec(),
        tables: vec![shares, requests(runs)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks.collect::<Vec<_>>(), measured)
    }
}

/// Requests of 64 octets, ten a second, beside transfers.
fn requests(runs: &Runs<Use>) -> Table {
    let metrics = [
        ("answered, %", measure::ANSWERED, 100.0),
        ("mean, ms", measure::ANSWER_MEAN, 1e3),
        ("slowest, ms", measure::ANSWER_MOST, 1e3),
    ];
    let columns = Scheme::BEYOND.map(|scheme| metrics.map(|metric| (scheme, metric))).concat();
    let columns = named(columns, |(scheme, (what, ..))| format!("{}: {what}", scheme.series()));
    let title = "Requests of 64 octets and their answers, ten a second, beside five transfers";
    let rows = named(LOSSES, percent);
    Table::new(title, ("Loss each way", columns), rows, |(scheme, (_, metric, factor)), loss| {
        runs.at(&Use::Beside(scheme, loss), metric).times(factor)
    })
}

fn figure(points: &[Point], sessions: u32) -> Figure {
    let points: Vec<Point> =
        points.iter().filter(|it| it.sessions == Some(sessions)).cloned().collect();
    let is_ours = |it: &&Point| it.line.series == Scheme::Ours.series();
    let ours: Vec<Point> = points.iter().filter(is_ours).cloned().collect();
    let below = vec![
        Series::limit(&ours, "limit with our headers", Ink::Limit, 1.0),
        Series::limit(&ours, "the goal: 0.95 of the limit", Ink::Goal, GOAL),
    ];
    let plural = if sessions == 1 { "" } else { "s" };
    let title = format!("{sessions} session{plural} each way, losses each way");
    let x = Axis::linear("Loss of the middle link, each way", PERCENT);
    let y = Axis::linear(grid::GOODPUT_AXIS, MBIT);
    let name = format!("nc-beyond-{sessions}");
    Figure::of(&points, &name, &title).under(grid::TOPOLOGY).over(x).up(y).above(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_to_reach_the_goal() {
        let verdict = |runs, share: f64| {
            let goodput = |it: &Use| share * it.network().limit() / 1e6;
            judge(&Runs::made_up(uses(), runs, |it| vec![(measure::GOODPUT, goodput(it))])).verdict
        };

        assert_eq!([verdict(3, 0.96), verdict(3, 0.94)], [Verdict::Reproduced, Verdict::Differs]);
        assert_eq!(verdict(1, 0.96), Verdict::Undecided);
    }
}
