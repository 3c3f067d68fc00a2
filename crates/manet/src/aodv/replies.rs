//! Sends and handles route replies (RFC 3561, 6.6 to 6.8).

use std::net::Ipv4Addr;
use std::time::Duration;

use base::serial::is_after;
use base::time::Time;

use super::super::{Arrival, Neighbour};
use super::Aodv;
use super::node::is_usable;
use super::table::{Offer, Taken};
use super::wire::{Message, Reply, Request};

/// How far a node's own number may be ahead of the number known to others, after counting on: hours of requests at the
/// highest usual rate.
const COUNTED: u32 = 1 << 16;

impl Aodv {
    /// Answers as the destination.
    pub(super) fn answer(&mut self, now: Time, from: Neighbour, request: &Request) {
        // Counts on from the known number: nodes on the way with a route of the same number would drop the answer, a
        // case that the RFC leaves open (AODV-UU counts on too). The same holds if our number is further ahead than we
        // have ever counted: an answer with our own number would look old to nodes whose number lies beyond ours on the
        // circle.
        if let Some(wanted) = request.destination_sequence {
            let ahead = self.sequence.wrapping_sub(wanted);
            if ahead == 0 || ahead > COUNTED {
                self.sequence = wanted;
                self.next_sequence();
            }
        }
        if self.sequence == 0 {
            self.next_sequence();
        }
        // At a node of several interfaces, addresses on other links count as one hop behind it.
        let is_here =
            self.links.get(&from.interface).is_some_and(|link| link.address == request.destination);
        let reply = Reply {
            hops: u8::from(!is_here),
            ..self.reply_to(request, request.destination, self.sequence)
        };
        self.send_reply(now, request.originator, reply, self.config.net_diameter);
    }

    /// Answers as the gateway to the Internet: with a route to itself, newer than any before, since
    /// nodes on the way would drop it otherwise.
    pub(super) fn answer_for_internet(&mut self, now: Time, from: Neighbour, request: &Request) {
        let Some(link) = self.links.get(&from.interface) else { return };
        let address = link.address;
        let sequence = self.next_sequence();
        let reply = Reply {
            lifetime: self.config.active_route_timeout,
            internet: Some(request.destination),
            ..self.reply_to(request, address, sequence)
        };
        self.send_reply(now, request.originator, reply, self.config.net_diameter);
    }

    /// Answers a request for a destination to which we have a route, and sends the destination a route to the
    /// originator if the request asks for a gratuitous reply.
    pub(super) fn answer_for_another(&mut self, now: Time, from: Neighbour, request: &Request) {
        let Request { originator, destination, .. } = *request;
        let Some(entry) = self.table.valid(destination) else { return };
        let (next, hops, sequence) = (entry.next, entry.hops, entry.sequence.unwrap_or(0));
        let lifetime = self.remaining(now, destination);
        let reply = Reply { hops, lifetime, ..self.reply_to(request, destination, sequence) };
        self.add_precursor(destination, from);
        self.add_precursor(originator, next);
        self.send_reply(now, originator, reply, self.config.net_diameter);

        if request.gratuitous
            && let Some(entry) = self.table.valid(originator)
        {
            let reply = Reply {
                hops: entry.hops,
                destination: originator,
                sequence: entry.sequence.unwrap_or(request.originator_sequence),
                originator: destination,
                lifetime: self.remaining(now, originator),
                ..reply
            };
            self.send_reply(now, destination, reply, self.config.net_diameter);
        }
    }

    fn reply_to(&self, request: &Request, destination: Ipv4Addr, sequence: u32) -> Reply {
        Reply {
            repair: false,
            acknowledge: false,
            prefix: 0,
            hops: 0,
            destination,
            sequence,
            originator: request.originator,
            lifetime: self.config.my_route_timeout,
            hello_interval: None,
            internet: None,
        }
    }

    /// Sends a reply towards its receiver.
    fn send_reply(&mut self, now: Time, towards: Ipv4Addr, reply: Reply, ttl: u8) {
        if let Some(next) = self.next_towards(now, towards)
            && self.write_reply(now, next, reply, ttl)
        {
            self.stats.sent.replies += 1;
        }
    }

    /// The next hop for a reply; sending prolongs its route.
    fn next_towards(&mut self, now: Time, originator: Ipv4Addr) -> Option<Neighbour> {
        let Some(next) = self.table.valid(originator).map(|entry| entry.next) else {
            self.stats.dropped.no_reverse_route += 1;
            return None;
        };
        self.table.extend_valid(originator, now + self.config.active_route_timeout);
        self.note_activity(now);
        Some(next)
    }

    fn write_reply(&mut self, now: Time, next: Neighbour, reply: Reply, ttl: u8) -> bool {
        let by = now + self.config.unidirectional.next_hop_wait;
        let acknowledge = self.config.unidirectional.acknowledge
            && self.neighbours.await_acknowledgement(next, by);
        self.unicast(next, ttl, &Message::Reply(Reply { acknowledge, ..reply }))
    }

    pub(super) fn handle_reply(&mut self, now: Time, arrival: &Arrival, reply: Reply) {
        let from = arrival.from;
        self.stats.received.replies += 1;
        if reply.acknowledge && self.unicast(from, 1, &Message::Acknowledgement) {
            self.stats.sent.acknowledgements += 1;
        }
        if self.is_own(reply.destination) {
            self.stats.dropped.own += 1;
            // Only this node increments its own number.
            if is_after(reply.sequence, self.sequence) && !self.own.is_unsure(now) {
                self.dispute(reply.destination, from);
            }
            self.raise(now, reply.sequence);
            return;
        }
        if !arrival.is_unicast
            || !is_usable(reply.destination)
            || !is_usable(reply.originator)
            || (reply.hops == 0) != (reply.destination == from.address)
        {
            self.stats.dropped.forged += 1;
            return;
        }
        self.offer_neighbour(now, from);
        let Some(hops) = reply.hops.checked_add(1) else {
            self.stats.dropped.expired += 1;
            return;
        };
        let reply = Reply { hops, ..reply };
        if self.learn_way(now, from, &reply) {
            self.accept_or_forward(now, arrival, reply);
        }
    }

    /// Learns the way to the destination; whether it is news.
    fn learn_way(&mut self, now: Time, from: Neighbour, reply: &Reply) -> bool {
        let lifetime = reply.lifetime.min(self.config.longest_lifetime());
        if lifetime == Duration::ZERO {
            self.stats.dropped.stale += 1;
            return false;
        }
        let offer = Offer {
            sequence: Some(reply.sequence),
            hops: reply.hops,
            next: from,
            until: now + lifetime,
        };
        match self.offer(now, reply.destination, offer) {
            Taken::Full => false,
            Taken::Stale => {
                self.stats.dropped.stale += 1;
                self.contradict(now, from, reply);
                false
            }
            Taken::Updated | Taken::UpdatedInPlace => {
                self.expect(now, from);
                true
            }
        }
    }

    /// A reply is older than the last, ended route to its destination: the destination does not know the number stored
    /// here, and is informed. The searching node asks again as soon as the destination can know.
    fn contradict(&mut self, now: Time, from: Neighbour, reply: &Reply) {
        let known = self.table.get(reply.destination).filter(|entry| !entry.is_valid);
        let Some(number) = known.and_then(|entry| entry.sequence) else { return };
        self.tell_number(now, from, reply.destination, number);
        if self.is_own(reply.originator) {
            let there = self.config.node_traversal_time * u32::from(reply.hops);
            self.discoveries.hurry_one(reply.destination, now + there);
        }
    }

    fn accept_or_forward(&mut self, now: Time, arrival: &Arrival, reply: Reply) {
        if self.is_own(reply.originator) {
            self.note_activity(now);
            if let Some(host) = reply.internet {
                self.accept_gateway(now, host, &reply);
            }
            return;
        }
        if self.is_waiting(now) {
            self.stats.dropped.waiting += 1;
            return;
        }
        if arrival.ttl <= 1 {
            self.stats.dropped.expired += 1;
            return;
        }
        let from = arrival.from;
        let Some(next) = self.next_towards(now, reply.originator) else { return };
        if next == from {
            self.stats.dropped.no_reverse_route += 1;
            return;
        }
        self.add_precursor(reply.destination, next);
        self.add_precursor(from.address, next);
        self.add_precursor(reply.originator, from);
        let ttl = (arrival.ttl - 1).min(self.config.net_diameter);
        if self.write_reply(now, next, reply, ttl) {
            self.stats.sent.replies_forwarded += 1;
        }
    }

    /// A gateway answered for an Internet host. A gateway already in use gives way to a nearer one.
    fn accept_gateway(&mut self, now: Time, host: Ipv4Addr, reply: &Reply) {
        if !self.is_internet(host) || !is_usable(host) || self.is_internet(reply.destination) {
            self.stats.dropped.forged += 1;
            return;
        }
        let gateway = reply.destination;
        let nearer =
            self.hosts.gateway(host).filter(|&other| other != gateway).is_none_or(|other| {
                self.table.valid(other).is_none_or(|entry| reply.hops < entry.hops)
            });
        if !nearer {
            self.stats.dropped.stale += 1;
            return;
        }
        let until = now + reply.lifetime.min(self.config.longest_lifetime());
        if self.hosts.set(host, gateway, until, self.config.bounds.internet) {
            self.discoveries.end(host);
        } else {
            self.stats.dropped.full += 1;
        }
    }
}
