//! A whole node: whatever its clients and the air say, it goes on, and what it sends is readable.

use std::time::Duration;

use proto::modem::{Event, Transmit, Waveform};
use proto::rng::Rng;
use proto::s5066::dts::wire::Frame;
use proto::s5066::node::{Config, Node, Record};
use proto::s5066::{Address, sis};
use proto::time::Time;

/// Steps of one input at most.
const MAX_STEPS: usize = 300;

/// Lets the input say what happens, in turn: the air, clients, time.
pub fn node(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let mut run = Run::new(first);
    let mut rest = rest;
    for _ in 0..MAX_STEPS {
        let Some((&step, after)) = rest.split_first() else { break };
        rest = run.step(step, after);
        run.settle();
    }
    for _ in 0..100 {
        run.pass(Duration::from_secs(60));
        run.settle();
    }
}

/// A node, and what drives it.
struct Run {
    now: Time,
    node: Node,
    waveform: Waveform,
    clients: Vec<sis::ClientId>,
    is_transmitting: bool,
    sent: Vec<u8>,
}

impl Run {
    fn new(first: u8) -> Self {
        let names = ["75", "300", "2400", "9600", "240000"];
        let name = names[usize::from(first) % names.len()];
        let waveform: Waveform = name.parse().expect("a waveform");
        let config = Config::new(Address::node(1), waveform);
        let mut node = Node::new(Time::ZERO, config, Rng::stream(1, "node"));
        node.record(true);
        Self {
            now: Time::ZERO,
            node,
            waveform,
            clients: Vec::new(),
            is_transmitting: false,
            sent: Vec::new(),
        }
    }

    /// One step; gives back what it did not read.
    fn step<'a>(&mut self, step: u8, rest: &'a [u8]) -> &'a [u8] {
        let (octets, after) = rest.split_at(usize::from(step >> 3).min(rest.len()));
        match step & 7 {
            0 => {
                let waveform = (step & 8 == 0).then_some(self.waveform);
                self.node.handle_modem(self.now, Event::CarrierDetected { waveform });
                return rest;
            }
            1 => {
                self.node.handle_modem(self.now, Event::CarrierLost);
                return rest;
            }
            2 => self.node.handle_modem(self.now, Event::Received(octets.to_vec())),
            3 => {
                let frame = framed(octets);
                self.node.handle_modem(self.now, Event::Received(frame));
            }
            4 => {
                self.pass(Duration::from_millis(1 << (step >> 4)));
                return rest;
            }
            5 => {
                self.clients.extend(self.node.handle_connected(self.now));
                return rest;
            }
            6 => {
                if let Some(&client) = self.clients.last() {
                    self.node.handle_octets(self.now, client, octets);
                }
            }
            _ => {
                if let Some(client) = self.clients.pop() {
                    self.node.handle_disconnected(self.now, client);
                }
                return rest;
            }
        }
        after
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..50 {
            let Some(next) = self.node.next_timeout().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            self.node.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
        self.node.handle_timeout(end);
    }

    /// Takes what the node has for its clients and its modem, which sends at once.
    fn settle(&mut self) {
        for client in self.clients.clone() {
            let mut out = Vec::new();
            while self.node.poll_octets(self.now, client, &mut out) {}
        }
        while let Some(event) = self.node.poll_event() {
            if let sis::server::Event::Close(client) = event {
                self.clients.retain(|open| *open != client);
                self.node.handle_disconnected(self.now, client);
            }
        }
        for _ in 0..3_000 {
            match self.node.poll_transmit(self.now, 4_096, &mut self.sent) {
                Some(Transmit::Start(_)) => {
                    assert!(!self.is_transmitting);
                    self.is_transmitting = true;
                }
                Some(Transmit::Octets) => assert!(self.is_transmitting),
                Some(Transmit::End) => {
                    assert!(self.is_transmitting);
                    self.is_transmitting = false;
                    self.sent.clear();
                    self.node.handle_modem(self.now, Event::Sent);
                }
                None => break,
            }
        }
        while let Some(record) = self.node.poll_record() {
            if let Record::Sent { octets, .. } = record {
                let parsed = Frame::parse(&octets);
                assert!(parsed.is_ok_and(|(frame, len)| frame.is_good() && len == octets.len()));
            }
        }
    }
}

/// A frame to the node with right check sums, whatever else it says.
fn framed(octets: &[u8]) -> Vec<u8> {
    let mut header = vec![0, 0, 0, 0, 0x12];
    for (at, octet) in octets.iter().take(3).enumerate() {
        header[at] = *octet;
    }
    let specific = &octets[octets.len().min(3)..];
    let (specific, segment) = specific.split_at(specific.len().min(9));
    let size = 6 + specific.len();
    header[3] = 1 << 5 | u8::try_from(size).expect("fifteen at most");
    header.extend_from_slice(specific);
    let sum = proto::s5066::dts::crc::header(&header);
    let mut frame = vec![0x90, 0xeb];
    frame.extend_from_slice(&header);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame.extend_from_slice(segment);
    frame.extend_from_slice(&proto::s5066::dts::crc::segment(segment).to_le_bytes());
    frame
}
