//! Tests that no packet leaves in clear while the tunnel's routes or device are gone.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;

/// All kernel state of the tunnel that survives its device.
const LEFT: [&str; 2] =
    ["unreachable 10.77.0.2 metric 4000000000", "unreachable fd77::2 dev lo metric 4000000000"];

impl Net {
    /// Gateways 0 and 1, of which 0 would send anything to 1 in clear, in both versions.
    pub fn pair_with_default_routes() -> Self {
        let net = Self::pair("");
        for (node, interface) in [(0, "eth1"), (1, "eth0")] {
            net.enable_v6(node, interface, &format!("fd09::{}/64", node + 1));
        }
        net.run(0, "ip route add default via 10.9.1.2");
        net.run(0, "ip route add default via fd09::2");
        net
    }

    /// Gives an interface of a node an address of IPv6.
    pub fn enable_v6(&self, node: usize, interface: &str, address: &str) {
        self.run(node, &format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0"));
        self.run(node, &format!("ip address add {address} dev {interface} nodad"));
    }

    /// Changes the configuration of a node.
    pub fn edit(&self, node: usize, from: &str, to: &str) {
        let file = self.nets.folder().join(format!("{node}.toml"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "no {from} in {text}");
        fs::write(&file, text.replace(from, to)).unwrap();
    }

    /// All that the tunnel has put into the kernel of a node.
    pub fn claimed(&self, node: usize) -> String {
        self.nets.claimed(&self.nodes[node], 117)
    }

    /// Pings these addresses from gateway 0, and returns how many of the echoes came to an interface of
    /// another node in clear.
    pub fn clear(&self, (node, interface): (usize, &str), addresses: &[&str]) -> usize {
        self.nets.clear(&self.nodes[0], (&self.nodes[node], interface), addresses)
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn after_a_crash_nothing_leaves_in_clear_until_the_next_start_ends_cleanly() {
    let mut net = Net::pair_with_default_routes();
    let inside = ["10.77.0.2", "fd77::2"];
    net.start_all();
    assert_eq!(net.clear((1, "eth0"), &inside), 0);

    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &inside), 0, "{}", net.claimed(0));
    let said = net.nets.try_run(&net.nodes[0], "ping -c 1 10.77.0.2");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("No route to host"), "{said}");
    let left = net.claimed(0);
    assert!(LEFT.iter().all(|entry| left.contains(entry)), "{left}");
    assert_eq!(left.lines().count(), 2, "{left}");

    net.start(0);
    inside.iter().for_each(|address| net.expect_ping(0, address));
    assert_eq!(net.claimed(0).lines().count(), 4, "{}", net.claimed(0));
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(net.claimed(0), "");
    // It is the default route that would have led them there, all the while.
    assert_eq!(net.clear((1, "eth0"), &inside), 4);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn down_removes_what_a_crash_has_left_whatever_the_configuration_is_now() {
    let mut net = Net::pair_with_default_routes();
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\", \"10.77.0.2/32\"");
    net.start_all();
    let down = format!("{TRACKWAY} down");

    let refused = net.nets.try_run(&net.nodes[0], &down);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("a gateway runs in this network namespace"), "{said}");
    net.expect_pings(0, "10.77.0.2", 3);

    net.crash(0);
    net.edit(0, "10.77.0.2/32", "10.78.0.0/16");
    assert_eq!(net.claimed(0).lines().count(), 5, "{}", net.claimed(0));
    // Another program's, with our protocol number and one more condition than a rule of ours has.
    let theirs = "pref 29000 from 192.0.2.0/24 fwmark 0x5 lookup 7 protocol 117";
    net.run(0, &format!("ip rule add {theirs}"));
    let said = net.run(0, &down);
    let removed = said.lines().filter(|line| line.starts_with("removed: ")).count();
    assert_eq!(removed, 6, "{said}");
    assert!(said.contains("removed: unreachable 10.77.0.2/32 in table main\n"), "{said}");
    assert!(said.contains("removed: nftables table inet trackway_tunnel\n"), "{said}");
    assert!(net.run(0, "ip rule").contains("29000:"), "{said}");
    net.run(0, &format!("ip rule del {theirs}"));
    assert_eq!(net.claimed(0), "");
    assert_eq!(net.run(0, &down), "nothing was left\n");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn settings_that_a_crash_left_changed_are_given_back() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\"");
    net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
    let rp_filter =
        |net: &Net| net.run(0, "sysctl -n net.ipv4.conf.eth1.rp_filter").trim().to_owned();
    let namespace = net.run(0, "stat -L -c %i /proc/self/ns/net");
    let kept = PathBuf::from(format!("/run/trackway/{}/settings", namespace.trim()));
    let down = format!("{TRACKWAY} down");

    net.start(0);
    assert_eq!((&rp_filter(&net)[..], kept.exists()), ("2", true));
    let refused = net.nets.try_run(&net.nodes[0], &down);
    assert_eq!((refused.status.code(), &rp_filter(&net)[..]), (Some(1), "2"));
    net.crash(0);
    assert_eq!(rp_filter(&net), "2");
    let said = net.run(0, &down);
    assert!(said.starts_with("set back: net.ipv4.conf.eth1.rp_filter = 1\n"), "{said}");
    assert_eq!((&rp_filter(&net)[..], kept.exists()), ("1", false));

    // The next start knows the first value, and its clean stop gives it back.
    net.start(0);
    net.crash_and_start(0);
    assert_eq!(rp_filter(&net), "2");
    let (code, said) = net.gateway(0).stop();
    assert_eq!((code, &rp_filter(&net)[..], kept.exists()), (Some(0), "1", false), "{said}");

    // What somebody else has set meanwhile stays.
    net.start(0);
    net.crash(0);
    net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=0");
    let said = net.run(0, &down);
    assert!(!said.contains("set back"), "{said}");
    assert_eq!((&rp_filter(&net)[..], kept.exists()), ("0", false));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn settings_whose_notes_somebody_has_removed_after_a_crash_are_named() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\"");
    net.run(0, "sysctl -qw net.ipv4.conf.default.rp_filter=1 net.ipv4.conf.eth1.rp_filter=1");
    let namespace = net.run(0, "stat -L -c %i /proc/self/ns/net");
    let notes = PathBuf::from(format!("/run/trackway/{}/settings", namespace.trim()));
    let named = "perhaps left changed: net.ipv4.conf.eth1.rp_filter = 2; ";
    let down = format!("{TRACKWAY} down");

    net.start(0);
    assert!(!net.gateway(0).printed().contains("perhaps left changed"));
    net.crash(0);
    fs::remove_file(&notes).unwrap();
    net.start(0);
    let printed = net.gateway(0).printed();
    assert!(printed.contains(named), "{printed}");

    net.crash(0);
    let said = net.run(0, &down);
    assert!(said.contains(named), "{said}");
    let (_, remedy) = said.split_once(named).unwrap();
    let remedy = remedy.split('`').nth(1).unwrap();
    net.run(0, remedy);
    assert_eq!(net.run(0, "sysctl -n net.ipv4.conf.eth1.rp_filter").trim(), "1");
    assert_eq!(net.run(0, &down), "nothing was left\n");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn notes_of_a_namespace_that_had_the_same_number_change_nothing() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\"");
    net.edit(0, "[tunnel]", "[host]\nprotocols = 66\n[tunnel]");
    net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
    net.start(0);
    net.crash(0);
    let other = net.nets.add("other");
    for command in [
        "ip link add eth1 type veth peer name eth9",
        "ip link set eth9 up",
        "ip link set eth1 up",
        "sysctl -qw net.ipv4.conf.eth1.rp_filter=2",
        "ip route add 10.123.0.0/16 dev eth1 proto 66",
    ] {
        net.nets.run(&other, command);
    }
    let folder = |name: &str| {
        let namespace = net.nets.run(name, "stat -L -c %i /proc/self/ns/net");
        PathBuf::from(format!("/run/trackway/{}", namespace.trim()))
    };
    let (before, after) = (folder(&net.nodes[0]), folder(&other));
    for note in ["settings", "numbers"] {
        assert!(before.join(note).exists(), "{note}");
    }

    // As if it had the number of the first namespace, which is no more. Its own number may be that of an earlier one.
    let _ = fs::remove_dir_all(&after);
    fs::rename(before, &after).unwrap();
    let said = net.nets.run(&other, &format!("{TRACKWAY} down"));

    assert_eq!(said, "nothing was left\n");
    assert_eq!(net.nets.run(&other, "sysctl -n net.ipv4.conf.eth1.rp_filter").trim(), "2");
    assert!(net.nets.run(&other, "ip route").contains("10.123.0.0/16"));
    assert!(!after.join("settings").exists() && !after.join("numbers").exists());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_start_with_other_networks_takes_over_what_it_needs_and_removes_the_rest() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    net.crash(0);

    net.edit(0, "10.77.0.2/32", "10.77.0.2/31");
    net.edit(0, "\"fd77::2/128\"", "\"fd77::2/128\", \"10.78.0.0/16\"");
    net.start(0);

    net.expect_ping(0, "10.77.0.2");
    let claimed = net.claimed(0);
    assert!(!claimed.contains("10.77.0.2 "), "{claimed}");
    for entry in ["10.77.0.2/31 ", "fd77::2 ", "10.78.0.0/16 "] {
        assert_eq!(claimed.matches(entry).count(), 2, "{claimed}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_tunnel_that_may_fail_open_leaves_nothing() {
    let mut net = Net::pair_with_default_routes();
    net.edit(0, "[tunnel]", "[tunnel]\nfail-open = true");
    net.start_all();
    assert!(!net.claimed(0).contains("unreachable"), "{}", net.claimed(0));

    net.crash(0);

    assert_eq!(net.claimed(0), "");
    assert_eq!(net.clear((1, "eth0"), &["10.77.0.2"]), 2);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routes_and_addresses_that_went_come_back() {
    let mut net = Net::pair_with_default_routes();
    let inside = ["10.77.0.2", "fd77::2"];
    net.start_all();
    let before = (net.claimed(0), net.run(0, "ip -o address show dev trackway-nc0"));

    net.run(0, "ip link set trackway-nc0 down");
    assert_eq!(net.clear((1, "eth0"), &inside), 0);
    net.run(0, "ip link set trackway-nc0 up");
    inside.iter().for_each(|address| net.expect_ping(0, address));
    assert_eq!((net.claimed(0), net.run(0, "ip -o address show dev trackway-nc0")), before);

    for entry in [
        "route del 10.77.0.2 dev trackway-nc0",
        "route del unreachable 10.77.0.2 metric 4000000000",
        "-6 route flush proto 117",
    ] {
        net.run(0, &format!("ip {entry}"));
        let is_back = wait_until(SOON, || net.claimed(0) == before.0);
        assert!(is_back, "{entry}: {}", net.claimed(0));
    }
    assert!(net.count(0, "tunnel_routes_restored") >= 6, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn another_start_of_the_service_leaves_no_gap() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();

    // What fails is tried again after a second.
    net.run(0, "ip link delete trackway-nc0");
    assert_eq!(net.clear((1, "eth0"), &["10.77.0.2"]), 0);
    net.expect_ping(0, "10.77.0.2");
    // Whoever watches the kernel hears that the device goes, and nothing else.
    let node = net.nodes[0].clone();
    let monitor = net.nets.start(&node, "ip -o monitor link route", "");
    let is_awake = wait_until(SOON, || {
        net.run(0, "ip route add 10.99.9.9 dev lo");
        net.run(0, "ip route del 10.99.9.9 dev lo");
        net.nets.printed(monitor).contains("10.99.9.9")
    });
    assert!(is_awake, "nothing is heard");
    net.edit(0, "[tunnel]", "[tunnel]\nmtu = 1400");
    assert_eq!(net.run(0, &format!("{TRACKWAY} reload")), "tunnel: started anew\n");
    net.expect_ping(0, "10.77.0.2");
    let said = net.nets.printed(monitor);
    assert!(said.contains("Deleted") && said.contains("trackway-nc0"), "{said}");
    assert!(!said.contains("Deleted unreachable"), "{said}");

    let (code, said) = net.gateway(0).stop();
    assert_eq!((code, net.claimed(0)), (Some(0), String::new()), "{said}");
    let is_told = wait_until(SOON, || net.nets.printed(monitor).contains("Deleted unreachable"));
    assert!(is_told, "{}", net.nets.printed(monitor));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_device_of_another_is_not_taken() {
    let mut net = Net::pair("");
    net.run(0, "ip tuntap add trackway-nc0 mode tun user 65534");

    let file = net.nets.folder().join("0.toml");
    let refused =
        net.nets.try_run(&net.nodes[0], &format!("timeout 20 {TRACKWAY} run {}", file.display()));

    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the device trackway-nc0 exists already, made to stay for user 65534"),
        "{said}"
    );
    assert!(said.contains("`ip link delete trackway-nc0`"), "{said}");
    net.run(0, "ip link delete trackway-nc0");
    net.start_all();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_cannot_send_from_an_address_of_this_host() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\", \"fd77::2/128\"", "\"10.0.0.0/8\", \"fd00::/8\"");
    net.start_all();
    // It is learnt while the tunnel runs.
    net.run(0, "ip address add 10.66.0.1/32 dev lo");
    net.run(0, "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
    net.run(0, "ip address add fd66::1/128 dev lo nodad");
    net.run(1, "ip address add 10.66.0.1/32 dev lo");
    net.run(1, "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
    net.run(1, "ip address add fd66::1/128 dev lo nodad");
    let sent = |net: &Net, version: &str, source: &str, to: &str| {
        net.try_run(1, &format!("ping -{version} -c 1 -W 1 -I {source} {to}"));
    };

    let dropped = |net: &Net| net.count(0, "tunnel_packets_from_self");
    for (version, source, to) in [("4", "10.66.0.1", "10.77.0.1"), ("6", "fd66::1", "fd77::1")] {
        let before = dropped(&net);
        let is_dropped = wait_until(SOON, || {
            sent(&net, version, source, to);
            dropped(&net) > before
        });
        assert!(is_dropped, "{source}: {}", net.status(0));
    }
    net.expect_pings(0, "10.77.0.2", 3);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn one_subscription_to_the_kernel_serves_all_services() {
    let mut net = Net::pair("");
    let more = "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"eth1\"]\n\
                [[gre]]\nlocal = \"10.9.1.1\"\nremote = \"10.9.1.2\"\nto = [\"10.88.0.0/16\"]\n";
    net.write_config(0, &net.keys, more);
    net.start(0);

    // Of routing and of nftables (12), those that hear notices.
    let sockets = net.run(0, "cat /proc/net/netlink");
    let hearing = |protocol: &str| {
        let lines = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.filter(|it| it[1] == protocol && it[3] != "00000000").count()
    };
    assert_eq!((hearing("0"), hearing("12")), (1, 1), "{sockets}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_went_while_the_kernel_lost_notices_is_put_back() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    let before = net.claimed(0);
    let batch = net.nets.folder().join("batch");
    let verbs = ["add", "del"].iter();
    let lines = verbs.flat_map(|verb| {
        (0..20_000_u32).map(move |number| {
            let [_, a, b, c] = (number << 4).to_be_bytes();
            format!("route {verb} 44.{a}.{b}.{c}/28 via 10.9.1.2\n")
        })
    });
    fs::write(&batch, lines.collect::<String>()).unwrap();

    net.gateway(0).signal(Signal::SIGSTOP);
    net.run(0, &format!("ip -batch {}", batch.display()));
    net.run(0, "ip address del 10.77.0.1/24 dev trackway-nc0");
    net.run(0, "ip -6 route flush proto 117");
    let sockets = net.run(0, "cat /proc/net/netlink");
    net.gateway(0).signal(Signal::SIGCONT);

    let lost = sockets.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[1] == "0" && fields[3] != "00000000" && fields[8] != "0"
    });
    assert!(lost, "{sockets}");
    let is_back = wait_until(SOON, || net.claimed(0) == before);
    assert!(is_back, "{}", net.claimed(0));
    net.expect_ping(0, "10.77.0.2");
}

/// As in a container.
#[test]
#[ignore = "needs root: run by ./test"]
fn where_settings_cannot_be_written_the_tunnel_works_once_somebody_gives_the_named_commands() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\"");
    net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
    let (script, file) = (net.nets.folder().join("script"), net.nets.folder().join("0.toml"));
    let read_only =
        "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys || exit";
    fs::write(&script, format!("{read_only}\nexec {TRACKWAY} run {}\n", file.display())).unwrap();
    let command = format!("unshare -m sh {}", script.display());
    net.programs[0] = Some(net.nets.start(&net.nodes[0].clone(), &command, "gateway ready"));
    net.start(1);

    for remedy in [
        "sysctl -w net.ipv4.conf.trackway-nc0.accept_local=1",
        "sysctl -w net.ipv4.conf.eth1.rp_filter=2",
        // As tests have it, and containers.
        "sysctl -w net.ipv6.conf.trackway-nc0.disable_ipv6=0",
    ] {
        let is_told = || net.status(0)["faults"].to_string().contains(remedy);
        assert!(wait_until(SOON, is_told), "{remedy}: {}", net.status(0));
        net.run(0, remedy);
        assert!(wait_until(SOON, || !is_told()), "{remedy}: {}", net.status(0));
    }
    net.expect_ping(0, "10.77.0.2");
    assert!(net.claimed(0).contains("fd77::"), "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_folder_below_run_that_was_removed_is_there_again_with_all_in_it() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\"");
    net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
    // With a /run of its own: gateways of other tests have theirs in the usual one.
    let script = net.nets.folder().join("script");
    let file = net.nets.folder().join("0.toml").display().to_string();
    fs::write(
        &script,
        format!("mount -t tmpfs -o mode=755 none /run\nexec {TRACKWAY} run {file}\n"),
    )
    .unwrap();
    let node = net.nodes[0].clone();
    let command = format!("unshare -m sh {}", script.display());
    net.programs[0] = Some(net.nets.start(&node, &command, "gateway ready"));
    let holding = format!("nsenter -t {} -m -n sleep 1000", net.pid(0));
    let holder = net.nets.start(&node, &holding, "");
    let is_inside = wait_until(SOON, || {
        let pid = net.nets.program(holder).pid();
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() == "sleep"
    });
    assert!(is_inside);
    let inside = format!("nsenter -t {} -m -n", net.nets.program(holder).pid());
    let ask = |net: &Net, command: &str| {
        let output = net.nets.try_run(&net.nodes[0], &format!("{inside} {command}"));
        [output.stdout, output.stderr]
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .concat()
    };
    let namespace = net.run(0, "stat -L -c %i /proc/self/ns/net");
    let settings = format!("cat /run/trackway/{}/settings", namespace.trim());
    let before = ask(&net, &settings);
    assert!(before.contains("eth1 rp_filter 1 2"), "{before}");
    let (status, down) = (format!("{TRACKWAY} status"), format!("{TRACKWAY} down"));

    for removed in ["/run/trackway", &format!("/run/trackway/{}", namespace.trim())] {
        ask(&net, &format!("rm -r {removed}"));
        let began = Instant::now();
        let answers = wait_until(SOON, || ask(&net, &status).contains("tunnel: running"));
        eprintln!("{removed}: status answers after {:?}", began.elapsed());
        assert!(answers, "{removed}: {}", ask(&net, &status));
        let is_whole = wait_until(SOON, || ask(&net, &settings) == before);
        assert!(is_whole, "{removed}: {}", ask(&net, &settings));
        for command in [&down, &format!("timeout 20 {TRACKWAY} run {file}")] {
            let said = ask(&net, command);
            assert!(said.contains("a gateway runs in this network namespace"), "{command}: {said}");
        }
    }

    net.crash(0);
    let said = ask(&net, &down);
    assert!(said.contains("set back: net.ipv4.conf.eth1.rp_filter = 1"), "{said}");
    assert_eq!(net.run(0, "sysctl -n net.ipv4.conf.eth1.rp_filter").trim(), "1");
}
