//! The chain with a node that passes along it.

use super::trial::{Network, PAPER_TCPS, Routing, Tcp, Traffic, Trial, Uplink};
use super::{
    BY_HOPS, CHANGES, GOODPUT, GROUP, KBIT_S, assumptions, figure, goodput, points, table,
};
use crate::answer::Check;
use crate::claim::{Claim, Finding, Point, Table};
use crate::figure::{Axis, Figure};
use crate::grid::{Experiment, Runs};
use crate::words::{mean, number, percent};

const FAST: Network = Network::Chain51(Uplink::Fast);
const SLOW: Network = Network::Chain51(Uplink::Slow);
/// What the slow uplink may cost where the paper says "about 10 %" and "almost 50 %".
const ABOUT_TEN: [f64; 2] = [0.82, 0.98];
const ALMOST_HALF: [f64; 2] = [0.42, 0.65];
/// Hop counts that geometry alone allows in the first 100 s, and those of the paper.
const FEW_CHANGES: [f64; 2] = [6.0, 10.0];
const MANY_CHANGES: [f64; 2] = [18.0, 34.0];

pub(super) fn claims() -> [Claim; 4] {
    [
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
                Experiment::new([Trial::all(FAST), Trial::all(SLOW)].concat(), judge_uplink)
            },
        },
        Claim {
            id: "manet-51-hops",
            group: GROUP,
            text: "goodput falls as the number of hops grows; the flow within the MANET (up to 5 hops) does \
                   worse than the one through the gateway (up to 3)",
            source: "section III.B, figure 8",
            experiment: || Experiment::new(Trial::all(FAST), judge_hops),
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
    ]
}

fn judge_vegas(runs: &Runs<Trial>) -> Finding {
    let of = |tcp| goodput(runs, FAST, tcp, Routing::Aodv);
    let vegas = of(Tcp::Vegas);
    let checks = [Tcp::NewReno, Tcp::AdaptivePacing].map(|tcp| {
        let what = format!("Vegas is above {} on average", tcp.title());
        Check::new(what, of(tcp).below(&vegas))
    });
    let points = points(runs, FAST, Routing::Aodv, GOODPUT);
    let told = PAPER_TCPS.map(|tcp| format!("{} {} {KBIT_S}", tcp.title(), mean(&of(tcp))));
    let measured =
        format!("Mean over the four traffic cases: {}. {} runs.", told.join(", "), runs.count());
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
        ..Finding::of(&checks, measured)
    }
}

fn judge_uplink(runs: &Runs<Trial>) -> Finding {
    let ratio = |tcp| {
        let [slow, fast] = [SLOW, FAST].map(|network| goodput(runs, network, tcp, Routing::Aodv));
        slow.over(&fast)
    };
    let checks =
        [(Tcp::NewReno, ABOUT_TEN), (Tcp::Vegas, ABOUT_TEN), (Tcp::AdaptivePacing, ALMOST_HALF)]
            .map(|(tcp, [least, most])| {
                let what =
                    format!("{} keeps {least} to {most}: {}", tcp.title(), mean(&ratio(tcp)));
                Check::new(what, ratio(tcp).within([least, most]))
            });
    let points = points(runs, SLOW, Routing::Aodv, GOODPUT);
    let told = PAPER_TCPS.map(|tcp| format!("{} {}", tcp.title(), percent(1.0 - ratio(tcp).mean)));
    let measured = format!(
        "The slower uplink costs, over the four traffic cases: {}. {} runs.",
        told.join(", "),
        runs.count()
    );
    let figure = figure(
        &points,
        "manet-51-uplink",
        "The same over a slow uplink",
        "Chain 5+1, AODV, uplink of 756 kbit/s and 25 ms",
    );
    Finding {
        figures: vec![figure],
        tables: [FAST, SLOW].map(|network| table(runs, network, Routing::Aodv, GOODPUT)).to_vec(),
        points,
        assumptions: assumptions(),
        ..Finding::of(&checks, measured)
    }
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
    let measured = format!("{}. {} runs.", PAPER_TCPS.map(one).join("; "), runs.count());
    let figure = Figure::of(
        &points,
        Vec::new(),
        ["manet-51-hops", "Goodput over the hops to the gateway", "Chain 5+1, one flow, AODV"],
        [
            Axis::linear("Hops to the gateway", "").with_ticks([1.0, 2.0, 3.0]),
            Axis::linear("Goodput", KBIT_S),
        ],
    );
    let tables = vec![
        Table::of("Goodput over hops, kbit/s", &points),
        table(runs, FAST, Routing::Aodv, GOODPUT),
    ];
    Finding {
        figures: vec![figure],
        tables,
        points,
        assumptions: assumptions(),
        ..Finding::of(&checks, measured)
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
    let measured = format!(
        "Changes of the hop count from 20 to 100 s: {}; geometry alone gives 8. {} runs.",
        told.join(", "),
        runs.count()
    );
    let points = PAPER_TCPS.into_iter().zip(1_u32..).map(|(tcp, number)| {
        Point::new(tcp.line(), (number.into(), "TCP"), (changes(tcp), "changes"))
    });
    Finding {
        points: points.collect(),
        assumptions: assumptions(),
        ..Finding::of(&checks, measured)
    }
}
