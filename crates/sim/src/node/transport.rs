//! Which application a packet is for.

use std::net::SocketAddr;

use proto::ip::icmp::Error;
use proto::ip::{FlowKey, Header, protocol, udp};

use super::Node;
use crate::engine::{Engine, PacketId};

/// Octets of an ICMP error before the packet that it quotes.
const ERROR_HEADER: usize = 8;

impl Node {
    pub(super) fn handle_udp(
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
        let port = datagram.destination.port();
        let Some(index) = self.apps.iter().position(|local| local.app.udp_port() == Some(port))
        else {
            self.counters.unwanted += 1;
            let (offender, ()) =
                engine.packets.derive(packet, |packet, out| out.extend_from_slice(packet));
            self.refuse(engine, Error::PortUnreachable, offender);
            return;
        };
        self.apps[index].app.handle_datagram(engine.now, &datagram);
        self.drive_app(engine, index);
    }

    /// Takes an ICMP error about a packet of this node's.
    pub(super) fn handle_error(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        let message = &engine.packets.get(packet)[offset..header.total_len];
        let Some((key, seq, octets)) = quoted_flow(&message[ERROR_HEADER..]) else { return };
        let error = error_of(header, message);
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

/// What an ICMP error says; `None` for what TCP has no use for.
fn error_of(header: &Header, message: &[u8]) -> Option<Error> {
    let &[kind, code, _, _, a, b, c, d] = message.first_chunk::<ERROR_HEADER>()?;
    let mtu = u16::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(u16::MAX);
    match (header.is_v4(), kind, code) {
        (true, 3, 3) | (false, 1, 4) => Some(Error::PortUnreachable),
        (true, 3, 4) | (false, 2, _) => Some(Error::TooBig { mtu }),
        (true, 3, _) | (false, 1, _) => Some(Error::HostUnreachable),
        (true, 11, _) | (false, 3, _) => Some(Error::TtlExceeded),
        _ => None,
    }
}

/// The flow of the packet that an ICMP error quotes, what TCP has its sequence number in, and its
/// length.
///
/// The packet may be cut after 8 octets of payload.
fn quoted_flow(quoted: &[u8]) -> Option<(FlowKey, u32, usize)> {
    let mut whole = quoted.to_vec();
    let claimed = match whole.first()? >> 4 {
        4 => usize::from(u16::from_be_bytes([*whole.get(2)?, *whole.get(3)?])),
        6 => 40 + usize::from(u16::from_be_bytes([*whole.get(4)?, *whole.get(5)?])),
        _ => return None,
    };
    // The header's lengths are those of the whole packet: fill up what was cut.
    whole.resize(whole.len().max(claimed), 0);
    let header = Header::parse(&whole).ok()?;
    let (key, offset) = FlowKey::of(&header, &whole);
    let seq = whole.get(offset + 4..)?.first_chunk()?;
    Some((key, u32::from_be_bytes(*seq), header.total_len))
}
