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
mod clock;
mod inbox;
mod outbox;
mod port;
mod socket;
mod store;
pub mod untrusted;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use api::{Answer, LONGEST_NAME, Request};
use base::rng::Rng;
use base::time::{Time, earliest};
use caps::Capability;
use carrier::Carrier;
use clients::{ClientId, Clients, Said};
use clock::Clock;
use host::IN_CLEAR;
use inbox::{Batch, Inbox};
use nix::poll::{PollFd, PollFlags};
use nix::unistd::Uid;
use outbox::{Notice, Outbox};
use port::{Port, Ways};
use sar::{
    Event, Message, MessageId, NotTaken, Options, Outcome, Ports, Precedence, Remembered, Resume,
    Source,
};
use serde::Serialize;
use store::{Accepted, Arrived, Key, Known, NotOpened, Open, Record, Recovered, Store, Ticket};
use tracing::{debug, info, warn};

use super::{Kind, Reload, Report, Service, Setup, entries, of_counters};
use crate::config::sar::Damaged;
use crate::config::{self, Config};
use crate::reactor::{Driver, has_input};

pub const KIND: Kind = Kind {
    name: "sar",
    is_wanted: |config| config.sar.is_some(),
    // For a port below 1024, for buffers as large as bursts of messages, and for taking and sending datagrams of others
    // in their names.
    rights: &[Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW],
    set_up: |setup| Ok(Box::new(set_up(setup)?)),
    clean_up: || host::give_up(host::Owner::Sar),
};

/// The service.
struct Sar {
    config: config::Sar,
    node: sar::Sar,
    store: Store,
    clock: Clock,
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
    counters: Counters,
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
        self.clock.follow(now, wall_clock());
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
        let carrier = earliest(carrier, self.clients.next_timeout());
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
            self.ways.handle_ready(now);
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
    fn report(&self, now: Time) -> Report {
        let mut counters = entries("sar_", &self.node.stats());
        counters.extend(entries("sar_", self.clients.counters()));
        counters.extend(entries("sar_", self.port.counters()));
        counters.extend(entries("sar_", &self.counters));
        if let Some(carrier) = &self.carrier {
            counters.extend(entries("sar_", carrier.counters()));
            counters.extend(of_counters("sar_", [(&IN_CLEAR, carrier.dropped())]));
        }
        counters.extend(entries("sar_", &self.store.stats()));
        let mut faults = self.carrier.as_ref().map(|it| it.faults(now)).unwrap_or_default();
        faults.extend(self.clients.faults());
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

// Handles the requests of programs and tells programs the outcomes.

base::counters! {
    /// What is counted of requests.
    #[derive(Clone, Copy, Debug, Default)]
    struct Counters {
        /// Messages accepted: they are stored.
        requests_accepted: counter(messages);
        /// Messages that had been accepted by the same name.
        requests_again: counter(messages);
        /// Messages refused: for what they are, or because too many wait.
        requests_refused: counter(messages);
        /// Messages refused: no room in the store.
        requests_no_room: counter(messages);
        /// Messages given up by their programs.
        requests_cancelled: counter(messages);
        /// Messages that programs have taken.
        requests_taken: counter(messages);
        /// Messages that programs wanted to take and did not have.
        requests_not_held: counter(messages);
    }
}

/// The most urgent.
const HIGHEST_PRECEDENCE: u8 = 5;
/// The longest lifetime, in seconds: a year.
const LONGEST_LIFETIME: f64 = 366.0 * 86_400.0;

impl Sar {
    /// Does what a program asks.
    fn ask(&mut self, now: Time, client: ClientId, request: Request, octets: Vec<u8>) {
        match request {
            Request::Cancel { id } => self.cancel(now, client, id),
            Request::Outcome { id, name } => self.tell_outcome(client, id, name),
            Request::Receive { port } => {
                self.inbox.want(client, port);
                self.has_news = true;
            }
            Request::Send(send) => {
                let tag = send.tag;
                if let Err(why) = self.accept(now, client, send, octets) {
                    self.clients.tell(client, &Answer::Refused { tag, why }, &[]);
                }
            }
            Request::Taken { number } => {
                if self.inbox.take(client, number) {
                    self.counters.requests_taken += 1;
                    self.store.push(&Record::Taken(number));
                } else {
                    self.counters.requests_not_held += 1;
                }
                self.has_news = true;
            }
        }
    }

    /// Takes a message; its program is told once the message is stored.
    fn accept(
        &mut self,
        now: Time,
        client: ClientId,
        send: api::Send,
        octets: Vec<u8>,
    ) -> Result<(), String> {
        let refused = |sar: &mut Self, why: String| {
            sar.counters.requests_refused += 1;
            Err(why)
        };
        let api::Send { name, tag, .. } = &send;
        if name.len() > LONGEST_NAME {
            let have = name.len();
            return refused(self, format!("a name of {have} octets: {LONGEST_NAME} are allowed"));
        }
        if let Some(id) = self.outbox.find(name) {
            self.counters.requests_again += 1;
            let answer = Answer::Accepted { id, tag: *tag, again: true };
            let ticket = self.store.latest();
            self.after.push_back((ticket, After::Answer(client, answer)));
            for notice in self.outbox.notices(id) {
                let outcome = api::said(notice.outcome);
                let answer = Answer::Outcome { id, to: notice.to, outcome, left: notice.left };
                self.after.push_back((ticket, After::Answer(client, answer)));
            }
            self.outbox.watch(id, client);
            return Ok(());
        }
        if send.precedence > HIGHEST_PRECEDENCE {
            let have = send.precedence;
            return refused(
                self,
                format!("precedence {have}: 0 to {HIGHEST_PRECEDENCE} are allowed"),
            );
        }
        if send.lifetime.is_some_and(|it| !(0.0..=LONGEST_LIFETIME).contains(&it)) {
            return refused(self, "lifetime: seconds, up to a year, are needed".to_owned());
        }
        let room = self.store.room();
        if room < octets.len() as u64 + RECORD {
            self.counters.requests_no_room += 1;
            return Err(format!(
                "no room in the store {}: {room} octets are left; make room on the disk, raise store-octets, or \
                 let programs take what has come",
                self.config.store.display()
            ));
        }
        let tag = send.tag;
        match self.submit(now, send, octets.into()) {
            Ok((id, ticket)) => {
                let answer = Answer::Accepted { id, tag, again: false };
                self.after.push_back((ticket, After::Answer(client, answer)));
                self.outbox.watch(id, client);
                // What has started is stored after the message itself.
                self.take_events();
                Ok(())
            }
            Err(why) => refused(self, why),
        }
    }

    /// Hands a message to the node; returns the message's number and the ticket of its record.
    fn submit(
        &mut self,
        now: Time,
        send: api::Send,
        data: Arc<[u8]>,
    ) -> Result<(u64, Ticket), String> {
        let different: BTreeSet<IpAddr> = send.to.iter().map(IpAddr::to_canonical).collect();
        if let Some(own) = different.iter().find(|it| !self.is_reachable(**it)) {
            return Err(format!("{own} cannot be a destination: no socket of [sar] sends there"));
        }
        let via = send.via.or_else(|| self.via(&different));
        let destinations: Vec<IpAddr> = different.into_iter().collect();
        let ports = Ports { source: send.from_port, destination: send.port };
        let message = Message { ports, data };
        let usual = self.config.service.lifetime;
        let lifetime = Some(send.lifetime.map_or(usual, Duration::from_secs_f64));
        let options = Options {
            precedence: Precedence::new(send.precedence),
            lifetime,
            is_acknowledged: send.acknowledged,
            via,
            resume: None,
        };
        let submitted = self.node.submit(now, &message, &destinations, options);
        let core = submitted.map_err(|why| why.to_string())?;
        let id = self.outbox.take_id();
        let parts = destinations.iter().map(|to| (*to, None)).collect();
        self.outbox.insert(id, send.name.clone(), parts, vec![core]);
        let ticket = self.store.push(&Record::Accepted(Accepted {
            id,
            name: send.name,
            ports,
            precedence: send.precedence,
            is_acknowledged: send.acknowledged,
            via,
            expires: lifetime.map(|it| self.clock.time(now).saturating_add(milliseconds(it))),
            destinations,
            data: message.data,
        }));
        self.counters.requests_accepted += 1;
        Ok((id, ticket))
    }

    /// Whether there is a socket for a destination.
    fn is_reachable(&self, to: IpAddr) -> bool {
        let is_one = !to.is_unspecified() && !to.is_multicast();
        is_one && self.config.listen.iter().any(|at| at.is_ipv4() == to.is_ipv4())
    }

    /// The address that reaches all of several destinations, if a group has them.
    fn via(&self, destinations: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        if destinations.len() < 2 {
            return None;
        }
        let mut groups = self.config.groups.iter();
        groups.find(|group| destinations.is_subset(&group.members)).map(|group| group.via)
    }

    fn cancel(&mut self, now: Time, client: ClientId, id: u64) {
        let mut count = 0;
        for core in self.outbox.cores(id) {
            count += self.node.cancel(now, core);
        }
        self.counters.requests_cancelled += u64::from(count > 0);
        let answer = match self.outbox.fates(id) {
            Some(_) => Answer::Cancelled { id, count },
            None => Answer::Unknown { id: Some(id), name: None },
        };
        let ticket = self.store.latest();
        self.after.push_back((ticket, After::Answer(client, answer)));
        // The outcomes are told behind the answer.
        self.take_events();
    }

    /// Tells the known outcomes of a message now, and the open outcomes later.
    fn tell_outcome(&mut self, client: ClientId, id: Option<u64>, name: Option<String>) {
        let found = id.or_else(|| self.outbox.find(name.as_deref()?));
        let known = found.and_then(|id| Some((id, self.outbox.fates(id)?)));
        let answer = match known {
            Some((id, outcomes)) => {
                self.outbox.watch(id, client);
                Answer::Message { id, outcomes }
            }
            None => Answer::Unknown { id, name },
        };
        // Everything that is told is stored.
        let ticket = self.store.latest();
        self.after.push_back((ticket, After::Answer(client, answer)));
    }
}

// The beginning of the service: what an earlier process had stored goes on.

/// Least octets of a segment of the store, and the number of largest messages that fit into a segment.
const SEGMENT: u64 = 4 << 20;
const MESSAGES: u64 = 4;

/// Opens the sockets and the store.
///
/// # Errors
/// When something of it is taken, damaged or not allowed.
fn set_up(setup: &Setup<'_>) -> anyhow::Result<Sar> {
    let config = setup.config.sar.clone().context("no section [sar]")?;
    let port = Port::open(&config)?;
    // Opening writes to it.
    let written = clock::last_written(&config.store);
    let (store, recovered) = open_store(&config, setup)?;
    let carrier = match &config.carry {
        Some(carry) => Some(Carrier::open(setup.observer, carry)?),
        None => {
            // Before a crash or another configuration there may have been one.
            host::give_up(host::Owner::Sar);
            None
        }
    };
    let clients = Clients::open(&config)?;
    let ways = Ways::open(setup.observer)?;
    let now = setup.clock.now();
    let clock = Clock::open(&config.store, now, wall_clock(), written);
    let next = recovered.next;
    let serial = (next.starts > 0).then(|| next.serial.wrapping_add(1));
    let mut parameters = config.parameters;
    // What was accepted once is not refused now.
    let waiting: usize = recovered.open.values().map(|it| it.accepted.destinations.len()).sum();
    let octets: usize = recovered.open.values().map(octets_of).sum();
    let limits = &mut parameters.limits;
    limits.waiting = limits.waiting.max(waiting);
    limits.waiting_octets = limits.waiting_octets.max(octets);
    let node = sar::Sar::new(now, parameters, serial, Rng::stream(setup.seed, "sar"));
    let mut sar = Sar {
        config,
        node,
        store,
        clock,
        port,
        carrier,
        clients,
        outbox: Outbox::new(next.id.max(1)),
        inbox: Inbox::default(),
        transfers: Transfers {
            starts: next.starts,
            next: next.number.max(1),
            ..Transfers::default()
        },
        after: std::collections::VecDeque::new(),
        has_news: true,
        ways,
        counters: Counters::default(),
        buffer: Vec::new(),
    };
    sar.restore(now, recovered);
    sar.announce(now);
    Ok(sar)
}

fn octets_of(open: &Open) -> usize {
    open.accepted.data.len() * open.accepted.destinations.len()
}

fn open_store(config: &config::Sar, setup: &Setup<'_>) -> anyhow::Result<(Store, Recovered)> {
    let longest = u64::from(config.parameters.limits.message);
    let options = store::Options {
        folder: config.store.clone(),
        segment: SEGMENT.max(MESSAGES * longest),
        most: config.service.store_octets,
    };
    let (folder, user) = (config.store.display(), Uid::effective());
    match Store::open(options.clone(), setup.waker) {
        Ok(opened) => Ok(opened),
        Err(NotOpened::Damaged(damage)) if config.damaged == Damaged::SetAside => {
            let aside = set_aside(&config.store)
                .with_context(|| format!("cannot put the damaged store {folder} aside"))?;
            warn!(%damage, kept = %aside.display(), "the store is damaged: it is put aside, and messages in it are not sent");
            Store::open(options, setup.waker).map_err(|why| anyhow!("the store {folder}: {why}"))
        }
        Err(NotOpened::Damaged(damage)) => Err(anyhow!(
            "the store {folder} is damaged: {damage}; messages in it may be lost: `mv {folder} {folder}.damaged`, or \
             `damaged = \"set-aside\"` in [sar], lets the service begin anew"
        )),
        Err(NotOpened::InUse) => Err(anyhow!(
            "the store {folder} is in use by another gateway: `fuser -v {folder}/*` names it; end it, or name \
             another `store` in [sar]"
        )),
        Err(NotOpened::NoRoom(octets)) => Err(anyhow!(
            "no room for the store {folder}: {octets} octets are needed at least; `df -h {folder}` shows how much there is: \
             make room, or name another `store` in [sar]"
        )),
        Err(NotOpened::Io(error)) => Err(anyhow!(
            "cannot open the store {folder}: {error}; `namei -l {folder}` and `df {folder}` show the way there, and \
             `chown -R {user} {folder}` gives it to the gateway; or name another `store` in [sar]"
        )),
    }
}

/// Puts what is in the folder into a new one within.
fn set_aside(folder: &PathBuf) -> std::io::Result<PathBuf> {
    let aside = folder.join(format!("damaged-{}", wall_clock()));
    fs::create_dir(&aside)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            fs::rename(entry.path(), aside.join(entry.file_name()))?;
        }
    }
    fs::File::open(folder)?.sync_all()?;
    Ok(aside)
}

/// Most nodes that are told of a start.
const ANNOUNCED: usize = 1_024;

impl Sar {
    /// Greets the nodes that may hold messages for this gateway: the latest senders, the destinations of its own
    /// messages, and the nodes of the configuration.
    fn announce(&mut self, now: Time) {
        let heard = self.transfers.order.iter().rev().map(|(_, _, (source, _))| *source);
        let mut told = BTreeSet::new();
        let all = self.named().chain(heard).chain(self.outbox.destinations());
        let peers: Vec<IpAddr> = all
            .filter(|it| told.insert(*it))
            .take(ANNOUNCED)
            .filter(|it| self.is_reachable(*it))
            .collect();
        self.node.announce(now, peers);
    }

    /// Nodes that the configuration names.
    fn named(&self) -> impl Iterator<Item = IpAddr> {
        let groups = self.config.groups.iter().flat_map(|group| group.members.iter().copied());
        let carried = self.config.carry.iter().flat_map(|it| it.peers.iter().map(|(_, at)| *at));
        groups.chain(carried)
    }

    /// Goes on with what was stored.
    fn restore(&mut self, now: Time, recovered: Recovered) {
        let Recovered { open, ended, arrived, known, .. } = recovered;
        for node in self.named().collect::<Vec<_>>() {
            self.inbox.meet(Source::of(node));
        }
        if !open.is_empty() || !arrived.is_empty() {
            let (to_send, to_take) = (open.len(), arrived.len());
            info!(to_send, to_take, "messages of an earlier process go on");
        }
        for (number, known) in known {
            self.node.remember(now, known.identity);
            self.remember(number, known.at, &known.identity);
        }
        let mut ended: Vec<_> = ended.into_values().collect();
        ended.sort_by_key(|ended| (ended.at, ended.id));
        for it in ended {
            let delivered =
                it.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Delivered);
            delivered.for_each(|(to, _)| self.inbox.meet(Source::of(*to)));
            self.outbox.insert_ended(it);
        }
        for (number, arrived) in arrived {
            if !self.transfers.has_known(number) {
                self.node.remember(now, arrived.identity);
                self.remember(number, arrived.at, &arrived.identity);
            }
            let source = Source::of(arrived.source);
            let standing = self.inbox.standing(source, arrived.ports.destination, false);
            self.inbox.insert(arrived, standing);
            if !self.deliver_carried(number) {
                self.inbox.handle_stored(number);
            }
        }
        for (id, open) in open {
            self.resume(now, id, open);
        }
        self.take_events();
    }

    /// Hands a message to the node again, as its transfers were.
    fn resume(&mut self, now: Time, id: u64, open: Open) {
        let Open { accepted, started, outcomes } = open;
        let mut parts: Vec<(IpAddr, Option<Outcome>)> =
            accepted.destinations.iter().map(|to| (*to, None)).collect();
        for (part, outcome) in outcomes {
            if let Some(part) = parts.get_mut(usize::from(part)) {
                part.1 = Some(outcome);
            }
        }
        let left = |part: &(usize, &(IpAddr, Option<Outcome>))| part.1.1.is_none();
        let of_group = started.iter().find(|(part, _)| part.is_none()).map(|(_, resume)| *resume);
        let mut submissions: Vec<(Vec<IpAddr>, Option<Resume>)> = Vec::new();
        let mut fresh = Vec::new();
        for (position, (to, _)) in parts.iter().enumerate().filter(left) {
            let own = started
                .iter()
                .find(|(part, _)| part.is_some_and(|part| usize::from(part) == position));
            match own {
                Some((_, resume)) => submissions.push((vec![*to], Some(*resume))),
                None => fresh.push(*to),
            }
        }
        if !fresh.is_empty() {
            submissions.push((fresh, of_group));
        }
        let message = Message { ports: accepted.ports, data: accepted.data };
        let left_over = accepted.expires.map(|at| at.saturating_sub(self.clock.time(now)));
        let mut cores: Vec<MessageId> = Vec::new();
        let mut failed: Vec<IpAddr> = Vec::new();
        for (destinations, resume) in submissions {
            let options = Options {
                precedence: Precedence::new(accepted.precedence),
                lifetime: left_over.map(Duration::from_millis),
                is_acknowledged: accepted.is_acknowledged,
                via: accepted.via,
                resume,
            };
            let submitted = self.node.submit(now, &message, &destinations, options);
            // Two transfers had one number only if the store was tampered with; as new ones they go.
            let submitted = match submitted {
                Err(NotTaken::SerialInUse { .. }) => {
                    let options = Options { resume: None, ..options };
                    self.node.submit(now, &message, &destinations, options)
                }
                other => other,
            };
            match submitted {
                Ok(core) => cores.push(core),
                Err(why) => {
                    warn!(id, %why, "a message of an earlier process is given up");
                    failed.extend(destinations);
                }
            }
        }
        self.outbox.insert(id, accepted.name, parts, cores);
        for to in failed {
            let told = self.outbox.conclude(id, to, Outcome::Cancelled, wall_clock());
            if let Some((record, _)) = told {
                self.store.push(&record);
            }
        }
        self.take_events();
    }
}

// What an operator is told.

/// How the service is.
#[derive(Debug, Serialize)]
struct Status {
    state: &'static str,
    /// Programs that are connected.
    programs: usize,
    /// Messages that wait or are under way.
    to_send: usize,
    /// Messages that have arrived and were not taken.
    to_take: usize,
    to_take_octets: usize,
    /// Messages whose outcomes can be asked for.
    outcomes_known: usize,
    /// Outcomes forgotten before their time.
    outcomes_forgotten: u64,
    store: String,
}

impl Sar {
    fn status(&self) -> Status {
        let state = if self.room_for_arrivals().has_any() { "running" } else { "full" };
        Status {
            state,
            programs: self.clients.len(),
            to_send: self.outbox.open_len(),
            to_take: self.inbox.len(),
            to_take_octets: self.inbox.octets(),
            outcomes_known: self.outbox.ended_len(),
            outcomes_forgotten: self.outbox.forgotten(),
            store: self.config.store.display().to_string(),
        }
    }
}
