//! Tests that other programs open our captures without complaints.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base::quantity::Probability;
use base::time::Time;
use sim::app::{echo, ping, stream, transfer};
use sim::channel::{self, Loss};
use sim::mobility::{Motion, Position};
use sim::{InterfaceConfig, LinkConfig, World, cnr, radio};

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_every_packet_with_its_time_and_right_checksums() {
    let folder = Folder::new("tshark");
    let mut world = World::new(1);
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    let half = Probability::new(0.5).unwrap();
    let channel = channel::Config {
        delay: Duration::from_millis(50),
        loss: Loss::random(half),
        ..channel::Config::default()
    };
    let config = LinkConfig::symmetric(channel, InterfaceConfig::default());
    let first = world.connect(nodes[0], nodes[1], &config);
    world.connect(nodes[1], nodes[2], &config);
    world.auto_routes();
    world.capture_link(first, &folder.0).unwrap();
    for node in nodes {
        world.capture_node(node, &folder.0).unwrap();
    }
    let target = world.addresses(nodes[2]).find(|address| address.is_ipv6()).unwrap();
    let server = world.address(nodes[2]).unwrap();
    for (port, to) in [(1, SocketAddr::new(target, 9)), (2, SocketAddr::new(server, 10))] {
        world.add_app(
            nodes[0],
            ping::Ping::new(stream::SenderConfig {
                port,
                interval: Duration::from_millis(10),
                start: Time::from_nanos(1),
                count: Some(40),
                ..stream::SenderConfig::new(to, 101)
            }),
        );
    }
    world.add_app(nodes[2], echo::Echo::new(9));

    world.run(Time::MAX, |_| false);
    world.finish_captures().unwrap();

    let report = world.report();
    let sent = |link: usize| report.links[link].counters.sent.total().packets;
    let lost = |link: usize| report.links[link].counters.lost.packets;
    let at_a = sent(0) + sent(1) - lost(1);
    assert_eq!(lines(&tshark(&folder.0.join("a.pcapng"), "")), at_a);
    let both_ends = 2 * (sent(0) + sent(1)) - lost(0) - lost(1);
    assert_eq!(lines(&tshark(&folder.0.join("a-b-0.pcapng"), "")), both_ends);
    for file in ["a.pcapng", "b.pcapng", "c.pcapng", "a-b-0.pcapng"] {
        let complaints = tshark(&folder.0.join(file), COMPLAINTS);
        assert_eq!(complaints, "", "{file}");
    }
    let first = tshark(&folder.0.join("a.pcapng"), "frame.number == 1");
    assert_eq!(first.trim(), "0.000000001\ta:eth0\t149");
}

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_finds_the_checksums_of_tcp_right_with_and_without_hbh() {
    for with_hbh in [false, true] {
        let folder = Folder::new(if with_hbh { "hbh" } else { "tcp" });
        let mut world = World::new(1);
        let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
        let channel = channel::Config {
            delay: Duration::from_millis(50),
            loss: Loss::random(Probability::new(0.05).unwrap()),
            ..channel::Config::default()
        };
        let config = LinkConfig::symmetric(channel, InterfaceConfig::default());
        for pair in nodes.windows(2) {
            world.connect(pair[0], pair[1], &config);
        }
        world.auto_routes();
        if with_hbh {
            for node in &nodes[..2] {
                world.enable_hbh(*node, hbh::Config::new(hbh::Profile::Default));
            }
        }
        for node in nodes {
            world.capture_node(node, &folder.0).unwrap();
        }
        world.meet();
        let to = SocketAddr::new(world.address(nodes[2]).unwrap(), 9);
        world.add_app(nodes[0], transfer::Sender::new(transfer::SenderConfig::new(to, 50_000)));
        let sink = world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));

        world.run_until(Time::from_nanos(600_000_000_000));
        world.finish_captures().unwrap();

        assert_eq!(world.transfer_sink(sink).unwrap().octets, 50_000);
        for file in ["a.pcapng", "b.pcapng", "c.pcapng"] {
            assert_eq!(tshark(&folder.0.join(file), COMPLAINTS), "", "{file} {with_hbh}");
        }
        let with_payload = tshark(&folder.0.join("c.pcapng"), "tcp.len > 0");
        assert!(lines(&with_payload) >= 35, "{with_payload}");
    }
}

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_the_frames_of_a_radio_channel() {
    let folder = Folder::new("radio");
    let mut world = World::new(1);
    let radio = world.add_radio(radio::Config::default());
    let nodes = ["a", "b"].map(|name| world.add_node(name));
    for (node, x) in nodes.into_iter().zip([0.0, 200.0]) {
        let motion = Motion::at_rest(Position::new(x, 0.0));
        world.add_radio_station(radio, node, motion, InterfaceConfig::default());
    }
    world.auto_routes();
    world.capture_radio(radio, &folder.0).unwrap();
    let destination = SocketAddr::new(world.address(nodes[1]).unwrap(), 9);
    let v6 = world.addresses(nodes[1]).find(IpAddr::is_ipv6).unwrap();
    for (port, destination) in [(1, destination), (2, SocketAddr::new(v6, 9))] {
        world.add_app(
            nodes[0],
            stream::Sender::new(stream::SenderConfig {
                port,
                interval: Duration::from_millis(10),
                count: Some(5),
                ..stream::SenderConfig::new(destination, 100)
            }),
        );
    }
    world.add_app(nodes[1], stream::Sink::new(9));

    world.run(Time::MAX, |_| false);
    world.finish_captures().unwrap();

    let file = folder.0.join("radio-0.pcapng");
    assert_eq!(tshark(&file, COMPLAINTS), "");
    // Types and subtypes of RTS, CTS, ACK and data, to and from the right addresses.
    let (a, b) = ("02:80:00:00:00:01", "02:80:00:00:00:02");
    for filter in [
        format!(
            "wlan.fc.type_subtype == 0x1b && wlan.ta == {a} && wlan.ra == {b} && wlan.duration > 1000"
        ),
        format!("wlan.fc.type_subtype == 0x1c && wlan.ra == {a}"),
        format!("wlan.fc.type_subtype == 0x1d && wlan.ra == {a} && wlan.duration == 0"),
        format!(
            "wlan.fc.type_subtype == 0x20 && wlan.ta == {a} && wlan.ra == {b} && udp.dstport == 9"
        ),
    ] {
        assert_eq!(lines(&tshark(&file, &filter)), 10, "{filter}");
    }
    assert_eq!(lines(&tshark(&file, "ipv6 && udp")), 5);
    assert_eq!(lines(&tshark(&file, "radiotap.datarate == 2 && data")), 10, "data at 2 Mbit/s");
    assert_eq!(lines(&tshark(&file, "radiotap.datarate == 1")), 30);
    assert_eq!(lines(&tshark(&file, "frame.interface_name == \"b\"")), 20, "CTS and ACK");
}

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_the_packets_of_a_combat_net_on_every_hop() {
    let folder = Folder::new("cnr");
    let mut world = World::new(1);
    let pairs = [[0, 1], [1, 2]].map(|pair| pair.map(cnr::StationId));
    let config = cnr::Config { loss: 0.0, ..cnr::Config::default() };
    let net = world.add_cnr(config, cnr::Hearing::Pairs(pairs.to_vec()));
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    for node in nodes {
        world.add_cnr_station(net, node, Motion::at_rest(Position::default()));
    }
    world.auto_routes();
    world.capture_cnr(net, &folder.0).unwrap();
    let v6 = world.addresses(nodes[2]).find(IpAddr::is_ipv6).unwrap();
    for (port, to) in [(1, world.address(nodes[2]).unwrap()), (2, v6)] {
        world.add_app(
            nodes[0],
            stream::Sender::new(stream::SenderConfig {
                dscp: 24,
                port,
                interval: Duration::from_secs(60),
                // When all topology updates have been sent.
                start: Time::ZERO + Duration::from_secs(150),
                count: Some(5),
                ..stream::SenderConfig::new(SocketAddr::new(to, 9), 100)
            }),
        );
    }
    world.add_app(nodes[2], stream::Sink::new(9));

    world.run_until(Time::ZERO + Duration::from_secs(600));
    world.finish_captures().unwrap();

    let file = folder.0.join("net-0.pcapng");
    assert_eq!(tshark(&file, COMPLAINTS), "");
    for (filter, count) in [
        ("frame.interface_name == \"a\" && udp.dstport == 9", 10),
        ("frame.interface_name == \"b\" && udp.dstport == 9", 10),
        ("ip.dsfield.dscp == 24 && ip.dst == 172.16.0.3", 10),
        ("ipv6.dst == fd00:fffd::3", 10),
        ("frame", 20),
    ] {
        assert_eq!(lines(&tshark(&file, filter)), count, "{filter}");
    }
}

const COMPLAINTS: &str = "_ws.malformed || _ws.expert.severity == error || \
    ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 || \
    icmp.checksum.status == 0 || icmpv6.checksum.status == 0";

/// The packets that pass the filter: seconds, interface, octets.
fn tshark(file: &Path, filter: &str) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"])
        .args(["-e", "frame.time_epoch", "-e", "frame.interface_name", "-e", "frame.len"])
        .args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"])
        .args(["-o", "udp.check_checksum:TRUE"])
        .output()
        .expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("fields are text")
}

fn lines(text: &str) -> u64 {
    text.lines().count() as u64
}

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("trackway-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
