//! Carries datagrams of programs unaware of us as messages from gateway to gateway.
//!
//! ```text
//!   octet 0       1                then            then           then
//!        +-------+----------------+----------------+-------+-------+------------
//!        | 4, 6  | source address | destination    | ports, 2 x 2  | datagram …
//!        +-------+----------------+----------------+-------+-------+------------
//! ```

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Context as _;
use base::time::Time;
use host::nft::Told;
use host::{Fault, Observer};
use nix::poll::{PollFd, PollFlags};
use sar::Source;
use tracing::{debug, warn};

use super::inbox::{Amount, Holdings};
use super::store::{Arrived, Record};
use super::{RECORD, Sar, api};
use crate::config::sar::Carry;
use crate::linux::capture::{Capture, Plan};
use crate::linux::udp::{open_capture, receive_captured, send_from};
use crate::reactor::has_input;

/// The listeners, and the capture that leads datagrams to them.
pub struct Carrier {
    config: Carry,
    listeners: Vec<UdpSocket>,
    capture: Capture,
    /// Datagrams waiting or in flight, each with its host and length.
    waiting: BTreeMap<u64, (Source, usize)>,
    by_host: Holdings,
    counters: Counters,
}

base::counters! {
    /// Counters of carried datagrams.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Counters {
        /// Datagrams taken from programs.
        carried: counter(datagrams);
        /// Datagrams dropped: no gateway has their destination, or too many wait, of all or of their host.
        carried_refused: counter(datagrams);
        /// Datagrams given to their destinations.
        carried_delivered: counter(datagrams);
        /// Datagrams of other gateways dropped: not theirs to send, or to another port.
        carried_forbidden: counter(datagrams);
        /// Datagrams that could not be given to their destinations.
        carried_failed: counter(datagrams);
    }
}

/// Datagrams taken from a socket before others have their turn.
const TURN: usize = 64;
const DATAGRAM: usize = 65_535;
/// Datagrams of others may use one part in so many of the room for waiting messages; programs have the rest.
const PART: usize = 4;

impl Carrier {
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// # Errors
    /// When rights, `nft` or something of the kernel is missing.
    pub fn open(observer: &Arc<Observer>, config: &Carry) -> anyhow::Result<Self> {
        let mut listeners = Vec::new();
        let mut ports = [0; 2];
        let families: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for (at, port) in families.into_iter().zip(&mut ports) {
            let has =
                |it: &Carry| it.peers.iter().any(|(to, _)| to.address().is_ipv4() == at.is_ipv4());
            if has(config) {
                let socket = open_capture(at).context(
                    "cannot take datagrams of others: root, or the capability CAP_NET_ADMIN, is needed",
                )?;
                *port = socket.local_addr()?.port();
                listeners.push(socket);
            }
        }
        let plan = Plan {
            networks: config.peers.iter().map(|(to, _)| *to).collect(),
            ports: config.ports.clone(),
            interfaces: config.interfaces.clone(),
            listeners: ports,
        };
        let capture = Capture::set_up(observer, plan)?;
        Ok(Self {
            config: config.clone(),
            listeners,
            capture,
            waiting: BTreeMap::new(),
            by_host: Holdings::default(),
            counters: Counters::default(),
        })
    }

    pub fn watch<'a>(&'a self, takes: bool, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(self.capture.led.as_fd(), PollFlags::POLLIN));
        let events = if takes { PollFlags::POLLIN } else { PollFlags::empty() };
        fds.extend(self.listeners.iter().map(|it| PollFd::new(it.as_fd(), events)));
    }

    /// When to call [`Sar::carry`] at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        self.capture.led.next_timeout()
    }

    /// Datagrams that would have left in clear, and were dropped.
    pub fn dropped(&self) -> u64 {
        self.capture.led.dropped()
    }

    /// The present faults, in words for an operator.
    pub fn faults(&self, now: Time) -> Vec<Fault> {
        self.capture.led.faults(now)
    }

    pub fn watched(&self) -> usize {
        1 + self.listeners.len()
    }

    /// Which gateway has an address: the longest prefix decides.
    fn gateway(&self, of: IpAddr) -> Option<IpAddr> {
        let peers = self.config.peers.iter().filter(|(to, _)| to.contains(of));
        peers.max_by_key(|(to, _)| to.bits()).map(|(_, gateway)| *gateway)
    }

    /// A message has ended: if it carried a datagram, there is room for another datagram of the same host.
    pub fn conclude(&mut self, id: u64) {
        if let Some((host, octets)) = self.waiting.remove(&id) {
            self.by_host.remove(host, octets);
        }
    }

    /// Whether a message carries a datagram.
    fn is_carried(&self, arrived: &Arrived) -> bool {
        arrived.ports.destination == self.config.port
    }

    /// Gives a datagram that another gateway has carried to its destination.
    fn deliver(&mut self, arrived: &Arrived) {
        let ends = split(&arrived.data).filter(|(from, to, _)| {
            let ports = &self.config.ports;
            let is_theirs = self.gateway(from.ip()) == Some(arrived.source);
            is_theirs && (ports.contains(&to.port()) || ports.contains(&from.port()))
        });
        let Some((from, to, datagram)) = ends else {
            self.counters.carried_forbidden += 1;
            return;
        };
        match send_from(from, to, datagram) {
            Ok(()) => self.counters.carried_delivered += 1,
            Err(error) => {
                debug!(%error, "a datagram is not delivered");
                self.counters.carried_failed += 1;
            }
        }
    }
}

fn emit(from: SocketAddr, to: SocketAddr, datagram: &[u8], out: &mut Vec<u8>) {
    out.push(if from.is_ipv4() { 4 } else { 6 });
    for end in [from, to] {
        match end.ip() {
            IpAddr::V4(v4) => out.extend(v4.octets()),
            IpAddr::V6(v6) => out.extend(v6.octets()),
        }
    }
    out.extend(from.port().to_be_bytes());
    out.extend(to.port().to_be_bytes());
    out.extend_from_slice(datagram);
}

fn split(octets: &[u8]) -> Option<(SocketAddr, SocketAddr, &[u8])> {
    let (version, rest) = octets.split_first()?;
    let (from, to, rest): (IpAddr, IpAddr, _) = match version {
        4 => {
            let (from, rest) = rest.split_first_chunk::<4>()?;
            let (to, rest) = rest.split_first_chunk::<4>()?;
            (Ipv4Addr::from(*from).into(), Ipv4Addr::from(*to).into(), rest)
        }
        6 => {
            let (from, rest) = rest.split_first_chunk::<16>()?;
            let (to, rest) = rest.split_first_chunk::<16>()?;
            (Ipv6Addr::from(*from).into(), Ipv6Addr::from(*to).into(), rest)
        }
        _ => return None,
    };
    let (source, rest) = rest.split_first_chunk()?;
    let (destination, rest) = rest.split_first_chunk()?;
    let port = |it: &[u8; 2]| u16::from_be_bytes(*it);
    Some((SocketAddr::new(from, port(source)), SocketAddr::new(to, port(destination)), rest))
}

impl Sar {
    /// Takes datagrams of programs; `ready` answers [`Carrier::watch`].
    ///
    /// # Errors
    /// When nothing is led here any more.
    pub fn carry(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()> {
        let Some(carrier) = &mut self.carrier else { return Ok(()) };
        let is_due = ready.first().is_some_and(|it| has_input(*it))
            || carrier.capture.led.next_timeout().is_some_and(|at| at <= now);
        if is_due
            && let Told::Complaints(said) = carrier.capture.handle_ready(now)?
            && !said.is_empty()
        {
            warn!(%said, "the table of datagrams that are carried");
        }
        let mut taken = Vec::new();
        let mut buffer = vec![0; DATAGRAM];
        for (listener, ready) in carrier.listeners.iter().zip(ready.iter().skip(1)) {
            for _ in 0..if has_input(*ready) { TURN } else { 0 } {
                match receive_captured(listener, &mut buffer) {
                    Ok((length, from, to)) => taken.push((from, to, buffer[..length].to_vec())),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => {}
                }
            }
        }
        for (from, to, datagram) in taken {
            let is_taken = self.carry_one(now, from, to, &datagram);
            if let Some(carrier) = &mut self.carrier {
                carrier.counters.carried += u64::from(is_taken);
                carrier.counters.carried_refused += u64::from(!is_taken);
            }
        }
        Ok(())
    }

    /// Makes a message of a datagram; false if it is dropped.
    fn carry_one(&mut self, now: Time, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> bool {
        let Some(carrier) = &self.carrier else { return false };
        let Some(gateway) = carrier.gateway(to.ip()) else { return false };
        let limits = &self.config.parameters.limits;
        let most = Amount { messages: limits.waiting, octets: limits.waiting_octets };
        let host = Source::of(from.ip());
        if !carrier.by_host.admits(host, most.part(PART), &Holdings::default()) {
            return false;
        }
        let mut data = Vec::new();
        emit(from, to, datagram, &mut data);
        if self.store.room() < data.len() as u64 + RECORD {
            return false;
        }
        let port = carrier.config.port;
        let send = api::Send {
            to: vec![gateway],
            port,
            from_port: port,
            precedence: 0,
            lifetime: Some(carrier.config.lifetime.as_secs_f64()),
            acknowledged: true,
            via: None,
            name: String::new(),
            tag: None,
            octets: data.len(),
        };
        let octets = data.len();
        match self.submit(now, send, data.into()) {
            Ok((id, _)) => {
                if let Some(carrier) = &mut self.carrier {
                    carrier.waiting.insert(id, (host, octets));
                    carrier.by_host.add(host, octets);
                }
                true
            }
            Err(why) => {
                debug!(%why, "a datagram is not carried");
                false
            }
        }
    }

    /// Delivers a stored message to its destination if it carries a datagram; returns whether it does.
    pub fn deliver_carried(&mut self, number: u64) -> bool {
        let Some(carrier) = &mut self.carrier else { return false };
        let Some(arrived) = self.inbox.take_if(number, |it| carrier.is_carried(it)) else {
            return false;
        };
        carrier.deliver(&arrived);
        self.store.push(&Record::Taken(number));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_split_as_it_was_put_together() {
        for (from, to) in [("10.1.0.5:5000", "10.2.0.9:514"), ("[fd01::5]:5000", "[fd02::9]:514")] {
            let ends = (from.parse().unwrap(), to.parse().unwrap());
            let mut octets = Vec::new();
            emit(ends.0, ends.1, b"hello", &mut octets);

            assert_eq!(split(&octets), Some((ends.0, ends.1, &b"hello"[..])));
            for end in 0..octets.len() - 5 {
                assert_eq!(split(&octets[..end]), None, "{end} octets");
            }
        }
        assert_eq!(split(b"\x05hello"), None);
    }
}
