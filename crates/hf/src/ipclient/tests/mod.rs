//! A client and the server of its node, the layers below played by the test.

mod connection;
mod forward;
mod group;
mod headers;
mod property;
mod queue;
mod ruled;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::ip::{Header, Prefix, Spec, protocol};
use base::tcp::{Flags, Options, Segment};
use base::time::Time;

use super::{Config, Event, IpClient, Route};
use crate::s5066::Address;
use crate::s5066::service::{Indication, Mode, Outcome, Request};
use crate::s5066::sis::primitive::Primitive;
use crate::s5066::sis::spdu::{Data, SPdu};
use crate::s5066::sis::{self, ClientId, NodeStatus, Sap, Server, Service, UnavailableReason};

const NEAR: Address = Address::node(1);
const FAR: Address = Address::node(2);
const OTHER: Address = Address::node(3);

struct Bench {
    now: Time,
    server: Server,
    id: Option<ClientId>,
    client: IpClient,
    events: Vec<Event>,
}

impl Bench {
    /// A bound client.
    fn new(config: Config) -> Self {
        let mut bench = Self::unconnected(config, sis::Config::default());
        bench.connect();
        bench.events.clear();
        bench
    }

    fn unconnected(config: Config, server: sis::Config) -> Self {
        let now = Time::ZERO;
        let server = Server::new(server, NEAR);
        Self { now, server, id: None, client: IpClient::new(now, config), events: Vec::new() }
    }

    fn connect(&mut self) {
        self.id = self.server.handle_connected(self.now);
        self.client.handle_connected(self.now);
        self.run();
    }

    fn run(&mut self) {
        let Some(id) = self.id else { return };
        let mut octets = Vec::new();
        loop {
            octets.clear();
            while self.client.poll_octets(self.now, &mut octets) {}
            let mut is_idle = octets.is_empty();
            self.server.handle_octets(self.now, id, &octets);
            octets.clear();
            while self.server.poll_octets(self.now, id, &mut octets) {}
            is_idle &= octets.is_empty();
            self.client.handle_octets(self.now, &octets);
            while self.server.poll_event().is_some() {}
            while let Some(event) = self.client.poll_event() {
                self.events.push(event);
            }
            if is_idle {
                return;
            }
        }
    }

    /// Takes the client's access point for another one, and tells which.
    fn preempt(&mut self) -> ClientId {
        let other = self.server.handle_connected(self.now).unwrap();
        let service = Service::ARQ.into();
        let mut octets = Vec::new();
        Primitive::BindRequest { sap: Sap::IP_CLIENT, rank: 5, service }.emit(&mut octets);
        self.server.handle_octets(self.now, other, &octets);
        self.run();
        other
    }

    /// Tells the client what the node can do.
    fn tell(&mut self, status: NodeStatus) {
        self.server.handle_availability(self.now, status, UnavailableReason::UNSPECIFIED);
        self.run();
    }

    fn send(&mut self, packet: &[u8]) {
        self.client.handle_packet(self.now, packet);
        self.run();
    }

    /// All that the server hands down.
    fn requests(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Some(request) = self.server.poll_request(self.now, 0) {
            requests.push(request);
            self.run();
        }
        requests
    }

    fn outcome(&mut self, request: &Request, outcome: Outcome) {
        self.server.handle_outcome(self.now, request.id, outcome);
        self.run();
    }

    fn receive(&mut self, u_pdu: &[u8]) {
        self.receive_in(Mode::Arq { in_order: false }, u_pdu);
    }

    fn receive_in(&mut self, mode: Mode, u_pdu: &[u8]) {
        self.receive_as(FAR, mode, u_pdu);
    }

    fn receive_from(&mut self, from: Address, u_pdu: &[u8]) {
        self.receive_as(from, Mode::Arq { in_order: false }, u_pdu);
    }

    fn receive_as(&mut self, from: Address, mode: Mode, u_pdu: &[u8]) {
        let data = Data {
            priority: 0,
            from: Sap::IP_CLIENT,
            to: Sap::IP_CLIENT,
            is_confirmed: false,
            ttd: None,
            id: None,
            u_pdu,
        };
        let mut s_pdu = Vec::new();
        SPdu::Data(data).emit(&mut s_pdu);
        let indication = Indication {
            from,
            to: NEAR,
            mode,
            is_expedited: false,
            s_pdu,
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.server.handle_indication(self.now, &indication);
        self.run();
    }

    /// The other node says that no client there took this.
    fn reject_from_far(&mut self, request: &Request) {
        let u_pdu = u_pdu(request);
        let start = &u_pdu[..u_pdu.len().min(32)];
        let (from, to) = (Sap::IP_CLIENT, Sap::IP_CLIENT);
        let mut s_pdu = Vec::new();
        SPdu::DeliveryFail { reason: 1, from, to, u_pdu: start }.emit(&mut s_pdu);
        let indication = Indication {
            from: FAR,
            to: NEAR,
            mode: Mode::Arq { in_order: false },
            is_expedited: false,
            s_pdu,
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.server.handle_indication(self.now, &indication);
        self.run();
    }

    /// What the stack gets.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut packet = Vec::new();
        while self.client.poll_packet(self.now, &mut packet) {
            packets.push(packet.clone());
        }
        packets
    }
}

/// 10.0.2.0/24 is at FAR but for 10.0.2.128/25, which is at OTHER; 239.1.0.0/16 is a group,
/// 239.2.0.0/16 is at FAR.
fn config() -> Config {
    let route = |address: [u8; 4], len, to| Route {
        prefix: Prefix::new(IpAddr::from(address), len).unwrap(),
        to,
    };
    let mut config = Config::new(vec![
        route([10, 0, 2, 0], 24, FAR),
        route([10, 0, 2, 128], 25, OTHER),
        route([239, 1, 0, 0], 16, Address::group(7)),
        route([239, 2, 0, 0], 16, FAR),
        Route { prefix: Prefix::new("fd00:2::".parse().unwrap(), 64).unwrap(), to: FAR },
    ]);
    config.addresses = vec![IpAddr::from([10, 0, 1, 1]), "fd00:1::1".parse().unwrap()];
    config
}

/// A UDP datagram of this many octets from 10.0.1.9.
fn udp(to: [u8; 4], dscp: u8, len: usize) -> Vec<u8> {
    let [from, to] = [[10, 0, 1, 9], to].map(IpAddr::from);
    let spec = Spec {
        traffic_class: dscp << 2,
        dont_fragment: false,
        ..Spec::new(from, to, protocol::UDP)
    };
    let payload = len - spec.header_len();
    let mut packet = Vec::new();
    spec.emit(payload, &mut packet);
    packet.resize(len, 0);
    packet
}

/// A TCP segment from 10.0.1.9 to 10.0.2.9.
fn tcp(seq: u32, ack: u32, flags: Flags, payload: &[u8]) -> Vec<u8> {
    tcp_with(seq, ack, flags, payload, Options::default())
}

fn tcp_with(seq: u32, ack: u32, flags: Flags, payload: &[u8], options: Options) -> Vec<u8> {
    let mut packet = Vec::new();
    Segment {
        source: SocketAddr::from((Ipv4Addr::new(10, 0, 1, 9), 1_000)),
        destination: SocketAddr::from((Ipv4Addr::new(10, 0, 2, 9), 80)),
        seq,
        ack,
        flags,
        window: 500,
        urgent: 0,
        options,
        payload,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
    }
    .emit(&mut packet);
    packet
}

/// What a request carries: `to mode priority: octets`.
fn tell(request: &Request) -> String {
    let Request { to, mode, priority, .. } = request;
    format!("{to} {mode:?} {priority}: {}", u_pdu(request).len())
}

fn u_pdu(request: &Request) -> &[u8] {
    match SPdu::parse(&request.s_pdu) {
        Ok(SPdu::Data(data)) => data.u_pdu,
        other => panic!("{other:?} is no data"),
    }
}

/// The protocol, and type and code of an ICMP message.
fn icmp(packet: &[u8]) -> (u8, u8, u8) {
    let header = Header::parse(packet).unwrap();
    (header.protocol, packet[header.len], packet[header.len + 1])
}
