//! Checks the packets on the air with another program.

use std::process::Command;

use crate::manet::bed::{AODV, Manet, OLSR, address};
use crate::namespaces::{Program, SOON, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn tshark_decodes_the_messages_of_aodv_and_olsr() {
    for (spoken, kinds) in [
        // Requests, replies.
        (AODV, &["aodv.type == 1", "aodv.type == 2"][..]),
        // HELLO and TC.
        (OLSR, &["olsr.message_type == 1", "olsr.message_type == 2"][..]),
    ] {
        let manet = Manet::running(spoken, 3);
        let file = manet.nets.folder().join("manet.pcapng").display().to_string();
        let words = ["tshark", "-i", "radio0", "-f", "udp", "-w", &file];
        let mut tshark =
            Program::start(&mut manet.nets.words(&manet.nodes[1].name, &words), "tshark").unwrap();
        tshark.wait_for("Capture started", SOON);
        manet.expect_reachable(0, &address(2));

        let read = |filter: &str| {
            let mut command = Command::new("tshark");
            command.args(["-r", &file, "-Y", filter, "-T", "fields", "-e", "ip.src"]);
            command.args(["-e", "ip.dst", "-e", "ip.ttl", "-e", "ip.dsfield.dscp"]);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let comes = wait_until(SOON, || kinds.iter().all(|kind| !read(kind).is_empty()));
        tshark.stop();

        assert!(comes, "{spoken:?}: {}", read("udp"));
        assert_eq!(read("_ws.malformed || _ws.expert.severity == error"), "", "{spoken:?}");
        // The class of network control, and addresses of nodes.
        for line in read("udp.port == 654 || udp.port == 698").lines() {
            let fields: Vec<_> = line.split('\t').collect();
            assert!(fields[0].starts_with("10.66.0."), "{line}");
            assert_eq!(fields[3], "48", "{line}");
        }
    }
}
