//! Listens for connections of clients: diverted on the way to a far network, or made to a port of ours that stands
//! for one target.
//!
//! Each rule that gives connections to HF-PEP has a listener of its own for each version of IP: the listener of a
//! diverted connection tells the kernel's decision. Connections whose SYN is held first share one listener for all
//! rules.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Context as _;
use base::ip::Prefix;
use base::time::{Time, earliest};
use host::nft::Told;
use host::{Fault, Kept, Observer, Owner};
use nix::poll::{PollFd, PollFlags};
use rules::{Counters, Decision, Handshake, Selector, Service, Verdict};
use tracing::{debug, warn};

use super::gate::Gate;
use crate::config::hfpep::{Far, Peer, Transport};
use crate::config::{HfPep, NO_RULE};
use crate::linux::divert::{Denial, Diversion, Fate, Hold, Plan, Rule, Syn, on_shore};
use crate::linux::tcp::start_listening;
use crate::reactor::has_input;

/// Connections taken from a listener before others have their turn.
const ACCEPTS: usize = 64;

/// What takes connections in.
pub struct Entry {
    observer: Arc<Observer>,
    diversion: Option<Diversion>,
    /// Without a diversion: keeps packets to targets whose network is gone from leaving in clear.
    wall: Option<Kept>,
    /// Where SYNs wait, if a rule holds any.
    hold: Option<Hold>,
    deciding: Deciding,
    listeners: Vec<Listener>,
    gate: RefCell<Gate>,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    /// The configured address, if any.
    at: Option<SocketAddr>,
    origin: Origin,
}

/// The settings for decisions on connections.
#[derive(Debug)]
struct Deciding {
    /// When clients are answered, unless their rule says.
    handshake: Handshake,
    /// The longest prefix that contains an address is the first one.
    peers: Vec<Peer>,
    /// Whether connections come by radio.
    is_by_radio: bool,
}

/// Why a connection came to one of our listeners.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// It was diverted by the rule of this name, or without a name because no rule matched.
    Diverted(Option<String>),
    /// It was diverted, and its SYN was held until the far end had accepted it.
    LetIn,
    /// The client connected to a port of ours for a single target.
    Made(Far, SocketAddr),
}

/// What has come.
#[derive(Debug, Default)]
pub struct Come {
    /// Connections.
    pub arrived: Vec<Arrived>,
    /// Held SYNs, each with the name of its rule, or without a name because no rule matched.
    pub syns: Vec<(Option<String>, Syn)>,
    /// SYNs that nobody could take.
    pub syns_dropped: u64,
}

/// A connection that a client has made.
#[derive(Debug)]
pub struct Arrived {
    pub stream: TcpStream,
    /// Who made it.
    pub client: SocketAddr,
    /// Who has the target, if anybody.
    pub far: Option<Far>,
    /// To whom.
    pub target: SocketAddr,
    pub origin: Origin,
}

impl Entry {
    /// # Errors
    /// When an address is taken or a right or program is missing, with the remedy.
    pub fn open(
        observer: &Arc<Observer>,
        config: &HfPep,
        rules: &rules::Config,
    ) -> anyhow::Result<Self> {
        let mut entry = Self {
            observer: Arc::clone(observer),
            diversion: None,
            wall: None,
            hold: None,
            deciding: Deciding { peers: Vec::new(), ..Deciding::new(config) },
            listeners: Vec::new(),
            gate: RefCell::new(Gate::new()),
        };
        entry.follow(config, rules)?;
        if entry.diversion.is_none() && entry.wall.is_none() {
            // Before a crash or another configuration there may have been one.
            host::give_up(Owner::HfPep);
        }
        Ok(entry)
    }

    /// Lets another configuration and other rules decide from now on, and returns the last connections of ports
    /// and rules that have gone. Those before are not disturbed.
    ///
    /// # Errors
    /// When an address is taken, a right or program is missing, there are no descriptors left, or `nft`
    /// refuses: nothing has changed.
    pub fn follow(
        &mut self,
        config: &HfPep,
        rules: &rules::Config,
    ) -> anyhow::Result<Vec<Arrived>> {
        let deciding = Deciding::new(config);
        let mut added = self.open_ports(config)?;
        let (mut splits, mut hold) = (Vec::new(), None);
        // Existing connections need the diversion even if no new ones are taken.
        if !deciding.peers.is_empty() || self.diversion.is_some() {
            let (plan, listeners) = self.plan(&deciding, rules)?;
            added.extend(listeners);
            let splitting = plan.rules.iter().filter(|rule| matches!(rule.fate, Fate::Split(_)));
            splits.extend(splitting.map(|rule| Origin::Diverted(named(rule.name.clone()))));
            splits.push(Origin::LetIn);
            if plan.holds() {
                hold = Some(self.hold.take().map_or_else(Hold::open, Ok)?);
            }
            let followed = match &mut self.diversion {
                Some(diversion) => diversion.follow(plan),
                None => {
                    Diversion::set_up(&self.observer, plan).map(|made| self.diversion = Some(made))
                }
            };
            if let Err(why) = followed {
                // The diversion from before is needed as before; a new one holds nothing.
                self.hold = hold.filter(|_| self.diversion.as_ref().is_some_and(Diversion::holds));
                return Err(why);
            }
        }
        self.hold = hold;
        self.follow_wall(config)?;
        let wanted: BTreeMap<SocketAddr, Origin> = made(config).collect();
        for listener in &mut self.listeners {
            if let Some(origin) = listener.at.and_then(|at| wanted.get(&at)) {
                listener.origin = origin.clone();
            }
        }
        let has_gone = |listener: &mut Listener| match listener.at {
            Some(at) => !wanted.contains_key(&at),
            None => !splits.contains(&listener.origin),
        };
        let gone: Vec<Listener> = self.listeners.extract_if(.., has_gone).collect();
        let mut arrived = Vec::new();
        for listener in &gone {
            let mut before = None;
            while before.replace(arrived.len()) != Some(arrived.len()) {
                self.accept(listener, &mut arrived);
            }
        }
        self.listeners.extend(added);
        self.deciding = deciding;
        Ok(arrived)
    }

    /// Ends the diversion when the configuration has no peer any more and no connection is left that may need it.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub fn settle(&mut self, config: &HfPep, is_idle: bool) -> anyhow::Result<()> {
        if !is_idle || !self.deciding.peers.is_empty() {
            return Ok(());
        }
        let Some(diversion) = self.diversion.take() else { return Ok(()) };
        self.wall = Some(diversion.end());
        self.hold = None;
        self.listeners.retain(|listener| listener.at.is_some());
        self.follow_wall(config)
    }

    fn follow_wall(&mut self, config: &HfPep) -> anyhow::Result<()> {
        if !config.has_targets() || self.diversion.is_some() {
            if self.wall.take().is_some() && self.diversion.is_none() {
                host::give_up(Owner::HfPep);
            }
            return Ok(());
        }
        let wall = match self.wall.take() {
            Some(wall) => wall,
            None => Kept::open_besides(&self.observer, Owner::HfPep, BTreeSet::new())?,
        };
        self.wall.insert(wall).reconciler().fence(on_shore(config.server.is_some()));
        Ok(())
    }

    /// Opens the ports of a configuration that are not open yet.
    fn open_ports(&self, config: &HfPep) -> anyhow::Result<Vec<Listener>> {
        let is_open = |at| self.listeners.iter().any(|listener| listener.at == Some(at));
        let open = |(at, origin)| {
            let socket =
                start_listening(at, false).with_context(|| format!("cannot listen on {at}"))?;
            Ok(Listener { socket, at: Some(at), origin })
        };
        made(config).filter(|(at, _)| !is_open(*at)).map(open).collect()
    }

    /// Counters of traffic blocked by the kernel, by rule; traffic that no rule matched has no name.
    pub fn blocked(&self) -> Vec<(Option<String>, Counters)> {
        let Some(diversion) = &self.diversion else { return Vec::new() };
        match diversion.blocked() {
            Ok(blocked) => blocked.into_iter().map(|(name, it)| (named(name), it)).collect(),
            Err(error) => {
                warn!(%error, "the kernel does not tell what it has blocked");
                Vec::new()
            }
        }
    }

    /// Packets that would have left in clear, and were dropped.
    pub fn dropped(&self) -> u64 {
        self.diversion.as_ref().map_or(0, |it| it.led.dropped())
            + self.wall.as_ref().map_or(0, Kept::kept_out)
    }

    /// The kernel's plan for these rules, and the listeners to add for this plan.
    fn plan(
        &self,
        deciding: &Deciding,
        rules: &rules::Config,
    ) -> anyhow::Result<(Plan, Vec<Listener>)> {
        let peers = &deciding.peers;
        let mut added = Vec::new();
        let all = (0..rules.rules.len()).map(Some).chain([None]);
        let all = all.map(|position| -> anyhow::Result<Rule> {
            let Decision { rule, verdict } = rules.decision(position, true);
            let name = rule.map(|rule| rule.name.clone());
            let fate = match verdict {
                Verdict::Block { refusal, .. } => Fate::Block(refusal),
                Verdict::Pass { service: Service::IpClient, .. } => Fate::Plain,
                Verdict::Pass { service: Service::HfPep, options } => {
                    match options.handshake(deciding.handshake) {
                        Handshake::EndToEnd => Fate::Hold,
                        Handshake::Local => Fate::Split(self.listen(
                            peers,
                            &Origin::Diverted(name.clone()),
                            &mut added,
                        )?),
                    }
                }
            };
            let selector = rule.map_or_else(Selector::default, |rule| rule.selector.clone());
            Ok(Rule { name: name.unwrap_or_else(|| NO_RULE.to_owned()), selector, fate })
        });
        let decided = all.collect::<Result<_, _>>()?;
        let plan = Plan {
            networks: rules.split.clone(),
            interfaces: rules.split_from.clone(),
            rules: decided,
            let_in: self.listen(peers, &Origin::LetIn, &mut added)?,
            is_by_radio: deciding.is_by_radio,
        };
        Ok((plan, added))
    }

    /// The ports of the listeners for connections of `origin`; new listeners are appended to `added`.
    fn listen(
        &self,
        peers: &[Peer],
        origin: &Origin,
        added: &mut Vec<Listener>,
    ) -> anyhow::Result<[u16; 2]> {
        let mut ports = [0; 2];
        let hosts: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for (port, host) in ports.iter_mut().zip(hosts) {
            let is_needed = |to: Prefix| to.address().is_ipv4() == host.is_ipv4();
            if !peers.iter().any(|peer| is_needed(peer.to)) {
                continue;
            }
            let its = self.listeners.iter().filter(|listener| listener.origin == *origin);
            let addresses = its.filter_map(|listener| listener.socket.local_addr().ok());
            let known = addresses.map(|at| (at.ip(), at.port())).find(|(ip, _)| *ip == host);
            *port = match known {
                Some((_, port)) => port,
                None => {
                    let socket = start_listening(SocketAddr::new(host, 0), true).context(
                        "cannot take others' connections: root or CAP_NET_ADMIN is needed",
                    )?;
                    let at = socket.local_addr().context("where diverted connections come in")?;
                    added.push(Listener { socket, at: None, origin: origin.clone() });
                    at.port()
                }
            };
        }
        Ok(ports)
    }

    /// When to call [`Self::handle_ready`] at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        let diversion = self.diversion.as_ref().and_then(|it| it.led.next_timeout());
        earliest(diversion, self.wall.as_ref().and_then(Kept::next_timeout))
    }

    /// The present faults, in words for an operator.
    pub fn faults(&self, now: Time) -> Vec<Fault> {
        let of_diversion = self.diversion.as_ref().map(|it| it.led.faults(now));
        let mut faults = of_diversion.unwrap_or_default();
        faults.extend(self.wall.iter().flat_map(Kept::faults));
        faults.extend(self.gate.borrow().fault());
        faults
    }

    /// How many descriptors [`Self::watch`] appends.
    pub fn watched(&self) -> usize {
        self.listeners.len()
            + usize::from(self.hold.is_some())
            + usize::from(self.diversion.is_some())
            + usize::from(self.wall.is_some())
    }

    /// Appends what to wait for.
    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let listeners = self.listeners.iter().map(|listener| listener.socket.as_fd());
        let hold = self.hold.iter().map(|hold| hold.as_fd());
        let diversion = self.diversion.iter().map(|diversion| diversion.led.as_fd());
        let wall = self.wall.iter().map(|wall| wall.as_fd());
        let all = listeners.chain(hold).chain(diversion).chain(wall);
        fds.extend(all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    }

    /// Connections that could not be taken: no descriptor was left.
    pub fn turned_away(&self) -> u64 {
        self.gate.borrow().turned_away()
    }

    /// What has come; `ready` answers [`Self::watch`].
    ///
    /// # Errors
    /// When the diversion has ended.
    pub fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<Come> {
        if let (Some(diversion), Some(last)) = (&mut self.diversion, ready.last())
            && (has_input(*last) || diversion.led.next_timeout().is_some_and(|at| at <= now))
            && let Told::Complaints(said) = diversion.handle_ready(now)?
            && !said.is_empty()
        {
            warn!(%said, "nft complains");
        }
        if let (Some(wall), Some(last)) = (&mut self.wall, ready.last()) {
            wall.handle_ready(now, *last)?;
        }
        let mut come = Come::default();
        if let (Some(hold), Some(ready)) = (&mut self.hold, ready.get(self.listeners.len()))
            && has_input(*ready)
        {
            let is_lossy = hold.read(|told| match told {
                Some((name, syn)) => come.syns.push((named(name), syn)),
                None => come.syns_dropped += 1,
            })?;
            come.syns_dropped += u64::from(is_lossy);
        }
        for (listener, ready) in self.listeners.iter().zip(ready) {
            if has_input(*ready) {
                self.accept(listener, &mut come.arrived);
            }
        }
        Ok(come)
    }

    /// Passes a held SYN on to the kernel; false if the kernel does not take the SYN.
    pub fn let_in(&self, syn: &Syn) -> bool {
        let done = self.hold.as_ref().map(|hold| hold.let_in(syn));
        done.is_some_and(|done| done.inspect_err(|error| debug!(%error, "SYN not let in")).is_ok())
    }

    /// Tells the sender of a held SYN that there is no connection.
    pub fn deny(&self, syn: &Syn, denial: Denial) {
        let Some(hold) = &self.hold else { return };
        if let Err(error) = hold.deny(syn, denial) {
            debug!(%error, "SYN not answered");
        }
    }

    fn accept(&self, listener: &Listener, arrived: &mut Vec<Arrived>) {
        for _ in 0..ACCEPTS {
            let taken = self.gate.borrow_mut().accept(&listener.socket);
            let Some((stream, client)) = taken else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (far, target) = match listener.origin {
                Origin::Made(far, target) => (Some(far), target),
                // A diverted connection has the address that it was made to.
                Origin::Diverted(_) | Origin::LetIn => match stream.local_addr() {
                    Ok(target) => (self.far_of(target), target),
                    Err(_) => continue,
                },
            };
            let origin = listener.origin.clone();
            arrived.push(Arrived { stream, client, far, target, origin });
        }
    }

    /// Who has a target.
    pub fn far_of(&self, target: SocketAddr) -> Option<Far> {
        self.deciding.peers.iter().find(|peer| peer.to.contains(target.ip())).map(|peer| peer.far)
    }
}

impl Deciding {
    fn new(config: &HfPep) -> Self {
        let mut peers = config.peers.clone();
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.to.bits()));
        Self { handshake: config.handshake, peers, is_by_radio: config.server.is_some() }
    }
}

/// The ports of a configuration to which TCP connections are made.
fn made(config: &HfPep) -> impl Iterator<Item = (SocketAddr, Origin)> {
    let tcp = config.listeners.iter().filter(|it| it.transport == Transport::Tcp);
    tcp.map(|it| (it.at, Origin::Made(it.far, it.target)))
}

/// A rule's name, none if it stands for what no rule matches.
fn named(name: String) -> Option<String> {
    Some(name).filter(|name| name != NO_RULE)
}
