//! How soon programs learn that a gateway, or the nodes, were killed during their transfers.
//!
//! ```text
//!  programs ═ Gateway ─ Node ~~ half-duplex radio ~~ Node ─ Gateway ═ programs
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use crate::hfpep::{Config, Event, HfPep, Opening, SessionId, Target};
use crate::s5066::Address;
use crate::s5066::node;
use crate::s5066::node::tests::pair::{Pair, Side};
use crate::slep::tests::bench::Above;
use crate::slep::{Options, Reason};

/// Octets that the talkative side of a connection says.
const MUCH: usize = 150_000;
/// What a program says otherwise.
const LITTLE: usize = 4;
const WAVEFORM: &str = "240000";
/// Octets on the air in a second.
const SPEED: u64 = 30_000;
/// From the end of a process until its successor runs.
const RESTART: Duration = Duration::from_millis(300);
/// How long a short message and its answer take when nobody transmits.
const EXCHANGE: Duration = Duration::from_millis(2_500);
const NODES: [Address; 2] = [Address::node(0x0a_141e), Address::node(0x0a_141f)];

/// What is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Victim {
    Gateway(Side),
    /// Both nodes.
    Nodes,
}

impl Victim {
    /// How long the air may be occupied at the restart, because nobody can interrupt a transmission: by one that had
    /// begun, and by the turn of the other node after it. Both carry data of before the kill. The nodes end theirs when
    /// they are killed.
    fn air(self) -> Duration {
        let octets = match self {
            Self::Gateway(_) => KINDS.len() * MUCH,
            Self::Nodes => 0,
        };
        // Headers are less than 8 %.
        Duration::from_millis(octets as u64 * 1_080 / SPEED)
    }

    /// How long everything takes once nobody transmits.
    fn exchange(self) -> Duration {
        match self {
            Self::Gateway(_) => EXCHANGE,
            // A call, perhaps into the other node's so that it is repeated, its answer with a question, and a first piece
            // each way.
            Self::Nodes => EXCHANGE * 3,
        }
    }
}

/// What the client and the server do, by the port of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The server says much and ends.
    Download,
    /// The client says much and ends; the server answers.
    Upload,
}

/// Two downloads and an upload.
const KINDS: [Kind; 3] = [Kind::Download, Kind::Download, Kind::Upload];

fn kind_of(port: u16) -> Kind {
    KINDS[usize::from(port) % KINDS.len()]
}

/// A program of a gateway's host, which reads and writes at once.
#[derive(Clone, Copy, Debug)]
struct Program {
    port: u16,
    is_server: bool,
    unsaid: usize,
    heard: usize,
    ended: Option<Result<(), Reason>>,
}

impl Program {
    fn new(port: u16, is_server: bool) -> Self {
        let is_talkative = is_server == (kind_of(port) == Kind::Download);
        let unsaid = if is_talkative { MUCH } else { LITTLE };
        Self { port, is_server, unsaid, heard: 0, ended: None }
    }

    /// Whether it says something now.
    fn may_talk(&self) -> bool {
        !self.is_server
            || self.heard >= LITTLE && kind_of(self.port) == Kind::Download
            || self.ended.is_some()
    }

    /// Whether it ends its direction when it has said all: who downloads waits for the end of the answer.
    fn may_finish(&self) -> bool {
        self.is_server || kind_of(self.port) == Kind::Upload || self.ended.is_some()
    }

    /// Octets that the other program says.
    fn expected(&self) -> usize {
        Self::new(self.port, !self.is_server).unsaid
    }
}

/// A gateway's HF-PEP and its programs, and what the gateway notes for its successor.
#[derive(Debug)]
struct Gateway {
    now: Time,
    pep: HfPep,
    programs: BTreeMap<SessionId, Program>,
    companions: BTreeMap<Address, Option<u16>>,
    /// The nodes that its predecessor had streams with.
    before: Vec<Address>,
}

impl Gateway {
    fn successor(&self, now: Time, rng: Rng) -> Self {
        let mut next = Self::start(now, config(), rng);
        next.pep.succeed(self.pep.slep().epoch());
        for (node, process) in &self.companions {
            if let Some(process) = *process {
                next.pep.recall(now, *node, process);
            }
        }
        next.before = self.companions.keys().copied().collect();
        next
    }

    fn begin(&mut self, now: Time, port: u16) {
        self.now = now;
        let (source, destination) = (([10, 1, 0, 9], port).into(), ([10, 2, 0, 1], port).into());
        let opening = Opening { target: Target::Address { source, destination }, tls: None };
        let session = self.pep.open(now, NODES[1], opening, Options::default()).unwrap();
        self.companions.entry(NODES[1]).or_default();
        self.add(session, Program::new(port, false));
    }

    fn add(&mut self, session: SessionId, program: Program) {
        self.programs.insert(session, program);
        self.go_on(session);
    }

    /// Lets a program read and write.
    fn go_on(&mut self, session: SessionId) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        let mut octets = Vec::new();
        let read = self.pep.read(self.now, session, &mut octets, usize::MAX);
        program.heard += read.octets;
        if read.is_end {
            program.ended.get_or_insert(Ok(()));
            self.pep.confirm_end(self.now, session);
        }
        if program.may_talk() {
            let octets = vec![7; program.unsaid];
            program.unsaid -= self.pep.write(self.now, session, &octets);
            if program.unsaid == 0 && program.may_finish() {
                self.pep.finish(self.now, session);
            }
        }
    }

    fn settle(&mut self, now: Time) {
        self.now = now;
        while let Some(event) = self.pep.poll_event() {
            match event {
                Event::Bound => {
                    for node in std::mem::take(&mut self.before) {
                        self.pep.announce(now, node);
                    }
                }
                Event::Connect { session, from, opening } => {
                    let Target::Address { destination, .. } = opening.target else { continue };
                    self.companions.entry(from).or_default();
                    self.pep.accept(session);
                    self.add(session, Program::new(destination.port(), true));
                }
                Event::Readable(session) | Event::Writable(session) => self.go_on(session),
                Event::Reset(session, broken) => {
                    if let Some(program) = self.programs.get_mut(&session) {
                        program.ended.get_or_insert(Err(broken.reason));
                    }
                }
                _ => {}
            }
        }
        for (node, process) in self.pep.slep().companions() {
            if let Some(known) = self.companions.get_mut(&node) {
                *known = process.or(*known);
            }
        }
    }
}

impl Above for Gateway {
    type Config = Config;
    type Event = Event;

    fn start(now: Time, config: Config, rng: Rng) -> Self {
        let pep = HfPep::new(now, config, rng);
        let (programs, companions, before) = <(BTreeMap<_, _>, BTreeMap<_, _>, Vec<_>)>::default();
        Self { now, pep, programs, companions, before }
    }
    fn handle_connected(&mut self, now: Time) {
        self.pep.handle_connected(now);
        self.settle(now);
    }
    fn handle_disconnected(&mut self, now: Time) {
        self.pep.handle_disconnected(now);
        self.settle(now);
    }
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.pep.handle_octets(now, octets);
        self.settle(now);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.pep.handle_timeout(now);
        self.settle(now);
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let has_some = self.pep.poll_octets(now, out);
        self.settle(now);
        has_some
    }
    fn next_timeout(&self) -> Option<Time> {
        self.pep.next_timeout()
    }
}

fn config() -> Config {
    Config { confirms_ends: true, ..Config::default() }
}

fn begin(pair: &mut Pair<Gateway>, ports: impl Iterator<Item = u16>) {
    let now = pair.now;
    for port in ports {
        pair.client(Side::A).begin(now, port);
    }
}

/// The programs of both sides that use a port.
fn programs(pair: &mut Pair<Gateway>, port: u16) -> Vec<Program> {
    let of = |pair: &mut Pair<Gateway>, side| {
        let all = pair.client(side).programs.values().copied();
        all.filter(|program| program.port == port).collect::<Vec<_>>()
    };
    [of(pair, Side::A), of(pair, Side::B)].concat()
}

/// A connection that was there at a kill, from the restart on.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// How long it takes until the connection goes on, or all of its programs know that it does not.
    told: Duration,
    /// How long the air is occupied by the transmission that was under way at the restart and the next turn.
    air: Duration,
    /// Whether both nodes transmitted at the same time, so that everything was sent again.
    has_collided: bool,
}

/// Kills a gateway and starts its successor.
fn restart(pair: &mut Pair<Gateway>, side: Side) {
    pair.disconnect(side);
    pair.run(RESTART);
    let now = pair.now;
    let rng = Rng::stream(now.as_nanos(), "next");
    *pair.client(side) = pair.client(side).successor(now, rng);
    pair.connect(side);
}

/// How long the air is silent between the turns of two nodes, at most.
const TURN: Duration = Duration::from_millis(700);

/// The transmission that was under way at the restart, and the one after it.
const MOST_TURNS: u32 = 2;

/// Kills something that long after three transfers have begun. Transmissions last no longer than `longest`.
fn waits(victim: Victim, after: Duration, longest: Duration) -> Vec<Wait> {
    let shorten = |config: &mut node::Config| config.longest = config.longest.min(longest);
    let mut pair = Pair::<Gateway>::of(WAVEFORM, shorten, [config(), config()]);
    // By now each gateway knows which process is at the other.
    for round in 0..3 {
        begin(&mut pair, 3 * round..3 * round + 3);
        pair.run(Duration::from_secs(60));
    }
    let whole = pair.client(Side::A).programs.values().filter(|it| it.ended == Some(Ok(())));
    assert_eq!(whole.count(), 9);
    let ports = 9..12;
    begin(&mut pair, ports.clone());
    pair.run(after);

    let both = [Side::A, Side::B];
    match victim {
        Victim::Gateway(side) => restart(&mut pair, side),
        Victim::Nodes => {
            both.into_iter().for_each(|side| pair.restart_node(side));
            pair.run(RESTART);
            both.into_iter().for_each(|side| pair.connect(side));
        }
    }
    let restarted = pair.now;
    let heard = |all: &[Program]| all.iter().map(|it| it.heard).sum::<usize>();
    let before: Vec<_> = ports.clone().map(|port| heard(&programs(&mut pair, port))).collect();
    let mut waits = BTreeMap::new();
    let (mut air, mut turns, mut was_busy, mut has_collided) = (Duration::ZERO, 0, false, false);
    while waits.len() < before.len() && pair.now.since(restarted) < Duration::from_secs(60) {
        pair.run(Duration::from_millis(50));
        let since = pair.now.since(restarted);
        let is_busy = both.into_iter().any(|side| pair.is_transmitting(side));
        has_collided |= both.into_iter().all(|side| pair.is_transmitting(side));
        if is_busy && !was_busy {
            // A turn that comes later is not the next one.
            turns += if since <= air + TURN { 1 } else { MOST_TURNS + 1 };
        }
        was_busy = is_busy;
        if is_busy && turns <= MOST_TURNS {
            air = since;
        }
        for (port, before) in ports.clone().zip(&before) {
            let all = programs(&mut pair, port);
            if heard(&all) > *before || all.iter().all(|it| it.ended.is_some()) {
                waits.entry(port).or_insert(Wait { told: since, air, has_collided });
            }
        }
    }
    assert_eq!(waits.len(), before.len(), "{victim:?} after {after:?}: {waits:?}");
    pair.run(Duration::from_secs(120));
    for program in ports.flat_map(|port| programs(&mut pair, port)) {
        let is_right = match program.ended {
            Some(Ok(())) => program.heard == program.expected(),
            Some(Err(_)) => program.heard <= program.expected(),
            None => false,
        };
        assert!(is_right, "{victim:?} after {after:?}: {program:?}");
    }
    waits.into_values().collect()
}

/// The waits after kills at many moments, the shortest first; prints what `docs/guide/hfpep.md` says, for `--nocapture`.
fn all_waits(victim: Victim, longest: Duration) -> Vec<Wait> {
    let moments = (0..24).map(|quarter| Duration::from_millis(250) * quarter);
    let mut all: Vec<_> = moments.flat_map(|after| waits(victim, after, longest)).collect();
    all.sort_unstable_by_key(|wait| wait.told);
    let soon = all.iter().filter(|wait| wait.told < Duration::from_secs(5)).count();
    let [half, last] = [all.len() / 2, all.len() - 1].map(|at| all[at].told);
    let orderly = all.iter().filter(|wait| !wait.has_collided);
    let rest =
        orderly.clone().map(|wait| wait.told.saturating_sub(wait.air)).max().unwrap_or_default();
    println!(
        "{victim:?}, transmissions of {:.1?} at most: {soon} of {} below 5 s, half below {half:.1?}, all below \
         {last:.1?}; {} after a collision, the others at most {rest:.1?} after the turn under way and the next",
        victim.air().min(longest),
        all.len(),
        all.len() - orderly.count()
    );
    all
}

const VICTIMS: [Victim; 3] = [Victim::Gateway(Side::A), Victim::Gateway(Side::B), Victim::Nodes];

#[test]
fn who_must_be_told_of_a_kill_knows_when_the_transmission_under_way_has_ended() {
    for victim in VICTIMS {
        let all = all_waits(victim, Duration::MAX);

        for wait in all {
            // Nodes that start anew make their link by transmissions of their own.
            if victim != Victim::Nodes {
                assert!(wait.air <= victim.air() + TURN * 2, "{victim:?}: {wait:?}");
            }
            let air = if wait.has_collided { victim.air() } else { wait.air };
            assert!(wait.told <= air + victim.exchange(), "{victim:?}: {wait:?}");
        }
    }
}

#[test]
fn where_transmissions_are_short_servers_know_within_five_seconds_that_a_client_is_gone() {
    let all = all_waits(Victim::Gateway(Side::A), Duration::from_secs(2));

    let last = all[all.len() - 1];
    assert!(last.told <= Duration::from_secs(5), "{last:?}");
}

/// Runs until something holds, a minute at most, and returns how long that took.
fn run_until(pair: &mut Pair<Gateway>, holds: impl Fn(&mut Pair<Gateway>) -> bool) -> Duration {
    let began = pair.now;
    while !holds(pair) && pair.now.since(began) < Duration::from_secs(60) {
        pair.run(Duration::from_millis(50));
    }
    pair.now.since(began)
}

#[test]
fn a_gateway_killed_before_its_first_word_holds_up_neither_its_clients_nor_those_that_come_next() {
    let shorten = |config: &mut node::Config| config.longest = Duration::from_secs(1);
    let mut pair = Pair::<Gateway>::of(WAVEFORM, shorten, [config(), config()]);
    // The other gateway has heard of nobody there when it sends the upload.
    begin(&mut pair, 0..3);
    pair.run(Duration::from_secs(3));
    restart(&mut pair, Side::B);

    let told = run_until(&mut pair, |pair| {
        let clients = pair.client(Side::A).programs.values();
        clients.filter(|client| client.ended.is_none()).count() == 0
    });
    begin(&mut pair, 3..6);
    let begun = run_until(&mut pair, |pair| {
        (3..6).all(|port| programs(pair, port).iter().any(|it| it.is_server && it.heard > 0))
    });

    // Turns of 0.9 s go to and fro: the word of the successor, a question, an answer.
    assert!(told <= Duration::from_secs(5), "told after {told:?}");
    // The rest of the upload, 90 kB, would fill six turns.
    assert!(begun <= Duration::from_millis(2_500), "begun after {begun:?}");
}
