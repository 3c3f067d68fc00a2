//! UDP in direct mode: ports of ours that stand for targets behind other nodes, and sockets towards targets here.
//!
//! ```text
//!   clients ⇄ port, one for each [[hfpep.listen]] ─▶ rules ─▶ HfPep ~~~ other nodes
//!   targets ⇄ socket, one for each flow ◀─ admission ◀──────── HfPep ~~~ other nodes
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use base::counter::Counters as Counted;
use base::time::Time;
use hf::hfpep::Target;
use hf::hfpep::flows::wire::Opening;
use hf::hfpep::flows::{Arrived, Client, FlowId};
use hf::s5066::Address;
use hf::slep::{Delivery, Reason};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rules::{Service, Verdict};
use tracing::debug;

use super::Pep;
use super::connection::reason_of;
use super::wire::is_passing;
use crate::config::HfPep;
use crate::config::hfpep::{Far, Transport};
use crate::ends::End;
use crate::linux::udp::{open, open_to_target};

/// Datagrams taken from a socket before others have their turn.
const READS: usize = 64;
/// Events taken from the kernel in one go.
const EVENTS: usize = 256;

/// The UDP sockets, and epoll to find the readable ones.
#[derive(Debug)]
pub struct Udp {
    epoll: Epoll,
    /// By number. Flows know their port by its number, so a number is not used twice at the same time.
    ports: BTreeMap<u16, Port>,
    sockets: BTreeMap<FlowId, Socket>,
    /// Borrowed addresses of clients, each with the target.
    borrowed: BTreeSet<(SocketAddr, SocketAddr)>,
    events: Vec<EpollEvent>,
    counters: Counters,
}

/// A port that stands for a target.
#[derive(Debug)]
pub struct Port {
    at: SocketAddr,
    socket: UdpSocket,
    of: Behind,
}

/// What a port stands for.
#[derive(Clone, Copy, Debug)]
struct Behind {
    peer: Address,
    target: SocketAddr,
    is_reliable: bool,
}

/// A socket towards a target.
#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    target: SocketAddr,
    /// Client and target, if the client's address is borrowed.
    borrows: Option<(SocketAddr, SocketAddr)>,
}

base::counters! {
    /// Counters of datagrams of UDP.
    #[derive(Debug, Default)]
    struct Counters {
        /// Datagrams of clients dropped: a rule.
        udp_refused: counter(datagrams);
        /// Answers that could not be given to their client.
        udp_clients_failed: counter(answers);
        /// Datagrams that a target did not take, and reports of a target that nobody listens there.
        udp_targets_failed: counter(datagrams);
        /// Flows of other nodes without a socket: no descriptor, or no way to the target.
        udp_sockets_failed: counter(flows);
    }
}

/// Who is ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ready {
    Port(u16),
    Target(FlowId),
}

impl Udp {
    /// # Errors
    /// When an address is taken, or there are no descriptors left.
    pub fn open(config: &HfPep) -> anyhow::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("cannot make an epoll")?;
        let mut udp = Self {
            epoll,
            ports: BTreeMap::new(),
            sockets: BTreeMap::new(),
            borrowed: BTreeSet::new(),
            events: vec![EpollEvent::empty(); EVENTS],
            counters: Counters::default(),
        };
        let added = udp.open_ports(config)?;
        udp.follow(config, added);
        Ok(udp)
    }

    /// Opens the ports of another configuration that are not open yet.
    ///
    /// # Errors
    /// When an address is taken, or there are no descriptors left; nothing has changed.
    pub fn open_ports(&self, config: &HfPep) -> anyhow::Result<BTreeMap<u16, Port>> {
        let mut added: BTreeMap<u16, Port> = BTreeMap::new();
        for (at, of) in ports(config) {
            if self.ports.values().any(|port| port.at == at) {
                continue;
            }
            let socket = open(at).with_context(|| format!("cannot take datagrams at {at}"))?;
            let is_free = |it: &u16| !self.ports.contains_key(it) && !added.contains_key(it);
            let number = (0..u16::MAX).find(is_free).context("too many ports")?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, Ready::Port(number).data());
            self.epoll.add(&socket, event).with_context(|| format!("cannot wait for {at}"))?;
            added.insert(number, Port { at, socket, of });
        }
        Ok(added)
    }

    /// Follows another configuration, with the ports that were opened for it.
    pub fn follow(&mut self, config: &HfPep, added: BTreeMap<u16, Port>) {
        let wanted: BTreeMap<SocketAddr, Behind> = ports(config).collect();
        self.ports.extend(added);
        self.ports.retain(|_, port| match wanted.get(&port.at) {
            Some(of) => {
                port.of = *of;
                true
            }
            None => false,
        });
    }

    pub fn counters(&self) -> &impl Counted {
        &self.counters
    }

    /// Whether any socket has a borrowed address.
    pub fn borrows(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// A flow is no more.
    pub fn end(&mut self, flow: FlowId) {
        if let Some(Socket { borrows: Some(ends), .. }) = self.sockets.remove(&flow) {
            self.borrowed.remove(&ends);
        }
    }

    fn ready(&mut self) -> Vec<Ready> {
        let len = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or(0);
        self.events[..len].iter().map(|event| Ready::of(event.data())).collect()
    }

    /// Opens the socket of a flow; `source` is the client's address if it is to be borrowed.
    fn connect(
        &mut self,
        flow: FlowId,
        source: Option<SocketAddr>,
        to: SocketAddr,
    ) -> io::Result<()> {
        let borrows = source.map(|source| (source, to));
        let mut source = source;
        if let Some(source) = &mut source
            && self.borrowed.contains(&(*source, to))
        {
            // The kernel could not tell whose the answers are.
            source.set_port(0);
        }
        let socket = open_to_target(source, to)?;
        self.epoll
            .add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, Ready::Target(flow).data()))?;
        let borrows = borrows.filter(|ends| self.borrowed.insert(*ends));
        self.sockets.insert(flow, Socket { socket, target: to, borrows });
        Ok(())
    }

    /// Gives a datagram to the target of a flow.
    fn deliver(&mut self, flow: FlowId, data: &[u8]) {
        let Some(Socket { socket, .. }) = self.sockets.get(&flow) else { return };
        let mut sent = socket.send(data);
        if matches!(&sent, Err(error) if !is_passing(error)) {
            // The error belongs to the previous datagram, and this datagram was not sent.
            self.counters.udp_targets_failed += 1;
            sent = socket.send(data);
        }
        self.counters.udp_targets_failed += u64::from(sent.is_err());
    }

    /// Gives an answer to its client, from the port that it had asked.
    fn give(&mut self, client: Client, data: &[u8]) {
        let port = self.ports.get(&client.entrance);
        let sent = port.map(|port| port.socket.send_to(data, client.address));
        self.counters.udp_clients_failed += u64::from(!matches!(sent, Some(Ok(_))));
    }
}

/// The ports of a configuration.
fn ports(config: &HfPep) -> impl Iterator<Item = (SocketAddr, Behind)> {
    config.listeners.iter().filter_map(|listener| match (listener.transport, listener.far) {
        (Transport::Udp { is_reliable }, Far::Node(peer)) => {
            Some((listener.at, Behind { peer, target: listener.target, is_reliable }))
        }
        _ => None,
    })
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

impl Ready {
    /// As epoll keeps it: the lowest bit tells a flow from a port.
    fn data(self) -> u64 {
        match self {
            Self::Port(number) => u64::from(number) << 1,
            Self::Target(FlowId(id)) => id << 1 | 1,
        }
    }

    fn of(data: u64) -> Self {
        match u16::try_from(data >> 1) {
            Ok(number) if data & 1 == 0 => Self::Port(number),
            _ => Self::Target(FlowId(data >> 1)),
        }
    }
}

impl Pep {
    /// Takes what clients and targets here have sent.
    pub fn take_datagrams(&mut self, now: Time) {
        let mut data = std::mem::take(&mut self.received);
        for ready in self.udp.ready() {
            for _ in 0..READS {
                let has_more = match ready {
                    Ready::Port(number) => self.take_from_client(now, number, &mut data),
                    Ready::Target(flow) => self.take_from_target(now, flow, &mut data),
                };
                if !has_more {
                    break;
                }
            }
        }
        self.received = data;
    }

    /// Takes a datagram of a client, if any; returns whether there may be more.
    fn take_from_client(&mut self, now: Time, number: u16, data: &mut [u8]) -> bool {
        let Some(port) = self.udp.ports.get(&number) else { return false };
        let (len, address) = match port.socket.recv_from(data) {
            Ok(received) => received,
            // An error about a client that an answer did not reach.
            Err(error) => return !is_passing(&error),
        };
        let Behind { peer, target, is_reliable } = port.of;
        let client = Client { peer, entrance: number, address, target };
        match self.delivery(now, client, len, is_reliable) {
            Some(delivery) => {
                let sent = self.pep.send_datagram(now, client, delivery, &data[..len]);
                if let Err(why) = sent {
                    debug!(%why, "a client's datagram is not carried");
                }
            }
            None => self.udp.counters.udp_refused += 1,
        }
        true
    }

    /// How the rules want a datagram to be carried; `None` if it is not.
    fn delivery(
        &mut self,
        now: Time,
        client: Client,
        len: usize,
        is_reliable: bool,
    ) -> Option<Delivery> {
        let decision = self.rules.decide_datagram(now, client.address, client.target, len);
        match decision.verdict {
            Verdict::Pass { service: Service::HfPep, options } => Some(Delivery {
                priority: options.priority.unwrap_or(Delivery::default().priority),
                is_reliable,
                is_compressed: options.compression.unwrap_or(true),
                lifetime: options
                    .ttl
                    .filter(|ttl| !ttl.is_zero())
                    .unwrap_or(self.config.parameters.flows.lifetime),
            }),
            Verdict::Pass { service: Service::IpClient, .. } | Verdict::Block { .. } => None,
        }
    }

    /// Takes an answer of a target, if any; returns whether there may be more.
    fn take_from_target(&mut self, now: Time, flow: FlowId, data: &mut [u8]) -> bool {
        let Some(Socket { socket, target, .. }) = self.udp.sockets.get(&flow) else { return false };
        match socket.recv_from(data) {
            // It came before the kernel knew whom the socket is for.
            Ok((_, from)) if from != *target => true,
            Ok((len, _)) => {
                if let Err(why) = self.pep.answer(now, flow, &data[..len]) {
                    debug!(%why, "a target's answer is not carried");
                }
                true
            }
            Err(error) if is_passing(&error) => false,
            Err(_) => {
                self.udp.counters.udp_targets_failed += 1;
                true
            }
        }
    }

    /// Gives received datagrams to clients and targets here.
    pub fn give_datagrams(&mut self, now: Time) {
        while let Some(arrived) = self.pep.poll_datagram(now) {
            match arrived {
                Arrived::Answer { client, data } => self.udp.give(client, &data),
                Arrived::Request { flow, from, opening, data } => {
                    if !self.udp.sockets.contains_key(&flow)
                        && let Err(reason) = self.connect_flow(now, flow, from, opening)
                    {
                        self.pep.refuse(now, flow, reason);
                        continue;
                    }
                    self.udp.deliver(flow, &data);
                }
            }
        }
    }

    /// Opens the socket of a flow that another node asks for, if it may.
    fn connect_flow(
        &mut self,
        now: Time,
        flow: FlowId,
        from: Address,
        opening: Opening,
    ) -> Result<(), Reason> {
        let Opening { source, destination, .. } = opening;
        let target = Target::Address { source, destination };
        let source = self.targets.admit(now, End::Node(from), &target)?;
        let to = SocketAddr::new(destination.ip().to_canonical(), destination.port());
        self.udp.connect(flow, source, to).map_err(|error| {
            debug!(%error, "no socket towards a target");
            self.udp.counters.udp_sockets_failed += 1;
            reason_of(&error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_flows_are_told_apart_whatever_their_numbers() {
        for ready in [
            Ready::Port(0),
            Ready::Port(u16::MAX),
            Ready::Target(FlowId(0)),
            Ready::Target(FlowId(1)),
            Ready::Target(FlowId(1 << 40)),
        ] {
            assert_eq!(Ready::of(ready.data()), ready);
        }
    }
}
