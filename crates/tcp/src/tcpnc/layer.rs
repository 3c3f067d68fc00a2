//! The layer between one TCP connection and IP.

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::ip::Header;
use base::rng::Rng;
use base::tcp::{Flags, Options, Segment};
use base::time::Time;

use super::config::Config;
use super::receiver::{Own, Receiver};
use super::sender::{Sender, Verdict};
use super::stats::Stats;
use super::wire::{Ack, Body, Message, OVERHEAD};

/// The layer under one TCP connection, both directions: a core in the sense of [`base::contract`].
///
/// What TCP sends goes in by [`handle_outgoing`](Self::handle_outgoing) and leaves by
/// [`poll_transmit`](Self::poll_transmit), data as coded combinations. What the peer's layer sends goes in by
/// [`handle_message`](Self::handle_message) and reaches TCP by [`poll_segment`](Self::poll_segment).
///
/// - Facts in: `handle_outgoing`, `handle_message`.
/// - Decisions out: `poll_segment` after each of these, and TCP's answer to each segment back in; then
///   `poll_transmit` while the network has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: [`stats`](Self::stats), [`config`](Self::config), [`loss`](Self::loss),
///   [`window_size`](Self::window_size), [`held`](Self::held).
#[derive(Clone, Debug)]
pub struct Layer {
    config: Config,
    local: SocketAddr,
    remote: SocketAddr,
    sender: Sender,
    receiver: Receiver,
    stats: Stats,
    /// Whole IP packets.
    outbox: VecDeque<Vec<u8>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// Acknowledgements for TCP: number and window.
    acks: VecDeque<(u32, u16)>,
    /// What TCP was told last.
    acked: u32,
    peer_window: u16,
}

/// Acknowledgements and buffers kept, at most.
const LIMIT: usize = 1_024;

impl Layer {
    /// A layer under the connection between these ends, before its first segment.
    #[must_use]
    pub fn new(config: Config, local: SocketAddr, remote: SocketAddr, rng: Rng) -> Self {
        Self {
            config,
            local,
            remote,
            sender: Sender::new(config, rng),
            receiver: Receiver::new(&config),
            stats: Stats::default(),
            outbox: VecDeque::new(),
            spare: Vec::new(),
            acks: VecDeque::new(),
            acked: 0,
            peer_window: 0,
        }
    }

    /// Takes a segment that TCP sends, as a whole IP packet.
    pub fn handle_outgoing(&mut self, now: Time, packet: &[u8]) {
        let segment = Header::parse(packet)
            .ok()
            .and_then(|header| Segment::parse(&header, packet, header.len).ok());
        let Some(segment) = segment else {
            self.pass(packet);
            return;
        };
        if segment.flags.has(Flags::RST) {
            self.pass(packet);
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.receiver.note_tcp(segment.ack, segment.window);
        }
        if segment.flags.has(Flags::SYN) {
            self.acked = segment.seq.wrapping_add(1);
            self.emit_syn(&segment);
            return;
        }

        if !segment.payload.is_empty() {
            let (seq, payload) = (segment.seq, segment.payload);
            let before = self.sender.unseen_octet();
            self.sender.handle_data(now, seq, payload, &mut self.stats);
            self.emit_combinations();
            let is_old = before.is_some_and(|unseen| {
                let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                unseen.wrapping_sub(seq.wrapping_add(len)).cast_signed() >= 0
            });
            if is_old {
                // TCP must have missed the acknowledgement of this data.
                self.tell(before.unwrap_or(self.acked), self.peer_window);
            }
        }
        if segment.flags.has(Flags::FIN) {
            let len = u32::try_from(segment.payload.len()).unwrap_or(0);
            let seq = segment.seq.wrapping_add(len);
            self.emit(&Segment { seq, payload: &[], ..segment });
        } else if segment.payload.is_empty() {
            match self.receiver.judge_own_ack(segment.ack) {
                Own::Pass => self.pass(packet),
                Own::Swallow => self.stats.acks_swallowed += 1,
                Own::Update(ack) => {
                    self.stats.acks_swallowed += 1;
                    self.emit_ack(ack);
                }
            }
        }
    }

    /// Takes a message of the peer's layer for this connection.
    pub fn handle_message(&mut self, _now: Time, message: &Message<'_>) {
        match &message.body {
            Body::Ack(ack) => self.take_ack(ack),
            Body::Combination(combination) => {
                if let Some(ack) = self.receiver.handle_combination(combination, &mut self.stats) {
                    self.emit_ack(ack);
                }
            }
        }
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now, &mut self.stats);
        self.emit_combinations();
    }

    /// Puts the next whole IP packet for the network in place of what `out` holds; false when there is
    /// none.
    #[must_use]
    pub fn poll_transmit(&mut self, _now: Time, out: &mut Vec<u8>) -> bool {
        let Some(mut packet) = self.outbox.pop_front() else { return false };
        std::mem::swap(out, &mut packet);
        if self.spare.len() < LIMIT {
            packet.clear();
            self.spare.push(packet);
        }
        true
    }

    /// The next segment for TCP: an acknowledgement, or data in order.
    ///
    /// TCP should act after each segment: its output may make more segments available.
    #[must_use]
    pub fn poll_segment(&mut self, _now: Time) -> Option<Segment<'_>> {
        if let Some((ack, window)) = self.acks.pop_front() {
            self.acked = ack;
            self.peer_window = window;
            return Some(self.segment(Flags::ACK));
        }
        let delivery = self.receiver.poll_delivery(&mut self.stats)?;
        let segment = self.segment(Flags::ACK | Flags::PSH);
        let payload = self.receiver.payload(delivery);
        Some(Segment { seq: delivery.seq, payload, ..segment })
    }

    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.sender.next_timeout()
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The estimated loss rate of our packets, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.sender.loss()
    }

    /// The packets that the next coding window will have.
    #[must_use]
    pub fn window_size(&self) -> usize {
        self.sender.window_size()
    }

    /// Packets held for coding: sent and not yet seen by the peer.
    #[must_use]
    pub fn held(&self) -> usize {
        self.sender.held()
    }

    fn take_ack(&mut self, ack: &Ack) {
        match self.sender.handle_ack(ack, &mut self.stats) {
            Verdict::Acked(seq) => self.tell(seq, ack.window),
            Verdict::Ignored => {}
            Verdict::Same { is_hole } => {
                let (last, window) =
                    self.acks.back().copied().unwrap_or((self.acked, self.peer_window));
                if is_hole || window != ack.window {
                    self.tell(last, ack.window);
                }
            }
        }
    }

    fn tell(&mut self, ack: u32, window: u16) {
        if self.acks.len() < LIMIT {
            self.acks.push_back((ack, window));
        }
    }

    /// Sends a SYN without what the layer does not carry, and with room for its headers.
    fn emit_syn(&mut self, syn: &Segment<'_>) {
        let overhead = u16::try_from(OVERHEAD).expect("a few octets");
        let mss = syn.options.mss.map(|mss| mss.saturating_sub(overhead));
        let options = Options { mss, ..Options::default() };
        let flags = syn.flags.without(Flags::ECE | Flags::CWR);
        self.emit(&Segment { options, flags, ..*syn });
    }

    fn emit(&mut self, segment: &Segment<'_>) {
        let mut packet = self.spare.pop().unwrap_or_default();
        segment.emit(&mut packet);
        self.outbox.push_back(packet);
    }

    fn emit_ack(&mut self, ack: Ack) {
        self.stats.acks_sent += 1;
        let mut packet = self.spare.pop().unwrap_or_default();
        let body = Body::Ack(ack);
        let (source, destination, protocol) = (self.local, self.remote, self.config.protocol);
        Message { source, destination, protocol, body }.emit(&mut packet);
        self.outbox.push_back(packet);
    }

    fn emit_combinations(&mut self) {
        let (source, destination, protocol) = (self.local, self.remote, self.config.protocol);
        while let Some(combination) = self.sender.poll_combination(&mut self.stats) {
            let mut packet = self.spare.pop().unwrap_or_default();
            let body = Body::Combination(combination);
            Message { source, destination, protocol, body }.emit(&mut packet);
            self.outbox.push_back(packet);
        }
    }

    fn pass(&mut self, packet: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(packet);
        self.outbox.push_back(copy);
    }

    /// A segment for TCP that carries nothing.
    fn segment(&self, flags: Flags) -> Segment<'static> {
        let seq = self.receiver.tcp_next().unwrap_or(0);
        let (ack, window) = (self.acked, self.peer_window);
        Segment { seq, ack, flags, window, ..Segment::bare(self.remote, self.local) }
    }
}
