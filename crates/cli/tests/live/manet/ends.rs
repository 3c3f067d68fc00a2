//! Tests what a node leaves behind at its end, and the settings a node never touches.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;

use crate::manet::bed::{ALL, DSDV, Manet, address};
use crate::namespaces::{SOON, TRACKWAY, wait_until};

/// Settings of the kernel that are changed while it runs.
const SETTINGS: [&str; 5] = [
    "net.ipv4.conf.radio0.forwarding",
    "net.ipv4.conf.radio0.rp_filter",
    "net.ipv4.conf.radio0.accept_redirects",
    "net.ipv4.conf.radio0.send_redirects",
    "net.ipv4.conf.all.send_redirects",
];

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_that_ends_leaves_the_kernel_as_it_was() {
    for spoken in ALL {
        let mut manet = Manet::chain(spoken, 3);
        // A route like ours from another program, and a route without a conflict.
        manet.run(1, "ip route add 10.66.0.9/32 dev radio0 metric 4096");
        manet.run(1, "ip route add 10.66.0.3/32 dev radio0 metric 9000");
        let state = |manet: &Manet| {
            let settings = SETTINGS.map(|name| manet.run(1, &format!("sysctl {name}")));
            let links: BTreeSet<_> = manet
                .run(1, "ip -o link")
                .lines()
                .map(|it| it.split(':').nth(1).unwrap().to_owned())
                .collect();
            (manet.run(1, "ip route"), manet.run(1, "ip rule"), links, settings)
        };
        let before = state(&manet);
        manet.start_all();
        manet.settle();
        manet.expect_reachable(0, &address(2));
        let during = state(&manet);
        assert!(during.0.contains("proto 116"), "{during:?}");
        assert_ne!(during.3, before.3);

        let (code, printed) = manet.program(1).stop();

        assert_eq!(code, Some(0), "{printed}");
        assert_eq!(state(&manet), before, "{spoken:?}");
        let tables = manet.run(1, "nft list ruleset");
        assert!(tables.is_empty(), "{tables}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_a_killed_node_left_is_removed_at_the_next_start() {
    for spoken in ALL {
        let mut manet = Manet::running(spoken, 3);
        manet.settle();
        manet.expect_reachable(0, &address(2));
        manet.program(0).signal(Signal::SIGKILL);
        manet.program(0).finish(SOON);
        let left = manet.routes(0);
        assert!(left.contains(&address(2)), "{left:?}");
        // Nobody is there any more who would tell of routes.
        manet.run(0, "ip link set radio0 down");
        manet.run(0, "ip link set radio0 up");
        for node in [1, 2] {
            manet.program(node).stop();
        }
        manet.run(0, "ip route add 10.66.0.9/32 dev radio0 proto 117 metric 4096");
        manet.run(0, "ip route replace 10.66.0.3/32 dev radio0 proto 116 metric 4096");
        manet.start(0);

        assert!(manet.routes(0).is_empty(), "{spoken:?}: {}", manet.told(0));
        assert_eq!(manet.count(0, "routing_routes_left_over"), 1, "{}", manet.told(0));
        let others = manet.run(0, "ip route show proto 117");
        assert!(others.contains("10.66.0.9"), "{others}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_of_another_with_the_same_prefix_and_metric_stays_until_it_is_removed() {
    let mut manet = Manet::chain(DSDV, 3);
    let theirs = "10.66.0.3 dev radio0 proto static scope link metric 4096";
    manet.run(0, &format!("ip route add {theirs}"));
    manet.start_all();

    let is_told = wait_until(SOON, || manet.count(0, "routing_routes_conflicting") > 0);
    assert!(is_told, "{}", manet.told(0));
    manet.expect_routes(0, &[1]);
    let all = manet.run(0, "ip route show 10.66.0.3");
    assert_eq!(all.trim(), theirs);
    let printed = manet.told(0);
    assert!(printed.contains("another's route has this prefix and metric"), "{printed}");

    manet.run(0, &format!("ip route del {theirs}"));
    manet.expect_routes(0, &[1, 2]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_cannot_be_run_is_said_in_one_line() {
    let manet = Manet::chain(DSDV, 2);
    let taken = manet
        .nets
        .within(&manet.nodes[1].name, || std::net::UdpSocket::bind("0.0.0.0:269").unwrap());
    for (from, to, code, expected) in [
        ("radio0", "radio0", 1, "no socket for UDP port 269 on radio0: another routing daemon"),
        ("dsdv", "rip", 2, ":3: routing.protocol: \"rip\" is not allowed"),
    ] {
        manet.configure(1, "", "");
        let text = std::fs::read_to_string(manet.file(1)).unwrap().replace(from, to);
        std::fs::write(manet.file(1), text).unwrap();

        let command = format!("{TRACKWAY} run {}", manet.file(1).display());
        let output = manet.nets.try_run(&manet.nodes[1].name, &command);

        let said = String::from_utf8_lossy(&output.stderr);
        let complaint = said.lines().last().unwrap_or_default();
        assert!(complaint.contains(expected), "{said}");
        assert_eq!(output.status.code(), Some(code), "{said}");
    }
    drop(taken);
}
