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
