//! Two SLEPs, each with a node, and what is in the air between the nodes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::rng::Rng;
use crate::s5066::Address;
use crate::s5066::service::{Failure, Indication, Outcome, Request};
use crate::s5066::sis::{self, ClientId, Server};
use crate::slep::{Config, Event, Slep};
use crate::time::{Time, earliest};

pub(super) const NODES: [Address; 2] = [Address::node(1), Address::node(2)];

/// What becomes of an S_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    Arrives,
    /// The node knows that it did not.
    Fails,
    /// The node does not know whether it did.
    MayHave(bool),
}

pub(super) struct End {
    pub(super) slep: Slep,
    server: Server,
    id: Option<ClientId>,
    /// What the node has written to the client.
    socket: Vec<u8>,
    pub(super) events: VecDeque<Event>,
}

pub(super) struct Bench {
    pub(super) now: Time,
    pub(super) ends: [End; 2],
    /// From which end, oldest first.
    pub(super) air: VecDeque<(usize, Request)>,
    config: Config,
    started: u64,
}

impl Bench {
    pub(super) fn new(config: &Config) -> Self {
        let mut bench = Self::unconnected(config);
        bench.connect(0);
        bench.connect(1);
        bench.run();
        bench
    }

    pub(super) fn unconnected(config: &Config) -> Self {
        let now = Time::ZERO + Duration::from_secs(1_000);
        let end = |at: usize| End {
            slep: Slep::new(now, config.clone(), Rng::stream(at as u64, "slep")),
            server: Server::new(sis::Config::default(), NODES[at]),
            id: None,
            socket: Vec::new(),
            events: VecDeque::new(),
        };
        let ends = [end(0), end(1)];
        Self { now, ends, air: VecDeque::new(), config: config.clone(), started: 2 }
    }

    pub(super) fn connect(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if end.id.is_none() {
            end.id = end.server.handle_connected(self.now);
            end.slep.handle_connected(self.now);
        }
    }

    /// The connection is lost with what is in it.
    pub(super) fn disconnect(&mut self, at: usize) {
        let end = &mut self.ends[at];
        end.socket.clear();
        if let Some(id) = end.id.take() {
            end.server.handle_disconnected(self.now, id);
            end.slep.handle_disconnected(self.now);
        }
    }

    /// Another process takes the place of the one that was there.
    pub(super) fn restart(&mut self, at: usize) {
        self.disconnect(at);
        self.started += 1;
        let rng = Rng::stream(self.started, "slep");
        self.ends[at].slep = Slep::new(self.now, self.config.clone(), rng);
        self.ends[at].events.clear();
        self.connect(at);
    }

    /// The oldest but so many in the air meets its fate.
    pub(super) fn carry(&mut self, which: usize, fate: Fate) {
        let Some((from, request)) = self.air.remove(which) else { return };
        if matches!(fate, Fate::Arrives | Fate::MayHave(true)) {
            let indication = Indication {
                is_expedited: false,
                from: NODES[from],
                to: request.to,
                mode: request.mode,
                s_pdu: request.s_pdu.clone(),
                errored: Vec::new(),
                missing: Vec::new(),
            };
            self.ends[1 - from].server.handle_indication(self.now, &indication);
        }
        let outcome = match fate {
            Fate::Arrives => Outcome::Done,
            Fate::Fails => Outcome::not_arrived(Failure::NoResponse),
            Fate::MayHave(_) => Outcome::unknown(Failure::LinkLost),
        };
        self.ends[from].server.handle_outcome(self.now, request.id, outcome);
    }

    /// The nodes take what their clients have, and both have what the other says but for what the
    /// nodes have for their clients, which waits.
    pub(super) fn run_to_nodes(&mut self) {
        for (at, end) in self.ends.iter_mut().enumerate() {
            let mut octets = Vec::new();
            while end.slep.poll_octets(self.now, &mut octets) {}
            if let Some(id) = end.id {
                end.server.handle_octets(self.now, id, &octets);
                while end.server.poll_octets(self.now, id, &mut end.socket) {}
            }
            while end.server.poll_event().is_some() {}
            while let Some(request) = end.server.poll_request(self.now, 0) {
                self.air.push_back((at, request));
            }
            end.events.extend(std::iter::from_fn(|| end.slep.poll_event()));
        }
    }

    /// All have what the others have said at this time.
    pub(super) fn run(&mut self) {
        loop {
            self.run_to_nodes();
            let mut is_idle = true;
            for end in &mut self.ends {
                let octets = std::mem::take(&mut end.socket);
                is_idle &= octets.is_empty();
                end.slep.handle_octets(self.now, &octets);
                end.slep.handle_timeout(self.now);
                end.server.handle_timeout(self.now);
                let due = end.slep.next_timeout();
                assert!(due.is_none_or(|due| due > self.now), "it spins");
            }
            if is_idle {
                self.run_to_nodes();
                return;
            }
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let due = |end: &End| earliest(end.slep.next_timeout(), end.server.next_timeout());
        earliest(due(&self.ends[0]), due(&self.ends[1]))
    }

    /// All that is sent arrives, until nothing is.
    pub(super) fn deliver(&mut self) {
        self.run();
        while !self.air.is_empty() {
            self.carry(0, Fate::Arrives);
            self.run();
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.run();
    }

    pub(super) fn events(&mut self, at: usize) -> Vec<Event> {
        self.ends[at].events.drain(..).collect()
    }
}

/// For tests that look at one step.
impl Bench {
    pub(super) fn socket(&mut self, at: usize) -> &mut Vec<u8> {
        &mut self.ends[at].socket
    }

    pub(super) fn run_events(&mut self, at: usize) {
        let end = &mut self.ends[at];
        end.events.extend(std::iter::from_fn(|| end.slep.poll_event()));
    }
}
