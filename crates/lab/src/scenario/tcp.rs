//! The parameters of TCP in a scenario file.

use std::str::FromStr;
use std::time::Duration;

use proto::tcp::{
    Algorithm, Config, DelayedAck, FullAck, Growth, InitialWindow, KeepAlive, Limit, Rto,
};
use serde::Deserialize;
use sim::units::{Probability, Span};

use super::hop::set;
use super::human::Human;

/// What may be said about TCP; current RFCs decide on what is not.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Options {
    mss: Option<u16>,
    send_buffer: Option<usize>,
    receive_buffer: Option<usize>,
    max_holes: Option<usize>,
    window_scaling: Option<bool>,
    timestamps: Option<bool>,
    timestamp_tick: Option<Human<Span>>,
    sack: Option<bool>,
    duplicate_sack: Option<bool>,
    ecn: Option<bool>,
    nagle: Option<bool>,
    delayed_ack: DelayedAckOptions,
    rto: RtoOptions,
    algorithm: Option<AlgorithmName>,
    growth: Option<Human<Gain>>,
    fast_convergence: Option<bool>,
    hystart: Option<bool>,
    initial_window: Option<Human<Window>>,
    initial_window_after_syn_loss: Option<Human<Window>>,
    initial_ssthresh: Option<u64>,
    restart_after_idle: Option<bool>,
    validate_window: Option<bool>,
    undo_timeouts: Option<bool>,
    duplicate_threshold: Option<u32>,
    limited_transmit: Option<bool>,
    impatient: Option<bool>,
    full_ack: Option<FullAckName>,
    r1: Option<Human<Patience>>,
    r2: Option<Human<Patience>>,
    r2_syn: Option<Human<Patience>>,
    time_wait: Option<Human<Span>>,
    keep_alive: Option<KeepAliveOptions>,
    challenge_acks_per_s: Option<u32>,
    ttl: Option<u8>,
    dscp: Option<u8>,
    dont_fragment: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct DelayedAckOptions {
    segments: Option<u32>,
    delay: Option<Human<Span>>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct RtoOptions {
    initial: Option<Human<Span>>,
    syn: Option<Human<Span>>,
    after_syn_timeout: Option<Human<Span>>,
    min: Option<Human<Span>>,
    max: Option<Human<Span>>,
    alpha: Option<Human<Probability>>,
    beta: Option<Human<Probability>>,
    k: Option<f64>,
    granularity: Option<Human<Span>>,
    backoff: Option<f64>,
    time_repeats: Option<bool>,
    forgive: Option<bool>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KeepAliveOptions {
    idle: Human<Span>,
    interval: Human<Span>,
    probes: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum AlgorithmName {
    Cubic,
    NewReno,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum FullAckName {
    Flight,
    Ssthresh,
}

/// `10` segments, `14600 octets`, `rfc5681` or `rfc6928`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window(InitialWindow);

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_suffix("octets") {
            Some(octets) => octets.trim().parse().ok().map(InitialWindow::Octets),
            None if text == "rfc5681" => Some(InitialWindow::Rfc5681),
            None if text == "rfc6928" => Some(InitialWindow::Rfc6928),
            None => text.parse().ok().map(InitialWindow::Segments),
        };
        parsed.map(Self).ok_or_else(|| {
            format!(
                "\"{text}\" is not a window: a number of segments, \"14600 octets\", \"rfc5681\" \
                 or \"rfc6928\""
            )
        })
    }
}

/// `per-ack`, or segments for each acknowledgement at most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gain(Growth);

impl FromStr for Gain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(limit @ 1..) => Ok(Self(Growth::Octets { limit })),
            _ if text == "per-ack" => Ok(Self(Growth::PerAck)),
            _ => Err(format!("\"{text}\" is not \"per-ack\" nor a number of segments from 1")),
        }
    }
}

/// `15` retransmissions, `100s` or `never`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Patience(Limit);

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(Limit::Never));
        }
        if let Ok(times) = text.parse() {
            return Ok(Self(Limit::Retransmissions(times)));
        }
        text.parse::<Span>().map(|span| Self(Limit::Elapsed(span.0))).map_err(|_| {
            format!("\"{text}\" is not a number of retransmissions, a time such as 100s, or never")
        })
    }
}

impl Options {
    /// Changes what is said to change; tells what is wrong with the result.
    pub(super) fn apply(&self, config: &mut Config) -> Result<(), String> {
        set(&mut config.mss, self.mss.map(Some));
        set(&mut config.send_buffer, self.send_buffer);
        set(&mut config.receive_buffer, self.receive_buffer);
        set(&mut config.max_holes, self.max_holes);
        set(&mut config.window_scaling, self.window_scaling);
        set(&mut config.timestamps, self.timestamps);
        set(&mut config.timestamp_tick, self.timestamp_tick.map(span));
        set(&mut config.sack, self.sack);
        set(&mut config.duplicate_sack, self.duplicate_sack);
        set(&mut config.ecn, self.ecn);
        set(&mut config.nagle, self.nagle);
        self.delayed_ack.apply(&mut config.delayed_ack);
        self.rto.apply(&mut config.rto);
        self.apply_algorithm(&mut config.congestion)?;
        set(&mut config.initial_window, self.initial_window.map(|w| w.0.0));
        let after_loss = self.initial_window_after_syn_loss.map(|w| w.0.0);
        set(&mut config.initial_window_after_syn_loss, after_loss);
        set(&mut config.initial_ssthresh, self.initial_ssthresh.map(Some));
        set(&mut config.restart_after_idle, self.restart_after_idle);
        set(&mut config.validate_window, self.validate_window);
        set(&mut config.undo_timeouts, self.undo_timeouts);
        set(&mut config.duplicate_threshold, self.duplicate_threshold);
        set(&mut config.limited_transmit, self.limited_transmit);
        set(&mut config.impatient, self.impatient);
        set(&mut config.full_ack, self.full_ack.map(FullAckName::value));
        set(&mut config.r1, self.r1.map(|patience| patience.0.0));
        set(&mut config.r2, self.r2.map(|patience| patience.0.0));
        set(&mut config.r2_syn, self.r2_syn.map(|patience| patience.0.0));
        set(&mut config.time_wait, self.time_wait.map(span));
        set(&mut config.keep_alive, self.keep_alive.as_ref().map(|k| Some(k.value())));
        set(&mut config.challenge_acks_per_s, self.challenge_acks_per_s);
        set(&mut config.ttl, self.ttl);
        set(&mut config.dscp, self.dscp);
        set(&mut config.dont_fragment, self.dont_fragment);
        check(config)
    }

    fn apply_algorithm(&self, algorithm: &mut Algorithm) -> Result<(), String> {
        set(algorithm, self.algorithm.map(AlgorithmName::value));
        match algorithm {
            Algorithm::Cubic { .. } if self.growth.is_some() => {
                return Err("growth is for algorithm = \"new-reno\"".to_owned());
            }
            Algorithm::Cubic { fast_convergence, hystart } => {
                set(fast_convergence, self.fast_convergence);
                set(hystart, self.hystart);
            }
            Algorithm::NewReno { .. } if self.fast_convergence.is_some() => {
                return Err("fast-convergence is for algorithm = \"cubic\"".to_owned());
            }
            Algorithm::NewReno { .. } if self.hystart.is_some() => {
                return Err("hystart is for algorithm = \"cubic\"".to_owned());
            }
            Algorithm::NewReno { growth } => set(growth, self.growth.map(|gain| gain.0.0)),
        }
        Ok(())
    }
}

impl DelayedAckOptions {
    fn apply(&self, delayed: &mut DelayedAck) {
        set(&mut delayed.segments, self.segments);
        set(&mut delayed.delay, self.delay.map(span));
    }
}

impl RtoOptions {
    fn apply(&self, rto: &mut Rto) {
        set(&mut rto.initial, self.initial.map(span));
        set(&mut rto.syn, self.syn.map(span));
        set(&mut rto.after_syn_timeout, self.after_syn_timeout.map(span));
        set(&mut rto.min, self.min.map(span));
        set(&mut rto.max, self.max.map(span));
        set(&mut rto.alpha, self.alpha.map(|gain| gain.0.get()));
        set(&mut rto.beta, self.beta.map(|gain| gain.0.get()));
        set(&mut rto.k, self.k);
        set(&mut rto.granularity, self.granularity.map(span));
        set(&mut rto.backoff, self.backoff);
        set(&mut rto.time_repeats, self.time_repeats);
        set(&mut rto.forgive, self.forgive);
    }
}

impl KeepAliveOptions {
    fn value(&self) -> KeepAlive {
        let Self { idle, interval, probes } = *self;
        KeepAlive { idle: span(idle), interval: span(interval), probes }
    }
}

impl AlgorithmName {
    fn value(self) -> Algorithm {
        match self {
            Self::Cubic => Algorithm::CUBIC,
            Self::NewReno => Algorithm::default(),
        }
    }
}

impl FullAckName {
    fn value(self) -> FullAck {
        match self {
            Self::Flight => FullAck::Flight,
            Self::Ssthresh => FullAck::Ssthresh,
        }
    }
}

fn span(span: Human<Span>) -> Duration {
    span.0.0
}

/// What the types let through and TCP does not.
fn check(config: &Config) -> Result<(), String> {
    const MAX_BUFFER: usize = 1 << 30;

    let problem = if config.mss.is_some_and(|mss| mss < 32) {
        "mss is at least 32"
    } else if !(1..=MAX_BUFFER).contains(&config.send_buffer) {
        "send-buffer is 1 to 2^30 octets"
    } else if !(1..=MAX_BUFFER).contains(&config.receive_buffer) {
        "receive-buffer is 1 to 2^30 octets"
    } else if config.max_holes == 0 {
        "max-holes is at least 1"
    } else if config.timestamp_tick < Duration::from_micros(1) {
        "timestamp-tick is at least 1us"
    } else if config.rto.min > config.rto.max || config.rto.max.is_zero() {
        "rto.max is more than zero and at least rto.min"
    } else if !(config.rto.k.is_finite() && config.rto.k >= 0.0) {
        "rto.k is a number of at least 0"
    } else if !(config.rto.backoff.is_finite() && config.rto.backoff >= 1.0) {
        "rto.backoff is a number of at least 1"
    } else if config.delayed_ack.segments == 0 {
        "delayed-ack.segments is at least 1"
    } else if config.duplicate_threshold == 0 {
        "duplicate-threshold is at least 1"
    } else if config.challenge_acks_per_s == 0 {
        "challenge-acks-per-s is at least 1"
    } else if config.keep_alive.is_some_and(|probing| probing.probes == 0) {
        "keep-alive.probes is at least 1"
    } else if config.ttl == 0 {
        "ttl is at least 1"
    } else if config.dscp > 63 {
        "dscp is 0 to 63"
    } else {
        return Ok(());
    };
    Err(problem.to_owned())
}
