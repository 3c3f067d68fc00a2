//! What a station in radio range can do to gateways: with a group key nothing but noise.
//!
//! ```text
//!    a, a gateway      b, a gateway or a plain node      attacker
//!        └───────────────────────┴─────────────────────────┘
//!                 the air: a bridge that never learns
//! ```
//! Everybody hears every frame, as on the radio.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ::gateway::frame::{self, Mac};
use ::gateway::hello::{Heard, Hello};
use ::gateway::sys::port::{OFFLOAD, Port};
use proto::hbh::Profile;
use proto::ip::{Header, Spec, rewrite_v4_checksum};
use serde_json::Value;

use crate::namespaces::{Namespaces, TRACKWAY, wait_until};

const SOON: Duration = Duration::from_secs(15);
const NODES: [&str; 3] = ["a", "b", "attacker"];
const ADDRESSES: [[u8; 4]; 3] = [[10, 9, 0, 1], [10, 9, 0, 2], [10, 9, 0, 3]];
const PROTOCOL: u8 = 253;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_station_in_the_name_of_a_plain_node_takes_its_traffic_only_without_a_key() {
    for is_keyed in [false, true] {
        let mut air = Air::new(is_keyed);
        air.start(0, "");
        air.ping(0, 1, 3);

        // With the hardware address of the plain node, and its IP address.
        let mut name = Name::new(air.mac(1), ADDRESSES[1]);
        for _ in 0..20 {
            air.answer_in(&mut name);
        }
        let taken = air.try_ping(0, 1, 3);

        // Without a key it works, so that the attack is one.
        let is_taken = !taken.contains(" 0% packet loss");
        assert_eq!(is_taken, !is_keyed, "{taken}\n{}", air.status(0));
        let refused = air.count(0, "hellos_unauthenticated");
        assert_eq!(refused > 0, is_keyed, "{}", air.status(0));
        assert_eq!(air.count(0, "neighbours"), u64::from(!is_keyed), "{}", air.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn thousands_of_false_stations_do_not_keep_a_neighbour_out() {
    let mut air = Air::new(false);
    air.start(0, "");

    air.send_hellos((0..2_500).map(|station| Name::stranger(station).hello(1)));
    air.start(1, "");
    air.send_hellos((2_500..5_000).map(|station| Name::stranger(station).hello(1)));
    let is_up = wait_until(SOON, || air.count(0, "neighbours") == 1);

    assert!(is_up, "{}", air.status(0));
    assert!(air.count(0, "neighbours_evicted") > 4_000, "{}", air.status(0));
    air.ping(0, 1, 3);
    assert!(air.count(0, "packets_intercepted") > 0, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn false_goodbyes_end_nothing() {
    let mut air = Air::new(true);
    air.start_both("");

    let [ours, theirs] = [0, 1].map(|node| air.hello_of(air.mac(node)));
    for counter in 0..200 {
        // As b would say it, with all that is heard of the conversation.
        let us = theirs.neighbours.iter().find(|heard| heard.boot == ours.boot);
        let goodbye = Hello {
            is_goodbye: true,
            counter: theirs.counter + 1_000 + counter,
            neighbours: us.copied().into_iter().collect(),
            ..theirs.clone()
        };
        air.send_hello(&goodbye);
    }
    air.ping(0, 1, 10);

    assert!(air.count(0, "hellos_unauthenticated") >= 200, "{}", air.status(0));
    assert_eq!(air.count(0, "neighbours_down"), 0, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn recorded_hellos_and_packets_count_no_second_time() {
    let mut air = Air::new(true);
    air.start_both("");
    // One start of b, with its goodbye, and another.
    air.ping(0, 1, 5);
    air.stop(1);
    air.start(1, "");
    assert!(wait_until(SOON, || air.count(0, "neighbours") == 1), "{}", air.status(0));
    air.ping(0, 1, 5);

    let frames = air.heard();
    let hellos = frames.iter().filter(|frame| hello_in(frame).is_some()).count();
    assert!(hellos > 4 && frames.len() > hellos + 20, "{hellos} of {}", frames.len());
    let downs = air.count(0, "neighbours_down");
    for frame in frames.iter().chain(frames.iter().rev()) {
        air.send(frame);
    }
    air.ping(0, 1, 10);

    assert_eq!(air.count(0, "neighbours_down"), downs, "{}", air.status(0));
    assert!(air.count(0, "hellos_stale") > 2, "{}", air.status(0));
    assert!(air.count(0, "frames_replayed") > 10, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn forged_packets_of_a_neighbour_are_dropped_and_counted() {
    let mut air = Air::new(true);
    air.start_both("");
    air.ping(0, 1, 5);

    let frames = air.heard();
    let packets: Vec<_> = frames
        .iter()
        .filter(|frame| hello_in(frame).is_none() && frame[6..12] == air.mac(1).0)
        .collect();
    assert!(packets.len() > 4, "{} packets", packets.len());
    for round in 0..200 {
        let mut frame = packets[round % packets.len()].clone();
        // A number that was not used, a word of the content, or the address it claims to come from.
        let len = frame.len();
        let at = [len - 9, len - 14, frame::HEADER + 15][round % 3];
        frame[at] ^= 0x40;
        rewrite_v4_checksum(&mut frame[frame::HEADER..][..20]);
        air.send(&frame);
    }
    // And one without a trailer, as those have who have no key.
    let mut packet = Vec::new();
    Spec::new(ADDRESSES[1].into(), ADDRESSES[0].into(), PROTOCOL).emit(8, &mut packet);
    packet.extend_from_slice(&[0x80, 1, 0, 1, 0, 0, 59, 0]);
    air.send(&[&frame::header(air.mac(0), air.mac(1), &packet)[..], &packet].concat());
    air.ping(0, 1, 10);

    // Those with a number that was taken are not looked at any further.
    let [forged, again] = ["frames_forged", "frames_replayed"].map(|name| air.count(0, name));
    assert_eq!((forged + again, forged >= 67), (201, true), "{}", air.status(0));
    assert_eq!(air.count(0, "neighbours_down"), 0, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_list_of_neighbours_is_kept_and_binds_addresses() {
    let mut air = Air::new(false);
    let bound = format!("neighbours = [\"10.9.0.2 at {}\"]\n", air.mac(1));
    air.start(0, &bound);

    let mut unlisted = Name::new(Mac([2, 0, 0, 0, 0, 9]), [10, 9, 0, 9]);
    let mut misplaced = Name::new(Mac([2, 0, 0, 0, 0, 8]), ADDRESSES[1]);
    for _ in 0..5 {
        air.answer_in(&mut unlisted);
        air.answer_in(&mut misplaced);
    }
    let is_counted = wait_until(SOON, || {
        air.count(0, "hellos_unlisted") >= 5 && air.count(0, "hellos_misplaced") >= 5
    });
    let is_alone = air.count(0, "neighbours") == 0;
    air.start(1, "");
    let is_up = wait_until(SOON, || air.count(0, "neighbours") == 1);

    assert!(is_counted && is_alone && is_up, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_address_of_a_neighbour_is_not_given_to_a_second_station() {
    let mut air = Air::new(false);
    air.start_both("");

    let mut second = Name::new(Mac([2, 0, 0, 0, 0, 8]), ADDRESSES[1]);
    for _ in 0..5 {
        air.answer_in(&mut second);
    }

    assert!(air.count(0, "hellos_disputed") >= 5, "{}", air.status(0));
    assert_eq!(air.count(0, "neighbours"), 1, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nobody_comes_up_who_does_not_repeat_the_session_of_now() {
    let mut air = Air::new(false);
    air.start(0, "");

    // It hears us, and says another session than ours.
    let mut name = Name::new(Mac([2, 0, 0, 0, 0, 9]), [10, 9, 0, 9]);
    name.error = 1;
    for _ in 0..5 {
        air.answer_in(&mut name);
    }
    let is_down = air.count(0, "neighbours") == 0;
    name.error = 0;
    for _ in 0..5 {
        air.answer_in(&mut name);
    }

    assert!(is_down && air.count(0, "neighbours") == 1, "{}", air.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_strangers_say_fills_no_log() {
    let mut air = Air::new(false);
    air.start(0, "");

    let seed = |station| Hello { profile: Profile::Seed, ..Name::stranger(station).hello(1) };
    air.send_hellos((0..5_000).map(seed));
    let is_heard = wait_until(SOON, || air.count(0, "hellos_incompatible") > 4_000);
    let printed = air.stop(0);

    assert!(is_heard);
    let lines = printed.lines().filter(|line| line.contains("another profile")).count();
    // A second one if the minute ended meanwhile.
    assert!((1..=2).contains(&lines), "{lines} lines");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_has_another_key_or_none_is_reached_by_plain_ip_and_the_log_says_so() {
    let mut air = Air::new(true);
    air.start(0, "");
    let other = air.file("other.key");
    air.nets.run(&air.nodes[1], &format!("{TRACKWAY} keygen --group --out {}", other.display()));
    for key in [format!("group_key = {other:?}\n"), String::new()] {
        air.start_with(1, &key);
        let is_refused = wait_until(SOON, || air.count(1, "hellos_unauthenticated") > 0);

        assert!(is_refused, "{}", air.status(1));
        air.ping(0, 1, 3);
        assert_eq!(air.count(0, "neighbours"), 0, "{}", air.status(0));
        let printed = air.stop(1);
        let expected =
            if key.is_empty() { "and we have none" } else { "another group key or none" };
        assert!(printed.contains(expected), "{printed}");
        assert_eq!(printed.contains("no group_key"), key.is_empty(), "{printed}");
    }
}

/// Three nodes that hear each other; the attacker has a packet socket.
struct Air {
    nets: Namespaces,
    nodes: Vec<String>,
    programs: [Option<usize>; 3],
    port: Port,
    key: Option<PathBuf>,
    folder: PathBuf,
}

/// Whom the attacker passes for.
struct Name {
    station: Mac,
    address: [u8; 4],
    boot: u64,
    counter: u64,
    /// What it adds to the sessions that it repeats.
    error: u32,
}

impl Name {
    fn new(station: Mac, address: [u8; 4]) -> Self {
        Self { station, address, boot: 0x0bad, counter: 0, error: 0 }
    }

    /// One of many.
    fn stranger(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        let name = Self::new(Mac([2, 0, 0, 9, high, low]), [10, 9, high | 0x80, low]);
        Self { boot: 0x0bad_0000 + u64::from(number), ..name }
    }

    fn hello(&self, counter: u64) -> Hello {
        Hello {
            profile: Profile::Default,
            boot: self.boot,
            counter,
            wants_answer: true,
            is_goodbye: false,
            is_partial: false,
            station: self.station,
            addresses: vec![self.address.into()],
            neighbours: Vec::new(),
        }
    }
}

impl Air {
    fn new(is_keyed: bool) -> Self {
        let mut nets = Namespaces::new();
        let air = nets.add("air");
        nets.run(&air, "ip link add air type bridge ageing_time 0 stp_state 0");
        nets.run(&air, "ip link set dev air up");
        let nodes: Vec<_> = NODES.iter().map(|node| nets.add(node)).collect();
        for ((node, name), address) in nodes.iter().zip(NODES).zip(ADDRESSES) {
            nets.cable((node, "m0"), (&air, name));
            nets.run(&air, &format!("ip link set dev {name} master air"));
            let [a, b, c, d] = address;
            nets.address(node, "m0", &format!("{a}.{b}.{c}.{d}/24"));
        }
        let folder = std::env::temp_dir().join(&air);
        fs::create_dir_all(&folder).unwrap();
        let key = is_keyed.then(|| folder.join("group.key"));
        if let Some(key) = &key {
            nets.run(&air, &format!("{TRACKWAY} keygen --group --out {}", key.display()));
        }
        let port = nets.within(&nodes[2], || Port::open("m0").unwrap());
        Self { nets, nodes, programs: [None; 3], port, key, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a gateway, with the key if there is one.
    fn start(&mut self, node: usize, config: &str) {
        let key = self.key.as_ref().map(|key| format!("group_key = {key:?}\n"));
        self.start_with(node, &(key.unwrap_or_default() + config));
    }

    fn start_with(&mut self, node: usize, config: &str) {
        let file = self.file(&format!("{}.toml", NODES[node]));
        fs::write(&file, format!("interfaces = [\"m0\"]\n{config}")).unwrap();
        let command = format!("{TRACKWAY} run {}", file.display());
        let name = self.nodes[node].clone();
        self.programs[node] = Some(self.nets.start(&name, &command, "gateway ready"));
    }

    fn start_both(&mut self, config: &str) {
        for node in [0, 1] {
            self.start(node, config);
        }
        for node in [0, 1] {
            let is_up = wait_until(SOON, || self.count(node, "neighbours") == 1);
            assert!(is_up, "{}", self.status(node));
        }
    }

    /// Ends a gateway and returns what it printed.
    fn stop(&mut self, node: usize) -> String {
        let program = self.programs[node].take().unwrap();
        self.nets.program(program).stop().1
    }

    fn mac(&self, node: usize) -> Mac {
        let mac = self.nets.run(&self.nodes[node], "cat /sys/class/net/m0/address");
        mac.trim().parse().unwrap()
    }

    /// Sends a frame as it is.
    fn send(&self, frame: &[u8]) {
        let sent = [&[0; OFFLOAD][..], frame].concat();
        let is_sent = wait_until(SOON, || self.port.send(&sent).is_ok());
        assert!(is_sent);
    }

    /// Says this to everyone, without any key.
    fn send_hello(&self, hello: &Hello) {
        let mut payload = Vec::new();
        hello.emit(None, &mut payload);
        let mut packet = Vec::new();
        let source = hello.addresses[0];
        let spec = Spec { ttl: 1, ..Spec::new(source, [224, 0, 0, 1].into(), PROTOCOL) };
        spec.emit(payload.len(), &mut packet);
        packet.extend_from_slice(&payload);
        let header = frame::header(Mac::EVERYONE, hello.station, &packet);
        self.send(&[&header[..], &packet].concat());
    }

    /// Says all of these to everyone, no faster than a takes them.
    fn send_hellos(&self, hellos: impl Iterator<Item = Hello>) {
        let before = self.count(0, "hellos_received");
        for (sent, hello) in (1..).zip(hellos) {
            self.send_hello(&hello);
            if sent % 100 == 0 {
                wait_until(SOON, || self.count(0, "hellos_received") >= before + sent);
            }
        }
    }

    /// Says hello in this name, listens to what a says to that, and repeats the session it is told.
    fn answer_in(&self, name: &mut Name) {
        self.heard();
        name.counter += 1;
        self.send_hello(&name.hello(name.counter));
        let mut us = None;
        let told =
            |hello: &Hello| hello.neighbours.iter().find(|heard| heard.boot == name.boot).copied();
        wait_until(Duration::from_millis(200), || {
            let hellos = self.heard();
            us = hellos.iter().filter_map(|frame| hello_in(frame)).find_map(|hello| {
                told(&hello).map(|heard| Heard {
                    boot: hello.boot,
                    session: 7,
                    echo: heard.session.wrapping_add(name.error),
                })
            });
            us.is_some()
        });
        name.counter += 1;
        let hello = name.hello(name.counter);
        self.send_hello(&Hello { neighbours: us.into_iter().collect(), ..hello });
        // Until it was taken.
        let begun = Instant::now();
        wait_until(Duration::from_millis(50), || begun.elapsed() > Duration::from_millis(40));
    }

    /// All HBH frames that the attacker has heard since the last call.
    fn heard(&self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 1 << 17];
        let mut frames = Vec::new();
        while let Some(received) = self.port.receive(&mut buffer).unwrap() {
            let frame = &buffer[OFFLOAD..received.len];
            let is_hbh = frame::parse(frame)
                .and_then(|(_, _, packet)| Header::parse(packet).ok())
                .is_some_and(|header| header.protocol == PROTOCOL);
            if is_hbh {
                frames.push(frame.to_vec());
            }
        }
        frames
    }

    /// The next hello that such a station says.
    fn hello_of(&self, station: Mac) -> Hello {
        let mut found = None;
        wait_until(SOON, || {
            let hellos = self.heard();
            let mut hellos = hellos.iter().filter_map(|frame| hello_in(frame));
            found = hellos.find(|hello| hello.station == station && !hello.neighbours.is_empty());
            found.is_some()
        });
        found.unwrap()
    }

    fn ping(&self, from: usize, to: usize, count: u32) {
        let said = self.try_ping(from, to, count);
        assert!(said.contains(" 0% packet loss"), "{said}\n{}", self.status(from));
    }

    fn try_ping(&self, from: usize, to: usize, count: u32) -> String {
        let [a, b, c, d] = ADDRESSES[to];
        let command = format!("ping -c {count} -i 0.1 -W 2 {a}.{b}.{c}.{d}");
        let output = self.nets.try_run(&self.nodes[from], &command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn status(&self, node: usize) -> String {
        let command = format!("{TRACKWAY} status --json");
        let output = self.nets.try_run(&self.nodes[node], &command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn count(&self, node: usize, counter: &str) -> u64 {
        let status: Value = serde_json::from_str(&self.status(node)).unwrap_or_default();
        status[counter].as_u64().unwrap_or_default()
    }
}

impl Drop for Air {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The hello in a frame, as anybody can read it: its tag is cut off.
fn hello_in(frame: &[u8]) -> Option<Hello> {
    let (_, _, packet) = frame::parse(frame)?;
    let header = Header::parse(packet).ok()?;
    let payload = &packet[header.len..header.total_len];
    if !Hello::is_one(payload) {
        return None;
    }
    let mut octets = payload.to_vec();
    if octets.get(34..36)? != [0, 0] {
        octets.truncate(octets.len() - proto::hbh::auth::HELLO_TAG);
        octets[34..36].fill(0);
    }
    octets[4..6].fill(0);
    let sum = proto::ip::Checksum::default().with(&octets).finish();
    octets[4..6].copy_from_slice(&sum.to_be_bytes());
    Hello::parse(&octets, None).ok()
}
