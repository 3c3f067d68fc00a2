//! Draws pictures of combat nets: each transmission, its sender, time and outcome.

use base::time::Time;
use sim::cnr::{Transmission, TransmissionKind};

use crate::figure::timeline::{Kind, Span, Station, Timeline};

/// The kinds of frames in a net; where frames share a transmission, the last of their kinds is shown.
const LEGEND: [(Kind, &str); 6] = [
    (Kind::Control, "topology update"),
    (Kind::Ack, "acknowledgement"),
    (Kind::Lost, "lost to noise"),
    (Kind::Repeat, "packets again"),
    (Kind::Data, "packets"),
    (Kind::Collision, "collision"),
];

/// Transmissions of a station at most; what comes later is not drawn.
const MOST: usize = 100_000;

/// The transmissions of a net, station by station.
#[derive(Clone, Debug)]
pub struct Strips {
    stations: Vec<Station>,
}

impl Strips {
    /// Empty strips for stations with these names.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let station = |name| Station { name, spans: Vec::new() };
        Self { stations: names.into_iter().map(station).collect() }
    }

    /// Adds a frame that was on the air. Frames of a shared transmission become one span, of the most telling kind.
    pub fn add(&mut self, frame: &Transmission) {
        let spans = &mut self.stations[frame.from.0].spans;
        let [start, end] = [frame.start, frame.end].map(Time::as_secs_f64);
        let kind = kind_of(frame);
        if let Some(last) = spans.last_mut().filter(|last| last.start >= start) {
            let rank = |kind: Kind| LEGEND.iter().position(|(other, _)| *other == kind);
            last.kind = std::cmp::max_by_key(last.kind, kind, |kind| rank(*kind));
        } else if spans.len() < MOST {
            spans.push(Span { start, end, kind });
        }
    }

    /// The picture.
    #[must_use]
    pub fn timeline(self, subtitle: String) -> Timeline {
        Timeline {
            name: "net".to_owned(),
            title: "Who transmitted when".to_owned(),
            subtitle,
            legend: &LEGEND,
            stations: self.stations,
            note: "A transmission begins with key-up, phasing and its header, and others notice it only then. Black ones \
                   were destroyed by another at some of those who hear their sender, or these transmitted themselves. Where nobody transmits, all \
                   wait for their slot, or have nothing to send."
                .to_owned(),
        }
    }
}

/// The kind of a frame: a bad outcome comes first, then the content.
fn kind_of(frame: &Transmission) -> Kind {
    if frame.collided > 0 {
        return Kind::Collision;
    }
    match frame.kind {
        TransmissionKind::Ack => Kind::Ack,
        TransmissionKind::Update => Kind::Control,
        TransmissionKind::Data if !frame.is_received => Kind::Lost,
        TransmissionKind::Data if frame.is_repeat => Kind::Repeat,
        TransmissionKind::Data => Kind::Data,
    }
}

#[cfg(test)]
mod tests {
    use sim::cnr::StationId;

    use super::*;

    #[test]
    fn every_transmission_is_one_span_of_what_became_of_it() {
        let mut strips = Strips::new(["a", "b"].map(str::to_owned));
        let clean = Transmission {
            start: at(0),
            end: at(1),
            kind: TransmissionKind::Data,
            from: StationId(0),
            to: Some(StationId(1)),
            token: 7,
            octets: 100,
            heard: [1, 0],
            collided: 0,
            is_repeat: false,
            is_received: true,
        };
        let later = |start| Transmission { start: at(start), end: at(start + 1), ..clean };
        for frame in [
            clean,
            // It shares the transmission.
            Transmission { is_received: false, ..clean },
            Transmission { collided: 1, is_received: false, ..later(2) },
            Transmission { is_received: false, ..later(4) },
            Transmission { is_repeat: true, ..later(6) },
            Transmission { kind: TransmissionKind::Ack, from: StationId(1), ..later(8) },
            Transmission { kind: TransmissionKind::Update, ..later(10) },
            // As a packet with an update does.
            Transmission { kind: TransmissionKind::Update, ..later(12) },
            later(12),
        ] {
            strips.add(&frame);
        }

        let timeline = strips.timeline(String::new());

        let kinds = |station: usize| {
            let spans = timeline.stations[station].spans.iter();
            spans.map(|it| (it.start, it.kind)).collect::<Vec<_>>()
        };
        let first = [
            (0.0, Kind::Data),
            (2.0, Kind::Collision),
            (4.0, Kind::Lost),
            (6.0, Kind::Repeat),
            (10.0, Kind::Control),
            (12.0, Kind::Data),
        ];
        assert_eq!(kinds(0), first);
        assert_eq!(kinds(1), [(8.0, Kind::Ack)]);
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }
}
