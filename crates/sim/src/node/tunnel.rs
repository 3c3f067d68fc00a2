//! Coded tunnels in a node: routes point at them, their datagrams are UDP.
//!
//! ```text
//!  forward, output ─ prefix routed into it ─▶ handle_packet    interface has room ─▶ poll_transmit
//!  UDP to its port ─▶ handle_datagram ─▶ poll_packet ─▶ input or forward
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
use proto::ip::{Header, ecn, fragment, rewrite_v4_checksum, udp};
use proto::nc::{self, Event};
use proto::rng::Rng;
use proto::time::Time;

use super::deadlines::{DeadlineId, Owner};
use super::stack::too_big;
use super::{NextHop, Node, Prefix};
use crate::counters::TunnelCounters;
use crate::engine::{Engine, PacketId};
use crate::ids::{PortId, TunnelId};

/// The first octet of a datagram that carries data.
const TYPE_DATA: u8 = 1;
/// Octets before the payload: type, peer index, number.
const HEADER: usize = 8;
/// Octets of the tag of the usual ciphers.
const TAG: usize = 16;
/// Octets around the payload of an outer IPv4 packet.
const OVERHEAD: usize = proto::ip::V4_HEADER + udp::HEADER + HEADER + TAG;
/// Packets that may wait in an interface's queue while a tunnel still adds to it.
///
/// The rest waits in the tunnel, which decides as late as it can what to send.
const BACKLOG: usize = 2;

/// One end of a tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    id: TunnelId,
    core: nc::Tunnel,
    local: SocketAddr,
    remote: SocketAddr,
    /// The node at the other end.
    peer: String,
    prefixes: Vec<Prefix>,
    /// The greatest number received.
    greatest: u64,
    deadline: DeadlineId,
    /// Whether something was handed in since it was last asked what there is to do.
    is_touched: bool,
    counters: TunnelCounters,
    /// Where datagrams are put together.
    message: Vec<u8>,
}

/// How an end of a tunnel is made.
#[derive(Clone, Debug)]
pub(crate) struct TunnelEnd {
    pub(crate) id: TunnelId,
    pub(crate) config: nc::Config,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) peer: String,
}

impl Tunnel {
    pub(crate) fn core(&self) -> &nc::Tunnel {
        &self.core
    }

    pub(crate) fn counters(&self) -> TunnelCounters {
        self.counters
    }

    pub(crate) fn id(&self) -> TunnelId {
        self.id
    }

    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// Writes the outer packet around `payload`.
    fn wrap(&mut self, number: u64, payload: &[u8], out: &mut Vec<u8>) {
        let message = &mut self.message;
        message.clear();
        message.push(TYPE_DATA);
        message.extend_from_slice(&self.id.0.to_be_bytes()[1..]);
        message.extend_from_slice(&number.to_be_bytes()[4..]);
        message.extend_from_slice(payload);
        message.extend_from_slice(&[0; TAG]);
        let start = out.len();
        udp::Datagram { source: self.local, destination: self.remote, payload: message }.emit(out);
        set_ect(&mut out[start..]);
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

impl Node {
    /// Adds an end of a tunnel.
    pub(crate) fn add_tunnel(&mut self, engine: &mut Engine, end: TunnelEnd, rng: Rng) {
        let TunnelEnd { id, config, local, remote, peer } = end;
        let deadline = self.deadlines.add(Owner::Tunnel(self.tunnels.len()));
        self.tunnels.push(Tunnel {
            id,
            core: nc::Tunnel::new(engine.now, config, rng),
            local,
            remote,
            peer,
            prefixes: Vec::new(),
            greatest: 0,
            deadline,
            is_touched: true,
            counters: TunnelCounters::default(),
            message: Vec::new(),
        });
        self.settle(engine);
    }

    /// Routes a prefix into a tunnel; false if it does not end here.
    pub(crate) fn route_into_tunnel(&mut self, prefix: Prefix, id: TunnelId) -> bool {
        let Some(tunnel) = self.tunnels.iter_mut().find(|tunnel| tunnel.id == id) else {
            return false;
        };
        tunnel.prefixes.push(prefix);
        true
    }

    /// The tunnel that packets to `destination` are routed into: that with the longest prefix.
    pub(super) fn tunnel_to(&self, destination: IpAddr) -> Option<usize> {
        let tunnels = self.tunnels.iter().enumerate();
        let matches = tunnels.flat_map(|(index, tunnel)| {
            let prefixes = tunnel.prefixes.iter().filter(|prefix| prefix.contains(destination));
            prefixes.map(move |prefix| (prefix.len(), index))
        });
        matches.max().map(|(_, index)| index)
    }

    /// Hands a packet to a tunnel.
    pub(super) fn send_into_tunnel(&mut self, engine: &mut Engine, index: usize, packet: PacketId) {
        let octets = std::mem::take(engine.packets.get_mut(packet));
        let taken = self.put_into_tunnel(engine, index, &octets);
        let error = match taken {
            Err(Refused::TooBig { mtu }) => {
                let is_cut = Header::parse(&octets).is_ok_and(|header| {
                    fragment(&header, &octets, mtu, |piece| {
                        let _ = self.put_into_tunnel(engine, index, piece);
                    })
                });
                (!is_cut).then(|| too_big(mtu))
            }
            Err(Refused::Down) => Some(Error::HostUnreachable),
            Err(Refused::Full | Refused::Malformed) | Ok(()) => None,
        };
        *engine.packets.get_mut(packet) = octets;
        match error {
            Some(error) => self.refuse(engine, error, packet),
            None => engine.packets.remove(packet),
        }
    }

    fn put_into_tunnel(
        &mut self,
        engine: &mut Engine,
        index: usize,
        octets: &[u8],
    ) -> Result<(), Refused> {
        let tunnel = &mut self.tunnels[index];
        let taken = tunnel.core.handle_packet(engine.now, octets);
        tunnel.is_touched = true;
        let counters = &mut tunnel.counters;
        match taken {
            Ok(()) => {
                if let Some(transits) = &mut engine.transits {
                    transits.enter(engine.now, tunnel.id, self.id, octets);
                }
            }
            Err(Refused::Down) => counters.down += 1,
            // Its queue drops others for what it takes, and counts them.
            Err(Refused::Full) => {}
            Err(Refused::Malformed) => counters.malformed += 1,
            Err(Refused::TooBig { .. }) => counters.too_big += 1,
        }
        taken
    }

    /// Takes a datagram if it is that of a tunnel; false if it is not.
    pub(super) fn handle_tunnel_datagram(
        &mut self,
        now: Time,
        header: &Header,
        datagram: &udp::Datagram<'_>,
    ) -> bool {
        let ends = (datagram.destination, datagram.source);
        let found = self.tunnels.iter_mut().find(|tunnel| (tunnel.local, tunnel.remote) == ends);
        let Some(tunnel) = found else { return false };
        let opened = datagram.payload.split_first_chunk::<HEADER>();
        let opened =
            opened.and_then(|(head, sealed)| Some((head, sealed.split_last_chunk::<TAG>()?)));
        let Some((&[TYPE_DATA, _, _, _, a, b, c, d], (payload, _))) = opened else {
            tunnel.counters.unreadable += 1;
            return true;
        };
        let number = whole_number(tunnel.greatest, u32::from_be_bytes([a, b, c, d]));
        tunnel.greatest = tunnel.greatest.max(number);
        let is_marked = header.traffic_class & ecn::CE == ecn::CE;
        tunnel.core.handle_datagram(now, number, is_marked, payload);
        tunnel.is_touched = true;
        true
    }

    /// Takes an ICMP error that quotes a packet of `octets`, if that was a tunnel's; false if not.
    pub(super) fn handle_tunnel_error(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
        error: Option<Error>,
        octets: usize,
    ) -> bool {
        let ends = (local, remote);
        let found = self.tunnels.iter_mut().find(|tunnel| (tunnel.local, tunnel.remote) == ends);
        let Some(tunnel) = found else { return false };
        let headers = octets.checked_sub(OVERHEAD).filter(|_| local.is_ipv4());
        if let (Some(Error::TooBig { .. }), Some(payload)) = (error, headers) {
            tunnel.core.handle_too_big(now, payload);
            tunnel.is_touched = true;
        }
        true
    }

    /// The next outer packet for an interface with room, and whom it is for.
    pub(super) fn poll_tunnels(
        &mut self,
        engine: &mut Engine,
        interface: usize,
    ) -> Option<(PacketId, PortId)> {
        for step in 0..self.tunnels.len() {
            let index = (self.tunnel_turn + step) % self.tunnels.len();
            let Some(NextHop { neighbour, .. }) = self.tunnel_hop(index, interface) else {
                continue;
            };
            if let Some(packet) = self.poll_tunnel(engine, index, interface) {
                self.tunnel_turn = index + 1;
                return Some((packet, neighbour));
            }
        }
        None
    }

    fn poll_tunnel(
        &mut self,
        engine: &mut Engine,
        index: usize,
        interface: usize,
    ) -> Option<PacketId> {
        let mut payload = std::mem::take(&mut self.tunnel_payload);
        let mtu = self.interfaces[interface].config.mtu;
        let tunnel = &mut self.tunnels[index];
        let mut made = None;
        while made.is_none() {
            payload.clear();
            let Some(transmit) = tunnel.core.poll_transmit(engine.now, &mut payload) else { break };
            tunnel.is_touched = true;
            let packet = engine.packets.add();
            tunnel.wrap(transmit.number, &payload, engine.packets.get_mut(packet));
            if engine.packets.get(packet).len() <= mtu {
                made = Some(packet);
            } else {
                tunnel.counters.outer_too_big += 1;
                tunnel.core.handle_too_big(engine.now, payload.len());
                engine.packets.remove(packet);
            }
        }
        self.tunnel_payload = payload;
        made
    }

    /// Moves a few datagrams ahead of time from the tunnels to an interface's queue.
    pub(super) fn fill_tunnel_backlog(&mut self, engine: &mut Engine, interface: usize) {
        while self.interfaces[interface].queue_len() < BACKLOG {
            let Some((packet, to)) = self.poll_tunnels(engine, interface) else { return };
            let len = engine.packets.get(packet).len();
            if !self.interfaces[interface].enqueue(packet, to, len) {
                engine.packets.remove(packet);
                return;
            }
        }
    }

    pub(super) fn handle_tunnel_timeout(&mut self, now: Time, index: usize) {
        let tunnel = &mut self.tunnels[index];
        tunnel.core.handle_timeout(now);
        tunnel.is_touched = true;
    }

    /// Takes what the tunnels have after they were touched; false if nothing was left to do.
    pub(super) fn settle_tunnels(&mut self, engine: &mut Engine) -> bool {
        let mut is_any_touched = false;
        for index in 0..self.tunnels.len() {
            if std::mem::take(&mut self.tunnels[index].is_touched) {
                is_any_touched = true;
                self.settle_tunnel(engine, index);
            }
        }
        is_any_touched
    }

    fn settle_tunnel(&mut self, engine: &mut Engine, index: usize) {
        let Tunnel { core, counters, .. } = &mut self.tunnels[index];
        while let Some(event) = core.poll_event() {
            match event {
                Event::Mtu(_) => counters.mtu_changes += 1,
                Event::PathDown => counters.path_downs += 1,
                Event::PathUp => counters.path_ups += 1,
            }
        }
        self.leave_tunnel(engine, index);
        let hop = self.route(self.tunnels[index].remote.ip());
        if let Some(NextHop { interface, .. }) = hop {
            self.pump(engine, interface);
        }
        let Tunnel { core, deadline, .. } = &self.tunnels[index];
        let next = core.next_timeout();
        self.set_deadline(engine, *deadline, next);
    }

    /// Sends packets that leave a tunnel here on their way.
    fn leave_tunnel(&mut self, engine: &mut Engine, index: usize) {
        loop {
            let packet = engine.packets.add();
            let tunnel = &mut self.tunnels[index];
            if !tunnel.core.poll_packet(engine.now, engine.packets.get_mut(packet)) {
                engine.packets.remove(packet);
                return;
            }
            let octets = engine.packets.get(packet);
            if let Some(transits) = &mut engine.transits {
                transits.leave(engine.now, tunnel.id, self.id, octets);
            }
            match Header::parse(octets) {
                Ok(header) if self.is_local(header.destination) => self.input(engine, packet),
                Ok(_) => self.forward(engine, packet),
                Err(_) => {
                    self.counters.malformed += 1;
                    engine.packets.remove(packet);
                }
            }
        }
    }

    /// Asks every tunnel again: one that waited for this interface may have a new deadline.
    pub(super) fn touch_tunnels(&mut self, interface: usize) {
        for index in 0..self.tunnels.len() {
            if self.tunnel_hop(index, interface).is_some() {
                self.tunnels[index].is_touched = true;
            }
        }
    }

    /// Whether tunnels send over this interface.
    pub(super) fn has_tunnel_over(&mut self, interface: usize) -> bool {
        (0..self.tunnels.len()).any(|index| self.tunnel_hop(index, interface).is_some())
    }

    /// The next hop of a tunnel's datagrams, if it is over this interface.
    fn tunnel_hop(&mut self, index: usize, interface: usize) -> Option<NextHop> {
        let next = self.route(self.tunnels[index].remote.ip())?;
        (next.interface == interface).then_some(next)
    }
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
