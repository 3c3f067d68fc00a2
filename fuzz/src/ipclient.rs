//! Fuzzes an IP client between an arbitrary stack and node: the client keeps working in bounded memory.

use std::net::IpAddr;
use std::time::Duration;

use base::ip::{Header, Prefix};
use base::ip::{Spec, protocol, rewrite_v4_checksum};
use base::time::Time;
use hf::ipclient::headers::{Context, Table};
use hf::ipclient::{self, IpClient, Route};
use hf::s5066::Address;
use hf::s5066::service::{Failure, Indication, Outcome, Request};
use hf::s5066::sis::{ClientId, Config, Server};

const NEAR: Address = Address::node(1);
const FAR: Address = Address::node(2);
const QUEUE: usize = 10_000;
const WINDOW: usize = 5_000;

/// The input chooses the messages of an IP client's stack and node.
pub(crate) fn ip_client(input: &[u8]) {
    let mut run = Run::new();
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = run.act(action, value, after);
        run.settle();
    }
}

/// The input chooses each client's table for the other, and the octets given to one client. A compressed packet is
/// restored, and octets claiming to be a compressed packet become a datagram or nothing.
pub(crate) fn headers(input: &[u8]) {
    let Some((&[first, second], rest)) = input.split_first_chunk::<2>() else { return };
    let (near, rest) = rest.split_at(usize::from(first & 0x3f).min(rest.len()));
    let (far, octets) = rest.split_at(usize::from(second & 0x3f).min(rest.len()));
    let [near, far] = [near, far].map(|table| Table::parse(table).unwrap_or_default());
    let context = Context::new(&far, &near);
    if let Ok(packet) = context.restore(octets) {
        let header = Header::parse(&packet).expect("a datagram");
        assert_eq!(header.total_len, packet.len());
    }
    let mut packet = octets.to_vec();
    if let [0x45, ..] = packet[..]
        && let Some(header) = packet.get_mut(..20)
    {
        let len = u16::try_from(octets.len()).unwrap_or_default();
        header[2..4].copy_from_slice(&len.to_be_bytes());
        rewrite_v4_checksum(header);
    }
    if let Some(compressed) = context.compress(&packet) {
        let restored = context.restore(&compressed).expect("what was compressed");
        assert_eq!(restored.len(), packet.len());
        // Only the IPv4 identification and the header checksum may differ.
        let may_differ = |place: usize| packet[0] >> 4 == 4 && [4, 5, 10, 11].contains(&place);
        for (place, (before, after)) in packet.iter().zip(&restored).enumerate() {
            assert!(before == after || may_differ(place), "octet {place}");
        }
    }
}

struct Run {
    now: Time,
    client: IpClient,
    server: Server,
    id: Option<ClientId>,
    /// Requests handed to the layer below, outcome pending.
    below: Vec<Request>,
}

impl Run {
    fn new() -> Self {
        let prefixes: [(IpAddr, u8); 2] =
            [([10, 0, 2, 0].into(), 24), ([0xfd02, 0, 0, 0, 0, 0, 0, 0].into(), 16)];
        let routes = prefixes.map(|(address, len)| {
            let prefix = Prefix::new(address, len).expect("a prefix");
            Route { prefix, to: FAR }
        });
        let mut config = ipclient::Config::new(routes.into());
        config.addresses.push([10, 0, 1, 1].into());
        config.addresses.push([0xfd01, 0, 0, 0, 0, 0, 0, 1].into());
        config.queue = QUEUE;
        config.window = (1_000, WINDOW);
        config.other_multicast = Some(Address::BROADCAST);
        config.set_ttl(Some(Duration::from_secs(60)));
        config.compress_headers = true;
        let client = IpClient::new(Time::ZERO, config);
        let server = Server::new(Config::default(), NEAR);
        Self { now: Time::ZERO, client, server, id: None, below: Vec::new() }
    }

    /// Does one step and returns the unread rest of the input.
    fn act<'a>(&mut self, action: u8, value: u8, rest: &'a [u8]) -> &'a [u8] {
        let now = self.now;
        match action & 7 {
            0 => {
                self.client.handle_disconnected(now);
                if let Some(id) = self.id.take() {
                    self.server.handle_disconnected(now, id);
                }
                self.id = self.server.handle_connected(now);
                self.client.handle_connected(now);
            }
            1 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.client.handle_octets(now, some);
                return after;
            }
            2 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.client.handle_packet(now, some);
                return after;
            }
            // A TCP segment with a header from the input.
            3 | 4 => {
                let (header, after) = rest.split_at(20.min(rest.len()));
                let payload = usize::from(action >> 3) * 80;
                self.client.handle_packet(now, &segment(header, payload, value));
                return after;
            }
            5 if action >> 3 == 0 => self.now += Duration::from_secs(u64::from(value)),
            5 => self.come_back(value),
            6 => {
                if self.below.len() < 100 {
                    self.below.extend(self.server.poll_request(now, value & 0x0f));
                }
            }
            _ => {
                let chosen = usize::from(value >> 1) % self.below.len().max(1);
                if chosen < self.below.len() {
                    let request = self.below.swap_remove(chosen);
                    let outcome = if value & 1 == 0 {
                        Outcome::Done
                    } else {
                        Outcome::not_arrived(Failure::NoResponse)
                    };
                    self.server.handle_outcome(now, request.id, outcome);
                }
            }
        }
        rest
    }

    /// Returns a packet of this node from another node, with one bit changed.
    fn come_back(&mut self, value: u8) {
        let Some(request) = self.below.get(usize::from(value >> 3) % self.below.len().max(1))
        else {
            return;
        };
        let mut s_pdu = request.s_pdu.clone();
        if let Some(octet) = s_pdu.get_mut(usize::from(value)) {
            *octet ^= 1 << (value & 7);
        }
        let to = if value & 1 == 0 { NEAR } else { Address::BROADCAST };
        let indication = Indication {
            from: FAR,
            to,
            mode: request.mode,
            is_expedited: request.is_expedited,
            s_pdu,
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.server.handle_indication(self.now, &indication);
    }

    /// Carries output between client and server; a driver repeats its calls while a deadline is due.
    fn settle(&mut self) {
        let Self { now, client, server, .. } = self;
        let now = *now;
        let mut octets = Vec::new();
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            octets.clear();
            while client.poll_octets(now, &mut octets) {}
            let Some(id) = self.id else { break };
            let was_idle = octets.is_empty();
            server.handle_octets(now, id, &octets);
            octets.clear();
            while server.poll_octets(now, id, &mut octets) {}
            client.handle_octets(now, &octets);
            client.handle_timeout(now);
            server.handle_timeout(now);
            if was_idle && octets.is_empty() && client.next_timeout().is_none_or(|at| at > now) {
                break;
            }
        }
        assert!(server.next_timeout().is_none_or(|at| at > now) || self.id.is_none(), "it spins");
        while server.poll_event().is_some() {}
        while client.poll_event().is_some() {}
        let mut packet = Vec::new();
        while client.poll_packet(now, &mut packet) {
            assert!(!packet.is_empty());
        }
        let stats = client.stats();
        assert!(stats.queued as usize <= QUEUE, "{stats:?}");
        // Twice the window of all priorities, and one datagram that began below the limit.
        assert!(stats.unconfirmed as usize <= WINDOW * 2 + 2_048, "{stats:?}");
    }
}

/// Builds an IPv4 or IPv6 packet with this TCP header.
fn segment(header: &[u8], payload: usize, value: u8) -> Vec<u8> {
    let ends: [IpAddr; 2] = if value & 8 == 0 {
        [[10, 0, 1, 9].into(), [10, 0, 2, value & 3].into()]
    } else {
        let host = u16::from(value & 3);
        [[0xfd01, 0, 0, 0, 0, 0, 0, 9].into(), [0xfd02, 0, 0, 0, 0, 0, 0, host].into()]
    };
    let spec = Spec {
        traffic_class: value & 0xe0,
        dont_fragment: value & 4 == 0,
        ..Spec::new(ends[0], ends[1], protocol::TCP)
    };
    let mut packet = Vec::new();
    spec.emit(header.len() + payload, &mut packet);
    packet.extend_from_slice(header);
    packet.resize(packet.len() + payload, 0);
    packet
}
