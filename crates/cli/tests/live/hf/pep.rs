//! Tests TCP of unmodified programs over the radio by HF-PEP.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::{Net, SOON};
use crate::namespaces::{Program, wait_until};
use testbed::traffic::Transfer;

/// How long a program waits for the radio.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const FAST: &str = "--speed 240000 --seed 12";

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_that_is_not_there_or_says_nothing_is_a_fault_until_it_binds() {
    let mut net = Net::new();
    net.addresses();
    net.start_gateway(0, &(super::ip_client(0) + &pep(0)));
    let all = ["hfpep", "ipclient"].map(|name| format!("{name}: the node at 127.0.0.1:5066 "));
    let expect = |net: &Net, does: &str| {
        let all = all.each_ref().map(|it| format!("{it}{does}"));
        net.expect_silent(0, &all.each_ref().map(|it| &it[..]));
    };

    expect(&net, "refuses or is silent");
    let mute = net.nets.within(&net.hosts[0], || TcpListener::bind("127.0.0.1:5066").unwrap());
    assert!(wait_until(SOON, || mute.accept().is_ok()));
    expect(&net, "refuses or is silent");
    drop(mute);
    net.start_radio(FAST);

    for service in ["hfpep", "ipclient"] {
        net.expect_state(0, service, "bound");
    }
    net.expect_silent(0, &[]);
}

impl Net {
    /// Gives both hosts addresses and some way to each other, which only HF-PEP makes lead anywhere.
    pub fn addresses(&self) {
        for (host, own) in [(0, 1), (1, 2)] {
            for command in [
                "sysctl -qw net.ipv6.conf.all.disable_ipv6=0".to_owned(),
                "ip link add lan0 type veth peer name lan1".to_owned(),
                "sysctl -qw net.ipv6.conf.lan0.disable_ipv6=0".to_owned(),
                "ip link set lan0 up".to_owned(),
                "ip link set lan1 up".to_owned(),
                format!("ip address add 10.{own}.0.1/16 dev lan0"),
                format!("ip address add fd0{own}::1/32 dev lan0 nodad"),
                "ip route add default dev lan0".to_owned(),
                "ip -6 route add default dev lan0".to_owned(),
            ] {
                self.nets.run(&self.hosts[host], &command);
            }
        }
    }

    /// Two hosts, the radio, and HF-PEP on both hosts, `more` in the configuration of the first.
    pub fn with_peps(options: &str, more: &str) -> Self {
        let mut net = Self::with_radio(options);
        net.addresses();
        net.start_gateway(0, &(pep(0) + more));
        net.start_gateway(1, &pep(1));
        for host in [0, 1] {
            net.expect_state(host, "hfpep", "bound");
        }
        net
    }

    pub fn listen(&self, host: usize, at: &str) -> TcpListener {
        let listener = self.nets.within(&self.hosts[host], || TcpListener::bind(at).unwrap());
        let patience = TimeVal::seconds(PATIENCE.as_secs().cast_signed());
        setsockopt(&listener, sockopt::ReceiveTimeout, &patience).unwrap();
        listener
    }

    pub fn dial(&self, host: usize, to: &str) -> TcpStream {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        let stream = self.nets.within(&self.hosts[host], connect);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

pub fn pep(host: usize) -> String {
    let node = ["0.10.20.31", "0.10.20.30"][host];
    let far = 2 - host;
    format!("[[hfpep.peer]]\nnode = \"{node}\"\nto = [\"10.{far}.0.0/16\", \"fd0{far}::/32\"]\n")
}

#[test]
#[ignore = "needs root: run by ./test"]
fn connections_keep_their_addresses_and_both_directions_end_by_themselves() {
    let net = Net::with_peps(FAST, "");

    for (own, far) in [("10.1.0.1", "10.2.0.1:7"), ("fd01::1", "[fd02::1]:7")] {
        let listener = net.listen(1, far);
        let mut client = net.dial(0, far);
        client.write_all(b"a question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut asked = String::new();
        server.read_to_string(&mut asked).unwrap();
        server.write_all(b"the answer").unwrap();
        drop(server);
        let mut told = String::new();
        client.read_to_string(&mut told).unwrap();

        assert_eq!((asked.as_str(), told.as_str()), ("a question", "the answer"));
        assert_eq!(from, client.local_addr().unwrap());
        assert_eq!(from.ip().to_string(), own);
    }
    let is_over = || [0, 1].iter().all(|&host| net.status(host)["hfpep"]["connections"] == 0);
    assert!(wait_until(SOON, is_over), "{}\n{}", net.status(0), net.status(1));
}

/// A client asks by radio for a private target, to which only the default route of the far host leads. The far gateway
/// has this configuration.
fn expect_no_default_route(config: &str) {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    let [client, far] = net.hosts.clone();
    // What leaves the far host, which has both ends of its cable.
    let script = net.nets.folder().join("watch");
    fs::write(
        &script,
        "add table netdev watch { counter left { }; chain in { type filter hook ingress device lan1 priority 0; ip \
         daddr 10.60.0.0/24 counter name left; }; }",
    )
    .unwrap();
    net.nets.run(&far, &format!("nft -f {}", script.display()));
    let has_left =
        |net: &Net| !net.nets.run(&far, "nft list counter netdev watch left").contains("packets 0");
    net.start_gateway(0, &pep(0).replace("to = [", "to = [\"10.60.0.0/24\", "));
    net.start_gateway(1, config);
    for host in [0, 1] {
        net.expect_state(host, "hfpep", "bound");
    }
    // As if a router were there.
    net.nets.run(&far, "ip neigh replace 10.60.0.2 lladdr 02:00:00:00:00:01 dev lan0");
    let to: SocketAddr = "10.60.0.2:7".parse().unwrap();
    let ask = || net.nets.within(&client, || TcpStream::connect_timeout(&to, PATIENCE).unwrap());

    let _asked = ask();
    let is_told = wait_until(2 * SOON, || {
        net.status(1)["faults"]
            .to_string()
            .contains("private addresses to which only a default route")
    });

    assert!(is_told, "{}", net.status(1));
    assert!(net.status(1)["hfpep_packets_in_clear"].as_u64() > Some(0));
    assert!(!has_left(&net), "{}", net.status(1));
    // A route that somebody has for the network is meant.
    net.nets.run(&far, "ip route add 10.60.0.0/24 dev lan0");
    net.nets.run(&far, "ip neigh replace 10.60.0.2 lladdr 02:00:00:00:00:01 dev lan0");
    let _again = ask();
    assert!(wait_until(2 * SOON, || has_left(&net)), "{}", net.status(1));
    net.expect_state(1, "hfpep", "bound");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_came_by_radio_for_private_targets_follows_no_default_route() {
    expect_no_default_route(&pep(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn in_shore_mode_it_does_not_either() {
    expect_no_default_route("[hfpep]\nmode = \"shore\"\n");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn transfers_both_ways_arrive_whole_beside_each_other() {
    let net = Net::with_peps("--speed 240000 --ber 1e-6 --seed 13", "");
    let [a, b] = &net.hosts;

    let there = Transfer::start(a, (b, "10.2.0.1"), 200_000);
    let back = Transfer::start(b, (a, "10.1.0.1"), 200_000);
    let more = Transfer::start(a, (b, "fd02::1"), 50_000);

    for transfer in [there, back, more] {
        transfer.finish(2 * SOON);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_is_refused_or_blocked_gets_a_reset() {
    let rule = "[[rule]]\nname = \"no-mail\"\nto-port = 25\nblock = \"reset\"\n";
    let net = Net::with_peps(FAST, rule);
    let _mail = net.listen(1, "10.2.0.1:25");

    // The rule decides before the connection is answered; the other reset comes when it is there.
    for (to, told) in
        [("10.2.0.1:9", ErrorKind::ConnectionReset), ("10.2.0.1:25", ErrorKind::ConnectionRefused)]
    {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENCE);
        let ended = net.nets.within(&net.hosts[0], connect).and_then(|mut client| {
            client.set_read_timeout(Some(PATIENCE))?;
            client.write_all(b"is anybody there?")?;
            client.read(&mut [0; 10])
        });

        assert_eq!(ended.unwrap_err().kind(), told, "{to}");
    }
    let (near, far) = (net.status(0), net.status(1));
    assert_eq!(near["rules"][0]["blocked"], 1, "{near}");
    assert_eq!(near["hfpep_connections_refused"], 0, "{near}");
    assert_eq!(far["hfpep_targets_failed"], 1, "{far}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_port_of_the_gateway_stands_for_a_target() {
    let listen = "[[hfpep.listen]]\nat = \"127.0.0.1:8000\"\nnode = \"0.10.20.31\"\n\
                  target = \"10.2.0.1:80\"\n";
    let net = Net::with_peps(FAST, listen);
    let listener = net.listen(1, "10.2.0.1:80");

    let mut client = net.dial(0, "127.0.0.1:8000");
    client.write_all(b"hello").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();

    assert_eq!(&heard, b"hello");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_connection_survives_its_nodes_and_is_reset_when_a_gateway_is_gone() {
    let mut net = Net::with_peps(FAST, "");
    let listener = net.listen(1, "10.2.0.1:7");
    let mut client = net.dial(0, "10.2.0.1:7");
    client.write_all(b"before").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = [0; 6];
    server.read_exact(&mut heard).unwrap();

    // Both nodes at once, with what they hold.
    let status = net.status(0);
    let session = &status["hfpep"]["sessions"][0];
    assert_eq!((&session["target"], &session["state"]), (&"10.2.0.1:7".into(), &"open".into()));
    // The opening, and what was written.
    assert_eq!(session["octets_written"], 14 + 6, "{status}");
    client.write_all(b" in between").unwrap();
    net.radio().signal(Signal::SIGKILL);
    net.radio().finish(SOON);
    net.expect_state(0, "hfpep", "no connection");
    client.write_all(b" after").unwrap();
    net.start_radio(FAST);
    for host in [0, 1] {
        net.expect_state(host, "hfpep", "bound");
    }
    let mut rest = [0; 17];
    server.read_exact(&mut rest).unwrap();
    server.write_all(b"all of it").unwrap();
    let mut told = [0; 9];
    client.read_exact(&mut told).unwrap();

    assert_eq!(&rest, b" in between after");
    assert_eq!(&told, b"all of it");

    // The far gateway, which tells nobody before the next one does.
    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);
    let error = server.read_exact(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    net.start_gateway(1, &pep(1));
    let error = client.read_exact(&mut [0; 1]).unwrap_err();

    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nothing_of_hf_pep_stays_behind_when_it_ends() {
    let mut net = Net::with_peps(FAST, "");
    let host = net.hosts[0].clone();
    let left = |net: &Net| {
        let commands = ["nft list tables", "ip rule", "ip -6 rule", "ip route show table 29810"];
        commands.map(|command| net.nets.run(&host, command)).concat()
    };
    let before = left(&net);

    net.gateway(0).signal(Signal::SIGTERM);
    net.gateway(0).finish(SOON);

    for mine in ["inet trackway", "29810", "local default"] {
        assert!(before.contains(mine), "{before}");
        assert!(!left(&net).contains(mine), "{}", left(&net));
    }
    // A crash leaves a rule, and the table against packets in clear: the next start takes them over and removes them.
    net.start_gateway(0, &pep(0));
    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);
    let is_over = wait_until(SOON, || !left(&net).contains("inet trackway\n"));
    assert!(is_over && left(&net).contains("inet trackway_hfpep"), "{}", left(&net));
    net.start_gateway(0, &pep(0));
    net.gateway(0).signal(Signal::SIGTERM);
    net.gateway(0).finish(SOON);
    for mine in ["inet trackway", "29810"] {
        assert!(!left(&net).contains(mine), "{}", left(&net));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn tshark_decodes_the_primitives_and_frames_of_a_transfer() {
    let mut net = Net::new();
    let folder = net.nets.folder().display().to_string();
    net.start_radio(&format!("{FAST} --capture {folder}/air"));
    net.addresses();
    let near = net.hosts[0].clone();
    let capture = format!("tshark -i lo -f tcp_port_5066 -w {folder}/sis.pcapng");
    let capture: Vec<_> = capture.split(' ').map(|word| word.replace('_', " ")).collect();
    let words: Vec<&str> = capture.iter().map(String::as_str).collect();
    let mut tshark = Program::start(&mut net.nets.words(&near, &words), "tshark").unwrap();
    tshark.wait_for("Capture started", SOON);
    for host in [0, 1] {
        net.start_gateway(host, &pep(host));
        net.expect_state(host, "hfpep", "bound");
    }

    let far = &net.hosts[1];
    Transfer::start(&near, (far, "10.2.0.1"), 100_000).finish(SOON);
    Transfer::start(far, (&near, "10.1.0.1"), 100_000).finish(SOON);
    tshark.stop();
    net.summary();

    let read = |file: &str, words: &[&str]| {
        let file = format!("{folder}/{file}");
        let read = Command::new("tshark").args(["-r", &file]).args(words).output().unwrap();
        String::from_utf8_lossy(&read.stdout).into_owned()
    };
    assert_eq!(read("sis.pcapng", &["-Y", "_ws.malformed"]), "");
    let types = read("sis.pcapng", &["-Y", "s5066sis", "-T", "fields", "-e", "s5066sis.type"]);
    let types: BTreeSet<u8> =
        types.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect();
    for kind in [1, 3, 20, 21, 22] {
        assert!(types.contains(&kind), "no primitive of type {kind}: {types:?}");
    }
    assert!(types.iter().all(|kind| (1..=26).contains(kind)), "{types:?}");
    // Those that tshark knows: Edition 3 has no long sequence numbers.
    // Nor the EOW that says what a node can do, in place of which others have a token.
    let other_eow = "!(s5066dts.eow.type == 15)";
    let known = "s5066dts.type <= 8 || s5066dts.type == 15";
    for file in ["air/a.pcapng", "air/b.pcapng"] {
        let said = read(file, &["-V", "-Y", known]);
        assert!(said.contains("(Correct)") && !said.contains("Incorrect"), "{file}: {said}");
        assert_eq!(
            read(file, &["-Y", &format!("({known}) && _ws.malformed && {other_eow}")]),
            "",
            "{file}"
        );
    }
}
