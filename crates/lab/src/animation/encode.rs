//! Encodes a recording in octets, for the player.
//!
//! All numbers are unsigned LEB128: seven bits an octet, the lowest first, the eighth set where another octet
//! follows. Numbers with a sign fold it into the lowest bit. Times are microseconds, places centimetres. Similar
//! numbers stand together, column by column, so that they deflate well:
//!
//! ```text
//!  for each node   x, y, legs; for each leg: rest before it, time on it, x and y from where it began
//!                  spans when the radio is off
//!  for each wire   spans when it is down; of spans: how many, then pause before, length
//!  routes          how many; times since the one before, nodes, targets, next nodes + 1 or 0,
//!                  half tunnels' targets + 1 or 0
//!  samples         how many; of each flow octets received; of each node packets waiting, sent, lost,
//!                  dropped
//!  frames          how many; times since the one before, how long each took, senders,
//!                  receivers + 1 or 0, kinds + 8 if lost, 0 or flows x 2 + 1 + 1 if going back
//! ```
//!
//! Names and what else is short stand beside it as JSON.

use std::io::Write as _;
use std::ops::Range;

use base::time::Time;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sim::mobility::{Motion, Position};

use super::frames::Frames;
use super::recording::{Recording, RouteChange};
use super::samples::Samples;

/// The octets of a recording, deflated (RFC 1951).
#[must_use]
pub fn encode(recording: &Recording) -> Vec<u8> {
    let mut writer = Writer::default();
    for node in &recording.nodes {
        writer.motion(&node.motion);
        writer.spans(node.radio.as_ref().map_or(&[], |radio| &radio.off));
    }
    for wire in &recording.wires {
        writer.spans(&wire.down);
    }
    writer.routes(&recording.routes);
    writer.samples(&recording.samples);
    writer.frames(&recording.frames);
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    let written = encoder.write_all(&writer.0).and_then(|()| encoder.finish());
    written.expect("a vector takes all octets")
}

/// More takes several times as long and saves next to nothing.
const LEVEL: u32 = 6;

#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    fn index(&mut self, index: usize) {
        self.number(index as u64);
    }

    fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63).cast_unsigned());
    }

    fn motion(&mut self, motion: &Motion) {
        let mut at = centimetres(motion.position(Time::ZERO));
        let mut now = 0;
        self.signed(at[0]);
        self.signed(at[1]);
        self.index(motion.legs().len());
        for leg in motion.legs() {
            let (start, end) = (micros(leg.start), micros(leg.end));
            let place = centimetres(leg.to);
            self.number(start.saturating_sub(now));
            self.number(end.saturating_sub(start));
            self.signed(place[0] - at[0]);
            self.signed(place[1] - at[1]);
            (now, at) = (end, place);
        }
    }

    fn spans(&mut self, spans: &[Range<Time>]) {
        self.index(spans.len());
        let mut now = 0;
        for span in spans {
            let (start, end) = (micros(span.start), micros(span.end));
            self.number(start.saturating_sub(now));
            self.number(end.saturating_sub(start));
            now = end;
        }
    }

    fn routes(&mut self, routes: &[RouteChange]) {
        self.index(routes.len());
        self.times(routes.iter().map(|change| change.at));
        routes.iter().for_each(|change| self.index(change.node));
        routes.iter().for_each(|change| self.index(change.target));
        routes.iter().for_each(|change| self.index(change.via.map_or(0, |via| via + 1)));
        routes.iter().for_each(|change| self.index(change.tunnel.map_or(0, |end| end + 1)));
    }

    fn samples(&mut self, samples: &Samples) {
        self.index(samples.len());
        for series in &samples.received {
            series.iter().for_each(|octets| self.number(*octets));
        }
        for node in &samples.nodes {
            node.iter().for_each(|sample| self.number(sample.waiting));
            node.iter().for_each(|sample| self.number(sample.sent));
            node.iter().for_each(|sample| self.number(sample.lost));
            node.iter().for_each(|sample| self.number(sample.dropped));
        }
    }

    fn frames(&mut self, Frames { shown, .. }: &Frames) {
        self.index(shown.len());
        self.times(shown.iter().map(|frame| frame.start));
        shown.iter().for_each(|frame| {
            self.number(micros(frame.end).saturating_sub(micros(frame.start)));
        });
        shown.iter().for_each(|frame| self.index(frame.from));
        shown.iter().for_each(|frame| self.index(frame.to.map_or(0, |to| to + 1)));
        shown
            .iter()
            .for_each(|frame| self.number(frame.kind as u64 | u64::from(frame.is_lost) << 3));
        shown.iter().for_each(|frame| {
            self.index(frame.flow.map_or(0, |(flow, back)| flow * 2 + 1 + usize::from(back)));
        });
    }

    fn times(&mut self, times: impl Iterator<Item = Time>) {
        let mut last = 0;
        for time in times.map(micros) {
            self.number(time.saturating_sub(last));
            last = last.max(time);
        }
    }
}

/// Microseconds since the beginning.
pub fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

/// A place in centimetres.
fn centimetres(place: Position) -> [i64; 2] {
    [place.x, place.y].map(|metres| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it saturates, far beyond any scenario"
        )]
        let rounded = (metres * 100.0).round() as i64;
        rounded.clamp(-FARTHEST, FARTHEST)
    })
}

/// Ten thousand kilometres; the difference of two such places is exact in every program.
const FARTHEST: i64 = 1_000_000_000;
