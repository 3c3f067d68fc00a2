//! Finds the longest datagram that the path carries, by probes (RFC 8899).
//!
//! ```text
//!            reply                              tries used up
//!  Probing ─────────▶ Done ── after a while ──▶ Probing, the next smaller size
//!    ▲                 │ no progress
//!    │                 ▼
//!    └────────── Probing broadly: the size in use, the base, and smaller ones at once; what is in
//!                use falls to the greatest that is answered, and the search goes on from there
//! ```
//!
//! It begins broadly too, because the base is only believed to pass. The shortest probe goes with every round. Its
//! reply proves two facts: the path works at all, so the search goes on even without other traffic; and a longer
//! probe without a reply was too long. [`Search::poll_probe`] sends probes; [`Search::handle_timeout`] decides
//! after missing replies.

use std::time::Duration;

use base::time::Time;

/// Sizes of IP packets that paths are known for: Ethernet, `PPPoE`, common tunnels, jumbo frames.
const SIZES: [usize; 16] = [
    1_280, 1_320, 1_360, 1_380, 1_400, 1_420, 1_440, 1_460, 1_472, 1_480, 1_492, 1_500, 2_304,
    4_352, 8_166, 9_000,
];
/// The same below the base (RFC 1191, 7.1, and what each host takes by RFC 791).
const SHORT_SIZES: [usize; 4] = [LEAST, 576, 768, 1_006];
/// The shortest packet that a path has to carry: a report alone fits it. RFC 1191, 7.1, has no other
/// size between this one and 68 octets.
const LEAST: usize = 296;
/// Between sizes that paths are not known for the search ends at this difference.
const STEP: usize = 8;
/// After this many unanswered probes a size counts as too long. A third may be lost by chance.
const TRIES: u8 = 6;
/// After so many broad rounds without a reply the size in use is lowered to what is answered, until a
/// later reply raises it: a needlessly short packet costs less than an outage. Only so many rounds count as the
/// shortest probe had replies, so that loss is not taken for a short path.
const HASTE: u8 = 3;
/// A path that is new is asked about all short packets from this round on; one in doubt at once.
const BROAD_FROM: u8 = 2;
/// Between two probes while the round trip is not known.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(250);
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// While no probe is answered, not even the shortest, that one alone is sent, and the interval doubles with each
/// [`TRIES`] rounds: up to this time, so often at most.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);
const MAX_BACKOFF: u32 = 10;
/// After a search that did not reach the ceiling (RFC 8899, 5.1.1); and at least after one that was due meanwhile.
const RAISE_AFTER: Duration = Duration::from_secs(600);
const RAISE_PAUSE: Duration = Duration::from_secs(1);

/// The search for the path MTU. All sizes are sizes of outer IP packets.
#[derive(Debug)]
pub struct Search {
    /// Where the search begins on each path, if that takes it.
    believed: usize,
    base: usize,
    ceiling: usize,
    confirmed: usize,
    /// The size that passed on the former path, as long as nothing is known of its passing on the
    /// present path; or 0.
    former: usize,
    /// Replies that come before this time may be to probes on the path before.
    replies_from: Time,
    /// The least size that is known not to pass.
    failed: usize,
    /// When the search goes upwards again. Doubts in between do not put it off.
    raise_at: Option<Time>,
    state: State,
}

#[derive(Debug)]
enum State {
    Done,
    Probing(Probing),
}

#[derive(Debug)]
struct Probing {
    /// The size that is to be found out about.
    size: usize,
    /// From which round on shorter sizes are asked about as well, because the one in use is in doubt.
    broad_from: Option<u8>,
    rounds: u8,
    /// Sizes of the probes still to be sent in this round, the next probe last.
    unsent: Vec<usize>,
    /// Octets sent in this round.
    octets: usize,
    /// When the next probe may be sent.
    next_at: Time,
    /// When the round is over, once all its probes are sent.
    ends_at: Option<Time>,
    backoff: u32,
    /// Rounds since anything was answered.
    unanswered: u8,
    /// Whether anything came from the peer, since the last time that the interval was doubled.
    is_heard: bool,
    /// The greatest size that was answered.
    best: usize,
    /// Replies to the shortest probe, which goes with each round.
    controls: u8,
}

impl Search {
    pub fn new(now: Time, base: usize, ceiling: usize) -> Self {
        let mut search = Self {
            believed: base,
            base,
            ceiling,
            confirmed: 0,
            former: 0,
            replies_from: now,
            failed: 0,
            raise_at: None,
            state: State::Done,
        };
        search.handle_path_changed(now, ceiling, Duration::ZERO);
        search
    }

    /// The greatest packet that is known to pass, or believed to before anything is known.
    pub fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// Whether no search is under way.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The greatest packet that is not known to be too long.
    pub fn passing(&self) -> usize {
        self.confirmed.max(self.former)
    }

    /// The path is another one, whose first link takes packets of `ceiling` octets. `min_rtt` is the least
    /// round trip of the one before.
    pub fn handle_path_changed(&mut self, now: Time, ceiling: usize, min_rtt: Duration) {
        self.ceiling = ceiling.max(LEAST);
        self.base = self.believed.clamp(LEAST, self.ceiling);
        self.replies_from = now + min_rtt;
        self.restart(now);
    }

    /// Starts again from the base.
    fn restart(&mut self, now: Time) {
        self.former = self.passing().min(self.ceiling);
        self.confirmed = self.base;
        self.failed = self.ceiling + 1;
        self.raise_at = None;
        self.probe(now, self.ceiling, Some(BROAD_FROM));
    }

    /// Anything came from the peer.
    pub fn handle_heard(&mut self, now: Time) {
        if let State::Probing(probing) = &mut self.state
            && !std::mem::replace(&mut probing.is_heard, true)
            && probing.backoff > 0
        {
            self.begin_round(now);
        }
    }

    /// The peer received a packet of this size.
    pub fn handle_reply(&mut self, now: Time, size: usize) {
        let (base, confirmed, former) = (self.base, self.confirmed, self.former);
        let State::Probing(probing) = &mut self.state else { return };
        if now < self.replies_from {
            return;
        }
        if size != probing.size {
            let is_asked = size < probing.size && (probing.broad_from.is_some() || size == LEAST);
            let is_known = [base, confirmed, former].contains(&size) || SHORT_SIZES.contains(&size);
            if is_asked && is_known {
                probing.controls = probing.controls.saturating_add(u8::from(size == LEAST));
                probing.best = probing.best.max(size);
                self.confirmed = confirmed.max(size);
                probing.unanswered = 0;
                if std::mem::take(&mut probing.backoff) > 0 {
                    self.begin_round(now);
                }
            }
            return;
        }
        self.confirmed = size;
        self.advance(now);
    }

    /// The system says that packets of this size are too big for the local interface or a router.
    pub fn handle_too_big(&mut self, now: Time, size: usize) {
        if size <= LEAST {
            return;
        }
        let asked = match &self.state {
            State::Probing(probing) if size == probing.size => Some(probing.broad_from),
            State::Done | State::Probing(_) => None,
        };
        self.former = self.former.min(size - 1);
        if size <= self.base {
            self.ceiling = size - 1;
            self.base = self.base.min(self.ceiling);
            self.failed = self.failed.min(size);
            self.confirmed = self.confirmed.min(below(size));
            self.probe(now, usize::midpoint(self.confirmed, size), Some(0));
        } else if size <= self.confirmed {
            self.ceiling = size - 1;
            self.restart(now);
        } else if let Some(broad_from) = asked {
            self.failed = self.failed.min(size);
            self.ceiling = self.ceiling.min(size - 1);
            match known_between(self.confirmed, size) {
                Some(smaller) => self.probe(now, smaller, broad_from),
                None if broad_from.is_some() => self.probe(now, self.confirmed, broad_from),
                None => self.advance(now),
            }
        }
    }

    /// The first link of the same path takes packets of `ceiling` octets now. If that is more than before, more is
    /// tried.
    pub fn handle_first_link(&mut self, now: Time, ceiling: usize) {
        let ceiling = ceiling.max(LEAST);
        if ceiling < self.ceiling {
            self.handle_too_big(now, ceiling + 1);
        } else if ceiling > self.ceiling {
            self.ceiling = ceiling;
            self.base = self.believed.clamp(LEAST, ceiling);
            // What is being found out now comes first.
            self.raise_at = Some(now);
            self.handle_timeout(now);
        }
    }

    /// Packets of the confirmed size do not seem to arrive: it is probed again, and shorter ones. A search
    /// upwards goes on afterwards.
    pub fn verify(&mut self, now: Time) {
        let is_verifying =
            matches!(&self.state, State::Probing(probing) if probing.broad_from.is_some());
        if self.confirmed > LEAST && !is_verifying {
            self.probe(now, self.confirmed, Some(0));
        }
    }

    /// The size of the probe that is to be sent now. A round takes a round trip and a half, and as long as its
    /// probes need at `rate`, in bit/s.
    pub fn poll_probe(&mut self, now: Time, rtt: Option<Duration>, rate: f64) -> Option<usize> {
        let State::Probing(probing) = &mut self.state else { return None };
        if probing.next_at > now {
            return None;
        }
        let size = probing.unsent.pop()?;
        probing.octets += size;
        if probing.unsent.is_empty() {
            let interval = rtt.map_or(UNKNOWN_INTERVAL, |rtt| (rtt + rtt / 2).max(MIN_INTERVAL));
            let seconds = 8.0 * probing.octets as f64 / rate.max(1.0);
            let at_rate = Duration::from_secs_f64(seconds.min(LONGEST_INTERVAL.as_secs_f64()));
            let longest = interval.max(LONGEST_INTERVAL);
            let interval = (interval * (1 << probing.backoff)).clamp(at_rate, longest);
            probing.ends_at = Some(now + interval);
        }
        Some(size)
    }

    /// When the next probe may be sent.
    pub fn next_probe(&self) -> Option<Time> {
        match &self.state {
            State::Done => None,
            State::Probing(probing) => (!probing.unsent.is_empty()).then_some(probing.next_at),
        }
    }

    /// When a round is over, or the search begins anew.
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Done => self.raise_at,
            State::Probing(probing) => probing.ends_at,
        }
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        let State::Probing(probing) = &mut self.state else {
            (self.failed, self.raise_at) = (self.ceiling + 1, None);
            let broad_from = (self.confirmed < self.base).then_some(0);
            self.probe(now, self.ceiling, broad_from);
            return;
        };
        probing.rounds = probing.rounds.saturating_add(1);
        let is_broad = probing.broad_from.is_some();
        let counting = probing.rounds.min(probing.controls);
        if is_broad && counting >= HASTE {
            self.confirmed = self.confirmed.min(probing.best);
            self.former = 0;
        }
        if counting >= TRIES && probing.is_heard {
            let size = probing.size;
            self.fail(now, size);
            return;
        }
        probing.unanswered += 1;
        if probing.unanswered >= TRIES {
            // Nothing arrives there, or nothing here, so the size is not to blame.
            probing.unanswered = 0;
            probing.backoff = (probing.backoff + 1).min(MAX_BACKOFF);
            probing.is_heard = false;
        }
        self.begin_round(now);
    }

    /// Probes of this size are not answered, or not even sent.
    fn fail(&mut self, now: Time, size: usize) {
        self.failed = self.failed.min(size);
        if let State::Probing(probing) = &self.state
            && probing.broad_from.is_some()
        {
            if probing.best < self.confirmed.min(size) {
                self.confirmed = probing.best.max(LEAST);
            }
            let best = self.confirmed;
            let shorter = SHORT_SIZES.into_iter().chain([self.base]).find(|&it| it > best);
            self.failed = self.failed.min(shorter.unwrap_or(size));
        }
        self.advance(now);
    }

    /// Goes on with the next size between the confirmed one and one that does not pass.
    fn advance(&mut self, now: Time) {
        self.former = 0;
        let (confirmed, failed) = (self.confirmed, self.failed);
        if confirmed >= self.ceiling {
            self.finish(now);
        } else if failed > self.ceiling {
            // The one that passed was only to be verified.
            self.probe(now, self.ceiling, None);
        } else if let Some(size) = known_between(confirmed, failed) {
            self.probe(now, size, None);
        } else if confirmed < SIZES[0] && failed > confirmed + STEP {
            self.probe(now, usize::midpoint(confirmed, failed), None);
        } else {
            self.finish(now);
        }
    }

    fn probe(&mut self, now: Time, size: usize, broad_from: Option<u8>) {
        self.state = State::Probing(Probing {
            size,
            broad_from,
            rounds: 0,
            unsent: Vec::new(),
            next_at: now,
            ends_at: None,
            octets: 0,
            backoff: 0,
            unanswered: 0,
            is_heard: false,
            best: 0,
            controls: 0,
        });
        self.begin_round(now);
    }

    fn begin_round(&mut self, now: Time) {
        let State::Probing(probing) = &mut self.state else { return };
        probing.unsent.clear();
        probing.octets = 0;
        probing.unsent.push(probing.size);
        if probing.backoff > 0 {
            probing.unsent[0] = LEAST;
        } else if let Some(from) = probing.broad_from {
            // A peer that is not heard at all is not asked about all of them.
            let may_be = probing.rounds >= from && (probing.is_heard || from == 0);
            let short = SHORT_SIZES.into_iter().filter(|_| may_be);
            let others = [self.confirmed, self.base, self.former].into_iter().chain(short);
            probing.unsent.extend(others.filter(|&it| it < probing.size && it > probing.best));
        }
        probing.unsent.extend((LEAST < probing.size).then_some(LEAST));
        probing.unsent.sort_unstable_by(|one, other| other.cmp(one));
        probing.unsent.dedup();
        (probing.next_at, probing.ends_at) = (now, None);
    }

    fn finish(&mut self, now: Time) {
        let at = self.raise_at.map_or(now + RAISE_AFTER, |at| at.max(now + RAISE_PAUSE));
        self.raise_at = (self.confirmed < self.ceiling).then_some(at);
        self.state = State::Done;
    }
}

/// The greatest of the known sizes between two.
fn known_between(passes: usize, fails: usize) -> Option<usize> {
    SIZES.into_iter().rev().find(|&size| size < fails && size > passes)
}

/// The greatest short size below `size`.
fn below(size: usize) -> usize {
    SHORT_SIZES.into_iter().rev().find(|&shorter| shorter < size).unwrap_or(LEAST)
}
