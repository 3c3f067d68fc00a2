//! Tests the message port against datagrams of strangers.

use std::net::UdpSocket;
use std::time::Duration;

use sar::Ports;
use sar::wire::{Body, Pdu, Place};

use super::bed::{Net, PORT, address_of};
use crate::logs::expect_bounded;

fn pdu(serial: u16, body: Body<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    let ports = Ports { source: PORT, destination: 0 };
    Pdu { ports, serial, body }.emit(&mut octets);
    octets
}

#[test]
#[ignore = "needs root: run by ./test"]
fn forged_acknowledgements_end_nothing_and_noise_is_counted() {
    let mut net = Net::star(2, "--delay 5ms");
    net.configure(0, "lifetime = \"6s\"\n");
    net.start(0);
    let mut sender = net.program(0);
    sender.send(&[address_of(2)], "", b"for nobody else");
    sender.expect("accepted");

    // The destination is dead; a neighbour says that it has everything, under each number.
    let forger = net.nets.within(&net.nodes[1], || UdpSocket::bind("10.9.1.2:1624").unwrap());
    for serial in 0..=u16::MAX {
        let forged = pdu(serial, Body::Complete { is_final: true });
        forger.send_to(&forged, "10.9.1.1:1624").unwrap();
        if serial % 64 == 0 {
            std::thread::yield_now();
        }
    }
    for noise in [&b""[..], b"x", &[0xff; 12], &[0; 700]] {
        forger.send_to(noise, "10.9.1.1:1624").unwrap();
    }

    assert_eq!(sender.outcomes(1)[0].2, "expired");
    assert_eq!(net.count(0, "outcomes_delivered"), 0);
    let comes = crate::namespaces::wait_until(crate::namespaces::SOON, || {
        net.count(0, "received_malformed") >= 3
    });
    assert!(comes, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_flood_of_messages_that_nobody_takes_is_bounded_and_others_still_send() {
    let mut net = Net::star(2, "");
    net.configure(0, "inbox = 50\n");
    net.start(0);
    net.start(2);
    let stranger = net.nets.within(&net.nodes[1], || UdpSocket::bind("10.9.1.2:1624").unwrap());
    for serial in 0..2_000 {
        let place = Place::new(1, 1).unwrap();
        let body = Body::Data { is_acknowledged: true, polls: true, place, data: b"spam" };
        let mut octets = Vec::new();
        let ports = Ports { source: 9, destination: serial };
        Pdu { ports, serial, body }.emit(&mut octets);
        stranger.send_to(&octets, "10.9.1.1:1624").unwrap();
    }

    let is_full = || net.count(0, "datagrams_no_room") > 0;
    assert!(crate::namespaces::wait_until(crate::namespaces::SOON, is_full), "{}", net.status(0));
    // A stranger has as much as it leaves to others, of a quarter for what nobody receives.
    let status = net.status(0);
    assert_eq!(status["sar"]["state"], "running");
    assert_eq!(status["sar"]["to_take"], 7, "{status}");
    let mut other = net.program(2);
    other.send(&["10.9.2.1".to_owned()], "", b"in");
    other.expect("accepted");
    assert_eq!(other.outcomes(1)[0].2, "delivered");
    let mut sender = net.program(0);
    sender.send(&[address_of(2)], "", b"out");
    sender.expect("accepted");
    assert_eq!(sender.outcomes(1)[0].2, "delivered");
    // No datagram writes a line.
    let (_, printed) = net.gateway(0).stop();
    expect_bounded(&printed, Duration::ZERO, &[]);
}
