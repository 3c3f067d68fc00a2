//! Parses SYNs, the first packets of connections, and makes the packets that refuse them.

use std::net::{IpAddr, SocketAddr};

use base::ip::icmp::Error;
use base::ip::{FlowKey, Header, pseudo_header};
use base::tcp::Flags;
use base::tcp::{Peek, Segment};

/// Where its checksum stands in a TCP header.
const CHECKSUM: usize = 16;

/// A valid SYN, which the kernel would have accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Syn {
    /// Who wants to connect.
    pub(crate) client: SocketAddr,
    /// To whom.
    pub(crate) target: SocketAddr,
    /// Its sequence number: a repeated SYN has the same, another attempt has another.
    pub(crate) seq: u32,
    /// The whole packet; its checksum is right.
    pub(crate) packet: Vec<u8>,
}

impl Syn {
    /// Reads a packet; `None` if it is no whole SYN that begins a connection, or damaged.
    ///
    /// The kernel may leave most of the checksum to a network card that the packet never comes to: it
    /// is completed here.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let header = Header::parse(packet).ok()?;
        let (flow, offset) = FlowKey::of(&header, packet);
        let peek = Peek::of(&flow, &header, packet, offset)?;
        let others = Flags::ACK | Flags::RST | Flags::FIN;
        if !peek.is_syn() || peek.flags.0 & others.0 != 0 {
            return None;
        }
        let mut packet = packet[..header.total_len].to_vec();
        let segment = &mut packet[offset..];
        let pseudo = pseudo_header(header.source, header.destination, flow.protocol, segment.len());
        let said = segment.get_mut(CHECKSUM..)?.first_chunk_mut::<2>()?;
        let said = u16::from_be_bytes(std::mem::take(said));
        let whole = pseudo.with(segment).finish();
        if said != whole && said != !pseudo.finish() {
            return None;
        }
        segment.get_mut(CHECKSUM..)?.first_chunk_mut::<2>()?.copy_from_slice(&whole.to_be_bytes());
        Some(Self {
            client: SocketAddr::new(flow.source, flow.source_port),
            target: SocketAddr::new(flow.destination, flow.destination_port),
            seq: peek.seq,
            packet,
        })
    }

    /// The reset that refuses the SYN, in the target's name.
    pub(crate) fn reset(&self) -> Option<Vec<u8>> {
        let header = Header::parse(&self.packet).ok()?;
        let (_, offset) = FlowKey::of(&header, &self.packet);
        let reset = Segment::parse(&header, &self.packet, offset).ok()?.reset_for()?;
        let mut out = Vec::new();
        reset.emit(&mut out);
        Some(out)
    }

    /// The ICMP error that refuses the SYN, from an address of this host.
    pub(crate) fn error(&self, error: Error, own: IpAddr) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        error.emit(own, &self.packet, &mut out).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use base::ip::protocol;

    use super::*;

    /// From 10.1.7.2:53868 to 10.2.0.1:80, number 7, with an option that nobody knows.
    fn syn(checksum: [u8; 2]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 7, 2, 10, 2, 0, 1];
        base::ip::rewrite_v4_checksum(&mut packet);
        packet.extend([0xd2, 0x6c, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0x60, 0x02, 0xfa, 0xf0]);
        packet.extend(checksum);
        packet.extend([0, 0, 253, 4, 0xf9, 0x89]);
        packet
    }

    fn checksums() -> [[u8; 2]; 2] {
        let pseudo = pseudo_header([10, 1, 7, 2].into(), [10, 2, 0, 1].into(), protocol::TCP, 24);
        let whole = pseudo.with(&syn([0, 0])[20..]).finish();
        [whole.to_be_bytes(), (!pseudo.finish()).to_be_bytes()]
    }

    #[test]
    fn a_checksum_that_was_left_to_the_network_card_is_completed() {
        let [whole, partial] = checksums();

        for said in [whole, partial] {
            let read = Syn::parse(&syn(said)).unwrap();

            assert_eq!(read.packet, syn(whole));
            assert_eq!(read.client, "10.1.7.2:53868".parse().unwrap());
            assert_eq!((read.target, read.seq), ("10.2.0.1:80".parse().unwrap(), 7));
        }
        assert_eq!(Syn::parse(&syn([whole[0] ^ 1, whole[1]])), None, "damaged");
    }

    #[test]
    fn what_begins_no_connection_or_is_cut_is_none() {
        let whole = syn(checksums()[0]);
        let with = |at: usize, value: u8| {
            let mut packet = whole.clone();
            packet[at] = value;
            packet
        };

        for flags in [0x12, 0x03, 0x06, 0x10, 0] {
            assert_eq!(Syn::parse(&with(33, flags)), None, "{flags:#x}");
        }
        for len in 0..whole.len() {
            assert_eq!(Syn::parse(&whole[..len]), None, "{len}");
        }
    }

    #[test]
    fn it_is_refused_by_what_its_sender_takes_for_an_answer() {
        let read = Syn::parse(&syn(checksums()[0])).unwrap();

        let reset = read.reset().unwrap();
        let error = read.error(Error::HostUnreachable, [10, 1, 7, 1].into()).unwrap();

        let header = Header::parse(&reset).unwrap();
        assert_eq!(header.source, read.target.ip());
        let segment = Segment::parse(&header, &reset, header.len).unwrap();
        assert_eq!((segment.destination, segment.ack), (read.client, 8));
        assert_eq!(segment.flags, Flags::RST | Flags::ACK);
        let header = Header::parse(&error).unwrap();
        assert_eq!((header.destination, header.protocol), (read.client.ip(), protocol::ICMP));
        assert_eq!(error[20..22], [3, 1]);
        assert_eq!(error[28..], read.packet);
    }
}
