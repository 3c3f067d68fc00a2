//! Delay and packets over a static retransmission timeout, against the dynamic one.

use std::time::Duration;

use proto::hbh::{Config, Profile, Rto};

use super::chain::Chain;
use super::parameter::{Look, Sweep, figures};
use super::{GROUP, assumptions};
use crate::claim::{Cell, Claim, Finding, Results, Verdict};
use crate::figure::{Axis, Ink};
use crate::words::{mean, number};

/// The loss of every link.
const LOSS: f64 = 0.10;
/// The round trip of one hop that the paper gives, in ms.
const ROUND_TRIP: u16 = 110;
/// Timeouts in ms.
const VALUES: &[u16] = &[60, 80, 100, 120, 150, 200, 300, 500, 1_000, 2_000];
/// What counts as a very high overhead.
const VERY_HIGH: f64 = 1.5;
/// How many round trips are far above one.
const FAR: u16 = 4;

const STATIC: Sweep = Sweep {
    series: "static",
    title: "seed profile, static RTO",
    ink: Ink::Other(0),
    values: VALUES,
    unit: "ms",
    scenario: |rto| {
        let rto = Rto::fixed(Duration::from_millis(u64::from(rto)));
        Chain::common(LOSS, Some(Config { rto, ..Config::new(Profile::Paper) }))
    },
};
/// The same at every value: lines to compare with.
const DYNAMIC: [Sweep; 2] = [
    Sweep {
        series: "seed",
        title: "seed profile, dynamic RTO",
        ink: Ink::Seed,
        scenario: |_| Chain::common(LOSS, Some(Config::new(Profile::Paper))),
        ..STATIC
    },
    Sweep {
        series: "default",
        title: "default profile",
        ink: Ink::Default,
        scenario: |_| Chain::common(LOSS, Some(Config::new(Profile::Default))),
        ..STATIC
    },
];

pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-rto",
        group: GROUP,
        text: "one hop takes about 110 ms there and back; a static timeout below that lowers the \
               delay at a very high overhead, one far above lowers the overhead at a poor delay; \
               the dynamic one is the compromise",
        source: "section IV, figure 4(f)",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    let dynamic = DYNAMIC.map(|sweep| (sweep.scenario)(0).cell());
    STATIC.cells().into_iter().chain(dynamic).collect()
}

fn judge(results: &Results) -> Finding {
    let seed = &DYNAMIC[0];
    let (delay, packets) = (seed.delay(results, 0), seed.packets(results, 0));
    let below: Vec<u16> = VALUES.iter().copied().filter(|rto| *rto < ROUND_TRIP).collect();
    let above: Vec<u16> = VALUES.iter().copied().filter(|rto| *rto > FAR * ROUND_TRIP).collect();

    let is_costly = |rto: &u16| STATIC.packets(results, *rto).mean > VERY_HIGH * packets.mean;
    let is_faster = |rto: &u16| STATIC.delay(results, *rto).is_surely_below(&delay);
    let is_cheaper = |rto: &u16| STATIC.packets(results, *rto).is_surely_below(&packets);
    let is_slower = |rto: &u16| delay.is_surely_below(&STATIC.delay(results, *rto));
    let costly = below.iter().any(is_costly);
    let faster = below.iter().any(is_faster);
    let cheaper = above.iter().all(is_cheaper);
    let slower = above.iter().any(is_slower);
    let describe = |rto: u16| {
        format!(
            "{rto} ms gives {} s and {} packets",
            mean(&STATIC.delay(results, rto)),
            number(STATIC.packets(results, rto).mean),
        )
    };
    let ours = &DYNAMIC[1];
    let distance = |rto: u16| (STATIC.delay(results, rto).mean.ln() - delay.mean.ln()).abs();
    let alike = VALUES.iter().copied().min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    let points: Vec<_> =
        std::iter::once(&STATIC).chain(&DYNAMIC).flat_map(|sweep| sweep.points(results)).collect();
    let verb = |yes: bool, what: &str| {
        if yes { what.to_owned() } else { format!("do not {what}") }
    };
    Finding {
        verdict: if costly && faster && cheaper && slower {
            Verdict::Reproduced
        } else {
            Verdict::Differs
        },
        measured: format!(
            "static {}; {}; {}; {}. Dynamic, seed profile: {} s and {} packets; default profile: \
             {} s and {} packets. {} runs.",
            describe(60),
            describe(120),
            describe(500),
            describe(2_000),
            mean(&delay),
            number(packets.mean),
            mean(&ours.delay(results, 0)),
            number(ours.packets(results, 0).mean),
            delay.runs,
        ),
        reason: format!(
            "timeouts below {ROUND_TRIP} ms {} and {}; those more than {FAR} times above {} than \
             the dynamic one, and {}. With the paper's constants the dynamic timeout delays like a \
             static one of {} ms, so little is left for a longer one to save",
            verb(faster, "lower the delay"),
            verb(costly, "cost many more packets"),
            verb(cheaper, "cost fewer packets"),
            verb(slower, "lengthen the delay"),
            alike.unwrap_or_default(),
        ),
        figures: figures(
            &[STATIC, DYNAMIC[0], DYNAMIC[1]],
            &points,
            &Look {
                name: "hbh-rto",
                title: "A static retransmission timeout against a dynamic one",
                subtitle: format!(
                    "100 kB over four hops, 10 % loss on every link each way, {} runs",
                    delay.runs
                ),
                x: Axis::log("Static timeout of a hop", "ms")
                    .with_ticks([60, 100, 200, 500, 1_000, 2_000].map(f64::from)),
                note: "One hop takes about 110 ms there and back. The dynamic timeouts do not \
                       depend on the axis."
                    .to_owned(),
            },
        ),
        tables: Vec::new(),
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}
