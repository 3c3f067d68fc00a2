//! The receive side: calculates the window, and decides when to acknowledge.

use base::tcp::SackBlocks;
use base::time::Time;

use super::config::{Config, DelayedAck};
use super::reassembly::{Arrival, Reassembly};
use super::seq::Seq;
use super::stats::Received;

/// The longest shift of the window field (RFC 7323, 2.3).
pub const MAX_SHIFT: u8 = 14;
/// More than any sender needs to see; the bearer may have no room for long.
const MAX_DUPLICATES_DUE: u32 = 16;
/// A timestamp this old says nothing about order any more: 24 days (RFC 7323, 5.5).
const TIMESTAMP_LIFE: std::time::Duration = std::time::Duration::from_secs(24 * 86_400);

/// The receive side of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    delayed_ack: DelayedAck,
    reassembly: Reassembly,
    buffer: u64,
    mss: u64,
    /// Bits by which our window field is shifted.
    shift: u8,
    /// Beyond the last octet that we ever allowed the peer to send.
    edge: Seq,
    /// The window at the last acknowledgement.
    offered: u64,
    /// The place of the peer's FIN.
    fin: Option<Seq>,
    /// What the last acknowledgement sent said.
    last_ack: Seq,
    /// The timestamp to echo, and when it came.
    recent: Option<(u32, Time)>,
    /// Segments in order since the last acknowledgement.
    unacked: u32,
    /// An acknowledgement is due.
    due: Due,
    /// Acknowledgements due that must not ride on data, because only pure ones count as duplicates.
    duplicates_due: u32,
    /// Congestion was experienced, and the peer does not know yet.
    echo: bool,
}

/// When an acknowledgement is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Due {
    Later(Time),
    Never,
    Now,
}

impl Receiver {
    /// The peer's SYN is at `irs`.
    pub fn new(config: &Config, irs: u32, shift: u8, mss: u64) -> Self {
        let next = Seq::initial(irs) + 1;
        let buffer = buffer(config);
        Self {
            delayed_ack: config.delayed_ack,
            reassembly: Reassembly::new(next, config.max_holes),
            buffer,
            mss,
            shift,
            // The window of a SYN is not scaled.
            edge: next + buffer.min(0xffff),
            offered: buffer.min(0xffff),
            fin: None,
            last_ack: next,
            recent: None,
            unacked: 0,
            due: Due::Never,
            duplicates_due: 0,
            echo: false,
        }
    }

    /// The shift that lets a window field speak of the whole buffer.
    pub fn shift_for(config: &Config) -> u8 {
        let shift = (0..MAX_SHIFT).find(|shift| buffer(config) >> shift <= 0xffff);
        shift.unwrap_or(MAX_SHIFT)
    }

    /// RCV.NXT.
    pub fn next(&self) -> Seq {
        self.reassembly.next()
    }

    /// RCV.WND.
    pub fn window(&self) -> u64 {
        self.edge.since(self.next())
    }

    /// Beyond the last octet that the peer may send.
    pub fn edge(&self) -> Seq {
        self.edge
    }

    /// Whether a part of a segment lies in the window (RFC 9293, 3.10.7.4, first check).
    pub fn is_acceptable(&self, seq: Seq, len: u64) -> bool {
        let (next, edge) = (self.next(), self.edge);
        match (len, self.window()) {
            (0, 0) => seq == next,
            (_, 0) => false,
            (0, _) => next <= seq && seq < edge,
            _ => seq < edge && seq + len > next,
        }
    }

    /// Whether the timestamp is older than what came before it (PAWS; RFC 7323, 5.3).
    pub fn is_old(&self, now: Time, value: u32) -> bool {
        self.recent.is_some_and(|(recent, at)| {
            value.wrapping_sub(recent).cast_signed() < 0 && now.since(at) < TIMESTAMP_LIFE
        })
    }

    /// Takes the timestamp of an acceptable segment at `seq` (RFC 7323, 4.3).
    pub fn take_timestamp(&mut self, now: Time, seq: Seq, value: u32) {
        if seq <= self.last_ack && !self.is_old(now, value) {
            self.recent = Some((value, now));
        }
    }

    /// The timestamp to echo.
    pub fn recent(&self) -> u32 {
        self.recent.map_or(0, |(recent, _)| recent)
    }

    /// Takes the payload at `seq`, cut to the window; returns the octets that became readable.
    pub fn take(&mut self, now: Time, seq: Seq, payload: &[u8], stats: &mut Received) -> u64 {
        let limit = self.fin.map_or(self.edge, |fin| fin.min(self.edge));
        let len = payload.len().min(limit.offset_from(seq));
        let counter = match self.reassembly.insert(seq, &payload[..len]) {
            Arrival::InOrder { octets, filled } => {
                stats.octets += octets;
                self.unacked += 1;
                let DelayedAck { segments, delay } = self.delayed_ack;
                if filled || self.unacked >= segments.max(1) || delay.is_zero() {
                    self.due = Due::Now;
                } else if self.due == Due::Never {
                    self.due = Due::Later(now + delay);
                }
                return octets;
            }
            Arrival::Duplicate => &mut stats.duplicates,
            Arrival::OutOfOrder => &mut stats.out_of_order,
            Arrival::Refused => &mut stats.too_many_holes,
        };
        *counter += 1;
        self.schedule_duplicate();
        0
    }

    /// Moves octets in order out; returns how many.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        self.reassembly.read(buffer)
    }

    /// Octets that can be read now.
    pub fn readable(&self) -> usize {
        self.reassembly.readable()
    }

    /// The SACK blocks to report, at most `room`.
    pub fn sack_blocks(&mut self, room: usize, report_twice: bool) -> SackBlocks {
        self.reassembly.sack_blocks(room, report_twice)
    }

    /// Whether there is anything for `sack_blocks` to report.
    pub fn has_blocks(&self) -> bool {
        self.reassembly.has_blocks()
    }

    /// Takes the ECN field and CWR of a segment (RFC 3168, 6.1.3).
    pub fn take_ecn(&mut self, is_reduced: bool, is_marked: bool) {
        self.echo = is_marked || self.echo && !is_reduced;
    }

    /// Whether to echo congestion by ECE.
    pub fn echo(&self) -> bool {
        self.echo
    }

    /// Makes an acknowledgement due now.
    pub fn schedule_ack(&mut self) {
        self.due = Due::Now;
    }

    /// Makes a pure acknowledgement due, because only such counts as a duplicate.
    pub fn schedule_duplicate(&mut self) {
        self.duplicates_due = (self.duplicates_due + 1).min(MAX_DUPLICATES_DUE);
    }

    /// Notes a FIN at `seq`, possibly ahead of the data received.
    pub fn take_fin(&mut self, seq: Seq) {
        if seq >= self.next() && seq < self.edge.max(self.next() + 1) {
            self.fin.get_or_insert(seq);
        }
        self.due = Due::Now;
    }

    /// Moves over the FIN once all before it is here; returns whether it did.
    pub fn reach_fin(&mut self) -> bool {
        if self.fin != Some(self.next()) {
            return false;
        }
        self.reassembly.pass_fin();
        self.fin = None;
        self.due = Due::Now;
        true
    }

    /// The window field for a segment sent now; the right edge never moves back, and moves on in
    /// steps worth sending for (RFC 9293, 3.8.6.2.2).
    pub fn advertise(&mut self) -> u16 {
        let edge = self.worthwhile_edge();
        let field = edge.since(self.next()) >> self.shift;
        let field = u16::try_from(field).unwrap_or(u16::MAX);
        self.offered = u64::from(field) << self.shift;
        self.edge = self.edge.max(self.next() + self.offered);
        field
    }

    /// Whether the application has read enough that the peer should know (RFC 9293, 3.8.6.2.2).
    pub fn has_news(&self) -> bool {
        let left = (self.last_ack + self.offered).since(self.next());
        let edge = self.worthwhile_edge();
        edge > self.edge && edge.since(self.next()) >= 2 * left
    }

    fn worthwhile_edge(&self) -> Seq {
        let most = self.next() + (0xffff << self.shift);
        let free = most.min(self.reassembly.base() + self.buffer);
        // A smaller step could vanish in the shift.
        let step = self.mss.min(self.buffer / 2).max(1 << self.shift);
        if free.since(self.edge) >= step { free } else { self.edge }
    }

    /// Whether an acknowledgement is due now, without one that may wait.
    pub fn is_ack_due(&self) -> bool {
        self.has_duplicate_due() || self.due == Due::Now
    }

    /// Whether an acknowledgement is due that must not ride on data.
    pub fn has_duplicate_due(&self) -> bool {
        self.duplicates_due > 0
    }

    /// Whether the next data or timeout brings an acknowledgement along.
    pub fn has_ack_scheduled(&self) -> bool {
        self.due != Due::Never
    }

    /// When a delayed acknowledgement becomes due.
    pub fn ack_at(&self) -> Option<Time> {
        match self.due {
            Due::Later(at) => Some(at),
            Due::Never | Due::Now => None,
        }
    }

    /// Acts on a delayed acknowledgement that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.ack_at().is_some_and(|at| at <= now) {
            self.due = Due::Now;
        }
    }

    /// Drops all acknowledgements that are due.
    pub fn cancel_acks(&mut self) {
        (self.due, self.duplicates_due) = (Due::Never, 0);
    }

    /// A pure acknowledgement was sent.
    pub fn sent_pure_ack(&mut self) {
        self.duplicates_due = self.duplicates_due.saturating_sub(1);
        self.acked();
    }

    /// An acknowledgement was sent.
    pub fn acked(&mut self) {
        self.last_ack = self.next();
        self.unacked = 0;
        self.due = Due::Never;
    }
}

fn buffer(config: &Config) -> u64 {
    u64::try_from(config.receive_buffer).unwrap_or(u64::MAX).clamp(1, 1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shift of the window field.
    const SHIFT: u8 = 7;

    fn receiver() -> Receiver {
        Receiver::new(&Config::default(), 1_000, SHIFT, 1_460)
    }

    #[test]
    fn a_fin_beyond_the_window_is_not_taken() {
        let mut receiver = receiver();

        receiver.take_fin(receiver.edge());
        assert_eq!(receiver.fin, None);

        receiver.take_fin(receiver.next());
        assert_eq!(receiver.fin, Some(receiver.next()));
    }

    #[test]
    fn octets_behind_a_fin_are_no_part_of_the_stream() {
        let (mut receiver, mut stats) = (receiver(), Received::default());
        let next = receiver.next();
        receiver.take_fin(next + 2);

        receiver.take(Time::ZERO, next + 1, b"bcd", &mut stats);
        receiver.take(Time::ZERO, next, b"a", &mut stats);

        assert_eq!(receiver.readable(), 2);
        assert!(receiver.reach_fin());
        assert_eq!(receiver.next(), next + 3);
    }

    #[test]
    fn the_right_edge_of_the_window_never_moves_back() {
        let mut receiver = receiver();
        receiver.advertise();
        let edge = receiver.edge();

        // The window is no whole number of units of its field now, which says less than was allowed.
        receiver.take(Time::ZERO, receiver.next(), &[7], &mut Received::default());
        receiver.advertise();

        assert_eq!(receiver.edge(), edge);
    }
}
