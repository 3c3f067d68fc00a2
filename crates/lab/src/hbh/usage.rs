//! Packets on the network over loss: two claims from one sweep.

use super::chain;
use super::delay::ABOUT_TWICE;
use super::fit::{Line, misfit, rms};
use super::trial::{LOSSES, Trial, at, points};
use super::{Carrier, GROUP, PACKETS, PACKETS_AXIS, assumptions, figure, listed, worst_ratio};
use crate::prelude::*;

/// Up to here loss is low.
const LOW_LOSS: f64 = 0.02;
/// Where the paper sees the growth of usage change.
const KNEE: f64 = 0.10;
/// How far a straight line may miss points that it fits.
const STRAIGHT: f64 = 0.05;
const TITLE: &str = "Packets that 100 kB cost over four lossy hops";

pub const CLAIMS: [Claim; 2] = [
    Claim {
        id: "hbh-usage",
        group: GROUP,
        text: "at low loss, TCP over HBH puts about twice as many IP packets on the network as \
               TCP end to end, because every hop acknowledges",
        source: "section IV, figure 4(b)",
        experiment: || Experiment::new(Trial::sweep(&Carrier::ALL), judge_usage),
    },
    Claim {
        id: "hbh-usage-growth",
        group: GROUP,
        text: "above 10 % loss, the packets on the network grow linearly with loss over HBH, \
               and exponentially with TCP end to end",
        source: "section IV, figure 4(b)",
        experiment: || Experiment::new(Trial::sweep(&Carrier::ALL), judge_growth),
    },
];

fn finding(runs: &Runs<Trial>, name: &str, finding: Finding) -> Finding {
    let points = points(runs, chain::PACKETS, PACKETS);
    Finding {
        figures: vec![figure(&points, name, TITLE, Axis::log(PACKETS_AXIS, ""))],
        points,
        assumptions: assumptions(),
        ..finding
    }
}

fn judge_usage(runs: &Runs<Trial>) -> Finding {
    let cost = |carrier| {
        move |loss| {
            let [hbh, plain] = [carrier, Carrier::Tcp].map(|it| at(runs, it, loss, chain::PACKETS));
            hbh.over(&plain)
        }
    };
    let low = LOSSES.map(|loss| (loss, cost(Carrier::Paper)(loss)));
    let low: Vec<_> = low.into_iter().filter(|(loss, _)| *loss <= LOW_LOSS).collect();
    let checks = |ask: fn(&Estimate) -> Answer| -> Vec<Check> {
        let what = |loss, cost| format!("{} times the packets at {}", mean(cost), percent(loss));
        low.iter().map(|(loss, cost)| Check::new(what(*loss, cost), ask(cost))).collect()
    };
    let shown = [0.0, 0.01, 0.02];
    let measured = format!(
        "in packets of plain TCP, the paper profile puts on the links {}; the default profile {}. \
         The default profile sends at most {}.",
        listed(shown, cost(Carrier::Paper)),
        listed(shown, cost(Carrier::Default)),
        worst_ratio(&points(runs, chain::PACKETS, PACKETS))
    );
    let claimed = checks(|cost| cost.within(ABOUT_TWICE));
    let better = checks(|cost| cost.at_most(ABOUT_TWICE[1]));
    finding(runs, "hbh-usage", runs.or_beaten(&claimed, &better, measured))
}

/// How packets grow above the knee.
struct Growth {
    /// From the knee to the greatest loss.
    times: f64,
    /// How far a straight line misses the means, and an exponential.
    straight: Estimate,
    bent: Estimate,
}

impl Growth {
    fn of(runs: &Runs<Trial>, carrier: Carrier) -> Self {
        let losses: Vec<f64> = LOSSES.into_iter().filter(|loss| *loss >= KNEE).collect();
        let all: Vec<Estimate> =
            losses.iter().map(|loss| at(runs, carrier, *loss, chain::PACKETS)).collect();
        let means: Vec<f64> = all.iter().map(|it| it.mean).collect();
        let logs: Vec<f64> = means.iter().map(|value| value.ln()).collect();
        let line = Line::through(&losses, &logs);
        let bent: Vec<f64> = losses.iter().map(|loss| line.at(*loss).exp()).collect();
        // No fit moves further than the means that it goes through.
        let halves: Option<Vec<f64>> =
            all.iter().map(|it| Some((it.ci95? / it.mean).powi(2))).collect();
        let ci95 = halves.map(|it| (it.iter().sum::<f64>() / it.len() as f64).sqrt());
        let censored = all.iter().map(|it| it.censored).sum();
        let estimate = |mean| Estimate { mean, ci95, censored, ..all[0] };
        Self {
            times: means[means.len() - 1] / means[0],
            straight: estimate(misfit(&losses, &means, &means)),
            bent: estimate(rms(&means, &bent)),
        }
    }

    fn text(&self) -> String {
        format!(
            "{} times from 10 to 30 %, a straight line misses it by {}, an exponential by {}",
            number(self.times),
            percent(self.straight.mean),
            percent(self.bent.mean),
        )
    }
}

fn judge_growth(runs: &Runs<Trial>) -> Finding {
    let [tcp, hbh, ours] = Carrier::ALL.map(|carrier| Growth::of(runs, carrier));
    let checks = [
        Check::new(
            format!("HBH stays within {} of a straight line", percent(STRAIGHT)),
            hbh.straight.at_most(STRAIGHT),
        ),
        Check::new(
            "an exponential fits plain TCP better than a straight line",
            tcp.bent.below(&tcp.straight),
        ),
    ];
    let measured = format!(
        "growth of packets, paper profile: {}; plain TCP: {}; default profile: {}.",
        hbh.text(),
        tcp.text(),
        ours.text()
    );
    finding(runs, "hbh-usage-growth", runs.finding(&checks, measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        judge: fn(&Runs<Trial>) -> Finding,
        runs: u32,
        packets: impl Fn(Carrier, f64) -> f64,
    ) -> Verdict {
        let trials = Trial::sweep(&Carrier::ALL);
        let measured = |it: &Trial| vec![(chain::PACKETS, packets(it.carrier, it.loss))];
        judge(&Runs::made_up(trials, runs, measured)).verdict
    }

    #[test]
    fn about_twice_the_packets_at_low_loss() {
        let with = |runs, hbh: f64| {
            let packets = move |it, _| if it == Carrier::Tcp { 1_000.0 } else { hbh };
            verdict(judge_usage, runs, packets)
        };

        assert_eq!(with(5, 2_000.0), Verdict::Reproduced);
        assert_eq!(with(5, 1_200.0), Verdict::Beaten);
        assert_eq!(with(5, 3_200.0), Verdict::Differs);
        assert_eq!(with(1, 2_000.0), Verdict::Undecided);
    }

    #[test]
    fn growth_is_linear_or_exponential() {
        let line = |loss: f64| 1_000.0 + 5_000.0 * loss;
        let bent = |loss: f64| 100.0 * (15.0 * loss).exp();
        let with = |hbh: fn(f64) -> f64, tcp: fn(f64) -> f64| {
            verdict(
                judge_growth,
                5,
                move |it, loss| {
                    if it == Carrier::Tcp { tcp(loss) } else { hbh(loss) }
                },
            )
        };

        assert_eq!(with(line, bent), Verdict::Reproduced);
        assert_eq!(with(bent, bent), Verdict::Differs);
        assert_eq!(with(line, line), Verdict::Differs);
    }
}
