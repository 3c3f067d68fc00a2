//! Fuzzes an HF-PEP between arbitrary programs and nodes: the HF-PEP keeps working in bounded memory.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::hfpep::flows::wire::Message;
use hf::hfpep::flows::{self, Arrived, Client, FlowId};
use hf::hfpep::wire::MAGIC;
use hf::hfpep::{Config, Event, HfPep, Opening, SessionId, Target};
use hf::s5066::Address;
use hf::s5066::service::{Failure, Indication, Mode, Outcome, Request};
use hf::s5066::sis::spdu::{Data, SPdu};
use hf::s5066::sis::{self, ClientId, Sap, Server};
use hf::slep::{Delivery, Limits, Options, Reason};

const NEAR: Address = Address::node(1);
const RECEIVED: usize = 10_000;
const STREAMS: usize = 8;
const FLOWS: usize = 4;

/// The input chooses the actions of programs, nodes and the air.
pub(crate) fn end(input: &[u8]) {
    read_and_write(input);
    let mut run = Run::new();
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = run.act(action, value, after);
        run.settle();
    }
}

/// A message read and written again has the same octets.
fn read_and_write(input: &[u8]) {
    if let Ok(message) = Message::parse(input) {
        let mut octets = Vec::new();
        message.emit(&mut octets);
        assert_eq!(octets, input);
    }
    let Ok(Some((opening, rest))) = Opening::split_first(MAGIC, input) else { return };
    let mut octets = Vec::new();
    opening.emit(MAGIC, &mut octets);
    assert_eq!(octets, input[..input.len() - rest.len()]);
}

struct Run {
    now: Time,
    pep: HfPep,
    server: Server,
    id: Option<ClientId>,
    /// Requests handed to the layer below, outcome pending.
    below: Vec<Request>,
    /// Sessions for which another end asks for a connection.
    asked: Vec<SessionId>,
    /// UDP flows opened by another end.
    flows: Vec<FlowId>,
}

impl Run {
    fn new() -> Self {
        let mut config = Config::default();
        config.slep.window = 8;
        config.flows = flows::Config { flows: FLOWS, queue: 2_048, ..config.flows };
        config.slep.limits = Limits {
            streams: STREAMS,
            streams_of_peer: 5,
            peers: 3,
            closed: 3,
            unsent: 5_000,
            sent: 20_000,
            received: RECEIVED,
            early: 2_000,
            datagrams: 4_000,
        };
        Self {
            now: Time::ZERO,
            pep: HfPep::new(Time::ZERO, config, Rng::stream(0, "hfpep")),
            server: Server::new(sis::Config::default(), NEAR),
            id: None,
            below: Vec::new(),
            asked: Vec::new(),
            flows: Vec::new(),
        }
    }

    /// Does one step and returns the unread rest of the input.
    fn act<'a>(&mut self, action: u8, value: u8, rest: &'a [u8]) -> &'a [u8] {
        let now = self.now;
        let other = Address::node(2 + u32::from(action >> 6));
        let session = SessionId(u64::from(value & 0x0f));
        match action & 0x0f {
            0 => self.connect(),
            1 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.pep.handle_octets(now, some);
                return after;
            }
            2 | 3 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.arrive(other, some);
                return after;
            }
            4 => {
                // The first part of a stream; a stream must begin with an opening.
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                let head = [0x18, 0, 1, 0, value & 0x0f, 0, 0, 1, MAGIC];
                self.arrive(other, &[&head[..], some].concat());
                return after;
            }
            5 => {
                let options = Options { is_compressed: value & 1 == 0, ..Options::default() };
                let at = |port| (Ipv4Addr::LOCALHOST, u16::from(port)).into();
                let target = Target::Address { source: at(value), destination: at(action) };
                let opening = Opening { target, tls: None };
                let _ = match action & 0x10 {
                    0 => self.pep.open(now, other, opening, options),
                    _ => self.pep.open_confirmed(now, other, opening, options),
                };
            }
            6 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                let octets = some.repeat(usize::from(action));
                let room = self.pep.room(session);
                let taken = self.pep.write(now, session, &octets);
                assert!(taken <= octets.len() && taken <= room, "{taken} of room {room}");
                return after;
            }
            7 => self.pep.finish(now, session),
            8 => self.pep.reset(session, Reason(value)),
            9 | 10 => {
                let most = usize::from(action) * 20;
                let mut out = Vec::new();
                let read = self.pep.read(now, session, &mut out, most);
                assert!(read.octets == out.len() && read.octets <= most);
                assert!(out.is_empty() || !self.asked.contains(&session), "read too early");
            }
            11 => self.now += Duration::from_secs(u64::from(value) * 4),
            12 => {
                if let Some(session) = self.asked.pop() {
                    self.pep.accept(session);
                }
            }
            13 => {
                if self.below.len() < 100 {
                    self.below.extend(self.server.poll_request(now, value & 0x0f));
                }
            }
            14 if action & 0x10 != 0 => {
                // A message about a UDP flow.
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.arrive(other, &[&[0x04, 2, 2][..], some].concat());
                return after;
            }
            14 => self.use_flow(other, value),
            _ => self.decide(value),
        }
        rest
    }

    /// A client sends a datagram, or a target answers, or is refused.
    fn use_flow(&mut self, peer: Address, value: u8) {
        let (now, data) = (self.now, vec![value; usize::from(value) * 10]);
        let at = |port| (Ipv4Addr::LOCALHOST, u16::from(port)).into();
        match (value & 3, self.flows.last().copied()) {
            (0, _) | (_, None) => {
                let client = Client { peer, entrance: 0, address: at(value), target: at(7) };
                let is_reliable = value & 4 != 0;
                let delivery = Delivery { is_reliable, ..Delivery::default() };
                let _ = self.pep.send_datagram(now, client, delivery, &data);
            }
            (1, Some(flow)) => {
                self.flows.pop();
                self.pep.refuse(now, flow, Reason::BLOCKED);
                assert!(self.pep.answer(now, flow, &data).is_err(), "it is no more");
            }
            (_, Some(flow)) => _ = self.pep.answer(now, flow, &data),
        }
    }

    fn connect(&mut self) {
        self.pep.handle_disconnected(self.now);
        if let Some(id) = self.id.take() {
            self.server.handle_disconnected(self.now, id);
        }
        self.id = self.server.handle_connected(self.now);
        self.pep.handle_connected(self.now);
    }

    fn decide(&mut self, value: u8) {
        let chosen = usize::from(value >> 2) % self.below.len().max(1);
        if chosen < self.below.len() {
            let request = self.below.swap_remove(chosen);
            let outcome = match value & 3 {
                0 => Outcome::not_arrived(Failure::NoResponse),
                1 => Outcome::unknown(Failure::LinkLost),
                _ => Outcome::Done,
            };
            self.server.handle_outcome(self.now, request.id, outcome);
        }
    }

    fn arrive(&mut self, from: Address, u_pdu: &[u8]) {
        let sap = Sap::new(13);
        let (is_confirmed, ttd, id) = (false, None, None);
        let data = Data { priority: 4, from: sap, to: sap, is_confirmed, ttd, id, u_pdu };
        let mut s_pdu = Vec::new();
        SPdu::Data(data).emit(&mut s_pdu);
        let (errored, missing) = (Vec::new(), Vec::new());
        let mode = Mode::Arq { in_order: false };
        let indication =
            Indication { from, to: NEAR, mode, is_expedited: false, s_pdu, errored, missing };
        self.server.handle_indication(self.now, &indication);
    }

    /// Carries output between both sides; a driver repeats its calls while a deadline is due.
    fn settle(&mut self) {
        let now = self.now;
        let mut octets = Vec::new();
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            octets.clear();
            while self.pep.poll_octets(now, &mut octets) {}
            self.hear();
            let Some(id) = self.id else { break };
            let was_idle = octets.is_empty();
            self.server.handle_octets(now, id, &octets);
            octets.clear();
            while self.server.poll_octets(now, id, &mut octets) {}
            self.pep.handle_octets(now, &octets);
            self.pep.handle_timeout(now);
            self.server.handle_timeout(now);
            let is_due = self.pep.next_timeout().is_some_and(|at| at <= now);
            if was_idle && octets.is_empty() && !is_due {
                break;
            }
        }
        self.hear();
        while self.server.poll_event().is_some() {}
        let (stats, below) = (self.pep.stats(), self.pep.slep().stats());
        assert!(below.live <= STREAMS as u64, "{below:?}");
        // As many sessions again may wait for their first data.
        assert!(stats.sessions <= 2 * STREAMS as u64, "{stats:?}");
        assert!(self.pep.status(now).count() as u64 == stats.sessions, "{stats:?}");
        let (here, there) = (stats.flows.opened_here, stats.flows.opened_there);
        assert!(here.max(there) <= FLOWS as u64, "{stats:?}");
        assert_eq!(self.flows.len() as u64, there, "each is told, and its end");
        let unread = RECEIVED + (STREAMS + 1) * 2_048;
        assert!(below.unread <= unread as u64, "{below:?}");
    }

    fn hear(&mut self) {
        while let Some(arrived) = self.pep.poll_datagram(self.now) {
            if let Arrived::Request { flow, .. } = arrived
                && !self.flows.contains(&flow)
            {
                self.flows.push(flow);
            }
        }
        while let Some(event) = self.pep.poll_event() {
            match event {
                Event::Connect { session, .. } => self.asked.push(session),
                Event::Finished(session) | Event::Reset(session, _) => {
                    self.asked.retain(|asked| *asked != session);
                }
                Event::FlowEnded(flow) => self.flows.retain(|known| *known != flow),
                Event::Accepted(_)
                | Event::Bound
                | Event::Close(_)
                | Event::Readable(_)
                | Event::OtherVersion { .. }
                | Event::Refused(_)
                | Event::Sealing { .. }
                | Event::Unbound(_)
                | Event::Writable(_) => {}
            }
        }
    }
}
