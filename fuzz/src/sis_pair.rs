//! Fuzzes the subnetwork interfaces of two nodes over layers that deliver, lose and reorder S_PDUs: each U_PDU has
//! exactly one outcome, the true outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;
use hf::s5066::Address;
use hf::s5066::service::{Command, Failure, Indication, LinkEvent, Outcome, Request};
use hf::s5066::sis::client::{self, Client, HardLinkEvent, SendId};
use hf::s5066::sis::primitive::{HardLink, LinkKind};
use hf::s5066::sis::server::Backlog;
use hf::s5066::sis::{
    ClientId, Config, Confirmation, Event, FlowControl, Limits, Mode, Sap, Server, Service,
};

const NODES: [Address; 2] = [Address::node(1), Address::node(2)];
/// Clients of each node.
const CLIENTS: usize = 3;
/// Octets of the name of a U_PDU.
const NAME: usize = 8;
/// Largest number of steps in one input.
const MAX_STEPS: usize = 400;

/// The input chooses the U_PDUs of clients and their fate.
pub(crate) fn pair(input: &[u8]) {
    let mut run = Run::new();
    let mut rest = input;
    for _ in 0..MAX_STEPS {
        let Some((&[action, value], after)) = rest.split_first_chunk() else { break };
        rest = after;
        run.act(action, value);
        run.settle();
    }
    run.finish();
}

struct Run {
    now: Time,
    ends: [End; 2],
    sent: u64,
    /// Number of deliveries of each U_PDU.
    delivered: BTreeMap<u64, u32>,
    /// Commands of the nodes for their links, in order.
    commands: Vec<(usize, Command)>,
}

struct End {
    server: Server,
    users: Vec<User>,
    /// Requests handed to the layer below, outcome pending, and whether each has arrived.
    below: Vec<(Request, bool)>,
}

struct User {
    sap: Sap,
    client: Client,
    id: Option<ClientId>,
    /// U_PDUs without an outcome, with their name and the confirmation requested.
    pending: BTreeMap<SendId, (u64, Confirmation)>,
    asked: Option<HardLink>,
}

impl Run {
    fn new() -> Self {
        let ends = NODES.map(|address| {
            let config = Config {
                flow: FlowControl {
                    off: Backlog { octets: 5_000, u_pdus: 10 },
                    on: Backlog { octets: 2_000, u_pdus: 5 },
                    ..FlowControl::default()
                },
                limits: Limits { max_undecided: 8, ..Limits::default() },
                keep_alive: Some(Duration::from_secs(200)),
                ..Config::default()
            };
            let users = [1, 2, 9].map(|number| {
                let sap = Sap::new(number);
                let rank = number;
                let config = client::Config { rank, ..client::Config::new(sap) };
                let client = Client::new(config);
                User { sap, client, id: None, pending: BTreeMap::new(), asked: None }
            });
            End { server: Server::new(config, address), users: users.into(), below: Vec::new() }
        });
        let mut run = Self {
            now: Time::ZERO,
            ends,
            sent: 0,
            delivered: BTreeMap::new(),
            commands: Vec::new(),
        };
        for end in 0..2 {
            for user in 0..CLIENTS {
                run.connect(end, user);
            }
        }
        run.settle();
        run
    }

    fn act(&mut self, action: u8, value: u8) {
        let end = usize::from(action >> 4 & 1);
        let user = usize::from(action >> 5) % CLIENTS;
        match action & 0x0f {
            0..=3 => self.send(end, user, value),
            4 | 5 => self.pull(end, value & 0x0f),
            6 | 7 => self.deliver(end, value),
            8 | 9 => self.conclude(end, value),
            10 => self.now += Duration::from_secs(u64::from(value)),
            11 => self.now += Duration::from_secs(u64::from(value) * 60),
            12 => self.connect(end, user),
            13 => self.link(end, user, value),
            14 => self.carry_out(value),
            _ => {
                let event = if value & 1 == 0 {
                    let (is_exclusive, is_caller) = (value & 2 == 0, value & 4 == 0);
                    LinkEvent::Made { peer: NODES[1 - end], is_exclusive, is_caller }
                } else {
                    LinkEvent::Broken { peer: NODES[1 - end], is_exclusive: value & 2 == 0 }
                };
                self.ends[end].server.handle_link(self.now, event);
            }
        }
    }

    /// A client connects, or connects again.
    fn connect(&mut self, end: usize, user: usize) {
        let now = self.now;
        let End { server, users, .. } = &mut self.ends[end];
        let user = &mut users[user];
        if let Some(id) = user.id.take() {
            server.handle_disconnected(now, id);
            user.client.handle_disconnected();
            user.pending.clear();
        }
        user.id = server.handle_connected(now);
        if user.id.is_some() {
            user.client.handle_connected(now);
        }
    }

    fn send(&mut self, end: usize, user: usize, value: u8) {
        let in_order = value & 0x10 == 0;
        let is_arq = value & 0x0c != 0x0c;
        let mode =
            if is_arq { Mode::Arq { in_order } } else { Mode::NonArq { in_order, repeats: 0 } };
        let confirmation = match value & 3 {
            1 if is_arq => Confirmation::Node,
            2 | 3 if is_arq => Confirmation::Client,
            _ => Confirmation::None,
        };
        let service = Service { confirmation, ..Service::of(mode) };
        let mut u_pdu = self.sent.to_be_bytes().to_vec();
        u_pdu.resize(NAME + usize::from(value) * 8, value);
        let user = &mut self.ends[end].users[user];
        let send = client::Send {
            to: NODES[1 - end],
            to_sap: user.sap,
            priority: value & 0x0f,
            is_expedited: value & 0x20 != 0,
            service: Some(service),
            ttl: Duration::from_secs(u64::from(value & 0x40) * 2),
            u_pdu: &u_pdu,
        };
        if let Ok(id) = user.client.send(self.now, send) {
            if confirmation != Confirmation::None {
                user.pending.insert(id, (self.sent, confirmation));
            }
            self.sent += 1;
        }
    }

    /// The layers below fetch the next S_PDU of at least this priority.
    fn pull(&mut self, end: usize, least: u8) {
        let End { server, below, .. } = &mut self.ends[end];
        if below.len() < 100
            && let Some(request) = server.poll_request(self.now, least)
        {
            assert!(request.to == NODES[1 - end] && request.priority >= least);
            below.push((request, false));
        }
    }

    /// An S_PDU arrives at the other node, once.
    fn deliver(&mut self, end: usize, value: u8) {
        let len = self.ends[end].below.len();
        let chosen = usize::from(value) % len.max(1);
        let Some((request, has_arrived)) = self.ends[end].below.get_mut(chosen) else { return };
        if std::mem::replace(has_arrived, true) {
            return;
        }
        let indication = Indication {
            from: NODES[end],
            to: request.to,
            mode: match request.mode {
                Mode::NonArq { in_order, .. } => Mode::NonArq { in_order, repeats: 0 },
                mode @ Mode::Arq { .. } => mode,
            },
            is_expedited: request.is_expedited,
            s_pdu: request.s_pdu.clone(),
            errored: Vec::new(),
            missing: Vec::new(),
        };
        self.ends[1 - end].server.handle_indication(self.now, &indication);
    }

    /// The layers below report the outcome of an S_PDU, and never a false arrival.
    fn conclude(&mut self, end: usize, value: u8) {
        let len = self.ends[end].below.len();
        let chosen = usize::from(value >> 2) % len.max(1);
        if chosen >= len {
            return;
        }
        let (request, has_arrived) = self.ends[end].below.swap_remove(chosen);
        let outcome = match value & 3 {
            0 => Outcome::not_arrived(Failure::NoResponse),
            1 => Outcome::unknown(Failure::LinkLost),
            _ if has_arrived => Outcome::Done,
            _ => Outcome::not_arrived(Failure::Expired),
        };
        self.ends[end].server.handle_outcome(self.now, request.id, outcome);
    }

    /// A client asks for a hard link, ends a hard link, or answers a request.
    fn link(&mut self, end: usize, user: usize, value: u8) {
        let user = &mut self.ends[end].users[user];
        let kind = [LinkKind::Shared, LinkKind::Reserved, LinkKind::Exclusive];
        let link = HardLink {
            kind: kind[usize::from(value >> 2) % 3],
            priority: value >> 4 & 3,
            remote_sap: user.sap,
            remote: NODES[1 - end],
        };
        match value & 3 {
            0 | 1 => user.client.establish(link),
            2 => user.client.terminate(link.remote),
            _ => {
                if let Some(link) = user.asked.take() {
                    user.client.answer(link, None);
                }
            }
        }
    }

    /// The layers below make or break a link as commanded, or fail to.
    fn carry_out(&mut self, value: u8) {
        if self.commands.is_empty() {
            return;
        }
        let (end, command) = self.commands.remove(0);
        let (near, far) = match command {
            Command::MakeExclusive { peer } if value & 3 == 0 => {
                let has_answered = value & 4 == 0;
                (LinkEvent::NotMade { peer, has_answered }, None)
            }
            Command::MakeExclusive { peer } => {
                let made =
                    |peer, is_caller| LinkEvent::Made { peer, is_exclusive: true, is_caller };
                (made(peer, true), Some(made(NODES[end], false)))
            }
            Command::BreakExclusive { peer } => {
                let broken = |peer| LinkEvent::Broken { peer, is_exclusive: true };
                (broken(peer), Some(broken(NODES[end])))
            }
            Command::AskRate { .. } | Command::Describe { .. } | Command::TakeBack { .. } => {
                return;
            }
        };
        self.ends[end].server.handle_link(self.now, near);
        if let Some(far) = far {
            self.ends[1 - end].server.handle_link(self.now, far);
        }
    }

    /// Carries octets between clients and nodes; a driver repeats its calls while a deadline is due.
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            let mut is_quiet = true;
            for end in 0..2 {
                is_quiet &= self.settle_end(end);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn settle_end(&mut self, at: usize) -> bool {
        let Self { now, ends, delivered, commands, .. } = self;
        let now = *now;
        let End { server, users, below } = &mut ends[at];
        let mut is_quiet = true;
        server.handle_timeout(now);
        assert!(server.next_timeout().is_none_or(|next| next > now), "it spins");
        commands.extend(std::iter::from_fn(|| server.poll_command()).map(|it| (at, it)));
        assert!(commands.len() < 1_000, "commands without end");
        while let Some(event) = server.poll_event() {
            if let Event::Close(id) = event {
                server.handle_disconnected(now, id);
                if let Some(user) = users.iter_mut().find(|user| user.id == Some(id)) {
                    user.id = None;
                    user.client.handle_disconnected();
                    user.pending.clear();
                }
            }
        }
        for user in users.iter_mut() {
            user.client.handle_timeout(now);
            assert!(user.client.next_timeout().is_none_or(|next| next > now), "it spins");
            let Some(id) = user.id else { continue };
            let mut octets = Vec::new();
            while user.client.poll_octets(now, &mut octets) {}
            is_quiet &= octets.is_empty();
            server.handle_octets(now, id, &octets);
            octets.clear();
            while server.poll_octets(now, id, &mut octets) {}
            is_quiet &= octets.is_empty();
            user.client.handle_octets(now, &octets);
            while let Some(event) = user.client.poll_event() {
                user.take(now, server, event, delivered);
            }
            assert_eq!(user.client.stats().invalid, 0, "each reads what the other says");
        }
        assert!(server.connections() <= CLIENTS);
        assert!(server.undecided() <= 8 * CLIENTS + 2 * below.len() + 16);
        is_quiet
    }

    /// Ends hard links and all pending requests, and lets time pass: nothing may remain open.
    fn finish(&mut self) {
        for (at, end) in self.ends.iter_mut().enumerate() {
            for user in &mut end.users {
                user.client.terminate(NODES[1 - at]);
            }
        }
        self.settle();
        for turn in 0..400 {
            if self.is_over() {
                break;
            }
            // First finish the waiting requests, then let deadlines pass.
            if turn >= 300 {
                self.now += Duration::from_secs(600);
            }
            for end in 0..2 {
                self.pull(end, 0);
                self.deliver(end, 0);
                self.settle();
                self.conclude(end, 2);
                self.carry_out(1);
                self.settle();
            }
        }
        for user in self.ends.iter().flat_map(|end| &end.users) {
            assert!(user.pending.is_empty(), "without an outcome: {:?}", user.pending);
            let stats = user.client.stats();
            assert_eq!(stats.stray, 0, "one outcome each");
        }
    }
}

impl Run {
    /// Whether all U_PDUs have an outcome, and no request is pending below.
    fn is_over(&self) -> bool {
        self.ends.iter().all(|end| {
            let has_none = |user: &User| user.pending.is_empty();
            end.below.is_empty() && end.users.iter().all(has_none)
        })
    }
}

impl User {
    fn take(
        &mut self,
        now: Time,
        server: &mut Server,
        event: client::Event,
        delivered: &mut BTreeMap<u64, u32>,
    ) {
        match event {
            client::Event::Confirmed(id) => {
                let (number, confirmation) = self.pending.remove(&id).expect("one outcome each");
                if confirmation == Confirmation::Client {
                    assert!(delivered.contains_key(&number), "{number} was not delivered");
                }
            }
            client::Event::Rejected { id: Some(id), .. } => {
                // U_PDUs without confirmation have no entry.
                self.pending.remove(&id);
            }
            client::Event::Received(received) => {
                let (name, _) = received.u_pdu.split_first_chunk::<NAME>().expect("it has a name");
                let number = u64::from_be_bytes(*name);
                let times = delivered.entry(number).or_default();
                *times += 1;
                assert_eq!(*times, 1, "{number} came twice");
            }
            client::Event::Unbound(_) | client::Event::Refused(_) => {
                self.pending.clear();
                self.client.rebind(now);
            }
            client::Event::Close(_) => {
                if let Some(id) = self.id.take() {
                    server.handle_disconnected(now, id);
                }
                self.client.handle_disconnected();
                self.pending.clear();
            }
            client::Event::HardLink(HardLinkEvent::Indicated(link)) => self.asked = Some(link),
            client::Event::Availability { .. }
            | client::Event::Bound { .. }
            | client::Event::FlowOff
            | client::Event::FlowOn
            | client::Event::HardLink(_)
            | client::Event::Management { .. }
            | client::Event::Peer(_)
            | client::Event::Sealing { .. }
            | client::Event::Rejected { id: None, .. } => {}
        }
    }
}
