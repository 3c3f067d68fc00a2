//! Tests tunnels over cables with loss, cuts, silent drops and a shrinking MTU.

use std::time::Instant;

use nix::sys::signal::Signal;
use testbed::probe::goodput;
use testbed::traffic::ENDLESS;

use super::{Net, SOON};
use crate::namespaces::{TRACKWAY, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn a_tenth_of_the_frames_lost_is_no_loss_inside_in_both_versions() {
    let mut net = Net::pair("--rate 10mbit --delay 10ms --loss 10% --seed 1");
    net.start_all();

    // An inner packet is lost if none of its datagrams arrives within the tunnel's 2 s: its datagram, a repair, and two
    // more at each of about five growing silences, all lost. The probability is 1e-12 for each of 200 packets.
    for address in ["10.77.0.2", "fd77::2"] {
        net.expect_pings(0, address, 50);
    }
    let rate = goodput(&net.iperf(5, &["-R"])).unwrap();

    // Plain TCP gets 0.3 Mbit/s there.
    assert!(rate > 2e6, "{rate} bit/s: {}", net.status(0));
    let tunnel = |net: &Net| net.status(0)["tunnels"][0].clone();
    assert_eq!(tunnel(&net)["state"], "up");
    // A reading is of the last hundred datagrams at least, and below that once in 1e5; several are never.
    let is_measured = wait_until(SOON, || {
        net.transfer(0, 1, 200_000).finish(SOON);
        tunnel(&net)["loss"].as_f64().unwrap() > 0.02
    });
    assert!(is_measured, "{}", tunnel(&net));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn applications_are_told_when_the_path_is_dead_and_go_on_when_it_is_back() {
    let mut net = Net::pair("--delay 5ms");
    net.start_all();
    net.expect_ping(0, "10.77.0.2");

    let link = net.cables[0].program;
    net.nets.program(link).signal(Signal::SIGSTOP);
    let mut said = String::new();
    let is_told = wait_until(SOON, || {
        said = net.try_run(0, "ping -c 1 -W 1 10.77.0.2");
        said.contains("Destination Host Unreachable")
    });
    net.nets.program(link).signal(Signal::SIGCONT);

    assert!(is_told, "{said}\n{}", net.status(0));
    net.expect_ping(0, "10.77.0.2");
    net.expect_ping(1, "10.77.0.1");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_path_that_swallows_long_packets_is_measured() {
    let mut net = Net::pair("--delay 2ms");
    let air = net.cables[0].air.clone();
    for interface in ["a", "b"] {
        net.nets.run(&air, &format!("ip link set dev {interface} mtu 1400"));
    }
    net.start_all();
    net.expect_ping(0, "10.77.0.2");
    let mtu = |net: &Net| net.status(0)["tunnels"][0]["mtu"].as_u64().unwrap();
    let is_found = wait_until(SOON, || {
        net.transfer(0, 1, 500_000).finish(SOON);
        mtu(&net) >= 1_280
    });

    let mtu = mtu(&net);
    assert!(is_found && mtu <= 1_400 - 52, "{}", net.status(0));
    let too_long = net.try_run(0, &format!("ping -c 2 -W 2 -M do -s {} 10.77.0.2", 1_400));
    assert!(too_long.contains(" 100% packet loss"), "{too_long}");
    let said = net.try_run(0, &format!("ping -c 1 -W 60 -M do -s {} 10.77.0.2", mtu - 28));
    assert!(said.contains(" 0% packet loss"), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_path_that_nobody_uses_is_measured_soon() {
    let mut net = Net::pair("--delay 20ms");
    let air = net.cables[0].air.clone();
    for interface in ["a", "b"] {
        net.nets.run(&air, &format!("ip link set dev {interface} mtu 1400"));
    }
    net.start_all();
    let began = Instant::now();
    let path = |net: &Net, node: usize| net.status(node)["tunnels"][0]["path_mtu"].as_u64();

    let is_found = wait_until(SOON / 2, || {
        [0, 1].iter().all(|&node| path(&net, node).is_some_and(|it| (1_392..=1_400).contains(&it)))
    });

    eprintln!("the path of 1400 octets is known after {:?}", began.elapsed());
    assert!(is_found, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn no_segment_is_cut_where_the_ways_there_and_back_carry_different_lengths() {
    let mut net = Net::pair("--rate 100mbit --delay 2ms");
    // What gateway 0 sends may be shorter than what comes.
    net.run(0, "ip route change 10.9.1.0/24 dev eth1 src 10.9.1.1 mtu 1000");
    net.start_all();
    let path = |net: &Net, node: usize| net.status(node)["tunnels"][0]["path_mtu"].as_u64();
    let is_found = wait_until(SOON, || {
        net.try_run(0, "ping -c 1 -W 1 10.77.0.2");
        [path(&net, 0), path(&net, 1)] == [Some(1_000), Some(1_500)]
    });
    assert!(is_found, "{} {}", net.status(0), net.status(1));

    for (from, to) in [(0, 1), (1, 0)] {
        net.transfer(from, to, 5_000_000).finish(SOON);
        let cut = [0, 1].map(|node| net.status(node)["tunnels"][0]["packets_cut"].as_u64());
        eprintln!("packets cut after 5 MB from {from} to {to}: {cut:?}");
        assert_eq!(cut, [Some(0); 2], "{from} to {to}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_path_that_swallows_what_is_longer_than_1000_octets_carries_all_that_ip_may_rely_on() {
    for link_mtu in [1_000, 576] {
        let mut net = Net::pair("--rate 20mbit --delay 2ms --loss 2% --seed 1");
        let air = net.cables[0].air.clone();
        for interface in ["a", "b"] {
            // A frame that is longer is dropped where it enters, and nobody is told.
            net.nets.run(&air, &format!("ip link set dev {interface} mtu {link_mtu}"));
        }
        net.start_all();
        let is_found = wait_until(SOON, || {
            net.try_run(0, "ping -c 1 -W 1 10.77.0.2");
            let path = |node: usize| net.status(node)["tunnels"][0]["path_mtu"].as_u64().unwrap();
            [0, 1].iter().all(|&node| (link_mtu - 8..=link_mtu).contains(&path(node)))
        });
        assert!(is_found, "{}", net.status(0));

        // 1280 octets with their headers, which may not be cut on the way.
        net.expect_ping(0, "10.77.0.2 -M do -s 1252");
        net.expect_ping(0, "fd77::2 -M do -s 1232");
        net.expect_ping(1, "fd77::1 -M do -s 1232");
        net.transfer(0, 1, 1_000_000).finish(SOON);
        let report = net.iperf(3, &["-u", "-l", "1200", "-b", "1M"]);

        // Of the 300 packets, one is lost by the 2 s for which a part is repaired, never at 2 %.
        assert_eq!(report["end"]["sum"]["lost_packets"], 0, "{report}");
        let tunnel = net.status(0)["tunnels"][0].clone();
        assert!(tunnel["packets_cut"].as_u64().unwrap() > 200, "{tunnel}");
        assert_eq!((&tunnel["mtu"], &tunnel["state"]), (&1_280.into(), &"up".into()));
        let device = net.run(0, "cat /sys/class/net/trackway-nc0/mtu");
        assert_eq!(device.trim(), "1280");
        let said = net.run(0, &format!("{TRACKWAY} status"));
        assert!(said.contains("a short path: cut beyond"), "{said}");
        let (_, log) = net.gateway(0).stop();
        assert!(log.contains("short path"), "{log}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_transfer_goes_on_when_the_interface_takes_only_shorter_datagrams() {
    let mut net = Net::pair("--rate 20mbit --delay 2ms");
    net.start_all();
    let mtu = |net: &Net| net.status(0)["tunnels"][0]["mtu"].as_u64().unwrap();
    let is_found = wait_until(SOON, || {
        net.transfer(0, 1, 500_000).finish(SOON);
        mtu(&net) > 1_400
    });
    assert!(is_found, "{}", net.status(0));
    let transfer = net.transfer(0, 1, ENDLESS);
    transfer.wait_for(500_000, SOON);

    // The kernel refuses trains, then each of their datagrams.
    net.run(0, "ip link set dev eth1 mtu 1320");
    transfer.wait_for(transfer.received() + 2_000_000, SOON);
    transfer.end();

    // Longer packets are cut, so that IPv6 always has its 1280 octets.
    assert_eq!(mtu(&net), 1_280, "{}", net.status(0));
    let whole = net.status(0)["tunnels"][0]["whole"].as_u64().unwrap();
    assert!((1_200..=1_320 - 52).contains(&whole), "{}", net.status(0));
    assert!(net.count(0, "tunnel_datagrams_refused") > 0, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_that_goes_elsewhere_is_no_route_into_the_tunnel() {
    let net = Net::pair("");
    net.run(0, "ip route add 10.77.0.2/32 via 10.9.1.2");

    let command =
        format!("timeout 10 {TRACKWAY} run {}", net.nets.folder().join("0.toml").display());
    let output = net.nets.try_run(&net.nodes[0], &command);

    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains("`ip route delete 10.77.0.2/32 via 10.9.1.2 dev eth1`"),
        "{complaint}"
    );
}
