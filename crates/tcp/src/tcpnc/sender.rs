//! The coding half: combines segments, one coding window after the other.

use std::collections::VecDeque;

use base::rng::Rng;
use base::serial::{expand, is_after, low32};
use base::time::Time;

use super::coefficients;
use super::config::Config;
use super::loss::Estimator;
use super::redundancy;
use super::stats::Stats;
use super::wire::{Ack, Combination, PREFIX};

/// The coding buffer for one direction of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: Config,
    rng: Rng,
    estimator: Estimator,
    /// The number of the first packet held: the oldest that the peer has not seen.
    base: u64,
    packets: VecDeque<Packet>,
    /// TCP's number of the octet after the last packet; `None` before the first.
    end: Option<u32>,
    windows: VecDeque<CodingWindow>,
    next_id: u32,
    /// The latest transmission that came back.
    echoed: Option<u32>,
    /// What the peer has not seen though it has seen something later: numbers, from and to.
    missing: Vec<(u64, u64)>,
    flush_at: Option<Time>,
    due: VecDeque<Due>,
    coefficients: Vec<u8>,
    coded: Vec<u8>,
}

/// A segment's octets, numbered.
#[derive(Clone, Debug)]
struct Packet {
    seq: u32,
    /// The prefix and the payload.
    octets: Vec<u8>,
}

/// Packets that are mixed with each other: the seed's coding window.
#[derive(Clone, Copy, Debug)]
struct CodingWindow {
    first: u64,
    end: u64,
    /// How many packets it is to have, and how many combinations follow: fixed when it begins.
    size: usize,
    extra: usize,
    is_open: bool,
    /// Its last transmission.
    last_id: u32,
    /// The last joint retransmission of packets in this window: the first packet, and the last transmission.
    repaired: Option<(u64, u32)>,
}

/// A combination to be sent.
#[derive(Clone, Copy, Debug)]
struct Due {
    first: u64,
    end: u64,
    id: u32,
}

/// What an acknowledgement means to TCP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// For TCP all octets before this number have arrived.
    Acked(u32),
    /// It is old, or makes no sense.
    Ignored,
    /// It says the same again; TCP is to count a duplicate if there is a hole.
    Same {
        /// Whether something is missing.
        is_hole: bool,
    },
}

impl Sender {
    pub fn new(config: Config, rng: Rng) -> Self {
        Self {
            config,
            rng,
            estimator: Estimator::new(config.initial_loss, config.period, config.gain),
            base: 0,
            packets: VecDeque::new(),
            end: None,
            windows: VecDeque::new(),
            next_id: 0,
            echoed: None,
            missing: Vec::new(),
            flush_at: None,
            due: VecDeque::new(),
            coefficients: Vec::new(),
            coded: Vec::new(),
        }
    }

    /// Takes octets that TCP sends, for the first time or again.
    pub fn handle_data(&mut self, now: Time, seq: u32, payload: &[u8], stats: &mut Stats) {
        let end = *self.end.get_or_insert(seq);
        let ahead = end.wrapping_sub(seq).cast_signed();
        let Ok(known) = usize::try_from(ahead) else {
            // A gap: what came before was dropped, and will come again before this.
            stats.full += 1;
            return;
        };
        if known > 0 {
            stats.segments_again += 1;
            self.resend(seq, payload.len().min(known), stats);
        }
        if let Some(fresh) = payload.get(known..).filter(|fresh| !fresh.is_empty()) {
            self.take(now, end, fresh, stats);
        }
    }

    /// Takes an acknowledgement.
    pub fn handle_ack(&mut self, ack: &Ack, stats: &mut Stats) -> Verdict {
        stats.acks_received += 1;
        let was_sent = |id: u32| is_after(self.next_id, id);
        let unseen = expand(ack.unseen, u32::BITS, self.base);
        if unseen > self.next_number() || !ack.echo.is_none_or(was_sent) {
            stats.bad_acks += 1;
            return Verdict::Ignored;
        }
        if let Some(id) = ack.echo {
            self.estimator.handle_echo(id);
            if self.echoed.is_none_or(|echoed| is_after(id, echoed)) {
                self.echoed = Some(id);
            }
        }
        if unseen < self.base {
            stats.stale_acks += 1;
            return Verdict::Ignored;
        }

        self.missing.clear();
        for (offset, len) in ack.runs.as_slice() {
            let from = unseen + u64::from(*offset);
            self.missing.push((from, (from + u64::from(*len)).min(self.next_number())));
        }
        if unseen == self.base {
            return Verdict::Same { is_hole: ack.is_hole && !self.packets.is_empty() };
        }
        while self.base < unseen {
            self.packets.pop_front();
            self.base += 1;
        }
        let base = self.base;
        self.windows.retain(|window| window.is_open || window.end > base);
        let seq = self.packets.front().map(|packet| packet.seq).or(self.end);
        seq.map_or(Verdict::Ignored, Verdict::Acked)
    }

    /// Closes a coding window that waits in vain for more.
    pub fn handle_timeout(&mut self, now: Time, stats: &mut Stats) {
        if self.flush_at.is_none_or(|at| at > now) {
            return;
        }
        self.flush_at = None;
        if self.windows.back().is_some_and(|window| window.end > self.base) {
            stats.flushes += 1;
            self.close(stats);
        }
    }

    /// The next combination to send.
    pub fn poll_combination(&mut self, stats: &mut Stats) -> Option<Combination<'_>> {
        loop {
            let Due { first, end, id } = self.due.pop_front()?;
            let first = first.max(self.base);
            if first >= end {
                // The packet was seen meanwhile. The skipped number counts as lost, too rarely to matter.
                continue;
            }
            stats.combinations_sent += 1;
            let from = offset(first, self.base);
            let count = offset(end, first);
            let key = self.rng.bits().to_be_bytes();
            let key = u16::from_be_bytes([key[0], key[1]]);
            coefficients::expand(key, count, &mut self.coefficients);
            let packets = self.packets.range(from..from + count);
            let terms: Vec<_> = self
                .coefficients
                .iter()
                .zip(packets)
                .map(|(coefficient, packet)| (*coefficient, &packet.octets[..]))
                .collect();
            let len = terms.iter().map(|(_, octets)| octets.len()).max().unwrap_or(0);
            self.coded.resize(len, 0);
            gf::combine(&mut self.coded, &terms);
            return Some(Combination {
                first: low32(first),
                count: u8::try_from(count).expect("a coding window has at most 255 packets"),
                back: u16::try_from(from).expect("fewer packets are held"),
                id,
                key,
                coded: &self.coded,
            });
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.flush_at
    }

    /// The estimate of the loss rate.
    pub fn loss(&self) -> f64 {
        self.estimator.rate()
    }

    /// Packets that the next coding window is to have.
    pub fn window_size(&self) -> usize {
        let limit = self.config.max_window.clamp(1, 255);
        match self.config.window {
            Some(size) => size.clamp(1, limit),
            None => {
                let (extra, target) = (self.config.extra, self.config.target);
                redundancy::window(extra, self.estimator.rate(), target, limit)
            }
        }
    }

    /// TCP's number of the oldest octet that the peer has not seen.
    pub fn unseen_octet(&self) -> Option<u32> {
        self.packets.front().map(|packet| packet.seq).or(self.end)
    }

    /// Packets held.
    pub fn held(&self) -> usize {
        self.packets.len()
    }

    fn next_number(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Makes a packet of new octets, and schedules a combination of its coding window so far.
    fn take(&mut self, now: Time, seq: u32, payload: &[u8], stats: &mut Stats) {
        let Ok(len) = u16::try_from(payload.len()) else { return };
        if self.packets.len() >= self.config.max_packets {
            stats.full += 1;
            return;
        }
        stats.segments += 1;
        let mut octets = Vec::with_capacity(PREFIX + payload.len());
        octets.extend_from_slice(&seq.to_be_bytes());
        octets.extend_from_slice(&len.to_be_bytes());
        octets.extend_from_slice(payload);
        let number = self.next_number();
        self.packets.push_back(Packet { seq, octets });
        self.end = Some(seq.wrapping_add(u32::from(len)));

        if !self.windows.back().is_some_and(|window| window.is_open) {
            let size = self.window_size();
            self.windows.push_back(CodingWindow {
                first: number,
                end: number,
                size,
                extra: self.config.extra,
                is_open: true,
                last_id: self.next_id,
                repaired: None,
            });
        }
        self.flush_at = Some(now + self.config.flush_after);
        let last = self.windows.len() - 1;
        self.windows[last].end = number + 1;
        self.schedule_window(last, 1);
        if offset(number + 1, self.windows[last].first) >= self.windows[last].size {
            self.close(stats);
        }
    }

    /// Ends the open coding window, if any, and schedules its redundancy.
    fn close(&mut self, stats: &mut Stats) {
        self.flush_at = None;
        let last = self.windows.len().wrapping_sub(1);
        let Some(window) = self.windows.get_mut(last).filter(|window| window.is_open) else {
            return;
        };
        window.is_open = false;
        let extra = window.extra;
        stats.redundant_sent += extra as u64;
        self.schedule_window(last, extra);
    }

    /// TCP sent octets again that are numbered already.
    fn resend(&mut self, seq: u32, len: usize, stats: &mut Stats) {
        let Some(front) = self.packets.front().map(|packet| packet.seq) else { return };
        let from = seq.wrapping_sub(front).cast_signed();
        let to = from.saturating_add(i32::try_from(len).unwrap_or(i32::MAX));
        let start = |packet: &Packet| packet.seq.wrapping_sub(front).cast_signed();
        let after = self.packets.partition_point(|packet| start(packet) < to);
        let first = self.packets.partition_point(|packet| start(packet) <= from).max(1) - 1;
        if after == 0 {
            // The peer has seen the whole segment.
            return;
        }
        let mut number = self.base + first as u64;
        let after = self.base + after as u64;
        while number < after {
            let place = self.windows.iter().position(|window| window.end > number);
            let Some(place) = place else { return };
            self.resend_one(place, number, stats);
            number = self.windows[place].end;
        }
        if self.config.enhanced_retransmission {
            self.repair_others(stats);
        }
    }

    /// Retransmits for one packet of a coding window.
    fn resend_one(&mut self, place: usize, number: u64, stats: &mut Stats) {
        let window = self.windows[place];
        // While a repair is under way, TCP's next segments need no other.
        let is_due =
            window.repaired.is_none_or(|(first, id)| number <= first || self.has_come_back(id));
        let missing = self.missing_from(&window).max(1);
        let count = if self.config.enhanced_retransmission && is_due {
            self.repair(place, number, missing, stats)
        } else {
            1
        };
        stats.resent += count as u64;
        self.schedule_window(place, count);
    }

    /// Resends what is known to be missing from closed coding windows.
    fn repair_others(&mut self, stats: &mut Stats) {
        for place in 0..self.windows.len() {
            let window = self.windows[place];
            let missing = self.missing_from(&window);
            let last = window.repaired.map_or(window.last_id, |(_, id)| id);
            if missing == 0 || window.is_open || !self.has_come_back(last) {
                continue;
            }
            let count = self.repair(place, window.first.max(self.base), missing, stats);
            stats.resent += count as u64;
            self.schedule_window(place, count);
        }
    }

    /// Notes that this many packets are resent together; returns the number of combinations needed.
    fn repair(&mut self, place: usize, number: u64, missing: usize, stats: &mut Stats) -> usize {
        let limit = self.config.max_burst.max(1);
        let missing = missing.min(limit);
        let (loss, target) = (self.estimator.rate(), self.config.repair_target);
        let count = missing + redundancy::extra(missing, loss, target, limit - missing);
        let ahead = u32::try_from(count).unwrap_or(u32::MAX);
        let last = self.next_id.wrapping_add(ahead).wrapping_sub(1);
        self.windows[place].repaired = Some((number, last));
        stats.repairs += 1;
        count
    }

    /// Packets of a coding window that the peer lacks though it has seen later ones.
    fn missing_from(&self, window: &CodingWindow) -> usize {
        let first = window.first.max(self.base);
        let within = self
            .missing
            .iter()
            .map(|(from, to)| (*to).min(window.end).saturating_sub((*from).max(first)));
        usize::try_from(within.sum::<u64>()).unwrap_or(usize::MAX)
    }

    fn has_come_back(&self, id: u32) -> bool {
        self.echoed.is_some_and(|echoed| !is_after(id, echoed))
    }

    /// Schedules combinations of a whole coding window in its present extent.
    fn schedule_window(&mut self, place: usize, count: usize) {
        let window = &mut self.windows[place];
        for _ in 0..count {
            window.last_id = self.next_id;
            self.due.push_back(Due { first: window.first, end: window.end, id: self.next_id });
            self.next_id = self.next_id.wrapping_add(1);
        }
    }
}

fn offset(to: u64, from: u64) -> usize {
    usize::try_from(to - from).expect("the numbers of packets that are held")
}
