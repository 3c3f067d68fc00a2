//! The modem's end: a modem of ours, real or simulated, that others transmit with.

use std::collections::VecDeque;

use base::time::{Time, earliest};

use super::session::{Closed, Session, Stats};
use super::wire::{Cause, MAX_DATA, Order, Packet, Setup, State, Status};
use super::{PREFILL, PROBE, STATUS};
use crate::modem::{Event, Keying, Waveform};

/// The configuration of a modem for its station.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// The waveform for transmissions.
    pub waveform: Waveform,
    /// Whether a transmission has to wait until nothing is received (A.5.1.2.7.2); else it cuts the
    /// reception off.
    pub is_receiver_master: bool,
}

/// A modem's session with a station (MIL-STD-188-110D, A.5.1).
///
/// It stands between a connection, whose driver gives it octets and sends those it has, and a
/// transmitter and receiver. Call it in this order: one `handle_*`; [`Dce::poll_octets`] while the
/// connection takes octets; [`Dce::poll_transmit`] whenever the transmitter wants a block, and when it is
/// idle; then wait, at most until [`Dce::next_timeout`].
///
/// - facts: `handle_octets` of the station, `handle_modem` of transmitter and receiver,
///   `handle_timeout`;
/// - decisions: `poll_octets`, `poll_transmit`, `next_timeout`;
/// - getters: `wants_octets`, `closed`, `stats`.
#[derive(Debug)]
pub struct Dce {
    config: Config,
    session: Session,
    probe: Probe,
    state: State,
    /// Octets for the air.
    fifo: VecDeque<u8>,
    capacity: usize,
    has_first: bool,
    has_last: bool,
    air: Air,
    status_at: Option<Time>,
    incoming: Option<Incoming>,
}

/// How far the exchange that begins a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Probe {
    Waiting,
    Sent { at: Time },
    Answered,
}

/// The last command to the transmitter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Air {
    Off,
    Started,
    Ended,
}

/// A reception.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    waveform: Option<Waveform>,
    has_begun: bool,
}

impl Dce {
    /// A session over a TCP connection that has just been accepted.
    #[must_use]
    pub fn new(now: Time, config: Config) -> Self {
        let block = (config.waveform.block_bits() as usize).div_ceil(8);
        Self {
            config,
            session: Session::new(now),
            probe: Probe::Waiting,
            state: State::Flushed,
            fifo: VecDeque::new(),
            capacity: (PREFILL + 1) * block + MAX_DATA,
            has_first: false,
            has_last: false,
            air: Air::Off,
            status_at: None,
            incoming: None,
        }
    }

    /// Takes octets from the station; hand in no more while [`Self::wants_octets`] is false.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.session.handle_octets(octets);
        self.read(now);
    }

    /// Takes what the modem has to tell.
    pub fn handle_modem(&mut self, now: Time, event: Event) {
        match event {
            Event::CarrierDetected { waveform } => {
                self.end_reception(now);
                self.incoming = Some(Incoming { waveform, has_begun: false });
                self.tell_carrier(now);
            }
            Event::CarrierLost => self.end_reception(now),
            Event::Received(octets) => {
                let is_open = self.probe == Probe::Answered;
                if let Some(incoming) = self.incoming.as_mut().filter(|_| is_open) {
                    let has_begun = std::mem::replace(&mut incoming.has_begun, true);
                    let order = if has_begun { Order::Continuation } else { Order::First };
                    self.session.transfer(now, order, &octets);
                }
            }
            Event::Sent => {
                self.air = Air::Off;
                self.flush();
                self.tell_status(now);
            }
        }
        self.read(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
        match self.probe {
            Probe::Sent { at } if at + PROBE <= now => self.session.close(Closed::Handshake),
            Probe::Waiting | Probe::Sent { .. } | Probe::Answered => {}
        }
        if self.status_at.is_some_and(|at| at <= now) {
            self.tell_status(now);
        }
    }

    /// Appends octets for the station; false if there are none.
    pub fn poll_octets(&mut self, out: &mut Vec<u8>) -> bool {
        self.session.poll_octets(out)
    }

    /// The transmitter's next step, in the terms of a station: `room` octets are wanted for the next block.
    pub fn poll_transmit(&mut self, now: Time, room: usize, out: &mut Vec<u8>) -> Option<Keying> {
        match self.air {
            Air::Off if self.state == State::Started || self.state == State::Draining => {
                if self.session.closed().is_some() {
                    self.flush();
                    return None;
                }
                self.air = Air::Started;
                self.session.count().transmissions += 1;
                return Some(Keying::Start(self.config.waveform));
            }
            Air::Off | Air::Ended => return None,
            Air::Started => {}
        }
        if self.session.closed().is_some() {
            self.fifo.clear();
            self.has_last = true;
        }
        if room == 0 && !(self.fifo.is_empty() && self.has_last) {
            return None;
        }
        if self.fifo.len() < room && !self.has_last {
            self.state = State::DrainingForced;
            self.has_last = true;
            self.session.count().underruns += 1;
        }
        if self.fifo.is_empty() {
            self.air = Air::Ended;
            self.tell_status(now);
            return Some(Keying::End);
        }
        out.extend(self.fifo.drain(..room.min(self.fifo.len())));
        self.tell_status(now);
        self.read(now);
        Some(Keying::Octets)
    }

    /// When [`Self::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if self.session.closed().is_some() {
            return None;
        }
        let probe = match self.probe {
            Probe::Sent { at } => Some(at + PROBE),
            Probe::Waiting | Probe::Answered => None,
        };
        earliest(self.session.next_timeout(), earliest(probe, self.status_at))
    }

    /// Whether there is room for more octets of the station. While there is none, do not read its
    /// connection.
    #[must_use]
    pub fn wants_octets(&self) -> bool {
        self.session.closed().is_none() && self.has_space()
    }

    /// Why the session is over; close the connection when all octets are sent, and ask
    /// [`Self::poll_transmit`] until a transmission under way has ended.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.session.closed()
    }

    /// Counters of the session.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.session.stats()
    }

    fn read(&mut self, now: Time) {
        let input = self.session.take_input();
        let mut read = 0;
        while self.has_space() {
            let packet = self.session.read(now, &input, &mut read);
            if self.session.is_established() && self.probe == Probe::Waiting {
                self.probe = Probe::Sent { at: now };
                self.session.send(now, &Packet::Probe);
            }
            let Some(packet) = packet else { break };
            self.take(now, packet);
        }
        if self.session.closed().is_none() {
            self.session.keep(input, read);
        }
    }

    fn take(&mut self, now: Time, packet: Packet<'_>) {
        if self.probe != Probe::Answered && packet != Packet::Probe {
            self.session.fail(now);
            return;
        }
        match packet {
            Packet::Probe => {
                if let Probe::Sent { at } = self.probe {
                    self.probe = Probe::Answered;
                    self.greet(now, at);
                }
            }
            Packet::Arm => {
                if self.state == State::Flushed && self.air == Air::Off {
                    self.state = self.armed();
                }
                self.tell_status(now);
            }
            Packet::Start => {
                if self.state == State::ArmedReady {
                    self.state = if self.has_last { State::Draining } else { State::Started };
                }
                self.tell_status(now);
            }
            Packet::RequestStatus => self.tell_status(now),
            Packet::Transfer { order, id, octets } => match self.refusal(order) {
                Some(cause) => {
                    self.session.count().naks += 1;
                    self.session.send(now, &Packet::Nak { cause, id });
                }
                None => self.queue(now, order, octets),
            },
            // Later octets of an aborted reception belong to no reception.
            Packet::AbortReception => self.end_reception(now),
            // Packets that only a modem sends.
            Packet::Carrier { .. }
            | Packet::InitialSetup(_)
            | Packet::Nak { .. }
            | Packet::Status(_)
            | Packet::TransmitSetup { .. } => self.session.fail(now),
            // The session takes these.
            Packet::Connect { .. }
            | Packet::ConnectAck { .. }
            | Packet::Error
            | Packet::KeepAlive => {}
        }
    }

    /// Tells a station what it needs to know at the beginning.
    fn greet(&mut self, now: Time, probed_at: Time) {
        let round_trip_ms = u32::try_from(now.since(probed_at).as_millis()).unwrap_or(u32::MAX);
        let setup = Setup {
            round_trip_ms,
            least_ms: 0,
            most_ms: 30_000,
            is_synchronous: true,
            asynchronous: [0; 4],
        };
        self.session.send(now, &Packet::InitialSetup(setup));
        let waveform = self.config.waveform;
        let (bits_per_s, block_bits) = (waveform.bits_per_s(), waveform.block_bits());
        self.session.send(now, &Packet::TransmitSetup { bits_per_s, block_bits });
        self.tell_status(now);
        self.tell_carrier(now);
    }

    fn refusal(&self, order: Order) -> Option<Cause> {
        let is_first = matches!(order, Order::First | Order::Only);
        match self.state {
            State::DrainingForced => Some(Cause::Underrun),
            State::Flushed | State::Draining => Some(Cause::NotArmed),
            State::ArmedNotReady | State::ArmedReady | State::Started => {
                if self.has_last {
                    Some(Cause::NotArmed)
                } else if is_first && self.has_first {
                    Some(Cause::SecondFirst)
                } else if !is_first && !self.has_first {
                    Some(Cause::NoFirst)
                } else {
                    None
                }
            }
        }
    }

    fn queue(&mut self, now: Time, order: Order, octets: &[u8]) {
        self.fifo.extend(octets);
        self.has_first = true;
        if matches!(order, Order::Last | Order::Only) {
            self.has_last = true;
            if self.state == State::Started {
                self.state = State::Draining;
                self.tell_status(now);
            }
        }
    }

    /// Ends a reception for the station.
    fn end_reception(&mut self, now: Time) {
        let Some(incoming) = self.incoming.take() else { return };
        if incoming.has_begun {
            let id = self.session.id();
            self.session.send(now, &Packet::Transfer { order: Order::Last, id, octets: &[] });
        }
        self.tell_carrier(now);
        if self.state == State::ArmedNotReady {
            self.state = State::ArmedReady;
            self.tell_status(now);
        }
    }

    fn tell_carrier(&mut self, now: Time) {
        if self.probe != Probe::Answered {
            return;
        }
        let waveform = self.incoming.map(|incoming| incoming.waveform);
        let numbers = waveform.flatten().map(|some| (some.bits_per_s(), some.block_bits()));
        let (bits_per_s, block_bits) = numbers.unwrap_or((0, 0));
        let is_on = waveform.is_some();
        self.session.send(now, &Packet::Carrier { is_on, bits_per_s, block_bits });
    }

    fn tell_status(&mut self, now: Time) {
        if self.probe != Probe::Answered {
            return;
        }
        let count = |octets: usize| u32::try_from(octets).unwrap_or(u32::MAX);
        let block = (self.config.waveform.block_bits() as usize).div_ceil(8);
        let is_hungry = self.state == State::Started && !self.has_last;
        let blocks = count(self.fifo.len() / block);
        let time = (self.config.waveform.block_time() * blocks).as_millis();
        let status = Status {
            state: self.state,
            space: count((self.capacity - self.fifo.len()).saturating_sub(MAX_DATA)),
            fill: count(self.fifo.len()),
            critical_ms: if is_hungry { u32::try_from(time).unwrap_or(u32::MAX) } else { 0 },
            critical_octets: if is_hungry { count(block - self.fifo.len() % block) } else { 0 },
        };
        self.session.send(now, &Packet::Status(status));
        let is_busy = !matches!(self.state, State::Flushed);
        self.status_at = is_busy.then(|| now + STATUS);
    }

    fn armed(&self) -> State {
        let is_busy = self.config.is_receiver_master && self.incoming.is_some();
        if is_busy { State::ArmedNotReady } else { State::ArmedReady }
    }

    fn flush(&mut self) {
        self.state = State::Flushed;
        self.fifo.clear();
        (self.has_first, self.has_last) = (false, false);
    }

    fn has_space(&self) -> bool {
        self.fifo.len() + MAX_DATA <= self.capacity
    }
}
