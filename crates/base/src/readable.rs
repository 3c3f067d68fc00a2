//! Writes numbers for people, the same in all outputs: kB and MB of 1000, rates in bits a second, and every number with
//! a space before its unit.

use std::time::Duration;

const OCTETS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
const RATES: [(f64, &str); 3] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];

/// How long something lasts, in its two greatest units: `1.5 s`, `2 h 5 min`.
#[must_use]
pub fn span(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min")];
    let whole = seconds.floor();
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    for (at, (size, name)) in UNITS.into_iter().enumerate() {
        if whole >= size {
            let (less, its) = UNITS.get(at + 1).copied().unwrap_or((1.0, "s"));
            let (many, rest) = ((whole / size).floor(), ((whole % size) / less).floor());
            return format!("{many} {name} {rest} {its}");
        }
    }
    format!("{whole} s")
}

/// A time that is short, such as a round trip: `102.3 ms`, `8 µs`; a longer one as [`span`].
#[must_use]
pub fn delay(delay: Duration) -> String {
    match delay.as_secs_f64() {
        seconds if seconds >= 10.0 => span(seconds),
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 0.001 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} \u{b5}s", seconds * 1e6),
    }
}

/// A number of octets, with three digits at least.
#[must_use]
pub fn octets(octets: f64) -> String {
    match OCTETS.into_iter().find(|(size, _)| octets >= *size) {
        Some((size, name)) => format!("{:.2} {name}", octets / size),
        None => format!("{octets} octets"),
    }
}

/// A rate in bits a second.
#[must_use]
pub fn rate(bit_s: f64) -> String {
    match RATES.into_iter().find(|(size, _)| bit_s >= *size) {
        Some((size, name)) => format!("{:.2} {name}", bit_s / size),
        None => format!("{bit_s:.0} bit/s"),
    }
}

/// A share in percent; only zero is shown as zero.
#[must_use]
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent <= 0.0 => "0 %".to_owned(),
        _ if percent < 0.01 => "below 0.01 %".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_unit_and_a_space_before_it() {
        let spans = [0.04, 9.96, 59.9, 61.0, 7_500.0, 200_000.0].map(span);
        let delays = [0, 7_900, 6_889_000, 999_900_000, 1_500_000_000, 61_000_000_000]
            .map(|nanos| delay(Duration::from_nanos(nanos)));
        let counts = [0.0, 999.0, 1_438.0, 2.5e6, 3e9, 4e12].map(octets);
        let rates = [0.4, 999.0, 75_000.0, 1.5e6, 2e9].map(rate);
        let shares = [0.0, 1e-6, 0.002, 0.5].map(share);

        assert_eq!(spans, ["0.0 s", "10.0 s", "59 s", "1 min 1 s", "2 h 5 min", "2 d 7 h"]);
        assert_eq!(delays, ["0 µs", "8 µs", "6.9 ms", "999.9 ms", "1.50 s", "1 min 1 s"]);
        assert_eq!(counts, ["0 octets", "999 octets", "1.44 kB", "2.50 MB", "3.00 GB", "4.00 TB"]);
        assert_eq!(rates, ["0 bit/s", "999 bit/s", "75.00 kbit/s", "1.50 Mbit/s", "2.00 Gbit/s"]);
        assert_eq!(shares, ["0 %", "below 0.01 %", "0.20 %", "50.0 %"]);
    }

    #[test]
    fn a_whole_unit_is_written_in_that_unit() {
        let delays = [0.001, 1.0, 10.0].map(|seconds| delay(Duration::from_secs_f64(seconds)));

        assert_eq!([10.0, 60.0, 3_600.0].map(span), ["10 s", "1 min 0 s", "1 h 0 min"]);
        assert_eq!(delays, ["1.0 ms", "1.00 s", "10 s"]);
        assert_eq!([1e3, 1e6].map(octets), ["1.00 kB", "1.00 MB"]);
        assert_eq!([1e3, 1e6].map(rate), ["1.00 kbit/s", "1.00 Mbit/s"]);
        assert_eq!([0.000_1, 0.01].map(share), ["0.01 %", "1.0 %"]);
    }
}
