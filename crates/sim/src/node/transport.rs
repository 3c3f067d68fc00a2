//! Delivers packets to the applications of a node.

use std::net::SocketAddr;

use base::ip::icmp::{Error, Report};
use base::ip::{Header, protocol, udp};

use super::Node;
use crate::app::App;
use crate::engine::{Engine, PacketId};

impl Node {
    pub fn handle_udp(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        let octets = engine.packets.get(packet);
        let Ok(datagram) = udp::Datagram::parse(header, octets, offset) else {
            self.counters.malformed_transport += 1;
            return;
        };
        let (port, source) = (Some(datagram.destination.port()), datagram.source.port());
        let Some(index) = self.app_for(source, |app| app.udp_port() == port) else {
            self.counters.unwanted += 1;
            let (offender, ()) =
                engine.packets.derive(packet, |packet, out| out.extend_from_slice(packet));
            self.refuse(engine, Error::PortUnreachable, offender);
            return;
        };
        self.apps[index].app.handle_datagram(engine.now, &datagram);
        self.drive_app(engine, index);
    }

    /// The first application that listens so, and serves peers at this port.
    pub fn app_for(&self, source_port: u16, listens: impl Fn(&dyn App) -> bool) -> Option<usize> {
        let serves = |app: &dyn App| app.source_port().is_none_or(|only| only == source_port);
        self.apps.iter().position(|local| listens(&*local.app) && serves(&*local.app))
    }

    /// Takes an ICMP error about a packet of this node's.
    pub fn handle_error(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        let message = &engine.packets.get(packet)[offset..header.total_len];
        let Some(Report { error, flow: key, seq, octets }) = Report::parse(header, message) else {
            return;
        };
        if self.tell_error(engine.now, &key, octets, error) {
            return;
        }
        let local = SocketAddr::new(key.source, key.source_port);
        let remote = SocketAddr::new(key.destination, key.destination_port);
        match (key.protocol, error) {
            (protocol::UDP, _) => {
                let port = Some(key.source_port);
                let sender = self.apps.iter_mut().find(|local| local.app.udp_port() == port);
                if let Some(local) = sender {
                    local.app.handle_error();
                }
            }
            (protocol::TCP, Some(error)) => {
                self.handle_tcp_error(engine, local, remote, error, seq);
            }
            _ => {}
        }
    }
}
