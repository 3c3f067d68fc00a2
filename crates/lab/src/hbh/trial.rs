//! A transfer over the chain, the subject of most claims: a reading of the paper, links, a carrier and a loss rate.

use std::time::Duration;

use super::chain::{self, Air, Chain, Kind, Tcp, Traffic};
use super::{Carrier, PERCENT};
use crate::prelude::*;

/// Loss of every link, each way.
pub const LOSSES: [f64; 9] = [0.0, 0.01, 0.02, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30];

/// A place of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    pub reading: &'static Reading,
    pub air: Air,
    pub carrier: Carrier,
    pub loss: f64,
}

/// How the paper is read where it leaves something open.
#[derive(Debug)]
pub struct Reading {
    pub name: &'static str,
    change: fn(&mut Chain),
}

impl PartialEq for Reading {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All readings, the one that is taken first.
pub static READINGS: [Reading; 9] = [
    Reading { name: "as taken", change: |_| {} },
    Reading { name: "3 hops", change: |chain| chain.hops = 3 },
    Reading { name: "loss forward only", change: |chain| chain.backward = 0.0 },
    Reading { name: "loss end to end", change: spread },
    Reading {
        name: "loss end to end, forward only",
        change: |chain| {
            spread(chain);
            chain.backward = 0.0;
        },
    },
    Reading { name: "TCP of 2012", change: tcp_of_2012 },
    Reading {
        name: "TCP of 2012, 3 hops, loss end to end, forward only",
        change: |chain| {
            chain.hops = 3;
            tcp_of_2012(chain);
            spread(chain);
            chain.backward = 0.0;
        },
    },
    Reading {
        name: "TCP of today, with SACK",
        change: |chain| {
            if let Traffic::Tcp(tcp) = &mut chain.traffic {
                tcp.kind = Kind::Current;
            }
        },
    },
    Reading {
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

impl Trial {
    /// In the common scenario.
    pub fn new(carrier: Carrier, loss: f64) -> Self {
        Self { reading: &READINGS[0], air: Air::Independent, carrier, loss }
    }

    /// Plain TCP over links that repeat every loss at once.
    pub fn genie(loss: f64) -> Self {
        Self { air: Air::Genie, ..Self::new(Carrier::Tcp, loss) }
    }

    /// These carriers at every loss, in the common scenario.
    pub fn sweep(carriers: &[Carrier]) -> Vec<Self> {
        let of = |carrier: &Carrier| LOSSES.map(|loss| Self::new(*carrier, loss));
        carriers.iter().flat_map(of).collect()
    }

    /// Whether the trial belongs to the common scenario.
    pub fn is_common(&self) -> bool {
        *self == Self::new(self.carrier, self.loss)
    }

    pub fn chain(&self) -> Chain {
        let mut chain = Chain::common(self.loss, self.carrier.config());
        (self.reading.change)(&mut chain);
        chain
    }
}

impl Place for Trial {
    fn cell(&self) -> Cell {
        self.chain().cell_over(self.air)
    }
}

impl Drawn for Trial {
    fn line(&self) -> Line {
        let (carrier, index) = (self.carrier, READINGS.iter().position(|it| it == self.reading));
        let named = |suffix: &str, ink| {
            let [series, title] =
                [carrier.series(), carrier.title()].map(|it| format!("{it}, {suffix}"));
            Line::new(series, title, ink)
        };
        match (self.air, index) {
            (Air::Bursts(_), _) => named("bursts", Ink::Other(carrier as usize)),
            (_, Some(0)) => carrier.line(),
            (_, index) => named(self.reading.name, Ink::Other(index.unwrap_or_default())),
        }
    }

    fn x(&self) -> (f64, &'static str) {
        (self.loss * 100.0, PERCENT)
    }

    fn limit(&self, metric: Metric) -> Option<f64> {
        match metric {
            chain::DELAY => self.chain().delay_limit(),
            chain::PACKETS => self.chain().packets_limit(),
            _ => None,
        }
    }
}

/// The means of the common scenario, with the measured bound of links that repeat at once where known.
pub fn points(runs: &Runs<Trial>, metric: Metric, unit: &'static str) -> Vec<Point> {
    let mut points = runs.points(metric, unit, Trial::is_common);
    for point in points.iter_mut().filter(|_| metric == chain::DELAY) {
        let genie = Trial::genie(point.x / 100.0);
        let genie = runs.places().iter().find(|it| it.air == genie.air && it.x().0 == point.x);
        point.limit2 = genie.map(|genie| runs.at(genie, metric));
    }
    points
}

/// The mean in the common scenario.
pub fn at(runs: &Runs<Trial>, carrier: Carrier, loss: f64, metric: Metric) -> Estimate {
    runs.at(&Trial::new(carrier, loss), metric)
}
