//! IP packets over a TCP connection between two gateways: the ends of the TCP/NC tunnel.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use proto::tcp::{self, Connection, Event, State};
use proto::tcpnc::framing::{self, Deframer};
use proto::time::Time;

use crate::series::Series;

/// Where packets enter.
#[derive(Debug)]
pub struct Entry {
    port: u16,
    destination: SocketAddr,
    tcp: tcp::Config,
    local: Option<IpAddr>,
    /// When it will connect.
    next_at: Option<Time>,
    stats: EntryStats,
    buffered: Series,
    windows: Series,
}

/// What happened at an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EntryStats {
    /// Packets put into the send buffer.
    pub packets: u64,
    /// Octets of those.
    pub octets: u64,
    /// Packets dropped because the send buffer had no room for them.
    pub overflowed: u64,
    /// Packets dropped because there was no connection.
    pub unconnected: u64,
    /// When the connection was established.
    pub established: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// What its TCP counted, up to now or to the end.
    pub tcp: tcp::Stats,
}

impl Entry {
    /// An entry that connects to `destination` at once and keeps up to `points` points of each of
    /// its series.
    pub(crate) fn new(port: u16, destination: SocketAddr, tcp: tcp::Config, points: usize) -> Self {
        Self {
            port,
            destination,
            tcp,
            local: None,
            next_at: Some(Time::ZERO),
            stats: EntryStats::default(),
            buffered: Series::new(points),
            windows: Series::new(points),
        }
    }

    /// Takes a packet to carry.
    pub(crate) fn handle_packet(
        &mut self,
        now: Time,
        connection: Option<&mut Connection>,
        packet: &[u8],
    ) {
        let Some(connection) = connection else {
            self.stats.unconnected += 1;
            return;
        };
        if framing::write(connection, packet) {
            self.stats.packets += 1;
            self.stats.octets += packet.len() as u64;
        } else {
            self.stats.overflowed += 1;
        }
        self.sample(now, connection);
    }

    pub(crate) fn poll_connect(
        &mut self,
        now: Time,
    ) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        let local = SocketAddr::new(self.local?, self.port);
        self.next_at.take_if(|at| *at <= now)?;
        Some((local, self.destination, self.tcp))
    }

    pub(crate) fn drive(&mut self, now: Time, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            if event == Event::Connected {
                self.stats.established = Some(now);
            }
        }
        self.sample(now, connection);
        if connection.state() == State::Closed && self.stats.ended.is_none() {
            self.stats.ended = Some(now);
            self.stats.tcp = *connection.stats();
        }
    }

    /// What happened so far; of the TCP only once the connection has ended.
    pub(crate) fn stats(&self) -> &EntryStats {
        &self.stats
    }

    /// Octets in the send buffer over time.
    pub(crate) fn buffered(&self) -> &[(Time, u64)] {
        self.buffered.points()
    }

    /// The congestion window over time, in octets.
    pub(crate) fn windows(&self) -> &[(Time, u64)] {
        self.windows.points()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next_at
    }

    pub(crate) fn bind(&mut self, local: IpAddr) {
        self.local = Some(local);
    }

    pub(crate) fn unbound_to(&self) -> Option<IpAddr> {
        self.local.is_none().then_some(self.destination.ip())
    }

    fn sample(&mut self, now: Time, connection: &Connection) {
        let held = connection.config().send_buffer.saturating_sub(connection.writable());
        self.buffered.add(now, held as u64);
        self.windows.add(now, connection.cwnd());
    }
}

/// Where packets leave.
#[derive(Debug)]
pub struct Exit {
    port: u16,
    tcp: tcp::Config,
    deframer: Deframer,
    packets: VecDeque<Vec<u8>>,
    stats: ExitStats,
}

/// What happened at an exit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExitStats {
    /// Packets that came out.
    pub packets: u64,
    /// Octets of those.
    pub octets: u64,
    /// Streams that were no sequence of packets, and given up.
    pub broken: u64,
    /// What its TCP counted, of the connection that ended last.
    pub tcp: tcp::Stats,
}

impl Exit {
    pub(crate) fn new(port: u16, tcp: tcp::Config) -> Self {
        Self {
            port,
            tcp,
            deframer: Deframer::default(),
            packets: VecDeque::new(),
            stats: ExitStats::default(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn accept(&mut self) -> tcp::Config {
        self.deframer = Deframer::default();
        self.tcp
    }

    pub(crate) fn drive(&mut self, connection: &mut Connection) {
        while connection.poll_event().is_some() {}
        let mut buffer = [0; 4_096];
        while let len @ 1.. = connection.read(&mut buffer) {
            if self.take(&buffer[..len]).is_err() {
                self.stats.broken += 1;
                connection.abort();
            }
        }
        match connection.state() {
            State::CloseWait => connection.close(),
            State::Closed => self.stats.tcp = *connection.stats(),
            _ => {}
        }
    }

    /// The next packet that came out.
    pub(crate) fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }

    pub(crate) fn stats(&self) -> &ExitStats {
        &self.stats
    }

    fn take(&mut self, mut octets: &[u8]) -> Result<(), framing::EmptyPacket> {
        while !octets.is_empty() {
            let (taken, is_whole) = self.deframer.handle_octets(octets)?;
            octets = &octets[taken..];
            if is_whole {
                let packet = self.deframer.packet().to_vec();
                self.stats.packets += 1;
                self.stats.octets += packet.len() as u64;
                self.packets.push_back(packet);
                self.deframer.next();
            }
        }
        Ok(())
    }
}
