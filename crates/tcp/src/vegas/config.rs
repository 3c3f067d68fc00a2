//! The parameters of Vegas.

use base::parameter::{Kind, Settable, Value, named, names};

use crate::spelling::read;

base::parameters! {
    /// The table of Vegas.
    pub(crate) static TABLE = "vegas";

    /// The settings of Vegas. The defaults are those of the paper's later versions, and of ns-2.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from of(variant: Variant) {
        /// Which Vegas: that of the paper, or that of ns-2, whose alpha and beta are 1 and 3 unless given.
        #[allowed(Kind::Word(&names(&VARIANTS)))]
        #[set(|it, to| *it = named(&VARIANTS, to.text()).map_or(*it, Config::of))]
        pub variant as "vegas.variant": Variant = variant;

        /// The window grows while fewer segments than this wait in queues.
        #[allowed(SEGMENTS)]
        pub alpha as "vegas.alpha": f64 = 2.0, Ns2: 1.0;

        /// The window shrinks while more segments than this wait in queues.
        #[allowed(SEGMENTS)]
        pub beta as "vegas.beta": f64 = 4.0, Ns2: 3.0;

        /// Slow start ends when more segments than this wait in queues.
        #[allowed(SEGMENTS)]
        pub gamma as "vegas.gamma": f64 = 1.0;

        /// When the least round-trip time is forgotten, so that a longer path is not taken for a queue: when the TTL of
        /// acknowledgements changes, or when so many round trips had none within an eighth.
        #[allowed(Kind::Text {
            allowed: REBASES,
            check: |text| read(text, rebase, REBASES),
            examples: &["never", "hops", "8"],
        })]
        pub rebase as "vegas.rebase": Rebase = Rebase::Never;
    }
}

/// Which Vegas.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variant {
    /// That of ns-2.35: whole segments, `Expected` from what is in flight, growth by 1 / cwnd an
    /// acknowledgement, BaseRTT overwritten after a round trip of one segment.
    Ns2,
    /// That of the paper: `Expected` from the window, one segment more or less a round trip.
    Published,
}

/// When to forget BaseRTT: a longer path must not look like a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rebase {
    /// When acknowledgements come over another number of hops, by their TTL.
    Hops,
    /// Never, as published.
    Never,
    /// When that many round trips in a row, at least 1, had none within an eighth of it: the window
    /// is then at its floor for two round trips, so that our own queue is not taken for the path.
    Rounds(u32),
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Variant::Published)
    }
}

const VARIANTS: [(&str, Variant); 2] = [("ns-2", Variant::Ns2), ("published", Variant::Published)];
const SEGMENTS: Kind = Kind::number(0.0..=1_000.0);
const REBASES: &str = "\"never\", \"hops\", or a number of round trips from 1";

base::words!(Variant: VARIANTS);

impl Settable for Rebase {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Text(match self {
            Self::Hops => "hops".to_owned(),
            Self::Never => "never".to_owned(),
            Self::Rounds(rounds) => rounds.to_string(),
        })
    }

    fn from_value(value: &Value) -> Option<Self> {
        rebase(value.text())
    }
}

fn rebase(text: &str) -> Option<Rebase> {
    match (text, text.parse()) {
        ("hops", _) => Some(Rebase::Hops),
        ("never", _) => Some(Rebase::Never),
        (_, Ok(rounds @ 1..)) => Some(Rebase::Rounds(rounds)),
        _ => None,
    }
}
