//! Fuzzes a whole node of STANAG 5066: the node survives any client and any octets from the air, sends readable frames,
//! and each U_PDU has one outcome.

use std::collections::BTreeSet;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::{Event, Keying, Waveform};
use hf::s5066::dts::wire::Frame;
use hf::s5066::node::{Config, Node, Record};
use hf::s5066::sis::client::{self, Client, SendId};
use hf::s5066::sis::{Mode, Sap, Service, UnidataReason};
use hf::s5066::{Address, sis};

/// Largest number of steps in one input.
const MAX_STEPS: usize = 300;
/// The access point of the correct client.
const SAP: Sap = Sap::new(5);
/// Minutes until every U_PDU must have its outcome.
const PATIENCE: u32 = 600;

/// The input chooses the events in order: the air, clients, time.
pub fn node(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let mut run = Run::new(first);
    let mut rest = rest;
    for _ in 0..MAX_STEPS {
        let Some((&step, after)) = rest.split_first() else { break };
        rest = run.step(step, after);
        run.settle();
    }
    for minute in 0..PATIENCE {
        if minute >= 20 && run.pending.is_empty() {
            break;
        }
        run.pass(Duration::from_secs(60));
        run.settle();
    }
    assert!(run.pending.is_empty(), "without an outcome: {:?}", run.pending);
}

/// A node and its driver.
struct Run {
    now: Time,
    node: Node,
    waveform: Waveform,
    clients: Vec<sis::ClientId>,
    /// A correct client, and its U_PDUs without an outcome.
    user: Option<(sis::ClientId, Client)>,
    pending: BTreeSet<SendId>,
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
        let id = node.handle_connected(Time::ZERO).expect("room for a client");
        let mut user = Client::new(client::Config::new(SAP));
        user.handle_connected(Time::ZERO);
        Self {
            now: Time::ZERO,
            node,
            waveform,
            clients: Vec::new(),
            user: Some((id, user)),
            pending: BTreeSet::new(),
            is_transmitting: false,
            sent: Vec::new(),
        }
    }

    /// Does one step and returns the unread rest of the input.
    fn step<'a>(&mut self, step: u8, rest: &'a [u8]) -> &'a [u8] {
        let (octets, after) = rest.split_at(usize::from(step >> 3).min(rest.len()));
        match step & 7 {
            0 => {
                let waveform = (step & 8 == 0).then_some(self.waveform);
                self.node.handle_modem(self.now, Event::CarrierDetected { waveform });
                return rest;
            }
            1 => match step >> 3 {
                0..=15 => {
                    self.node.handle_modem(self.now, Event::CarrierLost);
                    return rest;
                }
                // A whole transmission with one frame, from one of several peers.
                16..=25 => {
                    let (octets, after) = rest.split_at(24.min(rest.len()));
                    let waveform = Some(self.waveform);
                    self.node.handle_modem(self.now, Event::CarrierDetected { waveform });
                    let frame = framed(octets, (step >> 3) - 14);
                    self.node.handle_modem(self.now, Event::Received(frame));
                    self.node.handle_modem(self.now, Event::CarrierLost);
                    return after;
                }
                _ => {
                    let Some((&value, after)) = rest.split_first() else { return rest };
                    self.send(step >> 3, value);
                    return after;
                }
            },
            2 => self.node.handle_modem(self.now, Event::Received(octets.to_vec())),
            3 => {
                let frame = framed(octets, 2);
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

    /// The client sends a U_PDU with confirmation.
    fn send(&mut self, kind: u8, value: u8) {
        let Some((_, user)) = &mut self.user else { return };
        let send = client::Send {
            to: Address::node(2 + u32::from(kind & 1)),
            to_sap: SAP,
            priority: value & 0x0f,
            is_expedited: value & 0x10 != 0,
            service: Some(Service::of(Mode::Arq { in_order: value & 0x20 == 0 })),
            ttl: Duration::from_secs(u64::from(value & 0x40)),
            u_pdu: &vec![value; 1 + usize::from(value) * 8],
        };
        self.pending.extend(user.send(self.now, send));
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

    /// Takes the node's output for its clients and its modem; the modem sends immediately.
    fn settle(&mut self) {
        for client in self.clients.clone() {
            let mut out = Vec::new();
            while self.node.poll_octets(self.now, client, &mut out) {}
        }
        self.settle_user();
        while let Some(event) = self.node.poll_event() {
            if let sis::server::Event::Close(client) = event {
                self.clients.retain(|open| *open != client);
                self.node.handle_disconnected(self.now, client);
                if self.user.take_if(|(id, _)| *id == client).is_some() {
                    self.pending.clear();
                }
            }
        }
        assert!(self.node.links().count() <= 17);
        for _ in 0..3_000 {
            match self.node.poll_transmit(self.now, 4_096, &mut self.sent) {
                Some(Keying::Start(_)) => {
                    assert!(!self.is_transmitting);
                    self.is_transmitting = true;
                }
                Some(Keying::Octets) => assert!(self.is_transmitting),
                Some(Keying::End) => {
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
                let parsed = Frame::read(&octets);
                assert!(parsed.is_ok_and(|(frame, len)| frame.is_good() && len == octets.len()));
            }
        }
    }
}

impl Run {
    /// Carries octets between the node and the correct client.
    fn settle_user(&mut self) {
        let Some((id, user)) = &mut self.user else { return };
        let mut octets = Vec::new();
        loop {
            octets.clear();
            while user.poll_octets(self.now, &mut octets) {}
            let is_quiet = octets.is_empty();
            self.node.handle_octets(self.now, *id, &octets);
            octets.clear();
            while self.node.poll_octets(self.now, *id, &mut octets) {}
            user.handle_octets(self.now, &octets);
            if is_quiet && octets.is_empty() {
                break;
            }
        }
        while let Some(event) = user.poll_event() {
            match event {
                client::Event::Confirmed(send)
                | client::Event::Rejected { id: Some(send), .. } => {
                    assert!(self.pending.remove(&send), "one outcome each");
                }
                client::Event::Unbound(_) => {
                    self.pending.clear();
                    user.rebind(self.now);
                }
                // The other node confirmed the U_PDU, but had no client at this access point.
                client::Event::Rejected {
                    id: None, reason: UnidataReason::SAP_NOT_BOUND, ..
                } => {}
                client::Event::Close(_) | client::Event::Rejected { id: None, .. } => {
                    panic!("{event:?}")
                }
                client::Event::Availability { .. }
                | client::Event::Bound { .. }
                | client::Event::FlowOff
                | client::Event::FlowOn
                | client::Event::HardLink(_)
                | client::Event::Management { .. }
                | client::Event::Peer(_)
                | client::Event::Sealing { .. }
                | client::Event::Received(_)
                // Another client has the access point.
                | client::Event::Refused(_) => {}
            }
        }
        assert_eq!((user.stats().invalid, user.stats().stray), (0, 0));
    }
}

/// A frame to the node with correct checksums and otherwise arbitrary content.
fn framed(octets: &[u8], from: u8) -> Vec<u8> {
    let mut header = vec![0, 0, 0, 0, 0x10 | from];
    for (at, octet) in octets.iter().take(3).enumerate() {
        header[at] = *octet;
    }
    let specific = &octets[octets.len().min(3)..];
    let (specific, segment) = specific.split_at(specific.len().min(9));
    let size = 6 + specific.len();
    header[3] = 1 << 5 | u8::try_from(size).expect("fifteen at most");
    header.extend_from_slice(specific);
    let sum = base::crc::header(&header);
    let mut frame = vec![0x90, 0xeb];
    frame.extend_from_slice(&header);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame.extend_from_slice(segment);
    frame.extend_from_slice(&base::crc::segment(segment).to_le_bytes());
    frame
}
