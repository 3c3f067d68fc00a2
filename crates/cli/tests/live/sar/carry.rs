//! Tests datagrams of unmodified programs, carried as messages.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::bed::{Net, address_of};
use crate::namespaces::{SOON, TRACKWAY, is_installed, undisturbed, wait_until};

/// Where the programs are, and the networks behind the gateways.
const HOSTS: [&str; 2] = ["10.1.0.5", "10.2.0.5"];

/// Two gateways with a host behind each.
///
/// ```text
///  10.1.0.5 ─── 10.1.0.1  gateway 0 ═══ gateway 1  10.2.0.1 ─── 10.2.0.5
/// ```
fn net(link: &str) -> (Net, [String; 2]) {
    let mut net = Net::star(1, link);
    let mut hosts = Vec::new();
    for (end, host) in HOSTS.iter().enumerate() {
        let name = net.nets.add(&format!("host{end}"));
        let network = end + 1;
        net.nets.cable((&name, "eth0"), (&net.nodes[end], "lan0"));
        net.nets.address(&name, "eth0", &format!("{host}/24"));
        net.nets.address(&net.nodes[end], "lan0", &format!("10.{network}.0.1/24"));
        net.nets.run(&name, &format!("ip route add default via 10.{network}.0.1"));
        let (far, gateway) =
            (2 - end, if end == 0 { address_of(1) } else { "10.9.1.1".to_owned() });
        net.configure(
            end,
            &format!(
                "[sar.carry]\nports = [514, 5000]\n[[sar.carry.peer]]\ngateway = \"{gateway}\"\nto = \
                 [\"10.{far}.0.0/16\"]\n"
            ),
        );
        hosts.push(name);
    }
    net.start_all();
    let hosts = hosts.try_into().unwrap();
    (net, hosts)
}

fn socket(net: &Net, namespace: &str, at: &str) -> UdpSocket {
    let socket = net.nets.within(namespace, || UdpSocket::bind(at).unwrap());
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

fn heard(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut data = [0; 65_535];
    let (len, from) = undisturbed(|| socket.recv_from(&mut data)).unwrap();
    (data[..len].to_vec(), from)
}

#[test]
#[ignore = "needs root: run by ./test"]
fn datagrams_and_their_answers_arrive_by_a_lossy_link_from_whom_they_are() {
    let (net, hosts) = net("--delay 5ms --loss 20%");
    let target = socket(&net, &hosts[1], "10.2.0.5:5000");
    let client = socket(&net, &hosts[0], "10.1.0.5:0");
    client.connect("10.2.0.5:5000").unwrap();
    let own = client.local_addr().unwrap();

    let long: Vec<u8> = (0..9_000_u16).map(|it| it.to_be_bytes()[1]).collect();
    for question in [&b"hello"[..], b"", &long] {
        client.send(question).unwrap();
        assert_eq!(heard(&target), (question.to_vec(), own), "as the client has sent it");
        target.send_to(b"yes", own).unwrap();
        assert_eq!(heard(&client), (b"yes".to_vec(), "10.2.0.5:5000".parse().unwrap()));
    }
    // This gateway's own programs are carried too; the kernel asks for a route first, whichever it is.
    net.nets.run(&net.nodes[0], "ip route add 10.2.0.0/16 via 10.9.1.2");
    let local = socket(&net, &net.nodes[0], "10.1.0.1:0");
    local.send_to(b"mine", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"mine");

    let (near, far) = (net.status(0), net.status(1));
    assert_eq!(
        (&near["sar_carried"], &far["sar_carried_delivered"]),
        (&4.into(), &4.into()),
        "{near} {far}"
    );
    assert_eq!(far["sar"]["to_take"], 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_program_that_logs_to_a_far_host_is_carried_and_other_ports_are_not() {
    if !is_installed("/usr/bin/logger", "bsdutils") {
        return;
    }
    let (net, hosts) = net("");
    let log = socket(&net, &hosts[1], "10.2.0.5:514");
    let other = socket(&net, &hosts[1], "10.2.0.5:515");

    for port in [515, 514] {
        let words = format!("logger --server 10.2.0.5 --udp --port {port} --tag trackway it works");
        net.nets.run(&hosts[0], &words);
    }

    let (line, from) = heard(&log);
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.contains("trackway") && line.contains("it works"), "{line}");
    assert_eq!(from.ip().to_string(), "10.1.0.5");
    // The gateways forward no other port here: nothing routes it.
    other.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(other.recv(&mut [0; 100]).is_err());
    assert_eq!(net.count(0, "carried"), 1);
    // An answer comes from the port that only root and programs with a right for it may open.
    let client = socket(&net, &hosts[0], "10.1.0.5:0");
    client.send_to(b"ask", "10.2.0.5:514").unwrap();
    log.send_to(b"answer", heard(&log).1).unwrap();
    assert_eq!(heard(&client), (b"answer".to_vec(), "10.2.0.5:514".parse().unwrap()));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn answers_leave_from_carried_ports_below_1024() {
    let (net, hosts) = net("");
    let log = socket(&net, &hosts[1], "10.2.0.5:514");
    let client = socket(&net, &hosts[0], "10.1.0.5:0");

    client.send_to(b"it works", "10.2.0.5:514").unwrap();
    let (_, from) = heard(&log);
    log.send_to(b"noted", from).unwrap();

    assert_eq!(heard(&client), (b"noted".to_vec(), "10.2.0.5:514".parse().unwrap()));
    assert_eq!(net.count(0, "carried_failed"), 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_first_carried_port_below_1024_is_refused_while_the_gateway_runs() {
    let (mut net, _) = net("");
    let with = |port: u16| {
        format!(
            "[sar.carry]\nports = [{port}]\n[[sar.carry.peer]]\ngateway = \"10.9.1.2\"\nto = [\"10.2.0.0/16\"]\n"
        )
    };
    net.gateway(0).stop();
    net.configure(0, &with(5_000));
    net.start(0);

    net.configure(0, &with(514));
    let outcome = net.nets.try_words(&net.nodes[0], &[TRACKWAY, "reload"]);

    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(said.contains("below 1024 takes a new start"), "{said} {outcome:?}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nothing_of_the_diversion_is_left_and_other_gateways_speak_for_their_hosts_alone() {
    let (mut net, hosts) = net("");
    let target = socket(&net, &hosts[1], "10.2.0.5:5000");
    let liar = socket(&net, &hosts[0], "10.1.0.5:0");
    // A gateway's claims about a host that is not behind this gateway are ignored.
    let mut forged = vec![4];
    forged.extend([10, 3, 0, 1, 10, 2, 0, 5, 0, 9, 0x13, 0x88]);
    forged.extend(b"forged");
    let mut program = net.program(0);
    let line = serde_json::json!({"do": "send", "to": [address_of(1)], "port": 29_810, "octets": forged.len()});
    program.ask(&line, &forged).unwrap();
    net.expect_count(1, "carried_forbidden", 1);
    liar.send_to(b"true", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"true");

    let rules = |net: &Net| net.nets.run(&net.nodes[0], "ip rule");
    let tables = |net: &Net| net.nets.run(&net.nodes[0], "nft list tables");
    let has_table = |net: &Net| tables(net).contains("trackway_carry");
    assert!(rules(&net).contains("29811") && has_table(&net));
    net.kill(0);
    let is_gone = wait_until(SOON, || !has_table(&net));
    assert!(is_gone, "the kernel removes the table of a process that is gone");
    net.start(0);
    net.gateway(0).stop();
    assert!(
        !rules(&net).contains("29811") && !tables(&net).contains("trackway"),
        "{} {}",
        rules(&net),
        tables(&net)
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn datagrams_that_nobody_carries_do_not_leave_in_clear() {
    let (mut net, hosts) = net("");
    // Both gateways forward by plain routes, and the far one counts what comes so.
    let script = net.nets.folder().join("watch");
    fs::write(
        &script,
        "add table inet watch { counter clear { }; chain in { type filter hook prerouting priority -500; iifname eth0 \
         ip daddr 10.2.0.0/16 counter name clear; }; }",
    )
    .unwrap();
    for (end, via) in [(0, address_of(1)), (1, "10.9.1.1".to_owned())] {
        let to = 2 - end;
        net.nets.run(&net.nodes[end], &format!("ip route add 10.{to}.0.0/16 via {via}"));
        net.nets.run(&net.nodes[end], "sysctl -qw net.ipv4.ip_forward=1");
    }
    net.nets.run(&net.nodes[1], &format!("nft -f {}", script.display()));
    let in_clear = |net: &Net| net.nets.run(&net.nodes[1], "nft list counter inet watch clear");
    let none = in_clear(&net);
    assert!(none.contains("packets 0"), "{none}");
    let target = socket(&net, &hosts[1], "10.2.0.5:5000");
    let client = socket(&net, &hosts[0], "10.1.0.5:0");
    client.send_to(b"before", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"before");
    // Somebody removes the table, and it comes again.
    net.nets.run(&net.nodes[0], "nft delete table inet trackway_sar");
    let tables = |net: &Net| net.nets.run(&net.nodes[0], "nft list tables");
    assert!(wait_until(SOON, || tables(&net).contains("trackway_sar")));

    net.kill(0);
    assert!(wait_until(SOON, || !tables(&net).contains("trackway_carry")));
    let local = socket(&net, &net.nodes[0], "10.1.0.1:0");
    for octets in [1, 9_000] {
        client.send_to(&vec![0; octets], "10.2.0.5:5000").unwrap();
        let refused = local.send_to(&vec![0; octets], "10.2.0.5:5000");
        assert!(refused.is_err(), "a program of this host is told");
    }
    let dropped = || net.nets.run(&net.nodes[0], "nft list counter inet trackway_sar in-clear");
    assert!(wait_until(SOON, || dropped().contains("packets 4")), "{}", dropped());
    assert_eq!(in_clear(&net), none);
    // Other ports are nobody's, in fragments too.
    let other = socket(&net, &hosts[1], "10.2.0.5:6000");
    client.send_to(&[0; 9_000], "10.2.0.5:6000").unwrap();
    assert_eq!(heard(&other).0.len(), 9_000);

    net.start(0);
    client.send_to(b"after", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"after");
    // Without the section nothing is carried, and nothing is kept back.
    net.configure(0, "");
    net.nets.run(&net.nodes[0], &format!("{TRACKWAY} reload"));
    client.send_to(b"in clear", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"in clear");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn datagrams_for_a_network_that_is_gone_do_not_leave_in_clear() {
    let (mut net, hosts) = net("");
    net.nets.run(&net.nodes[1], "ip route add default via 10.9.1.1");
    net.kill(1);
    net.start(1);
    let script = net.nets.folder().join("watch");
    fs::write(
        &script,
        "add table inet watch { counter clear { }; chain in { type filter hook prerouting priority -500; ip saddr \
         10.1.0.5 ip daddr 10.2.0.5 iifname != \"lan0\" counter name clear; }; }",
    )
    .unwrap();
    net.nets.run(&net.nodes[0], &format!("nft -f {}", script.display()));
    let in_clear = || net.nets.run(&net.nodes[0], "nft list counter inet watch clear");
    let target = socket(&net, &hosts[1], "10.2.0.5:5000");
    let client = socket(&net, &hosts[0], "10.1.0.5:0");
    client.send_to(b"before", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"before");

    net.nets.run(&net.nodes[1], "ip link set lan0 down");
    client.send_to(b"in clear", "10.2.0.5:5000").unwrap();
    let is_dropped = || net.status(1)["faults"].to_string().contains("dropped-in-clear");
    assert!(wait_until(SOON, is_dropped), "{}: {}", in_clear(), net.status(1));
    assert!(in_clear().contains("packets 0"), "{}", in_clear());
    net.nets.run(&net.nodes[1], "ip link set lan0 up");
    client.send_to(b"after", "10.2.0.5:5000").unwrap();
    assert_eq!(heard(&target).0, b"after");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_rule_of_another_program_that_takes_datagrams_is_a_fault() {
    let (net, _) = net("");
    let is_told = || net.status(0)["faults"].to_string().contains("rule-overruled");
    net.nets.run(&net.nodes[0], "ip rule add pref 40 ipproto tcp blackhole");

    for takes in ["ipproto udp dport 5000", "iif lan0"] {
        net.nets.run(&net.nodes[0], &format!("ip rule add pref 50 {takes} blackhole"));
        assert!(wait_until(SOON, is_told), "{takes}: {}", net.status(0));
        let doctor = format!("{TRACKWAY} doctor {}", net.file(0).display());
        let doctor = net.nets.try_run(&net.nodes[0], &doctor).stdout;
        let doctor = String::from_utf8_lossy(&doctor).into_owned();
        assert!(doctor.contains("[rule-overruled]"), "{takes}: {doctor}");
        net.nets.run(&net.nodes[0], &format!("ip rule del pref 50 {takes} blackhole"));
        assert!(wait_until(SOON, || !is_told()), "{takes}: {}", net.status(0));
    }
}
