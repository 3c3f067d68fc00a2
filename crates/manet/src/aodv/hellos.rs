//! Sends and handles hellos: they show which neighbours are present (RFC 3561, 6.9).

use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

use super::super::{Arrival, Neighbour};
use super::Aodv;
use super::config::{Hellos, Profile};
use super::table::{Offer, Taken};
use super::wire::{Message, Reply};

impl Aodv {
    /// Says hello where nothing else was said, if it is due.
    pub(super) fn say_hello(&mut self, now: Time) {
        if self.hello_due.is_none_or(|due| due > now) {
            return;
        }
        let is_wanted = match self.config.hello.mode {
            Hellos::Active => self.active_until > now,
            Hellos::Always => true,
            Hellos::Off => false,
        };
        let interval = self.config.hello.interval;
        self.hello_due = (is_wanted && !self.links.is_empty()).then_some(now + interval);
        // While it waits, nobody should take it for a way, unless it has answered for itself.
        let is_hidden = self.is_waiting(now) && self.active_until <= now;
        if self.hello_due.is_none() || is_hidden {
            return;
        }
        let silent: Vec<(usize, Ipv4Addr)> = self
            .links
            .iter()
            .filter(|(_, link)| link.broadcast_at.is_none_or(|at| at + interval <= now))
            .map(|(&index, link)| (index, link.address))
            .collect();
        // ns-2's AODV-UU, whose values the other profile has, sends none.
        let hello_interval = (self.config.profile == Profile::Hello).then_some(interval);
        for (interface, address) in silent {
            let hello = Reply {
                repair: false,
                acknowledge: false,
                prefix: 0,
                hops: 0,
                destination: address,
                sequence: self.sequence,
                originator: address,
                lifetime: interval * u32::from(self.config.hello.allowed_loss),
                hello_interval,
                internet: None,
            };
            let is_sent = self.broadcast(now, interface, 1, &Message::Reply(hello));
            self.stats.sent.hellos += u64::from(is_sent);
        }
    }

    /// Whether a reply is a hello: it says only that its sender is present.
    pub(super) fn is_hello(&self, arrival: &Arrival, reply: &Reply) -> bool {
        let is_neighbours = reply.hops == 0 && reply.destination == arrival.from.address;
        !arrival.is_unicast && is_neighbours
    }

    /// Notes that a neighbour is present, and its sequence number.
    pub(super) fn handle_hello(&mut self, now: Time, from: Neighbour, hello: &Reply) {
        self.stats.received.hellos += 1;
        let allowed = self.config.hello;
        // Never sooner than with our own interval: a forged short interval must not end a neighbour.
        let interval = hello.hello_interval.unwrap_or_default().max(allowed.interval);
        let silence = interval.saturating_mul(allowed.allowed_loss.into());
        let silence = silence.min(self.config.longest_lifetime()).max(Duration::from_millis(1));
        // Nodes without a sequence number write 0.
        let sequence = Some(hello.sequence).filter(|&sequence| sequence != 0);
        let offer = Offer { sequence, hops: 1, next: from, until: now + silence };
        let is_ours =
            |node: &Self| node.table.valid(from.address).is_some_and(|entry| entry.next == from);
        let kept = self.table.valid(from.address).map(|entry| entry.until);
        if self.offer(now, from.address, offer) != Taken::Updated {
            // The sequence number is the known one or older; even so, the sender is a neighbour.
            self.offer(now, from.address, Offer { sequence: None, ..offer });
        }
        if is_ours(self) {
            self.table.extend(from.address, kept.unwrap_or(now).max(now + silence));
        }
        if self.config.hello.mode != Hellos::Off {
            self.neighbours.hello(now, from, silence);
        }
    }
}
