//! Records the frames on the air for observers.

use sim::Class;
use sim::radio::{FrameKind, Transmission};

use super::RadioHub;
use crate::air::frames::class_of;

/// A frame that was on the air.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The frame.
    pub transmission: Transmission,
    /// The traffic class of the packet; control from hop to hop for frames without a packet.
    pub class: Class,
}

/// The frames since the last call of [`RadioHub::take_seen`], up to a limit.
#[derive(Debug, Default)]
pub struct Watch {
    limit: usize,
    seen: Vec<Seen>,
    missed: u64,
}

impl RadioHub {
    /// Keeps frames on the air from now on, up to `limit` between two calls of [`RadioHub::take_seen`].
    pub fn watch(&mut self, limit: usize) {
        self.watch.limit = limit;
        self.medium.observe(limit > 0);
    }

    /// Takes the frames on the air since the last call, in the order of their ends, and the number of further frames.
    pub fn take_seen(&mut self) -> (Vec<Seen>, u64) {
        (std::mem::take(&mut self.watch.seen), std::mem::take(&mut self.watch.missed))
    }

    /// Frames that wait before a station's MAC now.
    #[must_use]
    pub fn waiting(&self, station: usize) -> usize {
        self.stations[station].waiting()
    }

    pub(crate) fn note(&mut self, transmission: Transmission) {
        let Watch { limit, seen, missed } = &mut self.watch;
        if seen.len() >= *limit {
            *missed += 1;
            return;
        }
        let frame = self.frames.held(transmission.token);
        let class = match transmission.kind {
            FrameKind::Broadcast | FrameKind::Data => class_of(frame),
            FrameKind::Ack | FrameKind::Cts | FrameKind::Rts => Class::HopAck,
        };
        seen.push(Seen { transmission, class });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::ip::{Spec, protocol};
    use base::time::Time;
    use sim::mobility::{Motion, Position};
    use sim::radio::{Config, StationId};

    use super::super::Hub as _;
    use super::*;

    #[test]
    fn what_is_on_the_air_is_seen_as_what_it_is_for() {
        let mut hub = hub();
        hub.watch(100);
        hub.handle_frame(Time::ZERO, 1, &[&frame(0xff, protocol::UDP, &[0, 9, 2, 0xba])]);
        hub.handle_timeout(seconds(1));
        hub.handle_frame(seconds(1), 0, &[&frame(1, protocol::TCP, &segment(9))]);
        hub.handle_timeout(seconds(2));
        hub.handle_frame(seconds(2), 0, &[&frame(1, protocol::TCP, &segment(0))]);
        hub.handle_timeout(seconds(3));

        let (seen, missed) = hub.take_seen();

        let hello = [(1, None, Class::Routing)];
        let exchange = |class| {
            let [there, back] = [(0, Some(1)), (1, Some(0))];
            let frames = [(there, Class::HopAck), (back, Class::HopAck)];
            let data = [(there, class), (back, Class::HopAck)];
            frames.into_iter().chain(data).map(|((from, to), class)| (from, to, class))
        };
        let all = hello.into_iter().chain(exchange(Class::Data)).chain(exchange(Class::Ack));
        let of = |seen: &Seen| {
            let Transmission { from, to, is_received, .. } = seen.transmission;
            assert!(is_received);
            (from.0, to.map(|StationId(to)| to), seen.class)
        };
        assert_eq!(seen.iter().map(of).collect::<Vec<_>>(), all.collect::<Vec<_>>());
        assert_eq!((missed, hub.take_seen()), (0, (vec![], 0)));
    }

    #[test]
    fn more_than_there_is_room_for_is_counted_and_nothing_is_kept_unasked() {
        let mut hub = hub();
        let broadcast = |hub: &mut RadioHub, second| {
            hub.handle_frame(seconds(second), 0, &[&frame(0xff, protocol::UDP, &[0; 8])]);
            hub.handle_timeout(seconds(second + 1));
        };
        broadcast(&mut hub, 0);
        let before = hub.take_seen();
        hub.watch(2);
        (1..6).for_each(|second| broadcast(&mut hub, second));

        let (seen, missed) = hub.take_seen();

        assert_eq!(before, (vec![], 0));
        assert_eq!((seen.len(), missed), (2, 3));
    }

    /// Two stations in range of each other.
    fn hub() -> RadioHub {
        let motions = [0.0, 200.0].map(|x| (x.to_string(), Motion::at_rest(Position::new(x, 0.0))));
        RadioHub::new(Config::default(), motions, 10, 1)
    }

    /// An IP packet to a station from the other station, or from it to all.
    fn frame(to: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mac = |station| if station == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, station] };
        let mut frame = [mac(to), mac(1 - (to & 1))].concat();
        if to == 0xff {
            frame[11] = 1;
        }
        frame.extend_from_slice(&[0x08, 0x00]);
        let [from, to] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::IpAddr::from);
        Spec::new(from, to, protocol).emit(payload.len(), &mut frame);
        frame.extend_from_slice(payload);
        frame
    }

    fn segment(payload: usize) -> Vec<u8> {
        let mut segment = vec![0; 20 + payload];
        segment[12] = 5 << 4;
        segment
    }

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }
}
