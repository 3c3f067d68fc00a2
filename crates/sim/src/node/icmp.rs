//! ICMP in a node: answers echo requests, and handles errors about the node's packets.

use std::net::IpAddr;

use base::ip::{Checksum, Header, Spec, protocol, pseudo_header};

use super::Node;
use crate::engine::{Engine, PacketId};

const V4_ECHO: u8 = 8;
const V4_ECHO_REPLY: u8 = 0;
const V6_ECHO: u8 = 128;
const V6_ECHO_REPLY: u8 = 129;
/// The fixed part of every message.
const HEADER: usize = 8;

impl Node {
    pub fn handle_icmp(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
    ) {
        // Extension headers of IPv6 may claim to be longer than their packet.
        let message = engine.packets.get(packet).get(offset..header.total_len).unwrap_or_default();
        let sum = checksum_start(header, header.source, header.destination, message.len());
        if message.len() < HEADER || sum.with(message).finish() != 0 {
            self.counters.malformed_transport += 1;
            return;
        }

        match (header.is_v4(), message[0]) {
            (true, V4_ECHO) => self.answer_echo(engine, header, offset, packet, V4_ECHO_REPLY),
            (false, V6_ECHO) => self.answer_echo(engine, header, offset, packet, V6_ECHO_REPLY),
            (true, 3 | 11 | 12) | (false, 1..=4) => {
                self.counters.errors_received += 1;
                self.handle_error(engine, header, offset, packet);
            }
            _ => self.counters.unwanted += 1,
        }
    }

    fn answer_echo(
        &mut self,
        engine: &mut Engine,
        header: &Header,
        offset: usize,
        packet: PacketId,
        kind: u8,
    ) {
        let protocol = if header.is_v4() { protocol::ICMP } else { protocol::ICMPV6 };
        let (local, remote) = (header.destination, header.source);
        let (reply, ()) = engine.packets.derive(packet, |packet, out| {
            let echo = &packet[offset..header.total_len];
            Spec::new(local, remote, protocol).emit(echo.len(), out);
            let start = out.len();
            out.extend_from_slice(&[kind, 0, 0, 0]);
            out.extend_from_slice(&echo[4..]);
            let sum = checksum_start(header, local, remote, echo.len()).with(&out[start..]);
            out[start + 2..start + 4].copy_from_slice(&sum.finish().to_be_bytes());
        });
        self.output(engine, reply);
    }
}

/// ICMPv6's checksum covers addresses, ICMP's does not.
fn checksum_start(header: &Header, source: IpAddr, destination: IpAddr, len: usize) -> Checksum {
    if header.is_v4() {
        Checksum::default()
    } else {
        pseudo_header(source, destination, protocol::ICMPV6, len)
    }
}
