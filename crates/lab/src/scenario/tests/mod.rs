mod flows;
mod hf;
mod manet;
mod net;
mod refused;
mod routing;
mod schema;
mod tunnel;
mod writing;

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tcp::{Algorithm, Growth, adaptive_pacing, vegas};

use super::Plan;

const CHAIN: &str = r#"
nodes = ["a", "b", "c"]
hbh = true

[defaults.link]
rate = "300kbit"
delay = "50ms"
loss = "5%"

[[link]]
between = ["a", "b"]

[[link]]
between = ["b", "c"]
back = { loss = "none", rate = "9600bit" }

[[tcp]]
from = "a"
to = "c"
octets = 100_000
"#;

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(Path::new("x.toml"), text.to_owned()).map_err(|complaint| complaint.to_string())
}

/// The complaint about the chain after a change.
#[track_caller]
fn complaint(old: &str, new: &str) -> String {
    assert!(CHAIN.contains(old), "{old} is not in the chain");
    parse(&CHAIN.replace(old, new)).expect_err("a mistake")
}

#[test]
fn directions_inherit_from_links_and_links_from_defaults() {
    let plan = parse(CHAIN).expect("a scenario");

    let rate = |index: usize| {
        let config = &plan.links[index].config;
        [config.there.rate.to_string(), config.back.rate.to_string()]
    };
    assert_eq!(rate(0), ["300kbit", "300kbit"]);
    assert_eq!(rate(1), ["300kbit", "9600bit"]);
    assert!((plan.links[0].config.back.loss.mean() - 0.05).abs() < 1e-12);
    assert!(plan.links[1].config.back.loss.mean().abs() < 1e-12);
    assert!(plan.nodes.iter().all(|node| node.hbh.is_some()));
}

#[test]
fn complaints_name_file_line_and_key_and_say_what_is_allowed() {
    let cases = [
        (
            r#"between = ["b", "c"]"#,
            r#"between = ["b", "d"]"#,
            "x.toml:14: link.between: there is no node \"d\"; the nodes are a, b, c",
        ),
        (
            r#"loss = "5%""#,
            r#"loss = "150%""#,
            "x.toml:8: defaults.link.loss: \"150%\" is not a probability such as 10% or 0.1, at most 100%",
        ),
        (
            r#"delay = "50ms""#,
            "delay = 50",
            "x.toml:7: defaults.link.delay: \"50\" is not a time with its unit such as 50ms, 1.5s or 200us",
        ),
        (
            r#"rate = "9600bit""#,
            r#"rate = "9600""#,
            "x.toml:15: link.back.rate: \"9600\" is not a bit rate such as 300kbit, 1.5mbit or unlimited",
        ),
        (r#"["a", "b", "c"]"#, r#"["a", "b", "a"]"#, "x.toml:2: nodes: node \"a\" is there twice"),
        (
            r#"between = ["a", "b"]"#,
            r#"between = ["a", "a"]"#,
            "x.toml:11: link.between: a link joins two different nodes",
        ),
    ];

    for (old, new, expected) in cases {
        assert_eq!(complaint(old, new), expected);
    }
}

#[test]
fn an_unknown_key_is_answered_with_the_one_that_is_meant() {
    let text = complaint(r#"loss = "5%""#, r#"los = "5%""#);

    assert_eq!(text, "x.toml:8: defaults.link.los: there is no such key; loss is probably meant");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let hbh = |text: &str| complaint("hbh = true", &format!("hbh = {{ {text} }}"));
    let tcp =
        |text: &str| complaint("octets = 100_000", &format!("octets = 1\noptions = {{ {text} }}"));

    assert_eq!(
        hbh("window = [9, 20_000]"),
        "x.toml:3: hbh.window: [9, 20000] is not allowed: 1 to 16384 packets, or [least, most]"
    );
    assert!(hbh("retries = 256").ends_with("256 is not allowed: 0 to 255"));
    assert!(hbh("congestion = 60, queue = 50").ends_with("congestion, which is at most queue"));
    assert!(hbh("profile = \"seed\"").ends_with("is not allowed: \"default\" or \"paper\""));
    assert_eq!(tcp("mss = 7"), "x.toml:21: tcp.options.mss: 7 is not allowed: 32 to 65535 octets");
    assert!(tcp("rto = { min = \"2s\", max = \"1s\" }").ends_with("rto.min is at most rto.max"));
    assert_eq!(
        tcp("algorithm = \"cubic\", growth = \"per-ack\""),
        "x.toml:21: tcp.options.growth: it is for algorithm = \"new-reno\" or \"tcp-ap\""
    );
    assert!(tcp("hystart = true").ends_with("hystart: it is for algorithm = \"cubic\""));
    assert!(tcp("algorithm = \"bic\"").contains("\"cubic\", "));
    assert!(tcp("vegas = { alpha = 3 }").ends_with("vegas.alpha: it is for algorithm = \"vegas\""));
    assert!(
        tcp("algorithm = \"vegas\", tcp-ap = { reach = 3 }")
            .ends_with("tcp-ap.reach: it is for algorithm = \"tcp-ap\"")
    );
    assert!(
        tcp("algorithm = \"vegas\", vegas = { alpha = 5 }")
            .ends_with("vegas.alpha is at most vegas.beta")
    );
}

#[test]
fn vegas_and_tcp_ap_come_as_published_unless_told() {
    let congestion = |options: &str| {
        let text =
            CHAIN.replace("octets = 100_000", &format!("octets = 1\noptions = {{ {options} }}"));
        parse(&text).expect("a scenario").transfers[0].tcp.congestion.algorithm
    };

    assert_eq!(
        congestion("algorithm = \"vegas\""),
        Algorithm::Vegas(vegas::Config::of(vegas::Variant::Published))
    );
    assert_eq!(
        congestion(
            "algorithm = \"vegas\", vegas = { variant = \"ns-2\", beta = 2, rebase = \"hops\" }"
        ),
        Algorithm::Vegas(vegas::Config {
            beta: 2.0,
            rebase: vegas::Rebase::Hops,
            ..vegas::Config::of(vegas::Variant::Ns2)
        })
    );
    assert_eq!(
        congestion(
            "algorithm = \"tcp-ap\", growth = \"per-ack\", \
             tcp-ap = { variant = \"ns-2\", hops = \"3\", wired-hops = 1, link-rate = \"1mbit\" }"
        ),
        Algorithm::TcpAp(adaptive_pacing::Config {
            growth: Growth::PerAck,
            hops: adaptive_pacing::Hops {
                source: adaptive_pacing::HopSource::Fixed(3),
                mode: adaptive_pacing::HopCountMode::WirelessOnly,
                wired: 1,
            },
            link_bits_per_s: 1_000_000,
            ..adaptive_pacing::Config::of(adaptive_pacing::Variant::Ns2)
        })
    );
}

#[test]
fn cubic_comes_whole_unless_parts_are_switched_off() {
    let congestion = |options: &str| {
        let text =
            CHAIN.replace("octets = 100_000", &format!("octets = 1\noptions = {{ {options} }}"));
        parse(&text).expect("a scenario").transfers[0].tcp.congestion.algorithm
    };

    assert_eq!(congestion("algorithm = \"cubic\""), Algorithm::CUBIC);
    assert_eq!(
        congestion("algorithm = \"cubic\", hystart = false, fast-convergence = false"),
        Algorithm::Cubic { fast_convergence: false, hystart: false }
    );
}

/// All keys that the documentation lists, each with another value than its default.
#[test]
fn every_documented_key_is_understood() {
    let text = r#"
nodes = ["a", "b"]
duration = "2min"
seed = 9
routing = "none"
tcpnc = { extra = 4, window = 9, target = 0.8, max-window = 50, initial-loss = "5%", period = 50, gain = 0.5, enhanced-retransmission = false, repair-target = 0, max-burst = 9, flush-after = "50ms", acknowledges-redundancy = true, max-packets = 500, receive-buffer = 70000, protocol = 253 }

[node.b]
tcpnc = false
addresses = ["192.168.1.1", "fd12::1"]

[node.a.hbh]
profile = "paper"
protocol = 254
retries = 7
window = [2, 9]
rto = { gain = 0.2, deviation-gain = "30%", deviations = 3, factor = 1.5, backoff = 2.5, initial = "1s", minimum = "5ms", maximum = "9s" }
congestion = 5
clear = 2
queue = 9
rate-increase = "5kbit"
rate-decrease = "70%"
ack-delay = "3ms"
redundancy = "spare"
hold = "30ms"
absorb = false
lifetime = "9s"
idle = "8s"
flows = 7
packets = 99

[[link]]
between = ["a", "b"]
rate = "1mbit"
delay = "1ms"
jitter = "0.5ms"
reorder = true
loss = "gilbert-elliott(mean=5%,burst=4)"
repeat-at-once = true
noticed = false
framing = 20
queue = 9
queue-octets = 9000
mtu = 1280
hop-backlog = 2
cost = 3
there = { loss = "trace(0001)" }
back = { down = [["1s", "2s"], ["3s", "4s"]] }

[[route]]
node = "a"
to = "10.9.0.0/16"
via = "b"
at = "3s"
metric = 4

[[route]]
node = "a"
to = "b"
remove = true

[[tcpnc-tunnel]]
between = ["a", "b"]
options = { nagle = true }
tcpnc = { extra = 2 }

[[udp]]
from = "a"
to = "b"
interval = "1s"
payload = 100
stop = "2s"
answered = true

[[udp]]
name = "stream"
from = "a"
to = "b"
rate = "8kbit"
payload = 100
start = "1s"
stop = "2s"
count = 3
port = 77
ipv6 = true

[[tcp]]
name = "transfer"
from = "b"
to = "a"
octets = 5
start = "1s"
port = 78
from-port = 79
ipv6 = true

[tcp.options]
mss = 500
send-buffer = 9000
receive-buffer = 9000
max-holes = 9
window-scaling = false
timestamps = false
sack = false
duplicate-sack = false
ecn = true
nagle = false
limited-transmit = false
impatient = false
restart-after-idle = false
validate-window = false
dont-fragment = false
timestamp-tick = "2ms"
time-wait = "1s"
delayed-ack = { segments = 3, delay = "100ms" }
rto = { initial = "2s", syn = "2s", after-syn-timeout = "4s", min = "0.2s", max = "9s", granularity = "2ms", alpha = 0.2, beta = 0.3, k = 3, backoff = 1.5, time-repeats = false, forgive = true }
growth = "per-ack"
initial-window = "1000 octets"
initial-window-after-syn-loss = "rfc5681"
initial-ssthresh = 9000
duplicate-threshold = 4
full-ack = "ssthresh"
r1 = 4
r2 = "100s"
r2-syn = "never"
keep-alive = { idle = "2h", interval = "75s", probes = 9 }
challenge-acks-per-s = 9
ttl = 9
dscp = 9
"#;

    let plan = parse(text).expect("a scenario");

    assert_eq!(plan.nodes[0].tcpnc.expect("asked for").window, Some(9));
    let hbh = plan.nodes[0].hbh.expect("asked for");
    assert_eq!((hbh.retries, hbh.window, hbh.queue, hbh.packets), (7, (2, 9), 9, 99));
    assert_eq!(hbh.rto.minimum, Duration::from_millis(5));
    let tcp = &plan.transfers[0].tcp;
    let default = tcp::Config::default();
    assert_eq!((tcp.mss, tcp.ip.ttl, tcp.mtu), (Some(500), 9, 1280));
    assert!(tcp.rto.forgive && tcp.keep_alive.is_some());
    assert_ne!(tcp.congestion, default.congestion);
    assert!(plan.run(None, None).is_ok());
    assert!(plan.to_toml().is_ok());
}

#[test]
fn what_would_not_fit_a_machine_is_refused() {
    let links = "[[link]]\nbetween = [\"a\", \"b\"]\n".repeat(10_001);

    let error = parse(&format!("{CHAIN}{links}")).expect_err("too many");

    assert_eq!(error, "x.toml: link: 10003 of them; allowed are 10000");
}

#[test]
fn a_node_without_a_link_has_no_flows_and_no_addresses() {
    let lonely = CHAIN.replace("[\"a\", \"b\", \"c\"]", "[\"a\", \"b\", \"c\", \"d\"]");

    let flow = parse(&lonely.replace("to = \"c\"", "to = \"d\"")).expect_err("a flow");
    let address = parse(&format!("{lonely}[node.d]\naddresses = [\"192.0.2.1\"]\n"));

    assert_eq!(flow, "x.toml:19: tcp.to: no link, radio or net leads to \"d\"");
    assert!(address.expect_err("an address").ends_with("no link, radio or net leads to \"d\""));
}

#[test]
fn an_address_is_that_of_a_node() {
    let node = |address: &str| {
        parse(&format!("{CHAIN}[node.a]\naddresses = [\"192.0.2.1\", \"{address}\"]\n"))
    };

    assert!(node("2001:db8::7").is_ok());
    let error = node("224.0.0.1").expect_err("multicast");
    assert_eq!(error, "x.toml:22: node.a.addresses: 224.0.0.1 is not the address of a node");
}

#[test]
fn syntax_errors_have_a_line() {
    assert!(parse("nodes = [\n\"a\"\n").expect_err("no end").starts_with("x.toml:"));
    assert!(parse("\n").expect_err("no nodes").contains("it is empty: a scenario has nodes"));
    assert!(parse("duration = \"1s\"").expect_err("no nodes").contains("nodes is missing"));
}

#[test]
fn another_kind_of_file_is_named() {
    let said = parse("[hbh]\ninterfaces = [\"a\"]").expect_err("no scenario");

    assert!(said.contains("this is the configuration of a gateway"), "{said}");
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn no_text_makes_the_reader_panic(
        at in 0..CHAIN.len(), cut in 0..40_usize, put in "[\\[\\]\"=a-z0-9%\n. -]{0,12}",
    ) {
        let mut text = CHAIN.as_bytes().to_vec();
        text.splice(at..(at + cut).min(CHAIN.len()), put.bytes());
        if let Ok(text) = String::from_utf8(text) {
            let _ = parse(&text);
        }
    }
}

#[test]
fn a_tunnel_hides_losses_from_the_flows_through_it() {
    let text = |tunnel: &str| {
        format!(
            r#"
nodes = ["host", "near", "far", "server"]
duration = "1min"

[[link]]
between = ["host", "near"]

[[link]]
between = ["near", "far"]
rate = "1mbit"
delay = "5ms"
loss = "10%"

[[link]]
between = ["far", "server"]

{tunnel}

[[udp]]
from = "server"
to = "host"
rate = "100kbit"
payload = 500
count = 500
"#
        )
    };
    let run = |tunnel: &str| parse(&text(tunnel)).expect("a scenario").run(None, None);
    let received = |report: &super::Report| report.flows[0].udp.as_ref().map(|udp| udp.received);
    let tunnel = r#"
[[tunnel]]
between = ["near", "far"]
behind = [["host"], ["server"]]
"#;

    let plain = run("").expect("a report");
    let tunnelled = run(tunnel).expect("a report");

    assert!(received(&plain) < Some(480), "{plain}");
    assert!(received(&tunnelled) > Some(495), "{tunnelled}");
    assert!(plain.nodes.iter().all(|node| node.tunnels.is_empty()));
    assert!(tunnelled.nodes[2].tunnels[0].sources_sent >= 495, "{tunnelled}");
    assert_eq!(
        parse(&text(&tunnel.replace("[\"host\"]", "[\"far\"]"))).expect_err("an end"),
        "x.toml:20: tunnel.behind: an end of a tunnel is not behind it"
    );
    assert_eq!(
        parse(&text(&tunnel.replace("[\"near\", \"far\"]", "[\"far\", \"far\"]")))
            .expect_err("no two ends"),
        "x.toml:19: tunnel.between: a tunnel joins two different nodes"
    );
}

#[test]
fn a_flow_has_a_code_point() {
    let flows = |added: &str| {
        let udp = "[[udp]]\nfrom = \"a\"\nto = \"c\"\nrate = \"8kbit\"\npayload = 100\n";
        parse(&format!("{CHAIN}{added}\n{udp}{added}\n"))
    };
    let dscp = |added: &str| {
        let plan = flows(added).expect("a scenario");
        (plan.transfers[0].tcp.ip.dscp, plan.streams[0].dscp)
    };

    assert_eq!(dscp(""), (0, 0));
    assert_eq!(dscp("dscp = 46"), (46, 46));
    assert_eq!(
        parse(&format!("{CHAIN}dscp = 8\noptions = {{ dscp = 9 }}")).expect("a scenario").transfers
            [0]
        .tcp
        .ip
        .dscp,
        8
    );
    assert_eq!(
        flows("dscp = 64").expect_err("seven bits"),
        "x.toml:21: tcp.dscp: 64 is not allowed: 0 to 63"
    );
}

/// Two nodes, a link without rate and delay, and a transfer.
fn at_once(link: &str, transfer: &str) -> String {
    format!(
        "nodes = [\"a\", \"b\", \"c\"]\nduration = \"1ms\"\n[[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\n\
         between = [\"b\", \"c\"]\n{link}\n[[tcp]]\nfrom = \"a\"\nto = \"c\"\n{transfer}\n"
    )
}

#[test]
fn a_transfer_without_end_that_takes_no_time_is_refused_with_its_line() {
    let refused = parse(&at_once("", "")).expect_err("it would never end");

    assert!(
        refused.starts_with("x.toml:10: tcp.to: a transfer without `octets` never ends"),
        "{refused}"
    );
    for link in ["rate = \"1gbit\"", "delay = \"1us\"", "back = { delay = \"1us\" }"] {
        assert!(parse(&at_once(link, "")).is_ok(), "{link}");
    }
    let report =
        parse(&at_once("", "octets = 100000")).expect("it ends").run(None, None).expect("a report");
    let tcp = report.flows[0].tcp.as_ref().expect("a transfer");
    assert_eq!((tcp.delay_s, tcp.failed, report.ended_s), (Some(0.0), false, 0.0));
    let other = at_once("", "")
        .replace("[[tcp]]", "[[link]]\nbetween = [\"a\", \"c\"]\ndelay = \"9ms\"\n[[tcp]]");
    assert!(parse(&other).is_ok(), "the other way takes time");
}

/// Of HBH's chain, whose hellos never end, and of a mesh whose routing messages do not either.
#[test]
fn a_run_ends_when_its_traffic_is_over_however_much_time_there_would_be() {
    let mesh = "nodes = [\"a\", \"b\"]\nrouting = \"olsr\"\n[[radio]]\nstations = [\"a\", \"b\"]\n[node.a]\nposition = \
                [0, 0]\n[node.b]\nposition = [100, 0]\n[[udp]]\nfrom = \"a\"\nto = \"b\"\npayload = 100\n\
                interval = \"1s\"\ncount = 30\n";
    let bgp = "nodes = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"9600bit\"\n[bgp]\nstop = \"20min\"\n\
               [messages]\ninterval = \"30s\"\nstop = \"5min\"\nover = \"sar\"\n";
    for (text, before) in [(CHAIN, 300.0), (mesh, 32.0), (bgp, 1_260.0)] {
        let run = |duration: &str| {
            let text = text.replacen("nodes =", &format!("duration = \"{duration}\"\nnodes ="), 1);
            parse(&text).expect("a scenario").run(None, None).expect("a report")
        };
        let runs = ["1h", "37h", "10000h"].map(run);
        let all = runs.each_ref().map(|report| serde_json::to_string(report).expect("an object"));

        assert_eq!(all[0], all[1]);
        assert_eq!(all[0], all[2]);
        assert!(runs[0].ended_s < before, "{}", runs[0].ended_s);
    }
}

/// The link goes down in the middle for good, or for so long that TCP gives up.
#[test]
fn a_transfer_that_dies_has_the_goodput_of_the_time_that_it_had() {
    let dead = |r2: &str, octets: &str, start: &str| {
        let text = format!(
            "nodes = [\"a\", \"b\"]\nduration = \"1h\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1mbit\"\n\
             delay = \"10ms\"\ndown = [[\"5s\", \"2h\"]]\nnoticed = false\n[[tcp]]\nfrom = \"a\"\nto = \"b\"\n\
             {octets}\nstart = \"{start}\"\noptions = {{ r2 = {r2} }}\n"
        );
        let report = parse(&text).expect("a scenario").run(None, None).expect("a report");
        (report.ended_s, report.flows[0].tcp.clone().expect("a transfer"), report.to_string())
    };

    for (r2, octets) in
        [("\"never\"", ""), ("\"never\"", "octets = 5000000"), ("3", "octets = 5000000"), ("3", "")]
    {
        let (ended, tcp, text) = dead(r2, octets, "1s");
        let goodput = tcp.octets_received as f64 * 8.0 / 3_599.0;
        assert!((300_000..600_000).contains(&tcp.octets_received), "{tcp:?}");
        assert_eq!((tcp.delay_s, tcp.goodput_bits_per_s), (None, Some(goodput)), "{r2} {octets}");
        assert_eq!(
            (tcp.failed, ended < 100.0),
            (r2 == "3" || !octets.is_empty(), r2 == "3"),
            "{r2} {octets}"
        );
        assert_eq!(text.contains("failed"), tcp.failed, "{text}");
    }
    let (_, never, _) = dead("3", "octets = 5000000", "10s");
    assert_eq!((never.connect_s, never.goodput_bits_per_s, never.failed), (None, Some(0.0), true));
}
