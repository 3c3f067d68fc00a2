//! The TCP/NC tunnel: IP packets over one TCP connection between two gateways, coded below TCP.
//!
//! ```text
//!  Forward ─ same way as the far gateway ─▶ Entry: send buffer ─▶ TCP ─▶ layer ─▶ output
//!  Input ─ the connection's packets ─▶ layer ─▶ TCP ─▶ Exit: Deframer ─▶ input or forward
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::ip::{FlowKey, Header, protocol};
use base::rng::Rng;
use base::tcp::{Flags, Segment};
use base::time::Time;
use serde_json::json;
use tcp::tcpnc::framing::{self, Deframer};
use tcp::tcpnc::{self, wire};
use tcp::{Connection, Event, State};

use super::{Datagrams, FarEnds, Hook, Service, ServiceReport, Verdict, Way};
use crate::engine::{Engine, PacketId};
use crate::node::endpoint::{CodingReport, Endpoint};
use crate::series::Series;

/// One end of the connection.
#[derive(Debug)]
struct End {
    local: SocketAddr,
    remote: SocketAddr,
    tcp: tcp::Config,
    layer: tcpnc::Config,
    endpoint: Option<Endpoint>,
    /// For sequence numbers, and for coefficients.
    rngs: [Rng; 2],
    /// Where TCP writes segments for the layer.
    segment: Vec<u8>,
}

/// How both ends are made.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) tcp: tcp::Config,
    pub(crate) layer: tcpnc::Config,
    /// For sequence numbers, and for coefficients.
    pub(crate) rngs: [Rng; 2],
}

impl End {
    fn new(setup: Setup) -> Self {
        let Setup { local, remote, tcp, layer, rngs } = setup;
        Self { local, remote, tcp, layer, endpoint: None, rngs, segment: Vec::new() }
    }

    fn connection(&self) -> Option<&Connection> {
        self.endpoint.as_ref().map(|endpoint| &endpoint.connection)
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.endpoint.as_mut().map(|endpoint| &mut endpoint.connection)
    }

    fn start(&mut self, connection: Connection) {
        let [_, coefficients] = &mut self.rngs;
        self.endpoint = Some(Endpoint::new(connection, Some(self.layer), coefficients));
    }

    /// Whether packets of this flow belong to the connection.
    fn is_from_peer(
        &self,
        flow: &FlowKey,
        header: &Header,
        offset: usize,
        octets: &[u8],
        is_awaited: impl FnOnce(&Segment<'_>) -> bool,
    ) -> bool {
        if flow.protocol == self.layer.protocol {
            let message = wire::Message::parse(header, octets, offset).ok();
            let ends = message.map(|message| (message.destination, message.source));
            return self.endpoint.is_some() && ends == Some((self.local, self.remote));
        }
        let source = SocketAddr::new(flow.source, flow.source_port);
        let destination = SocketAddr::new(flow.destination, flow.destination_port);
        flow.protocol == protocol::TCP
            && (destination, source) == (self.local, self.remote)
            && (self.endpoint.is_some()
                || Segment::parse(header, octets, offset).is_ok_and(|it| is_awaited(&it)))
    }

    /// Takes a packet of the connection.
    fn handle(&mut self, now: Time, hook: &Hook<'_>, octets: &[u8]) -> Result<(), Malformed> {
        let (Hook::Input { header, offset, flow }, Some(endpoint)) = (hook, &mut self.endpoint)
        else {
            return Err(Malformed);
        };
        if flow.protocol == self.layer.protocol {
            let message = wire::Message::parse(header, octets, *offset).map_err(|_| Malformed)?;
            let layer = endpoint.layer.as_mut().ok_or(Malformed)?;
            layer.handle_message(now, &message);
        } else {
            let segment = Segment::parse(header, octets, *offset).map_err(|_| Malformed)?;
            endpoint.handle_segment(now, &segment);
        }
        Ok(())
    }

    fn poll_transmit(&mut self, engine: &mut Engine) -> Option<PacketId> {
        let (now, Self { endpoint, segment, .. }) = (engine.now, self);
        engine.make(|out| endpoint.as_mut().is_some_and(|it| it.poll_transmit(now, segment, out)))
    }
}

struct Malformed;

/// Where packets enter.
#[derive(Debug)]
pub struct Entry {
    end: End,
    /// When it will connect.
    next_at: Option<Time>,
    /// Report of the connection's layer, once the connection has ended.
    ended: Option<CodingReport>,
    stats: EntryStats,
    buffered: Series,
    windows: Series,
}

/// Statistics of a tunnel's entry.
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
    /// TCP statistics, up to now or to the end of the connection.
    pub tcp: tcp::Stats,
}

impl Entry {
    /// An entry that connects at once and keeps up to `points` points of each of its series.
    pub(crate) fn new(setup: Setup, points: usize) -> Self {
        Self {
            end: End::new(setup),
            next_at: Some(Time::ZERO),
            ended: None,
            stats: EntryStats::default(),
            buffered: Series::new(points),
            windows: Series::new(points),
        }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> EntryStats {
        let tcp = self.end.connection().map_or(self.stats.tcp, |open| *open.stats());
        EntryStats { tcp, ..self.stats }
    }

    /// Report of the TCP/NC layer, once there was a connection.
    #[must_use]
    pub fn layer(&self) -> Option<CodingReport> {
        let open = self.end.endpoint.as_ref().and_then(|endpoint| endpoint.layer.as_deref());
        open.map(CodingReport::of).or(self.ended)
    }

    /// Octets in the send buffer over time.
    #[must_use]
    pub fn buffered(&self) -> &[(Time, u64)] {
        self.buffered.points()
    }

    /// The congestion window over time, in octets.
    #[must_use]
    pub fn windows(&self) -> &[(Time, u64)] {
        self.windows.points()
    }

    /// Takes a packet to be carried.
    fn enter(&mut self, now: Time, packet: &[u8]) {
        let Some(connection) = self.end.connection_mut() else {
            self.stats.unconnected += 1;
            return;
        };
        if framing::write(connection, packet) {
            self.stats.packets += 1;
            self.stats.octets += packet.len() as u64;
        } else {
            self.stats.overflowed += 1;
        }
        self.sample(now);
    }

    fn drive(&mut self, now: Time) {
        let Some(connection) = self.end.connection_mut() else { return };
        while let Some(event) = connection.poll_event() {
            if event == Event::Connected {
                self.stats.established = Some(now);
            }
        }
        self.sample(now);
    }

    fn sample(&mut self, now: Time) {
        let held = self.held();
        let Some(connection) = self.end.connection() else { return };
        let window = connection.cwnd();
        self.buffered.add(now, held as u64);
        self.windows.add(now, window);
    }

    /// Octets in the send buffer.
    fn held(&self) -> usize {
        self.end.connection().map_or(0, |connection| {
            connection.config().send_buffer.saturating_sub(connection.writable())
        })
    }
}

impl Service for Entry {
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        match hook {
            Hook::Forward { is_towards } => *is_towards,
            Hook::Input { flow, header, offset } => {
                self.end.is_from_peer(flow, header, *offset, octets, |_| false)
            }
            Hook::Diverted
            | Hook::Postrouting { .. }
            | Hook::Prerouting { .. }
            | Hook::Unrouted { .. } => false,
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let octets = engine.packets.get(packet);
        if !matches!(hook, Hook::Input { .. }) {
            self.enter(engine.now, octets);
        } else if self.end.handle(engine.now, hook, octets).is_err() {
            return Verdict::Malformed;
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next_at.take_if(|at| *at <= now).is_some() {
            let End { tcp, local, remote, rngs: [numbers, _], .. } = &mut self.end;
            let connection = Connection::connect(now, *tcp, *local, *remote, numbers);
            self.end.start(connection);
        } else if let Some(endpoint) = &mut self.end.endpoint {
            endpoint.handle_timeout(now);
        }
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.drive(engine.now);
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        loop {
            if let Some(packet) = self.end.poll_transmit(engine) {
                return Some((packet, Way::Out));
            }
            if !self.end.endpoint.as_mut()?.take_segment(engine.now) {
                break;
            }
            self.drive(engine.now);
        }
        if self.end.connection()?.state() == State::Closed {
            self.ended = self.layer();
            self.stats = EntryStats { ended: Some(engine.now), ..self.stats() };
            self.end.endpoint = None;
        }
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        let endpoint = self.end.endpoint.as_ref();
        self.next_at.or_else(|| endpoint.and_then(Endpoint::next_timeout))
    }

    fn under_way(&self) -> usize {
        usize::from(self.held() > 0)
    }

    fn report(&self) -> Option<ServiceReport> {
        let EntryStats { packets, octets, overflowed, unconnected, .. } = self.stats;
        let state = json!({
            "octets": octets,
            "overflowed": overflowed,
            "packets": packets,
            "unconnected": unconnected,
        });
        Some(ServiceReport::new("tcpnc-entry", state))
    }

    fn as_datagrams(&mut self) -> Option<&mut dyn Datagrams> {
        Some(self)
    }
}

impl Datagrams for Entry {
    fn far_ends(&self) -> FarEnds {
        let mut only = Some(self.end.remote.ip());
        std::array::from_fn(|_| only.take())
    }
}

/// Where packets leave.
#[derive(Debug)]
pub struct Exit {
    end: End,
    deframer: Deframer,
    packets: VecDeque<PacketId>,
    stats: ExitStats,
}

/// Statistics of a tunnel's exit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExitStats {
    /// Packets that came out.
    pub packets: u64,
    /// Octets of those.
    pub octets: u64,
    /// Streams that were no sequence of packets, and given up.
    pub broken: u64,
    /// TCP statistics of the connection that ended last.
    pub tcp: tcp::Stats,
}

impl Exit {
    /// An exit that waits for the entry to connect.
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            end: End::new(setup),
            deframer: Deframer::default(),
            packets: VecDeque::new(),
            stats: ExitStats::default(),
        }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> ExitStats {
        let tcp = self.end.connection().map_or(self.stats.tcp, |open| *open.stats());
        ExitStats { tcp, ..self.stats }
    }

    fn accept(&mut self, now: Time, syn: &Segment<'_>) {
        let End { tcp, local, remote, rngs: [numbers, _], .. } = &mut self.end;
        let connection = Connection::accept(now, *tcp, *local, *remote, syn, numbers);
        self.deframer = Deframer::default();
        self.end.start(connection);
    }

    fn drive(&mut self, engine: &mut Engine) {
        let Self { end, deframer, packets, stats } = self;
        let Some(connection) = end.connection_mut() else { return };
        while connection.poll_event().is_some() {}
        let mut buffer = [0; 4_096];
        while let len @ 1.. = connection.read(&mut buffer) {
            let mut octets = &buffer[..len];
            while !octets.is_empty() {
                let Ok((taken, is_whole)) = deframer.handle_octets(octets) else {
                    stats.broken += 1;
                    connection.abort();
                    break;
                };
                octets = &octets[taken..];
                if is_whole {
                    let packet = engine.packets.add_copy(deframer.packet());
                    stats.packets += 1;
                    stats.octets += deframer.packet().len() as u64;
                    packets.push_back(packet);
                    deframer.next();
                }
            }
        }
        match connection.state() {
            State::CloseWait => connection.close(),
            State::Closed => stats.tcp = *connection.stats(),
            _ => {}
        }
    }
}

impl Service for Exit {
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        match hook {
            Hook::Input { flow, header, offset } => {
                self.end.is_from_peer(flow, header, *offset, octets, is_first)
            }
            Hook::Diverted
            | Hook::Forward { .. }
            | Hook::Postrouting { .. }
            | Hook::Prerouting { .. }
            | Hook::Unrouted { .. } => false,
        }
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let octets = engine.packets.get(packet);
        let taken = match (hook, &self.end.endpoint) {
            (Hook::Input { header, offset, .. }, None) => Segment::parse(header, octets, *offset)
                .map(|syn| self.accept(engine.now, &syn))
                .map_err(|_| Malformed),
            _ => self.end.handle(engine.now, hook, octets),
        };
        if taken.is_err() {
            return Verdict::Malformed;
        }
        engine.packets.remove(packet);
        Verdict::Taken
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(endpoint) = &mut self.end.endpoint {
            endpoint.handle_timeout(now);
        }
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.drive(engine);
    }

    fn poll_packet(&mut self, engine: &mut Engine) -> Option<(PacketId, Way)> {
        loop {
            if let Some(packet) = self.packets.pop_front() {
                return Some((packet, Way::Released(None)));
            }
            if let Some(packet) = self.end.poll_transmit(engine) {
                return Some((packet, Way::Out));
            }
            if !self.end.endpoint.as_mut()?.take_segment(engine.now) {
                break;
            }
            self.drive(engine);
        }
        if self.end.connection()?.state() == State::Closed {
            self.end.endpoint = None;
        }
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        self.end.endpoint.as_ref().and_then(Endpoint::next_timeout)
    }

    fn report(&self) -> Option<ServiceReport> {
        let ExitStats { packets, octets, broken, .. } = self.stats;
        let state = json!({ "broken": broken, "octets": octets, "packets": packets });
        Some(ServiceReport::new("tcpnc-exit", state))
    }
}

/// Whether a segment opens a connection.
fn is_first(segment: &Segment<'_>) -> bool {
    segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK | Flags::RST)
}
