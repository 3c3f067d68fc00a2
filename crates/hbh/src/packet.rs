//! A packet waiting for its turn or its acknowledgement.

use std::time::Duration;

use base::ip::{protocol, rewrite_v4_checksum};
use base::tcp::Peek;
use base::time::Time;

/// How long TCP itself goes on to send a segment again, and so how long one is kept: what Linux
/// does (tcp_retries2); RFC 9293, 3.8.3, asks for at least 100 s.
pub const TCP_LIFETIME: Duration = Duration::from_secs(924);

/// A packet in HBH's hands, as IP will see it again at the next hop.
#[derive(Debug)]
pub struct Packet {
    pub octets: Vec<u8>,
    pub header_len: usize,
    pub protocol: u8,
    pub taken_at: Time,
    pub tcp: Option<Peek>,
    /// Whether something before it will not come.
    pub has_hole: bool,
    /// Whether TCP has sent it again: TCP waits for this segment above all.
    pub is_repeated: bool,
}

impl Packet {
    /// Whether other packets are held up until this packet arrives: the next segments of TCP depend
    /// on its arrival, and TCP's window grows with each timely acknowledgement.
    ///
    /// False behind extension headers of IPv6: the repaired packets of a flow must be alike.
    pub fn is_waited_for(&self) -> bool {
        self.tcp.is_some() && self.protocol == protocol::TCP
    }

    /// Whether the packet is a TCP acknowledgement and nothing else.
    pub fn is_pure_ack(&self) -> bool {
        self.is_waited_for() && self.tcp.is_some_and(|tcp| tcp.occupies() == 0 && !tcp.is_reset())
    }

    /// Whether the packet has waited too long to be useful.
    ///
    /// TCP repeats lost segments ever more seldom. A segment sent before an outage is the first to
    /// tell TCP of the outage's end, so segments are kept for as long as TCP itself would go on.
    pub fn is_expired(&self, now: Time, lifetime: Duration) -> bool {
        let most = if self.tcp.is_some() { lifetime.max(TCP_LIFETIME) } else { lifetime };
        now.since(self.taken_at) > most
    }
}

/// Sets the length and the protocol in the IP header of `packet`; the header has `header_len`
/// octets.
pub fn write_ip_header(packet: &mut [u8], header_len: usize, protocol: u8) {
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[9] = protocol;
        rewrite_v4_checksum(&mut packet[..header_len]);
    } else {
        let payload = len.saturating_sub(u16::try_from(header_len).unwrap_or(0));
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        packet[6] = protocol;
    }
}
