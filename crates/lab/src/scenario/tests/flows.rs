//! Flows that were run: what a link does to them, and what a report says of them.

use super::parse;
use crate::scenario::Report;

#[track_caller]
fn run(text: &str) -> Report {
    parse(text).expect("a scenario").run(None, None).expect("a run")
}

fn pair(link: &str, flow: &str) -> String {
    format!(
        "nodes = [\"a\", \"b\"]\nduration = \"5min\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{link}\n{flow}\n"
    )
}

const STREAM: &str =
    "[[udp]]\nfrom = \"a\"\nto = \"b\"\npayload = 1472\ninterval = \"1s\"\ncount = 10";

#[test]
fn an_idle_link_takes_a_packet_whatever_its_queue() {
    for queue in
        ["queue = 0", "queue-octets = 0", "queue-octets = 1499", "queue = 0\nthin-acks = true"]
    {
        for discipline in ["drop-tail", "routing-first", "fair"] {
            let link = format!(
                "rate = \"1mbit\"\ndelay = \"10ms\"\n{queue}\nqueue-discipline = \"{discipline}\""
            );

            let report = run(&pair(&link, STREAM));

            let udp = report.flows[0].udp.as_ref().unwrap();
            assert_eq!((udp.sent, udp.received), (10, 10), "{queue} {discipline}");
            assert_eq!(report.links[0].longest_queue, 0);
        }
    }
}

#[test]
fn a_tunnel_and_hbh_fill_a_link_without_a_queue() {
    let tunnel = "[[tunnel]]\nbetween = [\"a\", \"b\"]\nbehind = [[\"x\"], [\"y\"]]";
    // The link takes 1.6 s. HBH is told when it is free; a tunnel loses datagrams.
    for (layer, most) in [("hbh = true", 3.0), (tunnel, 5.0)] {
        let head = if layer.starts_with("hbh") { layer } else { "" };
        let tail = if head.is_empty() { layer } else { "" };
        let text = format!(
            "nodes = [\"x\", \"a\", \"b\", \"y\"]\n{head}\n[[link]]\nbetween = [\"x\", \"a\"]\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1mbit\"\nqueue = 0\n\
             [[link]]\nbetween = [\"b\", \"y\"]\n{tail}\n\
             [[tcp]]\nfrom = \"x\"\nto = \"y\"\noctets = 200_000\n"
        );

        let report = run(&text);

        let tcp = report.flows[0].tcp.as_ref().unwrap();
        assert_eq!(tcp.octets_received, 200_000);
        assert!(tcp.delay_s.unwrap() < most, "{layer}: {tcp:?}");
    }
}

#[test]
fn fin_rides_on_data_that_fills_the_window() {
    for (octets, seconds) in [(14_479, 0.15), (14_480, 0.15), (14_481, 0.25)] {
        let flow = format!("[[tcp]]\nfrom = \"a\"\nto = \"b\"\noctets = {octets}");

        let report = run(&pair("delay = \"50ms\"", &flow));

        assert_eq!(report.flows[0].tcp.as_ref().unwrap().delay_s, Some(seconds), "{octets}");
    }
}

#[test]
fn an_idle_link_before_another_changes_nothing() {
    let with = |idle: &str| {
        let text = format!(
            "nodes = [\"a\", \"b\", \"e\", \"f\"]\n{idle}\n[[link]]\nbetween = [\"a\", \"b\"]\n\
             rate = \"1mbit\"\ndelay = \"10ms\"\nloss = \"5%\"\n\
             [[tcp]]\nfrom = \"a\"\nto = \"b\"\noctets = 100_000\n"
        );
        run(&text).flows[0].tcp.as_ref().unwrap().delay_s
    };

    assert_eq!(with("[[link]]\nbetween = [\"e\", \"f\"]"), with(""));
}

#[test]
fn a_queue_that_marks_spares_the_sender_its_losses() {
    let flow = |ecn: bool| {
        format!("[[tcp]]\nfrom = \"a\"\nto = \"b\"\noctets = 10_000_000\noptions.ecn = {ecn}")
    };
    let link = "rate = \"10mbit\"\ndelay = \"20ms\"\nqueue = 40\nmark-at = 15";

    let [marked, plain] = [true, false].map(|ecn| run(&pair(link, &flow(ecn))));

    let [there, dropped] = [&marked, &plain].map(|it| (it.links[0].marked, it.links[0].dropped));
    assert!(there.0 > 0 && there.1 == 0, "{there:?}");
    assert!(dropped.0 == 0 && dropped.1 > 0, "{dropped:?}");
    let tcp = marked.flows[0].tcp.as_ref().unwrap();
    assert_eq!((tcp.octets_received, tcp.retransmissions), (10_000_000, 0));
    // Each mark of a window is one reduction, not one each.
    assert!(
        tcp.ecn_reductions > 0 && tcp.ecn_reductions < there.0,
        "{} of {}",
        tcp.ecn_reductions,
        there.0
    );
    assert!(tcp.goodput_bits_per_s.unwrap() > 8e6, "{tcp:?}");
}

#[test]
fn a_report_says_in_words_how_connections_ended() {
    let flow = "[[tcp]]\nfrom = \"a\"\nto = \"b\"\noctets = 1_000\noptions.r2-syn = 1";

    let [whole, lost] = ["loss = 0", "loss = \"100%\""].map(|link| run(&pair(link, flow)));

    let ends = [&whole, &lost].map(|it| it.flows[0].tcp.as_ref().and_then(|it| it.end.as_deref()));
    assert_eq!(ends, [Some("closed"), Some("no answer to the SYN")]);
    assert!(lost.to_string().contains("failed: no answer to the SYN"), "{lost}");
}

#[test]
fn each_reason_why_packets_end_has_a_column() {
    let text = "nodes = [\"a\", \"b\", \"c\"]\nduration = \"10s\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
                [[link]]\nbetween = [\"b\", \"c\"]\nmtu = 1400\nrate = \"64kbit\"\nqueue = 1\n\
                [[udp]]\nfrom = \"a\"\nto = \"c\"\npayload = 1472\ninterval = \"1s\"\n\
                [[udp]]\nfrom = \"a\"\nto = \"c\"\npayload = 1000\ninterval = \"10ms\"\n";

    let report = run(text);

    assert!(report.nodes[1].too_big >= 9 && report.links[2].dropped > 100);
    let shown = report.to_string();
    for column in ["no route", "too big", "hops exceeded", "queue full", "down", "marked"] {
        assert!(shown.contains(column), "{column} is not in\n{shown}");
    }
    let row = shown.lines().find(|it| it.trim_start().starts_with("b  ") && it.contains(" 10 "));
    assert!(row.is_some() || report.nodes[1].too_big != 10, "{shown}");
}

#[test]
fn one_port_takes_many_flows_and_tells_them_apart() {
    let mut text =
        "nodes = [\"a\", \"b\", \"c\"]\nduration = \"1min\"\n[[link]]\nbetween = [\"a\", \"c\"]\n\
                    [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"1mbit\"\n"
            .to_owned();
    for (from, octets) in [("a", 1_000), ("a", 2_000), ("b", 3_000)] {
        text += &format!("[[tcp]]\nfrom = \"{from}\"\nto = \"c\"\nport = 80\noctets = {octets}\n");
    }
    for (from, count, answered) in [("a", 4, false), ("b", 5, false), ("b", 6, true)] {
        text += &format!(
            "[[udp]]\nfrom = \"{from}\"\nto = \"c\"\nport = 80\npayload = 100\ninterval = \"1s\"\n\
             count = {count}\nanswered = {answered}\n"
        );
    }

    let report = run(&text);

    let tcp = report.flows.iter().filter_map(|it| it.tcp.as_ref()).map(|it| it.octets_received);
    assert_eq!(tcp.collect::<Vec<_>>(), [1_000, 2_000, 3_000]);
    let udp = report.flows.iter().filter_map(|it| it.udp.as_ref()).map(|it| it.received);
    assert_eq!(udp.collect::<Vec<_>>(), [4, 5, 6]);
}
