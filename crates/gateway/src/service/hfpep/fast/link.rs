//! A link between two gateways, and the program's connection carried by the link.
//!
//! ```text
//!   initiator   Spare ─ a client ─▶ Asked ─ accepted ─▶ Open ─ reset, cut off ─▶ Cut
//!                 └─ a SYN that is held ─▶ Held ─ the client ─▶ Open
//!   responder   Arriving ─ opening ─▶ Connecting ─ target ─▶ Open
//!                   └───────────────────┴─ no ─▶ Refused
//! ```

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::time::{Time, earliest};
use hf::hfpep::answer::ANSWER;
use hf::hfpep::pieces::{Pieces, Word};
use hf::hfpep::{Answer, MAX_OPENING, Opening, Target};
use hf::slep::Reason;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::relay::{Carried, Form, Relay};
use crate::service::hfpep::connection::{self, Connection};
use crate::service::hfpep::partings::LOOK;
use crate::service::hfpep::status::{Session, direction, ends};
use crate::service::hfpep::targets::Targets;
use crate::service::hfpep::wire::{Heard, Wire};
use crate::sys::tcp::unacknowledged;

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
/// How long a program may take to read some of the data from before a reset, and the last of this data.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Names a connection between gateways; never used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub u64);

impl LinkId {
    /// The epoll events to watch at an end of a link: each change is reported once.
    pub fn watch(self, is_bearer: bool) -> EpollEvent {
        let ways = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        let all = ways | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        EpollEvent::new(all, self.0 * 2 + u64::from(!is_bearer))
    }
}

/// A connection between gateways.
#[derive(Debug)]
pub struct Link {
    bearer: Connection,
    stage: Stage,
    /// The other gateway.
    far: SocketAddr,
    /// When the link began, or the connection that it carries.
    since: Time,
    is_initiator: bool,
    /// The client whose connection it carries or has carried.
    client: Option<IpAddr>,
    /// The opening with the target of the carried connection, once known.
    opening: Option<Opening>,
    /// Octets that the program here wrote, and was given.
    written: u64,
    read: u64,
    /// Whether the bearer or the other connection is broken: nothing is written there any more; what
    /// came before may still be read.
    is_bearer_broken: bool,
    is_local_broken: bool,
    /// Until when the program may take more of what came before a reset.
    waits_until: Option<Time>,
    /// The progress of the close, if the close is to be confirmed.
    confirming: Option<Confirming>,
    /// When to look whether the target's host has all.
    look_at: Option<Time>,
    /// When it is looked at next at the latest.
    due: Option<Time>,
}

/// The state of a connection between gateways.
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
    pub bearer: EpollFlags,
    pub local: EpollFlags,
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

    /// A spare connection has a client: the other gateway is asked whether there is a target. With `confirms_close` the
    /// client is told the end only when the target's host has all.
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

    /// Ends the connection to the other gateway in peace: data held by the kernel is still delivered. Returns the
    /// program's connection, if any, which is to end in the same way.
    pub fn close(self) -> Option<Connection> {
        self.bearer.close();
        self.stage.into_local()
    }

    /// Breaks both connections off.
    pub fn abort(self) {
        self.bearer.abort();
        if let Some(local) = self.stage.into_local() {
            local.abort();
        }
    }

    /// The other gateway.
    pub fn far(&self) -> SocketAddr {
        self.far
    }

    /// The connection to the other gateway.
    pub fn bearer(&self) -> &Connection {
        &self.bearer
    }

    /// How far it is.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Octets that the program here wrote, and was given.
    pub fn octets(&self) -> (u64, u64) {
        (self.written, self.read)
    }

    /// Time since the link began, or since the connection on it began.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// When it is looked at next at the latest, as [`Self::schedule`] was told.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// It is looked at then; returns when it was to be before.
    pub fn schedule(&mut self, due: Option<Time>) -> Option<Time> {
        std::mem::replace(&mut self.due, due)
    }

    /// Takes the outcome of the attempt to connect to the other gateway.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn take_answer(&mut self, now: Time) -> Result<(), Reason> {
        self.bearer.take_answer(now)
    }

    /// A link whose opening has not begun may be silent for as long again.
    pub fn stay(&mut self, now: Time) {
        if let Stage::Arriving { until, .. } = &mut self.stage {
            *until = now + SILENCE;
        }
    }

    /// What an operator is told.
    pub fn status(&self, now: Time) -> Session {
        let (client, target) = ends(self.opening.as_ref());
        let waits_at_program = self.stage.local().is_some_and(|local| local.has_unsent());
        let (state, waits_for) = match &self.stage {
            Stage::Arriving { .. } => ("arriving", "the opening"),
            Stage::Asked { .. } if self.is_dialling() => ("connecting", "the other gateway"),
            Stage::Asked { .. } => ("connecting", "word of the other end"),
            Stage::Connecting { .. } => ("connecting", "the target"),
            Stage::Cut { .. } => ("cut off", "what came before to be read"),
            Stage::Held { .. } if self.is_dialling() => ("confirming", "the other gateway"),
            Stage::Held { until: Some(_), .. } => ("confirming", "word of the other end"),
            Stage::Held { until: None, .. } => ("confirmed", "the client"),
            Stage::Open { .. } if waits_at_program => ("open", "the program here to read"),
            Stage::Open { .. } if self.bearer.has_unsent() => ("open", "the path"),
            Stage::Open { .. } => ("open", "a program"),
            Stage::Refused { .. } => ("refused", "the other end to read it"),
            Stage::Spare => ("spare", "a client"),
        };
        Session {
            node: None,
            gateway: Some(self.far.to_string()),
            direction: direction(self.is_initiator),
            client,
            target,
            state,
            waits_for,
            age_s: now.since(self.since).as_secs(),
            octets_written: self.written,
            octets_sent: self.written,
            octets_read: self.read,
            octets_arrived: self.read,
            octets_unacknowledged: unacknowledged(&self.bearer).unwrap_or(0),
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
                return Step::Refuse(targets.termination().fail(now, failure, parties));
            }
            if local.stage() != connection::Stage::Open {
                return Step::Wait;
            }
            targets.termination().establish();
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

    /// The client has come.
    pub fn join(&mut self, client: Wire) {
        self.stage = Stage::Open { local: Connection::accepted(client) };
    }

    /// Reads the answer; what follows waits for the client.
    fn await_answer(&mut self, magic: u8) -> Step {
        // Without an answer the other gateway knows nothing of the connection any more.
        if self.bearer.flush().is_err() || self.is_bearer_broken {
            return Step::Broken(Reason::RESTARTED);
        }
        let Stage::Held { answer, until } = &mut self.stage else { return Step::Wait };
        if until.is_none() {
            return Step::Wait;
        }
        match read_answer(&mut self.bearer, answer, magic) {
            None => Step::Wait,
            Some(Err(Reason::CONNECTION_RESET)) => Step::Broken(Reason::RESTARTED),
            Some(Err(reason)) => Step::Broken(reason),
            Some(Ok(Answer::Refused(reason))) => Step::Refused(reason),
            Some(Ok(Answer::Accepted)) => {
                *until = None;
                Step::Agreed
            }
        }
    }

    // Octets of both connections, also those received before a reset: one end is reset, the rest is read there and goes
    // to the other; when the other has all, it is reset too.

    /// Carries octets; back only when the answer has come.
    fn carry(&mut self, now: Time, ready: Ready, relay: &mut Relay, targets: &mut Targets) -> Step {
        let (local, is_open) = match &mut self.stage {
            Stage::Open { local } => (local, true),
            Stage::Asked { local, .. } => (local, false),
            Stage::Arriving { .. }
            | Stage::Connecting { .. }
            | Stage::Cut { .. }
            | Stage::Held { .. }
            | Stage::Refused { .. }
            | Stage::Spare => return Step::Wait,
        };
        let bearer = &mut self.bearer;
        // Data can be read, or data already read can be written.
        let moves = |from: EpollFlags, to: EpollFlags| {
            from.intersects(!EpollFlags::EPOLLOUT) || to.intersects(!EpollFlags::EPOLLIN)
        };
        let mut has_more = false;
        self.look_at = None;
        if !self.is_bearer_broken && moves(ready.local, ready.bearer) {
            let form = match self.confirming {
                Some(Confirming::Owed { .. }) => Form::ToPieces,
                Some(Confirming::Awaited(_)) | None => Form::Plain,
            };
            match relay.carry(local, bearer, &mut self.written, form) {
                Carried::Idle => {}
                Carried::More => has_more = true,
                // Data received from the bearer before is not read yet.
                Carried::Gone => {
                    self.is_bearer_broken = true;
                    has_more = true;
                }
                Carried::Malformed | Carried::Reset => return self.cut(now, Side::Bearer),
                Carried::Failed(failure) => {
                    targets.termination().fail(now, failure, local.parties());
                    return self.cut(now, Side::Bearer);
                }
            }
        }
        if is_open && !self.is_local_broken && moves(ready.bearer, ready.local) {
            let form = match &mut self.confirming {
                Some(Confirming::Awaited(pieces)) => Form::FromPieces(pieces),
                Some(Confirming::Owed { .. }) | None => Form::Plain,
            };
            match relay.carry(bearer, local, &mut self.read, form) {
                Carried::Idle => {}
                Carried::More => has_more = true,
                Carried::Gone => {
                    self.is_local_broken = true;
                    has_more = true;
                }
                Carried::Malformed => return Step::Broken(Reason::PROTOCOL_ERROR),
                // The bearer has no TLS of ours that could fail.
                Carried::Reset | Carried::Failed(_) => return self.cut(now, Side::Local),
            }
        }
        if is_open
            && !self.is_local_broken
            && !self.is_bearer_broken
            && let Some(confirming) = &mut self.confirming
        {
            match confirming.follow(now, local, bearer) {
                Ok(look_at) => self.look_at = look_at,
                Err(Side::Bearer) => self.is_bearer_broken = true,
                Err(Side::Local) => self.is_local_broken = true,
            }
        }
        if local.is_over() && bearer.is_over() {
            return Step::Over;
        }
        if self.is_local_broken && self.is_bearer_broken {
            return Step::Broken(Reason::CONNECTION_RESET);
        }
        if has_more {
            return Step::Again;
        }
        // Unsent data for the remaining end goes first, and the data behind it.
        if self.is_local_broken && !bearer.has_unsent() {
            return self.cut(now, Side::Bearer);
        }
        if self.is_bearer_broken && !local.has_unsent() {
            return self.cut(now, Side::Local);
        }
        // The bearer's own time counts otherwise, as below.
        self.waits_until = self.is_bearer_broken.then(|| now + LAST_WORDS);
        Step::Wait
    }

    /// Resets the remaining side as soon as this side has all data from before.
    fn cut(&mut self, now: Time, left: Side) -> Step {
        // The bearer's own time counts for a path that is silent.
        let last = (left == Side::Local).then(|| now + LAST_WORDS);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Spare) {
            Stage::Open { local } | Stage::Asked { local, .. } => {
                Stage::Cut { local, left, until: now, last }
            }
            other => other,
        };
        self.look(now)
    }

    /// Looks whether the remaining side has all data from before.
    fn look(&mut self, now: Time) -> Step {
        let Stage::Cut { local, left, until, last } = &mut self.stage else { return Step::Wait };
        let (waits_for, is_broken) = match left {
            Side::Bearer => (&mut self.bearer, self.is_bearer_broken),
            Side::Local => (local, self.is_local_broken),
        };
        *until = now + LOOK;
        let is_over =
            is_broken || last.is_some_and(|last| last <= now) || waits_for.flush().is_err();
        let waits = waits_for.has_unsent() || unacknowledged(waits_for).is_ok_and(|it| it > 0);
        if is_over || !waits { Step::Broken(Reason::CONNECTION_RESET) } else { Step::Wait }
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

/// How far a close that is confirmed is: the client is told the end of the answer only when the target's host has all that
/// the client said, and the client has ended.
///
/// ```text
///   client ── its end ─▶ initiator ─────────▶ responder ── its end ─▶ target
///   client ◀─ the end ── initiator ◀─ words ─ responder ◀─ all acknowledged
/// ```
#[derive(Debug)]
enum Confirming {
    /// The other gateway is to say when the target's host has all: its octets come in pieces.
    Awaited(Pieces),
    /// The other gateway waits for our word.
    Owed { is_said: bool },
}

impl Confirming {
    /// A close whose confirmation we await.
    fn awaited() -> Self {
        Self::Awaited(Pieces::default())
    }

    /// A close whose confirmation the other gateway awaits.
    fn owed() -> Self {
        Self::Owed { is_said: false }
    }

    /// Whether the target's host has all, as far as is known.
    fn is_confirmed(&self) -> bool {
        match self {
            Self::Awaited(pieces) => pieces.has_all(),
            Self::Owed { is_said } => *is_said,
        }
    }

    /// Tells the ends that can be told now. Returns when to look again.
    ///
    /// # Errors
    /// The side that is broken.
    fn follow(
        &mut self,
        now: Time,
        local: &mut Connection,
        bearer: &mut Connection,
    ) -> Result<Option<Time>, Side> {
        match self {
            Self::Awaited(pieces) => {
                // A client that has not ended need not wait for the word: it learns nothing by the end.
                if pieces.has_end() && (pieces.has_all() || !local.has_ended()) {
                    local.finish();
                    if local.flush().is_err() {
                        return Err(Side::Local);
                    }
                }
                Ok(None)
            }
            Self::Owed { is_said } => {
                if !*is_said && local.has_told_end() {
                    if !local.is_acknowledged() {
                        return Ok(Some(now + LOOK));
                    }
                    *is_said = true;
                    if bearer.send(&Word::HasAll.octets()).is_err() {
                        return Err(Side::Bearer);
                    }
                }
                if *is_said && local.has_heard_end() {
                    bearer.finish();
                    if bearer.flush().is_err() {
                        return Err(Side::Bearer);
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Reads the octets of the answer so far: `None` while the answer is incomplete.
fn read_answer(
    bearer: &mut Connection,
    answer: &mut Vec<u8>,
    magic: u8,
) -> Option<Result<Answer, Reason>> {
    let mut octets = [0; ANSWER];
    octets[..answer.len()].copy_from_slice(answer);
    while answer.len() < ANSWER {
        match bearer.read(&mut octets[answer.len()..]) {
            Heard::Octets(len) => {
                let from = answer.len();
                answer.extend_from_slice(&octets[from..from + len]);
            }
            Heard::Nothing => return None,
            Heard::End | Heard::Failed(_) | Heard::Reset => {
                return Some(Err(Reason::CONNECTION_RESET));
            }
        }
    }
    Some(Answer::parse(magic, octets).map_err(|_| Reason::PROTOCOL_ERROR))
}
