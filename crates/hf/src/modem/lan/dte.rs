//! The station's end: transmissions into a modem that somebody else made.
//!
//! ```text
//!  start ─▶ Arm ─▶ armed ─▶ 3 blocks, or all ─▶ Start ─▶ started ─▶ a block for each sent ─┐
//!  Sent ◀─ flushed ◀──────────────────────────────────────────────── Last ◀─ end ◀────────┘
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use base::time::{Time, earliest};

use super::session::{Closed, Session, Stats};
use super::wire::{Order, Packet, State, Status};
use super::{PREFILL, STATUS};
use crate::modem::{Event, Waveform};

/// A refused start is tried again after this long (A.5.1.2.5, step 7).
const START_AGAIN: Duration = Duration::from_millis(10);
/// Interval between requests for the status: a quarter of a block, within these limits.
const ASK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Octets to keep in a modem of which we do not know the blocks.
const UNKNOWN_BLOCK: usize = 512;

/// A station's session with a modem (MIL-STD-188-110D, A.5.1).
///
/// Call it in this order: one `handle_*` or command; [`Dte::poll_event`] until `None`; [`Dte::poll_octets`] while the
/// connection takes octets; then wait, at most until [`Dte::next_timeout`]. A transmission is one `start`, then
/// `supply` whenever there is [`Dte::room`], then `end`; [`Event::Sent`] reports when the transmission has left.
///
/// - facts: `handle_octets` of the modem, `handle_timeout`;
/// - commands: `start`, `supply`, `end`, `abort_reception`;
/// - decisions: `poll_octets`, `poll_event`, `next_timeout`;
/// - getters: the rest.
#[derive(Debug)]
pub struct Dte {
    session: Session,
    /// Rate and block size of the modem's transmissions.
    setup: Option<(u32, u32)>,
    /// The state of the transmitter that the modem reported last.
    state: Option<State>,
    outgoing: Option<OutgoingBurst>,
    incoming: Incoming,
    events: VecDeque<Event>,
}

/// A transmission.
#[derive(Debug, Default)]
struct OutgoingBurst {
    step: Step,
    /// Octets that the modem can be given before it says more.
    credit: usize,
    /// Whether octets were given.
    has_begun: bool,
    /// Whether the station has given its last octet.
    is_ended: bool,
    /// Whether the modem was told so.
    is_end_told: bool,
    /// Whether the modem takes no more octets for this transmission.
    is_cut: bool,
    /// When to say Arm or Start again, or to ask for the status.
    again_at: Option<Time>,
}

/// How far a transmission is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Step {
    /// The modem does not take octets yet.
    #[default]
    Arming,
    /// The modem takes octets, but does not transmit.
    Armed,
    Started,
}

/// A reception.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Incoming {
    #[default]
    None,
    /// There is a carrier; `has_begun`: and octets of which the last is not yet here.
    Carrier { has_begun: bool },
    /// The carrier is gone, the last octet not yet here; it is waited for until then.
    Tail { until: Time },
}

impl Dte {
    /// A session over a TCP connection that has just been made.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            session: Session::new(now),
            setup: None,
            state: None,
            outgoing: None,
            incoming: Incoming::None,
            events: VecDeque::new(),
        }
    }

    /// Takes octets from the modem.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.session.handle_octets(octets);
        let input = self.session.take_input();
        let mut read = 0;
        while let Some(packet) = self.session.read(now, &input, &mut read) {
            self.take(now, packet);
        }
        self.session.keep(input, read);
        self.settle(now);
    }

    /// Begins a transmission. The modem's own setting rules: a difference is counted.
    pub fn start(&mut self, now: Time, waveform: Waveform) {
        if self.outgoing.is_some() || self.session.closed().is_some() {
            return;
        }
        let wanted = (waveform.bits_per_s(), waveform.block_bits());
        if self.setup.is_some_and(|setup| setup != wanted) {
            self.session.count().other_waveforms += 1;
        }
        self.session.count().transmissions += 1;
        self.outgoing = Some(OutgoingBurst::default());
        self.settle(now);
    }

    /// Gives octets of the transmission, at most as many as there is [`Self::room`] for.
    pub fn supply(&mut self, now: Time, octets: &[u8]) {
        let taken = octets.len().min(self.room());
        self.session.count().refused_octets += (octets.len() - taken) as u64;
        let Some(outgoing) = self.outgoing.as_mut().filter(|_| taken > 0) else { return };
        outgoing.credit -= taken;
        let has_begun = std::mem::replace(&mut outgoing.has_begun, true);
        let order = if has_begun { Order::Continuation } else { Order::First };
        self.session.transfer(now, order, &octets[..taken]);
        self.settle(now);
    }

    /// Ends the transmission with the octets given so far.
    pub fn end(&mut self, now: Time) {
        let Some(outgoing) = self.outgoing.as_mut().filter(|outgoing| !outgoing.is_ended) else {
            return;
        };
        outgoing.is_ended = true;
        self.settle(now);
    }

    /// Makes the modem forget the current reception.
    pub fn abort_reception(&mut self, now: Time) {
        if self.incoming != Incoming::None {
            self.session.send(now, &Packet::AbortReception);
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
        match self.incoming {
            Incoming::Tail { until } if until <= now => self.lose(),
            Incoming::None | Incoming::Carrier { .. } | Incoming::Tail { .. } => {}
        }
        self.settle(now);
    }

    /// Appends octets for the modem; false if there are none.
    pub fn poll_octets(&mut self, out: &mut Vec<u8>) -> bool {
        self.session.poll_octets(out)
    }

    /// What the modem has to tell.
    ///
    /// [`Event::Sent`] may come before the station has ended its transmission: the modem had to end
    /// it, or the session is over.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if self.session.closed().is_some() {
            return None;
        }
        let tail = match self.incoming {
            Incoming::Tail { until } => Some(until),
            Incoming::None | Incoming::Carrier { .. } => None,
        };
        let again = self.outgoing.as_ref().and_then(|outgoing| outgoing.again_at);
        earliest(self.session.next_timeout(), earliest(tail, again))
    }

    /// Octets that the modem can take now.
    #[must_use]
    pub fn room(&self) -> usize {
        let outgoing = self.outgoing.as_ref().filter(|outgoing| {
            outgoing.step != Step::Arming && !outgoing.is_ended && !outgoing.is_cut
        });
        outgoing.map_or(0, |outgoing| outgoing.credit)
    }

    /// The bit/s, and the bits in a block, that the modem is set to transmit, once it said so.
    #[must_use]
    pub fn setup(&self) -> Option<(u32, u32)> {
        self.setup
    }

    /// The waveform that the modem is set to transmit, once it said so and if we know it.
    #[must_use]
    pub fn waveform(&self) -> Option<Waveform> {
        let (bits_per_s, block_bits) = self.setup?;
        Waveform::of_block(bits_per_s, block_bits)
    }

    /// Whether the modem has told all that is needed to transmit.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.session.closed().is_none() && self.setup.is_some() && self.state.is_some()
    }

    /// Why the session is over; close the connection when all octets are sent.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.session.closed()
    }

    /// Counters of the session.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.session.stats()
    }

    fn take(&mut self, now: Time, packet: Packet<'_>) {
        match packet {
            Packet::Probe => self.session.send(now, &Packet::Probe),
            Packet::InitialSetup(_) => {}
            Packet::TransmitSetup { bits_per_s, block_bits } => {
                self.setup = Some((bits_per_s, block_bits));
            }
            Packet::Status(status) => self.take_status(now, status),
            Packet::Nak { .. } => {
                self.session.count().naks += 1;
                if let Some(outgoing) = &mut self.outgoing {
                    outgoing.is_cut = true;
                    outgoing.step = Step::Started;
                    self.session.send(now, &Packet::RequestStatus);
                }
            }
            Packet::Carrier { is_on: true, bits_per_s, block_bits } => {
                if self.incoming != Incoming::None {
                    self.lose();
                }
                self.incoming = Incoming::Carrier { has_begun: false };
                let waveform = Waveform::of_block(bits_per_s, block_bits);
                self.events.push_back(Event::CarrierDetected { waveform });
            }
            Packet::Carrier { is_on: false, .. } => match self.incoming {
                Incoming::Carrier { has_begun: true } => {
                    self.incoming = Incoming::Tail { until: now + STATUS };
                }
                Incoming::Carrier { has_begun: false } => self.lose(),
                Incoming::None | Incoming::Tail { .. } => {}
            },
            Packet::Transfer { order, octets, .. } => self.receive(order, octets),
            // Packets that only a station sends.
            Packet::AbortReception | Packet::Arm | Packet::RequestStatus | Packet::Start => {
                self.session.fail(now);
            }
            // The session takes these.
            Packet::Connect { .. }
            | Packet::ConnectAck { .. }
            | Packet::Error
            | Packet::KeepAlive => {}
        }
    }

    fn receive(&mut self, order: Order, octets: &[u8]) {
        if self.incoming == Incoming::None {
            // A carrier that was told to be gone before its octets came.
            self.events.push_back(Event::CarrierDetected { waveform: None });
            self.incoming = Incoming::Carrier { has_begun: true };
        }
        if !octets.is_empty() {
            self.events.push_back(Event::Received(octets.to_vec()));
        }
        let is_last = matches!(order, Order::Last | Order::Only);
        match &mut self.incoming {
            Incoming::Carrier { has_begun } => *has_begun = !is_last,
            Incoming::Tail { .. } if is_last => self.lose(),
            Incoming::None | Incoming::Tail { .. } => {}
        }
    }

    fn lose(&mut self) {
        self.incoming = Incoming::None;
        self.events.push_back(Event::CarrierLost);
    }

    fn take_status(&mut self, now: Time, status: Status) {
        self.state = Some(status.state);
        let block = self.setup.map_or(UNKNOWN_BLOCK, |(_, bits)| (bits as usize).div_ceil(8));
        let Some(outgoing) = &mut self.outgoing else { return };
        let wanted = (PREFILL * block).saturating_sub(status.fill as usize);
        outgoing.credit = wanted.max(status.critical_octets as usize).min(status.space as usize);
        match status.state {
            State::Flushed if outgoing.step == Step::Started => {
                self.outgoing = None;
                self.events.push_back(Event::Sent);
            }
            State::Flushed => {}
            State::ArmedNotReady | State::ArmedReady => match outgoing.step {
                Step::Arming => {
                    outgoing.step = Step::Armed;
                    outgoing.again_at = None;
                }
                // Once sent, Start was not taken.
                Step::Armed => {
                    outgoing.again_at = outgoing.again_at.map(|_| now + START_AGAIN);
                }
                Step::Started => {}
            },
            State::Started | State::Draining | State::DrainingForced => {
                if outgoing.step != Step::Started {
                    outgoing.step = Step::Started;
                    outgoing.again_at = None;
                }
                if status.state == State::DrainingForced && !outgoing.is_cut {
                    outgoing.is_cut = true;
                    self.session.count().underruns += 1;
                }
            }
        }
    }

    /// Takes the next step of the transmission.
    fn settle(&mut self, now: Time) {
        if self.session.closed().is_some() {
            if self.outgoing.take().is_some() {
                self.events.push_back(Event::Sent);
            }
            if self.incoming != Incoming::None {
                self.lose();
            }
            return;
        }
        let every = self.setup.map_or(ASK.1, |(bits_per_s, block_bits)| {
            let quarter = f64::from(block_bits) / f64::from(bits_per_s.max(1)) / 4.0;
            Duration::from_secs_f64(quarter.min(1.0)).clamp(ASK.0, ASK.1)
        });
        let Some(outgoing) = &mut self.outgoing else { return };
        let is_told = outgoing.is_end_told || outgoing.is_cut;
        if outgoing.step != Step::Arming && outgoing.is_ended && !is_told {
            // An empty transfer tells the end.
            let order = if outgoing.has_begun { Order::Last } else { Order::Only };
            let id = self.session.id();
            self.session.send(now, &Packet::Transfer { order, id, octets: &[] });
            outgoing.is_end_told = true;
        }
        if outgoing.again_at.is_some_and(|at| at > now) {
            return;
        }
        let is_filled = outgoing.is_ended || outgoing.credit == 0;
        let (packet, after) = match (outgoing.step, self.state) {
            (Step::Arming, Some(State::Flushed)) => (Packet::Arm, STATUS),
            (Step::Armed, Some(State::ArmedReady)) if is_filled => (Packet::Start, STATUS),
            (Step::Started, _) if outgoing.again_at.is_none() => {
                outgoing.again_at = Some(now + every);
                return;
            }
            (Step::Started, _) => (Packet::RequestStatus, every),
            (Step::Arming | Step::Armed, _) => {
                outgoing.again_at = None;
                return;
            }
        };
        outgoing.again_at = Some(now + after);
        self.session.send(now, &packet);
    }
}
