//! What is written reads back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use base::quantity::Probability;
use base::time::Time;
use sim::LinkConfig;
use sim::channel::{self, Loss};
use tcp::tcpnc;

use super::super::{Flow, Plan, Stream, TcpncTunnel, Transfer};
use super::parse;

#[test]
fn every_example_is_written_and_reads_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let mut scenarios = 0;
    for entry in fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("text");
        scenarios += 1;
        let plan = Plan::parse(&path, text).expect("a scenario");

        let written = plan.to_toml().expect("it can be written");

        assert_eq!(parse(&written), Ok(plan), "{written}");
    }
    assert!(scenarios >= 6, "{scenarios}");
}

/// Two gateways between two hosts, with something of everything that code can build.
fn built() -> Plan {
    let mut plan = Plan::new(u64::MAX, Duration::from_secs(20));
    // No number of percents with few digits.
    let loss = Loss::random(Probability::new(0.1 / 3.0).expect("a probability"));
    let lossy = channel::Config { loss, delay: Duration::from_nanos(7_654_321), ..usual() };
    let link = LinkConfig { there: lossy, ..LinkConfig::symmetric(usual(), Default::default()) };
    plan.add_chain([LinkConfig::default(), link, LinkConfig::default()]);
    plan.nodes[1].hbh = Some(hbh::Config::new(hbh::Profile::Paper));
    for host in [0, 3] {
        plan.nodes[host].tcpnc = Some(tcpnc::Config { extra: 2, ..tcpnc::Config::default() });
    }
    plan.tcpnc_tunnels.push(TcpncTunnel::new([1, 2]));
    let flow = Flow::new([0, 3], 9).from_port(8).starting(Time::from_nanos(123_456_789));
    let tcp = tcp::Config { r2: tcp::Limit::Never, ..tcp::Config::default() };
    plan.transfers.push(Transfer { flow, octets: None, tcp });
    let stream = Stream::new(Flow::new([3, 0], 9), 100, Duration::from_nanos(41_234_567));
    plan.streams.push(Stream { is_answered: true, ..stream });
    plan
}

fn usual() -> channel::Config {
    let rate = base::quantity::BitRate::from_bits_per_s(1_234_567).unwrap_or_default();
    channel::Config { rate, ..channel::Config::default() }
}

#[test]
fn what_code_builds_reads_back_to_the_last_digit_and_runs_alike() {
    let plan = built();

    let text = plan.to_toml().expect("it can be written");

    let read = parse(&text).expect("a scenario");
    assert_eq!(read, plan, "{text}");
    let [own, other] = [&plan, &read].map(|plan| plan.run(None, None).expect("a report"));
    assert_eq!(own.hash, other.hash);
    let [transfer, requests] = &own.flows[..] else { panic!("{own}") };
    assert!(transfer.tcp.as_ref().is_some_and(|tcp| tcp.octets_received > 10_000), "{own}");
    let answers = requests.udp.as_ref().expect("datagrams");
    assert!((10..=answers.sent).contains(&answers.received), "{own}");
    assert!(answers.delay_s > Some(2.0 * 7.0e-3), "{own}");
}

#[test]
fn flows_between_the_same_nodes_are_written_and_numbered_by_who_reads() {
    let mut plan = built();
    for port in [10, 11] {
        let again = Flow::new([0, 3], port);
        plan.transfers.push(Transfer { flow: again, ..plan.transfers[0].clone() });
    }

    let read = parse(&plan.to_toml().expect("it can be written")).expect("a scenario");

    let names: Vec<_> = read.transfers.iter().map(|it| it.flow.name.as_deref()).collect();
    assert_eq!(names, [None, Some("tcp n0 to n3 2"), Some("tcp n0 to n3 3")]);
    assert_eq!(read.to_toml().map(|text| parse(&text)).expect("again"), Ok(read));
}

#[test]
fn what_no_file_can_say_is_not_written() {
    let mut plan = built();
    plan.transfers[0].tcp.r1 = tcp::Limit::ElapsedSinceR1(Duration::from_secs(1));

    let refused = plan.to_toml().expect_err("no text stands for it");

    assert!(refused.to_string().contains("no key"), "{refused}");
}
