//! Outbox of a station: frames queued by precedence, and sent frames awaiting acknowledgement.

use std::collections::VecDeque;

use super::config::{Config, LinkType};
use super::frame::{Frame, Precedence, Targets};
use super::hearing::Way;

/// A frame that waits, or is on its way.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub frame: Frame,
    /// The station that accepted the packet from its driver.
    pub origin: u8,
    /// Whether the frame is a topology update, unknown to drivers.
    pub is_update: bool,
    /// The relays, if some are needed.
    pub way: Way,
    /// Stations to which the link layer still has to deliver the frame.
    pub pending: Targets,
    /// The number by which receivers recognise repeats.
    pub number: u16,
    /// How often it was sent.
    pub tries: u8,
    /// When it is sent again unless it is acknowledged.
    pub due: u64,
}

impl Queued {
    /// Whether somebody is to acknowledge it.
    pub fn wants_ack(&self, link_type: LinkType) -> bool {
        link_type != LinkType::Unacknowledged && self.pending != Targets::All
    }
}

/// An acknowledgement of type 4.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    pub to: u8,
    pub number: u16,
    pub precedence: Precedence,
}

/// Frames and acknowledgements waiting in a station.
#[derive(Debug)]
pub struct Outbox {
    classes: [VecDeque<Queued>; 3],
    acks: VecDeque<Ack>,
    /// Frames of type 4 that were sent and are not acknowledged.
    flight: Vec<Queued>,
    link_type: LinkType,
    limit: usize,
    window: usize,
    /// Most octets of packets concatenated in one transmission.
    concatenate: u32,
}

/// Acknowledgements that may wait.
const MOST_ACKS: usize = 64;

impl Outbox {
    pub fn new(config: &Config) -> Self {
        Self {
            classes: Default::default(),
            acks: VecDeque::new(),
            flight: Vec::new(),
            link_type: config.link_type,
            limit: config.queue,
            window: config.window.into(),
            concatenate: config.concatenate,
        }
    }

    /// Enqueues a frame behind all others of its precedence; false if the queue is full.
    #[must_use]
    pub fn push(&mut self, queued: Queued) -> bool {
        let class = &mut self.classes[queued.frame.precedence.index()];
        let has_room = class.len() < self.limit;
        if has_room {
            class.push_back(queued);
        }
        has_room
    }

    /// Takes a frame back that is to be sent again, before all of its precedence.
    pub fn push_again(&mut self, queued: Queued) {
        self.classes[queued.frame.precedence.index()].push_front(queued);
    }

    /// Takes an acknowledgement; false if there are too many.
    #[must_use]
    pub fn push_ack(&mut self, ack: Ack) -> bool {
        let has_room = self.acks.len() < MOST_ACKS;
        if has_room {
            self.acks.push_back(ack);
        }
        has_room
    }

    /// The next acknowledgement.
    pub fn pop_ack(&mut self) -> Option<Ack> {
        self.acks.pop_front()
    }

    /// A frame of type 4 has left; it counts in the window until it is acknowledged or taken back.
    pub fn fly(&mut self, queued: Queued) {
        self.flight.push(Queued { due: u64::MAX, ..queued });
    }

    /// When a frame that has left is sent again.
    pub fn set_due(&mut self, number: u16, due: u64) {
        if let Some(flown) = self.flight.iter_mut().find(|it| it.number == number) {
            flown.due = due;
        }
    }

    /// Takes back a frame that was not acknowledged in time.
    pub fn take_overdue(&mut self, now: u64) -> Option<Queued> {
        let place = self.flight.iter().position(|queued| queued.due <= now)?;
        Some(self.flight.remove(place))
    }

    /// Takes the acknowledgement of a frame by one station; returns the frame if that was the last one.
    pub fn handle_ack(&mut self, number: u16, from: u8) -> Option<Queued> {
        let Some(place) = self.flight.iter().position(|queued| queued.number == number) else {
            return self.take_again(number, from);
        };
        let flown = &mut self.flight[place];
        let is_done = flown.pending.remove(from) && flown.pending.named().is_empty();
        is_done.then(|| self.flight.remove(place))
    }

    /// How many frames wait for their turn or for an acknowledgement.
    pub fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum::<usize>() + self.flight.len()
    }

    /// The precedence of what may be sent now.
    pub fn precedence(&self) -> Option<Precedence> {
        let frame = self.next().map(|queued| queued.frame.precedence);
        let ack = self.acks.iter().map(|ack| ack.precedence).min();
        frame.into_iter().chain(ack).min()
    }

    /// The next frame that may be sent now.
    pub fn next(&self) -> Option<&Queued> {
        let is_full = self.flight.len() >= self.window;
        let may_go = |queued: &&Queued| {
            !(is_full && self.link_type == LinkType::Decoupled && queued.wants_ack(self.link_type))
        };
        self.classes.iter().filter_map(VecDeque::front).find(may_go)
    }

    /// Takes the next frame if it may share a transmission with `before` frames that carry so many octets.
    pub fn take(&mut self, before: usize, octets: u32) -> Option<Queued> {
        let next = self.next()?;
        if before > 0 {
            let alone = self.link_type == LinkType::Coupled && next.wants_ack(self.link_type);
            if alone || octets.saturating_add(next.frame.octets) > self.concatenate {
                return None;
            }
        }
        let class = next.frame.precedence.index();
        self.classes[class].pop_front()
    }

    /// Removes the frame with this number from the frames to be sent again, after a late acknowledgement.
    fn take_again(&mut self, number: u16, from: u8) -> Option<Queued> {
        for class in &mut self.classes {
            let found = class.iter_mut().position(|it| it.tries > 0 && it.number == number);
            let Some(place) = found else { continue };
            let queued = &mut class[place];
            let is_new = queued.pending.remove(from);
            let is_done = is_new && queued.pending.named().is_empty();
            return if is_done { class.remove(place) } else { None };
        }
        None
    }
}
