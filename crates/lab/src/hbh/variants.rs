//! How much the gain in delay depends on what the paper leaves open.

use std::time::Duration;

use super::chain::{self, Chain, Kind, Tcp, Traffic};
use super::{Carrier, PERCENT, SECONDS};
use crate::claim::{Cell, Point, Results, Table};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::stats::Estimate;
use crate::words::{mean, percent};

/// On the loss axis of the variant.
const LOSSES: [f64; 4] = [0.01, 0.05, 0.10, 0.20];

/// One other reading of the paper.
struct Variant {
    name: &'static str,
    change: fn(&mut Chain),
}

/// How many of them the figure shows.
const DRAWN: usize = 6;

const VARIANTS: [Variant; 9] = [
    Variant { name: "as taken", change: |_| {} },
    Variant { name: "3 hops", change: |chain| chain.hops = 3 },
    Variant { name: "loss forward only", change: |chain| chain.backward = 0.0 },
    Variant { name: "loss end to end", change: spread },
    Variant {
        name: "loss end to end, forward only",
        change: |chain| {
            spread(chain);
            chain.backward = 0.0;
        },
    },
    Variant { name: "TCP of 2012", change: tcp_of_2012 },
    Variant {
        name: "TCP of 2012, 3 hops, loss end to end, forward only",
        change: |chain| {
            chain.hops = 3;
            tcp_of_2012(chain);
            spread(chain);
            chain.backward = 0.0;
        },
    },
    Variant {
        name: "TCP of today, with SACK",
        change: |chain| {
            if let Traffic::Tcp(tcp) = &mut chain.traffic {
                tcp.kind = Kind::Current;
            }
        },
    },
    Variant {
        name: "W = 32",
        change: |chain| {
            if let Some(hbh) = &mut chain.hbh {
                hbh.window = (hbh.window.0.max(32), hbh.window.1.max(32));
            }
        },
    },
];

/// Takes the loss as that of the whole path, and gives every link its share.
fn spread(chain: &mut Chain) {
    let hops = chain.hops as f64;
    // Not the platform's own `pow`: the last bit would depend on the machine.
    let of_link = |path: f64| 1.0 - libm::pow(1.0 - path, 1.0 / hops);
    chain.forward = of_link(chain.forward);
    chain.backward = of_link(chain.backward);
}

fn tcp_of_2012(chain: &mut Chain) {
    if let Traffic::Tcp(tcp) = &mut chain.traffic {
        *tcp = Tcp { initial_window: 1, min_rto: Duration::from_millis(200), ..*tcp };
    }
}

impl Variant {
    fn scenario(&self, carrier: Carrier, loss: f64) -> Chain {
        let mut chain = Chain::common(loss, carrier.config());
        (self.change)(&mut chain);
        chain
    }

    /// How many times longer plain TCP takes; `None` when HBH does not end.
    fn gain(&self, results: &Results, carrier: Carrier, loss: f64) -> Option<Estimate> {
        let delay = |carrier| results.estimate(&self.scenario(carrier, loss).name(), chain::DELAY);
        delay(Carrier::Tcp).over(&delay(carrier))
    }

    fn series(&self, carrier: Carrier) -> String {
        format!("{}, {}", carrier.series(), self.name)
    }
}

pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for variant in &VARIANTS {
        for carrier in Carrier::ALL {
            cells.extend(LOSSES.map(|loss| variant.scenario(carrier, loss).cell()));
        }
    }
    cells
}

/// The delays of all readings but the one taken.
pub(super) fn points(results: &Results) -> Vec<Point> {
    let mut points = Vec::new();
    for variant in &VARIANTS[1..] {
        for carrier in Carrier::ALL {
            for loss in LOSSES {
                let chain = variant.scenario(carrier, loss);
                points.push(Point {
                    series: variant.series(carrier),
                    x: loss * 100.0,
                    x_unit: PERCENT,
                    y: results.estimate(&chain.name(), chain::DELAY),
                    y_unit: SECONDS,
                    limit: chain.delay_limit(),
                    sessions: None,
                    limit2: None,
                    cell: None,
                });
            }
        }
    }
    points
}

/// The gain of both profiles under every reading.
pub(super) fn table(results: &Results) -> Table {
    let gain = |variant: &Variant, carrier: Carrier, loss: f64| {
        let ratio = variant.gain(results, carrier, loss);
        ratio.map_or("HBH did not end".to_owned(), |ratio| mean(&ratio))
    };
    let row = |variant: &Variant, carrier: Carrier| {
        let mut row = vec![variant.name.to_owned(), carrier.series().to_owned()];
        row.extend(LOSSES.map(|loss| gain(variant, carrier, loss)));
        row
    };
    let mut head = vec!["What the paper leaves open".to_owned(), "profile".to_owned()];
    head.extend(LOSSES.map(percent));
    let rows = VARIANTS
        .iter()
        .flat_map(|variant| [Carrier::Seed, Carrier::Default].map(|c| row(variant, c)));
    Table {
        title: "Delay of plain TCP divided by that over HBH, by reading".to_owned(),
        head,
        rows: rows.collect(),
    }
}

/// The gain of the seed profile over loss, under the readings that matter most.
pub(super) fn figure(results: &Results, runs: u32) -> Figure {
    let curve = |(index, variant): (usize, &Variant)| {
        let mark = |loss: f64| {
            let gain = variant.gain(results, Carrier::Seed, loss)?;
            Some(Mark::measured(loss * 100.0, &gain))
        };
        Series {
            name: variant.name.to_owned(),
            ink: if index == 0 { Ink::Seed } else { Ink::Other(index - 1) },
            marks: LOSSES.into_iter().filter_map(mark).collect(),
        }
    };
    let claimed = Series {
        name: "claimed".to_owned(),
        ink: Ink::Goal,
        marks: LOSSES.map(|loss| Mark::exact(loss * 100.0, 2.0)).to_vec(),
    };
    let curves = VARIANTS[..DRAWN].iter().enumerate().map(curve);
    Figure {
        name: "hbh-delay-readings".to_owned(),
        title: "What HBH gains depends on how the paper is read".to_owned(),
        subtitle: format!("Delay of plain TCP divided by that over HBH, seed profile, {runs} runs"),
        x: Axis::linear("Loss, of every link or end to end", PERCENT)
            .with_ticks(LOSSES.map(|loss| loss * 100.0)),
        y: Axis::log("Times faster", ""),
        series: std::iter::once(claimed).chain(curves).collect(),
        note: String::new(),
    }
}

/// The readings under which the gain of the seed profile is in `range` from `from` loss on.
pub(super) fn readings(results: &Results, range: [f64; 2], from: f64) -> Vec<&'static str> {
    let [low, high] = range;
    let is_within = |variant: &Variant, loss: f64| {
        let gain = variant.gain(results, Carrier::Seed, loss);
        gain.is_some_and(|gain| gain.low() <= high && gain.high() >= low)
    };
    let losses = LOSSES.iter().copied().filter(|loss| *loss >= from);
    let holds = |variant: &&Variant| losses.clone().all(|loss| is_within(variant, loss));
    VARIANTS.iter().filter(holds).map(|variant| variant.name).collect()
}
