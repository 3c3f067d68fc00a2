//! The decoding half: solves combinations into segments, and decides what to acknowledge.

use base::serial::{expand, is_after, low32};

use super::config::Config;
use super::decoder::{Decoder, Outcome};
use super::stats::Stats;
use super::wire::{Ack, Combination, PREFIX, Runs};

/// The decoding half: one direction of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    decoder: Decoder,
    buffer: usize,
    acknowledges_redundancy: bool,
    has_started: bool,
    /// The next packet for TCP, which gets them in order.
    next_delivery: u64,
    /// The oldest packet that the peer may still mix.
    peer_base: u64,
    /// TCP's number of the octet after the last one delivered.
    delivered_end: Option<u32>,
    /// The latest word of our TCP: the next expected octet, and the window.
    tcp: Option<(u32, u16)>,
    last_window: u16,
    /// Octets of the longest payload delivered.
    longest: usize,
}

/// What to do with an acknowledgement from our TCP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Own {
    /// The acknowledgement contains news that the layer's lacks, and passes unchanged.
    Pass,
    /// The layer acknowledges in its place.
    Swallow,
    /// The same, but the peer waits to hear of a window.
    Update(Ack),
}

/// A decoded packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    number: u64,
    pub seq: u32,
    pub len: usize,
}

impl Receiver {
    pub fn new(config: &Config) -> Self {
        Self {
            decoder: Decoder::new(config.max_packets, config.receive_buffer),
            buffer: config.receive_buffer,
            acknowledges_redundancy: config.acknowledges_redundancy,
            has_started: false,
            next_delivery: 0,
            peer_base: 0,
            delivered_end: None,
            tcp: None,
            last_window: u16::MAX,
            longest: 0,
        }
    }

    /// Takes a combination; the acknowledgement to send.
    pub fn handle_combination(
        &mut self,
        combination: &Combination<'_>,
        stats: &mut Stats,
    ) -> Option<Ack> {
        stats.combinations_received += 1;
        let before = self.decoder.next_unseen();
        let first = expand(combination.first, u32::BITS, before);
        let peer_base = first.checked_sub(u64::from(combination.back));
        // What we have not seen, the peer cannot be done with.
        let Some(peer_base) = peer_base.filter(|base| *base <= before) else {
            stats.refused += 1;
            return None;
        };
        // First of all: what the peer is done with could leave no room for this.
        self.peer_base = self.peer_base.max(peer_base);
        self.decoder.forget_before(self.peer_base.min(self.next_delivery));
        let count = usize::from(combination.count);
        let outcome =
            self.decoder.handle_combination(first, count, combination.key, combination.coded);
        match outcome {
            Outcome::Dependent => stats.dependent += 1,
            Outcome::Innovative => {}
            Outcome::Refused => {
                stats.refused += 1;
                return None;
            }
        }
        self.has_started = true;
        let unseen = self.decoder.next_unseen();
        // Redundancy that was not needed is no sign of a loss.
        let is_needed = unseen < first + count as u64;
        let is_hole = unseen == before && (is_needed || self.acknowledges_redundancy);
        Some(self.ack(Some(combination.id), is_hole))
    }

    /// Notes the acknowledgement number and window of our TCP, from a segment with or without data.
    pub fn note_tcp(&mut self, next: u32, window: u16) {
        self.tcp = Some((next, window));
    }

    /// Judges an acknowledgement of our TCP's that carries nothing else.
    pub fn judge_own_ack(&mut self, ack: u32) -> Own {
        let is_news = match self.delivered_end {
            Some(end) => is_after(ack, end),
            None => true,
        };
        if !self.has_started || is_news {
            return Own::Pass;
        }
        let is_small = usize::from(self.last_window) < 2 * self.longest;
        if is_small && self.window() > self.last_window {
            return Own::Update(self.ack(None, false));
        }
        Own::Swallow
    }

    /// The next packet that TCP has room for.
    pub fn poll_delivery(&mut self, stats: &mut Stats) -> Option<Delivery> {
        loop {
            let number = self.next_delivery;
            let packet = self.decoder.decoded(number)?;
            let Some((seq, len)) = read_prefix(packet) else {
                stats.undecodable += 1;
                self.next_delivery += 1;
                continue;
            };
            let end = seq.wrapping_add(u32::from(len));
            let edge = self.tcp.map(|(next, window)| next.wrapping_add(u32::from(window)));
            if edge.is_some_and(|edge| is_after(end, edge)) {
                return None;
            }
            let len = usize::from(len);
            stats.delivered += 1;
            self.next_delivery += 1;
            self.delivered_end = Some(end);
            self.longest = self.longest.max(len);
            return Some(Delivery { number, seq, len });
        }
    }

    /// The payload of a packet that was delivered just now.
    pub fn payload(&self, delivery: Delivery) -> &[u8] {
        let packet = self.decoder.decoded(delivery.number).unwrap_or_default();
        packet.get(PREFIX..PREFIX + delivery.len).unwrap_or_default()
    }

    /// The octet that our TCP expects.
    pub fn tcp_next(&self) -> Option<u32> {
        self.tcp.map(|(next, _)| next)
    }

    fn ack(&mut self, echo: Option<u32>, is_hole: bool) -> Ack {
        let unseen = self.decoder.next_unseen();
        let mut runs = Runs::default();
        for (from, len) in self.decoder.runs() {
            let (Ok(offset), Ok(len)) = (u16::try_from(from - unseen), u16::try_from(len)) else {
                break;
            };
            runs.push(offset, len);
        }
        self.last_window = self.window();
        Ack { unseen: low32(unseen), echo, window: self.last_window, is_hole, runs }
    }

    /// The window to offer: TCP's own as long as our buffer has room, because seen packets not yet given to TCP lie in
    /// that buffer.
    fn window(&self) -> u16 {
        let room = self.buffer.saturating_sub(self.decoder.octets());
        let tcp = self.tcp.map_or(0, |(_, window)| window);
        tcp.min(u16::try_from(room).unwrap_or(u16::MAX))
    }
}

/// The sequence number and the length that a packet begins with, if they make sense.
fn read_prefix(packet: &[u8]) -> Option<(u32, u16)> {
    let (&[a, b, c, d, hi, lo], payload) = packet.split_first_chunk::<PREFIX>()?;
    let len = u16::from_be_bytes([hi, lo]);
    let fits = len > 0 && usize::from(len) <= payload.len();
    fits.then_some((u32::from_be_bytes([a, b, c, d]), len))
}

#[cfg(test)]
mod tests {
    use super::super::coefficients;
    use super::*;

    /// Whether a combination that brings nothing is told to TCP as a sign of a loss.
    fn is_hole(acknowledges_redundancy: bool) -> Option<bool> {
        let config = Config { acknowledges_redundancy, ..Config::default() };
        let mut receiver = Receiver::new(&config);
        let coded = [0, 0, 0, 1, 0, 1, 0x5a];
        let sent = |id| Combination { first: 0, count: 1, back: 0, id, key: 7, coded: &coded };
        let mut stats = Stats::default();
        let _ = receiver.handle_combination(&sent(0), &mut stats);

        receiver.handle_combination(&sent(1), &mut stats).map(|ack| ack.is_hole)
    }

    #[test]
    fn a_packet_without_a_length_is_passed_over() {
        let mut receiver = Receiver::new(&Config::default());
        let mut stats = Stats::default();
        for (first, len) in [(0, 0), (1, 1)] {
            let (mut coded, mut factor) = ([0, 0, 0, 1, 0, len, 0x5a], Vec::new());
            coefficients::expand(7, 1, &mut factor);
            gf::scale(&mut coded, factor[0]);
            let back = u16::from(len);
            let sent = Combination { first, count: 1, back, id: 0, key: 7, coded: &coded };
            let _ = receiver.handle_combination(&sent, &mut stats);
        }

        let delivery = receiver.poll_delivery(&mut stats).unwrap();

        assert_eq!((delivery.number, receiver.payload(delivery).len()), (1, 1));
        assert_eq!((stats.undecodable, stats.delivered), (1, 1));
    }

    #[test]
    fn redundancy_that_was_not_needed_looks_like_a_loss_only_where_asked() {
        assert_eq!([false, true].map(is_hole), [Some(false), Some(true)]);
    }
}
