//! The calls of a peer, and what we answer.

use std::net::SocketAddr;
use std::time::Duration;

use base::budget::Budget;
use base::time::Time;

use super::super::guard;
use super::super::local::{Local, Trouble};
use super::super::noise;
use super::super::stats::Dropped;
use super::super::wire::{Answer, Call, Hello, Index, MAC, Reply};
use super::{REKEY_JITTER, Remote};

/// A session's age at which who was asked for it asks for the next, should the other side not.
const OTHERS_REKEY_AFTER: Duration = Duration::from_secs(165);
/// Calls of each kind that are answered in a second.
const CALLS: u32 = 5;
/// Unconfirmed answers, which may be slow or lost, are reported after this long.
const UNCONFIRMED: Duration = Duration::from_secs(20);

/// How answering a peer stands.
pub(super) struct Called {
    /// The last timestamp that the peer said.
    heard_timestamp: u64,
    pub(super) answered: Option<Answered>,
    /// The time since which no answer was confirmed.
    pub(super) unconfirmed_since: Option<Time>,
    /// The remaining budgets for new calls, stale calls and repeated calls.
    new: Budget,
    stale: Budget,
    repeated: Budget,
}

/// The last call that was answered. The answer is kept until the peer has it.
pub(super) struct Answered {
    mac1: [u8; MAC],
    answer: Option<Vec<u8>>,
    /// The first destination of the answer: the holder of the keys was there. Later repetitions prove nothing
    /// about their destinations.
    to: SocketAddr,
}

impl Called {
    pub(super) fn new(now: Time) -> Self {
        let budget = Budget::per_second(now, CALLS);
        Self {
            heard_timestamp: 0,
            answered: None,
            unconfirmed_since: None,
            new: budget,
            stale: budget,
            repeated: budget,
        }
    }
}

impl Remote {
    /// Takes a call from the peer, new or old.
    pub(in crate::secure) fn handle_call(
        &mut self,
        now: Time,
        from: SocketAddr,
        call: &Call<'_>,
        heard: noise::Call,
        hello: Hello,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        if hello.timestamp <= self.called.heard_timestamp {
            self.stats.calls_stale += 1;
            // Replayed, or the peer's clock went back. Only the peer can read our reply, and only
            // while waiting for the answer to this call; so nothing else comes of a replay.
            if self.called.stale.spend(now) {
                let reply = Reply::Stale { timestamp: self.called.heard_timestamp };
                if let Some((_, noise)) = heard.answer(&self.preshared_key, &reply.emit()) {
                    self.send_answer(from, call.sender, Index::new(0), &noise, local);
                }
            }
            return Err(Dropped::Stale);
        }
        if !self.called.new.spend(now) {
            self.stats.calls_busy += 1;
            return Err(Dropped::Busy);
        }
        self.stats.calls_received += 1;
        if self.called.answered.as_ref().is_some_and(|answered| answered.answer.is_some()) {
            self.stats.answers_unconfirmed += 1;
        }
        self.note_unconfirmed(now, from, local);
        let inbound = self.inbound(hello.incarnation);
        let next_number = match &self.life {
            Some(life) if life.inbound.incarnation == hello.incarnation => {
                life.outbound.next_number()
            }
            Some(_) | None => 0,
        };
        let incarnation = self.own_incarnation(local).ok_or(Dropped::Busy)?;
        let reply = Reply::Taken { incarnation, next_number };
        let Some((keys, noise)) = heard.answer(&self.preshared_key, &reply.emit()) else {
            return Err(Dropped::Busy);
        };
        self.called.heard_timestamp = hello.timestamp;
        inbound.expect(hello.next_number);
        // Only one session waits to be confirmed, so that calls alone never push out others.
        self.remove_sessions(local, |session| !session.is_confirmed);
        let index = self.free_index(local);
        let rekey_at = now + OTHERS_REKEY_AFTER + local.rng.within(REKEY_JITTER);
        self.add_session(now, (index, call.sender), keys, inbound, false, rekey_at, local);
        let answer = self.send_answer(from, call.sender, index, &noise, local);
        self.called.answered = Some(Answered { mac1: *call.mac1, answer: Some(answer), to: from });
        self.stats.calls_answered += 1;
        Ok(())
    }

    /// The mac of the last call that was answered.
    pub(in crate::secure) fn answered(&self) -> Option<&[u8; MAC]> {
        self.called.answered.as_ref().map(|answered| &answered.mac1)
    }

    /// The peer has the last answer, which it shows by its keys: where that was sent, and where the peer is.
    pub(super) fn confirm_answer(&mut self) -> Option<SocketAddr> {
        let answered = self.called.answered.as_mut()?;
        answered.answer = None;
        Some(answered.to)
    }

    /// The call that was answered last has come again.
    pub(in crate::secure) fn repeat_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let answer = self.called.answered.as_ref().and_then(|answered| answered.answer.clone());
        let answer = answer.ok_or(Dropped::Replayed)?;
        self.stats.calls_repeated += 1;
        self.note_unconfirmed(now, from, local);
        if !self.called.repeated.spend(now) {
            self.stats.calls_busy += 1;
            return Err(Dropped::Busy);
        }
        local.send(from, answer);
        self.stats.calls_answered += 1;
        Ok(())
    }

    /// The peer calls though it was answered, or for the first time.
    fn note_unconfirmed(&mut self, now: Time, from: SocketAddr, local: &mut Local) {
        let since = *self.called.unconfirmed_since.get_or_insert(now);
        if now.since(since) >= UNCONFIRMED {
            self.trouble(from, Trouble::Unconfirmed, local);
        }
    }

    fn send_answer(
        &mut self,
        to: SocketAddr,
        caller: Index,
        index: Index,
        noise: &[u8; noise::RESPONSE],
        local: &mut Local,
    ) -> Vec<u8> {
        let mut answer = Answer::begin(caller, index, noise);
        guard::append_mac1(&self.mac_key, &mut answer);
        local.send(to, answer.clone());
        answer
    }
}
