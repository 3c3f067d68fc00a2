//! The sending half: keeps unacknowledged sources, and chooses what to send next.
//!
//! A repair and a source sent again are both *equations*: either may make up for one lost source. How
//! many equations the peer still lacks is estimated from its last report and from what was sent since:
//!
//! ```text
//! deficit = missing - rank             reported
//!         + p * sources since          expected to be lost
//!         - (1 - p) * equations since  expected to come
//!         + z * sqrt(variance)         margin
//! ```
//!
//! Above one half, an equation is sent: the oldest source known to be lost, or a repair over the window
//! if no source is known to be lost.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;
use gf::coefficients::Coefficients;

use super::loss::Loss;
use super::pool::Pool;
use super::wire::MAX_REPAIR_WINDOW;

/// Octets of memory for each source of the window, at most on their mean: on paths with longer datagrams fewer
/// sources are kept.
const SOURCE: usize = 1_536;
/// The number of latest datagrams whose tails are examined separately.
const LATELY: usize = 16;
/// The memory of the load, in round trips: longer than a burst that is over at once.
const LOAD_ROUNDS: f64 = 4.0;
/// Steps of work for each source that a report makes us look at.
pub const LOOKED_AT: u64 = 64;
/// The deficit from which an equation is sent.
const THRESHOLD: f64 = 0.5;

/// Sources that may need a retransmission, and what is known about their delivery.
#[derive(Debug)]
pub struct Sender {
    /// The most sources that are kept.
    window: usize,
    /// The number of the first source in `sources`.
    first: u64,
    sources: VecDeque<Source>,
    /// Memory of the sources, in octets.
    held: usize,
    /// What each datagram from number `log_start` on carried.
    log: VecDeque<Carried>,
    log_start: u64,
    /// The numbers of sources and of equations in the log.
    sources_since: u32,
    equations_since: u32,
    tail: Tail,
    load: Load,
    view: View,
    pool: Pool,
    /// All steps of work that reports have made.
    steps: u64,
}

#[derive(Debug)]
struct Source {
    symbol: Vec<u8>,
    /// The time of the source's first transmission.
    sent_at: Time,
    /// The datagram that carried the source most recently.
    carried_by: u64,
    /// The DSCP of the source's packets, as far as DSCPs are copied.
    dscp: u8,
}

/// The equations sent since the newest source; a source with nothing but acknowledgements does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    /// When that source was sent.
    pub since: Time,
    /// Equations since then.
    pub equations: usize,
}

/// Octets sent lately, in which older ones weigh less.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    octets: f64,
    at: Time,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carried {
    /// A source with nothing but TCP acknowledgements, which later ones make up for.
    Acknowledgements,
    /// A repair, or a retransmitted source.
    Equation,
    Other,
    Source,
}

/// The last report, updated with the datagrams sent since.
#[derive(Debug, Default)]
struct View {
    /// Datagrams before this number have arrived or are lost.
    horizon: u64,
    /// Missing sources, less the equations that the peer has for them.
    lacking: f64,
    /// Missing sources as ranges (first, one past the last), oldest first.
    holes: VecDeque<(u64, u64)>,
}

/// The part of a report about sources, with full numbers.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// One past the greatest datagram number received.
    pub horizon: u64,
    pub first_missing: u64,
    pub end: u64,
    pub missing: u16,
    pub rank: u16,
    /// (skip, length), from the first missing one on.
    pub runs: &'a [(u16, u16)],
}

/// Why a report is not believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Impossible;

impl Sender {
    pub fn new(window: usize) -> Self {
        Self {
            window,
            first: 0,
            sources: VecDeque::new(),
            held: 0,
            log: VecDeque::new(),
            log_start: 0,
            sources_since: 0,
            equations_since: 0,
            tail: Tail::default(),
            load: Load::default(),
            view: View::default(),
            pool: Pool::new(window, window * SOURCE),
            steps: 0,
        }
    }

    /// Takes a report of the peer. If the peer's reports have made too much work, so that this `is_over` its budget, only
    /// the acknowledgement counts.
    pub fn handle_report(
        &mut self,
        report: &PeerView<'_>,
        is_over: bool,
    ) -> Result<(), Impossible> {
        let log_end = self.log_start + self.log.len() as u64;
        if report.horizon > log_end || report.end > self.end() || report.first_missing > report.end
        {
            return Err(Impossible);
        }
        if report.horizon < self.view.horizon || is_over {
            // The report was on its way when a timeout counted all as lost, or is too much work. Its acknowledgement
            // still counts.
            self.acknowledge(report.first_missing);
            self.view.lacking = self.view.lacking.min(self.sources.len() as f64);
            return Ok(());
        }
        self.forget_log(report.horizon);
        self.acknowledge(report.first_missing);

        let mut lacking = f64::from(report.missing) - f64::from(report.rank);
        self.view.horizon = report.horizon;
        self.view.holes.clear();
        let mut at = report.first_missing;
        for &(skip, len) in report.runs {
            let start = at + u64::from(skip);
            at = start + u64::from(len);
            self.view.holes.push_back((start, at));
        }
        // The peer does not know sources that were lost after the newest one it received.
        let mut end = report.end.max(self.first);
        while end < self.end() && self.source(end).carried_by < report.horizon {
            end += 1;
        }
        self.steps += LOOKED_AT * (end - report.end.max(self.first));
        if end > report.end {
            lacking += (end - report.end.max(self.first)) as f64;
            self.view.holes.push_back((report.end.max(self.first), end));
        }
        // The peer may say that it misses more than it could: nobody lacks more equations than there are sources.
        self.view.lacking = lacking.min(self.sources.len() as f64);
        self.skip_carried();
        Ok(())
    }

    /// Counts everything in flight as lost.
    pub fn handle_silence(&mut self) {
        let end = self.log_start + self.log.len() as u64;
        self.forget_log(end);
        self.view.horizon = end;
        self.view.holes.clear();
        self.view.holes.push_back((self.first, self.end()));
        self.view.lacking = self.sources.len() as f64;
        self.skip_carried();
    }

    /// Gives up sources that were sent before `time`; returns how many.
    pub fn give_up_before(&mut self, time: Time) -> u64 {
        let is_old = |source: &Source| source.sent_at < time;
        let count = self.sources.iter().take_while(|source| is_old(source)).count() as u64;
        self.acknowledge(self.first + count);
        count
    }

    /// Gives up sources whose symbols are longer than `limit`, and all before them.
    pub fn give_up_longer(&mut self, limit: usize) -> u64 {
        let last = self.sources.iter().rposition(|source| source.symbol.len() > limit);
        let count = last.map_or(0, |last| last as u64 + 1);
        self.acknowledge(self.first + count);
        count
    }

    /// The number of the next source, if there is room for one.
    pub fn next_source(&self) -> Option<u64> {
        let has_room = self.sources.len() < self.window && self.held < self.window * SOURCE;
        has_room.then(|| self.end())
    }

    /// A buffer for a symbol of `max` octets, and no more: it grows in no steps.
    pub fn buffer(&mut self, max: usize) -> Vec<u8> {
        let mut buffer = self.pool.take();
        buffer.reserve_exact(max);
        buffer.shrink_to(max);
        // What is kept in reserve may be of a path with other lengths.
        while self.held + self.pool.octets() + max > self.window * SOURCE && self.pool.octets() > 0
        {
            drop(self.pool.take());
        }
        buffer
    }

    pub fn add_source(&mut self, now: Time, symbol: Vec<u8>, carried_by: u64) -> &[u8] {
        self.held += symbol.capacity();
        self.sources.push_back(Source { symbol, sent_at: now, carried_by, dscp: 0 });
        &self.sources.back().expect("one was just added").symbol
    }

    /// The packets in the newest source have this DSCP.
    pub fn set_dscp(&mut self, dscp: u8) {
        if let Some(source) = self.sources.back_mut() {
            source.dscp = dscp;
        }
    }

    /// The DSCP for an equation sent for source `number`; without a number, the DSCP of the newest
    /// source.
    pub fn dscp(&self, number: Option<u64>) -> u8 {
        let source = match number {
            Some(number) => self.sources.get(index(number.saturating_sub(self.first))),
            None => self.sources.back(),
        };
        source.map_or(0, |source| source.dscp)
    }

    /// Notes the content and the length of the next datagram.
    pub fn note(&mut self, now: Time, carried: Carried, octets: usize, rtt: Duration) {
        let span = LOAD_ROUNDS * rtt.as_secs_f64().max(1e-3);
        let kept = libm::exp(-now.since(self.load.at).as_secs_f64() / span);
        self.load = Load { octets: self.load.octets * kept + octets as f64, at: now };
        match carried {
            Carried::Equation => self.tail.equations += 1,
            Carried::Source => self.tail = Tail { since: now, equations: 0 },
            Carried::Acknowledgements | Carried::Other => {}
        }
        self.log.push_back(carried);
        self.count(carried, 1);
        // Reports stop this from growing; a silent peer may not.
        if self.log.len() > 8 * self.window.max(1_024) {
            self.forget_log(self.log_start + 1);
        }
    }

    /// Whether the peer is likely to lack an equation, with a margin of `z` standard deviations.
    pub fn lacks(&self, loss: &Loss, z: f64) -> bool {
        !self.sources.is_empty() && self.deficit(loss, z) > THRESHOLD
    }

    /// Like [`Self::lacks`], for use when there is nothing else to send: also looks at each tail of the latest
    /// datagrams by itself. An equation does not help later sources, and no further source will bring further
    /// equations.
    pub fn lacks_lately(&self, loss: &Loss, z: f64) -> bool {
        let p = loss.rate();
        let (mut mean, mut variance) = (0.0, 0.0);
        let mut last = self.log.iter().rev().take(LATELY);
        let is_short = last.any(|carried| {
            match carried {
                Carried::Equation => mean -= 1.0 - p,
                Carried::Other => return false,
                Carried::Acknowledgements | Carried::Source => mean += p,
            }
            variance += p * (1.0 - p) * loss.dispersion();
            *carried == Carried::Source && mean + z * variance.sqrt() > THRESHOLD
        });
        !self.sources.is_empty() && (is_short || self.deficit(loss, z) > THRESHOLD)
    }

    /// The risk that the peer lacks an equation for the latest datagrams, if datagrams are lost with probability
    /// `p` in bursts of `burst`: the greatest probability over all tails that begin with a recent source.
    ///
    /// It looks at each tail by itself as [`Self::lacks_lately`] does, but exactly, by Gilbert's model: a
    /// chain of lost and received, which is the same backwards.
    pub fn tail_risk(&self, p: f64, burst: f64) -> f64 {
        const SPAN: usize = 2 * LATELY + 1;
        if self.sources.is_empty() || p <= 0.0 {
            return 0.0;
        }
        let stays = p.max(1.0 - 1.0 / burst.max(1.0));
        let begins = p * (1.0 - stays) / (1.0 - p);
        // By how many equations the peer will lack, less `LATELY`; where the oldest was lost, and not.
        let (mut lost, mut came) = ([0.0; SPAN], [0.0; SPAN]);
        (lost[LATELY], came[LATELY]) = (p, 1.0 - p);
        let mut risk: f64 = 0.0;
        for (index, carried) in self.log.iter().rev().take(LATELY).enumerate() {
            let (before_lost, before_came) = (lost, came);
            if index > 0 {
                for at in 0..SPAN {
                    lost[at] = before_lost[at] * stays + before_came[at] * begins;
                    came[at] = before_lost[at] * (1.0 - stays) + before_came[at] * (1.0 - begins);
                }
            }
            match carried {
                Carried::Equation => came.rotate_left(1),
                Carried::Acknowledgements | Carried::Source => lost.rotate_right(1),
                Carried::Other => {}
            }
            if *carried == Carried::Source {
                let lacking = LATELY + 1..SPAN;
                let short = lost[lacking.clone()].iter().chain(&came[lacking]).sum();
                risk = risk.max(short);
            }
        }
        risk
    }

    /// Octets sent in a round trip, on the mean of some of them until the last datagram.
    pub fn octets_per_round(&self) -> f64 {
        self.load.octets / LOAD_ROUNDS
    }

    /// The equations sent since the newest source with more than acknowledgements.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// How many equations the peer will lack once everything under way has arrived or is lost.
    pub fn deficit(&self, loss: &Loss, z: f64) -> f64 {
        let p = loss.rate();
        let (sources, equations) = (f64::from(self.sources_since), f64::from(self.equations_since));
        let variance = p * (1.0 - p) * loss.dispersion() * (sources + equations);
        self.view.lacking + p * sources - (1.0 - p) * equations + z * variance.sqrt()
    }

    /// Whether the peer lacks more equations for its known losses than are under way. Only then is a
    /// source sent again: otherwise it would probably arrive twice, recovered and resent.
    pub fn lacks_known(&self, loss: &Loss) -> bool {
        self.view.lacking - (1.0 - loss.rate()) * f64::from(self.equations_since) > THRESHOLD
    }

    /// When the oldest source was sent that is known to be lost and is not on its way again.
    pub fn oldest_hole(&self) -> Option<Time> {
        let &(number, _) = self.view.holes.front()?;
        Some(self.source(number).sent_at)
    }

    /// The oldest source whose latest transmission is known to be lost; it is now carried by
    /// `carried_by`.
    pub fn next_lost(&mut self, carried_by: u64) -> Option<(u64, &[u8])> {
        let &(number, _) = self.view.holes.front()?;
        let symbol = self.again(number, carried_by)?;
        Some((number, symbol))
    }

    /// Drops holes at the front if their source is acknowledged or in flight again: the first hole is always the oldest
    /// source to retransmit. A hole that is dropped comes back with the next report at the earliest.
    fn skip_carried(&mut self) {
        while let Some((start, end)) = self.view.holes.front_mut() {
            *start = (*start).max(self.first);
            if *start >= *end {
                self.view.holes.pop_front();
                continue;
            }
            let source = self.sources.get(index(*start - self.first));
            if source.is_some_and(|source| source.carried_by < self.view.horizon) {
                return;
            }
            *start += 1;
            self.steps += LOOKED_AT;
        }
    }

    /// A source if it is still kept; it is now carried by `carried_by`.
    pub fn again(&mut self, number: u64, carried_by: u64) -> Option<&[u8]> {
        let at = index(number.checked_sub(self.first)?);
        self.sources.get_mut(at)?.carried_by = carried_by;
        self.skip_carried();
        self.sources.get(at).map(|source| source.symbol.as_slice())
    }

    /// The oldest source that is not acknowledged; it is now carried by `carried_by`.
    pub fn oldest(&mut self, carried_by: u64) -> Option<(u64, &[u8])> {
        let first = self.first;
        let symbol = self.again(first, carried_by)?;
        Some((first, symbol))
    }

    /// Replaces the content of `out` by a repair over the newest sources that may be missing, and returns the
    /// repair's window; `number` is the number of the repair's datagram.
    pub fn repair(&self, number: u64, out: &mut Vec<u8>) -> Option<(u64, u16)> {
        let count = (self.sources.len() as u64).min(MAX_REPAIR_WINDOW);
        let skipped = self.sources.len() - index(count);
        let sources = self.sources.range(skipped..);
        let len = sources.clone().map(|source| source.symbol.len()).max()?;
        let symbols = sources.map(|source| source.symbol.as_slice());
        let terms: Vec<_> = Coefficients::of(number).zip(symbols).collect();
        out.clear();
        out.resize(len, 0);
        gf::accumulate(out, &terms);
        Some((self.end() - count, u16::try_from(count).expect("at most 1,024")))
    }

    /// All steps of work that reports have made so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The unacknowledged sources that were sent first at `time` or later, with their numbers and in order.
    pub fn sent_since(&self, time: Time) -> impl Iterator<Item = (u64, &[u8])> {
        let sources = (self.first..).zip(&self.sources);
        let young = sources.filter(move |(_, source)| source.sent_at >= time);
        young.map(|(number, source)| (number, source.symbol.as_slice()))
    }

    /// The newest source that is kept.
    pub fn newest(&self) -> Option<&[u8]> {
        self.sources.back().map(|source| source.symbol.as_slice())
    }

    /// The number of the oldest source that is kept.
    pub fn floor(&self) -> u64 {
        self.first
    }

    /// One past the newest source.
    pub fn end(&self) -> u64 {
        self.first + self.sources.len() as u64
    }

    pub fn has_unacknowledged(&self) -> bool {
        !self.sources.is_empty()
    }

    /// When the oldest source was sent first.
    pub fn oldest_sent_at(&self) -> Option<Time> {
        self.sources.front().map(|source| source.sent_at)
    }

    fn source(&self, number: u64) -> &Source {
        &self.sources[index(number - self.first)]
    }

    fn acknowledge(&mut self, before: u64) {
        while self.first < before
            && let Some(source) = self.sources.pop_front()
        {
            self.first += 1;
            self.held -= source.symbol.capacity();
            let octets = self.held + self.pool.octets() + source.symbol.capacity();
            if octets <= self.window * SOURCE {
                self.pool.give(source.symbol);
            }
        }
        self.skip_carried();
    }

    fn forget_log(&mut self, before: u64) {
        while self.log_start < before
            && let Some(carried) = self.log.pop_front()
        {
            self.log_start += 1;
            self.count(carried, -1);
        }
    }

    fn count(&mut self, carried: Carried, change: i32) {
        match carried {
            Carried::Equation => {
                self.equations_since = self.equations_since.saturating_add_signed(change);
            }
            Carried::Acknowledgements | Carried::Source => {
                self.sources_since = self.sources_since.saturating_add_signed(change);
            }
            Carried::Other => {}
        }
    }
}

/// How many standard deviations of the expected losses are repaired in advance while there is more to
/// send.
///
/// An equation sent in advance may turn out to be needless; one sent after the report comes a round
/// trip later. So the margin grows with the round trip, relative to `patience`: the delay that a TCP
/// inside bears without a timeout. `docs/protocols/nc.md` explains it.
pub fn margin(rtt: Duration, patience: Duration) -> f64 {
    let share = rtt.as_secs_f64() / patience.as_secs_f64().max(1e-3);
    (4.0 * share - 2.3).clamp(-2.0, 1.5)
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("within the window")
}
