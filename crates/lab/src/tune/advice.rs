//! A setting ready to be used elsewhere: in a gateway's configuration, in Linux.

use std::fmt::Write as _;
use std::time::Duration;

use base::parameter::Table;
use base::quantity::Span;
use hf::{ipclient, s5066};
use manet::{aodv, dsdv, olsr};
use serde::Serialize;
use toml_edit::Value;
use tunnel as nc;

use super::key::Key;
use super::space::{Setting, Space};

/// Where one value goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The key in the scenario file.
    pub key: String,
    /// The value, in TOML's notation.
    pub value: String,
    /// The section of a gateway's configuration that has the same key, and the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<[String; 2]>,
    /// Commands for the same setting in Linux, or for the nearest available one.
    pub linux: Vec<String>,
    /// Caveats about the Linux settings, or why there are none.
    pub note: String,
}

/// Where the values of a setting go.
#[must_use]
pub fn advice(space: &Space, setting: &Setting) -> Vec<Advice> {
    let changes = space.changes(setting).into_iter();
    let one = |(key, value): (Key, Value)| {
        let name = key.name();
        let (linux, note) = linux(&name, &value);
        let gateway = gateway(&name).map(|(section, rest)| {
            [section.to_owned(), format!("{rest} = {}", value.to_string().trim())]
        });
        let note = match (&gateway, linux.is_empty() && note.is_empty()) {
            (None, true) => "it describes the network, not a host".to_owned(),
            _ => note,
        };
        let value = value.to_string().trim().to_owned();
        Advice { key: key.to_string(), value, gateway, linux, note }
    };
    changes.map(one).collect()
}

/// The same for people.
#[must_use]
pub fn text(space: &Space, setting: &Setting) -> String {
    let all = advice(space, setting);
    let mut out = String::from("In the scenario file:\n");
    for Advice { key, value, .. } in &all {
        let _ = writeln!(out, "  {key} = {value}");
    }
    let gateways = all.iter().filter_map(|it| it.gateway.as_ref());
    for (place, [section, line]) in gateways.enumerate() {
        if place == 0 {
            let _ = writeln!(out, "In the configuration of `trackway run`:");
        }
        let _ = writeln!(out, "  [{section}]  {line}");
    }
    if all.iter().any(|it| !it.linux.is_empty() || !it.note.is_empty()) {
        let _ = writeln!(out, "In Linux (NET VIA is the route, such as 10.0.0.0/8 via 192.0.2.1):");
    }
    for Advice { key, linux, note, .. } in &all {
        for line in linux {
            let _ = writeln!(out, "  {line}");
        }
        if !note.is_empty() {
            let _ = writeln!(out, "  # {key}: {note}");
        }
    }
    out
}

/// The section of a gateway's configuration that has the same parameter, and its name there.
fn gateway(name: &str) -> Option<(&'static str, &str)> {
    fn has<C>(table: &Table<C>, name: &str) -> bool {
        table.find(name).is_some()
    }
    let (group, rest) = name.split_once('.')?;
    let rest = match rest.split_once('.') {
        Some((inner @ ("ipclient" | "sar"), rest)) => (inner, rest),
        _ => (group, rest),
    };
    let (section, is_there) = match rest.0 {
        "hbh" => ("hbh", has(&hbh::PARAMETERS, rest.1)),
        "tunnel" => ("[tunnel.peer]", has(&nc::PARAMETERS, rest.1)),
        "aodv" => ("routing", has(&aodv::PARAMETERS, rest.1)),
        "dsdv" => ("routing", has(&dsdv::PARAMETERS, rest.1)),
        "olsr" => ("routing", has(&olsr::PARAMETERS, rest.1)),
        "ipclient" => ("ipclient", has(&ipclient::PARAMETERS, rest.1)),
        "sar" => ("sar", has(&sar::PARAMETERS, rest.1)),
        "hf" => ("s5066", has(&s5066::node::PARAMETERS, rest.1)),
        "node" => {
            let inner = rest.1.split_once(".hbh.")?.1;
            return has(&hbh::PARAMETERS, inner).then_some(("hbh", inner));
        }
        _ => return None,
    };
    is_there.then_some((section, rest.1))
}

/// The tables whose keys are TCP's.
const OF_TCP: [&str; 4] =
    ["defaults.tcp.", "tcp.options.", "bgp.options.", "tcpnc-tunnel.options."];

/// The Linux settings that correspond to a parameter, and a note about them.
fn linux(name: &str, value: &Value) -> (Vec<String>, String) {
    if let Some(key) = OF_TCP.iter().find_map(|table| name.strip_prefix(table)) {
        let (commands, note) = of_tcp(key, value);
        return (commands, note.to_owned());
    }
    let link = ["defaults.link.", "link."].iter().find_map(|table| name.strip_prefix(table));
    match (link, value.as_integer()) {
        (Some("mtu"), Some(mtu)) => (vec![format!("ip link set dev IF mtu {mtu}")], String::new()),
        (Some("queue"), Some(packets)) => {
            let note = "with a queueing discipline that counts packets, such as pfifo".to_owned();
            (vec![format!("tc qdisc replace dev IF root pfifo limit {packets}")], note)
        }
        _ => (Vec::new(), String::new()),
    }
}

fn of_tcp(key: &str, value: &Value) -> (Vec<String>, &'static str) {
    let period = || value.as_str()?.parse().ok().map(|Span(period)| period);
    let millis = period().map(|period: Duration| period.as_millis()).unwrap_or_default();
    let micros = period().map(|period: Duration| period.as_micros()).unwrap_or_default();
    let seconds = millis.div_ceil(1_000);
    let count = value.as_integer();
    let flag = value.as_bool().map(u8::from);
    let word = value.as_str().unwrap_or_default();
    let sysctl =
        |name: &str, to: &dyn std::fmt::Display| vec![format!("sysctl -w net.ipv4.{name}={to}")];
    let route = |what: &str, to: &dyn std::fmt::Display| {
        vec![format!("ip route change NET VIA {what} {to}")]
    };
    let none = Vec::new;
    match (key, count, flag) {
        ("rto.initial", ..) => (
            route("rto_min", &format!("{millis}ms")),
            "there is no setting for the first timeout alone: Linux takes it from the handshake. This is the nearest, a floor \
             below all timeouts, which repeats late what is lost on fast paths",
        ),
        ("rto.syn", ..) => (
            none(),
            "none: the first SYN is repeated after 1 s; only a BPF program at BPF_SOCK_OPS_TIMEOUT_INIT can say otherwise. \
             tcp_syn_retries says how often",
        ),
        ("rto.after-syn-timeout", ..) => (none(), "none: 3 s, fixed in the kernel"),
        ("rto.min", ..) => (
            [route("rto_min", &format!("{millis}ms")), sysctl("tcp_rto_min_us", &micros)].concat(),
            "one of them: the route, or from Linux 6.11 on all connections of the namespace",
        ),
        ("rto.max", ..) if (1_000..=120_000).contains(&millis) => {
            (sysctl("tcp_rto_max_ms", &millis), "from Linux 6.15 on; before, it is 120 s")
        }
        ("rto.max", ..) => (none(), "none: tcp_rto_max_ms takes 1,000 to 120,000 ms (Linux 6.15)"),
        ("rto.alpha" | "rto.beta" | "rto.k" | "rto.granularity" | "rto.backoff", ..) => {
            (none(), "none: 1/8, 1/4, 4 and doubling are fixed in the kernel")
        }
        ("delayed-ack.delay", ..) if millis == 0 => (route("quickack", &1), ""),
        ("delayed-ack.segments", Some(1), _) => (route("quickack", &1), ""),
        ("delayed-ack.delay" | "delayed-ack.segments", ..) => (
            none(),
            "none: 40 to 200 ms by the traffic; `quickack 1` of a route does without delay",
        ),
        ("r1", Some(count), _) => (sysctl("tcp_retries1", &count), ""),
        ("r2", Some(count), _) => (sysctl("tcp_retries2", &count), ""),
        ("r2", ..) => (
            none(),
            "a time is for programs to set, by the socket option TCP_USER_TIMEOUT; tcp_retries2 counts, as if the first \
             timeout were 200 ms",
        ),
        ("r2-syn", Some(count), _) => {
            ([sysctl("tcp_syn_retries", &count), sysctl("tcp_synack_retries", &count)].concat(), "")
        }
        ("r1" | "r2-syn", ..) => (none(), "only counts: tcp_retries1, tcp_syn_retries"),
        ("initial-window", Some(count), _) => (route("initcwnd", &count), "in segments"),
        ("initial-window", ..) => (none(), "only in segments: `initcwnd` of a route"),
        ("mss", Some(octets), _) => (route("advmss", &octets), "what is announced to the peer"),
        ("algorithm", ..) if word == "tcp-ap" => (none(), "none: Linux has no TCP-AP"),
        ("algorithm", ..) => {
            let name = if word == "new-reno" { "reno" } else { word };
            let note = if name == "vegas" { "after `modprobe tcp_vegas`" } else { "" };
            (sysctl("tcp_congestion_control", &name), note)
        }
        ("sack", _, Some(flag)) => (sysctl("tcp_sack", &flag), ""),
        ("timestamps", _, Some(flag)) => (sysctl("tcp_timestamps", &flag), ""),
        ("window-scaling", _, Some(flag)) => (sysctl("tcp_window_scaling", &flag), ""),
        ("restart-after-idle", _, Some(flag)) => (sysctl("tcp_slow_start_after_idle", &flag), ""),
        ("undo-timeouts", _, Some(flag)) => {
            (sysctl("tcp_frto", &(2 * flag)), "the nearest: F-RTO (RFC 5682)")
        }
        ("duplicate-threshold", Some(count), _) => {
            (sysctl("tcp_reordering", &count), "it grows by itself where packets overtake")
        }
        ("send-buffer", Some(octets), _) => (
            vec![format!("sysctl -w net.ipv4.tcp_wmem='4096 {octets} {octets}'")],
            "of all connections; the overhead of packets counts too",
        ),
        ("receive-buffer", Some(octets), _) => (
            vec![format!("sysctl -w net.ipv4.tcp_rmem='4096 {octets} {octets}'")],
            "of all connections; the overhead of packets counts too",
        ),
        ("keep-alive.idle", ..) => {
            (sysctl("tcp_keepalive_time", &seconds), "where programs ask for it")
        }
        ("keep-alive.interval", ..) => {
            (sysctl("tcp_keepalive_intvl", &seconds), "where programs ask for it")
        }
        ("keep-alive.probes", Some(count), _) => {
            (sysctl("tcp_keepalive_probes", &count), "where programs ask for it")
        }
        ("ttl", Some(count), _) => (sysctl("ip_default_ttl", &count), ""),
        ("hystart" | "fast-convergence", _, Some(flag)) => {
            let file = key.replace('-', "_");
            (vec![format!("echo {flag} > /sys/module/tcp_cubic/parameters/{file}")], "")
        }
        _ => (none(), "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> (Vec<String>, String) {
        linux(name, &value.parse().expect("a value"))
    }

    #[test]
    fn linux_has_what_it_has_and_the_rest_is_said() {
        for (name, value, expected) in [
            (
                "defaults.tcp.rto.initial",
                "\"35s\"",
                &["ip route change NET VIA rto_min 35000ms"][..],
            ),
            ("tcp.options.rto.max", "\"2min\"", &["sysctl -w net.ipv4.tcp_rto_max_ms=120000"]),
            ("tcp.options.rto.max", "\"10min\"", &[]),
            ("defaults.tcp.rto.alpha", "\"10%\"", &[]),
            ("defaults.tcp.r1", "2", &["sysctl -w net.ipv4.tcp_retries1=2"]),
            ("defaults.tcp.r2", "\"80s after r1\"", &[]),
            (
                "bgp.options.r2-syn",
                "4",
                &[
                    "sysctl -w net.ipv4.tcp_syn_retries=4",
                    "sysctl -w net.ipv4.tcp_synack_retries=4",
                ],
            ),
            ("defaults.tcp.initial-window", "3", &["ip route change NET VIA initcwnd 3"]),
            ("defaults.tcp.delayed-ack.delay", "\"0s\"", &["ip route change NET VIA quickack 1"]),
            ("defaults.tcp.delayed-ack.delay", "\"1s\"", &[]),
            (
                "defaults.tcp.algorithm",
                "\"new-reno\"",
                &["sysctl -w net.ipv4.tcp_congestion_control=reno"],
            ),
            ("defaults.tcp.sack", "false", &["sysctl -w net.ipv4.tcp_sack=0"]),
            ("link.mtu", "576", &["ip link set dev IF mtu 576"]),
        ] {
            let (commands, note) = of(name, value);
            assert_eq!(commands, expected, "{name}");
            assert!(!commands.is_empty() || !note.is_empty(), "{name}: nothing is said");
        }
    }

    #[test]
    fn a_gateway_has_the_keys_of_the_services_that_it_has() {
        for (name, expected) in [
            ("hbh.ack-delay", Some(("hbh", "ack-delay"))),
            ("node.relay.hbh.ack-delay", Some(("hbh", "ack-delay"))),
            ("messages.sar.profile", Some(("sar", "profile"))),
            ("hbh.nothing", None),
            ("olsr.hello-interval", Some(("routing", "hello-interval"))),
            ("defaults.tcp.rto.initial", None),
            ("link.rate", None),
        ] {
            assert_eq!(gateway(name), expected, "{name}");
        }
    }
}
