//! Connections that a router hands over in GRE, played by another gateway of ours.

use nix::sys::socket::{getsockopt, sockopt};

use super::*;

#[test]
#[ignore = "needs root: run by ./test"]
fn connections_that_come_in_gre_are_split_and_their_answers_go_back_in_it() {
    let mut net = Net::new(None);
    let tunnel = |own, other, more: &str| {
        format!("[[gre]]\nlocal = \"10.1.0.{own}\"\nremote = \"10.1.0.{other}\"\n{more}")
    };
    net.start(0, &(bearer(0, "192.0.2.") + &tunnel(1, 2, "to = [\"10.9.0.0/24\"]\n")));
    // What is behind the router is behind its gateway too.
    let behind = "[\"10.1.0.0/24\", \"10.9.0.0/24\"]";
    net.start(1, &bearer(1, "192.0.2.").replace("[\"10.1.0.0/24\"]", behind));
    net.expect_spares();
    let file = net.nets.folder().join("router.toml");
    let routes = "to = [\"10.2.0.0/24\"]\naddresses = [\"10.9.0.2/32\"]\n";
    fs::write(&file, tunnel(2, 1, routes)).unwrap();
    let router = net.sites.client.clone();
    net.nets.start(&router, &format!("{TRACKWAY} run {}", file.display()), "gateway ready");
    let listener = net.listen(7);

    let (mut client, mut server) = net.pair(&listener);
    let from = server.peer_addr().unwrap();
    let status = net.status(0);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(server);
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);

    assert_eq!(
        (from.ip().to_string(), from),
        ("10.9.0.2".to_owned(), client.local_addr().unwrap())
    );
    assert_eq!(status["hfpep"]["sessions"][0]["target"], "10.2.0.2:7", "{status}");
    for counter in ["gre_received", "gre_sent"] {
        assert!(status[counter].as_u64() > Some(2), "{counter}: {status}");
    }
    for gateway in [0, 1] {
        net.expect_counter(gateway, "hfpep_bearer_sessions_finished", 1);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn connections_through_gre_keep_to_the_narrower_end_in_both_directions() {
    let mut net = Net::new(None);
    let [near, far] = net.sites.gateways.clone();
    net.nets.run(&near, "sysctl -qw net.ipv4.ip_forward=1");
    net.nets.run(&far, "ip route add 10.9.0.0/24 via 192.0.2.1");
    let tunnel = |own, other, more: &str| {
        format!("[[gre]]\nlocal = \"10.1.0.{own}\"\nremote = \"10.1.0.{other}\"\n{more}")
    };
    net.start(0, &tunnel(1, 2, "to = [\"10.9.0.0/24\"]\nmtu = 1300\n"));
    // The router's device carries more than the gateway's: its own SYNs ask for too much.
    let file = net.nets.folder().join("router.toml");
    fs::write(&file, tunnel(2, 1, "to = [\"192.0.2.0/24\"]\naddresses = [\"10.9.0.2/32\"]\n"))
        .unwrap();
    let router = net.sites.client.clone();
    net.nets.start(&router, &format!("{TRACKWAY} run {}", file.display()), "gateway ready");
    let listener = net.nets.within(&far, || TcpListener::bind("192.0.2.2:7").unwrap());

    let (client, server) = net.pair(&listener);

    // Linux takes twelve octets of them for its timestamps.
    for (stream, whose) in [(&client, "client"), (&server, "server")] {
        let segment = getsockopt(stream, sockopt::TcpMaxSeg).unwrap();
        assert_eq!(segment, 1_300 - 40 - 12, "{whose}: {}", net.status(0));
    }
    // The SYN came out of the tunnel, and its answer went in.
    net.expect_counter(0, "gre_syns_clamped", 2);
}
