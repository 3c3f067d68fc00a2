//! Carries reliable messages over UDP for programs, by the S/R protocol; accepted messages survive the process.
//!
//! ```text
//!  programs ⇄ Clients ─▶ Outbox ─▶ sar::Sar ⇄ Port ⇄ UDP 1624 of others
//!                    ◀── Inbox ◀──────┘      │
//!                                 Store ◀────┘ what is on the disk lets the rest go on
//! ```
//! Answers to programs, and datagrams, wait for the ticket of the stored record that they follow from.

mod api;
mod carrier;
mod clients;
mod holdings;
mod inbox;
mod input;
mod outbox;
mod port;
mod programs;
mod restore;
mod socket;
mod status;
mod store;
pub mod untrusted;
mod way;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::Context as _;
use api::Answer;
use base::time::{Time, earliest};
use caps::Capability;
use carrier::Carrier;
use clients::{ClientId, Clients, Said};
use inbox::{Batch, Inbox};
use nix::poll::{PollFd, PollFlags};
use outbox::{Notice, Outbox};
use port::Port;
use sar::{Event, Remembered, Source};
use store::{Arrived, Key, Known, Record, Store, Ticket};
use tracing::debug;
use way::Ways;

use super::{Kind, Reload, Report, Service, Setup, entries};
use crate::config::{self, Config};
use crate::reactor::{Driver, has_input};

pub(super) const KIND: Kind = Kind {
    name: "sar",
    is_wanted: |config| config.sar.is_some(),
    // For a port below 1024, for buffers as large as bursts of messages, and for taking and sending datagrams of others
    // in their names.
    rights: &[Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW],
    set_up: |setup| Ok(Box::new(restore::set_up(setup)?)),
    clean_up: || host::give_up(host::Owner::Sar),
};

/// The service.
struct Sar {
    config: config::Sar,
    node: sar::Sar,
    store: Store,
    port: Port,
    carrier: Option<Carrier>,
    clients: Clients,
    outbox: Outbox,
    inbox: Inbox,
    transfers: Transfers,
    /// Actions that wait for the disk, in the order of tickets.
    after: VecDeque<(Ticket, After)>,
    /// Whether programs may get messages that they could not get before.
    has_news: bool,
    ways: Ways,
    counters: programs::Counters,
    buffer: Vec<u8>,
}

/// The transfers that the store knows.
#[derive(Debug, Default)]
struct Transfers {
    /// Transfers that were started.
    starts: u64,
    /// The next message that arrives.
    next: u64,
    /// Arrived messages that must not be taken again: by the key of their transfer, and in order.
    known: BTreeMap<(IpAddr, u16), u64>,
    order: VecDeque<(u64, u64, (IpAddr, u16))>,
}

/// Room for arrived messages of all sources together.
#[derive(Clone, Copy, Debug)]
struct Room {
    messages: usize,
    octets: usize,
    /// Octets that can be stored beside the longest message.
    stored: u64,
}

impl Room {
    fn has_any(&self) -> bool {
        self.messages > 0 && self.octets > 0 && self.stored > 0
    }

    /// A message of so many octets is kept.
    fn take(&mut self, octets: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.octets = self.octets.saturating_sub(octets);
        self.stored = self.stored.saturating_sub(octets as u64 + RECORD);
    }
}

impl Transfers {
    /// Whether an arrived message has a record of its transfer's key: only the last message may have none.
    fn has_known(&self, number: u64) -> bool {
        self.order.back().is_some_and(|(last, ..)| *last >= number)
    }
}

/// What is done when something is stored.
#[derive(Debug)]
enum After {
    /// A program is told.
    Answer(ClientId, Answer),
    /// Programs that wait for an outcome are told.
    Notice(Notice),
    /// A message can be given to a program.
    Ready(u64),
}

/// Outdated entries allowed in the order of known transfers, beyond as many as there are known transfers.
const STALE: usize = 1_024;
/// Octets that may wait for the disk; with more, nothing is taken.
const BACKLOG: u64 = 16 << 20;
/// Octets of a record beside the message in it.
const RECORD: u64 = 2_048;

impl Driver for Sar {
    fn act(&mut self, now: Time) -> anyhow::Result<()> {
        self.store.check()?;
        self.take_stored();
        for node in self.ways.take(now, self.node.silent()) {
            self.node.handle_way(now, node);
        }
        self.node.handle_timeout(now);
        self.take_events();
        self.transmit(now);
        self.prune();
        self.store.flush();
        self.port.send(self.store.committed());
        loop {
            self.give_messages();
            let (gone, has_room) = self.clients.flush();
            self.take_said(now, gone);
            self.has_news |= has_room;
            if !self.has_news {
                return Ok(());
            }
        }
    }

    fn next_timeout(&mut self) -> Option<Time> {
        // What is forgotten in time need not be forgotten at once; the node wakes us often enough, or
        // nothing happens at all.
        let carrier = self.carrier.as_ref().and_then(Carrier::next_timeout);
        earliest(earliest(self.node.next_timeout(), self.ways.next_timeout()), carrier)
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let takes = self.may_take();
        fds.push(PollFd::new(self.ways.as_fd(), PollFlags::POLLIN));
        self.port.watch(takes, fds);
        self.carrier.iter().for_each(|it| it.watch(takes, fds));
        self.clients.watch(takes, fds);
    }

    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let Some((ways, ready)) = ready.split_first() else { return Ok(()) };
        if has_input(*ways) {
            self.ways.handle_ready(now)?;
        }
        let (port, rest) = ready.split_at(self.port.len());
        let (carried, clients) = rest.split_at(self.carrier.as_ref().map_or(0, Carrier::watched));
        let mut room = self.room_for_arrivals();
        let Self { node, port: sockets, inbox, config, .. } = self;
        let (mut events, mut batch) = (Vec::new(), Batch::default());
        sockets.receive(port, |arrival, octets, content| {
            let source = Source::of(arrival.from);
            let is_known = node.has_answered(arrival.from);
            if let Some(port) = content {
                let standing = inbox.standing(source, port, is_known);
                if !room.has_any() || !inbox.admits(&batch, source, standing, &config.service) {
                    return false;
                }
            }
            if let Err(why) = node.handle_datagram(now, arrival, octets) {
                debug!(%why, "a datagram is no PDU");
            }
            while let Some(event) = node.poll_event() {
                if let Event::Received(delivered) = &event {
                    room.take(delivered.data.len());
                    let port = delivered.ports.destination;
                    let standing = inbox.standing(source, port, is_known);
                    batch.add(source, standing, delivered.data.len());
                }
                events.push(event);
            }
            true
        })?;
        events.into_iter().for_each(|event| self.take_event(event));
        self.carry(now, carried)?;
        let said = self.clients.handle_ready(now, clients);
        self.take_said(now, said);
        Ok(())
    }
}

impl Service for Sar {
    fn report(&self, _now: Time) -> Report {
        let mut counters = entries("sar_", &self.node.stats());
        counters.extend(entries("sar_", self.clients.counters()));
        counters.extend(entries("sar_", &self.port.counters));
        counters.extend(entries("sar_", &self.counters));
        if let Some(carrier) = &self.carrier {
            counters.extend(entries("sar_", &carrier.counters));
        }
        counters.extend(entries("sar_", &self.store.stats()));
        let faults = self.carrier.as_ref().map(Carrier::faults).unwrap_or_default();
        Report { faults, ..Report::new(counters, "sar", &self.status()) }
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        let new = config.sar.clone().context("no section [sar]")?;
        let mut same = self.config.clone();
        (same.service, same.groups) = (new.service, new.groups.clone());
        // An open store keeps its size.
        same.service.store_octets = self.config.service.store_octets;
        if same != new {
            return Ok(Reload::Restart);
        }
        let mut changes = Vec::new();
        if self.config.service != new.service {
            changes.push("limits".to_owned());
        }
        if self.config.groups != new.groups {
            changes.push("groups".to_owned());
        }
        self.clients.limit(new.service.clients);
        self.config = new;
        Ok(Reload::Taken(changes))
    }

    fn end(&mut self, now: Time) {
        // Only stored records count; programs come back.
        self.take_events();
        self.store.flush();
        drop(self.act(now));
    }
}

impl Sar {
    /// Does what had waited for the disk.
    fn take_stored(&mut self) {
        let stored = self.store.committed();
        while self.after.front().is_some_and(|(ticket, _)| *ticket <= stored)
            && let Some((_, after)) = self.after.pop_front()
        {
            match after {
                After::Answer(client, answer) => self.clients.tell(client, &answer, &[]),
                After::Notice(notice) => {
                    let Notice { id, to, outcome, left } = notice;
                    let answer = Answer::Outcome { id, to, outcome: api::said(outcome), left };
                    for client in self.outbox.watchers(&notice) {
                        self.clients.tell(client, &answer, &[]);
                    }
                }
                After::Ready(number) => {
                    if !self.deliver_carried(number) {
                        self.inbox.handle_stored(number);
                        self.has_news = true;
                    }
                }
            }
        }
    }

    /// Stores what the node tells.
    fn take_events(&mut self) {
        while let Some(event) = self.node.poll_event() {
            self.take_event(event);
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Forgotten { source, serial } => self.forget((source, serial)),
            Event::Outcome { id, destination, outcome } => {
                if let Some(id) = self.outbox.of_core(id)
                    && let Some((record, notice)) =
                        self.outbox.conclude(id, destination, outcome, wall_clock())
                {
                    let ticket = self.store.push(&record);
                    if notice.left == 0 {
                        self.carrier.iter_mut().for_each(|it| it.conclude(id));
                    }
                    self.after.push_back((ticket, After::Notice(notice)));
                }
            }
            Event::Received(delivered) => self.take_delivered(delivered),
            Event::Started { id, destination, resume } => {
                let Some(id) = self.outbox.of_core(id) else { return };
                let part = destination.and_then(|it| self.outbox.position(id, it));
                let order = self.transfers.starts;
                self.transfers.starts += 1;
                self.store.push(&Record::Started { id, part, resume, order });
            }
        }
    }

    fn take_delivered(&mut self, delivered: sar::Delivered) {
        let at = wall_clock();
        let number = self.transfers.next;
        self.transfers.next += 1;
        let sar::Delivered { source, ports, precedence, data, identity } = delivered;
        let record = Record::Arrived(Arrived {
            number,
            source,
            ports,
            precedence: precedence.level(),
            at,
            identity,
            data: data.into(),
        });
        // Whichever of both is the last that is stored before a crash, it is known and not lost.
        self.store.push(&record);
        let ticket = self.store.push(&Record::Known(Known { number, at, identity }));
        self.remember(number, at, &identity);
        if let Record::Arrived(arrived) = record {
            let is_known = self.node.has_answered(source);
            let standing = self.inbox.standing(Source::of(source), ports.destination, is_known);
            self.inbox.insert(arrived, standing);
        }
        self.after.push_back((ticket, After::Ready(number)));
    }

    /// Keeps what a transfer is known by; an older one that was known by the same is not needed any more.
    fn remember(&mut self, number: u64, at: u64, identity: &Remembered) {
        let key = (identity.source, identity.serial);
        if let Some(older) = self.transfers.known.insert(key, number) {
            self.store.push(&Record::Forgotten(Key::Known(older)));
        }
        let Transfers { known, order, .. } = &mut self.transfers;
        order.push_back((number, at, key));
        if order.len() > 2 * known.len() + STALE {
            order.retain(|(number, _, key)| known.get(key) == Some(number));
        }
    }

    /// The node has no room for what a transfer is known by.
    fn forget(&mut self, key: (IpAddr, u16)) {
        if let Some(number) = self.transfers.known.remove(&key) {
            self.store.push(&Record::Forgotten(Key::Known(number)));
        }
    }

    /// Sends the PDUs of the node, each once the records that it follows from are stored.
    fn transmit(&mut self, now: Time) {
        let mut out = std::mem::take(&mut self.buffer);
        while self.port.has_room() {
            let Some(transmit) = self.node.poll_transmit(now, &mut out) else { break };
            self.port.hold(self.store.latest(), &transmit, &out);
        }
        self.buffer = out;
        // A message that asks for no acknowledgement is over when it is sent.
        self.take_events();
    }

    /// Whether programs and others are listened to now. Room that is being made is waited for; if the disk is full
    /// they are refused.
    fn may_take(&self) -> bool {
        let longest = u64::from(self.config.parameters.limits.message);
        let has_room = self.store.room() > 2 * (longest + RECORD);
        self.store.backlog() < BACKLOG && (has_room || self.store.is_full())
    }

    /// The room left for arriving messages.
    fn room_for_arrivals(&self) -> Room {
        let service = &self.config.service;
        let longest = u64::from(self.config.parameters.limits.message);
        Room {
            messages: service.inbox.saturating_sub(self.inbox.len()),
            octets: service.inbox_octets.saturating_sub(self.inbox.octets()),
            stored: self.store.room().saturating_sub(longest + RECORD),
        }
    }

    /// Gives arrived messages to their programs.
    fn give_messages(&mut self) {
        if !std::mem::take(&mut self.has_news) {
            return;
        }
        let Self { inbox, clients, config, .. } = self;
        loop {
            let next =
                inbox.next(&config.service, |client, octets| clients.has_room(client, octets));
            let Some((client, arrived)) = next else { break };
            let answer = Answer::Received(api::Received {
                number: arrived.number,
                from: arrived.source,
                from_port: arrived.ports.source,
                port: arrived.ports.destination,
                precedence: arrived.precedence,
                at: arrived.at,
                octets: arrived.data.len(),
            });
            let data = std::sync::Arc::clone(&arrived.data);
            clients.tell(client, &answer, &data);
        }
    }

    /// Does what programs ask.
    fn take_said(&mut self, now: Time, all: Vec<Said>) {
        for said in all {
            match said {
                Said::Asked(client, request, octets) => self.ask(now, client, request, octets),
                Said::Gone(client) => {
                    self.inbox.forget_client(client);
                    self.has_news = true;
                }
            }
        }
    }

    /// Forgets what nobody asks for any more.
    fn prune(&mut self) {
        let now = wall_clock();
        for key in self.outbox.prune(now, &self.config.service) {
            self.store.push(&Record::Forgotten(key));
        }
        let parameters = &self.config.parameters;
        let kept = milliseconds(parameters.times.remember);
        let Transfers { known, order, .. } = &mut self.transfers;
        while let Some((number, at, key)) = order.front().copied() {
            let is_replaced = known.get(&key) != Some(&number);
            let is_needed = at.saturating_add(kept) > now;
            if is_needed && !is_replaced {
                break;
            }
            order.pop_front();
            if !is_replaced {
                known.remove(&key);
                self.store.push(&Record::Forgotten(Key::Known(number)));
            }
        }
    }
}

/// Milliseconds since 1970.
fn wall_clock() -> u64 {
    milliseconds(super::wall_clock())
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
