//! Where packets are dropped when a link inside the network is too slow.

use std::time::Duration;

use super::chain::{self, Chain, Tcp, Traffic};
use super::{Carrier, GROUP, curve};
use crate::claim::{Cell, Claim, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;
use crate::words::{mean, number, percent};

/// Rates of the link in the middle, in kbit/s; the others have 300.
const RATES: [u16; 5] = [30, 60, 100, 150, 220];
/// Octets of the TCP transfer: enough to fill every queue.
const OCTETS: u32 = 500_000;
/// The stream: 240 kbit/s of payload.
const STREAM: Traffic =
    Traffic::Udp { bits_per_s: 240_000, payload: 500, span: Duration::from_secs(60) };
/// Up to this share of packets, losses are "near zero".
const NEAR_ZERO: f64 = 0.005;

/// What crosses the bottleneck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    Datagrams,
    Transfer,
}

impl Load {
    fn traffic(self) -> Traffic {
        match self {
            Self::Datagrams => STREAM,
            Self::Transfer => Traffic::Tcp(Tcp { octets: OCTETS, ..Tcp::default() }),
        }
    }

    fn series(self, carrier: Carrier) -> &'static str {
        match (self, carrier) {
            (Self::Transfer, _) => carrier.series(),
            (Self::Datagrams, Carrier::Default) => "default, udp",
            (Self::Datagrams, Carrier::Seed) => "seed, udp",
            (Self::Datagrams, Carrier::Tcp) => "udp",
        }
    }

    fn title(self, carrier: Carrier) -> &'static str {
        match (self, carrier) {
            (Self::Transfer, _) => carrier.title(),
            (Self::Datagrams, Carrier::Default) => "HBH, default profile, UDP",
            (Self::Datagrams, Carrier::Seed) => "HBH, seed profile, UDP",
            (Self::Datagrams, Carrier::Tcp) => "plain UDP",
        }
    }
}

const LOADS: [Load; 2] = [Load::Transfer, Load::Datagrams];

pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-backpressure",
        group: GROUP,
        text: "congestion inside the network is pushed back to its edge: with a bottleneck in the \
               middle of the chain, losses inside the network fall to (nearly) nothing",
        source: "sections II.B and III.B",
        cells,
        judge,
    }
}

fn scenario(load: Load, carrier: Carrier, rate: u16) -> Chain {
    Chain {
        bottleneck: Some(u64::from(rate) * 1_000),
        traffic: load.traffic(),
        ..Chain::common(0.0, carrier.config())
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for load in LOADS {
        for carrier in Carrier::ALL {
            cells.extend(RATES.map(|rate| scenario(load, carrier, rate).cell()));
        }
    }
    cells
}

/// Packets dropped, as a share of those that the source sent.
fn share(
    results: &Results,
    load: Load,
    carrier: Carrier,
    rate: u16,
    metric: &'static str,
) -> Estimate {
    let name = scenario(load, carrier, rate).name();
    let offered = results.estimate(&name, chain::OFFERED).mean;
    results.estimate(&name, metric).times(1.0 / offered.max(1.0))
}

fn points(results: &Results) -> Vec<Point> {
    let mut points = Vec::new();
    for load in LOADS {
        for carrier in Carrier::ALL {
            for rate in RATES {
                let inside = share(results, load, carrier, rate, chain::DROPPED_INSIDE);
                points.push(Point {
                    series: load.series(carrier).to_owned(),
                    x: f64::from(rate),
                    x_unit: "kbit/s",
                    y: inside.times(100.0),
                    y_unit: "% dropped inside",
                    limit: Some(0.0),
                    sessions: None,
                    limit2: None,
                    cell: None,
                });
            }
        }
    }
    points
}

fn judge(results: &Results) -> Finding {
    let points = points(results);
    let inside = |load, carrier| {
        RATES.map(|rate| share(results, load, carrier, rate, chain::DROPPED_INSIDE).mean)
    };
    let most = |load, carrier| inside(load, carrier).into_iter().fold(0.0, f64::max);
    let is_near_zero = |carrier| LOADS.iter().all(|load| most(*load, carrier) <= NEAR_ZERO);
    let plain_drops = LOADS.iter().any(|load| most(*load, Carrier::Tcp) > NEAR_ZERO);
    let verdict = match (plain_drops, is_near_zero(Carrier::Seed), is_near_zero(Carrier::Default)) {
        (true, true, _) => Verdict::Reproduced,
        (true, false, true) => Verdict::Beaten,
        _ => Verdict::Differs,
    };
    let listed = |carrier| {
        format!(
            "{} of TCP's and {} of UDP's packets",
            percent(most(Load::Transfer, carrier)),
            percent(most(Load::Datagrams, carrier)),
        )
    };
    let runs = points.first().map_or(0, |point| point.y.runs);
    Finding {
        verdict,
        measured: format!(
            "dropped inside the network at the worst bottleneck: {} without HBH, {} with the seed \
             profile, {} with the default profile. {runs} runs.",
            listed(Carrier::Tcp),
            listed(Carrier::Seed),
            listed(Carrier::Default),
        ),
        reason: match verdict {
            Verdict::Reproduced => format!("the seed profile stays below {}", percent(NEAR_ZERO)),
            Verdict::Beaten => format!(
                "the default profile stays below {}, the seed profile does not",
                percent(NEAR_ZERO)
            ),
            Verdict::Differs => format!("losses inside exceed {}", percent(NEAR_ZERO)),
        },
        figures: vec![
            figure(&points, Load::Datagrams, runs),
            figure(&points, Load::Transfer, runs),
        ],
        tables: vec![table(results)],
        points,
        exchanges: Vec::new(),
        assumptions: vec![
            "The paper has no figure of this. The chain of the other claims is taken, without loss \
             and with a slower link after the middle; nothing in it is random, so all runs agree."
                .to_owned(),
            format!(
                "The load is a TCP transfer of {OCTETS} octets, or a stream of 240 kbit/s for 60 s."
            ),
            "Dropped inside are packets that a full queue refuses after the first hop, and those \
             that HBH gives up after R retries or discards because they waited too long."
                .to_owned(),
            "s = 20, L = 50 packets, p = 10 kbit/s and q = 0.5 are taken."
                .to_owned(),
        ],
    }
}

fn figure(points: &[Point], load: Load, runs: u32) -> Figure {
    let ink = |carrier: Carrier| if carrier == Carrier::Tcp { Ink::Tcp } else { carrier.ink() };
    let (name, what) = match load {
        Load::Datagrams => ("hbh-backpressure-udp", "a stream of 240 kbit/s"),
        Load::Transfer => ("hbh-backpressure", "a TCP transfer of 500 kB"),
    };
    Figure {
        name: name.to_owned(),
        title: "Packets dropped inside the network".to_owned(),
        subtitle: format!(
            "Chain of 5 nodes, 300 kbit/s, 50 ms, no loss, one slow link, {what}, {runs} runs"
        ),
        x: Axis::linear("Rate of the slow link", "kbit/s"),
        y: Axis::linear("Dropped after the first hop, share of packets sent", "%"),
        series: Carrier::ALL.map(|c| curve(points, load.series(c), load.title(c), ink(c))).to_vec(),
        note: "Packets dropped where they enter the network are not counted: that is where \
               back-pressure puts them."
            .to_owned(),
    }
}

fn table(results: &Results) -> Table {
    let mut rows = Vec::new();
    for load in LOADS {
        for carrier in Carrier::ALL {
            for rate in RATES {
                let name = scenario(load, carrier, rate).name();
                let count = |metric| mean(&results.estimate(&name, metric));
                rows.push(vec![
                    load.title(carrier).to_owned(),
                    number(f64::from(rate)),
                    count(chain::OFFERED),
                    count(chain::DROPPED_AT_EDGE),
                    count(chain::DROPPED_INSIDE),
                ]);
            }
        }
    }
    Table {
        title: "Packets, by bottleneck".to_owned(),
        head: ["", "kbit/s", "sent", "dropped at the edge", "dropped inside"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
}
