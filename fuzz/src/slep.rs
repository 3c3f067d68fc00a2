//! Fuzzes SLEP between arbitrary users and nodes: the endpoint keeps working in bounded memory.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::s5066::Address;
use hf::s5066::service::{Failure, Indication, Mode, Outcome, Request};
use hf::s5066::sis::spdu::{Data, SPdu};
use hf::s5066::sis::{ClientId, Config, Sap, Server};
use hf::slep::wire::Pdu;
use hf::slep::{self, Addresses, Delivery, Options, Reason, Slep, StreamId};

const NEAR: Address = Address::node(1);
const SENT: usize = 20_000;
const RECEIVED: usize = 10_000;
const STREAMS: usize = 8;

/// The input chooses the actions of users, nodes and the air.
pub(crate) fn end(input: &[u8]) {
    read_and_write(input);
    let mut run = Run::new();
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = run.act(action, value, after);
        run.settle();
    }
}

/// A PDU read and written again reads as the same PDU.
fn read_and_write(input: &[u8]) {
    let Ok(pdu) = Pdu::parse(input) else { return };
    let mut octets = Vec::new();
    pdu.emit(&mut octets);
    assert_eq!(Pdu::parse(&octets), Ok(pdu));
}

struct Run {
    now: Time,
    slep: Slep,
    server: Server,
    id: Option<ClientId>,
    /// Requests handed to the layer below, outcome pending.
    below: Vec<Request>,
}

impl Run {
    fn new() -> Self {
        let mut config = slep::Config { window: 8, ..slep::Config::default() };
        config.limits = slep::Limits {
            streams: STREAMS,
            streams_of_peer: 5,
            peers: 3,
            closed: 3,
            unsent: 5_000,
            sent: SENT,
            received: RECEIVED,
            early: 2_000,
            datagrams: 4_000,
        };
        let now = Time::ZERO;
        Self {
            now,
            slep: Slep::new(now, config, Rng::stream(0, "slep")),
            server: Server::new(Config::default(), NEAR),
            id: None,
            below: Vec::new(),
        }
    }

    /// Does one step and returns the unread rest of the input.
    fn act<'a>(&mut self, action: u8, value: u8, rest: &'a [u8]) -> &'a [u8] {
        let now = self.now;
        let other = Address::node(2 + u32::from(action >> 6));
        let stream = StreamId(u64::from(value & 0x0f));
        match action & 0x0f {
            0 => self.connect(),
            1 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.slep.handle_octets(now, some);
                return after;
            }
            2..=4 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.arrive(other, some);
                return after;
            }
            5 => {
                let options = Options { is_compressed: value & 1 == 0, ..Options::default() };
                let addresses = Addresses { to: value >> 4, from: 0 };
                let _ = self.slep.open(now, other, addresses, options);
            }
            6 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.slep.write(stream, &some.repeat(usize::from(action)));
                return after;
            }
            7 => self.slep.finish(stream),
            8 => self.slep.reset(stream, Reason(value)),
            9 => {
                let most = usize::from(action) * 20;
                let mut out = Vec::new();
                let read = self.slep.read(stream, &mut out, most);
                assert!(read.octets == out.len() && read.octets <= most);
            }
            10 => {
                let delivery = Delivery { is_reliable: value & 1 == 0, ..Delivery::default() };
                let data = vec![value; usize::from(value) * 4];
                let _ = self.slep.send_datagram(now, other, Addresses::default(), delivery, &data);
            }
            11 => self.now += Duration::from_secs(u64::from(value) * 4),
            12 => self.come_back(other, value),
            13 => {
                if self.below.len() < 100 {
                    self.below.extend(self.server.poll_request(now, value & 0x0f));
                }
            }
            _ => self.decide(value),
        }
        rest
    }

    fn connect(&mut self) {
        self.slep.handle_disconnected(self.now);
        if let Some(id) = self.id.take() {
            self.server.handle_disconnected(self.now, id);
        }
        self.id = self.server.handle_connected(self.now);
        self.slep.handle_connected(self.now);
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
        let data = Data {
            priority: 4,
            from: sap,
            to: sap,
            is_confirmed: false,
            ttd: None,
            id: None,
            u_pdu,
        };
        let mut s_pdu = Vec::new();
        SPdu::Data(data).emit(&mut s_pdu);
        self.indicate(from, s_pdu);
    }

    /// Returns a PDU of this node from another node, with one bit changed.
    fn come_back(&mut self, from: Address, value: u8) {
        let chosen = usize::from(value >> 3) % self.below.len().max(1);
        let Some(request) = self.below.get(chosen) else { return };
        let mut s_pdu = request.s_pdu.clone();
        if let Some(octet) = s_pdu.get_mut(usize::from(value)) {
            *octet ^= 1 << (value & 7);
        }
        self.indicate(from, s_pdu);
    }

    fn indicate(&mut self, from: Address, s_pdu: Vec<u8>) {
        let (errored, missing) = (Vec::new(), Vec::new());
        let mode = Mode::Arq { in_order: false };
        let indication =
            Indication { from, to: NEAR, mode, is_expedited: false, s_pdu, errored, missing };
        self.server.handle_indication(self.now, &indication);
    }

    /// Carries output between SLEP and the server; a driver repeats its calls while a deadline is due.
    fn settle(&mut self) {
        let Self { now, slep, server, .. } = self;
        let now = *now;
        let mut octets = Vec::new();
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            octets.clear();
            while slep.poll_octets(now, &mut octets) {}
            let Some(id) = self.id else { break };
            let was_idle = octets.is_empty();
            server.handle_octets(now, id, &octets);
            octets.clear();
            while server.poll_octets(now, id, &mut octets) {}
            slep.handle_octets(now, &octets);
            slep.handle_timeout(now);
            server.handle_timeout(now);
            if was_idle && octets.is_empty() && slep.next_timeout().is_none_or(|at| at > now) {
                break;
            }
        }
        while server.poll_event().is_some() {}
        while slep.poll_event().is_some() {}
        while slep.poll_datagram().is_some() {}
        let stats = slep.stats();
        assert!(stats.live <= STREAMS as u64, "{stats:?}");
        // A stream may hold one part more if its user has read all earlier data.
        let unread = RECEIVED + (STREAMS + 1) * 2_048;
        assert!(stats.unread <= unread as u64, "{stats:?}");
        assert!(stats.unacknowledged <= (SENT + SENT / 4 + STREAMS * 64) as u64, "{stats:?}");
    }
}
