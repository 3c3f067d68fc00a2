//! Tests SYN floods: an attacker opens connections from forged addresses and never completes them.

use std::os::fd::AsRawFd as _;

use base::ip::Checksum;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

use super::*;

/// SYNs: several times what may wait to be accepted.
const SYNS: u16 = 4_000;
/// Forged source addresses; nobody answers there (RFC 2544).
const NOBODY: &str = "198.18.0.0/15";

/// A SYN to port 7 of the server; its number is in its source.
fn syn(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let (source, target) = ([198, 18, high, low], [10, 2, 0, 2]);
    // Source port 40000, port 7, sequence number, no acknowledgement, 5 words, SYN, a window.
    let mut tcp = vec![0x9c, 0x40, 0, 7, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0];
    let pseudo = [&source[..], &target, &[0, 6, 0, 20]].concat();
    let sum = Checksum::default().with(&pseudo).with(&tcp).finish();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    // The kernel fills in the length and the checksum.
    let ip = [0x45, 0, 0, 40, high, low, 0, 0, 64, 6, 0, 0];
    [&ip[..], &source, &target, &tcp].concat()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_flood_of_syns_takes_no_descriptors_and_keeps_nobody_out() {
    let mut net = Net::with_gateways(None);
    let near = net.sites.gateways[0].clone();
    // What answers them is lost behind the client.
    net.nets.run(&near, &format!("ip route add {NOBODY} via {CLIENT}"));
    let listener = net.listen(7);
    let (mut client, mut server) = net.pair(&listener);
    let pid = net.gateway(0).pid();
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    // The spare connection that it took is replaced.
    net.expect_spares();
    let before = descriptors();

    let raw = net.nets.within(&net.sites.client, || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)
            .unwrap()
    });
    for number in 0..SYNS {
        let to = SockaddrIn::new(10, 2, 0, 2, 0);
        sendto(raw.as_raw_fd(), &syn(number), &to, MsgFlags::empty()).unwrap();
    }
    let half_open = net.nets.run(&near, "ss -Htn state syn-recv").lines().count();
    let during = descriptors();
    client.write_all(b"still here").unwrap();
    server.read_exact(&mut [0; 10]).unwrap();
    let (_new, _accepted) = net.pair(&listener);

    let status = net.status(0);
    assert!(half_open > 500, "{half_open} connections were begun: {status}");
    assert_eq!(during, before, "{status}");
    assert_eq!(status["hfpep_connections_accepted"], 2, "{status}");
    assert_eq!(status["hfpep_bearer_sessions"], 2, "{status}");
}
