//! A coded tunnel in a node: carries packets of routed prefixes in UDP datagrams.
//!
//! ```text
//!  Diverted ─ prefix routed into it ─▶ handle_packet    interface has room ─▶ poll_transmit ─▶ seal
//!  Input ─ UDP to its port ─▶ open ─▶ handle_datagram ─▶ poll_packet ─▶ input or forward
//! ```
//!
//! What it sends are the octets of a gateway ([`tunnel::secure::wire`]): the two ends call each other,
//! agree on keys, and seal. Only the secrets are not: they follow from the seed of the run.

use std::net::SocketAddr;
use std::time::Duration;

use base::contract::Refused;
use base::entropy::Seeded;
use base::ip::icmp::Error;
use base::ip::{FlowKey, Header, ecn, fragment, mss, protocol, rewrite_v4_checksum, udp};
use base::rng::Rng;
use base::time::{Time, earliest};
use serde::Serialize;
use tunnel as nc;
use tunnel::secure::{
    self, HEADER, Incarnation, Incoming, OUTER_V4, OUTER_V6, Peer, PeerId, Peers, PrivateKey,
    PublicKey, TAG, Unusable,
};
use tunnel::{Event, PathId};

use super::{Datagrams, FarEnds, Hook, Service, ServiceReport, Verdict, Way};
use crate::engine::{Engine, PacketId};
use crate::ids::{NodeId, TunnelId};
use crate::node::stack::too_big;

/// One end of a tunnel.
pub struct Tunnel {
    end: End,
    /// Whether this end calls the other, and opens the further paths.
    is_caller: bool,
    config: nc::Config,
    rng: Rng,
    peers: Peers,
    peer: PeerId,
    /// From the first keys that were agreed on.
    session: Option<Session>,
    counters: TunnelCounters,
    /// A datagram that is put together or taken apart.
    datagram: Vec<u8>,
}

/// A core, and the incarnation of the peer that the core belongs to.
#[derive(Debug)]
struct Session {
    core: nc::Tunnel,
    incarnation: Incarnation,
    /// Whether sufficiently young keys exist.
    has_keys: bool,
}

/// Report of a tunnel at one end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunnelReport {
    /// Which.
    pub tunnel: TunnelId,
    /// The other end's name.
    pub peer: String,
    /// The greatest packet that it takes now, in octets; `None` until there are keys.
    pub mtu: Option<usize>,
    /// Counters outside the core.
    pub counters: TunnelCounters,
    /// Counters of the core.
    pub stats: nc::Stats,
    /// The core's estimates of the path.
    #[serde(skip)]
    pub estimates: nc::Estimates,
    /// What the core knows of each path.
    #[serde(skip)]
    pub paths: Vec<nc::OfPath>,
}

base::counters! {
    /// Counters of a coded tunnel at one end, outside the core.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct TunnelCounters {
        /// Packets refused because the path was down or there were no keys; their senders were told.
        pub down: counter(packets);
        /// Packets refused as no IP packets.
        pub malformed: counter(packets);
        /// Packets refused as too long; their senders were told, or they were cut.
        pub too_big: counter(packets);
        /// Datagrams not sent because they were too long for the interface.
        pub outer_too_big: counter(datagrams);
        /// Datagrams that were not sealed, for want of keys.
        pub unsealed: counter(datagrams);
        /// Datagrams that could not be opened, or belong to another life of the other end.
        pub unreadable: counter(datagrams);
        /// Times that the greatest inner packet changed.
        pub mtu_changes: counter(times);
        /// Times that the path went down.
        pub path_downs: counter(times);
        /// Times that the path came up.
        pub path_ups: counter(times);
    }
}

/// Where one end of a tunnel is, and where the other.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) id: TunnelId,
    pub(crate) node: NodeId,
    /// Where the ends are on each path: this one, and the other. There is at least one path.
    pub(crate) paths: Vec<[SocketAddr; 2]>,
    /// The name of the node at the other end.
    pub(crate) peer: String,
}

/// The keys by which an end authenticates itself.
pub(crate) struct Keys {
    pub(crate) ours: PrivateKey,
    pub(crate) theirs: PublicKey,
    /// Where secrets come from.
    pub(crate) entropy: Seeded,
    /// Whether this end calls the other, or waits to be called.
    pub(crate) is_caller: bool,
}

impl Tunnel {
    pub(crate) fn new(
        now: Time,
        end: End,
        keys: Keys,
        config: nc::Config,
        mut rng: Rng,
    ) -> Result<Self, Unusable> {
        let Keys { ours, theirs, entropy, is_caller } = keys;
        let endpoint = end.paths.first().map(|[_, far]| *far).filter(|_| is_caller);
        let peer = Peer {
            public_key: theirs,
            preshared_key: None,
            previous_key: None,
            endpoint,
            keepalive: None,
        };
        let spread = Rng::stream(rng.bits(), "secure");
        let mut peers = Peers::new(now, Duration::ZERO, &ours, &[], spread, Box::new(entropy))?;
        let peer = peers.add_peer(now, &peer)?;
        for (path, [_, far]) in PathId::all().zip(&end.paths).skip(1) {
            peers.handle_further(peer, path, *far);
        }
        Ok(Self {
            is_caller,
            peer,
            peers,
            end,
            config,
            rng,
            session: None,
            counters: TunnelCounters::default(),
            datagram: Vec::new(),
        })
    }

    /// Report of this end.
    #[must_use]
    pub fn report(&self) -> TunnelReport {
        let core = self.session.as_ref().map(|session| &session.core);
        TunnelReport {
            tunnel: self.end.id,
            peer: self.end.peer.clone(),
            mtu: core.map(nc::Tunnel::mtu),
            counters: self.counters,
            stats: core.map(nc::Tunnel::stats).unwrap_or_default(),
            estimates: core.map(nc::Tunnel::estimates).unwrap_or_default(),
            paths: core.map(nc::Tunnel::paths).unwrap_or_default(),
        }
    }

    /// The name of the node at the other end.
    pub(crate) fn far_name(&self) -> &str {
        &self.end.peer
    }

    pub(crate) fn id(&self) -> TunnelId {
        self.end.id
    }

    /// The session of the tunnel, while keys exist.
    fn session_mut(&mut self) -> Option<&mut Session> {
        self.session.as_mut().filter(|session| session.has_keys)
    }

    /// Takes a packet to be carried, or the pieces of one.
    fn enter(&mut self, engine: &mut Engine, octets: &[u8]) -> Result<(), Refused> {
        let now = engine.now;
        let taken = match self.session_mut() {
            Some(session) => session.core.handle_packet(now, octets),
            None => {
                self.peers.handle_wanted(now, self.peer);
                Err(Refused::Down)
            }
        };
        match taken {
            Ok(()) => {
                if let Some(transits) = &mut engine.transits {
                    transits.enter(engine.now, self.end.id, self.end.node, octets);
                }
            }
            Err(Refused::Down) => self.counters.down += 1,
            // The core's queue drops packets to make room, and counts the drops itself.
            Err(Refused::Full) => {}
            Err(Refused::Malformed) => self.counters.malformed += 1,
            Err(Refused::TooBig { .. }) => self.counters.too_big += 1,
        }
        taken
    }

    fn send(&mut self, engine: &mut Engine, packet: PacketId) -> Verdict {
        let mut octets = std::mem::take(engine.packets.get_mut(packet));
        if let Some(session) = self.session_mut() {
            mss::clamp(&mut octets, session.core.whole());
        }
        let error = match self.enter(engine, &octets) {
            Err(Refused::TooBig { mtu }) => {
                let is_cut = Header::parse(&octets).is_ok_and(|header| {
                    fragment(&header, &octets, mtu, |piece| {
                        let _ = self.enter(engine, piece);
                    })
                });
                (!is_cut).then(|| too_big(mtu))
            }
            Err(Refused::Down) => Some(Error::HostUnreachable),
            Err(Refused::Full | Refused::Malformed) | Ok(()) => None,
        };
        *engine.packets.get_mut(packet) = octets;
        if let Some(error) = error {
            return Verdict::Refused(error);
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }

    /// Takes a datagram of the other end.
    fn receive(&mut self, now: Time, header: &Header, datagram: &udp::Datagram<'_>) {
        self.datagram.clear();
        self.datagram.extend_from_slice(datagram.payload);
        match self.peers.handle_datagram(now, datagram.source, &mut self.datagram) {
            Incoming::Dropped(_) => self.counters.unreadable += 1,
            Incoming::Nothing => {}
            Incoming::Payload { incarnation, number, payload, .. } => {
                self.take_events(now);
                let is_marked = header.traffic_class & ecn::CE == ecn::CE;
                let payload = &self.datagram[payload];
                match self.session.as_mut().filter(|it| it.incarnation == incarnation) {
                    Some(it) => {
                        it.core.handle_datagram(now, number, is_marked, payload);
                        while let Some(mut carried) = it.core.poll_handshake() {
                            self.peers.handle_carried(now, self.peer, &mut carried);
                        }
                    }
                    None => self.counters.unreadable += 1,
                }
            }
        }
    }

    /// Acts on what the keys and the core say.
    fn take_events(&mut self, now: Time) {
        while let Some(event) = self.peers.poll_event() {
            match event {
                secure::Event::Established { incarnation, is_new, .. } => {
                    self.establish(now, incarnation, is_new);
                }
                secure::Event::EndpointChanged { .. } => {
                    if let Some(session) = &mut self.session {
                        let nc::Config { max_mtu, overhead, .. } = self.config;
                        session.core.handle_path_changed(now, PathId::FIRST, max_mtu, overhead);
                    }
                }
                secure::Event::Expired { .. } => {
                    if let Some(session) = &mut self.session {
                        session.has_keys = false;
                    }
                }
                secure::Event::Further { .. }
                | secure::Event::Unanswered { .. }
                | secure::Event::Stranger { .. }
                | secure::Event::Trouble { .. }
                | secure::Event::Unreadable { .. } => {}
            }
        }
        while let Some(session) = &mut self.session
            && let Some(event) = session.core.poll_event()
        {
            match event {
                Event::Mtu(_) => self.counters.mtu_changes += 1,
                Event::PathDown => {
                    self.counters.path_downs += 1;
                    self.peers.handle_silence(now, self.peer);
                }
                Event::PathUp => self.counters.path_ups += 1,
                Event::Doubted => self.peers.handle_silence(now, self.peer),
                Event::Path { .. } | Event::Silent => {}
            }
        }
    }

    fn establish(&mut self, now: Time, incarnation: Incarnation, is_new: bool) {
        match &mut self.session {
            Some(session) if !is_new => session.has_keys = true,
            session => {
                let rng = Rng::stream(self.rng.bits(), "core");
                let mut core = nc::Tunnel::new(now, self.config, rng);
                let nc::Config { max_mtu, overhead, .. } = self.config;
                for (path, _) in PathId::all().zip(&self.end.paths).skip(1) {
                    if self.is_caller {
                        core.open_path(now, path, [max_mtu, overhead], false);
                    }
                }
                *session = Some(Session { core, incarnation, has_keys: true });
            }
        }
    }

    fn is_v4(&self) -> bool {
        self.end.paths.iter().all(|[local, _]| local.is_ipv4())
    }

    /// Octets around a payload in an outer packet.
    fn overhead(&self) -> usize {
        if self.is_v4() { OUTER_V4 } else { OUTER_V6 }
    }

    /// Builds the next datagram on a path: a handshake message, or a sealed datagram that fits an outer packet of
    /// `mtu` octets. Returns the DSCP of the outer packet; `None` if no datagram is due.
    fn next_datagram(&mut self, now: Time, path: PathId, mtu: usize) -> Option<u8> {
        if path == PathId::FIRST
            && let Some(outgoing) = self.peers.poll_transmit(now)
        {
            if let Some(session) = self.session_mut() {
                session.core.handle_handshake(&outgoing.datagram);
            }
            self.datagram = outgoing.datagram;
            return Some(0);
        }
        loop {
            let overhead = self.overhead();
            let Self { session, datagram, peers, peer, counters, .. } = self;
            let session = session.as_mut().filter(|session| session.has_keys)?;
            let transmit = session.core.poll_transmit(now, path, datagram)?;
            if datagram.len() + overhead > mtu {
                counters.outer_too_big += 1;
                session.core.handle_too_big(now, path, datagram.len());
                continue;
            }
            datagram.splice(0..0, [0; HEADER]);
            datagram.extend_from_slice(&[0; TAG]);
            if peers.seal(now, *peer, transmit.number, datagram).is_ok() {
                return Some(transmit.dscp);
            }
            counters.unsealed += 1;
        }
    }

    /// The path of the outer UDP flow sent by this end; `None` if the flow is another.
    fn path_of(&self, flow: &FlowKey) -> Option<PathId> {
        let source = SocketAddr::new(flow.source, flow.source_port);
        let destination = SocketAddr::new(flow.destination, flow.destination_port);
        let mut paths = self.end.paths.iter();
        let place = paths.position(|ends| *ends == [source, destination])?;
        PathId::new(place).filter(|_| flow.protocol == protocol::UDP)
    }
}

impl Service for Tunnel {
    fn claims(&self, hook: &Hook<'_>, _octets: &[u8]) -> bool {
        match hook {
            Hook::Input { flow, .. } => self.path_of(&flow.reversed()).is_some(),
            Hook::Diverted
            | Hook::Forward { .. }
            | Hook::Postrouting { .. }
            | Hook::Prerouting { .. }
            | Hook::Unrouted { .. } => false,
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let Hook::Input { header, .. } = hook else { return self.send(engine, packet) };
        let Some(datagram) = hook.datagram(engine.packets.get(packet)) else {
            return Verdict::Malformed;
        };
        self.receive(engine.now, header, &datagram);
        engine.packets.remove(packet);
        Verdict::Taken
    }

    fn handle_error(
        &mut self,
        now: Time,
        flow: &FlowKey,
        octets: usize,
        error: Option<Error>,
    ) -> bool {
        let Some(path) = self.path_of(flow) else { return false };
        let payload = octets.checked_sub(OUTER_V4).filter(|_| self.is_v4());
        if let (Some(Error::TooBig { .. }), Some(payload)) = (error, payload)
            && let Some(session) = &mut self.session
        {
            session.core.handle_too_big(now, path, payload);
        }
        true
    }

    fn handle_timeout(&mut self, now: Time) {
        self.peers.handle_timeout(now);
        if let Some(session) = self.session_mut() {
            session.core.handle_timeout(now);
        }
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.take_events(engine.now);
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        let now = engine.now;
        let core = &mut self.session.as_mut()?.core;
        let packet = engine.make(|octets| core.poll_packet(now, octets))?;
        if let Some(transits) = &mut engine.transits {
            transits.leave(now, self.end.id, self.end.node, engine.packets.get(packet));
        }
        mss::clamp(engine.packets.get_mut(packet), core.whole());
        Some((packet, Way::Released(None)))
    }

    fn next_timeout(&self) -> Option<Time> {
        let session = self.session.as_ref().filter(|session| session.has_keys);
        let of_core = session.and_then(|session| session.core.next_timeout());
        earliest(self.peers.next_timeout(), of_core)
    }

    fn report(&self) -> Option<ServiceReport> {
        Some(ServiceReport::new("tunnel", Self::report(self)))
    }

    fn under_way(&self) -> usize {
        let session = self.session.as_ref().filter(|session| session.has_keys);
        usize::from(session.is_some_and(|session| !session.core.is_idle()))
    }

    fn as_datagrams(&mut self) -> Option<&mut dyn Datagrams> {
        Some(self)
    }
}

impl Datagrams for Tunnel {
    fn poll_datagram(&mut self, engine: &mut Engine, place: usize, mtu: usize) -> Option<PacketId> {
        let dscp = self.next_datagram(engine.now, PathId::new(place)?, mtu)?;
        let [local, remote] = *self.end.paths.get(place)?;
        let outer = udp::Datagram { source: local, destination: remote, payload: &self.datagram };
        Some(engine.add(|octets| {
            outer.emit(octets);
            set_class(octets, dscp << 2 | ecn::ECT_0);
        }))
    }

    fn far_ends(&self) -> FarEnds {
        let mut paths = self.end.paths.iter();
        std::array::from_fn(|_| paths.next().map(|[_, far]| far.ip()))
    }
}

/// Gives a packet without options, which has none yet, this traffic class.
fn set_class(packet: &mut [u8], class: u8) {
    if packet[0] >> 4 == 4 {
        packet[1] = class;
        rewrite_v4_checksum(&mut packet[..base::ip::V4_HEADER]);
    } else {
        packet[0] |= class >> 4;
        packet[1] |= class << 4;
    }
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").field("end", &self.end).finish_non_exhaustive()
    }
}
