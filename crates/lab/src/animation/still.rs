//! The beginning of a run as an SVG, for readers without a script.

use std::fmt::Write as _;

use base::time::Time;
use sim::mobility::Position;

use super::recording::Recording;
use crate::figure::escape;

/// Octets of the picture's width and height, in pixels.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 640.0;
const MARGIN: f64 = 60.0;

/// How places become pixels.
#[derive(Clone, Copy, Debug)]
pub struct View {
    left: f64,
    top: f64,
    scale: f64,
    edge: [f64; 2],
}

impl View {
    /// Shows all places in a picture of this size, with north up.
    pub fn new(places: &[Position], width: f64, height: f64, margin: f64) -> Self {
        let xs = || places.iter().map(|place| place.x);
        let ys = || places.iter().map(|place| place.y);
        let [left, bottom] =
            [xs().fold(f64::INFINITY, f64::min), ys().fold(f64::INFINITY, f64::min)];
        let [right, top] =
            [xs().fold(f64::NEG_INFINITY, f64::max), ys().fold(f64::NEG_INFINITY, f64::max)];
        if places.is_empty() {
            return Self { left: 0.0, top: 0.0, scale: 1.0, edge: [margin, margin] };
        }
        let (wide, high) = ((right - left).max(1.0), (top - bottom).max(1.0));
        let scale = ((width - 2.0 * margin) / wide).min((height - 2.0 * margin) / high);
        let edge =
            [(width - (right - left) * scale) / 2.0, (height - (top - bottom) * scale) / 2.0];
        Self { left, top, scale, edge }
    }

    pub fn pixels(self, place: Position) -> [f64; 2] {
        let (x, y) = (place.x - self.left, self.top - place.y);
        [x * self.scale + self.edge[0], y * self.scale + self.edge[1]]
    }

    pub fn length(self, metres: f64) -> f64 {
        metres * self.scale
    }
}

/// Every place where a node rests or turns.
pub fn places(recording: &Recording) -> Vec<Position> {
    let all = recording.nodes.iter().flat_map(|node| {
        let turns = node.motion.legs().iter().map(|leg| leg.to);
        std::iter::once(node.motion.position(Time::ZERO)).chain(turns)
    });
    all.collect()
}

/// The nodes, wires, ranges and names at the beginning.
pub fn to_still_svg(recording: &Recording) -> String {
    let view = View::new(&places(recording), WIDTH, HEIGHT, MARGIN);
    let at: Vec<[f64; 2]> =
        recording.nodes.iter().map(|node| view.pixels(node.motion.position(Time::ZERO))).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{} at its beginning: {} nodes\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n",
        escape(&recording.title),
        recording.nodes.len(),
    );
    for (node, [x, y]) in recording.nodes.iter().zip(&at) {
        if let Some(radio) = &node.radio {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"#0072b2\" \
                 fill-opacity=\"0.04\" stroke=\"#8a94a2\" stroke-opacity=\"0.5\"/>",
                view.length(radio.range),
            );
        }
    }
    for wire in &recording.wires {
        let [[x1, y1], [x2, y2]] = wire.ends.map(|end| at[end]);
        let _ = writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#5a6472\" \
             stroke-width=\"2\"/>",
        );
    }
    for (node, [x, y]) in recording.nodes.iter().zip(&at) {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" fill=\"#fff\" stroke=\"#1c2430\" \
             stroke-width=\"2\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             fill=\"#1c2430\">{}</text>",
            y + 26.0,
            escape(&node.name),
        );
    }
    svg.push_str("</svg>");
    svg
}
