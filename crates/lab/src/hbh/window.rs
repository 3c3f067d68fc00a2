//! Delay and packets over W, the window of a hop.

use proto::hbh::{Config, Profile};

use super::chain::Chain;
use super::parameter::{Look, Sweep, figures};
use super::{GROUP, assumptions};
use crate::claim::{Cell, Claim, Finding, Results, Verdict};
use crate::figure::{Axis, Ink};
use crate::words::{mean, number};

const VALUES: &[u16] = &[1, 2, 4, 8, 16, 32, 64, 127];
/// How many times the least delay counts as wasted capacity.
const WASTEFUL: f64 = 1.25;

const SWEEPS: [Sweep; 3] = [
    sweep("seed, 5 % loss", "seed profile, 5 % loss", Ink::Other(0), |w| {
        scenario(Profile::Paper, 0.05, w)
    }),
    sweep("seed", "seed profile, 10 % loss", Ink::Seed, |w| scenario(Profile::Paper, 0.10, w)),
    sweep("default", "default profile, 10 % loss", Ink::Default, |w| {
        scenario(Profile::Default, 0.10, w)
    }),
];

const fn sweep(
    series: &'static str,
    title: &'static str,
    ink: Ink,
    scenario: fn(u16) -> Chain,
) -> Sweep {
    Sweep { series, title, ink, values: VALUES, unit: "packets", scenario }
}

fn scenario(profile: Profile, loss: f64, window: u16) -> Chain {
    let window = u8::try_from(window).unwrap_or(u8::MAX);
    Chain::common(loss, Some(Config { window: (window, window), ..Config::new(profile) }))
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-w",
        group: GROUP,
        text: "a small window W behaves like stop-and-wait and wastes capacity; W must allow \
               packets and repeats in parallel; too large a W delays requests for acknowledgement",
        source: "section IV, figures 4(d) and 4(e)",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    SWEEPS.iter().flat_map(Sweep::cells).collect()
}

fn judge(results: &Results) -> Finding {
    let seeds = &SWEEPS[..2];
    let slowdown =
        |s: &Sweep, w: u16| s.delay(results, w).mean / s.delay(results, s.best(results)).mean;
    let is_worse =
        |s: &Sweep, w: u16| s.delay(results, s.best(results)).is_surely_below(&s.delay(results, w));
    let small_wastes = seeds.iter().all(|s| is_worse(s, 1) && slowdown(s, 1) > WASTEFUL);
    let large_delays = seeds.iter().any(|s| is_worse(s, 127));
    let fewer_packets =
        seeds.iter().all(|s| s.packets(results, 127).mean < s.packets(results, 2).mean);
    let describe = |s: &Sweep| {
        let best = s.best(results);
        format!(
            "{}: least delay {} s with W = {best}; {} times that with W = 1, {} times with W = 127",
            s.title,
            mean(&s.delay(results, best)),
            number(slowdown(s, 1)),
            number(slowdown(s, 127)),
        )
    };
    let points: Vec<_> = SWEEPS.iter().flat_map(|s| s.points(results)).collect();
    let runs = points.first().map_or(0, |point| point.y.runs);
    Finding {
        verdict: if small_wastes && large_delays { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!(
            "{}. {runs} runs.",
            SWEEPS.iter().map(describe).collect::<Vec<_>>().join("; ")
        ),
        reason: format!(
            "W = 1 {} more than {WASTEFUL} times the least delay; W = 127 {} it beyond doubt; packets \
             {} from W = 2 to W = 127",
            if small_wastes { "takes" } else { "does not take" },
            if large_delays { "exceeds" } else { "does not exceed" },
            if fewer_packets { "fall" } else { "do not fall" },
        ),
        figures: figures(
            &SWEEPS,
            &points,
            &Look {
                name: "hbh-w",
                title: "How many packets a hop should have under way",
                subtitle: format!(
                    "100 kB over four hops, loss on every link each way, {runs} runs"
                ),
                x: Axis::log("W, packets sent and not acknowledged", "")
                    .with_ticks(VALUES.iter().copied().map(f64::from)),
                note: "The limit is that of 10 % loss.".to_owned(),
            },
        ),
        tables: Vec::new(),
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}
