//! Prints a peer of the tunnel: its state, the age of the state, and the quality of the path.

use std::io::Write;

use serde_json::{Map, Value};
use settings::plain::shown;

use base::readable::{rate, share, span};

use super::{delay, octets};

/// With fewer packets sent, repairs are shown as a number and not as a rate: shares of few packets
/// mislead.
const FEW: f64 = 100.0;
/// Most routes shown of a peer.
const MOST_ROUTES: usize = 8;
/// The column of the values.
const COLUMN: usize = 20;

/// Counters of a peer that explain failed handshakes, with words for each.
const FAILURES: [(&str, &str); 9] = [
    ("gave_up", "times that nobody answered for 20 s"),
    ("calls_fresh", "calls from another port, after 30 s in vain (address translator?)"),
    ("bad_answers", "answers that cannot be read (preshared-key?)"),
    ("answers_unconfirmed", "answers that nothing came of"),
    ("answers_stale", "calls that were too old for the peer (clock)"),
    ("calls_stale", "calls of the peer that were too old (clock, or replayed)"),
    ("calls_busy", "calls of the peer that were too many"),
    ("cookies_received", "times that the peer was busy"),
    ("expired", "times that keys became too old"),
];

/// Prints one peer, and on request all counters above zero.
pub fn print(out: &mut impl Write, tunnel: &Value, with_counters: bool) -> anyhow::Result<()> {
    let text = |key: &str| super::text(&tunnel[key]).into_owned();
    let number = |key: &str| tunnel[key].as_f64().unwrap_or_default();
    let percent = |key: &str| share(number(key));
    let ago = |key: &str| match tunnel[key].as_f64() {
        Some(seconds) => format!("{} ago", span(seconds)),
        None => "never".to_owned(),
    };
    writeln!(out)?;
    writeln!(out, "peer {}: {} for {}", text("peer"), text("state"), span(number("state_age_s")))?;
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<COLUMN$}{value}");
    line("public key", text("public_key"))?;
    line("endpoint", endpoint(tunnel))?;
    line("routes", routes(&tunnel["routes"]))?;
    line("last heard", ago("heard_age_s"))?;
    line("latest handshake", ago("handshake_age_s"))?;
    let (received, sent) = (octets(&tunnel["octets_out"]), octets(&tunnel["octets_in"]));
    line("transfer", format!("{received} received, {sent} sent"))?;
    for (name, before, after, count) in [
        ("loss to it", "loss", "loss_left", "sources_sent"),
        ("loss from it", "loss_in", "loss_left_in", "sources_received"),
    ] {
        // Without packets there is no share to show.
        line(
            name,
            match number(count) {
                0.0 => "nothing was sent yet".to_owned(),
                _ => format!("{} before repair, {} after", percent(before), percent(after)),
            },
        )?;
    }
    line(
        "round trip",
        match number("rtt_ms") {
            0.0 => "not measured yet".to_owned(),
            rtt => delay(rtt),
        },
    )?;
    let added = number("sources_resent") + number("repairs_sent");
    line(
        "for repair",
        match number("sources_sent") {
            sent if sent < FEW => format!("{added}, beside {sent} with data"),
            _ => format!("{} more than was sent", percent("redundancy")),
        },
    )?;
    line(
        "may send",
        match number("sources_sent") {
            sent if sent < FEW => "too little was sent to tell".to_owned(),
            _ => format!("{} at most now", rate(number("rate_bit_s"))),
        },
    )?;
    line("waiting", octets(&tunnel["queued_octets"]))?;
    let cut = if number("whole") < number("mtu") {
        format!(" (a short path: cut beyond {})", number("whole"))
    } else {
        String::new()
    };
    line("greatest packet", format!("{} octets{cut}", number("mtu")))?;
    for path in tunnel["paths"].as_array().map(Vec::as_slice).unwrap_or_default() {
        line(&format!("path {}", path["path"]), one_path(path))?;
    }
    let handshakes = &tunnel["handshakes"];
    let count = |key: &str| handshakes[key].as_u64().unwrap_or_default();
    line(
        "handshakes",
        format!(
            "calls {} sent, {} received; answers {} sent, {} received",
            count("calls_sent"),
            count("calls_received"),
            count("calls_answered"),
            count("answers_received"),
        ),
    )?;
    for (key, meaning) in FAILURES {
        if count(key) > 0 {
            line("", format!("{} {meaning}", count(key)))?;
        }
    }
    if with_counters {
        let none = Map::new();
        for counters in [tunnel, handshakes] {
            for (name, value) in counters.as_object().unwrap_or(&none) {
                let is_said = SAID.contains(&name.as_str());
                if let Some(value) = value.as_u64().filter(|&value| value != 0 && !is_said) {
                    writeln!(out, "    {name:<26} {value:>14}")?;
                }
            }
        }
    }
    Ok(())
}

/// The networks behind the peer, of many only the first.
fn routes(routes: &Value) -> String {
    let all = routes.as_array().map(Vec::as_slice).unwrap_or_default();
    let (shown, rest) = all.split_at(all.len().min(MOST_ROUTES));
    let words: Vec<_> = shown.iter().map(super::text).collect();
    match (&words[..], rest) {
        ([], _) => "none".to_owned(),
        (_, []) => words.join(", "),
        (_, rest) => format!("{}, and {} more (--json has all)", words.join(", "), rest.len()),
    }
}

/// Describes one of several paths: state, both ends, quality, octets.
fn one_path(path: &Value) -> String {
    let mut said = super::text(&path["state"]).into_owned();
    for (before, key) in [("by", "interface"), ("from", "local"), ("to", "endpoint")] {
        if let Some(its) = path[key].as_str() {
            said += &format!(" {before} {}", shown(its));
        }
    }
    if let Some(why) = path["waits_for"].as_str() {
        return format!("{said}: {}", shown(why));
    }
    let number = |key: &str| path[key].as_f64().unwrap_or_default();
    let carried = ["octets_received", "octets_sent"].map(|key| octets(&path[key]));
    if number("rtt_ms") > 0.0 {
        let (rtt, rate) = (delay(number("rtt_ms")), rate(number("rate_bit_s")));
        let lost = ["loss", "loss_in"].map(|key| share(number(key)));
        said +=
            &format!("; {rtt}, {rate} at most now, loss {} to it, {} from it", lost[0], lost[1]);
    }
    format!("{said}; {} received, {} sent", carried[0], carried[1])
}

/// The peer's address and name, and any trouble with the name.
fn endpoint(tunnel: &Value) -> String {
    let address = super::text(&tunnel["endpoint"]);
    let said = |key: &str| tunnel[key].as_str().map(shown);
    match (said("endpoint_name"), said("endpoint_failure")) {
        (None, _) => address.into_owned(),
        (Some(name), None) => format!("{address} ({name})"),
        (Some(name), Some(why)) => format!("{address} ({name}: {why}; asked again)"),
    }
}

/// Counters already shown in words.
const SAID: [&str; 3] = ["mtu", "queued_octets", "rate_bit_s"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_look_says_who_is_there_since_when_and_how_well() {
        let tunnel = json!({
            "peer": "b", "public_key": "3p7b=", "routes": ["10.2.0.0/16", "fd02::/64"], "state": "silent", "state_age_s": 3.24,
            "endpoint": "192.0.2.2:51900", "heard_age_s": 33.0, "handshake_age_s": 93.0,
            "octets_out": 12_400_000, "octets_in": 950, "loss": 0.021, "loss_left": 0.00002,
            "loss_in": 0.0, "loss_left_in": 0.0, "rtt_ms": 100.31, "rate_bit_s": 9.41e6,
            "sources_sent": 10_000, "sources_received": 3, "redundancy": 0.03, "queued_octets": 2_876, "mtu": 1_438, "whole": 1_438, "packets_in": 7,
            "handshakes": { "calls_sent": 4, "calls_received": 0, "calls_answered": 0,
                            "answers_received": 1, "bad_answers": 3 },
        });
        let mut out = Vec::new();

        print(&mut out, &tunnel, false).unwrap();

        let expected = "
peer b: silent for 3.2 s
  public key          3p7b=
  endpoint            192.0.2.2:51900
  routes              10.2.0.0/16, fd02::/64
  last heard          33 s ago
  latest handshake    1 min 33 s ago
  transfer            12.40 MB received, 950 octets sent
  loss to it          2.1 % before repair, below 0.01 % after
  loss from it        0 % before repair, 0 % after
  round trip          100.3 ms
  for repair          3.0 % more than was sent
  may send            9.41 Mbit/s at most now
  waiting             2.88 kB
  greatest packet     1438 octets
  handshakes          calls 4 sent, 0 received; answers 0 sent, 1 received
                      3 answers that cannot be read (preshared-key?)
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn an_idle_path_reads_as_idle_and_not_as_broken() {
        let tunnel = json!({
            "peer": "b", "state": "up", "sources_sent": 20, "sources_received": 0, "repairs_sent": 44,
            "sources_resent": 3, "redundancy": 2.35, "rate_bit_s": 9.41e6, "rtt_ms": 0.0,
        });
        let mut out = Vec::new();

        print(&mut out, &tunnel, false).unwrap();

        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("for repair          47, beside 20 with data\n"), "{out}");
        assert!(out.contains("may send            too little was sent to tell\n"), "{out}");
        assert!(out.contains("loss from it        nothing was sent yet\n"), "{out}");
        assert!(out.contains("round trip          not measured yet\n"), "{out}");
        assert!(!out.contains("235") && !out.contains("9.41"), "{out}");
    }

    #[test]
    fn each_of_several_paths_has_a_line() {
        let tunnel = json!({
            "peer": "b", "state": "up",
            "paths": [
                {
                    "path": 0, "state": "serves", "waits_for": null, "interface": null, "local": "192.0.2.1",
                    "endpoint": "203.0.113.9:51900", "rtt_ms": 35.0, "rate_bit_s": 9.41e6, "loss": 0.005,
                    "loss_in": 0.0, "octets_sent": 12_400_000, "octets_received": 950,
                },
                {
                    "path": 1, "state": "waiting", "waits_for": "there is no interface wwan0", "interface": "wwan0",
                    "local": null, "endpoint": null, "rtt_ms": 0.0, "octets_sent": 0, "octets_received": 0,
                },
            ],
        });
        let mut out = Vec::new();

        print(&mut out, &tunnel, false).unwrap();

        let out = String::from_utf8(out).unwrap();
        let first = "path 0              serves from 192.0.2.1 to 203.0.113.9:51900; 35.0 ms, 9.41 Mbit/s at most now, loss \
                     0.50 % to it, 0 % from it; 950 octets received, 12.40 MB sent\n";
        assert!(out.contains(first), "{out}");
        let second = "path 1              waiting by wwan0: there is no interface wwan0\n";
        assert!(out.contains(second), "{out}");
    }

    #[test]
    fn of_many_routes_the_first_are_shown() {
        let all: Vec<_> = (0..11).map(|net| format!("10.{net}.0.0/16")).collect();

        let said = [&all[..0], &all[..1], &all[..]].map(|some| super::routes(&json!(some)));

        let many = format!("{}, and 3 more (--json has all)", all[..8].join(", "));
        assert_eq!(said, ["none", "10.0.0.0/16", &many]);
    }

    #[test]
    fn the_name_of_a_peer_stands_beside_its_address_with_what_is_wrong_with_it() {
        let said = |endpoint: Value, failure: Value| {
            super::endpoint(&json!({
                "endpoint": endpoint, "endpoint_name": "vpn.example.org:7", "endpoint_failure": failure,
            }))
        };

        assert_eq!(said(json!("192.0.2.2:7"), Value::Null), "192.0.2.2:7 (vpn.example.org:7)");
        assert_eq!(
            said(Value::Null, json!("there is no such name")),
            "- (vpn.example.org:7: there is no such name; asked again)"
        );
    }

    #[test]
    fn a_peer_that_was_never_heard_is_said_to_be_so_and_counters_come_on_request() {
        let tunnel = json!({
            "peer": "b", "state": "no session", "state_age_s": 90_000, "endpoint": null,
            "heard_age_s": null, "handshake_age_s": null, "packets_in": 7, "mtu": 0,
            "handshakes": { "calls_sent": 4 },
        });
        let [mut brief, mut whole] = [Vec::new(), Vec::new()];

        print(&mut brief, &tunnel, false).unwrap();
        print(&mut whole, &tunnel, true).unwrap();

        let [brief, whole] = [brief, whole].map(|out| String::from_utf8(out).unwrap());
        assert!(brief.contains("\npeer b: no session for 1 d 1 h\n"), "{brief}");
        assert!(brief.contains("last heard          never\n"), "{brief}");
        assert!(!brief.contains("packets_in"), "{brief}");
        assert!(whole.contains("    packets_in                              7\n"), "{whole}");
    }
}
