//! The gain of HBH and of the coded tunnel where the paper's answer was "use Vegas".

use super::random::AREAS;
use super::trial::{Carrier, Network, Tcp, Traffic, Trial, Uplink};
use super::{GOODPUT, GROUP, KBIT_S, assumptions};
use crate::prelude::*;

const TCPS: [Tcp; 2] = [Tcp::NewReno, Tcp::Cubic];
const TRAFFICS: [Traffic; 2] = [Traffic::One, Traffic::Simultaneous];
const CARRIERS: [Carrier; 3] = [Carrier::Plain, Carrier::Hbh, Carrier::Tunnel];
/// The least ratio that counts as not worse.
const NOT_WORSE: f64 = 0.95;

pub const CLAIM: Claim = Claim {
    id: "manet-ours",
    group: GROUP,
    text: "carried by HBH or by the coded tunnel NewReno and CUBIC get no less than 0.95 of what they get over \
           plain IP, and of what Vegas gets there",
    source: "goals of this project",
    experiment: || Experiment::new(trials(), judge),
};

fn networks() -> [Network; 3] {
    [Network::Chain5, Network::Chain51(Uplink::Fast), AREAS[0]]
}

fn trials() -> Vec<Trial> {
    let mut all = Vec::new();
    for network in networks() {
        for traffic in TRAFFICS {
            all.push(Trial::new(network, traffic, Tcp::Vegas));
            for tcp in TCPS {
                all.extend(CARRIERS.map(|it| Trial::new(network, traffic, tcp).carried(it)));
            }
        }
    }
    all
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let at = |trial: Trial| runs.at(&trial, GOODPUT);
    let (mut checks, mut points, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut number = 0_u32;
    for network in networks() {
        for traffic in TRAFFICS {
            let vegas = at(Trial::new(network, traffic, Tcp::Vegas));
            for tcp in TCPS {
                number += 1;
                let plain = Trial::new(network, traffic, tcp);
                let place =
                    format!("{}, {}, {}", network.title(), traffic.title(network), tcp.title());
                let carried: Vec<Estimate> =
                    CARRIERS.iter().map(|carrier| at(plain.carried(*carrier))).collect();
                for (carrier, goodput) in CARRIERS.into_iter().zip(&carried).skip(1) {
                    let ratio = goodput.over(&carried[0]);
                    let what = format!("{}: {place}: {ratio} of plain", carrier.title());
                    checks.push(Check::new(what, ratio.at_least(NOT_WORSE)));
                    let ratio = goodput.over(&vegas);
                    let what = format!("{}: {place}: {ratio} of plain Vegas", carrier.title());
                    checks.push(Check::new(what, ratio.at_least(NOT_WORSE)));
                }
                points.extend(CARRIERS.into_iter().zip(&carried).map(|(carrier, goodput)| Point {
                    cell: Some(place.clone()),
                    ..Point::new(line(carrier), (number.into(), "case"), (*goodput, KBIT_S))
                }));
                rows.push([vec![place], carried.iter().map(mean).collect()].concat());
            }
        }
    }
    let head: Vec<String> = CARRIERS.iter().map(|carrier| carrier.title().to_owned()).collect();
    let table = Table::list(
        "Goodput of all flows together, kbit/s",
        [vec!["case".to_owned()], head].concat(),
        rows,
    );
    let measured = format!(
        "{} of {} comparisons hold.",
        checks.iter().filter(|check| check.answer == crate::answer::Answer::Yes).count(),
        checks.len()
    );
    Finding {
        points,
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

/// The curve of a carrier.
pub fn line(carrier: Carrier) -> Line {
    let (series, ink) = match carrier {
        Carrier::Plain => ("plain", Ink::Tcp),
        Carrier::Hbh => ("hbh", Ink::Default),
        Carrier::Tunnel => ("tunnel", Ink::Paper),
    };
    Line::new(series, carrier.title(), ink)
}
