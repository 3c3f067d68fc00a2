//! Judges the breaks of transfers together.

use super::{Fault, LINKS, LOST, Moment, OUTAGES, RESUMED, SPEED, Survival, WHOLE, Way};
use crate::hf::compare;
use crate::hf::transfer::seconds;
use crate::prelude::*;

/// The longest pause of a node before it calls a lost station again, including the call.
const LONGEST_PAUSE: f64 = 310.0;

pub fn judge(runs: &Runs<Survival>) -> Finding {
    let by_pep = runs.places().iter().filter(|it| it.is_pep);
    let at = |place: &Survival, metric| runs.at(place, metric);
    let outages: Vec<Survival> =
        by_pep.clone().filter(|it| is_outage_of_a_link(it)).copied().collect();
    let all = |places: &[Survival], is_so: &dyn Fn(&Survival) -> Answer| {
        Answer::all(places.iter().map(is_so))
    };
    let places: Vec<Survival> = by_pep.copied().collect();
    let worst = |metric| {
        let means = places.iter().map(|place| at(place, metric).mean);
        means.fold(f64::MIN, f64::max)
    };
    let checks = [
        Check::new(
            format!("each octet of {} transfers arrives once and in order", places.len()),
            all(&places, &|place| at(place, WHOLE).at_least(1.0)),
        ),
        Check::new(
            format!(
                "in each of {} outages the link that was up is lost and made again",
                outages.len()
            ),
            all(&outages, &|place| at(place, LINKS).at_least(1.0)),
        ),
        Check::new(
            format!(
                "octets arrive at a host again at most {:.0} s after the break, of {LONGEST_PAUSE:.0} s",
                worst(RESUMED)
            ),
            all(&places, &|place| at(place, RESUMED).at_most(LONGEST_PAUSE)),
        ),
    ];
    let measured = format!(
        "{} breaks; octets arrive again {:.0} s after their end at most, {:.0} s are lost at most.",
        places.len(),
        worst(RESUMED),
        worst(LOST)
    );
    let points: Vec<Point> = runs.places().iter().flat_map(|place| points(runs, place)).collect();
    Finding {
        figures: vec![figure(&points)],
        tables: vec![table(runs)],
        exchanges: vec![shown().exchange(runs.first_seed(&shown()))],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

/// Whether a link was there when all fell silent: a call has none yet, and after all data a link may be
/// idle.
fn is_outage_of_a_link(place: &Survival) -> bool {
    matches!(place.fault, Fault::Outage(_)) && place.moment == Moment::Middle
}

/// The break that is shown as a timeline.
fn shown() -> Survival {
    let fault = Fault::Outage(OUTAGES[0]);
    Survival { is_pep: true, way: Way::Away, fault, moment: Moment::Middle }
}

fn assumptions() -> Vec<String> {
    let mut all = crate::hf::transfer_assumptions();
    all.push(format!(
        "200 kB each way at {SPEED} bit/s over a clear link that breaks once: neither station hears the \
         other for a while, or one node is started anew, with the stations' other programs going on. The \
         break begins at a share of the time that the transfer takes without it."
    ));
    all
}

fn points(runs: &Runs<Survival>, place: &Survival) -> [Point; 4] {
    let (series, ink) =
        if place.is_pep { ("hf-pep", Ink::Default) } else { ("ip-client", Ink::Tcp) };
    let title = if place.is_pep { "over HF-PEP" } else { "TCP over IP Client" };
    let x = (place.fault.length().as_secs_f64(), "s");
    [WHOLE, LINKS, RESUMED, LOST].map(|metric| {
        let line = Line::new(format!("{series}, {}", way(place.way)), title, ink);
        let point = Point::new(line, x, (runs.at(place, metric), metric));
        Point { cell: Some(told(place).join(", ")), ..point }
    })
}

fn way(way: Way) -> &'static str {
    match way {
        Way::Away => "away",
        Way::Back => "back",
        Way::Both => "both at once",
    }
}

/// Describes the transfer and its break.
fn told(place: &Survival) -> [String; 3] {
    let moment = match place.moment {
        Moment::Call => "call",
        Moment::Middle => "middle",
        Moment::Confirmation => "confirmation",
    };
    let fault = match place.fault {
        Fault::Outage(length) => format!("{} of silence", compare::seconds(length)),
        Fault::Restart(station) if station == crate::hf::talk::STATIONS[0] => {
            "near node restarts".to_owned()
        }
        Fault::Restart(_) => "far node restarts".to_owned(),
    };
    [way(place.way).to_owned(), moment.to_owned(), fault]
}

fn table(runs: &Runs<Survival>) -> Table {
    let of = |place: &Survival| {
        let whole = runs.at(place, WHOLE);
        let whole = if whole.mean >= 1.0 { "yes" } else { "no" };
        [whole.to_owned(), time(&runs.at(place, RESUMED)), time(&runs.at(place, LOST))]
    };
    let rows = runs.places().iter().filter(|place| place.is_pep).map(|place| {
        let other = Survival { is_pep: false, ..*place };
        told(place).into_iter().chain(of(place)).chain(of(&other)).collect()
    });
    let head = [
        "data",
        "break in the",
        "break",
        "HF-PEP: whole",
        "again after, s",
        "lost, s",
        "IP Client: whole",
        "again after, s",
        "lost, s",
    ];
    Table::list(format!("Breaks of a link at {SPEED} bit/s"), head, rows)
}

fn time(estimate: &Estimate) -> String {
    if estimate.censored > 0 { "never".to_owned() } else { seconds(estimate) }
}

fn figure(points: &[Point]) -> Figure {
    let is_drawn = |point: &&Point| {
        let of_middle = point.cell.as_ref().is_some_and(|cell| cell.contains("middle"));
        point.y_unit == LOST && point.x > 0.0 && of_middle && !point.line.series.contains("both")
    };
    let drawn: Vec<Point> = points.iter().filter(is_drawn).cloned().collect();
    Figure::of(&drawn, "hf-survive", "Seconds lost beyond an outage in the middle of 200 kB")
        .under("9600 bit/s, data away from the host that connects and back to it")
        .over(Axis::log("Length of the outage, s", ""))
        .up(Axis::linear("Seconds lost beyond it", ""))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};
    use crate::hf::survive::survivals;

    /// The verdict if one transfer is so, and all others are as they should be.
    fn verdict(runs: u32, whole: f64, links: f64, resumed: f64) -> Verdict {
        let odd = shown();
        judge(&Runs::made_up(survivals(), runs, |place| {
            let of = |value, usual| if *place == odd { value } else { usual };
            vec![
                (WHOLE, of(whole, 1.0)),
                (LINKS, of(links, 1.0)),
                (RESUMED, of(resumed, 20.0)),
                (LOST, 30.0),
            ]
        }))
        .verdict
    }

    #[test]
    fn each_transfer_has_to_arrive_whole_over_a_link_that_was_lost() {
        assert_eq!(verdict(2, 1.0, 1.0, 60.0), Reproduced);
        assert_eq!(verdict(2, 0.0, 1.0, 60.0), Differs, "octets are missing");
        assert_eq!(verdict(2, 1.0, 0.0, 60.0), Differs, "the link was never lost");
        assert_eq!(verdict(2, 1.0, 1.0, 900.0), Differs, "it moves again too late");
        assert_eq!(verdict(1, 1.0, 1.0, 60.0), Undecided);
    }

    #[test]
    fn what_becomes_of_tcp_over_the_ip_client_decides_nothing() {
        let finding = judge(&Runs::made_up(survivals(), 2, |place| {
            let whole = f64::from(u8::from(place.is_pep));
            vec![(WHOLE, whole), (LINKS, 1.0), (RESUMED, 9.0), (LOST, 9.0)]
        }));

        assert_eq!(finding.verdict, Reproduced);
    }

    #[test]
    fn no_outage_is_so_short_that_the_link_outlives_it() {
        let short = shown();

        let links = short.run(1).into_iter().find(|(metric, _)| *metric == LINKS);

        assert!(links.is_some_and(|(_, it)| it.value() >= 1.0), "{links:?}");
    }

    #[test]
    fn lengths_are_in_order() {
        assert!(OUTAGES.is_sorted() && OUTAGES[0] > Duration::ZERO);
    }
}
