//! The IP client itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use base::backoff::Backoff;
use base::budget::Budget;
use base::ip::icmp::Error;
use base::ip::{FlowKey, Header, check_source, fragment};
use base::time::{Time, earliest};

use super::config::{Config, Override};
use super::headers::{self, Headers};
use super::queue::{Item, Pushed, Queue};
use super::route::{Route, is_multicast};
use super::stats::Stats;
use super::tcp::{self, Tcp};
use crate::s5066::Address;
use crate::s5066::seal::{Sealing, Trouble};
use crate::s5066::sis::client::{self, Client, Fault, Send, SendId, Share, Window};
use crate::s5066::sis::primitive::Arrival;
use crate::s5066::sis::stream::Unreadable;
use crate::s5066::sis::{
    BindReason, Confirmation, Mode, NodeStatus, Service, UnbindReason, UnidataReason,
};

/// Most octets that wait for the socket, where their order can no longer be changed.
const MAX_UNSENT: usize = 16 << 10;

/// The IP client of a STANAG 5066 node: a core in the sense of [`base::contract`].
///
/// Its driver holds the TCP connection to the node and reports when the connection is made or lost. Datagrams from the
/// stack wait in a queue by priority, and are handed to the node a few at a time, so that the order can be decided
/// late. The client answers datagrams that cannot be carried with ICMP itself.
///
/// - Facts in: [`handle_connected`](Self::handle_connected),
///   [`handle_disconnected`](Self::handle_disconnected), [`handle_octets`](Self::handle_octets) from the
///   node; [`handle_packet`](Self::handle_packet) from the stack; [`handle_clock`](Self::handle_clock), and
///   [`handle_addresses`](Self::handle_addresses) when the host's addresses change.
/// - Decisions out: [`poll_packet`](Self::poll_packet) for the stack and
///   [`poll_event`](Self::poll_event) after each of these, then [`poll_octets`](Self::poll_octets) while
///   the connection has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: [`mtu`](Self::mtu), [`is_bound`](Self::is_bound), [`is_radio_off`](Self::is_radio_off),
///   [`fault`](Self::fault), [`stats`](Self::stats), [`client_stats`](Self::client_stats).
#[derive(Debug)]
pub struct IpClient {
    config: Config,
    client: Client,
    queue: Queue,
    pending: Pending,
    headers: Headers,
    released: Released,
    /// All addresses of this host: datagrams from other hosts never have one as their source.
    own: BTreeSet<IpAddr>,
    /// Whether the node has told that it can neither send nor receive.
    is_radio_off: bool,
    rebind_at: Option<Time>,
    patience: Backoff,
    events: VecDeque<Event>,
    stats: Stats,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// Datagrams of this many octets can be sent.
    Bound {
        /// At most.
        mtu: u16,
    },
    /// The connection is to be closed, and made again.
    Close(Fault),
    /// The node does not bind the client, which will ask again.
    Refused(BindReason),
    /// The U_PDUs of a node are dropped because of their seal, or the node drops ours.
    Sealing {
        /// Which node.
        node: Address,
        /// What is wrong.
        trouble: Trouble,
    },
    /// A datagram arrived at a node where no IP client took it.
    Unreceived {
        /// Which.
        node: Address,
    },
    /// The node has unbound the client, which will ask again.
    Unbound(UnbindReason),
}

impl IpClient {
    /// A client whose connection to its node is to be made.
    #[must_use]
    pub fn new(now: Time, config: Config) -> Self {
        let client = client::Config {
            rank: config.rank,
            service: Service::of(config.classes[0].unicast),
            least_mtu: least_mtu(&config),
            max_unsent: MAX_UNSENT,
            sealing: config.group.clone().map_or(Sealing::Keyless, Sealing::Member),
            ..client::Config::new(config.sap)
        };
        Self {
            client: Client::new(client),
            queue: Queue::new(config.queue),
            pending: Pending::new(config.window, config.horizon),
            headers: Headers::new(now, &config.routes, config.compress_headers),
            released: Released::new(now, config.received),
            own: config.addresses.iter().copied().collect(),
            is_radio_off: false,
            rebind_at: None,
            patience: Backoff::new(config.rebind),
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// Takes an IP datagram from the stack; it waits until the client is bound.
    pub fn handle_packet(&mut self, now: Time, packet: &[u8]) {
        self.handle_packet_with(now, packet, Override::default());
    }

    /// The same for a datagram of which a rule says more than its class.
    pub fn handle_packet_with(&mut self, now: Time, packet: &[u8], said: Override) {
        self.stats.taken.packets_in += 1;
        self.stats.taken.octets_in += packet.len() as u64;
        let Ok(header) = Header::parse(packet) else {
            self.stats.taken.malformed += 1;
            return;
        };
        let packet = &packet[..header.total_len];
        let mtu = self.mtu();
        if packet.len() <= usize::from(mtu) {
            self.enqueue(now, &header, packet, said);
        } else {
            let mut pieces = Vec::new();
            let may_cut =
                fragment(&header, packet, usize::from(mtu), |piece| pieces.push(piece.to_vec()));
            if !may_cut {
                self.stats.taken.too_big += 1;
                self.complain(now, Error::TooBig { mtu }, packet);
                return;
            }
            self.stats.taken.fragmented += 1;
            for piece in pieces {
                if let Ok(header) = Header::parse(&piece) {
                    self.enqueue(now, &header, &piece, said);
                }
            }
        }
        self.pump(now);
    }

    fn enqueue(&mut self, now: Time, header: &Header, packet: &[u8], said: Override) {
        let other = self.config.other_multicast.filter(|_| is_multicast(header.destination));
        let route = Route::find(&self.config.routes, header.destination);
        let Some(to) = route.map(|route| route.to).or(other) else {
            self.stats.taken.no_route += 1;
            self.complain(now, Error::HostUnreachable, packet);
            return;
        };
        let class = self.config.classes[usize::from(header.traffic_class >> 2)].with(said);
        // A multicast address may belong to a single node, and then have ARQ.
        let mode = if to.is_group() {
            Mode::NonArq { in_order: false, repeats: class.group_repeats }
        } else {
            class.unicast
        };

        self.stats.taken.expired += self.queue.expire(now);
        let mut item = Item::new(packet, to, mode, class.priority);
        item.expires = class.ttl.map(|ttl| now + ttl);
        item.tcp = Tcp::of(header, packet).filter(|_| self.config.supersede);
        match self.queue.push(item) {
            Pushed::Absorbed => self.stats.taken.absorbed += 1,
            Pushed::Full(dropped) => self.stats.taken.queue_full += dropped,
            Pushed::Queued => {}
            Pushed::Superseded => self.stats.taken.superseded += 1,
        }
    }

    /// Tells the sender of a datagram that a rule blocks it: by a reset if it is a TCP segment and
    /// `by_reset`, by ICMP otherwise. Both count against the same bound as other errors.
    pub fn refuse(&mut self, now: Time, packet: &[u8], by_reset: bool) {
        let Some(segment) = tcp::whole(packet).filter(|_| by_reset) else {
            self.complain(now, Error::Prohibited, packet);
            return;
        };
        if let Some(reset) = segment.reset_for() {
            let mut answer = Vec::new();
            reset.emit(&mut answer);
            self.stats.received.resets_sent += u64::from(self.answer(now, answer));
        }
    }

    /// The connection to the node is there.
    pub fn handle_connected(&mut self, now: Time) {
        self.rebind_at = None;
        self.client.handle_connected(now);
    }

    /// The wall clock says this much since 1970: told with each call where there is a group.
    pub fn handle_clock(&mut self, now: Time, clock: Duration) {
        self.client.handle_clock(now, clock);
    }

    /// The connection to the node is gone: datagrams handed to the node are given up, queued ones wait on.
    pub fn handle_disconnected(&mut self, _now: Time) {
        self.client.handle_disconnected();
        self.rebind_at = None;
        self.forsake();
    }

    /// Takes the addresses of this host on all interfaces; until then the configured addresses count. Datagrams from
    /// the radio that claim to come from one are dropped.
    pub fn handle_addresses(&mut self, own: BTreeSet<IpAddr>) {
        self.own = own;
    }

    /// Takes octets from the node.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.client.handle_octets(now, octets);
        while let Some(event) = self.client.poll_event() {
            self.handle_event(now, event);
        }
        self.pump(now);
    }

    fn handle_event(&mut self, now: Time, event: client::Event) {
        match event {
            client::Event::Bound { .. } => {
                self.stats.handed.binds += 1;
                self.headers.handle_bound(now);
                self.patience.succeed();
                self.events.push_back(Event::Bound { mtu: self.mtu() });
            }
            client::Event::Close(fault) => {
                self.forsake();
                self.events.push_back(Event::Close(fault));
            }
            client::Event::Confirmed(id) => {
                if let Some(tcp) = self.pending.handle_confirmed(now, id) {
                    self.queue.release(tcp);
                    self.stats.handed.confirmed += 1;
                }
            }
            client::Event::Received(received) => self.receive(now, received),
            client::Event::Refused(reason) => {
                self.events.push_back(Event::Refused(reason));
                self.rebind_later(now);
            }
            client::Event::Rejected { to, start, reason, .. }
                if headers::is_announcement(&start) =>
            {
                if reason == UnidataReason::SAP_NOT_BOUND {
                    self.headers.handle_unreceived(now, to);
                }
            }
            client::Event::Rejected { id, to, start, reason } => {
                let handed = id.and_then(|id| self.pending.take(id));
                match reason {
                    UnidataReason::EXPIRED => self.stats.taken.expired += 1,
                    UnidataReason::NO_RESPONSE => self.stats.handed.unreachable += 1,
                    UnidataReason::MAY_HAVE_ARRIVED => self.stats.handed.forsaken += 1,
                    UnidataReason::TAKEN_BACK => self.stats.taken.superseded += 1,
                    UnidataReason::SAP_NOT_BOUND => {
                        // The destination node has the datagram, confirmed before or not.
                        self.stats.handed.confirmed += u64::from(handed.is_some());
                        self.stats.handed.unreceived += 1;
                        self.headers.handle_unreceived(now, to);
                        self.events.push_back(Event::Unreceived { node: to });
                    }
                    _ => self.stats.handed.refused += 1,
                }
                self.queue.release(handed.as_ref().and_then(|handed| handed.tcp));
                let packet = match handed {
                    Some(handed) => Some(handed.packet),
                    None => self.pending.take_confirmed(&start),
                };
                let is_told = matches!(
                    reason,
                    UnidataReason::NO_RESPONSE
                        | UnidataReason::MAY_HAVE_ARRIVED
                        | UnidataReason::SAP_NOT_BOUND
                );
                if let Some(packet) = packet.filter(|_| is_told) {
                    self.complain(now, Error::HostUnreachable, &packet);
                }
            }
            client::Event::Sealing { node, trouble } => {
                self.events.push_back(Event::Sealing { node, trouble });
            }
            client::Event::Unbound(reason) => {
                self.forsake();
                self.events.push_back(Event::Unbound(reason));
                self.rebind_later(now);
            }
            client::Event::Availability { status, .. } => {
                self.is_radio_off = status == NodeStatus::OFF;
            }
            client::Event::FlowOff
            | client::Event::FlowOn
            | client::Event::HardLink(_)
            | client::Event::Management { .. }
            | client::Event::Peer(_) => {}
        }
    }

    fn receive(&mut self, now: Time, received: client::Received) {
        // A client bound for errors would get them; this one is not, but the node may differ.
        let is_damaged = match &received.arrival {
            Arrival::NonArqWithErrors { errored, missing } => {
                !errored.is_empty() || !missing.is_empty()
            }
            Arrival::Unspecified | Arrival::Arq | Arrival::NonArq => false,
        };
        if is_damaged || received.u_pdu.is_empty() {
            self.stats.received.received_malformed += 1;
            return;
        }
        let node = received.from;
        let packets = match received.from_sap == self.config.sap {
            true => self.headers.unwrap(now, received),
            false => vec![received.u_pdu],
        };
        for packet in packets {
            if !Header::parse(&packet).is_ok_and(|header| header.total_len == packet.len()) {
                self.stats.received.received_malformed += 1;
                continue;
            }
            // Without a route the sender may be a router on the way. A group has no hosts.
            let may_send = |source| {
                let route = Route::find(&self.config.routes, source);
                route.is_none_or(|route| route.to == node || route.to.is_group())
            };
            if let Err(why) = check_source(&packet, &self.own, may_send) {
                self.stats.received.bad_sources.count(why);
                continue;
            }
            let octets = packet.len() as u64;
            if self.released.push(packet) {
                self.stats.received.packets_out += 1;
                self.stats.received.octets_out += octets;
            } else {
                self.stats.received.received_full += 1;
            }
        }
    }

    fn rebind_later(&mut self, now: Time) {
        self.rebind_at = Some(now + self.patience.fail());
    }

    /// The binding is over: datagrams at the node belong to nobody any more, and the node's statements about itself
    /// were for this binding.
    fn forsake(&mut self) {
        self.is_radio_off = false;
        for handed in self.pending.take_all() {
            self.stats.handed.forsaken += 1;
            self.queue.release(handed.tcp);
        }
    }

    /// Reports an error to the sender of a datagram.
    fn complain(&mut self, now: Time, error: Error, offender: &[u8]) {
        let is_v4 = offender.first().is_some_and(|first| first >> 4 == 4);
        let own = self.config.addresses.iter().find(|address| address.is_ipv4() == is_v4);
        let mut packet = Vec::new();
        if own.is_some_and(|own| error.emit(*own, offender, &mut packet)) {
            self.stats.received.icmp_sent += u64::from(self.answer(now, packet));
        }
    }

    /// Gives the stack an error, if there may be one more now.
    fn answer(&mut self, now: Time, packet: Vec<u8>) -> bool {
        let is_given = self.released.push_error(now, packet);
        self.stats.received.icmp_limited += u64::from(!is_given);
        is_given
    }

    /// Hands to the node what it may have.
    fn pump(&mut self, now: Time) {
        self.stats.taken.expired += self.queue.expire(now);
        while self.client.is_ready()
            && let Some((to, u_pdu)) = self.headers.urgent(now)
        {
            self.announce(now, to, Mode::Arq { in_order: false }, 0, &u_pdu);
        }
        while self.client.is_ready()
            && self.queue.highest().is_some_and(|priority| self.pending.has_room(priority))
            && let Some(item) = self.queue.pop()
        {
            let left = item.expires.map(|at| at.since(now));
            if left == Some(Duration::ZERO) {
                self.stats.taken.expired += 1;
                self.queue.release(item.tcp);
                continue;
            }
            let (to, mode, priority) = (item.to, item.mode, item.priority);
            let compressed = self.headers.wrap(now, to, mode, &item.packet);
            let send = Send {
                to,
                to_sap: self.config.sap,
                priority,
                is_expedited: false,
                service: Some(Service::of(mode)),
                ttl: left.unwrap_or_default(),
                u_pdu: compressed.as_ref().unwrap_or(&item.packet),
            };
            match self.client.send(now, send) {
                Ok(id) => {
                    self.handle_handed(now, id, item, compressed);
                    if self.client.is_ready()
                        && let Some(u_pdu) = self.headers.due(now, to, mode)
                    {
                        self.announce(now, to, mode, priority, &u_pdu);
                    }
                }
                Err(client::NotSent::TooLarge { .. }) => {
                    // The node was bound anew, with a smaller MTU.
                    self.stats.taken.too_big += 1;
                    self.queue.release(item.tcp);
                }
                Err(
                    client::NotSent::FlowOff | client::NotSent::Full | client::NotSent::NotBound,
                ) => {
                    self.queue.put_back(item);
                    return;
                }
            }
        }
    }

    /// The node has a datagram.
    fn handle_handed(&mut self, now: Time, id: SendId, item: Item, compressed: Option<Vec<u8>>) {
        // If the node has not begun it yet.
        if let Some(older) = self.pending.replaced(item.tcp) {
            self.client.take_back(older);
        }
        self.stats.handed.packets += 1;
        self.stats.handed.octets += item.packet.len() as u64;
        self.headers.handle_wrapped(&item.packet, compressed.as_deref());
        match item.mode {
            Mode::Arq { .. } => {
                let handed = Handed::new(item.packet, compressed, item.tcp);
                self.pending.handle_sent(now, id, item.priority, handed);
            }
            // Nothing will report the outcome.
            Mode::NonArq { .. } => self.queue.release(item.tcp),
        }
    }

    /// Sends a message for our own clients only; the answer shows its outcome.
    fn announce(&mut self, now: Time, to: Address, mode: Mode, priority: u8, u_pdu: &[u8]) {
        let service = Service { confirmation: Confirmation::None, ..Service::of(mode) };
        let (to_sap, ttl) = (self.config.sap, Duration::ZERO);
        let service = Some(service);
        // It is short, and the node was asked whether it takes one.
        let send = Send { to, to_sap, priority, is_expedited: false, service, ttl, u_pdu };
        let _ = self.client.send(now, send);
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.client.handle_timeout(now);
        while let Some(event) = self.client.poll_event() {
            self.handle_event(now, event);
        }
        if self.rebind_at.take_if(|at| *at <= now).is_some() {
            self.client.rebind(now);
        }
        self.pump(now);
    }

    /// Appends octets for the node; whether there were any.
    ///
    /// What to send is decided late, so ask only while the connection has room.
    pub fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let has_any = self.client.poll_octets(now, out);
        if has_any {
            self.pump(now);
        }
        has_any
    }

    /// The next datagram for the stack, in place of what `out` holds.
    pub fn poll_packet(&mut self, _now: Time, out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.released.pop() else { return false };
        *out = packet;
        true
    }

    /// What the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.rebind_at, self.client.next_timeout())
    }

    /// Octets of a datagram at most.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        let most = self.config.mtu - self.client.overhead();
        self.client.mtu().map_or(most, |mtu| mtu.min(most))
    }

    /// Whether the node takes datagrams.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.client.mtu().is_some()
    }

    /// Whether the node's radio can neither send nor receive; datagrams wait with the node meanwhile.
    #[must_use]
    pub fn is_radio_off(&self) -> bool {
        self.is_radio_off
    }

    /// Why the node was left, until it has bound the client again.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.client.fault()
    }

    /// What the node said that could not be read, and was passed over; the last since this was asked
    /// before.
    pub fn poll_unreadable(&mut self) -> Option<Unreadable> {
        self.client.poll_unreadable()
    }

    /// Counters of the client that is connected to the node.
    #[must_use]
    pub fn client_stats(&self) -> &client::Stats {
        self.client.stats()
    }

    /// Counters and levels.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.queued = self.queue.octets() as u64;
        stats.unconfirmed = self.pending.octets() as u64;
        stats.window = self.pending.window() as u64;
        stats.headers = self.headers.stats();
        stats
    }
}

/// What a node has to take at the least: what every host takes of IPv4 (RFC 791), every link of IPv6 (RFC 8200).
fn least_mtu(config: &Config) -> u16 {
    let has_v6 = config.addresses.iter().any(IpAddr::is_ipv6)
        || config.routes.iter().any(|route| route.prefix.address().is_ipv6());
    if has_v6 { 1_280 } else { 576 }
}

// Keeps track of datagrams handed to the node and not confirmed yet.

/// Octets of datagrams that were confirmed and are remembered.
const REMEMBERED: usize = 64 << 10;

#[derive(Debug)]
struct Pending {
    window: Window,
    handed: BTreeMap<SendId, Handed>,
    /// The last acknowledgement of each flow that the node has.
    acks: BTreeMap<FlowKey, SendId>,
    /// Datagrams that were confirmed lately: their node may still say that nobody took them.
    confirmed: VecDeque<Handed>,
    confirmed_octets: usize,
}

/// A datagram that the node has, or had.
#[derive(Debug)]
struct Handed {
    packet: Vec<u8>,
    /// What the node was given, if it was not the packet.
    compressed: Option<Vec<u8>>,
    tcp: Option<Tcp>,
    share: Option<Share>,
}

impl Handed {
    fn new(packet: Vec<u8>, compressed: Option<Vec<u8>>, tcp: Option<Tcp>) -> Self {
        Self { packet, compressed, tcp, share: None }
    }

    fn u_pdu(&self) -> &[u8] {
        self.compressed.as_ref().unwrap_or(&self.packet)
    }

    /// What it takes here.
    fn octets(&self) -> usize {
        self.packet.len() + self.compressed.as_ref().map_or(0, Vec::len)
    }
}

impl Pending {
    fn new(bounds: (usize, usize), horizon: Duration) -> Self {
        Self {
            window: Window::new(bounds, horizon),
            handed: BTreeMap::new(),
            acks: BTreeMap::new(),
            confirmed: VecDeque::new(),
            confirmed_octets: 0,
        }
    }

    fn handle_sent(&mut self, now: Time, id: SendId, priority: u8, handed: Handed) {
        let share = Some(self.window.handle_sent(now, priority, handed.u_pdu().len()));
        if let Some(Tcp::Ack { flow, .. }) = handed.tcp {
            self.acks.insert(flow, id);
        }
        self.handed.insert(id, Handed { share, ..handed });
    }

    /// Takes the confirmation of a datagram; returns the TCP segment in it, if any.
    fn handle_confirmed(&mut self, now: Time, id: SendId) -> Option<Option<Tcp>> {
        let mut handed = self.remove(id)?;
        if let Some(share) = handed.share.take() {
            self.window.handle_confirmed(now, share);
        }
        let tcp = handed.tcp;
        self.confirmed_octets += handed.octets();
        self.confirmed.push_back(handed);
        while self.confirmed_octets > REMEMBERED
            && let Some(oldest) = self.confirmed.pop_front()
        {
            self.confirmed_octets -= oldest.octets();
        }
        Some(tcp)
    }

    /// The datagram that begins like this and was confirmed.
    fn take_confirmed(&mut self, start: &[u8]) -> Option<Vec<u8>> {
        let at = self.confirmed.iter().position(|handed| handed.u_pdu().starts_with(start))?;
        let handed = self.confirmed.remove(at)?;
        self.confirmed_octets -= handed.octets();
        Some(handed.packet)
    }

    /// The acknowledgement at the node that a newer one replaces.
    fn replaced(&self, tcp: Option<Tcp>) -> Option<SendId> {
        let Some(Tcp::Ack { flow, .. }) = tcp else { return None };
        let id = *self.acks.get(&flow)?;
        let older = self.handed.get(&id)?.tcp;
        tcp.filter(|newer| newer.replaces(older)).map(|_| id)
    }

    fn take(&mut self, id: SendId) -> Option<Handed> {
        let mut handed = self.remove(id)?;
        if let Some(share) = handed.share.take() {
            self.window.handle_gone(share);
        }
        Some(handed)
    }

    fn remove(&mut self, id: SendId) -> Option<Handed> {
        let handed = self.handed.remove(&id)?;
        if let Some(Tcp::Ack { flow, .. }) = handed.tcp
            && self.acks.get(&flow) == Some(&id)
        {
            self.acks.remove(&flow);
        }
        Some(handed)
    }

    /// Takes all: none will be confirmed.
    fn take_all(&mut self) -> impl Iterator<Item = Handed> {
        self.acks.clear();
        let handed = std::mem::take(&mut self.handed);
        let shares = handed.values().filter_map(|handed| handed.share);
        shares.for_each(|share| self.window.handle_gone(share));
        handed.into_values()
    }

    fn has_room(&self, priority: u8) -> bool {
        self.window.has_room(priority)
    }

    fn octets(&self) -> usize {
        self.window.octets()
    }

    fn window(&self) -> usize {
        self.window.size()
    }
}

// Output to the stack: received datagrams, and errors about the stack's own datagrams.

/// Errors in a row at most, ...
const BURST: u32 = 20;
/// ... and how long until there may be one more.
const SPACING: Duration = Duration::from_millis(100);

/// Packets that wait for the stack.
#[derive(Debug)]
struct Released {
    packets: VecDeque<Vec<u8>>,
    octets: usize,
    /// Octets at most.
    limit: usize,
    /// Errors that may be told now.
    errors: Budget,
}

impl Released {
    fn new(now: Time, limit: usize) -> Self {
        let errors = Budget::new(now, BURST, SPACING);
        Self { packets: VecDeque::new(), octets: 0, limit, errors }
    }

    /// Takes a packet; false if there is no room.
    #[must_use]
    fn push(&mut self, packet: Vec<u8>) -> bool {
        let has_room = self.octets + packet.len() <= self.limit;
        if has_room {
            self.octets += packet.len();
            self.packets.push_back(packet);
        }
        has_room
    }

    /// Takes an error; false if there is no room, or may be none now.
    #[must_use]
    fn push_error(&mut self, now: Time, packet: Vec<u8>) -> bool {
        self.octets + packet.len() <= self.limit && self.errors.spend(now) && self.push(packet)
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let packet = self.packets.pop_front()?;
        self.octets -= packet.len();
        Some(packet)
    }
}
