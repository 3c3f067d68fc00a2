//! A node alone, and neighbours that do what the test says.

use std::collections::BTreeMap;
use std::time::Duration;

use base::ip::{Header, Spec, protocol};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::super::packet::write_ip_header;
use super::super::wire::{
    Ack, Data, Echo, FlowId, Layout, Mask, Message, Repair, Seq, Transmission,
};
use super::super::{Config, Link, Peer, Relay, repair};
use super::line::peer_config;
use super::packets::seq_of;

const FLOW: FlowId = FlowId(7);

/// A node that restores packets from a scripted neighbour.
pub struct Arrivals {
    pub now: Time,
    pub relay: Relay,
    /// Who brings what comes next.
    pub from: Peer,
    seq: Seq,
}

impl Arrivals {
    /// The neighbour is `Peer(0)`, at `Link(0)`.
    pub fn new(config: Config) -> Self {
        let mut relay = Relay::new(config, Rng::stream(1, "hbh"));
        relay.add_peer(Peer(0), peer_config(0));
        Self { now: Time::ZERO, relay, from: Peer(0), seq: Seq(0) }
    }

    /// The next packet comes, and the neighbour waits for nothing before it.
    pub fn bring(&mut self, packet: &[u8]) {
        self.bring_as(Data { seq: self.seq, ..data(packet) }, packet);
    }

    /// A packet comes in this HDM.
    pub fn bring_as(&mut self, data: Data<'_>, packet: &[u8]) {
        let mut message = packet[..20].to_vec();
        data.emit(self.layout(), &mut message);
        self.seq = Seq(data.seq.0.wrapping_add(1));
        self.take(message);
    }

    fn layout(&self) -> Layout {
        self.relay.config().profile.layout()
    }

    /// A repair comes: the sum of packets with these numbers.
    pub fn bring_repair(&mut self, repeat: u16, packets: &[(u16, &[u8])]) {
        let (first, example) = packets[0];
        let mut mask = [0; 16];
        for (seq, _) in packets {
            let offset = usize::from(seq - first);
            mask[offset / 8] |= 1 << (offset % 8);
        }
        let mut sum = Vec::new();
        let covered = packets.iter().map(|&(seq, packet)| (seq.into(), packet, 20, false));
        repair::sum(repeat, covered, &mut sum);
        let mut message = example[..20].to_vec();
        let (mask, sum) = (Mask::new(&mask).unwrap(), &sum[..]);
        let (first, repeat) = (Seq(first), Seq(repeat));
        Repair { flow: FLOW, first, repeat, protocol: example[9], mask, sum }.emit(&mut message);
        self.take(message);
    }

    pub fn wait(&mut self, duration: Duration) {
        self.now += duration;
        self.relay.handle_timeout(self.now);
    }

    /// The restored packets.
    pub fn restored(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        std::iter::from_fn(|| self.relay.poll_restored(&mut out).map(|_| out.clone())).collect()
    }

    /// The sequence numbers of the restored packets.
    pub fn restored_seqs(&mut self) -> Vec<u32> {
        self.restored().iter().map(|packet| seq_of(packet)).collect()
    }

    /// The node's acknowledgement to the neighbour at this time, if any.
    pub fn answer(&mut self) -> Option<Answer> {
        let mut out = Vec::new();
        self.relay.poll_transmit(self.now, Link(0), &mut out)?;
        let header = Header::parse(&out).unwrap();
        match Message::split_first(self.layout(), &out[header.len..]).unwrap().0 {
            Message::Ack(ack) => Some(Answer {
                is_congested: ack.is_congested,
                is_unknown: ack.is_unknown,
                next: ack.next,
                last: ack.echo.map(|echo| echo.of),
            }),
            other => panic!("an acknowledgement, not {other:?}"),
        }
    }

    fn take(&mut self, mut message: Vec<u8>) {
        write_ip_header(&mut message, 20, protocol::EXPERIMENT);
        self.relay.handle_message(self.now, self.from, &message);
    }
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    pub is_congested: bool,
    pub is_unknown: bool,
    /// The lowest number that has not arrived and may still come.
    pub next: Seq,
    /// The transmission that arrived last.
    pub last: Option<Transmission>,
}

/// The HDM of a packet, with nothing else in it.
pub fn data(packet: &[u8]) -> Data<'_> {
    Data { outstanding: Some(0), ..Data::new(FLOW, Seq(0), packet[9], &packet[20..]) }
}

/// A node that sends to a neighbour with scripted acknowledgements.
pub struct Answered {
    pub now: Time,
    pub relay: Relay,
    /// When packets were sent.
    pub sent_at: Vec<Time>,
    acks: BTreeMap<Time, Vec<u8>>,
    free_at: Time,
}

impl Answered {
    /// The neighbour is `Peer(1)`, at `Link(0)`.
    pub fn new(config: Config) -> Self {
        let mut relay = Relay::new(config, Rng::stream(1, "hbh"));
        relay.add_peer(Peer(1), peer_config(0));
        Self {
            now: Time::ZERO,
            relay,
            sent_at: Vec::new(),
            acks: BTreeMap::new(),
            free_at: Time::ZERO,
        }
    }

    /// The packet sent now: flow, number, name, and whether an acknowledgement is requested.
    pub fn send(&mut self) -> Option<(FlowId, Seq, Transmission, bool)> {
        let mut out = Vec::new();
        self.relay.poll_transmit(self.now, Link(0), &mut out)?;
        let header = Header::parse(&out).unwrap();
        let layout = self.relay.config().profile.layout();
        match Message::split_first(layout, &out[header.len..]).unwrap().0 {
            Message::Data(data) => {
                let name = data.repeat.map_or(Transmission::First(data.seq), Transmission::Repeat);
                Some((data.flow, data.seq, name, data.wants_ack))
            }
            other => panic!("a packet, not {other:?}"),
        }
    }

    /// Takes an acknowledgement of all packets before `next`, after this transmission came.
    pub fn hear(&mut self, flow: FlowId, next: Seq, of: Transmission) {
        self.hear_as(flow, next, of, false);
    }

    /// The same, from a neighbour that is congested or is not.
    pub fn hear_as(&mut self, flow: FlowId, next: Seq, of: Transmission, is_congested: bool) {
        let message = self.ham(flow, next, of, is_congested);
        self.relay.handle_message(self.now, Peer(1), &message);
    }

    /// Jumps to the next deadline.
    pub fn expire(&mut self) {
        self.now = self.relay.next_timeout().unwrap();
        self.relay.handle_timeout(self.now);
    }

    /// Runs over a link that takes a packet each `slot`; everything is acknowledged after
    /// `round_trip`, by a neighbour that is congested or is not.
    pub fn run_for(
        &mut self,
        duration: Duration,
        (slot, round_trip): (Duration, Duration),
        is_congested: bool,
    ) {
        let end = self.now + duration;
        loop {
            while self.free_at <= self.now
                && let Some((flow, seq, of, _)) = self.send()
            {
                self.sent_at.push(self.now);
                self.free_at = self.now + slot;
                let next = Seq(seq.0.wrapping_add(1));
                let ham = self.ham(flow, next, of, is_congested);
                self.acks.insert(self.now + round_trip, ham);
            }
            let ack = self.acks.first_key_value().map(|(&at, _)| at);
            let free = (self.free_at > self.now).then_some(self.free_at);
            let next = earliest(earliest(ack, free), self.relay.next_timeout());
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.now = next;
            while let Some(entry) = self.acks.first_entry()
                && *entry.key() <= self.now
            {
                self.relay.handle_message(self.now, Peer(1), &entry.remove());
            }
            self.relay.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn ham(&self, flow: FlowId, next: Seq, of: Transmission, is_congested: bool) -> Vec<u8> {
        let neighbour = peer_config(0);
        let layout = self.relay.config().profile.layout();
        let mut message = Vec::new();
        Spec::new(neighbour.remote, neighbour.local, protocol::EXPERIMENT).emit(0, &mut message);
        let echo = Some(Echo { of, delay: Some(Duration::ZERO) });
        let echo = echo.filter(|_| layout == Layout::Wide);
        let ack = Ack { is_congested, echo, ..Ack::new(flow, next) };
        ack.emit(layout, &mut message);
        write_ip_header(&mut message, 20, protocol::EXPERIMENT);
        message
    }
}
