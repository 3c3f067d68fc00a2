//! The cost of the tunnel on a link without loss.

use std::time::Duration;

use sim::channel::Loss;
use tunnel as nc;

use super::grid::{self, Load};
use super::measure::{self, STEADY_SPAN, Span};
use super::network::{Carrier, Kind, Network, Traffic};
use super::{GROUP, Scheme, assumptions};
use crate::prelude::*;

/// The most octets sent, as a multiple of what framing alone needs.
const GOAL: f64 = 1.01;
const LONG_SPAN: Span = Span { warm_up: Duration::from_secs(15), window: Duration::from_secs(20) };

pub const CLAIM: Claim = Claim {
    id: "nc-clean",
    group: GROUP,
    text: "on a link without loss the tunnel sends at most 1 % more octets than its framing needs",
    source: "ours",
    experiment: || Experiment::new(cases(), judge),
};

/// A network without loss, its name in the results, and the time in which it is measured.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    name: String,
    network: Network,
    span: Span,
}

fn cases() -> Vec<Case> {
    let paper = grid::SESSIONS.map(|n| {
        let plural = if n == 1 { "" } else { "s" };
        let name = format!("the paper's topology, {n} session{plural}");
        Case { name, network: Load::new(Scheme::Ours, n, 0.0).network(), span: STEADY_SPAN }
    });
    let config = nc::Config { base_mtu: 1_500, ..nc::Config::default() };
    let long = [
        ("long path, CUBIC", Traffic::Tcp(Kind::Cubic)),
        ("long path, datagrams", Traffic::Udp { load: 0.96 }),
        ("long path, a tenth of its rate", Traffic::Udp { load: 0.1 }),
    ];
    let long = long.map(|(name, traffic)| {
        let network = Network { traffic, ..Network::long(Loss::None, Carrier::Coded(config)) };
        Case { name: name.to_owned(), network, span: LONG_SPAN }
    });
    paper.into_iter().chain(long).collect()
}

impl Case {
    /// Outer octets of a full packet for each of its inner octets.
    fn framing(&self) -> f64 {
        self.network.outer() as f64 / self.network.packet as f64
    }
}

impl Place for Case {
    fn cell(&self) -> Cell {
        self.network.cell(self.span)
    }
}

fn judge(runs: &Runs<Case>) -> Finding {
    let ratio = |case: &Case| runs.at(case, measure::COST).times(1.0 / case.framing());
    let check = |case: &Case| {
        let ratio: Estimate = ratio(case);
        let what = format!("{}, {GOAL} allowed: {}", grid::share(&ratio), case.name);
        Check::new(what, ratio.at_most(GOAL))
    };
    let checks: Vec<Check> = runs.places().iter().map(check).collect();
    let point = |(case, number): (&Case, u8)| {
        let line = Line::new(case.name.clone(), "our tunnel", Ink::Default);
        let y = (ratio(case), "of the framing");
        Point { limit: Some(1.0), ..Point::new(line, (f64::from(number), "case"), y) }
    };
    let points: Vec<Point> = runs.places().iter().zip(1..).map(point).collect();
    let most = points.iter().map(|point| point.y.mean).fold(0.0, f64::max);
    let line = |y: f64| points.iter().map(move |point| Mark::exact(point.x, y));
    let ours = points.iter().map(|point| Mark::measured(point.x, &point.y));
    let names = points.iter().map(|point| format!("{:.0}: {}", point.x, point.line.series));
    let figure = Figure::new(
        "nc-clean",
        "What the tunnel sends without loss, relative to what its framing needs",
    )
    .under(format!(
        "Octets on the middle link in the direction of the data, mean of {} runs",
        runs.count()
    ))
    .over(Axis::linear("Case", "").with_ticks(points.iter().map(|point| point.x)))
    .up(Axis { from_zero: false, ..Axis::linear("Octets sent, relative to framing alone", "") })
    .with(vec![
        Series::new("framing alone", Ink::Limit, line(1.0)),
        Series::new("the goal: 1 % more", Ink::Goal, line(GOAL)),
        Series::new("our tunnel", Ink::Default, ours),
    ])
    .noting(names.collect::<Vec<_>>().join("; ") + ".");
    let rows = named(runs.places(), |case| &case.name);
    let columns = named(["sent", "framing", "ratio"], |name| name);
    let title = "Octets on the middle link, in the direction of the data, per inner octet";
    let table = Table::new(title, ("Case", columns), rows, |column, case| match column {
        "sent" => grid::share(&runs.at(case, measure::COST)),
        "framing" => format!("{:.3}", case.framing()),
        _ => grid::share(&ratio(case)),
    });
    let measured = format!("at most {most:.3} times the octets that framing needs.");
    Finding {
        points,
        figures: vec![figure],
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_more_than_framing_is_allowed() {
        let verdict = |runs, factor: f64| {
            let cost = |case: &Case| vec![(measure::COST, factor * case.framing())];
            judge(&Runs::made_up(cases(), runs, cost)).verdict
        };

        assert_eq!([verdict(3, 1.009), verdict(3, 1.02)], [Verdict::Reproduced, Verdict::Differs]);
        assert_eq!(verdict(1, 1.009), Verdict::Undecided);
    }
}
