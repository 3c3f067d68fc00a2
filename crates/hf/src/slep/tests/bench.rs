//! Two SLEPs, or two of what uses one, each with a node, and what is in the air between the nodes.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};

use crate::s5066::Address;
use crate::s5066::service::{Command, Failure, Indication, Mode, Outcome, Request};
use crate::s5066::sis::spdu::{Data, SPdu};
use crate::s5066::sis::{self, ClientId, Server};
use crate::slep::{Config, Event, Slep};

pub(crate) const NODES: [Address; 2] = [Address::node(1), Address::node(2)];

/// What becomes of an S_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Arrives,
    /// The node knows that it did not.
    Fails,
    /// The node does not know whether it did.
    MayHave(bool),
}

/// A core over the connection to a node.
pub(crate) trait Above: Debug {
    type Config: Clone;
    type Event: Debug;

    fn start(now: Time, config: Self::Config, rng: Rng) -> Self;
    fn handle_connected(&mut self, now: Time);
    fn handle_disconnected(&mut self, now: Time);
    fn handle_octets(&mut self, now: Time, octets: &[u8]);
    fn handle_timeout(&mut self, now: Time);
    fn poll_event(&mut self) -> Option<Self::Event>;
    fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool;
    fn next_timeout(&self) -> Option<Time>;
}

/// Lets a core that has these methods be above a node.
macro_rules! above {
    ($core:ty, $config:ty, $event:ty) => {
        impl $crate::slep::tests::bench::Above for $core {
            type Config = $config;
            type Event = $event;

            fn start(now: Time, config: $config, rng: Rng) -> Self {
                Self::new(now, config, rng)
            }
            fn handle_connected(&mut self, now: Time) {
                self.handle_connected(now);
            }
            fn handle_disconnected(&mut self, now: Time) {
                self.handle_disconnected(now);
            }
            fn handle_octets(&mut self, now: Time, octets: &[u8]) {
                self.handle_octets(now, octets);
            }
            fn handle_timeout(&mut self, now: Time) {
                self.handle_timeout(now);
            }
            fn poll_event(&mut self) -> Option<$event> {
                self.poll_event()
            }
            fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
                self.poll_octets(now, out)
            }
            fn next_timeout(&self) -> Option<Time> {
                self.next_timeout()
            }
        }
    };
}
pub(crate) use above;

above!(Slep, Config, Event);

pub(crate) struct End<C: Above> {
    pub(crate) core: C,
    pub(crate) server: Server,
    pub(crate) id: Option<ClientId>,
    /// What the node has written to the client.
    socket: Vec<u8>,
    pub(crate) events: VecDeque<C::Event>,
}

pub(crate) struct Bench<C: Above = Slep> {
    pub(crate) now: Time,
    pub(crate) ends: [End<C>; 2],
    /// From which end, oldest first.
    pub(crate) air: VecDeque<(usize, Request)>,
    /// Whether nothing in the air is begun, so that a node gives it back to a client that asks.
    pub(crate) gives_back: bool,
    configs: [C::Config; 2],
    started: u64,
}

impl<C: Above> Debug for Bench<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ends.iter().map(|end| &end.core)).finish()
    }
}

impl<C: Above> Bench<C> {
    pub(crate) fn new(config: &C::Config) -> Self {
        Self::of([config.clone(), config.clone()])
    }

    pub(crate) fn of(configs: [C::Config; 2]) -> Self {
        let mut bench = Self::unconnected(configs);
        bench.connect(0);
        bench.connect(1);
        bench.run();
        bench
    }

    pub(crate) fn unconnected(configs: [C::Config; 2]) -> Self {
        let now = Time::ZERO + Duration::from_secs(1_000);
        let end = |at: usize| End {
            core: C::start(now, configs[at].clone(), Rng::stream(at as u64, "slep")),
            server: Server::new(sis::Config::default(), NODES[at]),
            id: None,
            socket: Vec::new(),
            events: VecDeque::new(),
        };
        let ends = [end(0), end(1)];
        Self { now, ends, air: VecDeque::new(), gives_back: false, configs, started: 2 }
    }

    pub(crate) fn connect(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if end.id.is_none() {
            end.id = end.server.handle_connected(self.now);
            end.core.handle_connected(self.now);
        }
    }

    /// The connection is lost with what is in it.
    pub(crate) fn disconnect(&mut self, at: usize) {
        let end = &mut self.ends[at];
        end.socket.clear();
        if let Some(id) = end.id.take() {
            end.server.handle_disconnected(self.now, id);
            end.core.handle_disconnected(self.now);
        }
    }

    /// Another process takes the place of the one that was there.
    pub(crate) fn restart(&mut self, at: usize) {
        self.disconnect(at);
        self.started += 1;
        let rng = Rng::stream(self.started, "slep");
        self.ends[at].core = C::start(self.now, self.configs[at].clone(), rng);
        self.ends[at].events.clear();
        self.connect(at);
    }

    /// The node of an end is started anew. What it had in the air arrives or is lost, and nobody at
    /// this end hears of that.
    pub(crate) fn restart_node(&mut self, at: usize, arrives: bool) {
        self.disconnect(at);
        for (from, request) in std::mem::take(&mut self.air) {
            if from != at {
                self.air.push_back((from, request));
            } else if arrives {
                self.indicate(1 - at, request.mode, request.s_pdu);
            }
        }
        self.ends[at].server = Server::new(sis::Config::default(), NODES[at]);
    }

    /// The oldest but so many in the air meets its fate.
    pub(crate) fn carry(&mut self, which: usize, fate: Fate) {
        let Some((from, request)) = self.air.remove(which) else { return };
        if matches!(fate, Fate::Arrives | Fate::MayHave(true)) {
            self.indicate(1 - from, request.mode, request.s_pdu.clone());
        }
        let outcome = match fate {
            Fate::Arrives => Outcome::Done,
            Fate::Fails => Outcome::not_arrived(Failure::NoResponse),
            Fate::MayHave(_) => Outcome::unknown(Failure::LinkLost),
        };
        self.ends[from].server.handle_outcome(self.now, request.id, outcome);
    }

    /// A U_PDU of the other node's client arrives at the node of an end.
    pub(crate) fn say(&mut self, at: usize, u_pdu: &[u8]) {
        let sap = Config::default().sap;
        let (is_confirmed, ttd, id) = (false, None, None);
        let data = Data { priority: 4, from: sap, to: sap, is_confirmed, ttd, id, u_pdu };
        let mut s_pdu = Vec::new();
        SPdu::Data(data).emit(&mut s_pdu);
        self.indicate(at, Mode::Arq { in_order: false }, s_pdu);
    }

    /// An S_PDU of the other node arrives at that of an end.
    pub(crate) fn indicate(&mut self, at: usize, mode: Mode, s_pdu: Vec<u8>) {
        let indication = Indication {
            is_expedited: false,
            from: NODES[1 - at],
            to: NODES[at],
            mode,
            s_pdu,
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.ends[at].server.handle_indication(self.now, &indication);
    }

    /// The nodes take what their clients have, and both have what the other says but for what the
    /// nodes have for their clients, which waits.
    pub(crate) fn run_to_nodes(&mut self) {
        for (at, end) in self.ends.iter_mut().enumerate() {
            let mut octets = Vec::new();
            while end.core.poll_octets(self.now, &mut octets) {}
            if let Some(id) = end.id {
                end.server.handle_octets(self.now, id, &octets);
                while end.server.poll_octets(self.now, id, &mut end.socket) {}
            }
            while end.server.poll_event().is_some() {}
            while let Some(command) = end.server.poll_command() {
                let Command::TakeBack { id } = command else { continue };
                let is_it = |(from, request): &(usize, Request)| *from == at && request.id == id;
                if self.gives_back
                    && let Some(place) = self.air.iter().position(is_it)
                {
                    self.air.remove(place);
                    let outcome = Outcome::not_arrived(Failure::TakenBack);
                    end.server.handle_outcome(self.now, id, outcome);
                }
            }
            while let Some(request) = end.server.poll_request(self.now, 0) {
                self.air.push_back((at, request));
            }
            end.events.extend(std::iter::from_fn(|| end.core.poll_event()));
        }
    }

    /// All have what the others have said at this time.
    pub(crate) fn run(&mut self) {
        loop {
            self.run_to_nodes();
            let mut is_idle = true;
            for end in &mut self.ends {
                let octets = std::mem::take(&mut end.socket);
                is_idle &= octets.is_empty();
                end.core.handle_octets(self.now, &octets);
                end.core.handle_timeout(self.now);
                end.server.handle_timeout(self.now);
                let due = end.core.next_timeout();
                assert!(due.is_none_or(|due| due > self.now), "it spins");
            }
            if is_idle {
                self.run_to_nodes();
                return;
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let due = |end: &End<C>| earliest(end.core.next_timeout(), end.server.next_timeout());
        earliest(due(&self.ends[0]), due(&self.ends[1]))
    }

    /// All that is sent arrives, until nothing is.
    pub(crate) fn deliver(&mut self) {
        self.run();
        while !self.air.is_empty() {
            self.carry(0, Fate::Arrives);
            self.run();
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.run();
    }

    pub(crate) fn events(&mut self, at: usize) -> Vec<C::Event> {
        self.ends[at].events.drain(..).collect()
    }
}

/// For tests that look at one step.
impl<C: Above> Bench<C> {
    pub(crate) fn socket(&mut self, at: usize) -> &mut Vec<u8> {
        &mut self.ends[at].socket
    }

    pub(crate) fn run_events(&mut self, at: usize) {
        let end = &mut self.ends[at];
        end.events.extend(std::iter::from_fn(|| end.core.poll_event()));
    }
}
