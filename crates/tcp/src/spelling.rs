//! Settings that are written as text: how a window grows, the window to start with, and how long a segment is sent
//! again.

use std::time::Duration;

use base::parameter::{Kind, Settable, Value};
use base::quantity::Span;

use super::congestion::Growth;

/// A window to start with, where S is the octets of a full segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InitialWindow {
    /// That many octets.
    Octets(u64),
    /// 2, 3 or 4 segments, by their size (RFC 5681, 3.1).
    Rfc5681,
    /// min(10 S, max(2 S, 14,600)) (RFC 6928, 2).
    Rfc6928,
    /// That many segments.
    Segments(u32),
}

impl InitialWindow {
    /// In octets, when a full segment has `mss`.
    #[must_use]
    pub fn octets(self, mss: u64) -> u64 {
        match self {
            Self::Octets(octets) => octets,
            Self::Rfc5681 if mss > 2_190 => 2 * mss,
            Self::Rfc5681 if mss > 1_095 => 3 * mss,
            Self::Rfc5681 => 4 * mss,
            Self::Rfc6928 => (10 * mss).min((2 * mss).max(14_600)),
            Self::Segments(segments) => u64::from(segments) * mss,
        }
    }
}

/// A bound on how long a segment is sent again (RFC 1122, 4.2.3.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// Since the segment was first sent.
    Elapsed(Duration),
    /// Since the retransmission at which R1 was reached; for R2 only.
    ElapsedSinceR1(Duration),
    /// There is none.
    Never,
    /// That many retransmissions have gone unanswered for their timeout.
    Retransmissions(u32),
}

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

/// How this text says that a window grows.
pub fn growth(text: &str) -> Option<Growth> {
    match text.parse() {
        Ok(limit @ 1..) => Some(Growth::Octets { limit }),
        _ => (text == "per-ack").then_some(Growth::PerAck),
    }
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
