//! Fuzzes the subnetwork interface: primitives and S_PDUs survive a round trip; server and client survive any other end
//! in bounded memory.

use std::time::Duration;

use base::time::Time;
use hf::s5066::Address;
use hf::s5066::service::{Command, Failure, Indication, LinkEvent, Outcome, Request};
use hf::s5066::sis::client::{self, Client};
use hf::s5066::sis::primitive::ENVELOPE;
use hf::s5066::sis::server::{Backlog, Known};
use hf::s5066::sis::spdu::SPdu;
use hf::s5066::sis::stream::Stream;
use hf::s5066::sis::{
    ClientId, Config, Delivery, Event, FlowControl, Limits, Mode, NodeStatus, PeerState, Primitive,
    Sap, Server, Service, UnavailableReason,
};

const NEAR: Address = Address::node(1);
const FAR: Address = Address::node(2);

/// Reads the input as a primitive, an S_PDU and a stream, writes it again and compares.
pub(crate) fn primitive(input: &[u8]) {
    if let Ok(read) = Primitive::parse(input) {
        let mut written = Vec::new();
        read.emit(&mut written);
        let again = Primitive::parse(&written[ENVELOPE..]).expect("what is written can be read");
        // A copy longer than the size field allows is cut.
        assert_eq!(again, read);
    }
    if let Ok(read) = SPdu::parse(input) {
        let mut written = Vec::new();
        read.emit(&mut written);
        assert_eq!(SPdu::parse(&written), Ok(read));
    }
    let mut stream = Stream::default();
    stream.push(input);
    while let Ok(Some(fields)) = stream.take() {
        let _ = Primitive::parse(fields);
    }
    let mut client = Client::new(client::Config::new(Sap::IP_CLIENT));
    client.handle_connected(Time::ZERO);
    client.handle_octets(Time::ZERO, &[0x90, 0xeb, 0, 0, 4, 3, 0x90, 8, 0]);
    client.handle_octets(Time::ZERO, input);
    while client.poll_event().is_some() {}
    client.handle_timeout(Time::ZERO);
    assert!(client.next_timeout().is_none_or(|at| at > Time::ZERO), "it spins");
}

const FLOOD: Backlog = Backlog { octets: 20_000, u_pdus: 40 };
const CLIENTS: usize = 4;
const UNREAD: usize = 4_000;

struct Stage {
    now: Time,
    server: Server,
    ids: [Option<ClientId>; CLIENTS],
    /// Requests handed to the layer below, outcome pending.
    below: Vec<Request>,
}

/// The input chooses the octets of clients, and the actions of the layers below and of other nodes.
pub(crate) fn server(input: &[u8]) {
    let config = Config {
        flow: FlowControl {
            off: Backlog { octets: 10_000, u_pdus: 20 },
            on: Backlog { octets: 5_000, u_pdus: 10 },
            flood: FLOOD,
        },
        limits: Limits {
            max_unread: UNREAD,
            max_clients: CLIENTS,
            max_undecided: 20,
            ..Limits::default()
        },
        keep_alive: Some(Duration::from_secs(200)),
        max_ttl: Some(Duration::from_secs(1_000)),
        ..Config::default()
    };
    let server = Server::new(config, NEAR);
    let mut stage = Stage { now: Time::ZERO, server, ids: [None; CLIENTS], below: Vec::new() };
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = stage.act(action, value, after);
        stage.settle();
    }
}

impl Stage {
    fn act<'a>(&mut self, action: u8, value: u8, after: &'a [u8]) -> &'a [u8] {
        let at = usize::from(action >> 4) % CLIENTS;
        let (octets, rest) = after.split_at(usize::from(value).min(after.len()));
        match action & 0x0f {
            0 => {
                if self.ids[at].is_none() {
                    self.ids[at] = self.server.handle_connected(self.now);
                }
                return after;
            }
            1 => {
                if let Some(id) = self.ids[at].take() {
                    self.server.handle_disconnected(self.now, id);
                }
                return after;
            }
            2 => self.say(at, octets),
            // In an envelope.
            3..=5 => {
                let size = u16::try_from(octets.len()).expect("an octet's worth").to_be_bytes();
                let mut framed = vec![0x90, 0xeb, 0, size[0], size[1]];
                framed.extend_from_slice(octets);
                self.say(at, &framed);
            }
            6 => {
                let service: Delivery = if value & 1 == 0 {
                    Service::ARQ.into()
                } else {
                    Service { takes_errors: true, ..Service::NON_ARQ }.into()
                };
                let mut bind = Vec::new();
                let sap = Sap::new(value >> 4);
                Primitive::BindRequest { sap, rank: value & 0x0f, service }.emit(&mut bind);
                self.say(at, &bind);
                return after;
            }
            7 | 8 => {
                if self.below.len() < 200 {
                    let least = if action & 0x0f == 7 { 0 } else { value & 0x0f };
                    self.below.extend(self.server.poll_request(self.now, least));
                }
                return after;
            }
            9 => {
                let chosen = usize::from(value >> 2) % self.below.len().max(1);
                if chosen < self.below.len() {
                    let request = self.below.swap_remove(chosen);
                    let outcome = match value & 3 {
                        0 => Outcome::not_arrived(Failure::NoResponse),
                        1 => Outcome::not_arrived(Failure::Expired),
                        _ => Outcome::Done,
                    };
                    self.server.handle_outcome(self.now, request.id, outcome);
                }
                return after;
            }
            // An S_PDU of this node comes back from another node.
            10 => {
                if let Some(request) = self.below.first() {
                    let Request { mode, is_expedited, ref s_pdu, .. } = *request;
                    self.indicate(mode, is_expedited, s_pdu.clone(), value);
                }
                return after;
            }
            11 => self.indicate(Mode::Arq { in_order: true }, true, octets.to_vec(), 0),
            12 => self.indicate(Mode::ONCE, false, octets.to_vec(), action),
            13 => {
                self.now += Duration::from_secs(u64::from(value));
                return after;
            }
            14 => {
                let peer = if value & 8 == 0 { FAR } else { Address::node(u32::from(value)) };
                let event = match value & 3 {
                    0 => LinkEvent::Made { peer, is_exclusive: true, is_caller: value & 4 == 0 },
                    1 => LinkEvent::NotMade { peer, has_answered: value & 4 == 0 },
                    _ => LinkEvent::Broken { peer, is_exclusive: true },
                };
                self.server.handle_link(self.now, event);
                return after;
            }
            _ => {
                if let Some(id) = self.ids[at] {
                    let mut out = Vec::new();
                    while self.server.poll_octets(self.now, id, &mut out) {}
                }
                let status = if value == 0 { NodeStatus::OFF } else { NodeStatus::ON };
                self.server.handle_availability(self.now, status, UnavailableReason::UNSPECIFIED);
                return after;
            }
        }
        rest
    }

    fn say(&mut self, at: usize, octets: &[u8]) {
        if let Some(id) = self.ids[at] {
            self.server.handle_octets(self.now, id, octets);
        }
    }

    fn indicate(&mut self, mode: Mode, is_expedited: bool, s_pdu: Vec<u8>, damage: u8) {
        let mut indication = Indication {
            from: FAR,
            to: if damage & 0x80 == 0 { NEAR } else { Address::BROADCAST },
            mode,
            is_expedited,
            s_pdu,
            errored: Vec::new(),
            missing: Vec::new(),
        };
        let start = u16::from(damage >> 4);
        if damage & 1 == 1 {
            indication.errored.push(start..start + 2);
        }
        if damage & 2 == 2 {
            indication.missing.push(start + 4..u16::MAX);
        }
        self.server.handle_indication(self.now, &indication);
    }

    /// A driver repeats its calls while a deadline is due.
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            self.server.handle_timeout(self.now);
            if self.server.next_timeout().is_none_or(|at| at > self.now) {
                break;
            }
        }
        for turn in 0.. {
            let Some(event) = self.server.poll_event() else { break };
            assert!(turn < 100, "events without end");
            if let Event::Close(id) = event {
                self.server.handle_disconnected(self.now, id);
                for slot in &mut self.ids {
                    slot.take_if(|one| *one == id);
                }
            }
        }
        for turn in 0.. {
            let Some(command) = self.server.poll_command() else { break };
            assert!(turn < 100, "commands without end");
            match command {
                Command::MakeExclusive { peer } | Command::BreakExclusive { peer } => {
                    assert!(!peer.is_group());
                }
                Command::Describe { client, node } => {
                    let known = Known { state: PeerState::Down, bits_per_s: 75, backlog: 0 };
                    self.server.handle_described(self.now, client, node, known);
                }
                Command::TakeBack { id } => {
                    if let Some(at) = self.below.iter().position(|request| request.id == id) {
                        self.below.remove(at);
                        let taken = Outcome::not_arrived(Failure::TakenBack);
                        self.server.handle_outcome(self.now, id, taken);
                    }
                }
                Command::AskRate { .. } => {}
            }
        }
        assert!(
            !self.server.backlog().exceeds(Backlog {
                octets: FLOOD.octets * CLIENTS,
                u_pdus: FLOOD.u_pdus * CLIENTS,
            })
        );
        // For each client, one primitive above the limit of unread octets, and one incomplete primitive.
        assert!(self.server.buffered() <= CLIENTS * (UNREAD + 2 * Stream::PIECE));
        assert!(self.server.undecided() <= 20 * CLIENTS);
        assert!(self.server.connections() <= CLIENTS);
    }
}
