//! HF frequencies in a network: hosts whose packets travel as datagrams of STANAG 5066.
//!
//! ```text
//!  Node ─▶ interface hf0 ─▶ IpClient ⇄ s5066::Node ⇄ Medium ⇄ s5066::Node ⇄ IpClient ─▶ Node
//!          (no queue)       (queue)   └──────────────── hf::Net ────────┘
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::{fs, io};

use proto::ipclient::{self, IpClient};
use proto::rng::Rng;
use proto::s5066::node::{self, Record};
use proto::s5066::sis::ClientId;
use proto::s5066::{Address, Node};
use proto::time::{Time, earliest};

use super::{NodeId, World, small};
use crate::capture::{Capture, Direction, LinkType};
use crate::counters::PortCounters;
use crate::engine::{Aloft, Kind, Medium, PacketId, Port, Sequence};
use crate::hf::{self, Net, StationId};
use crate::ids::{HfId, PortId};
use crate::node::{Interface, InterfaceConfig, NextHop, Prefix, Route};

/// A station on a frequency, and the host that sends IP over it.
#[derive(Clone, Debug)]
pub struct HfStation {
    /// The host, which gets an interface.
    pub host: NodeId,
    /// The STANAG 5066 node.
    pub node: node::Config,
    /// The IP client; routes to the other stations are added.
    pub client: ipclient::Config,
    /// What others reach through it, beside the host's address on this frequency.
    pub behind: Vec<Prefix>,
    /// The interface.
    pub interface: InterfaceConfig,
}

impl HfStation {
    /// A station with nothing behind it and an MTU of 1,500.
    #[must_use]
    pub fn new(host: NodeId, node: node::Config) -> Self {
        Self {
            host,
            node,
            client: ipclient::Config::new(Vec::new()),
            behind: Vec::new(),
            interface: InterfaceConfig::default(),
        }
    }
}

/// Something that a station did or heard on the air.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HfRecord {
    /// Who.
    pub station: StationId,
    /// What.
    pub record: Record,
}

/// Records that are kept at most.
const MAX_RECORDS: usize = 1 << 20;

/// A frequency at work.
#[derive(Debug)]
pub(super) struct Frequency {
    net: Net,
    ends: Vec<End>,
    sequence: Sequence,
    /// When the wake-up comes; `None` when none is on its way.
    wake: Option<Time>,
    /// Whether something was handed in since the last exchange.
    is_touched: bool,
    /// The file, and each station's interface in it.
    capture: Option<(Capture, Vec<u32>)>,
    records: Option<VecDeque<HfRecord>>,
    buffer: Vec<u8>,
}

/// Where a host and its station meet.
#[derive(Debug)]
struct End {
    port: PortId,
    client: IpClient,
    id: Option<ClientId>,
}

impl World {
    /// Adds a frequency with these stations.
    ///
    /// Of frequency `n`, station `s` (from 0) gets the addresses `10.255.n.(s + 1)` and
    /// `fd00:ffff:n::(s + 1)`; all stations get routes to each other, and to what is behind each.
    pub fn add_hf(&mut self, config: hf::Config, stations: Vec<HfStation>) -> HfId {
        let index = self.hf.len();
        let now = self.engine.now;
        let name = format!("hf {index}");
        let seed = Rng::stream(self.seed, &name).bits();
        let medium = hf::Medium::new(config, stations.len(), seed);
        let reached: Vec<(Address, Vec<Prefix>)> = stations
            .iter()
            .enumerate()
            .map(|(number, station)| {
                let own = addresses(index, number).map(Prefix::host);
                (station.node.address, own.into_iter().chain(station.behind.clone()).collect())
            })
            .collect();

        let (mut nodes, mut ends) = (Vec::new(), Vec::new());
        for (number, station) in stations.into_iter().enumerate() {
            let HfStation { host, node, mut client, interface, .. } = station;
            let port = self.add_hf_interface(host, index, number, interface);
            let others = reached.iter().enumerate().filter(|(other, _)| *other != number);
            for (_, (to, prefixes)) in others {
                for prefix in prefixes {
                    let next = NextHop {
                        interface: self.engine.ports[port.index()].interface,
                        neighbour: port,
                    };
                    let route = Route { prefix: *prefix, metric: 0, next };
                    self.nodes[host.index()].table.add(route);
                    let prefix = ipclient::Prefix::new(prefix.address(), prefix.len());
                    let prefix = prefix.expect("a prefix is no longer than an address");
                    client.routes.push(ipclient::Route { prefix, to: *to });
                }
            }
            client.addresses.extend(addresses(index, number));
            let rng = Rng::stream(seed, &format!("node {number}"));
            nodes.push(Node::new(now, node, rng));
            ends.push(End { port, client: IpClient::new(now, client), id: None });
        }
        self.hf.push(Frequency {
            net: Net::new(medium, nodes),
            ends,
            sequence: Sequence::of_hf(index),
            wake: None,
            is_touched: true,
            capture: None,
            records: None,
            buffer: Vec::new(),
        });
        self.settle_hf();
        HfId(small(index))
    }

    /// Changes one direction between two stations.
    pub fn set_hf_channel(
        &mut self,
        hf: HfId,
        from: StationId,
        to: StationId,
        channel: hf::Channel,
    ) {
        self.hf[hf.index()].net.medium_mut().set_channel(from, to, channel);
    }

    /// Keeps from now on what stations do and hear, for [`World::poll_hf_record`].
    pub fn record_hf(&mut self, hf: HfId) {
        let frequency = &mut self.hf[hf.index()];
        frequency.records.get_or_insert_default();
        frequency.record(self.engine.now);
    }

    /// The next record of those that are kept, up to about a million.
    pub fn poll_hf_record(&mut self, hf: HfId) -> Option<HfRecord> {
        self.hf[hf.index()].records.as_mut()?.pop_front()
    }

    /// Captures the D_PDUs that stations send and hear into `folder`/`hf-n.pcapng`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn capture_hf(&mut self, hf: HfId, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut capture = Capture::create(&folder.join(format!("hf-{}.pcapng", hf.index())))?;
        let frequency = &self.hf[hf.index()];
        let names = frequency.ends.iter().map(|end| {
            let host = self.name(self.node_of(end.port));
            capture.add_interface(host, LinkType::DPdu)
        });
        let interfaces = names.collect();
        let frequency = &mut self.hf[hf.index()];
        frequency.capture = Some((capture, interfaces));
        frequency.record(self.engine.now);
        Ok(())
    }

    /// The nodes and the medium of a frequency.
    #[must_use]
    pub fn hf(&self, hf: HfId) -> &Net {
        &self.hf[hf.index()].net
    }

    /// The IP client of a station.
    #[must_use]
    pub fn hf_client(&self, hf: HfId, station: StationId) -> &IpClient {
        &self.hf[hf.index()].ends[station.0].client
    }

    /// The port of a station's host on the frequency.
    #[must_use]
    pub fn hf_port(&self, hf: HfId, station: StationId) -> PortId {
        self.hf[hf.index()].ends[station.0].port
    }

    /// Does what is due on a frequency.
    pub(super) fn wake_hf(&mut self, net: usize) {
        let now = self.engine.now;
        let frequency = &mut self.hf[net];
        if frequency.wake != Some(now) {
            // A later one took its place.
            return;
        }
        frequency.wake = None;
        frequency.is_touched = true;
        frequency.net.handle_timeout(now);
        for End { client, .. } in &mut frequency.ends {
            if client.next_timeout().is_some_and(|at| at <= now) {
                client.handle_timeout(now);
            }
        }
    }

    /// Exchanges packets between hosts and stations until nothing is left to do at this instant.
    pub(super) fn settle_hf(&mut self) {
        if self.hf.is_empty() {
            return;
        }
        loop {
            while let Some(Aloft { net, station, packet }) = self.engine.aloft.pop_front() {
                let frequency = &mut self.hf[net];
                let octets = self.engine.packets.get(packet);
                frequency.ends[station].client.handle_packet(self.engine.now, octets);
                frequency.is_touched = true;
                self.engine.packets.remove(packet);
            }
            let Some(net) = self.hf.iter().position(|frequency| frequency.is_touched) else {
                return;
            };
            self.exchange(net);
        }
    }

    fn exchange(&mut self, net: usize) {
        let now = self.engine.now;
        let frequency = &mut self.hf[net];
        frequency.is_touched = false;
        frequency.exchange(now);
        for station in 0..self.hf[net].ends.len() {
            while let Some((port, packet)) = self.take_packet(net, station) {
                let Port { node, interface, .. } = self.engine.ports[port.index()];
                let node = &mut self.nodes[node.index()];
                node.handle_arrival(&mut self.engine, interface, port, packet);
            }
        }
        let frequency = &mut self.hf[net];
        frequency.keep_records(now);
        let Some(next) = frequency.next_timeout() else { return };
        let next = next.max(now);
        if frequency.wake.is_none_or(|wake| wake > next) {
            frequency.wake = Some(next);
            let kind = Kind::Hf { net: small(net) };
            self.engine.schedule(next, &mut frequency.sequence, kind);
        }
    }

    /// A packet that came over the air, or is about one that did not go there.
    fn take_packet(&mut self, net: usize, station: usize) -> Option<(PortId, PacketId)> {
        let End { port, client, .. } = &mut self.hf[net].ends[station];
        let packet = self.engine.packets.add();
        if client.poll_packet(self.engine.now, self.engine.packets.get_mut(packet)) {
            return Some((*port, packet));
        }
        self.engine.packets.remove(packet);
        None
    }

    fn add_hf_interface(
        &mut self,
        host: NodeId,
        net: usize,
        station: usize,
        config: InterfaceConfig,
    ) -> PortId {
        let port = self.next_port(0);
        let medium = self.engine.media.len();
        self.engine.media.push(Medium::Hf { net, station });
        let interfaces = &mut self.nodes[host.index()].interfaces;
        let index = interfaces.len();
        let own = addresses(net, station).to_vec();
        interfaces.push(Interface::new(format!("hf{index}"), config, port, own));
        self.engine.ports.push(Port {
            node: host,
            interface: index,
            medium,
            side: 0,
            counters: PortCounters::default(),
            captures: Vec::new(),
        });
        port
    }
}

impl Frequency {
    pub(super) fn capture_mut(&mut self) -> Option<&mut Capture> {
        self.capture.as_mut().map(|(capture, _)| capture)
    }

    /// Clients that have something to send or wait for a confirmation, and transmissions.
    pub(super) fn under_way(&self) -> usize {
        let is_busy = |end: &&End| {
            let stats = end.client.stats();
            stats.queued + stats.unconfirmed > 0
        };
        self.ends.iter().filter(is_busy).count() + usize::from(!self.net.medium().is_quiet())
    }

    /// Carries octets between clients and nodes, which are one TCP connection without delay.
    fn exchange(&mut self, now: Time) {
        let Self { net, ends, buffer, .. } = self;
        for (index, End { client, id, .. }) in ends.iter_mut().enumerate() {
            let station = StationId(index);
            loop {
                let Some(connection) = *id else {
                    *id = net.at(now, station, |node| node.handle_connected(now));
                    if id.is_none() {
                        break;
                    }
                    client.handle_connected(now);
                    continue;
                };
                buffer.clear();
                let mut is_busy = client.poll_octets(now, buffer);
                if is_busy {
                    net.at(now, station, |node| node.handle_octets(now, connection, buffer));
                }
                buffer.clear();
                if net.at(now, station, |node| node.poll_octets(now, connection, buffer)) {
                    client.handle_octets(now, buffer);
                    is_busy = true;
                }
                let mut is_over = false;
                while let Some(event) = client.poll_event() {
                    is_over |= event == ipclient::Event::Close;
                }
                let close = node::Event::Close(connection);
                while let Some(event) = net.at(now, station, Node::poll_event) {
                    is_over |= event == close;
                }
                if is_over {
                    net.at(now, station, |node| node.handle_disconnected(now, connection));
                    client.handle_disconnected(now);
                    *id = None;
                } else if !is_busy {
                    break;
                }
            }
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let clients = self.ends.iter().map(|end| end.client.next_timeout());
        clients.fold(self.net.next_timeout(), earliest)
    }

    /// Has the nodes tell what they do.
    fn record(&mut self, now: Time) {
        for station in self.net.stations() {
            self.net.at(now, station, |node| node.record(true));
        }
    }

    fn keep_records(&mut self, now: Time) {
        if self.capture.is_none() && self.records.is_none() {
            return;
        }
        for station in self.net.stations() {
            while let Some(record) = self.net.at(now, station, Node::poll_record) {
                if let Some((capture, interfaces)) = &mut self.capture {
                    let interface = interfaces[station.0];
                    match &record {
                        Record::Heard { at, octets, .. } => {
                            capture.write(*at, interface, Direction::In, octets);
                        }
                        Record::Sent { start, octets, .. } => {
                            capture.write(*start, interface, Direction::Out, octets);
                        }
                        Record::Keyed { .. } => {}
                    }
                }
                let records = self.records.as_mut().filter(|kept| kept.len() < MAX_RECORDS);
                if let Some(records) = records {
                    records.push_back(HfRecord { station, record });
                }
            }
        }
    }
}

/// The addresses of a station.
fn addresses(net: usize, station: usize) -> [IpAddr; 2] {
    let net = u8::try_from(net).expect("a world has fewer than 2^8 frequencies");
    let station = u8::try_from(station + 1).expect("a frequency has fewer than 2^8 stations");
    [
        Ipv4Addr::new(10, 255, net, station).into(),
        Ipv6Addr::new(0xfd00, 0xffff, net.into(), 0, 0, 0, 0, station.into()).into(),
    ]
}
