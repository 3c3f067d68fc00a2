//! Numbers in sentences.

use std::fmt;

use crate::stats::Estimate;

/// Three digits that count.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 99.95 || value == 0.0 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.01 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// The same, also of numbers that are very small or large; "none" for what is not a number.
pub fn any(value: f64) -> String {
    if value.is_nan() {
        "none".to_owned()
    } else if value != 0.0 && !(1e-2..1e6).contains(&value.abs()) {
        format!("{value:.2e}")
    } else {
        number(value)
    }
}

/// Formats a mean, as in a sentence.
pub fn mean(estimate: &Estimate) -> String {
    estimate.to_string()
}

/// The mean with its interval, or as a lower bound with the number of runs that did not end.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, censored, .. } = *self;
        let value = number(self.mean);
        match self.ci95 {
            _ if self.mean.is_nan() => f.write_str("unknown"),
            // For a mean of means, the runs are not the counted ones.
            _ if self.is_lower_bound() && censored <= runs => {
                write!(f, "at least {value} ({censored} of {runs} runs did not end)")
            }
            _ if self.is_lower_bound() => write!(f, "at least {value}"),
            Some(_) if self.is_log => {
                write!(f, "{value} ({} to {})", number(self.low()), number(self.high()))
            }
            Some(half) => write!(f, "{value} ± {}", number(half)),
            None => f.write_str(&value),
        }
    }
}

/// A loss rate.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let written = [0.0, 0.001_23, 0.5, 4.567, 12.34, 123.4, 1234.5].map(number);

        assert_eq!(written, ["0", "0.0012", "0.50", "4.57", "12.3", "123", "1234"]);
    }

    #[test]
    fn numbers_have_three_digits_however_small() {
        let written = [0.0, 0.001_234, 0.5, 12.34, 1.5e9, f64::NAN].map(any);

        assert_eq!(written, ["0", "1.23e-3", "0.50", "12.3", "1.50e9", "none"]);
    }

    #[test]
    fn percentages_lose_only_zeros_behind_the_point() {
        let written = [0.0, 0.005, 0.1, 0.25, 1.0].map(percent);

        assert_eq!(written, ["0 %", "0.5 %", "10 %", "25 %", "100 %"]);
    }
}
