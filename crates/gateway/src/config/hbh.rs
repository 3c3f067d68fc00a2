//! The section `hbh`: what of the profile is set otherwise.

use proto::hbh::{Config, Rto};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Between, Fraction, Period, Positive, Span};

type Window = Between<1, 127>;
type Packets = Between<1, 100_000>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Parameters {
    retries: Option<Between<0, 255>>,
    window: Option<Spanned<(Window, Window)>>,
    congestion: Option<Spanned<Packets>>,
    clear: Option<Spanned<Packets>>,
    queue: Option<Spanned<Packets>>,
    rate_increase: Option<Positive>,
    rate_decrease: Option<Fraction>,
    ack_delay: Option<Period>,
    redundancy: Option<Spanned<String>>,
    hold: Option<Period>,
    absorb: Option<bool>,
    lifetime: Option<Period>,
    idle: Option<Period>,
    rto: Timer,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timer {
    gain: Option<Fraction>,
    deviation_gain: Option<Fraction>,
    deviations: Option<Positive>,
    factor: Option<Positive>,
    backoff: Option<Spanned<Positive>>,
    initial: Option<Period>,
    minimum: Option<Spanned<Period>>,
    maximum: Option<Spanned<Period>>,
}

impl Parameters {
    /// The profile's parameters with these changes.
    pub(super) fn check(self, profile: Config) -> Result<Config, (Span, String)> {
        let window = self.window.as_ref().map(|window| (window.span(), *window.get_ref()));
        let window = match window {
            None => profile.window,
            Some((span, (low, high))) => {
                let (low, high) = (low.as_u8(), high.as_u8());
                if low > high {
                    let what = format!(
                        "window = [{low}, {high}] is not allowed: the first is at most the second"
                    );
                    return Err((span, what));
                }
                (low, high)
            }
        };
        let packets = |given: &Option<Spanned<Packets>>, otherwise: usize| {
            given.as_ref().map_or(otherwise, |given| given.get_ref().as_usize())
        };
        let redundancy = match &self.redundancy {
            None => None,
            Some(name) => match name.get_ref().parse() {
                Ok(redundancy) => Some(redundancy),
                Err(what) => return Err((name.span(), format!("redundancy = {what}"))),
            },
        };
        let config = Config {
            retries: self.retries.map_or(profile.retries, Between::as_u8),
            window,
            congestion: packets(&self.congestion, profile.congestion),
            clear: packets(&self.clear, profile.clear),
            queue: packets(&self.queue, profile.queue),
            rate_increase: self.rate_increase.map_or(profile.rate_increase, |given| given.0),
            rate_decrease: self.rate_decrease.map_or(profile.rate_decrease, |given| given.0),
            ack_delay: self.ack_delay.map_or(profile.ack_delay, |given| given.0),
            redundancy: redundancy.unwrap_or(profile.redundancy),
            hold: self.hold.map_or(profile.hold, |given| given.0),
            absorb: self.absorb.unwrap_or(profile.absorb),
            lifetime: self.lifetime.map_or(profile.lifetime, |given| given.0),
            idle: self.idle.map_or(profile.idle, |given| given.0),
            rto: self.rto.check(profile.rto)?,
            ..profile
        };
        let marks = [&self.clear, &self.congestion, &self.queue];
        if (config.clear > config.congestion || config.congestion > config.queue)
            && let Some(mark) = marks.into_iter().flatten().next()
        {
            let Config { clear, congestion, queue, .. } = config;
            let what = format!(
                "clear = {clear}, congestion = {congestion}, queue = {queue} are not allowed \
                 together: clear is at most congestion, which is at most queue"
            );
            return Err((mark.span(), what));
        }
        Ok(config)
    }
}

impl Timer {
    fn check(self, profile: Rto) -> Result<Rto, (Span, String)> {
        if let Some(backoff) = &self.backoff
            && backoff.get_ref().0 < 1.0
        {
            let what = format!("backoff = {} is not allowed: at least 1", backoff.get_ref().0);
            return Err((backoff.span(), what));
        }
        let period =
            |given: &Option<Spanned<Period>>| given.as_ref().map(|given| given.get_ref().0);
        let rto = Rto {
            gain: self.gain.map_or(profile.gain, |given| given.0),
            deviation_gain: self.deviation_gain.map_or(profile.deviation_gain, |given| given.0),
            deviations: self.deviations.map_or(profile.deviations, |given| given.0),
            factor: self.factor.map_or(profile.factor, |given| given.0),
            backoff: self.backoff.map_or(profile.backoff, |given| given.into_inner().0),
            initial: self.initial.map_or(profile.initial, |given| given.0),
            minimum: period(&self.minimum).unwrap_or(profile.minimum),
            maximum: period(&self.maximum).unwrap_or(profile.maximum),
        };
        if rto.minimum > rto.maximum
            && let Some(bound) = self.minimum.or(self.maximum)
        {
            let Rto { minimum, maximum, .. } = rto;
            let what = format!(
                "minimum = {minimum:?} and maximum = {maximum:?} are not allowed together: \
                 minimum is at most maximum"
            );
            return Err((bound.span(), what));
        }
        Ok(rto)
    }
}
