//! End-to-end TCP over IP Client with bit errors.

use std::time::Duration;

use proto::ipclient::Transport;

use super::compare::{self, Compared, Radio};
use super::link::Link;
use super::transfer::{TOTAL, UTILISATION, at, cell, errored, limit, name, seconds, share};
use super::{GROUP, published, radio, scientific};
use crate::claim::{Cell, Claim, Exchange, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::runner;
use crate::words::percent;

/// Octets of the transfer: 100 KiB.
const OCTETS: u64 = 102_400;
/// Utilisation below which nobody would use it.
const VIABLE: f64 = 0.05;
/// Where no errors are drawn on a logarithmic axis.
const NO_ERRORS: f64 = 1e-7;
const BER: &str = "bit error rate";

/// A way to send, and what was published of it.
struct Way {
    series: &'static str,
    title: &'static str,
    transport: Transport,
    /// By bit error rate; `None` is "not viable".
    published: [Option<f64>; 4],
}

const ERRORS: [f64; 4] = [0.0, 1e-6, 1e-5, 1e-4];
const IN_ORDER: Way = Way {
    series: "arq-in-order",
    title: "ARQ, in order",
    transport: Transport::Arq { in_order: true },
    published: [Some(0.562), Some(0.539), Some(0.400), Some(0.247)],
};
const ANY_ORDER: Way = Way {
    series: "arq-any-order",
    title: "ARQ, any order",
    transport: Transport::Arq { in_order: false },
    published: [Some(0.584), Some(0.576), Some(0.447), Some(0.236)],
};
const NON_ARQ: Way = Way {
    series: "non-arq",
    title: "without ARQ",
    transport: Transport::NonArq { repeats: 0 },
    published: [Some(0.563), Some(0.466), Some(0.349), None],
};
static WAYS: [Way; 3] = [IN_ORDER, ANY_ORDER, NON_ARQ];

pub(super) fn claim() -> Claim {
    Claim {
        id: "hf-ipclient-ber",
        group: GROUP,
        text: "over IP Client at 9600 bit/s with bit errors, ARQ in any order does better than in \
               order, and without ARQ a bit error rate of 1e-4 is not viable",
        source: "TCP over HF radio, comparison with TCP over IP Client, tests with link errors",
        cells,
        judge,
    }
}

impl Way {
    fn link(&self, ber: f64) -> Link {
        self.keyed(ber, radio::FASTEST)
    }

    fn keyed(&self, ber: f64, key_up: Duration) -> Link {
        errored(ber, self.transport, OCTETS, key_up)
    }
}

fn cells() -> Vec<Cell> {
    let of = |way: &'static Way| {
        let keyed = move |ber| radio::key_ups().map(|key_up| cell(way.keyed(ber, key_up)));
        ERRORS.into_iter().flat_map(keyed)
    };
    WAYS.iter().flat_map(of).collect()
}

/// The figures that were published beside ours with that key-up.
fn compared(results: &Results, key_up: Duration) -> Vec<Compared> {
    let of = |way: &'static Way| {
        let pairs = ERRORS.iter().zip(way.published);
        pairs.filter_map(move |(&ber, theirs)| {
            let ours = at(results, &way.keyed(ber, key_up), UTILISATION);
            Some(Compared::share(&format!("{} at {}", way.title, scientific(ber)), &ours, theirs?))
        })
    };
    WAYS.iter().flat_map(of).collect()
}

fn judge(results: &Results) -> Finding {
    let use_of = |way: &Way, ber: f64| at(results, &way.link(ber), UTILISATION);
    let mut points = Vec::new();
    for way in &WAYS {
        for (&ber, theirs) in ERRORS.iter().zip(way.published) {
            let ours = use_of(way, ber);
            let point = |series: String, y, limit| Point {
                series,
                x: ber,
                x_unit: BER,
                y,
                y_unit: super::UTILISATION,
                limit,
                sessions: None,
                limit2: None,
                cell: None,
            };
            points.push(point(way.series.to_owned(), ours, Some(limit(&way.link(ber)))));
            let theirs = theirs.map(published);
            points.extend(theirs.map(|y| point(format!("seed-{}", way.series), y, None)));
        }
    }
    let gains = ERRORS.iter().skip(1);
    let is_any_better =
        gains.clone().all(|&ber| use_of(&ANY_ORDER, ber).low() > use_of(&IN_ORDER, ber).high());
    let is_viable = use_of(&NON_ARQ, ERRORS[3]).mean > VIABLE;
    let ways: Vec<String> = gains
        .map(|&ber| {
            let [any, one] = [&ANY_ORDER, &IN_ORDER].map(|way| percent(use_of(way, ber).mean));
            format!("{any} in any order, {one} in order at {ber:e}")
        })
        .collect();
    let runs = points.iter().map(|point| point.y.runs).max().unwrap_or_default();
    let radios =
        radio::key_ups().map(|key_up| Radio { key_up, figures: compared(results, key_up) });
    Finding {
        verdict: match is_any_better && !is_viable {
            true => compare::verdict(&radios),
            false => Verdict::Differs,
        },
        measured: format!(
            "With a key-up of {}: {}; {} without ARQ at 1e-4. {runs} runs.",
            compare::seconds(radio::FASTEST),
            ways.join("; "),
            percent(use_of(&NON_ARQ, ERRORS[3]).mean),
        ),
        reason: reason(&radios, is_any_better, is_viable),
        figures: vec![figure(&points)],
        tables: vec![table(results), by_key_up(results)],
        exchanges: vec![exchange()],
        points,
        assumptions: super::transfer_assumptions(),
    }
}

fn reason(radios: &[Radio], is_any_better: bool, is_viable: bool) -> String {
    let mut reasons = vec![compare::reason(radios)];
    if !is_any_better {
        reasons.push(
            "any order is not better here: what overtakes a segment that is sent again looks to \
             TCP like its loss, so that it closes its window"
                .to_owned(),
        );
    }
    reasons.push(if is_viable {
        "without ARQ 1e-4 is viable".to_owned()
    } else {
        "without ARQ TCP's own timeouts are all that repairs 1e-4".to_owned()
    });
    reasons.join("; ")
}

fn table(results: &Results) -> Table {
    let mut head = vec![BER.to_owned()];
    for way in &WAYS {
        head.extend([way.title.to_owned(), "published".to_owned(), "total, s".to_owned()]);
    }
    let rows = ERRORS.iter().enumerate().map(|(index, &ber)| {
        let mut row = vec![scientific(ber)];
        for way in &WAYS {
            let link = way.link(ber);
            row.push(share(&at(results, &link, UTILISATION)));
            row.push(way.published[index].map_or("not viable".into(), |it| format!("{it:.3}")));
            row.push(seconds(&at(results, &link, TOTAL)));
        }
        row
    });
    Table {
        title: "Utilisation with bit errors, 100 KiB at 9600 bit/s".to_owned(),
        head,
        rows: rows.collect(),
    }
}

fn by_key_up(results: &Results) -> Table {
    let of = |way: &'static Way| {
        let pairs = ERRORS.iter().zip(way.published);
        pairs.map(move |(&ber, theirs)| {
            let measured = radio::key_ups()
                .map(|key_up| share(&at(results, &way.keyed(ber, key_up), UTILISATION)));
            let place = vec![way.title.to_owned(), scientific(ber)];
            (place, theirs.map_or("not viable".into(), |it| format!("{it:.3}")), measured)
        })
    };
    compare::table("Utilisation with bit errors", &["way", BER], WAYS.iter().flat_map(of))
}

fn figure(points: &[Point]) -> Figure {
    let series = |name: &str, of: &str, ink| {
        let marks = points.iter().filter(|it| it.series == of);
        let marks = marks.map(|it| Mark { x: it.x.max(NO_ERRORS), ..Mark::measured(it.x, &it.y) });
        Series { name: name.to_owned(), ink, marks: marks.collect() }
    };
    let mut all = Vec::new();
    for (way, inks) in WAYS.iter().zip([
        [Ink::Default, Ink::Trace(0)],
        [Ink::Seed, Ink::Trace(1)],
        [Ink::Tcp, Ink::Trace(2)],
    ]) {
        let [ours, theirs] = inks;
        all.push(series(
            &format!("{}: published", way.title),
            &format!("seed-{}", way.series),
            theirs,
        ));
        all.push(series(&format!("{}: ours", way.title), way.series, ours));
    }
    Figure {
        name: "hf-ipclient-ber".to_owned(),
        title: "End-to-end TCP over IP Client with bit errors".to_owned(),
        subtitle: format!(
            "100 KiB at 9600 bit/s, mean of {} runs",
            points.iter().map(|point| point.y.runs).max().unwrap_or_default()
        ),
        x: Axis::log("Bit error rate after decoding", ""),
        y: Axis::linear("Utilisation", ""),
        series: all,
        note: String::new(),
    }
}

/// What both stations did in the run with the first seed.
fn exchange() -> Exchange {
    let link = IN_ORDER.link(ERRORS[3]);
    Exchange {
        name: "hf-ipclient-ber-timeline".to_owned(),
        title: "100 KiB by TCP over IP Client with bit errors".to_owned(),
        subtitle: "ARQ in order at 9600 bit/s, bit error rate 1e-4".to_owned(),
        stations: link.exchange(runner::seed(&name(&link), 0)),
    }
}
