//! Three stations in radio range of each other, including an attacker.

use std::path::PathBuf;
use std::time::Duration;

use ::gateway::keys;
use ::gateway::sys::port::{OFFLOAD, Port};
use base::ethernet::{self, Mac};
use base::ip::{Checksum, Header, Spec};
use base::keys::GroupSecret;
use hbh::Profile;
use hbh::auth::GroupKey;
use hbh::hello::{Heard, Hello, Reception};

use crate::namespaces::{Namespaces, TRACKWAY, wait_until};

pub const SOON: Duration = Duration::from_secs(15);
pub const ADDRESSES: [[u8; 4]; 3] = [[10, 9, 0, 1], [10, 9, 0, 2], [10, 9, 0, 3]];
pub const PROTOCOL: u8 = 253;

const NODES: [&str; 3] = ["a", "b", "attacker"];

/// Three nodes that hear each other; the attacker has a packet socket.
pub struct Air {
    pub nets: Namespaces,
    pub nodes: Vec<String>,
    programs: [Option<usize>; 3],
    port: Port,
    key: Option<PathBuf>,
    /// The group key, if the attacker has it.
    betrayed: Option<GroupKey>,
}

/// Whom the attacker passes for.
pub struct Name {
    station: Mac,
    address: [u8; 4],
    boot: u64,
    counter: u64,
    /// Offset that the attacker adds to the sessions it repeats.
    pub error: u32,
}

impl Name {
    pub fn new(station: Mac, address: [u8; 4]) -> Self {
        Self { station, address, boot: 0x0bad, counter: 0, error: 0 }
    }

    /// One of many.
    pub fn stranger(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        let name = Self::new(Mac([2, 0, 0, 9, high, low]), [10, 9, high | 0x80, low]);
        Self { boot: 0x0bad_0000 + u64::from(number), ..name }
    }

    pub fn hello(&self, counter: u64) -> Hello {
        Hello {
            profile: Profile::Default,
            boot: self.boot,
            counter,
            wants_answer: true,
            is_goodbye: false,
            is_partial: false,
            number: 0,
            station: self.station,
            addresses: vec![self.address.into()],
            neighbours: Vec::new(),
        }
    }
}

impl Air {
    pub fn new(is_keyed: bool) -> Self {
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
        let folder = nets.folder().to_owned();
        let key = is_keyed.then(|| folder.join("group.key"));
        if let Some(key) = &key {
            nets.run(&air, &format!("{TRACKWAY} keygen --group --out {}", key.display()));
        }
        let port = nets.within(&nodes[2], || Port::open("m0").unwrap());
        Self { nets, nodes, programs: [None; 3], port, key, betrayed: None }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.nets.folder().join(name)
    }

    /// Starts a gateway, with the key if there is one.
    pub fn start(&mut self, node: usize, config: &str) {
        let key = self.key.as_ref().map(|key| format!("group-key = {key:?}\n"));
        self.start_with(node, &(key.unwrap_or_default() + config));
    }

    pub fn start_with(&mut self, node: usize, config: &str) {
        let config = format!("[hbh]\ninterfaces = [\"m0\"]\n{config}");
        let gateway = self.nets.start_gateway(&self.nodes[node], NODES[node], &config);
        self.programs[node] = Some(gateway);
    }

    pub fn start_both(&mut self, config: &str) {
        for node in [0, 1] {
            self.start(node, config);
        }
        for node in [0, 1] {
            let is_up = wait_until(SOON, || self.count(node, "neighbours") == 1);
            assert!(is_up, "{}", self.status(node));
        }
    }

    /// Ends a gateway and returns what it printed.
    pub fn stop(&mut self, node: usize) -> String {
        let program = self.programs[node].take().unwrap();
        self.nets.program(program).stop().1
    }

    pub fn mac(&self, node: usize) -> Mac {
        let mac = self.nets.run(&self.nodes[node], "cat /sys/class/net/m0/address");
        mac.trim().parse().unwrap()
    }

    /// Sends a frame unchanged.
    pub fn send(&self, frame: &[u8]) {
        let sent = [&[0; OFFLOAD][..], frame].concat();
        let is_sent = wait_until(SOON, || self.port.send(&sent).is_ok());
        assert!(is_sent);
    }

    /// From now on the attacker has the group key.
    pub fn betray(&mut self) {
        let secret: GroupSecret = keys::read(self.key.as_ref().unwrap()).unwrap();
        self.betrayed = Some(GroupKey::new(secret.octets()));
    }

    /// Says this to everyone, with the group key if the attacker has it.
    pub fn send_hello(&self, hello: &Hello) {
        self.send_changed(hello, self.betrayed.as_ref(), |_| {});
    }

    /// Says this to everyone without a key.
    pub fn send_unkeyed(&self, hello: &Hello) {
        self.send_changed(hello, None, |_| {});
    }

    /// Says this to everyone with the attacker's key, changed behind its tag.
    pub fn send_false(&self, hello: &Hello, change: impl FnOnce(&mut [u8])) {
        self.send_changed(hello, self.betrayed.as_ref(), |payload| {
            change(payload);
            payload[4..6].fill(0);
            let sum = Checksum::default().with(payload).finish();
            payload[4..6].copy_from_slice(&sum.to_be_bytes());
        });
    }

    fn send_changed(&self, hello: &Hello, key: Option<&GroupKey>, change: impl FnOnce(&mut [u8])) {
        let mut payload = Vec::new();
        hello.emit(key, &mut payload);
        change(&mut payload);
        let mut packet = Vec::new();
        let source = hello.addresses[0];
        let spec = Spec { ttl: 1, ..Spec::new(source, [224, 0, 0, 1].into(), PROTOCOL) };
        spec.emit(payload.len(), &mut packet);
        packet.extend_from_slice(&payload);
        let header = ethernet::header(Mac::EVERYONE, hello.station, &packet);
        self.send(&[&header[..], &packet].concat());
    }

    /// Says all of these to everyone, no faster than a takes them.
    pub fn send_hellos(&self, hellos: impl Iterator<Item = Hello>) {
        let before = self.count(0, "hellos_received");
        for (sent, hello) in (1..).zip(hellos) {
            self.send_hello(&hello);
            if sent % 100 == 0 {
                wait_until(SOON, || self.count(0, "hellos_received") >= before + sent);
            }
        }
    }

    /// Says hello in this name, listens to what a says to that, and repeats the session it is told;
    /// returns whether it was told one.
    pub fn answer_in(&self, name: &mut Name) -> bool {
        let taken = || -> u64 {
            ["hellos_received", "hellos_unauthenticated"].iter().map(|it| self.count(0, it)).sum()
        };
        let before = taken();
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
                    reception: Reception::default(),
                })
            });
            us.is_some()
        });
        name.counter += 1;
        let hello = name.hello(name.counter);
        self.send_hello(&Hello { neighbours: us.into_iter().collect(), ..hello });
        let is_taken = wait_until(SOON, || taken() >= before + 2);
        assert!(is_taken, "{}", self.status(0));
        us.is_some()
    }

    /// All HBH frames that the attacker has heard since the last call.
    pub fn heard(&self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 1 << 17];
        let mut frames = Vec::new();
        while let Some(received) = self.port.receive(&mut buffer).unwrap() {
            let frame = &buffer[OFFLOAD..received.len];
            let is_hbh = ethernet::parse(frame)
                .and_then(|(_, _, packet)| Header::parse(packet).ok())
                .is_some_and(|header| header.protocol == PROTOCOL);
            if is_hbh {
                frames.push(frame.to_vec());
            }
        }
        frames
    }

    /// The next hello that such a station says.
    pub fn hello_of(&self, station: Mac) -> Hello {
        let mut found = None;
        wait_until(SOON, || {
            let hellos = self.heard();
            let mut hellos = hellos.iter().filter_map(|frame| hello_in(frame));
            found = hellos.find(|hello| hello.station == station && !hello.neighbours.is_empty());
            found.is_some()
        });
        found.unwrap()
    }

    pub fn ping(&self, from: usize, to: usize, count: u16) {
        let [a, b, c, d] = ADDRESSES[to];
        let to = format!("{a}.{b}.{c}.{d}");
        let unanswered = self.nets.unanswered(&self.nodes[from], &to, count, 56);
        assert!(unanswered.is_empty(), "{unanswered:?}\n{}", self.status(from));
    }

    pub fn try_ping(&self, from: usize, to: usize, args: &str) -> String {
        let [a, b, c, d] = ADDRESSES[to];
        let command = format!("ping {args} -i 0.1 -W 2 {a}.{b}.{c}.{d}");
        let output = self.nets.try_run(&self.nodes[from], &command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn status(&self, node: usize) -> String {
        self.nets.status(&self.nodes[node]).to_string()
    }

    pub fn count(&self, node: usize, counter: &str) -> u64 {
        self.nets.count(&self.nodes[node], counter)
    }
}

/// The hello in a frame, as anybody can read it: its tag is cut off.
pub fn hello_in(frame: &[u8]) -> Option<Hello> {
    let (_, _, packet) = ethernet::parse(frame)?;
    let header = Header::parse(packet).ok()?;
    let payload = &packet[header.len..header.total_len];
    if !Hello::is_one(payload) {
        return None;
    }
    let mut octets = payload.to_vec();
    if octets.get(34..36)? != [0, 0] {
        octets.truncate(octets.len() - hbh::auth::HELLO_TAG);
        octets[34..36].fill(0);
    }
    octets[4..6].fill(0);
    let sum = base::ip::Checksum::default().with(&octets).finish();
    octets[4..6].copy_from_slice(&sum.to_be_bytes());
    Hello::parse(&octets, None).ok()
}
