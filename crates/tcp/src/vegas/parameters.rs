//! The table of Vegas's parameters: ranges and defaults, for users.

use base::parameter::{Kind, Parameter, Rule, Value, named, names, word};

use super::{Config, Rebase, Variant};
use crate::algorithm::Algorithm;
use crate::config::Config as Tcp;

pub(crate) const VARIANT: Parameter<Tcp> = Parameter::<Tcp>::new(
    "vegas.variant",
    Kind::Word(&names(&VARIANTS)),
    "Which Vegas: that of the paper, or that of ns-2, whose alpha and beta are 1 and 3 unless given.",
    |it| get(it, |vegas| word(&VARIANTS, &vegas.variant)),
    |it, to| {
        set(it, |vegas| {
            if let Some(variant) = named(&VARIANTS, to.text()) {
                *vegas = Config::of(variant);
            }
        });
    },
)
.only_with(VEGAS, is_vegas);

pub(crate) const ALPHA: Parameter<Tcp> = Parameter::<Tcp>::new(
    "vegas.alpha",
    SEGMENTS,
    "The window grows while fewer segments than this wait in queues.",
    |it| get(it, |vegas| vegas.alpha.into()),
    |it, to| set(it, |vegas| vegas.alpha = to.number()),
)
.only_with(VEGAS, is_vegas);

pub(crate) const BETA: Parameter<Tcp> = Parameter::<Tcp>::new(
    "vegas.beta",
    SEGMENTS,
    "The window shrinks while more segments than this wait in queues.",
    |it| get(it, |vegas| vegas.beta.into()),
    |it, to| set(it, |vegas| vegas.beta = to.number()),
)
.only_with(VEGAS, is_vegas);

pub(crate) const GAMMA: Parameter<Tcp> = Parameter::<Tcp>::new(
    "vegas.gamma",
    SEGMENTS,
    "Slow start ends when more segments than this wait in queues.",
    |it| get(it, |vegas| vegas.gamma.into()),
    |it, to| set(it, |vegas| vegas.gamma = to.number()),
)
.only_with(VEGAS, is_vegas);

pub(crate) const REBASE: Parameter<Tcp> = Parameter::<Tcp>::new(
    "vegas.rebase",
    Kind::Text {
        allowed: REBASES,
        check: |text| match rebase(text) {
            Some(_) => Ok(()),
            None => Err(format!("{text:?} is not allowed: {REBASES}")),
        },
        examples: &["never", "hops", "8"],
    },
    "When the least round-trip time is forgotten, so that a longer path is not taken for a queue: \
     when the TTL of acknowledgements changes, or when so many round trips had none within an eighth.",
    |it| {
        get(it, |vegas| {
            Value::Text(match vegas.rebase {
                Rebase::Hops => "hops".to_owned(),
                Rebase::Never => "never".to_owned(),
                Rebase::Rounds(rounds) => rounds.to_string(),
            })
        })
    },
    |it, to| {
        set(it, |vegas| {
            if let Some(rebase) = rebase(to.text()) {
                vegas.rebase = rebase;
            }
        });
    },
)
.only_with(VEGAS, is_vegas);

pub(crate) const BOUNDS: Rule<Tcp> = Rule {
    names: &["vegas.alpha", "vegas.beta"],
    allowed: "vegas.alpha is at most vegas.beta",
    holds: |it| match it.congestion.algorithm {
        Algorithm::Vegas(vegas) => vegas.alpha <= vegas.beta,
        _ => true,
    },
};

const VEGAS: &str = "algorithm = \"vegas\"";
const VARIANTS: [(&str, Variant); 2] = [("ns-2", Variant::Ns2), ("published", Variant::Published)];
const SEGMENTS: Kind = Kind::Number { least: 0.0, most: 1_000.0 };
const REBASES: &str = "\"never\", \"hops\", or a number of round trips from 1";

fn rebase(text: &str) -> Option<Rebase> {
    match (text, text.parse()) {
        ("hops", _) => Some(Rebase::Hops),
        ("never", _) => Some(Rebase::Never),
        (_, Ok(rounds @ 1..)) => Some(Rebase::Rounds(rounds)),
        _ => None,
    }
}

fn is_vegas(config: &Tcp) -> bool {
    matches!(config.congestion.algorithm, Algorithm::Vegas(_))
}

fn get(config: &Tcp, read: impl Fn(&Config) -> Value) -> Value {
    match &config.congestion.algorithm {
        Algorithm::Vegas(vegas) => read(vegas),
        _ => Value::Absent,
    }
}

fn set(config: &mut Tcp, write: impl Fn(&mut Config)) {
    if let Algorithm::Vegas(vegas) = &mut config.congestion.algorithm {
        write(vegas);
    }
}
