//! Carries connections of programs to another gateway over IP, each over its own TCP connection between both
//! gateways.
//!
//! ```text
//!  client ══ TCP ══ initiator ══ TCP: opening, octets ═════▶ responder ══ TCP ══ server
//!                             ◀═ TCP: answer, octets ══════
//! ```
//! The connections between gateways are long paths: some are open before they are needed. Epoll tells
//! each change once, so whatever is told is worked off until nothing is left, or noted for later.

mod arrivals;
mod clients;
mod link;
mod pool;
mod relay;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use arrivals::Arrivals;
use base::ip::Prefix;
use base::time::{Time, earliest};
use clients::Clients;
use hf::hfpep::Opening;
use hf::slep::Reason;
use host::Fault;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use tracing::{debug, warn};

use super::connection::Connection;
use super::gate::Gate;
use super::is_killed;
use super::partings::Partings;
use super::status::{Gateway, Session};
use super::targets::Targets;
use super::wire::Wire;
use crate::bearer::unanswered;
use crate::config::HfPep;
use crate::config::hfpep::Far;
use crate::ends::End;
use crate::service::complaints::{Complaints, Subject};
pub use link::LinkId;
use link::{Link, Ready, SILENCE, Stage, Step};
use pool::Pool;
use relay::Relay;
use socket::Sockets;

/// Events taken from the kernel in one go.
const EVENTS: usize = 256;
/// Connections taken from the listener before others have their turn.
const ACCEPTS: usize = 64;
/// Most connections of other gateways without a program's data, from all sources together.
const MAX_ARRIVING: usize = 1024;
/// What epoll calls the listener.
const LISTENER: u64 = u64::MAX;

/// The connections to and from other gateways.
pub struct Fast {
    sockets: Sockets,
    magic: u8,
    limit: usize,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    listener: Option<TcpListener>,
    listens_at: Option<SocketAddr>,
    gate: Gate,
    /// Who may connect to it.
    from: Vec<Prefix>,
    arrivals: Arrivals,
    clients: Clients,
    /// Number of silent connections that a gateway may keep here without a time limit.
    spare: usize,
    pools: BTreeMap<SocketAddr, Pool>,
    links: BTreeMap<LinkId, Link>,
    next: u64,
    /// When to look at links; entries of links with another time now are left out.
    due: BTreeSet<(Time, LinkId)>,
    /// Links that have more to do at once.
    again: BTreeSet<LinkId>,
    relay: Relay,
    /// Outcomes of connections requested before there is a client.
    outcomes: Vec<(LinkId, Result<(), Reason>)>,
    /// Connections of programs that have ended, and whose hosts have not acknowledged all.
    partings: Partings,
    complaints: Complaints,
    stats: Stats,
}

base::counters! {
    /// Counters of connections to and from other gateways.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Stats {
        /// Connections that carry a program's data now.
        sessions: gauge(connections);
        /// Connections that are ready and carry no data now.
        spare: gauge(connections);
        /// Connections of others that have not said yet what they are for.
        arriving: gauge(connections);
        /// Sessions opened for programs here.
        sessions_opened: counter(sessions);
        /// Sessions opened on a connection that was ready.
        opened_on_spare: counter(sessions);
        /// Sessions that others opened.
        sessions_received: counter(sessions);
        /// Sessions that ended with all their data.
        sessions_finished: counter(sessions);
        /// Sessions that broke off.
        sessions_reset: counter(sessions);
        /// Sessions whose target's host had all that the client said, to the end, and the client's gateway was told.
        closes_confirmed: counter(sessions);
        /// Sessions broken because the other gateway did not keep to the protocol.
        protocol_errors: counter(sessions);
        /// Sessions refused by the far end.
        sessions_refused: counter(sessions);
        /// Sessions refused here.
        sessions_declined: counter(sessions);
        /// Sessions that did not come about here because their client's address had its share of all places.
        sessions_over_share: counter(sessions);
        /// Attempts to connect to other gateways.
        connects_tried: counter(connections);
        /// Attempts to connect to other gateways that failed.
        connects_failed: counter(connections);
        /// Connections that ended unused.
        spares_lost: counter(connections);
        /// Connections of strangers, refused.
        strangers_refused: counter(connections);
        /// Connections of others without data, broken off in favour of newer ones.
        arrivals_displaced: counter(connections);
        /// Connections of others without data, broken off for silence.
        arrivals_silent: counter(connections);
        /// Connections that began with something else than an opening.
        openings_malformed: counter(connections);
        /// Octets that programs here wrote.
        octets_written: counter(octets);
        /// Octets that programs here were given.
        octets_read: counter(octets);
    }
}

impl Stats {
    /// A link is at this stage no longer.
    fn forget(&mut self, stage: &Stage) {
        match stage {
            Stage::Arriving { .. } => self.arriving -= 1,
            Stage::Asked { .. }
            | Stage::Connecting { .. }
            | Stage::Cut { .. }
            | Stage::Held { .. }
            | Stage::Open { .. } => self.sessions -= 1,
            Stage::Refused { .. } => {}
            Stage::Spare => self.spare -= 1,
        }
    }
}

/// What another configuration needs.
pub struct Made {
    sockets: Sockets,
    listener: Option<TcpListener>,
}

impl Fast {
    /// # Errors
    /// When an address is taken or there are no descriptors left.
    pub fn open(config: &HfPep) -> anyhow::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("cannot make an epoll")?;
        let mut fast = Self {
            sockets: Sockets::new(config)?,
            magic: config.parameters.magic,
            limit: 0,
            epoll,
            events: vec![EpollEvent::empty(); EVENTS],
            listener: None,
            listens_at: None,
            gate: Gate::new(),
            from: Vec::new(),
            arrivals: Arrivals::new(MAX_ARRIVING),
            clients: Clients::default(),
            spare: 0,
            pools: BTreeMap::new(),
            links: BTreeMap::new(),
            next: 0,
            due: BTreeSet::new(),
            again: BTreeSet::new(),
            relay: Relay::new()?,
            outcomes: Vec::new(),
            partings: Partings::default(),
            complaints: Complaints::default(),
            stats: Stats::default(),
        };
        let made = fast.prepare(config)?;
        fast.follow(Time::ZERO, config, made);
        Ok(fast)
    }

    /// Makes what another configuration needs; [`Self::follow`] puts it to use.
    ///
    /// # Errors
    /// When an address is taken or there are no descriptors left; nothing has changed.
    pub fn prepare(&self, config: &HfPep) -> anyhow::Result<Made> {
        let sockets = Sockets::new(config)?;
        let mut listener = None;
        if let Some(at) = config.bearer.listen.filter(|at| Some(*at) != self.listens_at) {
            let made = sockets
                .listen(at)
                .with_context(|| format!("cannot listen on {at} for other gateways"))?;
            self.epoll
                .add(&made, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))
                .context("cannot wait for other gateways")?;
            listener = Some(made);
        }
        Ok(Made { sockets, listener })
    }

    /// Follows another configuration: existing connections of programs go on, even with gateways that are no longer
    /// peers.
    pub fn follow(&mut self, now: Time, config: &HfPep, made: Made) {
        let bearer = &config.bearer;
        let Made { sockets, listener } = made;
        self.sockets = sockets;
        if bearer.listen != self.listens_at {
            (self.listener, self.listens_at) = (listener, bearer.listen);
        } else if let Some(listener) = &self.listener {
            self.sockets.adapt(listener);
        }
        let peers = config.peers.iter().map(|it| it.far);
        let fars = peers.chain(config.listeners.iter().map(|it| it.far));
        let gateways: BTreeSet<SocketAddr> = fars.filter_map(Far::gateway).collect();
        for gateway in &gateways {
            let pool = self.pools.entry(*gateway).or_insert_with(|| Pool::new(bearer.spare));
            pool.want(bearer.spare);
        }
        self.pools.retain(|gateway, _| gateways.contains(gateway));
        let is_idle =
            |link: &Link| matches!(link.stage(), Stage::Spare) && !gateways.contains(&link.far());
        let idle = self.links.iter().filter(|(_, link)| is_idle(link)).map(|(id, _)| *id);
        for id in idle.collect::<Vec<_>>() {
            self.give_up(now, id, Reason::STOPPED);
        }
        let is_used = self.listener.is_some() || !self.pools.is_empty();
        self.limit = if is_used { socket::sessions(bearer.sessions) } else { 0 };
        self.magic = config.parameters.magic;
        self.from.clone_from(&bearer.from);
        self.spare = bearer.spare;
    }

    /// Does what is due.
    pub fn act(&mut self, now: Time, targets: &mut Targets) {
        self.partings.handle_timeout(now);
        while let Some(&(at, id)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            self.handle_silence(now, id, at, targets);
        }
        for id in std::mem::take(&mut self.again) {
            self.advance(now, id, Ready::ALL, targets);
        }
        let lacking = self.pools.iter().map(|(gateway, pool)| (*gateway, pool.lacks(now)));
        for (gateway, lacks) in lacking.collect::<Vec<_>>() {
            for _ in 0..lacks {
                let Some(id) = self.dial(now, gateway) else { break };
                if let Some(pool) = self.pools.get_mut(&gateway) {
                    pool.add(id);
                }
            }
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        if !self.again.is_empty() {
            return Some(Time::ZERO);
        }
        let retry = self.pools.values().filter_map(Pool::next_timeout).min();
        let due = earliest(self.due.first().map(|(at, _)| *at), self.partings.next_timeout());
        earliest(due, retry)
    }

    /// Takes what has come.
    pub fn handle_ready(&mut self, now: Time, targets: &mut Targets) {
        let len = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or(0);
        for at in 0..len {
            let (what, flags) = (self.events[at].data(), self.events[at].events());
            if what == LISTENER {
                self.accept(now, targets);
                continue;
            }
            let none = EpollFlags::empty();
            let ready = match what % 2 {
                0 => Ready { bearer: flags, local: none },
                _ => Ready { bearer: none, local: flags },
            };
            self.advance(now, LinkId(what / 2), ready, targets);
        }
    }

    /// Breaks all off.
    pub fn end(&mut self, now: Time) {
        for (id, link) in std::mem::take(&mut self.links) {
            self.log_broken(now, id, &link, Reason::STOPPED);
            link.abort();
        }
    }

    /// Logs a program's connection that was not ended by its programs, as far as we can tell: the reset of another
    /// gateway does not say who caused the reset.
    fn log_broken(&mut self, now: Time, id: LinkId, link: &Link, reason: Reason) {
        if !link.stage().is_session() {
            return;
        }
        let (link, in_doubt) = (id.0, link.bearer().undelivered());
        // An absent gateway has received nothing.
        if !is_killed(reason) || reason == Reason::UNREACHABLE {
            debug!(link, %reason, in_doubt, "connection broken off");
        } else if let Some(left_out) = self.complaints.admit(now, Subject::ConnectionKilled) {
            warn!(
                link,
                %reason,
                in_doubt,
                left_out,
                "connection broken off: the other gateway may lack the octets in doubt, which the program here wrote"
            );
        }
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        for link in self.links.values() {
            let (written, read) = link.octets();
            stats.octets_written += written;
            stats.octets_read += read;
        }
        stats
    }

    /// Connections of other gateways that were reset because no descriptor was left.
    pub fn turned_away(&self) -> u64 {
        self.gate.turned_away()
    }

    /// The number of connections carried for programs.
    pub fn len(&self) -> usize {
        self.sessions().count()
    }

    fn sessions(&self) -> impl Iterator<Item = &Link> {
        self.links.values().filter(|link| link.stage().is_session())
    }

    /// The oldest connections.
    pub fn status(&self, now: Time) -> impl Iterator<Item = Session> {
        self.sessions().map(move |link| link.status(now))
    }

    /// The other gateways that take no connections.
    pub fn faults(&self, now: Time) -> impl Iterator<Item = Fault> {
        let silent = self.pools.iter().filter(move |(_, pool)| pool.is_silent(now));
        silent.map(|(at, _)| {
            let key = "hfpep.peer.gateway";
            unanswered("hfpep: the gateway", *at, key, "takes no connection")
        })
    }

    /// The other gateways.
    pub fn gateways(&self) -> Vec<Gateway> {
        let gateway = |(at, pool): (&SocketAddr, &Pool)| Gateway {
            gateway: *at,
            state: if pool.is_up() { "up" } else { "down" },
            spare: pool.ready(),
        };
        self.pools.iter().map(gateway).collect()
    }

    /// Carries a client's connection to a gateway.
    ///
    /// # Errors
    /// When it cannot be; the client is given back.
    pub fn carry(
        &mut self,
        now: Time,
        gateway: SocketAddr,
        (client, address): (Wire, IpAddr),
        opening: Opening,
        confirms_close: bool,
        targets: &mut Targets,
    ) -> Result<(), Wire> {
        let Some(id) = self.find(now, gateway, address) else { return Err(client) };
        let Some(link) = self.links.get_mut(&id) else { return Err(client) };
        if self.epoll.add(&client, id.watch(false)).is_err() {
            self.drop_link(now, id);
            return Err(client);
        }
        link.ask(now, address, Connection::accepted(client), opening, self.magic, confirms_close);
        self.begin(id);
        self.advance(now, id, Ready { bearer: EpollFlags::empty(), ..Ready::ALL }, targets);
        Ok(())
    }

    /// Asks a gateway for a connection; [`Self::take_outcomes`] returns the outcome. `None` if there are too many.
    pub fn ask(
        &mut self,
        now: Time,
        gateway: SocketAddr,
        client: IpAddr,
        opening: Opening,
        confirms_close: bool,
        targets: &mut Targets,
    ) -> Option<LinkId> {
        let id = self.find(now, gateway, client)?;
        self.links.get_mut(&id)?.hold(now, client, opening, self.magic, confirms_close);
        self.begin(id);
        let none = EpollFlags::empty();
        self.advance(now, id, Ready { bearer: none, local: none }, targets);
        Some(id)
    }

    /// Takes the outcomes of requested connections.
    pub fn take_outcomes(&mut self) -> Vec<(LinkId, Result<(), Reason>)> {
        std::mem::take(&mut self.outcomes)
    }

    /// The client of an accepted connection has come.
    ///
    /// # Errors
    /// When the connection is no more; the client is given back.
    pub fn join(
        &mut self,
        now: Time,
        id: LinkId,
        client: Wire,
        targets: &mut Targets,
    ) -> Result<(), Wire> {
        let Some(link) = self.links.get_mut(&id) else { return Err(client) };
        if self.epoll.add(&client, id.watch(false)).is_err() {
            self.withdraw(now, id);
            return Err(client);
        }
        link.join(client);
        // Epoll does not report earlier events again.
        self.advance(now, id, Ready::ALL, targets);
        Ok(())
    }

    /// Finds a connection to a gateway for a client, if the client may have one.
    fn find(&mut self, now: Time, gateway: SocketAddr, client: IpAddr) -> Option<LinkId> {
        if !self.has_place(client) {
            return None;
        }
        let spare = self.pools.get_mut(&gateway).and_then(Pool::take);
        spare.or_else(|| self.dial(now, gateway))
    }

    /// A spare connection has found its use.
    fn begin(&mut self, id: LinkId) {
        let Some(link) = self.links.get(&id) else { return };
        self.stats.opened_on_spare += u64::from(!link.is_dialling());
        self.stats.sessions_opened += 1;
        self.stats.spare -= 1;
        self.stats.sessions += 1;
        self.sockets.begin(link.bearer());
        if let Some(client) = link.client() {
            self.clients.add(client);
        }
    }

    /// Gives up a connection that was asked for.
    pub fn withdraw(&mut self, now: Time, id: LinkId) {
        if let Some(link) = self.remove(now, id) {
            self.stats.sessions_reset += 1;
            link.abort();
        }
    }

    /// Begins to connect to another gateway.
    fn dial(&mut self, now: Time, gateway: SocketAddr) -> Option<LinkId> {
        self.stats.connects_tried += 1;
        let made = self.sockets.connect(gateway).ok().and_then(|stream| {
            let bearer = Connection::connecting(now, Wire::new(stream, None));
            self.add(Link::new(now, gateway, bearer, Stage::Spare, true))
        });
        if made.is_none() {
            self.stats.connects_failed += 1;
            if let Some(pool) = self.pools.get_mut(&gateway) {
                pool.fall(now, None);
            }
        }
        self.stats.spare += u64::from(made.is_some());
        made
    }

    fn add(&mut self, link: Link) -> Option<LinkId> {
        self.next += 1;
        let id = LinkId(self.next);
        self.epoll.add(link.bearer(), id.watch(true)).ok()?;
        self.links.insert(id, link);
        self.schedule(id);
        Some(id)
    }

    fn accept(&mut self, now: Time, targets: &mut Targets) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.listener else { return };
            let Some((stream, from)) = self.gate.accept(listener) else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let wire = Wire::new(stream, None);
            if !self.from.iter().any(|prefix| prefix.contains(from.ip())) {
                self.stats.strangers_refused += 1;
                wire.abort();
                continue;
            }
            let stage = Stage::Arriving { head: Vec::new(), until: now + SILENCE };
            let link = Link::new(now, from, Connection::accepted(wire), stage, false);
            if let Some(id) = self.add(link) {
                self.stats.arriving += 1;
                self.make_room(now, from, id);
                self.advance(now, id, Ready::ALL, targets);
            }
        }
    }

    /// A connection of another gateway carries nothing: if there are too many, the oldest gives way.
    fn make_room(&mut self, now: Time, from: SocketAddr, id: LinkId) {
        if let Some(oldest) = self.arrivals.add(from.ip(), id) {
            self.stats.arrivals_displaced += 1;
            self.give_up(now, oldest, Reason::NO_ROOM);
        }
    }

    /// Moves a link on as far as possible.
    fn advance(&mut self, now: Time, id: LinkId, ready: Ready, targets: &mut Targets) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let mut ready = ready;
        if link.is_dialling() {
            if ready.local.contains(EpollFlags::EPOLLERR) {
                return self.give_up(now, id, Reason::CONNECTION_RESET);
            }
            if ready.bearer.is_empty() {
                return self.schedule(id);
            }
            if let Err(reason) = link.take_answer(now) {
                debug!(%reason, "the other gateway is not there");
                self.fail_to_connect(now, id);
                return self.give_up(now, id, Reason::UNREACHABLE);
            }
            if let Some(pool) = self.pools.get_mut(&link.far()) {
                pool.rise(id);
            }
            ready = Ready::ALL;
        }
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            match link.advance(now, ready, &mut self.relay, self.magic, targets) {
                Step::Again => {
                    self.again.insert(id);
                }
                Step::Agreed => {
                    if let Some(pool) = self.pools.get_mut(&link.far()) {
                        pool.confirm();
                    }
                    self.outcomes.push((id, Ok(())));
                }
                Step::Answered => {
                    if let Some(pool) = self.pools.get_mut(&link.far()) {
                        pool.confirm();
                    }
                    ready = Ready::ALL;
                    continue;
                }
                Step::Asked(opening, rest) => {
                    self.connect(now, id, opening, rest, targets);
                }
                Step::Broken(reason) => {
                    self.stats.protocol_errors += u64::from(reason == Reason::PROTOCOL_ERROR);
                    return self.give_up(now, id, reason);
                }
                Step::Over => return self.drop_link(now, id),
                Step::Refuse(reason) => self.decline(now, id, reason),
                Step::Refused(reason) => {
                    debug!(%reason, "refused by the far end");
                    self.stats.sessions_refused += 1;
                    if reason == Reason::PROTOCOL_ERROR
                        && link.wants_confirmation()
                        && let Some(left_out) =
                            self.complaints.admit(now, Subject::CloseUnconfirmed)
                    {
                        warn!(
                            left_out,
                            "the other gateway knows of no confirm-close, and refuses connections that want \
                             it: update it, or set confirm-close = false here"
                        );
                    }
                    if let Some(pool) = self.pools.get_mut(&link.far()) {
                        pool.confirm();
                    }
                    return self.give_up(now, id, reason);
                }
                Step::Wait => {}
            }
            return self.schedule(id);
        }
    }

    /// Connects to the target that another gateway asks for.
    fn connect(
        &mut self,
        now: Time,
        id: LinkId,
        opening: Opening,
        rest: Vec<u8>,
        targets: &mut Targets,
    ) {
        let Some(link) = self.links.get(&id) else { return };
        let client = link.client_of(&opening);
        if !self.has_place(client) {
            return self.decline(now, id, Reason::NO_ROOM);
        }
        let Some(link) = self.links.get(&id) else { return };
        let end = End::gateway(link.far().ip());
        let wire = match targets.start(now, end, &opening) {
            Ok(wire) => wire,
            Err(reason) => return self.decline(now, id, reason),
        };
        if self.epoll.add(&wire, id.watch(false)).is_err() {
            return self.decline(now, id, Reason::NO_ROOM);
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        link.connect(now, Connection::connecting(now, wire), opening, rest);
        self.arrivals.remove(link.far().ip(), id);
        self.sockets.begin(link.bearer());
        self.clients.add(client);
        self.stats.arriving -= 1;
        self.stats.sessions += 1;
        self.stats.sessions_received += 1;
    }

    /// Whether there is a place for another connection of a client, which leaves some places for others.
    fn has_place(&mut self, client: IpAddr) -> bool {
        let sessions = usize::try_from(self.stats.sessions).unwrap_or(usize::MAX);
        let free = self.limit.saturating_sub(sessions);
        let has_share = self.clients.may_add(client, free);
        self.stats.sessions_over_share += u64::from(free > 0 && !has_share);
        has_share
    }

    /// Tells the other end why there is no connection.
    fn decline(&mut self, now: Time, id: LinkId, reason: Reason) {
        let Some(link) = self.links.get_mut(&id) else { return };
        debug!(%reason, "no connection for another gateway");
        self.stats.sessions_declined += 1;
        self.stats.openings_malformed += u64::from(reason == Reason::PROTOCOL_ERROR);
        self.stats.forget(link.stage());
        if let Some(client) = link.client() {
            self.clients.remove(client);
        }
        link.refuse(now, reason, self.magic);
        let from = link.far();
        self.make_room(now, from, id);
        // Epoll does not report earlier events again.
        self.again.insert(id);
    }

    /// Ends what has broken.
    fn give_up(&mut self, now: Time, id: LinkId, reason: Reason) {
        let Some(link) = self.remove(now, id) else { return };
        self.stats.sessions_reset += u64::from(link.stage().is_session());
        self.log_broken(now, id, &link, reason);
        if matches!(link.stage(), Stage::Held { .. }) {
            self.outcomes.push((id, Err(reason)));
        }
        link.abort();
    }

    /// The other gateway has not taken a connection.
    fn fail_to_connect(&mut self, now: Time, id: LinkId) {
        self.stats.connects_failed += 1;
        let link = self.links.get(&id);
        if let Some(pool) = link.and_then(|link| self.pools.get_mut(&link.far())) {
            pool.fall(now, None);
        }
    }

    /// Ends what has nothing to say any more.
    fn drop_link(&mut self, now: Time, id: LinkId) {
        if let Some(link) = self.remove(now, id) {
            self.stats.sessions_finished += u64::from(link.stage().local().is_some());
            self.stats.closes_confirmed += u64::from(link.is_confirmed());
            if let Some(local) = link.close() {
                let _ = self.epoll.delete(&local);
                self.partings.close(now, local);
            }
        }
    }

    fn remove(&mut self, now: Time, id: LinkId) -> Option<Link> {
        let link = self.links.remove(&id)?;
        if let Some(at) = link.due() {
            self.due.remove(&(at, id));
        }
        self.stats.forget(link.stage());
        if let Some(client) = link.client() {
            self.clients.remove(client);
        }
        let (written, read) = link.octets();
        self.stats.octets_written += written;
        self.stats.octets_read += read;
        self.arrivals.remove(link.far().ip(), id);
        if matches!(link.stage(), Stage::Spare)
            && let Some(pool) = self.pools.get_mut(&link.far())
        {
            pool.fall(now, Some((id, link.age(now))));
            self.stats.spares_lost += u64::from(!link.is_dialling());
        }
        Some(link)
    }

    /// What was to come until now has not.
    fn handle_silence(&mut self, now: Time, id: LinkId, at: Time, targets: &mut Targets) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.due() == Some(at)) else {
            return;
        };
        link.schedule(None);
        if link.next_timeout().is_none_or(|until| until > now) {
            return self.schedule(id);
        }
        let is_given_up = link.is_given_up(now);
        match link.stage() {
            // A spare connection, unless its source has more than that.
            Stage::Arriving { head, .. } if head.is_empty() => {
                link.stay(now);
                if self.arrivals.of(link.far().ip()) > self.spare {
                    self.stats.arrivals_silent += 1;
                    return self.give_up(now, id, Reason::UNSPECIFIED);
                }
            }
            Stage::Arriving { .. } => self.decline(now, id, Reason::PROTOCOL_ERROR),
            Stage::Asked { .. } | Stage::Held { .. } | Stage::Spare => {
                if link.is_dialling() {
                    self.fail_to_connect(now, id);
                }
                return self.give_up(now, id, Reason::UNREACHABLE);
            }
            Stage::Connecting { local } => {
                let reason = targets.handle_silence(now, (local.stage(), local.parties()));
                self.decline(now, id, reason);
            }
            Stage::Cut { .. } => return self.advance(now, id, Ready::ALL, targets),
            Stage::Refused { .. } => return self.drop_link(now, id),
            Stage::Open { .. } if !is_given_up => {
                return self.advance(now, id, Ready::ALL, targets);
            }
            // The program does not read the data from before a reset.
            Stage::Open { .. } => return self.give_up(now, id, Reason::CONNECTION_RESET),
        }
        self.schedule(id);
    }

    /// Notes when a link is to be looked at.
    fn schedule(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let next = link.next_timeout();
        let before = link.schedule(next);
        if next == before {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, id));
        }
        self.due.extend(next.map(|at| (at, id)));
    }
}

impl AsFd for Fast {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
