//! Tests reloads of a running gateway, and services that fail beside others.

use std::fs;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;
use testbed::traffic::{ENDLESS, Transfer};

/// Two peers around a gateway whose file has the first alone, and a transfer to that one under way.
fn with_a_transfer() -> (Net, Transfer) {
    let mut net = Net::star(2, "--rate 10mbit --delay 5ms");
    net.write_config_with(0, &net.keys, "", 1..2);
    for node in 0..3 {
        net.start(node);
    }
    net.expect_ping(0, "10.77.0.2");
    let transfer = net.transfer(0, 1, ENDLESS);
    transfer.wait_for(200_000, SOON);
    (net, transfer)
}

#[test]
#[ignore = "needs root: run by ./test"]
fn peers_come_and_go_while_a_transfer_to_another_goes_on() {
    let (net, transfer) = with_a_transfer();

    net.write_config(0, &net.keys, "");
    assert_eq!(net.run(0, &format!("{TRACKWAY} reload")), "tunnel: peer peer2 added\n");
    net.expect_ping(0, "10.77.0.3");
    assert!(net.run(0, "ip route").contains("10.77.0.3"), "there is no route");
    net.write_config_with(0, &net.keys, "", 1..2);
    assert_eq!(net.run(0, &format!("{TRACKWAY} reload")), "tunnel: peer peer2 left\n");
    assert!(!net.run(0, "ip route").contains("10.77.0.3"), "the route is left");
    assert_eq!(net.run(0, &format!("{TRACKWAY} reload")), "nothing has changed\n");

    transfer.wait_for(transfer.received() + 200_000, SOON);
    transfer.end();
    let tunnels = net.status(0)["tunnels"].clone();
    assert_eq!(tunnels.as_array().map(Vec::len), Some(1), "{tunnels}");
    // Its session is the first one, and nobody started anew.
    assert_eq!(tunnels[0]["sessions"], 1, "{tunnels}");
    net.expect_ping(0, "10.77.0.2");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_comes_and_goes_by_command_and_is_written_into_the_file_if_asked() {
    let (net, transfer) = with_a_transfer();
    let file = net.nets.folder().join("0.toml");
    let shown = file.display().to_string();
    let before = fs::read_to_string(&file).unwrap();
    let add = format!(
        "{TRACKWAY} peer add van --public-key {} --routes 10.77.0.3/32,fd77::3/128 --endpoint 10.9.2.2:51900",
        net.keys[2]
    );
    let list = format!("{TRACKWAY} peer list");
    let remove = format!("{TRACKWAY} peer remove van");

    // Until the file is read again.
    let said = net.run(0, &add);
    assert_eq!(said, format!("tunnel: peer van added\nnot saved: --save writes it into {shown}\n"));
    net.expect_ping(0, "10.77.0.3");
    assert_eq!(net.run(0, &list).lines().count(), 2, "{}", net.run(0, &list));
    assert!(net.run(0, &list).contains(&net.keys[2]), "{}", net.run(0, &list));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let again = net.nets.try_run(&net.nodes[0], &add);
    let complaint = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("\"van\" is there twice"), "{complaint}");
    assert_eq!(net.run(0, &format!("{TRACKWAY} reload")), "tunnel: peer van left\n");

    // For good.
    let said = net.run(0, &format!("{add} --save"));
    assert_eq!(said, format!("tunnel: peer van added\nsaved in {shown}\n"));
    assert_eq!(net.run(0, &format!("{TRACKWAY} reload")), "nothing has changed\n");
    net.expect_ping(0, "10.77.0.3");
    let said = net.run(0, &format!("{remove} --save"));
    assert_eq!(said, format!("tunnel: peer van left\nsaved in {shown}\n"));
    assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), before.trim_end());
    let unknown = net.nets.try_run(&net.nodes[0], &remove);
    let complaint = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(complaint, "trackway: there is no peer \"van\"; there are: peer1\n");
    assert_eq!(unknown.status.code(), Some(2), "what is asked for is wrong");

    // One that is not saved stays beside one that is.
    net.run(0, &add);
    let other =
        "cab --public-key xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg= --routes 10.77.0.4/32";
    net.run(0, &format!("{TRACKWAY} peer add {other} --save"));
    net.expect_ping(0, "10.77.0.3");
    let said = net.run(0, &remove);
    assert_eq!(said, format!("tunnel: peer van left\nnot saved: --save writes it into {shown}\n"));
    net.run(0, &format!("{TRACKWAY} peer remove cab --save"));

    // What others have written into the file is not put in force by the way.
    fs::write(&file, format!("log = \"warn\"\n{before}")).unwrap();
    let stale = net.nets.try_run(&net.nodes[0], &add);
    let complaint = String::from_utf8_lossy(&stale.stderr).into_owned();
    assert!(complaint.contains("`trackway reload` first"), "{complaint}");

    transfer.wait_for(transfer.received() + 200_000, SOON);
    transfer.end();
    assert_eq!(net.status(0)["tunnels"][0]["sessions"], 1, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_that_is_configured_otherwise_or_comes_back_is_heard_at_once() {
    let mut net = Net::star(2, "--rate 50mbit --delay 5ms");
    net.write_config_with(0, &net.keys, "", 1..2);
    for node in 0..3 {
        net.start(node);
    }
    net.expect_ping(0, "10.77.0.2");
    let file = net.nets.folder().join("0.toml");
    let config = fs::read_to_string(&file).unwrap();
    let transfer = net.transfer(0, 1, ENDLESS);
    transfer.wait_for(2_000_000, SOON);

    // The connection inside goes on, though both ends of the tunnel begin afresh.
    fs::write(&file, format!("{config}max-rate = \"20mbit\"\n")).unwrap();
    let said = net.run(0, &format!("{TRACKWAY} reload"));
    assert_eq!(said, "tunnel: peer peer1 left\ntunnel: peer peer1 added\n");
    transfer.wait_for(transfer.received() + 2_000_000, SOON);
    transfer.end();
    net.expect_ping(0, "10.77.0.2");

    net.write_config_with(0, &net.keys, "", 2..3);
    let said = net.run(0, &format!("{TRACKWAY} reload"));
    assert_eq!(said, "tunnel: peer peer1 left\ntunnel: peer peer2 added\n");
    fs::write(&file, config).unwrap();
    let said = net.run(0, &format!("{TRACKWAY} reload"));
    assert_eq!(said, "tunnel: peer peer2 left\ntunnel: peer peer1 added\n");
    net.expect_ping(0, "10.77.0.2");
    let tunnels = net.status(1)["tunnels"].clone();
    assert_eq!(tunnels[0]["sessions"], 3, "{tunnels}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_wrong_file_changes_nothing_and_says_what_is_wrong() {
    let mut net = Net::pair("");
    net.start_all();
    let file = net.nets.folder().join("0.toml");
    let good = fs::read_to_string(&file).unwrap();

    // The last line is wrong, and a peer before it has changed.
    fs::write(&file, good.replace("10.77.0.2/32", "10.77.0.9/32") + "nonsense = 1\n").unwrap();
    let line = good.lines().count() + 1;
    let output = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} reload"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("0.toml:{line}: ")), "{said}");
    assert!(said.contains("nonsense"), "{said}");
    net.gateway(0).signal(Signal::SIGHUP);
    net.gateway(0).wait_for("nothing has changed", SOON);
    net.expect_pings(0, "10.77.0.2", 3);

    // A route that only the kernel can refuse, after routes the kernel accepts.
    net.run(0, "ip route add 10.88.0.0/16 dev lo");
    let taken =
        good.replace("\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.87.0.0/16\", \"10.88.0.0/16\"");
    fs::write(&file, taken).unwrap();
    let output = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} reload"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("there is one already"), "{said}");
    assert!(!net.run(0, "ip route").contains("10.87.0.0"), "half of it is done");
    net.expect_pings(0, "10.77.0.2", 3);

    fs::write(&file, good).unwrap();
    net.gateway(0).signal(Signal::SIGHUP);
    net.gateway(0).wait_for("configuration read again", SOON);
    assert_eq!(net.status(0)["tunnels"][0]["sessions"], 1);
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_service_that_fails_starts_again_while_a_transfer_through_another_goes_on() {
    let mut net = Net::pair("--rate 10mbit --delay 5ms");
    for (node, interface) in ["eth1", "eth0"].into_iter().enumerate() {
        net.write_config(node, &net.keys, &format!("hbh.interfaces = [\"{interface}\"]"));
    }
    net.start_all();
    net.expect_count(0, "neighbours", 1);
    let transfer = net.transfer(0, 1, ENDLESS);
    transfer.wait_for(200_000, SOON);

    // HBH's table goes with its program: another program makes it again, as often as somebody ends them now and then.
    let gateway = net.pid(0);
    let nft = |net: &Net| net.try_run(0, &format!("pgrep -P {gateway} nft")).trim().to_owned();
    let table = net.run(0, "nft list table netdev trackway");
    let since = Instant::now();
    net.run(0, &format!("kill -KILL {}", nft(&net)));
    let whole = rules_and_sets(&table);
    let is_made = wait_until(SOON, || {
        rules_and_sets(&net.try_run(0, "nft list table netdev trackway")) == whole
    });
    eprintln!("HBH's table is there again after {:?}", since.elapsed());
    assert!(is_made && whole.contains("elements = "), "{table}");
    let of_hbh = |net: &Net, what: &str| {
        let services = net.status(0)["services"].clone();
        let services = services.as_array().cloned().unwrap_or_default();
        let hbh = services.into_iter().find(|service| service["name"] == "hbh");
        hbh.map_or(serde_json::Value::Null, |hbh| hbh[what].clone())
    };
    assert_eq!(of_hbh(&net, "restarts"), 0, "{}", net.status(0));
    net.expect_count(0, "neighbours", 1);

    // Whoever ends them all the time makes the service fail, and start again.
    let is_told = wait_until(SOON, || {
        let its = nft(&net);
        if !its.is_empty() {
            net.try_run(0, &format!("kill -KILL {its}"));
        }
        of_hbh(&net, "why").to_string().contains("`nft` has ended")
    });
    assert!(is_told, "{}", net.status(0));
    let is_back = wait_until(SOON, || of_hbh(&net, "state") == "running");
    assert!(is_back, "{}", net.status(0));
    assert_eq!(of_hbh(&net, "restarts"), 1, "{}", net.status(0));
    net.expect_count(0, "neighbours", 1);
    transfer.wait_for(transfer.received() + 200_000, SOON);
    transfer.end();
    assert_eq!(net.status(0)["tunnels"][0]["sessions"], 1);

    // The tunnel's device, and HBH goes on.
    let before = of_hbh(&net, "since");
    net.run(0, "ip link delete trackway-nc0");
    net.expect_ping(0, "10.77.0.2");
    assert_eq!(of_hbh(&net, "since"), before, "{}", net.status(0));
    assert_eq!(of_hbh(&net, "restarts"), 1, "{}", net.status(0));
}

/// What a table holds, without the numbers of its counters.
fn rules_and_sets(table: &str) -> String {
    let lines = table.lines().map(|line| {
        let words =
            line.split_whitespace().filter(|word| !word.bytes().all(|it| it.is_ascii_digit()));
        words.collect::<Vec<_>>().join(" ")
    });
    lines.filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n")
}
