//! Records the frames on a net for observers.

use std::io;

use base::ethernet::HEADER;
use base::time::Time;
use sim::Class;
use sim::capture::{Capture, Direction};
use sim::cnr::{Precedence, Transmission, TransmissionKind};

use super::NetHub;
use crate::air::frames::class_of;

/// A frame that was on the air.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetSeen {
    /// The frame.
    pub transmission: Transmission,
    /// The traffic class of the packet; control from hop to hop for frames without a packet.
    pub class: Class,
    /// The precedence of the packet; routine for frames without a packet.
    pub precedence: Precedence,
}

/// The frames since the last call of [`NetHub::take_seen`], up to a limit, and the capture of packets.
#[derive(Debug, Default)]
pub struct Watch {
    limit: usize,
    seen: Vec<NetSeen>,
    missed: u64,
    capture: Option<Capture>,
}

impl NetHub {
    /// Keeps frames on the air from now on, up to `limit` between two calls of [`NetHub::take_seen`].
    pub fn watch(&mut self, limit: usize) {
        self.watch.limit = limit;
        self.medium.observe(limit > 0 || self.watch.capture.is_some());
    }

    /// Takes the frames on the air since the last call, in the order of their ends, and the number of further frames.
    pub fn take_seen(&mut self) -> (Vec<NetSeen>, u64) {
        (std::mem::take(&mut self.watch.seen), std::mem::take(&mut self.watch.missed))
    }

    /// Writes every packet on the air to a capture from now on; the stations are the capture's interfaces.
    pub fn capture(&mut self, capture: Capture) {
        self.watch.capture = Some(capture);
        self.medium.observe(true);
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// When the capture could not be written, now or earlier.
    pub fn finish_capture(&mut self) -> io::Result<()> {
        self.watch.capture.take().map_or(Ok(()), |mut capture| capture.finish())
    }

    pub(crate) fn note(&mut self, now: Time, transmission: Transmission) {
        let carries = transmission.kind == TransmissionKind::Data;
        let frame = if carries { self.frames.held(transmission.token) } else { &[] };
        let packet = frame.get(HEADER..).unwrap_or_default();
        let Watch { limit, seen, missed, capture } = &mut self.watch;
        if let Some(capture) = capture.as_mut().filter(|_| carries) {
            let interface = u32::try_from(transmission.from.0).expect("a net has fewer stations");
            capture.write(now, interface, Direction::Out, packet);
        }
        if seen.len() >= *limit {
            *missed += u64::from(*limit > 0);
            return;
        }
        let (class, precedence) = if carries {
            (class_of(frame), Precedence::of_packet(packet))
        } else {
            (Class::HopAck, Precedence::Routine)
        };
        seen.push(NetSeen { transmission, class, precedence });
    }
}
