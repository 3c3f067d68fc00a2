//! The sending half: keeps unacknowledged sources, and chooses what to send next.
//!
//! A repair and a source sent again are both *equations*: either may make up for one lost source. How
//! many equations the peer still lacks is estimated from its last report and from what was sent since:
//!
//! ```text
//! deficit = missing - rank             reported
//!         + p * sources since          expected to be lost, unless they are acknowledgements alone
//!         - (1 - p) * equations since  expected to come
//!         + z * sqrt(variance)         margin
//! ```
//!
//! Above one half, an equation is sent: the oldest source known to be lost, or a repair over the window
//! if no source is known to be lost. With several paths, `p` and what was sent since are those of each path, and their
//! sum counts. A source that the report misses because it is still on its way by a slower path is no missing one.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;
use gf::coefficients::Coefficients;

use super::loss::Loss;
use super::number::{PATHS, PathId, sequence};
use super::overtaken::Lateness;
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
    /// What is on its way by each path.
    flights: [Flight; PATHS],
    /// The latest datagrams, the newest last: their numbers, and what they carried.
    latest: VecDeque<(u64, Carried)>,
    tail: Tail,
    view: View,
    held_up: HeldUp,
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

/// What was sent on a path and is not reported, and how much of that gets lost.
#[derive(Debug, Default)]
struct Flight {
    /// What each datagram from sequence `start` on carried. Those before have arrived or are lost.
    log: VecDeque<Carried>,
    start: u64,
    /// One past the greatest sequence that a report has told as received. A timeout may have moved `start` beyond.
    told: u64,
    /// How many of each kind are in the log: sources with more than acknowledgements, others, and equations.
    sources: u32,
    acknowledgements: u32,
    equations: u32,
    load: Load,
    loss: Loss,
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
    /// Missing sources, less the equations that the peer has for them.
    lacking: f64,
    /// Missing sources as ranges (first, one past the last), oldest first.
    holes: VecDeque<(u64, u64)>,
}

/// How long what has arrived waits at the peer for an earlier source that is not lost, but late.
#[derive(Debug, Default)]
struct HeldUp {
    /// The source that is waited for, and since when; without a time if an equation was sent since.
    by: Option<(u64, Option<Time>)>,
    lateness: Lateness,
}

/// The part of a report about sources, with full numbers.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// The path that the report is about.
    pub path: PathId,
    /// One past the greatest sequence received on each path; `None` for a path of which the report says nothing.
    pub horizons: [Option<u64>; PATHS],
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
            flights: Default::default(),
            latest: VecDeque::with_capacity(LATELY),
            tail: Tail::default(),
            view: View::default(),
            held_up: HeldUp::default(),
            pool: Pool::new(window, window * SOURCE),
            steps: 0,
        }
    }

    /// Takes a report of the peer. If the peer's reports have made too much work, so that this `is_over` its budget, only
    /// the acknowledgement counts.
    pub fn handle_report(
        &mut self,
        now: Time,
        report: &PeerView<'_>,
        is_over: bool,
    ) -> Result<(), Impossible> {
        let told = || self.flights.iter().zip(report.horizons);
        let is_beyond = told().any(|(flight, told)| told.is_some_and(|at| at > flight.end()));
        if is_beyond || report.end > self.end() || report.first_missing > report.end {
            return Err(Impossible);
        }
        // What a timeout has counted as lost on another path is old in every report until that path is heard again.
        let own = &self.flights[report.path.index()];
        let is_own_old = report.horizons[report.path.index()].is_some_and(|at| at < own.start);
        let is_old = told().any(|(flight, told)| told.is_some_and(|at| at < flight.told));
        if is_own_old || is_old || is_over {
            // The report was on its way when a timeout counted all as lost, was overtaken by one on another path, or is
            // too much work. Its acknowledgement still counts.
            self.acknowledge(report.first_missing);
            self.view.lacking = self.view.lacking.min(self.sources.len() as f64);
            return Ok(());
        }
        for (flight, told) in self.flights.iter_mut().zip(report.horizons) {
            flight.told = flight.told.max(told.unwrap_or(0));
            flight.forget_before(told.unwrap_or(0));
        }
        self.note_order(now, report);
        self.acknowledge(report.first_missing);

        let mut lacking = f64::from(report.missing) - f64::from(report.rank);
        self.view.holes.clear();
        let mut at = report.first_missing;
        for &(skip, len) in report.runs {
            let start = at + u64::from(skip);
            at = start + u64::from(len);
            self.view.holes.push_back((start, at));
        }
        // The peer does not know sources that were lost after the newest one it received.
        let mut end = report.end.max(self.first);
        while end < self.end() && !self.is_under_way(self.source(end)) {
            end += 1;
        }
        self.steps += LOOKED_AT * (end - report.end.max(self.first));
        if end > report.end {
            lacking += (end - report.end.max(self.first)) as f64;
            self.view.holes.push_back((report.end.max(self.first), end));
        }
        lacking -= self.overtaken(report.end) as f64;
        // The peer may say that it misses more than it could: nobody lacks more equations than there are sources.
        self.view.lacking = lacking.min(self.sources.len() as f64);
        self.skip_carried();
        Ok(())
    }

    /// Notes whether the first source that the peer misses holds up others, and how long the last such one did.
    fn note_order(&mut self, now: Time, report: &PeerView<'_>) {
        if let Some((number, since)) = self.held_up.by {
            if report.first_missing <= number {
                return;
            }
            if let Some(since) = since {
                self.held_up.lateness.handle_late(now, now.since(since));
            }
        }
        let is_holding = report.end > report.first_missing;
        self.held_up.by = is_holding.then_some((report.first_missing, Some(now)));
    }

    /// How long what has arrived usually waits at the peer for what is late.
    pub fn held_up(&self, now: Time) -> Duration {
        self.held_up.lateness.get(now)
    }

    /// How many of the sources before `end` are still on their way: other datagrams, on faster paths, have overtaken
    /// them.
    fn overtaken(&mut self, end: u64) -> usize {
        if self.flights[1..].iter().all(|flight| flight.start == 0 && flight.log.is_empty()) {
            return 0;
        }
        let count = index(end.saturating_sub(self.first)).min(self.sources.len());
        self.steps += LOOKED_AT * count as u64;
        self.sources.range(..count).filter(|source| self.is_under_way(source)).count()
    }

    /// Whether the source's latest transmission may still arrive.
    fn is_under_way(&self, source: &Source) -> bool {
        self.flights[path(source.carried_by)].start <= sequence(source.carried_by)
    }

    /// Counts everything in flight on a path as lost.
    pub fn handle_silence(&mut self, path: PathId) {
        let flight = &mut self.flights[path.index()];
        let lost = f64::from(flight.all_sources());
        flight.forget_before(flight.end());
        let are_all = self.flights.iter().all(|flight| flight.log.is_empty());
        let lacking = if are_all { f64::MAX } else { self.view.lacking.max(0.0) + lost };
        self.view.lacking = lacking.min(self.sources.len() as f64);
        self.view.holes.clear();
        self.view.holes.push_back((self.first, self.end()));
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

    /// Notes the content and the length of datagram `number`, the next one of its path.
    pub fn note(&mut self, now: Time, number: u64, carried: Carried, octets: usize, rtt: Duration) {
        if carried == Carried::Equation
            && let Some((_, since)) = &mut self.held_up.by
        {
            // It may make up for the source, which may be lost.
            *since = None;
        }
        match carried {
            Carried::Equation => self.tail.equations += 1,
            Carried::Source => self.tail = Tail { since: now, equations: 0 },
            Carried::Acknowledgements | Carried::Other => {}
        }
        if self.latest.len() == LATELY {
            self.latest.pop_front();
        }
        self.latest.push_back((number, carried));
        let flight = &mut self.flights[path(number)];
        flight.load.add(now, octets, rtt);
        flight.log.push_back(carried);
        flight.count(carried, 1);
        // Reports stop this from growing; a silent peer may not.
        if flight.log.len() > 8 * self.window.max(1_024) {
            flight.forget_before(flight.start + 1);
        }
    }

    /// Takes the totals of the peer about a path: see [`Loss::handle_counts`].
    pub fn handle_counts(&mut self, now: Time, path: PathId, [newest, received, runs]: [u64; 3]) {
        self.flights[path.index()].loss.handle_counts(now, newest, received, runs);
    }

    /// Forgets what was measured of the losses of a path, because it is another now.
    pub fn restart_loss(&mut self, path: PathId) {
        self.flights[path.index()].loss.restart();
    }

    /// The losses of a path.
    pub fn loss(&self, path: PathId) -> &Loss {
        &self.flights[path.index()].loss
    }

    /// Whether sources or equations are on their way by a path.
    pub fn is_flying(&self, path: PathId) -> bool {
        let flight = &self.flights[path.index()];
        flight.all_sources() + flight.equations > 0
    }

    /// Whether the peer is likely to lack an equation, with a margin of `z` standard deviations.
    pub fn lacks(&self, z: f64) -> bool {
        !self.sources.is_empty() && self.deficit(z) > THRESHOLD
    }

    /// The latest datagrams that are not reported, the newest first: their paths, and what they carried.
    fn lately(&self) -> impl Iterator<Item = (usize, Carried)> {
        let latest = self.latest.iter().rev();
        let open =
            latest.filter(|(number, _)| self.flights[path(*number)].start <= sequence(*number));
        open.map(|&(number, carried)| (path(number), carried))
    }

    /// Like [`Self::lacks`], for use when there is nothing else to send: also looks at each tail of the latest
    /// datagrams by itself. An equation does not help later sources, and no further source will bring further
    /// equations.
    pub fn lacks_lately(&self, z: f64) -> bool {
        let (mut mean, mut variance) = (0.0, 0.0);
        let is_short = self.lately().any(|(path, carried)| {
            let loss = &self.flights[path].loss;
            let p = loss.rate();
            match carried {
                Carried::Equation => mean -= 1.0 - p,
                Carried::Other => return false,
                Carried::Acknowledgements | Carried::Source => mean += p,
            }
            variance += p * (1.0 - p) * loss.dispersion();
            carried == Carried::Source && mean + z * variance.sqrt() > THRESHOLD
        });
        !self.sources.is_empty() && (is_short || self.deficit(z) > THRESHOLD)
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
        for (index, (_, carried)) in self.lately().enumerate() {
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
            if carried == Carried::Source {
                let lacking = LATELY + 1..SPAN;
                let short = lost[lacking.clone()].iter().chain(&came[lacking]).sum();
                risk = risk.max(short);
            }
        }
        risk
    }

    /// Octets sent on a path in a round trip, on the mean of some of them until the last datagram.
    pub fn octets_per_round(&self, path: PathId) -> f64 {
        self.flights[path.index()].load.octets / LOAD_ROUNDS
    }

    /// The equations sent since the newest source with more than acknowledgements.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Octets of the sources that are kept, and of buffers for the next.
    #[cfg(test)]
    pub fn octets(&self) -> usize {
        self.held + self.pool.octets()
    }

    /// How many datagrams of a path are remembered.
    #[cfg(test)]
    pub fn remembered(&self, path: PathId) -> usize {
        self.flights[path.index()].log.len()
    }

    /// How many equations the peer will lack once everything under way has arrived or is lost.
    pub fn deficit(&self, z: f64) -> f64 {
        let (mut mean, mut variance) = (self.view.lacking, 0.0);
        for flight in &self.flights {
            // Repairs are for acknowledgements, too, but only beside something that needs them.
            let sources = if flight.sources > 0 { flight.all_sources() } else { 0 };
            let loss = &flight.loss;
            let (p, sources, equations) =
                (loss.rate(), f64::from(sources), f64::from(flight.equations));
            mean += p * sources;
            mean -= (1.0 - p) * equations;
            variance += p * (1.0 - p) * loss.dispersion() * (sources + equations);
        }
        mean + z * variance.sqrt()
    }

    /// Whether the peer lacks more equations for its known losses than are under way. Only then is a
    /// source sent again: otherwise it would probably arrive twice, recovered and resent.
    pub fn lacks_known(&self) -> bool {
        let under_way = |flight: &Flight| (1.0 - flight.loss.rate()) * f64::from(flight.equations);
        self.view.lacking - self.flights.iter().map(under_way).sum::<f64>() > THRESHOLD
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
            let carried_by = source.map(|source| source.carried_by);
            if carried_by.is_some_and(|by| sequence(by) < self.flights[path(by)].start) {
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
}

impl Flight {
    fn all_sources(&self) -> u32 {
        self.sources + self.acknowledgements
    }

    /// One past the newest sequence.
    fn end(&self) -> u64 {
        self.start + self.log.len() as u64
    }

    fn forget_before(&mut self, before: u64) {
        while self.start < before
            && let Some(carried) = self.log.pop_front()
        {
            self.start += 1;
            self.count(carried, -1);
        }
    }

    fn count(&mut self, carried: Carried, change: i32) {
        match carried {
            Carried::Equation => self.equations = self.equations.saturating_add_signed(change),
            Carried::Acknowledgements => {
                self.acknowledgements = self.acknowledgements.saturating_add_signed(change);
            }
            Carried::Source => self.sources = self.sources.saturating_add_signed(change),
            Carried::Other => {}
        }
    }
}

impl Load {
    fn add(&mut self, now: Time, octets: usize, rtt: Duration) {
        let span = LOAD_ROUNDS * rtt.as_secs_f64().max(1e-3);
        let kept = libm::exp(-now.since(self.at).as_secs_f64() / span);
        *self = Self { octets: self.octets * kept + octets as f64, at: now };
    }
}

/// The place of the path that a datagram was sent on.
fn path(number: u64) -> usize {
    PathId::of(number).unwrap_or_default().index()
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
