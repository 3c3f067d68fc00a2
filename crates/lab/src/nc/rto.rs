//! The minimum RTO of the paper's tunnel against that of the sources.

use std::time::Duration;

use super::grid::{Load, PAPER_SPAN};
use super::measure::{self};
use super::network::{Carrier, Network};
use super::{GROUP, MBIT, Scheme, assumptions};
use crate::prelude::*;

/// The minimum RTOs of the tunnel that are tried, in ms.
const VALUES: [u32; 5] = [200, CHOSEN, 700, SOURCES, 1_500];
/// The tunnel's minimum RTO in the paper, in ms.
const CHOSEN: u32 = 400;
/// The minimum RTO of the sources, in ms.
const SOURCES: u32 = 1_000;
const LOSSES: [f64; 2] = [0.20, 0.30];

pub const CLAIM: Claim = Claim {
    id: "nc-rto",
    group: GROUP,
    text: "the minimum RTO of the tunnel has to be below that of the sources, 400 against 1,000 ms, \
           or the sources retransmit before the tunnel does",
    source: "section III-B",
    experiment: || Experiment::new(timeouts(), judge),
};

/// One session through the paper's tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timeout {
    loss: f64,
    millis: u32,
}

fn timeouts() -> Vec<Timeout> {
    LOSSES.map(|loss| VALUES.map(|millis| Timeout { loss, millis })).concat()
}

impl Timeout {
    fn network(&self) -> Network {
        let min_rto = Duration::from_millis(self.millis.into());
        let carrier = Carrier::TcpNcTunnel { min_rto };
        Network { carrier, ..Load::paper(Scheme::TcpNcTunnel, 1, self.loss).network() }
    }
}

impl Place for Timeout {
    fn cell(&self) -> Cell {
        self.network().cell(PAPER_SPAN)
    }
}

impl Drawn for Timeout {
    fn line(&self) -> Line {
        let loss = percent(self.loss);
        let ink = if self.loss > LOSSES[0] { Ink::Other(0) } else { Ink::Paper };
        Line::new(
            format!("tcpnc-tunnel, {loss} loss"),
            format!("the paper's tunnel, {loss} loss"),
            ink,
        )
    }

    fn x(&self) -> (f64, &'static str) {
        (f64::from(self.millis), "ms")
    }

    fn limit(&self, _: Metric) -> Option<f64> {
        Some(self.network().links_limit() / 1e6)
    }

    fn sessions(&self) -> Option<u32> {
        Some(1)
    }
}

fn judge(runs: &Runs<Timeout>) -> Finding {
    let of = |loss, millis, metric| runs.at(&Timeout { loss, millis }, metric);
    let checks = LOSSES.map(|loss| {
        let repeats = [CHOSEN, SOURCES].map(|millis| of(loss, millis, measure::REPEATED));
        let goodput = [CHOSEN, SOURCES].map(|millis| of(loss, millis, measure::GOODPUT));
        let text = |what: &str, [chosen, sources]: [String; 2]| {
            format!("{what} ({chosen} against {sources}) at {}", percent(loss))
        };
        [
            Check::new(
                text("the source retransmits fewer segments", repeats.map(|it| mean(&it))),
                repeats[0].below(&repeats[1]),
            ),
            Check::new(
                text("goodput is higher", goodput.map(|it| mean(&it))),
                goodput[1].below(&goodput[0]),
            ),
        ]
    });
    let shown = |loss, metric| {
        [CHOSEN, SOURCES].map(|millis| mean(&of(loss, millis, metric))).join(" and ")
    };
    let measured = LOSSES.map(|loss| {
        format!(
            "at {} loss {} Mbit/s with 400 and with 1,000 ms, {} segments retransmitted by the source",
            percent(loss),
            shown(loss, measure::GOODPUT),
            shown(loss, measure::REPEATED),
        )
    });
    let points = runs.points(measure::GOODPUT, MBIT, |_| true);
    let repeated = runs.points(measure::REPEATED, "segments", |_| true);
    Finding {
        figures: vec![
            Figure::of(&points, "nc-rto", "Goodput over the minimum RTO of the tunnel's TCP")
                .under("One session through the paper's tunnel")
                .over(
                    Axis::log("Minimum RTO of the tunnel; the source's is 1,000 ms", "ms")
                        .with_ticks(VALUES.map(f64::from)),
                )
                .up(Axis::linear("Goodput", MBIT)),
        ],
        tables: vec![
            Table::of("Goodput in Mbit/s over the tunnel's minimum RTO", &points),
            Table::of("Segments that the source retransmitted", &repeated),
        ],
        points,
        assumptions: assumptions(),
        ..runs.finding(checks.as_flattened(), format!("{}.", measured.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_that_times_out_first_spares_the_source() {
        let verdict = |runs, of: fn(f64) -> [f64; 2]| {
            let measured = |it: &Timeout| {
                let [goodput, repeated] = of(f64::from(it.millis));
                vec![(measure::GOODPUT, goodput), (measure::REPEATED, repeated)]
            };
            judge(&Runs::made_up(timeouts(), runs, measured)).verdict
        };
        let as_claimed = |millis: f64| [1.0 - millis / 1e4, millis];

        assert_eq!(verdict(3, as_claimed), Verdict::Reproduced);
        assert_eq!(verdict(3, |millis| [1.0, millis]), Verdict::Differs);
        assert_eq!(verdict(1, as_claimed), Verdict::Undecided);
    }
}
