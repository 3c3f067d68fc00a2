//! Tests correct clients on the radio.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use emulator::namespace::within;
use testbed::Pair;
use testbed::probe::hub::Hub;
use testbed::probe::interface;

use super::sis::{BIND_ACCEPTED, BIND_REJECTED, UNIDATA_CONFIRM};
use super::{A, B, Net, SOON};
use crate::namespaces::{TRACKWAY, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn u_pdus_cross_both_ways_and_are_confirmed() {
    let mut net = Net::with_radio("--speed 240000 --ber 1e-6 --seed 1");
    let (mut a, mut b) = (net.bind(0, 3), net.bind(1, 5));

    for number in 0..20_u8 {
        a.send(B, 5, &[number; 2_000]);
        b.send(A, 3, &[number; 100]);
    }
    let mut arrived = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        arrived[0].push(a.receive());
        arrived[1].push(b.receive());
    }
    for arrived in &mut arrived {
        arrived.sort();
    }

    for number in 0..20_u8 {
        assert_eq!(arrived[0][usize::from(number)], [number; 100]);
        assert_eq!(arrived[1][usize::from(number)], [number; 2_000]);
    }
    let summary = net.summary();
    assert!(summary["a"]["transmissions"].as_u64() > Some(0), "{summary}");
    assert!(summary["b"]["octets_delivered"].as_u64() >= Some(40_000), "{summary}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_confirmation_comes_at_9600_bits_a_second_and_the_picture_is_drawn() {
    let mut net = Net::new();
    let (folder, picture) =
        (net.nets.folder().join("captures"), net.nets.folder().join("exchange.svg"));
    net.start_radio(&format!(
        "--speed 9600 --seed 2 --capture {} --timeline {}",
        folder.display(),
        picture.display()
    ));
    let (mut a, mut b) = (net.bind(0, 3), net.bind(1, 3));

    a.send(B, 3, b"over the horizon");

    assert_eq!(b.receive(), b"over the horizon");
    a.expect(UNIDATA_CONFIRM);
    net.summary();
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("9600"), "{svg}");
    for name in ["a", "b"] {
        let file = folder.join(format!("{name}.pcapng"));
        // Those that tshark knows: Edition 3 has no long sequence numbers.
        let filter = "s5066dts.type <= 8 || s5066dts.type == 15";
        let mut tshark = Command::new("tshark");
        let output = tshark.args(["-V", "-Y", filter, "-r"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("(Correct)") && !said.contains("Incorrect"), "{name}: {said}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn fifty_connections_share_sixteen_access_points() {
    let mut net = Net::with_radio("--speed 240000 --seed 3");
    let mut clients: Vec<_> = (0..50).map(|_| net.connect(0)).collect();

    let mut bound = Vec::new();
    for (number, mut client) in clients.drain(..).enumerate() {
        let sap = u8::try_from(number % 16).unwrap();
        client.bind(sap, 0);
        let answer = client.next(Instant::now() + SOON).unwrap();
        if number < 16 {
            assert_eq!(answer.kind, BIND_ACCEPTED, "{number}");
        } else {
            // The access point is in use.
            assert_eq!((answer.kind, &answer.body[..]), (BIND_REJECTED, &[3][..]), "{number}");
        }
        bound.push((sap, client));
    }
    let mut far: Vec<_> = (0..16).map(|sap| net.bind(1, sap)).collect();
    for (sap, client) in &mut bound[..16] {
        client.send(B, *sap, &[*sap; 500]);
    }

    for (sap, client) in far.iter_mut().enumerate() {
        assert_eq!(client.receive(), [u8::try_from(sap).unwrap(); 500]);
    }
    for (_, client) in &mut bound[..16] {
        client.expect(UNIDATA_CONFIRM);
    }
    // Who leaves makes room.
    drop(bound.remove(0));
    let (_, last) = bound.last_mut().unwrap();
    let has_room = wait_until(SOON, || {
        last.bind(0, 0);
        last.next(Instant::now() + SOON).unwrap().kind == BIND_ACCEPTED
    });
    assert!(has_room, "the access point is still in use");
    let summary = net.summary();
    assert_eq!(summary["a"]["connections_accepted"], 50, "{summary}");
}

/// As in `trackway bench hfpep`, whose far gateway is another host than the nodes.
#[test]
#[ignore = "needs root: run by ./test"]
fn nodes_without_radios_take_clients_of_another_host() {
    let pair = Pair::new(TRACKWAY).unwrap();
    let nodes = [5_066, 5_067].map(|port| SocketAddr::from(([10, 9, 0, 1], port)));
    let stop = AtomicBool::new(false);
    let mut hub = within(&pair.ends[0], || Hub::bind(nodes)).unwrap().unwrap();

    let arrived = thread::scope(|scope| {
        let carried = scope.spawn(|| hub.run(&stop));
        let arrived = within(&pair.ends[1], || interface::measure(nodes)).unwrap();
        stop.store(true, Ordering::Relaxed);
        carried.join().unwrap().unwrap();
        arrived
    });

    assert!(arrived.unwrap() > 0.0);
}
