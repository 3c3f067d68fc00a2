//! Completion and delay over the input rate: the paper's figures 5 and 6.

use super::trial::{Carrier, Site, Trial};
use super::{
    BUSY, DELAY, NINE, PERCENT, SECONDS, SET_UP, TOLD, TOLD_AFTER, TRANSMISSIONS, assumptions,
    pair, rate_axis,
};
use crate::prelude::*;
use crate::tactical::{COMPLETION, GROUP};

/// Messages an hour, from light load to overload.
pub const HOURLY: [u16; 8] = [90, 180, 360, 540, 720, 900, 1_200, 1_800];
/// How many loads, from the first, count as light.
const LIGHT: usize = 2;
/// Points in per cent that light load may differ by.
const HARDLY: f64 = 2.0;
/// The carriers that the paper compares.
const COMPARED: [Carrier; 2] = [Carrier::Seed, Carrier::Tcp];
/// All that are drawn.
const DRAWN: [Carrier; 4] = [Carrier::Seed, Carrier::Ours, Carrier::Tcp, Carrier::Kept];

pub const CLAIMS: [Claim; 2] = [
    Claim {
        id: "tac-sar-completion",
        group: GROUP,
        text: "on a net of 16 stations and 16 kbit/s UDP with S/R completes more messages than TCP as traffic grows; at light \
               load they hardly differ",
        source: "section 4.2, figure 5",
        experiment: || Experiment::new(trials(), judge_completion),
    },
    Claim {
        id: "tac-sar-delay",
        group: GROUP,
        text: "its delay is lower, the more so with more traffic; the time in which TCP sets up a connection grows with load",
        source: "section 4.2, figure 6",
        experiment: || Experiment::new(trials(), judge_delay),
    },
];

/// All carriers at all rates; the paper's in a platoon's net too.
pub fn trials() -> Vec<Trial> {
    let all = DRAWN.into_iter().flat_map(|it| HOURLY.map(|hourly| Trial::new(it, hourly)));
    let platoon = COMPARED.into_iter().flat_map(|it| HOURLY.map(|hourly| platoon(it, hourly)));
    all.chain(platoon).collect()
}

/// A net of five stations.
fn platoon(carrier: Carrier, hourly: u16) -> Trial {
    Trial::new(carrier, hourly).at(Site::Net(5))
}

fn bits(hourly: u16) -> String {
    format!("{:.0} bit/s", Trial::new(Carrier::Seed, hourly).bits())
}

fn judge_completion(runs: &Runs<Trial>) -> Finding {
    let at = |carrier, hourly| runs.at(&Trial::new(carrier, hourly), TOLD);
    let gap = |hourly| at(Carrier::Seed, hourly).minus(&at(Carrier::Tcp, hourly));
    let mut checks: Vec<Check> = HOURLY[..LIGHT]
        .iter()
        .map(|hourly| {
            let gap = gap(*hourly);
            let what = format!("at {} they differ by {gap} points", bits(*hourly));
            Check::new(what, gap.within([-HARDLY, HARDLY]))
        })
        .collect();
    for hourly in &HOURLY[4..] {
        let (sar, tcp) = (at(Carrier::Seed, *hourly), at(Carrier::Tcp, *hourly));
        let what = format!("at {} {} % are completed", bits(*hourly), pair(&sar, &tcp));
        checks.push(Check::new(what, tcp.below(&sar)));
    }
    let (least, most) = (gap(HOURLY[3]), gap(HOURLY[6]));
    checks.push(Check::new("the gap grows with traffic", least.below(&most)));
    let last = HOURLY[7];
    let came = |carrier| mean(&runs.at(&Trial::new(carrier, last), COMPLETION));
    let measured = format!(
        "Completed by UDP with S/R and by TCP: {}. At {} {} % come at all over S/R, {} % over TCP.",
        HOURLY
            .map(|it| format!(
                "{} % at {}",
                pair(&at(Carrier::Seed, it), &at(Carrier::Tcp, it)),
                bits(it)
            ))
            .join("; "),
        bits(last),
        came(Carrier::Seed),
        came(Carrier::Tcp)
    );
    let is_company = |it: &Trial| it.site == Site::Net(16);
    let points = runs.points(TOLD, PERCENT, is_company);
    let came = runs.points(COMPLETION, PERCENT, is_company);
    let platoon = runs.points(TOLD, PERCENT, |it| !is_company(it));
    let busy = runs.points(BUSY, PERCENT, is_company);
    let sent = runs.points(TRANSMISSIONS, "a message", is_company);
    let figure = Figure::of(&points, "tac-sar-completion", "Messages that are completed")
        .under("128 octets, 16 stations on 16 kbit/s")
        .over(rate_axis())
        .up(Axis::linear("Completed", PERCENT));
    Finding {
        figures: vec![figure],
        tables: vec![
            Table::of("Came, and the sender was told, in per cent", &points),
            Table::of("Came, in per cent", &came),
            Table::of("Completed in a net of five stations, in per cent", &platoon),
            Table::of("Transmissions for each message", &sent),
            Table::of("Time for which the net was busy, in per cent", &busy),
        ],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn judge_delay(runs: &Runs<Trial>) -> Finding {
    let at = |carrier, hourly, metric| runs.at(&Trial::new(carrier, hourly), metric);
    let of = |carrier, hourly| at(carrier, hourly, DELAY);
    let mut checks: Vec<Check> = HOURLY
        .iter()
        .map(|hourly| {
            let (sar, tcp) = (of(Carrier::Seed, *hourly), of(Carrier::Tcp, *hourly));
            Check::new(format!("at {} {} s", bits(*hourly), pair(&sar, &tcp)), sar.below(&tcp))
        })
        .collect();
    let ratio = |hourly: u16| of(Carrier::Tcp, hourly).over(&of(Carrier::Seed, hourly));
    let (light, heavy) = (ratio(HOURLY[0]), ratio(HOURLY[6]));
    let what = format!("TCP takes {light} times as long at light load, {heavy} times at heavy");
    checks.push(Check::new(what, light.below(&heavy)));
    let set_up = |hourly| at(Carrier::Tcp, hourly, SET_UP);
    for pair in [HOURLY[0], HOURLY[2], HOURLY[4], HOURLY[6]].windows(2) {
        let (before, after) = (set_up(pair[0]), set_up(pair[1]));
        let what =
            format!("set-up takes {before} s at {}, {after} s at {}", bits(pair[0]), bits(pair[1]));
        checks.push(Check::new(what, before.below(&after)));
    }
    let measured = format!(
        "Delay over S/R and over TCP: {}.",
        HOURLY
            .map(|it| format!(
                "{} s at {}",
                pair(&of(Carrier::Seed, it), &of(Carrier::Tcp, it)),
                bits(it)
            ))
            .join("; ")
    );
    let is_company = |it: &Trial| it.site == Site::Net(16);
    let mut points = runs.points(DELAY, SECONDS, is_company);
    let tables = vec![
        Table::of("Delay of what came, in seconds", &points),
        Table::of(
            "Until nine of ten of all came, in seconds",
            &runs.points(NINE, SECONDS, is_company),
        ),
        Table::of(
            "Until the sender was told, in seconds",
            &runs.points(TOLD_AFTER, SECONDS, is_company),
        ),
        Table::of(
            "Delay in a net of five stations, in seconds",
            &runs.points(DELAY, SECONDS, |it| !is_company(it)),
        ),
    ];
    points.extend(HOURLY.map(|hourly| {
        let trial = Trial::new(Carrier::Tcp, hourly);
        let line = Line::new("tcp-set-up", "TCP: until a connection is set up", Ink::Limit);
        Point::new(line, trial.x(), (set_up(hourly), SECONDS))
    }));
    let figure = Figure::of(&points, "tac-sar-delay", "How long messages take")
        .under("128 octets, 16 stations on 16 kbit/s")
        .over(rate_axis())
        .up(Axis::log("Delay", SECONDS));
    Finding {
        figures: vec![figure],
        tables,
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP with this completion and delay at rates from 0 to 7, beside S/R with full completion within 2 s.
    fn runs(told: impl Fn(f64) -> f64, delay: impl Fn(f64) -> f64) -> Runs<Trial> {
        Runs::made_up(trials(), 3, |trial| {
            let place = HOURLY.iter().position(|it| *it == trial.hourly).unwrap_or(0) as f64;
            let (told, delay) = match trial.carrier {
                Carrier::Tcp => (told(place), delay(place)),
                _ => (100.0, 2.0),
            };
            vec![(TOLD, told), (COMPLETION, told), (DELAY, delay), (SET_UP, delay / 2.0)]
        })
    }

    #[test]
    fn the_gap_of_completion_must_open() {
        let verdict = |told: fn(f64) -> f64| judge_completion(&runs(told, |_| 5.0)).verdict;

        assert_eq!(
            verdict(|place| if place < 2.0 { 100.0 } else { 100.0 - 9.0 * place }),
            Verdict::Reproduced
        );
        assert_eq!(verdict(|_| 100.0), Verdict::Differs);
        assert_eq!(verdict(|_| 60.0), Verdict::Differs, "it is there at light load");
    }

    #[test]
    fn the_delay_must_be_lower_and_set_up_must_grow() {
        let verdict = |delay: fn(f64) -> f64| judge_delay(&runs(|_| 100.0, delay)).verdict;

        assert_eq!(verdict(|place| 5.0 + 9.0 * place), Verdict::Reproduced);
        assert_eq!(verdict(|_| 5.0), Verdict::Differs);
        assert_eq!(verdict(|place| 1.0 + 9.0 * place), Verdict::Differs);
    }
}
