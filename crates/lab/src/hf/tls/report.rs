//! Judges the fetches together.

use super::flights::Version;
use super::{Fetch, OCTETS, SECONDS, SPEEDS, WAYS, Way, fetches};
use crate::hf::BIT_S;
use crate::hf::bulk::Bulk;
use crate::hf::transfer::seconds;
use crate::prelude::*;

/// What counts as about 5 kB: from 3.5 to 6.5.
const ABOUT_5_KB: [f64; 2] = [3_500.0, 6_500.0];
/// What proxies may add to a page without TLS: the name, and the padding of blocks.
const NEARLY: f64 = 1.02;

pub fn judge(runs: &Runs<Fetch>) -> Finding {
    let checks = [handshake(runs), five_kilobytes(runs), removed(runs), compressed(runs)];
    let measured = format!(
        "rustls says {} octets beside request and answer with TLS 1.3, {} with TLS 1.2.",
        Version::Tls13.added(),
        Version::Tls12.added()
    );
    let points: Vec<Point> = fetches().flat_map(|fetch| points(runs, fetch)).collect();
    Finding {
        figures: vec![figure(&points)],
        tables: vec![table(runs, SECONDS), table(runs, OCTETS)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn at(
    runs: &Runs<Fetch>,
    speed: u32,
    way: Way,
    is_compressed: bool,
    metric: &'static str,
) -> Estimate {
    runs.at(&Fetch { speed, way, is_compressed }, metric)
}

/// Adds `by` to the mean of an estimate.
fn more(estimate: &Estimate, by: f64) -> Estimate {
    Estimate { mean: estimate.mean + by, ..*estimate }
}

/// Each version, at each speed.
fn everywhere() -> impl Iterator<Item = (u32, Version)> {
    SPEEDS.into_iter().flat_map(|speed| [Version::Tls13, Version::Tls12].map(|it| (speed, it)))
}

/// TLS from end to end takes longer by a transmission there and one back.
fn handshake(runs: &Runs<Fetch>) -> Check {
    let is_so = everywhere().map(|(speed, version)| {
        let plain = at(runs, speed, Way::Plain, false, SECONDS);
        let trip = 2.0 * Bulk::clear(speed).least(0);
        more(&plain, trip).below(&at(runs, speed, Way::EndToEnd(version), false, SECONDS))
    });
    Check::new("TLS from end to end costs a round trip or more", Answer::all(is_so))
}

fn five_kilobytes(runs: &Runs<Fetch>) -> Check {
    let added = everywhere().map(|(speed, version)| {
        let plain = at(runs, speed, Way::Plain, false, OCTETS);
        more(&at(runs, speed, Way::EndToEnd(version), false, OCTETS), -plain.mean)
    });
    let added: Vec<Estimate> = added.collect();
    let [least, most] = extremes(added.iter().map(|it| it.mean));
    let [from, to] = ABOUT_5_KB;
    Check::new(
        format!("it adds {least:.0} to {most:.0} octets on the air, of {from} to {to}"),
        Answer::all(added.iter().map(|it| it.at_least(from).and(it.at_most(to)))),
    )
}

fn removed(runs: &Runs<Fetch>) -> Check {
    let is_so = SPEEDS.into_iter().flat_map(|speed| {
        [SECONDS, OCTETS].map(|metric| {
            let plain = at(runs, speed, Way::Plain, false, metric);
            at(runs, speed, Way::Proxies, false, metric).below(&plain.times(NEARLY))
        })
    });
    Check::new("proxies take as long and as many octets as no TLS", Answer::all(is_so))
}

fn compressed(runs: &Runs<Fetch>) -> Check {
    let gain = |speed, way| {
        let [not, is] = [false, true].map(|it| at(runs, speed, way, it, OCTETS));
        (not, is)
    };
    let is_so = SPEEDS.into_iter().flat_map(|speed| {
        let (not, is) = gain(speed, Way::Proxies);
        let with_proxies = is.below(&not.times(0.9));
        let end_to_end = [Version::Tls13, Version::Tls12].map(|version| {
            let (not, is) = gain(speed, Way::EndToEnd(version));
            is.below(&not.times(0.99)).negated()
        });
        end_to_end.into_iter().chain([with_proxies])
    });
    let (not, is) = gain(SPEEDS[0], Way::Proxies);
    Check::new(
        format!(
            "between proxies compression saves {:.0} %, and nothing of TLS from end to end",
            100.0 * (1.0 - is.mean / not.mean)
        ),
        Answer::all(is_so),
    )
}

fn points(runs: &Runs<Fetch>, fetch: Fetch) -> [Point; 2] {
    [SECONDS, OCTETS].map(|metric| {
        let line = Line::new(series(fetch), series(fetch), ink(fetch));
        let x = (f64::from(fetch.speed), BIT_S);
        Point::new(line, x, (runs.at(&fetch, metric), metric))
    })
}

fn series(fetch: Fetch) -> String {
    let way = match fetch.way {
        Way::Plain => "no TLS",
        Way::EndToEnd(Version::Tls13) => "TLS 1.3 end to end",
        Way::EndToEnd(Version::Tls12) => "TLS 1.2 end to end",
        Way::Proxies => "TLS proxies",
    };
    if fetch.is_compressed { format!("{way}, compressed") } else { way.to_owned() }
}

fn ink(fetch: Fetch) -> Ink {
    match fetch.way {
        Way::Plain => Ink::Paper,
        Way::EndToEnd(Version::Tls13) => Ink::Tcp,
        Way::EndToEnd(Version::Tls12) => Ink::Trace(0),
        Way::Proxies if fetch.is_compressed => Ink::Trace(1),
        Way::Proxies => Ink::Default,
    }
}

fn table(runs: &Runs<Fetch>, metric: &'static str) -> Table {
    let columns = || {
        let of = |way| [false, true].map(|is_compressed| (way, is_compressed));
        WAYS.into_iter().flat_map(of)
    };
    let head = columns().map(|(way, is_compressed)| series(Fetch { speed: 0, way, is_compressed }));
    let rows = SPEEDS.map(|speed| {
        let of = |(way, is_compressed)| {
            let estimate = at(runs, speed, way, is_compressed, metric);
            if metric == SECONDS { seconds(&estimate) } else { number(estimate.mean) }
        };
        std::iter::once(speed.to_string()).chain(columns().map(of)).collect()
    });
    let title = if metric == SECONDS {
        "Seconds until the page is there"
    } else {
        "Octets of data on the air"
    };
    Table::list(title, std::iter::once(BIT_S.to_owned()).chain(head), rows)
}

fn figure(points: &[Point]) -> Figure {
    let is_drawn = |point: &&Point| {
        let is_needless =
            point.line.series.contains("compressed") && !point.line.series.contains("proxies");
        point.y_unit == SECONDS && !is_needless
    };
    let drawn: Vec<Point> = points.iter().filter(is_drawn).cloned().collect();
    Figure::of(&drawn, "hf-tls", "A page of 10 kB of text over HF-PEP")
        .under("From the client's connection until it has all, a clear link")
        .over(Axis::log("Speed, bit/s", "").with_ticks(SPEEDS.map(f64::from)))
        .up(Axis::log("Seconds", ""))
}

fn assumptions() -> Vec<String> {
    let mut all = crate::hf::transfer_assumptions();
    all.push(
        "A page of 10 kB of English text, asked for by a request of a browser. From end to end hosts say \
         as many octets, flight by flight, as rustls does with a chain of two certificates with RSA keys \
         of 2048 bits, as long as those of web servers; they do not compress. With proxies hosts say \
         what TLS would protect, and the opening has the server's name; handshakes on LANs take \
         milliseconds and are not simulated."
            .to_owned(),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};

    /// The verdict if TLS from end to end costs so many round trips and octets, proxies so many times
    /// what no TLS does, and compression leaves this share between them.
    fn verdict(runs: u32, [trips, octets, proxies, left]: [f64; 4]) -> Verdict {
        judge(&Runs::made_up(fetches(), runs, |fetch| {
            let trip = 2.0 * Bulk::clear(fetch.speed).least(0);
            let left = if fetch.is_compressed { left } else { 1.0 };
            let (time, octets) = match fetch.way {
                Way::Plain => (100.0, 11_000.0),
                Way::EndToEnd(_) => (100.0 + trips * trip, 11_000.0 + octets),
                Way::Proxies => (100.0 * proxies, 11_000.0 * proxies * left),
            };
            vec![(SECONDS, time), (OCTETS, octets)]
        }))
        .verdict
    }

    #[test]
    fn a_handshake_and_5_kb_are_added_and_proxies_remove_them_and_let_compression_work() {
        assert_eq!(verdict(2, [1.1, 4_500.0, 1.0, 0.5]), Reproduced);
        assert_eq!(verdict(2, [0.9, 4_500.0, 1.0, 0.5]), Differs, "no round trip");
        assert_eq!(verdict(2, [1.1, 3_000.0, 1.0, 0.5]), Differs, "fewer octets");
        assert_eq!(verdict(2, [1.1, 7_000.0, 1.0, 0.5]), Differs, "more octets");
        assert_eq!(verdict(2, [1.1, 4_500.0, 1.1, 0.5]), Differs, "proxies remove little");
        assert_eq!(verdict(2, [1.1, 4_500.0, 1.0, 0.95]), Differs, "nothing is compressed");
        assert_eq!(verdict(1, [1.1, 4_500.0, 1.0, 0.5]), Undecided);
    }
}
