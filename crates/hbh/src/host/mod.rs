//! The node around a relay: selects packets for HBH, finds neighbours, and follows changed routes.
//!
//! ```text
//!                      ┌──────────────────────── Host ────────────────────────┐
//!  leaves for a        │ goes_plain? clamp, cut ─▶ ┌───────┐ ─▶ seal          │  poll_transmit,
//!  neighbour ─────────▶│                           │ Relay │                  │─▶ poll_hello
//!  poll_restored ◀─────│ source? clamp ◀────────── └───────┘ ◀─ open ◀─┐      │
//!                      │              taken back ▼                     ├──────│◀─ handle_frame
//!  poll_returned ◀─────│ a way ◀─────────────── Orphans    Neighbours ◀┘      │
//!                      └──────────▲───────────────────────────────────────────┘
//!                                 └ handle_routes: the driver says where packets would go now
//! ```
//!
//! A driver (a node of the simulator, `trackway run`) brings packets and frames, and knows the routes. All that can be
//! decided without a kernel or a simulated medium is decided here, once for both.

mod guard;
mod known;
mod orphans;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use base::contract::Refused;
use base::ethernet::Mac;
use base::ip::{self, BadSource, FlowKey, Header, check_source, icmp, mss};
use base::rng::Rng;
use base::time::{Time, earliest};
use guard::Guard;
pub use known::Known;
use known::KnownPeers;
use orphans::{Orphan, Orphans};

use crate::auth::{GroupKey, Untrusted};
use crate::hello::{self, Hello};
use crate::neighbours::{self, Departure, Neighbours, Place};
use crate::{Evidence, Link, Peer, PeerConfig, Profile, Relay};

/// Hop limits of packets for a neighbour itself, not to be forwarded by anyone: one, or the maximum (RFC 5082), which
/// shows the receiver that nobody forwarded the packet.
const ONE_HOP: [u8; 2] = [1, 255];

/// Configuration of a host.
#[derive(Clone, Debug)]
pub struct Config {
    /// The parameters of the protocol.
    pub core: crate::Config,
    /// How neighbours are found.
    pub neighbours: neighbours::Config,
    /// The key of the group; `None` accepts everybody.
    pub key: Option<GroupKey>,
    /// Whether TCP's segment size is lowered to fit.
    pub clamps_mss: bool,
    /// How long after a change of routes or neighbours held packets are considered again: changes that come together
    /// are acted on together. Zero where the driver hears of a change when it is complete.
    pub settle: Duration,
}

impl Config {
    /// HBH with everybody who is found, without a key.
    #[must_use]
    pub fn new(core: crate::Config) -> Self {
        let neighbours = neighbours::Config::new(core.profile);
        Self { core, neighbours, key: None, clamps_mss: true, settle: Duration::ZERO }
    }
}

/// An interface that HBH uses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its hardware address.
    pub station: Mac,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Octets of the longest IP packet.
    pub mtu: usize,
    /// Whether it is up.
    pub is_running: bool,
    /// Whether its link layer repeats a frame to one station until the station acknowledges it: losses of hellos to
    /// everyone say nothing about other packets then.
    pub is_acknowledged: bool,
}

/// The next hop of a flow's packets, by the node's present routes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextHop {
    /// To the host with this address, on this interface of HBH.
    Address(usize, IpAddr),
    /// Out by an interface without HBH.
    Elsewhere,
    /// To this node itself.
    Here,
    /// Nowhere: there is no route.
    Nowhere,
    /// Nowhere yet. A service looks for routes of this node's own packets, and holds the packets meanwhile; packets of
    /// others have no route.
    Searched,
    /// To the station at this place.
    Station(Place),
}

/// The origin of a packet to be forwarded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    /// The neighbour that brought the packet; `None` if the packet is this node's own, or nobody knows any more.
    pub neighbour: Option<Place>,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// A neighbour does not speak HBH any more, or starts it afresh: its traffic takes other ways, or goes plain.
    Down {
        /// The neighbour's place.
        place: Place,
        /// The neighbour's first address.
        address: Option<IpAddr>,
        /// Why the neighbour is down.
        why: Departure,
    },
    /// The peer did not acknowledge packets and HBH gave up on them.
    GaveUp {
        /// Which peer.
        peer: Peer,
        /// How many packets.
        packets: u32,
    },
    /// A station is reached by plain IP, for this reason.
    Plain(Place, Reason),
    /// A neighbour speaks HBH: packets to the neighbour go through HBH.
    Up {
        /// The neighbour's place.
        place: Place,
        /// The neighbour's address, of an IP version that we have.
        address: IpAddr,
    },
}

/// Why a station that says hello is no neighbour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// The station claims an address of a neighbour that is up.
    Disputed,
    /// The station runs another profile of HBH.
    Incompatible,
    /// The station claims an address that the configuration gives to another station.
    Misplaced,
    /// The station has no address of an IP version that we have.
    NoAddress,
}

base::counters! {
    /// Counters of a node's HBH; the relay and the neighbours have their own counters.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Packets that leave for a neighbour.
        pub leaving: struct Leaving {
            /// Packets too long for the next hop, cut into fragments.
            pub packets_fragmented: counter(packets);
            /// Packets too long for the next hop that may not be cut; dropped, the sender is told.
            pub packets_too_big: counter(packets);
            /// Packets refused because a queue was full; dropped.
            pub packets_full: counter(packets);
            /// Packets that turned out to be no IP; dropped.
            pub packets_malformed: counter(packets);
            /// SYNs whose segment size was lowered.
            pub syns_clamped: counter(packets);
            /// HBH packets for a neighbour that has just gone, or with an exhausted conversation; dropped.
            pub packets_unsealed: counter(packets);
        }
        /// Packets that neighbours brought, or that were taken back from neighbours.
        pub released: struct Released {
            /// Packets of neighbours dropped: their source is an address of this host.
            pub packets_from_self: counter(packets);
            /// Packets of neighbours dropped: their source is not the address of one host.
            pub packets_not_unicast: counter(packets);
            /// Packets taken back from a neighbour because their route changed or it went down.
            pub packets_rerouted: counter(packets);
            /// ... of the rerouted packets, given to the kernel after some seconds although there was no route.
            pub packets_unrouted: counter(packets);
        }
        /// Frames of neighbours.
        pub received: struct Received {
            /// Frames that carry no IP packet of our protocol; dropped.
            pub frames_not_hbh: counter(frames);
            /// HBH packets from stations that are no neighbours; dropped.
            pub frames_unknown_peer: counter(packets);
            /// HBH packets forged in the name of a neighbour; dropped.
            pub frames_forged: counter(packets);
            /// HBH packets of a neighbour that came before, or far too late; dropped.
            pub frames_replayed: counter(packets);
        }
        /// Hellos that were dropped.
        pub hellos: struct Hellos {
            /// Hellos that cannot be read; dropped.
            pub hellos_malformed: counter(messages);
            /// Hellos of another version; dropped.
            pub hellos_other_version: counter(messages);
            /// Hellos with another group key or none, or with one when we have none; dropped.
            pub hellos_unauthenticated: counter(messages);
            /// Hellos that claim our group key without having it; dropped.
            pub hellos_forged: counter(messages);
        }
    }
}

/// HBH on the interfaces of a node: a core according to [`base::contract`].
///
/// - Facts in: `handle_*`. Of packets that leave, the driver hands over those for which [`peer_at`](Self::peer_at)
///   names a peer and that do not [go plain](Self::goes_plain).
/// - Decisions out: [`poll_event`](Self::poll_event), [`handle_routes`](Self::handle_routes) if the host
///   [needs routes](Self::needs_routes), [`poll_returned`](Self::poll_returned) and
///   [`poll_restored`](Self::poll_restored); then [`poll_hello`](Self::poll_hello) and
///   [`poll_transmit`](Self::poll_transmit) for each interface that has room.
#[derive(Debug)]
pub struct Host {
    relay: Relay,
    neighbours: Neighbours,
    guard: Guard,
    clamps_mss: bool,
    settle: Duration,
    /// By their positions; those that HBH does not use are empty.
    interfaces: Vec<Option<Interface>>,
    /// All addresses of this host: no neighbour sends from there.
    own: BTreeSet<IpAddr>,
    peers: KnownPeers,
    orphans: Orphans,
    /// When the routes of packets that wait for peers are to be asked for.
    reroute_at: Option<Time>,
    /// Whether routes are needed now, of packets at peers and of packets taken back.
    needs_reroute: bool,
    needs_ways: bool,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Host {
    /// A node without interfaces. `rng` draws where flow numbers start, `hellos` what neighbours need.
    #[must_use]
    pub fn new(config: Config, rng: Rng, hellos: Rng) -> Self {
        Self {
            relay: Relay::new(config.core, rng),
            neighbours: Neighbours::new(config.neighbours, hellos),
            guard: Guard::new(config.key),
            clamps_mss: config.clamps_mss,
            settle: config.settle,
            interfaces: Vec::new(),
            own: BTreeSet::new(),
            peers: KnownPeers::default(),
            orphans: Orphans::default(),
            reroute_at: None,
            needs_reroute: false,
            needs_ways: false,
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes other parameters of the same profile and protocol, other times of hellos, and whether TCP's segment size is
    /// lowered; neighbours stay up, and packets stay where they are.
    pub fn set_config(
        &mut self,
        now: Time,
        core: crate::Config,
        (interval, hold): (Duration, Duration),
        clamps_mss: bool,
    ) {
        self.relay.set_config(now, core);
        self.neighbours.set_times(now, interval, hold);
        self.clamps_mss = clamps_mss;
    }

    /// Takes all addresses of this host, on whatever interface.
    pub fn handle_addresses(&mut self, own: BTreeSet<IpAddr>) {
        self.own = own;
    }

    /// Learns the present state of an interface; `None` if HBH does not use it, or no longer. Positions are small, and
    /// the position of an interface that is gone may be used again.
    pub fn handle_interface(&mut self, now: Time, index: usize, interface: Option<Interface>) {
        if self.interfaces.len() <= index {
            self.interfaces.resize(index + 1, None);
        }
        match &interface {
            Some(Interface { station, addresses, is_running, .. }) => {
                self.neighbours.handle_interface(now, index, *station, addresses, *is_running);
            }
            None => {
                let station = self.interfaces[index].as_ref().map_or(Mac([0; 6]), |it| it.station);
                self.neighbours.handle_interface(now, index, station, &[], false);
            }
        }
        self.interfaces[index] = interface;
        self.take_neighbours(now);
        let here: Vec<_> = self.neighbours.peers().filter(|(_, place)| place.0 == index).collect();
        for (peer, place) in here {
            let config = self.peer_config(place);
            if config != self.peers.up(peer).map(|known| known.config) && config.is_some() {
                self.bring_up(now, place, peer);
            }
        }
    }

    /// Takes an IP packet from the station at `place`: a hello, an HBH packet, or the ICMP error of a host without HBH.
    ///
    /// # Errors
    /// When a hello is refused, because an operator may want to know. Other refused frames are only counted.
    pub fn handle_frame(
        &mut self,
        now: Time,
        place: Place,
        packet: &[u8],
    ) -> Result<(), hello::Malformed> {
        let protocol = self.relay.config().protocol;
        let header = Header::parse(packet).ok().filter(|_| place.0 < self.interfaces.len());
        let Some(header) = header.filter(|header| header.protocol == protocol) else {
            let is_refusal =
                header.is_some_and(|header| self.is_refusal(now, place, &header, packet));
            self.stats.received.frames_not_hbh += u64::from(!is_refusal);
            return Ok(());
        };
        let payload = &packet[header.len..header.total_len];
        if Hello::is_one(payload) {
            return match Hello::parse(payload, self.guard.key()) {
                Ok(hello) => {
                    self.neighbours.handle_hello(now, place, hello);
                    self.take_neighbours(now);
                    if let Some(peer) = self.neighbours.peer_at(place) {
                        self.relay.handle_alive(now, peer);
                    }
                    Ok(())
                }
                Err(why) => {
                    self.count_bad_hello(why);
                    Err(why)
                }
            };
        }
        let Some(peer) = self.neighbours.peer_at(place) else {
            self.stats.received.frames_unknown_peer += 1;
            self.neighbours.handle_stranger(now, place);
            return Ok(());
        };
        match self.guard.open(peer, packet) {
            Ok(packet) => {
                let evidence = self.relay.handle_message(now, peer, packet);
                // The paper's profile counts every packet as a sign of life.
                let is_paper = self.relay.config().profile == Profile::Paper;
                let is_proven = is_paper || self.guard.key().is_some();
                let evidence = if is_proven { Evidence::Answer } else { evidence };
                match evidence {
                    Evidence::Answer => self.neighbours.handle_alive(now, place),
                    Evidence::Flow => self.neighbours.handle_flow(now, place),
                    Evidence::Unsure => {}
                }
            }
            Err(Untrusted::Replayed(_)) => self.stats.received.frames_replayed += 1,
            Err(Untrusted::Forged | Untrusted::Malformed) => self.stats.received.frames_forged += 1,
        }
        Ok(())
    }

    /// Learns that a packet goes to the station at `place` by plain IP. Returns whether something is due now.
    pub fn handle_next_hop(&mut self, now: Time, place: Place) -> bool {
        self.neighbours.handle_next_hop(now, place)
    }

    /// Takes an IP packet that leaves for `peer`, its TTL already decremented.
    ///
    /// # Errors
    /// When the packet was not taken, which is counted. Only [`Refused::TooBig`] has to be answered: the packet may not
    /// be cut into fragments.
    pub fn handle_packet(
        &mut self,
        now: Time,
        peer: Peer,
        packet: &mut [u8],
    ) -> Result<(), Refused> {
        self.clamp(peer, packet);
        let outcome = self.relay.handle_packet(now, peer, packet);
        let Self { relay, stats: Stats { leaving, .. }, .. } = self;
        match outcome {
            Ok(()) => return Ok(()),
            Err(Refused::Full) => leaving.packets_full += 1,
            Err(Refused::Down | Refused::Malformed) => leaving.packets_malformed += 1,
            Err(Refused::TooBig { mtu }) => {
                let is_cut = Header::parse(packet).is_ok_and(|header| {
                    ip::fragment(&header, packet, mtu, |fragment| {
                        let is_taken = relay.handle_packet(now, peer, fragment).is_ok();
                        leaving.packets_full += u64::from(!is_taken);
                    })
                });
                if is_cut {
                    leaving.packets_fragmented += 1;
                    return Ok(());
                }
                leaving.packets_too_big += 1;
            }
        }
        outcome
    }

    /// Learns that the link layer, which repeats and acknowledges, could not bring a packet to the station at `place`.
    /// Returns whether the packet is an HBH packet: the relay still has the content, and sends the content again.
    pub fn handle_unsent(&mut self, now: Time, place: Place, packet: &[u8]) -> bool {
        if !self.is_message(packet) {
            return false;
        }
        if let Some(peer) = self.neighbours.peer_at(place) {
            self.relay.handle_unsent(now, peer, packet);
        }
        true
    }

    /// Whether a packet that the link layer could not bring to the station at `place` says little about this
    /// neighbour: it was heard lately, and HBH tries again before the neighbour counts as gone.
    ///
    /// On a busy channel 802.11 gives up packets to neighbours still in range. A routing protocol would look for
    /// another route after each reported loss.
    #[must_use]
    pub fn vouches(&self, place: Place, packet: &[u8]) -> bool {
        let peer = self.neighbours.peer_at(place);
        self.is_message(packet) && peer.is_some_and(|peer| !self.relay.is_doubtful(peer))
    }

    /// Learns that routes have changed, or may have.
    pub fn handle_route_change(&mut self, now: Time) {
        if self.settle.is_zero() {
            self.needs_reroute = true;
        } else {
            self.reroute_at = earliest(self.reroute_at, Some(now + self.settle));
        }
    }

    /// Whether [`handle_routes`](Self::handle_routes) is to be called.
    #[must_use]
    pub fn needs_routes(&self) -> bool {
        self.needs_reroute || self.needs_ways
    }

    /// Takes packets back from neighbours if the packets would go to others now, and returns packets with a way.
    ///
    /// `route` says where a flow's packets go, with the place of the station that brought the flow, or `None` for this
    /// node's own. Packets without a route stay with their neighbour: a route may come, and the neighbour may still be
    /// there.
    pub fn handle_routes(
        &mut self,
        now: Time,
        mut route: impl FnMut(&FlowKey, Option<Place>) -> NextHop,
    ) {
        if std::mem::take(&mut self.needs_reroute) {
            self.reroute(now, &mut route);
        }
        self.needs_ways = false;
        let Self { orphans, peers, neighbours, stats, .. } = self;
        let unrouted = orphans.settle(now, |orphan| {
            let hop = route(&orphan.flow, place_of(peers, orphan.from));
            has_way(peers, neighbours, orphan, hop)
        });
        stats.released.packets_unrouted += unrouted;
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.relay.handle_timeout(now);
        self.neighbours.handle_timeout(now);
        self.take_neighbours(now);
        if self.reroute_at.is_some_and(|at| at <= now) {
            self.reroute_at = None;
            self.needs_reroute = true;
        }
        self.needs_ways |= self.orphans.next_timeout().is_some_and(|at| at <= now);
    }

    /// What the driver should know; ask until `None`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        let gave_up = |crate::Event::GaveUp { peer, packets }| Event::GaveUp { peer, packets };
        self.events.pop_front().or_else(|| self.relay.poll_event().map(gave_up))
    }

    /// Replaces the content of `out` by the next packet that was taken back from a neighbour and takes another way:
    /// the driver routes it once more, without counting the hop a second time.
    #[must_use]
    pub fn poll_returned(&mut self, out: &mut Vec<u8>) -> Option<Origin> {
        let Orphan { packet, from, .. } = self.orphans.poll()?;
        *out = packet;
        Some(Origin { neighbour: place_of(&self.peers, from) })
    }

    /// Replaces the content of `out` by the next packet that a neighbour brought; the driver routes the packet as if
    /// received from this neighbour.
    #[must_use]
    pub fn poll_restored(&mut self, out: &mut Vec<u8>) -> Option<Origin> {
        while let Some(peer) = self.relay.poll_restored(out) {
            // Any neighbour may forward for any host but this one. Linux alone would let pass an IPv6 packet with an
            // address of this host as its source, and an IPv4 packet where `accept_local` is set.
            match check_source(out, &self.own, |_| true) {
                Ok(()) => {}
                Err(BadSource::Own) => {
                    self.stats.released.packets_from_self += 1;
                    continue;
                }
                Err(BadSource::NotUnicast | BadSource::NotTheirs) => {
                    self.stats.released.packets_not_unicast += 1;
                    continue;
                }
            }
            // HBH in HBH would be taken for what a neighbour sends.
            if self.is_message(out) {
                self.stats.leaving.packets_malformed += 1;
                continue;
            }
            // The segment size in a SYN limits segments in the opposite direction.
            self.clamp(peer, out);
            return Some(Origin { neighbour: place_of(&self.peers, Some(peer)) });
        }
        None
    }

    /// Replaces the content of `out` by the next hello to send on an interface, and says to whom. Hellos are few: ask
    /// after each timeout, whether the interface has room or not.
    #[must_use]
    pub fn poll_hello(&mut self, now: Time, interface: usize, out: &mut Vec<u8>) -> Option<Mac> {
        loop {
            let (to, hello) = self.neighbours.poll_transmit(now, interface)?;
            if self.emit_hello(interface, to, &hello, out) {
                return Some(to);
            }
        }
    }

    /// The hellos to everyone by which this node takes leave on an interface.
    pub fn goodbyes(&mut self, now: Time, interface: usize) -> Vec<Vec<u8>> {
        let goodbyes = self.neighbours.goodbyes(now, interface);
        let emitted = goodbyes.into_iter().filter_map(|hello| {
            let mut out = Vec::new();
            self.emit_hello(interface, Mac::EVERYONE, &hello, &mut out).then_some(out)
        });
        emitted.collect()
    }

    /// Replaces the content of `out` by the next HBH packet to send on an interface, and says to whom.
    ///
    /// The choice is made now, so ask only while the interface has room.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, interface: usize, out: &mut Vec<u8>) -> Option<Mac> {
        while let Some(peer) = self.relay.poll_transmit(now, link(interface)?, out) {
            if let Some(&Known { place, .. }) = self.peers.up(peer)
                && self.guard.seal(peer, out)
            {
                self.neighbours.handle_sent(now, place, self.relay.patience(peer));
                return Some(place.1);
            }
            self.stats.leaving.packets_unsealed += 1;
        }
        None
    }

    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let orphans = self.orphans.next_timeout().filter(|_| !self.needs_ways);
        let own = earliest(self.reroute_at, orphans);
        earliest(earliest(self.neighbours.next_timeout(), self.relay.next_timeout()), own)
    }

    /// The peer at a place, if up: packets to this station go through HBH.
    #[must_use]
    pub fn peer_at(&self, place: Place) -> Option<Peer> {
        self.neighbours.peer_at(place).filter(|peer| self.peers.up(*peer).is_some())
    }

    /// Whether a packet to a peer is what neighbours say to each other, such as a routing daemon's or BFD's.
    #[must_use]
    pub fn goes_plain(&self, peer: Peer, packet: &[u8]) -> bool {
        let Ok(header) = Header::parse(packet) else { return false };
        ONE_HOP.contains(&header.ttl)
            && self
                .peers
                .up(peer)
                .is_some_and(|known| known.addresses.contains(&header.destination))
    }

    /// Whether an IP packet is of HBH's protocol.
    #[must_use]
    pub fn is_message(&self, packet: &[u8]) -> bool {
        let protocol = self.relay.config().protocol;
        Header::parse(packet).is_ok_and(|header| header.protocol == protocol)
    }

    /// Whether HBH uses an interface.
    #[must_use]
    pub fn uses(&self, interface: usize) -> bool {
        self.interfaces.get(interface).is_some_and(Option::is_some)
    }

    /// Whether packets are authenticated by this key, or by none.
    #[must_use]
    pub fn has_key(&self, key: Option<&GroupKey>) -> bool {
        self.guard.key() == key
    }

    /// The peers that are up, in order.
    pub fn peers(&self) -> impl Iterator<Item = (Peer, &Known)> {
        self.peers.iter()
    }

    /// The relay.
    #[must_use]
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Who says hello.
    #[must_use]
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Packets that were taken back and wait for a way.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.orphans.waiting()
    }

    /// TCP segments kept for neighbours that fell silent.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.orphans.kept()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Takes an ICMP error from the station at `place` if it says that the station's host does not know our protocol,
    /// and the station is a neighbour that is up; returns whether it is.
    fn is_refusal(&mut self, now: Time, place: Place, header: &Header, packet: &[u8]) -> bool {
        let Some(report) = icmp::Report::of_packet(header, packet) else { return false };
        let Some(peer) = self.neighbours.peer_at(place) else { return false };
        report.error == Some(icmp::Error::ProtocolUnreachable)
            && report.flow.protocol == self.relay.config().protocol
            && report.flow.destination == header.source
            && self.neighbours.addresses(place).contains(&header.source)
            && self.neighbours.handle_refusal(now, place, self.relay.usual_round_trip(peer))
    }

    /// Acts on neighbours that came up or went down.
    fn take_neighbours(&mut self, now: Time) {
        while let Some(event) = self.neighbours.poll_event() {
            let plain = match event {
                neighbours::Event::Up(place, peer) => {
                    self.bring_up(now, place, peer);
                    continue;
                }
                neighbours::Event::Down(place, peer, why) => {
                    self.take_down(now, place, peer, why);
                    continue;
                }
                neighbours::Event::Measured(peer, report) => {
                    let interface = self.neighbours.place_of(peer).map(|place| place.0);
                    let interface = interface.and_then(|at| self.interfaces.get(at)?.as_ref());
                    if interface.is_some_and(|interface| !interface.is_acknowledged) {
                        self.relay.handle_link_report(peer, report);
                    }
                    continue;
                }
                neighbours::Event::Disputed(place) => Event::Plain(place, Reason::Disputed),
                neighbours::Event::Incompatible(place) => Event::Plain(place, Reason::Incompatible),
                neighbours::Event::Misplaced(place) => Event::Plain(place, Reason::Misplaced),
            };
            self.events.push_back(plain);
        }
    }

    /// A neighbour is up, or is reached in another way.
    fn bring_up(&mut self, now: Time, place: Place, peer: Peer) {
        let (Some(config), Some((ours, theirs))) =
            (self.peer_config(place), self.neighbours.ends(place))
        else {
            self.events.push_back(Event::Plain(place, Reason::NoAddress));
            return;
        };
        self.relay.add_peer(peer, config);
        let addresses = self.neighbours.addresses(place).to_vec();
        if let Some(known) = self.peers.up_mut(peer) {
            *known = Known { addresses, config, ..*known };
        } else {
            self.peers.add(peer, Known { place, addresses, since: now, config });
            self.guard.add_peer(peer, ours, theirs);
            self.events.push_back(Event::Up { place, address: config.remote });
        }
        self.orphans.handle_up(now, place);
        self.handle_route_change(now);
    }

    /// A neighbour is gone: waiting packets take other ways.
    fn take_down(&mut self, now: Time, place: Place, peer: Peer, why: Departure) {
        let silent = (why == Departure::Lost).then_some((peer, place));
        let Self { relay, orphans, stats, .. } = self;
        relay.remove_peer(peer, |packet, from| adopt(now, orphans, stats, packet, from, silent));
        self.guard.remove_peer(peer);
        if let Some(known) = self.peers.remove(peer) {
            let address = known.addresses.first().copied();
            self.events.push_back(Event::Down { place, address, why });
        }
        self.needs_ways = true;
    }

    fn reroute(&mut self, now: Time, route: &mut impl FnMut(&FlowKey, Option<Place>) -> NextHop) {
        let Self { relay, neighbours, peers, orphans, stats, .. } = self;
        for (peer, _) in peers.iter() {
            let is_moved =
                |flow: &FlowKey, from: Option<Peer>| match route(flow, place_of(peers, from)) {
                    NextHop::Here | NextHop::Elsewhere => true,
                    NextHop::Nowhere => false,
                    NextHop::Searched => from.is_none(),
                    hop => peer_by(neighbours, hop) != Some(peer),
                };
            relay.reroute(peer, is_moved, |packet, from| {
                adopt(now, orphans, stats, packet, from, None);
            });
        }
    }

    /// Lowers the segment size in a SYN to the largest that HBH carries to or from a peer.
    fn clamp(&mut self, peer: Peer, packet: &mut [u8]) {
        if self.clamps_mss
            && let Some(known) = self.peers.get(peer)
        {
            let room = known.config.mtu.saturating_sub(self.relay.overhead(peer));
            self.stats.leaving.syns_clamped += u64::from(mss::clamp(packet, room));
        }
    }

    fn peer_config(&self, place @ (index, _): Place) -> Option<PeerConfig> {
        let Interface { addresses, mtu, .. } = self.interfaces.get(index)?.as_ref()?;
        let theirs = self.neighbours.addresses(place);
        let (local, remote) = addresses.iter().find_map(|&local| {
            let remote = theirs.iter().find(|remote| remote.is_ipv4() == local.is_ipv4());
            remote.map(|&remote| (local, remote))
        })?;
        let mtu = mtu.saturating_sub(self.guard.overhead());
        Some(PeerConfig { link: link(index)?, local, remote, mtu })
    }

    fn emit_hello(&self, interface: usize, to: Mac, hello: &Hello, out: &mut Vec<u8>) -> bool {
        let theirs = self.neighbours.addresses((interface, to));
        out.clear();
        hello.emit_packet(self.relay.config().protocol, theirs, self.guard.key(), out)
    }

    fn count_bad_hello(&mut self, why: hello::Malformed) {
        use hello::Malformed as Bad;
        let hellos = &mut self.stats.hellos;
        match why {
            Bad::Forged => hellos.hellos_forged += 1,
            Bad::Keyed | Bad::Keyless | Bad::OtherKey => hellos.hellos_unauthenticated += 1,
            Bad::Version(_) => hellos.hellos_other_version += 1,
            Bad::Family(_)
            | Bad::Checksum
            | Bad::Kind
            | Bad::Profile(_)
            | Bad::TooMany
            | Bad::Trailing { .. }
            | Bad::Truncated { .. } => hellos.hellos_malformed += 1,
        }
    }
}

/// Keeps a packet taken back from a neighbour; `silent` names the neighbour if it fell silent.
fn adopt(
    now: Time,
    orphans: &mut Orphans,
    stats: &mut Stats,
    packet: &[u8],
    from: Option<Peer>,
    silent: Option<(Peer, Place)>,
) {
    stats.released.packets_rerouted += 1;
    if orphans.push(now, packet, from, silent).is_err() {
        stats.leaving.packets_malformed += 1;
    }
}

/// Whether a packet that was taken back has a way, and another than by the neighbour that has fallen silent.
fn has_way(peers: &KnownPeers, neighbours: &Neighbours, orphan: &Orphan, hop: NextHop) -> bool {
    let silent = orphan.silent;
    let is_silent = match hop {
        NextHop::Here | NextHop::Elsewhere => return true,
        NextHop::Nowhere => return false,
        NextHop::Searched => return orphan.from.is_none(),
        NextHop::Station(at) => silent.is_some_and(|(_, place)| place == at),
        NextHop::Address(interface, address) => silent
            .and_then(|(peer, _)| peers.get(peer))
            .is_some_and(|known| known.place.0 == interface && known.addresses.contains(&address)),
    };
    // It may have started again.
    !is_silent || peer_by(neighbours, hop).is_some()
}

/// The peer that a next hop is.
fn peer_by(neighbours: &Neighbours, hop: NextHop) -> Option<Peer> {
    match hop {
        NextHop::Address(interface, address) => neighbours.peer_with(interface, address),
        NextHop::Station(place) => neighbours.peer_at(place),
        NextHop::Elsewhere | NextHop::Here | NextHop::Nowhere | NextHop::Searched => None,
    }
}

/// Where the peer is, or was, that brought a packet.
fn place_of(peers: &KnownPeers, from: Option<Peer>) -> Option<Place> {
    from.and_then(|from| peers.get(from)).map(|known| known.place)
}

/// HBH's name for an interface.
fn link(interface: usize) -> Option<Link> {
    u32::try_from(interface).ok().map(Link)
}
