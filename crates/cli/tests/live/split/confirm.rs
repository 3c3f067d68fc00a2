//! Tests closes that the server's host confirms.

use std::thread;

use nix::sys::socket::{setsockopt, sockopt};

use super::*;
use crate::namespaces::undisturbed;

const CONFIRM: &str = "[hfpep]\nconfirm-close = true\n";

#[test]
#[ignore = "needs root: run by ./test"]
fn a_client_that_has_ended_is_told_the_end_when_the_servers_host_has_all() {
    let mut net = Net::new(None);
    net.start(0, &(bearer(0, "192.0.2.") + CONFIRM));
    net.start(1, &bearer(1, "192.0.2."));
    net.expect_spares();
    // So little that most of what the client says waits elsewhere.
    let listener = net.listen(7);
    setsockopt(&listener, sockopt::RcvBuf, &4_096).unwrap();

    let (mut client, mut server) = net.pair(&listener);
    let said = vec![7; 200_000];
    client.write_all(&said).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.write_all(b"thanks").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    client.read_exact(&mut [0; 6]).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let early = undisturbed(|| client.read(&mut [0; 1])).map_err(|error| error.kind());
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = Vec::new();
    server.read_to_end(&mut heard).unwrap();
    let end = client.read(&mut [0; 1]).map_err(|error| error.kind());

    assert_eq!(early, Err(ErrorKind::WouldBlock));
    assert!(heard == said, "{}", heard.len());
    assert_eq!(end, Ok(0));
    for gateway in [0, 1] {
        net.expect_counter(gateway, "hfpep_bearer_closes_confirmed", 1);
    }

    // A client that has not ended learns nothing by the end, and gets it at once.
    let (mut client, server) = net.pair(&listener);
    drop(server);
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(client);

    // A gateway that is killed confirms nothing.
    let (mut client, mut server) = net.pair(&listener);
    client.write_all(&said).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);
    for program in [&mut client, &mut server] {
        let error = program.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn pages_and_transfers_go_with_confirmed_closes_too() {
    let mut net = Net::new(None);
    for gateway in [0, 1] {
        net.start(gateway, &(bearer(gateway, "192.0.2.") + CONFIRM));
    }
    net.expect_spares();

    net.expect_traffic();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_older_gateway_is_told_apart_and_named_in_the_log() {
    let mut net = Net::new(None);
    let bind = || TcpListener::bind("192.0.2.2:5099").unwrap();
    let older = net.nets.within(&net.sites.gateways[1], bind);
    // It knows no openings but those of version 0, and ends with the test.
    thread::spawn(move || {
        for peer in older.incoming() {
            thread::spawn(move || {
                let mut peer = peer.unwrap();
                let mut opening = [0; 2];
                if peer.read_exact(&mut opening).is_ok() {
                    let verdict = if opening[1] >> 5 == 0 { [0x50, 0, 0] } else { [0x50, 1, 8] };
                    let _ = peer.write_all(&verdict);
                    let _ = peer.read_to_end(&mut Vec::new());
                }
            });
        }
    });
    net.start(0, &(bearer(0, "192.0.2.") + CONFIRM));

    let error = net.ends_of("10.2.0.2:7");

    assert_eq!(error, ErrorKind::ConnectionReset);
    net.expect_counter(0, "hfpep_bearer_sessions_refused", 1);
    net.gateway(0).stop();
    let printed = net.nets.printed(net.programs[0].unwrap());
    assert!(printed.contains("the other gateway knows of no confirm-close"), "{printed}");
}
