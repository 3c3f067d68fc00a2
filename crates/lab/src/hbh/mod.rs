//! The claims about HBH (Marques et al., "Transparent IP Proxy for Tactical Ad hoc Networks").
//!
//! Each file holds claims that look at the same runs. All run on the same [`chain`].

mod backpressure;
mod bursts;
mod chain;
mod everywhere;
mod fit;
mod goals;
pub mod limits;
mod parameter;
mod retries;
mod sweep;
mod timer;
mod variants;
mod window;

use proto::hbh::{Config, Profile};

use crate::claim::{Claim, Point};
use crate::figure::{Ink, Mark, Series};
use chain::Chain;

const GROUP: &str = "hbh";
const PERCENT: &str = "%";
const SECONDS: &str = "s";
const PACKETS: &str = "packets";

/// The claims, in the order of the paper.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = sweep::claims().to_vec();
    claims.extend([retries::claim(), window::claim(), timer::claim(), backpressure::claim()]);
    claims.extend([goals::claim(), bursts::claim()]);
    claims.push(everywhere::claim());
    claims
}

/// Who carries the packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Carrier {
    /// HBH, our profile.
    Default,
    /// HBH as the paper has it.
    Seed,
    /// Plain IP.
    Tcp,
}

impl Carrier {
    const ALL: [Self; 3] = [Self::Tcp, Self::Seed, Self::Default];

    /// What the series is called.
    fn series(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Seed => "seed",
            Self::Tcp => "tcp",
        }
    }

    /// What a figure calls it.
    fn title(self) -> &'static str {
        match self {
            Self::Default => "HBH, default profile",
            Self::Seed => "HBH, seed profile",
            Self::Tcp => "plain TCP",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::Default => Ink::Default,
            Self::Seed => Ink::Seed,
            Self::Tcp => Ink::Tcp,
        }
    }

    fn config(self) -> Option<Config> {
        match self {
            Self::Default => Some(Config::new(Profile::Default)),
            Self::Seed => Some(Config::new(Profile::Paper)),
            Self::Tcp => None,
        }
    }
}

/// A series of a figure from points of the same name.
fn curve(points: &[Point], series: &str, title: &str, ink: Ink) -> Series {
    let marks = points
        .iter()
        .filter(|point| point.series == series)
        .map(|point| Mark::measured(point.x, &point.y));
    Series { name: title.to_owned(), ink, marks: marks.collect() }
}

/// The physical limit where the points of `series` have one.
fn limit_curve(points: &[Point], series: &str) -> Series {
    let marks = points
        .iter()
        .filter(|point| point.series == series)
        .filter_map(|point| Some(Mark::exact(point.x, point.limit?)));
    Series { name: "physical limit".to_owned(), ink: Ink::Limit, marks: marks.collect() }
}

/// What links that repeat at once would give, where the points of `series` have it.
fn genie_curve(points: &[Point], series: &str) -> Series {
    let marks = points
        .iter()
        .filter(|point| point.series == series)
        .filter_map(|point| Some(Mark::measured(point.x, point.limit2.as_ref()?)));
    let name = "plain TCP, losses repeated at once".to_owned();
    Series { name, ink: Ink::Genie, marks: marks.collect() }
}

/// What was taken in the common scenario where the paper is silent.
fn assumptions() -> Vec<String> {
    let seed = Config::new(Profile::Paper);
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
            seed.window.1,
            seed.congestion,
            seed.queue,
            seed.rate_increase / 1000.0,
            seed.rate_decrease,
            seed.retries,
        ),
        "TCP is NewReno with segments of 536 octets, an initial window of 10 segments, delayed \
         acknowledgements (2 segments, 200 ms), a minimum RTO of 1 s, 3 s for the SYN, timestamps \
         and no SACK, in all else that of ns-3, the paper's simulator. It never gives up. The \
         ns-3 of 2012 had an initial window of 1 and a minimum RTO of 0.2 s."
            .to_owned(),
        format!("100 KB are 100,000 octets; queues hold {} packets.", common.queue),
    ]
}
