//! Tests which nodes hear each other on the emulated air, and how the emulator ends.

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::bed::{Air, address, command, count, row};
use crate::animation::browse;
use crate::namespaces::{SOON, TRACKWAY, wait_until};

/// How long a test watches that nothing comes.
const MOMENT: Duration = Duration::from_millis(500);

#[test]
#[ignore = "needs root: run by ./test"]
fn nodes_in_range_reach_each_other_and_others_do_not() {
    let mut air = Air::row(&[0.0, 200.0, 400.0], "");

    assert!(air.is_answered(0, 1));
    assert!(air.is_answered(2, 1));
    assert!(!air.is_answered(0, 2));
    // Their kernels have asked for each other by broadcast.
    assert!(count(&air.end(), 0, "broadcasts") > 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_broadcast_is_heard_by_all_in_range() {
    let mut air = Air::row(&[0.0, 200.0, 400.0], "");
    let sockets: Vec<UdpSocket> = air
        .nodes
        .iter()
        .map(|node| air.nets.within(node, || UdpSocket::bind("0.0.0.0:4000").unwrap()))
        .collect();
    let heard_by = |from: usize| -> Vec<usize> {
        sockets[from].set_broadcast(true).unwrap();
        sockets[from].send_to(&[7; 100], "10.128.0.255:4000").unwrap();
        let others = (0..sockets.len()).filter(|node| *node != from);
        others
            .filter(|node| {
                // Whoever is in range hears it sooner or later, whoever is not never.
                let is_near = node.abs_diff(from) == 1;
                let patience = if is_near { SOON } else { MOMENT };
                sockets[*node].set_read_timeout(Some(patience)).unwrap();
                sockets[*node].recv(&mut [0; 200]).is_ok_and(|len| len == 100)
            })
            .collect()
    };

    assert_eq!(heard_by(0), [1]);
    assert_eq!(heard_by(1), [0, 2]);
    let report = air.end();
    assert_eq!([0, 1, 2].map(|node| count(&report, node, "broadcasts")), [1, 1, 0], "{report}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn senders_that_do_not_hear_each_other_destroy_each_others_frames() {
    let collisions = |sense_range: u32| {
        // No RTS, and nothing of the one is 10 dB above the other.
        let radio = format!("sense-range = {sense_range}\nrts-threshold = 3000\nqueue = 1000");
        let mut air = Air::row(&[0.0, 200.0, 400.0], &radio);
        air.introduce_all();
        let receiver = air.nets.within(&air.nodes[1], || UdpSocket::bind("0.0.0.0:4000").unwrap());
        for node in [0, 2] {
            let sender =
                air.nets.within(&air.nodes[node], || UdpSocket::bind("0.0.0.0:0").unwrap());
            for _ in 0..200 {
                sender.send_to(&[0; 1_000], (address(1), 4_000)).unwrap();
            }
        }
        // As long as something comes.
        receiver.set_read_timeout(Some(2 * MOMENT)).unwrap();
        while receiver.recv(&mut [0; 2_000]).is_ok() {}
        let report = air.end();
        assert_eq!(count(&report, 0, "received"), 200);
        count(&report, 1, "collisions")
    };

    let (hidden, seen) = (collisions(250), collisions(550));

    assert!(hidden > 100 && seen * 3 < hidden, "{hidden}, {seen}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_routing_daemon_finds_a_way_by_air() {
    let mut air = Air::row(&[0.0, 200.0, 400.0, 600.0], "");
    for node in 0..air.nodes.len() {
        let file = air.file(&format!("{node}.toml"));
        let text = "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"wlan0\"]\n\
                    hello-interval = \"300ms\"\nneighbour-hold = \"2s\"\ntc-interval = \"500ms\"\n\
                    topology-hold = \"5s\"\nmax-jitter = \"50ms\"\n";
        std::fs::write(&file, text).unwrap();
        let run = format!("{TRACKWAY} run {}", file.display());
        let name = air.nodes[node].clone();
        air.nets.run(&name, &format!("ip address replace {}/32 dev wlan0", address(node)));
        air.nets.run(&name, &format!("ip address del {}/24 dev wlan0", address(node)));
        air.nets.start(&name, &run, "gateway ready");
    }

    let is_reached = wait_until(SOON, || air.is_answered(0, 3));

    let route = air.nets.run(&air.nodes[0], &format!("ip route get {}", address(3)));
    assert!(is_reached && route.contains(&format!("via {}", address(1))), "{route}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn it_ends_by_itself_or_when_told_to() {
    let mut air = Air::row(&[0.0, 200.0], "");
    let file = air.file("scenario.toml");
    air.end();
    for signal in [None, Some(Signal::SIGINT), Some(Signal::SIGTERM)] {
        let options = if signal.is_none() { "--duration 300ms" } else { "" };
        let program = air.nets.start(&air.middle.clone(), &command(&file, options), "joined");
        if let Some(signal) = signal {
            air.nets.program(program).signal(signal);
        }

        let (code, printed) = air.nets.program(program).finish(SOON);

        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.starts_with("joined 2 stations with seed 1\n"), "{printed}");
        assert!(printed.contains("\"late_longest_s\""), "{printed}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_report_is_a_table_for_people() {
    let mut air = Air::row(&[0.0, 200.0], "");
    air.end();
    let command = command(&air.file("scenario.toml"), "--duration 200ms").replace("--json", "");

    let printed = air.nets.run(&air.middle, &command);

    for part in
        ["seed 1", "queue full", "\nn0 ", "\nn1 ", "on the air: 0 frames to one", "late by "]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn stations_without_an_interface_keep_silent() {
    let mut air = Air::row(&[0.0, 200.0], "");
    air.end();
    let file = air.file("three.toml");
    std::fs::write(&file, row(&[0.0, 200.0, 400.0], "")).unwrap();
    let command = command(&file, "--duration 100ms").replace("*=*", "n0=n0 --join n1=n1");
    let output = air.nets.try_run(&air.middle, &command);

    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("without an interface, and therefore silent: n2\n"), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_that_goes_away_ends_it() {
    let mut air = Air::row(&[0.0, 200.0], "");
    air.nets.run(&air.middle, "ip link delete dev n1");

    let (code, printed) = air.nets.program(air.program).finish(SOON);

    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("trackway: n1 is gone"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_was_on_the_air_is_a_picture_at_the_end() {
    let mut air = Air::row(&[0.0, 200.0], "");
    air.end();
    let page = air.file("run.html");
    let animated = command(&air.file("scenario.toml"), &format!("--animate {}", page.display()));
    air.program = air.nets.start(&air.middle, &animated, "joined");

    assert!(air.is_answered(0, 1));
    let report = air.end();

    let Some(seen) = browse("air", &std::fs::read_to_string(page).unwrap(), "0,0.5") else {
        return;
    };
    assert_eq!(seen["troubles"].as_array().map(Vec::len), Some(0), "{seen}");
    assert_eq!(seen["shown"][1]["drawn"], 2, "both stations are in the picture: {seen}");
    let places = serde_json::json!([[0, 0], [200, 0]]);
    assert_eq!(seen["shown"][0]["places"], places);
    let sent: u64 = [0, 1].map(|node| count(&report, node, "data")).iter().sum();
    let frames = seen["totals"]["frames"].as_u64().unwrap();
    assert!(sent >= 6 && frames >= sent * 4, "RTS, CTS, data, ACK: {frames} of {sent}");
}
