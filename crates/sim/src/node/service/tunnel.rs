//! A coded tunnel in a node: prefixes are routed into it, its datagrams are UDP.
//!
//! ```text
//!  Diverted ─ prefix routed into it ─▶ handle_packet    interface has room ─▶ poll_transmit
//!  Input ─ UDP to its port ─▶ handle_datagram ─▶ poll_packet ─▶ input or forward
//!
//!  outer  0..20  20..28  28     29..32  32..36             36
//!       +------+-------+------+-------+------------------+--------- - - +-----+
//!       |  IP  |  UDP  | type | peer  | number, low bits | payload      | tag |
//!       +------+-------+------+-------+------------------+--------- - - +-----+
//! ```
//!
//! Nothing is sealed here: 16 octets stand for the cipher's tag.

use std::net::{IpAddr, SocketAddr};

use proto::contract::Refused;
use proto::ip::icmp::Error;
use proto::ip::{FlowKey, Header, ecn, fragment, protocol, rewrite_v4_checksum, udp};
use proto::nc::{self, Event};
use proto::rng::Rng;
use proto::time::Time;
use serde::Serialize;

use super::{Hook, Service, ServiceReport, Verdict, Way};
use crate::engine::{Engine, PacketId};
use crate::ids::{NodeId, TunnelId};
use crate::node::stack::too_big;

/// The first octet of a datagram that carries data.
const TYPE_DATA: u8 = 1;
/// Octets before the payload: type, peer index, number.
const HEADER: usize = 8;
/// Octets of the tag of the usual ciphers.
const TAG: usize = 16;
/// Octets around the payload of an outer IPv4 packet.
const OVERHEAD: usize = proto::ip::V4_HEADER + udp::HEADER + HEADER + TAG;

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    end: End,
    core: nc::Tunnel,
    /// The greatest number received.
    greatest: u64,
    counters: TunnelCounters,
    /// Where payloads and datagrams are put together.
    payload: Vec<u8>,
    message: Vec<u8>,
}

/// What happened at one end of a tunnel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunnelReport {
    /// Which.
    pub tunnel: TunnelId,
    /// The other end's name.
    pub peer: String,
    /// The greatest packet that it takes now, in octets.
    pub mtu: usize,
    /// Outside of its core.
    pub counters: TunnelCounters,
    /// In its core.
    pub stats: nc::Stats,
    /// What its core knows of the path.
    #[serde(skip)]
    pub estimates: nc::Estimates,
}

/// What happened at one end of a coded tunnel, outside of its core.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct TunnelCounters {
    /// Packets refused because the path was down; their senders were told.
    pub down: u64,
    /// Packets refused as no IP packets.
    pub malformed: u64,
    /// Packets refused as too long; their senders were told, or they were cut.
    pub too_big: u64,
    /// Datagrams not sent because they were too long for the interface.
    pub outer_too_big: u64,
    /// Datagrams that were none of a tunnel.
    pub unreadable: u64,
    /// Times that the greatest inner packet changed.
    pub mtu_changes: u64,
    /// Times that the path went down.
    pub path_downs: u64,
    /// Times that the path came up.
    pub path_ups: u64,
}

/// Where one end of a tunnel is, and where the other.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) id: TunnelId,
    pub(crate) node: NodeId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The name of the node at the other end.
    pub(crate) peer: String,
}

impl Tunnel {
    pub(crate) fn new(now: Time, end: End, config: nc::Config, rng: Rng) -> Self {
        Self {
            end,
            core: nc::Tunnel::new(now, config, rng),
            greatest: 0,
            counters: TunnelCounters::default(),
            payload: Vec::new(),
            message: Vec::new(),
        }
    }

    /// What happened at this end.
    #[must_use]
    pub fn report(&self) -> TunnelReport {
        TunnelReport {
            tunnel: self.end.id,
            peer: self.end.peer.clone(),
            mtu: self.core.mtu(),
            counters: self.counters,
            stats: self.core.stats(),
            estimates: self.core.estimates(),
        }
    }

    pub(crate) fn id(&self) -> TunnelId {
        self.end.id
    }

    /// Takes a packet to be carried, or the pieces of one.
    fn enter(&mut self, engine: &mut Engine, octets: &[u8]) -> Result<(), Refused> {
        let taken = self.core.handle_packet(engine.now, octets);
        match taken {
            Ok(()) => {
                if let Some(transits) = &mut engine.transits {
                    transits.enter(engine.now, self.end.id, self.end.node, octets);
                }
            }
            Err(Refused::Down) => self.counters.down += 1,
            // Its queue drops others for what it takes, and counts them.
            Err(Refused::Full) => {}
            Err(Refused::Malformed) => self.counters.malformed += 1,
            Err(Refused::TooBig { .. }) => self.counters.too_big += 1,
        }
        taken
    }

    fn send(&mut self, engine: &mut Engine, packet: PacketId) -> Verdict {
        let octets = std::mem::take(engine.packets.get_mut(packet));
        let error = match self.enter(engine, &octets) {
            Err(Refused::TooBig { mtu }) => {
                let is_cut = Header::parse(&octets).is_ok_and(|header| {
                    fragment(&header, &octets, mtu, |piece| {
                        let _ = self.enter(engine, piece);
                    })
                });
                (!is_cut).then(|| too_big(mtu))
            }
            Err(Refused::Down) => Some(Error::HostUnreachable),
            Err(Refused::Full | Refused::Malformed) | Ok(()) => None,
        };
        *engine.packets.get_mut(packet) = octets;
        if let Some(error) = error {
            return Verdict::Refused(error);
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }

    /// Takes a datagram of the other end.
    fn receive(&mut self, now: Time, header: &Header, datagram: &udp::Datagram<'_>) {
        let opened = datagram.payload.split_first_chunk::<HEADER>();
        let opened =
            opened.and_then(|(head, sealed)| Some((head, sealed.split_last_chunk::<TAG>()?)));
        let Some((&[TYPE_DATA, _, _, _, a, b, c, d], (payload, _))) = opened else {
            self.counters.unreadable += 1;
            return;
        };
        let number = whole_number(self.greatest, u32::from_be_bytes([a, b, c, d]));
        self.greatest = self.greatest.max(number);
        let is_marked = header.traffic_class & ecn::CE == ecn::CE;
        self.core.handle_datagram(now, number, is_marked, payload);
    }

    /// Whether the datagrams of this flow are those of this end.
    fn is_between(&self, flow: &FlowKey) -> bool {
        let source = SocketAddr::new(flow.source, flow.source_port);
        let destination = SocketAddr::new(flow.destination, flow.destination_port);
        flow.protocol == protocol::UDP && (source, destination) == (self.end.local, self.end.remote)
    }

    /// Writes the outer packet around the payload.
    fn wrap(&mut self, number: u64, out: &mut Vec<u8>) {
        let Self { end, message, payload, .. } = self;
        message.clear();
        message.push(TYPE_DATA);
        message.extend_from_slice(&end.id.0.to_be_bytes()[1..]);
        message.extend_from_slice(&number.to_be_bytes()[4..]);
        message.extend_from_slice(payload);
        message.extend_from_slice(&[0; TAG]);
        let start = out.len();
        udp::Datagram { source: end.local, destination: end.remote, payload: message }.emit(out);
        set_ect(&mut out[start..]);
    }
}

impl Service for Tunnel {
    fn claims(&self, hook: &Hook<'_>, _octets: &[u8]) -> bool {
        match hook {
            Hook::Input { flow, .. } => self.is_between(&flow.reversed()),
            Hook::Diverted
            | Hook::Forward { .. }
            | Hook::Postrouting { .. }
            | Hook::Prerouting { .. } => false,
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let Hook::Input { header, offset, .. } = hook else { return self.send(engine, packet) };
        let octets = engine.packets.get(packet);
        let Ok(datagram) = udp::Datagram::parse(header, octets, *offset) else {
            return Verdict::Malformed;
        };
        self.receive(engine.now, header, &datagram);
        engine.packets.remove(packet);
        Verdict::Taken
    }

    fn handle_error(
        &mut self,
        now: Time,
        flow: &FlowKey,
        octets: usize,
        error: Option<Error>,
    ) -> bool {
        if !self.is_between(flow) {
            return false;
        }
        let payload = octets.checked_sub(OVERHEAD).filter(|_| self.end.local.is_ipv4());
        if let (Some(Error::TooBig { .. }), Some(payload)) = (error, payload) {
            self.core.handle_too_big(now, payload);
        }
        true
    }

    fn handle_timeout(&mut self, now: Time) {
        self.core.handle_timeout(now);
    }

    fn settle(&mut self, _engine: &mut Engine) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Mtu(_) => self.counters.mtu_changes += 1,
                Event::PathDown => self.counters.path_downs += 1,
                Event::PathUp => self.counters.path_ups += 1,
            }
        }
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        let now = engine.now;
        let packet = engine.make(|octets| self.core.poll_packet(now, octets))?;
        if let Some(transits) = &mut engine.transits {
            transits.leave(now, self.end.id, self.end.node, engine.packets.get(packet));
        }
        Some((packet, Way::Released))
    }

    fn poll_datagram(&mut self, engine: &mut Engine, mtu: usize) -> Option<PacketId> {
        loop {
            self.payload.clear();
            let transmit = self.core.poll_transmit(engine.now, &mut self.payload)?;
            let packet = engine.packets.add();
            self.wrap(transmit.number, engine.packets.get_mut(packet));
            if engine.packets.get(packet).len() <= mtu {
                return Some(packet);
            }
            self.counters.outer_too_big += 1;
            self.core.handle_too_big(engine.now, self.payload.len());
            engine.packets.remove(packet);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.core.next_timeout()
    }

    fn report(&self) -> Option<ServiceReport> {
        Some(ServiceReport::new("tunnel", Self::report(self)))
    }

    fn far_end(&self) -> Option<IpAddr> {
        Some(self.end.remote.ip())
    }
}

/// Marks a packet without options as one of an ECN-capable transport.
fn set_ect(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        packet[1] |= ecn::ECT_0;
        rewrite_v4_checksum(&mut packet[..proto::ip::V4_HEADER]);
    } else {
        packet[1] |= ecn::ECT_0 << 4;
    }
}

/// The number nearest to `greatest` that ends with these bits.
fn whole_number(greatest: u64, low: u32) -> u64 {
    let known = u32::try_from(greatest & u64::from(u32::MAX)).expect("32 bits");
    let ahead = i64::from(low.wrapping_sub(known).cast_signed());
    greatest.checked_add_signed(ahead).unwrap_or(u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_rebuilt_from_its_low_bits_around_every_wrap() {
        for greatest in [0, 5, (1 << 32) - 1, 1 << 32, (7 << 32) + 3] {
            for ahead in [-2_000_i64, -1, 0, 1, 2_000] {
                let Some(number) = u64::checked_add_signed(greatest, ahead) else { continue };
                let low = u32::try_from(number & u64::from(u32::MAX)).unwrap();

                assert_eq!(whole_number(greatest, low), number);
            }
        }
    }
}
