//! The budget of a neighbour: how many packets may be in flight to it, over all its flows.
//!
//! ```text
//!   starting ──a queue builds, or own loss──▶ steady
//!   doubles in each round                      cubic growth (RFC 9438), or an eighth in each round while
//!   that it was the limit of                   no queue builds and it is below twice what the path holds
//!                                              own loss: 0.8 of it, but no less than what the path holds
//!                                              long queue: trial ──it shortens──▶ stays lower
//!                                                            └──it does not───▶ as before, others fill it
//! ```
//!
//! Long packets go out in short trains at a pace a little above the budget in each round trip, because acknowledgements
//! come in clumps and a queue that HBH does not see may be short. Short packets wait for no pace.
//!
//! HBH does not see the queue of a radio behind a cable, only its delay. Where nobody else fills the queue, HBH keeps it
//! short: a lost packet arrives after two such delays, and packets in the queue of a neighbour that has gone cannot go
//! another way.
//!
//! Loss of the link does not lower the budget. Loss is taken to be of our own making when more is in flight than the
//! path holds and it comes with a queue, or when more is lost of what exceeded the capacity of the path than of the
//! rest.

use std::time::Duration;

use base::time::Time;

use super::rtt::Estimator;

/// Where it starts: several times TCP's first window (RFC 6928).
const START: usize = 64;
/// With so many packets in flight, long ones wait for the first delivery; it is still more than TCP's first window. A
/// change of routes may hand a whole queue to an unknown neighbour, and must not send it at once. Each delivery allows
/// one packet more, as in TCP's own slow start (RFC 5681, 3.1), so a single flow that starts is not held back.
const OPEN: usize = 16;
/// For how long after a loss of our own making the budget grows no faster than CUBIC: others may share the queue.
const SHARED: Duration = Duration::from_secs(10);
/// Packets beyond and within the capacity that must have been sent before their losses are compared.
const COMPARED: f64 = 24.0;
/// Queueing delay that is always tolerated; real-time drivers have jitter of this order.
const TOLERATED: Duration = Duration::from_millis(5);
/// A queue that HBH does not see may always have this delay: radios that share the air are ready at irregular times.
/// Twice this is too long.
const QUEUE: Duration = Duration::from_millis(100);
/// Rounds after which a lower budget must have shortened the queue.
const TRIAL: u64 = 2;
/// How long a queue that others fill is left alone before the next trial: at first, and after many vain trials.
const LEFT_ALONE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(80));
/// The least that a trial leaves, in packets.
const LEAST: f64 = 4.0;
/// The share of the budget left after a loss of our own making: more than in RFC 9438, because a neighbour may have
/// several flows, and each loss counts. Then the growth constant of RFC 9438, in packets/s³.
const DECREASE: f64 = 0.8;
const GROWTH: f64 = 0.4;
/// Room beyond what the path holds, for acknowledgements that wait, in packets.
const SLACK: f64 = 16.0;
/// A loss with at most this many packets beyond the path's capacity is not taken to be of our own making.
const LEAST_QUEUE: f64 = 4.0;
/// Rounds over which the greatest rate is taken.
const ROUNDS: u64 = 10;

/// The longest train, in packets.
const TRAIN: f64 = 4.0;
/// The longest train when nothing is in flight, as TCP's first window (RFC 6928).
const FIRST_TRAIN: f64 = 10.0;
/// Shorter round trips know no pace: the whole budget is soon gone.
const PACED: Duration = Duration::from_millis(5);
/// A train may be as long as the pace allows in this time.
const TICK: Duration = Duration::from_millis(1);
/// The pace, in budgets a round trip: while starting, and afterwards.
const PACES: (f64, f64) = (2.0, 1.25);

/// The state of the path at the start of a transmission.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Sample {
    delivered: u64,
    delivered_at: Time,
    /// Whether more was in flight than the path holds.
    is_beyond: bool,
}

impl Sample {
    pub fn is_beyond(&self) -> bool {
        self.is_beyond
    }
}

/// What a budget has room for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Room {
    /// Nothing but pure acknowledgements.
    None,
    /// Room for short packets alone. Voice fills no queue, and waiting would make it late.
    Short,
    /// Packets of any length.
    Any,
}

/// The limit of packets in flight, and the measurements behind the limit.
#[derive(Clone, Debug)]
pub struct Budget {
    size: f64,
    /// With so many packets in flight, long ones wait: [`OPEN`], and one more for each delivery.
    open: usize,
    bounds: (f64, f64),
    flying: usize,
    /// Packets allowed at once at `credited_at`; negative after short packets, which do not wait.
    credit: f64,
    credited_at: Time,
    /// When the next long packet may go.
    next_at: Time,
    is_starting: bool,
    /// Packets delivered so far, and the time of the last delivery.
    delivered: u64,
    delivered_at: Time,
    /// The number of rounds so far, and the count of deliveries that ends the current round.
    round: u64,
    round_end: u64,
    round_shortest: Option<Duration>,
    was_full: bool,
    /// The greatest rates of delivery, in packets/s, with the rounds they were seen in: falling, and ever later.
    rates: [(f64, u64); 2],
    /// The queueing delay of the last round.
    queueing: Duration,
    /// Packets sent since an acknowledgement was last asked for.
    since_request: usize,
    /// Packets beyond the capacity of the path and others: lost, and sent; recent ones count most.
    beyond: Share,
    within: Share,
    /// When the last own loss was, and its round.
    lost_at: Option<Time>,
    loss_round: u64,
    /// From when on CUBIC grows, and what it grows back to: the budget at the last own loss, or what a trial left.
    grows_since: Option<Time>,
    before_loss: f64,
    /// The most packets in flight in this round.
    most_flying: usize,
    trial: Option<Trial>,
    /// The round trip without a queue: the least since a trial was in vain. A short queue of our own may hide it for long.
    empty: Option<Duration>,
    /// Until when the queue is left alone, and for how long after the next vain trial.
    left_alone_until: Time,
    left_alone: Duration,
}

/// A lower budget, to find out whether the queue is our own.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The round of its start.
    round: u64,
    /// Before it: the least round trip of a round, the packets in flight, and the budget.
    round_trip: Duration,
    used: f64,
    size: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    lost: f64,
    sent: f64,
}

impl Share {
    /// Transmissions that are remembered.
    const MEMORY: f64 = 256.0;

    fn note(&mut self, lost: u32, delivered: u32) {
        self.lost += f64::from(lost);
        self.sent += f64::from(lost) + f64::from(delivered);
        if self.sent > Self::MEMORY {
            self.lost /= 2.0;
            self.sent /= 2.0;
        }
    }

    fn rate(self) -> f64 {
        self.lost / self.sent.max(1.0)
    }
}

impl Budget {
    /// A budget with bounds, in packets.
    pub fn new((least, most): (u16, u16)) -> Self {
        Self {
            size: START.clamp(least.into(), most.max(least).into()) as f64,
            open: OPEN.max(least.into()),
            bounds: (least.into(), most.into()),
            flying: 0,
            credit: FIRST_TRAIN,
            credited_at: Time::ZERO,
            next_at: Time::ZERO,
            is_starting: true,
            delivered: 0,
            delivered_at: Time::ZERO,
            round: 0,
            round_end: 0,
            round_shortest: None,
            was_full: false,
            rates: [(0.0, 0); 2],
            queueing: Duration::ZERO,
            since_request: 0,
            beyond: Share::default(),
            within: Share::default(),
            lost_at: None,
            loss_round: 0,
            grows_since: None,
            before_loss: 0.0,
            most_flying: 0,
            trial: None,
            empty: None,
            left_alone_until: Time::ZERO,
            left_alone: LEFT_ALONE.0,
        }
    }

    /// Takes other bounds, in packets.
    pub fn set_bounds(&mut self, (least, most): (u16, u16)) {
        self.bounds = (least.into(), most.max(least).into());
        self.size = self.size.clamp(self.bounds.0, self.bounds.1);
        self.open = self.open.max(least.into());
    }

    /// Packets that may be in flight before a long one waits.
    pub fn size(&self) -> usize {
        self.whole().min(self.open)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 65535")]
    fn whole(&self) -> usize {
        self.size as usize
    }

    /// Whether no long packet may be sent, whatever the pace.
    pub fn is_full(&self) -> bool {
        self.flying >= self.size()
    }

    /// What may be sent now.
    pub fn room(&self, now: Time) -> Room {
        if self.flying >= self.whole() {
            Room::None
        } else if self.is_full() || self.held_until(now).is_some() {
            Room::Short
        } else {
            Room::Any
        }
    }

    /// Until when long packets wait for the pace.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        Some(self.next_at).filter(|&at| at > now)
    }

    /// Its size held a packet back.
    pub fn handle_full(&mut self) {
        self.was_full |= self.open as f64 >= self.size.floor();
    }

    /// Spends credit for a packet that counts, and sets when the next long packet may go.
    pub fn pace(&mut self, now: Time, path: &Estimator) {
        let Some(round_trip) = path.mean().filter(|&it| it >= PACED) else { return };
        let (starting, then) = PACES;
        let faster = if self.is_starting { starting } else { then };
        let gap = round_trip.div_f64(self.size() as f64 * faster);
        // Credit earned on a faster path ends here; the rest of a first train stays.
        let most = TICK.div_duration_f64(gap).max(TRAIN).max(self.credit.min(FIRST_TRAIN));
        let earned = now.since(self.credited_at).div_duration_f64(gap);
        let least = if self.flying == 0 { FIRST_TRAIN } else { 0.0 };
        self.credit = (self.credit + earned).min(most).max(least) - 1.0;
        self.credited_at = now;
        self.next_at = now + gap.mul_f64((1.0 - self.credit).max(0.0));
    }

    /// A packet is sent, which will be counted as in flight; returns what to remember, and whether to ask for an
    /// acknowledgement.
    pub fn handle_sent(&mut self, now: Time, path: &Estimator) -> (Sample, bool) {
        if self.flying == 0 {
            self.delivered_at = now;
        }
        let flying = self.flying + 1;
        self.most_flying = self.most_flying.max(flying);
        let is_beyond = flying as f64 > self.capacity(path) * 1.1 + SLACK;
        self.since_request += 1;
        // Where the budget is always full, an answer to each packet is more than a slow link has room for.
        let asks = flying >= self.size() && self.since_request * 4 >= self.size();
        if asks {
            self.since_request = 0;
        }
        let (delivered, delivered_at) = (self.delivered, self.delivered_at);
        (Sample { delivered, delivered_at, is_beyond }, asks)
    }

    /// Of a flow so many packets were in flight before, and so many are now.
    pub fn handle_change(&mut self, before: usize, now: usize) {
        self.flying = (self.flying + now).saturating_sub(before);
    }

    /// Handles the arrival of `count` packets; the last packet has this sample. The rest of the acknowledgement has
    /// been handled already.
    pub fn handle_delivered(&mut self, now: Time, count: u32, sample: Sample, path: &Estimator) {
        self.delivered += u64::from(count);
        self.delivered_at = now;
        self.open = self.open.saturating_add(count as usize);
        let shortest = path.shortest().unwrap_or_default();
        // Acknowledgements that come together are no faster path.
        let elapsed = now.since(sample.delivered_at).max(shortest).as_secs_f64();
        if elapsed > 0.0 {
            self.handle_rate((self.delivered - sample.delivered) as f64 / elapsed);
        }
        if sample.delivered >= self.round_end {
            self.end_round(now, path);
        }
    }

    /// A round trip was measured.
    pub fn handle_sample(&mut self, rtt: Duration) {
        self.round_shortest = Some(self.round_shortest.map_or(rtt, |round| round.min(rtt)));
    }

    /// So many packets were lost, and delivered: those beyond the capacity of the path, and others. Returns whether
    /// the losses are of our own making.
    pub fn handle_fates(
        &mut self,
        now: Time,
        beyond: (u32, u32),
        within: (u32, u32),
        path: &Estimator,
    ) -> bool {
        self.beyond.note(beyond.0, beyond.1);
        self.within.note(within.0, within.1);
        if beyond.0 + within.0 == 0 {
            return false;
        }
        let shortest = path.shortest().unwrap_or_default();
        let queueing = self
            .round_shortest
            .map_or(self.queueing, |round| round.saturating_sub(shortest))
            .min(self.queueing);
        let is_queue = queueing > self.tolerance(path);
        let is_excess = beyond.0 > 0
            && self.beyond.sent.min(self.within.sent) >= COMPARED
            && self.beyond.rate() > 1.5 * self.within.rate() + 0.02;
        if !is_queue && !is_excess {
            return false;
        }
        // The unused part of the budget made no difference.
        let lost = f64::from(beyond.0 + within.0);
        let used = match self.trial {
            Some(trial) => trial.used,
            None => self.size.min(self.flying as f64 + lost),
        };
        let least = self.capacity(path) + LEAST_QUEUE;
        if used <= least && beyond.0 == 0 {
            // What the path holds makes no queue: its delay varies for other reasons.
            return false;
        }
        if self.lost_at.is_none() || self.round > self.loss_round {
            let before = self.trial.take().map_or(self.size, |trial| trial.size);
            self.before_loss = used;
            self.set_size((used * DECREASE).max(least).min(before));
            (self.lost_at, self.grows_since) = (Some(now), Some(now));
            self.loss_round = self.round;
            self.is_starting = false;
        }
        true
    }

    /// Packets that the path holds without a queue, with room for the delay's variation.
    pub fn capacity(&self, path: &Estimator) -> f64 {
        let shortest = path.shortest().unwrap_or_default();
        self.rates[0].0 * (shortest + path.deviation() * 4).as_secs_f64()
    }

    fn tolerance(&self, path: &Estimator) -> Duration {
        let shortest = path.shortest().unwrap_or_default();
        TOLERATED.max(shortest / 4).max(path.deviation() * 3)
    }

    fn end_round(&mut self, now: Time, path: &Estimator) {
        let shortest = path.shortest().unwrap_or_default();
        self.queueing =
            self.round_shortest.map_or(Duration::ZERO, |round| round.saturating_sub(shortest));
        let is_queue = self.queueing > self.tolerance(path);
        self.watch_queue(now, path);
        if self.was_full && self.trial.is_none() {
            let size = if self.is_starting && !is_queue {
                self.size * 2.0
            } else if !is_queue
                && self.lost_at.is_none_or(|at| now.since(at) > SHARED)
                && self.size < 2.0 * self.capacity(path) + SLACK
            {
                (self.size * 1.125).max(self.size + 1.0)
            } else {
                self.cubic(now, path)
            };
            self.set_size(size);
        }
        self.is_starting &= !is_queue;
        self.round += 1;
        self.round_end = self.delivered;
        self.round_shortest = None;
        self.was_full = false;
        self.most_flying = 0;
    }

    /// Lowers the budget when the queue is long, and takes that back when the queue stays as long: others fill it.
    fn watch_queue(&mut self, now: Time, path: &Estimator) {
        let (Some(round_trip), Some(shortest)) = (self.round_shortest, path.shortest()) else {
            return;
        };
        let empty = self.empty.map_or(shortest, |empty| empty.min(shortest));
        self.empty = Some(empty);
        let short = QUEUE.max(empty).max(path.deviation() * 4);
        let wanted = empty + short;
        if let Some(trial) = self.trial {
            if self.round < trial.round + TRIAL {
                return;
            }
            self.trial = None;
            if round_trip > (trial.round_trip + wanted) / 2 {
                self.set_size(self.size.max(trial.size));
                self.left_alone_until = now + self.left_alone;
                self.left_alone = (self.left_alone * 2).min(LEFT_ALONE.1);
                // Or the path has become longer.
                self.empty = None;
                return;
            }
            self.left_alone = LEFT_ALONE.0;
            (self.before_loss, self.grows_since) = (self.size, Some(now));
        }
        if now < self.left_alone_until || round_trip <= wanted + short {
            return;
        }
        // The round trip is what is in flight over the rate (Little's law).
        let used = self.size.min(self.most_flying as f64);
        let size = (used * wanted.div_duration_f64(round_trip)).max(LEAST);
        if size < self.size {
            self.trial = Some(Trial { round: self.round, round_trip, used, size: self.size });
            self.set_size(size);
        }
    }

    /// The size by CUBIC, but at least one more packet for each two round trips.
    fn cubic(&mut self, now: Time, path: &Estimator) -> f64 {
        self.lost_at.get_or_insert(now);
        let since = *self.grows_since.get_or_insert(now);
        let most = if self.before_loss > 0.0 { self.before_loss } else { self.size };
        let k = libm::cbrt(most * (1.0 - DECREASE) / GROWTH);
        let ahead = (now.since(since) + path.mean().unwrap_or_default()).as_secs_f64() - k;
        let target = GROWTH * ahead * ahead * ahead + most;
        target.clamp(self.size + 0.5, self.size * 1.5)
    }

    fn set_size(&mut self, size: f64) {
        self.size = size.clamp(self.bounds.0, self.bounds.1.max(self.bounds.0));
    }

    fn handle_rate(&mut self, rate: f64) {
        if rate >= self.rates[0].0 || self.round > self.rates[1].1 + ROUNDS {
            self.rates = [(rate, self.round); 2];
        } else if rate >= self.rates[1].0 || self.rates[1].1 <= self.rates[0].1 {
            self.rates[1] = (rate, self.round);
        }
        if self.round > self.rates[0].1 + ROUNDS {
            self.rates = [self.rates[1], (rate, self.round)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{Config, Profile};
    use super::*;

    const SHORT: Duration = Duration::from_millis(40);
    const MS: Duration = Duration::from_millis(1);
    const BOUNDS: (u16, u16) = (4, 16_384);
    /// The budget of a node that has sent for a while.
    const GROWN: usize = 256;

    #[test]
    fn it_doubles_while_it_is_the_limit_and_no_queue_builds() {
        let mut node = Node::new(BOUNDS);

        node.round(100, SHORT, (0, 0));
        assert_eq!(node.budget.size(), START, "it was not the limit");
        node.budget.handle_full();
        node.round(START, SHORT, (0, 0));
        assert_eq!(node.budget.size(), 2 * START);

        for _ in 0..2 {
            node.round(2 * START, SHORT * 3, (0, 0));
        }
        node.budget.handle_full();
        node.round(2 * START, SHORT * 3, (0, 0));
        assert!(node.budget.size() <= 2 * START * 3 / 2, "a queue ends the start");
    }

    #[test]
    fn a_small_budget_grows_though_it_was_never_all_open() {
        let mut node = Node::new(BOUNDS);
        node.budget.set_size(10.0);

        node.budget.handle_full();
        node.round(10, SHORT, (0, 0));

        assert_eq!(node.budget.size(), 20);
    }

    #[test]
    fn before_anything_has_arrived_few_packets_go_and_each_arrival_opens_one_more() {
        let mut node = Node::new(BOUNDS);
        assert_eq!(node.budget.size(), OPEN);

        node.budget.handle_full();
        node.round(10, SHORT, (0, 0));
        assert_eq!(node.budget.size(), OPEN + 10);
        node.round(26, SHORT, (0, 0));
        node.round(52, SHORT, (0, 0));
        assert_eq!(node.budget.size(), START, "what was not open yet was no limit");

        let mut node = Node::new(BOUNDS);
        node.budget.set_bounds((256, 16_384));
        assert_eq!(node.budget.size(), 256);
    }

    #[test]
    fn a_long_queue_of_our_own_is_made_short() {
        let mut node = Node::grown();

        // On a link that carries a packet in 5 ms, for longer than the shortest round trip is remembered.
        while node.now < Time::ZERO + MS * 60_000 {
            node.budget.handle_full();
            let packets = node.budget.size().min(100);
            node.round(packets, SHORT + MS * 5 * u32::try_from(packets).unwrap(), (0, 0));
            assert!(node.now < Time::ZERO + MS * 3_000 || packets <= 60, "{packets}");
            assert!(packets >= 10, "{packets}");
        }
    }

    #[test]
    fn a_path_that_has_become_longer_costs_no_more_than_a_trial() {
        let mut node = Node::grown();
        let size = node.budget.size();

        for _ in 0..10 {
            node.round(size, SHORT + MS * 500, (0, 0));
        }

        assert!(node.budget.size() >= size, "{}", node.budget.size());
    }

    #[test]
    fn a_loss_of_our_own_in_a_trial_lowers_what_was_in_flight_before() {
        let mut node = Node::grown();
        for _ in 0..20 {
            node.round(100, SHORT * 3, (0, 0));
        }
        let Budget { round, size, .. } = node.budget;
        node.budget.trial = Some(Trial { round, round_trip: SHORT * 3, used: 100.0, size });
        node.budget.set_size(30.0);

        node.round(30, SHORT * 3, (0, 1));

        assert_eq!(node.budget.size(), 80);
        assert!(node.budget.trial.is_none());
    }

    #[test]
    fn a_long_queue_that_others_fill_is_tried_once_then_left_alone_and_tried_again_later() {
        let mut node = Node::grown();
        let size = node.budget.size();

        let mut lowered = Vec::new();
        while node.now < Time::ZERO + MS * 100_000 {
            node.round(100, SHORT + MS * 400, (0, 0));
            // The least round trip would be forgotten.
            node.path.handle_sample(node.now, 1_500, SHORT);
            if node.budget.size() < size
                && lowered.last().is_none_or(|at| *at + MS * 2_000 < node.now)
            {
                lowered.push(node.now);
            }
        }
        let apart: Vec<u64> =
            lowered.windows(2).map(|two| two[1].since(two[0]).as_secs()).collect();

        // And two rounds.
        for (apart, left_alone) in apart.iter().zip([10, 20, 40]) {
            assert!((left_alone..=left_alone + 1).contains(apart), "{apart} s for {left_alone}");
        }
        assert_eq!(lowered.len(), 4);
        assert!(node.budget.size() >= size, "it has back what it gave");
    }

    #[test]
    fn loss_of_the_link_leaves_it_alone_however_much_it_is() {
        let mut node = Node::grown();

        for _ in 0..50 {
            node.round(100, SHORT, (0, 30));
        }

        assert!(node.budget.size() >= GROWN);
    }

    #[test]
    fn loss_with_a_queue_lowers_what_was_in_flight_but_not_below_what_the_path_holds() {
        let mut node = Node::grown();
        node.round(100, SHORT, (0, 0));

        for round in 0..40 {
            node.round(100, SHORT * 3, (0, 1));
            // A single long round trip is no queue.
            assert!(round > 0 || node.budget.size() >= GROWN, "{}", node.budget.size());
        }

        // 100 packets in 120 ms are 34 in 40 ms, and there is room for the deviation.
        assert!((33..=60).contains(&node.budget.size()), "{}", node.budget.size());
    }

    #[test]
    fn loss_of_what_exceeds_the_capacity_is_of_our_own_making() {
        let mut node = Node::grown();
        for _ in 0..20 {
            node.round(50, SHORT, (0, 0));
        }

        // More and more is sent, and no more arrives.
        for _ in 0..16 {
            node.round(100, SHORT, (30, 0));
        }

        assert!(node.budget.size() < GROWN / 2, "{}", node.budget.size());
    }

    /// The delay of a link varies, and a loss may find the neighbour's flows with little to send.
    #[test]
    fn a_loss_while_less_is_in_flight_than_the_path_holds_is_none_of_our_own() {
        let mut node = Node::grown();
        for _ in 0..20 {
            node.round(100, SHORT, (0, 0));
        }

        for _ in 0..8 {
            node.round(10, SHORT * 3, (0, 1));
        }

        assert!(node.budget.size() >= GROWN, "{}", node.budget.size());
    }

    /// CUBIC (RFC 9438, 4.1 and 4.2), of W = 256 and a decrease of 0.8: back there after K = (0.2 W / 0.4)^(1/3) = 5 s.
    #[test]
    fn after_a_loss_of_our_own_it_grows_as_cubic_does() {
        let mut node = Node::grown();
        node.budget.is_starting = false;
        let lost_at = node.now;
        (node.budget.lost_at, node.budget.grows_since) = (Some(lost_at), Some(lost_at));
        node.budget.before_loss = 256.0;
        node.budget.set_size(256.0 * DECREASE);
        let mut sizes = Vec::new();

        for second in 1..=7 {
            while node.now.since(lost_at) < MS * 1_000 * second {
                node.budget.handle_full();
                node.round(50, SHORT, (0, 0));
            }
            sizes.push(node.budget.size());
        }

        for (at, size) in (1_i32..).zip(sizes) {
            let expected = 256.0 + 0.4 * f64::from(at - 5).powi(3);
            // At least half a packet for each round.
            let expected = expected.max(256.0 * DECREASE + 12.5 * f64::from(at));
            assert!((size as f64 / expected - 1.0).abs() < 0.06, "{at} s: {size}, not {expected}");
        }
    }

    #[test]
    fn without_a_queue_it_grows_by_an_eighth_up_to_twice_what_the_path_holds() {
        // 256 packets fit into the round trip of a grown node.
        for (size, grown) in [(100.0, 112), (8.0, 9), (1_000.0, 1_000)] {
            let mut node = Node::grown();
            (node.budget.is_starting, node.budget.open) = (false, 10_000);
            node.budget.set_size(size);

            node.budget.handle_full();
            node.round(50, SHORT, (0, 0));

            assert_eq!(node.budget.size(), grown, "of {size}");
        }
    }

    #[test]
    fn packets_go_out_in_short_trains_a_little_faster_than_the_budget_in_each_round_trip() {
        let mut node = Node::grown();
        node.budget.is_starting = false;
        let gap = SHORT.div_f64(node.budget.size() as f64 * PACES.1);
        assert_eq!(node.train(), 10, "nothing was in flight");
        assert_eq!(node.budget.held_until(node.now), Some(node.now + gap));

        node.now += gap;
        assert_eq!(node.train(), 1);
        // What acknowledgements in a clump allow, or an idle time.
        node.now += SHORT / 2;
        let longest = TICK.div_duration_f64(gap).max(TRAIN);
        assert_eq!(node.train() as f64, longest.floor());
    }

    #[test]
    fn a_path_that_has_become_longer_is_sent_no_longer_trains() {
        let mut node = Node::new(BOUNDS);
        for rtt in [MS * 5, MS * 500] {
            for _ in 0..20 {
                node.round(10, rtt, (0, 0));
                node.budget.pace(node.now, &node.path);
            }
        }
        assert_eq!(node.train(), 10, "nothing was in flight");

        node.now += MS * 100;

        assert_eq!(node.train(), 4);
    }

    #[test]
    fn equal_bounds_fix_it() {
        let mut node = Node::new((8, 8));
        for n in 0..10 {
            node.budget.handle_full();
            node.round(8, SHORT * (1 + n % 3), (0, 1));
        }

        assert_eq!(node.budget.size(), 8);
        assert_eq!(node.budget.room(node.now), Room::Any);
    }

    #[test]
    fn a_full_one_asks_for_an_acknowledgement_for_each_quarter_of_it() {
        let mut node = Node::new((8, 8));

        let asks: Vec<bool> = (0..11).map(|_| node.send().1).collect();

        // The eighth fills it.
        assert_eq!(asks, [[false; 7].as_slice(), &[true, false], &[true, false]].concat());
    }

    struct Node {
        now: Time,
        path: Estimator,
        budget: Budget,
    }

    impl Node {
        fn new(bounds: (u16, u16)) -> Self {
            let rto = Config::new(Profile::Default).rto;
            let path = Estimator::new(rto, Profile::Default);
            Self { now: Time::ZERO, path, budget: Budget::new(bounds) }
        }

        /// A node that has sent until its budget was large.
        fn grown() -> Self {
            let mut node = Self::new(BOUNDS);
            while node.budget.size() < GROWN {
                node.budget.handle_full();
                node.round(node.budget.size(), SHORT, (0, 0));
            }
            node
        }

        /// Sends what may go out together; returns how many packets.
        fn train(&mut self) -> usize {
            let mut sent = 0;
            while self.budget.room(self.now) == Room::Any {
                self.budget.pace(self.now, &self.path);
                self.send();
                sent += 1;
            }
            sent
        }

        fn send(&mut self) -> (Sample, bool) {
            let sent = self.budget.handle_sent(self.now, &self.path);
            self.budget.handle_change(0, 1);
            sent
        }

        /// Sends packets, of which so many beyond the capacity and within it are lost.
        fn round(&mut self, packets: usize, rtt: Duration, (beyond, within): (u32, u32)) {
            let samples: Vec<Sample> = (0..packets).map(|_| self.send().0).collect();
            let above = samples.iter().filter(|sample| sample.is_beyond()).count();
            let count = |all: usize, lost: u32| {
                (lost, u32::try_from(all).unwrap_or(u32::MAX).saturating_sub(lost))
            };
            let (beyond, within) = (count(above, beyond), count(packets - above, within));
            self.now += rtt;
            for _ in 0..10 {
                self.path.handle_sample(self.now, 1_500, rtt);
                self.budget.handle_sample(rtt);
            }
            let last = samples.last().copied().unwrap_or_default();
            self.budget.handle_fates(self.now, beyond, within, &self.path);
            self.budget.handle_change(packets, 0);
            self.budget.handle_delivered(self.now, beyond.1 + within.1, last, &self.path);
        }
    }
}
