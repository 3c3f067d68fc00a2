//! TCP/NC in a network: under the connections of hosts, and as a tunnel between gateways.

use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use tcp::tcpnc;

use super::World;
use crate::ids::{AppId, NodeId};
use crate::node::CodingReport;
use crate::node::service::tcpnc::{Entry, EntryStats, Exit, ExitStats, Setup};

/// What a TCP/NC tunnel is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpncTunnelConfig {
    /// The port of both ends.
    pub port: u16,
    /// The TCP of both ends.
    pub tcp: tcp::Config,
    /// The TCP/NC layer below TCP, at both ends.
    pub layer: tcpnc::Config,
    /// Points to keep of the send buffer and of the congestion window over time; 0 keeps none.
    pub points: usize,
}

impl Default for TcpncTunnelConfig {
    /// The tunnel of the ISCC 2017 paper, for inner packets of 1,000 octets: one to a segment, a
    /// send buffer of 64 KiB and 100 packets, a minimum RTO of 400 ms, no window scaling.
    fn default() -> Self {
        let segment = 1_000 + tcpnc::framing::HEADER + tcpnc::wire::OVERHEAD;
        Self {
            port: 4_004,
            tcp: tcp::Config {
                mss: u16::try_from(segment).ok(),
                send_buffer: 65_536 + 100 * 1_000,
                offer: tcp::Offer {
                    window_scaling: false,
                    timestamps: false,
                    sack: false,
                    ..tcp::Offer::default()
                },
                nagle: false,
                rto: tcp::Rto { min: Duration::from_millis(400), ..tcp::Rto::default() },
                ..tcp::Config::default()
            },
            layer: tcpnc::Config::default(),
            points: 0,
        }
    }
}

/// The ends of a TCP/NC tunnel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TcpncTunnel {
    /// Where packets enter: the node, and the index of the service there.
    entry: (NodeId, usize),
    /// Where they leave.
    exit: (NodeId, usize),
}

/// What happened in a TCP/NC tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CarrierReport {
    /// Where packets enter.
    pub entry: EntryStats,
    /// Where they leave.
    pub exit: ExitStats,
    /// The layer at the entry, once there is a connection.
    pub layer: Option<CodingReport>,
}

impl World {
    /// Puts TCP/NC under all TCP connections of a node that begin from now on; their peers need it
    /// too.
    pub fn enable_tcpnc(&mut self, node: NodeId, config: tcpnc::Config) {
        self.nodes[node.index()].sockets.enable_tcpnc(config);
    }

    /// Joins two gateways by one TCP/NC connection. The connection carries every packet forwarded by `near`
    /// on the same way as packets for `far`. In the other direction nothing changes.
    ///
    /// `None` if a gateway has no address.
    pub fn add_tcpnc_tunnel(
        &mut self,
        near: NodeId,
        far: NodeId,
        config: &TcpncTunnelConfig,
    ) -> Option<TcpncTunnel> {
        let towards = self.address(far)?;
        let source = self.nodes[near.index()].source_for(&self.engine, towards)?;
        let target = self.nodes[far.index()].source_for(&self.engine, source)?;
        let [local, remote] = [source, target].map(|ip| SocketAddr::new(ip, config.port));
        let tunnel = format!("tcpnc tunnel {}:{}", self.ends_name([near, far], 0), config.port);
        let setup = |world: &Self, node, local, remote| {
            let name = world.name(node);
            let rngs = ["tcp", "coefficients"]
                .map(|what| world.stream(&format!("{tunnel} {what} {name}")));
            Setup { local, remote, tcp: config.tcp, layer: config.layer, rngs }
        };
        let exit = Exit::new(setup(self, far, remote, local));
        let exit = (far, self.start(far, exit));
        let entry = Entry::new(setup(self, near, local, remote), config.points);
        let entry = (near, self.start(near, entry));
        Some(TcpncTunnel { entry, exit })
    }

    /// Report of a TCP/NC tunnel; `None` if the tunnel belongs to another world.
    #[must_use]
    pub fn tcpnc_tunnel(&self, tunnel: TcpncTunnel) -> Option<CarrierReport> {
        let (node, index) = tunnel.exit;
        let mut exits = self.nodes[node.index()].services::<Exit>();
        let (_, exit) = exits.find(|(other, _)| *other == index)?;
        let entry = self.entry(tunnel)?;
        Some(CarrierReport { entry: entry.stats(), exit: exit.stats(), layer: entry.layer() })
    }

    /// What the TCP/NC under an application's connection did: the oldest that is open, or the last.
    #[must_use]
    pub fn coding(&self, app: AppId) -> Option<CodingReport> {
        let (node, index) = self.apps[app.index()];
        self.nodes[node.index()].sockets.coding(index)
    }

    /// Octets in the send buffer of a TCP/NC tunnel over time; empty unless asked for.
    #[must_use]
    pub fn tunnel_buffer(&self, tunnel: TcpncTunnel) -> &[(Time, u64)] {
        self.entry(tunnel).map_or(&[], Entry::buffered)
    }

    /// The congestion window of a TCP/NC tunnel over time, in octets; empty unless asked for.
    #[must_use]
    pub fn tunnel_windows(&self, tunnel: TcpncTunnel) -> &[(Time, u64)] {
        self.entry(tunnel).map_or(&[], Entry::windows)
    }

    fn entry(&self, tunnel: TcpncTunnel) -> Option<&Entry> {
        let (node, index) = tunnel.entry;
        let mut entries = self.nodes[node.index()].services::<Entry>();
        entries.find(|(other, _)| *other == index).map(|(_, entry)| entry)
    }
}
