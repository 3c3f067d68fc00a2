//! TCP/NC in a network: under the connections of hosts, and as a tunnel between gateways.

use std::net::SocketAddr;
use std::time::Duration;

use proto::tcp::{self, Connection};
use proto::tcpnc;
use proto::time::Time;

use super::World;
use crate::app::{App, carrier};
use crate::ids::{AppId, NodeId};
use crate::node::CodingReport;

/// What a TCP/NC tunnel is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpncTunnelConfig {
    /// The port of both ends.
    pub port: u16,
    /// The TCP of both ends.
    pub tcp: tcp::Config,
    /// The layer below it, of both ends.
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
                window_scaling: false,
                timestamps: false,
                sack: false,
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
    /// Where packets enter.
    pub entry: AppId,
    /// Where they leave.
    pub exit: AppId,
}

/// What happened in a TCP/NC tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CarrierReport {
    /// Where packets enter.
    pub entry: carrier::EntryStats,
    /// Where they leave.
    pub exit: carrier::ExitStats,
    /// The layer at the entry, once there is a connection.
    pub layer: Option<CodingReport>,
}

impl World {
    /// Puts TCP/NC under all TCP connections of a node that begin from now on; their peers need it
    /// too.
    pub fn enable_tcpnc(&mut self, node: NodeId, config: tcpnc::Config) {
        self.nodes[node.index()].enable_tcpnc(config);
    }

    /// Joins two gateways by one TCP/NC connection that carries all packets that `near` forwards
    /// and that would go the same way as packets for `far`. In the other direction nothing changes.
    ///
    /// `None` if one of them has no address.
    pub fn add_tcpnc_tunnel(
        &mut self,
        near: NodeId,
        far: NodeId,
        config: &TcpncTunnelConfig,
    ) -> Option<TcpncTunnel> {
        let towards = self.address(far)?;
        let source = self.nodes[near.index()].source_for(towards)?;
        let far_address = self.nodes[far.index()].source_for(source)?;
        let destination = SocketAddr::new(far_address, config.port);
        let exit = carrier::Exit::new(config.port, config.tcp);
        let exit = self.add_app(far, App::CarrierExit(Box::new(exit)));
        let entry = carrier::Entry::new(config.port, destination, config.tcp, config.points);
        let entry = self.add_app(near, App::CarrierEntry(Box::new(entry)));
        for app in [entry, exit] {
            let (node, index) = self.apps[app.index()];
            self.nodes[node.index()].enable_tcpnc_for(index, config.layer);
        }
        let (node, index) = self.apps[entry.index()];
        self.nodes[node.index()].add_tcpnc_entry(far_address, index);
        Some(TcpncTunnel { entry, exit })
    }

    /// What happened in a TCP/NC tunnel; `None` if the applications are others.
    #[must_use]
    pub fn tcpnc_tunnel(&self, tunnel: TcpncTunnel) -> Option<CarrierReport> {
        let App::CarrierEntry(entry) = self.app(tunnel.entry) else { return None };
        let App::CarrierExit(exit) = self.app(tunnel.exit) else { return None };
        let tcp = |app, last| self.connection(app).map_or(last, |open: &Connection| *open.stats());
        let (entry, exit) = (*entry.stats(), *exit.stats());
        Some(CarrierReport {
            entry: carrier::EntryStats { tcp: tcp(tunnel.entry, entry.tcp), ..entry },
            exit: carrier::ExitStats { tcp: tcp(tunnel.exit, exit.tcp), ..exit },
            layer: self.coding(tunnel.entry),
        })
    }

    /// What the TCP/NC under an application's connection did: the oldest that is open, or the last.
    #[must_use]
    pub fn coding(&self, app: AppId) -> Option<CodingReport> {
        let (node, index) = self.apps[app.index()];
        self.nodes[node.index()].coding(index)
    }

    /// Octets in the send buffer of a TCP/NC tunnel over time; empty unless asked for.
    #[must_use]
    pub fn tunnel_buffer(&self, tunnel: TcpncTunnel) -> &[(Time, u64)] {
        if let App::CarrierEntry(entry) = self.app(tunnel.entry) { entry.buffered() } else { &[] }
    }

    /// The congestion window of a TCP/NC tunnel over time, in octets; empty unless asked for.
    #[must_use]
    pub fn tunnel_windows(&self, tunnel: TcpncTunnel) -> &[(Time, u64)] {
        if let App::CarrierEntry(entry) = self.app(tunnel.entry) { entry.windows() } else { &[] }
    }
}
