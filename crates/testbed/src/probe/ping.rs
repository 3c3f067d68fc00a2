//! Round trips by the program `ping`.

use anyhow::ensure;

use crate::Namespaces;

/// Sends `count` pings, `gap` seconds apart, and returns the round trip times of answered pings in milliseconds. An
/// answer counts if it comes within `patience` seconds.
///
/// # Errors
/// When no ping was answered.
pub fn ping(
    nets: &Namespaces,
    from: &str,
    to: &str,
    (count, gap, patience): (u32, f64, u32),
) -> anyhow::Result<Vec<f64>> {
    let said = nets.run(from, &format!("ping -n -i {gap} -c {count} -W {patience} {to}"))?;
    let times: Vec<f64> = said
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("time=")?.parse().ok())
        .collect();
    ensure!(!times.is_empty(), "no ping was answered");
    Ok(times)
}
