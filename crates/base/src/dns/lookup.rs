//! Looks up one name, asking one server after the other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::Name;
use super::wire::{self, Answer, Kind, Refusal};
use crate::time::Time;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Times that each server is asked.
const ROUNDS: usize = 2;
const KINDS: [Kind; 2] = [Kind::V4, Kind::V6];

/// Asks for the addresses of a name, both kinds at once. After each `handle_*`, [`Self::poll_transmit`] until `None`, then
/// [`Self::outcome`].
#[derive(Debug)]
pub struct Lookup {
    name: Name,
    /// For each kind, if it is wanted.
    asked: [Option<Asked>; 2],
    servers: Vec<SocketAddr>,
    /// How many servers were tried in vain.
    attempt: usize,
    due: Option<Time>,
    refusal: Option<(SocketAddr, Refusal)>,
    outcome: Option<Result<Vec<IpAddr>, Failure>>,
}

#[derive(Debug)]
struct Asked {
    id: u16,
    /// The attempt of the last transmission.
    sent: Option<usize>,
    found: Option<Vec<IpAddr>>,
}

/// Where a question goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Question {
    /// The server. Each attempt deserves a fresh socket, from a random port.
    pub server: SocketAddr,
    /// The number of the attempt.
    pub attempt: usize,
    /// All servers were asked once in vain: this may go another way than before.
    pub is_second_round: bool,
}

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The name has no address of the wanted kind.
    #[error("the name has no {} address", version(.0))]
    NoAddress([bool; 2]),
    /// No server answers.
    #[error("no name server answers")]
    NoAnswer,
    /// There is no such name.
    #[error("there is no such name")]
    NoSuchName,
    /// A server answers, and does not say.
    #[error("name server {0}: {1}")]
    Refused(SocketAddr, Refusal),
}

impl Lookup {
    /// Asks for IPv4 and IPv6 addresses according to `wanted`. Nobody should be able to guess `ids`.
    #[must_use]
    pub fn new(
        now: Time,
        name: Name,
        wanted: [bool; 2],
        ids: [u16; 2],
        servers: Vec<SocketAddr>,
    ) -> Self {
        let asked = |kind: usize| Asked { id: ids[kind], sent: None, found: None };
        let asked = [0, 1].map(|kind| wanted[kind].then(|| asked(kind)));
        let due = Some(now + PATIENCE);
        let mut lookup =
            Self { name, asked, servers, attempt: 0, due, refusal: None, outcome: None };
        if lookup.servers.is_empty() {
            lookup.end(Failure::NoAnswer);
        } else if lookup.asked.iter().all(Option::is_none) {
            lookup.end(Failure::NoAddress(wanted));
        }
        lookup
    }

    /// Takes what a server has sent. What is no answer is ignored.
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8]) {
        if self.outcome.is_some() {
            return;
        }
        let mut refusal = None;
        for (asked, kind) in self.asked.iter_mut().zip(KINDS) {
            let Some(asked) = asked.as_mut().filter(|asked| asked.found.is_none()) else {
                continue;
            };
            match wire::parse(asked.id, &self.name, kind, datagram) {
                Err(wire::Foreign) => {}
                Ok(Answer::Addresses(addresses)) => asked.found = Some(addresses),
                // It holds for every kind.
                Ok(Answer::NoSuchName) => {
                    self.end(Failure::NoSuchName);
                    return;
                }
                Ok(Answer::Refused(why)) => refusal = Some(why),
            }
        }
        if let Some(why) = refusal {
            self.refusal = self.server().map(|server| (server, why));
            self.ask_next(now);
        } else if self.asked.iter().flatten().all(|asked| asked.found.is_some()) {
            self.end(Failure::NoAddress(self.wanted()));
        }
    }

    /// The server cannot be asked, says the kernel.
    pub fn handle_refusal(&mut self, now: Time) {
        if self.outcome.is_none() {
            self.ask_next(now);
        }
    }

    /// Acts on deadlines that have passed. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.ask_next(now);
        }
    }

    /// The next question to send, which is appended to `out`.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Question> {
        if self.outcome.is_some() {
            return None;
        }
        let (server, attempt) = (self.server()?, self.attempt);
        let is_second_round = attempt >= self.servers.len();
        for (asked, kind) in self.asked.iter_mut().zip(KINDS) {
            let Some(asked) = asked else { continue };
            if asked.found.is_none() && asked.sent != Some(attempt) {
                asked.sent = Some(attempt);
                wire::emit(asked.id, &self.name, kind, !is_second_round, out);
                return Some(Question { server, attempt, is_second_round });
            }
        }
        None
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The result, once known: at least one address, or the failure.
    #[must_use]
    pub fn outcome(&self) -> Option<&Result<Vec<IpAddr>, Failure>> {
        self.outcome.as_ref()
    }

    fn server(&self) -> Option<SocketAddr> {
        self.servers.get(self.attempt % self.servers.len().max(1)).copied()
    }

    fn wanted(&self) -> [bool; 2] {
        self.asked.each_ref().map(Option::is_some)
    }

    /// Asks the next server, unless half an answer is there, which is enough, or all were asked.
    fn ask_next(&mut self, now: Time) {
        self.attempt += 1;
        let has_found = self
            .asked
            .iter()
            .flatten()
            .filter_map(|asked| asked.found.as_ref())
            .any(|it| !it.is_empty());
        if has_found || self.attempt >= self.servers.len() * ROUNDS {
            let refused = self.refusal.map(|(server, why)| Failure::Refused(server, why));
            self.end(refused.unwrap_or(Failure::NoAnswer));
        } else {
            self.due = Some(now + PATIENCE);
        }
    }

    /// Ends with the addresses that were found, of either kind in turn (RFC 8305, 4), or without any.
    fn end(&mut self, failure: Failure) {
        self.due = None;
        let found = |kind: usize| {
            self.asked[kind].as_ref().and_then(|asked| asked.found.as_deref()).unwrap_or_default()
        };
        let (v4, v6) = (found(0), found(1));
        let mut addresses = Vec::new();
        for place in 0..v4.len().max(v6.len()) {
            addresses.extend(v6.get(place).into_iter().chain(v4.get(place)).copied());
        }
        addresses.truncate(super::MAX_ADDRESSES);
        self.outcome = Some(if addresses.is_empty() { Err(failure) } else { Ok(addresses) });
    }
}

fn version(wanted: &[bool; 2]) -> &'static str {
    match wanted {
        [true, false] => "IPv4",
        [false, true] => "IPv6",
        [true, true] | [false, false] => "IP",
    }
}
