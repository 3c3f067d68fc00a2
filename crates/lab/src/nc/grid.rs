//! Goodput on the paper's topology by loss, number of sessions and scheme: most claims are judged
//! by these runs.

use std::time::Duration;

use base::quantity::Probability;
use sim::channel::Loss;
use tcp::tcpnc;

use super::measure::{self, STEADY_SPAN, Span};
use super::network::{Carrier, Kind, Network, Traffic};
use super::{MBIT, PERCENT, Scheme, TUNNEL_RTO};
use crate::prelude::*;

/// The numbers of simultaneous sessions.
pub const SESSIONS: [u32; 4] = [1, 2, 3, 5];
/// The loss rates of the middle link in the direction of the data.
pub const LOSSES: [f64; 7] = [0.0, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30];
/// The loss rates at which different readings of the paper are compared.
pub const READ_LOSSES: [f64; 5] = [0.0, 0.10, 0.15, 0.20, 0.30];
/// The share of the limit that our tunnel must reach.
pub const GOAL: f64 = 0.95;
/// The most runs of a reading that decides no claim.
const READ_RUNS: u32 = 10;

/// Counts from the start, for about as long as the paper's transfers of 100 MB take here.
pub const PAPER_SPAN: Span = Span { warm_up: Duration::ZERO, window: Duration::from_secs(200) };

/// An interpretation of what the paper does not specify.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reading {
    /// Goodput counts for 20 s after a warm-up of 5 s: our tunnel is judged by this.
    Taken,
    /// Goodput counts from the start, for 200 s: the paper's schemes are judged by this.
    Paper,
    /// Like `Paper`, with window scaling and ns-3's buffers of 128 KiB at the hosts.
    Buffers,
    /// Like `Paper`, and TCP sees a duplicate acknowledgement for every redundant packet.
    Literal,
    /// Like `Paper`, with coding windows of up to 255 packets.
    LongWindow,
}

impl Reading {
    /// The readings that count from the start.
    pub const OF_PAPER: [Self; 4] = [Self::Paper, Self::Buffers, Self::Literal, Self::LongWindow];

    pub fn name(self) -> &'static str {
        match self {
            Self::Buffers => "from the start, 128 KiB at the hosts",
            Self::Literal => "from the start, redundancy acknowledged",
            Self::LongWindow => "from the start, n up to 255",
            Self::Paper => "from the start",
            Self::Taken => "20 s",
        }
    }
}

/// One place of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub reading: Reading,
    pub scheme: Scheme,
    pub sessions: u32,
    pub loss: f64,
}

impl Load {
    pub fn new(scheme: Scheme, sessions: u32, loss: f64) -> Self {
        Self { reading: Reading::Taken, scheme, sessions, loss }
    }

    /// The place with the paper's own reading.
    pub fn paper(scheme: Scheme, sessions: u32, loss: f64) -> Self {
        Self { reading: Reading::Paper, ..Self::new(scheme, sessions, loss) }
    }

    /// Every scheme at every loss, with these numbers of sessions.
    pub fn grid(sessions: &[u32]) -> Vec<Self> {
        let of = |n: u32| Scheme::ALL.map(|scheme| LOSSES.map(|loss| Self::new(scheme, n, loss)));
        sessions.iter().flat_map(|n| of(*n)).flatten().collect()
    }

    /// The grid with this number of sessions, and the paper's schemes under every reading.
    pub fn readings(sessions: u32) -> Vec<Self> {
        let mut all = Self::grid(&[sessions]);
        for scheme in Scheme::PAPER {
            all.extend(LOSSES.map(|loss| Self::paper(scheme, sessions, loss)));
            for reading in &Reading::OF_PAPER[1..] {
                all.extend(
                    READ_LOSSES.map(|loss| Self {
                        reading: *reading,
                        ..Self::new(scheme, sessions, loss)
                    }),
                );
            }
        }
        all
    }

    pub fn network(&self) -> Network {
        let mut network =
            Network::paper(self.sessions as usize, random(self.loss), self.scheme.carrier());
        let layer = tcpnc::Config::default();
        let layer = match self.reading {
            Reading::Taken | Reading::Paper => return network,
            Reading::Buffers => {
                network.traffic = Traffic::Tcp(Kind::SeedScaled);
                return network;
            }
            Reading::Literal => tcpnc::Config { acknowledges_redundancy: true, ..layer },
            Reading::LongWindow => tcpnc::Config { max_window: 255, ..layer },
        };
        network.carrier = match self.scheme {
            Scheme::TcpNc => Carrier::TcpNcWith(layer),
            Scheme::TcpNcTunnel => Carrier::TcpNcTunnelWith { min_rto: TUNNEL_RTO, layer },
            Scheme::Ours | Scheme::Tcp => network.carrier,
        };
        network
    }
}

impl Place for Load {
    fn cell(&self) -> Cell {
        match self.reading {
            Reading::Taken => self.network().cell(STEADY_SPAN),
            Reading::Paper => self.network().cell(PAPER_SPAN),
            Reading::Buffers | Reading::Literal | Reading::LongWindow => {
                self.network().cell(PAPER_SPAN).at_most(READ_RUNS)
            }
        }
    }
}

impl Drawn for Load {
    fn line(&self) -> Line {
        let line = self.scheme.line();
        match self.reading {
            Reading::Taken => line,
            reading => Line::new(
                format!("{}, {}", line.series, reading.name()),
                format!("{}, {}", line.title, reading.name()),
                line.ink,
            ),
        }
    }

    fn x(&self) -> (f64, &'static str) {
        (self.loss * 100.0, PERCENT)
    }

    fn limit(&self, _: Metric) -> Option<f64> {
        Some(self.network().links_limit() / 1e6)
    }

    fn sessions(&self) -> Option<u32> {
        Some(self.sessions)
    }
}

/// Independent losses with this probability.
pub fn random(loss: f64) -> Loss {
    Loss::random(Probability::new(loss).unwrap_or(Probability::ONE))
}

/// The mean goodput as a share of what the links allow.
pub fn ratio(runs: &Runs<Load>, load: &Load) -> Estimate {
    runs.at(load, measure::GOODPUT).times(1e6 / load.network().links_limit())
}

/// The goodputs; points of our tunnel also have the limit that its headers leave.
pub fn points(runs: &Runs<Load>) -> Vec<Point> {
    let of = |load: &Load| {
        let goodput = (runs.at(load, measure::GOODPUT), MBIT);
        let point = runs.point(load, measure::GOODPUT, goodput);
        let with_headers = Estimate::exact(load.network().limit() / 1e6);
        let limit2 = (load.scheme == Scheme::Ours).then_some(with_headers);
        Point { limit2, ..point }
    };
    runs.places().iter().map(of).collect()
}

/// Goodput over loss with this number of sessions: a plot of the paper's Figure 7.
pub fn figure(points: &[Point], name: &str, sessions: u32) -> Figure {
    let is_taken = |it: &&Point| {
        let names = Scheme::ALL.map(Scheme::series);
        it.sessions == Some(sessions) && names.contains(&it.line.series.as_str())
    };
    let points: Vec<Point> = points.iter().filter(is_taken).cloned().collect();
    let ours = points.iter().filter_map(|it| Some((it.x, it.limit2?.mean)));
    let below = vec![
        Series::limit(&points, "limit of the links", Ink::Limit, 1.0),
        Series::new(
            "0.95 of the limit with our headers",
            Ink::Goal,
            ours.map(|(x, limit)| Mark::exact(x, limit * GOAL)),
        ),
    ];
    let title = match sessions {
        1 => "Goodput of one session over a lossy link".to_owned(),
        _ => format!("Goodput of each of {sessions} sessions over a lossy link"),
    };
    let x = Axis::linear("Loss of the middle link", PERCENT);
    Figure::of(&points, name, &title)
        .under(TOPOLOGY)
        .over(x)
        .up(Axis::linear(GOODPUT_AXIS, MBIT))
        .above(below)
}

/// The subtitle of figures about the paper's topology.
pub const TOPOLOGY: &str = "Edges of 1 Mbit/s and 1 ms, a lossy middle of 4 Mbit/s and 7 ms";
/// The axis label of goodput.
pub const GOODPUT_AXIS: &str = "Goodput of a session";

/// A table with a row for each number of sessions and scheme, and a column for each loss.
pub fn table(
    title: &str,
    sessions: &[u32],
    schemes: &[Scheme],
    value: impl Fn(&Load) -> Estimate,
) -> Table {
    let loads = sessions.iter().flat_map(|n| schemes.iter().map(move |it| Load::new(*it, *n, 0.0)));
    let rows = named(loads, |load| format!("{}, {}", load.sessions, load.scheme.series()));
    Table::new(title, ("Sessions, series", named(LOSSES, percent)), rows, |loss, load| {
        share(&value(&Load { loss, ..load }))
    })
}

/// A share near 1, written with enough digits to tell it from 1.
pub fn share(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(half) => format!("{:.3} ± {half:.3}", estimate.mean),
        None => mean(estimate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change here changes every figure of the group.
    #[test]
    fn seeds_are_those_of_the_published_figures() {
        let all = Scheme::ALL.map(|scheme| Load::new(scheme, 1, 0.1).cell().seed(0, 0));

        assert_eq!(
            all,
            [742154588098040030, 14522053593754527876, 12204105966489930000, 12797796218804551691]
        );
    }
}
