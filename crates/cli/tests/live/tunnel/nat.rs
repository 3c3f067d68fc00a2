//! Tests tunnels through address translators.

use std::time::Instant;

use super::{Net, SOON};
use crate::namespaces::wait_until;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_translator_that_keeps_a_dead_mapping_is_passed_from_a_fresh_port() {
    let mut net = Net::pair("");
    net.only_called(1);
    for address in ["10.9.1.11", "10.9.1.12"] {
        net.run(0, &format!("ip address add {address}/24 dev eth1"));
    }
    net.run(0, "nft add table ip n");
    net.run(0, "nft add chain ip n post { type nat hook postrouting priority 100 ; }");
    net.run(0, "nft add rule ip n post oifname eth1 udp dport 51900 snat to 10.9.1.11");
    net.start_all();
    net.expect_ping(0, "10.77.0.2");
    let seen = |net: &Net| net.status(1)["tunnels"][0]["endpoint"].as_str().map(str::to_owned);
    assert_eq!(seen(&net).as_deref(), Some("10.9.1.11:51900"), "{}", net.status(1));

    // It has another address now; whoever is known to it goes on from the old one, which leads nowhere.
    net.run(0, "nft flush chain ip n post");
    net.run(0, "nft add rule ip n post oifname eth1 udp dport 51900 snat to 10.9.1.12");
    net.run(1, "nft add table ip f");
    net.run(1, "nft add chain ip f in { type filter hook input priority 0 ; }");
    net.run(1, "nft add rule ip f in ip saddr 10.9.1.11 drop");
    let began = Instant::now();
    let is_back = wait_until(2 * SOON, || {
        net.try_run(0, "ping -c 1 -W 1 10.77.0.2").contains(" 0% packet loss")
    });

    eprintln!("back after {:?}", began.elapsed());
    assert!(is_back, "{}", net.status(0));
    let endpoint = seen(&net).unwrap();
    assert!(endpoint.starts_with("10.9.1.12:"), "{endpoint}");
    let status = net.status(0);
    let local = status["tunnels"][0]["local"].as_str().unwrap();
    assert!(!local.ends_with(":51900"), "{status}");
    net.expect_pings(0, "10.77.0.2", 20);
    net.expect_pings(1, "10.77.0.1", 20);
    // The called one comes back too if it is the one that starts anew.
    net.crash_and_start(1);
    net.expect_ping(0, "10.77.0.2");
}
