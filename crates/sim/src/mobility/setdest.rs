//! Movement files of ns-2, which its `setdest` writes and other simulators read.
//!
//! ```text
//!  $node_(0) set X_ 150.0                            where node 0 is at first; Y_ and Z_ as well
//!  $ns_ at 10.0 "$node_(0) setdest 250.0 50.0 2.5"   goes there from where it is then, at 2.5 m/s
//! ```
//!
//! Heights are read and not used. What a file says about other objects than nodes, such as the distances
//! for the object `$god_`, is passed over, as are comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str;

use proto::time::Time;

use super::motion::{Leg, Motion, Position};
use super::trace::{
    COORDINATE, Invalid, MAX_LEGS, MAX_NODES, MAX_OCTETS, MAX_TIME, Problem, SPEED, TIME, Trace,
    expect_slow, number, time,
};

/// Reads a movement file.
///
/// # Errors
/// When a line is wrong, a node has no place, or the file is too long.
pub fn read(file: &[u8]) -> Result<Trace, Invalid> {
    if file.len() > MAX_OCTETS {
        let problem = Problem::TooMany { what: "octets", most: MAX_OCTETS };
        return Err(Invalid { line: 1, problem });
    }
    let mut nodes = BTreeMap::new();
    let mut commands = 0;
    for (line, text) in file.split(|octet| *octet == b'\n').enumerate() {
        let line = line + 1;
        let invalid = |problem| Invalid { line, problem };
        let text = str::from_utf8(text).map_err(|_| invalid(Problem::NotText))?;
        let Some(statement) = Statement::parse(line, text)? else { continue };
        commands += 1;
        if commands > MAX_LEGS {
            return Err(invalid(Problem::TooMany { what: "movements", most: MAX_LEGS }));
        }
        if nodes.len() == MAX_NODES && !nodes.contains_key(&statement.node) {
            return Err(invalid(Problem::TooMany { what: "nodes", most: MAX_NODES }));
        }
        let node = nodes.entry(statement.node).or_insert_with(|| Node::new(line));
        node.take(statement);
    }
    nodes.into_iter().map(|(number, node)| Ok((number, node.motion(number)?))).collect()
}

/// Writes a movement file. Nodes that jump are told to `set X_` and `Y_` anew at that time, which ns-3
/// understands.
#[must_use]
pub fn write(trace: &Trace) -> String {
    let mut text = String::new();
    for (node, motion) in trace {
        let Position { x, y } = motion.position(Time::ZERO);
        for (axis, value) in [("X_", x), ("Y_", y), ("Z_", 0.0)] {
            let _ = writeln!(text, "$node_({node}) set {axis} {value}");
        }
    }
    let mut legs: Vec<(Time, u32, Leg)> = Vec::new();
    for (node, motion) in trace {
        legs.extend(motion.legs().iter().map(|leg| (leg.start, *node, *leg)));
    }
    legs.sort_by_key(|(start, node, _)| (*start, *node));
    for (start, node, leg) in legs {
        let (Position { x, y }, speed) = (leg.to, leg.speed());
        if leg.start == leg.end {
            for (axis, value) in [("X_", x), ("Y_", y)] {
                let _ = writeln!(text, "$ns_ at {start} \"$node_({node}) set {axis} {value}\"");
            }
        } else if speed > 0.0 {
            let _ = writeln!(text, "$ns_ at {start} \"$node_({node}) setdest {x} {y} {speed}\"");
        }
    }
    text
}

/// What a line says about a node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Statement {
    line: usize,
    node: u32,
    /// Seconds; none is before the run.
    at: Option<f64>,
    command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    /// It is at this height, which does not matter.
    Height,
    /// Four numbers: the third is a height or a speed, the fourth a speed or something else.
    GoFour([f64; 4]),
    /// To this place at this speed.
    Go(Position, f64),
    /// Its coordinate from west to east.
    X(f64),
    /// Its coordinate from south to north.
    Y(f64),
}

impl Statement {
    /// The statement of a line, if it has one about a node.
    fn parse(line: usize, text: &str) -> Result<Option<Self>, Invalid> {
        let code = text.trim_start();
        if !code.starts_with('$') {
            // Comments, and other settings of a script.
            return Ok(None);
        }
        let is_space = |c: char| c.is_whitespace() || matches!(c, '"' | '{' | '}' | ';');
        let mut words = code.split(is_space).filter(|word| !word.is_empty());
        let Some(mut object) = words.next() else { return Ok(None) };
        let mut at = None;
        if matches!(object, "$ns_" | "$ns") {
            if words.next() != Some("at") {
                return Ok(None);
            }
            at = Some(number(line, "the time", words.next(), TIME)?);
            object = words.next().unwrap_or_default();
        }
        let Some(node) = node(line, object)? else { return Ok(None) };
        let command = Command::parse(line, words)?;
        // Before the run it is the same as at its beginning.
        let is_go = matches!(command, Command::Go(..) | Command::GoFour(_));
        let at = at.or(is_go.then_some(0.0));
        Ok(Some(Self { line, node, at, command }))
    }
}

/// The number of a node, if the object is one.
fn node(line: usize, object: &str) -> Result<Option<u32>, Invalid> {
    let named = object.strip_prefix("$node_(").or_else(|| object.strip_prefix("$node("));
    let Some(rest) = named else { return Ok(None) };
    let node = rest.strip_suffix(')').and_then(|number| number.parse().ok());
    node.map(Some).ok_or_else(|| {
        let problem = Problem::Unknown { text: object.to_owned() };
        Invalid { line, problem }
    })
}

impl Command {
    fn parse<'a>(line: usize, mut words: impl Iterator<Item = &'a str>) -> Result<Self, Invalid> {
        let unknown = |text: &str| {
            let problem = Problem::Unknown { text: text.to_owned() };
            Invalid { line, problem }
        };
        match words.next() {
            Some("set") => {
                let axis = words.next().unwrap_or_default();
                let mut value = |what| number(line, what, words.next(), COORDINATE);
                match axis {
                    "X_" => Ok(Self::X(value("X_")?)),
                    "Y_" => Ok(Self::Y(value("Y_")?)),
                    "Z_" => value("Z_").map(|_| Self::Height),
                    other => Err(unknown(&format!("set {other}"))),
                }
            }
            Some("setdest") => {
                let x = number(line, "x", words.next(), COORDINATE)?;
                let y = number(line, "y", words.next(), COORDINATE)?;
                let third = number(line, "the speed", words.next(), COORDINATE)?;
                let rest: Vec<&str> = words.collect();
                match rest[..] {
                    [] if third < 0.0 => {
                        number(line, "the speed", Some(&third.to_string()), SPEED)?;
                        Err(unknown("setdest"))
                    }
                    [] => Ok(Self::Go(Position::new(x, y), third)),
                    [fourth] => {
                        let fourth = number(line, "the fourth number", Some(fourth), COORDINATE)?;
                        Ok(Self::GoFour([x, y, third, fourth]))
                    }
                    _ => {
                        let needed = "setdest takes x, y and a speed; or x, y, a height and a \
                                      speed; or x, y, a speed and a status";
                        let problem = Problem::Count { have: 3 + rest.len(), needed };
                        Err(Invalid { line, problem })
                    }
                }
            }
            other => Err(unknown(other.unwrap_or("nothing"))),
        }
    }
}

/// What a file says about a node.
#[derive(Debug)]
struct Node {
    /// Where the file speaks of it first.
    line: usize,
    x: Option<f64>,
    y: Option<f64>,
    has_height: bool,
    /// What it is told during the run.
    orders: Vec<(f64, usize, Command)>,
}

impl Node {
    fn new(line: usize) -> Self {
        Self { line, x: None, y: None, has_height: false, orders: Vec::new() }
    }

    fn take(&mut self, statement: Statement) {
        let Statement { line, at, command, .. } = statement;
        self.has_height |= command == Command::Height;
        match (at, command) {
            (None, Command::X(x)) => self.x = Some(x),
            (None, Command::Y(y)) => self.y = Some(y),
            (Some(at), command) => self.orders.push((at, line, command)),
            (None, Command::Height | Command::Go(..) | Command::GoFour(_)) => {}
        }
    }

    fn motion(mut self, node: u32) -> Result<Motion, Invalid> {
        let lacks = |what| {
            let problem = Problem::Placeless { node, what };
            Invalid { line: self.line, problem }
        };
        let x = self.x.ok_or_else(|| lacks("X_"))?;
        let y = self.y.ok_or_else(|| lacks("Y_"))?;
        let mut motion = Motion::at_rest(Position::new(x, y));
        // At the same time it does what the file says last.
        self.orders.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, line, command) in self.orders {
            let start = time(at);
            let place = motion.position(start);
            let (to, speed) = match command {
                Command::Height => continue,
                Command::X(x) => (Position { x, ..place }, None),
                Command::Y(y) => (Position { y, ..place }, None),
                Command::Go(to, speed) => (to, Some((speed, "the speed"))),
                // DisasterArea of BonnMotion writes a status behind the speed, and no heights.
                Command::GoFour([x, y, third, fourth]) => {
                    let speed = if self.has_height { fourth } else { third };
                    (Position::new(x, y), Some((speed, "the speed")))
                }
            };
            let (end, to) = match speed {
                None => (start, to),
                Some((speed, what)) => {
                    number(line, what, Some(&speed.to_string()), SPEED)?;
                    arrival(at, place, to, speed)
                }
            };
            if speed.is_some() {
                expect_slow(line, (place, to), end.since(start).as_secs_f64() + 1e-9)?;
            }
            motion.go(start, end, to).expect("it arrives after it sets out");
        }
        Ok(motion)
    }
}

/// When a node arrives, and where: on the way, if that takes until after the longest run.
fn arrival(at: f64, from: Position, to: Position, speed: f64) -> (Time, Position) {
    let seconds = from.distance_squared(to).sqrt() / speed;
    if speed == 0.0 {
        return (time(at), from);
    }
    let most = 2.0 * MAX_TIME - at;
    if seconds <= most {
        return (time(at + seconds), to);
    }
    let part = most / seconds;
    let place = Position::new(from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part);
    (time(at + most), place)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn places(text: &str, node: u32, times: &[f64]) -> Vec<(f64, f64)> {
        let trace = read(text.as_bytes()).expect("a trace");
        let place = |seconds: &f64| trace[&node].position(at(*seconds));
        times.iter().map(place).map(|place| (place.x, place.y)).collect()
    }

    #[test]
    fn a_file_of_setdest_is_read() {
        let text = r#"#
# nodes: 2, speed type: 2, min speed: 1.00, max speed: 20.00
#
$node_(0) set X_ 100.0
$node_(0) set Y_ 50.000000000000
$node_(0) set Z_ 0.000000000000
$node_(1) set Y_  5e1
$node_(1)  set  X_  1.5e2
$god_ set-dist 0 1 1
$ns_ at 10.000000000000 "$node_(0) setdest 200.0 50.0 10.0"
$ns_ at 15.0 "$node_(0) setdest 150.0 150.0 20.0"
$ns_ at 12.5 "$god_ set-dist 0 1 2"
$ns_ at 30.0 "$node_(0) setdest 0.0 150.0 0.0"
# $ns_ at 31.0 "$node_(0) setdest 0.0 0.0 9.0"
# Destination Unreachables: 0
"#;

        let seen = places(text, 0, &[0.0, 10.0, 12.0, 15.0, 17.5, 20.0, 99.0]);

        let expected = [
            (100.0, 50.0),
            (100.0, 50.0),
            (120.0, 50.0),
            (150.0, 50.0),
            (150.0, 100.0),
            (150.0, 150.0),
            (150.0, 150.0),
        ];
        assert_eq!(seen, expected);
        assert_eq!(places(text, 1, &[0.0, 99.0]), [(150.0, 50.0), (150.0, 50.0)]);
    }

    #[test]
    fn orders_count_by_their_time_and_a_stop_ends_a_leg() {
        let text = "$node_(3) set X_ 0\n$node_(3) set Y_ 0\n\
                    $ns_ at 20 \"$node_(3) setdest 0 0 0\"\n\
                    $ns_ at 10 \"$node_(3) setdest 1000 0 10\"\n";

        assert_eq!(places(text, 3, &[15.0, 20.0, 90.0]), [(50.0, 0.0), (100.0, 0.0), (100.0, 0.0)]);
    }

    #[test]
    fn a_fourth_number_is_a_speed_where_nodes_have_heights_and_a_status_elsewhere() {
        let low = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n";
        let go = "$ns_ at 0 \"$node_(0) setdest 100 0 4 2\"\n";
        let high = format!("{low}$node_(0) set Z_ 3\n{go}");
        let agent =
            "set RoutingAgent [$node_(0) agent 255]\n$ns_ at 9 \"$RoutingAgent deactivate\"\n";

        assert_eq!(places(&high, 0, &[10.0]), [(20.0, 0.0)]);
        assert_eq!(places(&format!("{low}{go}{agent}"), 0, &[10.0]), [(40.0, 0.0)]);
    }

    fn refused(text: &str) -> String {
        read(text.as_bytes()).expect_err("a fault").to_string()
    }

    #[test]
    fn complaints_name_the_line_and_what_is_allowed() {
        let start = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n";
        for (line, expected) in [
            (
                "$ns_ at -1 \"$node_(0) setdest 1 1 1\"",
                "line 3: the time is \"-1\"; allowed are 0 to 10000000",
            ),
            (
                "$ns_ at 1 \"$node_(0) setdest 1e300 1 1\"",
                "line 3: x is \"1e300\"; allowed are -10000000 to 10000000",
            ),
            (
                "$ns_ at 1 \"$node_(0) setdest NaN 1 1\"",
                "line 3: x is \"NaN\"; allowed are -10000000 to 10000000",
            ),
            (
                "$ns_ at 1 \"$node_(0) setdest 1 1 -1\"",
                "line 3: the speed is \"-1\"; allowed are 0 to 299792458",
            ),
            (
                "$ns_ at 1 \"$node_(0) setdest 1 1\"",
                "line 3: the speed is \"missing\"; allowed are -10000000 to 10000000",
            ),
            (
                "$ns_ at 1 \"$node_(0) setdest 1 2 3 4 5\"",
                "line 3: 5 numbers; setdest takes x, y and a speed; or x, y, a height and a speed; \
                 or x, y, a speed and a status",
            ),
            (
                "$ns_ at 1 \"$node_(0) fly 1 2 3\"",
                "line 3: \"fly\" is not known; a node is told to set X_, Y_ or Z_ or to setdest",
            ),
            (
                "$node_(x) set X_ 1",
                "line 3: \"$node_(x)\" is not known; a node is told to set X_, Y_ or Z_ or to setdest",
            ),
            ("$node_(7) set X_ 1", "line 3: node 7 has no Y_"),
        ] {
            assert_eq!(refused(&format!("{start}{line}\n")), expected);
        }
        let Err(Invalid { line: 1, problem: Problem::NotText }) = read(b"$node_(\xff\n") else {
            panic!("no text");
        };
    }

    #[test]
    fn what_would_not_fit_a_machine_is_refused() {
        let mut text = String::new();
        for node in 0..=MAX_NODES {
            text += &format!("$node_({node}) set X_ 0\n$node_({node}) set Y_ 0\n");
        }
        assert!(refused(&text).ends_with("more than 10000 nodes"), "{}", refused(&text));
        let slow = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n\
                    $ns_ at 1 \"$node_(0) setdest 1e7 0 1e-300\"\n";
        assert_eq!(places(slow, 0, &[1e7])[0].1, 0.0);
    }

    /// Motions that a file can say exactly but for roundings.
    fn motions() -> impl Strategy<Value = Trace> {
        let place = || (-1e4..1e4_f64, -1e4..1e4_f64).prop_map(|(x, y)| Position::new(x, y));
        let leg = (0..500_000_u64, 1_000..500_000_u64, place());
        let motion = (place(), prop::collection::vec(leg, 0..8)).prop_map(|(start, legs)| {
            let mut motion = Motion::at_rest(start);
            let mut now = Time::ZERO;
            for (rest, length, to) in legs {
                let begin = now + Duration::from_millis(rest);
                let end = begin + Duration::from_millis(length);
                motion.go(begin, end, to).expect("a leg");
                // Some are told to turn on the way.
                now = if rest % 3 == 0 { begin + Duration::from_millis(length / 2) } else { end };
            }
            motion
        });
        prop::collection::btree_map(0..50_u32, motion, 0..4)
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(trace in motions()) {
            let again = read(write(&trace).as_bytes()).expect("it was written");

            prop_assert_eq!(again.keys().collect::<Vec<_>>(), trace.keys().collect::<Vec<_>>());
            for (motion, again) in trace.values().zip(again.values()) {
                for second in (0..4_000).step_by(7) {
                    let (own, its) = (motion.position(at(second.into())), again.position(at(second.into())));
                    prop_assert!(own.distance_squared(its).sqrt() < 1e-3, "{own:?} {its:?}");
                }
            }
        }

        #[test]
        fn no_text_is_more_than_refused(text in "([$\"() a-zA-Z_0-9.{}#-]|\n|setdest|\\$node_\\(0\\)|\\$ns_ at ){0,60}") {
            let _ = read(text.as_bytes());
        }

        #[test]
        fn what_is_read_has_places_at_all_times(
            x in prop::num::f64::ANY, y in prop::num::f64::ANY, speed in prop::num::f64::ANY,
            start in prop::num::f64::ANY,
        ) {
            let text = format!("$node_(0) set X_ {x}\n$node_(0) set Y_ 0\n\
                                $ns_ at {start} \"$node_(0) setdest {x} {y} {speed}\"\n");
            if let Ok(trace) = read(text.as_bytes()) {
                let Position { x, y } = trace[&0].position(at(1e7));
                prop_assert!(x.is_finite() && y.is_finite());
            }
        }
    }

    #[test]
    fn a_jump_reads_back() {
        let mut motion = Motion::at_rest(Position::new(1.0, 2.0));
        motion.go(at(3.0), at(3.0), Position::new(4.0, 5.0)).expect("a jump");
        let trace = Trace::from([(2, motion)]);

        let text = write(&trace);

        let again = read(text.as_bytes()).expect("it was written");
        let places = [2.9, 3.0].map(|seconds| again[&2].position(at(seconds)));
        assert_eq!(places, [Position::new(1.0, 2.0), Position::new(4.0, 5.0)], "{text}");
    }
}
