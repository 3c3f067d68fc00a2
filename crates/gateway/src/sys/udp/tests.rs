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
fn datagrams_come_from_the_address_that_is_named_and_say_where_they_came_to() {
    for (listen, to, source) in [
        ("0.0.0.0:0", "127.0.0.9", "127.0.0.5"),
        ("[::]:0", "127.0.0.9", "127.0.0.5"),
        ("[::1]:0", "::1", "::1"),
    ] {
        let open = || {
            let udp = Udp::open(listen.parse().unwrap()).unwrap();
            udp.tell_destinations().unwrap();
            let port = socket::getsockname::<SockaddrStorage>(udp.fd.as_raw_fd()).unwrap();
            let v4 = port.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::port);
            let port = v4.or(port.as_sockaddr_in6().map(nix::sys::socket::SockaddrIn6::port));
            (udp, port.unwrap())
        };
        let ((near, near_port), (far, far_port)) = (open(), open());
        let (to, source): (IpAddr, IpAddr) = (to.parse().unwrap(), source.parse().unwrap());
        let head = Head { source: Some(source), ..Head::default() };

        assert!(near.send_alone(SocketAddr::new(to, far_port), head, b"hello"));

        let mut arrivals = Arrivals::default();
        assert_eq!(far.receive(&mut arrivals).unwrap(), 1, "{listen}");
        let arrived = arrivals.datagrams().next().unwrap();
        assert_eq!((arrived.to, arrived.from), (Some(to), SocketAddr::new(source, near_port)));
    }
}

#[test]
fn an_address_that_is_not_ours_any_more_is_not_insisted_on() {
    let udp = Udp::open("0.0.0.0:0".parse().unwrap()).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut outbox = Outbox::default();
    outbox.memory().extend_from_slice(b"hello");
    let source = Some("192.0.2.77".parse().unwrap());
    outbox.push_with(receiver.local_addr().unwrap(), 0, 5, Head { source, ..Head::default() });

    assert!(udp.send(&mut outbox));

    assert!(outbox.has_lost_source && outbox.refused == 0);
    assert_eq!(receiver.recv(&mut [0; 10]).unwrap(), 5);
}

#[test]
fn a_train_that_the_kernel_refuses_goes_in_datagrams_of_their_own() {
    let udp = Udp::open("127.0.0.1:0".parse().unwrap()).unwrap();
    // Without checksums the kernel does not segment.
    udp.set(libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    assert!(udp.send_runs(&mut train("127.0.0.1:9".parse().unwrap())).is_err());

    assert_eq!(arriving(&udp), datagrams());
}

#[test]
fn all_of_ipv6_leaves_the_same_port_of_ipv4_to_another_socket_if_told_to() {
    let other = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let all = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));

    let both = Udp::open(all).unwrap_err();
    let one = Udp::open_for(all, [false, true]).unwrap();

    assert_eq!(both.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(one.versions(), [false, true]);
}
