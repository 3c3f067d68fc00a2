//! Messages of several segments, in a company's and a platoon's net.

use super::trial::{Carrier, Site, Trial};
use super::{DELAY, PERCENT, SECONDS, TOLD, assumptions, pair, rate_axis};
use crate::prelude::*;
use crate::tactical::GROUP;

/// Octets: one segment, three, five.
const OCTETS: [u16; 3] = [128, 1_000, 2_000];
/// Bits of messages each second, at which messages of all sizes are compared.
const BITS: [f64; 4] = [102.4, 204.8, 409.6, 819.2];
/// Messages an hour at which they are compared too.
const HOURLY: u16 = 360;
const CARRIERS: [Carrier; 3] = [Carrier::Seed, Carrier::Ours, Carrier::Tcp];
const SITES: [(Site, &str); 2] = [(Site::Net(16), "16 stations"), (Site::Net(5), "5 stations")];

pub const CLAIM: Claim = Claim {
    id: "tac-sar-large",
    group: GROUP,
    text: "for messages longer than a segment (3968 bits) the advantage of UDP with S/R widens; on a platoon's net the \
           conclusions are the same",
    source: "section 4.2",
    experiment: || Experiment::new(trials(), judge),
};

/// Messages of this size at this many bits a second.
fn at(carrier: Carrier, octets: u16, bits: f64, site: Site) -> Trial {
    let hourly = (bits * 3_600.0 / 8.0 / f64::from(octets)).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 3,600 messages an hour"
    )]
    Trial::new(carrier, hourly as u16).of(octets).at(site)
}

fn trials() -> Vec<Trial> {
    let mut all: Vec<Trial> = Vec::new();
    for (site, _) in SITES {
        for carrier in CARRIERS {
            for octets in OCTETS {
                let own = BITS.map(|bits| at(carrier, octets, bits, site));
                let same = Trial::new(carrier, HOURLY).of(octets).at(site);
                for trial in own.into_iter().chain([same]) {
                    if !all.contains(&trial) {
                        all.push(trial);
                    }
                }
            }
        }
    }
    all
}

/// What TCP has more than S/R.
fn gap(runs: &Runs<Trial>, of: impl Fn(Carrier) -> Trial, metric: Metric) -> Estimate {
    runs.at(&of(Carrier::Tcp), metric).minus(&runs.at(&of(Carrier::Seed), metric))
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let mut checks = Vec::new();
    let mut told = Vec::new();
    for (site, name) in SITES {
        for octets in [1_000, 2_000] {
            // At the same number of messages.
            let of = |octets| move |carrier| Trial::new(carrier, HOURLY).of(octets).at(site);
            let (short, long) = (gap(runs, of(128), DELAY), gap(runs, of(octets), DELAY));
            let what = format!(
                "{name}, {HOURLY} messages an hour: TCP takes {short} s longer with 128 octets, {long} s with {octets}"
            );
            checks.push(Check::new(what, short.below(&long)));
            for bits in BITS {
                let of = |carrier| at(carrier, octets, bits, site);
                let (sar, tcp) =
                    (runs.at(&of(Carrier::Seed), DELAY), runs.at(&of(Carrier::Tcp), DELAY));
                let what =
                    format!("{name}, {octets} octets, {bits:.0} bit/s: {} s", pair(&sar, &tcp));
                checks.push(Check::new(what, sar.below(&tcp)));
            }
        }
        let bits = BITS[3];
        let rows = OCTETS.map(|octets| {
            let of = |carrier| runs.at(&at(carrier, octets, bits, site), DELAY);
            format!("{octets} octets {} s", pair(&of(Carrier::Seed), &of(Carrier::Tcp)))
        });
        told.push(format!("{name}, {bits:.0} bit/s of messages: {}", rows.join(", ")));
    }
    let measured = format!("Delay over S/R and over TCP. {}.", told.join(". "));
    let mut tables = Vec::new();
    for (site, name) in SITES {
        for (metric, title) in [(DELAY, "Delay in seconds"), (TOLD, "Completed, in per cent")] {
            let columns = CARRIERS.map(|carrier| OCTETS.map(|octets| (carrier, octets))).concat();
            tables.push(Table::new(
                format!("{title}, {name}, by octets of a message"),
                ("rate", named(columns, |(it, octets)| format!("{}, {octets}", it.title()))),
                named(BITS, |bits| format!("{bits:.0} bit/s")),
                |(carrier, octets), bits| runs.at(&at(carrier, octets, bits, site), metric),
            ));
        }
    }
    let pairs =
        OCTETS.map(|octets| [(Carrier::Seed, "S/R", octets), (Carrier::Tcp, "TCP", octets)]);
    let line = |(carrier, name, octets): (Carrier, &str, u16)| {
        let place = OCTETS.iter().position(|it| *it == octets).unwrap_or_default();
        let ink = Ink::Other(2 * place + usize::from(carrier == Carrier::Tcp));
        let series = format!("{}-{octets}", name.to_lowercase());
        Line::new(series, format!("{name}, {octets} octets"), ink)
    };
    let sweep = Sweep::new(
        runs,
        (pairs.into_iter().flatten(), line),
        (BITS, f64::round, "bit/s"),
        |(carrier, _, octets), bits| at(carrier, octets, bits, Site::Net(16)),
    );
    let points = sweep.points(DELAY, SECONDS);
    let figure = Figure::of(&points, "tac-sar-large", "Messages of one segment, three and five")
        .under("16 stations on 16 kbit/s")
        .over(rate_axis())
        .up(Axis::log("Delay", SECONDS));
    let completed: Vec<Point> =
        runs.points(TOLD, PERCENT, |it| it.site == Site::Net(16) && it.octets == 2_000);
    Finding {
        figures: vec![figure],
        tables: tables
            .into_iter()
            .chain([Table::of("Completed with 2,000 octets, in per cent", &completed)])
            .collect(),
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advantage_must_widen_with_the_length() {
        let verdict = |by_octet: f64| {
            let runs = Runs::made_up(trials(), 3, |trial| {
                let late = match trial.carrier {
                    Carrier::Tcp => 5.0 + by_octet * f64::from(trial.octets),
                    _ => 0.0,
                };
                vec![(DELAY, 2.0 + late), (TOLD, 99.0)]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(0.01), Verdict::Reproduced);
        assert_eq!(verdict(-0.001), Verdict::Differs);
    }
}
