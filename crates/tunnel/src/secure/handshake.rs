//! Repeats an unanswered call unchanged, and makes a new call now and then.

use std::time::Duration;

use base::budget::Budget;
use base::rng::Rng;
use base::time::Time;

use super::keys::PublicKey;
use super::mac::{append_mac1, append_mac2, mac_key};
use super::noise::{INITIATION, Initiation, Keys, PAYLOAD, RESPONSE};
use super::wire::{Call, Index, MAC};

/// Between a call and its repetition, at first.
const RESEND: Duration = Duration::from_secs(1);
/// Repetitions that come so soon.
const SOON: u32 = 4;
/// Between repetitions at most: peers may be more than a second away.
const LONGEST: Duration = Duration::from_secs(5);
/// Between a call and its repetition, at first, if the peer was here just now; then twice as long each,
/// up to [`RESEND`].
const URGENT: Duration = Duration::from_millis(250);
/// The most repeats in a row for packets that want the keys: a browser begins about as many TCP connections at once.
const WANTED: u32 = 8;
/// The longest random time added to each wait, so that two peers do not stay in step.
const JITTER: Duration = Duration::from_millis(333);
/// A call is repeated for this long, so that a slow answer is still understood.
const RENEW_AFTER: Duration = Duration::from_secs(30);
/// The same if there are other keys to call with: all have their turns before a session ends, which is 55 s after the
/// first call for the next one.
const TURN: Duration = Duration::from_secs(5);

/// The keys of both ends by which a call is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pair {
    pub own: PublicKey,
    pub its: PublicKey,
}

/// A call without an answer so far.
pub struct Handshake {
    index: Index,
    /// Between which keys it is.
    pair: Pair,
    initiation: Initiation,
    noise: [u8; INITIATION],
    mac1: [u8; MAC],
    began: Time,
    /// Repeats for packets that want the keys.
    wanted: Budget,
    resend_at: Time,
    tries: u32,
    /// How often the peer has called our timestamp stale since its last answer.
    stale: u32,
    has_cookie: bool,
    /// The peer was here just now, and may have started anew.
    is_urgent: bool,
}

impl Handshake {
    /// A call, and the datagram to send.
    pub fn new(
        now: Time,
        (index, pair): (Index, Pair),
        (initiation, noise): (Initiation, [u8; INITIATION]),
        cookie: Option<&[u8; MAC]>,
        rng: &mut Rng,
    ) -> (Self, Vec<u8>) {
        let mut call = Self {
            index,
            pair,
            initiation,
            noise,
            mac1: [0; MAC],
            began: now,
            wanted: Budget::new(now, WANTED, URGENT),
            resend_at: now + RESEND + rng.within(JITTER),
            tries: 1,
            stale: 0,
            has_cookie: cookie.is_some(),
            is_urgent: false,
        };
        let datagram = call.datagram(cookie);
        (call, datagram)
    }

    pub fn index(&self) -> Index {
        self.index
    }

    /// Between which keys it is.
    pub fn pair(&self) -> Pair {
        self.pair
    }

    /// The MAC of the call's latest datagram, which a cookie is bound to.
    pub fn mac1(&self) -> &[u8; MAC] {
        &self.mac1
    }

    /// Reads the noise of an answer; `None` when it is forged.
    pub fn hear(&mut self, noise: &[u8; RESPONSE]) -> Option<(Keys, [u8; PAYLOAD])> {
        self.initiation.hear(noise)
    }

    /// How often the peer has called our timestamp stale since its last answer.
    pub fn stale(&self) -> u32 {
        self.stale
    }

    pub fn set_stale(&mut self, times: u32) {
        self.stale = times;
    }

    /// A cookie has come: the call is repeated with it soon, once.
    pub fn handle_cookie(&mut self, now: Time, rng: &mut Rng) {
        if !self.has_cookie {
            self.has_cookie = true;
            self.resend_at = self.resend_at.min(now + rng.within(JITTER));
        }
    }

    /// The peer was here just now: the call is repeated soon, and often.
    pub fn hurry(&mut self, now: Time, rng: &mut Rng) {
        if !self.is_urgent {
            self.is_urgent = true;
            self.tries = 1;
            self.resend_at = self.resend_at.min(now + self.wait(rng));
        }
    }

    /// A packet came that wants the keys. Returns whether the call is repeated for it: where losses come in bursts of
    /// packets, only sending ends a burst. The first call has its time, since the answer may be under way.
    pub fn hasten(&mut self, now: Time) -> bool {
        let is_sooner = self.tries > 1 && now < self.resend_at && self.wanted.spend(now);
        if is_sooner {
            self.resend_at = now;
        }
        is_sooner
    }

    /// The peer's keys have ended: it is gone for longer.
    pub fn relax(&mut self) {
        self.is_urgent = false;
    }

    /// The same call again.
    pub fn repeat(&mut self, now: Time, cookie: Option<&[u8; MAC]>, rng: &mut Rng) -> Vec<u8> {
        self.resend_at = now + self.wait(rng);
        self.tries += 1;
        self.datagram(cookie)
    }

    /// When to send it again.
    pub fn resend_at(&self) -> Time {
        self.resend_at
    }

    /// Whether it is time for another call instead of a repetition; `has_others`: there are other keys to call with.
    pub fn is_old(&self, now: Time, has_others: bool) -> bool {
        now.since(self.began) >= if has_others { TURN } else { RENEW_AFTER }
    }

    /// The next call to a peer that does not answer: not sooner than the last one would have come.
    pub fn go_on_from(&mut self, now: Time, previous: &Self, rng: &mut Rng) {
        self.tries = previous.tries + 1;
        self.stale = previous.stale;
        self.is_urgent = previous.is_urgent;
        self.wanted = previous.wanted;
        self.resend_at = now + self.wait(rng);
    }

    fn wait(&self, rng: &mut Rng) -> Duration {
        if self.is_urgent {
            let wait = URGENT * (1 << self.tries.saturating_sub(1).min(8));
            let wait = wait.min(RESEND);
            return wait + rng.within(wait / 3);
        }
        wait(self.tries) + rng.within(JITTER)
    }

    fn datagram(&mut self, cookie: Option<&[u8; MAC]>) -> Vec<u8> {
        let mut datagram = Call::begin(self.index, &self.noise);
        append_mac1(&mac_key(&self.pair.its), &mut datagram);
        self.mac1 = *datagram.last_chunk().expect("the mac was just appended");
        append_mac2(cookie, &mut datagram);
        datagram
    }
}

fn wait(tries: u32) -> Duration {
    let steps = tries.saturating_sub(SOON).min(8);
    RESEND.mul_f64(1.5_f64.powi(steps.cast_signed())).min(LONGEST)
}
