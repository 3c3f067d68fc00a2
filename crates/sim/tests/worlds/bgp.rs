//! Tests BGP sessions over TCP: messages sent, messages received, and their decoding by tshark.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use sim::app::bgp::wire::{Kind, Sizes};
use sim::app::bgp::{Config, Speaker};
use sim::{AppId, LinkConfig, NodeId, PassiveOpens, World};
use tcp::Limit;

/// A star: a speaker in the middle, and speakers around, each with a session to the middle.
struct Star {
    world: World,
    nodes: Vec<NodeId>,
    speakers: Vec<AppId>,
}

fn secs(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn star(around: usize, link: &LinkConfig, passive_opens: PassiveOpens, tcp: tcp::Config) -> Star {
    star_saying(around, link, passive_opens, tcp, Duration::from_secs(480))
}

/// The same with another time between KEEPALIVEs.
fn star_saying(
    around: usize,
    link: &LinkConfig,
    passive_opens: PassiveOpens,
    tcp: tcp::Config,
    keepalive_interval: Duration,
) -> Star {
    let mut world = World::new(3);
    let nodes: Vec<NodeId> = (0..=around).map(|node| world.add_node(&format!("n{node}"))).collect();
    let others = nodes[1..].iter();
    let links: Vec<_> = others.map(|other| world.connect(*other, nodes[0], link)).collect();
    let own = |world: &World, node: NodeId| {
        let address = world.addresses(node).find_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        address.expect("an address")
    };
    // The highest address, so the middle is called and never calls.
    let middle = Ipv4Addr::new(192, 168, 0, 1);
    let port = world.ends(links[0])[1];
    world.add_address(port, middle.into());
    world.auto_routes();
    let addresses: Vec<Ipv4Addr> = nodes[1..].iter().map(|node| own(&world, *node)).collect();
    let mut speakers = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        world.set_passive_opens(*node, passive_opens);
        let (local, peers) = match at {
            0 => (middle, addresses.clone()),
            _ => (addresses[at - 1], vec![middle]),
        };
        let config = Config {
            local,
            peers,
            start: secs(1),
            stop: None,
            keepalive_interval,
            update_interval: Duration::from_secs(1_200),
            retry: Duration::from_secs(120),
            sizes: Sizes::default(),
            tcp,
        };
        let rng = Rng::stream(3, &format!("speaker {at}"));
        speakers.push(world.add_app(*node, Speaker::new(config, rng)));
    }
    Star { world, nodes, speakers }
}

impl Star {
    fn speaker(&self, at: usize) -> &Speaker {
        self.world.app(self.speakers[at]).expect("a speaker")
    }

    fn received(&self, at: usize, kind: Kind) -> usize {
        self.speaker(at).received().iter().filter(|record| record.kind == kind).count()
    }
}

#[test]
fn a_session_says_what_the_paper_counts() {
    let link = LinkConfig::default();
    let mut star = star(1, &link, PassiveOpens::OnDemand, tcp::Config::default());

    star.world.run_until(secs(3_601));

    for at in 0..2 {
        assert_eq!(star.received(at, Kind::Open), 1);
        // One answers the OPEN, and one comes every 8 minutes of the hour that is left.
        assert_eq!(star.received(at, Kind::Keepalive), 1 + 7);
        assert_eq!(star.received(at, Kind::Update), 3);
        assert_eq!(star.speaker(at).sent().len(), 12);
        assert_eq!(star.speaker(at).stats().established, 1);
    }
}

#[test]
fn with_one_passive_open_a_second_caller_finds_no_listener_and_its_messages_are_lost() {
    let tcp = tcp::Config::default();
    let mut fixed = star(3, &LinkConfig::default(), PassiveOpens::Fixed(1), tcp);
    let mut on_demand = star(3, &LinkConfig::default(), PassiveOpens::OnDemand, tcp);

    for star in [&mut fixed, &mut on_demand] {
        star.world.run_until(secs(3_000));
    }

    assert_eq!(on_demand.speaker(0).stats().established, 3);
    assert_eq!(on_demand.world.node_counters(on_demand.nodes[0]).passive_opens_missing, 0);
    // The first caller has the one passive open; the others call again and again.
    assert_eq!(fixed.speaker(0).stats().established, 1);
    assert_eq!(fixed.received(1, Kind::Open), 1);
    for at in 2..=3 {
        let stats = fixed.speaker(at).stats();
        assert_eq!((fixed.received(at, Kind::Open), stats.established), (0, 0));
        assert!(stats.connects > 20 && stats.reset == stats.connects, "{stats:?}");
        assert!(stats.unsent >= 2, "{stats:?}");
    }
    let missing = fixed.world.node_counters(fixed.nodes[0]).passive_opens_missing;
    assert_eq!(missing, fixed.speaker(2).stats().reset + fixed.speaker(3).stats().reset);
}

#[test]
fn so_many_passive_opens_as_callers_are_enough() {
    let tcp = tcp::Config::default();
    let mut star = star(3, &LinkConfig::default(), PassiveOpens::Fixed(3), tcp);

    star.world.run_until(secs(60));

    assert_eq!(star.speaker(0).stats().established, 3);
}

#[test]
fn r1_warns_and_r2_counts_from_there() {
    // The link fails for good before an UPDATE; the timeout is 20 s and doubles.
    let mut link = LinkConfig::default();
    for channel in [&mut link.there, &mut link.back] {
        channel.outages = sim::channel::Outages::new(vec![secs(10)..secs(9_000)]).expect("a span");
    }
    let mut tcp = tcp::Config {
        r1: Limit::Retransmissions(2),
        r2: Limit::ElapsedSinceR1(Duration::from_secs(80)),
        ..tcp::Config::default()
    };
    tcp.rto.min = Duration::from_secs(20);
    tcp.rto.max = Duration::from_secs(600);
    let mut star = star(1, &link, PassiveOpens::OnDemand, tcp);
    let stats = |star: &Star| (star.speaker(1).stats().warnings, star.speaker(1).stats().timed_out);

    star.world.run_until(secs(9));
    assert_eq!(star.speaker(1).stats().established, 1);
    star.world.run_until(secs(1_210));
    let sent = star.speaker(1).sent().iter().map(|record| record.at);
    let lost = sent.filter(|at| *at > secs(10)).min().expect("one was lost");

    // Sent again 20 s and 60 s after; the warning comes with the second, and 80 s later it is over.
    let mut again = self::star(1, &link, PassiveOpens::OnDemand, tcp);
    again.world.run_until(lost + Duration::from_millis(59_900));
    assert_eq!(stats(&again), (0, 0));
    again.world.run_until(lost + Duration::from_millis(60_100));
    assert_eq!(stats(&again), (1, 0));
    again.world.run_until(lost + Duration::from_millis(139_900));
    assert_eq!(stats(&again), (1, 0));
    again.world.run_until(lost + Duration::from_millis(140_100));
    assert_eq!(stats(&again), (1, 1));
}

#[test]
fn what_waits_for_a_peer_that_is_away_has_a_bound() {
    let mut link = LinkConfig::default();
    for channel in [&mut link.there, &mut link.back] {
        channel.outages = sim::channel::Outages::new(vec![secs(10)..secs(9_000)]).expect("a span");
    }
    let tcp = tcp::Config { r2: Limit::Never, ..tcp::Config::default() };
    let mut star = star_saying(1, &link, PassiveOpens::OnDemand, tcp, Duration::from_millis(10));

    star.world.run_until(secs(300));

    // TCP takes 128 KiB and as much as half of that waits before it; each KEEPALIVE has 20 octets.
    let speaker = star.speaker(1);
    let waiting = (speaker.sent().len() - 900) * 20;
    assert!((180_000..=200_000).contains(&waiting), "{waiting}");
    assert!(speaker.stats().unsent > 10_000, "{:?}", speaker.stats());
}

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_the_messages_of_a_session() {
    let folder = std::env::temp_dir().join(format!("trackway-bgp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let link = LinkConfig::default();
    let mut star = star(1, &link, PassiveOpens::OnDemand, tcp::Config::default());
    star.world.capture_node(star.nodes[0], &folder).expect("a capture");
    star.world.run_until(secs(3_601));
    star.world.finish_captures().expect("a capture");
    let file = folder.join("n0.pcapng");

    let complaints = "_ws.malformed || (bgp && _ws.expert.severity >= warning)";
    assert_eq!(tshark(&file, complaints, "frame.number"), "");
    for (kind, len, count) in [("1", "50", 2), ("2", "110", 6), ("4", "20", 16)] {
        let filter = format!("bgp.type == {kind} && bgp.length == {len} && tcp.port == 179");
        let read = tshark(&file, &filter, "bgp.type");
        let read = read.lines().flat_map(|line| line.split(',')).filter(|it| *it == kind);
        assert_eq!(read.count(), count, "{kind}");
    }
    let networks = tshark(&file, "bgp.type == 2", "bgp.nlri_prefix");
    assert!(networks.lines().all(|line| line.split(',').count() == 17), "{networks}");
    std::fs::remove_dir_all(folder).expect("the folder");
}

/// Reads a field of all packets that pass the filter.
fn tshark(file: &Path, filter: &str, field: &str) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields", "-e", field])
        .output()
        .expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("fields are text")
}
