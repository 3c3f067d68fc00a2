//! What a service says of itself, as values; text is made of them in one place, by the supervisor.

use rules::Counters;
use serde::Serialize;
use serde_json::Value;

/// A counter's name and value.
pub(crate) type Entry = (String, u64);

/// How a service is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Its counters; names of different services differ.
    pub(crate) counters: Vec<Entry>,
    /// More than numbers, and by what name.
    pub(crate) status: Option<(&'static str, Value)>,
    /// Numbers that stand for one of several.
    pub(crate) samples: Vec<Sample>,
    /// What is not as it should be while it runs, for an operator.
    pub(crate) faults: Vec<String>,
    /// What the rules counted that it follows; no name for what none matched.
    pub(crate) rules: Vec<(Option<String>, Counters)>,
}

/// A number that stands for one of several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    /// Which: a label and its value.
    pub(crate) of: (&'static str, String),
    pub(crate) value: f64,
}

impl Report {
    pub(crate) fn new(counters: Vec<Entry>, name: &'static str, status: &impl Serialize) -> Self {
        let status = serde_json::to_value(status).ok().map(|status| (name, status));
        Self { counters, status, ..Self::default() }
    }
}

/// The fields of what is counted that are whole numbers, each by its name behind a prefix.
pub(crate) fn entries(prefix: &str, stats: &impl Serialize) -> Vec<Entry> {
    let Ok(Value::Object(fields)) = serde_json::to_value(stats) else { return Vec::new() };
    let numbers = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_u64()?)));
    numbers.map(|(name, value)| (format!("{prefix}{name}"), value)).collect()
}

/// A number with so many places behind the point; JSON knows none that is not finite.
pub(crate) fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { 0.0 }
}
