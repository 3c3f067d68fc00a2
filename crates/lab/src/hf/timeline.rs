//! Pictures and captures of the records of nodes.

use std::io;
use std::path::Path;

use base::time::Time;
use hf::s5066::node::{FrameKind, Record};
use sim::capture::{Capture, Direction, LinkType};

use crate::figure::timeline::{HF, Kind, Span, Station, Timeline};
use crate::prelude::*;

/// A timeline of all transmissions, made from the records of each station.
#[must_use]
pub fn timeline(title: &str, stations: &[(String, Vec<Record>)]) -> Timeline {
    Timeline {
        name: "timeline".to_owned(),
        title: title.to_owned(),
        subtitle: String::new(),
        legend: &HF,
        stations: stations.iter().map(|(name, records)| station(name, records)).collect(),
        note:
            "Where no station transmits, they turn around: the last block is decoded, the answer \
               gathered, the transmitter switched on."
                .to_owned(),
    }
}

impl Exchange {
    /// Its picture.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        let timeline = timeline(&self.title, &self.stations);
        Timeline { name: self.name.clone(), subtitle: self.subtitle.clone(), ..timeline }
    }
}

/// Writes all frames to a file that other tools decode: an interface for each station.
///
/// # Errors
/// When the file cannot be written.
pub fn capture(path: &Path, stations: &[(String, Vec<Record>)]) -> io::Result<()> {
    let mut capture = Capture::create_whole(path)?;
    let mut frames: Vec<(Time, u32, Direction, &[u8])> = Vec::new();
    for (name, records) in stations {
        let interface = capture.add_interface(name, LinkType::DPdu);
        frames.extend(records.iter().filter_map(|record| match record {
            Record::Heard { at, octets, .. } => Some((*at, interface, Direction::In, &octets[..])),
            Record::Keyed { .. } => None,
            Record::Sent { start, octets, .. } => {
                Some((*start, interface, Direction::Out, &octets[..]))
            }
        }));
    }
    frames.sort_by_key(|(at, ..)| *at);
    for (at, interface, direction, octets) in frames {
        capture.write(at, interface, direction, octets);
    }
    capture.finish()
}

fn station(name: &str, records: &[Record]) -> Station {
    let mut spans: Vec<Span> = records.iter().filter_map(span).collect();
    // A transmission is recorded after its frames, but drawn before them.
    spans.sort_by(|a, b| a.start.total_cmp(&b.start));
    Station { name: name.to_owned(), spans }
}

/// The span of a record in a picture; `None` for receptions.
#[must_use]
pub fn span(record: &Record) -> Option<Span> {
    let (start, end, kind) = match record {
        Record::Heard { .. } => return None,
        Record::Keyed { start, end, .. } => (start, end, Kind::Carrier),
        Record::Sent { start, end, kind, .. } => (start, end, shown(*kind)),
    };
    Some(Span { start: start.as_secs_f64(), end: end.as_secs_f64(), kind })
}

fn shown(kind: FrameKind) -> Kind {
    match kind {
        FrameKind::Ack => Kind::Ack,
        FrameKind::Control => Kind::Control,
        FrameKind::Data => Kind::Data,
        FrameKind::Padding => Kind::Carrier,
        FrameKind::Repeat => Kind::Repeat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn sent(start: u64, end: u64, kind: FrameKind) -> Record {
        Record::Sent { start: at(start), end: at(end), kind, octets: vec![0x90, 0xeb] }
    }

    #[test]
    fn frames_lie_on_the_transmission_that_carried_them() {
        let records = vec![
            sent(2, 5, FrameKind::Data),
            sent(5, 6, FrameKind::Repeat),
            Record::Keyed { start: at(1), end: at(7), waveform: "9600".parse().unwrap() },
            Record::Heard { at: at(9), is_good: true, octets: vec![0x90, 0xeb] },
        ];

        let timeline = timeline("An exchange", &[("A".to_owned(), records)]);

        let spans: Vec<_> =
            timeline.stations[0].spans.iter().map(|it| (it.start, it.end, it.kind)).collect();
        assert_eq!(
            spans,
            [(1.0, 7.0, Kind::Carrier), (2.0, 5.0, Kind::Data), (5.0, 6.0, Kind::Repeat)]
        );
    }
}
