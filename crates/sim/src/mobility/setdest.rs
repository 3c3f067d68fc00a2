//! Reads and writes movement files of ns-2's `setdest`, also used by other simulators.
//!
//! ```text
//!  $node_(0) set X_ 150.0                            where node 0 is at first; Y_ and Z_ as well
//!  $ns_ at 10.0 "$node_(0) setdest 250.0 50.0 2.5"   goes there from where it is then, at 2.5 m/s
//! ```
//!
//! Heights are read and not used. Nodes keep the numbers of the file. Comments are ignored. Commands for other
//! objects than nodes, such as the distances for the object `$god_`, are skipped and counted. Orders to nodes
//! without motion, such as `reset`, are skipped and counted too. Unknown commands for a node are an error: the
//! script is not run, so a loop placing nodes would move none.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::time::Time;

use super::motion::{Leg, Motion, Position};
use super::tcl::{Command, Script, Word};
use super::trace::{
    COORDINATE, Import, Invalid, MAX_LEGS, MAX_NODES, MAX_TIME, Problem, SPEED, TIME, Trace,
    expect_slow, number, plain, time,
};

/// Reads a movement file.
///
/// # Errors
/// When a command about a node is not understood, a node has no place, or the file is too long.
pub fn read(file: &[u8]) -> Result<Import, Invalid> {
    let octets = plain(file)?;
    let mut reader = Reader::default();
    for command in Script::new(&octets, 1) {
        reader.take(&command?)?;
    }
    reader.finish()
}

/// Writes a movement file. For a jump, `X_` and `Y_` of the node are `set` anew at the time of the jump;
/// ns-3 understands this.
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

/// State of reading a file.
#[derive(Debug, Default)]
struct Reader {
    nodes: BTreeMap<u32, Node>,
    /// The name of nodes in the file, before the number.
    name: Option<String>,
    /// Other names of numbered objects, each with the first order to such an object: the order is an error
    /// if the name turns out to be the name of nodes.
    others: BTreeMap<String, (usize, String)>,
    statements: usize,
    passed_over: usize,
}

/// What a command says about a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// Sets the height of the node, which is ignored.
    Height,
    /// Four numbers: the third is a height or a speed, the fourth a speed or something else.
    GoFour([f64; 4]),
    /// Go to a place at a speed.
    Go(Position, f64),
    /// Its coordinate from west to east.
    X(f64),
    /// Its coordinate from south to north.
    Y(f64),
}

/// What nodes are called in each file.
const NODE: &str = "node";
/// Other names of numbered objects that are remembered.
const MAX_OTHERS: usize = 1_000;
/// Orders to a node that move nothing.
const STILL: [&str; 13] = [
    "add-mark",
    "agent",
    "color",
    "delete-mark",
    "entry",
    "id",
    "label",
    "label-at",
    "label-color",
    "log-target",
    "namattach",
    "reset",
    "shape",
];

impl Reader {
    /// Takes a command of the file.
    fn take(&mut self, command: &Command) -> Result<(), Invalid> {
        let [object, at, time, script, ..] = &command.words[..] else {
            return self.act(command.line, &command.words, None);
        };
        if !object.text.starts_with('$') || at.text != "at" {
            return self.act(command.line, &command.words, None);
        }
        // Some leave the quotation marks out.
        if !script.text.contains(char::is_whitespace) && !script.text.contains(';') {
            return self.act(command.line, &command.words[3..], Some(&time.text));
        }
        if let Some(extra) = command.words.get(4) {
            return self.pass(extra.line, &command.words);
        }
        for command in Script::new(script.text.as_bytes(), script.line) {
            let command = command?;
            self.act(command.line, &command.words, Some(&time.text))?;
        }
        Ok(())
    }

    /// Takes an order; `time` is when it is given, if not before the run.
    fn act(&mut self, line: usize, words: &[Word], time: Option<&str>) -> Result<(), Invalid> {
        let invalid = |problem| Invalid { line, problem };
        let unknown = |text: &str| invalid(Problem::Unknown { text: text.to_owned() });
        let [object, rest @ ..] = words else { return Ok(()) };
        let object = &object.text[..];
        let rest: Vec<&str> = rest.iter().map(|word| &word.text[..]).collect();
        let moves = match rest[..] {
            ["setdest", ..] => true,
            ["set", axis, ..] => matches!(axis, "X_" | "Y_" | "Z_"),
            _ => false,
        };
        let named = numbered(object);
        let is_node = named.as_ref().is_some_and(|(name, _)| name == NODE);
        if !moves && !is_node {
            if let Some((name, _)) = named
                && !is_still(&rest)
                && self.others.len() < MAX_OTHERS
            {
                let text = rest.first().copied().unwrap_or("nothing").to_owned();
                self.others.entry(name).or_insert((line, text));
            }
            return self.pass(line, words);
        }
        let Some((name, node)) = named else { return Err(unknown(object)) };
        let Ok(node) = node.parse() else { return Err(unknown(object)) };
        if is_still(&rest) {
            self.passed_over += 1;
            return Ok(());
        }
        let order = Order::parse(line, &rest)?;
        match &self.name {
            Some(known) if *known != name => {
                let (one, other) = (known.clone(), name);
                return Err(invalid(Problem::Names { one, other }));
            }
            Some(_) => {}
            None => self.name = Some(name),
        }
        self.statements += 1;
        if self.statements > MAX_LEGS {
            return Err(invalid(Problem::TooMany { what: "movements", most: MAX_LEGS }));
        }
        if self.nodes.len() == MAX_NODES && !self.nodes.contains_key(&node) {
            return Err(invalid(Problem::TooMany { what: "nodes", most: MAX_NODES }));
        }
        let at = time.map(|time| number(line, "the time", Some(time), TIME)).transpose()?;
        // Before the run it is the same as at its beginning.
        let is_go = matches!(order, Order::Go(..) | Order::GoFour(_));
        let at = at.or(is_go.then_some(0.0));
        self.nodes.entry(node).or_insert_with(|| Node::new(line)).take(line, at, order);
        Ok(())
    }

    /// Passes over a command that concerns no node; one that has a motion somewhere is refused.
    fn pass(&mut self, line: usize, words: &[Word]) -> Result<(), Invalid> {
        let has_motion = |word: &Word| {
            ["setdest", "set X_", "set Y_"].iter().any(|motion| word.text.contains(motion))
        };
        let says = words.first().is_some_and(|word| word.text == "puts");
        match words.iter().find(|word| has_motion(word)) {
            Some(word) if !says => {
                let text = word.text.trim().to_owned();
                Err(Invalid { line, problem: Problem::Unknown { text } })
            }
            _ => {
                self.passed_over += 1;
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Import, Invalid> {
        let Self { nodes, name, others, passed_over, .. } = self;
        if let Some((line, text)) = name.and_then(|name| others.get(&name).cloned()) {
            return Err(Invalid { line, problem: Problem::Unknown { text } });
        }
        if nodes.is_empty() {
            return Err(Invalid { line: 1, problem: Problem::Nobody });
        }
        let motions = nodes.into_iter().map(|(number, it)| Ok((number, it.motion(number)?)));
        Ok(Import { trace: motions.collect::<Result<_, _>>()?, passed_over })
    }
}

/// Splits a numbered object such as `$node_(3)`, `$node(3)`, `$n3` into name and text of the number.
fn numbered(object: &str) -> Option<(String, &str)> {
    let object = object.strip_prefix('$')?;
    let (name, number) = match object.strip_suffix(')') {
        Some(object) => object.split_once('(')?,
        None => object.split_at(object.trim_end_matches(|c: char| c.is_ascii_digit()).len()),
    };
    let name = name.strip_suffix('_').unwrap_or(name);
    (!name.is_empty() && !number.is_empty()).then(|| (name.to_owned(), number))
}

/// Whether an order to a node moves nothing.
fn is_still(order: &[&str]) -> bool {
    matches!(order, [first, ..] if STILL.contains(first)) || matches!(order, ["random-motion", "0"])
}

impl Order {
    fn parse(line: usize, words: &[&str]) -> Result<Self, Invalid> {
        let unknown = |text: &str| {
            let problem = Problem::Unknown { text: text.to_owned() };
            Invalid { line, problem }
        };
        match *words {
            ["set", axis, ref values @ ..] => {
                let get = |what| match values {
                    [] | [_] => number(line, what, values.first().copied(), COORDINATE),
                    [_, extra, ..] => Err(unknown(&format!("{extra} behind set {axis}"))),
                };
                match axis {
                    "X_" => Ok(Self::X(get("X_")?)),
                    "Y_" => Ok(Self::Y(get("Y_")?)),
                    "Z_" => get("Z_").map(|_| Self::Height),
                    other => Err(unknown(&format!("set {other}"))),
                }
            }
            ["setdest", ref values @ ..] => {
                let get = |index: usize, what, allowed| {
                    number(line, what, values.get(index).copied(), allowed)
                };
                if values.len() > 4 {
                    let needed = "setdest takes x, y and a speed; or x, y, a height and a speed; \
                                  or x, y, a speed and a status";
                    let problem = Problem::Count { have: values.len(), needed };
                    return Err(Invalid { line, problem });
                }
                let (x, y) = (get(0, "x", COORDINATE)?, get(1, "y", COORDINATE)?);
                if values.len() == 4 {
                    let third = get(2, "the third number", COORDINATE)?;
                    let fourth = get(3, "the fourth number", COORDINATE)?;
                    return Ok(Self::GoFour([x, y, third, fourth]));
                }
                Ok(Self::Go(Position::new(x, y), get(2, "the speed", SPEED)?))
            }
            [other, ..] => Err(unknown(other)),
            [] => Err(unknown("nothing")),
        }
    }
}

/// What a file says about a node.
#[derive(Debug)]
struct Node {
    /// The line where the file first mentions the node.
    line: usize,
    x: Option<f64>,
    y: Option<f64>,
    has_height: bool,
    /// Timed orders during the run.
    orders: Vec<(f64, usize, Order)>,
}

impl Node {
    fn new(line: usize) -> Self {
        Self { line, x: None, y: None, has_height: false, orders: Vec::new() }
    }

    fn take(&mut self, line: usize, at: Option<f64>, order: Order) {
        self.has_height |= order == Order::Height;
        match (at, order) {
            (None, Order::X(x)) => self.x = Some(x),
            (None, Order::Y(y)) => self.y = Some(y),
            (Some(at), order) => self.orders.push((at, line, order)),
            (None, Order::Height | Order::Go(..) | Order::GoFour(_)) => {}
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
        for (at, line, order) in self.orders {
            let start = time(at);
            let place = motion.position(start);
            let (to, speed) = match order {
                Order::Height => continue,
                Order::X(x) => (Position { x, ..place }, None),
                Order::Y(y) => (Position { y, ..place }, None),
                Order::Go(to, speed) => (to, Some((speed, "the speed"))),
                // DisasterArea of BonnMotion writes a status behind the speed, and no heights.
                Order::GoFour([x, y, third, fourth]) => {
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
    use std::io::Write as _;
    use std::time::Duration;

    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn places(text: &str, node: u32, times: &[f64]) -> Vec<(f64, f64)> {
        let trace = read(text.as_bytes()).expect("a trace").trace;
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
                "line 3: the speed is \"missing\"; allowed are 0 to 299792458",
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
    }

    /// Node 0 at the origin, and node 1 beside it.
    const TWO: &str = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n\
                       $node_(1) set X_ 0\n$node_(1) set Y_ 10\n";

    #[test]
    fn no_way_of_writing_an_order_loses_a_movement() {
        let end = |text: &str| places(text, 0, &[900.0])[0];
        let go = "$ns_ at 1.0 \"$node_(0) setdest 900 0 100\"";

        for text in [
            format!("{TWO}{go}"),
            format!("\u{feff}{go}\n{TWO}"),
            format!("{TWO}$ns_ at 1.0 \\\n   \"$node_(0) \\\n setdest 900 0 100\"\n"),
            format!("{TWO}puts \"hello\"; {go}"),
            format!("{TWO}$ns_ at 1.0 {{$node_(0) setdest 900 0 100;}} ;# a comment"),
            format!("{TWO}$ns at 1.0 $node_(0) setdest 900 0 100"),
            format!("{TWO}{go}").replace('\n', "\r\n"),
            format!("{TWO}{go}").replace('\n', "\r"),
            format!("{TWO}{go}").replace("node_(", "n("),
            format!("{TWO}{go}").replace("node_(0)", "n0").replace("node_(1)", "n1"),
            format!("# comment \\\nthat goes on\n{TWO}{go}"),
        ] {
            assert_eq!(end(&text), (900.0, 0.0), "{text}");
        }
        for both in [
            "$ns_ at 5 \"$node_(0) set X_ 10; $node_(0) set Y_ 900\"",
            "$ns_ at 5 \"$node_(0) set X_ 10\n$node_(0) set Y_ 900\"",
            "$ns_ at 5 \"$node_(0) set X_ 10\"; $ns_ at 5 \"$node_(0) set Y_ 900\"",
        ] {
            assert_eq!(end(&format!("{TWO}{both}\n")), (10.0, 900.0), "{both}");
        }
    }

    #[test]
    fn a_compressed_file_is_read_and_so_is_one_with_comments_of_another_alphabet() {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(TWO.as_bytes()).expect("memory");
        let packed = encoder.finish().expect("memory");
        let comment = [&b"# f\xfcr alle; M\xe4rz\n"[..], TWO.as_bytes()].concat();

        let plain = read(TWO.as_bytes());

        assert!(plain.is_ok());
        assert_eq!(read(&packed), plain);
        assert_eq!(read(&comment), plain);
        let wide: Vec<u8> = "\u{feff}$n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(read(&wide).expect_err("a fault").problem, Problem::Wide);
    }

    #[test]
    fn nodes_have_the_numbers_of_the_file_and_what_concerns_none_is_counted() {
        let text = "set val(nn) 3\n$node_(1) set X_ 0\n$node_(1) set Y_ 0\n\
                    $node_(7) set X_ 5\n$node_(7) set Y_ 0\n$god_ set-dist 1 7 1\n\
                    $ns_ at 3 \"$god_ set-dist 1 7 2\"\n$ns_ at $val(stop) \"finish\"\n\
                    $ns_ initial_node_pos $node_(1) 20\n$ns_ at 9 \"$node_(1) reset\"\n\
                    $cbr_(0) start\nproc finish {} {\n  exit 0\n}\n";

        let Import { trace, passed_over } = read(text.as_bytes()).expect("a trace");

        assert_eq!(trace.keys().copied().collect::<Vec<_>>(), [1, 7]);
        assert_eq!(passed_over, 8);
    }

    #[test]
    fn whatever_is_said_of_a_node_and_not_understood_is_refused_with_its_line() {
        let refused = |line: &str| refused(&format!("{TWO}\n{line}\n"));
        let known = "is not known; a node is told to set X_, Y_ or Z_ or to setdest";
        for (line, expected) in [
            ("$node_(0) set X_ 1 2", format!("line 6: \"2 behind set X_\" {known}")),
            ("$node_(0) set X_ [expr 1+2]", "line 6: X_ is \"[expr 1+2]\"; allowed are".into()),
            ("$node_($i) set X_ 1", format!("line 6: \"$node_($i)\" {known}")),
            ("$node_(0) random-motion 1", format!("line 6: \"random-motion\" {known}")),
            (
                "$ns_ at 1 \"$node_(0) setdest 1 1 1\" x",
                format!("line 6: \"$node_(0) setdest 1 1 1\" {known}"),
            ),
            ("$ns_ at 1 \"$node_(0) reset;\n$node_(0) fly\"", format!("line 7: \"fly\" {known}")),
            (
                "$ns_ at $t \"$node_(0) setdest 1 1 1\"",
                "line 6: the time is \"$t\"; allowed are".into(),
            ),
            (
                "for {set i 0} {$i < 3} {incr i} { $node_($i) set X_ 1 }",
                "line 6: \"$node_($i) set X_ 1\" is".into(),
            ),
            ("[$ns_ node 3] setdest 1 1 1", format!("line 6: \"[$ns_ node 3]\" {known}")),
            (
                "$car_(0) set X_ 1",
                "line 6: the file calls its nodes \"node\", and this one \"car\"".into(),
            ),
            (
                "$ns_ at 1 \"$node_(0) setdest 1 1 1",
                "line 6: a quotation mark has no counterpart".into(),
            ),
        ] {
            assert!(refused(line).starts_with(&expected), "{line}: {}", refused(line));
        }
        // Only a later line shows that the object is a node.
        let late = "$car(0) fly\n$car(0) set X_ 1\n$car(0) set Y_ 1\n";
        assert_eq!(super::read(late.as_bytes()).expect_err("a fault").line, 1);
        assert_eq!(super::read(b"set x 1\n").expect_err("a fault").problem, Problem::Nobody);
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
        #![proptest_config(harness::cases(256))]

        #[test]
        fn what_is_written_reads_back(trace in motions()) {
            let again = read(write(&trace).as_bytes());
            if trace.is_empty() {
                prop_assert_eq!(again.map_err(|it| it.problem), Err(Problem::Nobody));
                return Ok(());
            }
            let again = again.expect("it was written").trace;

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
            if let Ok(Import { trace, .. }) = read(text.as_bytes()) {
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

        let again = read(text.as_bytes()).expect("it was written").trace;
        let places = [2.9, 3.0].map(|seconds| again[&2].position(at(seconds)));
        assert_eq!(places, [Position::new(1.0, 2.0), Position::new(4.0, 5.0)], "{text}");
    }
}
