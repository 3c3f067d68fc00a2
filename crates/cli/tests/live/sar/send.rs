//! Tests messages to one and several destinations, and their outcomes.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::bed::{Net, PORT, address_of};
use crate::namespaces::{SOON, older, wait_until};

#[test]
#[ignore = "needs root: run by ./test"]
fn a_message_arrives_once_and_its_program_is_told() {
    let net = Net::pair("--delay 5ms");
    let (mut sender, mut receiver) = (net.program(0), net.program(1));
    receiver.want(PORT);

    let long: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
    for (name, octets) in [("short", &b"hello"[..]), ("long", &long)] {
        sender.send(&[address_of(1)], name, octets);
        let id = sender.expect("accepted")["id"].as_u64().unwrap();
        assert_eq!(receiver.take().1, octets, "{name}");
        assert_eq!(sender.outcomes(1), [(id, address_of(1), "delivered".to_owned())]);
    }

    net.expect_count(1, "requests_taken", 2);
    let status = net.status(1);
    assert_eq!(
        (&status["sar"]["to_take"], &status["sar_received_messages"]),
        (&0.into(), &2.into())
    );
    assert_eq!(net.status(0)["sar"]["to_send"], 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_go_to_and_from_an_older_version() {
    let Some(older) = older() else { return };
    let mut net = Net::star(1, "--delay 5ms --loss 5%");
    net.start(0);
    net.nets.set_trackway(older);
    net.start(1);

    for (from, to, address) in [(0, 1, address_of(1)), (1, 0, "10.9.1.1".to_owned())] {
        let (mut sender, mut receiver) = (net.program(from), net.program(to));
        receiver.want(PORT);
        sender.send(&[address], "", &[7; 50_000]);
        sender.expect("accepted");
        assert_eq!(receiver.take().1, [7; 50_000]);
        assert_eq!(sender.outcomes(1)[0].2, "delivered");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_dead_destination_does_not_hold_up_the_others() {
    let mut net = Net::star(2, "--delay 5ms --loss 10%");
    net.configure(0, "lifetime = \"8s\"\n");
    net.start(0);
    net.start(1);
    let mut sender = net.program(0);
    let to = [address_of(1), address_of(2)];

    sender.send(&to, "", &[7; 5_000]);
    sender.expect("accepted");
    let outcomes = sender.outcomes(2);

    let mut fates: Vec<_> = outcomes.into_iter().map(|(_, to, outcome)| (to, outcome)).collect();
    fates.sort();
    let expected = [(&to[0], "delivered"), (&to[1], "expired")];
    assert_eq!(fates, expected.map(|(to, outcome)| (to.clone(), outcome.to_owned())));
    let mut receiver = net.program(1);
    receiver.want(PORT);
    assert_eq!(receiver.take().1, [7; 5_000]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn outcomes_can_be_asked_for_by_whoever_comes_later() {
    let mut net = Net::pair("--delay 5ms");
    let mut sender = net.program(0);
    sender.send(&[address_of(1)], "report 17", b"hello");
    let id = sender.expect("accepted")["id"].clone();
    drop(sender);
    net.expect_count(0, "outcomes_delivered", 1);
    net.kill(0);
    net.start(0);

    let mut other = net.program(0);
    let told = json!([{"to": address_of(1), "outcome": "delivered"}]);
    for question in
        [json!({"do": "outcome", "id": id}), json!({"do": "outcome", "name": "report 17"})]
    {
        let mut answer = json!(null);
        // Killed before the outcome was on disk, the gateway has sent the message again.
        let is_told = wait_until(SOON, || {
            other.ask(&question, &[]).unwrap();
            answer = other.expect("message");
            answer["outcomes"] == told
        });
        assert!(is_told && answer["id"] == id, "{answer}");
    }
    other.send(&[address_of(1)], "report 17", b"hello");
    let again = other.expect("accepted");
    assert_eq!((&again["id"], &again["again"]), (&id, &true.into()), "it is the same message");
    assert_eq!(other.outcomes(1)[0].2, "delivered");
    other.ask(&json!({"do": "outcome", "id": 999}), &[]).unwrap();
    other.expect("unknown");
    assert_eq!(net.count(1, "received_messages"), 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_message_that_waits_is_cancelled_and_one_with_a_lifetime_expires() {
    let mut net = Net::star(1, "");
    net.start(0);
    let mut sender = net.program(0);

    sender.send(&[address_of(1)], "", b"never mind");
    let id = sender.expect("accepted")["id"].clone();
    sender.ask(&json!({"do": "cancel", "id": id}), &[]).unwrap();
    assert_eq!(sender.expect("cancelled")["count"], 1);
    assert_eq!(sender.outcomes(1)[0].2, "cancelled");

    let line = json!({
        "do": "send", "to": [address_of(1)], "port": 1, "lifetime": 0.3, "octets": 2, "precedence": 5, "tag": 9,
    });
    sender.ask(&line, b"hi").unwrap();
    assert_eq!(sender.expect("accepted")["tag"], 9);
    assert_eq!(sender.outcomes(1)[0].2, "expired");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_commands_send_and_receive() {
    let net = Net::pair("--delay 5ms");
    let file = net.nets.folder().join("report");
    std::fs::write(&file, b"the report\n").unwrap();
    let (file, to) = (file.to_str().unwrap(), address_of(1));

    let sent = net.trackway(0, &["send", file, &to, "--port", "5000", "--name", "r"]);
    let said = String::from_utf8_lossy(&sent.stdout).into_owned();
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(said, format!("{to}: delivered\n"));
    let received = net.trackway(1, &["receive", "5000"]);
    assert_eq!(received.stdout, b"the report\n");
    net.expect_count(1, "requests_taken", 1);

    let sent = net.trackway(0, &["send", file, &to, "--json", "--port", "7"]);
    let lines: Vec<serde_json::Value> = sent
        .stdout
        .split(|it| *it == b'\n')
        .filter_map(|it| serde_json::from_slice(it).ok())
        .collect();
    assert_eq!(lines.iter().map(|it| &it["is"]).collect::<Vec<_>>(), ["accepted", "outcome"]);
    let received = net.trackway(1, &["receive", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&received.stdout).unwrap();
    assert_eq!((&answer["port"], &answer["hex"]), (&7.into(), &"746865207265706f72740a".into()));

    // Into a folder, for this user alone.
    let inbox = net.nets.folder().join("inbox");
    net.trackway(0, &["send", file, &to, "--port", "8"]);
    let received = net.trackway(1, &["receive", "8", "--into", inbox.to_str().unwrap()]);
    let kept = String::from_utf8(received.stdout).unwrap();
    let modes = [inbox.to_str().unwrap(), kept.trim_end()]
        .map(|path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777);
    assert_eq!(std::fs::read(kept.trim_end()).unwrap(), b"the report\n");
    assert_eq!(modes, [0o700, 0o600], "{kept}");

    let refused = net.trackway(0, &["send", file, "0.0.0.0"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("0.0.0.0 cannot be a destination"), "{said}");
    let missing = net.trackway(0, &["send", "/nowhere", &to]);
    assert_eq!(missing.status.code(), Some(2));
    let none = net
        .nets
        .try_words(&net.nodes[0], &[crate::namespaces::TRACKWAY, "receive", "--socket", "/none"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("no gateway with a section [sar] listens at /none"), "{said}");
}
