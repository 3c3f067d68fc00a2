//! End-to-end TCP over IP Client with bit errors.

use std::time::Duration;

use hf::s5066::sis::Mode;

use super::compare::{self, Compared};
use super::link::Link;
use super::transfer::{BER, TOTAL, UTILISATION, errored, limit, over_errors, seconds, share};
use super::{GROUP, key_ups, published, radio, scientific};
use crate::prelude::*;

/// Octets of the transfer: 100 KiB.
const OCTETS: u64 = 102_400;
/// The utilisation below which a way to send is not viable.
const VIABLE: f64 = 0.05;

/// A way to send, and its published figures.
struct Way {
    series: &'static str,
    title: &'static str,
    /// The inks of our figures and of the published ones.
    inks: [Ink; 2],
    mode: Mode,
    /// By bit error rate; `None` is "not viable".
    published: [Option<f64>; 4],
}

const ERRORS: [f64; 4] = [0.0, 1e-6, 1e-5, 1e-4];
const IN_ORDER: Way = Way {
    series: "arq-in-order",
    title: "ARQ, in order",
    inks: [Ink::Default, Ink::Trace(0)],
    mode: Mode::Arq { in_order: true },
    published: [Some(0.562), Some(0.539), Some(0.400), Some(0.247)],
};
const ANY_ORDER: Way = Way {
    series: "arq-any-order",
    title: "ARQ, any order",
    inks: [Ink::Paper, Ink::Trace(1)],
    mode: Mode::Arq { in_order: false },
    published: [Some(0.584), Some(0.576), Some(0.447), Some(0.236)],
};
const NON_ARQ: Way = Way {
    series: "non-arq",
    title: "without ARQ",
    inks: [Ink::Tcp, Ink::Trace(2)],
    mode: Mode::ONCE,
    published: [Some(0.563), Some(0.466), Some(0.349), None],
};
static WAYS: [Way; 3] = [IN_ORDER, ANY_ORDER, NON_ARQ];

pub const CLAIM: Claim = Claim {
    id: "hf-ipclient-ber",
    group: GROUP,
    text: "over IP Client at 9600 bit/s with bit errors, ARQ in any order does better than in \
           order, and without ARQ a bit error rate of 1e-4 is not viable",
    source: "TCP over HF radio, comparison with TCP over IP Client, tests with link errors",
    experiment: || Experiment::new(links(), judge),
};

impl Way {
    fn line(&self) -> Line {
        Line::new(self.series, format!("{}: ours", self.title), self.inks[0])
    }

    fn published_line(&self) -> Line {
        let (series, title) =
            (format!("published-{}", self.series), format!("{}: published", self.title));
        Line::new(series, title, self.inks[1])
    }

    fn link(&self, ber: f64) -> Link {
        self.keyed(ber, radio::FASTEST)
    }

    fn keyed(&self, ber: f64, key_up: Duration) -> Link {
        errored(ber, self.mode, OCTETS, key_up)
    }
}

fn links() -> Vec<Link> {
    let of = |way: &'static Way| {
        let keyed = move |ber| key_ups::key_ups().map(|key_up| way.keyed(ber, key_up));
        ERRORS.into_iter().flat_map(keyed)
    };
    WAYS.iter().flat_map(of).collect()
}

/// The comparisons of our figures with this key-up with the published ones.
fn compared(runs: &Runs<Link>, key_up: Duration) -> Vec<Compared> {
    let of = |way: &'static Way| {
        let pairs = ERRORS.iter().zip(way.published);
        pairs.filter_map(move |(&ber, theirs)| {
            let ours = runs.at(&way.keyed(ber, key_up), UTILISATION);
            Some(Compared::share(&format!("{} at {}", way.title, scientific(ber)), &ours, theirs?))
        })
    };
    WAYS.iter().flat_map(of).collect()
}

fn judge(runs: &Runs<Link>) -> Finding {
    let use_of = |way: &Way, ber: f64| runs.at(&way.link(ber), UTILISATION);
    let mut points = Vec::new();
    for way in &WAYS {
        for (&ber, theirs) in ERRORS.iter().zip(way.published) {
            let ours = use_of(way, ber);
            let point = |line: Line, y, limit| Point {
                limit,
                ..Point::new(line, (ber, BER), (y, super::UTILISATION))
            };
            points.push(point(way.line(), ours, Some(limit(&way.link(ber)))));
            let theirs = theirs.map(published);
            points.extend(theirs.map(|y| point(way.published_line(), y, None)));
        }
    }
    let gains = ERRORS.iter().skip(1);
    let better = |&ber: &f64| {
        let [one, any] = [&IN_ORDER, &ANY_ORDER].map(|way| use_of(way, ber));
        let what = format!("any order does better at {ber:e} ({} of {})", share(&any), share(&one));
        Check::new(what, one.below(&any))
    };
    let unviable = use_of(&NON_ARQ, ERRORS[3]);
    let mut checks: Vec<Check> = gains.clone().map(better).collect();
    checks.push(Check::new(
        format!("without ARQ 1e-4 is not viable ({})", share(&unviable)),
        unviable.at_most(VIABLE),
    ));
    let ways: Vec<String> = gains
        .map(|&ber| {
            let [any, one] = [&ANY_ORDER, &IN_ORDER].map(|way| percent(use_of(way, ber).mean));
            format!("{any} in any order, {one} in order at {ber:e}")
        })
        .collect();
    let radios = compare::radios(|key_up| compared(runs, key_up));
    let verdict = match Verdict::of(answer::holds(&checks)) {
        Verdict::Reproduced => compare::verdict(&radios),
        otherwise => otherwise,
    };
    let measured = format!(
        "With a key-up of {}: {}; {} without ARQ at 1e-4.",
        compare::seconds(radio::FASTEST),
        ways.join("; "),
        percent(unviable.mean)
    );
    Finding {
        verdict,
        reason: format!("{}. {}", compare::reason(&radios), answer::reason(&checks)),
        figures: vec![over_errors(
            &points,
            "hf-ipclient-ber",
            "End-to-end TCP over IP Client with bit errors",
            "100 KiB at 9600 bit/s",
        )],
        tables: vec![table(runs), by_key_up(runs)],
        exchanges: vec![exchange(runs)],
        points,
        assumptions: super::transfer_assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn table(runs: &Runs<Link>) -> Table {
    let mut head = vec![BER.to_owned()];
    for way in &WAYS {
        head.extend([way.title.to_owned(), "published".to_owned(), "total, s".to_owned()]);
    }
    let rows = ERRORS.iter().enumerate().map(|(index, &ber)| {
        let mut row = vec![scientific(ber)];
        for way in &WAYS {
            let link = way.link(ber);
            row.push(share(&runs.at(&link, UTILISATION)));
            row.push(way.published[index].map_or("not viable".into(), |it| format!("{it:.3}")));
            row.push(seconds(&runs.at(&link, TOTAL)));
        }
        row
    });
    Table::list("Utilisation with bit errors, 100 KiB at 9600 bit/s", head, rows)
}

fn by_key_up(runs: &Runs<Link>) -> Table {
    let of = |way: &'static Way| {
        let pairs = ERRORS.iter().zip(way.published);
        pairs.map(move |(&ber, theirs)| {
            let measured = move |key_up| share(&runs.at(&way.keyed(ber, key_up), UTILISATION));
            let place = vec![way.title.to_owned(), scientific(ber)];
            (place, theirs.map_or("not viable".into(), |it| format!("{it:.3}")), measured)
        })
    };
    compare::table("Utilisation with bit errors", &["way", BER], WAYS.iter().flat_map(of))
}

/// The records of both stations in the run with the first seed.
fn exchange(runs: &Runs<Link>) -> Exchange {
    let link = IN_ORDER.link(ERRORS[3]);
    Exchange {
        name: "hf-ipclient-ber-timeline".to_owned(),
        title: "100 KiB by TCP over IP Client with bit errors".to_owned(),
        subtitle: "ARQ in order at 9600 bit/s, bit error rate 1e-4".to_owned(),
        stations: link.exchange(runs.first_seed(&link)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Beaten, Differs, Reproduced, Undecided};

    /// The verdict if we measure the published figures times `better`, in any order also times `ahead`,
    /// and `unviable` without ARQ at 1e-4.
    fn verdict(runs: u32, better: f64, ahead: f64, unviable: f64) -> Verdict {
        judge(&Runs::made_up(links(), runs, |link| {
            let of = |way: &Way| {
                let place = ERRORS.iter().position(|ber| way.keyed(*ber, link.key_up) == *link)?;
                let ahead = if way.mode == ANY_ORDER.mode { ahead } else { 1.0 };
                Some(way.published[place].map_or(unviable, |it| it * better * ahead))
            };
            vec![(UTILISATION, WAYS.iter().find_map(of).unwrap_or_default())]
        }))
        .verdict
    }

    #[test]
    fn figures_decide_once_any_order_is_ahead_and_without_arq_is_not_viable() {
        assert_eq!(verdict(3, 1.02, 1.1, 0.01), Beaten);
        assert_eq!(
            [verdict(3, 1.0, 1.1, 0.01), verdict(3, 0.98, 1.1, 0.01)],
            [Reproduced, Differs]
        );
        assert_eq!(verdict(3, 1.02, 1.0, 0.01), Differs, "at 1e-4 the published one is behind");
        assert_eq!([verdict(3, 1.02, 1.1, 0.1), verdict(1, 1.02, 1.1, 0.01)], [Differs, Undecided]);
    }
}
