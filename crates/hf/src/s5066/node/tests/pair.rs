//! Two nodes, a client at each or what uses one, and modems that follow the times of their waveform.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use harness::keeps_time;

use super::super::{Config, Event, Node};
use crate::modem::{self, Keying, Waveform};
use crate::s5066::Address;
use crate::s5066::sis::client::SendId;
use crate::s5066::sis::{Client, ClientId, Sap, Service, UnidataReason, client};
use crate::slep::tests::bench::Above;

/// The two sides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    A,
    B,
}

pub(crate) const SAP: Sap = Sap::new(13);
/// The time from the end of a block until it is decoded.
const DECODING: Duration = Duration::from_millis(50);

/// Two nodes on one frequency.
pub(crate) struct Pair<C: Above = Client> {
    pub(crate) now: Time,
    ends: [End<C>; 2],
    /// Whether the nodes have modems and could begin to transmit.
    pub(crate) has_modems: bool,
    /// The waveform that the modems use, whatever the nodes want.
    pub(crate) set_to: Option<Waveform>,
    /// Changes octets on the air.
    pub(crate) noise: Box<Noise>,
}

type Noise = dyn FnMut(Time, &mut Vec<u8>);

struct End<C: Above> {
    config: Config,
    node: Node,
    client: C,
    /// None while the client has no connection.
    id: Option<ClientId>,
    events: Vec<C::Event>,
    modem: Modem,
}

impl Above for Client {
    type Config = client::Config;
    type Event = client::Event;

    fn start(_: Time, config: client::Config, _: Rng) -> Self {
        Self::new(config)
    }
    fn handle_connected(&mut self, now: Time) {
        self.handle_connected(now);
    }
    fn handle_disconnected(&mut self, _: Time) {
        self.handle_disconnected();
    }
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.handle_octets(now, octets);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }
    fn poll_event(&mut self) -> Option<client::Event> {
        self.poll_event()
    }
    fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.poll_octets(now, out)
    }
    fn next_timeout(&self) -> Option<Time> {
        self.next_timeout()
    }
}

/// A transmitter, and the events that it causes.
#[derive(Default)]
struct Modem {
    /// The waveform, when the next block begins, and whether that is the first.
    transmitting: Option<(Waveform, Time, bool)>,
    ended: bool,
    /// Whether it has heard the preamble of what the other side transmits, and can follow it.
    is_receiving: bool,
    block: Vec<u8>,
    /// Events of the other side's modem and of our own, with their times.
    heard: Vec<(Time, modem::Event)>,
    own: Vec<(Time, modem::Event)>,
}

impl Pair {
    pub(crate) fn new(waveform: &str, change: impl Fn(&mut Config)) -> Self {
        Self::of(waveform, change, [SAP, SAP].map(client::Config::new))
    }

    /// Sends with acknowledgement, in order.
    pub(crate) fn send(&mut self, side: Side, octets: &[u8]) -> SendId {
        self.send_as(side, octets, |_| {})
    }

    /// Sends with parameters that `change` modifies.
    pub(crate) fn send_as(
        &mut self,
        side: Side,
        u_pdu: &[u8],
        change: impl FnOnce(&mut client::Send<'_>),
    ) -> SendId {
        let mut send = client::Send {
            to: self.ends[1 - side as usize].node.address(),
            to_sap: SAP,
            priority: 0,
            is_expedited: false,
            service: Some(Service::ARQ),
            ttl: Duration::ZERO,
            u_pdu,
        };
        change(&mut send);
        let id = self.ends[side as usize].client.send(self.now, send).expect("the client takes it");
        self.settle();
        id
    }

    /// Restarts a node with a new client; a transmission of its modem ends in noise.
    pub(crate) fn restart(&mut self, side: Side) {
        self.disconnect(side);
        self.ends[side as usize].client = Client::new(client::Config::new(SAP));
        self.restart_node(side);
        self.connect(side);
    }

    pub(crate) fn received(&self, side: Side) -> Vec<Vec<u8>> {
        let received = self.events(side).iter().filter_map(|event| match event {
            client::Event::Received(received) => Some(received.u_pdu.clone()),
            _ => None,
        });
        received.collect()
    }

    /// The confirmed U_PDUs, in the order of their confirmations.
    pub(crate) fn confirmed(&self, side: Side) -> Vec<SendId> {
        let confirmed = self.ends[side as usize].events.iter().filter_map(|event| match event {
            client::Event::Confirmed(id) => Some(*id),
            _ => None,
        });
        confirmed.collect()
    }

    /// The rejected U_PDUs, and the reasons.
    pub(crate) fn rejected(&self, side: Side) -> Vec<(Option<SendId>, UnidataReason)> {
        let rejected = self.ends[side as usize].events.iter().filter_map(|event| match event {
            client::Event::Rejected { id, reason, .. } => Some((*id, *reason)),
            _ => None,
        });
        rejected.collect()
    }
}

impl Modem {
    /// Whether it is on the air, up to the end of its last block.
    fn is_transmitting(&self) -> bool {
        self.transmitting.is_some() || !self.own.is_empty()
    }
}

impl<C: Above> Pair<C> {
    /// Two stations whose clients are started with these configurations, and connected.
    pub(crate) fn of(
        waveform: &str,
        change: impl Fn(&mut Config),
        clients: [C::Config; 2],
    ) -> Self {
        let waveform: Waveform = waveform.parse().expect("a waveform");
        let end = |(address, seed, client): (u32, u64, C::Config)| {
            let mut config = Config::new(Address::node(address), waveform);
            change(&mut config);
            let mut node = Node::new(Time::ZERO, config.clone(), Rng::stream(seed, "node"));
            node.record(true);
            let client = C::start(Time::ZERO, client, Rng::stream(seed, "client"));
            let modem = Modem::default();
            End { config, node, client, id: None, events: Vec::new(), modem }
        };
        let [first, second] = clients;
        let ends = [end((0x0a_141e, 1, first)), end((0x0a_141f, 2, second))];
        let noise = Box::new(|_: Time, _: &mut Vec<u8>| {});
        let mut pair = Self { now: Time::ZERO, ends, has_modems: true, set_to: None, noise };
        for side in [Side::A, Side::B] {
            pair.connect(side);
        }
        pair
    }

    /// Whether a station is on the air.
    pub(crate) fn is_transmitting(&self, side: Side) -> bool {
        self.ends[side as usize].modem.is_transmitting()
    }

    /// Connects a client to its node.
    pub(crate) fn connect(&mut self, side: Side) {
        let end = &mut self.ends[side as usize];
        if end.id.is_none() {
            end.id = end.node.handle_connected(self.now);
            end.client.handle_connected(self.now);
        }
        self.settle();
    }

    /// Breaks the connection of a client, with what is in it.
    pub(crate) fn disconnect(&mut self, side: Side) {
        let end = &mut self.ends[side as usize];
        if let Some(id) = end.id.take() {
            end.node.handle_disconnected(self.now, id);
            end.client.handle_disconnected(self.now);
        }
        self.settle();
    }

    /// Restarts a node, and breaks the connection of its client; a transmission of its modem ends in noise.
    pub(crate) fn restart_node(&mut self, side: Side) {
        let now = self.now;
        self.disconnect(side);
        let end = &mut self.ends[side as usize];
        let rng = Rng::stream(now.as_nanos(), &format!("node {}", end.config.address));
        end.node = Node::new(now, end.config.clone(), rng);
        end.node.record(true);
        end.modem.ended = true;
        end.modem.own.clear();
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            for index in 0..2 {
                self.step(index);
            }
            self.settle();
        }
        self.now = end;
    }

    pub(crate) fn client(&mut self, side: Side) -> &mut C {
        &mut self.ends[side as usize].client
    }

    pub(crate) fn events(&self, side: Side) -> &[C::Event] {
        &self.ends[side as usize].events
    }

    pub(crate) fn node(&mut self, side: Side) -> &mut Node {
        &mut self.ends[side as usize].node
    }

    pub(crate) fn transmissions(&self) -> [u64; 2] {
        [0, 1].map(|index: usize| self.ends[index].node.stats().transmissions)
    }

    fn next_event(&self) -> Option<Time> {
        let of = |end: &End<C>| {
            let modem = &end.modem;
            let heard = modem.heard.iter().chain(&modem.own).map(|(at, _)| *at).min();
            [
                end.node.next_timeout(),
                end.client.next_timeout(),
                heard,
                modem.transmitting.map(|(_, at, _)| at),
            ]
            .into_iter()
            .flatten()
            .min()
        };
        self.ends.iter().filter_map(of).min()
    }

    /// Acts on the deadlines of one end.
    fn step(&mut self, index: usize) {
        let now = self.now;
        let end = &mut self.ends[index];
        if end.node.next_timeout().is_some_and(|at| at <= now) {
            keeps_time(&mut end.node, now, Node::handle_timeout, Node::next_timeout);
        }
        end.client.handle_timeout(now);
        self.block(index);
        for (list, receiver) in [(0, 1 - index), (1, index)] {
            let modem = &mut self.ends[index].modem;
            let events = if list == 0 { &mut modem.heard } else { &mut modem.own };
            let (due, later): (Vec<_>, Vec<_>) =
                std::mem::take(events).into_iter().partition(|(at, _)| *at <= now);
            *events = later;
            for (_, event) in due {
                let modem = &mut self.ends[receiver].modem;
                if list == 0 {
                    if matches!(event, modem::Event::CarrierDetected { .. }) {
                        modem.is_receiving = !modem.is_transmitting();
                    }
                    let is_heard = modem.is_receiving;
                    modem.is_receiving &= event != modem::Event::CarrierLost;
                    if !is_heard {
                        continue;
                    }
                }
                self.ends[receiver].node.handle_modem(now, event);
            }
        }
    }

    /// Sends the next block of a transmission.
    fn block(&mut self, index: usize) {
        let now = self.now;
        let Some((waveform, at, is_first)) = self.ends[index].modem.transmitting else { return };
        if at > now {
            return;
        }
        if is_first {
            let event = modem::Event::CarrierDetected { waveform: Some(waveform) };
            self.ends[index].modem.heard.push((now, event));
        }
        let bits = waveform.block_bits() as usize;
        let End { node, modem, .. } = &mut self.ends[index];
        // A block takes whole octets; the rest of the last frame goes into another block.
        let want = bits / 8;
        while !modem.ended && modem.block.len() < want {
            let room = want - modem.block.len();
            match node.poll_transmit(now, room, &mut modem.block) {
                Some(Keying::Octets) => {}
                Some(Keying::End) => modem.ended = true,
                Some(Keying::Start(_)) | None => break,
            }
        }
        let done = now + waveform.block_time();
        let mut octets = std::mem::take(&mut modem.block);
        let is_last = modem.ended && octets.len() * 8 + waveform.end_bits() as usize <= bits;
        if !octets.is_empty() {
            (self.noise)(now, &mut octets);
            self.ends[index].modem.heard.push((done + DECODING, modem::Event::Received(octets)));
        }
        let modem = &mut self.ends[index].modem;
        if is_last {
            modem.transmitting = None;
            modem.heard.push((done + DECODING, modem::Event::CarrierLost));
            modem.own.push((done, modem::Event::Sent));
        } else {
            modem.transmitting = Some((waveform, done, false));
        }
    }

    /// Carries octets between clients and nodes, and starts transmissions.
    fn settle(&mut self) {
        let now = self.now;
        for end in &mut self.ends {
            loop {
                let mut octets = Vec::new();
                let mut is_quiet = true;
                if let Some(id) = end.id {
                    is_quiet = !end.client.poll_octets(now, &mut octets);
                    end.node.handle_octets(now, id, &octets);
                }
                while let Some(event) = end.node.poll_event() {
                    let Event::Readable(id) = event else { continue };
                    octets.clear();
                    while end.node.poll_octets(now, id, &mut octets) {}
                    end.client.handle_octets(now, &octets);
                    is_quiet = false;
                }
                end.events.extend(std::iter::from_fn(|| end.client.poll_event()));
                if is_quiet {
                    break;
                }
            }
            keeps_time(&mut end.node, now, Node::handle_timeout, Node::next_timeout);
            if !end.modem.is_transmitting() && self.has_modems {
                let mut none = Vec::new();
                if let Some(Keying::Start(waveform)) = end.node.poll_transmit(now, 0, &mut none) {
                    let waveform = self.set_to.unwrap_or(waveform);
                    let first = now + Duration::from_millis(200) + waveform.preamble();
                    end.modem.transmitting = Some((waveform, first, true));
                    end.modem.ended = false;
                    if std::mem::take(&mut end.modem.is_receiving) {
                        end.node.handle_modem(now, modem::Event::CarrierLost);
                    }
                }
            }
        }
    }
}
