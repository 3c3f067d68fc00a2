//! The parameters of TCP-AP, and how it counts the hops of a path.

use std::time::Duration;

use base::parameter::{Kind, Settable, Value, named, names};
use base::quantity::BitRate;

use crate::congestion::Growth;
use crate::spelling::read;

base::parameters! {
    /// The table of TCP-AP.
    pub(crate) static TABLE = "tcp-ap";

    /// The settings of TCP-AP. The defaults are for links of 2 Mbit/s.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from of(variant: Variant) {
        /// Which TCP-AP: that of the paper, or the agent for ns-2, whose short-path is one-hop unless given.
        #[allowed(Kind::Word(&names(&VARIANTS)))]
        #[set(|it, to| {
            if let Some(variant) = named(&VARIANTS, to.text()) {
                *it = Config { growth: it.growth, ..Config::of(variant) };
            }
        })]
        pub variant as "tcp-ap.variant": Variant = variant;

        /// How acknowledgements open NewReno's window.
        pub growth: Growth = Growth::Octets { limit: 2 };

        /// How hops are counted.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub hops: flat struct Hops {
            /// The hops of the path: from the TTL of acknowledgements, which starts at 32, 64, 128 or 255, or a number.
            #[allowed(Kind::Text {
                allowed: SOURCES,
                check: |text| read(text, source, SOURCES),
                examples: &["ttl", "1", "255"],
            })]
            pub source as "tcp-ap.hops": HopSource = HopSource::Ttl;

            /// Which hops count: all, or all but those at the end that are wired.
            #[allowed(Kind::Word(&names(&MODES)))]
            pub mode as "tcp-ap.hop-count-mode": HopCountMode = HopCountMode::WirelessOnly;

            /// Hops at the end of the path that are no radio's.
            #[allowed(Kind::count(0..=255))]
            pub wired as "tcp-ap.wired-hops": u8 = 0;
        }

        /// Hops over which a segment disturbs those behind it.
        // By default of radios that are heard 2.2 times as far as they are understood.
        #[allowed(Kind::count(1..=255))]
        pub reach as "tcp-ap.reach": u8 = 4;

        /// How many hops' delay there is between segments on a path shorter than that.
        #[allowed(Kind::Word(&names(&SHORT_PATHS)))]
        pub short_path as "tcp-ap.short-path": ShortPath = ShortPath::All, Ns2: ShortPath::OneHop;

        /// The time between segments before anything is measured.
        #[allowed(Kind::period(Duration::ZERO..=MINUTE))]
        pub initial_interval as "tcp-ap.initial-interval": Duration = Duration::from_millis(50);

        /// The weight of the old value in the mean of the delay.
        #[allowed(Kind::share(0.0..=1.0))]
        pub alpha as "tcp-ap.alpha": f64 = 0.7;

        /// Delays whose variation counts.
        #[allowed(Kind::count(1..=MOST_HISTORY as u64).of("delays"))]
        pub history as "tcp-ap.history": u16 = 50;

        /// How their variation is measured: by their standard deviation, or by their mean absolute one.
        #[allowed(Kind::Word(&names(&VARIATIONS)))]
        pub variation as "tcp-ap.variation": Variation = Variation::Stddev;

        /// Delays that are longer are not believed.
        #[allowed(Kind::period(Duration::from_millis(1)..=MINUTE))]
        pub delay_bound as "tcp-ap.delay-bound": Duration = Duration::from_millis(500);

        /// The bit rate of a link.
        #[allowed(Kind::Rate { may_be_unlimited: false })]
        #[get(|it| BitRate::from_bits_per_s(it.link_bits_per_s).into())]
        #[set(|it, to| {
            if let BitRate::PerSecond(bits) = to.rate() {
                it.link_bits_per_s = bits.get();
            }
        })]
        pub link_bits_per_s as "tcp-ap.link-rate": u64 = 2_000_000;

        /// What a frame has besides payload: headers of all layers, preambles as octets.
        #[allowed(Kind::count(0..=65_535).of("octets"))]
        pub overhead as "tcp-ap.overhead": u16 = 112;
    }
}

/// Most delays that are kept.
pub const MOST_HISTORY: u16 = 200;

/// Which TCP-AP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variant {
    /// The agent for ns-2: a delay of a hop beyond the bound is replaced by its mean, the pacer's
    /// clock goes on ticking while nothing waits, and a short path counts as one hop.
    Ns2,
    /// The formulas as published.
    Published,
}

/// Where the number of hops comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HopSource {
    /// It is given.
    Fixed(u8),
    /// From the TTL of acknowledgements: hosts start with 32, 64, 128 or 255.
    Ttl,
}

/// Which hops count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HopCountMode {
    /// All of them.
    IncludeWired,
    /// Hops between radios only, as the agent for ns-2 counts.
    WirelessOnly,
}

/// How many hops' delay there is between segments on a path shorter than the reach.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShortPath {
    /// As many hops as the path has.
    All,
    /// One.
    OneHop,
}

/// How the variation of delays is measured; both by their mean.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variation {
    /// Their mean absolute deviation.
    Mad,
    /// The standard deviation of a population.
    Stddev,
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Variant::Published)
    }
}

impl Hops {
    /// Hops that count when an acknowledgement came with this TTL.
    pub(crate) fn count(self, ttl: u8) -> u8 {
        let all = match self.source {
            HopSource::Fixed(hops) => hops,
            // Routers lower the TTL, and there is one hop more than routers.
            HopSource::Ttl => {
                let start = [32, 64, 128, 255].into_iter().find(|start| *start >= ttl);
                (start.unwrap_or(u8::MAX) - ttl).saturating_add(1)
            }
        };
        match self.mode {
            HopCountMode::IncludeWired => all,
            HopCountMode::WirelessOnly => all.saturating_sub(self.wired),
        }
    }
}

const VARIANTS: [(&str, Variant); 2] = [("ns-2", Variant::Ns2), ("published", Variant::Published)];
const MODES: [(&str, HopCountMode); 2] =
    [("include-wired", HopCountMode::IncludeWired), ("wireless-only", HopCountMode::WirelessOnly)];
const SHORT_PATHS: [(&str, ShortPath); 2] =
    [("all-hops", ShortPath::All), ("one-hop", ShortPath::OneHop)];
const VARIATIONS: [(&str, Variation); 2] = [("mad", Variation::Mad), ("stddev", Variation::Stddev)];
const SOURCES: &str = "\"ttl\", or a number of hops from 1 to 255";
const MINUTE: Duration = Duration::from_secs(60);

base::words! {
    Variant: VARIANTS, HopCountMode: MODES, ShortPath: SHORT_PATHS, Variation: VARIATIONS,
}

impl Settable for HopSource {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Text(match self {
            Self::Fixed(hops) => hops.to_string(),
            Self::Ttl => "ttl".to_owned(),
        })
    }

    fn from_value(value: &Value) -> Option<Self> {
        source(value.text())
    }
}

fn source(text: &str) -> Option<HopSource> {
    match (text, text.parse()) {
        ("ttl", _) => Some(HopSource::Ttl),
        (_, Ok(hops @ 1..)) => Some(HopSource::Fixed(hops)),
        _ => None,
    }
}
