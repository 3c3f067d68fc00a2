//! Numbers in sentences.

use crate::stats::Estimate;

/// Three digits that count.
pub(crate) fn number(value: f64) -> String {
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
pub(crate) fn any(value: f64) -> String {
    if value.is_nan() {
        "none".to_owned()
    } else if value != 0.0 && !(1e-2..1e6).contains(&value.abs()) {
        format!("{value:.2e}")
    } else {
        number(value)
    }
}

/// Formats a mean with its interval, or as a lower bound with the number of runs that did not end.
pub(crate) fn mean(estimate: &Estimate) -> String {
    let Estimate { runs, censored, .. } = *estimate;
    match estimate.ci95 {
        _ if estimate.mean.is_nan() => "unknown".to_owned(),
        // For a mean of means, the runs are not the counted ones.
        _ if estimate.is_lower_bound() && censored <= runs => {
            format!("at least {} ({censored} of {runs} runs did not end)", number(estimate.mean))
        }
        _ if estimate.is_lower_bound() => format!("at least {}", number(estimate.mean)),
        Some(_) if estimate.is_log => {
            let [mean, low, high] = [estimate.mean, estimate.low(), estimate.high()].map(number);
            format!("{mean} ({low} to {high})")
        }
        Some(half) => format!("{} ± {}", number(estimate.mean), number(half)),
        None => number(estimate.mean),
    }
}

/// A loss rate.
pub(crate) fn percent(share: f64) -> String {
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
