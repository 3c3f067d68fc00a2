//! Delay over R, the retries of a hop.

use proto::hbh::{Config, Profile};

use super::chain::Chain;
use super::parameter::{Look, Sweep, figures};
use super::{GROUP, assumptions};
use crate::claim::{Cell, Claim, Finding, Results, Table, Verdict};
use crate::figure::{Axis, Ink};
use crate::words::{mean, percent};

/// Where the paper has the minimum.
const BEST: u16 = 4;
/// The most retries tried.
const MOST: u16 = 15;
const VALUES: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 8, 10, MOST];

const SWEEPS: [Sweep; 4] = [
    sweep("seed", "seed profile, 10 % loss", Ink::Other(0), |r| scenario(Profile::Paper, 0.10, r)),
    sweep("seed, 20 % loss", "seed profile, 20 % loss", Ink::Seed, |r| {
        scenario(Profile::Paper, 0.20, r)
    }),
    sweep("seed, 30 % loss", "seed profile, 30 % loss", Ink::Other(1), |r| {
        scenario(Profile::Paper, 0.30, r)
    }),
    sweep("default, 20 % loss", "default profile, 20 % loss", Ink::Default, |r| {
        scenario(Profile::Default, 0.20, r)
    }),
];

const fn sweep(
    series: &'static str,
    title: &'static str,
    ink: Ink,
    scenario: fn(u16) -> Chain,
) -> Sweep {
    Sweep { series, title, ink, values: VALUES, unit: "retries", scenario }
}

fn scenario(profile: Profile, loss: f64, retries: u16) -> Chain {
    let retries = u8::try_from(retries).unwrap_or(u8::MAX);
    Chain::common(loss, Some(Config { retries, ..Config::new(profile) }))
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-r",
        group: GROUP,
        text: "delay is least with R = 4 retries: fewer leave losses to TCP, more keep packets \
               beyond TCP's own timeout and make duplicate segments",
        source: "section IV, figure 4(c)",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    SWEEPS.iter().flat_map(Sweep::cells).collect()
}

fn judge(results: &Results) -> Finding {
    let seeds = &SWEEPS[..3];
    let is_longer =
        |s: &Sweep, r: u16, than: u16| s.delay(results, than).is_surely_below(&s.delay(results, r));
    let holds_for = |s: &Sweep| {
        is_longer(s, 1, BEST) && is_longer(s, MOST, BEST) && !is_longer(s, BEST, s.best(results))
    };
    let reproduced = seeds.iter().any(holds_for);
    let verdict = if reproduced { Verdict::Reproduced } else { Verdict::Differs };

    let describe = |s: &Sweep| {
        let best = s.best(results);
        format!(
            "{}: {} s with R = 4, least {} s with R = {best}, {} s with R = 0, {} s with R = 15",
            s.title,
            mean(&s.delay(results, BEST)),
            mean(&s.delay(results, best)),
            mean(&s.delay(results, 0)),
            mean(&s.delay(results, 15)),
        )
    };
    let points: Vec<_> = SWEEPS.iter().flat_map(|s| s.points(results)).collect();
    let runs = points.first().map_or(0, |point| point.y.runs);
    let places = |r: u16| {
        let places: Vec<&str> =
            seeds.iter().filter(|s| is_longer(s, r, BEST)).map(|s| s.title).collect();
        if places.is_empty() { "nowhere".to_owned() } else { places.join(", ") }
    };
    let residual = |loss: f64| percent(1.0 - (1.0 - f64::powi(loss, 5)).powi(4));
    Finding {
        verdict,
        measured: format!(
            "{}. {runs} runs.",
            SWEEPS.iter().map(describe).collect::<Vec<_>>().join("; ")
        ),
        reason: format!(
            "R = 1 takes longer than R = {BEST} beyond doubt ({}), and so does R = {MOST} ({}). With \
             R = {BEST} four hops still lose {} of the packets at 10 % loss, {} at 20 % and {} at \
             30 %; each costs TCP dearly",
            places(1),
            places(MOST),
            residual(0.10),
            residual(0.20),
            residual(0.30),
        ),
        figures: figures(
            &SWEEPS,
            &points,
            &Look {
                name: "hbh-r",
                title: "How often a hop should repeat a packet",
                subtitle: format!(
                    "100 kB over four hops, loss on every link each way, {runs} runs"
                ),
                x: Axis::linear("R, retries of a hop", "")
                    .with_ticks(VALUES.iter().copied().map(f64::from)),
                note: "The limit is that of 20 % loss.".to_owned(),
            },
        )
        .into_iter()
        .map(|mut figure| {
            figure.y.scale = crate::figure::Scale::Log;
            figure
        })
        .collect(),
        tables: vec![table(results)],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

fn table(results: &Results) -> Table {
    let mut head = vec!["R".to_owned()];
    head.extend(SWEEPS.map(|s| s.title.to_owned()));
    let row = |r: &u16| {
        let mut row = vec![r.to_string()];
        row.extend(SWEEPS.map(|s| mean(&s.delay(results, *r))));
        row
    };
    Table { title: "Delay in seconds".to_owned(), head, rows: VALUES.iter().map(row).collect() }
}
