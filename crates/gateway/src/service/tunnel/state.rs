//! The state of all peers: their keys, and the core of each peer that is up.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::contract::Refused;
use base::dns::{Failure, Name};
use base::ip::Prefix;
use base::rng::Rng;
use base::time::{Time, earliest};
use host::MARK;
use tracing::field::display;
use tracing::{info, warn};
use tunnel as nc;
use tunnel::secure::{
    self, Fresh, Incarnation, Incoming, OVERHEAD, Outgoing, PeerId, Peers, PublicKey, Routes,
    Sealer, Trouble, Unusable,
};
use tunnel::{Event, PATHS, PathId, Tunnel};

use super::super::complaints::{Complaints, Subject};
use super::fresh::{From, Ports};
use super::paths::{Found, Wanted};
use super::sockets::Way;
use super::transmit::{Batch, Sending};
use super::waiting::Waiting;
use super::{core_config, overhead};
use crate::config::{self, Endpoint};
use crate::linux;

/// How long a peer never heard may take before senders are told that the peer is unreachable.
const GRACE: Duration = Duration::from_secs(3);
/// The least time between two ways of a path that the peer opens.
const WAY_STAYS: Duration = Duration::from_millis(100);
/// Octets that IPv6 needs to pass (RFC 8200, 5): the device never offers less.
const LEAST_MTU: usize = 1_280;

/// What the lock guards.
pub struct State {
    peers: Peers,
    /// Handshakes and keepalives, and where they leave from.
    control: VecDeque<(Outgoing, From)>,
    /// The fresh ports for calls to peers that do not answer.
    ports: Ports,
    /// Names to be asked for.
    questions: Questions,
    /// By the places of their peers.
    links: Vec<Option<Link>>,
    /// Positions of links that may have something to send, each once.
    ready: VecDeque<usize>,
    seed: u64,
    sessions: u64,
    /// Octets of an outer packet at most.
    max_mtu: Option<usize>,
    device_mtu: usize,
    is_mtu_new: bool,
    /// Whether a peer is sent to elsewhere than before.
    are_endpoints_new: bool,
    /// Packets that have waited in vain for a session, since they were last asked for.
    unready: u64,
    /// Limits the log lines about this host.
    complaints: Complaints,
}

/// A configured peer and its session.
pub struct Link {
    peer: PeerId,
    config: config::Peer,
    /// What it proves itself with.
    keys: secure::Peer,
    /// The name by which the peer is called, if any.
    naming: Option<Naming>,
    /// Where it is heard.
    endpoint: Option<SocketAddr>,
    /// The way by which the peer sends, while the peer is heard.
    way: Option<Way>,
    /// Another address at which the peer was heard last, with the way of this datagram: the peer is asked there whether
    /// it has moved.
    elsewhere: Option<(SocketAddr, Way)>,
    /// The number of the fresh port of the last call since the peer was heard.
    fresh: u64,
    session: Option<Session>,
    /// The paths to the peer, by their places.
    paths: [OfPath; PATHS],
    /// Packets for the peer while there are no keys.
    waiting: Waiting,
    is_ready: bool,
    /// When its core wants to be called.
    due: Option<Time>,
    /// Since when there is no session.
    alone_since: Time,
    /// Start of the current state: up, silent or down.
    since: Time,
    /// When it was asked for a sign of life last.
    asked_at: Time,
    /// Sessions with a peer that had started anew.
    sessions: u64,
    /// Limits the log lines that this peer can provoke.
    complaints: Complaints,
}

/// A core, and the keys for what it sends.
pub struct Session {
    core: Tunnel,
    sealer: Sealer,
    incarnation: Incarnation,
    /// Whether there are valid keys.
    has_keys: bool,
    /// Whether the peer is heard.
    is_up: bool,
    /// Whether the peer owes an answer.
    is_silent: bool,
}

/// A path to a peer. Of the first one, only the octets are noted here.
#[derive(Debug, Default)]
pub struct OfPath {
    /// How it can be used, or why it has to wait; `None` for a path that the peer opens.
    found: Option<Result<Found, String>>,
    /// By which its datagrams leave.
    way: Option<Way>,
    /// By which data came last, on a path that the peer opens, and since when.
    came: Option<(Way, Time)>,
    /// The address that the session's core knows of.
    told: Option<SocketAddr>,
    /// Octets of outer packets sent there, and received.
    octets: [u64; 2],
}

impl OfPath {
    /// By which its datagrams leave; not for the first one.
    pub fn way(&self) -> Option<Way> {
        self.way
    }

    /// Why it has to wait for something of this host.
    pub fn why(&self) -> Option<&str> {
        self.found.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Octets of datagrams sent there, and received.
    pub fn octets(&self) -> [u64; 2] {
        self.octets
    }
}

/// Why a packet from the device was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejected {
    /// Nobody is told: the queue is full, or it is no packet.
    Quietly,
    /// There is no session yet, and no room to wait for it.
    Unready,
    /// There is no session, and has been none for long.
    Alone,
    TooBig(usize),
    /// The path is gone.
    Down,
}

impl State {
    /// The keys belong to nobody yet.
    pub fn new(max_mtu: Option<u16>, listening: usize, peers: Peers, seed: u64) -> Self {
        Self {
            peers,
            control: VecDeque::new(),
            ports: Ports::new(listening),
            questions: Questions::new(),
            links: Vec::new(),
            ready: VecDeque::new(),
            seed,
            sessions: 0,
            max_mtu: max_mtu.map(usize::from),
            device_mtu: LEAST_MTU,
            is_mtu_new: false,
            are_endpoints_new: false,
            unready: 0,
            complaints: Complaints::default(),
        }
    }

    /// Takes another peer.
    ///
    /// # Errors
    /// When its key is ours or another's, or there are too many.
    pub fn add_peer(
        &mut self,
        now: Time,
        config: &config::Peer,
        keys: &secure::Peer,
    ) -> Result<(), Unusable> {
        let peer = self.peers.add_peer(now, keys)?;
        self.are_endpoints_new = true;
        if self.links.len() <= peer.index() {
            self.links.resize_with(peer.index() + 1, || None);
        }
        self.links[peer.index()] = Some(Link {
            peer,
            config: config.clone(),
            keys: keys.clone(),
            naming: Naming::of(now, config),
            endpoint: keys.endpoint,
            way: None,
            elsewhere: None,
            fresh: 0,
            session: None,
            paths: Default::default(),
            waiting: Waiting::default(),
            is_ready: false,
            due: None,
            alone_since: now,
            since: now,
            asked_at: now,
            sessions: 0,
            complaints: Complaints::default(),
        });
        Ok(())
    }

    /// An earlier gateway heard the peer with this key at this address last.
    pub fn handle_last_heard(&mut self, now: Time, key: &PublicKey, endpoint: SocketAddr) {
        let is_its = |link: &&Link| link.keys.public_keys().any(|its| its == *key);
        let peer = self.links().find(is_its).map(|link| link.peer);
        if let Some(peer) = peer {
            self.peers.handle_last_heard(now, peer, endpoint);
            self.are_endpoints_new = true;
        }
    }

    /// These keys are ours from now on; sessions go on, but for those with a key that is ours no more.
    ///
    /// # Errors
    /// When a key is a peer's.
    pub fn set_own_keys(
        &mut self,
        now: Time,
        key: &secure::PrivateKey,
        previous: Option<&secure::PrivateKey>,
    ) -> Result<(), Unusable> {
        self.peers.set_own_keys(now, key, previous)
    }

    /// A peer is known by the keys of `keys` from now on, and its session goes on. Returns whether it does: not if its
    /// key is the peer's no more, or another's.
    pub fn set_peer_keys(
        &mut self,
        now: Time,
        peer: PeerId,
        config: &config::Peer,
        keys: &secure::Peer,
    ) -> bool {
        let goes_on = matches!(self.peers.set_peer_keys(now, peer, keys), Ok(true));
        if goes_on && let Some(link) = self.link_mut(peer) {
            link.config.public_key = config.public_key;
            link.config.previous_public_key = config.previous_public_key;
            link.keys.public_key = keys.public_key;
            link.keys.previous_key = keys.previous_key;
        }
        goes_on
    }

    /// Other networks are behind a peer.
    pub fn set_routes(&mut self, peer: PeerId, routes: &[Prefix]) {
        if let Some(link) = self.link_mut(peer) {
            link.config.routes = routes.to_vec();
        }
    }

    /// Which peer an inner address belongs to.
    pub fn routes(&self) -> Routes {
        let of_link = |link: &Link| {
            let (peer, routes) = (link.peer, link.config.routes.clone());
            routes.into_iter().map(move |route| (peer, route))
        };
        let routes: Vec<_> = self.links().flat_map(of_link).collect();
        Routes::new(&routes).expect("a checked configuration has each network once")
    }

    /// Where the peers with a session are.
    pub fn heard(&self) -> impl Iterator<Item = (PublicKey, SocketAddr)> {
        let heard = self.links().filter(|link| link.session.is_some());
        heard.filter_map(|link| Some((link.keys.public_key, self.peers.endpoint(link.peer)?)))
    }

    /// Forgets a peer, its session and its keys.
    pub fn remove_peer(&mut self, peer: PeerId) {
        self.peers.remove_peer(peer);
        self.are_endpoints_new = true;
        self.ready.retain(|&position| position != peer.index());
        if let Some(Some(mut link)) = self.links.get_mut(peer.index()).map(Option::take) {
            self.unready += std::iter::from_fn(|| link.waiting.pop()).count() as u64;
        }
        self.note_mtu();
    }

    /// A packet for a peer.
    pub fn handle_packet(
        &mut self,
        now: Time,
        peer: PeerId,
        packet: &[u8],
    ) -> Result<(), Rejected> {
        let link = self.links.get_mut(peer.index()).and_then(Option::as_mut);
        let Some(link) = link else { return Err(Rejected::Unready) };
        let Some(session) = link.session.as_mut().filter(|session| session.has_keys) else {
            self.peers.handle_wanted(now, peer);
            if now.since(link.alone_since) >= GRACE {
                return Err(Rejected::Alone);
            }
            return if link.waiting.push(now, packet) { Ok(()) } else { Err(Rejected::Unready) };
        };
        let outcome = session.core.handle_packet(now, packet).map_err(|refused| match refused {
            Refused::Down => Rejected::Down,
            Refused::TooBig { mtu } => Rejected::TooBig(mtu),
            Refused::Full | Refused::Malformed => Rejected::Quietly,
        });
        self.make_ready(peer.index());
        outcome
    }

    /// Takes an opened datagram; false if it belongs to another incarnation of the peer.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        (peer, incarnation): (PeerId, Incarnation),
        number: u64,
        is_marked: bool,
        payload: &[u8],
    ) -> bool {
        let Some(link) = self.link_mut(peer) else { return false };
        let session = link.session.as_mut();
        let Some(session) = session.filter(|session| session.incarnation == incarnation) else {
            return false;
        };
        session.core.handle_datagram(now, number, is_marked, payload);
        let carried: Vec<_> = std::iter::from_fn(|| session.core.poll_handshake()).collect();
        if let Some(path) = PathId::of(number) {
            link.paths[path.index()].octets[1] += (payload.len() + OVERHEAD) as u64;
        }
        if std::mem::take(&mut session.is_silent) {
            link.since = now;
            if let Some(left_out) = link.complaints.admit(now, Subject::PeerHeard) {
                info!(peer = %link.config.name, left_out, "peer is heard again");
            }
        }
        self.make_ready(peer.index());
        for mut datagram in carried {
            self.peers.handle_carried(now, peer, &mut datagram);
            self.collect(now, None);
        }
        true
    }

    pub fn handle_heard(&mut self, now: Time, heard: secure::Heard) {
        self.peers.handle_heard(now, heard);
    }

    /// The kernel refused a datagram of a payload of `len` octets on a path to a peer.
    pub fn handle_too_big(&mut self, now: Time, (peer, path): (PeerId, PathId), len: usize) {
        if let Some(session) = self.session_mut(peer) {
            session.core.handle_too_big(now, path, len);
            self.make_ready(peer.index());
        }
    }

    /// What the wall clock says, in time since 1970; whether sessions were ended for that.
    pub fn handle_wall_clock(&mut self, now: Time, unix: Duration) -> bool {
        self.peers.handle_wall_clock(now, unix)
    }

    /// The kernel has refused datagrams by a rule; returns how many such lines were left out if this is to be logged.
    pub fn note_forbidden(&mut self, now: Time) -> Option<u64> {
        self.complaints.admit(now, Subject::OutputForbidden)
    }

    /// The hypervisor says that this machine is a copy.
    pub fn handle_copied(&mut self, now: Time) {
        self.peers.handle_copied(now);
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.peers.handle_timeout(now);
        self.ask_names(now);
        for position in 0..self.links.len() {
            let Some(link) = &mut self.links[position] else { continue };
            if quiet_at(&self.peers, link).is_some_and(|at| at <= now)
                && let Some(session) = &mut link.session
            {
                link.asked_at = now;
                session.core.handle_quiet(now);
                self.make_ready(position);
            }
            let Some(link) = &mut self.links[position] else { continue };
            self.unready += link.waiting.expire(now, link.patience());
            if link.due.is_some_and(|due| due <= now)
                && let Some(session) = &mut link.session
            {
                session.core.handle_timeout(now);
                self.make_ready(position);
            }
        }
    }

    /// Does what the keys and the cores say; to be called after every change.
    pub fn take_events(&mut self, now: Time) {
        while let Some(event) = self.peers.poll_event() {
            self.take_secure(now, event);
        }
        // An event that makes another link ready puts the link at the end.
        let mut at = 0;
        while let Some(&position) = self.ready.get(at) {
            at += 1;
            while let Some(link) = &mut self.links[position]
                && let Some(session) = &mut link.session
                && let Some(event) = session.core.poll_event()
            {
                self.take_core(now, position, event);
            }
        }
    }

    /// Lets the peers take turns: puts the next peer's ready datagrams into `batch`.
    pub fn fill(&mut self, now: Time, batch: &mut Batch) -> Option<Sending> {
        while let Some(position) = self.ready.pop_front() {
            let Some(link) = &mut self.links[position] else { continue };
            link.is_ready = false;
            let Some(session) = link.session.as_mut().filter(|session| session.has_keys) else {
                link.due = None;
                continue;
            };
            let mut in_turn = session.core.in_turn();
            let mut filled = None;
            while let Some(path) = in_turn.next() {
                let is_all = batch.fill(|out| session.core.poll_transmit(now, path, out));
                if !batch.is_empty() {
                    filled = Some((path, is_all && in_turn.next().is_none()));
                    break;
                }
            }
            link.due = session.core.next_timeout();
            if let Some((path, is_all)) = filled {
                let of_path = &mut link.paths[path.index()];
                of_path.octets[0] += batch.octets();
                let way = if path == PathId::FIRST { link.way } else { of_path.way };
                let sealer = session.sealer.clone();
                let sending = Sending { peer: link.peer, path, sealer, way };
                if !is_all {
                    self.make_ready(position);
                }
                return Some(sending);
            }
        }
        None
    }

    /// Calls `each` with packets that a peer's core releases, as long as it wants more; returns whether more may wait.
    pub fn release(
        &mut self,
        now: Time,
        peer: PeerId,
        packet: &mut Vec<u8>,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let Some(session) = self.session_mut(peer) else { return false };
        while session.core.poll_packet(now, packet) {
            if !each(packet) {
                return true;
            }
        }
        false
    }

    /// Where all peers are sent to, if that has changed.
    pub fn take_endpoints(&mut self) -> Option<BTreeSet<IpAddr>> {
        std::mem::take(&mut self.are_endpoints_new).then(|| self.endpoints())
    }

    /// Where all peers are sent to, or are called.
    pub fn endpoints(&self) -> BTreeSet<IpAddr> {
        self.each_endpoint().collect()
    }

    /// Whether a peer is sent to, or is called, at an address.
    pub fn has_endpoint(&self, at: IpAddr) -> bool {
        self.each_endpoint().any(|it| it == at)
    }

    fn each_endpoint(&self) -> impl Iterator<Item = IpAddr> {
        let further = self.links().flat_map(|link| &link.config.paths);
        let further = further.filter_map(|path| path.endpoint.as_ref()?.ip());
        let endpoints = self.links().flat_map(|link| self.peers.endpoints(link.peer));
        endpoints.map(|endpoint| endpoint.ip().to_canonical()).chain(further)
    }

    /// When to call [`Self::handle_timeout`] at the latest. Links that are ready are the
    /// transmitter's business.
    pub fn next_timeout(&self) -> Option<Time> {
        let due = self.links().filter(|link| !link.is_ready).map(|link| link.due);
        let quiet = self.links().map(|link| quiet_at(&self.peers, link));
        let waiting = self.links().map(|link| link.waiting.expires_at(link.patience()));
        let others = earliest(self.peers.next_timeout(), self.next_question());
        due.chain(quiet).chain(waiting).fold(others, earliest)
    }

    /// How many packets have waited in vain for a session since this was last asked.
    pub fn take_unready(&mut self) -> u64 {
        std::mem::take(&mut self.unready)
    }

    /// Takes the names that are to be asked for.
    pub fn take_questions(&mut self) -> Questions {
        std::mem::take(&mut self.questions)
    }

    /// Whether names are to be asked for.
    pub fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    pub fn opener(&self) -> secure::Opener {
        self.peers.opener()
    }

    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().flatten()
    }

    /// Peers may be called elsewhere from now on.
    fn note_endpoints(&mut self) {
        self.are_endpoints_new = true;
    }

    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    fn session_mut(&mut self, peer: PeerId) -> Option<&mut Session> {
        self.link_mut(peer)?.session.as_mut()
    }

    fn link(&self, peer: PeerId) -> Option<&Link> {
        self.links.get(peer.index())?.as_ref()
    }

    fn link_mut(&mut self, peer: PeerId) -> Option<&mut Link> {
        self.links.get_mut(peer.index())?.as_mut()
    }

    fn make_ready(&mut self, position: usize) {
        if let Some(Some(link)) = self.links.get_mut(position)
            && !link.is_ready
        {
            link.is_ready = true;
            self.ready.push_back(position);
        }
    }

    fn take_secure(&mut self, now: Time, event: secure::Event) {
        match event {
            secure::Event::Established { peer, incarnation, is_new } => {
                self.establish(now, peer, incarnation, is_new);
            }
            secure::Event::EndpointChanged { peer, endpoint } => {
                self.are_endpoints_new = true;
                let limit = self.max_mtu;
                if let Some(link) = self.link_mut(peer) {
                    // The peer has answered at the address where it was asked.
                    link.way = match link.elsewhere.take_if(|(from, _)| *from == endpoint) {
                        Some((_, way)) => Some(way.by_routes()),
                        None => link.way,
                    };
                    match link.endpoint.replace(endpoint) {
                        Some(before) if before != endpoint => {
                            if let Some(left_out) = link.complaints.admit(now, Subject::PeerMoved) {
                                let peer = &link.config.name;
                                info!(%peer, from = %before, to = %endpoint, left_out, "peer has moved");
                            }
                        }
                        Some(_) | None => {}
                    }
                    if let Some(session) = &mut link.session {
                        let config = core_config(Some(endpoint), limit, link.config.parameters);
                        let nc::Config { max_mtu, overhead, .. } = config;
                        session.core.handle_path_changed(now, PathId::FIRST, max_mtu, overhead);
                    }
                    self.make_ready(peer.index());
                    self.part(peer);
                }
            }
            secure::Event::Further { peer, path, endpoint } => {
                self.handle_further(now, peer, path, endpoint);
            }
            secure::Event::Expired { peer } => {
                if let Some(link) = self.link_mut(peer) {
                    if let Some(left_out) = link.complaints.admit(now, Subject::PeerExpired) {
                        let endpoint = link.endpoint.map(display);
                        info!(
                            peer = %link.config.name,
                            endpoint,
                            left_out,
                            "session expired: the peer has agreed on no new keys; it is called when there is \
                             something for it"
                        );
                    }
                    link.alone_since = now;
                    link.since = now;
                    if let Some(session) = &mut link.session {
                        session.has_keys = false;
                        session.is_up = false;
                    }
                }
            }
            secure::Event::Unanswered { peer, endpoint } => {
                if let Some(link) = self.link_mut(peer)
                    && let Some(left_out) = link.complaints.admit(now, Subject::PeerUnanswering)
                {
                    super::no_answer(&link.config.name, endpoint, left_out);
                }
            }
            secure::Event::Stranger { from, key } => super::stranger(from, key),
            secure::Event::Unreadable { from } => super::unreadable(from),
            secure::Event::Trouble { peer, from, what } => {
                let subject = match what {
                    Trouble::Clock => Subject::PeerClock,
                    Trouble::Unconfirmed => Subject::PeerUnconfirmed,
                    Trouble::Unreadable => Subject::PeerUnreadable,
                };
                if let Some(link) = self.link_mut(peer)
                    && let Some(left_out) = link.complaints.admit(now, subject)
                {
                    super::trouble(&link.config.name, from, what, left_out);
                }
            }
        }
    }

    fn establish(&mut self, now: Time, peer: PeerId, incarnation: Incarnation, is_new: bool) {
        self.note_heard(peer);
        let Some(sealer) = self.peers.sealer(peer) else { return };
        let Some(Some(link)) = self.links.get_mut(peer.index()) else { return };
        let endpoint = self.peers.endpoint(peer);
        let config = core_config(endpoint, self.max_mtu, link.config.parameters);
        match &mut link.session {
            Some(session) if !is_new => {
                session.core.handle_first_link(now, PathId::FIRST, config.max_mtu);
                session.sealer = sealer;
                let was_well = session.has_keys && session.is_up && !session.is_silent;
                session.has_keys = true;
                session.is_up = true;
                session.is_silent = false;
                if !was_well {
                    link.since = now;
                }
            }
            session => {
                if let Some(left_out) = link.complaints.admit(now, Subject::PeerUp) {
                    let endpoint = endpoint.map(display);
                    info!(peer = %link.config.name, endpoint, left_out, "peer is up");
                }
                link.since = now;
                self.sessions += 1;
                link.sessions += 1;
                let rng = Rng::stream(self.seed, &format!("tunnel {}", self.sessions));
                let core = match session.take() {
                    Some(before) => before.core.next_life(now, config, rng),
                    None => Tunnel::new(now, config, rng),
                };
                *session = Some(Session {
                    core,
                    sealer,
                    incarnation,
                    has_keys: true,
                    is_up: true,
                    is_silent: false,
                });
                link.paths.iter_mut().for_each(|path| path.told = None);
            }
        }
        link.open_paths(now);
        self.unready += link.waiting.expire(now, link.patience());
        if let Some(session) = &mut link.session {
            // What a core refuses, it counts.
            while let Some(packet) = link.waiting.pop() {
                let _ = session.core.handle_packet(now, &packet);
            }
        }
        self.note_mtu();
        self.make_ready(peer.index());
    }

    fn take_core(&mut self, now: Time, position: usize, event: Event) {
        let Some(link) = &mut self.links[position] else { return };
        let Some(session) = &mut link.session else { return };
        match event {
            Event::Mtu(mtu) => {
                let nc::Estimates { path_mtu, whole, .. } = session.core.estimates();
                let peer = &link.config.name;
                match link.complaints.admit(now, Subject::PathChanged) {
                    Some(left_out) if whole < mtu => info!(
                        %peer, path_mtu, mtu, whole, left_out,
                        "short path: packets longer than `whole` are cut"
                    ),
                    Some(left_out) => info!(%peer, path_mtu, mtu, left_out, "greatest packet"),
                    None => {}
                }
                self.note_mtu();
            }
            Event::Path { path, serves } => {
                let number = path.index();
                let peer = &link.config.name;
                let endpoint = self.peers.further(link.peer, path).map(display);
                match link.complaints.admit(now, Subject::FurtherPath) {
                    Some(left_out) if serves => {
                        info!(%peer, path = number, endpoint, left_out, "another path serves");
                    }
                    Some(left_out) => info!(
                        %peer, path = number, endpoint, left_out,
                        "a path serves no more: the others go on without it"
                    ),
                    None => {}
                }
                let peer = link.peer;
                self.part(peer);
            }
            Event::PathDown => {
                if let Some(left_out) = link.complaints.admit(now, Subject::PathDown) {
                    let endpoint = link.endpoint.map(display);
                    warn!(
                        peer = %link.config.name,
                        endpoint,
                        left_out,
                        "path is down: nothing that we send is acknowledged any more; calling the peer. If this \
                         lasts, does it run, and does UDP pass?"
                    );
                }
                session.is_up = false;
                link.since = now;
                self.peers.handle_silence(now, link.peer);
            }
            Event::PathUp => {
                if let Some(left_out) = link.complaints.admit(now, Subject::PathUp) {
                    let endpoint = link.endpoint.map(display);
                    info!(peer = %link.config.name, endpoint, left_out, "path is up");
                }
                session.is_up = true;
                link.since = now;
            }
            Event::Doubted => {
                // It may be that only our address is not reached any more.
                link.way = self.ports.loosened(link.way);
                self.peers.handle_silence(now, link.peer);
            }
            Event::Silent => {
                if let Some(left_out) = link.complaints.admit(now, Subject::PeerSilent) {
                    let endpoint = link.endpoint.map(display);
                    info!(peer = %link.config.name, endpoint, left_out, "peer is silent; calling it");
                }
                session.is_silent = true;
                link.since = now;
            }
        }
    }

    /// Where a call leaves from that asks for a fresh port.
    fn fresh(&mut self, now: Time, Fresh { peer, number }: Fresh) -> From {
        let is_asked = self.link(peer).is_some_and(|link| link.fresh != number);
        let is_in_use = self.links().any(|link| {
            link.peer != peer
                && link.is_heard()
                && link.way.is_some_and(|way| self.ports.is_fresh(way))
        });
        let is_new = is_asked && !is_in_use && self.ports.change(now);
        if (is_new || is_in_use)
            && let Some(link) = self.link_mut(peer)
        {
            link.fresh = number;
        }
        From::Fresh { is_new }
    }

    /// A peer is heard: if nobody is called from fresh ports or heard at them, they are given back.
    fn note_heard(&mut self, peer: PeerId) {
        if let Some(link) = self.link_mut(peer) {
            link.fresh = 0;
        }
        let needs =
            |link: &Link| link.fresh > 0 || link.way.is_some_and(|way| self.ports.is_fresh(way));
        if !self.links().any(needs) {
            self.ports.give_back();
        }
    }

    /// Whether the fresh ports are to be given back now.
    pub fn take_fresh_over(&mut self) -> bool {
        self.ports.take_over()
    }
}

impl Link {
    /// How long a packet waits for keys: no longer than the packet would be worth recovering.
    fn patience(&self) -> Duration {
        self.config.parameters.deadline.map_or(GRACE, |deadline| deadline.min(GRACE))
    }
}

/// When to ask a peer with a keepalive for a sign of life: after a silence of the keepalive's length.
fn quiet_at(peers: &Peers, link: &Link) -> Option<Time> {
    let keepalive = link.config.keepalive?;
    link.session.as_ref().filter(|session| session.has_keys)?;
    Some(peers.last_heard(link.peer)?.max(link.asked_at) + keepalive)
}

// Chooses the source address of datagrams: the address that the peer sends to, as long as the peer is heard.
// So a host with several uplinks answers from the address that was asked, as firewalls and address translators on
// the way demand.

impl State {
    /// A datagram that is no data, or cannot be opened otherwise, and where it came to.
    pub fn handle_other(&mut self, now: Time, from: SocketAddr, way: Way, datagram: &mut [u8]) {
        // The peers count the datagram by kind, and by reason if dropped.
        let incoming = self.peers.handle_datagram(now, from, datagram);
        self.collect(now, Some((from, way)));
        if incoming == Incoming::Nothing
            && let Some(peer) = self.link_of(from).map(|link| link.peer)
        {
            self.note_way(peer, from, way);
        }
    }

    /// Notes our address at which genuine data of a peer arrived, on the path that its number says.
    pub fn note_way_of(
        &mut self,
        now: Time,
        peer: PeerId,
        number: u64,
        from: SocketAddr,
        way: Way,
    ) {
        match PathId::of(number) {
            Some(PathId::FIRST) => self.note_way(peer, from, way),
            Some(path) => self.note_further_way(now, (peer, path), from, way),
            None => {}
        }
    }

    /// Notes our address at which a genuine datagram of a peer arrived on the first path.
    pub fn note_way(&mut self, peer: PeerId, from: SocketAddr, way: Way) {
        let is_there = self.peers.endpoint(peer) == Some(from);
        let is_asked = !is_there && self.peers.asked(peer) == Some(from);
        match self.link_mut(peer) {
            Some(link) if is_there => match link.rival(way) {
                // That further path serves: the first one is left to the routes.
                Some(path) if link.serves(path) => {}
                // While no other path works, the first one goes by this way, whatever routes say.
                Some(_) => link.way = Some(way),
                None => link.way = Some(way.by_routes()),
            },
            // An address translator lets the question pass only where the peer sends to. A route to a network that the
            // address is in may lead into a tunnel; the datagram did not come from there.
            Some(link) if is_asked => link.elsewhere = Some((from, way)),
            Some(_) | None => {}
        }
    }

    /// The kernel does not send from that address any more.
    pub fn lose_way(&mut self, peer: PeerId) {
        let way = self.link(peer).and_then(|link| self.ports.loosened(link.way));
        if let Some(link) = self.link_mut(peer) {
            link.way = way;
        }
    }

    /// The next handshake or keepalive to send: from where, to where.
    pub fn poll_control(&mut self, now: Time) -> Option<(From, SocketAddr, Vec<u8>)> {
        self.collect(now, None);
        self.control.pop_front().map(|(outgoing, from)| (from, outgoing.to, outgoing.datagram))
    }

    /// Takes the datagrams that the keys have to send. An answer to a datagram leaves from the address at which the
    /// datagram arrived.
    fn collect(&mut self, now: Time, came: Option<(SocketAddr, Way)>) {
        while let Some(outgoing) = self.peers.poll_transmit(now) {
            if came.is_none_or(|(from, _)| from != outgoing.to) && outgoing.is_handshake() {
                self.send_by_others(&outgoing);
            }
            let from = match (came, outgoing.fresh) {
                (_, Some(fresh)) => self.fresh(now, fresh),
                (Some((from, way)), None) if from == outgoing.to => {
                    let is_asked =
                        self.links().any(|link| self.peers.asked(link.peer) == Some(from));
                    From::Usual(Some(if is_asked { way } else { way.by_routes() }))
                }
                (Some(_) | None, None) => From::Usual(self.way_to(outgoing.to)),
            };
            self.control.push_back((outgoing, from));
        }
    }

    /// The way to where a peer is, or is asked whether it has moved there.
    fn way_to(&self, to: SocketAddr) -> Option<Way> {
        let link = self.link_of(to)?;
        match link.elsewhere {
            Some((from, way)) if from == to => Some(way),
            Some(_) | None => self.ports.usual(link.way, link.fresh > 0),
        }
    }

    /// The peer that is at an address, or is asked whether it has moved there.
    fn link_of(&self, address: SocketAddr) -> Option<&Link> {
        let is_there = |link: &&Link| self.peers.endpoint(link.peer) == Some(address);
        let is_asked = |link: &&Link| self.peers.asked(link.peer) == Some(address);
        self.links().find(is_there).or_else(|| self.links().find(is_asked))
    }
}

// The further paths: where each leaves from, and what they do for the first one.

impl State {
    /// The further paths that are configured, each with where the peer is.
    pub fn wanted_paths(&self) -> Vec<Wanted> {
        let of_link = |link: &Link| {
            let (peer, to) = (link.peer, self.peers.endpoint(link.peer));
            let numbered = PathId::all().skip(1).zip(link.config.paths.clone());
            numbered.map(move |(path, config)| Wanted { peer, path, config, to })
        };
        self.links().flat_map(of_link).collect()
    }

    /// A further path can be used so now, or why it has to wait.
    pub fn handle_found(
        &mut self,
        now: Time,
        peer: PeerId,
        path: PathId,
        found: Result<Found, String>,
    ) {
        let limit = self.max_mtu.unwrap_or(super::JUMBO);
        let found = found.map(|it| Found { max_mtu: it.max_mtu.min(limit), ..it });
        let Some(link) = self.links.get_mut(peer.index()).and_then(Option::as_mut) else { return };
        let of_path = &mut link.paths[path.index()];
        if of_path.found.as_ref() == Some(&found) {
            return;
        }
        of_path.way = found.as_ref().ok().map(|found| found.way);
        if let Ok(Found { to, .. }) = &found {
            self.peers.handle_further(peer, path, *to);
            self.are_endpoints_new = true;
            of_path.told = None;
        }
        of_path.found = Some(found);
        link.open_paths(now);
        self.make_ready(peer.index());
    }

    /// The peer is heard on a further path at another address than before.
    fn handle_further(&mut self, now: Time, peer: PeerId, path: PathId, endpoint: SocketAddr) {
        let limit = self.max_mtu;
        let Some(link) = self.link_mut(peer) else { return };
        let told = link.paths[path.index()].told.replace(endpoint);
        if told != Some(endpoint)
            && let Some(session) = &mut link.session
        {
            let config = core_config(Some(endpoint), limit, link.config.parameters);
            let nc::Config { max_mtu, overhead, .. } = config;
            session.core.handle_path_changed(now, path, max_mtu, overhead);
        }
        self.make_ready(peer.index());
    }

    /// Notes where data of a path arrived that the peer opens: answers leave from there, and by the same interface if
    /// a route leads there.
    fn note_further_way(
        &mut self,
        now: Time,
        (peer, path): (PeerId, PathId),
        from: SocketAddr,
        way: Way,
    ) {
        let is_there = self.peers.further(peer, path) == Some(from);
        let Some(link) = self.link_mut(peer) else { return };
        let of_path = &mut link.paths[path.index()];
        let is_known = of_path.came.is_some_and(|(came, _)| came == way);
        // The kernel is not asked for each datagram of a peer that sends now here, now there.
        let is_early = of_path.came.is_some_and(|(_, at)| now.since(at) < WAY_STAYS);
        if !is_there || of_path.found.is_some() || is_known || is_early {
            return;
        }
        of_path.came = Some((way, now));
        let leads = |by: &u32| {
            let routes = linux::routes::Routes::open();
            routes.is_ok_and(|mut it| it.leads_by(*by, from.ip().to_canonical(), MARK.value()))
        };
        of_path.way = Some(Way { interface: way.interface.filter(leads), ..way });
    }

    /// Sends a datagram of a handshake by other paths as well if the first one is broken: sealed if another path serves,
    /// and as it is while the peer is not heard at all.
    fn send_by_others(&mut self, outgoing: &Outgoing) {
        let leads = |link: &&Link| self.peers.endpoints(link.peer).any(|it| it == outgoing.to);
        let Some(peer) = self.links().find(leads).map(|link| link.peer) else { return };
        let is_first = self.peers.endpoint(peer) == Some(outgoing.to);
        let Some(link) = self.links.get_mut(peer.index()).and_then(Option::as_mut) else { return };
        let is_heard = link.is_heard();
        if let Some(session) = link.session.as_mut().filter(|_| is_heard) {
            if is_first {
                session.core.handle_handshake(&outgoing.datagram);
                self.make_ready(peer.index());
            }
            return;
        }
        for of_path in &link.paths {
            if let Some(Ok(Found { to, way, .. })) = of_path.found {
                let copy = Outgoing { to, ..outgoing.clone() };
                self.control.push_back((copy, From::Usual(Some(way))));
            }
        }
    }

    /// If the first path has borrowed the way of a further one that serves again, it leads where it is configured to.
    fn part(&mut self, peer: PeerId) {
        let Some(link) = self.link_mut(peer) else { return };
        let lent = link.way.and_then(|way| link.rival(way));
        if lent.is_some_and(|path| link.serves(path)) {
            link.way = None;
        }
        let own = match &link.naming {
            Some(naming) => naming.addresses.first().copied(),
            None => link.keys.endpoint,
        };
        let Some(at) = link.endpoint.filter(|at| own.is_some_and(|own| own != *at)) else { return };
        let is_lent = PathId::all().skip(1).any(|path| {
            let is_its =
                matches!(&link.paths[path.index()].found, Some(Ok(found)) if found.to == at);
            is_its && link.serves(path)
        });
        if is_lent && let Some(own) = own {
            link.endpoint = Some(own);
            self.peers.handle_first(peer, own);
        }
    }
}

impl Link {
    /// Opens the configured paths that the session's core does not know yet.
    fn open_paths(&mut self, now: Time) {
        let Some(session) = self.session.as_mut().filter(|session| session.has_keys) else {
            return;
        };
        for (path, config) in PathId::all().skip(1).zip(&self.config.paths) {
            let of_path = &mut self.paths[path.index()];
            let Some(Ok(Found { to, max_mtu, .. })) = of_path.found else { continue };
            if of_path.told.is_some() {
                continue;
            }
            of_path.told = Some(to);
            // The answer shows whether the peer knows further paths; an idle tunnel would not learn that.
            session.core.handle_quiet(now);
            let mtus = [max_mtu, overhead(to)];
            // Nothing of what was learnt by another way counts.
            session.core.handle_path_changed(now, path, mtus[0], mtus[1]);
            session.core.open_path(now, path, mtus, config.is_backup);
        }
    }

    /// The further path that has the interface, or else the address, of a way.
    fn rival(&self, way: Way) -> Option<PathId> {
        PathId::all().skip(1).find(|path| {
            let Some(Ok(Found { way: its, .. })) = &self.paths[path.index()].found else {
                return false;
            };
            match (its.interface, its.source) {
                (Some(interface), _) => way.interface == Some(interface),
                (None, Some(source)) => way.source == Some(source),
                (None, None) => false,
            }
        })
    }

    /// Whether a path serves.
    fn serves(&self, path: PathId) -> bool {
        let known = self.core().map(Tunnel::paths).unwrap_or_default();
        known.get(path.index()).is_some_and(|it| it.serves)
    }
}

// Peers that are called by a name: their names are asked for while they do not answer.

impl State {
    /// Notes whose names are to be asked for now.
    pub fn ask_names(&mut self, now: Time) {
        let mut questions = Vec::new();
        for link in self.links_mut() {
            let is_heard = link.is_heard();
            let Some(naming) = &mut link.naming else { continue };
            if is_heard {
                naming.rest();
            } else if naming.due().is_some_and(|due| due <= now) {
                naming.is_asking = true;
                questions.push((link.peer, naming.name.clone()));
            }
        }
        self.questions.extend(questions);
    }

    /// When [`Self::ask_names`] has something to do.
    fn next_question(&self) -> Option<Time> {
        let silent = self.links().filter(|link| !link.is_heard());
        let due = silent.filter_map(|link| link.naming.as_ref());
        due.map(Naming::due).fold(None, earliest)
    }

    /// A name has these addresses, or none. To be told by its peer, who may have another name by now.
    pub fn handle_resolved(
        &mut self,
        now: Time,
        (peer, name): (PeerId, &Name),
        outcome: Result<Vec<IpAddr>, Failure>,
    ) {
        let Some(Link { config, naming: Some(naming), .. }) = self.link_mut(peer) else { return };
        if naming.name != *name || !naming.is_asking {
            return;
        }
        let is_news = naming.handle_outcome(now, outcome);
        let (endpoint, again) = (naming.text(), naming.ask_at.since(now));
        let addresses = naming.addresses.clone();
        match naming.failure() {
            Some(why) if is_news && addresses.is_empty() => warn!(
                peer = %config.name,
                %endpoint,
                %why,
                next_s = again.as_secs(),
                at_most_s = LONGEST.as_secs(),
                "the peer's name has no address; asking again until it has"
            ),
            Some(why) if is_news => warn!(
                peer = %config.name,
                %endpoint,
                %why,
                "the peer's name is not found any more; going on with the addresses that it had, and asking again"
            ),
            None if is_news => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let addresses = addresses.join(", ");
                info!(peer = %config.name, %endpoint, %addresses, "the peer's name has these addresses");
            }
            Some(_) | None => {}
        }
        if !addresses.is_empty() {
            self.peers.handle_endpoints(now, peer, &addresses);
            self.note_endpoints();
        }
    }
}

impl Link {
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    pub fn config(&self) -> &config::Peer {
        &self.config
    }

    /// What the peer proves itself with.
    pub fn keys(&self) -> &secure::Peer {
        &self.keys
    }

    /// The name by which the peer is called, if any.
    pub fn naming(&self) -> Option<&Naming> {
        self.naming.as_ref()
    }

    /// The way by which the peer sends, while the peer is heard.
    pub fn way(&self) -> Option<Way> {
        self.way
    }

    /// The paths to the peer, by their places.
    pub fn paths(&self) -> &[OfPath; PATHS] {
        &self.paths
    }

    /// The core of the session, if any.
    pub fn core(&self) -> Option<&Tunnel> {
        self.session.as_ref().map(|session| &session.core)
    }

    /// Sessions with a peer that had started anew.
    pub fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Its state in words, and since when; `has_session` says whether its keys are valid.
    pub fn condition(&self, has_session: bool) -> (&'static str, Time) {
        let said = match &self.session {
            Some(session) if session.has_keys && has_session => match session {
                session if !session.is_up => "path down",
                session if session.is_silent => "silent",
                _ => "up",
            },
            _ => "no session",
        };
        (said, self.since)
    }

    /// Whether there are keys, and the peer owes no answer.
    fn is_heard(&self) -> bool {
        let is_heard = |session: &Session| session.has_keys && session.is_up && !session.is_silent;
        self.session.as_ref().is_some_and(is_heard)
    }
}

// How long inner packets may be, and what the device offers.

impl State {
    /// The device's wanted MTU, if it has changed.
    pub fn take_device_mtu(&mut self) -> Option<usize> {
        std::mem::take(&mut self.is_mtu_new).then_some(self.device_mtu)
    }

    /// The greatest packet for a peer that fits into one datagram; connections should keep to this size.
    pub fn whole(&self, peer: PeerId) -> Option<usize> {
        Some(self.link(peer)?.session.as_ref()?.core.whole())
    }

    /// The device offers what the best peer takes; who sends more to another is told.
    fn note_mtu(&mut self) {
        let sessions = self.links().filter_map(|link| link.session.as_ref());
        let most = sessions.map(|session| session.core.mtu()).max().unwrap_or(LEAST_MTU);
        let mtu = most.max(LEAST_MTU);
        if mtu != self.device_mtu {
            self.device_mtu = mtu;
            self.is_mtu_new = true;
        }
    }
}

// Decides when to ask for the name of a peer: at the start, and whenever the peer does not answer.
//
// The addresses of a name count only while the peer is not heard: a peer that is heard proves itself at its address.

/// Between the first answer and the next question about a peer that is not heard; then twice as long each time.
const FIRST: Duration = Duration::from_secs(1);
/// Between an answer and the next question at most.
const LONGEST: Duration = Duration::from_secs(60);

/// The name by which a peer is called, and the known addresses.
#[derive(Debug)]
pub struct Naming {
    name: Name,
    port: u16,
    /// What it had last; none before it was found.
    addresses: Vec<SocketAddr>,
    is_asking: bool,
    ask_at: Time,
    wait: Duration,
    /// Why it was not found when it was asked for last.
    failure: Option<Failure>,
}

/// Names to ask name servers for.
pub type Questions = VecDeque<(PeerId, Name)>;

impl Naming {
    /// The naming of a configured peer; `None` for a peer without a name.
    fn of(now: Time, peer: &config::Peer) -> Option<Self> {
        let Some(Endpoint::Name(name, port)) = &peer.endpoint else { return None };
        Some(Self {
            name: name.clone(),
            port: *port,
            addresses: Vec::new(),
            is_asking: false,
            ask_at: now,
            wait: FIRST,
            failure: None,
        })
    }

    /// The name and the port.
    pub fn text(&self) -> String {
        format!("{}:{}", self.name, self.port)
    }

    /// Why it was not found when it was asked for last.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The peer is heard: its name does not matter until it is not any more.
    fn rest(&mut self) {
        self.wait = FIRST;
    }

    /// When it may be asked for.
    fn due(&self) -> Option<Time> {
        (!self.is_asking).then_some(self.ask_at)
    }

    /// Takes what a question has brought; returns whether that is news.
    fn handle_outcome(&mut self, now: Time, outcome: Result<Vec<IpAddr>, Failure>) -> bool {
        self.is_asking = false;
        self.ask_at = now + self.wait;
        self.wait = (self.wait * 2).min(LONGEST);
        match outcome {
            Ok(found) => {
                let found: Vec<_> =
                    found.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect();
                let had_failed = self.failure.take().is_some();
                let is_same = found.len() == self.addresses.len()
                    && found.iter().all(|it| self.addresses.contains(it));
                if !is_same {
                    self.addresses = found;
                }
                had_failed || !is_same
            }
            // The last known addresses are as good as any.
            Err(why) => self.failure.replace(why) != Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tunnel::secure::PrivateKey;

    use super::*;
    use crate::keys::System;

    #[test]
    fn a_peer_that_moves_and_changes_its_path_all_the_time_fills_no_log() {
        let [ours, its, another] = [(); 3].map(|()| PrivateKey::generate(&mut System).unwrap());
        let rng = Rng::stream(1, "peers");
        let peers =
            Peers::new(Time::ZERO, Duration::ZERO, &ours, &[], rng, Box::new(System)).unwrap();
        let mut state = State::new(None, 1, peers, 1);
        for (name, key) in [("a", &its), ("b", &another)] {
            let keys = secure::Peer {
                public_key: key.public_key(),
                previous_key: None,
                preshared_key: None,
                endpoint: None,
                keepalive: None,
            };
            let config = config::Peer {
                name: name.to_owned(),
                public_key: key.public_key(),
                previous_public_key: None,
                preshared_key: None,
                endpoint: None,
                routes: Vec::new(),
                paths: Vec::new(),
                keepalive: None,
                parameters: nc::Config::default(),
            };
            state.add_peer(Time::ZERO, &config, &keys).unwrap();
        }
        let ids: Vec<_> = state.links().map(|link| link.peer).collect();
        let untold = |state: &State| {
            let mut links = state.links();
            [(); 2].map(|()| links.next().unwrap().complaints.untold())
        };

        for port in 1..=5_001 {
            let endpoint = (Ipv4Addr::LOCALHOST, port).into();
            let moved = secure::Event::EndpointChanged { peer: ids[0], endpoint };
            state.take_secure(Time::ZERO, moved);
        }
        for _ in 0..5_000 {
            let from = (Ipv4Addr::LOCALHOST, 1).into();
            let what = secure::Trouble::Unreadable;
            state.take_secure(Time::ZERO, secure::Event::Trouble { peer: ids[0], from, what });
            state.take_secure(Time::ZERO, secure::Event::Expired { peer: ids[0] });
        }
        let [hostile, other] = untold(&state);

        // One line of each kind in a minute, and what the other peer does is told all the same.
        assert_eq!((hostile, other), (3 * 4_999, 0));
        state.take_secure(Time::ZERO, secure::Event::Expired { peer: ids[1] });
        assert_eq!(untold(&state)[1], 0);
    }
}

#[cfg(test)]
mod naming_tests {
    use super::*;

    fn naming() -> Naming {
        Naming {
            name: "vpn.example.org".parse().unwrap(),
            port: 7,
            addresses: Vec::new(),
            is_asking: false,
            ask_at: Time::ZERO,
            wait: FIRST,
            failure: None,
        }
    }

    fn found(addresses: &[&str]) -> Result<Vec<IpAddr>, Failure> {
        Ok(addresses.iter().map(|it| it.parse().unwrap()).collect())
    }

    #[test]
    fn questions_become_rare_and_frequent_again_once_the_peer_was_heard() {
        let mut naming = naming();
        let (mut now, mut waits) = (Time::ZERO, Vec::new());

        for _ in 0..9 {
            naming.is_asking = true;
            assert_eq!(naming.due(), None);
            let _ = naming.handle_outcome(now, Err(Failure::NoAnswer));
            let due = naming.due().unwrap();
            waits.push(due.since(now).as_secs());
            now = due;
        }
        naming.rest();
        let _ = naming.handle_outcome(now, found(&["192.0.2.2"]));

        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(naming.due(), Some(now + FIRST));
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut naming = naming();
        let both = found(&["192.0.2.2", "fd00::2"]);
        let turned = found(&["fd00::2", "192.0.2.2"]);
        let (none, refused) = (Err(Failure::NoSuchName), Err(Failure::NoAnswer));

        let told: Vec<_> = [
            none.clone(),
            none.clone(),
            refused.clone(),
            both.clone(),
            turned,
            none.clone(),
            none,
            both,
            found(&["192.0.2.2"]),
        ]
        .map(|outcome| naming.handle_outcome(Time::ZERO, outcome))
        .into();

        assert_eq!(told, [true, false, true, true, false, true, false, true, true]);
        assert_eq!(naming.addresses, ["192.0.2.2:7".parse().unwrap()]);
        assert_eq!((naming.failure(), &naming.text()[..]), (None, "vpn.example.org:7"));
    }

    #[test]
    fn a_name_that_is_not_found_any_more_keeps_its_addresses() {
        let mut naming = naming();
        let _ = naming.handle_outcome(Time::ZERO, found(&["192.0.2.2"]));

        let _ = naming.handle_outcome(Time::ZERO, Err(Failure::NoAnswer));

        assert_eq!(naming.addresses, ["192.0.2.2:7".parse().unwrap()]);
        assert_eq!(naming.failure(), Some(Failure::NoAnswer));
    }
}
