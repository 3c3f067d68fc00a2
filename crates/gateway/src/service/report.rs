//! Reports of services to their supervisor, as values; the supervisor alone turns values into text.

use base::counter::{self, Counter};
use host::Fault;
use rules::Counters;
use serde::Serialize;
use serde_json::Value;

/// A counter with its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The counter's name with the service's prefix.
    pub(crate) name: String,
    pub(crate) counter: &'static Counter,
    pub(crate) value: u64,
}

/// How a service is.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its counters; names of different services differ.
    pub(crate) counters: Vec<Entry>,
    /// More than numbers, and by what name.
    pub(crate) status: Option<(&'static str, Value)>,
    /// Numbers with a label, each for one of several objects.
    pub(crate) samples: Vec<Sample>,
    /// Faults of the running service, for an operator.
    pub(crate) faults: Vec<Fault>,
    /// Counters of the rules that the service follows; traffic that no rule matched has no name.
    pub(crate) rules: Vec<(Option<String>, Counters)>,
}

/// A number with a label, for one of several objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub(crate) name: String,
    pub(crate) counter: &'static Counter,
    /// Which: a label and its value.
    pub(crate) of: (&'static str, String),
    pub(crate) value: f64,
}

impl Report {
    pub fn new(counters: Vec<Entry>, name: &'static str, status: &impl Serialize) -> Self {
        let status = serde_json::to_value(status).ok().map(|status| (name, status));
        Self { counters, status, ..Self::default() }
    }
}

/// A set of counters, each named by a prefix and its own name.
pub fn entries(prefix: &str, stats: &impl counter::Counters) -> Vec<Entry> {
    of_counters(prefix, counter::named(stats))
}

/// The same of counters that are listed already.
pub fn of_counters(
    prefix: &str,
    counters: impl IntoIterator<Item = (&'static Counter, u64)>,
) -> Vec<Entry> {
    let entry = |(counter, value): (&'static Counter, u64)| Entry {
        name: format!("{prefix}{}", counter.name),
        counter,
        value,
    };
    counters.into_iter().map(entry).collect()
}

/// A number with so many places behind the point; JSON knows none that is not finite.
pub fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { 0.0 }
}
