//! Tests the changes that split gateways make to their hosts.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// Stands for the `nft` that has the table, and writes down what routes there are before it begins and when it has
/// ended.
const NFT: &str = "#!/bin/sh
look() { ip rule; ip route show table 29810 2> /dev/null; }
folder=${PATH%%:*}
PATH=${PATH#*:}
[ \"$1\" = -i ] || exec nft \"$@\"
look > $folder/before
nft \"$@\"
look > $folder/after
";

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_are_diverted_only_while_there_is_a_way_for_them() {
    let mut net = Net::new(None);
    let (config, nft) = (net.nets.folder().join("0.toml"), net.nets.folder().join("nft"));
    fs::write(&config, bearer(0, "192.0.2.")).unwrap();
    fs::write(&nft, NFT).unwrap();
    // The gateway, which is root no more, starts it, and it makes files there: as in /tmp, none of others.
    for (it, mode) in [(nft.as_path(), 0o755), (net.nets.folder(), 0o1777)] {
        fs::set_permissions(it, fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = format!("{}:{}", net.nets.folder().display(), std::env::var("PATH").unwrap());
    let command = format!("env PATH={path} {TRACKWAY} run {}", config.display());
    let gateway = net.sites.gateways[0].clone();

    let program = net.nets.start(&gateway, &command, "gateway ready");
    net.nets.program(program).stop();

    for when in ["before", "after"] {
        let said = fs::read_to_string(net.nets.folder().join(when)).unwrap();
        assert!(said.contains("lookup 29810") && said.contains("local default"), "{when}: {said}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_interface_of_clients_that_is_not_there_is_waited_for() {
    let mut net = Net::new(None);
    let (client, near) = (net.sites.client.clone(), net.sites.gateways[0].clone());
    let go = |net: &Net| net.nets.run(&near, "ip link delete lan");
    let come = |net: &Net| {
        net.nets.cable((&client, "eth0"), (&near, "lan"));
        net.nets.address(&client, "eth0", "10.1.0.2/24");
        net.nets.address(&near, "lan", "10.1.0.1/24");
        net.nets.run(&client, "ip route add default via 10.1.0.1");
    };
    let expect_fault = |net: &Net, is_there: bool| {
        net.expect(0, "whether there is a fault", |status| {
            let faults = status["faults"].to_string();
            faults.contains("there is no interface lan") == is_there
        });
    };
    go(&net);
    for gateway in [0, 1] {
        let config = format!("[hfpep]\ninterfaces = [\"lan\"]\n{}", bearer(gateway, "192.0.2."));
        net.start(gateway, &config);
    }
    net.expect_spares();
    let listener = net.listen(7);

    for _ in 0..2 {
        expect_fault(&net, true);
        come(&net);
        expect_fault(&net, false);
        let _ = net.pair(&listener);
        go(&net);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_that_cannot_start_leaves_what_another_needs() {
    let net = Net::new(None);
    let config = net.nets.folder().join("0.toml");
    fs::write(&config, bearer(0, "192.0.2.")).unwrap();
    let gateway = &net.sites.gateways[0];
    let another = [
        "nft add table inet trackway",
        "ip rule add priority 100 fwmark 0x74727064/0xfffffffe lookup 29810",
        "ip route add local default dev lo table 29810 proto 116",
    ];
    for command in another {
        net.nets.run(gateway, command);
    }

    let command = format!("timeout 30 {TRACKWAY} run {}", config.display());
    let said = net.nets.try_run(gateway, &command);

    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("cannot make the nftables table `trackway`"), "{said}");
    let left = ["ip rule", "ip route show table 29810"];
    let left = left.map(|command| net.nets.run(gateway, command)).concat();
    assert!(left.contains("lookup 29810") && left.contains("local default"), "{left}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nothing_stays_behind_when_gateways_end() {
    let mut net = Net::with_gateways(None);
    let left = |net: &Net| {
        let commands = ["nft list tables", "ip rule", "ip route show table 29810", "ss -Htan"];
        commands.map(|command| net.nets.run(&net.sites.gateways[0], command)).concat()
    };
    let before = left(&net);

    for gateway in [0, 1] {
        net.gateway(gateway).signal(Signal::SIGTERM);
        net.gateway(gateway).finish(SOON);
    }

    for mine in ["inet trackway", "29810", ":5099"] {
        assert!(before.contains(mine), "{before}");
        assert!(!left(&net).contains(mine), "{}", left(&net));
    }
}

/// How gateways go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Goes {
    /// SIGTERM.
    Ends,
    /// SIGKILL; a process that the gateway has left as root's notices. The table against packets in clear is removed.
    IsKilled,
    /// SIGKILL of a gateway that runs as root, and nobody is there who notices; then `trackway down`.
    IsTakenDown,
    /// A reload of a configuration without HF-PEP.
    LosesTheService,
}

/// The server's addresses of both versions, and the client's.
const ENDS: [(&str, &str); 2] = [(SERVER, CLIENT), ("fd02::2", "fd01::2")];
/// How long a client may try to connect: a connection that ended is remembered for 60 s.
const SHORT: Duration = Duration::from_secs(20);
/// Ports of the client for a connection that the server ends first, and for one that the client does.
const PORTS: [u16; 2] = [40_001, 40_002];

/// Two gateways, which forward packets as routers do, for both versions of IP.
fn routers(as_root: bool) -> Net {
    let mut net = Net::new(None);
    net.sites.forward().unwrap();
    net.sites.route(&net.nets).unwrap();
    let Sites { client, server, gateways: [near, far], .. } = net.sites.clone();
    for (namespace, commands) in [
        (&client, "ip address add fd01::2/64 dev eth0 nodad && ip route add default via fd01::1"),
        (&server, "ip address add fd02::2/64 dev eth0 nodad && ip route add default via fd02::1"),
        (
            &near,
            "ip address add fd01::1/64 dev lan nodad && ip address add fd00::1/64 dev wan nodad && ip route add \
             fd02::/64 via fd00::2",
        ),
        (
            &far,
            "ip address add fd02::1/64 dev lan nodad && ip address add fd00::2/64 dev wan nodad && ip route add \
             fd01::/64 via fd00::1",
        ),
    ] {
        net.nets.enable_v6(namespace, true).unwrap();
        net.nets.run(namespace, "sysctl -qw net.ipv6.conf.all.forwarding=1");
        commands.split(" && ").for_each(|command| drop(net.nets.run(namespace, command)));
    }
    for gateway in [0, 1] {
        let other = 2 - gateway;
        let user = if as_root { "user = \"root\"\n" } else { "" };
        let config = bearer(gateway, "192.0.2.").replace(
            &format!("\"10.{other}.0.0/24\""),
            &format!("\"10.{other}.0.0/24\", \"fd0{other}::/64\""),
        );
        net.start(gateway, &format!("{user}{config}"));
    }
    net.expect_spares();
    net
}

/// Something goes from a port of the client to the server and back, and then both end, the server first or not.
fn exchange(net: &Net, listener: &TcpListener, port: u16, server_first: bool) {
    let there = listener.local_addr().unwrap();
    let here = if there.is_ipv4() { ENDS[0].1 } else { ENDS[1].1 };
    let here = SocketAddr::new(here.parse().unwrap(), port);
    let dial = || testbed::traffic::call(Some(here), there, 0, SHORT);
    let mut client = net.nets.within(&net.sites.client, dial).unwrap_or_else(|why| {
        panic!("{here} does not reach {there}: {why:?}");
    });
    let mut server = accept(listener);
    assert_eq!(server.peer_addr().unwrap(), here);
    client.write_all(b"hello").unwrap();
    server.read_exact(&mut [0; 5]).unwrap();
    server.write_all(b"hi").unwrap();
    client.read_exact(&mut [0; 2]).unwrap();
    let (first, second) = if server_first {
        (server, &mut client)
    } else {
        (client.try_clone().unwrap(), &mut server)
    };
    first.shutdown(Shutdown::Write).unwrap();
    assert_eq!(second.read_to_end(&mut Vec::new()).unwrap(), 0);
    second.shutdown(Shutdown::Write).unwrap();
    assert_eq!((&first).read_to_end(&mut Vec::new()).unwrap(), 0);
}

/// The server listens at both of its addresses.
fn listeners(net: &Net) -> [TcpListener; 2] {
    ENDS.map(|(at, _)| net.nets.within(&net.sites.server, || TcpListener::bind((at, 7)).unwrap()))
}

/// How many connections of each of the client's ports have ended, and are remembered.
fn waiting(net: &Net, namespace: &str) -> [usize; 2] {
    let all = net.nets.run(namespace, "ss -Htan state time-wait state fin-wait-2");
    let is_its = |word: &str, port: u16| word.ends_with(&format!(":{port}"));
    PORTS.map(|port| all.split_whitespace().filter(|word| is_its(word, port)).count())
}

/// After the gateways have gone in some way, nothing is in the way of hosts that connect past them with the addresses and
/// ports of connections that ended in peace before.
fn expect_way_past(goes: Goes) {
    let mut net = routers(goes == Goes::IsTakenDown);
    let listeners = listeners(&net);
    for listener in &listeners {
        for port in PORTS {
            exchange(&net, listener, port, port == PORTS[0]);
        }
    }
    let [near, far] = net.sites.gateways.clone();
    // Who ends a connection first remembers it.
    let is_kept = wait_until(SOON, || waiting(&net, &near)[0] == 2 && waiting(&net, &far)[1] == 2);
    assert!(is_kept, "{:?}", [waiting(&net, &near), waiting(&net, &far)]);

    for gateway in [0, 1] {
        let name = net.sites.gateways[gateway].clone();
        match goes {
            Goes::Ends => drop(net.gateway(gateway).stop()),
            Goes::IsKilled | Goes::IsTakenDown => {
                net.gateway(gateway).signal(Signal::SIGKILL);
                net.gateway(gateway).finish(SOON);
            }
            Goes::LosesTheService => {
                let file = net.nets.folder().join(format!("{gateway}.toml"));
                fs::write(file, "[hbh]\ninterfaces = [\"lan\"]\n").unwrap();
                net.nets.run(&name, &format!("{TRACKWAY} reload"));
            }
        }
        let tables = || net.nets.run(&name, "nft list tables");
        let is_plain = || !tables().contains("inet trackway\n");
        assert!(wait_until(SOON, is_plain), "{}", tables());
        match goes {
            Goes::IsKilled => drop(net.nets.run(&name, "nft delete table inet trackway_hfpep")),
            Goes::IsTakenDown => drop(net.nets.run(&name, &format!("{TRACKWAY} down"))),
            Goes::Ends | Goes::LosesTheService => {}
        }
        assert!(!tables().contains("inet trackway"), "{}", tables());
    }
    if goes == Goes::IsKilled {
        // Nobody says when it has happened.
        let is_forgotten = || [&near, &far].iter().all(|its| waiting(&net, its) == [0, 0]);
        assert!(
            wait_until(SOON, is_forgotten),
            "{:?}",
            [waiting(&net, &near), waiting(&net, &far)]
        );
    }
    // What hosts remember of their own would be in the way as well, gateways or not.
    for host in [&net.sites.client, &net.sites.server] {
        net.nets.run(host, "ss -K -tan state time-wait");
        net.nets.run(host, "ss -K -tan state fin-wait-2");
    }

    for listener in &listeners {
        for port in PORTS {
            exchange(&net, listener, port, port == PORTS[0]);
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ended_connections_are_in_nobodys_way_after_gateways_ended() {
    expect_way_past(Goes::Ends);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ended_connections_are_in_nobodys_way_after_gateways_were_killed() {
    expect_way_past(Goes::IsKilled);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ended_connections_are_in_nobodys_way_after_gateways_were_taken_down() {
    expect_way_past(Goes::IsTakenDown);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ended_connections_are_in_nobodys_way_after_the_service_was_removed() {
    expect_way_past(Goes::LosesTheService);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_uses_a_port_again_is_answered_at_once_while_gateways_run() {
    let net = routers(false);
    let listeners = listeners(&net);
    let began = std::time::Instant::now();
    for _ in 0..2 {
        for listener in &listeners {
            exchange(&net, listener, PORTS[0], true);
            net.nets.run(&net.sites.server, "ss -K -tan state time-wait");
        }
    }

    // A SYN that is lost is sent again after a second.
    let took = began.elapsed();
    let lost = net.nets.run(&net.sites.client, "nstat -asz TcpRetransSegs TcpExtTCPSynRetrans");
    assert!(lost.contains("TcpExtTCPSynRetrans             0"), "{took:?}: {lost}");
}
