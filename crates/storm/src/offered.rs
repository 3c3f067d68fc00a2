//! Packets that users hand to the nodes of a network: made from their number, and known again by their number.

use std::net::SocketAddr;

use base::ip::{Header, protocol, udp};
use base::tcp::{Flags, Segment};

use crate::network::Network;

/// The first port of the flows.
const FIRST_PORT: u16 = 1_000;
/// Octets of a transport header before the number of the packet: in a segment, the number acknowledged.
const BEFORE_NUMBER: usize = 8;
/// Octets of the shortest datagram's content: the number.
pub const SHORTEST: usize = 4;

/// A packet that a user handed to a node.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    pub from: usize,
    pub to: usize,
    pub flow: u16,
    pub content: Content,
}

/// The transport of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// A UDP datagram with so many octets.
    Datagram(usize),
    /// A TCP segment with so many octets.
    Segment { seq: u32, len: usize, flags: Flags },
}

impl Offered {
    /// The packet with a number.
    pub fn packet(&self, number: u32, network: &Network) -> Vec<u8> {
        let end = |node| SocketAddr::new(network.address(node), FIRST_PORT + self.flow);
        let (source, destination) = (end(self.from), end(self.to));
        let mut packet = Vec::new();
        match self.content {
            Content::Datagram(len) => {
                let mut payload = number.to_be_bytes().to_vec();
                payload.extend((SHORTEST..len).map(|at| low(u64::from(number) * 7 + at as u64)));
                udp::Datagram { source, destination, payload: &payload }.emit(&mut packet);
            }
            Content::Segment { seq, len, flags } => {
                // The same octets in each repeat of a segment.
                let payload: Vec<u8> = (0..len as u64).map(|at| low(u64::from(seq) + at)).collect();
                let bare = Segment::bare(source, destination);
                Segment { seq, ack: number, flags, window: 500, payload: &payload, ..bare }
                    .emit(&mut packet);
            }
        }
        packet
    }

    /// Whether `octets` are the packet with this number. What nodes on the way may change is left out.
    pub fn is_in(&self, octets: &[u8], number: u32, network: &Network) -> bool {
        let own = self.packet(number, network);
        let (Ok(header), Ok(own_header)) = (Header::parse(octets), Header::parse(&own)) else {
            return false;
        };
        let ends = |it: &Header| (it.source, it.destination, it.protocol);
        ends(&header) == ends(&own_header)
            && octets[header.len..header.total_len] == own[own_header.len..]
    }
}

/// The number of a packet; `None` for other packets than users offer.
pub fn number(packet: &[u8]) -> Option<u32> {
    let header = Header::parse(packet).ok()?;
    let is_offered = [protocol::TCP, protocol::UDP].contains(&header.protocol);
    let transport = packet.get(header.len + BEFORE_NUMBER..header.total_len)?;
    transport.first_chunk().filter(|_| is_offered).map(|number| u32::from_be_bytes(*number))
}

/// Whether the receiver of a packet would find it damaged.
pub fn is_damaged(packet: &[u8]) -> bool {
    let Ok(header) = Header::parse(packet) else { return true };
    match header.protocol {
        protocol::UDP => udp::Datagram::parse(&header, packet, header.len).is_err(),
        protocol::TCP => Segment::parse(&header, packet, header.len).is_err(),
        _ => true,
    }
}

fn low(number: u64) -> u8 {
    number.to_le_bytes()[0]
}
