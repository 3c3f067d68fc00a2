//! Kills gateways at any moment with many messages in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::rng::Rng;
use serde_json::json;

use super::bed::{Client, Net, PORT, address_of};
use crate::namespaces::SOON;

const MESSAGES: usize = 1_500;
const KILLS: usize = 10;
/// Messages that a program has under way.
const WINDOW: usize = 200;

/// What a receiver got: under which numbers each message came.
type Got = BTreeMap<String, BTreeSet<u64>>;

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_of_killed_gateways_arrive_once_and_each_outcome_is_told_once() {
    let mut net = Net::star(1, "--delay 3ms --loss 3%");
    for node in [0, 1] {
        // Nobody is given up while it is started again.
        net.configure(node, "queue = 65536\nrequests = 50\n");
    }
    net.start_all();
    let is_over = AtomicBool::new(false);
    let sockets = [net.socket(0), net.socket(1)];

    let (outcomes, got) = thread::scope(|scope| {
        let sender = scope.spawn(|| send_all(&sockets[0]));
        let receiver = scope.spawn(|| receive_all(&sockets[1], &is_over));
        let mut rng = Rng::stream(17, "kills");
        for _ in 0..KILLS {
            thread::sleep(Duration::from_millis(rng.below(400)));
            let node = usize::try_from(rng.below(2)).unwrap();
            net.kill(node);
            net.start(node);
        }
        let outcomes = sender.join().unwrap();
        let end = Instant::now() + SOON;
        while net.status(1)["sar"]["to_take"] != 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        is_over.store(true, Ordering::Relaxed);
        (outcomes, receiver.join().unwrap())
    });

    let delivered = outcomes.values().filter(|outcome| *outcome == "delivered").count();
    assert_eq!((outcomes.len(), delivered), (MESSAGES, MESSAGES));
    assert_eq!(got.len(), MESSAGES, "each message arrived");
    let twice: Vec<_> = got.iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    assert_eq!(twice, [], "and none of them twice");
}

/// Sends all messages, those of unknown outcome again after each crash, and returns what became of them.
fn send_all(socket: &Path) -> BTreeMap<String, String> {
    let mut outcomes = BTreeMap::new();
    let mut ids = BTreeMap::new();
    while outcomes.len() < MESSAGES {
        let Ok(mut program) = Client::connect(socket) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        // It ends with the connection; what is known by then stays known.
        let _ = send_some(&mut program, &mut outcomes, &mut ids);
    }
    outcomes
}

fn send_some(
    program: &mut Client,
    outcomes: &mut BTreeMap<String, String>,
    ids: &mut BTreeMap<u64, String>,
) -> std::io::Result<()> {
    let left = (0..MESSAGES).map(|number| format!("message {number}"));
    let left: Vec<String> = left.filter(|name| !outcomes.contains_key(name)).collect();
    let mut told = BTreeSet::new();
    let mut waiting = 0;
    let mut asked: std::collections::VecDeque<String> = std::collections::VecDeque::new();
    let mut left = left.into_iter().peekable();
    while waiting > 0 || left.peek().is_some() {
        while waiting < WINDOW
            && let Some(name) = left.next()
        {
            let octets = format!("{name} {}", "x".repeat(name.len() * 40));
            let line = json!({
                "do": "send", "to": [address_of(1)], "port": PORT, "name": name, "octets": octets.len(),
            });
            program.ask(&line, octets.as_bytes())?;
            asked.push_back(name);
            waiting += 1;
        }
        let (answer, _) = program.answer()?;
        let id = answer["id"].as_u64().unwrap();
        if answer["is"] == "accepted" {
            let name = asked.pop_front().unwrap();
            let known = ids.insert(id, name.clone());
            assert!(known.is_none_or(|known| known == name), "one number for two messages");
            continue;
        }
        assert_eq!(answer["is"], "outcome", "{answer}");
        assert!(told.insert(id), "told twice: {answer}");
        let outcome = answer["outcome"].as_str().unwrap().to_owned();
        let before = outcomes.insert(ids[&id].clone(), outcome.clone());
        assert!(before.is_none_or(|before| before == outcome), "it has changed: {answer}");
        waiting -= 1;
    }
    Ok(())
}

/// Takes what comes.
fn receive_all(socket: &Path, is_over: &AtomicBool) -> Got {
    let mut got = Got::new();
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut program) = Client::connect(socket) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        program.give_up_after(Duration::from_millis(500));
        let _ = receive_some(&mut program, &mut got);
    }
    got
}

fn receive_some(program: &mut Client, got: &mut Got) -> std::io::Result<()> {
    program.ask(&json!({"do": "receive", "port": PORT}), &[])?;
    loop {
        let (answer, octets) = program.answer()?;
        assert_eq!(answer["is"], "received", "{answer}");
        let text = String::from_utf8(octets).unwrap();
        let (name, _) = text.split_once(" x").unwrap();
        let number = answer["number"].as_u64().unwrap();
        got.entry(name.to_owned()).or_default().insert(number);
        program.ask(&json!({"do": "taken", "number": number}), &[])?;
    }
}
