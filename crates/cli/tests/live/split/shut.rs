//! Tests that nothing leaves in clear while split gateways stand still, and that what goes by IP goes on.

use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::*;
use testbed::traffic::call;

/// How long something is watched for that must not come: a SYN is repeated meanwhile.
const MOMENT: Duration = Duration::from_secs(2);
/// Counts what comes from the other gateway for the hosts of this one's network: gateways talk by other addresses.
const WATCH: &str = "add table inet watch { counter clear { }; chain in { type filter hook prerouting priority \
                     -500; iifname wan ip daddr 10.0.0.0/8 counter name clear; }; }";

/// Two gateways that forward packets and have routes to each other, and so would let everything pass in clear.
fn net() -> Net {
    let net = Net::new(None);
    net.sites.forward().unwrap();
    net.sites.route(&net.nets).unwrap();
    for gateway in &net.sites.gateways {
        let script = net.nets.folder().join("watch");
        fs::write(&script, WATCH).unwrap();
        net.nets.run(gateway, &format!("nft -f {}", script.display()));
    }
    net
}

/// Packets in clear that have come to a gateway.
fn in_clear(net: &Net, gateway: usize) -> u64 {
    counted(net, gateway, "watch clear")
}

/// What a counter of nftables has counted.
fn counted(net: &Net, gateway: usize, counter: &str) -> u64 {
    let said =
        net.nets.run(&net.sites.gateways[gateway], &format!("nft list counter inet {counter}"));
    let (_, after) = said.split_once("packets ").unwrap();
    after.split_whitespace().next().unwrap().parse().unwrap()
}

/// The process of nftables that has a gateway's table.
fn nft_of(net: &Net, gateway: usize) -> Pid {
    let pids = net.nets.run(
        &net.sites.gateways[gateway],
        &format!("ip netns pids {}", net.sites.gateways[gateway]),
    );
    let is_nft = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nft")
    };
    let mut pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
    Pid::from_raw(pids.find(is_nft).expect("an nft process"))
}

fn expect_refused(net: &Net, from: &str, to: (&str, u16)) {
    let to = SocketAddr::new(to.0.parse().unwrap(), to.1);
    let outcome = net.nets.within(from, || call(None, to, 0, MOMENT));
    assert!(outcome.is_err(), "{from} reaches {to}");
}

fn exchange(client: &mut TcpStream, server: &mut TcpStream) {
    client.write_all(b"more").unwrap();
    server.read_exact(&mut [0; 4]).unwrap();
    server.write_all(b"again").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nothing_leaves_in_clear_when_a_gateway_or_its_nft_is_killed() {
    let mut net = net();
    for gateway in [0, 1] {
        net.start(gateway, &bearer(gateway, "192.0.2."));
    }
    net.expect_spares();
    let listener = net.listen(7);
    let (client, near) = (net.sites.client.clone(), net.sites.gateways[0].clone());
    let (mut here, mut there) = net.pair(&listener);

    // The table that diverts is gone, and the gateway does not notice yet.
    let nft = nft_of(&net, 0);
    net.gateway(0).signal(Signal::SIGSTOP);
    kill(nft, Signal::SIGKILL).unwrap();
    let is_gone = || !net.nets.run(&near, "nft list tables").contains("inet trackway\n");
    assert!(wait_until(SOON, is_gone), "{}", net.nets.run(&near, "nft list tables"));
    here.write_all(b"more").unwrap();
    for from in [&client, &near] {
        expect_refused(&net, from, (SERVER, 7));
    }
    net.gateway(0).signal(Signal::SIGCONT);
    there.read_exact(&mut [0; 4]).unwrap();
    exchange(&mut here, &mut there);
    let _ = net.pair(&listener);
    net.expect(0, "what was dropped", |status| status["hfpep_packets_in_clear"].as_u64() > Some(1));

    // Somebody removes or changes the table that stays.
    for command in
        ["delete table inet trackway_hfpep", "flush chain inet trackway_hfpep prerouting"]
    {
        let rules = || net.nets.try_run(&near, "nft -s list chain inet trackway_hfpep prerouting");
        let before = rules().stdout;
        net.nets.run(&near, &format!("nft {command}"));
        assert!(wait_until(SOON, || rules().stdout == before), "{command}");
    }

    let server = net.sites.server.clone();
    for (gateway, from, to) in [(0, &client, (SERVER, 7)), (1, &server, (CLIENT, 7))] {
        let (mut here, mut there) = net.pair(&listener);
        net.gateway(gateway).signal(Signal::SIGKILL);
        net.gateway(gateway).finish(SOON);
        let _ = (here.write_all(b"in clear"), there.write_all(b"in clear"));
        expect_refused(&net, &net.sites.gateways[gateway].clone(), to);
        expect_refused(&net, from, to);
        assert!(counted(&net, gateway, "trackway_hfpep in-clear") > 0, "gateway {gateway}");
        if gateway == 0 {
            net.start(0, &bearer(0, "192.0.2."));
            net.expect_spares();
        }
    }
    assert_eq!([0, 1].map(|gateway| in_clear(&net, gateway)), [0, 0]);

    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);
    for gateway in net.sites.gateways.clone() {
        let said = net.nets.run(&gateway, &format!("{TRACKWAY} down"));
        assert!(said.contains("removed: nftables table inet trackway_hfpep\n"), "{said}");
    }
    let (mut here, mut there) = net.pair(&listener);
    exchange(&mut here, &mut there);
    assert!(in_clear(&net, 1) > 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_start_without_hf_pep_gives_back_what_a_crash_of_it_has_left() {
    let mut net = net();
    net.start(0, &bearer(0, "192.0.2."));
    let near = net.sites.gateways[0].clone();
    let left = |net: &Net| net.nets.run(&near, "nft list tables") + &net.nets.run(&near, "ip rule");
    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);
    let before = left(&net);
    assert!(before.contains("trackway_hfpep") && before.contains("29810"), "{before}");

    net.start(0, "[hbh]\ninterfaces = [\"lan\"]\n");

    let after = left(&net);
    assert!(!after.contains("trackway_hfpep") && !after.contains("29810"), "{after}");
    let _ = net.pair(&net.listen(7));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_goes_by_ip_goes_on_when_a_gateway_is_killed() {
    let mut net = net();
    let more = "[ipclient]\naddresses = [\"10.88.0.1/24\"]\n[[ipclient.route]]\nnode = \"0.0.0.2\"\nto = \
                [\"10.89.0.0/16\"]\n[[rule]]\nname = \"other\"\nto-port = 80\nblock = \"silent\"\n";
    let plain = |port: u16| {
        format!(
            "{more}[[rule]]\nname = \"plain\"\nto-port = {port}\nservice = \"ipclient\"\n[[rule]]\nname = \"web\"\nservice = \"hfpep\"\n"
        )
    };
    net.start(0, &(bearer(0, "192.0.2.") + &plain(9)));
    let [nine, ten] = [9, 10].map(|port| net.listen(port));
    let (mut here, mut there) = net.pair(&nine);
    // From the other side, past the gateway that is not there.
    let inside = net.nets.within(&net.sites.client, || TcpListener::bind((CLIENT, 7)).unwrap());
    let enter = || {
        let dial = || {
            TcpStream::connect_timeout(&SocketAddr::new(CLIENT.parse().unwrap(), 7), PATIENCE)
                .unwrap()
        };
        let outside = net.nets.within(&net.sites.server, dial);
        outside.set_read_timeout(Some(PATIENCE)).unwrap();
        (outside, accept(&inside))
    };
    let (mut outside, mut entered) = enter();
    exchange(&mut outside, &mut entered);

    // Another port goes by IP from now on: connections go on.
    fs::write(net.nets.folder().join("0.toml"), bearer(0, "192.0.2.") + &plain(10)).unwrap();
    let near = net.sites.gateways[0].clone();
    net.nets.run(&near, &format!("{TRACKWAY} reload"));
    exchange(&mut here, &mut there);
    exchange(&mut outside, &mut entered);

    // So they do when somebody removes the table that stays.
    net.nets.run(&near, "nft delete table inet trackway_hfpep");
    let is_back = || net.nets.run(&near, "nft list tables").contains("trackway_hfpep");
    assert!(wait_until(SOON, is_back));
    exchange(&mut here, &mut there);
    exchange(&mut outside, &mut entered);

    net.gateway(0).signal(Signal::SIGKILL);
    net.gateway(0).finish(SOON);
    exchange(&mut here, &mut there);
    exchange(&mut outside, &mut entered);
    let _ = net.pair(&ten);
    for port in [9, 80] {
        expect_refused(&net, &net.sites.client, (SERVER, port));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn answers_to_a_client_leave_by_no_interface_without_clients() {
    let mut net = net();
    for gateway in [0, 1] {
        let config = format!("[hfpep]\ninterfaces = [\"lan\"]\n{}", bearer(gateway, "192.0.2."));
        net.start(gateway, &config);
    }
    net.expect_spares();
    let (mut here, mut there) = net.pair(&net.listen(7));
    let near = net.sites.gateways[0].clone();

    net.nets.run(&near, "ip route add 10.1.0.2/32 via 192.0.2.2");
    there.write_all(b"again").unwrap();
    net.expect(0, "what was dropped", |status| status["hfpep_packets_in_clear"].as_u64() > Some(0));
    net.expect(0, "a fault", |status| status["faults"][0]["code"] == "dropped-in-clear");
    net.nets.run(&near, "ip route del 10.1.0.2/32");

    here.read_exact(&mut [0; 5]).unwrap();
    exchange(&mut here, &mut there);
    assert_eq!([0, 1].map(|gateway| in_clear(&net, gateway)), [0, 0]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn answers_to_a_client_of_a_network_that_is_gone_do_not_leave_in_clear() {
    let mut net = net();
    let near = net.sites.gateways[0].clone();
    net.nets.run(&near, "ip route add default via 192.0.2.2");
    for gateway in [0, 1] {
        net.start(gateway, &format!("[hfpep]\n{}", bearer(gateway, "192.0.2.")));
    }
    net.expect_spares();
    let (mut here, mut there) = net.pair(&net.listen(7));

    net.nets.run(&near, "ip link set lan down");
    there.write_all(b"again").unwrap();
    net.expect(0, "what was dropped", |status| status["hfpep_packets_in_clear"].as_u64() > Some(0));
    net.expect(0, "a fault", |status| status["faults"][0]["code"] == "dropped-in-clear");
    net.nets.run(&near, "ip link set lan up");

    here.read_exact(&mut [0; 5]).unwrap();
    exchange(&mut here, &mut there);
    assert_eq!([0, 1].map(|gateway| in_clear(&net, gateway)), [0, 0]);
}

/// A far gateway that takes connections from the near one.
const SHORE: &str = "[hfpep]\nmode = \"shore\"\n[hfpep.bearer]\nlisten = \"192.0.2.2:5099\"\nfrom = [\"192.0.2.1/32\"]\n";

/// What a client has sent to a target does not leave by the default route of the far gateway while the target's network
/// is gone.
fn expect_wall(net: &Net, here: &mut TcpStream, there: &mut TcpStream) {
    let far = &net.sites.gateways[1];
    net.nets.run(far, "ip route add default via 192.0.2.1");
    // Comes to the near gateway from the far one.
    let watch =
        WATCH.replace("ip daddr 10.0.0.0/8", "ip daddr 10.2.0.0/16").replace("watch", "back");
    fs::write(net.nets.folder().join("back"), watch).unwrap();
    let script = net.nets.folder().join("back").display().to_string();
    net.nets.run(&net.sites.gateways[0], &format!("nft -f {script}"));
    let knows = || net.nets.run(far, "nft list chain inet trackway_hfpep gone").contains("wan");
    assert!(wait_until(SOON, knows), "{}", net.nets.run(far, "nft list ruleset"));

    net.nets.run(far, "ip link set lan down");
    here.write_all(b"more").unwrap();
    net.expect(1, "what was dropped", |status| status["hfpep_packets_in_clear"].as_u64() > Some(0));
    net.expect(1, "a fault", |status| status["faults"].to_string().contains("dropped-in-clear"));
    net.nets.run(far, "ip link set lan up");

    there.read_exact(&mut [0; 4]).unwrap();
    exchange(here, there);
    assert_eq!(counted(net, 0, "back clear"), 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_clients_send_to_a_target_of_a_network_that_is_gone_does_not_leave_in_clear() {
    let mut net = net();
    for gateway in [0, 1] {
        net.start(gateway, &format!("[hfpep]\n{}", bearer(gateway, "192.0.2.")));
    }
    net.expect_spares();
    let (mut here, mut there) = net.pair(&net.listen(7));

    expect_wall(&net, &mut here, &mut there);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_a_shore_gateway_sends_to_a_target_of_a_network_that_is_gone_does_not_leave_in_clear() {
    let mut net = net();
    net.start(0, &format!("[hfpep]\n{}", bearer(0, "192.0.2.")));
    net.start(1, SHORE);
    let (mut here, mut there) = net.pair(&net.listen(7));

    expect_wall(&net, &mut here, &mut there);

    let (code, said) = net.gateway(1).stop();
    let left = net.nets.run(&net.sites.gateways[1], "nft list tables");
    assert_eq!((code, left.contains("trackway_hfpep")), (Some(0), false), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn after_a_reload_to_shore_mode_the_diversion_goes_with_the_last_connection() {
    let mut net = net();
    for gateway in [0, 1] {
        net.start(gateway, &format!("[hfpep]\n{}", bearer(gateway, "192.0.2.")));
    }
    net.expect_spares();
    let listener = net.listen(7);
    let (mut here, mut there) = net.pair(&listener);
    let far = net.sites.gateways[1].clone();
    let reload = |config: &str| {
        fs::write(net.nets.folder().join("1.toml"), config).unwrap();
        net.nets.run(&far, &format!("{TRACKWAY} reload"));
    };
    let is_diverted = || {
        (net.nets.run(&far, "nft list tables") + "\n").contains("inet trackway\n")
            && net.nets.run(&far, "ip rule").contains("29810")
    };

    // Both times what is there goes on, and what is new comes in the gateway's own name.
    for config in [SHORE.to_owned(), format!("{SHORE}spare = 1\n")] {
        reload(&config);
        exchange(&mut here, &mut there);
        let (_client, server) = net.pair(&listener);
        assert_eq!(server.peer_addr().unwrap().ip().to_string(), "10.2.0.1");
    }
    assert!(is_diverted(), "{}", net.nets.run(&far, "nft list ruleset"));
    drop((here, there));
    assert!(wait_until(SOON, || !is_diverted()), "{}", net.status(1));

    let (mut here, mut there) = net.pair(&listener);
    expect_wall(&net, &mut here, &mut there);
    // And back again.
    reload(&format!("[hfpep]\n{}", bearer(1, "192.0.2.")));
    exchange(&mut here, &mut there);
    assert!(wait_until(SOON, is_diverted), "{}", net.nets.run(&far, "nft list ruleset"));
    let (_client, server) = net.pair(&listener);
    assert_eq!(server.peer_addr().unwrap().ip().to_string(), CLIENT);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_connection_outlives_reloads_to_no_network_and_to_networks_of_the_other_version_of_ip() {
    let mut net = net();
    for gateway in [0, 1] {
        net.start(gateway, &bearer(gateway, "192.0.2."));
    }
    net.expect_spares();
    let (mut here, mut there) = net.pair(&net.listen(7));
    let gateway = &net.sites.gateways[0];
    net.nets.run(gateway, "sysctl -w net.ipv6.conf.all.disable_ipv6=0");

    let none =
        "[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\nfrom = [\"192.0.2.2/32\"]\n".to_owned();
    let other = bearer(0, "192.0.2.").replace("10.2.0.0/24", "fd02::/64");
    for config in [none, other] {
        fs::write(net.nets.folder().join("0.toml"), config).unwrap();
        net.nets.run(gateway, &format!("{TRACKWAY} reload"));
        exchange(&mut here, &mut there);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_port_that_somebody_forwards_to_a_far_network_does_not_leave_in_clear() {
    let mut net = net();
    let _listener = net.listen(7);
    let (client, near) = (net.sites.client.clone(), net.sites.gateways[0].clone());
    net.nets.run(&near, "nft add table ip n");
    for (hook, port) in [("prerouting", 8080), ("output", 8081)] {
        net.nets.run(
            &near,
            &format!("nft add chain ip n {hook} {{ type nat hook {hook} priority -100 ; }}"),
        );
        net.nets
            .run(&near, &format!("nft add rule ip n {hook} tcp dport {port} dnat to {SERVER}:7"));
    }
    let callers = [(&client, ("10.1.0.1", 8080)), (&near, ("10.1.0.1", 8081))];
    for (from, (address, port)) in callers {
        let to = SocketAddr::new(address.parse().unwrap(), port);
        assert!(net.nets.within(from, || call(None, to, 0, SOON)).is_ok(), "{from} by IP alone");
    }
    let before = in_clear(&net, 1);
    assert!(before > 0);

    for gateway in [0, 1] {
        net.start(gateway, &bearer(gateway, "192.0.2."));
    }
    net.expect_spares();
    let before = in_clear(&net, 1);
    for (from, to) in callers {
        expect_refused(&net, from, to);
    }
    assert_eq!(in_clear(&net, 1), before);
    net.expect(0, "a fault", |status| status["faults"].to_string().contains("dropped-in-clear"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_far_target_that_somebody_rewrites_to_one_in_clear_gets_nothing() {
    let mut net = net();
    let _listener = net.listen(7);
    let (client, near) = (net.sites.client.clone(), net.sites.gateways[0].clone());
    let far = net.sites.gateways[1].clone();
    let elsewhere = net.nets.within(&far, || TcpListener::bind("192.0.2.2:9").unwrap());
    elsewhere.set_nonblocking(true).unwrap();
    let script = net.nets.folder().join("elsewhere");
    let watch = WATCH.replace("watch", "elsewhere").replace("ip daddr 10.0.0.0/8", "tcp dport 9");
    fs::write(&script, watch).unwrap();
    net.nets.run(&far, &format!("nft -f {}", script.display()));
    net.nets.run(&near, "nft add table ip n");
    for hook in ["prerouting", "output"] {
        net.nets.run(
            &near,
            &format!("nft add chain ip n {hook} {{ type nat hook {hook} priority -100 ; }}"),
        );
        net.nets.run(
            &near,
            &format!("nft add rule ip n {hook} ip daddr {SERVER} tcp dport 7 dnat to 192.0.2.2:9"),
        );
    }
    let to = SocketAddr::new(SERVER.parse().unwrap(), 7);
    for from in [&client, &near] {
        assert!(net.nets.within(from, || call(None, to, 0, SOON)).is_ok(), "{from} by IP alone");
    }
    let before = counted(&net, 1, "elsewhere clear");
    assert!(before > 0);

    for gateway in [0, 1] {
        net.start(gateway, &bearer(gateway, "192.0.2."));
    }
    net.expect_spares();
    for from in [&client, &near] {
        // Marked for us before it was rewritten, it comes here, where nobody has that address.
        expect_refused(&net, from, (SERVER, 7));
    }
    assert_eq!(counted(&net, 1, "elsewhere clear"), before);
}
