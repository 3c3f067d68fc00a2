//! The link layer and the intranet layer: frames, acknowledgements of types 3 and 4, relays.
//!
//! ```text
//!  type 1:  turn ─▶ transmission ─▶ Sent
//!  type 3:  turn ─▶ transmission ─▶ answers, one behind the other ─▶ deadline ─▶ Sent, again, or Failed
//!  type 4:  turn ─▶ transmission ─▶ flight ─▶ acknowledgement in a transmission of another ─▶ Sent
//!                        ▲              └─ ack timer ─┐
//!                        └────────────────────────────┘ or Failed
//! ```

use base::time::{Time, nanos};

use super::airtime::AirTime;
use super::config::{LinkType, StationId};
use super::frame::{Event, Precedence, Targets, Transmission, TransmissionKind};
use super::medium::{Fate, Item, Medium, OnAir, Step};
use super::outbox::{Ack, Queued};
use super::station::Answer;

impl Medium {
    /// It is a station's turn: what waits goes on the air, as much as shares a transmission.
    pub(crate) fn handle_turn(&mut self, now: u64, station: usize) {
        let slot = self.place();
        let mut items = std::mem::take(&mut self.on_air(slot).items);
        let own = &mut self.stations[station];
        (own.turn.at, own.turn.released) = (None, None);
        let mut precedence = own.outbox.precedence().unwrap_or_default();
        let (mut bits, mut octets, mut answers) = (0, 0, 0);
        while let Some(ack) = own.outbox.acks.pop_front() {
            bits += AirTime::frame_bits(1, AirTime::control(LinkType::Decoupled), 0);
            own.stats.acks += 1;
            items.push(Item::Ack(ack));
        }
        let mut frames = 0;
        while let Some(mut queued) = own.outbox.take(frames, octets) {
            let wants_ack = queued.wants_ack(self.config.link_type);
            let link_type =
                if wants_ack { self.config.link_type } else { LinkType::Unacknowledged };
            let before = if queued.is_update { 0 } else { AirTime::intranet(queued.way.hops()) };
            bits += AirTime::frame_bits(
                queued.pending.addresses(),
                AirTime::control(link_type),
                queued.frame.octets + before,
            );
            octets = octets.saturating_add(queued.frame.octets);
            frames += 1;
            precedence = precedence.min(queued.frame.precedence);
            if queued.is_update {
                own.stats.updates += 1;
            } else {
                own.stats.frames += 1;
                own.stats.repeats += u64::from(queued.tries > 0);
            }
            queued.tries = queued.tries.saturating_add(1);
            let is_coupled = wants_ack && link_type == LinkType::Coupled;
            if wants_ack && !is_coupled {
                // The frame counts in the window at once, so the window is never exceeded.
                let flown = Queued { due: u64::MAX, ..queued };
                own.outbox.flight.push(flown);
            }
            items.push(Item::Frame(queued));
            if is_coupled {
                answers = queued.pending.addresses();
                break;
            }
        }
        if items.is_empty() {
            // What waited was acknowledged late, or may not go before something else is.
            self.on_air(slot).items = items;
            self.give_back(slot);
            return;
        }
        own.stats.transmissions += 1;
        let first = own.turn.first;
        let on_air = self.on_air(slot);
        on_air.items = items;
        (on_air.answers, on_air.is_answer) = (answers, false);
        (on_air.precedence, on_air.first) = (precedence, first);
        let length = self.times.transmission(bits);
        self.begin(now, station, slot, length);
    }

    /// Sends the acknowledgement of type 3 that a station owes.
    pub(crate) fn handle_answer(&mut self, now: u64, station: usize) {
        let own = &mut self.stations[station];
        let Some(Answer { to, number, .. }) = own.peers.answer.take_if(|it| it.at == now) else {
            return;
        };
        if own.ear.is_sending {
            return;
        }
        own.stats.acks += 1;
        let slot = self.place();
        let on_air = self.on_air(slot);
        on_air.items.push(Item::Ack(Ack { to, number, precedence: Precedence::Urgent }));
        (on_air.answers, on_air.is_answer) = (0, true);
        let bits = AirTime::frame_bits(1, AirTime::control(LinkType::Coupled), 0);
        let length = self.times.transmission(bits);
        self.begin(now, station, slot, length);
    }

    /// Acts when all answers of type 3 have come that come.
    pub(crate) fn handle_deadline(&mut self, now: u64, station: usize) {
        let peers = &mut self.stations[station].peers;
        let Some((queued, _)) = peers.awaiting.take_if(|(_, until)| *until == now) else { return };
        if queued.pending.named().is_empty() {
            self.finish(station, &queued, true);
        } else {
            self.try_again(station, queued);
        }
        self.contend(now, station);
    }

    /// Sends frames of type 4 again that were not acknowledged in time.
    pub(crate) fn handle_overdue(&mut self, now: u64, station: usize) {
        let flight = &mut self.stations[station].outbox.flight;
        let Some(place) = flight.iter().position(|queued| queued.due <= now) else { return };
        let queued = flight.remove(place);
        self.try_again(station, queued);
        self.contend(now, station);
    }

    /// Has those read a transmission who can, and its sender go on.
    pub(crate) fn read(&mut self, now: u64, on_air: &OnAir) {
        for heard in &on_air.heard {
            let stats = &mut self.stations[heard.station].stats;
            match heard.fate {
                Fate::Clean => {}
                Fate::Collided => stats.collisions += 1,
                Fate::Missed => stats.missed += 1,
            }
        }
        for item in &on_air.items {
            let (mut read, mut lost, mut is_received) = (0, 0, false);
            for heard in &on_air.heard {
                let is_lost = heard.fate != Fate::Clean || {
                    let noise = &mut self.stations[heard.station].noise;
                    noise.chance(self.config.loss)
                };
                if is_lost {
                    lost += 1;
                } else {
                    read += 1;
                    is_received |= self.receive(now, on_air.from, heard.station, item);
                    continue;
                }
                if heard.fate == Fate::Clean && is_for(item, heard.station) {
                    self.stations[heard.station].stats.residual_losses += 1;
                }
            }
            if self.is_observed {
                let heard = [read, lost];
                let it = transmission(on_air, now, item, heard, is_received);
                self.events.push_back(Event::Transmitted(it));
            }
            if let Item::Frame(queued) = item {
                self.handle_sent(now, on_air, queued, is_received);
            }
        }
    }

    /// Gives a station a readable item. Returns whether the item is for the station.
    fn receive(&mut self, now: u64, from: usize, station: usize, item: &Item) -> bool {
        if !is_for(item, station) {
            return false;
        }
        match item {
            Item::Ack(ack) => self.handle_ack(from, station, ack.number),
            Item::Frame(queued) => {
                self.acknowledge(now, from, station, queued);
                if queued.is_update {
                    return true;
                }
                let own = &mut self.stations[station];
                if queued.wants_ack(self.config.link_type) && !own.peers.is_new(from, queued.number)
                {
                    own.stats.duplicates += 1;
                } else if queued.way.next().is_none() || queued.way.onward().is_none() {
                    own.stats.received += 1;
                    let (station, from) = (StationId(station), StationId(queued.origin.into()));
                    let token = queued.frame.token;
                    self.events.push_back(Event::Received { station, from, token });
                } else {
                    self.pass_on(now, station, queued);
                }
            }
        }
        true
    }

    /// Takes a packet for the next relay or its receiver.
    fn pass_on(&mut self, now: u64, station: usize, queued: &Queued) {
        let Some(way) = queued.way.onward() else { return };
        let Some(next) = way.next() else { return };
        let own = &mut self.stations[station];
        own.stats.relayed += 1;
        let number = own.peers.next_number();
        let pending = Targets::one(StationId(next.into()));
        let onward = Queued { way, pending, number, tries: 0, due: u64::MAX, ..*queued };
        let (relay, token) = (StationId(station), queued.frame.token);
        self.events.push_back(Event::Relayed { station: relay, token });
        if !self.enqueue(now, station, onward) {
            self.events.push_back(Event::Forsaken { station: relay, token });
        }
    }

    /// Has a station acknowledge a frame, in its slot or in its own time.
    fn acknowledge(&mut self, now: u64, from: usize, station: usize, queued: &Queued) {
        if !queued.wants_ack(self.config.link_type) {
            return;
        }
        let named = queued.pending.named().iter();
        let Some(place) = named.zip(0..).find(|(it, _)| usize::from(**it) == station) else {
            return;
        };
        let (to, number) = (u8::try_from(from).expect("a net has fewer"), queued.number);
        let own = &mut self.stations[station];
        if self.config.link_type == LinkType::Coupled {
            let at = now + self.times.response_hold(place.1);
            own.peers.answer = Some(Answer { at, to, number });
            self.stop_waiting(station);
            self.plan(at, Step::Answer { station });
        } else {
            let ack = Ack { to, number, precedence: queued.frame.precedence };
            if !own.outbox.push_ack(ack) {
                own.stats.acks_dropped += 1;
            }
        }
    }

    /// A station receives another station's acknowledgement of a frame.
    fn handle_ack(&mut self, from: usize, station: usize, number: u16) {
        let from = u8::try_from(from).expect("a net has fewer");
        let own = &mut self.stations[station];
        if let Some((queued, _)) = &mut own.peers.awaiting {
            if queued.number == number {
                queued.pending.remove(from);
            }
            return;
        }
        let flight = &mut own.outbox.flight;
        let Some(place) = flight.iter().position(|queued| queued.number == number) else {
            if let Some(queued) = own.outbox.take_again(number, from) {
                self.finish(station, &queued, true);
            }
            return;
        };
        if flight[place].pending.remove(from) && flight[place].pending.named().is_empty() {
            let queued = flight.remove(place);
            self.finish(station, &queued, true);
        }
    }

    /// Acts on the end of a station's own frame.
    fn handle_sent(&mut self, now: u64, on_air: &OnAir, queued: &Queued, is_received: bool) {
        let station = on_air.from;
        if !queued.wants_ack(self.config.link_type) {
            if !queued.is_update {
                self.finish(station, queued, is_received);
            }
        } else if self.config.link_type == LinkType::Coupled {
            let until = now + self.times.timeout_period(on_air.answers);
            self.stations[station].peers.awaiting = Some((*queued, until));
            self.plan(until, Step::Deadline { station });
        } else {
            let due = now + nanos(self.config.ack_timer);
            let flight = &mut self.stations[station].outbox.flight;
            if let Some(flown) = flight.iter_mut().find(|it| it.number == queued.number) {
                flown.due = due;
            }
            self.plan(due, Step::Repeat { station });
        }
    }

    /// Queues a frame once more, or gives it up.
    fn try_again(&mut self, station: usize, queued: Queued) {
        let own = &mut self.stations[station];
        if queued.tries <= self.config.retries {
            own.outbox.push_again(queued);
            return;
        }
        own.stats.given_up += 1;
        let (frame, station) = (queued.frame, StationId(station));
        self.events.push_back(if usize::from(queued.origin) == station.0 {
            Event::Failed { station, frame }
        } else {
            Event::Forsaken { station, token: frame.token }
        });
    }

    fn finish(&mut self, station: usize, queued: &Queued, is_received: bool) {
        let (station, token) = (StationId(station), queued.frame.token);
        self.events.push_back(Event::Sent { station, token, is_received });
    }
}

/// Whether an item is for a station.
fn is_for(item: &Item, station: usize) -> bool {
    match item {
        Item::Ack(ack) => usize::from(ack.to) == station,
        Item::Frame(queued) => {
            let named = queued.pending.named();
            queued.pending == Targets::All || named.iter().any(|it| usize::from(*it) == station)
        }
    }
}

fn transmission(
    on_air: &OnAir,
    now: u64,
    item: &Item,
    heard: [u32; 2],
    is_received: bool,
) -> Transmission {
    let (kind, to, token, octets) = match item {
        Item::Ack(ack) => (TransmissionKind::Ack, Some(ack.to), 0, 0),
        Item::Frame(queued) if queued.is_update => (TransmissionKind::Update, None, 0, 0),
        Item::Frame(queued) => {
            let to = queued.pending.named().first().copied();
            (TransmissionKind::Data, to, queued.frame.token, queued.frame.octets)
        }
    };
    let collided = on_air.heard.iter().filter(|heard| heard.fate != Fate::Clean).count();
    let collided = u32::try_from(collided).expect("a net has fewer stations");
    Transmission {
        start: Time::from_nanos(on_air.start),
        end: Time::from_nanos(now),
        kind,
        from: StationId(on_air.from),
        to: to.map(|to| StationId(to.into())),
        token,
        octets,
        heard,
        collided,
        is_repeat: matches!(item, Item::Frame(queued) if queued.tries > 1),
        is_received,
    }
}
