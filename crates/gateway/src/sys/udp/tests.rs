use std::net::UdpSocket;
use std::time::Duration;

use super::*;

const DATAGRAMS: usize = 10;
const OCTETS: usize = 100;

/// What arrives of a train over loopback, in order.
fn arriving(udp: &Udp) -> Vec<Vec<u8>> {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut outbox = train(receiver.local_addr().unwrap());

    assert!(udp.send(&mut outbox));

    assert_eq!((outbox.refused, outbox.too_big), (0, None));
    let mut octets = [0; 2 * OCTETS];
    let datagrams = (0..DATAGRAMS).map(|_| {
        let len = receiver.recv(&mut octets).unwrap();
        octets[..len].to_vec()
    });
    datagrams.collect()
}

/// Datagrams that go in one message, the last one shorter.
fn train(to: SocketAddr) -> Outbox {
    let mut outbox = Outbox::default();
    for datagram in datagrams() {
        let start = outbox.memory().len();
        outbox.memory().extend_from_slice(&datagram);
        outbox.push(to, start, start + datagram.len());
    }
    assert_eq!(outbox.runs.len(), 1);
    outbox
}

fn datagrams() -> Vec<Vec<u8>> {
    let octets = |number: usize| if number + 1 < DATAGRAMS { OCTETS } else { OCTETS / 2 };
    (0..DATAGRAMS).map(|number| vec![number.to_le_bytes()[0]; octets(number)]).collect()
}

#[test]
fn a_train_arrives_as_the_datagrams_it_is_made_of() {
    let udp = Udp::open("127.0.0.1:0".parse().unwrap()).unwrap();

    assert_eq!(arriving(&udp), datagrams());
}

#[test]
fn a_train_that_the_kernel_refuses_goes_in_datagrams_of_their_own() {
    let udp = Udp::open("127.0.0.1:0".parse().unwrap()).unwrap();
    // Without checksums the kernel does not segment.
    udp.set(libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    assert!(udp.send_runs(&mut train("127.0.0.1:9".parse().unwrap())).is_err());

    assert_eq!(arriving(&udp), datagrams());
}
