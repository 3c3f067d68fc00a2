//! Tests the errors that programs see when a split connection fails.

use super::*;
use testbed::traffic::call;

#[test]
#[ignore = "needs root: run by ./test"]
fn who_is_refused_or_blocked_gets_a_reset_and_the_reason_is_known() {
    let mut net = Net::new(None);
    let rule = "[[rule]]\nname = \"no-mail\"\nto-port = 25\nblock = \"reset\"\n";
    net.start(0, &(bearer(0, "192.0.2.") + rule));
    net.start(1, &bearer(1, "192.0.2."));
    net.expect_spares();
    let _mail = net.listen(25);

    // One is answered before the far end knows of it, the other by the kernel.
    assert_eq!(net.ends_of("10.2.0.2:9"), ErrorKind::ConnectionReset);
    assert_eq!(net.ends_of("10.2.0.2:25"), ErrorKind::ConnectionRefused);

    net.expect(0, "a blocked connection", |status| status["rules"][0]["blocked"] == 1);
    net.expect_counter(0, "hfpep_bearer_sessions_refused", 1);
    net.expect_counter(1, "hfpep_bearer_sessions_declined", 1);
    net.expect_counter(1, "hfpep_targets_failed", 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_that_takes_no_connection_is_a_fault_until_it_does() {
    let mut net = Net::new(None);
    net.start(0, &bearer(0, "192.0.2."));
    let near = net.sites.gateways[0].clone();
    let code = "no-answer";

    net.expect(0, code, |status| status["faults"][0]["code"] == code);
    for (what, expected) in [("status", 3), ("doctor", 0)] {
        let file = if what == "doctor" { net.nets.folder().join("0.toml") } else { "".into() };
        let said = net.nets.try_run(&near, &format!("{TRACKWAY} {what} {}", file.display()));
        let told = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.status.code(), Some(expected), "{told}");
        assert!(told.contains("the gateway at 192.0.2.2:5099 takes no connection"), "{told}");
    }
    net.start(1, &bearer(1, "192.0.2."));

    net.expect(0, "no fault", |status| status["faults"].as_array().is_some_and(Vec::is_empty));
    let _ = net.pair(&net.listen(7));
    let (_, printed) = net.gateway(0).stop();
    let [begun, ended] = ["fault code=", "fault has ended code="]
        .map(|it| printed.lines().filter(|line| line.contains(&format!("{it}{code}"))).count());
    assert_eq!([begun, ended], [1, 1], "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reset_goes_through_either_way() {
    let net = Net::with_gateways(None);
    let listener = net.listen(7);

    for is_client in [true, false] {
        let (client, server) = net.pair(&listener);
        let (resets, mut told) = if is_client { (client, server) } else { (server, client) };
        nix::sys::socket::setsockopt(
            &resets,
            nix::sys::socket::sockopt::Linger,
            &nix::libc::linger { l_onoff: 1, l_linger: 0 },
        )
        .unwrap();
        drop(resets);

        let error = told.read_exact(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "client resets: {is_client}");
    }
    for gateway in [0, 1] {
        net.expect_counter(gateway, "hfpep_bearer_sessions_reset", 2);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_lacks_data_of_an_ended_connection_gets_a_reset_when_its_gateway_is_killed() {
    let mut net = Net::with_gateways(None);
    let listener = net.listen(7);
    // The client's host takes little of what its program does not read.
    let little = ["sysctl", "-qw", "net.ipv4.tcp_rmem=4096 4096 4096"];
    assert!(net.nets.try_words(&net.sites.client, &little).status.success());
    let (mut client, mut server) = net.pair(&listener);
    client.shutdown(Shutdown::Write).unwrap();
    server.write_all(&[7; 30_000]).unwrap();
    drop(server);
    for gateway in [0, 1] {
        net.expect(gateway, "no session", |status| status["hfpep"]["connections"] == 0);
    }

    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);

    let mut told = Vec::new();
    let ended = client.read_to_end(&mut told).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset, "after {} octets", told.len());
    assert!(told.len() < 30_000, "{}", told.len());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_stranger_is_refused_and_counted() {
    let net = Net::with_gateways(None);
    let to: SocketAddr = "192.0.2.2:5099".parse().unwrap();

    let connect = || TcpStream::connect_timeout(&to, PATIENCE);
    let ended = net.nets.within(&net.sites.server, connect).and_then(|mut stranger| {
        stranger.set_read_timeout(Some(PATIENCE))?;
        stranger.read(&mut [0; 1])
    });

    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    net.expect_counter(1, "hfpep_bearer_strangers_refused", 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_no_opening_is_refused_with_the_reason() {
    let net = Net::with_gateways(None);
    let to: SocketAddr = "192.0.2.2:5099".parse().unwrap();

    let connect = || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    let mut peer = net.nets.within(&net.sites.gateways[0], connect);
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).unwrap();

    // Refused: protocol error.
    assert_eq!(answer, [0x50, 1, 8]);
    net.expect_counter(1, "hfpep_bearer_openings_malformed", 1);
}

/// What another gateway says to an opening to port 7 of the server, over the bearer and for a client; and as whom
/// the server is connected to.
fn ask(
    net: &Net,
    listener: &TcpListener,
    from: &str,
    client: [u8; 4],
) -> ([u8; 3], Option<String>) {
    let [own, at] =
        [format!("{from}:0"), "192.0.2.2:5099".to_owned()].map(|at| at.parse().unwrap());
    let called = net.nets.within(&net.sites.gateways[0], || call(Some(own), at, 0, PATIENCE));
    let mut peer = called.unwrap();
    let opening = [&[0x50, 0, 0, 9, 0, 7][..], &client, &[10, 2, 0, 2]].concat();
    peer.write_all(&opening).unwrap();
    let mut answer = [0; 3];
    peer.read_exact(&mut answer).unwrap();
    let seen = (answer[1] == 0).then(|| listener.accept().unwrap().1.ip().to_string());
    (answer, seen)
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_borrows_the_address_of_a_client_only_if_it_has_that_client() {
    let mut net = Net::new(None);
    let admits = bearer(1, "192.0.2.").replacen("spare", "from = [\"192.0.2.0/24\"]\nspare", 1);
    net.start(1, &admits);
    // It may connect, and is no peer.
    net.nets.run(&net.sites.gateways[0], "ip address add 192.0.2.9/24 dev wan");
    let listener = net.listen(7);
    let (accepted, blocked) = ([0x50, 0, 0], [0x50, 1, 4]);

    for (from, client, answer, seen) in [
        ("192.0.2.1", [10, 1, 0, 2], accepted, Some("10.1.0.2")),
        ("192.0.2.1", [10, 77, 0, 2], accepted, Some("10.2.0.1")),
        ("192.0.2.9", [10, 77, 0, 2], accepted, Some("10.2.0.1")),
        ("192.0.2.9", [10, 1, 0, 2], blocked, None),
    ] {
        let expected = (answer, seen.map(str::to_owned));
        assert_eq!(ask(&net, &listener, from, client), expected, "{from} {client:?}");
    }
    net.expect_counter(1, "hfpep_targets_forbidden", 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn connections_are_reset_when_the_far_gateway_is_gone_and_go_on_when_it_is_back() {
    let mut net = Net::with_gateways(None);
    let listener = net.listen(7);
    let (mut client, mut server) = net.pair(&listener);

    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);

    for program in [&mut client, &mut server] {
        let error = program.read_exact(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(net.ends_of("10.2.0.2:7"), ErrorKind::ConnectionReset);
    net.expect(0, "the gateway down", |status| status["hfpep"]["gateways"][0]["state"] == "down");

    net.start(1, &bearer(1, "192.0.2."));
    net.pair(&listener);
    net.expect_spares();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn spare_connections_that_are_dead_are_found_and_made_anew() {
    let net = Net::with_gateways(None);
    let far = &net.sites.gateways[1];

    // Nobody says goodbye.
    net.nets.run(far, "ip address del 192.0.2.2/24 dev wan");
    net.expect_counter(0, "hfpep_bearer_spares_lost", SPARE);
    net.nets.run(far, "ip address add 192.0.2.2/24 dev wan");

    net.expect_spares();
    net.pair(&net.listen(7));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn calls_leave_from_the_address_of_listen() {
    let mut net = Net::new(None);
    // The kernel would take the first.
    for order in ["del 192.0.2.1/24", "add 192.0.2.9/24", "add 192.0.2.1/32"] {
        net.nets.run(&net.sites.gateways[0], &format!("ip address {order} dev wan"));
    }
    for gateway in [0, 1] {
        net.start(gateway, &bearer(gateway, "192.0.2."));
    }

    net.expect_spares();
    net.pair(&net.listen(7));
}
