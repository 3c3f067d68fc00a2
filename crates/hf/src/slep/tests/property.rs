//! Whatever happens to nodes, connections and processes: each octet arrives once and in order, or the
//! stream is told to be broken, and nothing is stuck.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::bench::{Bench, Fate, NODES};
use super::group::members;
use crate::slep::config::Times;
use crate::slep::{Addresses, Config, Event, Options, Reason, StreamId};

#[derive(Clone, Debug)]
enum Step {
    Carry(usize, Fate),
    Connect(usize),
    Disconnect(usize),
    Finish(usize, usize),
    Open(usize, usize),
    Reset(usize, usize),
    Restart(usize),
    Run,
    Wait(u64),
    Write(usize, usize, usize),
}

fn step(may_restart: bool) -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Fails),
        1 => any::<bool>().prop_map(Fate::MayHave),
    ];
    let restarts = u32::from(may_restart);
    prop_oneof![
        30 => (0_usize..6, fate).prop_map(|(which, fate)| Step::Carry(which, fate)),
        4 => (0_usize..2).prop_map(Step::Connect),
        2 => (0_usize..2).prop_map(Step::Disconnect),
        2 => (0_usize..2, 0_usize..8).prop_map(|(end, which)| Step::Finish(end, which)),
        4 => (0_usize..2, 0_usize..1_000).prop_map(|(end, len)| Step::Open(end, len)),
        restarts => (0_usize..2, 0_usize..8).prop_map(|(end, which)| Step::Reset(end, which)),
        restarts => (0_usize..2).prop_map(Step::Restart),
        30 => Just(Step::Run),
        5 => (0_u64..400).prop_map(Step::Wait),
        12 => (0_usize..2, 0_usize..8, 0_usize..2_000)
            .prop_map(|(end, which, len)| Step::Write(end, which, len)),
    ]
}

/// What the user at one end knows of a stream.
#[derive(Debug, Default)]
struct Known {
    is_initiator: bool,
    /// Which stream of the test it is: what its initiator wrote first.
    tag: Option<u32>,
    written: usize,
    read: usize,
    has_end: bool,
    is_finishing: bool,
}

struct Stage {
    bench: Bench,
    known: [BTreeMap<StreamId, Known>; 2],
    tags: u32,
    /// Who has read from a stream: which process there, and which of its streams.
    readers: BTreeMap<(u32, bool), (usize, u64, StreamId)>,
    /// Octets read, and written, by stream and direction.
    reads: BTreeMap<(u32, bool), usize>,
    writes: BTreeMap<(u32, bool), usize>,
    finished: Vec<(u32, bool)>,
    resets: Vec<(u32, Reason)>,
    processes: [u64; 2],
}

fn octet(tag: u32, by_initiator: bool, at: usize) -> u8 {
    if by_initiator && at < 4 {
        return tag.to_be_bytes()[at];
    }
    (tag as usize * 31 + at * 7 + at / 251 + usize::from(by_initiator)).to_le_bytes()[0]
}

impl Stage {
    fn new(configs: [Config; 2]) -> Self {
        Self {
            bench: Bench::of(configs),
            known: Default::default(),
            tags: 0,
            readers: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            finished: Vec::new(),
            resets: Vec::new(),
            processes: [0, 0],
        }
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Carry(which, fate) => self.bench.carry(which, fate),
            Step::Connect(end) => self.bench.connect(end),
            Step::Disconnect(end) => self.bench.disconnect(end),
            Step::Finish(end, which) => {
                if let Some(id) = self.known[end].keys().nth(which).copied() {
                    self.finish(end, id);
                }
            }
            Step::Open(end, len) => {
                let (now, slep) = (self.bench.now, &mut self.bench.ends[end].core);
                let options = Options { is_compressed: len % 2 == 1, ..Options::default() };
                let opened = slep.open(now, NODES[1 - end], Addresses::default(), options);
                if let Ok(id) = opened {
                    self.tags += 1;
                    let tag = Some(self.tags);
                    self.known[end]
                        .insert(id, Known { is_initiator: true, tag, ..Known::default() });
                    self.write(end, id, 4 + len);
                }
            }
            Step::Reset(end, which) => {
                if let Some(id) = self.known[end].keys().nth(which).copied() {
                    let known = self.known[end].remove(&id).unwrap();
                    self.resets.extend(known.tag.map(|tag| (tag, Reason::CANCELLED)));
                    self.bench.ends[end].core.reset(id, Reason::CANCELLED);
                }
            }
            Step::Restart(end) => {
                for known in std::mem::take(&mut self.known[end]).into_values() {
                    self.resets.extend(known.tag.map(|tag| (tag, Reason::RESTARTED)));
                }
                self.processes[end] += 1;
                self.bench.restart(end);
            }
            Step::Run => self.bench.run(),
            Step::Wait(seconds) => {
                self.bench.now += Duration::from_secs(seconds);
                self.bench.run();
            }
            Step::Write(end, which, len) => {
                if let Some(id) = self.known[end].keys().nth(which).copied() {
                    self.write(end, id, len);
                }
            }
        }
        self.bench.run_to_nodes();
    }

    fn write(&mut self, end: usize, id: StreamId, len: usize) {
        let Some(known) = self.known[end].get_mut(&id) else { return };
        let Some(tag) = known.tag.filter(|_| !known.is_finishing) else { return };
        let octets: Vec<u8> = (known.written..known.written + len)
            .map(|at| octet(tag, known.is_initiator, at))
            .collect();
        known.written += self.bench.ends[end].core.write(id, &octets);
        self.writes.insert((tag, known.is_initiator), known.written);
    }

    fn finish(&mut self, end: usize, id: StreamId) {
        let Some(known) = self.known[end].get_mut(&id) else { return };
        known.is_finishing = true;
        self.bench.ends[end].core.finish(id);
    }

    /// The users at both ends read what there is.
    fn look(&mut self) -> Result<(), TestCaseError> {
        for end in 0..2 {
            for event in self.bench.events(end) {
                match event {
                    Event::Opened { stream, .. } => {
                        let is_compressed = stream.0 % 3 != 0;
                        let options = Options { is_compressed, ..Options::default() };
                        self.bench.ends[end].core.set_options(stream, options);
                        self.known[end].insert(stream, Known::default());
                    }
                    Event::Readable(id) => self.read(end, id)?,
                    Event::Finished(id) => {
                        let known = self.known[end].remove(&id).expect("known");
                        prop_assert!(known.has_end && known.is_finishing);
                        self.finished.extend(known.tag.map(|tag| (tag, known.is_initiator)));
                    }
                    Event::Reset(id, broken) => {
                        let known = self.known[end].remove(&id).expect("known");
                        self.resets.extend(known.tag.map(|tag| (tag, broken.reason)));
                    }
                    Event::Accepted(_)
                    | Event::Bound
                    | Event::Close(_)
                    | Event::Delivered(_)
                    | Event::OtherVersion { .. }
                    | Event::Refused(_)
                    | Event::Sealing { .. }
                    | Event::Unbound(_)
                    | Event::Undelivered(_)
                    | Event::Writable(_) => {}
                }
            }
        }
        self.bench.run_to_nodes();
        Ok(())
    }

    fn read(&mut self, end: usize, id: StreamId) -> Result<(), TestCaseError> {
        let Some(known) = self.known[end].get_mut(&id) else { return Ok(()) };
        let mut out = Vec::new();
        let read = self.bench.ends[end].core.read(id, &mut out, usize::MAX);
        prop_assert_eq!(read.octets, out.len());
        known.has_end |= read.is_end;
        if out.is_empty() {
            return Ok(());
        }
        if known.tag.is_none() {
            prop_assert!(out.len() >= 4, "the first part has the tag");
            known.tag = Some(u32::from_be_bytes([out[0], out[1], out[2], out[3]]));
        }
        let tag = known.tag.expect("was set");
        for (at, found) in (known.read..).zip(&out) {
            prop_assert_eq!(*found, octet(tag, !known.is_initiator, at), "{} of {}", at, tag);
        }
        known.read += out.len();
        let who = (end, self.processes[end], id);
        let reader = *self.readers.entry((tag, !known.is_initiator)).or_insert(who);
        prop_assert_eq!(reader, who, "{} was taken twice", tag);
        self.reads.insert((tag, !known.is_initiator), known.read);
        Ok(())
    }

    /// All is well from now on, and users finish all streams.
    fn heal(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..2_000 {
            for end in 0..2 {
                self.bench.connect(end);
                for id in self.known[end].keys().copied().collect::<Vec<_>>() {
                    self.finish(end, id);
                }
            }
            self.bench.deliver();
            self.look()?;
            let is_over = self.known.iter().all(BTreeMap::is_empty);
            if is_over && self.bench.air.is_empty() {
                break;
            }
            if self.bench.air.is_empty() {
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
    let times = Config::default().times;
    let give_up = Duration::from_secs(10_000_000);
    Config { mtu: 200, window: 40, times: Times { give_up, ..times }, ..Config::default() }
}

fn check(steps: &[Step], may_restart: bool, configs: [Config; 2]) -> Result<(), TestCaseError> {
    let mut stage = Stage::new(configs);
    if !may_restart {
        // Both come to know which process is at the other end.
        stage.act(&Step::Open(0, 10));
        stage.bench.deliver();
        stage.look()?;
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
        let stats = end.core.stats();
        let levels = (stats.live, stats.unacknowledged, stats.unread, stats.unconfirmed);
        prop_assert_eq!(levels, (0, 0, 0, 0));
    }
    if !may_restart {
        prop_assert_eq!(&stage.resets, &[]);
    }
    for (tag, by_initiator) in &stage.finished {
        // Who has finished knows that the other end has all.
        let key = (*tag, *by_initiator);
        let written = stage.writes.get(&key).copied().unwrap_or_default();
        let read = stage.reads.get(&key).copied().unwrap_or_default();
        let was_told = stage.resets.iter().any(|(reset, _)| reset == tag);
        prop_assert!(read == written || was_told, "{tag}: {read} of {written}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn each_octet_arrives_once_and_in_order_if_no_process_restarts(
        steps in prop::collection::vec(step(false), 0..250),
    ) {
        check(&steps, false, [config(), config()])?;
    }

    #[test]
    fn a_stream_arrives_once_or_is_told_to_be_broken_if_processes_restart(
        steps in prop::collection::vec(step(true), 0..250),
    ) {
        check(&steps, true, [config(), config()])?;
    }

    #[test]
    fn the_same_holds_between_members_of_a_group(
        steps in prop::collection::vec(step(false), 0..250),
    ) {
        check(&steps, false, members(&config()))?;
    }

    #[test]
    fn the_same_holds_between_members_of_a_group_that_restart(
        steps in prop::collection::vec(step(true), 0..250),
    ) {
        check(&steps, true, members(&config()))?;
    }
}
