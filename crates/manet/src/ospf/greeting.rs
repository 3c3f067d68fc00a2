//! Sends and handles hellos: they find the router at the other end of a link (RFC 2328, 9.5 and 10.5).

use std::net::Ipv4Addr;

use base::time::Time;

use super::neighbour::{Neighbour as Peer, State};
use super::router::Ospf;
use super::stats::Counter;
use super::wire::{Body, Hello, options};
use crate::Neighbour;

impl Ospf {
    /// Takes a hello. The mask in it means nothing on point-to-point links (RFC 2328, 10.5).
    pub(super) fn handle_hello(
        &mut self,
        now: Time,
        from: Neighbour,
        router: Ipv4Addr,
        hello: &Hello,
    ) {
        let Neighbour { interface, address } = from;
        let ours = (seconds(self.config.hello_interval), seconds(self.config.dead_interval));
        if (u64::from(hello.interval), u64::from(hello.dead)) != ours {
            self.stats.count(Counter::IntervalMismatches);
            return;
        }
        if hello.options & options::EXTERNAL == 0 {
            self.stats.count(Counter::OptionMismatches);
            return;
        }
        self.stats.count(Counter::PacketsReceived);
        let is_known = self.peer_mut(interface).is_some_and(|peer| peer.id == router);
        if !is_known {
            self.lose(interface);
        }
        let dead_at = now + self.config.dead_interval;
        let Some(link) = self.links.get_mut(&interface) else { return };
        let peer = link.neighbour.get_or_insert_with(|| Peer::new(router, address, dead_at));
        peer.dead_at = dead_at;
        if peer.address != address {
            peer.address = address;
            self.is_outdated = true;
        }
        // A new neighbour need not wait for our next hello to hear that we hear it.
        link.owes_hello |= !is_known;

        let state = peer.state;
        let hears_us = self.id.is_some_and(|id| hello.neighbours.contains(&id));
        if hears_us && state == State::Init {
            self.begin_exchange(interface);
        } else if !hears_us && state > State::Init {
            // It has started anew, and need not wait either.
            self.set_state(interface, State::Init);
            if let Some(link) = self.links.get_mut(&interface) {
                link.owes_hello = true;
            }
        }
    }

    /// What to say on a link.
    pub(super) fn hello(&self, interface: usize) -> Option<Body> {
        let link = self.links.get(&interface)?;
        let heard = link.neighbour.as_ref().map(|peer| peer.id);
        Some(Body::Hello(Hello {
            mask: mask(self.config.link_bits),
            interval: u16::try_from(seconds(self.config.hello_interval)).unwrap_or(u16::MAX),
            options: options::EXTERNAL,
            priority: 1,
            dead: u32::try_from(seconds(self.config.dead_interval)).unwrap_or(u32::MAX),
            elected: [Ipv4Addr::UNSPECIFIED; 2],
            neighbours: heard.into_iter().collect(),
        }))
    }
}

fn seconds(period: std::time::Duration) -> u64 {
    period.as_secs()
}

/// The network mask with this many bits.
pub(super) fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}
