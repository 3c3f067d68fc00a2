//! Tests clients that are answered once the far gateway has accepted for the target.

use super::*;

/// What connecting gives a client.
fn dial(net: &Net, to: (&str, u16)) -> Result<TcpStream, ErrorKind> {
    let to: SocketAddr = format!("{}:{}", to.0, to.1).parse().unwrap();
    let connect = || TcpStream::connect_timeout(&to, PATIENCE);
    net.nets.within(&net.sites.client, connect).map_err(|error| error.kind())
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_client_is_told_what_the_target_says_over_ip_too() {
    let mut net = Net::new(None);
    net.start(0, &format!("[hfpep]\nhandshake = \"end-to-end\"\n{}", bearer(0, "192.0.2.")));
    net.start(1, &bearer(1, "192.0.2."));
    net.expect_spares();
    let listener = net.listen(80);
    listener.set_nonblocking(true).unwrap();
    let far = net.sites.gateways[1].clone();
    net.nets.run(&far, "ip route add unreachable 10.2.0.9/32");

    assert_eq!(dial(&net, (SERVER, 81)).unwrap_err(), ErrorKind::ConnectionRefused);
    assert_eq!(dial(&net, ("10.2.0.9", 80)).unwrap_err(), ErrorKind::HostUnreachable);
    // More than there are spare connections.
    for _ in 0..2 * SPARE {
        let mut client = dial(&net, (SERVER, 80)).unwrap();
        let (mut server, from) = listener.accept().expect("connected before the target accepted");
        server.set_nonblocking(false).unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        // The server speaks first.
        server.write_all(b"220").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"hello");
    }
    for (counter, value) in [
        ("hfpep_handshakes_asked", 2 + 2 * SPARE),
        ("hfpep_handshakes_confirmed", 2 * SPARE),
        ("hfpep_handshakes_refused", 2),
        ("hfpep_connections_accepted", 2 * SPARE),
        ("hfpep_bearer_sessions", 0),
    ] {
        net.expect_counter(0, counter, value);
    }

    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);
    let told = dial(&net, (SERVER, 80)).unwrap_err();
    assert_eq!(told, ErrorKind::HostUnreachable, "{}", net.status(0));
}
