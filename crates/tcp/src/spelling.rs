//! The written form of algorithms, windows and limits.

use base::parameter::{Kind, Settable, Value};
use base::quantity::Span;

use super::algorithm::Algorithm;
use super::config::{Config, InitialWindow, Limit};
use super::congestion::Growth;

pub const GROWTH: Kind = Kind::Text {
    allowed: GROWTHS,
    check: |text| read(text, growth, GROWTHS),
    examples: &["per-ack", "1", "2"],
};
const GROWTHS: &str = "\"per-ack\", or a number of segments from 1";
const WINDOWS: &str = "a number of segments, \"14600 octets\", \"rfc5681\" or \"rfc6928\"";
pub const INITIAL_WINDOW: Kind = Kind::Text {
    allowed: WINDOWS,
    check: |text| read(text, window, WINDOWS),
    examples: &["10", "14600 octets", "rfc5681", "rfc6928"],
};
const LIMITS: &str = "a number of retransmissions, a time such as \"100s\", or \"never\"";
pub const LIMIT: Kind = Kind::Text {
    allowed: LIMITS,
    check: |text| read(text, limit, LIMITS),
    examples: &["15", "100s", "never"],
};
const LIMIT_FORMS: &str = "a number of retransmissions, a time such as \"100s\", one that begins with \
    R1 such as \"80s after r1\", or \"never\"";
pub const LIMIT_AFTER_R1: Kind = Kind::Text {
    allowed: LIMIT_FORMS,
    check: |text| read(text, limit_after_r1, LIMIT_FORMS),
    examples: &["15", "100s", "80s after r1", "never"],
};

pub fn read<T>(text: &str, read: fn(&str) -> Option<T>, allowed: &str) -> Result<(), String> {
    match read(text) {
        Some(_) => Ok(()),
        None => Err(format!("{text:?} is not allowed: {allowed}")),
    }
}

/// Makes rows of the connection's table from the table of a congestion control, in the order of that table. They are
/// of use with this congestion control alone.
macro_rules! rows {
    ($algorithm:ident, $text:literal, $table:ident: $($row:ident = $at:literal),+ $(,)?) => {$(
        pub const $row: base::parameter::Parameter<crate::Config> =
            base::parameter::Parameter::<crate::Config>::new(
                $table.parameters[$at].name,
                $table.parameters[$at].kind,
                $table.parameters[$at].meaning,
                |it| match &it.congestion.algorithm {
                    crate::Algorithm::$algorithm(config) => ($table.parameters[$at].get)(config),
                    _ => base::parameter::Value::Absent,
                },
                |it, to| {
                    if let crate::Algorithm::$algorithm(config) = &mut it.congestion.algorithm {
                        ($table.parameters[$at].set)(config, to);
                    }
                },
            )
            .only_with($text, |it| {
                matches!(it.congestion.algorithm, crate::Algorithm::$algorithm(_))
            });
    )+};
}

pub(crate) use rows;

pub fn algorithm(algorithm: Algorithm) -> Value {
    let name = match algorithm {
        Algorithm::Bbr => "bbr",
        Algorithm::Cubic { .. } => "cubic",
        Algorithm::NewReno { .. } => "new-reno",
        Algorithm::TcpAp(_) => "tcp-ap",
        Algorithm::Vegas(_) => "vegas",
    };
    Value::Text(name.to_owned())
}

fn growth(text: &str) -> Option<Growth> {
    match text.parse() {
        Ok(limit @ 1..) => Some(Growth::Octets { limit }),
        _ => (text == "per-ack").then_some(Growth::PerAck),
    }
}

pub fn set_growth(config: &mut Config, to: &Value) {
    let Some(read) = growth(to.text()) else { return };
    match &mut config.congestion.algorithm {
        Algorithm::NewReno { growth } => *growth = read,
        Algorithm::TcpAp(pacing) => pacing.growth = read,
        Algorithm::Bbr | Algorithm::Cubic { .. } | Algorithm::Vegas(_) => {}
    }
}

pub fn shown_growth(algorithm: Algorithm) -> Value {
    let growth = match algorithm {
        Algorithm::Bbr | Algorithm::Cubic { .. } | Algorithm::Vegas(_) => return Value::Absent,
        Algorithm::NewReno { growth } => growth,
        Algorithm::TcpAp(pacing) => pacing.growth,
    };
    Value::Text(match growth {
        Growth::Octets { limit } => limit.to_string(),
        Growth::PerAck => "per-ack".to_owned(),
    })
}

fn window(text: &str) -> Option<InitialWindow> {
    match (text, text.strip_suffix("octets")) {
        ("rfc5681", _) => Some(InitialWindow::Rfc5681),
        ("rfc6928", _) => Some(InitialWindow::Rfc6928),
        (_, Some(octets)) => octets.trim().parse().ok().map(InitialWindow::Octets),
        (segments, None) => segments.parse().ok().map(InitialWindow::Segments),
    }
}

impl Settable for InitialWindow {
    fn to_value(&self, _: &Kind) -> Value {
        Value::Text(match self {
            Self::Octets(octets) => format!("{octets} octets"),
            Self::Rfc5681 => "rfc5681".to_owned(),
            Self::Rfc6928 => "rfc6928".to_owned(),
            Self::Segments(segments) => segments.to_string(),
        })
    }

    fn from_value(value: &Value) -> Option<Self> {
        window(value.text())
    }
}

fn limit(text: &str) -> Option<Limit> {
    match (text, text.parse()) {
        ("never", _) => Some(Limit::Never),
        (_, Ok(times)) => Some(Limit::Retransmissions(times)),
        (time, Err(_)) => time.parse().ok().map(|Span(time)| Limit::Elapsed(time)),
    }
}

/// A limit that may begin with R1: that of R2.
fn limit_after_r1(text: &str) -> Option<Limit> {
    match text.strip_suffix(AFTER_R1) {
        Some(time) => time.trim().parse().ok().map(|Span(time)| Limit::ElapsedSinceR1(time)),
        None => limit(text),
    }
}

/// The suffix of a time counted from R1.
const AFTER_R1: &str = " after r1";

/// What no text stands for is not shown.
impl Settable for Limit {
    fn to_value(&self, kind: &Kind) -> Value {
        let value = Value::Text(match self {
            Self::Elapsed(time) => Span(*time).to_string(),
            Self::ElapsedSinceR1(time) => format!("{}{AFTER_R1}", Span(*time)),
            Self::Never => "never".to_owned(),
            Self::Retransmissions(times) => times.to_string(),
        });
        if kind.allows(&value) { value } else { Value::Absent }
    }

    fn from_value(value: &Value) -> Option<Self> {
        limit_after_r1(value.text())
    }
}
