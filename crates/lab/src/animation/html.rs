//! The page: a recording and its player in one file that asks for nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::encode::encode;
use super::recording::Recording;
use super::still::to_still_svg;
use crate::figure::escape;

const PAGE: &str = include_str!("player/page.html");
const STYLE: &str = include_str!("player/player.css");
/// The player, in the order in which its parts use each other.
const SCRIPTS: [&str; 7] = [
    include_str!("player/decode.js"),
    include_str!("player/model.js"),
    include_str!("player/scene.js"),
    include_str!("player/timeline.js"),
    include_str!("player/details.js"),
    include_str!("player/check.js"),
    include_str!("player/main.js"),
];

/// The octets that a page may have, unless its user says otherwise.
pub const USUAL_OCTETS: usize = 10_000_000;

/// A page that plays the recording. It has at most about `octets` octets: where the frames are too
/// many for that, fewer are shown, and the page says so.
#[must_use]
pub fn to_html(mut recording: Recording, octets: usize) -> String {
    let mut data = STANDARD.encode(encode(&recording));
    while data.len() > octets && !recording.frames.shown.is_empty() {
        recording.frames.thin();
        data = STANDARD.encode(encode(&recording));
    }
    let script = SCRIPTS.concat();
    let head = head(&recording).to_string().replace('<', "\\u003c");
    let still = to_still_svg(&recording);
    let title = escape(&recording.title);
    let fill = |place: &str| match place {
        "data" => &data,
        "head" => &head,
        "script" => &script,
        "still" => &still,
        "title" => &title,
        _ => STYLE,
    };
    // In one pass, so that nothing in a name is taken for a place to fill.
    let mut page = String::with_capacity(PAGE.len() + script.len() + STYLE.len() + data.len());
    for (index, part) in PAGE.split("{{").enumerate() {
        let (place, text) = part.split_once("}}").filter(|_| index > 0).unwrap_or(("", part));
        if index > 0 {
            page.push_str(fill(place));
        }
        page.push_str(text);
    }
    page
}

/// What is short: names, and how much of everything there is.
fn head(recording: &Recording) -> Value {
    let nodes = recording.nodes.iter().map(|node| {
        json!({
            "name": node.name,
            "placed": node.is_placed,
            "range": node.radio.as_ref().map(|radio| radio.range),
        })
    });
    let wires = recording.wires.iter().map(|wire| json!({"ends": wire.ends, "label": wire.label}));
    let flows = recording
        .flows
        .iter()
        .map(|flow| json!({"name": flow.name, "from": flow.from, "to": flow.to}));
    json!({
        "title": recording.title,
        "duration": recording.duration.as_micros(),
        "nodes": nodes.collect::<Vec<_>>(),
        "wires": wires.collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "targets": recording.targets,
        "interval": recording.samples.interval.as_micros(),
        "frames": {
            "total": recording.frames.total,
            "shown": recording.frames.shown.len(),
        },
        "routesMissing": recording.routes_missing,
    })
}
