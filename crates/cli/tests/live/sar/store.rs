//! Tests a full or damaged message store.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;

use super::bed::{Net, PORT, address_of};
use crate::namespaces::{SOON, TRACKWAY};

/// A small disk, in the place of a gateway's store.
struct Disk(String);

impl Disk {
    fn mount(net: &Net, node: usize, size: &str) -> Self {
        let at = net.store(node);
        fs::create_dir(&at).unwrap();
        let at = at.to_str().unwrap().to_owned();
        let option = format!("size={size}");
        let mount = ["-t", "tmpfs", "-o", &option, "tmpfs", &at];
        assert!(Command::new("mount").args(mount).status().unwrap().success());
        Self(at)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn on_a_full_disk_programs_are_refused_and_what_was_accepted_goes_on() {
    let mut net = Net::star(1, "--delay 1ms");
    let _disk = Disk::mount(&net, 0, "28m");
    net.configure(
        0,
        "waiting = 1000000\nwaiting-octets = 1000000000\nqueue = 1000000\nrequests = 50\n",
    );
    net.start(0);
    let mut sender = net.program(0);
    let mut accepted = 0;
    let octets = vec![5; 100_000];

    let refused = loop {
        sender.send(&[address_of(1)], "", &octets);
        let (answer, _) = sender.answer().unwrap();
        match answer["is"].as_str() {
            Some("accepted") => accepted += 1,
            _ => break answer,
        }
        assert!(accepted < 1_000, "28 MB have no room for 100");
    };

    let why = refused["why"].as_str().unwrap();
    assert!(why.starts_with("no room in the store"), "{why}");
    assert_eq!((&refused["is"], net.count(0, "requests_no_room")), (&"refused".into(), 1));
    assert!(accepted > 30, "only {accepted} fit");
    // Messages also survive a crash of the gateway while the disk is full.
    net.kill(0);
    net.start(0);
    assert_eq!(net.status(0)["sar"]["to_send"], accepted);
    net.start(1);
    let mut receiver = net.program(1);
    receiver.want(PORT);
    for _ in 0..accepted {
        assert_eq!(receiver.take().1, octets);
    }
    net.expect_count(0, "outcomes_delivered", accepted);
    let mut sender = net.program(0);
    sender.send(&[address_of(1)], "", &octets);
    sender.expect("accepted");
    assert_eq!(receiver.take().1, octets, "there is room again");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_receiver_whose_disk_is_full_takes_nothing_and_loses_nothing() {
    let mut net = Net::star(1, "--delay 1ms");
    let _disk = Disk::mount(&net, 1, "28m");
    // It is asked again until there is room.
    net.configure(0, "queue = 1000000\nrequests = 50\nsegment-retries = 50\n");
    net.start_all();
    let (mut sender, octets) = (net.program(0), vec![6; 200_000]);
    for _ in 0..100 {
        sender.send(&[address_of(1)], "", &octets);
    }
    let is_full = || net.count(1, "datagrams_no_room") > 0;
    assert!(crate::namespaces::wait_until(SOON, is_full), "{}", net.status(1));

    let mut receiver = net.program(1);
    receiver.want(PORT);
    (0..100).for_each(|_| assert_eq!(receiver.take().1, octets));

    net.expect_count(0, "outcomes_delivered", 100);
    assert_eq!(net.count(1, "received_messages"), 100);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_damaged_store_is_refused_or_set_aside_as_told() {
    let mut net = Net::star(1, "");
    net.start(0);
    let mut sender = net.program(0);
    for _ in 0..3 {
        sender.send(&[address_of(1)], "", b"never arrives");
        sender.expect("accepted");
    }
    drop(sender);
    net.kill(0);
    let segment = net.store(0).join("0000000001.log");
    let mut octets = fs::read(&segment).unwrap();
    octets[100] ^= 1;
    fs::write(&segment, &octets).unwrap();

    let run = format!("{TRACKWAY} run {}", net.file(0).display());
    let refused = net.nets.try_run(&net.nodes[0], &run);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("is damaged: a record cannot be read in"), "{said}");
    assert!(said.contains("0000000001.log at octet 50"), "{said}");
    assert_eq!(fs::read(&segment).unwrap(), octets, "it is left as it was");

    net.configure(0, "damaged = \"set-aside\"\n");
    net.start(0);
    assert!(net.printed(0).contains("the store is damaged: it is put aside"));
    assert_eq!(net.status(0)["sar"]["to_send"], 0);
    let aside = fs::read_dir(net.store(0)).unwrap().map(|it| it.unwrap().path());
    let aside = aside.filter(|it| it.is_dir()).collect::<Vec<_>>();
    assert_eq!(fs::read(aside[0].join("0000000001.log")).unwrap(), octets);

    // A second gateway does not touch it.
    fs::copy(net.file(0), net.file(1)).unwrap();
    let socket = net.socket(1);
    let text = fs::read_to_string(net.file(0)).unwrap();
    let text = text.replace(net.socket(0).to_str().unwrap(), socket.to_str().unwrap());
    fs::write(net.file(1), text).unwrap();
    let second = format!("{TRACKWAY} run {}", net.file(1).display());
    let refused = net.nets.try_run(&net.nodes[1], &second);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("is in use by another gateway"), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn limits_change_while_it_runs_and_more_starts_it_anew_with_all_it_had() {
    let mut net = Net::star(1, "");
    net.start(0);
    let mut sender = net.program(0);
    sender.send(&[address_of(1)], "kept", b"later");
    let id = sender.expect("accepted")["id"].clone();

    net.configure(0, "clients = 5\n");
    net.gateway(0).signal(Signal::SIGHUP);
    let is_read = |net: &Net, what: &str| net.printed(0).contains(what);
    assert!(crate::namespaces::wait_until(SOON, || is_read(&net, "sar: limits")));
    sender.ask(&json!({"do": "outcome", "name": "kept"}), &[]).unwrap();
    assert_eq!(sender.expect("message")["id"], id, "the connection goes on");

    net.configure(0, "clients = 5\nsegment = 400\n");
    net.gateway(0).signal(Signal::SIGHUP);
    assert!(crate::namespaces::wait_until(SOON, || is_read(&net, "sar: started anew")));
    let mut other = net.program(0);
    other.ask(&json!({"do": "outcome", "name": "kept"}), &[]).unwrap();
    assert_eq!(other.expect("message")["id"], id);
}
