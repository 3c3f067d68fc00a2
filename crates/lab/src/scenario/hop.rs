//! The parameters of HBH in a scenario file.

use proto::hbh::{Config, Profile, Rto};
use serde::Deserialize;
use sim::units::{BitRate, Probability, Span};

use super::human::{Human, OneOrTwo};

/// What may be said about HBH; the profile decides on what is not.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Options {
    profile: Option<ProfileName>,
    protocol: Option<u8>,
    retries: Option<u8>,
    window: Option<OneOrTwo>,
    rto: RtoOptions,
    congestion: Option<usize>,
    clear: Option<usize>,
    queue: Option<usize>,
    rate_increase: Option<Human<BitRate>>,
    rate_decrease: Option<Human<Probability>>,
    ack_delay: Option<Human<Span>>,
    redundancy: Option<String>,
    hold: Option<Human<Span>>,
    absorb: Option<bool>,
    lifetime: Option<Human<Span>>,
    idle: Option<Human<Span>>,
    flows: Option<usize>,
    packets: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum ProfileName {
    Default,
    Seed,
}

/// The retransmission timer: `fixed`, or the constants of the estimator.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct RtoOptions {
    fixed: Option<Human<Span>>,
    gain: Option<Human<Probability>>,
    deviation_gain: Option<Human<Probability>>,
    deviations: Option<f64>,
    factor: Option<f64>,
    backoff: Option<f64>,
    initial: Option<Human<Span>>,
    minimum: Option<Human<Span>>,
    maximum: Option<Human<Span>>,
}

impl Options {
    /// The parameters, or what is wrong with them. What is not said is as in `base`, or as in the
    /// profile where that is said.
    pub(super) fn config(&self, base: Option<Config>) -> Result<Config, String> {
        let mut config = match self.profile {
            Some(ProfileName::Default) => Config::new(Profile::Default),
            Some(ProfileName::Seed) => Config::new(Profile::Paper),
            None => base.unwrap_or_else(|| Config::new(Profile::Default)),
        };
        set(&mut config.protocol, self.protocol);
        set(&mut config.retries, self.retries);
        set(&mut config.window, self.window.map(OneOrTwo::pair));
        self.rto.apply(&mut config.rto)?;
        set(&mut config.congestion, self.congestion);
        set(&mut config.clear, self.clear);
        set(&mut config.queue, self.queue);
        set(&mut config.rate_increase, self.rate_increase.map(|rate| bits_per_s(rate.0)));
        set(&mut config.rate_decrease, self.rate_decrease.map(|p| p.0.get()));
        set(&mut config.ack_delay, self.ack_delay.map(|span| span.0.0));
        if let Some(name) = &self.redundancy {
            config.redundancy = name.parse().map_err(|what| format!("redundancy = {what}"))?;
        }
        set(&mut config.hold, self.hold.map(|span| span.0.0));
        set(&mut config.absorb, self.absorb);
        set(&mut config.lifetime, self.lifetime.map(|span| span.0.0));
        set(&mut config.idle, self.idle.map(|span| span.0.0));
        set(&mut config.flows, self.flows);
        set(&mut config.packets, self.packets);
        check(&config)?;
        Ok(config)
    }
}

fn check(config: &Config) -> Result<(), String> {
    let (least, most) = config.window;
    if least == 0 || least > most || most > 127 {
        return Err(format!("window is {least} to {most}; allowed are 1 to 127, least first"));
    }
    if config.congestion > config.queue {
        let (s, l) = (config.congestion, config.queue);
        return Err(format!("congestion is {s}; allowed is at most queue, which is {l}"));
    }
    if config.rate_decrease >= 1.0 {
        return Err("rate-decrease is 100%; allowed is less".to_owned());
    }
    Ok(())
}

impl RtoOptions {
    fn apply(&self, rto: &mut Rto) -> Result<(), String> {
        if let Some(fixed) = self.fixed {
            *rto = Rto::fixed(fixed.0.0);
        }
        set(&mut rto.gain, self.gain.map(|p| p.0.get()));
        set(&mut rto.deviation_gain, self.deviation_gain.map(|p| p.0.get()));
        set(&mut rto.deviations, self.deviations);
        set(&mut rto.factor, self.factor);
        set(&mut rto.backoff, self.backoff);
        set(&mut rto.initial, self.initial.map(|span| span.0.0));
        set(&mut rto.minimum, self.minimum.map(|span| span.0.0));
        set(&mut rto.maximum, self.maximum.map(|span| span.0.0));

        let is_number = |value: f64, least: f64| value.is_finite() && value >= least;
        if !is_number(rto.deviations, 0.0) || !is_number(rto.factor, 0.0) {
            return Err("rto.deviations and rto.factor are numbers of at least 0".to_owned());
        }
        if !is_number(rto.backoff, 1.0) {
            return Err("rto.backoff is a number of at least 1".to_owned());
        }
        if rto.minimum > rto.maximum || rto.maximum.is_zero() {
            return Err("rto.maximum is more than zero and at least rto.minimum".to_owned());
        }
        Ok(())
    }
}

fn bits_per_s(rate: BitRate) -> f64 {
    match rate {
        BitRate::PerSecond(bits) => bits.get() as f64,
        BitRate::Unlimited => f64::INFINITY,
    }
}

/// Changes what is said to change.
pub(super) fn set<T>(value: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *value = new;
    }
}
