//! Carries routing messages in UDP datagrams, or in IP packets with a separate protocol number.

use std::net::{Ipv4Addr, SocketAddr};

use base::ip::{Header, Spec, udp};
use manet::Carrier;

/// The message in a packet; `None` where the packet holds none.
pub fn message<'a>(carrier: Carrier, header: &Header, packet: &'a [u8]) -> Option<&'a [u8]> {
    match carrier {
        Carrier::Ip(_) => packet.get(header.len..header.total_len),
        Carrier::Udp(_) => {
            udp::Datagram::parse(header, packet, header.len).ok().map(|it| it.payload)
        }
    }
}

/// Puts a message into the packet that carries it.
pub fn emit(
    carrier: Carrier,
    (source, to): (Ipv4Addr, Ipv4Addr),
    message: &[u8],
    out: &mut Vec<u8>,
) {
    match carrier {
        Carrier::Ip(protocol) => {
            let (source, destination) = (source.into(), to.into());
            Spec::new(source, destination, protocol).emit(message.len(), out);
            out.extend_from_slice(message);
        }
        Carrier::Udp(port) => {
            let source = SocketAddr::from((source, port));
            let destination = SocketAddr::from((to, port));
            udp::Datagram { source, destination, payload: message }.emit(out);
        }
    }
}

/// Sets the hops of an IPv4 packet.
pub fn set_ttl(packet: &mut [u8], ttl: u8) {
    packet[8] = ttl;
    base::ip::rewrite_v4_checksum(&mut packet[..base::ip::V4_HEADER]);
}
