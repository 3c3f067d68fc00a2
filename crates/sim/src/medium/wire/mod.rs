//! A wire: two ports and a channel for each direction.

pub mod channel;

use std::net::IpAddr;

use base::time::Time;
use channel::Channel;

use super::{Delivery, LinkAddress, Medium, Neighbour};
use crate::engine::packets::PacketId;
use crate::ids::PortId;

/// A point-to-point link.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The first attached port, then the second.
    ports: Vec<PortId>,
    /// From the first port, then from the second.
    channels: [Channel; 2],
    cost: u32,
}

impl Wire {
    /// A wire without ports; `cost` is what shortest paths count.
    pub(crate) fn new(channels: [Channel; 2], cost: u32) -> Self {
        Self { ports: Vec::with_capacity(2), channels, cost }
    }

    /// Gives both directions another configuration, from the first port and from the second.
    pub(crate) fn change(&mut self, configs: [channel::Config; 2]) {
        for (channel, config) in self.channels.iter_mut().zip(configs) {
            channel.change(config);
        }
    }

    fn side(&self, port: PortId) -> usize {
        usize::from(self.ports[0] != port)
    }

    fn other(&self, port: PortId) -> Option<PortId> {
        self.ports.get(1 - self.side(port)).copied()
    }
}

impl Medium for Wire {
    fn attach(&mut self, port: PortId) {
        self.ports.push(port);
    }

    fn transmit(
        &mut self,
        delivery: &mut Delivery<'_>,
        from: PortId,
        _to: LinkAddress,
        packet: PacketId,
    ) {
        let side = self.side(from);
        let len = delivery.octets(packet).len();
        let sent = self.channels[side].transmit(delivery.now(), len);
        match (sent.arrives_at, self.other(from)) {
            (Some(at), Some(to)) => delivery.deliver(at, from, to, packet),
            _ => delivery.lose(from, packet),
        }
        delivery.set_idle(from, sent.idle_at);
    }

    /// The other end, whatever the address: nobody else is there.
    fn resolve(&self, port: PortId, _address: IpAddr) -> Option<LinkAddress> {
        self.other(port).map(LinkAddress::Port)
    }

    fn neighbours(&self, _now: Time, port: PortId) -> Vec<Neighbour> {
        let other = self.other(port).map(|port| Neighbour { port, cost: self.cost });
        other.into_iter().collect()
    }
}
