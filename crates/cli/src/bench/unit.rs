//! The unit of a measured number: how people and programs read the number, and whether less is better.

use std::time::Duration;

use base::readable;

/// The unit of a measured number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    BitsPerCpuSecond,
    BitsPerSecond,
    CpuPerSimulated,
    Microseconds,
    Octets,
    OctetsPerSecond,
    PerCpuSecond,
    PerSecond,
    Seconds,
    Times,
    /// A cost, relative to the cost of the same work alone.
    TimesAlone,
}

impl Unit {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitsPerCpuSecond => "bit/CPU s",
            Self::BitsPerSecond => "bit/s",
            Self::CpuPerSimulated => "CPU s/simulated s",
            Self::Microseconds => "us",
            Self::Octets => "octets",
            Self::OctetsPerSecond => "B/s",
            Self::PerCpuSecond => "/CPU s",
            Self::PerSecond => "/s",
            Self::Seconds => "s",
            Self::Times => "times",
            Self::TimesAlone => "times alone",
        }
    }

    /// Whether less is better.
    pub const fn is_cost(self) -> bool {
        match self {
            Self::CpuPerSimulated
            | Self::Microseconds
            | Self::Octets
            | Self::Seconds
            | Self::TimesAlone => true,
            Self::BitsPerCpuSecond
            | Self::BitsPerSecond
            | Self::OctetsPerSecond
            | Self::PerCpuSecond
            | Self::PerSecond
            | Self::Times => false,
        }
    }

    /// Whether a value is as good as the goal.
    pub fn is_met(self, value: f64, goal: f64) -> bool {
        if self.is_cost() { value <= goal } else { value >= goal }
    }

    /// The value in words, with its unit.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::BitsPerCpuSecond => readable::rate(value).replace("/s", "/CPU s"),
            Self::BitsPerSecond => readable::rate(value),
            Self::CpuPerSimulated => format!("{} CPU/simulated s", time(value)),
            Self::Microseconds => time(value / 1e6),
            Self::Octets => readable::octets(value.round()),
            Self::OctetsPerSecond => format!("{}/s", readable::octets(value.round())),
            Self::PerCpuSecond => format!("{}/CPU s", count(value)),
            Self::PerSecond => format!("{}/s", count(value)),
            Self::Seconds => readable::span(value),
            Self::Times => format!("{} times", count(value)),
            Self::TimesAlone => format!("{} times alone", count(value)),
        }
    }
}

/// A time; a difference of times may be less than nothing.
fn time(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    let delay = Duration::try_from_secs_f64(seconds.abs()).unwrap_or_default();
    sign.to_owned() + &readable::delay(delay)
}

/// A number with three digits at least, and thousands as a letter.
fn count(value: f64) -> String {
    match value.abs() {
        1e9.. => format!("{:.2} G", value / 1e9),
        1e6.. => format!("{:.2} M", value / 1e6),
        1e3.. => format!("{:.2} k", value / 1e3),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_told_in_the_words_of_all_outputs() {
        let told = [
            Unit::BitsPerCpuSecond.shown(2.5e9),
            Unit::BitsPerSecond.shown(9.4e6),
            Unit::CpuPerSimulated.shown(2.937e-3),
            Unit::Microseconds.shown(-150.0),
            Unit::Microseconds.shown(1_500.0),
            Unit::Octets.shown(2e8),
            Unit::OctetsPerSecond.shown(1.754e11),
            Unit::PerCpuSecond.shown(482_100.0),
            Unit::PerSecond.shown(9.5),
            Unit::Times.shown(0.956),
        ];

        assert_eq!(
            told,
            [
                "2.50 Gbit/CPU s",
                "9.40 Mbit/s",
                "2.9 ms CPU/simulated s",
                "-150 µs",
                "1.5 ms",
                "200.00 MB",
                "175.40 GB/s",
                "482.10 k/CPU s",
                "9.50/s",
                "0.96 times",
            ]
        );
    }

    #[test]
    fn a_cost_meets_its_goal_from_below() {
        let judged = |unit: Unit| [100.0, 150.0, 151.0].map(|value| unit.is_met(value, 150.0));

        assert_eq!(judged(Unit::Microseconds), [true, true, false]);
        assert_eq!(judged(Unit::PerSecond), [false, true, true]);
    }
}
