//! Traces of BonnMotion, `NAME.movements` or `NAME.movements.gz`: a line for each node, with all places
//! that it comes to and when.
//!
//! ```text
//!  0.0 150.0 50.0 10.0 150.0 50.0 40.0 250.0 50.0      time x y time x y time x y
//!  0.0 150.0 50.0 0.0 10.0 150.0 50.0 0.0              the same with heights, for all nodes
//! ```
//!
//! Nodes move straight and evenly from one place to the next, and stay at the last. Heights are read and
//! not used.

use std::fmt::Write as _;
use std::io::Write as _;

use base::time::Time;
use flate2::write::GzEncoder;

use super::motion::{Motion, Position};
use super::trace::{
    COORDINATE, Import, Invalid, MAX_LEGS, MAX_NODES, Problem, TIME, Trace, expect_slow, number,
    plain, time,
};

/// Reads a trace, which may be compressed. The first line is node 0.
///
/// # Errors
/// When a line is wrong, or the file is too long.
pub fn read(file: &[u8]) -> Result<Import, Invalid> {
    let octets = plain(file)?;
    let invalid = |line, problem| Invalid { line, problem };
    // A comment may be of any alphabet; what is no number is refused with its line.
    let text = String::from_utf8_lossy(&octets);
    let lines = || {
        let lines = text.trim_end().lines().enumerate().map(|(index, text)| (index + 1, text));
        lines.filter(|(_, text)| !text.trim_start().starts_with('#'))
    };
    let width = width(&lines());
    let (mut trace, mut legs) = (Trace::new(), 0);
    for (node, (line, text)) in (0..).zip(lines()) {
        if trace.len() == MAX_NODES {
            return Err(invalid(line, Problem::TooMany { what: "nodes", most: MAX_NODES }));
        }
        let motion = motion(line, text, width, node)?;
        legs += motion.legs().len();
        if legs > MAX_LEGS {
            return Err(invalid(line, Problem::TooMany { what: "movements", most: MAX_LEGS }));
        }
        trace.insert(node, motion);
    }
    if trace.is_empty() {
        return Err(invalid(1, Problem::Nobody));
    }
    Ok(Import { trace, passed_over: 0 })
}

/// Writes a trace, with two coordinates. It knows no numbers of nodes, only their order.
#[must_use]
pub fn write(trace: &Trace) -> String {
    let mut text = String::new();
    for motion in trace.values() {
        let mut last = (Time::ZERO, motion.position(Time::ZERO));
        if let Some(first) = motion.legs().first() {
            last.1 = first.from;
        }
        let mut entry = |now: Time, Position { x, y }: Position| {
            let gap = if now == Time::ZERO && text.is_empty() { "" } else { " " };
            let gap = if text.ends_with('\n') { "" } else { gap };
            let _ = write!(text, "{gap}{now} {x} {y}");
        };
        entry(last.0, last.1);
        for leg in motion.legs() {
            for now in [(leg.start, leg.from), (leg.end, leg.to)] {
                if now != last {
                    entry(now.0, now.1);
                    last = now;
                }
            }
        }
        text.push('\n');
    }
    text
}

/// The same, compressed.
#[must_use]
pub fn write_gzip(trace: &Trace) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(write(trace).as_bytes()).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// How many numbers describe a node's position at a time: three, or four with heights. A parameter file may
/// be wrong about the number, so the lengths of the lines decide: each line must be a multiple of the width.
fn width<'a>(lines: &(impl Iterator<Item = (usize, &'a str)> + Clone)) -> usize {
    let fits = |width: usize| {
        lines.clone().all(|(_, text)| text.split_whitespace().count().is_multiple_of(width))
    };
    // Lines of twelve numbers may be both. Times never decrease.
    let rises = |width: usize| {
        lines.clone().all(|(_, text)| {
            let times = text.split_whitespace().step_by(width);
            times.map(|time| time.parse().unwrap_or(f64::NAN)).is_sorted_by(|a: &f64, b| a <= b)
        })
    };
    if fits(4) && (!fits(3) || (!rises(3) && rises(4))) { 4 } else { 3 }
}

fn motion(line: usize, text: &str, width: usize, node: u32) -> Result<Motion, Invalid> {
    let invalid = |problem| Invalid { line, problem };
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Err(invalid(Problem::Placeless { node, what: "waypoint" }));
    }
    if !words.len().is_multiple_of(width) {
        let needed = "a waypoint is a time, x and y; or, in all lines, a time, x, y and a height";
        return Err(invalid(Problem::Count { have: words.len(), needed }));
    }
    let mut motion: Option<Motion> = None;
    let mut before = (0.0, Position::default());
    for point in words.chunks_exact(width) {
        let get =
            |index: usize, what, allowed| number(line, what, point.get(index).copied(), allowed);
        let now = get(0, "the time", TIME)?;
        let place = Position::new(get(1, "x", COORDINATE)?, get(2, "y", COORDINATE)?);
        if width == 4 {
            get(3, "the height", COORDINATE)?;
        }
        let Some(motion) = &mut motion else {
            motion = Some(Motion::at_rest(place));
            before = (now, place);
            continue;
        };
        let (then, from) = std::mem::replace(&mut before, (now, place));
        if now < then {
            return Err(invalid(Problem::Backwards { before: then, now }));
        }
        if place != from {
            expect_slow(line, (from, place), now - then)?;
            motion.go(time(then), time(now), place).expect("times do not decrease");
        }
    }
    motion.ok_or_else(|| invalid(Problem::Placeless { node, what: "waypoint" }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::trace::MAX_OCTETS;
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn places(file: &[u8], node: u32, times: &[f64]) -> Vec<(f64, f64)> {
        let trace = read(file).expect("a trace").trace;
        let place = |seconds: &f64| trace[&node].position(at(*seconds));
        times.iter().map(place).map(|place| (place.x, place.y)).collect()
    }

    const FLAT: &str = "0.0 150.0 50.0 10.0 150.0 50.0 40.0 250.0 50.0\n5 1 2\n";

    #[test]
    fn nodes_go_evenly_from_place_to_place_and_stay_at_the_last() {
        let seen = places(FLAT.as_bytes(), 0, &[0.0, 10.0, 25.0, 40.0, 99.0]);

        assert_eq!(
            seen,
            [(150.0, 50.0), (150.0, 50.0), (200.0, 50.0), (250.0, 50.0), (250.0, 50.0)]
        );
        assert_eq!(places(FLAT.as_bytes(), 1, &[0.0, 99.0]), [(1.0, 2.0), (1.0, 2.0)]);
    }

    #[test]
    fn heights_are_told_from_times() {
        let high = "0.0 0.0 0.0 5.0 10.0 100.0 0.0 9.0\n1 2 3 4\n";
        // Twelve numbers each: only one of the two widths gives rising times.
        let three = "0 9 9 1 8 8 2 7 7 3 6 6\n";
        let four = "0 10 20 30 5 15 20 30 10 20 20 30\n";

        assert_eq!(places(high.as_bytes(), 0, &[5.0]), [(50.0, 0.0)]);
        assert_eq!(places(three.as_bytes(), 0, &[3.0]), [(6.0, 6.0)]);
        assert_eq!(places(four.as_bytes(), 0, &[5.0, 10.0]), [(15.0, 20.0), (20.0, 20.0)]);
    }

    #[test]
    fn a_compressed_file_is_read_and_a_damaged_one_refused() {
        let plain = read(FLAT.as_bytes()).expect("a trace");
        let packed = write_gzip(&plain.trace);
        let mut damaged = packed.clone();
        damaged[20] ^= 0xff;

        assert_eq!(read(&packed), Ok(plain));
        for broken in [&packed[..packed.len() - 9], &damaged] {
            let refused = read(broken).expect_err("a fault");
            assert_eq!(refused.to_string(), "line 1: the gzip file is damaged or cut short");
        }
    }

    #[test]
    fn a_small_file_that_unpacks_to_a_huge_one_is_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        let chunk = vec![b'0'; 1 << 20];
        for _ in 0..=MAX_OCTETS >> 20 {
            encoder.write_all(&chunk).expect("memory");
        }
        let bomb = encoder.finish().expect("memory");

        assert!(bomb.len() < MAX_OCTETS / 100);
        assert_eq!(
            read(&bomb).expect_err("a bomb").problem,
            Problem::TooMany { what: "octets", most: MAX_OCTETS }
        );
    }

    #[test]
    fn complaints_name_the_line_and_what_is_allowed() {
        for (text, expected) in [
            (
                "0 1 1\n0 1 1 2 3\n",
                "line 2: 5 numbers; a waypoint is a time, x and y; or, in all lines, a time, x, y \
                 and a height",
            ),
            (
                "0 1 1 5 2 2 4 3 3\n",
                "line 1: the time 4 s comes after 5 s; times of a node never decrease",
            ),
            ("-1 1 1\n", "line 1: the time is \"-1\"; allowed are 0 to 10000000"),
            ("0 1e300 1\n", "line 1: x is \"1e300\"; allowed are -10000000 to 10000000"),
            ("0 1 inf\n", "line 1: y is \"inf\"; allowed are -10000000 to 10000000"),
            ("0 1 NaN\n", "line 1: y is \"NaN\"; allowed are -10000000 to 10000000"),
            ("# a comment\n0 1 1\n\n0 1 1\n", "line 3: node 1 has no waypoint"),
            (
                "0 0 0 0 1 0\n",
                "line 1: the node moves at inf m/s; at most 2.998e8 m/s, the speed of light",
            ),
        ] {
            assert_eq!(read(text.as_bytes()).expect_err("a fault").to_string(), expected, "{text}");
        }
        let odd = read(b"0 1 1\n0 1 \xff\n").expect_err("a fault");
        assert!(odd.to_string().starts_with("line 2: y is "), "{odd}");
    }

    #[test]
    fn a_byte_order_mark_and_comments_of_another_alphabet_hide_nothing() {
        let plain = read(FLAT.as_bytes());
        let marked = format!("\u{feff}{FLAT}");
        let comment = [&b"# M\xe4rz\n"[..], FLAT.as_bytes()].concat();

        assert_eq!(read(marked.as_bytes()), plain);
        assert_eq!(read(&comment), plain);
        assert_eq!(read(b"# nothing\n").expect_err("a fault").problem, Problem::Nobody);
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn what_is_written_reads_back(
            nodes in prop::collection::vec(
                prop::collection::vec((0..100_000_u32, -1e4..1e4_f64, -1e4..1e4_f64), 1..9), 0..5,
            ),
        ) {
            let mut text = String::new();
            for points in &nodes {
                let mut now = 0.0;
                for (after, x, y) in points {
                    text += &format!("{now} {x} {y} ");
                    now += 1.0 + f64::from(*after) / 64.0;
                }
                text += "\n";
            }
            let read_first = read(text.as_bytes());
            let Ok(first) = read_first else {
                prop_assert!(nodes.is_empty(), "{:?}", read_first);
                return Ok(());
            };

            let again = read(&write_gzip(&first.trace));

            prop_assert_eq!(again, Ok(first));
        }

        #[test]
        fn no_text_is_more_than_refused(text in "([0-9.eE+-]{1,4}|[ \n#a-z]){0,60}") {
            let _ = read(text.as_bytes());
        }
    }
}
