//! Tests a running tunnel while other programs change its routes.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;

const INSIDE: [&str; 2] = ["10.77.0.2", "fd77::2"];

impl Net {
    /// What a gateway says is not as it should be.
    fn faults(&self, node: usize) -> String {
        self.status(node)["faults"].to_string()
    }

    fn expect_fault(&self, node: usize, fault: &str) {
        let is_told = wait_until(SOON, || self.faults(node).contains(fault));
        assert!(is_told, "no {fault}: {}", self.status(node));
    }

    fn expect_no_fault(&self, node: usize) {
        let is_told = wait_until(SOON, || self.faults(node) == "[]");
        assert!(is_told, "{}", self.status(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_that_takes_the_place_of_ours_leads_nothing_away() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    net.expect_no_fault(0);

    net.run(0, "ip route replace 10.77.0.2/32 via 10.9.1.2");
    net.run(0, "ip route replace fd77::2/128 via fd09::2");

    net.expect_count(0, "tunnel_routes_displaced", 2);
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
    INSIDE.iter().for_each(|address| net.expect_ping(0, address));
    let theirs = net.run(0, "ip route show 10.77.0.2");
    assert!(theirs.contains("via 10.9.1.2"), "{theirs}");
    net.expect_fault(0, "10.77.0.2/32: `10.77.0.2/32 via 10.9.1.2 dev eth1` came");
    let said = net.try_run(0, &format!("{TRACKWAY} status"));
    assert!(said.contains("fault: fd77::2/128: `fd77::2/128 via fd09::2 dev eth1"), "{said}");
    assert!(said.contains("[route-displaced]"), "{said}");

    // Our route has stood aside since, and the fault comes and goes with the other route.
    net.run(0, "ip route del 10.77.0.2/32 via 10.9.1.2");
    net.run(0, "ip route del fd77::2/128 via fd09::2");
    net.expect_no_fault(0);
    net.run(0, "ip route add 10.77.0.2/32 via 10.9.1.2");
    net.expect_fault(0, "10.77.0.2/32: `10.77.0.2/32 via 10.9.1.2 dev eth1` came");

    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_with_a_greater_metric_that_comes_later_is_no_way_out_after_a_crash() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();

    net.run(0, "ip route add 10.77.0.2/32 via 10.9.1.2 metric 100");
    net.run(0, "ip route add fd77::2/128 via fd09::2 metric 2000");

    net.expect_count(0, "tunnel_routes_displaced", 2);
    INSIDE.iter().for_each(|address| net.expect_ping(0, address));
    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routes_that_are_removed_all_the_time_are_put_back_now_and_then() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    let (before, began) = (net.claimed(0), Instant::now());

    let is_put_off = wait_until(SOON, || {
        net.try_run(0, "ip route del 10.77.0.2 dev trackway-nc0");
        net.faults(0).contains("all the time")
    });
    assert!(is_put_off, "{}", net.status(0));
    let most = 11 + began.elapsed().as_secs();
    let restored = net.count(0, "tunnel_routes_restored");
    assert!((5..=most).contains(&restored), "{restored} of {most}");
    assert_eq!(net.clear((1, "eth0"), &INSIDE[..1]), 0, "{}", net.claimed(0));

    let is_back = wait_until(SOON, || net.claimed(0) == before);
    assert!(is_back, "{}", net.claimed(0));
    net.expect_no_fault(0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn changes_that_take_nothing_away_do_not_put_repairs_off() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    let before = net.claimed(0);
    let churn = net.nets.folder().join("churn");
    fs::write(
        &churn,
        "for i in $(seq 20); do ip address add 10.99.0.1/32 dev trackway-nc0 && ip address del 10.99.0.1/32 dev \
         trackway-nc0 && sleep 0.02; done; ip route del 10.77.0.2 dev trackway-nc0",
    )
    .unwrap();

    let waits = [(); 5].map(|()| {
        net.run(0, &format!("sh {}", churn.display()));
        let began = Instant::now();
        let is_back = wait_until(SOON, || net.claimed(0) == before);
        assert!(is_back, "{}", net.claimed(0));
        began.elapsed()
    });

    // What is put off waits for a second, each time; a busy machine holds up some.
    let mut sorted = waits;
    sorted.sort_unstable();
    assert!(sorted[2] < Duration::from_millis(700), "{waits:?}");
    net.expect_no_fault(0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_device_is_switched_on_again_with_its_addresses_and_routes() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    let shown = |net: &Net| net.claimed(0) + &net.run(0, "ip -o address show dev trackway-nc0");
    let before = shown(&net);

    for change in [
        "ip link set trackway-nc0 down",
        "ip address del 10.77.0.1/24 dev trackway-nc0",
        "ip address del fd77::1/64 dev trackway-nc0",
        "ip address flush dev trackway-nc0",
        "sysctl -qw net.ipv6.conf.trackway-nc0.disable_ipv6=1",
    ] {
        net.run(0, change);
        let is_back = wait_until(SOON, || shown(&net) == before);
        assert!(is_back, "after {change}: {}", shown(&net));
        INSIDE.iter().for_each(|address| net.expect_ping(0, address));
        net.expect_no_fault(0);
    }
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reverse_path_filter_that_somebody_makes_strict_is_loosened_again() {
    let mut net = Net::pair("");
    net.edit(0, "10.77.0.2/32", "10.77.0.2/32\", \"0.0.0.0/0");
    net.start_all();
    net.expect_ping(0, "10.77.0.2");

    for interface in ["all", "eth1"] {
        net.run(0, &format!("sysctl -qw net.ipv4.conf.{interface}.rp_filter=1"));
        let is_loose = || net.run(0, "sysctl -n net.ipv4.conf.eth1.rp_filter") == "2\n";
        assert!(wait_until(SOON, is_loose), "after {interface}: {}", net.status(0));
    }
    net.expect_ping(0, "10.77.0.2");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn another_programs_route_in_a_table_of_ours_is_not_replaced() {
    let mut net = Net::pair("");
    net.edit(0, "10.77.0.2/32", "10.77.0.2/32\", \"0.0.0.0/0");
    let theirs = "default via 10.9.1.2 dev eth1";
    net.run(0, &format!("ip route add {theirs} table 51900"));
    let file = net.nets.folder().join("0.toml");

    let said = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} run {}", file.display()));

    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("ip route delete 0.0.0.0/0 via 10.9.1.2 dev eth1 table 51900"), "{said}");
    let shown = net.run(0, "ip route show table 51900");
    assert_eq!(shown.trim(), theirs, "{said}");
    net.run(0, &format!("ip route delete {theirs} table 51900"));
    net.start_all();

    // While ours stands there, theirs comes with another metric and stays as well.
    net.run(0, &format!("ip route add {theirs} metric 50 table 51900"));
    net.expect_ping(0, "10.77.0.2");
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
    let shown = net.run(0, "ip route show table 51900");
    assert!(shown.trim().starts_with(theirs) && shown.lines().count() == 1, "{shown}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_device_that_goes_while_others_have_the_places_of_its_routes_comes_again() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    // From now on what is removed is put back now and then: at the restart nothing of ours is left.
    let is_put_off = wait_until(SOON, || {
        net.try_run(0, "ip route del 10.77.0.2 dev trackway-nc0");
        net.faults(0).contains("all the time")
    });
    assert!(is_put_off, "{}", net.status(0));
    let theirs = ["10.77.0.2/32 via 10.9.1.2", "fd77::2/128 via fd09::2"];
    net.gateway(0).signal(Signal::SIGSTOP);
    for command in [
        "route flush proto 117",
        "-6 route flush proto 117",
        "link delete trackway-nc0",
        &format!("route add {}", theirs[0]),
        &format!("route add {}", theirs[1]),
    ] {
        net.run(0, &format!("ip {command}"));
    }
    net.gateway(0).signal(Signal::SIGCONT);

    net.expect_fault(0, "10.77.0.2/32: `10.77.0.2/32 via 10.9.1.2 dev eth1` came");
    INSIDE.iter().for_each(|address| net.expect_ping(0, address));
    assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{}", net.claimed(0));
    for (version, theirs) in [("-4", theirs[0]), ("-6", theirs[1])] {
        // It is there still.
        net.run(0, &format!("ip {version} route del {theirs}"));
    }
    INSIDE.iter().for_each(|address| net.expect_ping(0, address));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_place_in_our_own_table_that_others_have_after_a_restart_is_asked_for_until_it_is_free() {
    let mut net = Net::pair("");
    net.edit(0, "10.77.0.2/32", "10.77.0.2/32\", \"0.0.0.0/0");
    net.start_all();
    net.expect_ping(0, "10.77.0.2");
    let theirs = "default via 10.9.1.2 dev eth1 table 51900";

    net.gateway(0).signal(Signal::SIGSTOP);
    net.run(0, "ip link delete trackway-nc0");
    net.run(0, &format!("ip route add {theirs}"));
    net.gateway(0).signal(Signal::SIGCONT);

    net.expect_fault(0, "route to 0.0.0.0/0 in table 51900 is not there: another program's route");
    net.expect_ping(0, "10.77.0.2");
    net.run(0, &format!("ip route del {theirs}"));
    let has_place =
        wait_until(SOON, || net.claimed(0).contains("default dev trackway-nc0 table 51900"));
    assert!(has_place, "{}", net.claimed(0));
    net.expect_no_fault(0);
}
