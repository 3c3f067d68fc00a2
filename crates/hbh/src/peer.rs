//! Estimates the path to a neighbour: the round trip, the loss, and whether the neighbour answers.

use std::time::Duration;

use base::time::Time;

use super::budget::{Budget, Sample};
use super::config::{Config, Profile};
use super::link::{LinkReport, PeerConfig};
use super::repair::OVERHEAD;
use super::rtt::Estimator;

/// Octets of a long packet.
pub const LONG: usize = 500;
/// After so many silences in a row a peer is taken to be away: it is sent nothing but a probe now
/// and then, and what is not acknowledged does not count as tried.
const SILENCES: u8 = 6;
/// A link that loses less is left alone: no repairs, and acknowledgements that wait for long.
const LEAST_LOSS: f64 = 0.01;
/// Below this, segments leave no room for repairs.
const FEW_LOST: f64 = 0.02;
/// Of the loss little is known until so many packets have arrived.
const LITTLE: f64 = 8.0;
/// Copies of acknowledgements until the neighbour is heard, while little is known.
const BLIND_COPIES: u8 = 4;
/// While only short packets were timed, answers may take so many times as long: a first flight goes before them.
const FIRST_FLIGHT: u32 = 8;
/// A link counts as lossless only after this many packets have arrived.
const KNOWN: f64 = 32.0;

/// The state of the path to a neighbour.
#[derive(Debug)]
pub struct PeerPath {
    config: PeerConfig,
    rtt: Estimator,
    loss: Loss,
    budget: Budget,
    /// Silences since the neighbour was heard last.
    silences: u8,
    /// Copies of TCP's acknowledgements since the neighbour was heard last.
    ack_copies: u8,
    /// Octets of the longest packet that was sent.
    longest_sent: usize,
    /// Since when the neighbour is heard: the first acknowledgement, or the first after it was silent.
    heard_since: Option<Time>,
    /// When the neighbour may be probed next, while silent.
    probe_at: Time,
    /// From when on another silence counts.
    next_silence_at: Time,
}

/// The loss on the way to a peer; recent transmissions count most.
#[derive(Clone, Copy, Debug)]
struct Loss {
    lost: f64,
    sent: f64,
    /// Losses observed individually, and the number of loss runs.
    seen: f64,
    runs: f64,
    /// All packets that arrived.
    delivered: f64,
    /// Whether the numbers come only from the driver's reports.
    is_reported: bool,
}

/// What an acknowledgement reveals about the path to the peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Learned {
    pub delivered: u32,
    pub lost: u32,
    /// Runs of consecutive losses.
    pub runs: u32,
    pub recovered: u32,
    pub abandoned: u32,
    pub superseded: u32,
    /// Acknowledgements of packets never sent.
    pub absurd: u32,
    /// Packets lost and delivered that were sent beyond the capacity of the path, and the others.
    beyond: (u32, u32),
    within: (u32, u32),
    /// The newest sample of all delivered packets.
    newest: Option<Sample>,
}

impl Learned {
    /// A packet arrived; `is_counted` if it counts in the budget.
    pub fn handle_delivered(&mut self, sample: Sample, is_counted: bool) {
        self.delivered += 1;
        if is_counted {
            self.fates_like(sample).1 += 1;
            self.newest = Some(self.newest.map_or(sample, |newest| newest.max(sample)));
        }
    }

    pub fn handle_lost(&mut self, sample: Sample) {
        self.lost += 1;
        self.fates_like(sample).0 += 1;
    }

    fn fates_like(&mut self, sample: Sample) -> &mut (u32, u32) {
        if sample.is_beyond() { &mut self.beyond } else { &mut self.within }
    }
}

/// Repairs under way in a flow at most.
const MOST_REPAIRS: usize = 32;
/// The same for each packet under way: a link that loses nearly all is not filled for one packet.
const MOST_REPAIRS_EACH: usize = 4;

impl PeerPath {
    pub fn new(config: PeerConfig, parameters: &Config) -> Self {
        Self {
            config,
            rtt: Estimator::new(parameters.rto, parameters.profile),
            loss: Loss::UNKNOWN,
            budget: Budget::new(parameters.window),
            silences: 0,
            ack_copies: 0,
            longest_sent: 0,
            heard_since: None,
            probe_at: Time::ZERO,
            next_silence_at: Time::ZERO,
        }
    }

    pub fn config(&self) -> &PeerConfig {
        &self.config
    }

    pub fn set_config(&mut self, config: PeerConfig) {
        self.config = config;
    }

    /// Takes other parameters of the same profile; what was learnt stays.
    pub fn set_parameters(&mut self, parameters: &Config) {
        self.rtt.set_rto(parameters.rto);
        self.budget.set_bounds(parameters.window);
    }

    pub fn rtt(&self) -> &Estimator {
        &self.rtt
    }

    pub fn rtt_mut(&mut self) -> &mut Estimator {
        &mut self.rtt
    }

    /// Takes the driver's report about the link.
    pub fn learn_from_report(&mut self, report: LinkReport) {
        self.loss.learn_from_report(report);
        self.rtt.learn_from_report(report);
    }

    /// Takes what an acknowledgement or a silence taught.
    pub fn learn(&mut self, now: Time, learned: Learned) {
        let Learned { beyond, within, newest, .. } = learned;
        let is_own = self.budget.handle_fates(now, beyond, within, &self.rtt);
        // Repairs help against losses of the link, and make more of our own.
        let lost = if is_own { 0 } else { learned.lost };
        self.loss.learn(Learned { lost, ..learned });
        if let Some(sample) = newest {
            self.budget.handle_delivered(now, beyond.1 + within.1, sample, &self.rtt);
        }
    }

    /// Takes the round trip of a packet with `len` octets.
    pub fn handle_sample(&mut self, now: Time, len: usize, rtt: Duration) {
        self.rtt.handle_sample(now, len, rtt);
        self.budget.handle_sample(rtt);
    }

    /// Handles the sending of a packet of `len` octets, which may count in the budget; returns the packet's sample, and
    /// whether to ask for an acknowledgement.
    pub fn handle_sent(&mut self, now: Time, len: usize, is_counted: bool) -> (Sample, bool) {
        self.longest_sent = self.longest_sent.max(len);
        if is_counted {
            self.budget.pace(now, &self.rtt);
        }
        let (sample, asks) = self.budget.handle_sent(now, &self.rtt);
        (sample, asks && is_counted)
    }

    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// An acknowledgement came from it; returns whether it was silent.
    pub fn handle_heard(&mut self, now: Time) -> bool {
        let was_silent = self.is_silent();
        if was_silent || self.heard_since.is_none() {
            self.heard_since = Some(now);
        }
        self.silences = 0;
        self.ack_copies = 0;
        was_silent
    }

    /// Whether no acknowledgement has come from it yet.
    pub fn is_unheard(&self) -> bool {
        self.heard_since.is_none()
    }

    /// Whether a packet that was taken at this time waited for the neighbour to be heard.
    pub fn kept_waiting(&self, taken_at: Time) -> bool {
        self.heard_since.is_none_or(|since| taken_at < since)
    }

    /// When the neighbour may be probed next, while silent.
    pub fn probe_at(&self) -> Time {
        self.probe_at
    }

    pub fn set_probe_at(&mut self, at: Time) {
        self.probe_at = at;
    }

    /// Whether nothing has been heard from it for long.
    pub fn is_silent(&self) -> bool {
        self.silences >= SILENCES
    }

    /// A flow has heard nothing for too long; what several flows notice at about the same time is one
    /// silence.
    pub fn handle_silence(&mut self, now: Time) {
        if now >= self.next_silence_at {
            self.silences = self.silences.saturating_add(1);
            self.next_silence_at = now + self.rtt.timeout(0) / 2;
        }
    }

    /// Whether there is no queue on the way to it.
    pub fn is_idle(&self) -> bool {
        match (self.rtt.mean(), self.rtt.shortest()) {
            (Some(mean), Some(shortest)) => mean <= shortest + shortest / 2,
            _ => true,
        }
    }

    /// Octets of the room for HBH that a TCP segment must leave: for repairs, where they may be needed.
    pub fn overhead(&self, config: &Config) -> usize {
        let is_clean = config.profile == Profile::Default
            && self.loss.rate() < FEW_LOST
            && self.loss.delivered >= KNOWN;
        if is_clean { config.profile.layout().overhead() } else { OVERHEAD }
    }

    /// An acknowledgement of TCP goes out once more though nobody asked for it.
    pub fn handle_ack_copy(&mut self) {
        self.ack_copies = self.ack_copies.saturating_add(1);
    }

    /// Whether acknowledgements of TCP may go out once more though nobody asked for it. While little is known of the
    /// loss, a few may until the neighbour is heard: its answers may wait in a long queue.
    pub fn may_copy_acks(&self) -> bool {
        self.loss.delivered >= LITTLE || self.ack_copies < BLIND_COPIES
    }

    /// Whether packets to the peer are lost so often that idle time is used against the loss.
    pub fn needs_repairs(&self, config: &Config) -> bool {
        config.profile == Profile::Default
            && config.redundancy.residual() < 1.0
            && self.loss.rate() >= LEAST_LOSS
    }

    /// Whether acknowledgements may wait for long: next to nothing is lost.
    pub fn is_patient(&self, config: &Config) -> bool {
        config.profile == Profile::Default
            && self.loss.rate() < LEAST_LOSS
            && self.loss.delivered >= KNOWN
    }

    /// How long the peer's acknowledgement may wait.
    ///
    /// The peer uses its own measurement of the round trip, which may be longer than ours. If the peer waits for many
    /// round trips, the difference counts.
    pub fn longest_ack_wait(&self, config: &Config) -> Duration {
        let is_patient = self.is_patient(config);
        let ours = config.ack_wait(self.rtt.known(is_patient), is_patient);
        if is_patient { ours + ours / 4 } else { ours }
    }

    /// Whether packets were sent of which nobody knows how long they take: only much shorter ones were timed.
    ///
    /// After the handshake of TCP a first flight keeps a slow radio busy for hundreds of the round trips known so far.
    pub fn is_untimed(&self) -> bool {
        self.longest_sent >= LONG && self.longest_sent > 2 * self.rtt.longest()
    }

    /// How long the neighbour may take to answer.
    pub fn patience(&self, config: &Config) -> Duration {
        self.silence(config) * if self.is_untimed() { FIRST_FLIGHT } else { 1 }
    }

    /// How long an acknowledgement takes at most, unless it is lost.
    pub fn silence(&self, config: &Config) -> Duration {
        let round_trip = match self.rtt.mean() {
            Some(_) => self.rtt.timeout(0),
            None => self.rtt.first_timeout(self.config.mtu),
        };
        round_trip + self.longest_ack_wait(config)
    }

    /// The measured share of lost packets, without the assumption made before anything was sent.
    pub fn measured_loss(&self) -> Option<f64> {
        let Loss { lost, sent, .. } = self.loss;
        let own = sent - Loss::UNKNOWN.sent;
        (own > f64::EPSILON).then(|| ((lost - Loss::UNKNOWN.lost) / own).clamp(0.0, 1.0))
    }

    /// How often a lone packet is sent before it is acknowledged.
    pub fn copies(&self, config: &Config) -> u8 {
        let (loss, residual) = (self.loss.rate(), config.redundancy.residual_alone());
        let mut copies = 1;
        let mut missing = loss;
        while missing > residual && copies < 8 {
            copies += 1;
            missing *= loss;
        }
        copies
    }

    /// Whether `repairs` repairs under way are enough for `packets` packets: whether more losses
    /// than repairs among all of them are unlikely enough.
    pub fn are_enough(&self, packets: usize, repairs: usize, config: &Config) -> bool {
        if repairs >= MOST_REPAIRS.min(packets * MOST_REPAIRS_EACH) {
            return true;
        }
        // Losses that come in runs are fewer, longer draws.
        let run = self.loss.run();
        let draws = ((packets + repairs) as f64 / run).ceil();
        let allowed = (repairs as f64 / run).floor();
        more_than(draws, allowed, self.loss.rate()) <= config.redundancy.residual()
    }
}

/// The probability of more than `allowed` successes in `draws` draws with probability `p`.
fn more_than(draws: f64, allowed: f64, p: f64) -> f64 {
    if allowed >= draws || p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    let mut term = libm::pow(1.0 - p, draws);
    let mut sum = term;
    let mut successes = 0.0;
    while successes < allowed {
        term *= (draws - successes) / (successes + 1.0) * p / (1.0 - p);
        sum += term;
        successes += 1.0;
    }
    1.0 - sum
}

impl Loss {
    /// Before anything is known a link is taken to lose one in ten, until a few packets have arrived.
    const UNKNOWN: Self =
        Self { lost: 0.05, sent: 0.5, seen: 1.0, runs: 1.0, delivered: 0.0, is_reported: true };
    /// How many transmissions the estimate remembers.
    const MEMORY: f64 = 128.0;
    /// How many losses the mean length of runs remembers.
    const MEMORY_OF_LOSSES: f64 = 64.0;

    /// A report counts like this many transmissions at most: its messages are shorter than packets,
    /// and on many radios go to everyone, at another rate and without acknowledgement.
    const WEIGHT_OF_REPORT: f64 = 4.0;

    fn learn_from_report(&mut self, report: LinkReport) {
        if !self.is_reported {
            return;
        }
        let (arrived, lost) = (f64::from(report.arrived), f64::from(report.lost));
        let weight = (Self::WEIGHT_OF_REPORT / (arrived + lost)).min(1.0);
        *self = Self::UNKNOWN;
        if weight.is_finite() {
            self.lost += weight * lost;
            self.sent += weight * (arrived + lost);
            self.delivered = arrived;
        }
    }

    fn learn(&mut self, learned: Learned) {
        self.is_reported = false;
        self.delivered += f64::from(learned.delivered);
        let recovered = learned.recovered.min(learned.delivered);
        let lost = learned.lost + recovered;
        self.lost += f64::from(lost);
        self.sent += f64::from(learned.lost) + f64::from(learned.delivered);
        if self.sent > Self::MEMORY {
            self.lost /= 2.0;
            self.sent /= 2.0;
        }
        self.seen += f64::from(learned.lost);
        self.runs += f64::from(learned.runs);
        if self.seen > Self::MEMORY_OF_LOSSES {
            self.seen /= 2.0;
            self.runs /= 2.0;
        }
    }

    /// 0 to 1.
    fn rate(self) -> f64 {
        self.lost / self.sent
    }

    /// The mean length of a run of losses, if clearly longer than by chance.
    fn run(self) -> f64 {
        let by_chance = 1.0 / (1.0 - self.rate()).max(0.1);
        let run = self.seen / self.runs;
        if run > 1.5 * by_chance { run } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::link::Link;

    fn path() -> PeerPath {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let config = PeerConfig { link: Link(0), local: address, remote: address, mtu: 1_500 };
        PeerPath::new(config, &Config::new(Profile::Default))
    }

    #[test]
    fn an_answer_may_take_longer_while_only_much_shorter_packets_were_timed() {
        let config = Config::new(Profile::Default);
        let mut path = path();
        path.handle_sample(Time::ZERO, 60, Duration::from_millis(100));

        path.handle_sent(Time::ZERO, 400, true);
        assert_eq!(path.patience(&config), path.silence(&config), "short packets fill nothing");
        path.handle_sent(Time::ZERO, 1_000, true);
        assert_eq!(path.patience(&config), path.silence(&config) * FIRST_FLIGHT);

        path.handle_sample(Time::ZERO, 600, Duration::from_millis(100));
        assert_eq!(path.patience(&config), path.silence(&config));
    }

    fn learnt(delivered: u32, lost: u32, runs: u32) -> PeerPath {
        let mut path = path();
        path.learn(Time::ZERO, Learned { delivered, lost, runs, ..Learned::default() });
        path
    }

    fn reported(arrived: u32, lost: u32) -> PeerPath {
        let mut path = path();
        path.learn_from_report(LinkReport { arrived, lost, round_trip: None });
        path
    }

    #[test]
    fn a_loss_is_told_only_when_something_was_sent_and_without_what_was_assumed() {
        let lossy = learnt(90, 10, 10).measured_loss().unwrap();

        assert_eq!(path().measured_loss(), None);
        assert!((lossy - 0.1).abs() < 1e-9, "{lossy}");
        assert_eq!(learnt(3, 0, 0).measured_loss(), Some(0.0));
    }

    #[test]
    fn a_report_counts_like_four_packets() {
        let mut path = reported(50, 50);

        path.learn(Time::ZERO, Learned { delivered: 12, ..Learned::default() });

        let loss = path.measured_loss().unwrap();
        assert!((loss - 2.0 / 16.0).abs() < 1e-9, "{loss}");
    }

    #[test]
    fn a_segment_leaves_no_room_for_repairs_where_a_link_is_known_to_lose_next_to_nothing() {
        let config = Config::new(Profile::Default);
        let clean = config.profile.layout().overhead();
        assert!(clean < OVERHEAD);

        for (path, expected) in [
            (path(), OVERHEAD),
            (reported(31, 0), OVERHEAD),
            (reported(32, 0), clean),
            (learnt(100, 0, 0), clean),
            (learnt(100, 5, 5), OVERHEAD),
        ] {
            assert_eq!(path.overhead(&config), expected, "{path:?}");
        }
        assert_eq!(learnt(100, 0, 0).overhead(&Config::new(Profile::Paper)), OVERHEAD);
    }

    #[test]
    fn a_lone_packet_is_copied_a_bounded_number_of_times() {
        let config = Config::new(Profile::Default);

        let copies = [(100, 0), (50, 50), (0, 1_000)]
            .map(|(delivered, lost)| learnt(delivered, lost, lost).copies(&config));

        assert_eq!(copies, [1, 6, 8]);
    }

    #[test]
    fn a_few_acknowledgements_are_copied_each_time_that_the_neighbour_is_heard() {
        let mut path = path();
        for _ in 0..2 {
            for _ in 0..BLIND_COPIES {
                assert!(path.may_copy_acks());
                path.handle_ack_copy();
            }
            assert!(!path.may_copy_acks());

            path.handle_heard(Time::ZERO);
        }
    }

    #[test]
    fn silences_that_flows_notice_together_count_once() {
        let mut path = path();
        let timeout = path.rtt.timeout(0);
        for _ in 0..2 * SILENCES {
            path.handle_silence(Time::ZERO);
        }
        assert!(!path.is_silent());

        for n in 1..SILENCES {
            assert!(!path.is_silent());
            path.handle_silence(Time::ZERO + timeout.mul_f64(0.6) * n.into());
        }
        assert!(path.is_silent());
    }

    #[test]
    fn losses_in_long_runs_need_more_repairs_than_as_many_alone() {
        let config = Config::new(Profile::Default);
        let (in_runs, alone) = (learnt(270, 30, 10), learnt(270, 30, 30));
        assert!((in_runs.loss.run() - 31.0 / 11.0).abs() < 1e-9, "with the one that is assumed");
        assert!((alone.loss.run() - 1.0).abs() < 1e-9);

        // Of 13 and 16 with a loss of a tenth, more than 3 and 6 are lost with 3.4 % and 0.05 %. In runs, 5 and 6
        // draws fail more than 1 and 2 times with 8 % and 1.6 %.
        let enough = |path: &PeerPath| [2, 3, 6].map(|it| path.are_enough(10, it, &config));
        assert_eq!((enough(&alone), enough(&in_runs)), ([false, true, true], [false, false, true]));
    }

    #[test]
    fn more_than_is_the_binomial_tail() {
        // 1 - 0.9^2 and 0.1^2; 1 - (0.8^5 + 5 0.2 0.8^4).
        assert!((more_than(2.0, 0.0, 0.1) - 0.19).abs() < 1e-12);
        assert!((more_than(2.0, 1.0, 0.1) - 0.01).abs() < 1e-12);
        assert!((more_than(5.0, 1.0, 0.2) - 0.262_72).abs() < 1e-12);
        assert!(more_than(5.0, 5.0, 0.2).abs() < 1e-12);
    }
}
