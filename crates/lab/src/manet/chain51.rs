//! The chain with a node that passes along it.

use super::trial::{Assumed, Network, PAPER_TCPS, Routing, Tcp, Traffic, Trial, Uplink};
use super::{
    BREAKS, BY_HOPS, CHANGES, FOUND, GIVEN_UP, GOODPUT, GROUP, KBIT_S, TIMEOUTS, assumptions,
    figure, goodput, points, table, timeline,
};
use crate::prelude::*;

const FAST: Network = Network::Chain51(Uplink::Fast);
const SLOW: Network = Network::Chain51(Uplink::Slow);
/// What the slow uplink may cost where the paper says "about 10 %" and "almost 50 %".
const ABOUT_TEN: [f64; 2] = [0.82, 0.98];
const ALMOST_HALF: [f64; 2] = [0.42, 0.65];
/// Hop counts that geometry alone allows in the first 100 s, and those of the paper.
const FEW_CHANGES: [f64; 2] = [6.0, 10.0];
const MANY_CHANGES: [f64; 2] = [18.0, 34.0];

/// The traffic cases of Chain 5+1 whose flows pass the uplink.
const THROUGH: [Traffic; 3] = [Traffic::One, Traffic::Overlapping, Traffic::Simultaneous];

/// TCP-AP as in the paper's explanation of the uplink's cost: the wire counts as a hop, and the delay between
/// segments is the delay of all hops up to four.
fn described(network: Network, traffic: Traffic) -> Trial {
    Trial::new(network, traffic, Tcp::AdaptivePacing).with(Assumed::CountsWireAllHops)
}

pub const CLAIMS: [Claim; 4] = [
    Claim {
        id: "manet-51-vegas",
        group: GROUP,
        text: "on Chain 5+1 with AODV Vegas has the highest throughput",
        source: "section III.B, figure 7",
        experiment: || Experiment::new(Trial::all(FAST), judge_vegas),
    },
    Claim {
        id: "manet-51-uplink",
        group: GROUP,
        text: "the slower uplink costs NewReno and Vegas about 10 %, TCP-AP almost 50 %",
        source: "section III.B, figure 7",
        experiment: || {
            let described = [FAST, SLOW]
                .into_iter()
                .flat_map(|it| THROUGH.map(|traffic| described(it, traffic)));
            let all = [Trial::all(FAST), Trial::all(SLOW), described.collect()].concat();
            Experiment::new(all, judge_uplink)
        },
    },
    Claim {
        id: "manet-51-hops",
        group: GROUP,
        text: "goodput falls as the number of hops grows; the flow within the MANET (up to 5 hops) does \
               worse than the one through the gateway (up to 3)",
        source: "section III.B, figure 8",
        experiment: || {
            Experiment::new(Trial::all(FAST), |runs| {
                let finding = judge_hops(runs);
                let figures = [finding.figures, timeline::figures(runs)].concat();
                Finding { figures, ..finding }
            })
        },
    },
    Claim {
        id: "manet-51-flaps",
        group: GROUP,
        text: "in the first 100 s AODV changes the hop count 8 times under Vegas and TCP-AP, 26 times under \
               NewReno",
        source: "section III.B",
        experiment: || {
            let of = |tcp| Trial::new(FAST, Traffic::One, tcp);
            Experiment::new(PAPER_TCPS.map(of), judge_flaps)
        },
    },
];

fn judge_vegas(runs: &Runs<Trial>) -> Finding {
    let of = |tcp| goodput(runs, FAST, tcp, Routing::Aodv);
    let vegas = of(Tcp::Vegas);
    let checks = [Tcp::NewReno, Tcp::AdaptivePacing].map(|tcp| {
        let what = format!("Vegas is above {} on average", tcp.title());
        Check::new(what, of(tcp).below(&vegas))
    });
    let points = points(runs, FAST, Routing::Aodv, GOODPUT);
    let told = PAPER_TCPS.map(|tcp| format!("{} {} {KBIT_S}", tcp.title(), mean(&of(tcp))));
    let measured = format!("Mean over the four traffic cases: {}.", told.join(", "));
    let figure = figure(
        &points,
        "manet-51-vegas",
        "TCP while a node passes along a chain",
        "Chain 5+1, AODV, uplink of 100 Mbit/s",
    );
    Finding {
        figures: vec![figure],
        tables: vec![table(runs, FAST, Routing::Aodv, GOODPUT)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn judge_uplink(runs: &Runs<Trial>) -> Finding {
    let ratio = |of: &dyn Fn(Network, Traffic) -> Trial| {
        let [slow, fast] = [SLOW, FAST].map(|network| {
            Estimate::mean_of(THROUGH.map(|traffic| runs.at(&of(network, traffic), GOODPUT)))
        });
        slow.over(&fast)
    };
    let usual = |tcp| ratio(&|network, traffic| Trial::new(network, traffic, tcp));
    let checks = [
        ("NewReno", usual(Tcp::NewReno), ABOUT_TEN),
        ("Vegas", usual(Tcp::Vegas), ABOUT_TEN),
        ("TCP-AP as described", ratio(&described), ALMOST_HALF),
    ]
    .map(|(name, kept, [least, most])| {
        let what = format!("{name} keeps {least} to {most}: {kept}");
        Check::new(what, kept.within([least, most]))
    });
    let points = points(runs, SLOW, Routing::Aodv, GOODPUT);
    let cost = |tcp: Tcp| percent(1.0 - usual(tcp).mean);
    let measured = format!(
        "The slower uplink costs, over the three traffic cases that pass it: NewReno {}, Vegas {}, TCP-AP {} as its \
         agent for ns-2 has it and {} as the paper describes it.",
        cost(Tcp::NewReno),
        cost(Tcp::Vegas),
        cost(Tcp::AdaptivePacing),
        percent(1.0 - ratio(&described).mean)
    );
    let figure = figure(
        &points,
        "manet-51-uplink",
        "The same over a slow uplink",
        "Chain 5+1, AODV, uplink of 756 kbit/s and 25 ms",
    );
    Finding {
        figures: vec![figure],
        tables: vec![
            table(runs, FAST, Routing::Aodv, GOODPUT),
            table(runs, SLOW, Routing::Aodv, GOODPUT),
            described_table(runs),
        ],
        points,
        assumptions: [assumptions(), vec![DESCRIBED.to_owned()]].concat(),
        ..runs.finding(&checks, measured)
    }
}

/// Why TCP-AP is run in two ways.
const DESCRIBED: &str = "The paper explains what the slow uplink costs TCP-AP by the wire, which counts as a wireless hop. Its agent for \
     ns-2 counts hops by the radios that forwarded, not the wire, and takes a single hop's delay on paths of less than \
     four. Both are run; the claim is judged by what the paper describes: all hops count, the wire among them, and \
     the delay is that of all of them up to four.";

fn described_table(runs: &Runs<Trial>) -> Table {
    let columns = named([FAST, SLOW], Network::title);
    let rows = named(THROUGH, |traffic| traffic.title(FAST));
    let title = "TCP-AP that counts the wire and takes the delay of all hops, goodput";
    Table::new(title, ("traffic", columns), rows, |network, traffic| {
        runs.at(&described(network, traffic), GOODPUT)
    })
}

fn judge_hops(runs: &Runs<Trial>) -> Finding {
    let mut checks = Vec::new();
    let mut points = Vec::new();
    for tcp in PAPER_TCPS {
        let [through, inside] =
            [Traffic::One, Traffic::Inside].map(|traffic| Trial::new(FAST, traffic, tcp));
        let by_hops = [BY_HOPS[0], BY_HOPS[1], BY_HOPS[2]].map(|metric| runs.at(&through, metric));
        for (fewer, more) in [(0, 1), (1, 2)] {
            let what = format!("{}: {} hops give less than {}", tcp.title(), more + 1, fewer + 1);
            checks.push(Check::new(what, by_hops[more].below(&by_hops[fewer])));
        }
        let [through, inside] = [through, inside].map(|trial| runs.at(&trial, GOODPUT));
        let what = format!("{}: within the MANET there is less", tcp.title());
        checks.push(Check::new(what, inside.below(&through)));
        points.extend(
            by_hops
                .into_iter()
                .zip([1.0, 2.0, 3.0])
                .map(|(goodput, hops)| Point::new(tcp.line(), (hops, "hops"), (goodput, KBIT_S))),
        );
    }
    let one = |tcp: Tcp| {
        let at = |traffic| runs.at(&Trial::new(FAST, traffic, tcp), GOODPUT);
        let hops = BY_HOPS[..3].iter();
        let trial = Trial::new(FAST, Traffic::One, tcp);
        let by_hops: Vec<String> =
            hops.map(|metric| number(runs.at(&trial, metric).mean)).collect();
        format!(
            "{} {} {KBIT_S} over 1, 2, 3 hops; {} through the gateway, {} within",
            tcp.title(),
            by_hops.join(", "),
            number(at(Traffic::One).mean),
            number(at(Traffic::Inside).mean),
        )
    };
    let measured = format!("{}.", PAPER_TCPS.map(one).join("; "));
    let figure = Figure::of(&points, "manet-51-hops", "Goodput over the hops to the gateway")
        .under("Chain 5+1, one flow, AODV")
        .over(Axis::linear("Hops to the gateway", "").with_ticks([1.0, 2.0, 3.0]))
        .up(Axis::linear("Goodput", KBIT_S));
    let tables = vec![
        Table::of("Goodput over hops, kbit/s", &points),
        table(runs, FAST, Routing::Aodv, GOODPUT),
    ];
    Finding {
        figures: vec![figure],
        tables,
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn judge_flaps(runs: &Runs<Trial>) -> Finding {
    let changes = |tcp| runs.at(&Trial::new(FAST, Traffic::One, tcp), CHANGES);
    let within = |tcp: Tcp, [least, most]: [f64; 2]| {
        let what = format!("{} to {} under {}", number(least), number(most), tcp.title());
        Check::new(what, changes(tcp).within([least, most]))
    };
    let checks = [
        within(Tcp::Vegas, FEW_CHANGES),
        within(Tcp::AdaptivePacing, FEW_CHANGES),
        within(Tcp::NewReno, MANY_CHANGES),
        Check::new("fewer under Vegas", changes(Tcp::Vegas).below(&changes(Tcp::NewReno))),
    ];
    let told = PAPER_TCPS.map(|tcp| format!("{} {}", tcp.title(), mean(&changes(tcp))));
    let found = PAPER_TCPS.map(|tcp| {
        format!("{} {}", tcp.title(), mean(&runs.at(&Trial::new(FAST, Traffic::One, tcp), FOUND)))
    });
    let measured = format!(
        "Changes of the hop count from 20 to 100 s: {}; motion alone gives 7 after the first. Routes to the gateway \
         found: {}.",
        told.join(", "),
        found.join(", ")
    );
    let columns = [
        ("hop changes", CHANGES),
        ("routes found", FOUND),
        ("packets that radios gave up", GIVEN_UP),
        ("neighbours lost, packet by packet", BREAKS),
        ("timeouts", TIMEOUTS),
    ];
    let title = "Routes in the first 100 s, and losses in the whole run";
    let rows = named(PAPER_TCPS, Tcp::title);
    let table = Table::new(title, ("TCP", columns), rows, |metric, tcp| {
        runs.at(&Trial::new(FAST, Traffic::One, tcp), metric)
    });
    let points = PAPER_TCPS.into_iter().zip(1_u32..).map(|(tcp, number)| {
        Point::new(tcp.line(), (number.into(), "TCP"), (changes(tcp), "changes"))
    });
    Finding {
        points: points.collect(),
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(places: Vec<Trial>, value: impl Fn(&Trial) -> Vec<(Metric, f64)>) -> Runs<Trial> {
        Runs::made_up(places, 3, value)
    }

    #[test]
    fn vegas_must_be_above_both() {
        let verdict = |vegas: f64| {
            let runs = made_up(Trial::all(FAST), |trial| match trial.tcp {
                Tcp::Vegas => vec![(GOODPUT, vegas)],
                Tcp::AdaptivePacing => vec![(GOODPUT, 500.0)],
                _ => vec![(GOODPUT, 600.0)],
            });
            judge_vegas(&runs).verdict
        };

        assert_eq!(verdict(650.0), Verdict::Reproduced);
        assert_eq!(verdict(550.0), Verdict::Differs);
    }

    #[test]
    fn each_tcp_must_lose_its_part_and_flows_beside_the_uplink_do_not_count() {
        let verdict = |vegas: f64, described_: f64, inside: f64| {
            let places = [FAST, SLOW].into_iter().flat_map(|network| {
                let more = THROUGH.map(|traffic| described(network, traffic));
                Trial::all(network).into_iter().chain(more).collect::<Vec<_>>()
            });
            let runs = made_up(places.collect(), |trial| {
                let kept = match (trial.network, trial.traffic, trial.assumed, trial.tcp) {
                    (FAST, ..) => 1.0,
                    (_, Traffic::Inside, ..) => inside,
                    (_, _, Assumed::CountsWireAllHops, _) => described_,
                    (_, _, _, Tcp::Vegas) => vegas,
                    _ => 0.9,
                };
                vec![(GOODPUT, 600.0 * kept)]
            });
            judge_uplink(&runs).verdict
        };

        assert_eq!(verdict(0.9, 0.53, 1.0), Verdict::Reproduced);
        assert_eq!(verdict(0.9, 0.53, 0.1), Verdict::Reproduced);
        assert_eq!(verdict(0.78, 0.53, 1.0), Verdict::Differs);
        assert_eq!(verdict(0.9, 0.75, 1.0), Verdict::Differs);
    }

    #[test]
    fn goodput_must_fall_over_hops_and_within_the_manet() {
        let verdict = |second: f64, inside: f64| {
            let runs = made_up(Trial::all(FAST), |trial| {
                let goodput = if trial.traffic == Traffic::Inside { inside } else { 700.0 };
                vec![
                    (GOODPUT, goodput),
                    (BY_HOPS[0], 1_200.0),
                    (BY_HOPS[1], second),
                    (BY_HOPS[2], 400.0),
                ]
            });
            judge_hops(&runs).verdict
        };

        assert_eq!(verdict(600.0, 400.0), Verdict::Reproduced);
        assert_eq!(verdict(300.0, 400.0), Verdict::Differs);
        assert_eq!(verdict(600.0, 800.0), Verdict::Differs);
    }

    #[test]
    fn newreno_must_change_routes_more_often() {
        let verdict = |newreno: f64, vegas: f64| {
            let all = PAPER_TCPS.map(|tcp| Trial::new(FAST, Traffic::One, tcp));
            let runs = made_up(all.to_vec(), |trial| match trial.tcp {
                Tcp::NewReno => vec![(CHANGES, newreno)],
                Tcp::Vegas => vec![(CHANGES, vegas)],
                _ => vec![(CHANGES, 8.0)],
            });
            judge_flaps(&runs).verdict
        };

        assert_eq!(verdict(26.0, 8.0), Verdict::Reproduced);
        assert_eq!(verdict(8.0, 8.0), Verdict::Differs);
        assert_eq!(verdict(26.0, 20.0), Verdict::Differs);
    }
}
