//! Whatever happens to gateways, nodes and the air between them: each octet of a connection arrives once
//! and in order, an end is told only behind all octets, and who does not get all is told of the break.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::contract::opening;
use crate::hfpep::{Config, Event, HfPep, SessionId, Target};
use crate::slep::tests::bench::{Bench, Fate, NODES};
use crate::slep::{Options, Reason};

#[derive(Clone, Debug)]
enum Step {
    /// A target answers, or refuses.
    Answer(usize, usize, bool),
    /// Programs read so many octets at a time from now on.
    Appetite(usize),
    Carry(usize, Fate),
    Connect(usize),
    Disconnect(usize),
    Finish(usize, usize),
    /// A program resets a connection behind what it has said.
    Leave(usize, usize),
    /// By whom, how much is said at once, and whether the target is to be confirmed first.
    Open(usize, usize, bool),
    Reset(usize, usize),
    /// A gateway is started anew.
    Restart(usize),
    RestartNode(usize, bool),
    Run,
    Wait(u64),
    Write(usize, usize, usize),
}

/// What may happen; breaks are what a program, an operator or a crash causes.
fn step(has_breaks: bool) -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Fails),
        1 => any::<bool>().prop_map(Fate::MayHave),
    ];
    let end = || 0_usize..2;
    let one = || (end(), 0_usize..6);
    let break_off = prop_oneof![
        one().prop_map(|(end, which)| Step::Answer(end, which, false)),
        one().prop_map(|(end, which)| Step::Reset(end, which)),
        one().prop_map(|(end, which)| Step::Leave(end, which)),
        end().prop_map(Step::Restart),
        (end(), any::<bool>()).prop_map(|(end, came)| Step::RestartNode(end, came)),
    ];
    let program = prop_oneof![
        6 => one().prop_map(|(end, which)| Step::Answer(end, which, true)),
        2 => prop_oneof![1_usize..300, Just(usize::MAX)].prop_map(Step::Appetite),
        2 => one().prop_map(|(end, which)| Step::Finish(end, which)),
        4 => (end(), prop_oneof![Just(0), 0_usize..1_000], any::<bool>())
            .prop_map(|(end, len, is_confirmed)| Step::Open(end, len, is_confirmed)),
        12 => (one(), 0_usize..2_000)
            .prop_map(|((end, which), len)| Step::Write(end, which, len)),
    ];
    prop_oneof![
        30 => (0_usize..6, fate).prop_map(|(which, fate)| Step::Carry(which, fate)),
        4 => end().prop_map(Step::Connect),
        2 => end().prop_map(Step::Disconnect),
        26 => program,
        30 => Just(Step::Run),
        5 => (0_u64..400).prop_map(Step::Wait),
        4 => if has_breaks { break_off.boxed() } else { Just(Step::Run).boxed() },
    ]
}

/// What the driver at one end knows of a connection.
#[derive(Debug, Default)]
struct Known {
    is_initiator: bool,
    /// Which connection of the test it is: the client's port.
    port: u16,
    is_connecting: bool,
    /// Whether the other end has not said yet that the target is there.
    is_confirming: bool,
    is_readable: bool,
    written: usize,
    read: usize,
    has_end: bool,
    is_delivered: bool,
    is_finishing: bool,
}

/// What one program of a connection has said.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    octets: usize,
    is_all: bool,
}

struct Stage {
    bench: Bench<HfPep>,
    known: [BTreeMap<SessionId, Known>; 2],
    ports: u16,
    appetite: usize,
    /// Whether targets acknowledge the end of what they are told.
    delivers: bool,
    /// Whether a target may have answered so late that nobody was left for it.
    is_late: bool,
    /// Who was asked to connect: which gateway and process there, and for which of its sessions.
    taken: BTreeMap<u16, (usize, u64, SessionId)>,
    /// Whose target has answered.
    accepted: BTreeSet<u16>,
    said: BTreeMap<(u16, bool), Said>,
    heard: BTreeMap<(u16, bool), usize>,
    finished: Vec<(u16, bool)>,
    breaks: Vec<(u16, Reason)>,
    /// Who has left a connection behind what was said.
    left: Vec<(u16, bool)>,
    /// Connections whose target has all that the client has said, to the end.
    delivered: BTreeSet<u16>,
    processes: [u64; 2],
}

fn octet(port: u16, by_initiator: bool, at: usize) -> u8 {
    let number = usize::from(port) * 31 + at * 7 + at / 251 + usize::from(by_initiator);
    number.to_le_bytes()[0]
}

impl Stage {
    fn new(config: &Config) -> Self {
        Self {
            bench: Bench::new(config),
            known: Default::default(),
            ports: 0,
            appetite: usize::MAX,
            delivers: true,
            is_late: false,
            taken: BTreeMap::new(),
            accepted: BTreeSet::new(),
            said: BTreeMap::new(),
            heard: BTreeMap::new(),
            finished: Vec::new(),
            breaks: Vec::new(),
            left: Vec::new(),
            delivered: BTreeSet::new(),
            processes: [0, 0],
        }
    }

    fn nth(&self, end: usize, which: usize) -> Option<SessionId> {
        self.known[end].keys().nth(which).copied()
    }

    fn act(&mut self, step: &Step) {
        let now = self.bench.now;
        match *step {
            Step::Answer(end, which, accepts) => {
                let asked = self.known[end].iter().filter(|(_, known)| known.is_connecting);
                if let Some(id) = asked.map(|(id, _)| *id).nth(which) {
                    if accepts {
                        self.accept(end, id);
                    } else {
                        self.reset(end, id, Reason::TARGET_REFUSED);
                    }
                }
            }
            Step::Appetite(octets) => {
                self.appetite = octets;
                self.delivers = octets % 2 == 0;
            }
            Step::Carry(which, fate) => self.bench.carry(which, fate),
            Step::Connect(end) => self.bench.connect(end),
            Step::Disconnect(end) => self.bench.disconnect(end),
            Step::Finish(end, which) => {
                if let Some(id) = self.nth(end, which) {
                    self.finish(end, id);
                }
            }
            Step::Open(end, len, is_confirmed) => {
                let options = Options { is_compressed: len % 2 == 1, ..Options::default() };
                let port = self.ports + 1;
                let pep = &mut self.bench.ends[end].core;
                let opened = if is_confirmed {
                    pep.open_confirmed(now, NODES[1 - end], opening(port), options)
                } else {
                    pep.open(now, NODES[1 - end], opening(port), options)
                };
                if let Ok(id) = opened {
                    self.ports = port;
                    let is_confirming = is_confirmed;
                    let known =
                        Known { is_initiator: true, port, is_confirming, ..Known::default() };
                    self.known[end].insert(id, known);
                    self.said.insert((port, true), Said::default());
                    self.said.insert((port, false), Said::default());
                    self.write(end, id, len);
                }
            }
            Step::Leave(end, which) => {
                if let Some(id) = self.nth(end, which) {
                    self.leave(end, id);
                }
            }
            Step::Reset(end, which) => {
                if let Some(id) = self.nth(end, which) {
                    self.reset(end, id, Reason::CANCELLED);
                }
            }
            Step::Restart(end) => {
                for known in std::mem::take(&mut self.known[end]).into_values() {
                    self.breaks.push((known.port, Reason::RESTARTED));
                }
                self.processes[end] += 1;
                self.bench.restart(end);
            }
            Step::RestartNode(end, arrives) => self.bench.restart_node(end, arrives),
            Step::Run => self.bench.run(),
            Step::Wait(seconds) => {
                self.is_late |= self.has_asked();
                self.bench.now += Duration::from_secs(seconds);
                self.bench.run();
            }
            Step::Write(end, which, len) => {
                if let Some(id) = self.nth(end, which) {
                    self.write(end, id, len);
                }
            }
        }
        self.bench.run_to_nodes();
    }

    fn accept(&mut self, end: usize, id: SessionId) {
        let Some(known) = self.known[end].get_mut(&id) else { return };
        known.is_connecting = false;
        if !known.is_initiator {
            self.accepted.insert(known.port);
        }
        self.bench.ends[end].core.accept(id);
    }

    fn reset(&mut self, end: usize, id: SessionId, reason: Reason) {
        let Some(known) = self.known[end].remove(&id) else { return };
        self.breaks.push((known.port, reason));
        self.bench.ends[end].core.reset(id, reason);
    }

    /// Whether a target is being connected to.
    fn has_asked(&self) -> bool {
        self.known.iter().flat_map(BTreeMap::values).any(|known| known.is_connecting)
    }

    /// A program resets a connection behind what it has said.
    fn leave(&mut self, end: usize, id: SessionId) {
        let Some(known) = self.known[end].remove(&id) else { return };
        self.breaks.push((known.port, Reason::CONNECTION_RESET));
        self.left.push((known.port, known.is_initiator));
        self.bench.ends[end].core.reset_behind(self.bench.now, id, Reason::CONNECTION_RESET);
    }

    fn write(&mut self, end: usize, id: SessionId, len: usize) {
        let Some(known) = self.known[end].get_mut(&id) else { return };
        if known.is_finishing || known.is_connecting {
            return;
        }
        if known.is_confirming {
            let early = self.bench.ends[end].core.write(self.bench.now, id, b"early");
            assert_eq!(early, 0, "nothing is said before the target is confirmed");
            return;
        }
        let octets: Vec<u8> = (known.written..known.written + len)
            .map(|at| octet(known.port, known.is_initiator, at))
            .collect();
        known.written += self.bench.ends[end].core.write(self.bench.now, id, &octets);
        let said = self.said.entry((known.port, known.is_initiator)).or_default();
        said.octets = known.written;
    }

    fn finish(&mut self, end: usize, id: SessionId) {
        let Some(known) = self.known[end].get_mut(&id) else { return };
        if !known.is_connecting && !known.is_confirming {
            known.is_finishing = true;
            self.said.entry((known.port, known.is_initiator)).or_default().is_all = true;
            self.bench.ends[end].core.finish(self.bench.now, id);
        }
    }

    /// The drivers at both ends act on what they are told, and programs read what there is.
    fn look(&mut self) -> Result<(), TestCaseError> {
        for end in 0..2 {
            for event in self.bench.events(end) {
                self.hear(end, event)?;
            }
            let readable = self.known[end].iter().filter(|(_, known)| known.is_readable);
            for id in readable.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.read(end, id)?;
            }
        }
        self.bench.run_to_nodes();
        Ok(())
    }

    fn hear(&mut self, end: usize, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Accepted(id) => {
                let known = self.known[end].get_mut(&id).expect("known");
                prop_assert!(known.is_confirming && self.accepted.contains(&known.port));
                known.is_confirming = false;
            }
            Event::Connect { session, from, opening: said } => {
                prop_assert_eq!(from, NODES[1 - end]);
                let Target::Address { source, .. } = said.target else { panic!("{said:?}") };
                let port = source.port();
                prop_assert_eq!(&said, &opening(port));
                let who = (end, self.processes[end], session);
                let taker = *self.taken.entry(port).or_insert(who);
                prop_assert_eq!(taker, who, "{} was asked for twice", port);
                let known = Known { port, is_connecting: true, ..Known::default() };
                self.known[end].insert(session, known);
            }
            Event::Readable(id) => {
                if let Some(known) = self.known[end].get_mut(&id) {
                    known.is_readable = true;
                }
            }
            Event::Finished(id) => {
                let known = self.known[end].remove(&id).expect("known");
                prop_assert!(known.has_end && known.is_finishing);
                prop_assert!(!known.is_initiator || self.delivered.contains(&known.port));
                self.finished.push((known.port, known.is_initiator));
            }
            Event::Reset(id, broken) => {
                let known = self.known[end].remove(&id).expect("known");
                self.breaks.push((known.port, broken.reason));
            }
            Event::Bound
            | Event::Close(_)
            | Event::OtherVersion { .. }
            | Event::Refused(_)
            | Event::Sealing { .. }
            | Event::Unbound(_)
            | Event::FlowEnded(_)
            | Event::Writable(_) => {}
        }
        Ok(())
    }

    fn read(&mut self, end: usize, id: SessionId) -> Result<(), TestCaseError> {
        let Some(known) = self.known[end].get_mut(&id) else { return Ok(()) };
        let mut out = Vec::new();
        let pep = &mut self.bench.ends[end].core;
        let read = pep.read(self.bench.now, id, &mut out, self.appetite);
        prop_assert!(read.octets == out.len() && read.octets <= self.appetite);
        let is_early = known.is_connecting || known.is_confirming;
        prop_assert!(!is_early || out.is_empty(), "read before there was a target");
        known.is_readable = read.octets > 0;
        let (port, by_initiator) = (known.port, !known.is_initiator);
        for (at, found) in (known.read..).zip(&out) {
            prop_assert_eq!(*found, octet(port, by_initiator, at), "{} of {}", at, port);
        }
        known.read += out.len();
        known.has_end |= read.is_end;
        self.heard.insert((port, by_initiator), known.read);
        if known.has_end {
            let said = self.said.get(&(port, by_initiator)).copied().unwrap_or_default();
            prop_assert!(said.is_all && said.octets == known.read, "{port} ends early: {said:?}");
            if by_initiator && !known.is_delivered && self.delivers {
                known.is_delivered = true;
                self.delivered.insert(port);
                self.bench.ends[end].core.confirm_end(self.bench.now, id);
            }
        }
        Ok(())
    }

    /// All is well from now on: targets answer, and programs read all and finish.
    fn heal(&mut self) -> Result<(), TestCaseError> {
        self.appetite = usize::MAX;
        self.delivers = true;
        self.known.iter_mut().flat_map(BTreeMap::values_mut).for_each(|it| it.is_readable = true);
        for _ in 0..2_000 {
            for end in 0..2 {
                self.bench.connect(end);
                for id in self.known[end].keys().copied().collect::<Vec<_>>() {
                    self.accept(end, id);
                    self.finish(end, id);
                }
            }
            self.bench.deliver();
            self.look()?;
            // A stream that its program has left goes on until the other end has all.
            let goes_on = self.bench.ends.iter().any(|end| end.core.slep().stats().live > 0);
            let is_over = self.known.iter().all(BTreeMap::is_empty) && !goes_on;
            if is_over && self.bench.air.is_empty() {
                break;
            }
            // Targets answer before others have had enough.
            if self.bench.air.is_empty() && !self.has_asked() {
                let Some(due) = self.bench.next_timeout() else { break };
                self.bench.now = self.bench.now.max(due);
                self.bench.run();
            }
        }
        self.bench.deliver();
        self.look()
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.slep.mtu = 200;
    config.slep.window = 40;
    config.slep.times.give_up = Duration::from_secs(10_000_000);
    config.answers.is_compressed = true;
    config.confirms_ends = true;
    config
}

fn check(steps: &[Step], has_breaks: bool) -> Result<(), TestCaseError> {
    let mut stage = Stage::new(&config());
    if !has_breaks {
        // Both come to know which process is at the other end.
        stage.act(&Step::Open(0, 10, false));
        stage.bench.deliver();
        stage.look()?;
        stage.act(&Step::Answer(1, 0, true));
        stage.act(&Step::Write(1, 0, 1));
        stage.bench.deliver();
    }
    for step in steps {
        stage.act(step);
        stage.look()?;
    }
    stage.heal()?;

    prop_assert!(stage.known.iter().all(BTreeMap::is_empty), "stuck: {:?}", stage.known);
    for end in &stage.bench.ends {
        let (own, below) = (end.core.stats(), end.core.slep().stats());
        let levels = (own.sessions, below.live, below.unacknowledged, below.unread);
        prop_assert_eq!(levels, (0, 0, 0, 0));
    }
    let is_broken = |port: u16| stage.breaks.iter().any(|(broken, _)| *broken == port);
    if !has_breaks {
        prop_assert_eq!(&stage.breaks, &[]);
    }
    for port in 1..=stage.ports {
        let has_ended = [true, false].map(|end| stage.finished.contains(&(port, end)));
        prop_assert!(is_broken(port) || has_ended == [true; 2], "{port}: {has_ended:?}");
    }
    for &(port, by_initiator) in &stage.left {
        // Whoever leaves, and nothing else happens, is heard first.
        let said = stage.said.get(&(port, by_initiator)).copied().unwrap_or_default();
        let heard = stage.heard.get(&(port, by_initiator)).copied().unwrap_or_default();
        let is_spoiled = stage
            .breaks
            .iter()
            .any(|(broken, why)| *broken == port && *why != Reason::CONNECTION_RESET)
            || stage.left.contains(&(port, !by_initiator))
            || !stage.accepted.contains(&port)
            || stage.is_late;
        prop_assert!(heard == said.octets || is_spoiled, "{port}: {heard} of {said:?}");
    }
    for &(port, by_initiator) in &stage.finished {
        // Who has finished knows that the other end has all.
        let said = stage.said.get(&(port, by_initiator)).copied().unwrap_or_default();
        let heard = stage.heard.get(&(port, by_initiator)).copied().unwrap_or_default();
        prop_assert!(heard == said.octets || is_broken(port), "{port}: {heard} of {said:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn each_octet_arrives_once_and_in_order_if_nothing_is_broken_off(
        steps in prop::collection::vec(step(false), 0..250),
    ) {
        check(&steps, false)?;
    }

    #[test]
    fn a_connection_arrives_once_or_both_programs_are_told_if_gateways_and_nodes_restart(
        steps in prop::collection::vec(step(true), 0..250),
    ) {
        check(&steps, true)?;
    }
}
