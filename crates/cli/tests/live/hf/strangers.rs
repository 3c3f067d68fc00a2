//! Tests clients from other hosts, and foreign nodes that violate the protocol.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::sis::{BIND_ACCEPTED, Client, envelope};
use super::{Net, SOON};
use crate::namespaces::{TRACKWAY, wait_until};

/// Time limit for a slow event: a bind without an answer, and then another attempt.
const LATE: Duration = Duration::from_secs(120);

/// Two hosts with a cable beside the radio: 10.9.0.1 and 10.9.0.2.
fn cabled() -> Net {
    let net = Net::new();
    let [a, b] = net.hosts.clone();
    net.nets.cable((&a, "eth0"), (&b, "eth0"));
    net.nets.address(&a, "eth0", "10.9.0.1/24");
    net.nets.address(&b, "eth0", "10.9.0.2/24");
    net
}

/// A client of the node of host A, from one of the hosts, by the address on the cable.
fn connect(net: &Net, from: usize) -> Client {
    let stream = net.nets.within(&net.hosts[from], || TcpStream::connect("10.9.0.1:5066").unwrap());
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    Client::new(stream)
}

/// Whether a connection is closed without an answer.
fn is_turned_away(mut client: Client) -> bool {
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        match client.stream.read(&mut [0; 64]) {
            Ok(0) => return true,
            Ok(_) => return false,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
    }
    false
}

/// Whether a client gets the access point that it asks for.
fn is_bound(client: &mut Client, sap: u8) -> bool {
    client.bind(sap, 0);
    client.next(Instant::now() + SOON).is_some_and(|answer| answer.kind == BIND_ACCEPTED)
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_comes_from_elsewhere_is_turned_away_unless_it_is_allowed() {
    let mut net = cabled();
    net.start_radio("--sis-a 0.0.0.0:5066 --seed 21");

    assert!(is_bound(&mut connect(&net, 0), 3), "this host, by an address that others reach");
    for _ in 0..3 {
        assert!(is_turned_away(connect(&net, 1)));
    }
    let said = "node A: a client is turned away: 10.9.0.2 is not among those who are allowed: allow = \"10.9.0.2/32\"";
    let radio = net.radio.unwrap();
    let is_said = || net.nets.printed(radio).matches(said).count() == 1;
    assert!(wait_until(SOON, is_said), "{}", net.nets.printed(radio));
    let summary = net.summary();
    assert_eq!(summary["a"]["connections_strangers"], 3, "{summary}");
    assert_eq!(summary["a"]["connections_accepted"], 1, "{summary}");

    net.start_radio("--sis-a 0.0.0.0:5066 --allow 192.0.2.0/24,10.9.0.0/24 --seed 21");

    assert!(is_bound(&mut connect(&net, 1), 3));
    assert!(is_bound(&mut connect(&net, 0), 4));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reload_lets_others_in_and_keeps_who_is_there() {
    let mut net = cabled();
    let config = |more: &str| {
        format!(
            "[s5066]\naddress = \"0.10.20.30\"\nlisten = \"0.0.0.0:5066\"\nmodem = \"127.0.0.1:3000\"\n\
             waveform = \"9600/short\"\n{more}"
        )
    };
    net.start_gateway(0, &config(""));
    let mut local = connect(&net, 0);
    assert!(is_bound(&mut local, 3));
    assert!(is_turned_away(connect(&net, 1)));
    assert!(is_turned_away(connect(&net, 1)));
    assert_eq!(net.status(0)["s5066_connections_strangers"], 2, "{}", net.status(0));

    let file = net.nets.folder().join("0.toml");
    std::fs::write(&file, config("allow = [\"10.9.0.0/24\"]\n")).unwrap();
    net.nets.run(&net.hosts[0], &format!("{TRACKWAY} reload"));

    assert!(is_bound(&mut connect(&net, 1), 4));
    // The client keeps its connection and its access point.
    local.write(&envelope(17, &[]));
    local.expect(17);
    assert!(!is_bound(&mut connect(&net, 0), 3), "the access point is still in use");
    let (_, printed) = net.gateway(0).stop();
    assert_eq!(
        printed.matches("a client of the node is turned away: 10.9.0.2").count(),
        1,
        "{printed}"
    );
}

/// A fake node; the test chooses its messages.
struct Fake(TcpListener);

impl Fake {
    /// The next connection, once its bind has come.
    fn bind_request(&self, net: &Net) -> TcpStream {
        let mut connection = None;
        let comes = wait_until(LATE, || {
            connection = self.0.accept().ok();
            connection.is_some()
        });
        assert!(comes, "it does not connect: {}", net.status(0));
        let mut stream = connection.unwrap().0;
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LATE)).unwrap();
        let mut request = [0; 9];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request[..7], [0x90, 0xeb, 0, 0, 4, 1, 0x90]);
        stream
    }
}

fn expect_trouble(net: &Net, what: &str) {
    let status = || net.status(0)["ipclient"]["trouble"].as_str().unwrap_or_default().to_owned();
    assert!(wait_until(LATE, || status().contains(what)), "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_that_does_what_it_should_not_is_left_with_the_reason_and_tried_again() {
    let mut net = Net::new();
    let listener =
        net.nets.within(&net.hosts[0].clone(), || TcpListener::bind("127.0.0.1:5066").unwrap());
    listener.set_nonblocking(true).unwrap();
    let node = Fake(listener);
    net.start_ip_client(0);

    let silent = node.bind_request(&net);
    expect_trouble(&net, "the node has not answered the bind request within 20 s");
    drop(silent);

    let mut swapped = node.bind_request(&net);
    swapped.write_all(&[0x90, 0xeb, 0, 0, 4, 3, 0x90, 0, 8]).unwrap();
    expect_trouble(&net, "it would be 2048, so the node probably sends numbers low octet first");
    drop(swapped);

    let mut swapped = node.bind_request(&net);
    swapped.write_all(&[0x90, 0xeb, 0, 4, 0, 3, 0x90, 8, 0]).unwrap();
    expect_trouble(&net, "its size has its two octets swapped");
    drop(swapped);

    let mut good = node.bind_request(&net);
    good.write_all(&[0x90, 0xeb, 0, 0, 4, 3, 0x90, 8, 0]).unwrap();
    net.expect_state(0, "ipclient", "bound");
    assert_eq!(net.status(0)["ipclient"].get("trouble"), None, "{}", net.status(0));
    // A datagram behind two counts of blocks, and then something that is neither form.
    let datagram = [
        0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0x26, 0x1f, 10, 88, 0, 2, 10, 88, 0, 1, 0, 9, 0, 9,
        0, 8, 0, 0,
    ];
    let start = [0x09, 0xe0, 0x0a, 0x14, 0x1e, 0x19, 0xe0, 0x0a, 0x14, 0x1f, 0, 28];
    good.write_all(&envelope(21, &[&start[..], &[0; 4], &datagram].concat())).unwrap();
    good.write_all(&envelope(21, &[&start[..], &[0; 6], &datagram].concat())).unwrap();

    let arrives = || {
        let status = net.status(0);
        status["ipclient_packets_out"] == 1 && status["ipclient"]["invalid"] == 2
    };
    // The size that was swapped is the other one.
    assert!(wait_until(SOON, arrives), "{}", net.status(0));
    let status = net.status(0);
    let counts = ["unanswered", "mtu_refused", "invalid"]
        .map(|name| status[format!("ipclient_sis_{name}")].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 2], "{status}");
    let (_, printed) = net.gateway(0).stop();
    for said in ["has not answered the bind", "what the server said is passed over"] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
}
