//! A few seconds of a run as an SVG that loops, for a page of text.
//!
//! Everything moves by SMIL along one loop; a value for a part of the loop is one at the part's beginning and none at
//! its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use base::time::Time;
use sim::mobility::Position;

use super::frames::{Frame, Kind};
use super::recording::Recording;
use super::still::View;
use super::ways::{Way, ways};
use crate::figure::escape;

/// The part of the run that is shown, in a loop of ten seconds.
const SHOWN: Duration = Duration::from_secs(15);
/// Part of the loop in which a packet is seen.
const FLIGHT: f64 = 0.06;
/// Packets at most, and octets: a picture on a page of text is looked at before the text is.
const PACKETS: usize = 200;
const OCTETS: usize = 200_000;
/// More nodes than this have so many links that the picture would be all lines.
const FEW: usize = 16;

const WIDTH: f64 = 800.0;
const MARGIN: f64 = 56.0;
const FLOWS: [&str; 3] = ["#0072b2", "#cc5aa0", "#009e73"];

/// An SVG that loops, of at most about 200 kB: it shows the part of the run in which the flows' ways changed most.
#[must_use]
pub fn to_looping_svg(recording: &Recording) -> String {
    let ways: Vec<Vec<Way>> = recording.flows.iter().map(|flow| ways(recording, flow)).collect();
    let mut packets = PACKETS;
    loop {
        let svg = Loop::new(recording, &ways).draw(packets);
        if svg.len() <= OCTETS || packets == 0 {
            return svg;
        }
        packets /= 2;
    }
}

struct Loop<'a> {
    recording: &'a Recording,
    ways: &'a [Vec<Way>],
    part: Range<Time>,
    view: View,
    height: f64,
    svg: String,
}

impl<'a> Loop<'a> {
    fn new(recording: &'a Recording, ways: &'a [Vec<Way>]) -> Self {
        let part = liveliest(recording, ways);
        let places = recording.nodes.iter().flat_map(|node| {
            let turns = node.motion.legs().iter().flat_map(|leg| [leg.start, leg.end]);
            let times = turns.filter(|time| part.contains(time)).chain([part.start, part.end]);
            times.map(|time| node.motion.position(time)).collect::<Vec<_>>()
        });
        let places: Vec<Position> = places.collect();
        let span = |of: fn(&Position) -> f64| {
            let least = places.iter().map(of).fold(f64::INFINITY, f64::min);
            (places.iter().map(of).fold(f64::NEG_INFINITY, f64::max) - least).max(1.0)
        };
        let (wide, high) = (span(|place| place.x), span(|place| place.y));
        let height = (WIDTH * high / wide).clamp(180.0, 560.0).round();
        let view = View::new(&places, WIDTH, height, MARGIN);
        Self { recording, ways, part, view, height, svg: String::new() }
    }

    fn draw(mut self, packets: usize) -> String {
        let (height, from) = (self.height, self.part.start.as_secs_f64());
        let title = escape(&self.recording.title);
        let _ = write!(
            self.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             role=\"img\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"13\">\n\
             <title>{title}: {:.0} s from {from:.0} s on, in a loop</title>\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" rx=\"10\"/>\n<g>\n",
            self.seconds(),
        );
        self.ranges();
        self.links();
        self.wires();
        self.routes();
        self.packets(packets);
        self.nodes();
        // The end of the loop is not its beginning: it fades.
        let _ = write!(
            self.svg,
            "<animate attributeName=\"opacity\" values=\"0;1;1;0\" keyTimes=\"0;.03;.97;1\" {TIMING}/>\
             </g>\n</svg>\n",
        );
        self.svg
    }

    fn seconds(&self) -> f64 {
        self.part.end.since(self.part.start).as_secs_f64()
    }

    /// The part of the loop that has passed at a time.
    fn passed(&self, time: Time) -> f64 {
        let passed = time.min(self.part.end).since(self.part.start).as_secs_f64();
        passed / self.seconds().max(1e-9)
    }

    fn at(&self, node: usize, time: Time) -> [f64; 2] {
        self.view.pixels(self.recording.nodes[node].motion.position(time))
    }

    /// When one of these nodes sets out or arrives, and the ends of the loop.
    fn turns(&self, nodes: &[usize]) -> Vec<Time> {
        let legs = nodes.iter().flat_map(|node| self.recording.nodes[*node].motion.legs());
        let turns = legs.flat_map(|leg| [leg.start, leg.end]);
        let inside = turns.filter(|time| self.part.start < *time && *time < self.part.end);
        let mut turns: Vec<Time> = inside.chain([self.part.start, self.part.end]).collect();
        turns.sort_unstable();
        turns.dedup();
        turns
    }

    fn key_times(&self, times: &[Time]) -> String {
        let keys: Vec<String> = times.iter().map(|time| number(self.passed(*time), 4)).collect();
        keys.join(";")
    }

    /// Where a node's group is, and how it moves.
    fn place(&self, node: usize) -> (String, String) {
        let turns = self.turns(&[node]);
        let at = |time: &Time| {
            let [x, y] = self.at(node, *time);
            format!("{},{}", number(x, 1), number(y, 1))
        };
        let places: Vec<String> = turns.iter().map(at).collect();
        let start = places[0].clone();
        if places.iter().all(|place| *place == start) {
            return (start, String::new());
        }
        let moves = format!(
            "<animateTransform attributeName=\"transform\" type=\"translate\" values=\"{}\" \
             keyTimes=\"{}\" {TIMING}/>",
            places.join(";"),
            self.key_times(&turns),
        );
        (start, moves)
    }

    fn ranges(&mut self) {
        for (index, node) in self.recording.nodes.iter().enumerate() {
            let Some(radio) = &node.radio else { continue };
            let (place, moves) = self.place(index);
            let radius = number(self.view.length(radio.range), 1);
            let _ = writeln!(
                self.svg,
                "<circle class=\"range\" r=\"{radius}\" transform=\"translate({place})\">{moves}</circle>",
            );
        }
    }

    fn nodes(&mut self) {
        for (index, node) in self.recording.nodes.iter().enumerate() {
            let (place, moves) = self.place(index);
            let flow =
                self.recording.flows.iter().position(|it| it.from == index || it.to == index);
            let colour = flow.map_or(String::new(), |flow| {
                format!(" style=\"stroke:{};stroke-width:3.5\"", FLOWS[flow % FLOWS.len()])
            });
            let _ = writeln!(
                self.svg,
                "<g transform=\"translate({place})\">{moves}<circle class=\"node\" r=\"9\"{colour}/>\
                 <text y=\"25\" text-anchor=\"middle\">{}</text></g>",
                escape(&node.name),
            );
        }
    }

    fn links(&mut self) {
        let nodes = self.recording.nodes.len();
        if nodes > FEW {
            return;
        }
        let step = self.part.end.since(self.part.start) / 60;
        let times: Vec<Time> = (0..=60).map(|n| self.part.start + step * n).collect();
        for (a, b) in (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let seen = times.iter().map(|time| self.hears(a, b, *time));
            let spans = spans(&times, &seen.collect::<Vec<_>>());
            if !spans.is_empty() {
                self.line(a, b, "link", "", &spans);
            }
        }
    }

    fn hears(&self, a: usize, b: usize, now: Time) -> bool {
        let [near, far] = [a, b].map(|node| &self.recording.nodes[node]);
        let (Some(one), Some(other)) = (&near.radio, &far.radio) else { return false };
        let apart = near.motion.position(now).distance_squared(far.motion.position(now));
        let is_off = |off: &[Range<Time>]| off.iter().any(|span| span.contains(&now));
        apart <= one.range.min(other.range).powi(2) && !is_off(&one.off) && !is_off(&other.off)
    }

    fn wires(&mut self) {
        let recording = self.recording;
        for wire in &recording.wires {
            let mut up = vec![self.part.clone()];
            for down in &wire.down {
                let last = up.pop().expect("there is always a last one");
                up.push(last.start..down.start.clamp(last.start, last.end));
                up.push(down.end.clamp(last.start, last.end)..last.end);
            }
            up.retain(|span| !span.is_empty());
            let [a, b] = wire.ends;
            self.line(a, b, "wire", "", &up);
        }
    }

    fn routes(&mut self) {
        for (index, ways) in self.ways.iter().enumerate() {
            let mut used: BTreeMap<(usize, usize), Vec<Range<Time>>> = BTreeMap::new();
            for (place, way) in ways.iter().enumerate() {
                let end = ways.get(place + 1).map_or(self.part.end, |next| next.at);
                let span = way.at.max(self.part.start)..end.min(self.part.end);
                if span.is_empty() {
                    continue;
                }
                for hop in way.nodes.windows(2) {
                    used.entry((hop[0], hop[1])).or_default().push(span.clone());
                }
            }
            let colour = format!(" style=\"stroke:{}\"", FLOWS[index % FLOWS.len()]);
            for ((a, b), spans) in used {
                self.line(a, b, "way", &colour, &spans);
            }
        }
    }

    /// Draws a line between two nodes, visible in these spans of time.
    fn line(&mut self, a: usize, b: usize, class: &str, style: &str, spans: &[Range<Time>]) {
        let turns = self.turns(&[a, b]);
        let (mut ends, mut moves) = (String::new(), String::new());
        for (name, node, axis) in [("x1", a, 0), ("y1", a, 1), ("x2", b, 0), ("y2", b, 1)] {
            let places = turns.iter().map(|time| number(self.at(node, *time)[axis], 1));
            let places: Vec<String> = places.collect();
            let _ = write!(ends, " {name}=\"{}\"", places[0]);
            if places.iter().any(|place| *place != places[0]) {
                let _ = write!(
                    moves,
                    "<animate attributeName=\"{name}\" values=\"{}\" keyTimes=\"{}\" {TIMING}/>",
                    places.join(";"),
                    self.key_times(&turns),
                );
            }
        }
        moves.push_str(&self.visible(spans));
        let _ = writeln!(self.svg, "<line class=\"{class}\"{style}{ends}>{moves}</line>");
    }

    /// Shows something in these spans only, which are in order.
    fn visible(&self, spans: &[Range<Time>]) -> String {
        if matches!(spans, [all] if *all == self.part) {
            return String::new();
        }
        let (mut values, mut keys) = (vec!["hidden"], vec!["0".to_owned()]);
        let mut change = |at: String, value| {
            if keys.last().is_some_and(|last| *last == at) {
                *values.last_mut().expect("as many as keys") = value;
            } else {
                keys.push(at);
                values.push(value);
            }
        };
        for span in spans {
            change(number(self.passed(span.start), 4), "visible");
            change(number(self.passed(span.end), 4), "hidden");
        }
        format!(
            "<animate attributeName=\"visibility\" calcMode=\"discrete\" values=\"{}\" keyTimes=\"{}\" {TIMING}/>",
            values.join(";"),
            keys.join(";"),
        )
    }

    fn packets(&mut self, most: usize) {
        let latest = self.part.start + self.part.end.since(self.part.start).mul_f64(1.0 - FLIGHT);
        let shown = &self.recording.frames.shown;
        let first = shown.partition_point(|frame| frame.start < self.part.start);
        let last = shown.partition_point(|frame| frame.start < latest);
        let is_worth_it = |frame: &&Frame| {
            frame.to.is_some() && matches!(frame.kind, Kind::Data | Kind::Ack | Kind::Routing)
        };
        let frames: Vec<Frame> = shown[first..last].iter().filter(is_worth_it).copied().collect();
        for place in 0..most.min(frames.len()) {
            let frame = frames[place * frames.len() / most.min(frames.len())];
            self.packet(frame);
        }
    }

    fn packet(&mut self, frame: Frame) {
        let Some(to) = frame.to else { return };
        let starts = self.passed(frame.start);
        let ends = (starts + FLIGHT).min(1.0);
        let arrival = self.part.start + self.part.end.since(self.part.start).mul_f64(ends);
        let ([x1, y1], [x2, y2]) = (self.at(frame.from, frame.start), self.at(to, arrival));
        let colour = match (frame.is_lost, frame.kind, frame.flow) {
            (true, ..) => "#d55e00",
            (_, Kind::Routing, _) => "#e69f00",
            (_, _, Some((flow, _))) => FLOWS[flow % FLOWS.len()],
            (_, _, None) => "#5a6472",
        };
        let radius = if frame.kind == Kind::Ack { "2.5" } else { "4.5" };
        let part = if frame.is_lost { 0.6 } else { 1.0 };
        let keys = [starts, ends].map(|part| number(part, 4)).join(";");
        let motion = |name: &str, from: f64, to: f64| {
            let (from, to) = (number(from, 1), number(from + (to - from) * part, 1));
            format!(
                "<animate attributeName=\"{name}\" values=\"{from};{from};{to};{to}\" \
                 keyTimes=\"0;{keys};1\" {TIMING}/>",
            )
        };
        let _ = writeln!(
            self.svg,
            "<circle class=\"packet\" r=\"{radius}\" style=\"fill:{colour}\">{}{}<animate \
             attributeName=\"visibility\" calcMode=\"discrete\" values=\"hidden;visible;hidden\" \
             keyTimes=\"0;{keys}\" {TIMING}/></circle>",
            motion("cx", x1, x2),
            motion("cy", y1, y2),
        );
    }
}

const TIMING: &str = "dur=\"10s\" repeatCount=\"indefinite\"";

const STYLE: &str = "\
.paper{fill:#fff}text{fill:#1c2430;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px}\
.range{fill:#0072b2;fill-opacity:.03;stroke:#0072b2;stroke-opacity:.18}\
.node{fill:#fff;stroke:#1c2430;stroke-width:1.75}.link{stroke:#9aa5b3;stroke-opacity:.6;stroke-width:1.5}\
.wire{stroke:#6b7684;stroke-width:3}.way{stroke-width:10;stroke-opacity:.35;stroke-linecap:round}\
.packet{stroke:#fff;stroke-width:1.2}\
@media(prefers-color-scheme:dark){.paper{fill:#161c24}text{fill:#e6eaef;stroke:#161c24}\
.node{fill:#222b36;stroke:#e6eaef}.packet{stroke:#161c24}.way{stroke-opacity:.6}}";

/// The part of the run to show: the part in which the flows' ways changed most, and the first of equals; without
/// changes, the beginning of the traffic.
fn liveliest(recording: &Recording, ways: &[Vec<Way>]) -> Range<Time> {
    let end = Time::ZERO + recording.duration;
    let shown = SHOWN.min(recording.duration);
    let changes: Vec<Time> = ways.iter().flatten().map(|way| way.at).collect();
    let is_traffic = |frame: &&Frame| frame.kind == Kind::Data;
    let traffic = recording.frames.shown.iter().find(is_traffic).map_or(Time::ZERO, |it| it.start);
    let latest = end - shown;
    let lead = shown / 5;
    let starts = changes.iter().map(|at| (*at - lead).clamp(traffic.min(latest), latest));
    let count =
        |start: Time| changes.iter().filter(|at| (start..start + shown).contains(at)).count();
    let mut best = (0, traffic.min(latest));
    for start in starts {
        if count(start) > best.0 {
            best = (count(start), start);
        }
    }
    best.1..best.1 + shown
}

/// The spans in which something was seen at all of these times.
fn spans(times: &[Time], seen: &[bool]) -> Vec<Range<Time>> {
    let mut spans: Vec<Range<Time>> = Vec::new();
    for (pair, seen) in times.windows(2).zip(seen) {
        match spans.last_mut() {
            Some(last) if *seen && last.end == pair[0] => last.end = pair[1],
            _ if *seen => spans.push(pair[0]..pair[1]),
            _ => {}
        }
    }
    spans
}

/// A number with so many digits after the point, and no needless ones.
fn number(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
