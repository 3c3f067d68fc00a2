//! Tracks the progress of the TCP connection in a flow, and which segments will not come.

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
    /// A segment that will not come, though all waiting segments are before it.
    hole: Hole,
}

/// The newest of the segments that will not come: the next segment after it has to say so.
#[derive(Debug, Default)]
pub struct Hole(Option<u32>);

impl Hole {
    /// A segment will not come.
    pub fn note(&mut self, tcp: Option<Peek>) {
        if let Some(tcp) = tcp.filter(|tcp| tcp.occupies() > 0)
            && self.0.is_none_or(|newest| is_after(tcp.seq, newest))
        {
            self.0 = Some(tcp.seq);
        }
    }

    /// Whether the hole is told with this segment, the first one after the hole.
    pub fn take(&mut self, tcp: Peek) -> bool {
        let is_behind = self.0.is_some_and(|newest| is_after(tcp.seq, newest));
        // A copy fills the hole.
        if is_behind || self.0 == Some(tcp.seq) {
            self.0 = None;
        }
        is_behind
    }
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
            self.hole = Hole::default();
        }
        let follows = self.newest.is_none_or(|(_, end)| !is_after(tcp.seq, end));
        if tcp.occupies() > 0 {
            packet.has_hole |= self.hole.take(tcp) || (!is_from_peer && !follows);
        }
        self.handle_ack(tcp);
        // A pure acknowledgement has the number of the segment that comes next.
        if self.newest.is_none_or(|(newest, end)| {
            is_after(tcp.seq, newest) || (tcp.seq == newest && is_after(tcp.end(), end))
        }) {
            self.newest = Some((tcp.seq, tcp.end()));
        }
    }

    /// Notes what a packet acknowledges.
    pub fn handle_ack(&mut self, tcp: Peek) {
        if !tcp.is_syn() && self.newest_ack.is_none_or(|newest| is_after(tcp.ack, newest)) {
            self.newest_ack = Some(tcp.ack);
        }
    }

    /// A packet after all waiting ones will not be sent.
    pub fn handle_loss(&mut self, tcp: Option<Peek>) {
        self.hole.note(tcp);
    }

    /// Whether a segment lies beyond all that were seen.
    pub fn is_new(&self, tcp: Peek) -> bool {
        self.newest.is_none_or(|(newest, _)| is_after(tcp.seq, newest))
    }

    /// Whether a segment has the number that comes next.
    pub fn is_next(&self, tcp: Peek) -> bool {
        self.newest.is_some_and(|(_, end)| end == tcp.seq)
    }

    /// The highest acknowledgement.
    pub fn newest_ack(&self) -> Option<u32> {
        self.newest_ack
    }

    /// Whether `ack`, an acknowledgement of this direction, says that the segment has arrived. A reset has no sequence
    /// numbers, so no acknowledgement covers it. An `ack` beyond all segments seen is of another connection, or forged.
    pub fn has_arrived(&self, tcp: Peek, ack: u32) -> bool {
        tcp.occupies() > 0
            && self.newest.is_some_and(|(_, end)| !is_after(ack, end))
            && !is_after(tcp.end(), ack)
    }

    /// Whether a later segment acknowledges more.
    pub fn is_superseded(&self, tcp: Peek) -> bool {
        self.newest_ack.is_some_and(|newest| is_after(newest, tcp.ack))
    }
}

#[cfg(test)]
mod tests {
    use base::tcp::Flags;

    use super::*;

    #[test]
    fn the_first_segment_after_a_hole_tells_of_it_and_a_copy_fills_it() {
        let mut hole = Hole::default();
        assert!(!hole.take(segment(100)));

        hole.note(Some(segment(500)));
        hole.note(Some(segment(300)));
        hole.note(Some(Peek { len: 0, ..segment(900) }));
        // TCP sends what is before it again.
        assert!(!hole.take(segment(400)));
        assert!(hole.take(segment(600)));
        assert!(!hole.take(segment(700)), "it was told");

        hole.note(Some(segment(800)));
        assert!(!hole.take(segment(800)));
        assert!(!hole.take(segment(900)), "it was filled");
    }

    fn segment(seq: u32) -> Peek {
        Peek { seq, ack: 0, flags: Flags(0), len: 100 }
    }

    #[test]
    fn the_newest_segment_is_the_longest_from_the_highest_place() {
        let mut course = Course::default();
        for (seq, len) in [(100, 100), (100, 50), (50, 500)] {
            course.handle_packet(&mut packet(Peek { len, ..segment(seq) }), true);

            assert!(course.is_next(segment(200)), "{seq} {len}");
            assert!(!course.is_new(segment(99)), "{seq} {len}");
        }
        course.handle_packet(&mut packet(Peek { len: 200, ..segment(100) }), true);
        assert!(course.is_next(segment(300)));
    }

    #[test]
    fn the_segment_behind_one_that_was_refused_tells_of_it() {
        let mut course = Course::default();
        course.handle_loss(Some(segment(300)));

        let tell = [400, 500].map(|seq| {
            let mut packet = packet(segment(seq));
            course.handle_packet(&mut packet, true);
            packet.has_hole
        });

        assert_eq!(tell, [true, false]);
    }

    fn packet(tcp: Peek) -> Packet {
        Packet {
            octets: Vec::new(),
            header_len: 0,
            protocol: base::ip::protocol::TCP,
            taken_at: base::time::Time::ZERO,
            tcp: Some(tcp),
            has_hole: false,
            is_repeated: false,
        }
    }
}
