//! Prints the neighbours that speak HBH, as `wg show` prints peers.

use std::io::Write;

use serde_json::Value;

use base::readable::{share, span};

use super::delay;
use super::text;

/// Prints each interface that is waited for, and each neighbour.
pub fn print(out: &mut impl Write, hbh: &Value) -> anyhow::Result<()> {
    let peers = hbh["peers"].as_array();
    if peers.is_some_and(Vec::is_empty) {
        writeln!(out, "  no neighbour speaks HBH: others are reached by plain IP")?;
    }
    for peer in peers.into_iter().flatten() {
        let text = |key: &str| text(&peer[key]);
        let ages = |key: &str| peer[key].as_f64().map(span);
        writeln!(out)?;
        writeln!(
            out,
            "neighbour {} on {}: {} for {}",
            text("address"),
            text("interface"),
            text("state"),
            ages("state_age_s").unwrap_or_default(),
        )?;
        let mut line = |name: &str, value: String| writeln!(out, "  {name:<20}{value}");
        line("station", text("station").into_owned())?;
        let others = peer["others"].as_array().into_iter().flatten();
        let others: Vec<_> = others.map(super::text).collect();
        if !others.is_empty() {
            line("other addresses", others.join(", "))?;
        }
        line(
            "last heard",
            ages("heard_age_s").map_or("never".to_owned(), |age| format!("{age} ago")),
        )?;
        let loss = peer["loss"].as_f64();
        line(
            "loss to it",
            loss.map_or("nothing was sent yet".to_owned(), |it| {
                format!("{} before repair", share(it))
            }),
        )?;
        let round_trip = peer["rtt_ms"].as_f64();
        line("round trip", round_trip.map_or("not measured yet".to_owned(), delay))?;
        if peer["packets_waiting"] != 0 {
            line("waiting", format!("{} packets", peer["packets_waiting"]))?;
        }
    }
    if peers.is_some_and(|peers| !peers.is_empty()) {
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_neighbour_is_listed_with_its_place_and_its_path() {
        let hbh = json!({ "state": "ready", "interfaces": [], "peers": [
            { "address": "10.0.0.2", "others": ["fe80::2"], "station": "02:00:00:00:00:02", "interface": "wlan0",
              "state": "up", "state_age_s": 93.2, "heard_age_s": 1.24, "loss": 0.048, "rtt_ms": 102.31,
              "packets_waiting": 3 },
            { "address": "10.0.0.3", "others": [], "station": "02:00:00:00:00:03", "interface": "wlan0",
              "state": "silent", "state_age_s": 7.0, "heard_age_s": 2.0, "loss": null, "rtt_ms": null,
              "packets_waiting": 0 },
        ] });
        let mut out = Vec::new();

        print(&mut out, &hbh).unwrap();

        let expected = "
neighbour 10.0.0.2 on wlan0: up for 1 min 33 s
  station             02:00:00:00:00:02
  other addresses     fe80::2
  last heard          1.2 s ago
  loss to it          4.8 % before repair
  round trip          102.3 ms
  waiting             3 packets

neighbour 10.0.0.3 on wlan0: silent for 7.0 s
  station             02:00:00:00:00:03
  last heard          2.0 s ago
  loss to it          nothing was sent yet
  round trip          not measured yet

";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn who_has_no_neighbour_is_told_what_that_means() {
        let mut out = Vec::new();

        print(&mut out, &json!({ "peers": [] })).unwrap();

        assert!(String::from_utf8(out).unwrap().contains("no neighbour speaks HBH"));
    }
}
