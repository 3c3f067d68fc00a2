//! The round-trip estimate of a hop (Marques et al., section III.C).

use std::time::Duration;

use base::time::Time;

use super::config::{Profile, Rto};
use super::link::LinkReport;

/// The shortest round trip is the minimum over at least this time, and over twice this time at most.
const MEMORY: Duration = Duration::from_secs(5);
/// The most that a longer packet may take longer. On a slow link it takes more and is repeated needlessly; on a long and
/// fast one, more would only delay the repeat.
const MOST_ALLOWED: Duration = Duration::from_millis(50);
/// The approximate size of a hello, in octets: longer packets may take longer, in proportion at most.
const REPORTED: usize = 100;

/// Estimates the time to a peer and back.
#[derive(Clone, Debug)]
pub struct Estimator {
    rto: Rto,
    profile: Profile,
    mean: Option<Duration>,
    deviation: Duration,
    /// The shortest sample since `since`, and of the span of time before.
    recent: Option<Duration>,
    before: Option<Duration>,
    since: Time,
    /// What the driver says.
    reported: Option<Duration>,
    /// Octets of the longest packet that was timed.
    longest: usize,
}

impl Estimator {
    pub fn new(rto: Rto, profile: Profile) -> Self {
        Self {
            rto,
            profile,
            mean: None,
            deviation: Duration::ZERO,
            recent: None,
            before: None,
            since: Time::ZERO,
            reported: None,
            longest: 0,
        }
    }

    /// Takes other parameters; the estimate stays.
    pub fn set_rto(&mut self, rto: Rto) {
        self.rto = rto;
    }

    pub fn learn_from_report(&mut self, report: LinkReport) {
        self.reported = report.round_trip.or(self.reported);
    }

    /// Takes the round trip of a packet with `len` octets.
    pub fn handle_sample(&mut self, now: Time, len: usize, sample: Duration) {
        self.longest = self.longest.max(len);
        if now.since(self.since) > MEMORY {
            self.before = self.recent.take();
            self.since = now;
        }
        self.recent = Some(self.recent.map_or(sample, |recent| recent.min(sample)));
        let Some(old) = self.mean else {
            self.mean = Some(sample);
            // A hop's round trip varies less than a path's, for which RFC 6298 takes a half.
            self.deviation = match self.profile {
                Profile::Default => sample / 4,
                Profile::Paper => sample / 2,
            };
            return;
        };
        let mean = blend(old, sample, self.rto.gain);
        // As printed in the paper, the deviation is taken from the mean after the sample has moved
        // the mean; RFC 6298 takes the mean before.
        let reference = match self.profile {
            Profile::Default => old,
            Profile::Paper => mean,
        };
        self.deviation = blend(self.deviation, reference.abs_diff(sample), self.rto.deviation_gain);
        self.mean = Some(mean);
    }

    /// The smoothed round trip.
    pub fn mean(&self) -> Option<Duration> {
        self.mean
    }

    /// The smoothed round trip; before the first sample, patient acknowledgements use the driver's report. Nothing else
    /// uses the report, because packets are longer than hellos and take longer on a slow link.
    pub fn known(&self, is_patient: bool) -> Option<Duration> {
        self.mean.or(self.reported.filter(|_| is_patient))
    }

    /// The shortest round trip seen lately.
    pub fn shortest(&self) -> Option<Duration> {
        self.recent.into_iter().chain(self.before).min()
    }

    /// How far round trips lie from their mean, in the mean.
    pub fn deviation(&self) -> Duration {
        self.deviation
    }

    /// Octets of the longest packet that was timed.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// How long an acknowledgement of the first packet, with `len` octets, may take: nothing is known but what the
    /// driver says.
    pub fn first_timeout(&self, len: usize) -> Duration {
        let longer = (len as f64 / REPORTED as f64).max(1.0);
        let reported = self.reported.map(|it| it.mul_f64(1.0 + 0.5 * longer));
        reported.unwrap_or(self.rto.initial).clamp(self.rto.minimum, self.rto.maximum)
    }

    /// How much longer than [`timeout`](Self::timeout) a packet with `len` octets may take while none as long was
    /// timed: after a SYN nobody knows how long a full segment takes on a slow link.
    pub fn allowance(&self, len: usize) -> Duration {
        let Some(mean) = self.mean.filter(|_| len > self.longest) else { return Duration::ZERO };
        let longer = len as f64 / self.longest.max(1) as f64 - 1.0;
        mean.mul_f64(0.5 * longer).min(MOST_ALLOWED)
    }

    /// Whether nobody knows how long it takes.
    pub fn is_unknown(&self) -> bool {
        self.mean.is_none() && self.reported.is_none()
    }

    /// How long to wait for an acknowledgement of a packet sent `expiries` times in vain.
    pub fn timeout(&self, expiries: u8) -> Duration {
        let base = self.mean.map_or(self.rto.initial, |mean| {
            (mean + self.deviation.mul_f64(self.rto.deviations)).mul_f64(self.rto.factor)
        });
        let grown = base.as_secs_f64() * libm::pow(self.rto.backoff, f64::from(expiries));
        let most = self.rto.maximum.as_secs_f64();
        Duration::from_secs_f64(grown.min(most)).max(self.rto.minimum)
    }
}

fn blend(old: Duration, new: Duration, gain: f64) -> Duration {
    old.mul_f64(1.0 - gain) + new.mul_f64(gain)
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::*;

    #[test]
    fn the_seed_estimates_as_printed() {
        let mut estimator = Estimator::new(Config::new(Profile::Paper).rto, Profile::Paper);
        assert_eq!(estimator.timeout(0), Duration::from_secs(1));

        estimator.handle_sample(Time::ZERO, 60, Duration::from_millis(120));
        estimator.handle_sample(Time::ZERO, 60, Duration::from_millis(180));

        // srtt = 2/3 120 + 1/3 180 = 140; rttvar = 2/3 60 + 1/3 |180 - 140| = 53.33
        assert_eq!(estimator.mean().unwrap().as_millis(), 140);
        assert_eq!(estimator.timeout(0).as_millis(), 2 * (140 + 533));
        assert_eq!(estimator.timeout(3), estimator.timeout(0));
    }

    #[test]
    fn a_packet_longer_than_all_that_were_timed_may_take_longer_within_a_bound() {
        let ours = || Estimator::new(Config::new(Profile::Default).rto, Profile::Default);
        let mut estimator = ours();
        assert_eq!(estimator.allowance(1_500), Duration::ZERO, "nothing is known");

        estimator.handle_sample(Time::ZERO, 60, Duration::from_millis(2));
        assert_eq!(estimator.allowance(60), Duration::ZERO);
        assert_eq!(estimator.allowance(1_500), Duration::from_millis(24));
        estimator.handle_sample(Time::ZERO, 1_500, Duration::from_millis(2));
        assert_eq!(estimator.allowance(1_500), Duration::ZERO);

        let mut long = ours();
        long.handle_sample(Time::ZERO, 60, Duration::from_millis(300));
        assert_eq!(long.allowance(1_500), MOST_ALLOWED);
    }

    #[test]
    fn ours_backs_off_to_a_bound() {
        let rto = Rto { maximum: Duration::from_millis(500), ..Config::new(Profile::Default).rto };
        let mut estimator = Estimator::new(rto, Profile::Default);

        estimator.handle_sample(Time::ZERO, 60, Duration::from_millis(100));

        assert_eq!(estimator.timeout(0).as_millis(), 200);
        assert_eq!(estimator.timeout(1).as_millis(), 300);
        assert_eq!(estimator.timeout(2).as_millis(), 450);
        assert_eq!(estimator.timeout(3).as_millis(), 500);
    }

    #[test]
    fn before_a_packet_is_timed_a_report_stands_for_longer_packets_too() {
        let mut estimator = Estimator::new(Config::new(Profile::Default).rto, Profile::Default);
        assert!(estimator.is_unknown());
        assert_eq!(estimator.first_timeout(1_500).as_millis(), 200);

        let round_trip = Some(Duration::from_millis(100));
        estimator.learn_from_report(LinkReport { arrived: 1, lost: 0, round_trip });

        assert!(!estimator.is_unknown());
        // Half as long again, and as much for each hello's length.
        assert_eq!(estimator.first_timeout(50).as_millis(), 150);
        assert_eq!(estimator.first_timeout(1_500).as_millis(), 850);
    }
}
