//! Clients whose SYN is held until the far end has said whether the target accepts.
//!
//! ```text
//!   SYN ─▶ Asked ─┬─ accepted ─▶ LetIn ─ handshake with the kernel ─▶ a connection
//!                 └─ refused ──▶ Denied: told again when the SYN is repeated
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::counter::Counters as Counted;
use base::ip::icmp::Error;
use base::time::Time;
use hf::hfpep::{SessionId, has_share};
use hf::slep::Reason;

use super::fast::LinkId;
use crate::linux::divert::{Denial, Syn};

/// Clients that wait here at most; SYNs of others are dropped, and come again.
const MAX_HELD: usize = 1_024;
/// How long a client may be silent: TCP repeats a SYN after 64 s at the latest, and the kernel its
/// answer for as long.
const SILENCE: Duration = Duration::from_secs(70);
/// How long the answer to a SYN that comes again is remembered.
const ANSWERED: Duration = Duration::from_secs(10);

/// A client and its target.
type Ends = (SocketAddr, SocketAddr);

/// The clients that wait here.
#[derive(Debug, Default)]
pub struct Held {
    by_ends: BTreeMap<Ends, Client>,
    asked: BTreeMap<Asked, Ends>,
    counters: Counters,
}

/// How the far end is asked.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Asked {
    /// By a connection to another gateway.
    Link(LinkId),
    /// Over HF.
    Session(SessionId),
}

#[derive(Debug)]
struct Client {
    syn: Syn,
    /// The rule that holds it; `None` because none matched.
    rule: Option<String>,
    stage: Stage,
    until: Time,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// The far end is asked.
    Asked(Asked),
    /// It has refused; without a denial, the client is told nothing.
    Denied(Option<Denial>),
    /// It has accepted, and the client answers to the kernel.
    LetIn(Asked),
}

/// What is to be done with a SYN.
#[derive(Debug, Eq, PartialEq)]
pub enum Next {
    /// The far end is to be asked; an earlier request for another attempt of the client is given up.
    Ask(Option<Asked>),
    /// Its sender is to be told no.
    Deny(Denial),
    /// The kernel is to have it.
    LetIn,
    /// It waits.
    Nothing,
}

base::counters! {
    /// Counters of handshakes that wait for the far end.
    #[derive(Debug, Default)]
    struct Counters {
        /// SYNs held for which the far end was asked.
        handshakes_asked: counter(packets);
        /// Handshakes accepted by the target.
        handshakes_confirmed: counter(handshakes);
        /// Handshakes refused: by the target, on the way there, or by the far end's rules.
        handshakes_refused: counter(handshakes);
        /// Handshakes without an answer to the client: the target was silent, or the client gave up.
        handshakes_unanswered: counter(handshakes);
        /// Handshakes accepted by the target, but not completed by the client.
        handshakes_abandoned: counter(handshakes);
        /// SYNs that came again.
        syns_repeated: counter(packets);
        /// SYNs that nobody was asked for: no room, their client's address had its share, or they could not be read.
        syns_dropped: counter(packets);
    }
}

impl Held {
    /// Looks at a SYN that a rule holds.
    pub fn hear(&mut self, now: Time, syn: &Syn) -> Next {
        let ends = (syn.client, syn.target);
        if !self.by_ends.contains_key(&ends) && !self.has_room_for(syn.client.ip()) {
            self.counters.syns_dropped += 1;
            return Next::Nothing;
        }
        let Some(client) = self.by_ends.get_mut(&ends) else { return Next::Ask(None) };
        if client.syn.seq != syn.seq {
            return Next::Ask(self.withdraw(syn.client, syn.target));
        }
        self.counters.syns_repeated += 1;
        if !matches!(client.stage, Stage::Denied(Some(_))) {
            client.until = now + SILENCE;
        }
        match client.stage {
            Stage::Asked(_) | Stage::Denied(None) => Next::Nothing,
            Stage::Denied(Some(denial)) => Next::Deny(denial),
            Stage::LetIn(_) => Next::LetIn,
        }
    }

    /// Whether one more client at this address may wait.
    fn has_room_for(&self, client: IpAddr) -> bool {
        let its = self.by_ends.keys().filter(|(it, _)| it.ip() == client).count();
        has_share(its, MAX_HELD.saturating_sub(self.by_ends.len()))
    }

    /// The far end is asked because of a SYN.
    pub fn add(&mut self, now: Time, rule: Option<String>, syn: Syn, asked: Asked) {
        let ends = (syn.client, syn.target);
        self.counters.handshakes_asked += 1;
        self.asked.insert(asked, ends);
        let stage = Stage::Asked(asked);
        self.by_ends.insert(ends, Client { syn, rule, stage, until: now + SILENCE });
    }

    /// Nobody can be asked because of a SYN, or it cannot be read.
    pub fn drop_syns(&mut self, count: u64) {
        self.counters.syns_dropped += count;
    }

    /// The target has accepted: the SYN that the kernel is to have.
    pub fn accept(&mut self, now: Time, asked: Asked) -> Option<Syn> {
        let client = self.by_ends.get_mut(self.asked.get(&asked)?)?;
        client.stage = Stage::LetIn(asked);
        client.until = now + SILENCE;
        self.counters.handshakes_confirmed += 1;
        Some(client.syn.clone())
    }

    /// There is no connection: returns the SYN whose sender is to be told.
    pub fn refuse(&mut self, now: Time, asked: Asked, reason: Reason) -> Option<(Syn, Denial)> {
        let ends = self.asked.remove(&asked)?;
        let client = self.by_ends.get_mut(&ends)?;
        if matches!(client.stage, Stage::LetIn(_)) {
            // The kernel has answered: who comes is reset.
            self.by_ends.remove(&ends);
            self.counters.handshakes_abandoned += 1;
            return None;
        }
        match verdict(reason) {
            Verdict::Again => {
                self.by_ends.remove(&ends);
                self.counters.handshakes_unanswered += 1;
                None
            }
            Verdict::Silence => {
                client.stage = Stage::Denied(None);
                self.counters.handshakes_unanswered += 1;
                None
            }
            Verdict::Deny(denial) => {
                client.stage = Stage::Denied(Some(denial));
                client.until = now + ANSWERED;
                self.counters.handshakes_refused += 1;
                Some((client.syn.clone(), denial))
            }
        }
    }

    /// Takes a client that was let in and has come; returns the far end's name for its connection.
    pub fn take(&mut self, client: SocketAddr, target: SocketAddr) -> Option<Asked> {
        let ends = plain(client, target);
        match self.by_ends.get(&ends)?.stage {
            Stage::LetIn(_) => self.withdraw(client, target),
            Stage::Asked(_) | Stage::Denied(_) => None,
        }
    }

    /// Forgets a client; returns the request to give up.
    pub fn withdraw(&mut self, client: SocketAddr, target: SocketAddr) -> Option<Asked> {
        let asked = self.by_ends.remove(&plain(client, target))?.stage.asked()?;
        self.asked.remove(&asked);
        Some(asked)
    }

    /// Forgets clients that have been silent for too long; returns the requests to give up.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<Asked> {
        let late: Vec<Client> =
            self.by_ends.extract_if(.., |_, client| client.until <= now).map(|it| it.1).collect();
        for client in &late {
            match client.stage {
                Stage::Asked(_) => self.counters.handshakes_unanswered += 1,
                Stage::LetIn(_) => self.counters.handshakes_abandoned += 1,
                Stage::Denied(_) => {}
            }
        }
        self.give_up(&late)
    }

    /// Forgets clients waiting for the far end whose rule holds no clients any more; returns the requests to give up
    /// for these clients.
    pub fn follow(&mut self, holds: impl Fn(Option<&str>) -> bool) -> Vec<Asked> {
        let is_gone = |client: &Client| {
            !matches!(client.stage, Stage::LetIn(_)) && !holds(client.rule.as_deref())
        };
        let gone: Vec<Client> =
            self.by_ends.extract_if(.., |_, client| is_gone(client)).map(|it| it.1).collect();
        self.give_up(&gone)
    }

    /// Forgets all; what is to be given up.
    pub fn end(&mut self) -> Vec<Asked> {
        let all: Vec<Client> = std::mem::take(&mut self.by_ends).into_values().collect();
        self.give_up(&all)
    }

    fn give_up(&mut self, clients: &[Client]) -> Vec<Asked> {
        let asked: Vec<Asked> = clients.iter().filter_map(|client| client.stage.asked()).collect();
        for asked in &asked {
            self.asked.remove(asked);
        }
        asked
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.by_ends.values().map(|client| client.until).min()
    }

    /// How many wait for the far end, or for the client.
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    pub fn counters(&self) -> &impl Counted {
        &self.counters
    }
}

impl Stage {
    fn asked(self) -> Option<Asked> {
        match self {
            Self::Asked(asked) | Self::LetIn(asked) => Some(asked),
            Self::Denied(_) => None,
        }
    }
}

/// The answer to a client whose connection the far end does not make.
enum Verdict {
    /// It may ask again at once.
    Again,
    /// It is told.
    Deny(Denial),
    /// It is told nothing, as nothing came back to the far end.
    Silence,
}

fn verdict(reason: Reason) -> Verdict {
    match reason {
        Reason::TARGET_REFUSED => Verdict::Deny(Denial::Reset),
        Reason::TARGET_TIMED_OUT => Verdict::Silence,
        Reason::BLOCKED => Verdict::Deny(Denial::Icmp(Error::Prohibited)),
        // A full queue treats a SYN like this, and so does a router that has just started.
        Reason::NO_ROOM | Reason::RESTARTED | Reason::STOPPED | Reason::UNKNOWN_STREAM => {
            Verdict::Again
        }
        Reason::TARGET_UNREACHABLE | Reason::UNREACHABLE | Reason::NO_SERVICE => {
            Verdict::Deny(Denial::Icmp(Error::HostUnreachable))
        }
        _ => Verdict::Deny(Denial::Reset),
    }
}

/// Both addresses without the kernel's additions to IPv6 addresses.
fn plain(client: SocketAddr, target: SocketAddr) -> Ends {
    let [client, target] = [client, target].map(|it| SocketAddr::new(it.ip(), it.port()));
    (client, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(port: u16, seq: u32) -> Syn {
        let client = SocketAddr::from(([10, 1, 7, 2], port));
        Syn { client, target: ([10, 2, 0, 1], 80).into(), seq, packet: vec![seq.to_le_bytes()[0]] }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn asked(number: u64) -> Asked {
        Asked::Session(SessionId(number))
    }

    /// A client waiting for the far end.
    fn held() -> Held {
        let mut held = Held::default();
        assert_eq!(held.hear(at(0), &syn(7, 1)), Next::Ask(None));
        held.add(at(0), Some("web".to_owned()), syn(7, 1), asked(1));
        held
    }

    #[test]
    fn a_repeated_syn_shares_the_fate_of_the_first() {
        let mut held = held();

        assert_eq!(held.hear(at(1), &syn(7, 1)), Next::Nothing);
        assert_eq!(held.accept(at(2), asked(1)), Some(syn(7, 1)));
        assert_eq!(held.hear(at(3), &syn(7, 1)), Next::LetIn);
        assert_eq!(held.take(syn(7, 1).client, syn(7, 1).target), Some(asked(1)));
        assert_eq!((held.len(), held.next_timeout(), held.counters.syns_repeated), (0, None, 2));
    }

    #[test]
    fn another_attempt_from_the_same_port_takes_the_place_of_the_first() {
        let mut held = held();

        assert_eq!(held.hear(at(1), &syn(7, 2)), Next::Ask(Some(asked(1))));
        held.add(at(1), None, syn(7, 2), asked(2));

        assert_eq!(held.accept(at(2), asked(1)), None, "the first is no more");
        assert_eq!(held.accept(at(2), asked(2)), Some(syn(7, 2)));
    }

    #[test]
    fn what_the_far_end_says_is_what_the_client_is_told() {
        let unreachable = Denial::Icmp(Error::HostUnreachable);
        for (reason, denial) in [
            (Reason::TARGET_REFUSED, Some(Denial::Reset)),
            (Reason::TARGET_UNREACHABLE, Some(unreachable)),
            (Reason::UNREACHABLE, Some(unreachable)),
            (Reason::NO_SERVICE, Some(unreachable)),
            (Reason::BLOCKED, Some(Denial::Icmp(Error::Prohibited))),
            (Reason::PROTOCOL_ERROR, Some(Denial::Reset)),
            (Reason::TARGET_TIMED_OUT, None),
            (Reason::NO_ROOM, None),
            (Reason::RESTARTED, None),
        ] {
            let mut held = held();
            let told = held.refuse(at(1), asked(1), reason);

            assert_eq!(told, denial.map(|denial| (syn(7, 1), denial)), "{reason}");
            // The answer may have been lost on the LAN.
            let again = match (denial, reason) {
                (Some(denial), _) => Next::Deny(denial),
                (None, Reason::TARGET_TIMED_OUT) => Next::Nothing,
                (None, _) => Next::Ask(None),
            };
            assert_eq!(held.hear(at(2), &syn(7, 1)), again, "{reason}");
            held.handle_timeout(at(80));
            assert_eq!(held.hear(at(80), &syn(7, 1)), Next::Ask(None), "{reason}");
        }
    }

    #[test]
    fn who_is_silent_for_too_long_is_given_up_whether_asked_for_or_let_in() {
        let mut held = held();
        held.hear(at(60), &syn(7, 1));
        held.add(at(0), None, syn(8, 1), asked(2));
        held.accept(at(65), asked(2));

        assert_eq!(held.handle_timeout(at(129)), []);
        assert_eq!(held.handle_timeout(at(130)), [asked(1)]);
        assert_eq!(held.handle_timeout(at(135)), [asked(2)]);
        let counters = &held.counters;
        assert_eq!((counters.handshakes_unanswered, counters.handshakes_abandoned), (1, 1));
        assert_eq!((held.len(), held.next_timeout()), (0, None));
    }

    #[test]
    fn a_connection_that_breaks_before_its_client_comes_is_refused_to_it() {
        let mut held = held();
        held.accept(at(1), asked(1));

        assert_eq!(held.refuse(at(2), asked(1), Reason::CONNECTION_RESET), None);

        assert_eq!(held.take(syn(7, 1).client, syn(7, 1).target), None);
        assert_eq!(held.counters.handshakes_abandoned, 1);
    }

    #[test]
    fn nobody_else_waits_when_there_is_no_room() {
        let mut held = Held::default();
        for number in 0..MAX_HELD {
            let port = u16::try_from(number).unwrap();
            held.add(at(0), None, syn(port, 1), asked(number as u64));
        }

        assert_eq!(held.hear(at(0), &syn(u16::MAX, 1)), Next::Nothing);
        assert_eq!(held.counters.syns_dropped, 1);
        // The place that becomes free is for a client other than the holder of all other places.
        held.withdraw(syn(7, 1).client, syn(7, 1).target);
        assert_eq!(held.hear(at(0), &syn(u16::MAX, 1)), Next::Nothing);
        let mut of_another = syn(u16::MAX, 1);
        of_another.client.set_ip([10, 1, 7, 3].into());
        assert_eq!(held.hear(at(0), &of_another), Next::Ask(None));
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let mut held = Held::default();
        let mut asked_for = [0; 2];
        for (host, asked_for) in [2, 3].into_iter().zip(&mut asked_for) {
            for port in 1..2_000 {
                let mut syn = syn(port, 1);
                syn.client = SocketAddr::from(([10, 1, 7, host], port));
                if held.hear(at(0), &syn) == Next::Ask(None) {
                    *asked_for += 1;
                    let number = u64::from(host) << 32 | u64::from(port);
                    held.add(at(0), None, syn, asked(number));
                }
            }
        }

        assert_eq!(asked_for, [768, 192]);
    }

    #[test]
    fn who_waits_by_a_rule_that_holds_none_any_more_is_given_up_unless_let_in() {
        let mut held = held();
        held.add(at(0), Some("web".to_owned()), syn(8, 1), asked(2));
        held.accept(at(0), asked(2));
        held.add(at(0), None, syn(9, 1), asked(3));

        assert_eq!(held.follow(|rule| rule.is_none()), [asked(1)]);
        assert_eq!(held.len(), 2);
    }
}
