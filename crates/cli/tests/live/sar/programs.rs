//! Tests message programs of all kinds: the documented client, datagrams, and programs that die or do not read.

use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::thread;

use serde_json::{Value, json};

use super::bed::{Client, Net, PORT, address_of};
use crate::namespaces::{SOON, TRACKWAY, copy_program, is_installed, undisturbed, wait_until};

/// The client from the documentation.
fn documented() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/sar-gateway.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("<!-- client.py -->\n```python\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_client_of_the_documentation_sends_and_receives() {
    if !is_installed("/usr/bin/python3", "python3") {
        return;
    }
    let client = documented();
    let lines = client.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 30, "{lines} lines are promised to be thirty");
    let net = Net::pair("--delay 5ms --loss 5%");
    let run = |node: usize, program: &str| {
        let file = net.nets.folder().join(format!("{node}.py"));
        let text = format!("{client}\nmessages = Messages({:?})\n{program}", net.socket(node));
        fs::write(&file, text).unwrap();
        let output = net.nets.try_run(&net.nodes[node], &format!("python3 {}", file.display()));
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };

    let sent = run(0, "print(messages.send(b'from python', ['10.9.1.2'], 5000, precedence=3))");
    let program = "for answer, octets in messages.receive(5000):\n    print(answer['from'], answer['precedence'], octets)\n    break";
    let received = run(1, program);

    assert_eq!(sent, "{'10.9.1.2': 'delivered'}\n");
    assert_eq!(received, "10.9.1.1 3 b'from python'\n");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn programs_may_ask_by_datagrams() {
    let mut net = Net::star(1, "--delay 5ms");
    for node in [0, 1] {
        net.configure(node, "udp = \"127.0.0.1:1625\"\n");
    }
    net.start_all();
    let program = |node: usize| {
        let socket = net.nets.within(&net.nodes[node], || UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.connect("127.0.0.1:1625").unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket
    };
    let answer = |socket: &UdpSocket| -> (Value, Vec<u8>) {
        let mut datagram = [0; 65_536];
        let len = undisturbed(|| socket.recv(&mut datagram)).unwrap();
        let end = datagram.iter().position(|it| *it == b'\n').unwrap();
        (serde_json::from_slice(&datagram[..end]).unwrap(), datagram[end + 1..len].to_vec())
    };
    let (sender, receiver) = (program(0), program(1));

    receiver.send(b"{\"do\":\"receive\",\"port\":5000}").unwrap();
    let line = json!({"do": "send", "to": [address_of(1)], "port": 5000, "octets": 5});
    sender.send(format!("{line}\nhello").as_bytes()).unwrap();
    assert_eq!(answer(&sender).0["is"], "accepted");
    assert_eq!(answer(&sender).0["outcome"], "delivered");
    let (received, octets) = answer(&receiver);
    assert_eq!((&received["is"], &octets[..]), (&"received".into(), &b"hello"[..]));
    let taken = json!({"do": "taken", "number": received["number"]});
    receiver.send(taken.to_string().as_bytes()).unwrap();
    net.expect_count(1, "requests_taken", 1);

    sender.send(format!("{line}\nhell").as_bytes()).unwrap();
    assert_eq!(answer(&sender).0["why"], "octets = 5, and there are 4");
    assert_eq!(net.count(0, "clients_datagrams_wrong"), 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_a_program_had_and_did_not_take_goes_to_the_next() {
    let net = Net::pair("--delay 1ms");
    let (mut dead, mut sender) = (net.program(1), net.program(0));
    dead.want(PORT);
    sender.send(&[address_of(1)], "", b"hello");
    let number = dead.expect("received")["number"].as_u64().unwrap();
    drop(dead);

    let mut next = net.program(1);
    next.want(PORT);

    assert_eq!(next.take(), (number, b"hello".to_vec()));
    net.expect_count(1, "requests_taken", 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_program_that_reads_nothing_is_given_no_more_and_the_others_go_on() {
    let mut net = Net::star(1, "--delay 1ms");
    net.configure(1, "window = 4\nclients = 3\n");
    net.configure(0, "queue = 1000000\ntransfers = 1000\ntransfers-of-peer = 1000\n");
    net.start_all();
    let (mut deaf, mut good) = (net.program(1), net.program(1));
    deaf.want(PORT);
    let mut sender = net.program(0);
    for _ in 0..200 {
        sender.send(&[address_of(1)], "", &[1; 1_000]);
    }
    net.expect_count(1, "received_messages", 200);
    good.want(PORT);

    // The deaf one has four, its window; all others go to whoever takes them.
    let taken: Vec<u64> = (0..196).map(|_| good.take().0).collect();
    assert_eq!(taken.len(), 196);
    net.expect_count(1, "requests_taken", 196);

    // One that asks without end and reads no answers is not asked any more, and one too many is refused.
    let mut flood: UnixStream = net.program(1).into_stream();
    let question = b"{\"do\":\"outcome\",\"name\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}\n"
        .repeat(1_000);
    flood.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    while flood.write_all(&question).is_ok() {}
    assert!(Client::connect(&net.socket(1)).is_ok_and(|mut it| it.answer().is_err()));
    net.expect_count(1, "clients_refused", 1);
    sender.send(&[address_of(1)], "", b"still");
    assert_eq!(good.take().1, b"still");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_socket_is_for_its_owner_and_group_alone_and_goes_with_the_gateway() {
    let mut net = Net::star(1, "");
    let socket = net.socket(0);
    net.start(0);
    let mode = |of: &fs::Metadata| of.permissions().mode() & 0o777;
    assert_eq!(mode(&fs::metadata(&socket).unwrap()), 0o600);
    assert!(wait_until(SOON, || net.program(0).0.get_ref().peer_addr().is_ok()));
    net.kill(0);
    assert!(socket.exists(), "a crash leaves its name");

    net.configure(0, "socket-mode = \"0660\"\nsocket-group = \"daemon\"\n");
    net.start(0);
    assert_eq!(mode(&fs::metadata(&socket).unwrap()), 0o660);
    let program = net.nets.folder().join("trackway");
    copy_program(&program);
    let is_refused = |group: &str| {
        let by = format!("setpriv --reuid 65534 --regid {group} --clear-groups");
        let (program, socket) = (program.display(), socket.display());
        // Who may takes what comes until then.
        let command = format!("timeout 2 {by} {program} receive 5 --socket {socket}");
        let said = net.nets.try_run(&net.nodes[0], &command);
        String::from_utf8_lossy(&said.stderr).contains("you may not send messages")
    };
    assert_eq!(["1", "65534"].map(is_refused), [false, true]);
    net.program(0);
    assert!(wait_until(SOON, || net.printed(0).contains("a program connected pid=")));
    let (code, _) = net.gateway(0).stop();
    assert_eq!(code, Some(0));
    assert!(!socket.exists());

    net.configure(0, "socket-group = \"nobody-has-this\"\n");
    let said =
        net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} run {}", net.file(0).display()));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("socket-group = \"nobody-has-this\": there is no such group"), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_socket_that_was_removed_is_there_again() {
    let mut net = Net::star(1, "");
    net.start(0);
    let socket = net.socket(0);
    let is_back = || Client::connect(&socket).is_ok();
    let mut program = net.program(0);

    fs::remove_file(&socket).unwrap();
    assert!(wait_until(SOON, is_back), "{}", net.printed(0));
    program.send(&[address_of(1)], "still connected", b"hello");
    program.expect("accepted");

    // The gateway's user may not make the folder again.
    fs::rename(socket.parent().unwrap(), net.nets.folder().join("gone")).unwrap();
    let fault = || {
        let faults = net.status(0)["faults"].to_string();
        let (_, after) = faults.split_once("listen-address-gone")?;
        Some(after.split('`').nth(1)?.to_owned())
    };
    assert!(wait_until(SOON, || fault().is_some()), "{}", net.status(0));
    net.nets.run(&net.nodes[0], &fault().unwrap());
    assert!(wait_until(SOON, || is_back() && fault().is_none()), "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_usual_socket_is_there_again_with_its_folder() {
    let mut net = Net::star(1, "");
    let text = fs::read_to_string(net.file(0)).unwrap();
    let usual: Vec<_> = text.lines().filter(|line| !line.starts_with("socket =")).collect();
    fs::write(net.file(0), usual.join("\n")).unwrap();
    // With a /run of its own: gateways of other tests have theirs in the usual one.
    let (script, file) = (net.nets.folder().join("script"), net.file(0));
    let run =
        format!("mount -t tmpfs -o mode=755 none /run\nexec {TRACKWAY} run {}\n", file.display());
    fs::write(&script, run).unwrap();
    let node = net.nodes[0].clone();
    let command = format!("unshare -m sh {}", script.display());
    let gateway = net.nets.start(&node, &command, "gateway ready");
    let inside = format!("nsenter -t {} -m -n", net.nets.program(gateway).pid());
    let sends = |net: &Net| {
        let send = format!(
            "{inside} timeout 5 {TRACKWAY} send {} 10.9.1.2 --port 5000 --no-wait",
            file.display()
        );
        net.nets.try_run(&node, &send).status.success()
    };
    let namespace = net.nets.run(&node, "stat -L -c %i /proc/self/ns/net");
    assert!(wait_until(SOON, || sends(&net)));

    // Moved, as the gateway would make a file in a folder that is being emptied.
    for (number, removed) in ["sar.sock", "", namespace.trim()].iter().enumerate() {
        net.nets.run(&node, &format!("{inside} mv -T /run/trackway/{removed} /run/{number}"));
        assert!(wait_until(SOON, || sends(&net)), "{removed}: {}", net.nets.printed(gateway));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn gateways_of_two_namespaces_have_each_its_usual_socket() {
    let mut net = Net::star(1, "");
    for node in 0..2 {
        let text = fs::read_to_string(net.file(node)).unwrap();
        let usual: Vec<_> = text.lines().filter(|line| !line.starts_with("socket =")).collect();
        fs::write(net.file(node), usual.join("\n")).unwrap();
    }
    // With a /run of their own: gateways of other tests have theirs in the usual one.
    let script = net.nets.folder().join("script");
    let run = format!(
        "mount -t tmpfs -o mode=755 none /run\nexec {TRACKWAY} run {}\n",
        net.file(0).display()
    );
    fs::write(&script, run).unwrap();
    let command = format!("unshare -m sh {}", script.display());
    let first = net.nets.start(&net.nodes[0].clone(), &command, "gateway ready");
    let inside = format!("nsenter -t {} -m", net.nets.program(first).pid());
    let command = format!("{inside} {TRACKWAY} run {}", net.file(1).display());
    net.nets.start(&net.nodes[1].clone(), &command, "gateway ready");
    let taken = |net: &Net, node: usize| {
        let status = net.nets.run(&net.nodes[node], &format!("{inside} {TRACKWAY} status --json"));
        let status: Value = serde_json::from_str(&status).unwrap();
        status["sar_requests_accepted"].as_u64().unwrap()
    };

    for (node, to) in [(0, "10.9.1.2"), (1, "10.9.1.1")] {
        let file = net.file(node);
        let send =
            format!("{inside} {TRACKWAY} send {} {to} --port 5000 --no-wait", file.display());
        net.nets.run(&net.nodes[node], &send);

        assert_eq!((taken(&net, 0), taken(&net, 1)), (1, node as u64));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn many_programs_send_at_once_and_each_hears_of_its_own() {
    let net = Net::pair("--delay 1ms");
    let mut receiver = net.program(1);
    receiver.want(PORT);
    thread::scope(|scope| {
        for program in 0..8 {
            let net = &net;
            scope.spawn(move || {
                let mut client = net.program(0);
                let mut ids = Vec::new();
                for number in 0..20 {
                    client.send(&[address_of(1)], &format!("{program} {number}"), b"x");
                }
                let mut outcomes = Vec::new();
                while outcomes.len() < 20 {
                    let (answer, _) = client.answer().unwrap();
                    match answer["is"].as_str() {
                        Some("accepted") => ids.push(answer["id"].clone()),
                        _ => outcomes.push(answer["id"].clone()),
                    }
                }
                outcomes.sort_by_key(Value::as_u64);
                assert_eq!(outcomes, ids);
            });
        }
        (0..160).for_each(|_| drop(receiver.take()));
    });
}
