//! Formats numbers of a status for people: kB and MB of 1000, times in their two greatest units.

use serde_json::Value;

/// A time in its two greatest units.
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

/// A number of octets, with three digits at least.
pub fn octets(octets: &Value) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let octets = octets.as_f64().unwrap_or_default();
    match UNITS.into_iter().find(|(size, _)| octets >= *size) {
        Some((size, name)) => format!("{:.2} {name}", octets / size),
        None => format!("{octets} octets"),
    }
}

/// A share in percent; only zero is shown as zero.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent <= 0.0 => "0 %".to_owned(),
        _ if percent < 0.01 => "below 0.01 %".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// A rate.
pub fn rate(bit_s: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    match UNITS.into_iter().find(|(size, _)| bit_s >= *size) {
        Some((size, name)) => format!("{:.2} {name}", bit_s / size),
        None => format!("{bit_s:.0} bit/s"),
    }
}
