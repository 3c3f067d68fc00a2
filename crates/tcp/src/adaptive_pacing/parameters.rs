//! The table of TCP-AP's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Value, named, names, word};
use base::quantity::BitRate;

use super::{Config, HopCountMode, HopSource, MOST_HISTORY, ShortPath, Variant, Variation};
use crate::algorithm::Algorithm;
use crate::config::Config as Tcp;
use crate::spelling::set_parsed;

pub(crate) const VARIANT: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.variant",
    Kind::Word(&names(&VARIANTS)),
    "Which TCP-AP: that of the paper, or the agent for ns-2, whose short-path is one-hop unless given.",
    |it| get(it, |pacing| word(&VARIANTS, &pacing.variant)),
    |it, to| {
        set(it, |pacing| {
            if let Some(variant) = named(&VARIANTS, to.text()) {
                let growth = pacing.growth;
                *pacing = Config { growth, ..Config::of(variant) };
            }
        });
    },
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const HOPS: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.hops",
    Kind::Text {
        allowed: SOURCES,
        check: |text| match source(text) {
            Some(_) => Ok(()),
            None => Err(format!("{text:?} is not allowed: {SOURCES}")),
        },
        examples: &["ttl", "1", "255"],
    },
    "The hops of the path: from the TTL of acknowledgements, which starts at 32, 64, 128 or 255, or a number.",
    |it| {
        get(it, |pacing| {
            Value::Text(match pacing.hops.source {
                HopSource::Fixed(hops) => hops.to_string(),
                HopSource::Ttl => "ttl".to_owned(),
            })
        })
    },
    |it, to| set(it, |pacing| set_parsed(&mut pacing.hops.source, source(to.text()))),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const HOP_COUNT_MODE: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.hop-count-mode",
    Kind::Word(&names(&MODES)),
    "Which hops count: all, or all but those at the end that are wired.",
    |it| get(it, |pacing| word(&MODES, &pacing.hops.mode)),
    |it, to| set(it, |pacing| set_parsed(&mut pacing.hops.mode, named(&MODES, to.text()))),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const WIRED_HOPS: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.wired-hops",
    Kind::Count { least: 0, most: 255, unit: "" },
    "Hops at the end of the path that are no radio's.",
    |it| get(it, |pacing| pacing.hops.wired.into()),
    |it, to| set(it, |pacing| pacing.hops.wired = to.count()),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const REACH: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.reach",
    Kind::Count { least: 1, most: 255, unit: "" },
    "Hops over which a segment disturbs those behind it.",
    |it| get(it, |pacing| pacing.reach.into()),
    |it, to| set(it, |pacing| pacing.reach = to.count()),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const SHORT_PATH: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.short-path",
    Kind::Word(&names(&SHORT_PATHS)),
    "How many hops' delay there is between segments on a path shorter than that.",
    |it| get(it, |pacing| word(&SHORT_PATHS, &pacing.short_path)),
    |it, to| set(it, |pacing| set_parsed(&mut pacing.short_path, named(&SHORT_PATHS, to.text()))),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const INITIAL_INTERVAL: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.initial-interval",
    Kind::Period { least: Duration::ZERO, most: MINUTE },
    "The time between segments before anything is measured.",
    |it| get(it, |pacing| pacing.initial_interval.into()),
    |it, to| set(it, |pacing| pacing.initial_interval = to.period()),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const ALPHA: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.alpha",
    Kind::Share { least: 0.0, most: 1.0 },
    "The weight of the old value in the mean of the delay.",
    |it| get(it, |pacing| Value::Share(pacing.alpha)),
    |it, to| set(it, |pacing| pacing.alpha = to.number()),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const HISTORY: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.history",
    Kind::Count { least: 1, most: MOST_HISTORY as u64, unit: "delays" },
    "Delays whose variation counts.",
    |it| get(it, |pacing| pacing.history.into()),
    |it, to| set(it, |pacing| pacing.history = to.count()),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const VARIATION: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.variation",
    Kind::Word(&names(&VARIATIONS)),
    "How their variation is measured: by their standard deviation, or by their mean absolute one.",
    |it| get(it, |pacing| word(&VARIATIONS, &pacing.variation)),
    |it, to| set(it, |pacing| set_parsed(&mut pacing.variation, named(&VARIATIONS, to.text()))),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const DELAY_BOUND: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.delay-bound",
    Kind::Period { least: Duration::from_millis(1), most: MINUTE },
    "Delays that are longer are not believed.",
    |it| get(it, |pacing| pacing.delay_bound.into()),
    |it, to| set(it, |pacing| pacing.delay_bound = to.period()),
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const LINK_RATE: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.link-rate",
    Kind::Rate { may_be_unlimited: false },
    "The bit rate of a link.",
    |it| get(it, |pacing| BitRate::from_bits_per_s(pacing.link_bits_per_s).into()),
    |it, to| {
        set(it, |pacing| {
            if let BitRate::PerSecond(bits) = to.rate() {
                pacing.link_bits_per_s = bits.get();
            }
        });
    },
)
.only_with(TCP_AP, is_tcp_ap);

pub(crate) const OVERHEAD: Parameter<Tcp> = Parameter::<Tcp>::new(
    "tcp-ap.overhead",
    Kind::Count { least: 0, most: 65_535, unit: "octets" },
    "What a frame has besides payload: headers of all layers, preambles as octets.",
    |it| get(it, |pacing| pacing.overhead.into()),
    |it, to| set(it, |pacing| pacing.overhead = to.count()),
)
.only_with(TCP_AP, is_tcp_ap);

const TCP_AP: &str = "algorithm = \"tcp-ap\"";
const VARIANTS: [(&str, Variant); 2] = [("ns-2", Variant::Ns2), ("published", Variant::Published)];
const MODES: [(&str, HopCountMode); 2] =
    [("include-wired", HopCountMode::IncludeWired), ("wireless-only", HopCountMode::WirelessOnly)];
const SHORT_PATHS: [(&str, ShortPath); 2] =
    [("all-hops", ShortPath::All), ("one-hop", ShortPath::OneHop)];
const VARIATIONS: [(&str, Variation); 2] = [("mad", Variation::Mad), ("stddev", Variation::Stddev)];
const SOURCES: &str = "\"ttl\", or a number of hops from 1 to 255";
const MINUTE: Duration = Duration::from_secs(60);

fn source(text: &str) -> Option<HopSource> {
    match (text, text.parse()) {
        ("ttl", _) => Some(HopSource::Ttl),
        (_, Ok(hops @ 1..)) => Some(HopSource::Fixed(hops)),
        _ => None,
    }
}

fn is_tcp_ap(config: &Tcp) -> bool {
    matches!(config.congestion.algorithm, Algorithm::TcpAp(_))
}

fn get(config: &Tcp, read: impl Fn(&Config) -> Value) -> Value {
    match &config.congestion.algorithm {
        Algorithm::TcpAp(pacing) => read(pacing),
        _ => Value::Absent,
    }
}

fn set(config: &mut Tcp, write: impl Fn(&mut Config)) {
    if let Algorithm::TcpAp(pacing) = &mut config.congestion.algorithm {
        write(pacing);
    }
}
