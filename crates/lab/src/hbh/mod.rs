//! The claims about HBH (Marques et al., "Transparent IP Proxy for Tactical Ad hoc Networks").
//!
//! Each file holds claims that look at the same runs. All run on the same [`chain`].

mod backpressure;
mod bursts;
mod chain;
mod delay;
mod fit;
mod goals;
pub mod limits;
mod parameter;
mod retries;
mod timer;
mod trial;
mod usage;
mod window;

use crate::prelude::*;
use chain::Chain;
use hbh::{Config, Profile};

const GROUP: &str = "hbh";
const PERCENT: &str = "%";
const SECONDS: &str = "s";
const PACKETS: &str = "packets";

/// The claims, in the order of the paper.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let [usage, growth] = usage::CLAIMS;
    let [delay, lossless] = delay::CLAIMS;
    let [retries, window, timer] = [retries::CLAIM, window::CLAIM, timer::CLAIM];
    let (pressure, goals, bursts) = (backpressure::CLAIM, goals::CLAIM, bursts::CLAIM);
    vec![delay, usage, growth, lossless, retries, window, timer, pressure, goals, bursts]
}

/// Who carries the packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    /// Plain IP.
    Tcp,
    /// HBH as in the paper.
    Paper,
    /// HBH, our profile.
    Default,
}

impl Carrier {
    const ALL: [Self; 3] = [Self::Tcp, Self::Paper, Self::Default];

    /// What the series is called.
    fn series(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Paper => "paper",
            Self::Tcp => "tcp",
        }
    }

    /// What a figure calls it.
    fn title(self) -> &'static str {
        match self {
            Self::Default => "HBH, default profile",
            Self::Paper => "HBH, paper profile",
            Self::Tcp => "plain TCP",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::Default => Ink::Default,
            Self::Paper => Ink::Paper,
            Self::Tcp => Ink::Tcp,
        }
    }

    fn line(self) -> Line {
        Line::new(self.series(), self.title(), self.ink())
    }

    fn config(self) -> Option<Config> {
        match self {
            Self::Default => Some(Config::new(Profile::Default)),
            Self::Paper => Some(Config::new(Profile::Paper)),
            Self::Tcp => None,
        }
    }
}

/// Values at some losses, in words.
fn listed(losses: impl IntoIterator<Item = f64>, value: impl Fn(f64) -> Estimate) -> String {
    let one = |loss| format!("{} at {}", mean(&value(loss)), percent(loss));
    losses.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A figure over the loss, of points of the common scenario, with their limits.
fn figure(points: &[Point], name: &str, title: &str, y: Axis) -> Figure {
    let first = points.first().map(|point| point.line.clone());
    let of_first = points.iter().filter(|point| Some(&point.line) == first.as_ref());
    let genie = of_first.filter_map(|it| Some(Mark::measured(it.x, it.limit2.as_ref()?)));
    let genie = Series::new("plain TCP, losses repeated at once", Ink::Genie, genie);
    let limit = Series::limit(points, "physical limit", Ink::Limit, 1.0);
    let below = [limit].into_iter().chain(Some(genie).filter(|it| !it.marks.is_empty())).collect();
    let subtitle = "Chain of 5 nodes, links of 300 kbit/s and 50 ms";
    let x = Axis::linear("Loss of every link, each way", PERCENT);
    Figure::of(points, name, title).under(subtitle).over(x).up(y).above(below)
}

/// What delays are called on an axis.
const DELAY_AXIS: &str = "Delay from the first SYN to the last octet";
/// What packets are called there.
const PACKETS_AXIS: &str = "IP packets put on all links, acknowledgements included";

/// The largest ratio of our profile to the limit, and where, in words.
fn worst_ratio(points: &[Point]) -> String {
    let ours = points.iter().filter(|point| point.line.series == Carrier::Default.series());
    let ratios = ours.filter_map(|point| Some((point.y.mean / point.limit?, point.x / 100.0)));
    let worst = ratios.fold((0.0, 0.0), |worst, next| if next.0 > worst.0 { next } else { worst });
    format!("{} times the limit (at {})", crate::words::number(worst.0), percent(worst.1))
}

/// What was taken in the common scenario where the paper is silent.
fn assumptions() -> Vec<String> {
    let paper = Config::new(Profile::Paper);
    let common = Chain::common(0.0, None);
    vec![
        format!(
            "The text says four hops, the captions a four-node chain: {} hops are taken.",
            common.hops
        ),
        "Loss is taken per link and in both directions, each packet on its own.".to_owned(),
        format!(
            "W, s, L, p and q are not given: W = {}, s = {}, L = {} packets, p = {} kbit/s, \
             q = {} are taken, and R = {}, where the paper has its minimum.",
            paper.window.1,
            paper.congestion,
            paper.queue,
            paper.rate_increase / 1000.0,
            paper.rate_decrease,
            paper.retries,
        ),
        "TCP is NewReno with segments of 536 octets, an initial window of 10 segments, delayed \
         acknowledgements (2 segments, 200 ms), a minimum RTO of 1 s, 3 s for the SYN, timestamps \
         and no SACK, in all else that of ns-3, the paper's simulator. It never gives up. The \
         ns-3 of 2012 had an initial window of 1 and a minimum RTO of 0.2 s."
            .to_owned(),
        format!("100 KB are 100,000 octets; queues hold {} packets.", common.queue),
    ]
}
