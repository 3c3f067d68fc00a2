//! The claims that the paper derives from its Figure 7: comparisons of the schemes.

use super::grid::{self, LOSSES, Load, READ_LOSSES, Reading};
use super::{GROUP, Scheme, assumptions, measure, traces};
use crate::prelude::*;

/// The least share of the goodput without loss that counts as "hardly falls".
const HARDLY: f64 = 0.9;
/// The highest loss at which the goodput of two sessions hardly falls.
const KNEE: f64 = 0.15;
/// The largest relative difference of two goodputs that counts as "nearly equal".
const NEARLY: f64 = 0.15;

pub fn claims() -> [Claim; 5] {
    let claim = |id, text, source, experiment| Claim { id, group: GROUP, text, source, experiment };
    [
        claim(
            "nc-beats-tcp",
            "TCP/NC from end to end and the TCP/NC tunnel are always better than TCP from end to end \
             on a lossy link",
            "section IV, figure 7",
            || Experiment::new(Load::grid(&grid::SESSIONS), judge_beats),
        ),
        claim(
            "nc-one",
            "with one session the tunnel's goodput hardly falls up to 30 % loss and is clearly above \
             that of TCP/NC from end to end",
            "section IV, figure 7",
            || Experiment::new(Load::readings(1), judge_one),
        ),
        claim(
            "nc-two",
            "with two sessions the tunnel's goodput hardly falls up to 15 % loss; above, the \
             gateway's TCP send buffer overflows and goodput falls",
            "section IV, figures 7 to 10",
            || Experiment::new(Load::readings(2), draw_two),
        ),
        claim(
            "nc-three",
            "with three sessions the tunnel and TCP/NC from end to end are nearly equal, the tunnel \
             slightly lower for its encapsulation",
            "section IV, figure 7",
            || Experiment::new(Load::readings(3), judge_three),
        ),
        claim(
            "nc-five",
            "with five sessions there is congestion even without loss, and the tunnel and TCP/NC from \
             end to end degrade alike",
            "section IV, figure 7",
            || Experiment::new(Load::readings(5), judge_five),
        ),
    ]
}

fn goodput(runs: &Runs<Load>, load: &Load) -> Estimate {
    runs.at(load, measure::GOODPUT)
}

/// The goodput as a share of the goodput without loss.
fn kept(runs: &Runs<Load>, load: &Load) -> Estimate {
    goodput(runs, load).over(&goodput(runs, &Load { loss: 0.0, ..*load }))
}

fn lossy() -> impl Iterator<Item = f64> {
    LOSSES.into_iter().filter(|loss| *loss > 0.0)
}

/// Checks that `high` has more goodput than `low` at every loss.
fn ahead(runs: &Runs<Load>, low: Load, high: Load) -> Vec<Check> {
    let check = |loss| {
        let [below, above] = [low, high].map(|load| goodput(runs, &Load { loss, ..load }));
        let what =
            format!("{} ahead with {} at {}", high.scheme.title(), high.sessions, percent(loss));
        Check::new(what, below.below(&above))
    };
    lossy().map(check).collect()
}

/// Checks that a scheme keeps most of its goodput with these losses.
fn keeps(runs: &Runs<Load>, load: Load, losses: impl Iterator<Item = f64>) -> Vec<Check> {
    let check = |loss| {
        let kept = kept(runs, &Load { loss, ..load });
        let what = format!(
            "{} keeps {} of its goodput without loss at {}, {HARDLY} is hardly falling",
            load.scheme.title(),
            grid::share(&kept),
            percent(loss),
        );
        Check::new(what, kept.at_least(HARDLY))
    };
    losses.map(check).collect()
}

/// The goodputs of every scheme at some losses, as text.
fn listed(runs: &Runs<Load>, sessions: u32) -> String {
    let of = |scheme: Scheme| {
        let one = |loss| format!("{:.2}", goodput(runs, &Load::new(scheme, sessions, loss)).mean);
        format!("{} {}", scheme.title(), READ_LOSSES.map(one).join(", "))
    };
    format!(
        "with {sessions} at once, goodput in Mbit/s at 0, 10, 15, 20 and 30 %: {}.",
        Scheme::ALL.map(of).join("; ")
    )
}

/// Completes a finding with all goodputs as points, figures and tables.
fn finding(runs: &Runs<Load>, name: &str, sessions: &[u32], finding: Finding) -> Finding {
    let points = grid::points(runs);
    let figures = sessions.iter().map(|n| {
        let name = if sessions.len() == 1 { name.to_owned() } else { format!("{name}-{n}") };
        grid::figure(&points, &name, *n)
    });
    let title = "Goodput as a share of what the links allow";
    let mut tables =
        vec![grid::table(title, sessions, &Scheme::ALL, |load| grid::ratio(runs, load))];
    if let [sessions] = sessions {
        tables.push(readings(runs, *sessions, "Goodput in Mbit/s", measure::GOODPUT, 1.0));
    }
    Finding { figures: figures.collect(), tables, points, assumptions: assumptions(), ..finding }
}

/// A table of a metric of the paper's schemes under each reading.
fn readings(runs: &Runs<Load>, sessions: u32, title: &str, metric: Metric, factor: f64) -> Table {
    let mut rows = Vec::new();
    for scheme in Scheme::PAPER {
        for reading in std::iter::once(Reading::Taken).chain(Reading::OF_PAPER) {
            let load = Load { reading, ..Load::new(scheme, sessions, 0.0) };
            rows.push((format!("{}: {}", scheme.title(), reading.name()), load));
        }
    }
    let title = format!("{title}, by reading of what the paper leaves open");
    Table::new(title, ("Loss", named(READ_LOSSES, percent)), rows, |loss, load| {
        runs.at(&Load { loss, ..load }, metric).times(factor)
    })
}

fn judge_beats(runs: &Runs<Load>) -> Finding {
    let of = |scheme| {
        let ahead = |n| ahead(runs, Load::new(Scheme::Tcp, n, 0.0), Load::new(scheme, n, 0.0));
        grid::SESSIONS.map(ahead).concat()
    };
    let claimed = Scheme::PAPER.map(of).concat();
    let judged = runs.or_beaten(&claimed, &of(Scheme::Ours), listed(runs, 1));
    finding(runs, "nc-beats-tcp", &grid::SESSIONS, judged)
}

fn judge_one(runs: &Runs<Load>) -> Finding {
    let checks = |of: fn(Scheme, u32, f64) -> Load, scheme| {
        let load = of(scheme, 1, 0.0);
        let mut checks = keeps(runs, load, lossy());
        checks.extend(ahead(runs, of(Scheme::TcpNc, 1, 0.0), load));
        checks
    };
    let claimed = checks(Load::paper, Scheme::TcpNcTunnel);
    let better = checks(Load::new, Scheme::Ours);
    let judged = runs.or_beaten(&claimed, &better, listed(runs, 1));
    finding(runs, "nc-one", &[1], judged)
}

fn judge_two(runs: &Runs<Load>) -> Finding {
    let tunnel = Load::paper(Scheme::TcpNcTunnel, 2, 0.0);
    let fallen = kept(runs, &Load { loss: 0.30, ..tunnel });
    let overflows = [Reading::Paper, Reading::Buffers].map(|reading| {
        let above = READ_LOSSES.into_iter().filter(|loss| *loss > KNEE);
        let overflow = |loss| runs.at(&Load { reading, loss, ..tunnel }, measure::OVERFLOWED);
        Answer::any(above.map(|loss| overflow(loss).at_most(0.0).negated()))
    });
    let mut checks = keeps(runs, tunnel, lossy().filter(|loss| *loss <= KNEE));
    checks.extend([
        Check::new(
            format!("it keeps {} at 30 %, which is falling", grid::share(&fallen)),
            fallen.at_most(HARDLY),
        ),
        Check::new(
            "above 15 % its send buffer overflows, with one of the two buffers of hosts",
            Answer::any(overflows),
        ),
    ]);
    let mut finding = finding(runs, "nc-two", &[2], runs.finding(&checks, listed(runs, 2)));
    let title = "Packets dropped because the tunnel's send buffer was full, %";
    finding.tables.push(readings(runs, 2, title, measure::OVERFLOWED, 100.0));
    finding
}

/// The finding, with windows and buffers over time, which take runs of their own.
fn draw_two(runs: &Runs<Load>) -> Finding {
    let mut finding = judge_two(runs);
    finding.figures.extend(traces::figures());
    finding
}

/// The ratio of the tunnel's goodput to that of TCP/NC from end to end.
fn against(
    runs: &Runs<Load>,
    value: fn(&Runs<Load>, &Load) -> Estimate,
    n: u32,
) -> Vec<(f64, Estimate)> {
    let of = |loss| {
        let [nc, tunnel] = Scheme::PAPER.map(|scheme| value(runs, &Load::paper(scheme, n, loss)));
        (loss, tunnel.over(&nc))
    };
    LOSSES.map(of).to_vec()
}

/// Checks that all ratios are nearly 1.
fn alike(ratios: &[(f64, Estimate)], what: &str) -> Vec<Check> {
    let check = |(loss, ratio): &(f64, Estimate)| {
        let text = format!("the tunnel {what} at {}", percent(*loss));
        let text = text.replacen("so much", &grid::share(ratio), 1);
        Check::new(text, ratio.within([1.0 - NEARLY, 1.0 + NEARLY]))
    };
    ratios.iter().map(check).collect()
}

fn judge_three(runs: &Runs<Load>) -> Finding {
    let ratios = against(runs, goodput, 3);
    let mean = Estimate::mean_of(ratios.iter().map(|(_, ratio)| *ratio));
    let near = alike(&ratios, "gets so much of what TCP/NC gets from end to end");
    let is_lower = Check::new(
        format!("the tunnel is lower in the mean ({})", grid::share(&mean)),
        mean.at_most(1.0),
    );
    let claimed: Vec<Check> = near.iter().cloned().chain([is_lower]).collect();
    let judged = runs.or_beaten(&claimed, &near, listed(runs, 3));
    finding(runs, "nc-three", &[3], judged)
}

fn judge_five(runs: &Runs<Load>) -> Finding {
    let mut checks: Vec<Check> = Scheme::PAPER
        .iter()
        .map(|scheme| {
            let repeated = runs.at(&Load::paper(*scheme, 5, 0.0), measure::REPEATED);
            let what = format!(
                "over {} the sources retransmit segments without loss ({repeated})",
                scheme.title()
            );
            Check::new(what, repeated.at_least(1.0))
        })
        .collect();
    let ratios = against(runs, kept, 5);
    checks.extend(alike(
        &ratios[1..],
        "keeps so much of its goodput, in what TCP/NC keeps from end to end,",
    ));
    finding(runs, "nc-five", &[5], runs.finding(&checks, listed(runs, 5)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Beaten, Differs, Reproduced, Undecided};

    /// The verdict if the schemes have these goodputs, and the send buffer of the paper's tunnel
    /// overflows above 15 % loss.
    fn verdict(
        judge: fn(&Runs<Load>) -> Finding,
        loads: Vec<Load>,
        runs: u32,
        goodput: impl Fn(Scheme, f64) -> f64,
    ) -> Verdict {
        judge(&Runs::made_up(loads, runs, |it| {
            let overflowed = if it.loss > KNEE { 0.01 } else { 0.0 };
            vec![
                (measure::GOODPUT, goodput(it.scheme, it.loss)),
                (measure::OVERFLOWED, overflowed),
                (measure::REPEATED, 20.0),
            ]
        }))
        .verdict
    }

    #[test]
    fn both_schemes_of_the_paper_have_to_beat_plain_tcp() {
        let with = |runs, paper: f64, ours: f64| {
            let grid = Load::grid(&grid::SESSIONS);
            verdict(judge_beats, grid, runs, |scheme, _| match scheme {
                Scheme::Ours => ours,
                Scheme::Tcp => 0.5,
                Scheme::TcpNc | Scheme::TcpNcTunnel => paper,
            })
        };

        assert_eq!([with(3, 0.6, 0.9), with(3, 0.4, 0.9)], [Reproduced, Beaten]);
        assert_eq!([with(3, 0.4, 0.4), with(1, 0.6, 0.9)], [Differs, Undecided]);
    }

    #[test]
    fn one_session_hardly_suffers_and_is_above_tcpnc() {
        let with = |runs, tunnel: f64, ours: f64| {
            verdict(judge_one, Load::readings(1), runs, |scheme, loss| match scheme {
                Scheme::TcpNcTunnel if loss > 0.0 => tunnel,
                Scheme::Ours if loss > 0.0 => ours,
                Scheme::TcpNc => 0.7,
                _ => 1.0,
            })
        };

        assert_eq!([with(3, 0.95, 0.8), with(3, 0.8, 0.95)], [Reproduced, Beaten]);
        assert_eq!([with(3, 0.8, 0.8), with(1, 0.95, 0.95)], [Differs, Undecided]);
    }

    #[test]
    fn two_sessions_fall_above_the_knee_and_only_there() {
        let with = |runs, below: f64, above: f64| {
            verdict(judge_two, Load::readings(2), runs, |_, loss| match loss {
                0.0 => 1.0,
                loss if loss <= KNEE => below,
                _ => above,
            })
        };

        assert_eq!([with(3, 0.95, 0.7), with(1, 0.95, 0.7)], [Reproduced, Undecided]);
        assert_eq!([with(3, 0.8, 0.7), with(3, 0.95, 0.95)], [Differs, Differs]);
    }

    #[test]
    fn three_sessions_are_nearly_equal_and_the_tunnel_lower() {
        let with = |runs, tunnel: f64| {
            verdict(judge_three, Load::readings(3), runs, |scheme, _| {
                if scheme == Scheme::TcpNcTunnel { tunnel } else { 1.0 }
            })
        };

        assert_eq!([with(3, 0.96), with(3, 1.1)], [Reproduced, Beaten]);
        assert_eq!([with(3, 1.3), with(1, 0.96)], [Differs, Undecided]);
    }

    #[test]
    fn five_sessions_degrade_alike() {
        let with = |runs, tunnel: f64| {
            verdict(judge_five, Load::readings(5), runs, |scheme, loss| match scheme {
                Scheme::TcpNcTunnel if loss > 0.0 => tunnel,
                _ if loss > 0.0 => 0.5,
                _ => 1.0,
            })
        };

        assert_eq!([with(3, 0.47), with(3, 0.3)], [Reproduced, Differs]);
        assert_eq!(with(1, 0.47), Undecided);
    }
}
