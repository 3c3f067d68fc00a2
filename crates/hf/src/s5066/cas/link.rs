//! One station's end of the link with one other (Annex B, section 3.2).
//!
//! ```text
//!            call                accepted, or any ARQ acknowledgement
//!   Down ───────────▶ Calling ──────────────────────────────────────▶ Up
//!    ▲ ▲                 │ refused, or silent too often               │
//!    │ └─────────────────┘                        request heard ──▶   │
//!    │   confirmed, or silent too often                  idle, told   │
//!    └──────────────────────────────────  Breaking ◀──────────────────┘
//! ```
//!
//! Retries count missing answers, not seconds: a transmission may last two minutes, so the driver of
//! the link reports when an answer should have come and did not.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

use super::cpdu::{BreakReason, Cpdu, RejectReason};

/// Retries and the idle time of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Requests sent before a call fails, at least 1.
    pub calls: u32,
    /// Breaks sent before a link counts as broken, at least 1.
    pub breaks: u32,
    /// How long a link stays up without use.
    pub idle: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { calls: 5, breaks: 2, idle: Duration::from_secs(180) }
    }
}

/// A change of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// It is up, and sequence numbers restart in both directions.
    Made {
        /// Whether others are kept out.
        is_exclusive: bool,
        /// Whether this station called.
        is_caller: bool,
        /// Whether sequence numbers are long.
        is_long: bool,
        /// Whether the peer may still be on an earlier link, or may have received data of this one.
        /// Then sequence numbers agree only after a reset.
        in_doubt: bool,
    },
    /// The peer refused.
    Refused(RejectReason),
    /// No request was answered.
    Unanswered,
    /// The link was up and is down.
    Broken {
        /// Whether others were kept out.
        is_exclusive: bool,
    },
}

/// A C_PDU that must be sent to the peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outgoing {
    /// The C_PDU.
    pub c_pdu: Cpdu<'static>,
    /// The number of the frame, if relevant: repetitions of a call keep their number.
    pub id: Option<u16>,
}

/// One end of a link: it takes C_PDUs and missing answers, and gives C_PDUs and events.
///
/// After each call ask [`PhysicalLink::poll_event`] until it is `None`. Ask [`PhysicalLink::poll_outgoing`]
/// only when its C_PDU is sent at once, because it counts as a try.
#[derive(Clone, Debug)]
pub struct PhysicalLink {
    config: Config,
    state: State,
    /// Whether the peer may have a link that does not exist here.
    in_doubt: bool,
    /// The number of the last request that was accepted.
    accepted: Option<u16>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Breaking {
        is_exclusive: bool,
        reason: BreakReason,
        sent: u32,
    },
    Calling {
        id: u16,
        is_exclusive: bool,
        is_long: bool,
        in_doubt: bool,
        /// Whether it replaces a soft link that was up at both ends.
        was_up: bool,
        sent: u32,
        /// Requests that may still be sent before the call fails.
        left: u32,
    },
    Down,
    Up {
        /// The number of the request that made it, if the peer called.
        id: Option<u16>,
        is_exclusive: bool,
        is_long: bool,
        used_at: Time,
    },
}

/// The most C_PDUs that wait: a peer that asks faster than we may transmit is answered once.
const MAX_OUTGOING: usize = 4;

impl PhysicalLink {
    /// A link that is down.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Down,
            in_doubt: false,
            accepted: None,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Asks for a link (Annex B, section 3.2.1); `id` is the number of its frames, by which repeats are recognised.
    ///
    /// An exclusive link replaces a soft one that is up or requested. `calls` is the number of requests
    /// before the call fails, if it differs from the configuration.
    pub fn call(&mut self, id: u16, is_exclusive: bool, is_long: bool, calls: Option<u32>) {
        match self.state {
            State::Up { is_exclusive: false, .. } if is_exclusive => {
                self.events.push_back(Event::Broken { is_exclusive: false });
            }
            State::Calling { is_exclusive: false, .. } if is_exclusive => {}
            State::Up { .. } | State::Calling { .. } => return,
            State::Breaking { .. } | State::Down => {}
        }
        self.outgoing.clear();
        let left = calls.unwrap_or(u32::MAX).min(self.config.calls);
        let was_up = self.is_up();
        let in_doubt = self.in_doubt;
        self.state = State::Calling { id, is_exclusive, is_long, in_doubt, was_up, sent: 0, left };
        self.owe_request();
    }

    /// Ends the link (Annex B, section 3.2.2).
    pub fn end(&mut self, reason: BreakReason) {
        match self.state {
            State::Up { is_exclusive, .. } => {
                self.events.push_back(Event::Broken { is_exclusive });
                self.state = State::Breaking { is_exclusive, reason, sent: 0 };
                self.withdraw();
                self.owe(Cpdu::Break(reason), None);
            }
            State::Calling { is_exclusive, sent, .. } => {
                self.state = State::Down;
                self.withdraw();
                // The peer may have accepted it, and would keep other stations out.
                if is_exclusive && sent > 0 {
                    self.state = State::Breaking { is_exclusive, reason, sent: 0 };
                    self.owe(Cpdu::Break(reason), None);
                }
            }
            State::Breaking { .. } | State::Down => {}
        }
    }

    /// Takes the peer's warning that it has no link.
    pub fn handle_not_connected(&mut self) {
        self.forget();
        self.in_doubt = false;
    }

    /// Takes the link down without telling the peer, which is gone.
    pub fn forget(&mut self) {
        if let State::Up { is_exclusive, .. } = self.state {
            self.events.push_back(Event::Broken { is_exclusive });
        }
        self.state = State::Down;
        self.outgoing.clear();
    }

    /// Takes a C_PDU of the peer. `id` is the number of its frame, `is_long` tells whether the peer
    /// requests or accepts long sequence numbers, and `refusal` is the reason to refuse a request.
    pub fn handle_c_pdu(
        &mut self,
        now: Time,
        c_pdu: Cpdu<'_>,
        id: u16,
        is_long: bool,
        refusal: Option<RejectReason>,
    ) {
        match c_pdu {
            Cpdu::Request { is_exclusive } => {
                self.handle_request(now, id, is_exclusive, is_long, refusal);
            }
            Cpdu::Accepted => {
                // The frame can only answer this call.
                if let State::Calling { in_doubt, was_up: true, .. } = &mut self.state {
                    *in_doubt = false;
                }
                self.handle_accepted(now, is_long);
            }
            Cpdu::Rejected(reason) => {
                if let State::Calling { .. } = self.state {
                    self.state = State::Down;
                    self.withdraw();
                    self.events.push_back(Event::Refused(reason));
                }
            }
            Cpdu::Break(_) => {
                if let State::Up { is_exclusive, .. } = self.state {
                    self.events.push_back(Event::Broken { is_exclusive });
                }
                if !matches!(self.state, State::Calling { .. }) {
                    self.state = State::Down;
                    self.in_doubt = false;
                }
                self.owe(Cpdu::BreakConfirm, None);
            }
            Cpdu::BreakConfirm => {
                if let State::Breaking { .. } = self.state {
                    self.state = State::Down;
                    self.in_doubt = false;
                    self.withdraw();
                }
            }
            Cpdu::Data(_) => self.handle_use(now),
        }
    }

    /// Takes an acknowledgement as the answer to a call whose own answer was lost.
    pub fn handle_implied(&mut self, now: Time, is_long: bool) {
        self.handle_accepted(now, is_long);
    }

    /// Notes that data was sent or received.
    pub fn handle_use(&mut self, now: Time) {
        if let State::Up { used_at, .. } = &mut self.state {
            *used_at = now;
        }
    }

    /// Acts on a missing answer.
    pub fn handle_silence(&mut self) {
        match self.state {
            State::Calling { sent, left, .. } if sent > 0 => {
                if sent >= left {
                    self.state = State::Down;
                    self.withdraw();
                    self.events.push_back(Event::Unanswered);
                } else {
                    self.owe_request();
                }
            }
            State::Breaking { sent, reason, .. } if sent > 0 => {
                if sent >= self.config.breaks {
                    self.state = State::Down;
                } else {
                    self.owe(Cpdu::Break(reason), None);
                }
            }
            State::Breaking { .. } | State::Calling { .. } | State::Down | State::Up { .. } => {}
        }
    }

    /// Ends a link that has been idle for long (A.3.2.1.2).
    pub fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.end(BreakReason::NoMoreData);
        }
    }

    /// The next C_PDU, which the caller sends at once.
    pub fn poll_outgoing(&mut self) -> Option<Outgoing> {
        let outgoing = self.outgoing.pop_front()?;
        match (&mut self.state, outgoing.c_pdu) {
            (State::Calling { sent, .. }, Cpdu::Request { .. }) => {
                *sent += 1;
                self.in_doubt = true;
            }
            (State::Breaking { sent, .. }, Cpdu::Break(_)) => *sent += 1,
            _ => {}
        }
        Some(outgoing)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When it has been idle for too long.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Up { used_at, .. } => Some(used_at + self.config.idle),
            State::Breaking { .. } | State::Calling { .. } | State::Down => None,
        }
    }

    /// The next C_PDU to be sent.
    #[must_use]
    pub fn outgoing(&self) -> Option<Outgoing> {
        self.outgoing.front().copied()
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether it is up or asked for, and others are or would be kept out.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        matches!(
            self.state,
            State::Up { is_exclusive: true, .. } | State::Calling { is_exclusive: true, .. }
        )
    }

    /// Whether it is asked for.
    #[must_use]
    pub fn is_calling(&self) -> bool {
        matches!(self.state, State::Calling { .. })
    }

    /// Whether data may go along with the call: not if the peer could take it for that of another.
    #[must_use]
    pub fn may_pipeline(&self) -> bool {
        matches!(self.state, State::Calling { in_doubt: false, .. })
    }

    /// Whether it is neither up nor changing.
    #[must_use]
    pub fn is_down(&self) -> bool {
        matches!(self.state, State::Down)
    }

    /// Whether frames have, or are hoped to have, long numbers.
    #[must_use]
    pub fn is_long(&self) -> bool {
        match self.state {
            State::Calling { is_long, .. } | State::Up { is_long, .. } => is_long,
            State::Breaking { .. } | State::Down => false,
        }
    }

    fn handle_request(
        &mut self,
        now: Time,
        id: u16,
        is_exclusive: bool,
        is_long: bool,
        refusal: Option<RejectReason>,
    ) {
        // The same call again: our answer was lost, or this is its copy.
        if let State::Up { id: Some(known), .. } = self.state
            && known == id
        {
            self.owe(Cpdu::Accepted, None);
            return;
        }
        if let Some(reason) = refusal {
            self.owe(Cpdu::Rejected(reason), None);
            return;
        }
        if let State::Calling { is_exclusive: true, .. } = self.state
            && !is_exclusive
        {
            // Ours goes first, and the peer takes it for an answer.
            self.owe_request();
            return;
        }
        if let State::Up { is_exclusive, .. } = self.state {
            self.events.push_back(Event::Broken { is_exclusive });
        }
        // Both called: each answers the other, and numbers are long only if both would.
        let crossed = match self.state {
            State::Calling { is_long, .. } => Some(is_long),
            State::Breaking { .. } | State::Down | State::Up { .. } => None,
        };
        let is_long = is_long && crossed.unwrap_or(true);
        self.outgoing.clear();
        self.owe(Cpdu::Accepted, None);
        self.state = State::Up { id: Some(id), is_exclusive, is_long, used_at: now };
        let is_caller = crossed.is_some();
        // A call was accepted before, and data with it: the peer has not heard the outcome.
        let in_doubt = self.accepted.replace(id) == Some(id);
        self.in_doubt = true;
        self.events.push_back(Event::Made { is_exclusive, is_caller, is_long, in_doubt });
    }

    fn handle_accepted(&mut self, now: Time, is_long: bool) {
        let State::Calling { is_exclusive, in_doubt, is_long: is_wanted, .. } = self.state else {
            return;
        };
        let is_long = is_long && is_wanted;
        self.outgoing.clear();
        self.state = State::Up { id: None, is_exclusive, is_long, used_at: now };
        self.events.push_back(Event::Made { is_exclusive, is_caller: true, is_long, in_doubt });
    }

    /// What was to be said of a link is outdated, but the peer waits for the answer to its own request or break
    /// (Annex B, sections 3.2.1 and 3.2.2).
    fn withdraw(&mut self) {
        self.outgoing.retain(|it| matches!(it.c_pdu, Cpdu::BreakConfirm | Cpdu::Rejected(_)));
    }

    fn owe_request(&mut self) {
        let State::Calling { id, is_exclusive, .. } = self.state else { return };
        self.owe(Cpdu::Request { is_exclusive }, Some(id));
    }

    fn owe(&mut self, c_pdu: Cpdu<'static>, id: Option<u16>) {
        let outgoing = Outgoing { c_pdu, id };
        if self.outgoing.len() < MAX_OUTGOING && !self.outgoing.contains(&outgoing) {
            self.outgoing.push_back(outgoing);
        }
    }
}
