//! Tracks the progress of the TCP connection in a flow, and whether a segment is missing.

use base::serial::is_after;
use base::tcp::Peek;

use super::super::packet::Packet;

/// The progress of a connection's segments so far.
#[derive(Debug, Default)]
pub struct Course {
    /// The highest sequence number, and the end of its segment.
    newest: Option<(u32, u32)>,
    /// The highest acknowledgement.
    newest_ack: Option<u32>,
    /// Whether something that the next segment follows will not come.
    has_hole: bool,
}

impl Course {
    /// Notes a packet, and marks it if a hole precedes it.
    ///
    /// A hole precedes a segment that does not follow its predecessor, unless a peer brought the
    /// segment: the peer would have reported the hole.
    pub fn handle_packet(&mut self, packet: &mut Packet, is_from_peer: bool) {
        let Some(tcp) = packet.tcp else { return };
        if tcp.is_syn() {
            // Another connection, or the same one from its start.
            (self.newest, self.newest_ack) = (None, None);
        }
        let follows = self.newest.is_none_or(|(_, end)| !is_after(tcp.seq, end));
        if tcp.occupies() > 0 {
            packet.has_hole |= self.has_hole || (!is_from_peer && !follows);
            self.has_hole = false;
        }
        if !tcp.is_syn() && self.newest_ack.is_none_or(|newest| is_after(tcp.ack, newest)) {
            self.newest_ack = Some(tcp.ack);
        }
        // A pure acknowledgement has the number of the segment that comes next.
        if self.newest.is_none_or(|(newest, end)| {
            is_after(tcp.seq, newest) || (tcp.seq == newest && is_after(tcp.end(), end))
        }) {
            self.newest = Some((tcp.seq, tcp.end()));
        }
    }

    /// A packet was refused, or will not be sent any more.
    pub fn handle_loss(&mut self, tcp: Option<Peek>) {
        self.has_hole |= tcp.is_some_and(|tcp| tcp.occupies() > 0);
    }

    /// Whether a hole precedes the next segment. Clears the note, since this segment is to report
    /// the hole.
    pub fn take_hole(&mut self) -> bool {
        std::mem::take(&mut self.has_hole)
    }

    /// Whether a segment lies beyond all that were seen.
    pub fn is_new(&self, tcp: Peek) -> bool {
        self.newest.is_none_or(|(newest, _)| is_after(tcp.seq, newest))
    }

    /// Whether a segment has the number that comes next.
    pub fn is_next(&self, tcp: Peek) -> bool {
        self.newest.is_some_and(|(_, end)| end == tcp.seq)
    }

    /// Whether a later segment acknowledges more.
    pub fn is_superseded(&self, tcp: Peek) -> bool {
        self.newest_ack.is_some_and(|newest| is_after(newest, tcp.ack))
    }
}
