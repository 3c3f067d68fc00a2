//! A link between two gateways, and the program's connection carried by the link.
//!
//! ```text
//!   initiator   Spare ─ a client ─▶ Asked ─ accepted ─▶ Open ─ reset, cut off ─▶ Cut
//!                 └─ a SYN that is held ─▶ Held ─ the client ─▶ Open
//!   responder   Arriving ─ opening ─▶ Connecting ─ target ─▶ Open
//!                   └───────────────────┴─ no ─▶ Refused
//! ```

mod carry;
mod confirm;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::time::{Time, earliest};
use confirm::Confirming;
use hf::hfpep::{Answer, MAX_OPENING, Opening, Target};
use hf::slep::Reason;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::answer::read_answer;
use super::relay::Relay;
use crate::service::hfpep::connection::{self, Connection};
use crate::service::hfpep::targets::Targets;
use crate::service::hfpep::wire::Heard;

/// How long another gateway's connection may be silent, unless it is a spare one.
pub const SILENCE: Duration = Duration::from_secs(60);
/// How long an opening that has begun may take to be whole.
const OPENING: Duration = Duration::from_secs(10);
/// How long the answer may take: longer than a connection to the far end, its own to the target and the
/// handshake with that.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// How long the other end may take to read that it is refused.
const FAREWELL: Duration = Duration::from_secs(10);
/// Pieces of the refused end's data read in one go meanwhile.
const FAREWELLS: usize = 64;

/// Names a connection between gateways; never used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub(super) u64);

impl LinkId {
    /// The events of a link's end that epoll reports: each change, once.
    pub fn watch(self, is_bearer: bool) -> EpollEvent {
        let ways = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        let all = ways | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        EpollEvent::new(all, self.0 * 2 + u64::from(!is_bearer))
    }
}

/// A connection between gateways.
#[derive(Debug)]
pub struct Link {
    pub(super) bearer: Connection,
    pub(super) stage: Stage,
    /// The other gateway.
    pub(super) far: SocketAddr,
    /// When the link began, or the connection that it carries.
    pub(super) since: Time,
    pub(super) is_initiator: bool,
    /// The client whose connection it carries or has carried.
    client: Option<IpAddr>,
    /// The opening with the target of the carried connection, once known.
    pub(super) opening: Option<Opening>,
    /// Octets that the program here wrote, and was given.
    pub(super) written: u64,
    pub(super) read: u64,
    /// Whether the bearer or the other connection is broken: nothing is written there any more; what
    /// came before may still be read.
    pub(super) is_bearer_broken: bool,
    is_local_broken: bool,
    /// Until when the program may take more of what came before a reset.
    waits_until: Option<Time>,
    /// How far its close is, if that is confirmed.
    confirming: Option<Confirming>,
    /// When to look whether the target's host has all.
    look_at: Option<Time>,
    /// When it is looked at next at the latest.
    pub(super) due: Option<Time>,
}

/// How far it is.
#[derive(Debug)]
pub enum Stage {
    /// Opened by the other end, whose opening is not whole yet.
    Arriving { head: Vec<u8>, until: Time },
    /// The opening is on its way there, or the answer back.
    Asked { local: Connection, answer: Vec<u8>, until: Time },
    /// The target is being connected to.
    Connecting { local: Connection },
    /// One side is gone; the other side is reset when it has all data from before.
    Cut { local: Connection, left: Side, until: Time, last: Option<Time> },
    /// The far end is asked for a client that comes when it has accepted; without a time, it has.
    Held { answer: Vec<u8>, until: Option<Time> },
    /// It carries octets both ways.
    Open { local: Connection },
    /// The other end is being told that there is no connection.
    Refused { until: Time },
    /// For what comes next.
    Spare,
}

/// Which of both connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    Bearer,
    Local,
}

/// The epoll events of both ends.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub(super) bearer: EpollFlags,
    pub(super) local: EpollFlags,
}

/// What to do next with the link.
#[derive(Debug)]
pub enum Step {
    /// There is more to do at once.
    Again,
    /// The other end has accepted, and the client may come.
    Agreed,
    /// The other end has answered, and it goes on.
    Answered,
    /// The other end wants a connection to a target; the octets received behind the request are for the target.
    Asked(Opening, Vec<u8>),
    /// It is broken.
    Broken(Reason),
    /// The other end is told no.
    Refuse(Reason),
    /// The other end has said no.
    Refused(Reason),
    /// It has carried all.
    Over,
    /// There is nothing to do until something comes.
    Wait,
}

impl Ready {
    /// Nothing is known: all is tried.
    pub const ALL: Self = Self {
        bearer: EpollFlags::EPOLLIN.union(EpollFlags::EPOLLOUT),
        local: EpollFlags::EPOLLIN.union(EpollFlags::EPOLLOUT),
    };
}

impl Link {
    pub fn new(
        now: Time,
        far: SocketAddr,
        bearer: Connection,
        stage: Stage,
        is_initiator: bool,
    ) -> Self {
        Self {
            bearer,
            stage,
            far,
            since: now,
            is_initiator,
            client: None,
            opening: None,
            written: 0,
            read: 0,
            is_bearer_broken: false,
            is_local_broken: false,
            waits_until: None,
            confirming: None,
            look_at: None,
            due: None,
        }
    }

    /// A spare connection has a client: it is asked whether there is a target. With `confirms_close` the client is told
    /// the end only when the target's host has all.
    pub fn ask(
        &mut self,
        now: Time,
        client: IpAddr,
        local: Connection,
        opening: Opening,
        magic: u8,
        confirms_close: bool,
    ) {
        self.client = Some(client);
        self.say_opening(now, opening, magic, confirms_close);
        self.stage = Stage::Asked { local, answer: Vec::new(), until: now + ANSWER_WITHIN };
    }

    /// A spare connection asks whether there is a target, for a client that is not there yet.
    pub fn hold(
        &mut self,
        now: Time,
        client: IpAddr,
        opening: Opening,
        magic: u8,
        confirms_close: bool,
    ) {
        self.client = Some(client);
        self.say_opening(now, opening, magic, confirms_close);
        self.stage = Stage::Held { answer: Vec::new(), until: Some(now + ANSWER_WITHIN) };
    }

    fn say_opening(&mut self, now: Time, opening: Opening, magic: u8, confirms_close: bool) {
        if confirms_close {
            opening.emit_for_pieces(magic, self.bearer.unsent_mut());
            self.confirming = Some(Confirming::awaited());
        } else {
            opening.emit(magic, self.bearer.unsent_mut());
        }
        self.opening = Some(opening);
        self.since = now;
    }

    /// What was asked for is being connected to; some octets for it have come already.
    pub fn connect(&mut self, now: Time, mut local: Connection, opening: Opening, octets: Vec<u8>) {
        self.read = octets.len() as u64;
        *local.unsent_mut() = octets;
        self.client = Some(self.client_of(&opening));
        self.opening = Some(opening);
        self.since = now;
        self.stage = Stage::Connecting { local };
    }

    /// The client that the other gateway opens a connection for; the gateway itself if it does not say.
    pub fn client_of(&self, opening: &Opening) -> IpAddr {
        match &opening.target {
            Target::Address { source, .. } => source.ip(),
            Target::AuthId(_) => self.far.ip(),
        }
    }

    /// The client that is served now.
    pub fn client(&self) -> Option<IpAddr> {
        self.client.filter(|_| self.stage.is_session())
    }

    /// Tells the other end that there is no connection, and nothing else any more.
    pub fn refuse(&mut self, now: Time, reason: Reason, magic: u8) {
        self.bearer.unsent_mut().extend_from_slice(&Answer::Refused(reason).octets(magic));
        self.bearer.finish();
        // The next read reports a broken connection.
        let _ = self.bearer.flush();
        let before = std::mem::replace(&mut self.stage, Stage::Refused { until: now + FAREWELL });
        if let Some(local) = before.into_local() {
            local.abort();
        }
    }

    /// Ends both connections in peace: data held by the kernel is still delivered.
    pub fn close(self) {
        self.bearer.close();
        if let Some(local) = self.stage.into_local() {
            local.close();
        }
    }

    /// Breaks both connections off.
    pub fn abort(self) {
        self.bearer.abort();
        if let Some(local) = self.stage.into_local() {
            local.abort();
        }
    }

    /// When it is to be looked at, whatever comes.
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.stage {
            Stage::Arriving { until, .. } => Some(*until),
            Stage::Asked { until, .. } => earliest(Some(*until), self.bearer.waits_until()),
            Stage::Connecting { local } => local.waits_until(),
            Stage::Cut { until, .. } | Stage::Refused { until } => Some(*until),
            Stage::Held { until, .. } => earliest(*until, self.bearer.waits_until()),
            Stage::Open { .. } => earliest(self.waits_until, self.look_at),
            Stage::Spare => self.bearer.waits_until(),
        }
    }

    /// Whether the program has taken nothing of what came before a reset for too long.
    pub fn is_given_up(&self, now: Time) -> bool {
        self.waits_until.is_some_and(|until| until <= now)
    }

    /// Whether the other gateway is to confirm the close.
    pub fn wants_confirmation(&self) -> bool {
        matches!(self.confirming, Some(Confirming::Awaited(_)))
    }

    /// Whether the target's host is known to have all that the client said, to the end.
    pub fn is_confirmed(&self) -> bool {
        self.confirming.as_ref().is_some_and(Confirming::is_confirmed)
    }

    /// Whether it is still being connected to the other gateway.
    pub fn is_dialling(&self) -> bool {
        matches!(self.bearer.stage(), connection::Stage::Connecting(_))
    }

    /// Moves the link on as far as possible.
    pub fn advance(
        &mut self,
        now: Time,
        ready: Ready,
        relay: &mut Relay,
        magic: u8,
        targets: &mut Targets,
    ) -> Step {
        self.is_bearer_broken |= ready.bearer.contains(EpollFlags::EPOLLERR);
        self.is_local_broken |= ready.local.contains(EpollFlags::EPOLLERR);
        match &mut self.stage {
            Stage::Arriving { .. } => self.arrive(now, magic),
            Stage::Asked { .. } => self.listen(now, ready, relay, magic, targets),
            Stage::Connecting { .. } => self.greet(now, ready, relay, magic, targets),
            Stage::Cut { .. } => self.look(now),
            Stage::Held { .. } => self.await_answer(magic),
            Stage::Open { .. } => self.carry(now, ready, relay, targets),
            Stage::Refused { .. } => self.part(),
            Stage::Spare => match self.bearer.read(&mut [0]) {
                Heard::Nothing if !self.is_bearer_broken => Step::Wait,
                // The other end closes the link, or sends data without a request.
                _ => Step::Broken(Reason::CONNECTION_RESET),
            },
        }
    }

    /// Reads the opening.
    fn arrive(&mut self, now: Time, magic: u8) -> Step {
        let Stage::Arriving { head, until } = &mut self.stage else { return Step::Wait };
        let mut octets = [0; MAX_OPENING];
        loop {
            let room = MAX_OPENING - head.len();
            match self.bearer.read(&mut octets[..room]) {
                Heard::Octets(len) => {
                    if head.is_empty() {
                        *until = now + OPENING;
                    }
                    head.extend_from_slice(&octets[..len]);
                }
                Heard::Nothing if self.is_bearer_broken => {
                    return Step::Broken(Reason::CONNECTION_RESET);
                }
                Heard::Nothing => return Step::Wait,
                // A spare connection that is not needed any more.
                Heard::End if head.is_empty() => return Step::Over,
                Heard::End | Heard::Failed(_) | Heard::Reset => {
                    return Step::Broken(Reason::CONNECTION_RESET);
                }
            }
            match Opening::split_first_of_gateway(magic, head) {
                Ok(None) if head.len() < MAX_OPENING => {}
                Ok(Some((opening, is_in_pieces, rest))) => {
                    self.confirming = is_in_pieces.then(Confirming::owed);
                    return Step::Asked(opening, rest.to_vec());
                }
                Ok(None) | Err(_) => return Step::Refuse(Reason::PROTOCOL_ERROR),
            }
        }
    }

    /// Reads the answer, while what the client says goes its way.
    fn listen(
        &mut self,
        now: Time,
        ready: Ready,
        relay: &mut Relay,
        magic: u8,
        targets: &mut Targets,
    ) -> Step {
        let Stage::Asked { answer, .. } = &mut self.stage else { return Step::Wait };
        match read_answer(&mut self.bearer, answer, magic) {
            None => self.carry(now, ready, relay, targets),
            Some(Err(reason)) => Step::Broken(reason),
            Some(Ok(Answer::Refused(reason))) => Step::Refused(reason),
            Some(Ok(Answer::Accepted)) => {
                self.stage = match std::mem::replace(&mut self.stage, Stage::Spare) {
                    Stage::Asked { local, .. } => Stage::Open { local },
                    other => other,
                };
                Step::Answered
            }
        }
    }

    /// Goes on with a target.
    fn greet(
        &mut self,
        now: Time,
        ready: Ready,
        relay: &mut Relay,
        magic: u8,
        targets: &mut Targets,
    ) -> Step {
        let Stage::Connecting { local } = &mut self.stage else { return Step::Wait };
        // What was said to the target before a reset is still for it.
        if self.is_bearer_broken && !local.has_unsent() && !self.bearer.has_unread() {
            return Step::Broken(Reason::CONNECTION_RESET);
        }
        if matches!(local.stage(), connection::Stage::Connecting(_)) {
            if ready.local.is_empty() {
                return Step::Wait;
            }
            if let Err(reason) = local.take_answer(now) {
                targets.fail();
                return Step::Refuse(reason);
            }
            targets.establish();
        }
        if matches!(local.stage(), connection::Stage::Greeting(_)) {
            if let Err(failure) = local.greet() {
                let parties = local.parties();
                return Step::Refuse(targets.termination.fail(now, failure, parties));
            }
            if local.stage() != connection::Stage::Open {
                return Step::Wait;
            }
            targets.termination.establish();
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Spare) {
            Stage::Connecting { local } => Stage::Open { local },
            other => other,
        };
        let is_told =
            !self.is_bearer_broken && self.bearer.send(&Answer::Accepted.octets(magic)).is_ok();
        self.is_bearer_broken |= !is_told;
        self.carry(now, Ready::ALL, relay, targets)
    }

    /// Waits until the other end has read our refusal. Its data must be read meanwhile: unread data causes a reset,
    /// which may overtake the answer.
    fn part(&mut self) -> Step {
        let is_broken = self.bearer.flush().is_err();
        let mut octets = [0; 4096];
        // A sender without end gets its turn like all others.
        for _ in 0..FAREWELLS {
            match self.bearer.read(&mut octets) {
                Heard::Octets(_) => {}
                Heard::Nothing if !is_broken && !self.is_bearer_broken => return Step::Wait,
                _ => return Step::Over,
            }
        }
        Step::Again
    }
}

impl Stage {
    /// The connection of the program, if any.
    pub fn local(&self) -> Option<&Connection> {
        match self {
            Self::Asked { local, .. }
            | Self::Connecting { local }
            | Self::Cut { local, .. }
            | Self::Open { local } => Some(local),
            Self::Arriving { .. } | Self::Held { .. } | Self::Refused { .. } | Self::Spare => None,
        }
    }

    /// Whether the link serves a program.
    pub fn is_session(&self) -> bool {
        self.local().is_some() || matches!(self, Self::Held { .. })
    }

    fn into_local(self) -> Option<Connection> {
        match self {
            Self::Asked { local, .. }
            | Self::Connecting { local }
            | Self::Cut { local, .. }
            | Self::Open { local } => Some(local),
            Self::Arriving { .. } | Self::Held { .. } | Self::Refused { .. } | Self::Spare => None,
        }
    }
}
