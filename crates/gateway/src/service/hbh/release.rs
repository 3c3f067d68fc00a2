//! Releases packets from HBH into the kernel, as if received by their MANET interface.
//!
//! Consecutive segments enter the kernel as one train, as a network card would join them.

use base::ip::{BadSource, Header, check_source};
use base::time::Time;
use hbh::neighbours::Place;

use super::Hbh;
use super::counters::Counters;
use super::ports::Ports;
use crate::linux::offload::Joiner;

/// Packets on their way into the kernel.
#[derive(Default)]
pub struct Release {
    joiner: Joiner,
    /// The neighbour that sent the segments waiting to be joined.
    from: Option<Place>,
}

impl Release {
    pub fn new(joins_datagrams: bool) -> Self {
        Self { joiner: Joiner::new(joins_datagrams), from: None }
    }

    /// Takes a packet that the neighbour at `from` sent.
    pub fn push(&mut self, ports: &Ports, from: Place, packet: &[u8], counters: &mut Counters) {
        if self.from != Some(from) {
            self.flush(ports, counters);
            self.from = Some(from);
        }
        counters.released.packets_released += 1;
        self.joiner.push(packet, |train| deliver(ports, from, train, counters));
    }

    /// Hands all to the kernel.
    pub fn flush(&mut self, ports: &Ports, counters: &mut Counters) {
        if let Some(from) = self.from.take() {
            self.joiner.flush(|train| deliver(ports, from, train, counters));
        }
    }
}

impl Hbh {
    /// Hands restored packets of neighbours to the kernel, and takes the packets that the kernel forwards at once.
    pub fn release_restored(&mut self, now: Time) {
        let mut packet = std::mem::take(&mut self.buffers.packet);
        let mut is_any = false;
        while let Some(peer) = self.relay.poll_restored(&mut packet) {
            is_any = true;
            let Some(place) = self.known.get(peer).map(|known| known.place) else {
                self.counters.released.packets_release_failed += 1;
                continue;
            };
            // Any neighbour may forward for any host but this one. The kernel alone would let pass an IPv6 packet with
            // an address of this host as its source, and an IPv4 packet where `accept_local` is set.
            match check_source(&packet, &self.own, |_| true) {
                Ok(()) => {}
                Err(BadSource::Own) => {
                    self.counters.released.packets_from_self += 1;
                    continue;
                }
                Err(BadSource::NotUnicast | BadSource::NotTheirs) => {
                    self.counters.released.packets_not_unicast += 1;
                    continue;
                }
            }
            // HBH in HBH: the packet socket would take it for what a neighbour sends.
            if Header::parse(&packet)
                .is_ok_and(|header| header.protocol == self.config.core.protocol)
            {
                self.counters.intercepted.packets_malformed += 1;
                continue;
            }
            // The segment size in a SYN limits segments in the opposite direction.
            self.clamp(peer, place.0, &mut packet);
            self.release.push(&self.ports, place, &packet, &mut self.counters);
        }
        self.release.flush(&self.ports, &mut self.counters);
        self.buffers.packet = packet;
        if is_any {
            self.take_sent_on(now);
        }
    }
}

fn deliver(ports: &Ports, (position, mac): Place, train: &[u8], counters: &mut Counters) {
    let port = ports.get(position);
    if port.is_none_or(|port| port.deliver(mac, train).is_err()) {
        counters.released.packets_release_failed += 1;
    }
}
