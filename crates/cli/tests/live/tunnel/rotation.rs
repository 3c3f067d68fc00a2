//! Tests that keys are changed without a lost packet.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Net;
use crate::namespaces::{SOON, TRACKWAY, wait_until};

/// Octets of a transfer that lasts as long as the change.
const ENDLESS: usize = 1 << 40;
/// Pings at a time.
const PINGS: u16 = 50;

impl Net {
    /// Replaces some text in the configuration of a node, and has it read; returns what is said.
    fn rewrite(&self, node: usize, old: &str, new: &str) -> String {
        let file = self.nets.folder().join(format!("{node}.toml"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(old), "{old} in {text}");
        fs::write(&file, text.replace(old, new)).unwrap();
        self.run(node, &format!("{TRACKWAY} reload"))
    }

    /// What a node says about the keys in use: its own, and the other's.
    fn keys_in_use(&self, node: usize) -> (String, String) {
        let tunnel = &self.status(node)["tunnels"][0];
        let text = |key: &str| tunnel[key].as_str().unwrap_or_default().to_owned();
        (text("own_public_key"), text("public_key"))
    }

    fn expect_keys(&self, node: usize, own: &str, its: &str) {
        let expected = (own.to_owned(), its.to_owned());
        let comes = wait_until(SOON, || self.keys_in_use(node) == expected);
        assert!(comes, "{expected:?}: {}", self.status(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn keys_of_both_ends_change_without_a_lost_packet() {
    let mut net = Net::pair("--rate 20mbit --delay 5ms");
    net.start_all();
    net.expect_ping(0, "10.77.0.2");
    let new: Vec<_> =
        (0..2).map(|node| net.nets.make_key(&format!("new{node}.key")).unwrap().1).collect();
    let (net, is_over) = (&net, AtomicBool::new(false));
    let own =
        |node: usize| format!("private-key = {:?}", net.nets.folder().join(format!("{node}.key")));
    let new_own = |node: usize| {
        let file = net.nets.folder().join(format!("new{node}.key"));
        format!("private-key = {file:?}\nprevious-{}", own(node))
    };
    let its = |node: usize| format!("public-key = \"{}\"", net.keys[node]);
    let new_its = |node: usize| format!("public-key = \"{}\"\nprevious-{}", new[node], its(node));

    thread::scope(|scope| {
        let pings = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                net.expect_pings(0, "10.77.0.2", PINGS);
                net.expect_pings(1, "10.77.0.1", PINGS);
            }
        });
        let transfer = net.transfer(0, 1, ENDLESS);

        // The peer learns of the new key first, and goes on with the one before.
        let said = net.rewrite(1, &its(0), &new_its(0));
        assert_eq!(said, "tunnel: peer peer0 has other keys\n");
        let said = net.rewrite(0, &own(0), &new_own(0));
        assert_eq!(said, "tunnel: own keys have changed\n");
        net.expect_keys(0, &new[0], &net.keys[1]);
        net.expect_keys(1, &net.keys[1], &new[0]);

        // The other way round: the peer learns of the new key last.
        let said = net.rewrite(1, &own(1), &new_own(1));
        assert_eq!(said, "tunnel: own keys have changed\n");
        let said = net.rewrite(0, &its(1), &new_its(1));
        assert_eq!(said, "tunnel: peer peer1 has other keys\n");
        net.expect_keys(0, &new[0], &new[1]);
        net.expect_keys(1, &new[1], &new[0]);

        // The keys before are given up.
        for node in 0..2 {
            net.rewrite(node, &format!("\nprevious-{}", own(node)), "");
            net.rewrite(node, &format!("\nprevious-{}", its(1 - node)), "");
        }
        transfer.wait_for(transfer.received() + 200_000, SOON);
        transfer.end();
        is_over.store(true, Ordering::Relaxed);
        pings.join().unwrap();
    });

    for node in 0..2 {
        net.expect_keys(node, &new[node], &new[1 - node]);
        let tunnel = &net.status(node)["tunnels"][0];
        assert_eq!(tunnel["sessions"], 1, "{tunnel}");
        assert_eq!(tunnel["loss_left"], 0.0, "{tunnel}");
        assert_eq!(tunnel["loss_left_in"], 0.0, "{tunnel}");
    }
}
