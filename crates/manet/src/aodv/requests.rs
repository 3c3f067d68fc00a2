//! Sends route requests, and relays requests of others (RFC 3561, 6.3 and 6.5).

use std::net::Ipv4Addr;
use std::time::Duration;

use base::serial::replaces;
use base::time::Time;

use super::super::{Arrival, Neighbour};
use super::Aodv;
use super::config::Hellos;
use super::neighbours::Said;
use super::node::is_usable;
use super::seen::Sight;
use super::table::{Offer, Taken};
use super::wire::{Message, Request};

impl Aodv {
    /// Asks all for a route, so far.
    pub(super) fn ask(&mut self, now: Time, destination: Ipv4Addr, ttl: u8) {
        if !self.request_limit.spend(now) {
            return;
        }
        let id = self.next_request();
        let originator_sequence = self.next_sequence();
        let interfaces: Vec<(usize, Ipv4Addr)> =
            self.links.iter().map(|(&index, link)| (index, link.address)).collect();
        for (interface, originator) in interfaces {
            let request = Request {
                join: false,
                repair: false,
                gratuitous: self.config.gratuitous,
                destination_only: self.config.destination_only,
                hops: 0,
                id,
                destination,
                destination_sequence: self.table.get(destination).and_then(|entry| entry.sequence),
                originator,
                originator_sequence,
            };
            self.own.make(now, &request);
            let is_sent = self.broadcast(now, interface, ttl, &Message::Request(request));
            self.stats.sent.requests += u64::from(is_sent);
        }
    }

    pub(super) fn handle_request(&mut self, now: Time, arrival: &Arrival, request: Request) {
        self.stats.received.requests += 1;
        let from = arrival.from;
        let Request { originator, destination, .. } = request;
        if self.is_own(originator) {
            self.stats.dropped.own += 1;
            if !self.own.may_have_made(now, &request) {
                self.dispute(originator, from);
            }
            self.raise(now, request.originator_sequence);
            return;
        }
        // Who has come no hop is the neighbour itself.
        let is_first = request.hops == 0;
        if !is_usable(originator)
            || !is_usable(destination)
            || originator == destination
            || is_first != (originator == from.address)
        {
            self.stats.dropped.forged += 1;
            return;
        }
        if self.neighbours.is_ignored(now, from) {
            self.stats.dropped.blacklisted += 1;
            return;
        }
        // Whoever floods is no way to others.
        if !self.neighbours.may_say(now, from, Said::Request)
            || !is_first && self.neighbours.floods(now, from, Said::Request)
        {
            self.stats.dropped.flooded += 1;
            return;
        }
        self.offer_neighbour(now, from);
        match self.seen.look(now, originator, request.id) {
            Sight::First => {}
            Sight::FirstInPlace => self.stats.dropped.full += 1,
            Sight::Repeated => {
                self.stats.dropped.repeated += 1;
                return;
            }
        }
        let Some(hops) = request.hops.checked_add(1) else {
            self.stats.dropped.expired += 1;
            return;
        };
        let request = Request { hops, ..request };
        if self.learn_way_back(now, from, &request) {
            self.answer_or_forward(now, arrival, request);
        }
    }

    /// Learns the way back to the originator; whether there is one.
    fn learn_way_back(&mut self, now: Time, from: Neighbour, request: &Request) -> bool {
        let Request { originator, hops, originator_sequence, .. } = *request;
        let there_and_back = 2 * self.config.net_traversal_time();
        let travelled = 2 * self.config.node_traversal_time * u32::from(hops);
        let minimal = now + there_and_back.saturating_sub(travelled);
        let until = self.table.valid(originator).map_or(minimal, |entry| entry.until.max(minimal));
        let sequence = Some(originator_sequence);
        match self.offer(now, originator, Offer { sequence, hops, next: from, until }) {
            Taken::Full => return false,
            Taken::Stale => self.table.extend_valid(originator, minimal),
            Taken::Updated | Taken::UpdatedInPlace => {}
        }
        let is_known = self.table.valid(originator).is_some();
        if !is_known {
            // It is older than what ended the last route to the originator. Either a newer request has overtaken it, or
            // the originator does not know the number that the network has for it, and is told.
            self.stats.dropped.stale += 1;
            if let Some(number) = self.table.get(originator).and_then(|entry| entry.sequence) {
                self.tell_number(now, from, originator, number);
            }
        }
        is_known
    }

    fn answer_or_forward(&mut self, now: Time, arrival: &Arrival, request: Request) {
        let from = arrival.from;
        if self.is_own(request.destination) {
            self.answer(now, from, &request);
        } else if self.config.internet.gateway && self.is_internet(request.destination) {
            self.answer_for_internet(now, from, &request);
        } else if self.is_waiting(now) {
            self.stats.dropped.waiting += 1;
        } else if self.knows(from, &request) {
            self.answer_for_another(now, from, &request);
        } else {
            self.forward_request(now, arrival, request);
        }
    }

    /// Whether this node may answer for the destination (RFC 3561, 6.6).
    fn knows(&self, from: Neighbour, request: &Request) -> bool {
        if request.destination_only || self.is_internet(request.destination) {
            return false;
        }
        let Some(entry) = self.table.valid(request.destination) else { return false };
        let Some(known) = entry.sequence else { return false };
        let is_new = request.destination_sequence.is_none_or(|wanted| !replaces(wanted, known));
        // A route to the destination must not lead through the asking node. The RFC does not say so: it relies on the
        // asker's memory, which may be lost.
        let leads_back = entry.next == from || entry.next.address == request.originator;
        is_new && !leads_back
    }

    fn forward_request(&mut self, now: Time, arrival: &Arrival, request: Request) {
        if arrival.ttl <= 1 {
            self.stats.dropped.expired += 1;
            return;
        }
        let is_known =
            self.config.hello.mode == Hellos::Off || self.neighbours.says_hello(arrival.from);
        if !self.forwards[usize::from(is_known)].spend(now) {
            self.stats.dropped.flooded += 1;
            return;
        }
        let ttl = (arrival.ttl - 1).min(self.config.net_diameter);
        let known = self.table.get(request.destination).and_then(|entry| entry.sequence);
        let destination_sequence = match (request.destination_sequence, known) {
            (Some(wanted), Some(known)) if replaces(known, wanted) => Some(known),
            (wanted, known) => wanted.or(known),
        };
        let message = Message::Request(Request { destination_sequence, ..request });
        let interfaces: Vec<usize> = self.links.keys().copied().collect();
        for interface in interfaces {
            // Relayed requests leave room for this node's own messages.
            if self.outbox.waiting(interface) >= self.config.bounds.messages.div_ceil(2) {
                self.stats.dropped.unsent += 1;
                continue;
            }
            let is_sent = self.broadcast(now, interface, ttl, &message);
            self.stats.sent.requests_forwarded += u64::from(is_sent);
        }
    }

    /// The remaining lifetime of a new route, for the node that hears of it.
    pub(super) fn remaining(&self, now: Time, destination: Ipv4Addr) -> Duration {
        self.table.valid(destination).map_or(Duration::ZERO, |entry| entry.until.since(now))
    }
}
