//! Connections that a router hands over in GRE, played by another gateway of ours.

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
    let file = net.folder.join("router.toml");
    let routes = "to = [\"10.2.0.0/24\"]\naddresses = [\"10.9.0.2/32\"]\n";
    fs::write(&file, tunnel(2, 1, routes)).unwrap();
    let router = net.client.clone();
    net.nets.start(&router, &format!("{TRACKWAY} run {}", file.display()), "gateway ready");
    let listener = net.listen(7);

    let (mut client, mut server) = net.pair(&listener);
    let from = server.peer_addr().unwrap();
    let status = net.status(0);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);

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
