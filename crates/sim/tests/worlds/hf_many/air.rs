//! An HF frequency with live stations, dead stations and forgers.

use std::collections::VecDeque;

use base::time::{Time, earliest};
use hf::modem::{Event, Keying, Waveform};
use hf::s5066::Node;
use sim::hf::{Config, Medium, StationId};

/// Stations on a frequency, each with its modem.
pub struct Air {
    pub(crate) medium: Medium,
    pub(crate) stations: Vec<Station>,
    buffer: Vec<u8>,
}

/// Who uses a modem.
pub enum Station {
    /// Nobody: nothing is answered.
    Dead,
    /// Sends these octets, one transmission each, regardless of received frames.
    Forger { waiting: VecDeque<(Waveform, Vec<u8>)>, sending: Vec<u8>, sent: usize },
    /// A correct node.
    Node(Box<Node>),
}

impl Station {
    pub fn forger() -> Self {
        Self::Forger { waiting: VecDeque::new(), sending: Vec::new(), sent: 0 }
    }

    fn handle_modem(&mut self, now: Time, event: Event) {
        if let Self::Node(node) = self {
            node.handle_modem(now, event);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::Node(node) => node.next_timeout(),
            Self::Dead | Self::Forger { .. } => None,
        }
    }

    fn poll_transmit(
        &mut self,
        now: Time,
        is_idle: bool,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Option<Keying> {
        match self {
            Self::Node(node) => node.poll_transmit(now, room, out),
            Self::Dead => (!is_idle).then_some(Keying::End),
            Self::Forger { waiting, sending, sent } => {
                if is_idle {
                    let (waveform, octets) = waiting.pop_front()?;
                    (*sending, *sent) = (octets, 0);
                    return Some(Keying::Start(waveform));
                }
                let piece = room.min(sending.len() - *sent);
                if piece == 0 {
                    return Some(Keying::End);
                }
                out.extend_from_slice(&sending[*sent..*sent + piece]);
                *sent += piece;
                Some(Keying::Octets)
            }
        }
    }
}

impl Air {
    pub fn new(config: Config, stations: Vec<Station>, seed: u64) -> Self {
        let medium = Medium::new(config, stations.len(), seed);
        Self { medium, stations, buffer: Vec::new() }
    }

    /// The node of a live station.
    pub fn node(&mut self, at: usize) -> Option<&mut Node> {
        match &mut self.stations[at] {
            Station::Node(node) => Some(node),
            Station::Dead | Station::Forger { .. } => None,
        }
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.medium.handle_timeout(now);
        for station in &mut self.stations {
            if let Station::Node(node) = station
                && node.next_timeout().is_some_and(|at| at <= now)
            {
                node.handle_timeout(now);
                assert!(node.next_timeout().is_none_or(|at| at > now), "it spins");
            }
        }
        self.settle(now);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let stations = self.stations.iter().filter_map(Station::next_timeout);
        earliest(self.medium.next_timeout(), stations.min())
    }

    /// Carries events and octets between modems and who uses them until nothing is left.
    pub fn settle(&mut self, now: Time) {
        let mut is_touched = true;
        while std::mem::take(&mut is_touched) {
            for (index, station) in self.stations.iter_mut().enumerate() {
                let id = StationId(index);
                let is_idle = !self.medium.is_transmitting(id);
                self.medium.serve(now, id, &mut self.buffer, |room, out| {
                    station.poll_transmit(now, is_idle && room == 0, room, out)
                });
            }
            while let Some((StationId(index), event)) = self.medium.poll_event() {
                self.stations[index].handle_modem(now, event);
                is_touched = true;
            }
        }
    }
}
