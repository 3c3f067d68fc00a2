//! Handles broken routes, and reports them to their users (RFC 3561, 6.11).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

use super::super::Neighbour;
use super::Aodv;
use super::neighbours::Said;
use super::table::Entry;
use super::wire::{ERROR_HEADER, Errors, Message, UNREACHABLE_LEN};

/// The least time that a route stays despite errors that somebody forges.
const LEAST: Duration = Duration::from_secs(1);

/// A destination that cannot be reached, and the neighbours to inform.
struct Loss {
    destination: Ipv4Addr,
    sequence: u32,
    told: BTreeSet<Neighbour>,
}

/// How errors are written.
#[derive(Clone, Copy, Debug, Default)]
struct Tell {
    no_delete: bool,
    /// Whether a packet was refused, and no route ended.
    is_refusal: bool,
    /// To all, even if only one neighbour is known to use the routes.
    to_all: bool,
}

impl Loss {
    fn of(destination: Ipv4Addr, entry: Entry) -> Self {
        Self { destination, sequence: entry.sequence.unwrap_or(0), told: entry.precursors }
    }
}

impl Aodv {
    /// A neighbour cannot be reached any more.
    pub(super) fn lose(&mut self, now: Time, neighbour: Neighbour) {
        self.stats.breaks += 1;
        let ignored_for = self.config.unidirectional.blacklist_timeout;
        self.stats.blacklisted += u64::from(self.neighbours.lose(now, neighbour, ignored_for));
        let lost = self.table.through(neighbour);
        self.end(now, lost);
    }

    /// Ends routes, and reports them to the neighbours that use them.
    pub(super) fn end(&mut self, now: Time, destinations: Vec<Ipv4Addr>) {
        let forgotten = now + self.config.delete_period;
        let losses: Vec<Loss> = destinations
            .into_iter()
            .filter_map(|destination| {
                let entry = self.table.invalidate(destination, None, forgotten)?;
                Some(Loss::of(destination, entry))
            })
            .collect();
        self.tell(now, Tell::default(), &losses);
        self.settle_hosts(now);
    }

    pub(super) fn handle_errors(&mut self, now: Time, from: Neighbour, errors: &Errors) {
        self.stats.received.errors += 1;
        let forgotten = now + self.config.delete_period;
        let mut losses = Vec::new();
        // While somebody forges errors in the name of this neighbour, its routes last at least this long. A real error
        // ignored now comes again with the next packet that the neighbour cannot forward.
        let is_flood = self.neighbours.floods(now, from, Said::Error);
        for &(destination, sequence) in &errors.unreachable {
            if sequence != 0
                && self.take_number(now, from, errors.no_delete, (destination, sequence))
            {
                continue;
            }
            self.lose_host(destination, from);
            let Some(entry) = self.table.valid(destination).filter(|entry| entry.next == from)
            else {
                continue;
            };
            if errors.no_delete {
                losses.push(Loss::of(destination, entry.clone()));
                continue;
            }
            if destination == from.address {
                // Whoever can be heard can be reached.
                self.stats.dropped.forged += 1;
                continue;
            }
            if is_flood && now.since(entry.since) < LEAST {
                self.stats.dropped.flooded += 1;
                continue;
            }
            // Nodes that do not know the number write 0.
            let sequence = Some(sequence).filter(|&sequence| sequence != 0);
            let ended = self.table.invalidate(destination, sequence, forgotten);
            losses.extend(ended.map(|entry| Loss::of(destination, entry)));
        }
        self.tell(now, Tell { no_delete: errors.no_delete, ..Tell::default() }, &losses);
    }

    /// Handles a sequence number that a neighbour knows: raises our own number to it, or passes another node's number
    /// on towards that node without ending the route. Returns whether the message was of this kind.
    fn take_number(
        &mut self,
        now: Time,
        from: Neighbour,
        no_delete: bool,
        (node, number): (Ipv4Addr, u32),
    ) -> bool {
        if self.is_own(node) {
            self.raise(now, number);
            return true;
        }
        let Some(entry) = self.table.valid(node).filter(|it| no_delete && it.next != from) else {
            return false;
        };
        // Whether it is news only the node itself can tell: others may know of any number.
        let next = entry.next;
        self.tell_number(now, next, node, number);
        true
    }

    /// Tells a node, through this neighbour, that the network knows a newer sequence number for it than the node itself
    /// uses, so its messages count as old. The message is an RERR with the N flag: nodes without this extension ignore
    /// it, because they have no route to that node through us.
    pub(super) fn tell_number(&mut self, now: Time, to: Neighbour, node: Ipv4Addr, number: u32) {
        if !self.number_limit.spend(now) {
            self.stats.dropped.errors_limited += 1;
            return;
        }
        let errors = Errors { no_delete: true, unreachable: vec![(node, number)] };
        let is_sent = self.unicast(to, 1, &Message::Error(errors));
        self.stats.sent.errors += u64::from(is_sent);
    }

    /// An Internet host cannot be reached through the neighbour that leads to its gateway.
    fn lose_host(&mut self, host: Ipv4Addr, from: Neighbour) {
        if let Some(gateway) = self.hosts.gateway(host)
            && self.table.valid(gateway).is_some_and(|entry| entry.next == from)
        {
            self.hosts.remove(host);
        }
    }

    /// Reports to a neighbour that we have no route for its packet. While the node waits, all other neighbours are
    /// informed too, because they may have known the route before the restart (RFC 3561, 6.13).
    pub(super) fn refuse(&mut self, now: Time, destination: Ipv4Addr, from: Neighbour) {
        let until = now + self.config.delete_period;
        let is_waiting = self.is_waiting(now);
        if is_waiting {
            self.waits_until = Some(until);
        } else if self.table.valid(destination).is_some() {
            // There is one by now.
            return;
        } else {
            self.table.extend(destination, until);
        }
        let sequence = self.table.get(destination).and_then(|entry| entry.sequence);
        let told = BTreeSet::from([from]);
        let loss = Loss { destination, sequence: sequence.unwrap_or(0), told };
        let how = Tell { is_refusal: true, to_all: is_waiting, ..Tell::default() };
        self.tell(now, how, &[loss]);
    }

    /// Prolongs a route because a packet uses it, if the packet took the present route. Without a present route the old
    /// entry is kept: the other end may still have a route.
    pub(super) fn use_route(&mut self, now: Time, destination: Ipv4Addr, next: Neighbour) {
        let Some(entry) = self.table.get(destination) else { return };
        let until = match entry.is_valid {
            true if entry.next == next => now + self.config.active_route_timeout,
            true => return,
            false => now + self.config.delete_period,
        };
        self.table.extend(destination, until);
    }

    /// Sends errors to the users of the routes: to a single user alone, or to all.
    fn tell(&mut self, now: Time, how: Tell, losses: &[Loss]) {
        let Tell { no_delete, is_refusal, to_all } = how;
        let told: BTreeSet<Neighbour> =
            losses.iter().flat_map(|loss| loss.told.iter().copied()).collect();
        let unreachable: Vec<(Ipv4Addr, u32)> = losses
            .iter()
            .filter(|loss| !loss.told.is_empty())
            .map(|loss| (loss.destination, loss.sequence))
            .collect();
        let interfaces: BTreeSet<usize> =
            told.iter().map(|neighbour| neighbour.interface).collect();
        let alone = told.first().copied().filter(|_| told.len() == 1 && !to_all);
        for interface in interfaces {
            let room = self.links.get(&interface).map_or(0, |link| link.room);
            let most = (room.saturating_sub(ERROR_HEADER) / UNREACHABLE_LEN).clamp(1, 255);
            for part in unreachable.chunks(most) {
                let limit =
                    if is_refusal { &mut self.refusal_limit } else { &mut self.error_limit };
                if !limit.spend(now) {
                    self.stats.dropped.errors_limited += 1;
                    continue;
                }
                let message = Message::Error(Errors { no_delete, unreachable: part.to_vec() });
                let is_sent = match alone {
                    Some(neighbour) => self.unicast(neighbour, 1, &message),
                    None => self.broadcast(now, interface, 1, &message),
                };
                self.stats.sent.errors += u64::from(is_sent);
            }
        }
    }
}
