//! Tests that routes appear, carry packets end to end, and find another path.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::manet::bed::{ALL, DSDV, Manet, OLSR, address};
use crate::namespaces::{SOON, TRACKWAY, wait_until};
use testbed::traffic::{ENDLESS, Transfer};

#[test]
#[ignore = "needs root: run by ./test"]
fn nodes_of_a_chain_reach_each_other_by_routes_of_their_own() {
    for spoken in ALL {
        let manet = Manet::running(spoken, 4);

        manet.settle();
        for (from, to) in [(0, 3), (3, 0), (1, 3)] {
            manet.expect_reachable(from, &address(to));
        }
        let unanswered = manet.nets.unanswered(&manet.nodes[0].name, &address(3), 5, 1_400);
        assert!(unanswered.is_empty(), "{spoken:?}: {unanswered:?}\n{}", manet.told(0));
        let (from, to) = (&manet.nodes[0].name, &manet.nodes[3].name);
        Transfer::start(from, (to, &address(3)), 1_000_000).finish(SOON);

        // By the neighbour, whatever the addresses say.
        let way = manet.run(0, &format!("ip route get {}", address(3)));
        assert!(way.contains("via 10.66.0.2 dev radio0 src 10.66.0.1"), "{way}");
        let status = manet.status(0);
        assert_eq!(status["routing"]["protocol"], spoken.name, "{status}");
        let route = status["routing"]["routes"].as_array().unwrap().iter();
        let far = route.clone().find(|it| it["to"] == "10.66.0.4/32").unwrap();
        assert_eq!((&far["via"], &far["hops"]), (&"10.66.0.2".into(), &3.into()), "{status}");
        let told = manet.told(0);
        assert!(!told.contains("another program"), "its ports are its own: {told}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_cable_that_is_cut_is_gone_round_and_a_transfer_goes_on() {
    for spoken in ALL {
        let mut manet = Manet::chain(spoken, 4);
        manet.join(3, 0);
        manet.start_all();
        manet.settle();
        manet.expect_reachable(0, &address(3));
        let direct = manet.run(0, &format!("ip route get {}", address(3)));
        let (from, to) = (manet.nodes[0].name.clone(), manet.nodes[3].name.clone());
        let transfer = Transfer::start(&from, (&to, &address(3)), ENDLESS);
        transfer.wait_for(100_000, SOON);

        // Only frames are lost: both interfaces stay up.
        for node in [0, 3] {
            for order in [
                "add table netdev cut",
                "add chain netdev cut in { type filter hook ingress device radio1 priority -500 ; policy drop ; }",
            ] {
                manet.run(node, &format!("nft {order}"));
            }
        }
        let goes_round = wait_until(SOON, || {
            let way = manet.run(0, "ip route show proto 116");
            way.lines().any(|it| it.starts_with("10.66.0.4 via 10.66.0.2 dev radio0"))
        });

        assert!(direct.contains("via 10.66.0.4 dev radio1"), "{direct}");
        assert!(goes_round, "{spoken:?}: {}", manet.told(0));
        transfer.wait_for(transfer.received() + 1_000_000, SOON);
        transfer.end();
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_may_go_and_come_back() {
    for spoken in ALL {
        let manet = Manet::running(spoken, 3);
        manet.settle();
        manet.expect_reachable(2, &address(0));

        manet.run(1, "ip link set radio1 down");
        let is_told =
            wait_until(SOON, || manet.status(1)["routing"]["state"] == "waits for radio1");
        assert!(is_told, "{}", manet.told(1));
        let has_gone = wait_until(SOON, || !manet.routes(1).contains(&address(2)));
        assert!(has_gone, "{spoken:?}: {}", manet.told(1));
        manet.expect_reachable(0, &address(1));

        manet.run(1, "ip link set radio1 up");
        manet.expect_reachable(2, &address(0));
        assert_eq!(manet.status(1)["services"][0]["restarts"], 0, "{}", manet.told(1));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routes_by_an_interface_end_with_it() {
    let mut manet = Manet::chain(DSDV, 3);
    for node in 0..3 {
        // A neighbour may be silent for longer than this test lasts.
        manet.configure(node, "hold = 100", "");
        manet.start(node);
    }
    manet.settle();

    manet.run(1, "ip link set radio1 down");

    let routes = || manet.status(1)["routing"]["routes"].to_string();
    let has_ended = wait_until(SOON / 2, || !routes().contains(&address(2)));
    assert!(has_ended && routes().contains(&address(0)), "{}", manet.told(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_that_somebody_removes_is_put_back() {
    let manet = Manet::running(DSDV, 3);
    manet.settle();

    manet.run(0, "ip route flush proto 116");

    let is_told = wait_until(SOON, || manet.count(0, "routing_routes_restored") >= 2);
    assert!(is_told, "{}", manet.told(0));
    manet.expect_routes(0, &[1, 2]);

    // What somebody has put in the place of ours stays, and is a fault until it is gone.
    let ours = manet.run(0, "ip route show 10.66.0.3");
    let words: Vec<&str> = ours.split_whitespace().collect();
    let metric = words[1 + words.iter().position(|word| *word == "metric").unwrap()];
    let theirs = format!("10.66.0.3 dev radio0 metric {metric}");
    manet.run(0, &format!("ip route replace {theirs}"));
    let said = "our route to 10.66.0.3/32 is not there: another program's has its place";
    let has_fault = || manet.status(0)["faults"].to_string().contains(said);
    assert!(wait_until(SOON, has_fault), "{}", manet.told(0));
    manet.run(0, &format!("ip route del {theirs}"));
    manet.expect_routes(0, &[1, 2]);
    assert!(wait_until(SOON, || !has_fault()), "{}", manet.told(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_that_somebody_changes_in_place_is_as_it_was() {
    let manet = Manet::running(DSDV, 3);
    manet.settle();
    let shown = || manet.run(0, "ip route show 10.66.0.3");
    let before = shown();
    let line = before.trim();
    manet.run(0, "ip address add 10.1.2.3/32 dev lo");

    for changed in [
        line.replace("src 10.66.0.1", "src 10.1.2.3"),
        format!("{line} mtu 300"),
        line.replace("via 10.66.0.2", "via 10.66.0.9"),
    ] {
        manet.run(0, &format!("ip route replace {changed}"));
        assert!(wait_until(SOON, || shown() == before), "{changed}: {}", shown());
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_removes_routes_all_the_time_is_told_and_answered_every_second() {
    let manet = Manet::running(DSDV, 3);
    manet.settle();
    let is_told = || manet.status(0)["faults"].to_string().contains("contested");
    let fight = |seconds| {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            manet.nets.try_run(&manet.nodes[0].name, "ip route flush proto 116");
        }
    };

    fight(2);
    assert!(is_told(), "{}", manet.told(0));
    let before = manet.count(0, "routing_routes_restored");
    fight(5);
    let restored = manet.count(0, "routing_routes_restored") - before;
    // Two routes, six times at most.
    assert!((2..=12).contains(&restored), "{restored}");

    manet.expect_routes(0, &[1, 2]);
    assert!(wait_until(SOON, || !is_told()), "{}", manet.told(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_comes_back_when_anothers_in_its_place_goes_with_its_interface() {
    let manet = Manet::running(DSDV, 3);
    manet.settle();
    manet.run(0, "ip link add other0 type veth peer name other1");
    manet.run(0, "ip link set other0 up");
    let ours = manet.run(0, "ip route show 10.66.0.3");
    let metric = ours.split("metric ").nth(1).unwrap().split(' ').next().unwrap();
    manet.run(0, &format!("ip route replace 10.66.0.3 dev other0 metric {metric}"));
    let has_fault = || manet.status(0)["faults"].to_string().contains("route-missing");
    assert!(wait_until(SOON, has_fault), "{}", manet.told(0));

    manet.run(0, "ip link set other0 down");

    manet.expect_routes(0, &[1, 2]);
    assert!(wait_until(SOON, || !has_fault()), "{}", manet.told(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routes_are_back_after_an_interface_went_and_came_unseen() {
    for spoken in ALL {
        let manet = Manet::running(spoken, 3);
        manet.settle();
        manet.expect_reachable(0, &address(2));
        let batch = manet.file(0).with_extension("batch");

        // One process of `ip`, so that nobody sees the moments in between.
        for lines in [
            "link set radio0 down\nlink set radio0 up\n".to_owned(),
            format!(
                "link del radio0\nlink add radio0 type veth peer name radio0 netns {}\n\
                 address add 10.66.0.1/32 dev radio0\nlink set radio0 up\n",
                manet.nodes[1].name
            ),
        ] {
            fs::write(&batch, &lines).unwrap();
            manet.run(0, &format!("ip -batch {}", batch.display()));
            if lines.contains("link del") {
                manet.run(1, "ip address add 10.66.0.2/32 dev radio0");
                manet.run(1, "ip link set radio0 up");
            }
            manet.expect_reachable(0, &address(2));
            let has_all = wait_until(SOON, || manet.routes(0).contains(&address(2)));
            assert!(has_all, "{spoken:?} after {lines}: {}", manet.told(0));
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_keeps_its_address_and_its_settings_whoever_adds_and_changes_others() {
    let manet = Manet::running(DSDV, 3);
    manet.settle();
    let forwarding = || manet.run(1, "sysctl -n net.ipv4.conf.radio0.forwarding") == "1\n";
    assert!(forwarding());

    manet.run(1, "ip address add 10.1.2.3/24 dev radio0");
    manet.run(1, "sysctl -qw net.ipv4.ip_forward=0");

    assert!(wait_until(SOON, forwarding), "{}", manet.told(1));
    let is_seen = wait_until(SOON, || {
        let all = manet.run(1, "ip -4 -o address show dev radio0");
        all.contains("10.1.2.3") && manet.count(1, "routing_messages_sent") > 0
    });
    assert!(is_seen);
    manet.expect_reachable(0, &address(2));
    let used = manet.status(1)["routing"]["interfaces"][0]["address"].clone();
    assert_eq!(used, "10.66.0.2", "{}", manet.told(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_filter_that_drops_what_new_neighbours_send_is_a_fault_with_the_remedy() {
    for spoken in [OLSR, DSDV] {
        let mut manet = Manet::chain(spoken, 2);
        manet.run(0, "sysctl -qw net.ipv4.conf.all.rp_filter=2");
        manet.start_all();
        let fault = |manet: &Manet| {
            let faults = manet.status(0)["faults"].clone();
            let faults = faults.as_array().unwrap();
            let its = faults.iter().find(|it| it["code"] == "setting-refused")?;
            Some(its["said"].as_str().unwrap().to_owned())
        };

        assert!(wait_until(SOON, || fault(&manet).is_some()), "{}", manet.told(0));
        let (said, file) = (fault(&manet).unwrap(), manet.file(0));
        let doctor = manet
            .nets
            .try_run(&manet.nodes[0].name, &format!("{TRACKWAY} doctor {}", file.display()));
        let remedy = "sysctl -w net.ipv4.conf.all.rp_filter=0";
        assert!(said.contains("radio0") && said.contains(remedy), "{said}");
        let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(doctor.contains("radio0") && doctor.contains(remedy), "{doctor}");

        manet.run(0, remedy);
        manet.settle();
        assert!(wait_until(SOON, || fault(&manet).is_none()), "{}", manet.told(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_that_somebody_puts_into_a_bridge_is_a_fault_until_it_is_out() {
    let manet = Manet::running(DSDV, 2);
    manet.settle();
    let is_told = || manet.status(0)["faults"].to_string().contains("radio0 is a port of a bridge");
    assert!(!is_told(), "{}", manet.told(0));

    manet.run(0, "ip link add bridge0 type bridge");
    manet.run(0, "ip link set radio0 master bridge0");
    assert!(wait_until(SOON, is_told), "{}", manet.told(0));
    manet.run(0, "ip link set radio0 nomaster");
    assert!(wait_until(SOON, || !is_told()), "{}", manet.told(0));
    manet.settle();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_rule_of_another_program_that_decides_before_our_routes_is_a_fault() {
    let manet = Manet::running(DSDV, 2);
    manet.settle();
    let is_told = || manet.status(0)["faults"].to_string().contains("rule-overruled");
    assert!(!is_told(), "{}", manet.told(0));

    manet.run(0, "ip rule add pref 10 lookup 99");
    manet.run(0, "ip route add unreachable 10.66.0.0/16 table 99");

    assert!(wait_until(SOON, is_told), "{}", manet.told(0));
    let faults = manet.status(0)["faults"].to_string();
    assert!(faults.contains("10.66.0.2"), "{faults}");
    manet.run(0, "ip rule del pref 10");
    assert!(wait_until(SOON, || !is_told()), "{}", manet.told(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn down_removes_the_routes_of_a_killed_node_and_refuses_while_it_runs() {
    let mut manet = Manet::running(DSDV, 2);
    manet.settle();
    let down = format!("{TRACKWAY} down");
    let refused = manet.nets.try_run(&manet.nodes[0].name, &down);
    assert!(!refused.status.success(), "{}", manet.told(0));
    manet.expect_routes(0, &[1]);

    manet.program(0).signal(Signal::SIGKILL);
    manet.program(0).finish(SOON);
    let said = manet.run(0, &down);

    assert!(said.contains("removed: route to 10.66.0.2/32"), "{said}");
    assert_eq!(manet.run(0, "ip route show proto 116"), "");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn another_configuration_takes_interfaces_and_leaves_the_routes_of_others() {
    let mut manet = Manet::running(DSDV, 3);
    manet.settle();
    let added = manet.nets.add("late");
    manet.nets.cable((&manet.nodes[1].name, "late0"), (&added, "radio0"));
    manet.nets.address(&manet.nodes[1].name, "late0", "10.66.0.2/32");
    let set_before = manet.count(1, "routing_routes_set");

    let interfaces = ["radio0", "radio1", "late0"].map(str::to_owned);
    manet.nodes[1].interfaces.extend(interfaces[2..].iter().cloned());
    manet.configure(1, "", "");
    let said = manet.run(1, &format!("{TRACKWAY} reload"));

    assert!(said.contains("interface late0 added"), "{said}");
    assert_eq!(manet.count(1, "routing_routes_set"), set_before, "{}", manet.told(1));
    manet.nodes[1].interfaces = interfaces[1..].to_vec();
    manet.configure(1, "", "");
    let said = manet.run(1, &format!("{TRACKWAY} reload"));
    assert!(said.contains("interface radio0 left"), "{said}");
    manet.expect_routes(1, &[2]);
    // What nobody can follow while it runs begins anew.
    manet.configure(1, "metric = 77", "");
    manet.run(1, &format!("{TRACKWAY} reload"));
    manet.expect_routes(1, &[2]);
    let route = manet.run(1, "ip route show proto 116");
    assert!(route.contains("metric 77"), "{route}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn hbh_runs_on_the_routes() {
    for spoken in ALL {
        let mut manet = Manet::chain(spoken, 3);
        for node in 0..3 {
            let interfaces = &manet.nodes[node].interfaces;
            manet.configure(node, "", &format!("[hbh]\ninterfaces = {interfaces:?}\n"));
            manet.start(node);
        }
        manet.settle();
        let is_up = wait_until(SOON, || manet.count(1, "neighbours") == 2);
        assert!(is_up, "{}", manet.told(1));

        manet.expect_reachable(0, &address(2));
        let (from, to) = (&manet.nodes[0].name, &manet.nodes[2].name);
        Transfer::start(from, (to, &address(2)), 2_000_000).finish(SOON);

        for counter in ["packets_intercepted", "packets_released"] {
            assert!(manet.count(1, counter) > 100, "{spoken:?} {counter}: {}", manet.told(1));
        }
    }
}
